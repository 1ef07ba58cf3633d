/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_VALUES_H
#define __PERF_PERSISTENT_VALUES_H

#include <stdbool.h>
#include <linux/types.h>

/* Parsers of settings of a session that the user types */
u64 persistent__parse_time(const char *str);
u64 persistent__parse_bytes(const char *str);
u64 persistent__parse_count(const char *str);
bool persistent__parse_mode(const char *str, u32 *mode);
bool persistent__parse_owner(const char *str, u32 *uid);
bool persistent__parse_group(const char *str, u32 *gid);

#endif /* __PERF_PERSISTENT_VALUES_H */
