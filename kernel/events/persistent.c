// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: events that outlive the process that opened them.
 *
 * Life cycle. An event lives until it has no user (perf_event::users): every
 * open file is one, and so is the registry for as long as it has the event.
 * DETACH makes a struct perf_instance, which holds the registry's user and a
 * pseudo-mapping of the buffer; ATTACH and the end of the time to live undo it.
 * An id (struct perf_persistent) lives as long as it has instances.
 *
 * Ending happens in two phases. Under perf_persistent_mutex an instance is
 * unlinked: no longer found, no longer counted. With the mutex dropped it is
 * finished: the event killed if its time is over, the buffer and the user given
 * up, the id's sysfs entries removed. Finishing waits for contexts, for RCU and
 * for readers of sysfs, who take the mutex.
 *
 * Reopening takes its user under the mutex, where the one that the registry
 * holds keeps the count from being 0.
 *
 * perf_event::persistent is changed under perf_persistent_mutex and the mutex of
 * the event's context, so that CPU hotplug, which must not take the former, can
 * read it under the latter.
 */
#include <linux/cred.h>
#include <linux/sched/user.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/xarray.h>

#include "internal.h"
#include "persistent.h"

/* Protects the registry: what follows, and all ids, members and instances */
DEFINE_MUTEX(perf_persistent_mutex);

static DEFINE_XARRAY_FLAGS(perf_persistent_ids, XA_FLAGS_ALLOC1);
static u32 perf_persistent_next_id;

/**
 * perf_event_put_user - give up the use of an event
 * @event: event, which ends if this was its last user
 *
 * Context: may sleep; takes perf_event_context::mutex.
 */
void perf_event_put_user(struct perf_event *event)
{
	if (refcount_dec_and_test(&event->users))
		perf_event_release_kernel(event);
}

/* Ids */

/**
 * perf_persistent_find - look an id up
 * @id: id
 *
 * Return: the id if it has instances, or NULL
 */
struct perf_persistent *perf_persistent_find(u32 id)
{
	struct perf_persistent *pp;

	lockdep_assert_held(&perf_persistent_mutex);

	pp = xa_load(&perf_persistent_ids, id);

	return pp && pp->nr_instances ? pp : NULL;
}

static int perf_persistent_register(struct perf_persistent *pp)
{
	int err;

	guard(mutex)(&perf_persistent_mutex);

	err = xa_alloc_cyclic(&perf_persistent_ids, &pp->id, pp,
			      XA_LIMIT(1, INT_MAX), &perf_persistent_next_id,
			      GFP_KERNEL_ACCOUNT);
	if (err < 0)
		return err == -EBUSY ? -EAGAIN : err;

	return 0;
}

static void perf_persistent_unregister(struct perf_persistent *pp)
{
	guard(mutex)(&perf_persistent_mutex);

	xa_erase(&perf_persistent_ids, pp->id);
}

/**
 * perf_persistent_arm - set the time that an id has to live
 * @pp:	 id
 * @ttl: ns from now, or 0 for no limit
 */
void perf_persistent_arm(struct perf_persistent *pp, u64 ttl)
{
	lockdep_assert_held(&perf_persistent_mutex);

	hrtimer_cancel(&pp->timer);
	pp->deadline = ttl ? ktime_get_boottime_ns() + ttl : 0;
	if (ttl)
		hrtimer_start(&pp->timer, ns_to_ktime(pp->deadline), HRTIMER_MODE_ABS);
}

static void perf_persistent_expire(struct work_struct *work);

/* The work has a reference of its own: the id may end while it is queued. */
static enum hrtimer_restart perf_persistent_timer(struct hrtimer *timer)
{
	struct perf_persistent *pp = container_of(timer, struct perf_persistent, timer);

	kobject_get(&pp->kobj);
	if (!schedule_work(&pp->expire))
		kobject_put(&pp->kobj);

	return HRTIMER_NORESTART;
}

