/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Persistent perf events: helpers that the tests share.
 *
 * Functions that can fail return a result or -errno, so that a test can state in one line which
 * of them it expects. A test is a process of its own: it may leave its files and mappings to its
 * exit, and its events to registry_teardown().
 */
#ifndef _SELFTESTS_PERF_EVENTS_PERSISTENT_H
#define _SELFTESTS_PERF_EVENTS_PERSISTENT_H

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stddef.h>
#include <time.h>

#include <linux/capability.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../kselftest_harness.h"
#include "user_page.h"

/*
 * Seconds for a test: a debug kernel in emulation takes many times as long. Less than the
 * timeout of a program in the file "settings".
 */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	100

#define ARRAY_LEN(a)	(sizeof(a) / sizeof((a)[0]))

#define TRACEPOINT_ID	"/sys/kernel/tracing/events/syscalls/sys_enter_getppid/id"
#define REGISTRY	"/sys/bus/event_source/devices/persistent"

/* Unprivileged users */
#define USER		1000
#define OTHER		1001

/* Time-out for conditions that are expected soon */
#define PATIENCE_MS	10000

/* System calls */

static inline int result(long ret)
{
	return ret < 0 ? -errno : ret;
}

static inline __u64 addr(const void *p)
{
	return (unsigned long)p;
}

static inline int event_open(const struct perf_event_attr *attr, int pid, int cpu,
			     int group_fd, unsigned long flags)
{
	return result(syscall(__NR_perf_event_open, attr, pid, cpu, group_fd, flags));
}

static inline int event_ioctl(int fd, unsigned int cmd, const void *arg)
{
	return result(ioctl(fd, cmd, arg));
}

/* The number of an ioctl with a struct of another size */
static inline unsigned int sized(unsigned int cmd, size_t size)
{
	return _IOC(_IOC_DIR(cmd), _IOC_TYPE(cmd), _IOC_NR(cmd), size);
}

/* DETACH(fd, .name = addr("x"), ...) */
#define DETACH(fd, ...)								\
	event_ioctl(fd, PERF_EVENT_IOC_DETACH, &(struct perf_event_detach) {	\
		__VA_ARGS__							\
	})

/* SET(fd, .flags = PERF_PERSISTENT_SET_TTL, ...) */
#define SET(fd, ...)								\
	event_ioctl(fd, PERF_EVENT_IOC_SET_PERSISTENT, &(struct perf_persistent_set) { \
		__VA_ARGS__							\
	})

