// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: buffers that outlive their mappings.
 *
 * An instance holds its buffer by a pseudo-mapping: it counts in
 * perf_event::mmap_count and perf_buffer::mmap_count like the mapping of a
 * process, so that everything which asks whether a buffer is in use stays
 * right, and SET_OUTPUT neither takes the buffer away nor frees it.
 *
 * A pinned buffer is charged to a user alone: what exceeds perf_event_mlock_kb
 * counts in user_struct::locked_vm, because the mm that mapped it may be gone
 * while the buffer stays.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>

#include "../internal.h"
#include "persistent.h"

/* From looking at what a user is charged to charging more */
static DEFINE_MUTEX(perf_persistent_charge_mutex);

/* Numbers for buffers, which must not be known by their address */
static atomic64_t last_buffer_id = ATOMIC64_INIT(0);

/**
 * perf_persistent_buffer_init - what a buffer has on top
 * @rb: new buffer
 */
void perf_persistent_buffer_init(struct perf_buffer *rb)
{
	mutex_init(&rb->pin_mutex);
	rb->id = atomic64_inc_return(&last_buffer_id);
}

/*
 * Whether what a mapping charged to its mm may be moved over to its user.
 */
static int may_charge(struct perf_buffer *rb)
{
	struct user_struct *user = rb->mmap_user;

	if (user != current_user() && !perfmon_capable())
		return -EACCES;

	if (!rb->mmap_mm || !rb->mmap_locked)
		return 0;

	if (perf_is_paranoid() && !capable(CAP_IPC_LOCK) &&
	    atomic_long_read(&user->locked_vm) + rb->mmap_locked >
	    rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT)
		return -EPERM;

	return 0;
}

static void charge_user(struct perf_buffer *rb)
{
	if (!rb->mmap_mm)
		return;

	atomic_long_add(rb->mmap_locked, &rb->mmap_user->locked_vm);
	atomic64_sub(rb->mmap_locked, &rb->mmap_mm->pinned_vm);
	mmdrop(rb->mmap_mm);
	rb->mmap_mm = NULL;
}

/*
 * Whether a buffer may be kept as it is, with the mappings that it has.
 */
static int check_buffer(struct perf_event *event, struct perf_buffer *rb, u32 nr_pages)
{
	if (nr_pages && nr_pages != data_page_nr(rb))
		return -EINVAL;

	/* The user page alone, in which nothing is overwritten */
	if (!data_page_nr(rb))
		return 0;

	if (!is_write_backward(event)) {
		if (rb->overwrite)
			return -EINVAL;
		return rb->nr_writers > 1 ? -EBUSY : 0;
	}

	if (!rb->overwrite || rb->was_writable)
		return -EACCES;

	return 0;
}

/*
 * Take a pseudo-mapping of the buffer that @event has: all or nothing.
 */
