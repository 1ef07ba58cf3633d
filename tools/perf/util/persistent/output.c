// SPDX-License-Identifier: GPL-2.0
/*
 * Write the records of a session to a perf.data.
 */
#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/time64.h>
#include <sys/stat.h>
#include "build-id.h"
#include "clockid.h"
#include "debug.h"
#include "event.h"
#include "evlist.h"
#include "evsel.h"
#include "header.h"
#include "machine.h"
#include "reader.h"
#include "reopen.h"
#include "sample.h"
#include "session.h"
#include "symbol_conf.h"
#include "synthetic-events.h"
#include "target.h"
#include "time-utils.h"
#include "trace-event.h"

/* Maximum size of one write */
#define PIECE	(1 << 20)

/* Print and return the first error: others only follow from it. */
static int persistent_output__error(struct persistent_output *output, int err)
{
	if (!output->err) {
		output->err = -err ?: -EIO;
		pr_err("cannot write %s: %s\n", output->path, strerror(-output->err));
	}
	return output->err;
}

static int persistent_output__put(struct persistent_output *output, void *data, size_t size)
{
	if (output->err)
		return output->err;
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
		pr_err("cannot write %s: it exists and is not a regular file\n", output->path);
		return -EINVAL;
	}

	snprintf(output->partial, sizeof(output->partial), "%s.XXXXXX", output->path);
	fd = mkstemp(output->partial);
	if (fd < 0) {
		output->partial[0] = '\0';
		return persistent_output__error(output, errno);
	}
	close(fd);
	return 0;
}

/*
 * Mmap records have the build ids, so the file need not be read again to collect them.
 * Leave out features that only the recording process could write.
 */
static void persistent_output__features(struct persistent_output *output)
{
	struct perf_header *header = &output->session->header;

	for (int feat = HEADER_FIRST_FEATURE; feat < HEADER_LAST_FEATURE; feat++)
		perf_header__set_feat(header, feat);

	if (!(evlist__combined_sample_type(output->evlist) & PERF_SAMPLE_BRANCH_STACK))
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

/* More is appended to a log, so its header is never finished: use the pipe format. */
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
	return err ? persistent_output__error(output, -err) : 0;
}

/* In a pipe or a log, the ids of all instances of a member are in one record. */
int evlist__check_persistent_pipe(struct evlist *evlist)
{
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		u32 max = (UINT16_MAX - sizeof(struct perf_event_header) -
			   evsel->core.attr.size) / sizeof(u64);

		if (evsel->core.ids <= max)
			continue;
		pr_err("%s has %u instances, and a log or a pipe can have %u: use 'perf persistent dump -o <file>' or 'perf record --consume -o <file>'\n",
		       evsel__name(evsel), evsel->core.ids, max);
		return -E2BIG;
	}
	return 0;
}

/* The beginning of a perf.data in a pipe or a log */
int persistent_output__begin_pipe(struct persistent_output *output)
{
	int err;

	if (perf_header__write_pipe(perf_data__fd(&output->data)) < 0)
		return persistent_output__error(output, errno);
	output->bytes += sizeof(struct perf_pipe_file_header);
	errno = 0;
	err = perf_event__synthesize_for_pipe(&output->tool, output->session, &output->data,
					      persistent_output__put_event);
	if (err < 0)
		return persistent_output__error(output, errno ?: EIO);
	/* The formats of tracepoints, which were written directly to the file */
	output->bytes += err;
	return 0;
}

/* Binary data makes a terminal unusable. */
int persistent_output__check_stdout(const char *option)
{
	if (!isatty(STDOUT_FILENO))
		return 0;
	pr_err("%s -: standard output is a terminal: redirect it, or append '| perf script -i -'\n",
	       option);
	return -EINVAL;
}

int persistent_output__open(struct persistent_output *output, struct evlist *evlist,
			    const char *path)
{
	int err = evlist__check_persistent_formats(evlist);

	if (err)
		return err;
	if (!strcmp(path, "-"))
		return evlist__check_persistent_pipe(evlist) ?:
		       persistent_output__append(output, evlist, "standard output",
						 STDOUT_FILENO) ?:
		       persistent_output__begin_pipe(output);

	*output = (struct persistent_output) {
		.evlist	= evlist,
		.path	= path,
		.data	= { .mode = PERF_DATA_MODE_WRITE },
		.told	= rdclock(),
	};
	err = persistent_output__create(output);
	if (err)
		return err;

	output->data.path = output->partial;
	err = persistent_output__start_session(output, &output->data);
	if (!err && perf_session__write_header(output->session, evlist,
					       perf_data__fd(&output->data), false) < 0)
		err = -errno ?: -EIO;
	return err ? persistent_output__error(output, -err) : 0;
}

static int persistent_output__put_header(struct persistent_output *output, u32 type)
{
	struct perf_event_header header = { .size = sizeof(header), .type = type };

	return persistent_output__put(output, &header, sizeof(header));
}

