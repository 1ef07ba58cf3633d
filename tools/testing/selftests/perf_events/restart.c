// SPDX-License-Identifier: GPL-2.0-only
/*
 * An event that the kernel has stopped counts again when it is added to its PMU.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>

#include "kselftest_harness.h"

#define TRACEPOINT	"/events/syscalls/sys_enter_getppid/id"
#define SAMPLE_RATE	"/proc/sys/kernel/perf_event_max_sample_rate"
#define MAX_PERCENT	"/proc/sys/kernel/perf_cpu_time_max_percent"
#define ROUNDS		3
#define TRIES		1000

#define NSEC_PER_USEC	1000ULL
#define NSEC_PER_SEC	1000000000ULL

static int watched;
static char *page;

static void write_watched(void)
{
	__atomic_fetch_add(&watched, 1, __ATOMIC_RELAXED);
}

static void call_getppid(void)
{
	syscall(__NR_getppid);
}

static void fault(void)
{
	madvise(page, sysconf(_SC_PAGESIZE), MADV_DONTNEED);
	__atomic_store_n(page, 1, __ATOMIC_RELAXED);
}

static long tracepoint_id(void)
{
	static const char * const path[] = {
		"/sys/kernel/tracing" TRACEPOINT, "/sys/kernel/debug/tracing" TRACEPOINT,
	};
	FILE *file = NULL;
	long id = -1;
	int i;

	for (i = 0; i < 2 && !file; i++)
		file = fopen(path[i], "re");
	if (!file)
		return -1;
	if (fscanf(file, "%ld", &id) != 1)
		id = -1;
	fclose(file);
	return id;
}

FIXTURE(restart)
{
	int fd;
};

FIXTURE_VARIANT(restart)
{
	__u32 type;
	void (*overflow)(void);
};

FIXTURE_VARIANT_ADD(restart, software)
{
	.type = PERF_TYPE_SOFTWARE,
	.overflow = fault,
};

FIXTURE_VARIANT_ADD(restart, tracepoint)
{
	.type = PERF_TYPE_TRACEPOINT,
	.overflow = call_getppid,
};

FIXTURE_VARIANT_ADD(restart, breakpoint)
{
	.type = PERF_TYPE_BREAKPOINT,
	.overflow = write_watched,
};

FIXTURE_SETUP(restart)
{
	struct perf_event_attr attr = {
		.type		= variant->type,
		.size		= sizeof(attr),
		.sample_period	= 1,
		.disabled	= 1,
		.exclude_hv	= 1,
	};

	self->fd = -1;
	page = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, page);

	switch (variant->type) {
	case PERF_TYPE_SOFTWARE:
		attr.config = PERF_COUNT_SW_PAGE_FAULTS;
		attr.exclude_kernel = 1;
		break;
	case PERF_TYPE_TRACEPOINT:
		attr.config = tracepoint_id();
		if (attr.config == (__u64)-1)
			SKIP(return, "no tracepoint " TRACEPOINT ", or no right to see it");
		break;
	case PERF_TYPE_BREAKPOINT:
		attr.bp_type = HW_BREAKPOINT_W;
		attr.bp_addr = (unsigned long)&watched;
		attr.bp_len = sizeof(watched);
		attr.exclude_kernel = 1;
		break;
	}

	self->fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (self->fd < 0)
		SKIP(return, "no such event: %s", strerror(errno));
}

FIXTURE_TEARDOWN(restart)
{
	if (self->fd >= 0)
		close(self->fd);
	munmap(page, sysconf(_SC_PAGESIZE));
}

/* An event counts again after each PERF_EVENT_IOC_REFRESH. */
TEST_F(restart, refresh)
{
	__u64 before = 0, count;
	int round, i;

	for (round = 0; round < ROUNDS; round++) {
		ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_REFRESH, 1));
		count = before;
		for (i = 0; i < TRIES && count == before; i++) {
			variant->overflow();
			ASSERT_EQ(sizeof(count), read(self->fd, &count, sizeof(count)));
		}
		ASSERT_LT(before, count) {
			TH_LOG("Nothing is counted after refresh %d", round);
		}

		/* It is disabled as soon as the interrupt for that has come. */
		for (i = 0; i < TRIES; i++) {
			before = count;
			variant->overflow();
			ASSERT_EQ(sizeof(count), read(self->fd, &count, sizeof(count)));
			if (count == before)
				break;
		}
		ASSERT_EQ(before, count) {
			TH_LOG("The event is not disabled after overflow %d", round);
		}
	}
}

