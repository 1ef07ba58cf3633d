// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: sessions made with privilege are accessible only with
 * privilege, or as their mode allows.
 */
#include <pthread.h>
#include <sys/prctl.h>

#include "persistent_rights.h"

#define N	100
#define PAGES	4

FIXTURE(privileged)
{
	struct registry		registry;
	struct ring		ring;
	pid_t			pid;
	int			fd;
	int			id;
	int			view;
};

FIXTURE_VARIANT(privileged)
{
	uid_t			uid;	/* of the maker */
	bool			task;
};

FIXTURE_VARIANT_ADD(privileged, root) { .uid = 0 };
FIXTURE_VARIANT_ADD(privileged, root_task) { .uid = 0, .task = true };
FIXTURE_VARIANT_ADD(privileged, user) { .uid = USER };

/* A session made with CAP_PERFMON, where everybody may measure everything */
FIXTURE_SETUP(privileged)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);

	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(PARANOID, -1));
	pin(0);
	self->pid = getpid();
	if (variant->uid) {
		ASSERT_EQ(0, become_in(variant->uid, GROUP, GROUP));
		ASSERT_EQ(0, only_capability(CAP_PERFMON));
	}
	self->fd = event_open(&attr, variant->task ? 0 : -1, 0, -1, 0);
	self->id = DETACH(self->fd, .name = addr("secret"), .label = addr("text"),
			  .buffer_pages = PAGES);
	ASSERT_LT(0, self->id);
	self->view = reopen(self->id);
	ASSERT_LE(0, self->view);
	drive(TRACEPOINT, N);
}

FIXTURE_TEARDOWN_PARENT(privileged)
{
	registry_teardown(_metadata, &self->registry);
}

/* The maker's uid without the capability */
#define BECOME_EQUAL() \
	ASSERT_EQ(0, variant->uid ? become_in(variant->uid, GROUP, GROUP) : become_powerless())

/* Without the capability nobody has access, not even with the same uid. */
TEST_F(privileged, equal_uid)
{
	struct answer a;

	BECOME_EQUAL();
	EXPECT_EQ(variant->uid, geteuid());
	expect_nothing_possible(_metadata, self->id, self->view);
	expect_nothing_possible(_metadata, self->id, self->fd);
	EXPECT_EQ(-EACCES, hold(self->view));
	EXPECT_EQ(N, count(self->view));
	expect_self_alone(_metadata, self->view, self->id, variant->task ? 0 : -1, N);
	expect_self_alone(_metadata, self->fd, self->id, variant->task ? 0 : -1, N);

	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, query(self->view, &a));
	EXPECT_STREQ("secret", a.info.name);
	EXPECT_EQ(variant->task ? self->pid : -1, a.info.self.pid);
	EXPECT_EQ(variant->uid, a.info.uid);
	EXPECT_EQ(0, a.info.mode);
	EXPECT_NE(0, a.info.flags & PERF_PERSISTENT_PRIVILEGED);
	EXPECT_EQ(1, a.info.nr_instances);
	EXPECT_EQ(0, a.info.ttl);
}

/* A capability in a user namespace does not count. */
TEST_F(privileged, user_namespace)
{
	BECOME_EQUAL();
	ASSERT_EQ(0, result(prctl(PR_SET_DUMPABLE, 1)));
	ASSERT_EQ(0, unshare(CLONE_NEWUSER));
	EXPECT_EQ(-EACCES, reopen(self->id));
	EXPECT_EQ(-EACCES, SET(self->view, .flags = PERF_PERSISTENT_SET_TTL, .ttl = 1));
	EXPECT_EQ(-EACCES, attach(self->fd));
	EXPECT_EQ(-EACCES, hold(self->view));
	EXPECT_TRUE(registry_has(self->id));
}

/* CAP_PERFMON alone allows everything, with any uid. */
TEST_F(privileged, capability)
{
	ASSERT_EQ(0, become_in(OTHER, NOBODYS, NOBODYS));
	ASSERT_EQ(0, only_capability(CAP_PERFMON));
	expect_rights(_metadata, self->id, self->view, 7);
	EXPECT_EQ(self->id, DETACH(open_event(event_attr(CLOCK)), .id = self->id, .member = 1));
	EXPECT_EQ(0, SET(self->view, .mode = 0640, .uid = OTHER, .gid = NOBODYS,
			 .flags = SET_UID | SET_GID | PERF_PERSISTENT_SET_MODE));
	EXPECT_EQ(0, attach(self->view));
}

