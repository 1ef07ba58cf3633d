// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent stop, clear, disable and enable: actions on each event of a session.
 */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/ring_buffer.h>
#include <subcmd/parse-options.h>
#include "debug.h"
#include "info.h"
#include "reader.h"
#include "registry.h"

/* An action on a session: flags of SET, which may be for one member only, or a function */
struct persistent_action {
	const char	*verb;
	const char	*done;
	u32		flags;
	int		(*fn)(struct persistent_info *info, int fd);

	const struct option *options;
};

/*
 * Enable side-band first, and disable or hold it last, so that no sample lacks
 * the name of its task.
 */
static int control__set_in_order(struct persistent_info *info, int fd, int member, u32 flags)
{
	bool ordered = false, enable = flags & PERF_PERSISTENT_SET_ENABLE;
	struct perf_persistent_set set = { .flags = flags };
	int err = 0;

	for (u32 i = 0; member < 0 && i < info->nr_members; i++)
		ordered |= persistent_info__is_side_band(info, i);
	for (u32 i = 0; ordered && !err && i < info->nr_members; i++) {
		if (info->members[i].known && persistent_info__is_side_band(info, i) == enable)
			err = persistent__set_member(fd, i, &set);
	}
	set.member = member + 1;
	return err ?: persistent__set(fd, &set);
}

/* Map the buffer of an instance if it discards: overwrite buffers need no room. */
static int clear__add(struct persistent_reader *reader, struct persistent_info *info, int i)
{
	struct perf_persistent_info *instance = &info->instances[i];
	bool side_band = persistent_info__is_side_band(info, instance->member);
	struct persistent_buffer *buffer = persistent_reader__find(reader, instance->buffer_id);
	int err;

	if (!instance->buffer_id)
		return 0;
	if (buffer) {
		buffer->side_band &= side_band;
		return 0;
	}

	buffer = &reader->buffers[reader->nr++];
	*buffer = (struct persistent_buffer) {
		.id	   = instance->buffer_id,
		.fd	   = persistent__open(info->id, instance->instance),
		.side_band = side_band,
		.consumes  = true,
	};
	err = buffer->fd < 0 ? buffer->fd : persistent_buffer__mmap(buffer, /*wait=*/false);
	if (buffer->fd >= 0)
		close(buffer->fd);
	buffer->consumes = !err;
	if (!err)
		buffer->cursor = ring_buffer_read_head(buffer->base);
	/* An instance that has ended meanwhile is no error. */
	return err == -ENOENT || err == -EOPNOTSUPP ? 0 : err;
}

/*
 * The kernel does not make room in discard buffers; perf does, as their consumer. It
 * becomes the consumer before anything is cleared; records written during the clear stay.
 */
static int control__clear(struct persistent_info *info, int fd)
{
	struct persistent_reader reader = {
		.buffers = calloc(info->nr, sizeof(*reader.buffers)),
	};
	struct perf_persistent_set set = { .flags = PERF_PERSISTENT_SET_CLEAR };
	int err = reader.buffers ? 0 : -ENOMEM;

	for (int i = 0; i < info->nr && !err; i++)
		err = clear__add(&reader, info, i);
	if (!err)
		err = persistent__set(fd, &set);
	if (!err)
		persistent_reader__make_room(&reader);
	persistent_reader__exit(&reader);

	if (!err && persistent_info__nr_hidden(info) &&
	    persistent__number(info->id, "buffer_bytes"))
		pr_info("[ perf persistent clear: without the right r, no room is made in discard buffers ]\n");
	return err;
}

/* Output of stop --dump; no dump without a path */
static struct persistent_dump stop_dump = { .option = "--dump" };

/*
 * Hold the session, so that nothing is recorded between the dump and the end. If the dump
 * fails or perf is killed, closing the file lets the session go on.
 */
