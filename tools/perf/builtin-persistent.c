// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent: list, read, dump, flush, pause and stop the recordings that the
 * kernel keeps.
 */
#include "builtin.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <linux/kernel.h>
#include <subcmd/parse-options.h>
#include "util/debug.h"
#include "util/persistent.h"
#include "util/persistent-control.h"
#include "util/persistent-dump.h"
#include "util/persistent-flush.h"
#include "util/persistent-list.h"
#include "util/symbol.h"

static const char * const persistent_subcommands[] = {
	"list", "read", "dump", "flush", "pause", "resume", "stop", NULL
};

static const char * const persistent_usage[] = {
	"perf persistent list [-v] [-j|-x <separator>]    show what the kernel keeps, and whose it is",
	"perf persistent read [-A] [-j|-x <separator>] <name|id>...\n"
	"                                                         print what has been counted",
	"perf persistent dump [-o <file>] <name|id>       write a snapshot of one, which goes on, to a perf.data",
	"perf persistent flush -o <log> <name|id>         move what one until full holds to a log, so that it has room",
	"perf persistent pause <name|id>...               neither count nor sample until they are resumed",
	"perf persistent resume <name|id>...              go on with what was paused",
	"perf persistent stop <name|id>...|--mine|--all   end some of them",
	NULL
};

enum { USAGE_LIST, USAGE_READ, USAGE_DUMP, USAGE_FLUSH, USAGE_PAUSE, USAGE_RESUME, USAGE_STOP };

static int check_print(struct persistent_print *print)
{
	if (!print->separator)
		return 0;
	if (print->json) {
		pr_err("-j and -x cannot be used together\n");
		return -EINVAL;
	}
	if (!strcmp(print->separator, "\\t"))
		print->separator = "\t";
	return 0;
}

static int cmd_persistent_list(int argc, const char **argv)
{
	struct persistent_print print = {};
	const struct option options[] = {
		OPT_INCR('v', "verbose", &verbose, "show each event, and what there is of it"),
		OPT_BOOLEAN('j', "json", &print.json, "print JSON"),
		OPT_STRING('x', "field-separator", &print.separator, "separator",
			   "print a line for each, with the values separated by this"),
		OPT_END()
	};
	const char * const usage[] = { persistent_usage[USAGE_LIST], NULL };

	argc = parse_options(argc, argv, options, usage, 0);
	if (argc)
		usage_with_options(usage, options);
	if (check_print(&print))
		return -EINVAL;

	print.details = verbose > 0;
	return persistent__list(&print);
}

static int cmd_persistent_read(int argc, const char **argv)
{
	struct persistent_print print = {};
	const struct option options[] = {
		OPT_BOOLEAN('A', "no-aggr", &print.no_aggr,
			    "print the count of each CPU, task or cgroup instead of their sum"),
		OPT_BOOLEAN('j', "json", &print.json, "print JSON"),
		OPT_STRING('x', "field-separator", &print.separator, "separator",
			   "print a line for each count, with the values separated by this"),
		OPT_INCR('v', "verbose", &verbose, "print the events for side-band, too"),
		OPT_END()
	};
	const char * const usage[] = { persistent_usage[USAGE_READ], NULL };

	argc = parse_options(argc, argv, options, usage, 0);
	if (!argc)
		usage_with_options(usage, options);
	if (check_print(&print))
		return -EINVAL;

	print.details = verbose > 0;
	return persistent__read_counts(argc, argv, &print);
}

static int cmd_persistent_dump(int argc, const char **argv)
{
	const char *path = "perf.data";
	const struct option options[] = {
		OPT_STRING('o', "output", &path, "file", "output file name (default: perf.data)"),
		OPT_INCR('v', "verbose", &verbose, "be more verbose"),
		OPT_BOOLEAN('q', "quiet", &quiet, "do not print the summary and the progress"),
		OPT_END()
	};
	const char * const usage[] = { persistent_usage[USAGE_DUMP], NULL };
	int id;

	argc = parse_options(argc, argv, options, usage, 0);
	if (argc != 1)
		usage_with_options(usage, options);
	if (!strcmp(path, "-")) {
		pr_err("-o -: a snapshot cannot be written to a pipe yet\n");
		return -EINVAL;
	}

	id = persistent__find(argv[0]);
	if (id < 0)
		return id;

	if (quiet)
		perf_quiet_option();
	symbol__init(NULL);
	return persistent__write_dump(id, path);
}

