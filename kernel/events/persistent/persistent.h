/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Persistent perf events: sessions, members, instances, views.
 */
#ifndef _KERNEL_EVENTS_PERSISTENT_H
#define _KERNEL_EVENTS_PERSISTENT_H

#include <linux/bitmap.h>
#include <linux/build_bug.h>
#include <linux/cleanup.h>
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

#include "../internal.h"

/* Buffer that DETACH gives an event without one if no size is given */
#define PERF_PERSISTENT_BUFFER_KB		512
#define PERF_PERSISTENT_BUFFER_KB_USER		128

/* Members of a session; "types" in sysfs has a line for each and must fit in a page */
#define PERF_PERSISTENT_MEMBERS			128

/* Instances of a session; limits the list that QUERY allocates */
#define PERF_PERSISTENT_INSTANCES		65536

/* Flags that the ioctls accept */
#define PERF_PERSISTENT_DETACH_ALL		PERF_DETACH_UNCOMMITTED
#define PERF_PERSISTENT_SET_ALL			(2 * PERF_PERSISTENT_SET_CLEAR - 1)

/* Rights on a session, as the bits of a class in its mode */
#define PERF_PERSISTENT_READ			04
#define PERF_PERSISTENT_CONTROL			02
#define PERF_PERSISTENT_HOLD			01

/**
 * struct perf_persistent_member - one event of a session, on all its targets
 * @entry:	  in perf_persistent_session::members
 * @nr:		  number within the session
 * @nr_instances: instances that refer to it; the last one frees it
 * @attr:	  attr as the event was opened
 * @label:	  event text, or empty
 */
struct perf_persistent_member {
	struct list_head		entry;
	u32				nr;
	u32				nr_instances;
	struct perf_event_attr		attr;
	char				label[PERF_PERSISTENT_LABEL_MAX];
};

/**
 * struct perf_persistent_session - events that were detached together
 * @kobj:	   its directory in sysfs; counts the references to the session
 * @name:	   unique among all sessions
 * @event_attr:	   its file in events/
 * @event_kn:	   the same, which SET renames
 * @instances:	   struct perf_persistent_instance by number
 * @keys:	   struct perf_persistent_instance by key
 * @members:	   struct perf_persistent_member in the order of their numbers
 * @nr_instances:  0 before the first and after the last one; lookups fail then
 * @nr_unfinished: instances that are not finished, and who creates it or sends a uevent; it
 *		   ends with the last of them
 * @next_instance: next number; numbers are not reused
 * @id:		   1 to INT_MAX
 * @flags:	   enum perf_persistent_flags that hold for the whole session
 * @uid:	   owner
 * @gid:	   group
 * @mode:	   PERF_PERSISTENT_* rights of owner, group and others
 * @needs:	   PERF_NEED_* of all instances that it ever had
 * @nr_holds:	   [0]: files that hold all instances; [N + 1]: files that hold
 *		   member N, which may not exist
 * @created:	   CLOCK_BOOTTIME, ns
 * @nr_pages:	   pages of the buffers that its instances have pinned
 * @deadline:	   CLOCK_BOOTTIME, ns; 0 for none
 * @expired:	   @deadline has passed; the instances are being ended
 * @timer:	   runs until @deadline
 * @expire:	   ends all instances
 * @control:	   serializes joining, attaching and SET; see perf_persistent_mutex
 *
 * @kobj, @id and @created do not change, and @nr_unfinished and @nr_pages are atomic. @nr_holds,
 * @event_kn and, by SET, @name change under @control. Everything else is protected by
 * perf_persistent_mutex, but @flags, @uid, @needs and @next_instance are also read without a lock.
 */
struct perf_persistent_session {
	struct kobject			kobj;
	struct rb_root			instances;
	struct rb_root			keys;
	struct list_head		members;
	u32				nr_instances;
	refcount_t			nr_unfinished;
	u32				next_instance;
	u32				id;
	u32				flags;
	kuid_t				uid;
	kgid_t				gid;
	umode_t				mode;
	unsigned int			needs;
	u32				nr_holds[PERF_PERSISTENT_MEMBERS + 1];
	u64				created;
	atomic_long_t			nr_pages;
	u64				deadline;
	bool				expired;
	struct hrtimer			timer;
	struct work_struct		expire;
	struct mutex			control;	/* joining, attaching, SET */
	struct kobj_attribute		event_attr;
	struct kernfs_node		*event_kn;
	char				name[PERF_PERSISTENT_NAME_MAX];
};

/**
 * struct perf_persistent_origin - values of an event when it was cleared last
 * @time:    CLOCK_BOOTTIME, ns; 0 if it never was
 * @count:   including children, like @enabled and @running
 * @enabled: ns
 * @running: ns
 * @lost:    perf_event::lost_samples
 * @rb_id:   perf_buffer::id of the buffer that @head belongs to
 * @head:    perf_buffer::head
 */
