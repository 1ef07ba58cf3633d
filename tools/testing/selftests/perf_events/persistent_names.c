// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: what they can be called.
 */
#include "persistent.h"

FIXTURE(names)
{
	struct registry		registry;
};

FIXTURE_SETUP(names)
{
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(PARANOID, 0));
}

FIXTURE_TEARDOWN_PARENT(names)
{
	registry_teardown(_metadata, &self->registry);
}

static int open_event(void)
{
	struct perf_event_attr attr = event_attr(CLOCK);

	return event_open(&attr, -1, 0, -1, 0);
}

static int detach_named(const char *name)
{
	return DETACH(open_event(), .name = addr(name));
}

static bool named(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), REGISTRY "/events/%s", name);

	return !access(path, F_OK);
}

/* A name is given once, and is free again after its id. */
TEST_F(names, taken)
{
	int id = detach_named("mine");

	ASSERT_LT(0, id);
	EXPECT_EQ(-EEXIST, detach_named("mine"));
	EXPECT_EQ(1, registry_count("ids"));
	EXPECT_EQ(1, registry_count("events"));

	stop(id);
	EXPECT_LT(0, detach_named("mine"));
}

/* Nobody can take the name that an id without one will have. */
TEST_F(names, default_cannot_be_taken)
{
	int id = detach(open_event());
	char name[16];

	ASSERT_LT(0, id);
	snprintf(name, sizeof(name), "p%d", id + 1);
	EXPECT_EQ(-EINVAL, detach_named(name));
	snprintf(name, sizeof(name), "p%d", id + 2);
	EXPECT_EQ(-EINVAL, detach_named(name));
	EXPECT_LT(0, detach(open_event()));
	EXPECT_LT(0, detach(open_event()));
}

/* An empty name is as good as none. */
TEST_F(names, empty)
{
	EXPECT_LT(0, detach_named(""));
	EXPECT_EQ(1, registry_count("events"));
}

/* Words with digits, dashes and underscores in them are fine. */
TEST_F(names, good)
{
	static const char * const names[] = { "a", "z9", "a-b_c", "a__", "p", "px", "p7x", "pp7" };
	int i;

	for (i = 0; i < ARRAY_LEN(names); i++) {
		EXPECT_LT(0, detach_named(names[i]));
		EXPECT_TRUE(named(names[i]));
	}
}

/* A name ends before its 64th byte ... */
TEST_F(names, too_long)
{
	char name[PERF_PERSISTENT_NAME_MAX + 1] = "";

	memset(name, 'a', PERF_PERSISTENT_NAME_MAX);
	EXPECT_EQ(-EINVAL, detach_named(name));
	EXPECT_EQ(0, registry_count("ids"));

	name[PERF_PERSISTENT_NAME_MAX - 1] = '\0';
	EXPECT_LT(0, detach_named(name));
	EXPECT_TRUE(named(name));
}

/* ... with its prefix too. */
TEST_F(names, too_long_with_prefix)
{
	char name[PERF_PERSISTENT_NAME_MAX] = "";

	memset(name, 'a', PERF_PERSISTENT_NAME_MAX - 1 - strlen("u1000-"));
	ASSERT_EQ(0, become(USER));
	EXPECT_LT(0, detach_named(name));
	strcat(name, "a");
	EXPECT_EQ(-EINVAL, detach_named(name));
	EXPECT_EQ(1, registry_count("events"));
}

/* An event of mine cannot be taken for one of perf's: its name begins with mine. */
TEST_F(names, prefix)
{
	char name[32];
	int id;

	ASSERT_EQ(0, become(USER));
	ASSERT_LT(0, detach_named("cycles"));
	EXPECT_TRUE(named("u1000-cycles"));
	EXPECT_FALSE(named("cycles"));

	id = detach(open_event());
	snprintf(name, sizeof(name), "u1000-p%d", id);
	EXPECT_TRUE(named(name));
	EXPECT_EQ(2, registry_count("events"));
}

/* The administrator's names are as he gave them. */
TEST_F(names, no_prefix)
{
	ASSERT_LT(0, detach_named("mine"));
	EXPECT_TRUE(named("mine"));
	ASSERT_EQ(0, setresuid(USER, USER, 0));
	ASSERT_EQ(0, only_capability(CAP_PERFMON));
	ASSERT_LT(0, detach_named("of-perfmon"));
	EXPECT_TRUE(named("of-perfmon"));
}

/* Nobody can take a name that another user wants. */
TEST_F(names, no_squatting)
{
	ASSERT_EQ(0, become(USER));
	EXPECT_LT(0, detach_named("same"));
	EXPECT_EQ(-EEXIST, detach_named("same"));
	ASSERT_EQ(0, become(OTHER));
	EXPECT_LT(0, detach_named("same"));
	ASSERT_EQ(0, become(0));
	EXPECT_LT(0, detach_named("same"));
}

FIXTURE(bad_name)
{
	struct registry		registry;
};

FIXTURE_VARIANT(bad_name)
{
	const char		*name;
};

FIXTURE_VARIANT_ADD(bad_name, uppercase) { .name = "aBc" };
FIXTURE_VARIANT_ADD(bad_name, leading_uppercase) { .name = "Abc" };
FIXTURE_VARIANT_ADD(bad_name, leading_digit) { .name = "1abc" };
FIXTURE_VARIANT_ADD(bad_name, leading_dash) { .name = "-abc" };
FIXTURE_VARIANT_ADD(bad_name, leading_underscore) { .name = "_abc" };
FIXTURE_VARIANT_ADD(bad_name, slash) { .name = "a/b" };
FIXTURE_VARIANT_ADD(bad_name, dot) { .name = "a.b" };
FIXTURE_VARIANT_ADD(bad_name, dots) { .name = ".." };
FIXTURE_VARIANT_ADD(bad_name, space) { .name = "a b" };
FIXTURE_VARIANT_ADD(bad_name, newline) { .name = "a\n" };
FIXTURE_VARIANT_ADD(bad_name, comma) { .name = "a,b" };
FIXTURE_VARIANT_ADD(bad_name, default_of_an_id) { .name = "p7" };
FIXTURE_VARIANT_ADD(bad_name, latin1) { .name = "a\344" };
FIXTURE_VARIANT_ADD(bad_name, leading_utf8) { .name = "\303\244" };

FIXTURE_SETUP(bad_name)
{
	registry_setup(_metadata, &self->registry);
}

FIXTURE_TEARDOWN_PARENT(bad_name)
{
	registry_teardown(_metadata, &self->registry);
}

/* A name is a lower-case word that perf can parse. */
TEST_F(bad_name, is_refused)
{
	EXPECT_EQ(-EINVAL, detach_named(variant->name));
	EXPECT_EQ(0, registry_count("ids"));
	EXPECT_EQ(0, registry_count("events"));
}

TEST_HARNESS_MAIN
