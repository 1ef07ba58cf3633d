// SPDX-License-Identifier: GPL-2.0-only
/*
 * A tracepoint that is reported to another task, as sched_wakeup is to the task that wakes
 * up, counts for the events of that task only while they are enabled.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "../kselftest_harness.h"

#define WAKEUPS	100

static long tracepoint_id(void)
{
	FILE *file = fopen("/sys/kernel/tracing/events/sched/sched_wakeup/id", "re");
	long id = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%ld", &id) != 1)
		id = -1;
	fclose(file);

	return id;
}

FIXTURE(wakeup) {
	int	there[2];
	int	back[2];
	int	fd;
	pid_t	pid;
};

FIXTURE_SETUP(wakeup)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_TRACEPOINT,
		.size		= sizeof(attr),
		.config		= tracepoint_id(),
		.sample_period	= 1,
		.disabled	= 1,
	};
	int cpu = sched_getcpu();
	cpu_set_t set;
	char c;

	if (attr.config == -1ULL)
		SKIP(return, "no tracepoint sched_wakeup, or not root");

	/* The event counts on the CPU of the task that wakes the other one. */
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(set), &set));
	ASSERT_EQ(0, pipe(self->there));
	ASSERT_EQ(0, pipe(self->back));

	self->pid = fork();
	ASSERT_LE(0, self->pid);
	if (!self->pid) {
		close(self->there[1]);
		while (read(self->there[0], &c, 1) == 1 && write(self->back[1], "", 1) == 1)
			;
		_exit(0);
	}

	self->fd = syscall(__NR_perf_event_open, &attr, self->pid, cpu, -1, 0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(wakeup)
{
	close(self->there[1]);
	waitpid(self->pid, NULL, 0);
}

/* Wake the other task, which waits for the next time when this returns. */
static void wake(int *there, int *back)
{
	char c;
	int i;

	for (i = 0; i < WAKEUPS; i++) {
		if (write(there[1], "", 1) != 1 || read(back[0], &c, 1) != 1)
			abort();
	}
}

static long long count(int fd)
{
	long long value;

	return read(fd, &value, sizeof(value)) == sizeof(value) ? value : -1;
}

/* A disabled event counts nothing, before it is enabled for the first time and after. */
TEST_F(wakeup, disabled)
{
	long long before;

	wake(self->there, self->back);
	EXPECT_EQ(0, count(self->fd));

	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_ENABLE));
	wake(self->there, self->back);
	before = count(self->fd);
	EXPECT_LT(0, before);

	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_DISABLE));
	before = count(self->fd);
	wake(self->there, self->back);
	EXPECT_EQ(before, count(self->fd));
}

TEST_HARNESS_MAIN
