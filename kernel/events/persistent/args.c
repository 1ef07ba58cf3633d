// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: arguments of the ioctls.
 *
 * Arguments are copied in before any lock is taken, and results copied out after
 * the last one is dropped.
 */
#include <linux/ioctl.h>

#include "persistent.h"

/*
 * Copy an extensible struct from user space. Its size is in @cmd; @min is the
 * size of its first version. Returns 0, -EFAULT, -EINVAL if it is too small, or
 * -E2BIG if bits are set that this kernel does not know.
 */
int perf_persistent_copy_struct(void *dst, size_t size, size_t min,
				unsigned int cmd, unsigned long arg)
{
	if (_IOC_SIZE(cmd) < min)
		return -EINVAL;

	return copy_struct_from_user(dst, size, (void __user *)arg, _IOC_SIZE(cmd));
}

/*
 * Copy a string of less than @max bytes; address 0 gives an empty one. Returns
 * 0, -EFAULT, or -EINVAL if the string is too long.
 */
int perf_persistent_copy_string(char *dst, long max, u64 addr)
{
	long len;

	*dst = '\0';
	if (!addr)
		return 0;

	len = strncpy_from_user(dst, u64_to_user_ptr(addr), max);
	if (len < 0)
		return len;

	return len == max ? -EINVAL : 0;
}

/*
 * Users may choose [a-z][a-z0-9_-]*, which is a valid name for an event in sysfs, except for
 * default names, p[0-9]+, and names with the prefix of a user, u[0-9]+-.
 */
bool perf_persistent_name_valid(const char *name)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyz";
	static const char rest[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
	size_t digits;

	if (!strspn(name, first) || name[strspn(name, rest)])
		return false;

	digits = strspn(name + 1, "0123456789");

	return !digits || !((name[0] == 'p' && !name[1 + digits]) ||
			    (name[0] == 'u' && name[1 + digits] == '-'));
}

/* Copy a name, which may be empty: 0, -EFAULT, or -EINVAL if it is not valid. */
int perf_persistent_copy_name(char *name, u64 addr)
{
	int err = perf_persistent_copy_string(name, PERF_PERSISTENT_NAME_MAX, addr);

	if (err)
		return err;

	return !*name || perf_persistent_name_valid(name) ? 0 : -EINVAL;
}
