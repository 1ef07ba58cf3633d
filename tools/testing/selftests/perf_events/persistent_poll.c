// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: each reader has its own wake-ups.
 */
#include <poll.h>
#include <signal.h>
#include <linux/membarrier.h>
#include <sys/epoll.h>

#include "persistent.h"

#define PAGES	16
#define READERS	5
#define SOON	50000000ULL
#define TIME	1000000000ULL
#define RW	(PROT_READ | PROT_WRITE)

FIXTURE(readers)
{
	struct registry		registry;
	struct ring		ring;
	int			fds[READERS];	/* the first one is the detached file */
	int			id;
};

FIXTURE_VARIANT(readers)
{
	__u32			watermark;
	bool			ring;
};

FIXTURE_VARIANT_ADD(readers, each_event) { .watermark = 0 };
FIXTURE_VARIANT_ADD(readers, each_event_mapped) { .ring = true };
FIXTURE_VARIANT_ADD(readers, watermark) { .watermark = 256 };

FIXTURE_SETUP(readers)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	int i;

	registry_setup(_metadata, &self->registry);
	attr.wakeup_events = 1;
	if (variant->watermark) {
		attr.watermark = 1;
		attr.wakeup_watermark = variant->watermark;
	}
	self->fds[0] = event_open(&attr, -1, pin(0), -1, 0);
	ASSERT_EQ(0, sched_getcpu());
	if (variant->ring)
		ASSERT_EQ(0, ring_map(&self->ring, self->fds[0], PAGES, RW));
	self->id = DETACH(self->fds[0], .buffer_pages = PAGES);
	ASSERT_LT(0, self->id);
	for (i = 1; i < READERS; i++) {
		self->fds[i] = reopen(self->id);
		ASSERT_LE(0, self->fds[i]);
	}
}

FIXTURE_TEARDOWN_PARENT(readers)
{
	registry_teardown(_metadata, &self->registry);
}

/* One wake-up or more: a sample is smaller than the watermark */
static void wake(void)
{
	drive(TRACEPOINT, 16);
}

/* The events that poll() reports now */
static int ready(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) ? p.revents : 0;
}

/* Each reader gets each wake-up once, whoever polls first. */
TEST_F(readers, each_for_himself)
{
	int i, round, nr;

	for (round = 0; round < 2 * READERS; round++) {
		for (i = 0; i < READERS; i++)
			EXPECT_EQ(0, ready(self->fds[i]));
		wake();
		for (i = 0; i < READERS; i++) {
			nr = (i + round) % READERS;
			EXPECT_EQ(POLLIN, ready(self->fds[nr])) {
				TH_LOG("reader %d in round %d", nr, round);
			}
			EXPECT_EQ(0, ready(self->fds[nr]));
		}
	}
}

/* A reader that polls seldom gets one report for all wake-ups since. */
TEST_F(readers, seldom)
{
	wake();
	EXPECT_EQ(POLLIN, ready(self->fds[1]));
	wake();
	EXPECT_EQ(POLLIN, ready(self->fds[1]));
	wake();
	EXPECT_EQ(POLLIN, ready(self->fds[2]));
	EXPECT_EQ(0, ready(self->fds[2]));
	EXPECT_EQ(POLLIN, ready(self->fds[1]));
}

/* A consumer that writes to the head does not make other readers spin. */
TEST_F(readers, forged_head)
{
	struct ring ring = self->ring;
	int i;

	if (!variant->ring)
		ASSERT_EQ(0, ring_map(&ring, self->fds[0], PAGES, RW));
	wake();
	event_ioctl(self->fds[0], PERF_EVENT_IOC_DISABLE, NULL);
	ring.page->data_head += 8;
	for (i = 1; i < READERS; i++) {
		EXPECT_EQ(POLLIN, ready(self->fds[i]));
		EXPECT_EQ(0, ready(self->fds[i]));
	}
}

