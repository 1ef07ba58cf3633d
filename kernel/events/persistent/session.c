// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: how sessions and instances begin and end.
 *
 * A perf event that was detached lives until it has no user
 * (perf_persistent_event::users): each open file is one, and so is the registry
 * while it has the event. An instance holds the registry's reference and a
 * pseudo-mapping of the buffer. A session lives as long as it has instances.
 *
 * Instances end in two phases. Under perf_persistent_mutex an instance is
 * unlinked: it is no longer found or counted. Without the mutex it is finished:
 * the buffer and the user are given up, the session's sysfs entries removed.
 * Finishing waits for contexts, for RCU and for readers of sysfs, which take the
 * mutex.
 *
 * perf_persistent_event::instance changes under perf_persistent_mutex and
 * perf_event_context::lock, so that CPU hotplug can read it under the latter.
 */
#include <linux/cred.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include <trace/events/perf_persistent.h>

#include "../internal.h"
#include "persistent.h"

/*
 * Ends sessions, and announces the loss of their last targets. Ending a
 * session may wait long for the lock of a context: allow as many workers as
 * possible, so that the sessions of one user do not delay those of others.
 */
static struct workqueue_struct *perf_persistent_wq;

/* Instances of a session that end at the same time */
#define PERF_PERSISTENT_EXPIRE_WORKS	64

static void instance_expire(struct work_struct *work);

/* Instances */

/* Make an instance for an event that is going to be detached, counted against the limits. */
struct perf_persistent_instance *
perf_persistent_instance_create(struct perf_event *event)
{
	struct perf_persistent_instance *inst;
	int err;

	inst = kzalloc_obj(*inst, GFP_KERNEL_ACCOUNT);
	if (!inst)
		return ERR_PTR(-ENOMEM);

	err = perf_persistent_charge(inst);
	if (err) {
		kfree(inst);
		return ERR_PTR(err);
	}
	inst->event = event;
	INIT_WORK(&inst->expire, instance_expire);
	inst->key.task = perf_persistent_target(event);
	inst->key.cgroup = perf_persistent_cgroup(event);
	inst->key.cpu = event->persistent->cpu;
	if (inst->key.task) {
		inst->pid = get_task_pid(inst->key.task, PIDTYPE_PID);
		inst->tgid = get_task_pid(inst->key.task, PIDTYPE_TGID);
	}

	return inst;
}

/* Undo perf_persistent_instance_create(); the instance is in no session. */
void perf_persistent_instance_free(struct perf_persistent_instance *inst)
{
	put_pid(inst->pid);
	put_pid(inst->tgid);
	perf_persistent_uncharge(inst);
	kfree_rcu(inst, rcu);
}

/*
 * Lock what protects the state of an event, without perf_event_context::mutex. The context
 * is another one when a PMU has moved the event to another CPU.
 */
struct perf_event_context *perf_persistent_context_lock(struct perf_event *event)
{
	struct perf_event_context *ctx;

	for (;;) {
		ctx = READ_ONCE(event->ctx);
		raw_spin_lock_irq(&ctx->lock);
		if (likely(ctx == event->ctx))
			return ctx;
		raw_spin_unlock_irq(&ctx->lock);
	}
}

static void set_instance(struct perf_event *event, struct perf_persistent_instance *inst)
{
	struct perf_event_context *ctx = perf_persistent_context_lock(event);

	/* is_measured() and was_shown() look into it without a lock. */
	smp_store_release(&event->persistent->instance, inst);
	if (inst && (event->still & PERF_EVENT_PARKED)) {
		inst->offline_since = ktime_get_boottime_ns();
		inst->offline_count = 1;
	}
	raw_spin_unlock_irq(&ctx->lock);
}

/* Targets */

/* Nothing is left that counts for it. */
static bool is_over(const struct perf_event *event)
{
	return READ_ONCE(event->state) <= PERF_EVENT_STATE_EXIT && list_empty(&event->child_list);
}

/* The work has a reference of its own: the session may end while it is queued. */
static void queue_exited(struct perf_persistent_session *session)
{
	lockdep_assert_held(&perf_persistent_mutex);

	if (session->nr_running || !session->nr_exited || !perf_persistent_session_lives(session))
		return;

	session->exited = true;
	kobject_get(&session->kobj);
	if (!queue_work(perf_persistent_wq, &session->announce))
		kobject_put(&session->kobj);
}

static void notice_exit(struct perf_persistent_instance *inst)
{
	lockdep_assert_held(&perf_persistent_mutex);

	if (!inst->key.task || inst->exited || !is_over(inst->event))
		return;

	inst->exited = true;
	inst->session->nr_running--;
	inst->session->nr_exited++;
	queue_exited(inst->session);
}

