// SPDX-License-Identifier: GPL-2.0
/*
 * Counts of the tasks of a session that have ended.
 *
 * When a child ends, the kernel writes its counts to the buffers of the session, one
 * record for each event and CPU; side-band has its name. The task that the event was
 * opened on has no such record. Its instance counts the task and all of its children: when
 * all of these have ended, the rest is the count of the task.
 */
#include "read.h"

#include <errno.h>
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
#include <perf/threadmap.h>
#include "debug.h"
#include "event.h"
#include "evlist.h"
#include "evsel.h"
#include "info.h"
#include "json.h"
#include "machine.h"
#include "ordered-events.h"
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
 * A task with a count for each evsel of the session. The counts of a target, on which
 * the session was started, include its children until these are subtracted.
 *
 * @child:   it is a child, which has a record for each count
 * @target:  the target that it descends from, if known
 * @goes_on: of a target: it or one of its children has not ended
 */
struct exit_row {
	struct thread		*thread;
	struct exit_row		*target;
	bool			child;
	bool			goes_on;
	struct exit_count	counts[];
};

/*
 * @threads:	threads that the session was started on
 * @targets:	a row for each of them, or NULL
 * @rows:	of tasks that have ended
 * @lost:	number of records that were dropped, buffer full
 * @cleared:	the session was cleared, which removed all older records but side-band
 * @waiting:	a target has ended, and has children that go on
 * @incomplete: records are missing, so the counts of targets are unknown
 */
struct persistent_exits {
	struct persistent_info		info;
	struct machines			machines;
	struct persistent_reader	reader;
	struct ordered_events		ordered;
	struct perf_thread_map		*threads;
	struct exit_row			**targets;
	struct exit_row			**rows;
	int				nr_rows;
	u64				lost;
	bool				cleared;
	bool				waiting;
	bool				incomplete;
};

/* The records of other programs' events may have another layout. */
bool attr__has_exit_counts(const struct perf_event_attr *attr)
{
	return attr->inherit_stat && (attr->read_format | PERF_FORMAT_LOST) ==
	       (PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_ID |
		PERF_FORMAT_LOST);
}

/* Rows */

static struct exit_row *exit_row__new(struct persistent_exits *exits, struct thread *thread)
{
	int nr = evlist__nr_entries(exits->reader.evlist);
	struct exit_row *row = zalloc(sizeof(*row) + nr * sizeof(row->counts[0]));

	if (row)
		row->thread = thread__get(thread);
	return row;
}

static void exit_row__delete(struct exit_row *row)
{
	if (row)
		thread__put(row->thread);
	free(row);
}

static struct exit_row *persistent_exits__row(struct persistent_exits *exits, pid_t pid,
					      pid_t tid)
{
	struct thread *thread = machine__findnew_thread(&exits->machines.host, pid, tid);
	struct exit_row **rows, *row = thread ? thread__priv(thread) : NULL;

	if (thread && !row) {
		rows = realloc(exits->rows, (exits->nr_rows + 1) * sizeof(*rows));
		exits->rows = rows ?: exits->rows;
		row = rows ? exit_row__new(exits, thread) : NULL;
		if (row)
			rows[exits->nr_rows++] = row;
		thread__set_priv(thread, row);
	}
	thread__put(thread);
	return row;
}

static void exit_count__add(struct exit_count *count, u64 val, u64 ena, u64 run)
{
	/* The event is enabled on all CPUs while the task runs on any. */
	count->ena = count->known ? min(count->ena, ena) : ena;
	count->val += val;
	count->run += run;
	count->known = true;
}

static void exit_count__take_off(struct exit_count *count, const struct exit_count *child)
{
	count->known &= count->val >= child->val;
	count->val -= child->val;
	count->ena -= min(count->ena, child->ena);
	count->run -= min(count->run, child->run);
}

/* Targets */

/* Tasks that had the same pid one after the other are one target. */
static struct exit_row **persistent_exits__target(struct persistent_exits *exits, pid_t pid)
{
	int thread = perf_thread_map__idx(exits->threads, pid);

	return thread < 0 ? NULL : &exits->targets[thread];
}

