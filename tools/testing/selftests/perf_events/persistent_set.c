// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: a session is controlled as a whole, or member by member.
 */
#include <signal.h>

#include "persistent.h"

#define N	100
#define ROUNDS	20
#define PAGES	16
#define HOUR	3600000000000ULL

/* The instances: the first member on two CPUs, and two more on the first CPU */
enum { COUNTING, THERE, SAMPLING, OTHER_ONE, INSTANCES };

static const __u32 members[INSTANCES] = { 0, 0, 1, 2 };

/* Bits for sets of instances */
#define ONLY(instance)	(1U << (instance))
#define ALL		(ONLY(INSTANCES) - 1)

FIXTURE(set)
{
	struct registry		registry;
	struct ring		ring;
	int			fds[INSTANCES];
	int			id;
	int			view;
};

FIXTURE_SETUP(set)
{
	struct perf_event_attr attr;
	int i;

	registry_setup(_metadata, &self->registry);
	pin(0);
	for (i = 0; i < INSTANCES; i++) {
		attr = i == SAMPLING ? sampling_attr(TRACEPOINT) : event_attr(TRACEPOINT);
		self->fds[i] = event_open(&attr, -1, i == THERE ? HOT_CPU : 0, -1,
					  PERF_FLAG_FD_CLOEXEC);
		self->id = DETACH(self->fds[i], .id = self->id, .member = members[i],
				  .buffer_pages = i == SAMPLING ? PAGES : 0);
		ASSERT_LT(0, self->id);
	}
	self->view = reopen_instance(self->id, OTHER_ONE);
	ASSERT_LE(0, self->view);
	ASSERT_EQ(0, ring_map(&self->ring, self->fds[SAMPLING], PAGES, PROT_READ | PROT_WRITE));
}

FIXTURE_TEARDOWN_PARENT(set)
{
	hot_teardown(_metadata, &self->registry);
}

/* Expect these instances to count, and the others to be in that state */
static void expect_counting(struct __test_metadata *_metadata, const int *fds, unsigned int set,
			    int other_state)
{
	__u64 before[INSTANCES];
	int i;

	for (i = 0; i < INSTANCES; i++)
		before[i] = count(fds[i]);
	drive(TRACEPOINT, N);
	drive_there(TRACEPOINT, N);
	for (i = 0; i < INSTANCES; i++) {
		EXPECT_EQ(before[i] + (set & ONLY(i) ? N : 0), count(fds[i])) {
			TH_LOG("instance %d", i);
		}
		EXPECT_EQ(set & ONLY(i) ? PERF_PERSISTENT_STATE_ENABLED : other_state,
			  state_of(fds[i]));
	}
}

#define EXPECT_COUNTING(set, other)	expect_counting(_metadata, self->fds, set, other)
#define EXPECT_DISABLED_BUT(set)	EXPECT_COUNTING(set, PERF_PERSISTENT_STATE_DISABLED)
#define EXPECT_HELD_BUT(set)		EXPECT_COUNTING(set, PERF_PERSISTENT_STATE_HELD)
#define EXPECT_ALL_COUNT()		EXPECT_COUNTING(ALL, -1)

static int set_member(int fd, __u32 flags, __u32 member)
{
	return SET(fd, .flags = flags, .member = member + 1);
}

/* Any file on any of its events disables and enables the whole session. */
TEST_F(set, enable_and_disable)
{
	int i, fd;

	for (i = 0; i < INSTANCES; i++) {
		fd = reopen_instance(self->id, i);
		ASSERT_EQ(0, session_disable(fd));
		EXPECT_DISABLED_BUT(0);
		ASSERT_EQ(0, session_enable(self->fds[i]));
		EXPECT_ALL_COUNT();
		ASSERT_EQ(0, session_disable(self->fds[i]));
		EXPECT_DISABLED_BUT(0);
		ASSERT_EQ(0, session_enable(fd));
		EXPECT_ALL_COUNT();
	}
}

/* One member can be controlled, on all its CPUs, through the file of another. */
TEST_F(set, one_member)
{
	ASSERT_EQ(0, set_member(self->view, PERF_PERSISTENT_SET_DISABLE, 0));
	EXPECT_DISABLED_BUT(ONLY(SAMPLING) | ONLY(OTHER_ONE));
	ASSERT_EQ(0, set_member(self->view, PERF_PERSISTENT_SET_DISABLE, 1));
	EXPECT_DISABLED_BUT(ONLY(OTHER_ONE));
	ASSERT_EQ(0, set_member(self->view, PERF_PERSISTENT_SET_ENABLE, 0));
	EXPECT_DISABLED_BUT(ONLY(COUNTING) | ONLY(THERE) | ONLY(OTHER_ONE));
	ASSERT_EQ(0, session_enable(self->view));
	EXPECT_ALL_COUNT();
}

