// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: events of tasks go on without their maker.
 */
#include "persistent_task.h"

#define N	100

FIXTURE(task)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	struct target		target;
	int			cpu;
	int			id;
	int			fd;
};

FIXTURE_VARIANT(task)
{
	enum who		who;
	bool			one_cpu;
	bool			inherit;
	enum event		event;
};

FIXTURE_VARIANT_ADD(task, own) { .who = OWN, .event = TRACEPOINT };
FIXTURE_VARIANT_ADD(task, own_faults) { .who = OWN, .event = FAULTS };

FIXTURE_VARIANT_ADD(task, own_inherit) {
	.who = OWN, .inherit = true, .event = TRACEPOINT
};

FIXTURE_VARIANT_ADD(task, own_cpu) { .who = OWN, .one_cpu = true, .event = TRACEPOINT };

FIXTURE_VARIANT_ADD(task, own_cpu_inherit) {
	.who = OWN, .one_cpu = true, .inherit = true, .event = TRACEPOINT
};

FIXTURE_VARIANT_ADD(task, process) { .who = PROCESS, .event = TRACEPOINT };
FIXTURE_VARIANT_ADD(task, process_clock) { .who = PROCESS, .event = CLOCK };
FIXTURE_VARIANT_ADD(task, cycles) { .who = PROCESS, .event = CYCLES };

FIXTURE_VARIANT_ADD(task, process_inherit) {
	.who = PROCESS, .inherit = true, .event = TRACEPOINT
};

FIXTURE_VARIANT_ADD(task, process_faults_inherit) {
	.who = PROCESS, .inherit = true, .event = FAULTS
};

FIXTURE_VARIANT_ADD(task, process_cpu) {
	.who = PROCESS, .one_cpu = true, .event = TRACEPOINT
};

FIXTURE_VARIANT_ADD(task, process_cpu_inherit) {
	.who = PROCESS, .one_cpu = true, .inherit = true, .event = TRACEPOINT
};

FIXTURE_VARIANT_ADD(task, thread) { .who = THREAD, .event = TRACEPOINT };

FIXTURE_VARIANT_ADD(task, thread_inherit) {
	.who = THREAD, .inherit = true, .event = TRACEPOINT
};

FIXTURE_VARIANT_ADD(task, thread_cpu) {
	.who = THREAD, .one_cpu = true, .event = TRACEPOINT
};

FIXTURE_VARIANT_ADD(task, thread_cpu_inherit) {
	.who = THREAD, .one_cpu = true, .inherit = true, .event = TRACEPOINT
};

FIXTURE_VARIANT_ADD(task, cycles_own_cpu) { .who = OWN, .one_cpu = true, .event = CYCLES };

FIXTURE_VARIANT_ADD(task, cycles_inherit) {
	.who = PROCESS, .inherit = true, .event = CYCLES
};

FIXTURE_VARIANT_ADD(task, cycles_thread_cpu_inherit) {
	.who = THREAD, .one_cpu = true, .inherit = true, .event = CYCLES
};

FIXTURE_SETUP(task)
{
	if (!has_event(variant->event))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);

	self->cpu = variant->one_cpu ? pin(0) : ANY_CPU;
	self->attr = event_attr(variant->event);
	self->attr.inherit = variant->inherit;
	self->target = target_start(variant->who);
	ASSERT_LT(0, self->target.tid);

	self->id = target_detach(&self->target, variant->who, &self->attr, self->cpu,
				 (struct perf_event_detach) {});
	ASSERT_LT(0, self->id);
	if (variant->who == OWN)
		ASSERT_EQ(0, ORDER(self->target.sock, CLOSE));
	self->fd = reopen(self->id);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN_PARENT(task)
{
	registry_teardown(_metadata, &self->registry);
}

#define TELL(what, ...)	\
	ORDER(self->target.sock, what, .event = variant->event, ##__VA_ARGS__)
#define TELL_CHILD(what, ...)	\
	ORDER(self->target.child, what, .event = variant->event, ##__VA_ARGS__)

/* Exactly @n more, where the event is exact, else at least @n */
#define EXPECT_MORE(n, before) do {			\
	__u64 _now = count(self->fd);			\
	__u64 _least = (before) + (n);			\
							\
	EXPECT_LE(_least, _now);			\
	if (variant->event == TRACEPOINT)		\
		EXPECT_EQ(_least, _now);		\
} while (0)

/* The event goes on counting when nobody has it open. */
TEST_F(task, goes_on_after_close)
{
	__u64 before = count(self->fd);

	close(self->fd);
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	self->fd = reopen(self->id);
	EXPECT_MORE(N, before);
}

/* PR_TASK_PERF_EVENTS_DISABLE of its maker does not disable it, not even if that is its target. */
TEST_F(task, not_disabled_with_its_maker)
{
	__u64 before = count(self->fd);

	ASSERT_EQ(0, TELL(TURN_OFF));
	ASSERT_EQ(0, prctl(PR_TASK_PERF_EVENTS_DISABLE));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_MORE(N, before);
}

/* Other tasks are not counted, nor the target on other CPUs. */
TEST_F(task, counts_the_target_alone)
{
	__u64 before;

	if (variant->event != TRACEPOINT)
		SKIP(return, "only the tracepoint counts exactly");

	before = count(self->fd);
	drive(variant->event, N);
	ASSERT_EQ(1, TELL(PIN, .value = 1));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_MORE(variant->one_cpu ? 0 : N, before);
}

/* The event goes on when the target executes another program ... */
TEST_F(task, target_execs)
{
	__u64 before = count(self->fd);

	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_EQ(0, target_program(&self->target, "/proc/self/exe"));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_MORE(2 * N, before);
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->fd));
}

