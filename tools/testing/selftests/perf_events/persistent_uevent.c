// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: what uevents tell of a session, and when.
 */
#include <linux/netlink.h>

#include "persistent_task.h"

#define RUNS	20

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

/* The text of a variable in a message, or NULL; the message is a row of texts. */
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
	       path && atoi(strrchr(path, '/') + 1) == id;
}

/* Wait for the next uevent of a session; an action, or the state that came with it. */
static const char *next_uevent(int sock, int id, char *name)
{
	static char msg[4096];
	struct pollfd p = { .fd = sock, .events = POLLIN };
	const char *state, *action;
	int len;

	while (poll(&p, 1, PATIENCE_MS) == 1) {
		len = recv(sock, msg, sizeof(msg) - 1, 0);
		if (len < 0)
			return strerrorname_np(errno);
		msg[len] = '\0';
		if (!is_about(msg, len, id))
			continue;
		snprintf(name, PERF_PERSISTENT_NAME_MAX, "%s",
			 variable(msg, len, "PERSISTENT_NAME") ?: "");
		state = variable(msg, len, "PERSISTENT_STATE");
		action = variable(msg, len, "ACTION") ?: "";
		return state && !strcmp(action, "change") ? state : action;
	}

	return "none";
}

#define EXPECT_UEVENT(id, what)		\
	EXPECT_STREQ(what, next_uevent(self->sock, id, self->name))

/* What the session has to tell comes before this. */
#define EXPECT_NO_UEVENT(id) do {				\
	ASSERT_EQ(0, session_mode(open_session(id), 0600));	\
	EXPECT_UEVENT(id, "change");				\
} while (0)

/* Detach an event on the target into a session, or into a new one */
#define JOIN(target, ...)						\
	target_detach(target, PROCESS, &self->attr, ANY_CPU,		\
		      (struct perf_event_detach) { __VA_ARGS__ })

/* It tells that it is there, what it is called, that its mode changes and that it is gone. */
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

/* When the task is gone for all members I am told, and once. */
TEST_F(uevent, exited)
{
	struct target target = target_start(PROCESS);
	int id = JOIN(&target, .name = addr("mourned"));

	ASSERT_LT(0, id);
	EXPECT_UEVENT(id, "add");
	EXPECT_EQ(id, JOIN(&target, .id = id, .member = 1));
	EXPECT_NO_UEVENT(id);

	ASSERT_TRUE(target_end(&target));
	EXPECT_UEVENT(id, "exited");
	EXPECT_STREQ("mourned", self->name);
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, state_of(reopen_instance(id, 0)));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, state_of(reopen_instance(id, 1)));
	EXPECT_NO_UEVENT(id);
	stop(id);
	EXPECT_UEVENT(id, "remove");
}

/* A session of CPUs as well has no target left, either. */
TEST_F(uevent, cpu_goes_on)
{
	struct target target = target_start(PROCESS);
	int id = JOIN(&target);

	ASSERT_LT(0, id);
	EXPECT_EQ(id, DETACH(event_open(&self->attr, -1, 0, -1, 0), .id = id, .member = 1));
	EXPECT_UEVENT(id, "add");
	ASSERT_TRUE(target_end(&target));
	EXPECT_UEVENT(id, "exited");
}

/* I am told of the last of several tasks, not of the others. */
TEST_F(uevent, last_of_two)
{
	struct target first = target_start(PROCESS), second = target_start(PROCESS);
	int id = JOIN(&first), alone = JOIN(&first);

	ASSERT_LT(0, id);
	EXPECT_EQ(id, JOIN(&second, .id = id));
	EXPECT_UEVENT(id, "add");
	ASSERT_TRUE(target_end(&first));
	EXPECT_UEVENT(alone, "add");
	EXPECT_UEVENT(alone, "exited");
	EXPECT_NO_UEVENT(id);
	ASSERT_TRUE(target_end(&second));
	EXPECT_UEVENT(id, "exited");
}

/* The task may be gone before its event is in the session. */
TEST_F(uevent, died_before)
{
	struct target target = target_start(PROCESS);
	int fd = event_open(&self->attr, target.tid, ANY_CPU, -1, 0), id;

	ASSERT_LE(0, fd);
	ASSERT_TRUE(target_end(&target));
	id = detach(fd);
	ASSERT_LT(0, id);
	EXPECT_UEVENT(id, "add");
	EXPECT_UEVENT(id, "exited");
	EXPECT_NO_UEVENT(id);
}

