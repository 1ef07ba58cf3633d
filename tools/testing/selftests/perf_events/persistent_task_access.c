// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: permissions for events of tasks.
 */
#include "persistent_task.h"

#define N	10
#define PAGES	4

FIXTURE(task_access)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	struct target		target;
	int			id;
	int			fd;
};

FIXTURE_VARIANT(task_access)
{
	enum who		who;
	int			cpu;
	bool			inherit;
};

FIXTURE_VARIANT_ADD(task_access, process) { .who = PROCESS, .cpu = ANY_CPU };
FIXTURE_VARIANT_ADD(task_access, process_cpu) { .who = PROCESS, .cpu = 0 };

FIXTURE_VARIANT_ADD(task_access, process_inherit) {
	.who = PROCESS, .cpu = ANY_CPU, .inherit = true
};

FIXTURE_VARIANT_ADD(task_access, own) { .who = OWN, .cpu = ANY_CPU };
FIXTURE_VARIANT_ADD(task_access, thread) { .who = THREAD, .cpu = ANY_CPU };

/* A user may measure its own programs, without the kernel, and has such a session */
FIXTURE_SETUP(task_access)
{
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(PARANOID, 2));

	pin(0);
	self->attr = event_attr(FAULTS);
	self->attr.exclude_kernel = 1;
	self->attr.inherit = variant->inherit;

	self->target = target_start(variant->who);
	ASSERT_LT(0, self->target.tid);
	ASSERT_EQ(0, ORDER(self->target.sock, BECOME, .value = USER));

	ASSERT_EQ(0, become(USER));
	self->id = target_detach(&self->target, variant->who, &self->attr, variant->cpu,
				 (struct perf_event_detach) {});
	ASSERT_LT(0, self->id);
	self->fd = reopen(self->id);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN_PARENT(task_access)
{
	registry_teardown(_metadata, &self->registry);
}

#define TELL(what, ...)	ORDER(self->target.sock, what, .event = FAULTS, ##__VA_ARGS__)

/* What is possible by id, and with an open descriptor */
#define EXPECT_ALL(expected) do {							\
	int _fd = reopen_instance(self->id, 0), _expected = (expected);			\
											\
	EXPECT_EQ(_expected, _fd < 0 ? _fd : 0);					\
	EXPECT_NE(-1ULL, count(self->fd));						\
	EXPECT_EQ(_expected, SET(self->fd, .flags = PERF_PERSISTENT_SET_COMMITTED));	\
	if (!_expected)									\
		EXPECT_EQ(0, hold(_fd));						\
	close(_fd);									\
	EXPECT_EQ(_expected, attach(self->fd));						\
} while (0)

#define EXPECT_ALL_AS(uid, expected) do {	\
	ASSERT_EQ(0, become(uid));		\
	EXPECT_ALL(expected);			\
} while (0)

/* I need no privilege to keep an event on my own program, for a limited time. */
TEST_F(task_access, owner)
{
	struct answer a;

	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_LE(N, count(self->fd));
	EXPECT_LE(0, reopen_at(self->id, self->target.tid, variant->cpu));
	EXPECT_LE(0, TELL(REOPEN_OWN, .value = self->id, .cpu = variant->cpu));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(USER, a.info.uid);
	EXPECT_LT(0, a.info.ttl);
	EXPECT_GE(read_number(sysctls[MAX_TTL]) * 1000000000, a.info.ttl);
	EXPECT_EQ(0, strncmp(a.info.name, "u1000-", 6));
	EXPECT_ALL(0);
}

static int map_to_write(int fd)
{
	void *base = mmap(NULL, (1 + PAGES) * getpagesize(), PROT_READ | PROT_WRITE,
			  MAP_SHARED, fd, 0);

	return base == MAP_FAILED ? -errno : 0;
}

/* I can consume its records; whoever gets my descriptor can only read. */
TEST_F(task_access, consumer)
{
	struct perf_event_attr attr = sampling_attr(FAULTS);
	int fd, id, view;

	if (variant->inherit)
		SKIP(return, "such an event has no buffer");

	attr.exclude_kernel = 1;
	fd = event_open(&attr, self->target.tid, variant->cpu, -1, 0);
	id = DETACH(fd, .buffer_pages = PAGES);
	ASSERT_LT(0, id);
	view = reopen(id);
	EXPECT_EQ(0, map_to_write(view));

	view = reopen(id);
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, become(OTHER));
	EXPECT_EQ(-EACCES, map_to_write(view));
}

