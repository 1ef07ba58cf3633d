// SPDX-License-Identifier: GPL-2.0
/*
 * Present the buffers of a running session as maps like any other, for record, top and
 * trace. The maps are copies: others read the buffers at the same time, and have positions
 * of their own.
 */
#include "follow.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/ring_buffer.h>
#include <internal/evlist.h>
#include <internal/lib.h>
#include <sys/mman.h>
#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "mmap.h"
#include "reader.h"
#include "reopen.h"

/*
 * An overwrite buffer never polls readable, so look into it periodically, the more often
 * the faster it fills.
 */
#define MAX_PERIOD_MSEC	100

/* After this many empty reads, check whether an event still writes to the buffer. */
#define MAX_IDLE	10

bool evlist__follows_persistent(struct evlist *evlist)
{
	struct persistent_reader *reader = evlist__persistent(evlist);

	return reader && reader->nr;
}

/* NULL if the file is of another kind, or the instance has hung up */
static struct persistent_buffer *fdarray__persistent(struct fdarray *pollfd, int i)
{
	struct mmap *map = pollfd->priv[i].ptr;

	return map && pollfd->entries[i].events ? map->persistent : NULL;
}

/*
 * Like fdarray__poll(), but only until the next buffer has to be looked into. An attached event
 * does not poll HUP: a buffer without writers, which a read finds, is not looked into any more.
 */
int evlist__poll_fds(struct evlist *evlist, struct fdarray *pollfd, int timeout)
{
	int ret, nr = evlist__follows_persistent(evlist) ? pollfd->nr : 0;
	struct persistent_buffer *buffer;

	for (int i = 0; i < nr; i++) {
		buffer = fdarray__persistent(pollfd, i);
		if (buffer && (timeout < 0 || buffer->period < timeout))
			timeout = buffer->period;
	}
	ret = fdarray__poll(pollfd, timeout);
	for (int i = 0; i < nr; i++) {
		buffer = fdarray__persistent(pollfd, i);
		if (buffer && buffer->ended)
			pollfd->entries[i].revents |= POLLHUP;
	}
	return ret;
}

/* "session web, id 1, has ended", for each that has; returns the length */
int evlist__scnprintf_ended(struct evlist *evlist, char *buf, size_t size)
{
	struct evsel *evsel;
	u32 last = 0;
	int len = 0;

	buf[0] = '\0';
	evlist__for_each_entry(evlist, evsel) {
		struct persistent_member *member = evsel->persistent;

		if (!member || member->id == last || !evsel__persistent_ended(evsel))
			continue;
		last = member->id;
		len += scnprintf(buf + len, size - len, "%ssession %s, id %u, has ended",
				 len ? "; " : "", member->name, member->id);
	}
	return len;
}

static void persistent_buffer__adapt_period(struct persistent_buffer *buffer)
{
	u64 sixteenths = buffer->came * 16 / buffer->size;

	if (sixteenths > 4)
		buffer->period = max(buffer->period / 2, 1);
	else if (!sixteenths)
		buffer->period = min(buffer->period * 2, MAX_PERIOD_MSEC);
}

/* Copy the oldest record first; those of an overwrite buffer are in reverse order. */
static void persistent_buffer__copy_to(struct persistent_buffer *buffer, void *data)
{
	if (!buffer->backward) {
		memcpy(data, buffer->data, buffer->len);
		return;
	}

	data += buffer->len;
	persistent_buffer__for_each(buffer, event) {
		data -= event->header.size;
		memcpy(data, event, event->header.size);
	}
}

/* Each copy starts at the beginning of the ring, so that it does not wrap around. */
static int persistent_mmap__refill(struct perf_mmap *core)
{
	struct mmap *map = container_of(core, struct mmap, core);
	struct persistent_buffer *buffer = map->persistent;
	struct perf_event_mmap_page *pc = core->base;
	int err;

	if (core->prev != buffer->delivered || (buffer->ended && !buffer->pending))
		return 0;

	if (!buffer->pending) {
		persistent_buffer__consume(buffer);
		buffer->len = 0;
		buffer->came = 0;
		if (ring_buffer_read_head(buffer->base) != buffer->cursor)
			buffer->idle = 0;
		err = buffer->idle++ % MAX_IDLE ? 0 : persistent_buffer__read(buffer);
		if (err) {
			/* Report it once: it cannot be read any more. */
			buffer->ended = true;
			return err;
		}
	}
	if (buffer->consumes)
		persistent_buffer__leave_out_others(buffer);
	buffer->pending = false;
	persistent_buffer__adapt_period(buffer);
	if (!buffer->len)
		return 0;

	core->prev = round_up(buffer->delivered, buffer->size);
	buffer->delivered = core->prev + buffer->len;
	persistent_buffer__copy_to(buffer, core->base + page_size);
	pc->data_tail = core->prev;
	pc->data_head = buffer->delivered;
	return 0;
}

