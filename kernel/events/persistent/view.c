// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: views, the files that reopening makes.
 *
 * Each view has its own read format, window of the count, wake-ups and holds,
 * so that readers of the same event do not disturb each other. Operations on a
 * view do not change the event, except SET, ATTACH and writing to a buffer.
 *
 * A mapping is made of an ordinary perf file of its own, which lives as long as
 * the mapping.
 */
#include <linux/anon_inodes.h>
#include <linux/cleanup.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/ioctl.h>
#include <linux/mm.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/security.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "../internal.h"
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
 * struct perf_persistent_view - an open file on an event
 * @event:	 event; the view is one of its users
 * @read_format: PERF_FORMAT_*
 * @holder:	 what it holds
 * @lock:	 protects what follows
 * @enabled:	 the window is open
 * @times:	 window of the times: enabled, running
 * @counts:	 window of the count, or of those of the group
 * @nr_counts:	 length of @counts
 * @rb_id:	 perf_buffer::id of the buffer that @wakeup is of
 * @wakeup:	 perf_buffer::wakeup when poll() last reported it
 */
struct perf_persistent_view {
	struct perf_event		*event;
	u64				read_format;
	struct perf_persistent_holder	holder;
	struct mutex			lock;	/* for what follows */
	bool				enabled;
	struct view_window		times[2];
	struct view_window		*counts;
	u32				nr_counts;
	u64				rb_id;
	unsigned long			wakeup;
};

/* The window */

static u64 window_read(const struct view_window *w, u64 now, bool enabled)
{
	if (!enabled)
		return w->sum;

	return w->sum + perf_persistent_since(now, w->base);
}

/*
 * The values of an event, or of a group: what perf_event_read_group() makes of
 * this format, whatever the view shows of it
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

#define PERF_PERSISTENT_VALUES_FORMAT	(PERF_FORMAT_GROUP | PERF_FORMAT_ID | PERF_FORMAT_LOST | \
					 PERF_FORMAT_TOTAL_TIME_ENABLED | \
					 PERF_FORMAT_TOTAL_TIME_RUNNING)

static struct view_values *read_one(struct perf_event *event)
{
	struct view_values *v = kzalloc_flex(*v, event, 1);

	if (!v)
		return ERR_PTR(-ENOMEM);

	v->nr = 1;
	v->event[0].count = __perf_event_read_value(event, &v->times[0], &v->times[1]);
	v->event[0].id = event->id;
	v->event[0].lost = atomic64_read(&event->lost_samples);

	return v;
}

/* Its session may have expired, which takes out one instance after the other. */
static bool was_shown(const struct perf_event *event)
{
	const struct perf_persistent_event *pe = READ_ONCE(event->persistent);

	/* Pairs with perf_persistent_instance_unlink(). */
	return pe && (smp_load_acquire(&pe->instance) || pe->ended);
}

/* Siblings that are in no session: the rights to the session are none to them. */
static int may_read_siblings(struct perf_event *event)
{
	struct perf_event *sibling;
	unsigned int needs = 0;
	int err;

	lockdep_assert_held(&event->ctx->mutex);

	for_each_sibling_event(sibling, event) {
		if (!was_shown(sibling))
			needs |= perf_persistent_needs(sibling);
	}
	err = perf_event_allow(needs);

	return err == -EPERM ? -EACCES : err;
}

static struct view_values *read_group(struct perf_event *event)
{
	struct perf_event_context *ctx = perf_event_ctx_lock(event);
	/* The leader may be gone. */
	int err = event->group_leader == event ? may_read_siblings(event) : -EINVAL;
	void *v = ERR_PTR(err);

	if (!err)
		v = perf_event_read_group(event, PERF_PERSISTENT_VALUES_FORMAT);
	perf_event_ctx_unlock(event, ctx);

	return v;
}

