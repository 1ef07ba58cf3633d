/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_CHANGE_H
#define __PERF_PERSISTENT_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/perf_event.h>
#include <linux/types.h>

struct persistent_info;

/*
 * What the events of a session get, as it was typed; NULL where nothing was. The text is
 * the whole new filter.
 */
struct persistent_change {
	const char	*event;
	const char	*filter;
	const char	*add_filter;
	bool		drop_filter;
	const char	*period;
	const char	*freq;
	char		*text;
};

int persistent_info__find_member(struct persistent_info *info, const char *event);

int persistent_change__parse(struct persistent_change *change, struct perf_persistent_set *set);
int persistent_change__apply(struct persistent_change *change, u32 id,
			     struct perf_persistent_set *set);
void persistent_change__exit(struct persistent_change *change);
const char *persistent_change__why_invalid(const struct persistent_change *change, char *buf,
					   size_t size);

#endif /* __PERF_PERSISTENT_CHANGE_H */
