// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: sessions of several events on several CPUs, and groups.
 */
#include "persistent.h"

#define N	100

FIXTURE(members)
{
	struct registry		registry;
	int			cpus[2];
	int			fd;
	int			id;
};

static int first_cpus(int *cpus, int max)
{
	cpu_set_t set;
	int cpu, n = 0;

	sched_getaffinity(0, sizeof(set), &set);
	for (cpu = 0; cpu < CPU_SETSIZE && n < max; cpu++) {
		if (CPU_ISSET(cpu, &set))
			cpus[n++] = cpu;
	}

	return n;
}

static int open_on(enum event event, int cpu)
{
	struct perf_event_attr attr = event_attr(event);

	return event_open(&attr, -1, cpu, -1, 0);
}

static __u64 event_id(int fd)
{
	__u64 id = 0;

	return event_ioctl(fd, PERF_EVENT_IOC_ID, &id) ? 0 : id;
}

/* One event on the first CPU */
FIXTURE_SETUP(members)
{
	registry_setup(_metadata, &self->registry);

	if (first_cpus(self->cpus, 2) < 2)
		SKIP(return, "needs two CPUs");

	self->fd = open_on(CLOCK, self->cpus[0]);
	ASSERT_LE(0, self->fd);
	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);
}

FIXTURE_TEARDOWN_PARENT(members)
{
	registry_teardown(_metadata, &self->registry);
}

/* The same event on another CPU joins the session. */
TEST_F(members, join_on_other_cpu)
{
	int fd = open_on(CLOCK, self->cpus[1]);

	EXPECT_EQ(self->id, DETACH(fd, .id = self->id));
	EXPECT_EQ(1, registry_count("ids"));
}

/* The samples of two events of the same kind can be told apart. */
TEST_F(members, samples_are_told_apart)
{
	struct perf_event_attr attr = sampling_attr(FAULTS);
	struct ring rings[2];
	int i, fds[2];

	pin(self->cpus[0]);
	for (i = 0; i < 2; i++) {
		fds[i] = event_open(&attr, -1, self->cpus[0], -1, 0);
		ASSERT_LE(0, fds[i]);
		ASSERT_EQ(self->id, DETACH(fds[i], .id = self->id, .member = i + 1));
		ASSERT_EQ(0, ring_map(&rings[i], fds[i], 512 * 1024 / getpagesize(), PROT_READ));
	}
	drive(FAULTS, N);
	for (i = 0; i < 2; i++) {
		ASSERT_LE(N, ring_samples(&rings[i]));
		EXPECT_EQ(event_id(fds[i]),
			  *(__u64 *)&rings[i].data[sizeof(struct perf_event_header)]);
	}
}

/* Another event joins the session as another member. */
TEST_F(members, join_as_other_member)
{
	int fd = open_on(TRACEPOINT, self->cpus[0]);

	EXPECT_EQ(self->id, DETACH(fd, .id = self->id, .member = 1));
	EXPECT_EQ(1, registry_count("ids"));
}

/* Members can join in any order, with any valid number. */
TEST_F(members, any_number)
{
	static const __u32 numbers[] = { 127, 7, 50, 1 };
	struct answer a;
	int i, fd;

	for (i = 0; i < ARRAY_LEN(numbers); i++) {
		fd = open_on(TRACEPOINT, self->cpus[0]);
		ASSERT_EQ(self->id, DETACH(fd, .id = self->id, .member = numbers[i]));
		ASSERT_EQ(0, query(fd, &a));
		EXPECT_EQ(numbers[i], a.info.self.member);
		EXPECT_EQ(i + 1, a.info.self.instance);
	}
	EXPECT_EQ(-EINVAL, DETACH(open_on(TRACEPOINT, self->cpus[0]),
				  .id = self->id, .member = UINT_MAX));
}

/* I can choose any member number, also for the first one. */
TEST_F(members, first_member_need_not_be_0)
{
	int fd = open_on(TRACEPOINT, self->cpus[0]);
	struct answer a;

	ASSERT_LT(self->id, DETACH(fd, .member = 3));
	ASSERT_EQ(0, query(fd, &a));
	EXPECT_EQ(3, a.info.self.member);
}

