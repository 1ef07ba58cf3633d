// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: contents of buffers, and lost samples.
 */
#include <signal.h>

#include "persistent.h"

#define N	1000
#define PAGES	4
#define STACK_SIZE	32768
#define RACES	100
#define RW	(PROT_READ | PROT_WRITE)

/* Words of a sample of numbered(): the count is its number */
enum { HEADER, ID, TID, TIME, NUMBER, NUMBERED_WORDS };

static struct perf_event_attr numbered(void)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);

	attr.sample_type |= PERF_SAMPLE_READ;
	attr.read_format = 0;

	return attr;
}

static __u64 word(const char *data, __u64 size, __u64 pos, int nr)
{
	return *(__u64 *)&data[(pos + 8 * nr) & (size - 1)];
}

static unsigned int record_size(__u64 header)
{
	return header >> 48;
}

FIXTURE(full)
{
	struct registry		registry;
	int			fd;
	int			id;
};

/* A discard buffer, with a count of lost samples */
FIXTURE_SETUP(full)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);

	registry_setup(_metadata, &self->registry);
	attr.read_format = PERF_FORMAT_LOST;
	self->fd = event_open(&attr, -1, pin(0), -1, 0);
	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	ASSERT_LT(0, self->id);
}

FIXTURE_TEARDOWN_PARENT(full)
{
	registry_teardown(_metadata, &self->registry);
}

static __u64 lost(int fd)
{
	__u64 values[2] = {};

	return read(fd, values, sizeof(values)) == sizeof(values) ? values[1] : -1ULL;
}

static unsigned int consume(struct ring *r)
{
	__u64 head = ring_head(r);
	unsigned int n = ring_records(r, r->page->data_tail, head, PERF_RECORD_SAMPLE);

	__atomic_store_n(&r->page->data_tail, head, __ATOMIC_RELEASE);

	return n;
}

/* Samples that do not fit into a full buffer are counted as lost, exactly. */
TEST_F(full, loses_and_counts)
{
	struct ring r = {};
	struct answer a;
	char path[64];

	drive(TRACEPOINT, N);
	EXPECT_EQ(N, count(self->fd));

	ASSERT_EQ(0, ring_map(&r, self->fd, PAGES, PROT_READ));
	EXPECT_LT(0, lost(self->fd));
	EXPECT_EQ(N, ring_samples(&r) + lost(self->fd));

	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(lost(self->fd), a.info.self.lost);
	snprintf(path, sizeof(path), REGISTRY "/ids/%d/lost", self->id);
	EXPECT_EQ(lost(self->fd), read_number(path));
}

/* The reserved head of a discard buffer is the end of its records. */
TEST_F(full, reserved_head)
{
	struct ring r = {};
	struct answer a;

	ASSERT_EQ(0, ring_map(&r, self->fd, PAGES, PROT_READ));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(0, a.info.buffer_head);
	drive(TRACEPOINT, 10);
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_LT(0, a.info.buffer_head);
	EXPECT_EQ(ring_head(&r), a.info.buffer_head);
}

/* The next consumer goes on where the last one stopped. */
TEST_F(full, tail_stays)
{
	struct ring r = {};
	__u64 tail;
	int fd;

	fd = reopen(self->id);
	ASSERT_EQ(0, ring_map(&r, fd, PAGES, RW));
	drive(TRACEPOINT, 30);
	EXPECT_EQ(30, consume(&r));
	drive(TRACEPOINT, 7);
	tail = r.page->data_tail;
	ring_unmap(&r);
	close(fd);
	close(self->fd);

	drive(TRACEPOINT, 5);
	ASSERT_EQ(0, ring_map(&r, reopen(self->id), PAGES, RW));
	EXPECT_EQ(tail, r.page->data_tail);
	EXPECT_EQ(12, consume(&r));
	EXPECT_EQ(0, consume(&r));
}

