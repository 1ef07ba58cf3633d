/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_CONTROL_H
#define __PERF_PERSISTENT_CONTROL_H

#include <stdbool.h>
#include <linux/types.h>

struct persistent_info;

/*
 * What can be done to a recording as a whole.
 */
struct persistent_action {
	const char	*done;
	int		(*fn)(struct persistent_info *info);
};

extern const struct persistent_action persistent_stop;
extern const struct persistent_action persistent_pause;
extern const struct persistent_action persistent_resume;

int persistent__act(const struct persistent_action *action, int argc, const char **argv);
int persistent__act_all(const struct persistent_action *action, bool mine);

#endif /* __PERF_PERSISTENT_CONTROL_H */
