// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: limits on the number and memory of a user's events,
 * and that a user gets all of it back.
 */
#include <sys/prctl.h>

#include "persistent.h"

#define PAGES	8
#define CYCLES	50
#define ROUNDS	15
#define ASKERS	8
#define MEMBERS	128
#define SESSION	65536
#define RW	(PROT_READ | PROT_WRITE)

/* The size of a buffer of PAGES, in KiB */
static long buffer_kb(void)
{
	return (PAGES + 1) * getpagesize() / 1024;
}

static int set_memlock(long buffers)
{
	struct rlimit limit = { buffers * buffer_kb() * 1024, RLIM_INFINITY };

	return result(setrlimit(RLIMIT_MEMLOCK, &limit));
}

static int open_event(void)
{
	struct perf_event_attr attr = event_attr(CLOCK);

	return event_open(&attr, -1, 0, -1, 0);
}

static int detach_with_buffer(int fd)
{
	return DETACH(fd, .buffer_pages = PAGES);
}

FIXTURE(limits)
{
	struct registry		registry;
	int			fds[4];
};

FIXTURE_SETUP(limits)
{
	int i;

	registry_setup(_metadata, &self->registry);

	ASSERT_EQ(0, set_sysctl(PARANOID, 0));
	for (i = 0; i < ARRAY_LEN(self->fds); i++) {
		self->fds[i] = open_event();
		ASSERT_LE(0, self->fds[i]);
	}
}

FIXTURE_TEARDOWN_PARENT(limits)
{
	registry_teardown(_metadata, &self->registry);
}

/* The system-wide limit is for the administrator too; a refused event is not kept in part. */
TEST_F(limits, in_the_system)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int id;

	ASSERT_EQ(0, set_sysctl(MAX_SYSTEM, 2));
	id = detach(self->fds[0]);
	ASSERT_EQ(id, DETACH(self->fds[1], .id = id, .member = 1));
	EXPECT_EQ(-EAGAIN, detach(self->fds[2]));
	EXPECT_EQ(-EAGAIN, DETACH(self->fds[2], .id = id, .member = 2));
	attr.persistent = 1;
	EXPECT_EQ(-EAGAIN, event_open(&attr, -1, 0, -1, 0));
	EXPECT_EQ(1, registry_count("ids"));

	ASSERT_EQ(0, attach(self->fds[0]));
	EXPECT_LT(0, detach(self->fds[2]));
}

/* Lowering a limit ends nothing, and applies from then on. */
TEST_F(limits, lowered)
{
	int id = detach(self->fds[0]);

	ASSERT_EQ(0, set_sysctl(MAX_SYSTEM, 0));
	EXPECT_TRUE(registry_has(id));
	EXPECT_EQ(-EAGAIN, detach(self->fds[1]));
	ASSERT_EQ(0, attach(self->fds[0]));
	EXPECT_EQ(-EAGAIN, detach(self->fds[0]));
}

/* A user has a limit; it does not affect other users or the administrator. */
TEST_F(limits, of_a_user)
{
	ASSERT_EQ(0, set_sysctl(MAX_USER, 2));
	ASSERT_EQ(0, become(USER));
	EXPECT_LT(0, detach(self->fds[0]));
	EXPECT_LT(0, detach(self->fds[1]));
	EXPECT_EQ(-EAGAIN, detach(self->fds[2]));

	ASSERT_EQ(0, become(OTHER));
	EXPECT_LT(0, detach(self->fds[2]));

	ASSERT_EQ(0, become(0));
	EXPECT_LT(0, detach(self->fds[3]));
	EXPECT_LT(0, detach(open_event()));
	EXPECT_LT(0, detach(open_event()));
}

/* Each instance that joins a session counts. */
TEST_F(limits, joining_counts)
{
	int id;

	ASSERT_EQ(0, set_sysctl(MAX_USER, 2));
	ASSERT_EQ(0, become(USER));
	id = detach(self->fds[0]);
	EXPECT_EQ(id, DETACH(self->fds[1], .id = id, .member = 1));
	EXPECT_EQ(-EAGAIN, DETACH(self->fds[2], .id = id, .member = 2));
}

