/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Persistent perf events: instances on a CPU that comes online later.
 */
#ifndef _SELFTESTS_PERF_EVENTS_PERSISTENT_EVERY_CPU_H
#define _SELFTESTS_PERF_EVENTS_PERSISTENT_EVERY_CPU_H

#include "persistent.h"

#define LATE_CPU	HOT_CPU

static inline int open_early(struct perf_event_attr *attr, int group_fd)
{
	return event_open(attr, -1, pin(0), group_fd, 0);
}

static inline int detach_every(int fd, unsigned int flags)
{
	return DETACH(fd, .flags = PERF_DETACH_EVERY_CPU | flags);
}

static inline int reopen_late(int id)
{
	return reopen_at(id, -1, LATE_CPU);
}

/* The instances of an id, as many as there should be */
static inline bool has_instances(int fd, __u32 n, struct answer *a)
{
	return !query(fd, a) && a->info.nr_instances == n;
}

static inline struct perf_persistent_instance *late_instance(struct answer *a, __u32 member)
{
	__u32 i;

	for (i = 0; i < a->info.nr_instances; i++) {
		if (a->instances[i].cpu == LATE_CPU && a->instances[i].member == member)
			return &a->instances[i];
	}

	return NULL;
}

#endif /* _SELFTESTS_PERF_EVENTS_PERSISTENT_EVERY_CPU_H */
