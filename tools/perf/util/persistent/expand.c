// SPDX-License-Identifier: GPL-2.0
/*
 * Expand -e persistent/NAME/ to the events of the session.
 */
#include "follow.h"

#include <errno.h>
#include <string.h>
#include <linux/list.h>
#include <linux/zalloc.h>
#include <perf/cpumap.h>
#include <sys/ioctl.h>
#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "evsel_config.h"
#include "intlist.h"
#include "pmu.h"
#include "reader.h"
#include "registry.h"
#include "reopen.h"
#include "target.h"

/* Ignore USR_CHG_CONFIG, which only says that the id and the instance were given. */
static bool evsel__has_other_terms(struct evsel *evsel)
{
	struct evsel_config_term *term;

	list_for_each_entry(term, &evsel->config_terms, list) {
		if (term->type != EVSEL__CONFIG_TERM_USR_CHG_CONFIG)
			return true;
	}
	return false;
}

/* Refuse settings that are fixed when a session is started. */
static const char *evsel__not_reopenable(struct evsel *evsel)
{
	struct perf_event_attr *attr = &evsel->core.attr;

	if (evsel__leader(evsel) != evsel || evsel->core.nr_members > 1)
		return "be in a group";
	if (evsel->cgrp)
		return "be bound to a cgroup";
	if (evsel__has_other_terms(evsel) || attr->config1 || attr->config2 || attr->config3 ||
	    attr->config4)
		return "have terms other than id and instance";
	if (attr->exclude_user || attr->exclude_kernel || attr->exclude_hv ||
	    evsel->exclude_GH || attr->precise_ip || evsel->precise_max ||
	    attr->pinned || attr->exclusive ||
	    evsel->sample_read || evsel->weak_group)
		return "have modifiers";
	return NULL;
}

/* Parse -C, -p and -t; NULL where they are not given */
static int persistent_choice__init(struct persistent_choice *choice, struct target *target)
{
	*choice = (struct persistent_choice) { .instance = PERSISTENT_ALL };

	if (target->cpu_list) {
		choice->cpus = perf_cpu_map__new(target->cpu_list);
		if (!choice->cpus) {
			pr_err("-C %s: no such CPUs\n", target->cpu_list);
			return -EINVAL;
		}
	}
	if (target->pid || target->tid) {
		/* Not a thread map, which has no threads that have ended */
		choice->tasks = intlist__new(target->pid ?: target->tid);
		choice->processes = target->pid;
		if (!choice->tasks) {
			pr_err("invalid process or thread: %s\n", target->pid ?: target->tid);
			return -EINVAL;
		}
	}
	return 0;
}

static int evlist__none_chosen(struct evsel *evsel, struct target *target, int instance)
{
	if (instance != PERSISTENT_ALL)
		pr_err("%s: there is no such instance, or it is not on these CPUs or tasks\n",
		       evsel__name(evsel));
	else if (target->cpu_list)
		pr_err("%s is on none of the CPUs %s\n", evsel__name(evsel), target->cpu_list);
	else if (target->pid || target->tid)
		pr_err("%s has no events of %s %s\n", evsel__name(evsel),
		       target->pid ? "process" : "thread", target->pid ?: target->tid);
	else
		pr_err("%s has no events left, or none that count\n", evsel__name(evsel));
	return -ENOENT;
}

static int evlist__expand_one(struct evlist *evlist, struct evsel *evsel, struct target *target,
			      struct persistent_choice *choice)
{
	u64 config = evsel->core.attr.config;
	const char *why = evsel__not_reopenable(evsel);
	char id[16];
	int added;

	if (why) {
		pr_err("%s is already running and cannot %s\n", evsel__name(evsel), why);
		return -EINVAL;
	}

	if (!(u32)config) {
		pr_err("%s does not name a session: use persistent/NAME/\n", evsel__name(evsel));
		return -EINVAL;
	}
	snprintf(id, sizeof(id), "%u", (u32)config);
	if (persistent__find(id) < 0)
		return -ENOENT;

	choice->instance = (int)(config >> PERF_PERSISTENT_INSTANCE_SHIFT) - 1;
	added = evlist__choose_persistent(evlist, (u32)config, choice);
	if (!added)
		return evlist__none_chosen(evsel, target, choice->instance);
	/* Refuse sessions that only count: they have no records. */
	if (added > 0 && choice->side_band && persistent__check_buffer((u32)config))
		return -ENODATA;
	return added;
}