/* Or just while it is put there. */
TEST_F(uevent, dies_meanwhile)
{
	struct order end = { .verb = END };
	struct target target;
	int run, fd, id;

	for (run = 0; run < RUNS; run++) {
		target = target_start(PROCESS);
		fd = event_open(&self->attr, target.tid, ANY_CPU, -1, 0);
		ASSERT_LE(0, fd);
		ASSERT_EQ(sizeof(end), send(target.sock, &end, sizeof(end), 0));
		id = detach(fd);
		ASSERT_LT(0, id);
		EXPECT_UEVENT(id, "add");
		EXPECT_UEVENT(id, "exited");
		ASSERT_TRUE(target_gone(&target));
		EXPECT_NO_UEVENT(id);
	}
}

/* A child that was born into the session goes on for its parent. */
TEST_F(uevent, child_goes_on)
{
	struct target target = target_start(PROCESS);
	int alone = JOIN(&target), id, child;

	ASSERT_LT(0, alone);
	self->attr.inherit = 1;
	id = JOIN(&target);
	ASSERT_LT(0, id);
	EXPECT_UEVENT(id, "add");
	child = ORDER(target.sock, SPAWN);
	ASSERT_LT(0, child);

	ASSERT_TRUE(target_end(&target));
	EXPECT_NO_UEVENT(id);
	ASSERT_TRUE(target_end_child(&target, child));
	EXPECT_UEVENT(id, "exited");
	EXPECT_NO_UEVENT(id);
	stop(alone);
}

/* Nor is a task lost whose child is. */
TEST_F(uevent, parent_goes_on)
{
	struct target target = target_start(PROCESS);
	int id;

	self->attr.inherit = 1;
	id = JOIN(&target);
	ASSERT_LT(0, id);
	EXPECT_UEVENT(id, "add");
	ASSERT_LT(0, ORDER(target.sock, FORK, .event = TRACEPOINT, .value = 1));
	EXPECT_NO_UEVENT(id);
	ASSERT_TRUE(target_end(&target));
	EXPECT_UEVENT(id, "exited");
}

/* Whoever joins later is lost as well. */
TEST_F(uevent, joins_later)
{
	struct target first = target_start(PROCESS), second = target_start(PROCESS);
	int id = JOIN(&first);

	ASSERT_LT(0, id);
	EXPECT_UEVENT(id, "add");
	ASSERT_TRUE(target_end(&first));
	EXPECT_UEVENT(id, "exited");
	EXPECT_EQ(id, JOIN(&second, .id = id));
	EXPECT_NO_UEVENT(id);
	ASSERT_TRUE(target_end(&second));
	EXPECT_UEVENT(id, "exited");
}

/* The last one that runs is taken out, and what is left has exited. */
TEST_F(uevent, attach)
{
	struct target first = target_start(PROCESS), second = target_start(PROCESS);
	int id = JOIN(&first);

	ASSERT_LT(0, id);
	EXPECT_EQ(id, JOIN(&second, .id = id));
	EXPECT_UEVENT(id, "add");
	ASSERT_TRUE(target_end(&first));
	EXPECT_NO_UEVENT(id);
	ASSERT_EQ(0, attach(reopen_instance(id, 1)));
	EXPECT_UEVENT(id, "exited");
	stop(id);
	EXPECT_UEVENT(id, "remove");
}

/* A program that gives more rights is not for the session any more. */
TEST_F(uevent, setuid_program)
{
	struct target target = target_start(PROCESS);
	struct order user = { .verb = BECOME, .value = USER };
	int id;

	ASSERT_EQ(0, send_order(target.sock, &user));
	id = JOIN(&target);
	ASSERT_LT(0, id);
	EXPECT_UEVENT(id, "add");
	ASSERT_EQ(0, target_setuid_program(&target));
	EXPECT_UEVENT(id, "exited");
	ASSERT_TRUE(target_end(&target));
	EXPECT_NO_UEVENT(id);
}

TEST_HARNESS_MAIN
