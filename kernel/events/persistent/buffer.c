// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: buffers that outlive their mappings.
 *
 * An instance holds its buffer by a pseudo-mapping: it counts in
 * perf_event::mmap_count and perf_buffer::mmap_count like the mapping of a
 * process. So all checks whether a buffer is in use keep working, and
 * SET_OUTPUT neither takes the buffer away nor frees it.
 *
 * All pages of a pinned buffer are charged to user_struct::perf_mlock and none
 * to an mm, because the buffer can outlive the process that mapped it.
 */
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>

#include "persistent.h"

/* As for mmap(), but RLIMIT_MEMLOCK applies to all buffers of the user together. */
static int charge_user(struct user_struct *user, long pages)
{
	unsigned long max = size_add(perf_mlock_limit(), rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT);
	long locked = atomic_long_read(&user->perf_mlock);

	do {
		if (locked + pages > max && perf_is_paranoid() && !capable(CAP_IPC_LOCK))
			return -EPERM;
	} while (!atomic_long_try_cmpxchg(&user->perf_mlock, &locked, locked + pages));

	return 0;
}

/* Charge to the user the pages that a mapping charged to its mm. */
static int charge_mapped(struct perf_buffer *rb)
{
	struct user_struct *user = rb->mmap_user;
	int err;

	lockdep_assert_held(&rb->aux_mutex);

	if (user != current_user() && !perfmon_capable())
		return -EACCES;

	/* With nothing to charge, the limits do not matter: they may be exceeded already. */
	err = rb->mmap_locked ? charge_user(user, rb->mmap_locked) : 0;
	if (err)
		return err;

	atomic64_sub(rb->mmap_locked, &rb->mmap_mm->pinned_vm);
	rb->mmap_locked = 0;
	mmgrab(&init_mm);
	mmdrop(rb->mmap_mm);
	rb->mmap_mm = &init_mm;

	return 0;
}

/* Check that a buffer can be pinned as it is, with the mappings that it has. */
static int check_buffer(struct perf_event *event, struct perf_buffer *rb, u32 nr_pages)
{
	if (nr_pages && nr_pages != data_page_nr(rb))
		return -EINVAL;

	/* Only the user page: there are no records to overwrite. */
	if (!data_page_nr(rb))
		return 0;

	if (!is_write_backward(event)) {
		if (rb->overwrite)
			return -EINVAL;
		return rb->nr_writers > 1 ? -EBUSY : 0;
	}

	return rb->overwrite && !rb->nr_writers ? 0 : -EACCES;
}

static void add_to_session(struct perf_buffer *rb, struct perf_persistent_session *session)
{
	rb->pin_session = session;
	atomic_long_add(data_page_nr(rb) + 1, &session->nr_pages);
}

/* Add a pseudo-mapping to the existing buffer of @event, or change nothing. */
static int pin_existing(struct perf_event *event, struct perf_buffer *rb,
			struct perf_persistent_session *session, u32 nr_pages)
{
	int err;

	lockdep_assert_held(&event->mmap_mutex);
	guard(mutex)(&rb->aux_mutex);

	/*
	 * Readers of the other session, or who have mapped the buffer when it was in
	 * one or they had attached the event, would see the records of this event.
	 */
	if (rb->nr_pins ? rb->pin_session != session : rb->was_shared)
		return -EBUSY;

	/* Even if the buffer is ending: perf_buffer_end() takes mmap_mutex to uncharge it. */
	err = check_buffer(event, rb, nr_pages) ?: charge_mapped(rb);
	if (err)
		return err;

	if (!refcount_inc_not_zero(&rb->mmap_count))
		return -ENOENT;

	if (!rb->nr_pins++)
		add_to_session(rb, session);

	return 0;
}

static bool writes_records(struct perf_event *event)
{
	struct perf_event_attr *attr = &event->attr;

	return is_sampling_event(event) || attr->mmap || attr->mmap_data ||
	       attr->mmap2 || attr->comm || attr->task || attr->namespaces ||
	       attr->ksymbol || attr->bpf_event || attr->cgroup ||
	       attr->context_switch || attr->text_poke;
}

/* A task and its children write on any CPU; a buffer needs a single writing CPU. */
static bool has_many_writers(struct perf_event *event)
{
	return event->cpu == -1 && event->attr.inherit;
}

static u32 default_pages(struct perf_event *event)
{
	unsigned long kb = PERF_PERSISTENT_BUFFER_KB;

	if (!writes_records(event) || has_many_writers(event))
		return 0;

	if (!perfmon_capable())
		kb = PERF_PERSISTENT_BUFFER_KB_USER;

	return max(kb >> (PAGE_SHIFT - 10), 1UL);
}

/* Drop a pseudo-mapping and a reference; the buffer ends with the last mapping. */
void perf_persistent_buffer_free(struct perf_buffer *rb)
{
	if (IS_ERR_OR_NULL(rb))
		return;

	if (refcount_dec_and_test(&rb->mmap_count))
		perf_buffer_end(rb);
	ring_buffer_put(rb);
}

