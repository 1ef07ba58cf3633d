// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: DETACH and ATTACH.
 *
 * Everything is allocated before the context of the event is locked.
 */
#include <linux/fs.h>
#include <linux/sched/signal.h>
#include <linux/security.h>
#include <linux/slab.h>

#include <trace/events/perf_persistent.h>

#include "persistent.h"

static int copy_detach(struct perf_persistent_detach *d, unsigned int cmd, unsigned long arg)
{
	struct perf_event_detach *args = &d->args;
	int err = arg ? perf_persistent_copy_struct(args, sizeof(*args),
						    PERF_EVENT_DETACH_SIZE_VER0, cmd, arg) : 0;

	if (err)
		return err;

	if ((args->flags & ~PERF_PERSISTENT_DETACH_ALL) || args->member >= PERF_PERSISTENT_MEMBERS)
		return -EINVAL;
	/* Name, time to live and flags are those of the existing session. */
	if (args->id && (args->name || args->ttl || args->flags))
		return -EINVAL;

	err = perf_persistent_copy_name(d->name, args->name) ?:
	      perf_persistent_copy_string(d->label, sizeof(d->label), args->label);

	return err || args->id ? err : perf_persistent_check_ttl(&args->ttl);
}

/* Use the kernel's size and clear fields that have no meaning, for memcmp(). */
static void normalize_attr(struct perf_event_attr *attr)
{
	attr->size = sizeof(*attr);
	attr->enable_on_exec = 0;
	attr->persistent = 0;
	/* Drivers use it; it has no meaning without branch stacks. */
	if (!(attr->sample_type & PERF_SAMPLE_BRANCH_STACK))
		attr->branch_sample_type = 0;
}

static int make_persistent_event(struct perf_event *event, const struct perf_event_attr *attr,
				 int cpu)
{
	struct perf_persistent_event *pe = kzalloc_obj(*pe, GFP_KERNEL_ACCOUNT);

	if (!pe)
		return -ENOMEM;

	refcount_set(&pe->users, 1);
	pe->attr = *attr;
	pe->attr.type = event->orig_type;
	pe->cpu = cpu;
	normalize_attr(&pe->attr);
	/* Two threads may detach it at once. */
	if (cmpxchg(&event->persistent, NULL, pe))
		kfree(pe);

	return 0;
}

static int check_owner(struct perf_event *event, const struct perf_persistent_holder *holder)
{
	if (perf_persistent_instance_of(event))
		return -EEXIST;

	/* Views of an event that others have attached could end it in a session of their own. */
	return !holder || perf_persistent_owns(holder, event) || perfmon_capable() ? 0 : -EACCES;
}

/*
 * Refuse an event that cannot count again: it has ended, its PMU is gone, or it
 * has left its context and is not parked. Refuse one that cannot be kept as well.
 */
static int check_state(struct perf_event *event)
{
	lockdep_assert_held(&event->ctx->mutex);

	if (READ_ONCE(event->persistent->ended) || event->state <= PERF_EVENT_STATE_REVOKED)
		return -ENODEV;
	if (event->attr.sigtrap)
		return -EINVAL;
	/* AUX areas end with their mapping, and an exclusive PMU would stay blocked for others. */
	if (event->attr.aux_output || event->attr.aux_sample_size || event->pmu->setup_aux ||
	    (event->pmu->capabilities & PERF_PMU_CAP_EXCLUSIVE))
		return -EOPNOTSUPP;

	return event->attach_state & (PERF_ATTACH_TASK | PERF_ATTACH_CONTEXT) ||
	       perf_event_is_parked(event) ? 0 : -ENODEV;
}

/*
 * Check for an event in a context, opened or inherited, that counts for a member on @cpu (-1:
 * all CPUs). A context can be long, so its lock is not held. With perf_persistent_session::control
 * held, no instance joins, and only the time to live removes one.
 */
static bool is_measured(struct perf_event_context *ctx,
			const struct perf_persistent_session *session, u32 member, int cpu)
{
	const struct perf_persistent_instance *inst;
	struct perf_event *event;

	lockdep_assert_held(&session->control);
	guard(rcu)();

	list_for_each_entry_rcu(event, &ctx->event_list, event_entry) {
		inst = perf_persistent_instance_of(event->parent ?: event);
		if (inst && inst->session == session && inst->key.member == member &&
		    inst->key.cpu == cpu)
			return true;
	}

	return false;
}

/*
 * A member measures a task only once on a CPU, or on all CPUs, by an event of
 * the task or by one that it inherited. So a program can open and detach an
 * event for every thread: DETACH refuses threads that are measured already.
 *
 * fork() cannot break this rule: a new task inherits from its parent and has no
 * event of its own yet. But a child may inherit the event before the event
 * joins the session, and then join the session first with its own event:
 *
 *   CPU0                          CPU1
 *
 *   perf_event_open(A)
 *   A: fork() of B
 *                                 perf_event_open(B)
 *                                 DETACH: A's event is in no session
 *   DETACH: B would have both
 *
 * perf_persistent_session::control keeps others from joining until this event
 * has joined.
 */
