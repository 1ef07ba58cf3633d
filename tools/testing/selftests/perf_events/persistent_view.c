// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: each view has a count, a read format and wake-ups of
 * its own.
 */
#include <poll.h>
#include <signal.h>

#include "persistent.h"

/* A group with 24 bytes per event exceeds 64 KiB */
#define LARGE		2800
#define N	100
#define PAGES	4
#define VIEWS	20
#define ANY_CPU	-1
#define TIMES	(PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING)
#define FORMATS	(TIMES | PERF_FORMAT_ID | PERF_FORMAT_LOST)

FIXTURE(view)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	int			fd;
	int			id;
};

FIXTURE_VARIANT(view)
{
	bool			sampling;
	bool			task;
	bool			inherit;
};

FIXTURE_VARIANT_ADD(view, cpu) { .task = false };
FIXTURE_VARIANT_ADD(view, cpu_sampling) { .sampling = true };
FIXTURE_VARIANT_ADD(view, task) { .task = true };
FIXTURE_VARIANT_ADD(view, task_sampling) { .task = true, .sampling = true };
FIXTURE_VARIANT_ADD(view, task_inherit) { .task = true, .inherit = true };

FIXTURE_SETUP(view)
{
	registry_setup(_metadata, &self->registry);
	pin(0);
	self->attr = variant->sampling ? sampling_attr(TRACEPOINT) : event_attr(TRACEPOINT);
	self->attr.inherit = variant->inherit;
	self->attr.wakeup_events = variant->sampling;
	self->fd = event_open(&self->attr, variant->task ? 0 : -1,
			      variant->task ? ANY_CPU : 0, -1, 0);
	self->id = DETACH(self->fd, .buffer_pages = variant->sampling ? PAGES : 0);
	ASSERT_LT(0, self->id);
}

FIXTURE_TEARDOWN_PARENT(view)
{
	registry_teardown(_metadata, &self->registry);
}

static int window(int fd, unsigned int cmd)
{
	return event_ioctl(fd, cmd, NULL);
}

/* I see the count since the session began, whenever I open it. */
TEST_F(view, from_the_start)
{
	int first = reopen(self->id);

	drive(TRACEPOINT, N);
	EXPECT_EQ(N, count(first));
	EXPECT_EQ(N, count(reopen(self->id)));
	drive(TRACEPOINT, N);
	EXPECT_EQ(2 * N, count(first));
	EXPECT_EQ(2 * N, count(reopen(self->id)));
}

/* A view opened as disabled counts from 0, between enable and disable. */
TEST_F(view, window)
{
	int fd = view_disabled(self->id, 0);

	drive(TRACEPOINT, N);
	EXPECT_EQ(0, count(fd));
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_ENABLE));
	EXPECT_EQ(0, count(fd));
	drive(TRACEPOINT, N);
	EXPECT_EQ(N, count(fd));
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_DISABLE));
	drive(TRACEPOINT, N);
	EXPECT_EQ(N, count(fd));
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_ENABLE));
	drive(TRACEPOINT, N);
	EXPECT_EQ(2 * N, count(fd));
}

/* Enabling or disabling twice changes nothing. */
TEST_F(view, twice)
{
	int fd = view_disabled(self->id, 0);

	drive(TRACEPOINT, N);
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_DISABLE));
	EXPECT_EQ(0, count(fd));
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_ENABLE));
	drive(TRACEPOINT, N);
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_ENABLE));
	drive(TRACEPOINT, N);
	EXPECT_EQ(2 * N, count(fd));
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_DISABLE));
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_DISABLE));
	EXPECT_EQ(2 * N, count(fd));
}

/* Nor does it keep the count from beginning anew when the event is reset. */
TEST_F(view, twice_before_reset)
{
	int fd = reopen(self->id);

	drive(TRACEPOINT, N);
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_ENABLE));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_RESET, NULL));
	drive(TRACEPOINT, 2);
	EXPECT_EQ(2, count(fd));
}

/* I can reset the view's count to 0, enabled or not. */
TEST_F(view, reset)
{
	int fd = reopen(self->id);

	drive(TRACEPOINT, N);
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_RESET));
	EXPECT_EQ(0, count(fd));
	drive(TRACEPOINT, N);
	EXPECT_EQ(N, count(fd));
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_DISABLE));
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_RESET));
	drive(TRACEPOINT, N);
	EXPECT_EQ(0, count(fd));
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_ENABLE));
	drive(TRACEPOINT, N);
	EXPECT_EQ(N, count(fd));
}