/* A new reader gets one report for the wake-ups before it. */
TEST_F(readers, newcomer)
{
	int fd = reopen(self->id);

	EXPECT_EQ(0, ready(fd));
	wake();
	EXPECT_EQ(POLLIN, ready(self->fds[0]));
	fd = reopen(self->id);
	EXPECT_EQ(POLLIN, ready(fd));
	EXPECT_EQ(0, ready(fd));
	EXPECT_EQ(0, ready(self->fds[0]));
}

/* The same if all readers that were told are gone. */
TEST_F(readers, newcomer_alone)
{
	int i;

	wake();
	for (i = 0; i < READERS; i++) {
		EXPECT_EQ(POLLIN, ready(self->fds[i]));
		close(self->fds[i]);
	}
	self->fds[0] = reopen(self->id);
	EXPECT_EQ(POLLIN, ready(self->fds[0]));
	EXPECT_EQ(0, ready(self->fds[0]));
}

/* Copies of a descriptor are one reader. */
TEST_F(readers, copies)
{
	int copy = dup(self->fds[1]);

	wake();
	EXPECT_EQ(POLLIN, ready(copy));
	EXPECT_EQ(0, ready(self->fds[1]));
	wake();
	EXPECT_EQ(POLLIN, ready(self->fds[1]));
	EXPECT_EQ(0, ready(copy));
	close(self->fds[1]);
	wake();
	EXPECT_EQ(POLLIN, ready(copy));
}

/* All sleeping readers are woken, in their own processes. */
TEST_F(readers, sleepers)
{
	struct pollfd p = { .events = POLLIN };
	pid_t children[READERS];
	int i, status, go[2];
	char byte;

	ASSERT_EQ(0, pipe(go));
	for (i = 0; i < READERS; i++) {
		children[i] = fork();
		ASSERT_LE(0, children[i]);
		if (!children[i]) {
			p.fd = self->fds[i];
			write(go[1], "", 1);
			_exit(poll(&p, 1, PATIENCE_MS) == 1 && p.revents == POLLIN ? 0 : 1);
		}
	}
	for (i = 0; i < READERS; i++)
		ASSERT_EQ(1, read(go[0], &byte, 1));
	drive(CLOCK, 100);
	wake();
	for (i = 0; i < READERS; i++) {
		ASSERT_EQ(children[i], waitpid(children[i], &status, 0));
		EXPECT_EQ(0, WEXITSTATUS(status));
	}
}

/* epoll wakes a reader as poll does. */
TEST_F(readers, epoll)
{
	struct epoll_event e = { .events = EPOLLIN }, out[READERS];
	int all = epoll_create1(0), round, i;

	for (i = 0; i < READERS; i++) {
		e.data.fd = self->fds[i];
		ASSERT_EQ(0, epoll_ctl(all, EPOLL_CTL_ADD, self->fds[i], &e));
	}
	for (round = 0; round < 3; round++) {
		EXPECT_EQ(0, epoll_wait(all, out, READERS, 0));
		wake();
		EXPECT_EQ(READERS, epoll_wait(all, out, READERS, PATIENCE_MS));
		for (i = 0; i < READERS; i++)
			EXPECT_EQ(EPOLLIN, out[i].events);
	}
}

/* Another reader's epoll does not take the report from mine. */
TEST_F(readers, epoll_and_poll)
{
	struct epoll_event e = { .events = EPOLLIN }, out;
	int other = epoll_create1(0);

	ASSERT_EQ(0, epoll_ctl(other, EPOLL_CTL_ADD, self->fds[1], &e));
	wake();
	EXPECT_EQ(POLLIN, ready(self->fds[2]));
	EXPECT_EQ(1, epoll_wait(other, &out, 1, PATIENCE_MS));
	EXPECT_EQ(POLLIN, ready(self->fds[3]));
}

/* The files of an attached event still get their own reports. */
TEST_F(readers, attached)
{
	ASSERT_EQ(0, attach(self->fds[1]));
	if (!variant->ring)
		ASSERT_EQ(0, ring_map(&self->ring, self->fds[0], PAGES, RW));
	ready(self->fds[1]);
	ready(self->fds[2]);
	wake();
	EXPECT_EQ(POLLIN, ready(self->fds[1]));
	EXPECT_EQ(POLLIN, ready(self->fds[2]));
	EXPECT_EQ(0, ready(self->fds[1]));
}

