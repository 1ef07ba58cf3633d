// SPDX-License-Identifier: GPL-2.0
/*
 * The members and instances of one session.
 */
#include "info.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/zalloc.h>
#include "registry.h"
#include "strbuf.h"

static int persistent_info__add_member(struct persistent_info *info, int i)
{
	struct perf_persistent_info *instance = &info->instances[i];
	struct persistent_info_member *member = &info->members[instance->member];
	struct persistent_answer answer;
	int err;

	if (member->known)
		return 0;

	err = persistent__ask(info->id, instance->instance, &answer);
	if (err)
		/* This one has gone, another may be there. */
		return err == -ENOENT ? 0 : err;

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
	if (!persistent__name(id, info->name)) {
		snprintf(info->name, sizeof(info->name), "(ended)");
		return -ENOENT;
	}

	info->nr = persistent__instances(id, &info->query, &info->instances);
	if (info->nr < 0)
		return info->nr;

	for (int i = 0; i < info->nr; i++)
		info->nr_members = max(info->nr_members, info->instances[i].member + 1);

	info->members = calloc(info->nr_members, sizeof(*info->members));
	return info->members || !info->nr ? 0 : -ENOMEM;
}

/*
 * Returns 0 or a negative error, of which nothing has been said.
 */
int persistent_info__init(struct persistent_info *info, u32 id)
{
	int err = persistent_info__init_instances(info, id);

	for (int i = 0; i < info->nr && !err; i++)
		err = persistent_info__add_member(info, i);
	if (err)
		persistent_info__exit(info);
	return err;
}

/* The lines of sysfs are in the order of the members: their types, and names for them */
static int persistent_info__add_types(struct persistent_info *info)
{
	char types[4096], *rest = types, *line;
	unsigned long long config;
	u32 nr = 0;

	for (int i = 0; i < info->nr; i++)
		info->members[info->instances[i].member].known = true;
	if (persistent__value(info->id, "types", types, sizeof(types)) < 0)
		return -ENOENT;

	while ((line = strsep(&rest, "\n"))) {
		struct persistent_info_member *member;
		struct strbuf label = STRBUF_INIT;

		while (nr < info->nr_members && !info->members[nr].known)
			nr++;
		/* One has joined meanwhile, or left. */
		if (nr == info->nr_members)
			return -EAGAIN;
		member = &info->members[nr++];
		if (sscanf(line, "%u:%llx", &member->attr.type, &config) == 2)
			member->attr.config = config;
		persistent__parse_types(line, ' ', &label);
		strlcpy(member->label, label.buf, sizeof(member->label));
		strbuf_release(&label);
	}
	return nr == info->nr_members ? 0 : -EAGAIN;
}

/*
 * For those who control the session: without the right to read it, its members have the
 * type and config that anybody may know, and no more.
 */
int persistent_info__init_control(struct persistent_info *info, u32 id)
{
	int err = persistent_info__init(info, id);

	if (err != -EACCES)
		return err;
	err = persistent_info__init_instances(info, id) ?: persistent_info__add_types(info);
	if (err)
		persistent_info__exit(info);
	return err;
}

void persistent_info__exit(struct persistent_info *info)
{
	zfree(&info->instances);
	zfree(&info->members);
}

/* It names tasks, counts nothing, and comes with every session. */
bool persistent_info__is_side_band(struct persistent_info *info, u32 member)
{
	struct perf_event_attr *attr = &info->members[member].attr;

	return attr->type == PERF_TYPE_SOFTWARE && attr->config == PERF_COUNT_SW_DUMMY;
}

/* KVM does not give guests the PMU while an event of it counts in guests. */
bool persistent_info__includes_guests(struct persistent_info *info, u32 member)
{
	struct perf_event_attr *attr = &info->members[member].attr;

	return !attr->exclude_guest && persistent__is_cpu_pmu(attr->type);
}

/*
 * Whether some of its events keep KVM from giving guests the PMU; a negative
 * error if that is not for the caller to know.
 */
int persistent__includes_guests(u32 id)
{
	struct persistent_info info;
	bool includes = false;
	int err;

	err = persistent_info__init(&info, id);
	if (err)
		return err;
	for (u32 i = 0; i < info.nr_members; i++)
		includes |= info.members[i].known && persistent_info__includes_guests(&info, i);
	persistent_info__exit(&info);
	return includes;
}

static void persistent_details__find_where(struct persistent_details *details)
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

int persistent__details(int fd, struct persistent_details *details)
{
	int err;

	details->query = (struct perf_persistent_query) {
		.filter	     = (u64)(unsigned long)details->filter,
		.filter_size = sizeof(details->filter),
		.cgroup	     = (u64)(unsigned long)details->cgroup,
		.cgroup_size = sizeof(details->cgroup),
	};
	details->filter[0] = '\0';
	details->cgroup[0] = '\0';
	err = persistent__query_opened(fd, &details->query);
	if (err)
		return err;

	/* What was too long was cut, the end of it too. */
	details->filter[sizeof(details->filter) - 1] = '\0';
	details->cgroup[sizeof(details->cgroup) - 1] = '\0';
	persistent__printable(details->filter);
	persistent__printable(details->cgroup);
	persistent_details__find_where(details);
	return 0;
}

/*
 * If the instance cannot be opened, fill in what the list of instances has, and
 * return the error.
 */
int persistent_info__details(struct persistent_info *info, int i,
			     struct persistent_details *details)
{
	int fd = persistent__open(info->id, info->instances[i].instance);
	int err = fd < 0 ? fd : persistent__details(fd, details);

	if (fd >= 0)
		close(fd);
	if (err) {
		memset(details, 0, sizeof(*details));
		details->query.self = info->instances[i];
		persistent_details__find_where(details);
	}
	return err;
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
