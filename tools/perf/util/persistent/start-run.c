// SPDX-License-Identifier: GPL-2.0
/*
 * perf record, stat --persistent: set up a session completely or not at all, and run the
 * command if there is one.
 */
#include "start.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/time64.h>
#include <sys/wait.h>
#include "cgroup.h"
#include "cpumap.h"
#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "registry.h"
#include "rlimit.h"
#include "target.h"
#include "time-utils.h"
#include "units.h"

/* Never called: SIGUSR1 is waited for, but it is only sent if it has a handler. */
static void exec_failed(int sig __maybe_unused, siginfo_t *info __maybe_unused,
			void *ucontext __maybe_unused)
{
}

/* The signals that end perf, except those that are ignored, e.g. because of nohup */
void persistent__end_signals(sigset_t *ends)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction act;

	sigemptyset(ends);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		if (!sigaction(signals[i], NULL, &act) && act.sa_handler != SIG_IGN)
			sigaddset(ends, signals[i]);
	}
}

/*
 * A signal that ended perf halfway would leave a part of the session until its time to
 * live runs out. So block signals until perf can undo everything.
 */
static void persistent_start__block_signals(struct persistent_start *start, sigset_t *old)
{
	static const int job_control[] = { SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT };
	sigset_t block;

	persistent__end_signals(&start->ends);
	if (start->argv)
		sigaddset(&start->ends, SIGUSR1);

	sigfillset(&block);
	for (size_t i = 0; i < ARRAY_SIZE(job_control); i++)
		sigdelset(&block, job_control[i]);
	sigprocmask(SIG_BLOCK, &block, old);
}

/* SIGUSR1 from anybody else means that perf should end. */
static bool persistent_start__is_exec_error(struct persistent_start *start, siginfo_t *info)
{
	return info->si_signo == SIGUSR1 && info->si_code == SI_QUEUE && start->argv &&
	       info->si_pid == evlist__workload_pid(start->evlist);
}

static int persistent_start__exec_error(struct persistent_start *start, siginfo_t *info)
{
	int err = info->si_value.sival_int;
	const char *command = start->argv[0];

	pr_err("failed to run '%s': %s\n", command, strerror(err));
	/* The name of a session follows '='. After a blank it is taken for the command. */
	if (err == ENOENT && !start->spec.name && persistent__valid_name(command))
		pr_err("did you mean --persistent=%s?\n", command);
	return -err;
}

/* Returns 0 if no signal came in that time. */
static int persistent_start__sleep(struct persistent_start *start, u64 ns)
{
	struct timespec timeout = { ns / NSEC_PER_SEC, ns % NSEC_PER_SEC };
	siginfo_t info;
	int sig;

	do {
		sig = sigtimedwait(&start->ends, &info, &timeout);
	} while (sig < 0 && errno == EINTR);

	if (sig < 0)
		return 0;
	if (persistent_start__is_exec_error(start, &info))
		return persistent_start__exec_error(start, &info);
	pr_err("interrupted: %s\n", strsignal(sig));
	return -EINTR;
}

static int persistent_start__delay(struct persistent_start *start)
{
	u64 now = rdclock(), end = now + (u64)start->target->initial_delay * NSEC_PER_MSEC;
	int err = 0;

	for (; !err && now < end; now = rdclock())
		err = persistent_start__sleep(start, min(end - now, start->setup_ttl / 4)) ?:
		      persistent_start__renew(start);
	return err;
}

/*
 * The events of a command are enabled by its exec. Siblings are enabled now, and wait for
 * their leader.
 */
static int persistent_start__enable(struct persistent_start *start, bool side_band)
{
	struct evsel *evsel;
	int err;

	evlist__for_each_entry(start->evlist, evsel) {
		bool is_side_band = evsel->tracking && start->record;

		if (is_side_band != side_band || !evsel__is_group_leader(evsel) ||
		    evsel->core.attr.enable_on_exec)
			continue;
		if (evsel__enable(evsel)) {
			err = -errno;
			pr_err("%s cannot be enabled: %s\n", evsel__name(evsel), strerror(-err));
			return err;
		}
	}
	return 0;
}