/* Whoever ends a session, its user can have another one. */
TEST_F(limits, given_back)
{
	int i;

	ASSERT_EQ(0, set_sysctl(MAX_USER, 1));
	for (i = 0; i < CYCLES; i++) {
		ASSERT_EQ(0, become(USER));
		ASSERT_LT(0, detach(self->fds[0]));
		ASSERT_EQ(-EAGAIN, detach(self->fds[1]));
		ASSERT_EQ(0, become(i % 2 ? 0 : USER));
		ASSERT_EQ(0, attach(self->fds[0]));
	}
}

/* Refused events do not count. */
TEST_F(limits, refused_does_not_count)
{
	int i;

	ASSERT_EQ(0, set_sysctl(MAX_USER, 2));
	ASSERT_EQ(0, become(USER));
	ASSERT_LT(0, DETACH(self->fds[0], .name = addr("taken")));
	for (i = 0; i < CYCLES; i++) {
		ASSERT_EQ(-EINVAL, DETACH(self->fds[1], .buffer_pages = 3));
		ASSERT_EQ(-EEXIST, DETACH(self->fds[1], .name = addr("taken")));
		ASSERT_EQ(-ENOENT, DETACH(self->fds[1], .id = INT_MAX));
	}
	EXPECT_LT(0, detach(self->fds[1]));
}

/* A refusal for one user takes nothing from the others. */
TEST_F(limits, refused_is_left_to_others)
{
	int i;

	ASSERT_EQ(0, set_sysctl(MAX_SYSTEM, 2));
	ASSERT_EQ(0, set_sysctl(MAX_USER, 1));
	ASSERT_EQ(0, become(USER));
	ASSERT_LT(0, detach(self->fds[0]));
	for (i = 0; i < CYCLES; i++)
		ASSERT_EQ(-EAGAIN, detach(self->fds[1]));
	ASSERT_EQ(0, become(OTHER));
	EXPECT_LT(0, detach(self->fds[1]));
}

/* A quarter of the system-wide limit is reserved for those with CAP_PERFMON. */
TEST_F(limits, reserve)
{
	int round, id;

	ASSERT_EQ(0, set_sysctl(MAX_SYSTEM, 4));
	for (round = 0; round < 3; round++) {
		ASSERT_EQ(0, become(USER));
		id = detach(self->fds[0]);
		ASSERT_LT(0, id);
		ASSERT_LT(0, detach(self->fds[1]));
		ASSERT_LT(0, detach(self->fds[2]));
		EXPECT_EQ(-EAGAIN, detach(self->fds[3]));
		EXPECT_EQ(-EAGAIN, DETACH(self->fds[3], .id = id, .member = 1));
		ASSERT_EQ(0, become(OTHER));
		EXPECT_EQ(-EAGAIN, detach(self->fds[3]));

		ASSERT_EQ(0, setresuid(0, 0, 0));
		ASSERT_EQ(0, setresuid(OTHER, OTHER, 0));
		ASSERT_EQ(0, only_capability(CAP_PERFMON));
		ASSERT_LT(0, detach(self->fds[3]));
		EXPECT_EQ(-EAGAIN, detach(open_event()));
		EXPECT_EQ(4, registry_count("ids"));

		/* The last quarter is free again, but not for users. */
		ASSERT_EQ(0, attach(self->fds[3]));
		ASSERT_EQ(0, become(USER));
		EXPECT_EQ(-EAGAIN, detach(self->fds[3]));
		ASSERT_EQ(0, become(0));
		ASSERT_EQ(0, attach(self->fds[0]));
		ASSERT_EQ(0, attach(self->fds[1]));
		ASSERT_EQ(0, attach(self->fds[2]));
	}
}

