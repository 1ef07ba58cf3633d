// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: a session's tracepoints get a new filter while they count.
 */
#include <signal.h>
#include <sys/prctl.h>

#include "persistent_rights.h"

/* A system call that nobody else makes, with a field that the test chooses */
#define GETSID_ID	"/sys/kernel/tracing/events/syscalls/sys_enter_getsid/id"
#define N		100
#define ROUNDS		20
#define TOO_LONG	65537

/* The instances: the first member on two CPUs, and two more on the first CPU */
enum { HERE, THERE, SECOND, NO_TRACEPOINT, INSTANCES };

static const __u32 members[INSTANCES] = { 0, 0, 1, 2 };

/* The count of the test's calls: N with 1, 2 * N with 2 */
enum { NONE = 0, ONES = N, TWOS = 2 * N, BOTH = 3 * N };

static void call(void)
{
	int i;

	for (i = 0; i < 3 * N; i++)
		syscall(__NR_getsid, i % 3 ? 2 : 1);
}

static struct perf_event_attr getsid_attr(void)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);

	attr.config = read_number(GETSID_ID);

	return attr;
}

#define FILTER_OR(flag)	(PERF_PERSISTENT_SET_FILTER | PERF_PERSISTENT_SET_##flag)

FIXTURE(filter)
{
	struct registry		registry;
	int			fds[INSTANCES];
	int			id;
	int			view;
};

FIXTURE_SETUP(filter)
{
	struct perf_event_attr attr;
	int i;

	registry_setup(_metadata, &self->registry);
	pin(0);
	for (i = 0; i < INSTANCES; i++) {
		attr = i == NO_TRACEPOINT ? event_attr(CLOCK) : getsid_attr();
		self->fds[i] = event_open(&attr, -1, i == THERE ? HOT_CPU : 0, -1,
					  PERF_FLAG_FD_CLOEXEC);
		self->id = DETACH(self->fds[i], .id = self->id, .member = members[i]);
		ASSERT_LT(0, self->id);
	}
	self->view = reopen_instance(self->id, SECOND);
	ASSERT_LE(0, self->view);
}

FIXTURE_TEARDOWN_PARENT(filter)
{
	hot_teardown(_metadata, &self->registry);
}

static void expect_counts(struct __test_metadata *_metadata, const int *fds,
			  int here, int there, int second)
{
	const int expected[] = { here, there, second };
	__u64 before[ARRAY_LEN(expected)];
	int i;

	for (i = 0; i < ARRAY_LEN(expected); i++)
		before[i] = count(fds[i]);
	call();
	pin(HOT_CPU);
	call();
	pin(0);
	for (i = 0; i < ARRAY_LEN(expected); i++) {
		EXPECT_EQ(expected[i], count(fds[i]) - before[i]) {
			TH_LOG("instance %d", i);
		}
	}
}

#define EXPECT_COUNTS(here, there, second)	\
	expect_counts(_metadata, self->fds, here, there, second)

/* Expect the filter in all instances */
#define EXPECT_FILTERS(text) do {						\
	int _i;									\
										\
	for (_i = 0; _i < NO_TRACEPOINT; _i++)					\
		EXPECT_STREQ(text, filter_of(self->fds[_i]));			\
	EXPECT_STREQ("", filter_of(self->fds[NO_TRACEPOINT]));			\
} while (0)

/* I set, replace and remove a filter while all instances count, and the counts are exact. */
TEST_F(filter, while_it_counts)
{
	EXPECT_COUNTS(BOTH, BOTH, BOTH);
	EXPECT_FILTERS("");
	ASSERT_EQ(0, FILTER(self->view, "pid == 1"));
	EXPECT_COUNTS(ONES, ONES, ONES);
	EXPECT_FILTERS("pid == 1");
	ASSERT_EQ(0, FILTER(self->fds[NO_TRACEPOINT], "pid == 2"));
	EXPECT_COUNTS(TWOS, TWOS, TWOS);
	EXPECT_FILTERS("pid == 2");
	ASSERT_EQ(0, FILTER(self->view, "pid > 2 || pid < 1"));
	EXPECT_COUNTS(NONE, NONE, NONE);
	ASSERT_EQ(0, FILTER(self->view, ""));
	EXPECT_COUNTS(BOTH, BOTH, BOTH);
	EXPECT_FILTERS("");
	ASSERT_EQ(0, FILTER(self->view, ""));
	EXPECT_COUNTS(BOTH, BOTH, BOTH);
}

