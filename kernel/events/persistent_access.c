// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: who may do what, and how much.
 *
 * Whoever may open an event may detach it, within limits for those without
 * CAP_PERFMON. What is in the registry belongs to the effective user who put it
 * there, and gives its owner no more than opening the event afresh would.
 */
#include <linux/init.h>
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
 * Raw samples show what a tracepoint saw, and the events of ftrace itself where
 * the kernel went; merely to count the others is no secret.
 */
static unsigned int perf_tracepoint_needs(struct perf_event *event)
{
	if (event->orig_attr.sample_type & PERF_SAMPLE_RAW)
		return PERF_NEED_TRACEPOINT;
#ifdef CONFIG_EVENT_TRACING
	if (event->tp_event->flags & TRACE_EVENT_FL_IGNORE_ENABLE)
		return PERF_NEED_TRACEPOINT;
#endif
	return 0;
}

/*
 * What opening one event afresh would need. Drivers that check the caller for
 * themselves do so only then; their events need the capability.
 */
static unsigned int perf_event_reopen_needs(struct perf_event *event)
{
	const struct perf_event_attr *attr = &event->orig_attr;
	unsigned int needs = perf_event_needs(attr) | PERF_NEED_CPU;

	switch (attr->type) {
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

/**
 * perf_event_may_reopen - whether the caller could open an event afresh
 * @event: event
 *
 * PERF_FORMAT_GROUP shows the whole group, and the buffer all that share it, so
 * that all of them have to be allowed.
 *
 * Return: 0, -EACCES or what a security module answers
 */
int perf_event_may_reopen(struct perf_event *event)
{
	struct perf_event *leader, *other;
	struct perf_event_context *ctx;
	struct perf_buffer *rb;
	unsigned int needs;
	int err;

	needs = perf_event_reopen_needs(event);

	ctx = perf_event_ctx_lock(event);
	leader = event->group_leader;
	needs |= perf_event_reopen_needs(leader);
	for_each_sibling_event(other, leader)
		needs |= perf_event_reopen_needs(other);
	perf_event_ctx_unlock(event, ctx);

	rb = ring_buffer_get(event);
	if (rb) {
		rcu_read_lock();
		list_for_each_entry_rcu(other, &rb->event_list, rb_entry)
			needs |= perf_event_reopen_needs(other);
		rcu_read_unlock();
		ring_buffer_put(rb);
	}

	/* EPERM means locked memory to those who call DETACH */
	err = perf_event_allow(needs);
	return err == -EPERM ? -EACCES : err;
}

/**
 * perf_persistent_allow - whether the caller may join, reopen, control, attach
 * @pp:	   id
 * @event: event that is or will be in it
 *
 * That takes to be the owner or CAP_PERFMON, and to be allowed the event now:
 * the capability passes the owner's checks, but not those of security modules.
 *
 * Return: 0, -EACCES or what a security module answers
 */
int perf_persistent_allow(struct perf_persistent *pp, struct perf_event *event)
{
	lockdep_assert_held(&perf_persistent_mutex);

	if (!uid_eq(pp->owner, current_euid()) && !perfmon_capable())
		return -EACCES;

	return perf_event_may_reopen(event);
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
