// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: instances on CPUs that come online later.
 */
#include "persistent_cgroup.h"
#include "persistent_every_cpu.h"
#include "persistent_task.h"

#define N	100

FIXTURE(every_cpu)
{
	struct registry		registry;
};

/* The last CPU is not there yet. */
FIXTURE_SETUP(every_cpu)
{
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_online(false));
}

FIXTURE_TEARDOWN_PARENT(every_cpu)
{
	hot_teardown(_metadata, &self->registry);
}

/* A CPU that comes later gets an instance, which counts there. */
TEST_F(every_cpu, counts)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int fd = open_early(&attr, -1), id = detach_every(fd, 0), late;
	struct answer a;

	ASSERT_LT(0, id);
	ASSERT_EQ(0, query(fd, &a));
	EXPECT_NE(0, a.info.flags & PERF_PERSISTENT_EVERY_CPU);
	EXPECT_EQ(1, a.info.nr_instances);

	ASSERT_EQ(0, set_online(true));
	ASSERT_TRUE(eventually(has_instances(fd, 2, &a)));
	late = reopen_late(id);
	ASSERT_LE(0, late);
	pin(LATE_CPU);
	drive(TRACEPOINT, N);
	EXPECT_EQ(N, count(late));
	EXPECT_EQ(0, count(fd));
}

/* It is as the others are: attributes, label, buffer, mode. */
TEST_F(every_cpu, alike)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	struct answer a, b;
	struct ring r;
	int fd, late, id;

	attr.write_backward = 1;
	fd = open_early(&attr, -1);
	id = DETACH(fd, .flags = PERF_DETACH_EVERY_CPU, .label = addr("x:y"), .buffer_pages = 2);
	ASSERT_LT(0, id);
	ASSERT_EQ(0, query(fd, &a));

	ASSERT_EQ(0, set_online(true));
	ASSERT_TRUE(eventually(registry_has(id) && (late = reopen_late(id)) >= 0));
	ASSERT_EQ(0, query(late, &b));
	EXPECT_EQ(0, memcmp(&a.attr, &b.attr, sizeof(a.attr)));
	EXPECT_STREQ("x:y", b.label);
	EXPECT_EQ(2, b.info.buffer_pages);
	EXPECT_NE(0, b.info.flags & PERF_PERSISTENT_OVERWRITE);
	EXPECT_NE(a.info.self.buffer_id, b.info.self.buffer_id);

	pin(LATE_CPU);
	drive(TRACEPOINT, 3);
	ASSERT_EQ(0, ring_map(&r, late, 2, PROT_READ));
	EXPECT_EQ(3, loop_samples(&r));
}

/* One that was disabled when the CPU came is disabled there. */
TEST_F(every_cpu, disabled)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	struct answer a;
	int fd, late, id;

	attr.disabled = 1;
	fd = open_early(&attr, -1);
	id = detach_every(fd, 0);
	ASSERT_LT(0, id);

	ASSERT_EQ(0, set_online(true));
	ASSERT_TRUE(eventually((late = reopen_late(id)) >= 0));
	ASSERT_EQ(0, query(late, &a));
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, a.info.self.state);
	pin(LATE_CPU);
	drive(TRACEPOINT, N);
	EXPECT_EQ(0, count(late));
}

/* A group comes as a group. */
TEST_F(every_cpu, group)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	__u64 values[8];
	struct answer a;
	int leader, sibling, late, id;

	attr.read_format = PERF_FORMAT_GROUP;
	leader = open_early(&attr, -1);
	sibling = open_early(&attr, leader);
	id = detach_every(leader, 0);
	ASSERT_LT(0, id);
	ASSERT_EQ(id, DETACH(sibling, .id = id, .member = 1));

	ASSERT_EQ(0, set_online(true));
	ASSERT_TRUE(eventually(has_instances(leader, 4, &a)));
	late = reopen_late(id);
	ASSERT_LE(0, late);
	ASSERT_EQ(0, query(late, &a));
	EXPECT_NE(0, a.info.flags & PERF_PERSISTENT_GROUP_LEADER);

	ASSERT_TRUE(eventually(late_instance(&a, 1)->state == PERF_PERSISTENT_STATE_ENABLED ||
			       query(late, &a)));
	pin(LATE_CPU);
	drive(TRACEPOINT, N);
	ASSERT_EQ((long)(3 * sizeof(__u64)), read(late, values, sizeof(values)));
	EXPECT_EQ(2, values[0]);
	EXPECT_EQ(N, values[1]);
	EXPECT_EQ(N, values[2]);
}

