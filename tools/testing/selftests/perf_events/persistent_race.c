// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: concurrent calls of the same kind, and calls during
 * CPU hotplug.
 */
#include <pthread.h>
#include <signal.h>
#include <linux/membarrier.h>
#include <sys/prctl.h>

#include "persistent.h"

#define N	100
#define RACERS	4
#define ROUNDS	10
#define WORKERS	4
#define GAPS	8
#define ASKERS	2
#define SHARERS	12
#define MAPPERS	3
#define PAGES	4
#define BUFFERS	32
#define TIME	1000000000ULL

FIXTURE(race)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	int			fd;
	int			id;
	pthread_barrier_t	barrier;
	int			won;
};

FIXTURE_VARIANT(race)
{
	enum event		event;
};

FIXTURE_VARIANT_ADD(race, clock) { .event = CLOCK };
FIXTURE_VARIANT_ADD(race, cycles) { .event = CYCLES };

FIXTURE_SETUP(race)
{
	pthread_barrierattr_t shared;

	if (!has_event(variant->event))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	ASSERT_EQ(0, pthread_barrier_init(&self->barrier, &shared, RACERS));

	self->attr = sampling_attr(variant->event);
	self->fd = event_open(&self->attr, -1, 0, -1, 0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN_PARENT(race)
{
	registry_teardown(_metadata, &self->registry);
}

/* Concurrent processes make the same call; returns how many succeeded */
#define race(call, error) ({						\
	pid_t _child[RACERS];						\
	int _i, _ret;							\
									\
	self->won = 0;							\
	for (_i = 0; _i < RACERS; _i++) {				\
		_child[_i] = fork();					\
		if (_child[_i])						\
			continue;					\
		pthread_barrier_wait(&self->barrier);			\
		_ret = (call);						\
		if (_ret >= 0)						\
			__atomic_fetch_add(&self->won, 1, __ATOMIC_RELAXED); \
		else							\
			EXPECT_EQ(error, _ret);				\
		_exit(0);						\
	}								\
	for (_i = 0; _i < RACERS; _i++)					\
		waitpid(_child[_i], NULL, 0);				\
	self->won;							\
})

/* An event is detached once and attached once, however many processes try. */
TEST_F(race, detach_and_attach)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(1, race(detach(self->fd), -EEXIST));
		ASSERT_EQ(1, registry_count("ids"));
		ASSERT_EQ(1, race(attach(self->fd), -EINVAL));
		ASSERT_EQ(0, registry_count("ids"));
	}
}

/* One process gets the name. */
TEST_F(race, name)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(1, race(DETACH(event_open(&self->attr, -1, 0, -1, 0),
					 .name = addr("wanted")), -EEXIST));
		stop_all();
	}
}

/* One process gets the place in the session. */
TEST_F(race, join)
{
	int i;

	self->id = detach(self->fd);
	for (i = 1; i <= ROUNDS; i++)
		ASSERT_EQ(1, race(DETACH(event_open(&self->attr, -1, 0, -1, 0),
					 .id = self->id, .member = i), -EEXIST));
}

/* Returns -ENOENT if the session ended before or after the reopen */
static int reopen_and_attach(int id)
{
	int fd = reopen(id), ret = fd < 0 ? fd : attach(fd);

	return ret == -EINVAL ? -ENOENT : ret;
}

/* Reopen and ATTACH come either before the end or after it. */
TEST_F(race, reopen_and_attach)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		self->id = detach(self->fd);
		EXPECT_EQ(RACERS, race(reopen(self->id), 0));
		EXPECT_EQ(1, race(reopen_and_attach(self->id), -ENOENT));
	}
}

static void join_and_leave(struct perf_event_attr attr, int id, int member)
{
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		fd = event_open(&attr, -1, 0, -1, 0);
		DETACH(fd, .id = id, .member = member);
		attach(fd);
		close(fd);
	}
}

/* While others join and leave, QUERY returns each instance once, and those that stay always. */
TEST_F(race, query)
{
	__u32 members, joined = 0, i;
	__u64 end = now_ns() + TIME;
	pid_t child[RACERS];
	struct answer a;

	self->id = DETACH(self->fd, .member = RACERS);
	ASSERT_LT(0, self->id);
	for (i = 0; i < RACERS; i++) {
		child[i] = fork();
		ASSERT_LE(0, child[i]);
		if (!child[i])
			join_and_leave(self->attr, self->id, i);
	}

	while (now_ns() < end) {
		ASSERT_EQ(0, query(self->fd, &a));
		ASSERT_LE(a.info.nr_instances, RACERS + 1);
		members = 0;
		for (i = 0; i < a.info.nr_instances; i++) {
			ASSERT_EQ(self->id, a.instances[i].id);
			ASSERT_EQ(0, members & 1 << a.instances[i].member);
			members |= 1 << a.instances[i].member;
		}
		ASSERT_NE(0, members & 1 << RACERS);
		joined += a.info.nr_instances - 1;
	}
	EXPECT_LT(0, joined);

	for (i = 0; i < RACERS; i++) {
		ASSERT_EQ(0, kill(child[i], SIGKILL));
		ASSERT_EQ(child[i], waitpid(child[i], NULL, 0));
	}
}

