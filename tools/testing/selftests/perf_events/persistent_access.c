// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: permissions of owners, other users and the administrator.
 */
#include <linux/hw_breakpoint.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "persistent.h"

#define PAGES	4
#define ROUNDS	50
#define SIBLINGS	20

static int open_attr(struct perf_event_attr attr, int group_fd)
{
	return event_open(&attr, -1, 0, group_fd, 0);
}

static int open_event(enum event event)
{
	return open_attr(event_attr(event), -1);
}

FIXTURE(access)
{
	struct registry		registry;
	int			fd;		/* of USER */
	int			id;
	int			admin_id;
};

/* Everybody may open CPU-wide events; USER has one session and root has one */
FIXTURE_SETUP(access)
{
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(PARANOID, 0));

	pin(0);
	self->admin_id = detach(open_event(CLOCK));
	ASSERT_LT(0, self->admin_id);

	ASSERT_EQ(0, become(USER));
	self->fd = open_event(CLOCK);
	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);
}

FIXTURE_TEARDOWN_PARENT(access)
{
	registry_teardown(_metadata, &self->registry);
}

/* Expect each operation on the session, with an open descriptor, to return this */
static void expect_all(struct __test_metadata *_metadata, int expected, int id, int fd)
{
	struct answer a;
	int other;

	other = open_event(CLOCK);
	EXPECT_EQ(expected ?: id, DETACH(other, .id = id, .member = 1));
	close(other);

	other = reopen_instance(id, 0);
	EXPECT_EQ(expected, other < 0 ? other : 0);
	close(other);

	EXPECT_EQ(0, query(fd, &a));
	EXPECT_EQ(expected, SET(fd, .flags = PERF_PERSISTENT_SET_COMMITTED));
	EXPECT_EQ(expected, attach(fd));
}

/* I may do everything with my own session. */
TEST_F(access, owner)
{
	expect_all(_metadata, 0, self->id, self->fd);
}

/* Another user may do nothing, not even with a passed descriptor. */
TEST_F(access, stranger)
{
	ASSERT_EQ(0, become(OTHER));
	expect_all(_metadata, -EACCES, self->id, self->fd);
}

/* A user may do nothing with a session of the administrator. */
TEST_F(access, admins_event)
{
	int fd;

	ASSERT_EQ(0, become(0));
	fd = reopen(self->admin_id);
	ASSERT_EQ(0, become(USER));
	expect_all(_metadata, -EACCES, self->admin_id, fd);
}

/* The administrator may do everything. */
TEST_F(access, admin)
{
	ASSERT_EQ(0, become(0));
	expect_all(_metadata, 0, self->id, self->fd);
}

/* CAP_PERFMON alone allows everything, at any perf_event_paranoid level. */
TEST_F(access, cap_perfmon)
{
	int fd;

	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, set_sysctl(PARANOID, 2));
	ASSERT_EQ(0, setresuid(OTHER, OTHER, 0));
	ASSERT_EQ(0, only_capability(CAP_PERFMON));

	fd = reopen(self->admin_id);
	ASSERT_LE(0, fd);
	expect_all(_metadata, 0, self->admin_id, fd);
	expect_all(_metadata, 0, self->id, self->fd);
}

/* The effective user counts, as for other rights. */
TEST_F(access, owner_is_effective_user)
{
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, setresuid(OTHER, USER, 0));
	expect_all(_metadata, 0, self->id, self->fd);
}

/* The effective user of the maker becomes the owner. */
TEST_F(access, maker_is_effective_user)
{
	struct answer a;
	int fd, id;

	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, setresuid(OTHER, USER, 0));
	fd = open_event(CLOCK);
	id = detach(fd);
	ASSERT_LT(0, id);
	ASSERT_EQ(0, query(fd, &a));
	EXPECT_EQ(USER, a.info.uid);
	ASSERT_EQ(0, become(OTHER));
	EXPECT_EQ(-EACCES, reopen(id));
	ASSERT_EQ(0, become(USER));
	expect_all(_metadata, 0, id, fd);
}