/* FILTER(fd, "text"), FILTER(fd, "text", .member = 1, ...) */
#define FILTER(fd, text, ...)	\
	SET(fd, .flags = PERF_PERSISTENT_SET_FILTER, .filter = addr(text), ##__VA_ARGS__)

static inline int detach(int fd)
{
	return event_ioctl(fd, PERF_EVENT_IOC_DETACH, NULL);
}

static inline int attach(int fd)
{
	return event_ioctl(fd, PERF_EVENT_IOC_ATTACH, NULL);
}

static inline int reopen_at(__u64 config, int pid, int cpu)
{
	struct perf_event_attr attr = {
		.type	= PERF_TYPE_PERSISTENT,
		.size	= sizeof(attr),
		.config	= config,
	};

	return event_open(&attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* The only instance */
static inline int reopen(int id)
{
	return reopen_at(id, -1, -1);
}

/* The session itself */
static inline int open_session(int id)
{
	return reopen_at(id | PERF_PERSISTENT_SESSION, -1, -1);
}

static inline int reopen_instance(int id, __u32 nr)
{
	return reopen_at(id | (nr + 1ULL) << PERF_PERSISTENT_INSTANCE_SHIFT, -1, -1);
}

/* VIEW(id, nr, .read_format = PERF_FORMAT_ID, ...): a view of an instance with these fields */
#define VIEW(id, nr, ...)							\
	event_open(&(struct perf_event_attr) {					\
		.type	= PERF_TYPE_PERSISTENT,					\
		.size	= sizeof(struct perf_event_attr),			\
		.config	= (id) | ((nr) + 1ULL) << PERF_PERSISTENT_INSTANCE_SHIFT, \
		##__VA_ARGS__							\
	}, -1, -1, -1, PERF_FLAG_FD_CLOEXEC)

/* A view that counts nothing before it is enabled */
static inline int view_disabled(int id, __u32 nr)
{
	return VIEW(id, nr, .disabled = 1);
}

/* An answer of QUERY with room for everything */
struct answer {
	struct perf_persistent_query	info;
	struct perf_event_attr		attr;
	char				label[PERF_PERSISTENT_LABEL_MAX];
	char				cgroup[256];
	struct perf_persistent_info	instances[32];
};

static inline int query(int fd, struct answer *a)
{
	memset(a, 0, sizeof(*a));
	a->info.attr = addr(&a->attr);
	a->info.attr_size = sizeof(a->attr);
	a->info.label = addr(a->label);
	a->info.label_size = sizeof(a->label);
	a->info.cgroup = addr(a->cgroup);
	a->info.cgroup_size = sizeof(a->cgroup);
	a->info.instances = addr(a->instances);
	a->info.nr_instances = ARRAY_LEN(a->instances);

	return event_ioctl(fd, PERF_EVENT_IOC_QUERY_PERSISTENT, &a->info);
}

/* The state of an event, or -errno */
static inline int state_of(int fd)
{
	struct answer a;
	int err = query(fd, &a);

	return err ?: a.info.self.state;
}

/* The count of an event since it was opened, independent of a view's own count */
static inline __u64 total(int fd)
{
	struct answer a;

	return query(fd, &a) ? -1ULL : a.info.self.count;
}

/* The text of an event's filter */
static inline const char *filter_of(int fd)
{
	static char text[256];
	struct perf_persistent_query q = {
		.filter		= addr(text),
		.filter_size	= sizeof(text),
	};
	int err;

	memset(text, 0, sizeof(text));
	err = event_ioctl(fd, PERF_EVENT_IOC_QUERY_PERSISTENT, &q);
	if (err)
		snprintf(text, sizeof(text), "error %d", err);

	return text;
}

/* Hold all instances of the session for as long as the file is open ... */
static inline int hold(int fd)
{
	return SET(fd, .flags = PERF_PERSISTENT_SET_HOLD);
}

/* ... or those of one member */
static inline int hold_member(int fd, __u32 member)
{
	return SET(fd, .flags = PERF_PERSISTENT_SET_HOLD, .member = member + 1);
}

/* Control of the whole session, through any of its files */

static inline int session_enable(int fd)
{
	return SET(fd, .flags = PERF_PERSISTENT_SET_ENABLE);
}

static inline int session_disable(int fd)
{
	return SET(fd, .flags = PERF_PERSISTENT_SET_DISABLE);
}

static inline int session_period(int fd, __u64 period)
{
	return SET(fd, .flags = PERF_PERSISTENT_SET_PERIOD, .period = period);
}

static inline int session_mode(int fd, __u32 mode)
{
	return SET(fd, .flags = PERF_PERSISTENT_SET_MODE, .mode = mode);
}

/* Children, which end with _exit(_metadata->exit_code): expectations of a child count there */

static inline bool passed(pid_t child)
{
	int status;

	return waitpid(child, &status, 0) == child && !status;
}

/* Time */

static inline __u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);

	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* Wait for a condition; false if it does not hold in time */
#define eventually(condition) ({				\
	__u64 _end = now_ns() + PATIENCE_MS * 1000000ULL;	\
	bool _true;						\
								\
	do {							\
		_true = (condition);				\
	} while (!_true && now_ns() < _end && !usleep(1000));	\
	_true;							\
})

/* Files */

static inline int read_file(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	ret = result(read(fd, buf, size - 1));
	buf[ret < 0 ? 0 : ret] = '\0';
	close(fd);

	return ret;
}

static inline int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	ret = result(write(fd, text, strlen(text)));
	close(fd);

	return ret < 0 ? ret : 0;
}

static inline long long read_number(const char *path)
{
	char buf[32];
	int ret = read_file(path, buf, sizeof(buf));

	return ret < 0 ? ret : strtoll(buf, NULL, 0);
}

static inline int write_number(const char *path, long long value)
{
	char buf[32];

	snprintf(buf, sizeof(buf), "%lld", value);

	return write_file(path, buf);
}

/* Users: a test switches between them, so the saved uid and the permitted set stay. */

static inline int become(uid_t uid)
{
	return result(setresuid(0, 0, 0)) ?: result(setresuid(uid, uid, 0));
}

/* Keep one capability and no other, until the next become() */
static inline int only_capability(int cap)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {};

	if (syscall(__NR_capget, &header, data))
		return -errno;
	data[0].effective = 0;
	data[1].effective = 0;
	data[cap / 32].effective = 1U << (cap % 32);

	return result(syscall(__NR_capset, &header, data));
}

/* The registry */

static inline int registry_count(const char *dir)
{
	char path[64];
	struct dirent *entry;
	int n = 0;
	DIR *d;

	snprintf(path, sizeof(path), REGISTRY "/%s", dir);
	d = opendir(path);
	if (!d)
		return -errno;
	while ((entry = readdir(d)))
		n += entry->d_name[0] != '.';
	closedir(d);

	return n;
}

static inline bool registry_has(int id)
{
	char path[64];

	snprintf(path, sizeof(path), REGISTRY "/ids/%d", id);

	return !access(path, F_OK);
}

