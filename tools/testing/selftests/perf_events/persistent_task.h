/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Persistent perf events: helpers for tests that measure tasks.
 *
 * A target is a process, or a thread of one, that executes orders, so that a
 * test knows what there is to count. It ends with its test at the latest.
 */
#ifndef _SELFTESTS_PERF_EVENTS_PERSISTENT_TASK_H
#define _SELFTESTS_PERF_EVENTS_PERSISTENT_TASK_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "persistent.h"

#define ANY_CPU		-1

enum who {
	OWN,		/* the target opens its event itself */
	PROCESS,	/* the test opens it, for another process */
	THREAD,		/* likewise, for a thread that does not lead its process */
};

enum verb {
	DRIVE,		/* make an event happen that often */
	DETACH_OWN,	/* open and detach an event on itself */
	REOPEN_OWN,	/* open its own event of that id */
	HOLD_OWN,	/* hold the session of that id, for as long as it lives */
	CLOSE,		/* the file of DETACH_OWN */
	TURN_OFF,	/* PR_TASK_PERF_EVENTS_DISABLE */
	BECOME,		/* another user */
	DUMPABLE,	/* or not */
	PIN,		/* to a CPU */
	FORK,		/* a child that triggers the event that often, and exits */
	SPAWN,		/* a child that takes orders */
	EXEC,		/* the program at that path, which takes orders too */
	END,
};

struct order {
	enum verb			verb;
	int				value;
	enum event			event;
	int				cpu;
	struct perf_event_attr		attr;
	struct perf_event_detach	detach;
	char				path[64];
};

/* @child is for orders to what SPAWN made. */
struct target {
	pid_t	pid;
	pid_t	tid;
	int	sock;
	int	child;
};

/* The target's side */

struct target_side {
	int	sock;
	int	child;
	int	event;
};

static inline void target_serve(struct target_side *t);

static inline int target_fork(struct target_side *t, const struct order *o)
{
	pid_t pid;

	/* Children of SPAWN are reaped automatically. */
	if (o->verb == SPAWN)
		signal(SIGCHLD, SIG_IGN);

	pid = fork();
	if (!pid && o->verb == SPAWN) {
		close(t->sock);
		t->sock = t->child;
		target_serve(t);
		_exit(0);
	}
	if (!pid) {
		drive(o->event, o->value);
		_exit(0);
	}
	if (o->verb == FORK)
		waitpid(pid, NULL, 0);

	return pid < 0 ? -errno : pid;
}

static inline int target_exec(struct target_side *t, const struct order *o)
{
	char sock[16], child[16];

	snprintf(sock, sizeof(sock), "%d", t->sock);
	snprintf(child, sizeof(child), "%d", t->child);
	execl(o->path, o->path, "target", sock, child, NULL);

	return -errno;
}

/* Change all uids, but keep CAP_SETUID to become another user later */
static inline int target_become(uid_t uid)
{
	return result(prctl(PR_SET_KEEPCAPS, 1)) ?: only_capability(CAP_SETUID) ?:
	       result(syscall(__NR_setresuid, uid, uid, uid)) ?:
	       result(prctl(PR_SET_DUMPABLE, 1));
}

static inline int target_obey(struct target_side *t, const struct order *o)
{
	switch (o->verb) {
	case DRIVE:
		drive(o->event, o->value);
		return 0;
	case DETACH_OWN:
		t->event = event_open(&o->attr, 0, o->cpu, -1, 0);
		return t->event < 0 ? t->event :
		       event_ioctl(t->event, PERF_EVENT_IOC_DETACH, &o->detach);
	case REOPEN_OWN:
		return reopen_at(o->value, 0, o->cpu);
	case HOLD_OWN:
		return hold(reopen(o->value));
	case CLOSE:
		return result(close(t->event));
	case TURN_OFF:
		return result(prctl(PR_TASK_PERF_EVENTS_DISABLE));
	case BECOME:
		return target_become(o->value);
	case DUMPABLE:
		return result(prctl(PR_SET_DUMPABLE, o->value));
	case PIN:
		return pin(o->value);
	case FORK:
	case SPAWN:
		return target_fork(t, o);
	case EXEC:
		return target_exec(t, o);
	case END:
		break;
	}

	return 0;
}

/* Execute orders until END, or until the test ends */
static inline void target_serve(struct target_side *t)
{
	struct order o = { .verb = END };
	int ret;

	while (recv(t->sock, &o, sizeof(o), 0) == sizeof(o) && o.verb != END) {
		ret = target_obey(t, &o);
		send(t->sock, &ret, sizeof(ret), MSG_NOSIGNAL);
	}
}

