// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: holding, which lends their counters to others.
 *
 * An instance stands still while a file holds its member or its session. What
 * enables or disables it meanwhile takes effect afterwards. The gap is in the
 * times: nothing was enabled.
 */
#include <trace/events/perf_persistent.h>

#include "../internal.h"
#include "persistent.h"

/* On the CPU where the event counts, so that it does not stop for another reason. */
static void __perf_persistent_hold(struct perf_event *event, struct perf_cpu_context *cpuctx,
				   struct perf_event_context *ctx, void *info)
{
	perf_persistent_still(event, PERF_EVENT_HELD);
	__perf_event_disable(event, cpuctx, ctx, info);
}

/*
 * An event that has left its context counts nowhere. If it is parked, it enters
 * the context as it is now. If its task has exited, its children may go on, and
 * QUERY asks the event whether they are held.
 */
static void hold_one(struct perf_event *event)
{
	/* A child that exits leaves its context and the list at once. */
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
 * Have an event stand still, or go on. Its counter is free for others when this returns.
 * The caller holds perf_persistent_session::control.
 */
void perf_persistent_hold_event(struct perf_event *event, bool hold)
{
	struct perf_event_context *ctx = perf_event_ctx_lock(event);

	perf_event_for_each_child(event, hold ? hold_one : release_one);
	perf_event_ctx_unlock(event, ctx);
}

static bool wants_hold(struct perf_event *event)
{
	struct perf_persistent_instance *inst;

	guard(mutex)(&perf_persistent_mutex);

	inst = perf_persistent_instance_of(event);

	return inst && (inst->session->nr_holds[0] ||
			inst->session->nr_holds[inst->member->nr + 1]);
}

/*
 * Apply the holds of its session to an event; one that is in no session is not held. The
 * caller holds perf_persistent_session::control of the session that it is or was in.
 */
void perf_persistent_update_hold(struct perf_event *event)
{
	perf_persistent_hold_event(event, wants_hold(event));
}

static void update_holds(struct perf_persistent_session *session, u32 member)
{
	struct perf_event *event;

	for_each_persistent_event(event, session, member, true)
		perf_persistent_update_hold(event);
}

/* How many files hold it now */
static u32 add_hold(struct perf_persistent_session *session, u32 member, int add)
{
	lockdep_assert_held(&session->control);
	guard(mutex)(&perf_persistent_mutex);

	return session->nr_holds[member] += add;
}

/* All that a file held, in one walk over the instances */
static void release_session(struct perf_persistent_session *session, unsigned long *holds)
{
	u32 member;

	/* Others hold them yet. */
	for_each_set_bit(member, holds, PERF_PERSISTENT_MEMBERS + 1) {
		if (add_hold(session, member, -1))
			__clear_bit(member, holds);
	}
	if (bitmap_empty(holds, PERF_PERSISTENT_MEMBERS + 1))
		return;

	update_holds(session, 0);
	for_each_set_bit(member, holds, PERF_PERSISTENT_MEMBERS + 1)
		trace_persistent_release(session->id, member);
}

/*
 * Have instances of a member (its number + 1, or 0 for all) stand still while a file is
 * open, those that come later as well. Their counters are free for others when this returns.
 * The file holds no instances of another session.
 */
void perf_persistent_hold(struct perf_persistent_holder *holder,
			  struct perf_persistent_session *session, u32 member)
{
	lockdep_assert_held(&session->control);

	if (!holder->session) {
		kobject_get(&session->kobj);
		holder->session = session;
	}

	if (test_and_set_bit(member, holder->holds) || add_hold(session, member, 1) > 1)
		return;

	/* Before it stands still, so that it can be a record of its own. */
	trace_persistent_hold(session->id, member);
	update_holds(session, member);
}

/* The file of @holder is closed: what it held goes on. */
void perf_persistent_release(struct perf_persistent_holder *holder)
{
	struct perf_persistent_session *session = holder->session;

	if (!session)
		return;

	/* The mutex may be held for long, and most files hold nothing. */
	if (!bitmap_empty(holder->holds, PERF_PERSISTENT_MEMBERS + 1)) {
		scoped_guard(mutex, &session->control)
			release_session(session, holder->holds);
	}
	kobject_put(&session->kobj);
}
