// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: a session has an owner, a group and a mode, as files have.
 */
#include "persistent_rights.h"

#define N	100

FIXTURE(mode)
{
	struct registry		registry;
	struct perf_event_attr	raw;
	int			fd;
	int			id;
	int			view;
};

/* A session of USER, where everybody may measure CPUs */
FIXTURE_SETUP(mode)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);

	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(PARANOID, 0));
	pin(0);
	self->raw = sampling_attr(TRACEPOINT);
	self->raw.sample_type |= PERF_SAMPLE_RAW;
	ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
	self->fd = open_event(attr);
	self->id = DETACH(self->fd, .name = addr("mine"), .label = addr("text"));
	ASSERT_LT(0, self->id);
	self->view = reopen(self->id);
	ASSERT_LE(0, self->view);
}

FIXTURE_TEARDOWN_PARENT(mode)
{
	registry_teardown(_metadata, &self->registry);
}

/* By default only the owner has access. */
TEST_F(mode, default)
{
	struct answer a;

	ASSERT_EQ(0, query(self->view, &a));
	EXPECT_EQ(USER, a.info.uid);
	EXPECT_EQ(GROUP, a.info.gid);
	EXPECT_EQ(0600, a.info.mode);
	EXPECT_EQ(0, a.info.flags);
	expect_rights(_metadata, self->id, self->view, 7);
	ASSERT_EQ(0, become_in(OTHER, GROUP, GROUP));
	expect_rights(_metadata, self->id, self->view, 0);
}

/* Each class has the rights of its bits, and of no others, as with files. */
TEST_F(mode, classes)
{
	__u32 bits;

	for (bits = 0; bits <= 7; bits++) {
		ASSERT_EQ(0, become_capable());
		ASSERT_EQ(0, session_mode(self->view, 0707 | bits << 3));
		ASSERT_EQ(0, become_in(OTHER, GROUP, NOBODYS));
		expect_rights(_metadata, self->id, self->view, bits);
		ASSERT_EQ(0, become_in(OTHER, NOBODYS, GROUP));
		expect_rights(_metadata, self->id, self->view, bits);

		ASSERT_EQ(0, become_capable());
		ASSERT_EQ(0, session_mode(self->view, 0770 | bits));
		ASSERT_EQ(0, become_in(OTHER, NOBODYS, NOBODYS));
		expect_rights(_metadata, self->id, self->view, bits);

		ASSERT_EQ(0, become_capable());
		ASSERT_EQ(0, session_mode(self->view, 0077 | bits << 6));
		ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
		expect_rights(_metadata, self->id, self->view, bits);
	}
}

/* Write permission allows to join and attach, read permission does not. */
TEST_F(mode, join_and_attach)
{
	int fd;

	ASSERT_EQ(0, session_mode(self->view, 0640));
	ASSERT_EQ(0, become_in(OTHER, GROUP, GROUP));
	fd = open_event(event_attr(CLOCK));
	EXPECT_EQ(-EACCES, DETACH(fd, .id = self->id, .member = 1));
	EXPECT_EQ(-EACCES, attach(self->view));
	ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
	ASSERT_EQ(0, session_mode(self->view, 0660));
	ASSERT_EQ(0, become_in(OTHER, GROUP, GROUP));
	EXPECT_EQ(self->id, DETACH(fd, .id = self->id, .member = 1));
	EXPECT_EQ(0, attach(self->view));
	EXPECT_TRUE(registry_has(self->id));
}

/* The mode never permits an event that one could not open now, not even to the owner. */
TEST_F(mode, bits_are_not_enough)
{
	ASSERT_EQ(0, session_mode(self->view, 0666));
	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, set_sysctl(PARANOID, 2));
	ASSERT_EQ(0, become_in(OTHER, GROUP, GROUP));
	EXPECT_EQ(-EACCES, reopen(self->id));
	EXPECT_EQ(-EACCES, session_disable(self->view));
	ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
	EXPECT_EQ(-EACCES, reopen(self->id));
	EXPECT_EQ(-EACCES, session_enable(self->view));
	EXPECT_EQ(-EACCES, hold(self->view));
	EXPECT_EQ(-EACCES, attach(self->view));
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->view));
	EXPECT_EQ(0, session_mode(self->view, 0600));
	EXPECT_EQ(0, session_disable(self->view));
}

