// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: stopped for as long as somebody keeps a file open.
 */
#include <signal.h>
#include <sys/socket.h>

#include "persistent.h"

#define N	100
#define SOON	50000000ULL
#define ANY_CPU	-1

FIXTURE(suspend)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	int			fd;	/* never suspends */
	int			id;
};

FIXTURE_VARIANT(suspend)
{
	enum event		event;
	bool			sampling;
	bool			task;
	bool			pinned;
};

FIXTURE_VARIANT_ADD(suspend, clock) { .event = CLOCK };
FIXTURE_VARIANT_ADD(suspend, faults) { .event = FAULTS, .sampling = true };
FIXTURE_VARIANT_ADD(suspend, tracepoint) { .event = TRACEPOINT };
FIXTURE_VARIANT_ADD(suspend, tracepoint_sampling) { .event = TRACEPOINT, .sampling = true };
FIXTURE_VARIANT_ADD(suspend, pinned) { .event = CLOCK, .pinned = true };
FIXTURE_VARIANT_ADD(suspend, task_clock) { .event = CLOCK, .sampling = true, .task = true };
FIXTURE_VARIANT_ADD(suspend, task_tracepoint) { .event = TRACEPOINT, .task = true };
FIXTURE_VARIANT_ADD(suspend, cycles) { .event = CYCLES };
FIXTURE_VARIANT_ADD(suspend, cycles_sampling) { .event = CYCLES, .sampling = true };
FIXTURE_VARIANT_ADD(suspend, cycles_pinned) { .event = CYCLES, .pinned = true };
FIXTURE_VARIANT_ADD(suspend, cycles_task) { .event = CYCLES, .sampling = true, .task = true };

FIXTURE_SETUP(suspend)
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

FIXTURE_TEARDOWN_PARENT(suspend)
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

static void expect_suspended(struct __test_metadata *_metadata, enum event event, int fd)
{
	expect_stands_still(_metadata, event, fd);
	EXPECT_EQ(PERF_PERSISTENT_STATE_SUSPENDED, state_of(fd));
}

/* It stops when I say so, and goes on when I close. */
TEST_F(suspend, until_closed)
{
	int fd = reopen(self->id);

	expect_counts(_metadata, variant->event, self->fd);
	ASSERT_EQ(0, suspend(fd));
	expect_suspended(_metadata, variant->event, self->fd);
	close(fd);
	expect_counts(_metadata, variant->event, self->fd);
}

/* What was counted before is there. */
TEST_F(suspend, keeps_its_count)
{
	__u64 before;

	drive(variant->event, N);
	before = count(self->fd);
	EXPECT_LE(N, before);
	ASSERT_EQ(0, suspend(reopen(self->id)));
	EXPECT_LE(before, count(self->fd));
	expect_suspended(_metadata, variant->event, self->fd);
	EXPECT_LE(before, count(reopen(self->id)));
}

/* Saying it twice is as good as saying it once. */
TEST_F(suspend, twice)
{
	int fd = reopen(self->id);

	ASSERT_EQ(0, suspend(fd));
	ASSERT_EQ(0, suspend(fd));
	expect_suspended(_metadata, variant->event, self->fd);
	close(fd);
	expect_counts(_metadata, variant->event, self->fd);
}

/* The file that it was detached through can suspend it as well. */
TEST_F(suspend, by_its_maker)
{
	int fd = reopen(self->id);

	ASSERT_EQ(0, suspend(self->fd));
	expect_suspended(_metadata, variant->event, fd);
	close(self->fd);
	expect_counts(_metadata, variant->event, fd);
}

/* Of several who suspend it, the last one lets it go on. */
TEST_F(suspend, several)
{
	int i, fds[4];

	for (i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = reopen(self->id);
		ASSERT_EQ(0, suspend(fds[i]));
	}
	for (i = 0; i < ARRAY_LEN(fds); i++) {
		expect_suspended(_metadata, variant->event, self->fd);
		close(fds[i]);
	}
	expect_counts(_metadata, variant->event, self->fd);
}

/* A file that did not ask for it changes nothing when it is closed. */
TEST_F(suspend, others_close)
{
	int fd = reopen(self->id), other = reopen(self->id);

	ASSERT_EQ(0, suspend(fd));
	close(other);
	expect_suspended(_metadata, variant->event, self->fd);
}

/* However I end, it goes on. */
TEST_F(suspend, until_killed)
{
	int ready[2], signals[] = { SIGKILL, SIGTERM, SIGSEGV }, i;
	pid_t child;
	char byte;

	for (i = 0; i < ARRAY_LEN(signals); i++) {
		ASSERT_EQ(0, pipe(ready));
		child = fork();
		ASSERT_LE(0, child);
		if (!child) {
			byte = !suspend(reopen(self->id));
			write(ready[1], &byte, 1);
			pause();
		}
		ASSERT_EQ(1, read(ready[0], &byte, 1));
		EXPECT_EQ(1, byte);
		expect_suspended(_metadata, variant->event, self->fd);
		ASSERT_EQ(0, kill(child, signals[i]));
		ASSERT_EQ(child, waitpid(child, NULL, 0));
		expect_counts(_metadata, variant->event, self->fd);
	}
}

/* A copy of the descriptor is the same file. */
TEST_F(suspend, until_last_dup_is_closed)
{
	int fd = reopen(self->id), copy = dup(fd);

	ASSERT_EQ(0, suspend(fd));
	ASSERT_EQ(0, suspend(copy));
	close(fd);
	expect_suspended(_metadata, variant->event, self->fd);
	close(copy);
	expect_counts(_metadata, variant->event, self->fd);
}

