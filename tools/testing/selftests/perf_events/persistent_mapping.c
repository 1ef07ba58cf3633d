// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: permissions to map a buffer, and shared buffers.
 */
#include <poll.h>
#include <signal.h>

#include "persistent.h"

#define PAGES	4
#define RW	(PROT_READ | PROT_WRITE)

FIXTURE(loop)
{
	struct registry		registry;
	int			fd;
};

FIXTURE_SETUP(loop)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);

	registry_setup(_metadata, &self->registry);
	attr.write_backward = 1;
	self->fd = event_open(&attr, -1, pin(0), -1, 0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN_PARENT(loop)
{
	registry_teardown(_metadata, &self->registry);
}

/* An overwrite buffer cannot be mapped writable. */
TEST_F(loop, no_writer)
{
	struct ring r = {};
	int id = DETACH(self->fd, .buffer_pages = PAGES);

	EXPECT_EQ(-EACCES, ring_map(&r, self->fd, PAGES, RW));
	EXPECT_EQ(-EACCES, ring_map(&r, reopen(id), PAGES, RW));
	EXPECT_EQ(-EACCES, ring_map(&r, reopen(id), PAGES, PROT_WRITE));
}

/* A read-only mapping stays so, before DETACH and after it. */
TEST_F(loop, no_writer_from_before)
{
	struct ring r = {};

	ASSERT_EQ(0, ring_map(&r, self->fd, PAGES, PROT_READ));
	EXPECT_EQ(-EACCES, ring_protect(&r, RW));
	ASSERT_LT(0, detach(self->fd));
	EXPECT_EQ(-EACCES, ring_protect(&r, RW));
}

/* A buffer that somebody maps writable cannot become a persistent overwrite buffer. */
TEST_F(loop, mapped_writable)
{
	struct ring r = {};

	ASSERT_EQ(0, ring_map(&r, self->fd, PAGES, RW));
	EXPECT_EQ(-EACCES, detach(self->fd));
	ASSERT_EQ(0, ring_unmap(&r));
	EXPECT_LT(0, detach(self->fd));
}

/* The same if there is a second, writable mapping. */
TEST_F(loop, second_mapping_writable)
{
	struct ring first = {}, second = {};

	ASSERT_EQ(0, ring_map(&first, self->fd, PAGES, PROT_READ));
	ASSERT_EQ(0, ring_map(&second, self->fd, PAGES, RW));
	EXPECT_EQ(-EACCES, detach(self->fd));
	ASSERT_EQ(0, ring_unmap(&first));
	ASSERT_EQ(0, ring_unmap(&second));
	EXPECT_LT(0, detach(self->fd));
}

FIXTURE(writer)
{
	struct registry		registry;
	int			fd;
	int			id;
};

FIXTURE_SETUP(writer)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);

	registry_setup(_metadata, &self->registry);
	attr.wakeup_events = 1;
	self->fd = event_open(&attr, -1, pin(0), -1, 0);
	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	ASSERT_LT(0, self->id);
}

FIXTURE_TEARDOWN_PARENT(writer)
{
	registry_teardown(_metadata, &self->registry);
}

/* There is one consumer; a second one gets -EBUSY. */
TEST_F(writer, only_one)
{
	struct ring one = {}, two = {};

	ASSERT_EQ(0, ring_map(&one, self->fd, PAGES, RW));
	EXPECT_EQ(-EBUSY, ring_map(&two, self->fd, PAGES, RW));
	EXPECT_EQ(-EBUSY, ring_map(&two, reopen(self->id), PAGES, RW));
	EXPECT_EQ(0, ring_map(&two, reopen(self->id), PAGES, PROT_READ));

	ASSERT_EQ(0, ring_unmap(&one));
	EXPECT_EQ(0, ring_map(&two, reopen(self->id), PAGES, RW));
}

