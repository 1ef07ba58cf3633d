// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: names.
 */
#include <signal.h>

#include "persistent.h"

#define ROUNDS	100
#define HOUR	3600000000000ULL

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

/* A name is unique, and free again when its session has ended. */
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

/* Nobody can take the default name of a session. */
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

/* An empty name is the same as none. */
TEST_F(names, empty)
{
	EXPECT_LT(0, detach_named(""));
	EXPECT_EQ(1, registry_count("events"));
}

/* Words with digits, dashes and underscores in them are valid. */
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

/* ... including its prefix. */
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

/* A user's session cannot be taken for one of perf's: its name begins with the user's. */
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

/* The administrator's names have no prefix. */
TEST_F(names, no_prefix)
{
	ASSERT_LT(0, detach_named("mine"));
	EXPECT_TRUE(named("mine"));
	ASSERT_EQ(0, setresuid(USER, USER, 0));
	ASSERT_EQ(0, only_capability(CAP_PERFMON));
	ASSERT_LT(0, detach_named("of-perfmon"));
	EXPECT_TRUE(named("of-perfmon"));
}

/* Users do not take names from each other: each has a prefix. */
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

FIXTURE(rename)
{
	struct registry		registry;
	int			fd;
	int			id;
};

FIXTURE_SETUP(rename)
{
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(PARANOID, 0));
	self->fd = open_event();
	self->id = DETACH(self->fd, .name = addr("first"), .flags = PERF_DETACH_UNCOMMITTED);
	ASSERT_LT(0, self->id);
}

FIXTURE_TEARDOWN_PARENT(rename)
{
	registry_teardown(_metadata, &self->registry);
}

static int rename_to(int fd, const char *name)
{
	return SET(fd, .flags = PERF_PERSISTENT_SET_NAME, .name = addr(name));
}

/* Expect that name and no other, in all places */
static void expect_name(struct __test_metadata *_metadata, int fd, int id, const char *name)
{
	char path[128], text[128], expected[128];
	struct answer a;

	ASSERT_EQ(0, query(fd, &a));
	EXPECT_STREQ(name, a.info.name);
	EXPECT_EQ(registry_count("ids"), registry_count("events"));

	snprintf(path, sizeof(path), REGISTRY "/ids/%d/name", id);
	snprintf(expected, sizeof(expected), "%s\n", name);
	ASSERT_LT(0, read_file(path, text, sizeof(text)));
	EXPECT_STREQ(expected, text);

	snprintf(path, sizeof(path), REGISTRY "/events/%s", name);
	snprintf(expected, sizeof(expected), "id=0x%x\n", id);
	ASSERT_LT(0, read_file(path, text, sizeof(text)));
	EXPECT_STREQ(expected, text);
}

/* A session gets another name, and the old one is free at once. */
TEST_F(rename, twice)
{
	ASSERT_EQ(0, rename_to(self->fd, "second"));
	expect_name(_metadata, self->fd, self->id, "second");
	EXPECT_FALSE(named("first"));
	EXPECT_LT(0, detach_named("first"));

	ASSERT_EQ(0, rename_to(reopen(self->id), "third"));
	expect_name(_metadata, self->fd, self->id, "third");
	EXPECT_FALSE(named("second"));
}

/* A session can get its former name back. */
TEST_F(rename, to_and_fro)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(0, rename_to(self->fd, "second"));
		ASSERT_EQ(0, rename_to(self->fd, "first"));
	}
	expect_name(_metadata, self->fd, self->id, "first");
}

/* Renamed to an empty name, it gets its default name. */
TEST_F(rename, to_default)
{
	char name[16];

	snprintf(name, sizeof(name), "p%d", self->id);
	ASSERT_EQ(0, rename_to(self->fd, NULL));
	expect_name(_metadata, self->fd, self->id, name);
	EXPECT_FALSE(named("first"));

	ASSERT_EQ(0, rename_to(self->fd, "first"));
	ASSERT_EQ(0, rename_to(self->fd, ""));
	expect_name(_metadata, self->fd, self->id, name);
}

/* The name of a renamed session is free when that has ended. */
TEST_F(rename, free_after_its_end)
{
	ASSERT_EQ(0, rename_to(self->fd, "second"));
	stop(self->id);
	EXPECT_EQ(0, registry_count("events"));
	EXPECT_EQ(-EINVAL, rename_to(self->fd, "third"));
	EXPECT_LT(0, detach_named("second"));
	EXPECT_LT(0, detach_named("first"));
	EXPECT_LT(0, detach_named("third"));
}

/* A SET that fails changes nothing */
static void expect_nothing_set(struct __test_metadata *_metadata, int error, int fd, int id,
			       __u64 name)
{
	struct answer a;

	EXPECT_EQ(error, SET(fd, .name = name, .ttl = HOUR,
			     .flags = PERF_PERSISTENT_SET_NAME | PERF_PERSISTENT_SET_TTL |
				      PERF_PERSISTENT_SET_COMMITTED));
	expect_name(_metadata, fd, id, "first");
	ASSERT_EQ(0, query(fd, &a));
	EXPECT_EQ(0, a.info.ttl);
	EXPECT_NE(0, a.info.flags & PERF_PERSISTENT_UNCOMMITTED);
}

/* A session cannot get a name that is taken. */
TEST_F(rename, taken)
{
	int other = detach_named("taken");

	ASSERT_LT(0, other);
	expect_nothing_set(_metadata, -EEXIST, self->fd, self->id, addr("taken"));
	stop(other);
	EXPECT_EQ(0, rename_to(self->fd, "taken"));
}

