// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent add and drop: add processes to a session of tasks, or take them out.
 */
#include "cmd.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/perf_event.h>
#include <subcmd/parse-options.h>
#include <sys/ioctl.h>
#include "debug.h"
#include "intlist.h"
#include "registry.h"
#include "rlimit.h"
#include "start.h"
#include "targets.h"

/* Limit of passes, in case threads keep ending before they can be looked at */
#define MAX_PASSES	10000

/* Limit of passes in which one thread has the same error and none is added */
#define MAX_STUCK	100

/*
 * @stuck: the last thread that the kernel refused in a pass, or 0; those that exit take their
 *	   time
 */
struct targets {
	const char			*verb;
	const char			*name;
	u32				id;
	struct intlist			*pids;
	struct target_processes		processes;
	struct task_events		events;
	int				nr_threads;
	u32				stuck;
	int				stuck_err;
	sigset_t			ends;
};

static int pids__parse(const struct option *opt, const char *arg, int unset)
{
	const char *str = arg;

	if (unset) {
		pr_err("--no-pid: use --pid\n");
		return -EINVAL;
	}
	for (char *end = NULL; !end || *end == ','; str = end + 1) {
		long pid = strtol(str, &end, 10);

		if (end == str || (*end && *end != ',') || pid <= 0 || pid > INT_MAX) {
			pr_err("--pid %s: use process ids, separated by commas\n", arg);
			return -EINVAL;
		}
		if (!intlist__findnew(opt->value, pid))
			return -ENOMEM;
	}
	return 0;
}

static const char *add__strerror(struct targets *targets, int err, char *buf, size_t size)
{
	switch (err) {
	case -ESRCH:
		return "no such process";
	case -EEXIST:
		return "the session already measures it";
	case -EACCES:
		return "needs permission to measure it and to control the session";
	case -EPERM:
		return "no more memory can be locked for buffers (kernel.perf_event_mlock_kb)";
	case -EAGAIN:
		return "kernel.perf_event_persistent_max or user.max_perf_persistent is reached";
	default:
		return persistent__strerror(targets->id, 'r', err, buf, size);
	}
}

static int add__error(struct targets *targets, const char *what, pid_t id, int err)
{
	char buf[STRERR_BUFSIZE];

	pr_err("cannot add %s %d to session '%s': %s\n", what, id, targets->name,
	       add__strerror(targets, err, buf, sizeof(buf)));
	return err;
}

static bool targets__are_interrupted(const struct targets *targets)
{
	sigset_t pending;

	return !sigpending(&pending) && !sigandset(&pending, &pending, &targets->ends) &&
	       !sigisemptyset(&pending);
}

/*
 * The newest thread first, as it may be the next one to end. Returns 0 if the session
 * measures all threads already, 1 if not, or a negative error. Later threads of a process
 * that is settled inherit the events.
 */
static int targets__add_threads(struct targets *targets, struct target_process *process)
{
	int again, ret = 0, nr;
	bool tracked = false;
	u32 *tids;

	if (process->settled)
		return 0;
	nr = target_process__threads(process, &tids);
	if (nr <= 0)
		return nr;

	again = !process->complete;

	while (nr-- && ret >= 0 && !targets__are_interrupted(targets)) {
		ret = task_events__add(&targets->events, process, tids[nr]);
		if (ret == TASK_AGAIN && target_process__has_zombie(process, tids[nr]))
			continue;
		if (ret == TASK_AGAIN && targets->events.again && targets->events.again != ESRCH) {
			targets->stuck = tids[nr];
			targets->stuck_err = targets->events.again;
		}
		again |= ret != TASK_TRACKED;
		tracked |= ret == TASK_TRACKED;
		process->added |= ret == TASK_ADDED;
		targets->nr_threads += ret == TASK_ADDED;
	}
	free(tids);
	process->tracked |= tracked;
	process->settled = tracked && !again;
	return ret < 0 ? ret : again;
}

static int targets__add_children(struct targets *targets)
{
	int ret = target_processes__add_children(&targets->processes);

	if (ret < 0)
		pr_err("cannot look for children: %s\n", strerror(-ret));
	return ret;
}

/*
 * Threads and children may start others until they are added; after that, new ones inherit
 * the events. So nothing is missing in a process after a pass that could look at all its
 * threads and found no new one; and in none, if no new child is found after that.
 */
static int targets__add_pass(struct targets *targets, bool descendants)
{
	struct target_processes *processes = &targets->processes;
	int again = 0, ret;

	for (int i = 0; i < processes->nr; i++) {
		ret = targets__add_threads(targets, &processes->list[i]);
		if (ret < 0)
			return add__error(targets, "process", processes->list[i].pid, ret);
		again |= ret;
	}
	if (descendants) {
		ret = targets__add_children(targets);
		if (ret < 0)
			return ret;
		again |= ret;
		for (int i = 0; i < processes->nr; i++) {
			struct target_process *process = &processes->list[i];

			if (process->settled && !process->searched)
				process->searched = !target_process__has_ended(process);
		}
	}
	return again;
}

