/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_TARGETS_H
#define __PERF_PERSISTENT_TARGETS_H

#include <stdbool.h>
#include <sys/types.h>
#include <linux/types.h>

struct intlist;

/*
 * A process, identified by its open directory in /proc, which does not become that
 * of another process when the pid is reused.
 *
 * @zombie:	it had ended when it was found
 * @had_zombie: one of its threads was a zombie in an earlier pass
 * @settled:	a pass found all of its threads measured already
 * @searched:	after that, it was there when its children had been looked for
 */
struct target_process {
	pid_t	pid;
	int	dir;
	bool	named;
	bool	zombie;
	bool	had_zombie;
	bool	tracked;
	bool	added;
	bool	complete;
	bool	settled;
	bool	searched;
};

struct target_processes {
	struct target_process	*list;
	int			nr;
};

bool target_processes__has(struct target_processes *processes, pid_t pid);
int target_processes__add(struct target_processes *processes, pid_t pid);
int target_processes__add_children(struct target_processes *processes);
void target_processes__exit(struct target_processes *processes);
bool target_process__has_zombie(struct target_process *process, pid_t tid);
bool target_process__has_ended(struct target_process *process);
int target_process__threads(struct target_process *process, u32 **tids);

/*
 * An event that each task of a session has: of a member, on one CPU or on all.
 * If there is none, @leader and @buffer are -1, and @filter is NULL.
 *
 * @leader: index of the event that leads its group
 * @buffer: index of the event that brings the buffer, which can be itself
 * @output: file of the event that brought it for other threads on the same CPU, or -1
 * @fd:     file of the thread that is being added, or -1
 */
struct task_event;

/*
 * @measured: inode numbers of the /proc directories of threads that have the events, so that
 *	      a second pass does not open them again; a thread that reuses a tid has another one
 * @again:    errno of the last TASK_AGAIN, or 0 if the thread has gone
 */
struct task_events {
	u32			id;
	struct task_event	*list;
	int			nr;
	int			*fds;
	int			nr_fds;
	struct intlist		*measured;
	int			again;
};

enum task_result {
	TASK_TRACKED,	/* measured already */
	TASK_ADDED,
	TASK_AGAIN,	/* it has gone, or changed meanwhile */
};

int task_events__init(struct task_events *events, u32 id);
bool task_events__are_inherited(struct task_events *events);
bool task_events__have_addresses(struct task_events *events);
int task_events__add(struct task_events *events, struct target_process *process, pid_t tid);
void task_events__undo(struct task_events *events);
void task_events__exit(struct task_events *events);

#endif /* __PERF_PERSISTENT_TARGETS_H */
