// SPDX-License-Identifier: GPL-2.0
/*
 * What each task of a session counted that has ended.
 *
 * When a child ends the kernel writes its counts, a record for each event and CPU, to the
 * buffers of the session; side-band has its name. The task that the event was opened on
 * has no such record. Its instance counts it and all of its children: when these have all
 * ended, the rest is its own.
 */
#include "exits.h"

#include <errno.h>
#include <stdlib.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/zalloc.h>
#include <internal/lib.h>
#include <internal/xyarray.h>
#include <perf/event.h>
#include "debug.h"
#include "event.h"
#include "evlist.h"
#include "evsel.h"
#include "machine.h"
#include "registry.h"
#include "reopen.h"
#include "sample.h"
#include "thread.h"

struct exit_record {
	u64			time;
	union perf_event	*event;
};

static bool evsel__tells_exits(const struct evsel *evsel)
{
	return evsel->core.attr.inherit_stat;
}

static int persistent_exits__check(struct persistent_info *info)
{
	for (u32 i = 0; i < info->nr_members; i++) {
		if (info->members[i].attr.inherit_stat)
			return 0;
	}
	pr_err("%s, id %u, does not have the counts of single tasks: start it with 'perf record --persistent=NAME -s', of tasks\n",
	       info->name, info->id);
	return -ENODATA;
}

static size_t pid__hash(long key, void *ctx __maybe_unused)
{
	return key;
}

static bool pid__equal(long key1, long key2, void *ctx __maybe_unused)
{
	return key1 == key2;
}

/* Sources */

static int exit_source__cmp(const void *a, const void *b)
{
	const struct exit_source *l = a, *r = b;

	return l->info->event_id < r->info->event_id ? -1 : l->info->event_id > r->info->event_id;
}

static struct exit_source *persistent_exits__source(struct persistent_exits *exits, u64 event_id)
{
	struct perf_persistent_info info = { .event_id = event_id };
	struct exit_source key = { .info = &info };

	return bsearch(&key, exits->sources, exits->nr_sources, sizeof(key), exit_source__cmp);
}

/* After the buffers were read, so that no record is missing that is not lost */
static int persistent_exits__find_sources(struct persistent_exits *exits)
{
	struct persistent_instance *instance;
	int err = 0, idx, thread, nr = 0;
	struct evsel *evsel;

	evlist__for_each_entry(exits->evlist, evsel)
		nr += xyarray__max_x(evsel->persistent->instances) *
		      xyarray__max_y(evsel->persistent->instances);
	exits->sources = calloc(nr, sizeof(*exits->sources));
	if (!exits->sources)
		return -ENOMEM;

	evlist__for_each_entry(exits->evlist, evsel) {
		if (!evsel__tells_exits(evsel))
			continue;
		evsel__for_each_persistent(evsel, idx, thread, instance) {
			struct exit_source *source = &exits->sources[exits->nr_sources++];

			source->evsel = evsel;
			source->info = &instance->info;
			err = err ?: evsel__persistent_lost_records(evsel, idx, thread,
								    &source->lost) ?:
			      hashmap__set(&exits->children, instance->info.pid, NULL, NULL, NULL);
			exits->lost += source->lost;
			exits->cleared |= !!instance->info.cleared;
		}
	}
	qsort(exits->sources, exits->nr_sources, sizeof(*exits->sources), exit_source__cmp);
	return err;
}

static void persistent_exits__find_losses(struct persistent_exits *exits)
{
	struct persistent_reader *reader = &exits->reader;

	exits->incomplete = exits->lost || exits->cleared;
	for (int i = 0; i < reader->nr; i++) {
		struct persistent_buffer *buffer = &reader->buffers[i];

		if (!buffer->side_band)
			exits->incomplete |= buffer->lost_bytes || buffer->consumed_bytes;
	}
}

/* Rows */

static struct exit_row *persistent_exits__new_row(struct persistent_exits *exits,
						  struct thread *thread)
{
	struct exit_row **rows, *row;

	rows = realloc(exits->rows, (exits->nr_rows + 1) * sizeof(*rows));
	if (!rows)
		return NULL;
	exits->rows = rows;

	row = zalloc(sizeof(*row));
	if (row)
		row->counts = calloc(evlist__nr_entries(exits->evlist), sizeof(*row->counts));
	if (!row || !row->counts) {
		free(row);
		return NULL;
	}
	row->thread = thread__get(thread);
	thread__set_priv(thread, row);
	rows[exits->nr_rows++] = row;
	return hashmap__set(&exits->by_tid, thread__tid(thread), row, NULL, &row->before) ?
	       NULL : row;
}

