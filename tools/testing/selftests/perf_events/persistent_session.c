// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: files of a session, which keep none of its events.
 */
#include <pthread.h>
#include <linux/hw_breakpoint.h>

#include "persistent_rights.h"

#define N	100
#define TIME	1000000000ULL

FIXTURE(session)
{
	struct registry		registry;
	int			fds[2];		/* one for each member */
	int			id;
	int			session;
};

/* A user's session of two members: one of a CPU, one of this task */
FIXTURE_SETUP(session)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);

	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(PARANOID, -1));
	pin(0);
	ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
	self->fds[0] = event_open(&attr, -1, 0, -1, 0);
	self->id = DETACH(self->fds[0], .name = addr("whole"), .label = addr("text"));
	ASSERT_LT(0, self->id);
	self->fds[1] = event_open(&attr, 0, -1, -1, 0);
	ASSERT_EQ(self->id, DETACH(self->fds[1], .id = self->id, .member = 1));
	self->session = open_session(self->id);
	ASSERT_LE(0, self->session);
}

FIXTURE_TEARDOWN_PARENT(session)
{
	registry_teardown(_metadata, &self->registry);
}

/* I am told of all instances, and "self" is empty. */
TEST_F(session, query)
{
	struct perf_persistent_info none = {
		.id = self->id, .cpu = -1, .pid = -1, .tgid = -1
	};
	struct answer a;

	drive(TRACEPOINT, N);
	ASSERT_EQ(0, query(self->session, &a));
	EXPECT_EQ(0, memcmp(&none, &a.info.self, sizeof(none)));
	EXPECT_STREQ("u1000-whole", a.info.name);
	EXPECT_EQ(USER, a.info.uid);
	EXPECT_EQ(GROUP, a.info.gid);
	EXPECT_EQ(0600, a.info.mode);
	EXPECT_LT(0, a.info.age);
	EXPECT_EQ(0, a.info.attr_size);
	EXPECT_EQ(0, a.info.label_size);
	EXPECT_EQ(0, a.info.buffer_pages);
	ASSERT_EQ(2, a.info.nr_instances);
	EXPECT_EQ(N, a.instances[0].count);
	EXPECT_EQ(N, a.instances[1].count);
	EXPECT_EQ(1, a.instances[1].member);
	EXPECT_EQ(getpid(), a.instances[1].pid);
}

/* A change through it applies to all instances. */
TEST_F(session, set)
{
	ASSERT_EQ(0, session_disable(self->session));
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(self->fds[0]));
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(self->fds[1]));
	ASSERT_EQ(0, SET(self->session, .flags = PERF_PERSISTENT_SET_ENABLE, .member = 2));
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(self->fds[0]));
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->fds[1]));
}

/* The session is held until the file is closed. */
TEST_F(session, hold)
{
	int other = open_session(self->id);

	ASSERT_EQ(0, hold(self->session));
	ASSERT_EQ(0, hold_member(other, 1));
	EXPECT_EQ(PERF_PERSISTENT_STATE_HELD, state_of(self->fds[0]));
	close(self->session);
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->fds[0]));
	EXPECT_EQ(PERF_PERSISTENT_STATE_HELD, state_of(self->fds[1]));
	close(other);
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->fds[1]));
}

/* The file is no event: read(), mmap() and the ioctls of events fail. */
TEST_F(session, no_event)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	struct ring ring;
	__u64 value;

	EXPECT_EQ(-EINVAL, result(read(self->session, &value, sizeof(value))));
	EXPECT_EQ(-ENODEV, ring_map(&ring, self->session, 1, PROT_READ));
	EXPECT_EQ(-ENOTTY, result(ioctl(self->session, PERF_EVENT_IOC_ID, &value)));
	EXPECT_EQ(-ENOTTY, result(ioctl(self->session, PERF_EVENT_IOC_ENABLE, 0)));
	EXPECT_EQ(-ENOTTY, detach(self->session));
	EXPECT_EQ(-ENOTTY, attach(self->session));
	EXPECT_EQ(-EBADF, event_open(&attr, 0, -1, self->session, 0));
}

#define EXPECT_REFUSED(error, instance, pid, cpu, ...)				\
	EXPECT_EQ(error, event_open(&(struct perf_event_attr) {			\
		.type	= PERF_TYPE_PERSISTENT,					\
		.size	= sizeof(struct perf_event_attr),			\
		.config	= self->id | PERF_PERSISTENT_SESSION |			\
			  (__u64)(instance) << PERF_PERSISTENT_INSTANCE_SHIFT,	\
		##__VA_ARGS__							\
	}, pid, cpu, -1, 0))

/* No instance, task, CPU or attr field can be given with it, to probe for what is measured. */
TEST_F(session, refused)
{
	EXPECT_REFUSED(-EINVAL, 1, -1, -1);
	EXPECT_REFUSED(-EINVAL, 0, getpid(), -1);
	EXPECT_REFUSED(-EINVAL, 0, -1, 0);
	EXPECT_REFUSED(-EINVAL, 0, -1, -1, .read_format = PERF_FORMAT_GROUP);
	EXPECT_REFUSED(-EINVAL, 0, -1, -1, .disabled = 1);
	EXPECT_REFUSED(-EINVAL, 0, -1, -1, .sample_period = 1);
	EXPECT_EQ(-ENOENT, open_session(self->id + 1));
	EXPECT_EQ(-ENOENT, open_session(0));
}

