// SPDX-License-Identifier: GPL-2.0-only
/*
 * A buffer is charged once, to the user who maps it first, and uncharged with
 * its last mapping.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "kselftest_harness.h"

#define PARANOID	"/proc/sys/kernel/perf_event_paranoid"
#define MLOCK_KB	"/proc/sys/kernel/perf_event_mlock_kb"
#define UID		54321	/* no other process has it, so its charge starts at 0 */
#define PAGES		9

static long sysctl(const char *path, long value)
{
	FILE *file = fopen(path, "r+e");
	long old = -1000;

	if (!file)
		return -1000;
	if (fscanf(file, "%ld", &old) != 1)
		old = -1000;
	rewind(file);
	fprintf(file, "%ld\n", value);
	return fclose(file) ? -1000 : old;
}

/* Map and unmap an event twice, more often than the limit allows if charges leak. */
static int map_twice(void)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_DUMMY,
		.exclude_kernel	= 1,
		.exclude_hv	= 1,
	};
	const struct rlimit none = {};
	size_t size = PAGES * sysconf(_SC_PAGESIZE);
	int rounds = 2 * sysconf(_SC_NPROCESSORS_ONLN) + 2;
	void *first, *second;
	int fd, i;

	if (setrlimit(RLIMIT_MEMLOCK, &none) || setgid(UID) || setuid(UID))
		return 1;
	fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return 2;

	for (i = 0; i < rounds; i++) {
		first = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (first == MAP_FAILED) {
			fprintf(stderr, "round %d of %d: %s\n", i, rounds, strerror(errno));
			return 3;
		}
		second = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (second == MAP_FAILED)
			return 4;
		munmap(second, size);
		munmap(first, size);
	}
	return 0;
}

FIXTURE(mmap_twice)
{
	long old_paranoid;
	long old_mlock_kb;
};

FIXTURE_SETUP(mmap_twice)
{
	self->old_mlock_kb = -1000;
	self->old_paranoid = sysctl(PARANOID, 2);
	if (self->old_paranoid == -1000)
		SKIP(return, "cannot set " PARANOID ": needs root");
	/* One buffer for each CPU */
	self->old_mlock_kb = sysctl(MLOCK_KB, PAGES * sysconf(_SC_PAGESIZE) / 1024);
	ASSERT_NE(-1000, self->old_mlock_kb);
}

FIXTURE_TEARDOWN(mmap_twice)
{
	if (self->old_mlock_kb != -1000)
		sysctl(MLOCK_KB, self->old_mlock_kb);
	if (self->old_paranoid != -1000)
		sysctl(PARANOID, self->old_paranoid);
}

/* A user can map an event twice as often as needed. */
TEST_F(mmap_twice, uncharged)
{
	int status;
	pid_t pid;

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(map_twice());
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
}

TEST_HARNESS_MAIN
