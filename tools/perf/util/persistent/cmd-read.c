// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent read: print what sessions have counted since they were started or
 * cleared. One query returns the counts of all instances, even if their target has exited.
 */
#include "cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/kernel.h>
#include <linux/time64.h>
#include <subcmd/parse-options.h>
#include "debug.h"
#include "info.h"
#include "json.h"
#include "read.h"
#include "registry.h"
#include "reopen.h"

/*
 * @named:	sessions were named
 * @incomplete: counts of a session that was printed are missing
 */
struct persistent_read {
	struct persistent_info		info;
	const struct persistent_print	*print;
	struct json_out			json;
	struct openmetrics		metrics;
	bool				named;
	bool				incomplete;
};

/* A pinned event that did not get its counter has no count. */
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

static int instance__cmp_task(const void *a, const void *b)
{
	const struct perf_persistent_info *l = a, *r = b;

	return (l->member > r->member) - (l->member < r->member) ?: l->tgid - r->tgid ?:
	       l->pid - r->pid;
}

static int instance__cmp(const void *a, const void *b)
{
	const struct perf_persistent_info *l = a, *r = b;

	return instance__cmp_task(a, b) ?: l->cpu - r->cpu ?: (int)l->instance - (int)r->instance;
}

/*
 * Distribute the enabled time of a task's event among its CPUs. Tasks of other pid
 * namespaces all have pid 0 and cannot be told apart: add up their times on each CPU.
 */
static void task__share_times(struct perf_persistent_info *instances, int nr)
{
	struct persistent_times times = {};
	struct perf_counts_values count;
	u64 ena = 0, run = 0, nr_cpus = 0;

	for (int i = 0; i < nr; i++) {
		count = instance__counts(&instances[i]);
		ena += count.ena;
		run += count.run;
		if (i + 1 < nr && instances[i + 1].cpu == instances[i].cpu)
			continue;
		persistent_times__add(&times, ena, run);
		ena = 0;
		run = 0;
		nr_cpus++;
	}
	for (int i = 0; i < nr; i++) {
		count = instance__counts(&instances[i]);
		persistent_times__share(&times, &count);
		/* Without any counter yet, the CPUs have equal shares. */
		instances[i].time_enabled = times.run ? count.ena : count.ena / nr_cpus;
	}
}

/* Scale each task by its own times. This sorts the instances by member and task. */
static void persistent_info__share_times(struct persistent_info *info)
{
	struct perf_persistent_info *instances = info->instances;

	qsort(instances, info->nr, sizeof(*instances), instance__cmp);
	for (int from = 0, to; from < info->nr; from = to) {
		to = from + 1;
		while (to < info->nr && !instance__cmp_task(&instances[from], &instances[to]))
			to++;
		if (instances[from].pid != -1 && instances[from].cpu != -1)
			task__share_times(&instances[from], to - from);
	}
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
	char value[64], process[16] = "all processes";

	read_line__scnprintf_value(line, /*big_num=*/true, value, sizeof(value));
	if (line->process > 0)
		scnprintf(process, sizeof(process), "pid %d", line->process);
	if (line->details || line->process >= 0)
		printf("%-14s ", line->details ? line->details->where : process);
	printf("%18s %-4s %s", value, line->unit, line->label);
	if (!line->details && line->cgroup[0])
		printf(" in %s", line->cgroup);
	if (read_line__counted(line) && line->counts.run < line->counts.ena)
		printf("  (%.2f%%)", read_line__percent(line));
	printf("\n");
}

/* Print the same fields with and without -A or --per-process; unused ones are empty. */
static void read_line__separated(const struct read_line *line, const char *sep)
{
	char value[64], cpu[16] = "", pid[16] = "";

	if (line->details) {
		const struct perf_persistent_info *self = &line->details->query.self;

		if (self->cpu >= 0)
			scnprintf(cpu, sizeof(cpu), "%d", self->cpu);
		if (self->pid >= 0)
			scnprintf(pid, sizeof(pid), "%d", self->pid);
	} else if (line->process > 0) {
		scnprintf(pid, sizeof(pid), "%d", line->process);
	}
	read_line__scnprintf_value(line, /*big_num=*/false, value, sizeof(value));
	printf("%s%s%s%s%s%s%" PRIu64 "%s%.2f%s%s%s%u%s%s%s%s%s%s\n", value, sep, line->unit,
	       sep, line->label, sep, (u64)line->counts.run, sep, read_line__percent(line), sep,
	       line->session, sep, line->id, sep, cpu, sep, pid, sep, line->cgroup);
}

