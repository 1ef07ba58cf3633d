// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: a task and its child that swapped their events.
 */
#include "persistent_task.h"

#define N	100
#define ROUNDS	10

/* Busy times, in periods of the clock: the child's is longer */
#define SHORT	25
#define LONG	100

FIXTURE(swap)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	struct target		target;
	int			fd;
	int			id;
	int			answer;
};

FIXTURE_VARIANT(swap)
{
	enum event		event;
};

FIXTURE_VARIANT_ADD(swap, tracepoint) { .event = TRACEPOINT };
FIXTURE_VARIANT_ADD(swap, cycles) { .event = CYCLES };

#define TELL(to, what, ...)	ORDER(to, what, .event = TRACEPOINT, ##__VA_ARGS__)

/* A process that shares a CPU with its child alone */
FIXTURE_SETUP(swap)
{
	if (!has_event(variant->event))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(PARANOID, 2));

	pin(1);
	self->attr = event_attr(variant->event);
	self->attr.exclude_kernel = 1;
	self->attr.inherit = 1;
	self->target = target_start(PROCESS);
	ASSERT_LT(0, self->target.tid);
	ASSERT_EQ(0, TELL(self->target.sock, PIN, .value = 0));
	ASSERT_EQ(0, TELL(self->target.sock, BECOME, .value = USER));
}

FIXTURE_TEARDOWN_PARENT(swap)
{
	registry_teardown(_metadata, &self->registry);
}

/*
 * The CPU switches from the target to its child directly, and then to the idle
 * task: the child keeps the target's context.
 */
static bool swap(struct target *t)
{
	struct order first = { .verb = DRIVE, .event = CLOCK, .value = SHORT };
	struct order second = { .verb = DRIVE, .event = CLOCK, .value = LONG };

	return send(t->sock, &first, sizeof(first), 0) == sizeof(first) &&
	       send(t->child, &second, sizeof(second), 0) == sizeof(second) &&
	       !answer_of(t->sock) && !answer_of(t->child);
}

/*
 * All that was driven, or nothing. A counter also counts the code around it, and a debug
 * kernel takes most of the time, in which a clock does not count.
 */
static bool counted(enum event event, __u64 n, bool all)
{
	return event == TRACEPOINT ? n == (all ? N : 0) : (n >= N * CLOCK_PERIOD / 8) == all;
}

/* An enable_on_exec event does not count a task that executed no program. */
static void expect_one_executed(struct __test_metadata *_metadata, enum event event, int fd,
				struct target *t, bool child)
{
	int executed = child ? t->child : t->sock;
	int other = child ? t->sock : t->child;
	__u64 before;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		ASSERT_TRUE(swap(t));
		before = count(fd);
		ASSERT_EQ(0, ORDER(other, DRIVE, .event = event, .value = N));
		ASSERT_TRUE(counted(event, count(fd) - before, false));
		before = count(fd);
		ASSERT_EQ(0, ORDER(executed, DRIVE, .event = event, .value = N));
		ASSERT_TRUE(counted(event, count(fd) - before, true));
	}
}

/* An enable_on_exec event, and a child that has it too */
static int detach_on_exec(struct perf_event_attr attr, struct target *t, int *fd)
{
	int id;

	attr.disabled = 1;
	attr.enable_on_exec = 1;
	*fd = event_open(&attr, t->tid, ANY_CPU, -1, 0);
	id = detach(*fd);

	return TELL(t->sock, SPAWN) < 0 ? -ECHILD : id;
}

/* The program that a task executes is measured, and its child that executes none is not ... */
TEST_F(swap, exec)
{
	self->id = detach_on_exec(self->attr, &self->target, &self->fd);
	ASSERT_LT(0, self->id);
	ASSERT_EQ(0, target_program(&self->target, "/proc/self/exe"));
	expect_one_executed(_metadata, variant->event, self->fd, &self->target, false);
}

