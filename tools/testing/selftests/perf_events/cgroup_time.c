// SPDX-License-Identifier: GPL-2.0-only
/*
 * The enabled time of a cgroup's event is the time in which the event was
 * enabled and the cgroup ran.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "kselftest_harness.h"

#define MS	1000000ULL
#define GAP	(200 * MS)
#define NAME	"cgroup_time"

static int perf_open(int pid, int cpu, unsigned long flags)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_CPU_CLOCK,
		.read_format	= PERF_FORMAT_TOTAL_TIME_ENABLED |
				  PERF_FORMAT_TOTAL_TIME_RUNNING,
	};

	return syscall(__NR_perf_event_open, &attr, pid, cpu, -1,
		       flags | PERF_FLAG_FD_CLOEXEC);
}

struct times {
	__u64 count;
	__u64 enabled;
	__u64 running;
};

static struct times get_times(int fd)
{
	struct times times;

	if (read(fd, &times, sizeof(times)) != sizeof(times))
		memset(&times, 0xff, sizeof(times));
	return times;
}

static __u64 read_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000 * MS + ts.tv_nsec;
}

static __u64 now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

/* Use the CPU for so long, not counting the time of others. */
static void spin(__u64 ns)
{
	__u64 end = read_clock(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (read_clock(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

static bool enter(const char *root, const char *name)
{
	char path[96];
	bool ok;
	int fd;

	snprintf(path, sizeof(path), "%s/%s/cgroup.procs", root, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ok = write(fd, "0", 1) == 1;
	close(fd);
	return ok;
}

FIXTURE(cgroup_time)
{
	char root[32];
	char path[64];
	int cpu;
	int plain;
	int dir;
};

FIXTURE_VARIANT(cgroup_time)
{
	bool plain;
};

/* The cgroup's event is the only one on its CPU. */
FIXTURE_VARIANT_ADD(cgroup_time, alone)
{
	.plain = false,
};

/* The CPU has another event, whose time goes on. */
FIXTURE_VARIANT_ADD(cgroup_time, plain)
{
	.plain = true,
};

FIXTURE_SETUP(cgroup_time)
{
	cpu_set_t set;
	int event;

	self->path[0] = '\0';
	self->plain = -1;
	self->dir = -1;
	self->cpu = sched_getcpu();
	strcpy(self->root, "/tmp/cgroup_time.XXXXXX");
	if (geteuid() || !mkdtemp(self->root)) {
		self->root[0] = '\0';
		SKIP(return, "needs root, and /tmp");
	}
	if (mount("cgroup2", self->root, "cgroup2", 0, NULL))
		SKIP(return, "no cgroups of version 2: %s", strerror(errno));

	CPU_ZERO(&set);
	CPU_SET(self->cpu, &set);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(set), &set));

	if (variant->plain) {
		self->plain = perf_open(-1, self->cpu, 0);
		ASSERT_LE(0, self->plain);
	}

	snprintf(self->path, sizeof(self->path), "%s/" NAME, self->root);
	if (mkdir(self->path, 0755) && errno != EEXIST)
		SKIP(return, "no cgroup: %s", strerror(errno));
	self->dir = open(self->path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, self->dir);
	event = perf_open(self->dir, self->cpu, PERF_FLAG_PID_CGROUP);
	if (event < 0)
		SKIP(return, "no events of cgroups: %s", strerror(errno));
	close(event);
	ASSERT_TRUE(enter(self->root, NAME));
}

FIXTURE_TEARDOWN(cgroup_time)
{
	close(self->plain);
	close(self->dir);
	if (self->path[0]) {
		enter(self->root, ".");
		rmdir(self->path);
	}
	umount(self->root);
	rmdir(self->root);
}

/* The first event of a cgroup is enabled from the time at which it was opened. */
TEST_F(cgroup_time, first)
{
	__u64 start = now();
	struct times times;
	int event;

	event = perf_open(self->dir, self->cpu, PERF_FLAG_PID_CGROUP);
	ASSERT_LE(0, event);
	spin(20 * MS);
	/* Its time is updated once another cgroup runs, if not before. */
	usleep(1000);
	times = get_times(event);
	EXPECT_LE(10 * MS, times.enabled);
	EXPECT_GE(now() - start + 5 * MS, times.enabled) {
		TH_LOG("The time before the event was opened counts");
	}
	EXPECT_EQ(times.enabled, times.running);
	close(event);
}

/* The time in which an event is disabled does not count. */
TEST_F(cgroup_time, disabled)
{
	struct times before, after;
	__u64 start;
	int event;

	event = perf_open(self->dir, self->cpu, PERF_FLAG_PID_CGROUP);
	ASSERT_LE(0, event);
	spin(20 * MS);
	ASSERT_EQ(0, ioctl(event, PERF_EVENT_IOC_DISABLE, 0));
	before = get_times(event);
	EXPECT_EQ(before.enabled, before.running);
	spin(GAP);
	EXPECT_EQ(before.enabled, get_times(event).enabled);

	start = now();
	ASSERT_EQ(0, ioctl(event, PERF_EVENT_IOC_ENABLE, 0));
	spin(20 * MS);
	after = get_times(event);
	EXPECT_LE(before.enabled + 10 * MS, after.enabled);
	EXPECT_GE(before.enabled + (now() - start) + 5 * MS, after.enabled) {
		TH_LOG("The time in which the event was disabled counts");
	}
	EXPECT_EQ(after.enabled, after.running);
	close(event);
}

/* The time after the last task has left the cgroup does not count. */
TEST_F(cgroup_time, left)
{
	struct times before, after;
	int event;

	event = perf_open(self->dir, self->cpu, PERF_FLAG_PID_CGROUP);
	ASSERT_LE(0, event);
	spin(20 * MS);
	ASSERT_EQ(0, ioctl(event, PERF_EVENT_IOC_DISABLE, 0));
	before = get_times(event);
	ASSERT_TRUE(enter(self->root, "."));
	spin(GAP);

	ASSERT_EQ(0, ioctl(event, PERF_EVENT_IOC_ENABLE, 0));
	spin(20 * MS);
	after = get_times(event);
	EXPECT_EQ(before.enabled, after.enabled) {
		TH_LOG("Time in which the cgroup did not run counts");
	}
	close(event);
}

TEST_HARNESS_MAIN
