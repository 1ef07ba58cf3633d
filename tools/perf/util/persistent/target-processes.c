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

bool target_processes__has(struct target_processes *processes, pid_t pid)
{
	for (int i = 0; i < processes->nr; i++) {
		if (processes->list[i].pid == pid)
			return true;
	}
	return false;
}

/* Returns 0 if it is there already or was added, or a negative error: it is gone. */
int target_processes__add(struct target_processes *processes, pid_t pid, bool named)
{
	struct target_process *list;
	char path[32];
	int dir;

	if (target_processes__has(processes, pid))
		return 0;

	list = realloc(processes->list, (processes->nr + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	processes->list = list;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return errno == ENOENT ? -ESRCH : -errno;

	list[processes->nr++] = (struct target_process) {
		.pid   = pid,
		.dir   = dir,
		.named = named,
	};
	return 0;
}

/* What a task is doing, and its parent; 0 if it is gone */
static char task_state(pid_t tid, pid_t *parent)
{
	char path[32], buf[512], state, *end;
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
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
	pid_t parent, *list;

	if (task_state(tid, &parent) != 'Z')
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

/* Returns how many children of the processes were found, or a negative error. */
int target_processes__add_children(struct target_processes *processes)
{
	DIR *proc = opendir("/proc");
	pid_t pid, parent;
	int err, found = 0;

	if (!proc)
		return -errno;

	while ((pid = readdir_pid(proc))) {
		if (target_processes__has(processes, pid) || !task_state(pid, &parent) ||
		    !target_processes__has(processes, parent))
			continue;
		err = target_processes__add(processes, pid, /*named=*/false);
		if (err && err != -ESRCH) {
			found = err;
			break;
		}
		found++;
	}
	closedir(proc);
	return found;
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
