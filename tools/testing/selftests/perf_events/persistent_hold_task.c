// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: held with their children, their group, and the CPU
 * that they are on.
 */
#include <signal.h>

#include "persistent.h"

#define N	100
#define ROUNDS	50
#define SOON	50000000ULL
#define ANY_CPU	-1

FIXTURE(inherited)
{
	struct registry		registry;
	int			fd;
	int			id;
	int			holder;
	int			commands[2], answers[2];
	pid_t			child;
};

FIXTURE_VARIANT(inherited)
{
	bool			on_exec;
};

FIXTURE_VARIANT_ADD(inherited, enabled) { .on_exec = false };
FIXTURE_VARIANT_ADD(inherited, enable_on_exec) { .on_exec = true };

/* Fork children and their children, as long as I live */
static void storm(void)
{
	if (fork())
		return;
	while (getppid() != 1) {
		if (!fork()) {
			fork();
			drive(TRACEPOINT, 10);
			_exit(0);
		}
		while (wait(NULL) > 0)
			;
	}
	_exit(0);
}

/*
 * Execute commands in the target, and answer each when it is started. After a fork
 * the child takes commands, and the parent waits for its end.
 */
static void obey(int commands, int answers)
{
	char command = 0, in[16], out[16];

	snprintf(in, sizeof(in), "%d", commands);
	snprintf(out, sizeof(out), "%d", answers);
	do {
		switch (command) {
		case 'd':
			drive(TRACEPOINT, N);
			break;
		case 'f':
			if (fork()) {
				while (wait(NULL) > 0)
					;
				_exit(0);
			}
			break;
		case 's':
			storm();
			break;
		case 'x':
			execl("/proc/self/exe", "persistent_hold_task", "obey", in, out, NULL);
			break;
		}
		write(answers, &command, 1);
	} while (read(commands, &command, 1) == 1);
	_exit(0);
}

#define TELL(command) do {					\
	char _answer;						\
								\
	ASSERT_EQ(1, write(self->commands[1], command, 1));	\
	ASSERT_EQ(1, read(self->answers[0], &_answer, 1));	\
} while (0)

/* A process whose event is enabled already, or will be at its next exec */
FIXTURE_SETUP(inherited)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	pid_t child;
	char begun;

	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, pipe(self->commands));
	ASSERT_EQ(0, pipe(self->answers));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		close(self->commands[1]);
		obey(self->commands[0], self->answers[1]);
	}
	close(self->commands[0]);
	close(self->answers[1]);
	self->child = child;
	ASSERT_EQ(1, read(self->answers[0], &begun, 1));

	attr.inherit = 1;
	attr.disabled = variant->on_exec;
	attr.enable_on_exec = variant->on_exec;
	self->fd = event_open(&attr, self->child, ANY_CPU, -1, PERF_FLAG_FD_CLOEXEC);
	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);
	self->holder = reopen(self->id);
	ASSERT_LE(0, self->holder);
}

FIXTURE_TEARDOWN_PARENT(inherited)
{
	registry_teardown(_metadata, &self->registry);
}

/* An existing child stops and goes on with its parent. */
TEST_F(inherited, existing_child)
{
	TELL("x");
	TELL("f");
	TELL("d");
	EXPECT_EQ(N, count(self->fd));
	ASSERT_EQ(0, hold(self->holder));
	EXPECT_EQ(PERF_PERSISTENT_STATE_HELD, state_of(self->fd));
	TELL("d");
	EXPECT_EQ(N, count(self->fd));
	close(self->holder);
	TELL("d");
	EXPECT_EQ(2 * N, count(self->fd));
}

/* A child that is forked while the event is held counts when the others go on. */
TEST_F(inherited, new_child)
{
	TELL("x");
	ASSERT_EQ(0, hold(self->holder));
	TELL("f");
	TELL("d");
	TELL("f");
	TELL("d");
	EXPECT_EQ(0, count(self->fd));
	close(self->holder);
	TELL("d");
	EXPECT_EQ(N, count(self->fd));
	TELL("f");
	TELL("d");
	EXPECT_EQ(2 * N, count(self->fd));
}

/* An enable_on_exec event whose task executes while held counts after that. */
TEST_F(inherited, exec_meanwhile)
{
	ASSERT_EQ(0, hold(self->holder));
	TELL("x");
	TELL("d");
	EXPECT_EQ(0, count(self->fd));
	EXPECT_EQ(PERF_PERSISTENT_STATE_HELD, state_of(self->fd));
	close(self->holder);
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->fd));
	TELL("d");
	EXPECT_EQ(N, count(self->fd));
}

/* The same if a child executes a program. */
TEST_F(inherited, child_execs_meanwhile)
{
	TELL("f");
	ASSERT_EQ(0, hold(self->holder));
	TELL("x");
	TELL("d");
	EXPECT_EQ(0, count(self->fd));
	close(self->holder);
	TELL("d");
	EXPECT_EQ(N, count(self->fd));
}