/* Control takes the right to open all instances; reading takes the right to open that one. */
TEST_F(mode, every_instance)
{
	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(self->id, DETACH(open_event(self->raw), .id = self->id, .member = 1));
	ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
	EXPECT_GT(0, open_event(self->raw));
	EXPECT_LE(0, reopen_instance(self->id, 0));
	EXPECT_EQ(-EACCES, reopen_instance(self->id, 1));
	EXPECT_EQ(-EACCES, session_enable(self->view));
	EXPECT_EQ(-EACCES, SET(self->view, .flags = PERF_PERSISTENT_SET_ENABLE, .member = 1));
	EXPECT_EQ(-EACCES, attach(self->fd));
	EXPECT_EQ(-EACCES, DETACH(open_event(event_attr(CLOCK)), .id = self->id, .member = 2));
}

/* I can give my session only to groups that I am in, and to no other user. */
TEST_F(mode, give)
{
	struct answer a;

	ASSERT_EQ(0, become_in(USER, GROUP, NOBODYS));
	EXPECT_EQ(0, SET(self->view, .flags = SET_GID, .gid = NOBODYS));
	EXPECT_EQ(0, SET(self->view, .flags = SET_GID, .gid = GROUP));
	EXPECT_EQ(-EPERM, SET(self->view, .flags = SET_GID, .gid = 0));
	EXPECT_EQ(-EPERM, SET(self->view, .flags = SET_UID, .uid = OTHER));
	EXPECT_EQ(-EPERM, SET(self->view, .mode = 0666, .uid = OTHER,
			      .flags = SET_UID | PERF_PERSISTENT_SET_MODE));
	EXPECT_EQ(-EINVAL, session_mode(self->view, 01000));
	EXPECT_EQ(-EINVAL, SET(self->view, .flags = SET_GID, .gid = -1));
	ASSERT_EQ(0, query(self->view, &a));
	EXPECT_EQ(USER, a.info.uid);
	EXPECT_EQ(GROUP, a.info.gid);
	EXPECT_EQ(0600, a.info.mode);
}

/* Write permission does not allow to change the mode. */
TEST_F(mode, give_anothers)
{
	ASSERT_EQ(0, session_mode(self->view, 0666));
	ASSERT_EQ(0, become_in(OTHER, GROUP, GROUP));
	EXPECT_EQ(0, SET(self->view, .flags = PERF_PERSISTENT_SET_COMMITTED));
	EXPECT_TRUE(refused(session_mode(self->view, 0600)));
	EXPECT_TRUE(refused(SET(self->view, .flags = SET_GID, .gid = GROUP)));
	EXPECT_TRUE(refused(SET(self->view, .flags = SET_UID, .uid = OTHER)));
	ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
	expect_rights(_metadata, self->id, self->view, 7);
}

/* I can give back to myself the rights that I took from myself, as with files. */
TEST_F(mode, locked_out)
{
	ASSERT_EQ(0, session_mode(self->view, 0400));
	EXPECT_EQ(-EACCES, session_disable(self->view));
	EXPECT_EQ(-EACCES, attach(self->fd));
	EXPECT_LE(0, reopen(self->id));
	EXPECT_EQ(0, session_mode(self->view, 0600));
	EXPECT_EQ(0, attach(self->fd));
}

/* The administrator can give a session to any user, who then owns it. */
TEST_F(mode, given)
{
	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, SET(self->view, .flags = SET_UID | SET_GID, .uid = OTHER, .gid = NOBODYS));
	ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
	expect_rights(_metadata, self->id, self->view, 0);
	ASSERT_EQ(0, become_in(OTHER, GROUP, GROUP));
	expect_rights(_metadata, self->id, self->view, 7);
	EXPECT_EQ(0, session_mode(self->view, 0640));
	EXPECT_EQ(0, attach(self->view));
}

