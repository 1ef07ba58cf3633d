// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: permissions and limits.
 *
 * A caller who could open an event now may detach it; limits apply without
 * CAP_PERFMON. Some drivers check the caller themselves, which cannot be
 * repeated, so their events need the capability. A session has an owner, a
 * group and a mode, as files have:
 *
 *   r	reopen instances, read counts and buffers
 *   w	control: SET, ATTACH, and join the session
 *   x	hold; w includes it
 *
 * CAP_PERFMON overrides the mode. If a session was created without it, the
 * caller must also be allowed to open the events now: one instance to read it,
 * or all if it shows others, and all to control or hold. If it was created with the capability,
 * the mode alone decides; it is 0 until a process with the capability sets it.
 */
#include <linux/init.h>
#include <linux/ptrace.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/sysctl.h>
#include <linux/trace_events.h>
#include <linux/user_namespace.h>

#include "persistent.h"

/* Instances of a user without the capability; user.max_perf_persistent */
#define PERF_PERSISTENT_USER		256

/* Share of all instances that is reserved for CAP_PERFMON: 1/4 */
#define PERF_PERSISTENT_RESERVE		4

/* Events of a buffer that are checked one by one; more of them need CAP_PERFMON */
#define PERF_PERSISTENT_SHARERS		1024

/* Instances in the system */
static atomic_t nr_instances_charged;

static unsigned int sysctl_perf_persistent_max = 65536;
static unsigned int sysctl_perf_persistent_max_ttl = 3600;

/*
 * The events of ftrace itself show the control flow of the kernel, even if they are
 * only counted. Other tracepoints reveal data in raw samples only. A task may have
 * raw samples about itself from tracepoints with TRACE_EVENT_FL_CAP_ANY.
 */
static unsigned int tracepoint_needs(struct perf_event *event)
{
	unsigned int flags = event->tp_event->flags;

	if (flags & TRACE_EVENT_FL_IGNORE_ENABLE)
		return PERF_NEED_TRACEPOINT;

	if (!(event->attr.sample_type & PERF_SAMPLE_RAW))
		return 0;

	return perf_persistent_target(event) && (flags & TRACE_EVENT_FL_CAP_ANY) ?
	       0 : PERF_NEED_TRACEPOINT;
}

/*
 * PERF_NEED_* for opening an event afresh. Some drivers check the caller
 * themselves, but only when an event is opened. Their events need CAP_PERFMON here.
 */
unsigned int perf_persistent_needs(struct perf_event *event)
{
	unsigned int needs = perf_event_needs(&event->attr);

	if (!perf_persistent_target(event))
		needs |= PERF_NEED_CPU;

	switch (event->orig_type) {
	case PERF_TYPE_HARDWARE:
	case PERF_TYPE_SOFTWARE:
	case PERF_TYPE_HW_CACHE:
		return needs;
	case PERF_TYPE_RAW:
		/* Drivers check this if the event counts for all threads of a core. */
		return needs | PERF_NEED_CPU;
	case PERF_TYPE_TRACEPOINT:
		return needs | tracepoint_needs(event);
	default:
		return needs | PERF_NEED_PERFMON;
	}
}

/*
 * Check the access to the target of an event, as perf_event_open() does for events without
 * sigtrap: it must have a pid in the caller's namespace. For a dead target, its last credentials
 * and dumpability decide.
 *
 * perf_event_open() keeps the target from exec() until the new event is in its context. This
 * event is there already: if exec() takes the right away, it ends the event before the new
 * program runs.
 */
static int may_open_target(struct perf_event *event, struct task_struct *task)
{
	const struct perf_persistent_instance *inst;
	bool visible;

	if (perfmon_capable())
		return 0;

	scoped_guard(mutex, &perf_persistent_mutex) {
		/* A dead task has no pid any more, but its instance has. */
		inst = perf_persistent_instance_of(event);
		visible = inst && inst->pid ? pid_vnr(inst->pid) : task_pid_vnr(task);
	}

	return visible && ptrace_may_access(task, PTRACE_MODE_READ_REALCREDS) ? 0 : -EACCES;
}

/* As perf_event_allow(), but without -EPERM, which means locked memory for DETACH */
static int allow(unsigned int needs)
{
	int err = perf_event_allow(needs);

	return err == -EPERM ? -EACCES : err;
}

