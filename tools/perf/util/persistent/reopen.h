/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_REOPEN_H
#define __PERF_PERSISTENT_REOPEN_H

#include <stdbool.h>
#include <linux/perf_event.h>
#include <linux/types.h>
#include <perf/evsel.h>

struct evlist;
struct evsel;
struct perf_cpu_map;
struct record_opts;

/* An instance, and what it had lost when it was cleared or this reader began */
struct persistent_instance {
	struct perf_persistent_info	info;
	u64				base_lost;
};

/*
 * A member of a session: evsel::persistent. Its instances are open from the beginning, since
 * evsel__open() drops attributes until it succeeds, and so could open a different event.
 * @instances is indexed by the CPUs and threads of the evsel, with holes where there is no
 * instance. @name is that of the session, for messages after it has ended.
 *
 * @some_cpus: some CPUs were chosen, or one instance
 * @in_part:   some tasks were chosen, or one instance: the buffers hold records of others
 */
struct persistent_member {
	u32		id;
	u32		flags;
	bool		some_cpus;
	bool		in_part;
	char		name[PERF_PERSISTENT_NAME_MAX];
	struct xyarray	*instances;
};

/* All instances of a session */
#define PERSISTENT_ALL	-1

/* Which instances to open; NULL for all CPUs, or for all tasks */
struct persistent_choice {
	int			instance;
	bool			side_band;
	struct perf_cpu_map	*cpus;
	struct intlist		*tasks;
	bool			processes;
};

/* How long a task's event was enabled, and how long it had a counter on any CPU */
struct persistent_times {
	u64	ena;
	u64	run;
};

int evlist__choose_persistent(struct evlist *evlist, u32 id,
			      const struct persistent_choice *choice);
double persistent__parse_unit(const char *label, const struct perf_event_attr *attr,
			      char *unit, size_t size);
int evlist__identify_persistent(struct evlist *evlist);
int evlist__check_persistent_formats(struct evlist *evlist);
void evlist__set_persistent_opts(struct evlist *evlist, struct record_opts *opts);

int evsel__read_persistent(struct evsel *evsel, int cpu_map_idx, int thread,
			   struct perf_counts_values *count);
void persistent_times__add(struct persistent_times *times, u64 ena, u64 run);
void persistent_times__share(const struct persistent_times *times,
			     struct perf_counts_values *count);
void evsel__share_persistent_times(struct evsel *evsel);
bool evsel__persistent_ended(struct evsel *evsel);
bool evlist__persistent_exited(struct evlist *evlist);
int evsel__persistent_lost_records(struct evsel *evsel, int cpu_map_idx, int thread, u64 *lost);
u64 evlist__persistent_lost(struct evlist *evlist, bool side_band);
int evsel__add_persistent_ids(struct evlist *evlist, struct evsel *evsel);
void evsel__exit_persistent(struct evsel *evsel);

/* The place of an instance in evsels up to @last, and its file, which is -1 when it is closed */
struct persistent_iter {
	struct evsel			*evsel;
	struct evsel			*last;
	struct persistent_instance	*instance;
	int				idx;
	int				thread;
	int				fd;
};

bool persistent_iter__next(struct persistent_iter *it);

#define __for_each_persistent(first, end, it)						\
	for (struct persistent_iter it = { .evsel = first, .last = end, .thread = -1 };	\
	     persistent_iter__next(&it);)

#define evsel__for_each_persistent(pos, it)	__for_each_persistent(pos, pos, it)
#define evlist__for_each_persistent(list, it)						\
	__for_each_persistent(evlist__empty(list) ? NULL : evlist__first(list),		\
			      evlist__last(list), it)

#endif /* __PERF_PERSISTENT_REOPEN_H */
