// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent read: what a recording has counted since it was started. One
 * query tells the counts of all instances, also of those whose target has died.
 */
#include "persistent-read.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/time64.h>
#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "parse-events.h"
#include "persistent.h"
#include "persistent-evlist.h"
#include "persistent-info.h"
#include "persistent-json.h"
#include "persistent-list.h"
#include "pmu.h"

/*
 * The label can be any text of its owner's choice, so it is believed only if it
 * stands for the event that was opened.
 */
static struct evsel *evlist__find_label(struct evlist *evlist, const char *label,
					const struct perf_event_attr *attr)
{
	struct parse_events_error error;
	struct evsel *evsel;
	int err;

	parse_events_error__init(&error);
	err = parse_events(evlist, label, &error);
	parse_events_error__exit(&error);
	if (err || evlist__nr_entries(evlist) != 1)
		return NULL;

	evsel = evlist__first(evlist);
	return evsel->core.attr.type == attr->type &&
	       evsel->core.attr.config == attr->config ? evsel : NULL;
}

/*
 * Returns what counts are to be multiplied by to get what the unit says. Only
 * clocks and events of PMUs have any.
 */
double persistent__parse_unit(const char *label, const struct perf_event_attr *attr,
			      char *unit, size_t size)
{
	struct evlist *evlist = evlist__new();
	struct perf_event_attr copy = *attr;
	struct evsel *evsel = NULL;
	double scale = 1.0;

	unit[0] = '\0';
	if (!evlist)
		return scale;

	if (attr->type == PERF_TYPE_SOFTWARE) {
		evsel = evsel__new(&copy);
		if (evsel)
			evlist__add(evlist, evsel);
	} else if (attr->type == PERF_TYPE_RAW || !perf_type__is_static(attr->type)) {
		evsel = evlist__find_label(evlist, label, attr);
	}

	if (evsel) {
		scale = evsel->scale;
		scnprintf(unit, size, "%s", evsel->unit ?: "");
	}
	evlist__put(evlist);
	return scale;
}

struct persistent_read {
	struct persistent_info		info;
	const struct persistent_print	*print;
	struct json_out			json;
};

/* One line of output: a member, or with -A one instance of it. */
struct read_line {
	const char			*label;
	const char			*cgroup;
	const struct persistent_details	*details;
	char				unit[32];
	double				scale;
	struct perf_counts_values	counts;
};

/* What the list of instances does not tell: the cgroup, and so the place */
static int persistent_read__details(struct persistent_read *read_counts, int i,
				    struct persistent_details *details)
{
	struct persistent_info *info = &read_counts->info;
	int err, fd = persistent__open(info->id, info->instances[i].instance);

	if (fd < 0)
		return fd;

	err = persistent__details(fd, details);
	close(fd);
	return err;
}

/* Of a pinned event that did not get its counter there is nothing. */
static struct perf_counts_values instance__counts(const struct perf_persistent_info *instance)
{
	if (instance->state == PERF_PERSISTENT_STATE_ERROR)
		return (struct perf_counts_values) {};

	return (struct perf_counts_values) {
		.val  = instance->count,
		.ena  = instance->time_enabled,
		.run  = instance->time_running,
		.lost = instance->lost,
	};
}

static bool instance__is_task_on_cpu(const struct perf_persistent_info *instance)
{
	return instance->pid != -1 && instance->cpu != -1;
}

/* The times of a member's tasks: how long they ran, and had a counter for it */
static int persistent_read__task_times(struct persistent_read *read_counts, u32 nr, u64 *ena,
				       u64 *run)
{
	struct persistent_info *info = &read_counts->info;
	int max_cpu = -1;
	u64 *cpus;

	for (int i = 0; i < info->nr; i++)
		max_cpu = max(max_cpu, info->instances[i].cpu);
	cpus = calloc(max_cpu + 2, sizeof(*cpus));
	if (!cpus)
		return -ENOMEM;

	*run = 0;
	for (int i = 0; i < info->nr; i++) {
		const struct perf_persistent_info *instance = &info->instances[i];

		if (instance->member != nr || !instance__is_task_on_cpu(instance))
			continue;
		cpus[instance->cpu] += instance__counts(instance).ena;
		*run += instance__counts(instance).run;
	}

	/* They were not enabled at quite the same time. */
	*ena = UINT64_MAX;
	for (int i = 0; i <= max_cpu; i++)
		*ena = cpus[i] ? min(*ena, cpus[i]) : *ena;
	free(cpus);
	return 0;
}

