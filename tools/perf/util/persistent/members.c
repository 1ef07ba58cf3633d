// SPDX-License-Identifier: GPL-2.0
/*
 * Make evsels of the kernel's list of instances: one per member, or one per member and
 * cgroup; on CPUs, of tasks, or of tasks on CPUs.
 */
#include "reopen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>
#include <perf/cpumap.h>
#include <perf/threadmap.h>
#include <internal/evsel.h>
#include "cgroup.h"
#include "evlist.h"
#include "evsel.h"
#include "info.h"
#include "intlist.h"
#include "parse-events.h"
#include "registry.h"
#include "rlimit.h"

/* An instance and its place in an evsel; @cgroup is empty for none. */
struct persistent_place {
	struct perf_persistent_info	info;
	struct perf_event_attr		attr;
	u32				flags;
	char				*label;
	char				*cgroup;
	int				fd;
	int				thread;
};

/* A run of places makes an evsel; all evsels of tasks share the threads. */
struct persistent_set {
	struct persistent_member	member;
	int				nr;
	int				nr_threads;
	bool				side_band;
	struct persistent_place		*places;
	pid_t				*pids;
	int				*nths;
	struct perf_thread_map		*threads;
};

static bool choice__has(const struct persistent_choice *choice,
			struct perf_persistent_info *instance)
{
	struct perf_cpu cpu = { .cpu = instance->cpu };

	if (choice->instance != PERSISTENT_ALL && instance->instance != (u32)choice->instance)
		return false;
	if (choice->cpus && !perf_cpu_map__has(choice->cpus, cpu))
		return false;
	if (!choice->tasks)
		return true;

	return instance->pid > 0 &&
	       intlist__has_entry(choice->tasks,
				  choice->processes ? instance->tgid : instance->pid);
}

/* Siblings come after their leader: by cgroup, then by member. */
static int place__cmp_evsel(const struct persistent_place *l, const struct persistent_place *r)
{
	return strcmp(l->cgroup, r->cgroup) ?: (int)l->info.member - (int)r->info.member;
}

static int place__cmp(const void *a, const void *b)
{
	const struct persistent_place *l = a, *r = b;

	return place__cmp_evsel(l, r) ?: l->info.cpu - r->info.cpu ?:
	       l->info.pid - r->info.pid ?: (int)l->info.instance - (int)r->info.instance;
}

/* Returns -ENOENT if the instance was dropped since it was listed. */
static int set__ask(struct persistent_set *set, struct persistent_place *place)
{
	enum rlimit_action limit = NO_CHANGE;
	struct persistent_answer answer;
	int err;

	do {
		place->fd = persistent__open(set->member.id, place->info.instance);
	} while (place->fd == -EMFILE && rlimit__increase_nofile(&limit));
	if (place->fd < 0)
		return place->fd;
	err = persistent__ask_fd(place->fd, set->member.id, &answer);
	if (err) {
		close(place->fd);
		place->fd = -1;
		return err;
	}
	place->attr = answer.attr;
	place->flags = answer.query.flags;
	place->label = strdup(answer.label);
	/* The path as -G takes it */
	place->cgroup = strdup(answer.cgroup + (answer.cgroup[0] && answer.cgroup[1] ? 1 : 0));
	return place->label && place->cgroup ? 0 : -ENOMEM;
}

static int set__fill(struct persistent_set *set, struct perf_persistent_info *instances,
		     int nr, const struct persistent_choice *choice)
{
	bool gone = false;
	int err;

	set->places = calloc(nr, sizeof(*set->places));
	set->pids = calloc(nr, sizeof(*set->pids));
	set->nths = calloc(nr, sizeof(*set->nths));
	if (!set->places || !set->pids || !set->nths)
		return -ENOMEM;

	for (int i = 0; i < nr; i++) {
		struct persistent_place *place = &set->places[set->nr];

		if (!choice__has(choice, &instances[i]))
			continue;
		place->info = instances[i];
		err = set__ask(set, place);
		gone |= err == -ENOENT;
		set->nr += place->fd >= 0;
		if (err && err != -ENOENT)
			return err;
	}
	qsort(set->places, set->nr, sizeof(*set->places), place__cmp);
	return gone && !set->nr ? -ENOENT : 0;
}

/* The pid of a task that has ended may be 0 or reused: such tasks are numbered. */
static int set__thread(struct persistent_set *set, pid_t pid, int nth)
{
	int i;

	for (i = 0; i < set->nr_threads; i++) {
		if (set->pids[i] == pid && set->nths[i] == nth)
			return i;
	}
	set->pids[i] = pid;
	set->nths[i] = nth;
	set->nr_threads++;
	return i;
}

