// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: opened for a CPU that is offline.
 */
#include <signal.h>
#include <linux/hw_breakpoint.h>
#include <sys/prctl.h>

#include "persistent_cgroup.h"

#define N		100
#define PAGES		64
#define NO_SUCH_CPU	4095
#define TIME		1000000000ULL

static int open_offline(struct perf_event_attr *attr, int group_fd)
{
	return event_open(attr, -1, HOT_CPU, group_fd, PERF_FLAG_OFFLINE_CPU);
}

FIXTURE(offline)
{
	struct registry		registry;
	struct perf_event_attr	attr;
};

FIXTURE_VARIANT(offline)
{
	enum event		event;
	bool			pinned;
};

FIXTURE_VARIANT_ADD(offline, clock) { .event = CLOCK };
FIXTURE_VARIANT_ADD(offline, faults) { .event = FAULTS };
FIXTURE_VARIANT_ADD(offline, tracepoint) { .event = TRACEPOINT };
FIXTURE_VARIANT_ADD(offline, cycles) { .event = CYCLES };
FIXTURE_VARIANT_ADD(offline, cycles_pinned) { .event = CYCLES, .pinned = true };

FIXTURE_SETUP(offline)
{
	if (!has_event(variant->event))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);
	self->attr = event_attr(variant->event);
	self->attr.pinned = variant->pinned;
	pin(0);
	ASSERT_EQ(0, set_online(false));
}

FIXTURE_TEARDOWN_PARENT(offline)
{
	hot_teardown(_metadata, &self->registry);
}

static bool counts_there(enum event event, int fd)
{
	__u64 before = count(fd), n;

	drive_there(event, N);
	n = count(fd) - before;

	return event == TRACEPOINT ? n == N : n >= N && count(fd) != -1ULL;
}

/* An event detached for an offline CPU counts when the CPU comes online, whenever that is. */
TEST_F(offline, starts_with_its_cpu)
{
	int fd = open_offline(&self->attr, -1), id = detach(fd), i;

	ASSERT_LT(0, id);
	close(fd);
	fd = reopen_at(id, -1, HOT_CPU);
	ASSERT_LE(0, fd);

	for (i = 0; i < 3; i++) {
		EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, state_of(fd));
		drive(variant->event, N);
		EXPECT_TRUE(i || !count(fd));
		ASSERT_EQ(0, set_online(true));
		EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(fd));
		EXPECT_TRUE(counts_there(variant->event, fd));
		ASSERT_EQ(0, set_online(false));
	}
}

/* An ordinary event can be opened for an offline CPU as well. */
TEST_F(offline, ordinary)
{
	int fd = open_offline(&self->attr, -1);

	ASSERT_LE(0, fd);
	EXPECT_EQ(0, count(fd));
	ASSERT_EQ(0, set_online(true));
	EXPECT_TRUE(counts_there(variant->event, fd));
}

/* I can detach it after its CPU came online, too; then it survives the next hotplug. */
TEST_F(offline, detached_later)
{
	int fd = open_offline(&self->attr, -1);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, set_online(true));
	ASSERT_LT(0, detach(fd));
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, set_online(true));
	EXPECT_TRUE(counts_there(variant->event, fd));
}

/* attr.persistent works for an offline CPU. */
TEST_F(offline, persistent_at_open)
{
	int fd;

	self->attr.persistent = 1;
	fd = open_offline(&self->attr, -1);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EEXIST, detach(fd));
	ASSERT_EQ(0, set_online(true));
	EXPECT_TRUE(counts_there(variant->event, fd));
}

/* Enabling and disabling take effect when the CPU comes online. */
TEST_F(offline, enable_and_disable)
{
	int on, off;

	self->attr.disabled = 1;
	on = open_offline(&self->attr, -1);
	self->attr.disabled = 0;
	off = open_offline(&self->attr, -1);
	ASSERT_LT(0, detach(on));
	ASSERT_LT(0, detach(off));
	EXPECT_EQ(0, event_ioctl(on, PERF_EVENT_IOC_ENABLE, NULL));
	EXPECT_EQ(0, event_ioctl(off, PERF_EVENT_IOC_DISABLE, NULL));

	ASSERT_EQ(0, set_online(true));
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(off));
	EXPECT_TRUE(counts_there(variant->event, on));
	EXPECT_EQ(0, count(off));
}

