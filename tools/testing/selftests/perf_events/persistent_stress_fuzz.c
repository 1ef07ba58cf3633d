// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: random requests of several users, valid or not, while a
 * CPU comes and goes, break nothing and leave nothing behind.
 *
 * PERSISTENT_STRESS_SECONDS is the duration, 5 if not set. The log has the seed of
 * the random numbers, which PERSISTENT_STRESS_SEED sets.
 */
#include <linux/hw_breakpoint.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>

#include "persistent_rights.h"

#define WORKERS		6
#define SLOTS		16
#define MAPS		4
#define IDS		64
#define MANY		200
#define SEC		1000000000ULL
#define CHILDREN	2
#define PERSISTENT_ID	"/sys/kernel/tracing/events/perf_persistent/persistent_%s/id"

/* Shared by all workers: ids of sessions that somebody made */
static struct known {
	int			ids[IDS];
} *known;

static unsigned int seed;
static int fds[SLOTS];
static struct ring maps[MAPS];
static __u64 tracepoints[6];

static unsigned int any(unsigned int n)
{
	return rand_r(&seed) % n;
}

static bool one_in(unsigned int n)
{
	return !any(n);
}

/* Mostly small, sometimes any value */
static __u64 any_value(void)
{
	static const __u64 odd[] = { 0, 1, -1ULL, 1ULL << 31, 1ULL << 32, 1ULL << 63, INT_MAX };

	return one_in(3) ? odd[any(ARRAY_LEN(odd))] : any(1000);
}

static const void *any_address(const void *good)
{
	static const unsigned long bad[] = { 0, 1, 4096, -1UL, -4096UL };

	return one_in(20) ? (const void *)bad[any(ARRAY_LEN(bad))] : good;
}

static int any_fd(void)
{
	return one_in(50) ? (int)any_value() : fds[any(SLOTS)];
}

static int any_id(void)
{
	return one_in(10) ? (int)any_value() : known->ids[any(IDS)];
}

static void keep(int fd)
{
	unsigned int slot = any(SLOTS);

	if (fd < 0)
		return;
	if (fds[slot] >= 0)
		close(fds[slot]);
	fds[slot] = fd;
}

static struct perf_event_attr any_attr(void)
{
	static int watched;
	struct perf_event_attr attr = { .size = sizeof(attr) };

	switch (any(5)) {
	case 0:
		attr.type = PERF_TYPE_TRACEPOINT;
		attr.config = tracepoints[any(ARRAY_LEN(tracepoints))];
		break;
	case 1:
		attr.type = PERF_TYPE_BREAKPOINT;
		attr.bp_type = HW_BREAKPOINT_W;
		attr.bp_addr = addr(&watched);
		attr.bp_len = sizeof(watched);
		break;
	case 2:
		attr.type = PERF_TYPE_HARDWARE;
		attr.config = any(2);
		break;
	default:
		attr.type = PERF_TYPE_SOFTWARE;
		attr.config = any(PERF_COUNT_SW_MAX);
	}
	attr.disabled = any(2);
	attr.inherit = one_in(3);
	attr.pinned = one_in(5);
	attr.exclude_kernel = any(2);
	attr.write_backward = any(2);
	attr.persistent = one_in(8);
	attr.enable_on_exec = one_in(5);
	attr.remove_on_exec = one_in(20);
	attr.comm = one_in(4);
	attr.read_format = one_in(3) ? any(PERF_FORMAT_MAX) : 0;
	if (any(2)) {
		attr.sample_period = attr.type == PERF_TYPE_TRACEPOINT ? 1 + any(10) : 100000;
		attr.sample_type = PERF_SAMPLE_IDENTIFIER | (one_in(4) ? PERF_SAMPLE_READ : 0) |
				   (one_in(4) ? PERF_SAMPLE_RAW : 0);
		attr.wakeup_events = any(3);
	}

	return attr;
}

static void open_one(void)
{
	static const unsigned long flags[] = {
		0, PERF_FLAG_FD_CLOEXEC, PERF_FLAG_OFFLINE_CPU, PERF_FLAG_FD_OUTPUT,
		PERF_FLAG_FD_NO_GROUP,
	};
	struct perf_event_attr attr = any_attr();
	int pid = any(2) ? 0 : one_in(3) ? getppid() : -1, cpu = (int)any(3) - 1;
	int group = one_in(3) ? any_fd() : -1;

	keep(event_open(&attr, pid, cpu, group, flags[any(ARRAY_LEN(flags))]));
}

