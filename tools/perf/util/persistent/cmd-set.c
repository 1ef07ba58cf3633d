// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent set and mark: change the name, time to live, owner, group and mode of a
 * session, and the filters and sampling of its events; write a text into the buffers.
 */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <api/fs/fs.h>
#include <subcmd/parse-options.h>
#include "debug.h"
#include "info.h"
#include "registry.h"
#include "start.h"

/*
 * The request, and the new name and settings of events as they were typed; NULL or 0 if not
 * given. @text is the complete new filter.
 */
struct persistent_change {
	struct perf_persistent_set set;
	const char	*name;
	const char	*event;
	const char	*filter;
	const char	*add_filter;
	bool		drop_filter;
	u64		period;
	u64		freq;
	char		*text;
};

/* Returns 0, or a negative error after printing a message. */
static int persistent_change__parse(struct persistent_change *change)
{
	int nr_filters = !!change->filter + !!change->add_filter + change->drop_filter;
	struct perf_persistent_set *set = &change->set;

	set->period = change->period ?: change->freq;
	if (nr_filters)
		set->flags |= PERF_PERSISTENT_SET_FILTER;
	if (set->period)
		set->flags |= PERF_PERSISTENT_SET_PERIOD;
	if (change->name)
		set->flags |= PERF_PERSISTENT_SET_NAME;
	set->name = (u64)(unsigned long)change->name;

	if (nr_filters > 1)
		pr_err("cannot use more than one of --filter, --add-filter and --drop-filter\n");
	else if (change->period && change->freq)
		pr_err("cannot use --period with --freq\n");
	else if (change->event && !nr_filters && !set->period)
		pr_err("--event %s: use it with --filter, --add-filter, --drop-filter, --period or --freq\n",
		       change->event);
	else if (!*(change->filter ?: change->add_filter ?: "text"))
		pr_err("the filter is empty: use --drop-filter to remove one\n");
	else
		return change->name ? persistent_spec__check_name("--name ", change->name) : 0;
	return -EINVAL;
}

static bool change__is_for(const struct persistent_change *change, struct persistent_info *info,
			   u32 nr)
{
	return info->members[nr].known && (!change->set.member || change->set.member == nr + 1);
}

static bool member__is_tracepoint(struct persistent_info *info, u32 nr)
{
	return info->members[nr].attr.type == PERF_TYPE_TRACEPOINT;
}

/*
 * Readers would not know of the change without PERF_SAMPLE_PERIOD, and with it, tracepoints,
 * breakpoints and software events other than clocks are sampled at each occurrence, whatever
 * their period.
 */
static bool member__can_change_period(struct persistent_info *info, u32 nr)
{
	struct perf_event_attr *attr = &info->members[nr].attr;

	if (attr->freq || !(attr->sample_type & PERF_SAMPLE_PERIOD))
		return attr->freq;
	return attr->type != PERF_TYPE_TRACEPOINT && attr->type != PERF_TYPE_BREAKPOINT &&
	       (attr->type != PERF_TYPE_SOFTWARE || attr->config == PERF_COUNT_SW_CPU_CLOCK ||
		attr->config == PERF_COUNT_SW_TASK_CLOCK);
}

/* The kernel takes the number as a frequency or a period, as the event was opened. */
static int change__check_period(const struct persistent_change *change,
				struct persistent_info *info)
{
	bool found = false;

	for (u32 i = 0; i < info->nr_members; i++) {
		struct perf_event_attr *attr = &info->members[i].attr;

		if (!change__is_for(change, info, i) || !attr->sample_period ||
		    persistent_info__is_side_band(info, i))
			continue;
		if (!member__can_change_period(info, i)) {
			/* It makes no difference. */
			if (attr->sample_type & PERF_SAMPLE_PERIOD)
				continue;
			pr_err("the period of '%s' cannot be changed%s\n", info->members[i].label,
			       change->event ? "" : ": choose another event with --event");
			return -EINVAL;
		}
		found = true;
		if (attr->freq == !!change->freq)
			continue;
		pr_err("'%s' was started with a %s: use --%s%s\n", info->members[i].label,
		       attr->freq ? "frequency" : "period", attr->freq ? "freq" : "period",
		       change->event ? "" : ", or choose another event with --event");
		return -EINVAL;
	}
	if (found)
		return 0;
	if (change->event)
		pr_err("the period of '%s' cannot be changed\n", change->event);
	else
		pr_err("session '%s' has no event with a period or frequency that can be changed\n",
		       info->name);
	return -EINVAL;
}