static long sysctl(const char *path, long value)
{
	FILE *file = fopen(path, "r+e");
	long old = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%ld", &old) != 1)
		old = -1;
	rewind(file);
	if (fprintf(file, "%ld", value) < 0)
		old = -1;
	if (fclose(file))
		old = -1;
	return old;
}

FIXTURE(throttle)
{
	long old_percent;
	long old_rate;
	int leader;
	int sibling;
};

FIXTURE_SETUP(throttle)
{
	struct perf_event_attr leader = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(leader),
		.config		= PERF_COUNT_SW_CPU_CLOCK,
		.sample_period	= NSEC_PER_SEC,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
	};
	struct perf_event_attr sibling = {
		.type		= PERF_TYPE_BREAKPOINT,
		.size		= sizeof(sibling),
		.bp_type	= HW_BREAKPOINT_W,
		.bp_addr	= (unsigned long)&watched,
		.bp_len		= sizeof(watched),
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
	};

	self->leader = -1;
	self->sibling = -1;
	/* The rate can be set only with a limit in percent. */
	self->old_percent = sysctl(MAX_PERCENT, 25);
	self->old_rate = sysctl(SAMPLE_RATE, 1000);
	if (self->old_rate < 0)
		SKIP(return, "cannot set " SAMPLE_RATE ": needs root");
	self->leader = syscall(__NR_perf_event_open, &leader, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, self->leader);
	self->sibling = syscall(__NR_perf_event_open, &sibling, 0, -1, self->leader,
				PERF_FLAG_FD_CLOEXEC);
	if (self->sibling < 0)
		SKIP(return, "no breakpoint: %s", strerror(errno));
}

FIXTURE_TEARDOWN(throttle)
{
	if (self->sibling >= 0)
		close(self->sibling);
	if (self->leader >= 0)
		close(self->leader);
	if (self->old_rate >= 0)
		sysctl(SAMPLE_RATE, self->old_rate);
	if (self->old_percent >= 0)
		sysctl(MAX_PERCENT, self->old_percent);
}

/* An event counts again if its task slept while its group was throttled. */
TEST_F(throttle, sleep)
{
	__u64 before, count, period;
	struct timespec start, now;
	int round, i;

	for (round = 0; round < 50; round++) {
		/*
		 * The leader has more samples than allowed: it is throttled for
		 * most of each tick, but not just after the task wakes.
		 */
		period = 250 * NSEC_PER_USEC;
		ASSERT_EQ(0, ioctl(self->leader, PERF_EVENT_IOC_PERIOD, &period));
		clock_gettime(CLOCK_MONOTONIC, &start);
		do {
			clock_gettime(CLOCK_MONOTONIC, &now);
		} while ((now.tv_sec - start.tv_sec) * NSEC_PER_SEC + now.tv_nsec <
			 start.tv_nsec + (10000 + 700 * (round % 7)) * NSEC_PER_USEC);
		usleep(1000);

		/* No more samples: it is neither throttled nor unthrottled again. */
		period = 100 * NSEC_PER_SEC;
		ASSERT_EQ(0, ioctl(self->leader, PERF_EVENT_IOC_PERIOD, &period));
		ASSERT_EQ(sizeof(before), read(self->sibling, &before, sizeof(before)));
		for (i = 0; i < 100; i++) {
			write_watched();
			ASSERT_EQ(sizeof(count), read(self->sibling, &count, sizeof(count)));
			if (count > before)
				break;
			usleep(1000);
		}
		ASSERT_LT(before, count) {
			TH_LOG("Nothing is counted after round %d", round);
		}
	}
}

TEST_HARNESS_MAIN
