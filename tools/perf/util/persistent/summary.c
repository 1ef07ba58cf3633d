// SPDX-License-Identifier: GPL-2.0
/*
 * All instances of a session in a few words: what they do, and where they measure.
 */
#include "info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <api/fs/fs.h>
#include <linux/bitmap.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <perf/cpumap.h>
#include "registry.h"

/* As sysfs writes it: software, PERF_COUNT_SW_DUMMY */
#define PERSISTENT_SIDE_BAND	"1:0x9"

/*
 * Side-band is on all CPUs, whatever the session measures: leave it out. The lines of
 * sysfs are in the order of the members, as the instances' numbers of these are.
 */
int persistent__drop_side_band(const char *types, struct perf_persistent_info *instances, int nr)
{
	bool side_band[PERSISTENT_MAX_MEMBERS] = {}, known[PERSISTENT_MAX_MEMBERS] = {};
	int left = 0;

	for (int i = 0; i < nr; i++)
		known[instances[i].member % PERSISTENT_MAX_MEMBERS] = true;
	for (int i = 0; i < PERSISTENT_MAX_MEMBERS && *types; i++) {
		if (!known[i])
			continue;
		side_band[i] = strstarts(types, PERSISTENT_SIDE_BAND "\n") ||
			       !strcmp(types, PERSISTENT_SIDE_BAND);
		types += strcspn(types, "\n");
		types += *types == '\n';
	}
	for (int i = 0; i < nr; i++) {
		if (!side_band[instances[i].member % PERSISTENT_MAX_MEMBERS])
			instances[left++] = instances[i];
	}
	/* There is nothing else. */
	return left ?: nr;
}

void persistent__count_states(const struct perf_persistent_info *instances, int nr,
			      u32 nrs[PERSISTENT_STATES])
{
	memset(nrs, 0, PERSISTENT_STATES * sizeof(*nrs));
	for (int i = 0; i < nr; i++) {
		if (instances[i].state < PERSISTENT_STATES)
			nrs[instances[i].state]++;
	}
}

/* If they differ, how many are in the state that somebody should know of first. */
void persistent__scnprintf_state(char *buf, size_t size, const struct perf_persistent_query *query,
				 const struct perf_persistent_info *instances, int nr)
{
	static const u32 first[] = {
		PERF_PERSISTENT_STATE_REVOKED, PERF_PERSISTENT_STATE_ERROR,
		PERF_PERSISTENT_STATE_EXPIRED, PERF_PERSISTENT_STATE_EXITED,
		PERF_PERSISTENT_STATE_OFFLINE, PERF_PERSISTENT_STATE_HELD,
		PERF_PERSISTENT_STATE_DISABLED, PERF_PERSISTENT_STATE_ENABLED,
	};
	u32 nrs[PERSISTENT_STATES];

	if (query->flags & PERF_PERSISTENT_UNCOMMITTED) {
		scnprintf(buf, size, "setting up");
		return;
	}

	persistent__count_states(instances, nr, nrs);
	scnprintf(buf, size, "unknown");
	for (size_t i = 0; i < ARRAY_SIZE(first); i++) {
		u32 n = nrs[first[i]];

		if (!n)
			continue;
		if (n == (u32)nr)
			scnprintf(buf, size, "%s", persistent__state(first[i]));
		else
			scnprintf(buf, size, "%u of %d %s", n, nr, persistent__state(first[i]));
		return;
	}
}

static int pid_cmp(const void *a, const void *b)
{
	const pid_t *l = a, *r = b;

	return *l < *r ? -1 : *l > *r;
}

/*
 * Returns the number of tasks; *pid is the last of them, or 0 if the number is not known:
 * some are not in the caller's pid namespace, or not for the caller to know.
 */
static int count_tasks(const struct perf_persistent_info *instances, int nr, pid_t *pid)
{
	pid_t *pids = malloc(nr * sizeof(*pids));
	int n = 0, tasks = 0;

	*pid = 0;
	for (int i = 0; pids && i < nr; i++) {
		if (instances[i].pid != -1)
			pids[n++] = instances[i].pid;
	}
	if (n)
		qsort(pids, n, sizeof(*pids), pid_cmp);
	for (int i = 0; i < n; i++)
		tasks += !i || pids[i] != pids[i - 1];
	if (n)
		*pid = pids[0] ? pids[n - 1] : 0;
	free(pids);
	return tasks;
}

/* The CPUs of the instances, as sysfs writes a list of them */
void persistent__scnprintf_cpus(char *buf, size_t size,
				const struct perf_persistent_info *instances, int nr)
{
	unsigned long *cpus;
	int max_cpu = -1;

	for (int i = 0; i < nr; i++)
		max_cpu = max(max_cpu, instances[i].cpu);
	buf[0] = '\0';
	cpus = max_cpu < 0 ? NULL : bitmap_zalloc(max_cpu + 1);
	if (!cpus)
		return;
	for (int i = 0; i < nr; i++) {
		if (instances[i].cpu >= 0)
			__set_bit(instances[i].cpu, cpus);
	}
	bitmap_scnprintf(cpus, max_cpu + 1, buf, size);
	bitmap_free(cpus);
}

static bool is_all_cpus(const char *cpus)
{
	static char *present;
	size_t len;

	if (!present && sysfs__read_str("devices/system/cpu/present", &present, &len))
		return false;
	len = strcspn(present, "\n");
	return !strncmp(cpus, present, len) && !cpus[len];
}

static void scnprintf_cpus_or_nr(char *buf, size_t size, const char *cpus)
{
	struct perf_cpu_map *map;

	if (snprintf(buf, size, "CPU%s %s", strpbrk(cpus, ",-") ? "s" : "", cpus) < (int)size)
		return;
	map = perf_cpu_map__new(cpus);
	scnprintf(buf, size, "%u CPUs", (unsigned int)perf_cpu_map__nr(map));
	perf_cpu_map__put(map);
}

/*
 * A list of CPUs that does not fit is shown as their number. Without instances there
 * may be tasks on these CPUs, so that nothing is said of all.
 */
void persistent__scnprintf_target(char *buf, size_t size,
				  const struct perf_persistent_info *instances, int nr,
				  const char *cpus)
{
	pid_t pid;
	int tasks = count_tasks(instances, max(nr, 0), &pid);

	if (tasks == 1 && pid)
		scnprintf(buf, size, "pid %d", pid);
	else if (tasks && pid)
		scnprintf(buf, size, "%d tasks", tasks);
	else if (tasks && instances[0].event_id)
		scnprintf(buf, size, "tasks elsewhere");
	else if (tasks || !cpus[0])
		scnprintf(buf, size, "tasks");
	else if (nr > 0 && is_all_cpus(cpus))
		scnprintf(buf, size, "all CPUs");
	else
		scnprintf_cpus_or_nr(buf, size, cpus);
}