/* Events of those with CAP_PERFMON count against the same limit: they leave less to users. */
TEST_F(limits, reserve_is_of_all)
{
	ASSERT_EQ(0, set_sysctl(MAX_SYSTEM, 4));
	ASSERT_LT(0, detach(self->fds[0]));
	ASSERT_LT(0, detach(self->fds[1]));
	ASSERT_EQ(0, become(USER));
	EXPECT_LT(0, detach(self->fds[2]));
	EXPECT_EQ(-EAGAIN, detach(self->fds[3]));
	ASSERT_EQ(0, become(0));
	EXPECT_LT(0, detach(self->fds[3]));
}

/* The limit of a user covers all user namespaces together; each can have a limit as well. */
TEST_F(limits, in_a_user_namespace)
{
	int status, i;
	pid_t child;

	ASSERT_EQ(0, set_sysctl(MAX_USER, 3));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		EXPECT_EQ(0, setresuid(USER, USER, USER));
		EXPECT_EQ(0, prctl(PR_SET_DUMPABLE, 1));
		EXPECT_EQ(0, unshare(CLONE_NEWUSER));
		EXPECT_EQ(0, write_file("/proc/self/uid_map", "0 1000 1"));
		EXPECT_EQ(0, getuid());

		/* The root of the namespace sets its limit. */
		EXPECT_EQ(0, set_sysctl(MAX_USER, 1));
		EXPECT_LT(0, detach(self->fds[0]));
		EXPECT_EQ(-EAGAIN, detach(self->fds[1]));
		EXPECT_EQ(0, set_sysctl(MAX_USER, 1000));
		EXPECT_EQ(1000, read_number(sysctls[MAX_USER]));
		EXPECT_LT(0, detach(self->fds[1]));

		/* The outer limit applies inside as well. */
		EXPECT_LT(0, detach(self->fds[2]));
		for (i = 0; i < CYCLES; i++)
			EXPECT_EQ(-EAGAIN, detach(self->fds[3]));
		EXPECT_EQ(0, attach(self->fds[2]));
		_exit(_metadata->exit_code);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	EXPECT_EQ(3, read_number(sysctls[MAX_USER]));

	/* Events made there still count when the namespace has no process any more. */
	ASSERT_EQ(0, become(USER));
	EXPECT_LT(0, detach(self->fds[2]));
	EXPECT_EQ(-EAGAIN, detach(self->fds[3]));
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, attach(self->fds[0]));
	ASSERT_EQ(0, become(USER));
	EXPECT_LT(0, detach(self->fds[3]));
	EXPECT_EQ(-EAGAIN, detach(self->fds[0]));
}

/* Join the session @id, or create one, with member @member on @cpu of @task. */
static int join(int id, __u32 member, pid_t task, int cpu)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int fd, err;

	attr.disabled = 1;
	fd = event_open(&attr, task, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return fd;

	err = DETACH(fd, .id = id, .member = member);
	close(fd);

	return err;
}

/*
 * A session has a limit of instances, even if the system allows more. At the
 * limit all are still there, and another session can be created.
 */
TEST_F_TIMEOUT(limits, of_a_session, 200)
{
	struct perf_persistent_query q = { };
	int cpu, id = 0, joined = 0, err = 0;
	__u32 member;
	pid_t task;

	ASSERT_EQ(0, set_sysctl(MAX_SYSTEM, 2 * SESSION));
	while (err >= 0) {
		task = fork();
		ASSERT_LE(0, task);
		if (!task) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			while (1)
				pause();
		}
		for (member = 0; member < MEMBERS; member++) {
			for (cpu = 0; cpu < 2; cpu++) {
				err = join(id, member, task, cpu);
				if (err < 0)
					break;
				id = err;
				joined++;
			}
		}
	}
	EXPECT_EQ(-EAGAIN, err);
	EXPECT_EQ(SESSION, joined);
	EXPECT_EQ(0, event_ioctl(reopen_instance(id, SESSION - 1),
				 PERF_EVENT_IOC_QUERY_PERSISTENT, &q));
	EXPECT_EQ(SESSION, q.nr_instances);
	EXPECT_LT(0, detach(self->fds[0]));

	EXPECT_EQ(0, SET(reopen_instance(id, 0), .flags = PERF_PERSISTENT_SET_TTL, .ttl = 1));
	while (registry_has(id))
		usleep(1000);
}

