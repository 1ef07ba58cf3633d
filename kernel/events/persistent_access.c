// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: who may do what, and how much.
 *
 * Whoever may open an event may detach it, within limits for those without
 * CAP_PERFMON. What is in the registry belongs to the effective user who put it
 * there, and gives its owner no more than opening the event afresh would.
 */
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/sched/user.h>
#include <linux/sysctl.h>
#include <linux/trace_events.h>

#include "internal.h"
#include "persistent.h"

/* Instances in the system */
static atomic_t perf_persistent_count;

static unsigned int sysctl_perf_persistent_max = 65536;
static unsigned int sysctl_perf_persistent_max_user = 256;
static unsigned int sysctl_perf_persistent_max_ttl = 3600;

/*
 * Raw samples show what a tracepoint saw, but for those that a task may see of
 * its own, and the events of ftrace itself show where the kernel went; merely to
 * count the others is no secret.
 */
static unsigned int perf_tracepoint_needs(struct perf_event *event)
{
	unsigned int flags = 0;

#ifdef CONFIG_EVENT_TRACING
	flags = event->tp_event->flags;
#endif
	if (flags & TRACE_EVENT_FL_IGNORE_ENABLE)
		return PERF_NEED_TRACEPOINT;

	if (!(event->attr.sample_type & PERF_SAMPLE_RAW))
		return 0;

	return perf_event_target(event) && (flags & TRACE_EVENT_FL_CAP_ANY) ?
	       0 : PERF_NEED_TRACEPOINT;
}

/*
 * What opening one event afresh would need. Drivers that check the caller for
 * themselves do so only then; their events need the capability.
 */
static unsigned int perf_event_reopen_needs(struct perf_event *event)
{
	unsigned int needs = perf_event_needs(&event->attr);

	if (!perf_event_target(event))
		needs |= PERF_NEED_CPU;

	switch (event->opened.type) {
	case PERF_TYPE_HARDWARE:
	case PERF_TYPE_SOFTWARE:
	case PERF_TYPE_HW_CACHE:
	case PERF_TYPE_RAW:
		return needs;
	case PERF_TYPE_TRACEPOINT:
		return needs | perf_tracepoint_needs(event);
	default:
		return needs | PERF_NEED_PERFMON;
	}
}

/*
 * Whether the caller may look into the target of an event. A dead one is judged
 * by the credentials and the dumpability that it died with.
 */
static int perf_target_may_reopen(struct perf_event_attr *attr, struct task_struct *task)
{
	bool allowed;
	int err;

	/* What the target may do must not change as we look at it. */
	err = down_read_interruptible(&task->signal->exec_update_lock);
	if (err)
		return err;
	allowed = perf_check_permission(attr, task);
	up_read(&task->signal->exec_update_lock);

	return allowed ? 0 : -EACCES;
}

/*
 * Everything that has to be allowed at once. Targets that there is no room for are
 * only counted.
 */
struct perf_reopen_check {
	unsigned int		needs;
	unsigned int		nr_targets;
	unsigned int		max_targets;
	struct task_struct	**targets;
	struct task_struct	*last;
};

static void perf_reopen_check_add(struct perf_reopen_check *check, struct perf_event *event)
{
	struct task_struct *target = perf_event_target(event);

	check->needs |= perf_event_reopen_needs(event);
	if (!target || target == check->last)
		return;

	if (check->nr_targets < check->max_targets)
		check->targets[check->nr_targets] = get_task_struct(target);
	check->nr_targets++;
	check->last = target;
}

/* Siblings need not have their leader's target: contexts that are equal are swapped. */
static void perf_reopen_check_group(struct perf_reopen_check *check, struct perf_event *event)
{
	struct perf_event *leader, *sibling;
	struct perf_event_context *ctx;

	/* Without siblings, those that come later are as if they came after all this. */
	if (event->group_leader == event && !READ_ONCE(event->nr_siblings)) {
		perf_reopen_check_add(check, event);
		return;
	}

	ctx = perf_event_ctx_lock(event);
	leader = event->group_leader;
	perf_reopen_check_add(check, leader);
	for_each_sibling_event(sibling, leader)
		perf_reopen_check_add(check, sibling);
	perf_event_ctx_unlock(event, ctx);
}

static void perf_reopen_check_sharers(struct perf_reopen_check *check, struct perf_event *event)
{
	struct perf_buffer *rb;
	unsigned long flags;

	rb = READ_ONCE(event->rb) ? ring_buffer_get(event) : NULL;
	if (!rb)
		return;

	/* RCU would keep the events, but not their targets. */
	spin_lock_irqsave(&rb->event_lock, flags);
	list_for_each_entry(event, &rb->event_list, rb_entry)
		perf_reopen_check_add(check, event);
	spin_unlock_irqrestore(&rb->event_lock, flags);
	ring_buffer_put(rb);
}

