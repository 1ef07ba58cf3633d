// SPDX-License-Identifier: GPL-2.0-only
/*
 * A task that reads an event into memory that never comes, or passes such memory to
 * an ioctl of it, does not block others that use events on that CPU.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>
#include <linux/userfaultfd.h>

#include "kselftest_harness.h"
#include "user_page.h"

#define CPU		0
#define SECONDS		10

static int event_open(__u64 read_format)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_SOFTWARE,
		.size		= sizeof(attr),
		.config		= PERF_COUNT_SW_DUMMY,
		.read_format	= read_format,
	};

	return syscall(__NR_perf_event_open, &attr, -1, CPU, -1, PERF_FLAG_FD_CLOEXEC);
}

struct stalled {
	int		fd;
	unsigned long	request;
	void		*page;
	long		ret;
};

static void *stalled_run(void *arg)
{
	struct stalled *s = arg;

	s->ret = s->request ? ioctl(s->fd, s->request, s->page) :
			      read(s->fd, s->page, getpagesize());
	if (s->ret < 0)
		s->ret = -errno;

	return NULL;
}

FIXTURE(stalled_memory)
{
	struct stalled	stalled;
	pthread_t	thread;
	int		uffd;
	int		other;
};

/* @request is 0 for read(2); @ret is the result with a page of zeroes, or -errno. */
FIXTURE_VARIANT(stalled_memory)
{
	__u64		read_format;
	unsigned long	request;
	long		ret;
};

FIXTURE_VARIANT_ADD(stalled_memory, read) { .ret = sizeof(__u64) };

FIXTURE_VARIANT_ADD(stalled_memory, read_group)
{
	.read_format	= PERF_FORMAT_GROUP,
	.ret		= 2 * sizeof(__u64),
};

FIXTURE_VARIANT_ADD(stalled_memory, id) { .request = PERF_EVENT_IOC_ID };

FIXTURE_VARIANT_ADD(stalled_memory, period)
{
	.request	= PERF_EVENT_IOC_PERIOD,
	.ret		= -EINVAL,
};

FIXTURE_VARIANT_ADD(stalled_memory, filter)
{
	.request	= PERF_EVENT_IOC_SET_FILTER,
	.ret		= -EINVAL,
};

FIXTURE_VARIANT_ADD(stalled_memory, attributes)
{
	.request	= PERF_EVENT_IOC_MODIFY_ATTRIBUTES,
	.ret		= -EINVAL,
};

FIXTURE_SETUP(stalled_memory)
{
	struct pollfd p = { .events = POLLIN };

	self->stalled.request = variant->request;
	self->stalled.fd = event_open(variant->read_format);
	self->other = event_open(0);
	if (self->stalled.fd < 0 || self->other < 0)
		SKIP(return, "no event of a CPU: needs CAP_PERFMON");
	self->stalled.page = page_that_never_comes(&self->uffd);
	if (!self->stalled.page)
		SKIP(return, "no userfaultfd for the kernel's accesses");

	ASSERT_EQ(0, pthread_create(&self->thread, NULL, stalled_run, &self->stalled));
	p.fd = self->uffd;
	ASSERT_EQ(1, poll(&p, 1, SECONDS * 1000));
}

FIXTURE_TEARDOWN(stalled_memory)
{
	if (!self->thread)
		return;
	EXPECT_EQ(0, page_come(self->uffd, self->stalled.page));
	EXPECT_EQ(0, pthread_join(self->thread, NULL));
	EXPECT_EQ(variant->ret, self->stalled.ret);
}

/* True if a child exits soon, and with 0 */
static bool succeeds(pid_t pid)
{
	time_t end = time(NULL) + SECONDS;
	int status;
	pid_t ret;

	do {
		ret = waitpid(pid, &status, WNOHANG);
		if (ret)
			return ret == pid && !status;
		usleep(1000);
	} while (time(NULL) < end);

	return false;
}

/* Other processes control their events on the same CPU. */
TEST_F(stalled_memory, others_control)
{
	pid_t pid = fork();

	ASSERT_LE(0, pid);
	if (!pid)
		_exit(ioctl(self->other, PERF_EVENT_IOC_DISABLE, 0) ? 1 : 0);
	EXPECT_TRUE(succeeds(pid));
}

/* Other processes open new events on the same CPU. */
TEST_F(stalled_memory, others_open)
{
	pid_t pid = fork();

	ASSERT_LE(0, pid);
	if (!pid)
		_exit(event_open(0) < 0 ? 1 : 0);
	EXPECT_TRUE(succeeds(pid));
}

TEST_HARNESS_MAIN
