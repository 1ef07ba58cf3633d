// SPDX-License-Identifier: GPL-2.0-only
/*
 * A task that is forked while the events of its parent are being enabled has an
 * enabled event, too.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "kselftest_harness.h"

#define ROUNDS	300
#define SECONDS	20
#define CALLS	100

struct shared {
	int round;	/* the round to start, negative to end */
	int done;	/* the round in which it has forked, negative when it ended */
};

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static int open_tracepoint(const char *name, bool inherit)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_TRACEPOINT,
		.size		= sizeof(attr),
		.disabled	= 1,
		.inherit	= inherit,
	};
	unsigned long long id;
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/kernel/tracing/events/syscalls/%s/id", name);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fscanf(file, "%llu", &id) != 1)
		id = 0;
	fclose(file);
	attr.config = id;
	return syscall(__NR_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Closing a tracepoint holds for a while the mutex that inheriting one needs. */
static void hold_event_mutex(void)
{
	for (;;)
		close(open_tracepoint("sys_enter_getuid", false));
}

/*
 * Fork in a child of the task that has the event: fork() locks the child's own
 * context, not the one that PERF_EVENT_IOC_ENABLE locks.
 */
static void fork_each_round(struct shared *shared)
{
	int round, go[2], i;
	char byte;
	pid_t pid;

	for (round = 1;; round++) {
		while (__atomic_load_n(&shared->round, __ATOMIC_ACQUIRE) < round)
			;
		if (pipe(go))
			_exit(1);
		pid = fork();
		if (pid < 0)
			_exit(1);
		if (!pid) {
			/* Once the events are enabled */
			close(go[1]);
			if (read(go[0], &byte, 1) != 1)
				_exit(1);
			for (i = 0; i < CALLS; i++)
				syscall(__NR_getppid);
			_exit(0);
		}
		close(go[0]);
		__atomic_store_n(&shared->done, round, __ATOMIC_RELEASE);
		while (__atomic_load_n(&shared->round, __ATOMIC_ACQUIRE) != -round)
			;
		if (write(go[1], "", 1) != 1 || waitpid(pid, NULL, 0) != pid)
			_exit(1);
		close(go[1]);
		__atomic_store_n(&shared->done, -round, __ATOMIC_RELEASE);
	}
}

static bool wait_for(struct shared *shared, int value, pid_t pid)
{
	while (__atomic_load_n(&shared->done, __ATOMIC_ACQUIRE) != value) {
		if (waitpid(pid, NULL, WNOHANG))
			return false;
	}
	return true;
}

FIXTURE(inherit_enable)
{
	struct shared *shared;
	pid_t forking;
	pid_t holding;
	int fd;
};

FIXTURE_SETUP(inherit_enable)
{
	self->forking = -1;
	self->holding = -1;
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	self->shared = mmap(NULL, sizeof(*self->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->shared);

	self->holding = fork();
	ASSERT_LE(0, self->holding);
	if (!self->holding)
		hold_event_mutex();

	self->fd = open_tracepoint("sys_enter_getppid", true);
	if (self->fd < 0)
		SKIP(return, "no tracepoint: needs root, and tracefs");

	self->forking = fork();
	ASSERT_LE(0, self->forking);
	if (!self->forking)
		fork_each_round(self->shared);
}

FIXTURE_TEARDOWN(inherit_enable)
{
	if (self->forking > 0) {
		kill(self->forking, SIGKILL);
		waitpid(self->forking, NULL, 0);
	}
	if (self->holding > 0) {
		kill(self->holding, SIGKILL);
		waitpid(self->holding, NULL, 0);
	}
}

/* A task that is forked while its event is enabled is counted. */
TEST_F(inherit_enable, race)
{
	double start, end = now() + SECONDS;
	__u64 before = 0, count = 0;
	int round;

	for (round = 1; round <= ROUNDS && now() < end; round++) {
		ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_DISABLE, 0));
		ASSERT_EQ(sizeof(before), read(self->fd, &before, sizeof(before)));

		/* Enable it at another moment of fork() each time. */
		__atomic_store_n(&self->shared->round, round, __ATOMIC_RELEASE);
		start = now();
		while (now() < start + round % 10 * 0.0003)
			;
		ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_ENABLE, 0));
		ASSERT_TRUE(wait_for(self->shared, round, self->forking));

		__atomic_store_n(&self->shared->round, -round, __ATOMIC_RELEASE);
		ASSERT_TRUE(wait_for(self->shared, -round, self->forking));
		ASSERT_EQ(sizeof(count), read(self->fd, &count, sizeof(count)));
		ASSERT_EQ(CALLS, count - before) {
			TH_LOG("Round %d: a task that was forked is not counted", round);
		}
	}
}

TEST_HARNESS_MAIN
