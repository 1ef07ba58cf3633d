// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: the system calls.
 *
 * Arguments are copied in before perf_persistent_mutex is taken, and results
 * copied out after it is dropped.
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/security.h>
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

/*
 * An empty string is as good as none.
 */
static int perf_persistent_copy_string(char *dst, long max, u64 addr)
{
	long len;

	if (!addr)
		return 0;

	len = strncpy_from_user(dst, u64_to_user_ptr(addr), max);
	if (len < 0)
		return len;

	return len == max ? -EINVAL : 0;
}

static int perf_persistent_copy_name(char *name, u64 addr)
{
	int err = perf_persistent_copy_string(name, PERF_PERSISTENT_NAME_MAX, addr);

	if (err)
		return err;

	return !*name || perf_persistent_name_valid(name) ? 0 : -EINVAL;
}

static int perf_detach_copy(struct perf_detach *d, unsigned long arg)
{
	struct perf_event_detach u = {};
	int err;

	*d = (struct perf_detach){};
	if (!arg)
		return perf_persistent_check_ttl(&d->ttl);

	err = perf_persistent_copy_arg(&u, sizeof(u), PERF_EVENT_DETACH_SIZE_VER0, arg);
	if (err)
		return err;

	if ((u.flags & ~(PERF_DETACH_UNCOMMITTED | PERF_DETACH_EVERY_CPU)) || u.__reserved)
		return -EINVAL;
	if (u.flags & PERF_DETACH_EVERY_CPU)
		return -EOPNOTSUPP;

	/* Name, time and state belong to the id, which is there already */
	if (u.id && (u.name || u.ttl || u.flags))
		return -EINVAL;
	if (u.member >= PERF_PERSISTENT_MEMBERS)
		return -EINVAL;

	d->flags = u.flags;
	d->id = u.id;
	d->member = u.member;
	d->nr_pages = u.buffer_pages;
	d->ttl = u.ttl;

	err = perf_persistent_copy_name(d->name, u.name);
	if (!err)
		err = perf_persistent_copy_string(d->label, sizeof(d->label), u.label);
	if (!err)
		err = perf_persistent_check_ttl(&d->ttl);

	return err;
}

static int perf_detach_check(struct perf_event *event)
{
	if (READ_ONCE(event->persistent))
		return -EEXIST;

	if (event->attr.sigtrap)
		return -EINVAL;

	/* Not yet: tasks and cgroups. Never: AUX, whose buffer has no end of its own. */
	if ((event->attach_state & PERF_ATTACH_TASK) || event->cpu < 0)
		return -EOPNOTSUPP;
#ifdef CONFIG_CGROUP_PERF
	if (event->cgrp)
		return -EOPNOTSUPP;
#endif
	if (event->pmu->setup_aux || event->attr.aux_output || event->attr.aux_sample_size)
		return -EOPNOTSUPP;

	return perf_event_may_reopen(event);
}

/*
 * A group that loses its leader falls apart.
 */
static bool perf_event_has_persistent_leader(struct perf_event *event)
{
	struct perf_event_context *ctx;
	bool ret;

	ctx = perf_event_ctx_lock(event);
	ret = event->group_leader == event || event->group_leader->persistent;
	perf_event_ctx_unlock(event, ctx);

	return ret;
}

static int perf_detach_locked(struct perf_persistent *pp, struct perf_instance *inst,
			      const struct perf_detach *d)
{
	struct perf_event *event = inst->event;
	int err;

	guard(mutex)(&perf_persistent_mutex);

	if (event->persistent)
		return -EEXIST;
	if (event->expired)
		return -ENODEV;

	if (!perf_event_has_persistent_leader(event))
		return -EINVAL;

	if (!pp) {
		pp = perf_persistent_find(d->id);
		if (!pp)
			return -ENOENT;

		err = perf_persistent_allow(pp, event);
		if (err)
			return err;

		if (perf_instance_find(pp, d->member, inst->cpu))
			return -EEXIST;
	}

	err = perf_instance_insert(pp, inst, d);

	return err ?: pp->id;
}

/**
 * perf_persistent_detach - put an event into the registry
 * @event: event that the caller has open
 * @arg:   address of a struct perf_event_detach, or 0
 *
 * Context: may sleep; takes perf_persistent_mutex.
 * Return: the id, or one of the errors in
 * Documentation/userspace-api/perf_persistent.rst.
 */
