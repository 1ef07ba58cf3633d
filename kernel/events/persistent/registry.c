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
static u32 next_session_id;

static const struct rhashtable_params key_params = {
	.head_offset		= offsetof(struct perf_persistent_instance, hash),
	.key_offset		= offsetof(struct perf_persistent_instance, key),
	.key_len		= sizeof(struct perf_persistent_key),
	.automatic_shrinking	= true,
};

static struct rhashtable instance_keys;

/* Sessions */

static struct perf_persistent_session *__session_use(struct perf_persistent_session *session)
{
	lockdep_assert_held(&perf_persistent_mutex);

	if (!session || !perf_persistent_session_lives(session))
		return NULL;
	kobject_get(&session->kobj);

	return session;
}

/* Another reference to a session, for kobject_put(), or NULL if it has ended */
struct perf_persistent_session *
perf_persistent_session_use(struct perf_persistent_session *session)
{
	guard(mutex)(&perf_persistent_mutex);

	return __session_use(session);
}

/* The session with this id, for kobject_put(), or NULL */
struct perf_persistent_session *perf_persistent_session_get(u32 id)
{
	guard(mutex)(&perf_persistent_mutex);

	return __session_use(xa_load(&perf_persistent_sessions, id));
}

/* The session that an event is in, for kobject_put(), or NULL */
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

bool perf_persistent_is_in(struct perf_event *event,
			   const struct perf_persistent_session *session)
{
	struct perf_persistent_instance *inst;

	guard(mutex)(&perf_persistent_mutex);

	inst = perf_persistent_instance_of(event);

	return inst && inst->session == session;
}

/* ns, at least 1 even if the end is overdue; 0 for no limit */
u64 perf_persistent_session_time_left(const struct perf_persistent_session *session)
{
	u64 now = ktime_get_boottime_ns();

	if (!session->deadline)
		return 0;

	return session->deadline > now ? session->deadline - now : 1;
}

/* Give a session an id, by which it is found once it has an instance: 0, -EAGAIN, -ENOMEM. */
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

void perf_persistent_session_free(struct perf_persistent_session *session)
{
	kfree(session->name);
	kfree(session);
}

/* Members */

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

static void member_add(struct perf_persistent_session *session, struct perf_persistent_member *new)
{
	struct perf_persistent_member *member;

	list_for_each_entry(member, &session->members, entry) {
		if (member->nr > new->nr)
			break;
	}
	list_add_tail(&new->entry, &member->entry);
}

static void member_put(struct perf_persistent_member *member)
{
	lockdep_assert_held(&perf_persistent_mutex);

	if (--member->nr_instances)
		return;

	list_del(&member->entry);
	kfree(member);
}

/* Take @new, or the member that is there already if it is the same event. */
static struct perf_persistent_member *member_get(struct perf_persistent_session *session,
						 struct perf_persistent_member **new)
{
	struct perf_persistent_member *member;

	member = perf_persistent_member_find(session, (*new)->nr);
	if (!member) {
		swap(member, *new);
		member_add(session, member);
	} else if (memcmp(&member->attr, &(*new)->attr, sizeof(member->attr)) ||
		   (*(*new)->label && strcmp(member->label, (*new)->label))) {
		return ERR_PTR(-EINVAL);
	}
	member->nr_instances++;

	return member;
}

/* Instances */

static bool instance_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct perf_persistent_instance, node)->nr <
	       rb_entry(b, struct perf_persistent_instance, node)->nr;
}

static int instance_cmp(const void *nr, const struct rb_node *node)
{
	const struct perf_persistent_instance *inst;

	inst = rb_entry(node, struct perf_persistent_instance, node);

	return *(const u32 *)nr < inst->nr ? -1 : *(const u32 *)nr > inst->nr;
}

struct perf_persistent_instance *
perf_persistent_instance_find(struct perf_persistent_session *session, u32 nr)
{
	lockdep_assert_held(&perf_persistent_mutex);

	return rb_entry_safe(rb_find(&nr, &session->instances, instance_cmp),
			     struct perf_persistent_instance, node);
}

/* The instance that measures the same */
struct perf_persistent_instance *
perf_persistent_instance_lookup(const struct perf_persistent_key *key)
{
	lockdep_assert_held(&perf_persistent_mutex);

	return rhashtable_lookup_fast(&instance_keys, key, key_params);
}

/* The instance with the smallest number that is not below @nr, or NULL */
static struct perf_persistent_instance *instance_from(struct perf_persistent_session *session,
						      u32 nr)
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

/* The next event from instance *@nr on, for put_event(), or NULL */
struct perf_event *perf_persistent_get_next(struct perf_persistent_session *session, u32 member,
					    u32 *nr)
{
	struct perf_persistent_instance *inst;

	for (;;) {
		cond_resched();
		guard(mutex)(&perf_persistent_mutex);

		inst = instance_from(session, *nr);
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
 * Whether the event is still in the context of its target, which gets another one when it
 * executes a program that ends the event, and may swap it for one of its child's.
 */
static bool is_counting(const struct perf_persistent_instance *inst)
{
	const struct perf_event *event = inst->event;

	return READ_ONCE(event->state) > PERF_EVENT_STATE_EXIT &&
	       READ_ONCE(event->ctx->task) == inst->key.task;
}

/*
 * Put a new instance into its session, which is found from now on; @new is NULL on return
 * if the member was taken.
 *
 * An older instance with the same key may count for the task no more, though maybe for its
 * children. This one takes its place in the table then, and the older one can only be found
 * by its number.
 *
 * On errors nothing has changed: -EEXIST if the member has one like it, -EINVAL if the
 * member is another event, -EAGAIN if there are too many, -ENOMEM.
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
	if (inst->key.task)
		ended = perf_persistent_instance_lookup(&inst->key);
	if (ended && is_counting(ended))
		return -EEXIST;
	if (!ended)
		err = rhashtable_lookup_insert_fast(&instance_keys, &inst->hash, key_params);
	/* Of the table's own errors, "busy" and "too big" mean something else to the caller. */
	if (err == -EBUSY || err == -E2BIG)
		return -EAGAIN;
	if (err)
		return err;

	member = member_get(session, new);
	if (IS_ERR(member)) {
		if (!ended)
			rhashtable_remove_fast(&instance_keys, &inst->hash, key_params);
		return PTR_ERR(member);
	}
	if (ended)
		rhashtable_replace_fast(&instance_keys, &ended->hash, &inst->hash, key_params);

	inst->session = session;
	inst->member = member;
	inst->nr = session->next_instance++;
	rb_add(&inst->node, &session->instances, instance_less);
	session->nr_instances++;
	atomic_inc(&session->nr_unfinished);

	return 0;
}

void perf_persistent_registry_unlink(struct perf_persistent_instance *inst)
{
	struct perf_persistent_session *session = inst->session;

	lockdep_assert_held(&perf_persistent_mutex);

	rhashtable_remove_fast(&instance_keys, &inst->hash, key_params);
	rb_erase(&inst->node, &session->instances);
	member_put(inst->member);
	session->nr_instances--;
}

/* The event ends if this was its last user. Takes perf_event_context::mutex. */
void perf_persistent_put_user(struct perf_event *event)
{
	if (refcount_dec_and_test(&event->persistent->users))
		perf_event_release_kernel(event);
}

static int __init registry_init(void)
{
	return rhashtable_init(&instance_keys, &key_params);
}
core_initcall(registry_init);