/* A process that did not create the session can join it. */
TEST_F(members, join_from_another_process)
{
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child) {
		close(self->fd);
		EXPECT_EQ(self->id, DETACH(open_on(CLOCK, self->cpus[1]), .id = self->id));
		_exit(_metadata->exit_code);
	}
	ASSERT_TRUE(passed(child));
	EXPECT_LE(0, reopen_instance(self->id, 1));
}

/* QUERY lists all instances by number, with event and CPU. */
TEST_F(members, all_are_listed)
{
	int other = open_on(CLOCK, self->cpus[1]), trace = open_on(TRACEPOINT, self->cpus[1]);
	struct answer a;

	ASSERT_EQ(self->id, DETACH(other, .id = self->id));
	ASSERT_EQ(self->id, DETACH(trace, .id = self->id, .member = 1));
	ASSERT_EQ(0, query(self->fd, &a));

	ASSERT_EQ(3, a.info.nr_instances);
	EXPECT_EQ(0, a.instances[0].instance);
	EXPECT_EQ(0, a.instances[0].member);
	EXPECT_EQ(self->cpus[0], a.instances[0].cpu);
	EXPECT_EQ(event_id(self->fd), a.instances[0].event_id);

	EXPECT_EQ(1, a.instances[1].instance);
	EXPECT_EQ(0, a.instances[1].member);
	EXPECT_EQ(self->cpus[1], a.instances[1].cpu);
	EXPECT_EQ(event_id(other), a.instances[1].event_id);

	EXPECT_EQ(2, a.instances[2].instance);
	EXPECT_EQ(1, a.instances[2].member);
	EXPECT_EQ(self->cpus[1], a.instances[2].cpu);
	EXPECT_EQ(event_id(trace), a.instances[2].event_id);
	EXPECT_EQ(self->id, a.instances[2].id);
	EXPECT_EQ(-1, a.instances[2].pid);
}

/* One call reads a whole session: counts, times and losses of all its instances. */
TEST_F(members, all_counts)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	struct answer a;
	int i, fds[3];

	for (i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = event_open(&attr, -1, pin(self->cpus[0]), -1, 0);
		ASSERT_EQ(self->id, DETACH(fds[i], .id = self->id, .member = i + 1,
					   .buffer_pages = 1));
	}
	drive(TRACEPOINT, 1000);
	ASSERT_EQ(0, session_disable(self->fd));
	ASSERT_EQ(0, query(reopen_instance(self->id, 2), &a));
	ASSERT_EQ(4, a.info.nr_instances);
	for (i = 1; i <= ARRAY_LEN(fds); i++) {
		EXPECT_EQ(i, a.instances[i].member);
		EXPECT_EQ(count(fds[i - 1]), a.instances[i].count);
		EXPECT_LT(0, a.instances[i].time_running);
		EXPECT_LE(a.instances[i].time_running, a.instances[i].time_enabled);
		EXPECT_LT(0, a.instances[i].lost);
		EXPECT_GT(1000, a.instances[i].lost);
		EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, a.instances[i].state);
	}
}

/* I can open an instance by its number. */
TEST_F(members, reopen_by_instance)
{
	int other = open_on(CLOCK, self->cpus[1]), trace = open_on(TRACEPOINT, self->cpus[1]);

	ASSERT_EQ(self->id, DETACH(other, .id = self->id));
	ASSERT_EQ(self->id, DETACH(trace, .id = self->id, .member = 1));

	EXPECT_EQ(event_id(self->fd), event_id(reopen_instance(self->id, 0)));
	EXPECT_EQ(event_id(other), event_id(reopen_instance(self->id, 1)));
	EXPECT_EQ(event_id(trace), event_id(reopen_instance(self->id, 2)));
}