/*
 * Synthesize the kernel's maps and the existing tasks: the session only has events since
 * its start. These records have no time, so they come before all others; a recorded fork
 * of a task replaces them.
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
		return persistent_output__error(output, EIO);

	if (!evlist__exclude_kernel(output->evlist)) {
		if ((perf_event__synthesize_kernel_mmap(tool, persistent_output__put_event,
							machine) < 0 ||
		     perf_event__synthesize_modules(tool, persistent_output__put_event,
						    machine) < 0) && !output->err)
			pr_warning("kernel addresses cannot be read (kernel.kptr_restrict, kernel.perf_event_paranoid), so kernel symbols will be missing\n");
		if (perf_event__synthesize_bpf_events(output->session, persistent_output__put_event,
						      machine, &output->opts) < 0 && !output->err)
			pr_warning("BPF programs cannot be read, so they will have no symbols\n");
	}

	err = perf_event__synthesize_cpu_map(tool, evlist__core(output->evlist)->all_cpus,
					     persistent_output__put_event, machine);
	if (!err)
		err = __machine__synthesize_threads(machine, tool, &target,
						    evlist__core(output->evlist)->threads,
						    persistent_output__put_event,
						    /*needs_mmap=*/true,
						    output->opts.record_data_mmap,
						    /*nr_threads_synthesize=*/1);
	if (!err && perf_event__synthesize_cgroups(tool, persistent_output__put_event,
						   machine) < 0 && !output->err)
		pr_warning("cgroups cannot be read, so their names will be missing\n");
	return err ? persistent_output__error(output, EIO) :
		     persistent_output__put_header(output, PERF_RECORD_FINISHED_INIT);
}

/* persistent_output__put_lost() reports all side-band that was lost. */
static bool evlist__is_not_lost(struct evlist *evlist __maybe_unused, union perf_event *event,
				u64 arg __maybe_unused)
{
	return event->header.type != PERF_RECORD_LOST;
}

/* Count samples, and note times for options that take a percentage, like perf script --time. */
static void persistent_output__note_samples(struct persistent_output *output,
					    struct persistent_buffer *buffer)
{
	struct evlist *evlist = output->evlist;
	u64 first = evlist__first_sample_time(evlist), last = evlist__last_sample_time(evlist);

	persistent_buffer__for_each(buffer, event) {
		u64 time;

		if (event->header.type != PERF_RECORD_SAMPLE)
			continue;
		output->samples++;
		time = persistent_event__time(evlist, event);
		if (!first || time < first)
			first = time;
		last = max(last, time);
	}
	evlist__set_first_sample_time(evlist, first);
	evlist__set_last_sample_time(evlist, last);
}

/* Write in pieces. Report progress every second, but not to a pipe: its reader does that. */
static int persistent_output__put_buffer(struct persistent_output *output,
					 struct persistent_buffer *buffer, u64 total)
{
	int err = 0;

	for (u64 pos = 0; pos < buffer->len && !err; pos += PIECE) {
		u64 now = rdclock();

		if (!quiet && !output->data.is_pipe && now >= output->told + NSEC_PER_SEC) {
			output->told = now;
			fprintf(stderr, "[ perf persistent dump: %.3f of %.3f MB written ]\n",
				output->bytes / 1048576.0, total / 1048576.0);
		}
		err = persistent_output__put(output, buffer->data + pos,
					     min_t(u64, buffer->len - pos, PIECE));
	}
	return err;
}

int persistent_output__write(struct persistent_output *output, struct persistent_reader *reader)
{
	u64 total = output->bytes;
	int err;

	persistent_reader__for_each(reader, buffer)
		total += buffer->len;
	persistent_reader__for_each(reader, buffer) {
		if (buffer->consumes)
			persistent_buffer__leave_out_others(buffer);
		if (buffer->side_band)
			persistent_buffer__keep(buffer, evlist__is_not_lost, 0);
		persistent_output__note_samples(output, buffer);
		err = persistent_output__put_buffer(output, buffer, total);
		if (err)
			return err;
	}
	return persistent_output__put_header(output, PERF_RECORD_FINISHED_ROUND);
}

/*
 * Report lost samples and lost side-band with different types of records: the profile is
 * as exact without the name of a task.
 */
int persistent_output__put_lost(struct persistent_output *output, struct evsel *evsel,
				u64 id, u64 nr)
{
	struct perf_sample sample = { .id = id, .stream_id = id };
	struct {
		struct perf_event_header header;
		__u64			 values[2 + MAX_ID_HDR_ENTRIES];
	} record = {};
	int nr_values = 0;

	if (evsel__is_dummy_event(evsel)) {
		output->lost_side_band += nr;
		record.header.type = PERF_RECORD_LOST;
		record.values[nr_values++] = id;
	} else {
		output->lost += nr;
		record.header.type = PERF_RECORD_LOST_SAMPLES;
	}
	record.values[nr_values++] = nr;
	record.header.size = sizeof(record.header) + nr_values * sizeof(__u64) +
		perf_event__synthesize_id_sample(&record.values[nr_values],
						 evsel->core.attr.sample_type, &sample);
	return persistent_output__put(output, &record, record.header.size);
}

