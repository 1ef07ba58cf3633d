/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_OUTPUT_H
#define __PERF_PERSISTENT_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <linux/types.h>
#include "data.h"
#include "env.h"
#include "record.h"
#include "tool.h"

struct evlist;
struct evsel;
struct perf_session;
struct persistent_reader;

/*
 * A perf.data that appears under its name when it is complete, and not at all if it cannot
 * be written. Until then it is @partial, which is empty if there is no such file.
 * With the path "-" it is written to standard output, in pipe format.
 *
 * @told: time of the last report of progress, or of the beginning
 * @err:  the first error; nothing is written after it
 */
struct persistent_output {
	struct perf_tool	tool;
	struct perf_data	data;
	struct perf_session	*session;
	struct perf_env		host_env;
	struct evlist		*evlist;
	struct record_opts	opts;
	const char		*path;
	char			partial[PATH_MAX + sizeof(".XXXXXX")];
	u64			bytes;
	u64			samples;
	u64			lost;
	u64			lost_side_band;
	bool			cache_build_ids;
	u64			told;
	int			err;
};

int persistent_output__open(struct persistent_output *output, struct evlist *evlist,
			    const char *path);
int persistent_output__append(struct persistent_output *output, struct evlist *evlist,
			      const char *path, int fd);
int evlist__check_persistent_pipe(struct evlist *evlist);
int persistent_output__begin_pipe(struct persistent_output *output);
int persistent_output__check_stdout(const char *option);
int persistent_output__synthesize(struct persistent_output *output);
int persistent_output__write(struct persistent_output *output, struct persistent_reader *reader);
int persistent_output__put_lost(struct persistent_output *output, struct evsel *evsel,
				u64 id, u64 nr);
int persistent_output__write_lost(struct persistent_output *output);
int persistent_output__measure(struct persistent_output *output, u64 *size);
int persistent_output__close(struct persistent_output *output);
void persistent_output__exit(struct persistent_output *output);

#endif /* __PERF_PERSISTENT_OUTPUT_H */
