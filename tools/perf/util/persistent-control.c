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
#include <sys/ioctl.h>
#include "debug.h"
#include "persistent.h"
#include "persistent-info.h"

static int control__instance(struct persistent_info *info, int i, unsigned long request)
{
	int err = 0, fd = persistent__open(info->id, info->instances[i].instance);

	if (fd >= 0 && ioctl(fd, request, 0) < 0)
		err = -errno;
	if (fd >= 0)
		close(fd);
	else
		err = fd;
	/* Somebody else has stopped it meanwhile. */
	return err == -ENOENT || err == -EINVAL ? 0 : err;
}

static int control__stop(struct persistent_info *info)
{
	return persistent__end(info->id);
}

static int control__enable(struct persistent_info *info, bool side_band, bool enable)
{
	int err = 0;

	for (int i = 0; i < info->nr; i++) {
		/* A group counts when its leader does, which has the lower number. */
		int nr = enable ? info->nr - 1 - i : i;

		if (persistent_info__is_side_band(info, info->instances[nr].member) != side_band)
			continue;
		err = control__instance(info, nr, enable ? PERF_EVENT_IOC_ENABLE :
					PERF_EVENT_IOC_DISABLE) ?: err;
	}
	return err;
}

/* No sample without the side-band that says what its task is called. */
static int control__pause(struct persistent_info *info)
{
	int err = control__enable(info, /*side_band=*/false, /*enable=*/false);

	return control__enable(info, /*side_band=*/true, /*enable=*/false) ?: err;
}

static int control__resume(struct persistent_info *info)
{
	int err = control__enable(info, /*side_band=*/true, /*enable=*/true);

	return control__enable(info, /*side_band=*/false, /*enable=*/true) ?: err;
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
		if (mine && persistent__number(ids[i], "owner") != geteuid())
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