static int persistent_exits__add_instance(struct persistent_exits *exits, struct evsel *evsel,
					  const struct perf_persistent_info *info)
{
	struct exit_row *row, **target = persistent_exits__target(exits, info->pid);
	struct thread *thread;

	exits->cleared |= !!info->cleared;
	if (info->pid <= 0 || !target)
		return 0;
	thread = machine__findnew_thread(&exits->machines.host, info->tgid, info->pid);
	if (thread && !*target)
		*target = exit_row__new(exits, thread);
	thread__put(thread);
	row = *target;
	if (!row)
		return -ENOMEM;

	row->goes_on |= info->state != PERF_PERSISTENT_STATE_EXITED;
	exit_count__add(&row->counts[evsel->core.idx], info->count, info->time_enabled,
			info->time_running);
	/* For children that keep the name of their parent */
	if (row->goes_on && !thread__comm_set(row->thread))
		thread__set_comm_from_proc(row->thread);
	return 0;
}

/* Called after the buffers were read, so that no record is missing unless it was lost */
static int persistent_exits__find_targets(struct persistent_exits *exits)
{
	struct evsel *evsel;
	u64 lost;
	int err;

	evlist__for_each_entry(exits->reader.evlist, evsel) {
		if (attr__has_exit_counts(&evsel->core.attr))
			exits->threads = evsel->core.threads;
	}
	exits->targets = calloc(perf_thread_map__nr(exits->threads), sizeof(*exits->targets));
	if (!exits->targets)
		return -ENOMEM;

	evlist__for_each_persistent(exits->reader.evlist, it) {
		if (!attr__has_exit_counts(&it.evsel->core.attr))
			continue;
		err = evsel__persistent_lost_records(it.evsel, it.idx, it.thread, &lost) ?:
		      persistent_exits__add_instance(exits, it.evsel, &it.instance->info);
		if (err)
			return err;
		exits->lost += lost;
	}

	exits->incomplete = exits->lost || exits->cleared;
	persistent_reader__for_each(&exits->reader, buffer) {
		if (!buffer->side_band)
			exits->incomplete |= buffer->lost_bytes || buffer->consumed_bytes;
	}
	return 0;
}

/* Records */

static int persistent_exits__add_read(struct persistent_exits *exits, union perf_event *event)
{
	const struct perf_record_read *read = &event->read;
	struct exit_row **target, *row;
	struct perf_sample_id *sid;
	u64 id;

	if (evlist__event2id(exits->reader.evlist, event, &id))
		return 0;
	sid = evlist__id2sid(exits->reader.evlist, id);
	/* The task joined the session after its instances were listed. */
	if (!sid || !attr__has_exit_counts(&sid->evsel->attr))
		return 0;

	row = persistent_exits__row(exits, read->pid, read->tid);
	if (!row)
		return -ENOMEM;
	target = persistent_exits__target(exits, sid->tid);
	row->child = true;
	row->target = target ? *target : NULL;
	exit_count__add(&row->counts[sid->evsel->idx], read->value, read->time_enabled,
			read->time_running);
	return 0;
}

static int persistent_exits__deliver(struct ordered_events *ordered,
				     struct ordered_event *ordered_event)
{
	struct persistent_exits *exits = container_of(ordered, struct persistent_exits, ordered);
	union perf_event *event = ordered_event->event;
	struct perf_sample sample;
	int err = 0;

	perf_sample__init(&sample, /*all=*/true);
	sample.time = ordered_event->timestamp;
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
		err = persistent_exits__add_read(exits, event);
		break;
	default:
		break;
	}
	perf_sample__exit(&sample);
	return err;
}

/* Process all buffers in the order of time: several tasks may have had the same pid. */
static int persistent_exits__process_all(struct persistent_exits *exits)
{
	struct ordered_events *ordered = &exits->ordered;
	int err = 0;

	ordered_events__init(ordered, persistent_exits__deliver, NULL);
	persistent_reader__for_each(&exits->reader, buffer) {
		persistent_buffer__for_each(buffer, event) {
			u64 time = persistent_event__time(exits->reader.evlist, event);

			if (event->header.type == PERF_RECORD_SAMPLE)
				continue;
			/* A record without a time goes first. */
			err = err ?: ordered_events__queue(ordered, event, time ?: 1, 0, NULL);
		}
	}
	err = err ?: ordered_events__flush(ordered, OE_FLUSH__FINAL);
	ordered_events__free(ordered);
	return err;
}

