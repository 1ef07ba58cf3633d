// SPDX-License-Identifier: GPL-2.0
/*
 * Read a buffer of a session while events write to it.
 *
 * The kernel publishes data_head after it wrote a record, and nested writers not even
 * then, so data_head does not show what was overwritten during a copy. Copy first, then
 * query the reserved head: data beyond it may be torn and is dropped; the rest is whole.
 */
#include "buffer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/ring_buffer.h>
#include <linux/time64.h>
#include <linux/zalloc.h>
#include <internal/lib.h>
#include <sys/mman.h>
#include "debug.h"
#include "event.h"
#include "evlist.h"
#include "evsel.h"
#include "mmap.h"
#include "registry.h"
#include "reopen.h"
#include "session.h"

/* Limit of copies of a buffer whose writers keep overtaking the reader */
#define MAX_TRIES	5

/* How long to wait for the instances of an expired session to end, in ms */
#define MAX_WAITS	100

/* How often a waiting consumer tries to map the buffer */
#define CONSUMER_POLL_NSEC	(10 * NSEC_PER_MSEC)

/* "CPU 1", for messages */
static const char *persistent_buffer__of(struct persistent_buffer *buffer, char *buf, size_t size)
{
	if (buffer->cpu < 0)
		return "a task";
	scnprintf(buf, size, "CPU %d", buffer->cpu);
	return buf;
}

/*
 * A buffer has one consumer at a time; the next one begins where the last one stopped.
 * Signals are blocked except during the sleep, so that none is missed.
 */
