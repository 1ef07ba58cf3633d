// SPDX-License-Identifier: GPL-2.0
/*
 * Change the filter, period or frequency of the events of a running session.
 * The kernel changes all of them or none.
 */
#include "change.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/zalloc.h>
#include <api/fs/fs.h>
#include <internal/lib.h>
#include "debug.h"
#include "info.h"
#include "registry.h"
#include "values.h"

static bool member__is_called(struct persistent_info *info, u32 nr, const char *event)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", nr);
	return info->members[nr].known &&
	       (!strcmp(info->members[nr].label, event) || !strcmp(number, event));
}

/*
 * Returns the number of the member that is called so or has that number, as 'perf
 * persistent list -v' shows it; or, having said what is wrong, a negative error.
 */
int persistent_info__find_member(struct persistent_info *info, const char *event)
{
	int found = -ENOENT;

	for (u32 i = 0; i < info->nr_members; i++) {
		if (!member__is_called(info, i, event))
			continue;
		if (found >= 0) {
			pr_err("'%s' matches several events of session '%s': use the number of one (see 'perf persistent list -v %s')\n",
			       event, info->name, info->name);
			return -EINVAL;
		}
		found = i;
	}
	if (found < 0)
		pr_err("session '%s' has no event '%s' (see 'perf persistent list -v %s')\n",
		       info->name, event, info->name);
	return found;
}

static int change__check_options(const struct persistent_change *change)
{
	bool filter = change->filter || change->add_filter || change->drop_filter;

	if (!!change->filter + !!change->add_filter + change->drop_filter > 1) {
		pr_err("cannot use more than one of --filter, --add-filter and --drop-filter\n");
		return -EINVAL;
	}
	if (change->period && change->freq) {
		pr_err("cannot use --period with --freq\n");
		return -EINVAL;
	}
	if (change->event && !filter && !change->period && !change->freq) {
		pr_err("--event %s: use it with --filter, --add-filter, --drop-filter, --period or --freq\n",
		       change->event);
		return -EINVAL;
	}
	if (!*(change->filter ?: change->add_filter ?: "text")) {
		pr_err("the filter is empty: use --drop-filter to remove one\n");
		return -EINVAL;
	}
	return 0;
}

/* Returns 0 or, having said what is wrong with what was typed, a negative error. */
int persistent_change__parse(struct persistent_change *change, struct perf_persistent_set *set)
{
	const char *value = change->period ?: change->freq;
	int err = change__check_options(change);

	if (err)
		return err;
	if (change->filter || change->add_filter || change->drop_filter)
		set->flags |= PERF_PERSISTENT_SET_FILTER;
	if (!value)
		return 0;

	set->flags |= PERF_PERSISTENT_SET_PERIOD;
	set->period = persistent__parse_count(value);
	if (set->period)
		return 0;
	pr_err("invalid %s '%s': use a number from 1\n", change->period ? "period" : "frequency",
	       value);
	return -EINVAL;
}

static bool member__is_chosen(struct persistent_info *info, u32 nr,
			      const struct perf_persistent_set *set)
{
	return info->members[nr].known && (!set->member || set->member == nr + 1);
}

static bool member__is_tracepoint(struct persistent_info *info, u32 nr)
{
	return info->members[nr].attr.type == PERF_TYPE_TRACEPOINT;
}

/*
 * With PERF_SAMPLE_PERIOD, which perf sets in all sessions that it starts,
 * tracepoints and software events but the clocks are sampled each time that
 * they happen, whatever their period.
 */
static bool member__samples_each(struct persistent_info *info, u32 nr)
{
	struct perf_event_attr *attr = &info->members[nr].attr;

	if (attr->freq || !(attr->sample_type & PERF_SAMPLE_PERIOD))
		return false;
	return attr->type == PERF_TYPE_TRACEPOINT ||
	       (attr->type == PERF_TYPE_SOFTWARE && attr->config != PERF_COUNT_SW_CPU_CLOCK &&
		attr->config != PERF_COUNT_SW_TASK_CLOCK);
}

/* For the kernel a number is a frequency or a period, as the event was opened. */
static int change__check_period(const struct persistent_change *change,
				struct persistent_info *info,
				const struct perf_persistent_set *set)
{
	bool found = false;

	for (u32 i = 0; i < info->nr_members; i++) {
		struct perf_event_attr *attr = &info->members[i].attr;

		if (!member__is_chosen(info, i, set) || !attr->sample_period ||
		    persistent_info__is_side_band(info, i) || member__samples_each(info, i))
			continue;
		found = true;
		if (attr->freq == !!change->freq)
			continue;
		pr_err("'%s' was started with a %s: use --%s%s\n", info->members[i].label,
		       attr->freq ? "frequency" : "period", attr->freq ? "freq" : "period",
		       set->member ? "" : ", or choose another event with --event");
		return -EINVAL;
	}
	if (found)
		return 0;
	if (change->event)
		pr_err("'%s' does not sample by a period or frequency\n", change->event);
	else
		pr_err("no event of session '%s' samples by a period or frequency\n", info->name);
	return -EINVAL;
}

