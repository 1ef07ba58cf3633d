// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent stop, clear, disable and enable: what is done to each event of a
 * session.
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
#include "change.h"
#include "cmd-dump.h"
#include "debug.h"
#include "info.h"
#include "registry.h"

/* What is done to a session: flags of SET, also of one member, or a function */
struct persistent_action {
	const char	*verb;
	const char	*done;
	u32		flags;
	int		(*fn)(struct persistent_info *info);
};

static bool control__has_side_band(struct persistent_info *info)
{
	for (u32 i = 0; i < info->nr_members; i++) {
		if (info->members[i].known && persistent_info__is_side_band(info, i))
			return true;
	}
	return false;
}

/*
 * Enable side-band first, and disable or hold it last, so that no sample lacks
 * the name of its task.
 */
static int control__set_in_order(struct persistent_info *info, int fd, int member, u32 flags)
{
	bool ordered = member < 0 && control__has_side_band(info);
	bool enable = flags & PERF_PERSISTENT_SET_ENABLE;
	struct perf_persistent_set set = { .flags = flags };
	int err = 0;

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
	set.member = member + 1;
	return err ?: persistent__set(fd, &set);
}

static int control__set(struct persistent_info *info, int member, u32 flags)
{
	int err, fd = persistent__open_session(info->id);

	if (fd < 0)
		return fd;

	err = control__set_in_order(info, fd, member, flags);
	close(fd);
	return err;
}

static int control__clear(struct persistent_info *info)
{
	int err = persistent__clear(info);

	/* The kernel tells the number of an event to those who may read it. */
	if (!err && !info->instances[0].event_id && persistent__number(info->id, "buffer_bytes"))
		pr_info("[ perf persistent clear: without the right r, buffers that discard get no room ]\n");
	return err;
}

/* What stop --dump writes; without a path, nothing. */
static struct persistent_dump stop_dump = { .option = "--dump" };

/*
 * Hold the session, so that nothing is recorded between the dump and the end.
 * If the dump fails or is killed, the session goes on when the file is closed.
 */
static int control__dump_and_stop(struct persistent_info *info)
{
	int err, fd = persistent__open_session(info->id);

	if (fd < 0)
		return fd;

	err = control__set_in_order(info, fd, -1, PERF_PERSISTENT_SET_HOLD);
	if (!err && persistent_dump__run(&stop_dump, info->id))
		err = -ECANCELED;
	if (!err)
		err = persistent__end(info->id);
	close(fd);
	return err;
}

static int control__stop(struct persistent_info *info)
{
	return stop_dump.path ? control__dump_and_stop(info) : persistent__end(info->id);
}

/* The dump itself may go to standard output. */
static FILE *control__messages(void)
{
	return stop_dump.path && !strcmp(stop_dump.path, "-") ? stderr : stdout;
}

static const struct persistent_action action_clear = {
	.verb = "clear", .done = "cleared", .fn = control__clear
};

static const struct persistent_action action_stop = {
	.verb = "stop", .done = "stopped", .fn = control__stop
};

static const struct persistent_action action_disable = {
	.verb = "disable", .done = "disabled", .flags = PERF_PERSISTENT_SET_DISABLE
};

static const struct persistent_action action_enable = {
	.verb = "enable", .done = "enabled", .flags = PERF_PERSISTENT_SET_ENABLE
};

static bool control_mine, control_all;
static const char *control_event;

static const struct option control_options[] = {
	OPT_BOOLEAN(0, "mine", &control_mine, "all sessions that belong to the caller"),
	OPT_BOOLEAN(0, "all", &control_all, "all sessions, whoever they belong to"),
	OPT_INCR('v', "verbose", &verbose, "be more verbose"),
	OPT_END()
};

static const struct option switch_options[] = {
	OPT_STRING(0, "event", &control_event, "event", "only this event, by name or number"),
	OPT_PARENT(control_options)
};

