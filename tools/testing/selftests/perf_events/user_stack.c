// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples of the user stack have a size that is a multiple of 8.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "kselftest_harness.h"

#define PAGES		32

/* Write to an address while the stack pointer has a value that need not be valid. */
static bool write_with_stack(void *where, unsigned long sp)
{
#if defined(__x86_64__)
	asm volatile("mov %%rsp, %%r12\n"
		     "mov %0, %%rsp\n"
		     "movb $1, (%1)\n"
		     "mov %%r12, %%rsp\n"
		     : : "r" (sp), "r" (where) : "r12", "memory");
	return true;
#elif defined(__aarch64__)
	asm volatile("mov x19, sp\n"
		     "mov sp, %0\n"
		     "strb wzr, [%1]\n"
		     "mov sp, x19\n"
		     : : "r" (sp), "r" (where) : "x19", "memory");
	return true;
#else
	return false;
#endif
}

static struct perf_event_mmap_page *page;
static size_t page_size;
static char *area;
static int fd;

FIXTURE(user_stack)
{
	struct perf_event_attr attr;
};

FIXTURE_SETUP(user_stack)
{
	page_size = sysconf(_SC_PAGESIZE);
	area = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, area);
	self->attr = (struct perf_event_attr) {
		.type			= PERF_TYPE_SOFTWARE,
		.size			= sizeof(self->attr),
		.config			= PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period		= 1,
		.sample_type		= PERF_SAMPLE_STACK_USER,
		.sample_stack_user	= 1024,
		.disabled		= 1,
		.exclude_kernel		= 1,
		.exclude_hv		= 1,
	};
	if (!write_with_stack(area, 4096))
		SKIP(return, "not written for this architecture");
}

FIXTURE_TEARDOWN(user_stack)
{
}

/* Have a page fault with this stack pointer, and check its record. */
static void sample(struct __test_metadata *_metadata, unsigned long sp)
{
	__u64 pos = page->data_head, head;
	struct perf_event_header *header;

	ASSERT_EQ(0, madvise(area, page_size, MADV_DONTNEED));
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_ENABLE, 0));
	write_with_stack(area, sp);
	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_DISABLE, 0));

	head = page->data_head;
	ASSERT_LT(pos, head);
	while (pos < head) {
		header = (void *)((char *)page + page_size + pos);
		ASSERT_EQ(PERF_RECORD_SAMPLE, header->type);
		ASSERT_LT(0, header->size);
		ASSERT_EQ(0, header->size % 8);
		pos += header->size;
	}
	ASSERT_EQ(head, pos);
}

/* A stack pointer near the end of the address space, which may have several sizes */
TEST_F(user_stack, end)
{
	unsigned int bits, i;

	fd = syscall(__NR_perf_event_open, &self->attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		SKIP(return, "no event of this task");
	page = mmap(NULL, (1 + PAGES) * page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, page);

	for (bits = 32; bits < 8 * sizeof(long); bits++) {
		for (i = 0; i < 2; i++)
			sample(_metadata, (1UL << bits) - i * page_size - 5);
	}
}

TEST_HARNESS_MAIN