/* The limits have their documented defaults, and only the administrator can set them. */
TEST_F(limits, sysctls)
{
	EXPECT_EQ(65536, read_number(sysctls[MAX_SYSTEM]));
	EXPECT_EQ(256, read_number(sysctls[MAX_USER]));
	EXPECT_EQ(-ENOENT, read_number("/proc/sys/kernel/perf_event_persistent_max_user"));
	EXPECT_GT(0, set_sysctl(MAX_SYSTEM, 1LL << 31));
	EXPECT_GT(0, set_sysctl(MAX_USER, -1));
	EXPECT_EQ(0, set_sysctl(MAX_SYSTEM, INT_MAX));
	EXPECT_LT(0, detach(self->fds[0]));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, set_sysctl(MAX_SYSTEM, 1));
	EXPECT_EQ(-EACCES, set_sysctl(MAX_USER, 1));
	EXPECT_LT(0, detach(self->fds[1]));
}

/* The longest time to live of a user cannot be unlimited. */
TEST_F(limits, time_is_limited)
{
	EXPECT_EQ(-EINVAL, set_sysctl(MAX_TTL, 0));
	EXPECT_EQ(self->registry.sysctls[MAX_TTL], read_number(sysctls[MAX_TTL]));
	EXPECT_EQ(0, set_sysctl(MAX_TTL, 1));
}

FIXTURE(memory)
{
	struct registry		registry;
	int			fds[16];
	int			buffers;
};

FIXTURE_VARIANT(memory)
{
	bool			sysctl;		/* charged within perf_event_mlock_kb */
	bool			rlimit;		/* charged within RLIMIT_MEMLOCK */
	bool			mapped;		/* mapped before it is detached */
};

FIXTURE_VARIANT_ADD(memory, sysctl) { .sysctl = true };
FIXTURE_VARIANT_ADD(memory, rlimit) { .rlimit = true };
FIXTURE_VARIANT_ADD(memory, both) { .sysctl = true, .rlimit = true };
FIXTURE_VARIANT_ADD(memory, sysctl_mapped) { .sysctl = true, .mapped = true };
FIXTURE_VARIANT_ADD(memory, rlimit_mapped) { .rlimit = true, .mapped = true };
FIXTURE_VARIANT_ADD(memory, both_mapped) { .sysctl = true, .rlimit = true, .mapped = true };

/* A user who may lock self->buffers of PAGES */
FIXTURE_SETUP(memory)
{
	int i, cpus = sysconf(_SC_NPROCESSORS_ONLN);

	registry_setup(_metadata, &self->registry);

	ASSERT_EQ(0, set_sysctl(PARANOID, 0));
	ASSERT_EQ(0, set_sysctl(MLOCK_KB, variant->sysctl ? buffer_kb() : 0));
	ASSERT_EQ(0, set_memlock(variant->rlimit ? 2 : 0));
	self->buffers = (variant->sysctl ? cpus : 0) + (variant->rlimit ? 2 : 0);
	ASSERT_GT(ARRAY_LEN(self->fds), self->buffers);

	ASSERT_EQ(0, become(USER));
	for (i = 0; i <= self->buffers; i++) {
		self->fds[i] = open_event();
		ASSERT_LE(0, self->fds[i]);
	}
}

FIXTURE_TEARDOWN_PARENT(memory)
{
	registry_teardown(_metadata, &self->registry);
}

/* After munmap(), only the registry has the memory */
static int detach_variant(int fd, bool mapped)
{
	struct ring r;
	int err, id;

	if (!mapped)
		return detach_with_buffer(fd);

	err = ring_map(&r, fd, PAGES, RW);
	if (err)
		return err;
	id = detach(fd);
	ring_unmap(&r);

	return id;
}

/* I can lock exactly as much memory as I am allowed. */
TEST_F(memory, limit)
{
	int i;

	for (i = 0; i < self->buffers; i++)
		EXPECT_LT(0, detach_variant(self->fds[i], variant->mapped));
	EXPECT_EQ(-EPERM, detach_variant(self->fds[i], variant->mapped));
	EXPECT_EQ(self->buffers, registry_count("ids"));
}

