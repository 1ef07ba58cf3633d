// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: views, the files that reopening makes, and files of a session.
 *
 * Each view has its own read format, window of the count, wake-ups and holds,
 * so that readers of the same event do not disturb each other. Operations on a
 * view do not change the event, except SET, ATTACH and writing to a buffer.
 *
 * A mapping has a file of its own, which lives as long as the mapping.
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/ioctl.h>
#include <linux/mm.h>
#include <linux/poll.h>
#include <linux/security.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "persistent.h"

/**
 * struct view_window - part of a value that a view shows
 * @id:   event id of a count
 * @sum:  value that the view showed at its last enable, disable or reset
 * @base: value of the event at that time
 */
struct view_window {
	u64	id;
	u64	sum;
	u64	base;
};

/**
 * struct perf_persistent_view - an open file on an event or a session
 * @event:	 event, to which the view has a reference; NULL for a file of the session
 * @read_format: PERF_FORMAT_*
 * @nr_joined:	 instances that had joined its session when its rights were checked
 * @holder:	 its session, to which it has a reference, and its holds
 * @lock:	 protects the fields below
 * @enabled:	 the window is open
 * @rb_id:	 perf_buffer::id of the buffer that @wakeup belongs to
 * @wakeup:	 perf_buffer::wakeup when poll() last reported it
 * @times:	 window of the times: enabled, running
 * @nr_counts:	 length of @counts
 * @counts:	 windows of the count, or of the counts of the group as the view was opened
 */
struct perf_persistent_view {
	struct perf_event		*event;
	u64				read_format;
	u32				nr_joined;
	struct perf_persistent_holder	holder;
	struct mutex			lock;	/* fields below */
	bool				enabled;
	u64				rb_id;
	unsigned long			wakeup;
	struct view_window		times[2];
	u32				nr_counts;
	struct view_window		counts[];
};

/* The window */

/* The value that the view shows; @move the window here, to open or close it. */
static u64 window_read(struct view_window *w, u64 now, bool enabled, bool move)
{
	u64 value = w->sum + (enabled ? perf_persistent_since(now, w->base) : 0);

	if (move)
		*w = (struct view_window) { .id = w->id, .sum = value, .base = now };

	return value;
}

/*
 * Values of an event or a group, as perf_event_read_group() returns them in all formats together,
 * whatever read format the view has
 */
struct view_values {
	u64	nr;
	u64	times[2];
	struct {
		u64	count;
		u64	id;
		u64	lost;
	}	event[] __counted_by(nr);
};

static_assert(PERF_FORMAT_LOST << 1 == PERF_FORMAT_MAX);

static struct view_values *read_one(struct perf_event *event)
{
	struct view_values *v = kzalloc_flex(*v, event, 1);

	if (!v)
		return ERR_PTR(-ENOMEM);

	v->nr = 1;
	v->event[0].count = perf_event_read_value(event, &v->times[0], &v->times[1]);
	v->event[0].id = event->id;
	v->event[0].lost = atomic64_read(&event->lost_samples);

	return v;
}

static struct view_values *read_group(struct perf_event *event)
{
	guard(perf_event_ctx)(event);

	return (void *)perf_event_read_group(event, PERF_FORMAT_MAX - 1);
}

/*
 * Read the values as the view shows them, for kfree(); @move its windows. The events of a group
 * keep their order: leave out the windows of those that have left it, and the values of those
 * that came after the view was opened, which are last.
 */
static struct view_values *view_values(struct perf_persistent_view *view, bool move)
{
	struct view_values *v;
	u32 nr = 0;

	lockdep_assert_held(&view->lock);

	v = view->read_format & PERF_FORMAT_GROUP ? read_group(view->event) : read_one(view->event);
	if (IS_ERR(v))
		return v;

	for (u32 i = 0; i < ARRAY_SIZE(v->times); i++)
		v->times[i] = window_read(&view->times[i], v->times[i], view->enabled, move);
	for (u32 i = 0; i < view->nr_counts && nr < v->nr; i++) {
		if (view->counts[i].id != v->event[nr].id)
			continue;
		v->event[nr].count = window_read(&view->counts[i], v->event[nr].count,
						 view->enabled, move);
		nr++;
	}
	v->nr = nr;

	return v;
}

/*
 * Choose the events that the view shows: @event, to which the rights have been checked, and for
 * a group its siblings, but for those that came after the view was allocated. Each begins where
 * it was cleared last.
 */
