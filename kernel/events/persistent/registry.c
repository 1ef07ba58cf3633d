// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: the registry of sessions, members and instances.
 *
 * Life cycle. A perf event that was detached lives until it has no user
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
#include <linux/rhashtable.h>
#include <linux/sched/user.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/xarray.h>

#include "../internal.h"
#include "persistent.h"

#define CREATE_TRACE_POINTS
#include <trace/events/perf_persistent.h>

/* Protects the registry, see persistent.h */
DEFINE_MUTEX(perf_persistent_mutex);

static DEFINE_XARRAY_FLAGS(perf_persistent_sessions, XA_FLAGS_ALLOC1);
static u32 perf_persistent_next_id;

static const struct rhashtable_params perf_persistent_key_params = {
	.head_offset		= offsetof(struct perf_persistent_instance, hash),
	.key_offset		= offsetof(struct perf_persistent_instance, key),
	.key_len		= sizeof(struct perf_persistent_key),
	.automatic_shrinking	= true,
};

static struct rhashtable perf_persistent_keys;

/*
 * Ends sessions. It waits for whoever has the context of an event locked, and may
 * wait long: as many may, so that one user with all of his does not stop others'.
 */
static struct workqueue_struct *perf_persistent_wq;

/* Sessions */

/**
 * perf_persistent_session_get - look a session up
 * @id: id
 *
 * Context: may sleep; takes perf_persistent_mutex.
 * Return: the session if it has instances, for kobject_put(), or NULL
 */
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

/**
 * perf_persistent_session_of - the session that an event is in
 * @event: event
 *
 * Context: may sleep; takes perf_persistent_mutex.
 * Return: the session, for kobject_put(), or NULL
 */
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

/**
 * perf_persistent_is_in - whether an event is in a session
 * @event:   event
 * @session: session
 *
 * Context: may sleep; takes perf_persistent_mutex.
 * Return: true if it is
 */
bool perf_persistent_is_in(struct perf_event *event,
			   const struct perf_persistent_session *session)
{
	struct perf_persistent_instance *inst;

	guard(mutex)(&perf_persistent_mutex);

	inst = perf_persistent_instance_of(event);

	return inst && inst->session == session;
}

/**
 * perf_persistent_session_arm - set the time that a session has to live
 * @session: session
 * @ttl:     ns from now, or 0 for no limit
 */
void perf_persistent_session_arm(struct perf_persistent_session *session, u64 ttl)
{
	lockdep_assert_held(&perf_persistent_mutex);

	hrtimer_cancel(&session->timer);
	session->deadline = ttl ? ktime_get_boottime_ns() + ttl : 0;
	if (ttl)
		hrtimer_start(&session->timer, ns_to_ktime(session->deadline), HRTIMER_MODE_ABS);
}

/**
 * perf_persistent_session_time_left - how long a session has to live
 * @session: session
 *
 * Return: ns, at least 1 even if the end is overdue; 0 for no limit
 */
u64 perf_persistent_session_time_left(const struct perf_persistent_session *session)
{
	u64 now = ktime_get_boottime_ns();

	if (!session->deadline)
		return 0;

	return session->deadline > now ? session->deadline - now : 1;
}

/* The work has a reference of its own: the session may end while it is queued. */
static enum hrtimer_restart perf_persistent_session_timer(struct hrtimer *timer)
{
	struct perf_persistent_session *session;

	session = container_of(timer, struct perf_persistent_session, timer);
	kobject_get(&session->kobj);
	if (!queue_work(perf_persistent_wq, &session->expire))
		kobject_put(&session->kobj);

	return HRTIMER_NORESTART;
}

/* Like perf_event_release_kernel() of the last user, but files still refer to it. */
static void perf_persistent_kill(struct perf_event *event)
{
	atomic_long_inc(&event->refcount);
	perf_event_release_kernel(event);
	wake_up_all(&event->waitq);
}

