// SPDX-License-Identifier: GPL-2.0
/*
 * Write what was read from a persistent recording to a perf.data.
 */
#include "persistent-output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>
#include <perf/cpumap.h>
#include <perf/event.h>
#include <internal/lib.h>
#include <internal/xyarray.h>
#include <sys/stat.h>
#include "debug.h"
#include "event.h"
#include "evlist.h"
#include "evsel.h"
#include "header.h"
#include "machine.h"
#include "persistent.h"
#include "persistent-evlist.h"
#include "persistent-reader.h"
#include "sample.h"
#include "session.h"
#include "symbol_conf.h"
#include "synthetic-events.h"
#include "target.h"
#include "trace-event.h"

static int persistent_output__error(struct persistent_output *output, int err)
{
	pr_err("cannot write %s: %s\n", output->path, strerror(err));
	return -err;
}

static int persistent_output__put(struct persistent_output *output, void *data, size_t size)
{
	if (perf_data__write(&output->data, data, size) < 0)
		return persistent_output__error(output, errno);
	output->bytes += size;
	return 0;
}

static int persistent_output__put_event(const struct perf_tool *tool, union perf_event *event,
					struct perf_sample *sample __maybe_unused,
					struct machine *machine __maybe_unused)
{
	struct persistent_output *output = container_of(tool, struct persistent_output, tool);

	return persistent_output__put(output, event, event->header.size);
}

static int persistent_output__create(struct persistent_output *output)
{
	struct stat st;
	int fd;

	/* Renaming a file over /dev/null would be a surprise. */
	if (!stat(output->path, &st) && !S_ISREG(st.st_mode)) {
		pr_err("cannot write %s: it is there and is no regular file\n", output->path);
		return -EINVAL;
	}

	if (asprintf(&output->partial, "%s.XXXXXX", output->path) < 0) {
		output->partial = NULL;
		return -ENOMEM;
	}

	fd = mkstemp(output->partial);
	if (fd < 0) {
		int err = errno;

		zfree(&output->partial);
		return persistent_output__error(output, err);
	}
	close(fd);
	return 0;
}

/*
 * Build-ids come with the mmap records, so nothing need be read back to collect
 * them; and who recorded is not here to tell the rest.
 */
static void persistent_output__features(struct persistent_output *output)
{
	struct perf_header *header = &output->session->header;
	struct evsel *evsel;
	bool branch_stack = false;

	for (int feat = HEADER_FIRST_FEATURE; feat < HEADER_LAST_FEATURE; feat++)
		perf_header__set_feat(header, feat);

	evlist__for_each_entry(output->evlist, evsel)
		branch_stack |= evsel__has_br_stack(evsel);

	if (!branch_stack)
		perf_header__clear_feat(header, HEADER_BRANCH_STACK);
#ifdef HAVE_LIBTRACEEVENT
	if (!have_tracepoints(&output->evlist->core.entries))
		perf_header__clear_feat(header, HEADER_TRACING_DATA);
#endif
	perf_header__clear_feat(header, HEADER_BUILD_ID);
	perf_header__clear_feat(header, HEADER_AUXTRACE);
	perf_header__clear_feat(header, HEADER_CLOCKID);
	perf_header__clear_feat(header, HEADER_CLOCK_DATA);
	perf_header__clear_feat(header, HEADER_COMPRESSED);
	perf_header__clear_feat(header, HEADER_DIR_FORMAT);
	perf_header__clear_feat(header, HEADER_GROUP_DESC);
	perf_header__clear_feat(header, HEADER_SAMPLE_TIME);
	perf_header__clear_feat(header, HEADER_STAT);
}

int persistent_output__open(struct persistent_output *output, struct evlist *evlist,
			    const char *path)
{
	struct perf_session *session;
	int err;

	*output = (struct persistent_output) {
		.evlist	= evlist,
		.path	= path,
		.data	= { .mode = PERF_DATA_MODE_WRITE },
	};
	err = persistent_output__create(output);
	if (err)
		return err;

	symbol_conf.buildid_mmap2 = true;
	output->data.path = output->partial;
	perf_tool__init(&output->tool, /*ordered_events=*/true);
	session = perf_session__new(&output->data, &output->tool);
	if (IS_ERR(session)) {
		unlink(output->partial);
		zfree(&output->partial);
		return persistent_output__error(output, -PTR_ERR(session));
	}

	output->session = session;
	session->evlist = evlist;
	perf_session__set_id_hdr_size(session);
	persistent_output__features(output);
	if (perf_session__write_header(session, evlist, perf_data__fd(&output->data), false) < 0) {
		err = persistent_output__error(output, errno);
		persistent_output__abort(output);
	}
	return err;
}

