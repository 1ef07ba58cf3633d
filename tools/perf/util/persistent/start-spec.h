/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_START_SPEC_H
#define __PERF_PERSISTENT_START_SPEC_H

#include <stdbool.h>
#include <linux/types.h>

/*
 * --persistent[=NAME[,discard][,sideband=SIZE][,ttl=N[s|m|h|d]][,mode=MODE][,group=GROUP]
 * [,owner=USER]]; set has the flags of PERF_EVENT_IOC_SET_PERSISTENT for the last three.
 */
struct persistent_spec {
	char	*name;
	bool	discard;
	u32	side_band_pages;
	u64	ttl;
	u32	set;
	u32	mode;
	u32	uid;
	u32	gid;
};

int persistent_spec__parse(struct persistent_spec *spec, const char *text, const char **argv);
int persistent_spec__check_name(const char *option, const char *name);
void persistent_spec__exit(struct persistent_spec *spec);

#endif /* __PERF_PERSISTENT_START_SPEC_H */