/* A group can be allowed to read counts and buffers, though it could open no event. */
TEST_F(privileged, given_to_a_group)
{
	struct answer a;
	int fd;

	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, set_sysctl(PARANOID, 2));
	ASSERT_EQ(0, SET(self->view, .gid = GROUP, .mode = 0040,
			 .flags = SET_GID | PERF_PERSISTENT_SET_MODE));
	ASSERT_EQ(0, become_in(OTHER, NOBODYS, GROUP));
	EXPECT_EQ(-EACCES, open_event(event_attr(CLOCK)));
	fd = reopen(self->id);
	EXPECT_EQ(N, count(fd));
	ASSERT_EQ(0, ring_map(&self->ring, fd, PAGES, PROT_READ));
	EXPECT_EQ(N, ring_samples(&self->ring));
	ASSERT_EQ(0, query(fd, &a));
	EXPECT_STREQ("secret", a.info.name);
	expect_rights(_metadata, self->id, fd, 4);
	EXPECT_EQ(-EACCES, attach(fd));
	ASSERT_EQ(0, become_in(OTHER, NOBODYS, NOBODYS));
	expect_rights(_metadata, self->id, fd, 0);
}

/* With write permission the group controls the session, but cannot change its mode. */
TEST_F(privileged, control_is_given)
{
	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, SET(self->view, .gid = GROUP, .mode = 0660,
			 .flags = SET_GID | PERF_PERSISTENT_SET_MODE));
	ASSERT_EQ(0, become_in(OTHER, GROUP, GROUP));
	EXPECT_EQ(0, session_disable(self->view));
	EXPECT_EQ(-EPERM, session_mode(self->view, 0666));
	EXPECT_EQ(-EPERM, SET(self->view, .flags = SET_GID, .gid = GROUP));
	EXPECT_EQ(-EPERM, SET(self->view, .flags = SET_UID, .uid = OTHER));
	BECOME_EQUAL();
	EXPECT_EQ(0, session_enable(self->view));
	EXPECT_EQ(-EPERM, session_mode(self->view, 0666));
	EXPECT_EQ(-EPERM, SET(self->view, .flags = SET_UID, .uid = OTHER));
	EXPECT_EQ(0, attach(self->view));
}

/* Execute permission lets any user borrow the counters, and give them back. */
TEST_F(privileged, borrowed)
{
	int fd;

	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, session_mode(self->view, 0001));
	ASSERT_EQ(0, become_in(OTHER, NOBODYS, NOBODYS));
	EXPECT_EQ(-EACCES, reopen(self->id));
	fd = open_session(self->id);
	ASSERT_EQ(0, hold(fd));
	EXPECT_EQ(PERF_PERSISTENT_STATE_HELD, state_of(self->view));
	EXPECT_EQ(-EACCES, session_enable(fd));
	close(fd);
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->view));
}

/* The borrower sees that the events are held, and nothing that they measured. */
TEST_F(privileged, borrowed_blindly)
{
	struct perf_persistent_info expected = {
		.id	= self->id,
		.state	= PERF_PERSISTENT_STATE_HELD,
		.pid	= variant->task ? 0 : -1,
		.tgid	= variant->task ? 0 : -1,
	};
	struct answer a;
	int fd;

	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, session_mode(self->view, 0001));
	ASSERT_EQ(0, become_in(OTHER, NOBODYS, NOBODYS));
	fd = open_session(self->id);
	ASSERT_EQ(0, hold(fd));
	ASSERT_EQ(0, query(fd, &a));
	ASSERT_EQ(1, a.info.nr_instances);
	EXPECT_EQ(0, memcmp(&expected, &a.instances[0], sizeof(expected)));
	EXPECT_EQ(0, a.info.attr_size);
	EXPECT_EQ(0, a.info.label_size);
}

/* Permissions can be revoked: a former reader can no longer open or hold the session. */
TEST_F(privileged, taken_back)
{
	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, session_mode(self->view, 0007));
	ASSERT_EQ(0, become_in(OTHER, NOBODYS, NOBODYS));
	expect_rights(_metadata, self->id, reopen(self->id), 7);
	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, session_mode(self->view, 0));
	ASSERT_EQ(0, become_in(OTHER, NOBODYS, NOBODYS));
	expect_nothing_possible(_metadata, self->id, self->view);
	EXPECT_EQ(-EACCES, hold(self->view));
}

/* Nor can he map the buffer when it shows events that came after that. */
TEST_F(privileged, taken_back_before_another_joins)
{
	struct perf_event_attr attr;
	int fd, view;

	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, session_mode(self->view, 0004));
	ASSERT_EQ(0, become_in(OTHER, NOBODYS, NOBODYS));
	view = reopen(self->id);
	ASSERT_LE(0, view);
	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, session_mode(self->view, 0));
	attr = sampling_attr(TRACEPOINT);
	fd = event_open(&attr, variant->task ? 0 : -1, 0, -1, 0);
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, self->fd));
	ASSERT_EQ(self->id, DETACH(fd, .id = self->id, .member = 1));
	ASSERT_EQ(0, become_in(OTHER, NOBODYS, NOBODYS));
	EXPECT_EQ(-EACCES, ring_map(&self->ring, view, PAGES, PROT_READ));

	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, session_mode(self->view, 0004));
	ASSERT_EQ(0, become_in(OTHER, NOBODYS, NOBODYS));
	ASSERT_EQ(0, ring_map(&self->ring, view, PAGES, PROT_READ));
	EXPECT_EQ(0, ring_unmap(&self->ring));

	/* An event that is in no session any more is not delegated. */
	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, attach(fd));
	ASSERT_EQ(0, set_sysctl(PARANOID, 2));
	ASSERT_EQ(0, become_in(OTHER, NOBODYS, NOBODYS));
	EXPECT_EQ(-EACCES, reopen_instance(self->id, 0));
	EXPECT_EQ(-EACCES, ring_map(&self->ring, view, PAGES, PROT_READ));
}