/* I have a limit on their number and their time to live. */
TEST_F(task_access, limits)
{
	__u64 ttl = (read_number(sysctls[MAX_TTL]) + 1) * 1000000000;
	int fd = event_open(&self->attr, self->target.tid, variant->cpu, -1, 0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, DETACH(fd, .ttl = ttl));
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, set_sysctl(MAX_USER, 1));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EAGAIN, detach(fd));
	EXPECT_EQ(0, attach(self->fd));
	EXPECT_LT(0, detach(fd));
}

/* Another user may do nothing; a passed descriptor can only be read. */
TEST_F(task_access, stranger)
{
	EXPECT_ALL_AS(OTHER, -EACCES);
	EXPECT_EQ(-EACCES, hold(self->fd));
	EXPECT_EQ(-EACCES, reopen_at(self->id, self->target.tid, variant->cpu));
	EXPECT_TRUE(registry_has(self->id));
}

/* The administrator may do everything. */
TEST_F(task_access, admin)
{
	EXPECT_ALL_AS(0, 0);
}

/* I have no access while the target runs a program with more rights than mine ... */
TEST_F(task_access, setuid_program)
{
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, target_setuid_program(&self->target));
	EXPECT_ALL_AS(USER, -EACCES);
	EXPECT_EQ(-EACCES, reopen_at(self->id, self->target.tid, variant->cpu));
	EXPECT_ALL_AS(0, 0);
}

/* ... nor after it has exited. */
TEST_F(task_access, setuid_program_ended)
{
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, target_setuid_program(&self->target));
	ASSERT_TRUE(target_end(&self->target));
	EXPECT_ALL_AS(USER, -EACCES);
	EXPECT_ALL_AS(0, 0);
}

/* The same if the program drops its rights. */
TEST_F(task_access, setuid_program_drops_rights)
{
	struct order drop = { .verb = BECOME, .value = USER };

	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, target_setuid_program(&self->target));
	ASSERT_EQ(0, send_order(self->target.sock, &drop));
	ASSERT_EQ(0, TELL(DUMPABLE, .value = 0));
	EXPECT_ALL_AS(USER, -EACCES);
	ASSERT_TRUE(target_end(&self->target));
	EXPECT_ALL_AS(USER, -EACCES);
}

/* I have no access to a target that is not dumpable, alive ... */
TEST_F(task_access, undumpable)
{
	ASSERT_EQ(0, TELL(DUMPABLE, .value = 0));
	EXPECT_ALL_AS(USER, -EACCES);
	EXPECT_ALL_AS(OTHER, -EACCES);
	ASSERT_EQ(0, TELL(DUMPABLE, .value = 1));
	EXPECT_ALL_AS(USER, 0);
}

/* ... or dead. */
TEST_F(task_access, died_undumpable)
{
	ASSERT_EQ(0, TELL(DUMPABLE, .value = 0));
	ASSERT_TRUE(target_end(&self->target));
	EXPECT_ALL_AS(USER, -EACCES);
	EXPECT_ALL_AS(OTHER, -EACCES);
	EXPECT_ALL_AS(0, 0);
}

/* Without a pid for the target, it is out of reach, by id and by file. */
static void expect_out_of_reach(struct __test_metadata *_metadata,
				struct _test_data_task_access *self)
{
	pid_t child;

	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, unshare(CLONE_NEWPID));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		EXPECT_ALL_AS(USER, -EACCES);
		_exit(_metadata->exit_code);
	}
	ASSERT_TRUE(passed(child));
	EXPECT_ALL_AS(USER, 0);
}

/* I have no access to a target that my pid namespace does not show, alive ... */
TEST_F(task_access, pid_namespace)
{
	expect_out_of_reach(_metadata, self);
}

/* ... or dead. */
TEST_F(task_access, pid_namespace_dead)
{
	ASSERT_TRUE(target_end(&self->target));
	expect_out_of_reach(_metadata, self);
}

