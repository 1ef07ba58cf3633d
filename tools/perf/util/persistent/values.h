/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_VALUES_H
#define __PERF_PERSISTENT_VALUES_H

#include <linux/types.h>

struct perf_persistent_set;

/* Parsers of settings of a session that the user types */
u64 persistent__parse_time(const char *str);
u64 persistent__parse_bytes(const char *str);
u64 persistent__parse_count(const char *str);
const char *persistent__parse_setting(struct perf_persistent_set *set, const char *name,
				      const char *str);

#endif /* __PERF_PERSISTENT_VALUES_H */
