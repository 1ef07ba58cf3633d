// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: hardware counters, of which a CPU has few.
 */
#include "persistent.h"

#define COUNTERS	64	/* more than any CPU has */
#define N		100
#define TIMES		(PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING)

/* The result of read() with TIMES */
struct counted {
	__u64	value;
	__u64	enabled;
	__u64	running;
};

FIXTURE(counters)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	int			nr;		/* number of counters for cycles */
	int			ids[2 * COUNTERS];
	int			holders[2 * COUNTERS];
};

static int open_on(struct perf_event_attr attr, int cpu, int leader)
{
	return event_open(&attr, -1, cpu, leader, PERF_FLAG_FD_CLOEXEC);
}

/* Open a view of an instance, with TIMES */
static int open_times(int id, __u32 nr)
{
	return VIEW(id, nr, .read_format = TIMES);
}

/* Returns the size of struct counted, 0 in error state, or -errno */
static int read_counted(int fd, struct counted *c)
{
	memset(c, 0, sizeof(*c));

	return result(read(fd, c, sizeof(*c)));
}

static bool counts(int fd)
{
	struct counted before, after;

	read_counted(fd, &before);
	drive(CYCLES, 1);
	read_counted(fd, &after);

	return before.value < after.value && before.running < after.running;
}

/* The same for an instance that nobody has open */
static bool instance_counts(int id, __u32 nr)
{
	int fd = open_times(id, nr);
	bool ret = counts(fd);

	close(fd);

	return ret;
}

static bool id_counts(int id)
{
	return instance_counts(id, 0);
}

/* A pinned event gets its counter at once and for good, or is in error state */
static int open_pinned(struct perf_event_attr attr)
{
	attr.pinned = 1;

	return open_on(attr, 0, -1);
}

static bool has_counter(int fd)
{
	struct counted c;

	return read_counted(fd, &c) == sizeof(c);
}

/* The number of pinned events that fit on CPU 0 */
static int count_counters(const struct perf_event_attr *attr)
{
	int fds[COUNTERS + 1], nr = 0, i;

	do {
		fds[nr] = open_pinned(*attr);
	} while (has_counter(fds[nr]) && nr++ < COUNTERS);
	for (i = 0; i <= nr && i <= COUNTERS; i++)
		close(fds[i]);

	return nr;
}

FIXTURE_SETUP(counters)
{
	if (!has_event(CYCLES))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);
	pin(0);
	self->attr = event_attr(CYCLES);
	self->attr.read_format = TIMES;
	self->nr = count_counters(&self->attr);
	ASSERT_LT(0, self->nr);
	ASSERT_GE(COUNTERS, self->nr);
}

FIXTURE_TEARDOWN_PARENT(counters)
{
	hot_teardown(_metadata, &self->registry);
}

/* Detach @nr events, each into a session of its own, and close them */
#define DETACH_MANY(n, open) do {				\
	int _i, _fd;						\
								\
	for (_i = 0; _i < (n); _i++) {				\
		_fd = open;					\
		self->ids[_i] = detach(_fd);			\
		ASSERT_LT(0, self->ids[_i]);			\
		close(_fd);					\
	}							\
} while (0)

/* Persistent events take all counters, and keep them. */
#define TAKE_ALL()	DETACH_MANY(self->nr, open_pinned(self->attr))

/* The counter of a persistent event is not available to others until the event ends. */
TEST_F(counters, taken)
{
	int i, fd;

	TAKE_ALL();
	EXPECT_FALSE(has_counter(open_pinned(self->attr)));
	for (i = 0; i < self->nr; i++)
		EXPECT_TRUE(id_counts(self->ids[i]));

	stop(self->ids[0]);
	fd = open_pinned(self->attr);
	EXPECT_TRUE(counts(fd));
	EXPECT_FALSE(has_counter(open_pinned(self->attr)));
}

/* A pinned event without a counter is in error state, reads 0 bytes, and can be enabled again. */
TEST_F(counters, error)
{
	struct answer a;
	struct counted c;
	int fd, id, view;

	TAKE_ALL();
	fd = open_pinned(self->attr);
	id = detach(fd);
	ASSERT_LT(0, id);

	view = open_times(id, 0);
	EXPECT_EQ(0, read_counted(fd, &c));
	EXPECT_EQ(0, read_counted(view, &c));
	ASSERT_EQ(0, query(view, &a));
	EXPECT_EQ(PERF_PERSISTENT_STATE_ERROR, a.info.self.state);
	EXPECT_EQ(PERF_PERSISTENT_STATE_ERROR, a.instances[0].state);
	EXPECT_EQ(0, a.info.ended);

	ASSERT_EQ(0, event_ioctl(fd, PERF_EVENT_IOC_ENABLE, NULL));
	EXPECT_EQ(PERF_PERSISTENT_STATE_ERROR, state_of(view));
	stop(self->ids[0]);
	ASSERT_EQ(0, session_enable(view));
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(view));
	EXPECT_TRUE(counts(view));
}

