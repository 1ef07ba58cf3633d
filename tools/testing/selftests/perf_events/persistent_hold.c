// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: held for as long as somebody keeps a file open.
 */
#include <signal.h>
#include <sys/socket.h>

#include "persistent.h"

#define N	100
#define SOON	50000000ULL
#define ANY_CPU	-1

FIXTURE(hold)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	int			fd;	/* never holds */
	int			id;
};

FIXTURE_VARIANT(hold)
{
	enum event		event;
	bool			sampling;
	bool			task;
	bool			pinned;
};

FIXTURE_VARIANT_ADD(hold, clock) { .event = CLOCK };
FIXTURE_VARIANT_ADD(hold, faults) { .event = FAULTS, .sampling = true };
FIXTURE_VARIANT_ADD(hold, tracepoint) { .event = TRACEPOINT };
FIXTURE_VARIANT_ADD(hold, tracepoint_sampling) { .event = TRACEPOINT, .sampling = true };
FIXTURE_VARIANT_ADD(hold, pinned) { .event = CLOCK, .pinned = true };
FIXTURE_VARIANT_ADD(hold, task_clock) { .event = CLOCK, .sampling = true, .task = true };
FIXTURE_VARIANT_ADD(hold, task_tracepoint) { .event = TRACEPOINT, .task = true };
FIXTURE_VARIANT_ADD(hold, cycles) { .event = CYCLES };
FIXTURE_VARIANT_ADD(hold, cycles_sampling) { .event = CYCLES, .sampling = true };
FIXTURE_VARIANT_ADD(hold, cycles_pinned) { .event = CYCLES, .pinned = true };
FIXTURE_VARIANT_ADD(hold, cycles_task) { .event = CYCLES, .sampling = true, .task = true };

FIXTURE_SETUP(hold)
{
	if (!has_event(variant->event))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);

	self->attr = variant->sampling ? sampling_attr(variant->event) :
					 event_attr(variant->event);
	self->attr.pinned = variant->pinned;
	pin(0);
	self->fd = variant->task ? event_open(&self->attr, 0, ANY_CPU, -1, 0) :
				   event_open(&self->attr, -1, 0, -1, 0);
	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);
}

FIXTURE_TEARDOWN_PARENT(hold)
{
	registry_teardown(_metadata, &self->registry);
}

static void expect_counts(struct __test_metadata *_metadata, enum event event, int fd)
{
	__u64 before = count(fd);

	drive(event, N);
	EXPECT_LE(before + N, count(fd));
	if (event == TRACEPOINT)
		EXPECT_EQ(before + N, count(fd));
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(fd));
}

static void expect_stands_still(struct __test_metadata *_metadata, enum event event, int fd)
{
	__u64 before = count(fd);

	drive(event, N);
	EXPECT_EQ(before, count(fd));
}

static void expect_held(struct __test_metadata *_metadata, enum event event, int fd)
{
	expect_stands_still(_metadata, event, fd);
	EXPECT_EQ(PERF_PERSISTENT_STATE_HELD, state_of(fd));
}

/* A held event stops, and goes on when I close the file. */
TEST_F(hold, until_closed)
{
	int fd = reopen(self->id);

	expect_counts(_metadata, variant->event, self->fd);
	ASSERT_EQ(0, hold(fd));
	expect_held(_metadata, variant->event, self->fd);
	close(fd);
	expect_counts(_metadata, variant->event, self->fd);
}

/* A held event keeps its count. */
TEST_F(hold, keeps_its_count)
{
	int fd = reopen(self->id);
	__u64 before;

	drive(variant->event, N);
	before = count(fd);
	EXPECT_LE(N, before);
	ASSERT_EQ(0, hold(fd));
	EXPECT_LE(before, count(fd));
	expect_held(_metadata, variant->event, fd);
	expect_stands_still(_metadata, variant->event, self->fd);
	EXPECT_EQ(count(fd), count(reopen(self->id)));
}

/* Holding twice through one file is the same as once. */
TEST_F(hold, twice)
{
	int fd = reopen(self->id);

	ASSERT_EQ(0, hold(fd));
	ASSERT_EQ(0, hold(fd));
	expect_held(_metadata, variant->event, self->fd);
	close(fd);
	expect_counts(_metadata, variant->event, self->fd);
}

/* The file that was detached controls the event, but cannot hold it. */
TEST_F(hold, by_its_maker)
{
	EXPECT_EQ(-EOPNOTSUPP, hold(self->fd));
	EXPECT_EQ(-EOPNOTSUPP, hold_member(self->fd, 0));
	expect_counts(_metadata, variant->event, self->fd);
}

