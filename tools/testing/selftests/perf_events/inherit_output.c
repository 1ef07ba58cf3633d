// SPDX-License-Identifier: GPL-2.0-only
/*
 * The output of an inherited event that follows its tasks cannot be redirected: its
 * children would write to one buffer on several CPUs at once.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "kselftest_harness.h"

static int event_open(int cpu, bool inherit, int output, unsigned long flags)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period	= 1,
		.sample_type	= PERF_SAMPLE_IP,
		.exclude_kernel	= 1,
		.inherit	= inherit,
	};

	return syscall(__NR_perf_event_open, &attr, 0, cpu, output, flags);
}

static void expect_redirected(struct __test_metadata *_metadata, int cpu, bool inherit,
			      bool allowed)
{
	size_t size = 2 * sysconf(_SC_PAGESIZE);
	int output = event_open(cpu, false, -1, 0), fd = event_open(cpu, inherit, -1, 0), ret;

	ASSERT_LE(0, output);
	ASSERT_LE(0, fd);
	ASSERT_NE(MAP_FAILED, mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, output, 0));

	ret = ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, output);
	EXPECT_EQ(allowed ? 0 : -1, ret);
	if (!allowed)
		EXPECT_EQ(EINVAL, errno);

	ret = event_open(cpu, inherit, output, PERF_FLAG_FD_NO_GROUP | PERF_FLAG_FD_OUTPUT);
	EXPECT_EQ(allowed, ret >= 0);
	if (!allowed)
		EXPECT_EQ(EINVAL, errno);
}

TEST(follows_its_tasks)
{
	expect_redirected(_metadata, -1, true, false);
}

TEST(stays_on_a_cpu)
{
	expect_redirected(_metadata, 0, true, true);
}

TEST(not_inherited)
{
	expect_redirected(_metadata, -1, false, true);
}

TEST_HARNESS_MAIN
