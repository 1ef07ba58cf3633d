// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: the registry in sysfs.
 *
 *  /sys/bus/event_source/devices/persistent/
 *    type				attr.type of reopening
 *    format/{id,instance}		what attr.config takes; event is another word for id
 *    caps/{detach,set}			flags that the ioctls take
 *    events/NAME			one per session, for opening by name
 *    ids/ID/				one per session
 *	name, uid, gid, mode, age, time_left
 *	members, instances, cpus, types
 *	buffer_bytes, lost
 *
 * Anybody may read it, so it says who measures what kind of event where, and
 * nothing about the measured: no tasks, addresses, filters, paths, labels.
 *
 * Removing an entry waits for its readers, who take perf_persistent_mutex: it is
 * done without. See Documentation/ABI/testing/sysfs-bus-event_source-devices-persistent.
 */
#include <linux/cpumask.h>
#include <linux/device.h>
#include <linux/init.h>
#include <linux/math64.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "../internal.h"
#include "persistent.h"

static struct kset *perf_persistent_ids;

/* Keeps the uevents of a session in order: none follows its removal. */
static DEFINE_MUTEX(perf_persistent_uevent_mutex);
static struct pmu perf_persistent_pmu;

struct perf_persistent_attribute {
	struct attribute	attr;
	/* One of these; only the first is called with perf_persistent_mutex held. */
	ssize_t			(*show)(struct perf_persistent_session *session, char *buf);
	ssize_t			(*show_sum)(struct perf_persistent_session *session, char *buf);
};

#define PERF_PERSISTENT_ATTR(_name)					\
	static struct perf_persistent_attribute _name##_attr = {	\
		.attr	= { .name = __stringify(_name), .mode = 0444 },	\
		.show	= _name##_show,					\
	}

#define PERF_PERSISTENT_ATTR_SUM(_name)					\
	static struct perf_persistent_attribute _name##_attr = {	\
		.attr	  = { .name = __stringify(_name), .mode = 0444 }, \
		.show_sum = _name##_show,				\
	}

static ssize_t name_show(struct perf_persistent_session *session, char *buf)
{
	return sysfs_emit(buf, "%s\n", session->name->text);
}
PERF_PERSISTENT_ATTR(name);

static ssize_t uid_show(struct perf_persistent_session *session, char *buf)
{
	return sysfs_emit(buf, "%u\n", from_kuid_munged(current_user_ns(), session->uid));
}
PERF_PERSISTENT_ATTR(uid);

static ssize_t gid_show(struct perf_persistent_session *session, char *buf)
{
	return sysfs_emit(buf, "%u\n", from_kgid_munged(current_user_ns(), session->gid));
}
PERF_PERSISTENT_ATTR(gid);

static ssize_t mode_show(struct perf_persistent_session *session, char *buf)
{
	return sysfs_emit(buf, "%04o\n", session->mode);
}
PERF_PERSISTENT_ATTR(mode);

static ssize_t age_show(struct perf_persistent_session *session, char *buf)
{
	return sysfs_emit(buf, "%llu\n", ktime_get_boottime_ns() - session->created);
}
PERF_PERSISTENT_ATTR(age);

static ssize_t time_left_show(struct perf_persistent_session *session, char *buf)
{
	return sysfs_emit(buf, "%llu\n", perf_persistent_session_time_left(session));
}
PERF_PERSISTENT_ATTR(time_left);

static ssize_t members_show(struct perf_persistent_session *session, char *buf)
{
	return sysfs_emit(buf, "%zu\n", list_count_nodes(&session->members));
}
PERF_PERSISTENT_ATTR(members);

static ssize_t instances_show(struct perf_persistent_session *session, char *buf)
{
	return sysfs_emit(buf, "%u\n", session->nr_instances);
}
PERF_PERSISTENT_ATTR(instances);

static ssize_t types_show(struct perf_persistent_session *session, char *buf)
{
	struct perf_persistent_member *member;
	ssize_t len = 0;

	list_for_each_entry(member, &session->members, entry)
		len += sysfs_emit_at(buf, len, "%u:0x%llx\n", member->attr.type,
				     member->attr.config);

	return len;
}
PERF_PERSISTENT_ATTR(types);

/* Over the instances of a session */
struct perf_persistent_sums {
	u64		lost;
	u64		buffer_bytes;	/* << PERF_PERSISTENT_SHARE_BITS */
	struct cpumask	*cpus;		/* or NULL */
};

/*
 * Each instance counts its share of a buffer that several have. An instance that
 * the registry still lists holds one of the pins, so there is no division by 0.
 */
#define PERF_PERSISTENT_SHARE_BITS	16

static u64 perf_persistent_buffer_share(struct perf_buffer *rb)
{
	if (!rb)
		return 0;

	return div_u64((u64)(PAGE_SIZE + perf_data_size(rb)) << PERF_PERSISTENT_SHARE_BITS,
		       READ_ONCE(rb->nr_pins));
}