/* ATTACH returns all of the memory to me, as often as I like. */
TEST_F(memory, given_back)
{
	int i, cycle;

	for (cycle = 0; cycle < CYCLES; cycle++) {
		for (i = 0; i < self->buffers; i++)
			ASSERT_LT(0, detach_variant(self->fds[i], variant->mapped));
		ASSERT_EQ(-EPERM, detach_variant(self->fds[i], variant->mapped));
		while (i--)
			ASSERT_EQ(0, attach(self->fds[i]));
	}
}

/* After my exit, the memory still counts against my user. */
TEST_F(memory, after_exit)
{
	pid_t child = fork();
	int i;

	ASSERT_LE(0, child);
	if (!child) {
		for (i = 0; i < self->buffers; i++)
			EXPECT_LT(0, detach_variant(self->fds[i], variant->mapped));
		_exit(_metadata->exit_code);
	}
	ASSERT_TRUE(passed(child));
	EXPECT_EQ(-EPERM, detach_variant(self->fds[self->buffers], variant->mapped));

	ASSERT_EQ(0, attach(self->fds[0]));
	close(self->fds[0]);
	EXPECT_LT(0, detach_variant(self->fds[self->buffers], variant->mapped));
}

/* Mapping a buffer to read it neither charges nor uncharges anybody. */
TEST_F(memory, readers)
{
	struct ring r = {};
	int i;

	for (i = 0; i < self->buffers; i++)
		ASSERT_LT(0, detach_variant(self->fds[i], variant->mapped));

	for (i = 0; i < CYCLES; i++) {
		ASSERT_EQ(0, become(i % 2 ? 0 : USER));
		ASSERT_EQ(0, ring_map(&r, self->fds[0], PAGES, PROT_READ));
		ASSERT_EQ(0, ring_unmap(&r));
	}
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EPERM, detach_variant(self->fds[self->buffers], variant->mapped));
}

/* These limits do not apply to the administrator. */
TEST_F(memory, administrator)
{
	int i;

	ASSERT_EQ(0, become(0));
	for (i = 0; i <= self->buffers; i++)
		EXPECT_LT(0, detach_variant(self->fds[i], variant->mapped));
}

FIXTURE(pinned)
{
	struct registry		registry;
	int			fd;
};

/* The whole buffer exceeds perf_event_mlock_kb and shows in VmPin */
FIXTURE_SETUP(pinned)
{
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_sysctl(MLOCK_KB, 0));
	self->fd = open_event();
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN_PARENT(pinned)
{
	registry_teardown(_metadata, &self->registry);
}

static long long vm_pin(void)
{
	char buf[4096], *line;

	if (read_file("/proc/self/status", buf, sizeof(buf)) < 0)
		return -1;
	line = strstr(buf, "VmPin:");

	return line ? strtoll(line + 6, NULL, 10) : -1;
}

/* A mapping is pinned memory of the process until it is unmapped. */
TEST_F(pinned, mapping)
{
	struct ring r = {};

	ASSERT_EQ(0, vm_pin());
	ASSERT_EQ(0, ring_map(&r, self->fd, PAGES, RW));
	EXPECT_EQ(buffer_kb(), vm_pin());
	ASSERT_EQ(0, ring_unmap(&r));
	EXPECT_EQ(0, vm_pin());
}

/* My mapping is not charged to another process that unmaps it last. */
TEST_F(pinned, two_processes)
{
	struct ring r = {}, other = {};
	int to_child[2], to_parent[2];
	pid_t child;
	char c;

	ASSERT_EQ(0, ring_map(&r, self->fd, PAGES, RW));
	ASSERT_EQ(0, pipe(to_child));
	ASSERT_EQ(0, pipe(to_parent));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		EXPECT_EQ(0, ring_map(&other, self->fd, PAGES, RW));
		EXPECT_EQ(1, write(to_parent[1], "m", 1));
		EXPECT_EQ(1, read(to_child[0], &c, 1));
		EXPECT_EQ(0, ring_unmap(&other));
		EXPECT_EQ(0, vm_pin());
		_exit(_metadata->exit_code);
	}
	ASSERT_EQ(1, read(to_parent[0], &c, 1));
	ASSERT_EQ(0, ring_unmap(&r));
	ASSERT_EQ(1, write(to_child[1], "u", 1));
	ASSERT_TRUE(passed(child));
	EXPECT_EQ(0, vm_pin());
}

