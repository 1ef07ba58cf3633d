// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: samples that a hardware counter takes when it
 * overflows. The test can expect all of them where interrupts are never late.
 */
#include <poll.h>
#include <sys/resource.h>

#include "persistent.h"

#define N	100
#define ROUNDS	8
#define PAGES	64
#define RW	(PROT_READ | PROT_WRITE)
#define PERIOD	1000000
#define FREQ	1000
#define SEC	1000000000ULL
#define ANY_CPU	-1

/* The layout of SAMPLE_TYPE */
struct sample {
	struct perf_event_header	header;
	__u64				id;
	__u32				pid, tid;
	__u64				time;
	__u64				period;
	__u64				count;
};

#define SAMPLE_TYPE	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | \
			 PERF_SAMPLE_PERIOD | PERF_SAMPLE_READ)

/* Found in a buffer so far */
struct found {
	unsigned int	samples;
	unsigned int	others;
	unsigned int	gaps;		/* gaps of a period or more */
	struct sample	first;
	struct sample	last;
};

FIXTURE(samples)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	struct ring		ring;
	struct found		found;
	int			fd;
	int			id;
};

FIXTURE_VARIANT(samples)
{
	bool			task;
};

FIXTURE_VARIANT_ADD(samples, cpu) { .task = false };
FIXTURE_VARIANT_ADD(samples, task) { .task = true };

FIXTURE_SETUP(samples)
{
	if (!has_event(CYCLES))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);
	pin(0);
	self->attr = event_attr(CYCLES);
	self->attr.sample_type = SAMPLE_TYPE;
	self->attr.sample_period = PERIOD;
	self->attr.wakeup_events = 1;
}

FIXTURE_TEARDOWN_PARENT(samples)
{
	registry_teardown(_metadata, &self->registry);
}

/* Open and detach the event, and close it */
#define DETACH_IT() do {								\
	int _fd = event_open(&self->attr, variant->task ? 0 : -1,			\
			     variant->task ? ANY_CPU : 0, -1, 0);			\
											\
	self->id = DETACH(_fd, .buffer_pages = PAGES);					\
	ASSERT_LT(0, self->id);								\
	close(_fd);									\
} while (0)

#define REOPEN_IT() do {			\
	self->fd = reopen(self->id);		\
	ASSERT_LE(0, self->fd);			\
} while (0)

/* The record at a position, where the buffer may wrap */
static struct sample record_at(struct ring *r, __u64 pos)
{
	size_t offset = pos & (r->size - 1), left = r->size - offset;
	struct sample s;

	if (left > sizeof(s))
		left = sizeof(s);
	memcpy(&s, r->data + offset, left);
	memcpy((char *)&s + left, r->data, sizeof(s) - left);

	return s;
}

static void find(struct found *f, const struct sample *s)
{
	if (s->header.type != PERF_RECORD_SAMPLE || s->header.size != sizeof(*s)) {
		f->others++;
		return;
	}
	if (!f->samples++)
		f->first = *s;
	else if (s->count - f->last.count >= 2 * s->period || s->time < f->last.time)
		f->gaps++;
	f->last = *s;
}

static void consume(struct ring *r, struct found *f)
{
	__u64 head = ring_head(r), tail = r->page->data_tail;
	struct sample s;

	for (; tail < head; tail += s.header.size) {
		s = record_at(r, tail);
		find(f, &s);
	}
	__atomic_store_n(&r->page->data_tail, tail, __ATOMIC_RELEASE);
}

/* Look at an overwrite buffer of samples alone, whose newest record comes first */
static void look(struct ring *r, struct found *f)
{
	__u64 head = ring_head(r), n = 0;
	struct sample s;

	while ((n + 1) * sizeof(s) <= r->size && record_at(r, head + n * sizeof(s)).header.size)
		n++;
	while (n--) {
		s = record_at(r, head + n * sizeof(s));
		find(f, &s);
	}
}