/* Events that share a buffer share one there. */
TEST_F(every_cpu, shared_buffer)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	struct perf_persistent_instance *first, *second;
	int owner, other, id;
	struct answer a;
	struct ring r;

	owner = open_early(&attr, -1);
	other = open_early(&attr, -1);
	ASSERT_EQ(0, ring_map(&r, owner, 2, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, event_ioctl(other, PERF_EVENT_IOC_SET_OUTPUT, (void *)(long)owner));
	id = detach_every(owner, 0);
	ASSERT_LT(0, id);
	ASSERT_EQ(id, DETACH(other, .id = id, .member = 1));

	ASSERT_EQ(0, set_online(true));
	ASSERT_TRUE(eventually(has_instances(owner, 4, &a)));
	first = late_instance(&a, 0);
	second = late_instance(&a, 1);
	ASSERT_NE(NULL, first);
	ASSERT_NE(NULL, second);
	EXPECT_NE(0, first->buffer_id);
	EXPECT_EQ(first->buffer_id, second->buffer_id);
}

/* What is filtered is filtered there. */
TEST_F(every_cpu, filter)
{
	struct perf_event_attr attr = {
		.type	= PERF_TYPE_TRACEPOINT,
		.size	= sizeof(attr),
		.config	= read_number("/sys/kernel/tracing/events/syscalls/sys_enter_close/id"),
	};
	int fd = open_early(&attr, -1), late, id;

	ASSERT_EQ(0, event_ioctl(fd, PERF_EVENT_IOC_SET_FILTER, "fd == 12345"));
	id = detach_every(fd, 0);
	ASSERT_LT(0, id);

	ASSERT_EQ(0, set_online(true));
	ASSERT_TRUE(eventually((late = reopen_late(id)) >= 0));
	pin(LATE_CPU);
	close(12345);
	close(12346);
	EXPECT_EQ(1, count(late));
}

/* A period that was changed since is the one there. */
TEST_F(every_cpu, period)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	int fd = open_early(&attr, -1), id = detach_every(fd, 0), late;
	__u64 period = 10;
	struct ring r;

	ASSERT_LT(0, id);
	ASSERT_EQ(0, event_ioctl(fd, PERF_EVENT_IOC_PERIOD, &period));

	ASSERT_EQ(0, set_online(true));
	ASSERT_TRUE(eventually((late = reopen_late(id)) >= 0));
	ASSERT_EQ(0, ring_map(&r, late, 512 * 1024 / getpagesize(), PROT_READ));
	drive_there(TRACEPOINT, N);
	EXPECT_EQ(N, count(late));
	EXPECT_EQ(N / period, ring_samples(&r));
}

/* Its samples call tasks by the numbers that they have for the maker. */
TEST_F(every_cpu, pid_namespace)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	int late, id;
	struct ring r;
	pid_t child;
	__u32 *pid;

	ASSERT_EQ(0, unshare(CLONE_NEWPID));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		id = detach_every(open_early(&attr, -1), 0);
		EXPECT_EQ(0, set_online(true));
		EXPECT_TRUE(eventually((late = reopen_late(id)) >= 0));
		EXPECT_EQ(0, ring_map(&r, late, 512 * 1024 / getpagesize(), PROT_READ));
		drive_there(TRACEPOINT, 1);
		EXPECT_EQ(1, ring_samples(&r));
		pid = (void *)&r.data[sizeof(struct perf_event_header) + sizeof(__u64)];
		EXPECT_EQ(1, pid[0]);
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, NULL, 0));
}