/* An unrelated process of the same user may do everything. */
TEST_F(access, owner_later)
{
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child) {
		close(self->fd);
		EXPECT_EQ(0, setresuid(0, 0, 0));
		EXPECT_EQ(0, setresuid(USER, USER, USER));
		expect_all(_metadata, 0, self->id, reopen(self->id));
		_exit(_metadata->exit_code);
	}
	ASSERT_TRUE(passed(child));
}

static int send_fd(int sock, int fd)
{
	char data = 0, control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec iov = { &data, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));

	return result(sendmsg(sock, &msg, 0));
}

static int receive_fd(int sock)
{
	char data, control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec iov = { &data, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	int fd = -1;

	if (recvmsg(sock, &msg, 0) == 1 && CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));

	return fd;
}

/* A passed descriptor can be read, as any can, and controls nothing. */
TEST_F(access, sent_descriptor)
{
	int sock[2], fd;
	pid_t child;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		close(self->fd);
		EXPECT_EQ(0, setresuid(0, 0, 0));
		EXPECT_EQ(0, setresuid(OTHER, OTHER, OTHER));
		fd = receive_fd(sock[1]);
		EXPECT_NE(-1ULL, count(fd));
		expect_all(_metadata, -EACCES, self->id, fd);
		_exit(_metadata->exit_code);
	}
	ASSERT_EQ(1, send_fd(sock[0], self->fd));
	ASSERT_TRUE(passed(child));
	EXPECT_TRUE(registry_has(self->id));
}

/* An event that somebody else attached is theirs, though I still have a view of it. */
TEST_F(access, view_of_what_was_attached)
{
	pid_t admin;
	int view;

	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, session_mode(reopen(self->admin_id), 0644));
	ASSERT_EQ(0, become(USER));
	view = reopen(self->admin_id);
	ASSERT_LE(0, view);
	EXPECT_EQ(-EEXIST, detach(view));

	admin = fork();
	ASSERT_LE(0, admin);
	while (!admin) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (become(0) || attach(reopen(self->admin_id)))
			_exit(1);
		pause();
	}
	ASSERT_TRUE(eventually(!registry_has(self->admin_id)));
	EXPECT_EQ(-EACCES, detach(view));
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, kill(admin, SIGKILL));
	ASSERT_EQ(admin, waitpid(admin, NULL, 0));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, detach(view));
	EXPECT_EQ(1, registry_count("ids"));

	ASSERT_EQ(0, become(0));
	EXPECT_LT(0, detach(view));
}

/* I can map and detach through a view the event that I attached through it. */
TEST_F(access, view_of_what_i_attached)
{
	int view = reopen(self->id);
	struct ring r;

	ASSERT_EQ(0, attach(view));
	ASSERT_EQ(0, ring_map(&r, view, 1, PROT_READ | PROT_WRITE));
	EXPECT_LT(0, detach(view));
}

struct attaching {
	int	view;
	int	err;
	pid_t	tid;
};

static void *attach_view(void *arg)
{
	struct attaching *a = arg;

	a->tid = syscall(__NR_gettid);
	a->err = attach(a->view);

	return NULL;
}

/* The same works if one of my threads attached it and has exited. */
TEST_F(access, view_of_what_a_thread_attached)
{
	struct attaching a = { .view = reopen(self->id) };
	pthread_t thread;
	char path[64];
	struct ring r;

	ASSERT_EQ(0, pthread_create(&thread, NULL, attach_view, &a));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_EQ(0, a.err);
	/* A thread owns its events for a moment after it can be joined. */
	snprintf(path, sizeof(path), "/proc/self/task/%d", a.tid);
	ASSERT_TRUE(eventually(access(path, F_OK)));
	ASSERT_EQ(0, ring_map(&r, a.view, 1, PROT_READ | PROT_WRITE));
	EXPECT_LT(0, detach(a.view));
}

