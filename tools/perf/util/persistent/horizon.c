// SPDX-License-Identifier: GPL-2.0
/*
 * From what time on the side-band of a session is complete.
 */
#include "reader.h"

#include <linux/kernel.h>
#include <linux/time64.h>
#include <perf/event.h>
#include "event.h"
#include "evlist.h"
#include "reopen.h"

u64 persistent_event__time(struct evlist *evlist, union perf_event *event)
{
	u64 time = 0;

	if (evlist__parse_sample_timestamp(evlist, event, &time))
		return 0;
	return time;
}

static bool evlist__is_later(struct evlist *evlist, union perf_event *event, u64 horizon)
{
	return persistent_event__time(evlist, event) >= horizon;
}

static void persistent_buffer__count_early(struct persistent_buffer *buffer,
					   struct persistent_reader *reader)
{
	union perf_event *event = NULL;

	while ((event = persistent_buffer__next(buffer, event))) {
		if (event->header.type == PERF_RECORD_SAMPLE)
			reader->early_samples += !evlist__is_later(reader->evlist, event,
								   reader->horizon);
	}
}

/*
 * The side-band of a task is in the buffers of all CPUs that it ran on. If one
 * of them was overwritten, the others alone may be wrong, such as a fork
 * without the exec that followed. So use only records that are newer than the
 * oldest record of each buffer that was overwritten.
 */
void persistent_reader__find_horizon(struct persistent_reader *reader)
{
	struct persistent_buffer *buffer;

	for (int i = 0; i < reader->nr; i++) {
		union perf_event *event = NULL, *last = NULL;

		buffer = &reader->buffers[i];
		if (!buffer->side_band || !buffer->backward || !buffer->lost_bytes)
			continue;
		while ((event = persistent_buffer__next(buffer, event)))
			last = event;
		if (last)
			reader->horizon = max(reader->horizon,
					      persistent_event__time(reader->evlist, last));
	}

	for (int i = 0; i < reader->nr && reader->horizon; i++) {
		buffer = &reader->buffers[i];
		if (buffer->side_band)
			persistent_buffer__keep(buffer, evlist__is_later, reader->horizon);
		else
			persistent_buffer__count_early(buffer, reader);
	}
}

static u64 persistent_reader__consumed_bytes(struct persistent_reader *reader)
{
	u64 bytes = 0;

	for (int i = 0; i < reader->nr; i++)
		bytes += reader->buffers[i].consumed_bytes;
	return bytes;
}

void persistent_side_band__print_lost(u64 lost, FILE *fp)
{
	if (lost)
		fprintf(fp,
			"[ dropped, buffer full: %llu side-band records, so some tasks have no name and no symbols ]\n",
			(unsigned long long)lost);
}

/* One line on when side-band is complete from, and on samples that are older, if any */
static void persistent_reader__print_early(struct persistent_reader *reader, FILE *fp)
{
	unsigned long secs = reader->horizon / NSEC_PER_SEC;
	unsigned long usecs = reader->horizon % NSEC_PER_SEC / NSEC_PER_USEC;

	fprintf(fp, "[ names of tasks that ended before %lu.%06lu are lost", secs, usecs);
	if (reader->early_samples)
		fprintf(fp, ", %llu samples are older", (unsigned long long)reader->early_samples);
	fprintf(fp, " ]\n");
}

void persistent_reader__print_horizon(struct persistent_reader *reader, FILE *fp)
{
	u64 consumed = persistent_reader__consumed_bytes(reader);

	if (reader->older_bytes)
		fprintf(fp, "[ older records were overwritten: %llu bytes ]\n",
			(unsigned long long)reader->older_bytes);
	if (consumed)
		fprintf(fp, "[ already flushed or consumed: %llu bytes ]\n",
			(unsigned long long)consumed);
	persistent_side_band__print_lost(evlist__persistent_lost(reader->evlist, true), fp);
	if (reader->horizon)
		persistent_reader__print_early(reader, fp);
}