static int persistent__act_id(const struct persistent_action *action, u32 id)
{
	struct persistent_info info;
	char buf[STRERR_BUFSIZE];
	int member = -1, err = persistent_info__init_control(&info, id);

	if (!err && control_event) {
		member = persistent_info__find_member(&info, control_event);
		if (member < 0) {
			persistent_info__exit(&info);
			return member;
		}
	}
	if (!err) {
		err = action->fn ? action->fn(&info) : control__set(&info, member, action->flags);
		persistent_info__exit(&info);
	}

	/* Of all, one that ended since the list was read is left out. */
	if ((control_mine || control_all) && (err == -ENOENT || err == -ESRCH))
		return 0;
	if (err == -ECANCELED)
		pr_err("session '%s' was not dumped, so it goes on as before\n", info.name);
	else if (err)
		pr_err("cannot %s session '%s': %s\n", action->verb, info.name,
		       persistent__strerror_right(id, 'w', err, buf, sizeof(buf)));
	else
		fprintf(control__messages(), "%s: id %u %s\n", info.name, id, action->done);
	return err;
}

static int persistent__act(const struct persistent_action *action, int argc, const char **argv)
{
	int done = 0, err;
	u32 *ids;
	int nr = persistent__choose(argc, argv, &ids, &err);

	if (nr < 0)
		return nr;

	for (int i = 0; i < nr; i++) {
		if (control_mine && persistent__number(ids[i], "uid") != geteuid())
			continue;
		err = persistent__act_id(action, ids[i]) ?: err;
		done++;
	}
	free(ids);
	if (!done && !argc)
		fprintf(control__messages(), "no session %sto %s\n",
			control_mine ? "of yours " : "", action->verb);
	return err;
}

static int control__cmd(int argc, const char **argv, const struct persistent_cmd *cmd,
			const struct option *options, const struct persistent_action *action)
{
	const char * const usage[] = { cmd->usage, NULL };

	argc = parse_options(argc, argv, options, usage, 0);
	if ((control_mine + control_all + !!argc) != 1)
		usage_with_options(usage, options);
	if (stop_dump.path && persistent_dump__prepare(&stop_dump, argc != 1))
		return -EINVAL;

	return persistent__act(action, argc, argv);
}

static int disable__cmd(int argc, const char **argv)
{
	return control__cmd(argc, argv, &persistent_cmd_disable, switch_options, &action_disable);
}

const struct persistent_cmd persistent_cmd_disable = {
	.name	= "disable",
	.usage	=
		"perf persistent disable [--event <event>] <name|id>...|--mine|--all   neither count nor sample until enabled",
	.fn	= disable__cmd,
};

static int enable__cmd(int argc, const char **argv)
{
	return control__cmd(argc, argv, &persistent_cmd_enable, switch_options, &action_enable);
}

const struct persistent_cmd persistent_cmd_enable = {
	.name	= "enable",
	.usage	=
		"perf persistent enable [--event <event>] <name|id>...|--mine|--all   count and sample again",
	.fn	= enable__cmd,
};

static int clear__cmd(int argc, const char **argv)
{
	return control__cmd(argc, argv, &persistent_cmd_clear, control_options, &action_clear);
}

const struct persistent_cmd persistent_cmd_clear = {
	.name	= "clear",
	.usage	=
		"perf persistent clear <name|id>...|--mine|--all   have counts and buffers begin anew",
	.fn	= clear__cmd,
};

static int stop__cmd(int argc, const char **argv)
{
	const struct option options[] = {
		OPT_STRING(0, "dump", &stop_dump.path, "file",
			   "write all that was recorded to a perf.data first, - for stdout"),
		OPT_BOOLEAN('N', "no-buildid-cache", &stop_dump.no_buildid_cache,
			    "with --dump: do not update the buildid cache"),
		OPT_PARENT(control_options)
	};

	return control__cmd(argc, argv, &persistent_cmd_stop, options, &action_stop);
}

const struct persistent_cmd persistent_cmd_stop = {
	.name	= "stop",
	.usage	=
		"perf persistent stop [--dump <file>] <name|id>...|--mine|--all   end sessions",
	.fn	= stop__cmd,
};
