// SPDX-License-Identifier: GPL-2.0-only
/*
 * A CPU that goes offline removes its events from their context. They stay out
 * when it is back, and can no longer lead a group.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "hotplug.h"
#include "kselftest_harness.h"

static int perf_open(int cpu, int group_fd)
{
	struct perf_event_attr attr = {
		.type	= PERF_TYPE_SOFTWARE,
		.size	= sizeof(attr),
		.config	= PERF_COUNT_SW_CPU_CLOCK,
	};

	return syscall(__NR_perf_event_open, &attr, -1, cpu, group_fd, PERF_FLAG_FD_CLOEXEC);
}

FIXTURE(group_after_hotplug)
{
	int cpu;
	int leader;
};

FIXTURE_SETUP(group_after_hotplug)
{
	self->leader = -1;
	self->cpu = sysconf(_SC_NPROCESSORS_ONLN) - 1;
	if (geteuid() || self->cpu < 1)
		SKIP(return, "needs root and a second CPU");

	self->leader = perf_open(self->cpu, -1);
	if (self->leader < 0)
		SKIP(return, "no event on CPU %d: %s", self->cpu, strerror(errno));

	if (!cpu_online(self->cpu, false))
		SKIP(return, "CPU %d cannot go offline: %s", self->cpu, strerror(errno));
	ASSERT_TRUE(cpu_online(self->cpu, true));
}

FIXTURE_TEARDOWN(group_after_hotplug)
{
	if (self->leader >= 0)
		close(self->leader);
}

/* An event whose CPU was offline cannot get siblings; a new one can. */
TEST_F(group_after_hotplug, leader)
{
	int leader, sibling;

	errno = 0;
	sibling = perf_open(self->cpu, self->leader);
	EXPECT_EQ(ENODEV, errno);
	EXPECT_EQ(-1, sibling) {
		TH_LOG("A leader that has left its context got a sibling");
		close(sibling);
	}

	leader = perf_open(self->cpu, -1);
	ASSERT_LE(0, leader);
	sibling = perf_open(self->cpu, leader);
	EXPECT_LE(0, sibling);
	close(sibling);
	close(leader);
}

TEST_HARNESS_MAIN
