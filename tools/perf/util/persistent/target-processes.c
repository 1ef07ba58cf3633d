// SPDX-License-Identifier: GPL-2.0
/*
 * Processes that become targets of a session: their threads, and their children.
 */
#include "targets.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <linux/zalloc.h>

static DIR *opendirat(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d && fd >= 0)
		close(fd);
	return d;
}

/* Returns the next entry of a folder in /proc that is the number of a task, or 0. */
static pid_t readdir_pid(DIR *d)
{
	struct dirent *entry;

	while ((entry = readdir(d))) {
		if (isdigit(entry->d_name[0]))
			return atoi(entry->d_name);
	}
	return 0;
}

/* The folder of a task that is gone has no entries, also when the number is another's. */
bool target_task__is_there(int dir)
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

/* Returns the folder of a task or a negative error: -ESRCH if it is gone. */
static int open_task(int dir, const char *path)
{
	int fd = openat(dir, path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return fd;
}

static int open_process(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return open_task(AT_FDCWD, path);
}

/* The folder is closed with the process, or now. */
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

/* Returns 0 if it is there already or was added, or a negative error: it is gone. */
int target_processes__add(struct target_processes *processes, pid_t pid)
{
	struct target_process process = { .pid = pid, .named = true };

	if (target_processes__find(processes, pid))
		return 0;
	process.dir = open_process(pid);
	return process.dir < 0 ? process.dir : target_processes__append(processes, &process);
}

/* What the task of a folder is doing, and its parent; 0 if it is gone */
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

	/* The name of the program may have anything in it, also parentheses. */
	buf[len] = '\0';
	end = strrchr(buf, ')');
	return end && sscanf(end, ") %c %d", &state, parent) == 2 ? state : 0;
}

/*
 * Whether a thread has ended and is not waited for, which can take for ever. What it
 * started is seen when its process is looked at once more, so that it has to be so
 * the second time.
 */
bool target_process__has_zombie(struct target_process *process, pid_t tid)
{
	int thread = target_process__open_thread(process, tid);
	pid_t parent, *list;
	char state = thread < 0 ? 0 : task_state(thread, &parent);

	if (thread >= 0)
		close(thread);
	if (state != 'Z')
		return false;

	for (int i = 0; i < process->nr_zombies; i++) {
		if (process->zombies[i] == tid)
			return true;
	}
	list = realloc(process->zombies, (process->nr_zombies + 1) * sizeof(*list));
	if (list) {
		process->zombies = list;
		list[process->nr_zombies++] = tid;
	}
	return false;
}

bool target_process__has_ended(struct target_process *process)
{
	pid_t parent;
	char state = task_state(process->dir, &parent);

	return !state || state == 'Z';
}

/*
 * Returns 1 if it is a child of one of them and was added, 0, or a negative error. The
 * parent is looked for after its child named it: if it is there, the number is not another's.
 */
static int target_processes__add_child(struct target_processes *processes, pid_t pid)
{
	struct target_process process = { .pid = pid };
	pid_t parent;
	char state;

	if (target_processes__find(processes, pid))
		return 0;

	process.dir = open_process(pid);
	if (process.dir < 0)
		return process.dir == -ESRCH ? 0 : process.dir;
	state = task_state(process.dir, &parent);
	if (!state || !target_processes__find(processes, parent)) {
		close(process.dir);
		return 0;
	}
	process.zombie = state == 'Z';
	return target_processes__append(processes, &process) ?: 1;
}

/* Returns how many children of the processes were found, or a negative error. */
int target_processes__add_children(struct target_processes *processes)
{
	DIR *proc = opendir("/proc");
	int ret = 0, found = 0;
	pid_t pid;

	if (!proc)
		return -errno;

	while (ret >= 0 && (pid = readdir_pid(proc))) {
		ret = target_processes__add_child(processes, pid);
		found += ret;
	}
	closedir(proc);
	return ret < 0 ? ret : found;
}

/* Returns the folder of a thread or a negative error: -ESRCH if it is none of the process. */
int target_process__open_thread(struct target_process *process, pid_t tid)
{
	char path[32];

	snprintf(path, sizeof(path), "task/%d", tid);
	return open_task(process->dir, path);
}

/*
 * Returns how many threads it has now, 0 if it is gone, or a negative error. Reading the
 * folder ends early at a thread that is just ending, so that threads may be missing; if
 * there are as many as the folder has, none is.
 */
int target_process__threads(struct target_process *process, pid_t **tids)
{
	DIR *task = opendirat(process->dir, "task");
	pid_t tid, *tmp;
	struct stat st;
	int nr = 0;

	*tids = NULL;
	if (!task)
		return errno == ENOENT || errno == ESRCH ? 0 : -errno;

	while ((tid = readdir_pid(task))) {
		tmp = realloc(*tids, (nr + 1) * sizeof(tid));
		if (!tmp) {
			nr = -ENOMEM;
			zfree(tids);
			break;
		}
		tmp[nr++] = tid;
		*tids = tmp;
	}
	process->complete = !fstat(dirfd(task), &st) && st.st_nlink == (nlink_t)nr + 2;
	closedir(task);
	return nr;
}

void target_processes__exit(struct target_processes *processes)
{
	for (int i = 0; i < processes->nr; i++) {
		close(processes->list[i].dir);
		free(processes->list[i].zombies);
	}
	zfree(&processes->list);
	processes->nr = 0;
}