static const struct view_window *view_find(const struct perf_persistent_view *view, u64 id)
{
	/* Of a sibling that came later, the view shows all of the count. */
	static const struct view_window whole;

	for (u32 i = 0; i < view->nr_counts; i++) {
		if (view->counts[i].id == id)
			return &view->counts[i];
	}

	return &whole;
}

/* The values as they are, for kfree() */
static struct view_values *view_values(const struct perf_persistent_view *view)
{
	return view->read_format & PERF_FORMAT_GROUP ? read_group(view->event) :
						       read_one(view->event);
}

/* Open the windows, or close them, for the events that there are now; RESET has counts be 0. */
static int view_move(struct perf_persistent_view *view, bool enable, bool reset)
{
	struct view_values *v __free(kfree) = view_values(view);
	struct view_window *counts, *w;

	lockdep_assert_held(&view->lock);

	if (IS_ERR(v))
		return PTR_ERR(v);

	counts = kcalloc(v->nr, sizeof(*counts), GFP_KERNEL_ACCOUNT);
	if (!counts)
		return -ENOMEM;

	for (u32 i = 0; i < v->nr; i++) {
		w = &counts[i];
		w->id = v->event[i].id;
		w->base = v->event[i].count;
		if (!reset)
			w->sum = window_read(view_find(view, w->id), w->base, view->enabled);
	}
	for (u32 i = 0; i < ARRAY_SIZE(v->times); i++) {
		w = &view->times[i];
		w->sum = window_read(w, v->times[i], view->enabled);
		w->base = v->times[i];
	}

	kfree(view->counts);
	view->counts = counts;
	view->nr_counts = v->nr;
	view->enabled = enable;

	return 0;
}

static int view_add_window(struct perf_persistent_view *view, struct perf_event *event, u64 base)
{
	struct view_window *counts;

	counts = krealloc_array(view->counts, view->nr_counts + 1, sizeof(*counts),
				GFP_KERNEL_ACCOUNT);
	if (!counts)
		return -ENOMEM;

	view->counts = counts;
	counts[view->nr_counts++] = (struct view_window) {
		.id	= event->id,
		.base	= base,
	};

	return 0;
}

/* The windows of a new view begin where the event, or each of the group, was cleared. */
static int view_begin(struct perf_persistent_view *view)
{
	struct perf_event *event = view->event, *sibling;
	const struct perf_persistent_origin origin = perf_persistent_origin_of(event);
	struct perf_event_context *ctx;
	int err;

	view->times[0].base = origin.enabled;
	view->times[1].base = origin.running;
	err = view_add_window(view, event, origin.count);
	if (err || !(view->read_format & PERF_FORMAT_GROUP))
		return err;

	ctx = perf_event_ctx_lock(event);
	for_each_sibling_event(sibling, event) {
		err = view_add_window(view, sibling, perf_persistent_origin_of(sibling).count);
		if (err)
			break;
	}
	perf_event_ctx_unlock(event, ctx);

	return err;
}

static int view_switch(struct perf_persistent_view *view, bool enable)
{
	guard(mutex)(&view->lock);

	return view->enabled == enable ? 0 : view_move(view, enable, false);
}

static int view_reset(struct perf_persistent_view *view)
{
	guard(mutex)(&view->lock);

	return view_move(view, view->enabled, true);
}

/* What the view shows, for kfree() */
static struct view_values *view_show(struct perf_persistent_view *view)
{
	const struct view_window *w;
	struct view_values *v;

	guard(mutex)(&view->lock);

	v = view_values(view);
	if (IS_ERR(v))
		return v;

	for (u32 i = 0; i < ARRAY_SIZE(v->times); i++)
		v->times[i] = window_read(&view->times[i], v->times[i], view->enabled);
	for (u32 i = 0; i < v->nr; i++) {
		w = view_find(view, v->event[i].id);
		v->event[i].count = window_read(w, v->event[i].count, view->enabled);
	}

	return v;
}

