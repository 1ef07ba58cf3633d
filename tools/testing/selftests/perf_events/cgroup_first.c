// SPDX-License-Identifier: GPL-2.0-only
/*
 * The first event of a CPU may belong to a cgroup that does not run there. The
 * events after it are scheduled nevertheless.
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
#include <unistd.h>

#include <linux/perf_event.h>

#include "kselftest_harness.h"

#define TAINT_WARN	0x200

static int perf_open(__u64 config, int pid, int cpu, bool disabled, unsigned long flags)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= config,
		.read_format	= PERF_FORMAT_TOTAL_TIME_RUNNING,
		.disabled	= disabled,
	};

	return syscall(__NR_perf_event_open, &attr, pid, cpu, -1,
		       flags | PERF_FLAG_FD_CLOEXEC);
}

static __u64 time_running(int fd)
{
	__u64 values[2];

	return read(fd, values, sizeof(values)) == sizeof(values) ? values[1] : 0;
}

static long is_tainted(void)
{
	FILE *file = fopen("/proc/sys/kernel/tainted", "re");
	long value = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%ld", &value) != 1)
		value = 0;
	fclose(file);
	return value & TAINT_WARN;
}

static bool run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

FIXTURE(cgroup_first)
{
	char root[32];
	char path[64];
	int cpu;
	int cgroup;	/* an event of a cgroup without tasks */
	int event;	/* of the CPU, disabled */
};

FIXTURE_SETUP(cgroup_first)
{
	int dir;

	self->path[0] = '\0';
	self->cgroup = -1;
	self->event = -1;
	self->cpu = sysconf(_SC_NPROCESSORS_ONLN) - 1;
	strcpy(self->root, "/tmp/cgroup_first.XXXXXX");
	if (geteuid() || !mkdtemp(self->root)) {
		self->root[0] = '\0';
		SKIP(return, "needs root, and /tmp");
	}
	if (mount("cgroup2", self->root, "cgroup2", 0, NULL))
		SKIP(return, "no cgroups of version 2: %s", strerror(errno));
	snprintf(self->path, sizeof(self->path), "%s/cgroup_first", self->root);
	if (mkdir(self->path, 0755) && errno != EEXIST)
		SKIP(return, "no cgroup: %s", strerror(errno));

	dir = open(self->path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, dir);
	self->cgroup = perf_open(PERF_COUNT_SW_CONTEXT_SWITCHES, dir, self->cpu, false,
				 PERF_FLAG_PID_CGROUP);
	close(dir);
	if (self->cgroup < 0)
		SKIP(return, "no events of cgroups: %s", strerror(errno));
	self->event = perf_open(PERF_COUNT_SW_CPU_CLOCK, -1, self->cpu, true, 0);
	ASSERT_LE(0, self->event);
}

FIXTURE_TEARDOWN(cgroup_first)
{
	close(self->event);
	close(self->cgroup);
	if (self->path[0])
		rmdir(self->path);
	umount(self->root);
	rmdir(self->root);
}

/* An event of the CPU counts once it is enabled. */
TEST_F(cgroup_first, enable)
{
	int i;

	ASSERT_EQ(0, ioctl(self->event, PERF_EVENT_IOC_ENABLE, 0));
	for (i = 0; i < 1000 && !time_running(self->event); i++)
		usleep(1000);
	EXPECT_LT(0, time_running(self->event)) {
		TH_LOG("The event is enabled, but does not run");
	}
}

/* A task with an event can be scheduled on the CPU; without the fix, the kernel warns. */
TEST_F(cgroup_first, task)
{
	int task, i;

	if (is_tainted())
		SKIP(return, "the kernel has warned before: a new warning is not noticed");
	if (!self->cpu || !run_on(0))
		SKIP(return, "needs a second CPU");

	task = perf_open(PERF_COUNT_SW_CONTEXT_SWITCHES, 0, -1, false, 0);
	ASSERT_LE(0, task);
	ASSERT_TRUE(run_on(self->cpu));
	for (i = 0; i < 100; i++)
		usleep(100);
	EXPECT_LT(0, time_running(task));
	EXPECT_EQ(0, is_tainted()) {
		TH_LOG("The kernel warned");
	}
	close(task);
}

TEST_HARNESS_MAIN
