// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent flush: move the records of a discard session to a log, to make room for
 * more.
 */
#include "cmd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/ring_buffer.h>
#include <subcmd/parse-options.h>
#include "debug.h"
#include "evlist.h"
#include "log.h"
#include "output.h"
#include "reader.h"
#include "registry.h"
#include "reopen.h"
#include "symbol.h"

/* How often to look at a session anew to which processes are being added */
#define MAX_TRIES	5

/* When to rotate the log; 0 where there is no limit */
struct persistent_rotation {
	u64		max_size;
	u64		max_age;
	unsigned int	keep;
	bool		until_full;
};

struct persistent_flush {
	u32			id;
	struct persistent_rotation rotation;
	struct persistent_reader reader;
	struct persistent_output output;
	struct persistent_log	log;
	bool			full;
};

/*
 * Give back the room of samples that are in the log already, if an earlier flush did
 * not. A new log begins with all side-band in the buffers.
 */
static int flush__set_cursors(struct persistent_flush *flush)
{
	persistent_reader__skip(&flush->reader);

	persistent_reader__for_each(&flush->reader, buffer) {
		u64 *position = persistent_log__mark(&flush->log, LOG_POSITION, buffer->id);

		if (!position)
			return -ENOMEM;
		if ((s64)(*position - ring_buffer_read_head(buffer->base)) > 0) {
			pr_err("%s is ahead of the buffers: move it and the log away\n",
			       flush->log.pos_path);
			return -EINVAL;
		}
		if (buffer->side_band && !flush->log.size)
			continue;
		if ((s64)(*position - buffer->cursor) > 0) {
			buffer->cursor = *position;
			if (!buffer->side_band)
				persistent_buffer__consume(buffer);
		}
	}
	return 0;
}

/* Write only losses since the log was last written to. */
static int flush__write_lost(struct persistent_flush *flush)
{
	u64 lost, *before, since;
	int err;

	evlist__for_each_persistent(flush->reader.evlist, it) {
		u64 id = it.instance->info.event_id;

		before = persistent_log__mark(&flush->log, LOG_LOST, id);
		if (!before)
			return -ENOMEM;
		err = evsel__persistent_lost_records(it.evsel, it.idx, it.thread, &lost);
		/* Losses from before a clear were cleared, too. */
		since = max(*before, it.instance->base_lost);
		lost += it.instance->base_lost;
		if (!err && lost > since)
			err = persistent_output__put_lost(&flush->output, it.evsel, id,
							  lost - since);
		if (err)
			return err;
		*before = lost;
	}
	return 0;
}

/* Instances that have left the session do not come back. */
static void flush__forget_others(struct persistent_flush *flush)
{
	struct persistent_log *log = &flush->log;
	int nr = log->nr_marks;

	log->nr_marks = 0;
	for (int i = 0; i < nr; i++) {
		struct persistent_log_mark *mark = &log->marks[i];

		if (mark->what == LOG_POSITION ?
		    !!persistent_reader__find(&flush->reader, mark->id) :
		    !!evlist__id2sid(flush->reader.evlist, mark->id))
			log->marks[log->nr_marks++] = *mark;
	}
}

static int flush__commit(struct persistent_flush *flush)
{
	flush__forget_others(flush);
	persistent_reader__for_each(&flush->reader, buffer) {
		*persistent_log__mark(&flush->log, LOG_POSITION, buffer->id) = buffer->cursor;
	}
	flush->log.values[LOG_MISSING] += flush->output.lost;
	flush->log.values[LOG_SAMPLES] += flush->output.samples;
	flush->log.values[LOG_FULL] = flush->full;
	flush->log.values[LOG_ERROR] = 0;
	return persistent_log__commit(&flush->log);
}

/*
 * Whether events joined the session since the log was last written to. A log lists its
 * events at its beginning, since perf reads the formats of tracepoints only once.
 */
static int flush__has_new(struct persistent_flush *flush)
{
	struct persistent_log *log = &flush->log;
	int nr = log->nr_marks;

	evlist__for_each_persistent(flush->reader.evlist, it) {
		if (!persistent_log__mark(log, LOG_LOST, it.instance->info.event_id))
			return -ENOMEM;
	}
	return log->nr_marks > nr;
}

/* Whether somebody else took side-band since then: tasks that go on would have no names. */
static bool flush__has_gap(struct persistent_flush *flush)
{
	persistent_reader__for_each(&flush->reader, buffer) {
		u64 *position = persistent_log__mark(&flush->log, LOG_POSITION, buffer->id);

		if (buffer->side_band && *position &&
		    (s64)(READ_ONCE(buffer->base->data_tail) - *position) > 0)
			return true;
	}
	return false;
}

