// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events of a CPU that take turns on a PMU do so again after the CPU was offline.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "kselftest_harness.h"

#define DEVICES		"/sys/bus/event_source/devices"
#define TAINT_WARN	0x200
#define INTERVAL_MS	2000

/* Two exclusive events never run at the same time, however many counters there are. */
static int perf_open(__u32 type, int cpu)
{
	struct perf_event_attr attr = {
		.type		= type,
		.size		= sizeof(attr),
		.read_format	= PERF_FORMAT_TOTAL_TIME_RUNNING,
		.exclusive	= 1,
	};

	return syscall(__NR_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static __u64 time_running(int fd)
{
	__u64 values[2];

	return read(fd, values, sizeof(values)) == sizeof(values) ? values[1] : 0;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static long get_number(const char *path)
{
	FILE *file = fopen(path, "re");
	long value = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%ld", &value) != 1)
		value = -1;
	fclose(file);
	return value;
}

static bool put_number(const char *path, long value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	char text[16];
	int len;
	bool ok;

	if (fd < 0)
		return false;
	len = snprintf(text, sizeof(text), "%ld", value);
	ok = write(fd, text, len) == len;
	close(fd);
	return ok;
}

FIXTURE(rotation_after_hotplug)
{
	int cpu;
	__u32 type;
	char online[64];
	char interval[512];
	long old_interval;
};

/* Find a PMU on which only one of the events fits; software PMUs fit all. */
static bool find_pmu(struct _test_data_rotation_after_hotplug *self)
{
	DIR *dir = opendir(DEVICES);
	struct dirent *entry;
	bool found = false;
	char path[512];
	int fds[2];

	while (dir && !found && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), DEVICES "/%s/type", entry->d_name);
		self->type = get_number(path);
		snprintf(self->interval, sizeof(self->interval),
			 DEVICES "/%s/perf_event_mux_interval_ms", entry->d_name);
		self->old_interval = get_number(self->interval);
		if (entry->d_name[0] == '.' || self->old_interval < 0 ||
		    !put_number(self->interval, INTERVAL_MS))
			continue;

		fds[0] = perf_open(self->type, self->cpu);
		fds[1] = perf_open(self->type, self->cpu);
		if (fds[0] >= 0 && fds[1] >= 0)
			found = !time_running(fds[1]);
		close(fds[0]);
		close(fds[1]);
		if (!found)
			put_number(self->interval, self->old_interval);
	}
	if (dir)
		closedir(dir);
	return found;
}

FIXTURE_SETUP(rotation_after_hotplug)
{
	self->old_interval = -1;
	self->cpu = sysconf(_SC_NPROCESSORS_ONLN) - 1;
	if (geteuid() || self->cpu < 1)
		SKIP(return, "needs root and a second CPU");
	snprintf(self->online, sizeof(self->online), "/sys/devices/system/cpu/cpu%d/online",
		 self->cpu);
	if (get_number(self->online) != 1)
		SKIP(return, "CPU %d cannot go offline", self->cpu);
	if (get_number("/proc/sys/kernel/tainted") & TAINT_WARN)
		SKIP(return, "the kernel has warned before: a new warning is not noticed");
	if (!find_pmu(self)) {
		self->old_interval = -1;
		SKIP(return, "no PMU of CPU %d whose events take turns", self->cpu);
	}
}

FIXTURE_TEARDOWN(rotation_after_hotplug)
{
	if (self->old_interval < 0)
		return;
	put_number(self->interval, self->old_interval);
	/* However the test ended */
	put_number(self->online, 1);
}

/* Events that are opened when their CPU is back take turns there. */
TEST_F_TIMEOUT(rotation_after_hotplug, back, 60)
{
	double start, end;
	int fds[2], i;

	/* The timer is started, the CPU goes offline and is back before it expires. */
	for (i = 0; i < 2; i++) {
		fds[i] = perf_open(self->type, self->cpu);
		ASSERT_LE(0, fds[i]);
	}
	start = now();
	ASSERT_TRUE(put_number(self->online, 0));
	ASSERT_TRUE(put_number(self->online, 1));
	for (i = 0; i < 2; i++) {
		close(fds[i]);
		fds[i] = perf_open(self->type, self->cpu);
		ASSERT_LE(0, fds[i]);
	}
	if (now() - start > INTERVAL_MS / 1e3)
		SKIP(return, "the CPU was offline for too long: %f s", now() - start);

	end = now() + 5 * INTERVAL_MS / 1e3;
	while (now() < end && !(time_running(fds[0]) && time_running(fds[1])))
		usleep(10000);
	for (i = 0; i < 2; i++) {
		EXPECT_LT(0, time_running(fds[i])) {
			TH_LOG("Event %d never had its turn", i);
		}
		close(fds[i]);
	}
	EXPECT_EQ(0, get_number("/proc/sys/kernel/tainted") & TAINT_WARN) {
		TH_LOG("The kernel warned");
	}
}

TEST_HARNESS_MAIN