/* A held event lends its counter to others, and gets it back. */
TEST_F(counters, lent)
{
	int holder, other;

	TAKE_ALL();
	EXPECT_FALSE(has_counter(open_pinned(self->attr)));
	holder = reopen(self->ids[0]);
	ASSERT_EQ(0, hold(holder));
	other = open_pinned(self->attr);
	EXPECT_TRUE(counts(other));
	EXPECT_FALSE(id_counts(self->ids[0]));
	EXPECT_FALSE(has_counter(open_pinned(self->attr)));

	close(other);
	close(holder);
	EXPECT_TRUE(id_counts(self->ids[0]));
	EXPECT_FALSE(has_counter(open_pinned(self->attr)));
}

/* A released event has its counter back at once, though a later event has it. */
TEST_F(counters, taken_back)
{
	int holder, other;

	TAKE_ALL();
	holder = reopen(self->ids[0]);
	ASSERT_EQ(0, hold(holder));
	other = open_pinned(self->attr);
	EXPECT_TRUE(counts(other));
	close(holder);
	EXPECT_TRUE(id_counts(self->ids[0]));
	EXPECT_FALSE(has_counter(other));
}

/* More events than counters take turns, and their scaled counts agree */
static void expect_turns(struct __test_metadata *_metadata, const int *ids, int n)
{
	struct counted before[2 * COUNTERS], c;
	__u64 scaled, least = -1, most = 0;
	int fds[2 * COUNTERS], i, behind = n;
	bool shared = false;

	for (i = 0; i < n; i++) {
		fds[i] = open_times(ids[i], 0);
		ASSERT_EQ(sizeof(c), read_counted(fds[i], &before[i]));
	}

	/* Each has run for some turns. */
	EXPECT_TRUE(eventually(({
		drive(CYCLES, N);
		for (i = behind = 0; i < n; i++) {
			read_counted(fds[i], &c);
			behind += c.running - before[i].running < 50 * CLOCK_PERIOD;
		}
		!behind;
	})));

	for (i = 0; i < n; i++) {
		read_counted(fds[i], &c);
		c.value -= before[i].value;
		c.enabled -= before[i].enabled;
		c.running -= before[i].running;
		shared |= c.running < c.enabled;
		EXPECT_LT(0, c.value);
		EXPECT_GE(c.enabled, c.running);
		scaled = (double)c.value * c.enabled / (c.running ?: 1);
		least = scaled < least ? scaled : least;
		most = scaled > most ? scaled : most;
		close(fds[i]);
	}
	EXPECT_TRUE(shared);
	EXPECT_GT(3 * least, most);
}

/* With more events than counters, all get turns, and scaled counts are right. */
TEST_F(counters, multiplexed)
{
	int n = 2 * self->nr;

	DETACH_MANY(n, open_on(self->attr, 0, -1));
	expect_turns(_metadata, self->ids, n);
	expect_turns(_metadata, self->ids, n);
}

/* They release the counters to a reservation, and take turns again. */
TEST_F(counters, reserved)
{
	int n = 2 * self->nr, i, fds[COUNTERS];
	struct counted c;

	DETACH_MANY(n, open_on(self->attr, 0, -1));
	for (i = 0; i < n; i++) {
		self->holders[i] = reopen(self->ids[i]);
		ASSERT_EQ(0, hold(self->holders[i]));
	}
	for (i = 0; i < self->nr; i++)
		fds[i] = open_on(self->attr, 0, -1);
	drive(CYCLES, 10 * N);
	for (i = 0; i < self->nr; i++) {
		ASSERT_EQ(sizeof(c), read_counted(fds[i], &c));
		EXPECT_LT(0, c.value);
		EXPECT_EQ(c.enabled, c.running);
		close(fds[i]);
	}
	for (i = 0; i < n; i++)
		close(self->holders[i]);
	expect_turns(_metadata, self->ids, n);
}

/* They take turns again on a CPU that was offline. */
TEST_F(counters, multiplexed_hotplug)
{
	int n = 2 * self->nr, i;

	pin(HOT_CPU);
	DETACH_MANY(n, open_on(self->attr, HOT_CPU, -1));
	expect_turns(_metadata, self->ids, n);
	pin(0);
	ASSERT_EQ(0, set_online(false));
	for (i = 0; i < n; i++)
		EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, state_of(reopen(self->ids[i])));
	ASSERT_EQ(0, set_online(true));
	pin(HOT_CPU);
	expect_turns(_metadata, self->ids, n);
}