static void read_line__json(const struct read_line *line, struct json_out *out)
{
	json_out__begin(out, NULL, '{');
	if (line->details) {
		const struct perf_persistent_info *self = &line->details->query.self;

		if (self->cpu >= 0)
			json_out__number(out, "cpu", self->cpu);
		if (self->pid >= 0)
			json_out__number(out, "pid", self->pid);
		json_out__number(out, "instance", persistent_details__instance(line->details));
		json_out__string(out, "state", persistent__state(self->state));
	} else if (line->process > 0) {
		json_out__number(out, "pid", line->process);
	}
	if (read_line__counted(line) && line->scale != 1.0)
		json_out__double(out, "counter-value", line->counts.val * line->scale);
	else if (read_line__counted(line))
		json_out__number(out, "counter-value", line->counts.val);
	json_out__string(out, "unit", line->unit);
	json_out__string(out, "event", line->label);
	if (line->cgroup[0])
		json_out__string(out, "cgroup", line->cgroup);
	json_out__number(out, "event-enabled", line->counts.ena);
	json_out__number(out, "event-runtime", line->counts.run);
	json_out__double(out, "pcnt-running", read_line__percent(line));
	json_out__number(out, "lost", line->counts.lost);
	json_out__end(out, '}');
}

static int persistent_read__line(struct persistent_read *read_counts, struct read_line *line)
{
	const struct persistent_print *print = read_counts->print;

	if (print->openmetrics)
		return openmetrics__add(&read_counts->metrics, line);
	if (print->json)
		read_line__json(line, &read_counts->json);
	else if (print->separator)
		read_line__separated(line, print->separator);
	else
		read_line__print(line);
	return 0;
}

static void read_line__add(struct read_line *sum, const struct read_line *line)
{
	sum->raw += line->raw;
	sum->counts.val += line->counts.val;
	sum->counts.ena += line->counts.ena;
	sum->counts.run += line->counts.run;
	sum->counts.lost += line->counts.lost;
}

/* Requires instances sorted by member and process. */
static bool persistent_info__ends_process(const struct persistent_info *info, int i)
{
	const struct perf_persistent_info *instance = &info->instances[i];

	return i + 1 == info->nr || instance[1].member != instance->member ||
	       instance[1].tgid != instance->tgid;
}

/* Add up the instances of a member; print each one with -A, or the sum of each process. */
static int persistent_read__instances(struct persistent_read *read_counts, struct read_line *sum,
				      struct persistent_answer *details)
{
	bool no_aggr = read_counts->print->no_aggr, ask = sum->process < 0;
	struct persistent_info *info = &read_counts->info;
	struct read_line line, part, none = *sum;
	int err;

	none.details = no_aggr ? details : NULL;
	part = none;
	for (int i = 0; i < info->nr; i++) {
		const struct perf_persistent_info *instance = &info->instances[i];

		if (instance->member != sum->member || !instance->event_id)
			continue;

		/* Unless each is shown, the cgroup of one instance stands for all. */
		err = ask ? persistent__details(info->id, instance->instance, details) : 0;
		if (err && err != -ENOENT)
			return err;
		/* One that has ended meanwhile is not shown, but its count is known for the sum. */
		if (err && no_aggr)
			continue;
		ask = no_aggr || err;
		line.counts = instance__counts(instance);
		line.raw = line.counts.val;
		perf_counts_values__scale(&line.counts, /*scale=*/true, NULL);
		read_line__add(sum, &line);
		/* Processes of other pid namespaces have no number: only the sum has them. */
		if (sum->process >= 0 && !instance->tgid)
			continue;
		read_line__add(&part, &line);
		if (!no_aggr && (sum->process < 0 || !persistent_info__ends_process(info, i)))
			continue;
		part.process = instance->tgid;
		err = persistent_read__line(read_counts, &part);
		if (err)
			return err;
		part = none;
	}
	return 0;
}

static int persistent_read__member(struct persistent_read *read_counts, u32 nr)
{
	struct persistent_info_member *member = &read_counts->info.members[nr];
	struct persistent_answer details;
	struct read_line sum = {
		.session = read_counts->info.name,
		.id	 = read_counts->info.id,
		.member	 = nr,
		.label	 = member->label,
		.cgroup	 = details.cgroup,
		.process = -1,
	};
	int err;

	details.cgroup[0] = '\0';
	sum.scale = persistent__parse_unit(member->label, &member->attr, sum.unit,
					   sizeof(sum.unit));
	if (read_counts->print->per_process && read_counts->info.instances[0].pid != -1)
		sum.process = 0;
	err = persistent_read__instances(read_counts, &sum, &details);
	if (!err && !read_counts->print->no_aggr)
		err = persistent_read__line(read_counts, &sum);
	return err;
}

static bool persistent_print__is_text(const struct persistent_print *print)
{
	return !print->json && !print->separator && !print->openmetrics;
}