/* All readers get a hang-up when the session expires. */
TEST_F(readers, expired)
{
	int i;

	wake();
	EXPECT_EQ(POLLIN, ready(self->fds[1]));
	ASSERT_EQ(0, SET(self->fds[0], .flags = PERF_PERSISTENT_SET_TTL, .ttl = SOON));
	for (i = 1; i < READERS; i++) {
		EXPECT_TRUE(eventually(ready(self->fds[i]) & POLLHUP));
		EXPECT_EQ(POLLHUP, ready(self->fds[i]));
	}
	EXPECT_EQ(POLLERR, ready(self->fds[0]));
}

/* An event that generations of children inherit hangs up only after the last one exits. */
TEST(generations)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	struct registry registry;
	__u64 end = now_ns() + TIME;
	int view, start[2];
	bool over = false;
	pid_t group;
	char byte;

	registry_setup(_metadata, &registry);
	ASSERT_EQ(0, pipe(start));
	group = fork();
	ASSERT_LE(0, group);
	if (!group) {
		setpgid(0, 0);
		read(start[0], &byte, 1);
		while (!fork())
			;
		_exit(0);
	}

	attr.inherit = 1;
	view = reopen(DETACH(event_open(&attr, group, 0, -1, 0), .buffer_pages = PAGES));
	ASSERT_LE(0, view);
	ASSERT_EQ(1, write(start[1], "", 1));
	while (!over && now_ns() < end)
		over = ready(view) & POLLHUP;
	EXPECT_FALSE(over);
	ASSERT_EQ(0, kill(-group, SIGKILL));
	EXPECT_TRUE(eventually(ready(view) & POLLHUP));
	registry_teardown(_metadata, &registry);
}

FIXTURE(shared)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	struct ring		ring;
	int			one, two, three;
	int			id;
};

/* Three ordinary events write to the buffer of the first */
FIXTURE_SETUP(shared)
{
	registry_setup(_metadata, &self->registry);
	self->attr = sampling_attr(TRACEPOINT);
	self->attr.wakeup_events = 1;
	self->one = event_open(&self->attr, -1, pin(0), -1, 0);
	self->two = event_open(&self->attr, -1, 0, -1, 0);
	self->three = event_open(&self->attr, -1, 0, -1, 0);
	ASSERT_EQ(0, ring_map(&self->ring, self->one, PAGES, RW));
	ASSERT_EQ(0, ioctl(self->two, PERF_EVENT_IOC_SET_OUTPUT, self->one));
	ASSERT_EQ(0, ioctl(self->three, PERF_EVENT_IOC_SET_OUTPUT, self->one));
}

FIXTURE_TEARDOWN_PARENT(shared)
{
	registry_teardown(_metadata, &self->registry);
}

/* Of ordinary events that share a buffer, the first one polled gets the report, as ever. */
TEST_F(shared, ordinary)
{
	EXPECT_EQ(0, ready(self->one));
	wake();
	EXPECT_EQ(POLLIN, ready(self->two));
	EXPECT_EQ(0, ready(self->one));
	EXPECT_EQ(0, ready(self->two));
	wake();
	EXPECT_EQ(POLLIN, ready(self->one));
	EXPECT_EQ(0, ready(self->three));
}

/* An ordinary event without a buffer hangs up. */
TEST_F(shared, ordinary_without_buffer)
{
	EXPECT_EQ(POLLHUP, ready(event_open(&self->attr, -1, 0, -1, 0)));
	ASSERT_EQ(0, ring_unmap(&self->ring));
	EXPECT_EQ(POLLHUP, ready(self->one));
	EXPECT_EQ(POLLHUP, ready(self->two));
}

/* Make two of them members of a session */
#define DETACH_TWO() do {								\
	self->id = detach(self->one);							\
	ASSERT_LT(0, self->id);								\
	ASSERT_EQ(self->id, DETACH(self->two, .id = self->id, .member = 1));		\
} while (0)

