// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: children of a task that are forked and exit while it is measured.
 */
#include "persistent_task.h"

#define N			100
#define TELL(what, ...)		ORDER(self->target.sock, what, .event = TRACEPOINT, ##__VA_ARGS__)
#define TELL_CHILD(what, ...)	ORDER(self->target.child, what, .event = TRACEPOINT, ##__VA_ARGS__)

FIXTURE(inherit)
{
	struct registry		registry;
	struct target		target;
	int			id;
	int			fd;
};

FIXTURE_VARIANT(inherit)
{
	int			cpu;
};

FIXTURE_VARIANT_ADD(inherit, any_cpu) { .cpu = ANY_CPU };
FIXTURE_VARIANT_ADD(inherit, one_cpu) { .cpu = 0 };

FIXTURE_SETUP(inherit)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);

	registry_setup(_metadata, &self->registry);

	pin(0);
	attr.inherit = 1;
	self->target = target_start(PROCESS);
	self->id = target_detach(&self->target, PROCESS, &attr, variant->cpu,
				 (struct perf_event_detach) {});
	self->fd = reopen(self->id);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN_PARENT(inherit)
{
	registry_teardown(_metadata, &self->registry);
}

/*
 * A task and its child that take turns on a CPU may swap their events: an event
 * does not end when a child exits with it.
 */
TEST_F(inherit, takes_turns)
{
	struct answer a;
	int i, n = 0, child;

	for (i = 1; i <= 20; i++) {
		child = TELL(SPAWN);
		ASSERT_LT(0, child);
		for (n = 0; n < 10; n++) {
			ASSERT_EQ(0, TELL(DRIVE, .value = 1));
			ASSERT_EQ(0, TELL_CHILD(DRIVE, .value = 1));
		}
		ASSERT_TRUE(target_end_child(&self->target, child));
		ASSERT_EQ(0, query(self->fd, &a));
		ASSERT_EQ(PERF_PERSISTENT_STATE_ENABLED, a.info.self.state);
		ASSERT_EQ(0, a.info.ended);
		ASSERT_EQ(2 * n * i, count(self->fd));
	}
	ASSERT_TRUE(target_end(&self->target));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, state_of(self->fd));
	EXPECT_EQ(2 * n * (i - 1), count(self->fd));
}

/* A child forked by an orphan while the disabled event is held starts disabled as well. */
TEST_F(inherit, disabled_then_held)
{
	int *turn = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	pid_t child = fork();
	int fd, id, held;

#define TURN(n)	(__atomic_load_n(turn, __ATOMIC_ACQUIRE) == (n))
#define PASS(n)	__atomic_store_n(turn, n, __ATOMIC_RELEASE)

	ASSERT_LE(0, child);
	if (!child) {
		eventually(TURN(1));
		if (fork())
			_exit(0);
		eventually(TURN(2));
		if (fork())
			_exit(0);
		PASS(3);
		eventually(TURN(4));
		drive(TRACEPOINT, N);
		PASS(5);
		_exit(0);
	}
	attr.inherit = 1;
	fd = event_open(&attr, child, variant->cpu, -1, 0);
	id = detach(fd);
	ASSERT_LT(0, id);
	ASSERT_EQ(0, event_ioctl(fd, PERF_EVENT_IOC_DISABLE, NULL));
	PASS(1);
	ASSERT_EQ(child, waitpid(child, NULL, 0));

	held = reopen(id);
	ASSERT_EQ(0, hold(held));
	PASS(2);
	ASSERT_TRUE(eventually(TURN(3)));
	close(held);
	PASS(4);
	ASSERT_TRUE(eventually(TURN(5)));
	EXPECT_EQ(0, count(fd));
}

/* An expired event has ended for good, though its task goes on. */
TEST_F(inherit, expired_for_good)
{
	ASSERT_EQ(0, SET(self->fd, .flags = PERF_PERSISTENT_SET_TTL, .ttl = 1));
	ASSERT_TRUE(eventually(state_of(self->fd) == PERF_PERSISTENT_STATE_EXPIRED));
	EXPECT_EQ(-ENODEV, detach(self->fd));
	EXPECT_TRUE(eventually(!registry_count("ids")));
}

/* The time to live ends the event in all children, also in those that are being forked. */
TEST_F(inherit, time_to_live)
{
	unsigned int *rounds = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	unsigned int i, last;
	struct answer a;
	__u64 before;

#define ROUNDS()	__atomic_load_n(rounds, __ATOMIC_RELAXED)

	attr.inherit = 1;
	for (i = 0; i < 5; i++) {
		pid_t child = fork(), grandchild;
		int fd, id;

		ASSERT_LE(0, child);
		if (!child)
			prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (!child) {
			grandchild = fork();
			drive(TRACEPOINT, 1);
			if (!grandchild) {
				fork();
				drive(TRACEPOINT, 1);
				_exit(0);
			}
			waitpid(grandchild, NULL, 0);
			__atomic_add_fetch(rounds, 1, __ATOMIC_RELAXED);
		}

		fd = event_open(&attr, child, variant->cpu, -1, 0);
		id = detach(fd);
		ASSERT_LT(0, id);
		last = ROUNDS();
		ASSERT_TRUE(eventually(ROUNDS() > last + 2));
		ASSERT_EQ(0, SET(fd, .flags = PERF_PERSISTENT_SET_TTL, .ttl = 1 + i * 1000000));
		EXPECT_TRUE(eventually(!registry_has(id)));
		before = count(fd);

		last = ROUNDS();
		EXPECT_TRUE(eventually(ROUNDS() > last + 2));
		EXPECT_LT(0, before);
		EXPECT_EQ(before, count(fd));
		ASSERT_EQ(0, query(fd, &a));
		EXPECT_EQ(PERF_PERSISTENT_STATE_EXPIRED, a.info.ended);
		EXPECT_EQ(child, a.info.self.pid);

		kill(child, SIGKILL);
		ASSERT_EQ(child, waitpid(child, NULL, 0));
		EXPECT_EQ(before, count(fd));
		close(fd);
	}
}

/* An event whose target exited before DETACH is a tombstone from the start. */
TEST_F(inherit, detached_dead)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int fd = event_open(&attr, self->target.tid, variant->cpu, -1, 0), id;
	struct answer a;

	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_TRUE(target_end(&self->target));
	id = detach(fd);
	ASSERT_LT(0, id);
	close(fd);

	ASSERT_EQ(0, query(reopen(id), &a));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, a.info.self.state);
	EXPECT_EQ(N, a.info.self.count);
}

/* The counts of children that are alive are kept when the session expires. */
TEST_F(inherit, expired_count)
{
	__u64 before;

	ASSERT_LT(0, TELL(SPAWN));
	ASSERT_EQ(0, TELL_CHILD(DRIVE, .value = N));
	before = count(self->fd);
	EXPECT_LE(variant->cpu == ANY_CPU ? N : 0, before);
	ASSERT_EQ(0, SET(self->fd, .flags = PERF_PERSISTENT_SET_TTL, .ttl = 1));
	ASSERT_TRUE(eventually(state_of(self->fd) == PERF_PERSISTENT_STATE_EXPIRED));
	EXPECT_EQ(before, count(self->fd));
}

TEST_HARNESS_MAIN
