// SPDX-License-Identifier: GPL-2.0
/*
 * Measure the cost of perf events in instructions: the guest's clock ticks once for each
 * of them (vm/run --icount). Prints lines of a name and a figure, without those of
 * features that this kernel does not have.
 *
 * bench cputime COMMAND...: the CPU time of a command instead
 * bench cputime PID: the CPU time of a process until now
 * bench sessions NR INSTANCES: make NR sessions of INSTANCES instances each
 * bench threads NR: a process of NR idle threads
 */
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "persistent.h"

/*
 * A batch is so long that timer interrupts, RCU callbacks and workers have their usual
 * share in each.
 */
#define BATCH_NS	20000000ULL
#define BATCHES		15

/* In cycles, whose number is that of instructions here */
#define PERIOD		20000

#define RING_PAGES	64
#define MAX_EVENTS	8
#define MAX_IDS		4096
#define MAX_TASKS	1024
#define CALLS		4000

/* A session of many instances: each member on each task */
#define JOIN_MEMBERS	128
#define JOIN_TASKS	400
#define FEW		10
#define MANY		50000

/* A session that is read in one call */
#define QUERY_MEMBERS	22
#define QUERY_TASKS	64

#define VIEWS		20
#define READ_USEC	1000

/* A session that gives up its counters */
#define RESERVED	4

/* The load by another user while somebody waits */
#define INHERITED	20000
#define WAITS		50

static int check(int ret, const char *what)
{
	if (ret < 0) {
		fprintf(stderr, "bench: %s: %s\n", what, strerror(-ret));
		exit(1);
	}

	return ret;
}

/* Measuring */

