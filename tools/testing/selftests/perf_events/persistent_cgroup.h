/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Persistent perf events: helpers for tests of cgroups.
 */
#ifndef _SELFTESTS_PERF_EVENTS_PERSISTENT_CGROUP_H
#define _SELFTESTS_PERF_EVENTS_PERSISTENT_CGROUP_H

#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "persistent.h"

static inline int open_cgroup(struct perf_event_attr attr, int dir, int cpu)
{
	return event_open(&attr, dir, cpu, -1, PERF_FLAG_PID_CGROUP);
}

/*
 * The controller is implicit, but the root hands it down only after a change
 * there: move it to a hierarchy of its own and back.
 */
static inline void move_controller(void)
{
	char dir[] = "/tmp/persistent_v1.XXXXXX";

	if (mkdtemp(dir) && !mount("cgroup", dir, "cgroup", 0, "perf_event"))
		umount(dir);
	rmdir(dir);
}

static inline int try_controller(const char *root)
{
	char path[128];
	int fd, event;

	snprintf(path, sizeof(path), "%s/persistent_try", root);
	mkdir(path, 0755);
	fd = open(path, O_RDONLY);
	event = open_cgroup(event_attr(CLOCK), fd, 0);
	close(event);
	close(fd);
	rmdir(path);

	return event < 0 ? event : 0;
}

static inline bool awaken_controller(const char *root)
{
	if (!try_controller(root))
		return true;
	move_controller();

	return eventually(!try_controller(root));
}

/* The mount point of version 2; perf_event need not be enabled there */
static inline int find_cgroups(char *root, size_t size, bool *mounted)
{
	struct statfs fs;

	snprintf(root, size, "/sys/fs/cgroup");
	if (statfs(root, &fs) || fs.f_type != CGROUP2_SUPER_MAGIC) {
		snprintf(root, size, "/tmp/persistent_cgroup.XXXXXX");
		*mounted = mkdtemp(root) && !mount("cgroup2", root, "cgroup2", 0, NULL);
		if (!*mounted)
			return -errno;
	}

	return awaken_controller(root) ? 0 : -EOPNOTSUPP;
}

static inline int leave_cgroups(const char *root, bool mounted)
{
	return mounted ? result(umount(root)) ?: result(rmdir(root)) : 0;
}

/* Create and open a cgroup; @path gets its path. */
static inline int make_cgroup(const char *root, const char *name, char path[128])
{
	snprintf(path, 128, "%s/%s", root, name);

	return mkdir(path, 0755) ? -errno : result(open(path, O_RDONLY | O_CLOEXEC));
}

#endif /* _SELFTESTS_PERF_EVENTS_PERSISTENT_CGROUP_H */
