// SPDX-License-Identifier: GPL-2.0
/*
 * Names of the events of a session, from its types in sysfs, which anybody may
 * read. Labels are better, but need the right to open the instances.
 */
#include "info.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include "evsel.h"
#include "pmu.h"
#include "pmus.h"
#include "registry.h"
#include "strbuf.h"
#include "tp_pmu.h"

struct event_name {
	u32	type;
	u64	config;
	char	*name;
};

struct event_names {
	struct event_name	*names;
	int			nr;
};

static struct event_names tracepoints, generic;

static const char *generic__find(u32 type, u64 config)
{
	for (int i = 0; i < generic.nr; i++) {
		if (generic.names[i].config == config && generic.names[i].type == type)
			return generic.names[i].name;
	}
	return NULL;
}

/* Takes the name, which is freed if there is no memory for one more. */
static void event_names__add(struct event_names *names, u32 type, u64 config, char *name)
{
	struct event_name *tmp;

	if (!(names->nr & (names->nr - 1))) {
		tmp = realloc(names->names, max(2 * names->nr, 1) * sizeof(*tmp));
		if (!tmp) {
			free(name);
			return;
		}
		names->names = tmp;
	}
	names->names[names->nr++] = (struct event_name) { type, config, name };
}

static int tracepoints__add(void *state __maybe_unused, const char *system, const char *event)
{
	int id = tp_pmu__id(system, event);
	char *name;

	if (id >= 0 && asprintf(&name, "%s:%s", system, event) >= 0)
		event_names__add(&tracepoints, PERF_TYPE_TRACEPOINT, id, name);
	return 0;
}

static int tracepoints__add_system(void *state, const char *system)
{
	tp_pmu__for_each_tp_event(system, state, tracepoints__add);
	return 0;
}

static int event_name__cmp(const void *a, const void *b)
{
	const struct event_name *l = a, *r = b;

	return l->config < r->config ? -1 : l->config > r->config;
}

/*
 * Reading all of tracefs takes long, so that is done once for all ids. Who may not read it
 * gets NULL.
 */
static const char *tracepoints__find(u64 config)
{
	struct event_name *found, key = { .config = config };
	static bool loaded;

	if (!loaded) {
		tp_pmu__for_each_tp_sys(NULL, tracepoints__add_system);
		if (tracepoints.nr)
			qsort(tracepoints.names, tracepoints.nr, sizeof(key), event_name__cmp);
	}
	loaded = true;
	found = tracepoints.nr ? bsearch(&key, tracepoints.names, tracepoints.nr, sizeof(key),
					 event_name__cmp) : NULL;
	return found ? found->name : NULL;
}

static void generic__load(u32 type, u64 config)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = type, .config = config,
	};
	struct evsel *evsel = evsel__new(&attr);
	char *name = evsel ? strdup(evsel__name(evsel)) : NULL;

	if (name)
		event_names__add(&generic, type, config, name);
	if (evsel)
		evsel__put(evsel);
}

