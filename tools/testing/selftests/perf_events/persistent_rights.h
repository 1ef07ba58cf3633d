/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Persistent perf events: helpers for tests of permissions.
 */
#ifndef _SELFTESTS_PERF_EVENTS_PERSISTENT_RIGHTS_H
#define _SELFTESTS_PERF_EVENTS_PERSISTENT_RIGHTS_H

#include <grp.h>

#include "persistent.h"

#define GROUP	2000
#define NOBODYS	2001
#define SET_UID	PERF_PERSISTENT_SET_UID
#define SET_GID	PERF_PERSISTENT_SET_GID

static inline int open_event(struct perf_event_attr attr)
{
	return event_open(&attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

/* All permitted capabilities, or none */
static inline int set_capabilities(bool all)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {};
	int i;

	if (syscall(__NR_capget, &header, data))
		return -errno;
	for (i = 0; i < 2; i++)
		data[i].effective = all ? data[i].permitted : 0;

	return result(syscall(__NR_capset, &header, data));
}

/* Become a user with a group and a supplementary group */
static inline int become_in(uid_t uid, gid_t gid, gid_t other)
{
	return set_capabilities(true) ?:
	       result(setresuid(0, 0, 0)) ?: result(setgroups(1, &other)) ?:
	       result(setresgid(gid, gid, 0)) ?: result(setresuid(uid, uid, 0));
}

/* Uid 0 without capabilities */
static inline int become_powerless(void)
{
	return become_in(0, GROUP, GROUP) ?: set_capabilities(false);
}

static inline int become_capable(void)
{
	return become_in(0, 0, 0);
}

static inline bool refused(int ret)
{
	return ret == -EACCES || ret == -EPERM;
}

/* Rights through a file: 2 to control, 1 to hold */
static inline void expect_rights_of_file(struct __test_metadata *_metadata, int fd, __u32 rights)
{
	EXPECT_EQ(rights & 2 ? 0 : -EACCES, SET(fd, .flags = PERF_PERSISTENT_SET_COMMITTED));
	EXPECT_EQ(rights & 3 ? 0 : -EACCES, hold(fd));
}

/* Rights to the session by id and through a view: 4 to read as well */
static inline void expect_rights(struct __test_metadata *_metadata, int id, int view, __u32 rights)
{
	int fd = reopen_instance(id, 0), session = open_session(id);

	EXPECT_EQ(rights & 4 ? 0 : -EACCES, fd < 0 ? fd : 0);
	expect_rights_of_file(_metadata, view, rights);
	/* The owner can open the session, whatever the mode. */
	if (rights || session >= 0)
		expect_rights_of_file(_metadata, session, rights);
	else
		EXPECT_EQ(-EACCES, session);
	close(fd);
	close(session);
}

/* Without the right to read, QUERY through a passed file shows its own instance, and no more */
static inline void expect_self_alone(struct __test_metadata *_metadata, int fd, int id, int pid,
				     __u64 n)
{
	struct perf_event_attr none = {};
	struct answer a;

	ASSERT_EQ(0, query(fd, &a));
	EXPECT_EQ(id, a.info.self.id);
	EXPECT_EQ(pid, a.info.self.pid);
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, a.info.self.state);
	EXPECT_EQ(n, a.info.self.count);
	EXPECT_LT(0, a.info.self.time_running);
	EXPECT_LT(0, a.info.self.event_id);
	EXPECT_EQ(0, a.info.flags);
	EXPECT_EQ(0, a.info.uid);
	EXPECT_EQ(0, a.info.gid);
	EXPECT_EQ(0, a.info.mode);
	EXPECT_EQ(0, a.info.attr_size);
	EXPECT_EQ(0, a.info.label_size);
	EXPECT_EQ(0, a.info.filter_size);
	EXPECT_EQ(0, a.info.cgroup_size);
	EXPECT_EQ(0, a.info.nr_instances);
	EXPECT_STREQ("", a.info.name);
	EXPECT_STREQ("", a.label);
	EXPECT_EQ(0, memcmp(&none, &a.attr, sizeof(none)));
	EXPECT_EQ(0, a.instances[0].id);
}

/* Expect every operation to fail, by id and through a file */
static inline void expect_nothing_possible(struct __test_metadata *_metadata, int id, int fd)
{
	int other = open_event(event_attr(CLOCK));

	ASSERT_LE(0, other);
	EXPECT_EQ(-EACCES, reopen(id));
	EXPECT_EQ(-EACCES, reopen_instance(id, 0));
	EXPECT_EQ(-EACCES, view_disabled(id, 0));
	EXPECT_EQ(-EACCES, open_session(id));
	EXPECT_EQ(-EACCES, DETACH(other, .id = id));
	EXPECT_EQ(-EACCES, DETACH(other, .id = id, .member = 1));
	EXPECT_EQ(-EACCES, SET(fd, .flags = PERF_PERSISTENT_SET_NAME, .name = addr("mine")));
	EXPECT_EQ(-EACCES, SET(fd, .flags = PERF_PERSISTENT_SET_TTL, .ttl = 1));
	EXPECT_EQ(-EACCES, SET(fd, .flags = PERF_PERSISTENT_SET_COMMITTED));
	EXPECT_EQ(-EACCES, session_disable(fd));
	EXPECT_EQ(-EACCES, session_period(fd, 10));
	EXPECT_EQ(-EACCES, SET(fd, .flags = PERF_PERSISTENT_SET_FILTER, .filter = addr("")));
	EXPECT_EQ(-EACCES, SET(fd, .flags = PERF_PERSISTENT_SET_MARK, .mark = addr("mark")));
	EXPECT_EQ(-EACCES, attach(fd));
	EXPECT_EQ(-EEXIST, detach(fd));
	EXPECT_TRUE(refused(session_mode(fd, 0777)));
	EXPECT_TRUE(refused(SET(fd, .flags = SET_UID, .uid = geteuid())));
	EXPECT_TRUE(refused(SET(fd, .flags = SET_GID, .gid = getegid())));
	close(other);
}

#endif /* _SELFTESTS_PERF_EVENTS_PERSISTENT_RIGHTS_H */