/* If several files hold an event, it goes on when the last one is closed. */
TEST_F(hold, several)
{
	int i, fds[4];

	for (i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = reopen(self->id);
		ASSERT_EQ(0, hold(fds[i]));
	}
	for (i = 0; i < ARRAY_LEN(fds); i++) {
		expect_held(_metadata, variant->event, self->fd);
		close(fds[i]);
	}
	expect_counts(_metadata, variant->event, self->fd);
}

/* Closing a file that does not hold the event changes nothing. */
TEST_F(hold, others_close)
{
	int fd = reopen(self->id), other = reopen(self->id);

	ASSERT_EQ(0, hold(fd));
	close(other);
	expect_held(_metadata, variant->event, self->fd);
}

/* However the holder dies, the event goes on. */
TEST_F(hold, until_killed)
{
	int ready[2], signals[] = { SIGKILL, SIGTERM, SIGSEGV }, i;
	pid_t child;
	char byte;

	for (i = 0; i < ARRAY_LEN(signals); i++) {
		ASSERT_EQ(0, pipe(ready));
		child = fork();
		ASSERT_LE(0, child);
		if (!child) {
			byte = !hold(reopen(self->id));
			write(ready[1], &byte, 1);
			pause();
		}
		ASSERT_EQ(1, read(ready[0], &byte, 1));
		EXPECT_EQ(1, byte);
		expect_held(_metadata, variant->event, self->fd);
		ASSERT_EQ(0, kill(child, signals[i]));
		ASSERT_EQ(child, waitpid(child, NULL, 0));
		expect_counts(_metadata, variant->event, self->fd);
	}
}

/* A dup()ed descriptor is the same file. */
TEST_F(hold, until_last_dup_is_closed)
{
	int fd = reopen(self->id), copy = dup(fd);

	ASSERT_EQ(0, hold(fd));
	ASSERT_EQ(0, hold(copy));
	close(fd);
	expect_held(_metadata, variant->event, self->fd);
	close(copy);
	expect_counts(_metadata, variant->event, self->fd);
}

/* So is the descriptor of a child ... */
TEST_F(hold, until_child_exits)
{
	int fd = reopen(self->id);
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child)
		pause();
	ASSERT_EQ(0, hold(fd));
	close(fd);
	expect_held(_metadata, variant->event, self->fd);
	ASSERT_EQ(0, kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	expect_counts(_metadata, variant->event, self->fd);
}

static void pass(int socket, int fd)
{
	union {
		char		buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr	align;
	} control = {};
	struct iovec iov = { .iov_base = "", .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov	= &iov,
		.msg_iovlen	= 1,
		.msg_control	= control.buf,
		.msg_controllen	= sizeof(control.buf),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	sendmsg(socket, &msg, 0);
}

/* ... and one in flight over a socket. */
TEST_F(hold, until_nobody_can_get_it)
{
	int fd = reopen(self->id), sockets[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	pass(sockets[0], fd);
	ASSERT_EQ(0, hold(fd));
	close(fd);
	expect_held(_metadata, variant->event, self->fd);
	close(sockets[0]);
	close(sockets[1]);
	EXPECT_TRUE(eventually(state_of(self->fd) == PERF_PERSISTENT_STATE_ENABLED));
	expect_counts(_metadata, variant->event, self->fd);
}

/* An event that was disabled before is disabled after. */
TEST_F(hold, disabled_before)
{
	int fd = reopen(self->id);

	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, hold(fd));
	expect_held(_metadata, variant->event, self->fd);
	close(fd);
	expect_stands_still(_metadata, variant->event, self->fd);
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(self->fd));
}

/* An event that others disable while it is held is disabled after ... */
TEST_F(hold, disabled_meanwhile)
{
	int fd = reopen(self->id);

	ASSERT_EQ(0, hold(fd));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	expect_held(_metadata, variant->event, self->fd);
	close(fd);
	expect_stands_still(_metadata, variant->event, self->fd);
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(self->fd));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ENABLE, NULL));
	expect_counts(_metadata, variant->event, self->fd);
}

/* ... and one that they enable does not count before. */
TEST_F(hold, enabled_meanwhile)
{
	int fd = reopen(self->id);

	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, hold(fd));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ENABLE, NULL));
	expect_held(_metadata, variant->event, self->fd);
	close(fd);
	expect_counts(_metadata, variant->event, self->fd);
}

/* The count of a held event can be reset. */
TEST_F(hold, reset_meanwhile)
{
	ASSERT_EQ(0, hold(reopen(self->id)));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_RESET, NULL));
	expect_held(_metadata, variant->event, self->fd);
	EXPECT_EQ(0, count(self->fd));
}

