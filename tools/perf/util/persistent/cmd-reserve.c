// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent reserve: have sessions stand still, so that their counters are free for
 * somebody else. Each is held through a view that stays open until this process ends.
 */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/bitmap.h>
#include <linux/kernel.h>
#include <linux/time64.h>
#include <subcmd/parse-options.h>
#include "debug.h"
#include "info.h"
#include "pmu.h"
#include "pmus.h"
#include "registry.h"
#include "reserve.h"
#include "strbuf.h"

#define HELD_TIMEOUT_MSEC	10000

/* Members may come and go between the two places that tell of them. */
#define MAX_TRIES		10

struct reserve {
	struct reserve_run	run;
	const char		*pmu_name;
	struct perf_pmu		*pmu;
	/* Sessions that were named; without a PMU, all of their events are meant. */
	const char		**names;
	int			nr_names;
};

/*
 * A session to be held: the types of its members as sysfs has them, in the order of their
 * numbers, and which of the numbers are meant.
 */
struct reserve_session {
	u32	id;
	int	fd;
	bool	all;
	char	types[4096];
	DECLARE_BITMAP(members, PERSISTENT_MAX_MEMBERS);
};

/* Side-band goes on, since it is what names the tasks that are started meanwhile. */
static bool reserve__wants(const struct reserve *reserve, u32 type, u64 config)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .type = type, .config = config };
	struct perf_pmu *pmu;

	if (type == PERF_TYPE_SOFTWARE && config == PERF_COUNT_SW_DUMMY)
		return false;
	if (!reserve->pmu)
		return reserve->nr_names || persistent__is_cpu_pmu(type);
	pmu = perf_pmus__find_by_attr(&attr);
	return pmu && pmu->type == reserve->pmu->type;
}

/* Keep the lines of the types that are meant, and number them by their place. */
static int reserve__choose_types(const struct reserve *reserve, struct reserve_session *session,
				 unsigned long *chosen)
{
	char types[sizeof(session->types)], *rest = types, *line, *end = session->types;
	unsigned long long config;
	int nr = 0;
	u32 type;

	bitmap_zero(chosen, PERSISTENT_MAX_MEMBERS);
	if (persistent__value(session->id, "types", types, sizeof(types)) < 0)
		return -ENOENT;

	*end = '\0';
	while ((line = strsep(&rest, "\n")) && nr < PERSISTENT_MAX_MEMBERS) {
		if (sscanf(line, "%u:%llx", &type, &config) == 2 &&
		    reserve__wants(reserve, type, config)) {
			__set_bit(nr, chosen);
			end += sprintf(end, "%s\n", line);
		}
		nr++;
	}
	return nr;
}

/* The numbers of the members that there are; a negative error, or how many. */
static int session__members(const struct reserve_session *session, unsigned long *members)
{
	struct perf_persistent_info *instances;
	struct perf_persistent_query query;
	int nr = persistent__query_instances(session->fd, &query, &instances);

	bitmap_zero(members, PERSISTENT_MAX_MEMBERS);
	for (int i = 0; i < nr; i++)
		__set_bit(instances[i].member % PERSISTENT_MAX_MEMBERS, members);
	free(instances);
	return nr < 0 ? nr : (int)bitmap_weight(members, PERSISTENT_MAX_MEMBERS);
}

/* Find the numbers of the members that the lines of sysfs stand for. */
static int reserve__choose_members(const struct reserve *reserve, struct reserve_session *session)
{
	DECLARE_BITMAP(chosen, PERSISTENT_MAX_MEMBERS);
	DECLARE_BITMAP(members, PERSISTENT_MAX_MEMBERS);
	int nr = 0, nr_types = -1, place = 0;
	unsigned int member;

	for (int i = 0; i < MAX_TRIES && nr != nr_types; i++) {
		nr = session__members(session, members);
		nr_types = nr < 0 ? nr : reserve__choose_types(reserve, session, chosen);
	}
	if (nr < 0 || nr_types < 0)
		return nr < 0 ? nr : nr_types;
	if (nr != nr_types)
		return -EAGAIN;

	for_each_set_bit(member, members, PERSISTENT_MAX_MEMBERS) {
		if (test_bit(place++, chosen))
			__set_bit(member, session->members);
	}
	session->all = bitmap_equal(members, session->members, PERSISTENT_MAX_MEMBERS);
	return 0;
}

static bool instance__stands_still(const struct perf_persistent_info *instance)
{
	switch (instance->state) {
	case PERF_PERSISTENT_STATE_ENABLED:
	case PERF_PERSISTENT_STATE_DISABLED:
	case PERF_PERSISTENT_STATE_ERROR:
		return false;
	default:
		return true;
	}
}

/* Returns how many instances are not held yet, or a negative error. */
static int session__count_unheld(const struct reserve_session *session)
{
	struct perf_persistent_info *instances;
	struct perf_persistent_query query;
	int nr = persistent__query_instances(session->fd, &query, &instances), unheld = 0;

	for (int i = 0; i < nr; i++) {
		if (session->all ||
		    test_bit(instances[i].member % PERSISTENT_MAX_MEMBERS, session->members))
			unheld += !instance__stands_still(&instances[i]);
	}
	free(instances);
	return nr < 0 ? nr : unheld;
}

/* An instance that joins right now is held when it has joined. */
static int session__wait_until_held(const struct reserve_session *session)
{
	int unheld;

	for (int i = 0; i < HELD_TIMEOUT_MSEC; i++) {
		unheld = session__count_unheld(session);
		if (unheld <= 0)
			return unheld;
		usleep(USEC_PER_MSEC);
	}
	return -ETIMEDOUT;
}

