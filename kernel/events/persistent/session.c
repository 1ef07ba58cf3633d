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

#include <trace/events/perf_persistent.h>

#include "persistent.h"

/* Events */

/* End an event to which others still refer. Takes perf_event_context::mutex. */
static void end_event(struct perf_event *event)
{
	atomic_long_inc(&event->refcount);
	perf_event_release_kernel(event);
	wake_up_all(&event->waitq);
}

/*
 * A BPF program runs even if the event is disabled: detach it. The program of a BPF
 * link stays until the link is closed, because the link has the file of the event open.
 */
static void free_bpf_prog(struct perf_event *event)
{
	/* This has a mutex of its own, and waits for programs that sleep in any task. */
	if (event->tp_event) {
		perf_event_free_bpf_prog(event);
		return;
	}

	guard(perf_event_ctx)(event);
	perf_event_free_bpf_prog(event);
}

/* Drop a user; the event ends with the last one. Takes perf_event_context::mutex. */
void perf_persistent_put_user(struct perf_event *event)
{
	if (!refcount_dec_and_test(&event->persistent->users))
		return;

	end_event(event);
	free_bpf_prog(event);
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

/* End a session without instances; waits for readers of sysfs, which take the mutex. */
void perf_persistent_session_destroy(struct perf_persistent_session *session)
{
	WARN_ON_ONCE(session->nr_instances || !list_empty(&session->members));

	perf_persistent_sysfs_remove(session);
	hrtimer_cancel(&session->timer);
	perf_persistent_registry_remove(session);
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
	if (refcount_dec_and_test(&session->nr_unfinished))
		perf_persistent_session_destroy(session);
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
	struct perf_persistent_session *session;

	session = container_of(timer, struct perf_persistent_session, timer);
	kobject_get(&session->kobj);
	/* Ending many instances takes long, and must not delay other sessions. */
	if (!queue_work(system_dfl_long_wq, &session->expire))
		kobject_put(&session->kobj);

	return HRTIMER_NORESTART;
}

/* The time to live can be extended until @expired is set. */
static bool session_is_over(struct perf_persistent_session *session)
{
	guard(mutex)(&perf_persistent_mutex);

	if (!session->nr_instances || !session->deadline ||
	    ktime_get_boottime_ns() < session->deadline)
		return false;

	session->expired = true;
	trace_persistent_expire(session->id, 0, 0);

	return true;
}

/* End the events as if their last user had closed them; open files still refer to them. */
static void session_expire(struct work_struct *work)
{
	struct perf_persistent_session *session;
	struct perf_persistent_instance *inst;
	struct perf_event *event;
	bool is_over;

	session = container_of(work, struct perf_persistent_session, expire);
	is_over = session_is_over(session);
	for_each_persistent_event(event, session, 0, is_over) {
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
 * Create a session and its entries in sysfs. Until it has an instance, it belongs
 * to the caller and lookups fail. Errors: -EEXIST if the name is taken, -EINVAL if
 * it is too long with its prefix, -EAGAIN if no id is free, or -ENOMEM.
 */
struct perf_persistent_session *
perf_persistent_session_create(const struct perf_persistent_detach *d)
{
	struct perf_persistent_session *session = session_alloc(d);
	char name[PERF_PERSISTENT_NAME_MAX];
	int err;

	if (!session)
		return ERR_PTR(-ENOMEM);

	err = perf_persistent_registry_add(session);
	if (err)
		goto err_put;

	err = perf_persistent_name_compose(name, d->name, session->id, session->uid);
	if (!err)
		err = perf_persistent_sysfs_add(session, name);
	if (!err)
		return session;

	perf_persistent_registry_remove(session);
err_put:
	kobject_put(&session->kobj);
	return ERR_PTR(err);
}
