// SPDX-License-Identifier: GPL-2.0-only
/*
 * A group that moves to another CPU of its PMU's scope is scheduled by the same
 * rules there: it does not go on next to an exclusive event.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "kselftest_harness.h"

#define DEVICES	"/sys/bus/event_source/devices"
#define CONFIGS	32	/* of a PMU that are tried */

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

	/* A pinned event that could not go on has nothing to read. */
	return read(fd, values, sizeof(values)) == sizeof(values) ? values[1] : 0;
}

static bool read_line(const char *path, char *line, int size)
{
	FILE *file = fopen(path, "re");
	bool ok;

	if (!file)
		return false;
	ok = fgets(line, size, file);
	fclose(file);
	return ok;
}

static bool cpu_online(int cpu, bool online)
{
	char path[64];
	bool ok;
	int fd;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ok = write(fd, online ? "1" : "0", 1) == 1;
	close(fd);
	return ok;
}

/* Of a list like "0,2" or "0-3" */
static int nr_cpus(const char *list)
{
	int first, last, nr = 0;
	char *end;

	do {
		first = strtol(list, &end, 10);
		last = first;
		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		nr += last - first + 1;
		list = end + 1;
	} while (*end == ',');
	return nr;
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

/* An exclusive event, and a group of an event of software and one of the same PMU */
static bool open_all(struct _test_data_group_migrate *self, __u32 type, int cpu)
{
	__u64 config;

	for (config = 0; config < CONFIGS && self->exclusive < 0; config++)
		self->exclusive = perf_open(type, config, cpu, -1, true);
	self->cpu = cpu;
	self->leader = perf_open(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, cpu, -1, false);
	self->sibling = perf_open(type, config - 1, cpu, self->leader, false);
	return self->exclusive >= 0 && self->sibling >= 0 &&
	       time_running(self->exclusive) && !time_running(self->sibling);
}

/*
 * Look for a PMU that has events on one CPU of several, which is able to go
 * offline. The kernel then moves them, by perf_pmu_migrate_context().
 */
static bool find_pmu(struct _test_data_group_migrate *self)
{
	DIR *dir = opendir(DEVICES);
	struct dirent *entry;
	char path[512], line[256], *cpu;
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	bool found = false;
	__u32 type;

	while (dir && !found && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), DEVICES "/%s/type", entry->d_name);
		if (entry->d_name[0] == '.' || !read_line(path, line, sizeof(line)))
			continue;
		type = strtoul(line, NULL, 10);
		snprintf(self->cpumask, sizeof(self->cpumask), DEVICES "/%s/cpumask",
			 entry->d_name);
		if (!read_line(self->cpumask, line, sizeof(line)) || nr_cpus(line) >= online)
			continue;

		for (cpu = strtok(line, ",-\n"); cpu && !found; cpu = strtok(NULL, ",-\n")) {
			snprintf(path, sizeof(path),
				 "/sys/devices/system/cpu/cpu%s/online", cpu);
			if (access(path, W_OK))
				continue;
			found = open_all(self, type, atoi(cpu));
			if (!found)
				close_all(self);
		}
	}
	if (dir)
		closedir(dir);
	return found;
}

FIXTURE_SETUP(group_migrate)
{
	self->cpu = -1;
	self->leader = -1;
	self->sibling = -1;
	self->exclusive = -1;
	if (geteuid())
		SKIP(return, "needs root");
	if (!find_pmu(self))
		SKIP(return, "no PMU with one CPU for several, of which one can go offline");
}

FIXTURE_TEARDOWN(group_migrate)
{
	close_all(self);
	/* Whatever made the test end */
	if (self->cpu > 0)
		cpu_online(self->cpu, true);
}

/* A group does not run next to an exclusive event, before and after the two move. */
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
