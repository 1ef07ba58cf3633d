// SPDX-License-Identifier: GPL-2.0
/*
 * Load a BPF program that does nothing, print whether that worked, and keep it until a
 * signal comes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/compiler.h>
#include <linux/kernel.h>
#include "../tests.h"

#ifdef HAVE_LIBBPF_SUPPORT
#include <bpf/bpf.h>

static int load(void)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	return bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "perf_test", "GPL", insns,
			     ARRAY_SIZE(insns), NULL);
}
#else
static int load(void)
{
	return -EOPNOTSUPP;
}
#endif

static int bpf_program(int argc __maybe_unused, const char **argv __maybe_unused)
{
	int fd = load();

	printf("%s\n", fd < 0 ? strerror(-fd) : "loaded");
	fflush(stdout);
	if (fd < 0)
		return 1;
	pause();
	return 0;
}

DEFINE_WORKLOAD(bpf_program);