/* A group comes as a group, also if its leader was opened alone as a software event. */
TEST_F(offline, group)
{
	struct perf_event_attr clock = event_attr(CLOCK);
	__u64 values[8];
	int leader, sibling, id;

	clock.read_format = PERF_FORMAT_GROUP;
	self->attr.pinned = 0;
	leader = open_offline(&clock, -1);
	ASSERT_LE(0, leader);
	sibling = open_offline(&self->attr, leader);
	ASSERT_LE(0, sibling);
	id = detach(leader);
	ASSERT_LT(0, id);
	ASSERT_EQ(id, DETACH(sibling, .id = id, .member = 1));

	ASSERT_EQ(0, set_online(true));
	EXPECT_TRUE(counts_there(variant->event, sibling));
	ASSERT_EQ((long)(3 * sizeof(__u64)), read(leader, values, sizeof(values)));
	EXPECT_EQ(2, values[0]);
	EXPECT_LT(0, values[1]);
	EXPECT_LE(N, values[2]);
}

/* A leader that I close before is gone, and its siblings go on without it. */
TEST_F(offline, closed)
{
	int leader = open_offline(&self->attr, -1), sibling;

	self->attr.pinned = 0;
	sibling = open_offline(&self->attr, leader);
	ASSERT_LE(0, sibling);
	close(leader);
	ASSERT_EQ(0, set_online(true));
	EXPECT_TRUE(counts_there(variant->event, sibling));
}

FIXTURE(late)
{
	struct registry		registry;
	struct perf_event_attr	attr;
};

FIXTURE_SETUP(late)
{
	registry_setup(_metadata, &self->registry);
	self->attr = sampling_attr(TRACEPOINT);
	pin(0);
	ASSERT_EQ(0, set_online(false));
}

FIXTURE_TEARDOWN_PARENT(late)
{
	hot_teardown(_metadata, &self->registry);
}

/* The buffer exists from the beginning, and has samples when the CPU came online. */
TEST_F(late, samples)
{
	struct perf_event_header *header;
	__u64 period;
	struct ring r;
	int fd;

	self->attr.sample_type |= PERF_SAMPLE_PERIOD;
	fd = open_offline(&self->attr, -1);
	ASSERT_LT(0, DETACH(fd, .buffer_pages = PAGES));
	ASSERT_EQ(0, ring_map(&r, fd, PAGES, PROT_READ));
	ASSERT_EQ(0, set_online(true));

	drive_there(TRACEPOINT, N);
	ASSERT_EQ(N, ring_samples(&r));
	header = (void *)r.data;
	/* The header, the identifier, the task, the time and the period */
	ASSERT_EQ(5 * sizeof(__u64), header->size);
	memcpy(&period, &r.data[4 * sizeof(__u64)], sizeof(period));
	EXPECT_EQ(1, period);
}

/* Events of the same CPU share a buffer. */
TEST_F(late, shared_buffer)
{
	int owner = open_offline(&self->attr, -1), other = open_offline(&self->attr, -1), id;
	struct answer a, b;
	struct ring r;

	id = DETACH(owner, .buffer_pages = PAGES);
	ASSERT_LT(0, id);
	ASSERT_EQ(0, event_ioctl(other, PERF_EVENT_IOC_SET_OUTPUT, (void *)(long)owner));
	ASSERT_EQ(id, DETACH(other, .id = id, .member = 1));
	ASSERT_EQ(0, query(owner, &a));
	ASSERT_EQ(0, query(other, &b));
	EXPECT_EQ(a.info.self.buffer_id, b.info.self.buffer_id);

	ASSERT_EQ(0, ring_map(&r, owner, PAGES, PROT_READ));
	ASSERT_EQ(0, set_online(true));
	drive_there(TRACEPOINT, N);
	EXPECT_EQ(2 * N, ring_samples(&r));
}

/* Side-band records start when the CPU comes online. */
TEST_F(late, side_band)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_DUMMY,
		.comm		= 1,
		.sample_id_all	= 1,
		.sample_type	= PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_IDENTIFIER,
	};
	int fd = open_offline(&attr, -1);
	struct ring r;

	ASSERT_LT(0, DETACH(fd, .buffer_pages = PAGES));
	ASSERT_EQ(0, ring_map(&r, fd, PAGES, PROT_READ));
	ASSERT_EQ(0, set_online(true));
	pin(HOT_CPU);
	prctl(PR_SET_NAME, "late");
	pin(0);
	EXPECT_LT(0, ring_records(&r, 0, ring_head(&r), PERF_RECORD_COMM));
}

