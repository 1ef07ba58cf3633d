// SPDX-License-Identifier: GPL-2.0
/*
 * Processes that become targets of a session: their threads and children, and the events
 * that are opened for them and join the session.
 */
#include "targets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/perf_event.h>
#include <linux/zalloc.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include "intlist.h"
#include "perf-sys.h"
#include "pmu.h"
#include "pmus.h"
#include "registry.h"

/* The /proc directory of a task that has gone has no entries, even if the pid is reused. */
static bool target_task__is_there(int dir)
{
	return !faccessat(dir, "stat", F_OK, 0);
}

static struct target_process *target_processes__find(struct target_processes *processes,
						     pid_t pid)
{
	for (int i = 0; i < processes->nr; i++) {
		if (processes->list[i].pid == pid &&
		    target_task__is_there(processes->list[i].dir))
			return &processes->list[i];
	}
	return NULL;
}

bool target_processes__has(struct target_processes *processes, pid_t pid)
{
	for (int i = 0; i < processes->nr; i++) {
		if (processes->list[i].pid == pid)
			return true;
	}
	return false;
}

/* Returns the /proc directory of a task, or a negative error: -ESRCH if it has gone. */
static int open_task(int dir, const char *tasks, pid_t tid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "%s/%d", tasks, tid);
	fd = openat(dir, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return fd;
}

/* The directory is closed with the process or, on failure, here. */
static int target_processes__append(struct target_processes *processes,
				    const struct target_process *process)
{
	struct target_process *list;

	list = realloc(processes->list, (processes->nr + 1) * sizeof(*list));
	if (!list) {
		close(process->dir);
		return -ENOMEM;
	}
	processes->list = list;
	list[processes->nr++] = *process;
	return 0;
}

/* Returns 0 if the process was added or is listed already, or a negative error if it has gone. */
int target_processes__add(struct target_processes *processes, pid_t pid)
{
	struct target_process process = { .pid = pid, .named = true };

	if (target_processes__find(processes, pid))
		return 0;
	process.dir = open_task(AT_FDCWD, "/proc", pid);
	return process.dir < 0 ? process.dir : target_processes__append(processes, &process);
}

/* The state of a task and its parent, from its /proc directory; 0 if it has gone */
static char task_state(int dir, pid_t *parent)
{
	char buf[512], state, *end;
	ssize_t len;
	int fd = openat(dir, "stat", O_RDONLY | O_CLOEXEC);

	len = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	if (fd >= 0)
		close(fd);
	if (len < 0)
		return 0;

	/* The program name may contain anything, including parentheses. */
	buf[len] = '\0';
	end = strrchr(buf, ')');
	return end && sscanf(end, ") %c %d", &state, parent) == 2 ? state : 0;
}

/*
 * Whether a thread is a zombie, which it can be for ever: a main thread, or one that is
 * traced. What it started is seen when its process is looked at again, so it must be a
 * zombie both times.
 */
bool target_process__has_zombie(struct target_process *process, pid_t tid)
{
	int thread = open_task(process->dir, "task", tid);
	bool had_zombie = process->had_zombie;
	pid_t parent;
	char state = thread < 0 ? 0 : task_state(thread, &parent);

	if (thread >= 0)
		close(thread);
	if (state != 'Z')
		return false;
	process->had_zombie = true;
	return had_zombie;
}

/* The number of threads, or 0 if it is gone; the directory has a link for each. */
static nlink_t target_process__nr_threads(struct target_process *process)
{
	struct stat st;

	return fstatat(process->dir, "task", &st, 0) ? 0 : st.st_nlink - 2;
}

/* A main thread that exits before the others is a zombie until they have. */
bool target_process__has_ended(struct target_process *process)
{
	pid_t parent;
	char state = task_state(process->dir, &parent);

	return !state || (state == 'Z' && target_process__nr_threads(process) <= 1);
}

/*
 * Returns 1 if it is a child of a listed process and was added, 0 if not, or a negative error.
 * The parent is checked after its child named it: if it exists, its pid was not reused.
 */