/* So is one that a child has ... */
TEST_F(suspend, until_child_exits)
{
	int fd = reopen(self->id);
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child)
		pause();
	ASSERT_EQ(0, suspend(fd));
	close(fd);
	expect_suspended(_metadata, variant->event, self->fd);
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

/* ... and one that is on its way to somebody. */
TEST_F(suspend, until_nobody_can_get_it)
{
	int fd = reopen(self->id), sockets[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	pass(sockets[0], fd);
	ASSERT_EQ(0, suspend(fd));
	close(fd);
	expect_suspended(_metadata, variant->event, self->fd);
	close(sockets[0]);
	close(sockets[1]);
	EXPECT_TRUE(eventually(state_of(self->fd) == PERF_PERSISTENT_STATE_ENABLED));
	expect_counts(_metadata, variant->event, self->fd);
}

/* One that is disabled is no other when I am done. */
TEST_F(suspend, disabled_before)
{
	int fd = reopen(self->id);

	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, suspend(fd));
	expect_suspended(_metadata, variant->event, self->fd);
	close(fd);
	expect_stands_still(_metadata, variant->event, self->fd);
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(self->fd));
}

/* What others disable meanwhile is disabled then ... */
TEST_F(suspend, disabled_meanwhile)
{
	int fd = reopen(self->id);

	ASSERT_EQ(0, suspend(fd));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	expect_suspended(_metadata, variant->event, self->fd);
	close(fd);
	expect_stands_still(_metadata, variant->event, self->fd);
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(self->fd));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ENABLE, NULL));
	expect_counts(_metadata, variant->event, self->fd);
}

/* ... and what they enable is not enabled before. */
TEST_F(suspend, enabled_meanwhile)
{
	int fd = reopen(self->id);

	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, suspend(fd));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ENABLE, NULL));
	expect_suspended(_metadata, variant->event, self->fd);
	close(fd);
	expect_counts(_metadata, variant->event, self->fd);
}

/* A count can be reset meanwhile. */
TEST_F(suspend, reset_meanwhile)
{
	ASSERT_EQ(0, suspend(reopen(self->id)));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_RESET, NULL));
	expect_suspended(_metadata, variant->event, self->fd);
	EXPECT_EQ(0, count(self->fd));
}

/* Attached meanwhile it stays suspended until the file is closed. */
TEST_F(suspend, attached_meanwhile)
{
	int fd = reopen(self->id);
	__u64 before;

	ASSERT_EQ(0, suspend(fd));
	ASSERT_EQ(0, attach(self->fd));
	expect_stands_still(_metadata, variant->event, self->fd);
	before = count(self->fd);
	close(fd);
	drive(variant->event, N);
	EXPECT_LE(before + N, count(self->fd));
}

/* Attached and detached again it is still the same. */
TEST_F(suspend, detached_again_meanwhile)
{
	int fd = reopen(self->id);

	ASSERT_EQ(0, suspend(fd));
	ASSERT_EQ(0, attach(self->fd));
	ASSERT_LT(0, detach(self->fd));
	expect_suspended(_metadata, variant->event, self->fd);
	close(fd);
	expect_counts(_metadata, variant->event, self->fd);
}

/* What ends meanwhile does not begin again. */
TEST_F(suspend, expires_meanwhile)
{
	int fd = reopen(self->id);

	ASSERT_EQ(0, suspend(fd));
	ASSERT_EQ(0, SET(self->fd, .flags = PERF_PERSISTENT_SET_TTL, .ttl = SOON));
	ASSERT_TRUE(eventually(!registry_has(self->id)));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXPIRED, state_of(fd));
	EXPECT_EQ(-EINVAL, suspend(fd));
	close(fd);
	expect_stands_still(_metadata, variant->event, self->fd);
}

/* Suspending takes no argument, and only what is persistent can be suspended. */
TEST_F(suspend, refused)
{
	EXPECT_EQ(-EINVAL, event_ioctl(self->fd, PERF_EVENT_IOC_SUSPEND, (void *)1));
	EXPECT_EQ(-EINVAL, suspend(event_open(&self->attr, -1, 0, -1, 0)));
	expect_counts(_metadata, variant->event, self->fd);
	ASSERT_EQ(0, attach(self->fd));
	EXPECT_EQ(-EINVAL, suspend(self->fd));
}

FIXTURE(stranger)
{
	struct registry		registry;
	int			fd;
};

FIXTURE_SETUP(stranger)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);

	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(PARANOID, -1));
	ASSERT_EQ(0, become(USER));
	self->fd = event_open(&attr, -1, pin(0), -1, 0);
	ASSERT_LT(0, detach(self->fd));
}

FIXTURE_TEARDOWN_PARENT(stranger)
{
	registry_teardown(_metadata, &self->registry);
}

/* A file that was passed to me does not let me stop what is another's. */
TEST_F(stranger, passed_file)
{
	ASSERT_EQ(0, become(OTHER));
	EXPECT_EQ(-EACCES, suspend(self->fd));
	ASSERT_EQ(0, become(USER));
	expect_counts(_metadata, TRACEPOINT, self->fd);
	EXPECT_EQ(0, suspend(self->fd));
	ASSERT_EQ(0, become(0));
	expect_suspended(_metadata, TRACEPOINT, self->fd);
}

/* The administrator may. */
TEST_F(stranger, administrator)
{
	ASSERT_EQ(0, become(0));
	EXPECT_EQ(0, suspend(self->fd));
	expect_suspended(_metadata, TRACEPOINT, self->fd);
}

TEST_HARNESS_MAIN
