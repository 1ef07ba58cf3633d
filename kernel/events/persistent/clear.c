// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: clearing, which restarts counts and buffers.
 *
 * Neither the event nor its buffer changes. Only their current positions are
 * recorded; QUERY, and views that are opened later, start there. Current
 * readers miss nothing.
 */
#include <linux/timekeeping.h>

#include "../internal.h"
#include "persistent.h"

/*
 * Origin of an event's values; all 0 if it was never cleared. Get it before the
 * values, which must not be older.
 */
struct perf_persistent_origin perf_persistent_origin_of(struct perf_event *event)
{
	struct perf_persistent_event *pe = READ_ONCE(event->persistent);

	guard(mutex)(&perf_persistent_mutex);

	return pe ? pe->origin : (struct perf_persistent_origin) {};
}

/* Restart the values of an event. The caller holds perf_persistent_session::control. */
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