static bool set__has_tasks(struct persistent_set *set, int from, int to)
{
	while (from < to) {
		if (set->places[from++].info.pid != -1)
			return true;
	}
	return false;
}

static int set__end_of_evsel(struct persistent_set *set, int from)
{
	int to = from + 1;

	while (to < set->nr && !place__cmp_evsel(&set->places[from], &set->places[to]))
		to++;
	return to;
}

static void set__find_threads(struct persistent_set *set)
{
	for (int from = 0, to; from < set->nr; from = to) {
		to = set__end_of_evsel(set, from);
		if (!set__has_tasks(set, from, to))
			continue;

		for (int i = from, nth = 0; i < to; i++) {
			struct persistent_place *place = &set->places[i];

			if (i > from && place[-1].info.cpu == place->info.cpu &&
			    place[-1].info.pid == place->info.pid)
				nth++;
			else
				nth = 0;
			place->thread = set__thread(set, place->info.pid, nth);
		}
	}
}

static struct perf_cpu_map *set__cpus(struct persistent_set *set, int from, int to)
{
	struct perf_cpu_map *cpus = NULL, *one;
	int err;

	for (int i = from; i < to; i++) {
		if (i > from && set->places[i].info.cpu == set->places[i - 1].info.cpu)
			continue;
		one = perf_cpu_map__new_int(set->places[i].info.cpu);
		err = one ? perf_cpu_map__merge(&cpus, one) : -ENOMEM;
		perf_cpu_map__put(one);
		if (err) {
			perf_cpu_map__put(cpus);
			return NULL;
		}
	}
	return cpus;
}

/* Copy where the format of the records is found when needed. */
static void evsel__copy_tracepoint(struct evsel *evsel __maybe_unused,
				   struct evsel *typed __maybe_unused)
{
#ifdef HAVE_LIBTRACEEVENT
	if (!typed->tp_sys || !typed->tp_name)
		return;
	evsel->tp_sys = strdup(typed->tp_sys);
	evsel->tp_name = strdup(typed->tp_name);
#endif
}

/*
 * The owner can choose any text as the label, so use it only if it describes the event
 * that was opened, and do not look it up if that may take long.
 */
static struct evsel *evlist__parse_label(struct evlist *evlist, const char *label,
					 const struct perf_event_attr *attr)
{
	struct parse_events_error error;
	struct evsel *evsel;
	int err;

	if (!label[0] || strpbrk(label, "*?"))
		return NULL;

	parse_events_error__init(&error);
	err = parse_events(evlist, label, &error);
	parse_events_error__exit(&error);
	if (err || evlist__nr_entries(evlist) != 1)
		return NULL;

	evsel = evlist__first(evlist);
	return evsel->core.attr.type == attr->type &&
	       evsel->core.attr.config == attr->config ? evsel : NULL;
}

/* The label is the event as it was typed, and tells more than the attr. */
static void evsel__set_label(struct evsel *evsel, const char *label)
{
	struct evlist *evlist = evlist__new();
	struct evsel *typed;

	if (label[0])
		evsel->name = strdup(label);
	if (!evlist)
		return;
	typed = evlist__parse_label(evlist, label, &evsel->core.attr);
	if (typed) {
		zfree(&evsel->unit);
		evsel->unit = strdup(typed->unit);
		evsel->scale = typed->scale;
		evsel->snapshot = typed->snapshot;
		evsel__copy_tracepoint(evsel, typed);
	}
	evlist__put(evlist);
}

/* Returns the factor from counts to the unit. Only clocks and events of PMUs have one. */
double persistent__parse_unit(const char *label, const struct perf_event_attr *attr,
			      char *unit, size_t size)
{
	struct perf_event_attr copy = *attr;
	struct evsel *evsel = evsel__new(&copy);
	double scale = 1.0;

	unit[0] = '\0';
	if (!evsel)
		return scale;

	evsel__set_label(evsel, label);
	scale = evsel->scale;
	scnprintf(unit, size, "%s", evsel->unit ?: "");
	evsel__put(evsel);
	return scale;
}

