// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: time to live.
 */
#include <poll.h>

#include "persistent.h"

#define N	10
#define PAGES	64
#define SEC	1000000000ULL
#define SOON	(SEC / 20)
#define HOUR	(3600 * SEC)

FIXTURE(ttl)
{
	struct registry		registry;
	struct ring		ring;
	int			fd;
	int			id;
};

FIXTURE_VARIANT(ttl)
{
	enum event		event;
	bool			loop;
};

FIXTURE_VARIANT_ADD(ttl, clock_full) { .event = CLOCK };
FIXTURE_VARIANT_ADD(ttl, clock_loop) { .event = CLOCK, .loop = true };
FIXTURE_VARIANT_ADD(ttl, tracepoint_full) { .event = TRACEPOINT };
FIXTURE_VARIANT_ADD(ttl, tracepoint_loop) { .event = TRACEPOINT, .loop = true };
FIXTURE_VARIANT_ADD(ttl, cycles_full) { .event = CYCLES };
FIXTURE_VARIANT_ADD(ttl, cycles_loop) { .event = CYCLES, .loop = true };

static int open_event(enum event event, bool loop)
{
	struct perf_event_attr attr = sampling_attr(event);

	attr.write_backward = loop;

	return event_open(&attr, -1, 0, -1, 0);
}

FIXTURE_SETUP(ttl)
{
	if (!has_event(variant->event))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);
	pin(0);
	self->fd = open_event(variant->event, variant->loop);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN_PARENT(ttl)
{
	registry_teardown(_metadata, &self->registry);
}

static __u64 ttl_left(int fd)
{
	struct answer a;

	return query(fd, &a) ? -1ULL : a.info.ttl;
}

static int set_ttl(int fd, __u64 ttl)
{
	return SET(fd, .flags = PERF_PERSISTENT_SET_TTL, .ttl = ttl);
}

/* Wait as long as a new session with that time to live exists */
static bool wait_for(__u64 ttl)
{
	int id = DETACH(open_event(CLOCK, false), .ttl = ttl);

	return id > 0 && eventually(!registry_has(id));
}

/* I am told the remaining time to live, and it decreases. */
TEST_F(ttl, counts_down)
{
	char path[64];
	__u64 left;

	self->id = DETACH(self->fd, .ttl = HOUR);
	left = ttl_left(self->fd);
	EXPECT_GT(HOUR, left);
	EXPECT_LT(HOUR - PATIENCE_MS * 1000000ULL, left);
	EXPECT_TRUE(eventually(ttl_left(self->fd) < left));

	snprintf(path, sizeof(path), REGISTRY "/ids/%d/time_left", self->id);
	EXPECT_GT(left, read_number(path));
	EXPECT_LT(0, read_number(path));
}

/* When the time is over, the session ends by itself. */
TEST_F(ttl, ends)
{
	self->id = DETACH(self->fd, .ttl = SOON);
	ASSERT_LT(0, self->id);
	close(self->fd);

	EXPECT_TRUE(eventually(!registry_has(self->id)));
	EXPECT_EQ(-ENOENT, reopen(self->id));
	EXPECT_EQ(0, registry_count("events"));
}

/* The session does not end before. */
TEST_F(ttl, not_before)
{
	__u64 start = now_ns();

	self->id = DETACH(self->fd, .ttl = 4 * SOON);
	EXPECT_TRUE(eventually(!registry_has(self->id)));
	EXPECT_LE(start + 4 * SOON, now_ns());
}

/* The session ends though I have it open: the count stops, and I am told why. */
TEST_F(ttl, ends_while_open)
{
	struct pollfd p = { .events = POLLIN };
	struct answer before, a;
	__u64 last;

	self->id = detach(self->fd);
	p.fd = reopen(self->id);
	ASSERT_EQ(0, query(p.fd, &before));
	EXPECT_EQ(0, before.info.ended);
	ASSERT_EQ(0, set_ttl(self->fd, SOON));
	ASSERT_TRUE(eventually(poll(&p, 1, 0) == 1 && p.revents & POLLHUP));

	last = count(p.fd);
	drive(variant->event, N);
	EXPECT_EQ(last, count(p.fd));
	EXPECT_EQ(-EINVAL, attach(p.fd));
	EXPECT_EQ(-ESRCH, set_ttl(p.fd, HOUR));
	EXPECT_EQ(-ENODEV, detach(p.fd));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, getpagesize(), PROT_READ, MAP_SHARED, p.fd, 0));
	EXPECT_EQ(ENODEV, errno);
	EXPECT_TRUE(eventually(!registry_has(self->id)));

	ASSERT_EQ(0, query(p.fd, &a));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXPIRED, a.info.ended);
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXPIRED, a.info.self.state);
	EXPECT_EQ(before.info.self.event_id, a.info.self.event_id);
	EXPECT_EQ(before.info.attr_size, a.info.attr_size);
	EXPECT_EQ(0, memcmp(&before.attr, &a.attr, sizeof(a.attr)));
	EXPECT_EQ(0, a.info.nr_instances);
	EXPECT_EQ(0, a.info.ttl);
	EXPECT_STREQ("", a.info.name);
}