/* Side-band first: it needs the tasks of the first samples. */
static int persistent_start__begin(struct persistent_start *start)
{
	int delay = start->target->initial_delay;
	int err = persistent_start__enable(start, /*side_band=*/true);

	if (err)
		return err;

	if (start->argv && delay > 0 && evlist__start_workload(start->evlist) < 0)
		return -errno;
	if (delay > 0)
		err = persistent_start__delay(start);
	if (!err && delay >= 0)
		err = persistent_start__enable(start, /*side_band=*/false);
	return err ?: persistent_start__sleep(start, 0);
}

static void persistent_start__print_target(struct persistent_start *start)
{
	struct target *target = start->target;
	const char *cgroup = NULL;
	struct evsel *evsel;
	char cpus[256];

	if (target->pid)
		printf(" of process %s", target->pid);
	else if (target->tid)
		printf(" of thread %s", target->tid);
	else if (target__none(target))
		printf(" of command %s", start->argv[0]);

	if (target__has_cpu(target)) {
		cpu_map__snprint(evlist__first(start->evlist)->core.cpus, cpus, sizeof(cpus));
		printf(" on CPUs %s", cpus);
	}

	evlist__for_each_entry(start->evlist, evsel) {
		if (!evsel->cgrp || (cgroup && !strcmp(cgroup, evsel->cgrp->name)))
			continue;
		printf("%s%s%s", cgroup ? "," : " in cgroup ",
		       evsel->cgrp->name[0] == '/' ? "" : "/", evsel->cgrp->name);
		cgroup = evsel->cgrp->name;
	}
}

static void persistent_start__print_how(struct persistent_start *start)
{
	const struct perf_persistent_set *set = &start->spec.set;
	char size[16], mode[PERSISTENT_MODE_SIZE], name[64];
	u64 ttl = persistent_start__ttl(start);

	unit_number__scnprintf(size, sizeof(size), start->buffer_bytes);
	if (start->stat)
		printf(", counting");
	else
		printf(", %u buffers, %s in total, %s", start->nr_buffers, size,
		       start->spec.discard ? "discarding new records when full" :
					     "overwriting the oldest records");
	if (start->target->initial_delay == -1)
		printf(", disabled");
	if (ttl)
		printf(", ttl %llus", (unsigned long long)(ttl / NSEC_PER_SEC));
	if (set->flags & PERF_PERSISTENT_SET_MODE)
		printf(", mode %s", persistent__mode(set->mode, mode));
	if (set->flags & PERF_PERSISTENT_SET_GID)
		printf(", group %s", persistent__group(set->gid, name, sizeof(name)));
	if (set->flags & PERF_PERSISTENT_SET_UID)
		printf(", owner %s", persistent__user(set->uid, name, sizeof(name)));
	printf("\n");
}

static void persistent_start__print_hint(struct persistent_start *start, const char *name)
{
	if (start->stat)
		pr_info("[ perf stat: 'perf persistent read %s' shows the counts, 'perf persistent stop %s' ends it ]\n",
			name, name);
	else if (start->spec.discard)
		pr_info("[ perf record: 'perf persistent flush -o <log> %s' empties the buffers, 'perf persistent stop %s' ends it ]\n",
			name, name);
	else
		pr_info("[ perf record: 'perf persistent dump %s' takes a snapshot, 'perf persistent stop %s' ends it ]\n",
			name, name);
	if (evlist__first(start->evlist)->core.attr.inherit_stat)
		pr_info("[ 'perf persistent read --exits %s' shows the counts of each task that has ended ]\n",
			name);
	if (start->target->initial_delay == -1)
		pr_info("[ it is disabled: 'perf persistent enable %s' enables it ]\n", name);
}