static int change__check_filter(const struct persistent_change *change,
				struct persistent_info *info,
				const struct perf_persistent_set *set)
{
	for (u32 i = 0; i < info->nr_members; i++) {
		if (member__is_chosen(info, i, set) && member__is_tracepoint(info, i))
			return 0;
	}
	if (change->event)
		pr_err("'%s' is not a tracepoint: only tracepoints take filters\n", change->event);
	else
		pr_err("session '%s' has no tracepoint: only tracepoints take filters\n",
		       info->name);
	return -EINVAL;
}

/* -ENOENT if the instance has gone meanwhile */
static int change__ask_filter(u32 id, u32 instance, char *buf, size_t size)
{
	struct perf_persistent_query query = {
		.filter	     = (u64)(unsigned long)buf,
		.filter_size = size,
	};
	int err, fd = persistent__open(id, instance);

	if (fd < 0)
		return fd;
	buf[0] = '\0';
	err = persistent__query_opened(fd, &query);
	close(fd);
	return !err && query.filter_size > size ? -E2BIG : err;
}

/* The filter that all have which are chosen */
static int change__find_filter(struct persistent_info *info,
			       const struct perf_persistent_set *set, char *old, char *buf)
{
	bool found = false;
	int err;

	for (int i = 0; i < info->nr; i++) {
		u32 member = info->instances[i].member;

		if (!member__is_chosen(info, member, set) || !member__is_tracepoint(info, member))
			continue;
		err = change__ask_filter(info->id, info->instances[i].instance, buf, page_size);
		if (err == -ENOENT)
			continue;
		if (err) {
			pr_err("cannot read the filter of session '%s': %s\n", info->name,
			       persistent__strerror(info->id, err, buf, page_size));
			return err;
		}
		if (found && strcmp(old, buf)) {
			pr_err("--add-filter: there are different filters, \"%s\" and \"%s\"; %s\n",
			       persistent__printable(old), persistent__printable(buf),
			       set->member ? "use --filter" : "choose one event with --event");
			return -EINVAL;
		}
		strlcpy(old, buf, page_size);
		found = true;
	}
	return 0;
}

static int change__add_filter(struct persistent_change *change, struct persistent_info *info,
			      const struct perf_persistent_set *set)
{
	char *old = zalloc(page_size), *buf = zalloc(page_size);
	int err = old && buf ? change__find_filter(info, set, old, buf) : -ENOMEM;

	if (!err && asprintf(&change->text, old[0] ? "(%s) && (%s)" : "%s%s", old,
			     change->add_filter) < 0) {
		change->text = NULL;
		err = -ENOMEM;
	}
	if (err == -ENOMEM)
		pr_err("Not enough memory\n");
	free(old);
	free(buf);
	return err;
}

static int change__fill(struct persistent_change *change, struct persistent_info *info,
			struct perf_persistent_set *set)
{
	int member, err = 0;

	if (change->event) {
		member = persistent_info__find_member(info, change->event);
		if (member < 0)
			return member;
		set->member = member + 1;
	}
	if (set->flags & PERF_PERSISTENT_SET_PERIOD)
		err = change__check_period(change, info, set);
	if (err || !(set->flags & PERF_PERSISTENT_SET_FILTER))
		return err;

	err = change__check_filter(change, info, set);
	if (!err && change->add_filter)
		err = change__add_filter(change, info, set);
	set->filter = (u64)(unsigned long)(change->text ?: change->filter ?: "");
	return err;
}

/*
 * Find out what the kernel is to be told. Returns 0 or, having said what is wrong, a
 * negative error. What becomes of a number or an added filter takes reading.
 */
int persistent_change__apply(struct persistent_change *change, u32 id,
			     struct perf_persistent_set *set)
{
	bool reads = set->flags & PERF_PERSISTENT_SET_PERIOD || change->add_filter;
	struct persistent_info info;
	char buf[STRERR_BUFSIZE];
	int err;

	if (!(set->flags & (PERF_PERSISTENT_SET_PERIOD | PERF_PERSISTENT_SET_FILTER)))
		return 0;

	err = reads ? persistent_info__init(&info, id) : persistent_info__init_control(&info, id);
	if (err) {
		pr_err("cannot change session '%s': %s\n", info.name,
		       persistent__strerror_right(id, reads ? 'r' : 'w', err, buf, sizeof(buf)));
		return err;
	}
	err = change__fill(change, &info, set);
	persistent_info__exit(&info);
	return err;
}

void persistent_change__exit(struct persistent_change *change)
{
	zfree(&change->text);
}

/* Why the kernel takes no filter or frequency that was typed; NULL if it is neither */
const char *persistent_change__why_invalid(const struct persistent_change *change, char *buf,
					   size_t size)
{
	const char *filter = change->filter ?: change->add_filter;
	int most;

	if (change->freq && !sysctl__read_int("kernel/perf_event_max_sample_rate", &most) &&
	    persistent__parse_count(change->freq) > (u64)most) {
		scnprintf(buf, size,
			  "the frequency is at most %d (kernel.perf_event_max_sample_rate)", most);
		return buf;
	}
	if (!filter)
		return NULL;
	if (change->event)
		scnprintf(buf, size, "invalid filter '%s' for '%s'", filter, change->event);
	else
		scnprintf(buf, size,
			  "filter '%s' is not valid for all of its tracepoints; choose one with --event",
			  filter);
	return buf;
}
