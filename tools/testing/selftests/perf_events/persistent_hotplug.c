// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: their CPU goes offline and comes back.
 */
#include <poll.h>

#include "persistent.h"

#define N	100
#define PAGES	64
#define GAPS	3
#define CPUS	"/sys/devices/system/cpu"
#define MSEC	1000000ULL
#define SOON	(50 * MSEC)

FIXTURE(hotplug)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	int			fd;
	int			id;
};

FIXTURE_VARIANT(hotplug)
{
	enum event		event;
	bool			sampling;
	bool			loop;
	bool			pinned;
};

FIXTURE_VARIANT_ADD(hotplug, clock) { .event = CLOCK };
FIXTURE_VARIANT_ADD(hotplug, faults) { .event = FAULTS };
FIXTURE_VARIANT_ADD(hotplug, tracepoint) { .event = TRACEPOINT };
FIXTURE_VARIANT_ADD(hotplug, pinned) { .event = TRACEPOINT, .pinned = true };
FIXTURE_VARIANT_ADD(hotplug, clock_full) { .event = CLOCK, .sampling = true };
FIXTURE_VARIANT_ADD(hotplug, cycles) { .event = CYCLES };
FIXTURE_VARIANT_ADD(hotplug, cycles_pinned) { .event = CYCLES, .pinned = true };
FIXTURE_VARIANT_ADD(hotplug, cycles_full) { .event = CYCLES, .sampling = true };
FIXTURE_VARIANT_ADD(hotplug, tracepoint_loop) {
	.event = TRACEPOINT, .sampling = true, .loop = true
};

FIXTURE_SETUP(hotplug)
{
	if (!has_event(variant->event))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);

	self->attr = variant->sampling ? sampling_attr(variant->event) :
					 event_attr(variant->event);
	self->attr.write_backward = variant->loop;
	self->attr.pinned = variant->pinned;
	self->attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED;
	pin(0);
	self->fd = event_open(&self->attr, -1, HOT_CPU, -1, 0);
	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);
	drive_there(variant->event, N);
}

FIXTURE_TEARDOWN_PARENT(hotplug)
{
	hot_teardown(_metadata, &self->registry);
}

/* Expect the event to count on its CPU: exactly, where the event is exact */
static void expect_counts(struct __test_metadata *_metadata, enum event event, int fd)
{
	__u64 before = count(fd);

	drive_there(event, N);
	EXPECT_LE(before + N, count(fd));
	if (event == TRACEPOINT)
		EXPECT_EQ(before + N, count(fd));
}

static void expect_stands_still(struct __test_metadata *_metadata, enum event event, int fd)
{
	__u64 before = count(fd);

	drive_there(event, N);
	EXPECT_EQ(before, count(fd));
}

/* An event keeps its count when its CPU goes offline, and goes on when the CPU is back. */
TEST_F(hotplug, goes_on)
{
	__u64 before;

	ASSERT_EQ(0, set_online(false));
	close(self->fd);
	self->fd = reopen(self->id);
	before = count(self->fd);
	EXPECT_LE(N, before);
	close(self->fd);
	drive(variant->event, N);
	self->fd = reopen(self->id);
	EXPECT_EQ(before, count(self->fd));

	ASSERT_EQ(0, set_online(true));
	expect_counts(_metadata, variant->event, self->fd);
	EXPECT_LE(before + N, count(self->fd));
}

/* Nobody needs to have it open meanwhile, and it is still found by its CPU. */
TEST_F(hotplug, opened_by_cpu)
{
	close(self->fd);
	ASSERT_EQ(0, set_online(false));
	self->fd = reopen_at(self->id, -1, HOT_CPU);
	ASSERT_LE(0, self->fd);
	EXPECT_LE(N, count(self->fd));
	close(self->fd);

	ASSERT_EQ(0, set_online(true));
	expect_counts(_metadata, variant->event, reopen_at(self->id, -1, HOT_CPU));
}

