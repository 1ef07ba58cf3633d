/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * User memory that blocks whoever accesses it
 */
#ifndef _PERF_EVENTS_USER_PAGE_H
#define _PERF_EVENTS_USER_PAGE_H

#include <fcntl.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/userfaultfd.h>

/* A page that is filled through the file, or never; the file is readable once it is accessed */
static inline void *page_that_never_comes(int *uffd)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range.len	= getpagesize(),
		.mode		= UFFDIO_REGISTER_MODE_MISSING,
	};
	void *page;

	*uffd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (*uffd < 0 || ioctl(*uffd, UFFDIO_API, &api))
		return NULL;
	page = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	reg.range.start = (unsigned long)page;

	return ioctl(*uffd, UFFDIO_REGISTER, &reg) ? NULL : page;
}

/* Fill such a page with zeros. */
static inline int page_come(int uffd, void *page)
{
	struct uffdio_zeropage zero = {
		.range.start	= (unsigned long)page,
		.range.len	= getpagesize(),
	};

	return ioctl(uffd, UFFDIO_ZEROPAGE, &zero);
}

/* A page that comes when it is told, by a thread of its process */
struct late_page {
	int	come;
	int	uffd;
	void	*page;
};

static inline void *late_page_run(void *arg)
{
	struct late_page *late = arg;

	while (!__atomic_load_n(&late->come, __ATOMIC_SEQ_CST))
		usleep(1000);
	page_come(late->uffd, late->page);

	return NULL;
}

#endif /* _PERF_EVENTS_USER_PAGE_H */