static int target_processes__add_child(struct target_processes *processes, pid_t pid)
{
	struct target_process process = { .pid = pid };
	pid_t parent;
	char state;

	if (target_processes__find(processes, pid))
		return 0;

	process.dir = open_task(AT_FDCWD, "/proc", pid);
	if (process.dir < 0)
		return process.dir == -ESRCH ? 0 : process.dir;
	state = task_state(process.dir, &parent);
	if (!state || !target_processes__find(processes, parent)) {
		close(process.dir);
		return 0;
	}
	process.zombie = target_process__has_ended(&process);
	return target_processes__append(processes, &process) ?: 1;
}

/* Returns how many children were found, or a negative error. */
int target_processes__add_children(struct target_processes *processes)
{
	int ret = 0, found = 0, nr;
	u32 *pids;

	nr = persistent__read_numbers(AT_FDCWD, "/proc", &pids);
	if (nr < 0)
		return nr;

	for (int i = 0; i < nr && ret >= 0; i++) {
		ret = target_processes__add_child(processes, pids[i]);
		found += ret;
	}
	free(pids);
	return ret < 0 ? ret : found;
}

/*
 * Returns the number of threads, 0 if the process has gone, or a negative error. Reading
 * the directory ends early at a thread that is exiting, so threads may be missing.
 */
int target_process__threads(struct target_process *process, u32 **tids)
{
	int nr = persistent__read_numbers(process->dir, "task", tids);

	if (nr < 0)
		return nr == -ENOENT || nr == -ESRCH ? 0 : nr;
	if (!nr)
		zfree(tids);

	process->complete = target_process__nr_threads(process) == (nlink_t)nr;
	return nr;
}

/*
 * Find the inode of a thread's /proc directory: another thread that reuses its pid has
 * another one. Returns 0, or a negative error: -ESRCH if the thread has gone.
 */
static int target_process__find_thread(struct target_process *process, pid_t tid, ino_t *dir)
{
	struct stat st;
	char path[32];

	snprintf(path, sizeof(path), "task/%d", tid);
	if (fstatat(process->dir, path, &st, 0))
		return errno == ENOENT ? -ESRCH : -errno;
	*dir = st.st_ino;
	return 0;
}

void target_processes__exit(struct target_processes *processes)
{
	for (int i = 0; i < processes->nr; i++)
		close(processes->list[i].dir);
	zfree(&processes->list);
	processes->nr = 0;
}

struct task_event {
	struct perf_persistent_info	info;
	struct perf_event_attr		attr;
	char				*filter;
	u32				flags;
	u32				pages;
	bool				disabled;
	int				leader;
	int				buffer;
	int				output;
	int				fd;
};

/* As in the session, the leader is the last one before the event on the same CPU. */
static int task_events__find_leader(struct task_events *events, int nr)
{
	struct task_event *event = &events->list[nr];

	if (!(event->flags & PERF_PERSISTENT_GROUP_SIBLING))
		return -1;

	while (nr--) {
		struct task_event *leader = &events->list[nr];

		if (leader->flags & PERF_PERSISTENT_GROUP_LEADER &&
		    leader->info.cpu == event->info.cpu)
			break;
	}
	return nr;
}

static int task_events__find_buffer(struct task_events *events, int nr)
{
	u64 id = events->list[nr].info.buffer_id;

	if (!events->list[nr].pages)
		return -1;

	for (int i = 0; i < nr; i++) {
		if (events->list[i].info.buffer_id == id)
			return i;
	}
	return nr;
}

static int task_events__fill(struct task_events *events, int nr)
{
	struct task_event *event = &events->list[nr];
	struct persistent_answer answer;
	int err = persistent__ask(events->id, event->info.instance, &answer);

	/* A truncated filter is another filter. */
	if (!err && answer.query.filter_size > sizeof(answer.filter))
		err = -E2BIG;
	if (err)
		return err;

	event->attr = answer.attr;
	event->flags = answer.query.flags;
	event->pages = answer.query.buffer_pages;
	event->leader = task_events__find_leader(events, nr);
	event->buffer = task_events__find_buffer(events, nr);
	event->output = -1;
	event->fd = -1;
	if (answer.filter[0])
		event->filter = strdup(answer.filter);
	return answer.filter[0] && !event->filter ? -ENOMEM : 0;
}

static int info__cmp(const void *a, const void *b)
{
	const struct perf_persistent_info *l = a, *r = b;

	return (int)l->member - (int)r->member ?: l->cpu - r->cpu ?:
	       (int)l->instance - (int)r->instance;
}

