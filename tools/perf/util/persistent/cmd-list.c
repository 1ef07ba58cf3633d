// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent list: show the sessions. Anybody may see the values in sysfs. States and
 * tasks of the instances need the right to read the session, and come from one query per
 * session.
 */
#include "cmd.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <internal/lib.h>
#include <subcmd/parse-options.h>
#include <sys/ioctl.h>
#include "debug.h"
#include "info.h"
#include "json.h"
#include "registry.h"
#include "strbuf.h"
#include "term.h"
#include "units.h"

/* The last column, EVENTS, is as wide as its content. */
enum list_column {
	LIST_NAME, LIST_ID, LIST_OWNER, LIST_STATE, LIST_TARGET, LIST_AGE, LIST_LEFT, LIST_BUFFER,
	LIST_LOST, LIST_EVENTS,
};

static const char * const list_titles[] = {
	"NAME", "ID", "OWNER", "STATE", "TARGET", "AGE", "LEFT", "BUFFER", "LOST", "EVENTS",
};

/*
 * A session of the list. The values from sysfs are always there.
 *
 * @err: why the caller may not read the session, or 0; if set, @info has only the
 *	 name, the age and the time to live
 * @nr:	 number of instances except side-band, or a negative error if @info has none
 * @has_lost: the caller may read all instances, and so knows @lost
 * @includes_guests: negative if the caller may not know
 */
struct list_entry {
	char				owner[64];
	uid_t				uid;
	gid_t				gid;
	char				mode[16];
	u32				nr_members;
	u32				nr_instances;
	char				cpus[4096];
	u64				bytes;
	u64				lost;
	bool				has_lost;
	struct strbuf			events;
	int				includes_guests;
	int				err;
	int				nr;
	struct persistent_info		info;
	char				columns[LIST_EVENTS][64];
};

static int list_entry__includes_guests(struct list_entry *entry,
				       const struct persistent_types *types)
{
	bool includes = false;

	if (entry->err)
		return persistent_types__have_cpu_pmu(types) ? entry->err : 0;
	for (u32 i = 0; i < entry->info.nr_members; i++)
		includes |= entry->info.members[i].known &&
			    persistent_info__includes_guests(&entry->info, i);
	return includes;
}

/* Returns 0, or -ENOENT if the session has ended. */
static int list_entry__ask(struct list_entry *entry, u32 id)
{
	struct persistent_info *info = &entry->info;
	char name[PERF_PERSISTENT_NAME_MAX];

	entry->err = persistent_info__init(info, id);
	if (entry->err == -ENOENT)
		return -ENOENT;
	entry->nr = entry->err ? persistent_info__init_types(info, id) : 0;
	if (!entry->nr) {
		entry->nr = persistent_info__sort_side_band(info);
		persistent__scnprintf_cpus(entry->cpus, sizeof(entry->cpus), info->instances,
					   entry->nr);
	} else {
		info->query.age = persistent__number(id, "age");
		info->query.ttl = persistent__number(id, "time_left");
		persistent__value(id, "cpus", entry->cpus, sizeof(entry->cpus));
	}
	/* Anybody may know these. */
	persistent__owner(id, entry->owner, sizeof(entry->owner));
	entry->uid = persistent__number(id, "uid");
	entry->gid = persistent__number(id, "gid");
	persistent__value(id, "mode", entry->mode, sizeof(entry->mode));
	entry->nr_members = persistent__number(id, "members");
	entry->nr_instances = persistent__number(id, "instances");
	entry->bytes = persistent__number(id, "buffer_bytes");
	/* All of this was read before the session ended, or it is wrong. */
	return persistent__name(id, name) ? 0 : -ENOENT;
}

static void list_entry__exit(struct list_entry *entry)
{
	strbuf_release(&entry->events);
	persistent_info__exit(&entry->info);
}