/* An attached event can have several consumers, like any other event. */
TEST_F(writer, attached)
{
	struct ring one = {}, two = {};

	ASSERT_EQ(0, ring_map(&one, self->fd, PAGES, RW));
	EXPECT_EQ(-EBUSY, ring_map(&two, self->fd, PAGES, RW));
	ASSERT_EQ(0, attach(self->fd));
	EXPECT_EQ(0, ring_map(&two, self->fd, PAGES, RW));
}

/* An old view of an event that somebody else attached cannot map its new buffer. */
TEST_F(writer, attached_by_another)
{
	struct ring mine = {}, his = {};
	int view = reopen(self->id);

	ASSERT_EQ(0, attach(self->fd));
	ASSERT_EQ(0, ring_map(&mine, self->fd, PAGES, RW));
	EXPECT_EQ(-EACCES, ring_map(&his, view, PAGES, PROT_READ));
	EXPECT_EQ(-EACCES, ring_map(&his, view, PAGES, RW));
}

/* A killed consumer makes room for the next one. */
TEST_F(writer, killed)
{
	struct ring r = {};
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child) {
		ring_map(&r, self->fd, PAGES, RW);
		kill(getpid(), SIGKILL);
	}
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	EXPECT_EQ(0, ring_map(&r, self->fd, PAGES, RW));
}

/* A mapping that was moved still counts as the consumer's. */
TEST_F(writer, moved)
{
	struct ring r = {}, other = {};
	size_t size = (PAGES + 1) * getpagesize();
	void *to;

	ASSERT_EQ(0, ring_map(&r, self->fd, PAGES, RW));
	to = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	r.page = mremap(r.page, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	ASSERT_EQ(to, r.page);
	EXPECT_EQ(-EBUSY, ring_map(&other, self->fd, PAGES, RW));
	ASSERT_EQ(0, ring_unmap(&r));
	EXPECT_EQ(0, ring_map(&other, self->fd, PAGES, RW));
}

/* A child cannot inherit the mapping. */
TEST_F(writer, forked)
{
	struct ring r = {};

	ASSERT_EQ(0, ring_map(&r, self->fd, PAGES, RW));
	EXPECT_EQ(-EINVAL, result(madvise(r.page, (PAGES + 1) * getpagesize(), MADV_DOFORK)));
}

/* A writable mapping made before DETACH is the consumer's. */
TEST_F(writer, mapped_before)
{
	struct ring r = {}, other = {};

	ASSERT_EQ(0, attach(self->fd));
	ASSERT_EQ(0, ring_map(&r, self->fd, PAGES, RW));
	ASSERT_LT(0, detach(self->fd));
	EXPECT_EQ(-EBUSY, ring_map(&other, self->fd, PAGES, RW));
	ASSERT_EQ(0, ring_unmap(&r));
	EXPECT_EQ(0, ring_map(&other, self->fd, PAGES, RW));
}

/* Two writable mappings before DETACH are one too many. */
TEST_F(writer, two_before)
{
	struct ring one = {}, two = {};

	ASSERT_EQ(0, attach(self->fd));
	ASSERT_EQ(0, ring_map(&one, self->fd, PAGES, RW));
	ASSERT_EQ(0, ring_map(&two, self->fd, PAGES, RW));
	EXPECT_EQ(-EBUSY, detach(self->fd));
	EXPECT_EQ(0, registry_count("ids"));
	ASSERT_EQ(0, ring_unmap(&two));
	EXPECT_LT(0, detach(self->fd));
}

/* I can wait for data without mapping anything. */
TEST_F(writer, poll)
{
	struct pollfd p = { .fd = reopen(self->id), .events = POLLIN };

	EXPECT_EQ(0, poll(&p, 1, 0));
	drive(TRACEPOINT, 1);
	EXPECT_EQ(1, poll(&p, 1, PATIENCE_MS));
	EXPECT_EQ(POLLIN, p.revents);
}

FIXTURE(shared)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	int			one, two;
	int			id;
};

