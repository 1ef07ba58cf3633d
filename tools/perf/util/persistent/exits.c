// SPDX-License-Identifier: GPL-2.0
/*
 * What each task of a session counted that has ended.
 *
 * When a child ends the kernel writes its counts, a record for each event and CPU, to the
 * buffers of the session; side-band has its name. The task that the event was opened on
 * has no such record. Its instance counts it and all of its children: when these have all
 * ended, the rest is its own.
 */
#include "read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/time64.h>
#include <linux/types.h>
#include <linux/zalloc.h>
#include <perf/event.h>
#include "debug.h"
#include "event.h"
#include "evlist.h"
#include "evsel.h"
#include "hashmap.h"
#include "info.h"
#include "json.h"
#include "machine.h"
#include "reader.h"
#include "registry.h"
#include "reopen.h"
#include "sample.h"
#include "thread.h"

struct exit_count {
	u64	val;
	u64	ena;
	u64	run;
	bool	known;
};

/*
 * A task that has ended, with a count for each evsel of the session.
 *
 * @target:  whose child it is, or what it is itself
 * @before:  an earlier task with the same number
 * @sibling: another child of the same target
 */
struct exit_row {
	struct thread		*thread;
	pid_t			target;
	bool			is_target;
	struct exit_row		*before;
	struct exit_row		*sibling;
	struct exit_count	counts[];
};

/* An instance, and what the children that it was passed on to have counted. */
struct exit_source {
	struct evsel				*evsel;
	const struct perf_persistent_info	*info;
	u64					lost;
	u64					val;
	u64					run;
};

/*
 * @by_tid:	the last row with this number
 * @children:	of each target, the last row, or NULL
 * @lost:	records for which there was no room
 * @cleared:	records from before that are left out, and side-band is not
 * @waiting:	a target has ended, and has children that go on
 * @incomplete: not all records are there, so the counts of targets are not known
 */
struct persistent_exits {
	struct persistent_info		info;
	struct machines			machines;
	struct persistent_reader	reader;
	struct exit_source		*sources;
	int				nr_sources;
	struct exit_row			**rows;
	int				nr_rows;
	struct hashmap			by_tid;
	struct hashmap			children;
	u64				lost;
	bool				cleared;
	bool				waiting;
	bool				incomplete;
};

struct exit_record {
	u64			time;
	union perf_event	*event;
};

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

	evlist__for_each_persistent(exits->reader.evlist, evsel, idx, thread, instance)
		nr++;
	exits->sources = calloc(nr, sizeof(*exits->sources));
	if (!exits->sources)
		return -ENOMEM;

	evlist__for_each_persistent(exits->reader.evlist, evsel, idx, thread, instance) {
		struct exit_source *source = &exits->sources[exits->nr_sources];

		if (!evsel->core.attr.inherit_stat)
			continue;
		exits->nr_sources++;
		source->evsel = evsel;
		source->info = &instance->info;
		err = err ?: evsel__persistent_lost_records(evsel, idx, thread, &source->lost) ?:
		      hashmap__set(&exits->children, instance->info.pid, NULL, NULL, NULL);
		exits->lost += source->lost;
		exits->cleared |= !!instance->info.cleared;
	}
	qsort(exits->sources, exits->nr_sources, sizeof(*exits->sources), exit_source__cmp);

	exits->incomplete = exits->lost || exits->cleared;
	persistent_reader__for_each(&exits->reader, buffer) {
		if (!buffer->side_band)
			exits->incomplete |= buffer->lost_bytes || buffer->consumed_bytes;
	}
	return err;
}

/* Rows */

static struct exit_row *persistent_exits__new_row(struct persistent_exits *exits,
						  struct thread *thread)
{
	int nr = evlist__nr_entries(exits->reader.evlist);
	struct exit_row **rows, *row;

	rows = realloc(exits->rows, (exits->nr_rows + 1) * sizeof(*rows));
	if (!rows)
		return NULL;
	exits->rows = rows;

