// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: QUERY.
 *
 * The answer is collected first, and copied out when no lock is held.
 */
#include <linux/cgroup.h>
#include <linux/cpu.h>
#include <linux/nsproxy.h>
#include <linux/pid_namespace.h>
#include <linux/sched/signal.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/timekeeping.h>
#include <linux/trace_events.h>

#include "persistent.h"

/**
 * struct query_answer - answer of QUERY, with its parts of variable size
 * @info:      the fixed part
 * @attr:      as the event was opened, without addresses
 * @label:     event text
 * @filter:    text of the filter, or NULL
 * @cgroup:    path of the cgroup, or NULL
 * @instances: of the session, up to the room that the caller has
 * @nr:	       number of @instances
 * @may_read_all: for perf_persistent_may_read()
 */
struct query_answer {
	struct perf_persistent_query	info;
	struct perf_event_attr		attr;
	char				label[PERF_PERSISTENT_LABEL_MAX];
	char				*filter;
	char				*cgroup;
	struct perf_persistent_info	*instances;
	u32				nr;
	int				may_read_all;
};

/*
 * The opened event may end while its children still count, because its task has
 * exited, or had swapped contexts with a child that has exited. The state is
 * final only when no child is left.
 */
static enum perf_event_state family_state(struct perf_event *event)
{
	enum perf_event_state state = READ_ONCE(event->state);
	struct perf_event *child;

	if (state != PERF_EVENT_STATE_EXIT && state != PERF_EVENT_STATE_DEAD)
		return state;

	guard(mutex)(&event->child_mutex);

	child = list_first_entry_or_null(&event->child_list, struct perf_event, child_list);

	return child ? READ_ONCE(child->state) : state;
}

/*
 * State of an event that was detached, as user space sees it: enum perf_persistent_state.
 * Takes perf_event::child_mutex.
 */
u32 perf_persistent_state(struct perf_event *event)
{
	enum perf_event_state state = family_state(event);
	int cpu = event->persistent->cpu;

	if (state == PERF_EVENT_STATE_REVOKED)
		return PERF_PERSISTENT_STATE_REVOKED;
	/* Report the end only when the count is final. */
	if (state <= PERF_EVENT_STATE_EXIT)
		return READ_ONCE(event->persistent->ended) ?: PERF_PERSISTENT_STATE_EXITED;
	/* A task's event is not parked; it waits for the task to come to the CPU. */
	if (perf_event_is_parked(event) ||
	    (perf_persistent_target(event) && cpu >= 0 && !cpu_online(cpu)))
		return PERF_PERSISTENT_STATE_OFFLINE;
	if (READ_ONCE(event->still) & PERF_EVENT_HELD)
		return PERF_PERSISTENT_STATE_HELD;
	if (state == PERF_EVENT_STATE_ERROR)
		return PERF_PERSISTENT_STATE_ERROR;
	if (state == PERF_EVENT_STATE_OFF)
		return PERF_PERSISTENT_STATE_DISABLED;

	return PERF_PERSISTENT_STATE_ENABLED;
}

/*
 * Remove the addresses from an attr that a reader will get. Breakpoints, and
 * tracepoints and probes (@is_trace), have addresses of the kernel, of user
 * space or of strings in config1 and config2. Other PMUs have settings there.
 */
void perf_persistent_scrub_attr(struct perf_event_attr *attr, bool is_trace)
{
	if (attr->type == PERF_TYPE_BREAKPOINT) {
		attr->bp_addr = 0;
	} else if (is_trace) {
		attr->config1 = 0;
		attr->config2 = 0;
	}
	attr->sig_data = 0;
}

/*
 * Fill in the numbers, the state, the CPU and the target in the caller's namespace: -1 without a
 * target, 0 if it is not visible there.
 */
