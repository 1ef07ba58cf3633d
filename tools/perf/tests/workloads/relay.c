// SPDX-License-Identifier: GPL-2.0
/*
 * Short-lived threads: each starts the next one and exits. For each SIGUSR1 they call
 * getppid() a fixed number of times between them, and the process prints when they have.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/compiler.h>
#include "../tests.h"

static struct relay {
	int	left;
	int	done;
} *state;

static void *relay_run(void *arg __maybe_unused)
{
	pthread_attr_t detached;
	pthread_t next;

	if (__atomic_sub_fetch(&state->left, 1, __ATOMIC_SEQ_CST) >= 0) {
		syscall(__NR_getppid);
		__atomic_add_fetch(&state->done, 1, __ATOMIC_SEQ_CST);
	}
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	while (pthread_create(&next, &detached, relay_run, NULL))
		sched_yield();
	pthread_attr_destroy(&detached);
	return NULL;
}

/* Children end with their parent, and go on without their main threads. */
static void relay_start(int processes)
{
	for (int i = 1; i < processes; i++) {
		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		relay_run(NULL);
		pthread_exit(NULL);
	}
	relay_run(NULL);
}

static int relay(int argc, const char **argv)
{
	int calls = argc > 0 ? atoi(argv[0]) : 1000, processes = argc > 1 ? atoi(argv[1]) : 1, sig;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);

	state = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	if (state == MAP_FAILED)
		return 1;

	relay_start(processes);
	printf("started\n");
	fflush(stdout);
	while (!sigwait(&set, &sig)) {
		__atomic_store_n(&state->done, 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&state->left, calls, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&state->done, __ATOMIC_SEQ_CST) < calls)
			usleep(1000);
		printf("called\n");
		fflush(stdout);
	}
	return 0;
}

DEFINE_WORKLOAD(relay);