/* Check that the caller could open an event afresh: 0, -EACCES, or a security module's error. */
int perf_persistent_may_open(struct perf_event *event)
{
	struct task_struct *target = perf_persistent_target(event);
	int err = allow(perf_persistent_needs(event));

	return err || !target ? err : may_open_target(event, target);
}

/* Check whether the records of an event may have the counts of its group. */
static bool records_group(const struct perf_event *event)
{
	const struct perf_event_attr *attr = &event->attr;

	return (attr->read_format & PERF_FORMAT_GROUP) &&
	       ((attr->sample_type & PERF_SAMPLE_READ) || attr->inherit_stat);
}

/* PERF_NEED_* of an event that is not in the session, for who may access @target, or no task */
static unsigned int outsider_needs(struct perf_event *event, struct task_struct *target)
{
	struct task_struct *other = perf_persistent_target(event);
	unsigned int needs = perf_persistent_needs(event);

	return other && (!target || !same_thread_group(target, other)) ?
	       needs | PERF_NEED_PERFMON : needs;
}

/* The same of the events of a group that are not in @session; *@nr counts all but the leader. */
static unsigned int group_needs(struct perf_event *leader,
				const struct perf_persistent_session *session,
				struct task_struct *target, unsigned int *nr)
{
	unsigned int needs = 0;
	struct perf_event *sibling;

	lockdep_assert_held(&leader->ctx->lock);

	if (!perf_persistent_instance_in(leader, session))
		needs |= outsider_needs(leader, target);

	for_each_sibling_event(sibling, leader) {
		/* Limit the time with interrupts off. */
		if (++*nr > PERF_PERSISTENT_SHARERS)
			return needs | PERF_NEED_PERFMON;
		if (!perf_persistent_instance_in(sibling, session))
			needs |= outsider_needs(sibling, target);
	}

	return needs;
}

/* The same of the events whose counts are in the records of @event */
static unsigned int record_needs(struct perf_event *event,
				 const struct perf_persistent_session *session,
				 struct task_struct *target, unsigned int *nr)
{
	struct perf_event_context *ctx;

	if (!records_group(event))
		return 0;

	guard(rcu)();

	/* Without a context, perf_event_open() has not put it into its group yet. */
	while ((ctx = READ_ONCE(event->ctx))) {
		guard(raw_spinlock_irqsave)(&ctx->lock);
		if (event->ctx == ctx)
			return group_needs(event->group_leader, session, target, nr);
	}

	return 0;
}

/* The same of the events that write to @rb or are in their records */
static unsigned int sharer_needs(struct perf_buffer *rb,
				 const struct perf_persistent_session *session,
				 struct task_struct *target)
{
	/* Unless it is delegated, the caller may access all targets of the session. */
	bool delegated = perf_persistent_is_delegated(session);
	unsigned int needs = 0, nr = 0;
	struct perf_event *other;

	lockdep_assert_held(&perf_persistent_mutex);
	/* RCU would keep the events, but not their targets. */
	guard(spinlock_irq)(&rb->event_lock);

	list_for_each_entry(other, &rb->event_list, rb_entry) {
		bool in = perf_persistent_instance_in(other, session);

		if (++nr > PERF_PERSISTENT_SHARERS)
			return needs | PERF_NEED_PERFMON;
		needs |= record_needs(other, session, in && !delegated ?
				      perf_persistent_target(other) : target, &nr);
		if (!in)
			needs |= outsider_needs(other, target);
	}

	return needs;
}

/*
 * Check that an event to be detached may bring its buffer into @session, which
 * the caller may control: 0 or -EACCES. The caller may access @target, or no task if it is NULL.
 *
 * A buffer shows the records of all events that write to it, which may have the
 * counts of groups, so the caller must be allowed to open those events that are
 * not in the session. Events that are redirected to the buffer or enter a group
 * later need no check: this takes the detached file, so it is done on purpose.
 */
int perf_persistent_may_share(struct perf_event *event,
			      const struct perf_persistent_session *session,
			      struct task_struct *target)
{
	struct perf_buffer *rb __free(ring_buffer_put) = ring_buffer_get(event);
	unsigned int needs, nr = 0;

	if (!rb && !records_group(event))
		return 0;

	/* Without a buffer, DETACH is about to give it one. */
	scoped_guard(mutex, &perf_persistent_mutex)
		needs = rb ? sharer_needs(rb, session, target) :
			     record_needs(event, session, target, &nr);

