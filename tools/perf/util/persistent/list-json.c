// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent list -j. The keys have hyphens, as those of perf stat -j.
 */
#include "cmd-list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <internal/lib.h>
#include "info.h"
#include "json.h"
#include "registry.h"

static void json__buffer(struct json_out *out, const struct perf_persistent_query *query)
{
	if (!query->self.buffer_id)
		return;
	json_out__number(out, "buffer", query->self.buffer_id);
	if (!query->buffer_pages)
		return;
	json_out__number(out, "buffer-bytes", query->buffer_pages * (u64)page_size);
	json_out__string(out, "buffer-mode", query->flags & PERF_PERSISTENT_OVERWRITE ?
			 "overwrite" : "discard");
}

static void json__instance(struct json_out *out, struct persistent_info *info, int i,
			   struct persistent_details *details)
{
	struct perf_persistent_query *query = &details->query;
	int err = persistent_info__details(info, i, details);

	if (err == -ENOENT)
		return;

	json_out__begin(out, NULL, '{');
	json_out__number(out, "instance", persistent_details__instance(details));
	if (query->self.cpu >= 0)
		json_out__number(out, "cpu", query->self.cpu);
	if (query->self.pid >= 0)
		json_out__number(out, "pid", query->self.pid);
	if (details->cgroup[0])
		json_out__string(out, "cgroup", details->cgroup);
	json_out__string(out, "state", persistent__state(query->self.state));
	if (query->flags & (PERF_PERSISTENT_GROUP_LEADER | PERF_PERSISTENT_GROUP_SIBLING))
		json_out__string(out, "group", query->flags & PERF_PERSISTENT_GROUP_LEADER ?
				 "leader" : "sibling");
	if (details->filter[0])
		json_out__string(out, "filter", details->filter);
	json__buffer(out, query);
	json_out__number(out, "lost", query->self.lost);
	if (!err) {
		json_out__number(out, "offline-count", query->offline_count);
		json_out__number(out, "offline-time", query->offline_time);
	}
	json_out__end(out, '}');
}

static void json__member(struct json_out *out, struct persistent_info *info, u32 member,
			 struct persistent_details *details)
{
	json_out__begin(out, NULL, '{');
	json_out__number(out, "member", member);
	json_out__string(out, "event", info->members[member].label);
	json_out__number(out, "type", info->members[member].attr.type);
	json_out__number(out, "config", info->members[member].attr.config);
	json_out__bool(out, "includes-guests", persistent_info__includes_guests(info, member));
	json_out__begin(out, "instances", '[');
	for (int i = 0; i < info->nr; i++) {
		if (info->instances[i].member == member)
			json__instance(out, info, i, details);
	}
	json_out__end(out, ']');
	json_out__end(out, '}');
}

/* Whoever is not entitled has no "members". */
static void json__members(struct json_out *out, u32 id)
{
	struct persistent_details *details = malloc(sizeof(*details));
	struct persistent_info info;

	if (!details || persistent_info__init(&info, id)) {
		free(details);
		return;
	}

	json_out__begin(out, "members", '[');
	for (u32 i = 0; i < info.nr_members; i++) {
		if (info.members[i].known)
			json__member(out, &info, i, details);
	}
	json_out__end(out, ']');
	persistent_info__exit(&info);
	free(details);
}

/* Whoever is not entitled has none of it. */
static void json__instances(struct json_out *out, const struct list_entry *entry)
{
	char target[sizeof(entry->cpus) + 64];
	u32 nrs[PERSISTENT_STATES];

	if (entry->nr < 0)
		return;

	persistent__count_states(entry->instances, entry->nr, nrs);
	json_out__bool(out, "setting-up", entry->query.flags & PERF_PERSISTENT_UNCOMMITTED);
	json_out__begin(out, "states", '{');
	for (u32 i = 0; i < PERSISTENT_STATES; i++) {
		if (nrs[i])
			json_out__number(out, persistent__state(i), nrs[i]);
	}
	json_out__end(out, '}');
	persistent__scnprintf_target(target, sizeof(target), entry->instances, entry->nr,
				     entry->cpus);
	json_out__string(out, "target", target);
}

static void json__events(struct json_out *out, struct list_entry *entry)
{
	char *events = entry->events, *event;

	json_out__begin(out, "events", '[');
	while (*events && (event = strsep(&events, "\n"))) {
		json_out__string(out, NULL, event);
		if (!events)
			break;
	}
	json_out__end(out, ']');
	if (entry->includes_guests >= 0)
		json_out__bool(out, "includes-guests", entry->includes_guests);
}

static void json__entry(struct json_out *out, struct list_entry *entry)
{
	char mode[16] = "";

	json_out__string(out, "name", entry->name);
	json_out__number(out, "id", entry->id);
	json_out__string(out, "owner", entry->owner);
	json_out__number(out, "uid", persistent__number(entry->id, "uid"));
	json_out__number(out, "gid", persistent__number(entry->id, "gid"));
	persistent__value(entry->id, "mode", mode, sizeof(mode));
	json_out__string(out, "mode", mode);
	json_out__string(out, "cpus", entry->cpus);
	json__instances(out, entry);
	json_out__number(out, "age", entry->age);
	if (entry->left)
		json_out__number(out, "time-left", entry->left);
	json_out__number(out, "buffer-bytes", entry->bytes);
	json_out__number(out, "lost", entry->lost);
	json_out__number(out, "nr-members", persistent__number(entry->id, "members"));
	json_out__number(out, "nr-instances", persistent__number(entry->id, "instances"));
	json__events(out, entry);
}

void list__json(u32 *ids, int nr, bool details)
{
	struct json_out out = { .fp = stdout };
	struct list_entry entry;

	json_out__begin(&out, NULL, '[');
	for (int i = 0; i < nr; i++) {
		/* It may have ended since its id was read. */
		if (list_entry__init(&entry, ids[i]))
			continue;
		json_out__begin(&out, NULL, '{');
		json__entry(&out, &entry);
		if (details)
			json__members(&out, ids[i]);
		json_out__end(&out, '}');
		list_entry__exit(&entry);
	}
	json_out__end(&out, ']');
}
