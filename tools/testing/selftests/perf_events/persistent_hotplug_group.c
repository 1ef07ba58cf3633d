// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: groups, tasks and cgroups whose CPU goes offline and
 * comes back.
 */
#include <sys/mount.h>
#include <sys/stat.h>

#include "persistent.h"

#define N	100
#define EVENTS	3
#define CGROUPS	"/sys/fs/cgroup"
#define CGROUP	CGROUPS "/persistent"
#define SOON	50000000ULL

/* Bits for expect_grown(), one for each event of the group */
enum { LEADER = 1, SECOND = 2, THIRD = 4 };
#define ALL	(LEADER | SECOND | THIRD)

FIXTURE(group)
{
	struct registry		registry;
	int			fds[EVENTS];
	int			id;
};

FIXTURE_VARIANT(group)
{
	enum event		leader;
};

FIXTURE_VARIANT_ADD(group, clock) { .leader = CLOCK };
FIXTURE_VARIANT_ADD(group, cycles) { .leader = CYCLES };

/*
 * A leader and its siblings, the members of a session. Siblings that join a
 * leader that already counts do not all start with it, so it is enabled last.
 */
FIXTURE_SETUP(group)
{
	struct perf_event_attr attr;
	int i;

	if (!has_event(variant->leader))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);
	pin(0);
	for (i = 0; i < EVENTS; i++) {
		attr = event_attr(i ? i : variant->leader);
		attr.disabled = !i;
		attr.read_format = i ? 0 : PERF_FORMAT_GROUP;
		self->fds[i] = event_open(&attr, -1, HOT_CPU, i ? self->fds[0] : -1, 0);
		self->id = DETACH(self->fds[i], .id = self->id, .member = i);
		ASSERT_LT(0, self->id);
	}
	ASSERT_EQ(0, event_ioctl(self->fds[0], PERF_EVENT_IOC_ENABLE, NULL));
}

FIXTURE_TEARDOWN_PARENT(group)
{
	hot_teardown(_metadata, &self->registry);
}

/* The leader is read with its group, the others alone; 0 for closed ones */
static void read_all(const int *fds, __u64 *counts)
{
	__u64 values[8];
	int i;

	for (i = 0; i < EVENTS; i++) {
		memset(values, 0, sizeof(values));
		counts[i] = read(fds[i], values, sizeof(values)) < 0 ? 0 : values[!i];
	}
}

/* Expect these events of the group, and no others, to count on their CPU. */
static void expect_grown(struct __test_metadata *_metadata, const int *fds, unsigned int which)
{
	__u64 before[EVENTS], after[EVENTS];
	int i;

	read_all(fds, before);
	for (i = 0; i < EVENTS; i++)
		drive_there(i, N);
	read_all(fds, after);
	for (i = 0; i < EVENTS; i++) {
		EXPECT_EQ(!!(which & 1 << i), after[i] >= before[i] + N) {
			TH_LOG("event %d: %llu, then %llu", i, before[i], after[i]);
		}
		if (!(which & 1 << i))
			EXPECT_EQ(before[i], after[i]);
	}
}

/* The number of events that I read at once through the leader */
static __u64 group_size(int fd)
{
	return count(fd);
}

/* The whole group is read at once and counts together again after each hotplug. */
TEST_F(group, goes_on)
{
	__u64 before[EVENTS + 1], after[EVENTS + 1];
	struct answer a;
	int i, round;

	for (round = 0; round < 3; round++) {
		expect_grown(_metadata, self->fds, ALL);
		ASSERT_EQ(0, set_online(false));
		ASSERT_EQ(sizeof(before), read(self->fds[0], before, sizeof(before)));
		ASSERT_EQ(0, query(self->fds[0], &a));
		EXPECT_NE(0, a.info.flags & PERF_PERSISTENT_GROUP_LEADER);
		ASSERT_EQ(0, query(self->fds[1], &a));
		EXPECT_NE(0, a.info.flags & PERF_PERSISTENT_GROUP_SIBLING);
		EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, a.info.self.state);

		ASSERT_EQ(0, set_online(true));
		for (i = 0; i < EVENTS; i++)
			drive_there(i, N);
		ASSERT_EQ(sizeof(after), read(self->fds[0], after, sizeof(after)));
		EXPECT_EQ(EVENTS, after[0]);
		for (i = 1; i <= EVENTS; i++)
			EXPECT_LE(before[i] + N, after[i]);
		EXPECT_EQ(before[EVENTS] + N, after[EVENTS]);
	}
}