static void info_identify(struct perf_persistent_info *info,
			  const struct perf_persistent_session *session, struct perf_event *event)
{
	struct task_struct *task = perf_persistent_target(event);
	struct perf_persistent_instance *inst;

	*info = (struct perf_persistent_info) {
		.cpu	= event->persistent->cpu,
		.state	= perf_persistent_state(event),
		.pid	= -1,
		.tgid	= -1,
	};

	guard(mutex)(&perf_persistent_mutex);

	/* The rights that were checked are those to this session; the event may have left it. */
	inst = perf_persistent_instance_in(event, session);
	if (inst) {
		info->id = session->id;
		info->instance = inst->nr;
		info->member = inst->member->nr;
	}
	/* A dead task has no pid, and a dead thread no process, but the instance has both. */
	if (task) {
		info->pid = task_pid_vnr(task) ?: (inst ? pid_vnr(inst->pid) : 0);
		info->tgid = inst ? pid_vnr(inst->tgid) : task_tgid_vnr(task);
	}
}

/* Hide the target from callers who may not open the event. */
static void info_hide(struct perf_persistent_info *info)
{
	info->pid = min(info->pid, 0);
	info->tgid = min(info->tgid, 0);
}

/* Takes perf_event_context::mutex. */
static void info_fill(struct perf_persistent_info *info, struct perf_event *event)
{
	const struct perf_persistent_origin origin = perf_persistent_origin_of(event);
	struct perf_buffer *rb __free(ring_buffer_put) = ring_buffer_get(event);
	u64 enabled, running;

	info->event_id = event->id;
	info->lost = atomic64_read(&event->lost_samples) - origin.lost;
	info->lost_before = origin.lost;
	if (origin.time)
		info->cleared = max(ktime_get_boottime_ns() - origin.time, 1ULL);
	info->count = perf_persistent_since(perf_event_read_value(event, &enabled, &running),
					    origin.count);
	info->time_enabled = perf_persistent_since(enabled, origin.enabled);
	info->time_running = perf_persistent_since(running, origin.running);

	if (!rb)
		return;
	info->buffer_id = rb->id;
	if (rb->id == origin.rb_id)
		info->buffer_start = origin.head;
}

static int fill_one(struct perf_persistent_info *info, struct perf_persistent_session *session,
		    struct perf_event *event, int *all)
{
	int err = perf_persistent_may_read(session, event, all) ?: security_perf_event_read(event);

	info_identify(info, session, event);
	if (err == -EACCES)
		info_hide(info);
	else if (!err)
		info_fill(info, event);

	return err == -EACCES ? 0 : err;
}

static int fill_instances(struct query_answer *a, struct perf_persistent_session *session, u32 room)
{
	struct perf_event *event;
	int err = 0;
	u32 left;

	scoped_guard(mutex, &perf_persistent_mutex)
		a->info.nr_instances = session->nr_instances;
	left = a->info.nr_instances;
	room = min(room, left);
	if (!room)
		return 0;

	a->instances = kvcalloc(room, sizeof(*a->instances), GFP_KERNEL_ACCOUNT);
	if (!a->instances)
		return -ENOMEM;

	/* Those that join meanwhile come last. Leave them out, or the walk might not end. */
	for_each_persistent_event(event, session, 0, !err && a->nr < room && left--) {
		err = fatal_signal_pending(current) ? -EINTR :
		      fill_one(&a->instances[a->nr], session, event, &a->may_read_all);
		/* Omit one that has left meanwhile. */
		if (a->instances[a->nr].id)
			a->nr++;
	}
	if (a->nr < room)
		a->info.nr_instances = a->nr;

	return err;
}

static void interrupt_cpu(void *info) { }

/*
 * Get the reserved head: records beyond it may be incomplete. The CPU that writes is
 * interrupted first, so it covers everything that was reserved there before the
 * call. Data that a reader copied before, and that the head has not passed, is
 * intact.
 */
static u64 reserved_head(struct perf_event *event, struct perf_buffer *rb)
{
	int cpu = event->cpu;

	/* Do not disturb a CPU that the task may never have been on. */
	if (perf_persistent_target(event) && !local_read(&rb->head))
		return 0;

	if (cpu < 0) {
		/*
		 * The only writer is a task. Whoever sees that it moved to its
		 * current or last CPU must also see what it wrote before: pairs
		 * with the barriers of the scheduler.
		 */
		smp_mb();
		cpu = task_cpu(event->hw.target);
	}

	/* This fails if the CPU is offline, and writes nothing. */
	smp_call_function_single(cpu, interrupt_cpu, NULL, 1);

	/* As wide as data_head is */
	return (unsigned long)local_read(&rb->head);
}

