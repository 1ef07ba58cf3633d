/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_RESERVE_H
#define __PERF_PERSISTENT_RESERVE_H

#include <stdbool.h>

/*
 * What is done while sessions are held: a command, or NULL, in the foreground or not.
 */
struct reserve_run {
	const char	**argv;
	bool		guessed;	/* that it is a command, since it is no session */
	bool		background;
};

int reserve__run(const struct reserve_run *run);

#endif /* __PERF_PERSISTENT_RESERVE_H */