static int perf_reopen_check_all(struct perf_reopen_check *check, struct perf_event *event)
{
	int err = perf_event_allow(check->needs);

	for (unsigned int i = 0; !err && i < check->nr_targets; i++)
		err = perf_target_may_reopen(&event->attr, check->targets[i]);

	/* EPERM means locked memory to those who call DETACH */
	return err == -EPERM ? -EACCES : err;
}

/* Return: as perf_event_may_reopen(), or how many targets there has to be room for */
static int perf_reopen_try(struct perf_event *event, struct task_struct **targets, int max)
{
	struct perf_reopen_check check = { .targets = targets, .max_targets = max };
	int ret;

	perf_reopen_check_group(&check, event);
	perf_reopen_check_sharers(&check, event);
	if (check.nr_targets > max) {
		ret = check.nr_targets;
		check.nr_targets = max;
	} else {
		ret = perf_reopen_check_all(&check, event);
	}

	while (check.nr_targets)
		put_task_struct(targets[--check.nr_targets]);

	return ret;
}

/**
 * perf_event_may_reopen - whether the caller could open an event afresh
 * @event: event
 *
 * PERF_FORMAT_GROUP shows the whole group, and the buffer all that share it, so
 * that all of them have to be allowed, with their targets.
 *
 * Context: may sleep; perf_persistent_mutex is not held.
 * Return: 0, -EACCES, -ENOMEM, -EINTR or what a security module answers
 */
int perf_event_may_reopen(struct perf_event *event)
{
	struct task_struct **targets, *only;
	int ret = perf_reopen_try(event, &only, 1);

	/* Again if others came to the group or the buffer meanwhile */
	while (ret > 0) {
		if (fatal_signal_pending(current))
			return -EINTR;
		targets = kvmalloc_array(ret, sizeof(*targets), GFP_KERNEL);
		if (!targets)
			return -ENOMEM;
		ret = perf_reopen_try(event, targets, ret);
		kvfree(targets);
	}

	return ret;
}

/**
 * perf_persistent_is_owned - whether an id is the caller's
 * @pp: id
 *
 * Who may join, reopen, control or attach is its owner or has CAP_PERFMON; and
 * perf_event_may_reopen(). The capability passes what is asked of the owner
 * there, but not security modules.
 *
 * Return: true if it is, or the caller has the capability
 */
bool perf_persistent_is_owned(const struct perf_persistent *pp)
{
	return uid_eq(pp->owner, current_euid()) || perfmon_capable();
}

/**
 * perf_persistent_check_ttl - hold a time to live against the limit
 * @ttl: ns, or 0 for the default: none for those who may, the longest for others
 *
 * Return: 0 or -EINVAL
 */
int perf_persistent_check_ttl(u64 *ttl)
{
	u64 max = (u64)READ_ONCE(sysctl_perf_persistent_max_ttl) * NSEC_PER_SEC;

	if (perfmon_capable())
		return *ttl > KTIME_MAX / 2 ? -EINVAL : 0;

	if (!*ttl)
		*ttl = max;

	return *ttl > max ? -EINVAL : 0;
}

static bool perf_count_inc(atomic_t *count, unsigned int max)
{
	if (atomic_inc_return(count) <= max)
		return true;

	atomic_dec(count);
	return false;
}

/**
 * perf_instance_charge - count an instance against the limits
 * @inst: new instance
 *
 * Return: 0 or -EAGAIN
 */
int perf_instance_charge(struct perf_instance *inst)
{
	struct user_struct *user = current_user();

	if (!perf_count_inc(&perf_persistent_count, READ_ONCE(sysctl_perf_persistent_max)))
		return -EAGAIN;

	if (perfmon_capable())
		return 0;

	if (!perf_count_inc(&user->nr_perf_persistent,
			    READ_ONCE(sysctl_perf_persistent_max_user))) {
		atomic_dec(&perf_persistent_count);
		return -EAGAIN;
	}
	inst->user = get_uid(user);

	return 0;
}

/**
 * perf_instance_uncharge - undo perf_instance_charge()
 * @inst: instance
 */
void perf_instance_uncharge(struct perf_instance *inst)
{
	if (inst->user) {
		atomic_dec(&inst->user->nr_perf_persistent);
		free_uid(inst->user);
	}
	atomic_dec(&perf_persistent_count);
}

static struct ctl_table perf_persistent_sysctls[] = {
	{
		.procname	= "perf_event_persistent_max",
		.data		= &sysctl_perf_persistent_max,
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec,
	},
	{
		.procname	= "perf_event_persistent_max_user",
		.data		= &sysctl_perf_persistent_max_user,
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec,
	},
	{
		.procname	= "perf_event_persistent_max_ttl",
		.data		= &sysctl_perf_persistent_max_ttl,
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		/* 0 would be no limit */
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ONE,
	},
};

static int __init perf_persistent_access_init(void)
{
	register_sysctl_init("kernel", perf_persistent_sysctls);

	return 0;
}
device_initcall(perf_persistent_access_init);
