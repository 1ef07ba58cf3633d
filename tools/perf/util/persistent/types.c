// SPDX-License-Identifier: GPL-2.0
/*
 * Names of the events of a session, from their types in sysfs, which anybody may read.
 * Labels are better, but need the right to open the instances.
 */
#include "info.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include "evsel.h"
#include "intlist.h"
#include "pmu.h"
#include "pmus.h"
#include "registry.h"
#include "strbuf.h"
#include "tp_pmu.h"

/* Tracepoint names by id; all are read at once, since that takes long. */
static struct intlist *tracepoints;

static int tracepoints__add(void *state __maybe_unused, const char *system, const char *event)
{
	int id = tp_pmu__id(system, event);
	/* Most of ftrace's own events have no id. */
	struct int_node *node = id < 0 ? NULL : intlist__findnew(tracepoints, id);
	char *name;

	if (node && asprintf(&name, "%s:%s", system, event) >= 0)
		node->priv = name;
	return 0;
}

static int tracepoints__add_system(void *state, const char *system)
{
	tp_pmu__for_each_tp_event(system, state, tracepoints__add);
	return 0;
}

static int add_tracepoint(struct strbuf *sb, u64 config)
{
	struct int_node *node;

	if (!tracepoints) {
		tracepoints = intlist__new(NULL);
		if (!tracepoints)
			return -ENOMEM;
		tp_pmu__for_each_tp_sys(NULL, tracepoints__add_system);
	}
	node = intlist__find(tracepoints, config);
	if (node && node->priv)
		return strbuf_addstr(sb, node->priv);
	/* Without the right to read tracefs */
	return strbuf_addf(sb, "tracepoint:%llu", (unsigned long long)config);
}

static int add_generic(struct strbuf *sb, u32 type, u64 config)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = type, .config = config,
	};
	struct evsel *evsel = evsel__new(&attr);
	int err;

	if (!evsel)
		return -ENOMEM;
	err = strbuf_addstr(sb, evsel__name(evsel));
	evsel__put(evsel);
	return err;
}

static int add_pmu(struct strbuf *sb, u32 type, u64 config)
{
	struct perf_pmu *pmu = perf_pmus__find_by_type(type);
	const char *event = pmu ? perf_pmu__name_from_config(pmu, config) : NULL;

	if (event)
		return strbuf_addf(sb, "%s/%s/", pmu->name, event);
	if (pmu)
		return strbuf_addf(sb, "%s/config=0x%llx/", pmu->name, (unsigned long long)config);
	return strbuf_addf(sb, "%u:0x%llx", type, (unsigned long long)config);
}

/* Append perf's name for the event. */
int persistent__add_name(struct strbuf *sb, u32 type, u64 config)
{
	switch (type) {
	case PERF_TYPE_HARDWARE:
	case PERF_TYPE_SOFTWARE:
	case PERF_TYPE_HW_CACHE:
		return add_generic(sb, type, config);
	case PERF_TYPE_TRACEPOINT:
		return add_tracepoint(sb, config);
	case PERF_TYPE_BREAKPOINT:
		return strbuf_addstr(sb, "breakpoint");
	case PERF_TYPE_RAW:
		return strbuf_addf(sb, "r%llx", (unsigned long long)config);
	default:
		return add_pmu(sb, type, config);
	}
}

/* Returns 0, or a negative error if the session has ended. */
int persistent_types__read(struct persistent_types *types, u32 id)
{
	char text[4096], *rest = text, *line;
	int len = persistent__value(id, "types", text, sizeof(text));

	types->nr = 0;
	while (len > 0 && types->nr < PERSISTENT_MAX_MEMBERS && (line = strsep(&rest, "\n"))) {
		struct persistent_type *type = &types->list[types->nr];

		types->nr += sscanf(line, "%u:%" SCNx64, &type->type, &type->config) == 2;
	}
	return min(len, 0);
}

