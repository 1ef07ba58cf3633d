// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: counters of a CPU are exact to the last instruction.
 * Counters of an emulated CPU do not miss any.
 */
#include "persistent_task.h"

#define N	100
#define ROUNDS	8

FIXTURE(process)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	struct target		target;
	int			id;
};

FIXTURE_VARIANT(process)
{
	int			cpu;
	bool			user;
	bool			kernel;
	bool			inherit;
	bool			killed;
};

FIXTURE_VARIANT_ADD(process, user) { .cpu = ANY_CPU, .user = true };
FIXTURE_VARIANT_ADD(process, kernel) { .cpu = ANY_CPU, .kernel = true };
FIXTURE_VARIANT_ADD(process, both) { .cpu = ANY_CPU, .user = true, .kernel = true };
FIXTURE_VARIANT_ADD(process, both_cpu) { .cpu = 0, .user = true, .kernel = true };

FIXTURE_VARIANT_ADD(process, inherit) {
	.cpu = ANY_CPU, .user = true, .kernel = true, .inherit = true
};

FIXTURE_VARIANT_ADD(process, killed) {
	.cpu = ANY_CPU, .user = true, .kernel = true, .killed = true
};

/* A process whose instructions are counted from its next exec on */
FIXTURE_SETUP(process)
{
	if (!has_event(INSTRUCTIONS))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);
	pin(0);
	self->attr = event_attr(INSTRUCTIONS);
	self->attr.exclude_user = !variant->user;
	self->attr.exclude_kernel = !variant->kernel;
	self->attr.inherit = variant->inherit;
	self->attr.disabled = 1;
	self->attr.enable_on_exec = 1;
	self->target = target_start(PROCESS);
	ASSERT_LT(0, self->target.tid);
}

FIXTURE_TEARDOWN_PARENT(process)
{
	registry_teardown(_metadata, &self->registry);
}

#define TELL(what, ...)	ORDER(self->target.sock, what, ##__VA_ARGS__)

static int open_target(const struct perf_event_attr *attr, struct target *t, int cpu)
{
	return event_open(attr, t->tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

#define RUN_AND_END() do {								\
	ASSERT_EQ(0, target_program(&self->target, "/proc/self/exe"));			\
	ASSERT_EQ(0, TELL(DRIVE, .event = TRACEPOINT, .value = N));			\
	ASSERT_LT(0, TELL(FORK, .event = FAULTS, .value = N));				\
	ASSERT_EQ(0, TELL(DRIVE, .event = CLOCK, .value = N));				\
	ASSERT_TRUE(variant->killed ? target_kill(&self->target) :			\
				      target_end(&self->target));			\
} while (0)

/* The count after the process has exited is exactly that of an event that was kept open. */
TEST_F(process, finished)
{
	int kept, closed, id;
	pid_t child;

	kept = open_target(&self->attr, &self->target, variant->cpu);
	closed = open_target(&self->attr, &self->target, variant->cpu);
	id = detach(closed);
	ASSERT_LT(0, id);
	close(closed);
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		self->id = detach(open_target(&self->attr, &self->target, variant->cpu));
		kill(getpid(), SIGKILL);
	}
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	ASSERT_LT(0, self->id);

	RUN_AND_END();
	EXPECT_LT(N, count(kept));
	EXPECT_EQ(count(kept), count(reopen(id)));
	EXPECT_EQ(count(kept), count(reopen(self->id)));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, state_of(reopen(id)));
}

/* Reopening, reading or querying an event does not change the counts of others. */
TEST_F(process, looked_at)
{
	int kept = open_target(&self->attr, &self->target, variant->cpu), id, i;
	struct answer a;

	id = detach(open_target(&self->attr, &self->target, variant->cpu));
	ASSERT_EQ(0, target_program(&self->target, "/proc/self/exe"));
	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(0, TELL(DRIVE, .event = FAULTS, .value = N));
		count(reopen(id));
		query(reopen(id), &a);
	}
	ASSERT_TRUE(target_end(&self->target));
	EXPECT_EQ(count(kept), count(reopen(id)));
}

/* User and kernel instructions are counted separately and add up to the total. */
TEST_F(process, excluded)
{
	__u64 counts[3];
	int ids[3], i;

	for (i = 0; i < 3; i++) {
		self->attr.exclude_user = i == 1;
		self->attr.exclude_kernel = i == 2;
		ids[i] = detach(open_target(&self->attr, &self->target, variant->cpu));
		ASSERT_LT(0, ids[i]);
	}
	RUN_AND_END();
	for (i = 0; i < 3; i++)
		counts[i] = count(reopen(ids[i]));
	EXPECT_LT(N, counts[1]);
	EXPECT_LT(N, counts[2]);
	EXPECT_EQ(counts[0], counts[1] + counts[2]);
}

TEST_HARNESS_MAIN
