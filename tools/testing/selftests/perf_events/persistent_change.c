// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: a session is changed while its events are counting.
 */
#include "persistent_task.h"

/* A system call that nobody else makes, with a field that the test chooses */
#define GETSID_ID	"/sys/kernel/tracing/events/syscalls/sys_enter_getsid/id"
#define EXPEDITED	"/sys/kernel/rcu_expedited"
#define CPUS		64
#define PAGES		512
#define STACK		32768
#define N		100
#define SEC		1000000000ULL
#define NEVER		(1ULL << 62)

/*
 * As many rounds as fit into the time, since debug kernels are slow, but at least some;
 * all if PERSISTENT_STRESS_SECONDS is LONG or more.
 */
#define ROUNDS		10000
#define SOME_ROUNDS	100
#define TIME		SEC
#define LONG		60

/*
 * After a new period, perf applies the old one to the first event, which is sampled
 * twice if the old one was 1, and once more to the second event.
 */
#define SAMPLES_OF_OLD_PERIOD	3

/* The record of the tracepoint */
struct sys_enter {
	__u64		common;
	int		nr;
	unsigned long	arg;
};

/* A CPU, with its buffer head and turn when SET returned */
struct hammered {
	int		cpu;
	int		fd;
	struct ring	ring;
	__u64		head;
	unsigned long	turn;
};

FIXTURE(hammer)
{
	struct registry		registry;
	struct hammered		cpus[CPUS];
	unsigned long		*turns;
	long long		expedited;
	int			nr_cpus;
	int			id;
	int			view;
};

/*
 * Two settings in turn, and the calls that each excludes, as bits: the calls have 1 and 2 as
 * their arguments.
 */

FIXTURE_VARIANT(hammer)
{
	__u32			flags[2];
	const char		*filter[2];
	__u64			period[2];
	unsigned long		excluded[2];
	unsigned int		first;
};

FIXTURE_VARIANT_ADD(hammer, filter) {
	.flags		= { PERF_PERSISTENT_SET_FILTER, PERF_PERSISTENT_SET_FILTER },
	.filter		= { "pid == 1", "pid == 2" },
	.excluded	= { 2, 1 },
};

FIXTURE_VARIANT_ADD(hammer, period) {
	.flags		= { PERF_PERSISTENT_SET_PERIOD, PERF_PERSISTENT_SET_PERIOD },
	.period		= { NEVER, 1 },
	.excluded	= { 1 | 2, 0 },
	.first		= SAMPLES_OF_OLD_PERIOD,
};

FIXTURE_VARIANT_ADD(hammer, disable) {
	.flags		= { PERF_PERSISTENT_SET_DISABLE, PERF_PERSISTENT_SET_ENABLE },
	.excluded	= { 1 | 2, 0 },
};

static struct perf_event_attr getsid_attr(void)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);

	attr.config = read_number(GETSID_ID);
	/* A record that takes long to write is more often late. */
	attr.sample_type = PERF_SAMPLE_RAW | PERF_SAMPLE_STACK_USER;
	attr.sample_stack_user = STACK;

	return attr;
}

static void hammer(int cpu, unsigned long *turn)
{
	char stack[STACK];

	/* The stack is copied into each record. */
	explicit_bzero(stack, sizeof(stack));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Let neither the test nor its grace periods wait for this. */
	sched_setscheduler(0, SCHED_IDLE, &(struct sched_param) {});
	pin(cpu);
	for (;;) {
		syscall(__NR_getsid, 1);
		syscall(__NR_getsid, 2);
		__atomic_add_fetch(turn, 1, __ATOMIC_RELEASE);
	}
}