static int change__check_filter(const struct persistent_change *change,
				struct persistent_info *info)
{
	for (u32 i = 0; i < info->nr_members; i++) {
		if (change__is_for(change, info, i) && member__is_tracepoint(info, i))
			return 0;
	}
	if (change->event)
		pr_err("'%s' is not a tracepoint: only tracepoints take filters\n", change->event);
	else
		pr_err("session '%s' has no tracepoint: only tracepoints take filters\n",
		       info->name);
	return -EINVAL;
}

/* Find the common filter of all chosen events. A truncated one is not the same filter. */
static int change__find_filter(const struct persistent_change *change,
			       struct persistent_info *info, char *old)
{
	struct persistent_answer answer;
	bool found = false;
	int err;

	for (int i = 0; i < info->nr; i++) {
		u32 member = info->instances[i].member;

		if (!change__is_for(change, info, member) || !member__is_tracepoint(info, member))
			continue;
		err = persistent__ask(info->id, info->instances[i].instance, &answer);
		if (err == -ENOENT)
			continue;
		if (!err && answer.query.filter_size > sizeof(answer.filter))
			err = -E2BIG;
		if (err)
			return persistent__error("read the filter of", info->id, info->name, 'r',
						 err);
		if (found && strcmp(old, answer.filter)) {
			pr_err("--add-filter: the current filters differ: \"%s\" and \"%s\"; %s\n",
			       persistent__printable(old), persistent__printable(answer.filter),
			       change->event ? "use --filter" : "choose one event with --event");
			return -EINVAL;
		}
		strlcpy(old, answer.filter, sizeof(answer.filter));
		found = true;
	}
	return 0;
}

static int change__add_filter(struct persistent_change *change, struct persistent_info *info)
{
	char old[PERSISTENT_FILTER_MAX] = "";
	int err = change__find_filter(change, info, old);

	if (!err && asprintf(&change->text, old[0] ? "(%s) && (%s)" : "%s%s", old,
			     change->add_filter) < 0) {
		change->text = NULL;
		pr_err("Not enough memory\n");
		err = -ENOMEM;
	}
	return err;
}

static int change__fill(struct persistent_change *change, struct persistent_info *info)
{
	struct perf_persistent_set *set = &change->set;
	int member, err = 0;

	if (change->event) {
		member = persistent_info__find_member(info, change->event);
		if (member < 0)
			return member;
		set->member = member + 1;
	}
	if (set->flags & PERF_PERSISTENT_SET_PERIOD)
		err = change__check_period(change, info);
	if (err || !(set->flags & PERF_PERSISTENT_SET_FILTER))
		return err;

	err = change__check_filter(change, info);
	if (!err && change->add_filter)
		err = change__add_filter(change, info);
	set->filter = (u64)(unsigned long)(change->text ?: change->filter ?: "");
	return err;
}

/*
 * Fill in the request. A period, a frequency or an added filter requires reading the
 * session. Returns 0, or a negative error after printing a message.
 */
static int persistent_change__apply(struct persistent_change *change, u32 id)
{
	bool reads = change->set.flags & PERF_PERSISTENT_SET_PERIOD || change->add_filter;
	struct persistent_info info;
	int err;

	if (!(change->set.flags & (PERF_PERSISTENT_SET_PERIOD | PERF_PERSISTENT_SET_FILTER |
				   PERF_PERSISTENT_SET_TTL)))
		return 0;

	err = reads ? persistent_info__init(&info, id) : persistent_info__init_control(&info, id);
	if (err)
		return persistent__error("change", id, info.name, reads ? 'r' : 'w', err);
	if (change->set.flags & PERF_PERSISTENT_SET_TTL &&
	    info.query.flags & PERF_PERSISTENT_UNCOMMITTED) {
		/* Its perf sets a short one again and again, and at last that of the user. */
		pr_err("--ttl: session '%s' is still being set up\n", info.name);
		err = -EAGAIN;
	}
	err = err ?: change__fill(change, &info);
	persistent_info__exit(&info);
	return err;
}

/* Each setting is named like its option. */
static int set__parse_setting(const struct option *opt, const char *str, int unset)
{
	const char *wrong = unset ? "" : persistent__parse_setting(opt->value, opt->long_name, str);

	if (wrong && !unset)
		pr_err("--%s %s: %s\n", opt->long_name, str, wrong);
	return wrong ? -EINVAL : 0;
}

