/* SPDX-License-Identifier: GPL-2.0 */
/* Functions of the kernel, for tests with probes and breakpoints */
#ifndef _SELFTESTS_PERF_EVENTS_SYMBOLS_H
#define _SELFTESTS_PERF_EVENTS_SYMBOLS_H

#include <stdio.h>
#include <string.h>

#include <linux/types.h>

/* The kernel's function for a system call */
#if defined(__x86_64__)
#define SYSCALL_SYMBOL(name)	"__x64_sys_" name
#elif defined(__aarch64__)
#define SYSCALL_SYMBOL(name)	"__arm64_sys_" name
#else
#define SYSCALL_SYMBOL(name)	"sys_" name
#endif

/* The address of a kernel function, or 0 */
static inline __u64 kernel_address(const char *symbol)
{
	FILE *f = fopen("/proc/kallsyms", "re");
	unsigned long long address;
	char name[256];

	while (f && fscanf(f, "%llx %*c %255s%*[^\n]", &address, name) == 2) {
		if (!strcmp(name, symbol)) {
			fclose(f);
			return address;
		}
	}

	return 0;
}

#endif