/* All CPUs are hammered, also the first one, on which the test runs. */
FIXTURE_SETUP(hammer)
{
	struct perf_event_attr attr = getsid_attr();
	struct hammered *c;
	cpu_set_t online;
	int cpu;
	pid_t pid;

	registry_setup(_metadata, &self->registry);
	/* Normal grace periods would take nearly all of the time. */
	self->expedited = read_number(EXPEDITED);
	write_number(EXPEDITED, 1);

	self->turns = mmap(NULL, CPUS * sizeof(*self->turns), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_EQ(0, sched_getaffinity(0, sizeof(online), &online));
	for (cpu = 0; cpu < CPUS; cpu++) {
		if (!CPU_ISSET(cpu, &online))
			continue;
		c = &self->cpus[self->nr_cpus++];
		c->cpu = cpu;
		c->fd = event_open(&attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
		self->id = DETACH(c->fd, .id = self->id, .buffer_pages = PAGES);
		ASSERT_LT(0, self->id);
		ASSERT_EQ(0, ring_map(&c->ring, c->fd, PAGES, PROT_READ | PROT_WRITE));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			hammer(cpu, &self->turns[cpu]);
	}
	if (self->nr_cpus < 2)
		SKIP(return, "the only CPU is the one that the test is on");
	pin(self->cpus[0].cpu);
	self->view = reopen_instance(self->id, 0);
	ASSERT_LE(0, self->view);
}

FIXTURE_TEARDOWN_PARENT(hammer)
{
	write_number(EXPEDITED, self->expedited);
	registry_teardown(_metadata, &self->registry);
}

/* The argument of the call in the record at @pos; the buffer may wrap */
static unsigned long arg_at(struct ring *r, __u64 pos)
{
	unsigned long arg;
	char *to = (char *)&arg;
	int i;

	pos += sizeof(struct perf_event_header) + sizeof(__u32) + offsetof(struct sys_enter, arg);
	for (i = 0; i < sizeof(arg); i++)
		to[i] = r->data[(pos + i) & (r->size - 1)];

	return arg;
}

/* The number of these calls recorded since SET returned */
static unsigned int recorded(struct hammered *c, unsigned long calls)
{
	__u64 pos = c->head, end = ring_head(&c->ring);
	struct perf_event_header *header;
	unsigned int n = 0;

	for (; pos < end; pos += header->size) {
		header = (void *)&c->ring.data[pos & (c->ring.size - 1)];
		n += header->type == PERF_RECORD_SAMPLE && arg_at(&c->ring, pos) & calls;
	}

	return n;
}

static unsigned long turn_of(struct hammered *c, unsigned long *turns)
{
	return __atomic_load_n(&turns[c->cpu], __ATOMIC_ACQUIRE);
}

/* Start here, with room in the buffers, so that a missing record was not dropped */
static void settle(struct hammered *cpus, int nr_cpus, unsigned long *turns)
{
	struct hammered *c;

	for (c = &cpus[nr_cpus - 1]; c >= cpus; c--) {
		c->head = ring_head(&c->ring);
		c->ring.page->data_tail = c->head;
		c->turn = turn_of(c, turns);
	}
}

/* Wait for two turns of each CPU but the test's own, without yielding that */
static bool all_went_on(struct hammered *cpus, int nr_cpus, unsigned long *turns)
{
	__u64 end = now_ns() + PATIENCE_MS * 1000000ULL;
	int i;

	for (i = 1; i < nr_cpus; i++) {
		while (turn_of(&cpus[i], turns) < cpus[i].turn + 2) {
			if (now_ns() > end)
				return false;
		}
	}

	return true;
}

/* When SET returns, no event that the new setting excludes is recorded any more. */
TEST_F_TIMEOUT(hammer, nothing_is_late, 24 * 60 * 60)
{
	const char *seconds = getenv("PERSISTENT_STRESS_SECONDS");
	int least = seconds && atoi(seconds) >= LONG ? ROUNDS : SOME_ROUNDS;
	__u64 end = now_ns() + TIME;
	int i, rounds = 0, which = 0;

	for (; rounds < least || (rounds < ROUNDS && now_ns() < end); which = !which) {
		settle(self->cpus, self->nr_cpus, self->turns);
		ASSERT_EQ(0, SET(self->view, .flags = variant->flags[which],
				 .filter = addr(variant->filter[which]),
				 .period = variant->period[which]));
		settle(self->cpus, self->nr_cpus, self->turns);
		ASSERT_TRUE(all_went_on(self->cpus, self->nr_cpus, self->turns));
		for (i = 0; i < self->nr_cpus; i++) {
			ASSERT_GE(variant->first,
				  recorded(&self->cpus[i], variant->excluded[which])) {
				TH_LOG("CPU %d, round %d", self->cpus[i].cpu, rounds);
			}
		}
		for (i = 1; variant->excluded[which] != (1 | 2) && i < self->nr_cpus; i++)
			ASSERT_LT(0, recorded(&self->cpus[i], 1 | 2));
		rounds += !!variant->excluded[which];
	}
	TH_LOG("%d rounds", rounds);
}

#define MEMBERS		8
#define TIMES		21

FIXTURE(waits)
{
	struct registry		registry;
	long long		expedited;
	int			fds[MEMBERS];
	long long		enable[TIMES];
	long long		disable[TIMES];
};

/* A session of several instances on each CPU, with slow grace periods */
FIXTURE_SETUP(waits)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), id = 0, i;

	registry_setup(_metadata, &self->registry);
	self->expedited = read_number(EXPEDITED);
	if (cpus < 2)
		SKIP(return, "a single CPU may have no grace periods to wait for");
	ASSERT_EQ(0, write_number(EXPEDITED, 0));
	for (i = 0; i < MEMBERS; i++) {
		self->fds[i] = event_open(&attr, -1, i % cpus, -1, PERF_FLAG_FD_CLOEXEC);
		id = DETACH(self->fds[i], .id = id, .member = i, .buffer_pages = 1);
		ASSERT_LT(0, id);
	}
}