/* Enabling twice or disabling twice is no error. */
TEST_F(set, twice)
{
	ASSERT_EQ(0, session_enable(self->view));
	EXPECT_ALL_COUNT();
	ASSERT_EQ(0, event_ioctl(self->fds[COUNTING], PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, session_disable(self->view));
	ASSERT_EQ(0, session_disable(self->view));
	EXPECT_DISABLED_BUT(0);
	ASSERT_EQ(0, event_ioctl(self->fds[THERE], PERF_EVENT_IOC_ENABLE, NULL));
	EXPECT_DISABLED_BUT(ONLY(THERE));
	ASSERT_EQ(0, session_enable(self->view));
	EXPECT_ALL_COUNT();
}

/* When SET returns, a disabled session no longer counts on any CPU. */
TEST_F(set, off_at_once)
{
	pid_t child = fork();
	__u64 before;
	int i;

	ASSERT_LE(0, child);
	while (!child)
		drive_there(TRACEPOINT, N);
	for (i = 0; i < ROUNDS; i++) {
		before = count(self->fds[THERE]);
		ASSERT_TRUE(eventually(count(self->fds[THERE]) > before));
		ASSERT_EQ(0, session_disable(self->view));
		before = total(self->fds[THERE]);
		drive(CLOCK, N);
		EXPECT_EQ(before, total(self->fds[THERE]));
		ASSERT_EQ(0, session_enable(self->view));
	}
	ASSERT_EQ(0, kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, NULL, 0));
}

/* Disabling and enabling while the CPU is offline take effect when it is back. */
TEST_F(set, while_offline)
{
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, session_disable(self->view));
	EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, state_of(self->fds[THERE]));
	ASSERT_EQ(0, set_online(true));
	EXPECT_DISABLED_BUT(0);
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, session_enable(self->view));
	ASSERT_EQ(0, set_online(true));
	EXPECT_ALL_COUNT();
}

/* The number of samples from @n events */
static unsigned int samples_of(struct ring *r, unsigned int n)
{
	r->page->data_tail = ring_head(r);
	drive(TRACEPOINT, n);

	return ring_samples(r);
}

/* A period applies to all sampling members, or to one member. */
TEST_F(set, period)
{
	EXPECT_EQ(N, samples_of(&self->ring, N));
	ASSERT_EQ(0, session_period(self->view, 10));
	samples_of(&self->ring, 10);
	EXPECT_EQ(N / 10, samples_of(&self->ring, N));
	ASSERT_EQ(0, SET(self->fds[0], .flags = PERF_PERSISTENT_SET_PERIOD, .period = 2,
			 .member = 1 + members[SAMPLING]));
	samples_of(&self->ring, 10);
	EXPECT_EQ(N / 2, samples_of(&self->ring, N));
	EXPECT_ALL_COUNT();
}

/* The period of a counting member cannot be set, and 0 is refused. */
TEST_F(set, no_period)
{
	EXPECT_EQ(-EINVAL, SET(self->view, .flags = PERF_PERSISTENT_SET_PERIOD, .period = 10,
			       .member = 1 + members[COUNTING]));
	EXPECT_EQ(-EINVAL, session_period(self->view, 0));
	EXPECT_EQ(N, samples_of(&self->ring, N));
	ASSERT_EQ(0, attach(self->fds[SAMPLING]));
	EXPECT_EQ(-EINVAL, session_period(self->view, 10));
}

/* If one sampling member refuses the period, none gets it. */
TEST_F(set, period_for_all_or_none)
{
	struct perf_event_attr attr = sampling_attr(FAULTS);
	__u64 most = read_number("/proc/sys/kernel/perf_event_max_sample_rate");

	attr.freq = 1;
	attr.sample_freq = 10;
	ASSERT_EQ(self->id, DETACH(event_open(&attr, -1, 0, -1, 0), .id = self->id,
				   .member = 5, .buffer_pages = 1));
	EXPECT_EQ(-EINVAL, session_period(self->view, 2 * most));
	EXPECT_EQ(N, samples_of(&self->ring, N));
}