static inline void stop(int id)
{
	char path[80];
	__u32 nr;
	int fd, left;

	snprintf(path, sizeof(path), REGISTRY "/ids/%d/instances", id);
	left = read_number(path);
	for (nr = 0; nr < (1 << 18) && left > 0; nr++) {
		fd = reopen_instance(id, nr);
		if (fd < 0)
			continue;
		attach(fd);
		close(fd);
		left--;
	}
}

/* A leader is attached after its siblings, in the second round. */
static inline void stop_all(void)
{
	struct dirent *entry;
	int round;
	DIR *d;

	for (round = 0; round < 2; round++) {
		d = opendir(REGISTRY "/ids");
		while (d && (entry = readdir(d)))
			stop(atoi(entry->d_name));
		if (d)
			closedir(d);
	}
}

/* The state of the registry before and after a test */

static const char * const sysctls[] = {
	"/proc/sys/kernel/perf_event_paranoid",
	"/proc/sys/kernel/perf_event_mlock_kb",
	"/proc/sys/kernel/perf_event_persistent_max",
	"/proc/sys/user/max_perf_persistent",
	"/proc/sys/kernel/perf_event_persistent_max_ttl",
};

enum {
	PARANOID, MLOCK_KB, MAX_SYSTEM, MAX_USER, MAX_TTL, NR_SYSCTLS
};

struct registry {
	long long sysctls[NR_SYSCTLS];
};

static inline int set_sysctl(int nr, long long value)
{
	return write_number(sysctls[nr], value);
}

static inline void registry_setup(struct __test_metadata *_metadata, struct registry *r)
{
	int i;

	for (i = 0; i < NR_SYSCTLS; i++)
		r->sysctls[i] = read_number(sysctls[i]);

	/* A test that is killed for taking too long leaves its events behind. */
	stop_all();
	ASSERT_TRUE(eventually(!registry_count("ids")));
	ASSERT_TRUE(eventually(!registry_count("events")));
}

static inline void registry_teardown(struct __test_metadata *_metadata, struct registry *r)
{
	int i;

	for (i = 0; i < NR_SYSCTLS; i++)
		set_sysctl(i, r->sysctls[i]);

	stop_all();
	EXPECT_TRUE(eventually(!registry_count("ids")));
	EXPECT_TRUE(eventually(!registry_count("events")));
}

/* Events that a test can trigger */

enum event {
	CLOCK,		/* at least as many periods as asked for */
	FAULTS,		/* at least as many */
	TRACEPOINT,	/* exactly as many */
	CYCLES,		/* at least as many periods, by a hardware counter */
	INSTRUCTIONS,	/* likewise */
};

#define CLOCK_PERIOD	100000	/* ns, and the instructions that CPUs execute in about that time */

static inline struct perf_event_attr event_attr(enum event event)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_CPU_CLOCK,
	};

	if (event == FAULTS)
		attr.config = PERF_COUNT_SW_PAGE_FAULTS;

	if (event == TRACEPOINT) {
		attr.type = PERF_TYPE_TRACEPOINT;
		attr.config = read_number(TRACEPOINT_ID);
	}

	if (event == CYCLES || event == INSTRUCTIONS) {
		attr.type = PERF_TYPE_HARDWARE;
		attr.config = event == CYCLES ? PERF_COUNT_HW_CPU_CYCLES :
						PERF_COUNT_HW_INSTRUCTIONS;
	}

	return attr;
}

/* Not all CPUs have counters, or overflow interrupts. */
static inline bool has_event(enum event event)
{
	struct perf_event_attr attr = event_attr(event);
	int fd;

	attr.sample_period = CLOCK_PERIOD;
	fd = event_open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	close(fd);

	return fd != -ENOENT && fd != -EOPNOTSUPP;
}

/* FIXTURE_SETUP() skips with this if has_event() is false */
#define NO_EVENT	"the CPU does not count it"

static inline struct perf_event_attr sampling_attr(enum event event)
{
	struct perf_event_attr attr = event_attr(event);

	attr.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
	attr.sample_period = event == FAULTS || event == TRACEPOINT ? 1 : CLOCK_PERIOD;

	return attr;
}

/* Trigger an event on the current CPU */
static inline void drive(enum event event, unsigned int n)
{
	size_t page = getpagesize(), size = n * page;
	__u64 start = now_ns();
	char *area;

	switch (event) {
	case CLOCK:
	case CYCLES:
	case INSTRUCTIONS:
		while (now_ns() < start + 2ULL * n * CLOCK_PERIOD)
			;
		break;
	case FAULTS:
		area = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		while (n--)
			area[n * page] = 1;
		munmap(area, size);
		break;
	case TRACEPOINT:
		while (n--)
			syscall(__NR_getppid);
		break;
	}
}