static int view_begin(struct perf_persistent_view *view, struct perf_event *event,
		      const struct perf_persistent_session *session)
{
	struct perf_persistent_origin origin = perf_persistent_origin_of(event);
	struct perf_event *sibling;
	u32 nr = 1;
	int err;

	view->times[0].base = origin.enabled;
	view->times[1].base = origin.running;
	view->counts[0].id = event->id;
	view->counts[0].base = origin.count;
	if (view->nr_counts == 1)
		return 0;

	guard(perf_event_ctx)(event);

	for_each_sibling_event(sibling, event) {
		if (nr == view->nr_counts)
			break;
		/* The rights to a delegated session, whose mode was checked, cover its events. */
		err = perf_persistent_is_delegated(session) &&
		      perf_persistent_instance_in(sibling, session) ?
		      0 : perf_persistent_may_open(sibling);
		if (err)
			return err;
		origin = perf_persistent_origin_of(sibling);
		view->counts[nr].id = sibling->id;
		view->counts[nr++].base = origin.count;
	}
	view->nr_counts = nr;

	return 0;
}

/*
 * ENABLE, DISABLE or RESET. If the windows are open or closed already, do not move them: the event
 * may be reset.
 */
static int view_control(struct perf_persistent_view *view, unsigned int nr)
{
	bool reset = nr == _IOC_NR(PERF_EVENT_IOC_RESET);
	bool enable = nr == _IOC_NR(PERF_EVENT_IOC_ENABLE);

	guard(mutex)(&view->lock);

	if (!reset && view->enabled == enable)
		return 0;

	struct view_values *v __free(kfree) = view_values(view, true);
	if (IS_ERR(v))
		return PTR_ERR(v);

	if (!reset)
		view->enabled = enable;
	for (u32 i = 0; reset && i < view->nr_counts; i++)
		view->counts[i].sum = 0;

	return 0;
}

/* Store the values in the layout of read(2); @out has room for all of them. */
static size_t values_format(const struct view_values *v, u64 read_format, u64 *out)
{
	bool group = read_format & PERF_FORMAT_GROUP;
	size_t n = 0;

	out[n++] = group ? v->nr : v->event[0].count;
	if (read_format & PERF_FORMAT_TOTAL_TIME_ENABLED)
		out[n++] = v->times[0];
	if (read_format & PERF_FORMAT_TOTAL_TIME_RUNNING)
		out[n++] = v->times[1];
	for (u32 i = 0; i < v->nr; i++) {
		if (group)
			out[n++] = v->event[i].count;
		if (read_format & PERF_FORMAT_ID)
			out[n++] = v->event[i].id;
		if (read_format & PERF_FORMAT_LOST)
			out[n++] = v->event[i].lost;
	}

	return n * sizeof(*out);
}

static ssize_t view_read(struct file *file, char __user *buf, size_t count, loff_t *ppos)
{
	struct perf_persistent_view *view = file->private_data;
	struct view_values *v __free(kfree) = NULL;
	u64 *out __free(kfree) = NULL;
	ssize_t ret;

	ret = security_perf_event_read(view->event);
	if (ret)
		return ret;

	/* End of file, as for ordinary events */
	if (READ_ONCE(view->event->state) == PERF_EVENT_STATE_ERROR)
		return 0;

	scoped_guard(mutex, &view->lock)
		v = view_values(view, false);
	if (IS_ERR(v))
		return PTR_ERR(v);

	out = kmalloc(struct_size(v, event, v->nr), GFP_KERNEL);
	if (!out)
		return -ENOMEM;

	ret = values_format(v, view->read_format, out);
	if (count < ret)
		return -ENOSPC;

	return copy_to_user(buf, out, ret) ? -EFAULT : ret;
}

/* Wake-ups */

/*
 * perf_buffer::wakeup changes when a record that causes a wake-up is reserved.
 * While a record is being written, do not mark its wake-up as seen, as another
 * one follows when the record is complete:
 *
 *   writer                        poll()
 *   reserve: rb->head, rb->wakeup
 *                                 sees rb->wakeup, reports data
 *   publish: user_page->data_head
 *   wake_up_all()
 *                                 must report again
 */
