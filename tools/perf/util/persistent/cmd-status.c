// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent status: print whether a session runs, whether its buffers are full, what
 * was lost since the caller last asked, and the state of its log: all that
 * posix_trace_get_status(3p) tells of a trace stream.
 */
#include "cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/ring_buffer.h>
#include <linux/string.h>
#include <linux/zalloc.h>
#include <subcmd/parse-options.h>
#include <sys/stat.h>
#include "debug.h"
#include "info.h"
#include "json.h"
#include "log.h"
#include "reader.h"
#include "registry.h"

#define STATE_MAGIC	"perf-persistent-status 1"

static const char *status_log, *status_state;
static bool status_json;

/*
 * @nr_buffers: number of buffers for samples; all but @nr_overwrite of them can be full
 * @lost:	samples lost since the session was started, including those before a clear
 * @asked:	how many of @lost the caller knows of already
 * @new_state:	of --state, once the status is printed
 */
struct persistent_status {
	u32				id;
	char				name[PERF_PERSISTENT_NAME_MAX];
	char				state[64];
	bool				running;
	int				nr_buffers;
	int				nr_overwrite;
	int				nr_full;
	u64				lost;
	u64				asked;
	char				new_state[128];
	mode_t				state_mode;
	struct persistent_log		log;
};

/* Ignore side-band: it names tasks, and its losses are not samples. */
static void status__count(struct persistent_status *status, struct persistent_info *info)
{
	int nr = persistent_info__sort_side_band(info);
	u32 nrs[PERSISTENT_STATES];

	for (int i = 0; i < nr; i++)
		status->lost += info->instances[i].lost + info->instances[i].lost_before;
	persistent__count_states(info->instances, nr, nrs);
	status->running = nrs[PERF_PERSISTENT_STATE_ENABLED];
	persistent__scnprintf_state(status->state, sizeof(status->state), &info->query,
				    info->instances, nr);
}

/*
 * A buffer is full if the kernel has no room for another record as long as the longest
 * that it holds. Only the consumer makes room, so a buffer that has dropped such a record
 * is full until it is read. The kernel leaves a byte free.
 */
static bool persistent_buffer__is_full(struct persistent_buffer *buffer)
{
	u64 used = ring_buffer_read_head(buffer->base) - READ_ONCE(buffer->base->data_tail);
	u64 longest = 0;

	persistent_buffer__for_each(buffer, event)
		longest = max_t(u64, longest, event->header.size);
	return longest && used + longest >= buffer->size;
}

static int status__look_into(struct persistent_status *status, struct persistent_reader *reader)
{
	persistent_reader__for_each(reader, buffer) {
		int err;

		if (buffer->side_band)
			continue;
		status->nr_buffers++;
		if (buffer->backward) {
			status->nr_overwrite++;
			continue;
		}
		/* Data that was cleared or is of dropped targets takes up room, too. */
		buffer->cursor = READ_ONCE(buffer->base->data_tail);
		buffer->in_part = false;
		err = persistent_buffer__read(buffer);
		if (err)
			return err;
		status->nr_full += persistent_buffer__is_full(buffer);
		/* There may be many, and large ones. */
		zfree(&buffer->data);
	}
	return 0;
}

static int status__ask_buffers(struct persistent_status *status)
{
	struct persistent_reader reader = {};
	int err;

	if (!persistent__number(status->id, "buffer_bytes"))
		return 0;

	err = persistent_reader__open(&reader, status->id) ?:
	      status__look_into(status, &reader);
	persistent_reader__close(&reader);
	return err;
}

static int status__state_error(const char *path, const char *what)
{
	pr_err("--state %s: %s\n", path, what);
	return -EINVAL;
}

/* An empty file, or one of another session, means that the caller asks for the first time. */
static int status__ask_state(struct persistent_status *status, const char *path,
			     const char *session)
{
	char text[128] = "", of[64] = "";
	int nr, err, fd = persistent_file__open(path, O_RDWR | O_CREAT, 0666);
	struct stat st;

	if (fd == -ENOENT)
		return status__state_error(path, strerror(ENOENT));
	if (fd < 0)
		return fd;
	err = read(fd, text, sizeof(text) - 1) < 0 || fstat(fd, &st) ? -errno : 0;
	close(fd);
	if (err)
		return status__state_error(path, strerror(-err));

	nr = sscanf(text, STATE_MAGIC "\nsession %63s\nlost %" SCNu64, of, &status->asked);
	if (st.st_size && nr != 2)
		return status__state_error(path, "not a file of perf persistent status");
	if (strcmp(of, session))
		status->asked = 0;

	/* The file may be of another user: take no set-user-ID from it. */
	status->state_mode = st.st_mode & 0666;
	snprintf(status->new_state, sizeof(status->new_state),
		 STATE_MAGIC "\nsession %s\nlost %" PRIu64 "\n", session, status->lost);
	return 0;
}

/* Keep others from reporting the same losses, and from replacing the file at the same time. */
static int status__lock_state(const char *path)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd;

	while ((fd = open(path, O_RDWR | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666)) >= 0 &&
	       !fcntl(fd, F_OFD_SETLKW, &lock) && !persistent_file__is_there(fd, path))
		close(fd);
	return fd;
}

/* Losses that could not be printed are reported again. */
static int status__store_state(const struct persistent_status *status, const char *path)
{
	int err;

	if (fflush(stdout) || ferror(stdout)) {
		pr_err("cannot print the status: %s\n", strerror(errno));
		return -EIO;
	}
	err = persistent_file__replace(path, status->new_state, status->state_mode);
	return err ? status__state_error(path, strerror(-err)) : 0;
}