/* ... unless the program is setuid and gives more rights. */
TEST_F(task, target_execs_setuid_program)
{
	struct answer a;
	__u64 before;

	ASSERT_EQ(0, TELL(BECOME, .value = USER));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	before = count(self->fd);
	ASSERT_LE(N, before);

	ASSERT_EQ(0, target_setuid_program(&self->target));
	if (variant->event == TRACEPOINT)
		EXPECT_EQ(before, count(self->fd));
	before = count(self->fd);
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_EQ(before, count(self->fd));

	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, a.info.self.state);
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, a.info.ended);
	EXPECT_EQ(self->target.pid, a.info.self.pid);
	EXPECT_EQ(before, count(reopen_at(self->id, self->target.pid, self->cpu)));
}

/* Exec without more rights changes nothing, also as another user. */
TEST_F(task, user_execs)
{
	__u64 before = count(self->fd);

	ASSERT_EQ(0, TELL(BECOME, .value = USER));
	ASSERT_EQ(0, target_program(&self->target, "/proc/self/exe"));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_MORE(N, before);
}

/* The pid of the target opens the event, and no other pid does. */
TEST_F(task, reopen_by_pid)
{
	int tid = self->target.tid, cpu = self->cpu;
	__u64 id = 0, reopened = 0;
	int fd;

	fd = reopen_at(self->id, tid, cpu);
	ASSERT_LE(0, fd);
	EXPECT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ID, &id));
	EXPECT_EQ(0, event_ioctl(fd, PERF_EVENT_IOC_ID, &reopened));
	EXPECT_EQ(id, reopened);

	EXPECT_EQ(-ENOENT, reopen_at(self->id, tid, variant->one_cpu ? ANY_CPU : 0));
	EXPECT_EQ(-ENOENT, reopen_at(self->id, tid, 1));
	EXPECT_EQ(-ENOENT, reopen_at(self->id, -1, 0));
	EXPECT_EQ(-ENOENT, reopen_at(self->id, getpid(), cpu));
	EXPECT_EQ(-ENOENT, reopen_at(self->id, 0, cpu));
	EXPECT_EQ(-ESRCH, reopen_at(self->id, INT_MAX, cpu));
	EXPECT_EQ(-EINVAL, reopen_at(self->id, -2, cpu));
	EXPECT_EQ(-EINVAL, reopen_at(self->id | 1ULL << PERF_PERSISTENT_INSTANCE_SHIFT, tid, cpu));
	EXPECT_LE(0, TELL(REOPEN_OWN, .value = self->id, .cpu = cpu));
	if (variant->who == THREAD)
		EXPECT_EQ(-ENOENT, reopen_at(self->id, self->target.pid, cpu));
}

/* I am told which task it measures, and where. */
TEST_F(task, query)
{
	struct answer a;

	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(self->target.tid, a.info.self.pid);
	EXPECT_EQ(self->cpu, a.info.self.cpu);
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, a.info.self.state);
	EXPECT_EQ(0, a.info.ended);
	EXPECT_EQ(variant->inherit, (bool)a.attr.inherit);
	ASSERT_EQ(1, a.info.nr_instances);
	EXPECT_EQ(0, memcmp(&a.info.self, &a.instances[0],
			    offsetof(struct perf_persistent_info, count)));
	EXPECT_EQ(0, a.info.cgroup_size);
	EXPECT_EQ(0, a.info.buffer_pages);
}

/* Children are counted if I asked for it, whether they have exited or not. */
TEST_F(task, children)
{
	int times = variant->inherit ? 3 : 1;
	__u64 before = count(self->fd);

	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_LT(0, TELL(FORK, .value = N));
	ASSERT_LT(0, TELL(SPAWN));
	ASSERT_EQ(0, TELL_CHILD(DRIVE, .value = N));
	EXPECT_MORE(times * N, before);
	EXPECT_EQ(1, registry_count("ids"));
}

/* Disabling and enabling reach the children, and a view's count includes theirs. */
TEST_F(task, controls_children)
{
	int times = variant->inherit ? 2 : 1;
	__u64 before;

	ASSERT_LT(0, TELL(SPAWN));
	ASSERT_EQ(0, session_disable(self->fd));
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(self->fd));
	before = count(self->fd);
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_EQ(0, TELL_CHILD(DRIVE, .value = N));
	EXPECT_EQ(before, count(self->fd));

	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_RESET, NULL));
	EXPECT_EQ(0, count(self->fd));
	ASSERT_EQ(0, session_enable(self->fd));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_EQ(0, TELL_CHILD(DRIVE, .value = N));
	EXPECT_MORE(times * N, 0);
}

