// SPDX-License-Identifier: GPL-2.0
/*
 * Parse the argument of --persistent=: the name of a session, its policy for full buffers,
 * the size of its side-band buffers, its time to live, and its mode, group and owner.
 */
#include "start.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include <linux/zalloc.h>
#include "debug.h"
#include "evlist.h"
#include "parse-events.h"
#include "pmu.h"
#include "pmus.h"
#include "registry.h"

/* Like -m, but stricter, and a size is required. */
static const char *persistent_spec__parse_side_band(struct persistent_spec *spec, const char *str)
{
	long pages = 0;

	if (persistent__parse_count(str) || persistent__parse_bytes(str))
		pages = parse_pages_arg(str, 0, UINT_MAX);
	spec->side_band_pages = max(pages, 0L);
	return pages > 0 ? NULL : "invalid size: use a number of pages, or e.g. 64K, 2M";
}

/* Returns NULL, or what is wrong with the value; "" if there is no such option. */
static const char *persistent_spec__parse_option(struct persistent_spec *spec, const char *word,
						 const char *value)
{
	if (!strcmp(word, "discard")) {
		spec->discard = true;
		return value ? "takes no value" : NULL;
	}
	if (!strcmp(word, "sideband"))
		return persistent_spec__parse_side_band(spec, value ?: "");
	return persistent__parse_setting(&spec->set, word, value ?: "");
}

static bool is_option(const char *word)
{
	struct persistent_spec unused = {};
	char name[sizeof("sideband") + 1];
	const char *wrong;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	wrong = persistent_spec__parse_option(&unused, name, NULL);
	return !wrong || *wrong;
}

/*
 * A session named like a term could not be found as persistent/NAME/. Names of events,
 * even "r1" and "cycles", are fine: there they mean the session.
 */
static bool persistent__is_term(const char *name)
{
	struct perf_pmu *pmu = perf_pmus__find(PERSISTENT_PMU);
	bool is_term = pmu && perf_pmu__has_format(pmu, name);
	struct parse_events_terms terms;
	struct parse_events_term *term;

	parse_events_terms__init(&terms);
	if (parse_events_terms(&terms, name))
		is_term = true;
	list_for_each_entry(term, &terms.terms, list)
		is_term |= term->type_term != PARSE_EVENTS__TERM_TYPE_USER &&
			   term->type_term != PARSE_EVENTS__TERM_TYPE_RAW;
	parse_events_terms__exit(&terms);
	return is_term;
}

/* @option: the option that gave the name, for messages */
int persistent_spec__check_name(const char *option, const char *name)
{
	const char *word = name + strspn(name, "="), *why = NULL;
	size_t digits;

	/* An option was given in place of the name. */
	if (is_option(word) && strstarts(option, "--persistent")) {
		const char *value = strcmp(word, "discard") && !strchr(word, '=') ? "=VALUE" : "";

		pr_err("%s%s: '%s' is an option, not a name: use --persistent=NAME,%s%s, or --persistent=,%s%s without a name\n",
		       option, name, word, word, value, word, value);
		return -EINVAL;
	}

	if (!persistent__valid_name(name)) {
		pr_err("%s%s: a name is a lower-case letter, then lower-case letters, digits, '_' or '-', at most %d characters\n",
		       option, name, PERF_PERSISTENT_NAME_MAX - 1);
		return -EINVAL;
	}

	digits = strspn(name + 1, "0123456789");
	if (!persistent__capable() &&
	    snprintf(NULL, 0, "u%u-%s", geteuid(), name) >= PERF_PERSISTENT_NAME_MAX)
		why = "is too long with the prefix u<uid>- that it gets without CAP_PERFMON";
	else if (name[0] == 'p' && digits && !name[1 + digits])
		why = "is reserved for sessions without a name";
	else if (name[0] == 'u' && digits && name[1 + digits] == '-')
		why = "has the prefix of a user's session";
	else if (is_option(name))
		why = "is an option of --persistent=";
	else if (persistent__is_term(name))
		why = "is an event term, as in persistent/id=1/";
	if (!why)
		return 0;

	pr_err("%s%s: '%s' %s, choose another name\n", option, name, name, why);
	return -EINVAL;
}

static int persistent_spec__parse_one(struct persistent_spec *spec, const char *text, char *word)
{
	char *value = word;
	const char *wrong;

	strsep(&value, "=");
	wrong = persistent_spec__parse_option(spec, word, value);
	if (!wrong)
		return 0;
	pr_err("--persistent=%s: '%s%s%s': %s\n", text, word, value ? "=" : "", value ?: "",
	       *wrong ? wrong :
	       "unknown option; ttl=N[s|m|h|d], mode=MODE, group=GROUP, owner=USER and, for perf record, discard and sideband=SIZE can follow the name");
	return -EINVAL;
}

/* As for files. The kernel would report it only at the end of the set-up. */
static int persistent_spec__check_rights(struct persistent_spec *spec, const char *text)
{
	const char *what = NULL;

	if (spec->set.flags & PERF_PERSISTENT_SET_UID)
		what = "owner= needs CAP_PERFMON";
	else if (spec->set.flags & PERF_PERSISTENT_SET_GID && spec->set.gid != getegid() &&
		 !group_member(spec->set.gid))
		what = "group= needs CAP_PERFMON, or a group that you belong to";
	if (!what || persistent__capable())
		return 0;
	pr_err("--persistent=%s: %s\n", text, what);
	return -EPERM;
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
	if (!err && spec->name)
		err = persistent_spec__check_name("--persistent=", spec->name);
	return err ?: persistent_spec__check_rights(spec, text);
}