/* Several changes are made together, or not at all. */
TEST_F(set, all_or_nothing)
{
	struct answer a;

	EXPECT_EQ(-EINVAL, SET(self->view, .name = addr("Bad"),
			       .flags = PERF_PERSISTENT_SET_DISABLE | PERF_PERSISTENT_SET_NAME));
	EXPECT_EQ(-EINVAL, SET(self->view, .ttl = -1ULL,
			       .flags = PERF_PERSISTENT_SET_DISABLE | PERF_PERSISTENT_SET_TTL));
	EXPECT_EQ(-EINVAL, SET(self->view, .period = 0,
			       .flags = PERF_PERSISTENT_SET_DISABLE | PERF_PERSISTENT_SET_PERIOD));
	EXPECT_EQ(-EINVAL, SET(self->view, .mode = 01000,
			       .flags = PERF_PERSISTENT_SET_DISABLE | PERF_PERSISTENT_SET_MODE));
	EXPECT_EQ(-EOPNOTSUPP, SET(self->fds[0], .flags = PERF_PERSISTENT_SET_DISABLE |
							  PERF_PERSISTENT_SET_HOLD));
	EXPECT_ALL_COUNT();
	EXPECT_EQ(-ENOENT, SET(self->view, .name = addr("other"), .ttl = HOUR, .member = 100,
			       .flags = PERF_PERSISTENT_SET_DISABLE | PERF_PERSISTENT_SET_NAME |
					PERF_PERSISTENT_SET_TTL));
	ASSERT_EQ(0, query(self->view, &a));
	EXPECT_STRNE("other", a.info.name);
	EXPECT_EQ(0, a.info.ttl);

	ASSERT_EQ(0, SET(self->view, .name = addr("other"), .ttl = HOUR, .period = 10,
			 .mode = 0640, .flags = PERF_PERSISTENT_SET_DISABLE |
			 PERF_PERSISTENT_SET_NAME | PERF_PERSISTENT_SET_TTL |
			 PERF_PERSISTENT_SET_PERIOD | PERF_PERSISTENT_SET_MODE));
	ASSERT_EQ(0, query(self->view, &a));
	EXPECT_STREQ("other", a.info.name);
	EXPECT_NE(0, a.info.ttl);
	EXPECT_EQ(0640, a.info.mode);
	EXPECT_DISABLED_BUT(0);
}

/* Unknown members, unknown flags and contradicting flags are refused, and change nothing. */
TEST_F(set, refused)
{
	static const __u32 flags[] = {
		PERF_PERSISTENT_SET_ENABLE, PERF_PERSISTENT_SET_DISABLE,
		PERF_PERSISTENT_SET_PERIOD, PERF_PERSISTENT_SET_HOLD,
		PERF_PERSISTENT_SET_FILTER, PERF_PERSISTENT_SET_MARK,
		PERF_PERSISTENT_SET_CLEAR,
	};
	int i;

	for (i = 0; i < ARRAY_LEN(flags); i++) {
		EXPECT_EQ(-ENOENT, SET(self->view, .flags = flags[i], .member = 4, .period = 1,
				       .filter = addr(""), .mark = addr("mark")));
		EXPECT_EQ(-ENOENT, SET(self->view, .flags = flags[i], .member = UINT_MAX,
				       .period = 1, .filter = addr(""), .mark = addr("mark")));
		EXPECT_EQ(-EINVAL, SET(self->view, .flags = flags[i], .period = 1,
				       .filter = addr(""), .mark = addr("mark"),
				       .__reserved = 1));
	}
	EXPECT_EQ(-EINVAL, SET(self->view, .flags = PERF_PERSISTENT_SET_ENABLE |
						    PERF_PERSISTENT_SET_DISABLE));
	for (i = 13; i < 32; i++)
		EXPECT_EQ(-EINVAL, SET(self->view, .flags = 1U << i |
						  PERF_PERSISTENT_SET_DISABLE));
	EXPECT_EQ(0, SET(self->view, .flags = 0));
	EXPECT_ALL_COUNT();
}

/* Files of an attached event or an expired session control nothing. */
TEST_F(set, after_its_end)
{
	int view = reopen_instance(self->id, COUNTING);

	ASSERT_EQ(0, attach(self->fds[COUNTING]));
	EXPECT_EQ(-EINVAL, session_disable(self->fds[COUNTING]));
	EXPECT_EQ(-EINVAL, session_disable(view));
	EXPECT_EQ(-EINVAL, hold(view));
	ASSERT_EQ(0, session_disable(self->view));
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(self->fds[SAMPLING]));
	ASSERT_EQ(0, SET(self->view, .flags = PERF_PERSISTENT_SET_TTL, .ttl = 1));
	ASSERT_TRUE(eventually(!registry_has(self->id)));
	EXPECT_EQ(-ESRCH, session_enable(self->view));
	EXPECT_EQ(-ESRCH, session_enable(self->fds[SAMPLING]));
}