static inline __u64 count(int fd)
{
	__u64 values[8] = {};

	return read(fd, values, sizeof(values)) < 0 ? -1ULL : values[0];
}

static inline int try_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);

	return result(sched_setaffinity(0, sizeof(set), &set));
}

/* Move to a CPU and stay there; events are opened on it */
static inline int pin(int cpu)
{
	int err = try_pin(cpu);

	if (err) {
		fprintf(stderr, "# cannot stay on CPU %d: %s\n", cpu, strerror(-err));
		_exit(KSFT_FAIL);
	}

	return cpu;
}

/* The CPU that goes offline; hot_teardown() brings it back at the latest */
#define HOT_CPU		1
#define HOT_CPU_ONLINE	"/sys/devices/system/cpu/cpu1/online"

static inline int set_online(bool online)
{
	return write_number(HOT_CPU_ONLINE, online);
}

static inline void drive_there(enum event event, unsigned int n)
{
	pin(HOT_CPU);
	drive(event, n);
	pin(0);
}

static inline void hot_teardown(struct __test_metadata *_metadata, struct registry *r)
{
	EXPECT_EQ(0, set_online(true));
	registry_teardown(_metadata, r);
}

/* Buffers */

struct ring {
	struct perf_event_mmap_page	*page;
	char				*data;
	__u64				size;
};

static inline int ring_map(struct ring *r, int fd, unsigned int pages, int prot)
{
	size_t page = getpagesize();

	r->size = pages * page;
	r->page = mmap(NULL, r->size + page, prot, MAP_SHARED, fd, 0);
	r->data = (char *)r->page + page;

	return r->page == MAP_FAILED ? -errno : 0;
}

static inline int ring_unmap(struct ring *r)
{
	return result(munmap(r->page, r->size + getpagesize()));
}

static inline int ring_protect(struct ring *r, int prot)
{
	return result(mprotect(r->page, r->size + getpagesize(), prot));
}

static inline __u64 ring_head(struct ring *r)
{
	return __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
}

/* The number of records of a type between two positions */
static inline unsigned int ring_records(struct ring *r, __u64 pos, __u64 end, __u32 type)
{
	struct perf_event_header *header;
	unsigned int n = 0;

	while (pos < end) {
		header = (void *)&r->data[pos & (r->size - 1)];
		if (header->size < sizeof(*header) || header->size > end - pos)
			break;
		n += header->type == type;
		pos += header->size;
	}

	return n;
}

/* Samples in a discard buffer */
static inline unsigned int ring_samples(struct ring *r)
{
	return ring_records(r, r->page->data_tail, ring_head(r), PERF_RECORD_SAMPLE);
}

/* Samples in an overwrite buffer that did not wrap yet; it is written downward from 0 */
static inline unsigned int loop_samples(struct ring *r)
{
	return ring_records(r, ring_head(r) + r->size, r->size, PERF_RECORD_SAMPLE);
}

/* Probes */

static inline int pmu_type(const char *pmu)
{
	char path[80];

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type", pmu);

	return read_number(path);
}

/* The offset of a function in the file of this program */
static inline __u64 file_offset(const void *function)
{
	unsigned long long start, end, offset, address = addr(function);
	FILE *f = fopen("/proc/self/maps", "re");

	while (f && fscanf(f, "%llx-%llx %*s %llx%*[^\n]", &start, &end, &offset) == 3) {
		if (address >= start && address < end) {
			fclose(f);
			return address - start + offset;
		}
	}

	return -1;
}

static inline struct perf_event_attr uprobe_attr(const void *function)
{
	static char program[PATH_MAX];

	program[readlink("/proc/self/exe", program, sizeof(program) - 1)] = '\0';

	return (struct perf_event_attr) {
		.size		= sizeof(struct perf_event_attr),
		.type		= pmu_type("uprobe"),
		.uprobe_path	= addr(program),
		.probe_offset	= file_offset(function),
	};
}

/* Stalling */

/* True if a task sleeps in a system call ... */
static inline bool is_in_syscall(pid_t tid, int nr)
{
	char path[64], text[64];

	snprintf(path, sizeof(path), "/proc/%d/syscall", tid);

	return read_file(path, text, sizeof(text)) > 0 && text[0] != 'r' && atoi(text) == nr;
}

static inline bool waits_for_page(pid_t pid)
{
	char path[64], text[64];

	snprintf(path, sizeof(path), "/proc/%d/wchan", pid);

	return read_file(path, text, sizeof(text)) > 0 && !strcmp(text, "handle_userfault");
}

/* ... and there in a page fault */
static inline bool is_stalled(pid_t pid, int nr)
{
	return is_in_syscall(pid, nr) && waits_for_page(pid);
}

#endif /* _SELFTESTS_PERF_EVENTS_PERSISTENT_H */
