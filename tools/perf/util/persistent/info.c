// SPDX-License-Identifier: GPL-2.0
/*
 * The members and instances of one session.
 */
#include "info.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/zalloc.h>
#include <api/fs/fs.h>
#include <perf/cpumap.h>
#include "cpumap.h"
#include "debug.h"
#include "intlist.h"
#include "registry.h"
#include "strbuf.h"
#include "strlist.h"

/* Limit of retries if members come and go between reading sysfs and the query */
#define MAX_TRIES	10

static int persistent_info__add_cgroup(struct persistent_info *info,
				       struct persistent_answer *answer)
{
	char *cgroup = answer->cgroup;
	int err;

	if (!cgroup[0]) {
		info->no_cgroup |= !persistent__is_side_band(answer->attr.type,
							     answer->attr.config);
		return 0;
	}
	info->cgroups = info->cgroups ?: strlist__new(NULL, NULL);
	err = info->cgroups ? strlist__add(info->cgroups, persistent__printable(cgroup)) : -ENOMEM;
	return err == -EEXIST ? 0 : err;
}

static int persistent_info__add_member(struct persistent_info *info, int i)
{
	struct perf_persistent_info *instance = &info->instances[i];
	struct persistent_info_member *member = &info->members[instance->member];
	struct persistent_answer answer;
	int err;

	/* The kernel hides what the caller may not read: another instance may be readable. */
	if (member->known || !instance->event_id)
		return 0;

	err = persistent__ask(info->id, instance->instance, &answer);
	if (err)
		/* This instance has gone; another may be there. */
		return err == -ENOENT ? 0 : err;

	err = persistent_info__add_cgroup(info, &answer);
	if (err)
		return err;

	member->known = true;
	member->attr = answer.attr;
	strlcpy(member->label, answer.label, sizeof(member->label));
	if (!member->label[0])
		snprintf(member->label, sizeof(member->label), "%u:0x%llx", member->attr.type,
			 (unsigned long long)member->attr.config);
	return 0;
}

static int persistent_info__init_instances(struct persistent_info *info, u32 id)
{
	*info = (struct persistent_info) { .id = id };
	if (!persistent__name_or_id(id, info->name))
		return -ENOENT;

	info->nr = persistent__instances(id, &info->query, &info->instances);
	if (info->nr < 0)
		return info->nr;

	for (int i = 0; i < info->nr; i++)
		info->nr_members = max(info->nr_members, info->instances[i].member + 1);

	info->members = calloc(info->nr_members, sizeof(*info->members));
	return info->members || !info->nr ? 0 : -ENOMEM;
}

/* Returns 0, or a negative error without a message: -ENOENT if the session has ended. */
int persistent_info__init(struct persistent_info *info, u32 id)
{
	int err = persistent_info__init_instances(info, id);

	for (int i = 0; i < info->nr && !err; i++)
		err = persistent_info__add_member(info, i);
	for (int i = 0; i < info->nr && !err; i++) {
		if (!info->instances[i].event_id && !info->members[info->instances[i].member].known)
			err = -EACCES;
	}
	if (err)
		persistent_info__exit(info);
	return err == -ESRCH ? -ENOENT : err;
}

/* Fill in the types of the members and names for them. */
static int persistent_info__add_types(struct persistent_info *info)
{
	struct persistent_types types;
	int nr = 0;

	for (int i = 0; i < info->nr; i++)
		info->members[info->instances[i].member].known = true;
	if (persistent_types__read(&types, info->id))
		return -ENOENT;

	for (u32 i = 0; i < info->nr_members; i++) {
		struct persistent_info_member *member = &info->members[i];
		struct persistent_type *type = &types.list[nr];
		struct strbuf label = STRBUF_INIT;

		if (!member->known)
			continue;
		/* A member has joined or left meanwhile. */
		if (nr++ == types.nr)
			return -EAGAIN;
		member->attr.type = type->type;
		member->attr.config = type->config;
		if (!persistent__is_side_band(type->type, type->config))
			persistent__add_name(&label, type->type, type->config);
		strlcpy(member->label, label.buf, sizeof(member->label));
		strbuf_release(&label);
	}
	return nr == types.nr ? 0 : -EAGAIN;
}

/* Fill in only the types and configs of the members, which anybody may know. */
int persistent_info__init_types(struct persistent_info *info, u32 id)
{
	int err, tries = 0;

	do {
		err = persistent_info__init_instances(info, id) ?: persistent_info__add_types(info);
		if (err)
			persistent_info__exit(info);
	} while (err == -EAGAIN && ++tries < MAX_TRIES);
	return err;
}

