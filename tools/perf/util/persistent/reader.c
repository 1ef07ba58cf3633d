// SPDX-License-Identifier: GPL-2.0
/*
 * Read all buffers of running sessions.
 */
#include "reader.h"

#include <errno.h>
#include <stdlib.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/ring_buffer.h>
#include <linux/time64.h>
#include <linux/zalloc.h>
#include "debug.h"
#include "env.h"
#include "evlist.h"
#include "evsel.h"
#include "registry.h"
#include "reopen.h"
#include "target.h"

int persistent__check_buffer(u32 id)
{
	struct perf_env env = { .kernel_is_64_bit = -1 };
	char name[PERF_PERSISTENT_NAME_MAX];

	/* A 32-bit kernel has 32-bit positions in buffers. */
	if (!perf_env__kernel_is_64_bit(&env)) {
		pr_err("reading buffers of sessions is not supported on 32-bit kernels\n");
		return -EOPNOTSUPP;
	}
	if (!persistent__name(id, name) || persistent__number(id, "buffer_bytes"))
		return 0;
	pr_err("%s, id %u, only counts and has no buffer: 'perf persistent read %s' prints the counts\n",
	       name, id, name);
	return -ENODATA;
}

struct persistent_buffer *persistent_reader__find(struct persistent_reader *reader, u64 id)
{
	for (int i = reader->nr - 1; i >= 0; i--) {
		if (reader->buffers[i].id == id)
			return &reader->buffers[i];
	}
	return NULL;
}

static void persistent_reader__add(struct persistent_reader *reader, struct evsel *evsel, int fd,
				   struct perf_persistent_info *info)
{
	struct persistent_buffer *buffer;

	if (!info->buffer_id)
		return;

	buffer = persistent_reader__find(reader, info->buffer_id);
	if (buffer) {
		buffer->side_band &= evsel__is_dummy_event(evsel);
		/* Events that write to the buffer were cleared at different times. */
		if (persistent_buffer__behind(buffer, info->buffer_start, buffer->start) > 0)
			buffer->start = info->buffer_start;
		return;
	}

	buffer = &reader->buffers[reader->nr++];
	*buffer = (struct persistent_buffer) {
		.evlist	   = reader->evlist,
		.evsel	   = evsel,
		.id	   = info->buffer_id,
		.fd	   = fd,
		.start	   = info->buffer_start,
		.cpu	   = info->cpu,
		.backward  = evsel->persistent->flags & PERF_PERSISTENT_OVERWRITE,
		.side_band = evsel__is_dummy_event(evsel),
		/* The event ids of dropped targets are unknown. */
		.in_part   = evsel->persistent->in_part ||
			     (info->pid != -1 && evsel->core.attr.sample_id_all &&
			      evsel->core.attr.sample_type & PERF_SAMPLE_IDENTIFIER),
		.consumes  = reader->consume,
		.period	   = 1,
	};
}

static int persistent_buffer__cmp(const void *a, const void *b)
{
	const struct persistent_buffer *l = a, *r = b;

	return l->id < r->id ? -1 : l->id > r->id;
}

/*
 * Map the buffers in the order of their ids, in whichever order the sessions are named:
 * two consumers must not wait for each other.
 */
static int persistent_reader__mmap(struct persistent_reader *reader)
{
	bool wait = reader->consume && !reader->no_wait;
	int err = 0, nr = 0;

	qsort(reader->buffers, reader->nr, sizeof(*reader->buffers), persistent_buffer__cmp);

	for (int i = 0; i < reader->nr && !err; i++) {
		struct persistent_buffer *buffer = &reader->buffers[i];

		err = persistent_buffer__mmap(buffer, wait);
		if (!err) {
			reader->buffers[nr++] = *buffer;
			continue;
		}
		persistent_buffer__exit(buffer);
		/* An instance that was dropped meanwhile is no error if others are left. */
		if (err == -ENOENT && (nr || i + 1 < reader->nr))
			err = 0;
		else
			persistent_buffer__print_error(buffer, err);
	}
	reader->nr = nr;
	return err;
}

int persistent_reader__init(struct persistent_reader *reader, struct evlist *evlist)
{
	int err, nr = 1;

	err = evlist__identify_persistent(evlist);
	if (err)
		return err;
	evlist__for_each_persistent(evlist, it)
		nr++;
	reader->evlist = evlist;
	reader->buffers = calloc(nr, sizeof(*reader->buffers));
	if (!reader->buffers)
		return -ENOMEM;

	evlist__for_each_persistent(evlist, it)
		persistent_reader__add(reader, it.evsel, it.fd, &it.instance->info);

	if (!reader->nr) {
		pr_err("%s only counts and has no buffer to read\n",
		       evsel__name(evlist__first(evlist)));
		return -ENODATA;
	}
	err = persistent_reader__mmap(reader);
	for (int i = 0; i < reader->nr && !err; i++)
		persistent_buffer__begin(&reader->buffers[i]);
	return err;
}

/* Open all events of a session, in an evlist of the reader's own, and find their buffers. */
int persistent_reader__open(struct persistent_reader *reader, u32 id)
{
	const struct persistent_choice all = { .instance = PERSISTENT_ALL, .side_band = true };
	struct target target = { .system_wide = true };
	int err = persistent__check_buffer(id);

	if (err)
		return err;
	reader->evlist = evlist__new();
	if (!reader->evlist)
		return -ENOMEM;

	err = evlist__choose_persistent(reader->evlist, id, &all);
	if (err < 0)
		return err;
	if (evlist__create_maps(reader->evlist, &target)) {
		pr_err("Not enough memory\n");
		return -ENOMEM;
	}
	return persistent_reader__init(reader, reader->evlist);
}