static int check_target(struct perf_event *event, struct perf_persistent_session *session,
			u32 member)
{
	struct perf_persistent_key key = { .member = member, .cpu = event->persistent->cpu };
	struct perf_event *child;

	lockdep_assert_held(&session->control);

	if (!perf_persistent_target(event))
		return 0;
	/* A task may have swapped contexts with its child. */
	if (is_measured(event->ctx, session, member, key.cpu))
		return event->ctx->task == perf_persistent_target(event) ? -EEXIST : -EBUSY;

	guard(mutex)(&event->child_mutex);

	list_for_each_entry(child, &event->child_list, child_list) {
		cond_resched();
		/* An event that the child did not inherit may be leaving its list for a moment. */
		key.task = perf_persistent_target(child);
		if (is_measured(child->ctx, session, member, key.cpu) ||
		    perf_persistent_is_counted(session, &key))
			return child->ctx->task == perf_persistent_target(event) ? -EEXIST : -EBUSY;
	}

	return 0;
}

static int insert_instance(struct perf_persistent_session *session,
			   struct perf_persistent_instance *inst, u64 deadline)
{
	struct perf_event *event = inst->event;
	bool is_new;
	int err;

	guard(mutex)(&perf_persistent_mutex);

	is_new = !session->next_instance;
	/* The session has ended since it was looked up. */
	if (!is_new && !perf_persistent_session_lives(session))
		return -ENOENT;

	/* A group is in one session: siblings join that of the leader. */
	if (event->group_leader != event &&
	    !perf_persistent_instance_in(event->group_leader, session))
		return -EINVAL;

	err = perf_persistent_instance_link(session, inst);
	if (err)
		return err;

	WRITE_ONCE(session->needs, session->needs | perf_persistent_needs(event));
	/* The event may have been cleared in another session. */
	event->persistent->origin = (struct perf_persistent_origin) {};
	if (is_new)
		perf_persistent_session_arm(session, deadline);
	trace_persistent_detach(inst);

	return 0;
}

static int detach_locked(struct perf_persistent_session *session,
			 struct perf_persistent_instance *inst, struct perf_buffer **rb,
			 const struct perf_persistent_detach *d)
{
	struct perf_event *event = inst->event;

	guard(perf_event_ctx)(event);

	/* The owner may have changed since the ioctl began. */
	return check_owner(event, d->holder) ?: check_state(event) ?:
	       check_target(event, session, d->args.member) ?:
	       perf_persistent_may_share(event, session, perf_persistent_target(event)) ?:
	       perf_persistent_buffer_pin(inst, session, d->args.buffer_pages, rb) ?:
	       insert_instance(session, inst, d->args.ttl);
}

static int join_session(struct perf_persistent_session *session,
			struct perf_persistent_instance *inst, struct perf_buffer **rb,
			const struct perf_persistent_detach *d)
{
	struct perf_event *event = inst->event;
	int err;

	lockdep_assert_held(&session->control);

	err = detach_locked(session, inst, rb, d);
	if (err) {
		/*
		 * This may free events that were redirected to the buffer. Meanwhile the
		 * buffer is in use, for SET_OUTPUT and for another DETACH.
		 */
		perf_persistent_buffer_unpin(inst);
		return err;
	}

	/* From here on the instance may end at any time. */
	perf_remove_from_owner(event);
	perf_persistent_update_hold(event);

	return 0;
}

static int try_detach(struct perf_event *event, const struct perf_persistent_detach *d)
{
	unsigned int right = d->args.id ? PERF_PERSISTENT_CONTROL : 0;
	int err, id;

	struct perf_persistent_instance *inst __free(perf_persistent_instance) =
		perf_persistent_instance_create(event, d);
	if (IS_ERR(inst))
		return PTR_ERR(inst);

	struct perf_buffer *rb __free(perf_persistent_buffer) =
		perf_persistent_buffer_alloc(event, d->args.buffer_pages);
	if (IS_ERR(rb))
		return PTR_ERR(rb);

	struct perf_persistent_session *session __free(perf_persistent_session) =
		d->args.id ? perf_persistent_session_get(d->args.id) :
			     perf_persistent_session_create(d);
	if (IS_ERR_OR_NULL(session))
		return PTR_ERR(session) ?: -ENOENT;

	id = session->id;
	err = perf_persistent_control_begin(session, right);
	if (!err) {
		err = perf_persistent_may_change(session, right) ?:
		      join_session(session, inst, &rb, d);
		/* With the mutex, so that no other uevent of the session comes first. */
		if (!err && !d->args.id)
			perf_persistent_sysfs_announce(session, KOBJ_ADD);
		mutex_unlock(&session->control);
	}
	if (!err)
		retain_and_null_ptr(inst);
	/* It has been created here. */
	if (!d->args.id)
		perf_persistent_session_finish(session);

	return err ?: id;
}

/*
 * If the target is forking a child that did not inherit the event, wait until
 * the child can be found. Otherwise, a program that opens an event for every
 * thread would miss it:
 *
 *   target: fork()                      opener
 *
 *   perf_event_forks++
 *   no event for the child to inherit
 *                                       perf_event_open(target), DETACH
 *                                       readdir(/proc/<pid>/task): no child
 *   the child can be found
 *   perf_event_forks++
 *
 * Wait at most a second: fork() may wait for user memory that never comes.
 */
