// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: a user who reads into memory that never comes blocks
 * nobody else.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>

#include <asm/ptrace.h>
#include <linux/bpf.h>

#include "persistent.h"

#define SOON	50000000ULL

FIXTURE(stall)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	int			stalled;
	int			stalled_id;
	int			other;
	int			other_id;
	pid_t			target;
	pid_t			reader;
};

FIXTURE_VARIANT(stall)
{
	bool			one_cpu;
};

/* The stalled reader reads an event of a CPU, or of a task. */
FIXTURE_VARIANT_ADD(stall, cpu) { .one_cpu = true };
FIXTURE_VARIANT_ADD(stall, task) { .one_cpu = false };

/* A child that ends with the test; gets 0, and must not write to shared data. */
static pid_t fork_child(void)
{
	pid_t pid = fork();

	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);

	return pid;
}

/* True if a child exits with 0 in time; it may hang if the kernel waits for the reader. */
static bool succeeds(pid_t pid)
{
	int status;

	return eventually(waitpid(pid, &status, WNOHANG) == pid) && !status;
}

/* True if the action succeeds in time, in a child */
#define is_done(action) ({			\
	pid_t _pid = fork_child();		\
						\
	if (!_pid)				\
		_exit((action) ? 0 : 1);	\
	succeeds(_pid);				\
})

/* Have another process read an event into memory that never comes; returns its pid, or -1. */
static pid_t stall(int fd)
{
	pid_t pid = fork_child();

	if (!pid) {
		int uffd;
		void *page = page_that_never_comes(&uffd);

		if (page)
			read(fd, page, 8);
		_exit(1);
	}

	return eventually(is_stalled(pid, __NR_read)) ? pid : -1;
}

FIXTURE_SETUP(stall)
{
	pid_t pid;

	registry_setup(_metadata, &self->registry);
	pid = fork_child();
	ASSERT_LE(0, pid);
	while (!pid)
		pause();
	self->target = pid;

	self->attr = event_attr(TRACEPOINT);
	self->stalled = variant->one_cpu ? event_open(&self->attr, -1, pin(0), -1, 0) :
					   event_open(&self->attr, self->target, -1, -1, 0);
	self->stalled_id = DETACH(self->stalled, .name = addr("stalled"), .buffer_pages = 1);
	ASSERT_LT(0, self->stalled_id);
	self->other = event_open(&self->attr, -1, 1, -1, 0);
	self->other_id = DETACH(self->other, .name = addr("other"));
	ASSERT_LT(0, self->other_id);

	self->reader = stall(self->stalled);
	ASSERT_LT(0, self->reader);
}

FIXTURE_TEARDOWN_PARENT(stall)
{
	if (self->reader > 0)
		kill(self->reader, SIGKILL);
	if (self->target > 0)
		kill(self->target, SIGKILL);
	registry_teardown(_metadata, &self->registry);
}

/* Others can query, list and read the session of the stalled reader. */
TEST_F(stall, is_asked)
{
	struct answer a;
	char text[64], path[96];
	int view;

	view = reopen(self->stalled_id);
	ASSERT_LE(0, view);
	EXPECT_EQ(0, query(view, &a));
	EXPECT_EQ(1, a.info.nr_instances);
	drive(TRACEPOINT, 1);
	EXPECT_NE(-1ULL, count(view));
	snprintf(path, sizeof(path), REGISTRY "/ids/%d/name", self->stalled_id);
	EXPECT_LT(0, read_file(path, text, sizeof(text)));
	snprintf(path, sizeof(path), REGISTRY "/ids/%d/lost", self->stalled_id);
	EXPECT_LT(0, read_file(path, text, sizeof(text)));
	EXPECT_EQ(0, SET(view, .flags = PERF_PERSISTENT_SET_NAME, .name = addr("renamed")));
	EXPECT_TRUE(is_stalled(self->reader, __NR_read));
}

/* Other sessions work: reopening, control, time to live, new sessions. */
TEST_F(stall, others_go_on)
{
	int view = reopen(self->other_id), fd;
	struct answer a;

	ASSERT_LE(0, view);
	EXPECT_EQ(0, query(view, &a));
	EXPECT_EQ(0, session_disable(view));
	EXPECT_EQ(0, session_enable(view));
	EXPECT_EQ(0, hold(view));
	fd = event_open(&self->attr, -1, 1, -1, 0);
	EXPECT_EQ(self->other_id, DETACH(fd, .id = self->other_id, .member = 1));
	EXPECT_EQ(0, attach(fd));
	EXPECT_LT(0, detach(fd));
	EXPECT_EQ(0, SET(view, .flags = PERF_PERSISTENT_SET_TTL, .ttl = SOON));
	EXPECT_TRUE(eventually(!registry_has(self->other_id)));
	EXPECT_TRUE(is_stalled(self->reader, __NR_read));
}

/* Others can control the session and the event that is read. */
TEST_F(stall, is_controlled)
{
	int view = reopen(self->stalled_id);

	ASSERT_LE(0, view);
	EXPECT_TRUE(is_done(!session_disable(view)));
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, state_of(view));
	EXPECT_TRUE(is_done(!session_enable(view)));
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(view));
	EXPECT_TRUE(is_done(!SET(view, .flags = PERF_PERSISTENT_SET_CLEAR)));
	EXPECT_TRUE(is_done(!ioctl(self->stalled, PERF_EVENT_IOC_DISABLE, 0)));
	EXPECT_TRUE(is_stalled(self->reader, __NR_read));
}

