// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: a session with an event that traces all functions.
 *
 * Opening the event changes the code of all functions: an emulator that may
 * execute what another CPU has just changed crashes here.
 */
#include "persistent.h"

#define FUNCTION_ID	"/sys/kernel/tracing/events/ftrace/function/id"

enum { TRACEPOINT_MEMBER, FUNCTION_MEMBER, MEMBERS };

FIXTURE(functions)
{
	struct registry	registry;
	int		fds[MEMBERS];
};

FIXTURE_SETUP(functions)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int i, id = 0;

	if (access(FUNCTION_ID, R_OK))
		SKIP(return, "this kernel does not trace functions");
	registry_setup(_metadata, &self->registry);
	for (i = 0; i < MEMBERS; i++) {
		if (i == FUNCTION_MEMBER) {
			attr.config = read_number(FUNCTION_ID);
			attr.disabled = 1;
		}
		self->fds[i] = event_open(&attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
		ASSERT_LE(0, self->fds[i]);
		id = DETACH(self->fds[i], .id = id, .member = i);
		ASSERT_LT(0, id);
	}
}

FIXTURE_TEARDOWN_PARENT(functions)
{
	registry_teardown(_metadata, &self->registry);
}

/* A function event keeps its filter elsewhere: any filter is refused, also an empty one. */
TEST_F(functions, filter)
{
	int fd = self->fds[TRACEPOINT_MEMBER];

	ASSERT_EQ(0, FILTER(fd, "common_pid == 1", .member = TRACEPOINT_MEMBER + 1));
	EXPECT_EQ(-EINVAL, FILTER(fd, ""));
	EXPECT_EQ(-EINVAL, FILTER(fd, "", .member = FUNCTION_MEMBER + 1));
	EXPECT_EQ(-EINVAL, FILTER(fd, "ip == 0"));
	EXPECT_STREQ("common_pid == 1", filter_of(fd));
}

TEST_HARNESS_MAIN