/* My view's count changes neither the event nor the counts of others. */
TEST_F(view, independent)
{
	static const unsigned int cmds[] = {
		PERF_EVENT_IOC_DISABLE, PERF_EVENT_IOC_RESET, PERF_EVENT_IOC_ENABLE,
	};
	int mine = reopen(self->id), other = reopen(self->id), i;
	__u64 n = 0;

	for (i = 0; i < ARRAY_LEN(cmds); i++) {
		ASSERT_EQ(0, window(mine, cmds[i]));
		drive(TRACEPOINT, N);
		n += N;
		EXPECT_EQ(n, count(other));
		EXPECT_EQ(n, count(self->fd));
		EXPECT_EQ(n, total(mine));
		EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(mine));
	}
	close(mine);
	EXPECT_EQ(n, count(other));
}

/* Many views count at the same time, each from its own start. */
TEST_F(view, many)
{
	int fds[VIEWS], i;

	for (i = 0; i < VIEWS; i++) {
		fds[i] = view_disabled(self->id, 0);
		ASSERT_EQ(0, window(fds[i], PERF_EVENT_IOC_ENABLE));
		drive(TRACEPOINT, N);
	}
	for (i = 0; i < VIEWS; i++)
		EXPECT_EQ((VIEWS - i) * N, count(fds[i]));
}

/* A view of a disabled event stands still, and does not enable it. */
TEST_F(view, disabled_event)
{
	int fd = view_disabled(self->id, 0);

	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_ENABLE));
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(fd));
	drive(TRACEPOINT, N);
	EXPECT_EQ(0, count(fd));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ENABLE, NULL));
	drive(TRACEPOINT, N);
	EXPECT_EQ(N, count(fd));
}

/* A copy of the descriptor has the same count, here and in a child. */
TEST_F(view, copies)
{
	int fd = view_disabled(self->id, 0), copy = dup(fd);
	pid_t child;

	ASSERT_EQ(0, window(copy, PERF_EVENT_IOC_ENABLE));
	drive(TRACEPOINT, N);
	EXPECT_EQ(N, count(fd));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(window(copy, PERF_EVENT_IOC_DISABLE));
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	drive(TRACEPOINT, N);
	EXPECT_EQ(N, count(fd));
	close(copy);
	EXPECT_EQ(N, count(fd));
}

/* A view keeps its count when the event is attached, and when it expires. */
TEST_F(view, after_the_end)
{
	int fd = view_disabled(self->id, 0);

	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_ENABLE));
	drive(TRACEPOINT, N);
	ASSERT_EQ(0, attach(fd));
	drive(TRACEPOINT, N);
	EXPECT_EQ(2 * N, count(fd));
	ASSERT_LT(0, DETACH(self->fd, .ttl = 1));
	EXPECT_TRUE(eventually(state_of(fd) == PERF_PERSISTENT_STATE_EXPIRED));
	drive(TRACEPOINT, N);
	EXPECT_EQ(2 * N, count(fd));
}

/* I choose the read format, whatever the event was opened with. */
TEST_F(view, read_formats)
{
	__u64 values[8], format, event_id = 0;
	int fd, i;

	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ID, &event_id));
	drive(TRACEPOINT, N);
	for (format = 0; format < PERF_FORMAT_MAX; format++) {
		if (format & ~FORMATS)
			continue;
		fd = VIEW(self->id, 0, .read_format = format);
		ASSERT_LE(0, fd);
		i = 1 + __builtin_popcountll(format);
		EXPECT_EQ(-ENOSPC, result(read(fd, values, 8 * (i - 1))));
		ASSERT_EQ(8 * i, read(fd, values, sizeof(values)));
		EXPECT_EQ(N, values[0]);
		i = 1;
		if (format & PERF_FORMAT_TOTAL_TIME_ENABLED)
			EXPECT_LT(0, values[i++]);
		if (format & PERF_FORMAT_TOTAL_TIME_RUNNING)
			EXPECT_LT(0, values[i++]);
		if (format & PERF_FORMAT_ID)
			EXPECT_EQ(event_id, values[i++]);
		if (format & PERF_FORMAT_LOST)
			EXPECT_EQ(0, values[i++]);
		close(fd);
	}
	EXPECT_EQ(-EINVAL, VIEW(self->id, 0, .read_format = PERF_FORMAT_MAX));
}