/* I am told that the CPU is offline, how often it was, and for how long. */
TEST_F(hotplug, gaps_are_told)
{
	__u64 start = now_ns(), last = 0;
	struct answer a;
	int i;

	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(0, a.info.offline_count);
	EXPECT_EQ(0, a.info.offline_time);
	for (i = 1; i <= GAPS; i++) {
		ASSERT_EQ(0, set_online(false));
		ASSERT_EQ(0, query(self->fd, &a));
		EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, a.info.self.state);
		EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, a.instances[0].state);
		EXPECT_EQ(0, a.info.ended);
		EXPECT_EQ(HOT_CPU, a.info.self.cpu);
		EXPECT_EQ(i, a.info.offline_count);
		EXPECT_LT(last, a.info.offline_time);
		last = a.info.offline_time;
		EXPECT_TRUE(eventually(!query(self->fd, &a) &&
				       a.info.offline_time > last + MSEC));

		ASSERT_EQ(0, set_online(true));
		ASSERT_EQ(0, query(self->fd, &a));
		EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, a.info.self.state);
		EXPECT_EQ(i, a.info.offline_count);
		EXPECT_LT(last + MSEC, a.info.offline_time);
		last = a.info.offline_time;
		drive(CLOCK, 10);
		ASSERT_EQ(0, query(self->fd, &a));
		EXPECT_EQ(last, a.info.offline_time);
	}
	EXPECT_GT(now_ns() - start, last);
}

/* The time offline does not count as enabled. */
TEST_F(hotplug, gap_is_not_enabled)
{
	__u64 before[2] = {}, after[2] = {}, start = now_ns(), real;
	struct answer a;

	ASSERT_LT(0, read(self->fd, before, sizeof(before)));
	ASSERT_EQ(0, set_online(false));
	ASSERT_TRUE(eventually(!query(self->fd, &a) && a.info.offline_time > 500 * MSEC));
	ASSERT_EQ(0, set_online(true));
	drive_there(CLOCK, 10);
	ASSERT_LT(0, read(self->fd, after, sizeof(after)));

	/* The two clocks differ slightly. */
	real = now_ns() - start;
	EXPECT_LT(before[1], after[1]);
	EXPECT_GT(real - 250 * MSEC, after[1] - before[1]);
}

/* An event that is disabled stays disabled. */
TEST_F(hotplug, disabled_before)
{
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, set_online(false));
	EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, state_of(self->fd));
	ASSERT_EQ(0, set_online(true));
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(self->fd));
	expect_stands_still(_metadata, variant->event, self->fd);

	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ENABLE, NULL));
	expect_counts(_metadata, variant->event, self->fd);
}

/* An event that I disable while its CPU is offline is disabled when it is back ... */
TEST_F(hotplug, disabled_while_offline)
{
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, state_of(self->fd));
	ASSERT_EQ(0, set_online(true));
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(self->fd));
	expect_stands_still(_metadata, variant->event, self->fd);

	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ENABLE, NULL));
	expect_counts(_metadata, variant->event, self->fd);
}

/* ... and one that I enable is enabled; the last command counts. */
TEST_F(hotplug, enabled_while_offline)
{
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ENABLE, NULL));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ENABLE, NULL));
	EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, state_of(self->fd));
	ASSERT_EQ(0, set_online(true));
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->fd));
	expect_counts(_metadata, variant->event, self->fd);
}

/* An event that I reset while its CPU is offline starts from zero. */
TEST_F(hotplug, reset_while_offline)
{
	ASSERT_EQ(0, set_online(false));
	EXPECT_LE(N, count(self->fd));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_RESET, NULL));
	EXPECT_EQ(0, count(self->fd));
	ASSERT_EQ(0, set_online(true));
	expect_counts(_metadata, variant->event, self->fd);
}