static int flush__rotate(struct persistent_flush *flush)
{
	struct persistent_rotation *rotation = &flush->rotation;
	struct persistent_log *log = &flush->log;
	bool due = rotation->max_age && persistent_log__age(log) >= rotation->max_age;
	bool has_samples = log->values[LOG_SAMPLES];
	int err, has_new = flush__has_new(flush);
	const char *why = NULL;
	u64 size = log->size;

	if (has_new < 0 || !size)
		return min(has_new, 0);
	if (has_new)
		why = "processes were added";
	else if (flush__has_gap(flush))
		why = "records were consumed elsewhere";
	if (why && rotation->until_full) {
		pr_err("%s was started before %s: choose another log\n", log->path, why);
		return -EEXIST;
	}

	/* An estimate: more may be written before the buffer is read. */
	persistent_reader__for_each(&flush->reader, buffer)
		size += ring_buffer_read_head(buffer->base) - buffer->cursor;
	due |= rotation->max_size && size > rotation->max_size;
	if (!why && (!due || rotation->until_full))
		return 0;

	err = persistent_log__rotate(log, rotation->keep);
	if (err)
		return err;
	if (has_samples)
		pr_info("[ perf persistent flush: renamed %s to %s.1 ]\n", log->path, log->path);
	return flush__set_cursors(flush);
}

/* Records that do not fit stay in the buffers. Returns 1 if nothing fits. */
static int flush__fit(struct persistent_flush *flush)
{
	const struct persistent_rotation *rotation = &flush->rotation;
	int err = 0;

	if (rotation->until_full)
		err = persistent_reader__keep_first(&flush->reader,
						    flush->log.size + flush->output.bytes,
						    rotation->max_size, &flush->full);
	if (err > 0 && !flush->log.size) {
		pr_err("--max-size is too small: the log takes %llu bytes without any record\n",
		       (unsigned long long)flush->output.bytes);
		return -EFBIG;
	}
	return err;
}

/*
 * An instance that was added after the events were opened may share their buffers. Its records
 * would be consumed, but not written. Nothing is added to a session that has ended meanwhile.
 */
static int flush__check_added(struct persistent_flush *flush)
{
	struct perf_persistent_info *infos;
	struct perf_persistent_query query;
	int nr = persistent__instances(flush->id, &query, &infos), err = 0;

	if (nr < 0 && nr != -ENOENT)
		return persistent__error("flush", flush->id,
					 evlist__first(flush->reader.evlist)->persistent->name,
					 'r', nr);
	for (int i = 0; i < nr && !err; i++) {
		if (persistent_reader__find(&flush->reader, infos[i].buffer_id) &&
		    !evlist__id2sid(flush->reader.evlist, infos[i].event_id))
			err = -EAGAIN;
	}
	free(infos);
	return err;
}

/* No state is kept for standard output: it is a new log each time. */
static int flush__write_records(struct persistent_flush *flush)
{
	struct persistent_log *log = &flush->log;
	int err = flush__set_cursors(flush) ?: flush__rotate(flush);

	if (!err)
		err = persistent_output__append(&flush->output, flush->reader.evlist, log->path,
						log->fd);
	if (!err && !log->size)
		err = persistent_output__begin_pipe(&flush->output) ?:
		      persistent_output__synthesize(&flush->output);
	err = err ?: persistent_reader__read(&flush->reader) ?: flush__check_added(flush);
	/* Lost records come before the FINISHED_ROUND that ends the complete part. */
	return err ?: flush__write_lost(flush) ?:
		      flush__fit(flush) ?:
		      persistent_output__write(&flush->output, &flush->reader);
}

/* Keep the result beside the log, for 'perf persistent status'. */
static int flush__append(struct persistent_flush *flush)
{
	struct persistent_log *log = &flush->log;
	char session[sizeof(log->session)];
	int err = persistent_log__session(flush->id, session, sizeof(session)) ?:
		  persistent_log__set_session(log, session);

	if (err)
		return err;
	err = flush__write_records(flush) ?: flush__commit(flush);
	if (err > 0) {
		flush->output.bytes = 0;
		flush->output.lost = 0;
		flush->output.lost_side_band = 0;
		return persistent_log__note(log, LOG_FULL, flush->full);
	}
	if (err && err != -EAGAIN)
		persistent_log__note(log, LOG_ERROR, -err);
	return err;
}

static int flush__write(struct persistent_flush *flush, const char *path)
{
	int err;

	if (!strcmp(path, "-")) {
		flush->log.path = "standard output";
		flush->log.fd = dup(STDOUT_FILENO);
		return flush__write_records(flush);
	}

	err = persistent_log__open(&flush->log, path);
	if (err)
		return err;
	err = flush__append(flush);
	if (err && flush->log.fd >= 0)
		persistent_log__cut_back(&flush->log);
	return err;
}

/* Keep the error for 'perf persistent status', if the session has a log already. */
static void flush__note_error(u32 id, const char *path, int err)
{
	struct persistent_log log;
	char session[sizeof(log.session)];

	if (!strcmp(path, "-") || access(path, F_OK) || persistent_log__open(&log, path))
		return;
	if (!persistent_log__session(id, session, sizeof(session)) &&
	    !strcmp(log.session, session))
		persistent_log__note(&log, LOG_ERROR, -err);
	persistent_log__close(&log);
}