static void wait_for_fork(struct perf_event *event)
{
	struct task_struct *task = perf_persistent_target(event);
	unsigned long end = jiffies + HZ;
	unsigned int forks;

	if (!task || task == current || !event->attr.inherit)
		return;

	/* After installing the event; pairs with perf_persistent_fork_begins(). */
	smp_mb();
	/* Before user space lists the tasks; pairs with perf_persistent_fork_ends(). */
	forks = smp_load_acquire(&task->perf_event_forks);
	if (!(forks & 1))
		return;

	/* Pairs as above. */
	while (smp_load_acquire(&task->perf_event_forks) == forks &&
	       time_before(jiffies, end) && !fatal_signal_pending(current))
		schedule_timeout_killable(1);
}

/*
 * Put an event into the registry; permissions have been checked.
 * Returns the id, or an error listed in Documentation/userspace-api/perf_persistent.rst.
 */
int perf_persistent_detach(struct perf_event *event, const struct perf_persistent_detach *d)
{
	int ret = 0;

	if (!READ_ONCE(event->persistent))
		ret = make_persistent_event(event, &event->attr, event->cpu);
	if (ret)
		return ret;
	/* The event has no user any more, only views. */
	if (!refcount_inc_not_zero(&event->persistent->users))
		return -ENODEV;

	/* Try again if the last mapping of its buffer went away meanwhile. */
	do {
		ret = try_detach(event, d);
	} while (ret == -ENOBUFS && !fatal_signal_pending(current));
	perf_persistent_put_user(event);
	if (ret > 0)
		wait_for_fork(event);

	return ret;
}

long perf_persistent_ioctl_detach(const struct perf_persistent_holder *holder,
				  struct perf_event *event, unsigned int cmd, unsigned long arg)
{
	struct perf_persistent_detach *d __free(kfree) = kzalloc_obj(*d, GFP_KERNEL_ACCOUNT);

	if (!d)
		return -ENOMEM;

	d->holder = holder;

	return copy_detach(d, cmd, arg) ?: check_owner(event, holder) ?:
	       perf_persistent_may_open(event) ?: perf_persistent_detach(event, d);
}

/**
 * perf_persistent_opened - note how an event was opened, and detach it if asked
 * @event: new event
 * @attr:  as user space gave it
 * @cpu:   as user space gave it
 *
 * Context: may sleep.
 * Return: 0 or the id, or -ENOMEM, or as perf_persistent_detach()
 */
int perf_persistent_opened(struct perf_event *event, const struct perf_event_attr *attr, int cpu)
{
	int err;

	/* Ignore the type, which software clocks change; event->orig_type has the original. */
	if (event->cpu != cpu || memcmp(&event->attr.size, &attr->size,
					sizeof(*attr) - offsetof(typeof(*attr), size))) {
		err = make_persistent_event(event, attr, cpu);
		if (err)
			return err;
	}

	if (!attr->persistent)
		return 0;

	/* As ioctl() does it */
	return security_perf_event_write(event) ?:
	       perf_persistent_ioctl_detach(NULL, event, PERF_EVENT_IOC_DETACH, 0);
}

/* A group is in one session, whose @control keeps further siblings from joining. */
static int check_attach(const struct perf_persistent_session *session, struct perf_event *event)
{
	struct perf_event *sibling;

	guard(perf_event_ctx)(event);

	if (!perf_persistent_instance_in(event, session))
		return -EINVAL;

	for_each_sibling_event(sibling, event) {
		if (perf_persistent_instance_of(sibling))
			return -EBUSY;
	}

	return 0;
}

/*
 * Prepare the event for its new owner while it is still in the registry, so
 * that nobody can detach it meanwhile. Undo this if its time to live runs out.
 */
static int attach_event(struct perf_persistent_session *session, struct perf_event *event)
{
	struct perf_persistent_instance *inst;
	int err;

	lockdep_assert_held(&session->control);

	err = check_attach(session, event);
	if (err)
		return err;

	perf_persistent_hold_event(event, false);
	perf_event_set_owner(event);
	inst = perf_persistent_instance_unlink(session, event, 0);
	if (!inst) {
		perf_remove_from_owner(event);
		return -EINVAL;
	}
	perf_persistent_instance_finish(inst);

	return 0;
}

/*
 * Take an event out of the registry. It belongs to the current task until its
 * last user closes it, and ends then.
 */
long perf_persistent_ioctl_attach(struct perf_event *event)
{
	struct perf_persistent_session *session __free(perf_persistent_session) =
		perf_persistent_session_of(event);
	int err;

	if (!session)
		return -EINVAL;

	err = perf_persistent_control_begin(session, PERF_PERSISTENT_CONTROL);
	if (err)
		return err;
	err = perf_persistent_may_change(session, PERF_PERSISTENT_CONTROL) ?:
	      attach_event(session, event);
	mutex_unlock(&session->control);

	return err;
}