/* I cannot use my session while I may not open such an event; I can again once I may. */
TEST_F(access, owner_loses_right)
{
	int level;

	for (level = 1; level <= 2; level++) {
		ASSERT_EQ(0, become(0));
		ASSERT_EQ(0, set_sysctl(PARANOID, level));
		ASSERT_EQ(0, become(USER));
		EXPECT_EQ(-EACCES, open_event(CLOCK));
		EXPECT_EQ(-EACCES, reopen(self->id));
		EXPECT_EQ(-EACCES, reopen_at(self->id, -1, 0));
		EXPECT_EQ(-EACCES, SET(self->fd, .flags = PERF_PERSISTENT_SET_COMMITTED));
		EXPECT_EQ(-EACCES, attach(self->fd));
	}
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, set_sysctl(PARANOID, 0));
	ASSERT_EQ(0, become(USER));
	expect_all(_metadata, 0, self->id, self->fd);
}

/* I cannot detach an event that somebody with more rights opened for me. */
TEST_F(access, detach_needs_the_right_to_open)
{
	int fd;

	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, set_sysctl(PARANOID, 2));
	fd = open_event(CLOCK);
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, detach(fd));
	EXPECT_EQ(2, registry_count("ids"));
}

/* -EINVAL for an ordinary event comes before -EACCES. */
TEST_F(access, ordinary_event)
{
	int fd;

	ASSERT_EQ(0, become(0));
	fd = open_event(CLOCK);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, set_sysctl(PARANOID, 2));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EINVAL, attach(fd));
	EXPECT_EQ(-EINVAL, SET(fd, .flags = PERF_PERSISTENT_SET_COMMITTED));
	EXPECT_EQ(-EINVAL, hold(fd));
}

/* I cannot detach events that show kernel addresses or kernel activity, by whatever field. */
TEST_F(access, secrets)
{
	const struct perf_event_attr secrets[] = {
		{ .exclude_kernel = 0 },
		{ .exclude_kernel = 1, .sample_type = PERF_SAMPLE_CALLCHAIN },
		{ .exclude_kernel = 1, .sample_type = PERF_SAMPLE_PHYS_ADDR },
		{ .exclude_kernel = 1, .text_poke = 1 },
		{ .exclude_kernel = 1, .namespaces = 1 },
	};
	struct perf_event_attr attr;
	unsigned int i;
	int fd;

	for (i = 0; i < ARRAY_LEN(secrets); i++) {
		attr = secrets[i];
		attr.type = PERF_TYPE_SOFTWARE;
		attr.size = sizeof(attr);
		attr.config = PERF_COUNT_SW_PAGE_FAULTS;

		ASSERT_EQ(0, become(0));
		ASSERT_EQ(0, set_sysctl(PARANOID, 2));
		fd = event_open(&attr, 0, -1, -1, 0);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, become(USER));
		EXPECT_EQ(-EACCES, event_open(&attr, 0, -1, -1, 0));
		EXPECT_EQ(-EACCES, detach(fd)) {
			TH_LOG("field %u", i);
		}
	}

	attr = event_attr(FAULTS);
	attr.exclude_kernel = 1;
	EXPECT_LT(0, detach(event_open(&attr, 0, -1, -1, 0)));
}

/* Events whose drivers check their openers need the capability. */
TEST_F(access, breakpoint)
{
	static int watched;
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_BREAKPOINT,
		.size		= sizeof(attr),
		.bp_type	= HW_BREAKPOINT_W,
		.bp_addr	= addr(&watched),
		.bp_len		= HW_BREAKPOINT_LEN_4,
		.exclude_kernel	= 1,
	};
	int fd = open_attr(attr, -1);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EACCES, detach(fd));
	ASSERT_EQ(0, become(0));
	EXPECT_LT(0, detach(fd));
}

