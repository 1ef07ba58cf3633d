// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: perf_event_open() of an event in the registry.
 */
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/security.h>

#include "persistent.h"

/*
 * Find the task that is asked for, and return a reference, or NULL for none. Whether a task is
 * measured is not told to callers who may not access it, unless the session is delegated to them.
 */
static struct task_struct *find_target(const struct perf_persistent_session *session, pid_t pid)
{
	if (pid <= 0)
		return pid ? NULL : get_task_struct(current);

	struct task_struct *task __free(put_task) = find_get_task_by_vpid(pid);
	if (!task)
		return ERR_PTR(-ESRCH);
	if (perfmon_capable() || perf_persistent_is_delegated(session) ||
	    ptrace_may_access(task, PTRACE_MODE_READ_REALCREDS))
		return no_free_ptr(task);

	return ERR_PTR(-EACCES);
}

/* Get the event of an instance: by number, of member 0 for @task and @cpu, or of the only one */
static struct perf_event *get_event(struct perf_persistent_session *session, u64 config,
				    struct task_struct *task, int cpu)
{
	const struct perf_persistent_key key = { .task = task, .cpu = cpu };
	u32 nr = config >> PERF_PERSISTENT_INSTANCE_SHIFT;
	struct perf_persistent_instance *inst;

	guard(mutex)(&perf_persistent_mutex);

	if (!nr && !task && cpu == -1 && session->nr_instances > 1)
		return ERR_PTR(-EINVAL);

	if (task || cpu != -1) {
		inst = perf_persistent_instance_lookup(session, &key);
	} else {
		inst = perf_persistent_instance_from(session, nr ? nr - 1 : 0);
		if (inst && nr && inst->nr != nr - 1)
			inst = NULL;
	}
	if (!inst)
		return ERR_PTR(-ENOENT);

	atomic_long_inc(&inst->event->refcount);

	return inst->event;
}

/* Get the event of the only cgroup that is measured on a CPU; -EINVAL if there are several. */
static struct perf_event *get_cgroup_event(struct perf_persistent_session *session, int cpu)
{
	struct perf_event *event, *found = NULL;
	bool several = false;

	for_each_persistent_event(event, session, 1, !several) {
		if (!perf_persistent_cgroup(event) || event->persistent->cpu != cpu)
			continue;
		several = found;
		if (!several) {
			atomic_long_inc(&event->refcount);
			found = event;
		}
	}
	if (!several)
		return found ?: ERR_PTR(-ENOENT);

	put_event(found);

	return ERR_PTR(-EINVAL);
}

/*
 * Ignore fields that programs set although they mean nothing to a view: it has
 * no children, excludes nothing by itself, and takes no samples.
 */
static void tolerate(struct perf_event_attr *attr)
{
	attr->exclude_guest = 0;
	attr->inherit = 0;
	if (attr->sample_type == PERF_SAMPLE_IDENTIFIER && !attr->sample_period)
		attr->sample_type = 0;
	/* perf_copy_attr() sets it. */
	if (attr->sample_max_stack == sysctl_perf_event_max_stack)
		attr->sample_max_stack = 0;
}

#define ATTR_WORD(field)	(offsetof(struct perf_event_attr, field) / sizeof(u64))

static bool is_0_or(u32 asked, u32 has)
{
	return !asked || asked == has;
}

/*
 * Fields that are not the view's own must be 0 or as QUERY returns them: a view changes neither
 * what is counted nor the layout of records.
 */
static int check_attr(const struct perf_event_attr *attr, struct perf_event *event)
{
	struct perf_event_attr asked = *attr, has = event->persistent->attr;
	const u64 *a = (const u64 *)&asked, *h = (const u64 *)&has;
	/* In the word with the single bits, each bit may be 0. */
	const u32 bits = ATTR_WORD(read_format) + 1;
	/* These have two fields that an event in the registry can have. */
	const u32 pairs = BIT(ATTR_WORD(wakeup_events)) | BIT(ATTR_WORD(sample_stack_user)) |
			  BIT(ATTR_WORD(aux_watermark));

	BUILD_BUG_ON(sizeof(asked) % sizeof(u64));

	if ((attr->read_format & PERF_FORMAT_GROUP) && !READ_ONCE(event->nr_siblings))
		return -EINVAL;

	perf_persistent_scrub_attr(&has, event->tp_event);
	tolerate(&asked);
	asked.type = has.type;
	asked.size = has.size;
	asked.config = has.config;
	asked.read_format = has.read_format;
	asked.disabled = has.disabled;

	for (u32 i = 0; i < sizeof(asked) / sizeof(u64); i++) {
		if (!a[i] || a[i] == h[i] || (i == bits && !(a[i] & ~h[i])))
			continue;
		if (!(pairs & BIT(i)) || !is_0_or(lower_32_bits(a[i]), lower_32_bits(h[i])) ||
		    !is_0_or(upper_32_bits(a[i]), upper_32_bits(h[i])))
			return -EOPNOTSUPP;
	}

	return 0;
}