static bool view_has_news(struct perf_persistent_view *view, struct perf_buffer *rb)
{
	unsigned long wakeup = local_read(&rb->wakeup);
	bool complete, news;

	/*
	 * Before the rest; pairs with local_cmpxchg() in __perf_output_begin(). Where that
	 * does not order, or @nest can be seen before data_head, a wake-up may only be
	 * reported with the next one.
	 */
	smp_rmb();
	/* Nobody is writing. The heads in the user page do not tell: a consumer can change them. */
	complete = !READ_ONCE(rb->nest);

	guard(mutex)(&view->lock);

	if (view->rb_id != rb->id) {
		view->rb_id = rb->id;
		view->wakeup = 0;
	}
	news = wakeup != view->wakeup;
	if (complete)
		view->wakeup = wakeup;

	return news;
}

static __poll_t view_poll(struct file *file, poll_table *wait)
{
	struct perf_persistent_view *view = file->private_data;
	struct perf_event *event = view->event;

	poll_wait(file, &event->waitq, wait);

	switch (perf_persistent_state(event)) {
	case PERF_PERSISTENT_STATE_EXITED:
	case PERF_PERSISTENT_STATE_EXPIRED:
		return EPOLLHUP;
	case PERF_PERSISTENT_STATE_REVOKED:
		return EPOLLERR;
	}

	/* Also if it stands still */
	if (READ_ONCE(event->state) == PERF_EVENT_STATE_ERROR && event->attr.pinned)
		return EPOLLERR;

	struct perf_buffer *rb __free(ring_buffer_put) = ring_buffer_get(event);
	if (!rb)
		return EPOLLHUP;

	return view_has_news(view, rb) ? EPOLLIN | EPOLLRDNORM : 0;
}

/* The file */

static int view_release(struct inode *inode, struct file *file)
{
	struct perf_persistent_view *view = file->private_data;

	perf_persistent_release(&view->holder);
	if (view->holder.attached)
		perf_persistent_put_user(view->event);
	if (view->event)
		put_event(view->event);
	kfree(view);

	return 0;
}

/* Take a use first, so that the event does not end when the registry drops its own. */
static long view_attach(struct perf_persistent_view *view, unsigned int cmd, unsigned long arg)
{
	struct perf_event *event = view->event;
	u32 nr_detached = READ_ONCE(event->persistent->nr_detached);
	long err;

	/* A use keeps an event alive: take none of an event that others have attached. */
	if (!perf_persistent_instance_of(event) ||
	    !refcount_inc_not_zero(&event->persistent->users))
		return -EINVAL;

	err = perf_persistent_ioctl(&view->holder, event, cmd, arg);
	if (err || xchg(&view->holder.attached, nr_detached))
		perf_persistent_put_user(event);

	return err;
}

static long view_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct perf_persistent_view *view = file->private_data;
	long ret;
	u64 id;

	if (_IOC_TYPE(cmd) != _IOC_TYPE(PERF_EVENT_IOC_ENABLE))
		return -ENOTTY;

	ret = security_perf_event_write(view->event);
	if (ret)
		return ret;
	if (cmd == PERF_EVENT_IOC_ATTACH)
		return view_attach(view, cmd, arg);

	ret = perf_persistent_ioctl(&view->holder, view->event, cmd, arg);
	if (ret != -ENOIOCTLCMD)
		return ret;

	/* Some of them have another size in 32-bit programs. */
	switch (_IOC_NR(cmd)) {
	case _IOC_NR(PERF_EVENT_IOC_ENABLE):
	case _IOC_NR(PERF_EVENT_IOC_DISABLE):
	case _IOC_NR(PERF_EVENT_IOC_RESET):
		return view_control(view, _IOC_NR(cmd));
	case _IOC_NR(PERF_EVENT_IOC_ID):
		id = view->event->id;
		return copy_to_user((void __user *)arg, &id, sizeof(id)) ? -EFAULT : 0;
	default:
		/* The other ioctls of perf are for the session, or not for a view. */
		return _IOC_NR(cmd) <= _IOC_NR(PERF_EVENT_IOC_MODIFY_ATTRIBUTES) ?
		       -EOPNOTSUPP : -ENOTTY;
	}
}

static int map_release(struct inode *inode, struct file *file)
{
	put_event(file->private_data);

	return 0;
}

/* File of a mapping; to perf_mmap() and its operations it is a file of the event. */
static const struct file_operations map_fops = {
	.release		= map_release,
};

/*
 * The event may have entered another session since the rights were checked. If not, do not let
 * the buffer move with the mapping of a user to whom only this session is delegated; see
 * perf_persistent_buffer_pin().
 */
