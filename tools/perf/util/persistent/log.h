/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_LOG_H
#define __PERF_PERSISTENT_LOG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>
#include <sys/types.h>

/*
 * A number that the log remembers for each id: up to where a buffer was written to it, or
 * how many records of an event were lost by then
 */
struct persistent_log_mark {
	char	what;
	u64	id;
	u64	value;
};

#define LOG_POSITION	'p'
#define LOG_LOST	'l'

/*
 * Other numbers: when the log was begun, the error of the last flush, whether the log is
 * full, how many lost samples it lacks, and how many samples it has
 */
enum persistent_log_value {
	LOG_BEGUN, LOG_ERROR, LOG_FULL, LOG_MISSING, LOG_SAMPLES, LOG_VALUES,
};

/* How many rotated logs to keep */
#define LOG_KEEP_ALL	UINT_MAX

/*
 * A file that one process after the other appends to. Its content is complete up to @size;
 * the rest is from a process that was killed, and is truncated. PATH.pos holds that size,
 * and how far the session has been read.
 *
 * @locked: another process appends to it
 */
struct persistent_log {
	const char			*path;
	char				pos_path[PATH_MAX + 16];
	int				fd;
	bool				locked;
	u64				size;
	char				session[64];
	u64				values[LOG_VALUES];
	struct persistent_log_mark	*marks;
	int				nr_marks;
};

int persistent_file__open(const char *path, int flags, mode_t mode);
bool persistent_file__is_there(int fd, const char *path);
int persistent_file__replace(const char *path, const char *text, mode_t mode);
int persistent_log__session(u32 id, char *buf, size_t size);
int persistent_log__open(struct persistent_log *log, const char *path);
int persistent_log__set_session(struct persistent_log *log, const char *session);
u64 *persistent_log__mark(struct persistent_log *log, char what, u64 id);
int persistent_log__note(struct persistent_log *log, enum persistent_log_value what, u64 value);
int persistent_log__commit(struct persistent_log *log);
int persistent_log__rotate(struct persistent_log *log, unsigned int keep);
u64 persistent_log__age(struct persistent_log *log);
int persistent_log__cut_back(struct persistent_log *log);
void persistent_log__close(struct persistent_log *log);
int persistent_log__status(struct persistent_log *log, const char *path, const char *session);

#endif /* __PERF_PERSISTENT_LOG_H */
