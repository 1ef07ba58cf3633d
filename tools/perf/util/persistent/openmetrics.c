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
#include "info.h"
#include "strbuf.h"

/* A counter's samples have the suffix _total; its name ends with the base unit. */
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
				  "Samples dropped because the buffer was full." },
};

/* Units of perf's events, and the factors that convert them to base units */
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

/* The numbers distinguish samples with the same texts. */
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

static int openmetrics__add_sample(struct openmetrics *metrics, enum openmetrics_family family,
				   const char *labels, u64 value, double scale)
{
	struct strbuf *sb = &metrics->samples[family];
	int err = strbuf_addf(sb, "%s_total{%s} ", families[family].name, labels);

	if (err)
		return err;
	return scale != 1.0 ? strbuf_addf(sb, "%.9f\n", value * scale) :
			      strbuf_addf(sb, "%" PRIu64 "\n", value);
}

/*
 * Do not scale counts for the time without a counter: a scaled count can go down, which a
 * counter must not. Both times are exported, to scale rates with; but not the share of a
 * task's enabled time that one of its CPUs has, which can go down as well.
 */
int openmetrics__add(struct openmetrics *metrics, const struct read_line *line)
{
	const struct perf_persistent_info *self = line->details ? &line->details->query.self : NULL;
	bool is_share = self && self->pid != -1 && self->cpu != -1;
	enum openmetrics_family family = OPENMETRICS_EVENTS;
	const double ns = 1.0 / NSEC_PER_SEC;
	double scale = line->scale;
	char *labels;
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(line->unit, units[i].unit))
			continue;
		family = units[i].family;
		scale *= units[i].scale;
	}

	labels = openmetrics__labels(line, family);
	if (!labels)
		return -ENOMEM;
	if (read_line__counted(line))
		err = openmetrics__add_sample(metrics, family, labels, line->raw, scale);
	if (!err && !is_share)
		err = openmetrics__add_sample(metrics, OPENMETRICS_ENABLED, labels,
					      line->counts.ena, ns);
	err = err ?: openmetrics__add_sample(metrics, OPENMETRICS_RUNNING, labels,
					     line->counts.run, ns) ?:
		     openmetrics__add_sample(metrics, OPENMETRICS_LOST, labels,
					     line->counts.lost, 1.0);
	free(labels);
	return err;
}

void openmetrics__exit(struct openmetrics *metrics)
{
	for (int i = 0; i < OPENMETRICS_FAMILIES; i++)
		strbuf_release(&metrics->samples[i]);
}

void openmetrics__print(struct openmetrics *metrics, FILE *fp)
{
	for (int i = 0; i < OPENMETRICS_FAMILIES; i++) {
		const char *name = families[i].name;

		if (!metrics->samples[i].len)
			continue;
		fprintf(fp, "# HELP %s %s\n", name, families[i].help);
		fprintf(fp, "# TYPE %s counter\n", name);
		if (families[i].unit)
			fprintf(fp, "# UNIT %s %s\n", name, families[i].unit);
		fputs(metrics->samples[i].buf, fp);
	}
	fprintf(fp, "# EOF\n");
}
