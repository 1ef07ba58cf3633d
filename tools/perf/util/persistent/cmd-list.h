/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_CMD_LIST_H
#define __PERF_PERSISTENT_CMD_LIST_H

#include <stdbool.h>
#include <linux/perf_event.h>
#include <linux/types.h>

/*
 * A session of the list. What sysfs tells is always there, and the instances if
 * the caller may read it: without, nr is a negative error, and so is includes_guests.
 */
struct list_entry {
	u32				id;
	char				name[PERF_PERSISTENT_NAME_MAX];
	char				owner[64];
	char				cpus[4096];
	u64				age;
	u64				left;
	u64				bytes;
	u64				lost;
	char				*events;
	int				includes_guests;
	int				nr;
	struct perf_persistent_query	query;
	struct perf_persistent_info	*instances;
};

int list_entry__init(struct list_entry *entry, u32 id);
void list_entry__exit(struct list_entry *entry);

void list__json(u32 *ids, int nr, bool details);
int list__counters(u32 *ids, int nr);

#endif /* __PERF_PERSISTENT_CMD_LIST_H */