/* A view's times stand still with its count, and go on when the count is reset. */
TEST_F(view, times)
{
	int fd = VIEW(self->id, 0, .disabled = 1, .read_format = TIMES);
	__u64 before[3], after[3];

	ASSERT_EQ(sizeof(before), read(fd, before, sizeof(before)));
	drive(CLOCK, N);
	ASSERT_EQ(sizeof(after), read(fd, after, sizeof(after)));
	EXPECT_EQ(0, memcmp(before, after, sizeof(before)));

	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_ENABLE));
	drive(CLOCK, N);
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_RESET));
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_DISABLE));
	ASSERT_EQ(sizeof(before), read(fd, before, sizeof(before)));
	EXPECT_LT(after[1], before[1]);
	EXPECT_LT(after[2], before[2]);
	EXPECT_LE(before[2], before[1]);
	drive(CLOCK, N);
	ASSERT_EQ(sizeof(after), read(fd, after, sizeof(after)));
	EXPECT_EQ(0, memcmp(before, after, sizeof(before)));
}

/* Attr bits that many programs set as a habit are accepted. */
TEST_F(view, lenient)
{
	EXPECT_LE(0, VIEW(self->id, 0, .exclude_guest = 1));
	EXPECT_LE(0, VIEW(self->id, 0, .inherit = 1));
	EXPECT_LE(0, VIEW(self->id, 0, .sample_type = PERF_SAMPLE_IDENTIFIER));
	EXPECT_LE(0, VIEW(self->id, 0, .exclude_guest = 1, .inherit = 1, .disabled = 1,
			  .sample_type = PERF_SAMPLE_IDENTIFIER, .read_format = FORMATS));
	EXPECT_LE(0, VIEW(self->id, 0, .inherit = variant->inherit,
			  .sample_type = self->attr.sample_type,
			  .sample_period = self->attr.sample_period,
			  .wakeup_events = self->attr.wakeup_events));
}

/* Attr fields that would change the event are refused. */
TEST_F(view, strict)
{
	EXPECT_EQ(-EOPNOTSUPP, VIEW(self->id, 0, .exclude_kernel = 1));
	EXPECT_EQ(-EOPNOTSUPP, VIEW(self->id, 0, .pinned = 1));
	EXPECT_EQ(-EOPNOTSUPP, VIEW(self->id, 0, .enable_on_exec = 1));
	EXPECT_EQ(-EOPNOTSUPP, VIEW(self->id, 0, .persistent = 1));
	EXPECT_EQ(-EOPNOTSUPP, VIEW(self->id, 0, .sample_type = PERF_SAMPLE_IP));
	EXPECT_EQ(-EOPNOTSUPP, VIEW(self->id, 0, .sample_type = PERF_SAMPLE_IDENTIFIER,
				    .sample_period = 2));
	EXPECT_EQ(-EOPNOTSUPP, VIEW(self->id, 0, .wakeup_events = 2));
	EXPECT_EQ(-EOPNOTSUPP, VIEW(self->id, 0, .freq = 1, .sample_freq = 1));
}

/* A program that knows nothing of sessions counts with a view as with any event. */
TEST_F(view, stock_client)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_PERSISTENT,
		.size		= PERF_ATTR_SIZE_VER5,
		.config		= self->id,
		.sample_type	= PERF_SAMPLE_IDENTIFIER,
		.read_format	= TIMES,
		.disabled	= 1,
		.inherit	= 1,
		.exclude_guest	= 1,
	};
	int fd = event_open(&attr, variant->task ? getpid() : -1, variant->task ? ANY_CPU : 0,
			    -1, PERF_FLAG_FD_CLOEXEC);
	__u64 values[3];

	ASSERT_LE(0, fd);
	drive(TRACEPOINT, N);
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_RESET));
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_ENABLE));
	drive(TRACEPOINT, N);
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_DISABLE));
	ASSERT_EQ(sizeof(values), read(fd, values, sizeof(values)));
	EXPECT_EQ(N, values[0]);
	EXPECT_LE(values[2], values[1]);
}