/* For callers who control the session, but may not have the right to read it */
int persistent_info__init_control(struct persistent_info *info, u32 id)
{
	int err = persistent_info__init(info, id);

	return err == -EACCES ? persistent_info__init_types(info, id) : err;
}

/* Number of instances that the caller may not read: the kernel hides what they have counted. */
int persistent_info__nr_hidden(const struct persistent_info *info)
{
	int nr = 0;

	for (int i = 0; i < info->nr; i++)
		nr += !info->instances[i].event_id;
	return nr;
}

void persistent_info__exit(struct persistent_info *info)
{
	zfree(&info->instances);
	zfree(&info->members);
	strlist__delete(info->cgroups);
	info->cgroups = NULL;
}

/*
 * Returns the number of the member with this name or number, as 'perf persistent list -v'
 * shows it, or a negative error after printing a message.
 */
int persistent_info__find_member(struct persistent_info *info, const char *event)
{
	int found = -ENOENT;
	bool hidden = false;
	char number[16];

	for (u32 i = 0; i < info->nr_members; i++) {
		snprintf(number, sizeof(number), "%u", i);
		/* Without its attr, the name is a generic one. */
		hidden |= info->members[i].known && !info->members[i].attr.size;
		if (!info->members[i].known ||
		    (strcmp(info->members[i].label, event) && strcmp(number, event)))
			continue;
		if (found >= 0) {
			pr_err("'%s' matches several events of session '%s': use a number (see 'perf persistent list -v %s')\n",
			       event, info->name, info->name);
			return -EINVAL;
		}
		found = i;
	}
	if (found < 0 && hidden)
		pr_err("cannot look up event '%s' of session '%s' by name without the right r: use its number\n",
		       event, info->name);
	else if (found < 0)
		pr_err("session '%s' has no event '%s' (see 'perf persistent list -v %s')\n",
		       info->name, event, info->name);
	return found;
}

bool persistent_info__is_side_band(struct persistent_info *info, u32 member)
{
	struct perf_event_attr *attr = &info->members[member].attr;

	return persistent__is_side_band(attr->type, attr->config);
}

/*
 * Move side-band, which is on all CPUs whatever the session measures, to the end. Returns
 * the number of other instances or, if there are none, of side-band instances.
 */
int persistent_info__sort_side_band(struct persistent_info *info)
{
	struct perf_persistent_info *instances = info->instances;
	int nr = 0;

	for (int i = 0; i < info->nr; i++) {
		struct perf_persistent_info instance = instances[i];

		if (persistent_info__is_side_band(info, instance.member))
			continue;
		instances[i] = instances[nr];
		instances[nr++] = instance;
	}
	return nr ?: info->nr;
}

/* KVM does not give guests the PMU while one of its events counts in guests. */
bool persistent_info__includes_guests(struct persistent_info *info, u32 member)
{
	struct perf_event_attr *attr = &info->members[member].attr;

	return !attr->exclude_guest && persistent__is_cpu_pmu(attr->type);
}

static void persistent_details__find_where(struct persistent_answer *details)
{
	struct perf_persistent_info *self = &details->query.self;
	char *where = details->where, pid[32] = "", cpu[32] = "";

	if (self->pid > 0)
		scnprintf(pid, sizeof(pid), "pid %d", self->pid);
	else if (!self->pid)
		scnprintf(pid, sizeof(pid), "a task%s", self->event_id ? " elsewhere" : "");
	if (self->cpu >= 0)
		scnprintf(cpu, sizeof(cpu), "CPU %d", self->cpu);

	scnprintf(where, sizeof(details->where), "%s%s%s%s%s", pid, *pid && *cpu ? " on " : "", cpu,
		  details->cgroup[0] ? " in " : "", details->cgroup);
}

int persistent__details(u32 id, u32 instance, struct persistent_answer *details)
{
	int err = persistent__ask(id, instance, details);

	if (err)
		return err;
	persistent__printable(details->filter);
	persistent__printable(details->cgroup);
	persistent_details__find_where(details);
	return 0;
}

/*
 * If the instance cannot be opened, fill in what the list of instances has, and return the
 * error: -ENOENT if the instance has gone or the session has ended.
 */
int persistent_info__details(struct persistent_info *info, int i,
			     struct persistent_answer *details)
{
	int err = persistent__details(info->id, info->instances[i].instance, details);

	if (err) {
		memset(details, 0, sizeof(*details));
		details->query.self = info->instances[i];
		persistent_details__find_where(details);
	}
	return err == -ESRCH ? -ENOENT : err;
}

