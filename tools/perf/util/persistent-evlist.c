// SPDX-License-Identifier: GPL-2.0
/*
 * Members of a persistent recording as evsels: with the attr that they were
 * opened with, named by their label, on the instances that exist.
 */
#include "persistent-evlist.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>
#include <perf/cpumap.h>
#include <internal/evlist.h>
#include <internal/evsel.h>
#include <internal/lib.h>
#include <internal/xyarray.h>
#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "persistent.h"
#include "rlimit.h"
#include "strbuf.h"

static struct perf_cpu_map *persistent_member__cpus(struct persistent_member *member)
{
	struct perf_cpu_map *cpus = NULL;
	struct strbuf list;

	strbuf_init(&list, 0);
	for (u32 i = 0; i < member->nr; i++) {
		if (strbuf_addf(&list, "%s%d", i ? "," : "", member->instances[i].cpu) < 0)
			goto out;
	}
	cpus = perf_cpu_map__new(list.buf);
out:
	strbuf_release(&list);
	return cpus;
}

static struct persistent_member *
persistent_member__new(u32 id, u32 nr_member, int wanted,
		       struct perf_persistent_instance *instances, int nr)
{
	struct persistent_member *member;

	member = zalloc(sizeof(*member) + nr * sizeof(*instances));
	if (!member)
		return NULL;

	member->id = id;
	for (int i = 0; i < nr; i++) {
		if (instances[i].member != nr_member)
			continue;
		if (wanted == PERSISTENT_ALL || instances[i].instance == (u32)wanted)
			member->instances[member->nr++] = instances[i];
	}
	return member;
}

static struct evsel *evsel__new_persistent(struct persistent_member *member, int idx)
{
	char label[PERF_PERSISTENT_LABEL_MAX];
	struct perf_event_attr attr;
	struct evsel *evsel;

	if (persistent__member(member->id, member->instances[0].instance, &attr, label) < 0)
		return NULL;

	/* What reads the file later need not know how the event was kept. */
	attr.persistent = 0;
	evsel = evsel__new_idx(&attr, idx);
	if (!evsel)
		return NULL;

	if (label[0])
		evsel->name = strdup(label);
	evsel->core.own_cpus = persistent_member__cpus(member);
	evsel->core.cpus = perf_cpu_map__get(evsel->core.own_cpus);
	/*
	 * Like a core PMU's, these CPUs are the only ones there are: a list that
	 * the user gives can only choose among them.
	 */
	evsel->core.is_pmu_core = true;
	evsel->core.requires_cpu = true;
	evsel->persistent = member;
	return evsel;
}

static int evlist__add_member(struct evlist *evlist, struct persistent_member *member)
{
	struct evsel *evsel;

	if (!member)
		return -ENOMEM;
	if (!member->nr) {
		free(member);
		return 0;
	}

	evsel = evsel__new_persistent(member, evlist->core.nr_entries);
	if (!evsel) {
		pr_err("id %u: member %u does not say what it is\n", member->id,
		       member->instances[0].member);
		free(member);
		return -ENOENT;
	}
	evlist__add(evlist, evsel);
	return 1;
}

/*
 * An event of perf's is told by its CPU. Those of tasks are not, nor are those of
 * several cgroups on a CPU.
 */
static bool persistent__told_by_cpu(struct perf_persistent_instance *instances, int nr)
{
	for (int i = 0; i < nr; i++) {
		if (instances[i].pid != -1)
			return false;
		for (int j = 0; j < i; j++) {
			if (instances[i].member == instances[j].member &&
			    instances[i].cpu == instances[j].cpu)
				return false;
		}
	}
	return true;
}

/*
 * Returns how many events were added, or a negative error.
 */
