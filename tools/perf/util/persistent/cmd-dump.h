/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_CMD_DUMP_H
#define __PERF_PERSISTENT_CMD_DUMP_H

#include <stdbool.h>
#include <linux/types.h>

/*
 * What was asked for, by dump or by stop --dump.
 *
 * @option: what @path was given with, for messages
 * @path:   may have %n for the name of the session, and what strftime(3) knows
 */
struct persistent_dump {
	const char	*option;
	const char	*path;
	const char	*last_str;
	const char	*max_size_str;
	u64		last;
	u64		max_size;
	bool		all;
	bool		no_buildid_cache;
};

int persistent_dump__prepare(struct persistent_dump *dump, bool several);
int persistent_dump__run(const struct persistent_dump *dump, u32 id);

#endif /* __PERF_PERSISTENT_CMD_DUMP_H */