static void flush__report(struct persistent_flush *flush)
{
	pr_info("[ perf persistent flush: appended %.3f MB to %s (%llu samples) of %s, id %u ]\n",
		flush->output.bytes / 1024.0 / 1024.0, flush->output.path,
		(unsigned long long)flush->output.samples,
		evlist__first(flush->reader.evlist)->persistent->name, flush->id);
	if (flush->full)
		pr_info("[ %s is full: the remaining records stay in the buffers ]\n",
			flush->log.path);
	persistent__print_dropped(flush->output.lost, flush->output.lost_side_band);
}

/* Returns 0, or a negative error after printing a message; -EAGAIN without one. */
static int flush__try(u32 id, const char *path, const struct persistent_rotation *rotation)
{
	struct persistent_flush flush = {
		.id	  = id,
		.rotation = *rotation,
		.reader	  = { .consume = true, .no_wait = true },
		.log	  = { .fd = -1 },
	};
	int err;

	err = persistent_reader__open(&flush.reader, id) ?:
	      evlist__check_persistent_formats(flush.reader.evlist) ?:
	      evlist__check_persistent_pipe(flush.reader.evlist);
	if (err)
		flush__note_error(id, path, err);
	else
		err = flush__write(&flush, path);
	if (!err) {
		persistent_reader__make_room(&flush.reader);
		flush__report(&flush);
	}

	persistent_output__exit(&flush.output);
	persistent_reader__close(&flush.reader);
	persistent_log__close(&flush.log);
	return err;
}

static int flush__parse_keep(const struct option *opt, const char *str, int unset)
{
	u32 *keep = opt->value;

	*keep = LOG_KEEP_ALL;
	if (unset || (persistent__parse_number(str, 10, LOG_KEEP_ALL - 1, keep) && *keep))
		return 0;
	pr_err("--keep %s: use 1 or more, or leave out --keep to keep all logs\n", str);
	return -EINVAL;
}

static int flush__check(const char *path, const struct persistent_rotation *rotation)
{
	bool rotates = rotation->max_size || rotation->max_age;
	bool keeps = rotation->keep != LOG_KEEP_ALL;
	bool until_full = rotation->until_full;

	if (!path || !*path)
		pr_err("missing log: use -o <log>\n");
	else if (!strcmp(path, "-") && (rotates || keeps || until_full))
		pr_err("-o - cannot be used with --max-size, --max-age, --keep or --until-full\n");
	else if (until_full && !rotation->max_size)
		pr_err("--until-full needs --max-size\n");
	else if (until_full && (rotation->max_age || keeps))
		pr_err("--until-full cannot be used with --max-age or --keep\n");
	else if (keeps && !rotates)
		pr_err("--keep needs --max-size or --max-age\n");
	else
		return strcmp(path, "-") ? 0 : persistent_output__check_stdout("-o");
	return -EINVAL;
}

int persistent_cmd__flush(int argc, const char **argv, const char * const usage[])
{
	struct persistent_rotation rotation = { .keep = LOG_KEEP_ALL };
	const char *path = NULL;
	const struct option options[] = {
		OPT_STRING('o', "output", &path, "log", "file to append to, - for stdout"),
		OPT_CALLBACK(0, "max-size", &rotation.max_size, "size",
			     "rotate a log before it exceeds this size, e.g. 10M",
			     persistent_option__size),
		OPT_CALLBACK(0, "max-age", &rotation.max_age, "time",
			     "rotate a log older than this, e.g. 1h",
			     persistent_option__time),
		OPT_CALLBACK(0, "keep", &rotation.keep, "n",
			     "how many rotated logs to keep (default: all)", flush__parse_keep),
		OPT_BOOLEAN(0, "until-full", &rotation.until_full,
			    "stop at --max-size, without rotating; the rest stays in the buffers"),
		OPT_INCR('v', "verbose", &verbose, "be more verbose"),
		OPT_BOOLEAN('q', "quiet", &quiet, "do not print the summary"),
		OPT_END()
	};
	int id, err, tries = 0;

	argc = parse_options(argc, argv, options, usage, 0);
	if (argc != 1)
		usage_with_options_msg(usage, options, "name one session");
	err = flush__check(path, &rotation);
	if (err)
		return err;

	id = persistent__find(argv[0]);
	if (id < 0)
		return id;

	if (quiet)
		perf_quiet_option();
	symbol__init(NULL);
	do {
		err = flush__try(id, path, &rotation);
	} while (err == -EAGAIN && strcmp(path, "-") && ++tries < MAX_TRIES);
	if (err == -EAGAIN)
		pr_err("processes are being added to session %d: nothing was flushed, try again\n",
		       id);
	return err;
}