/* A view cannot change what belongs to the session. */
TEST_F(view, not_mine)
{
	struct perf_event_query_bpf bpf = {};
	struct perf_event_attr attr = self->attr;
	int fd = reopen(self->id);
	__u64 period = 7;

	EXPECT_EQ(-EOPNOTSUPP, event_ioctl(fd, PERF_EVENT_IOC_PERIOD, &period));
	EXPECT_EQ(-EOPNOTSUPP, event_ioctl(fd, PERF_EVENT_IOC_SET_FILTER, "common_pid == 0"));
	EXPECT_EQ(-EOPNOTSUPP, result(ioctl(fd, PERF_EVENT_IOC_SET_BPF, -1)));
	EXPECT_EQ(-EOPNOTSUPP, result(ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, -1)));
	EXPECT_EQ(-EOPNOTSUPP, result(ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, self->fd)));
	EXPECT_EQ(-EOPNOTSUPP, event_ioctl(fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, &attr));
	EXPECT_EQ(-EOPNOTSUPP, result(ioctl(fd, PERF_EVENT_IOC_REFRESH, 1)));
	EXPECT_EQ(-EOPNOTSUPP, result(ioctl(fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1)));
	EXPECT_EQ(-EOPNOTSUPP, event_ioctl(fd, PERF_EVENT_IOC_QUERY_BPF, &bpf));
	EXPECT_EQ(-EEXIST, detach(fd));
	EXPECT_EQ(-EBADF, event_open(&self->attr, variant->task ? 0 : -1,
				     variant->task ? ANY_CPU : 0, fd, 0));
	drive(TRACEPOINT, N);
	EXPECT_EQ(N, count(fd));
}

static int ready(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) ? p.revents : 0;
}

/* A view gets its own wake-ups, enabled or not, and none without a buffer. */
TEST_F(view, poll)
{
	int mine = view_disabled(self->id, 0), other = reopen(self->id);
	int news = variant->sampling ? POLLIN : POLLHUP, none = variant->sampling ? 0 : POLLHUP;

	EXPECT_EQ(none, ready(mine));
	drive(TRACEPOINT, N);
	EXPECT_EQ(news, ready(self->fd));
	EXPECT_EQ(news, ready(mine));
	EXPECT_EQ(none, ready(mine));
	EXPECT_EQ(none, ready(self->fd));
	EXPECT_EQ(news, ready(other));
	EXPECT_EQ(none, ready(other));
	ASSERT_EQ(0, window(mine, PERF_EVENT_IOC_RESET));
	EXPECT_EQ(none, ready(mine));
}

/* The number of lost samples is the same in all views, also in later ones. */
TEST_F(view, lost)
{
	int early = VIEW(self->id, 0, .read_format = PERF_FORMAT_LOST), late;
	__u64 values[2], again[2];

	if (!variant->sampling)
		SKIP(return, "an event that only counts loses no samples");
	drive(TRACEPOINT, 10 * N);
	ASSERT_EQ(sizeof(values), read(early, values, sizeof(values)));
	EXPECT_EQ(10 * N, values[0]);
	EXPECT_LT(0, values[1]);
	late = VIEW(self->id, 0, .read_format = PERF_FORMAT_LOST, .disabled = 1);
	ASSERT_EQ(sizeof(again), read(late, again, sizeof(again)));
	EXPECT_EQ(0, again[0]);
	EXPECT_EQ(values[1], again[1]);
	ASSERT_EQ(0, window(early, PERF_EVENT_IOC_RESET));
	ASSERT_EQ(sizeof(again), read(early, again, sizeof(again)));
	EXPECT_EQ(0, again[0]);
	EXPECT_EQ(values[1], again[1]);
}

FIXTURE(group)
{
	struct registry		registry;
	int			fds[3];
	__u64			ids[3];
	int			id;
};

FIXTURE_SETUP(group)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int i;

	registry_setup(_metadata, &self->registry);
	pin(0);
	for (i = 0; i < 3; i++) {
		self->fds[i] = event_open(&attr, -1, 0, i ? self->fds[0] : -1, 0);
		ASSERT_EQ(0, event_ioctl(self->fds[i], PERF_EVENT_IOC_ID, &self->ids[i]));
		self->id = DETACH(self->fds[i], .id = self->id, .member = i);
		ASSERT_LT(0, self->id);
	}
}

FIXTURE_TEARDOWN_PARENT(group)
{
	registry_teardown(_metadata, &self->registry);
}