/* All of it at once if that is meant: then it is all that joins later, too. */
static int session__hold(const struct reserve_session *session)
{
	struct perf_persistent_set set = { .flags = PERF_PERSISTENT_SET_HOLD };
	unsigned int member;
	int err = 0;

	if (session->all)
		return persistent__set(session->fd, &set);

	for_each_set_bit(member, session->members, PERSISTENT_MAX_MEMBERS) {
		set.member = member + 1;
		err = persistent__set(session->fd, &set);
		/* This member has gone, others may be there. */
		if (err && err != -ENOENT)
			return err;
	}
	return 0;
}

static void session__report(struct reserve_session *session)
{
	char name[PERF_PERSISTENT_NAME_MAX];
	struct strbuf events = STRBUF_INIT;

	persistent__parse_types(session->types, ' ', &events);
	fprintf(stderr, "%s: id %u held: %s\n", persistent__name(session->id, name) ?: "(ended)",
		session->id, events.buf);
	strbuf_release(&events);
}

static const char *session__strerror(u32 id, int err, char *buf, size_t size)
{
	if (err == -ETIMEDOUT)
		return "timed out waiting for it to be held";
	return persistent__strerror_right(id, 'x', err, buf, size);
}

/* Returns whether something of it is held, or a negative error. */
static int reserve__hold(const struct reserve *reserve, struct reserve_session *session)
{
	DECLARE_BITMAP(chosen, PERSISTENT_MAX_MEMBERS);
	int err = reserve__choose_types(reserve, session, chosen);

	/* Do not open others: the caller may not be allowed to hold them. */
	if (err < 0 || bitmap_empty(chosen, PERSISTENT_MAX_MEMBERS))
		return min(err, 0);

	session->fd = persistent__open_session(session->id);
	if (session->fd < 0)
		return session->fd;
	err = reserve__choose_members(reserve, session) ?:
	      session__hold(session) ?:
	      session__wait_until_held(session);
	return err ?: 1;
}

/* What has ended needs no holding, unless it was named. */
static int reserve__hold_id(const struct reserve *reserve, u32 id)
{
	struct reserve_session session = { .id = id };
	char name[PERF_PERSISTENT_NAME_MAX], buf[256];
	int ret = reserve__hold(reserve, &session);

	if (ret > 0 && verbose > 0)
		session__report(&session);
	if (ret >= 0)
		return ret;
	if (!persistent__name(id, name)) {
		if (!reserve->nr_names)
			return 0;
		snprintf(name, sizeof(name), "%u", id);
	}
	pr_err("cannot hold session '%s': %s\n", name,
	       session__strerror(id, ret, buf, sizeof(buf)));
	return ret;
}

/* All are tried, so that all that cannot be held are said at once. */
static int reserve__hold_ids(const struct reserve *reserve)
{
	int held = 0, err;
	u32 *ids;
	int nr = persistent__choose(reserve->nr_names, reserve->names, &ids, &err);

	if (nr < 0)
		return nr;

	for (int i = 0; i < nr; i++) {
		int ret = reserve__hold_id(reserve, ids[i]);

		err = ret < 0 ? ret : err;
		held += ret > 0;
	}
	free(ids);
	if (!err && !held && verbose > 0)
		fprintf(stderr, "no session has events of %s, so nothing is held\n",
			reserve->pmu_name ?: "the CPU's PMU");
	return err;
}

/* Without "--" the names end where there is no session of that name. */
static int reserve__parse(struct reserve *reserve, int argc, const char **argv)
{
	int nr = 0;
	bool dashes = false;

	for (int i = 0; i < argc && !dashes; i++) {
		dashes = !strcmp(argv[i], "--");
		nr = dashes ? i : nr;
	}
	while (!dashes && nr < argc && persistent__exists(argv[nr]))
		nr++;

	reserve->names = argv;
	reserve->nr_names = nr;
	reserve->run.guessed = !dashes;
	if (nr + dashes < argc)
		reserve->run.argv = argv + nr + dashes;
	if (!reserve->pmu_name)
		return 0;

	reserve->pmu = perf_pmus__find(reserve->pmu_name);
	if (reserve->pmu)
		return 0;
	pr_err("no PMU '%s' (see /sys/bus/event_source/devices)\n", reserve->pmu_name);
	return -ENODEV;
}

static int reserve__cmd(int argc, const char **argv)
{
	struct reserve reserve = {};
	const struct option options[] = {
		OPT_BOOLEAN('d', "background", &reserve.run.background,
			    "return when they are held, and print the pid of who holds them"),
		OPT_STRING(0, "pmu", &reserve.pmu_name, "pmu",
			   "only events of this PMU (default: the CPUs', or all if named)"),
		OPT_INCR('v', "verbose", &verbose, "print what is held"),
		OPT_END()
	};
	const char * const usage[] = { persistent_cmd_reserve.usage, NULL };
	int err;

	argc = parse_options(argc, argv, options, usage,
			     PARSE_OPT_STOP_AT_NON_OPTION | PARSE_OPT_KEEP_DASHDASH);
	if (persistent__type() < 0)
		return -EOPNOTSUPP;
	err = reserve__parse(&reserve, argc, argv) ?: reserve__hold_ids(&reserve);
	return err ?: reserve__run(&reserve.run);
}

const struct persistent_cmd persistent_cmd_reserve = {
	.name	= "reserve",
	.usage	=
		"perf persistent reserve [-d] [-v] [--pmu <pmu>] [<name|id>...] [--] [<command>]\n"
		"                                                         have sessions give up their counters while a command runs",
	.fn	= reserve__cmd,
};
