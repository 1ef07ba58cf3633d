/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_START_H
#define __PERF_PERSISTENT_START_H

#include <signal.h>
#include <stdbool.h>
#include <linux/perf_event.h>
#include <linux/types.h>
#include <internal/xyarray.h>
#include "evsel.h"

#define PERSISTENT_FD(evsel, cpu_map_idx, thread) \
	(*(int *)xyarray__entry((evsel)->core.fd, cpu_map_idx, thread))

struct evlist;
struct perf_stat_config;
struct record_opts;
struct target;

/*
 * --persistent[=NAME[,discard][,sideband=SIZE][,ttl=N[s|m|h|d]][,mode=MODE][,group=GROUP]
 * [,owner=USER]]; set has what is given of the last four.
 */
struct persistent_spec {
	char				*name;
	bool				discard;
	u32				side_band_pages;

	struct perf_persistent_set	set;
};

int persistent_spec__parse(struct persistent_spec *spec, const char *text, const char **argv);
int persistent_spec__check_name(const char *option, const char *name);

/*
 * A session that is being set up. Until it is committed it has only a short
 * time to live, which is renewed for as long as perf is at it, so that nothing
 * stays for long of one whose perf was killed.
 */
struct persistent_start {
	struct evlist		*evlist;
	struct target		*target;
	struct persistent_spec	spec;
	const char		**argv;
	unsigned int		pages;
	bool			counting;
	bool			skip_unsupported;
	bool			by_default;
	unsigned int		tries;
	u32			id;
	unsigned int		nr_buffers;
	u64			buffer_bytes;
	u64			setup_ttl;
	u64			renewed;
	sigset_t		ends;
};

/* An option that --persistent has no use for; the list ends with one without a name. */
struct persistent_refused {
	const char	*option;
	bool		given;
	const char	*why;
};

int persistent__check_options(const struct persistent_refused *refused,
			      const struct target *target);

int evlist__start_persistent(struct evlist *evlist, struct record_opts *opts,
			     const char *spec, const char **argv, bool by_default);
int evlist__start_persistent_stat(struct evlist *evlist, struct perf_stat_config *config,
				  struct target *target, const char *spec, const char **argv,
				  bool skip_unsupported);

/*
 * Sampling events need a buffer, and so do the counts of each child that ends.
 * Siblings that their leader samples only count, and so do events of perf stat.
 */
static inline bool evsel__has_buffer(const struct evsel *evsel)
{
	return evsel->core.attr.sample_period || evsel->core.attr.inherit_stat;
}

int persistent_start__config_record(struct persistent_start *start, struct record_opts *opts);
int persistent_start__config_stat(struct persistent_start *start, struct perf_stat_config *config);

u64 persistent__max_ttl(void);
int persistent_start__check_ttl(struct persistent_start *start);
int persistent_start__open(struct persistent_start *start);
int persistent_start__detach(struct persistent_start *start);
int persistent_start__renew(struct persistent_start *start);
void persistent__end_signals(sigset_t *ends);
int persistent__wait_command(pid_t pid, const sigset_t *wait, siginfo_t *info);
u64 persistent_start__ttl(struct persistent_start *start);
int persistent_start__commit(struct persistent_start *start);

#endif /* __PERF_PERSISTENT_START_H */
