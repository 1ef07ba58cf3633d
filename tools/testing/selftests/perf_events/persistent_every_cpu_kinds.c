// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: what is made on CPUs that come online later, and what
 * is not.
 */
#include <linux/bpf.h>
#include <linux/hw_breakpoint.h>
#include <sys/prctl.h>

#include "persistent_cgroup.h"
#include "persistent_every_cpu.h"

#define N		100
#define KPROBE_TYPE	"/sys/bus/event_source/devices/kprobe/type"

FIXTURE(late)
{
	struct registry		registry;
};

/* The last CPU is not there yet. */
FIXTURE_SETUP(late)
{
	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, set_online(false));
}

FIXTURE_TEARDOWN_PARENT(late)
{
	hot_teardown(_metadata, &self->registry);
}

/* An event of the administrator's; what is older has been served before it */
static int open_witness(unsigned int flags)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int fd = open_early(&attr, -1), id = detach_every(fd, flags);

	return id < 0 ? id : fd;
}

/* Have the CPU come, and everything made there that is going to be */
static bool come(int witness)
{
	struct answer a;

	return witness >= 0 && !set_online(true) && eventually(has_instances(witness, 2, &a));
}

static int instances(int fd)
{
	struct answer a;

	return query(fd, &a) ?: (int)a.info.nr_instances;
}

/* Its buffer counts against the memory that its maker may lock. */
TEST_F(late, memory)
{
	struct perf_event_attr attr = sampling_attr(FAULTS);
	size_t buffer = 2 * getpagesize();
	int fd[2], i;

	attr.exclude_kernel = 1;
	ASSERT_EQ(0, set_sysctl(PARANOID, 0));
	ASSERT_EQ(0, set_sysctl(MLOCK_KB, 0));
	for (i = 0; i < 2; i++) {
		/* Room for as many as he has, or for one more */
		ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK,
				       &(struct rlimit) { (2 * i + 1) * buffer, RLIM_INFINITY }));
		ASSERT_EQ(0, become(USER));
		fd[i] = open_early(&attr, -1);
		ASSERT_LT(0, DETACH(fd[i], .flags = PERF_DETACH_EVERY_CPU, .buffer_pages = 1));
		ASSERT_EQ(0, become(0));
	}
	ASSERT_TRUE(come(open_witness(0)));
	EXPECT_EQ(1, instances(fd[0]));
	EXPECT_EQ(2, instances(fd[1]));
}

/* It looks at the clock that the others look at. */
TEST_F(late, clock)
{
	struct perf_event_attr attr = sampling_attr(FAULTS);
	struct timespec ts;
	struct ring r;
	__u64 time;
	int fd, id;

	attr.use_clockid = 1;
	attr.clockid = CLOCK_REALTIME;
	fd = open_early(&attr, -1);
	id = detach_every(fd, 0);
	ASSERT_LT(0, id);
	ASSERT_TRUE(come(open_witness(0)));

	ASSERT_EQ(0, ring_map(&r, reopen_late(id), 512 * 1024 / getpagesize(), PROT_READ));
	clock_gettime(CLOCK_REALTIME, &ts);
	drive_there(FAULTS, 1);
	ASSERT_LT(0, ring_samples(&r));
	/* After the header, the identifier and the task */
	memcpy(&time, &r.data[3 * sizeof(__u64)], sizeof(time));
	EXPECT_LE(ts.tv_sec, time / 1000000000);
	EXPECT_GT(ts.tv_sec + PATIENCE_MS / 1000, time / 1000000000);
}

/* Its samples are whole. */
TEST_F(late, samples)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	struct perf_event_header *header;
	__u64 period;
	struct ring r;
	int fd, id;

	attr.sample_type |= PERF_SAMPLE_PERIOD;
	fd = open_early(&attr, -1);
	id = detach_every(fd, 0);
	ASSERT_LT(0, id);
	ASSERT_TRUE(come(open_witness(0)));

	ASSERT_EQ(0, ring_map(&r, reopen_late(id), 512 * 1024 / getpagesize(), PROT_READ));
	drive_there(TRACEPOINT, N);
	ASSERT_EQ(N, ring_samples(&r));
	header = (void *)r.data;
	/* The header, the identifier, the task, the time and the period */
	ASSERT_EQ(5 * sizeof(__u64), header->size);
	memcpy(&period, &r.data[4 * sizeof(__u64)], sizeof(period));
	EXPECT_EQ(1, period);
}