int perf_persistent_detach(struct perf_event *event, unsigned long arg)
{
	struct perf_persistent *pp = NULL;
	struct perf_instance *inst;
	struct perf_detach d;
	int ret;

	build_check_abi();

	ret = perf_detach_copy(&d, arg);
	if (ret)
		return ret;

	ret = perf_detach_check(event);
	if (ret)
		return ret;

	inst = perf_instance_create(event);
	if (IS_ERR(inst))
		return PTR_ERR(inst);

	if (!d.id) {
		pp = perf_persistent_create(&d);
		if (IS_ERR(pp)) {
			perf_instance_free(inst);
			return PTR_ERR(pp);
		}
	}

	ret = perf_detach_locked(pp, inst, &d);
	if (ret < 0) {
		if (pp)
			perf_persistent_destroy(pp);
		perf_instance_free(inst);
	}

	return ret;
}

static bool perf_event_has_persistent_sibling(struct perf_event *event)
{
	struct perf_event_context *ctx;
	struct perf_event *sibling;
	bool ret = false;

	ctx = perf_event_ctx_lock(event);
	for_each_sibling_event(sibling, event)
		ret |= !!sibling->persistent;
	perf_event_ctx_unlock(event, ctx);

	return ret;
}

static int perf_attach_locked(struct perf_event *event, struct list_head *dead)
{
	struct perf_instance *inst;
	int err;

	guard(mutex)(&perf_persistent_mutex);

	inst = event->persistent;
	if (!inst)
		return -EINVAL;

	err = perf_persistent_allow(inst->pp, event);
	if (err)
		return err;

	if (perf_event_has_persistent_sibling(event))
		return -EBUSY;

	perf_instance_unlink(inst, dead);
	perf_event_set_owner(event);

	return 0;
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

	err = perf_attach_locked(event, &dead);
	if (err)
		return err;

	perf_instance_finish(list_first_entry(&dead, struct perf_instance, dead));

	return 0;
}

static int perf_set_locked(struct perf_event *event, const struct perf_persistent_set *set)
{
	struct perf_instance *inst;
	struct perf_persistent *pp;
	int err;

	guard(mutex)(&perf_persistent_mutex);

	inst = event->persistent;
	if (!inst)
		return -EINVAL;

	pp = inst->pp;
	err = perf_persistent_allow(pp, event);
	if (err)
		return err;

	if (set->flags & PERF_PERSISTENT_SET_COMMITTED)
		pp->flags &= ~PERF_PERSISTENT_UNCOMMITTED;

	if (set->flags & PERF_PERSISTENT_SET_TTL)
		perf_persistent_arm(pp, set->ttl);

	return 0;
}

static int perf_persistent_set(struct perf_event *event, unsigned long arg)
{
	struct perf_persistent_set set = {};
	int err;

	err = perf_persistent_copy_arg(&set, sizeof(set), PERF_PERSISTENT_SET_SIZE_VER0, arg);
	if (err)
		return err;

	if (set.flags & ~(PERF_PERSISTENT_SET_NAME | PERF_PERSISTENT_SET_TTL |
			  PERF_PERSISTENT_SET_COMMITTED))
		return -EINVAL;
	/* Not yet */
	if (set.flags & PERF_PERSISTENT_SET_NAME)
		return -EOPNOTSUPP;

	err = perf_persistent_check_ttl(&set.ttl);
	if (err)
		return err;

	return perf_set_locked(event, &set);
}

/**
 * perf_persistent_ioctl - the ioctls of the registry
 * @event: event that the caller has open
 * @cmd:   as for ioctl(2)
 * @arg:   as for ioctl(2)
 *
 * Context: may sleep; takes perf_persistent_mutex, so no lock of @event is held.
 * Return: as for ioctl(2), or -ENOIOCTLCMD for all others.
 */
long perf_persistent_ioctl(struct perf_event *event, unsigned int cmd, unsigned long arg)
{
	switch (cmd) {
	case PERF_EVENT_IOC_DETACH:
		return perf_persistent_detach(event, arg);
	case PERF_EVENT_IOC_ATTACH:
		return perf_persistent_attach(event, arg);
	case PERF_EVENT_IOC_QUERY_PERSISTENT:
		return perf_persistent_query(event, arg);
	case PERF_EVENT_IOC_SET_PERSISTENT:
		return perf_persistent_set(event, arg);
	case PERF_EVENT_IOC_SUSPEND:
		return -EOPNOTSUPP;
	default:
		return -ENOIOCTLCMD;
	}
}

