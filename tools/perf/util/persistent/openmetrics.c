// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent read --openmetrics: counts in the text format of OpenMetrics, which
 * the textfile collector of Prometheus' node_exporter reads.
 */
#include "read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/time64.h>
#include <linux/zalloc.h>
#include "info.h"
#include "strbuf.h"

enum openmetrics_family {
	OPENMETRICS_EVENTS, OPENMETRICS_CLOCK, OPENMETRICS_ENERGY, OPENMETRICS_TRAFFIC,
	OPENMETRICS_ENABLED, OPENMETRICS_RUNNING, OPENMETRICS_LOST, OPENMETRICS_FAMILIES,
};

/* A counter's samples have the suffix _total, and its name ends with the base unit. */
static const struct {
	const char	*name;
	const char	*unit;
	const char	*help;
} families[] = {
	[OPENMETRICS_EVENTS]  = { "perf_persistent_events", NULL,
				  "Events counted, not scaled for the time without a counter." },
	[OPENMETRICS_CLOCK]   = { "perf_persistent_clock_seconds", "seconds",
				  "Time measured by clock events." },
	[OPENMETRICS_ENERGY]  = { "perf_persistent_energy_joules", "joules",
				  "Energy measured by events." },
	[OPENMETRICS_TRAFFIC] = { "perf_persistent_traffic_bytes", "bytes",
				  "Data transferred, measured by events." },
	[OPENMETRICS_ENABLED] = { "perf_persistent_enabled_seconds", "seconds",
				  "Time enabled, summed over CPUs or tasks." },
	[OPENMETRICS_RUNNING] = { "perf_persistent_running_seconds", "seconds",
				  "Time with a counter, summed over CPUs or tasks." },
	[OPENMETRICS_LOST]    = { "perf_persistent_lost_samples", NULL,
				  "Samples that were dropped, as the buffer was full." },
};

/* The units that perf's events have, and what makes base units of them */
static const struct {
	const char		*unit;
	enum openmetrics_family	family;
	double			scale;
} units[] = {
	{ "msec",   OPENMETRICS_CLOCK,	 0.001 },
	{ "Joules", OPENMETRICS_ENERGY,	 1.0 },
	{ "Bytes",  OPENMETRICS_TRAFFIC, 1.0 },
	{ "KiB",    OPENMETRICS_TRAFFIC, 1024.0 },
	{ "MiB",    OPENMETRICS_TRAFFIC, 1024.0 * 1024.0 },
	{ "GiB",    OPENMETRICS_TRAFFIC, 1024.0 * 1024.0 * 1024.0 },
};

struct openmetrics_line {
	enum openmetrics_family	family;
	char			*labels;
	bool			counted;
	double			scale;
	u64			value;
	u64			ena;
	u64			run;
	u64			lost;
};

static int label__add(struct strbuf *sb, const char *key, const char *value)
{
	int err = strbuf_addf(sb, "%s%s=\"", sb->len ? "," : "", key);

	for (; *value && !err; value++) {
		if (*value == '"' || *value == '\\')
			err = strbuf_addf(sb, "\\%c", *value);
		else if (*value == '\n')
			err = strbuf_addstr(sb, "\\n");
		else
			err = strbuf_addch(sb, *value);
	}
	return err ?: strbuf_addch(sb, '"');
}

static int label__add_number(struct strbuf *sb, const char *key, u32 value)
{
	return strbuf_addf(sb, "%s%s=\"%u\"", sb->len ? "," : "", key, value);
}