/* A filter and a period that I set before the CPU is online are in force. */
TEST_F(late, filter_and_period)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	int filtered, fd = open_offline(&self->attr, -1);
	__u64 period = 10;
	struct ring r;

	attr.config = read_number("/sys/kernel/tracing/events/syscalls/sys_enter_close/id");
	filtered = open_offline(&attr, -1);
	ASSERT_LT(0, detach(filtered));
	ASSERT_EQ(0, event_ioctl(filtered, PERF_EVENT_IOC_SET_FILTER, "fd == 12345"));
	ASSERT_LT(0, DETACH(fd, .buffer_pages = PAGES));
	ASSERT_EQ(0, event_ioctl(fd, PERF_EVENT_IOC_PERIOD, &period));
	ASSERT_EQ(0, ring_map(&r, fd, PAGES, PROT_READ));

	ASSERT_EQ(0, set_online(true));
	pin(HOT_CPU);
	close(12345);
	close(12346);
	pin(0);
	EXPECT_EQ(1, count(filtered));
	drive_there(TRACEPOINT, N);
	EXPECT_EQ(N / period, ring_samples(&r));
}

/* An event for an offline CPU takes PERF_FLAG_OFFLINE_CPU, and the CPU has to exist. */
TEST_F(late, errors)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int leader = open_offline(&attr, -1), gone, other;

	ASSERT_LE(0, leader);
	EXPECT_EQ(-ENODEV, event_open(&attr, -1, HOT_CPU, -1, 0));
	EXPECT_EQ(-ENODEV, event_open(&attr, -1, HOT_CPU, leader, 0));
	EXPECT_EQ(-EINVAL, event_open(&attr, -1, 0, leader, 0));
	EXPECT_EQ(-EINVAL, event_open(&attr, -1, NO_SUCH_CPU, -1, PERF_FLAG_OFFLINE_CPU));
	EXPECT_EQ(-EINVAL, event_open(&attr, -1, HOT_CPU, -1, PERF_FLAG_OFFLINE_CPU << 1));

	/* A group is on one CPU, and siblings cannot lead. */
	other = event_open(&attr, -1, 0, -1, PERF_FLAG_OFFLINE_CPU);
	ASSERT_LE(0, other);
	EXPECT_EQ(-EINVAL, open_offline(&attr, other));
	other = open_offline(&attr, leader);
	ASSERT_LE(0, other);
	EXPECT_EQ(-EINVAL, open_offline(&attr, other));

	/* An ordinary event that lost its CPU does not get it back. */
	ASSERT_EQ(0, set_online(true));
	gone = event_open(&attr, -1, HOT_CPU, -1, 0);
	ASSERT_LE(0, gone);
	ASSERT_EQ(0, set_online(false));
	EXPECT_EQ(-ENODEV, open_offline(&attr, gone));
}

/* DETACH and siblings work at any point of hotplug. */
TEST_F(late, while_it_comes_and_goes)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	__u64 end = now_ns() + TIME;
	int leader, sibling, n = 0;
	pid_t child = fork();

	ASSERT_LE(0, child);
	while (!child) {
		set_online(true);
		set_online(false);
	}
	while (now_ns() < end) {
		leader = open_offline(&attr, -1);
		ASSERT_LE(0, leader);
		/* An ordinary event may have lost its CPU already. */
		if (detach(leader) < 0) {
			close(leader);
			continue;
		}
		sibling = open_offline(&attr, leader);
		EXPECT_LE(0, sibling);
		EXPECT_EQ(0, attach(leader));
		close(leader);
		close(sibling);
		n++;
	}
	kill(child, SIGKILL);
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	EXPECT_LT(0, n);
}

/* The flag has no effect on an event of a task, which moves between CPUs. */
TEST_F(late, task)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int fd = event_open(&attr, 0, -1, -1, PERF_FLAG_OFFLINE_CPU);
	int there = event_open(&attr, 0, HOT_CPU, -1, PERF_FLAG_OFFLINE_CPU);

	ASSERT_LE(0, fd);
	ASSERT_LE(0, there);
	ASSERT_EQ(0, set_online(true));
	drive_there(TRACEPOINT, N);
	EXPECT_EQ(N, count(fd));
	EXPECT_EQ(N, count(there));
}

/* An event for an offline CPU takes the same rights as for an online one. */
TEST_F(late, rights)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int fd;

	attr.exclude_kernel = 1;
	ASSERT_EQ(0, set_sysctl(PARANOID, 2));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, open_offline(&attr, -1));

	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, set_sysctl(PARANOID, 0));
	ASSERT_EQ(0, become(USER));
	fd = open_offline(&attr, -1);
	EXPECT_LT(0, detach(fd));
}