/*
 * Report records that the kernel dropped, buffer full. Records that were overwritten before
 * they were read are reported separately.
 */
int persistent_output__write_lost(struct persistent_output *output)
{
	u64 lost;
	int err;

	evlist__for_each_persistent(output->evlist, it) {
		err = evsel__persistent_lost_records(it.evsel, it.idx, it.thread, &lost);
		if (!err && lost)
			err = persistent_output__put_lost(output, it.evsel,
							  it.instance->info.event_id, lost);
		if (err)
			return err;
	}
	return 0;
}

/*
 * A feature that cannot be written to the end of the file is silently left out, so check
 * whether there is room left.
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

/*
 * The size of the file so far, including the features at its end, which do not depend on
 * what else is written.
 */
int persistent_output__measure(struct persistent_output *output, u64 *size)
{
	struct perf_header *header = &output->session->header;
	int fd = perf_data__fd(&output->data);
	struct stat st;

	if (output->data.is_pipe) {
		*size = output->bytes + sizeof(struct perf_event_header);
		return 0;
	}

	header->data_size = output->bytes;
	if (perf_session__write_header(output->session, output->evlist, fd, true) < 0 ||
	    fstat(fd, &st) || ftruncate(fd, header->data_offset + output->bytes) ||
	    lseek(fd, 0, SEEK_END) < 0)
		return persistent_output__error(output, errno);
	*size = st.st_size + sizeof(struct perf_event_header);
	return 0;
}

/* The maps of the kernel exist from the beginning. */
static int persistent_output__process_mmap(const struct perf_tool *tool, union perf_event *event,
					   struct perf_sample *sample, struct machine *machine)
{
	if (!(event->header.misc & PERF_RECORD_MISC_USER))
		return 0;
	return event->header.type == PERF_RECORD_MMAP2 ?
	       perf_event__process_mmap2(tool, event, sample, machine) :
	       perf_event__process_mmap(tool, event, sample, machine);
}

/*
 * As perf record does at its end, read the file to find objects with samples. Skip objects
 * that have gone or cannot be read.
 */
static void persistent_output__cache_build_ids(struct persistent_output *output)
{
	struct perf_tool *tool = &output->tool;

	tool->sample = build_id__mark_dso_hit;
	tool->fork = perf_event__process_fork;
	tool->exit = perf_event__process_exit;
	tool->comm = perf_event__process_comm;
	tool->namespaces = perf_event__process_namespaces;
	tool->mmap = persistent_output__process_mmap;
	tool->mmap2 = persistent_output__process_mmap;
	symbol_conf.inline_name = false;
	symbol_conf.ignore_vmlinux_buildid = true;
	if (perf_session__process_events(output->session) ||
	    perf_session__cache_build_ids(output->session))
		pr_warning("not all objects of %s are in the build-id cache\n", output->path);
}

/* Some file systems report a full disk only at the last close. */
static int persistent_output__finish(struct persistent_output *output)
{
	struct perf_header *header = &output->session->header;
	int err, fd = dup(perf_data__fd(&output->data));

	if (fd < 0)
		return -errno;

	if (!evlist__last_sample_time(output->evlist))
		perf_header__clear_feat(header, HEADER_SAMPLE_TIME);
	header->data_size = output->bytes;
	if (perf_session__write_header(output->session, output->evlist, fd, true) < 0)
		err = -errno ?: -EIO;
	else
		err = persistent_output__check_room(fd);
	if (!err && output->cache_build_ids)
		persistent_output__cache_build_ids(output);

	persistent_output__end_session(output);
	if (close(fd) && !err)
		err = -errno;
	return err;
}

/* As perf record does, keep an existing file as PATH.old. */
static int persistent_output__keep_old(struct persistent_output *output)
{
	struct stat st;
	char *old;
	int err = 0;

	if (stat(output->path, &st) || !st.st_size)
		return 0;
	if (asprintf(&old, "%s.old", output->path) < 0)
		return persistent_output__error(output, ENOMEM);

	if (rename(output->path, old)) {
		err = -errno;
		pr_err("cannot rename %s to %s: %m; nothing was written\n",
		       output->path, old);
	}
	free(old);
	return err;
}

int persistent_output__close(struct persistent_output *output)
{
	int err;

	if (output->data.is_pipe)
		return 0;

	err = persistent_output__finish(output);
	if (err)
		return persistent_output__error(output, -err);
	err = persistent_output__keep_old(output);
	if (err)
		return err;
	if (rename(output->partial, output->path))
		return persistent_output__error(output, errno);
	output->partial[0] = '\0';
	return 0;
}

/* Also after an error; a file that was not closed is removed. */
void persistent_output__exit(struct persistent_output *output)
{
	persistent_output__end_session(output);
	if (output->partial[0])
		unlink(output->partial);
	output->partial[0] = '\0';
}
