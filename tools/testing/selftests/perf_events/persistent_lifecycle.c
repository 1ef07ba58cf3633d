// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: they go on until they are attached again and closed.
 */
#include <signal.h>
#include <linux/bpf.h>
#include <sys/prctl.h>

#include "persistent.h"

#define N	100

FIXTURE(lifecycle)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	int			cpu;
	int			fd;
	int			id;
};

FIXTURE_VARIANT(lifecycle)
{
	enum event		event;
	bool			sampling;
	bool			loop;
};

FIXTURE_VARIANT_ADD(lifecycle, clock) { .event = CLOCK };
FIXTURE_VARIANT_ADD(lifecycle, faults) { .event = FAULTS };
FIXTURE_VARIANT_ADD(lifecycle, tracepoint) { .event = TRACEPOINT };
FIXTURE_VARIANT_ADD(lifecycle, clock_full) { .event = CLOCK, .sampling = true };
FIXTURE_VARIANT_ADD(lifecycle, clock_loop) { .event = CLOCK, .sampling = true, .loop = true };
FIXTURE_VARIANT_ADD(lifecycle, faults_loop) { .event = FAULTS, .sampling = true, .loop = true };
FIXTURE_VARIANT_ADD(lifecycle, cycles) { .event = CYCLES };
FIXTURE_VARIANT_ADD(lifecycle, cycles_full) { .event = CYCLES, .sampling = true };
FIXTURE_VARIANT_ADD(lifecycle, cycles_loop) { .event = CYCLES, .sampling = true, .loop = true };
FIXTURE_VARIANT_ADD(lifecycle, tracepoint_full) { .event = TRACEPOINT, .sampling = true };
FIXTURE_VARIANT_ADD(lifecycle, tracepoint_loop) {
	.event = TRACEPOINT, .sampling = true, .loop = true
};

FIXTURE_SETUP(lifecycle)
{
	if (!has_event(variant->event))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);

	self->cpu = pin(0);
	self->attr = variant->sampling ? sampling_attr(variant->event) :
					 event_attr(variant->event);
	self->attr.write_backward = variant->loop;
	self->fd = event_open(&self->attr, -1, self->cpu, -1, 0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN_PARENT(lifecycle)
{
	registry_teardown(_metadata, &self->registry);
}

/* Expect exactly N more where the event is exact, else at least N */
static void expect_n_more(struct __test_metadata *_metadata, enum event event,
			  __u64 before, __u64 after)
{
	EXPECT_LE(before + N, after);
	if (event == TRACEPOINT)
		EXPECT_EQ(before + N, after);
}

/* DETACH returns an id that I can open the event by. */
TEST_F(lifecycle, detach_returns_id)
{
	int fd;

	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);

	fd = reopen(self->id);
	ASSERT_LE(0, fd);
	EXPECT_LE(0, fcntl(fd, F_GETFD));
	EXPECT_NE(0, fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

/* DETACH with a struct returns the id as well. */
TEST_F(lifecycle, detach_with_struct_returns_id)
{
	self->id = DETACH(self->fd, .name = addr("lifecycle"), .label = addr("text"));
	ASSERT_LT(0, self->id);
	EXPECT_LE(0, reopen(self->id));
}

/* The event goes on counting after I closed it. */
TEST_F(lifecycle, goes_on_after_close)
{
	__u64 before;

	self->id = detach(self->fd);
	close(self->fd);
	self->fd = reopen(self->id);
	before = count(self->fd);
	close(self->fd);

	drive(variant->event, N);

	expect_n_more(_metadata, variant->event, before, count(reopen(self->id)));
}

/* The event goes on counting after its maker was killed. */
TEST_F(lifecycle, goes_on_after_kill)
{
	pid_t child = fork();
	__u64 before;

	ASSERT_LE(0, child);
	if (!child) {
		self->id = detach(self->fd);
		kill(getpid(), SIGKILL);
	}
	close(self->fd);
	ASSERT_EQ(child, waitpid(child, NULL, 0));

	self->fd = reopen(self->id);
	ASSERT_LE(0, self->fd);
	before = count(self->fd);
	close(self->fd);

	drive(variant->event, N);

	expect_n_more(_metadata, variant->event, before, count(reopen(self->id)));
}

/* The id opens the very event that was detached. */
TEST_F(lifecycle, same_event)
{
	__u64 opened = 0, reopened = 0;

	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ID, &opened));
	self->id = detach(self->fd);
	close(self->fd);
	self->fd = reopen(self->id);

	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ID, &reopened));
	EXPECT_EQ(opened, reopened);
}