static struct perf_buffer *make_buffer(struct perf_event *event, u32 nr_pages)
{
	int flags = is_write_backward(event) ? 0 : RING_BUFFER_WRITABLE;
	struct user_struct *user = current_user();
	long pages = nr_pages + 1L;
	struct perf_buffer *rb;
	int err;

	err = charge_user(user, pages);
	if (err)
		return ERR_PTR(err);

	rb = rb_alloc(nr_pages,
		      event->attr.watermark ? event->attr.wakeup_watermark : 0,
		      event->cpu, flags);
	if (!rb) {
		atomic_long_sub(pages, &user->perf_mlock);
		return ERR_PTR(-ENOMEM);
	}

	mmgrab(&init_mm);
	rb->mmap_mm = &init_mm;
	rb->nr_pins = 1;

	/* Do not pin memory for a dying task. */
	if (fatal_signal_pending(current)) {
		perf_persistent_buffer_free(rb);
		return ERR_PTR(-EINTR);
	}

	return rb;
}

/*
 * Allocate a buffer for an event to be detached, of @nr_pages data pages or,
 * for 0, of the default size, charged to the current user. Returns NULL if the
 * event has a buffer or needs none, or -EINVAL, -EPERM, -ENOMEM, -EINTR.
 */
struct perf_buffer *perf_persistent_buffer_alloc(struct perf_event *event, u32 nr_pages)
{
	if (nr_pages && (!is_power_of_2(nr_pages) || has_many_writers(event)))
		return ERR_PTR(-EINVAL);
	/* mmap() can map and rb_alloc() can allocate so many pages. */
	if (nr_pages > min_t(unsigned long, INT_MAX, ULONG_MAX >> (PAGE_SHIFT + 2)))
		return ERR_PTR(-ENOMEM);
	if (READ_ONCE(event->rb))
		return NULL;

	nr_pages = nr_pages ?: default_pages(event);

	return nr_pages ? make_buffer(event, nr_pages) : NULL;
}

/*
 * Pin the buffer of an instance that enters @session, if there is one: the existing one, which
 * must have @nr_pages data pages unless that is 0, else *@new, which is NULL on return if it was
 * used. Returns 0, or
 * -EINVAL   not the size of the existing buffer, or a buffer that is written forward and
 *           overwritten
 * -EACCES   the buffer of another user, or an overwrite buffer that is mapped writable
 * -EBUSY    the buffer of another session, one that a delegated reader of a session
 *           has mapped, or a discard buffer with several writable mappings
 * -EPERM    no more memory can be locked
 * -ENOBUFS  the buffer has ended meanwhile: try again
 */
int perf_persistent_buffer_pin(struct perf_persistent_instance *inst,
			       struct perf_persistent_session *session, u32 nr_pages,
			       struct perf_buffer **new)
{
	struct perf_event *event = inst->event;
	int err;

	guard(mutex)(&event->mmap_mutex);

	if (event->rb) {
		err = pin_existing(event, event->rb, session, nr_pages);
		if (err == -ENOENT) {
			/* Its last mapping is being removed; perf_mmap() does the same. */
			perf_event_set_buffer(event, NULL);
			return -ENOBUFS;
		}
		if (err)
			return err;
	} else if (*new) {
		add_to_session(*new, session);
		perf_event_set_buffer(event, *new);
		*new = NULL;
	} else {
		return nr_pages || default_pages(event) ? -ENOBUFS : 0;
	}

	if (!refcount_inc_not_zero(&event->mmap_count))
		refcount_set(&event->mmap_count, 1);
	inst->rb = event->rb;

	return 0;
}

/*
 * Unpin the buffer of an instance that leaves the registry, if it has one. The buffer ends here
 * if it has no mappings. Otherwise the event keeps writing to it, as events
 * that were redirected do.
 */
void perf_persistent_buffer_unpin(struct perf_persistent_instance *inst)
{
	struct perf_event *event = inst->event;
	struct perf_buffer *rb = inst->rb;

	if (!rb)
		return;

	/* perf_buffer_end() may free other events. */
	lockdep_assert_not_held(&event->ctx->mutex);

	/* The event's own reference is dropped with the last mapping. */
	refcount_inc(&rb->refcount);
	scoped_guard(mutex, &rb->aux_mutex) {
		if (!--rb->nr_pins)
			atomic_long_sub(data_page_nr(rb) + 1, &rb->pin_session->nr_pages);
	}

	/*
	 * Same order as in perf_mmap_close(), on which perf_mmap() relies. The
	 * mutex keeps perf_mmap() from adding a mapping before the count is 0.
	 */
	if (refcount_dec_and_mutex_lock(&event->mmap_count, &event->mmap_mutex))
		mutex_unlock(&event->mmap_mutex);
	perf_persistent_buffer_free(rb);
}