/*
 * Disable the events of a member if those of other tasks are disabled, on any CPU: the state of
 * those on a CPU that is offline does not tell. If all of these tasks have ended, enable them:
 * the others were enabled then, or nobody would add to them. Returns -EBUSY if the member is
 * held, which does not tell, either.
 */
static int member__is_disabled(const struct perf_persistent_info *infos, int nr)
{
	bool disabled = false, held = false;

	for (int i = 0; i < nr && infos[i].member == infos->member; i++) {
		if (infos[i].state == PERF_PERSISTENT_STATE_ENABLED)
			return false;
		disabled |= infos[i].state == PERF_PERSISTENT_STATE_DISABLED;
		held |= infos[i].state == PERF_PERSISTENT_STATE_HELD;
	}
	return held ? -EBUSY : disabled;
}

/* Returns 0, -EINVAL for a session without tasks, -EBUSY if it is held, or another error. */
int task_events__init(struct task_events *events, u32 id)
{
	struct perf_persistent_query query;
	struct perf_persistent_info *infos;
	int err = 0, disabled = 0, nr = persistent__instances(id, &query, &infos);

	*events = (struct task_events) { .id = id };
	if (nr < 0)
		return nr;

	qsort(infos, nr, sizeof(*infos), info__cmp);
	events->list = calloc(nr, sizeof(*events->list));
	events->measured = intlist__new(NULL);
	if (!events->list || !events->measured)
		err = -ENOMEM;

	for (int i = 0; i < nr && !err; i++) {
		struct task_event *event = &events->list[events->nr];

		if (!i || infos[i].member != infos[i - 1].member)
			disabled = member__is_disabled(&infos[i], nr - i);
		if (infos[i].pid == -1 || (events->nr && event[-1].info.cpu == infos[i].cpu &&
					   event[-1].info.member == infos[i].member))
			continue;
		event->info = infos[i];
		event->disabled = disabled;
		err = disabled < 0 ? disabled : task_events__fill(events, events->nr++);
	}
	free(infos);
	return err ?: events->nr ? 0 : -EINVAL;
}

bool task_events__are_inherited(struct task_events *events)
{
	for (int i = 0; i < events->nr; i++) {
		if (!events->list[i].attr.inherit || events->list[i].attr.inherit_thread)
			return false;
	}
	return true;
}

/* The kernel does not disclose the addresses of breakpoints and probes. */
bool task_events__have_addresses(struct task_events *events)
{
	for (int i = 0; i < events->nr; i++) {
		u32 type = events->list[i].attr.type;
		struct perf_pmu *pmu = perf_pmus__find_by_type(type);

		if (type == PERF_TYPE_BREAKPOINT ||
		    (pmu && (!strcmp(pmu->name, "kprobe") || !strcmp(pmu->name, "uprobe"))))
			return true;
	}
	return false;
}

static int task_event__open(struct task_events *events, struct task_event *event, pid_t tid)
{
	int leader_fd = event->leader < 0 ? -1 : events->list[event->leader].fd;

	event->fd = sys_perf_event_open(&event->attr, tid, event->info.cpu, leader_fd,
					PERF_FLAG_FD_CLOEXEC);
	if (event->fd >= 0 && event->filter &&
	    ioctl(event->fd, PERF_EVENT_IOC_SET_FILTER, event->filter) < 0)
		return -errno;
	if (event->fd >= 0)
		return TASK_ADDED;

	/*
	 * A task may have swapped contexts with its child, which has the leader then. With the
	 * task, the leader has ended.
	 */
	if (errno == ESRCH || (errno == EINVAL && leader_fd >= 0 && event->attr.inherit) ||
	    (errno == ENODEV && leader_fd >= 0)) {
		events->again = errno;
		return TASK_AGAIN;
	}
	return -errno;
}

/*
 * Threads on the same CPU share buffers, as in a session that is started. An event that
 * follows its thread from CPU to CPU has a buffer per thread.
 */
static int task_event__buffer_owner(struct task_events *events, struct task_event *event)
{
	struct task_event *first;

	if (event->buffer < 0)
		return -1;
	first = &events->list[event->buffer];
	if (event->info.cpu >= 0)
		return first->output;
	return first == event ? -1 : first->fd;
}

