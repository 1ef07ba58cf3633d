// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: the registry in sysfs.
 *
 *  /sys/bus/event_source/devices/persistent/
 *    type				attr.type of reopening
 *    format/{id,instance}		terms of attr.config; event is an alias of id
 *    caps/{detach,set}			flags that the ioctls accept
 *    events/NAME			one per session, for opening by name
 *    ids/ID/				one per session
 *	name, uid, gid, mode, age, time_left
 *	members, instances, cpus, types
 *	buffer_bytes, lost
 *
 * Anybody may read this. It shows who measures which kind of event on which CPUs,
 * but nothing about the targets: no tasks, addresses, filters, paths, labels.
 *
 * Removing an entry waits for its readers, which take perf_persistent_mutex,
 * so it is done without. See Documentation/ABI/testing/sysfs-bus-event_source-devices-persistent.
 */
#include <linux/cpumask.h>
#include <linux/device.h>
#include <linux/init.h>
#include <linux/ratelimit.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "persistent.h"

static struct kset *session_dirs;
static struct kobject *events_dir;

static struct perf_persistent_session *to_session(const struct kobject *kobj)
{
	return container_of(kobj, struct perf_persistent_session, kobj);
}

#define SESSION_ATTR(_name)	static struct kobj_attribute _name##_attr = __ATTR_RO(_name)

/* A file with one value of the session */
#define SESSION_VALUE(_name, _format, _value)						\
	static ssize_t _name##_show(struct kobject *kobj, struct kobj_attribute *attr,	\
				    char *buf)						\
	{										\
		struct perf_persistent_session *session = to_session(kobj);		\
											\
		guard(mutex)(&perf_persistent_mutex);					\
											\
		return sysfs_emit(buf, _format "\n", _value);				\
	}										\
	SESSION_ATTR(_name)

SESSION_VALUE(name, "%s", session->name);
SESSION_VALUE(uid, "%u", from_kuid_munged(current_user_ns(), session->uid));
SESSION_VALUE(gid, "%u", from_kgid_munged(current_user_ns(), session->gid));
SESSION_VALUE(mode, "%04o", session->mode);
SESSION_VALUE(age, "%llu", ktime_get_boottime_ns() - session->created);
SESSION_VALUE(time_left, "%llu", perf_persistent_session_time_left(session));
SESSION_VALUE(members, "%zu", list_count_nodes(&session->members));
SESSION_VALUE(instances, "%u", session->nr_instances);
SESSION_VALUE(buffer_bytes, "%llu", (u64)atomic_long_read(&session->nr_pages) << PAGE_SHIFT);

static ssize_t types_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct perf_persistent_session *session = to_session(kobj);
	const struct perf_persistent_member *member;
	ssize_t len = 0;

	guard(mutex)(&perf_persistent_mutex);

	list_for_each_entry(member, &session->members, entry)
		len += sysfs_emit_at(buf, len, "%u:0x%llx\n", member->attr.type,
				     member->attr.config);

	return len;
}
SESSION_ATTR(types);

static ssize_t cpus_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct perf_persistent_session *session = to_session(kobj);
	struct perf_event *event;
	cpumask_var_t cpus;
	ssize_t len;

	if (!zalloc_cpumask_var(&cpus, GFP_KERNEL_ACCOUNT))
		return -ENOMEM;

	for_each_persistent_event(event, session, 0, true) {
		if (event->persistent->cpu >= 0)
			cpumask_set_cpu(event->persistent->cpu, cpus);
	}
	len = sysfs_emit(buf, "%*pbl\n", cpumask_pr_args(cpus));
	free_cpumask_var(cpus);

	return len;
}
SESSION_ATTR(cpus);

static ssize_t lost_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct perf_persistent_session *session = to_session(kobj);
	struct perf_event *event;
	int all = 1, err = 0;
	u64 origin, lost = 0;

	/* Uid 0 alone gives no right. */
	for_each_persistent_event(event, session, 0, !err) {
		err = perf_persistent_may_read(session, event, &all) ?:
		      security_perf_event_read(event);
		origin = perf_persistent_origin_of(event).lost;
		lost += atomic64_read(&event->lost_samples) - origin;
	}

	return err ?: sysfs_emit(buf, "%llu\n", lost);
}

/* When a buffer is full, this counts the events, which takes the right to read. */
static struct kobj_attribute lost_attr = __ATTR_RO_MODE(lost, 0400);

static struct attribute *session_attrs[] = {
	&name_attr.attr,
	&uid_attr.attr,
	&gid_attr.attr,
	&mode_attr.attr,
	&age_attr.attr,
	&time_left_attr.attr,
	&members_attr.attr,
	&instances_attr.attr,
	&cpus_attr.attr,
	&types_attr.attr,
	&buffer_bytes_attr.attr,
	&lost_attr.attr,
	NULL,
};

ATTRIBUTE_GROUPS(session);

static void session_release(struct kobject *kobj)
{
	struct perf_persistent_session *session = to_session(kobj);

	kernfs_put(session->event_kn);
	kfree(session);
}

const struct kobj_type perf_persistent_session_ktype = {
	.release	= session_release,
	.sysfs_ops	= &kobj_sysfs_ops,
	.default_groups	= session_groups,
};

/* Uevents */

static const char *session_uevent_subsystem(const struct kobject *kobj)
{
	return "perf_persistent";
}

static int session_uevent(const struct kobject *kobj, struct kobj_uevent_env *env)
{
	guard(mutex)(&perf_persistent_mutex);

	return add_uevent_var(env, "PERSISTENT_NAME=%s", to_session(kobj)->name);
}

static const struct kset_uevent_ops session_uevent_ops = {
	.name	= session_uevent_subsystem,
	.uevent	= session_uevent,
};

