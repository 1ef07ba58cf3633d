// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events that move to another CPU of their PMU's scope stay enabled if they were
 * enabled and disabled if they were disabled.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "hotplug.h"
#include "kselftest_harness.h"

#define MS	1000000ULL

static int perf_open(__u32 type, __u64 config, int cpu, int group_fd, bool disabled)
{
	struct perf_event_attr attr = {
		.type		= type,
		.size		= sizeof(attr),
		.config		= config,
		.read_format	= PERF_FORMAT_TOTAL_TIME_ENABLED,
		.disabled	= disabled,
	};

	return syscall(__NR_perf_event_open, &attr, -1, cpu, group_fd, PERF_FLAG_FD_CLOEXEC);
}

static __u64 time_enabled(int fd)
{
	__u64 values[2];

	return read(fd, values, sizeof(values)) == sizeof(values) ? values[1] : 0;
}

enum {
	ENABLED,	/* leads SIBLING and SIBLING_OFF */
	SIBLING,
	SIBLING_OFF,
	OPENED_OFF,	/* attr.disabled, leads FOLLOWER */
	FOLLOWER,	/* enabled, and waits for its leader */
	TURNED_OFF,	/* by PERF_EVENT_IOC_DISABLE */
	NR_EVENTS
};

FIXTURE(disabled_migrate)
{
	char cpumask[512];
	int cpu;
	int fds[NR_EVENTS];
};

static void close_all(struct _test_data_disabled_migrate *self)
{
	int i;

	for (i = 0; i < NR_EVENTS; i++) {
		if (self->fds[i] >= 0)
			close(self->fds[i]);
		self->fds[i] = -1;
	}
}

static bool open_all(void *data, __u32 type, int cpu)
{
	struct _test_data_disabled_migrate *self = data;
	int *fds = self->fds, i;
	__u64 config;

	for (config = 0; config < CONFIGS && fds[ENABLED] < 0; config++)
		fds[ENABLED] = perf_open(type, config, cpu, -1, false);
	config--;
	fds[SIBLING] = perf_open(type, config, cpu, fds[ENABLED], false);
	fds[SIBLING_OFF] = perf_open(type, config, cpu, fds[ENABLED], true);
	fds[OPENED_OFF] = perf_open(type, config, cpu, -1, true);
	fds[FOLLOWER] = perf_open(type, config, cpu, fds[OPENED_OFF], false);
	fds[TURNED_OFF] = perf_open(type, config, cpu, -1, false);
	for (i = 0; i < NR_EVENTS && fds[i] >= 0; i++)
		;
	if (i == NR_EVENTS && !ioctl(fds[TURNED_OFF], PERF_EVENT_IOC_DISABLE, 0))
		return true;

	close_all(self);
	return false;
}

FIXTURE_SETUP(disabled_migrate)
{
	int i;

	self->cpu = -1;
	for (i = 0; i < NR_EVENTS; i++)
		self->fds[i] = -1;
	if (geteuid())
		SKIP(return, "needs root");
	self->cpu = find_shared_pmu(self->cpumask, sizeof(self->cpumask), open_all, self);
	if (self->cpu < 0)
		SKIP(return, "no PMU with one CPU for several, of which one can go offline");
}

FIXTURE_TEARDOWN(disabled_migrate)
{
	close_all(self);
	/* However the test ended */
	if (self->cpu > 0)
		cpu_online(self->cpu, true);
}

static bool gets_enabled(int fd)
{
	__u64 start = time_enabled(fd);
	int i;

	for (i = 0; i < 1000 && time_enabled(fd) < start + 10 * MS; i++)
		usleep(1000);
	return time_enabled(fd) >= start + 10 * MS;
}

/* The time of an event goes on after a move if it went on before. */
TEST_F(disabled_migrate, time)
{
	static const int off[] = { SIBLING_OFF, OPENED_OFF, FOLLOWER, TURNED_OFF };
	char before[256], after[256];
	__u64 time[ARRAY_SIZE(off)];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(off); i++)
		time[i] = time_enabled(self->fds[off[i]]);
	ASSERT_TRUE(read_line(self->cpumask, before, sizeof(before)));
	if (!cpu_online(self->cpu, false))
		SKIP(return, "CPU %d cannot go offline: %s", self->cpu, strerror(errno));
	ASSERT_TRUE(read_line(self->cpumask, after, sizeof(after)));
	if (nr_cpus(after) < nr_cpus(before))
		SKIP(return, "CPU %d has no other one to move its events to", self->cpu);

	EXPECT_TRUE(gets_enabled(self->fds[ENABLED]));
	EXPECT_TRUE(gets_enabled(self->fds[SIBLING]));
	for (i = 0; i < ARRAY_SIZE(off); i++) {
		EXPECT_EQ(time[i], time_enabled(self->fds[off[i]])) {
			TH_LOG("The move has enabled event %d", off[i]);
		}
	}

	/* They can be enabled where they are now. */
	for (i = 0; i < ARRAY_SIZE(off); i++) {
		ASSERT_EQ(0, ioctl(self->fds[off[i]], PERF_EVENT_IOC_ENABLE, 0));
		EXPECT_TRUE(gets_enabled(self->fds[off[i]]));
	}
}

TEST_HARNESS_MAIN
