// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: KUnit tests of a PMU that goes away.
 *
 * User space cannot unregister any PMU of a virtual machine, so these tests
 * register one of their own.
 */
#include <kunit/test.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/kthread.h>

#include "persistent.h"

static int revoke_event_init(struct perf_event *event)
{
	return event->attr.type == event->pmu->type ? 0 : -ENOENT;
}

static int revoke_add(struct perf_event *event, int flags)
{
	return 0;
}

/* revoke_del() acts like an NMI that reaches a limit of the event before the PMU is stopped. */
static bool revoke_disables;

static void revoke_del(struct perf_event *event, int flags)
{
	if (revoke_disables)
		event->pending_disable = 1;
}

static void revoke_start(struct perf_event *event, int flags) { }
static void revoke_stop(struct perf_event *event, int flags) { }

/* Calls of pmu->read() */
static atomic_t revoke_reads;

static void revoke_read(struct perf_event *event)
{
	atomic_inc(&revoke_reads);
}

static struct pmu revoke_pmu;

/* State that revoke_exit() has to undo */
static bool revoke_is_registered, revoke_is_offline;
static struct task_struct *revoke_reader_task;
static struct perf_event *revoke_event;

/* Register the PMU and detach an event of it on @cpu. */
static struct perf_event *revoke_make_with(struct kunit *test, int cpu, unsigned int scope)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };
	const struct perf_persistent_detach d = { };
	struct perf_event *event;

	revoke_pmu = (struct pmu){
		.task_ctx_nr	= perf_invalid_context,
		.scope		= scope,
		.event_init	= revoke_event_init,
		.add		= revoke_add,
		.del		= revoke_del,
		.start		= revoke_start,
		.stop		= revoke_stop,
		.read		= revoke_read,
	};
	KUNIT_ASSERT_EQ(test, perf_pmu_register(&revoke_pmu, "kunit_revoke", -1), 0);
	revoke_is_registered = true;

	attr.type = revoke_pmu.type;
	event = perf_event_create_kernel_counter(&attr, cpu, NULL, NULL, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(event));
	revoke_event = event;
	/* As if a process had opened it and exited */
	event->owner = NULL;
	KUNIT_ASSERT_GT(test, perf_persistent_detach(event, &d), 0);

	return event;
}

static struct perf_event *revoke_make(struct kunit *test, int cpu)
{
	return revoke_make_with(test, cpu, PERF_PMU_SCOPE_SYS_WIDE);
}

/* Take the event out of the registry. */
static void revoke_attach(struct perf_event *event)
{
	struct perf_persistent_session *session = event->persistent->instance->session;

	perf_persistent_instance_finish(perf_persistent_instance_unlink(session, event, 0));
}

/* Attach the event and close it. */
static void revoke_end(void)
{
	struct perf_event *event = revoke_event;

	revoke_event = NULL;
	if (perf_persistent_instance_of(event))
		revoke_attach(event);
	perf_persistent_close(event);
}

static int revoke_unregister(void)
{
	revoke_is_registered = false;

	return perf_pmu_unregister(&revoke_pmu);
}

/* The event is kept, and its state says why it no longer counts. */
static void perf_persistent_revoke_test(struct kunit *test)
{
	struct perf_event *event = revoke_make(test, 0);

	KUNIT_EXPECT_EQ(test, perf_persistent_state(event), PERF_PERSISTENT_STATE_ENABLED);
	KUNIT_EXPECT_EQ(test, revoke_unregister(), 0);
	KUNIT_EXPECT_EQ(test, perf_persistent_state(event), PERF_PERSISTENT_STATE_REVOKED);
}

/* An event that was parked meanwhile does not come back with its CPU. */
static void perf_persistent_revoke_parked_test(struct kunit *test)
{
	struct perf_event *event;

	if (!cpu_online(1))
		kunit_skip(test, "needs a second CPU");

	event = revoke_make(test, 1);
	KUNIT_ASSERT_EQ(test, remove_cpu(1), 0);
	revoke_is_offline = true;
	KUNIT_EXPECT_EQ(test, perf_persistent_state(event), PERF_PERSISTENT_STATE_OFFLINE);
	KUNIT_EXPECT_EQ(test, revoke_unregister(), 0);
	KUNIT_ASSERT_EQ(test, add_cpu(1), 0);
	revoke_is_offline = false;
	KUNIT_EXPECT_EQ(test, perf_persistent_state(event), PERF_PERSISTENT_STATE_REVOKED);
	KUNIT_EXPECT_FALSE(test, event->attach_state & PERF_ATTACH_CONTEXT);
}

/* An event whose driver chose the CPU does not go on when that CPU comes back. */
static void perf_persistent_driver_places_test(struct kunit *test)
{
	struct perf_event *event;

	if (!cpu_online(1))
		kunit_skip(test, "needs a second CPU");

	event = revoke_make_with(test, 1, PERF_PMU_SCOPE_NONE);
	KUNIT_ASSERT_EQ(test, remove_cpu(1), 0);
	revoke_is_offline = true;
	KUNIT_EXPECT_FALSE(test, perf_event_is_parked(event));
	KUNIT_ASSERT_EQ(test, add_cpu(1), 0);
	revoke_is_offline = false;
	KUNIT_EXPECT_FALSE(test, event->attach_state & PERF_ATTACH_CONTEXT);
	KUNIT_EXPECT_EQ(test, perf_persistent_state(event), PERF_PERSISTENT_STATE_DISABLED);
}

