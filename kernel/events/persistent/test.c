// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: KUnit tests of what user space cannot see.
 *
 * The rest is tested in tools/testing/selftests/perf_events/.
 */
#include <kunit/test.h>
#include <linux/timekeeping.h>

#include "persistent.h"

static void perf_persistent_name_test(struct kunit *test)
{
	static const char * const good[] = {
		"a", "p", "u", "z9", "a_b-c", "cpu-clock", "p1-", "pa1", "p1a", "u1", "u-1", "ux1-",
	};
	static const char * const bad[] = {
		"", "A", "aB", "1a", "-a", "_a", "a b", "a/b", "a.b", "a,b", "a:b",
		"a=b", "../a", "a\n", "\xe4", "a\xdf", "p1", "p42", "u0-", "u1000-x",
	};

	for (int i = 0; i < ARRAY_SIZE(good); i++)
		KUNIT_EXPECT_TRUE_MSG(test, perf_persistent_name_valid(good[i]), "%s", good[i]);
	for (int i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_FALSE_MSG(test, perf_persistent_name_valid(bad[i]), "%s", bad[i]);
}

/* Readers get no addresses of the kernel or of the process that opened the event. */
static void perf_persistent_scrub_test(struct kunit *test)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_BREAKPOINT,
		.config		= 1,
		.bp_addr	= 0xffff0000,
		.bp_len		= 8,
		.sig_data	= 2,
	};

	perf_persistent_scrub_attr(&attr, false);
	KUNIT_EXPECT_EQ(test, attr.config, 1);
	KUNIT_EXPECT_EQ(test, attr.bp_addr, 0);
	KUNIT_EXPECT_EQ(test, attr.bp_len, 8);
	KUNIT_EXPECT_EQ(test, attr.sig_data, 0);

	/* kprobe and uprobe are PMUs of their own. */
	attr.type = PERF_TYPE_MAX;
	attr.config1 = 0xffff0000;
	attr.config2 = 0xffff0000;
	perf_persistent_scrub_attr(&attr, true);
	KUNIT_EXPECT_EQ(test, attr.config, 1);
	KUNIT_EXPECT_EQ(test, attr.config1, 0);
	KUNIT_EXPECT_EQ(test, attr.config2, 0);

	/* Hardware PMUs have parts of the event there. */
	attr.config1 = 3;
	attr.config2 = 4;
	perf_persistent_scrub_attr(&attr, false);
	KUNIT_EXPECT_EQ(test, attr.config1, 3);
	KUNIT_EXPECT_EQ(test, attr.config2, 4);
}

static void perf_event_needs_test(struct kunit *test)
{
	struct perf_event_attr attr = { .exclude_kernel = 1 };

	KUNIT_EXPECT_EQ(test, perf_event_needs(&attr), 0);

	attr.namespaces = 1;
	KUNIT_EXPECT_EQ(test, perf_event_needs(&attr), PERF_NEED_PERFMON);
	attr.namespaces = 0;

	attr.text_poke = 1;
	KUNIT_EXPECT_EQ(test, perf_event_needs(&attr), PERF_NEED_KERNEL);
	attr.text_poke = 0;

	attr.sample_type = PERF_SAMPLE_CALLCHAIN;
	KUNIT_EXPECT_EQ(test, perf_event_needs(&attr), PERF_NEED_KERNEL);
	attr.exclude_callchain_kernel = 1;
	KUNIT_EXPECT_EQ(test, perf_event_needs(&attr), 0);

	attr.sample_type = PERF_SAMPLE_PHYS_ADDR;
	KUNIT_EXPECT_EQ(test, perf_event_needs(&attr), PERF_NEED_KERNEL);

	attr.sample_type = PERF_SAMPLE_REGS_INTR;
	KUNIT_EXPECT_EQ(test, perf_event_needs(&attr), PERF_NEED_REGS);

	attr.sample_type = PERF_SAMPLE_BRANCH_STACK;
	attr.branch_sample_type = PERF_SAMPLE_BRANCH_USER;
	KUNIT_EXPECT_EQ(test, perf_event_needs(&attr), 0);
	attr.branch_sample_type = PERF_SAMPLE_BRANCH_KERNEL;
	KUNIT_EXPECT_EQ(test, perf_event_needs(&attr), PERF_NEED_KERNEL);

	attr = (struct perf_event_attr){ };
	KUNIT_EXPECT_EQ(test, perf_event_needs(&attr), PERF_NEED_KERNEL);
}

/* Drivers change the attr of an event; QUERY returns the original. */
static void perf_event_opened_attr_test(struct kunit *test)
{
	const struct perf_event_attr opened = {
		.type		= PERF_TYPE_HW_CACHE,
		.size		= sizeof(opened),
		.config		= 0x10002,
		.config1	= 1,
		.sample_freq	= 99,
		.freq		= 1,
		.exclude_hv	= 1,
	};
	struct perf_event *event;

	event = kunit_kzalloc(test, sizeof(*event), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, event);
	event->orig_type = opened.type;

	/* No copy is kept if the driver has only changed the type. */
	event->attr = opened;
	event->attr.type = PERF_TYPE_RAW;
	event->cpu = -1;
	KUNIT_ASSERT_EQ(test, perf_persistent_opened(event, &opened, -1), 0);
	KUNIT_EXPECT_NULL(test, event->persistent);

	/* The driver has changed more. */
	event->cpu = 0;
	event->attr.config = 0x412e;
	event->attr.config1 = 0x3fbfc00001;
	event->attr.branch_sample_type = PERF_SAMPLE_BRANCH_ANY;
	KUNIT_ASSERT_EQ(test, perf_persistent_opened(event, &opened, -1), 0);

	KUNIT_ASSERT_NOT_NULL(test, event->persistent);
	KUNIT_EXPECT_MEMEQ(test, &event->persistent->attr, &opened, sizeof(opened));
	KUNIT_EXPECT_EQ(test, event->persistent->cpu, -1);
	kfree(event->persistent);
}

/* "No limit" and "overdue" must not look the same. */
static void perf_persistent_time_left_test(struct kunit *test)
{
	struct perf_persistent_session session = { };
	u64 now = ktime_get_boottime_ns();

	KUNIT_EXPECT_EQ(test, perf_persistent_session_time_left(&session), 0);

	session.deadline = now;
	KUNIT_EXPECT_EQ(test, perf_persistent_session_time_left(&session), 1);

	session.deadline = now + 3600 * NSEC_PER_SEC;
	KUNIT_EXPECT_GT(test, perf_persistent_session_time_left(&session), 3000 * NSEC_PER_SEC);
	KUNIT_EXPECT_LE(test, perf_persistent_session_time_left(&session), 3600 * NSEC_PER_SEC);
}

static struct kunit_case perf_persistent_test_cases[] = {
	KUNIT_CASE(perf_persistent_name_test),
	KUNIT_CASE(perf_persistent_scrub_test),
	KUNIT_CASE(perf_event_needs_test),
	KUNIT_CASE(perf_event_opened_attr_test),
	KUNIT_CASE(perf_persistent_time_left_test),
	{ },
};

static struct kunit_suite perf_persistent_test_suite = {
	.name		= "perf_persistent",
	.test_cases	= perf_persistent_test_cases,
};

kunit_test_suite(perf_persistent_test_suite);