struct perf_persistent_origin {
	u64				time;
	u64				count;
	u64				enabled;
	u64				running;
	u64				lost;
	u64				rb_id;
	u64				head;
};

/**
 * struct perf_persistent_event - additional fields of a persistent event
 * @users:	 the file that opened it, views that have attached it, and the registry;
 *		 the event ends with the last of them
 * @nr_detached: how often the event has entered the registry
 * @ended:	 enum perf_persistent_state if the kernel has ended it, or 0; also read without a
 *		 lock
 * @cpu:	 as it was opened
 * @attr:	 as it was opened, before a driver changed it
 * @instance:	 in the registry, or NULL
 * @origin:	 where its values begin; protected by perf_persistent_mutex
 *
 * Allocated when the event is opened if its driver changes @cpu or @attr, else by
 * DETACH.
 */
struct perf_persistent_event {
	refcount_t			users;
	u32				nr_detached;
	u8				ended;
	int				cpu;
	struct perf_event_attr		attr;
	struct perf_persistent_instance	*instance;
	struct perf_persistent_origin	origin;
};

/**
 * struct perf_persistent_key - identifies an instance within its session
 * @task:    target, or NULL
 * @cgroup:  target, or NULL
 * @member:  number of the member
 * @cpu:     CPU that the event was opened for, or -1
 */
struct perf_persistent_key {
	struct task_struct		*task;
	struct perf_cgroup		*cgroup;
	u32				member;
	int				cpu;
};

/* Without holes, for memcmp() */
static_assert(sizeof(struct perf_persistent_key) == 2 * sizeof(void *) + 2 * sizeof(u32));

/**
 * struct perf_persistent_instance - a perf event that the registry keeps
 * @rcu:	   for kfree_rcu()
 * @nr_node:	   in perf_persistent_session::instances
 * @key_node:	   in perf_persistent_session::keys, unless a newer instance has replaced it
 * @key:	   what it measures; @event has a reference to the target
 * @session:	   its session
 * @member:	   its event within the session
 * @event:	   the instance is one of its users
 * @nr:		   number within the session
 * @pid:	   of the target task, which may be dead
 * @tgid:	   of the process of that task
 * @offline_since: CLOCK_BOOTTIME, ns; when the CPU went offline last
 * @offline_time:  ns that the CPU was offline before
 * @offline_count: how often the CPU went offline
 * @rb:		   buffer that is pinned, or NULL
 * @ucounts:	   charged user, or NULL
 *
 * @offline_* are protected by perf_event_context::mutex of @event, all other
 * fields that change by perf_persistent_mutex.
 */
struct perf_persistent_instance {
	struct rcu_head			rcu;
	struct rb_node			nr_node;
	struct rb_node			key_node;
	struct perf_persistent_key	key;
	struct perf_persistent_session	*session;
	struct perf_persistent_member	*member;
	struct perf_event		*event;
	u32				nr;
	u32				offline_count;
	u64				offline_since;
	u64				offline_time;
	struct pid			*pid;
	struct pid			*tgid;
	struct perf_buffer		*rb;
	struct ucounts			*ucounts;
};

/**
 * struct perf_persistent_detach - arguments of DETACH
 * @holder: of a view, or NULL for the file that the event was opened with
 * @args:   as given, but for the time to live, see perf_persistent_check_ttl()
 * @name:   name, or empty
 * @label:  label, or empty
 */
struct perf_persistent_detach {
	const struct perf_persistent_holder *holder;
	struct perf_event_detach	args;
	char				name[PERF_PERSISTENT_NAME_MAX];
	char				label[PERF_PERSISTENT_LABEL_MAX];
};

/**
 * struct perf_persistent_holder - a file's session, and what the file holds of it
 * @session:  session that the file was opened from; it may have ended
 * @attached: 0, or perf_persistent_event::nr_detached when the file attached its event; it is one
 *	      of the event's users then
 * @holds:    bitmap with the indices of perf_persistent_session::nr_holds; protected by
 *	      perf_persistent_session::control
 */
struct perf_persistent_holder {
	struct perf_persistent_session	*session;
	u32				attached;
	DECLARE_BITMAP(holds, PERF_PERSISTENT_MEMBERS + 1);
};

/*
 * perf_persistent_mutex protects the registry. It is the innermost mutex: it is
 * never held around a mutex of an event or a context, an allocation that can
 * reclaim, a grace period or a cross-call. No code here accesses user memory
 * with one of the mutexes below held.
 *
 *   perf_persistent_session::control
 *     event_mutex, of tracepoints
 *     perf_event_context::mutex
 *       perf_event::mmap_mutex
 *         perf_buffer::aux_mutex
 *         perf_persistent_mutex
 *
 *   perf_persistent_view::lock
 *     perf_event_context::mutex
 *
 * It is also taken under mmap_lock, and is held around perf_buffer::event_lock.
 */
