// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent list: what runs, from sysfs alone, so that anybody sees it.
 * Only -v opens, to ask the kernel what is for the entitled, and what tells
 * whether an event of the CPU's PMU counts in guests.
 */
#include "persistent-list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/time64.h>
#include <linux/zalloc.h>
#include <internal/lib.h>
#include "debug.h"
#include "persistent.h"
#include "persistent-info.h"
#include "persistent-json.h"
#include "strbuf.h"
#include "units.h"

enum list_column {
	LIST_NAME, LIST_ID, LIST_OWNER, LIST_CPUS, LIST_AGE, LIST_LEFT, LIST_BUFFER, LIST_LOST,
	LIST_EVENTS, LIST_COLUMNS,
};

static const char * const list_titles[] = {
	"NAME", "ID", "OWNER", "CPUS", "AGE", "LEFT", "BUFFER", "LOST", "EVENTS",
};

/* Behind the events, where one of them keeps KVM from giving guests the PMU */
#define INCLUDES_GUESTS	" [includes guests]"

/* Numbers are aligned to the right; the last column has no width. */
static const int list_align[] = { -1, 1, -1, -1, 1, 1, 1, 1, 0 };

struct list_entry {
	u32	id;
	char	name[PERF_PERSISTENT_NAME_MAX];
	char	owner[64];
	char	cpus[4096];
	u64	age;
	u64	left;
	u64	bytes;
	u64	lost;
	char	*events;
};

static int list_entry__init(struct list_entry *entry, u32 id)
{
	struct strbuf events;
	int err;

	*entry = (struct list_entry) { .id = id };
	if (!persistent__name(id, entry->name))
		return -ENOENT;

	strbuf_init(&events, 0);
	err = persistent__types(id, '\n', &events);
	entry->events = strdup(events.buf);
	strbuf_release(&events);
	if (!entry->events)
		return -ENOMEM;
	if (err || persistent__value(id, "cpus", entry->cpus, sizeof(entry->cpus)) < 0) {
		zfree(&entry->events);
		return -ENOENT;
	}
	persistent__owner(id, entry->owner, sizeof(entry->owner));
	entry->age = persistent__number(id, "age");
	entry->left = persistent__number(id, "time_left");
	entry->bytes = persistent__number(id, "buffer_bytes");
	entry->lost = persistent__number(id, "lost");
	return 0;
}

/* Takes the text. */
static char *list_entry__mark(struct list_entry *entry, char *events)
{
	char *marked;

	if (!events || persistent__includes_guests(entry->id) <= 0)
		return events;
	if (asprintf(&marked, "%s%s", events, INCLUDES_GUESTS) < 0)
		marked = NULL;
	free(events);
	return marked;
}

static char *text__replace(char *text, char from, char to)
{
	for (char *c = text; (c = strchr(c, from)); c++)
		*c = to;
	return text;
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
	char	*columns[LIST_COLUMNS];
};

static int list_row__init(struct list_row *row, u32 id)
{
	char nr[16], age[32], left[32] = "-", bytes[32], lost[32];
	struct list_entry entry;
	int err = list_entry__init(&entry, id);

	if (err)
		return err;

	scnprintf(nr, sizeof(nr), "%u", id);
	scnprintf_age(age, sizeof(age), entry.age);
	if (entry.left)
		scnprintf_age(left, sizeof(left), entry.left);
	unit_number__scnprintf(bytes, sizeof(bytes), entry.bytes);
	scnprintf(lost, sizeof(lost), "%llu", (unsigned long long)entry.lost);
	*row = (struct list_row) {
		.id	 = id,
		.columns = {
			strdup(entry.name), strdup(nr), strdup(entry.owner),
			/* What is on no CPU is with tasks. */
			strdup(entry.cpus[0] ? entry.cpus : "tasks"),
			strdup(age), strdup(left), strdup(bytes), strdup(lost),
			list_entry__mark(&entry, text__replace(entry.events, '\n', ' ')),
		},
	};
	for (int i = 0; i < LIST_COLUMNS; i++)
		err = row->columns[i] ? err : -ENOMEM;
	return err;
}

