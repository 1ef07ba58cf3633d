// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: events of cgroups.
 */
#include "persistent_cgroup.h"
#include "persistent_task.h"

#define N		100
#define ONLINE		"/sys/devices/system/cpu/cpu1/online"

FIXTURE(cgroup)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	struct target		target;
	char			root[64];
	bool			mounted;
	char			path[2][128];
	int			dir[2];
	int			cpu;
	int			id;
	int			fd;
};

FIXTURE_VARIANT(cgroup)
{
	enum event		event;
	bool			sampling;
	int			cpu;
};

FIXTURE_VARIANT_ADD(cgroup, tracepoint) { .event = TRACEPOINT };
FIXTURE_VARIANT_ADD(cgroup, tracepoint_other_cpu) { .event = TRACEPOINT, .cpu = 1 };
FIXTURE_VARIANT_ADD(cgroup, tracepoint_sampling) { .event = TRACEPOINT, .sampling = true };
FIXTURE_VARIANT_ADD(cgroup, faults) { .event = FAULTS };
FIXTURE_VARIANT_ADD(cgroup, clock) { .event = CLOCK };
FIXTURE_VARIANT_ADD(cgroup, cycles) { .event = CYCLES };
FIXTURE_VARIANT_ADD(cgroup, cycles_sampling) { .event = CYCLES, .sampling = true };

static int enter(const char *cgroup, pid_t pid)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);

	return write_number(path, pid);
}

/* Two cgroups, an event of the first, and a process that is in neither yet */
FIXTURE_SETUP(cgroup)
{
	static const char * const names[] = { "persistent_a", "persistent_b" };
	int i;

	if (!has_event(variant->event))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, find_cgroups(self->root, sizeof(self->root), &self->mounted));

	self->cpu = pin(variant->cpu);
	self->attr = variant->sampling ? sampling_attr(variant->event) :
					 event_attr(variant->event);
	for (i = 0; i < 2; i++) {
		self->dir[i] = make_cgroup(self->root, names[i], self->path[i]);
		ASSERT_LE(0, self->dir[i]);
	}

	self->target = target_start(PROCESS);
	ASSERT_LT(0, self->target.tid);
	self->fd = open_cgroup(self->attr, self->dir[0], self->cpu);
	ASSERT_LE(0, self->fd);
	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);
}

FIXTURE_TEARDOWN_PARENT(cgroup)
{
	int i;

	registry_teardown(_metadata, &self->registry);
	for (i = 0; i < 2; i++)
		EXPECT_TRUE(eventually(!rmdir(self->path[i]) || errno == ENOENT));
	EXPECT_EQ(0, leave_cgroups(self->root, self->mounted));
	write_file(ONLINE, "1");
}

#define TELL(what, ...)	ORDER(self->target.sock, what, .event = variant->event, ##__VA_ARGS__)

#define EXPECT_MORE(n, before) do {			\
	__u64 _now = count(self->fd);			\
	__u64 _least = (before) + (n);			\
							\
	EXPECT_LE(_least, _now);			\
	if (variant->event == TRACEPOINT)		\
		EXPECT_EQ(_least, _now);		\
} while (0)

/* An event that nobody has open counts in its cgroup, and nothing else. */
TEST_F(cgroup, counts_the_cgroup_alone)
{
	close(self->fd);
	drive(variant->event, N);
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	self->fd = reopen(self->id);
	EXPECT_EQ(0, count(self->fd));
	close(self->fd);

	ASSERT_EQ(0, enter(self->path[0], self->target.pid));
	drive(variant->event, N);
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	self->fd = reopen(self->id);
	EXPECT_MORE(N, 0);
}

/* An event goes on when its maker is killed and the tasks that it counted are gone. */
TEST_F(cgroup, maker_is_killed)
{
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child) {
		self->id = detach(open_cgroup(self->attr, self->dir[1], self->cpu));
		kill(getpid(), SIGKILL);
	}
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	ASSERT_LT(0, self->id);

	ASSERT_EQ(0, enter(self->path[1], self->target.pid));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_TRUE(target_end(&self->target));
	self->fd = reopen(self->id);
	EXPECT_MORE(N, 0);
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->fd));
}

/* A process that leaves the cgroup is no longer counted. */
TEST_F(cgroup, left)
{
	__u64 before;

	ASSERT_EQ(0, enter(self->path[0], self->target.pid));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_EQ(0, enter(self->path[1], self->target.pid));
	before = count(self->fd);
	EXPECT_LE(N, before);
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_EQ(before, count(self->fd));
}

