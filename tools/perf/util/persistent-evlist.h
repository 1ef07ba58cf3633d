/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_EVLIST_H
#define __PERF_PERSISTENT_EVLIST_H

#include <linux/perf_event.h>
#include <linux/types.h>

struct evlist;
struct evsel;

/*
 * What a member of a recording is made of: evsel::persistent. Only instances
 * that exist are in the list, so it need not be the product of two maps.
 */
struct persistent_member {
	u32				id;
	u32				nr;
	struct perf_persistent_instance	instances[];
};

/* All members and instances of an id. */
#define PERSISTENT_ALL	-1

int evlist__add_persistent(struct evlist *evlist, u32 id, int instance);
int evsel__reopen_persistent(struct evsel *evsel);
int evlist__reopen_persistent(struct evlist *evlist);
struct perf_persistent_instance *evsel__persistent_instance(struct evsel *evsel, int cpu_map_idx);

#endif /* __PERF_PERSISTENT_EVLIST_H */