/* A passed file can be read, and shows its own event, but not its session. */
TEST_F(mode, passed_file)
{
	drive(TRACEPOINT, N);
	ASSERT_EQ(0, become_in(OTHER, NOBODYS, NOBODYS));
	EXPECT_EQ(N, count(self->view));
	EXPECT_EQ(N, count(self->fd));
	expect_self_alone(_metadata, self->view, self->id, -1, N);
	expect_self_alone(_metadata, self->fd, self->id, -1, N);
	ASSERT_EQ(0, become_in(OTHER, GROUP, GROUP));
	expect_self_alone(_metadata, self->view, self->id, -1, N);
}

/* Uid 0 without the capability has no special rights to the session of a user either. */
TEST_F(mode, powerless_root)
{
	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, SET(self->view, .flags = SET_GID, .gid = NOBODYS));
	ASSERT_EQ(0, become_powerless());
	expect_nothing_possible(_metadata, self->id, self->view);
	EXPECT_EQ(-EACCES, hold(self->view));
	EXPECT_TRUE(registry_has(self->id));
}

/* Instances that I could not open show me no more than they show anybody. */
TEST_F(mode, counts_of_others)
{
	struct answer a;

	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(self->id, DETACH(open_event(self->raw), .id = self->id, .member = 1,
				   .buffer_pages = 1));
	drive(TRACEPOINT, N);
	ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
	ASSERT_EQ(0, query(self->view, &a));
	ASSERT_EQ(2, a.info.nr_instances);
	EXPECT_LE(N, a.instances[0].count);
	EXPECT_EQ(1, a.instances[1].member);
	EXPECT_EQ(0, a.instances[1].count);
	EXPECT_EQ(0, a.instances[1].time_enabled);
	EXPECT_EQ(0, a.instances[1].event_id);
	EXPECT_EQ(0, a.instances[1].buffer_id);
}

/* Consuming takes the right to control, as it decides what others can read. */
TEST_F(mode, consumer)
{
	struct perf_event_attr attr = sampling_attr(FAULTS);
	struct ring r;
	int id, view;

	id = DETACH(open_event(attr), .buffer_pages = 1);
	ASSERT_LT(0, id);
	view = reopen(id);
	ASSERT_EQ(0, session_mode(view, 0640));
	ASSERT_EQ(0, become_in(OTHER, GROUP, GROUP));
	view = reopen(id);
	ASSERT_LE(0, view);
	EXPECT_EQ(-EACCES, ring_map(&r, view, 1, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, ring_map(&r, view, 1, PROT_READ));
	EXPECT_EQ(-EACCES, ring_protect(&r, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, ring_unmap(&r));

	ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
	EXPECT_EQ(0, ring_map(&r, reopen(id), 1, PROT_READ | PROT_WRITE));
}

/* A view that may only read can map an existing buffer, but not allocate one. */
TEST_F(mode, no_buffer)
{
	struct ring owner, reader;
	int view;

	ASSERT_EQ(0, session_mode(self->view, 0640));
	ASSERT_EQ(0, become_in(OTHER, GROUP, GROUP));
	view = reopen(self->id);
	ASSERT_LE(0, view);
	EXPECT_EQ(-EACCES, ring_map(&reader, view, 1, PROT_READ));

	ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
	ASSERT_EQ(0, ring_map(&owner, self->view, 1, PROT_READ));
	ASSERT_EQ(0, become_in(OTHER, GROUP, GROUP));
	ASSERT_EQ(0, ring_map(&reader, view, 1, PROT_READ));
	EXPECT_EQ(0, ring_unmap(&owner));
	EXPECT_EQ(0, ring_unmap(&reader));
	EXPECT_EQ(-EACCES, ring_map(&reader, view, 1, PROT_READ));
}

TEST_HARNESS_MAIN