/* A refused reopen keeps no resources: the breakpoint slot can be had again. */
TEST_F(access, refused_keeps_nothing)
{
	static int watched;
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_BREAKPOINT,
		.size		= sizeof(attr),
		.bp_type	= HW_BREAKPOINT_W,
		.bp_addr	= addr(&watched),
		.bp_len		= HW_BREAKPOINT_LEN_4,
	};
	int fd, id, i;

	for (i = 0; i < 16; i++) {
		ASSERT_EQ(0, setresuid(0, 0, 0));
		ASSERT_EQ(0, setresuid(USER, USER, 0));
		ASSERT_EQ(0, only_capability(CAP_PERFMON));
		fd = open_attr(attr, -1);
		ASSERT_LE(0, fd) {
			TH_LOG("after %d", i);
		}
		id = detach(fd);
		ASSERT_LT(0, id);
		ASSERT_EQ(0, become(USER));
		EXPECT_EQ(-EACCES, reopen(id));
		ASSERT_EQ(0, become(0));
		ASSERT_EQ(0, attach(fd));
		close(fd);
	}
}

/* Root in a container is still the user that it is outside. */
TEST_F(access, user_namespace)
{
	struct answer a;
	int id;

	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, set_sysctl(MAX_USER, 2));
	ASSERT_EQ(0, setresuid(USER, USER, USER));
	ASSERT_EQ(0, prctl(PR_SET_DUMPABLE, 1));
	ASSERT_EQ(0, unshare(CLONE_NEWUSER));
	ASSERT_EQ(0, write_file("/proc/self/uid_map", "0 1000 1"));
	ASSERT_EQ(0, getuid());

	EXPECT_EQ(-EACCES, reopen(self->admin_id));
	ASSERT_EQ(0, query(reopen(self->id), &a));
	EXPECT_EQ(0, a.info.uid);
	EXPECT_EQ(0600, a.info.mode);

	id = detach(open_event(CLOCK));
	ASSERT_LT(0, id);
	EXPECT_EQ(-EAGAIN, detach(open_event(CLOCK)));
	ASSERT_EQ(0, query(reopen(id), &a));
	EXPECT_EQ(0, strncmp(a.info.name, "u1000-", 6));
	EXPECT_NE(0, a.info.ttl);
}

FIXTURE(traced)
{
	struct registry		registry;
	struct perf_event_attr	trace;
	struct perf_event_attr	clock;
};

/* At level -1 users may trace, with raw samples too; at 0 they may not */
FIXTURE_SETUP(traced)
{
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(PARANOID, -1));

	pin(0);
	self->trace = sampling_attr(TRACEPOINT);
	self->trace.sample_type |= PERF_SAMPLE_RAW;
	self->clock = sampling_attr(CLOCK);
	ASSERT_EQ(0, become(USER));
}

FIXTURE_TEARDOWN_PARENT(traced)
{
	registry_teardown(_metadata, &self->registry);
}

static int forbid_tracing(void)
{
	return become(0) ?: set_sysctl(PARANOID, 0) ?: become(USER);
}

/* I cannot use my tracepoint after I lost the right to trace. */
TEST_F(traced, alone)
{
	int fd = open_attr(self->trace, -1), id = detach(fd);

	ASSERT_LT(0, id);
	EXPECT_LE(0, reopen(id));
	ASSERT_EQ(0, forbid_tracing());
	EXPECT_EQ(-EACCES, reopen(id));
	EXPECT_EQ(-EACCES, attach(fd));
}

/* I cannot use an event either whose group leader is such a tracepoint. */
TEST_F(traced, through_its_leader)
{
	int leader = open_attr(self->trace, -1), sibling = open_attr(self->clock, leader);
	int id = detach(leader);

	ASSERT_LT(0, id);
	ASSERT_EQ(id, DETACH(sibling, .id = id, .member = 1));
	EXPECT_LE(0, reopen_instance(id, 1));
	ASSERT_EQ(0, forbid_tracing());
	EXPECT_EQ(-EACCES, reopen_instance(id, 1));
	EXPECT_EQ(-EACCES, attach(sibling));
}