/* All of the session is held until I close the file. */
TEST_F(set, hold)
{
	ASSERT_EQ(0, hold(self->view));
	EXPECT_HELD_BUT(0);
	close(self->view);
	EXPECT_ALL_COUNT();
}

/* I can hold one member, on all its CPUs, and leave the others. */
TEST_F(set, hold_member)
{
	ASSERT_EQ(0, hold_member(self->view, 0));
	EXPECT_HELD_BUT(ONLY(SAMPLING) | ONLY(OTHER_ONE));
	close(self->view);
	EXPECT_ALL_COUNT();
}

/* A held member stays held when a holder of the whole session closes. */
TEST_F(set, hold_together)
{
	int one = reopen_instance(self->id, COUNTING);

	ASSERT_EQ(0, hold_member(one, 2));
	ASSERT_EQ(0, hold(self->view));
	EXPECT_HELD_BUT(0);
	close(self->view);
	EXPECT_HELD_BUT(ALL & ~ONLY(OTHER_ONE));
	close(one);
	EXPECT_ALL_COUNT();
}

/* An instance that joins while its session or member is held is held as well. */
TEST_F(set, joins_while_held)
{
	struct perf_event_attr attrs[] = { sampling_attr(TRACEPOINT), event_attr(TRACEPOINT) };
	int holders[] = { self->view, reopen_instance(self->id, COUNTING) };
	__u64 before;
	int i, fd;

	for (i = 0; i < ARRAY_LEN(holders); i++) {
		/* The sampling member on the other CPU, then another member */
		ASSERT_EQ(0, i ? hold(holders[i]) : hold_member(holders[i], members[SAMPLING]));
		fd = event_open(&attrs[i], -1, i ? 0 : HOT_CPU, -1, PERF_FLAG_FD_CLOEXEC);
		ASSERT_EQ(self->id, DETACH(fd, .id = self->id, .member = i ? 3 : 1));
		EXPECT_EQ(PERF_PERSISTENT_STATE_HELD, state_of(fd));
		before = count(fd);
		drive(TRACEPOINT, N);
		drive_there(TRACEPOINT, N);
		EXPECT_EQ(before, count(fd));
		close(holders[i]);
		EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(fd));
		drive(TRACEPOINT, N);
		drive_there(TRACEPOINT, N);
		EXPECT_EQ(before + N, count(fd));
	}
}

/* Disabling or enabling a held session takes effect when it is released. */
TEST_F(set, controlled_while_held)
{
	int one = reopen_instance(self->id, COUNTING);

	ASSERT_EQ(0, hold(one));
	ASSERT_EQ(0, set_member(self->view, PERF_PERSISTENT_SET_DISABLE, 2));
	EXPECT_HELD_BUT(0);
	close(one);
	EXPECT_DISABLED_BUT(ALL & ~ONLY(OTHER_ONE));
	ASSERT_EQ(0, hold(self->view));
	ASSERT_EQ(0, session_enable(self->view));
	EXPECT_HELD_BUT(0);
	close(self->view);
	EXPECT_ALL_COUNT();
}

/* However the holder dies, all of the session goes on. */
TEST_F(set, holder_is_killed)
{
	int ready[2];
	pid_t child;
	char byte;

	ASSERT_EQ(0, pipe(ready));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		byte = !hold(reopen_instance(self->id, SAMPLING));
		write(ready[1], &byte, 1);
		pause();
	}
	ASSERT_EQ(1, read(ready[0], &byte, 1));
	EXPECT_EQ(1, byte);
	EXPECT_HELD_BUT(0);
	ASSERT_EQ(0, kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	EXPECT_ALL_COUNT();
}

/* A held session stays held across hotplug, and can be released while a CPU is offline. */
TEST_F(set, held_while_offline)
{
	ASSERT_EQ(0, hold(self->view));
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, set_online(true));
	EXPECT_HELD_BUT(0);
	ASSERT_EQ(0, set_online(false));
	close(self->view);
	ASSERT_EQ(0, set_online(true));
	EXPECT_ALL_COUNT();
}

TEST_HARNESS_MAIN
