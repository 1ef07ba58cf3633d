// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples that a group has lost stay counted when a child inherits the group.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "kselftest_harness.h"

#define FAULTS	1000	/* more than fit into a page */

static int event_open(int group_fd)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period	= 1,
		.sample_type	= PERF_SAMPLE_IP | PERF_SAMPLE_TIME,
		.read_format	= PERF_FORMAT_GROUP | PERF_FORMAT_LOST,
		.exclude_kernel	= 1,
		.inherit	= 1,
	};

	return syscall(__NR_perf_event_open, &attr, 0, 0, group_fd, PERF_FLAG_FD_CLOEXEC);
}

static void fault(size_t n)
{
	size_t page = sysconf(_SC_PAGESIZE), i;
	char *area = mmap(NULL, n * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	for (i = 0; i < n; i++)
		area[i * page] = 1;
	munmap(area, n * page);
}

struct group {
	__u64	nr;
	struct {
		__u64	count;
		__u64	lost;
	}	event[2];
};

TEST(child)
{
	size_t page = sysconf(_SC_PAGESIZE);
	struct group before, group;
	cpu_set_t set;
	int fd[2], i;
	pid_t child;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(set), &set));
	for (i = 0; i < 2; i++) {
		fd[i] = event_open(i ? fd[0] : -1);
		ASSERT_LE(0, fd[i]);
		ASSERT_NE(MAP_FAILED, mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED,
					   fd[i], 0));
	}
	fault(FAULTS);
	ASSERT_EQ(sizeof(before), read(fd[0], &before, sizeof(before)));

	child = fork();
	ASSERT_LE(0, child);
	while (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
	}
	ASSERT_EQ(sizeof(group), read(fd[0], &group, sizeof(group)));
	ASSERT_EQ(2, group.nr);
	for (i = 0; i < 2; i++) {
		EXPECT_LT(0, before.event[i].lost);
		EXPECT_LE(before.event[i].lost, group.event[i].lost);
		EXPECT_LE(before.event[i].count, group.event[i].count);
	}
	kill(child, SIGKILL);
	EXPECT_EQ(child, waitpid(child, NULL, 0));
}

TEST_HARNESS_MAIN
