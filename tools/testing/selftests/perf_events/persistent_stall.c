// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: a user who reads into memory that never comes stops
 * nobody else.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "persistent.h"

#define SOON	50000000ULL

FIXTURE(stall)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	int			stalled;
	int			stalled_id;
	int			other;
	int			other_id;
	pid_t			target;
	pid_t			reader;
};

FIXTURE_VARIANT(stall)
{
	bool			one_cpu;
};

/* It has the context of a CPU locked, or that of a task. */
FIXTURE_VARIANT_ADD(stall, cpu) { .one_cpu = true };
FIXTURE_VARIANT_ADD(stall, task) { .one_cpu = false };

/* A child that ends with the test; 0 in it, which must not write to what is shared. */
static pid_t fork_child(void)
{
	pid_t pid = fork();

	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);

	return pid;
}

FIXTURE_SETUP(stall)
{
	pid_t pid;

	registry_setup(_metadata, &self->registry);
	/* Who ends while he is read waits for the reader. */
	pid = fork_child();
	ASSERT_LE(0, pid);
	while (!pid)
		pause();
	self->target = pid;

	self->attr = event_attr(TRACEPOINT);
	self->stalled = variant->one_cpu ? event_open(&self->attr, -1, pin(0), -1, 0) :
					   event_open(&self->attr, self->target, -1, -1, 0);
	self->stalled_id = DETACH(self->stalled, .name = addr("stalled"), .buffer_pages = 1);
	ASSERT_LT(0, self->stalled_id);
	self->other = event_open(&self->attr, -1, 1, -1, 0);
	self->other_id = DETACH(self->other, .name = addr("other"));
	ASSERT_LT(0, self->other_id);

	pid = fork_child();
	ASSERT_LE(0, pid);
	if (!pid) {
		int uffd;
		void *page = page_that_never_comes(&uffd);

		if (page)
			read(self->stalled, page, 8);
		_exit(1);
	}
	self->reader = pid;
	ASSERT_TRUE(eventually(is_stalled(self->reader, __NR_read)));
}

FIXTURE_TEARDOWN_PARENT(stall)
{
	if (self->reader > 0)
		kill(self->reader, SIGKILL);
	if (self->target > 0)
		kill(self->target, SIGKILL);
	registry_teardown(_metadata, &self->registry);
}

/* Its own session can be asked, listed and read by others. */
TEST_F(stall, is_asked)
{
	struct answer a;
	char text[64], path[96];
	int view;

	view = reopen(self->stalled_id);
	ASSERT_LE(0, view);
	EXPECT_EQ(0, query(view, &a));
	EXPECT_EQ(1, a.info.nr_instances);
	drive(TRACEPOINT, 1);
	EXPECT_NE(-1ULL, count(view));
	snprintf(path, sizeof(path), REGISTRY "/ids/%d/name", self->stalled_id);
	EXPECT_LT(0, read_file(path, text, sizeof(text)));
	snprintf(path, sizeof(path), REGISTRY "/ids/%d/lost", self->stalled_id);
	EXPECT_LT(0, read_file(path, text, sizeof(text)));
	EXPECT_EQ(0, SET(view, .flags = PERF_PERSISTENT_SET_NAME, .name = addr("renamed")));
	EXPECT_TRUE(is_stalled(self->reader, __NR_read));
}

/* What others have goes on: reopening, control, time to live, new sessions. */
TEST_F(stall, others_go_on)
{
	int view = reopen(self->other_id), fd;
	struct answer a;

	ASSERT_LE(0, view);
	EXPECT_EQ(0, query(view, &a));
	EXPECT_EQ(0, session_disable(view));
	EXPECT_EQ(0, session_enable(view));
	EXPECT_EQ(0, hold(view));
	fd = event_open(&self->attr, -1, 1, -1, 0);
	EXPECT_EQ(self->other_id, DETACH(fd, .id = self->other_id, .member = 1));
	EXPECT_EQ(0, attach(fd));
	EXPECT_LT(0, detach(fd));
	EXPECT_EQ(0, SET(view, .flags = PERF_PERSISTENT_SET_TTL, .ttl = SOON));
	EXPECT_TRUE(eventually(!registry_has(self->other_id)));
	EXPECT_TRUE(is_stalled(self->reader, __NR_read));
}