/* A file that sends me signals can be closed after the end, with nothing left behind. */
TEST_F(ttl, ends_with_signals)
{
	signal(SIGIO, SIG_IGN);
	ASSERT_EQ(0, fcntl(self->fd, F_SETOWN, getpid()));
	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, O_ASYNC));
	self->id = detach(self->fd);
	ASSERT_EQ(0, set_ttl(self->fd, SOON));
	ASSERT_TRUE(eventually(!registry_has(self->id)));
	EXPECT_EQ(0, fcntl(self->fd, F_SETFL, 0));
}

/* The number of lost samples can be read after the end. */
TEST_F(ttl, lost_until_its_end)
{
	struct answer before, a;

	self->id = DETACH(self->fd, .buffer_pages = 1);
	EXPECT_TRUE(eventually((drive(variant->event, 100), !query(self->fd, &before)) &&
			       (variant->loop || before.info.self.lost)));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, query(self->fd, &before));
	EXPECT_EQ(variant->loop, !before.info.self.lost);
	ASSERT_EQ(0, set_ttl(self->fd, SOON));
	ASSERT_TRUE(eventually(!registry_has(self->id)));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXPIRED, a.info.ended);
	EXPECT_EQ(before.info.self.lost, a.info.self.lost);
}

/* An event that I attached in time does not expire, and QUERY refuses it. */
TEST_F(ttl, attached_is_not_ended)
{
	struct answer a;

	self->id = DETACH(self->fd, .ttl = 10 * SOON);
	ASSERT_EQ(0, attach(self->fd));
	EXPECT_TRUE(wait_for(10 * SOON));
	EXPECT_EQ(-EINVAL, query(self->fd, &a));
}

/* An expired event cannot be enabled again. */
TEST_F(ttl, ended_for_good)
{
	self->id = DETACH(self->fd, .ttl = 1);
	ASSERT_LT(0, self->id);
	ASSERT_TRUE(eventually(!registry_has(self->id)));
	EXPECT_EQ(-ENODEV, detach(self->fd));
	EXPECT_EQ(0, registry_count("ids"));
}

/* A poller is woken when the session expires. */
TEST_F(ttl, wakes_who_polls)
{
	struct pollfd p = {};
	__u64 start = now_ns();

	event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL);
	self->id = DETACH(self->fd, .ttl = SOON);
	p.fd = reopen(self->id);
	ASSERT_LE(0, p.fd);
	EXPECT_EQ(1, poll(&p, 1, PATIENCE_MS));
	EXPECT_NE(0, p.revents & POLLHUP);
	EXPECT_GT(start + PATIENCE_MS * 1000000ULL, now_ns());
}

/* A mapped event hangs up, too, and the mapping keeps its records, readable. */
TEST_F(ttl, ends_while_mapped)
{
	struct ring *r = &self->ring;
	struct pollfd p = {};
	unsigned int before;
	struct answer a;
	__u64 start, head;

	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	p.fd = reopen(self->id);
	ASSERT_LE(0, p.fd);
	ASSERT_EQ(0, ring_map(r, self->fd, PAGES, PROT_READ));
	drive(variant->event, N);
	before = variant->loop ? loop_samples(r) : ring_samples(r);
	start = now_ns();
	ASSERT_EQ(0, set_ttl(self->fd, SOON));
	EXPECT_EQ(1, poll(&p, 1, PATIENCE_MS));
	EXPECT_NE(0, p.revents & POLLHUP);
	EXPECT_GT(start + PATIENCE_MS * 1000000ULL, now_ns());

	head = ring_head(r);
	EXPECT_NE(0, head);
	EXPECT_LE(before, variant->loop ? loop_samples(r) : ring_samples(r));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(head, a.info.buffer_head);
	EXPECT_EQ(PAGES, a.info.buffer_pages);
	close(self->fd);
	drive(variant->event, N);
	EXPECT_EQ(head, ring_head(r));
}