/* Its records say who did what, when and where, as those of the others do. */
TEST_F(late, side_band)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_DUMMY,
		.comm		= 1,
		.sample_id_all	= 1,
		.sample_type	= PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_IDENTIFIER,
	};
	int fd = open_early(&attr, -1), id = detach_every(fd, 0), late;
	struct perf_event_header *header;
	__u64 identifier;
	struct answer a;
	struct ring r;

	ASSERT_LT(0, id);
	ASSERT_TRUE(come(open_witness(0)));
	late = reopen_late(id);
	ASSERT_EQ(0, query(late, &a));
	ASSERT_EQ(0, ring_map(&r, late, a.info.buffer_pages, PROT_READ));

	pin(LATE_CPU);
	prctl(PR_SET_NAME, "late");
	pin(0);
	ASSERT_LT(0, ring_records(&r, 0, ring_head(&r), PERF_RECORD_COMM));
	header = (void *)r.data;
	memcpy(&identifier, r.data + header->size - sizeof(identifier), sizeof(identifier));
	EXPECT_EQ(a.info.self.event_id, identifier);
}

/* A frequency that was changed since is the one there. */
TEST_F(late, frequency)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	__u64 frequency = 10000;
	struct ring r;
	int fd, id;

	attr.freq = 1;
	attr.sample_freq = 1;
	fd = open_early(&attr, -1);
	id = detach_every(fd, 0);
	ASSERT_LT(0, id);
	ASSERT_EQ(0, event_ioctl(fd, PERF_EVENT_IOC_PERIOD, &frequency));

	ASSERT_TRUE(come(open_witness(0)));
	ASSERT_EQ(0, ring_map(&r, reopen_late(id), 512 * 1024 / getpagesize(), PROT_READ));
	/* With one a second, most go by until it is found how many that is. */
	drive_there(TRACEPOINT, 20000);
	EXPECT_LT(N, ring_samples(&r));
}

/* It runs, though somebody suspends the others for a while. */
TEST_F(late, others_suspended)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int fd = open_early(&attr, -1), id = detach_every(fd, 0), late;

	ASSERT_LT(0, id);
	ASSERT_EQ(0, suspend(fd));
	ASSERT_TRUE(come(open_witness(0)));
	late = reopen_late(id);
	EXPECT_TRUE(eventually(state_of(late) == PERF_PERSISTENT_STATE_ENABLED));
	drive_there(TRACEPOINT, N);
	EXPECT_EQ(N, count(late));
}

/* What I ended there does not come back, whatever else is made there later. */
TEST_F(late, ended)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int fd = open_early(&attr, -1), id = detach_every(fd, 0), late;
	int witness = open_witness(PERF_DETACH_UNCOMMITTED);
	struct answer a;

	ASSERT_LT(0, id);
	ASSERT_LE(0, witness);
	ASSERT_TRUE(come(open_witness(0)));
	late = reopen_late(id);
	ASSERT_EQ(0, attach(late));
	close(late);

	ASSERT_EQ(0, SET(witness, .flags = PERF_PERSISTENT_SET_COMMITTED));
	ASSERT_TRUE(eventually(has_instances(witness, 2, &a)));
	EXPECT_EQ(1, instances(fd));
}

/* A CPU has a few breakpoints only */
static struct perf_event_attr breakpoint(void)
{
	static int watched;

	return (struct perf_event_attr) {
		.type		= PERF_TYPE_BREAKPOINT,
		.size		= sizeof(struct perf_event_attr),
		.bp_type	= HW_BREAKPOINT_W,
		.bp_addr	= addr(&watched),
		.bp_len		= sizeof(watched),
		.sample_period	= 1,
	};
}

static int breakpoints_left(int cpu)
{
	struct perf_event_attr attr = breakpoint();
	int fds[32], n, i;

	for (n = 0; n < ARRAY_LEN(fds); n++) {
		fds[n] = event_open(&attr, -1, cpu, -1, 0);
		if (fds[n] < 0)
			break;
	}
	for (i = 0; i < n; i++)
		close(fds[i]);

	return n;
}

/* One that cannot have its buffer is not made in secret either. */
TEST_F(late, refused)
{
	struct perf_event_attr attr = breakpoint();
	int fd;

	ASSERT_EQ(0, set_sysctl(MLOCK_KB, 0));
	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK,
			       &(struct rlimit) { 2 * getpagesize(), RLIM_INFINITY }));
	ASSERT_EQ(0, setresuid(USER, USER, 0));
	ASSERT_EQ(0, only_capability(CAP_PERFMON));
	fd = open_early(&attr, -1);
	ASSERT_LT(0, DETACH(fd, .flags = PERF_DETACH_EVERY_CPU, .buffer_pages = 1));
	ASSERT_EQ(0, become(0));

	ASSERT_TRUE(come(open_witness(0)));
	EXPECT_EQ(1, instances(fd));
	EXPECT_EQ(breakpoints_left(0) + 1, breakpoints_left(LATE_CPU));
}

/* A breakpoint that was moved is made where it is now, and is one of the others. */
TEST_F(late, moved)
{
	struct perf_event_attr attr = breakpoint();
	int fd = open_early(&attr, -1), id = detach_every(fd, 0), late;
	static int elsewhere;

	ASSERT_LT(0, id);
	attr.bp_addr = addr(&elsewhere);
	ASSERT_EQ(0, result(ioctl(fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, &attr)));
	ASSERT_TRUE(come(open_witness(0)));
	late = reopen_late(id);
	ASSERT_LE(0, late);

	pin(LATE_CPU);
	elsewhere = 1;
	EXPECT_EQ(1, count(late));
}