/* The buffer counts against my locked memory, and nothing is left if it exceeds the limit. */
TEST_F(late, memory)
{
	struct perf_event_attr attr = sampling_attr(FAULTS);
	int fd;

	attr.exclude_kernel = 1;
	ASSERT_EQ(0, set_sysctl(PARANOID, 0));
	ASSERT_EQ(0, set_sysctl(MLOCK_KB, 0));
	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK,
			       &(struct rlimit) { 2 * getpagesize(), RLIM_INFINITY }));
	ASSERT_EQ(0, become(USER));
	fd = open_offline(&attr, -1);
	EXPECT_EQ(-EPERM, DETACH(fd, .buffer_pages = 2));
	EXPECT_EQ(0, registry_count("ids"));
	EXPECT_LT(0, DETACH(fd, .buffer_pages = 1));
	EXPECT_EQ(-EPERM, DETACH(open_offline(&attr, -1), .buffer_pages = 1));
}

/* The number of siblings that a leader takes, the same whether the CPU is online or not */
static int room_for_siblings(struct perf_event_attr *attr)
{
	int leader = open_offline(attr, -1), n = 0, fd;

	while ((fd = open_offline(attr, leader)) >= 0)
		n++;

	return fd == -E2BIG ? n : fd;
}

/* A group stays small enough for read() and samples. */
TEST_F(late, size_of_groups)
{
	int here;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &(struct rlimit) { 4096, 4096 }));
	self->attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_ID | PERF_FORMAT_LOST;
	self->attr.sample_type |= PERF_SAMPLE_READ;
	here = room_for_siblings(&self->attr);
	ASSERT_LT(0, here);
	ASSERT_EQ(0, set_online(true));
	EXPECT_EQ(here, room_for_siblings(&self->attr));
}

static struct perf_event_attr breakpoint(int *watched)
{
	return (struct perf_event_attr) {
		.type		= PERF_TYPE_BREAKPOINT,
		.size		= sizeof(struct perf_event_attr),
		.bp_type	= HW_BREAKPOINT_W,
		.bp_addr	= addr(watched),
		.bp_len		= sizeof(*watched),
	};
}

/* A breakpoint slot is taken while the event is open, and free after. */
TEST_F(late, breakpoint)
{
	static int watched;
	struct perf_event_attr attr = breakpoint(&watched);
	int fd, i;

	for (i = 0; i < 6; i++) {
		fd = open_offline(&attr, -1);
		ASSERT_LE(0, fd) {
			TH_LOG("after %d", i);
		}
		ASSERT_LT(0, detach(fd));
		ASSERT_EQ(0, set_online(true));
		pin(HOT_CPU);
		watched = 1;
		pin(0);
		EXPECT_EQ(1, count(fd));
		ASSERT_EQ(0, set_online(false));
		ASSERT_EQ(0, attach(fd));
		close(fd);
	}
}

FIXTURE(late_cgroup)
{
	struct registry		registry;
	char			root[64];
	bool			mounted;
	char			path[128];
	int			dir;
};

FIXTURE_SETUP(late_cgroup)
{
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, find_cgroups(self->root, sizeof(self->root), &self->mounted));
	self->dir = make_cgroup(self->root, "persistent_offline", self->path);
	ASSERT_LE(0, self->dir);
	pin(0);
	ASSERT_EQ(0, set_online(false));
}

FIXTURE_TEARDOWN_PARENT(late_cgroup)
{
	hot_teardown(_metadata, &self->registry);
	EXPECT_TRUE(eventually(!rmdir(self->path) || errno == ENOENT));
	EXPECT_EQ(0, leave_cgroups(self->root, self->mounted));
}

/* An event of a cgroup counts the cgroup's tasks on that CPU, and nothing else. */
TEST_F(late_cgroup, counts)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int fd = event_open(&attr, self->dir, HOT_CPU, -1,
			    PERF_FLAG_PID_CGROUP | PERF_FLAG_OFFLINE_CPU);
	char procs[160];
	int status;
	pid_t child;

	ASSERT_LT(0, detach(fd));
	ASSERT_EQ(0, set_online(true));
	drive_there(TRACEPOINT, N);
	EXPECT_EQ(0, count(fd));

	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		snprintf(procs, sizeof(procs), "%s/cgroup.procs", self->path);
		status = write_number(procs, 0);
		drive_there(TRACEPOINT, N);
		_exit(status != 0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(N, count(fd));
}

TEST_HARNESS_MAIN