/* The space of consumed records can be used again. */
TEST_F(full, consuming_makes_room)
{
	unsigned int n, before;
	struct ring r = {};

	ASSERT_EQ(0, ring_map(&r, self->fd, PAGES, RW));
	drive(TRACEPOINT, N);
	n = consume(&r);
	EXPECT_LT(0, n);
	before = lost(self->fd);

	drive(TRACEPOINT, n / 2);
	EXPECT_EQ(before, lost(self->fd));
	EXPECT_EQ(n / 2, consume(&r));
}

/* Trigger events deep in the stack, so that samples have much of it */
static void drive_deep(void)
{
	char stack[STACK_SIZE + 4096];

	memset(stack, 1, sizeof(stack));
	asm volatile("" : : "r" (stack) : "memory");
	drive(TRACEPOINT, N);
}

/* Flood the buffer from a process on the CPU of the event. */
static pid_t flood(void)
{
	pid_t child = fork();

	while (!child)
		drive_deep();

	return child;
}

static void end_flood(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* A fast consumer misses only samples that are counted as lost. */
TEST_F(full, consumed_and_lost_is_all)
{
	__u64 end = now_ns() + 1000000000ULL;
	unsigned int n = 0;
	struct ring r = {};
	pid_t child;

	ASSERT_EQ(0, ring_map(&r, self->fd, PAGES, RW));
	child = flood();
	ASSERT_LT(0, child);
	pin(1);
	while (now_ns() < end)
		n += consume(&r);
	end_flood(child);
	n += consume(&r);

	EXPECT_LT(N, n);
	EXPECT_EQ(count(self->fd), n + lost(self->fd));
}

/* An overwrite buffer with a copy of it, and the ids of its writers, numbered() first */
struct loop {
	struct ring		ring;
	char			*copy;
	int			fd;
	int			id;
	int			nr_ids;
	__u64			ids[3];
};

static int loop_add(struct loop *loop, struct perf_event_attr attr)
{
	int fd, err;

	attr.write_backward = 1;
	fd = event_open(&attr, -1, pin(0), -1, 0);
	err = event_ioctl(fd, PERF_EVENT_IOC_ID, &loop->ids[loop->nr_ids]);
	if (!err && loop->nr_ids++)
		err = result(ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, loop->fd)) ?:
		      DETACH(fd, .id = loop->id, .member = loop->nr_ids - 1);

	return err < 0 ? err : fd;
}

static int loop_open(struct loop *loop, unsigned int pages)
{
	memset(loop, 0, sizeof(*loop));
	loop->fd = loop_add(loop, numbered());
	loop->id = DETACH(loop->fd, .buffer_pages = pages);
	if (loop->id < 0)
		return loop->id;
	loop->copy = malloc(pages * getpagesize());

	return ring_map(&loop->ring, loop->fd, pages, PROT_READ);
}

FIXTURE(loop)
{
	struct registry		registry;
	struct loop		loop;
};

FIXTURE_SETUP(loop)
{
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, loop_open(&self->loop, PAGES));
	ASSERT_NE(NULL, self->loop.copy);
}

FIXTURE_TEARDOWN_PARENT(loop)
{
	registry_teardown(_metadata, &self->registry);
}

/* Copy the buffer; all records before the end that is returned are whole. */
static __u64 snapshot(struct loop *loop, __u64 *head)
{
	struct ring *r = &loop->ring;
	__u64 passed, written;
	struct answer a;

	*head = ring_head(r);
	memcpy(loop->copy, r->data, r->size);
	if (query(loop->fd, &a))
		return *head;

	passed = *head - a.info.buffer_head;
	written = -*head;
	if (passed > r->size)
		return *head;

	return *head + (written < r->size - passed ? written : r->size - passed);
}

/* The writer of a record, or -1 */
static int written_by(struct loop *loop, __u64 header, __u64 id)
{
	int i;

	for (i = 0; i < loop->nr_ids; i++) {
		if ((__u32)header == PERF_RECORD_SAMPLE && id == loop->ids[i])
			return i;
	}

	return -1;
}