/* One member can have a filter, on every CPU that it measures. */
TEST_F(filter, one_member)
{
	ASSERT_EQ(0, FILTER(self->view, "pid == 1", .member = 1));
	EXPECT_COUNTS(ONES, ONES, BOTH);
	ASSERT_EQ(0, FILTER(self->view, "pid == 2", .member = 2));
	EXPECT_COUNTS(ONES, ONES, TWOS);
	EXPECT_STREQ("pid == 1", filter_of(self->fds[THERE]));
	EXPECT_STREQ("pid == 2", filter_of(self->fds[SECOND]));
	ASSERT_EQ(0, FILTER(self->view, "", .member = 1));
	EXPECT_COUNTS(BOTH, BOTH, TWOS);
	EXPECT_EQ(-ENOENT, FILTER(self->view, "", .member = 4));
}

/* A text that is valid for only one of two tracepoints changes neither. */
TEST_F(filter, all_or_none)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);

	ASSERT_EQ(0, FILTER(self->view, "pid == 1"));
	ASSERT_EQ(self->id, DETACH(event_open(&attr, -1, 0, -1, 0), .id = self->id, .member = 3));
	EXPECT_EQ(-EINVAL, FILTER(self->view, "pid == 2"));
	EXPECT_COUNTS(ONES, ONES, ONES);
	EXPECT_FILTERS("pid == 1");
	ASSERT_EQ(0, FILTER(self->view, "pid == 2", .member = 1));
	EXPECT_COUNTS(TWOS, TWOS, ONES);
	ASSERT_EQ(0, FILTER(self->view, "__syscall_nr >= 0"));
	EXPECT_COUNTS(BOTH, BOTH, BOTH);
	EXPECT_FILTERS("__syscall_nr >= 0");
}

/* Any filter for an event that is no tracepoint is refused, also an empty one. */
TEST_F(filter, no_tracepoint)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int fd = event_open(&attr, -1, 0, -1, 0);

	EXPECT_EQ(-EINVAL, FILTER(self->view, "pid == 1", .member = 3));
	EXPECT_EQ(-EINVAL, FILTER(self->view, "", .member = 3));
	ASSERT_LT(0, detach(fd));
	EXPECT_EQ(-EINVAL, FILTER(fd, "pid == 1"));
	EXPECT_EQ(-EINVAL, FILTER(fd, ""));
	EXPECT_COUNTS(BOTH, BOTH, BOTH);
}

/* With an invalid filter, the old one stays, and nothing else is changed. */
TEST_F(filter, bad_text)
{
	static const char * const texts[] = {
		"pid", "pid ==", "pid == x", "pid == 1 &&", "(pid == 1", "pid == 1)",
		"nosuch == 1", "comm ~ \"a", "0", "pid = 1",
	};
	char *too_long = malloc(TOO_LONG);
	int i;

	ASSERT_NE(NULL, too_long);
	memset(too_long, ' ', TOO_LONG);
	memcpy(&too_long[TOO_LONG - sizeof("pid == 2")], "pid == 2", sizeof("pid == 2"));
	ASSERT_EQ(0, FILTER(self->view, "pid == 1"));
	for (i = 0; i < ARRAY_LEN(texts); i++) {
		EXPECT_EQ(-EINVAL, FILTER(self->view, texts[i])) {
			TH_LOG("'%s'", texts[i]);
		}
		EXPECT_EQ(-EINVAL, SET(self->view, .flags = FILTER_OR(DISABLE),
				       .filter = addr(texts[i])));
	}
	EXPECT_EQ(-EINVAL, FILTER(self->view, too_long));
	EXPECT_COUNTS(ONES, ONES, ONES);
	EXPECT_FILTERS("pid == 1");
	free(too_long);
}