static bool evlist__names_persistent(struct evlist *evlist)
{
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		if (evsel->pmu && perf_pmu__is_persistent(evsel->pmu))
			return true;
	}
	return false;
}

bool evlist__has_only_persistent(struct evlist *evlist)
{
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		if (!evsel->persistent)
			return false;
	}
	return !evlist__empty(evlist);
}

/* "session 'web", "sessions 'web,db" without the final quote */
void evlist__fprintf_sessions(struct evlist *evlist, FILE *fp)
{
	u32 first = evlist__first(evlist)->persistent->id, last = first;
	struct evsel *evsel;

	fprintf(fp, "session%s \'%s", evlist__last(evlist)->persistent->id == first ? "" : "s",
		evlist__first(evlist)->persistent->name);
	evlist__for_each_entry(evlist, evsel) {
		if (evsel->persistent->id != last)
			fprintf(fp, ",%s", evsel->persistent->name);
		last = evsel->persistent->id;
	}
}

/* Ordinary events need side-band of their own. */
static void evlist__renumber(struct evlist *evlist)
{
	struct evsel *evsel, *tracking = NULL;
	int idx = 0;

	evlist__for_each_entry(evlist, evsel) {
		evsel->core.idx = idx++;
		evsel->tracking = false;
		if (!tracking && !evsel->persistent)
			tracking = evsel;
	}
	evlist__set_tracking_event(evlist, tracking ?: evlist__first(evlist));
}

static int evlist__expand_all(struct evlist *evlist, struct target *target,
			      struct persistent_choice *choice)
{
	int err, nr = 0, left = evlist__nr_entries(evlist);
	struct evsel *evsel, *tmp;

	evlist__for_each_entry_safe(evlist, tmp, evsel) {
		/* What follows was added by the expansion. */
		if (!left--)
			break;
		if (!evsel->pmu || !perf_pmu__is_persistent(evsel->pmu))
			continue;
		err = evlist__expand_one(evlist, evsel, target, choice);
		if (err < 0)
			return err;
		nr += err;
		evlist__remove(evlist, evsel);
		evsel__put(evsel);
	}
	return nr;
}

/*
 * Replace the evsel that names a session by evsels of all its members. Refuse options that shape
 * events, unless there are ordinary events that they apply to, and options that @never apply to
 * sessions. With @opts, which are adapted, for records: side-band is included. Returns how many
 * there are, or a negative error.
 */
int evlist__expand_persistent(struct evlist *evlist, struct target *target,
			      struct record_opts *opts, const struct option *options,
			      const char * const *shaping, const char * const *never)
{
	const char *with = "running sessions";
	struct persistent_reader *reader;
	struct persistent_choice choice;
	int nr;

	if (!evlist__names_persistent(evlist))
		return 0;

	nr = persistent_choice__init(&choice, target);
	choice.side_band = opts;
	if (!nr)
		nr = evlist__expand_all(evlist, target, &choice);
	perf_cpu_map__put(choice.cpus);
	intlist__delete(choice.tasks);
	if (nr < 0)
		return nr;

	evlist__renumber(evlist);
	reader = zalloc(sizeof(*reader));
	if (!reader)
		return -ENOMEM;
	evlist__set_persistent(evlist, reader);
	if (evlist__has_only_persistent(evlist)) {
		/* A command only determines how long to read; it is not the target. */
		if (target__none(target))
			target->system_wide = true;
		/* Both have chosen; do not warn that processes override CPUs. */
		else if (target->pid || target->tid)
			target->cpu_list = NULL;
	}
	if (persistent__check_options(options, never, /*allowed=*/false, with) ||
	    (evlist__has_only_persistent(evlist) &&
	     persistent__check_options(options, shaping, /*allowed=*/false, with)))
		return -EINVAL;
	if (opts)
		evlist__set_persistent_opts(evlist, opts);
	return nr;
}

/*
 * Start the windows of all views, also of siblings, so that only what is counted from now
 * on is read. This does not change the events.
 */
int evlist__enable_persistent(struct evlist *evlist)
{
	int err;

	evlist__for_each_persistent(evlist, it) {
		if (!ioctl(it.fd, PERF_EVENT_IOC_ENABLE, 0))
			continue;
		err = -errno;
		pr_err("%s cannot be read: %s\n", evsel__name(it.evsel), strerror(-err));
		return err;
	}
	return 0;
}