void persistent_reader__exit(struct persistent_reader *reader)
{
	persistent_reader__for_each(reader, buffer)
		persistent_buffer__exit(buffer);
	zfree(&reader->buffers);
	reader->nr = 0;
}

void persistent_reader__close(struct persistent_reader *reader)
{
	persistent_reader__exit(reader);
	evlist__put(reader->evlist);
}

/* Copy all buffers before writing any out, which takes much longer. */
int persistent_reader__read(struct persistent_reader *reader)
{
	int err = 0;

	for (int i = 0; i < reader->nr && !err; i++)
		err = persistent_buffer__read(&reader->buffers[i]);
	return err;
}

/* Begin with new records or, as a consumer, with those that were not consumed. */
void persistent_reader__skip(struct persistent_reader *reader)
{
	persistent_reader__for_each(reader, buffer) {
		if (!buffer->consumes) {
			buffer->cursor = ring_buffer_read_head(buffer->base);
			continue;
		}
		buffer->cursor = READ_ONCE(buffer->base->data_tail);
		if ((s64)(buffer->start - buffer->cursor) > 0)
			buffer->cursor = buffer->start;
	}
}

/*
 * Keep a quarter of the side-band in its buffer, for the next log to begin with: nothing
 * else names tasks that go on, or have ended since.
 */
void persistent_reader__make_room(struct persistent_reader *reader)
{
	persistent_reader__for_each(reader, buffer) {
		if (buffer->consumes && buffer->side_band)
			persistent_buffer__consume_older(buffer, buffer->size / 4);
		else
			persistent_buffer__consume(buffer);
	}
}

u64 persistent_event__time(struct evlist *evlist, union perf_event *event)
{
	u64 time = 0;

	return evlist__parse_sample_timestamp(evlist, event, &time) ? 0 : time;
}

static bool evlist__is_later(struct evlist *evlist, union perf_event *event, u64 horizon)
{
	return persistent_event__time(evlist, event) >= horizon;
}

/* The oldest record of a buffer whose older ones were overwritten or consumed, or NULL */
static union perf_event *persistent_buffer__oldest_left(struct persistent_buffer *buffer)
{
	union perf_event *last = NULL;

	if (!buffer->backward)
		return buffer->consumed_bytes ? persistent_buffer__next(buffer, NULL) : NULL;
	if (!buffer->lost_bytes)
		return NULL;
	persistent_buffer__for_each(buffer, event)
		last = event;
	return last;
}

/*
 * Call this after the first read: bytes that were overwritten by then are older than the
 * records that this reader wants.
 *
 * The side-band of a task is in the buffers of all CPUs that it ran on. If one of them was
 * overwritten, the others can mislead, e.g. with a fork without the exec that followed. So
 * use only records newer than the oldest record of each buffer that was overwritten.
 */
void persistent_reader__find_horizon(struct persistent_reader *reader)
{
	persistent_reader__for_each(reader, buffer) {
		union perf_event *oldest = NULL;

		if (buffer->side_band)
			oldest = persistent_buffer__oldest_left(buffer);
		reader->older_bytes += buffer->lost_bytes;
		buffer->lost_bytes = 0;
		if (oldest)
			reader->horizon = max(reader->horizon,
					      persistent_event__time(reader->evlist, oldest));
	}
	if (!reader->horizon)
		return;

	persistent_reader__for_each(reader, buffer) {
		if (buffer->side_band) {
			persistent_buffer__keep(buffer, evlist__is_later, reader->horizon);
			continue;
		}
		persistent_buffer__for_each(buffer, event)
			reader->early_samples += event->header.type == PERF_RECORD_SAMPLE &&
				!evlist__is_later(reader->evlist, event, reader->horizon);
	}
}

void persistent__print_dropped(u64 samples, u64 side_band)
{
	if (samples)
		pr_info("[ dropped, buffer full: %llu samples ]\n", (unsigned long long)samples);
	if (side_band)
		pr_info("[ dropped, buffer full: %llu side-band records, so some tasks have no name and no symbols ]\n",
			(unsigned long long)side_band);
}

/* @lost: dropped samples, if they are to be reported */
void persistent_reader__print_losses(struct persistent_reader *reader, u64 lost)
{
	unsigned long secs = reader->horizon / NSEC_PER_SEC;
	unsigned long usecs = reader->horizon % NSEC_PER_SEC / NSEC_PER_USEC;
	u64 consumed = 0;

	persistent_reader__for_each(reader, buffer)
		consumed += buffer->consumed_bytes;
	if (reader->older_bytes)
		pr_info("[ older records were overwritten: %llu bytes ]\n",
			(unsigned long long)reader->older_bytes);
	if (consumed)
		pr_info("[ already flushed or consumed: %llu bytes ]\n",
			(unsigned long long)consumed);
	persistent__print_dropped(lost, evlist__persistent_lost(reader->evlist, true));
	if (!reader->horizon)
		return;
	pr_info("[ names of tasks that ended before %lu.%06lu are lost", secs, usecs);
	if (reader->early_samples)
		pr_info(", %llu samples are older", (unsigned long long)reader->early_samples);
	pr_info(" ]\n");
}