/* The same with an address that cannot be read. */
TEST_F(filter, bad_address)
{
	char *end = (char *)mmap(NULL, 2 * getpagesize(), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + getpagesize();

	ASSERT_EQ(0, munmap(end, getpagesize()));
	memcpy(end - 8, "pid == 2", 8);
	ASSERT_EQ(0, FILTER(self->view, "pid == 1"));
	EXPECT_EQ(-EFAULT, SET(self->view, .flags = PERF_PERSISTENT_SET_FILTER));
	EXPECT_EQ(-EFAULT, SET(self->view, .flags = PERF_PERSISTENT_SET_FILTER, .filter = 8));
	EXPECT_EQ(-EFAULT, SET(self->view, .flags = PERF_PERSISTENT_SET_FILTER, .filter = -1ULL));
	EXPECT_EQ(-EFAULT, FILTER(self->view, end - 8));
	EXPECT_EQ(-EFAULT, SET(self->view, .flags = FILTER_OR(DISABLE), .filter = 8));
	EXPECT_COUNTS(ONES, ONES, ONES);
	EXPECT_FILTERS("pid == 1");
}

/* A filter with other changes is all or nothing. */
TEST_F(filter, with_more)
{
	struct answer a;

	EXPECT_EQ(-EINVAL, SET(self->view, .flags = FILTER_OR(NAME), .filter = addr("pid == 1"),
			       .name = addr("Bad")));
	EXPECT_EQ(-EINVAL, SET(self->view, .flags = FILTER_OR(PERIOD), .filter = addr("pid == 1"),
			       .period = 0));
	EXPECT_EQ(-EOPNOTSUPP, SET(self->fds[HERE], .flags = FILTER_OR(HOLD),
				   .filter = addr("pid == 1")));
	EXPECT_COUNTS(BOTH, BOTH, BOTH);
	EXPECT_FILTERS("");

	ASSERT_EQ(0, SET(self->view, .flags = FILTER_OR(NAME), .filter = addr("pid == 1"),
			 .name = addr("good")));
	ASSERT_EQ(0, query(self->view, &a));
	EXPECT_STREQ("good", a.info.name);
	EXPECT_COUNTS(ONES, ONES, ONES);
	ASSERT_EQ(0, SET(self->view, .flags = FILTER_OR(DISABLE), .filter = addr("pid == 2")));
	EXPECT_COUNTS(NONE, NONE, NONE);
	ASSERT_EQ(0, session_enable(self->view));
	EXPECT_COUNTS(TWOS, TWOS, TWOS);
}

/* A filter that was set before DETACH is replaced like any other. */
TEST_F(filter, from_before)
{
	struct perf_event_attr attr = getsid_attr();
	int fds[] = { event_open(&attr, -1, 0, -1, 0), event_open(&attr, -1, HOT_CPU, -1, 0),
		      event_open(&attr, -1, 0, -1, 0) };
	int i, id = 0;

	for (i = 0; i < ARRAY_LEN(fds); i++) {
		ASSERT_EQ(0, event_ioctl(fds[i], PERF_EVENT_IOC_SET_FILTER, "pid == 1"));
		id = DETACH(fds[i], .id = id, .member = i);
		ASSERT_LT(0, id);
	}
	expect_counts(_metadata, fds, ONES, ONES, ONES);
	ASSERT_EQ(0, FILTER(fds[0], "pid == 2"));
	expect_counts(_metadata, fds, TWOS, TWOS, TWOS);
	EXPECT_STREQ("pid == 2", filter_of(fds[1]));

	/* The event's own ioctl sets a filter only if there is none, as ever. */
	EXPECT_EQ(-EEXIST, event_ioctl(fds[0], PERF_EVENT_IOC_SET_FILTER, "pid == 1"));
	ASSERT_EQ(0, FILTER(fds[0], ""));
	ASSERT_EQ(0, event_ioctl(fds[0], PERF_EVENT_IOC_SET_FILTER, "pid == 1"));
	expect_counts(_metadata, fds, ONES, BOTH, BOTH);
	ASSERT_EQ(0, FILTER(fds[1], "pid == 2"));
	expect_counts(_metadata, fds, TWOS, TWOS, TWOS);
}

/* An attached event keeps the filter. */
TEST_F(filter, attached)
{
	ASSERT_EQ(0, FILTER(self->view, "pid == 1"));
	ASSERT_EQ(0, attach(self->fds[HERE]));
	ASSERT_EQ(0, FILTER(self->view, "pid == 2"));
	EXPECT_COUNTS(ONES, TWOS, TWOS);
	EXPECT_EQ(-EINVAL, FILTER(self->fds[HERE], "pid == 2"));
	EXPECT_COUNTS(ONES, TWOS, TWOS);
}

/* A filter that I set while the CPU is offline is in force when it is back. */
TEST_F(filter, while_offline)
{
	ASSERT_EQ(0, FILTER(self->view, "pid == 1"));
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, FILTER(self->view, "pid == 2"));
	EXPECT_STREQ("pid == 2", filter_of(self->fds[THERE]));
	ASSERT_EQ(0, set_online(true));
	EXPECT_COUNTS(TWOS, TWOS, TWOS);
}

