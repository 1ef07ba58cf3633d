// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent reserve: run the command, or wait for a signal, while sessions are held.
 * They go on when this process closes their views, also by its death.
 */
#include "reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include "debug.h"
#include "start.h"

static void reserve__block_signals(sigset_t *wait, sigset_t *old)
{
	/* The end of the command must be told, even if somebody had that ignored. */
	signal(SIGCHLD, SIG_DFL);
	persistent__end_signals(wait);
	sigaddset(wait, SIGCHLD);
	sigprocmask(SIG_BLOCK, wait, old);
}

/* Returns the pid, 0 without a command, or a negative error. */
static pid_t reserve__spawn(const struct reserve_run *run, const sigset_t *mask)
{
	posix_spawnattr_t attr;
	pid_t pid;
	int err;

	if (!run->argv)
		return 0;

	err = posix_spawnattr_init(&attr);
	if (err)
		return -err;
	posix_spawnattr_setsigmask(&attr, mask);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	err = posix_spawnp(&pid, run->argv[0], NULL, &attr, (char **)run->argv, environ);
	posix_spawnattr_destroy(&attr);
	if (err && run->guessed)
		pr_err("'%s' is neither a session nor a command: %s\n", run->argv[0],
		       strerror(err));
	else if (err)
		pr_err("failed to run '%s': %s\n", run->argv[0], strerror(err));
	return err ? -err : pid;
}

/* Returns the exit status: that of the command, or 0 when a signal ends it without one. */
static int reserve__wait(pid_t pid, const sigset_t *wait)
{
	siginfo_t info;
	int status;

	while ((status = persistent__wait_command(pid, wait, &info)) == -EINTR && pid) {
		/* The terminal sends it to the command as well. */
		if (info.si_code <= 0)
			kill(pid, info.si_signo);
	}
	return pid ? status : 0;
}

static void reserve__to_null(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || null == fd)
		return;
	dup2(null, fd);
	close(null);
}

static int reserve__foreground(const struct reserve_run *run)
{
	sigset_t wait, old;
	pid_t pid;

	reserve__block_signals(&wait, &old);
	pid = reserve__spawn(run, &old);
	return pid < 0 ? pid : reserve__wait(pid, &wait);
}

/* The command has its output where that of perf goes. */
static int reserve__child(const struct reserve_run *run, int ready)
{
	sigset_t wait, old;
	pid_t pid;

	setsid();
	reserve__to_null(STDIN_FILENO);
	reserve__block_signals(&wait, &old);
	pid = reserve__spawn(run, &old);
	if (pid < 0)
		return pid;
	reserve__to_null(STDOUT_FILENO);
	reserve__to_null(STDERR_FILENO);
	if (write(ready, "", 1) != 1)
		return -errno;
	close(ready);
	return reserve__wait(pid, &wait);
}

/* Prints the pid of a process that holds the sessions from then on. */
static int reserve__background(const struct reserve_run *run)
{
	int ready[2], err;
	char byte;
	pid_t pid;

	fflush(NULL);
	pid = pipe2(ready, O_CLOEXEC) ? -1 : fork();
	if (pid < 0) {
		err = -errno;
		pr_err("cannot go to the background: %s\n", strerror(-err));
		return err;
	}
	if (!pid) {
		close(ready[0]);
		return reserve__child(run, ready[1]);
	}

	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		return -ECHILD;
	printf("%d\n", pid);
	return 0;
}

int reserve__run(const struct reserve_run *run)
{
	return run->background ? reserve__background(run) : reserve__foreground(run);
}
