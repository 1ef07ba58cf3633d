// SPDX-License-Identifier: GPL-2.0
/*
 * A log that is appended to by processes that may be killed at any time.
 *
 * First the records are written and synced, then PATH.pos is replaced by one with the new
 * size and positions, and only then is the room in the buffers given back. After a kill
 * before the second step, the log is truncated and the records are read once more; after a
 * later kill, they are not read again.
 *
 * PATH.pos stays when the log is renamed, by perf or by others: if PATH is missing or
 * empty, a new log begins at the positions in PATH.pos. So nothing is written to a new log
 * before PATH.pos has its size, 0.
 */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/time64.h>
#include <linux/zalloc.h>
#include <api/fs/fs.h>
#include <internal/lib.h>
#include <sys/stat.h>
#include "debug.h"
#include "registry.h"
#include "strbuf.h"

#define LOG_MAGIC	"perf-persistent-log 1"

/* Letters of enum persistent_log_value in PATH.pos */
static const char log_values[] = "befms";

/* PATH with a suffix */
#define LOG_PATH_SIZE	(PATH_MAX + 32)

/*
 * Open a regular file, and refuse anything else at once: opening a FIFO could block for
 * ever. Returns a file descriptor, -ENOENT without a message, or another negative error
 * with one.
 */
int persistent_file__open(const char *path, int flags, mode_t mode)
{
	int err, fd = open(path, flags | O_NONBLOCK | O_CLOEXEC, mode);
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode))
		return fd;
	/* ENXIO: a socket, or a FIFO without a reader */
	if (fd < 0 && errno != ENXIO) {
		err = -errno;
		if (err != -ENOENT)
			pr_err("cannot open %s: %s\n", path, strerror(-err));
		return err;
	}
	pr_err("cannot use %s: not a regular file\n", path);
	if (fd >= 0)
		close(fd);
	return -EINVAL;
}

static int persistent_log__error(struct persistent_log *log, const char *what, int err)
{
	pr_err("%s %s: %s\n", what, log->path, strerror(err));
	return -err;
}

/* Returns the address of the number, which is 0 if it is new, or NULL without memory. */
u64 *persistent_log__mark(struct persistent_log *log, char what, u64 id)
{
	int from = 0, to = log->nr_marks;
	struct persistent_log_mark *marks;

	/* Sorted by id, the order in which most are added */
	while (from < to) {
		int mid = (from + to) / 2;
		struct persistent_log_mark *mark = &log->marks[mid];

		if (mark->id == id && mark->what == what)
			return &mark->value;
		if (mark->id < id || (mark->id == id && mark->what < what))
			from = mid + 1;
		else
			to = mid;
	}

	marks = realloc(log->marks, (log->nr_marks + 1) * sizeof(*marks));
	if (!marks)
		return NULL;
	log->marks = marks;
	marks += from;
	memmove(marks + 1, marks, (log->nr_marks++ - from) * sizeof(*marks));
	*marks = (struct persistent_log_mark) { .what = what, .id = id };
	return &marks->value;
}

/* Ids and positions start anew with each boot. */
int persistent_log__session(u32 id, char *buf, size_t size)
{
	size_t len;
	char *boot;

	if (procfs__read_str("sys/kernel/random/boot_id", &boot, &len) < 0) {
		pr_err("cannot read the id of this boot: is /proc mounted?\n");
		return -ENOENT;
	}
	snprintf(buf, size, "%.36s.%u", boot, id);
	free(boot);
	return 0;
}

/* Check for a session of this boot, with its id after the dot. */
static bool log_session__goes_on(const char *of, const char *session)
{
	size_t boot = strcspn(session, ".") + 1;
	char name[PERF_PERSISTENT_NAME_MAX];

	return !strncmp(of, session, boot) && persistent__name(atoi(of + boot), name);
}

/* An empty log can be taken over from a session that has ended. */
int persistent_log__set_session(struct persistent_log *log, const char *session)
{
	if (strcmp(log->session, session) &&
	    (log->size || log_session__goes_on(log->session, session))) {
		pr_err("%s belongs to another session, or to a previous boot: choose another log\n",
		       log->path);
		return -EEXIST;
	}
	if (!strcmp(log->session, session))
		return 0;
	snprintf(log->session, sizeof(log->session), "%s", session);
	log->nr_marks = 0;
	memset(log->values, 0, sizeof(log->values));
	log->values[LOG_BEGUN] = time(NULL);
	return 0;
}

/*
 * On failure, the file is unchanged. A process that is killed leaves PATH.new to the next.
 * The caller has a lock that keeps others from replacing it, too.
 */
int persistent_file__replace(const char *path, const char *text, mode_t mode)
{
	char partial[LOG_PATH_SIZE];
	int err = 0, fd;

	snprintf(partial, sizeof(partial), "%s.new", path);
	unlink(partial);
	fd = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (fchmod(fd, mode) || writen(fd, text, strlen(text)) < 0)
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	if (!err && rename(partial, path))
		err = -errno;
	if (err)
		unlink(partial);
	return err;
}