static bool read_line__counted(const struct read_line *line)
{
	return line->counts.ena && line->counts.run;
}

static double read_line__percent(const struct read_line *line)
{
	return read_line__counted(line) ? 100.0 * line->counts.run / line->counts.ena : 0.0;
}

static void read_line__scnprintf_value(const struct read_line *line, bool big_num, char *buf,
				       size_t size)
{
	if (!read_line__counted(line))
		scnprintf(buf, size, "<not counted>");
	else if (line->scale != 1.0)
		snprintf(buf, size, big_num ? "%'.2f" : "%.2f", line->counts.val * line->scale);
	else
		snprintf(buf, size, big_num ? "%'" PRIu64 : "%" PRIu64, (u64)line->counts.val);
}

static void read_line__print(const struct read_line *line)
{
	char value[64];

	read_line__scnprintf_value(line, /*big_num=*/true, value, sizeof(value));
	if (line->details)
		printf("%-14s ", line->details->where);
	printf("%18s %-4s %s", value, line->unit, line->label);
	if (!line->details && line->cgroup[0])
		printf(" in %s", line->cgroup);
	if (read_line__counted(line) && line->counts.run < line->counts.ena)
		printf("  (%.2f%%)", read_line__percent(line));
	printf("\n");
}

static void read_line__separated(const struct read_line *line, struct persistent_read *read_counts)
{
	const char *sep = read_counts->print->separator;
	char value[64];

	read_line__scnprintf_value(line, /*big_num=*/false, value, sizeof(value));
	if (line->details)
		printf("%s%s", line->details->where, sep);
	printf("%s%s%s%s%s%s%" PRIu64 "%s%.2f%s%s%s%u", value, sep, line->unit, sep, line->label,
	       sep, (u64)line->counts.run, sep, read_line__percent(line), sep,
	       read_counts->info.name, sep, read_counts->info.id);
	if (!line->details && line->cgroup[0])
		printf("%s%s", sep, line->cgroup);
	printf("\n");
}

static void read_line__json(const struct read_line *line, struct json_out *out)
{
	json_out__begin(out, NULL, '{');
	json_out__string(out, "event", line->label);
	if (line->details) {
		const struct perf_persistent_info *self = &line->details->query.self;

		json_out__number(out, "instance", persistent_details__instance(line->details));
		if (self->cpu >= 0)
			json_out__number(out, "cpu", self->cpu);
		if (self->pid >= 0)
			json_out__number(out, "pid", self->pid);
		json_out__string(out, "state", persistent__state(self->state));
	}
	if (line->cgroup[0])
		json_out__string(out, "cgroup", line->cgroup);
	if (read_line__counted(line) && line->scale != 1.0)
		json_out__double(out, "value", line->counts.val * line->scale);
	else if (read_line__counted(line))
		json_out__number(out, "value", line->counts.val);
	if (line->unit[0])
		json_out__string(out, "unit", line->unit);
	json_out__number(out, "enabled_ns", line->counts.ena);
	json_out__number(out, "running_ns", line->counts.run);
	json_out__double(out, "percent", read_line__percent(line));
	json_out__number(out, "lost", line->counts.lost);
	json_out__end(out, '}');
}

static void persistent_read__line(struct persistent_read *read_counts, struct read_line *line)
{
	if (read_counts->print->json)
		read_line__json(line, &read_counts->json);
	else if (read_counts->print->separator)
		read_line__separated(line, read_counts);
	else
		read_line__print(line);
}

static void read_line__add(struct read_line *sum, const struct read_line *line)
{
	sum->counts.val += line->counts.val;
	sum->counts.ena += line->counts.ena;
	sum->counts.run += line->counts.run;
	sum->counts.lost += line->counts.lost;
}