/* Another user does not learn from the error whether I measure a task. */
TEST_F(task_access, asked_for)
{
	pid_t pid = getpid();

	ASSERT_EQ(0, session_mode(self->fd, 0644));
	ASSERT_EQ(0, become(OTHER));
	EXPECT_EQ(-EACCES, reopen_at(self->id, self->target.tid, variant->cpu));
	EXPECT_EQ(-EACCES, reopen_at(self->id, getppid(), variant->cpu));
	EXPECT_EQ(-ENOENT, reopen_at(self->id, pid, 1));
	ASSERT_EQ(0, become(USER));
	EXPECT_LE(0, reopen_at(self->id, self->target.tid, variant->cpu));
}

/* I can end my session, though I may no longer read it, but I cannot extend it. */
TEST_F(task_access, ending)
{
	__u64 longest = read_number(sysctls[MAX_TTL]) * 1000000000ULL;

	ASSERT_EQ(0, TELL(DUMPABLE, .value = 0));
	ASSERT_EQ(0, become(OTHER));
	EXPECT_EQ(-EACCES, session_disable(self->fd));
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, reopen(self->id));
	EXPECT_EQ(0, session_disable(self->fd));
	EXPECT_EQ(-EACCES, session_enable(self->fd));
	EXPECT_EQ(-EACCES, SET(self->fd, .flags = PERF_PERSISTENT_SET_TTL));
	EXPECT_EQ(-EACCES, SET(self->fd, .flags = PERF_PERSISTENT_SET_TTL, .ttl = longest));

	/* The administrator has lifted the limit. */
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, SET(self->fd, .flags = PERF_PERSISTENT_SET_TTL));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(0, SET(open_session(self->id), .flags = PERF_PERSISTENT_SET_TTL, .ttl = 1));
	EXPECT_TRUE(eventually(!registry_has(self->id)));
}

/* Nor can I extend it bit by bit, with times that were shorter than the rest when I asked. */
TEST_F(task_access, ending_again_and_again)
{
	long long left, less = 60000;
	__u64 latest, earliest;
	char path[64];
	int session, err, set = 0;

	ASSERT_EQ(0, TELL(DUMPABLE, .value = 0));
	session = open_session(self->id);
	ASSERT_EQ(0, SET(session, .flags = PERF_PERSISTENT_SET_TTL, .ttl = 1000000000));
	latest = now_ns() + 1000000000;
	snprintf(path, sizeof(path), REGISTRY "/ids/%d/time_left", self->id);
	for (;;) {
		earliest = now_ns();
		left = read_number(path);
		if (left <= 2 * less)
			break;
		ASSERT_GE(latest, earliest + left) {
			TH_LOG("extended %d times, by %llu ns", set, earliest + left - latest);
		}
		err = SET(session, .flags = PERF_PERSISTENT_SET_TTL, .ttl = left - less);
		less += err ? less / 4 : -less / 16;
		set += !err;
	}
	EXPECT_LT(0, set);
}

/* I keep access to a target that exited while dumpable. */
TEST_F(task_access, died_dumpable)
{
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_TRUE(target_end(&self->target));
	EXPECT_LE(N, count(reopen(self->id)));
	EXPECT_EQ(-EACCES, become(OTHER) ?: reopen(self->id));
	EXPECT_ALL_AS(USER, 0);
}

/* I lose access to a target that became another user, alive or dead. */
TEST_F(task_access, another_user)
{
	ASSERT_EQ(0, TELL(BECOME, .value = OTHER));
	EXPECT_ALL_AS(USER, -EACCES);
	EXPECT_ALL_AS(OTHER, -EACCES);
	ASSERT_TRUE(target_end(&self->target));
	EXPECT_ALL_AS(USER, -EACCES);
	EXPECT_ALL_AS(OTHER, -EACCES);
	EXPECT_ALL_AS(0, 0);
}

/* I cannot detach an event on another user's task that somebody opened for me. */
TEST_F(task_access, strangers_task)
{
	int fd;

	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, TELL(BECOME, .value = OTHER));
	fd = event_open(&self->attr, self->target.tid, variant->cpu, -1, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, detach(fd));
	EXPECT_EQ(-EACCES, DETACH(fd, .id = self->id, .member = 1));
	EXPECT_EQ(1, registry_count("ids"));
}

/* The same if I opened it before the task executed a setuid program. */
TEST_F(task_access, setuid_program_opened_before)
{
	int fd = event_open(&self->attr, self->target.tid, variant->cpu, -1, 0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, attach(self->fd));
	ASSERT_EQ(0, target_setuid_program(&self->target));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, detach(fd));
	EXPECT_EQ(-EACCES, DETACH(fd, .name = addr("name")));
	EXPECT_EQ(0, registry_count("ids"));
	EXPECT_EQ(0, registry_count("events"));
	ASSERT_EQ(0, become(0));
	EXPECT_LT(0, detach(fd));
}

