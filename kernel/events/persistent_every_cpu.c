// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: instances on CPUs that come later.
 *
 * Who detaches with PERF_DETACH_EVERY_CPU wants every CPU, and cannot know of
 * those to come. When one does, each member gets an instance there like those
 * that it has: with the group, the filter, the period and the sharing of
 * buffers. It is made with the credentials of the id's maker and counts against
 * the same limits.
 *
 * That is left to a work, because CPU hotplug must not take
 * perf_persistent_mutex. What fails is logged: nobody is there to be told.
 */
#include <linux/cpu.h>
#include <linux/cred.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/trace_events.h>
#include <linux/workqueue.h>

#include "internal.h"
#include "persistent.h"

/**
 * struct perf_model - an instance to make another one like
 * @event:    its event, of which this is a user
 * @copy:     the event on the new CPU, or NULL
 * @leader:   the model of its group's leader if that is in the id, or NULL
 * @member:   number of the event within the id
 * @nr_pages: data pages of its buffer
 * @is_there: the CPU had @copy already
 */
struct perf_model {
	struct perf_event	*event;
	struct perf_event	*copy;
	struct perf_model	*leader;
	u32			member;
	u32			nr_pages;
	bool			is_there;
};

/* When each CPU came online: CLOCK_BOOTTIME, ns */
static DEFINE_PER_CPU(u64, perf_cpu_online_since);

static struct perf_model *perf_models_find(struct perf_model *models, u32 nr,
					   const struct perf_instance *inst)
{
	for (u32 i = 0; i < nr; i++) {
		if (models[i].member == inst->member->nr &&
		    perf_event_cgroup(models[i].event) == perf_event_cgroup(inst->event))
			return &models[i];
	}

	return NULL;
}

static struct perf_instance *perf_instance_on(struct perf_persistent *pp,
					      const struct perf_instance *model, int cpu)
{
	struct perf_instance *inst;

	perf_instance_for_each(inst, pp) {
		if (inst->member == model->member && inst->cpu == cpu &&
		    perf_event_cgroup(inst->event) == perf_event_cgroup(model->event))
			return inst;
	}

	return NULL;
}

/*
 * Leaders were detached before their siblings, so there is a model already. One in
 * another id may be about to go, and is none of this id's.
 */
static struct perf_model *perf_models_find_leader(struct perf_model *models, u32 nr,
						  const struct perf_instance *sibling)
{
	struct perf_event *leader = sibling->event->group_leader;
	struct perf_instance *inst;

	perf_instance_for_each(inst, sibling->pp) {
		if (inst->event == leader)
			return perf_models_find(models, nr, inst);
	}

	return NULL;
}

static void perf_models_add(struct perf_model *models, u32 nr, struct perf_instance *inst,
			    struct perf_instance *there)
{
	struct perf_model *model = &models[nr];

	refcount_inc(&inst->event->users);
	model->event = inst->event;
	model->member = inst->member->nr;
	model->nr_pages = inst->rb ? data_page_nr(inst->rb) : 0;
	model->leader = perf_models_find_leader(models, nr, inst);
	if (there) {
		refcount_inc(&there->event->users);
		model->copy = there->event;
		model->is_there = true;
	}
}

/*
 * One instance of each member and cgroup, with that which @cpu may have already.
 */
static struct perf_model *perf_models_get(struct perf_persistent *pp, int cpu, u32 *nr_models)
{
	struct perf_instance *inst;
	struct perf_model *models;
	u32 n = 0;

	guard(mutex)(&perf_persistent_mutex);

	models = kvcalloc(max(pp->nr_instances, 1U), sizeof(*models), GFP_KERNEL_ACCOUNT);
	if (!models)
		return NULL;

	perf_instance_for_each(inst, pp) {
		if (!inst->task && !perf_models_find(models, n, inst))
			perf_models_add(models, n++, inst, perf_instance_on(pp, inst, cpu));
	}
	*nr_models = n;

	return models;
}

/* The registry keeps the copies that it has; others end here. */
static void perf_models_put(struct perf_model *models, u32 nr)
{
	while (nr--) {
		if (models[nr].copy)
			perf_event_put_user(models[nr].copy);
		perf_event_put_user(models[nr].event);
	}
	kvfree(models);
}

/*
 * What the maker of a probe said of it is in the maker's memory, and a program
 * may belong to somebody who will take it away again. That of a tracepoint is the
 * tracepoint's, and runs for the copy already.
 */
static bool perf_model_can_be_copied(struct perf_event *model)
{
#ifdef CONFIG_EVENT_TRACING
	if (model->tp_event)
		return model->attr.type == PERF_TYPE_TRACEPOINT;
#endif
#ifdef CONFIG_BPF_SYSCALL
	if (READ_ONCE(model->prog))
		return false;
#endif
	return true;
}

static int perf_copy_filter(struct perf_event *copy, struct perf_event *model)
{
	int err = 0;
#ifdef CONFIG_EVENT_TRACING
	struct perf_event_context *ctx;
	char *text = NULL;

	if (!model->tp_event)
		return 0;

	ctx = perf_event_ctx_lock(model);
	if (ftrace_profile_filter_string(model)) {
		text = kstrdup(ftrace_profile_filter_string(model), GFP_KERNEL);
		if (!text)
			err = -ENOMEM;
	}
	perf_event_ctx_unlock(model, ctx);

	if (text)
		err = ftrace_profile_set_filter(copy, copy->attr.config, text);
	kfree(text);
#endif
	return err;
}