/* A new process starts in the state of its parent, not of the first process. */
TEST_F(inherited, child_of_child)
{
	TELL("f");
	TELL("x");
	TELL("d");
	EXPECT_EQ(N, count(self->fd));
	ASSERT_EQ(0, hold(self->holder));
	TELL("f");
	TELL("d");
	EXPECT_EQ(N, count(self->fd));
	close(self->holder);
	TELL("d");
	EXPECT_EQ(2 * N, count(self->fd));
}

/* Disabling or enabling a held event reaches all children, and takes effect after. */
TEST_F(inherited, controlled_meanwhile)
{
	TELL("x");
	TELL("f");
	ASSERT_EQ(0, hold(self->holder));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	TELL("f");
	close(self->holder);
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(self->fd));
	TELL("d");
	EXPECT_EQ(0, count(self->fd));

	self->holder = reopen(self->id);
	ASSERT_EQ(0, hold(self->holder));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ENABLE, NULL));
	TELL("d");
	EXPECT_EQ(0, count(self->fd));
	close(self->holder);
	TELL("d");
	EXPECT_EQ(N, count(self->fd));
}

/* The count of a child that exits while the event is held is kept. */
TEST_F(inherited, exits_meanwhile)
{
	TELL("x");
	TELL("f");
	TELL("d");
	ASSERT_EQ(0, hold(self->holder));
	close(self->commands[1]);
	ASSERT_EQ(self->child, waitpid(self->child, NULL, 0));
	EXPECT_EQ(N, count(self->fd));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, state_of(self->fd));
	close(self->holder);
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, state_of(self->fd));
	EXPECT_EQ(N, count(self->fd));
}

/* No child counts while the event is held, though children are forked all the time. */
TEST_F_TIMEOUT(inherited, while_forking, 120)
{
	__u64 before;
	int i;

	TELL("x");
	TELL("s");
	for (i = 0; i < ROUNDS; i++) {
		before = count(self->fd);
		ASSERT_TRUE(eventually(count(self->fd) > before));
		ASSERT_EQ(0, hold(self->holder));
		before = count(self->fd);
		drive(CLOCK, N);
		/* As with DISABLE, each CPU may still finish one event. */
		EXPECT_LE(count(self->fd), before + sysconf(_SC_NPROCESSORS_ONLN));
		close(self->holder);
		self->holder = reopen(self->id);
	}
	ASSERT_EQ(0, kill(self->child, SIGKILL));
	ASSERT_EQ(self->child, waitpid(self->child, NULL, 0));
}

FIXTURE(group)
{
	struct registry		registry;
	int			leader, sibling;
	int			id;
};

FIXTURE_VARIANT(group)
{
	bool			task;
	enum event		event;
};

FIXTURE_VARIANT_ADD(group, cpu) { .event = TRACEPOINT };
FIXTURE_VARIANT_ADD(group, task) { .event = TRACEPOINT, .task = true };
FIXTURE_VARIANT_ADD(group, cycles) { .event = CYCLES };
FIXTURE_VARIANT_ADD(group, cycles_task) { .event = CYCLES, .task = true };

FIXTURE_SETUP(group)
{
	struct perf_event_attr attr = event_attr(variant->event);
	int pid = variant->task ? 0 : -1, cpu = variant->task ? ANY_CPU : 0;

	if (!has_event(variant->event))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);
	pin(0);
	attr.disabled = 1;
	self->leader = event_open(&attr, pid, cpu, -1, 0);
	attr.disabled = 0;
	self->sibling = event_open(&attr, pid, cpu, self->leader, 0);
	self->id = detach(self->leader);
	ASSERT_LT(0, self->id);
	ASSERT_EQ(self->id, DETACH(self->sibling, .id = self->id, .member = 1));
	ASSERT_EQ(0, event_ioctl(self->leader, PERF_EVENT_IOC_ENABLE, NULL));
}

FIXTURE_TEARDOWN_PARENT(group)
{
	registry_teardown(_metadata, &self->registry);
}

/* Expect exactly @n more, where the event is exact, or none */
static void expect_more(struct __test_metadata *_metadata, enum event event, int fd,
			__u64 before, __u64 n)
{
	__u64 now = count(fd);

	EXPECT_LE(before + n, now);
	if (event == TRACEPOINT || !n)
		EXPECT_EQ(before + n, now);
}

#define EXPECT_BOTH(n, m) do {								\
	__u64 _leader = count(self->leader), _sibling = count(self->sibling);		\
											\
	drive(variant->event, N);							\
	expect_more(_metadata, variant->event, self->leader, _leader, n);		\
	expect_more(_metadata, variant->event, self->sibling, _sibling, m);		\
} while (0)

/* The whole group is held, through whichever member I opened. */
TEST_F(group, all)
{
	int i, fd;

	for (i = 0; i < 2; i++) {
		fd = reopen_instance(self->id, i);
		EXPECT_BOTH(N, N);
		ASSERT_EQ(0, hold(fd));
		EXPECT_EQ(PERF_PERSISTENT_STATE_HELD, state_of(self->leader));
		EXPECT_EQ(PERF_PERSISTENT_STATE_HELD, state_of(self->sibling));
		EXPECT_BOTH(0, 0);
		close(fd);
		EXPECT_BOTH(N, N);
	}
}