/* I cannot join another user's session with my event. */
TEST_F(task_access, strangers_id)
{
	struct target mine;
	int fd;

	ASSERT_EQ(0, become(0));
	mine = target_start(PROCESS);
	ASSERT_EQ(0, ORDER(mine.sock, BECOME, .value = OTHER));
	ASSERT_EQ(0, become(OTHER));
	fd = event_open(&self->attr, mine.tid, variant->cpu, -1, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EACCES, DETACH(fd, .id = self->id));
	EXPECT_LT(0, detach(fd));
}

/* An event that somebody adds to my group is readable to me. */
TEST_F(task_access, through_a_group)
{
	int leader = event_open(&self->attr, self->target.tid, variant->cpu, -1, 0), sibling;

	self->id = detach(leader);
	ASSERT_LT(0, self->id);
	self->fd = reopen(self->id);
	ASSERT_EQ(0, become(0));
	self->attr.exclude_kernel = 0;
	sibling = event_open(&self->attr, self->target.tid, variant->cpu, leader, 0);
	ASSERT_LE(0, sibling);
	EXPECT_ALL_AS(USER, 0);
}

/* Root in a user namespace has no right to the tasks outside. */
TEST_F(task_access, user_namespace)
{
	int fd;

	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, setresuid(OTHER, OTHER, OTHER));
	ASSERT_EQ(0, prctl(PR_SET_DUMPABLE, 1));
	ASSERT_EQ(0, unshare(CLONE_NEWUSER));
	ASSERT_EQ(0, write_file("/proc/self/uid_map", "0 1001 1"));
	ASSERT_EQ(0, getuid());

	EXPECT_ALL(-EACCES);
	fd = event_open(&self->attr, 0, variant->cpu, -1, 0);
	EXPECT_EQ(-EACCES, DETACH(fd, .id = self->id, .member = 1));
	EXPECT_LT(0, detach(fd));
}

/* The owner, as root in a user namespace, has no access, and cannot open such an event. */
TEST_F(task_access, owner_in_user_namespace)
{
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, setresuid(USER, USER, USER));
	ASSERT_EQ(0, prctl(PR_SET_DUMPABLE, 1));
	ASSERT_EQ(0, unshare(CLONE_NEWUSER));
	ASSERT_EQ(0, write_file("/proc/self/uid_map", "0 1000 1"));

	EXPECT_EQ(-EACCES, event_open(&self->attr, self->target.tid, variant->cpu, -1, 0));
	EXPECT_ALL(-EACCES);
	EXPECT_EQ(-EACCES, reopen_at(self->id, self->target.tid, variant->cpu));
}

FIXTURE(shared)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	struct target		target;
	struct target		strangers;
	int			id;
	int			fd;
	int			other;
};

/* Events of tasks of two users write to one buffer, set up by the administrator */
FIXTURE_SETUP(shared)
{
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(PARANOID, 2));

	pin(0);
	self->attr = sampling_attr(FAULTS);
	self->attr.exclude_kernel = 1;

	self->target = target_start(PROCESS);
	self->strangers = target_start(PROCESS);
	ASSERT_EQ(0, ORDER(self->target.sock, BECOME, .value = USER));
	ASSERT_EQ(0, ORDER(self->strangers.sock, BECOME, .value = OTHER));
	self->other = event_open(&self->attr, self->strangers.tid, 0, -1, 0);
	ASSERT_LE(0, self->other);

	ASSERT_EQ(0, become(USER));
	self->fd = event_open(&self->attr, self->target.tid, 0, -1, 0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN_PARENT(shared)
{
	registry_teardown(_metadata, &self->registry);
}

/* The administrator lets the other event write to the buffer of mine. */
static int share(int fd, int other)
{
	void *base = mmap(NULL, (1 + PAGES) * getpagesize(), PROT_READ | PROT_WRITE,
			  MAP_SHARED, fd, 0);

	return base == MAP_FAILED ? -errno :
	       become(0) ?: result(ioctl(other, PERF_EVENT_IOC_SET_OUTPUT, fd));
}

/* The administrator lets an event into my session, and write to the buffer of mine. */
static int let_in(int id, __u32 member, int other, int fd)
{
	int err = become(0) ?: result(ioctl(other, PERF_EVENT_IOC_SET_OUTPUT, fd));

	return err ?: DETACH(other, .id = id, .member = member);
}

/* Another user's task cannot enter my session through a buffer. */
TEST_F(shared, alive)
{
	ASSERT_EQ(0, share(self->fd, self->other));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, detach(self->fd));

	ASSERT_EQ(0, become(0));
	close(self->other);
	ASSERT_EQ(0, become(USER));
	EXPECT_LT(0, detach(self->fd));
}