/* I can open the first event of a CPU by the CPU. */
TEST_F(members, reopen_by_cpu)
{
	int other = open_on(CLOCK, self->cpus[1]), trace = open_on(TRACEPOINT, self->cpus[0]);

	ASSERT_EQ(self->id, DETACH(trace, .id = self->id, .member = 1));
	ASSERT_EQ(self->id, DETACH(other, .id = self->id));

	EXPECT_EQ(event_id(self->fd), event_id(reopen_at(self->id, -1, self->cpus[0])));
	EXPECT_EQ(event_id(other), event_id(reopen_at(self->id, -1, self->cpus[1])));
}

/* The only instance needs no number; with more than one, I must choose. */
TEST_F(members, reopen_the_only_one)
{
	EXPECT_EQ(event_id(self->fd), event_id(reopen(self->id)));

	ASSERT_EQ(self->id, DETACH(open_on(CLOCK, self->cpus[1]), .id = self->id));
	EXPECT_EQ(-EINVAL, reopen(self->id));
}

/* The number of an instance is never reused. */
TEST_F(members, instance_numbers_are_not_reused)
{
	int fd = open_on(CLOCK, self->cpus[1]);

	ASSERT_EQ(self->id, DETACH(fd, .id = self->id));
	ASSERT_EQ(0, attach(fd));
	EXPECT_EQ(-ENOENT, reopen_instance(self->id, 1));

	ASSERT_EQ(self->id, DETACH(fd, .id = self->id));
	EXPECT_EQ(-ENOENT, reopen_instance(self->id, 1));
	EXPECT_EQ(event_id(fd), event_id(reopen_instance(self->id, 2)));
}

/* A session exists as long as any of its instances, also without the first one. */
TEST_F(members, id_lives_until_the_last)
{
	int fd = open_on(TRACEPOINT, self->cpus[1]);

	ASSERT_EQ(self->id, DETACH(fd, .id = self->id, .member = 1));
	ASSERT_EQ(0, attach(self->fd));
	EXPECT_EQ(event_id(fd), event_id(reopen_instance(self->id, 1)));
	EXPECT_EQ(self->id, DETACH(self->fd, .id = self->id));

	ASSERT_EQ(0, attach(self->fd));
	ASSERT_EQ(0, attach(fd));
	EXPECT_FALSE(registry_has(self->id));
	EXPECT_EQ(-ENOENT, DETACH(fd, .id = self->id, .member = 1));
}

/* A member is one event: an event with another attr cannot join it. */
TEST_F(members, other_attr_cannot_join)
{
	EXPECT_EQ(-EINVAL, DETACH(open_on(TRACEPOINT, self->cpus[1]), .id = self->id));
	EXPECT_EQ(-ENOENT, reopen_instance(self->id, 1));
}

/* A changed period does not make it another event. */
TEST_F(members, changed_period_can_join)
{
	static const enum event kinds[] = { CLOCK, TRACEPOINT };
	struct perf_event_attr attr;
	int i, id, first, second;
	__u64 period;

	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		attr = sampling_attr(kinds[i]);
		first = event_open(&attr, -1, self->cpus[0], -1, 0);
		second = event_open(&attr, -1, self->cpus[1], -1, 0);
		period = 2 * attr.sample_period;
		ASSERT_EQ(0, event_ioctl(first, PERF_EVENT_IOC_PERIOD, &period));
		id = detach(first);
		ASSERT_LT(0, id);
		EXPECT_EQ(id, DETACH(second, .id = id));
	}
}

/* A member has one instance on a CPU. */
TEST_F(members, same_cpu_cannot_join)
{
	EXPECT_EQ(-EEXIST, DETACH(open_on(CLOCK, self->cpus[0]), .id = self->id));
	EXPECT_EQ(-ENOENT, reopen_instance(self->id, 1));
}

/* The number of a member without instances can be used for another event. */
TEST_F(members, empty_member_is_free)
{
	int fd = open_on(TRACEPOINT, self->cpus[0]);

	ASSERT_EQ(self->id, DETACH(fd, .id = self->id, .member = 1));
	ASSERT_EQ(0, attach(fd));
	EXPECT_EQ(self->id, DETACH(open_on(FAULTS, self->cpus[0]), .id = self->id, .member = 1));
}

