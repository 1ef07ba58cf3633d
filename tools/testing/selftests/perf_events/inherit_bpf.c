// SPDX-License-Identifier: GPL-2.0-only
/*
 * A BPF program of an inherited tracepoint or kprobe decides for children as well, and is
 * still there when they have exited.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/bpf.h>
#include <linux/perf_event.h>

#include "kselftest_harness.h"
#include "symbols.h"

#define CALLS	10

static int read_number(const char *path)
{
	FILE *file = fopen(path, "r");
	int number = -1;

	if (file && fscanf(file, "%d", &number) != 1)
		number = -1;
	if (file)
		fclose(file);

	return number;
}

/* A program that ignores each hit */
static int load_program(uint32_t type)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = {
		.prog_type	= type,
		.insns		= (uintptr_t)insns,
		.insn_cnt	= 2,
		.license	= (uintptr_t)"GPL",
	};

	return syscall(__NR_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
}

static void hit(void)
{
	int i;

	for (i = 0; i < CALLS; i++)
		syscall(__NR_getpgid, 0);
}

static void expect_program_stays(struct __test_metadata *_metadata, struct perf_event_attr attr,
				 uint32_t type)
{
	int fd, program = load_program(type);
	uint64_t count;
	pid_t child;

	attr.size = sizeof(attr);
	attr.inherit = 1;
	fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_LE(0, program);
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_SET_BPF, program));

	hit();
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		hit();
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	hit();
	ASSERT_EQ(sizeof(count), read(fd, &count, sizeof(count)));
	EXPECT_EQ(0, count);
}

TEST(tracepoint)
{
	int id = read_number("/sys/kernel/tracing/events/syscalls/sys_enter_getpgid/id");
	struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT, .config = id };

	if (id < 0)
		SKIP(return, "no tracepoints of system calls");
	expect_program_stays(_metadata, attr, BPF_PROG_TYPE_TRACEPOINT);
}

TEST(kprobe)
{
	int type = read_number("/sys/bus/event_source/devices/kprobe/type");
	struct perf_event_attr attr = {
		.type		= type,
		.kprobe_func	= (uintptr_t)SYSCALL_SYMBOL("getpgid"),
	};

	if (type < 0)
		SKIP(return, "no kprobes");
	expect_program_stays(_metadata, attr, BPF_PROG_TYPE_KPROBE);
}

TEST_HARNESS_MAIN
