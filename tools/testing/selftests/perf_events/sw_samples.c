// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two software events that count the same get their own samples.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "kselftest_harness.h"

#define FAULTS	4

FIXTURE(sw_samples)
{
	struct perf_event_mmap_page *page[2];
	size_t page_size;
	int fd[2];
	__u64 id[2];
};

FIXTURE_VARIANT(sw_samples)
{
	__u64 sample_type[2];
};

/* Both have samples of the same form: an id and an address. */
FIXTURE_VARIANT_ADD(sw_samples, same)
{
	.sample_type = {
		PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_ADDR,
		PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_ADDR,
	},
};

/* One of them has a call chain in addition. */
FIXTURE_VARIANT_ADD(sw_samples, callchain_first)
{
	.sample_type = {
		PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_ADDR | PERF_SAMPLE_CALLCHAIN,
		PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_ADDR,
	},
};

FIXTURE_VARIANT_ADD(sw_samples, callchain_last)
{
	.sample_type = {
		PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_ADDR,
		PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_ADDR | PERF_SAMPLE_CALLCHAIN,
	},
};

FIXTURE_SETUP(sw_samples)
{
	struct perf_event_attr attr = {
		.type			= PERF_TYPE_SOFTWARE,
		.size			= sizeof(attr),
		.config			= PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period		= 1,
		.disabled		= 1,
		.exclude_kernel		= 1,
		.exclude_callchain_kernel = 1,
		.exclude_hv		= 1,
	};
	int i;

	self->page_size = sysconf(_SC_PAGESIZE);
	for (i = 0; i < 2; i++) {
		attr.sample_type = variant->sample_type[i];
		self->fd[i] = syscall(__NR_perf_event_open, &attr, 0, -1, -1,
				      PERF_FLAG_FD_CLOEXEC);
		if (self->fd[i] < 0)
			SKIP(return, "no event of this task");
		self->page[i] = mmap(NULL, 9 * self->page_size, PROT_READ | PROT_WRITE,
				     MAP_SHARED, self->fd[i], 0);
		ASSERT_NE(MAP_FAILED, self->page[i]);
		ASSERT_EQ(0, ioctl(self->fd[i], PERF_EVENT_IOC_ID, &self->id[i]));
	}
}

FIXTURE_TEARDOWN(sw_samples)
{
	close(self->fd[0]);
	close(self->fd[1]);
}

/* Each sample has the id of its event, and the size that its attr implies. */
TEST_F(sw_samples, own)
{
	struct sample {
		struct perf_event_header header;
		__u64 id;
		__u64 addr;
		__u64 nr;
	} *sample;
	char *data, *area;
	__u64 pos, size;
	int i, samples;

	area = mmap(NULL, FAULTS * self->page_size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, area);
	madvise(area, FAULTS * self->page_size, MADV_NOHUGEPAGE);

	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, ioctl(self->fd[i], PERF_EVENT_IOC_ENABLE, 0));
	for (i = 0; i < FAULTS; i++)
		__atomic_store_n((char *)area + i * self->page_size, 1, __ATOMIC_RELAXED);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, ioctl(self->fd[i], PERF_EVENT_IOC_DISABLE, 0));

	for (i = 0; i < 2; i++) {
		data = (char *)self->page[i] + self->page_size;
		samples = 0;
		for (pos = 0; pos < self->page[i]->data_head; pos += sample->header.size) {
			sample = (struct sample *)(data + pos);
			ASSERT_LT(0, sample->header.size);
			if (sample->header.type != PERF_RECORD_SAMPLE)
				continue;
			samples++;
			ASSERT_EQ(self->id[i], sample->id) {
				TH_LOG("Event %d has a sample of the other one", i);
			}
			size = offsetof(struct sample, nr);
			if (variant->sample_type[i] & PERF_SAMPLE_CALLCHAIN)
				size += (1 + sample->nr) * sizeof(sample->nr);
			ASSERT_EQ(size, sample->header.size) {
				TH_LOG("Event %d has a sample of a wrong size", i);
			}
		}
		EXPECT_LE(FAULTS, samples);
	}
	munmap(area, FAULTS * self->page_size);
}

TEST_HARNESS_MAIN