/* A session cannot get an invalid name. */
TEST_F(rename, bad)
{
	char name[PERF_PERSISTENT_NAME_MAX + 1] = "";

	expect_nothing_set(_metadata, -EINVAL, self->fd, self->id, addr("Bad"));
	expect_nothing_set(_metadata, -EINVAL, self->fd, self->id, addr("p1"));
	expect_nothing_set(_metadata, -EINVAL, self->fd, self->id, addr("u1000-p1"));
	expect_nothing_set(_metadata, -EINVAL, self->fd, self->id, addr("u0-web"));
	expect_nothing_set(_metadata, -EFAULT, self->fd, self->id, 8);
	memset(name, 'a', PERF_PERSISTENT_NAME_MAX);
	expect_nothing_set(_metadata, -EINVAL, self->fd, self->id, addr(name));
	EXPECT_EQ(0, rename_to(self->fd, "u0"));
	EXPECT_EQ(0, rename_to(self->fd, "up-to-1"));
}

/* The name and other changes are set together. */
TEST_F(rename, with_all)
{
	struct answer a;

	ASSERT_EQ(0, SET(self->fd, .name = addr("second"), .ttl = HOUR,
			 .flags = PERF_PERSISTENT_SET_NAME | PERF_PERSISTENT_SET_TTL |
				  PERF_PERSISTENT_SET_COMMITTED));
	expect_name(_metadata, self->fd, self->id, "second");
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_NE(0, a.info.ttl);
	EXPECT_EQ(0, a.info.flags & PERF_PERSISTENT_UNCOMMITTED);
}

/* The name is ignored without its flag. */
TEST_F(rename, not_asked_for)
{
	ASSERT_EQ(0, SET(self->fd, .name = addr("second"),
			 .flags = PERF_PERSISTENT_SET_COMMITTED));
	expect_name(_metadata, self->fd, self->id, "first");
}

/* A renamed session of a user keeps the user's prefix. */
TEST_F(rename, prefix)
{
	int fd = open_event(), id;
	char name[32];

	ASSERT_EQ(0, become(USER));
	id = detach(fd);
	ASSERT_LT(0, id);
	ASSERT_EQ(0, rename_to(fd, "cycles"));
	expect_name(_metadata, fd, id, "u1000-cycles");
	ASSERT_EQ(0, rename_to(fd, "first"));
	expect_name(_metadata, fd, id, "u1000-first");
	ASSERT_EQ(0, rename_to(fd, NULL));
	snprintf(name, sizeof(name), "u1000-p%d", id);
	expect_name(_metadata, fd, id, name);
}

/* I cannot rename the session of another user, not even with a passed descriptor. */
TEST_F(rename, stranger)
{
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, rename_to(self->fd, "mine"));
	ASSERT_EQ(0, become(0));
	expect_name(_metadata, self->fd, self->id, "first");
	EXPECT_FALSE(named("u1000-mine"));
	EXPECT_FALSE(named("mine"));
}

/* A refused name is never taken from others, not even for a moment. */
TEST_F(rename, refused)
{
	int fd = open_event(), other = open_event(), i;
	pid_t child;

	ASSERT_EQ(0, become(USER));
	ASSERT_LT(0, detach(fd));
	child = fork();
	ASSERT_LE(0, child);
	while (!child) {
		i = SET(fd, .uid = 0, .name = addr("wanted"),
			.flags = PERF_PERSISTENT_SET_UID | PERF_PERSISTENT_SET_NAME);
		if (i != -EPERM)
			_exit(1);
	}

	for (i = 0; i < ROUNDS; i++) {
		ASSERT_LT(0, DETACH(other, .name = addr("wanted")));
		ASSERT_EQ(0, attach(other));
	}
	EXPECT_EQ(0, waitpid(child, NULL, WNOHANG));
	kill(child, SIGKILL);
}

static void read_events(void)
{
	char path[PATH_MAX], text[64];
	struct dirent *entry;
	DIR *d;

	for (;;) {
		d = opendir(REGISTRY "/events");
		while (d && (entry = readdir(d))) {
			snprintf(path, sizeof(path), REGISTRY "/events/%s", entry->d_name);
			read_file(path, text, sizeof(text));
		}
		if (d)
			closedir(d);
	}
}

/* Concurrent renames, with readers, leave the session one name, and none after its end. */
TEST_F(rename, against_each_other)
{
	pid_t reader = fork(), child;
	struct answer a;
	int round, i;

	ASSERT_LE(0, reader);
	if (!reader)
		read_events();

	for (round = 0; round < 10; round++) {
		child = fork();
		ASSERT_LE(0, child);
		for (i = 0; i < ROUNDS; i++)
			rename_to(self->fd, (i + !child) % 2 ? "one" : "other");
		if (!child)
			_exit(round % 2 ? attach(self->fd) : 0);
		query(self->fd, &a);
		ASSERT_EQ(child, waitpid(child, NULL, 0));

		if (!(round % 2)) {
			ASSERT_EQ(0, query(self->fd, &a));
			expect_name(_metadata, self->fd, self->id, a.info.name);
			continue;
		}
		EXPECT_EQ(0, registry_count("ids"));
		EXPECT_EQ(0, registry_count("events"));
		close(self->fd);
		self->fd = open_event();
		self->id = DETACH(self->fd, .name = addr("one"));
		ASSERT_LT(0, self->id);
	}
	ASSERT_EQ(0, kill(reader, SIGKILL));
	ASSERT_EQ(reader, waitpid(reader, NULL, 0));
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