/* After the end of the session, every operation fails. */
TEST_F(session, after_its_end)
{
	struct answer a;

	ASSERT_EQ(0, hold(self->session));
	ASSERT_EQ(0, attach(self->fds[0]));
	ASSERT_EQ(0, query(self->session, &a));
	EXPECT_EQ(1, a.info.nr_instances);
	ASSERT_EQ(0, attach(self->fds[1]));
	EXPECT_EQ(-ESRCH, query(self->session, &a));
	EXPECT_EQ(-ESRCH, hold(self->session));
	EXPECT_EQ(-ESRCH, session_enable(self->session));
	EXPECT_EQ(-ESRCH, SET(self->session, .flags = PERF_PERSISTENT_SET_NAME,
			      .name = addr("other")));
	EXPECT_EQ(-ENOENT, open_session(self->id));
}

/* The owner can take all rights from itself and give them back. */
TEST_F(session, own_mode)
{
	ASSERT_EQ(0, session_mode(self->session, 0));
	EXPECT_EQ(-EACCES, reopen_instance(self->id, 0));
	close(self->session);
	self->session = open_session(self->id);
	ASSERT_LE(0, self->session);
	EXPECT_EQ(-EACCES, session_disable(self->session));
	EXPECT_EQ(-EACCES, hold(self->session));
	EXPECT_EQ(0, session_mode(self->session, 0600));
	EXPECT_EQ(0, session_disable(self->session));
}

/* An owner who may no longer open an instance is told as little of it as anybody. */
TEST_F(session, may_not_read)
{
	struct answer a;

	drive(TRACEPOINT, N);
	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, set_sysctl(PARANOID, 2));
	ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
	close(self->session);
	self->session = open_session(self->id);
	ASSERT_EQ(0, query(self->session, &a));
	ASSERT_EQ(2, a.info.nr_instances);
	EXPECT_EQ(0, a.instances[0].count);
	EXPECT_EQ(0, a.instances[0].event_id);
	EXPECT_EQ(0, a.instances[1].pid);
	EXPECT_EQ(-EACCES, hold(self->session));
	EXPECT_EQ(-EACCES, session_enable(self->session));
}

/* An instance comes and goes until this is set. */
static bool over;

struct coming {
	int	id;
	int	fd;
	int	ret;
};

static void *come_and_go(void *arg)
{
	struct coming *c = arg;

	pin(1);
	while (!c->ret && !__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		c->ret = attach(c->fd);
		if (!c->ret)
			c->ret = DETACH(c->fd, .id = c->id, .member = 1) - c->id;
	}

	return NULL;
}

/* While an instance comes and goes, QUERY fills in as many instances as it says. */
TEST_F(session, as_many_as_said)
{
	struct coming c = { .id = self->id, .fd = self->fds[1] };
	__u64 end = now_ns() + TIME;
	pthread_t thread;
	struct answer a;
	int empty = 0;
	__u32 i;

	ASSERT_EQ(0, pthread_create(&thread, NULL, come_and_go, &c));
	while (now_ns() < end) {
		ASSERT_EQ(0, query(self->session, &a));
		for (i = 0; i < a.info.nr_instances; i++)
			empty += !a.instances[i].event_id;
	}
	EXPECT_EQ(0, empty);
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, c.ret);
}

#define SLOTS	32

static long watched[SLOTS];

static int open_breakpoint(int i)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_BREAKPOINT,
		.size		= sizeof(attr),
		.bp_type	= HW_BREAKPOINT_W,
		.bp_addr	= addr(&watched[i]),
		.bp_len		= HW_BREAKPOINT_LEN_8,
	};

	return event_open(&attr, -1, 0, -1, 0);
}

/* An event that leaves the session ends, and its counter is free, whoever holds the session. */
TEST_F(session, keeps_no_event)
{
	int fds[SLOTS], n, i, id = 0;

	ASSERT_EQ(0, become_capable());
	for (n = 0; n < SLOTS; n++) {
		fds[n] = open_breakpoint(n);
		if (fds[n] < 0)
			break;
		ASSERT_LT(0, (id = DETACH(fds[n], .id = id, .member = n)));
	}
	ASSERT_LT(0, n);
	ASSERT_EQ(-ENOSPC, fds[n]);
	close(self->session);
	self->session = open_session(id);
	ASSERT_EQ(0, hold(self->session));
	for (i = 0; i < n; i++) {
		EXPECT_EQ(0, attach(fds[i]));
		EXPECT_EQ(0, close(fds[i]));
	}
	for (i = 0; i < n; i++)
		EXPECT_LE(0, open_breakpoint(i));
}

TEST_HARNESS_MAIN