static void add_target(struct perf_persistent_instance *inst)
{
	if (!inst->key.task)
		return;

	inst->session->nr_running++;
	/* It may have ended before it came into the session. */
	notice_exit(inst);
}

static void remove_target(struct perf_persistent_instance *inst)
{
	if (!inst->key.task)
		return;

	if (inst->exited) {
		inst->session->nr_exited--;
	} else {
		inst->session->nr_running--;
		queue_exited(inst->session);
	}
}

/**
 * perf_persistent_event_exited - note that an event may have lost its target
 * @event: event that was opened; it, or one of its children, has ended
 *
 * Its task may be gone, and its PMU.
 *
 * Context: may sleep; perf_event_context::mutex is held.
 */
void perf_persistent_event_exited(struct perf_event *event)
{
	struct perf_persistent_instance *inst;

	/* After the event has ended; pairs with perf_persistent_instance_insert(). */
	smp_mb();
	/* Mostly others of its family go on: do not take the mutex for each child. */
	if (!refcount_read(&event->persistent->users) || !is_over(event))
		return;

	guard(mutex)(&perf_persistent_mutex);

	inst = perf_persistent_instance_of(event);
	if (inst)
		notice_exit(inst);
}

static void session_announce(struct work_struct *work)
{
	struct perf_persistent_session *session;

	session = container_of(work, struct perf_persistent_session, announce);
	perf_persistent_sysfs_announce_exited(session);
	kobject_put(&session->kobj);
}

/* Put a new instance into its session, which is found from now on; takes *@new or not. */
int perf_persistent_instance_insert(struct perf_persistent_session *session,
				    struct perf_persistent_instance *inst,
				    struct perf_persistent_member **new)
{
	struct perf_event *event = inst->event;
	int err;

	lockdep_assert_held(&event->ctx->mutex);

	err = perf_persistent_registry_link(session, inst, new);
	if (err)
		return err;

	session->needs |= perf_persistent_needs(event);

	/* Its file is the one user that it had before. */
	if (!refcount_inc_not_zero(&event->persistent->users))
		refcount_set(&event->persistent->users, 2);
	/* Before its state is looked at; pairs with perf_persistent_event_exited(). */
	smp_mb();
	set_instance(event, inst);
	add_target(inst);

	return 0;
}

/* Take an instance out of the registry's sight, for perf_persistent_instance_finish(). */
void perf_persistent_instance_unlink(struct perf_persistent_instance *inst)
{
	lockdep_assert_held(&perf_persistent_mutex);

	set_instance(inst->event, NULL);
	perf_persistent_registry_unlink(inst);
	remove_target(inst);
}

/* End a session without instances; waits for readers of sysfs, who take the mutex. */
void perf_persistent_session_destroy(struct perf_persistent_session *session)
{
	WARN_ON_ONCE(session->nr_instances || !list_empty(&session->members));

	/* The name is free again before the directory is gone. */
	perf_persistent_name_remove(session->name);
	perf_persistent_sysfs_remove(session);
	hrtimer_cancel(&session->timer);
	perf_persistent_registry_remove(session);
	kobject_put(&session->kobj);
}

/* Give up what an instance holds, and free it, after perf_persistent_instance_unlink(). */
void perf_persistent_instance_finish(struct perf_persistent_instance *inst)
{
	struct perf_persistent_session *session = inst->session;
	struct perf_event *event = inst->event;

	if (inst->rb)
		perf_persistent_buffer_unpin(event, inst->rb);
	perf_persistent_put_user(event);
	perf_persistent_instance_free(inst);

	/* Last, so that the limits have room again when the session is gone. */
	if (atomic_dec_and_test(&session->nr_unfinished))
		perf_persistent_session_destroy(session);
}

/* Time to live */

/* Give a session @ttl ns to live from now, or no limit with 0. */
void perf_persistent_session_arm(struct perf_persistent_session *session, u64 ttl)
{
	lockdep_assert_held(&perf_persistent_mutex);

	hrtimer_cancel(&session->timer);
	session->deadline = ttl ? ktime_get_boottime_ns() + ttl : 0;
	if (ttl)
		hrtimer_start(&session->timer, ns_to_ktime(session->deadline), HRTIMER_MODE_ABS);
}

/* The work has a reference of its own: the session may end while it is queued. */
static enum hrtimer_restart session_timer(struct hrtimer *timer)
{
	struct perf_persistent_session *session;