/* A leader disabled while its CPU is offline keeps its siblings from counting. */
TEST_F(group, leader_disabled_while_offline)
{
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, event_ioctl(self->fds[0], PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, set_online(true));
	expect_grown(_metadata, self->fds, 0);
	ASSERT_EQ(0, event_ioctl(self->fds[0], PERF_EVENT_IOC_ENABLE, NULL));
	expect_grown(_metadata, self->fds, ALL);
}

/* The whole group can be disabled and enabled while its CPU is offline. */
TEST_F(group, all_while_offline)
{
	void *group = (void *)(long)PERF_IOC_FLAG_GROUP;

	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, event_ioctl(self->fds[0], PERF_EVENT_IOC_DISABLE, group));
	ASSERT_EQ(0, set_online(true));
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(self->fds[2]));
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, event_ioctl(self->fds[0], PERF_EVENT_IOC_ENABLE, group));
	ASSERT_EQ(0, set_online(true));
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->fds[2]));
	expect_grown(_metadata, self->fds, ALL);
}

/* A sibling disabled while its CPU is offline does not affect the others. */
TEST_F(group, sibling_disabled_while_offline)
{
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, event_ioctl(self->fds[1], PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, set_online(true));
	expect_grown(_metadata, self->fds, LEADER | THIRD);
}

/* A group that expires while its CPU is offline ends for good. */
TEST_F(group, expires_while_offline)
{
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, SET(self->fds[1], .flags = PERF_PERSISTENT_SET_TTL, .ttl = SOON));
	ASSERT_TRUE(eventually(!registry_has(self->id)));
	EXPECT_TRUE(eventually(state_of(self->fds[2]) == PERF_PERSISTENT_STATE_EXPIRED));
	ASSERT_EQ(0, set_online(true));
	expect_grown(_metadata, self->fds, 0);

	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, set_online(true));
	expect_grown(_metadata, self->fds, 0);
}

/* Siblings attached before their leader go on without it when it is closed. */
TEST_F(group, leader_closed_while_offline)
{
	int i;

	ASSERT_EQ(0, set_online(false));
	EXPECT_EQ(-EBUSY, attach(self->fds[0]));
	for (i = EVENTS - 1; i >= 0; i--)
		ASSERT_EQ(0, attach(self->fds[i]));
	close(self->fds[0]);
	ASSERT_EQ(0, set_online(true));
	expect_grown(_metadata, self->fds, SECOND | THIRD);
}

/* A sibling attached while its CPU is offline goes on with its group; closed, it leaves it. */
TEST_F(group, sibling_attached_while_offline)
{
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, attach(self->fds[1]));
	ASSERT_EQ(0, attach(self->fds[2]));
	close(self->fds[1]);
	ASSERT_EQ(0, set_online(true));
	expect_grown(_metadata, self->fds, LEADER | THIRD);
	EXPECT_EQ(2, group_size(self->fds[0]));
	close(self->fds[2]);
	EXPECT_EQ(1, group_size(self->fds[0]));

	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, set_online(true));
	expect_grown(_metadata, self->fds, LEADER);
}

/* An ordinary event ends with its CPU, as ever, in a group or not. */
TEST_F(group, ordinary)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int alone = event_open(&attr, -1, HOT_CPU, -1, 0);
	int sibling = event_open(&attr, -1, HOT_CPU, self->fds[0], 0);
	__u64 before, before_sibling;

	ASSERT_EQ(0, event_ioctl(self->fds[0], PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, event_ioctl(self->fds[0], PERF_EVENT_IOC_ENABLE, NULL));
	drive_there(TRACEPOINT, N);
	before = count(alone);
	before_sibling = count(sibling);
	EXPECT_EQ(N, before);
	EXPECT_EQ(N, before_sibling);
	EXPECT_EQ(EVENTS + 1, group_size(self->fds[0]));
	ASSERT_EQ(0, set_online(false));
	EXPECT_EQ(EVENTS, group_size(self->fds[0]));
	ASSERT_EQ(0, set_online(true));

	expect_grown(_metadata, self->fds, ALL);
	EXPECT_EQ(before, count(alone));
	EXPECT_EQ(before_sibling, count(sibling));
}

/* A group whose CPU was offline takes further siblings after it is back, not before. */
TEST_F(group, opened_afterwards)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int sibling;

	ASSERT_EQ(0, set_online(false));
	EXPECT_EQ(-ENODEV, event_open(&attr, -1, HOT_CPU, self->fds[0], 0));
	ASSERT_EQ(0, set_online(true));
	sibling = event_open(&attr, -1, HOT_CPU, self->fds[0], 0);
	ASSERT_EQ(self->id, DETACH(sibling, .id = self->id, .member = EVENTS));
	ASSERT_EQ(0, event_ioctl(self->fds[0], PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, event_ioctl(self->fds[0], PERF_EVENT_IOC_ENABLE, NULL));
	drive_there(TRACEPOINT, N);
	EXPECT_EQ(N, count(sibling));
	EXPECT_EQ(EVENTS + 1, group_size(self->fds[0]));
}