/* Append the names of all events except side-band, separated by @sep. */
int persistent_types__add_names(const struct persistent_types *types, char sep, struct strbuf *sb)
{
	size_t start = sb->len;
	int err = 0;

	for (int i = 0; i < types->nr && !err; i++) {
		const struct persistent_type *type = &types->list[i];

		if (persistent__is_side_band(type->type, type->config))
			continue;
		if (sb->len > start)
			err = strbuf_addch(sb, sep);
		if (!err)
			err = persistent__add_name(sb, type->type, type->config);
	}
	return err;
}

/* Returns the length of the subsystem in a tracepoint's name, or 0. */
static size_t event__subsystem(const char *event)
{
	size_t len = strcspn(event, ":\n");

	/* TYPE:CONFIG stands for an event of a PMU that has gone. */
	return event[len] == ':' && !isdigit(event[0]) ? len : 0;
}

static const char *event__next(const char *event)
{
	event = strchr(event, '\n');
	return event ? event + 1 : NULL;
}

/* Number of tracepoints from @from up to @to, or NULL for the end, in the subsystem of @event */
static int events__in_subsystem(const char *from, const char *to, const char *event)
{
	size_t len = event__subsystem(event);
	int nr = 0;

	for (; len && from && from != to; from = event__next(from))
		nr += event__subsystem(from) == len && !strncmp(from, event, len);
	return nr;
}

/* Group the tracepoints of each subsystem, as sched:* (23). */
static void events__group(const char *events, struct strbuf *sb)
{
	for (const char *event = events; event; event = event__next(event)) {
		int nr = events__in_subsystem(event, NULL, event);

		if (events__in_subsystem(events, event, event))
			continue;
		if (sb->len)
			strbuf_addch(sb, ' ');
		if (nr > 1)
			strbuf_addf(sb, "%.*s:* (%d)", (int)event__subsystem(event), event, nr);
		else
			strbuf_add(sb, event, strcspn(event, "\n"));
	}
}

/*
 * Fit @events, which are separated by newlines, into a line of at most @width columns; 0
 * means no limit. Returns NULL without memory.
 */
char *persistent__fit_events(const char *events, int width)
{
	struct strbuf sb = STRBUF_INIT;
	char *text = strdup(events);

	if (!text)
		return NULL;
	strreplace(text, '\n', ' ');
	if (!width || strlen(text) <= (size_t)width)
		return text;

	free(text);
	events__group(events, &sb);
	if (sb.len > (size_t)width) {
		strbuf_setlen(&sb, max(width - 3, 0));
		strbuf_addf(&sb, "%.*s", width, "...");
	}
	return strbuf_detach(&sb, NULL);
}

bool persistent__is_cpu_pmu(u32 type)
{
	struct perf_pmu *pmu;

	if (type == PERF_TYPE_HARDWARE || type == PERF_TYPE_HW_CACHE || type == PERF_TYPE_RAW)
		return true;
	if (perf_type__is_static(type))
		return false;
	pmu = perf_pmus__find_by_type(type);
	return pmu && pmu->is_core;
}

bool persistent_types__have_cpu_pmu(const struct persistent_types *types)
{
	for (int i = 0; i < types->nr; i++) {
		if (persistent__is_cpu_pmu(types->list[i].type))
			return true;
	}
	return false;
}

/* For perf list, which prints the name itself */
char *persistent__describe(const char *name)
{
	struct strbuf names = STRBUF_INIT;
	struct persistent_types types;
	char owner[64], *text = NULL;
	int id = persistent__find_name(name);

	if (id > 0 && !persistent_types__read(&types, id) &&
	    !persistent_types__add_names(&types, ' ', &names) &&
	    asprintf(&text, "Session %d of %s: %s", id,
		     persistent__owner(id, owner, sizeof(owner)), names.buf) < 0)
		text = NULL;
	strbuf_release(&names);
	return text;
}