/* ... also if the event was held at the exec ... */
TEST_F(swap, exec_held)
{
	int fd;

	self->id = detach_on_exec(self->attr, &self->target, &self->fd);
	ASSERT_LT(0, self->id);
	fd = reopen(self->id);
	ASSERT_EQ(0, hold(fd));
	ASSERT_EQ(0, target_program(&self->target, "/proc/self/exe"));
	close(fd);
	expect_one_executed(_metadata, variant->event, self->fd, &self->target, false);
}

/* ... and if they swapped events before it was released ... */
TEST_F(swap, exec_held_for_long)
{
	int fd;

	self->id = detach_on_exec(self->attr, &self->target, &self->fd);
	ASSERT_LT(0, self->id);
	fd = reopen(self->id);
	ASSERT_EQ(0, hold(fd));
	ASSERT_EQ(0, target_program(&self->target, "/proc/self/exe"));
	ASSERT_TRUE(swap(&self->target));
	close(fd);
	expect_one_executed(_metadata, variant->event, self->fd, &self->target, false);
}

/* ... and if the child executes a program. */
TEST_F(swap, child_execs_held)
{
	int fd;

	self->id = detach_on_exec(self->attr, &self->target, &self->fd);
	ASSERT_LT(0, self->id);
	fd = reopen(self->id);
	ASSERT_EQ(0, hold(fd));
	ASSERT_EQ(0, TELL(self->target.child, EXEC, .path = "/proc/self/exe"));
	ASSERT_TRUE(swap(&self->target));
	close(fd);
	expect_one_executed(_metadata, variant->event, self->fd, &self->target, true);
}

/* The result of a call in another process, or an error if it is not in time */
#define in_time(call) ({						\
	pid_t _child = fork();						\
									\
	if (!_child) {							\
		self->answer = (call);					\
		_exit(0);						\
	}								\
	if (!eventually(waitpid(_child, NULL, WNOHANG) == _child)) {	\
		self->answer = -ETIME;					\
		kill(_child, SIGKILL);					\
		EXPECT_TRUE(eventually(waitpid(_child, NULL, WNOHANG) == _child)); \
	}								\
	self->answer;							\
})

/*
 * An event of a new child, in the group of an event that the child took over. A
 * child with an event of its own takes over no more, so this can be tried once.
 */
static int open_sibling(const struct perf_event_attr *attr, struct target *t, int leader)
{
	int child = TELL(t->sock, SPAWN), fd;

	fd = swap(t) ? event_open(attr, child, ANY_CPU, leader, 0) : -EPIPE;
	if (fd < 0)
		target_end_child(t, child);

	return fd;
}

/* All group operations work, though the members are of different tasks. */
TEST_F(swap, group)
{
	int sibling;

	self->fd = event_open(&self->attr, self->target.tid, ANY_CPU, -1, 0);
	ASSERT_LE(0, self->fd);
	ASSERT_TRUE(eventually((sibling = open_sibling(&self->attr, &self->target,
						       self->fd)) >= 0));
	ASSERT_EQ(0, become(USER));

	self->id = in_time(detach(self->fd));
	ASSERT_LT(0, self->id);
	ASSERT_EQ(self->id, in_time(DETACH(sibling, .id = self->id, .member = 1)));
	EXPECT_LE(0, in_time(reopen_instance(self->id, 0)));
	EXPECT_LE(0, in_time(reopen_instance(self->id, 1)));
	EXPECT_EQ(0, in_time(SET(sibling, .flags = PERF_PERSISTENT_SET_COMMITTED)));
	EXPECT_EQ(0, in_time(hold(reopen_instance(self->id, 0))));

	/* I need the rights to all of them. */
	ASSERT_EQ(0, TELL(self->target.child, BECOME, .value = OTHER));
	EXPECT_EQ(-EACCES, in_time(reopen_instance(self->id, 0)));
	EXPECT_EQ(-EACCES, in_time(reopen_instance(self->id, 1)));
}

TEST_HARNESS_MAIN
