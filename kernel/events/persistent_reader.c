// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: what each open file has for itself.
 *
 * A persistent event has readers who do not know of each other. Each is woken
 * for itself: poll() of an ordinary event forgets a wake-up that it has told
 * of, and with it would all others. And each can suspend the event for as long
 * as its file is open, however that comes to be closed.
 *
 * A file gets a struct perf_reader when it needs one: when it polls, suspends, or
 * detaches an event that it has polled.
 */
#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/slab.h>

#include "internal.h"
#include "persistent.h"

/**
 * struct perf_reader - an open file of an event that is or was persistent
 * @entry:     in perf_event::readers, protected by perf_event::mmap_mutex
 * @file:      the file, which ends it
 * @rb_id:     perf_buffer::id of the buffer that @wakeups is of
 * @wakeups:   perf_buffer::poll when poll() last told of it
 * @suspended: this file suspends the event; protected by perf_event_context::mutex
 */
struct perf_reader {
	struct hlist_node	entry;
	struct file		*file;
	u64			rb_id;
	int			wakeups;
	bool			suspended;
};

static struct perf_reader *perf_reader_find(struct perf_event *event, struct file *file)
{
	struct perf_reader *reader;

	lockdep_assert_held(&event->mmap_mutex);

	hlist_for_each_entry(reader, &event->readers, entry) {
		if (reader->file == file)
			return reader;
	}

	return NULL;
}

/**
 * perf_reader_create - make what a file needs to poll or suspend for itself
 * @file: an open perf event
 *
 * Return: it, for perf_reader_add() or kfree(), or NULL
 */
struct perf_reader *perf_reader_create(struct file *file)
{
	struct perf_reader *reader = kzalloc_obj(*reader, GFP_KERNEL_ACCOUNT);

	if (reader)
		reader->file = file;

	return reader;
}

static struct perf_reader *perf_reader_get(struct perf_event *event, struct file *file)
{
	struct perf_reader *reader = perf_reader_find(event, file);

	if (reader)
		return reader;

	reader = perf_reader_create(file);
	if (reader)
		hlist_add_head(&reader->entry, &event->readers);

	return reader;
}

/**
 * perf_reader_add - give a file that was open before what it needs
 * @event:  event that was just detached
 * @reader: new; freed if the file has one already. It goes on where poll() stood.
 */
void perf_reader_add(struct perf_event *event, struct perf_reader *reader)
{
	guard(mutex)(&event->mmap_mutex);

	if (perf_reader_find(event, reader->file)) {
		kfree(reader);
		return;
	}

	if (event->rb) {
		reader->rb_id = event->rb->id;
		reader->wakeups = atomic_read(&event->rb->polled);
	}
	hlist_add_head(&reader->entry, &event->readers);
}

/*
 * How many wake-ups a reader was told of, as it is told of all now. To one that
 * polls for the first time each of them is news, and so it is to one that there
 * is no memory for.
 */
static int perf_reader_told(struct perf_event *event, struct file *file,
			    struct perf_buffer *rb, int wakeups)
{
	struct perf_reader *reader = perf_reader_get(event, file);
	int told;

	if (!reader)
		return 0;

	told = reader->rb_id == rb->id ? reader->wakeups : 0;
	reader->rb_id = rb->id;
	reader->wakeups = wakeups;

	return told;
}

/*
 * What readers keep of the past is one number: a buffer wakes, and counts it.
 * Events that were never persistent share an answer, as all events did before.
 */
__poll_t perf_buffer_poll(struct perf_buffer *rb, struct file *file)
{
	struct perf_event *event = file->private_data;
	int wakeups = atomic_read(&rb->poll);
	int told;

	lockdep_assert_held(&event->mmap_mutex);

	if (READ_ONCE(event->detached))
		told = perf_reader_told(event, file, rb, wakeups);
	else
		told = atomic_xchg(&rb->polled, wakeups);

	return wakeups == told ? 0 : EPOLLIN | EPOLLRDNORM;
}

/* Suspending */

/* Where it counts, so that it does not stop for another reason in between */
static void __perf_event_suspend(struct perf_event *event, struct perf_cpu_context *cpuctx,
				 struct perf_event_context *ctx, void *info)
{
	event->resume_state = perf_event_resume_state(event);
	event->suspended = true;
	__perf_event_disable(event, cpuctx, ctx, info);
}

/*
 * What has left its context counts nowhere: what is parked is suspended when its CPU
 * is back, and what has ended is not looked for.
 */
static void perf_event_suspend_one(struct perf_event *event)
{
	/* A child that ends leaves its context and the list at once. */
	lockdep_assert_held(&(event->parent ?: event)->child_mutex);

	if (event->attach_state & PERF_ATTACH_CONTEXT)
		event_function_call(event, __perf_event_suspend, NULL);
}

static void perf_event_resume_one(struct perf_event *event)
{
	enum perf_event_state state = PERF_EVENT_STATE_OFF;

	scoped_guard(raw_spinlock_irq, &event->ctx->lock) {
		if (event->suspended)
			state = event->resume_state;
		event->suspended = false;
	}

	if (state == PERF_EVENT_STATE_INACTIVE && !event->parked)
		_perf_event_enable(event);
}

static void perf_event_suspend(struct perf_event *event, struct perf_reader *reader)
{
	struct perf_event_context *ctx = perf_event_ctx_lock(event);

	if (!reader->suspended) {
		reader->suspended = true;
		WRITE_ONCE(event->nr_suspends, event->nr_suspends + 1);
		if (event->nr_suspends == 1)
			perf_event_for_each_child(event, perf_event_suspend_one);
	}
	perf_event_ctx_unlock(event, ctx);
}

static void perf_event_resume(struct perf_event *event)
{
	struct perf_event_context *ctx = perf_event_ctx_lock(event);

	WRITE_ONCE(event->nr_suspends, event->nr_suspends - 1);
	if (!event->nr_suspends)
		perf_event_for_each_child(event, perf_event_resume_one);
	perf_event_ctx_unlock(event, ctx);
}

/**
 * perf_reader_suspend - stop an event for as long as a file is open
 * @file: an open persistent event
 *
 * Its counter is free for others when it returns. Doing it twice does nothing.
 *
 * Context: may sleep; takes perf_event_context::mutex.
 * Return: 0 or -ENOMEM
 */
int perf_reader_suspend(struct file *file)
{
	struct perf_event *event = file->private_data;
	struct perf_reader *reader;

	scoped_guard(mutex, &event->mmap_mutex)
		reader = perf_reader_get(event, file);
	if (!reader)
		return -ENOMEM;

	/* The file is open, so that it stays. */
	perf_event_suspend(event, reader);

	return 0;
}

static void perf_reader_destroy(struct perf_event *event, struct file *file)
{
	struct perf_reader *reader;

	scoped_guard(mutex, &event->mmap_mutex) {
		reader = perf_reader_find(event, file);
		if (reader)
			hlist_del(&reader->entry);
	}
	if (!reader)
		return;

	if (reader->suspended)
		perf_event_resume(event);
	kfree(reader);
}

/**
 * perf_reader_close - undo what a file did to an event, and give it up
 * @event: event that is or was persistent
 * @file:  its file, which is being closed
 *
 * Context: may sleep; takes perf_event_context::mutex.
 */
void perf_reader_close(struct perf_event *event, struct file *file)
{
	if (!hlist_empty(&event->readers))
		perf_reader_destroy(event, file);

	perf_event_put_user(event);
}