static int list_entry__init(struct list_entry *entry, u32 id)
{
	struct persistent_types types;
	int err = -ENOENT;

	*entry = (struct list_entry) { .events = STRBUF_INIT };
	if (!persistent_types__read(&types, id) && !list_entry__ask(entry, id))
		err = persistent_types__add_names(&types, '\n', &entry->events);
	if (err) {
		list_entry__exit(entry);
		return err;
	}
	entry->has_lost = !entry->err && !persistent_info__nr_hidden(&entry->info);
	/* Side-band, which is at the end, has no samples. */
	for (int i = 0; entry->has_lost && i < entry->nr; i++)
		entry->lost += entry->info.instances[i].lost;
	entry->includes_guests = list_entry__includes_guests(entry, &types);
	return 0;
}

/* Table */

/* Printed after the events if one of them keeps KVM from giving guests the PMU */
#define INCLUDES_GUESTS	" [includes guests]"

/* Numbers are right-aligned. */
static const int list_align[] = { -1, 1, -1, -1, -1, 1, 1, 1, 1 };

/* A longer list of CPUs is shown as their number; only the end of a longer cgroup is shown. */
#define TARGET_SIZE	24

static void list_entry__scnprintf_state(const struct list_entry *entry, char *buf, size_t size)
{
	if (entry->nr < 0)
		scnprintf(buf, size, "-");
	else
		persistent__scnprintf_state(buf, size, &entry->info.query,
					    entry->info.instances, entry->nr);
}

static void scnprintf_age(char *buf, size_t size, u64 ns)
{
	unsigned long secs = ns / NSEC_PER_SEC;

	if (secs < 60)
		scnprintf(buf, size, "%lus", secs);
	else if (secs < 3600)
		scnprintf(buf, size, "%lum%02lus", secs / 60, secs % 60);
	else if (secs < 86400)
		scnprintf(buf, size, "%luh%02lum", secs / 3600, secs / 60 % 60);
	else
		scnprintf(buf, size, "%lud%02luh", secs / 86400, secs / 3600 % 24);
}

static void list_entry__fill_columns(struct list_entry *entry)
{
	char (*columns)[sizeof(entry->columns[0])] = entry->columns;
	const size_t size = sizeof(entry->columns[0]);

	scnprintf(columns[LIST_NAME], size, "%s", entry->info.name);
	scnprintf(columns[LIST_ID], size, "%u", entry->info.id);
	scnprintf(columns[LIST_OWNER], size, "%s", entry->owner);
	list_entry__scnprintf_state(entry, columns[LIST_STATE], size);
	persistent_info__scnprintf_target(&entry->info, columns[LIST_TARGET], TARGET_SIZE,
					  entry->nr, entry->cpus);
	scnprintf_age(columns[LIST_AGE], size, entry->info.query.age);
	scnprintf(columns[LIST_LEFT], size, "-");
	if (entry->info.query.ttl)
		scnprintf_age(columns[LIST_LEFT], size, entry->info.query.ttl);
	unit_number__scnprintf(columns[LIST_BUFFER], size, entry->bytes);
	scnprintf(columns[LIST_LOST], size, "-");
	if (entry->has_lost)
		scnprintf(columns[LIST_LOST], size, "%llu", (unsigned long long)entry->lost);
}

static void list_entry__print(const struct list_entry *entry, const int widths[], int room)
{
	const char *mark = entry->includes_guests > 0 ? INCLUDES_GUESTS : "";
	char *fit = persistent__fit_events(entry->events.buf,
					   room ? max(room - (int)strlen(mark), 1) : 0);

	for (int i = 0; i < LIST_EVENTS; i++)
		printf("%*s  ", list_align[i] * widths[i], entry->columns[i]);
	printf("%s%s\n", fit ?: entry->events.buf, mark);
	free(fit);
}

