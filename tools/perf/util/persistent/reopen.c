// SPDX-License-Identifier: GPL-2.0
/*
 * Members of a session as evsels, with instances that are reopened by number.
 */
#include "reopen.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <api/fs/tracing_path.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>
#include <perf/cpumap.h>
#include <perf/threadmap.h>
#include <internal/evlist.h>
#include <internal/evsel.h>
#include <internal/lib.h>
#include "clockid.h"
#include "counts.h"
#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "record.h"
#include "registry.h"
#include "tool_pmu.h"

/* NULL if there is none, e.g. of a task that was not on that CPU */
static struct persistent_instance *evsel__persistent_instance(struct evsel *evsel, int cpu_map_idx,
							      int thread)
{
	struct persistent_instance *instance;

	instance = xyarray__entry(evsel->persistent->instances, cpu_map_idx, thread);
	return instance && instance->info.id ? instance : NULL;
}

/* Go on to the next instance, skipping holes and evsels without a session. */
bool persistent_iter__next(struct persistent_iter *it)
{
	while (it->evsel) {
		if (++it->thread == perf_thread_map__nr(it->evsel->core.threads)) {
			it->thread = 0;
			it->idx++;
		}
		if (!it->evsel->persistent || it->idx == (int)evsel__nr_cpus(it->evsel)) {
			it->evsel = it->evsel == it->last ? NULL : evsel__next(it->evsel);
			it->idx = 0;
			it->thread = -1;
			continue;
		}
		it->instance = evsel__persistent_instance(it->evsel, it->idx, it->thread);
		it->fd = it->evsel->core.fd ? PERSISTENT_FD(it->evsel, it->idx, it->thread) : -1;
		if (it->instance)
			return true;
	}
	return false;
}

/*
 * Read the count since evlist__enable_persistent(). It is 0 without an instance, or if a
 * pinned event never got its counter; if the event lost its counter, the last count stays.
 */
int evsel__read_persistent(struct evsel *evsel, int cpu_map_idx, int thread,
			   struct perf_counts_values *count)
{
	ssize_t n;

	memset(count, 0, sizeof(*count));
	if (!evsel__persistent_instance(evsel, cpu_map_idx, thread))
		return 0;

	n = readn(PERSISTENT_FD(evsel, cpu_map_idx, thread), count->values, 3 * sizeof(u64));
	if (!n && evsel->prev_raw_counts)
		*count = *perf_counts(evsel->prev_raw_counts, cpu_map_idx, thread);
	return n < 0 ? -errno : 0;
}

/*
 * A task's event that is bound to a CPU is enabled while the task runs anywhere, but has
 * its counter only while it runs there. So only the sum of all CPUs tells how long there
 * was no counter.
 */
void persistent_times__add(struct persistent_times *times, u64 ena, u64 run)
{
	times->run += run;
	/* Events are not enabled at exactly the same time, and never on an offline CPU. */
	if (ena && (!times->ena || ena < times->ena))
		times->ena = ena;
}

/* Distribute the time without a counter; do not scale for the rest. */
void persistent_times__share(const struct persistent_times *times,
			     struct perf_counts_values *count)
{
	if (times->run >= times->ena)
		count->ena = count->run;
	else if (times->run)
		count->ena = (double)count->run * times->ena / times->run;
}

static struct perf_counts_values *evsel__task_count(struct evsel *evsel, int cpu_map_idx,
						    int thread)
{
	struct persistent_instance *instance;

	instance = evsel__persistent_instance(evsel, cpu_map_idx, thread);
	if (!instance || instance->info.pid == -1 || instance->info.cpu == -1)
		return NULL;
	return perf_counts(evsel->counts, cpu_map_idx, thread);
}