/* The same after that task has exited. */
TEST_F(shared, dead)
{
	ASSERT_EQ(0, share(self->fd, self->other));
	ASSERT_EQ(0, ORDER(self->strangers.sock, DRIVE, .event = FAULTS, .value = N));
	ASSERT_TRUE(target_end(&self->strangers));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, detach(self->fd));
	ASSERT_TRUE(target_end(&self->target));
	EXPECT_EQ(-EACCES, detach(self->fd));

	ASSERT_EQ(0, become(0));
	EXPECT_LT(0, detach(self->fd));
}

/* A buffer that two events of mine share is not mine to map once a stranger's writes to it. */
TEST_F(shared, third_joins)
{
	size_t size = (1 + PAGES) * getpagesize();
	int second, view;

	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	ASSERT_LT(0, self->id);
	second = event_open(&self->attr, self->target.tid, 0, -1, 0);
	ASSERT_LE(0, second);
	ASSERT_EQ(0, ioctl(second, PERF_EVENT_IOC_SET_OUTPUT, self->fd));
	ASSERT_EQ(self->id, DETACH(second, .id = self->id, .member = 1));
	view = reopen_instance(self->id, 0);
	ASSERT_LE(0, view);
	ASSERT_EQ(0, munmap(mmap(NULL, size, PROT_READ, MAP_SHARED, view, 0), size));

	ASSERT_EQ(self->id, let_in(self->id, 2, self->other, self->fd));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_READ, MAP_SHARED, view, 0));
	EXPECT_EQ(EACCES, errno);
}

/* With both in the session, I cannot read it. */
TEST_F(shared, both_persistent)
{
	size_t size = (1 + PAGES) * getpagesize();
	int view;

	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	ASSERT_LT(0, self->id);
	view = reopen(self->id);
	ASSERT_LE(0, view);
	ASSERT_EQ(0, munmap(mmap(NULL, size, PROT_READ, MAP_SHARED, view, 0), size));
	ASSERT_EQ(self->id, let_in(self->id, 1, self->other, self->fd));

	EXPECT_ALL_AS(USER, -EACCES);
	/* Nor through a view that was opened before */
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_READ, MAP_SHARED, view, 0));
	EXPECT_EQ(EACCES, errno);
	ASSERT_EQ(0, become(0));
	EXPECT_NE(MAP_FAILED, mmap(NULL, size, PROT_READ, MAP_SHARED, view, 0));
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, attach(self->fd));
	close(self->fd);
	EXPECT_LE(0, reopen(self->id));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, reopen(self->id));
}

/* Nor if both are in a session of somebody else. */
TEST_F(shared, in_another_session)
{
	int view;

	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	ASSERT_LT(0, self->id);
	view = reopen(self->id);
	ASSERT_LE(0, view);

	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, attach(self->fd));
	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	ASSERT_LT(0, self->id);
	ASSERT_EQ(0, ioctl(self->other, PERF_EVENT_IOC_SET_OUTPUT, self->fd));
	ASSERT_EQ(self->id, DETACH(self->other, .id = self->id, .member = 1));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, (1 + PAGES) * getpagesize(), PROT_READ, MAP_SHARED,
				   view, 0));
	EXPECT_EQ(EACCES, errno);
}

