// SPDX-License-Identifier: GPL-2.0-only
/*
 * The file of an event with remove_on_exec survives execve(), but the event
 * leaves its context. PERF_EVENT_IOC_PERIOD must not look for it there.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "kselftest_harness.h"

#define TAINT_WARN	0x200

static long get_taint(void)
{
	FILE *file = fopen("/proc/sys/kernel/tainted", "re");
	long mask = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%ld", &mask) != 1)
		mask = -1;
	fclose(file);
	return mask;
}

/* The program after execve() exits with 0 if the period can be set. */
static int set_period(int fd)
{
	__u64 period = 2000000;

	return ioctl(fd, PERF_EVENT_IOC_PERIOD, &period) ? 1 : 0;
}

/* A task can set the period of its event that execve() removed; the kernel does not warn. */
TEST(period_after_exec)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_TASK_CLOCK,
		.sample_period	= 1000000,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
		.remove_on_exec	= 1,
	};
	long before = get_taint();
	int status, fd;
	char arg[16];
	pid_t pid;

	if (before < 0 || before & TAINT_WARN)
		SKIP(return, "the kernel has warned before: a new warning is not noticed");

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0);
		if (fd < 0)
			_exit(2);
		snprintf(arg, sizeof(arg), "%d", fd);
		execl("/proc/self/exe", "set_period", arg, NULL);
		_exit(3);
	}

	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFEXITED(status));
	if (WEXITSTATUS(status) == 2)
		SKIP(return, "no event of this task");
	EXPECT_EQ(0, WEXITSTATUS(status));
	EXPECT_EQ(0, get_taint() & TAINT_WARN) {
		TH_LOG("The kernel warned");
	}
}

#define main test_main
TEST_HARNESS_MAIN
#undef main
int main(int argc, char *argv[])
{
	if (argc == 2 && !strcmp(argv[0], "set_period"))
		return set_period(atoi(argv[1]));

	return test_main(argc, argv);
}
