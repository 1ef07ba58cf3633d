// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: tombstones, the remains of an event whose target has exited.
 */
#include "persistent_task.h"

#define N	100
#define PAGES	8

FIXTURE(tombstone)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	struct target		target;
	struct ring		ring;
	int			cpu;
	int			id;
	int			fd;
};

FIXTURE_VARIANT(tombstone)
{
	enum who		who;
	bool			one_cpu;
	bool			inherit;
	bool			killed;
	bool			cycles;
};

FIXTURE_VARIANT_ADD(tombstone, own) { .who = OWN };
FIXTURE_VARIANT_ADD(tombstone, own_inherit) { .who = OWN, .inherit = true };

FIXTURE_VARIANT_ADD(tombstone, own_cpu_inherit) {
	.who = OWN, .one_cpu = true, .inherit = true
};

FIXTURE_VARIANT_ADD(tombstone, own_killed) { .who = OWN, .killed = true };
FIXTURE_VARIANT_ADD(tombstone, process) { .who = PROCESS };
FIXTURE_VARIANT_ADD(tombstone, process_inherit) { .who = PROCESS, .inherit = true };
FIXTURE_VARIANT_ADD(tombstone, process_cpu) { .who = PROCESS, .one_cpu = true };

FIXTURE_VARIANT_ADD(tombstone, process_cpu_inherit) {
	.who = PROCESS, .one_cpu = true, .inherit = true
};

FIXTURE_VARIANT_ADD(tombstone, process_killed) { .who = PROCESS, .killed = true };

FIXTURE_VARIANT_ADD(tombstone, process_killed_inherit) {
	.who = PROCESS, .killed = true, .inherit = true
};

FIXTURE_VARIANT_ADD(tombstone, thread) { .who = THREAD };
FIXTURE_VARIANT_ADD(tombstone, thread_inherit) { .who = THREAD, .inherit = true };
FIXTURE_VARIANT_ADD(tombstone, thread_cpu) { .who = THREAD, .one_cpu = true };
FIXTURE_VARIANT_ADD(tombstone, thread_killed) { .who = THREAD, .killed = true };

FIXTURE_VARIANT_ADD(tombstone, cycles) { .who = PROCESS, .cycles = true };
FIXTURE_VARIANT_ADD(tombstone, cycles_killed) { .who = PROCESS, .cycles = true, .killed = true };

FIXTURE_VARIANT_ADD(tombstone, cycles_cpu_inherit) {
	.who = OWN, .one_cpu = true, .inherit = true, .cycles = true
};

#define EVENT	(variant->cycles ? CYCLES : TRACEPOINT)

FIXTURE_SETUP(tombstone)
{
	if (!has_event(EVENT))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);

	pin(0);
	self->cpu = variant->one_cpu ? 0 : ANY_CPU;
	self->attr = sampling_attr(EVENT);
	self->attr.inherit = variant->inherit;
	self->target = target_start(variant->who);
	ASSERT_LT(0, self->target.tid);
}

FIXTURE_TEARDOWN_PARENT(tombstone)
{
	registry_teardown(_metadata, &self->registry);
}

#define TELL(what, ...)		ORDER(self->target.sock, what, .event = EVENT, ##__VA_ARGS__)
#define TELL_CHILD(what, ...)	ORDER(self->target.child, what, .event = EVENT, ##__VA_ARGS__)

#define SET_UP(...) do {								\
	self->id = target_detach(&self->target, variant->who, &self->attr, self->cpu,	\
				 (struct perf_event_detach) { __VA_ARGS__ });		\
	ASSERT_LT(0, self->id);								\
} while (0)

/* Exactly @n, where the event is exact, else at least @n */
#define EXPECT_COUNT(n, counted) do {			\
	__u64 _n = (n), _counted = (counted);		\
							\
	EXPECT_LE(_n, _counted);			\
	if (!variant->cycles)				\
		EXPECT_EQ(_n, _counted);		\
} while (0)

#define END_TARGET()									\
	ASSERT_TRUE(variant->killed ? target_kill(&self->target) : target_end(&self->target))

/* The final count can be read after the target has exited. */
TEST_F(tombstone, count)
{
	struct answer a;

	self->attr.sample_period = 0;
	SET_UP();
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	END_TARGET();

	self->fd = reopen_instance(self->id, 0);
	ASSERT_LE(0, self->fd);
	EXPECT_COUNT(N, count(self->fd));
	EXPECT_COUNT(N, count(reopen(self->id)));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, a.info.self.state);
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, a.info.ended);
	EXPECT_EQ(self->target.tid, a.info.self.pid);
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, a.instances[0].state);
	EXPECT_EQ(self->target.tid, a.instances[0].pid);
}

