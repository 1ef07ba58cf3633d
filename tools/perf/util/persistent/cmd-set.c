// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent set and mark: change what a session is called, how long it lives, who
 * may do what with it, and how its events are filtered and sampled; and put a text into
 * the buffers.
 */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <linux/kernel.h>
#include <linux/time64.h>
#include <subcmd/parse-options.h>
#include <api/fs/fs.h>
#include "cap.h"
#include "change.h"
#include "debug.h"
#include "info.h"
#include "registry.h"
#include "start-spec.h"
#include "strbuf.h"
#include "values.h"

/* What was typed, NULL where nothing was */
struct set_options {
	const char			*name;
	const char			*ttl;
	const char			*mode;
	const char			*owner;
	const char			*group;

	struct persistent_change	change;
};

static int set__parse_setting(struct perf_persistent_set *set, const char *name, const char *str)
{
	const char *wrong = str ? persistent__parse_setting(set, name, str) : NULL;

	if (!wrong)
		return 0;
	pr_err("--%s %s: %s\n", name, str, wrong);
	return -EINVAL;
}

static int set__parse_name(struct perf_persistent_set *set, const char *str)
{
	set->flags |= PERF_PERSISTENT_SET_NAME;
	set->name = (u64)(unsigned long)str;
	return persistent_spec__check_name("--name ", str);
}

static int set__parse(struct perf_persistent_set *set, struct set_options *options)
{
	int err = persistent_change__parse(&options->change, set);

	if (!err && options->name)
		err = set__parse_name(set, options->name);
	return err ?: set__parse_setting(set, "ttl", options->ttl) ?:
		      set__parse_setting(set, "mode", options->mode) ?:
		      set__parse_setting(set, "owner", options->owner) ?:
		      set__parse_setting(set, "group", options->group);
}

static const char *set__why_not_permitted(u32 flags)
{
	if (flags & PERF_PERSISTENT_SET_UID)
		return "a new owner needs CAP_PERFMON";
	if (flags & PERF_PERSISTENT_SET_GID)
		return "needs CAP_PERFMON; without it the owner can choose one of their own groups";
	return "a new mode needs CAP_PERFMON, or to own a session started without it";
}

/* perf checked the value: the kernel only refuses it without CAP_PERFMON. */
static bool set__is_ttl_too_long(const struct perf_persistent_set *set, char *buf, size_t size)
{
	int secs;

	if (!(set->flags & PERF_PERSISTENT_SET_TTL) || perf_cap__capable(CAP_PERFMON) ||
	    sysctl__read_int("kernel/perf_event_persistent_max_ttl", &secs) ||
	    set->ttl <= (u64)secs * NSEC_PER_SEC)
		return false;

	scnprintf(buf, size,
		  "without CAP_PERFMON the ttl is at most %ds (kernel.perf_event_persistent_max_ttl)",
		  secs);
	return true;
}

static const char *set__strerror(u32 id, const struct perf_persistent_set *set,
				 const struct persistent_change *change, int err,
				 char *buf, size_t size)
{
	const char *why;

	if (err == -EEXIST) {
		scnprintf(buf, size, "the name '%s' is taken (see 'perf persistent list')",
			  (const char *)(unsigned long)set->name);
		return buf;
	}
	if (err == -EPERM && set->flags & (PERF_PERSISTENT_SET_UID | PERF_PERSISTENT_SET_GID |
					   PERF_PERSISTENT_SET_MODE))
		return set__why_not_permitted(set->flags);
	if (err == -EINVAL && set__is_ttl_too_long(set, buf, size))
		return buf;
	why = err == -EINVAL ? persistent_change__why_invalid(change, buf, size) : NULL;
	if (why)
		return why;
	return persistent__strerror_right(id, 'w', err, buf, size);
}

static int set__run(const char *str, struct perf_persistent_set *set,
		    struct persistent_change *change, const char *verb, const char *done)
{
	char name[PERF_PERSISTENT_NAME_MAX], buf[STRERR_BUFSIZE];
	int err, id = persistent__find(str);

	if (id < 0)
		return id;
	err = persistent_change__apply(change, id, set);
	if (err)
		return err;

	err = persistent__set_session(id, set);
	if (err)
		pr_err("cannot %s session '%s': %s\n", verb, str,
		       set__strerror(id, set, change, err, buf, sizeof(buf)));
	else
		printf("%s: id %d %s\n", persistent__name(id, name) ?: str, id, done);
	return err;
}