FIXTURE_TEARDOWN_PARENT(waits)
{
	write_number(EXPEDITED, self->expedited);
	registry_teardown(_metadata, &self->registry);
}

static int compare(const void *a, const void *b)
{
	long long x = *(const long long *)a, y = *(const long long *)b;

	return (x > y) - (x < y);
}

static long long median(long long *values)
{
	qsort(values, TIMES, sizeof(*values), compare);

	return values[TIMES / 2];
}

/* How often the caller sleeps while a session is enabled or disabled, or a negative error */
static long long sleeps_of_set(int fd, __u32 flags)
{
	struct rusage before, after;
	int ret;

	getrusage(RUSAGE_THREAD, &before);
	ret = SET(fd, .flags = flags);
	getrusage(RUSAGE_THREAD, &after);
	return ret ?: after.ru_nvcsw - before.ru_nvcsw;
}

/* Enabling does not sleep; disabling does, as it waits for a grace period. */
TEST_F(waits, enable)
{
	int i;

	for (i = 0; i < TIMES; i++) {
		self->disable[i] = sleeps_of_set(self->fds[0], PERF_PERSISTENT_SET_DISABLE);
		ASSERT_LE(0, self->disable[i]);
		self->enable[i] = sleeps_of_set(self->fds[0], PERF_PERSISTENT_SET_ENABLE);
		ASSERT_LE(0, self->enable[i]);
	}
	EXPECT_LT(0, median(self->disable));
	EXPECT_EQ(0, median(self->enable));
}

FIXTURE(change)
{
	struct registry		registry;
	struct target		target;
	struct ring		ring;
	int			id;
	int			view;
};

FIXTURE_SETUP(change)
{
	registry_setup(_metadata, &self->registry);
	pin(0);
	self->target = target_start(PROCESS);
	ASSERT_LT(0, self->target.tid);
}

FIXTURE_TEARDOWN_PARENT(change)
{
	registry_teardown(_metadata, &self->registry);
}