static int map_confirm(const struct perf_persistent_session *session, struct perf_buffer *rb)
{
	guard(mutex)(&rb->aux_mutex);

	if (perfmon_capable())
		return 0;
	if (rb->nr_pins && rb->pin_session != session)
		return -EACCES;
	if (perf_persistent_is_delegated(session) ||
	    !uid_eq(READ_ONCE(session->uid), current_euid()))
		rb->was_shared = true;

	return 0;
}

static int view_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct perf_persistent_view *view = file->private_data;
	bool owns = perf_persistent_owns(&view->holder, view->event);
	struct file *map_file;
	int err = 0;

	if (!owns) {
		err = perf_persistent_may_map(view->holder.session, view->event, view->nr_joined);
		if (err)
			return err;
		/* Moving data_tail needs control: it decides which records others see. */
		err = perf_persistent_may_write(view->holder.session);
	}
	if (err && (vma->vm_flags & VM_WRITE))
		return err;

	/* Without FMODE_WRITE, perf_mmap() makes no buffer, as that would change the event. */
	map_file = anon_inode_getfile("[perf_event]", &map_fops, view->event,
				      err ? O_RDONLY : O_RDWR);
	if (IS_ERR(map_file))
		return PTR_ERR(map_file);
	atomic_long_inc(&view->event->refcount);

	/* This takes a reference, and drops that of the view's file. */
	vma_set_file(vma, map_file);
	fput(map_file);

	err = perf_fops.mmap(map_file, vma);
	if (err)
		return err;

	/* The mapping keeps the event and its buffer together. */
	err = map_confirm(view->holder.session, view->event->rb);
	if (err) {
		/* As perf_mmap() does on errors */
		zap_vma(vma);
		vma->vm_ops->close(vma);
	}

	return err;
}

static void view_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct perf_persistent_view *view = file->private_data;
	struct perf_persistent_instance *inst;

	guard(mutex)(&perf_persistent_mutex);

	inst = view->event ? perf_persistent_instance_of(view->event) : NULL;
	if (inst) {
		seq_printf(m, "persistent-id:\t%u\n", inst->session->id);
		seq_printf(m, "persistent-instance:\t%u\n", inst->nr);
	} else if (!view->event && perf_persistent_session_lives(view->holder.session)) {
		seq_printf(m, "persistent-id:\t%u\n", view->holder.session->id);
	}
}

static const struct file_operations view_fops = {
	.release		= view_release,
	.read			= view_read,
	.poll			= view_poll,
	.unlocked_ioctl		= view_ioctl,
	.compat_ioctl		= compat_ptr_ioctl,
	.mmap			= view_mmap,
	.show_fdinfo		= view_show_fdinfo,
};

static long session_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct perf_persistent_view *view = file->private_data;

	return perf_persistent_ioctl(&view->holder, NULL, cmd, arg);
}

/* For QUERY and SET of a whole session; the file keeps no event. */
static const struct file_operations session_fops = {
	.release		= view_release,
	.unlocked_ioctl		= session_ioctl,
	.compat_ioctl		= compat_ptr_ioctl,
	.show_fdinfo		= view_show_fdinfo,
};

/*
 * Open a file of an event of a session, or of the session if @event is NULL, and return its
 * descriptor. On success the file takes over the caller's reference to the event.
 */
int perf_persistent_view_open(struct perf_persistent_session *session, struct perf_event *event,
			      const struct perf_event_attr *attr, u32 nr_joined, int f_flags)
{
	u32 nr = 1 + (attr->read_format & PERF_FORMAT_GROUP ? READ_ONCE(event->nr_siblings) : 0);
	struct perf_persistent_view *view;
	int fd;

	/* perf_event_read_group() has this limit, too. */
	if (nr > U16_MAX / sizeof(view->counts[0]))
		return -E2BIG;

	view = kzalloc_flex(*view, counts, nr, GFP_KERNEL_ACCOUNT);
	if (!view)
		return -ENOMEM;

	kobject_get(&session->kobj);
	view->event = event;
	view->holder.session = session;
	view->read_format = attr->read_format;
	view->nr_joined = nr_joined;
	view->enabled = !attr->disabled;
	view->nr_counts = nr;
	mutex_init(&view->lock);

	fd = event ? view_begin(view, event, session) : 0;
	if (!fd)
		fd = anon_inode_getfd("[perf_event]", event ? &view_fops : &session_fops, view,
				      f_flags);
	if (fd < 0) {
		kobject_put(&session->kobj);
		kfree(view);
	}

	return fd;
}