static void list_row__print(const char * const columns[], const int widths[])
{
	for (int i = 0; i < LIST_EVENTS; i++)
		printf("%*s  ", list_align[i] * widths[i], columns[i]);
	printf("%s\n", columns[LIST_EVENTS]);
}

static void scnprintf_buffer(char *buf, size_t size, struct perf_persistent_query *query)
{
	char bytes[32];

	if (!query->self.buffer_id) {
		scnprintf(buf, size, "no buffer");
		return;
	}
	unit_number__scnprintf(bytes, sizeof(bytes), query->buffer_pages * (u64)page_size);
	scnprintf(buf, size, "buffer %llu: %s %s", (unsigned long long)query->self.buffer_id,
		  bytes, query->flags & PERF_PERSISTENT_OVERWRITE ? "loop" : "until full");
}

static void list__print_instance(struct persistent_details *details)
{
	struct perf_persistent_query *query = &details->query;
	char buffer[64], gap[32];

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
	if (query->offline_count) {
		scnprintf_age(gap, sizeof(gap), query->offline_time);
		printf(", its CPU was offline %u times for %s", query->offline_count, gap);
	}
	printf("\n");
}

static void list__json_instance(struct json_out *out, struct persistent_details *details)
{
	struct perf_persistent_query *query = &details->query;

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
	if (query->self.buffer_id) {
		json_out__number(out, "buffer", query->self.buffer_id);
		json_out__number(out, "buffer_bytes", query->buffer_pages * (u64)page_size);
		json_out__string(out, "buffer_mode", query->flags & PERF_PERSISTENT_OVERWRITE ?
				 "loop" : "until full");
	}
	json_out__number(out, "lost", query->self.lost);
	json_out__number(out, "offline_count", query->offline_count);
	json_out__number(out, "offline_ns", query->offline_time);
	json_out__end(out, '}');
}

static void list__instance(struct persistent_info *info, int i, struct json_out *out)
{
	struct persistent_details *details = malloc(sizeof(*details));
	int fd = persistent__open(info->id, info->instances[i].instance);

	/* It may have ended since it was listed. */
	if (details && fd >= 0 && !persistent__details(fd, details)) {
		if (out)
			list__json_instance(out, details);
		else
			list__print_instance(details);
	}
	if (fd >= 0)
		close(fd);
	free(details);
}

static void list__instances(struct persistent_info *info, u32 member, struct json_out *out)
{
	for (int i = 0; i < info->nr; i++) {
		if (info->instances[i].member == member)
			list__instance(info, i, out);
	}
}

static void list__print_details(u32 id)
{
	char group[64], mode[PERSISTENT_MODE_SIZE], buf[STRERR_BUFSIZE];
	struct persistent_info info;
	int err = persistent_info__init(&info, id);

	if (err != -ENOENT)
		printf("    mode %s, group %s\n",
		       persistent__mode(persistent__number(id, "mode"), mode),
		       persistent__group(id, group, sizeof(group)));
	if (err) {
		printf("    more is not shown: %s\n",
		       persistent__strerror(id, err, buf, sizeof(buf)));
		return;
	}

	if (info.query.flags & PERF_PERSISTENT_UNCOMMITTED)
		printf("    still being set up\n");
	for (u32 i = 0; i < info.nr_members; i++) {
		if (!info.members[i].known)
			continue;
		printf("    member %u: %s%s\n", i, info.members[i].label,
		       persistent_info__includes_guests(&info, i) ?
		       ", includes guests: KVM cannot give them the PMU" : "");
		list__instances(&info, i, NULL);
	}
	persistent_info__exit(&info);
}

static void list__json_details(u32 id, struct json_out *out)
{
	struct persistent_info info;

	/* Who is not entitled has no "members". */
	if (persistent_info__init(&info, id))
		return;

	json_out__bool(out, "setting_up", info.query.flags & PERF_PERSISTENT_UNCOMMITTED);
	json_out__begin(out, "members", '[');
	for (u32 i = 0; i < info.nr_members; i++) {
		if (!info.members[i].known)
			continue;
		json_out__begin(out, NULL, '{');
		json_out__number(out, "member", i);
		json_out__string(out, "event", info.members[i].label);
		json_out__number(out, "type", info.members[i].attr.type);
		json_out__number(out, "config", info.members[i].attr.config);
		json_out__bool(out, "includes_guests", persistent_info__includes_guests(&info, i));
		json_out__begin(out, "instances", '[');
		list__instances(&info, i, out);
		json_out__end(out, ']');
		json_out__end(out, '}');
	}
	json_out__end(out, ']');
	persistent_info__exit(&info);
}