static void scnprintf_buffer(char *buf, size_t size, const struct perf_persistent_query *query)
{
	char bytes[32];
	int len;

	if (!query->self.buffer_id) {
		scnprintf(buf, size, "no buffer");
		return;
	}
	len = scnprintf(buf, size, "buffer %llu", (unsigned long long)query->self.buffer_id);
	if (!query->buffer_pages)
		return;
	unit_number__scnprintf(bytes, sizeof(bytes), query->buffer_pages * (u64)page_size);
	scnprintf(buf + len, size - len, ": %s %s", bytes,
		  query->flags & PERF_PERSISTENT_OVERWRITE ? "overwrite" : "discard");
}

static void list__print_instance(struct persistent_info *info, int i,
				 struct persistent_answer *details)
{
	struct perf_persistent_query *query = &details->query;
	char buffer[64], gap[32];

	/* The instance has ended since it was listed. */
	if (persistent_info__details(info, i, details) == -ENOENT)
		return;

	scnprintf_buffer(buffer, sizeof(buffer), query);
	printf("        instance %u: %s, %s, %s, %llu lost", persistent_details__instance(details),
	       details->where, persistent__state(query->self.state), buffer,
	       (unsigned long long)query->self.lost);
	if (query->flags & PERF_PERSISTENT_GROUP_LEADER)
		printf(", leads its group");
	if (query->flags & PERF_PERSISTENT_GROUP_SIBLING)
		printf(", in a group");
	if (details->filter[0])
		printf(", filter \"%s\"", details->filter);
	scnprintf_age(gap, sizeof(gap), query->offline_time);
	if (query->offline_count == 1)
		printf(", CPU was offline once, for %s", gap);
	else if (query->offline_count)
		printf(", CPU was offline %u times, for %s in all", query->offline_count, gap);
	printf("\n");
}

static void list_entry__print_details(struct list_entry *entry)
{
	char group[64], mode[PERSISTENT_MODE_SIZE], buf[STRERR_BUFSIZE];
	struct persistent_info *info = &entry->info;
	struct persistent_answer details;

	printf("    mode %s, group %s\n", persistent__mode(strtoul(entry->mode, NULL, 8), mode),
	       persistent__group(entry->gid, group, sizeof(group)));
	if (entry->err) {
		printf("    details not shown: %s\n",
		       persistent__strerror(entry->info.id, 'r', entry->err, buf, sizeof(buf)));
		return;
	}
	for (u32 member = 0; member < info->nr_members; member++) {
		if (!info->members[member].known)
			continue;
		printf("    member %u: %s%s\n", member, info->members[member].label,
		       persistent_info__includes_guests(info, member) ?
		       ", includes guests: KVM cannot give them the PMU" : "");
		for (int i = 0; i < info->nr; i++) {
			if (info->instances[i].member == member)
				list__print_instance(info, i, &details);
		}
	}
}

/* Lists of CPUs contain commas, and cgroups may contain anything: print blanks instead. */
static void list_entry__print_separated(struct list_entry *entry, const char *sep)
{
	const struct perf_persistent_query *query = &entry->info.query;
	char state[64], target[sizeof(entry->cpus) + PATH_MAX];

	list_entry__scnprintf_state(entry, state, sizeof(state));
	persistent_info__scnprintf_target(&entry->info, target, sizeof(target), entry->nr,
					  entry->cpus);
	strreplace(target, ',', ' ');
	for (const char *c = sep; *c; c++)
		strreplace(target, *c, ' ');
	strreplace(entry->events.buf, '\n', ' ');
	printf("%s%s%u%s%s%s%s%s%s%s%llu%s%llu%s%llu%s", entry->info.name, sep, entry->info.id,
	       sep, entry->owner, sep, state, sep, target, sep, (unsigned long long)query->age, sep,
	       (unsigned long long)query->ttl, sep, (unsigned long long)entry->bytes, sep);
	if (entry->has_lost)
		printf("%llu", (unsigned long long)entry->lost);
	printf("%s%s\n", sep, entry->events.buf);
}