/*
 * All that was written so far is complete from now on. Only the records are synced: after a
 * crash, PATH.pos is of a previous boot, and no use.
 */
int persistent_log__commit(struct persistent_log *log)
{
	off_t size = lseek(log->fd, 0, SEEK_CUR);
	struct strbuf sb = STRBUF_INIT;
	int err;

	if (size < 0 || fsync(log->fd))
		return persistent_log__error(log, "cannot write", errno);

	log->size = size;
	err = strbuf_addf(&sb, LOG_MAGIC "\nsize %" PRIu64 "\nsession %s\n", log->size,
			  log->session);
	for (int i = 0; i < LOG_VALUES && !err; i++)
		err = strbuf_addf(&sb, "%c 0 %" PRIu64 "\n", log_values[i], log->values[i]);
	for (int i = 0; i < log->nr_marks && !err; i++)
		err = strbuf_addf(&sb, "%c %" PRIu64 " %" PRIu64 "\n", log->marks[i].what,
				  log->marks[i].id, log->marks[i].value);
	if (!err)
		err = persistent_file__replace(log->pos_path, sb.buf, 0600);
	strbuf_release(&sb);
	return err ? persistent_log__error(log, "cannot write the state of", -err) : 0;
}

static int persistent_log__parse(struct persistent_log *log, FILE *file)
{
	u64 id, value, *mark;
	const char *letter;
	char what;

	if (fscanf(file, LOG_MAGIC "\nsize %" SCNu64 "\nsession %63s\n", &log->size,
		   log->session) != 2)
		return -EINVAL;

	memset(log->values, 0, sizeof(log->values));
	while (fscanf(file, "%c %" SCNu64 " %" SCNu64 "\n", &what, &id, &value) == 3) {
		letter = memchr(log_values, what, LOG_VALUES);
		mark = letter ? &log->values[letter - log_values] :
				persistent_log__mark(log, what, id);
		if (!mark)
			return -ENOMEM;
		*mark = value;
	}
	return feof(file) ? 0 : -EINVAL;
}

/*
 * Read PATH.pos. Returns errors like persistent_file__open().
 *
 * @size: size of the log; if it is 0, PATH.pos may describe another log
 */
static int persistent_log__load(struct persistent_log *log, u64 size, struct stat *pos)
{
	int err, fd = persistent_file__open(log->pos_path, O_RDONLY, 0);
	FILE *file;

	if (fd < 0)
		return fd;
	file = fdopen(fd, "r");
	if (!file) {
		close(fd);
		return -ENOMEM;
	}
	err = fstat(fd, pos) ? -EINVAL : persistent_log__parse(log, file);
	fclose(file);
	if (!err && size && size < log->size)
		err = -EINVAL;
	if (err == -EINVAL)
		pr_err("%s does not match %s: move both away\n", log->pos_path, log->path);
	return err;
}

/* Do not trust files of others: they say where to truncate and from where to read. */
static int persistent_log__check_owner(const char *path, const struct stat *st)
{
	if (!st->st_uid || st->st_uid == geteuid())
		return 0;
	pr_err("%s is owned by neither root nor you\n", path);
	return -EPERM;
}

/* Take over the positions of the previous log, if there was one. */
static int persistent_log__begin(struct persistent_log *log)
{
	log->values[LOG_BEGUN] = time(NULL);
	log->values[LOG_MISSING] = 0;
	log->values[LOG_SAMPLES] = 0;
	return persistent_log__commit(log);
}

/* In ns; 0 if the clock was set back */
u64 persistent_log__age(struct persistent_log *log)
{
	u64 now = time(NULL), begun = log->values[LOG_BEGUN];

	return begun && now > begun ? (now - begun) * NSEC_PER_SEC : 0;
}

static int persistent_log__read_pos(struct persistent_log *log)
{
	struct stat st, pos;
	int err;

	if (fstat(log->fd, &st))
		return persistent_log__error(log, "cannot read", errno);
	err = persistent_log__check_owner(log->path, &st);
	if (err)
		return err;

	err = persistent_log__load(log, st.st_size, &pos);
	if (err == -ENOENT && st.st_size) {
		pr_err("%s exists, but is not a log of perf persistent flush: %s is missing\n",
		       log->path, log->pos_path);
		return -EEXIST;
	}
	if (err == -ENOENT) {
		snprintf(log->session, sizeof(log->session), "none");
		return persistent_log__begin(log);
	}
	err = err ?: persistent_log__check_owner(log->pos_path, &pos);
	if (!err && !st.st_size && log->size)
		err = persistent_log__begin(log);
	return err;
}

/* Truncate what a flush that failed or was killed left beyond the complete part. */
int persistent_log__cut_back(struct persistent_log *log)
{
	if (ftruncate(log->fd, log->size) || lseek(log->fd, log->size, SEEK_SET) < 0)
		return persistent_log__error(log, "cannot truncate", errno);
	return 0;
}

