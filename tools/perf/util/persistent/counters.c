// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent list --counters: show who uses the counters of the CPUs' PMUs.
 */
#include "cmd.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <linux/string.h>
#include <perf/cpumap.h>
#include "cpumap.h"
#include "debug.h"
#include "info.h"
#include "perf-sys.h"
#include "pmu.h"
#include "pmus.h"
#include "registry.h"

/* More than any PMU has */
#define MAX_COUNTERS	64

/*
 * Returns how many more events get a counter on the CPU, or a negative error. Opens events
 * one by one until one gets no counter, and closes them again. They are not pinned, so that
 * they get a counter only if one is free; and not in guests, which could not have the PMU
 * meanwhile.
 */
static int pmu__count_free(struct perf_pmu *pmu, int cpu)
{
	struct perf_event_attr attr = {
		.type	       = PERF_TYPE_HARDWARE,
		.size	       = sizeof(attr),
		.config	       = PERF_COUNT_HW_CPU_CYCLES,
		.read_format   = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		.exclude_guest = 1,
	};
	int fds[MAX_COUNTERS], nr = 0, err = 0;
	bool runs = true;

	if (perf_pmus__supports_extended_type())
		attr.config |= (u64)pmu->type << PERF_PMU_TYPE_SHIFT;
	while (runs && nr < MAX_COUNTERS) {
		struct { u64 value, enabled, running; } count = {};
		int fd = sys_perf_event_open(&attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

		if (fd < 0) {
			err = -errno;
			break;
		}
		/* The event had a counter at once if it ran all the time that it was enabled. */
		runs = read(fd, &count, sizeof(count)) == sizeof(count) &&
		       count.running && count.running == count.enabled;
		fds[nr++] = fd;
	}
	for (int i = 0; i < nr; i++)
		close(fds[i]);
	return err ?: nr - !runs;
}

struct counters {
	int	nr_cpus;
	int	*used;
	int	tasks;
	bool	titles;
};

static void counters__add_member(struct counters *counters, struct persistent_info *info,
				 u32 member)
{
	int never = 0, nr = 0;

	for (int i = 0; i < info->nr; i++) {
		const struct perf_persistent_info *instance = &info->instances[i];

		if (instance->member != member)
			continue;
		nr++;
		/* A pinned event without a counter is not tried again. */
		if (instance->state == PERF_PERSISTENT_STATE_ERROR)
			never++;
		else if (instance->state != PERF_PERSISTENT_STATE_ENABLED)
			continue;
		else if (instance->time_enabled && !instance->time_running)
			never++;
		else if (instance->pid != -1)
			counters->tasks++;
		else if (instance->cpu >= 0 && instance->cpu < counters->nr_cpus)
			counters->used[instance->cpu]++;
	}
	if (never)
		printf("%s, id %u: %s never had a counter in %d of %d instances\n", info->name,
		       info->id, info->members[member].label, never, nr);
}

static int counters__add_session(struct counters *counters, u32 id)
{
	struct persistent_types types;
	struct persistent_info info;
	char buf[STRERR_BUFSIZE];
	int err;

	if (persistent_types__read(&types, id) || !persistent_types__have_cpu_pmu(&types))
		return 0;
	err = persistent_info__init(&info, id);
	if (err == -ENOENT)
		return 0;
	if (err) {
		pr_err("%s, id %u, is left out: %s\n", info.name, id,
		       persistent__strerror(id, 'r', err, buf, sizeof(buf)));
		return err;
	}
	for (u32 i = 0; i < info.nr_members; i++) {
		if (info.members[i].known && persistent__is_cpu_pmu(info.members[i].attr.type))
			counters__add_member(counters, &info, i);
	}
	persistent_info__exit(&info);
	return 0;
}

static int counters__strerror(const char *pmu, int cpu, int err)
{
	char buf[STRERR_BUFSIZE];

	if (err == -ENOENT || err == -ENODEV || err == -EOPNOTSUPP)
		pr_err("no hardware PMU: CPU %d has no counters that perf can use\n", cpu);
	else if (err == -EACCES || err == -EPERM)
		pr_err("counting the free counters of CPU %d needs CAP_PERFMON, or kernel.perf_event_paranoid of 0 or less\n",
		       cpu);
	else
		pr_err("failed to count the free counters of CPU %d, PMU %s: %s\n", cpu, pmu,
		       str_error_r(-err, buf, sizeof(buf)));
	return err;
}

/* An event of a core PMU that is bound to a CPU uses the PMU of that CPU. */
static int counters__print_cpu(struct counters *counters, struct perf_pmu *pmu, int cpu)
{
	int nr_free = pmu__count_free(pmu, cpu);

	if (nr_free < 0)
		return counters__strerror(pmu->name, cpu, nr_free);
	if (!counters->titles)
		printf("CPU  USED  FREE  PMU\n");
	counters->titles = true;
	printf("%3d  %4d  %4d  %s\n", cpu, cpu < counters->nr_cpus ? counters->used[cpu] : 0,
	       nr_free, pmu->name);
	return 0;
}

/* Some PMUs list CPUs that are offline. */
static int counters__print(struct counters *counters)
{
	struct perf_cpu_map *online = perf_cpu_map__new_online_cpus();
	struct perf_pmu *pmu = NULL;
	struct perf_cpu cpu;
	unsigned int idx;
	int err = 0;

	while (!err && (pmu = perf_pmus__scan_core(pmu))) {
		perf_cpu_map__for_each_cpu(cpu, idx, pmu->cpus) {
			if (!err && perf_cpu_map__has(online, cpu))
				err = counters__print_cpu(counters, pmu, cpu.cpu);
		}
	}
	perf_cpu_map__put(online);
	return err;
}

int list__counters(u32 *ids, int nr)
{
	struct counters counters = { .nr_cpus = cpu__max_cpu().cpu };
	int err, refused = 0;

	counters.used = calloc(counters.nr_cpus ?: 1, sizeof(*counters.used));
	if (!counters.used)
		return -ENOMEM;

	for (int i = 0; i < nr; i++)
		refused = counters__add_session(&counters, ids[i]) ?: refused;
	err = counters__print(&counters);
	if (!err && counters.tasks)
		printf("%d more are used by sessions of tasks, each while its task runs\n",
		       counters.tasks);
	free(counters.used);
	return err ?: refused;
}