/* Returns the number of columns left for the events, or 0 if unlimited. */
static int list__room(const int widths[])
{
	struct winsize winsize;
	int room;

	if (!isatty(STDOUT_FILENO))
		return 0;
	get_term_dimensions(&winsize);
	room = winsize.ws_col;
	for (int i = 0; i < LIST_EVENTS; i++)
		room -= widths[i] + 2;
	return max_t(int, room, strlen(list_titles[LIST_EVENTS]));
}

static void list__print_table(struct list_entry *entries, int nr, bool details)
{
	int room, widths[LIST_EVENTS];

	for (int i = 0; i < nr; i++)
		list_entry__fill_columns(&entries[i]);
	for (int i = 0; i < LIST_EVENTS; i++) {
		widths[i] = strlen(list_titles[i]);
		for (int j = 0; j < nr; j++)
			widths[i] = max_t(int, widths[i], strlen(entries[j].columns[i]));
	}
	room = list__room(widths);

	for (int i = 0; nr && i < LIST_EVENTS; i++)
		printf("%*s  ", list_align[i] * widths[i], list_titles[i]);
	if (nr)
		printf("%s\n", list_titles[LIST_EVENTS]);
	for (int i = 0; i < nr; i++) {
		list_entry__print(&entries[i], widths, room);
		if (details)
			list_entry__print_details(&entries[i]);
	}
}

/* JSON: the keys have hyphens, as those of perf stat -j. */

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
			   struct persistent_answer *details)
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

/* No "members" without the right to read the session */
static void json__members(struct json_out *out, struct list_entry *entry)
{
	struct persistent_info *info = &entry->info;
	struct persistent_answer details;

	if (entry->err)
		return;

	json_out__begin(out, "members", '[');
	for (u32 nr = 0; nr < info->nr_members; nr++) {
		struct persistent_info_member *member = &info->members[nr];

		if (!member->known)
			continue;
		json_out__begin(out, NULL, '{');
		json_out__number(out, "member", nr);
		json_out__string(out, "event", member->label);
		json_out__number(out, "type", member->attr.type);
		json_out__number(out, "config", member->attr.config);
		json_out__bool(out, "includes-guests", persistent_info__includes_guests(info, nr));
		json_out__begin(out, "instances", '[');
		for (int i = 0; i < info->nr; i++) {
			if (info->instances[i].member == nr)
				json__instance(out, info, i, &details);
		}
		json_out__end(out, ']');
		json_out__end(out, '}');
	}
	json_out__end(out, ']');
}

/* None of these without the right to read the session */
static void json__instances(struct json_out *out, const struct list_entry *entry)
{
	char target[sizeof(entry->cpus) + PATH_MAX];
	u32 nrs[PERSISTENT_STATES];

	if (entry->nr < 0)
		return;

	persistent__count_states(entry->info.instances, entry->nr, nrs);
	json_out__bool(out, "setting-up", entry->info.query.flags & PERF_PERSISTENT_UNCOMMITTED);
	json_out__begin(out, "states", '{');
	for (u32 i = 0; i < PERSISTENT_STATES; i++) {
		if (nrs[i])
			json_out__number(out, persistent__state(i), nrs[i]);
	}
	json_out__end(out, '}');
	persistent_info__scnprintf_target(&entry->info, target, sizeof(target), entry->nr,
					  entry->cpus);
	json_out__string(out, "target", target);
}

static void json__events(struct json_out *out, struct list_entry *entry)
{
	char *events = entry->events.buf, *event;

	json_out__begin(out, "events", '[');
	/* Without events, the text is empty. */
	while ((event = strsep(&events, "\n"))) {
		if (*event)
			json_out__string(out, NULL, event);
	}
	json_out__end(out, ']');
	if (entry->includes_guests >= 0)
		json_out__bool(out, "includes-guests", entry->includes_guests);
}

