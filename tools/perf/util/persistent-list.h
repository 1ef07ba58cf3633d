/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_LIST_H
#define __PERF_PERSISTENT_LIST_H

#include <stdbool.h>

/*
 * How perf persistent list and perf persistent read print: a table, JSON, or
 * with a separator between the values.
 */
struct persistent_print {
	bool		json;
	bool		details;
	bool		no_aggr;
	const char	*separator;
};

int persistent__list(const struct persistent_print *print);
int persistent__read_counts(int argc, const char **argv, const struct persistent_print *print);

#endif /* __PERF_PERSISTENT_LIST_H */