static int control__stop(struct persistent_info *info, int fd)
{
	int err;

	if (!stop_dump.path)
		return persistent__end(info->id);

	err = control__set_in_order(info, fd, -1, PERF_PERSISTENT_SET_HOLD);
	if (!err && persistent_dump__run(&stop_dump, info->id))
		err = -ECANCELED;
	return err ?: persistent__end(info->id);
}

/* The dump may go to standard output. */
static FILE *control__messages(void)
{
	return stop_dump.path && !strcmp(stop_dump.path, "-") ? stderr : stdout;
}

static bool control_mine, control_all;
static const char *control_event;

static const struct option control_options[] = {
	OPT_BOOLEAN(0, "mine", &control_mine, "all sessions that belong to the caller"),
	OPT_BOOLEAN(0, "all", &control_all, "all sessions of all users"),
	OPT_END()
};

static const struct option switch_options[] = {
	OPT_STRING(0, "event", &control_event, "event", "only this event, by name or number"),
	OPT_PARENT(control_options)
};

static const struct option stop_options[] = {
	OPT_STRING(0, "dump", &stop_dump.path, "file",
		   "write all records to a perf.data first, - for stdout"),
	OPT_BOOLEAN('N', "no-buildid-cache", &stop_dump.no_buildid_cache,
		    "with --dump: do not update the buildid cache"),
	OPT_PARENT(control_options)
};

static const struct persistent_action actions[] = {
	{ "clear", "cleared", 0, control__clear, control_options },
	{ "stop", "stopped", 0, control__stop, stop_options },
	{ "disable", "disabled", PERF_PERSISTENT_SET_DISABLE, NULL, switch_options },
	{ "enable", "enabled", PERF_PERSISTENT_SET_ENABLE, NULL, switch_options },
};

static int persistent__act(u32 id, void *arg)
{
	const struct persistent_action *action = arg;
	struct persistent_info info;
	int member = -1, fd = -1, err;

	if (control_mine && persistent__number(id, "uid") != geteuid())
		return 0;
	err = persistent_info__init_control(&info, id);
	if (!err && control_event) {
		member = persistent_info__find_member(&info, control_event);
		if (member < 0) {
			persistent_info__exit(&info);
			return member;
		}
	}
	if (!err) {
		fd = persistent__open_session(id);
		err = min(fd, 0);
	}
	if (!err)
		err = action->fn ? action->fn(&info, fd) :
				   control__set_in_order(&info, fd, member, action->flags);
	persistent_info__exit(&info);
	if (fd >= 0)
		close(fd);

	/* With --mine and --all, skip a session that has ended since it was listed. */
	if ((control_mine || control_all) && (err == -ENOENT || err == -ESRCH))
		return 0;
	if (err == -ECANCELED)
		pr_err("session '%s' was not stopped, because the dump failed\n", info.name);
	else if (err)
		persistent__error(action->verb, id, info.name, 'w', err);
	else
		fprintf(control__messages(), "%s: id %u %s\n", info.name, id, action->done);
	return err ?: 1;
}

int persistent_cmd__control(int argc, const char **argv, const char * const usage[])
{
	const struct persistent_action *action = actions;
	int err, done = 0;

	while (strcmp(action->verb, argv[0]))
		action++;
	argc = parse_options(argc, argv, action->options, usage, 0);
	if ((control_mine + control_all + !!argc) != 1)
		usage_with_options_msg(usage, action->options,
				       "give either names, --mine or --all");
	if (stop_dump.no_buildid_cache && !stop_dump.path) {
		pr_err("-N needs --dump\n");
		return -EINVAL;
	}
	if (stop_dump.path && persistent_dump__prepare(&stop_dump, argc != 1))
		return -EINVAL;

	err = persistent__each(argc, argv, persistent__act, (void *)action, &done);
	if (!done && !err)
		fprintf(control__messages(), "no session %sto %s\n",
			control_mine ? "of yours " : "", action->verb);
	return err;
}