static struct perf_persistent_instance *
perf_persistent_unlink_first_if_over(struct perf_persistent_session *session)
{
	struct perf_persistent_instance *inst;

	guard(mutex)(&perf_persistent_mutex);

	/* It may have been given more time while the work was queued, but not since. */
	if (!session->expired &&
	    (!session->deadline || ktime_get_boottime_ns() < session->deadline))
		return NULL;
	session->expired = true;

	inst = perf_persistent_instance_first(session);
	if (inst) {
		inst->event->persistent->ended = PERF_PERSISTENT_STATE_EXPIRED;
		perf_persistent_instance_unlink(inst);
	}

	return inst;
}

static void perf_persistent_session_expire(struct work_struct *work)
{
	struct perf_persistent_instance *inst, *tmp;
	struct perf_persistent_session *session;
	LIST_HEAD(dead);

	session = container_of(work, struct perf_persistent_session, expire);
	while ((inst = perf_persistent_unlink_first_if_over(session)))
		list_add_tail(&inst->dead, &dead);
	if (!list_empty(&dead))
		trace_persistent_expire(session->id, 0);

	list_for_each_entry_safe(inst, tmp, &dead, dead) {
		perf_persistent_kill(inst->event);
		perf_persistent_instance_finish(inst);
	}
	kobject_put(&session->kobj);
}

static struct perf_persistent_session *
perf_persistent_session_alloc(const struct perf_persistent_detach *d)
{
	struct perf_persistent_session *session;

	session = kzalloc_obj(*session, GFP_KERNEL_ACCOUNT);
	if (!session)
		return NULL;

	perf_persistent_sysfs_init_session(session);
	session->instances = RB_ROOT;
	INIT_LIST_HEAD(&session->members);
	INIT_WORK(&session->expire, perf_persistent_session_expire);
	hrtimer_setup(&session->timer, perf_persistent_session_timer, CLOCK_BOOTTIME,
		      HRTIMER_MODE_ABS);
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

/**
 * perf_persistent_session_create - make a session, with its entries in sysfs
 * @d: name and flags
 *
 * It is found once it has an instance; until then it is the caller's.
 *
 * Context: may sleep; perf_persistent_mutex is not held.
 * Return: the session, or -EEXIST for a name that is taken, -EINVAL for one that
 * is too long with its prefix, -EAGAIN if there are no more ids, -ENOMEM
 */
struct perf_persistent_session *
perf_persistent_session_create(const struct perf_persistent_detach *d)
{
	struct perf_persistent_session *session = perf_persistent_session_alloc(d);
	struct perf_persistent_name *name;
	int err;

	if (!session)
		return ERR_PTR(-ENOMEM);

	err = xa_alloc_cyclic(&perf_persistent_sessions, &session->id, session,
			      XA_LIMIT(1, INT_MAX), &perf_persistent_next_id,
			      GFP_KERNEL_ACCOUNT);
	if (err < 0) {
		err = err == -EBUSY ? -EAGAIN : err;
		goto err_put;
	}

	name = perf_persistent_name_create(d->name, session->id, session->uid);
	if (IS_ERR(name)) {
		err = PTR_ERR(name);
		goto err_erase;
	}
	session->name = name;

	err = perf_persistent_sysfs_add(session);
	if (err)
		goto err_name;

	return session;

err_name:
	perf_persistent_name_remove(name);
err_erase:
	scoped_guard(mutex, &perf_persistent_mutex)
		xa_erase(&perf_persistent_sessions, session->id);
err_put:
	kobject_put(&session->kobj);
	return ERR_PTR(err);
}

/**
 * perf_persistent_session_free - free a session that nobody refers to any more
 * @session: session
 */
void perf_persistent_session_free(struct perf_persistent_session *session)
{
	kfree(session->name);
	kfree(session);
}

/**
 * perf_persistent_session_destroy - end a session that has no instances
 * @session: session that has no instances any more, or none yet
 *
 * Context: waits for readers of sysfs; perf_persistent_mutex is not held.
 */
void perf_persistent_session_destroy(struct perf_persistent_session *session)
{
	WARN_ON_ONCE(session->nr_instances || !list_empty(&session->members));

	/* The name is free again before the folder is gone. */
	perf_persistent_name_remove(session->name);
	perf_persistent_sysfs_remove(session);
	hrtimer_cancel(&session->timer);
	scoped_guard(mutex, &perf_persistent_mutex)
		xa_erase(&perf_persistent_sessions, session->id);
	kobject_put(&session->kobj);
}

/* Members */

/**
 * perf_persistent_member_find - look a member up
 * @session: session
 * @nr:      number within the session
 *
 * Return: the member, or NULL
 */
struct perf_persistent_member *
perf_persistent_member_find(struct perf_persistent_session *session, u32 nr)
{
	struct perf_persistent_member *member;

	lockdep_assert_held(&perf_persistent_mutex);

	list_for_each_entry(member, &session->members, entry) {
		if (member->nr == nr)
			return member;
	}

	return NULL;
}

static void perf_persistent_member_add(struct perf_persistent_session *session,
				       struct perf_persistent_member *new)
{
	struct perf_persistent_member *member;

	list_for_each_entry(member, &session->members, entry) {
		if (member->nr > new->nr)
			break;
	}
	list_add_tail(&new->entry, &member->entry);
}

static void perf_persistent_member_put(struct perf_persistent_member *member)
{
	lockdep_assert_held(&perf_persistent_mutex);

	if (--member->nr_instances)
		return;

	list_del(&member->entry);
	kfree(member);
}

/* Take @new, or the member that is there already if it is the same event. */
static struct perf_persistent_member *
perf_persistent_member_get(struct perf_persistent_session *session,
			   struct perf_persistent_member **new)
{
	struct perf_persistent_member *member;

	member = perf_persistent_member_find(session, (*new)->nr);
	if (!member) {
		swap(member, *new);
		perf_persistent_member_add(session, member);
	} else if (memcmp(&member->attr, &(*new)->attr, sizeof(member->attr)) ||
		   (*(*new)->label && strcmp(member->label, (*new)->label))) {
		return ERR_PTR(-EINVAL);
	}
	member->nr_instances++;

	return member;
}

/* Instances */

static bool perf_persistent_instance_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct perf_persistent_instance, node)->nr <
	       rb_entry(b, struct perf_persistent_instance, node)->nr;
}

