// SPDX-License-Identifier: GPL-2.0
/*
 * Names for what a persistent id counts, from what anybody may read in sysfs.
 * The label says it better, but is for the entitled, and takes opening.
 */
#include "info.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <api/fs/fs.h>
#include <api/fs/tracing_path.h>
#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include "evsel.h"
#include "pmu.h"
#include "pmus.h"
#include "registry.h"
#include "strbuf.h"

struct tracepoint_name {
	u64	config;
	char	*name;
};

static struct tracepoint_name *tracepoints;
static int nr_tracepoints;

static void tracepoints__add(const char *system, const char *event)
{
	struct tracepoint_name *tmp, new = {};
	char path[PATH_MAX];
	unsigned long long id;

	if (event[0] == '.')
		return;
	scnprintf(path, sizeof(path), "%s/events/%s/%s/id", tracing_path_mount(), system, event);
	if (filename__read_ull(path, &id))
		return;

	if (!(nr_tracepoints & (nr_tracepoints - 1))) {
		tmp = realloc(tracepoints, max(2 * nr_tracepoints, 1) * sizeof(*tmp));
		if (!tmp)
			return;
		tracepoints = tmp;
	}
	new.config = id;
	if (asprintf(&new.name, "%s:%s", system, event) >= 0)
		tracepoints[nr_tracepoints++] = new;
}

/* Reading all of tracefs takes long, so that is done once for all ids. */
static void tracepoints__load(void)
{
	DIR *systems = tracing_events__opendir();
	struct dirent *system, *event;
	DIR *events;
	char *path;

	if (!systems)
		return;

	while ((system = readdir(systems))) {
		if (system->d_name[0] == '.')
			continue;
		path = get_events_file(system->d_name);
		events = path ? opendir(path) : NULL;
		put_events_file(path);
		if (!events)
			continue;
		while ((event = readdir(events)))
			tracepoints__add(system->d_name, event->d_name);
		closedir(events);
	}
	closedir(systems);
}

/* Who may not read tracefs gets NULL. */
static const char *tracepoints__find(u64 config)
{
	static bool loaded;

	if (!loaded)
		tracepoints__load();
	loaded = true;

	for (int i = 0; i < nr_tracepoints; i++) {
		if (tracepoints[i].config == config)
			return tracepoints[i].name;
	}
	return NULL;
}

static int add_generic(struct strbuf *sb, u32 type, u64 config)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = type, .config = config,
	};
	struct evsel *evsel = evsel__new(&attr);
	int err = evsel ? strbuf_addstr(sb, evsel__name(evsel)) : -ENOMEM;

	if (evsel)
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

static int add_tracepoint(struct strbuf *sb, u64 config)
{
	const char *name = tracepoints__find(config);

	if (name)
		return strbuf_addstr(sb, name);
	return strbuf_addf(sb, "tracepoint:%llu", (unsigned long long)config);
}

static int add_type(struct strbuf *sb, u32 type, u64 config)
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

/*
 * Add the names of what sysfs calls TYPE:CONFIG, line by line, with a separator
 * between them.
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

bool persistent__has_cpu_pmu(u32 id)
{
	char buf[4096], *types = buf, *line;
	u32 type;

	if (persistent__value(id, "types", buf, sizeof(buf)) < 0)
		return false;
	while ((line = strsep(&types, "\n"))) {
		if (sscanf(line, "%u:", &type) == 1 && persistent__is_cpu_pmu(type))
			return true;
	}
	return false;
}

/*
 * Whether some of its events keep KVM from giving guests the PMU; a negative
 * error if that is not for the caller to know. Only what may be such is opened.
 */
int persistent__includes_guests(u32 id)
{
	struct persistent_info info;
	bool includes = false;
	int err;

	if (!persistent__has_cpu_pmu(id))
		return 0;

	err = persistent_info__init(&info, id);
	if (err)
		return err;
	for (u32 i = 0; i < info.nr_members; i++)
		includes |= info.members[i].known && persistent_info__includes_guests(&info, i);
	persistent_info__exit(&info);
	return includes;
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
	    asprintf(&text, "Runs as id %d of %s: %s", id,
		     persistent__owner(id, owner, sizeof(owner)), types.buf) < 0)
		text = NULL;
	strbuf_release(&types);
	return text;
}
