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
#include "clockid.h"
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
	if (!have_tracepoints(&evlist__core(output->evlist)->entries))
		perf_header__clear_feat(header, HEADER_TRACING_DATA);
#endif
	if (!output->opts.use_clockid) {
		perf_header__clear_feat(header, HEADER_CLOCKID);
		perf_header__clear_feat(header, HEADER_CLOCK_DATA);
	}
	if (!evlist__nr_groups(output->evlist))
		perf_header__clear_feat(header, HEADER_GROUP_DESC);
	perf_header__clear_feat(header, HEADER_BUILD_ID);
	perf_header__clear_feat(header, HEADER_AUXTRACE);
	perf_header__clear_feat(header, HEADER_COMPRESSED);
	perf_header__clear_feat(header, HEADER_DIR_FORMAT);
	perf_header__clear_feat(header, HEADER_SAMPLE_TIME);
	perf_header__clear_feat(header, HEADER_STAT);
}

static void persistent_output__end_session(struct persistent_output *output)
{
	if (!output->session)
		return;
	perf_session__delete(output->session);
	output->session = NULL;
	perf_env__exit(&output->host_env);
}

static int persistent_output__start_session(struct persistent_output *output,
					    struct perf_data *data)
{
	struct perf_session *session;

	perf_tool__init(&output->tool, /*ordered_events=*/true);
	perf_env__init(&output->host_env);
	session = __perf_session__new(data, &output->tool, /*trace_event_repipe=*/false,
				      &output->host_env);
	if (IS_ERR(session)) {
		perf_env__exit(&output->host_env);
		return PTR_ERR(session);
	}

	output->session = session;
	session->evlist = output->evlist;
	perf_session__set_id_hdr_size(session);
	evlist__set_persistent_opts(output->evlist, &output->opts);
	output->tool.cgroup_events = output->opts.record_cgroup;
	output->tool.namespace_events = output->opts.record_namespaces;
	persistent_output__features(output);
	if (output->opts.use_clockid &&
	    perf_env__init_clock(perf_session__env(session), output->opts.clockid,
				 output->opts.clockid_res_ns))
		return -errno;
	return 0;
}

int persistent_output__open(struct persistent_output *output, struct evlist *evlist,
			    const char *path)
{
	int err;

	*output = (struct persistent_output) {
		.evlist	= evlist,
		.path	= path,
		.data	= { .mode = PERF_DATA_MODE_WRITE },
	};
	err = evlist__check_persistent_formats(evlist) ?: persistent_output__create(output);
	if (err)
		return err;

	output->data.path = output->partial;
	err = persistent_output__start_session(output, &output->data);
	if (!err && perf_session__write_header(output->session, evlist,
					       perf_data__fd(&output->data), false) < 0)
		err = -errno;
	if (err) {
		persistent_output__error(output, -err);
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

	err = perf_event__synthesize_cpu_map(tool, evlist__core(output->evlist)->all_cpus,
					     persistent_output__put_event, machine);
	if (!err)
		err = __machine__synthesize_threads(machine, tool, &target,
						    evlist__core(output->evlist)->threads,
						    persistent_output__put_event,
						    /*needs_mmap=*/true, /*data_mmap=*/false,
						    /*nr_threads_synthesize=*/1);
	if (!err && perf_event__synthesize_cgroups(tool, persistent_output__put_event, machine) < 0)
		pr_warning("cgroups cannot be read, so their names will be missing\n");
	if (!err)
		err = persistent_output__put(output, &finished_init, sizeof(finished_init));
	return err;
}

/*
 * What cannot be finished, because more is appended to it, is as what goes through
 * a pipe.
 */
int persistent_output__append(struct persistent_output *output, struct evlist *evlist,
			      const char *path, int fd)
{
	int err;

	*output = (struct persistent_output) {
		.evlist	= evlist,
		.path	= path,
		.data	= { .mode = PERF_DATA_MODE_WRITE, .is_pipe = true, .file.fd = fd },
	};
	err = persistent_output__start_session(output, NULL);
	if (err)
		return persistent_output__error(output, -err);
	if (lseek(fd, 0, SEEK_CUR) > 0)
		return 0;

	if (perf_header__write_pipe(fd) < 0)
		return persistent_output__error(output, errno);
	err = perf_event__synthesize_for_pipe(&output->tool, output->session, &output->data,
					      persistent_output__put_event);
	return err < 0 ? err : persistent_output__synthesize(output);
}

int persistent_output__write(struct persistent_output *output, struct persistent_reader *reader)
{
	int err;

	for (int i = 0; i < reader->nr; i++) {
		struct persistent_buffer *buffer = &reader->buffers[i];

		output->samples += buffer->samples;
		err = persistent_output__put(output, buffer->data, buffer->len);
		if (err)
			return err;
	}
	return persistent_output__put(output, &finished_round, sizeof(finished_round));
}

int persistent_output__put_lost(struct persistent_output *output, struct evsel *evsel,
				u64 id, u64 nr)
{
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

/*
 * The samples that the kernel had no room for; the reader's own way of losing
 * them, by overwriting, is another.
 */
int persistent_output__write_lost(struct persistent_output *output)
{
	struct persistent_instance *instance;
	int err, idx, thread;
	struct evsel *evsel;
	u64 lost;

	evlist__for_each_entry(output->evlist, evsel) {
		evsel__for_each_persistent(evsel, idx, thread, instance) {
			err = evsel__persistent_lost(evsel, idx, thread, &lost);
			if (!err && lost)
				err = persistent_output__put_lost(output, evsel,
								  instance->info.event_id, lost);
			if (err)
				return err;
			output->lost += lost;
		}
	}
	return 0;
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

	persistent_output__end_session(output);
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
	return 0;
}

void persistent_output__abort(struct persistent_output *output)
{
	persistent_output__end_session(output);
	if (output->partial)
		unlink(output->partial);
	zfree(&output->partial);
}