static struct perf_event_header finished_init = {
	.size = sizeof(struct perf_event_header),
	.type = PERF_RECORD_FINISHED_INIT,
};

static struct perf_event_header finished_round = {
	.size = sizeof(struct perf_event_header),
	.type = PERF_RECORD_FINISHED_ROUND,
};

/*
 * The kernel and the tasks that are there: the recording itself has only what
 * happened since it was started. Without a time these come before all else, and
 * a task whose fork was recorded is made anew by that.
 */
int persistent_output__synthesize(struct persistent_output *output)
{
	struct machine *machine = &output->session->machines.host;
	struct target target = { .system_wide = true };
	struct perf_tool *tool = &output->tool;
	int err;

	err = perf_event__synthesize_id_index(tool, persistent_output__put_event,
					      output->evlist, machine);
	if (err)
		return err;

	if (!evlist__exclude_kernel(output->evlist)) {
		if (perf_event__synthesize_kernel_mmap(tool, persistent_output__put_event,
						       machine) < 0 ||
		    perf_event__synthesize_modules(tool, persistent_output__put_event,
						   machine) < 0)
			pr_warning("kernel addresses cannot be read (kernel.kptr_restrict), so kernel symbols will be missing\n");
	}

	err = perf_event__synthesize_cpu_map(tool, output->evlist->core.all_cpus,
					     persistent_output__put_event, machine);
	if (!err)
		err = __machine__synthesize_threads(machine, tool, &target,
						    output->evlist->core.threads,
						    persistent_output__put_event,
						    /*needs_mmap=*/true, /*data_mmap=*/false,
						    /*nr_threads_synthesize=*/1);
	if (!err)
		err = persistent_output__put(output, &finished_init, sizeof(finished_init));
	return err;
}

static u64 persistent_output__time(struct persistent_output *output, union perf_event *event)
{
	u64 time = 0;

	if (evlist__parse_sample_timestamp(output->evlist, event, &time))
		return 0;
	return time;
}

/*
 * A task's side-band lies in the buffers of all CPUs that it ran on. Where one
 * of them was overwritten the others alone would be wrong, as a fork without
 * the exec that came after it: nothing before the latest of the oldest records
 * counts.
 */
void persistent_output__find_horizon(struct persistent_output *output,
				     struct persistent_reader *reader)
{
	for (int i = 0; i < reader->nr; i++) {
		struct persistent_buffer *buffer = &reader->buffers[i];
		union perf_event *event = NULL, *last = NULL;

		if (!buffer->side_band || !buffer->backward || !buffer->lost_bytes)
			continue;
		while ((event = persistent_buffer__next(buffer, event)))
			last = event;
		if (last)
			output->horizon = max(output->horizon,
					      persistent_output__time(output, last));
	}
}

static int persistent_output__write_side_band(struct persistent_output *output,
					      struct persistent_buffer *buffer)
{
	union perf_event *event = NULL;
	int err;

	while ((event = persistent_buffer__next(buffer, event))) {
		if (persistent_output__time(output, event) < output->horizon)
			continue;
		err = persistent_output__put(output, event, event->header.size);
		if (err)
			return err;
	}
	return 0;
}

static void persistent_output__count(struct persistent_output *output,
				     struct persistent_buffer *buffer)
{
	union perf_event *event = NULL;

	while ((event = persistent_buffer__next(buffer, event))) {
		if (event->header.type != PERF_RECORD_SAMPLE)
			continue;
		output->samples++;
		if (output->horizon && persistent_output__time(output, event) < output->horizon)
			output->early_samples++;
	}
}

int persistent_output__write(struct persistent_output *output, struct persistent_reader *reader)
{
	int err;

	for (int i = 0; i < reader->nr; i++) {
		struct persistent_buffer *buffer = &reader->buffers[i];

		persistent_output__count(output, buffer);
		if (buffer->side_band && output->horizon)
			err = persistent_output__write_side_band(output, buffer);
		else
			err = persistent_output__put(output, buffer->data, buffer->len);
		if (err)
			return err;
	}
	return persistent_output__put(output, &finished_round, sizeof(finished_round));
}

