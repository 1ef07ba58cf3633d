// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events with inherit_stat on several CPUs write the counts of a child that exits to all
 * of their buffers, and each buffer has each child once for each event.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "kselftest_harness.h"

#define CPUS		2
#define EVENTS		64	/* all with the same buffer */
#define CHILDREN	400	/* at most, on each CPU; they fit into the buffer */
#define SECONDS		8
#define PAGES		1024

struct ring {
	struct perf_event_mmap_page	*page;
	char				*data;
	__u64				size;
};

static int event_open(int cpu)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_PAGE_FAULTS,
		.read_format	= PERF_FORMAT_ID,
		/* PERF_SAMPLE_READ keeps tasks from swapping contexts: this one keeps its event. */
		.sample_type	= PERF_SAMPLE_TID | PERF_SAMPLE_READ,
		.sample_id_all	= 1,
		.inherit	= 1,
		.inherit_stat	= 1,
	};

	return syscall(__NR_perf_event_open, &attr, 0, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static int ring_open(struct ring *ring, int cpu)
{
	size_t page = sysconf(_SC_PAGESIZE);
	int fd = event_open(cpu), i;

	ring->size = PAGES * page;
	if (fd < 0)
		return -errno;
	ring->page = mmap(NULL, ring->size + page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring->page == MAP_FAILED)
		return -errno;
	ring->data = (char *)ring->page + page;
	for (i = 1; i < EVENTS; i++) {
		if (ioctl(event_open(cpu), PERF_EVENT_IOC_SET_OUTPUT, fd))
			return -errno;
	}
	return 0;
}

static bool pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

/* Count on both CPUs, and exit on one. */
static void visit_both(int cpu)
{
	if (!pin(!cpu) || !pin(cpu))
		_exit(1);
}

/* Fork children, one after the other, for a while. */
static void have_children(int cpu, int *exits)
{
	time_t end = time(NULL) + SECONDS;
	int i, status;
	pid_t pid;

	visit_both(cpu);
	for (i = 0; i < CHILDREN && time(NULL) < end; i++) {
		pid = fork();
		if (!pid) {
			visit_both(cpu);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			_exit(1);
	}
	__atomic_fetch_add(exits, i + 1, __ATOMIC_RELAXED);
	_exit(0);
}

/* The number of READ records, or -1 if there are other records */
static int ring_count(struct ring *ring)
{
	__u64 pos = 0, head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	int n = 0;

	while (pos < head) {
		struct perf_event_header *header = (void *)(ring->data + pos);

		if (header->type != PERF_RECORD_READ || header->size < sizeof(*header))
			return -1;
		pos += header->size;
		n++;
	}
	return n;
}

TEST(each_child_once)
{
	struct ring rings[CPUS];
	pid_t pids[CPUS];
	int cpu, err, status, *exits;

	if (sysconf(_SC_NPROCESSORS_ONLN) < CPUS)
		SKIP(return, "it takes two CPUs");

	exits = mmap(NULL, sizeof(*exits), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	ASSERT_NE(MAP_FAILED, exits);
	for (cpu = 0; cpu < CPUS; cpu++) {
		err = ring_open(&rings[cpu], cpu);
		if (err == -EINVAL)
			SKIP(return, "the kernel does not count inherited events one by one");
		ASSERT_EQ(0, err);
	}
	for (cpu = 0; cpu < CPUS; cpu++) {
		pids[cpu] = fork();
		ASSERT_LE(0, pids[cpu]);
		if (!pids[cpu])
			have_children(cpu, exits);
	}
	for (cpu = 0; cpu < CPUS; cpu++) {
		ASSERT_EQ(pids[cpu], waitpid(pids[cpu], &status, 0));
		EXPECT_EQ(0, status);
	}

	if (!ring_count(&rings[0]) && !ring_count(&rings[1]))
		SKIP(return, "the kernel writes nothing when a child exits");
	for (cpu = 0; cpu < CPUS; cpu++)
		EXPECT_EQ(*exits * EVENTS, ring_count(&rings[cpu]));
}

TEST_HARNESS_MAIN
