// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: CPUs that go offline and come back.
 *
 * When a CPU goes offline, ordinary events stop counting and their groups fall apart. A
 * persistent event is parked: it leaves its context, but keeps its group, count and buffer,
 * and the state to go on with.
 *
 * PERF_FLAG_OFFLINE_CPU opens an event for an offline CPU. The event is parked from the
 * beginning, after all checks of perf_event_open(), so that the kernel never has to create
 * an event with the rights of another process.
 *
 * If a PMU without a scope chooses the CPU of its events itself, it does so only when they
 * are opened, and might choose another CPU later. Its events end like ordinary ones.
 *
 * Hotplug takes no lock of the registry. perf_event_exit_cpu() parks events under
 * perf_event_context::mutex, after all PMUs that move their events to another CPU have done
 * so. Unparking has a hotplug state of its own, after the states in which PMUs set the CPU
 * up.
 */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/init.h>
#include <linux/timekeeping.h>

#include <trace/events/perf_persistent.h>

#include "persistent.h"

static bool can_park(const struct perf_event *event)
{
	return event->pmu->task_ctx_nr != perf_invalid_context ||
	       event->pmu->scope != PERF_PMU_SCOPE_NONE;
}

/**
 * perf_persistent_park_new - park a new event whose CPU is offline
 * @event: event of a CPU, not yet in its context
 * @flags: of perf_event_open(2)
 *
 * Context: with perf_event_context::mutex of the CPU held.
 * Return: 0, or -ENODEV if the CPU is not present, or is offline and the
 * caller does not want that, or -EOPNOTSUPP if the PMU is exclusive or chooses
 * the CPU by itself
 */
int perf_persistent_park_new(struct perf_event *event, unsigned long flags)
{
	lockdep_assert_held(&perf_cpu_ctx(event->cpu)->ctx.mutex);

	if (!(flags & PERF_FLAG_OFFLINE_CPU) || !cpu_present(event->cpu))
		return -ENODEV;

	/* Checks for exclusive events would miss a parked one. */
	if ((event->pmu->capabilities & PERF_PMU_CAP_EXCLUSIVE) || !can_park(event))
		return -EOPNOTSUPP;

	perf_persistent_still(event, PERF_EVENT_PARKED);
	event->state = PERF_EVENT_STATE_OFF;

	return 0;
}

/**
 * perf_persistent_park - park the persistent events of a CPU that goes offline
 * @ctx: context of this CPU, from which all events are about to be removed
 *
 * They are only marked here, so that any of them can still record the reports.
 *
 * Context: on that CPU, with perf_event_context::lock held; the caller of the
 * cross-call holds the mutex.
 */
void perf_persistent_park(struct perf_event_context *ctx)
{
	struct perf_persistent_instance *inst;
	struct perf_event *event;

	lockdep_assert_held(&ctx->lock);

	list_for_each_entry(event, &ctx->event_list, event_entry) {
		inst = perf_persistent_instance_of(event);
		if (!inst || !can_park(event))
			continue;
		trace_persistent_offline(inst);
		perf_persistent_still(event, PERF_EVENT_PARKED);
		list_add_tail(&event->migrate_entry, &perf_cpu_ctx(event->cpu)->parked);
		inst->offline_since = ktime_get_boottime_ns();
		inst->offline_count++;
	}
}

/*
 * Unpark an event, and install it unless it has ended meanwhile. @online lists the installed
 * events, linked by perf_event::migrate_entry.
 */
static void unpark_event(struct perf_event *event, struct perf_event_context *ctx,
			 struct list_head *online)
{
	/* It may have been attached meanwhile. */
	struct perf_persistent_instance *inst = perf_persistent_instance_of(event);

	lockdep_assert_held(&ctx->mutex);

	scoped_guard(raw_spinlock_irq, &ctx->lock) {
		perf_persistent_forget_parked(event);
		if (inst)
			inst->offline_time += ktime_get_boottime_ns() - inst->offline_since;
		if (event->state <= PERF_EVENT_STATE_REVOKED)
			return;
		/* An event that went into error meanwhile stays in error until it is enabled. */
		if (!event->still && event->state > PERF_EVENT_STATE_ERROR)
			event->state = event->resume_state;
	}

	perf_install_in_context(ctx, event, event->cpu);
	list_add_tail(&event->migrate_entry, online);
}

/*
 * Siblings first, because a leader schedules its whole group. Report them when
 * all are installed: any of them may record the reports.
 */
static int context_online(unsigned int cpu)
{
	struct list_head *parked = &perf_cpu_ctx(cpu)->parked;
	struct perf_event_context *ctx = &perf_cpu_ctx(cpu)->ctx;
	struct perf_persistent_instance *inst;
	struct perf_event *event, *tmp;
	LIST_HEAD(online);

	guard(mutex)(&ctx->mutex);

	list_for_each_entry_safe(event, tmp, parked, migrate_entry) {
		if (event->group_leader != event)
			unpark_event(event, ctx, &online);
	}
	list_for_each_entry_safe(event, tmp, parked, migrate_entry)
		unpark_event(event, ctx, &online);

	list_for_each_entry_safe(event, tmp, &online, migrate_entry) {
		list_del(&event->migrate_entry);
		inst = perf_persistent_instance_of(event);
		if (inst)
			trace_persistent_online(inst);
	}

	return 0;
}

static int __init hotplug_init(void)
{
	return cpuhp_setup_state_nocalls(CPUHP_AP_PERF_PERSISTENT_ONLINE, "perf/persistent:online",
					 context_online, NULL);
}
core_initcall(hotplug_init);