/* The second event of a session writes to the buffer of the first */
FIXTURE_SETUP(shared)
{
	struct ring r = {};

	registry_setup(_metadata, &self->registry);
	self->attr = sampling_attr(TRACEPOINT);
	self->one = event_open(&self->attr, -1, pin(0), -1, 0);
	self->two = event_open(&self->attr, -1, 0, -1, 0);
	ASSERT_EQ(0, ring_map(&r, self->one, PAGES, RW));
	ASSERT_EQ(0, ioctl(self->two, PERF_EVENT_IOC_SET_OUTPUT, self->one));
	self->id = detach(self->one);
	ASSERT_LT(0, self->id);
	ASSERT_EQ(self->id, DETACH(self->two, .id = self->id, .member = 1));
	ASSERT_EQ(0, ring_unmap(&r));
}

FIXTURE_TEARDOWN_PARENT(shared)
{
	registry_teardown(_metadata, &self->registry);
}

static unsigned int samples_at(int fd)
{
	struct ring r = {};

	return ring_map(&r, fd, PAGES, PROT_READ) ? 0 : ring_samples(&r);
}

/* The samples of both are in one buffer, whichever I open. */
TEST_F(shared, one_buffer)
{
	drive(TRACEPOINT, 10);
	EXPECT_EQ(20, samples_at(reopen_instance(self->id, 0)));
	EXPECT_EQ(20, samples_at(reopen_instance(self->id, 1)));
}

/* I am told which events share a buffer: I need all their attrs to parse it. */
TEST_F(shared, sharers_are_listed)
{
	int other = event_open(&self->attr, -1, 0, -1, 0), i;
	struct answer a;

	ASSERT_EQ(self->id, DETACH(other, .id = self->id, .member = 2));
	ASSERT_EQ(0, query(self->two, &a));
	EXPECT_LT(0, a.info.self.buffer_id);
	ASSERT_EQ(3, a.info.nr_instances);
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(self->id, a.instances[i].id);
		EXPECT_EQ(i < 2, a.info.self.buffer_id == a.instances[i].buffer_id);
	}
}

/* The second event keeps the buffer when the first one ends ... */
TEST_F(shared, outlives_the_first)
{
	drive(TRACEPOINT, 10);
	ASSERT_EQ(0, attach(self->one));
	close(self->one);

	drive(TRACEPOINT, 10);
	EXPECT_EQ(30, samples_at(reopen_instance(self->id, 1)));
}

/* ... and the first one keeps it when the second one ends. */
TEST_F(shared, outlives_the_second)
{
	drive(TRACEPOINT, 10);
	ASSERT_EQ(0, attach(self->two));
	close(self->two);

	drive(TRACEPOINT, 10);
	EXPECT_EQ(30, samples_at(reopen_instance(self->id, 0)));
}

/* A shared buffer has only one consumer, whichever event is opened. */
TEST_F(shared, one_consumer)
{
	struct ring r = {}, other = {};

	ASSERT_EQ(0, ring_map(&r, self->one, PAGES, RW));
	EXPECT_EQ(-EBUSY, ring_map(&other, self->two, PAGES, RW));
	EXPECT_EQ(0, ring_map(&other, self->two, PAGES, PROT_READ));
}

/* An event can join a buffer that is persistent already, but not through a view. */
TEST_F(shared, joined_later)
{
	int fd = event_open(&self->attr, -1, 0, -1, 0);

	EXPECT_EQ(-EBADF, result(ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT,
				       reopen_instance(self->id, 0))));
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, self->one));
	ASSERT_EQ(self->id, DETACH(fd, .id = self->id, .member = 2));
	drive(TRACEPOINT, 10);
	EXPECT_EQ(30, samples_at(fd));
	EXPECT_EQ(30, samples_at(reopen_instance(self->id, 2)));
}

TEST_HARNESS_MAIN