/* Users without CAP_PERFMON must not keep others from receiving uevents. */
static struct ratelimit_state user_adds =
	RATELIMIT_STATE_INIT_FLAGS(user_adds, HZ, 100, RATELIMIT_MSG_ON_RELEASE);
static struct ratelimit_state user_changes =
	RATELIMIT_STATE_INIT_FLAGS(user_changes, HZ, 100, RATELIMIT_MSG_ON_RELEASE);

/* Send a uevent about a session. The caller keeps the session from being finished. */
void perf_persistent_sysfs_announce(struct perf_persistent_session *session,
				    enum kobject_action action)
{
	/* Ignore errors: it does not matter whether anybody listens. */
	if (perfmon_capable() ||
	    __ratelimit(action == KOBJ_ADD ? &user_adds : &user_changes))
		kobject_uevent(&session->kobj, action);
}

/* events/NAME */
static ssize_t session_event_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct perf_persistent_session *session = container_of(attr, typeof(*session), event_attr);

	return sysfs_emit(buf, "id=0x%x\n", session->id);
}

/*
 * Give a session the valid name that the user has chosen, or if that is empty, the default name.
 * The files in events/ keep names unique. Returns 0; -EEXIST if the name is taken; -EINVAL if it
 * is too long with its prefix; -ESRCH if the session has ended; or -ENOMEM.
 */
int perf_persistent_sysfs_rename(struct perf_persistent_session *session, const char *chosen)
{
	char name[PERF_PERSISTENT_NAME_MAX], prefix[sizeof("u4294967295-")] = "";
	int len, err;

	/* Users cannot take the names of other users' sessions or of perf's own events. */
	if (!perfmon_capable())
		snprintf(prefix, sizeof(prefix), "u%u-",
			 from_kuid_munged(&init_user_ns, session->uid));

	len = *chosen ? snprintf(name, sizeof(name), "%s%s", prefix, chosen) :
			snprintf(name, sizeof(name), "%sp%u", prefix, session->id);
	if (len >= sizeof(name))
		return -EINVAL;

	err = kernfs_rename(session->event_kn, events_dir->sd, name);
	if (err)
		return err == -ENOENT ? -ESRCH : err;

	guard(mutex)(&perf_persistent_mutex);

	strscpy(session->name, name);

	return 0;
}

/* Waits for readers, which take perf_persistent_mutex. */
void perf_persistent_sysfs_remove(struct perf_persistent_session *session)
{
	/* First, so that the name is free again when the directory is gone. */
	kernfs_remove(session->event_kn);
	if (session->kobj.state_in_sysfs)
		kobject_del(&session->kobj);
}

/* Create the entries of a session that has its id; perf_persistent_sysfs_remove() undoes it. */
int perf_persistent_sysfs_add(struct perf_persistent_session *session, const char *chosen)
{
	int err;

	/* Without a kset, the directory would be in the root of sysfs. */
	if (!session_dirs)
		return -ENODEV;

	/* sysfs warns about a name that is taken, so begin with one that nobody can choose. */
	snprintf(session->name, sizeof(session->name), "p%u", session->id);
	sysfs_attr_init(&session->event_attr.attr);
	session->event_attr.attr.name = session->name;
	session->event_attr.attr.mode = 0444;
	session->event_attr.show = session_event_show;
	err = sysfs_create_file(events_dir, &session->event_attr.attr);
	if (err)
		return err;
	session->event_kn = sysfs_get_dirent(events_dir->sd, session->name);

	err = perf_persistent_sysfs_rename(session, chosen);
	session->kobj.kset = session_dirs;
	if (!err)
		err = kobject_add(&session->kobj, NULL, "%u", session->id);

	return err;
}

/* The PMU has only a name and a type; perf_event_open() does not call it. */

PMU_FORMAT_ATTR(id, "config:0-30");
PMU_FORMAT_ATTR(instance, "config:32-63");
/* For programs that expect the term "event" of every PMU */
PMU_FORMAT_ATTR(event, "config:0-30");

static struct attribute *format_attrs[] = {
	&format_attr_id.attr,
	&format_attr_event.attr,
	&format_attr_instance.attr,
	NULL,
};

static const struct attribute_group format_group = {
	.name	= "format",
	.attrs	= format_attrs,
};

static ssize_t detach_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "0x%x\n", PERF_PERSISTENT_DETACH_ALL);
}
static DEVICE_ATTR_RO(detach);

static ssize_t set_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "0x%x\n", PERF_PERSISTENT_SET_ALL);
}
static DEVICE_ATTR_RO(set);

static struct attribute *caps_attrs[] = {
	&dev_attr_detach.attr,
	&dev_attr_set.attr,
	NULL,
};

static const struct attribute_group caps_group = {
	.name	= "caps",
	.attrs	= caps_attrs,
};

static const struct attribute_group *pmu_groups[] = {
	&format_group,
	&caps_group,
	NULL,
};

static int refuse_event(struct perf_event *event)
{
	return -ENOENT;
}

static struct pmu perf_persistent_pmu = {
	.task_ctx_nr	= perf_invalid_context,
	.attr_groups	= pmu_groups,
	.event_init	= refuse_event,
};

static int __init registry_sysfs_init(void)
{
	int err;

	err = perf_pmu_register(&perf_persistent_pmu, "persistent", PERF_TYPE_PERSISTENT);
	if (err)
		return err;

	events_dir = kobject_create_and_add("events", &perf_persistent_pmu.dev->kobj);
	if (events_dir)
		session_dirs = kset_create_and_add("ids", &session_uevent_ops,
						   &perf_persistent_pmu.dev->kobj);

	return session_dirs ? 0 : -ENOMEM;
}

/* After the bus of the PMUs */
device_initcall_sync(registry_sysfs_init);
