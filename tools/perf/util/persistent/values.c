// SPDX-License-Identifier: GPL-2.0
/*
 * Settings of a session, as the user types them: a time (90s, 15m, 2h, 1d, or seconds
 * without a suffix), a size (64K, 2M), a number, a mode, an owner, a group.
 */
#include "registry.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/time64.h>
#include <api/fs/fs.h>
#include <subcmd/parse-options.h>
#include "cap.h"
#include "debug.h"

struct value_unit {
	char	suffix;
	u64	factor;
};

/* @units: the last one has no suffix; its factor is 0 if a suffix is required */
static u64 parse_scaled(const char *str, const struct value_unit *units, u64 max)
{
	char *end;
	u64 n;

	/* strtoull() accepts blanks and a sign. */
	if (!isdigit(str[0]))
		return 0;
	errno = 0;
	n = strtoull(str, &end, 10);
	while (units->suffix && units->suffix != *end)
		units++;
	if (errno || !units->factor || *end != units->suffix || (*end && end[1]))
		return 0;
	return n > max / units->factor ? 0 : n * units->factor;
}

/* Returns ns, or 0 if invalid. */
u64 persistent__parse_time(const char *str)
{
	static const struct value_unit units[] = {
		{ 's', NSEC_PER_SEC }, { 'm', 60 * NSEC_PER_SEC }, { 'h', 3600 * NSEC_PER_SEC },
		{ 'd', 86400 * NSEC_PER_SEC }, { '\0', NSEC_PER_SEC },
	};

	/* The kernel's clock has 63 bits, half of which are in use. */
	return parse_scaled(str, units, INT64_MAX / 2);
}

/* Returns bytes, or 0 if invalid. */
u64 persistent__parse_bytes(const char *str)
{
	static const struct value_unit units[] = {
		{ 'B', 1 }, { 'K', 1 << 10 }, { 'M', 1 << 20 }, { 'G', 1 << 30 }, { '\0', 0 },
	};

	return parse_scaled(str, units, INT64_MAX);
}

/* Returns a number of at most 63 bits, or 0 if invalid. */
u64 persistent__parse_count(const char *str)
{
	static const struct value_unit units[] = { { '\0', 1 } };

	return parse_scaled(str, units, INT64_MAX);
}

static int option__parse(const struct option *opt, const char *str, int unset, const char *what,
			 u64 (*parse)(const char *str), const char *how)
{
	u64 *value = opt->value;

	*value = unset ? 0 : parse(str);
	if (unset || *value)
		return 0;
	pr_err("invalid %s '%s' for --%s: use %s\n", what, str, opt->long_name, how);
	return -EINVAL;
}

/* Option callbacks that store a u64, which is 0 if the option is not given */
int persistent_option__time(const struct option *opt, const char *str, int unset)
{
	return option__parse(opt, str, unset, "time", persistent__parse_time,
			     "a number with s, m, h or d, e.g. 30s");
}

int persistent_option__size(const struct option *opt, const char *str, int unset)
{
	return option__parse(opt, str, unset, "size", persistent__parse_bytes,
			     "a number with B, K, M or G, e.g. 10M");
}

int persistent_option__count(const struct option *opt, const char *str, int unset)
{
	return option__parse(opt, str, unset, "number", persistent__parse_count, "1 or more");
}

bool persistent__parse_number(const char *str, int base, u32 max, u32 *nr)
{
	unsigned long long val;
	char *end;

	if (!isdigit(str[0]))
		return false;

	errno = 0;
	val = strtoull(str, &end, base);
	*nr = val;
	return !*end && !errno && val <= max;
}

/* CAP_SYS_ADMIN includes CAP_PERFMON. */
bool persistent__capable(void)
{
	return perf_cap__capable(CAP_PERFMON) || perf_cap__capable(CAP_SYS_ADMIN);
}

/* The maximum time to live for this user, in ns */
u64 persistent__max_ttl(void)
{
	unsigned long long secs;

	if (persistent__capable() ||
	    filename__read_ull("/proc/sys/kernel/perf_event_persistent_max_ttl", &secs))
		return UINT64_MAX;
	return secs * NSEC_PER_SEC;
}

