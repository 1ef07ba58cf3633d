/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPU hotplug, and PMUs whose events move to another CPU on it
 */
#ifndef _PERF_EVENTS_HOTPLUG_H
#define _PERF_EVENTS_HOTPLUG_H

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/types.h>

#define DEVICES	"/sys/bus/event_source/devices"
#define CONFIGS	32	/* number of a PMU's configs to try */

static inline bool read_line(const char *path, char *line, int size)
{
	FILE *file = fopen(path, "re");
	bool ok;

	if (!file)
		return false;
	ok = fgets(line, size, file);
	fclose(file);
	return ok;
}

static inline bool cpu_online(int cpu, bool online)
{
	char path[64];
	bool ok;
	int fd;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ok = write(fd, online ? "1" : "0", 1) == 1;
	close(fd);
	return ok;
}

/* The number of CPUs in a list like "0,2" or "0-3" */
static inline int nr_cpus(const char *list)
{
	int first, last, nr = 0;
	char *end;

	do {
		first = strtol(list, &end, 10);
		last = first;
		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		nr += last - first + 1;
		list = end + 1;
	} while (*end == ',');
	return nr;
}

/*
 * Look for a PMU that has its events on one CPU of several, which can go offline. The kernel
 * then moves them with perf_pmu_migrate_context(). Returns the CPU, on which @use could open
 * events, or -1; @path becomes the path of the PMU's cpumask.
 */
static inline int find_shared_pmu(char *path, size_t size,
				  bool (*use)(void *data, __u32 type, int cpu), void *data)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	DIR *dir = opendir(DEVICES);
	char file[512], line[256], *cpu;
	struct dirent *entry;
	int found = -1;
	__u32 type;

	while (dir && found < 0 && (entry = readdir(dir))) {
		snprintf(file, sizeof(file), DEVICES "/%s/type", entry->d_name);
		if (entry->d_name[0] == '.' || !read_line(file, line, sizeof(line)))
			continue;
		type = strtoul(line, NULL, 10);
		snprintf(path, size, DEVICES "/%s/cpumask", entry->d_name);
		if (!read_line(path, line, sizeof(line)) || nr_cpus(line) >= online)
			continue;

		for (cpu = strtok(line, ",-\n"); cpu && found < 0; cpu = strtok(NULL, ",-\n")) {
			snprintf(file, sizeof(file), "/sys/devices/system/cpu/cpu%s/online", cpu);
			if (!access(file, W_OK) && use(data, type, atoi(cpu)))
				found = atoi(cpu);
		}
	}
	if (dir)
		closedir(dir);
	return found;
}

#endif /* _PERF_EVENTS_HOTPLUG_H */