/* An ordinary event whose CPU was offline does not come back, nor take siblings. */
TEST_F(group, ordinary_opened_afterwards)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int leader = event_open(&attr, -1, HOT_CPU, -1, 0);

	ASSERT_LE(0, leader);
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, set_online(true));
	EXPECT_EQ(-ENODEV, event_open(&attr, -1, HOT_CPU, leader, 0));
}

FIXTURE(target)
{
	struct registry		registry;
	int			fd;
	int			id;
};

FIXTURE_VARIANT(target)
{
	bool			cgroup;
	bool			inherit;
};

FIXTURE_VARIANT_ADD(target, task) { .cgroup = false };
FIXTURE_VARIANT_ADD(target, inherited) { .inherit = true };
FIXTURE_VARIANT_ADD(target, cgroup) { .cgroup = true };

static int open_cgroup(const struct perf_event_attr *attr)
{
	int cgroup, fd;

	mkdir(CGROUP, 0755);
	cgroup = open(CGROUP, O_RDONLY | O_CLOEXEC);
	fd = event_open(attr, cgroup, HOT_CPU, -1, PERF_FLAG_PID_CGROUP);
	close(cgroup);
	if (fd < 0)
		rmdir(CGROUP);

	return fd;
}

/*
 * If perf_event is its only controller, cgroup2 offers it to new cgroups only
 * after it has returned from a hierarchy of its own.
 */
static int open_first_cgroup(const struct perf_event_attr *attr)
{
	int fd = open_cgroup(attr);

	if (fd != -ENOENT)
		return fd;
	if (mount("none", CGROUPS, "cgroup", 0, "perf_event") || umount(CGROUPS))
		return -errno;

	return eventually((fd = open_cgroup(attr)) >= 0) ? fd : -ENOENT;
}

/* This process, or a cgroup that it is in, on the CPU */
FIXTURE_SETUP(target)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);

	registry_setup(_metadata, &self->registry);
	pin(0);
	attr.inherit = variant->inherit;
	self->fd = variant->cgroup ? open_first_cgroup(&attr) :
				     event_open(&attr, 0, HOT_CPU, -1, 0);
	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);
	if (variant->cgroup)
		ASSERT_EQ(0, write_file(CGROUP "/cgroup.procs", "0"));
	drive_there(TRACEPOINT, N);
}

FIXTURE_TEARDOWN_PARENT(target)
{
	hot_teardown(_metadata, &self->registry);
	EXPECT_TRUE(eventually(!rmdir(CGROUP) || errno == ENOENT));
}

/* An event of a task or cgroup on that CPU alone waits for the CPU to come back. */
TEST_F(target, goes_on)
{
	int round;

	for (round = 1; round <= 3; round++) {
		EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->fd));
		ASSERT_EQ(0, set_online(false));
		EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, state_of(self->fd));
		drive(TRACEPOINT, N);
		EXPECT_EQ(round * N, count(self->fd));
		ASSERT_EQ(0, set_online(true));
		EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->fd));
		drive_there(TRACEPOINT, N);
		EXPECT_EQ((round + 1) * N, count(self->fd));
	}
}

/* The event of a target can be disabled and enabled while the CPU is offline. */
TEST_F(target, controlled_while_offline)
{
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, set_online(true));
	drive_there(TRACEPOINT, N);
	EXPECT_EQ(N, count(self->fd));
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ENABLE, NULL));
	ASSERT_EQ(0, set_online(true));
	drive_there(TRACEPOINT, N);
	EXPECT_EQ(2 * N, count(self->fd));
}

/* The event of a target can be attached and ended while the CPU is offline. */
TEST_F(target, ended_while_offline)
{
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, attach(self->fd));
	close(self->fd);
	EXPECT_EQ(0, registry_count("ids"));
	ASSERT_EQ(0, set_online(true));
	drive_there(TRACEPOINT, N);
}

/* Only the target is measured, also right after the CPU came back. */
TEST_F(target, others_are_not_counted)
{
	pid_t child;

	if (variant->inherit)
		SKIP(return, "children are counted, too");
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		if (variant->cgroup)
			write_file(CGROUPS "/cgroup.procs", "0");
		set_online(false);
		set_online(true);
		drive_there(TRACEPOINT, N);
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	EXPECT_EQ(N, count(self->fd));
	drive_there(TRACEPOINT, N);
	EXPECT_EQ(2 * N, count(self->fd));
}

TEST_HARNESS_MAIN