/* All instances of a member have the label of its first one. */
TEST_F(members, label_belongs_to_the_member)
{
	int fd = open_on(TRACEPOINT, self->cpus[0]), other = open_on(TRACEPOINT, self->cpus[1]);
	struct answer a;

	ASSERT_EQ(self->id, DETACH(fd, .id = self->id, .member = 1, .label = addr("text")));
	EXPECT_EQ(-EINVAL, DETACH(other, .id = self->id, .member = 1, .label = addr("texts")));
	ASSERT_EQ(self->id, DETACH(other, .id = self->id, .member = 1));
	ASSERT_EQ(0, query(other, &a));
	EXPECT_STREQ("text", a.label);
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_STREQ("", a.label);
}

/* A group's leader and sibling can be members of one session. */
TEST_F(members, group_in_one_id)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int leader, sibling, id;

	leader = event_open(&attr, -1, self->cpus[1], -1, 0);
	sibling = event_open(&attr, -1, self->cpus[1], leader, 0);
	id = detach(leader);
	ASSERT_LT(0, id);
	EXPECT_EQ(id, DETACH(sibling, .id = id, .member = 1));

	EXPECT_EQ(-EBUSY, attach(leader));
	EXPECT_EQ(0, attach(sibling));
	EXPECT_EQ(0, attach(leader));
	EXPECT_FALSE(registry_has(id));
}

FIXTURE(group)
{
	struct registry		registry;
	int			leader;
	int			sibling;
	int			id;
};

FIXTURE_SETUP(group)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int cpu = pin(0);

	registry_setup(_metadata, &self->registry);

	attr.read_format = PERF_FORMAT_GROUP;
	self->leader = event_open(&attr, -1, cpu, -1, 0);
	self->sibling = event_open(&attr, -1, cpu, self->leader, 0);
	ASSERT_LE(0, self->sibling);
}

FIXTURE_TEARDOWN_PARENT(group)
{
	registry_teardown(_metadata, &self->registry);
}

#define DETACH_GROUP() do {								\
	self->id = detach(self->leader);						\
	ASSERT_LT(0, self->id);								\
	ASSERT_EQ(self->id, DETACH(self->sibling, .id = self->id, .member = 1));	\
} while (0)

/* A group stays whole and counts on when all its files are closed. */
TEST_F(group, goes_on_after_close)
{
	__u64 before[3], after[3];
	int fd;

	DETACH_GROUP();
	fd = VIEW(self->id, 0, .read_format = PERF_FORMAT_GROUP);
	ASSERT_EQ(sizeof(before), read(fd, before, sizeof(before)));
	close(fd);
	close(self->leader);
	close(self->sibling);

	drive(TRACEPOINT, N);

	fd = VIEW(self->id, 0, .read_format = PERF_FORMAT_GROUP);
	ASSERT_EQ(sizeof(after), read(fd, after, sizeof(after)));
	EXPECT_EQ(2, after[0]);
	EXPECT_EQ(before[1] + N, after[1]);
	EXPECT_EQ(before[2] + N, after[2]);
	EXPECT_LE(0, reopen_instance(self->id, 1));
}

/* The sibling is attached before its leader; then both are out of the session. */
TEST_F(group, attach_sibling_first)
{
	DETACH_GROUP();
	EXPECT_EQ(-EBUSY, attach(self->leader));
	EXPECT_LE(0, reopen_instance(self->id, 0));
	EXPECT_EQ(0, attach(self->sibling));
	EXPECT_EQ(-ENOENT, reopen_instance(self->id, 1));
	EXPECT_EQ(0, attach(self->leader));
	EXPECT_FALSE(registry_has(self->id));
}

/* A leader goes on alone when its siblings, not detached, are closed. */
TEST_F(group, leader_alone)
{
	self->id = detach(self->leader);
	ASSERT_LT(0, self->id);
	close(self->sibling);
	close(self->leader);

	drive(TRACEPOINT, N);
	EXPECT_LE(N, count(reopen(self->id)));
}

TEST_HARNESS_MAIN
