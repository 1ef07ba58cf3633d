// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: events of every kind keep working.
 */
#include <linux/bpf.h>
#include <linux/hw_breakpoint.h>

#include "persistent_task.h"
#include "symbols.h"

#define N		100
#define PAGES		8
#define SYMBOL		SYSCALL_SYMBOL("getppid")
#define FILTER_ID	"/sys/kernel/tracing/events/syscalls/sys_enter_getpriority/id"

static int watched;

static __attribute__((noipa)) void probed(void)
{
	__atomic_store_n(&watched, 1, __ATOMIC_RELAXED);
}

enum kind {
	FILTERED,	/* a tracepoint, of which every second hit is filtered out */
	DATA,		/* a breakpoint on a variable of a process */
	CODE,		/* a breakpoint on a function of the kernel */
	OWN_CODE,	/* a breakpoint on a function of a process */
	KPROBE,
	KRETPROBE,
	UPROBE,
	URETPROBE,
};

FIXTURE(kinds)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	int			id;
	int			fd;
};

FIXTURE_VARIANT(kinds)
{
	enum kind		kind;
	bool			task;
	int			cpu;
};

FIXTURE_VARIANT_ADD(kinds, filter_cpu) { .kind = FILTERED };
FIXTURE_VARIANT_ADD(kinds, filter_task) { .kind = FILTERED, .task = true, .cpu = ANY_CPU };
FIXTURE_VARIANT_ADD(kinds, data_cpu) { .kind = DATA };
FIXTURE_VARIANT_ADD(kinds, data_task) { .kind = DATA, .task = true, .cpu = ANY_CPU };
FIXTURE_VARIANT_ADD(kinds, code_cpu) { .kind = CODE };
/* On arm64, a task has no breakpoints in the kernel. */
#ifndef __aarch64__
FIXTURE_VARIANT_ADD(kinds, code_task) { .kind = CODE, .task = true, .cpu = 0 };
#endif
FIXTURE_VARIANT_ADD(kinds, own_code_task) { .kind = OWN_CODE, .task = true, .cpu = ANY_CPU };
FIXTURE_VARIANT_ADD(kinds, kprobe_cpu) { .kind = KPROBE };
FIXTURE_VARIANT_ADD(kinds, kprobe_task) { .kind = KPROBE, .task = true, .cpu = ANY_CPU };
FIXTURE_VARIANT_ADD(kinds, kretprobe_cpu) { .kind = KRETPROBE };
FIXTURE_VARIANT_ADD(kinds, uprobe_cpu) { .kind = UPROBE };
FIXTURE_VARIANT_ADD(kinds, uprobe_task) { .kind = UPROBE, .task = true, .cpu = ANY_CPU };
FIXTURE_VARIANT_ADD(kinds, uretprobe_cpu) { .kind = URETPROBE };

static struct perf_event_attr kind_attr(enum kind kind)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };

	switch (kind) {
	case FILTERED:
		attr.type = PERF_TYPE_TRACEPOINT;
		attr.config = read_number(FILTER_ID);
		break;
	case DATA:
		attr.type = PERF_TYPE_BREAKPOINT;
		attr.bp_type = HW_BREAKPOINT_W;
		attr.bp_addr = addr(&watched);
		attr.bp_len = sizeof(watched);
		break;
	case CODE:
	case OWN_CODE:
		attr.type = PERF_TYPE_BREAKPOINT;
		attr.bp_type = HW_BREAKPOINT_X;
		attr.bp_addr = kind == CODE ? kernel_address(SYMBOL) : addr(probed);
		attr.bp_len = sizeof(long);
		break;
	case KPROBE:
	case KRETPROBE:
		attr.type = pmu_type("kprobe");
		attr.config = kind == KRETPROBE;
		attr.kprobe_func = addr(SYMBOL);
		break;
	case UPROBE:
	case URETPROBE:
		attr = uprobe_attr(probed);
		attr.config = kind == URETPROBE;
		break;
	}

	return attr;
}

/* Trigger the event N times, and all other kinds as well */
static void drive_all(void)
{
	int i;

	for (i = 0; i < N; i++) {
		probed();
		syscall(__NR_getppid);
		syscall(__NR_getpriority, PRIO_PROCESS, i & 1);
	}
}

FIXTURE_SETUP(kinds)
{
	registry_setup(_metadata, &self->registry);

	pin(0);
	self->attr = kind_attr(variant->kind);
}

FIXTURE_TEARDOWN_PARENT(kinds)
{
	registry_teardown(_metadata, &self->registry);
}

static int open_kind(enum kind kind, struct perf_event_attr *attr, int pid, int cpu)
{
	int fd = event_open(attr, pid, cpu, -1, 0);

	if (fd >= 0 && kind == FILTERED)
		return event_ioctl(fd, PERF_EVENT_IOC_SET_FILTER, "who == 1") ?: fd;

	return fd;
}