static int persistent_output__put_lost(struct persistent_output *output, struct evsel *evsel,
				       int idx, u64 nr)
{
	u64 id = evsel__persistent_instance(evsel, idx)->event_id;
	struct perf_sample sample = { .id = id, .stream_id = id };
	struct perf_record_lost_samples_and_ids lost = {
		.lost = {
			.header.type = PERF_RECORD_LOST_SAMPLES,
			.lost	     = nr,
		},
	};

	lost.lost.header.size = sizeof(lost.lost) +
		perf_event__synthesize_id_sample((void *)(&lost.lost + 1),
						 evsel->core.attr.sample_type, &sample);
	return persistent_output__put(output, &lost, lost.lost.header.size);
}

static int evsel__query_lost(struct evsel *evsel, int idx, u64 *lost)
{
	struct perf_persistent_query query = {};
	int err = persistent__query(*(int *)xyarray__entry(evsel->core.fd, idx, 0), &query);

	*lost = query.lost;
	return err;
}

/* Whoever begins now did not lose what was lost before. */
int persistent_output__base_lost(struct persistent_output *output)
{
	struct evsel *evsel;
	int err, i = 0, room = 0;

	evlist__for_each_entry(output->evlist, evsel)
		room += perf_cpu_map__nr(evsel->core.cpus);

	output->base_lost = calloc(room, sizeof(u64));
	if (!output->base_lost)
		return -ENOMEM;

	evlist__for_each_entry(output->evlist, evsel) {
		for (int idx = 0; idx < perf_cpu_map__nr(evsel->core.cpus); idx++) {
			err = evsel__query_lost(evsel, idx, &output->base_lost[i++]);
			if (err)
				return err;
		}
	}
	return 0;
}

/*
 * Returns how many samples the kernel had no room for, the reader's own way of
 * losing them, by overwriting, being another.
 */
int persistent_output__write_lost(struct persistent_output *output)
{
	struct evsel *evsel;
	int err, i = 0, total = 0;
	u64 lost;

	evlist__for_each_entry(output->evlist, evsel) {
		for (int idx = 0; idx < perf_cpu_map__nr(evsel->core.cpus); idx++, i++) {
			err = evsel__query_lost(evsel, idx, &lost);
			if (output->base_lost)
				lost -= output->base_lost[i];
			if (!err && lost)
				err = persistent_output__put_lost(output, evsel, idx, lost);
			if (err)
				return err;
			total += lost;
		}
	}
	return total;
}

/*
 * A feature that could not be written to the end of the file is left out and
 * nobody told, so see whether there is room left.
 */
static int persistent_output__check_room(int fd)
{
	char page[4096] = {};
	struct stat st;
	ssize_t len;

	if (fstat(fd, &st))
		return -errno;

	len = pwrite(fd, page, sizeof(page), st.st_size);
	if (len != sizeof(page))
		return len < 0 ? -errno : -ENOSPC;
	return ftruncate(fd, st.st_size) ? -errno : 0;
}

/* Some file systems report a full disk no sooner than at the last close. */
static int persistent_output__finish(struct persistent_output *output)
{
	int err, fd = dup(perf_data__fd(&output->data));

	if (fd < 0)
		return -errno;

	output->session->header.data_size = output->bytes;
	if (perf_session__write_header(output->session, output->evlist, fd, true) < 0)
		err = -errno;
	else
		err = persistent_output__check_room(fd);

	perf_session__delete(output->session);
	output->session = NULL;
	if (close(fd) && !err)
		err = -errno;
	return err;
}

/* As perf record does, the file that was there is kept as PATH.old. */
static int persistent_output__rename(struct persistent_output *output)
{
	struct stat st;
	char *old;
	int err = 0;

	if (!stat(output->path, &st) && st.st_size) {
		if (asprintf(&old, "%s.old", output->path) < 0)
			return -ENOMEM;
		if (rename(output->path, old))
			err = -errno;
		free(old);
	}
	if (!err && rename(output->partial, output->path))
		err = -errno;
	return err;
}

int persistent_output__close(struct persistent_output *output)
{
	int err = persistent_output__finish(output);

	if (!err)
		err = persistent_output__rename(output);
	if (err) {
		persistent_output__error(output, -err);
		persistent_output__abort(output);
		return err;
	}
	zfree(&output->partial);
	zfree(&output->base_lost);
	return 0;
}

void persistent_output__abort(struct persistent_output *output)
{
	if (output->session)
		perf_session__delete(output->session);
	output->session = NULL;
	if (output->partial)
		unlink(output->partial);
	zfree(&output->partial);
	zfree(&output->base_lost);
}