/* When SET returns, excluded events are no longer counted on any CPU. */
TEST_F(filter, at_once)
{
	pid_t child = fork();
	__u64 before;
	int i;

	ASSERT_LE(0, child);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(HOT_CPU);
		for (;;)
			syscall(__NR_getsid, 1);
	}
	for (i = 0; i < ROUNDS; i++) {
		before = total(self->fds[THERE]);
		ASSERT_TRUE(eventually(total(self->fds[THERE]) > before));
		ASSERT_EQ(0, FILTER(self->view, i % 2 ? "pid == 2" : "pid > 2"));
		before = total(self->fds[THERE]);
		drive(CLOCK, N);
		EXPECT_EQ(before, total(self->fds[THERE]));
		ASSERT_EQ(0, FILTER(self->view, i % 4 < 2 ? "" : "pid == 1"));
	}
	ASSERT_EQ(0, kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, NULL, 0));
}

FIXTURE(children)
{
	struct registry		registry;
	int			*turn;
	pid_t			child;
	int			id;
	int			view;
};

FIXTURE_VARIANT(children)
{
	int			cpu;
};

FIXTURE_VARIANT_ADD(children, any_cpu) { .cpu = -1 };
FIXTURE_VARIANT_ADD(children, one_cpu) { .cpu = 0 };

#define WAIT(n)	eventually(__atomic_load_n(self->turn, __ATOMIC_ACQUIRE) == (n))
#define PASS(n)	__atomic_store_n(self->turn, n, __ATOMIC_RELEASE)

/* A process and its child, which make calls in turn */
FIXTURE_SETUP(children)
{
	struct perf_event_attr attr = getsid_attr();
	pid_t child;
	int fd;

	registry_setup(_metadata, &self->registry);
	pin(0);
	self->turn = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			  -1, 0);
	ASSERT_NE(MAP_FAILED, self->turn);
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		if (!WAIT(1))
			_exit(1);
		if (fork()) {
			call();
			PASS(2);
			_exit(0);
		}
		if (!WAIT(3))
			_exit(1);
		call();
		PASS(4);
		if (!WAIT(5))
			_exit(1);
		/* A grandchild inherits the filter. */
		if (fork())
			_exit(0);
		call();
		PASS(6);
		_exit(0);
	}
	self->child = child;
	attr.inherit = 1;
	fd = event_open(&attr, child, variant->cpu, -1, 0);
	self->id = detach(fd);
	ASSERT_LT(0, self->id);
	close(fd);
	self->view = reopen(self->id);
	ASSERT_LE(0, self->view);
}