static struct exit_row *persistent_exits__row(struct persistent_exits *exits, pid_t pid,
					      pid_t tid)
{
	struct thread *thread = machine__findnew_thread(&exits->machines.host, pid, tid);
	struct exit_row *row;

	if (!thread)
		return NULL;
	row = thread__priv(thread) ?: persistent_exits__new_row(exits, thread);
	thread__put(thread);
	return row;
}

static void exit_row__add(struct exit_row *row, struct evsel *evsel, u64 val, u64 ena, u64 run)
{
	struct exit_count *count = &row->counts[evsel->core.idx];

	/* It is enabled on all CPUs while the task runs on any. */
	count->ena = count->known ? min(count->ena, ena) : ena;
	count->val += val;
	count->run += run;
	count->known = true;
}

/* Records */

static int persistent_exits__add_read(struct persistent_exits *exits,
				      const struct perf_record_read *read)
{
	struct exit_source *source = persistent_exits__source(exits, read->id);
	struct exit_row *row;

	/* Of a task that joined the session after its instances were listed */
	if (!source)
		return 0;

	row = persistent_exits__row(exits, read->pid, read->tid);
	if (!row)
		return -ENOMEM;
	if (!row->target && hashmap__set(&exits->children, source->info->pid, row, NULL,
					 &row->sibling))
		return -ENOMEM;
	row->target = source->info->pid;
	exit_row__add(row, source->evsel, read->value, read->time_enabled, read->time_running);
	source->val += read->value;
	source->run += read->time_running;
	return 0;
}

static int persistent_exits__process(struct persistent_exits *exits, union perf_event *event,
				     u64 time)
{
	struct perf_sample sample;
	int err = 0;

	perf_sample__init(&sample, /*all=*/true);
	sample.time = time;
	switch (event->header.type) {
	case PERF_RECORD_FORK:
		err = machine__process_fork_event(&exits->machines.host, event, &sample);
		break;
	case PERF_RECORD_COMM:
		err = machine__process_comm_event(&exits->machines.host, event, &sample);
		break;
	case PERF_RECORD_EXIT:
		if (!exits->cleared &&
		    !persistent_exits__row(exits, event->fork.pid, event->fork.tid))
			err = -ENOMEM;
		break;
	case PERF_RECORD_READ:
		err = persistent_exits__add_read(exits, &event->read);
		break;
	default:
		break;
	}
	perf_sample__exit(&sample);
	return err;
}

static int exit_record__cmp(const void *a, const void *b)
{
	const struct exit_record *l = a, *r = b;

	return l->time < r->time ? -1 : l->time > r->time;
}

static int persistent_exits__nr_records(struct persistent_exits *exits)
{
	union perf_event *event;
	int nr = 0;

	for (int i = 0; i < exits->reader.nr; i++) {
		event = NULL;
		while ((event = persistent_buffer__next(&exits->reader.buffers[i], event)))
			nr += event->header.type != PERF_RECORD_SAMPLE;
	}
	return nr;
}

/* Those of all buffers in the order of their times: a number can be that of several tasks. */
static int persistent_exits__process_all(struct persistent_exits *exits)
{
	int nr = persistent_exits__nr_records(exits), err = 0;
	struct exit_record *records = calloc(nr + 1, sizeof(*records)), *record = records;
	union perf_event *event;

	if (!records)
		return -ENOMEM;

	for (int i = 0; i < exits->reader.nr; i++) {
		event = NULL;
		while ((event = persistent_buffer__next(&exits->reader.buffers[i], event))) {
			if (event->header.type == PERF_RECORD_SAMPLE)
				continue;
			record->event = event;
			record++->time = persistent_event__time(exits->evlist, event);
		}
	}
	qsort(records, nr, sizeof(*records), exit_record__cmp);
	for (int i = 0; i < nr && !err; i++)
		err = persistent_exits__process(exits, records[i].event, records[i].time);
	free(records);
	return err;
}

/* Targets */

/* Of one that still runs, for the children that were not renamed */
static int persistent_exits__name_targets(struct persistent_exits *exits)
{
	for (int i = 0; i < exits->nr_sources; i++) {
		const struct perf_persistent_info *info = exits->sources[i].info;
		struct thread *thread;

		if (info->pid <= 0 || info->state == PERF_PERSISTENT_STATE_EXITED)
			continue;
		thread = machine__findnew_thread(&exits->machines.host, info->tgid, info->pid);
		if (!thread)
			return -ENOMEM;
		if (!thread__comm_set(thread))
			thread__set_comm_from_proc(thread);
		thread__put(thread);
	}
	return 0;
}