/* The number of hits out of N */
#define TIMES	(variant->kind == FILTERED ? N / 2 : N)

/*
 * arm64 steps over a breakpoint in the kernel. If an interrupt comes then, the
 * breakpoint is hit again.
 */
#ifdef __aarch64__
#define AGAIN	(variant->kind == CODE ? N / 2 : 0)
#else
#define AGAIN	0
#endif

#define EXPECT_TIMES(fd)				\
do {							\
	long _n = count(fd);				\
							\
	EXPECT_LE(TIMES, _n);				\
	EXPECT_GE(TIMES + AGAIN, _n);			\
} while (0)

#define OPEN()	open_kind(variant->kind, &self->attr, variant->task ? getpid() : -1, variant->cpu)

/* The event goes on when it is closed, and any descriptor disables and enables it. */
TEST_F(kinds, goes_on)
{
	self->fd = OPEN();
	ASSERT_LE(0, self->fd);
	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);
	close(self->fd);

	drive_all();
	self->fd = reopen(self->id);
	EXPECT_TIMES(self->fd);
	ASSERT_EQ(0, session_disable(self->fd));
	close(self->fd);
	drive_all();
	self->fd = reopen(self->id);
	EXPECT_TIMES(self->fd);
	ASSERT_EQ(0, session_enable(self->fd));
	close(self->fd);

	self->fd = reopen(self->id);
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_RESET, NULL));
	drive_all();
	EXPECT_TIMES(self->fd);
	EXPECT_LE(2 * TIMES, count(reopen(self->id)));
}

/* The event goes on when its maker is killed, and ends when it is stopped. */
TEST_F(kinds, maker_is_killed)
{
	pid_t target = getpid(), child = fork();

	ASSERT_LE(0, child);
	if (!child) {
		self->fd = open_kind(variant->kind, &self->attr, variant->task ? target : -1,
				     variant->cpu);
		self->id = detach(self->fd);
		kill(getpid(), SIGKILL);
	}
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	ASSERT_LT(0, self->id);

	drive_all();
	self->fd = reopen(self->id);
	EXPECT_TIMES(self->fd);
	stop(self->id);
	EXPECT_FALSE(registry_has(self->id));
	close(self->fd);
	drive_all();
}

/* QUERY reveals no addresses. */
TEST_F(kinds, query)
{
	struct answer a;

	self->fd = OPEN();
	ASSERT_LT(0, detach(self->fd));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(self->attr.type, a.attr.type);
	EXPECT_EQ(0, a.attr.config1);
	if (self->attr.type != PERF_TYPE_BREAKPOINT)
		EXPECT_EQ(0, a.attr.config2);
}

/* The count can be read after the target has exited. */
TEST_F(kinds, target_dies)
{
	int go[2];
	pid_t child;
	char c;

	if (!variant->task)
		SKIP(return, "the event has no target task");

	ASSERT_EQ(0, pipe(go));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		close(go[1]);
		if (!read(go[0], &c, 1))
			drive_all();
		_exit(0);
	}
	self->fd = open_kind(variant->kind, &self->attr, child, variant->cpu);
	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);
	close(self->fd);
	close(go[1]);
	ASSERT_EQ(child, waitpid(child, NULL, 0));

	self->fd = reopen(self->id);
	EXPECT_TIMES(self->fd);
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXITED, state_of(self->fd));
}

FIXTURE(samples)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	struct ring		ring;
	int			id;
	int			own;	/* the file that was detached */
	int			fd;
};

FIXTURE_VARIANT(samples)
{
	int			pid;
	int			cpu;
};

FIXTURE_VARIANT_ADD(samples, cpu) { .pid = -1, .cpu = 0 };
FIXTURE_VARIANT_ADD(samples, task) { .pid = 0, .cpu = ANY_CPU };
FIXTURE_VARIANT_ADD(samples, task_cpu) { .pid = 0, .cpu = 0 };

FIXTURE_SETUP(samples)
{
	registry_setup(_metadata, &self->registry);

	pin(0);
	self->attr = sampling_attr(TRACEPOINT);
	self->attr.wakeup_events = 1;
}

FIXTURE_TEARDOWN_PARENT(samples)
{
	registry_teardown(_metadata, &self->registry);
}

/* Detach an event without samples, and open and map it by its id */
#define REOPEN_MAPPED(opened) do {							\
	self->own = opened;								\
	self->id = DETACH(self->own, .buffer_pages = PAGES);				\
	ASSERT_LT(0, self->id);								\
	self->fd = reopen(self->id);							\
	ASSERT_LE(0, self->fd);								\
	ASSERT_EQ(0, ring_map(&self->ring, self->fd, PAGES, PROT_READ | PROT_WRITE));	\
} while (0)

#define OPEN_SAMPLING()	event_open(&self->attr, variant->pid, variant->cpu, -1, 0)