FIXTURE_TEARDOWN_PARENT(children)
{
	registry_teardown(_metadata, &self->registry);
}

/* The children of a task get the new filter too, also when the task is gone. */
TEST_F(children, follow)
{
	int status;

	ASSERT_EQ(0, FILTER(self->view, "pid == 1"));
	PASS(1);
	ASSERT_EQ(self->child, waitpid(self->child, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_TRUE(WAIT(2));
	EXPECT_EQ(ONES, count(self->view));

	ASSERT_EQ(0, FILTER(self->view, "pid == 2"));
	EXPECT_STREQ("pid == 2", filter_of(self->view));
	PASS(3);
	ASSERT_TRUE(WAIT(4));
	EXPECT_EQ(ONES + TWOS, count(self->view));
	PASS(5);
	ASSERT_TRUE(WAIT(6));
	EXPECT_EQ(ONES + 2 * TWOS, count(self->view));
}

/* When all of them have exited, there is no filter to change. */
TEST_F(children, exited)
{
	ASSERT_EQ(0, kill(self->child, SIGKILL));
	ASSERT_EQ(self->child, waitpid(self->child, NULL, 0));
	ASSERT_TRUE(eventually(state_of(self->view) == PERF_PERSISTENT_STATE_EXITED));
	EXPECT_EQ(-EALREADY, FILTER(self->view, "pid == 1"));
	EXPECT_EQ(-EALREADY, FILTER(self->view, ""));
	EXPECT_STREQ("", filter_of(self->view));
	EXPECT_EQ(0, count(self->view));
}

FIXTURE(rights)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	int			fd;
	int			id;
	int			view;
};

/* A session of USER, where everybody may measure CPUs */
FIXTURE_SETUP(rights)
{
	self->attr = getsid_attr();
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(PARANOID, 0));
	pin(0);
	ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
	self->fd = open_event(self->attr);
	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);
	self->view = reopen(self->id);
	ASSERT_LE(0, self->view);
}

FIXTURE_TEARDOWN_PARENT(rights)
{
	registry_teardown(_metadata, &self->registry);
}

/* To set a filter takes the right to control, not just to read or to hold. */
TEST_F(rights, control)
{
	__u32 bits;
	int err;

	for (bits = 0; bits <= 7; bits++) {
		ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
		ASSERT_EQ(0, session_mode(self->view, 0600 | bits));
		ASSERT_EQ(0, FILTER(self->view, "pid == 1"));
		ASSERT_EQ(0, become_in(OTHER, NOBODYS, NOBODYS));
		err = bits & 2 ? 0 : -EACCES;
		EXPECT_EQ(err, FILTER(self->view, "pid == 2"));
		EXPECT_EQ(err, FILTER(self->fd, "pid == 2"));
		EXPECT_EQ(err, SET(self->view, .flags = FILTER_OR(HOLD),
				   .filter = addr("pid == 2")));
		/* -EACCES comes before any error about the filter. */
		EXPECT_EQ(err ?: -EINVAL, FILTER(self->view, "nosuch == 1"));

		ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
		EXPECT_STREQ(err ? "pid == 1" : "pid == 2", filter_of(self->view));
	}
}

/* A filter takes the right to every instance, as all control of a session does. */
TEST_F(rights, every_instance)
{
	self->attr.sample_period = 1;
	self->attr.sample_type = PERF_SAMPLE_RAW;
	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(self->id, DETACH(open_event(self->attr), .id = self->id, .member = 1));
	ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
	EXPECT_EQ(-EACCES, FILTER(self->view, "pid == 1"));
	EXPECT_EQ(-EACCES, FILTER(self->view, "pid == 1", .member = 1));
	EXPECT_STREQ("", filter_of(self->view));
}

TEST_HARNESS_MAIN