static int perf_persistent_instance_cmp(const void *nr, const struct rb_node *node)
{
	const struct perf_persistent_instance *inst;

	inst = rb_entry(node, struct perf_persistent_instance, node);

	return *(const u32 *)nr < inst->nr ? -1 : *(const u32 *)nr > inst->nr;
}

/**
 * perf_persistent_instance_find - look an instance up by its number
 * @session: session
 * @nr:      number within the session
 *
 * Return: the instance, or NULL
 */
struct perf_persistent_instance *
perf_persistent_instance_find(struct perf_persistent_session *session, u32 nr)
{
	lockdep_assert_held(&perf_persistent_mutex);

	return rb_entry_safe(rb_find(&nr, &session->instances, perf_persistent_instance_cmp),
			     struct perf_persistent_instance, node);
}

/**
 * perf_persistent_instance_lookup - look an instance up by what it measures
 * @key: session, member, CPU, task and cgroup
 *
 * Return: the instance, or NULL
 */
struct perf_persistent_instance *
perf_persistent_instance_lookup(const struct perf_persistent_key *key)
{
	lockdep_assert_held(&perf_persistent_mutex);

	return rhashtable_lookup_fast(&perf_persistent_keys, key, perf_persistent_key_params);
}

/* The instance with the smallest number that is not below @nr, or NULL */
static struct perf_persistent_instance *
perf_persistent_instance_from(struct perf_persistent_session *session, u32 nr)
{
	struct perf_persistent_instance *inst, *found = NULL;
	struct rb_node *node = session->instances.rb_node;

	lockdep_assert_held(&perf_persistent_mutex);

	while (node) {
		inst = rb_entry(node, struct perf_persistent_instance, node);
		if (inst->nr >= nr) {
			found = inst;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}

	return found;
}

/**
 * perf_persistent_visit - call a function for each instance of a session
 * @session: session
 * @visit:   called with perf_persistent_mutex held; what is not 0 ends the walk
 * @data:    passed on to @visit
 *
 * Goes in steps, so that nobody waits for the mutex until all instances of a large
 * session have been visited. They may come and go between two steps.
 *
 * Context: may sleep; takes perf_persistent_mutex.
 * Return: what @visit returned last, or 0
 */
int perf_persistent_visit(struct perf_persistent_session *session,
			  int (*visit)(struct perf_persistent_instance *inst, void *data),
			  void *data)
{
	struct perf_persistent_instance *inst;
	u32 nr = 0;
	int ret;

	do {
		guard(mutex)(&perf_persistent_mutex);

		inst = perf_persistent_instance_from(session, nr);
		for (int i = 0; inst && i < 64; i++) {
			ret = visit(inst, data);
			if (ret)
				return ret;
			nr = inst->nr + 1;
			inst = rb_entry_safe(rb_next(&inst->node),
					     struct perf_persistent_instance, node);
		}
	} while (inst);

	return 0;
}

/**
 * perf_persistent_get_next - walk the events of a session
 * @session: session
 * @nr:      smallest number of an instance that is wanted; on return the next one
 *
 * Instances may come and go between two calls.
 *
 * Context: may sleep; takes perf_persistent_mutex.
 * Return: the event, of which the caller becomes a user, or NULL at the end
 */
struct perf_event *
perf_persistent_get_next(struct perf_persistent_session *session, u32 *nr)
{
	struct perf_persistent_instance *inst;

	guard(mutex)(&perf_persistent_mutex);

	inst = perf_persistent_instance_from(session, *nr);
	if (!inst)
		return NULL;

	*nr = inst->nr + 1;
	refcount_inc(&inst->event->persistent->users);

	return inst->event;
}

/**
 * perf_persistent_instance_create - make an instance, counted against the limits
 * @event: event that is going to be detached
 *
 * Return: the instance, or -EAGAIN, -ENOMEM
 */
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
	inst->key.task = perf_persistent_target(event);
	inst->key.cgroup = perf_persistent_cgroup(event);
	inst->key.cpu = event->persistent->cpu;
	if (inst->key.task)
		inst->pid = get_task_pid(inst->key.task, PIDTYPE_PID);

	return inst;
}

