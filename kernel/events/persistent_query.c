// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: what a reader can ask about them.
 *
 * An answer is put together under perf_persistent_mutex and copied out after.
 */
#include <linux/cgroup.h>
#include <linux/cpu.h>
#include <linux/mm.h>
#include <linux/nsproxy.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched/user.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/timekeeping.h>
#include <linux/trace_events.h>
#include <linux/uaccess.h>

#include "internal.h"
#include "persistent.h"

/**
 * struct perf_query - an answer with its parts of variable size
 * @info:      the fixed part
 * @attr:      as the event was opened, without addresses
 * @label:     event text
 * @filter:    text of the filter, or NULL
 * @cgroup:    path of the cgroup, or NULL
 * @instances: @info.nr_instances of them
 * @sharers:   @info.nr_sharers of them
 */
struct perf_query {
	struct perf_persistent_query	info;
	struct perf_event_attr		attr;
	char				label[PERF_PERSISTENT_LABEL_MAX];
	char				*filter;
	char				*cgroup;
	struct perf_persistent_instance	*instances;
	struct perf_persistent_instance	*sharers;
};

/*
 * A task and its child may have swapped contexts, so that what was opened ended
 * with the child; and children go on when the task has ended. It is over when
 * nothing is left that counts for it.
 */
static enum perf_event_state perf_event_family_state(struct perf_event *event)
{
	enum perf_event_state state = READ_ONCE(event->state);
	struct perf_event *child;

	if (state != PERF_EVENT_STATE_EXIT)
		return state;

	guard(rcu)();
	child = list_first_or_null_rcu(&event->child_list, struct perf_event, child_list);

	return child ? READ_ONCE(child->state) : state;
}

/**
 * perf_instance_state - what an instance does
 * @inst: instance
 *
 * Return: enum perf_persistent_state
 */
u32 perf_instance_state(const struct perf_instance *inst)
{
	struct perf_event *event = inst->event;
	enum perf_event_state state = perf_event_family_state(event);

	if (state == PERF_EVENT_STATE_REVOKED)
		return PERF_PERSISTENT_STATE_REVOKED;
	if (state <= PERF_EVENT_STATE_EXIT)
		return PERF_PERSISTENT_STATE_EXITED;
	/* A task's event is not parked; it waits for the task to come to the CPU. */
	if (READ_ONCE(event->parked) || (inst->task && inst->cpu >= 0 && !cpu_online(inst->cpu)))
		return PERF_PERSISTENT_STATE_OFFLINE;
	if (READ_ONCE(event->nr_suspends))
		return PERF_PERSISTENT_STATE_SUSPENDED;
	if (state == PERF_EVENT_STATE_ERROR)
		return PERF_PERSISTENT_STATE_ERROR;
	if (state == PERF_EVENT_STATE_OFF)
		return PERF_PERSISTENT_STATE_DISABLED;

	return PERF_PERSISTENT_STATE_ENABLED;
}

/**
 * perf_persistent_time_left - how long an id has to live
 * @pp: id
 *
 * Return: ns, at least 1 even if the end is overdue; 0 for no limit
 */
u64 perf_persistent_time_left(const struct perf_persistent *pp)
{
	u64 now = ktime_get_boottime_ns();

	if (!pp->deadline)
		return 0;

	return pp->deadline > now ? pp->deadline - now : 1;
}

/**
 * perf_persistent_scrub_attr - take the addresses out of an attr
 * @attr: copy that a reader will get
 *
 * Breakpoints and probes have them in config1 and config2, as addresses of the
 * kernel, of user space or of strings there.
 */
void perf_persistent_scrub_attr(struct perf_event_attr *attr)
{
	if (attr->type == PERF_TYPE_BREAKPOINT) {
		attr->bp_addr = 0;
	} else if (attr->type >= PERF_TYPE_MAX) {
		attr->config1 = 0;
		attr->config2 = 0;
	}
	attr->sig_data = 0;
}

/*
 * The number of the target that the caller knows: -1 for none, 0 for one that is
 * not in its namespace. The dead keep theirs.
 */
