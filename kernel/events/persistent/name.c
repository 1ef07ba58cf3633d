// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: names.
 *
 * A name is an object of its own. To rename a session, the new name is created
 * with its file in sysfs, the two are swapped under perf_persistent_mutex, and
 * the old name is removed. Until then nobody else can take it.
 */
#include <linux/hashtable.h>
#include <linux/slab.h>
#include <linux/stringhash.h>

#include "persistent.h"

static DEFINE_HASHTABLE(perf_persistent_names, 10);

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
 * Without CAP_PERFMON, names have a prefix, so that users cannot take the names
 * of other users' sessions or of perf's own events.
 */
static int compose_name(struct perf_persistent_name *name, const char *chosen, kuid_t owner)
{
	char prefix[sizeof("u4294967295-")] = "";
	int len;

	if (!perfmon_capable())
		snprintf(prefix, sizeof(prefix), "u%u-",
			 from_kuid_munged(&init_user_ns, owner));

	if (*chosen)
		len = snprintf(name->text, sizeof(name->text), "%s%s", prefix, chosen);
	else
		len = snprintf(name->text, sizeof(name->text), "%sp%u", prefix, name->id);

	return len >= sizeof(name->text) ? -EINVAL : 0;
}

static int hash_name(struct perf_persistent_name *name)
{
	u32 key = full_name_hash(NULL, name->text, strlen(name->text));
	struct perf_persistent_name *other;

	guard(mutex)(&perf_persistent_mutex);

	hash_for_each_possible(perf_persistent_names, other, entry, key) {
		if (!strcmp(other->text, name->text))
			return -EEXIST;
	}
	hash_add(perf_persistent_names, &name->entry, key);

	return 0;
}

static void unhash_name(struct perf_persistent_name *name)
{
	guard(mutex)(&perf_persistent_mutex);

	hash_del(&name->entry);
}

/*
 * Take a name and create its file in sysfs; @chosen is valid, or empty for the
 * default. Without CAP_PERFMON the name gets a prefix from @owner. Errors: -EEXIST
 * if the name is taken, -EINVAL if it is too long with its prefix, or -ENOMEM.
 */
struct perf_persistent_name *
perf_persistent_name_create(const char *chosen, u32 id, kuid_t owner)
{
	struct perf_persistent_name *name;
	int err;

	name = kzalloc_obj(*name, GFP_KERNEL_ACCOUNT);
	if (!name)
		return ERR_PTR(-ENOMEM);

	name->id = id;
	err = compose_name(name, chosen, owner);
	if (!err)
		err = hash_name(name);
	if (err)
		goto err_free;

	err = perf_persistent_sysfs_add_name(name);
	if (err)
		goto err_unhash;

	return name;

err_unhash:
	unhash_name(name);
err_free:
	kfree(name);
	return ERR_PTR(err);
}

/*
 * Remove a name, which stays taken until its sysfs file is gone; the caller
 * frees it. Waits for readers of sysfs, which take perf_persistent_mutex.
 */
void perf_persistent_name_remove(struct perf_persistent_name *name)
{
	perf_persistent_sysfs_remove_name(name);
	unhash_name(name);
}