static inline void *target_thread(void *arg)
{
	struct target_side *t = arg;
	int tid = syscall(__NR_gettid);

	send(t->sock, &tid, sizeof(tid), MSG_NOSIGNAL);
	target_serve(t);

	return NULL;
}

/* A thread's process takes orders after the thread, until the test ends. */
static inline void target_run(struct target_side *t, enum who who)
{
	pthread_t thread;

	if (who == THREAD && !pthread_create(&thread, NULL, target_thread, t)) {
		pthread_join(thread, NULL);
		target_serve(t);
	} else {
		target_thread(t);
	}
	_exit(0);
}

/* After EXEC: report success, and take orders as before, instead of testing. */
static void __attribute__((constructor)) target_main(int argc, char **argv)
{
	struct target_side t = { .sock = -1 };
	int ret = 0;

	if (argc != 4 || strcmp(argv[1], "target"))
		return;

	t = (struct target_side) { atoi(argv[2]), atoi(argv[3]), -1 };
	send(t.sock, &ret, sizeof(ret), MSG_NOSIGNAL);
	target_serve(&t);
	_exit(0);
}

/* The test's side */

static inline int answer_of(int sock)
{
	int ret;

	return recv(sock, &ret, sizeof(ret), 0) == sizeof(ret) ? ret : -EPIPE;
}

static inline int send_order(int sock, const struct order *o)
{
	if (send(sock, o, sizeof(*o), MSG_NOSIGNAL) != sizeof(*o))
		return -errno;

	return answer_of(sock);
}

/* ORDER(target.sock, DRIVE, .value = N) */
#define ORDER(to, what, ...)	\
	send_order(to, &(struct order) { .verb = what, ##__VA_ARGS__ })

static inline struct target target_start(enum who who)
{
	struct target_side side = { .event = -1 };
	struct target t = {};
	int sock[2], child[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, child))
		return t;

	t.pid = fork();
	if (!t.pid) {
		close(sock[0]);
		close(child[0]);
		side.sock = sock[1];
		side.child = child[1];
		target_run(&side, who);
	}
	close(sock[1]);
	close(child[1]);
	t.sock = sock[0];
	t.child = child[0];
	t.tid = answer_of(t.sock);

	return t;
}

/* Detach an event on the target, and close it; the maker may be the target itself */
static inline int target_detach(struct target *t, enum who maker,
				const struct perf_event_attr *attr, int cpu,
				struct perf_event_detach d)
{
	int fd, id;

	if (maker == OWN)
		return ORDER(t->sock, DETACH_OWN, .attr = *attr, .cpu = cpu, .detach = d);

	fd = event_open(attr, t->tid, cpu, -1, 0);
	if (fd < 0)
		return fd;
	id = event_ioctl(fd, PERF_EVENT_IOC_DETACH, &d);
	close(fd);

	return id;
}

/* Wait until the task has exited; its process may still exist */
static inline bool target_gone(struct target *t)
{
	if (t->tid == t->pid && waitpid(t->pid, NULL, 0) != t->pid)
		return false;

	return eventually(syscall(__NR_tgkill, t->pid, t->tid, 0) && errno == ESRCH);
}

static inline bool target_end(struct target *t)
{
	struct order o = { .verb = END };

	return send(t->sock, &o, sizeof(o), 0) == sizeof(o) && target_gone(t);
}

static inline bool target_kill(struct target *t)
{
	kill(t->pid, SIGKILL);

	return waitpid(t->pid, NULL, 0) == t->pid;
}

/* The same for the child that SPAWN made */
static inline bool target_end_child(struct target *t, pid_t child)
{
	struct order o = { .verb = END };

	return send(t->child, &o, sizeof(o), 0) == sizeof(o) &&
	       eventually(kill(child, 0) && errno == ESRCH);
}

/* A program runs as the process, whichever thread started it. */
static inline int target_program(struct target *t, const char *path)
{
	struct order o = { .verb = EXEC };

	snprintf(o.path, sizeof(o.path), "%s", path);
	t->tid = t->pid;

	return send_order(t->sock, &o);
}

/* Run a program that gives its user root's rights */
static inline int target_setuid_program(struct target *t)
{
	char path[] = "/tmp/persistent_setuid.XXXXXX", buf[65536];
	int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), out = mkstemp(path), ret;

	while ((ret = read(in, buf, sizeof(buf))) > 0 && write(out, buf, ret) == ret)
		;
	if (ret || fchown(out, 0, 0) || fchmod(out, 04755))
		return -EIO;
	close(in);
	close(out);

	ret = target_program(t, path);
	unlink(path);

	return ret;
}

#endif /* _SELFTESTS_PERF_EVENTS_PERSISTENT_TASK_H */
