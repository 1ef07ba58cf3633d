// SPDX-License-Identifier: GPL-2.0
/*
 * How perf persistent read prints a count: for people, as CSV and as JSON, with the keys
 * of perf stat.
 */
#include "read.h"

#include <inttypes.h>
#include <linux/kernel.h>
#include "evlist.h"
#include "evsel.h"
#include "info.h"
#include "pmu.h"
#include "reopen.h"

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
		evsel = evlist__parse_label(evlist, label, attr);
	}

	if (evsel) {
		scale = evsel->scale;
		scnprintf(unit, size, "%s", evsel->unit ?: "");
	}
	evlist__put(evlist);
	return scale;
}

bool read_line__counted(const struct read_line *line)
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

void read_line__print(const struct read_line *line)
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

/* The same fields with and without -A or --per-process; those that do not apply are empty. */
void read_line__separated(const struct read_line *line, const char *sep)
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

void read_line__json(const struct read_line *line, struct json_out *out)
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
