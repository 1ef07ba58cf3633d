// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent list: show the sessions. Anybody may see the values in sysfs.
 * States and tasks of the instances are for those who may read the session, and
 * come from one query for each session.
 */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <linux/zalloc.h>
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

/*
 * A session of the list. What sysfs tells is always there, and the instances if
 * the caller may read it: without, nr is a negative error, and so is includes_guests.
 */
struct list_entry {
	u32				id;
	char				name[PERF_PERSISTENT_NAME_MAX];
	char				owner[64];
	char				cpus[4096];
	u64				age;
	u64				left;
	u64				bytes;
	u64				lost;
	char				*events;
	int				includes_guests;
	int				nr;
	struct perf_persistent_query	query;
	struct perf_persistent_info	*instances;
};

/* Returns 0, or -ENOENT if it has ended. */
static int list_entry__ask(struct list_entry *entry, const char *types)
{
	u32 id = entry->id;

	entry->nr = persistent__instances(id, &entry->query, &entry->instances);
	if (entry->nr > 0) {
		entry->nr = persistent__drop_side_band(types, entry->instances, entry->nr);
		persistent__scnprintf_cpus(entry->cpus, sizeof(entry->cpus), entry->instances,
					   entry->nr);
		scnprintf(entry->name, sizeof(entry->name), "%s", entry->query.name);
		entry->age = entry->query.age;
		entry->left = entry->query.ttl;
		return 0;
	}

	entry->age = persistent__number(id, "age");
	entry->left = persistent__number(id, "time_left");
	return persistent__name(id, entry->name) &&
	       persistent__value(id, "cpus", entry->cpus, sizeof(entry->cpus)) >= 0 ? 0 : -ENOENT;
}

static void list_entry__exit(struct list_entry *entry)
{
	zfree(&entry->events);
	zfree(&entry->instances);
}

static int list_entry__init(struct list_entry *entry, u32 id)
{
	struct strbuf events = STRBUF_INIT;
	char types[4096];

	*entry = (struct list_entry) { .id = id };
	if (persistent__value(id, "types", types, sizeof(types)) < 0 ||
	    list_entry__ask(entry, types))
		return -ENOENT;

	/* Only what may be such is opened. */
	if (persistent__types_have_cpu_pmu(types))
		entry->includes_guests = persistent__includes_guests(id);
	if (!persistent__parse_types(types, '\n', &events))
		entry->events = strdup(events.buf);
	strbuf_release(&events);
	if (!entry->events) {
		list_entry__exit(entry);
		return -ENOMEM;
	}
	persistent__owner(id, entry->owner, sizeof(entry->owner));
	entry->bytes = persistent__number(id, "buffer_bytes");
	entry->lost = persistent__number(id, "lost");
	return 0;
}

/* Table */

enum list_column {
	LIST_NAME, LIST_ID, LIST_OWNER, LIST_STATE, LIST_TARGET, LIST_AGE, LIST_LEFT, LIST_BUFFER,
	LIST_LOST, LIST_EVENTS, LIST_COLUMNS,
};

static const char * const list_titles[] = {
	"NAME", "ID", "OWNER", "STATE", "TARGET", "AGE", "LEFT", "BUFFER", "LOST", "EVENTS",
};

/* Behind the events, where one of them keeps KVM from giving guests the PMU */
#define INCLUDES_GUESTS	" [includes guests]"

/* Numbers are aligned to the right; the last column has no width. */
static const int list_align[] = { -1, 1, -1, -1, -1, 1, 1, 1, 1, 0 };

/* A list of CPUs that is longer is shown as their number. */
#define TARGET_SIZE	20

