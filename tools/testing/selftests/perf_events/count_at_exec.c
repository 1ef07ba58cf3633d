// SPDX-License-Identifier: GPL-2.0-only
/*
 * When execve() removes an inherited event with remove_on_exec, all that it has counted is
 * in the count of its parent.
 */
#define _GNU_SOURCE
#include <stdlib.h>
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

TEST(count_at_exec)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_TASK_CLOCK,
		.read_format	= PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
		.inherit	= 1,
		.remove_on_exec	= 1,
	};
	int fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	__u64 values[3];
	int i, status;
	pid_t pid;

	ASSERT_LE(0, fd);
	for (i = 0; i < CHILDREN; i++) {
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			while (cpu_time() < SPIN_NS)
				;
			execl("/proc/self/exe", "exit", NULL);
			_exit(1);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFEXITED(status) && !WEXITSTATUS(status));
	}

	ASSERT_EQ(sizeof(values), read(fd, values, sizeof(values)));
	EXPECT_LE(CHILDREN * SPIN_NS, values[0]);
	EXPECT_LE(CHILDREN * SPIN_NS, values[1]);
	EXPECT_EQ(values[1], values[2]);
}

int main(int argc, char **argv)
{
	if (argc == 1 && !strcmp(argv[0], "exit"))
		return 0;

	return test_harness_run(argc, argv);
}