/* An event of the target and its children on the CPU, with a mapped buffer */
#define SET_UP(event_attr) do {								\
	struct perf_event_attr _attr = event_attr;					\
											\
	_attr.inherit = 1;								\
	self->id = target_detach(&self->target, PROCESS, &_attr, 0,			\
				 (struct perf_event_detach) { .buffer_pages = PAGES });	\
	ASSERT_LT(0, self->id);								\
	self->view = reopen(self->id);							\
	ASSERT_LE(0, self->view);							\
	ASSERT_EQ(0, ring_map(&self->ring, self->view, PAGES, PROT_READ | PROT_WRITE));	\
} while (0)

/* The number of samples while a task triggers @n events */
static unsigned int samples_by(struct ring *r, int sock, unsigned int n)
{
	r->page->data_tail = ring_head(r);
	ORDER(sock, DRIVE, .event = TRACEPOINT, .value = n);

	return ring_samples(r);
}

/* Tasks may swap their events, which are at different points of their periods. */
#define EXPECT_A_TENTH(n, samples) do {			\
	unsigned int _samples = samples;		\
							\
	EXPECT_GE((n) / 10 + 1, _samples);		\
	EXPECT_LE((n) / 10 - 1, _samples);		\
} while (0)

/* A new period applies to the task, its children and its future children. */
TEST_F(change, period_of_children)
{
	SET_UP(sampling_attr(TRACEPOINT));
	ASSERT_LT(0, ORDER(self->target.sock, SPAWN));
	EXPECT_EQ(N, samples_by(&self->ring, self->target.child, N));
	ASSERT_EQ(0, session_period(self->view, 10));
	samples_by(&self->ring, self->target.sock, 10);
	samples_by(&self->ring, self->target.child, 10);
	EXPECT_A_TENTH(N, samples_by(&self->ring, self->target.sock, N));
	EXPECT_A_TENTH(N, samples_by(&self->ring, self->target.child, N));

	self->ring.page->data_tail = ring_head(&self->ring);
	ASSERT_LT(0, ORDER(self->target.sock, FORK, .event = TRACEPOINT, .value = 10 * N));
	EXPECT_A_TENTH(10 * N, ring_samples(&self->ring));
}

/* The same when the task itself has exited. */
TEST_F(change, period_of_orphans)
{
	SET_UP(sampling_attr(TRACEPOINT));
	ASSERT_LT(0, ORDER(self->target.sock, SPAWN));
	ASSERT_TRUE(target_end(&self->target));
	ASSERT_EQ(0, session_period(self->view, 10));
	samples_by(&self->ring, self->target.child, 10);
	EXPECT_EQ(N / 10, samples_by(&self->ring, self->target.child, N));
}

/* A child that is being forked gets the new period, too: it does not sample every call. */
TEST_F(change, period_of_newborns)
{
	unsigned long *turns = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct hammered family = {};
	__u64 end = now_ns() + 5 * SEC;
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	pid_t child = fork();
	int fd;

	ASSERT_LE(0, child);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(HOT_CPU);
		for (;; __atomic_add_fetch(turns, 1, __ATOMIC_RELEASE)) {
			child = fork();
			drive(TRACEPOINT, N);
			if (!child)
				_exit(0);
			waitpid(child, NULL, 0);
		}
	}
	attr.inherit = 1;
	family.fd = event_open(&attr, child, HOT_CPU, -1, 0);
	self->id = DETACH(family.fd, .buffer_pages = PAGES);
	ASSERT_LT(0, self->id);
	ASSERT_EQ(0, ring_map(&family.ring, family.fd, PAGES, PROT_READ | PROT_WRITE));
	fd = reopen(self->id);
	while (now_ns() < end) {
		ASSERT_EQ(0, session_period(fd, 1));
		settle(&family, 1, turns);
		ASSERT_TRUE(eventually(turn_of(&family, turns) > family.turn));
		ASSERT_EQ(0, session_period(fd, NEVER));
		settle(&family, 1, turns);
		ASSERT_TRUE(eventually(turn_of(&family, turns) > family.turn + 1));
		/* For each task that existed when the period was set */
		ASSERT_GE(2 * SAMPLES_OF_OLD_PERIOD, ring_samples(&family.ring));
	}
}