/* Samples for all that was counted, except perhaps the last, and no other records */
#define EXPECT_ALL(f, counted) do {							\
	__u64 _periods = (counted) / PERIOD;						\
											\
	EXPECT_LE(_periods - 1, (f)->samples);						\
	EXPECT_GE(_periods, (f)->samples);						\
	EXPECT_EQ(0, (f)->others);							\
	EXPECT_EQ(0, (f)->gaps);							\
} while (0)

/* Samples are taken for each period, with no process that has the event open. */
TEST_F(samples, all)
{
	struct answer a;

	DETACH_IT();
	drive(CYCLES, 10 * N);
	REOPEN_IT();
	ASSERT_EQ(0, session_disable(self->fd));
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, PAGES, RW));
	consume(&self->ring, &self->found);
	EXPECT_LE(N, self->found.samples);
	EXPECT_ALL(&self->found, total(self->fd));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(0, a.info.self.lost);
}

/* Consume until there are N more samples, or a time-out */
static int consumer(int id, struct ring *r, struct found *f)
{
	unsigned int end = f->samples + N;
	int err = ring_map(r, reopen(id), PAGES, RW);

	if (err)
		return err;
	eventually((drive(CYCLES, 1), consume(r, f), f->samples >= end));

	return 0;
}

/* Successive consumers lose nothing: each goes on where the last one stopped. */
TEST_F(samples, hand_over)
{
	struct answer a;
	int i, status;
	pid_t child;

	DETACH_IT();
	for (i = 0; i < ROUNDS; i++) {
		/* No consumer for a while; it is not measured, as it is another task. */
		drive(CYCLES, 6 * N);
		child = fork();
		ASSERT_LE(0, child);
		if (!child)
			_exit(consumer(self->id, &self->ring, &self->found));
		ASSERT_EQ(child, waitpid(child, &status, 0));
		ASSERT_EQ(0, status);
		EXPECT_LE((i + 1) * N, self->found.samples);
	}

	REOPEN_IT();
	ASSERT_EQ(0, session_disable(self->fd));
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, PAGES, RW));
	consume(&self->ring, &self->found);
	EXPECT_ALL(&self->found, total(self->fd));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(0, a.info.self.lost);
}

/* Nothing is lost either if the next consumer waits for the last one to unmap. */
TEST_F(samples, hand_over_at_once)
{
	struct ring next;
	int i, fd;

	if (variant->task)
		SKIP(return, "the driver loses samples when it switches tasks");
	DETACH_IT();
	REOPEN_IT();
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, PAGES, RW));
	for (i = 0; i < ROUNDS; i++) {
		drive(CYCLES, N);
		consume(&self->ring, &self->found);
		fd = reopen(self->id);
		EXPECT_EQ(-EBUSY, ring_map(&next, fd, PAGES, RW));
		ASSERT_EQ(0, ring_unmap(&self->ring));
		close(self->fd);
		self->fd = fd;
		ASSERT_EQ(0, ring_map(&self->ring, self->fd, PAGES, RW));
	}
	ASSERT_EQ(0, session_disable(self->fd));
	consume(&self->ring, &self->found);
	EXPECT_LE(ROUNDS * N * CLOCK_PERIOD / PERIOD, self->found.samples);
	EXPECT_ALL(&self->found, total(self->fd));
}

static int switches(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) ? 0 : usage.ru_nvcsw + usage.ru_nivcsw;
}

/* An overwrite buffer holds the newest samples without a gap, whenever one looks. */
TEST_F(samples, loop)
{
	__u64 room = PAGES * getpagesize() / sizeof(struct sample);
	int gaps = -switches();

	self->attr.write_backward = 1;
	self->attr.sample_period = PERIOD / 10;
	DETACH_IT();
	drive(CYCLES, N);
	REOPEN_IT();
	while (count(self->fd) <= room * PERIOD / 5)
		drive(CYCLES, N);
	/* The driver loses the sample of an overflow at which the task is switched out. */
	gaps = variant->task ? gaps + switches() : 0;
	ASSERT_EQ(0, session_disable(self->fd));
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, PAGES, PROT_READ));
	look(&self->ring, &self->found);
	EXPECT_LE(room, self->found.samples);
	EXPECT_EQ(0, self->found.others);
	EXPECT_GE(gaps, self->found.gaps);
	EXPECT_GE(PERIOD / 5, total(self->fd) - self->found.last.count);
}

