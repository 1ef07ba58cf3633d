/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_READER_H
#define __PERF_PERSISTENT_READER_H

#include <stdbool.h>
#include <linux/types.h>
#include "buffer.h"

/*
 * @history:	   begin with the records in the buffers, not with new ones
 * @consume:	   make room by consuming the records that were read
 * @no_wait:	   do not wait for another consumer to end
 * @older_bytes:   overwritten before the first read
 * @horizon:	   side-band is complete from this time on
 * @early_samples: number of samples that are older than @horizon
 * @left_out:	   number of samples outside of the requested time or size
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

#define persistent_reader__for_each(reader, buffer)			\
	for (typeof((reader)->buffers) buffer = (reader)->buffers;	\
	     (buffer) < (reader)->buffers + (reader)->nr; (buffer)++)

int persistent__check_buffer(u32 id);
int persistent_reader__init(struct persistent_reader *reader, struct evlist *evlist);
int persistent_reader__open(struct persistent_reader *reader, u32 id);
void persistent_reader__close(struct persistent_reader *reader);
void persistent_reader__exit(struct persistent_reader *reader);
int persistent_reader__read(struct persistent_reader *reader);
void persistent_reader__make_room(struct persistent_reader *reader);
void persistent_reader__skip(struct persistent_reader *reader);
void persistent_reader__find_horizon(struct persistent_reader *reader);
void persistent_reader__print_losses(struct persistent_reader *reader, u64 lost);
void persistent__print_dropped(u64 samples, u64 side_band);
u64 persistent_event__time(struct evlist *evlist, union perf_event *event);
struct persistent_buffer *persistent_reader__find(struct persistent_reader *reader, u64 id);

int persistent_reader__keep_newest(struct persistent_reader *reader, u64 ns, u64 written,
				   u64 size);
int persistent_reader__keep_first(struct persistent_reader *reader, u64 written, u64 size,
				  bool *full);

#endif /* __PERF_PERSISTENT_READER_H */
