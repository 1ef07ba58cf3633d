/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_FOLLOW_H
#define __PERF_PERSISTENT_FOLLOW_H

#include <stdbool.h>

struct evlist;
struct target;

int evlist__expand_persistent(struct evlist *evlist, struct target *target, bool side_band);
int evlist__read_persistent_base(struct evlist *evlist);
int evlist__follow_persistent(struct evlist *evlist, struct target *target, const char *path,
			      int argc, const char **argv);

#endif /* __PERF_PERSISTENT_FOLLOW_H */