static int pin_existing(struct perf_event *event, struct perf_buffer *rb,
			const struct perf_persistent_session *session, u32 nr_pages)
{
	int err;

	lockdep_assert_held(&event->mmap_mutex);
	guard(mutex)(&rb->pin_mutex);
	guard(mutex)(&perf_persistent_charge_mutex);

	/* Those who may read the other session would see the records of this event. */
	if (rb->nr_pins && rb->pin_session != session)
		return -EBUSY;

	/* perf_buffer_end() needs mmap_mutex before it can uncharge the buffer. */
	err = check_buffer(event, rb, nr_pages);
	if (!err)
		err = may_charge(rb);
	if (err)
		return err;

	if (!refcount_inc_not_zero(&rb->mmap_count))
		return -ENOENT;

	rb->nr_pins++;
	rb->pin_session = session;
	charge_user(rb);

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

/* A task and its children write where they are; a buffer is for one CPU at a time. */
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

/* Pages that mmap() could map, and rb_alloc() take */
static int check_pages(struct perf_event *event, u32 nr_pages)
{
	if (!nr_pages)
		return 0;

	if (!is_power_of_2(nr_pages) || has_many_writers(event))
		return -EINVAL;

	if (nr_pages > min_t(unsigned long, INT_MAX, ULONG_MAX >> (PAGE_SHIFT + 2)))
		return -ENOMEM;

	return 0;
}

/* Charge the current user with pages; @extra of them are beyond perf_event_mlock_kb. */
static int charge_pages(long pages, long *extra)
{
	struct user_struct *user = current_user();
	int err;

	guard(mutex)(&perf_persistent_charge_mutex);

	err = perf_mlock_split(atomic_long_read(&user->locked_vm), rlimit(RLIMIT_MEMLOCK),
			       &pages, extra);
	if (err)
		return err;

	atomic_long_add(pages, &user->perf_mlock);
	atomic_long_add(*extra, &user->locked_vm);

	return 0;
}

static void uncharge_pages(struct user_struct *user, long pages, long extra)
{
	atomic_long_sub(pages - extra, &user->perf_mlock);
	atomic_long_sub(extra, &user->locked_vm);
}

static struct perf_buffer *make_buffer(struct perf_event *event, u32 nr_pages)
{
	int flags = is_write_backward(event) ? 0 : RING_BUFFER_WRITABLE;
	long pages = nr_pages + 1L, extra;
	struct perf_buffer *rb;
	int err;

	err = charge_pages(pages, &extra);
	if (err)
		return ERR_PTR(err);

	rb = rb_alloc(nr_pages,
		      event->attr.watermark ? event->attr.wakeup_watermark : 0,
		      event->cpu, flags);
	/* Do not pin memory for a dying task. */
	if (!rb || fatal_signal_pending(current)) {
		uncharge_pages(current_user(), pages, extra);
		if (!rb)
			return ERR_PTR(-ENOMEM);
		ring_buffer_put(rb);
		return ERR_PTR(-EINTR);
	}

	rb->mmap_locked = extra;
	rb->nr_pins = 1;

	return rb;
}

/*
 * Make the buffer that an event will have in the registry, of @nr_pages data pages or the
 * default size, charged to the current user: NULL if the event has one already or needs
 * none, -EINVAL, -EPERM, -ENOMEM, -EINTR.
 */
struct perf_buffer *perf_persistent_buffer_alloc(struct perf_event *event, u32 nr_pages)
{
	int err;

	if (READ_ONCE(event->rb))
		return NULL;

	err = check_pages(event, nr_pages);
	if (err)
		return ERR_PTR(err);

	nr_pages = nr_pages ?: default_pages(event);

	return nr_pages ? make_buffer(event, nr_pages) : NULL;
}

void perf_persistent_buffer_free(struct perf_buffer *rb)
{
	atomic_long_sub(data_page_nr(rb) + 1 - rb->mmap_locked, &rb->mmap_user->perf_mlock);
	perf_persistent_buffer_uncharge(rb);
	ring_buffer_put(rb);
}

/*
 * Keep the buffer of an event that enters @session: the one that it has, of @nr_pages
 * data pages or any number with 0, else *@new, which is NULL on return if it was taken.
 *
 * Returns 1 if perf_event::rb is pinned, 0 if there is none, or
 * -EINVAL   not a power of two, not the size of the buffer there is, or a buffer that
 *           is written forward and overwritten
 * -EACCES   the buffer of another user, or an overwrite buffer that is or was mapped
 *           writable
 * -EBUSY    the buffer of another session, or a discard buffer with several writable
 *           mappings
 * -EPERM    no more memory can be locked
 * -ENOBUFS  the buffer has ended meanwhile: try again
 */
int perf_persistent_buffer_pin(struct perf_event *event,
			       const struct perf_persistent_session *session, u32 nr_pages,
			       struct perf_buffer **new)
{
	int err;

	err = check_pages(event, nr_pages);
	if (err)
		return err;

	guard(mutex)(&event->mmap_mutex);

	if (event->rb) {
		err = pin_existing(event, event->rb, session, nr_pages);
		if (err == -ENOENT) {
			/* Its last mapping is going; perf_mmap() does the same. */
			ring_buffer_attach(event, NULL);
			return -ENOBUFS;
		}
		if (err)
			return err;
	} else if (*new) {
		(*new)->pin_session = session;
		perf_event_set_buffer(event, *new);
		*new = NULL;
	} else {
		return nr_pages || default_pages(event) ? -ENOBUFS : 0;
	}

	if (!refcount_inc_not_zero(&event->mmap_count))
		refcount_set(&event->mmap_count, 1);

	return 1;
}

/*
 * Give up the buffer of an event that leaves the registry; it ends here if nobody maps it.
 * As long as others need it, the event goes on writing to it, as one that was redirected
 * does.
 */
void perf_persistent_buffer_unpin(struct perf_event *event, struct perf_buffer *rb)
{
	/* The event's own reference goes with the last mapping. */
	refcount_inc(&rb->refcount);
	scoped_guard(mutex, &rb->pin_mutex)
		rb->nr_pins--;

	/*
	 * In the order of perf_mmap_close(), which perf_mmap() relies on. Under the
	 * mutex even if mappings are left: when perf_mmap() fails, a count of 1 means
	 * to it that the buffer is its own, and it uncharges the buffer.
	 */
	scoped_guard(mutex, &event->mmap_mutex) {
		if (!refcount_dec_not_one(&event->mmap_count))
			refcount_set(&event->mmap_count, 0);
	}
	if (refcount_dec_and_test(&rb->mmap_count))
		perf_buffer_end(rb);
	ring_buffer_put(rb);
}

/*
 * A mapping that may be made writable counts as one that is. A child that gets
 * a copy by MADV_DOFORK reads what its parent consumes.
 */
void perf_persistent_vma_open(struct perf_buffer *rb, struct vm_area_struct *vma)
{
	guard(mutex)(&rb->pin_mutex);

	if (rb->nr_pins && vma->vm_mm != current->mm) {
		vm_flags_clear(vma, VM_WRITE | VM_MAYWRITE);
		vma_set_page_prot(vma);
	}
	if (vma->vm_flags & VM_MAYWRITE)
		rb->nr_writers++;
}

void perf_persistent_vma_close(struct perf_buffer *rb, struct vm_area_struct *vma)
{
	guard(mutex)(&rb->pin_mutex);
	if (vma->vm_flags & VM_MAYWRITE)
		rb->nr_writers--;
}

/*
 * Nobody needs to write to the first page of an overwrite buffer, and doing so
 * can mislead its readers: refuse it, or record it for good.
 */
static int allow_write(struct perf_buffer *rb)
{
	lockdep_assert_held(&rb->pin_mutex);

	if (!rb->overwrite || !data_page_nr(rb))
		return 0;

	if (rb->nr_pins)
		return -EACCES;

	rb->was_writable = true;

	return 0;
}

/**
 * perf_persistent_buffer_map - check and note how a process maps a buffer
 * @rb:	 buffer, existing or new
 * @vma: mapping, not yet counted
 *
 * All mappings of a pinned buffer stay read-only, except for one consumer of a
 * discard buffer.
 *
 * Return: 0, -EACCES if only reading is allowed, -EBUSY if there is a consumer.
 */
int perf_persistent_buffer_map(struct perf_buffer *rb, struct vm_area_struct *vma)
{
	int err;

	guard(mutex)(&rb->pin_mutex);

	if (vma->vm_flags & VM_WRITE) {
		err = allow_write(rb);
		if (err)
			return err;
		if (rb->nr_pins && rb->nr_writers)
			return -EBUSY;
	} else if (rb->nr_pins) {
		vm_flags_clear(vma, VM_MAYWRITE);
	}

	if (vma->vm_flags & VM_MAYWRITE)
		rb->nr_writers++;

	return 0;
}

/**
 * perf_persistent_mprotect - veto writing to a buffer that is overwritten
 * @vma:      mapping of a perf event
 * @start:    unused
 * @end:      unused
 * @newflags: VM_* that are asked for
 *
 * A mapping from before the buffer was pinned still has VM_MAYWRITE.
 *
 * Return: 0 or -EACCES.
 */
int perf_persistent_mprotect(struct vm_area_struct *vma, unsigned long start,
			     unsigned long end, unsigned long newflags)
{
	struct perf_event *event = vma->vm_file->private_data;
	struct perf_buffer *rb = event->rb;

	if (!(newflags & VM_WRITE) || vma->vm_pgoff)
		return 0;

	guard(mutex)(&rb->pin_mutex);

	return allow_write(rb);
}
