// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent: commands for the sessions that the kernel keeps, see
 * util/persistent/cmd-*.c.
 */
#include "builtin.h"

#include <string.h>
#include <linux/kernel.h>
#include <subcmd/parse-options.h>
#include "util/debug.h"
#include "util/persistent/cmd.h"

static const struct {
	const char	*name;
	int		(*fn)(int argc, const char **argv, const char * const usage[]);
	const char	*usage;
} persistent_cmds[] = {
	{ "list", persistent_cmd__list,
	  "perf persistent list [[-v] [-j]|-x <separator>] [<name|id>...]|--counters\n"
	  "                                                         show sessions, their state and events",
	},
	{ "read", persistent_cmd__read,
	  "perf persistent read [-A|--per-process] [-v] [-j|-x <separator>|--openmetrics] [<name|id>...] | --exits [-j] <name|id>...\n"
	  "                                                         print the counts of sessions",
	},
	{ "dump", persistent_cmd__dump,
	  "perf persistent dump [-o <file>] [--last <time>] [--max-size <size>] [-N] [-q] [-v] <name|id>...|--all\n"
	  "                                                         write a snapshot of running sessions to a perf.data",
	},
	{ "flush", persistent_cmd__flush,
	  "perf persistent flush -o <log> [--max-size <size>] [--max-age <time>] [--keep <n>|--until-full] [-q] [-v] <name|id>\n"
	  "                                                         move the records of a discard session to a log, to make room",
	},
	{ "status", persistent_cmd__status,
	  "perf persistent status [-j] [-i <log>] [--state <file>] <name|id>...   show whether sessions run, are full or lost samples",
	},
	{ "enable", persistent_cmd__control,
	  "perf persistent enable [--event <event>] <name|id>...|--mine|--all   start counting and sampling",
	},
	{ "disable", persistent_cmd__control,
	  "perf persistent disable [--event <event>] <name|id>...|--mine|--all   stop counting and sampling",
	},
	{ "clear", persistent_cmd__control,
	  "perf persistent clear <name|id>...|--mine|--all   reset counts and buffers",
	},
	{ "add", persistent_cmd__targets,
	  "perf persistent add --pid <pid> [--descendants] <name|id>\n"
	  "                                                         measure more processes",
	},
	{ "drop", persistent_cmd__targets,
	  "perf persistent drop --pid <pid> [--descendants] <name|id>\n"
	  "                                                         stop measuring processes",
	},
	{ "set", persistent_cmd__set,
	  "perf persistent set [--name <name>] [--ttl <time>] [--mode <mode>] [--owner <user>] [--group <group>]\n"
	  "                           [--event <event>] [--filter <filter> | --add-filter <filter> | --drop-filter] [--period <n> | --freq <n>] <name|id>\n"
	  "                                                         change name, ttl, mode, owner, group, filter or rate",
	},
	{ "mark", persistent_cmd__mark,
	  "perf persistent mark <name|id> <text>             write a text to the buffers of sessions that record perf_persistent:persistent_mark",
	},
	{ "reserve", persistent_cmd__reserve,
	  "perf persistent reserve [-d] [-v] [--pmu <pmu>] [<name|id>...] [--] [<command>]\n"
	  "                                                         free the counters of sessions while a command runs",
	},
	{ "stop", persistent_cmd__control,
	  "perf persistent stop [--dump <file> [-N]] <name|id>...|--mine|--all   end sessions",
	},
};

int cmd_persistent(int argc, const char **argv)
{
	const char *names[ARRAY_SIZE(persistent_cmds) + 1] = {};
	const char *usage[ARRAY_SIZE(persistent_cmds) + 1] = {};
	const struct option options[] = {
		OPT_END()
	};

	for (size_t i = 0; i < ARRAY_SIZE(persistent_cmds); i++) {
		names[i] = persistent_cmds[i].name;
		usage[i] = persistent_cmds[i].usage;
	}

	argc = parse_options_subcommand(argc, argv, options, names, usage,
					PARSE_OPT_STOP_AT_NON_OPTION);
	if (!argc)
		usage_with_options(usage, options);

	for (size_t i = 0; i < ARRAY_SIZE(persistent_cmds); i++) {
		const char * const one[] = { usage[i], NULL };
		int ret;

		if (strcmp(names[i], argv[0]))
			continue;
		ret = persistent_cmds[i].fn(argc, argv, one);
		return ret < 0 ? 1 : ret;
	}
	pr_err("unknown subcommand '%s' (see 'perf persistent -h')\n", argv[0]);
	return 1;
}