static void list_entry__json(struct list_entry *entry, struct json_out *out, bool details)
{
	json_out__begin(out, NULL, '{');
	json_out__string(out, "name", entry->info.name);
	json_out__number(out, "id", entry->info.id);
	json_out__string(out, "owner", entry->owner);
	json_out__number(out, "uid", entry->uid);
	json_out__number(out, "gid", entry->gid);
	json_out__string(out, "mode", entry->mode);
	json_out__string(out, "cpus", entry->cpus);
	json__instances(out, entry);
	json_out__number(out, "age", entry->info.query.age);
	if (entry->info.query.ttl)
		json_out__number(out, "time-left", entry->info.query.ttl);
	json_out__number(out, "buffer-bytes", entry->bytes);
	if (entry->has_lost)
		json_out__number(out, "lost", entry->lost);
	json_out__number(out, "nr-members", entry->nr_members);
	json_out__number(out, "nr-instances", entry->nr_instances);
	json__events(out, entry);
	if (details)
		json__members(out, entry);
	json_out__end(out, '}');
}

static void list__print_json(struct list_entry *entries, int nr, bool details)
{
	struct json_out out = { .fp = stdout };

	json_out__begin(&out, NULL, '[');
	for (int i = 0; i < nr; i++)
		list_entry__json(&entries[i], &out, details);
	json_out__end(&out, ']');
}

static void list__print(struct list_entry *entries, int nr, const struct persistent_print *print)
{
	if (print->json)
		list__print_json(entries, nr, print->details);
	else if (!print->separator)
		list__print_table(entries, nr, print->details);
	for (int i = 0; print->separator && i < nr; i++)
		list_entry__print_separated(&entries[i], print->separator);
}

static int list__sessions(u32 *ids, int nr, const struct persistent_print *print)
{
	struct list_entry *entries = calloc(nr ?: 1, sizeof(*entries));
	int err = 0, n = 0;

	if (!entries)
		return -ENOMEM;

	/* A session may have ended since its id was read. */
	for (int i = 0; i < nr && err != -ENOMEM; i++) {
		err = list_entry__init(&entries[n], ids[i]);
		n += !err;
	}
	if (err == -ENOMEM)
		pr_err("Not enough memory\n");
	else
		list__print(entries, n, print);

	for (int i = 0; i < n; i++)
		list_entry__exit(&entries[i]);
	free(entries);
	return err == -ENOMEM ? err : 0;
}

int persistent_print__check(struct persistent_print *print)
{
	if (!print->separator)
		return 0;
	if (print->json) {
		pr_err("-j and -x cannot be used together\n");
		return -EINVAL;
	}
	if (!*print->separator) {
		pr_err("-x: the separator is empty\n");
		return -EINVAL;
	}
	if (!strcmp(print->separator, "\\t"))
		print->separator = "\t";
	return 0;
}

int persistent_cmd__list(int argc, const char **argv, const char * const usage[])
{
	struct persistent_print print = {};
	bool counters = false;
	const struct option options[] = {
		OPT_INCR('v', "verbose", &verbose,
			 "show the members and instances of each session"),
		OPT_BOOLEAN('j', "json", &print.json, "print JSON"),
		OPT_STRING('x', "field-separator", &print.separator, "separator",
			   "print a line for each session, with the fields separated by this"),
		OPT_BOOLEAN(0, "counters", &counters,
			    "show how many hardware counters sessions use, and how many are free"),
		OPT_END()
	};
	int nr, err, missing;
	u32 *ids;

	argc = parse_options(argc, argv, options, usage, 0);
	print.details = verbose > 0;
	if (persistent_print__check(&print))
		return -EINVAL;
	if (print.separator && print.details) {
		pr_err("-v and -x cannot be used together: use -v -j\n");
		return -EINVAL;
	}
	if (counters && (print.json || print.separator || print.details || argc)) {
		pr_err("--counters cannot be used with -j, -v, -x or names\n");
		return -EINVAL;
	}

	nr = persistent__choose(argc, argv, &ids, &missing);
	if (nr < 0)
		return nr;
	err = counters ? list__counters(ids, nr) : list__sessions(ids, nr, &print);
	free(ids);
	return err ?: missing;
}