static int mmap__init_persistent(struct mmap *map, struct persistent_buffer *buffer,
				 struct mmap_params *mp)
{
	struct perf_event_mmap_page *pc;
	void *base;

	base = mmap(NULL, page_size + buffer->size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		return -errno;

	pc = base;
	memcpy(pc, buffer->base, sizeof(*pc));
	pc->data_head = 0;
	pc->data_tail = 0;
	pc->aux_size = 0;

	map->core.base = base;
	map->core.mask = buffer->size - 1;
	map->core.fd = buffer->fd;
	map->core.cpu.cpu = buffer->cpu;
	map->core.refill_cb = persistent_mmap__refill;
	map->persistent = buffer;
	/* Hold one reference for perf_mmap__consume(), as libperf does. */
	refcount_set(&map->core.refcnt, 1);
	if (mmap__setup(map, mp))
		return -ENOMEM;

	/* Do not wait for a threshold: the copy does not grow. */
	map->core.flush = 1;
	return 0;
}

static int evlist__poll_persistent(struct evlist *evlist, struct mmap *first)
{
	struct persistent_reader *reader = evlist__persistent(evlist);
	struct persistent_buffer *buffer;
	struct mmap *map;

	evlist__for_each_persistent(evlist, it) {
		buffer = persistent_reader__find(reader, it.instance->info.buffer_id);
		if (!buffer)
			continue;

		map = &first[buffer - reader->buffers];
		perf_evsel__set_sid_idx(&it.evsel->core, map - evlist__mmap(evlist), it.idx,
					it.thread);
		perf_mmap__get(&map->core);
		if (perf_evlist__add_pollfd(evlist__core(evlist), it.fd, map, 0,
					    fdarray_flag__default) < 0)
			return -ENOMEM;
	}
	return 0;
}

/*
 * Find the buffers before the maps are counted; evlist__mmap_persistent() sets the maps up
 * once they are allocated.
 */
int evlist__find_persistent_buffers(struct evlist *evlist)
{
	struct persistent_reader *reader = evlist__persistent(evlist);
	u64 lost;
	int err;

	if (!reader)
		return 0;

	/* A consumer waits for the one before it, which reports losses of that time. */
	err = persistent_reader__init(reader, evlist);
	if (err)
		return err;

	if (reader->history) {
		err = persistent_reader__read(reader);
		if (err)
			return err;
		/* Names are known only for records later than the oldest side-band. */
		persistent_reader__find_horizon(reader);
		persistent_reader__for_each(reader, buffer)
			buffer->pending = true;
	} else {
		/* Do not count losses from before this reader began. */
		evlist__for_each_persistent(evlist, it) {
			err = evsel__persistent_lost_records(it.evsel, it.idx, it.thread, &lost);
			if (err)
				return err;
			it.instance->base_lost += lost;
		}
		persistent_reader__skip(reader);
	}
	evlist__core(evlist)->nr_reopened_mmaps = reader->nr;
	return 0;
}

int evlist__mmap_persistent(struct evlist *evlist, struct mmap_params *mp)
{
	struct persistent_reader *reader = evlist__persistent(evlist);
	struct perf_evlist *core = evlist__core(evlist);
	int err = 0, nr = core->nr_reopened_mmaps;
	struct mmap *first;

	if (!nr)
		return 0;

	first = &evlist__mmap(evlist)[core->nr_mmaps - nr];
	for (int i = 0; i < nr && !err; i++) {
		err = mmap__init_persistent(&first[i], &reader->buffers[i], mp);
		core->mmap_len = max(core->mmap_len, mmap__mmap_len(&first[i]));
	}
	return err ?: evlist__poll_persistent(evlist, first);
}

/* Report overwritten and dropped records separately. */
void evlist__print_persistent_loss(struct evlist *evlist)
{
	struct persistent_reader *reader = evlist__persistent(evlist);
	unsigned long long bytes = 0, left_out = 0;

	if (!reader)
		return;

	persistent_reader__for_each(reader, buffer) {
		bytes += buffer->lost_bytes;
		left_out += buffer->consumes ? buffer->left_out : 0;
	}

	if (bytes)
		pr_info("[ records overwritten before they could be read: %llu bytes ]\n", bytes);
	if (left_out)
		pr_info("[ left out: %llu records of processes that were added meanwhile, or dropped ]\n",
			left_out);
	persistent_reader__print_losses(reader, evlist__persistent_lost(evlist, false));
}

void evlist__exit_persistent(struct evlist *evlist)
{
	struct persistent_reader *reader = evlist__persistent(evlist);

	if (reader)
		persistent_reader__exit(reader);
	free(reader);
	evlist__set_persistent(evlist, NULL);
}