/* The pid of a dead task no longer opens the event; a live process is not affected. */
TEST_F(tombstone, pid_is_free)
{
	SET_UP();
	END_TARGET();

	EXPECT_EQ(-ESRCH, reopen_at(self->id, self->target.tid, self->cpu));
	if (variant->who == THREAD && !variant->killed) {
		EXPECT_EQ(-ENOENT, reopen_at(self->id, self->target.pid, self->cpu));
		ASSERT_EQ(0, TELL(DRIVE, .value = N));
	}
	EXPECT_COUNT(0, count(reopen(self->id)));
}

/* The times are kept with the count, and stand still. */
TEST_F(tombstone, times)
{
	__u64 values[3] = {}, again[3] = {};

	SET_UP();
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	END_TARGET();

	self->fd = VIEW(self->id, 0, .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED |
						    PERF_FORMAT_TOTAL_TIME_RUNNING);
	ASSERT_EQ(sizeof(values), read(self->fd, values, sizeof(values)));
	EXPECT_COUNT(N, values[0]);
	EXPECT_LT(0, values[1]);
	EXPECT_LT(0, values[2]);
	drive(CLOCK, 10);
	ASSERT_EQ(sizeof(again), read(self->fd, again, sizeof(again)));
	EXPECT_EQ(0, memcmp(values, again, sizeof(values)));
}

/* Children's counts are included, whether they exited before the target or live on. */
TEST_F(tombstone, children)
{
	int times = variant->inherit ? 3 : 1, child;

	self->attr.sample_period = 0;
	SET_UP();
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_LT(0, TELL(FORK, .value = N));
	child = TELL(SPAWN);
	ASSERT_LT(0, child);
	ASSERT_EQ(0, TELL_CHILD(DRIVE, .value = N));
	END_TARGET();

	self->fd = reopen(self->id);
	EXPECT_COUNT(times * N, count(self->fd));
	ASSERT_EQ(0, TELL_CHILD(DRIVE, .value = N));
	EXPECT_COUNT(variant->inherit ? 4 * N : N, count(self->fd));

	ASSERT_TRUE(target_end_child(&self->target, child));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, state_of(self->fd));
	EXPECT_COUNT(variant->inherit ? 4 * N : N, count(self->fd));
}

/* A tombstone can be attached, and is gone when I close it. */
TEST_F(tombstone, attach)
{
	SET_UP();
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	END_TARGET();

	self->fd = reopen(self->id);
	ASSERT_EQ(0, attach(self->fd));
	EXPECT_EQ(0, registry_count("ids"));
	EXPECT_EQ(-ENOENT, reopen_instance(self->id, 0));
	EXPECT_COUNT(N, count(self->fd));
	EXPECT_LT(0, detach(self->fd));
	EXPECT_COUNT(N, count(self->fd));
}

/* Nothing can start a tombstone again. */
TEST_F(tombstone, stays_dead)
{
	struct target other = target_start(PROCESS);
	__u64 before;

	SET_UP();
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	END_TARGET();

	self->fd = reopen(self->id);
	before = count(self->fd);
	EXPECT_COUNT(N, before);
	session_disable(self->fd);
	session_enable(self->fd);
	session_period(self->fd, 1);
	EXPECT_EQ(0, hold(self->fd));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, state_of(self->fd));
	close(self->fd);

	self->fd = reopen(self->id);
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, state_of(self->fd));
	ASSERT_EQ(0, ORDER(other.sock, DRIVE, .event = EVENT, .value = N));
	EXPECT_EQ(before, count(self->fd));
}

/* The time to live ends a tombstone. */
TEST_F(tombstone, time_to_live)
{
	struct answer a;

	SET_UP();
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	END_TARGET();

	self->fd = reopen(self->id);
	ASSERT_EQ(0, SET(self->fd, .flags = PERF_PERSISTENT_SET_TTL, .ttl = 1));
	EXPECT_TRUE(eventually(!registry_has(self->id)));
	EXPECT_COUNT(N, count(self->fd));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXPIRED, a.info.ended);
}

/* A sampling event gets a buffer, unless several CPUs would write to it at once. */
TEST_F(tombstone, default_buffer)
{
	bool none = !variant->one_cpu && variant->inherit;
	struct answer a;

	SET_UP();
	ASSERT_EQ(0, query(reopen(self->id), &a));
	EXPECT_EQ(none ? 0 : 512 * 1024 / getpagesize(), a.info.buffer_pages);

	self->id = target_detach(&self->target, variant->who, &self->attr, self->cpu,
				 (struct perf_event_detach) { .buffer_pages = PAGES });
	if (none) {
		EXPECT_EQ(-EINVAL, self->id);
		EXPECT_EQ(1, registry_count("ids"));
	} else {
		EXPECT_LT(0, self->id);
	}
}

