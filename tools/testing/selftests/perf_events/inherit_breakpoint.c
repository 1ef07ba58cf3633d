// SPDX-License-Identifier: GPL-2.0-only
/*
 * A task that inherited breakpoints can have as many as its CPU has slots, and
 * no more, also after the task that it inherited them from is gone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>

#include "kselftest_harness.h"

#define ROUNDS	10
#define SLOTS	64	/* more than any CPU has */

struct result {
	int opened;	/* number of breakpoints, one per slot, or an error */
	int more;	/* error of one more */
	int again;	/* error of one more after one was closed */
};

static int watched[SLOTS];

static int open_breakpoint(int i)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_BREAKPOINT,
		.size		= sizeof(attr),
		.bp_type	= HW_BREAKPOINT_W,
		.bp_addr	= (unsigned long)&watched[i],
		.bp_len		= sizeof(watched[i]),
		.inherit	= 1,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
	};
	int fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static void die_unless(int good)
{
	if (!good)
		_exit(1);
}

/*
 * The kernel swapped the contexts of the two tasks when it switched to this one.
 * They stay swapped if the other task runs on another CPU when it ends.
 */
static void inherit_all(struct result *result, int fd, pid_t parent, cpu_set_t *elsewhere,
			int ended, int results)
{
	char byte;

	die_unless(!sched_setaffinity(parent, sizeof(*elsewhere), elsewhere));
	die_unless(!kill(parent, SIGKILL));
	die_unless(!read(ended, &byte, 1));

	result->more = open_breakpoint(result->opened);
	close(fd);
	result->again = open_breakpoint(0);
	die_unless(write(results, result, sizeof(*result)) == sizeof(*result));
}

static void open_all(cpu_set_t elsewhere, int ended, int results)
{
	struct result result = {};
	int fd, fds[SLOTS], cpu = sched_getcpu();
	pid_t pid = getpid();
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET(cpu, &here);
	CPU_CLR(cpu, &elsewhere);
	die_unless(!sched_setaffinity(0, sizeof(here), &here));

	while (result.opened < SLOTS) {
		fd = open_breakpoint(result.opened);
		if (fd < 0)
			break;
		fds[result.opened++] = fd;
	}
	if (!result.opened) {
		result.opened = fd;
		die_unless(write(results, &result, sizeof(result)) == sizeof(result));
		return;
	}
	switch (fork()) {
	case -1:
		_exit(1);
	case 0:
		inherit_all(&result, fds[0], pid, &elsewhere, ended, results);
		return;
	default:
		pause();
	}
}

FIXTURE(inherit_breakpoint)
{
	cpu_set_t cpus;
	int ended[2];
	int results[2];
};

FIXTURE_SETUP(inherit_breakpoint)
{
	ASSERT_EQ(0, sched_getaffinity(0, sizeof(self->cpus), &self->cpus));
	if (CPU_COUNT(&self->cpus) < 2)
		SKIP(return, "needs two CPUs");
}

FIXTURE_TEARDOWN(inherit_breakpoint)
{
}

/* One more breakpoint than there are slots is an error. */
TEST_F(inherit_breakpoint, slots)
{
	struct result result;
	pid_t pid;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(0, pipe(self->ended));
		ASSERT_EQ(0, pipe(self->results));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			close(self->ended[1]);
			close(self->results[0]);
			open_all(self->cpus, self->ended[0], self->results[1]);
			_exit(0);
		}
		close(self->ended[0]);
		close(self->results[1]);

		ASSERT_EQ(pid, waitpid(pid, NULL, 0));
		close(self->ended[1]);
		ASSERT_EQ(sizeof(result), read(self->results[0], &result, sizeof(result)));
		close(self->results[0]);
		if (result.opened < 0)
			SKIP(return, "no breakpoint: %s", strerror(-result.opened));
		ASSERT_EQ(-ENOSPC, result.more) {
			TH_LOG("A task has more than %d breakpoints in round %d", result.opened, i);
		}
		ASSERT_LE(0, result.again);
	}
}

TEST_HARNESS_MAIN
