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
#include <linux/sysfs.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

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
 * struct perf_persistent - an id of the registry, with all its instances
 * @kobj:	   its folder in sysfs; also counts the references to it
 * @event_attr:	   its file in events/
 * @name_entry:	   in the table of names, from its making to its end
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
 * @name:	   unique among all ids
 *
 * @kobj, @event_attr, @id, @owner, @created do not change; everything else is
 * protected by perf_persistent_mutex.
 */
struct perf_persistent {
	struct kobject			kobj;
	struct device_attribute		event_attr;
	struct hlist_node		name_entry;
	struct xarray			instances;
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
	char				name[PERF_PERSISTENT_NAME_MAX];
};

/**
 * struct perf_instance - what keeps one perf event in the registry
 * @pp:	    its id
 * @member: its event within the id
 * @event:  holds one of perf_event::users
 * @nr:	    number within the id
 * @cpu:    the CPU that @event was opened for
 * @rb:	    buffer that is pinned, or NULL
 * @user:   whose quota it counts against, or NULL
 * @dead:   in the list of those that are unlinked and not yet finished
 * @last:   @pp ends with this instance
 */
struct perf_instance {
	struct perf_persistent		*pp;
	struct perf_persistent_member	*member;
	struct perf_event		*event;
	u32				nr;
	int				cpu;
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
 * @name:     or empty
 * @label:    or empty
 */
struct perf_detach {
	u32		flags;
	u32		id;
	u32		member;
	u32		nr_pages;
	u64		ttl;
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
int perf_buffer_pin(struct perf_event *event, u32 nr_pages);
void perf_buffer_unpin(struct perf_event *event, struct perf_buffer *rb);

/* persistent_query.c */
long perf_persistent_query(struct perf_event *event, unsigned long arg);
u32 perf_instance_state(const struct perf_instance *inst);
u64 perf_persistent_time_left(const struct perf_persistent *pp);
void perf_persistent_scrub_attr(struct perf_event_attr *attr);

/* persistent_sysfs.c */
void perf_persistent_kobj_init(struct perf_persistent *pp);
int perf_persistent_sysfs_add(struct perf_persistent *pp);
void perf_persistent_sysfs_remove(struct perf_persistent *pp);

/* persistent_access.c */
int perf_event_may_reopen(struct perf_event *event);
int perf_persistent_allow(struct perf_persistent *pp, struct perf_event *event);
int perf_persistent_check_ttl(u64 *ttl);
int perf_instance_charge(struct perf_instance *inst);
void perf_instance_uncharge(struct perf_instance *inst);

/* persistent_uapi.c */
int perf_persistent_copy_arg(void *dst, size_t size, size_t min, unsigned long arg);

/* persistent.c */
struct perf_persistent *perf_persistent_find(u32 id);
bool perf_persistent_name_valid(const char *name);
void perf_persistent_arm(struct perf_persistent *pp, u64 ttl);
struct perf_persistent *perf_persistent_create(const struct perf_detach *d);
void perf_persistent_destroy(struct perf_persistent *pp);
struct perf_instance *
perf_instance_find(struct perf_persistent *pp, u32 member, int cpu);
struct perf_instance *perf_instance_create(struct perf_event *event);
void perf_instance_free(struct perf_instance *inst);
int perf_instance_insert(struct perf_persistent *pp, struct perf_instance *inst,
			 const struct perf_detach *d);
void perf_instance_unlink(struct perf_instance *inst, struct list_head *dead);
void perf_instance_finish(struct perf_instance *inst);

#endif /* _KERNEL_EVENTS_PERSISTENT_H */