/* Locks the state if the session can be read. Returns 0, or a negative error after a message. */
static int status__ask(struct persistent_status *status, u32 id, int *lock)
{
	struct persistent_info info;
	char session[64];
	int err = persistent_info__init(&info, id);

	*status = (struct persistent_status) { .id = id };
	/* Others may lose and report samples before the lock is taken: ask once more after it. */
	if (!err && status_state) {
		persistent_info__exit(&info);
		*lock = status__lock_state(status_state);
		err = persistent_info__init(&info, id);
	}
	if (err)
		return persistent__error("read", id, info.name, 'r', err);
	snprintf(status->name, sizeof(status->name), "%s", info.name);
	status__count(status, &info);
	persistent_info__exit(&info);

	err = status__ask_buffers(status);
	if (!err && (status_log || status_state))
		err = persistent_log__session(id, session, sizeof(session));
	if (!err && status_log)
		err = persistent_log__status(&status->log, status_log, session);
	if (!err && status_state)
		err = status__ask_state(status, status_state, session);
	/* Instances that left the session took their losses with them. */
	status->asked = min(status->asked, status->lost);
	return err;
}

static void status__print_log(const struct persistent_log *log)
{
	const u64 *values = log->values;
	char buf[STRERR_BUFSIZE];

	printf("  log:          %s, %.3f MB\n", log->path, log->size / 1024.0 / 1024.0);
	printf("  flush:        %s\n", log->locked ? "in progress" : "not in progress");
	printf("  flush error:  %s\n",
	       values[LOG_ERROR] ? str_error_r(values[LOG_ERROR], buf, sizeof(buf)) : "none");
	printf("  log full:     %s\n", values[LOG_FULL] ? "yes" : "no");
	if (values[LOG_MISSING])
		printf("  log overrun:  yes, %" PRIu64 " samples missing\n", values[LOG_MISSING]);
	else
		printf("  log overrun:  no\n");
}

static void status__print(const struct persistent_status *status)
{
	u64 lost = status->lost - status->asked;

	printf("%s, id %u:\n", status->name, status->id);
	printf("  state:        %s\n", status->state);
	if (status->nr_full)
		printf("  full:         yes, %d of %d buffers\n", status->nr_full,
		       status->nr_buffers);
	else if (!status->nr_buffers)
		printf("  full:         no, it has no buffers\n");
	else if (status->nr_overwrite == status->nr_buffers)
		printf("  full:         no, it overwrites the oldest records\n");
	else
		printf("  full:         no\n");
	if (lost)
		printf("  overrun:      yes, %" PRIu64 " samples lost\n", lost);
	else
		printf("  overrun:      no\n");
	if (status_log)
		status__print_log(&status->log);
}

static void json__status(struct json_out *out, const struct persistent_status *status)
{
	const u64 *values = status->log.values;
	char buf[STRERR_BUFSIZE];

	json_out__begin(out, NULL, '{');
	json_out__string(out, "name", status->name);
	json_out__number(out, "id", status->id);
	json_out__string(out, "state", status->state);
	json_out__bool(out, "running", status->running);
	json_out__bool(out, "full", status->nr_full);
	json_out__number(out, "full-buffers", status->nr_full);
	json_out__number(out, "buffers", status->nr_buffers);
	json_out__bool(out, "overrun", status->lost != status->asked);
	json_out__number(out, "overrun-lost", status->lost - status->asked);
	json_out__number(out, "lost", status->lost);
	if (status_log) {
		json_out__string(out, "log", status_log);
		json_out__number(out, "log-bytes", status->log.size);
		json_out__bool(out, "flushing", status->log.locked);
		if (values[LOG_ERROR])
			json_out__string(out, "flush-error",
					 str_error_r(values[LOG_ERROR], buf, sizeof(buf)));
		json_out__bool(out, "log-full", values[LOG_FULL]);
		json_out__bool(out, "log-overrun", values[LOG_MISSING]);
		json_out__number(out, "log-lost", values[LOG_MISSING]);
	}
	json_out__end(out, '}');
}

static int status__run(int argc, const char **argv)
{
	struct json_out out = { .fp = stdout };
	struct persistent_status status;
	u32 *ids;
	int lock = -1, err, nr = persistent__choose(argc, argv, &ids, &err);

	if (nr < 0)
		return nr;

	if (status_json)
		json_out__begin(&out, NULL, '[');
	for (int i = 0; i < nr; i++) {
		int ret = status__ask(&status, ids[i], &lock);

		err = ret ?: err;
		if (ret)
			continue;
		if (status_json)
			json__status(&out, &status);
		else
			status__print(&status);
	}
	if (status_json)
		json_out__end(&out, ']');
	free(ids);
	if (!err && status_state)
		err = status__store_state(&status, status_state);
	if (lock >= 0)
		close(lock);
	return err;
}

int persistent_cmd__status(int argc, const char **argv, const char * const usage[])
{
	const struct option options[] = {
		OPT_STRING('i', "input", &status_log, "log", "the log of the session"),
		OPT_STRING(0, "state", &status_state, "file",
			   "report losses since the last status with this file"),
		OPT_BOOLEAN('j', "json", &status_json, "print JSON"),
		OPT_END()
	};

	argc = parse_options(argc, argv, options, usage, 0);
	if (!argc)
		usage_with_options_msg(usage, options, "name a session");
	if (argc > 1 && (status_log || status_state)) {
		pr_err("%s can only be used with one session\n", status_log ? "-i" : "--state");
		return -EINVAL;
	}
	return status__run(argc, argv);
}