/**
 * perf_persistent_instance_free - undo perf_persistent_instance_create()
 * @inst: instance that is in no session
 */
void perf_persistent_instance_free(struct perf_persistent_instance *inst)
{
	put_pid(inst->pid);
	perf_persistent_uncharge(inst);
	kfree(inst);
}

/* event->ctx is another one when a PMU has moved the event to another CPU. */
static void perf_persistent_set_instance(struct perf_event *event,
					 struct perf_persistent_instance *inst)
{
	struct perf_event_context *ctx;

	for (;;) {
		ctx = READ_ONCE(event->ctx);
		raw_spin_lock_irq(&ctx->lock);
		if (likely(ctx == event->ctx))
			break;
		raw_spin_unlock_irq(&ctx->lock);
	}

	WRITE_ONCE(event->persistent->instance, inst);
	if (inst && (event->still & PERF_EVENT_PARKED)) {
		inst->offline_since = ktime_get_boottime_ns();
		inst->offline_count = 1;
	}
	raw_spin_unlock_irq(&ctx->lock);
}

/**
 * perf_persistent_instance_insert - put an instance into its session
 * @session: session; it is found from now on
 * @inst:    new instance with @inst->key.member
 * @new:     new member; NULL on return if it was taken
 *
 * Return: 0, or -EEXIST if the member has one like it, -EINVAL if the member is
 * another event, -EAGAIN if there are too many, -ENOMEM; nothing has changed then
 */