static void persistent_read__begin(struct persistent_read *read_counts)
{
	struct json_out *out = &read_counts->json;
	u64 age = read_counts->info.query.age, cleared = 0;
	u32 id = read_counts->info.id;

	/* Instances that were added later were not cleared. */
	for (int i = 0; i < read_counts->info.nr; i++)
		cleared = max_t(u64, cleared, read_counts->info.instances[i].cleared);

	if (read_counts->print->json) {
		json_out__begin(out, NULL, '{');
		json_out__string(out, "name", read_counts->info.name);
		json_out__number(out, "id", id);
		json_out__number(out, "age", age);
		if (cleared)
			json_out__number(out, "cleared", cleared);
		json_out__begin(out, "counts", '[');
	} else if (persistent_print__is_text(read_counts->print)) {
		printf("%s, id %u, started %.3f seconds ago", read_counts->info.name, id,
		       (double)age / NSEC_PER_SEC);
		if (cleared)
			printf(", cleared %.3f seconds ago", (double)cleared / NSEC_PER_SEC);
		printf(":\n\n");
	}
}

static void persistent_read__end(struct persistent_read *read_counts)
{
	if (read_counts->print->json) {
		json_out__end(&read_counts->json, ']');
		json_out__end(&read_counts->json, '}');
	} else if (persistent_print__is_text(read_counts->print)) {
		printf("\n");
	}
}

static int persistent_read__id(struct persistent_read *read_counts, u32 id)
{
	struct persistent_info *info = &read_counts->info;
	bool side_band = read_counts->print->details;
	int err = persistent_info__init(info, id), hidden = 0;

	if (!err) {
		hidden = persistent_info__nr_hidden(info);
		persistent_info__share_times(info);
		persistent_read__begin(read_counts);
		for (u32 i = 0; i < info->nr_members && !err; i++) {
			if (info->members[i].known &&
			    (side_band || !persistent_info__is_side_band(info, i)))
				err = persistent_read__member(read_counts, i);
		}
		persistent_read__end(read_counts);
	}
	/* The session ended after its instances were listed. */
	if (err == -ESRCH)
		err = -ENOENT;
	if (err && (read_counts->named || err != -ENOENT))
		persistent__error("read", id, info->name, 'r', err);
	if (!err && hidden) {
		pr_err("session '%s': %d of %d instances may not be read; their counts are missing\n",
		       info->name, hidden, info->nr);
		read_counts->incomplete = true;
		err = -EACCES;
	}
	persistent_info__exit(info);
	return err;
}

static int persistent_read__show(u32 id, void *arg)
{
	struct persistent_read *read_counts = arg;
	const struct persistent_print *print = read_counts->print;
	int err = print->exits ?
		  persistent_exits__show(id, print->json ? &read_counts->json : NULL) :
		  persistent_read__id(read_counts, id);

	/* The session may have ended since the list was read. */
	if (err == -ENOENT && !read_counts->named)
		return 0;
	return err ?: 1;
}

static int persistent_read__run(int argc, const char **argv, const struct persistent_print *print)
{
	struct persistent_read read_counts = {
		.print = print, .json.fp = stdout, .named = argc,
	};
	int err, done = 0;

	/* For people only: programs expect numbers as in the C locale. */
	if (persistent_print__is_text(print))
		setlocale(LC_NUMERIC, "");
	if (print->json)
		json_out__begin(&read_counts.json, NULL, '[');
	err = persistent__each(argc, argv, persistent_read__show, &read_counts, &done);
	if (print->json)
		json_out__end(&read_counts.json, ']');
	if (print->openmetrics)
		openmetrics__print(&read_counts.metrics, stdout);
	openmetrics__exit(&read_counts.metrics);
	/* Without names, a session that cannot be read is no error if another can. */
	return !argc && done && !read_counts.incomplete ? 0 : err;
}

int persistent_cmd__read(int argc, const char **argv, const char * const usage[])
{
	struct persistent_print print = {};
	const struct option options[] = {
		OPT_BOOLEAN('A', "no-aggr", &print.no_aggr,
			    "print the count of each CPU, task or cgroup instead of their sum"),
		OPT_BOOLEAN(0, "per-process", &print.per_process,
			    "print the count of each process, and then their sum"),
		OPT_BOOLEAN('j', "json", &print.json, "print JSON"),
		OPT_STRING('x', "field-separator", &print.separator, "separator",
			   "print a line for each count, with the values separated by this"),
		OPT_BOOLEAN(0, "openmetrics", &print.openmetrics,
			    "print the text format of OpenMetrics, for Prometheus"),
		OPT_BOOLEAN(0, "exits", &print.exits,
			    "print the counts of each task that has ended"),
		OPT_BOOLEAN('v', "verbose", &print.details, "print the events for side-band, too"),
		OPT_END()
	};

	argc = parse_options(argc, argv, options, usage, 0);
	if (persistent_print__check(&print))
		return -EINVAL;
	if (print.openmetrics && (print.json || print.separator))
		pr_err("cannot use --openmetrics with -j or -x\n");
	else if (print.per_process && (print.no_aggr || print.exits || print.openmetrics))
		pr_err("cannot use --per-process with -A, --exits or --openmetrics\n");
	else if (print.exits && (!argc || print.no_aggr || print.details || print.separator ||
				 print.openmetrics))
		pr_err("--exits needs the name of a session, and cannot be used with -A, -v, -x or --openmetrics\n");
	else
		return persistent_read__run(argc, argv, &print);
	return -EINVAL;
}
