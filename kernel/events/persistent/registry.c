// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: the registry of sessions, members and instances.
 *
 * It only finds them; session.c says how they begin and end.
 */
#include <linux/rhashtable.h>
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

/* Sessions */

static struct perf_persistent_session *
__perf_persistent_session_use(struct perf_persistent_session *session)
{
	lockdep_assert_held(&perf_persistent_mutex);

	if (!session || !perf_persistent_session_lives(session))
		return NULL;
	kobject_get(&session->kobj);

	return session;
}

/**
 * perf_persistent_session_use - another reference to a session, unless it has ended
 * @session: session
 *
 * Context: may sleep; takes perf_persistent_mutex.
 * Return: the session, for kobject_put(), or NULL
 */
struct perf_persistent_session *
perf_persistent_session_use(struct perf_persistent_session *session)
{
	guard(mutex)(&perf_persistent_mutex);

	return __perf_persistent_session_use(session);
}

/**
 * perf_persistent_session_get - look a session up
 * @id: id
 *
 * Context: may sleep; takes perf_persistent_mutex.
 * Return: the session if it has not ended, for kobject_put(), or NULL
 */
struct perf_persistent_session *perf_persistent_session_get(u32 id)
{
	guard(mutex)(&perf_persistent_mutex);

	return __perf_persistent_session_use(xa_load(&perf_persistent_sessions, id));
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
 * perf_persistent_selects - whether a choice of members includes an event
 * @member: number of the member + 1, or 0 for all
 * @event:  event that was in the session
 *
 * Context: may sleep; takes perf_persistent_mutex.
 * Return: true if the event is still in a session and belongs to the member
 */
bool perf_persistent_selects(u32 member, struct perf_event *event)
{
	struct perf_persistent_instance *inst;

	guard(mutex)(&perf_persistent_mutex);

	inst = perf_persistent_instance_of(event);

	return inst && (!member || inst->member->nr == member - 1);
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

/**
 * perf_persistent_registry_add - give a session an id
 * @session: session; it is found once it has an instance
 *
 * Context: may sleep; perf_persistent_mutex is not held.
 * Return: 0, or -EAGAIN if there are no more ids, -ENOMEM
 */
int perf_persistent_registry_add(struct perf_persistent_session *session)
{
	int err = xa_alloc_cyclic(&perf_persistent_sessions, &session->id, session,
				  XA_LIMIT(1, INT_MAX), &perf_persistent_next_id,
				  GFP_KERNEL_ACCOUNT);

	if (err == -EBUSY)
		return -EAGAIN;

	return min(err, 0);
}

/**
 * perf_persistent_registry_remove - undo perf_persistent_registry_add()
 * @session: session
 *
 * Context: may sleep; takes perf_persistent_mutex.
 */
void perf_persistent_registry_remove(struct perf_persistent_session *session)
{
	guard(mutex)(&perf_persistent_mutex);

	xa_erase(&perf_persistent_sessions, session->id);
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
 * perf_persistent_registry_link - put an instance into its session
 * @session: session; it is found from now on
 * @inst:    new instance
 * @new:     new member; NULL on return if it was taken
 *
 * The caller has checked that the member does not measure the task. So an older
 * instance with the same key has ended; this one takes its place in the table,
 * and the older one can only be found by its number.
 *
 * Return: 0, or -EEXIST if the member has one like it, -EINVAL if the member is
 * another event, -EAGAIN if there are too many, -ENOMEM; nothing has changed then
 */
int perf_persistent_registry_link(struct perf_persistent_session *session,
				  struct perf_persistent_instance *inst,
				  struct perf_persistent_member **new)
{
	struct perf_persistent_instance *ended = NULL;
	struct perf_persistent_member *member;
	int err = 0;

	lockdep_assert_held(&perf_persistent_mutex);

	/* Reopening says number + 1. */
	if (session->nr_instances == PERF_PERSISTENT_INSTANCES ||
	    session->next_instance == U32_MAX)
		return -EAGAIN;

	inst->key.session = session;
	inst->key.member = (*new)->nr;
	/* The task runs a program now that ended the event which measured it before. */
	if (inst->key.task)
		ended = perf_persistent_instance_lookup(&inst->key);
	if (!ended)
		err = rhashtable_lookup_insert_fast(&perf_persistent_keys, &inst->hash,
						    perf_persistent_key_params);
	if (err)
		return err;

	member = perf_persistent_member_get(session, new);
	if (IS_ERR(member)) {
		if (!ended)
			rhashtable_remove_fast(&perf_persistent_keys, &inst->hash,
					       perf_persistent_key_params);
		return PTR_ERR(member);
	}
	if (ended)
		rhashtable_replace_fast(&perf_persistent_keys, &ended->hash, &inst->hash,
					perf_persistent_key_params);

	inst->session = session;
	inst->member = member;
	inst->nr = session->next_instance++;
	rb_add(&inst->node, &session->instances, perf_persistent_instance_less);
	session->nr_instances++;
	atomic_inc(&session->nr_unfinished);

	return 0;
}

/**
 * perf_persistent_registry_unlink - undo perf_persistent_registry_link()
 * @inst: instance
 */
void perf_persistent_registry_unlink(struct perf_persistent_instance *inst)
{
	struct perf_persistent_session *session = inst->session;

	lockdep_assert_held(&perf_persistent_mutex);

	rhashtable_remove_fast(&perf_persistent_keys, &inst->hash, perf_persistent_key_params);
	rb_erase(&inst->node, &session->instances);
	perf_persistent_member_put(inst->member);
	session->nr_instances--;
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

static int __init perf_persistent_registry_init(void)
{
	return rhashtable_init(&perf_persistent_keys, &perf_persistent_key_params);
}
core_initcall(perf_persistent_registry_init);
