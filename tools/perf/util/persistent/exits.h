/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_EXITS_H
#define __PERF_PERSISTENT_EXITS_H

#include <stdbool.h>
#include <linux/types.h>
#include "hashmap.h"
#include "info.h"
#include "json.h"
#include "machine.h"
#include "reader.h"

struct evlist;
struct evsel;
struct thread;

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
	struct exit_count	*counts;
};

/*
 * An instance, and what the children that it was passed on to have counted.
 */
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
	struct evlist			*evlist;
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

int persistent_exits__read(struct persistent_exits *exits, u32 id);
void persistent_exits__exit(struct persistent_exits *exits);
void persistent_exits__print(struct persistent_exits *exits);
void persistent_exits__json(struct persistent_exits *exits, struct json_out *out);

#endif /* __PERF_PERSISTENT_EXITS_H */
