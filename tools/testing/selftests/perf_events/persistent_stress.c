// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: all operations against each other, by several users
 * on all CPUs, some of them killed, while one of the CPUs comes and goes; in
 * the end nothing is left.
 *
 * PERSISTENT_STRESS_SECONDS is the duration, 5 if not set.
 */
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>

#include "persistent.h"

#define WORKERS	6
#define SLOTS	8
#define SEC	1000000000ULL

struct slot {
	int		fd;
	struct ring	ring;
	bool		mapped;
};

static struct slot slots[SLOTS];
static pid_t workers[WORKERS];

static unsigned int below(unsigned int n)
{
	return random() % n;
}

/* An event that counts here; hardware events are cycles or none */
static enum event any_event(void)
{
	static int nr;

	nr = nr ?: CYCLES + has_event(CYCLES);

	return below(nr);
}

static struct slot *any_slot(void)
{
	return &slots[below(SLOTS)];
}

static int any_cpu(void)
{
	return below(sysconf(_SC_NPROCESSORS_CONF));
}

/* The id of a session, or an unused one */
static int any_id(void)
{
	DIR *d = opendir(REGISTRY "/ids");
	unsigned int skip = below(32) + 2;
	struct dirent *entry;
	int id = 1;

	while (d && skip-- && (entry = readdir(d)))
		id = atoi(entry->d_name);
	if (d)
		closedir(d);

	return id;
}

static void unmap_slot(void)
{
	struct slot *s = any_slot();

	if (s->mapped)
		ring_unmap(&s->ring);
	s->mapped = false;
}

static void map_slot(void)
{
	struct slot *s = any_slot();
	struct answer a = {};
	unsigned int pages;

	if (s->mapped)
		return;
	query(s->fd, &a);
	pages = a.info.buffer_pages ?: 1U << below(3);
	s->mapped = !ring_map(&s->ring, s->fd, pages, PROT_READ | (below(2) ? PROT_WRITE : 0));
}

static void fill_slot(struct slot *s, int fd)
{
	if (s->mapped)
		ring_unmap(&s->ring);
	s->mapped = false;
	close(s->fd);
	s->fd = fd;
}

static void open_slot(void)
{
	enum event event = any_event();
	struct perf_event_attr attr = below(4) ? sampling_attr(event) : event_attr(event);
	int leader = below(4) ? -1 : any_slot()->fd;

	attr.write_backward = below(2);
	attr.persistent = !below(4);
	attr.pinned = !below(8);
	fill_slot(any_slot(), event_open(&attr, -1, any_cpu(), leader, PERF_FLAG_FD_CLOEXEC));
}

/* An event of my own task or another's, with its children or without */
static void open_task(void)
{
	enum event event = any_event();
	struct perf_event_attr attr = below(2) ? sampling_attr(event) : event_attr(event);
	int leader = below(4) ? -1 : any_slot()->fd;

	attr.inherit = below(2);
	attr.enable_on_exec = !below(4);
	attr.disabled = attr.enable_on_exec;
	attr.remove_on_exec = !attr.enable_on_exec && !below(4);
	attr.persistent = !below(4);
	fill_slot(any_slot(), event_open(&attr, below(2) ? 0 : workers[below(WORKERS)],
					 below(2) ? -1 : any_cpu(), leader, 0));
}

static void close_slot(void)
{
	fill_slot(any_slot(), -1);
}

static void reopen_slot(void)
{
	int fd = below(2) ? VIEW(any_id(), below(4), .disabled = below(2),
				 .read_format = below(PERF_FORMAT_MAX)) :
			    reopen_at(any_id(), -1, any_cpu());

	fill_slot(any_slot(), fd);
}

static void detach_slot(void)
{
	char name[] = "stress-x";

	name[sizeof(name) - 2] = 'a' + below(26);
	DETACH(any_slot()->fd, .name = below(2) ? addr(name) : 0, .label = addr("stress"),
	       .member = below(2), .ttl = below(2) ? below(SEC / 50) : 0,
	       .buffer_pages = below(2) ? 1U << below(4) : 0);
}

static void join_slot(void)
{
	DETACH(any_slot()->fd, .id = any_id(), .member = below(4));
}