/* Holding the leader stops its group. */
TEST_F(group, leader)
{
	int fd = reopen_instance(self->id, 1);

	EXPECT_BOTH(N, N);
	ASSERT_EQ(0, hold_member(fd, 0));
	EXPECT_BOTH(0, 0);
	close(fd);
	EXPECT_BOTH(N, N);
}

/* Holding a sibling stops that one alone. */
TEST_F(group, sibling)
{
	int fd = reopen_instance(self->id, 0);

	ASSERT_EQ(0, hold_member(fd, 1));
	EXPECT_BOTH(N, 0);
	close(fd);
	EXPECT_BOTH(N, N);
}

FIXTURE(offline)
{
	struct registry		registry;
	int			fd;
	int			id;
	int			holder;
};

FIXTURE_VARIANT(offline)
{
	enum event		event;
};

FIXTURE_VARIANT_ADD(offline, tracepoint) { .event = TRACEPOINT };
FIXTURE_VARIANT_ADD(offline, cycles) { .event = CYCLES };

FIXTURE_SETUP(offline)
{
	struct perf_event_attr attr = event_attr(variant->event);

	if (!has_event(variant->event))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);
	pin(0);
	self->fd = event_open(&attr, -1, HOT_CPU, -1, 0);
	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);
	self->holder = reopen(self->id);
}

FIXTURE_TEARDOWN_PARENT(offline)
{
	hot_teardown(_metadata, &self->registry);
}

#define EXPECT_THERE(n, state) do {						\
	__u64 _before = count(self->fd);					\
										\
	drive_there(variant->event, N);						\
	expect_more(_metadata, variant->event, self->fd, _before, n);		\
	EXPECT_EQ(state, state_of(self->fd));					\
} while (0)

/* A held event stays held when its CPU goes offline and comes back. */
TEST_F(offline, cpu_comes_and_goes)
{
	ASSERT_EQ(0, hold(self->holder));
	ASSERT_EQ(0, set_online(false));
	EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, state_of(self->fd));
	ASSERT_EQ(0, set_online(true));
	EXPECT_THERE(0, PERF_PERSISTENT_STATE_HELD);
	close(self->holder);
	EXPECT_THERE(N, PERF_PERSISTENT_STATE_ENABLED);
}

/* An event that I hold while its CPU is offline does not count when the CPU is back. */
TEST_F(offline, held_while_offline)
{
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, hold(self->holder));
	EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, state_of(self->fd));
	ASSERT_EQ(0, set_online(true));
	EXPECT_THERE(0, PERF_PERSISTENT_STATE_HELD);
	close(self->holder);
	EXPECT_THERE(N, PERF_PERSISTENT_STATE_ENABLED);
}

/* When I release it before the CPU is back, it goes on when the CPU is ... */
TEST_F(offline, resumed_while_offline)
{
	ASSERT_EQ(0, hold(self->holder));
	ASSERT_EQ(0, set_online(false));
	close(self->holder);
	EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, state_of(self->fd));
	ASSERT_EQ(0, set_online(true));
	EXPECT_THERE(N, PERF_PERSISTENT_STATE_ENABLED);
}

/* ... also if I held it after the CPU went offline ... */
TEST_F(offline, all_while_offline)
{
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, hold(self->holder));
	close(self->holder);
	ASSERT_EQ(0, set_online(true));
	EXPECT_THERE(N, PERF_PERSISTENT_STATE_ENABLED);
}

/* ... and commands given while it was held take effect. */
TEST_F(offline, told_between)
{
	ASSERT_EQ(0, hold(self->holder));
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, set_online(true));
	EXPECT_THERE(0, PERF_PERSISTENT_STATE_HELD);
	close(self->holder);
	EXPECT_THERE(0, PERF_PERSISTENT_STATE_DISABLED);
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ENABLE, NULL));
	EXPECT_THERE(N, PERF_PERSISTENT_STATE_ENABLED);
}

/* The children of a task that has exited are held as well, and go on again. */
TEST(exited_parent)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int go[2], fd, id, view;
	__u64 before;
	pid_t pid;
	char c;

	ASSERT_EQ(0, pipe(go));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		setpgid(0, 0);
		if (read(go[0], &c, 1) == 1 && !fork()) {
			for (;;)
				drive(TRACEPOINT, 1);
		}
		_exit(0);
	}
	attr.inherit = 1;
	fd = event_open(&attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	id = detach(fd);
	ASSERT_LT(0, id);
	ASSERT_EQ(1, write(go[1], "x", 1));
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	ASSERT_TRUE(eventually(count(fd) > 0));

	view = reopen(id);
	ASSERT_EQ(0, hold(view));
	EXPECT_EQ(PERF_PERSISTENT_STATE_HELD, state_of(fd));
	before = count(fd);
	drive(CLOCK, N);
	EXPECT_EQ(before, count(fd));
	close(view);
	EXPECT_TRUE(eventually(count(fd) > before));
	EXPECT_EQ(0, kill(-pid, SIGKILL));
	EXPECT_EQ(0, attach(fd));
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "obey"))
		obey(atoi(argv[2]), atoi(argv[3]));

	return test_harness_run(argc, argv);
}
