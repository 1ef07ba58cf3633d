// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: counts and buffers start anew, and no current reader loses
 * anything by it.
 */
#include "persistent_task.h"
#include "persistent_rights.h"

#define N	100
#define M	30
#define PAGES	16
#define FORMATS	(PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING)

/* The members, one instance each */
enum { COUNTING, SAMPLING, OTHER_ONE, INSTANCES };

FIXTURE(clear)
{
	struct registry		registry;
	struct ring		ring;
	int			fds[INSTANCES];
	int			id;
	int			view;
};

FIXTURE_VARIANT(clear)
{
	int			cpu;
	bool			overwrite;
};

FIXTURE_VARIANT_ADD(clear, discard) { .cpu = 0 };
FIXTURE_VARIANT_ADD(clear, overwrite) { .overwrite = true };
FIXTURE_VARIANT_ADD(clear, there) { .cpu = HOT_CPU, .overwrite = true };

FIXTURE_SETUP(clear)
{
	struct perf_event_attr attr;
	int i;

	registry_setup(_metadata, &self->registry);
	pin(0);
	for (i = 0; i < INSTANCES; i++) {
		attr = i == SAMPLING ? sampling_attr(TRACEPOINT) : event_attr(TRACEPOINT);
		attr.write_backward = i == SAMPLING && variant->overwrite;
		self->fds[i] = event_open(&attr, -1, variant->cpu, -1, PERF_FLAG_FD_CLOEXEC);
		self->id = DETACH(self->fds[i], .id = self->id, .member = i,
				  .buffer_pages = i == SAMPLING ? PAGES : 0);
		ASSERT_LT(0, self->id);
	}
	self->view = reopen_instance(self->id, COUNTING);
	ASSERT_LE(0, self->view);
	ASSERT_EQ(0, ring_map(&self->ring, self->fds[SAMPLING], PAGES,
			      variant->overwrite ? PROT_READ : PROT_READ | PROT_WRITE));
}

FIXTURE_TEARDOWN_PARENT(clear)
{
	hot_teardown(_metadata, &self->registry);
}

static int clear(int fd)
{
	return SET(fd, .flags = PERF_PERSISTENT_SET_CLEAR);
}

static int clear_member(int fd, __u32 member)
{
	return SET(fd, .flags = PERF_PERSISTENT_SET_CLEAR, .member = member + 1);
}

#define DRIVE_IT(n) do {				\
	if (variant->cpu == HOT_CPU)			\
		drive_there(TRACEPOINT, n);		\
	else						\
		drive(TRACEPOINT, n);			\
} while (0)

/* QUERY through any file and a new view show the same count for an instance. */
#define EXPECT_COUNT(n, nr) do {						\
	int _view = reopen_instance(self->id, nr);				\
	struct answer _a;							\
										\
	EXPECT_EQ(n, total(_view));						\
	EXPECT_EQ(n, count(_view));						\
	EXPECT_EQ(0, query(self->view, &_a));					\
	EXPECT_EQ(n, _a.instances[nr].count);					\
	close(_view);								\
} while (0)

/* Samples between a position and the head */
static unsigned int samples_since(struct ring *r, __u64 start, bool overwrite)
{
	__u64 head = ring_head(r);

	return overwrite ? ring_records(r, head + r->size, start + r->size, PERF_RECORD_SAMPLE) :
			   ring_records(r, start, head, PERF_RECORD_SAMPLE);
}

/* After each clear, the count starts from 0. */
TEST_F(clear, begins_anew)
{
	int i, round;

	for (round = 1; round <= 3; round++) {
		DRIVE_IT(N);
		ASSERT_EQ(0, clear(self->fds[round - 1]));
		for (i = 0; i < INSTANCES; i++)
			EXPECT_COUNT(0, i);
		DRIVE_IT(M);
		for (i = 0; i < INSTANCES; i++)
			EXPECT_COUNT(M, i);
	}
}

