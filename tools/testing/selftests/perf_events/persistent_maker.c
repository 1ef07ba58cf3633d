// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: makers of task events that exited or are in another namespace.
 */
#include "persistent_task.h"

#define N	100

FIXTURE(maker)
{
	struct registry		registry;
	struct target		target;
	int			id;
};

FIXTURE_VARIANT(maker)
{
	bool			killed;
	bool			inherit;
	int			cpu;
};

FIXTURE_VARIANT_ADD(maker, exits) { .cpu = ANY_CPU };
FIXTURE_VARIANT_ADD(maker, exits_cpu) { .cpu = 0 };
FIXTURE_VARIANT_ADD(maker, exits_inherit) { .cpu = ANY_CPU, .inherit = true };
FIXTURE_VARIANT_ADD(maker, killed) { .cpu = ANY_CPU, .killed = true };
FIXTURE_VARIANT_ADD(maker, killed_cpu) { .cpu = 0, .killed = true };
FIXTURE_VARIANT_ADD(maker, killed_inherit) { .cpu = ANY_CPU, .killed = true, .inherit = true };

FIXTURE_SETUP(maker)
{
	registry_setup(_metadata, &self->registry);

	pin(0);
	self->target = target_start(PROCESS);
	ASSERT_LT(0, self->target.tid);
}

FIXTURE_TEARDOWN_PARENT(maker)
{
	registry_teardown(_metadata, &self->registry);
}

/* The event goes on when its maker exited or was killed. */
TEST_F(maker, is_gone)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	pid_t child = fork();

	attr.inherit = variant->inherit;
	ASSERT_LE(0, child);
	if (!child) {
		self->id = detach(event_open(&attr, self->target.tid, variant->cpu, -1, 0));
		if (variant->killed)
			kill(getpid(), SIGKILL);
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	ASSERT_LT(0, self->id);

	ASSERT_EQ(0, ORDER(self->target.sock, DRIVE, .event = TRACEPOINT, .value = N));
	EXPECT_EQ(N, count(reopen(self->id)));
	ASSERT_LT(0, ORDER(self->target.sock, FORK, .event = TRACEPOINT, .value = N));
	EXPECT_EQ(variant->inherit ? 2 * N : N, count(reopen(self->id)));
}

/* In another pid namespace a task has another pid, or none that I can see. */
TEST_F(maker, pid_namespace)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	struct target inside = {};
	struct answer a;
	pid_t child;
	int fd;

	attr.inherit = variant->inherit;
	self->id = detach(event_open(&attr, self->target.tid, variant->cpu, -1, 0));
	ASSERT_LT(0, self->id);
	ASSERT_EQ(0, unshare(CLONE_NEWPID));

	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		inside = target_start(PROCESS);
		fd = event_open(&attr, inside.tid, variant->cpu, -1, 0);
		EXPECT_EQ(self->id, DETACH(fd, .id = self->id));

		EXPECT_EQ(0, query(fd, &a));
		EXPECT_EQ(inside.tid, a.info.self.pid);
		EXPECT_EQ(2, a.info.nr_instances);
		EXPECT_EQ(0, a.instances[0].pid);
		EXPECT_EQ(-ENOENT, reopen_at(self->id, getpid(), variant->cpu));
		EXPECT_LE(0, reopen_at(self->id, inside.tid, variant->cpu));

		EXPECT_EQ(0, query(reopen_instance(self->id, 0), &a));
		EXPECT_EQ(0, a.info.self.pid);
		EXPECT_EQ(inside.tid, a.instances[1].pid);

		EXPECT_TRUE(target_end(&inside));
		EXPECT_EQ(0, query(fd, &a));
		EXPECT_EQ(2, a.info.self.pid);
		_exit(_metadata->exit_code);
	}
	ASSERT_TRUE(passed(child));

	ASSERT_EQ(0, query(reopen_instance(self->id, 1), &a));
	EXPECT_LT(2, a.info.self.pid);
	EXPECT_EQ(self->target.tid, a.instances[0].pid);
}

TEST_HARNESS_MAIN