/* When I end it and the others nothing is left: what is scarce can be had again. */
TEST_F(late, nothing_is_kept)
{
	struct perf_event_attr attr = breakpoint();
	int fd, late, id, i;

	for (i = 0; i < 6; i++) {
		fd = open_early(&attr, -1);
		ASSERT_LE(0, fd) {
			TH_LOG("after %d", i);
		}
		id = detach_every(fd, 0);
		ASSERT_LT(0, id);
		ASSERT_EQ(0, set_online(true));
		ASSERT_TRUE(eventually((late = reopen_late(id)) >= 0));
		ASSERT_EQ(0, attach(late));
		close(late);
		ASSERT_EQ(0, attach(fd));
		close(fd);
		ASSERT_EQ(0, set_online(false));
	}
}

/* An event of a task that is in the id goes where the task goes. */
TEST_F(late, task_of_the_id)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int fd = open_early(&attr, -1), id = detach_every(fd, 0), task;

	ASSERT_LT(0, id);
	task = event_open(&attr, getpid(), -1, -1, 0);
	ASSERT_EQ(id, DETACH(task, .id = id, .member = 1));
	ASSERT_TRUE(come(open_witness(0)));
	EXPECT_EQ(3, instances(fd));
}

/* What a probe looks at is its maker's to say: none is made, nor a group that it leads. */
TEST_F(late, probe)
{
	struct perf_event_attr clock = event_attr(CLOCK), probe = {
		.type		= read_number(KPROBE_TYPE),
		.size		= sizeof(probe),
		.kprobe_addr	= kernel_address(SYSCALL_SYMBOL("getppid")),
	};
	int leader = open_early(&probe, -1), sibling = open_early(&clock, leader);
	int id = detach_every(leader, 0);

	ASSERT_LT(0, id);
	ASSERT_EQ(id, DETACH(sibling, .id = id, .member = 1));
	ASSERT_TRUE(come(open_witness(0)));
	EXPECT_EQ(2, instances(leader));
}

/* Nor is one that somebody's program decides about. */
TEST_F(late, program)
{
	struct perf_event_attr attr = sampling_attr(CLOCK);
	struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr load = {
		.prog_type	= BPF_PROG_TYPE_PERF_EVENT,
		.insns		= addr(insns),
		.insn_cnt	= ARRAY_LEN(insns),
		.license	= addr("GPL"),
	};
	int fd = open_early(&attr, -1), prog;

	prog = syscall(__NR_bpf, BPF_PROG_LOAD, &load, sizeof(load));
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_SET_BPF, prog));
	ASSERT_LT(0, detach_every(fd, 0));
	ASSERT_TRUE(come(open_witness(0)));
	EXPECT_EQ(1, instances(fd));
}

FIXTURE(late_cgroups)
{
	struct registry		registry;
	char			root[64];
	bool			mounted;
	char			path[2][128];
	int			dir[2];
};

FIXTURE_SETUP(late_cgroups)
{
	static const char * const names[] = { "persistent_late_1", "persistent_late_2" };
	int i;

	registry_setup(_metadata, &self->registry);
	ASSERT_EQ(0, find_cgroups(self->root, sizeof(self->root), &self->mounted));
	for (i = 0; i < 2; i++) {
		self->dir[i] = make_cgroup(self->root, names[i], self->path[i]);
		ASSERT_LE(0, self->dir[i]);
	}
	ASSERT_EQ(0, set_online(false));
}

FIXTURE_TEARDOWN_PARENT(late_cgroups)
{
	int i;

	hot_teardown(_metadata, &self->registry);
	for (i = 0; i < 2; i++)
		EXPECT_TRUE(eventually(!rmdir(self->path[i]) || errno == ENOENT));
	EXPECT_EQ(0, leave_cgroups(self->root, self->mounted));
}

/* Each of several cgroups that are measured gets its own. */
TEST_F(late_cgroups, each)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int fd = open_cgroup(attr, self->dir[0], pin(0)), id = detach_every(fd, 0), i, n = 0;
	struct answer a;

	ASSERT_LT(0, id);
	ASSERT_EQ(id, DETACH(open_cgroup(attr, self->dir[1], 0), .id = id));
	ASSERT_TRUE(come(open_witness(0)));
	ASSERT_EQ(0, query(fd, &a));
	ASSERT_EQ(4, a.info.nr_instances);
	for (i = 0; i < 4; i++)
		n += a.instances[i].cpu == LATE_CPU;
	EXPECT_EQ(2, n);

	/* Nobody is in either of them. */
	drive_there(TRACEPOINT, N);
	for (i = 0; i < 4; i++)
		EXPECT_EQ(0, count(reopen_instance(id, i)));
}

TEST_HARNESS_MAIN
