// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: groups of events of a task.
 */
#include "persistent_task.h"

#define N	100
#define SIZE	3

FIXTURE(group)
{
	struct registry		registry;
	struct target		target;
	int			fd[SIZE];
	int			id;
};

/* The order in which the leader, 0, and its siblings are closed or detached */
FIXTURE_VARIANT(group)
{
	int			order[SIZE];
	int			cpu;
	bool			inherit;
	enum event		second;
};

FIXTURE_VARIANT_ADD(group, forward) { .order = { 0, 1, 2 }, .cpu = ANY_CPU };
FIXTURE_VARIANT_ADD(group, forward_cpu) { .order = { 0, 1, 2 }, .cpu = 0 };

FIXTURE_VARIANT_ADD(group, forward_inherit) {
	.order = { 0, 1, 2 }, .cpu = ANY_CPU, .inherit = true
};

FIXTURE_VARIANT_ADD(group, leader_first) { .order = { 0, 2, 1 }, .cpu = ANY_CPU };
FIXTURE_VARIANT_ADD(group, leader_second) { .order = { 1, 0, 2 }, .cpu = ANY_CPU };
FIXTURE_VARIANT_ADD(group, leader_second_cpu) { .order = { 2, 0, 1 }, .cpu = 0 };

FIXTURE_VARIANT_ADD(group, leader_last) { .order = { 1, 2, 0 }, .cpu = ANY_CPU };
FIXTURE_VARIANT_ADD(group, backward) { .order = { 2, 1, 0 }, .cpu = ANY_CPU };

FIXTURE_VARIANT_ADD(group, backward_cpu_inherit) {
	.order = { 2, 1, 0 }, .cpu = 0, .inherit = true
};

FIXTURE_VARIANT_ADD(group, cycles) { .order = { 1, 0, 2 }, .cpu = 0, .second = CYCLES };

FIXTURE_VARIANT_ADD(group, cycles_inherit) {
	.order = { 0, 2, 1 }, .cpu = ANY_CPU, .inherit = true, .second = CYCLES
};

/* Two events count what is driven; the one between them counts time */
FIXTURE_SETUP(group)
{
	struct perf_event_attr attr;
	int i;

	if (!has_event(variant->second))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);

	pin(0);
	self->target = target_start(PROCESS);
	ASSERT_LT(0, self->target.tid);
	for (i = 0; i < SIZE; i++) {
		attr = event_attr(i == 1 ? variant->second : TRACEPOINT);
		attr.read_format = PERF_FORMAT_GROUP;
		attr.inherit = variant->inherit;
		self->fd[i] = event_open(&attr, self->target.tid, variant->cpu,
					 i ? self->fd[0] : -1, 0);
		ASSERT_LE(0, self->fd[i]);
	}
}

FIXTURE_TEARDOWN_PARENT(group)
{
	registry_teardown(_metadata, &self->registry);
}

#define TELL(what, ...)	ORDER(self->target.sock, what, .event = TRACEPOINT, ##__VA_ARGS__)

/* The group as a whole, through its leader */
#define GROUP_OF(id)	VIEW(id, 0, .read_format = PERF_FORMAT_GROUP)

/* Detach all into one session; the leader first, as required */
#define DETACH_ALL() do {								\
	int _i;										\
											\
	self->id = detach(self->fd[0]);							\
	ASSERT_LT(0, self->id);								\
	for (_i = 1; _i < SIZE; _i++)							\
		ASSERT_EQ(self->id, DETACH(self->fd[_i], .id = self->id, .member = _i));	\
} while (0)

#define CLOSE_ALL() do {				\
	int _i;						\
							\
	for (_i = 0; _i < SIZE; _i++)			\
		close(self->fd[variant->order[_i]]);	\
} while (0)

/* The counts of a group of @nr, read through its leader */
#define EXPECT_GROUP(leader, nr, n) do {					\
	__u64 _v[8] = {}, _nr = (nr), _n = (n);					\
										\
	ASSERT_EQ((long)((_nr + 1) * 8), read(leader, _v, sizeof(_v)));		\
	EXPECT_EQ(_nr, _v[0]);							\
	EXPECT_EQ(_n, _v[1]);							\
	if (_nr == SIZE) {							\
		EXPECT_LT(0, _v[2]);						\
		EXPECT_EQ(_n, _v[3]);						\
	}									\
} while (0)

/* A group stays a group, in whatever order its files are closed. */
TEST_F(group, closed)
{
	int i, fd;

	DETACH_ALL();
	for (i = 0; i < SIZE; i++) {
		ASSERT_EQ(0, TELL(DRIVE, .value = N));
		close(self->fd[variant->order[i]]);
		fd = GROUP_OF(self->id);
		EXPECT_GROUP(fd, SIZE, (i + 1) * N);
		close(fd);
	}
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_GROUP(GROUP_OF(self->id), SIZE, (SIZE + 1) * N);
}

/* Siblings are detached after their leader, into its session, in whatever order I try. */
TEST_F(group, detached)
{
	int i, nr;

	for (i = 0; i < SIZE; i++) {
		nr = variant->order[i];
		if (!nr) {
			self->id = detach(self->fd[0]);
			ASSERT_LT(0, self->id);
			continue;
		}
		EXPECT_EQ(-EINVAL, detach(self->fd[nr]));
		EXPECT_EQ(self->id ?: -EINVAL, DETACH(self->fd[nr], .id = self->id, .member = nr));
	}
	for (i = 1; i < SIZE; i++) {
		nr = DETACH(self->fd[i], .id = self->id, .member = i);
		EXPECT_TRUE(nr == self->id || nr == -EEXIST);
	}

	CLOSE_ALL();
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_GROUP(GROUP_OF(self->id), SIZE, N);
	EXPECT_EQ(1, registry_count("ids"));
}

