// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent flush: move what a recording until full holds to a log, so that
 * it has room again.
 */
#include "persistent-flush.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/ring_buffer.h>
#include <linux/string.h>
#include <api/fs/fs.h>
#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "persistent.h"
#include "persistent-evlist.h"
#include "persistent-log.h"
#include "persistent-output.h"
#include "persistent-reader.h"
#include "target.h"

struct persistent_flush {
	u32			id;
	struct evlist		*evlist;
	struct persistent_reader reader;
	struct persistent_output output;
	struct persistent_log	log;
	u64			lost;
};

static int flush__recording(u32 id, char *buf, size_t size)
{
	size_t len;
	char *boot;

	if (procfs__read_str("sys/kernel/random/boot_id", &boot, &len) < 0)
		return -errno;
	snprintf(buf, size, "%.36s.%u", boot, id);
	free(boot);
	return 0;
}

/* What is in the log already and was not given back is given back now. */
static int flush__set_cursors(struct persistent_flush *flush)
{
	persistent_reader__skip(&flush->reader);

	for (int i = 0; i < flush->reader.nr; i++) {
		struct persistent_buffer *buffer = &flush->reader.buffers[i];
		u64 *position = persistent_log__mark(&flush->log, LOG_POSITION, buffer->id);

		if (!position)
			return -ENOMEM;
		if ((s64)(*position - ring_buffer_read_head(buffer->base)) > 0) {
			pr_err("%s is ahead of the buffer of CPU %d: move it and the log away\n",
			       flush->log.pos_path, buffer->cpu);
			return -EINVAL;
		}
		if ((s64)(*position - buffer->cursor) > 0) {
			buffer->cursor = *position;
			persistent_buffer__consume(buffer);
		}
	}
	return 0;
}

/* Only those that were lost since the log was written to last. */
static int flush__write_lost(struct persistent_flush *flush)
{
	struct persistent_instance *instance;
	struct evsel *evsel;
	int err, idx, thread;
	u64 lost, *before;

	evlist__for_each_entry(flush->evlist, evsel) {
		evsel__for_each_persistent(evsel, idx, thread, instance) {
			before = persistent_log__mark(&flush->log, LOG_LOST,
						      instance->info.event_id);
			if (!before)
				return -ENOMEM;
			err = evsel__persistent_lost(evsel, idx, thread, &lost);
			if (!err && lost > *before)
				err = persistent_output__put_lost(&flush->output, evsel,
								  instance->info.event_id,
								  lost - *before);
			if (err)
				return err;
			flush->lost += lost - *before;
			*before = lost;
		}
	}
	return 0;
}

static int flush__commit(struct persistent_flush *flush)
{
	struct persistent_reader *reader = &flush->reader;
	int err;

	for (int i = 0; i < reader->nr; i++)
		*persistent_log__mark(&flush->log, LOG_POSITION, reader->buffers[i].id) =
			reader->buffers[i].cursor;
	err = persistent_log__commit(&flush->log);
	if (err)
		return err;
	for (int i = 0; i < reader->nr; i++)
		persistent_buffer__consume(&reader->buffers[i]);
	return 0;
}

static int flush__append(struct persistent_flush *flush)
{
	struct persistent_log *log = &flush->log;
	char recording[sizeof(log->recording)];
	int err = flush__recording(flush->id, recording, sizeof(recording));

	if (!err)
		err = persistent_log__set_recording(log, recording);
	if (!err)
		err = flush__set_cursors(flush);
	if (!err)
		err = persistent_output__append(&flush->output, flush->evlist, log->path, log->fd);
	if (!err)
		err = persistent_reader__read(&flush->reader);
	/* Before the round that ends what is complete */
	if (!err)
		err = flush__write_lost(flush);
	if (!err)
		err = persistent_output__write(&flush->output, &flush->reader);
	return err ?: flush__commit(flush);
}

static int flush__open(struct persistent_flush *flush, const char *path)
{
	struct target target = { .system_wide = true };
	int err = evlist__add_persistent(flush->evlist, flush->id, PERSISTENT_ALL);

	if (err > 0)
		err = evlist__create_maps(flush->evlist, &target);
	if (!err)
		err = evlist__reopen_persistent(flush->evlist);
	if (!err)
		err = persistent_reader__init(&flush->reader, flush->evlist);
	return err ?: persistent_log__open(&flush->log, path);
}

static void flush__report(struct persistent_flush *flush, const char *name)
{
	pr_info("[ perf persistent flush: appended %.3f MB to %s (%llu samples) of %s, id %u ]\n",
		flush->output.bytes / 1024.0 / 1024.0, flush->log.path,
		(unsigned long long)flush->output.samples, name, flush->id);
	if (flush->lost)
		pr_info("[ lost for want of room in the buffer: %llu samples ]\n",
			(unsigned long long)flush->lost);
}

/* Returns 0 or, having said what is wrong, a negative error. */
int persistent__flush(u32 id, const char *path)
{
	struct persistent_flush flush = {
		.id	 = id,
		.evlist	 = evlist__new(),
		.reader	 = { .consume = true },
		.log	 = { .fd = -1 },
	};
	char name[PERF_PERSISTENT_NAME_MAX] = "";
	int err;

	if (!flush.evlist)
		return -ENOMEM;

	persistent__name(id, name);
	err = flush__open(&flush, path);
	if (!err)
		err = flush__append(&flush);
	if (!err)
		flush__report(&flush, name);
	else if (flush.log.fd >= 0)
		persistent_log__cut_back(&flush.log);

	persistent_output__abort(&flush.output);
	persistent_reader__exit(&flush.reader);
	persistent_log__close(&flush.log);
	evlist__close(flush.evlist);
	evlist__put(flush.evlist);
	return err;
}
