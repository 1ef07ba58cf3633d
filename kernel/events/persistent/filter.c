// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: new filters for the tracepoints of a session.
 *
 * The filters of all instances are made first, then exchanged, and the old ones
 * freed when nobody matches with them any more.
 */
#include <linux/err.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/trace_events.h>

#include "../internal.h"
#include "persistent.h"

#ifdef CONFIG_EVENT_TRACING

/**
 * struct perf_persistent_filter - filter that an instance gets, then the one it had
 * @entry:  in the list of all
 * @event:  event of the instance, with a reference
 * @filter: or NULL
 */
struct perf_persistent_filter {
	struct list_head	entry;
	struct perf_event	*event;
	struct event_filter	*filter;
};

/*
 * Make the filter that an event will get, or an empty one, and add it to a list: 1, or 0 for
 * an event that is no tracepoint, -EINVAL for a text that is no filter for it, -ENOMEM.
 */
int perf_persistent_filter_add(struct list_head *filters, struct perf_event *event, char *text)
{
	struct perf_persistent_filter *f;
	int err;

	if (!event->tp_event)
		return 0;

	f = kzalloc_obj(*f, GFP_KERNEL_ACCOUNT);
	if (!f)
		return -ENOMEM;

	f->filter = ftrace_profile_create_filter(event, text);
	if (IS_ERR(f->filter)) {
		err = PTR_ERR(f->filter);
		kfree(f);
		return err;
	}

	atomic_long_inc(&event->refcount);
	f->event = event;
	list_add_tail(&f->entry, filters);

	return 1;
}

/* Give all events in the list the filters that were made, and put into it those they had. */
void perf_persistent_filters_swap(struct list_head *filters)
{
	struct perf_persistent_filter *f;

	list_for_each_entry(f, filters, entry)
		f->filter = ftrace_profile_swap_filter(f->event, f->filter);
}

/* Free filters that no event has, a grace period after they were exchanged. */
void perf_persistent_filters_free(struct list_head *filters)
{
	struct perf_persistent_filter *f, *tmp;

	list_for_each_entry_safe(f, tmp, filters, entry) {
		free_event_filter(f->filter);
		put_event(f->event);
		kfree(f);
	}
}

#else /* CONFIG_EVENT_TRACING */

int perf_persistent_filter_add(struct list_head *filters, struct perf_event *event, char *text)
{
	return 0;
}

void perf_persistent_filters_swap(struct list_head *filters) { }
void perf_persistent_filters_free(struct list_head *filters) { }

#endif /* CONFIG_EVENT_TRACING */