static __u64 now(clockid_t clock)
{
	struct timespec ts;

	check(result(clock_gettime(clock, &ts)), "clock_gettime");

	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static __u64 time_calls(void (*op)(void), unsigned int n)
{
	__u64 start = now(CLOCK_MONOTONIC_RAW);

	while (n--)
		op();

	return now(CLOCK_MONOTONIC_RAW) - start;
}

static int compare(const void *a, const void *b)
{
	const __u64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static double median(__u64 *times, size_t nr)
{
	qsort(times, nr, sizeof(*times), compare);

	return times[nr / 2];
}

static double measure(void (*op)(void))
{
	__u64 batch[BATCHES];
	unsigned int n = 1;
	int i;

	while (time_calls(op, n) < BATCH_NS)
		n *= 2;
	for (i = 0; i < BATCHES; i++)
		batch[i] = time_calls(op, n);

	return median(batch, BATCHES) / n;
}

/*
 * The mean of the calls without an interrupt, RCU work or a new slab; each call is undone
 * after it
 */
static double measure_most(void (*op)(void), void (*undo)(void))
{
	static __u64 calls[CALLS];
	double sum = 0, limit;
	int i, n = 0;

	for (i = 0; i < CALLS; i++) {
		calls[i] = time_calls(op, 1);
		undo();
	}
	limit = median(calls, CALLS) * 1.01;
	while (n < CALLS && calls[n] <= limit)
		sum += calls[n++];

	return sum / n;
}

static void nothing(void)
{
}

static double measure_most_of(void (*op)(void), void (*undo)(void))
{
	return measure_most(op, undo) - measure_most(nothing, nothing);
}

static void print(double figure, const char *what, const char *kind)
{
	printf("%s%s %.2f\n", what, kind, figure);
}

/* Events */

static struct perf_event_attr clock_attr;

static int open_event(const struct perf_event_attr *attr, int pid)
{
	return check(event_open(attr, pid, pid < 0 ? 0 : -1, -1, PERF_FLAG_FD_CLOEXEC),
		     "perf_event_open");
}

/* Detach the event, if this kernel can do that */
static bool keep(int fd)
{
	bool kept = detach(fd) > 0;

	close(fd);

	return kept;
}

/* Children */

static pid_t spawn(void)
{
	pid_t pid = check(result(fork()), "fork");

	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);

	return pid;
}

/* A child that stops, works when it is continued, and stops again */
static pid_t spawn_worker(void (*work)(unsigned int n), unsigned int n)
{
	pid_t pid = spawn();

	if (!pid) {
		raise(SIGSTOP);
		work(n);
		raise(SIGSTOP);
		_exit(0);
	}
	waitpid(pid, NULL, WUNTRACED);

	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* The additional cost of a call that gives a sample */

static void get_ppid(void)
{
	syscall(__NR_getppid);
}

static void compute(void)
{
	unsigned int i;

	for (i = 0; i < 10 * PERIOD; i++)
		asm volatile("");
}

static void compute_often(unsigned int n)
{
	while (n--)
		compute();
}

static double per_call(double with, double without)
{
	return with - without;
}

static double per_period(double with, double without)
{
	return (with - without) / (without / PERIOD);
}

static void measure_samples(const char *what, const struct perf_event_attr *attr,
			    void (*op)(void), double (*figure)(double, double))
{
	int fd = event_open(attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	double without;
	struct ring r;

	if (fd < 0)
		return;
	ioctl(fd, PERF_EVENT_IOC_DISABLE);
	without = measure(op);

	check(ring_map(&r, fd, RING_PAGES, PROT_READ), "mmap");
	ioctl(fd, PERF_EVENT_IOC_ENABLE);
	print(figure(measure(op), without), what, "-ordinary");

	if (!keep(fd))
		goto out;
	ring_unmap(&r);
	print(figure(measure(op), without), what, "-persistent");
	stop_all();
	return;
out:
	ring_unmap(&r);
}

/* Two threads that yield to each other, each with as many events */

static volatile bool yielding;
static volatile pid_t partner_tid;

static void yield(void)
{
	sched_yield();
}

static void *partner(void *arg)
{
	partner_tid = syscall(__NR_gettid);
	while (yielding)
		sched_yield();

	return NULL;
}

/* A SCHED_FIFO thread that yields goes to the end of its queue. */
static void set_policy(pid_t tid, int policy, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	check(result(sched_setscheduler(tid, policy, &param)), "sched_setscheduler");
}

static void measure_switches(int nr, bool persistent)
{
	static const char * const what[] = { [1] = "switch1", [8] = "switch8" };
	int i, fds[2 * MAX_EVENTS];
	bool kept = persistent;
	pthread_t thread;
	double figure;

	yielding = true;
	partner_tid = 0;
	check(-pthread_create(&thread, NULL, partner, NULL), "pthread_create");
	while (!partner_tid)
		sched_yield();

	for (i = 0; i < 2 * nr; i++) {
		fds[i] = open_event(&clock_attr, i % 2 ? partner_tid : 0);
		if (persistent)
			kept &= keep(fds[i]);
	}
	set_policy(0, SCHED_FIFO, 1);
	set_policy(partner_tid, SCHED_FIFO, 1);
	figure = measure(yield) / 2;
	yielding = false;
	set_policy(0, SCHED_OTHER, 0);
	pthread_join(thread, NULL);

	if (!persistent || kept)
		print(figure, what[nr], persistent ? "-persistent" : "-ordinary");
	if (persistent)
		stop_all();
	else
		while (i--)
			close(fds[i]);
}

/* Opening and detaching */

static struct perf_event_attr open_attr;
static int ids[MAX_IDS], nr_ids, base_fd, event_fd, join_id, join_member;

/* A hardware counter, or the clock if there is none */
static struct perf_event_attr usual_attr(void)
{
	struct perf_event_attr attr = event_attr(CYCLES);
	int fd = event_open(&attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		attr = event_attr(CLOCK);
	else
		close(fd);
	attr.disabled = 1;

	return attr;
}

static void eventfd_close(void)
{
	close(eventfd(0, EFD_CLOEXEC));
}

static void open_close(void)
{
	close(open_event(&open_attr, -1));
}

static void reopen_close(void)
{
	static unsigned int i;

	close(check(reopen_instance(ids[i++ % nr_ids], 0), "reopening"));
}

static void leave(void)
{
	check(attach(event_fd), "ATTACH");
}

static void detach_id(void)
{
	check(detach(event_fd), "DETACH");
	leave();
}

static void join(void)
{
	check(DETACH(event_fd, .id = join_id, .member = join_member), "DETACH");
}

static void detach_instance(void)
{
	join();
	leave();
}

static void measure_registry(void)
{
	char nr[16];
	int fd;

	base_fd = open_event(&open_attr, -1);
	ids[nr_ids++] = join_id = check(detach(base_fd), "DETACH");

	for (int want = 1; want <= MAX_IDS; want *= 8) {
		while (nr_ids < want) {
			fd = open_event(&open_attr, -1);
			ids[nr_ids++] = check(detach(fd), "DETACH");
			close(fd);
		}
		snprintf(nr, sizeof(nr), "-%d", want);
		print(measure(reopen_close), "reopen", nr);
		event_fd = open_event(&open_attr, 0);
		print(measure(detach_instance), "instance", nr);
		close(event_fd);
		event_fd = open_event(&open_attr, -1);
		print(measure(detach_id), "id", nr);
		close(event_fd);
	}
	close(base_fd);
	stop_all();
}

/* Memory of the registry, without that of the events */

static long kernel_memory(void)
{
	static const char * const kinds[] = { "\nSlab:", "\nPercpu:", "\nVmallocUsed:" };
	static char text[8192];
	long sum = 0;

	sleep(1);	/* for RCU callbacks and workers */
	check(read_file("/proc/meminfo", text, sizeof(text)), "/proc/meminfo");
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		sum += strtol(strstr(text, kinds[i]) + strlen(kinds[i]), NULL, 10) * 1024;

	return sum;
}

static void measure_id_memory(void)
{
	static int fds[MAX_IDS];
	long before;
	int i;

	for (i = 0; i < MAX_IDS; i++)
		fds[i] = open_event(&open_attr, -1);
	before = kernel_memory();
	for (i = 0; i < MAX_IDS; i++)
		check(detach(fds[i]), "DETACH");
	print((double)(kernel_memory() - before) / MAX_IDS, "id", "-bytes");
	for (i = 0; i < MAX_IDS; i++) {
		attach(fds[i]);
		close(fds[i]);
	}
}

static void measure_instance_memory(void)
{
	int i, id, fds[MAX_TASKS], pids[MAX_TASKS];
	long before;

	for (i = 0; i < MAX_TASKS; i++) {
		pids[i] = spawn_worker(compute_often, 0);
		fds[i] = open_event(&open_attr, pids[i]);
	}
	id = check(detach(fds[0]), "DETACH");
	before = kernel_memory();
	for (i = 1; i < MAX_TASKS; i++)
		check(DETACH(fds[i], .id = id), "DETACH");
	print((double)(kernel_memory() - before) / (MAX_TASKS - 1), "instance", "-bytes");
	for (i = 0; i < MAX_TASKS; i++) {
		attach(fds[i]);
		close(fds[i]);
		end(pids[i]);
	}
}

/* Joining a session of many instances */

static void end_session(int id)
{
	int view = check(reopen_instance(id, 0), "reopening");

	check(SET(view, .flags = PERF_PERSISTENT_SET_TTL, .ttl = 1), "SET");
	close(view);
	while (registry_has(id))
		usleep(1000);
}

/* Join as an instance of the member that is found last */
static void measure_join(int id, int nr)
{
	char kind[16];

	join_id = id;
	join_member = (nr < JOIN_MEMBERS ? nr : JOIN_MEMBERS) - 1;
	snprintf(kind, sizeof(kind), "-%d", nr);
	event_fd = open_event(&open_attr, 0);
	print(measure_most_of(join, leave), "join", kind);
	close(event_fd);
}

static void measure_joins(void)
{
	static pid_t pids[JOIN_TASKS];
	int fd, nr, id = 0;

	if (read_number(sysctls[MAX_SYSTEM]) < 2 * MANY)
		check(set_sysctl(MAX_SYSTEM, 2 * MANY), sysctls[MAX_SYSTEM]);
	for (nr = 0; nr < JOIN_TASKS; nr++)
		pids[nr] = spawn_worker(compute_often, 0);
	for (nr = 0; nr < MANY; nr++) {
		fd = open_event(&open_attr, pids[nr / JOIN_MEMBERS]);
		id = check(DETACH(fd, .id = id, .member = nr % JOIN_MEMBERS), "DETACH");
		close(fd);
		if (nr + 1 == FEW)
			measure_join(id, FEW);
	}
	measure_join(id, MANY);
	end_session(id);
	for (nr = 0; nr < JOIN_TASKS; nr++)
		end(pids[nr]);
}

/* Read all counts of a session with one descriptor, and check them */

static void call_getppid(unsigned int n)
{
	drive(TRACEPOINT, n);
}

static struct perf_persistent_info query_infos[QUERY_MEMBERS * QUERY_TASKS];
static struct perf_persistent_query query_answer;
static int query_view, query_fds[ARRAY_LEN(query_infos)];

static void query_one(void)
{
	query_answer = (struct perf_persistent_query) {
		.instances	= addr(query_infos),
		.nr_instances	= ARRAY_LEN(query_infos),
	};
	check(event_ioctl(query_view, PERF_EVENT_IOC_QUERY_PERSISTENT, &query_answer), "QUERY");
}

static void read_each(void)
{
	__u64 value;

	for (size_t i = 0; i < ARRAY_LEN(query_fds); i++)
		check(result(read(query_fds[i], &value, sizeof(value))), "read");
}

/*
 * The same filter for all events: in one call, and in a call for each event, which takes
 * one filter only. Calls may wait, so both the instructions and the time matter.
 */
static void measure_filter(const char *kind, int times, void (*set)(const char *filter))
{
	static const char * const filters[] = { "__syscall_nr > 1", "__syscall_nr > 2" };
	__u64 elapsed[BATCHES], cputime[BATCHES];
	int i;

	for (i = 0; i < times; i++) {
		elapsed[i] = now(CLOCK_MONOTONIC_RAW);
		cputime[i] = now(CLOCK_PROCESS_CPUTIME_ID);
		set(filters[i % 2]);
		cputime[i] = now(CLOCK_PROCESS_CPUTIME_ID) - cputime[i];
		elapsed[i] = now(CLOCK_MONOTONIC_RAW) - elapsed[i];
	}
	print(median(cputime, times), "filter", kind);
	print(median(elapsed, times), "filter-elapsed", kind);
}

static void filter_one(const char *filter)
{
	check(SET(query_view, .flags = PERF_PERSISTENT_SET_FILTER, .filter = addr(filter)), "SET");
}

static void filter_each(const char *filter)
{
	for (size_t i = 0; i < ARRAY_LEN(query_fds); i++)
		check(event_ioctl(query_fds[i], PERF_EVENT_IOC_SET_FILTER, (void *)filter),
		      "SET_FILTER");
}

static void measure_query(void)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	const struct perf_persistent_info *info = query_infos;
	unsigned int i, wrong, calls = 0;
	pid_t pids[QUERY_TASKS];
	int id = 0;

	for (i = 0; i < QUERY_TASKS; i++)
		pids[i] = spawn_worker(call_getppid, i + 1);
	for (i = 0; i < ARRAY_LEN(query_fds); i++) {
		query_fds[i] = open_event(&attr, pids[i / QUERY_MEMBERS]);
		id = check(DETACH(query_fds[i], .id = id, .member = i % QUERY_MEMBERS), "DETACH");
	}
	for (i = 0; i < QUERY_TASKS; i++) {
		kill(pids[i], SIGCONT);
		waitpid(pids[i], NULL, WUNTRACED);
	}

	query_view = check(reopen_instance(id, 0), "reopening");
	query_one();
	calls++;
	wrong = query_answer.nr_instances != ARRAY_LEN(query_infos);
	for (i = 0; i < ARRAY_LEN(query_infos); i++, info++)
		wrong += info->pid != pids[i / QUERY_MEMBERS] || info->member != i % QUERY_MEMBERS ||
			 info->count != i / QUERY_MEMBERS + 1;
	print(calls, "query", "-calls");
	print(wrong, "query", "-wrong");
	print(measure(query_one), "query", "-one");
	print(measure(read_each), "query", "-each");
	measure_filter("-each", 1, filter_each);
	measure_filter("-one", BATCHES, filter_one);
	close(query_view);
	end_session(id);
	for (i = 0; i < ARRAY_LEN(query_fds); i++)
		close(query_fds[i]);
	for (i = 0; i < QUERY_TASKS; i++)
		end(pids[i]);
}

/* A program whose instructions are counted and read all the time */

static void measure_views(int nr)
{
	struct perf_event_attr attr = event_attr(INSTRUCTIONS);
	const char *kind = nr > 1 ? "-views" : "-ordinary";
	int i, fd, id, fds[VIEWS], wrong = 0;
	__u64 v[VIEWS][3];
	clockid_t clock;
	pid_t pid;

	if (!has_event(INSTRUCTIONS))
		return;

	attr.exclude_kernel = 1;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	pid = spawn_worker(compute_often, 250);
	fds[0] = fd = open_event(&attr, pid);
	if (nr > 1) {
		id = check(detach(fd), "DETACH");
		for (i = 0; i < nr; i++)
			fds[i] = check(VIEW(id, 0, .read_format = attr.read_format), "reopening");
		close(fd);
	}

	kill(pid, SIGCONT);
	while (!waitpid(pid, NULL, WNOHANG | WUNTRACED)) {
		usleep(READ_USEC);
		for (i = 0; i < nr; i++)
			check(result(read(fds[i], v[i], sizeof(v[i]))), "read");
	}
	check(-clock_getcpuclockid(pid, &clock), "clock_getcpuclockid");
	print(now(clock), "run", kind);
	for (i = 0; i < nr; i++) {
		check(result(read(fds[i], v[i], sizeof(v[i]))), "read");
		wrong += v[i][0] != v[0][0] || v[i][1] != v[i][2];
		close(fds[i]);
	}
	print(v[0][0], "counted", kind);
	print(wrong, "wrong", kind);
	end(pid);
}

/* The time that root waits for sysfs under the worst load by another user */

static int ready_pipe[2];

static void ready(int id)
{
	check(id, "DETACH");
	check(result(write(ready_pipe[1], &id, sizeof(id))), "write");
}

static struct perf_event_attr user_attr(void)
{
	struct perf_event_attr attr = event_attr(CLOCK);

	attr.config = PERF_COUNT_SW_DUMMY;
	attr.exclude_kernel = 1;

	return attr;
}

static void load_nothing(void)
{
	struct perf_event_attr attr = user_attr();

	ready(detach(open_event(&attr, 0)));
	pause();
}

/* Read into a page that never comes */
static void load_stall(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range.len	= getpagesize(),
		.mode		= UFFDIO_REGISTER_MODE_MISSING,
	};
	int uffd = check(result(syscall(__NR_userfaultfd, O_CLOEXEC)), "userfaultfd");
	void *page = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct perf_event_attr attr = user_attr();
	int fd = open_event(&attr, 0);

	check(event_ioctl(uffd, UFFDIO_API, &api), "UFFDIO_API");
	reg.range.start = addr(page);
	check(event_ioctl(uffd, UFFDIO_REGISTER, &reg), "UFFDIO_REGISTER");

	ready(detach(fd));
	read(fd, page, 8);
	check(-EIO, "a page that never comes");
}

static void fork_often(unsigned int n)
{
	pid_t pid;

	while (n--) {
		pid = fork();
		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
}

/* Have a process with many events fork; as many as allowed are persistent */
static void load_fork(void)
{
	pid_t pid = spawn_worker(fork_often, UINT_MAX);
	struct perf_event_attr attr = user_attr();
	int i, fd, id, ret = 0;

	attr.inherit = 1;
	id = detach(open_event(&attr, pid));
	for (i = 1; i < INHERITED; i++) {
		fd = open_event(&attr, pid);
		if (ret >= 0)
			ret = detach(fd);
	}
	kill(pid, SIGCONT);
	ready(id);
	pause();
}

/* Make as many sessions as allowed, over and over */
static void load_fill(void)
{
	struct perf_event_attr attr = user_attr();
	static int fds[MAX_IDS];
	int n = 0;

	ready(detach(open_event(&attr, 0)));
	for (;;) {
		do
			fds[n] = open_event(&attr, 0);
		while (detach(fds[n++]) > 0 && n < MAX_IDS);
		while (n--) {
			attach(fds[n]);
			close(fds[n]);
		}
		n = 0;
	}
}

static void measure_wait(const char *kind, void (*load)(void))
{
	__u64 start, wait, longest = 0;
	pid_t pid, cat;
	char path[64];
	int i, id, status;

	check(result(pipe(ready_pipe)), "pipe");
	pid = spawn();
	if (!pid) {
		setpgid(0, 0);
		check(result(setresuid(USER, USER, USER)), "setresuid");
		prctl(PR_SET_DUMPABLE, 1);
		load();
	}
	close(ready_pipe[1]);
	check(read(ready_pipe[0], &id, sizeof(id)) == sizeof(id) ? 0 : -EIO, kind);
	usleep(10000);

	snprintf(path, sizeof(path), REGISTRY "/ids/%d/name", id);
	for (i = 0; i < WAITS; i++) {
		start = now(CLOCK_MONOTONIC_RAW);
		cat = spawn();
		if (!cat) {
			dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
			execlp("cat", "cat", path, NULL);
			_exit(127);
		}
		waitpid(cat, &status, 0);
		check(status ? -EIO : 0, "cat");
		wait = now(CLOCK_MONOTONIC_RAW) - start;
		if (wait > longest)
			longest = wait;
	}
	print(longest, "wait", kind);
	kill(-pid, SIGKILL);
	while (waitpid(-pid, NULL, 0) > 0)
		;
	close(ready_pipe[0]);
	stop_all();
}

static void measure_waits(void)
{
	check(write_number("/proc/sys/vm/unprivileged_userfaultfd", 1), "unprivileged_userfaultfd");
	measure_wait("-rest", load_nothing);
	measure_wait("-stall", load_stall);
	measure_wait("-fork", load_fork);
	measure_wait("-fill", load_fill);
}

/* The time from asking for the counters of a session to the confirmation that they are free */
static void measure_reserve(void)
{
	__u64 elapsed[BATCHES], cputime[BATCHES];
	struct answer a;
	int i, fd, id = 0;

	for (i = 0; i < RESERVED; i++) {
		fd = open_event(&open_attr, -1);
		id = check(DETACH(fd, .id = id, .member = i), "DETACH");
		close(fd);
	}
	for (i = 0; i < BATCHES; i++) {
		elapsed[i] = now(CLOCK_MONOTONIC_RAW);
		cputime[i] = now(CLOCK_PROCESS_CPUTIME_ID);
		fd = check(open_session(id), "reopening");
		check(hold(fd), "hold");
		check(query(fd, &a), "QUERY");
		cputime[i] = now(CLOCK_PROCESS_CPUTIME_ID) - cputime[i];
		elapsed[i] = now(CLOCK_MONOTONIC_RAW) - elapsed[i];
		check(a.instances[RESERVED - 1].state == PERF_PERSISTENT_STATE_HELD ? 0 : -EIO,
		      "hold");
		close(fd);
	}
	print(median(elapsed, BATCHES), "reserve", "-elapsed");
	print(median(cputime, BATCHES), "reserve", "-instructions");
	stop_all();
}

/* Make lasting sessions with members on each CPU; so many enabled events take long to schedule */
static int make_sessions(int nr, int nr_instances)
{
	int i, fd, id, cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct perf_event_attr attr = event_attr(CLOCK);

	attr.disabled = 1;
	while (nr--) {
		for (i = id = 0; i < nr_instances; i++) {
			fd = check(event_open(&attr, -1, i % cpus, -1, PERF_FLAG_FD_CLOEXEC),
				   "perf_event_open");
			id = check(DETACH(fd, .id = id, .member = i / cpus), "DETACH");
			close(fd);
		}
	}

	return 0;
}

static void *wait_for_ever(void *arg)
{
	pause();

	return arg;
}

static int threads(int nr)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	check(-pthread_attr_setstacksize(&attr, 262144), "pthread_attr_setstacksize");
	while (--nr > 0)
		check(-pthread_create(&thread, &attr, wait_for_ever, NULL), "pthread_create");
	pause();

	return 0;
}

static int cputime(char **argv)
{
	struct rusage usage;
	clockid_t clock;

	if (!argv[1] && !clock_getcpuclockid(atoi(argv[0]), &clock)) {
		printf("%llu\n", now(clock));
		return 0;
	}
	if (!fork()) {
		execvp(argv[0], argv);
		_exit(127);
	}
	wait(NULL);
	getrusage(RUSAGE_CHILDREN, &usage);
	printf("%llu\n", (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000ULL +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000ULL);

	return 0;
}

int main(int argc, char **argv)
{
	struct rlimit files = { 2 * INHERITED, 2 * INHERITED };
	struct perf_event_attr attr;

	if (argc == 4 && !strcmp(argv[1], "sessions"))
		return make_sessions(atoi(argv[2]), atoi(argv[3]));
	if (argc == 3 && !strcmp(argv[1], "threads"))
		return threads(atoi(argv[2]));
	if (argc > 2)
		return cputime(argv + 2);

	pin(0);
	check(result(setrlimit(RLIMIT_NOFILE, &files)), "setrlimit");
	check(write_number("/proc/sys/kernel/sched_rt_runtime_us", -1), "sched_rt_runtime_us");
	clock_attr = event_attr(CLOCK);

	attr = sampling_attr(TRACEPOINT);
	attr.write_backward = 1;
	measure_samples("sample", &attr, get_ppid, per_call);
	attr.wakeup_events = 1;
	measure_samples("wakeup", &attr, get_ppid, per_call);

	attr.wakeup_events = 0;
	attr.type = PERF_TYPE_HARDWARE;
	attr.config = PERF_COUNT_HW_CPU_CYCLES;
	attr.sample_period = PERIOD;
	attr.exclude_kernel = 1;
	measure_samples("overflow", &attr, compute, per_period);

	for (int nr = 1; nr <= MAX_EVENTS; nr += MAX_EVENTS - 1) {
		measure_switches(nr, false);
		measure_switches(nr, true);
	}

	open_attr = usual_attr();
	print(measure(eventfd_close), "eventfd", "");
	print(measure(open_close), "open", "");
	print(measure_most_of(open_close, nothing), "open", "-most");
	measure_views(1);
	if (access(REGISTRY, F_OK))
		return 0;

	measure_views(VIEWS);
	/* The order matters: freed memory is reused, which then costs no allocation. */
	measure_instance_memory();
	measure_id_memory();
	measure_registry();
	measure_joins();
	measure_query();
	measure_reserve();
	measure_waits();

	return 0;
}
