/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_CMD_H
#define __PERF_PERSISTENT_CMD_H

#include <stdbool.h>
#include <linux/types.h>

/*
 * The subcommands of perf persistent. Each returns an exit status, or a negative error
 * after printing a message.
 */
int persistent_cmd__list(int argc, const char **argv, const char * const usage[]);
int persistent_cmd__read(int argc, const char **argv, const char * const usage[]);
int persistent_cmd__dump(int argc, const char **argv, const char * const usage[]);
int persistent_cmd__flush(int argc, const char **argv, const char * const usage[]);
int persistent_cmd__status(int argc, const char **argv, const char * const usage[]);
int persistent_cmd__control(int argc, const char **argv, const char * const usage[]);
int persistent_cmd__targets(int argc, const char **argv, const char * const usage[]);
int persistent_cmd__set(int argc, const char **argv, const char * const usage[]);
int persistent_cmd__mark(int argc, const char **argv, const char * const usage[]);
int persistent_cmd__reserve(int argc, const char **argv, const char * const usage[]);

/*
 * Output format of list and read: a table, JSON, or values with a separator; read also
 * prints OpenMetrics.
 */
struct persistent_print {
	bool		json;
	bool		details;
	bool		no_aggr;
	bool		per_process;
	bool		openmetrics;
	bool		exits;
	const char	*separator;
};

int persistent_print__check(struct persistent_print *print);
int list__counters(u32 *ids, int nr);

/*
 * Output of dump or of stop --dump.
 *
 * @option: the option that gave @path, for messages
 * @path:   may contain %n for the name of the session, and conversions of strftime(3)
 */
struct persistent_dump {
	const char	*option;
	const char	*path;
	u64		last;
	u64		max_size;
	bool		all;
	bool		no_buildid_cache;
};

int persistent_dump__prepare(struct persistent_dump *dump, bool several);
int persistent_dump__run(const struct persistent_dump *dump, u32 id);

#endif /* __PERF_PERSISTENT_CMD_H */