/* An event whose PMU is gone already cannot be detached. */
static void perf_persistent_revoked_before_test(struct kunit *test)
{
	const struct perf_persistent_detach d = { };
	struct perf_event *event = revoke_make(test, 0);

	KUNIT_EXPECT_EQ(test, revoke_unregister(), 0);
	revoke_attach(event);
	KUNIT_EXPECT_EQ(test, perf_persistent_detach(event, &d), -ENODEV);
}

static void *exclusive_setup_aux(struct perf_event *event, void **pages, int nr, bool overwrite)
{
	return NULL;
}

/* An event of a PMU with AUX areas, or with one event at a time, cannot be detached. */
static void perf_persistent_exclusive_test(struct kunit *test)
{
	const struct perf_persistent_detach d = { };
	struct perf_event *event = revoke_make(test, 0);

	revoke_attach(event);
	revoke_pmu.setup_aux = exclusive_setup_aux;
	KUNIT_EXPECT_EQ(test, perf_persistent_detach(event, &d), -EOPNOTSUPP);
	revoke_pmu.setup_aux = NULL;
	revoke_pmu.capabilities |= PERF_PMU_CAP_EXCLUSIVE;
	KUNIT_EXPECT_EQ(test, perf_persistent_detach(event, &d), -EOPNOTSUPP);
	revoke_pmu.capabilities &= ~PERF_PMU_CAP_EXCLUSIVE;
	KUNIT_EXPECT_GT(test, perf_persistent_detach(event, &d), 0);
}

static int revoke_reader(void *data)
{
	u64 enabled, running;

	while (!kthread_should_stop()) {
		perf_event_read_value(data, &enabled, &running);
		cond_resched();
	}

	return 0;
}

/* Read the event until kthread_stop(); it has been read once. */
static void revoke_read_start(struct kunit *test, struct perf_event *event)
{
	struct task_struct *reader = kthread_run(revoke_reader, event, "revoke_reader");

	KUNIT_ASSERT_FALSE(test, IS_ERR(reader));
	revoke_reader_task = reader;
	atomic_set(&revoke_reads, 0);
	for (int i = 0; i < 500 && !atomic_read(&revoke_reads); i++)
		msleep(20);
	KUNIT_ASSERT_NE(test, atomic_read(&revoke_reads), 0);
}

static int revoke_read_stop(void)
{
	struct task_struct *reader = revoke_reader_task;

	revoke_reader_task = NULL;

	return kthread_stop(reader);
}

/* Reading an event while its PMU goes away does not use data of that PMU. */
static void perf_persistent_revoke_read_test(struct kunit *test)
{
	for (int i = 0; i < 20; i++) {
		revoke_read_start(test, revoke_make(test, 0));
		KUNIT_EXPECT_EQ(test, revoke_unregister(), 0);
		KUNIT_EXPECT_EQ(test, revoke_read_stop(), 0);
		revoke_end();
	}
}

/* An event that is disabled while it is being stopped stays disabled after the hold. */
static void perf_persistent_disabled_in_stop_test(struct kunit *test)
{
	struct perf_event *event = revoke_make(test, 0);

	revoke_disables = true;
	perf_persistent_hold_event(event, true);
	revoke_disables = false;
	KUNIT_EXPECT_EQ(test, perf_persistent_state(event), PERF_PERSISTENT_STATE_HELD);
	perf_persistent_hold_event(event, false);
	KUNIT_EXPECT_EQ(test, perf_persistent_state(event), PERF_PERSISTENT_STATE_DISABLED);
}

/* Also runs after a failed assertion. */
static void revoke_exit(struct kunit *test)
{
	if (revoke_reader_task)
		revoke_read_stop();
	if (revoke_is_offline)
		add_cpu(1);
	revoke_is_offline = false;
	if (revoke_is_registered)
		revoke_unregister();
	if (revoke_event)
		revoke_end();
}

static struct kunit_case perf_persistent_revoke_cases[] = {
	KUNIT_CASE(perf_persistent_revoke_test),
	KUNIT_CASE(perf_persistent_revoke_parked_test),
	KUNIT_CASE(perf_persistent_driver_places_test),
	KUNIT_CASE(perf_persistent_revoked_before_test),
	KUNIT_CASE(perf_persistent_exclusive_test),
	KUNIT_CASE(perf_persistent_revoke_read_test),
	KUNIT_CASE(perf_persistent_disabled_in_stop_test),
	{ },
};

static struct kunit_suite perf_persistent_revoke_suite = {
	.name		= "perf_persistent_revoke",
	.exit		= revoke_exit,
	.test_cases	= perf_persistent_revoke_cases,
};

kunit_test_suite(perf_persistent_revoke_suite);
