// SPDX-License-Identifier: GPL-2.0
/*
 * Read all buffers of sessions that run on.
 */
#include "reader.h"

#include <errno.h>
#include <stdlib.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/ring_buffer.h>
#include <linux/zalloc.h>
#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "registry.h"
#include "reopen.h"
#include "target.h"

int persistent__check_buffer(u32 id)
{
	char name[PERF_PERSISTENT_NAME_MAX];

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

static int persistent_reader__count(struct persistent_reader *reader)
{
	struct persistent_instance *instance;
	struct evsel *evsel;
	int idx, thread, nr = 0;

	evlist__for_each_persistent(reader->evlist, evsel, idx, thread, instance)
		nr++;
	return nr;
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
		/* Not all that write to it were cleared at the same time. */
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
		.side_band = evsel__is_dummy_event(evsel),
		.in_part   = evsel->persistent->in_part,
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
 * In the order of the ids, whatever sessions are named in whichever order: two consumers
 * must not wait for each other.
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
		/* It was dropped meanwhile, which is no fault of those that are left. */
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
	struct persistent_instance *instance;
	int err, idx, thread;
	struct evsel *evsel;

	reader->evlist = evlist;
	reader->buffers = calloc(max(persistent_reader__count(reader), 1),
				 sizeof(*reader->buffers));
	if (!reader->buffers)
		return -ENOMEM;

	evlist__for_each_persistent(evlist, evsel, idx, thread, instance)
		persistent_reader__add(reader, evsel, evsel__persistent_fd(evsel, idx, thread),
				       &instance->info);

	if (!reader->nr) {
		pr_err("%s counts and has no buffer to read\n",
		       evsel__name(evlist__first(evlist)));
		return -ENODATA;
	}
	err = persistent_reader__mmap(reader);
	for (int i = 0; i < reader->nr && !err; i++)
		persistent_buffer__begin(&reader->buffers[i]);
	return err;
}

/* All events of a session in a new evlist, and their buffers */
int persistent_reader__open(struct persistent_reader *reader, struct evlist *evlist, u32 id)
{
	const struct persistent_choice all = { .instance = PERSISTENT_ALL };
	struct target target = { .system_wide = true };
	int err = evlist__choose_persistent(evlist, id, &all);

	if (err > 0)
		err = evlist__create_maps(evlist, &target);
	if (!err)
		err = evlist__reopen_persistent(evlist);
	return err ?: persistent_reader__init(reader, evlist);
}

void persistent_reader__exit(struct persistent_reader *reader)
{
	for (int i = 0; i < reader->nr; i++)
		persistent_buffer__exit(&reader->buffers[i]);
	zfree(&reader->buffers);
	reader->nr = 0;
}

/* All buffers are copied before any is written: that takes much longer. */
int persistent_reader__read(struct persistent_reader *reader)
{
	int err = 0;

	for (int i = 0; i < reader->nr && !err; i++)
		err = persistent_buffer__read(&reader->buffers[i]);
	return err;
}

/* Begin with what comes from now on, or with what was not consumed. */
void persistent_reader__skip(struct persistent_reader *reader)
{
	for (int i = 0; i < reader->nr; i++) {
		struct persistent_buffer *buffer = &reader->buffers[i];

		if (!buffer->consumes) {
			buffer->cursor = ring_buffer_read_head(buffer->base);
			continue;
		}
		buffer->cursor = READ_ONCE(buffer->base->data_tail);
		if ((s64)(buffer->start - buffer->cursor) > 0)
			buffer->cursor = buffer->start;
	}
}

u64 persistent_reader__lost_bytes(struct persistent_reader *reader)
{
	u64 bytes = 0;

	for (int i = 0; i < reader->nr; i++)
		bytes += reader->buffers[i].lost_bytes;
	return bytes;
}