/* Views of persistent events that share a buffer get their own reports ... */
TEST_F(shared, views)
{
	int views[4], i;

	DETACH_TWO();
	for (i = 0; i < ARRAY_LEN(views); i++)
		views[i] = reopen_instance(self->id, i % 2);
	wake();
	for (i = 0; i < ARRAY_LEN(views); i++)
		EXPECT_EQ(POLLIN, ready(views[i]));
	for (i = 0; i < ARRAY_LEN(views); i++)
		EXPECT_EQ(0, ready(views[i]));
}

/* ... which neither detached files nor ordinary events take from them, or lose. */
TEST_F(shared, views_and_others)
{
	int view;

	DETACH_TWO();
	view = reopen_instance(self->id, 0);
	wake();
	EXPECT_EQ(POLLIN, ready(self->two));
	EXPECT_EQ(0, ready(self->three));
	EXPECT_EQ(POLLIN, ready(view));
	wake();
	EXPECT_EQ(POLLIN, ready(view));
	EXPECT_EQ(POLLIN, ready(self->three));
	EXPECT_EQ(0, ready(self->one));
	EXPECT_EQ(0, ready(view));
}

/* DETACH neither adds a wake-up nor drops one. */
TEST_F(shared, detached_between)
{
	wake();
	EXPECT_EQ(POLLIN, ready(self->one));
	self->id = detach(self->one);
	ASSERT_LT(0, self->id);
	EXPECT_EQ(0, ready(self->one));
	wake();
	ASSERT_EQ(self->id, DETACH(self->two, .id = self->id, .member = 1));
	EXPECT_EQ(POLLIN, ready(self->one));
	EXPECT_EQ(0, ready(self->two));
}

/* For a new view all wake-ups are new, also those before DETACH that the maker saw. */
TEST_F(shared, news_from_before)
{
	int id;

	wake();
	EXPECT_EQ(POLLIN, ready(self->one));
	id = detach(self->one);
	ASSERT_LT(0, id);
	close(self->one);
	self->one = reopen(id);
	EXPECT_EQ(POLLIN, ready(self->one));
	EXPECT_EQ(0, ready(self->one));
}

/* A view whose event gets another buffer starts anew with that. */
TEST_F(shared, other_buffer)
{
	int other = event_open(&self->attr, -1, 0, -1, 0), view;

	self->id = detach(other);
	ASSERT_LT(0, self->id);
	view = reopen(self->id);
	wake();
	EXPECT_EQ(POLLIN, ready(view));
	ASSERT_EQ(0, attach(other));
	EXPECT_EQ(POLLHUP, ready(view));
	ASSERT_EQ(0, ioctl(other, PERF_EVENT_IOC_SET_OUTPUT, self->one));
	ready(view);
	EXPECT_EQ(0, ready(view));
	wake();
	EXPECT_EQ(POLLIN, ready(view));
	EXPECT_EQ(POLLIN, ready(self->two));
}

/* Wait until freed memory can be reused */
static void wait_for_memory(void)
{
	int i;

	for (i = 0; i < 3; i++)
		syscall(__NR_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

/* Data in a new buffer is reported, whatever was reported for the old one. */
TEST_F(shared, next_buffer)
{
	int fd = event_open(&self->attr, -1, 0, -1, 0), view = -1, id, round;
	struct ring r = {};

	for (round = 0; round < 20; round++) {
		id = DETACH(fd, .buffer_pages = 1);
		ASSERT_LT(0, id);
		if (view < 0)
			view = reopen(id);
		wake();
		ASSERT_EQ(POLLIN, ready(view)) {
			TH_LOG("detached, round %d", round);
		}
		ASSERT_EQ(0, attach(fd));
		wait_for_memory();

		ASSERT_EQ(0, ring_map(&r, fd, 1, RW));
		wake();
		ASSERT_EQ(POLLIN, ready(view)) {
			TH_LOG("mapped, round %d", round);
		}
		ASSERT_EQ(0, ring_unmap(&r));
		wait_for_memory();
	}
}

TEST_HARNESS_MAIN
