/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_READER_H
#define __PERF_PERSISTENT_READER_H

#include <stdbool.h>
#include <stdio.h>
#include <linux/types.h>

struct evlist;
struct evsel;
struct mmap;
struct mmap_params;
struct perf_event_mmap_page;
struct perf_persistent_query;
union perf_event;

/*
 * One buffer of a session and how far this reader has come in it. The
 * position is the reader's own: others read the same buffer at the same time,
 * and nothing that is done here changes what they find, unless it consumes.
 *
 * @start:	    what lies before it was cleared
 * @ask_all:	    instances may have been dropped, which do not hang up
 * @lost_bytes:	    overwritten before this reader had them
 * @consumed_bytes: taken out by a consumer before this reader had them
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
	bool				ask_all;
	bool				pending;
	int				nr_polled;
	struct perf_event_mmap_page	*base;
	u64				size;
	u64				start;
	u64				cursor;
	void				*data;
	u64				len;
	u64				samples;
	u64				lost_bytes;
	u64				consumed_bytes;
	u64				came;
	u64				delivered;
	int				period;
	int				idle;
};

/*
 * @history:	   begin with what is there, not with what comes
 * @consume:	   make room for what was read
 * @no_wait:	   for another consumer to end
 * @horizon:	   what side-band says is complete from this time on
 * @early_samples: how many are older
 * @left_out:	   samples that were not asked for
 */
struct persistent_reader {
	struct evlist			*evlist;
	struct persistent_buffer	*buffers;
	int				nr;
	bool				history;
	bool				consume;
	bool				no_wait;
	u64				older_bytes;
	u64				horizon;
	u64				early_samples;
	u64				left_out;
};

int persistent__check_buffer(u32 id);
int persistent_reader__init(struct persistent_reader *reader, struct evlist *evlist);
int persistent_reader__open(struct persistent_reader *reader, struct evlist *evlist, u32 id);
void persistent_reader__exit(struct persistent_reader *reader);
int persistent_reader__read(struct persistent_reader *reader);
void persistent_reader__skip(struct persistent_reader *reader);
void persistent_reader__find_horizon(struct persistent_reader *reader);
void persistent_reader__print_horizon(struct persistent_reader *reader, FILE *fp);
void persistent_side_band__print_lost(u64 lost, FILE *fp);
u64 persistent_reader__lost_bytes(struct persistent_reader *reader);
u64 persistent_event__time(struct evlist *evlist, union perf_event *event);
struct persistent_buffer *persistent_reader__find(struct persistent_reader *reader, u64 id);

typedef bool (*persistent_keep_t)(struct evlist *evlist, union perf_event *event, u64 arg);

int persistent_buffer__query(int fd, struct perf_persistent_query *query);
int persistent_buffer__read(struct persistent_buffer *buffer);
void persistent_buffer__keep(struct persistent_buffer *buffer, persistent_keep_t keep, u64 arg);
void persistent_buffer__consume(struct persistent_buffer *buffer);
void persistent_buffer__consume_older(struct persistent_buffer *buffer, u64 keep);
void persistent_buffer__munmap(struct mmap *map);
union perf_event *persistent_buffer__next(struct persistent_buffer *buffer,
					  union perf_event *event);

#endif /* __PERF_PERSISTENT_READER_H */