/* An event attached while its CPU is offline goes on when it is back, but not a second time. */
TEST_F(hotplug, attached_while_offline)
{
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, attach(self->fd));
	EXPECT_EQ(0, registry_count("ids"));
	ASSERT_EQ(0, set_online(true));
	expect_counts(_metadata, variant->event, self->fd);

	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, set_online(true));
	expect_stands_still(_metadata, variant->event, self->fd);
	EXPECT_EQ(-ENODEV, detach(self->fd));
}

/* An event attached and closed while its CPU is offline is gone. */
TEST_F(hotplug, ended_while_offline)
{
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, attach(self->fd));
	close(self->fd);
	EXPECT_EQ(-ENOENT, reopen(self->id));
	EXPECT_EQ(0, registry_count("ids"));
	ASSERT_EQ(0, set_online(true));
	ASSERT_EQ(0, set_online(false));
}

/* After attaching and detaching while the CPU is offline, the gap starts at the detach. */
TEST_F(hotplug, detached_again_while_offline)
{
	struct answer a;
	__u64 start;

	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, attach(self->fd));
	start = now_ns();
	ASSERT_LT(0, detach(self->fd));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, a.info.self.state);
	EXPECT_GT(now_ns() - start, a.info.offline_time);

	ASSERT_EQ(0, set_online(true));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_GT(now_ns() - start, a.info.offline_time);
	EXPECT_EQ(1, a.info.offline_count);
	expect_counts(_metadata, variant->event, self->fd);
}

/* An event expires on time, though its CPU is offline. */
TEST_F(hotplug, expires_while_offline)
{
	int other = event_open(&self->attr, -1, HOT_CPU, -1, 0);

	ASSERT_LT(0, detach(other));
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, SET(self->fd, .flags = PERF_PERSISTENT_SET_TTL, .ttl = SOON));
	ASSERT_TRUE(eventually(!registry_has(self->id)));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXPIRED, state_of(self->fd));
	EXPECT_LE(N, count(self->fd));

	ASSERT_EQ(0, set_online(true));
	expect_stands_still(_metadata, variant->event, self->fd);
	expect_counts(_metadata, variant->event, other);
}

/* The number of a hotplug step, by its name */
static int hotplug_step(const char *name)
{
	char text[8192], *end;

	read_file(CPUS "/hotplug/states", text, sizeof(text));
	end = strstr(text, name);
	while (end && end > text && end[-1] != '\n')
		end--;

	return end ? atoi(end) : -1;
}

/* If taking the CPU offline fails half-way, the event goes on as well. */
TEST_F(hotplug, fails_to_go_offline)
{
	int step = hotplug_step(": smpboot/threads:online");

	ASSERT_LT(0, step);
	ASSERT_EQ(0, write_number(CPUS "/cpu1/hotplug/fail", step));
	EXPECT_EQ(-EAGAIN, set_online(false));
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->fd));
	expect_counts(_metadata, variant->event, self->fd);
}

/* An ordinary event whose CPU went offline is lost, and cannot be detached. */
TEST_F(hotplug, detached_too_late)
{
	int other = event_open(&self->attr, -1, HOT_CPU, -1, 0);

	ASSERT_EQ(0, set_online(false));
	EXPECT_EQ(-ENODEV, detach(other));
	EXPECT_EQ(-ENODEV, event_open(&self->attr, -1, HOT_CPU, -1, 0));
	ASSERT_EQ(0, set_online(true));
	EXPECT_EQ(-ENODEV, detach(other));
	expect_stands_still(_metadata, variant->event, other);
	EXPECT_EQ(1, registry_count("ids"));
}

FIXTURE(buffer)
{
	struct registry		registry;
	struct ring		ring;
	int			fd;
	int			id;
};

FIXTURE_VARIANT(buffer)
{
	bool			loop;
};

FIXTURE_VARIANT_ADD(buffer, full) { .loop = false };
FIXTURE_VARIANT_ADD(buffer, loop) { .loop = true };

FIXTURE_SETUP(buffer)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);

	registry_setup(_metadata, &self->registry);
	attr.write_backward = variant->loop;
	attr.wakeup_events = 1;
	pin(0);
	self->fd = event_open(&attr, -1, HOT_CPU, -1, 0);
	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	ASSERT_LT(0, self->id);
	drive_there(TRACEPOINT, N);
}

