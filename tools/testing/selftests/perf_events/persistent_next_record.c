// SPDX-License-Identifier: GPL-2.0
/*
 * NAME CPU [MS]: take the next record out of a buffer of a discard session. Wait for it
 * MS milliseconds, 0 for not at all; without MS, for ever. Takes the right to control it.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

struct stream {
	struct perf_event_mmap_page	*page;
	int				fd;
};

static int stream_number(const char *file, const char *name)
{
	char path[256], text[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/persistent/%s%s", file, name);
	f = fopen(path, "r");
	if (!f || !fgets(text, sizeof(text), f))
		return -1;
	fclose(f);
	return strtol(text + strcspn(text, "0123456789"), NULL, 0);
}

static int stream_open(struct stream *s, const char *name, int cpu)
{
	struct perf_event_attr attr = { .type = stream_number("type", ""), .size = sizeof(attr) };
	int id = stream_number("events/", name), page_size = sysconf(_SC_PAGESIZE);
	struct perf_persistent_query query = {};
	size_t size;

	attr.config = id;
	s->fd = id < 0 ? -1 : syscall(__NR_perf_event_open, &attr, -1, cpu, -1, 0);
	if (s->fd < 0 || ioctl(s->fd, PERF_EVENT_IOC_QUERY_PERSISTENT, &query) < 0)
		return -1;
	/* Writable, to move the tail. An overwrite buffer refuses that: EACCES. */
	size = (query.buffer_pages + 1UL) * page_size;
	s->page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	return s->page == MAP_FAILED ? -1 : 0;
}

static long long stream_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* Returns 0, -EAGAIN, -ETIMEDOUT, -EINTR, or -ESRCH when the session has ended. */
static int stream_next(struct stream *s, int ms, void *record)
{
	__u64 tail = s->page->data_tail, pos = tail & (s->page->data_size - 1);
	char *data = (char *)s->page + s->page->data_offset;
	__u64 len, room = s->page->data_size - pos;
	long long left = ms, end = stream_clock() + ms;
	struct pollfd p = { .fd = s->fd, .events = POLLIN };

	while (__atomic_load_n(&s->page->data_head, __ATOMIC_ACQUIRE) == tail) {
		if (p.revents & (POLLHUP | POLLERR))
			return -ESRCH;
		if (ms >= 0 && left <= 0)
			return ms ? -ETIMEDOUT : -EAGAIN;
		/* poll() reports each record only with wakeup_events 1, so look again. */
		if (poll(&p, 1, ms < 0 || left > 100 ? 100 : left) < 0)
			return -errno;
		left = end - stream_clock();
	}
	/* The header is never split; the rest may wrap to the beginning of the buffer. */
	len = ((struct perf_event_header *)(data + pos))->size;
	memcpy(record, data + pos, len < room ? len : room);
	if (len > room)
		memcpy((char *)record + room, data, len - room);
	__atomic_store_n(&s->page->data_tail, tail + len, __ATOMIC_RELEASE);
	return 0;
}

int main(int argc, char **argv)
{
	union { struct perf_event_header header; char bytes[65536]; } record;
	struct stream s;
	int err = argc < 3 ? -EINVAL : stream_open(&s, argv[1], atoi(argv[2])) ? -errno :
		  stream_next(&s, argc > 3 ? atoi(argv[3]) : -1, &record);

	if (!err)
		return printf("type %u, %u bytes\n", record.header.type, record.header.size) < 0;
	fprintf(stderr, "%s NAME CPU [MS]: %s\n", argv[0], strerror(-err));
	return 1;
}