static void fill_buffer(struct query_answer *a, struct perf_event *event)
{
	struct perf_buffer *rb __free(ring_buffer_put) = ring_buffer_get(event);

	if (!rb)
		return;

	a->info.buffer_pages = data_page_nr(rb);
	a->info.buffer_head = reserved_head(event, rb);
	if (rb->overwrite)
		a->info.flags |= PERF_PERSISTENT_OVERWRITE;
}

static int fill_cgroup(struct query_answer *a, struct perf_event *event)
{
#ifdef CONFIG_CGROUP_PERF
	int len;

	if (!event->cgrp)
		return 0;

	char *path __free(kfree) = kzalloc(PATH_MAX, GFP_KERNEL_ACCOUNT);
	if (!path)
		return -ENOMEM;

	len = cgroup_path_ns(event->cgrp->css.cgroup, path, PATH_MAX, current->nsproxy->cgroup_ns);
	/* Omit a path that is too long, rather than fail. */
	if (len >= 0 && len < PATH_MAX - 1)
		a->cgroup = no_free_ptr(path);
#endif
	return 0;
}

static void fill_session(struct query_answer *a, struct perf_persistent_session *session)
{
	struct perf_persistent_query *info = &a->info;

	guard(mutex)(&perf_persistent_mutex);

	info->flags = session->flags;
	info->uid = from_kuid_munged(current_user_ns(), session->uid);
	info->gid = from_kgid_munged(current_user_ns(), session->gid);
	info->mode = session->mode;
	info->age = ktime_get_boottime_ns() - session->created;
	info->ttl = perf_persistent_session_time_left(session);
	strscpy(info->name, session->name, sizeof(info->name));
}

/* Takes perf_event_context::mutex. */
static void fill_instance(struct query_answer *a, const struct perf_persistent_session *session,
			  struct perf_event *event)
{
	struct perf_persistent_instance *inst;

	guard(perf_event_ctx)(event);
	guard(mutex)(&perf_persistent_mutex);

	inst = perf_persistent_instance_in(event, session);
	if (!inst)
		return;

	strscpy(a->label, inst->member->label);
	a->info.offline_count = inst->offline_count;
	a->info.offline_time = inst->offline_time;
	if (perf_event_is_parked(event))
		a->info.offline_time += ktime_get_boottime_ns() - inst->offline_since;
}

/* Fill in the parts that do not need the session: it may have ended. */
static int fill_event(struct query_answer *a, struct perf_event *event)
{
	char *filter = event->tp_event ? ftrace_profile_get_filter(event) : NULL;

	if (READ_ONCE(event->nr_siblings))
		a->info.flags |= PERF_PERSISTENT_GROUP_LEADER;
	if (READ_ONCE(event->group_leader) != event)
		a->info.flags |= PERF_PERSISTENT_GROUP_SIBLING;
	if (a->info.self.state >= PERF_PERSISTENT_STATE_EXITED)
		a->info.ended = a->info.self.state;
	a->attr = event->persistent->attr;
	perf_persistent_scrub_attr(&a->attr, event->tp_event);
	fill_buffer(a, event);

	if (IS_ERR(filter))
		return PTR_ERR(filter);
	a->filter = filter;

	return fill_cgroup(a, event);
}