/* Another process opens it by its id and reads the same count. */
TEST_F(lifecycle, opened_by_another_process)
{
	pid_t child;
	int fd;

	self->id = detach(self->fd);
	drive(variant->event, N);
	event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL);
	fd = reopen(self->id);

	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		close(self->fd);
		self->fd = reopen(self->id);
		EXPECT_LE(N, count(self->fd));
		EXPECT_EQ(count(self->fd), count(fd));
		_exit(_metadata->exit_code);
	}
	ASSERT_TRUE(passed(child));
	EXPECT_EQ(count(fd), count(reopen(self->id)));
}

/* An attached event is gone from the registry, and works until I close it. */
TEST_F(lifecycle, attach_then_close_ends)
{
	__u64 before;

	self->id = detach(self->fd);
	ASSERT_EQ(0, attach(self->fd));
	EXPECT_EQ(0, registry_count("ids"));
	EXPECT_EQ(-ENOENT, reopen(self->id));

	before = count(self->fd);
	drive(variant->event, N);
	expect_n_more(_metadata, variant->event, before, count(self->fd));
}

/* A reader's open file does not keep an attached event alive, and the reader is told. */
TEST_F(lifecycle, attached_ends_with_its_file)
{
	struct pollfd p = { .events = POLLIN };
	__u64 before;

	self->id = detach(self->fd);
	p.fd = reopen(self->id);
	ASSERT_EQ(0, attach(self->fd));
	drive(variant->event, N);
	before = count(self->fd);
	close(self->fd);

	drive(variant->event, N);
	EXPECT_LE(before, count(p.fd));
	before = count(p.fd);
	drive(variant->event, N);
	EXPECT_EQ(before, count(p.fd));
	EXPECT_EQ(1, poll(&p, 1, PATIENCE_MS));
	EXPECT_TRUE(p.revents & POLLHUP);
	EXPECT_EQ(-ENODEV, detach(p.fd));
}

/* A view that attached the event does keep it alive. */
TEST_F(lifecycle, attached_by_a_view)
{
	int other, fd;
	__u64 before;

	self->id = detach(self->fd);
	close(self->fd);
	fd = reopen(self->id);
	other = reopen(self->id);
	ASSERT_EQ(0, attach(fd));
	before = count(fd);
	drive(variant->event, N);
	expect_n_more(_metadata, variant->event, before, count(fd));
	self->id = detach(fd);
	ASSERT_LT(0, self->id);
	ASSERT_EQ(0, attach(fd));

	close(fd);
	before = count(other);
	drive(variant->event, N);
	EXPECT_EQ(before, count(other));
}

/* I can detach an attached event again, and get a new id. */
TEST_F(lifecycle, detach_again)
{
	self->id = detach(self->fd);
	ASSERT_EQ(0, attach(self->fd));
	EXPECT_LT(self->id, detach(self->fd));
}

/* Closing reopened files ends nothing, however often. */
TEST_F(lifecycle, closing_reopened_ends_nothing)
{
	int i, fd;

	self->id = detach(self->fd);
	close(self->fd);

	for (i = 0; i < 10; i++) {
		fd = reopen(self->id);
		ASSERT_LE(0, fd);
		close(fd);
	}
	EXPECT_TRUE(registry_has(self->id));
}

/* An id is not reused at once: I do not get somebody else's event. */
TEST_F(lifecycle, ids_are_cyclic)
{
	int i, id, last = 0;

	for (i = 0; i < 10; i++) {
		id = detach(self->fd);
		ASSERT_LT(last, id);
		ASSERT_EQ(0, attach(self->fd));
		last = id;
	}
}

/* attr.persistent detaches the event as it is opened. */
TEST_F(lifecycle, persistent_at_open)
{
	struct answer a;
	int fd;

	self->attr.persistent = 1;
	fd = event_open(&self->attr, -1, self->cpu, -1, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EEXIST, detach(fd));
	ASSERT_EQ(0, query(fd, &a));
	close(fd);

	EXPECT_LT(0, a.info.self.id);
	EXPECT_LE(0, reopen(a.info.self.id));
}

/* Any descriptor enables and disables the event. */
TEST_F(lifecycle, disabled_stays_disabled)
{
	__u64 before;

	self->id = detach(self->fd);
	close(self->fd);
	ASSERT_EQ(0, session_disable(reopen(self->id)));
	before = count(reopen(self->id));
	drive(variant->event, N);
	EXPECT_EQ(before, count(reopen(self->id)));

	ASSERT_EQ(0, session_enable(reopen(self->id)));
	drive(variant->event, N);
	expect_n_more(_metadata, variant->event, before, count(reopen(self->id)));
}

/* PR_TASK_PERF_EVENTS_DISABLE of its maker does not disable it. */
TEST_F(lifecycle, not_disabled_with_its_maker)
{
	__u64 before;

	self->id = detach(self->fd);
	ASSERT_EQ(0, prctl(PR_TASK_PERF_EVENTS_DISABLE));
	before = count(self->fd);
	drive(variant->event, N);

	expect_n_more(_metadata, variant->event, before, count(self->fd));
}

