// SPDX-License-Identifier: GPL-2.0
/*
 * A log that is appended to, so that whoever does it may be killed at any time.
 *
 * First the records are written and synced, then PATH.pos is replaced by one with
 * the new size and positions, and only then is the room in the buffers given back.
 * Killed before the second step, the log is cut back and the records are read once
 * more; killed after it, they are not read again.
 */
#include "persistent-log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>
#include <sys/file.h>
#include <sys/stat.h>
#include "debug.h"

#define LOG_MAGIC	"perf-persistent-log 1"

static int persistent_log__error(struct persistent_log *log, const char *what, int err)
{
	pr_err("%s %s: %s\n", what, log->path, strerror(err));
	return -err;
}

/* Events, buffers and positions have the same numbers again in another boot. */
int persistent_log__set_recording(struct persistent_log *log, const char *recording)
{
	if (log->size && strcmp(log->recording, recording)) {
		pr_err("%s is of another recording, which has ended: choose another log\n",
		       log->path);
		return -EEXIST;
	}
	snprintf(log->recording, sizeof(log->recording), "%s", recording);
	return 0;
}

/* Returns where the number is kept, 0 if it is new, or NULL without memory. */
u64 *persistent_log__mark(struct persistent_log *log, char what, u64 id)
{
	struct persistent_log_mark *marks;

	for (int i = 0; i < log->nr_marks; i++) {
		if (log->marks[i].what == what && log->marks[i].id == id)
			return &log->marks[i].value;
	}

	marks = realloc(log->marks, (log->nr_marks + 1) * sizeof(*marks));
	if (!marks)
		return NULL;
	log->marks = marks;
	marks[log->nr_marks] = (struct persistent_log_mark) { .what = what, .id = id };
	return &marks[log->nr_marks++].value;
}

static int persistent_log__write_pos(struct persistent_log *log, char *path)
{
	int err = 0, fd = mkstemp(path);
	FILE *file;

	if (fd < 0)
		return -errno;
	file = fdopen(fd, "w");
	if (!file) {
		err = -errno;
		close(fd);
		return err;
	}

	fprintf(file, LOG_MAGIC "\nsize %" PRIu64 "\nrecording %s\n", log->size, log->recording);
	for (int i = 0; i < log->nr_marks; i++)
		fprintf(file, "%c %" PRIu64 " %" PRIu64 "\n", log->marks[i].what,
			log->marks[i].id, log->marks[i].value);
	if (fflush(file) || ferror(file) || fsync(fd))
		err = -(errno ?: EIO);
	if (fclose(file) && !err)
		err = -errno;
	return err;
}

/* A name is not on the disk before its folder is. */
static int persistent_log__sync_folder(struct persistent_log *log)
{
	char *path = strdup(log->path);
	int err = 0, fd;

	if (!path)
		return -ENOMEM;

	fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd))
		err = -errno;
	if (fd >= 0)
		close(fd);
	free(path);
	return err;
}

/* All that was written so far is complete from now on, whatever happens. */
int persistent_log__commit(struct persistent_log *log)
{
	off_t size = lseek(log->fd, 0, SEEK_CUR);
	char *new_pos;
	int err = 0;

	if (size < 0 || fsync(log->fd))
		return persistent_log__error(log, "cannot write", errno);
	if (asprintf(&new_pos, "%s.XXXXXX", log->pos_path) < 0)
		return -ENOMEM;

	log->size = size;
	err = persistent_log__write_pos(log, new_pos);
	if (!err && rename(new_pos, log->pos_path))
		err = -errno;
	if (!err)
		err = persistent_log__sync_folder(log);
	else
		unlink(new_pos);
	free(new_pos);
	return err ? persistent_log__error(log, "cannot write what belongs to", -err) : 0;
}

static int persistent_log__parse(struct persistent_log *log, FILE *file)
{
	u64 id, value, *mark;
	char what;

	if (fscanf(file, LOG_MAGIC "\nsize %" SCNu64 "\nrecording %63s\n", &log->size,
		   log->recording) != 2)
		return -EINVAL;

	while (fscanf(file, "%c %" SCNu64 " %" SCNu64 "\n", &what, &id, &value) == 3) {
		mark = persistent_log__mark(log, what, id);
		if (!mark)
			return -ENOMEM;
		*mark = value;
	}
	return feof(file) ? 0 : -EINVAL;
}

/* Somebody else's would say what is cut off and where the recording is. */
static int persistent_log__check_owner(int fd, const char *path, struct stat *st)
{
	if (fstat(fd, st)) {
		pr_err("cannot read %s: %m\n", path);
		return -errno;
	}
	if (st->st_uid && st->st_uid != geteuid()) {
		pr_err("%s is owned by neither root nor you\n", path);
		return -EPERM;
	}
	return 0;
}

static int persistent_log__begin(struct persistent_log *log, u64 size)
{
	if (size) {
		pr_err("%s is there, and is no log of perf persistent flush: %s is missing\n",
		       log->path, log->pos_path);
		return -EEXIST;
	}
	snprintf(log->recording, sizeof(log->recording), "none");
	return persistent_log__commit(log);
}

static int persistent_log__go_on(struct persistent_log *log, FILE *file, u64 size)
{
	struct stat st;
	int err = persistent_log__check_owner(fileno(file), log->pos_path, &st);

	if (!err)
		err = persistent_log__parse(log, file);
	if (!err && size < log->size)
		err = -EINVAL;
	if (err == -EINVAL)
		pr_err("%s does not belong to %s: move both away\n", log->pos_path, log->path);
	return err;
}

static int persistent_log__read_pos(struct persistent_log *log)
{
	struct stat st;
	int err = persistent_log__check_owner(log->fd, log->path, &st);
	FILE *file;

	if (err)
		return err;

	file = fopen(log->pos_path, "re");
	if (!file && errno == ENOENT)
		return persistent_log__begin(log, st.st_size);
	if (!file)
		return persistent_log__error(log, "cannot read what belongs to", errno);

	err = persistent_log__go_on(log, file, st.st_size);
	fclose(file);
	return err;
}

/* What failed, or was killed, left more than is complete. */
int persistent_log__cut_back(struct persistent_log *log)
{
	if (ftruncate(log->fd, log->size) || lseek(log->fd, log->size, SEEK_SET) < 0)
		return persistent_log__error(log, "cannot cut back", errno);
	return 0;
}

void persistent_log__close(struct persistent_log *log)
{
	if (log->fd >= 0)
		close(log->fd);
	log->fd = -1;
	zfree(&log->pos_path);
	zfree(&log->marks);
}

static int persistent_log__lock(struct persistent_log *log)
{
	if (!flock(log->fd, LOCK_EX | LOCK_NB))
		return 0;
	if (errno != EWOULDBLOCK)
		return persistent_log__error(log, "cannot lock", errno);
	pr_err("another process appends to %s\n", log->path);
	return -EBUSY;
}

int persistent_log__open(struct persistent_log *log, const char *path)
{
	struct stat st;
	int err;

	*log = (struct persistent_log) { .path = path, .fd = -1 };
	if (asprintf(&log->pos_path, "%s.pos", path) < 0) {
		log->pos_path = NULL;
		return -ENOMEM;
	}

	if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
		pr_err("cannot write %s: it is there and is no regular file\n", path);
		return -EINVAL;
	}
	log->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (log->fd < 0)
		return persistent_log__error(log, "cannot write", errno);

	err = persistent_log__lock(log);
	if (!err)
		err = persistent_log__read_pos(log);
	if (!err)
		err = persistent_log__cut_back(log);
	if (err)
		persistent_log__close(log);
	return err;
}
