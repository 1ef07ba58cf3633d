/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_CMD_H
#define __PERF_PERSISTENT_CMD_H

#include <stdbool.h>
#include <linux/perf_event.h>
#include <linux/types.h>

/*
 * A subcommand of perf persistent: one in each cmd-*.c, or some that are alike.
 */
struct persistent_cmd {
	const char	*name;
	const char	*usage;
	/* Returns an exit status or, having said what is wrong, a negative error. */
	int		(*fn)(int argc, const char **argv);
};

extern const struct persistent_cmd persistent_cmd_list;
extern const struct persistent_cmd persistent_cmd_read;
extern const struct persistent_cmd persistent_cmd_dump;
extern const struct persistent_cmd persistent_cmd_flush;
extern const struct persistent_cmd persistent_cmd_status;
extern const struct persistent_cmd persistent_cmd_enable;
extern const struct persistent_cmd persistent_cmd_disable;
extern const struct persistent_cmd persistent_cmd_clear;
extern const struct persistent_cmd persistent_cmd_add;
extern const struct persistent_cmd persistent_cmd_drop;
extern const struct persistent_cmd persistent_cmd_set;
extern const struct persistent_cmd persistent_cmd_mark;
extern const struct persistent_cmd persistent_cmd_reserve;
extern const struct persistent_cmd persistent_cmd_stop;

/*
 * How list and read print: a table, JSON, or with a separator between the values; read
 * also prints OpenMetrics.
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

#endif /* __PERF_PERSISTENT_CMD_H */