const char *persistent__state(u32 state)
{
	static const char * const states[PERSISTENT_STATES] = {
		[PERF_PERSISTENT_STATE_ENABLED]	 = "enabled",
		[PERF_PERSISTENT_STATE_DISABLED] = "disabled",
		[PERF_PERSISTENT_STATE_HELD]	 = "held",
		[PERF_PERSISTENT_STATE_OFFLINE]	 = "offline",
		[PERF_PERSISTENT_STATE_ERROR]	 = "error",
		[PERF_PERSISTENT_STATE_EXITED]	 = "exited",
		[PERF_PERSISTENT_STATE_EXPIRED]	 = "expired",
		[PERF_PERSISTENT_STATE_REVOKED]	 = "revoked",
	};

	return state < ARRAY_SIZE(states) ? states[state] : "unknown";
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

/* If the states differ, print how many instances are in the most noteworthy one. */
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

/*
 * Returns the number of tasks. *pid is the pid of the first one, or 0 if unknown: some are
 * not in the caller's pid namespace, or the caller may not see them.
 */
static unsigned int count_tasks(const struct perf_persistent_info *instances, int nr, pid_t *pid)
{
	struct intlist *pids = intlist__new(NULL);
	unsigned int tasks;

	*pid = 0;
	if (!pids)
		return 0;
	for (int i = 0; i < nr; i++) {
		if (instances[i].pid != -1)
			intlist__findnew(pids, instances[i].pid);
	}
	tasks = intlist__nr_entries(pids);
	if (tasks)
		*pid = intlist__first(pids)->i;
	intlist__delete(pids);
	return tasks;
}

/* Print the CPUs of the instances as a list, like sysfs. */
void persistent__scnprintf_cpus(char *buf, size_t size,
				const struct perf_persistent_info *instances, int nr)
{
	struct perf_cpu_map *cpus = NULL, *cpu;

	buf[0] = '\0';
	for (int i = 0; i < nr; i++) {
		cpu = instances[i].cpu < 0 ? NULL : perf_cpu_map__new_int(instances[i].cpu);
		perf_cpu_map__merge(&cpus, cpu);
		perf_cpu_map__put(cpu);
	}
	if (cpus)
		cpu_map__snprint(cpus, buf, size);
	perf_cpu_map__put(cpus);
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
	scnprintf(buf, size, "%u CPUs", perf_cpu_map__nr(map));
	perf_cpu_map__put(map);
}

/* The end of a path tells more than its beginning. */
static void scnprintf_cgroups(char *buf, size_t size, struct strlist *cgroups)
{
	const char *cgroup = strlist__entry(cgroups, 0)->s;
	size_t len = strlen(cgroup);

	if (strlist__nr_entries(cgroups) > 1)
		scnprintf(buf, size, "%u cgroups", strlist__nr_entries(cgroups));
	else if (len < size)
		scnprintf(buf, size, "%s", cgroup);
	else
		scnprintf(buf, size, "...%s", cgroup + len + sizeof("...") - size);
}

/* Space for a cgroup after a list of CPUs, with " in " */
#define CGROUP_SIZE	14

static void persistent_info__scnprintf_place(const struct persistent_info *info, char *buf,
					     size_t size, int nr, const char *cpus)
{
	/* Without instances, there may be tasks on these CPUs. */
	bool all_cpus = nr > 0 && is_all_cpus(cpus);
	bool in_cgroup = info->cgroups && !info->no_cgroup;
	size_t len = 0;

	if (all_cpus && !in_cgroup) {
		scnprintf(buf, size, "all CPUs");
	} else if (!in_cgroup) {
		scnprintf_cpus_or_nr(buf, size, cpus);
	} else {
		if (!all_cpus) {
			scnprintf_cpus_or_nr(buf, size - CGROUP_SIZE, cpus);
			len = strlen(buf);
			len += scnprintf(buf + len, size - len, " in ");
		}
		scnprintf_cgroups(buf + len, size - len, info->cgroups);
	}
}

/*
 * @nr: the first instances are those to print, or negative if they are not known
 *
 * A list of CPUs that does not fit is shown as the number of CPUs, and the end of a cgroup.
 */
void persistent_info__scnprintf_target(const struct persistent_info *info, char *buf,
				       size_t size, int nr, const char *cpus)
{
	pid_t pid;
	unsigned int tasks = count_tasks(info->instances, nr, &pid);

	if (tasks == 1 && pid)
		scnprintf(buf, size, "pid %d", pid);
	else if (tasks && pid)
		scnprintf(buf, size, "%u tasks", tasks);
	else if (tasks && info->instances[0].event_id)
		scnprintf(buf, size, "tasks elsewhere");
	else if (tasks || !cpus[0])
		scnprintf(buf, size, "tasks");
	else
		persistent_info__scnprintf_place(info, buf, size, nr, cpus);
}
