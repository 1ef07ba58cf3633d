// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: the registry of sessions, members and instances.
 *
 * This file finds, links and unlinks them; session.c creates and ends them.
 */
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/xarray.h>

#include "persistent.h"

/* These need persistent.h. */
#define CREATE_TRACE_POINTS
#include <trace/events/perf_persistent.h>

/* Protects the registry, see persistent.h */
DEFINE_MUTEX(perf_persistent_mutex);

static DEFINE_XARRAY_FLAGS(perf_persistent_sessions, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
static u32 next_session_id;

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

/* Time left in ns, at least 1 even if overdue; 0 for no limit */
u64 perf_persistent_session_time_left(const struct perf_persistent_session *session)
{
	u64 now = ktime_get_boottime_ns();

	if (!session->deadline)
		return 0;

	return session->deadline > now ? session->deadline - now : 1;
}

/* Allocate an id; lookups fail until the session has an instance: 0, -EAGAIN or -ENOMEM. */
int perf_persistent_registry_add(struct perf_persistent_session *session)
{
	int err = xa_alloc_cyclic(&perf_persistent_sessions, &session->id, session,
				  XA_LIMIT(1, INT_MAX), &next_session_id, GFP_KERNEL_ACCOUNT);

	if (err == -EBUSY)
		return -EAGAIN;

	return min(err, 0);
}

void perf_persistent_registry_remove(struct perf_persistent_session *session)
{
	guard(mutex)(&perf_persistent_mutex);

	xa_erase(&perf_persistent_sessions, session->id);
}

/* Members */

/* Ignore the period, which PERF_EVENT_IOC_PERIOD may have changed. */
static bool is_same_event(const struct perf_persistent_member *member,
			  const struct perf_persistent_member *new)
{
	struct perf_event_attr attr = new->attr;

	attr.sample_period = member->attr.sample_period;

	return !memcmp(&member->attr, &attr, sizeof(attr)) &&
	       (!*new->label || !strcmp(member->label, new->label));
}

/* Find the member with this number, or NULL */
struct perf_persistent_member *
perf_persistent_member_lookup(struct perf_persistent_session *session, u32 nr)
{
	struct perf_persistent_member *member;

	lockdep_assert_held(&perf_persistent_mutex);

	list_for_each_entry(member, &session->members, entry) {
		if (member->nr == nr)
			return member;
	}

	return NULL;
}

static void add_member(struct perf_persistent_session *session, struct perf_persistent_member *new)
{
	struct list_head *next;

	list_for_each(next, &session->members) {
		if (list_entry(next, struct perf_persistent_member, entry)->nr > new->nr)
			break;
	}
	list_add_tail(&new->entry, next);
}

/* Instances */

#define from_nr_node(node)	rb_entry_safe(node, struct perf_persistent_instance, nr_node)
#define from_key_node(node)	rb_entry_safe(node, struct perf_persistent_instance, key_node)

static int key_cmp(const void *key, const struct rb_node *node)
{
	return memcmp(key, &from_key_node(node)->key, sizeof(struct perf_persistent_key));
}

static bool key_less(struct rb_node *a, const struct rb_node *b)
{
	return key_cmp(&from_key_node(a)->key, b) < 0;
}

/* All from number *@nr on are equal, so rb_find_first() finds the first of them. */
static int from_cmp(const void *nr, const struct rb_node *node)
{
	return from_nr_node(node)->nr < *(const u32 *)nr;
}

/* Numbers only grow. */
static void add_last(struct rb_node *node, struct rb_root *tree)
{
	struct rb_node *last = rb_last(tree);

	rb_link_node(node, last, last ? &last->rb_right : &tree->rb_node);
	rb_insert_color(node, tree);
}

/* Find the instance with this key, or NULL */
struct perf_persistent_instance *
perf_persistent_instance_lookup(struct perf_persistent_session *session,
				const struct perf_persistent_key *key)
{
	lockdep_assert_held(&perf_persistent_mutex);

	return from_key_node(rb_find(key, &session->keys, key_cmp));
}

/* Find the first instance from number @nr on, or NULL */
struct perf_persistent_instance *
perf_persistent_instance_from(struct perf_persistent_session *session, u32 nr)
{
	lockdep_assert_held(&perf_persistent_mutex);

	return from_nr_node(rb_find_first(&nr, &session->instances, from_cmp));
}

/* Get the next event from instance *@nr on, for put_event(), or NULL */
struct perf_event *perf_persistent_get_next(struct perf_persistent_session *session, u32 member,
					    u32 *nr)
{
	struct perf_persistent_instance *inst;

	for (;;) {
		cond_resched();
		guard(mutex)(&perf_persistent_mutex);

		inst = perf_persistent_instance_from(session, *nr);
		if (!inst)
			return NULL;
		*nr = inst->nr + 1;
		if (!member || inst->member->nr == member - 1) {
			atomic_long_inc(&inst->event->refcount);
			return inst->event;
		}
	}
}

/*
 * Check that the event is still in the context of its target. exec() can end the
 * event and give the target a new context; contexts can be swapped with a child's.
 */
static bool is_counting(const struct perf_persistent_instance *inst)
{
	const struct perf_event *event = inst->event;

	return READ_ONCE(event->state) > PERF_EVENT_STATE_EXIT &&
	       READ_ONCE(event->ctx->task) == inst->key.task;
}

/*
 * Add a new instance to its session; lookups find it from now on. Its member is new, and is freed
 * if the session has it already.
 *
 * An older instance with the same key may no longer count for the task itself, but maybe for
 * its children. The new instance replaces it in the tree of keys then, and the older one can
 * only be found by its number.
 *
 * On errors nothing has changed: -EEXIST if the member has an instance with this key, -EINVAL
 * if the member is another event, -EAGAIN if there are too many instances.
 */
int perf_persistent_instance_link(struct perf_persistent_session *session,
				  struct perf_persistent_instance *inst)
{
	struct perf_persistent_member *member;
	struct perf_event *event = inst->event;
	struct perf_persistent_instance *ended;

	lockdep_assert_held(&event->ctx->mutex);
	lockdep_assert_held(&perf_persistent_mutex);

	/* perf_event_attr::config has the number + 1. */
	if (session->nr_instances == PERF_PERSISTENT_INSTANCES ||
	    session->next_instance == U32_MAX)
		return -EAGAIN;

	ended = perf_persistent_instance_lookup(session, &inst->key);
	if (ended && (!inst->key.task || is_counting(ended)))
		return -EEXIST;
	member = perf_persistent_member_lookup(session, inst->member->nr);
	if (member && !is_same_event(member, inst->member))
		return -EINVAL;

	if (member) {
		swap(inst->member, member);
		kfree(member);
	} else {
		add_member(session, inst->member);
	}
	if (ended) {
		rb_replace_node(&ended->key_node, &inst->key_node, &session->keys);
		RB_CLEAR_NODE(&ended->key_node);
	} else {
		rb_add(&inst->key_node, &session->keys, key_less);
	}

	inst->session = session;
	inst->member->nr_instances++;
	inst->nr = session->next_instance;
	WRITE_ONCE(session->next_instance, inst->nr + 1);
	add_last(&inst->nr_node, &session->instances);
	session->nr_instances++;
	if (inst->nr)
		refcount_inc(&session->nr_unfinished);
	refcount_inc(&event->persistent->users);
	WRITE_ONCE(event->persistent->nr_detached, event->persistent->nr_detached + 1);
	if (perf_event_is_parked(event)) {
		inst->offline_since = ktime_get_boottime_ns();
		inst->offline_count = 1;
	}
	/* is_measured() reads the instance without a lock. */
	smp_store_release(&event->persistent->instance, inst);

	return 0;
}

static void unlink_instance(struct perf_persistent_instance *inst)
{
	struct perf_persistent_session *session = inst->session;
	struct perf_persistent_member *member = inst->member;

	lockdep_assert_held(&perf_persistent_mutex);

	WRITE_ONCE(inst->event->persistent->instance, NULL);
	if (!RB_EMPTY_NODE(&inst->key_node))
		rb_erase(&inst->key_node, &session->keys);
	rb_erase(&inst->nr_node, &session->instances);
	session->nr_instances--;
	inst->member = NULL;
	if (!--member->nr_instances) {
		list_del(&member->entry);
		kfree(member);
	}
}

/*
 * Remove the instance of an event from the registry, for perf_persistent_instance_finish(), or
 * return NULL if the session has none. @ended is enum perf_persistent_state if the kernel ends
 * the event, or 0. Takes perf_event_context::mutex.
 */
struct perf_persistent_instance *
perf_persistent_instance_unlink(struct perf_persistent_session *session,
				struct perf_event *event, u8 ended)
{
	struct perf_persistent_instance *inst;

	guard(perf_event_ctx)(event);
	guard(mutex)(&perf_persistent_mutex);

	inst = perf_persistent_instance_in(event, session);
	if (!inst)
		return NULL;

	event->persistent->ended = ended;
	if (!ended)
		trace_persistent_attach(inst);
	unlink_instance(inst);

	return inst;
}

/* Values */

/*
 * Origin of an event's values; all 0 if it was never cleared. Get it before the
 * values, which must not be older.
 */
struct perf_persistent_origin perf_persistent_origin_of(struct perf_event *event)
{
	struct perf_persistent_event *pe = READ_ONCE(event->persistent);

	guard(mutex)(&perf_persistent_mutex);

	return pe ? pe->origin : (struct perf_persistent_origin) {};
}
