// SPDX-License-Identifier: GPL-2.0
/*
 * What can be set of a session, as the user types it: a time (90s, 15m, 2h, 1d, or
 * seconds without a suffix), a mode, an owner, a group.
 */
#include "values.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <linux/kernel.h>
#include <linux/time64.h>

/* Returns ns, or 0 for what is no time. */
u64 persistent__parse_time(const char *str)
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

/* Returns a number of 63 bits, or 0 for what is none. */
u64 persistent__parse_count(const char *str)
{
	u64 n;
	char *end;

	errno = 0;
	n = strtoull(str, &end, 10);
	return !isdigit(str[0]) || *end || errno || n > INT64_MAX ? 0 : n;
}

static bool parse_number(const char *str, int base, u32 max, u32 *nr)
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

bool persistent__parse_mode(const char *str, u32 *mode)
{
	return parse_number(str, 8, 0777, mode);
}

/*
 * A name goes first: nothing keeps one from being made of digits. The greatest
 * number is none, for the kernel as for chown(2).
 */
bool persistent__parse_owner(const char *str, u32 *uid)
{
	struct passwd *user = getpwnam(str);

	if (!user)
		return parse_number(str, 10, UINT_MAX - 1, uid);
	*uid = user->pw_uid;
	return true;
}

bool persistent__parse_group(const char *str, u32 *gid)
{
	struct group *group = getgrnam(str);

	if (!group)
		return parse_number(str, 10, UINT_MAX - 1, gid);
	*gid = group->gr_gid;
	return true;
}