/* Note the result of a flush that appended nothing in PATH.pos; keep the rest. */
int persistent_log__note(struct persistent_log *log, enum persistent_log_value what, u64 value)
{
	int err;

	if (log->fd < 0)
		return -EBADF;
	log->nr_marks = 0;
	err = persistent_log__read_pos(log) ?: persistent_log__cut_back(log);
	if (err)
		return err;
	log->values[LOG_ERROR] = 0;
	log->values[what] = value;
	return persistent_log__commit(log);
}

void persistent_log__close(struct persistent_log *log)
{
	if (log->fd >= 0)
		close(log->fd);
	log->fd = -1;
	zfree(&log->marks);
}

/* Read-only. PATH may have been moved away, to be followed by a new log. */
int persistent_log__status(struct persistent_log *log, const char *path, const char *session)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct stat st, pos;
	int err;

	*log = (struct persistent_log) {
		.path = path,
		.fd   = persistent_file__open(path, O_RDONLY, 0),
	};
	if (log->fd < 0 && log->fd != -ENOENT)
		return log->fd;

	snprintf(log->pos_path, sizeof(log->pos_path), "%s.pos", path);
	/* Test the lock without taking it. */
	if (log->fd >= 0)
		log->locked = !fcntl(log->fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
	/* A flush may append to it meanwhile: first the state, and then the size. */
	err = persistent_log__load(log, 0, &pos);
	if (!err && log->fd >= 0 && persistent_file__is_there(log->fd, path) &&
	    !fstat(log->fd, &st) && st.st_size && (u64)st.st_size < log->size) {
		pr_err("%s does not match %s: move both away\n", log->pos_path, path);
		err = -EINVAL;
	}
	if (err == -ENOENT)
		persistent_log__error(log, "cannot read the state of", ENOENT);
	if (!err && log->size && strcmp(log->session, session)) {
		pr_err("%s belongs to another session\n", path);
		err = -EINVAL;
	}
	persistent_log__close(log);
	return err;
}

/* A file may have been renamed or replaced between being opened and being locked. */
bool persistent_file__is_there(int fd, const char *path)
{
	struct stat ours, there;

	return !fstat(fd, &ours) && !stat(path, &there) &&
	       ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

static int persistent_log__lock(struct persistent_log *log)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(log->fd, F_OFD_SETLK, &lock)) {
		if (errno != EAGAIN && errno != EACCES)
			return persistent_log__error(log, "cannot lock", errno);
	} else if (persistent_file__is_there(log->fd, log->path)) {
		return 0;
	}
	pr_err("another process is appending to %s\n", log->path);
	return -EBUSY;
}

static int persistent_log__create(struct persistent_log *log)
{
	int err;

	log->fd = persistent_file__open(log->path, O_RDWR | O_CREAT, 0600);
	if (log->fd == -ENOENT)
		return persistent_log__error(log, "cannot write", ENOENT);
	if (log->fd < 0)
		return log->fd;
	err = persistent_log__lock(log);
	if (err) {
		close(log->fd);
		log->fd = -1;
	}
	return err;
}

/* The newest log is PATH itself until it is renamed. */
static const char *persistent_log__path(struct persistent_log *log, unsigned int n,
					char path[LOG_PATH_SIZE])
{
	if (!n)
		return log->path;
	snprintf(path, LOG_PATH_SIZE, "%s.%u", log->path, n);
	return path;
}

/* A rotation that was killed left a gap in the sequence: files beyond it stay. */
static int persistent_log__shift(struct persistent_log *log, unsigned int keep)
{
	char from[LOG_PATH_SIZE], to[LOG_PATH_SIZE];
	unsigned int nr = 1;

	while (nr != keep && !access(persistent_log__path(log, nr, to), F_OK))
		nr++;
	for (; nr; nr--) {
		if (rename(persistent_log__path(log, nr - 1, from),
			   persistent_log__path(log, nr, to)))
			return persistent_log__error(log, "cannot rotate", errno);
	}
	return 0;
}

/*
 * The old log stays locked until there is a new one. A log without samples is not kept: it
 * would push out another one.
 */
int persistent_log__rotate(struct persistent_log *log, unsigned int keep)
{
	int old_fd = log->fd, err;
	char path[LOG_PATH_SIZE];

	if (log->values[LOG_SAMPLES])
		err = persistent_log__shift(log, keep);
	else
		err = unlink(log->path) ? persistent_log__error(log, "cannot rotate", errno) : 0;
	if (err)
		return err;

	err = persistent_log__create(log);
	close(old_fd);
	if (!err)
		err = persistent_log__begin(log);
	/* More logs may have been kept before. */
	while (!err && keep != LOG_KEEP_ALL && !unlink(persistent_log__path(log, keep + 1, path)))
		keep++;
	return err;
}

int persistent_log__open(struct persistent_log *log, const char *path)
{
	int err;

	*log = (struct persistent_log) { .path = path, .fd = -1 };
	snprintf(log->pos_path, sizeof(log->pos_path), "%s.pos", path);
	err = persistent_log__create(log) ?:
	      persistent_log__read_pos(log) ?:
	      persistent_log__cut_back(log);
	if (err)
		persistent_log__close(log);
	return err;
}
