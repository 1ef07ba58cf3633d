/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_LIMIT_H
#define __PERF_PERSISTENT_LIMIT_H

#include <stdbool.h>
#include <linux/types.h>

struct persistent_reader;

int persistent__check_time(const char *option, const char *str, u64 *ns);
int persistent__parse_size(const char *option, const char *str, u64 *bytes);

int persistent_reader__keep_last(struct persistent_reader *reader, u64 ns);
int persistent_reader__keep_size(struct persistent_reader *reader, u64 written, u64 size);
int persistent_reader__keep_first(struct persistent_reader *reader, u64 written, u64 size,
				  bool *full);

#endif /* __PERF_PERSISTENT_LIMIT_H */
