/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Persistent perf events: the registry's objects, for its own files.
 */
#ifndef _KERNEL_EVENTS_PERSISTENT_H
#define _KERNEL_EVENTS_PERSISTENT_H

#include <linux/hrtimer.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/pid.h>
#include <linux/rbtree.h>
#include <linux/sysfs.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>

/* What DETACH gives an event without a buffer if it is not told how much */
#define PERF_PERSISTENT_BUFFER_KB		512
#define PERF_PERSISTENT_BUFFER_KB_USER		128

/* Members of one id; a line each in sysfs has to fit a page */
#define PERF_PERSISTENT_MEMBERS			128

/**
 * struct perf_persistent_member - one event of an id, on whatever it measures
 * @entry:	  in perf_persistent::members, by number
 * @nr:		  number within the id
 * @nr_instances: how many instances keep it; the last one frees it
 * @attr:	  as it was opened
 * @label:	  event text, or empty
 */
struct perf_persistent_member {
	struct list_head		entry;
	u32				nr;
	u32				nr_instances;
	struct perf_event_attr		attr;
	char				label[];
};

/**
 * struct perf_persistent_name - what an id is called
 * @entry:	in the table of names
 * @event_attr: its file in events/
 * @id:		the id
 * @text:	unique among all names
 *
 * All but @entry does not change.
 */
struct perf_persistent_name {
	struct hlist_node		entry;
	struct device_attribute		event_attr;
	u32				id;
	char				text[PERF_PERSISTENT_NAME_MAX];
};

/**
 * struct perf_persistent - an id of the registry, with all its instances
 * @kobj:	   its folder in sysfs; also counts the references to it
 * @name:	   its name, which can be exchanged for another
 * @instances:	   struct perf_instance by number
 * @members:	   struct perf_persistent_member by number
 * @nr_instances:  0 while it is being made and when it is over: not to be found
 * @next_instance: numbers are not used twice
 * @id:		   1 to INT_MAX
 * @flags:	   enum perf_persistent_flags that hold for the whole id
 * @owner:	   effective uid of its maker
 * @created:	   CLOCK_BOOTTIME, ns
 * @deadline:	   CLOCK_BOOTTIME, ns; 0 for none
 * @timer:	   runs until @deadline
 * @expire:	   ends all instances
 *
 * @kobj, @id, @owner and @created do not change; everything else is protected by
 * perf_persistent_mutex.
 */
struct perf_persistent {
	struct kobject			kobj;
	struct perf_persistent_name	*name;
	struct rb_root			instances;
	struct list_head		members;
	u32				nr_instances;
	u32				next_instance;
	u32				id;
	u32				flags;
	kuid_t				owner;
	u64				created;
	u64				deadline;
	struct hrtimer			timer;
	struct work_struct		expire;
};

/**
 * struct perf_instance - what keeps one perf event in the registry
 * @node:   in perf_persistent::instances
 * @pp:	    its id
 * @member: its event within the id
 * @event:  holds one of perf_event::users
 * @nr:	    number within the id
 * @cpu:    the CPU that @event was opened for, or -1
 * @task:   the task that @event was opened for, or NULL; @event holds it
 * @pid:    number of @task, also when it is dead
 * @offline_since: CLOCK_BOOTTIME, ns; when the CPU went offline last
 * @offline_time:  ns, for as long as it was offline before
 * @offline_count: how often it went offline
 * @rb:	    buffer that is pinned, or NULL
 * @user:   whose quota it counts against, or NULL
 * @dead:   in the list of those that are unlinked and not yet finished
 * @last:   @pp ends with this instance
 *
 * What is said of being offline is protected by perf_event_context::mutex of
 * @event, everything else that changes by perf_persistent_mutex.
 */
struct perf_instance {
	struct rb_node			node;
	struct perf_persistent		*pp;
	struct perf_persistent_member	*member;
	struct perf_event		*event;
	u32				nr;
	int				cpu;
	struct task_struct		*task;
	struct pid			*pid;
	u64				offline_since;
	u64				offline_time;
	u32				offline_count;
	struct perf_buffer		*rb;
	struct user_struct		*user;
	struct list_head		dead;
	bool				last;
};

/**
 * struct perf_detach - what DETACH was asked for
 * @flags:    enum perf_event_detach_flags
 * @id:	      id to join, or 0
 * @member:   number of the event within the id
 * @nr_pages: data pages of the buffer, or 0
 * @ttl:      ns, or 0
 * @memlock:  RLIMIT_MEMLOCK in bytes
 * @name:     or empty
 * @label:    or empty
 */