static pid_t perf_query_pid(struct perf_event *event)
{
	struct task_struct *task = perf_event_target(event);
	pid_t pid;

	if (!task)
		return -1;

	pid = task_pid_vnr(task);
	if (!pid && event->persistent)
		pid = pid_vnr(event->persistent->pid);

	return pid;
}

static void perf_query_event(struct perf_persistent_instance *out, struct perf_event *event)
{
	struct perf_instance *inst = event->persistent;
	struct perf_buffer *rb;

	lockdep_assert_held(&perf_persistent_mutex);

	*out = (struct perf_persistent_instance){
		.cpu		= event->opened.cpu,
		.pid		= perf_query_pid(event),
		.event_id	= primary_event_id(event),
	};

	if (inst) {
		out->id = inst->pp->id;
		out->instance = inst->nr;
		out->member = inst->member->nr;
		out->state = perf_instance_state(inst);
	}

	rb = ring_buffer_get(event);
	if (rb) {
		out->buffer_id = rb->id;
		ring_buffer_put(rb);
	}
}

static int perf_query_instances(struct perf_query *q, struct perf_persistent *pp)
{
	struct perf_instance *inst;
	u32 n = 0;

	q->instances = kvcalloc(pp->nr_instances, sizeof(*q->instances), GFP_KERNEL_ACCOUNT);
	if (!q->instances)
		return -ENOMEM;

	perf_instance_for_each(inst, pp)
		perf_query_event(&q->instances[n++], inst->event);
	q->info.nr_instances = n;

	return 0;
}

/* Who comes between counting and listing is left out, as if it came later. */
static int perf_query_sharers(struct perf_query *q, struct perf_buffer *rb)
{
	u32 max = perf_buffer_count_events(rb), n = 0;
	struct perf_event *event;
	unsigned long flags;

	q->sharers = kvcalloc(max, sizeof(*q->sharers), GFP_KERNEL_ACCOUNT);
	if (!q->sharers)
		return -ENOMEM;

	/* RCU would keep the events, but not their targets. */
	spin_lock_irqsave(&rb->event_lock, flags);
	list_for_each_entry(event, &rb->event_list, rb_entry) {
		if (n == max)
			break;
		perf_query_event(&q->sharers[n++], event);
	}
	spin_unlock_irqrestore(&rb->event_lock, flags);
	q->info.nr_sharers = n;

	return 0;
}

struct perf_buffer_head {
	struct perf_buffer	*rb;
	u64			head;
};

static void perf_buffer_read_head(void *info)
{
	struct perf_buffer_head *h = info;

	h->head = local_read(&h->rb->head);
}

/*
 * The reserved head, beyond which a record may be half written. Read on the CPU
 * that writes, it covers everything that was reserved there before the call:
 * whatever a reader has copied until now and the head has not passed is whole.
 */
static u64 perf_buffer_reserved_head(struct perf_event *event, struct perf_buffer *rb)
{
	struct perf_buffer_head h = { .rb = rb };
	int cpu = event->cpu;

	if (cpu < 0) {
		/*
		 * The only writer is a task. What it wrote before it came to the CPU
		 * where it is now, or was last, is as visible as its move there: the
		 * scheduler's barriers pair with this one.
		 */
		smp_mb();
		cpu = task_cpu(event->hw.target);
	}

	/* A CPU that is offline writes nothing. */
	if (smp_call_function_single(cpu, perf_buffer_read_head, &h, 1))
		perf_buffer_read_head(&h);

	return h.head;
}

static int perf_query_buffer(struct perf_query *q, struct perf_event *event)
{
	struct perf_buffer *rb = ring_buffer_get(event);
	int err;

	if (!rb)
		return 0;

	q->info.buffer_pages = data_page_nr(rb);
	q->info.buffer_head = perf_buffer_reserved_head(event, rb);
	if (rb->overwrite)
		q->info.flags |= PERF_PERSISTENT_OVERWRITE;
	err = perf_query_sharers(q, rb);
	ring_buffer_put(rb);

	return err;
}

static int perf_query_filter(struct perf_query *q, struct perf_event *event)
{
	struct perf_event_context *ctx;
	const char *text = NULL;
	int err = 0;

	ctx = perf_event_ctx_lock(event);
#ifdef CONFIG_EVENT_TRACING
	if (event->tp_event)
		text = ftrace_profile_filter_string(event);
#endif
	if (text) {
		q->filter = kstrdup(text, GFP_KERNEL_ACCOUNT);
		if (!q->filter)
			err = -ENOMEM;
	}
	perf_event_ctx_unlock(event, ctx);

	return err;
}