/* The leader's view reads the group, in the format that I chose; siblings' views do not. */
TEST_F(group, read_formats)
{
	__u64 values[16], format;
	int fd, i, pos;

	drive(TRACEPOINT, N);
	for (format = PERF_FORMAT_GROUP; format < PERF_FORMAT_MAX; format++) {
		if (!(format & PERF_FORMAT_GROUP))
			continue;
		EXPECT_EQ(-EINVAL, VIEW(self->id, 1, .read_format = format));
		fd = VIEW(self->id, 0, .read_format = format);
		pos = 1 + __builtin_popcountll(format & TIMES);
		ASSERT_EQ(8 * (pos + 3 * (1 + __builtin_popcountll(format & FORMATS & ~TIMES))),
			  read(fd, values, sizeof(values)));
		EXPECT_EQ(3, values[0]);
		for (i = 0; i < 3; i++) {
			EXPECT_EQ(N, values[pos++]);
			if (format & PERF_FORMAT_ID)
				EXPECT_EQ(self->ids[i], values[pos++]);
			if (format & PERF_FORMAT_LOST)
				EXPECT_EQ(0, values[pos++]);
		}
		close(fd);
	}
}

#define EXPECT_GROUP(fd, n) do {						\
	__u64 _values[4], _n = (n);						\
										\
	ASSERT_EQ(sizeof(_values), read(fd, _values, sizeof(_values)));		\
	EXPECT_EQ(3, _values[0]);						\
	EXPECT_EQ(_n, _values[1]);						\
	EXPECT_EQ(_n, _values[2]);						\
	EXPECT_EQ(_n, _values[3]);						\
} while (0)

/* Enabling, disabling and resetting a group view apply to the whole group. */
TEST_F(group, window)
{
	int fd = VIEW(self->id, 0, .read_format = PERF_FORMAT_GROUP, .disabled = 1);
	int other = VIEW(self->id, 0, .read_format = PERF_FORMAT_GROUP);

	drive(TRACEPOINT, N);
	EXPECT_GROUP(fd, 0);
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_ENABLE));
	drive(TRACEPOINT, N);
	EXPECT_GROUP(fd, N);
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_DISABLE));
	drive(TRACEPOINT, N);
	EXPECT_GROUP(fd, N);
	ASSERT_EQ(0, window(fd, PERF_EVENT_IOC_RESET));
	EXPECT_GROUP(fd, 0);
	EXPECT_GROUP(other, 3 * N);
	EXPECT_EQ(3 * N, count(reopen_instance(self->id, 2)));
}

/* When an event leaves the group, the views of the others do not change. */
TEST_F(group, sibling_closed)
{
	struct perf_event_attr attr = event_attr(FAULTS);
	__u64 values[8] = {}, before;
	int leader, first, second, id, view;

	leader = event_open(&attr, 0, -1, -1, 0);
	first = event_open(&attr, 0, -1, leader, 0);
	second = event_open(&attr, 0, -1, leader, 0);
	ASSERT_LE(0, second);
	drive(FAULTS, 100 * N);
	ASSERT_EQ(0, event_ioctl(first, PERF_EVENT_IOC_RESET, NULL));
	id = detach(leader);
	ASSERT_LT(0, id);
	view = VIEW(id, 0, .read_format = PERF_FORMAT_GROUP, .disabled = 1);
	ASSERT_LE(0, view);
	ASSERT_EQ(0, event_ioctl(view, PERF_EVENT_IOC_ENABLE, NULL));
	drive(FAULTS, N);
	ASSERT_EQ((long)(4 * sizeof(__u64)), read(view, values, sizeof(values)));
	before = values[3];
	EXPECT_LE(N, before);
	EXPECT_GT(50 * N, before);

	close(first);
	ASSERT_EQ((long)(3 * sizeof(__u64)), read(view, values, sizeof(values)));
	EXPECT_EQ(2, values[0]);
	EXPECT_LE(before, values[2]);
	EXPECT_GT(50 * N, values[2]);
}

/* A group opened without PERF_FORMAT_GROUP can outgrow read(2): its group views get -E2BIG. */
TEST_F(group, too_large)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	struct rlimit files = { LARGE + 64, LARGE + 64 };
	int fd = VIEW(self->id, 0, .read_format = PERF_FORMAT_GROUP), i;
	__u64 values[16];

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	for (i = 0; i < LARGE; i++)
		ASSERT_LE(0, event_open(&attr, -1, 0, self->fds[0], 0));
	EXPECT_EQ(-E2BIG, result(read(fd, values, sizeof(values))));
	EXPECT_EQ(-E2BIG, window(fd, PERF_EVENT_IOC_RESET));
	EXPECT_EQ(-E2BIG, VIEW(self->id, 0, .read_format = PERF_FORMAT_GROUP));
	EXPECT_LE(0, VIEW(self->id, 0, .read_format = 0));
}

TEST_HARNESS_MAIN
