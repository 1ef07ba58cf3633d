// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent stop, disable and enable: what is done to each event of a session.
 */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <subcmd/parse-options.h>
#include "debug.h"
#include "info.h"
#include "registry.h"

/* What is done to a session as a whole */
struct persistent_action {
	const char	*verb;
	const char	*done;
	int		(*fn)(struct persistent_info *info);
};

static int control__stop(struct persistent_info *info)
{
	return persistent__end(info->id);
}

static bool control__has_side_band(struct persistent_info *info)
{
	for (u32 i = 0; i < info->nr_members; i++) {
		if (info->members[i].known && persistent_info__is_side_band(info, i))
			return true;
	}
	return false;
}

/*
 * No sample without the side-band that says what its task is called: that is
 * enabled first and disabled last. All the rest follows at once.
 */
static int control__set(struct persistent_info *info, u32 flags)
{
	bool ordered = control__has_side_band(info), enable = flags & PERF_PERSISTENT_SET_ENABLE;
	struct perf_persistent_set set = { .flags = flags };
	int err = 0, fd = persistent__open_any(info->id);

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;

	for (u32 i = 0; ordered && i < info->nr_members; i++) {
		if (!info->members[i].known || persistent_info__is_side_band(info, i) != enable)
			continue;
		set.member = i + 1;
		err = persistent__set(fd, &set);
		/* This member has gone, others may be there. */
		if (err && err != -ENOENT)
			break;
		err = 0;
	}
	set.member = 0;
	if (!err)
		err = persistent__set(fd, &set);
	close(fd);
	/* Somebody else has stopped it meanwhile. */
	return err == -ENOENT || err == -EINVAL ? 0 : err;
}

static int control__disable(struct persistent_info *info)
{
	return control__set(info, PERF_PERSISTENT_SET_DISABLE);
}

static int control__enable(struct persistent_info *info)
{
	return control__set(info, PERF_PERSISTENT_SET_ENABLE);
}

static const struct persistent_action action_stop = { "stop", "stopped", control__stop };
static const struct persistent_action action_disable = { "disable", "disabled", control__disable };
static const struct persistent_action action_enable = { "enable", "enabled", control__enable };

static int persistent__act_id(const struct persistent_action *action, u32 id)
{
	struct persistent_info info;
	char buf[STRERR_BUFSIZE];
	int err = persistent_info__init(&info, id);

	if (!err) {
		err = action->fn(&info);
		persistent_info__exit(&info);
	}

	if (err)
		pr_err("cannot %s session '%s': %s\n", action->verb, info.name,
		       persistent__strerror(id, err, buf, sizeof(buf)));
	else
		printf("%s: id %u %s\n", info.name, id, action->done);
	return err;
}

static int persistent__act(const struct persistent_action *action, int argc, const char **argv,
			   bool mine)
{
	int done = 0, err;
	u32 *ids;
	int nr = persistent__choose(argc, argv, &ids, &err);

	if (nr < 0)
		return nr;

	for (int i = 0; i < nr; i++) {
		if (mine && persistent__number(ids[i], "uid") != geteuid())
			continue;
		err = persistent__act_id(action, ids[i]) ?: err;
		done++;
	}
	free(ids);
	if (!done && !argc)
		printf("no session %sto %s\n", mine ? "of yours " : "", action->verb);
	return err;
}

static int control__cmd(int argc, const char **argv, const struct persistent_cmd *cmd,
			const struct persistent_action *action)
{
	bool mine = false, all = false;
	const struct option options[] = {
		OPT_BOOLEAN(0, "mine", &mine, "all sessions that belong to the caller"),
		OPT_BOOLEAN(0, "all", &all, "all sessions, whoever they belong to"),
		OPT_INCR('v', "verbose", &verbose, "be more verbose"),
		OPT_END()
	};
	const char * const usage[] = { cmd->usage, NULL };

	argc = parse_options(argc, argv, options, usage, 0);
	if ((mine + all + !!argc) != 1)
		usage_with_options(usage, options);

	return persistent__act(action, argc, argv, mine);
}

static int disable__cmd(int argc, const char **argv)
{
	return control__cmd(argc, argv, &persistent_cmd_disable, &action_disable);
}

const struct persistent_cmd persistent_cmd_disable = {
	.name	= "disable",
	.usage	=
		"perf persistent disable <name|id>...|--mine|--all   neither count nor sample until enabled",
	.fn	= disable__cmd,
};

static int enable__cmd(int argc, const char **argv)
{
	return control__cmd(argc, argv, &persistent_cmd_enable, &action_enable);
}

const struct persistent_cmd persistent_cmd_enable = {
	.name	= "enable",
	.usage	=
		"perf persistent enable <name|id>...|--mine|--all   count and sample again",
	.fn	= enable__cmd,
};

static int stop__cmd(int argc, const char **argv)
{
	return control__cmd(argc, argv, &persistent_cmd_stop, &action_stop);
}

const struct persistent_cmd persistent_cmd_stop = {
	.name	= "stop",
	.usage	=
		"perf persistent stop <name|id>...|--mine|--all   end sessions",
	.fn	= stop__cmd,
};