static void list__json_id(u32 id, const struct persistent_print *print, struct json_out *out)
{
	struct list_entry entry;
	char *events, *event;
	char mode[16] = "";
	int includes_guests;

	/* It may have ended since the folder was read. */
	if (list_entry__init(&entry, id))
		return;

	json_out__begin(out, NULL, '{');
	json_out__string(out, "name", entry.name);
	json_out__number(out, "id", id);
	json_out__string(out, "owner", entry.owner);
	json_out__number(out, "uid", persistent__number(id, "uid"));
	json_out__number(out, "gid", persistent__number(id, "gid"));
	persistent__value(id, "mode", mode, sizeof(mode));
	json_out__string(out, "mode", mode);
	json_out__string(out, "cpus", entry.cpus);
	json_out__number(out, "age_ns", entry.age);
	if (entry.left)
		json_out__number(out, "left_ns", entry.left);
	json_out__number(out, "buffer_bytes", entry.bytes);
	json_out__number(out, "lost", entry.lost);
	json_out__number(out, "nr_members", persistent__number(id, "members"));
	json_out__number(out, "nr_instances", persistent__number(id, "instances"));
	json_out__begin(out, "events", '[');
	events = entry.events;
	while (*events && (event = strsep(&events, "\n"))) {
		json_out__string(out, NULL, event);
		if (!events)
			break;
	}
	json_out__end(out, ']');
	includes_guests = persistent__includes_guests(id);
	if (includes_guests >= 0)
		json_out__bool(out, "includes_guests", includes_guests);
	if (print->details)
		list__json_details(id, out);
	json_out__end(out, '}');
	free(entry.events);
}

static int list__json(u32 *ids, int nr, const struct persistent_print *print)
{
	struct json_out out = { .fp = stdout };

	json_out__begin(&out, NULL, '[');
	for (int i = 0; i < nr; i++)
		list__json_id(ids[i], print, &out);
	json_out__end(&out, ']');
	return 0;
}

/* A list of CPUs has commas, so blanks go between its ranges. */
static int list__separated(u32 *ids, int nr, const struct persistent_print *print)
{
	const char *sep = print->separator;
	struct list_entry entry;

	for (int i = 0; i < nr; i++) {
		if (list_entry__init(&entry, ids[i]))
			continue;
		printf("%s%s%u%s%s%s%s%s%llu%s%llu%s%llu%s%llu%s%s\n", entry.name, sep, entry.id,
		       sep, entry.owner, sep, text__replace(entry.cpus, ',', ' '), sep,
		       (unsigned long long)entry.age, sep, (unsigned long long)entry.left, sep,
		       (unsigned long long)entry.bytes, sep, (unsigned long long)entry.lost, sep,
		       text__replace(entry.events, '\n', ' '));
		free(entry.events);
	}
	return 0;
}

static void list__print_table(struct list_row *rows, int nr, const struct persistent_print *print)
{
	int widths[LIST_COLUMNS];

	for (int i = 0; i < LIST_COLUMNS; i++) {
		widths[i] = strlen(list_titles[i]);
		for (int j = 0; j < nr; j++)
			widths[i] = max_t(int, widths[i], strlen(rows[j].columns[i]));
	}

	if (nr)
		list_row__print(list_titles, widths);
	for (int i = 0; i < nr; i++) {
		list_row__print((const char * const *)rows[i].columns, widths);
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

int persistent__list(const struct persistent_print *print)
{
	u32 *ids;
	int err, nr;

	if (persistent__type() < 0)
		return -EOPNOTSUPP;

	nr = persistent__ids(&ids);
	if (nr < 0) {
		pr_err("the list of persistent events cannot be read: %s\n", strerror(-nr));
		return nr;
	}

	if (print->json)
		err = list__json(ids, nr, print);
	else if (print->separator)
		err = list__separated(ids, nr, print);
	else
		err = list__table(ids, nr, print);
	free(ids);
	return err;
}
