// SPDX-License-Identifier: GPL-2.0
/*
 * What perf events cost the kernel, in instructions: the guest's clock ticks once for
 * each of them (vm/run --icount). Prints lines of a name and a figure; what this kernel
 * does not have is left out.
 *
 * bench cputime COMMAND...: the CPU time of a command instead
 * bench cputime PID: and of a process until now
 */
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "persistent.h"

/*
 * A batch is so long that the timer's interrupts, and what is left to RCU and to
 * workers, are as much a part of each as they are of life.
 */
#define BATCH_NS	20000000ULL
#define BATCHES		15

/* In cycles, which are as many as instructions here */
#define PERIOD		20000

#define RING_PAGES	64
#define MAX_EVENTS	8
#define MAX_IDS		4096
#define MAX_TASKS	1024
#define CALLS		4000

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

/* The mean of those calls that no interrupt fell on, no work of RCU's and no new slab */
static double measure_most(void (*op)(void))
{
	static __u64 calls[CALLS];
	double sum = 0, limit;
	int i, n = 0;

	for (i = 0; i < CALLS; i++)
		calls[i] = time_calls(op, 1);
	limit = median(calls, CALLS) * 1.01;
	while (n < CALLS && calls[n] <= limit)
		sum += calls[n++];

	return sum / n;
}

static void nothing(void)
{
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

/* Without a file from now on, if this kernel can do that */
static bool keep(int fd)
{
	bool kept = detach(fd) > 0;

	close(fd);

	return kept;
}

/* What a call costs more if it gives a sample */

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

/* Who is SCHED_FIFO and yields goes to the end of its queue. */
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
static int ids[MAX_IDS], nr_ids, base_fd, event_fd;

/* A counter of the CPU, or for want of one the clock */
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

static void detach_id(void)
{
	check(detach(event_fd), "DETACH");
	check(attach(event_fd), "ATTACH");
}

static void detach_instance(void)
{
	check(DETACH(event_fd, .id = ids[0]), "DETACH");
	check(attach(event_fd), "ATTACH");
}

static void measure_registry(void)
{
	char nr[16];
	int fd;

	base_fd = open_event(&open_attr, -1);
	ids[nr_ids++] = detach(base_fd);
	if (ids[0] < 0)
		return;

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

/* Memory of the registry, beside that of the events */

static long kernel_memory(void)
{
	static const char * const kinds[] = { "\nSlab:", "\nPercpu:", "\nVmallocUsed:" };
	static char text[8192];
	long sum = 0;

	sleep(1);	/* for what is left to RCU and to workers */
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
	for (i = 0; i < MAX_IDS; i++) {
		if (detach(fds[i]) < 0)
			return;
	}
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
		pids[i] = check(result(fork()), "fork");
		if (!pids[i]) {
			pause();
			_exit(0);
		}
		fds[i] = open_event(&open_attr, pids[i]);
	}
	id = detach(fds[0]);
	before = kernel_memory();
	for (i = 1; i < MAX_TASKS && id > 0; i++)
		check(DETACH(fds[i], .id = id), "DETACH");
	if (id > 0)
		print((double)(kernel_memory() - before) / (MAX_TASKS - 1), "instance", "-bytes");
	for (i = 0; i < MAX_TASKS; i++) {
		attach(fds[i]);
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
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
	struct rlimit files = { 2 * MAX_IDS, 2 * MAX_IDS };
	struct perf_event_attr attr;

	if (argc > 2)
		return cputime(argv + 2);

	pin(0);
	check(result(setrlimit(RLIMIT_NOFILE, &files)), "setrlimit");
	check(write_number("/proc/sys/kernel/sched_rt_runtime_us", -1), "sched_rt_runtime_us");
	clock_attr = event_attr(CLOCK);

	attr = sampling_attr(TRACEPOINT);
	attr.write_backward = 1;
	measure_samples("sample", &attr, get_ppid, per_call);

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
	print(measure_most(open_close) - measure_most(nothing), "open", "-most");
	measure_registry();
	measure_id_memory();
	measure_instance_memory();

	return 0;
}
