/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_READER_H
#define __PERF_PERSISTENT_READER_H

#include <stdbool.h>
#include <linux/types.h>

struct evlist;
struct perf_event_mmap_page;
union perf_event;

/*
 * One buffer of a recording and how far this reader has come in it. The
 * position is the reader's own: others read the same buffer at the same time,
 * and nothing that is done here changes what they find.
 */
struct persistent_buffer {
	u64				id;
	int				fd;
	int				cpu;
	bool				backward;
	bool				side_band;
	struct perf_event_mmap_page	*base;
	u64				size;
	u64				cursor;
	void				*data;
	u64				len;
	u64				lost_bytes;
};

struct persistent_reader {
	struct evlist			*evlist;
	struct persistent_buffer	*buffers;
	int				nr;
};

int persistent_reader__init(struct persistent_reader *reader, struct evlist *evlist);
void persistent_reader__exit(struct persistent_reader *reader);
int persistent_reader__read(struct persistent_reader *reader);
void persistent_reader__skip(struct persistent_reader *reader);
u64 persistent_reader__lost_bytes(struct persistent_reader *reader);

union perf_event *persistent_buffer__next(struct persistent_buffer *buffer,
					  union perf_event *event);

#endif /* __PERF_PERSISTENT_READER_H */
