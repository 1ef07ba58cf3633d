// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: CPUs that go offline and come back.
 *
 * An ordinary event ends to count with its CPU, and its group falls apart. A
 * persistent one is parked: out of its context, as it must be, but with its
 * group, its count, its buffer and what it is to do when the CPU is back.
 *
 * Going offline takes no lock of the registry. perf_event_exit_cpu() parks what
 * it finds under perf_event_context::mutex, after all PMUs that move their
 * events elsewhere have done so. Coming back is a hotplug state of its own,
 * after those in which PMUs set the CPU up.
 *
 * With PERF_FLAG_OFFLINE_CPU an event is opened for a CPU that is offline. It is
 * parked from the beginning, after all checks of perf_event_open(), so that the
 * kernel never has to make an event with the rights of somebody else.
 */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/init.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/timekeeping.h>

#include "internal.h"
#include "persistent.h"

/* By perf_event::migrate_entry; protected by the mutex of the CPU's context */
static DEFINE_PER_CPU(struct list_head, perf_parked_events);

/**
 * perf_event_park_new - park a new event if its CPU is not there yet
 * @event:  event of a CPU, not yet in its context
 * @leader: leader of its group, or NULL
 * @online: whether the context of the CPU takes events
 * @flags:  of perf_event_open(2)
 *
 * Between @online becoming true and perf_parked_cpu_online(), an event follows
 * its leader.
 *
 * Context: with perf_event_context::mutex of the CPU held.
 * Return: 0, or -ENODEV if there is no such CPU or the caller does not want one
 * that is offline
 */
int perf_event_park_new(struct perf_event *event, const struct perf_event *leader,
			bool online, unsigned long flags)
{
	if (online && !(leader && leader->parked))
		return 0;

	if (!(flags & PERF_FLAG_OFFLINE_CPU) || !cpu_present(event->cpu))
		return -ENODEV;

	event->parked = true;
	event->resume_state = event->state;
	event->state = PERF_EVENT_STATE_OFF;

	return 0;
}

/**
 * perf_event_list_parked - have an event installed when its CPU comes
 * @event: event that is parked
 *
 * Context: with perf_event_context::mutex of the CPU held.
 */
void perf_event_list_parked(struct perf_event *event)
{
	list_add_tail(&event->migrate_entry, per_cpu_ptr(&perf_parked_events, event->cpu));
}

/**
 * perf_event_park - keep an event whose CPU goes offline
 * @event: event in the context of this CPU, about to be removed from it
 *
 * Context: on that CPU, with perf_event_context::lock held, and the mutex by
 * whoever called for it.
 * Return: false if the event is not persistent and has to go
 */
bool perf_event_park(struct perf_event *event)
{
	struct perf_instance *inst = event->persistent;

	lockdep_assert_held(&event->ctx->lock);

	if (!inst)
		return false;

	if (!perf_event_is_held(event))
		event->resume_state = perf_event_resume_state(event);
	event->parked = true;
	perf_event_list_parked(event);

	inst->offline_since = ktime_get_boottime_ns();
	inst->offline_count++;

	return true;
}

static void perf_event_unpark(struct perf_event *event, struct perf_event_context *ctx)
{
	struct perf_instance *inst = event->persistent;

	perf_event_forget_parked(event);
	if (event->state <= PERF_EVENT_STATE_REVOKED)
		return;
	event->suspended = event->nr_suspends;
	if (!event->suspended)
		event->state = event->resume_state;

	/* It may have been attached meanwhile. */
	if (inst)
		inst->offline_time += ktime_get_boottime_ns() - inst->offline_since;

	perf_install_in_context(ctx, event, event->cpu);
}

/*
 * Siblings first: a leader schedules its whole group.
 */
static int perf_parked_cpu_online(unsigned int cpu)
{
	struct list_head *parked = per_cpu_ptr(&perf_parked_events, cpu);
	struct perf_event_context *ctx = perf_cpu_ctx(cpu);
	struct perf_event *event, *tmp;

	guard(mutex)(&ctx->mutex);

	list_for_each_entry_safe(event, tmp, parked, migrate_entry) {
		if (event->group_leader != event)
			perf_event_unpark(event, ctx);
	}
	list_for_each_entry_safe(event, tmp, parked, migrate_entry)
		perf_event_unpark(event, ctx);

	return 0;
}

static int __init perf_persistent_hotplug_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		INIT_LIST_HEAD(per_cpu_ptr(&perf_parked_events, cpu));

	return cpuhp_setup_state_nocalls(CPUHP_AP_PERF_PERSISTENT_ONLINE,
					 "perf/persistent:online",
					 perf_parked_cpu_online, NULL);
}
core_initcall(perf_persistent_hotplug_init);
