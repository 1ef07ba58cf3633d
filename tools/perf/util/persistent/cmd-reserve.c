// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent reserve: hold sessions, so that their counters are free for others. Each
 * is held through a view that stays open until this process ends.
 */
#include "cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <subcmd/parse-options.h>
#include <sys/wait.h>
#include "debug.h"
#include "info.h"
#include "pmu.h"
#include "pmus.h"
#include "registry.h"
#include "start.h"

/*
 * @names:   sessions that were named; without a PMU, hold all of their events
 * @argv:    the command to run while they are held, or NULL
 * @guessed: @argv is taken for a command because it names no session
 */
struct reserve {
	const char	*pmu_name;
	struct perf_pmu	*pmu;
	const char	**names;
	int		nr_names;
	const char	**argv;
	bool		guessed;
	bool		background;
};

/* Side-band goes on: it names the tasks that are started meanwhile. */
static bool reserve__wants(const struct reserve *reserve, u32 type, u64 config)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .type = type, .config = config };
	struct perf_pmu *pmu;

	if (persistent__is_side_band(type, config))
		return false;
	if (!reserve->pmu)
		return reserve->nr_names || persistent__is_cpu_pmu(type);
	pmu = perf_pmus__find_by_attr(&attr);
	return pmu && pmu->type == reserve->pmu->type;
}

static bool reserve__wants_member(const struct reserve *reserve, struct persistent_info *info,
				  u32 nr)
{
	struct persistent_info_member *member = &info->members[nr];

	return member->known && reserve__wants(reserve, member->attr.type, member->attr.config);
}

/*
 * Hold the whole session at once if all of it is meant: that includes events that join
 * later. When the kernel returns, the events have stopped on all CPUs.
 */
static int reserve__hold_members(const struct reserve *reserve, struct persistent_info *info,
				 int fd)
{
	struct perf_persistent_set set = { .flags = PERF_PERSISTENT_SET_HOLD };
	bool all = true;
	int err = 0;

	for (u32 i = 0; i < info->nr_members; i++)
		all &= !info->members[i].known || reserve__wants_member(reserve, info, i);
	if (all)
		return persistent__set(fd, &set);

	for (u32 i = 0; i < info->nr_members && !err; i++) {
		if (reserve__wants_member(reserve, info, i))
			err = persistent__set_member(fd, i, &set);
	}
	return err;
}

static void reserve__report(const struct reserve *reserve, struct persistent_info *info)
{
	fprintf(stderr, "%s: id %u held:", info->name, info->id);
	for (u32 i = 0; i < info->nr_members; i++) {
		if (reserve__wants_member(reserve, info, i))
			fprintf(stderr, " %s", info->members[i].label);
	}
	fprintf(stderr, "\n");
}

/* Returns whether an event was held, or a negative error. */
static int reserve__hold_session(const struct reserve *reserve, u32 id)
{
	struct persistent_types types;
	struct persistent_info info;
	bool wants = false;
	int err, fd;

	if (persistent_types__read(&types, id))
		return -ENOENT;
	for (int i = 0; i < types.nr; i++)
		wants |= reserve__wants(reserve, types.list[i].type, types.list[i].config);
	/* Do not open other sessions: the caller may not be allowed to hold them. */
	if (!wants)
		return 0;

	/* It stays open. */
	fd = persistent__open_session(id);
	if (fd < 0)
		return fd;
	err = persistent_info__init_types(&info, id) ?: reserve__hold_members(reserve, &info, fd);
	if (!err && verbose > 0)
		reserve__report(reserve, &info);
	persistent_info__exit(&info);
	return err ?: 1;
}

/* A session that has ended needs no holding, unless it was named. */
static int reserve__hold(u32 id, void *arg)
{
	const struct reserve *reserve = arg;
	char name[PERF_PERSISTENT_NAME_MAX];
	int ret = reserve__hold_session(reserve, id);

	if (ret >= 0)
		return ret;
	if (!persistent__name_or_id(id, name) && !reserve->nr_names)
		return 0;
	return persistent__error("hold", id, name, 'x', ret);
}

/* Returns the pid, 0 without a command, or a negative error. */
static pid_t reserve__spawn(const struct reserve *reserve, const sigset_t *mask)
{
	posix_spawnattr_t attr;
	pid_t pid;
	int err;

	if (!reserve->argv)
		return 0;

	err = posix_spawnattr_init(&attr);
	if (err)
		return -err;
	posix_spawnattr_setsigmask(&attr, mask);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	err = posix_spawnp(&pid, reserve->argv[0], NULL, &attr, (char **)reserve->argv, environ);
	posix_spawnattr_destroy(&attr);
	if (err && reserve->guessed)
		pr_err("'%s' is neither a session nor a command: %s\n", reserve->argv[0],
		       strerror(err));
	else if (err)
		pr_err("failed to run '%s': %s\n", reserve->argv[0], strerror(err));
	return err ? -err : pid;
}