/**
 * perf_persistent_create - make an id, with its entries in sysfs
 * @d: name, time to live, flags
 *
 * It is found once it has an instance; until then it is the caller's.
 *
 * Context: may sleep; perf_persistent_mutex is not held.
 * Return: the id, or -EEXIST for a name that is taken, -EINVAL for one that is
 * too long with its prefix, -EAGAIN if there are no more ids, -ENOMEM
 */
struct perf_persistent *perf_persistent_create(const struct perf_detach *d)
{
	struct perf_persistent_name *name;
	struct perf_persistent *pp;
	int err;

	pp = kzalloc_obj(*pp, GFP_KERNEL_ACCOUNT);
	if (!pp)
		return ERR_PTR(-ENOMEM);

	perf_persistent_kobj_init(pp);
	pp->instances = RB_ROOT;
	INIT_LIST_HEAD(&pp->members);
	INIT_WORK(&pp->expire, perf_persistent_expire);
	hrtimer_setup(&pp->timer, perf_persistent_timer, CLOCK_BOOTTIME, HRTIMER_MODE_ABS);
	pp->owner = current_euid();
	pp->created = ktime_get_boottime_ns();
	if (d->flags & PERF_DETACH_UNCOMMITTED)
		pp->flags |= PERF_PERSISTENT_UNCOMMITTED;

	err = perf_persistent_register(pp);
	if (err)
		goto err_put;

	name = perf_persistent_name_create(d->name, pp->id, pp->owner);
	if (IS_ERR(name)) {
		err = PTR_ERR(name);
		goto err_unregister;
	}
	pp->name = name;

	err = perf_persistent_sysfs_add(pp);
	if (err)
		goto err_name;

	return pp;

err_name:
	perf_persistent_name_give_up(name);
err_unregister:
	perf_persistent_unregister(pp);
err_put:
	kobject_put(&pp->kobj);
	return ERR_PTR(err);
}

/**
 * perf_persistent_free - free an id that nobody refers to any more
 * @pp: id
 */
void perf_persistent_free(struct perf_persistent *pp)
{
	kfree(pp->name);
	kfree(pp);
}

/**
 * perf_persistent_destroy - end an id that has no instances, or none yet
 * @pp: id
 *
 * Context: waits for readers of sysfs; perf_persistent_mutex is not held.
 */
void perf_persistent_destroy(struct perf_persistent *pp)
{
	WARN_ON_ONCE(pp->nr_instances || !list_empty(&pp->members));

	/* Who sees that the folder is gone can take the name. */
	perf_persistent_name_give_up(pp->name);
	perf_persistent_sysfs_remove(pp);
	hrtimer_cancel(&pp->timer);
	perf_persistent_unregister(pp);
	kobject_put(&pp->kobj);
}

/* Members */

/**
 * perf_event_opened_attr - the attr that an event was opened with
 * @event: event
 *
 * Return: it, in the kernel's size and zero beyond what was given, so that two are
 * the same if they mean it
 */
struct perf_event_attr perf_event_opened_attr(struct perf_event *event)
{
	struct perf_event_attr attr = event->attr;

	attr.type = event->opened.type;
	attr.size = sizeof(attr);
	attr.config = event->opened.config;
	/* A breakpoint is where it was moved to. */
	if (attr.type != PERF_TYPE_BREAKPOINT)
		attr.config1 = event->opened.config1;
	attr.sample_period = event->opened.sample_period;
	*perf_event_attr_bits(&attr) = event->opened.bits;
	/* Without branches it means nothing, and drivers use it. */
	if (!(attr.sample_type & PERF_SAMPLE_BRANCH_STACK))
		attr.branch_sample_type = 0;

	return attr;
}

static void perf_member_put(struct perf_persistent_member *member)
{
	lockdep_assert_held(&perf_persistent_mutex);

	if (--member->nr_instances)
		return;

	list_del(&member->entry);
	kfree(member);
}