static int perf_persistent_sum(struct perf_persistent_instance *inst, void *data)
{
	struct perf_persistent_sums *sums = data;

	sums->lost += atomic64_read(&inst->event->lost_samples) -
		      inst->event->persistent->origin.lost;
	sums->buffer_bytes += perf_persistent_buffer_share(inst->rb);
	if (sums->cpus && inst->key.cpu >= 0)
		cpumask_set_cpu(inst->key.cpu, sums->cpus);

	return 0;
}

static ssize_t cpus_show(struct perf_persistent_session *session, char *buf)
{
	struct perf_persistent_sums sums = { };
	cpumask_var_t cpus;
	ssize_t len;

	if (!zalloc_cpumask_var(&cpus, GFP_KERNEL_ACCOUNT))
		return -ENOMEM;

	sums.cpus = cpus;
	perf_persistent_visit(session, perf_persistent_sum, &sums);
	len = sysfs_emit(buf, "%*pbl\n", cpumask_pr_args(cpus));
	free_cpumask_var(cpus);

	return len;
}
PERF_PERSISTENT_ATTR_SUM(cpus);

static ssize_t buffer_bytes_show(struct perf_persistent_session *session, char *buf)
{
	struct perf_persistent_sums sums = {
		/* To round */
		.buffer_bytes = 1ULL << (PERF_PERSISTENT_SHARE_BITS - 1),
	};

	perf_persistent_visit(session, perf_persistent_sum, &sums);

	return sysfs_emit(buf, "%llu\n", sums.buffer_bytes >> PERF_PERSISTENT_SHARE_BITS);
}
PERF_PERSISTENT_ATTR_SUM(buffer_bytes);

static ssize_t lost_show(struct perf_persistent_session *session, char *buf)
{
	struct perf_persistent_sums sums = { };

	perf_persistent_visit(session, perf_persistent_sum, &sums);

	return sysfs_emit(buf, "%llu\n", sums.lost);
}
PERF_PERSISTENT_ATTR_SUM(lost);