static const char *parse_ttl(struct perf_persistent_set *set, const char *str)
{
	static char limit[96];
	u64 max = persistent__max_ttl();

	set->ttl = 0;
	/* Do not silently limit a session that was asked for without a limit. */
	if (!strcmp(str, "none"))
		return persistent__capable() ? NULL : "needs CAP_PERFMON";

	set->ttl = persistent__parse_time(str);
	if (!set->ttl)
		return "invalid ttl: use e.g. 90s, 15m, 2h";
	scnprintf(limit, sizeof(limit),
		  "without CAP_PERFMON at most %llus (kernel.perf_event_persistent_max_ttl)",
		  (unsigned long long)(max / NSEC_PER_SEC));
	return set->ttl > max ? limit : NULL;
}

static const char *parse_mode(struct perf_persistent_set *set, const char *str)
{
	u32 mode;

	if (!persistent__parse_number(str, 8, 0777, &mode))
		return "invalid mode: use an octal number up to 0777, e.g. 0640";
	set->mode = mode;
	return NULL;
}

/*
 * Try a name first, which may consist of digits. The greatest number is invalid, as for
 * chown(2).
 */
static const char *parse_owner(struct perf_persistent_set *set, const char *str)
{
	struct passwd *user = getpwnam(str);

	if (user)
		set->uid = user->pw_uid;
	else if (!persistent__parse_number(str, 10, UINT_MAX - 1, &set->uid))
		return "unknown user";
	return NULL;
}

static const char *parse_group(struct perf_persistent_set *set, const char *str)
{
	struct group *group = getgrnam(str);

	if (group)
		set->gid = group->gr_gid;
	else if (!persistent__parse_number(str, 10, UINT_MAX - 1, &set->gid))
		return "unknown group";
	return NULL;
}

static const struct {
	const char	*name;
	u32		flag;
	const char	*(*parse)(struct perf_persistent_set *set, const char *str);
} settings[] = {
	{ "ttl",   PERF_PERSISTENT_SET_TTL,  parse_ttl },
	{ "mode",  PERF_PERSISTENT_SET_MODE, parse_mode },
	{ "owner", PERF_PERSISTENT_SET_UID,  parse_owner },
	{ "group", PERF_PERSISTENT_SET_GID,  parse_group },
};

/* Returns NULL, or what is wrong with the value; "" if there is no such setting. */
const char *persistent__parse_setting(struct perf_persistent_set *set, const char *name,
				      const char *str)
{
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		if (strcmp(settings[i].name, name))
			continue;
		set->flags |= settings[i].flag;
		return settings[i].parse(set, str);
	}
	return "";
}

/* Have parse_options() set @given, which has room for all, for the options that it finds. */
void persistent__note_options(struct option *options, bool *given)
{
	for (; options->type != OPTION_END; options++, given++)
		options->set = options->set ?: given;
}

static bool has_name(const char * const *names, const char *name)
{
	while (*names && strcmp(*names, name))
		names++;
	return *names;
}

/*
 * Refuse options that are not in @names if @allowed, or those that are if not. An option
 * is named -x, or --long if it has no letter. Returns 0, or a negative error after
 * printing a message.
 */
int persistent__check_options(const struct option *options, const char * const *names,
			      bool allowed, const char *with)
{
	char name[64];

	for (; options->type != OPTION_END; options++) {
		if (!*options->set)
			continue;
		if (options->short_name)
			scnprintf(name, sizeof(name), "-%c", options->short_name);
		else
			scnprintf(name, sizeof(name), "--%s", options->long_name);
		if (has_name(names, name) == allowed)
			continue;
		if (options->type == OPTION_BOOLEAN && !*(bool *)options->value) {
			bool no = !strncmp(options->long_name, "no-", 3);

			scnprintf(name, sizeof(name), "--%s%s", no ? "" : "no-",
				  options->long_name + (no ? 3 : 0));
		}
		pr_err("%s is not supported with %s\n", name, with);
		return -EINVAL;
	}
	return 0;
}