static struct perf_persistent_member *
perf_member_create(struct list_head *before, struct perf_event *event,
		   const struct perf_detach *d)
{
	size_t len = strlen(d->label) + 1;
	struct perf_persistent_member *member;

	member = kzalloc(struct_size(member, label, len), GFP_KERNEL_ACCOUNT);
	if (!member)
		return ERR_PTR(-ENOMEM);

	member->nr = d->member;
	member->nr_instances = 1;
	member->attr = perf_event_opened_attr(event);
	memcpy(member->label, d->label, len);
	list_add_tail(&member->entry, before);

	return member;
}

static struct perf_persistent_member *
perf_member_get(struct perf_persistent *pp, struct perf_event *event,
		const struct perf_detach *d)
{
	struct perf_persistent_member *member;
	struct perf_event_attr attr;

	lockdep_assert_held(&perf_persistent_mutex);

	list_for_each_entry(member, &pp->members, entry) {
		if (member->nr >= d->member)
			break;
	}
	if (list_entry_is_head(member, &pp->members, entry) || member->nr > d->member)
		return perf_member_create(&member->entry, event, d);

	attr = perf_event_opened_attr(event);
	if (memcmp(&member->attr, &attr, sizeof(attr)))
		return ERR_PTR(-EINVAL);
	if (*d->label && strcmp(member->label, d->label))
		return ERR_PTR(-EINVAL);
	member->nr_instances++;

	return member;
}

/* Instances */

/* Whether a member measures on the same CPU and the same task or cgroup already */
static bool perf_instance_exists(struct perf_persistent *pp, u32 member,
				 struct perf_event *event)
{
	struct perf_instance *inst;

	lockdep_assert_held(&perf_persistent_mutex);

	perf_instance_for_each(inst, pp) {
		if (inst->member->nr == member && inst->cpu == event->opened.cpu &&
		    inst->task == perf_event_target(event) &&
		    perf_event_cgroup(inst->event) == perf_event_cgroup(event))
			return true;
	}

	return false;
}

static bool perf_instance_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct perf_instance, node)->nr <
	       rb_entry(b, struct perf_instance, node)->nr;
}

static int perf_instance_compare(const void *nr, const struct rb_node *node)
{
	const struct perf_instance *inst = rb_entry(node, struct perf_instance, node);

	return *(const u32 *)nr < inst->nr ? -1 : *(const u32 *)nr > inst->nr;
}

/**
 * perf_instance_find - look an instance up
 * @pp: id
 * @nr: number within the id
 *
 * Return: the instance, or NULL
 */
struct perf_instance *perf_instance_find(struct perf_persistent *pp, u32 nr)
{
	lockdep_assert_held(&perf_persistent_mutex);

	return rb_entry_safe(rb_find(&nr, &pp->instances, perf_instance_compare),
			     struct perf_instance, node);
}

/**
 * perf_instance_create - make an instance, counted against the limits
 * @event: event that is going to be persistent
 *
 * Return: the instance, or -EAGAIN, -ENOMEM
 */
struct perf_instance *perf_instance_create(struct perf_event *event)
{
	struct perf_instance *inst;
	int err;

	inst = kzalloc_obj(*inst, GFP_KERNEL_ACCOUNT);
	if (!inst)
		return ERR_PTR(-ENOMEM);

	err = perf_instance_charge(inst);
	if (err) {
		kfree(inst);
		return ERR_PTR(err);
	}
	inst->event = event;
	inst->cpu = event->opened.cpu;
	inst->task = perf_event_target(event);
	if (inst->task)
		inst->pid = get_task_pid(inst->task, PIDTYPE_PID);

	return inst;
}

/**
 * perf_instance_free - undo perf_instance_create()
 * @inst: instance that is in no id
 */
void perf_instance_free(struct perf_instance *inst)
{
	put_pid(inst->pid);
	perf_instance_uncharge(inst);
	kfree(inst);
}

/**
 * perf_instance_insert - put an instance into its id
 * @pp:	  id; it is found from now on
 * @inst: new instance; perf_event_context::mutex of its event is held
 * @d:	  member, label, buffer
 *
 * Return: 0, or -EEXIST if the member has one like it, -EINVAL if the member is
 * another event, -EAGAIN if there are no more numbers, -ENOMEM, and what
 * perf_buffer_pin() answers; nothing has changed then
 */
