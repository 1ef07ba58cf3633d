// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages of a buffer that exceed perf_event_mlock_kb are charged to the process
 * that maps the buffer first, and uncharged from the same process.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "kselftest_harness.h"

#define MLOCK_KB	"/proc/sys/kernel/perf_event_mlock_kb"

/* In kB; the kernel shows a negative number as a huge one. */
static long long pinned(void)
{
	unsigned long long kb = -1;
	FILE *file = fopen("/proc/self/status", "re");
	char line[128];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "VmPin: %llu kB", &kb) == 1)
			break;
	}
	if (file)
		fclose(file);
	return (long long)kb;
}

static long mlock_kb(long value)
{
	FILE *file = fopen(MLOCK_KB, "r+e");
	long old = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%ld", &old) != 1)
		old = -1;
	rewind(file);
	fprintf(file, "%ld\n", value);
	return fclose(file) ? -1 : old;
}

FIXTURE(mmap_pinned_vm)
{
	long old_mlock_kb;
	size_t size;
	int fd;
};

FIXTURE_SETUP(mmap_pinned_vm)
{
	struct perf_event_attr attr = {
		.type	= PERF_TYPE_SOFTWARE,
		.size	= sizeof(attr),
		.config	= PERF_COUNT_SW_DUMMY,
	};

	self->fd = -1;
	self->size = 9 * sysconf(_SC_PAGESIZE);
	self->old_mlock_kb = mlock_kb(0);
	if (self->old_mlock_kb < 0)
		SKIP(return, "cannot set " MLOCK_KB ": needs root");
	self->fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(mmap_pinned_vm)
{
	if (self->fd >= 0)
		close(self->fd);
	if (self->old_mlock_kb >= 0)
		mlock_kb(self->old_mlock_kb);
}

/* A buffer mapped by two processes leaves neither of them with a charge or a credit. */
TEST_F(mmap_pinned_vm, two_processes)
{
	long long before = pinned(), charge;
	int to_child[2], to_parent[2];
	void *map, *child_map;
	int status;
	char byte;
	pid_t pid;

	map = mmap(NULL, self->size, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0);
	ASSERT_NE(MAP_FAILED, map);
	charge = pinned() - before;
	ASSERT_LT(0, charge);

	ASSERT_EQ(0, pipe(to_child));
	ASSERT_EQ(0, pipe(to_parent));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		/* Mapped and unmapped after the parent */
		close(to_child[1]);
		child_map = mmap(NULL, self->size, PROT_READ | PROT_WRITE, MAP_SHARED,
				 self->fd, 0);
		if (child_map == MAP_FAILED || write(to_parent[1], "", 1) != 1)
			_exit(1);
		if (read(to_child[0], &byte, 1) != 1 || munmap(child_map, self->size))
			_exit(2);
		if (pinned())
			fprintf(stderr, "the child has %lld kB pinned\n", pinned());
		_exit(pinned() ? 3 : 0);
	}

	close(to_parent[1]);
	ASSERT_EQ(1, read(to_parent[0], &byte, 1));
	ASSERT_EQ(0, munmap(map, self->size));
	EXPECT_EQ(before + charge, pinned());
	ASSERT_EQ(1, write(to_child[1], "", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	EXPECT_EQ(before, pinned()) {
		TH_LOG("%lld kB stay charged for a buffer that is gone", pinned() - before);
	}
}

TEST_HARNESS_MAIN
