/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_START_H
#define __PERF_PERSISTENT_START_H

#include <signal.h>
#include <stdbool.h>
#include <linux/perf_event.h>
#include <linux/types.h>
#include "evsel.h"

struct evlist;
struct option;
struct perf_stat_config;
struct record_opts;
struct target;

/*
 * --persistent[=NAME[,discard][,sideband=SIZE][,ttl=N[s|m|h|d]][,mode=MODE][,group=GROUP]
 * [,owner=USER]]; @set has the last four, as far as given.
 */
struct persistent_spec {
	char				*name;
	bool				discard;
	u32				side_band_pages;

	struct perf_persistent_set	set;
};

int persistent_spec__parse(struct persistent_spec *spec, const char *text);
int persistent_spec__check_name(const char *option, const char *name);

/*
 * A session that is being set up. Until it is committed, it has a short time to live,
 * which perf renews: if perf is killed, the session ends soon.
 *
 * @record, @stat: options of the command that starts the session, or NULL
 * @argv:	   the command to run, or NULL
 * @by_default:	   no events were given
 */
struct persistent_start {
	struct evlist		*evlist;
	struct target		*target;
	struct record_opts	*record;
	struct perf_stat_config	*stat;
	const char		**argv;
	bool			by_default;
	struct persistent_spec	spec;
	unsigned int		tries;
	u32			id;
	unsigned int		nr_buffers;
	u64			buffer_bytes;
	u64			setup_ttl;
	u64			renewed;
	sigset_t		ends;
};

int persistent__check_start(const struct target *target, const struct option *options,
			    const char * const *allowed, const char *with);

int persistent_start__start(struct persistent_start *start, const char *spec);

/*
 * Sampling events need a buffer, and so do the counts of children that end. With leader
 * sampling, siblings only count, and so do events of perf stat.
 */
static inline bool evsel__has_buffer(const struct evsel *evsel)
{
	return evsel->core.attr.sample_period || evsel->core.attr.inherit_stat;
}

int persistent_start__config(struct persistent_start *start);
int persistent_start__open(struct persistent_start *start);
int persistent_start__detach(struct persistent_start *start);
int persistent_start__renew(struct persistent_start *start);
void persistent__end_signals(sigset_t *ends);
int persistent__wait_command(pid_t pid, const sigset_t *wait, siginfo_t *info);
u64 persistent_start__ttl(struct persistent_start *start);
void persistent__warn_limited(u32 id, u64 ttl);
int persistent_start__commit(struct persistent_start *start);

#endif /* __PERF_PERSISTENT_START_H */