/* A member can measure several cgroups on a CPU, each once, and the CPU itself. */
TEST_F(cgroup, join)
{
	int elsewhere = !self->cpu;

#define JOIN(dir, cpu)	DETACH(open_cgroup(self->attr, dir, cpu), .id = self->id)

	EXPECT_EQ(-EEXIST, JOIN(self->dir[0], self->cpu));
	EXPECT_EQ(self->id, JOIN(self->dir[0], elsewhere));
	EXPECT_EQ(-EEXIST, JOIN(self->dir[0], elsewhere));
	EXPECT_EQ(self->id, JOIN(self->dir[1], self->cpu));
	EXPECT_EQ(-EEXIST, JOIN(self->dir[1], self->cpu));
	EXPECT_EQ(self->id, DETACH(event_open(&self->attr, -1, self->cpu, -1, 0),
				   .id = self->id));
	EXPECT_EQ(self->id, DETACH(event_open(&self->attr, self->target.tid, self->cpu, -1, 0),
				   .id = self->id));
}

/* I reopen an instance by its CPU if it is the only one there, else by its number. */
TEST_F(cgroup, reopen)
{
	struct answer a;

	EXPECT_LE(0, reopen(self->id));
	EXPECT_LE(0, reopen_at(self->id, -1, self->cpu));
	EXPECT_EQ(-ENOENT, reopen_at(self->id, -1, !self->cpu));
	EXPECT_EQ(-ENOENT, reopen_at(self->id, 0, self->cpu));

	ASSERT_EQ(self->id, JOIN(self->dir[1], self->cpu));
	EXPECT_EQ(-EINVAL, reopen_at(self->id, -1, self->cpu));
	EXPECT_EQ(-EINVAL, reopen(self->id));
	ASSERT_EQ(0, query(reopen_instance(self->id, 0), &a));
	EXPECT_STREQ("/persistent_a", a.cgroup);
	ASSERT_EQ(0, query(reopen_instance(self->id, 1), &a));
	EXPECT_STREQ("/persistent_b", a.cgroup);
}

/* I am told the path of the cgroup, as far as there is room. */
TEST_F(cgroup, query)
{
	char path[] = "/persistent_a";
	struct answer a;
	int other = event_open(&self->attr, -1, self->cpu, -1, 0);

	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_STREQ(path, a.cgroup);
	EXPECT_EQ(sizeof(path), a.info.cgroup_size);
	EXPECT_EQ(-1, a.info.self.pid);
	EXPECT_EQ(self->cpu, a.info.self.cpu);
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, a.info.self.state);
	EXPECT_EQ(variant->sampling ? 512 * 1024 / getpagesize() : 0, a.info.buffer_pages);

	memset(a.cgroup, '%', sizeof(a.cgroup));
	a.info.cgroup_size = 5;
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_QUERY_PERSISTENT, &a.info));
	EXPECT_EQ(0, memcmp("/pers%", a.cgroup, 6));
	EXPECT_EQ(sizeof(path), a.info.cgroup_size);

	a.info.cgroup = 0;
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_QUERY_PERSISTENT, &a.info));
	EXPECT_EQ(sizeof(path), a.info.cgroup_size);

	ASSERT_LT(0, detach(other));
	ASSERT_EQ(0, query(other, &a));
	EXPECT_EQ(0, a.info.cgroup_size);
}

/* A path that is too long is left out, and the rest of the answer is complete. */
TEST_F(cgroup, long_path)
{
	enum { DEPTH = PATH_MAX / (NAME_MAX + 1) + 1 };
	int dir[DEPTH + 1] = { self->dir[1] };
	char name[NAME_MAX + 1] = "";
	struct answer a;
	int i, fd;

	memset(name, 'x', NAME_MAX);
	for (i = 0; i < DEPTH; i++) {
		ASSERT_EQ(0, mkdirat(dir[i], name, 0755));
		dir[i + 1] = openat(dir[i], name, O_RDONLY | O_CLOEXEC);
		ASSERT_LE(0, dir[i + 1]);
	}

	fd = open_cgroup(self->attr, dir[DEPTH], self->cpu);
	ASSERT_LT(0, detach(fd));
	EXPECT_EQ(0, query(fd, &a));
	EXPECT_EQ(0, a.info.cgroup_size);
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, a.info.self.state);

	while (i--)
		EXPECT_EQ(0, result(unlinkat(dir[i], name, AT_REMOVEDIR)));
}

/* The path starts at the root of my cgroup namespace. */
TEST_F(cgroup, namespace)
{
	struct answer a;

	ASSERT_EQ(self->id, JOIN(self->dir[1], self->cpu));
	ASSERT_EQ(0, enter(self->path[0], getpid()));
	ASSERT_EQ(0, unshare(CLONE_NEWCGROUP));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_STREQ("/", a.cgroup);
	ASSERT_EQ(0, query(reopen_instance(self->id, 1), &a));
	EXPECT_STREQ("/../persistent_b", a.cgroup);
	ASSERT_EQ(0, enter(self->root, getpid()));
}