/* A process that holds the session can exit, and the session goes on. */
TEST_F(stall, is_released)
{
	int view = reopen(self->stalled_id);
	pid_t holder;

	ASSERT_LE(0, view);
	kill(self->reader, SIGKILL);
	ASSERT_EQ(self->reader, waitpid(self->reader, NULL, 0));

	holder = fork_child();
	ASSERT_LE(0, holder);
	if (!holder) {
		if (hold(open_session(self->stalled_id)))
			_exit(1);
		for (;;)
			pause();
	}
	ASSERT_TRUE(eventually(state_of(view) == PERF_PERSISTENT_STATE_HELD));
	/* It must not inherit the file that holds. */
	self->reader = stall(self->stalled);
	ASSERT_LT(0, self->reader);

	kill(holder, SIGKILL);
	EXPECT_TRUE(eventually(waitpid(holder, NULL, WNOHANG) == holder));
	EXPECT_TRUE(eventually(state_of(view) == PERF_PERSISTENT_STATE_ENABLED));
	EXPECT_TRUE(is_stalled(self->reader, __NR_read));
}

/* The event that is read can be attached and detached again. */
TEST_F(stall, is_attached)
{
	EXPECT_TRUE(is_done(!attach(self->stalled)));
	EXPECT_TRUE(eventually(!registry_has(self->stalled_id)));
	EXPECT_TRUE(is_done(detach(self->stalled) > 0));
	EXPECT_TRUE(is_stalled(self->reader, __NR_read));
}

/* A task whose event is read can exit. */
TEST_F(stall, target_exits)
{
	kill(self->target, SIGKILL);
	EXPECT_TRUE(eventually(waitpid(self->target, NULL, WNOHANG) == self->target));
	EXPECT_TRUE(is_stalled(self->reader, __NR_read));
}

/* The session expires as a whole, hangs up, and counts no more. */
TEST_F(stall, expires)
{
	int fd = event_open(&self->attr, -1, 1, -1, 0);
	struct pollfd p = { .events = POLLIN };
	__u64 last;

	ASSERT_EQ(self->stalled_id, DETACH(fd, .id = self->stalled_id, .member = 1));
	p.fd = reopen_instance(self->stalled_id, 0);
	ASSERT_LE(0, p.fd);
	EXPECT_EQ(0, SET(p.fd, .flags = PERF_PERSISTENT_SET_TTL, .ttl = SOON));
	EXPECT_TRUE(eventually(!registry_has(self->stalled_id)));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXPIRED, state_of(p.fd));
	EXPECT_EQ(PERF_PERSISTENT_STATE_EXPIRED, state_of(fd));
	EXPECT_EQ(1, poll(&p, 1, 0));
	EXPECT_TRUE(p.revents & POLLHUP);
	last = count(p.fd);
	drive(TRACEPOINT, 1);
	EXPECT_EQ(last, count(p.fd));
	EXPECT_TRUE(is_stalled(self->reader, __NR_read));
}

FIXTURE(sleeping)
{
	struct registry		registry;
	int			fd;
	int			id;
	pid_t			sleeper;
};

/* The event runs a program that reads the memory at this address. */
static __attribute__((noipa)) void probed(const void *address)
{
	asm volatile("nop; nop" : : "r"(address) : "memory");
}

static int load_sleeping_program(void)
{
#ifdef __x86_64__
	const short first_argument = offsetof(struct pt_regs, rdi);
#else
	const short first_argument = 0;
#endif
	struct bpf_insn insns[] = {
		{ .code = BPF_LDX | BPF_MEM | BPF_DW, .dst_reg = 3, .src_reg = 1,
		  .off = first_argument },
		{ .code = BPF_ST | BPF_MEM | BPF_DW, .dst_reg = 10, .off = -8 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 1, .src_reg = 10 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 1, .imm = -8 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .imm = 8 },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_copy_from_user },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = {
		.prog_type	= BPF_PROG_TYPE_KPROBE,
		.prog_flags	= BPF_F_SLEEPABLE,
		.insns		= addr(insns),
		.insn_cnt	= ARRAY_SIZE(insns),
		.license	= addr("GPL"),
	};

	return result(syscall(__NR_bpf, BPF_PROG_LOAD, &attr, sizeof(attr)));
}

/* A BPF program of a persistent event of CPU 1 sleeps until a page comes. */
FIXTURE_SETUP(sleeping)
{
	struct perf_event_attr attr = uprobe_attr(probed);
	pid_t pid;
	int uffd;

	registry_setup(_metadata, &self->registry);
	self->fd = event_open(&attr, -1, 1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_SET_BPF, load_sleeping_program()));
	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);

	pid = fork_child();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(self->fd);
		pin(1);
		probed(page_that_never_comes(&uffd));
		_exit(1);
	}
	self->sleeper = pid;
	ASSERT_TRUE(eventually(waits_for_page(self->sleeper)));
}

FIXTURE_TEARDOWN_PARENT(sleeping)
{
	if (self->sleeper > 0)
		kill(self->sleeper, SIGKILL);
	registry_teardown(_metadata, &self->registry);
}

/* An event that ends waits for its program, but events of the CPU can be opened meanwhile. */
TEST_F(sleeping, ends)
{
	struct perf_event_attr attr = event_attr(CLOCK);

	close(self->fd);
	if (!fork_child())
		_exit(attach(reopen(self->id)));
	EXPECT_TRUE(eventually(!registry_has(self->id)));
	EXPECT_TRUE(is_done(event_open(&attr, -1, 1, -1, 0) >= 0));
	EXPECT_TRUE(waits_for_page(self->sleeper));
}

TEST_HARNESS_MAIN