/* Expect about the right rate of samples from now on */
static void expect_rate(struct __test_metadata *_metadata, struct ring *r, unsigned int freq)
{
	struct found found = {};
	__u64 due;

	/* The kernel needs a while to find the period. */
	drive(CYCLES, 20 * N);
	consume(r, &found);
	found = (struct found) {};
	drive(CYCLES, 20 * N);
	consume(r, &found);
	due = (found.last.time - found.first.time) * freq / SEC;
	EXPECT_LT(10, due);
	EXPECT_LT(due / 2, found.samples);
	EXPECT_GT(due * 2, found.samples);
}

/* Samples are taken at a frequency without a process, and at a new one after it is set. */
TEST_F(samples, frequency)
{
	self->attr.freq = 1;
	self->attr.sample_freq = FREQ;
	DETACH_IT();
	REOPEN_IT();
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, PAGES, RW));
	expect_rate(_metadata, &self->ring, FREQ);
	ASSERT_EQ(0, session_period(self->fd, FREQ / 4));
	expect_rate(_metadata, &self->ring, FREQ / 4);
}

/* A new period applies from then on, through whatever view it was set. */
TEST_F(samples, period)
{
	__u64 period = PERIOD / 2;

	DETACH_IT();
	REOPEN_IT();
	ASSERT_EQ(0, session_period(self->fd, period));
	drive(CYCLES, 5 * N);
	ASSERT_EQ(0, session_disable(self->fd));
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, PAGES, RW));
	consume(&self->ring, &self->found);
	EXPECT_EQ(period, self->found.last.period);
	EXPECT_LE(total(self->fd) / period - 2, self->found.samples);
	EXPECT_EQ(0, self->found.gaps);
}

/* PERF_EVENT_IOC_REFRESH allows as many samples as I ask for, and no more. */
TEST_F(samples, refresh)
{
	self->attr.disabled = 1;
	self->fd = event_open(&self->attr, variant->task ? 0 : -1,
			      variant->task ? ANY_CPU : 0, -1, 0);
	ASSERT_LT(0, DETACH(self->fd, .buffer_pages = PAGES));
	drive(CYCLES, N);
	ASSERT_EQ(0, count(self->fd));
	ASSERT_EQ(0, result(ioctl(self->fd, PERF_EVENT_IOC_REFRESH, 3)));
	EXPECT_TRUE(eventually((drive(CYCLES, N),
				state_of(self->fd) == PERF_PERSISTENT_STATE_DISABLED)));
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, PAGES, RW));
	consume(&self->ring, &self->found);
	EXPECT_EQ(3, self->found.samples);
	EXPECT_ALL(&self->found, total(self->fd));
}

/* Each poller is woken by the first sample. */
TEST_F(samples, poll)
{
	struct pollfd p = { .events = POLLIN };
	pid_t children[ROUNDS];
	int i, status, ready[2];
	char byte;

	self->attr.disabled = 1;
	DETACH_IT();
	ASSERT_EQ(0, pipe(ready));
	for (i = 0; i < ROUNDS; i++) {
		children[i] = fork();
		ASSERT_LE(0, children[i]);
		if (!children[i]) {
			p.fd = reopen(self->id);
			write(ready[1], "", 1);
			_exit(poll(&p, 1, PATIENCE_MS) == 1 && p.revents == POLLIN ? 0 : 1);
		}
	}
	for (i = 0; i < ROUNDS; i++)
		ASSERT_EQ(1, read(ready[0], &byte, 1));
	REOPEN_IT();
	ASSERT_EQ(0, session_enable(self->fd));
	drive(CYCLES, N);
	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(children[i], waitpid(children[i], &status, 0));
		EXPECT_EQ(0, status);
	}
}

TEST_HARNESS_MAIN
