// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: contents of a session's uevents.
 */
#include <pthread.h>
#include <sys/socket.h>

#include <linux/netlink.h>

#include "persistent.h"

/* Instead of the id of a session */
#define ANY	0

#define SETTERS	12
#define TIME	2000000000ULL

FIXTURE(uevent)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	int			sock;
	char			name[PERF_PERSISTENT_NAME_MAX];
};

static int listen_to_kernel(void)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);
	int size = 1 << 22;

	if (setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		return -errno;

	return bind(sock, (struct sockaddr *)&kernel, sizeof(kernel)) ? -errno : sock;
}

FIXTURE_SETUP(uevent)
{
	registry_setup(_metadata, &self->registry);
	self->attr = event_attr(TRACEPOINT);
	self->sock = listen_to_kernel();
	ASSERT_LE(0, self->sock);
}

FIXTURE_TEARDOWN_PARENT(uevent)
{
	registry_teardown(_metadata, &self->registry);
}

/* The value of a variable in a message, a row of strings, or NULL. */
static const char *variable(const char *msg, int len, const char *key)
{
	size_t n = strlen(key);
	int pos;

	for (pos = 0; pos < len; pos += strlen(msg + pos) + 1) {
		if (!strncmp(msg + pos, key, n) && msg[pos + n] == '=')
			return msg + pos + n + 1;
	}

	return NULL;
}

static bool is_about(const char *msg, int len, int id)
{
	const char *subsystem = variable(msg, len, "SUBSYSTEM");
	const char *path = variable(msg, len, "DEVPATH");

	return subsystem && !strcmp(subsystem, "perf_persistent") &&
	       path && (id == ANY || atoi(strrchr(path, '/') + 1) == id);
}

/* Wait for the next uevent of a session; returns its action, or "none" after @ms. */
static const char *next_uevent(int sock, int id, char *name, int ms)
{
	static char msg[4096];
	struct pollfd p = { .fd = sock, .events = POLLIN };
	int len;

	while (poll(&p, 1, ms) == 1) {
		len = recv(sock, msg, sizeof(msg) - 1, 0);
		if (len < 0)
			return strerrorname_np(errno);
		msg[len] = '\0';
		if (!is_about(msg, len, id))
			continue;
		snprintf(name, PERF_PERSISTENT_NAME_MAX, "%s",
			 variable(msg, len, "PERSISTENT_NAME") ?: "");
		return variable(msg, len, "ACTION") ?: "";
	}

	return "none";
}

#define EXPECT_UEVENT(id, what)		\
	EXPECT_STREQ(what, next_uevent(self->sock, id, self->name, PATIENCE_MS))

/* Uevents report that a session is added, renamed, changed in mode, and removed. */
TEST_F(uevent, life)
{
	int fd = event_open(&self->attr, -1, pin(0), -1, 0);
	int id = DETACH(fd, .name = addr("heard"));

	ASSERT_LT(0, id);
	EXPECT_UEVENT(id, "add");
	EXPECT_STREQ("heard", self->name);
	ASSERT_EQ(0, SET(fd, .flags = PERF_PERSISTENT_SET_NAME, .name = addr("renamed")));
	EXPECT_UEVENT(id, "change");
	EXPECT_STREQ("renamed", self->name);
	ASSERT_EQ(0, session_mode(fd, 0640));
	EXPECT_UEVENT(id, "change");
	ASSERT_EQ(0, attach(fd));
	EXPECT_UEVENT(id, "remove");
}

/* SET until the session ends; after it disables events, it waits before it sends a uevent. */
static void *setter(void *fd)
{
	while (!SET((long)fd, .flags = PERF_PERSISTENT_SET_DISABLE | PERF_PERSISTENT_SET_MODE,
		    .mode = 0600))
		;

	return NULL;
}

/* Nothing comes after "remove". */
TEST_F(uevent, removed)
{
	__u64 end = now_ns() + TIME;
	pthread_t thread[SETTERS];
	const char *action;
	int i, id, fd;

	while (now_ns() < end) {
		fd = event_open(&self->attr, -1, 0, -1, 0);
		id = DETACH(fd, .ttl = 1000000 + now_ns() % 10000000);
		ASSERT_LT(0, id);
		for (i = 0; i < SETTERS; i++)
			ASSERT_EQ(0, pthread_create(&thread[i], NULL, setter, (void *)(long)fd));
		for (i = 0; i < SETTERS; i++)
			ASSERT_EQ(0, pthread_join(thread[i], NULL));
		do {
			action = next_uevent(self->sock, id, self->name, PATIENCE_MS);
			ASSERT_STRNE("none", action);
		} while (strcmp("remove", action));
		ASSERT_STREQ("none", next_uevent(self->sock, id, self->name, 0));
		close(fd);
	}
}

/* A DETACH that fails sends none, and uevents come in their order. */
TEST_F(uevent, failed)
{
	int leader = event_open(&self->attr, -1, pin(0), -1, 0);
	int sibling = event_open(&self->attr, -1, 0, leader, 0);
	char name[PERF_PERSISTENT_NAME_MAX];

	EXPECT_EQ(-EINVAL, detach(sibling));
	snprintf(name, sizeof(name), "p%d", detach(leader));
	EXPECT_UEVENT(ANY, "add");
	EXPECT_STREQ(name, self->name);
}

/* A user cannot flood others with them. */
TEST_F(uevent, flood)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int fd, id, n = 0, times = 1000;
	__u64 start;

	attr.exclude_kernel = 1;
	ASSERT_EQ(0, become(USER));
	fd = event_open(&attr, 0, -1, -1, 0);
	id = detach(fd);
	ASSERT_LT(0, id);
	start = now_ns();
	while (times--)
		ASSERT_EQ(0, session_mode(fd, 0600));
	/* 100 in each second that has begun, and one at the end from root */
	times = 100 * ((now_ns() - start) / 1000000000 + 2);
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, SET(fd, .flags = PERF_PERSISTENT_SET_NAME, .name = addr("last")));
	while (strcmp("last", self->name)) {
		ASSERT_STRNE("none", next_uevent(self->sock, id, self->name, PATIENCE_MS));
		n++;
	}
	EXPECT_LT(1, n);
	EXPECT_GE(times, n);
}

/* Nor keep them from seeing new sessions by changes of his own */
TEST_F(uevent, flood_hides_no_session)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int fd, id, times = 300;

	attr.exclude_kernel = 1;
	ASSERT_EQ(0, become(USER));
	fd = event_open(&attr, 0, -1, -1, 0);
	ASSERT_LT(0, detach(fd));
	while (times--)
		ASSERT_EQ(0, session_mode(fd, 0600));
	id = detach(event_open(&attr, 0, -1, -1, 0));
	ASSERT_LT(0, id);
	EXPECT_UEVENT(id, "add");
}

TEST_HARNESS_MAIN