/* The same for an event that was opened with attr.persistent. */
TEST_F(lifecycle, persistent_at_open_not_disabled_with_its_maker)
{
	__u64 before;
	int fd;

	self->attr.persistent = 1;
	fd = event_open(&self->attr, -1, self->cpu, -1, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, prctl(PR_TASK_PERF_EVENTS_DISABLE));
	before = count(fd);
	drive(variant->event, N);

	expect_n_more(_metadata, variant->event, before, count(fd));
}

/* The event belongs to the process that attaches it: it is disabled with its events ... */
TEST_F(lifecycle, attach_makes_owner)
{
	pid_t child = fork();
	__u64 before;

	ASSERT_LE(0, child);
	if (!child) {
		self->id = detach(self->fd);
		_exit(_metadata->exit_code);
	}
	ASSERT_TRUE(passed(child));
	ASSERT_EQ(0, attach(self->fd));
	ASSERT_EQ(0, prctl(PR_TASK_PERF_EVENTS_DISABLE));

	before = count(self->fd);
	drive(variant->event, N);
	EXPECT_EQ(before, count(self->fd));
}

/* ... and not with those of its maker. */
TEST_F(lifecycle, attach_takes_it_from_its_maker)
{
	__u64 before;
	pid_t child;

	self->id = detach(self->fd);
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		EXPECT_EQ(0, attach(self->fd));
		EXPECT_EQ(0, prctl(PR_TASK_PERF_EVENTS_ENABLE));
		_exit(_metadata->exit_code);
	}
	ASSERT_TRUE(passed(child));
	ASSERT_EQ(0, prctl(PR_TASK_PERF_EVENTS_DISABLE));

	before = count(self->fd);
	drive(variant->event, N);
	expect_n_more(_metadata, variant->event, before, count(self->fd));
}

FIXTURE(tracepoint)
{
	struct registry		registry;
	int			fd;
};

FIXTURE_SETUP(tracepoint)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);

	registry_setup(_metadata, &self->registry);
	self->fd = event_open(&attr, -1, pin(0), -1, 0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN_PARENT(tracepoint)
{
	registry_teardown(_metadata, &self->registry);
}

/* A persistent tracepoint keeps its filter. */
TEST_F(tracepoint, filter)
{
	int id;

	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_SET_FILTER, "__syscall_nr < 0"));
	id = detach(self->fd);
	close(self->fd);

	drive(TRACEPOINT, N);
	EXPECT_EQ(0, count(reopen(id)));
}

/* A program that drops everything */
static int load_program(void)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = {
		.prog_type	= BPF_PROG_TYPE_TRACEPOINT,
		.insns		= addr(insns),
		.insn_cnt	= ARRAY_LEN(insns),
		.license	= addr("GPL"),
	};

	return result(syscall(__NR_bpf, BPF_PROG_LOAD, &attr, sizeof(attr)));
}

/* A persistent tracepoint keeps its BPF program until it ends, whoever has it open. */
TEST_F(tracepoint, bpf_program)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int other = event_open(&attr, -1, 0, -1, 0), prog = load_program(), id;

	ASSERT_LE(0, prog);
	ASSERT_EQ(0, ioctl(self->fd, PERF_EVENT_IOC_SET_BPF, prog));
	close(prog);
	id = detach(self->fd);
	close(self->fd);
	ASSERT_LE(0, reopen(id));

	drive(TRACEPOINT, N);
	EXPECT_EQ(0, count(other));

	stop(id);
	drive(TRACEPOINT, N);
	EXPECT_EQ(N, count(other));
}

/* A BPF link keeps its program for as long as the link exists, also after the session expired. */
TEST_F(tracepoint, bpf_link)
{
	struct bpf_link_info info = {};
	union bpf_attr attr = {};
	char path[32], text[512];
	int link, id;

	attr.link_create.prog_fd = load_program();
	attr.link_create.target_fd = self->fd;
	attr.link_create.attach_type = BPF_PERF_EVENT;
	link = result(syscall(__NR_bpf, BPF_LINK_CREATE, &attr, sizeof(attr)));
	ASSERT_LE(0, link);
	id = DETACH(self->fd, .ttl = 1000000);
	ASSERT_LT(0, id);
	ASSERT_TRUE(eventually(!registry_has(id)));

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", link);
	ASSERT_LT(0, read_file(path, text, sizeof(text)));

	attr = (union bpf_attr) {};
	attr.info.bpf_fd = link;
	attr.info.info_len = sizeof(info);
	attr.info.info = addr(&info);
	EXPECT_EQ(0, result(syscall(__NR_bpf, BPF_OBJ_GET_INFO_BY_FD, &attr, sizeof(attr))));
	EXPECT_EQ(BPF_PERF_EVENT_TRACEPOINT, info.perf_event.type);
	EXPECT_EQ(0, close(link));
}

TEST_HARNESS_MAIN
