/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_FOLLOW_H
#define __PERF_PERSISTENT_FOLLOW_H

#include <stdbool.h>
#include <stdio.h>

struct evlist;
struct fdarray;
struct mmap_params;
struct option;
struct record_opts;
struct target;

int evlist__expand_persistent(struct evlist *evlist, struct target *target,
			      struct record_opts *opts, const struct option *options,
			      const char * const *shaping, const char * const *never);
bool evlist__has_only_persistent(struct evlist *evlist);
void evlist__fprintf_sessions(struct evlist *evlist, FILE *fp);
int evlist__enable_persistent(struct evlist *evlist);

int evlist__find_persistent_buffers(struct evlist *evlist);
int evlist__mmap_persistent(struct evlist *evlist, struct mmap_params *mp);
bool evlist__follows_persistent(struct evlist *evlist);
int evlist__poll_fds(struct evlist *evlist, struct fdarray *pollfd, int timeout);
int evlist__scnprintf_ended(struct evlist *evlist, char *buf, size_t size);
void evlist__print_persistent_loss(struct evlist *evlist);
void evlist__exit_persistent(struct evlist *evlist);

#endif /* __PERF_PERSISTENT_FOLLOW_H */