/* A pinned event has its counter again, before others, when its CPU is back. */
TEST_F(counters, pinned_hotplug)
{
	int i, other;

	self->attr.pinned = 1;
	DETACH_MANY(self->nr, open_on(self->attr, HOT_CPU, -1));
	ASSERT_EQ(0, set_online(false));
	ASSERT_EQ(0, set_online(true));
	other = open_on(self->attr, HOT_CPU, -1);
	pin(HOT_CPU);
	EXPECT_FALSE(has_counter(other));
	for (i = 0; i < self->nr; i++)
		EXPECT_TRUE(id_counts(self->ids[i]));
}

/* Add siblings until one is refused, and return why */
static int fill_group(const struct perf_event_attr *attr, bool persistent, int *err)
{
	int leader = open_on(*attr, 0, -1), fd, id = 0, n = 0;

	if (persistent)
		id = detach(leader);
	while ((fd = open_on(*attr, 0, leader)) >= 0 && n++ < COUNTERS) {
		if (persistent)
			DETACH(fd, .id = id, .member = n);
	}
	*err = fd;

	return n;
}

/* The id of the only session */
static int only_id(void)
{
	DIR *d = opendir(REGISTRY "/ids");
	struct dirent *entry;
	int id = 0;

	while (d && !id && (entry = readdir(d)))
		id = atoi(entry->d_name);
	if (d)
		closedir(d);

	return id;
}

/* A group that no CPU could count at once is refused, as ever. */
TEST_F(counters, group_too_large)
{
	struct answer a;
	int n, err;

	n = fill_group(&self->attr, false, &err);
	EXPECT_EQ(-EINVAL, err);
	EXPECT_EQ(n, fill_group(&self->attr, true, &err));
	EXPECT_EQ(-EINVAL, err);
	EXPECT_EQ(1, registry_count("ids"));
	ASSERT_EQ(0, query(reopen_instance(only_id(), 0), &a));
	EXPECT_EQ(n + 1, a.info.nr_instances);
}

/* No event of the session's group counts. */
#define EXPECT_WAITS(id) do {							\
	struct counted _c;							\
	int _i, _fd;								\
										\
	drive(CYCLES, N);							\
	for (_i = 0; _i < self->nr; _i++) {					\
		_fd = open_times(id, _i);					\
		EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(_fd));	\
		ASSERT_EQ(sizeof(_c), read_counted(_fd, &_c));			\
		EXPECT_EQ(0, _c.value);						\
		EXPECT_LT(0, _c.enabled);					\
		close(_fd);							\
	}									\
} while (0)

/* A group that needs all counters waits until it gets them all. */
TEST_F(counters, group_waits)
{
	int pinned = open_pinned(self->attr), leader, i, fd, id;

	self->attr.disabled = 1;
	leader = open_on(self->attr, 0, -1);
	self->attr.disabled = 0;
	id = detach(leader);
	for (i = 1; i < self->nr; i++) {
		fd = open_on(self->attr, 0, leader);
		ASSERT_EQ(id, DETACH(fd, .id = id, .member = i));
		close(fd);
	}
	ASSERT_EQ(0, event_ioctl(leader, PERF_EVENT_IOC_ENABLE, NULL));
	close(leader);

	EXPECT_WAITS(id);
	/* Nor does a part of it count as its events go on, one after the other. */
	fd = open_session(id);
	ASSERT_EQ(0, hold(fd));
	close(fd);
	EXPECT_WAITS(id);
	fd = open_session(id);
	ASSERT_EQ(0, session_disable(fd));
	ASSERT_EQ(0, session_enable(fd));
	EXPECT_WAITS(id);
	EXPECT_TRUE(counts(pinned));
	close(pinned);
	EXPECT_TRUE(eventually(id_counts(id)));
	for (i = 0; i < self->nr; i++)
		EXPECT_TRUE(instance_counts(id, i));
}

/* An exclusive event has the CPU's counters for itself, until it is held. */
TEST_F(counters, exclusive)
{
	int other, holder;

	self->attr.exclusive = 1;
	DETACH_MANY(1, open_pinned(self->attr));
	self->attr.exclusive = 0;
	other = open_on(self->attr, 0, -1);
	EXPECT_FALSE(counts(other));
	EXPECT_TRUE(id_counts(self->ids[0]));

	holder = reopen(self->ids[0]);
	ASSERT_EQ(0, hold(holder));
	EXPECT_TRUE(eventually(counts(other)));
	EXPECT_FALSE(id_counts(self->ids[0]));
	close(other);
	close(holder);
	EXPECT_TRUE(id_counts(self->ids[0]));
}

/* Two exclusive events take turns, and never count at the same time. */
TEST_F(counters, exclusive_take_turns)
{
	struct counted first, second;

	self->attr.exclusive = 1;
	DETACH_MANY(2, open_on(self->attr, 0, -1));
	expect_turns(_metadata, self->ids, 2);
	read_counted(open_times(self->ids[1], 0), &second);
	read_counted(open_times(self->ids[0], 0), &first);
	EXPECT_LE(first.running + second.running, first.enabled);
}

TEST_HARNESS_MAIN
