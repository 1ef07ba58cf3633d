// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: the samples that are taken when a counter of the CPU
 * overflows. That not one is missing can be said where interrupts are not late.
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

/* By SAMPLE_TYPE */
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

/* What was found in a buffer so far */
struct found {
	unsigned int	samples;
	unsigned int	others;
	unsigned int	gaps;		/* of a period or more */
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

/* Open and detach the event, so that nobody has it */
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

/* The record at a position, which may be cut by the end of the buffer */
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

/* What a loop holds, whose newest record comes first; it is all of samples. */
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

/* Samples for all that was counted, the last one maybe not yet, and nothing else */
#define EXPECT_ALL(f, counted) do {							\
	__u64 _periods = (counted) / PERIOD;						\
											\
	EXPECT_LE(_periods - 1, (f)->samples);						\
	EXPECT_GE(_periods, (f)->samples);						\
	EXPECT_EQ(0, (f)->others);							\
	EXPECT_EQ(0, (f)->gaps);							\
} while (0)

/* Samples are taken with no process, for each period one. */
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

/* A consumer: until there are so many more samples, or patience ends */
static int consumer(int id, struct ring *r, struct found *f)
{
	unsigned int end = f->samples + N;
	int err = ring_map(r, reopen(id), PAGES, RW);

	if (err)
		return err;
	eventually((drive(CYCLES, 1), consume(r, f), f->samples >= end));

	return 0;
}

/* One consumer after the other goes on where the last one stopped: nothing is lost. */
TEST_F(samples, hand_over)
{
	struct answer a;
	int i, status;
	pid_t child;

	DETACH_IT();
	for (i = 0; i < ROUNDS; i++) {
		/* For a while there is no consumer; and who is one is not measured as this task. */
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

/* Nor when both are there, and the one waits until the other lets go. */
TEST_F(samples, hand_over_at_once)
{
	struct ring next;
	int i, fd;

	if (variant->task)
		return;
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

/* A loop holds the newest samples when somebody looks, without a gap, and does not stop. */
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
	/* The driver loses the sample of an overflow where the task is switched away. */
	gaps = variant->task ? gaps + switches() : 0;
	ASSERT_EQ(0, session_disable(self->fd));
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, PAGES, PROT_READ));
	look(&self->ring, &self->found);
	EXPECT_LE(room, self->found.samples);
	EXPECT_EQ(0, self->found.others);
	EXPECT_GE(gaps, self->found.gaps);
	EXPECT_GE(PERIOD / 5, total(self->fd) - self->found.last.count);
}

/* The rate of the samples that come from now on is as it should be, more or less. */
static void expect_rate(struct __test_metadata *_metadata, struct ring *r, unsigned int freq)
{
	struct found found = {};
	__u64 due;

	/* It takes a while to find the period for it. */
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

/* A frequency is kept to with no process, and another one that it is given then. */
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

/* Another period holds from then on, whoever gave it. */
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

/* So many samples are taken as I ask for, and no more. */
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

/* Each who waits for samples is woken by the first one. */
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
