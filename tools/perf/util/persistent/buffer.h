/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_BUFFER_H
#define __PERF_PERSISTENT_BUFFER_H

#include <stdbool.h>
#include <linux/types.h>
#include <perf/event.h>

struct evlist;
struct evsel;
struct mmap;
struct perf_event_mmap_page;

/*
 * One buffer of a session, and how far this reader has read it. The position is
 * the reader's own: others read the same buffer at the same time, and a reader
 * changes nothing for them unless it consumes.
 *
 * @start:	    data before this position was cleared
 * @lost_bytes:	    overwritten before this reader read them
 * @consumed_bytes: taken out by a consumer before this reader read them
 * @left_out:	    number of records of other events, which the reader drops
 */
struct persistent_buffer {
	struct evlist			*evlist;
	struct evsel			*evsel;
	u64				id;
	int				fd;
	int				cpu;
	bool				backward;
	bool				side_band;
	bool				in_part;
	bool				consumes;
	bool				ended;
	bool				pending;
	struct perf_event_mmap_page	*base;
	u64				size;
	u64				start;
	u64				cursor;
	void				*data;
	u64				len;
	u64				lost_bytes;
	u64				consumed_bytes;
	u64				left_out;
	u64				came;
	u64				delivered;
	int				period;
	int				idle;
};

typedef bool (*persistent_keep_t)(struct evlist *evlist, union perf_event *event, u64 arg);

int persistent_buffer__mmap(struct persistent_buffer *buffer, bool wait);
void persistent_buffer__print_error(struct persistent_buffer *buffer, int err);
void persistent_buffer__begin(struct persistent_buffer *buffer);
void persistent_buffer__exit(struct persistent_buffer *buffer);
s64 persistent_buffer__behind(struct persistent_buffer *buffer, u64 pos, u64 other);
int persistent_buffer__read(struct persistent_buffer *buffer);
u64 persistent_buffer__keep(struct persistent_buffer *buffer, persistent_keep_t keep, u64 arg);
void persistent_buffer__leave_out_others(struct persistent_buffer *buffer);
void persistent_buffer__consume(struct persistent_buffer *buffer);
void persistent_buffer__consume_older(struct persistent_buffer *buffer, u64 keep);
void persistent_buffer__munmap(struct mmap *map);

/* Pass NULL to get the first record; returns NULL after the last one. */
static inline union perf_event *persistent_buffer__next(struct persistent_buffer *buffer,
							union perf_event *event)
{
	void *next = event ? (void *)event + event->header.size : buffer->data;

	return next < buffer->data + buffer->len ? next : NULL;
}

#define persistent_buffer__for_each(buffer, event)				\
	for (__auto_type event = persistent_buffer__next(buffer, NULL); event;	\
	     (event) = persistent_buffer__next(buffer, event))

#endif /* __PERF_PERSISTENT_BUFFER_H */