static void reopen_one(void)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_PERSISTENT,
		.size		= sizeof(attr),
		.config		= any_id(),
		.read_format	= any(PERF_FORMAT_MAX),
		.disabled	= any(2),
	};

	if (any(2))
		attr.config |= (1ULL + any(6)) << PERF_PERSISTENT_INSTANCE_SHIFT;
	if (one_in(8))
		attr.config |= PERF_PERSISTENT_SESSION;
	if (one_in(10))
		attr.sample_type = any_value();
	keep(event_open(&attr, one_in(8) ? 0 : -1, one_in(8) ? (int)any(2) : -1, -1, 0));
}

static void detach_one(void)
{
	static const char * const names[] = { "a", "b", "fuzz", "Not a name", "" };
	struct perf_event_detach d = {
		.flags		= one_in(4) ? any(4) : 0,
		.id		= any(2) ? any_id() : 0,
		.member		= any(4),
		.buffer_pages	= one_in(10) ? any_value() : any(5),
	};
	int id;

	if (!d.id && one_in(3))
		d.name = addr(any_address(names[any(ARRAY_LEN(names))]));
	if (one_in(4))
		d.label = addr(any_address("label"));
	if (!d.id)
		d.ttl = one_in(10) ? any_value() : 1 + any(200) * 1000000ULL;
	id = event_ioctl(any_fd(), PERF_EVENT_IOC_DETACH, one_in(4) ? NULL : any_address(&d));
	if (id > 0)
		known->ids[any(IDS)] = id;
}

static void set_one(void)
{
	static const char * const filters[] = {
		"", "common_pid > 100", "__syscall_nr > 0", "id > 0 && member < 3",
		"text ~ \"*a*\"", "nosuch == 1", "(common_pid", " ",
	};
	static const char * const marks[] = { "a", "a longer mark", "" };
	struct perf_persistent_set set = {
		.flags	= 1U << any(13) | (one_in(4) ? 1U << any(15) : 0),
		.member	= any(5),
		.name	= addr(any_address("renamed")),
		.ttl	= one_in(10) ? any_value() : 1 + any(500) * 1000000ULL,
		.period	= any_value(),
		.uid	= any(2) ? USER : 0,
		.gid	= any(2) ? GROUP : 0,
		.mode	= any(0777),
		.filter	= addr(any_address(filters[any(ARRAY_LEN(filters))])),
		.mark	= addr(any_address(marks[any(ARRAY_LEN(marks))])),
	};

	event_ioctl(any_fd(), PERF_EVENT_IOC_SET_PERSISTENT, any_address(&set));
}

static void query_one(void)
{
	struct answer a = {};

	a.info.attr = addr(any_address(&a.attr));
	a.info.attr_size = any(2) ? sizeof(a.attr) : any(8);
	a.info.label = addr(any_address(a.label));
	a.info.label_size = any(sizeof(a.label));
	a.info.instances = addr(any_address(a.instances));
	a.info.nr_instances = any(ARRAY_LEN(a.instances));
	event_ioctl(any_fd(), PERF_EVENT_IOC_QUERY_PERSISTENT, any_address(&a.info));
}

static void control_one(void)
{
	static const unsigned int commands[] = {
		PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_DISABLE, PERF_EVENT_IOC_RESET,
		PERF_EVENT_IOC_REFRESH, PERF_EVENT_IOC_SET_OUTPUT, PERF_EVENT_IOC_PAUSE_OUTPUT,
		PERF_EVENT_IOC_ATTACH,
	};
	unsigned int command = commands[any(ARRAY_LEN(commands))];
	__u64 value = any_value();

	if (one_in(6)) {
		event_ioctl(any_fd(), PERF_EVENT_IOC_PERIOD, &value);
		return;
	}
	if (command == PERF_EVENT_IOC_SET_OUTPUT)
		ioctl(any_fd(), command, one_in(5) ? -1 : any_fd());
	else
		ioctl(any_fd(), command, command == PERF_EVENT_IOC_ATTACH ? 0 : any(2));
}

static void map_one(void)
{
	struct ring *r = &maps[any(MAPS)];

	if (r->page) {
		if (any(2))
			ring_protect(r, any(4));
		else if (!ring_unmap(r))
			r->page = NULL;
		return;
	}
	if (ring_map(r, any_fd(), any(5), any(2) ? PROT_READ : PROT_READ | PROT_WRITE))
		r->page = NULL;
}

static void use_one(void)
{
	__u64 values[64];
	struct pollfd p = { .fd = any_fd(), .events = POLLIN };
	int slot = any(SLOTS);

	switch (any(5)) {
	case 0:
		read(p.fd, values, sizeof(values));
		break;
	case 1:
		poll(&p, 1, 0);
		break;
	case 2:
		close(fds[slot]);
		fds[slot] = -1;
		break;
	case 3:
		prctl(any(2) ? PR_TASK_PERF_EVENTS_DISABLE : PR_TASK_PERF_EVENTS_ENABLE);
		break;
	default:
		drive(TRACEPOINT, any(20));
	}
}

