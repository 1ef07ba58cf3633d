// SPDX-License-Identifier: GPL-2.0-only
/*
 * execve() removes events with remove_on_exec from the context of the task. The list of
 * events of their owner, another task, is not its business: the owner may be adding the
 * event to it just then, or wait for the context while it walks the list.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "kselftest_harness.h"

#define EVENTS	50
#define ROUNDS	10
#define EXECS	60

/* Seconds: a debug kernel in emulation needs many, and a deadlock lasts for ever. */
#define PATIENCE	130

#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	150

static int open_event(pid_t pid)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_DUMMY,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
		.remove_on_exec	= 1,
	};

	return syscall(__NR_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Execute this program, which does it again, TIMES times in all; does not return. */
static void execute(int times)
{
	char arg[16];

	snprintf(arg, sizeof(arg), "%d", times);
	execl("/proc/self/exe", "execute", arg, NULL);
	_exit(1);
}

/* Wait for a child; false if it does not end in time: then it cannot be killed either. */
static bool ends(pid_t pid)
{
	time_t end = time(NULL) + PATIENCE;
	int status;

	while (time(NULL) < end) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) && !WEXITSTATUS(status);
		usleep(1000);
	}

	return false;
}

/* Start a task that executes this program TIMES times once it can read from the pipe. */
static pid_t start_target(int times, int *go)
{
	int fds[2];
	pid_t pid;
	char c;

	if (pipe(fds))
		return -1;
	pid = fork();
	if (!pid) {
		close(fds[1]);
		if (read(fds[0], &c, 1) != 1)
			_exit(1);
		execute(times);
	}
	close(fds[0]);
	*go = fds[1];

	return pid;
}

/* A task can disable its events while execve() of their target removes them. */
TEST(disable)
{
	int round, i, go;
	pid_t pid, owner;

	for (round = 0; round < ROUNDS; round++) {
		pid = start_target(1, &go);
		ASSERT_LT(0, pid);
		owner = fork();
		ASSERT_LE(0, owner);
		if (!owner) {
			for (i = 0; i < EVENTS; i++) {
				if (open_event(pid) < 0)
					_exit(1);
			}
			if (write(go, "", 1) != 1)
				_exit(1);
			for (i = 0; i < ROUNDS; i++)
				prctl(PR_TASK_PERF_EVENTS_DISABLE);
			_exit(0);
		}
		close(go);
		ASSERT_TRUE(ends(owner));
		ASSERT_TRUE(ends(pid));
	}
}

/* A task can open an event of another one while that is in execve(). */
TEST(open)
{
	struct sched_param param = {};
	cpu_set_t cpu;
	pid_t pid, owner;
	int go, fd;

	/* The owner of the new event is preempted by its target, which continues in execve(). */
	CPU_ZERO(&cpu);
	CPU_SET(sched_getcpu(), &cpu);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(cpu), &cpu));

	pid = start_target(EXECS, &go);
	ASSERT_LT(0, pid);
	owner = fork();
	ASSERT_LE(0, owner);
	if (!owner) {
		if (sched_setscheduler(0, SCHED_IDLE, &param) || write(go, "", 1) != 1)
			_exit(1);
		while ((fd = open_event(pid)) >= 0) {
			prctl(PR_TASK_PERF_EVENTS_DISABLE);
			close(fd);
		}
		_exit(errno != ESRCH);
	}
	close(go);
	ASSERT_TRUE(ends(pid));
	ASSERT_TRUE(ends(owner));
}

int main(int argc, char **argv)
{
	int times;

	if (argc == 2 && !strcmp(argv[0], "execute")) {
		times = atoi(argv[1]);
		/* Come in at different moments of what the owner does. */
		usleep(times * 7 % 500);
		if (times > 1)
			execute(times - 1);
		return 0;
	}

	return test_harness_run(argc, argv);
}
