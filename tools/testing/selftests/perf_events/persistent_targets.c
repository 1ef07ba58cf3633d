// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: tasks that join a running session, each of which is measured
 * once.
 */
#include <linux/sched.h>
#include <sys/prctl.h>

#include "persistent_task.h"

#define RELAYS		2
#define ROUNDS		1000
#define SOME_ROUNDS	100
#define TIME		(2 * 1000000000ULL)	/* for more rounds, on slow machines */
#define CALLS		20
#define TELL(what, ...)	ORDER(self->target.sock, what, .event = TRACEPOINT, ##__VA_ARGS__)

FIXTURE(targets)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	struct target		target;
	int			id;
};

FIXTURE_VARIANT(targets)
{
	int			cpu;
};

FIXTURE_VARIANT_ADD(targets, any_cpu) { .cpu = ANY_CPU };
FIXTURE_VARIANT_ADD(targets, one_cpu) { .cpu = 0 };

/* The session measures an idle task. */
FIXTURE_SETUP(targets)
{
	struct target idle;

	registry_setup(_metadata, &self->registry);

	pin(0);
	self->attr = event_attr(TRACEPOINT);
	self->attr.inherit = 1;
	idle = target_start(PROCESS);
	self->id = target_detach(&idle, PROCESS, &self->attr, variant->cpu,
				 (struct perf_event_detach) {});
	ASSERT_LT(0, self->id);
	self->target = target_start(PROCESS);
	ASSERT_LT(0, self->target.tid);
}

FIXTURE_TEARDOWN_PARENT(targets)
{
	registry_teardown(_metadata, &self->registry);
}

static int join_opened(int fd, int id)
{
	return DETACH(fd, .id = id);
}