/* A list has the same events in many sessions, and making one takes long. */
static int add_generic(struct strbuf *sb, u32 type, u64 config)
{
	const char *name = generic__find(type, config);

	if (!name) {
		generic__load(type, config);
		name = generic__find(type, config);
	}
	return name ? strbuf_addstr(sb, name) : -ENOMEM;
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

static int add_type(struct strbuf *sb, u32 type, u64 config)
{
	const char *name;

	switch (type) {
	case PERF_TYPE_HARDWARE:
	case PERF_TYPE_SOFTWARE:
	case PERF_TYPE_HW_CACHE:
		return add_generic(sb, type, config);
	case PERF_TYPE_TRACEPOINT:
		name = tracepoints__find(config);
		return name ? strbuf_addstr(sb, name) :
			      strbuf_addf(sb, "tracepoint:%llu", (unsigned long long)config);
	case PERF_TYPE_BREAKPOINT:
		return strbuf_addstr(sb, "breakpoint");
	case PERF_TYPE_RAW:
		return strbuf_addf(sb, "r%llx", (unsigned long long)config);
	default:
		return add_pmu(sb, type, config);
	}
}

/*
 * Add the names of what sysfs calls TYPE:CONFIG, line by line, with a separator between them.
 */
int persistent__parse_types(char *types, char sep, struct strbuf *sb)
{
	unsigned long long config;
	size_t start = sb->len;
	int err = 0;
	char *line;
	u32 type;

	while (!err && (line = strsep(&types, "\n"))) {
		if (sscanf(line, "%u:%llx", &type, &config) != 2)
			continue;
		/* Side-band comes with every session. */
		if (type == PERF_TYPE_SOFTWARE && config == PERF_COUNT_SW_DUMMY)
			continue;
		if (sb->len > start)
			err = strbuf_addch(sb, sep);
		if (!err)
			err = add_type(sb, type, config);
	}
	return err;
}

int persistent__types(u32 id, char sep, struct strbuf *sb)
{
	char types[4096];
	int len = persistent__value(id, "types", types, sizeof(types));

	return len < 0 ? len : persistent__parse_types(types, sep, sb);
}

/* Returns the length of what is before the colon of a tracepoint's name, or 0. */
static size_t event__subsystem(const char *event)
{
	size_t len = strcspn(event, ":\n");

	/* TYPE:CONFIG stands for an event of a PMU that has gone. */
	return event[len] == ':' && !isdigit(event[0]) ? len : 0;
}

/* How many tracepoints of the subsystem of the first event are in the rest */
static int events__in_subsystem(const char *events, size_t len)
{
	int nr = 0;

	for (const char *event = events; event; event = strchr(event, '\n')) {
		event += *event == '\n';
		nr += event__subsystem(event) == len && !strncmp(event, events, len);
	}
	return nr;
}

static bool events__had_subsystem(const char *events, const char *event, size_t len)
{
	while (events < event) {
		if (event__subsystem(events) == len && !strncmp(events, event, len))
			return true;
		events = strchr(events, '\n') + 1;
	}
	return false;
}

/* The tracepoints of each subsystem as one: sched:* (23) */
static void events__group(const char *events, struct strbuf *sb)
{
	for (const char *event = events; event; event = strchr(event, '\n')) {
		size_t len;
		int nr;

		event += *event == '\n';
		len = event__subsystem(event);
		if (len && events__had_subsystem(events, event, len))
			continue;
		nr = len ? events__in_subsystem(event, len) : 1;
		if (sb->len)
			strbuf_addch(sb, ' ');
		if (nr > 1)
			strbuf_addf(sb, "%.*s:* (%d)", (int)len, event, nr);
		else
			strbuf_add(sb, event, strcspn(event, "\n"));
	}
}

/*
 * The events of a session, which have a newline between them, in a line of not more
 * than so many columns, if width is not 0. NULL without memory.
 */
char *persistent__fit_events(const char *events, int width)
{
	char *text = strdup(events);
	struct strbuf sb;

	if (!text)
		return NULL;
	strreplace(text, '\n', ' ');
	if (!width || strlen(text) <= (size_t)width)
		return text;

	free(text);
	strbuf_init(&sb, 0);
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

/* Of what sysfs calls TYPE:CONFIG, line by line */
bool persistent__types_have_cpu_pmu(const char *types)
{
	for (const char *line = types; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (isdigit(*line) && persistent__is_cpu_pmu(strtoul(line, NULL, 10)))
			return true;
	}
	return false;
}

bool persistent__has_cpu_pmu(u32 id)
{
	char types[4096];

	return persistent__value(id, "types", types, sizeof(types)) >= 0 &&
	       persistent__types_have_cpu_pmu(types);
}

/* For perf list, which has the name already. */
char *persistent__describe(const char *name)
{
	char owner[64], *text = NULL;
	struct strbuf types;
	int id;

	id = persistent__find_name(name);
	if (id < 0)
		return NULL;

	strbuf_init(&types, 0);
	if (persistent__types(id, ' ', &types) < 0 ||
	    asprintf(&text, "Session %d of %s: %s", id,
		     persistent__owner(id, owner, sizeof(owner)), types.buf) < 0)
		text = NULL;
	strbuf_release(&types);
	return text;
}