/* True if all records of a snapshot are whole and the numbers have no gap. */
static bool snapshot_valid(struct loop *loop, __u64 pos, __u64 end, unsigned int *n)
{
	__u64 header, number, last = 0, size = loop->ring.size;
	int writer;

	for (; end - pos >= 8 * NUMBERED_WORDS; pos += record_size(header)) {
		header = word(loop->copy, size, pos, HEADER);
		writer = written_by(loop, header, word(loop->copy, size, pos, ID));
		if (writer < 0)
			return false;
		if (record_size(header) > end - pos)
			break;
		if (writer > 0)
			continue;

		number = word(loop->copy, size, pos, NUMBER);
		if (last && number != last - 1)
			return false;
		last = number;
		++*n;
	}

	return true;
}

/* An overwrite buffer has the latest samples, as many as fit. */
TEST_F(loop, keeps_the_latest)
{
	unsigned int n = 0;
	__u64 head, end;

	drive(TRACEPOINT, N);
	end = snapshot(&self->loop, &head);
	EXPECT_EQ(self->loop.ring.size, end - head);
	EXPECT_TRUE(snapshot_valid(&self->loop, head, end, &n));
	EXPECT_EQ(self->loop.ring.size / (8 * NUMBERED_WORDS), n);
	EXPECT_EQ(N, word(self->loop.copy, self->loop.ring.size, head, NUMBER));
}

/* The reserved head of an overwrite buffer counts down from 0. */
TEST_F(loop, reserved_head)
{
	struct answer a;

	ASSERT_EQ(0, query(self->loop.fd, &a));
	EXPECT_EQ(0, a.info.buffer_head);
	drive(TRACEPOINT, 10);
	ASSERT_EQ(0, query(self->loop.fd, &a));
	EXPECT_EQ(-10 * 8 * NUMBERED_WORDS, (long)a.info.buffer_head);
	EXPECT_EQ(ring_head(&self->loop.ring), a.info.buffer_head);
}

/* Take snapshots while the buffer is flooded, until enough of them were overtaken */
static void expect_valid_snapshots(struct __test_metadata *_metadata, struct loop *loop)
{
	__u64 stop = now_ns() + PATIENCE_MS * 1000000ULL;
	unsigned int raced = 0, n = 0;
	bool valid = true;
	__u64 head, end;
	pid_t child;

	child = flood();
	ASSERT_LT(0, child);
	pin(1);
	while (valid && (raced < RACES || n < RACES) && now_ns() < stop) {
		end = snapshot(loop, &head);
		valid = snapshot_valid(loop, head, end, &n);
		raced += end - head < loop->ring.size;
	}
	end_flood(child);

	EXPECT_TRUE(valid);
	EXPECT_LE(RACES, raced);
	EXPECT_LE(RACES, n);
}

/* A snapshot of a flooded buffer is whole and has no gap. */
TEST_F(loop, snapshot_while_written)
{
	drive(TRACEPOINT, N);
	expect_valid_snapshots(_metadata, &self->loop);
}

/* The same if interrupts write records of another size, in the middle of others. */
TEST_F(loop, snapshot_with_interrupts)
{
	struct perf_event_attr attr = sampling_attr(has_event(CYCLES) ? CYCLES : CLOCK);

	attr.sample_type |= PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_ADDR;
	ASSERT_LE(0, loop_add(&self->loop, attr));
	drive(TRACEPOINT, N);
	expect_valid_snapshots(_metadata, &self->loop);
}

/* The same with long records, while data_head lags behind for a whole record. */
TEST_F(loop, snapshot_with_long_records)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	struct loop loop;

	ASSERT_EQ(0, loop_open(&loop, 64));
	attr.sample_type |= PERF_SAMPLE_STACK_USER;
	attr.sample_stack_user = STACK_SIZE;
	attr.sample_period = 200;
	ASSERT_LE(0, loop_add(&loop, attr));
	drive(TRACEPOINT, N);
	expect_valid_snapshots(_metadata, &loop);
}

TEST_HARNESS_MAIN
