// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: holding, which frees their counters for others.
 *
 * An instance stands still while a file holds its member or its session.
 * Enabling and disabling it meanwhile takes effect afterwards. The times show
 * the gap: held events are not enabled.
 */
#include <trace/events/perf_persistent.h>

#include "persistent.h"

/* Runs on the CPU of the event, so that nothing else can stop the event meanwhile. */
static void __perf_persistent_hold(struct perf_event *event, struct perf_cpu_context *cpuctx,
				   struct perf_event_context *ctx, void *info)
{
	perf_persistent_still(event, PERF_EVENT_HELD);
	__perf_event_disable(event, cpuctx, ctx, info);
}

/*
 * An event outside its context does not count: only mark it as held. A parked
 * event enters the context with the mark. If its task has exited, its children
 * may go on, and QUERY reads the mark here.
 */
static void hold_one(struct perf_event *event)
{
	/* With this mutex held, a child that exits leaves its context and the list at once. */
	lockdep_assert_held(&(event->parent ?: event)->child_mutex);

	if (READ_ONCE(event->still) & PERF_EVENT_HELD)
		return;

	if (event->attach_state & PERF_ATTACH_CONTEXT) {
		event_function_call(event, __perf_persistent_hold, NULL);
		return;
	}

	guard(raw_spinlock_irq)(&event->ctx->lock);
	perf_persistent_still(event, PERF_EVENT_HELD);
}

static void release_one(struct perf_event *event)
{
	bool resume;

	scoped_guard(raw_spinlock_irq, &event->ctx->lock) {
		resume = event->still == PERF_EVENT_HELD &&
			 event->resume_state == PERF_EVENT_STATE_INACTIVE;
		event->still &= ~PERF_EVENT_HELD;
	}

	if (resume)
		_perf_event_enable(event);
}

/*
 * Hold an event with its children, or let them go on. Held counters are free
 * when this returns. The caller holds perf_persistent_session::control.
 */
void perf_persistent_hold_event(struct perf_event *event, bool hold)
{
	guard(perf_event_ctx)(event);

	perf_event_for_each_child(event, hold ? hold_one : release_one);
}

/*
 * Let a new child inherit a hold and a changed period. Both are set under child_mutex,
 * so the child either is on the list by then, or inherits them here.
 */
void perf_persistent_inherit(struct perf_event *child, const struct perf_event *origin)
{
	const struct perf_persistent_event *persistent = READ_ONCE(child->parent->persistent);
	u64 period = child->parent->attr.sample_period;

	/* Ordinary events have the struct, too, if their driver has changed the attr. */
	if (likely(!persistent) || !READ_ONCE(persistent->nr_detached))
		return;

	/* The attr was copied before the change. */
	if (child->attr.sample_period != period) {
		child->attr.sample_period = period;
		if (!child->attr.freq)
			child->hw.sample_period = period;
		local64_set(&child->hw.period_left, 0);
	}

	if (!(origin->still & PERF_EVENT_HELD))
		return;

	child->still = PERF_EVENT_HELD;
	child->resume_state = origin->resume_state;
	child->state = PERF_EVENT_STATE_OFF;
}

/*
 * Apply the holds of its session to an event; an event in no session is not held.
 * The caller holds perf_persistent_session::control of its current or last session.
 */
void perf_persistent_update_hold(struct perf_event *event)
{
	struct perf_persistent_instance *inst;
	bool hold;

	scoped_guard(mutex, &perf_persistent_mutex) {
		inst = perf_persistent_instance_of(event);
		if (inst)
			lockdep_assert_held(&inst->session->control);
		hold = inst && (inst->session->nr_holds[0] ||
				inst->session->nr_holds[inst->member->nr + 1]);
	}
	perf_persistent_hold_event(event, hold);
}

/*
 * Groups stop as a whole if the leader is first, as it is in the order of the instances, and
 * go on as a whole if it is last.
 */
static void update_holds(struct perf_persistent_session *session, u32 member, bool go_on)
{
	struct perf_event *event;

	for_each_persistent_event(event, session, member, go_on) {
		if (READ_ONCE(event->group_leader) != event)
			perf_persistent_update_hold(event);
	}
	for_each_persistent_event(event, session, member, true)
		perf_persistent_update_hold(event);
}

/* Release all holds of a file, in one walk over the instances. */
static void release_session(struct perf_persistent_session *session, unsigned long *holds)
{
	u32 member;

	lockdep_assert_held(&session->control);

	/* Leave out those that other files still hold. */
	for_each_set_bit(member, holds, PERF_PERSISTENT_MEMBERS + 1) {
		if (--session->nr_holds[member])
			__clear_bit(member, holds);
	}
	if (bitmap_empty(holds, PERF_PERSISTENT_MEMBERS + 1))
		return;

	update_holds(session, 0, true);
	for_each_set_bit(member, holds, PERF_PERSISTENT_MEMBERS + 1)
		trace_persistent_release(session->id, member, 0);
}

/*
 * Hold the instances of a member (its number + 1, or 0 for all) while a file is
 * open, including those that come later. Their counters are free when this
 * returns.
 */
void perf_persistent_hold(struct perf_persistent_holder *holder, u32 member)
{
	struct perf_persistent_session *session = holder->session;

	lockdep_assert_held(&session->control);

	if (test_and_set_bit(member, holder->holds) || session->nr_holds[member]++)
		return;

	/* Before the hold, so that a held instance can record it. */
	trace_persistent_hold(session->id, member, PERF_PERSISTENT_SET_HOLD);
	update_holds(session, member, false);
}

/* The file of @holder is closed: release its holds. */
void perf_persistent_release(struct perf_persistent_holder *holder)
{
	struct perf_persistent_session *session = holder->session;

	/* Most files hold nothing: do not wait for the mutex, which others may hold for long. */
	if (!bitmap_empty(holder->holds, PERF_PERSISTENT_MEMBERS + 1)) {
		scoped_guard(mutex, &session->control)
			release_session(session, holder->holds);
	}
	kobject_put(&session->kobj);
}