/* For perf stat, after all counts of an interval were read and before they are scaled */
void evsel__share_persistent_times(struct evsel *evsel)
{
	int nr_cpus = evsel__nr_cpus(evsel);
	struct perf_counts_values *count;

	for (int i = 0; i < perf_thread_map__nr(evsel->core.threads); i++) {
		struct persistent_times times = {};

		for (int idx = 0; idx < nr_cpus; idx++) {
			if (!evsel->snapshot)
				evsel__compute_deltas(evsel, idx, i,
						      perf_counts(evsel->counts, idx, i));
			count = evsel__task_count(evsel, idx, i);
			if (count)
				persistent_times__add(&times, count->ena, count->run);
		}
		/* Times on CPUs that were not chosen are unknown. */
		if (evsel->persistent->some_cpus)
			times.ena = 0;

		for (int idx = 0; idx < nr_cpus; idx++) {
			count = evsel__task_count(evsel, idx, i);
			if (count)
				persistent_times__share(&times, count);
		}
	}
}

/* Records dropped, buffer full, since this reader began */
int evsel__persistent_lost_records(struct evsel *evsel, int cpu_map_idx, int thread, u64 *lost)
{
	struct perf_persistent_query query = {};
	struct persistent_instance *instance;
	int err;

	*lost = 0;
	instance = evsel__persistent_instance(evsel, cpu_map_idx, thread);
	if (!instance)
		return 0;

	err = persistent__query(PERSISTENT_FD(evsel, cpu_map_idx, thread), &query);
	/* EINVAL: the event was stopped, and its losses at the end are unknown. */
	if (err)
		return err == -EINVAL ? 0 : err;
	*lost = query.self.lost_before + query.self.lost - instance->base_lost;
	return 0;
}

/* Lost records of side-band or of all other events, as far as known */
u64 evlist__persistent_lost(struct evlist *evlist, bool side_band)
{
	u64 lost, total = 0;

	evlist__for_each_persistent(evlist, it) {
		if (it.fd >= 0 && evsel__is_dummy_event(it.evsel) == side_band &&
		    !evsel__persistent_lost_records(it.evsel, it.idx, it.thread, &lost))
			total += lost;
	}
	return total;
}

/*
 * Whether the session of this event has ended, and not only tasks of it. Attached
 * instances do not answer, and may have been the last ones.
 */
bool evsel__persistent_ended(struct evsel *evsel)
{
	char name[PERF_PERSISTENT_NAME_MAX];

	evsel__for_each_persistent(evsel, it) {
		struct perf_persistent_query query = {};

		if (!persistent__query(it.fd, &query))
			return query.self.state == PERF_PERSISTENT_STATE_EXPIRED;
	}
	return !persistent__name(evsel->persistent->id, name);
}

/* Instances that were dropped have left the session. */
static bool evsel__persistent_exited(struct evsel *evsel)
{
	bool all_left = true;

	evsel__for_each_persistent(evsel, it) {
		struct perf_persistent_query query = {};
		int err = persistent__query(it.fd, &query);

		if (err == -EINVAL || err == -ESRCH)
			continue;
		if (err || (query.self.state != PERF_PERSISTENT_STATE_EXITED &&
			    query.self.state != PERF_PERSISTENT_STATE_EXPIRED &&
			    query.self.state != PERF_PERSISTENT_STATE_REVOKED))
			return false;
		all_left = false;
	}
	return !all_left || evsel__persistent_ended(evsel);
}

/*
 * Whether all events but those of the tool are of sessions and there is nothing left to count:
 * the sessions have ended, or all their tasks have exited.
 */
bool evlist__persistent_exited(struct evlist *evlist)
{
	bool exited = false;
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		if (evsel__is_tool(evsel))
			continue;
		exited = evsel->persistent && evsel__persistent_exited(evsel);
		if (!exited)
			break;
	}
	return exited;
}

/* A sample names its event by the id of the instance. */
int evsel__add_persistent_ids(struct evlist *evlist, struct evsel *evsel)
{
	if (!evsel->core.sample_id &&
	    perf_evsel__alloc_id(&evsel->core, perf_cpu_map__nr(evsel->core.cpus),
				 perf_thread_map__nr(evsel->core.threads)))
		return -ENOMEM;

	evsel__for_each_persistent(evsel, it) {
		perf_evlist__id_add(evlist__core(evlist), &evsel->core, it.idx, it.thread,
				    it.instance->info.event_id);
		perf_evsel__set_sid_idx(&evsel->core, 0, it.idx, it.thread);
	}
	return 0;
}