/* Nothing is added to what is still being set up; when it is done, all is. */
TEST_F(every_cpu, uncommitted)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int fd = open_early(&attr, -1), id, other;
	struct answer a;

	id = detach_every(fd, PERF_DETACH_UNCOMMITTED);
	ASSERT_LT(0, id);
	/* This one is made after the first, and served after it. */
	other = open_early(&attr, -1);
	ASSERT_LT(0, detach_every(other, 0));

	ASSERT_EQ(0, set_online(true));
	ASSERT_TRUE(eventually(has_instances(other, 2, &a)));
	ASSERT_EQ(0, query(fd, &a));
	EXPECT_EQ(1, a.info.nr_instances);

	ASSERT_EQ(0, SET(fd, .flags = PERF_PERSISTENT_SET_COMMITTED));
	EXPECT_TRUE(eventually(has_instances(fd, 2, &a)));
}

/* Of the CPUs that are there when it is made, the user chooses. */
TEST_F(every_cpu, only_later_ones)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int before = open_early(&attr, -1), after;
	struct answer a;

	ASSERT_LT(0, detach_every(before, PERF_DETACH_UNCOMMITTED));
	ASSERT_EQ(0, set_online(true));
	after = open_early(&attr, -1);
	ASSERT_LT(0, detach_every(after, 0));

	ASSERT_EQ(0, SET(before, .flags = PERF_PERSISTENT_SET_COMMITTED));
	ASSERT_TRUE(eventually(has_instances(before, 2, &a)));
	/* Takes long enough for whatever else there may be to be made. */
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, query(after, &a));
	EXPECT_EQ(1, a.info.nr_instances);
}

/* A CPU that comes and goes has one instance, which goes on. */
TEST_F(every_cpu, again)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int fd = open_early(&attr, -1), id = detach_every(fd, 0), late, i;
	struct answer a;

	ASSERT_LT(0, id);
	for (i = 1; i <= 3; i++) {
		ASSERT_EQ(0, set_online(true));
		ASSERT_TRUE(eventually((late = reopen_late(id)) >= 0));
		pin(LATE_CPU);
		drive(TRACEPOINT, N);
		EXPECT_TRUE(eventually(count(late) == (__u64)i * N));
		pin(0);
		ASSERT_EQ(0, set_online(false));
		ASSERT_EQ(0, query(fd, &a));
		EXPECT_EQ(2, a.info.nr_instances);
		close(late);
	}
}

/* It counts against the user who asked for it: beyond the quota there is none. */
TEST_F(every_cpu, quota)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	struct answer a, b;
	int fd, root;

	attr.exclude_kernel = 1;
	ASSERT_EQ(0, set_sysctl(PARANOID, -1));
	ASSERT_EQ(0, set_sysctl(MAX_USER, 1));
	ASSERT_EQ(0, become(USER));
	fd = open_early(&attr, -1);
	ASSERT_LT(0, detach_every(fd, 0));
	ASSERT_EQ(0, become(0));
	root = open_early(&attr, -1);
	ASSERT_LT(0, detach_every(root, 0));

	ASSERT_EQ(0, set_online(true));
	ASSERT_TRUE(eventually(has_instances(root, 2, &b)));
	ASSERT_EQ(0, query(fd, &a));
	EXPECT_EQ(1, a.info.nr_instances);
}

/* A sibling that was one too many is added to its group when there is room for it. */
TEST_F(every_cpu, room_for_a_sibling)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int leader, sibling, id;
	struct answer a;

	attr.exclude_kernel = 1;
	ASSERT_EQ(0, set_sysctl(PARANOID, -1));
	ASSERT_EQ(0, set_sysctl(MAX_USER, 3));
	ASSERT_EQ(0, become(USER));
	leader = open_early(&attr, -1);
	sibling = open_early(&attr, leader);
	id = detach_every(leader, 0);
	ASSERT_LT(0, id);
	ASSERT_EQ(id, DETACH(sibling, .id = id, .member = 1));

	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, set_online(true));
	ASSERT_TRUE(eventually(has_instances(leader, 3, &a)));
	EXPECT_EQ(NULL, late_instance(&a, 1));

	ASSERT_EQ(0, set_sysctl(MAX_USER, 4));
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, set_online(true));
	EXPECT_TRUE(eventually(has_instances(leader, 4, &a)));
	ASSERT_EQ(0, query(reopen_late(id), &a));
	EXPECT_NE(0, a.info.flags & PERF_PERSISTENT_GROUP_LEADER);
}

