// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: new filters for the tracepoints of a session.
 *
 * All new filters are created first and then swapped in. The old ones are freed
 * when no CPU uses them any more.
 */
#include <linux/err.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/trace_events.h>

#include "persistent.h"

/**
 * struct perf_persistent_filter - new filter of an instance; its old one after the swap
 * @entry:  in the list of filters
 * @event:  event of the instance, with a reference
 * @filter: or NULL
 */
struct perf_persistent_filter {
	struct list_head	entry;
	struct perf_event	*event;
	struct event_filter	*filter;
};

/*
 * Create a filter for an event and add it to the list; an empty text is no filter. Returns
 * 0, also if the event is no tracepoint, -EINVAL if the text is not valid for it, or -ENOMEM.
 */
int perf_persistent_filter_add(struct list_head *filters, struct perf_event *event, char *text)
{
	if (!event->tp_event)
		return 0;

	struct perf_persistent_filter *f __free(kfree) = kzalloc_obj(*f, GFP_KERNEL_ACCOUNT);
	if (!f)
		return -ENOMEM;

	f->filter = ftrace_profile_create_filter(event, text);
	if (IS_ERR(f->filter))
		return PTR_ERR(f->filter);

	atomic_long_inc(&event->refcount);
	f->event = event;
	list_add_tail(&no_free_ptr(f)->entry, filters);

	return 0;
}

/* Swap in the new filters; the list has the old ones afterwards. */
void perf_persistent_filters_swap(struct list_head *filters)
{
	struct perf_persistent_filter *f;

	list_for_each_entry(f, filters, entry)
		f->filter = ftrace_profile_swap_filter(f->event, f->filter);
}

/* Free filters that no event has; old ones only after a grace period. */
void perf_persistent_filters_free(struct list_head *filters)
{
	struct perf_persistent_filter *f, *tmp;

	list_for_each_entry_safe(f, tmp, filters, entry) {
		free_event_filter(f->filter);
		put_event(f->event);
		kfree(f);
	}
}