/* Why the kernel rejects a value that was typed; NULL if unknown */
static const char *change__why_invalid(const struct persistent_change *change, char *buf,
				       size_t size)
{
	const char *filter = change->filter ?: change->add_filter;
	int max_rate = INT_MAX;

	sysctl__read_int("kernel/perf_event_max_sample_rate", &max_rate);
	if (change->freq > (u64)max_rate)
		scnprintf(buf, size,
			  "the frequency is at most %d (kernel.perf_event_max_sample_rate)",
			  max_rate);
	else if (change->set.flags & PERF_PERSISTENT_SET_MARK)
		scnprintf(buf, size,
			  "use 1 to %d bytes of text without tabs, newlines or other control characters",
			  PERF_PERSISTENT_MARK_MAX - 1);
	else if (filter && change->event)
		scnprintf(buf, size, "invalid filter '%s' for '%s'", filter, change->event);
	else if (filter)
		scnprintf(buf, size,
			  "filter '%s' is not valid for its tracepoint, or for all of them; choose one with --event",
			  filter);
	else
		return NULL;
	return buf;
}

static const char *change__strerror(const struct persistent_change *change, u32 id, int err,
				    char *buf, size_t size)
{
	const char *why = err == -EINVAL ? change__why_invalid(change, buf, size) : NULL;
	bool refused = err == -EPERM || err == -EACCES;
	u32 flags = change->set.flags;

	if (why)
		return why;
	if (err == -EEXIST) {
		scnprintf(buf, size, "the name '%s' is taken (see 'perf persistent list')",
			  change->name);
		return buf;
	}
	if (refused && flags & PERF_PERSISTENT_SET_UID)
		return "a new owner needs CAP_PERFMON";
	if (refused && flags & PERF_PERSISTENT_SET_GID)
		return "needs CAP_PERFMON; without it the owner can choose one of their own groups";
	if (refused && flags & PERF_PERSISTENT_SET_MODE)
		return "a new mode needs CAP_PERFMON, or ownership of a session started without it";
	return persistent__strerror(id, 'w', err, buf, size);
}

static int set__run(const char *str, struct persistent_change *change, const char *verb,
		    const char *done)
{
	char name[PERF_PERSISTENT_NAME_MAX], buf[STRERR_BUFSIZE];
	int err, id = persistent__find(str);

	if (id < 0)
		return id;
	err = persistent_change__apply(change, id);
	if (err)
		return err;

	err = persistent__set_session(id, &change->set);
	if (err)
		pr_err("cannot %s session '%s': %s\n", verb, str,
		       change__strerror(change, id, err, buf, sizeof(buf)));
	else
		printf("%s: id %d %s\n", persistent__name(id, name) ?: str, id, done);
	if (!err && change->set.flags & PERF_PERSISTENT_SET_TTL)
		persistent__warn_limited(id, change->set.ttl);
	return err;
}

int persistent_cmd__set(int argc, const char **argv, const char * const usage[])
{
	struct persistent_change change = {};
	const struct option options[] = {
		OPT_STRING(0, "name", &change.name, "name", "new name"),
		OPT_CALLBACK(0, "ttl", &change.set, "time",
			     "time to live from now on, e.g. 90s, 15m, 2h, or none",
			     set__parse_setting),
		OPT_CALLBACK(0, "mode", &change.set, "mode", "access mode in octal, e.g. 0640",
			     set__parse_setting),
		OPT_CALLBACK(0, "owner", &change.set, "user", "new owner", set__parse_setting),
		OPT_CALLBACK(0, "group", &change.set, "group", "new group", set__parse_setting),
		OPT_STRING(0, "event", &change.event, "event",
			   "event whose filter, period or frequency to set, by name or number"),
		OPT_STRING(0, "filter", &change.filter, "filter", "new filter of tracepoints"),
		OPT_STRING(0, "add-filter", &change.add_filter, "filter",
			   "filter to combine with the current one"),
		OPT_BOOLEAN(0, "drop-filter", &change.drop_filter, "remove the filter"),
		OPT_CALLBACK(0, "period", &change.period, "n", "new sampling period",
			     persistent_option__count),
		OPT_CALLBACK(0, "freq", &change.freq, "n", "new sampling frequency",
			     persistent_option__count),
		OPT_END()
	};
	int err;

	argc = parse_options(argc, argv, options, usage, 0);
	if (argc != 1)
		usage_with_options_msg(usage, options, "name one session");

	err = persistent_change__parse(&change);
	if (err)
		return err;
	if (!change.set.flags)
		usage_with_options_msg(usage, options, "nothing to set");
	err = set__run(argv[0], &change, "change", "changed");
	free(change.text);
	return err;
}

int persistent_cmd__mark(int argc, const char **argv, const char * const usage[])
{
	struct persistent_change change = { .set.flags = PERF_PERSISTENT_SET_MARK };
	const struct option options[] = {
		OPT_END()
	};

	argc = parse_options(argc, argv, options, usage, 0);
	if (argc != 2)
		usage_with_options_msg(usage, options,
				       "name one session, and quote a text with spaces");

	change.set.mark = (u64)(unsigned long)argv[1];
	return set__run(argv[0], &change, "mark", "marked");
}
