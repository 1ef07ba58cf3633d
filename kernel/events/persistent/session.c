// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: how sessions and instances begin and end.
 *
 * A detached event lives as long as it has users
 * (perf_persistent_event::users): the registry, the file that it was opened
 * with, and each view that has attached it. Other views have only a reference,
 * so that readers cannot keep an event counting after it has left its session.
 * An instance holds the registry's use and a pseudo-mapping of the buffer. A
 * session lives as long as it has instances.
 *
 * Instances end in two phases. Under perf_persistent_mutex an instance is
 * unlinked: it is no longer found or counted. Without the mutex it is finished:
 * the buffer and the use are dropped, and the session's sysfs entries removed.
 * Finishing waits for RCU and for readers of sysfs, which take the mutex. Both
 * wait for the event's context.
 *
 * perf_persistent_event::instance changes under perf_persistent_mutex and
 * perf_event_context::mutex, so that CPU hotplug can read it under the latter.
 */
#include <linux/cred.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/trace_events.h>
#include <linux/xarray.h>

#include <trace/events/perf_persistent.h>

#include "persistent.h"

static DEFINE_XARRAY_FLAGS(perf_persistent_sessions, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
static u32 next_session_id;

/* Events */

/* End an event to which others still refer. Takes perf_event_context::mutex. */
static void end_event(struct perf_event *event)
{
	atomic_long_inc(&event->refcount);
	perf_event_release_kernel(event);
	wake_up_all(&event->waitq);
}

/* Drop a user; the event ends with the last one. Takes perf_event_context::mutex. */
void perf_persistent_put_user(struct perf_event *event)
{
	if (!refcount_dec_and_test(&event->persistent->users))
		return;

	end_event(event);
	/* It runs even if the event has ended. A BPF link keeps it, and has the file open. */
	perf_event_free_bpf_prog(event);
	put_event(event);
}

/* Ordinary events end with their file. */
void perf_persistent_close(struct perf_event *event)
{
	if (event->persistent)
		perf_persistent_put_user(event);
	else
		perf_event_release_kernel(event);
}

/* Instances */

/* Create an instance for an event to be detached, and charge it to the limits. */
struct perf_persistent_instance *
perf_persistent_instance_create(struct perf_event *event, const struct perf_persistent_detach *d)
{
	struct perf_persistent_instance *inst;
	int err;

	inst = kzalloc_obj(*inst, GFP_KERNEL_ACCOUNT);
	if (!inst)
		return ERR_PTR(-ENOMEM);

	inst->member = kzalloc_obj(*inst->member, GFP_KERNEL_ACCOUNT);
	err = inst->member ? perf_persistent_charge(inst) : -ENOMEM;
	if (err) {
		kfree(inst->member);
		kfree(inst);
		return ERR_PTR(err);
	}
	inst->member->nr = d->args.member;
	inst->member->attr = event->persistent->attr;
	strscpy(inst->member->label, d->label);
	inst->event = event;
	inst->key.task = perf_persistent_target(event);
	inst->key.cgroup = perf_persistent_cgroup(event);
	inst->key.member = d->args.member;
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
	if (IS_ERR_OR_NULL(inst))
		return;

	kfree(inst->member);
	put_pid(inst->pid);
	put_pid(inst->tgid);
	perf_persistent_uncharge(inst);
	kfree_rcu(inst, rcu);
}

/*
 * Drop what keeps a session: an instance, or who created it. The last one ends the session, and
 * waits for readers of sysfs, which take the mutex.
 */
void perf_persistent_session_finish(struct perf_persistent_session *session)
{
	if (!refcount_dec_and_test(&session->nr_unfinished))
		return;

	perf_persistent_sysfs_remove(session);
	hrtimer_cancel(&session->timer);
	scoped_guard(mutex, &perf_persistent_mutex)
		xa_erase(&perf_persistent_sessions, session->id);
	kobject_put(&session->kobj);
}

/* Drop the buffer and the event of an unlinked instance, and free the instance. */
void perf_persistent_instance_finish(struct perf_persistent_instance *inst)
{
	struct perf_persistent_session *session = inst->session;
	struct perf_event *event = inst->event;

	perf_persistent_buffer_unpin(inst);
	perf_persistent_put_user(event);
	perf_persistent_instance_free(inst);

	/* Last, so that the instances are uncharged when the session is gone. */
	perf_persistent_session_finish(session);
}

/* Time to live */

/* Let a session live until @deadline, CLOCK_BOOTTIME in ns, or without limit for 0. */
void perf_persistent_session_arm(struct perf_persistent_session *session, u64 deadline)
{
	lockdep_assert_held(&perf_persistent_mutex);

	hrtimer_cancel(&session->timer);
	session->deadline = deadline;
	if (deadline)
		hrtimer_start(&session->timer, ns_to_ktime(deadline), HRTIMER_MODE_ABS);
}

/* The work has its own reference: the session may end while it is queued. */
static enum hrtimer_restart session_timer(struct hrtimer *timer)
{
	struct perf_persistent_session *session = container_of(timer, typeof(*session), timer);

	kobject_get(&session->kobj);
	/* Ending many instances takes long, and must not delay other sessions. */
	if (!queue_work(system_dfl_long_wq, &session->expire))
		kobject_put(&session->kobj);

	return HRTIMER_NORESTART;
}

/* End the events as if their last user had closed them; open files still refer to them. */
static void session_expire(struct work_struct *work)
{
	struct perf_persistent_session *session = from_work(session, work, expire);
	struct perf_persistent_instance *inst;
	struct perf_event *event;
	bool over;

	/* The time to live can be extended until @expired is set. */
	scoped_guard(mutex, &perf_persistent_mutex) {
		over = session->nr_instances && session->deadline &&
		       ktime_get_boottime_ns() >= session->deadline;
		session->expired |= over;
		if (over)
			trace_persistent_expire(session->id, 0, 0);
	}
	for_each_persistent_event(event, session, 0, over) {
		inst = perf_persistent_instance_unlink(session, event,
						       PERF_PERSISTENT_STATE_EXPIRED);
		if (inst) {
			end_event(event);
			perf_persistent_instance_finish(inst);
		}
	}
	kobject_put(&session->kobj);
}

/* Sessions */

/* Get the session with this id, for kobject_put(), or NULL */
struct perf_persistent_session *perf_persistent_session_get(u32 id)
{
	struct perf_persistent_session *session;

	guard(mutex)(&perf_persistent_mutex);

	session = xa_load(&perf_persistent_sessions, id);
	if (!session || !perf_persistent_session_lives(session))
		return NULL;
	kobject_get(&session->kobj);

	return session;
}

/* Get the session of an event, for kobject_put(), or NULL */
struct perf_persistent_session *perf_persistent_session_of(struct perf_event *event)
{
	struct perf_persistent_instance *inst;

	guard(mutex)(&perf_persistent_mutex);

	inst = perf_persistent_instance_of(event);
	if (!inst)
		return NULL;
	kobject_get(&inst->session->kobj);

	return inst->session;
}

static struct perf_persistent_session *session_alloc(const struct perf_persistent_detach *d)
{
	struct perf_persistent_session *session;

	session = kzalloc_obj(*session, GFP_KERNEL_ACCOUNT);
	if (!session)
		return NULL;

	kobject_init(&session->kobj, &perf_persistent_session_ktype);
	session->instances = RB_ROOT;
	session->keys = RB_ROOT;
	INIT_LIST_HEAD(&session->members);
	refcount_set(&session->nr_unfinished, 1);
	INIT_WORK(&session->expire, session_expire);
	hrtimer_setup(&session->timer, session_timer, CLOCK_BOOTTIME, HRTIMER_MODE_ABS);
	mutex_init(&session->control);
	session->uid = current_euid();
	session->gid = current_egid();
	session->created = ktime_get_boottime_ns();
	if (d->args.flags & PERF_DETACH_UNCOMMITTED)
		session->flags |= PERF_PERSISTENT_UNCOMMITTED;
	/* The same uid without the capability must not control the session. */
	if (perfmon_capable())
		session->flags |= PERF_PERSISTENT_PRIVILEGED;
	else
		session->mode = 0600;

	return session;
}

/*
 * Create a session and its entries in sysfs, and return a reference. Until it has an instance, it
 * belongs to the caller and lookups fail. It needs perf_persistent_session_finish(), whether an
 * instance has joined or not. Errors: as perf_persistent_sysfs_rename(), or -EAGAIN if no id is
 * free.
 */
struct perf_persistent_session *
perf_persistent_session_create(const struct perf_persistent_detach *d)
{
	struct perf_persistent_session *session = session_alloc(d);
	int err;

	if (!session)
		return ERR_PTR(-ENOMEM);

	err = xa_alloc_cyclic(&perf_persistent_sessions, &session->id, session,
			      XA_LIMIT(1, INT_MAX), &next_session_id, GFP_KERNEL_ACCOUNT);
	if (err < 0) {
		kobject_put(&session->kobj);
		return ERR_PTR(err == -EBUSY ? -EAGAIN : err);
	}

	err = perf_persistent_sysfs_add(session, d->name);
	if (err) {
		perf_persistent_session_finish(session);
		return ERR_PTR(err);
	}
	kobject_get(&session->kobj);

	return session;
}
