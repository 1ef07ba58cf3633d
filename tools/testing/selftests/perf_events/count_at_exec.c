// SPDX-License-Identifier: GPL-2.0-only
/*
 * When execve() removes an inherited event with remove_on_exec, all that it has counted is
 * in the count of its parent.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "kselftest_harness.h"

#define CHILDREN	5
#define SPIN_NS		100000000ULL

static __u64 cpu_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void spin(void)
{
	__u64 end = cpu_time() + SPIN_NS;

	while (cpu_time() < end)
		;
}

static int open_event(int group_fd, bool remove_on_exec)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_TASK_CLOCK,
		.read_format	= PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
		.inherit	= 1,
		.remove_on_exec	= remove_on_exec,
	};

	return syscall(__NR_perf_event_open, &attr, 0, -1, group_fd, PERF_FLAG_FD_CLOEXEC);
}

/* Have a child run, and then execute this program with that name. */
static bool run(const char *name)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		spin();
		execl("/proc/self/exe", name, NULL);
		_exit(1);
	}

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
}

TEST(count_at_exec)
{
	int fd = open_event(-1, true), i;
	__u64 values[3];

	ASSERT_LE(0, fd);
	for (i = 0; i < CHILDREN; i++)
		ASSERT_TRUE(run("exit"));

	ASSERT_EQ(sizeof(values), read(fd, values, sizeof(values)));
	EXPECT_LE(CHILDREN * SPIN_NS, values[0]);
	EXPECT_LE(CHILDREN * SPIN_NS, values[1]);
	EXPECT_EQ(values[1], values[2]);
}

/* A sibling that stays goes on at once. */
TEST(sibling_stays)
{
	int leader = open_event(-1, true), fd = open_event(leader, false);
	__u64 values[3];

	ASSERT_LE(0, fd);
	ASSERT_TRUE(run("spin"));

	ASSERT_EQ(sizeof(values), read(fd, values, sizeof(values)));
	EXPECT_LE(2 * SPIN_NS, values[0]);
	EXPECT_EQ(values[1], values[2]);
}

int main(int argc, char **argv)
{
	if (argc == 1 && !strcmp(argv[0], "exit"))
		return 0;
	if (argc == 1 && !strcmp(argv[0], "spin")) {
		spin();
		return 0;
	}

	return test_harness_run(argc, argv);
}
