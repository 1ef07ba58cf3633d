// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: the ioctls.
 *
 * Arguments are copied in before perf_persistent_mutex is taken, and results
 * copied out after it is dropped.
 */
#include <linux/fs.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"
#include "persistent.h"

/* The structs as they were first published, without holes */
static void build_check_abi(void)
{
	BUILD_BUG_ON(sizeof(struct perf_event_detach) != PERF_EVENT_DETACH_SIZE_VER0);
	BUILD_BUG_ON(sizeof(struct perf_persistent_query) != PERF_PERSISTENT_QUERY_SIZE_VER0);
	BUILD_BUG_ON(sizeof(struct perf_persistent_set) != PERF_PERSISTENT_SET_SIZE_VER0);
	BUILD_BUG_ON(sizeof(struct perf_persistent_instance) != 40);
	BUILD_BUG_ON(offsetof(struct perf_persistent_query, name) != 176);
}

/**
 * perf_persistent_copy_arg - copy an extensible struct from user space
 * @dst:  struct that starts with its size, zeroed where the user's ends
 * @size: size of @dst
 * @min:  size of the first published version
 * @arg:  address
 *
 * Return: 0, -EFAULT, -EINVAL if it is too small, -E2BIG if it has bits set
 * that this kernel does not know.
 */
int perf_persistent_copy_arg(void *dst, size_t size, size_t min, unsigned long arg)
{
	void __user *uarg = (void __user *)arg;
	u32 usize;
	int err;

	if (get_user(usize, (u32 __user *)uarg))
		return -EFAULT;
	if (usize < min)
		return -EINVAL;
	if (usize > PAGE_SIZE)
		return -E2BIG;

	err = copy_struct_from_user(dst, size, uarg, usize);
	if (err)
		return err;

	/* Fetched twice, but checked only once */
	*(u32 *)dst = usize;

	return 0;
}

/**
 * perf_persistent_copy_string - copy a string from user space
 * @dst:  buffer of @max bytes
 * @max:  room, with the final NUL
 * @addr: address, or 0 for an empty string
 *
 * Return: 0, -EFAULT, -EINVAL if it is too long
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

/**
 * perf_persistent_copy_name - copy a name from user space
 * @name: buffer of PERF_PERSISTENT_NAME_MAX bytes
 * @addr: address, or 0 for none, which an empty one is as well
 *
 * Return: 0, -EFAULT, -EINVAL for what cannot be a name
 */
int perf_persistent_copy_name(char *name, u64 addr)
{
	int err = perf_persistent_copy_string(name, PERF_PERSISTENT_NAME_MAX, addr);

	if (err)
		return err;

	return !*name || perf_persistent_name_valid(name) ? 0 : -EINVAL;
}

static bool perf_event_has_persistent_sibling(struct perf_event *event)
{
	struct perf_event_context *ctx;
	struct perf_event *sibling;
	bool ret = false;

	/* Persistent ones do not come while the registry's mutex is held. */
	if (!READ_ONCE(event->nr_siblings))
		return false;

	ctx = perf_event_ctx_lock(event);
	for_each_sibling_event(sibling, event)
		ret |= !!sibling->persistent;
	perf_event_ctx_unlock(event, ctx);

	return ret;
}

static int perf_attach_locked(struct perf_event *event, struct list_head *dead)
{
	struct perf_instance *inst;

	guard(mutex)(&perf_persistent_mutex);

	inst = event->persistent;
	if (!inst)
		return -EINVAL;

	if (!perf_persistent_is_owned(inst->pp))
		return -EACCES;

	if (perf_event_has_persistent_sibling(event))
		return -EBUSY;

	perf_instance_unlink(inst, dead);
	perf_event_set_owner(event);

	return 0;
}

/* What is wrong with an ordinary event is not that the caller lacks the rights to it. */
static int perf_persistent_may_change(struct perf_event *event)
{
	if (!READ_ONCE(event->persistent))
		return -EINVAL;

	return perf_event_may_reopen(event);
}

/*
 * Out of the registry again: the event ends when its last user closes it, and
 * belongs to the current task until then.
 */
static int perf_persistent_attach(struct perf_event *event, unsigned long arg)
{
	LIST_HEAD(dead);
	int err;

	if (arg)
		return -EINVAL;

	err = perf_persistent_may_change(event);
	if (!err)
		err = perf_attach_locked(event, &dead);
	if (err)
		return err;

	perf_instance_finish(list_first_entry(&dead, struct perf_instance, dead));

	return 0;
}