static int targets__check_added(struct targets *targets)
{
	struct target_processes *processes = &targets->processes;

	for (int i = 0; i < processes->nr; i++) {
		struct target_process *process = &processes->list[i];

		if (process->named && !process->added)
			return add__error(targets, "process", process->pid,
					      process->tracked ? -EEXIST : -ESRCH);
	}
	return 0;
}

/*
 * A child that was forked before its parent was measured is found in a later pass, unless
 * the parent has ended by then: the child was reparented, and nothing in /proc tells its
 * origin. Neither another pass nor a second try finds it. Do not fail either: in a busy
 * tree some processes end in every try, and most of them leave no children. The tree as it
 * is now is measured; warn about the processes that may have left others.
 *
 * A process leaves nothing unmeasured if it was measured when it was forked, or if it
 * still existed after all its threads were measured and its children were looked for. A
 * process that starts and ends between two passes is neither seen nor counted.
 */
static void targets__warn_ended(struct targets *targets)
{
	struct target_processes *processes = &targets->processes;
	int nr = 0;

	for (int i = 0; i < processes->nr; i++) {
		struct target_process *process = &processes->list[i];
		bool is_inherited = process->tracked && !process->added;

		nr += !process->zombie && !is_inherited && !process->searched &&
		      target_process__has_ended(process);
	}
	if (nr)
		pr_warning("%d of the processes exited while they were added: their children may be missing\n",
			   nr);
}

static int targets__add_all(struct targets *targets, bool descendants)
{
	int ret, passes = 0, stuck = 0;

	do {
		u32 was_stuck = targets->stuck;
		int nr = targets->nr_threads;

		targets->stuck = 0;
		ret = targets__add_pass(targets, descendants);
		if (targets__are_interrupted(targets)) {
			pr_err("interrupted\n");
			return -EINTR;
		}
		if (!targets->stuck || targets->stuck != was_stuck || targets->nr_threads != nr)
			stuck = 0;
		else if (++stuck == MAX_STUCK)
			return add__error(targets, "thread", targets->stuck, -targets->stuck_err);
		if (passes++ == MAX_PASSES) {
			pr_err("threads start and end too fast to add them all\n");
			return -ETIMEDOUT;
		}
	} while (ret > 0);

	if (!ret)
		ret = targets__check_added(targets);
	if (!ret && descendants)
		targets__warn_ended(targets);
	return ret;
}

/* Children of a process that has gone were reparented. */
static int targets__find_descendants(struct targets *targets)
{
	struct int_node *pid;
	int ret;

	intlist__for_each_entry(pid, targets->pids) {
		ret = target_processes__add(&targets->processes, pid->i);
		if (ret && ret != -ESRCH) {
			pr_err("cannot look for process %lu: %s\n", pid->i, strerror(-ret));
			return ret;
		}
	}

	do {
		ret = targets__add_children(targets);
	} while (ret > 0);
	return ret;
}

static int targets__no_tasks(struct targets *targets)
{
	pr_err("session '%s' measures CPUs; '%s' is for sessions of tasks, which are started with -p, -t or a command\n",
	       targets->name, targets->verb);
	return -EINVAL;
}

static int targets__find_events(struct targets *targets, bool descendants)
{
	int err = task_events__init(&targets->events, targets->id);

	if (err == -EINVAL)
		return targets__no_tasks(targets);
	if (err == -EBUSY) {
		pr_err("no process can be added to session '%s' while its counters are reserved\n",
		       targets->name);
		return err;
	}
	if (err)
		return persistent__error("read", targets->id, targets->name, 'r', err);
	if (descendants && !task_events__are_inherited(&targets->events)) {
		pr_err("--descendants: session '%s' does not follow children: it was started with -i or --per-thread\n",
		       targets->name);
		return -EINVAL;
	}
	return 0;
}