/* The numbers keep samples apart whose texts are the same. */
static char *openmetrics__labels(const struct read_line *line, enum openmetrics_family family)
{
	const struct perf_persistent_info *self = line->details ? &line->details->query.self : NULL;
	struct strbuf sb = STRBUF_INIT;
	int err = label__add(&sb, "session", line->session) ?:
		  label__add(&sb, "event", line->label) ?:
		  label__add_number(&sb, "member", line->member);

	if (!err && self)
		err = label__add_number(&sb, "instance_nr",
					persistent_details__instance(line->details));
	if (!err && self && self->cpu >= 0)
		err = label__add_number(&sb, "cpu", self->cpu);
	if (!err && self && self->pid >= 0)
		err = label__add_number(&sb, "pid", self->pid);
	if (!err && line->cgroup[0])
		err = label__add(&sb, "cgroup", line->cgroup);
	if (!err && line->unit[0] && family == OPENMETRICS_EVENTS)
		err = label__add(&sb, "unit", line->unit);
	if (!err)
		return strbuf_detach(&sb, NULL);
	strbuf_release(&sb);
	return NULL;
}

int openmetrics__add(struct openmetrics *metrics, const struct read_line *line)
{
	struct openmetrics_line *lines, new = {
		.counted = read_line__counted(line),
		.scale	 = line->scale,
		.value	 = line->raw,
		.ena	 = line->counts.ena,
		.run	 = line->counts.run,
		.lost	 = line->counts.lost,
	};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(line->unit, units[i].unit))
			continue;
		new.family = units[i].family;
		new.scale *= units[i].scale;
	}

	lines = realloc(metrics->lines, (metrics->nr + 1) * sizeof(*lines));
	if (!lines)
		return -ENOMEM;
	metrics->lines = lines;
	new.labels = openmetrics__labels(line, new.family);
	if (!new.labels)
		return -ENOMEM;
	lines[metrics->nr++] = new;
	return 0;
}

void openmetrics__exit(struct openmetrics *metrics)
{
	for (int i = 0; i < metrics->nr; i++)
		free(metrics->lines[i].labels);
	zfree(&metrics->lines);
	metrics->nr = 0;
}

/*
 * Counts are not scaled for the time without a counter: a scaled one can go down, which
 * a counter must not. Both times are there to scale rates with.
 */
static bool openmetrics_line__has(const struct openmetrics_line *line,
				  enum openmetrics_family family)
{
	return family >= OPENMETRICS_ENABLED || (line->counted && line->family == family);
}

static void openmetrics_line__print(const struct openmetrics_line *line,
				    enum openmetrics_family family, FILE *fp)
{
	fprintf(fp, "%s_total{%s} ", families[family].name, line->labels);
	if (family == OPENMETRICS_ENABLED)
		fprintf(fp, "%.9f\n", (double)line->ena / NSEC_PER_SEC);
	else if (family == OPENMETRICS_RUNNING)
		fprintf(fp, "%.9f\n", (double)line->run / NSEC_PER_SEC);
	else if (family == OPENMETRICS_LOST)
		fprintf(fp, "%" PRIu64 "\n", line->lost);
	else if (line->scale != 1.0)
		fprintf(fp, "%.9f\n", line->value * line->scale);
	else
		fprintf(fp, "%" PRIu64 "\n", line->value);
}

static void openmetrics__print_family(struct openmetrics *metrics,
				      enum openmetrics_family family, FILE *fp)
{
	const char *name = families[family].name;
	bool first = true;

	for (int i = 0; i < metrics->nr; i++) {
		if (!openmetrics_line__has(&metrics->lines[i], family))
			continue;
		if (first) {
			fprintf(fp, "# HELP %s %s\n", name, families[family].help);
			fprintf(fp, "# TYPE %s counter\n", name);
			if (families[family].unit)
				fprintf(fp, "# UNIT %s %s\n", name, families[family].unit);
		}
		first = false;
		openmetrics_line__print(&metrics->lines[i], family, fp);
	}
}

void openmetrics__print(struct openmetrics *metrics, FILE *fp)
{
	for (int i = 0; i < OPENMETRICS_FAMILIES; i++)
		openmetrics__print_family(metrics, i, fp);
	fprintf(fp, "# EOF\n");
}
