/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_SPEC_H
#define __PERF_PERSISTENT_SPEC_H

#include <stdbool.h>
#include <linux/types.h>

/* --persistent[=NAME[,full][,ttl=N[s|m|h|d]]] */
struct persistent_spec {
	char	*name;
	bool	until_full;
	u64	ttl;
};

int persistent_spec__parse(struct persistent_spec *spec, const char *text);
void persistent_spec__exit(struct persistent_spec *spec);

#endif /* __PERF_PERSISTENT_SPEC_H */
