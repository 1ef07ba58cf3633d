// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent clear: let counts and buffers begin anew. The kernel does not
 * make room in discard buffers: perf does that, as their consumer.
 */
#include "info.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <linux/ring_buffer.h>
#include <linux/zalloc.h>
#include <internal/lib.h>
#include <sys/mman.h>
#include "reader.h"
#include "registry.h"

/* The buffers of a session; only those that are filled once are mapped. */
struct persistent_clear {
	struct persistent_buffer	*buffers;
	int				nr;
};

static int clear__map(struct persistent_buffer *buffer)
{
	struct perf_persistent_query query = {};
	int err = persistent__query_opened(buffer->fd, &query);
	void *base;

	if (err || !query.buffer_pages || query.flags & PERF_PERSISTENT_OVERWRITE)
		return err;

	buffer->size = (u64)query.buffer_pages * page_size;
	base = mmap(NULL, page_size + buffer->size, PROT_READ | PROT_WRITE, MAP_SHARED,
		    buffer->fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	buffer->base = base;
	buffer->consumes = true;
	buffer->cursor = ring_buffer_read_head(buffer->base);
	return 0;
}

static int clear__add(struct persistent_clear *clear, struct persistent_info *info, int i)
{
	struct perf_persistent_info *instance = &info->instances[i];
	bool side_band = info->members[instance->member].known &&
			 persistent_info__is_side_band(info, instance->member);
	struct persistent_buffer *buffer;
	int err;

	if (!instance->buffer_id)
		return 0;
	for (int j = clear->nr - 1; j >= 0; j--) {
		buffer = &clear->buffers[j];
		if (buffer->id == instance->buffer_id) {
			buffer->side_band &= side_band;
			return 0;
		}
	}

	buffer = &clear->buffers[clear->nr++];
	buffer->id = instance->buffer_id;
	buffer->side_band = side_band;
	buffer->fd = persistent__open(info->id, instance->instance);
	/* It has ended meanwhile, which is no fault of those that are left. */
	if (buffer->fd < 0)
		return buffer->fd == -ENOENT ? 0 : buffer->fd;
	err = clear__map(buffer);
	close(buffer->fd);
	return err == -ENOENT ? 0 : err;
}

/* As 'flush' does, keep a quarter of the side-band: it names tasks that go on. */
static void clear__make_room(struct persistent_clear *clear)
{
	for (int i = 0; i < clear->nr; i++) {
		struct persistent_buffer *buffer = &clear->buffers[i];

		if (buffer->consumes && buffer->side_band)
			persistent_buffer__consume_older(buffer, buffer->size / 4);
		else
			persistent_buffer__consume(buffer);
	}
}

/*
 * The place of the consumer is taken before anything is done, and what comes while it
 * is done stays in the buffers.
 */
int persistent__clear(struct persistent_info *info)
{
	struct persistent_clear clear = {
		.buffers = calloc(info->nr, sizeof(*clear.buffers)),
	};
	struct perf_persistent_set set = { .flags = PERF_PERSISTENT_SET_CLEAR };
	int err = clear.buffers ? 0 : -ENOMEM;

	for (int i = 0; i < info->nr && !err; i++)
		err = clear__add(&clear, info, i);
	if (!err)
		err = persistent__set_session(info->id, &set);
	if (!err)
		clear__make_room(&clear);

	for (int i = 0; i < clear.nr; i++) {
		if (clear.buffers[i].base)
			munmap(clear.buffers[i].base, page_size + clear.buffers[i].size);
	}
	zfree(&clear.buffers);
	return err;
}