/* Another user, to whom control is delegated, attaches the event and maps its buffer. */
static int attach_and_map(struct __test_metadata *_metadata, int id, int fd, struct ring *ring)
{
	int view;

	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, session_mode(fd, 0006));
	ASSERT_EQ(0, become_in(OTHER, NOBODYS, NOBODYS));
	view = reopen(id);
	ASSERT_EQ(0, attach(view));
	ASSERT_EQ(0, ring_map(ring, view, PAGES, PROT_READ | PROT_WRITE));

	return view;
}

/* Having attached the event once gives no right to it after others have detached it. */
TEST_F(privileged, attached_once)
{
	int view = attach_and_map(_metadata, self->id, self->view, &self->ring);

	EXPECT_EQ(0, ring_unmap(&self->ring));

	ASSERT_EQ(0, become_capable());
	ASSERT_LT(0, DETACH(self->fd, .buffer_pages = PAGES));
	ASSERT_EQ(0, attach(self->fd));
	ASSERT_EQ(0, become_in(OTHER, NOBODYS, NOBODYS));
	EXPECT_EQ(-EACCES, ring_map(&self->ring, view, PAGES, PROT_READ | PROT_WRITE));
	EXPECT_EQ(-EACCES, ring_map(&self->ring, view, PAGES, PROT_READ));
	EXPECT_EQ(-EACCES, detach(view));
}

/* Nor does the mapping that he made then: the event enters no session with it. */
TEST_F(privileged, attached_and_mapped)
{
	attach_and_map(_metadata, self->id, self->view, &self->ring);

	ASSERT_EQ(0, become_capable());
	EXPECT_EQ(-EBUSY, detach(self->fd));
	ASSERT_EQ(0, ring_unmap(&self->ring));
	EXPECT_LT(0, detach(self->fd));
}

/* A process that detaches an event, with arguments in a page that comes when it is told */
struct late {
	struct late_page	args;
	int			ret;
};

static pid_t late_start(struct late *late, int id)
{
	pid_t pid = fork();
	pthread_t thread;
	int view;

	if (pid)
		return pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	late->args.page = page_that_never_comes(&late->args.uffd);
	late->ret = become_in(OTHER, NOBODYS, NOBODYS);
	view = reopen(id);
	if (!late->ret)
		late->ret = attach(view);
	if (!late->ret && !pthread_create(&thread, NULL, late_page_run, &late->args))
		late->ret = event_ioctl(view, PERF_EVENT_IOC_DETACH, late->args.page);
	_exit(0);
}

/* Nor if others have detached it since DETACH was called: it may wait for its arguments. */
TEST_F(privileged, attached_before_detach)
{
	struct late *late = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, session_mode(self->view, 0006));
	pid = late_start(late, self->id);
	ASSERT_TRUE(eventually(is_stalled(pid, __NR_ioctl)));
	ASSERT_LT(0, detach(self->fd));
	ASSERT_EQ(0, attach(self->fd));
	__atomic_store_n(&late->args.come, 1, __ATOMIC_SEQ_CST);
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	EXPECT_EQ(-EACCES, late->ret);
}

/* The number of lost samples needs the right to read, also for uid 0. */
TEST_F(privileged, lost)
{
	char path[128], text[32];

	snprintf(path, sizeof(path), REGISTRY "/ids/%d/lost", self->id);
	ASSERT_EQ(0, become_capable());
	EXPECT_LT(0, read_file(path, text, sizeof(text)));
	ASSERT_EQ(0, become_powerless());
	EXPECT_EQ(-EACCES, read_file(path, text, sizeof(text)));
}

/* Even if the mode of a user's session allows uid 0 to read: it could not open the event. */
TEST_F(privileged, lost_of_a_user)
{
	char path[128], text[32];
	int fd, id;

	ASSERT_EQ(0, become_in(USER, GROUP, GROUP));
	fd = open_event(sampling_attr(CLOCK));
	ASSERT_LE(0, fd);
	id = DETACH(fd, .buffer_pages = 1);
	ASSERT_LT(0, id);
	ASSERT_EQ(0, session_mode(fd, 0644));
	snprintf(path, sizeof(path), REGISTRY "/ids/%d/lost", id);
	ASSERT_EQ(0, become_powerless());
	EXPECT_LT(0, read_file(path, text, sizeof(text)));

	ASSERT_EQ(0, become_capable());
	ASSERT_EQ(0, set_sysctl(PARANOID, 2));
	ASSERT_EQ(0, become_powerless());
	EXPECT_EQ(-EACCES, reopen(id));
	EXPECT_EQ(-EACCES, read_file(path, text, sizeof(text)));
}

TEST_HARNESS_MAIN