int perf_instance_insert(struct perf_persistent *pp, struct perf_instance *inst,
			 const struct perf_detach *d)
{
	struct perf_event *event = inst->event;
	struct perf_persistent_member *member;
	int err;

	lockdep_assert_held(&event->ctx->mutex);

	if (perf_instance_exists(pp, d->member, event))
		return -EEXIST;

	/* Reopening says number + 1 */
	if (pp->next_instance == U32_MAX)
		return -EAGAIN;

	member = perf_member_get(pp, event, d);
	if (IS_ERR(member))
		return PTR_ERR(member);

	err = perf_buffer_pin(event, d);
	if (err < 0) {
		perf_member_put(member);
		return err;
	}

	inst->rb = err ? event->rb : NULL;
	inst->pp = pp;
	inst->member = member;
	inst->nr = pp->next_instance++;
	rb_add(&inst->node, &pp->instances, perf_instance_less);
	if (!pp->nr_instances++)
		perf_persistent_arm(pp, d->ttl);

	if (event->parked) {
		inst->offline_since = ktime_get_boottime_ns();
		inst->offline_count = 1;
	}

	/* Its maker is the one user that it had before. */
	if (event->detached)
		refcount_inc(&event->users);
	else
		refcount_set(&event->users, 2);
	WRITE_ONCE(event->detached, true);
	WRITE_ONCE(event->persistent, inst);

	return 0;
}

/**
 * perf_instance_unlink - take an instance out of the registry's sight
 * @inst: instance
 * @dead: list for it, for perf_instance_finish() without the mutex
 */
void perf_instance_unlink(struct perf_instance *inst, struct list_head *dead)
{
	struct perf_persistent *pp = inst->pp;
	struct perf_event_context *ctx;

	lockdep_assert_held(&perf_persistent_mutex);

	ctx = perf_event_ctx_lock(inst->event);
	WRITE_ONCE(inst->event->persistent, NULL);
	perf_event_ctx_unlock(inst->event, ctx);

	rb_erase(&inst->node, &pp->instances);
	perf_member_put(inst->member);
	inst->last = !--pp->nr_instances;
	list_add_tail(&inst->dead, dead);
}

/**
 * perf_instance_finish - give up what an instance holds
 * @inst: instance after perf_instance_unlink(); freed
 *
 * Context: may sleep; perf_persistent_mutex is not held.
 */
void perf_instance_finish(struct perf_instance *inst)
{
	struct perf_persistent *ends = inst->last ? inst->pp : NULL;
	struct perf_event *event = inst->event;

	if (inst->rb)
		perf_buffer_unpin(event, inst->rb);
	perf_event_put_user(event);
	perf_instance_free(inst);

	/* Last: who sees that the id is gone has room for another one. */
	if (ends)
		perf_persistent_destroy(ends);
}

/* The reference outlives what ends an event for those who have no more use for it. */
static void perf_event_kill(struct perf_event *event)
{
	atomic_long_inc(&event->refcount);
	perf_event_release_kernel(event);
}

static void perf_persistent_expire(struct work_struct *work)
{
	struct perf_persistent *pp = container_of(work, struct perf_persistent, expire);
	struct perf_instance *inst, *tmp;
	LIST_HEAD(dead);

	scoped_guard(mutex, &perf_persistent_mutex) {
		/* It may have been given more time while the work was queued. */
		if (pp->deadline && ktime_get_boottime_ns() >= pp->deadline) {
			while ((inst = perf_instance_first(pp))) {
				inst->event->ended = PERF_PERSISTENT_STATE_EXPIRED;
				perf_instance_unlink(inst, &dead);
			}
		}
	}

	list_for_each_entry_safe(inst, tmp, &dead, dead) {
		perf_event_kill(inst->event);
		wake_up_all(&inst->event->waitq);
		perf_instance_finish(inst);
	}
	kobject_put(&pp->kobj);
}