/* Returns the file of a task's new event in the session, or the error of DETACH */
static int join(int id, const struct perf_event_attr *attr, int tid, int cpu)
{
	int err, fd = event_open(attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return fd;
	err = join_opened(fd, id);
	if (err < 0)
		close(fd);

	return err < 0 ? err : fd;
}

#define JOIN(tid, on)	join(self->id, &self->attr, tid, on)

/* The count of the session, over all tasks */
static __u64 sum(int id)
{
	static struct perf_persistent_info instances[4096];
	struct perf_persistent_query query = {
		.instances	= addr(instances),
		.nr_instances	= ARRAY_LEN(instances),
	};
	int fd = reopen_instance(id, 0);
	__u64 n = 0;
	__u32 i;

	if (event_ioctl(fd, PERF_EVENT_IOC_QUERY_PERSISTENT, &query) ||
	    query.nr_instances > ARRAY_LEN(instances))
		return -1ULL;
	for (i = 0; i < query.nr_instances; i++)
		n += instances[i].count;
	close(fd);

	return n;
}

/* A task that already has the event, on a CPU or on all, cannot join again. */
TEST_F(targets, twice)
{
	int tid = self->target.tid;

	ASSERT_LE(0, JOIN(tid, variant->cpu));
	EXPECT_EQ(-EEXIST, JOIN(tid, variant->cpu));
	EXPECT_LE(0, JOIN(tid, 1));
	EXPECT_EQ(-EEXIST, JOIN(tid, 1));
	EXPECT_LE(0, DETACH(event_open(&self->attr, tid, variant->cpu, -1, 0),
			    .id = self->id, .member = 1));
	ASSERT_EQ(0, TELL(PIN, .cpu = 0, .value = 0));
	ASSERT_EQ(0, TELL(DRIVE, .value = CALLS));
	EXPECT_EQ(2 * CALLS, sum(self->id));
}

/* A child that inherited the event cannot join, until the event leaves the session. */
TEST_F(targets, inherited)
{
	int fd = JOIN(self->target.tid, variant->cpu), child, other;

	ASSERT_LE(0, fd);
	child = TELL(SPAWN);
	ASSERT_LT(0, child);
	EXPECT_EQ(-EEXIST, JOIN(child, variant->cpu));
	ASSERT_EQ(0, ORDER(self->target.child, DRIVE, .event = TRACEPOINT, .value = CALLS));
	EXPECT_EQ(CALLS, sum(self->id));

	ASSERT_EQ(0, attach(fd));
	other = JOIN(child, variant->cpu);
	EXPECT_LE(0, other);

	/* With the event back in the session, the child would be measured twice. */
	EXPECT_EQ(-EBUSY, join_opened(fd, self->id));
	close(other);
	ASSERT_EQ(0, attach(other = reopen_instance(self->id, 2)));
	close(other);
	EXPECT_EQ(self->id, join_opened(fd, self->id));
	EXPECT_EQ(-EEXIST, JOIN(child, variant->cpu));
}

/* Neither can the child of a task that has exited. */
TEST_F(targets, orphan)
{
	int fd = JOIN(self->target.tid, variant->cpu), child;

	ASSERT_LE(0, fd);
	child = TELL(SPAWN);
	ASSERT_LT(0, child);
	ASSERT_TRUE(target_end(&self->target));
	EXPECT_EQ(-EEXIST, JOIN(child, variant->cpu));
	ASSERT_EQ(0, attach(fd));
	EXPECT_LE(0, JOIN(child, variant->cpu));
}

/* A child forked before the parent joins can join; then the parent's event is refused. */
TEST_F(targets, child_first)
{
	int fd = event_open(&self->attr, self->target.tid, variant->cpu, -1, 0), child;

	ASSERT_LE(0, fd);
	child = TELL(SPAWN);
	ASSERT_LT(0, child);
	EXPECT_LE(0, JOIN(child, variant->cpu));
	EXPECT_EQ(-EBUSY, join_opened(fd, self->id));
	close(fd);
	EXPECT_LE(0, JOIN(self->target.tid, variant->cpu));

	ASSERT_EQ(0, TELL(DRIVE, .value = CALLS));
	ASSERT_EQ(0, ORDER(self->target.child, DRIVE, .event = TRACEPOINT, .value = CALLS));
	EXPECT_EQ(2 * CALLS, sum(self->id));
}

/* A task that has exited cannot join, but an event opened before can. */
TEST_F(targets, gone)
{
	int fd = event_open(&self->attr, self->target.tid, variant->cpu, -1, 0);

	ASSERT_TRUE(target_end(&self->target));
	EXPECT_EQ(-ESRCH, JOIN(self->target.tid, variant->cpu));
	EXPECT_EQ(self->id, join_opened(fd, self->id));
}

/* I am told the process of a thread, also after it has exited. */
TEST_F(targets, process)
{
	struct target thread = target_start(THREAD);
	int fd = JOIN(thread.tid, variant->cpu);
	struct answer a;

	ASSERT_LE(0, fd);
	ASSERT_NE(thread.pid, thread.tid);
	ASSERT_EQ(0, query(fd, &a));
	EXPECT_EQ(thread.tid, a.info.self.pid);
	EXPECT_EQ(thread.pid, a.info.self.tgid);

	ASSERT_TRUE(target_end(&thread));
	ASSERT_EQ(0, query(fd, &a));
	EXPECT_EQ(thread.tid, a.info.self.pid);
	EXPECT_EQ(thread.pid, a.info.self.tgid);

	ASSERT_TRUE(target_kill(&thread));
	ASSERT_EQ(0, query(fd, &a));
	EXPECT_EQ(thread.pid, a.info.self.tgid);
}

/* Threads, each of which starts the next one and exits */

struct relay {
	int	left;
	int	done;
};

static void *relay_run(void *arg)
{
	struct relay *relay = arg;
	pthread_attr_t detached;
	pthread_t next;

	if (__atomic_sub_fetch(&relay->left, 1, __ATOMIC_SEQ_CST) >= 0) {
		drive(TRACEPOINT, 1);
		__atomic_add_fetch(&relay->done, 1, __ATOMIC_SEQ_CST);
	}
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	while (pthread_create(&next, &detached, relay_run, relay))
		sched_yield();
	pthread_attr_destroy(&detached);

	return NULL;
}

/* On all CPUs, or on the one that is measured */
static pid_t relay_start(struct relay *relay, int cpu)
{
	pid_t pid = fork();
	cpu_set_t all;
	int i;

	if (pid)
		return pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	memset(&all, 0xff, sizeof(all));
	if (cpu == ANY_CPU)
		sched_setaffinity(0, sizeof(all), &all);
	for (i = 1; i < RELAYS; i++) {
		pthread_t first;

		pthread_create(&first, NULL, relay_run, relay);
	}
	relay_run(relay);
	for (;;)
		pause();
}

/*
 * One pass over the threads: true if any of them was new, has exited, or was not listed,
 * since reading the directory ends early at a thread that is exiting
 */
static int join_threads(int id, const struct perf_event_attr *attr, pid_t pid, int cpu)
{
	int tids[256], nr = 0, i, fd, again;
	struct dirent *entry;
	char path[64];
	struct stat st;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while ((entry = readdir(d)) && nr < (int)ARRAY_LEN(tids)) {
		if (entry->d_name[0] != '.')
			tids[nr++] = atoi(entry->d_name);
	}
	again = stat(path, &st) || (int)st.st_nlink != nr + 2;
	closedir(d);

	for (i = 0; i < nr; i++) {
		fd = join(id, attr, tids[i], cpu);
		if (fd >= 0)
			close(fd);
		again |= fd != -EEXIST;
		if (fd < 0 && fd != -EEXIST && fd != -ESRCH && fd != -EBUSY)
			return fd;
	}

	return again;
}

/* Attach all instances of the process; their numbers are not reused, so the first is known. */
static int drop_process(int id, __u32 *first, pid_t pid)
{
	struct answer a;
	int err = 0, fd;

	while (!err) {
		fd = reopen_instance(id, *first);
		if (fd == -ENOENT)
			return 0;
		err = query(fd, &a);
		if (!err)
			err = a.info.self.tgid == pid ? attach(fd) : -EINVAL;
		close(fd);
		++*first;
	}

	return err;
}

/*
 * However fast threads start and exit: once a pass finds nothing new, all are measured,
 * and each only once.
 */
TEST_F_TIMEOUT(targets, exact, 240)
{
	struct relay *relay = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = relay_start(relay, variant->cpu);
	__u64 before, end = now_ns() + TIME;
	__u32 first = 1;
	int i, again;

	ASSERT_LT(0, pid);
	for (i = 0; i < SOME_ROUNDS || (i < ROUNDS && now_ns() < end); i++) {
		do {
			again = join_threads(self->id, &self->attr, pid, variant->cpu);
		} while (again > 0);
		ASSERT_EQ(0, again);

		before = sum(self->id);
		__atomic_store_n(&relay->done, 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&relay->left, CALLS, __ATOMIC_SEQ_CST);
		ASSERT_TRUE(eventually(__atomic_load_n(&relay->done, __ATOMIC_SEQ_CST) == CALLS));
		ASSERT_EQ(CALLS, sum(self->id) - before);

		ASSERT_EQ(0, drop_process(self->id, &first, pid));
	}
	TH_LOG("%d rounds", i);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A task in the middle of fork(): the child has inherited nothing, and is not visible yet */

static pid_t forking_start(struct late_page *forking)
{
	struct clone_args args = { .flags = CLONE_PIDFD, .exit_signal = SIGCHLD };
	pid_t pid = fork();
	pthread_t thread;

	if (pid)
		return pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	forking->page = page_that_never_comes(&forking->uffd);
	args.pidfd = addr(forking->page);
	pthread_create(&thread, NULL, late_page_run, forking);
	syscall(__NR_clone3, &args, sizeof(args));
	for (;;)
		pause();
}

struct detacher {
	int	fd;
	int	id;
	int	tid;
	int	done;
	int	*go_on;
	bool	waited;
};

static void *detacher_run(void *arg)
{
	struct detacher *d = arg;

	time_t began = time(NULL);

	__atomic_store_n(&d->tid, syscall(__NR_gettid), __ATOMIC_SEQ_CST);
	d->id = join_opened(d->fd, d->id);
	/* Nobody waits long for a task that may never come. */
	d->waited = __atomic_load_n(d->go_on, __ATOMIC_SEQ_CST) || time(NULL) > began;
	__atomic_store_n(&d->done, 1, __ATOMIC_SEQ_CST);

	return NULL;
}

/* When DETACH returns, all children without the inherited event are visible. */
TEST_F(targets, forking)
{
	struct late_page *forking = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct detacher d = { .id = self->id, .go_on = &forking->come };
	pid_t pid = forking_start(forking);
	pthread_t thread;

	ASSERT_TRUE(eventually(is_stalled(pid, __NR_clone3)));
	d.fd = event_open(&self->attr, pid, variant->cpu, -1, 0);
	ASSERT_LE(0, d.fd);
	ASSERT_EQ(0, pthread_create(&thread, NULL, detacher_run, &d));
	ASSERT_TRUE(eventually(__atomic_load_n(&d.tid, __ATOMIC_SEQ_CST)));
	ASSERT_TRUE(eventually(__atomic_load_n(&d.done, __ATOMIC_SEQ_CST) ||
			       is_in_syscall(d.tid, __NR_ioctl)));
	__atomic_store_n(&forking->come, 1, __ATOMIC_SEQ_CST);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(self->id, d.id);
	EXPECT_TRUE(d.waited);
}

/* DETACH does not wait for ever for a child that never comes. */
TEST_F(targets, forking_for_ever)
{
	struct late_page *forking = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = forking_start(forking);
	time_t began;

	ASSERT_TRUE(eventually(is_stalled(pid, __NR_clone3)));
	began = time(NULL);
	EXPECT_LE(0, JOIN(pid, variant->cpu));
	EXPECT_LT(began, time(NULL));
	kill(pid, SIGKILL);
}

/* A task whose event ended at exec can be measured by another event. */
TEST_F(targets, executed)
{
	struct perf_event_attr attr = self->attr;
	int tid = self->target.tid, fd;

	attr.remove_on_exec = 1;
	fd = event_open(&attr, tid, variant->cpu, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_EQ(self->id, DETACH(fd, .id = self->id, .member = 1));
	ASSERT_EQ(0, TELL(PIN, .cpu = 0, .value = 0));
	ASSERT_EQ(0, TELL(DRIVE, .value = CALLS));
	ASSERT_EQ(0, target_program(&self->target, "/proc/self/exe"));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, state_of(fd));
	ASSERT_EQ(0, TELL(DRIVE, .value = CALLS));
	EXPECT_EQ(CALLS, sum(self->id));

	fd = event_open(&attr, tid, variant->cpu, -1, PERF_FLAG_FD_CLOEXEC);
	EXPECT_EQ(self->id, DETACH(fd, .id = self->id, .member = 1));
	ASSERT_EQ(0, TELL(DRIVE, .value = CALLS));
	EXPECT_EQ(2 * CALLS, sum(self->id));
	fd = event_open(&attr, tid, variant->cpu, -1, PERF_FLAG_FD_CLOEXEC);
	EXPECT_EQ(-EEXIST, DETACH(fd, .id = self->id, .member = 1));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, state_of(reopen_instance(self->id, 1)));
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(reopen_instance(self->id, 2)));
}

/* An event that a setuid program ended does not block a new one that counts. */
TEST_F(targets, executed_before)
{
	int tid = self->target.tid, ended, view;

	ASSERT_EQ(0, TELL(BECOME, .value = USER));
	ended = event_open(&self->attr, tid, variant->cpu, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, ended);
	ASSERT_EQ(0, target_setuid_program(&self->target));
	ASSERT_LE(0, JOIN(tid, variant->cpu));
	EXPECT_EQ(-EEXIST, DETACH(ended, .id = self->id));
	view = reopen_at(self->id, tid, variant->cpu);
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(view));
}

TEST_HARNESS_MAIN