/* I can extend the time ... */
TEST_F(ttl, extended)
{
	self->id = DETACH(self->fd, .ttl = 10 * SOON);
	ASSERT_EQ(0, set_ttl(self->fd, HOUR));
	EXPECT_LT(HOUR / 2, ttl_left(self->fd));
	EXPECT_TRUE(wait_for(10 * SOON));
	EXPECT_TRUE(registry_has(self->id));
}

/* ... or remove the limit ... */
TEST_F(ttl, removed)
{
	self->id = DETACH(self->fd, .ttl = 10 * SOON);
	ASSERT_EQ(0, set_ttl(self->fd, 0));
	EXPECT_EQ(0, ttl_left(self->fd));
	EXPECT_TRUE(wait_for(10 * SOON));
	EXPECT_TRUE(registry_has(self->id));
}

/* ... or shorten the time, or set a limit where there was none. */
TEST_F(ttl, shortened)
{
	self->id = detach(self->fd);
	ASSERT_EQ(0, set_ttl(self->fd, HOUR));
	ASSERT_EQ(0, set_ttl(self->fd, SOON));
	EXPECT_TRUE(eventually(!registry_has(self->id)));
}

/* An event that I attached in time goes on after the time is over. */
TEST_F(ttl, attached_in_time)
{
	__u64 before;

	self->id = DETACH(self->fd, .ttl = 10 * SOON);
	ASSERT_EQ(0, attach(self->fd));
	EXPECT_TRUE(wait_for(10 * SOON));

	before = count(self->fd);
	drive(variant->event, N);
	EXPECT_LE(before + N, count(self->fd));
}

/* All instances end together, whenever they joined. */
TEST_F(ttl, whole_id)
{
	int fd = open_event(FAULTS, false), sibling;
	struct perf_event_attr attr = event_attr(CLOCK);

	sibling = event_open(&attr, -1, 0, self->fd, 0);
	self->id = detach(self->fd);
	ASSERT_EQ(self->id, DETACH(fd, .id = self->id, .member = 1));
	ASSERT_EQ(self->id, DETACH(sibling, .id = self->id, .member = 2));
	ASSERT_EQ(0, set_ttl(fd, SOON));

	EXPECT_TRUE(eventually(!registry_has(self->id)));
	EXPECT_EQ(-EINVAL, attach(fd));
	EXPECT_EQ(-EINVAL, attach(sibling));
}

/* The shortest time to live is valid; the session ends at once. */
TEST_F(ttl, at_once)
{
	int i, id;

	for (i = 0; i < 50; i++) {
		id = DETACH(open_event(variant->event, variant->loop),
			    .ttl = 1 + i * 1000, .buffer_pages = 1);
		ASSERT_LT(0, id);
	}
	EXPECT_TRUE(eventually(!registry_count("ids")));
}

/* When the session is gone, its name is free. */
TEST_F(ttl, name_is_free)
{
	for (int i = 0; i < 100; i++) {
		self->id = DETACH(open_event(CLOCK, false), .ttl = 1, .name = addr("again"));
		ASSERT_LT(0, self->id);
		ASSERT_TRUE(eventually(!registry_has(self->id)));
		ASSERT_EQ(0, registry_count("events"));
	}
}

/* The period of an expired event that I have open cannot be set. */
TEST_F(ttl, period_after_its_end)
{
	struct perf_event_attr attr = sampling_attr(variant->event);
	__u64 period = 2000;

	attr.write_backward = variant->loop;
	close(self->fd);
	self->fd = event_open(&attr, 0, -1, -1, 0);
	self->id = DETACH(self->fd, .ttl = 1);
	ASSERT_LT(0, self->id);
	ASSERT_TRUE(eventually(!registry_has(self->id)));
	EXPECT_EQ(-ENODEV, event_ioctl(self->fd, PERF_EVENT_IOC_PERIOD, &period));
}

/* A time to live beyond the clock's range is refused. */
TEST_F(ttl, too_long)
{
	EXPECT_EQ(-EINVAL, DETACH(self->fd, .ttl = -1ULL));
	EXPECT_EQ(-EINVAL, DETACH(self->fd, .ttl = 1ULL << 63));
	EXPECT_EQ(0, registry_count("ids"));
	EXPECT_LT(0, DETACH(self->fd, .ttl = 1000000 * HOUR));
}