static int cmd_persistent_flush(int argc, const char **argv)
{
	const char *path = NULL;
	const struct option options[] = {
		OPT_STRING('o', "output", &path, "log", "file to append to"),
		OPT_INCR('v', "verbose", &verbose, "be more verbose"),
		OPT_BOOLEAN('q', "quiet", &quiet, "do not print the summary"),
		OPT_END()
	};
	const char * const usage[] = { persistent_usage[USAGE_FLUSH], NULL };
	int id;

	argc = parse_options(argc, argv, options, usage, 0);
	if (argc != 1)
		usage_with_options(usage, options);
	if (!path) {
		pr_err("-o: which log is to be appended to?\n");
		return -EINVAL;
	}

	id = persistent__find(argv[0]);
	if (id < 0)
		return id;

	if (quiet)
		perf_quiet_option();
	symbol__init(NULL);
	return persistent__flush(id, path);
}

static int cmd_persistent_enable(int argc, const char **argv, const char *usage_line,
				 const struct persistent_action *action)
{
	const struct option options[] = {
		OPT_INCR('v', "verbose", &verbose, "be more verbose"),
		OPT_END()
	};
	const char * const usage[] = { usage_line, NULL };

	argc = parse_options(argc, argv, options, usage, 0);
	if (!argc)
		usage_with_options(usage, options);
	return persistent__act(action, argc, argv);
}

static int cmd_persistent_pause(int argc, const char **argv)
{
	return cmd_persistent_enable(argc, argv, persistent_usage[USAGE_PAUSE], &persistent_pause);
}

static int cmd_persistent_resume(int argc, const char **argv)
{
	return cmd_persistent_enable(argc, argv, persistent_usage[USAGE_RESUME],
				     &persistent_resume);
}

static int cmd_persistent_stop(int argc, const char **argv)
{
	bool mine = false, all = false;
	const struct option options[] = {
		OPT_BOOLEAN(0, "mine", &mine, "stop all that belong to the caller"),
		OPT_BOOLEAN(0, "all", &all, "stop all, whoever they belong to"),
		OPT_INCR('v', "verbose", &verbose, "be more verbose"),
		OPT_END()
	};
	const char * const usage[] = { persistent_usage[USAGE_STOP], NULL };

	argc = parse_options(argc, argv, options, usage, 0);
	if (mine + all + !!argc != 1)
		usage_with_options(usage, options);

	if (mine || all)
		return persistent__act_all(&persistent_stop, mine);
	return persistent__act(&persistent_stop, argc, argv);
}

int cmd_persistent(int argc, const char **argv)
{
	const struct option options[] = {
		OPT_END()
	};
	static const struct {
		const char	*name;
		int		(*fn)(int argc, const char **argv);
	} commands[] = {
		{ "list",	cmd_persistent_list },
		{ "read",	cmd_persistent_read },
		{ "dump",	cmd_persistent_dump },
		{ "flush",	cmd_persistent_flush },
		{ "pause",	cmd_persistent_pause },
		{ "resume",	cmd_persistent_resume },
		{ "stop",	cmd_persistent_stop },
	};

	argc = parse_options_subcommand(argc, argv, options, persistent_subcommands,
					(const char **)persistent_usage,
					PARSE_OPT_STOP_AT_NON_OPTION);
	if (!argc)
		usage_with_options(persistent_usage, options);

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!strcmp(commands[i].name, argv[0]))
			return commands[i].fn(argc, argv) ? 1 : 0;
	}
	pr_err("'%s' is no subcommand of perf persistent\n", argv[0]);
	usage_with_options(persistent_usage, options);
	return 1;
}
