// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: the members and instances of a session.
 *
 * This file finds, links and unlinks them; session.c creates and ends them.
 */
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>

#include "persistent.h"

/* These need persistent.h. */
#define CREATE_TRACE_POINTS
#include <trace/events/perf_persistent.h>

/* Protects the registry, see persistent.h */
DEFINE_MUTEX(perf_persistent_mutex);

/* Time left in ns, at least 1 even if overdue; 0 for no limit */
u64 perf_persistent_session_time_left(const struct perf_persistent_session *session)
{
	u64 now = ktime_get_boottime_ns();

	if (!session->deadline)
		return 0;

	return session->deadline > now ? session->deadline - now : 1;
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

#define from_key_node(node)	rb_entry_safe(node, struct perf_persistent_instance, key_node)

static int key_cmp(const void *key, const struct rb_node *node)
{
	return memcmp(key, &from_key_node(node)->key, sizeof(struct perf_persistent_key));
}

static bool key_less(struct rb_node *a, const struct rb_node *b)
{
	return key_cmp(&from_key_node(a)->key, b) < 0;
}

/* Find the instance with this key, or NULL */
struct perf_persistent_instance *
perf_persistent_instance_lookup(struct perf_persistent_session *session,
				const struct perf_persistent_key *key)
{
	lockdep_assert_held(&perf_persistent_mutex);

	return from_key_node(rb_find(key, &session->keys, key_cmp));
}

static bool nr_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct perf_persistent_instance, nr_node)->nr <
	       rb_entry(b, struct perf_persistent_instance, nr_node)->nr;
}

/* Find the first instance whose number is at least @nr, or NULL */
struct perf_persistent_instance *
perf_persistent_instance_from(struct perf_persistent_session *session, u32 nr)
{
	struct rb_node *node = session->instances.rb_node;
	struct perf_persistent_instance *inst, *found = NULL;

	lockdep_assert_held(&perf_persistent_mutex);

	while (node) {
		inst = rb_entry(node, struct perf_persistent_instance, nr_node);
		if (inst->nr >= nr) {
			found = inst;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}

	return found;
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

/* Check whether an instance with this key counts for its task, also while it is being moved. */
bool perf_persistent_is_counted(struct perf_persistent_session *session,
				const struct perf_persistent_key *key)
{
	struct perf_persistent_instance *inst;

	guard(mutex)(&perf_persistent_mutex);

	inst = perf_persistent_instance_lookup(session, key);

	return inst && is_counting(inst);
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
	rb_add(&inst->nr_node, &session->instances, nr_less);
	session->nr_instances++;
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

	WRITE_ONCE(event->persistent->ended, ended);
	if (!ended)
		trace_persistent_attach(inst);

	WRITE_ONCE(event->persistent->instance, NULL);
	if (!RB_EMPTY_NODE(&inst->key_node))
		rb_erase(&inst->key_node, &session->keys);
	rb_erase(&inst->nr_node, &session->instances);
	session->nr_instances--;
	if (!--inst->member->nr_instances) {
		list_del(&inst->member->entry);
		kfree(inst->member);
	}
	inst->member = NULL;

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
