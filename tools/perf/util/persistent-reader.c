// SPDX-License-Identifier: GPL-2.0
/*
 * Read the buffers of a recording that runs on.
 *
 * The kernel publishes data_head after it wrote a record, and nested writers
 * not even then, so data_head does not show what was overwritten while it was
 * copied. The reserved head, asked for after the copy, does: what lies beyond
 * it may be torn and is dropped, and all the rest is whole.
 */
#include "persistent-reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/ring_buffer.h>
#include <linux/zalloc.h>
#include <perf/cpumap.h>
#include <perf/event.h>
#include <internal/lib.h>
#include <internal/xyarray.h>
#include <sys/mman.h>
#include "debug.h"
#include "event.h"
#include "evlist.h"
#include "evsel.h"
#include "persistent.h"
#include "persistent-evlist.h"

/* A copy that the writers overtook is taken again, but not for ever. */
#define MAX_TRIES	5

static struct persistent_buffer *persistent_reader__find(struct persistent_reader *reader, u64 id)
{
	for (int i = 0; i < reader->nr; i++) {
		if (reader->buffers[i].id == id)
			return &reader->buffers[i];
	}
	return NULL;
}

static int persistent_buffer__mmap(struct persistent_buffer *buffer)
{
	struct perf_persistent_query query = {};
	int err = persistent__query(buffer->fd, &query);
	void *base;

	if (err)
		return err;

	buffer->backward = query.flags & PERF_PERSISTENT_OVERWRITE;
	buffer->size = (u64)query.buffer_pages * page_size;
	buffer->data = malloc(buffer->size);
	if (!buffer->data)
		return -ENOMEM;

	base = mmap(NULL, page_size + buffer->size, PROT_READ, MAP_SHARED, buffer->fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	buffer->base = base;
	return 0;
}

static int persistent_reader__add(struct persistent_reader *reader, struct evsel *evsel, int idx)
{
	struct perf_persistent_instance *instance = evsel__persistent_instance(evsel, idx);
	struct persistent_buffer *buffer;
	int err;

	if (!instance->buffer_id)
		return 0;

	buffer = persistent_reader__find(reader, instance->buffer_id);
	if (buffer) {
		buffer->side_band &= evsel__is_dummy_event(evsel);
		return 0;
	}

	buffer = &reader->buffers[reader->nr++];
	*buffer = (struct persistent_buffer) {
		.id	   = instance->buffer_id,
		.fd	   = *(int *)xyarray__entry(evsel->core.fd, idx, 0),
		.cpu	   = instance->cpu,
		.side_band = evsel__is_dummy_event(evsel),
	};
	err = persistent_buffer__mmap(buffer);
	if (err)
		pr_err("the buffer of %s on CPU %d cannot be mapped: %s\n", evsel__name(evsel),
		       buffer->cpu, strerror(-err));
	return err;
}

int persistent_reader__init(struct persistent_reader *reader, struct evlist *evlist)
{
	struct evsel *evsel;
	int err, room = 0;

	evlist__for_each_entry(evlist, evsel)
		room += perf_cpu_map__nr(evsel->core.cpus);

	*reader = (struct persistent_reader) {
		.evlist	 = evlist,
		.buffers = calloc(room, sizeof(*reader->buffers)),
	};
	if (!reader->buffers)
		return -ENOMEM;

	evlist__for_each_entry(evlist, evsel) {
		for (int idx = 0; idx < perf_cpu_map__nr(evsel->core.cpus); idx++) {
			err = persistent_reader__add(reader, evsel, idx);
			if (err)
				return err;
		}
	}

	if (!reader->nr) {
		pr_err("%s counts and has no buffer to read\n",
		       evsel__name(evlist__first(evlist)));
		return -ENODATA;
	}
	return 0;
}

void persistent_reader__exit(struct persistent_reader *reader)
{
	for (int i = 0; i < reader->nr; i++) {
		struct persistent_buffer *buffer = &reader->buffers[i];

		if (buffer->base)
			munmap(buffer->base, page_size + buffer->size);
		zfree(&buffer->data);
	}
	zfree(&reader->buffers);
	reader->nr = 0;
}

static int persistent_buffer__reserved(struct persistent_buffer *buffer, u64 *head)
{
	struct perf_persistent_query query = {};
	int err = persistent__query(buffer->fd, &query);

	*head = query.buffer_head;
	return err;
}

static void persistent_buffer__copy(struct persistent_buffer *buffer, u64 from, u64 len)
{
	void *ring = (void *)buffer->base + page_size;
	u64 offset = from & (buffer->size - 1);
	u64 first = min(len, buffer->size - offset);

	memcpy(buffer->data, ring + offset, first);
	memcpy(buffer->data + first, ring, len - first);
}

/*
 * Whole records only: the last one may reach into what was overwritten. Nobody
 * but the kernel writes to a loop, but a consumer of a buffer that fills up can
 * write whatever it likes, and must not make a file that means something else.
 */
static int persistent_buffer__trim(struct persistent_buffer *buffer, u64 len)
{
	struct perf_event_header *header;
	u64 pos = 0;

	while (pos + sizeof(*header) <= len) {
		header = buffer->data + pos;
		if (header->size < sizeof(*header) || header->size % sizeof(u64) ||
		    !header->type || header->type >= PERF_RECORD_USER_TYPE_START) {
			pr_err("the buffer of CPU %d holds something that is no record\n",
			       buffer->cpu);
			return -EBADMSG;
		}
		if (pos + header->size > len)
			break;
		pos += header->size;
	}
	buffer->len = pos;
	return 0;
}

/*
 * A loop is written backward, from 0 down: the newest record is at the head and
 * the oldest one is what the next one overwrites.
 */
static int persistent_buffer__read_backward(struct persistent_buffer *buffer)
{
	u64 head, reserved, len, kept;
	int err;

	for (int i = 0; i < MAX_TRIES; i++) {
		head = ring_buffer_read_head(buffer->base);
		len = buffer->cursor - head;
		persistent_buffer__copy(buffer, head, min(len, buffer->size));

		err = persistent_buffer__reserved(buffer, &reserved);
		if (err)
			return err;
		kept = head - reserved < buffer->size ? buffer->size - (head - reserved) : 0;
		err = persistent_buffer__trim(buffer, min(len, kept));
		if (err || buffer->len || !len)
			break;
	}
	buffer->lost_bytes += len - buffer->len;
	buffer->cursor = head;
	return err;
}

/*
 * A buffer that fills up is written forward from the tail, which its consumer
 * moves, so that what lies before the tail may be overwritten meanwhile.
 */
static int persistent_buffer__read_forward(struct persistent_buffer *buffer)
{
	u64 head, reserved, tail = READ_ONCE(buffer->base->data_tail);
	int err;

	for (int i = 0; i < MAX_TRIES; i++) {
		head = ring_buffer_read_head(buffer->base);
		if ((s64)(tail - buffer->cursor) > 0) {
			buffer->lost_bytes += tail - buffer->cursor;
			buffer->cursor = tail;
		}
		if (head - buffer->cursor > buffer->size)
			goto forged;
		persistent_buffer__copy(buffer, buffer->cursor, head - buffer->cursor);

		err = persistent_buffer__reserved(buffer, &reserved);
		if (err)
			return err;
		tail = READ_ONCE(buffer->base->data_tail);
		if ((s64)(reserved - head) < 0)
			goto forged;
		if (reserved - buffer->cursor > buffer->size)
			continue;

		err = persistent_buffer__trim(buffer, head - buffer->cursor);
		buffer->cursor += buffer->len;
		return err;
	}
	buffer->len = 0;
	return 0;
forged:
	pr_err("the buffer of CPU %d: its consumer left impossible positions in it\n", buffer->cpu);
	return -EBADMSG;
}

/* All buffers are copied before any is written: that takes much longer. */
int persistent_reader__read(struct persistent_reader *reader)
{
	int err = 0;

	for (int i = 0; i < reader->nr && !err; i++) {
		struct persistent_buffer *buffer = &reader->buffers[i];

		if (buffer->backward)
			err = persistent_buffer__read_backward(buffer);
		else
			err = persistent_buffer__read_forward(buffer);
	}
	return err;
}

/* Begin with what comes from now on. */
void persistent_reader__skip(struct persistent_reader *reader)
{
	for (int i = 0; i < reader->nr; i++)
		reader->buffers[i].cursor = ring_buffer_read_head(reader->buffers[i].base);
}

u64 persistent_reader__lost_bytes(struct persistent_reader *reader)
{
	u64 bytes = 0;

	for (int i = 0; i < reader->nr; i++)
		bytes += reader->buffers[i].lost_bytes;
	return bytes;
}

/* NULL begins and ends the walk through what was read. */
union perf_event *persistent_buffer__next(struct persistent_buffer *buffer,
					  union perf_event *event)
{
	void *next = event ? (void *)event + event->header.size : buffer->data;

	return next < buffer->data + buffer->len ? next : NULL;
}