/* The period may be another one than when the model was opened. */
static int perf_copy_period(struct perf_event *copy, struct perf_event *model)
{
	if (!is_sampling_event(model))
		return 0;

	return perf_event_period(copy, model->attr.freq ? model->attr.sample_freq :
							  model->attr.sample_period);
}

/* Share with the copy of an event that the model shares with. */
static void perf_copy_output(struct perf_model *models, u32 nr, struct perf_event *copy,
			     struct perf_event *model)
{
	struct perf_buffer *rb;

	for (u32 i = 0; i < nr; i++) {
		if (!models[i].copy || !model->rb || models[i].event->rb != model->rb)
			continue;

		rb = ring_buffer_get(models[i].copy);
		if (!rb)
			continue;
		scoped_guard(mutex, &copy->mmap_mutex)
			ring_buffer_attach(copy, rb);
		return;
	}
}

static int perf_copy_detach(struct perf_persistent *pp, const struct perf_model *model)
{
	struct perf_detach d = {
		.id		= pp->id,
		.member		= model->member,
		.nr_pages	= model->nr_pages,
		.memlock	= pp->memlock,
		.is_copy	= true,
	};
	int ret = perf_detach_event(model->copy, &d);

	return ret < 0 ? ret : 0;
}

/*
 * Make the instance of @models[nr]; those before are made already.
 */
static int perf_model_copy(struct perf_persistent *pp, struct perf_model *models, u32 nr, int cpu)
{
	struct perf_event *model = models[nr].event, *copy;
	struct perf_model *leader = models[nr].leader;
	int err;

	if (models[nr].is_there)
		return 0;

	if (!perf_model_can_be_copied(model))
		return -EOPNOTSUPP;

	err = perf_event_may_reopen(model);
	if (err)
		return err;

	if (model->group_leader != model && (!leader || !leader->copy))
		return -EINVAL;

	copy = perf_event_create_like(model, cpu, leader ? leader->copy : NULL);
	if (IS_ERR(copy))
		return PTR_ERR(copy);
	models[nr].copy = copy;

	err = perf_copy_filter(copy, model);
	if (!err)
		err = perf_copy_period(copy, model);
	if (!err) {
		perf_copy_output(models, nr, copy, model);
		err = perf_copy_detach(pp, &models[nr]);
	}
	if (err) {
		models[nr].copy = NULL;
		perf_event_release_kernel(copy);
	}

	return err;
}

/* Once all are there, so that a group starts as one */
static void perf_model_enable(const struct perf_model *model)
{
	struct perf_event_context *ctx = perf_event_ctx_lock(model->event);
	enum perf_event_state state;

	state = perf_event_is_held(model->event) ? model->event->resume_state :
						   model->event->state;
	perf_event_ctx_unlock(model->event, ctx);

	if (model->copy && !model->is_there && state >= PERF_EVENT_STATE_INACTIVE)
		perf_event_enable(model->copy);
}

static int perf_every_cpu_copy(struct perf_persistent *pp, int cpu)
{
	struct perf_model *models;
	u32 nr_models = 0;
	int err = 0;

	models = perf_models_get(pp, cpu, &nr_models);
	if (!models)
		err = -ENOMEM;

	for (u32 i = 0; i < nr_models; i++)
		err = perf_model_copy(pp, models, i, cpu) ?: err;
	/* Siblings first: their leader starts the group. */
	for (u32 i = nr_models; i--; )
		perf_model_enable(&models[i]);

	if (err)
		pr_notice_ratelimited("perf: persistent event %u has not all on CPU %d: error %d\n",
				      pp->id, cpu, err);
	perf_models_put(models, nr_models);

	return err;
}

static bool perf_every_cpu_wants(struct perf_persistent *pp)
{
	guard(mutex)(&perf_persistent_mutex);

	return pp->cred && !(pp->flags & PERF_PERSISTENT_UNCOMMITTED);
}

/* What fails now is tried again when the next CPU comes. */
static void perf_every_cpu_add(struct perf_persistent *pp)
{
	const struct cred *old = override_creds(pp->cred);
	u64 now = ktime_get_boottime_ns();
	int cpu, err = 0;

	for_each_online_cpu(cpu) {
		if (per_cpu(perf_cpu_online_since, cpu) > pp->filled)
			err = perf_every_cpu_copy(pp, cpu) ?: err;
	}
	if (!err)
		pp->filled = now;
	revert_creds(old);
}

static void perf_every_cpu_work(struct work_struct *work)
{
	struct perf_persistent *pp;
	u32 id = 0;

	while ((pp = perf_persistent_get_next(id))) {
		if (perf_every_cpu_wants(pp))
			perf_every_cpu_add(pp);
		id = pp->id + 1;
		kobject_put(&pp->kobj);
	}
}

static DECLARE_WORK(perf_every_cpu, perf_every_cpu_work);

/**
 * perf_every_cpu_fill - have those ids that want it put on new CPUs, soon
 *
 * Context: any
 */
void perf_every_cpu_fill(void)
{
	schedule_work(&perf_every_cpu);
}

/**
 * perf_every_cpu_online - note a CPU that came online
 * @cpu: CPU
 */
void perf_every_cpu_online(int cpu)
{
	per_cpu(perf_cpu_online_since, cpu) = ktime_get_boottime_ns();
	perf_every_cpu_fill();
}