static int set__fill_evsel(struct persistent_set *set, struct evsel *evsel, int from, int to)
{
	bool tasks = set__has_tasks(set, from, to);
	struct persistent_instance *instance;
	int nr_cpus, nr_threads;

	evsel->core.cpus = set__cpus(set, from, to);
	/* Share one map, which has the names of the tasks once. */
	if (tasks && !set->threads)
		set->threads = perf_thread_map__new_array(set->nr_threads, set->pids);
	evsel->core.threads = tasks ? perf_thread_map__get(set->threads) :
				      perf_thread_map__new_dummy();
	evsel->persistent = zalloc(sizeof(*evsel->persistent));
	if (!evsel->core.cpus || !evsel->core.threads || !evsel->persistent)
		return -ENOMEM;

	*evsel->persistent = set->member;
	evsel->persistent->flags = set->places[from].flags;
	nr_cpus = perf_cpu_map__nr(evsel->core.cpus);
	nr_threads = perf_thread_map__nr(evsel->core.threads);
	evsel->persistent->instances = xyarray__new(nr_cpus, nr_threads,
						    sizeof(struct persistent_instance));
	if (!evsel->persistent->instances ||
	    perf_evsel__alloc_fd(&evsel->core, nr_cpus, nr_threads) < 0)
		return -ENOMEM;

	for (int i = from; i < to; i++) {
		struct persistent_place *place = &set->places[i];
		struct perf_cpu cpu = { .cpu = place->info.cpu };
		int idx = perf_cpu_map__idx(evsel->core.cpus, cpu);

		instance = xyarray__entry(evsel->persistent->instances, idx, place->thread);
		instance->info = place->info;
		instance->base_lost = place->info.lost_before;
		PERSISTENT_FD(evsel, idx, place->thread) = place->fd;
		place->fd = -1;
	}
	return 0;
}

static struct evsel *set__new_evsel(struct persistent_set *set, int from, int to, int idx)
{
	struct persistent_place *first = &set->places[from];
	struct evsel *evsel = evsel__new_idx(&first->attr, idx);

	if (!evsel)
		return NULL;

	evsel->core.reopened = true;
	/* A reason for perf stat to be system-wide */
	evsel->core.requires_cpu = true;
	evsel->core.nr_members = 1;
	evsel__set_label(evsel, first->label);
	/* Different cgroups may have names that look the same when printed. */
	if (first->cgroup[0])
		evsel->cgrp = cgroup__new(first->cgroup, /*do_open=*/false);
	if (evsel->cgrp)
		persistent__printable(evsel->cgrp->name);
	if ((first->cgroup[0] && !evsel->cgrp) || set__fill_evsel(set, evsel, from, to)) {
		evsel__put(evsel);
		return NULL;
	}
	return evsel;
}

static int set__add_evsels(struct persistent_set *set, struct evlist *evlist)
{
	struct evsel *evsel, *leader = NULL;
	int added = 0;

	for (int from = 0, to; from < set->nr; from = to) {
		const struct perf_event_attr *attr = &set->places[from].attr;

		to = set__end_of_evsel(set, from);
		if (!set->side_band && persistent__is_side_band(attr->type, attr->config))
			continue;
		evsel = set__new_evsel(set, from, to, evlist__nr_entries(evlist));
		if (!evsel)
			return -ENOMEM;
		/* A sibling follows its leader, in the same cgroup. */
		if (from && strcmp(set->places[from].cgroup, set->places[from - 1].cgroup))
			leader = NULL;
		if (evsel->persistent->flags & PERF_PERSISTENT_GROUP_LEADER) {
			leader = evsel;
		} else if (leader && evsel->persistent->flags & PERF_PERSISTENT_GROUP_SIBLING) {
			evsel->core.leader = &leader->core;
			leader->core.nr_members++;
		}
		evlist__add(evlist, evsel);
		added++;
	}
	return added;
}

/* Returns how many events were added, or a negative error after printing a message. */
int evlist__choose_persistent(struct evlist *evlist, u32 id,
			      const struct persistent_choice *choice)
{
	struct perf_persistent_info *instances;
	struct perf_persistent_query query;
	struct persistent_set set = {
		.side_band	  = choice->side_band,
		.member.id	  = id,
		.member.some_cpus = choice->cpus || choice->instance != PERSISTENT_ALL,
		/* The buffer of a CPU has no records of other CPUs. */
		.member.in_part	  = choice->tasks || choice->instance != PERSISTENT_ALL,
	};
	int err, nr;

	persistent__name_or_id(id, set.member.name);
	nr = persistent__instances(id, &query, &instances);
	if (nr > 0)
		err = set__fill(&set, instances, nr, choice);
	else
		err = nr ?: -ENOENT;
	free(instances);
	if (!err) {
		set__find_threads(&set);
		err = set__add_evsels(&set, evlist);
	}
	for (int i = 0; i < set.nr; i++) {
		free(set.places[i].label);
		free(set.places[i].cgroup);
		if (set.places[i].fd >= 0)
			close(set.places[i].fd);
	}
	free(set.places);
	free(set.pids);
	free(set.nths);
	perf_thread_map__put(set.threads);
	return err < 0 ? persistent__error("read", id, set.member.name, 'r', err) : err;
}