static void list_entry__scnprintf_state(const struct list_entry *entry, char *buf, size_t size)
{
	if (entry->nr < 0)
		scnprintf(buf, size, "-");
	else
		persistent__scnprintf_state(buf, size, &entry->query, entry->instances, entry->nr);
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

struct list_row {
	u32	id;
	bool	includes_guests;
	char	*columns[LIST_COLUMNS];
};

static int list_row__init(struct list_row *row, u32 id)
{
	char nr[16], state[64], target[TARGET_SIZE], age[32], left[32] = "-", bytes[32], lost[32];
	struct list_entry entry;
	int err = list_entry__init(&entry, id);

	if (err)
		return err;

	scnprintf(nr, sizeof(nr), "%u", id);
	list_entry__scnprintf_state(&entry, state, sizeof(state));
	persistent__scnprintf_target(target, sizeof(target), entry.instances, entry.nr, entry.cpus);
	scnprintf_age(age, sizeof(age), entry.age);
	if (entry.left)
		scnprintf_age(left, sizeof(left), entry.left);
	unit_number__scnprintf(bytes, sizeof(bytes), entry.bytes);
	scnprintf(lost, sizeof(lost), "%llu", (unsigned long long)entry.lost);
	*row = (struct list_row) {
		.id		 = id,
		.includes_guests = entry.includes_guests > 0,
		.columns	 = {
			strdup(entry.name), strdup(nr), strdup(entry.owner), strdup(state),
			strdup(target), strdup(age), strdup(left), strdup(bytes), strdup(lost),
			strdup(entry.events),
		},
	};
	list_entry__exit(&entry);
	for (int i = 0; i < LIST_COLUMNS; i++)
		err = row->columns[i] ? err : -ENOMEM;
	return err;
}

static void list_row__print(const char * const columns[], const int widths[])
{
	for (int i = 0; i < LIST_EVENTS; i++)
		printf("%*s  ", list_align[i] * widths[i], columns[i]);
	printf("%s", columns[LIST_EVENTS]);
}

static void list_row__print_session(struct list_row *row, const int widths[], int room)
{
	const char *mark = row->includes_guests ? INCLUDES_GUESTS : "";
	char *events = row->columns[LIST_EVENTS];
	char *fit = persistent__fit_events(events, room ? max(room - (int)strlen(mark), 1) : 0);

	row->columns[LIST_EVENTS] = fit ?: events;
	list_row__print((const char * const *)row->columns, widths);
	printf("%s\n", mark);
	row->columns[LIST_EVENTS] = events;
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

	/* It has ended since it was listed. */
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

static void list__print_member(struct persistent_info *info, u32 member,
			       struct persistent_answer *details)
{
	printf("    member %u: %s%s\n", member, info->members[member].label,
	       persistent_info__includes_guests(info, member) ?
	       ", includes guests: KVM cannot give them the PMU" : "");
	for (int i = 0; i < info->nr; i++) {
		if (info->instances[i].member == member)
			list__print_instance(info, i, details);
	}
}

static void list__print_details(u32 id)
{
	char group[64], mode[PERSISTENT_MODE_SIZE], buf[STRERR_BUFSIZE];
	struct persistent_answer details;
	struct persistent_info info;
	int err = persistent_info__init(&info, id);

	/* It has ended since it was listed. */
	if (err == -ENOENT)
		return;
	printf("    mode %s, group %s\n", persistent__mode(persistent__number(id, "mode"), mode),
	       persistent__group(persistent__number(id, "gid"), group, sizeof(group)));
	if (err) {
		printf("    details not shown: %s\n",
		       persistent__strerror(id, err, buf, sizeof(buf)));
		return;
	}
	for (u32 i = 0; i < info.nr_members; i++) {
		if (info.members[i].known)
			list__print_member(&info, i, &details);
	}
	persistent_info__exit(&info);
}

/* A list of CPUs has commas, so blanks go between its ranges. */
static void list__separated(u32 *ids, int nr, const char *sep)
{
	struct list_entry entry;
	char state[64], target[sizeof(entry.cpus) + 64];

	for (int i = 0; i < nr; i++) {
		/* It may have ended since its id was read. */
		if (list_entry__init(&entry, ids[i]))
			continue;
		list_entry__scnprintf_state(&entry, state, sizeof(state));
		persistent__scnprintf_target(target, sizeof(target), entry.instances, entry.nr,
					     entry.cpus);
		strreplace(target, ',', ' ');
		strreplace(entry.events, '\n', ' ');
		printf("%s%s%u%s%s%s%s%s%s%s%llu%s%llu%s%llu%s%llu%s%s\n", entry.name, sep,
		       entry.id, sep, entry.owner, sep, state, sep, target, sep,
		       (unsigned long long)entry.age, sep, (unsigned long long)entry.left, sep,
		       (unsigned long long)entry.bytes, sep, (unsigned long long)entry.lost, sep,
		       entry.events);
		list_entry__exit(&entry);
	}
}

/* The columns that are left for the events; 0 if there is no end of them. */
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

static void list__print_table(struct list_row *rows, int nr, const struct persistent_print *print)
{
	int room, widths[LIST_COLUMNS];

	for (int i = 0; i < LIST_COLUMNS; i++) {
		widths[i] = strlen(list_titles[i]);
		for (int j = 0; j < nr; j++)
			widths[i] = max_t(int, widths[i], strlen(rows[j].columns[i]));
	}
	room = list__room(widths);

	if (nr) {
		list_row__print(list_titles, widths);
		printf("\n");
	}
	for (int i = 0; i < nr; i++) {
		list_row__print_session(&rows[i], widths, room);
		if (print->details)
			list__print_details(rows[i].id);
	}
}

static int list__table(u32 *ids, int nr, const struct persistent_print *print)
{
	struct list_row *rows = calloc(nr ?: 1, sizeof(*rows));
	int err = 0, n = 0;

	if (!rows)
		return -ENOMEM;

	for (int i = 0; i < nr && err != -ENOMEM; i++) {
		err = list_row__init(&rows[n], ids[i]);
		n += !err;
	}
	if (err != -ENOMEM)
		list__print_table(rows, n, print);

	for (int i = 0; i < nr; i++) {
		for (int j = 0; j < LIST_COLUMNS; j++)
			free(rows[i].columns[j]);
	}
	free(rows);
	return err == -ENOMEM ? err : 0;
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

static void json__member(struct json_out *out, struct persistent_info *info, u32 member,
			 struct persistent_answer *details)
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
	struct persistent_answer details;
	struct persistent_info info;

	if (persistent_info__init(&info, id))
		return;

	json_out__begin(out, "members", '[');
	for (u32 i = 0; i < info.nr_members; i++) {
		if (info.members[i].known)
			json__member(out, &info, i, &details);
	}
	json_out__end(out, ']');
	persistent_info__exit(&info);
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

static void list__json(u32 *ids, int nr, bool details)
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

static int list__run(int argc, const char **argv, const struct persistent_print *print,
		     bool counters)
{
	int missing, err = 0;
	u32 *ids;
	int nr = persistent__choose(argc, argv, &ids, &missing);

	if (nr < 0)
		return nr;

	if (counters)
		err = list__counters(ids, nr);
	else if (print->json)
		list__json(ids, nr, print->details);
	else if (print->separator)
		list__separated(ids, nr, print->separator);
	else
		err = list__table(ids, nr, print);
	free(ids);
	return err ?: missing;
}

int persistent_print__check(struct persistent_print *print)
{
	if (!print->separator)
		return 0;
	if (print->json) {
		pr_err("-j and -x cannot be used together\n");
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
		OPT_INCR('v', "verbose", &verbose, "show the members and instances of each"),
		OPT_BOOLEAN('j', "json", &print.json, "print JSON"),
		OPT_STRING('x', "field-separator", &print.separator, "separator",
			   "print a line for each session, with this between the fields"),
		OPT_BOOLEAN(0, "counters", &counters,
			    "show how many hardware counters sessions hold, and how many are free"),
		OPT_END()
	};

	argc = parse_options(argc, argv, options, usage, 0);
	if (persistent_print__check(&print))
		return -EINVAL;
	if (counters && (print.json || print.separator || argc)) {
		pr_err("--counters cannot be used with -j, -x or names\n");
		return -EINVAL;
	}

	print.details = verbose > 0;
	return list__run(argc, argv, &print, counters);
}