	/* Readers without the capability must not see events that they could not open. */
	if (perfmon_capable() && !(READ_ONCE(session->flags) & PERF_PERSISTENT_PRIVILEGED) &&
	    needs & ~(READ_ONCE(session->needs) | perf_persistent_needs(event)))
		return -EACCES;

	return allow(needs);
}

/* Check that the mode or CAP_PERFMON gives the caller all rights in the mask @right. */
bool perf_persistent_mode_allows(const struct perf_persistent_session *session,
				 unsigned int right)
{
	umode_t mode;

	if (perfmon_capable())
		return true;

	/* SET changes owner, group and mode at once. */
	guard(mutex)(&perf_persistent_mutex);

	mode = session->mode;
	if (uid_eq(session->uid, current_euid()))
		mode >>= 6;
	else if (in_egroup_p(session->gid))
		mode >>= 3;

	/* Control includes disabling, which does more than holding. */
	if (mode & PERF_PERSISTENT_CONTROL)
		mode |= PERF_PERSISTENT_HOLD;

	return (mode & right) == right;
}

/* Check whether the mode alone decides what the caller may do. */
bool perf_persistent_is_delegated(const struct perf_persistent_session *session)
{
	return (READ_ONCE(session->flags) & PERF_PERSISTENT_PRIVILEGED) && !perfmon_capable();
}

/* If the session is delegated, only the mode and lockdown decide. */
static int session_allow(const struct perf_persistent_session *session)
{
	unsigned int mask = perf_persistent_is_delegated(session) ? PERF_NEED_REGS : ~0U;

	return allow(READ_ONCE(session->needs) & mask);
}

static int may_open_all(struct perf_persistent_session *session)
{
	struct perf_event *event;
	int err = 0;

	for_each_persistent_event(event, session, 0, !err)
		err = fatal_signal_pending(current) ? -EINTR : perf_persistent_may_open(event);

	return err;
}

/* Check whether the group or the buffer of an event shows other events. */
static bool shows_others(struct perf_event *event)
{
	struct perf_buffer *rb __free(ring_buffer_put) = ring_buffer_get(event);

	if (READ_ONCE(event->nr_siblings) || READ_ONCE(event->group_leader) != event)
		return true;

	if (!rb)
		return false;

	guard(spinlock_irq)(&rb->event_lock);

	return !list_is_singular(&rb->event_list);
}

/*
 * Check that the caller may reopen an instance: 0, -EACCES, or an error of
 * perf_persistent_may_open(). *@all caches the result for the session; it is 1 at first.
 */
int perf_persistent_may_read(struct perf_persistent_session *session, struct perf_event *event,
			     int *all)
{
	bool delegated = perf_persistent_is_delegated(session);
	int err;

	if (perfmon_capable())
		return allow(READ_ONCE(session->needs));

	if (!perf_persistent_mode_allows(session, PERF_PERSISTENT_READ))
		return -EACCES;

	/* For example, an instance that was attached goes on writing to the shared buffer. */
	err = perf_persistent_may_share(event, session,
					delegated ? NULL : perf_persistent_target(event));
	if (err)
		return err;

	/* Lockdown also restricts users to whom the session is delegated. */
	if (delegated)
		return session_allow(session);

	/* Also if @all is known: the event may have joined since then. */
	err = perf_persistent_may_open(event);
	if (err || !shows_others(event))
		return err;

	if (*all > 0)
		*all = may_open_all(session);

	return *all;
}

/* Check for the rights in @right, to control or hold; errors as above */
int perf_persistent_may_change(struct perf_persistent_session *session, unsigned int right)
{
	if (!perf_persistent_mode_allows(session, right))
		return -EACCES;

	return perfmon_capable() || perf_persistent_is_delegated(session) ?
	       session_allow(session) : may_open_all(session);
}

/*
 * Lock perf_persistent_session::control: 0, -EACCES or -ERESTARTSYS. The caller checks the
 * rights to the instances, which may take long, with the lock held.
 */
int perf_persistent_control_begin(struct perf_persistent_session *session, unsigned int right)
{
	/* Callers without the right do not get to wait for it, and keep nobody waiting. */
	if (!perf_persistent_mode_allows(session, right))
		return -EACCES;
	/* Others may hold it for long, if the session has many instances. */
	return mutex_lock_interruptible(&session->control) ? -ERESTARTSYS : 0;
}