static int persistent_buffer__wait_mmap(struct persistent_buffer *buffer, bool wait)
{
	struct timespec poll = { .tv_nsec = CONSUMER_POLL_NSEC };
	sigset_t all, old;
	bool told = false;
	char of[32];
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (1) {
		void *base = mmap(NULL, page_size + buffer->size,
				  PROT_READ | (buffer->consumes ? PROT_WRITE : 0), MAP_SHARED,
				  buffer->fd, 0);

		err = base == MAP_FAILED ? -errno : 0;
		if (!err)
			buffer->base = base;
		if (err != -EBUSY || !wait)
			break;
		if (!told)
			pr_info("[ another process consumes the buffer of %s of session '%s': waiting for it to end ]\n",
				persistent_buffer__of(buffer, of, sizeof(of)),
				buffer->evsel->persistent->name);
		told = true;
		if (ppoll(NULL, 0, &poll, &old) < 0) {
			err = -errno;
			break;
		}
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err;
}

/*
 * Returns -ENOENT if the instance was attached, or the caller has lost the right to it: it
 * does not report the position in the buffer.
 */
static int persistent_buffer__query(int fd, struct perf_persistent_query *query)
{
	int err;

	*query = (struct perf_persistent_query) {};
	err = persistent__query(fd, query);
	return err == -EINVAL || (!err && !query->buffer_pages) ? -ENOENT : err;
}

/* If the queried instance was dropped, query another one that shares the buffer. */
static int persistent_buffer__ask(struct persistent_buffer *buffer,
				  struct perf_persistent_query *query)
{
	int err = persistent_buffer__query(buffer->fd, query);

	if (err != -ENOENT || !buffer->evlist)
		return err;

	evlist__for_each_persistent(buffer->evlist, it) {
		if (err != -ENOENT || it.instance->info.buffer_id != buffer->id)
			continue;
		buffer->fd = it.fd;
		err = persistent_buffer__query(buffer->fd, query);
	}
	return err;
}

/*
 * Returns -ENOENT if no instance has the buffer any more, and -EBUSY if another process
 * consumes it and @wait is false.
 */
int persistent_buffer__mmap(struct persistent_buffer *buffer, bool wait)
{
	struct perf_persistent_query query;
	int err = persistent_buffer__ask(buffer, &query);

	if (err)
		return err;

	buffer->backward = query.flags & PERF_PERSISTENT_OVERWRITE;
	if (buffer->backward && buffer->consumes)
		return -EOPNOTSUPP;

	buffer->size = (u64)query.buffer_pages * page_size;
	buffer->data = malloc(buffer->size);
	if (!buffer->data)
		return -ENOMEM;
	err = persistent_buffer__wait_mmap(buffer, wait);
	if (err && persistent_buffer__query(buffer->fd, &query) == -ENOENT)
		err = -ENOENT;
	return err;
}

void persistent_buffer__exit(struct persistent_buffer *buffer)
{
	if (buffer->base)
		munmap(buffer->base, page_size + buffer->size);
	buffer->base = NULL;
	zfree(&buffer->data);
}

/* How far @pos lies behind @other, in the direction in which the buffer is written */
s64 persistent_buffer__behind(struct persistent_buffer *buffer, u64 pos, u64 other)
{
	return buffer->backward ? pos - other : other - pos;
}

void persistent_buffer__print_error(struct persistent_buffer *buffer, int err)
{
	struct persistent_member *member = buffer->evsel->persistent;
	char of[32], buf[STRERR_BUFSIZE];

	pr_err("the buffer of %s of session '%s' cannot be %s: %s\n",
	       persistent_buffer__of(buffer, of, sizeof(of)), member->name,
	       buffer->consumes ? "consumed" : "read",
	       err == -EOPNOTSUPP ?
	       "it overwrites the oldest records; only discard sessions can be consumed" :
	       persistent__strerror(member->id, buffer->consumes ? 'w' : 'r', err, buf,
				    sizeof(buf)));
}

/*
 * Leave out records from before a clear, except side-band: it names tasks that go on.
 * Records that were being written during the clear may not have been published yet.
 */
void persistent_buffer__begin(struct persistent_buffer *buffer)
{
	u64 head = ring_buffer_read_head(buffer->base);

	if (buffer->side_band)
		buffer->start = 0;
	else if (persistent_buffer__behind(buffer, head, buffer->start) > 0)
		buffer->start = head;
	buffer->cursor = buffer->start;
}

/* Make room: the records taken from the copy have been written out. */
void persistent_buffer__consume(struct persistent_buffer *buffer)
{
	if (buffer->consumes)
		ring_buffer_write_tail(buffer->base, buffer->cursor);
}

/*
 * Like persistent_buffer__consume(), but keep the newest @keep bytes. Nothing is written
 * between tail and head, so walk the records in the buffer itself; a header does not wrap
 * around.
 */
void persistent_buffer__consume_older(struct persistent_buffer *buffer, u64 keep)
{
	void *ring = (void *)buffer->base + page_size;
	u64 pos = READ_ONCE(buffer->base->data_tail);

	while ((s64)(buffer->cursor - pos) > (s64)keep) {
		struct perf_event_header *header = ring + (pos & (buffer->size - 1));

		/* Another consumer left an invalid tail. A header at it may be out of the ring. */
		if (pos % sizeof(u64) || header->size % sizeof(u64) ||
		    header->size < sizeof(*header) || header->size > buffer->cursor - pos) {
			pos = buffer->cursor;
			break;
		}
		pos += header->size;
	}
	ring_buffer_write_tail(buffer->base, pos);
}

void persistent_buffer__munmap(struct mmap *map)
{
	struct persistent_buffer *buffer = map->persistent;

	if (map->core.prev == buffer->delivered)
		persistent_buffer__consume(buffer);
	persistent_buffer__exit(buffer);
	map->persistent = NULL;
}

/*
 * A session that expires ends its instances one after the other. The head is final once all
 * that write to the buffer have ended, which their states tell without any right: wait a moment
 * for that. Returns false if one is still there, was attached, or may not be read any more.
 */
static bool persistent_buffer__becomes_final(struct persistent_buffer *buffer)
{
	bool final = false;

	for (int i = 0; i < MAX_WAITS && !final; i++) {
		if (i)
			usleep(USEC_PER_MSEC);
		final = true;
		evlist__for_each_persistent(buffer->evlist, it) {
			struct perf_persistent_query query = {};

			if (it.instance->info.buffer_id != buffer->id)
				continue;
			if (persistent__query(it.fd, &query) || query.self.id)
				return false;
			final &= query.self.state >= PERF_PERSISTENT_STATE_EXITED;
		}
	}
	return final;
}

/*
 * If no instance reports the reserved head any more, records may still be being written:
 * use data_head, and take nothing from an overwrite buffer. A stopped instance polls HUP
 * once it has written its last record.
 */
static int persistent_buffer__reserved(struct persistent_buffer *buffer, u64 *reserved)
{
	struct perf_persistent_query query;
	int err = persistent_buffer__ask(buffer, &query);
	bool final;

	*reserved = query.buffer_head;
	if (err != -ENOENT)
		return err;
	buffer->ended = true;
	final = !buffer->backward || persistent_buffer__becomes_final(buffer);
	*reserved = ring_buffer_read_head(buffer->base) - (final ? 0 : buffer->size);
	return 0;
}

static void persistent_buffer__copy(struct persistent_buffer *buffer, u64 from, u64 len)
{
	void *ring = (void *)buffer->base + page_size;
	u64 offset = from & (buffer->size - 1);
	u64 first = min(len, buffer->size - offset);

	memcpy(buffer->data, ring + offset, first);
	memcpy(buffer->data + first, ring, len - first);
}

/*
 * Keep whole records only: the last one may reach into overwritten data, as does one that is
 * larger than an overwrite buffer. Only the kernel writes records, but the consumer of a
 * discard buffer can move data_tail into the middle of one, into data chosen by the measured
 * tasks. Refuse what is no record. He can still forge some, but only of his own session.
 */
static int persistent_buffer__trim(struct persistent_buffer *buffer, u64 len)
{
	struct perf_event_header *header;
	u64 pos = 0;

	while (pos + sizeof(*header) <= len) {
		header = buffer->data + pos;
		if (header->size < sizeof(*header) || header->size % sizeof(u64) ||
		    !header->type || header->type >= PERF_RECORD_USER_TYPE_START ||
		    perf_event__too_small(buffer->data + pos, NULL)) {
			if (buffer->backward)
				break;
			return -EBADMSG;
		}
		if (pos + header->size > len)
			break;
		pos += header->size;
	}
	buffer->len = pos;
	return 0;
}

/*
 * An overwrite buffer is written backward, from 0 down: the newest record is at
 * the head, and the next one overwrites the oldest.
 */
static int persistent_buffer__read_backward(struct persistent_buffer *buffer)
{
	u64 head, reserved, len, kept;
	int err;

	for (int i = 0; i < MAX_TRIES; i++) {
		head = ring_buffer_read_head(buffer->base);
		len = buffer->cursor - head;
		persistent_buffer__copy(buffer, head, min(len, buffer->size));

		err = persistent_buffer__reserved(buffer, &reserved);
		if (err)
			return err;
		/* It has ended meanwhile, and more was written before that. */
		if (buffer->ended && reserved != head && head - reserved < buffer->size)
			continue;
		kept = head - reserved < buffer->size ? buffer->size - (head - reserved) : 0;
		err = persistent_buffer__trim(buffer, min(len, kept));
		if (err || buffer->len || !len)
			break;
	}
	buffer->lost_bytes += len - buffer->len;
	buffer->cursor = head;
	return err;
}

/* Read a head and a tail that existed at the same time: the consumer may move on meanwhile. */
static bool persistent_buffer__read_positions(struct persistent_buffer *buffer, u64 *head,
					      u64 *tail)
{
	for (int i = 0; i < MAX_TRIES; i++) {
		/* Before the head, which is read with acquire semantics as well */
		*tail = smp_load_acquire(&buffer->base->data_tail);
		*head = ring_buffer_read_head(buffer->base);
		if (*tail == READ_ONCE(buffer->base->data_tail))
			return true;
	}
	return false;
}

/*
 * A discard buffer is written forward from the tail, which its consumer moves, so data
 * before the tail may be overwritten during the copy.
 */
static int persistent_buffer__read_forward(struct persistent_buffer *buffer)
{
	u64 head, reserved, tail;
	int err;

	for (int i = 0; i < MAX_TRIES; i++) {
		if (!persistent_buffer__read_positions(buffer, &head, &tail))
			return -EBADMSG;
		if ((s64)(tail - buffer->cursor) > 0) {
			buffer->consumed_bytes += tail - buffer->cursor;
			buffer->cursor = tail;
		}
		if (head - buffer->cursor > buffer->size)
			return -EBADMSG;
		persistent_buffer__copy(buffer, buffer->cursor, head - buffer->cursor);

		err = persistent_buffer__reserved(buffer, &reserved);
		if (err)
			return err;
		if ((s64)(reserved - head) < 0)
			return -EBADMSG;
		if (reserved - buffer->cursor > buffer->size)
			continue;
		/* It has ended meanwhile, and more was written before that. */
		if (buffer->ended && reserved != head && i + 1 < MAX_TRIES)
			continue;

		err = persistent_buffer__trim(buffer, head - buffer->cursor);
		buffer->cursor += buffer->len;
		return err;
	}
	buffer->len = 0;
	buffer->lost_bytes += head - buffer->cursor;
	buffer->cursor = head;
	return 0;
}

/* Drop the records that @keep rejects and close the gaps. Returns how many were dropped. */
u64 persistent_buffer__keep(struct persistent_buffer *buffer, persistent_keep_t keep, u64 arg)
{
	union perf_event *event = NULL, *next = persistent_buffer__next(buffer, NULL);
	u64 len = 0, dropped = 0;

	while ((event = next)) {
		u16 size = event->header.size;

		next = persistent_buffer__next(buffer, event);
		if (keep(buffer->evlist, event, arg)) {
			memmove(buffer->data + len, event, size);
			len += size;
		} else {
			dropped++;
		}
	}
	buffer->len = len;
	return dropped;
}

static bool evlist__has_event(struct evlist *evlist, union perf_event *event,
			      u64 arg __maybe_unused)
{
	u64 id;

	return !evlist__event2id(evlist, event, &id) && evlist__id2sid(evlist, id);
}

/* Drop records of events of the session that were not chosen, or were dropped from it. */
void persistent_buffer__leave_out_others(struct persistent_buffer *buffer)
{
	if (buffer->in_part)
		buffer->left_out += persistent_buffer__keep(buffer, evlist__has_event, 0);
}

/* Prints errors. A consumer may give a part of the buffer back, so its copy keeps all records. */
int persistent_buffer__read(struct persistent_buffer *buffer)
{
	int err = buffer->backward ? persistent_buffer__read_backward(buffer) :
				     persistent_buffer__read_forward(buffer);

	/* Records of other events fill the buffer, too. */
	buffer->came = buffer->len;
	if (err)
		persistent_buffer__print_error(buffer, err);
	else if (!buffer->consumes)
		persistent_buffer__leave_out_others(buffer);
	return err;
}