/* An event opened with a frequency gets a new one, also a clock, whose frequency became ns. */
TEST_F(change, frequency_of_a_clock)
{
	struct perf_event_attr attr = sampling_attr(CLOCK);
	__u64 most = read_number("/proc/sys/kernel/perf_event_max_sample_rate"), start;

	attr.freq = 1;
	attr.sample_freq = 1;
	SET_UP(attr);
	EXPECT_EQ(-EINVAL, session_period(self->view, 0));
	EXPECT_EQ(-EINVAL, session_period(self->view, most + 1));
	EXPECT_EQ(-EINVAL, session_period(self->view, 2 * SEC));
	ASSERT_EQ(0, session_period(self->view, 500));
	start = now_ns();
	while (ring_samples(&self->ring) < 20)
		ASSERT_EQ(0, ORDER(self->target.sock, DRIVE, .event = CLOCK, .value = 1));
	EXPECT_LT(start + 19 * SEC / 500, now_ns());
}

/* Dead tasks cannot get a period; disabling them is no error. */
TEST_F(change, dead)
{
	static const __u32 flags[] = {
		PERF_PERSISTENT_SET_ENABLE, PERF_PERSISTENT_SET_PERIOD, PERF_PERSISTENT_SET_FILTER,
	};
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	struct target other = target_start(PROCESS);
	int i, of_other;

	SET_UP(attr);
	of_other = event_open(&attr, other.tid, 0, -1, 0);
	ASSERT_EQ(self->id, DETACH(of_other, .id = self->id, .member = 1, .buffer_pages = 1));
	ASSERT_TRUE(target_end(&self->target));
	for (i = 0; i < ARRAY_LEN(flags); i++) {
		EXPECT_EQ(-EALREADY, SET(self->view, .flags = flags[i], .period = 2,
					 .filter = addr(""), .member = 1));
		EXPECT_EQ(0, SET(self->view, .flags = flags[i], .period = 2, .filter = addr("")));
	}
	EXPECT_EQ(-EALREADY, SET(self->view, .name = addr("other"), .member = 1,
				 .flags = PERF_PERSISTENT_SET_ENABLE | PERF_PERSISTENT_SET_NAME));
	EXPECT_EQ(0, access(REGISTRY "/events/other", F_OK) ? 0 : -EEXIST);
	EXPECT_EQ(0, session_disable(self->view));
	ASSERT_TRUE(target_end(&other));
	EXPECT_EQ(-EALREADY, session_enable(self->view));
	EXPECT_EQ(-EALREADY, session_period(self->view, 2));
	EXPECT_EQ(0, session_disable(self->view));
	EXPECT_EQ(0, hold(self->view));
}

/* Each ioctl on a session that has ended fails, though I have it open. */
TEST_F(change, ended)
{
	static const __u32 flags[] = {
		PERF_PERSISTENT_SET_ENABLE, PERF_PERSISTENT_SET_DISABLE,
		PERF_PERSISTENT_SET_PERIOD, PERF_PERSISTENT_SET_FILTER,
		PERF_PERSISTENT_SET_HOLD, PERF_PERSISTENT_SET_MODE, PERF_PERSISTENT_SET_TTL,
	};
	int i;

	SET_UP(sampling_attr(TRACEPOINT));
	ASSERT_EQ(0, SET(self->view, .flags = PERF_PERSISTENT_SET_TTL, .ttl = 1));
	ASSERT_TRUE(eventually(!registry_has(self->id)));
	for (i = 0; i < ARRAY_LEN(flags); i++)
		EXPECT_EQ(-ESRCH, SET(self->view, .flags = flags[i], .period = 2,
				      .filter = addr("")));
}

TEST_HARNESS_MAIN