static int targets__add(struct targets *targets, bool descendants)
{
	sigset_t old;
	struct int_node *pid;
	int err = targets__find_events(targets, descendants);

	if (!err && task_events__have_addresses(&targets->events)) {
		pr_err("no process can be added to session '%s': the kernel does not disclose the addresses of its breakpoints and probes\n",
		       targets->name);
		err = -EOPNOTSUPP;
	}

	intlist__for_each_entry(pid, targets->pids) {
		if (err)
			break;
		err = target_processes__add(&targets->processes, pid->i);
		if (err)
			add__error(targets, "process", pid->i, err);
	}
	if (!err) {
		/* Block signals that end perf until all that was added can be taken out again. */
		persistent__end_signals(&targets->ends);
		sigprocmask(SIG_BLOCK, &targets->ends, &old);
		err = targets__add_all(targets, descendants);
		if (err)
			task_events__undo(&targets->events);
		sigprocmask(SIG_SETMASK, &old, NULL);
	}
	if (!err)
		printf("%s: id %u measures %d more thread%s\n", targets->name, targets->id,
		       targets->nr_threads, targets->nr_threads == 1 ? "" : "s");
	task_events__exit(&targets->events);
	target_processes__exit(&targets->processes);
	return err;
}

/* Compare processes, since the event of a thread may go on after the thread has ended. */
static bool targets__has(struct targets *targets, pid_t pid)
{
	return intlist__has_entry(targets->pids, pid) ||
	       target_processes__has(&targets->processes, pid);
}

static int targets__check_dropped(struct targets *targets,
				  const struct perf_persistent_info *infos, int nr)
{
	bool has_tasks = false;
	struct int_node *pid;

	for (int i = 0; i < nr; i++)
		has_tasks |= infos[i].pid != -1;
	if (!has_tasks)
		return targets__no_tasks(targets);

	intlist__for_each_entry(pid, targets->pids) {
		int i = 0;

		while (i < nr && infos[i].tgid != (pid_t)pid->i)
			i++;
		if (i < nr)
			continue;
		pr_err("session '%s' does not measure process %lu, or only as a child of another one\n",
		       targets->name, pid->i);
		return -EINVAL;
	}
	return 0;
}

static int targets__drop_instance(struct targets *targets, u32 instance)
{
	int err = 0, fd = persistent__open(targets->id, instance);

	if (fd < 0)
		err = fd;
	else if (ioctl(fd, PERF_EVENT_IOC_ATTACH, 0) < 0)
		err = -errno;
	if (fd >= 0)
		close(fd);
	/* The instance has gone meanwhile. */
	return err == -ENOENT || err == -ESRCH || err == -EINVAL ? 0 : err;
}

/* In reverse order: siblings joined after their leaders, which stay until the siblings go. */
static int targets__drop_instances(struct targets *targets,
				   const struct perf_persistent_info *infos, int nr)
{
	char buf[STRERR_BUFSIZE];
	int err = 0;

	while (nr-- && !err) {
		if (!targets__has(targets, infos[nr].tgid))
			continue;
		err = targets__drop_instance(targets, infos[nr].instance);
		if (err)
			pr_err("cannot drop process %d from session '%s': %s\n", infos[nr].tgid,
			       targets->name,
			       persistent__strerror(targets->id, 'w', err, buf, sizeof(buf)));
	}
	return err;
}

static int targets__drop(struct targets *targets, bool descendants)
{
	char name[PERF_PERSISTENT_NAME_MAX];
	struct perf_persistent_query query;
	struct perf_persistent_info *infos;
	int err, nr = persistent__instances(targets->id, &query, &infos);

	if (nr < 0)
		return persistent__error("read", targets->id, targets->name, 'r', nr);

	err = targets__check_dropped(targets, infos, nr);
	if (!err && descendants)
		err = targets__find_descendants(targets);
	if (!err)
		err = targets__drop_instances(targets, infos, nr);
	free(infos);
	if (!err)
		printf("%s: id %u %s\n", targets->name, targets->id,
		       persistent__name(targets->id, name) ? "changed" :
							     "ended with its last target");
	target_processes__exit(&targets->processes);
	return err;
}

int persistent_cmd__targets(int argc, const char **argv, const char * const usage[])
{
	struct targets targets = { .verb = argv[0], .pids = intlist__new(NULL) };
	enum rlimit_action limit = NO_CHANGE;
	bool descendants = false;
	const struct option options[] = {
		OPT_CALLBACK('p', "pid", targets.pids, "pid", "processes to add or drop",
			     pids__parse),
		OPT_BOOLEAN(0, "descendants", &descendants, "also their descendants"),
		OPT_END()
	};
	int err;

	if (!targets.pids)
		return -ENOMEM;
	argc = parse_options(argc, argv, options, usage, 0);
	if (argc != 1 || intlist__empty(targets.pids))
		usage_with_options_msg(usage, options, "name one session, and processes with -p");

	/*
	 * One file per process and, so that it can be taken out again, one per event that
	 * joins
	 */
	rlimit__increase_nofile(&limit);
	err = persistent__find(argv[0]);
	if (err > 0) {
		targets.name = argv[0];
		targets.id = err;
		err = strcmp(targets.verb, "add") ? targets__drop(&targets, descendants) :
						    targets__add(&targets, descendants);
	}
	intlist__delete(targets.pids);
	return err;
}