static int task_event__detach(struct task_events *events, struct task_event *event)
{
	int owner = task_event__buffer_owner(events, event);
	struct perf_event_detach detach = {
		.id	      = events->id,
		.member	      = event->info.member,
		.buffer_pages = owner < 0 ? event->pages : 0,
	};
	int *fds;

	if (owner >= 0 && ioctl(event->fd, PERF_EVENT_IOC_SET_OUTPUT, owner) < 0)
		return -errno;

	fds = realloc(events->fds, (events->nr_fds + 1) * sizeof(*fds));
	if (!fds)
		return -ENOMEM;
	events->fds = fds;

	if (ioctl(event->fd, PERF_EVENT_IOC_DETACH, &detach) < 0) {
		if (errno != EEXIST && errno != EBUSY)
			return -errno;
		events->again = errno;
		/* A child has the event already and inherited this one, which is removed now. */
		return errno == EBUSY ? TASK_AGAIN : TASK_TRACKED;
	}

	fds[events->nr_fds++] = event->fd;
	if (event->buffer >= 0 && owner < 0)
		events->list[event->buffer].output = event->fd;
	return TASK_ADDED;
}

/*
 * In reverse order: side-band first, and siblings before their leader. The kernel wants the
 * attr of the other instances, so one that is to be disabled may have been opened enabled.
 */
static int task_events__enable(struct task_events *events)
{
	for (int i = events->nr - 1; i >= 0; i--) {
		struct task_event *event = &events->list[i];

		if (event->fd >= 0 && ioctl(event->fd, event->disabled ? PERF_EVENT_IOC_DISABLE :
								PERF_EVENT_IOC_ENABLE, 0) < 0)
			return -errno;
	}
	return 0;
}

static void task_event__close(struct task_event *event)
{
	if (event->fd >= 0)
		close(event->fd);
	event->fd = -1;
}

/*
 * A thread may end, and its pid be reused, before its events are opened. If its directory is
 * the same before and after that, it had the pid all the time.
 */
static int task_events__open(struct task_events *events, struct target_process *process,
			     pid_t tid, ino_t *dir)
{
	int ret = target_process__find_thread(process, tid, dir);
	ino_t after;

	for (int i = 0; i < events->nr; i++)
		events->list[i].fd = -1;
	events->again = 0;
	if (ret)
		return ret == -ESRCH ? TASK_AGAIN : ret;
	if (intlist__has_entry(events->measured, *dir))
		return TASK_TRACKED;

	ret = TASK_ADDED;
	for (int i = 0; i < events->nr && ret == TASK_ADDED; i++)
		ret = task_event__open(events, &events->list[i], tid);
	if (target_process__find_thread(process, tid, &after) || after != *dir) {
		events->again = 0;
		ret = TASK_AGAIN;
	}
	return ret;
}

/*
 * Returns an enum task_result or a negative error. All events are opened before the
 * first one joins, so that a thread that ends meanwhile leaves nothing.
 */
int task_events__add(struct task_events *events, struct target_process *process, pid_t tid)
{
	ino_t dir = 0;
	int err, i = 0, ret = task_events__open(events, process, tid, &dir), result = TASK_TRACKED;

	for (; i < events->nr && ret == TASK_ADDED; i++) {
		int one = task_event__detach(events, &events->list[i]);

		if (one < 0 || one == TASK_AGAIN) {
			ret = one;
			break;
		}
		if (one == TASK_ADDED)
			result = TASK_ADDED;
		else
			task_event__close(&events->list[i]);
	}
	/* Keep joined events open until all is done. */
	for (; i < events->nr; i++)
		task_event__close(&events->list[i]);
	err = task_events__enable(events);
	if (ret < 0 || ret == TASK_AGAIN)
		return ret;
	if (!err && !intlist__findnew(events->measured, dir))
		err = -ENOMEM;
	return err ?: result;
}

/* Take out all that was added, siblings before their leaders. */
void task_events__undo(struct task_events *events)
{
	for (int i = events->nr_fds - 1; i >= 0; i--)
		ioctl(events->fds[i], PERF_EVENT_IOC_ATTACH, 0);
}

void task_events__exit(struct task_events *events)
{
	for (int i = 0; i < events->nr_fds; i++)
		close(events->fds[i]);
	for (int i = 0; i < events->nr; i++)
		zfree(&events->list[i].filter);
	zfree(&events->list);
	zfree(&events->fds);
	intlist__delete(events->measured);
}
