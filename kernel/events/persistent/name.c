// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: names. The files in events/ keep them unique.
 */
#include "persistent.h"

/*
 * Users may choose [a-z][a-z0-9_-]*, which is a valid name for an event in
 * sysfs, except for p[0-9]+, which are default names.
 */
bool perf_persistent_name_valid(const char *name)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyz";
	static const char digits[] = "0123456789";
	static const char rest[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";

	if (!strspn(name, first) || name[strspn(name, rest)])
		return false;

	return name[0] != 'p' || !name[1] || name[1 + strspn(name + 1, digits)];
}

/*
 * Compose the name that a user gets who has chosen @chosen, which is valid, or empty for the
 * default. Without CAP_PERFMON, names have a prefix, so that users cannot take the names of
 * other users' sessions or of perf's own events. Returns 0, or -EINVAL if it is too long.
 */
int perf_persistent_name_compose(char *name, const char *chosen, u32 id, kuid_t owner)
{
	char prefix[sizeof("u4294967295-")] = "";
	int len;

	if (!perfmon_capable())
		snprintf(prefix, sizeof(prefix), "u%u-", from_kuid_munged(&init_user_ns, owner));

	if (*chosen)
		len = snprintf(name, PERF_PERSISTENT_NAME_MAX, "%s%s", prefix, chosen);
	else
		len = snprintf(name, PERF_PERSISTENT_NAME_MAX, "%sp%u", prefix, id);

	return len >= PERF_PERSISTENT_NAME_MAX ? -EINVAL : 0;
}
