// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent: what is done to the sessions that the kernel keeps, each in a
 * util/persistent/cmd-*.c.
 */
#include "builtin.h"

#include <string.h>
#include <linux/kernel.h>
#include <subcmd/parse-options.h>
#include "util/debug.h"
#include "util/persistent/cmd.h"

static const struct persistent_cmd * const persistent_cmds[] = {
	&persistent_cmd_list,
	&persistent_cmd_read,
	&persistent_cmd_dump,
	&persistent_cmd_flush,
	&persistent_cmd_status,
	&persistent_cmd_enable,
	&persistent_cmd_disable,
	&persistent_cmd_clear,
	&persistent_cmd_add,
	&persistent_cmd_drop,
	&persistent_cmd_set,
	&persistent_cmd_mark,
	&persistent_cmd_reserve,
	&persistent_cmd_stop,
};

int cmd_persistent(int argc, const char **argv)
{
	const char *names[ARRAY_SIZE(persistent_cmds) + 1] = {};
	const char *usage[ARRAY_SIZE(persistent_cmds) + 1] = {};
	const struct option options[] = {
		OPT_END()
	};

	for (size_t i = 0; i < ARRAY_SIZE(persistent_cmds); i++) {
		names[i] = persistent_cmds[i]->name;
		usage[i] = persistent_cmds[i]->usage;
	}

	argc = parse_options_subcommand(argc, argv, options, names, usage,
					PARSE_OPT_STOP_AT_NON_OPTION);
	if (!argc)
		usage_with_options(usage, options);

	for (size_t i = 0; i < ARRAY_SIZE(persistent_cmds); i++) {
		int ret;

		if (strcmp(names[i], argv[0]))
			continue;
		ret = persistent_cmds[i]->fn(argc, argv);
		return ret < 0 ? 1 : ret;
	}
	pr_err("unknown subcommand '%s' (see 'perf persistent -h')\n", argv[0]);
	return 1;
}