/* Nor if its buffer came after it was detached. */
TEST_F(shared, in_a_later_buffer)
{
	struct perf_event_attr counting = self->attr;
	size_t size = (1 + PAGES) * getpagesize();
	int fd, view;

	counting.sample_period = 0;
	counting.freq = 0;
	fd = event_open(&counting, self->target.tid, 0, -1, 0);
	ASSERT_LE(0, fd);
	self->id = detach(fd);
	ASSERT_LT(0, self->id);
	view = reopen(self->id);
	ASSERT_LE(0, view);
	ASSERT_NE(MAP_FAILED, mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	ASSERT_EQ(0, munmap(mmap(NULL, size, PROT_READ, MAP_SHARED, view, 0), size));

	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_SET_OUTPUT, fd));
	ASSERT_EQ(self->id, DETACH(self->fd, .id = self->id, .member = 1));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_READ, MAP_SHARED, view, 0));
	EXPECT_EQ(EACCES, errno);
	/* I may read both: a view that I open now can be mapped. */
	view = reopen_instance(self->id, 0);
	EXPECT_NE(MAP_FAILED, mmap(NULL, size, PROT_READ, MAP_SHARED, view, 0));
}

/* Nor if the stranger's event has left the session: it goes on writing. */
TEST_F(shared, attached_again)
{
	size_t size = (1 + PAGES) * getpagesize();
	int view;

	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	ASSERT_LT(0, self->id);
	view = reopen(self->id);
	ASSERT_LE(0, view);

	ASSERT_EQ(self->id, let_in(self->id, 1, self->other, self->fd));
	ASSERT_EQ(0, attach(self->other));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, reopen(self->id));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, size, PROT_READ, MAP_SHARED, view, 0));
	EXPECT_EQ(EACCES, errno);

	ASSERT_EQ(0, become(0));
	close(self->other);
	ASSERT_EQ(0, become(USER));
	EXPECT_LE(0, reopen(self->id));
	EXPECT_NE(MAP_FAILED, mmap(NULL, size, PROT_READ, MAP_SHARED, view, 0));
}

/* Nor if it was redirected to the buffer when both were in the session. */
TEST_F(shared, redirected_later)
{
	struct perf_event_attr counting = self->attr;
	int fd;

	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	ASSERT_LT(0, self->id);
	ASSERT_EQ(0, become(0));
	counting.sample_period = 0;
	counting.freq = 0;
	fd = event_open(&counting, self->strangers.tid, 0, -1, 0);
	ASSERT_EQ(self->id, DETACH(fd, .id = self->id, .member = 1));
	ASSERT_EQ(0, become(USER));
	EXPECT_LE(0, reopen_instance(self->id, 0));
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, self->fd));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, reopen_instance(self->id, 0));
}

/* Everybody may read a session of root, until one of its events, @fd, has left it. */
#define EXPECT_LOST_WITH(fd) do {					\
	ASSERT_EQ(0, session_mode(reopen_instance(self->id, 0), 0044));	\
	ASSERT_EQ(0, become(USER));					\
	EXPECT_LE(0, reopen_instance(self->id, 0));			\
	ASSERT_EQ(0, become(0));					\
	ASSERT_EQ(0, attach(fd));					\
	ASSERT_EQ(0, become(USER));					\
	EXPECT_EQ(-EACCES, reopen_instance(self->id, 0));		\
} while (0)

/* Nor by a delegated session: its mode gives no right to an event that has left it. */
TEST_F(shared, delegated)
{
	int fd;

	ASSERT_EQ(0, become(0));
	self->id = DETACH(self->other, .buffer_pages = PAGES);
	ASSERT_LT(0, self->id);
	fd = event_open(&self->attr, self->strangers.tid, 0, -1, 0);
	ASSERT_EQ(self->id, let_in(self->id, 1, fd, self->other));
	EXPECT_LOST_WITH(fd);

	ASSERT_EQ(0, become(0));
	close(fd);
	ASSERT_EQ(0, become(USER));
	EXPECT_LE(0, reopen_instance(self->id, 0));
}

/* Nor to a sibling that has left it, whose count is in the records of the leader */
TEST_F(shared, delegated_group)
{
	struct perf_event_attr attr = self->attr, sibling = event_attr(FAULTS);
	int fd, leader;

	ASSERT_EQ(0, become(0));
	attr.sample_type |= PERF_SAMPLE_READ;
	attr.read_format = PERF_FORMAT_GROUP;
	sibling.read_format = PERF_FORMAT_GROUP;
	leader = event_open(&attr, self->strangers.tid, 0, -1, 0);
	fd = event_open(&sibling, self->strangers.tid, 0, leader, 0);
	self->id = DETACH(leader, .buffer_pages = PAGES);
	ASSERT_LT(0, self->id);
	ASSERT_EQ(self->id, DETACH(fd, .id = self->id, .member = 1));
	EXPECT_LOST_WITH(fd);
}

TEST_HARNESS_MAIN