/* A buffer cannot enter a session if an event writes to it that I could not open. */
TEST_F(traced, through_a_buffer)
{
	int clock = open_attr(self->clock, -1), trace = open_attr(self->trace, -1);
	int id;

	ASSERT_NE(MAP_FAILED, mmap(NULL, (1 + PAGES) * getpagesize(), PROT_READ | PROT_WRITE,
				   MAP_SHARED, clock, 0));
	ASSERT_EQ(0, ioctl(trace, PERF_EVENT_IOC_SET_OUTPUT, clock));
	ASSERT_EQ(0, forbid_tracing());
	EXPECT_EQ(-EACCES, detach(clock));

	close(trace);
	id = detach(clock);
	EXPECT_LT(0, id);
	EXPECT_LE(0, reopen(id));
}

FIXTURE(siblings)
{
	struct registry		registry;
};

FIXTURE_SETUP(siblings)
{
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(PARANOID, 2));
}

FIXTURE_TEARDOWN_PARENT(siblings)
{
	registry_teardown(_metadata, &self->registry);
}

/* A view of my leader does not show the counts of others in its group. */
TEST_F(siblings, of_others)
{
	struct perf_event_attr mine = event_attr(CLOCK), theirs = event_attr(CLOCK), view;
	int leader, id, fd;
	__u64 values[8];

	mine.exclude_kernel = 1;
	leader = event_open(&mine, 0, -1, -1, 0);
	ASSERT_LE(0, leader);
	ASSERT_LE(0, event_open(&theirs, 0, -1, leader, 0));
	ASSERT_EQ(0, become(USER));
	id = detach(leader);
	ASSERT_LT(0, id);

	view = (struct perf_event_attr) {
		.type		= PERF_TYPE_PERSISTENT,
		.size		= sizeof(view),
		.config		= id,
	};
	fd = event_open(&view, 0, -1, -1, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(8, read(fd, values, sizeof(values)));

	view.read_format = PERF_FORMAT_GROUP;
	EXPECT_EQ(-EACCES, event_open(&view, 0, -1, -1, 0));
}

/* Nor those of others that measure a task which is not mine. */
TEST_F(siblings, of_a_task_of_others)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int leader, id;

	attr.exclude_kernel = 1;
	leader = event_open(&attr, 1, -1, -1, 0);
	ASSERT_LE(0, leader);
	ASSERT_LE(0, event_open(&attr, 1, -1, leader, 0));
	id = detach(leader);
	ASSERT_LT(0, id);
	ASSERT_EQ(0, session_mode(leader, 0644));
	ASSERT_EQ(0, become(USER));
	EXPECT_LE(0, VIEW(id, 0));
	EXPECT_EQ(-EACCES, VIEW(id, 0, .read_format = PERF_FORMAT_GROUP));
}

/* What has left my session does not keep me from my group. */
TEST_F(siblings, after_another_left)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int leader, id, other;

	attr.exclude_kernel = 1;
	ASSERT_EQ(0, become(USER));
	leader = event_open(&attr, 0, -1, -1, 0);
	ASSERT_LE(0, leader);
	id = detach(leader);
	ASSERT_LT(0, id);
	ASSERT_EQ(id, DETACH(event_open(&attr, 0, -1, leader, 0), .id = id, .member = 1));

	ASSERT_EQ(0, become(0));
	other = open_attr(event_attr(CLOCK), -1);
	ASSERT_EQ(id, DETACH(other, .id = id, .member = 2));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, VIEW(id, 0, .read_format = PERF_FORMAT_GROUP));
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, attach(other));
	ASSERT_EQ(0, become(USER));
	EXPECT_LE(0, VIEW(id, 0, .read_format = PERF_FORMAT_GROUP));
}

