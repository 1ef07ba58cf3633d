// SPDX-License-Identifier: GPL-2.0
/*
 * The example of Documentation/userspace-api/perf_persistent.rst: start a session that
 * samples every CPU, leave it, find it again, read its counts and a buffer, control it,
 * and end it. It needs CAP_PERFMON. It is a test as well, so its output is TAP.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define TYPE	"/sys/bus/event_source/devices/persistent/type"
#define MS	1000000ULL

static int check(int ret, const char *what)
{
	if (ret < 0) {
		perror(what);
		exit(1);
	}
	return ret;
}

/* The structs have addresses of 64 bits, also in a 32-bit program. */
static __u64 addr(const void *p)
{
	return (unsigned long)p;
}

static int event_open(struct perf_event_attr *attr, int cpu, unsigned long flags)
{
	attr->size = sizeof(*attr);
	return syscall(__NR_perf_event_open, attr, -1, cpu, -1, flags | PERF_FLAG_FD_CLOEXEC);
}

/* Create an instance on every present CPU, also on those that are offline */
static int start(void)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.config		= PERF_COUNT_SW_CPU_CLOCK,
		.sample_period	= 1 * MS,
		.sample_type	= PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.exclude_guest	= 1,
		.write_backward	= 1,
	};
	/* If this program dies before all is set up, the session ends by itself. */
	struct perf_event_detach detach = {
		.flags		= PERF_DETACH_UNCOMMITTED,
		.name		= addr("example"),
		.label		= addr("cpu-clock"),
		.ttl		= 30000 * MS,
		.buffer_pages	= 16,
	};
	int cpu, fd, id = 0, nr = sysconf(_SC_NPROCESSORS_CONF);

	for (cpu = 0; cpu < nr; cpu++) {
		fd = event_open(&attr, cpu, PERF_FLAG_OFFLINE_CPU);
		if (fd < 0 && errno == ENODEV)
			continue;
		check(fd, "perf_event_open");
		id = check(ioctl(fd, PERF_EVENT_IOC_DETACH, &detach), "DETACH");
		close(fd);
		/* The others join. */
		detach = (struct perf_event_detach) { .id = id, .buffer_pages = 16 };
	}
	return id;
}

static int reopen(int type, int id, unsigned int instance)
{
	struct perf_event_attr attr = {
		.type		= type,
		.config		= id | (instance + 1ULL) << PERF_PERSISTENT_INSTANCE_SHIFT,
		.read_format	= PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};

	return event_open(&attr, -1, 0);
}

/* Query the session, with a list of all instances if @list has room for some */
static void query(int view, struct perf_persistent_query *q, void *list, unsigned int room)
{
	*q = (struct perf_persistent_query) { .instances = addr(list), .nr_instances = room };
	check(ioctl(view, PERF_EVENT_IOC_QUERY_PERSISTENT, q), "QUERY");
}

static void set(int view, unsigned int flags, unsigned int mode, const char *mark)
{
	struct perf_persistent_set set = { .flags = flags, .mode = mode, .mark = addr(mark) };

	check(ioctl(view, PERF_EVENT_IOC_SET_PERSISTENT, &set), "SET");
}

struct sample {
	struct perf_event_header	header;
	__u32				pid, tid;
	__aligned_u64			time;
};

/*
 * Print the newest records of an overwrite buffer. It is written backward: the copy
 * starts with the newest record, and records that were started during the copy may
 * have overwritten its end.
 */
static int dump(int view)
{
	__u64 head, size, page_size = sysconf(_SC_PAGESIZE), pos, whole;
	struct perf_event_mmap_page *page;
	struct perf_persistent_query q;
	struct sample *s;
	char *copy;
	int nr = 0;

	query(view, &q, NULL, 0);
	size = q.buffer_pages * page_size;
	page = mmap(NULL, page_size + size, PROT_READ, MAP_SHARED, view, 0);
	check(page == MAP_FAILED ? -1 : 0, "mmap");
	copy = malloc(size);
	check(copy ? 0 : -1, "malloc");

	head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	pos = head & (size - 1);
	memcpy(copy, (char *)page + page_size + pos, size - pos);
	memcpy(copy + size - pos, (char *)page + page_size, pos);
	query(view, &q, NULL, 0);
	munmap(page, page_size + size);

	/* The head counts down from 0. */
	whole = head - q.buffer_head < size ? size - (head - q.buffer_head) : 0;
	if (whole > -head)
		whole = -head;

	for (pos = 0; whole - pos >= sizeof(s->header); pos += s->header.size) {
		s = (struct sample *)&copy[pos];
		if (s->header.size < sizeof(s->header) || s->header.size > whole - pos)
			break;
		if (s->header.type == PERF_RECORD_SAMPLE && nr++ < 3)
			printf("# process %u at %llu ns\n", s->pid, s->time);
	}
	free(copy);
	return nr;
}

int main(void)
{
	__u64 before[3], after[3];	/* count, time enabled, time running */
	int type, id, view, samples = 0, tries = 1000;
	struct perf_persistent_info *list;
	struct perf_persistent_query q;
	unsigned int i, nr;
	FILE *file;

	file = fopen(TYPE, "r");
	if (!file || fscanf(file, "%d", &type) != 1) {
		printf("1..0 # SKIP no persistent events\n");
		return 4;
	}
	printf("TAP version 13\n1..1\n");

	id = start();
	view = check(reopen(type, id, 0), "reopening instance 0");
	set(view, PERF_PERSISTENT_SET_COMMITTED | PERF_PERSISTENT_SET_MODE, 0640, NULL);
	while (!samples && tries--) {
		usleep(10000);
		samples = dump(view);
	}

	/* When this returns, no CPU counts or writes any more. */
	set(view, PERF_PERSISTENT_SET_DISABLE | PERF_PERSISTENT_SET_MARK, 0, "disabled");
	check(read(view, before, sizeof(before)), "read");

	/* One descriptor for the whole session */
	query(view, &q, NULL, 0);
	nr = q.nr_instances;
	list = calloc(nr, sizeof(*list));
	check(list ? 0 : -1, "calloc");
	query(view, &q, list, nr);
	for (i = 0; i < nr; i++)
		printf("# instance %u, CPU %d: count %llu, lost %llu, state %u\n", list[i].instance,
		       list[i].cpu, list[i].count, list[i].lost, list[i].state);

	check(read(view, after, sizeof(after)), "read");
	set(view, PERF_PERSISTENT_SET_ENABLE, 0, NULL);
	close(view);

	/* An instance that is attached ends when its last file is closed. */
	for (i = 0; i < nr; i++) {
		view = check(reopen(type, id, list[i].instance), "reopening an instance");
		check(ioctl(view, PERF_EVENT_IOC_ATTACH, 0), "ATTACH");
		close(view);
	}
	if (!samples || before[0] != after[0] || before[0] != list[0].count ||
	    reopen(type, id, 0) >= 0 || errno != ENOENT) {
		printf("not ok 1 persistent_example\n");
		return 1;
	}
	printf("ok 1 persistent_example\n");
	return 0;
}
