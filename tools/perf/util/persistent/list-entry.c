// SPDX-License-Identifier: GPL-2.0
/*
 * A session of the list: what sysfs tells anybody, and what the kernel tells in one query
 * those who may read it.
 */
#include "cmd-list.h"

#include <errno.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>
#include "info.h"
#include "registry.h"
#include "strbuf.h"

static int list_entry__find_events(struct list_entry *entry, char *types)
{
	struct strbuf events;
	int err;

	strbuf_init(&events, 0);
	err = persistent__parse_types(types, '\n', &events);
	entry->events = err ? NULL : strdup(events.buf);
	strbuf_release(&events);
	return entry->events ? 0 : -ENOMEM;
}

/* Returns 0, or -ENOENT if it has ended. */
static int list_entry__ask(struct list_entry *entry, const char *types)
{
	u32 id = entry->id;

	entry->nr = persistent__instances(id, &entry->query, &entry->instances);
	if (entry->nr > 0) {
		entry->nr = persistent__drop_side_band(types, entry->instances, entry->nr);
		persistent__scnprintf_cpus(entry->cpus, sizeof(entry->cpus), entry->instances,
					   entry->nr);
		scnprintf(entry->name, sizeof(entry->name), "%s", entry->query.name);
		entry->age = entry->query.age;
		entry->left = entry->query.ttl;
		return 0;
	}

	entry->age = persistent__number(id, "age");
	entry->left = persistent__number(id, "time_left");
	return persistent__name(id, entry->name) &&
	       persistent__value(id, "cpus", entry->cpus, sizeof(entry->cpus)) >= 0 ? 0 : -ENOENT;
}

int list_entry__init(struct list_entry *entry, u32 id)
{
	char types[4096];

	*entry = (struct list_entry) { .id = id };
	if (persistent__value(id, "types", types, sizeof(types)) < 0 ||
	    list_entry__ask(entry, types))
		return -ENOENT;

	/* Only what may be such is opened. */
	if (persistent__types_have_cpu_pmu(types))
		entry->includes_guests = persistent__includes_guests(id);
	if (list_entry__find_events(entry, types)) {
		list_entry__exit(entry);
		return -ENOMEM;
	}
	persistent__owner(id, entry->owner, sizeof(entry->owner));
	entry->bytes = persistent__number(id, "buffer_bytes");
	entry->lost = persistent__number(id, "lost");
	return 0;
}

void list_entry__exit(struct list_entry *entry)
{
	zfree(&entry->events);
	zfree(&entry->instances);
}