/* Returns an error if nobody can know what to stop: a name that was given is known. */
static int persistent_start__report(struct persistent_start *start)
{
	char name[PERF_PERSISTENT_NAME_MAX];
	struct evsel *evsel;

	/* A reader that has gone does not end perf. The command was forked before. */
	signal(SIGPIPE, SIG_IGN);
	persistent__name_or_id(start->id, name);
	printf("%s: id %u,", name, start->id);
	evlist__for_each_entry(start->evlist, evsel) {
		if (!evsel->tracking || start->stat)
			printf(" %s", evsel__name(evsel));
	}
	persistent_start__print_target(start);
	persistent_start__print_how(start);
	if ((fflush(stdout) || ferror(stdout)) && !start->spec.name) {
		pr_err("cannot print the name of the session: %s\n", strerror(errno));
		return -EIO;
	}
	persistent_start__print_hint(start, name);
	return 0;
}

/*
 * Wait until the command ends or a signal in @wait, which includes SIGCHLD, arrives.
 * Without a command, pid is 0. Returns its exit status, or -EINTR and the signal.
 */
int persistent__wait_command(pid_t pid, const sigset_t *wait, siginfo_t *info)
{
	int sig, status;

	for (;;) {
		sig = sigwaitinfo(wait, info);
		if (sig == SIGCHLD && pid && waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		if (sig > 0 && sig != SIGCHLD)
			return -EINTR;
	}
}

/*
 * The session is set up. Wait, and pass signals that end perf on to the command. Returns
 * the exit status of the command.
 */
static int persistent_start__wait(struct persistent_start *start)
{
	pid_t pid = evlist__workload_pid(start->evlist);
	siginfo_t info;
	sigset_t wait = start->ends;
	int status;

	if (evlist__start_workload(start->evlist) < 0)
		return -errno;

	sigaddset(&wait, SIGCHLD);
	while ((status = persistent__wait_command(pid, &wait, &info)) == -EINTR) {
		if (persistent_start__is_exec_error(start, &info))
			return persistent_start__exec_error(start, &info);
		kill(pid, SIGTERM);
	}
	return status;
}

static void persistent_start__give_up(struct persistent_start *start)
{
	char buf[STRERR_BUFSIZE];
	int err;

	if (start->argv) {
		evlist__cancel_workload(start->evlist);
		kill(evlist__workload_pid(start->evlist), SIGTERM);
	}
	if (!start->id)
		return;
	err = persistent__end(start->id);
	if (err)
		pr_err("failed to undo session %u: %s; 'perf persistent stop %u' ends it\n",
		       start->id, persistent__strerror(start->id, 'r', err, buf, sizeof(buf)),
		       start->id);
	else
		pr_err("nothing was left running\n");
}

static int persistent_start__run(struct persistent_start *start)
{
	enum rlimit_action limit = NO_CHANGE;
	sigset_t old;
	int err;

	if (start->argv) {
		/* Do not inherit an ignored SIGCHLD: perf waits for the end of the command. */
		signal(SIGCHLD, SIG_DFL);
		if (evlist__prepare_workload(start->evlist, start->target, start->argv,
					     /*pipe_output=*/false, exec_failed) < 0)
			return -EINVAL;
	}

	/* One file per instance until they are detached; not for the command */
	rlimit__increase_nofile(&limit);

	persistent_start__block_signals(start, &old);
	/* Report the session before it stays. */
	err = persistent_start__open(start) ?:
	      persistent_start__detach(start) ?:
	      persistent_start__begin(start) ?:
	      persistent_start__report(start) ?:
	      persistent_start__commit(start);
	evlist__close(start->evlist);
	if (!err && start->argv)
		err = persistent_start__wait(start);
	if (err < 0)
		persistent_start__give_up(start);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return err;
}

/* @spec: the argument of --persistent, or NULL. Returns 0, the status of a command, or an error. */
int persistent_start__start(struct persistent_start *start, const char *spec)
{
	int err = persistent_spec__parse(&start->spec, spec) ?:
		  persistent_start__config(start) ?:
		  persistent_start__run(start);

	free(start->spec.name);
	return err;
}