/* The target and a child of it make N samples in the buffer, and exit */
#define SAMPLE_AND_END() do {							\
	struct answer _a;							\
	__u64 _head;								\
										\
	SET_UP(.buffer_pages = PAGES);						\
	ASSERT_EQ(0, TELL(DRIVE, .value = N / 2));				\
	ASSERT_LT(0, TELL(FORK, .value = N / 2));				\
	self->fd = reopen(self->id);						\
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, PAGES, PROT_READ));	\
	/* Cycles pass until it waits for the next order. */			\
	do {									\
		_head = ring_head(&self->ring);					\
		ASSERT_EQ(0, query(self->fd, &_a));				\
	} while (ring_head(&self->ring) != _head);				\
	EXPECT_EQ(_head, _a.info.buffer_head);					\
	ASSERT_EQ(0, ring_unmap(&self->ring));					\
	close(self->fd);							\
	END_TARGET();								\
	self->fd = reopen(self->id);						\
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, PAGES, PROT_READ));	\
} while (0)

/* The buffer can be read after the target has exited, up to its head. */
TEST_F(tombstone, buffer)
{
	int samples = variant->cycles ? 1 : variant->inherit ? N : N / 2;
	struct answer a;

	if (!variant->one_cpu && variant->inherit)
		SKIP(return, "such an event has no buffer");

	SAMPLE_AND_END();
	EXPECT_COUNT(samples, ring_samples(&self->ring));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(ring_head(&self->ring), a.info.buffer_head);
	EXPECT_EQ(PAGES, a.info.buffer_pages);
}

/* The same for an overwrite buffer. */
TEST_F(tombstone, loop)
{
	int samples = variant->cycles ? 1 : variant->inherit ? N : N / 2;
	struct answer a;

	if (!variant->one_cpu && variant->inherit)
		SKIP(return, "such an event has no buffer");

	self->attr.write_backward = 1;
	SAMPLE_AND_END();
	EXPECT_COUNT(samples, loop_samples(&self->ring));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(ring_head(&self->ring), a.info.buffer_head);
	EXPECT_NE(0, a.info.flags & PERF_PERSISTENT_OVERWRITE);
}

/* A poller is told that no more records will come. */
TEST_F(tombstone, poll)
{
	struct pollfd p = { .events = POLLIN };

	self->attr.wakeup_events = 4 * N;
	SET_UP();
	self->fd = reopen(self->id);
	p.fd = self->fd;
	if (variant->one_cpu || !variant->inherit) {
		ASSERT_EQ(0, TELL(DRIVE, .value = N));
		EXPECT_EQ(0, poll(&p, 1, 0));
	}
	END_TARGET();

	EXPECT_EQ(1, poll(&p, 1, PATIENCE_MS));
	EXPECT_NE(0, p.revents & POLLHUP);
	p.fd = reopen(self->id);
	EXPECT_EQ(1, poll(&p, 1, 0));
	EXPECT_NE(0, p.revents & POLLHUP);
}

static bool sleeps_in_ppoll(pid_t pid)
{
	char path[64], text[512], *name_end;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (!is_in_syscall(pid, __NR_ppoll) || read_file(path, text, sizeof(text)) <= 0)
		return false;
	name_end = strrchr(text, ')');

	return name_end && !strncmp(name_end, ") S", 3);
}

/* A sleeping poller is woken when the last task of the event exits. */
TEST_F(tombstone, wakes_sleeper)
{
	struct pollfd p = { .events = POLLIN };
	int child = 0, status = -1;
	pid_t sleeper;

	if (!variant->one_cpu && variant->inherit)
		SKIP(return, "such an event has no buffer");

	self->attr.wakeup_events = 4 * N;
	/* Cycles are counted as long as it lives. */
	if (variant->cycles)
		self->attr.sample_period = 1ULL << 40;
	SET_UP();
	if (variant->inherit) {
		child = TELL(SPAWN);
		ASSERT_LT(0, child);
	}
	p.fd = reopen(self->id);
	ASSERT_LE(0, p.fd);
	sleeper = fork();
	ASSERT_LE(0, sleeper);
	if (!sleeper) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* A time-out would make it look again without having been woken. */
		_exit(ppoll(&p, 1, NULL, NULL) == 1 && p.revents & POLLHUP ? 0 : 1);
	}
	ASSERT_TRUE(eventually(sleeps_in_ppoll(sleeper)));

	END_TARGET();
	if (variant->inherit) {
		EXPECT_TRUE(eventually(sleeps_in_ppoll(sleeper)));
		ASSERT_TRUE(target_end_child(&self->target, child));
	}
	ASSERT_TRUE(eventually(waitpid(sleeper, &status, WNOHANG) == sleeper));
	EXPECT_EQ(0, status);
}

TEST_HARNESS_MAIN
