// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: the example that takes one record at a time, like
 * posix_trace_getnext_event(3p) and its two sisters.
 */
#include <signal.h>
#include <sys/time.h>

#include "persistent.h"

#define main next_record_main
#include "persistent_next_record.c"
#undef main

#define N	1000
#define SOON_MS	50

/* The count is the number of the sample; the buffer's size is no multiple of the sample's. */
struct numbered {
	struct perf_event_header	header;
	__u64				id;
	__u32				pid, tid;
	__u64				time;
	__u64				number;
};

union record {
	struct numbered			sample;
	struct perf_event_header	header;
	char				bytes[65536];
};

FIXTURE(next)
{
	struct registry		registry;
	struct stream		stream;
	union record		record;
	int			id;
};

FIXTURE_VARIANT(next)
{
	__u32			wakeup_events;
};

FIXTURE_VARIANT_ADD(next, watermark) { .wakeup_events = 0 };
FIXTURE_VARIANT_ADD(next, each_event) { .wakeup_events = 1 };

FIXTURE_SETUP(next)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	int fd;

	registry_setup(_metadata, &self->registry);
	attr.sample_type |= PERF_SAMPLE_READ;
	attr.wakeup_events = variant->wakeup_events;
	fd = event_open(&attr, -1, pin(0), -1, 0);
	self->id = DETACH(fd, .name = addr("next"), .buffer_pages = 1);
	ASSERT_LT(0, self->id);
	close(fd);
	ASSERT_EQ(0, stream_open(&self->stream, "next", 0));
}

FIXTURE_TEARDOWN_PARENT(next)
{
	registry_teardown(_metadata, &self->registry);
}

#define NEXT(ms)	stream_next(&self->stream, ms, &self->record)

/* I get the next record, or -EAGAIN at once. */
TEST_F(next, not_at_all)
{
	EXPECT_EQ(-EAGAIN, NEXT(0));
	drive(TRACEPOINT, 2);
	EXPECT_EQ(0, NEXT(0));
	EXPECT_EQ(PERF_RECORD_SAMPLE, self->record.header.type);
	EXPECT_EQ(1, self->record.sample.number);
	EXPECT_EQ(0, NEXT(0));
	EXPECT_EQ(2, self->record.sample.number);
	EXPECT_EQ(-EAGAIN, NEXT(0));
}

/* I wait for the next record up to a time-out. */
TEST_F(next, up_to_a_time)
{
	__u64 start = now_ns();

	EXPECT_EQ(-ETIMEDOUT, NEXT(SOON_MS));
	EXPECT_LE(start + SOON_MS * 1000000ULL, now_ns() + 1000000);
	drive(TRACEPOINT, 1);
	EXPECT_EQ(0, NEXT(PATIENCE_MS));
	EXPECT_EQ(1, self->record.sample.number);
}

/* I wait until another process produces a record. */
TEST_F(next, for_ever)
{
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child) {
		usleep(SOON_MS * 1000);
		drive(TRACEPOINT, 1);
		_exit(0);
	}
	EXPECT_EQ(0, NEXT(-1));
	EXPECT_EQ(child, self->record.sample.pid);
	EXPECT_EQ(child, waitpid(child, NULL, 0));
}

static void nothing(int sig)
{
}

/* A signal ends the wait without losing a record. */
TEST_F(next, interrupted)
{
	struct itimerval timer = { .it_interval.tv_usec = 10000, .it_value.tv_usec = 10000 };
	struct sigaction action = { .sa_handler = nothing };

	ASSERT_EQ(0, sigaction(SIGALRM, &action, NULL));
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &timer, NULL));
	EXPECT_EQ(-EINTR, NEXT(-1));
	EXPECT_EQ(-EINTR, NEXT(PATIENCE_MS));
	drive(TRACEPOINT, 1);
	EXPECT_EQ(0, NEXT(-1));
	EXPECT_EQ(1, self->record.sample.number);
}

/* Records that wrap around the end of the buffer are whole. */
TEST_F(next, wraps)
{
	int i, round, batch = 30;

	for (round = 0; round < N / batch; round++) {
		drive(TRACEPOINT, batch);
		for (i = 1; i <= batch; i++) {
			ASSERT_EQ(0, NEXT(0));
			ASSERT_EQ(PERF_RECORD_SAMPLE, self->record.header.type);
			ASSERT_EQ(sizeof(struct numbered), self->record.header.size);
			ASSERT_EQ(getpid(), self->record.sample.pid);
			ASSERT_EQ(round * batch + i, self->record.sample.number);
		}
		ASSERT_EQ(-EAGAIN, NEXT(0));
	}
}

/* A full buffer keeps the first records, and has room again after I took some. */
TEST_F(next, full)
{
	unsigned int n = 0;

	drive(TRACEPOINT, N);
	while (!NEXT(0))
		ASSERT_EQ(++n, self->record.sample.number);
	EXPECT_LT(0, n);
	EXPECT_GT(N, n);
	drive(TRACEPOINT, 1);
	/* The kernel first reports the number of dropped records. */
	EXPECT_EQ(0, NEXT(0));
	EXPECT_EQ(PERF_RECORD_LOST, self->record.header.type);
	EXPECT_EQ(0, NEXT(0));
	EXPECT_EQ(PERF_RECORD_SAMPLE, self->record.header.type);
	EXPECT_EQ(N + 1, self->record.sample.number);
}

/* When the session ends, I am woken after I took all records. */
TEST_F(next, ended)
{
	int session = open_session(self->id);

	drive(TRACEPOINT, 1);
	ASSERT_EQ(0, SET(session, .flags = PERF_PERSISTENT_SET_TTL, .ttl = 1));
	EXPECT_EQ(0, NEXT(-1));
	EXPECT_EQ(-ESRCH, NEXT(-1));
	EXPECT_EQ(-ESRCH, NEXT(PATIENCE_MS));
}

/* There is one consumer, and only of a discard buffer. */
TEST_F(next, refused)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	struct stream other;

	EXPECT_EQ(-1, stream_open(&other, "next", 0));
	EXPECT_EQ(EBUSY, errno);
	EXPECT_EQ(-1, stream_open(&other, "none", 0));
	EXPECT_EQ(ENOENT, errno);

	attr.write_backward = 1;
	ASSERT_LT(0, DETACH(event_open(&attr, -1, 0, -1, 0), .name = addr("loop")));
	EXPECT_EQ(-1, stream_open(&other, "loop", 0));
	EXPECT_EQ(EACCES, errno);
}

static int program(int argc, char *ms)
{
	char *argv[5] = { "next_record", "next", "0", ms, NULL };
	int status = -1;
	pid_t child = fork();

	if (!child)
		_exit(next_record_main(argc, argv));
	waitpid(child, &status, 0);

	return status;
}

/* The program takes one record per call. */
TEST_F(next, program)
{
	size_t size = self->stream.page->data_offset + self->stream.page->data_size;

	ASSERT_EQ(0, munmap(self->stream.page, size));
	EXPECT_NE(0, program(4, "0"));
	drive(TRACEPOINT, 3);
	EXPECT_EQ(0, program(4, "0"));
	EXPECT_EQ(0, program(4, "10000"));
	EXPECT_EQ(0, program(3, NULL));
	EXPECT_NE(0, program(4, "1"));
	EXPECT_NE(0, program(2, NULL));
}

TEST_HARNESS_MAIN