/* The counts of targets */

/*
 * The count of a target includes those of its children. Before Linux 7.3 no record is written
 * when a child ends: it would count for its target.
 */
static int persistent_exits__take_off_children(struct persistent_exits *exits)
{
	int nr = evlist__nr_entries(exits->reader.evlist), told = 0, untold = 0;

	for (int i = 0; i < exits->nr_rows; i++) {
		struct exit_row *row = exits->rows[i];

		told += row->child;
		untold += !row->child &&
			  !persistent_exits__target(exits, thread__tid(row->thread));
		for (int idx = 0; row->target && idx < nr; idx++)
			exit_count__take_off(&row->target->counts[idx], &row->counts[idx]);
	}
	if (untold && !told && !exits->incomplete) {
		pr_err("%s, id %u: this kernel does not record per-task counts, which need Linux 7.3\n",
		       exits->info.name, exits->info.id);
		return -EOPNOTSUPP;
	}
	exits->incomplete |= !!untold;
	return 0;
}

static int persistent_exits__add_target(struct persistent_exits *exits, struct exit_row *target)
{
	pid_t pid = thread__pid(target->thread), tid = thread__tid(target->thread);
	int nr = evlist__nr_entries(exits->reader.evlist);
	struct exit_row *row = NULL;

	/* The last task with this tid that has no record */
	for (int i = 0; i < exits->nr_rows; i++) {
		if (!exits->rows[i]->child && thread__tid(exits->rows[i]->thread) == tid)
			row = exits->rows[i];
	}
	if (target->goes_on) {
		exits->waiting |= !!row;
		return 0;
	}
	row = row ?: persistent_exits__row(exits, pid, tid);
	if (!row)
		return -ENOMEM;
	if (!exits->incomplete)
		memcpy(row->counts, target->counts, nr * sizeof(row->counts[0]));
	return 0;
}

/*
 * The instances are listed before the buffers are read, so the records of all tasks that
 * had ended by then are there. Returns 0, or a negative error after printing a message.
 */
static int persistent_exits__read(struct persistent_exits *exits, u32 id)
{
	bool has_counts = false;
	int err;

	*exits = (struct persistent_exits) {};
	machines__init(&exits->machines);
	err = persistent_info__init(&exits->info, id);
	if (err)
		return persistent__error("read", id, exits->info.name, 'r', err);

	for (u32 i = 0; i < exits->info.nr_members; i++)
		has_counts |= attr__has_exit_counts(&exits->info.members[i].attr);
	if (!has_counts) {
		pr_err("%s, id %u, does not have per-task counts: start it with 'perf record --persistent=NAME -s' and -p, -t or a command\n",
		       exits->info.name, id);
		return -ENODATA;
	}
	err = persistent_reader__open(&exits->reader, id) ?:
	      persistent_reader__read(&exits->reader) ?:
	      persistent_exits__find_targets(exits);
	if (err)
		return err;

	persistent_reader__find_horizon(&exits->reader);
	err = persistent_exits__process_all(exits) ?: persistent_exits__take_off_children(exits);
	for (int i = 0; i < perf_thread_map__nr(exits->threads) && !err; i++) {
		if (exits->targets[i])
			err = persistent_exits__add_target(exits, exits->targets[i]);
	}
	return err;
}

static void persistent_exits__exit(struct persistent_exits *exits)
{
	for (int i = 0; i < exits->nr_rows; i++)
		exit_row__delete(exits->rows[i]);
	for (int i = 0; exits->targets && i < perf_thread_map__nr(exits->threads); i++)
		exit_row__delete(exits->targets[i]);
	zfree(&exits->rows);
	zfree(&exits->targets);
	persistent_info__exit(&exits->info);
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
	int len = 0;

	if (count->known && evsel->scale != 1.0)
		len = scnprintf(text, sizeof(text), "%'.6f", count->val * evsel->scale);
	else if (count->known)
		len = scnprintf(text, sizeof(text), "%'llu",
				(unsigned long long)count->val);

	/* Omit a percentage that rounds to 100. */
	snprintf(percent, sizeof(percent), " (%.2f%%)", exit_count__percent(count));
	if (count->known && strcmp(percent, " (100.00%)"))
		scnprintf(text + len, sizeof(text) - len, "%s", percent);
	printf(" %*s", max_t(int, COUNT_WIDTH, strlen(evsel__name(evsel))), text);
}