static int perf_query_cgroup(struct perf_query *q, struct perf_event *event)
{
#ifdef CONFIG_CGROUP_PERF
	int err;

	if (!event->cgrp)
		return 0;

	q->cgroup = kzalloc(PATH_MAX, GFP_KERNEL_ACCOUNT);
	if (!q->cgroup)
		return -ENOMEM;

	err = cgroup_path_ns(event->cgrp->css.cgroup, q->cgroup, PATH_MAX,
			     current->nsproxy->cgroup_ns);
	if (err < 0)
		return err;
#endif
	return 0;
}

static void perf_query_offline(struct perf_query *q, struct perf_instance *inst)
{
	struct perf_event *event = inst->event;
	struct perf_event_context *ctx = perf_event_ctx_lock(event);

	q->info.offline_count = inst->offline_count;
	q->info.offline_time = inst->offline_time;
	if (event->parked)
		q->info.offline_time += ktime_get_boottime_ns() - inst->offline_since;
	perf_event_ctx_unlock(event, ctx);
}

/*
 * All that is left of an event whose time to live ran out, for those who have it
 * open and want to know why it reports POLLHUP, and to read the end of its buffer.
 */
static int perf_query_ended(struct perf_query *q, struct perf_event *event)
{
	perf_query_event(&q->info.self, event);
	q->info.self.state = event->ended;
	q->info.ended = event->ended;
	q->info.lost = atomic64_read(&event->lost_samples);
	q->attr = perf_event_opened_attr(event);
	perf_persistent_scrub_attr(&q->attr);

	return perf_query_buffer(q, event);
}

static int perf_query_fill(struct perf_query *q, struct perf_event *event)
{
	struct perf_persistent_query *info = &q->info;
	struct perf_instance *inst;
	struct perf_persistent *pp;
	int err;

	guard(mutex)(&perf_persistent_mutex);

	inst = event->persistent;
	if (!inst) {
		if (!event->ended)
			return -EINVAL;
		return perf_query_ended(q, event);
	}
	pp = inst->pp;

	perf_query_event(&info->self, event);
	perf_query_offline(q, inst);
	if (info->self.state == PERF_PERSISTENT_STATE_EXITED ||
	    info->self.state == PERF_PERSISTENT_STATE_REVOKED)
		info->ended = info->self.state;
	info->flags = pp->flags;
	if (event->nr_siblings)
		info->flags |= PERF_PERSISTENT_GROUP_LEADER;
	if (event->group_leader != event)
		info->flags |= PERF_PERSISTENT_GROUP_SIBLING;
	info->owner = from_kuid_munged(current_user_ns(), pp->owner);
	info->age = ktime_get_boottime_ns() - pp->created;
	info->ttl = perf_persistent_time_left(pp);
	info->lost = atomic64_read(&event->lost_samples);
	strscpy(info->name, pp->name->text, sizeof(info->name));

	q->attr = inst->member->attr;
	perf_persistent_scrub_attr(&q->attr);
	strscpy(q->label, inst->member->label, sizeof(q->label));

	err = perf_query_instances(q, pp);
	if (!err)
		err = perf_query_filter(q, event);
	if (!err)
		err = perf_query_cgroup(q, event);
	if (!err)
		err = perf_query_buffer(q, event);

	return err;
}

/*
 * As much of a part as there is room for. On return @room is what all of it
 * takes, in the unit that @room and @have came in.
 */
static int perf_query_put(u64 addr, u32 *room, const void *src, u32 have, size_t unit)
{
	u32 n = addr ? min(*room, have) : 0;

	*room = have;
	if (!n)
		return 0;

	return copy_to_user(u64_to_user_ptr(addr), src, n * unit) ? -EFAULT : 0;
}

/* The same for a text, or for none */
static int perf_query_put_text(u64 addr, u32 *room, const char *text)
{
	return perf_query_put(addr, room, text, text ? strlen(text) + 1 : 0, 1);
}