/* The times start anew with the counts, and I am told how long ago that was. */
TEST_F(clear, times)
{
	__u64 start = now_ns(), before, values[3];
	struct answer a;
	int fd;

	ASSERT_EQ(0, query(self->view, &a));
	EXPECT_EQ(0, a.info.self.cleared);
	ASSERT_TRUE(eventually(now_ns() > start + 50000000));
	before = now_ns();
	ASSERT_EQ(0, clear(self->view));
	ASSERT_EQ(0, query(self->view, &a));
	EXPECT_LT(0, a.info.self.cleared);
	EXPECT_GE(now_ns() - before, a.info.self.cleared);
	EXPECT_GE(now_ns() - before, a.info.self.time_enabled);
	EXPECT_EQ(a.info.self.time_enabled, a.info.self.time_running);
	EXPECT_LE(before - start, a.info.age);

	fd = VIEW(self->id, COUNTING, .read_format = FORMATS);
	ASSERT_EQ((long)sizeof(values), read(fd, values, sizeof(values)));
	EXPECT_GE(now_ns() - before, values[1]);
	EXPECT_EQ(values[1], values[2]);
}

/* Files that are already open do not notice a clear, the maker's own included. */
TEST_F(clear, open_views)
{
	int window = view_disabled(self->id, COUNTING), unread, later;

	DRIVE_IT(N);
	EXPECT_EQ(N, count(self->view));
	unread = reopen_instance(self->id, COUNTING);
	ASSERT_EQ(0, event_ioctl(window, PERF_EVENT_IOC_ENABLE, NULL));
	DRIVE_IT(M);
	ASSERT_EQ(0, clear(self->view));
	later = view_disabled(self->id, COUNTING);
	DRIVE_IT(N);
	EXPECT_EQ(2 * N + M, count(self->view));
	EXPECT_EQ(2 * N + M, count(unread));
	EXPECT_EQ(N + M, count(window));
	EXPECT_EQ(2 * N + M, count(self->fds[COUNTING]));
	EXPECT_EQ(0, count(later));
	ASSERT_EQ(0, event_ioctl(later, PERF_EVENT_IOC_ENABLE, NULL));
	DRIVE_IT(M);
	EXPECT_EQ(M, count(later));
}

/* One member can be cleared; the others keep their counts. */
TEST_F(clear, one_member)
{
	struct answer a;

	DRIVE_IT(N);
	ASSERT_EQ(0, clear_member(self->view, OTHER_ONE));
	EXPECT_COUNT(N, COUNTING);
	EXPECT_COUNT(N, SAMPLING);
	EXPECT_COUNT(0, OTHER_ONE);
	ASSERT_EQ(0, query(self->fds[SAMPLING], &a));
	EXPECT_EQ(0, a.info.self.buffer_start);
	EXPECT_EQ(0, a.info.self.cleared);
	EXPECT_EQ(-ENOENT, clear_member(self->view, INSTANCES));
	EXPECT_COUNT(N, COUNTING);
}

/* I am told where in the buffer the new records start; the old ones are still there. */
TEST_F(clear, buffer)
{
	struct answer a;

	DRIVE_IT(N);
	ASSERT_EQ(0, query(self->fds[SAMPLING], &a));
	EXPECT_EQ(0, a.info.self.buffer_start);
	ASSERT_EQ(0, clear(self->view));
	ASSERT_EQ(0, query(self->fds[SAMPLING], &a));
	EXPECT_EQ(ring_head(&self->ring), a.info.self.buffer_start);
	EXPECT_EQ(a.info.buffer_head, a.info.self.buffer_start);
	DRIVE_IT(M);
	EXPECT_EQ(M, samples_since(&self->ring, a.info.self.buffer_start, variant->overwrite));
	EXPECT_EQ(N + M, samples_since(&self->ring, 0, variant->overwrite));
	ASSERT_EQ(0, query(self->view, &a));
	EXPECT_NE(0, a.instances[SAMPLING].buffer_start);
	EXPECT_EQ(0, a.instances[COUNTING].buffer_start);
}