/* PERF_EVENT_IOC_REFRESH allows so many samples; then the event stops and pollers are woken. */
TEST_F(samples, refresh)
{
	struct pollfd p = { .events = POLLIN };
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);

	self->attr.disabled = 1;
	REOPEN_MAPPED(OPEN_SAMPLING());
	ASSERT_EQ(0, fcntl(self->own, F_SETOWN, getpid()));
	ASSERT_EQ(0, fcntl(self->own, F_SETSIG, SIGRTMIN));
	ASSERT_EQ(0, fcntl(self->own, F_SETFL, O_ASYNC));
	drive(TRACEPOINT, N);
	EXPECT_EQ(0, ring_samples(&self->ring));

	ASSERT_EQ(0, ioctl(self->own, PERF_EVENT_IOC_REFRESH, 3));
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->fd));
	drive(TRACEPOINT, 2);
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->fd));
	EXPECT_EQ(2, ring_samples(&self->ring));
	drive(TRACEPOINT, 1);
	EXPECT_TRUE(eventually(state_of(self->fd) == PERF_PERSISTENT_STATE_DISABLED));
	drive(TRACEPOINT, N);
	EXPECT_EQ(3, ring_samples(&self->ring));

	p.fd = self->fd;
	EXPECT_EQ(1, poll(&p, 1, PATIENCE_MS));
	EXPECT_EQ(POLLIN, p.revents);
	do {
		ASSERT_EQ(SIGRTMIN, sigtimedwait(&set, &info, &(struct timespec) { 10 }));
		EXPECT_EQ(self->own, info.si_fd);
	} while (info.si_code == POLL_IN);
	EXPECT_EQ(POLL_HUP, info.si_code);

	ASSERT_EQ(0, ioctl(self->own, PERF_EVENT_IOC_REFRESH, 1));
	drive(TRACEPOINT, 1);
	EXPECT_EQ(4, ring_samples(&self->ring));
}

/* A new period applies, through whatever view it was set. */
TEST_F(samples, period)
{
	const unsigned int period = 10;
	unsigned int samples;

	REOPEN_MAPPED(OPEN_SAMPLING());
	drive(TRACEPOINT, N);
	EXPECT_EQ(N, ring_samples(&self->ring));
	ASSERT_EQ(0, session_period(reopen(self->id), period));

	/* The first sample can come at any point of the period. */
	drive(TRACEPOINT, period);
	samples = ring_samples(&self->ring);
	drive(TRACEPOINT, N);
	EXPECT_EQ(samples + N / period, ring_samples(&self->ring));
	EXPECT_EQ(2 * N + period, count(self->fd));
}

/* A filter that I set later is kept as well. */
TEST_F(samples, filter)
{
	REOPEN_MAPPED(OPEN_SAMPLING());
	ASSERT_EQ(0, event_ioctl(self->own, PERF_EVENT_IOC_SET_FILTER, "common_pid == 0"));
	ASSERT_EQ(0, ring_unmap(&self->ring));
	close(self->own);
	close(self->fd);
	drive(TRACEPOINT, N);
	self->fd = reopen(self->id);
	EXPECT_EQ(0, count(self->fd));
}

static int load_program(__u32 type, int ret)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = ret },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = {
		.prog_type	= type,
		.insns		= addr(insns),
		.insn_cnt	= ARRAY_LEN(insns),
		.license	= addr("GPL"),
	};

	return result(syscall(__NR_bpf, BPF_PROG_LOAD, &attr, sizeof(attr)));
}

/* A BPF program keeps deciding which samples are taken, if any. */
TEST_F(samples, bpf_program)
{
	int decision, prog, fd;

	self->attr = sampling_attr(has_event(CYCLES) ? CYCLES : CLOCK);
	for (decision = 0; decision < 2; decision++) {
		prog = load_program(BPF_PROG_TYPE_PERF_EVENT, decision);
		ASSERT_LE(0, prog);
		fd = OPEN_SAMPLING();
		ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_SET_BPF, prog));
		close(prog);
		REOPEN_MAPPED(fd);
		EXPECT_TRUE(eventually((drive(CLOCK, N), !!ring_samples(&self->ring)) == decision));
		EXPECT_LT(0, count(self->fd));
	}
}

/* A tracepoint's BPF program is kept as well, and ends with the event. */
TEST_F(samples, bpf_program_of_tracepoint)
{
	int prog = load_program(BPF_PROG_TYPE_TRACEPOINT, 0), fd = OPEN_SAMPLING();

	ASSERT_LE(0, prog);
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_SET_BPF, prog));
	close(prog);
	REOPEN_MAPPED(fd);
	drive(TRACEPOINT, N);
	EXPECT_EQ(0, ring_head(&self->ring));
	EXPECT_EQ(0, count(self->fd));

	stop(self->id);
	close(self->own);
	close(self->fd);
	ring_unmap(&self->ring);
	REOPEN_MAPPED(OPEN_SAMPLING());
	drive(TRACEPOINT, N);
	EXPECT_EQ(N, ring_samples(&self->ring));
}

TEST_HARNESS_MAIN