FIXTURE_TEARDOWN_PARENT(buffer)
{
	hot_teardown(_metadata, &self->registry);
}

static unsigned int samples(struct ring *r, bool loop)
{
	return loop ? loop_samples(r) : ring_samples(r);
}

/* A buffer keeps its records, can be mapped meanwhile, and gets new ones after them. */
TEST_F(buffer, goes_on)
{
	struct answer a;
	__u64 head;

	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, ring_map(&self->ring, reopen(self->id), PAGES, PROT_READ));
	head = ring_head(&self->ring);
	EXPECT_EQ(N, samples(&self->ring, variant->loop));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(head, a.info.buffer_head);
	EXPECT_EQ(PAGES, a.info.buffer_pages);

	ASSERT_EQ(0, set_online(true));
	EXPECT_EQ(head, ring_head(&self->ring));
	drive_there(TRACEPOINT, N);
	EXPECT_EQ(2 * N, samples(&self->ring, variant->loop));
	EXPECT_EQ(2 * head, ring_head(&self->ring));
}

/* A poller does not get a hang-up, and is woken by new records. */
TEST_F(buffer, poll)
{
	struct pollfd p = { .fd = reopen(self->id), .events = POLLIN };

	ASSERT_EQ(1, poll(&p, 1, 0));
	ASSERT_EQ(0, set_online(false));
	EXPECT_EQ(0, poll(&p, 1, 10));
	ASSERT_EQ(0, set_online(true));
	EXPECT_EQ(0, poll(&p, 1, 0));
	drive_there(TRACEPOINT, 1);
	EXPECT_EQ(1, poll(&p, 1, PATIENCE_MS));
	EXPECT_EQ(POLLIN, p.revents);
}

/* A period that I set while the CPU is offline is used when it is back. */
TEST_F(buffer, period_while_offline)
{
	__u64 period = 10;

	ASSERT_EQ(0, ring_map(&self->ring, self->fd, PAGES, PROT_READ));
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_PERIOD, &period));
	ASSERT_EQ(0, set_online(true));
	drive_there(TRACEPOINT, N);
	EXPECT_EQ(2 * N, count(self->fd));
	EXPECT_LE(N + N / 10 - 1, samples(&self->ring, variant->loop));
	EXPECT_GE(N + N / 10 + 1, samples(&self->ring, variant->loop));
}

/* PERF_EVENT_IOC_REFRESH while the CPU is offline allows just so many samples after it is back. */
TEST_F(buffer, refresh_while_offline)
{
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, PAGES, PROT_READ));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, result(ioctl(self->fd, PERF_EVENT_IOC_REFRESH, 3)));
	ASSERT_EQ(0, set_online(true));
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->fd));
	drive_there(TRACEPOINT, N);
	EXPECT_TRUE(eventually(state_of(self->fd) == PERF_PERSISTENT_STATE_DISABLED));
	EXPECT_EQ(N + 3, samples(&self->ring, variant->loop));
}

/* A filter that I set while the CPU is offline is in force when it is back. */
TEST_F(buffer, filter_while_offline)
{
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_SET_FILTER, "__syscall_nr < 0"));
	ASSERT_EQ(0, set_online(true));
	drive_there(TRACEPOINT, N);
	EXPECT_EQ(N, count(self->fd));
}

/* An event that ends while its CPU is offline hangs up for pollers. */
TEST_F(buffer, hangs_up_when_ended_offline)
{
	struct pollfd p = { .fd = reopen(self->id), .events = POLLIN };

	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, SET(self->fd, .flags = PERF_PERSISTENT_SET_TTL, .ttl = SOON));
	EXPECT_TRUE(eventually(poll(&p, 1, PATIENCE_MS) == 1 && p.revents & POLLHUP));
	ASSERT_EQ(0, set_online(true));
}

TEST_HARNESS_MAIN