static int persistent_read__member(struct persistent_read *read_counts, u32 nr,
				   struct persistent_details *details)
{
	struct persistent_info_member *member = &read_counts->info.members[nr];
	struct read_line sum = { .label = member->label, .cgroup = details->cgroup };
	bool no_aggr = read_counts->print->no_aggr, ask = true;
	struct read_line line;
	u64 ena, run;
	int err = persistent_read__task_times(read_counts, nr, &ena, &run);

	if (err)
		return err;

	details->cgroup[0] = '\0';
	sum.scale = persistent__parse_unit(member->label, &member->attr, sum.unit,
					   sizeof(sum.unit));
	for (int i = 0; i < read_counts->info.nr; i++) {
		const struct perf_persistent_info *instance = &read_counts->info.instances[i];

		if (instance->member != nr)
			continue;

		/* The cgroup of one stands for all, unless each is shown. */
		err = ask ? persistent_read__details(read_counts, i, details) : 0;
		/* It has ended meanwhile, which is no fault of those that are left. */
		if (err == -ENOENT)
			continue;
		if (err)
			return err;
		ask = no_aggr;
		line = sum;
		line.details = no_aggr ? details : NULL;
		line.counts = instance__counts(instance);
		if (instance__is_task_on_cpu(instance))
			persistent__share_times(&line.counts, ena, run);
		perf_counts_values__scale(&line.counts, /*scale=*/true, NULL);
		if (no_aggr)
			persistent_read__line(read_counts, &line);
		read_line__add(&sum, &line);
	}
	if (!no_aggr)
		persistent_read__line(read_counts, &sum);
	return 0;
}

static int persistent_read__members(struct persistent_read *read_counts)
{
	struct persistent_info *info = &read_counts->info;
	struct persistent_details *details = malloc(sizeof(*details));
	int err = details ? 0 : -ENOMEM;

	for (u32 i = 0; i < info->nr_members && !err; i++) {
		if (info->members[i].known && (read_counts->print->details ||
					       !persistent_info__is_side_band(info, i)))
			err = persistent_read__member(read_counts, i, details);
	}
	free(details);
	return err;
}

static void persistent_read__begin(struct persistent_read *read_counts)
{
	struct json_out *out = &read_counts->json;
	u64 age = read_counts->info.query.age;
	u32 id = read_counts->info.id;

	if (read_counts->print->json) {
		json_out__begin(out, NULL, '{');
		json_out__string(out, "name", read_counts->info.name);
		json_out__number(out, "id", id);
		json_out__number(out, "age_ns", age);
		json_out__begin(out, "counts", '[');
	} else if (!read_counts->print->separator) {
		printf("%s, id %u, started %.3f seconds ago:\n\n", read_counts->info.name, id,
		       (double)age / NSEC_PER_SEC);
	}
}

static void persistent_read__end(struct persistent_read *read_counts)
{
	if (read_counts->print->json) {
		json_out__end(&read_counts->json, ']');
		json_out__end(&read_counts->json, '}');
	} else if (!read_counts->print->separator) {
		printf("\n");
	}
}

static int persistent_read__id(struct persistent_read *read_counts, u32 id)
{
	char buf[STRERR_BUFSIZE];
	int err = persistent_info__init(&read_counts->info, id);

	if (!err) {
		persistent_read__begin(read_counts);
		err = persistent_read__members(read_counts);
		persistent_read__end(read_counts);
	}
	if (err)
		pr_err("%s, id %u, cannot be read: %s\n", read_counts->info.name, id,
		       persistent__strerror(id, err, buf, sizeof(buf)));
	persistent_info__exit(&read_counts->info);
	return err;
}

/* Goes on after an error: who asks for several gets those that can be had. */
int persistent__read_counts(int argc, const char **argv, const struct persistent_print *print)
{
	struct persistent_read read_counts = { .print = print, .json.fp = stdout };
	int err = 0;

	/* For people only: programs read the numbers of C. */
	if (!print->json && !print->separator)
		setlocale(LC_NUMERIC, "");
	if (print->json)
		json_out__begin(&read_counts.json, NULL, '[');
	for (int i = 0; i < argc; i++) {
		int id = persistent__find(argv[i]);

		err = (id < 0 ? id : persistent_read__id(&read_counts, id)) ?: err;
	}
	if (print->json)
		json_out__end(&read_counts.json, ']');
	return err;
}
