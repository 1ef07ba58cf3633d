// SPDX-License-Identifier: GPL-2.0-only
/*
 * A task with inherited probes or breakpoints can fork, although it could not open them
 * itself, and its child is measured.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>

#include "kselftest_harness.h"
#include "symbols.h"

#define CALLS	10
#define USER	1000

#define SYMBOL	SYSCALL_SYMBOL("getpgid")

static __attribute__((noipa)) void probed(void)
{
	asm volatile("nop" ::: "memory");
}

/* Offset in this program's file */
static unsigned long file_offset(void *function)
{
	unsigned long start, end, offset, address = (unsigned long)function;
	FILE *file = fopen("/proc/self/maps", "r");
	char line[512];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 &&
		    address >= start && address < end) {
			fclose(file);
			return address - start + offset;
		}
	}
	exit(KSFT_FAIL);
}

static int pmu_type(const char *name)
{
	char path[128];
	int type = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type", name);
	file = fopen(path, "r");
	if (file && fscanf(file, "%d", &type) != 1)
		type = -1;
	if (file)
		fclose(file);

	return type;
}

static int event_open(struct perf_event_attr attr)
{
	attr.size = sizeof(attr);
	attr.inherit = 1;

	return syscall(__NR_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Open @attr, give up all rights and the @text it refers to, fork, and count the child's calls. */
static void expect_inherited(struct __test_metadata *_metadata, struct perf_event_attr attr,
			     char *text)
{
	int fd = event_open(attr), i, status;
	uint64_t count = 0;
	pid_t child;

	ASSERT_LE(0, fd);
	if (text)
		memset(text, 'x', strlen(text));
	ASSERT_EQ(0, setresuid(USER, USER, USER));

	child = fork();
	ASSERT_LE(0, child) TH_LOG("fork: %s", strerror(errno));
	if (!child) {
		for (i = 0; i < CALLS; i++) {
			probed();
			syscall(__NR_getpgid, 0);
		}
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(sizeof(count), read(fd, &count, sizeof(count)));
	EXPECT_LE(CALLS, count);
	EXPECT_EQ(0, close(fd));
}

TEST(kprobe)
{
	char function[] = SYMBOL;
	struct perf_event_attr attr = {
		.type		= pmu_type("kprobe"),
		.kprobe_func	= (uintptr_t)function,
	};

	if ((int)attr.type < 0)
		SKIP(return, "no kprobes");
	expect_inherited(_metadata, attr, function);
}

TEST(uprobe)
{
	char path[] = "/proc/self/exe";
	struct perf_event_attr attr = {
		.type		= pmu_type("uprobe"),
		.uprobe_path	= (uintptr_t)path,
		.probe_offset	= file_offset(probed),
	};

	if ((int)attr.type < 0)
		SKIP(return, "no uprobes");
	expect_inherited(_metadata, attr, path);
}

TEST(kernel_breakpoint)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_BREAKPOINT,
		.bp_addr	= kernel_address(SYMBOL),
		.bp_type	= HW_BREAKPOINT_X,
		.bp_len		= sizeof(long),
	};

	if (!attr.bp_addr)
		SKIP(return, "no address of " SYMBOL);
#ifdef __aarch64__
	SKIP(return, "tasks cannot have breakpoints in the kernel");
#endif
	expect_inherited(_metadata, attr, NULL);
}

TEST_HARNESS_MAIN