/* A detached buffer is no longer pinned by any process. */
TEST_F(pinned, detached_while_mapped)
{
	struct ring r = {};

	ASSERT_EQ(0, ring_map(&r, self->fd, PAGES, RW));
	ASSERT_LT(0, detach(self->fd));
	EXPECT_EQ(0, vm_pin());
	ASSERT_EQ(0, ring_unmap(&r));
	EXPECT_EQ(0, vm_pin());
	ASSERT_EQ(0, attach(self->fd));
	EXPECT_EQ(0, vm_pin());
}

/* The same if it was detached without a mapping and is mapped later. */
TEST_F(pinned, mapped_after)
{
	struct ring r = {};

	ASSERT_LT(0, detach_with_buffer(self->fd));
	EXPECT_EQ(0, vm_pin());
	ASSERT_EQ(0, ring_map(&r, self->fd, PAGES, RW));
	EXPECT_EQ(0, vm_pin());
	ASSERT_EQ(0, attach(self->fd));
	ASSERT_EQ(0, ring_unmap(&r));
	EXPECT_EQ(0, vm_pin());
}

/* I cannot detach a buffer that is charged to another user. */
TEST_F(pinned, of_another_user)
{
	struct ring r = {};

	ASSERT_EQ(0, set_sysctl(PARANOID, 0));
	ASSERT_EQ(0, set_memlock(1));
	ASSERT_EQ(0, become(USER));
	ASSERT_EQ(0, ring_map(&r, self->fd, PAGES, RW));
	ASSERT_EQ(0, become(OTHER));
	EXPECT_EQ(-EACCES, detach(self->fd));
	EXPECT_EQ(0, registry_count("ids"));

	ASSERT_EQ(0, become(0));
	EXPECT_LT(0, detach(self->fd));
}

/* Adding unlimited values does not wrap around. */
TEST_F(limits, no_memory_limits)
{
	struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };

	ASSERT_EQ(0, set_sysctl(MLOCK_KB, -1));
	ASSERT_EQ(0, set_memlock(1));
	ASSERT_EQ(0, become(USER));
	EXPECT_LT(0, detach_with_buffer(self->fds[0]));
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, set_sysctl(MLOCK_KB, INT_MAX));
	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &none));
	ASSERT_EQ(0, become(USER));
	EXPECT_LT(0, detach_with_buffer(self->fds[1]));
}

/* Concurrent calls cannot pin more memory than sequential ones. */
TEST_F(limits, memory_at_once)
{
	int i, status, round, barrier[2], granted;
	pid_t children[ASKERS];
	char byte;

	ASSERT_EQ(0, set_sysctl(MLOCK_KB, 0));
	ASSERT_EQ(0, set_memlock(1));
	for (round = 0; round < ROUNDS; round++) {
		ASSERT_EQ(0, pipe(barrier));
		for (i = 0; i < ASKERS; i++) {
			children[i] = fork();
			ASSERT_LE(0, children[i]);
			if (children[i])
				continue;
			close(barrier[1]);
			if (become(USER) || read(barrier[0], &byte, 1))
				_exit(2);
			_exit(detach_with_buffer(open_event()) < 0);
		}
		close(barrier[0]);
		close(barrier[1]);
		for (granted = i = 0; i < ASKERS; i++) {
			ASSERT_EQ(children[i], waitpid(children[i], &status, 0));
			ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) < 2);
			granted += !WEXITSTATUS(status);
		}
		EXPECT_EQ(1, granted);
		stop_all();
		ASSERT_TRUE(eventually(!registry_count("ids")));
	}
}

TEST_HARNESS_MAIN