static void attach_slot(void)
{
	attach(any_slot()->fd);
}

static void set_slot(void)
{
	SET(any_slot()->fd, .flags = PERF_PERSISTENT_SET_TTL | PERF_PERSISTENT_SET_COMMITTED,
	    .ttl = below(SEC / 20));
}

static void rename_slot(void)
{
	char name[] = "stress-x";

	name[sizeof(name) - 2] = 'a' + below(26);
	SET(any_slot()->fd, .flags = PERF_PERSISTENT_SET_NAME,
	    .name = below(4) ? addr(name) : 0);
}

static void hold_slot(void)
{
	if (below(2))
		hold(any_slot()->fd);
	else
		hold_member(any_slot()->fd, below(4));
}

static void control_session(void)
{
	static const __u32 flags[] = {
		PERF_PERSISTENT_SET_ENABLE, PERF_PERSISTENT_SET_DISABLE,
		PERF_PERSISTENT_SET_PERIOD, PERF_PERSISTENT_SET_CLEAR,
	};

	SET(any_slot()->fd, .flags = flags[below(ARRAY_LEN(flags))], .member = below(4),
	    .period = 100000 + below(100000));
}

static void give_session(void)
{
	static const __u32 flags[] = {
		PERF_PERSISTENT_SET_UID, PERF_PERSISTENT_SET_GID, PERF_PERSISTENT_SET_MODE,
	};

	SET(any_slot()->fd, .flags = flags[below(ARRAY_LEN(flags))],
	    .uid = below(2) * USER, .gid = below(2) * USER, .mode = below(01000));
}

static void ask_slot(void)
{
	struct answer a;

	query(any_slot()->fd, &a);
}

static void read_slot(void)
{
	count(any_slot()->fd);
}

static void poll_slot(void)
{
	struct pollfd p = { .fd = any_slot()->fd, .events = POLLIN };

	poll(&p, 1, below(3));
}

static void redirect_slot(void)
{
	ioctl(any_slot()->fd, PERF_EVENT_IOC_SET_OUTPUT, below(4) ? any_slot()->fd : -1L);
}

static void protect_slot(void)
{
	struct slot *s = any_slot();

	if (s->mapped)
		ring_protect(&s->ring, PROT_READ | (below(2) ? PROT_WRITE : 0));
}

static void control_slot(void)
{
	static const unsigned int commands[] = {
		PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_DISABLE, PERF_EVENT_IOC_RESET,
	};
	__u64 period = 100000 + below(100000);

	if (below(4))
		event_ioctl(any_slot()->fd, commands[below(ARRAY_LEN(commands))], NULL);
	else
		event_ioctl(any_slot()->fd, PERF_EVENT_IOC_PERIOD, &period);
}

static void control_all(void)
{
	prctl(below(2) ? PR_TASK_PERF_EVENTS_DISABLE : PR_TASK_PERF_EVENTS_ENABLE);
}

static void read_sysfs(void)
{
	static const char * const files[] = {
		"name", "uid", "gid", "mode", "age", "time_left", "members",
		"instances", "cpus", "types", "buffer_bytes", "lost",
	};
	char path[128], buf[4096];

	snprintf(path, sizeof(path), REGISTRY "/ids/%d/%s", any_id(),
		 files[below(ARRAY_LEN(files))]);
	read_file(path, buf, sizeof(buf));
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", any_slot()->fd);
	read_file(path, buf, sizeof(buf));
}

static void make_happen(void)
{
	/* On a random CPU, if that is online */
	try_pin(any_cpu());
	drive(below(2) ? FAULTS : TRACEPOINT, below(100));
}

static void execute(const char *what)
{
	char seed[16];

	snprintf(seed, sizeof(seed), "%ld", random());
	execl("/proc/self/exe", "persistent_stress", what, seed, NULL);
}

/* Fork a child that inherits events, and ends in any of several ways. */
static void have_child(void)
{
	unsigned int way = below(4);
	pid_t child = fork();

	if (child) {
		waitpid(child, NULL, 0);
		return;
	}
	make_happen();
	if (!way && !fork())
		make_happen();
	if (way == 1)
		execute("drive");
	if (way == 2)
		kill(getpid(), SIGKILL);
	_exit(0);
}