/* The count can still be read after the cgroup is removed. */
TEST_F(cgroup, removed)
{
	struct answer a;
	__u64 before;

	ASSERT_EQ(0, enter(self->path[0], self->target.pid));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	ASSERT_EQ(0, enter(self->root, self->target.pid));
	before = count(self->fd);
	EXPECT_LE(N, before);
	close(self->fd);
	close(self->dir[0]);
	ASSERT_TRUE(eventually(!rmdir(self->path[0])));

	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	self->fd = reopen(self->id);
	EXPECT_EQ(before, count(self->fd));
	EXPECT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(0, session_disable(self->fd));
	EXPECT_EQ(0, session_enable(self->fd));

	/* Another cgroup of that name is not measured. */
	ASSERT_EQ(0, mkdir(self->path[0], 0755));
	ASSERT_EQ(0, enter(self->path[0], self->target.pid));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_EQ(before, count(self->fd));
	EXPECT_EQ(0, attach(self->fd));
}

/* The samples are those of the cgroup. */
TEST_F(cgroup, buffer)
{
	struct ring r = {};
	struct answer a;

	if (!variant->sampling)
		SKIP(return, "an event that only counts has no buffer");

	ASSERT_EQ(0, ring_map(&r, self->fd, 512 * 1024 / getpagesize(), PROT_READ));
	ASSERT_EQ(0, enter(self->path[0], self->target.pid));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	drive(variant->event, N);
	EXPECT_LT(0, ring_samples(&r));
	if (variant->event == TRACEPOINT)
		EXPECT_EQ(N, ring_samples(&r));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(ring_head(&r), a.info.buffer_head);
}

/* After a CPU is back, the event measures the cgroup there, enabled or disabled as before. */
TEST_F(cgroup, offline)
{
	int enabled = open_cgroup(self->attr, self->dir[0], 1);
	int disabled = open_cgroup(self->attr, self->dir[0], 1);
	__u64 before;

	ASSERT_LT(0, detach(enabled));
	ASSERT_LT(0, detach(disabled));
	ASSERT_EQ(0, event_ioctl(disabled, PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, enter(self->path[0], self->target.pid));
	ASSERT_EQ(1, TELL(PIN, .value = 1));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	self->fd = enabled;
	EXPECT_MORE(N, 0);

	ASSERT_EQ(0, write_file(ONLINE, "0"));
	before = count(enabled);
	EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, state_of(enabled));
	/* Else the way back to sleep may be on the CPU that has come back. */
	ASSERT_EQ(0, TELL(PIN, .value = 0));
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_EQ(before, count(enabled));
	ASSERT_EQ(0, write_file(ONLINE, "1"));

	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(enabled));
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(disabled));
	EXPECT_EQ(before, count(enabled));
	ASSERT_EQ(1, TELL(PIN, .value = 1));
	drive(variant->event, N);
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_MORE(N, before);
	EXPECT_GT(N, count(disabled));
}

/* A held or disabled event counts nothing; then it goes on, in the cgroup alone. */
TEST_F(cgroup, hold)
{
	int fd = reopen(self->id);
	__u64 before;

	ASSERT_EQ(0, enter(self->path[0], self->target.pid));
	ASSERT_EQ(0, hold(fd));
	before = count(self->fd);
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_EQ(before, count(self->fd));
	close(fd);
	drive(variant->event, N);
	ASSERT_EQ(0, TELL(DRIVE, .value = N));
	EXPECT_MORE(N, before);
}

/* An event of a cgroup takes the rights of a CPU-wide event. */
TEST_F(cgroup, access)
{
	int fd;

	ASSERT_EQ(0, set_sysctl(PARANOID, 0));
	fd = open_cgroup(event_attr(CLOCK), self->dir[1], self->cpu);
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, reopen(self->id));
	self->id = detach(fd);
	ASSERT_LT(0, self->id);
	EXPECT_LE(0, reopen(self->id));

	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, set_sysctl(PARANOID, 1));
	ASSERT_EQ(0, become(USER));
	EXPECT_EQ(-EACCES, reopen(self->id));
	EXPECT_EQ(-EACCES, attach(fd));
}

/* attr.persistent works for events of cgroups. */
TEST_F(cgroup, persistent_at_open)
{
	struct answer a;

	self->attr.persistent = 1;
	self->fd = open_cgroup(self->attr, self->dir[1], self->cpu);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_STREQ("/persistent_b", a.cgroup);
	EXPECT_EQ(2, registry_count("ids"));
}

TEST_HARNESS_MAIN
