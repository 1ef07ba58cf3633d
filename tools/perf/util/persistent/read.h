/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_READ_H
#define __PERF_PERSISTENT_READ_H

#include <stdbool.h>
#include <stdio.h>
#include <linux/types.h>
#include <perf/evsel.h>
#include "json.h"
#include "strbuf.h"

struct perf_event_attr;
struct persistent_answer;

/*
 * A line of output: a member, with -A one of its instances, or with --per-process those
 * of one process.
 *
 * @process: the process, 0 for all of them, or -1 without --per-process
 * @raw:     unscaled
 * @counts:  scaled by the time that the event had a counter
 */
struct read_line {
	const char			*session;
	u32				id;
	u32				member;
	const char			*label;
	const char			*cgroup;
	const struct persistent_answer	*details;
	int				process;
	char				unit[32];
	double				scale;
	u64				raw;
	struct perf_counts_values	counts;
};

static inline bool read_line__counted(const struct read_line *line)
{
	return line->counts.ena && line->counts.run;
}

enum openmetrics_family {
	OPENMETRICS_EVENTS, OPENMETRICS_CLOCK, OPENMETRICS_ENERGY, OPENMETRICS_TRAFFIC,
	OPENMETRICS_ENABLED, OPENMETRICS_RUNNING, OPENMETRICS_LOST, OPENMETRICS_FAMILIES,
};

/* OpenMetrics groups all samples of a metric, so keep them until all sessions were read. */
struct openmetrics {
	struct strbuf	samples[OPENMETRICS_FAMILIES];
};

int openmetrics__add(struct openmetrics *metrics, const struct read_line *line);
void openmetrics__print(struct openmetrics *metrics, FILE *fp);
void openmetrics__exit(struct openmetrics *metrics);

bool attr__has_exit_counts(const struct perf_event_attr *attr);
int persistent_exits__show(u32 id, struct json_out *json);

#endif /* __PERF_PERSISTENT_READ_H */