static const char *evsel__scnprintf_session(struct evsel *evsel, char *buf, size_t size)
{
	const struct persistent_member *member = evsel->persistent;

	scnprintf(buf, size, "%s%s%s", evsel__name(evsel), member ? " of " : "",
		  member ? member->name : "");
	return buf;
}

/*
 * Before records are read, make sure that the event of each can be found in the same way. All
 * go to one file, which has one clock and one place for the id.
 */
int evlist__identify_persistent(struct evlist *evlist)
{
	struct evsel *evsel, *first = evlist__first(evlist);
	char name[256], first_name[256];
	const char *what = NULL;
	int err;

	evlist__for_each_entry(evlist, evsel) {
		err = evsel->persistent ? evsel__add_persistent_ids(evlist, evsel) : 0;
		if (err)
			return err;
	}
	evlist__set_id_pos(evlist);

	evlist__for_each_entry(evlist, evsel) {
		if (evsel->core.attr.use_clockid != first->core.attr.use_clockid ||
		    evsel->core.attr.clockid != first->core.attr.clockid)
			what = "have different clocks";
		else if (evsel->core.attr.sample_id_all != first->core.attr.sample_id_all ||
			 (evlist__nr_entries(evlist) > 1 &&
			  (evsel->id_pos != first->id_pos || evsel->is_pos != first->is_pos)))
			what = "identify their samples in different ways";
		if (what) {
			pr_err("%s and %s %s, so they cannot be read together\n",
			       evsel__scnprintf_session(first, first_name, sizeof(first_name)),
			       evsel__scnprintf_session(evsel, name, sizeof(name)), what);
			return -EINVAL;
		}
	}
	return 0;
}

/* The common layout of tracepoints can be read with the same rights as each format. */
static int evsel__check_format(struct evsel *evsel)
{
	char *path = get_events_file("header_page");
	int err = 0;

	if (!path)
		return -ENOMEM;
#ifdef HAVE_LIBTRACEEVENT
	if (access(path, R_OK)) {
		err = -errno;
		pr_err("cannot write %s to a perf.data: cannot read %s: %s\n",
		       evsel__name(evsel), path, strerror(-err));
	}
	if (err == -EACCES)
		pr_err("To allow this for one of your groups: mount -o remount,mode=750,gid=<group> %s\n",
		       tracing_path_mount());
#else
	err = -EOPNOTSUPP;
	pr_err("cannot write %s to a perf.data: libtraceevent is necessary for tracepoint support\n",
	       evsel__name(evsel));
#endif
	put_events_file(path);
	return err;
}

/*
 * Other versions of perf refuse a perf.data without the formats of its tracepoints. Check
 * before anything is written or consumed.
 */
int evlist__check_persistent_formats(struct evlist *evlist)
{
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		if (evsel->persistent && evsel->core.attr.type == PERF_TYPE_TRACEPOINT)
			return evsel__check_format(evsel);
	}
	return 0;
}

/*
 * Make synthesized records fit into the same file: use the same clock and position of the
 * id, and add the tasks and cgroups that existed before.
 */
void evlist__set_persistent_opts(struct evlist *evlist, struct record_opts *opts)
{
	struct evsel *evsel;

	evlist__for_each_entry(evlist, evsel) {
		struct perf_event_attr *attr = &evsel->core.attr;

		if (!evsel->persistent)
			continue;
		opts->sample_identifier = true;
		opts->record_namespaces |= attr->namespaces;
		opts->record_cgroup |= attr->cgroup;
		opts->record_data_mmap |= attr->mmap_data;
		opts->build_id |= attr->build_id;
		opts->use_clockid = attr->use_clockid;
		opts->clockid = attr->clockid;
	}
	if (opts->use_clockid)
		get_clockid_res(opts->clockid, &opts->clockid_res_ns);
}

void evsel__exit_persistent(struct evsel *evsel)
{
	if (!evsel->persistent)
		return;
	perf_evsel__close(&evsel->core);
	xyarray__delete(evsel->persistent->instances);
	zfree(&evsel->persistent);
}