/*
 * The id that an event is in, for the caller to change it.
 */
static struct perf_persistent *perf_persistent_get(struct perf_event *event)
{
	struct perf_instance *inst;

	guard(mutex)(&perf_persistent_mutex);

	inst = event->persistent;
	if (!inst)
		return ERR_PTR(-EINVAL);
	if (!perf_persistent_is_owned(inst->pp))
		return ERR_PTR(-EACCES);

	kobject_get(&inst->pp->kobj);

	return inst->pp;
}

/* All at once; @name is exchanged for the one that there was. */
static int perf_set_apply(struct perf_persistent *pp, const struct perf_persistent_set *set,
			  struct perf_persistent_name **name)
{
	guard(mutex)(&perf_persistent_mutex);

	if (!pp->nr_instances)
		return -EINVAL;

	if (set->flags & PERF_PERSISTENT_SET_NAME)
		swap(pp->name, *name);

	if (set->flags & PERF_PERSISTENT_SET_COMMITTED)
		pp->flags &= ~PERF_PERSISTENT_UNCOMMITTED;

	if (set->flags & PERF_PERSISTENT_SET_TTL)
		perf_persistent_arm(pp, set->ttl);

	return 0;
}

static int perf_set_id(struct perf_persistent *pp, const struct perf_persistent_set *set,
		       const char *chosen)
{
	struct perf_persistent_name *name = NULL;
	int err;

	if (set->flags & PERF_PERSISTENT_SET_NAME) {
		name = perf_persistent_name_create(chosen, pp->id, pp->owner);
		if (IS_ERR(name))
			return PTR_ERR(name);
	}

	err = perf_set_apply(pp, set, &name);
	if (name) {
		perf_persistent_name_give_up(name);
		kfree(name);
	}

	return err;
}

static int perf_persistent_set(struct perf_event *event, unsigned long arg)
{
	char chosen[PERF_PERSISTENT_NAME_MAX] = "";
	struct perf_persistent_set set = {};
	struct perf_persistent *pp;
	int err;

	err = perf_persistent_copy_arg(&set, sizeof(set), PERF_PERSISTENT_SET_SIZE_VER0, arg);
	if (err)
		return err;

	if (set.flags & ~(PERF_PERSISTENT_SET_NAME | PERF_PERSISTENT_SET_TTL |
			  PERF_PERSISTENT_SET_COMMITTED))
		return -EINVAL;

	if (set.flags & PERF_PERSISTENT_SET_NAME)
		err = perf_persistent_copy_name(chosen, set.name);
	if (!err && (set.flags & PERF_PERSISTENT_SET_TTL))
		err = perf_persistent_check_ttl(&set.ttl);
	if (!err)
		err = perf_persistent_may_change(event);
	if (err)
		return err;

	pp = perf_persistent_get(event);
	if (IS_ERR(pp))
		return PTR_ERR(pp);

	err = perf_set_id(pp, &set, chosen);
	kobject_put(&pp->kobj);

	return err;
}

static int perf_persistent_suspend(struct file *file, unsigned long arg)
{
	struct perf_event *event = file->private_data;
	struct perf_persistent *pp;
	int err;

	if (arg)
		return -EINVAL;

	err = perf_persistent_may_change(event);
	if (err)
		return err;

	pp = perf_persistent_get(event);
	if (IS_ERR(pp))
		return PTR_ERR(pp);

	err = perf_reader_suspend(file);
	kobject_put(&pp->kobj);

	return err;
}

/**
 * perf_persistent_ioctl - the ioctls of the registry
 * @file: an open perf event
 * @cmd:  as for ioctl(2)
 * @arg:  as for ioctl(2)
 *
 * Context: may sleep; takes perf_persistent_mutex, so no lock of the event is held.
 * Return: as for ioctl(2), or -ENOIOCTLCMD for all others.
 */
long perf_persistent_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct perf_event *event = file->private_data;

	build_check_abi();

	switch (cmd) {
	case PERF_EVENT_IOC_DETACH:
		return perf_persistent_detach(file, arg);
	case PERF_EVENT_IOC_ATTACH:
		return perf_persistent_attach(event, arg);
	case PERF_EVENT_IOC_QUERY_PERSISTENT:
		return perf_persistent_query(event, arg);
	case PERF_EVENT_IOC_SET_PERSISTENT:
		return perf_persistent_set(event, arg);
	case PERF_EVENT_IOC_SUSPEND:
		return perf_persistent_suspend(file, arg);
	default:
		return -ENOIOCTLCMD;
	}
}