/* The position applies to the cleared buffer, not to one that replaces it. */
TEST_F(clear, another_buffer)
{
	struct answer a;

	DRIVE_IT(N);
	ASSERT_EQ(0, clear(self->view));
	ASSERT_EQ(0, attach(self->fds[SAMPLING]));
	ASSERT_EQ(0, ring_unmap(&self->ring));
	ASSERT_EQ(self->id, DETACH(self->fds[SAMPLING], .id = self->id, .member = SAMPLING,
				   .buffer_pages = PAGES));
	ASSERT_EQ(0, query(self->fds[SAMPLING], &a));
	EXPECT_EQ(0, a.info.self.buffer_start);
	EXPECT_EQ(N, a.info.self.count);
}

/* A new session counts from the start of the event, not from a clear in an old session. */
TEST_F(clear, another_session)
{
	struct answer a;

	DRIVE_IT(N);
	ASSERT_EQ(0, clear(self->view));
	ASSERT_EQ(0, attach(self->fds[OTHER_ONE]));
	ASSERT_LT(0, detach(self->fds[OTHER_ONE]));
	ASSERT_EQ(0, query(self->fds[OTHER_ONE], &a));
	EXPECT_EQ(0, a.info.self.cleared);
	EXPECT_EQ(N, a.info.self.count);
}

/* A session that is disabled and cleared at once stays at 0. */
TEST_F(clear, disabled)
{
	int i;

	DRIVE_IT(N);
	ASSERT_EQ(0, SET(self->view, .flags = PERF_PERSISTENT_SET_DISABLE |
					      PERF_PERSISTENT_SET_CLEAR));
	DRIVE_IT(N);
	for (i = 0; i < INSTANCES; i++)
		EXPECT_COUNT(0, i);
	ASSERT_EQ(0, session_enable(self->view));
	DRIVE_IT(M);
	EXPECT_COUNT(M, COUNTING);
}

/* The maker can still reset the event. */
TEST_F(clear, reset_by_its_maker)
{
	DRIVE_IT(N);
	ASSERT_EQ(0, clear(self->view));
	ASSERT_EQ(0, event_ioctl(self->fds[COUNTING], PERF_EVENT_IOC_RESET, NULL));
	DRIVE_IT(M);
	EXPECT_COUNT(M, COUNTING);
	EXPECT_COUNT(M, OTHER_ONE);
}

/* After the session expired, the count since the clear can be read. */
TEST_F(clear, expired)
{
	struct answer a;

	DRIVE_IT(N);
	ASSERT_EQ(0, clear(self->view));
	DRIVE_IT(M);
	ASSERT_EQ(0, SET(self->view, .flags = PERF_PERSISTENT_SET_TTL, .ttl = 1));
	ASSERT_TRUE(eventually(!registry_has(self->id)));
	ASSERT_EQ(0, query(self->view, &a));
	EXPECT_EQ(M, a.info.self.count);
	EXPECT_EQ(-ESRCH, clear(self->view));
}

/* Clearing takes the right to control. */
TEST_F(clear, rights)
{
	DRIVE_IT(N);
	ASSERT_EQ(0, session_mode(self->view, 0445));
	ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
	EXPECT_EQ(-EACCES, clear(self->view));
	EXPECT_COUNT(N, COUNTING);
	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, session_mode(self->view, 0446));
	ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
	EXPECT_EQ(0, clear(self->view));
	EXPECT_COUNT(0, COUNTING);
}

/* An instance on an offline CPU is cleared with the rest. */
TEST_F(clear, offline)
{
	if (variant->cpu != HOT_CPU)
		SKIP(return, "the CPU stays");

	DRIVE_IT(N);
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, clear(self->view));
	EXPECT_COUNT(0, SAMPLING);
	ASSERT_EQ(0, set_online(true));
	DRIVE_IT(M);
	EXPECT_COUNT(M, SAMPLING);
}