	session = container_of(timer, struct perf_persistent_session, timer);
	kobject_get(&session->kobj);
	if (!queue_work(perf_persistent_wq, &session->expire))
		kobject_put(&session->kobj);

	return HRTIMER_NORESTART;
}

static struct perf_persistent_instance *
unlink_first_if_over(struct perf_persistent_session *session)
{
	struct perf_persistent_instance *inst;

	guard(mutex)(&perf_persistent_mutex);

	/* It may have been given more time while the work was queued, but not since. */
	if (!session->expired) {
		if (!session->nr_instances || !session->deadline ||
		    ktime_get_boottime_ns() < session->deadline)
			return NULL;
		session->expired = true;
		trace_persistent_expire(session->id, 0);
	}

	inst = perf_persistent_instance_first(session);
	if (inst) {
		inst->event->persistent->ended = PERF_PERSISTENT_STATE_EXPIRED;
		perf_persistent_instance_unlink(inst);
	}

	return inst;
}

static bool expire_one(struct perf_persistent_session *session)
{
	struct perf_persistent_instance *inst = unlink_first_if_over(session);

	return inst && queue_work(perf_persistent_wq, &inst->expire);
}

/* The event ends like one that loses its last user, but files still refer to it. */
static void instance_expire(struct work_struct *work)
{
	struct perf_persistent_instance *inst;

	inst = container_of(work, struct perf_persistent_instance, expire);
	atomic_long_inc(&inst->event->refcount);
	perf_event_release_kernel(inst->event);
	wake_up_all(&inst->event->waitq);
	expire_one(inst->session);
	perf_persistent_instance_finish(inst);
}

/*
 * Each instance has a work of its own, so that a reader who stalls the context of one
 * does not keep the others counting; but a session has no more than a share of the
 * workers, so that whoever stalls all of them does not keep other sessions alive.
 */
static void session_expire(struct work_struct *work)
{
	struct perf_persistent_session *session;

	session = container_of(work, struct perf_persistent_session, expire);
	for (int i = 0; i < PERF_PERSISTENT_EXPIRE_WORKS && expire_one(session); i++)
		;
	kobject_put(&session->kobj);
}

/* Sessions */

static struct perf_persistent_session *session_alloc(const struct perf_persistent_detach *d)
{
	struct perf_persistent_session *session;

	session = kzalloc_obj(*session, GFP_KERNEL_ACCOUNT);
	if (!session)
		return NULL;

	perf_persistent_sysfs_init_session(session);
	session->instances = RB_ROOT;
	INIT_LIST_HEAD(&session->members);
	INIT_WORK(&session->expire, session_expire);
	INIT_WORK(&session->announce, session_announce);
	hrtimer_setup(&session->timer, session_timer, CLOCK_BOOTTIME, HRTIMER_MODE_ABS);
	mutex_init(&session->control);
	session->uid = current_euid();
	session->gid = current_egid();
	session->created = ktime_get_boottime_ns();
	if (d->flags & PERF_DETACH_UNCOMMITTED)
		session->flags |= PERF_PERSISTENT_UNCOMMITTED;
	/* An equal uid without the capability must not control it. */
	if (perfmon_capable())
		session->flags |= PERF_PERSISTENT_PRIVILEGED;
	else
		session->mode = 0600;

	return session;
}

/*
 * Make a session, with its entries in sysfs. It is found once it has an instance; until
 * then it is the caller's. -EEXIST: the name is taken; -EINVAL: it is too long with its
 * prefix; -EAGAIN: no more ids.
 */
struct perf_persistent_session *
perf_persistent_session_create(const struct perf_persistent_detach *d)
{
	struct perf_persistent_session *session = session_alloc(d);
	struct perf_persistent_name *name;
	int err;

	if (!session)
		return ERR_PTR(-ENOMEM);

	err = perf_persistent_registry_add(session);
	if (err)
		goto err_put;

	name = perf_persistent_name_create(d->name, session->id, session->uid);
	if (IS_ERR(name)) {
		err = PTR_ERR(name);
		goto err_remove;
	}
	session->name = name;

	err = perf_persistent_sysfs_add(session);
	if (err)
		goto err_name;

	return session;

err_name:
	perf_persistent_name_remove(name);
err_remove:
	perf_persistent_registry_remove(session);
err_put:
	kobject_put(&session->kobj);
	return ERR_PTR(err);
}

static int __init perf_persistent_session_init(void)
{
	perf_persistent_wq = alloc_workqueue("perf_persistent", WQ_UNBOUND, WQ_MAX_ACTIVE);

	return perf_persistent_wq ? 0 : -ENOMEM;
}
core_initcall(perf_persistent_session_init);
