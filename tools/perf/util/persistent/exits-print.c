// SPDX-License-Identifier: GPL-2.0
/*
 * How perf persistent read --exits prints the tasks that have ended: a line each, or JSON.
 */
#include "exits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/time64.h>
#include "evlist.h"
#include "evsel.h"
#include "json.h"
#include "read.h"
#include "reopen.h"
#include "thread.h"

#define COUNT_WIDTH	18

struct exit_unit {
	double	scale;
	char	text[32];
};

static void exit_unit__init(struct exit_unit *unit, struct evsel *evsel)
{
	unit->scale = persistent__parse_unit(evsel__name(evsel), &evsel->core.attr, unit->text,
					     sizeof(unit->text));
}

static double exit_count__percent(const struct exit_count *count)
{
	return count->ena > count->run ? 100.0 * count->run / count->ena : 100.0;
}

static const char *exit_row__comm(struct exit_row *row)
{
	return thread__comm_str(row->thread);
}

/* Text */

static void exit_count__print(const struct exit_count *count, struct evsel *evsel)
{
	char text[64] = "-", percent[16];
	struct exit_unit unit;
	int len;

	exit_unit__init(&unit, evsel);
	if (count->known && unit.scale != 1.0)
		snprintf(text, sizeof(text), "%'.6f", count->val * unit.scale);
	else if (count->known)
		snprintf(text, sizeof(text), "%'" PRIu64, count->val);

	/* What rounds to all of the time is all of it. */
	snprintf(percent, sizeof(percent), " (%.2f%%)", exit_count__percent(count));
	if (count->known && strcmp(percent, " (100.00%)")) {
		len = strlen(text);
		snprintf(text + len, sizeof(text) - len, "%s", percent);
	}
	printf(" %*s", max(COUNT_WIDTH, (int)strlen(evsel__name(evsel))), text);
}

static void persistent_exits__print_rows(struct persistent_exits *exits)
{
	struct evsel *evsel;

	printf("%7s %7s  %-15s", "PID", "TID", "COMM");
	evlist__for_each_entry(exits->evlist, evsel) {
		if (evsel->core.attr.inherit_stat)
			printf(" %*s", COUNT_WIDTH, evsel__name(evsel));
	}
	printf("\n");

	for (int i = 0; i < exits->nr_rows; i++) {
		struct exit_row *row = exits->rows[i];

		printf("%7d %7d  %-15s", thread__pid(row->thread), thread__tid(row->thread),
		       exit_row__comm(row));
		evlist__for_each_entry(exits->evlist, evsel) {
			if (evsel->core.attr.inherit_stat)
				exit_count__print(&row->counts[evsel->core.idx], evsel);
		}
		printf("\n");
	}
	printf("\n");
}

/* On stderr, also beside JSON: nothing is missing silently. */
static void persistent_exits__print_losses(struct persistent_exits *exits)
{
	unsigned long long bytes = persistent_reader__lost_bytes(&exits->reader);

	if (exits->lost)
		fprintf(stderr, "[ dropped, buffer full: %llu records, so counts are missing ]\n",
			(unsigned long long)exits->lost);
	if (bytes)
		fprintf(stderr, "[ older records were overwritten: %llu bytes ]\n", bytes);
	persistent_reader__print_horizon(&exits->reader, stderr);
	if (exits->waiting)
		fprintf(stderr,
			"[ tasks with running children are counted once those have exited ]\n");
	else if (exits->incomplete)
		fprintf(stderr,
			"[ the tasks that %s was started on have no counts: not all of their children's are known ]\n",
			exits->info.name);
}

void persistent_exits__print(struct persistent_exits *exits)
{
	printf("%s, id %u, started %.3f seconds ago, tasks that have ended: %d\n\n",
	       exits->info.name, exits->info.id,
	       (double)exits->info.query.age / NSEC_PER_SEC, exits->nr_rows);
	persistent_exits__print_rows(exits);
	fflush(stdout);
	persistent_exits__print_losses(exits);
}

/* JSON */

static void exit_count__json(const struct exit_count *count, struct evsel *evsel,
			     struct json_out *out)
{
	struct exit_unit unit;

	exit_unit__init(&unit, evsel);
	json_out__begin(out, NULL, '{');
	if (count->known && unit.scale != 1.0)
		json_out__double(out, "counter-value", count->val * unit.scale);
	else if (count->known)
		json_out__number(out, "counter-value", count->val);
	json_out__string(out, "unit", unit.text);
	json_out__string(out, "event", evsel__name(evsel));
	if (count->known) {
		json_out__number(out, "event-enabled", max(count->ena, count->run));
		json_out__number(out, "event-runtime", count->run);
		json_out__double(out, "pcnt-running", exit_count__percent(count));
	}
	json_out__end(out, '}');
}

static void persistent_exits__json_row(struct persistent_exits *exits, struct exit_row *row,
				       struct json_out *out)
{
	struct evsel *evsel;

	json_out__begin(out, NULL, '{');
	json_out__number(out, "pid", thread__pid(row->thread));
	json_out__number(out, "tid", thread__tid(row->thread));
	json_out__string(out, "comm", exit_row__comm(row));
	json_out__begin(out, "counts", '[');
	evlist__for_each_entry(exits->evlist, evsel) {
		if (evsel->core.attr.inherit_stat)
			exit_count__json(&row->counts[evsel->core.idx], evsel, out);
	}
	json_out__end(out, ']');
	json_out__end(out, '}');
}

void persistent_exits__json(struct persistent_exits *exits, struct json_out *out)
{
	json_out__begin(out, NULL, '{');
	json_out__string(out, "name", exits->info.name);
	json_out__number(out, "id", exits->info.id);
	json_out__number(out, "age", exits->info.query.age);
	json_out__number(out, "lost", exits->lost);
	json_out__number(out, "lost-side-band", evlist__persistent_lost(exits->evlist, true));
	json_out__number(out, "overwritten-bytes", persistent_reader__lost_bytes(&exits->reader));
	json_out__begin(out, "exits", '[');
	for (int i = 0; i < exits->nr_rows; i++)
		persistent_exits__json_row(exits, exits->rows[i], out);
	json_out__end(out, ']');
	json_out__end(out, '}');
	persistent_exits__print_losses(exits);
}