/* A refused ATTACH does not release a held event, not even for a moment. */
TEST_F(hold, not_attached_meanwhile)
{
	struct perf_event_attr attr = event_attr(variant->event);
	int sibling = event_open(&attr, variant->task ? 0 : -1, variant->task ? ANY_CPU : 0,
				 self->fd, 0);
	struct answer before, after;
	int i;

	ASSERT_EQ(self->id, DETACH(sibling, .id = self->id, .member = 1));
	ASSERT_EQ(0, hold(reopen_instance(self->id, 1)));
	ASSERT_EQ(0, query(self->fd, &before));
	for (i = 0; i < N; i++)
		EXPECT_EQ(-EBUSY, attach(self->fd));
	ASSERT_EQ(0, query(self->fd, &after));
	EXPECT_EQ(before.info.self.time_enabled, after.info.self.time_enabled);
}

/* A held event that is attached leaves the session and is no longer held. */
TEST_F(hold, attached_meanwhile)
{
	int fd = reopen(self->id);
	__u64 before;

	ASSERT_EQ(0, hold(fd));
	expect_held(_metadata, variant->event, self->fd);
	before = count(self->fd);
	ASSERT_EQ(0, attach(self->fd));
	drive(variant->event, N);
	EXPECT_LE(before + N, count(self->fd));
	close(fd);
	drive(variant->event, N);
	EXPECT_LE(before + 2 * N, count(self->fd));
}

/* When it is detached again, it is in another session, which this view does not hold. */
TEST_F(hold, detached_again_meanwhile)
{
	int fd = reopen(self->id);

	ASSERT_EQ(0, hold(fd));
	ASSERT_EQ(0, attach(self->fd));
	ASSERT_LT(0, detach(self->fd));
	expect_counts(_metadata, variant->event, self->fd);
	EXPECT_EQ(-ESRCH, hold(fd));
	expect_counts(_metadata, variant->event, self->fd);
	close(fd);
	expect_counts(_metadata, variant->event, self->fd);
}

/* An event that expires while it is held does not start again. */
TEST_F(hold, expires_meanwhile)
{
	int fd = reopen(self->id);

	ASSERT_EQ(0, hold(fd));
	ASSERT_EQ(0, SET(self->fd, .flags = PERF_PERSISTENT_SET_TTL, .ttl = SOON));
	ASSERT_TRUE(eventually(!registry_has(self->id)));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXPIRED, state_of(fd));
	EXPECT_EQ(-ESRCH, hold(fd));
	close(fd);
	expect_stands_still(_metadata, variant->event, self->fd);
}

/* An event held by member and by session goes on when its last holder closes. */
TEST_F(hold, member_and_all)
{
	int fd = reopen(self->id), other = reopen(self->id);

	ASSERT_EQ(0, hold_member(fd, 0));
	ASSERT_EQ(0, hold(fd));
	ASSERT_EQ(0, hold_member(other, 0));
	expect_held(_metadata, variant->event, self->fd);
	close(fd);
	expect_held(_metadata, variant->event, self->fd);
	close(other);
	expect_counts(_metadata, variant->event, self->fd);
}

/* Only persistent events can be held, and only while they are. */
TEST_F(hold, refused)
{
	int fd = reopen(self->id);

	EXPECT_EQ(-EINVAL, hold(event_open(&self->attr, -1, 0, -1, 0)));
	EXPECT_EQ(-ENOENT, hold_member(fd, 1));
	expect_counts(_metadata, variant->event, self->fd);
	ASSERT_EQ(0, attach(self->fd));
	EXPECT_EQ(-EINVAL, hold(self->fd));
	EXPECT_EQ(-EINVAL, hold(fd));
}

FIXTURE(stranger)
{
	struct registry		registry;
	int			fd;
	int			view;
};

FIXTURE_SETUP(stranger)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);

	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(PARANOID, -1));
	ASSERT_EQ(0, become(USER));
	self->fd = event_open(&attr, -1, pin(0), -1, 0);
	self->view = reopen(detach(self->fd));
	ASSERT_LE(0, self->view);
}

FIXTURE_TEARDOWN_PARENT(stranger)
{
	registry_teardown(_metadata, &self->registry);
}

/* A passed file does not let me hold the event of another user. */
TEST_F(stranger, passed_file)
{
	ASSERT_EQ(0, become(OTHER));
	EXPECT_EQ(-EACCES, hold(self->view));
	ASSERT_EQ(0, become(USER));
	expect_counts(_metadata, TRACEPOINT, self->fd);
	EXPECT_EQ(0, hold(self->view));
	ASSERT_EQ(0, become(0));
	expect_held(_metadata, TRACEPOINT, self->fd);
}

/* The administrator may. */
TEST_F(stranger, administrator)
{
	ASSERT_EQ(0, become(0));
	EXPECT_EQ(0, hold(self->view));
	expect_held(_metadata, TRACEPOINT, self->fd);
}

TEST_HARNESS_MAIN