/* A session that has expired says so and hangs up once it counts no more, not before. */
TEST_F(stall, hangs_up_when_it_is_over)
{
	struct pollfd p = { .events = POLLIN, .fd = reopen(self->stalled_id) };
	struct answer a;
	__u64 last;

	ASSERT_LE(0, p.fd);
	EXPECT_EQ(0, SET(p.fd, .flags = PERF_PERSISTENT_SET_TTL, .ttl = SOON));
	EXPECT_TRUE(eventually(!query(p.fd, &a) && !a.info.self.id));
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, a.info.self.state);
	EXPECT_EQ(0, a.info.ended);
	EXPECT_TRUE(is_stalled(self->reader, __NR_read));
	EXPECT_LE(0, poll(&p, 1, 0));
	EXPECT_FALSE(p.revents & POLLHUP);

	kill(self->reader, SIGKILL);
	EXPECT_TRUE(eventually(poll(&p, 1, 0) == 1 && p.revents & POLLHUP));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXPIRED, state_of(p.fd));
	last = count(p.fd);
	drive(TRACEPOINT, 1);
	EXPECT_EQ(last, count(p.fd));
}

/* What it has besides ends in time. */
TEST_F(stall, the_rest_expires)
{
	int fd = event_open(&self->attr, -1, 1, -1, 0), view;

	ASSERT_EQ(self->stalled_id, DETACH(fd, .id = self->stalled_id, .member = 1));
	view = reopen_instance(self->stalled_id, 1);
	ASSERT_LE(0, view);
	EXPECT_EQ(0, SET(view, .flags = PERF_PERSISTENT_SET_TTL, .ttl = SOON));
	EXPECT_TRUE(eventually(state_of(view) == PERF_PERSISTENT_STATE_EXPIRED));
	EXPECT_TRUE(is_stalled(self->reader, __NR_read));
	EXPECT_TRUE(registry_has(self->stalled_id));

	kill(self->reader, SIGKILL);
	EXPECT_TRUE(eventually(!registry_has(self->stalled_id)));
}

/* Whoever waits for somebody who controls it can be killed. */
TEST_F(stall, waits_to_control)
{
	pid_t attacher = fork_child(), controller;

	ASSERT_LE(0, attacher);
	if (!attacher) {
		attach(self->stalled);
		_exit(0);
	}
	EXPECT_TRUE(eventually(is_in_syscall(attacher, __NR_ioctl)));
	controller = fork_child();
	ASSERT_LE(0, controller);
	if (!controller) {
		session_enable(self->stalled);
		_exit(0);
	}
	EXPECT_TRUE(eventually(is_in_syscall(controller, __NR_ioctl)));
	kill(controller, SIGKILL);
	EXPECT_TRUE(eventually(waitpid(controller, NULL, WNOHANG) == controller));
	EXPECT_TRUE(is_stalled(self->reader, __NR_read));

	kill(self->reader, SIGKILL);
	EXPECT_EQ(attacher, waitpid(attacher, NULL, 0));
}

/* Somebody who waits for it himself does not stop others either. */
TEST_F(stall, who_waits_for_it)
{
	pid_t child = fork(), closer;
	struct answer a;
	int view;

	ASSERT_LE(0, child);
	if (!child) {
		attach(self->stalled);
		_exit(0);
	}
	EXPECT_TRUE(eventually(is_in_syscall(child, __NR_ioctl)));
	/* A file that holds nothing is closed at once. */
	closer = fork_child();
	ASSERT_LE(0, closer);
	if (!closer)
		_exit(close(open_session(self->stalled_id)));
	EXPECT_TRUE(eventually(waitpid(closer, NULL, WNOHANG) == closer));

	view = reopen(self->other_id);
	EXPECT_EQ(0, query(view, &a));
	EXPECT_EQ(0, attach(self->other));
	EXPECT_LT(0, detach(self->other));
	EXPECT_LE(0, reopen(self->stalled_id));
	EXPECT_TRUE(is_stalled(self->reader, __NR_read));
	EXPECT_EQ(0, waitpid(child, NULL, WNOHANG));

	kill(self->reader, SIGKILL);
	EXPECT_EQ(child, waitpid(child, NULL, 0));
}

TEST_HARNESS_MAIN