/* In the layout of read(2); @out has as much room as the values take */
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
	struct view_values *v;
	ssize_t ret;
	u64 *out;

	ret = security_perf_event_read(view->event);
	if (ret)
		return ret;

	/* End of file, as for ordinary events */
	if (READ_ONCE(view->event->state) == PERF_EVENT_STATE_ERROR)
		return 0;

	v = view_show(view);
	if (IS_ERR(v))
		return PTR_ERR(v);

	out = kmalloc(struct_size(v, event, v->nr), GFP_KERNEL);
	if (out)
		ret = values_format(v, view->read_format, out);
	kfree(v);
	if (!out)
		return -ENOMEM;

	if (count < ret)
		ret = -ENOSPC;
	else if (copy_to_user(buf, out, ret))
		ret = -EFAULT;
	kfree(out);

	return ret;
}

/* Wake-ups */

/*
 * perf_buffer::wakeup changes with each wake-up, as the record is reserved. While
 * a record is being written the view does not count it as seen, since there is one
 * more wake-up to come when it is complete:
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

	/* Before the head; pairs with the order in perf_output_begin(). */
	smp_rmb();
	complete = READ_ONCE(rb->user_page->data_head) == (unsigned long)local_read(&rb->head);

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

static bool view_has_ended(struct perf_event *event)
{
	u32 state;

	scoped_guard(mutex, &event->child_mutex)
		state = perf_persistent_state(event);

	return state == PERF_PERSISTENT_STATE_EXITED || state == PERF_PERSISTENT_STATE_EXPIRED;
}

static __poll_t view_poll(struct file *file, poll_table *wait)
{
	struct perf_persistent_view *view = file->private_data;
	struct perf_event *event = view->event;
	__poll_t events = EPOLLHUP;
	struct perf_buffer *rb;

	poll_wait(file, &event->waitq, wait);

	if (view_has_ended(event))
		return EPOLLHUP;

	if (event->state == PERF_EVENT_STATE_REVOKED ||
	    (event->state == PERF_EVENT_STATE_ERROR && event->attr.pinned))
		return EPOLLERR;

	rb = ring_buffer_get(event);
	if (rb) {
		events = view_has_news(view, rb) ? EPOLLIN | EPOLLRDNORM : 0;
		ring_buffer_put(rb);
	}

	return events;
}

/* The file */

static int view_release(struct inode *inode, struct file *file)
{
	struct perf_persistent_view *view = file->private_data;

	perf_persistent_release(&view->holder);
	perf_persistent_put_user(view->event);
	kfree(view->counts);
	kfree(view);

	return 0;
}

/* An event that was attached belongs to the process that did so; in a session to none. */
static bool view_is_owned(struct perf_event *event)
{
	struct task_struct *owner;

	guard(rcu)();
	/* As in perf_remove_from_owner() */
	owner = smp_load_acquire(&event->owner);

	return owner && same_thread_group(owner, current);
}

/*
 * Others who still have a view of an event that was attached could otherwise detach it,
 * own the session, and end the event.
 */
static int view_may_detach(struct perf_event *event)
{
	if (view_is_owned(event) || perfmon_capable())
		return 0;

	return perf_persistent_instance_of(event) ? -EEXIST : -EACCES;
}

