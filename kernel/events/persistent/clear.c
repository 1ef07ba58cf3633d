// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: clearing, after which counts and buffers begin anew.
 *
 * Neither the event nor its buffer changes. Only their current positions are
 * recorded; QUERY, and views that are opened later, begin there. So nobody who
 * is reading already misses anything.
 */
#include <linux/timekeeping.h>

#include "../internal.h"
#include "persistent.h"

/*
 * Where the values of an event begin; all 0 if it was never cleared. Ask before the values
 * are read, so that they are not behind it.
 */
struct perf_persistent_origin perf_persistent_origin_of(struct perf_event *event)
{
	struct perf_persistent_event *pe = READ_ONCE(event->persistent);

	guard(mutex)(&perf_persistent_mutex);

	return pe ? pe->origin : (struct perf_persistent_origin) {};
}

/* Have the values of an event begin anew. The caller holds perf_persistent_session::control. */
void perf_persistent_clear(struct perf_event *event)
{
	struct perf_persistent_origin now = {
		.time = ktime_get_boottime_ns(),
		.lost = atomic64_read(&event->lost_samples),
	};
	struct perf_buffer *rb = ring_buffer_get(event);

	if (rb) {
		now.rb_id = rb->id;
		/* As wide as data_head is */
		now.head = (unsigned long)local_read(&rb->head);
		ring_buffer_put(rb);
	}
	now.count = perf_event_read_value(event, &now.enabled, &now.running);

	guard(mutex)(&perf_persistent_mutex);

	event->persistent->origin = now;
}
