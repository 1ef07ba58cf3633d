// SPDX-License-Identifier: GPL-2.0
/*
 * Write a part of the buffers: samples of the last seconds, the newest that fit, or the
 * oldest that fit. The first two keep all side-band, since any of it may name a task that
 * is sampled.
 */
#include "reader.h"

#include <errno.h>
#include <stdlib.h>
#include <linux/kernel.h>
#include <perf/event.h>
#include "debug.h"
#include "event.h"

static bool evlist__keeps_since(struct evlist *evlist, union perf_event *event, u64 since)
{
	return event->header.type != PERF_RECORD_SAMPLE ||
	       persistent_event__time(evlist, event) >= since;
}

struct persistent_sizes {
	struct persistent_size {
		u64	time;
		u64	size;
	}	*samples;
	u64	nr;
	u64	others;
};

/*
 * A record without a known time counts as later than the one before it: records are in the
 * order in which they were written.
 */
static u64 persistent_buffer__time(struct persistent_buffer *buffer, union perf_event *event,
				   u64 before)
{
	return persistent_event__time(buffer->evlist, event) ?: before + 1;
}

/* Sizes of samples, or of @all records */
static int persistent_sizes__init(struct persistent_sizes *sizes, struct persistent_reader *reader,
				  bool all)
{
	u64 nr = 0;

	persistent_reader__for_each(reader, buffer) {
		persistent_buffer__for_each(buffer, event)
			nr += all || event->header.type == PERF_RECORD_SAMPLE;
	}

	*sizes = (struct persistent_sizes) {
		.samples = calloc(max_t(u64, nr, 1), sizeof(*sizes->samples)),
	};
	if (!sizes->samples)
		return -ENOMEM;
	persistent_reader__for_each(reader, buffer) {
		u64 time = 0;

		persistent_buffer__for_each(buffer, event) {
			if (!all && event->header.type != PERF_RECORD_SAMPLE) {
				sizes->others += event->header.size;
				continue;
			}
			time = all ? persistent_buffer__time(buffer, event, time) :
				     persistent_event__time(buffer->evlist, event);
			sizes->samples[sizes->nr++] = (struct persistent_size) {
				.time = time,
				.size = event->header.size,
			};
		}
	}
	return 0;
}

static int compare_newest_first(const void *a, const void *b)
{
	const struct persistent_size *first = a, *second = b;

	return (first->time < second->time) - (first->time > second->time);
}

/*
 * Keep the samples of the last @ns, and of these the newest that fit into a file of @size. 0
 * means no limit.
 *
 * @written: size of the file without the records in the buffers
 */
int persistent_reader__keep_newest(struct persistent_reader *reader, u64 ns, u64 written,
				   u64 size)
{
	struct persistent_sizes sizes;
	int err = persistent_sizes__init(&sizes, reader, false);
	u64 total = written + sizes.others, since = 0;

	if (!err)
		qsort(sizes.samples, sizes.nr, sizeof(*sizes.samples), compare_newest_first);
	/* Samples without a time, which are last, cannot be told old from new. */
	if (!err && sizes.nr && !sizes.samples[sizes.nr - 1].time) {
		pr_err("--last and --max-size need timestamps, which the samples do not have\n");
		err = -EINVAL;
	}
	if (!err && size && total > size) {
		pr_err("--max-size: at least %llu bytes are needed\n",
		       (unsigned long long)total);
		err = -EFBIG;
	}
	if (!err && ns && sizes.nr && sizes.samples[0].time > ns)
		since = sizes.samples[0].time - ns;
	for (u64 i = 0; !err && size && i < sizes.nr && total <= size; i++) {
		total += sizes.samples[i].size;
		if (total > size)
			since = max(since, sizes.samples[i].time + 1);
	}
	persistent_reader__for_each(reader, buffer) {
		if (!err && since && !buffer->side_band)
			reader->left_out += persistent_buffer__keep(buffer, evlist__keeps_since,
								    since);
	}
	free(sizes.samples);
	return err;
}

/* Leave all records in the buffer from the first one that is newer than @time. */
static void persistent_buffer__leave_newer(struct persistent_buffer *buffer, u64 time)
{
	u64 last = 0;

	persistent_buffer__for_each(buffer, event) {
		u64 len = (void *)event - buffer->data;

		last = persistent_buffer__time(buffer, event, last);
		if (last <= time)
			continue;
		buffer->cursor -= buffer->len - len;
		buffer->len = len;
		return;
	}
}

/* Leave the newest records until @total fits. Returns how many are kept. */
static u64 persistent_reader__leave_newest(struct persistent_reader *reader,
					   struct persistent_sizes *sizes, u64 total, u64 size)
{
	u64 nr = 0, last = 0;

	while (nr < sizes->nr && total > size) {
		last = sizes->samples[nr].time - 1;
		total -= sizes->samples[nr++].size;
	}
	/* Records with the same time are all kept or all left. */
	while (nr < sizes->nr && sizes->samples[nr].time > last)
		nr++;
	persistent_reader__for_each(reader, buffer)
		persistent_buffer__leave_newer(buffer, last);
	return sizes->nr - nr;
}

/*
 * Keep the oldest records that fit into a file of @size, of which @written is used. Leave
 * the others in the buffers, including side-band: it names the tasks of later samples.
 * Returns 1 if none fits.
 */
int persistent_reader__keep_first(struct persistent_reader *reader, u64 written, u64 size,
				  bool *full)
{
	struct persistent_sizes sizes;
	int err = persistent_sizes__init(&sizes, reader, true);
	u64 total = written + sizeof(struct perf_event_header);

	for (u64 i = 0; !err && i < sizes.nr; i++)
		total += sizes.samples[i].size;
	*full = !err && sizes.nr && total > size;
	if (!err && total > size) {
		qsort(sizes.samples, sizes.nr, sizeof(*sizes.samples), compare_newest_first);
		err = !persistent_reader__leave_newest(reader, &sizes, total, size);
	}
	free(sizes.samples);
	return err;
}