/* A view goes on showing the siblings that its opener could read, and no later ones. */
TEST_F(siblings, that_come_later)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int leader = open_attr(attr, -1), first = open_attr(attr, leader), id = detach(leader), fd;
	__u64 values[2 * 3 + 1], second;

	ASSERT_LT(0, id);
	ASSERT_EQ(0, session_mode(leader, 0644));
	ASSERT_EQ(id, DETACH(first, .id = id, .member = 1));
	ASSERT_EQ(id, DETACH(open_attr(attr, leader), .id = id, .member = 2));
	ASSERT_EQ(0, become(USER));
	fd = VIEW(id, 0, .read_format = PERF_FORMAT_GROUP | PERF_FORMAT_ID);
	ASSERT_EQ(sizeof(values), read(fd, values, sizeof(values)));
	second = values[6];

	ASSERT_EQ(0, become(0));
	ASSERT_EQ(id, DETACH(open_attr(attr, leader), .id = id, .member = 3));
	ASSERT_EQ(0, session_mode(leader, 0600));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(sizeof(values), read(fd, values, sizeof(values)));
	EXPECT_EQ(3, values[0]);
	EXPECT_EQ(second, values[6]);
	EXPECT_EQ(0, event_ioctl(fd, PERF_EVENT_IOC_RESET, NULL));

	/* One that leaves the group is not shown any more, and the others are. */
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, attach(first));
	ASSERT_EQ(0, close(first));
	EXPECT_EQ(5 * sizeof(*values), read(fd, values, sizeof(values)));
	EXPECT_EQ(2, values[0]);
	EXPECT_EQ(second, values[4]);
}

/* The right to read a session lasts while it expires, one sibling after the other. */
TEST_F(siblings, that_expire)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int round, i, leader, id, fd, ret;
	__u64 values[SIBLINGS + 2];

	for (round = 0; round < ROUNDS; round++) {
		leader = open_attr(attr, -1);
		id = detach(leader);
		ASSERT_LT(0, id);
		for (i = 1; i <= SIBLINGS; i++)
			ASSERT_EQ(id, DETACH(open_attr(attr, leader), .id = id, .member = i));
		ASSERT_EQ(0, session_mode(leader, 0644));

		ASSERT_EQ(0, become(USER));
		fd = VIEW(id, 0, .read_format = PERF_FORMAT_GROUP);
		ASSERT_EQ(sizeof(values), read(fd, values, sizeof(values)));
		ASSERT_EQ(0, become(0));
		ASSERT_EQ(0, SET(leader, .flags = PERF_PERSISTENT_SET_TTL, .ttl = 1));
		ASSERT_EQ(0, become(USER));
		do {
			ret = result(read(fd, values, sizeof(values)));
		} while (ret == sizeof(values));
		EXPECT_NE(-EACCES, ret);
		ASSERT_EQ(0, become(0));
		close_range(leader, fd, 0);
	}
}

/* A view of what was delegated does not map the buffer that its event has elsewhere. */
TEST_F(siblings, view_of_what_is_elsewhere)
{
	struct perf_event_attr attr = sampling_attr(CLOCK);
	size_t size = (1 + PAGES) * getpagesize();
	int fd = event_open(&attr, -1, 0, -1, 0), id = DETACH(fd, .buffer_pages = PAGES), view;

	ASSERT_LT(0, id);
	ASSERT_EQ(0, session_mode(fd, 0644));
	ASSERT_EQ(0, become(USER));
	view = reopen(id);
	ASSERT_EQ(0, munmap(mmap(NULL, size, PROT_READ, MAP_SHARED, view, 0), size));
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, attach(fd));
	ASSERT_LT(0, DETACH(fd, .buffer_pages = PAGES));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_READ, MAP_SHARED, view, 0));
	EXPECT_EQ(EACCES, errno);
}

/* Nor does it keep a mapping of it: until it is removed, the buffer can be in no other session. */
TEST_F(siblings, mapping_of_what_is_elsewhere)
{
	struct perf_event_attr attr = sampling_attr(CLOCK);
	size_t size = (1 + PAGES) * getpagesize();
	int fd = event_open(&attr, -1, 0, -1, 0), id = DETACH(fd, .buffer_pages = PAGES);
	void *own, *map;

	ASSERT_LT(0, id);
	ASSERT_EQ(0, session_mode(fd, 0644));
	/* The owner may map it. */
	own = mmap(NULL, size, PROT_READ, MAP_SHARED, reopen(id), 0);
	ASSERT_NE(MAP_FAILED, own);
	ASSERT_EQ(0, attach(fd));
	id = DETACH(fd);
	ASSERT_LT(0, id);

	ASSERT_EQ(0, session_mode(fd, 0644));
	ASSERT_EQ(0, become(USER));
	map = mmap(NULL, size, PROT_READ, MAP_SHARED, reopen(id), 0);
	ASSERT_NE(MAP_FAILED, map);
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, munmap(own, size));
	ASSERT_EQ(0, attach(fd));
	EXPECT_EQ(-EBUSY, DETACH(fd));
	ASSERT_EQ(0, munmap(map, size));
	EXPECT_LT(0, DETACH(fd));
}