FIXTURE(full)
{
	struct registry		registry;
	struct ring		ring;
	int			fd;
	int			id;
};

FIXTURE_SETUP(full)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);

	registry_setup(_metadata, &self->registry);
	attr.read_format = PERF_FORMAT_LOST;
	self->fd = event_open(&attr, -1, pin(0), -1, 0);
	self->id = DETACH(self->fd, .buffer_pages = 1);
	ASSERT_LT(0, self->id);
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, 1, PROT_READ | PROT_WRITE));
}

FIXTURE_TEARDOWN_PARENT(full)
{
	registry_teardown(_metadata, &self->registry);
}

static long long listed_lost(int id)
{
	char path[64];

	snprintf(path, sizeof(path), REGISTRY "/ids/%d/lost", id);

	return read_number(path);
}

/* Lost samples are counted anew; earlier losses are reported separately. */
TEST_F(full, lost)
{
	struct answer a;
	__u64 before;

	drive(TRACEPOINT, 10 * N);
	ASSERT_EQ(0, query(self->fd, &a));
	before = a.info.self.lost;
	EXPECT_LT(0, before);
	EXPECT_EQ(0, a.info.self.lost_before);
	ASSERT_EQ(0, clear(self->fd));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(0, a.info.self.lost);
	EXPECT_EQ(before, a.info.self.lost_before);
	EXPECT_EQ(0, listed_lost(self->id));
	drive(TRACEPOINT, N);
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(N, a.info.self.lost);
	EXPECT_EQ(before, a.info.self.lost_before);
	EXPECT_EQ(N, listed_lost(self->id));
}

/* The consumer makes room by moving the tail to the start of the new records. */
TEST_F(full, room)
{
	struct answer a;

	drive(TRACEPOINT, 10 * N);
	ASSERT_EQ(0, clear(self->fd));
	ASSERT_EQ(0, query(self->fd, &a));
	__atomic_store_n(&self->ring.page->data_tail, a.info.self.buffer_start,
			 __ATOMIC_RELEASE);
	drive(TRACEPOINT, M);
	EXPECT_EQ(M, ring_samples(&self->ring));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(0, a.info.self.lost);
}

FIXTURE(clear_task)
{
	struct registry		registry;
	struct target		target;
	int			id;
	int			fd;
};

FIXTURE_VARIANT(clear_task)
{
	int			cpu;
	bool			inherit;
};

FIXTURE_VARIANT_ADD(clear_task, alone) { .cpu = ANY_CPU };
FIXTURE_VARIANT_ADD(clear_task, inherit) { .cpu = ANY_CPU, .inherit = true };
FIXTURE_VARIANT_ADD(clear_task, inherit_cpu) { .cpu = 0, .inherit = true };

/* A group of two */
FIXTURE_SETUP(clear_task)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int sibling;

	registry_setup(_metadata, &self->registry);
	pin(0);
	self->target = target_start(PROCESS);
	attr.inherit = variant->inherit;
	attr.read_format = PERF_FORMAT_GROUP;
	self->fd = event_open(&attr, self->target.tid, variant->cpu, -1, 0);
	sibling = event_open(&attr, self->target.tid, variant->cpu, self->fd, 0);
	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);
	ASSERT_EQ(self->id, DETACH(sibling, .id = self->id, .member = 1));
	close(sibling);
}

FIXTURE_TEARDOWN_PARENT(clear_task)
{
	registry_teardown(_metadata, &self->registry);
}

#define TELL(what, ...)		ORDER(self->target.sock, what, .event = TRACEPOINT, ##__VA_ARGS__)
#define TELL_CHILD(what, ...)	ORDER(self->target.child, what, .event = TRACEPOINT, ##__VA_ARGS__)
#define GROUP_VIEW()		VIEW(self->id, 0, .read_format = PERF_FORMAT_GROUP | FORMATS)