/* A member measures a task on a CPU once, and can measure other tasks. */
TEST_F(task, join)
{
	struct target other = target_start(variant->who);
	int cpu = self->cpu, elsewhere = variant->one_cpu ? 1 : 0;
	struct perf_event_detach d = { .id = self->id };

#define JOIN(target, cpu)	target_detach(target, variant->who, &self->attr, cpu, d)

	EXPECT_EQ(-EEXIST, JOIN(&self->target, cpu));
	EXPECT_EQ(self->id, JOIN(&other, cpu));
	EXPECT_EQ(-EEXIST, JOIN(&other, cpu));
	EXPECT_EQ(self->id, JOIN(&self->target, elsewhere));
	EXPECT_EQ(-EEXIST, JOIN(&self->target, elsewhere));
	d.member = 1;
	EXPECT_EQ(self->id, JOIN(&self->target, cpu));

	EXPECT_LE(0, reopen_at(self->id, self->target.tid, cpu));
	EXPECT_LE(0, reopen_at(self->id, self->target.tid, elsewhere));
	EXPECT_LE(0, reopen_at(self->id, other.tid, cpu));
	EXPECT_EQ(-EINVAL, reopen(self->id));
}

/* attr.persistent works for events of tasks; the events of children are not persistent. */
TEST_F(task, persistent_at_open)
{
	struct answer a;

	self->attr.persistent = 1;
	self->fd = event_open(&self->attr, self->target.tid, self->cpu, -1, 0);
	ASSERT_LE(0, self->fd);
	EXPECT_EQ(-EEXIST, detach(self->fd));
	EXPECT_EQ(2, registry_count("ids"));

	ASSERT_LT(0, TELL(SPAWN));
	EXPECT_EQ(2, registry_count("ids"));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(1, a.info.nr_instances);

	close(self->fd);
	self->fd = reopen(a.info.self.id);
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_MORE(N, 0);
}

/* Holding the event holds its children's, and releasing it releases them. */
TEST_F(task, hold)
{
	int times = variant->inherit ? 2 : 1;
	int fd = reopen(self->id);
	__u64 before;

	ASSERT_LT(0, TELL(SPAWN));
	ASSERT_EQ(0, hold(fd));
	EXPECT_EQ(PERF_PERSISTENT_STATE_HELD, state_of(self->fd));
	before = count(self->fd);
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_EQ(0, TELL_CHILD(DRIVE, .value = N));
	EXPECT_EQ(before, count(self->fd));

	close(fd);
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_EQ(0, TELL_CHILD(DRIVE, .value = N));
	EXPECT_MORE(times * N, before);
}

/* An event with remove_on_exec ends at exec, and leaves its count. */
TEST_F(task, remove_on_exec)
{
	if (variant->event != TRACEPOINT || variant->inherit)
		SKIP(return, "one kind of event is enough");

	/* Leave nothing else in its context */
	stop(self->id);
	close(self->fd);
	self->attr.remove_on_exec = 1;
	self->id = target_detach(&self->target, variant->who, &self->attr, self->cpu,
				 (struct perf_event_detach) {});
	ASSERT_LT(0, self->id);
	self->fd = reopen(self->id);
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_EQ(0, target_program(&self->target, "/proc/self/exe"));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_MORE(N, 0);
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, state_of(self->fd));

	/* It is in no context, so holding it has no effect. */
	EXPECT_EQ(0, TELL(HOLD_OWN, .value = self->id));
}

/* An event with enable_on_exec starts at exec, or when it is released. */
TEST_F(task, enable_on_exec)
{
	int fd;

	self->attr.disabled = 1;
	self->attr.enable_on_exec = 1;
	self->id = target_detach(&self->target, variant->who, &self->attr, self->cpu,
				 (struct perf_event_detach) {});
	ASSERT_LT(0, self->id);
	self->fd = reopen(self->id);
	fd = reopen(self->id);
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_EQ(0, count(self->fd));
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(self->fd));

	ASSERT_EQ(0, hold(fd));
	ASSERT_EQ(0, target_program(&self->target, "/proc/self/exe"));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_EQ(0, count(self->fd));
	close(fd);
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->fd));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_MORE(N, 0);
}

/* If the CPU goes offline, the target moves away; back on that CPU, it is counted again. */
TEST_F(task, offline)
{
	const char *online = "/sys/devices/system/cpu/cpu1/online";
	__u64 before;
	int id;

	id = target_detach(&self->target, variant->who, &self->attr, 1,
			   (struct perf_event_detach) {});
	ASSERT_LT(0, id);
	self->fd = reopen(id);
	ASSERT_EQ(1, TELL(PIN, .value = 1));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_MORE(N, 0);

	ASSERT_EQ(0, write_file(online, "0"));
	before = count(self->fd);
	EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, state_of(self->fd));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_EQ(before, count(self->fd));
	ASSERT_EQ(0, write_file(online, "1"));

	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->fd));
	ASSERT_EQ(1, TELL(PIN, .value = 1));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_MORE(N, before);
}

TEST_HARNESS_MAIN