/* The maker's rights count: who may not open the event any more gets none. */
TEST_F(every_cpu, rights)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	struct answer a, b;
	int fd, root;

	attr.exclude_kernel = 1;
	ASSERT_EQ(0, set_sysctl(PARANOID, -1));
	ASSERT_EQ(0, become(USER));
	fd = open_early(&attr, -1);
	ASSERT_LT(0, detach_every(fd, 0));
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, set_sysctl(PARANOID, 2));
	root = open_early(&attr, -1);
	ASSERT_LT(0, detach_every(root, 0));

	ASSERT_EQ(0, set_online(true));
	ASSERT_TRUE(eventually(has_instances(root, 2, &b)));
	ASSERT_EQ(0, query(fd, &a));
	EXPECT_EQ(1, a.info.nr_instances);
}

/* A task's event is not bound to CPUs. */
TEST_F(every_cpu, task)
{
	struct perf_event_attr attr = event_attr(CLOCK);

	EXPECT_EQ(-EOPNOTSUPP, detach_every(event_open(&attr, 0, -1, -1, 0), 0));
	EXPECT_EQ(0, registry_count("ids"));
}

FIXTURE(cgroup)
{
	struct registry		registry;
	struct target		target;
	char			root[64];
	bool			mounted;
	char			path[128];
	int			dir;
};

/* A cgroup, and a process that is not in it */
FIXTURE_SETUP(cgroup)
{
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, find_cgroups(self->root, sizeof(self->root), &self->mounted));
	self->dir = make_cgroup(self->root, "persistent_every_cpu", self->path);
	ASSERT_LE(0, self->dir);
	self->target = target_start(PROCESS);
	ASSERT_LT(0, self->target.tid);
	ASSERT_EQ(0, set_online(false));
}

FIXTURE_TEARDOWN_PARENT(cgroup)
{
	hot_teardown(_metadata, &self->registry);
	EXPECT_TRUE(eventually(!rmdir(self->path) || errno == ENOENT));
	EXPECT_EQ(0, leave_cgroups(self->root, self->mounted));
}

/* What the target does is counted, on whichever CPU. */
static bool counts_target(struct target *target, int fd)
{
	__u64 before = count(fd);
	int cpu, failed = 0;

	for (cpu = 0; cpu < 2; cpu++) {
		failed |= ORDER(target->sock, PIN, .value = cpu) != cpu;
		failed |= ORDER(target->sock, DRIVE, .event = TRACEPOINT, .value = N);
	}

	return !failed && count(fd) == before + 2 * N;
}

/* An instance in a cgroup ends without an effect on the events of tasks. */
TEST_F(cgroup, ends)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int task = event_open(&attr, self->target.tid, ANY_CPU, -1, 0);
	int fd = open_cgroup(attr, self->dir, pin(0)), id = detach_every(fd, 0), late;
	struct answer a;
	__u64 end;

	ASSERT_LE(0, task);
	ASSERT_LT(0, id);
	ASSERT_EQ(0, set_online(true));
	ASSERT_TRUE(eventually(has_instances(fd, 2, &a)));
	EXPECT_STREQ("/persistent_every_cpu", a.cgroup);
	late = reopen_late(id);
	ASSERT_EQ(0, attach(late));
	close(late);
	ASSERT_EQ(0, attach(fd));
	close(fd);

	/* What task events need is turned off a second after the last of them. */
	for (end = now_ns() + 1500000000; now_ns() < end; )
		ASSERT_TRUE(counts_target(&self->target, task));
	close(task);
	task = event_open(&attr, self->target.tid, ANY_CPU, -1, 0);
	ASSERT_LE(0, task);
	EXPECT_TRUE(counts_target(&self->target, task));
}

TEST_HARNESS_MAIN