/* Fork a child with all files, which does the same for a moment */
static void breed(int left);

static void do_one(int left)
{
	static void (* const doings[])(void) = {
		open_one, open_one, reopen_one, reopen_one, detach_one, detach_one, set_one,
		query_one, control_one, control_one, map_one, use_one, use_one,
	};

	if (left && one_in(200))
		breed(left);
	else
		doings[any(ARRAY_LEN(doings))]();
}

static void breed(int left)
{
	pid_t child = fork();
	int i;

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		seed += getpid();
		for (i = 0; i < 100; i++)
			do_one(left - 1);
		_exit(0);
	}
	if (child > 0 && any(2))
		kill(child, SIGKILL);
	while (child > 0 && waitpid(child, NULL, 0) != child)
		;
}

static void worker(int nr)
{
	int i;

	seed += nr;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Root, two users, and root without its capabilities; some have inherited files. */
	if (nr % 4 == 1)
		become_in(USER, GROUP, GROUP);
	if (nr % 4 == 2)
		become_in(OTHER, GROUP, GROUP);
	if (nr % 4 == 3)
		become_powerless();
	for (i = nr % 2 ? SLOTS / 2 : 0; i < SLOTS; i++)
		fds[i] = -1;
	for (;;)
		do_one(CHILDREN);
}

#define SAMPLE_RATE	"/proc/sys/kernel/perf_event_max_sample_rate"
#define SAMPLE_TIME	"/proc/sys/kernel/perf_cpu_time_max_percent"

FIXTURE(fuzz)
{
	struct registry		registry;
	long long		rate;
};

/* The kernel accepts a rate only if it may lower the rate by itself. */
static int set_sample_rate(long long rate)
{
	long long percent = read_number(SAMPLE_TIME);

	return write_number(SAMPLE_TIME, 25) ?: write_number(SAMPLE_RATE, rate) ?:
	       write_number(SAMPLE_TIME, percent);
}

/* Counters that overflow all the time would keep an emulated CPU busy. */
FIXTURE_SETUP(fuzz)
{
	registry_setup(_metadata, &self->registry);
	self->rate = read_number(SAMPLE_RATE);
	ASSERT_EQ(0, set_sample_rate(1000));
}

FIXTURE_TEARDOWN_PARENT(fuzz)
{
	ASSERT_EQ(0, set_sample_rate(self->rate));
	hot_teardown(_metadata, &self->registry);
}

/* Random requests break nothing and leave nothing behind. */
TEST_F_TIMEOUT(fuzz, anything, 24 * 60 * 60)
{
	const char *seconds = getenv("PERSISTENT_STRESS_SECONDS");
	const char *given = getenv("PERSISTENT_STRESS_SEED");
	__u64 end = now_ns() + (seconds ? atoi(seconds) : 5) * SEC;
	static const char * const names[] = { "offline", "online", "set", "mark", "detach" };
	pid_t workers[WORKERS];
	bool online = true;
	char path[128];
	int i;

	seed = given ? strtoul(given, NULL, 0) : now_ns();
	TH_LOG("seed %u", seed);
	ASSERT_EQ(0, set_sysctl(PARANOID, 0));
	tracepoints[0] = read_number(TRACEPOINT_ID);
	for (i = 1; i < ARRAY_LEN(tracepoints); i++) {
		snprintf(path, sizeof(path), PERSISTENT_ID, names[i - 1]);
		tracepoints[i] = read_number(path);
	}
	known = mmap(NULL, sizeof(*known), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	ASSERT_NE(MAP_FAILED, known);
	for (i = 0; i < SLOTS; i++) {
		fds[i] = -1;
		open_one();
	}
	for (i = 0; i < WORKERS; i++) {
		workers[i] = fork();
		ASSERT_LE(0, workers[i]);
		if (!workers[i])
			worker(i);
	}

	while (now_ns() < end) {
		online = !online;
		EXPECT_EQ(0, set_online(online));
		poll(NULL, 0, 1 + any(50));
		/* Root's sessions may have no end, and buffers that fill the memory. */
		if (registry_count("ids") > MANY)
			stop_all();
	}

	for (i = 0; i < WORKERS; i++) {
		EXPECT_EQ(0, kill(workers[i], SIGKILL));
		EXPECT_EQ(workers[i], waitpid(workers[i], NULL, 0));
	}
}

TEST_HARNESS_MAIN