struct perf_detach {
	u32		flags;
	u32		id;
	u32		member;
	u32		nr_pages;
	u64		ttl;
	unsigned long	memlock;
	char		name[PERF_PERSISTENT_NAME_MAX];
	char		label[PERF_PERSISTENT_LABEL_MAX];
};

/*
 * Outermost of all locks of perf events; see the lock order in core.c. Events
 * are neither killed nor freed under it, sysfs is not touched, and user memory
 * is not accessed.
 */
extern struct mutex perf_persistent_mutex;

/* persistent_buffer.c */
int perf_buffer_pin(struct perf_event *event, const struct perf_detach *d);
void perf_buffer_unpin(struct perf_event *event, struct perf_buffer *rb);
u32 perf_buffer_count_events(struct perf_buffer *rb);

/* persistent_reader.c */
struct perf_reader;
struct perf_reader *perf_reader_create(struct file *file);
void perf_reader_add(struct perf_event *event, struct perf_reader *reader);
int perf_reader_suspend(struct file *file);

/* persistent_name.c */
bool perf_persistent_name_valid(const char *name);
struct perf_persistent_name *
perf_persistent_name_create(const char *chosen, u32 id, kuid_t owner);
void perf_persistent_name_give_up(struct perf_persistent_name *name);

/* persistent_query.c */
long perf_persistent_query(struct perf_event *event, unsigned long arg);
u32 perf_instance_state(const struct perf_instance *inst);
u64 perf_persistent_time_left(const struct perf_persistent *pp);
void perf_persistent_scrub_attr(struct perf_event_attr *attr);

/* persistent_sysfs.c */
void perf_persistent_kobj_init(struct perf_persistent *pp);
int perf_persistent_sysfs_add(struct perf_persistent *pp);
void perf_persistent_sysfs_remove(struct perf_persistent *pp);
int perf_persistent_sysfs_add_name(struct perf_persistent_name *name);
void perf_persistent_sysfs_remove_name(struct perf_persistent_name *name);

/* persistent_access.c */
int perf_event_may_reopen(struct perf_event *event);
bool perf_persistent_is_owned(const struct perf_persistent *pp);
int perf_persistent_check_ttl(u64 *ttl);
int perf_instance_charge(struct perf_instance *inst);
void perf_instance_uncharge(struct perf_instance *inst);

/* persistent_detach.c */
int perf_detach_event(struct perf_event *event, const struct perf_detach *d);

/* persistent_uapi.c */
int perf_persistent_copy_arg(void *dst, size_t size, size_t min, unsigned long arg);
int perf_persistent_copy_string(char *dst, long max, u64 addr);
int perf_persistent_copy_name(char *name, u64 addr);

/* persistent.c */
struct perf_persistent *perf_persistent_find(u32 id);
void perf_persistent_free(struct perf_persistent *pp);
void perf_persistent_arm(struct perf_persistent *pp, u64 ttl);
struct perf_persistent *perf_persistent_create(const struct perf_detach *d);
void perf_persistent_destroy(struct perf_persistent *pp);
struct perf_instance *perf_instance_create(struct perf_event *event);
void perf_instance_free(struct perf_instance *inst);
int perf_instance_insert(struct perf_persistent *pp, struct perf_instance *inst,
			 const struct perf_detach *d);
void perf_instance_unlink(struct perf_instance *inst, struct list_head *dead);
void perf_instance_finish(struct perf_instance *inst);
struct perf_instance *perf_instance_find(struct perf_persistent *pp, u32 nr);

static inline struct perf_instance *perf_instance_first(struct perf_persistent *pp)
{
	return rb_entry_safe(rb_first(&pp->instances), struct perf_instance, node);
}

static inline struct perf_instance *perf_instance_next(struct perf_instance *inst)
{
	return rb_entry_safe(rb_next(&inst->node), struct perf_instance, node);
}

/* By number */
#define perf_instance_for_each(inst, pp) \
	for (inst = perf_instance_first(pp); inst; inst = perf_instance_next(inst))

/* What an event goes on with that is held off now */
static inline enum perf_event_state perf_event_resume_state(const struct perf_event *event)
{
	if (event->state < PERF_EVENT_STATE_INACTIVE)
		return event->state;

	return event->pending_disable ? PERF_EVENT_STATE_OFF : PERF_EVENT_STATE_INACTIVE;
}

static inline struct task_struct *perf_event_target(const struct perf_event *event)
{
	return event->attach_state & PERF_ATTACH_TASK ? event->hw.target : NULL;
}

static inline struct perf_cgroup *perf_event_cgroup(const struct perf_event *event)
{
#ifdef CONFIG_CGROUP_PERF
	return event->cgrp;
#else
	return NULL;
#endif
}

#endif /* _KERNEL_EVENTS_PERSISTENT_H */