/* Reopening */

static struct perf_instance *perf_reopen_find(u64 config, pid_t pid, int cpu)
{
	u32 nr = config >> PERF_PERSISTENT_INSTANCE_SHIFT;
	struct perf_instance *inst;
	struct perf_persistent *pp;

	if (pid < -1 || cpu < -1)
		return ERR_PTR(-EINVAL);

	pp = perf_persistent_find((u32)config);
	if (!pp)
		return ERR_PTR(-ENOENT);

	if (nr) {
		if (pid != -1 || cpu != -1)
			return ERR_PTR(-EINVAL);
		inst = xa_load(&pp->instances, nr - 1);
	} else if (pid != -1) {
		/* There are none with a target, not yet. */
		inst = NULL;
	} else if (cpu != -1) {
		inst = perf_instance_find(pp, 0, cpu);
	} else {
		unsigned long first = 0;

		if (pp->nr_instances != 1)
			return ERR_PTR(-EINVAL);
		inst = xa_find(&pp->instances, &first, ULONG_MAX, XA_PRESENT);
	}

	return inst ?: ERR_PTR(-ENOENT);
}

static struct perf_event *perf_reopen_get(u64 config, pid_t pid, int cpu)
{
	struct perf_instance *inst;
	int err;

	guard(mutex)(&perf_persistent_mutex);

	inst = perf_reopen_find(config, pid, cpu);
	if (IS_ERR(inst))
		return ERR_CAST(inst);

	err = perf_persistent_allow(inst->pp, inst->event);
	if (!err)
		err = security_perf_event_read(inst->event);
	if (err)
		return ERR_PTR(err);

	refcount_inc(&inst->event->users);

	return inst->event;
}

/*
 * Nothing but the id: a reader gets the layout that the event has, and must not
 * believe that it chose another.
 */
static bool perf_reopen_attr_valid(const struct perf_event_attr *attr)
{
	struct perf_event_attr only = {
		.type		= attr->type,
		.size		= attr->size,
		.config		= attr->config,
		/* perf_copy_attr() sets it */
		.sample_max_stack = sysctl_perf_event_max_stack,
	};

	return !memcmp(&only, attr, sizeof(only));
}

/**
 * perf_persistent_reopen - perf_event_open() of an event in the registry
 * @attr:     type PERF_TYPE_PERSISTENT, id and instance in config
 * @pid:      as for perf_event_open(2)
 * @cpu:      as for perf_event_open(2)
 * @group_fd: -1
 * @flags:    PERF_FLAG_FD_CLOEXEC or 0
 *
 * Context: may sleep; takes perf_persistent_mutex.
 * Return: a new file descriptor, or
 * * -ENOENT: no such id or instance
 * * -EACCES: not entitled
 * * -EINVAL: unknown flag, a group, a choice that is none
 * * -EOPNOTSUPP: any other attribute is set
 * * -EMFILE, -ENFILE, -ENOMEM
 */
int perf_persistent_reopen(struct perf_event_attr *attr, pid_t pid, int cpu,
			   int group_fd, unsigned long flags)
{
	struct perf_event *event;
	int f_flags = O_RDWR;
	struct file *file;
	int fd;

	if ((flags & ~PERF_FLAG_FD_CLOEXEC) || group_fd != -1)
		return -EINVAL;

	if (!perf_reopen_attr_valid(attr))
		return -EOPNOTSUPP;

	if (flags & PERF_FLAG_FD_CLOEXEC)
		f_flags |= O_CLOEXEC;

	fd = get_unused_fd_flags(f_flags);
	if (fd < 0)
		return fd;

	event = perf_reopen_get(attr->config, pid, cpu);
	if (IS_ERR(event)) {
		put_unused_fd(fd);
		return PTR_ERR(event);
	}

	file = anon_inode_getfile("[perf_event]", &perf_fops, event, f_flags);
	if (IS_ERR(file)) {
		if (perf_event_put_user(event))
			perf_event_release_kernel(event);
		put_unused_fd(fd);
		return PTR_ERR(file);
	}
	fd_install(fd, file);

	return fd;
}