int perf_persistent_instance_insert(struct perf_persistent_session *session,
				    struct perf_persistent_instance *inst,
				    struct perf_persistent_member **new)
{
	struct perf_event *event = inst->event;
	struct perf_persistent_member *member;
	int err;

	lockdep_assert_held(&perf_persistent_mutex);
	lockdep_assert_held(&event->ctx->mutex);

	/* Reopening says number + 1. */
	if (session->nr_instances == PERF_PERSISTENT_INSTANCES ||
	    session->next_instance == U32_MAX)
		return -EAGAIN;

	inst->key.session = session;
	inst->key.member = (*new)->nr;
	err = rhashtable_lookup_insert_fast(&perf_persistent_keys, &inst->hash,
					    perf_persistent_key_params);
	if (err)
		return err;

	member = perf_persistent_member_get(session, new);
	if (IS_ERR(member)) {
		rhashtable_remove_fast(&perf_persistent_keys, &inst->hash,
				       perf_persistent_key_params);
		return PTR_ERR(member);
	}

	inst->session = session;
	inst->member = member;
	inst->nr = session->next_instance++;
	rb_add(&inst->node, &session->instances, perf_persistent_instance_less);
	session->nr_instances++;
	session->needs |= perf_persistent_needs(event);

	/* Its file is the one user that it had before. */
	if (!refcount_inc_not_zero(&event->persistent->users))
		refcount_set(&event->persistent->users, 2);
	perf_persistent_set_instance(event, inst);

	return 0;
}

/**
 * perf_persistent_instance_unlink - take an instance out of the registry's sight
 * @inst: instance, for perf_persistent_instance_finish() without the mutex
 */
void perf_persistent_instance_unlink(struct perf_persistent_instance *inst)
{
	struct perf_persistent_session *session = inst->session;

	lockdep_assert_held(&perf_persistent_mutex);

	perf_persistent_set_instance(inst->event, NULL);
	rhashtable_remove_fast(&perf_persistent_keys, &inst->hash, perf_persistent_key_params);
	rb_erase(&inst->node, &session->instances);
	perf_persistent_member_put(inst->member);
	inst->last = !--session->nr_instances;
}

/**
 * perf_persistent_put_user - give up the use of an event
 * @event: event, which ends if this was its last user
 *
 * Context: may sleep; takes perf_event_context::mutex.
 */
void perf_persistent_put_user(struct perf_event *event)
{
	if (refcount_dec_and_test(&event->persistent->users))
		perf_event_release_kernel(event);
}

/**
 * perf_persistent_instance_finish - give up what an instance holds
 * @inst: instance after perf_persistent_instance_unlink(); freed
 *
 * Context: may sleep; perf_persistent_mutex is not held.
 */
void perf_persistent_instance_finish(struct perf_persistent_instance *inst)
{
	struct perf_persistent_session *ends = inst->last ? inst->session : NULL;
	struct perf_event *event = inst->event;

	if (inst->rb)
		perf_persistent_buffer_unpin(event, inst->rb);
	perf_persistent_put_user(event);
	perf_persistent_instance_free(inst);

	/* Last, so that the limits have room again when the session is gone. */
	if (ends)
		perf_persistent_session_destroy(ends);
}

static int __init perf_persistent_registry_init(void)
{
	perf_persistent_wq = alloc_workqueue("perf_persistent", WQ_UNBOUND, WQ_MAX_ACTIVE);
	if (!perf_persistent_wq)
		return -ENOMEM;

	return rhashtable_init(&perf_persistent_keys, &perf_persistent_key_params);
}
core_initcall(perf_persistent_registry_init);