/* Exec this program, with the events that I had and without most descriptors */
static void become_another(void)
{
	if (!below(8))
		execute("work");
}

static void (* const steps[])(void) = {
	open_slot, open_slot, open_task, detach_slot, detach_slot, join_slot, reopen_slot,
	reopen_slot, attach_slot, close_slot, map_slot, map_slot, unmap_slot, set_slot,
	rename_slot, hold_slot, ask_slot, read_slot, poll_slot, poll_slot, redirect_slot,
	protect_slot, control_slot, control_slot, control_all, control_session, give_session,
	read_sysfs, make_happen, have_child, become_another,
};

static void work(unsigned int seed)
{
	int i;

	srandom(seed);
	become(seed % 3 ? 0 : USER);
	for (i = 0; i < SLOTS; i++)
		slots[i].fd = -1;
	for (;;)
		steps[below(ARRAY_LEN(steps))]();
}

static pid_t start(unsigned int seed)
{
	pid_t child = fork();

	if (!child)
		work(seed);

	return child;
}

static void come_and_go(void)
{
	for (;;) {
		set_online(false);
		poll(NULL, 0, below(50));
		set_online(true);
		poll(NULL, 0, below(50));
	}
}

static pid_t start_hotplug(void)
{
	pid_t child = fork();

	if (!child)
		come_and_go();

	return child;
}

FIXTURE(stress)
{
	struct registry		registry;
};

FIXTURE_SETUP(stress)
{
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(PARANOID, -1));
}

/* Each user's limits are as at the start. */
static void expect_nothing_counted(struct __test_metadata *_metadata)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int cpus = sysconf(_SC_NPROCESSORS_CONF), i;
	struct rlimit none = {};

	EXPECT_EQ(0, set_sysctl(PARANOID, 0));
	/* Including the quarter that users cannot have */
	EXPECT_EQ(0, set_sysctl(MAX_SYSTEM, cpus + (cpus - 1) / 3));
	EXPECT_EQ(0, set_sysctl(MAX_USER, cpus));
	EXPECT_EQ(0, set_sysctl(MLOCK_KB, 2 * getpagesize() / 1024));
	EXPECT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &none));
	EXPECT_EQ(0, become(USER));
	for (i = 0; i < cpus; i++)
		EXPECT_LT(0, DETACH(event_open(&attr, -1, 0, -1, 0), .buffer_pages = 1));
	EXPECT_EQ(0, become(0));
}

FIXTURE_TEARDOWN_PARENT(stress)
{
	EXPECT_EQ(0, set_online(true));
	stop_all();
	EXPECT_TRUE(eventually(!registry_count("ids")));
	expect_nothing_counted(_metadata);
	registry_teardown(_metadata, &self->registry);
}

/* Concurrent use of everything breaks nothing and leaves nothing behind. */
TEST_F_TIMEOUT(stress, all_against_all, 24 * 60 * 60)
{
	const char *seconds = getenv("PERSISTENT_STRESS_SECONDS");
	__u64 end = now_ns() + (seconds ? atoi(seconds) : 5) * SEC;
	unsigned int seed = now_ns();
	pid_t hotplug;
	int i;

	TH_LOG("seed %u", seed);
	for (i = 0; i < WORKERS; i++)
		workers[i] = start(seed++);
	hotplug = start_hotplug();

	while (now_ns() < end) {
		poll(NULL, 0, 100);
		i = below(WORKERS);
		ASSERT_EQ(0, kill(workers[i], SIGKILL));
		ASSERT_EQ(workers[i], waitpid(workers[i], NULL, 0));
		workers[i] = start(seed++);
	}

	ASSERT_EQ(0, kill(hotplug, SIGKILL));
	ASSERT_EQ(hotplug, waitpid(hotplug, NULL, 0));
	for (i = 0; i < WORKERS; i++) {
		ASSERT_EQ(0, kill(workers[i], SIGKILL));
		ASSERT_EQ(workers[i], waitpid(workers[i], NULL, 0));
	}
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "work"))
		work(atoi(argv[2]));
	if (argc == 3 && !strcmp(argv[1], "drive")) {
		srandom(atoi(argv[2]));
		make_happen();
		return 0;
	}

	return test_harness_run(argc, argv);
}