/* Take the reference to the event first: the permission check may sleep for long. */
static int open_instance(struct perf_persistent_session *session,
			 const struct perf_event_attr *attr, pid_t pid, int cpu, int f_flags)
{
	struct task_struct *task;
	struct perf_event *event;
	int fd, all = 1;
	u32 nr_joined;

	/* Do not tell callers without the right which instances exist. */
	if (!perf_persistent_mode_allows(session, PERF_PERSISTENT_READ))
		return -EACCES;

	task = find_target(session, pid);
	if (IS_ERR(task))
		return PTR_ERR(task);

	event = get_event(session, attr->config, task, cpu);
	if (task)
		put_task_struct(task);
	if (event == ERR_PTR(-ENOENT) && pid == -1 && cpu != -1)
		event = get_cgroup_event(session, cpu);
	if (IS_ERR(event))
		return PTR_ERR(event);

	/* If others join meanwhile, the rights to them may not have been checked. */
	nr_joined = READ_ONCE(session->next_instance);
	fd = perf_persistent_may_read(session, event, &all) ?: security_perf_event_read(event) ?:
	     check_attr(attr, event) ?:
	     perf_persistent_view_open(session, event, attr, nr_joined, f_flags);
	if (fd < 0)
		put_event(event);

	return fd;
}

static int open_session(struct perf_persistent_session *session,
			const struct perf_event_attr *attr, pid_t pid, int cpu, int f_flags)
{
	const struct perf_event_attr all = {
		.type			= attr->type,
		.size			= attr->size,
		.config			= attr->config,
		/* perf_copy_attr() sets it. */
		.sample_max_stack	= attr->sample_max_stack,
	};

	if (pid != -1 || cpu != -1 || memcmp(attr, &all, sizeof(all)))
		return -EINVAL;
	if (!perf_persistent_may_open_session(session))
		return -EACCES;

	return perf_persistent_view_open(session, NULL, attr, 0, f_flags);
}

/**
 * perf_persistent_reopen - perf_event_open() of an event in the registry
 * @attr:     type PERF_TYPE_PERSISTENT; config has the id, and the instance or
 *	      PERF_PERSISTENT_SESSION
 * @pid:      as for perf_event_open(2)
 * @cpu:      as for perf_event_open(2)
 * @group_fd: -1
 * @flags:    PERF_FLAG_FD_CLOEXEC or 0
 *
 * Context: may sleep; takes perf_persistent_mutex.
 * Return: a new file descriptor, or
 * * -ENOENT: no such session or instance
 * * -ESRCH: no such task
 * * -EACCES: no permission; or as perf_persistent_may_read()
 * * -EINVAL: unknown flag or read format, a group, several instances to choose from, or more
 *   than the id for a session
 * * -EOPNOTSUPP: the event was opened with another attr
 * * -EMFILE, -ENFILE, -ENOMEM
 */
int perf_persistent_reopen(struct perf_event_attr *attr, pid_t pid, int cpu,
			   int group_fd, unsigned long flags)
{
	const u64 instance = attr->config >> PERF_PERSISTENT_INSTANCE_SHIFT;
	int f_flags = O_RDWR;

	if ((flags & ~PERF_FLAG_FD_CLOEXEC) || group_fd != -1 || pid < -1 || cpu < -1 ||
	    (instance && (pid != -1 || cpu != -1 || attr->config & PERF_PERSISTENT_SESSION)))
		return -EINVAL;

	if (flags & PERF_FLAG_FD_CLOEXEC)
		f_flags |= O_CLOEXEC;

	struct perf_persistent_session *session __free(perf_persistent_session) =
		perf_persistent_session_get((u32)(attr->config & ~PERF_PERSISTENT_SESSION));
	if (!session)
		return -ENOENT;

	return attr->config & PERF_PERSISTENT_SESSION ?
	       open_session(session, attr, pid, cpu, f_flags) :
	       open_instance(session, attr, pid, cpu, f_flags);
}