extern struct mutex perf_persistent_mutex;

/* Locks perf_event_context::mutex of an event */
DEFINE_LOCK_GUARD_1(perf_event_ctx, struct perf_event,
		    _T->ctx = perf_event_ctx_lock(_T->lock),
		    perf_event_ctx_unlock(_T->lock, _T->ctx),
		    struct perf_event_context *ctx)

DEFINE_FREE(ring_buffer_put, struct perf_buffer *, if (_T) ring_buffer_put(_T))

/* The files do not call each other in a circle. */

/* registry.c */
u64 perf_persistent_session_time_left(const struct perf_persistent_session *session);
struct perf_persistent_member *
perf_persistent_member_lookup(struct perf_persistent_session *session, u32 nr);
struct perf_persistent_instance *
perf_persistent_instance_lookup(struct perf_persistent_session *session,
				const struct perf_persistent_key *key);
struct perf_persistent_instance *
perf_persistent_instance_from(struct perf_persistent_session *session, u32 nr);
bool perf_persistent_is_counted(struct perf_persistent_session *session,
				const struct perf_persistent_key *key);
struct perf_event *
perf_persistent_get_next(struct perf_persistent_session *session, u32 member, u32 *nr);
int perf_persistent_instance_link(struct perf_persistent_session *session,
				  struct perf_persistent_instance *inst);
struct perf_persistent_instance *
perf_persistent_instance_unlink(struct perf_persistent_session *session,
				struct perf_event *event, u8 ended);
struct perf_persistent_origin perf_persistent_origin_of(struct perf_event *event);

/*
 * Walk the events of the instances of a member (its number + 1, or 0 for all)
 * while @go is true. The body must not break or return, as the loop has a
 * reference to @event. Instances may come and go meanwhile, and @event may end.
 */
#define for_each_persistent_event(event, session, member, go)				\
	for (u32 _nr = 0;								\
	     (go) && ((event) = perf_persistent_get_next(session, member, &_nr));	\
	     put_event(event))

/* sysfs.c */
extern const struct kobj_type perf_persistent_session_ktype;
int perf_persistent_sysfs_add(struct perf_persistent_session *session, const char *chosen);
int perf_persistent_sysfs_rename(struct perf_persistent_session *session, const char *chosen);
void perf_persistent_sysfs_announce(struct perf_persistent_session *session,
				    enum kobject_action action);
void perf_persistent_sysfs_remove(struct perf_persistent_session *session);

/* access.c */
int perf_persistent_may_open(struct perf_event *event);
int perf_persistent_may_share(struct perf_event *event,
			      const struct perf_persistent_session *session,
			      struct task_struct *target);
unsigned int perf_persistent_needs(struct perf_event *event);
bool perf_persistent_mode_allows(const struct perf_persistent_session *session,
				 unsigned int right);
int perf_persistent_may_read(struct perf_persistent_session *session, struct perf_event *event,
			     int *all);
int perf_persistent_may_map(struct perf_persistent_session *session, struct perf_event *event,
			    u32 nr_joined);
int perf_persistent_may_change(struct perf_persistent_session *session, unsigned int right);
int perf_persistent_may_write(const struct perf_persistent_session *session);
bool perf_persistent_is_delegated(const struct perf_persistent_session *session);
int perf_persistent_control_begin(struct perf_persistent_session *session, unsigned int right);
bool perf_persistent_may_open_session(struct perf_persistent_session *session);
int perf_persistent_check_ttl(u64 *ttl);
int perf_persistent_charge(struct perf_persistent_instance *inst);
void perf_persistent_uncharge(struct perf_persistent_instance *inst);

/* buffer.c */
struct perf_buffer *perf_persistent_buffer_alloc(struct perf_event *event, u32 nr_pages);
void perf_persistent_buffer_free(struct perf_buffer *rb);
int perf_persistent_buffer_pin(struct perf_persistent_instance *inst,
			       struct perf_persistent_session *session, u32 nr_pages,
			       struct perf_buffer **new);
void perf_persistent_buffer_unpin(struct perf_persistent_instance *inst);

/* session.c */
struct perf_persistent_session *perf_persistent_session_get(u32 id);
struct perf_persistent_session *perf_persistent_session_of(struct perf_event *event);
struct perf_persistent_session *
perf_persistent_session_create(const struct perf_persistent_detach *d);
void perf_persistent_session_finish(struct perf_persistent_session *session);
void perf_persistent_session_arm(struct perf_persistent_session *session, u64 deadline);
struct perf_persistent_instance *
perf_persistent_instance_create(struct perf_event *event, const struct perf_persistent_detach *d);
void perf_persistent_instance_free(struct perf_persistent_instance *inst);
void perf_persistent_put_user(struct perf_event *event);
void perf_persistent_instance_finish(struct perf_persistent_instance *inst);