/*
 * Check that the caller may open a file of the session; each operation checks
 * for the right that it needs. The owner of a session that is not privileged
 * may always open one, in order to change the mode.
 */
bool perf_persistent_may_open_session(struct perf_persistent_session *session)
{
	if (perf_persistent_mode_allows(session, PERF_PERSISTENT_READ) ||
	    perf_persistent_mode_allows(session, PERF_PERSISTENT_HOLD))
		return true;

	return !(READ_ONCE(session->flags) & PERF_PERSISTENT_PRIVILEGED) &&
	       uid_eq(READ_ONCE(session->uid), current_euid());
}

/*
 * Check for control of a session, by a file that was opened from it: access to the targets was
 * checked then.
 */
int perf_persistent_may_write(const struct perf_persistent_session *session)
{
	return perf_persistent_mode_allows(session, PERF_PERSISTENT_CONTROL) ?
	       session_allow(session) : -EACCES;
}

/*
 * Check that a view of @session may map the buffer of its event read-only. The rights to the
 * session were checked when @nr_joined instances had joined it, but the buffer may show any that
 * joined later. Returns 0; -EACCES, also if the event has left the session; an error of
 * perf_persistent_may_read(); or -ENODEV if the event has ended.
 */
int perf_persistent_may_map(struct perf_persistent_session *session, struct perf_event *event,
			    u32 nr_joined)
{
	struct perf_persistent_instance *inst;
	int all = 1;

	scoped_guard(mutex, &perf_persistent_mutex) {
		inst = perf_persistent_instance_of(event);
		if (!inst)
			return READ_ONCE(event->persistent->ended) ? -ENODEV : -EACCES;
		if (perfmon_capable())
			return 0;
		if (inst->session != session)
			return -EACCES;
	}
	if (READ_ONCE(session->next_instance) == nr_joined || !shows_others(event))
		return 0;

	/*
	 * Do not walk the instances: the walk may drop the last reference to one of them, and
	 * freeing a uprobe takes mmap_lock, which the caller holds.
	 */
	return perf_persistent_is_delegated(session) ?
	       perf_persistent_may_read(session, event, &all) : -EACCES;
}

/*
 * Check a time to live, and replace it by its end, CLOCK_BOOTTIME in ns. 0 is the default: no
 * limit, or the maximum without CAP_PERFMON.
 */
int perf_persistent_check_ttl(u64 *ttl)
{
	u64 max = (u64)READ_ONCE(sysctl_perf_persistent_max_ttl) * NSEC_PER_SEC;

	if (perfmon_capable())
		max = KTIME_MAX / 2;
	else if (!*ttl)
		*ttl = max;
	if (*ttl > max)
		return -EINVAL;
	if (*ttl)
		*ttl += ktime_get_boottime_ns();

	return 0;
}

void perf_persistent_uncharge(struct perf_persistent_instance *inst)
{
	if (inst->ucounts)
		dec_ucount(inst->ucounts, UCOUNT_PERF_PERSISTENT);
	atomic_dec(&nr_instances_charged);
}

/* Charge a new instance to the limits: 0 or -EAGAIN. */
int perf_persistent_charge(struct perf_persistent_instance *inst)
{
	unsigned int max = READ_ONCE(sysctl_perf_persistent_max);

	/* First, so that attempts beyond the user's limit do not use up the global one. */
	if (!perfmon_capable()) {
		max -= max / PERF_PERSISTENT_RESERVE;
		inst->ucounts = inc_ucount(current_user_ns(), current_euid(),
					   UCOUNT_PERF_PERSISTENT);
		if (!inst->ucounts)
			return -EAGAIN;
	}

	if (atomic_inc_return(&nr_instances_charged) <= max)
		return 0;

	perf_persistent_uncharge(inst);

	return -EAGAIN;
}

static struct ctl_table perf_persistent_sysctls[] = {
	{
		.procname	= "perf_event_persistent_max",
		.data		= &sysctl_perf_persistent_max,
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		/* Compared with nr_instances_charged, which is an int */
		.proc_handler	= proc_douintvec_minmax,
		.extra2		= SYSCTL_INT_MAX,
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
	/* Other user namespaces are limited by their parents. */
	init_user_ns.ucount_max[UCOUNT_PERF_PERSISTENT] = PERF_PERSISTENT_USER;
	register_sysctl_init("kernel", perf_persistent_sysctls);

	return 0;
}
device_initcall(perf_persistent_access_init);