static int fill_answer(struct query_answer *a, struct perf_event *event, u32 room)
{
	struct perf_persistent_session *session __free(perf_persistent_session) =
		perf_persistent_session_of(event);
	const struct perf_persistent_event *pe = READ_ONCE(event->persistent);
	int err;

	if (!session && !(pe && READ_ONCE(pe->ended)))
		return -EINVAL;

	info_identify(&a->info.self, session, event);
	err = security_perf_event_read(event);
	if (!err) {
		info_fill(&a->info.self, event);
		err = session ? perf_persistent_may_read(session, event, &a->may_read_all) :
				perf_persistent_may_open(event);
	}
	if (err == -EACCES) {
		info_hide(&a->info.self);
		return 0;
	}
	if (err || !session)
		return err ?: fill_event(a, event);

	fill_session(a, session);
	fill_instance(a, session, event);

	return fill_event(a, event) ?: fill_instances(a, session, room);
}

/* For a file of the session: its fields, and all instances, of which some may not be readable */
static int fill_session_answer(struct query_answer *a, struct perf_persistent_session *session,
			       u32 room)
{
	int err;

	a->info.self = (struct perf_persistent_info) {
		.id	= session->id,
		.cpu	= -1,
		.pid	= -1,
		.tgid	= -1,
	};
	fill_session(a, session);
	err = fill_instances(a, session, room);
	if (err)
		return err;

	guard(mutex)(&perf_persistent_mutex);

	return perf_persistent_session_lives(session) ? 0 : -ESRCH;
}

/*
 * Copy as much of a part as there is room for, and set *@room to the full size.
 * Both sizes are in units of @unit bytes.
 */
static int put_part(u64 addr, u32 *room, const void *src, u32 have, size_t unit)
{
	u32 n = addr ? min(*room, have) : 0;

	*room = have;
	if (!n)
		return 0;

	return copy_to_user(u64_to_user_ptr(addr), src, n * unit) ? -EFAULT : 0;
}

/* The same for a text, or NULL */
static int put_text(u64 addr, u32 *room, const char *text)
{
	return put_part(addr, room, text, text ? strlen(text) + 1 : 0, 1);
}

static int put_parts(struct query_answer *a, u32 room)
{
	struct perf_persistent_query *u = &a->info;

	return put_part(u->attr, &u->attr_size, &a->attr, a->attr.size, 1) ?:
	       put_text(u->label, &u->label_size, a->attr.size ? a->label : NULL) ?:
	       put_text(u->filter, &u->filter_size, a->filter) ?:
	       put_text(u->cgroup, &u->cgroup_size, a->cgroup) ?:
	       put_part(u->instances, &room, a->instances, a->nr, sizeof(*a->instances));
}

/*
 * Keep only the addresses and the room at each: clear all that is an answer. Returns the room for
 * instances.
 */
static u32 clear_answer(struct perf_persistent_query *info)
{
	u32 room = info->instances ? info->nr_instances : 0;

	memset(info, 0, offsetof(struct perf_persistent_query, attr_size));
	memset(info->name, 0, sizeof(info->name));
	info->buffer_head = 0;
	info->nr_instances = 0;

	return room;
}

/*
 * PERF_EVENT_IOC_QUERY_PERSISTENT. @event is NULL for a file of the session of @holder.
 * Waits for no lock that is held while user memory is accessed, but for event_mutex of tracepoints.
 * Documentation/userspace-api/perf_persistent.rst lists the errors.
 */
long perf_persistent_ioctl_query(const struct perf_persistent_holder *holder,
				 struct perf_event *event, unsigned int cmd, unsigned long arg)
{
	struct query_answer *a = kzalloc_obj(*a, GFP_KERNEL_ACCOUNT);
	u32 room;
	int err;

	if (!a)
		return -ENOMEM;
	a->may_read_all = 1;

	err = perf_persistent_copy_struct(&a->info, sizeof(a->info),
					  PERF_PERSISTENT_QUERY_SIZE_VER0, cmd, arg);
	room = clear_answer(&a->info);
	if (!err)
		err = event ? fill_answer(a, event, room) :
			      fill_session_answer(a, holder->session, room);
	if (!err)
		err = put_parts(a, room);
	if (!err)
		err = copy_struct_to_user((void __user *)arg, _IOC_SIZE(cmd), &a->info,
					  sizeof(a->info), NULL);

	kfree(a->filter);
	kfree(a->cgroup);
	kvfree(a->instances);
	kfree(a);

	return err;
}