/* Look at all events that share a buffer */
static void ask(int fd, int id)
{
	struct answer a;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		query(fd, &a);
		SET(fd, .flags = PERF_PERSISTENT_SET_COMMITTED);
		close(reopen(id));
	}
}

/* A task that waits to be killed */
static pid_t fork_idle(void)
{
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}

	return child;
}

/* Wait until exited tasks are freed, except their events */
static void forget_the_dead(void)
{
	int i;

	for (i = 0; i < 2; i++)
		syscall(__NR_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

/* Operations on a buffer do not access the tasks of events that just left it. */
TEST_F(race, dead_sharers)
{
	struct perf_event_attr attr = sampling_attr(FAULTS);
	pid_t askers[ASKERS], child[SHARERS];
	__u64 end = now_ns() + TIME;
	int fd[SHARERS], i;

	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);
	for (i = 0; i < ASKERS; i++) {
		askers[i] = fork();
		ASSERT_LE(0, askers[i]);
		if (!askers[i])
			ask(self->fd, self->id);
	}

	while (now_ns() < end) {
		for (i = 0; i < SHARERS; i++) {
			child[i] = fork_idle();
			fd[i] = event_open(&attr, child[i], 0, -1, PERF_FLAG_FD_CLOEXEC);
			ASSERT_EQ(0, event_ioctl(fd[i], PERF_EVENT_IOC_SET_OUTPUT,
						 (void *)(long)self->fd));
		}
		for (i = 0; i < SHARERS; i++) {
			ASSERT_EQ(0, kill(child[i], SIGKILL));
			ASSERT_EQ(child[i], waitpid(child[i], NULL, 0));
		}
		forget_the_dead();
		for (i = 0; i < SHARERS; i++)
			close(fd[i]);
	}

	for (i = 0; i < ASKERS; i++) {
		ASSERT_EQ(0, kill(askers[i], SIGKILL));
		ASSERT_EQ(askers[i], waitpid(askers[i], NULL, 0));
	}
}

FIXTURE(load)
{
	struct registry		registry;
	int			fd;
	int			id;
};

FIXTURE_SETUP(load)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);

	registry_setup(_metadata, &self->registry);
	self->fd = event_open(&attr, -1, HOT_CPU, -1, 0);
	self->id = DETACH(self->fd, .name = addr("load"));
	ASSERT_LT(0, self->id);
}

FIXTURE_TEARDOWN_PARENT(load)
{
	hot_teardown(_metadata, &self->registry);
}

/* All operations on events of a CPU, whether it is online or not */
static void work(int id)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	struct perf_event_attr other = event_attr(has_event(CYCLES) ? CYCLES : CLOCK);
	int leader, sibling, fd;
	struct answer a;

	for (;;) {
		leader = event_open(&attr, -1, HOT_CPU, -1, 0);
		sibling = event_open(&other, -1, HOT_CPU, leader, 0);
		DETACH(leader, .id = id, .member = getpid() % 50 + 1, .buffer_pages = 1);
		DETACH(sibling, .id = id, .member = getpid() % 50 + 51);
		event_ioctl(sibling, PERF_EVENT_IOC_DISABLE, NULL);
		drive_there(TRACEPOINT, 10);
		fd = reopen_at(id, -1, HOT_CPU);
		query(fd, &a);
		count(fd);
		event_ioctl(leader, PERF_EVENT_IOC_RESET, NULL);
		event_ioctl(sibling, PERF_EVENT_IOC_ENABLE, NULL);
		close(fd);
		attach(sibling);
		close(sibling);
		attach(leader);
		close(leader);
	}
}

/* Under this load the CPU can go and come, and its events count again. */
TEST_F(load, goes_on)
{
	pid_t workers[WORKERS];
	__u64 before;
	int i;

	for (i = 0; i < WORKERS; i++) {
		workers[i] = fork();
		ASSERT_LE(0, workers[i]);
		if (!workers[i])
			work(self->id);
	}

	for (i = 1; i <= GAPS; i++) {
		ASSERT_EQ(0, set_online(false));
		EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, state_of(self->fd));
		drive(CLOCK, N);
		before = count(self->fd);
		ASSERT_EQ(0, set_online(true));
		/* Some are missed while other events move, persistent or not. */
		drive_there(TRACEPOINT, 2 * N);
		EXPECT_LE(before + N, count(self->fd));
	}

	for (i = 0; i < WORKERS; i++) {
		ASSERT_EQ(0, kill(workers[i], SIGKILL));
		ASSERT_EQ(workers[i], waitpid(workers[i], NULL, 0));
	}
}

static int attacher_fd;
static int attacher_round;

static void *attacher(void *unused)
{
	int round = 0;

	pin(0);
	while (round >= 0) {
		round = __atomic_load_n(&attacher_round, __ATOMIC_ACQUIRE);
		attach(attacher_fd);
	}

	return NULL;
}