/* For __free(): an error or NULL is no session. */
static inline void perf_persistent_session_put(struct perf_persistent_session *session)
{
	if (!IS_ERR_OR_NULL(session))
		kobject_put(&session->kobj);
}

DEFINE_FREE(perf_persistent_session, struct perf_persistent_session *,
	    perf_persistent_session_put(_T))
DEFINE_FREE(perf_persistent_instance, struct perf_persistent_instance *,
	    perf_persistent_instance_free(_T))
DEFINE_FREE(perf_persistent_buffer, struct perf_buffer *,
	    perf_persistent_buffer_free(_T))

/* args.c */
int perf_persistent_copy_struct(void *dst, size_t size, size_t min,
				unsigned int cmd, unsigned long arg);
int perf_persistent_copy_string(char *dst, long max, u64 addr);
bool perf_persistent_name_valid(const char *name);
int perf_persistent_copy_name(char *name, u64 addr);

/* hold.c */
void perf_persistent_hold_event(struct perf_event *event, bool hold);
void perf_persistent_update_hold(struct perf_event *event);
void perf_persistent_hold(struct perf_persistent_holder *holder, u32 member);
void perf_persistent_release(struct perf_persistent_holder *holder);

/* filter.c */
int perf_persistent_filter_add(struct list_head *filters, struct perf_event *event,
			       char *text);
void perf_persistent_filters_swap(struct list_head *filters);
void perf_persistent_filters_free(struct list_head *filters);

/* detach.c, query.c, set.c: the ioctls */
int perf_persistent_detach(struct perf_event *event, const struct perf_persistent_detach *d);
long perf_persistent_ioctl_detach(const struct perf_persistent_holder *holder,
				  struct perf_event *event, unsigned int cmd, unsigned long arg);
long perf_persistent_ioctl_attach(struct perf_event *event);
long perf_persistent_ioctl_query(const struct perf_persistent_holder *holder,
				 struct perf_event *event, unsigned int cmd, unsigned long arg);
long perf_persistent_ioctl_set(struct perf_persistent_holder *holder, struct perf_event *event,
			       unsigned int cmd, unsigned long arg);
u32 perf_persistent_state(struct perf_event *event);
void perf_persistent_scrub_attr(struct perf_event_attr *attr, bool is_trace);

/* view.c */
int perf_persistent_view_open(struct perf_persistent_session *session, struct perf_event *event,
			      const struct perf_event_attr *attr, u32 nr_joined, int f_flags);

/* Increase of a value since @then, or all of it if it was reset meanwhile */
static inline u64 perf_persistent_since(u64 now, u64 then)
{
	return now < then ? now : now - then;
}

/*
 * Mark an event as standing still; the caller stops or removes it next. If it is active and
 * about to be disabled, event_sched_out() defers that.
 */
static inline void perf_persistent_still(struct perf_event *event, u8 reason)
{
	if (!event->still)
		event->resume_state = min(event->state, PERF_EVENT_STATE_INACTIVE);
	event->still |= reason;
}

/* The session can be looked up; call with perf_persistent_mutex held */
static inline bool
perf_persistent_session_lives(const struct perf_persistent_session *session)
{
	return session->nr_instances && !session->expired;
}

/* The instance of an event, or NULL; stable under perf_persistent_mutex or the context's mutex */
static inline struct perf_persistent_instance *
perf_persistent_instance_of(const struct perf_event *event)
{
	struct perf_persistent_event *pe = READ_ONCE(event->persistent);

	return pe ? READ_ONCE(pe->instance) : NULL;
}

/* The same in one session */
static inline struct perf_persistent_instance *
perf_persistent_instance_in(const struct perf_event *event,
			    const struct perf_persistent_session *session)
{
	struct perf_persistent_instance *inst = perf_persistent_instance_of(event);

	return inst && inst->session == session ? inst : NULL;
}

/* Check whether the file of @holder has attached the event, and nobody has detached it since. */
static inline bool perf_persistent_owns(const struct perf_persistent_holder *holder,
					const struct perf_event *event)
{
	u32 attached = READ_ONCE(holder->attached);

	return attached && !perf_persistent_instance_of(event) &&
	       attached == READ_ONCE(event->persistent->nr_detached);
}

static inline struct task_struct *perf_persistent_target(const struct perf_event *event)
{
	return event->attach_state & PERF_ATTACH_TASK ? event->hw.target : NULL;
}

static inline struct perf_cgroup *perf_persistent_cgroup(const struct perf_event *event)
{
#ifdef CONFIG_CGROUP_PERF
	return event->cgrp;
#else
	return NULL;
#endif
}

#endif /* _KERNEL_EVENTS_PERSISTENT_H */