/* Before Linux 7.3 a child ends without a record, and would count for its target. */
static int persistent_exits__check_children(struct persistent_exits *exits)
{
	int told = 0, untold = 0;

	for (int i = 0; i < exits->nr_rows; i++) {
		struct exit_row *row = exits->rows[i];

		told += !!row->target;
		untold += !row->target &&
			  !hashmap__find(&exits->children, thread__tid(row->thread), NULL);
	}
	if (untold && !told && !exits->incomplete) {
		pr_err("%s, id %u: this kernel does not record the counts of single tasks, which needs Linux 7.3\n",
		       exits->info.name, exits->info.id);
		return -EOPNOTSUPP;
	}
	exits->incomplete |= !!untold;
	return 0;
}

/* The last task with this number of which there is no record, or NULL */
static struct exit_row *persistent_exits__target_row(struct persistent_exits *exits, pid_t pid)
{
	struct exit_row *row = NULL;

	hashmap__find(&exits->by_tid, pid, &row);
	while (row && row->target && !row->is_target)
		row = row->before;
	return row;
}

/* For how long an event of a target's children was enabled */
static u64 persistent_exits__children_ena(struct persistent_exits *exits,
					  struct exit_source *source)
{
	struct exit_row *row = NULL;
	u64 ena = 0;

	hashmap__find(&exits->children, source->info->pid, &row);
	for (; row; row = row->sibling)
		ena += row->counts[source->evsel->core.idx].ena;
	return ena;
}

static int persistent_exits__add_target(struct persistent_exits *exits,
					struct exit_source *source)
{
	const struct perf_persistent_info *info = source->info;
	struct exit_row *row = persistent_exits__target_row(exits, info->pid);
	u64 ena, run;

	if (info->state != PERF_PERSISTENT_STATE_EXITED) {
		exits->waiting |= !!row;
		return 0;
	}
	if (!row)
		row = persistent_exits__row(exits, info->tgid, info->pid);
	if (!row)
		return -ENOMEM;

	row->target = info->pid;
	row->is_target = true;
	if (exits->incomplete || info->count < source->val)
		return 0;
	ena = persistent_exits__children_ena(exits, source);
	ena = info->time_enabled > ena ? info->time_enabled - ena : 0;
	run = info->time_running > source->run ? info->time_running - source->run : 0;
	exit_row__add(row, source->evsel, info->count - source->val, ena, run);
	return 0;
}

static int persistent_exits__add_targets(struct persistent_exits *exits)
{
	int err = 0;

	for (int i = 0; i < exits->nr_sources && !err; i++) {
		if (exits->sources[i].info->pid > 0)
			err = persistent_exits__add_target(exits, &exits->sources[i]);
	}
	return err;
}

static int persistent_exits__collect(struct persistent_exits *exits)
{
	int err = persistent_exits__find_sources(exits);

	if (err)
		return err;
	persistent_exits__find_losses(exits);
	err = persistent_exits__name_targets(exits);
	if (!err)
		err = persistent_exits__process_all(exits);
	if (!err)
		err = persistent_exits__check_children(exits);
	return err ?: persistent_exits__add_targets(exits);
}

/*
 * The instances are listed before the buffers are read: of those that had ended by then
 * all records are there. Returns 0 or, having said what is wrong, a negative error.
 */
int persistent_exits__read(struct persistent_exits *exits, u32 id)
{
	char buf[STRERR_BUFSIZE];
	int err;

	*exits = (struct persistent_exits) {};
	hashmap__init(&exits->by_tid, pid__hash, pid__equal, NULL);
	hashmap__init(&exits->children, pid__hash, pid__equal, NULL);
	err = persistent_info__init(&exits->info, id);
	if (err) {
		pr_err("cannot read session '%s': %s\n", exits->info.name,
		       persistent__strerror(id, err, buf, sizeof(buf)));
		return err;
	}

	err = persistent_exits__check(&exits->info);
	if (err)
		return err;
	machines__init(&exits->machines);
	exits->evlist = evlist__new();
	err = exits->evlist ? persistent_reader__open(&exits->reader, exits->evlist, id) : -ENOMEM;
	if (!err)
		err = persistent_reader__read(&exits->reader);
	if (err)
		return err;
	persistent_reader__find_horizon(&exits->reader);
	return persistent_exits__collect(exits);
}

void persistent_exits__exit(struct persistent_exits *exits)
{
	for (int i = 0; i < exits->nr_rows; i++) {
		thread__put(exits->rows[i]->thread);
		free(exits->rows[i]->counts);
		free(exits->rows[i]);
	}
	zfree(&exits->rows);
	zfree(&exits->sources);
	hashmap__clear(&exits->by_tid);
	hashmap__clear(&exits->children);
	persistent_reader__exit(&exits->reader);
	persistent_info__exit(&exits->info);
	if (!exits->evlist)
		return;
	machines__exit(&exits->machines);
	evlist__close(exits->evlist);
	evlist__put(exits->evlist);
}