/*
 * One thread attaches while another attaches and detaches again: the event belongs
 * to one of them in the end, and both can still walk the list of their events.
 */
TEST_F(race, two_owners)
{
	__u64 end = now_ns() + TIME;
	pthread_t thread;

	attacher_fd = self->fd;
	attacher_round = 0;
	ASSERT_EQ(0, pthread_create(&thread, NULL, attacher, NULL));
	pin(1);
	while (now_ns() < end) {
		detach(self->fd);
		attach(self->fd);
		ASSERT_EQ(0, prctl(PR_TASK_PERF_EVENTS_DISABLE));
		ASSERT_EQ(0, prctl(PR_TASK_PERF_EVENTS_ENABLE));
	}
	__atomic_store_n(&attacher_round, -1, __ATOMIC_RELEASE);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	attach(self->fd);
	close(self->fd);
	EXPECT_EQ(0, prctl(PR_TASK_PERF_EVENTS_DISABLE));
	EXPECT_EQ(0, registry_count("ids"));
}

FIXTURE(mapped)
{
	struct registry		registry;
};

/* A user who may lock a few buffers, within perf_event_mlock_kb and RLIMIT_MEMLOCK */
FIXTURE_SETUP(mapped)
{
	const size_t size = (PAGES + 1) * getpagesize();
	const struct rlimit memlock = { 2 * size, 2 * size };

	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(PARANOID, 2));
	ASSERT_EQ(0, set_sysctl(MLOCK_KB, size / 1024));
	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &memlock));
	ASSERT_EQ(0, become(USER));
}

FIXTURE_TEARDOWN_PARENT(mapped)
{
	registry_teardown(_metadata, &self->registry);
}

static int open_own(void)
{
	struct perf_event_attr attr = sampling_attr(CLOCK);

	attr.exclude_kernel = 1;
	return event_open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* The number of buffers that I may have, mapped or detached, or an error */
static int most_buffers(bool detached)
{
	struct ring r[BUFFERS];
	int fd[BUFFERS], n, i, err = 0;

	for (n = 0; n < BUFFERS && err >= 0; n++) {
		fd[n] = open_own();
		err = detached ? DETACH(fd[n], .buffer_pages = PAGES) :
				 ring_map(&r[n], fd[n], PAGES, PROT_READ | PROT_WRITE);
	}
	for (i = 0; i < n; i++) {
		if (!detached && i < n - 1)
			ring_unmap(&r[i]);
		attach(fd[i]);
		close(fd[i]);
	}

	return err == -EPERM ? n - 1 : err;
}

static int mapped_fd;
static bool mappers_end;

static void let_map(int fd)
{
	__atomic_store_n(&mapped_fd, fd, __ATOMIC_RELEASE);
}

/* Map and unmap whatever there is; returns the number of successes */
static void *mapper(void *prot)
{
	struct ring r;
	long n = 0;

	while (!__atomic_load_n(&mappers_end, __ATOMIC_ACQUIRE)) {
		if (ring_map(&r, __atomic_load_n(&mapped_fd, __ATOMIC_ACQUIRE), PAGES, (long)prot))
			continue;
		ring_unmap(&r);
		n++;
	}

	return (void *)n;
}

/* The memory of a buffer mapped during DETACH, ATTACH and close is given back. */
TEST_F(mapped, given_back)
{
	int detached = most_buffers(true), mapped = most_buffers(false), i, fd, id;
	unsigned int round, both = 0;
	__u64 end = now_ns() + TIME;
	pthread_t threads[MAPPERS];
	void *n;

	ASSERT_LT(0, detached);
	ASSERT_LT(0, mapped);
	mappers_end = false;
	let_map(-1);
	for (i = 0; i < MAPPERS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, mapper, (void *)(long)
					    (i ? PROT_READ | PROT_WRITE : PROT_READ)));

	for (round = 0; now_ns() < end; round++) {
		fd = open_own();
		ASSERT_LE(0, fd);
		/* Map before DETACH in some rounds only: two writable mappings make it fail. */
		if (round % 4 == 0)
			let_map(fd);
		id = DETACH(fd, .buffer_pages = PAGES);
		if (id > 0) {
			let_map(fd);
			for (i = 0; i < round % 8; i++)
				sched_yield();
			EXPECT_EQ(0, attach(fd));
			both++;
		}
		for (i = 0; i < round % 3; i++)
			sched_yield();
		close(fd);
		let_map(-1);
	}

	__atomic_store_n(&mappers_end, true, __ATOMIC_RELEASE);
	for (i = 0; i < MAPPERS; i++) {
		ASSERT_EQ(0, pthread_join(threads[i], &n));
		EXPECT_LT(0, (long)n);
	}
	EXPECT_LT(0, both);
	EXPECT_EQ(detached, most_buffers(true));
	EXPECT_EQ(mapped, most_buffers(false));
}

TEST_HARNESS_MAIN