/* Returns the exit status: that of the command, or 0 when a signal ends it without one. */
static int reserve__wait(pid_t pid, const sigset_t *wait)
{
	siginfo_t info;
	int status;

	while ((status = persistent__wait_command(pid, wait, &info)) == -EINTR && pid) {
		/* A signal from the terminal reaches the command by itself. */
		if (info.si_code <= 0)
			kill(pid, info.si_signo);
	}
	return pid ? status : 0;
}

/* Files of sessions must not become standard output or error, which are replaced. */
static void reserve__fill_standard_files(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static void reserve__to_null(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || null == fd)
		return;
	dup2(null, fd);
	close(null);
}

/* @ready: pipe on which to report that the command was started, or -1 */
static int reserve__run(const struct reserve *reserve, int ready)
{
	sigset_t wait, old;
	pid_t pid;

	/* Do not inherit an ignored SIGCHLD: perf waits for the end of the command. */
	signal(SIGCHLD, SIG_DFL);
	persistent__end_signals(&wait);
	sigaddset(&wait, SIGCHLD);
	sigprocmask(SIG_BLOCK, &wait, &old);

	pid = reserve__spawn(reserve, &old);
	if (pid < 0)
		return pid;
	if (ready >= 0) {
		/* The command keeps perf's standard output and error; perf needs neither. */
		reserve__to_null(STDOUT_FILENO);
		reserve__to_null(STDERR_FILENO);
		if (write(ready, "", 1) != 1)
			return -errno;
		close(ready);
	}
	return reserve__wait(pid, &wait);
}

/* Do not leave a holder that nobody knows of. */
static int reserve__print_holder(pid_t pid)
{
	signal(SIGPIPE, SIG_IGN);
	printf("%d\n", pid);
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	pr_err("cannot print the pid of the holder, which ends: %s\n", strerror(errno));
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	return -EIO;
}

/* Prints the pid of a background process that holds the sessions. */
static int reserve__background(const struct reserve *reserve)
{
	int ready[2], err;
	char byte;
	pid_t pid;

	fflush(NULL);
	pid = pipe2(ready, O_CLOEXEC) ? -1 : fork();
	if (pid < 0) {
		err = -errno;
		pr_err("cannot run in the background: %s\n", strerror(-err));
		return err;
	}
	if (!pid) {
		close(ready[0]);
		setsid();
		reserve__to_null(STDIN_FILENO);
		return reserve__run(reserve, ready[1]);
	}

	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		return -ECHILD;
	return reserve__print_holder(pid);
}

/* The names end at "--", which is skipped, or at the first argument that is no session. */
static int reserve__parse(struct reserve *reserve, int argc, const char **argv)
{
	bool dashes;
	int nr = 0;

	while (nr < argc && strcmp(argv[nr], "--") && persistent__lookup(argv[nr]) > 0)
		nr++;
	dashes = nr < argc && !strcmp(argv[nr], "--");

	reserve->names = argv;
	reserve->nr_names = nr;
	reserve->guessed = !dashes;
	if (nr + dashes < argc)
		reserve->argv = argv + nr + dashes;
	if (!reserve->pmu_name)
		return 0;

	reserve->pmu = perf_pmus__find(reserve->pmu_name);
	if (reserve->pmu)
		return 0;
	pr_err("no PMU '%s' (see /sys/bus/event_source/devices)\n", reserve->pmu_name);
	return -ENODEV;
}

int persistent_cmd__reserve(int argc, const char **argv, const char * const usage[])
{
	struct reserve reserve = {};
	const struct option options[] = {
		OPT_BOOLEAN('d', "background", &reserve.background,
			    "return when the counters are held, and print the pid of the holder"),
		OPT_STRING(0, "pmu", &reserve.pmu_name, "pmu",
			   "hold events of this PMU (default: CPU PMUs; all of named sessions)"),
		OPT_INCR('v', "verbose", &verbose, "print what is held"),
		OPT_END()
	};
	int err, held = 0;

	argc = parse_options(argc, argv, options, usage,
			     PARSE_OPT_STOP_AT_NON_OPTION | PARSE_OPT_KEEP_DASHDASH);
	if (persistent__type() < 0)
		return -EOPNOTSUPP;
	reserve__fill_standard_files();
	err = reserve__parse(&reserve, argc, argv) ?:
	      persistent__each(reserve.nr_names, reserve.names, reserve__hold, &reserve, &held);
	if (err)
		return err;
	if (!held && verbose > 0)
		fprintf(stderr, "no session has events of %s, so nothing is held\n",
			reserve.pmu_name ?: "the CPU's PMU");
	return reserve.background ? reserve__background(&reserve) : reserve__run(&reserve, -1);
}
