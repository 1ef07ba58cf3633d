// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: how they come into the registry.
 */
#include <linux/fs.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "internal.h"
#include "persistent.h"

static int perf_detach_copy(struct perf_detach *d, unsigned long arg)
{
	struct perf_event_detach u;
	int err = 0;

	if (arg)
		err = perf_persistent_copy_arg(&u, sizeof(u), PERF_EVENT_DETACH_SIZE_VER0, arg);
	else
		u = (struct perf_event_detach){};
	if (err)
		return err;

	if ((u.flags & ~PERF_DETACH_UNCOMMITTED) || u.__reserved)
		return -EINVAL;

	/* Name, time and state belong to the id, which is there already */
	if (u.id && (u.name || u.ttl || u.flags))
		return -EINVAL;
	if (u.member >= PERF_PERSISTENT_MEMBERS)
		return -EINVAL;

	d->flags = u.flags;
	d->id = u.id;
	d->member = u.member;
	d->nr_pages = u.buffer_pages;
	d->ttl = u.ttl;
	d->memlock = rlimit(RLIMIT_MEMLOCK);

	err = perf_persistent_copy_name(d->name, u.name);
	if (!err)
		err = perf_persistent_copy_string(d->label, sizeof(d->label), u.label);
	if (!err && !u.id)
		err = perf_persistent_check_ttl(&d->ttl);

	return err;
}

static int perf_detach_check(struct perf_event *event, const struct perf_detach *d)
{
	if (READ_ONCE(event->persistent))
		return -EEXIST;

	if (event->attr.sigtrap)
		return -EINVAL;

	/* The buffer of AUX has no end of its own. */
	if (event->attr.aux_output || event->attr.aux_sample_size)
		return -EOPNOTSUPP;

	return perf_event_may_reopen(event);
}

/*
 * What has to stay as it is until the event is persistent: a group that loses its
 * leader falls apart, and an event that has lost its CPU does not get it back.
 */
static int perf_event_may_stay(struct perf_event *event)
{
	lockdep_assert_held(&event->ctx->mutex);

	/* Its PMU is gone. */
	if (event->state <= PERF_EVENT_STATE_REVOKED)
		return -ENODEV;

	/* AUX as well; others may be in the way for good. */
	if (event->pmu->setup_aux || (event->pmu->capabilities & PERF_PMU_CAP_EXCLUSIVE))
		return -EOPNOTSUPP;

	if (event->group_leader != event && !event->group_leader->persistent)
		return -EINVAL;

	if (!(event->attach_state & (PERF_ATTACH_TASK | PERF_ATTACH_CONTEXT)) && !event->parked)
		return -ENODEV;

	return 0;
}

static int perf_detach_insert(struct perf_persistent *pp, struct perf_instance *inst,
			      const struct perf_detach *d)
{
	struct perf_event *event = inst->event;
	struct perf_event_context *ctx;
	int err;

	ctx = perf_event_ctx_lock(event);
	err = perf_event_may_stay(event);
	if (!err)
		err = perf_instance_insert(pp, inst, d);
	perf_event_ctx_unlock(event, ctx);

	if (!err)
		perf_remove_from_owner(event);

	return err;
}

static int perf_detach_locked(struct perf_persistent *pp, struct perf_instance *inst,
			      const struct perf_detach *d)
{
	struct perf_event *event = inst->event;
	int err;

	guard(mutex)(&perf_persistent_mutex);

	if (event->persistent)
		return -EEXIST;
	if (event->ended)
		return -ENODEV;

	if (!pp) {
		pp = perf_persistent_find(d->id);
		if (!pp)
			return -ENOENT;
		if (!perf_persistent_is_owned(pp))
			return -EACCES;
	}

	err = perf_detach_insert(pp, inst, d);

	return err ?: pp->id;
}

/**
 * perf_detach_event - put an event into the registry
 * @event: event that the caller has as a user, and is allowed
 * @d:	   how
 *
 * Context: may sleep; takes perf_persistent_mutex.
 * Return: as perf_persistent_detach()
 */
int perf_detach_event(struct perf_event *event, const struct perf_detach *d)
{
	struct perf_persistent *pp = NULL;
	struct perf_instance *inst;
	int ret;

	inst = perf_instance_create(event);
	if (IS_ERR(inst))
		return PTR_ERR(inst);

	if (!d->id) {
		pp = perf_persistent_create(d);
		if (IS_ERR(pp)) {
			perf_instance_free(inst);
			return PTR_ERR(pp);
		}
	}

	ret = perf_detach_locked(pp, inst, d);
	if (ret < 0) {
		if (pp)
			perf_persistent_destroy(pp);
		perf_instance_free(inst);
	}

	return ret;
}

/**
 * perf_persistent_detach - put an event into the registry
 * @file: an open perf event
 * @arg:  address of a struct perf_event_detach, or 0
 *
 * Context: may sleep; takes perf_persistent_mutex.
 * Return: the id, or one of the errors in
 * Documentation/userspace-api/perf_persistent.rst.
 */
int perf_persistent_detach(struct file *file, unsigned long arg)
{
	struct perf_event *event = file->private_data;
	struct perf_reader *reader = NULL;
	struct perf_detach d;
	int ret;

	ret = perf_detach_copy(&d, arg);
	if (ret)
		return ret;

	ret = perf_detach_check(event, &d);
	if (ret)
		return ret;

	/* What has a buffer may have been polled. */
	if (!READ_ONCE(event->detached) && READ_ONCE(event->rb)) {
		reader = perf_reader_create(file);
		if (!reader)
			return -ENOMEM;
	}

	ret = perf_detach_event(event, &d);
	if (ret < 0)
		kfree(reader);
	else if (reader)
		perf_reader_add(event, reader);

	return ret;
}