#define EXPECT_GROUP(view, first, second) do {				\
	__u64 _v[8] = {};						\
									\
	ASSERT_EQ(5 * 8, read(view, _v, sizeof(_v)));			\
	EXPECT_EQ(2, _v[0]);						\
	EXPECT_EQ(first, _v[3]);					\
	EXPECT_EQ(second, _v[4]);					\
} while (0)

/* Children's counts are cleared with their parent's, whether they are alive or not. */
TEST_F(clear_task, children)
{
	int child, n = variant->inherit ? 3 * N : N;

	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_LT(0, TELL(FORK, .value = N));
	child = TELL(SPAWN);
	ASSERT_LT(0, child);
	ASSERT_EQ(0, TELL_CHILD(DRIVE, .value = N));
	ASSERT_EQ(n, total(self->fd));
	ASSERT_EQ(0, clear(self->fd));
	EXPECT_EQ(0, total(self->fd));
	ASSERT_EQ(0, TELL_CHILD(DRIVE, .value = M));
	ASSERT_TRUE(target_end_child(&self->target, child));
	EXPECT_EQ(variant->inherit ? M : 0, total(self->fd));
	ASSERT_EQ(0, TELL(DRIVE, .value = M));
	EXPECT_EQ(variant->inherit ? 2 * M : M, total(self->fd));
}

/* A group is cleared whole or in part; views that are already open do not change. */
TEST_F(clear_task, group)
{
	int before = GROUP_VIEW();
	__u64 values[5] = {};

	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_EQ(0, clear(self->fd));
	EXPECT_GROUP(GROUP_VIEW(), 0, 0);
	ASSERT_EQ(0, TELL(DRIVE, .value = M));
	EXPECT_GROUP(before, N + M, N + M);
	EXPECT_GROUP(GROUP_VIEW(), M, M);
	ASSERT_EQ(0, clear_member(self->fd, 1));
	ASSERT_EQ(0, TELL(DRIVE, .value = M));
	EXPECT_GROUP(GROUP_VIEW(), 2 * M, M);
	EXPECT_GROUP(before, N + 2 * M, N + 2 * M);
	EXPECT_EQ(M, count(reopen_instance(self->id, 1)));
	ASSERT_EQ((long)sizeof(values), read(GROUP_VIEW(), values, sizeof(values)));
	EXPECT_LT(0, values[1]);
	EXPECT_GE(values[1], values[2]);
}

/* The same after a sibling has joined, which the view does not show. */
TEST_F(clear_task, late_sibling)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int before = GROUP_VIEW(), sibling;

	attr.inherit = variant->inherit;
	attr.read_format = PERF_FORMAT_GROUP;
	sibling = event_open(&attr, self->target.tid, variant->cpu, self->fd, 0);
	ASSERT_EQ(self->id, DETACH(sibling, .id = self->id, .member = 2));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_EQ(0, clear(self->fd));
	EXPECT_GROUP(before, N, N);
}

/* The tombstone of a dead task can be cleared, too. */
TEST_F(clear_task, tombstone)
{
	struct answer a;

	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_TRUE(target_end(&self->target));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, a.info.self.state);
	EXPECT_EQ(N, a.info.self.count);
	ASSERT_EQ(0, clear(self->fd));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, a.info.self.state);
	EXPECT_EQ(0, a.info.self.count);
	EXPECT_EQ(0, a.info.self.time_enabled);
	EXPECT_EQ(0, count(reopen_instance(self->id, 1)));
}

/* A clear combined with other changes is all or nothing. */
TEST_F(clear_task, all_or_nothing)
{
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_EQ(-EINVAL, SET(self->fd, .period = 10, .flags = PERF_PERSISTENT_SET_CLEAR |
								PERF_PERSISTENT_SET_PERIOD));
	EXPECT_EQ(-EOPNOTSUPP, SET(self->fd, .flags = PERF_PERSISTENT_SET_CLEAR |
						      PERF_PERSISTENT_SET_HOLD));
	EXPECT_EQ(N, total(self->fd));
}

TEST_HARNESS_MAIN
