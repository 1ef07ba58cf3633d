// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent stop, pause and resume: what is done to each event of an id.
 */
#include "persistent-control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include "debug.h"
#include "persistent.h"
#include "persistent-info.h"

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

static int control__pause(struct persistent_info *info)
{
	return control__set(info, PERF_PERSISTENT_SET_DISABLE);
}

static int control__resume(struct persistent_info *info)
{
	return control__set(info, PERF_PERSISTENT_SET_ENABLE);
}

const struct persistent_action persistent_stop = { "stopped", control__stop };
const struct persistent_action persistent_pause = { "paused", control__pause };
const struct persistent_action persistent_resume = { "resumed", control__resume };

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
		pr_err("%s, id %u, cannot be %s: %s\n", info.name, id, action->done,
		       persistent__strerror(id, err, buf, sizeof(buf)));
	else
		printf("%s: id %u %s\n", info.name, id, action->done);
	return err;
}

/* Goes on after an error, so that one bad name does not keep the others. */
int persistent__act(const struct persistent_action *action, int argc, const char **argv)
{
	int err = 0;

	for (int i = 0; i < argc; i++) {
		int id = persistent__find(argv[i]);

		err = (id < 0 ? id : persistent__act_id(action, id)) ?: err;
	}
	return err;
}

int persistent__act_all(const struct persistent_action *action, bool mine)
{
	int nr, done = 0, err = 0;
	u32 *ids;

	if (persistent__type() < 0)
		return -EOPNOTSUPP;

	nr = persistent__ids(&ids);
	if (nr < 0) {
		pr_err("the list of persistent events cannot be read: %s\n", strerror(-nr));
		return nr;
	}

	for (int i = 0; i < nr; i++) {
		if (mine && persistent__number(ids[i], "uid") != geteuid())
			continue;
		err = persistent__act_id(action, ids[i]) ?: err;
		done++;
	}
	free(ids);
	if (!done)
		printf("%s, so nothing was %s\n", mine ? "nothing that runs is yours" :
		       "nothing runs", action->done);
	return err;
}
