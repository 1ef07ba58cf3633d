// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent dump: write snapshots of running sessions, each to a perf.data.
 */
#include "cmd.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <subcmd/parse-options.h>
#include "debug.h"
#include "output.h"
#include "reader.h"
#include "registry.h"
#include "start.h"
#include "strbuf.h"
#include "symbol.h"

static struct persistent_output dump_output;

/* An interrupted snapshot leaves no file behind. */
static void dump__interrupted(int sig)
{
	if (dump_output.partial[0])
		unlink(dump_output.partial);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void dump__report(struct persistent_reader *reader, const char *name, u32 id)
{
	struct persistent_output *output = &dump_output;

	pr_info("[ perf persistent dump: wrote %.3f MB %s (%llu samples) of %s, id %u ]\n",
		output->bytes / 1024.0 / 1024.0, output->path,
		(unsigned long long)output->samples, name, id);
	if (reader->left_out)
		pr_info("[ older samples left out: %llu ]\n",
			(unsigned long long)reader->left_out);
	persistent_reader__print_losses(reader, output->lost);
}

static int dump__write(const struct persistent_dump *dump, struct persistent_reader *reader,
		       const char *path)
{
	int err = persistent_output__open(&dump_output, reader->evlist, path);
	u64 size = 0;

	dump_output.cache_build_ids = !dump->no_buildid_cache;
	err = err ?:
	      persistent_reader__read(reader) ?:
	      persistent_output__synthesize(&dump_output) ?:
	      persistent_output__write_lost(&dump_output);
	if (!err && dump->max_size)
		err = persistent_output__measure(&dump_output, &size);
	if (!err && (dump->last || dump->max_size))
		err = persistent_reader__keep_newest(reader, dump->last, size, dump->max_size);
	if (!err) {
		persistent_reader__find_horizon(reader);
		err = persistent_output__write(&dump_output, reader) ?:
		      persistent_output__close(&dump_output);
	}
	persistent_output__exit(&dump_output);
	return err;
}

/* The first %n that is not part of %%n, or NULL */
static const char *dump__find_name(const char *format)
{
	while ((format = strchr(format, '%')) && format[1] != 'n')
		format += format[1] ? 2 : 1;
	return format;
}

/* A session name has no % in it, so strftime() leaves it alone. */
static int dump__expand_path(const struct persistent_dump *dump, const char *name, char *path,
			     size_t size)
{
	const char *format = dump->path;
	struct strbuf sb = STRBUF_INIT;
	time_t now = time(NULL);
	const char *found;
	struct tm tm;
	int err = 0;

	while (!err && (found = dump__find_name(format))) {
		err = strbuf_addf(&sb, "%.*s%s", (int)(found - format), format, name);
		format = found + 2;
	}
	if (!err)
		err = strbuf_addstr(&sb, format);
	if (!err && (!localtime_r(&now, &tm) || !strftime(path, size, sb.buf, &tm))) {
		pr_err("invalid file name '%s' for %s\n", sb.buf, dump->option);
		err = -EINVAL;
	}
	strbuf_release(&sb);
	return err;
}

/* Returns 0, or a negative error after printing a message. */
int persistent_dump__run(const struct persistent_dump *dump, u32 id)
{
	char name[PERF_PERSISTENT_NAME_MAX], path[PATH_MAX];
	struct persistent_reader reader = {};
	int err;

	persistent__name_or_id(id, name);
	err = dump__expand_path(dump, name, path, sizeof(path)) ?:
	      persistent_reader__open(&reader, id) ?:
	      dump__write(dump, &reader, path);
	if (!err)
		dump__report(&reader, name, id);
	persistent_reader__close(&reader);
	return err;
}

static int dump__run_id(u32 id, void *arg)
{
	const struct persistent_dump *dump = arg;
	char name[PERF_PERSISTENT_NAME_MAX];
	int err;

	if (dump->all && !persistent__number(id, "buffer_bytes"))
		return 0;
	err = persistent_dump__run(dump, id);
	/* With --all, leave out a session that has ended since it was listed. */
	if (err && dump->all && !persistent__name(id, name))
		return 0;
	return err ?: 1;
}

/* Returns 0, or a negative error after printing a message. */
int persistent_dump__prepare(struct persistent_dump *dump, bool several)
{
	bool to_stdout = !strcmp(dump->path, "-");
	sigset_t ends;

	if (several && !dump__find_name(dump->path)) {
		pr_err("%s %s: each session needs a file of its own, use %s %s.%%n\n",
		       dump->option, dump->path, dump->option,
		       to_stdout ? "perf.data" : dump->path);
		return -EINVAL;
	}
	if (to_stdout && persistent_output__check_stdout(dump->option))
		return -EINVAL;

	symbol__init(NULL);
	persistent__end_signals(&ends);
	for (int sig = 1; sig < NSIG; sig++) {
		if (sigismember(&ends, sig))
			signal(sig, dump__interrupted);
	}
	/* The reader of messages may leave. */
	if (!to_stdout)
		signal(SIGPIPE, SIG_IGN);
	return 0;
}

int persistent_cmd__dump(int argc, const char **argv, const char * const usage[])
{
	struct persistent_dump dump = { .option = "-o", .no_buildid_cache = true };
	const struct option options[] = {
		OPT_STRING('o', "output", &dump.path, "file",
			   "output file name (default: perf.data, or perf.data.%n), - for stdout"),
		OPT_BOOLEAN(0, "all", &dump.all, "dump all sessions that have buffers"),
		OPT_CALLBACK(0, "last", &dump.last, "time",
			     "only the samples of the last <time>, e.g. 30s",
			     persistent_option__time),
		OPT_CALLBACK(0, "max-size", &dump.max_size, "size",
			     "only the newest samples that fit, e.g. 10M",
			     persistent_option__size),
		OPT_BOOLEAN('N', "no-buildid-cache", &dump.no_buildid_cache,
			    "do not update the buildid cache (default; --buildid-cache does)"),
		OPT_INCR('v', "verbose", &verbose, "be more verbose"),
		OPT_BOOLEAN('q', "quiet", &quiet, "do not print the summary and the progress"),
		OPT_END()
	};
	int err, done = 0;
	bool several;

	argc = parse_options(argc, argv, options, usage, 0);
	if (dump.all == !!argc)
		usage_with_options_msg(usage, options, "give either names or --all");
	several = dump.all || argc > 1;
	if (!dump.path)
		dump.path = several ? "perf.data.%n" : "perf.data";
	if (quiet)
		perf_quiet_option();
	err = persistent_dump__prepare(&dump, several) ?:
	      persistent__each(argc, argv, dump__run_id, &dump, &done);
	if (!done && !err)
		pr_info("no session has a buffer, so nothing was written\n");
	return err;
}