static const struct attribute *perf_persistent_attrs[] = {
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

static ssize_t perf_persistent_show(struct kobject *kobj, struct attribute *attr, char *buf)
{
	struct perf_persistent_session *session;
	struct perf_persistent_attribute *a;

	session = container_of(kobj, struct perf_persistent_session, kobj);
	a = container_of(attr, struct perf_persistent_attribute, attr);
	if (a->show_sum)
		return a->show_sum(session, buf);

	guard(mutex)(&perf_persistent_mutex);

	return a->show(session, buf);
}

static const struct sysfs_ops perf_persistent_sysfs_ops = {
	.show	= perf_persistent_show,
};

static void perf_persistent_kobj_release(struct kobject *kobj)
{
	perf_persistent_session_free(container_of(kobj, struct perf_persistent_session, kobj));
}

static const struct kobj_type perf_persistent_ktype = {
	.release	= perf_persistent_kobj_release,
	.sysfs_ops	= &perf_persistent_sysfs_ops,
};

/* Uevents */

static const char *perf_persistent_uevent_subsystem(const struct kobject *kobj)
{
	return "perf_persistent";
}

static int perf_persistent_uevent(const struct kobject *kobj, struct kobj_uevent_env *env)
{
	const struct perf_persistent_session *session;

	guard(mutex)(&perf_persistent_mutex);

	session = container_of(kobj, struct perf_persistent_session, kobj);

	return add_uevent_var(env, "PERSISTENT_NAME=%s", session->name->text);
}

static const struct kset_uevent_ops perf_persistent_uevent_ops = {
	.name	= perf_persistent_uevent_subsystem,
	.uevent	= perf_persistent_uevent,
};

/* events/NAME */
static ssize_t perf_persistent_event_show(struct device *dev, struct device_attribute *attr,
					  char *buf)
{
	struct perf_persistent_name *name;

	name = container_of(attr, struct perf_persistent_name, event_attr);

	return sysfs_emit(buf, "id=0x%x\n", name->id);
}

/**
 * perf_persistent_sysfs_add_name - make the file of a name
 * @name: name with its text and its id
 *
 * Context: may sleep; perf_persistent_mutex is not held.
 * Return: 0 or -ENOMEM
 */
int perf_persistent_sysfs_add_name(struct perf_persistent_name *name)
{
	sysfs_attr_init(&name->event_attr.attr);
	name->event_attr.attr.name = name->text;
	name->event_attr.attr.mode = 0444;
	name->event_attr.show = perf_persistent_event_show;

	return sysfs_add_file_to_group(&perf_persistent_pmu.dev->kobj,
				       &name->event_attr.attr, "events");
}

/**
 * perf_persistent_sysfs_remove_name - undo perf_persistent_sysfs_add_name()
 * @name: name
 *
 * Context: waits for readers; perf_persistent_mutex is not held.
 */
void perf_persistent_sysfs_remove_name(struct perf_persistent_name *name)
{
	sysfs_remove_file_from_group(&perf_persistent_pmu.dev->kobj,
				     &name->event_attr.attr, "events");
}

/**
 * perf_persistent_sysfs_init_session - initialize the kobject of a session
 * @session: zeroed; freed with the last kobject_put()
 */
void perf_persistent_sysfs_init_session(struct perf_persistent_session *session)
{
	kobject_init(&session->kobj, &perf_persistent_ktype);
}

/**
 * perf_persistent_sysfs_add - make the directory of a session
 * @session: session with its id and name
 *
 * Context: may sleep; perf_persistent_mutex is not held.
 * Return: 0 or -ENOMEM; nothing is left behind then
 */
int perf_persistent_sysfs_add(struct perf_persistent_session *session)
{
	int err;

	session->kobj.kset = perf_persistent_ids;
	err = kobject_add(&session->kobj, NULL, "%u", session->id);
	if (err)
		return err;

	/* The files go with their directory, which is cheaper than one by one. */
	err = sysfs_create_files(&session->kobj, perf_persistent_attrs);
	if (err)
		kobject_del(&session->kobj);

	return err;
}

/**
 * perf_persistent_sysfs_announce - send a uevent about a new or changed session
 * @session: session, which may have ended meanwhile
 * @action:  KOBJ_ADD, after which its end is announced as well, or KOBJ_CHANGE
 *
 * Context: may sleep; perf_persistent_mutex is not held.
 */
void perf_persistent_sysfs_announce(struct perf_persistent_session *session,
				    enum kobject_action action)
{
	guard(mutex)(&perf_persistent_uevent_mutex);

	/* Whether somebody hears it does not matter here. */
	if (session->kobj.state_in_sysfs &&
	    (action == KOBJ_ADD || session->kobj.state_add_uevent_sent))
		kobject_uevent(&session->kobj, action);
}

/* Whether to announce it: not if another target has joined meanwhile. */
static bool perf_persistent_take_exited(struct perf_persistent_session *session)
{
	guard(mutex)(&perf_persistent_mutex);

	if (!session->exited)
		return false;
	session->exited = false;

	return perf_persistent_session_lives(session) && !session->nr_running;
}

/**
 * perf_persistent_sysfs_announce_exited - announce the loss of the last target
 * @session: session, which may have ended meanwhile
 *
 * Sends nothing before KOBJ_ADD: whoever sends that calls this again.
 *
 * Context: may sleep; perf_persistent_mutex is not held.
 */
void perf_persistent_sysfs_announce_exited(struct perf_persistent_session *session)
{
	char *envp[2] = { "PERSISTENT_STATE=exited" };

	guard(mutex)(&perf_persistent_uevent_mutex);

	if (session->kobj.state_in_sysfs && session->kobj.state_add_uevent_sent &&
	    perf_persistent_take_exited(session))
		kobject_uevent_env(&session->kobj, KOBJ_CHANGE, envp);
}

/**
 * perf_persistent_sysfs_remove - undo perf_persistent_sysfs_add()
 * @session: id
 *
 * Context: waits for readers; perf_persistent_mutex is not held.
 */
void perf_persistent_sysfs_remove(struct perf_persistent_session *session)
{
	guard(mutex)(&perf_persistent_uevent_mutex);

	kobject_del(&session->kobj);
}

/* The PMU: only a name and a number, perf_event_open() does not get here. */

PMU_FORMAT_ATTR(id, "config:0-30");
PMU_FORMAT_ATTR(instance, "config:32-63");
/* For programs that expect the term "event" of every PMU */
PMU_FORMAT_ATTR(event, "config:0-30");

static struct attribute *perf_persistent_format_attrs[] = {
	&format_attr_id.attr,
	&format_attr_event.attr,
	&format_attr_instance.attr,
	NULL,
};

static const struct attribute_group perf_persistent_format_group = {
	.name	= "format",
	.attrs	= perf_persistent_format_attrs,
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

static struct attribute *perf_persistent_caps_attrs[] = {
	&dev_attr_detach.attr,
	&dev_attr_set.attr,
	NULL,
};

static const struct attribute_group perf_persistent_caps_group = {
	.name	= "caps",
	.attrs	= perf_persistent_caps_attrs,
};

static struct attribute *perf_persistent_events_attrs[] = {
	NULL,
};

static const struct attribute_group perf_persistent_events_group = {
	.name	= "events",
	.attrs	= perf_persistent_events_attrs,
};

static const struct attribute_group *perf_persistent_pmu_groups[] = {
	&perf_persistent_format_group,
	&perf_persistent_caps_group,
	&perf_persistent_events_group,
	NULL,
};

static int perf_persistent_event_init(struct perf_event *event)
{
	return -ENOENT;
}

static struct pmu perf_persistent_pmu = {
	.task_ctx_nr	= perf_invalid_context,
	.attr_groups	= perf_persistent_pmu_groups,
	.event_init	= perf_persistent_event_init,
};

static int __init perf_persistent_sysfs_init(void)
{
	int err;

	err = perf_pmu_register(&perf_persistent_pmu, "persistent", PERF_TYPE_PERSISTENT);
	if (err)
		return err;

	perf_persistent_ids = kset_create_and_add("ids", &perf_persistent_uevent_ops,
						  &perf_persistent_pmu.dev->kobj);

	return perf_persistent_ids ? 0 : -ENOMEM;
}
device_initcall(perf_persistent_sysfs_init);