	row = zalloc(sizeof(*row) + nr * sizeof(row->counts[0]));
	if (!row)
		return NULL;
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

/* Those of all buffers in the order of their times: a number can be that of several tasks. */
static int persistent_exits__process_all(struct persistent_exits *exits)
{
	struct exit_record *records, *record;
	int nr = 0, err = 0;

	persistent_reader__for_each(&exits->reader, buffer) {
		persistent_buffer__for_each(buffer, event)
			nr += event->header.type != PERF_RECORD_SAMPLE;
	}
	records = calloc(nr + 1, sizeof(*records));
	if (!records)
		return -ENOMEM;
	record = records;

	persistent_reader__for_each(&exits->reader, buffer) {
		persistent_buffer__for_each(buffer, event) {
			if (event->header.type == PERF_RECORD_SAMPLE)
				continue;
			record->event = event;
			record++->time = persistent_event__time(exits->reader.evlist, event);
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

/*
 * The instances are listed before the buffers are read: of those that had ended by then
 * all records are there. Returns 0 or, having said what is wrong, a negative error.
 */
static int persistent_exits__read(struct persistent_exits *exits, u32 id)
{
	int err;

	*exits = (struct persistent_exits) {};
	hashmap__init(&exits->by_tid, pid__hash, pid__equal, NULL);
	hashmap__init(&exits->children, pid__hash, pid__equal, NULL);
	err = persistent_info__init(&exits->info, id);
	if (err)
		return persistent__error("read", id, exits->info.name, 'r', err);

	err = persistent_exits__check(&exits->info);
	if (err)
		return err;
	machines__init(&exits->machines);
	err = persistent_reader__open(&exits->reader, id) ?:
	      persistent_reader__read(&exits->reader);
	if (err)
		return err;
	persistent_reader__find_horizon(&exits->reader);

	err = persistent_exits__find_sources(exits) ?:
	      persistent_exits__name_targets(exits) ?:
	      persistent_exits__process_all(exits) ?:
	      persistent_exits__check_children(exits);
	for (int i = 0; i < exits->nr_sources && !err; i++) {
		if (exits->sources[i].info->pid > 0)
			err = persistent_exits__add_target(exits, &exits->sources[i]);
	}
	return err;
}

static void persistent_exits__exit(struct persistent_exits *exits)
{
	for (int i = 0; i < exits->nr_rows; i++) {
		thread__put(exits->rows[i]->thread);
		free(exits->rows[i]);
	}
	zfree(&exits->rows);
	zfree(&exits->sources);
	hashmap__clear(&exits->by_tid);
	hashmap__clear(&exits->children);
	persistent_info__exit(&exits->info);
	if (exits->reader.evlist)
		machines__exit(&exits->machines);
	persistent_reader__close(&exits->reader);
}

#define COUNT_WIDTH	18

static double exit_count__percent(const struct exit_count *count)
{
	return count->ena > count->run ? 100.0 * count->run / count->ena : 100.0;
}

/* Text */

static void exit_count__print(const struct exit_count *count, struct evsel *evsel)
{
	char text[64] = "-", percent[16];
	int len;

	if (count->known && evsel->scale != 1.0)
		snprintf(text, sizeof(text), "%'.6f", count->val * evsel->scale);
	else if (count->known)
		snprintf(text, sizeof(text), "%'" PRIu64, count->val);

	/* What rounds to all of the time is all of it. */
	snprintf(percent, sizeof(percent), " (%.2f%%)", exit_count__percent(count));
	if (count->known && strcmp(percent, " (100.00%)")) {
		len = strlen(text);
		snprintf(text + len, sizeof(text) - len, "%s", percent);
	}
	printf(" %*s", max(COUNT_WIDTH, (int)strlen(evsel__name(evsel))), text);
}

static void persistent_exits__print_rows(struct persistent_exits *exits)
{
	struct evsel *evsel;

	printf("%7s %7s  %-15s", "PID", "TID", "COMM");
	evlist__for_each_entry(exits->reader.evlist, evsel) {
		if (evsel->core.attr.inherit_stat)
			printf(" %*s", COUNT_WIDTH, evsel__name(evsel));
	}
	printf("\n");

	for (int i = 0; i < exits->nr_rows; i++) {
		struct exit_row *row = exits->rows[i];

		printf("%7d %7d  %-15s", thread__pid(row->thread), thread__tid(row->thread),
		       thread__comm_str(row->thread));
		evlist__for_each_entry(exits->reader.evlist, evsel) {
			if (evsel->core.attr.inherit_stat)
				exit_count__print(&row->counts[evsel->core.idx], evsel);
		}
		printf("\n");
	}
	printf("\n");
}

/* On stderr, also beside JSON: nothing is missing silently. */
static void persistent_exits__print_losses(struct persistent_exits *exits)
{
	unsigned long long bytes = persistent_reader__lost_bytes(&exits->reader);

	if (exits->lost)
		fprintf(stderr, "[ dropped, buffer full: %llu records, so counts are missing ]\n",
			(unsigned long long)exits->lost);
	if (bytes)
		fprintf(stderr, "[ older records were overwritten: %llu bytes ]\n", bytes);
	persistent_reader__print_horizon(&exits->reader, stderr);
	if (exits->waiting)
		fprintf(stderr,
			"[ tasks with running children are counted once those have exited ]\n");
	else if (exits->incomplete)
		fprintf(stderr,
			"[ the tasks that %s was started on have no counts: not all of their children's are known ]\n",
			exits->info.name);
}

static void persistent_exits__print(struct persistent_exits *exits)
{
	printf("%s, id %u, started %.3f seconds ago, tasks that have ended: %d\n\n",
	       exits->info.name, exits->info.id,
	       (double)exits->info.query.age / NSEC_PER_SEC, exits->nr_rows);
	persistent_exits__print_rows(exits);
	fflush(stdout);
	persistent_exits__print_losses(exits);
}

/* JSON */

static void exit_count__json(const struct exit_count *count, struct evsel *evsel,
			     struct json_out *out)
{
	json_out__begin(out, NULL, '{');
	if (count->known && evsel->scale != 1.0)
		json_out__double(out, "counter-value", count->val * evsel->scale);
	else if (count->known)
		json_out__number(out, "counter-value", count->val);
	json_out__string(out, "unit", evsel->unit ?: "");
	json_out__string(out, "event", evsel__name(evsel));
	if (count->known) {
		json_out__number(out, "event-enabled", max(count->ena, count->run));
		json_out__number(out, "event-runtime", count->run);
		json_out__double(out, "pcnt-running", exit_count__percent(count));
	}
	json_out__end(out, '}');
}

static void persistent_exits__json_row(struct persistent_exits *exits, struct exit_row *row,
				       struct json_out *out)
{
	struct evsel *evsel;

	json_out__begin(out, NULL, '{');
	json_out__number(out, "pid", thread__pid(row->thread));
	json_out__number(out, "tid", thread__tid(row->thread));
	json_out__string(out, "comm", thread__comm_str(row->thread));
	json_out__begin(out, "counts", '[');
	evlist__for_each_entry(exits->reader.evlist, evsel) {
		if (evsel->core.attr.inherit_stat)
			exit_count__json(&row->counts[evsel->core.idx], evsel, out);
	}
	json_out__end(out, ']');
	json_out__end(out, '}');
}

static void persistent_exits__json(struct persistent_exits *exits, struct json_out *out)
{
	json_out__begin(out, NULL, '{');
	json_out__string(out, "name", exits->info.name);
	json_out__number(out, "id", exits->info.id);
	json_out__number(out, "age", exits->info.query.age);
	json_out__number(out, "lost", exits->lost);
	json_out__number(out, "lost-side-band",
			 evlist__persistent_lost(exits->reader.evlist, true));
	json_out__number(out, "overwritten-bytes", persistent_reader__lost_bytes(&exits->reader));
	json_out__begin(out, "exits", '[');
	for (int i = 0; i < exits->nr_rows; i++)
		persistent_exits__json_row(exits, exits->rows[i], out);
	json_out__end(out, ']');
	json_out__end(out, '}');
	persistent_exits__print_losses(exits);
}

/* Returns 0 or, having said what is wrong, a negative error. */
int persistent_exits__show(u32 id, struct json_out *json)
{
	struct persistent_exits exits;
	int err = persistent_exits__read(&exits, id);

	if (!err && json)
		persistent_exits__json(&exits, json);
	else if (!err)
		persistent_exits__print(&exits);
	persistent_exits__exit(&exits);
	return err;
}