static int perf_query_put_parts(struct perf_query *q, struct perf_persistent_query *u)
{
	int err;

	err = perf_query_put(u->attr, &u->attr_size, &q->attr, sizeof(q->attr), 1);
	if (!err)
		err = perf_query_put_text(u->label, &u->label_size, q->label);
	if (!err)
		err = perf_query_put_text(u->filter, &u->filter_size, q->filter);
	if (!err)
		err = perf_query_put_text(u->cgroup, &u->cgroup_size, q->cgroup);
	if (!err)
		err = perf_query_put(u->instances, &u->nr_instances, q->instances,
				     q->info.nr_instances, sizeof(*q->instances));
	if (!err)
		err = perf_query_put(u->sharers, &u->nr_sharers, q->sharers,
				     q->info.nr_sharers, sizeof(*q->sharers));
	if (err)
		return err;

	q->info.attr = u->attr;
	q->info.label = u->label;
	q->info.filter = u->filter;
	q->info.cgroup = u->cgroup;
	q->info.instances = u->instances;
	q->info.sharers = u->sharers;
	q->info.attr_size = u->attr_size;
	q->info.label_size = u->label_size;
	q->info.filter_size = u->filter_size;
	q->info.cgroup_size = u->cgroup_size;
	q->info.size = u->size;

	return 0;
}

static int perf_query_put_info(struct perf_query *q, unsigned long arg)
{
	void __user *uarg = (void __user *)arg;
	size_t usize = q->info.size, size = sizeof(q->info);

	if (copy_to_user(uarg, &q->info, min(usize, size)))
		return -EFAULT;
	if (usize > size && clear_user(uarg + size, usize - size))
		return -EFAULT;

	return 0;
}

/**
 * perf_persistent_query - PERF_EVENT_IOC_QUERY_PERSISTENT
 * @event: event that the caller has open
 * @arg:   address of a struct perf_persistent_query
 *
 * Context: may sleep; takes perf_persistent_mutex.
 * Return: 0, -EINVAL for an event that neither is persistent nor was until its
 * time ran out, or a struct that is too small, -EFAULT, -E2BIG, -ENOMEM.
 */
long perf_persistent_query(struct perf_event *event, unsigned long arg)
{
	struct perf_persistent_query u = {};
	struct perf_query *q;
	int err;

	err = perf_persistent_copy_arg(&u, sizeof(u), PERF_PERSISTENT_QUERY_SIZE_VER0, arg);
	if (err)
		return err;

	q = kzalloc_obj(*q, GFP_KERNEL_ACCOUNT);
	if (!q)
		return -ENOMEM;

	err = perf_query_fill(q, event);
	if (!err)
		err = perf_query_put_parts(q, &u);
	if (!err)
		err = perf_query_put_info(q, arg);

	kfree(q->filter);
	kfree(q->cgroup);
	kvfree(q->instances);
	kvfree(q->sharers);
	kfree(q);

	return err;
}

/**
 * perf_persistent_show_fdinfo - /proc/PID/fdinfo/FD of a perf event
 * @m:	  where to
 * @file: an open perf event
 *
 * Shows what sysfs shows of the id, and which instance it is; nothing for an
 * event that is not persistent.
 */
void perf_persistent_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct perf_event *event = file->private_data;
	struct perf_instance *inst;

	guard(mutex)(&perf_persistent_mutex);

	inst = event->persistent;
	if (!inst)
		return;

	seq_printf(m, "persistent-id:\t%u\n", inst->pp->id);
	seq_printf(m, "persistent-name:\t%s\n", inst->pp->name->text);
	seq_printf(m, "persistent-member:\t%u\n", inst->member->nr);
	seq_printf(m, "persistent-instance:\t%u\n", inst->nr);
	seq_printf(m, "persistent-owner:\t%u\n",
		   from_kuid_munged(seq_user_ns(m), inst->pp->owner));
	seq_printf(m, "persistent-cpu:\t%d\n", inst->cpu);
	seq_printf(m, "persistent-state:\t%u\n", perf_instance_state(inst));
	seq_printf(m, "persistent-time-left:\t%llu\n", perf_persistent_time_left(inst->pp));
}