/* I am told which event leads and which events follow. */
TEST_F(group, query)
{
	struct answer a;
	int i;

	DETACH_ALL();
	for (i = 0; i < SIZE; i++) {
		ASSERT_EQ(0, query(reopen_instance(self->id, i), &a));
		EXPECT_EQ(!i, !!(a.info.flags & PERF_PERSISTENT_GROUP_LEADER));
		EXPECT_EQ(!!i, !!(a.info.flags & PERF_PERSISTENT_GROUP_SIBLING));
		EXPECT_EQ(i, a.info.self.member);
		EXPECT_EQ(self->target.tid, a.info.self.pid);
		EXPECT_EQ(SIZE, a.info.nr_instances);
	}
	EXPECT_LE(0, reopen_at(self->id, self->target.tid, variant->cpu));
}

/* The counts of a group can be read as one when the target is gone. */
TEST_F(group, tombstone)
{
	struct answer a;
	int i, n = N;

	DETACH_ALL();
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_LT(0, TELL(FORK, .value = N));
	if (variant->inherit)
		n += N;
	CLOSE_ALL();
	ASSERT_TRUE(target_end(&self->target));

	EXPECT_GROUP(GROUP_OF(self->id), SIZE, n);
	for (i = 0; i < SIZE; i++) {
		ASSERT_EQ(0, query(reopen_instance(self->id, i), &a));
		EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, a.info.self.state);
	}
	stop(self->id);
	stop(self->id);
	EXPECT_FALSE(registry_has(self->id));
}

/* The same if its files are closed after that. */
TEST_F(group, tombstone_closed)
{
	int i, fd, n = N;

	DETACH_ALL();
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_LT(0, TELL(FORK, .value = N));
	if (variant->inherit)
		n += N;
	ASSERT_TRUE(target_end(&self->target));
	for (i = 0; i < SIZE; i++) {
		close(self->fd[variant->order[i]]);
		fd = GROUP_OF(self->id);
		EXPECT_GROUP(fd, SIZE, n);
		close(fd);
	}
}

/* Siblings are attached before their leader; then the group works until it is closed. */
TEST_F(group, attached)
{
	int i;

	DETACH_ALL();
	EXPECT_EQ(-EBUSY, attach(self->fd[0]));
	for (i = 0; i < SIZE; i++) {
		if (variant->order[i])
			EXPECT_EQ(0, attach(self->fd[variant->order[i]]));
	}
	EXPECT_EQ(0, attach(self->fd[0]));
	EXPECT_EQ(0, registry_count("ids"));

	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_GROUP(self->fd[0], SIZE, N);
	CLOSE_ALL();
}

/* The same after the target has exited. */
TEST_F(group, attached_dead)
{
	int i;

	DETACH_ALL();
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_TRUE(target_end(&self->target));
	EXPECT_EQ(-EBUSY, attach(self->fd[0]));
	for (i = 0; i < SIZE; i++) {
		if (variant->order[i])
			EXPECT_EQ(0, attach(self->fd[variant->order[i]]));
	}
	EXPECT_EQ(0, attach(self->fd[0]));
	EXPECT_GROUP(self->fd[0], SIZE, N);
	CLOSE_ALL();
	EXPECT_EQ(0, registry_count("ids"));
}

/* Siblings that are not detached end when I close them; the leader goes on alone. */
TEST_F(group, leader_alone)
{
	self->id = detach(self->fd[0]);
	ASSERT_LT(0, self->id);
	CLOSE_ALL();
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_EQ(N, count(reopen(self->id)));
}

/* A detached sibling goes on with the leader when the other sibling is closed. */
TEST_F(group, one_sibling)
{
	self->id = detach(self->fd[0]);
	ASSERT_EQ(self->id, DETACH(self->fd[2], .id = self->id, .member = 2));
	CLOSE_ALL();
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_GROUP(GROUP_OF(self->id), 2, N);
}

/* A group is disabled and enabled as one, through the file of its leader ... */
TEST_F(group, control)
{
	DETACH_ALL();
	ASSERT_EQ(0, ioctl(self->fd[0], PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(reopen_instance(self->id, 2)));
	ASSERT_EQ(0, ioctl(self->fd[0], PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP));
	ASSERT_EQ(0, ioctl(self->fd[0], PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_GROUP(self->fd[0], SIZE, N);
}

/* ... and with the session, through any file. */
TEST_F(group, control_session)
{
	int fd;

	DETACH_ALL();
	CLOSE_ALL();
	fd = GROUP_OF(self->id);
	ASSERT_EQ(0, session_disable(fd));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(reopen_instance(self->id, 2)));
	ASSERT_EQ(0, session_enable(reopen_instance(self->id, 1)));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_GROUP(fd, SIZE, N);
}

/* The time to live ends the whole group at once. */
TEST_F(group, time_to_live)
{
	struct answer a;
	int i;

	DETACH_ALL();
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_EQ(0, SET(self->fd[0], .flags = PERF_PERSISTENT_SET_TTL, .ttl = 1));
	EXPECT_TRUE(eventually(!registry_has(self->id)));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	for (i = 0; i < SIZE; i++) {
		ASSERT_EQ(0, query(self->fd[i], &a));
		EXPECT_EQ(PERF_PERSISTENT_STATE_EXPIRED, a.info.ended);
	}
	CLOSE_ALL();
}

/* Exec of a setuid program ends the whole group, with its counts. */
TEST_F(group, setuid_program)
{
	DETACH_ALL();
	CLOSE_ALL();
	ASSERT_EQ(0, TELL(BECOME, .value = USER));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_EQ(0, target_setuid_program(&self->target));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_GROUP(GROUP_OF(self->id), SIZE, N);
}

TEST_HARNESS_MAIN
