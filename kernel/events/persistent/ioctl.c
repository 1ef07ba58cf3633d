// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: the ioctls of the registry.
 */
#include <linux/ioctl.h>

#include "persistent.h"

/* The sizes and offsets of the first published version, without holes */
static_assert(sizeof(struct perf_event_detach) == PERF_EVENT_DETACH_SIZE_VER0);
static_assert(sizeof(struct perf_persistent_query) == PERF_PERSISTENT_QUERY_SIZE_VER0);
static_assert(sizeof(struct perf_persistent_set) == PERF_PERSISTENT_SET_SIZE_VER0);
static_assert(sizeof(struct perf_persistent_info) == 128);
static_assert(offsetof(struct perf_persistent_query, name) == 248);

/* Compare ioctls without the size of their struct. */
static bool perf_persistent_ioctl_is(unsigned int cmd, unsigned int known)
{
	return (cmd & ~IOCSIZE_MASK) == (known & ~IOCSIZE_MASK);
}

/**
 * perf_persistent_ioctl - the ioctls of the registry
 * @holder: of a view or a file of a session, or NULL for the file that was detached
 * @event:  event of the open file, or NULL for a file of the holder's session
 * @cmd:    as for ioctl(2)
 * @arg:    as for ioctl(2)
 *
 * Context: may sleep; no lock of the event is held.
 * Return: as for ioctl(2), or -ENOIOCTLCMD for other ioctls
 */
long perf_persistent_ioctl(struct perf_persistent_holder *holder, struct perf_event *event,
			   unsigned int cmd, unsigned long arg)
{
	if (perf_persistent_ioctl_is(cmd, PERF_EVENT_IOC_QUERY_PERSISTENT))
		return perf_persistent_ioctl_query(holder, event, cmd, arg);
	if (perf_persistent_ioctl_is(cmd, PERF_EVENT_IOC_SET_PERSISTENT))
		return perf_persistent_ioctl_set(holder, event, cmd, arg);
	if (!event)
		return -ENOIOCTLCMD;
	if (perf_persistent_ioctl_is(cmd, PERF_EVENT_IOC_DETACH))
		return perf_persistent_ioctl_detach(holder, event, cmd, arg);
	if (cmd == PERF_EVENT_IOC_ATTACH)
		return arg ? -EINVAL : perf_persistent_ioctl_attach(event);

	return -ENOIOCTLCMD;
}
