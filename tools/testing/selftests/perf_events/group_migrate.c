// SPDX-License-Identifier: GPL-2.0-only
/*
 * A group that moves to another CPU of its PMU's scope is scheduled by the same
 * rules there: it does not run next to an exclusive event.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "hotplug.h"
#include "kselftest_harness.h"

static int perf_open(__u32 type, __u64 config, int cpu, int group_fd, bool exclusive)
{
	struct perf_event_attr attr = {
		.type		= type,
		.size		= sizeof(attr),
		.config		= config,
		.read_format	= PERF_FORMAT_TOTAL_TIME_RUNNING,
		.pinned		= exclusive,
		.exclusive	= exclusive,
	};

	return syscall(__NR_perf_event_open, &attr, -1, cpu, group_fd, PERF_FLAG_FD_CLOEXEC);
}

static __u64 time_running(int fd)
{
	__u64 values[2];

	/* A pinned event in error state has nothing to read. */
	return read(fd, values, sizeof(values)) == sizeof(values) ? values[1] : 0;
}

FIXTURE(group_migrate)
{
	char cpumask[512];
	int cpu;
	int leader;
	int sibling;
	int exclusive;
};

static void close_all(struct _test_data_group_migrate *self)
{
	int *fds[] = { &self->sibling, &self->leader, &self->exclusive };
	int i;

	for (i = 0; i < 3; i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

/* An exclusive event, and a group of a software event and an event of the same PMU */
static bool open_all(void *data, __u32 type, int cpu)
{
	struct _test_data_group_migrate *self = data;
	__u64 config;

	for (config = 0; config < CONFIGS && self->exclusive < 0; config++)
		self->exclusive = perf_open(type, config, cpu, -1, true);
	self->leader = perf_open(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, cpu, -1, false);
	self->sibling = perf_open(type, config - 1, cpu, self->leader, false);
	if (self->exclusive >= 0 && self->sibling >= 0 &&
	    time_running(self->exclusive) && !time_running(self->sibling))
		return true;

	close_all(self);
	return false;
}

FIXTURE_SETUP(group_migrate)
{
	self->cpu = -1;
	self->leader = -1;
	self->sibling = -1;
	self->exclusive = -1;
	if (geteuid())
		SKIP(return, "needs root");
	self->cpu = find_shared_pmu(self->cpumask, sizeof(self->cpumask), open_all, self);
	if (self->cpu < 0)
		SKIP(return, "no PMU with one CPU for several, of which one can go offline");
}

FIXTURE_TEARDOWN(group_migrate)
{
	close_all(self);
	/* However the test ended */
	if (self->cpu > 0)
		cpu_online(self->cpu, true);
}

/* A group does not run next to an exclusive event, neither before nor after both move. */
TEST_F(group_migrate, exclusive)
{
	char before[256], after[256];
	__u64 exclusive, group;
	int i;

	ASSERT_EQ(0, time_running(self->sibling));
	ASSERT_TRUE(read_line(self->cpumask, before, sizeof(before)));
	if (!cpu_online(self->cpu, false))
		SKIP(return, "CPU %d cannot go offline: %s", self->cpu, strerror(errno));
	ASSERT_TRUE(read_line(self->cpumask, after, sizeof(after)));
	if (nr_cpus(after) < nr_cpus(before))
		SKIP(return, "CPU %d has no other one to move its events to", self->cpu);

	exclusive = time_running(self->exclusive);
	group = time_running(self->sibling);
	for (i = 0; i < 1000 && time_running(self->exclusive) < exclusive + 10000000; i++)
		usleep(1000);
	EXPECT_LE(exclusive + 10000000, time_running(self->exclusive)) {
		TH_LOG("The exclusive event does not run after it has moved");
	}
	EXPECT_EQ(group, time_running(self->sibling)) {
		TH_LOG("The group runs next to an exclusive event");
	}
}

TEST_HARNESS_MAIN