int evlist__add_persistent(struct evlist *evlist, u32 id, int instance)
{
	struct perf_persistent_instance *instances;
	int i, err, added = 0, nr_members = 0;
	char name[PERF_PERSISTENT_NAME_MAX] = "";
	int nr = persistent__instances(id, &instances);

	if (nr < 0) {
		persistent__value(id, "name", name, sizeof(name));
		pr_err("%s, id %u, cannot be opened: %s\n", name, id, nr == -EACCES ?
		       "it is somebody else's, which takes CAP_PERFMON" : strerror(-nr));
		return nr;
	}

	if (!persistent__told_by_cpu(instances, nr)) {
		persistent__value(id, "name", name, sizeof(name));
		pr_err("%s, id %u, has events of tasks or of several cgroups, which perf cannot read yet\n",
		       name, id);
		free(instances);
		return -EOPNOTSUPP;
	}

	for (i = 0; i < nr; i++)
		nr_members = max(nr_members, (int)instances[i].member + 1);

	for (i = 0; i < nr_members; i++) {
		err = evlist__add_member(evlist, persistent_member__new(id, i, instance,
									instances, nr));
		if (err < 0)
			break;
		added += err;
		err = 0;
	}
	free(instances);
	return err ?: added;
}

/* The evsel's CPUs may be fewer than the member's, the user having chosen. */
struct perf_persistent_instance *evsel__persistent_instance(struct evsel *evsel, int cpu_map_idx)
{
	struct persistent_member *member = evsel->persistent;
	int cpu = perf_cpu_map__cpu(evsel->core.cpus, cpu_map_idx).cpu;

	for (u32 i = 0; i < member->nr; i++) {
		if (member->instances[i].cpu == cpu)
			return &member->instances[i];
	}
	return NULL;
}

int evsel__reopen_persistent(struct evsel *evsel)
{
	int idx, nr = perf_cpu_map__nr(evsel->core.cpus);

	if (!evsel->core.fd && perf_evsel__alloc_fd(&evsel->core, nr, 1) < 0)
		return -ENOMEM;

	for (idx = 0; idx < nr; idx++) {
		struct perf_persistent_instance *instance = evsel__persistent_instance(evsel, idx);
		int fd = instance ? persistent__open(instance->id, instance->instance) : -ENOENT;

		if (fd < 0) {
			pr_err("%s on CPU %d cannot be reopened: %s\n", evsel__name(evsel),
			       perf_cpu_map__cpu(evsel->core.cpus, idx).cpu, strerror(-fd));
			return fd;
		}
		*(int *)xyarray__entry(evsel->core.fd, idx, 0) = fd;
	}
	return 0;
}

/* Samples say which event they are of by the id of its instance. */
static int evsel__add_persistent_ids(struct evlist *evlist, struct evsel *evsel)
{
	int nr = perf_cpu_map__nr(evsel->core.cpus);

	if (perf_evsel__alloc_id(&evsel->core, nr, 1))
		return -ENOMEM;

	for (int idx = 0; idx < nr; idx++) {
		perf_evlist__id_add(&evlist->core, &evsel->core, idx, 0,
				    evsel__persistent_instance(evsel, idx)->event_id);
	}
	return 0;
}

int evlist__reopen_persistent(struct evlist *evlist)
{
	enum rlimit_action limit = NO_CHANGE;
	struct evsel *evsel;
	int err;

	/* One file a member and CPU. */
	rlimit__increase_nofile(&limit);
	evlist__for_each_entry(evlist, evsel) {
		err = evsel__reopen_persistent(evsel);
		if (!err)
			err = evsel__add_persistent_ids(evlist, evsel);
		if (err)
			return err;
	}

	evlist__set_id_pos(evlist);
	if (!evlist__valid_sample_type(evlist) || !evlist__valid_sample_id_all(evlist)) {
		pr_err("%s and %s say who they are in different ways, so one file cannot hold both\n",
		       evsel__name(evlist__first(evlist)), evsel__name(evlist__last(evlist)));
		return -EINVAL;
	}
	return 0;
}
