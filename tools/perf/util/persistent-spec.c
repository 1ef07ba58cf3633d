// SPDX-License-Identifier: GPL-2.0
/*
 * What stands after --persistent=: the name of a recording, whether it ends
 * when it is full, and how long it is to live.
 */
#include "persistent-spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/capability.h>
#include <linux/list.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <linux/zalloc.h>
#include "cap.h"
#include "debug.h"
#include "evlist.h"
#include "parse-events.h"
#include "persistent.h"
#include "pmu.h"
#include "pmus.h"

/*
 * A name that means something already would never be found again between the
 * slashes of persistent/NAME/, or be taken for an event by whoever reads it.
 */
static bool persistent__is_word(const char *name)
{
	struct perf_pmu *pmu = perf_pmus__find(PERSISTENT_PMU);
	struct parse_events_terms terms;
	struct parse_events_error err;
	struct parse_events_term *term;
	struct evlist *evlist;
	bool word = perf_pmus__find(name) || (pmu && perf_pmu__has_format(pmu, name));

	parse_events_terms__init(&terms);
	if (parse_events_terms(&terms, name))
		word = true;
	list_for_each_entry(term, &terms.terms, list)
		word |= term->type_term != PARSE_EVENTS__TERM_TYPE_USER;
	parse_events_terms__exit(&terms);
	if (word)
		return true;

	evlist = evlist__new();
	if (!evlist)
		return true;
	parse_events_error__init(&err);
	word = !parse_events(evlist, name, &err);
	parse_events_error__exit(&err);
	evlist__put(evlist);
	return word;
}

/* The kernel gives such a name to what has none. */
static bool persistent__is_default_name(const char *name)
{
	return name[0] == 'p' && name[1] && !name[1 + strspn(name + 1, "0123456789")];
}

static bool persistent_spec__has_no_room(const char *name)
{
	return !perf_cap__capable(CAP_PERFMON) &&
	       snprintf(NULL, 0, "u%u-%s", geteuid(), name) >= PERF_PERSISTENT_NAME_MAX;
}

static int persistent_spec__check_name(const char *name)
{
	const char *why = NULL;

	if (!persistent__valid_name(name)) {
		pr_err("--persistent=%s: a name is a lower case letter, then letters, digits, '_', '-', at most %d\n",
		       name, PERF_PERSISTENT_NAME_MAX - 1);
		return -EINVAL;
	}

	if (persistent_spec__has_no_room(name))
		why = "is too long with the prefix u<uid>- that it gets without CAP_PERFMON";
	else if (persistent__is_default_name(name))
		why = "is what the kernel calls a recording without a name";
	else if (persistent__is_word(name))
		why = "is a word for events already";
	if (!why)
		return 0;

	pr_err("--persistent=%s: '%s' %s, choose another name\n", name, name, why);
	return -EINVAL;
}

/* Returns ns, or 0 for what is no time. */
static u64 parse_time(const char *str)
{
	static const struct {
		char	suffix;
		u64	secs;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 60 * 60 }, { 'd', 24 * 60 * 60 } };
	u64 n, secs = 1;
	char *end;

	errno = 0;
	n = strtoull(str, &end, 10);
	if (!isdigit(str[0]) || errno)
		return 0;

	for (size_t i = 0; *end && i < ARRAY_SIZE(units); i++) {
		if (units[i].suffix == end[0] && !end[1]) {
			secs = units[i].secs;
			end++;
		}
	}
	/* The kernel's clock has 63 bits, half of which are in use. */
	return *end || n > (u64)INT64_MAX / 2 / NSEC_PER_SEC / secs ? 0 : n * secs * NSEC_PER_SEC;
}

static int persistent_spec__parse_one(struct persistent_spec *spec, const char *text,
				      const char *word)
{
	if (!strcmp(word, "full")) {
		spec->until_full = true;
		return 0;
	}

	if (!strstarts(word, "ttl=")) {
		pr_err("--persistent=%s: '%s' is unknown, only 'full' and 'ttl=<n>[s|m|h|d]' can follow the name\n",
		       text, word);
		return -EINVAL;
	}

	spec->ttl = parse_time(word + strlen("ttl="));
	if (!spec->ttl) {
		pr_err("--persistent=%s: '%s' is no time to live, write a number from 1 and s, m, h or d\n",
		       text, word);
		return -EINVAL;
	}
	return 0;
}

int persistent_spec__parse(struct persistent_spec *spec, const char *text)
{
	char *word, *next;
	int err = 0;

	*spec = (struct persistent_spec) {};
	if (!text)
		return 0;

	spec->name = strdup(text);
	if (!spec->name)
		return -ENOMEM;

	next = spec->name;
	strsep(&next, ",");
	while (!err && (word = strsep(&next, ",")))
		err = persistent_spec__parse_one(spec, text, word);

	if (!spec->name[0])
		zfree(&spec->name);
	return err ?: spec->name ? persistent_spec__check_name(spec->name) : 0;
}

void persistent_spec__exit(struct persistent_spec *spec)
{
	zfree(&spec->name);
}