static long view_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct perf_persistent_view *view = file->private_data;
	long ret;
	u64 id;

	if (_IOC_TYPE(cmd) != _IOC_TYPE(PERF_EVENT_IOC_ENABLE))
		return -ENOTTY;

	ret = security_perf_event_write(view->event);
	if (!ret && _IOC_NR(cmd) == _IOC_NR(PERF_EVENT_IOC_DETACH))
		ret = view_may_detach(view->event);
	if (ret)
		return ret;

	ret = perf_persistent_ioctl(&view->holder, view->event, cmd, arg);
	if (ret != -ENOIOCTLCMD)
		return ret;

	/* 32-bit programs have some of them with another size. */
	switch (_IOC_NR(cmd)) {
	case _IOC_NR(PERF_EVENT_IOC_ENABLE):
		return view_switch(view, true);
	case _IOC_NR(PERF_EVENT_IOC_DISABLE):
		return view_switch(view, false);
	case _IOC_NR(PERF_EVENT_IOC_RESET):
		return view_reset(view);
	case _IOC_NR(PERF_EVENT_IOC_ID):
		id = view->event->id;
		return copy_to_user((void __user *)arg, &id, sizeof(id)) ? -EFAULT : 0;
	case _IOC_NR(PERF_EVENT_IOC_REFRESH):
	case _IOC_NR(PERF_EVENT_IOC_PERIOD):
	case _IOC_NR(PERF_EVENT_IOC_SET_OUTPUT):
	case _IOC_NR(PERF_EVENT_IOC_SET_FILTER):
	case _IOC_NR(PERF_EVENT_IOC_SET_BPF):
	case _IOC_NR(PERF_EVENT_IOC_PAUSE_OUTPUT):
	case _IOC_NR(PERF_EVENT_IOC_QUERY_BPF):
	case _IOC_NR(PERF_EVENT_IOC_MODIFY_ATTRIBUTES):
		return -EOPNOTSUPP;
	default:
		return -ENOTTY;
	}
}

static struct file *perf_file_of(struct perf_event *event, int f_flags)
{
	struct file *file;

	refcount_inc(&event->persistent->users);
	file = anon_inode_getfile("[perf_event]", &perf_fops, event, f_flags);
	if (IS_ERR(file))
		perf_persistent_put_user(event);

	return file;
}

static int view_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct perf_persistent_view *view = file->private_data;
	struct file *perf_file;
	int err;

	/* Whoever moves data_tail decides what others get to see. */
	err = view_is_owned(view->event) ? 0 : perf_persistent_may_write(view->event);
	if (err && (vma->vm_flags & VM_WRITE))
		return err;
	if (!(vma->vm_flags & VM_WRITE))
		vm_flags_clear(vma, VM_MAYWRITE);

	/* Without FMODE_WRITE, perf_mmap() makes no buffer: that would change the event. */
	perf_file = perf_file_of(view->event, err ? O_RDONLY : O_RDWR);
	if (IS_ERR(perf_file))
		return PTR_ERR(perf_file);

	/* It takes a reference, and drops that of the view's file. */
	vma_set_file(vma, perf_file);
	fput(perf_file);

	return perf_fops.mmap(perf_file, vma);
}

static void view_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct perf_persistent_view *view = file->private_data;
	struct perf_persistent_instance *inst;

	guard(mutex)(&perf_persistent_mutex);

	inst = perf_persistent_instance_of(view->event);
	if (!inst)
		return;

	perf_persistent_session_show(inst->session, m);
	seq_printf(m, "persistent-member:\t%u\n", inst->member->nr);
	seq_printf(m, "persistent-instance:\t%u\n", inst->nr);
	seq_printf(m, "persistent-cpu:\t%d\n", inst->key.cpu);
	seq_printf(m, "persistent-state:\t%u\n", perf_persistent_state(view->event));
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

/* Make a view; on success it takes over the caller's use of the event. */
struct file *perf_persistent_view_open(struct perf_event *event,
				       const struct perf_event_attr *attr, int f_flags)
{
	struct perf_persistent_view *view = kzalloc_obj(*view, GFP_KERNEL_ACCOUNT);
	struct file *file;
	int err;

	if (!view)
		return ERR_PTR(-ENOMEM);

	view->event = event;
	view->read_format = attr->read_format;
	view->enabled = !attr->disabled;
	mutex_init(&view->lock);

	err = view_begin(view);
	file = err ? ERR_PTR(err) : anon_inode_getfile("[perf_event]", &view_fops, view, f_flags);
	if (IS_ERR(file)) {
		kfree(view->counts);
		kfree(view);
	}

	return file;
}
