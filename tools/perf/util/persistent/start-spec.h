/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_START_SPEC_H
#define __PERF_PERSISTENT_START_SPEC_H

#include <stdbool.h>
#include <linux/perf_event.h>
#include <linux/types.h>

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
void persistent_spec__exit(struct persistent_spec *spec);

#endif /* __PERF_PERSISTENT_START_SPEC_H */