/* A session of USER with an event of the caller; returns its id */
static int detach_as_user(void)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int id;

	attr.exclude_kernel = 1;
	id = become(USER) ?: detach(event_open(&attr, 0, -1, -1, 0));

	return become(0) ?: id;
}

/* Even CAP_PERFMON cannot add a buffer with events that the session's owner could not open. */
TEST_F(siblings, in_a_buffer)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int id = detach_as_user(), fd, other;

	ASSERT_LT(0, id);
	attr.exclude_kernel = 1;
	fd = event_open(&attr, 0, 0, -1, 0);
	other = open_attr(attr, -1);
	ASSERT_NE(MAP_FAILED, mmap(NULL, (1 + PAGES) * getpagesize(), PROT_READ | PROT_WRITE,
				   MAP_SHARED, fd, 0));
	ASSERT_EQ(0, ioctl(other, PERF_EVENT_IOC_SET_OUTPUT, fd));
	EXPECT_EQ(-EACCES, DETACH(fd, .id = id, .member = 1));
	ASSERT_EQ(0, close(other));
	EXPECT_EQ(id, DETACH(fd, .id = id, .member = 1));
}

static struct perf_event_attr records_group_attr(void)
{
	struct perf_event_attr attr = sampling_attr(CLOCK);

	attr.sample_type |= PERF_SAMPLE_READ;
	attr.read_format = PERF_FORMAT_GROUP;
	attr.exclude_kernel = 1;

	return attr;
}

/* Records with the counts of a group are for those who may read all of it. */
TEST_F(siblings, in_records)
{
	int leader = open_attr(records_group_attr(), -1);
	int sibling = open_attr(event_attr(CLOCK), leader);
	int other = open_attr(sampling_attr(CLOCK), -1);
	int id = DETACH(other, .buffer_pages = PAGES);

	ASSERT_LT(0, id);
	ASSERT_EQ(0, session_mode(other, 0644));
	ASSERT_EQ(0, ioctl(leader, PERF_EVENT_IOC_SET_OUTPUT, other));
	ASSERT_EQ(id, DETACH(leader, .id = id, .member = 1));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, reopen_instance(id, 0));
	EXPECT_EQ(-EACCES, reopen_instance(id, 1));

	ASSERT_EQ(0, become(0));
	ASSERT_EQ(id, DETACH(sibling, .id = id, .member = 2));
	ASSERT_EQ(0, become(USER));
	EXPECT_LE(0, reopen_instance(id, 0));
	EXPECT_LE(0, reopen_instance(id, 1));

	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, attach(sibling));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, reopen_instance(id, 0));
	EXPECT_EQ(-EACCES, reopen_instance(id, 1));
}

/* Even CAP_PERFMON cannot add records with counts that the session's owner could not open. */
TEST_F(siblings, in_records_of_a_user)
{
	struct perf_event_attr attr = records_group_attr(), own = event_attr(CLOCK);
	int id = detach_as_user(), leader, sibling;

	ASSERT_LT(0, id);
	leader = event_open(&attr, 0, -1, -1, 0);
	sibling = event_open(&own, 0, -1, leader, 0);
	ASSERT_LE(0, sibling);
	EXPECT_EQ(-EACCES, DETACH(leader, .id = id, .member = 1, .buffer_pages = PAGES));
	ASSERT_EQ(0, close(sibling));
	EXPECT_EQ(id, DETACH(leader, .id = id, .member = 1, .buffer_pages = PAGES));
}

TEST_HARNESS_MAIN
