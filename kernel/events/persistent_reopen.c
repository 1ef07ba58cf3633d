// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: perf_event_open() of what is in the registry.
 *
 * Each reopening makes a struct file of its own on the same perf_event.
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/sched.h>
#include <linux/security.h>
#include <linux/string.h>

#include "internal.h"
#include "persistent.h"

/*
 * The instance of member 0 for a task or none, and a CPU or none.
 */
static struct perf_instance *
perf_reopen_choose(struct perf_persistent *pp, struct task_struct *task, int cpu)
{
	struct perf_instance *inst, *found = NULL;

	perf_instance_for_each(inst, pp) {
		if (inst->member->nr || inst->task != task || inst->cpu != cpu)
			continue;
		/* Several cgroups on a CPU */
		if (found)
			return ERR_PTR(-EINVAL);
		found = inst;
	}

	return found ?: ERR_PTR(-ENOENT);
}

static struct perf_instance *
perf_reopen_choose_pid(struct perf_persistent *pp, pid_t pid, int cpu)
{
	struct task_struct *task;

	/* No more than a number to compare with: instances have their own references. */
	rcu_read_lock();
	task = pid ? find_task_by_vpid(pid) : current;
	rcu_read_unlock();

	return task ? perf_reopen_choose(pp, task, cpu) : ERR_PTR(-ESRCH);
}

static struct perf_instance *perf_reopen_find(u64 config, pid_t pid, int cpu)
{
	u32 nr = config >> PERF_PERSISTENT_INSTANCE_SHIFT;
	struct perf_persistent *pp;

	if (pid < -1 || cpu < -1 || (nr && (pid != -1 || cpu != -1)))
		return ERR_PTR(-EINVAL);

	pp = perf_persistent_find((u32)config);
	if (!pp)
		return ERR_PTR(-ENOENT);
	if (!perf_persistent_is_owned(pp))
		return ERR_PTR(-EACCES);

	if (nr)
		return perf_instance_find(pp, nr - 1) ?: ERR_PTR(-ENOENT);
	if (pid != -1)
		return perf_reopen_choose_pid(pp, pid, cpu);
	if (cpu != -1)
		return perf_reopen_choose(pp, NULL, cpu);

	return pp->nr_instances == 1 ? perf_instance_first(pp) : ERR_PTR(-EINVAL);
}

static struct perf_event *perf_reopen_get(u64 config, pid_t pid, int cpu)
{
	struct perf_instance *inst;

	guard(mutex)(&perf_persistent_mutex);

	inst = perf_reopen_find(config, pid, cpu);
	if (IS_ERR(inst))
		return ERR_CAST(inst);

	refcount_inc(&inst->event->users);

	return inst->event;
}

/*
 * The user comes first, because asking for the rights may sleep for long.
 */
static struct perf_event *perf_reopen_event(u64 config, pid_t pid, int cpu)
{
	struct perf_event *event = perf_reopen_get(config, pid, cpu);
	int err;

	if (IS_ERR(event))
		return event;

	err = perf_event_may_reopen(event);
	if (!err)
		err = security_perf_event_read(event);
	if (!err)
		return event;

	perf_event_put_user(event);

	return ERR_PTR(err);
}

static struct file *perf_reopen_file(struct perf_event *event, int f_flags)
{
	struct file *file;

	file = anon_inode_getfile("[perf_event]", &perf_fops, event, f_flags);
	if (IS_ERR(file))
		perf_event_put_user(event);

	return file;
}

/*
 * Nothing but the id: a reader gets the layout that the event has, and must not
 * believe that it chose another.
 */
static bool perf_reopen_attr_valid(struct perf_event_attr *attr)
{
	/* perf_copy_attr() sets it */
	if (attr->sample_max_stack == sysctl_perf_event_max_stack)
		attr->sample_max_stack = 0;

	return !memchr_inv(&attr->sample_period, 0,
			   sizeof(*attr) - offsetof(struct perf_event_attr, sample_period));
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
 * * -ESRCH: no such task
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

	event = perf_reopen_event(attr->config, pid, cpu);
	file = IS_ERR(event) ? ERR_CAST(event) : perf_reopen_file(event, f_flags);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		return PTR_ERR(file);
	}
	fd_install(fd, file);

	return fd;
}
