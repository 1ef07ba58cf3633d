// SPDX-License-Identifier: GPL-2.0
/*
 * perf record -e persistent/NAME/: write down what a running recording records
 * from now on. It is read and nothing else, so that neither the recording nor
 * any other reader notices.
 */
#include "persistent-follow.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/time64.h>
#include <sys/wait.h>
#include "debug.h"
#include "evlist.h"
#include "persistent-evlist.h"
#include "persistent-output.h"
#include "persistent-reader.h"
#include "target.h"

/*
 * A loop never polls readable. So look every now and then, more often the
 * faster it fills.
 */
#define MAX_PERIOD_USEC	(100 * USEC_PER_MSEC)
#define MIN_PERIOD_USEC	USEC_PER_MSEC

struct persistent_follow {
	struct evlist			*evlist;
	struct persistent_reader	reader;
	struct persistent_output	output;
	sigset_t			signals;
	bool				forks;
};

/* SIGUSR1 is waited for and not handled; only then is it sent. */
static void follow__exec_failed(int sig __maybe_unused, siginfo_t *info __maybe_unused,
				void *ucontext __maybe_unused)
{
}

/* What ends the following is taken when there is nothing else to do. */
static void persistent_follow__block_signals(struct persistent_follow *follow)
{
	sigemptyset(&follow->signals);
	sigaddset(&follow->signals, SIGCHLD);
	sigaddset(&follow->signals, SIGINT);
	sigaddset(&follow->signals, SIGTERM);
	sigaddset(&follow->signals, SIGUSR1);
	sigprocmask(SIG_BLOCK, &follow->signals, NULL);
}

/*
 * Returns a positive number when it is time to end, or a negative error if the
 * command could not be run.
 */
static int persistent_follow__sleep(struct persistent_follow *follow, u32 usecs)
{
	struct timespec timeout = { .tv_nsec = usecs * NSEC_PER_USEC };
	siginfo_t info;
	int sig = sigtimedwait(&follow->signals, &info, &timeout);

	if (sig != SIGUSR1)
		return max(sig, 0);

	pr_err("the command cannot be run: %s\n", strerror(info.si_value.sival_int));
	return -info.si_value.sival_int;
}

static u32 persistent_follow__period(struct persistent_follow *follow, u32 period)
{
	u64 sixteenths = 0;

	for (int i = 0; i < follow->reader.nr; i++) {
		struct persistent_buffer *buffer = &follow->reader.buffers[i];

		sixteenths = max(sixteenths, buffer->len * 16 / buffer->size);
	}

	if (sixteenths > 4)
		return max(period / 2, (u32)MIN_PERIOD_USEC);
	if (!sixteenths)
		return min(period * 2, (u32)MAX_PERIOD_USEC);
	return period;
}

static int persistent_follow__loop(struct persistent_follow *follow)
{
	u32 period = MIN_PERIOD_USEC;
	int err, last = 0;

	for (;;) {
		err = persistent_reader__read(&follow->reader);
		if (!err)
			err = persistent_output__write(&follow->output, &follow->reader);
		if (err || last)
			return err;

		period = persistent_follow__period(follow, period);
		last = persistent_follow__sleep(follow, period);
		if (last < 0)
			return last;
	}
}

/*
 * First the positions, then the tasks: what starts in between is in both, which
 * does no harm, rather than in neither.
 */
static int persistent_follow__run(struct persistent_follow *follow)
{
	int err;

	persistent_reader__skip(&follow->reader);
	err = persistent_output__base_lost(&follow->output);
	if (!err)
		err = persistent_output__synthesize(&follow->output);
	if (err)
		return err;

	if (follow->forks && evlist__start_workload(follow->evlist) < 0)
		return -errno;

	return persistent_follow__loop(follow);
}

/* Returns the exit status of the command. */
static int persistent_follow__wait(struct persistent_follow *follow)
{
	int status = 0;

	if (!follow->forks)
		return 0;

	kill(follow->evlist->workload.pid, SIGTERM);
	waitpid(follow->evlist->workload.pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int persistent_follow__finish(struct persistent_follow *follow)
{
	struct persistent_output *output = &follow->output;
	u64 bytes = persistent_reader__lost_bytes(&follow->reader);
	int err, lost = persistent_output__write_lost(output);

	if (lost < 0)
		return lost;

	err = persistent_output__close(output);
	if (err)
		return err;

	pr_info("[ perf record: Captured and wrote %.3f MB %s (%llu samples) ]\n",
		output->bytes / 1024.0 / 1024.0, output->path,
		(unsigned long long)output->samples);
	if (bytes)
		pr_info("[ overwritten before they could be read: %llu bytes ]\n",
			(unsigned long long)bytes);
	if (lost)
		pr_info("[ lost for want of room in the buffer: %d samples ]\n", lost);
	return 0;
}

static int persistent_follow__start(struct persistent_follow *follow, struct target *target,
				    const char *path, const char **argv)
{
	int err = evlist__reopen_persistent(follow->evlist);

	if (!err)
		err = persistent_reader__init(&follow->reader, follow->evlist);
	if (!err)
		err = persistent_output__open(&follow->output, follow->evlist, path);
	if (err)
		return err;

	if (follow->forks && evlist__prepare_workload(follow->evlist, target, argv, false,
						      follow__exec_failed) < 0)
		return -EINVAL;

	persistent_follow__block_signals(follow);
	return persistent_follow__run(follow);
}

int evlist__follow_persistent(struct evlist *evlist, struct target *target, const char *path,
			      int argc, const char **argv)
{
	struct persistent_follow follow = { .evlist = evlist, .forks = argc > 0 };
	int status = 0, err = persistent_follow__start(&follow, target, path, argv);

	if (follow.forks && evlist->workload.pid > 0)
		status = persistent_follow__wait(&follow);

	if (!err)
		err = persistent_follow__finish(&follow);
	if (err)
		persistent_output__abort(&follow.output);

	persistent_reader__exit(&follow.reader);
	evlist__close(evlist);
	return err ?: status;
}