static int set__cmd(int argc, const char **argv)
{
	struct set_options values = {};
	struct perf_persistent_set set = {};
	const struct option options[] = {
		OPT_STRING(0, "name", &values.name, "name", "new name"),
		OPT_STRING(0, "ttl", &values.ttl, "time",
			   "time to live from now on, e.g. 90s, 15m, 2h, or none"),
		OPT_STRING(0, "mode", &values.mode, "mode",
			   "access mode in octal, e.g. 0640"),
		OPT_STRING(0, "owner", &values.owner, "user", "new owner"),
		OPT_STRING(0, "group", &values.group, "group", "new group"),
		OPT_STRING(0, "event", &values.change.event, "event",
			   "the event that gets a filter, period or frequency, by name or number"),
		OPT_STRING(0, "filter", &values.change.filter, "filter",
			   "new filter of tracepoints"),
		OPT_STRING(0, "add-filter", &values.change.add_filter, "filter",
			   "filter to be combined with the current one"),
		OPT_BOOLEAN(0, "drop-filter", &values.change.drop_filter, "remove the filter"),
		OPT_STRING(0, "period", &values.change.period, "n", "new sampling period"),
		OPT_STRING(0, "freq", &values.change.freq, "n", "new sampling frequency"),
		OPT_INCR('v', "verbose", &verbose, "be more verbose"),
		OPT_END()
	};
	const char * const usage[] = { persistent_cmd_set.usage, NULL };
	int err;

	argc = parse_options(argc, argv, options, usage, 0);
	if (argc != 1)
		usage_with_options(usage, options);

	err = set__parse(&set, &values);
	if (err)
		return err;
	if (!set.flags)
		usage_with_options_msg(usage, options, "nothing to set");
	err = set__run(argv[0], &set, &values.change, "change", "changed");
	persistent_change__exit(&values.change);
	return err;
}

const struct persistent_cmd persistent_cmd_set = {
	.name	= "set",
	.usage	=
		"perf persistent set [--name <name>] [--ttl <time>] [--mode <mode>] [--owner <user>] [--group <group>]\n"
		"                           [--event <event>] [--filter <filter> | --add-filter <filter> | --drop-filter] [--period <n> | --freq <n>] <name|id>\n"
		"                                                         change name, ttl, mode, owner, group, filter or rate",
	.fn	= set__cmd,
};

#define MARK_EVENT	"perf_persistent:persistent_mark"

/* Without access to tracefs, tracepoints have numbers instead of names. */
static bool session__has_mark(u32 id)
{
	struct strbuf types = STRBUF_INIT;
	bool has = persistent__types(id, ' ', &types) >= 0 &&
		   (strstr(types.buf, MARK_EVENT) || strstr(types.buf, "tracepoint:"));

	strbuf_release(&types);
	return has;
}

/* The kernel reports it all the same, to whoever else may have the event. */
static void mark__note_unseen(void)
{
	bool seen = false;
	int nr, err;
	u32 *ids;

	nr = persistent__choose(0, NULL, &ids, &err);
	for (int i = 0; i < nr && !seen; i++)
		seen = session__has_mark(ids[i]);
	if (nr >= 0)
		free(ids);
	if (!seen)
		pr_info("[ perf persistent mark: no session has the event %s, so none has the text in its buffers ]\n",
			MARK_EVENT);
}

static int mark__cmd(int argc, const char **argv)
{
	struct perf_persistent_set set = { .flags = PERF_PERSISTENT_SET_MARK };
	struct persistent_change none = {};
	const struct option options[] = {
		OPT_INCR('v', "verbose", &verbose, "be more verbose"),
		OPT_END()
	};
	const char * const usage[] = { persistent_cmd_mark.usage, NULL };
	int err;

	argc = parse_options(argc, argv, options, usage, 0);
	if (argc != 2)
		usage_with_options(usage, options);

	if (!argv[1][0] || strlen(argv[1]) >= PERF_PERSISTENT_MARK_MAX) {
		pr_err("invalid mark '%s': use a text of 1 to %d bytes\n", argv[1],
		       PERF_PERSISTENT_MARK_MAX - 1);
		return -EINVAL;
	}
	set.mark = (u64)(unsigned long)argv[1];
	err = set__run(argv[0], &set, &none, "mark", "marked");
	if (!err)
		mark__note_unseen();
	return err;
}

const struct persistent_cmd persistent_cmd_mark = {
	.name	= "mark",
	.usage	=
		"perf persistent mark <name|id> <text>             put a text into the buffers of sessions with perf_persistent:persistent_mark",
	.fn	= mark__cmd,
};