/* A session is marked as uncommitted until I commit it. */
TEST_F(ttl, commit)
{
	struct answer a;

	self->id = DETACH(self->fd, .flags = PERF_DETACH_UNCOMMITTED, .ttl = HOUR);
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_NE(0, a.info.flags & PERF_PERSISTENT_UNCOMMITTED);

	ASSERT_EQ(0, SET(reopen(self->id), .flags = PERF_PERSISTENT_SET_COMMITTED));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(0, a.info.flags & PERF_PERSISTENT_UNCOMMITTED);
	EXPECT_NE(0, a.info.ttl);

	ASSERT_EQ(0, SET(self->fd, .flags = PERF_PERSISTENT_SET_COMMITTED |
					    PERF_PERSISTENT_SET_TTL));
	EXPECT_EQ(0, ttl_left(self->fd));
}

/* If I am killed during the set-up, the session ends soon. */
TEST_F(ttl, killed_while_setting_up)
{
	__u64 start = now_ns();
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child) {
		self->id = DETACH(self->fd, .flags = PERF_DETACH_UNCOMMITTED, .ttl = SEC);
		DETACH(open_event(FAULTS, false), .id = self->id, .member = 1);
		kill(getpid(), SIGKILL);
	}
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	EXPECT_TRUE(registry_has(self->id) || now_ns() > start + SEC);
	EXPECT_TRUE(eventually(!registry_has(self->id)));
}

FIXTURE(user)
{
	struct registry		registry;
	int			fd;
};

/* A user who is limited to 100 s */
FIXTURE_SETUP(user)
{
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(PARANOID, 0));
	ASSERT_EQ(0, set_sysctl(MAX_TTL, 100));
	ASSERT_EQ(0, set_sysctl(MAX_USER, 1));
	ASSERT_EQ(0, become(USER));
	self->fd = open_event(CLOCK, false);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN_PARENT(user)
{
	registry_teardown(_metadata, &self->registry);
}

/* A user's session gets the longest time to live by default. */
TEST_F(user, default_is_the_longest)
{
	ASSERT_LT(0, detach(self->fd));
	EXPECT_GT(100 * SEC, ttl_left(self->fd));
	EXPECT_LT(90 * SEC, ttl_left(self->fd));
}

/* The same for attr.persistent. */
TEST_F(user, persistent_at_open)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int fd;

	attr.persistent = 1;
	fd = event_open(&attr, -1, 0, -1, 0);
	ASSERT_LE(0, fd);
	EXPECT_GT(100 * SEC, ttl_left(fd));
	EXPECT_LT(90 * SEC, ttl_left(fd));
}

/* A user can have exactly the longest time, and less. */
TEST_F(user, up_to_the_longest)
{
	EXPECT_LT(0, DETACH(self->fd, .ttl = 100 * SEC));
	EXPECT_EQ(0, set_ttl(self->fd, 50 * SEC));
	EXPECT_GT(50 * SEC, ttl_left(self->fd));
	EXPECT_EQ(0, set_ttl(self->fd, 100 * SEC));
	EXPECT_LT(90 * SEC, ttl_left(self->fd));
}

/* A user cannot exceed or remove the limit. */
TEST_F(user, not_longer)
{
	EXPECT_EQ(-EINVAL, DETACH(self->fd, .ttl = 100 * SEC + 1));
	EXPECT_EQ(0, registry_count("ids"));
	ASSERT_LT(0, DETACH(self->fd, .ttl = 10 * SEC));
	EXPECT_EQ(-EINVAL, set_ttl(self->fd, 100 * SEC + 1));
	EXPECT_GT(10 * SEC, ttl_left(self->fd));
	EXPECT_EQ(0, set_ttl(self->fd, 0));
	EXPECT_GT(100 * SEC, ttl_left(self->fd));
	EXPECT_LT(0, ttl_left(self->fd));
}

/* The administrator can give a user's session more time. */
TEST_F(user, given_more)
{
	ASSERT_LT(0, detach(self->fd));
	ASSERT_EQ(0, become(0));
	EXPECT_EQ(0, set_ttl(self->fd, HOUR));
	EXPECT_LT(100 * SEC, ttl_left(self->fd));
}

/* An expired session does not count against its user. */
TEST_F(user, quota_is_given_back)
{
	int i;

	for (i = 0; i < 10; i++) {
		ASSERT_LT(0, DETACH(self->fd, .ttl = SOON / 10));
		ASSERT_TRUE(eventually(!registry_count("ids")));
		close(self->fd);
		self->fd = open_event(CLOCK, false);
	}
}

TEST_HARNESS_MAIN