static void persistent_exits__print(struct persistent_exits *exits)
{
	struct evsel *evsel;

	printf("%s, id %u, started %.3f seconds ago, tasks that have ended: %d\n\n",
	       exits->info.name, exits->info.id,
	       (double)exits->info.query.age / NSEC_PER_SEC, exits->nr_rows);
	printf("%7s %7s  %-15s", "PID", "TID", "COMM");
	evlist__for_each_entry(exits->reader.evlist, evsel) {
		if (attr__has_exit_counts(&evsel->core.attr))
			printf(" %*s", COUNT_WIDTH, evsel__name(evsel));
	}
	printf("\n");

	for (int i = 0; i < exits->nr_rows; i++) {
		struct exit_row *row = exits->rows[i];
		char comm[16];

		scnprintf(comm, sizeof(comm), "%s", thread__comm_str(row->thread));
		printf("%7d %7d  %-15s", thread__pid(row->thread), thread__tid(row->thread),
		       persistent__printable(comm));
		evlist__for_each_entry(exits->reader.evlist, evsel) {
			if (attr__has_exit_counts(&evsel->core.attr))
				exit_count__print(&row->counts[evsel->core.idx], evsel);
		}
		printf("\n");
	}
	printf("\n");
	fflush(stdout);
}

/* Print losses to stderr, also with JSON: nothing is missing silently. */
static void persistent_exits__print_losses(struct persistent_exits *exits)
{
	if (exits->lost)
		fprintf(stderr, "[ dropped, buffer full: %llu records, so counts are missing ]\n",
			(unsigned long long)exits->lost);
	persistent_reader__print_losses(&exits->reader, /*lost=*/0);
	if (exits->waiting)
		fprintf(stderr,
			"[ tasks with running children are counted once their children have exited ]\n");
	else if (exits->incomplete)
		fprintf(stderr,
			"[ no counts for the initial tasks of %s: counts of some children are missing ]\n",
			exits->info.name);
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

static void persistent_exits__json(struct persistent_exits *exits, struct json_out *out)
{
	struct evsel *evsel;

	json_out__begin(out, NULL, '{');
	json_out__string(out, "name", exits->info.name);
	json_out__number(out, "id", exits->info.id);
	json_out__number(out, "age", exits->info.query.age);
	json_out__number(out, "lost", exits->lost);
	json_out__number(out, "lost-side-band",
			 evlist__persistent_lost(exits->reader.evlist, true));
	json_out__number(out, "overwritten-bytes", exits->reader.older_bytes);
	json_out__begin(out, "exits", '[');
	for (int i = 0; i < exits->nr_rows; i++) {
		struct exit_row *row = exits->rows[i];

		json_out__begin(out, NULL, '{');
		json_out__number(out, "pid", thread__pid(row->thread));
		json_out__number(out, "tid", thread__tid(row->thread));
		json_out__string(out, "comm", thread__comm_str(row->thread));
		json_out__begin(out, "counts", '[');
		evlist__for_each_entry(exits->reader.evlist, evsel) {
			if (attr__has_exit_counts(&evsel->core.attr))
				exit_count__json(&row->counts[evsel->core.idx], evsel, out);
		}
		json_out__end(out, ']');
		json_out__end(out, '}');
	}
	json_out__end(out, ']');
	json_out__end(out, '}');
}

/* Returns 0, or a negative error after printing a message. */
int persistent_exits__show(u32 id, struct json_out *json)
{
	struct persistent_exits exits;
	int err = persistent_exits__read(&exits, id);

	if (!err && json)
		persistent_exits__json(&exits, json);
	else if (!err)
		persistent_exits__print(&exits);
	if (!err)
		persistent_exits__print_losses(&exits);
	persistent_exits__exit(&exits);
	return err;
}
