// SPDX-License-Identifier: GPL-2.0
/*
 * -e persistent/NAME/: from what was typed to the events that it stands for.
 */
#include "persistent-follow.h"

#include <errno.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <perf/cpumap.h>
#include "counts.h"
#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "persistent.h"
#include "persistent-evlist.h"
#include "pmu.h"
#include "target.h"

/* What it counts and how was decided by whoever started it. */
static const char *evsel__not_reopenable(struct evsel *evsel)
{
	struct perf_event_attr *attr = &evsel->core.attr;

	if (evsel__leader(evsel) != evsel || evsel->core.nr_members > 1)
		return "be in a group";
	if (evsel->filter || !list_empty(&evsel->bpf_filters))
		return "be filtered";
	if (evsel->cgrp)
		return "be bound to a cgroup";
	if (!list_empty(&evsel->config_terms) || attr->config1 || attr->config2 || attr->config3)
		return "have terms but id and instance";
	if (attr->exclude_user || attr->exclude_kernel || attr->exclude_hv ||
	    attr->precise_ip || evsel->precise_max || attr->pinned || attr->exclusive ||
	    evsel->sample_read || evsel->weak_group)
		return "have modifiers";
	return NULL;
}

static int evsel__check_cpus(struct evsel *evsel, struct perf_cpu_map *wanted)
{
	struct perf_cpu_map *both = perf_cpu_map__intersect(evsel->core.own_cpus, wanted);
	bool empty = perf_cpu_map__is_empty(both);

	perf_cpu_map__put(both);
	return empty ? -ENOENT : 0;
}

static int evlist__expand_one(struct evlist *evlist, struct evsel *evsel)
{
	u64 config = evsel->core.attr.config;
	int instance = (int)(config >> PERF_PERSISTENT_INSTANCE_SHIFT) - 1;
	const char *why = evsel__not_reopenable(evsel);
	char id[16];
	int added;

	if (why) {
		pr_err("%s runs already and cannot %s\n", evsel__name(evsel), why);
		return -EINVAL;
	}

	snprintf(id, sizeof(id), "%u", (u32)config);
	if (persistent__find(id) < 0)
		return -ENOENT;

	added = evlist__add_persistent(evlist, (u32)config, instance);
	if (!added) {
		pr_err("%s: there is no such instance\n", evsel__name(evsel));
		return -ENOENT;
	}
	return added;
}

static int evlist__check_expanded(struct evlist *evlist, struct target *target)
{
	struct perf_cpu_map *wanted;
	struct evsel *evsel;
	int err = 0, idx = 0;

	if (target__has_task(target)) {
		pr_err("persistent events are on CPUs: -p, -t and -u cannot choose among them\n");
		return -EINVAL;
	}
	if (!target__has_cpu(target))
		target->system_wide = true;

	wanted = perf_cpu_map__new(target->cpu_list);
	if (!wanted)
		return -EINVAL;

	evlist__for_each_entry(evlist, evsel) {
		evsel->core.idx = idx++;
		if (!err && evsel->persistent)
			err = evsel__check_cpus(evsel, wanted);
		if (err) {
			pr_err("%s is on none of the CPUs %s\n", evsel__name(evsel),
			       target->cpu_list ?: "that are online");
			break;
		}
	}
	perf_cpu_map__put(wanted);
	return err;
}

/* It names tasks and counts nothing. */
static int evlist__remove_side_band(struct evlist *evlist)
{
	struct evsel *evsel, *tmp;
	int nr = 0;

	evlist__for_each_entry_safe(evlist, tmp, evsel) {
		if (!evsel->persistent || !evsel__is_dummy_event(evsel))
			continue;
		evlist__remove(evlist, evsel);
		evsel__delete(evsel);
		nr++;
	}
	return nr;
}

/*
 * Put all members of a recording in the place of what names it, those for
 * side-band if they are wanted. Returns how many there are, or a negative
 * error.
 */
int evlist__expand_persistent(struct evlist *evlist, struct target *target, bool side_band)
{
	struct evsel *evsel, *tmp;
	int err, nr = 0;

	evlist__for_each_entry_safe(evlist, tmp, evsel) {
		if (!evsel->pmu || !perf_pmu__is_persistent(evsel->pmu))
			continue;

		err = evlist__expand_one(evlist, evsel);
		if (err < 0)
			return err;
		nr += err;
		evlist__remove(evlist, evsel);
		evsel__delete(evsel);
	}
	if (!nr)
		return 0;

	if (!side_band)
		nr -= evlist__remove_side_band(evlist);
	if (!nr) {
		pr_err("the recording has nothing but side-band, which counts nothing\n");
		return -ENODATA;
	}
	err = evlist__check_expanded(evlist, target);
	return err ?: nr;
}

/* They have counted for long: what matters is what is added from now on. */
int evlist__read_persistent_base(struct evlist *evlist)
{
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		if (!evsel->persistent)
			continue;
		for (int idx = 0; idx < perf_cpu_map__nr(evsel->core.cpus); idx++) {
			int err = perf_evsel__read(&evsel->core, idx, 0,
						   perf_counts(evsel->prev_raw_counts, idx, 0));

			if (err) {
				pr_err("%s cannot be read: %s\n", evsel__name(evsel),
				       strerror(-err));
				return err;
			}
		}
	}
	return 0;
}
