// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's registry of persistent events, as seen by a tool.
 */
#include "registry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <linux/zalloc.h>
#include <sys/ioctl.h>
#include "debug.h"
#include "perf-sys.h"
#include "pmu.h"
#include "utf8.h"
#include "util.h"

/* Most sessions have no more, so that one query is enough. */
#define ROOM_FOR_INSTANCES	256

#define END_TIMEOUT_MSEC	10000

/* Returns the length read without the newline, or a negative error. */
static int persistent__read(const char *file, char *buf, size_t size)
{
	char path[PATH_MAX];
	ssize_t len;
	int fd;

	if (!perf_pmu__pathname_scnprintf(path, sizeof(path), PERSISTENT_PMU, file))
		return -ENOENT;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;

	len = read(fd, buf, size - 1);
	if (len < 0)
		len = -errno;
	close(fd);

	while (len > 0 && isspace(buf[len - 1]))
		len--;
	if (len >= 0)
		buf[len] = '\0';
	return len;
}

/*
 * Read the type and never assume it: without the feature it is that of another PMU, which
 * must not be opened instead.
 */
int persistent__type(void)
{
	static int type;
	char buf[32];
	int err;

	if (type)
		return type;

	err = persistent__read("type", buf, sizeof(buf));
	if (err == -ENOENT) {
		pr_err("this kernel has no persistent events (CONFIG_PERF_EVENTS_PERSISTENT)\n");
		return -EOPNOTSUPP;
	}
	if (err < 0) {
		pr_err("failed to read the sessions from sysfs: %s\n", strerror(-err));
		return err;
	}
	type = atoi(buf);
	return type;
}

/* The kernel's own rule, so that an invalid name never becomes a path */
bool persistent__valid_name(const char *name)
{
	size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");

	return islower(name[0]) && !name[len] && len < PERF_PERSISTENT_NAME_MAX;
}

int persistent__value(u32 id, const char *file, char *buf, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "ids/%u/%s", id, file);
	return persistent__read(path, buf, size);
}

/* Returns 0 if the session has ended, or has no end. */
u64 persistent__number(u32 id, const char *file)
{
	char buf[32];

	return persistent__value(id, file, buf, sizeof(buf)) < 0 ? 0 : strtoull(buf, NULL, 0);
}

/* Returns NULL if the session has ended. */
const char *persistent__name(u32 id, char name[PERF_PERSISTENT_NAME_MAX])
{
	name[0] = '\0';
	return persistent__value(id, "name", name, PERF_PERSISTENT_NAME_MAX) < 0 ? NULL : name;
}

/* Returns false if the session has ended; @name is its id then. */
bool persistent__name_or_id(u32 id, char name[PERF_PERSISTENT_NAME_MAX])
{
	if (persistent__name(id, name))
		return true;
	snprintf(name, PERF_PERSISTENT_NAME_MAX, "%u", id);
	return false;
}

const char *persistent__user(uid_t uid, char *buf, size_t size)
{
	struct passwd *user = getpwuid(uid);

	if (user)
		scnprintf(buf, size, "%s", user->pw_name);
	else
		scnprintf(buf, size, "%u", uid);
	return buf;
}

const char *persistent__group(gid_t gid, char *buf, size_t size)
{
	struct group *group = getgrgid(gid);

	if (group)
		scnprintf(buf, size, "%s", group->gr_name);
	else
		scnprintf(buf, size, "%u", gid);
	return buf;
}

const char *persistent__owner(u32 id, char *buf, size_t size)
{
	return persistent__user(persistent__number(id, "uid"), buf, size);
}

/* As ls -l shows it: rw-r----- */
const char *persistent__mode(u32 mode, char buf[PERSISTENT_MODE_SIZE])
{
	for (int i = 0; i < PERSISTENT_MODE_SIZE - 1; i++)
		buf[i] = mode & (0400 >> i) ? "rwx"[i % 3] : '-';
	buf[PERSISTENT_MODE_SIZE - 1] = '\0';
	return buf;
}

/* The view of an instance has its own count, which begins when it is enabled. */
static int persistent__reopen(u64 config)
{
	int fd, type = persistent__type();
	struct perf_event_attr attr = {
		.type	= type,
		.size	= sizeof(attr),
		.config	= config,
	};

	if (type < 0)
		return type;

	if (!(config & PERF_PERSISTENT_SESSION)) {
		attr.disabled = 1;
		attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	}
	fd = sys_perf_event_open(&attr, -1, -1, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Open the session itself, to query, control or hold it. */
int persistent__open_session(u32 id)
{
	return persistent__reopen(id | PERF_PERSISTENT_SESSION);
}

int persistent__query(int fd, struct perf_persistent_query *query)
{
	return ioctl(fd, PERF_EVENT_IOC_QUERY_PERSISTENT, query) < 0 ? -errno : 0;
}

/* Returns -ESRCH if the session has ended, and -ENOENT if only the instance has left. */
static int persistent__why_gone(u32 id)
{
	struct perf_persistent_query query = {};
	int err, fd = persistent__open_session(id);

	if (fd < 0)
		return fd == -ENOENT ? -ESRCH : fd;
	err = persistent__query(fd, &query);
	close(fd);
	return err ?: -ENOENT;
}

/* If the mode grants the right, the caller lacks the right to open the events. */
static const char *persistent__why_refused(u32 id, char right, char *buf, size_t size)
{
	unsigned int bit = right == 'r' ? 4 : right == 'w' ? 2 : 1, shift = 0, mode;
	char owner[64], name[PERF_PERSISTENT_NAME_MAX];
	gid_t gid = persistent__number(id, "gid");
	bool has;

	if (!persistent__name(id, name))
		return "it has ended";

	/* The bits that apply to the caller */
	if (persistent__number(id, "uid") == geteuid())
		shift = 6;
	else if (gid == getegid() || group_member(gid))
		shift = 3;
	mode = persistent__number(id, "mode");
	has = mode >> shift & (bit == 1 ? 3 : bit);
	persistent__owner(id, owner, sizeof(owner));
	if (has && shift == 6)
		scnprintf(buf, size,
			  "you may no longer open its events (kernel.perf_event_paranoid), or one of its tasks became privileged");
	else if (!has)
		scnprintf(buf, size,
			  "owned by %s; needs CAP_PERFMON, or the right %c, which 'perf persistent set %s --mode %04o' gives",
			  owner, right, name, mode | bit << shift);
	else
		scnprintf(buf, size,
			  "owned by %s; needs CAP_PERFMON, or the right to open its events (kernel.perf_event_paranoid)",
			  owner);
	return buf;
}

/* Why the kernel refuses an action that needs the right r, w or x, and how to get it */
const char *persistent__strerror(u32 id, char right, int err, char *buf, size_t size)
{
	switch (err) {
	case -EACCES:
	case -EPERM:
		return persistent__why_refused(id, right, buf, size);
	case -ENODEV:
	case -ENOENT:
	case -ESRCH:
		return persistent__why_gone(id) == -ENOENT ? "its targets were dropped meanwhile" :
							     "it has ended";
	case -EBUSY:
		return "another process consumes its buffers (flush, perf record --consume)";
	case -EBADMSG:
		return "its consumer left invalid positions or records";
	case -EALREADY:
		return "all its tasks have exited";
	case -EMFILE:
		return "too many open files (ulimit -n)";
	case -ETIMEDOUT:
		return "it has not ended within 10 seconds";
	case -E2BIG:
		return "the filter of an event is longer than 4095 bytes";
	default:
		return str_error_r(-err, buf, size);
	}
}

/* Print why an action that needs a right failed on a session; returns the error. */
int persistent__error(const char *verb, u32 id, const char *name, char right, int err)
{
	char buf[STRERR_BUFSIZE];

	pr_err("cannot %s session '%s': %s\n", verb, name,
	       persistent__strerror(id, right, err, buf, sizeof(buf)));
	return err;
}

int persistent__parse_id(const char *str, u32 *id)
{
	int base = strstarts(str, "0x") ? 16 : 10;

	return persistent__parse_number(str, base, INT_MAX, id) && *id ? 0 : -EINVAL;
}

/* Returns the id of the session with this name, or a negative error. */
int persistent__find_name(const char *name)
{
	char path[sizeof("events/") + PERF_PERSISTENT_NAME_MAX], buf[64];
	u32 id;
	int err;

	if (!persistent__valid_name(name))
		return -EINVAL;

	snprintf(path, sizeof(path), "events/%s", name);
	err = persistent__read(path, buf, sizeof(buf));
	if (err < 0)
		return err;
	return sscanf(buf, "id=%x", &id) == 1 ? (int)id : -ENOENT;
}

/*
 * Returns the id of a session with this name or id, or a negative error; prints no message.
 * Without CAP_PERFMON the kernel prefixes the name with the owner's uid. Only users without
 * it find such a session first: others must not get one that has the name of theirs.
 */
int persistent__lookup(const char *str)
{
	char own[sizeof("u4294967295-") + PERF_PERSISTENT_NAME_MAX];
	bool own_first = !persistent__capable();
	u32 id;
	int ret;

	if (isdigit(str[0])) {
		if (persistent__parse_id(str, &id))
			return -EINVAL;
		return persistent__name(id, own) ? (int)id : -ENOENT;
	}
	if (!persistent__valid_name(str))
		return -EINVAL;

	snprintf(own, sizeof(own), "u%u-%s", geteuid(), str);
	ret = persistent__find_name(own_first ? own : str);
	/* A name that is too long with the prefix cannot exist. */
	if (ret < 0)
		ret = persistent__find_name(own_first ? str : own);
	return ret == -EINVAL ? -ENOENT : ret;
}

/*
 * Returns the id of the session that the user typed, as a name or an id, or a negative
 * error after printing a message.
 */
int persistent__find(const char *str)
{
	bool is_id = isdigit(str[0]);
	int id;

	if (persistent__type() < 0)
		return -EOPNOTSUPP;

	id = persistent__lookup(str);
	if (id == -EINVAL && is_id)
		pr_err("invalid id '%s': use a number from 1 to %d\n", str, INT_MAX);
	else if (id == -EINVAL)
		pr_err("invalid name '%s': use a lower-case letter, then lower-case letters, digits, '_' or '-'\n",
		       str);
	else if (id < 0 && is_id)
		pr_err("no session with id %s (see 'perf persistent list')\n", str);
	else if (id < 0)
		pr_err("no session named '%s' (see 'perf persistent list')\n", str);
	return id;
}

static bool has_id(const u32 *ids, int nr, u32 id)
{
	while (nr-- && ids[nr] != id)
		;
	return nr >= 0;
}

static int is_number(const struct dirent *entry)
{
	return isdigit(entry->d_name[0]);
}

/* Returns how many entries of a directory are numbers, and these in ascending order. */
int persistent__read_numbers(int dir, const char *name, u32 **numbers)
{
	struct dirent **entries;
	int nr = scandirat(dir, name, &entries, is_number, versionsort);

	if (nr < 0)
		return -errno;
	*numbers = calloc(nr + 1, sizeof(**numbers));
	for (int i = 0; i < nr; i++) {
		if (*numbers)
			(*numbers)[i] = strtoul(entries[i]->d_name, NULL, 10);
		free(entries[i]);
	}
	free(entries);
	return *numbers ? nr : -ENOMEM;
}

/*
 * Find the sessions that are named, each once, or all without names. Returns how many;
 * *err is the error of a bad name, after a message was printed.
 */
int persistent__choose(int argc, const char **argv, u32 **ids, int *err)
{
	char path[PATH_MAX];
	int nr = 0;

	*err = 0;
	*ids = NULL;
	if (persistent__type() < 0)
		return -EOPNOTSUPP;

	if (!argc) {
		perf_pmu__pathname_scnprintf(path, sizeof(path), PERSISTENT_PMU, "ids");
		nr = persistent__read_numbers(AT_FDCWD, path, ids);
		if (nr < 0)
			pr_err("cannot read the list of sessions: %s\n", strerror(-nr));
		return nr;
	}

	*ids = calloc(argc, sizeof(**ids));
	if (!*ids)
		return -ENOMEM;
	for (int i = 0; i < argc; i++) {
		int id = persistent__find(argv[i]);

		if (id < 0)
			*err = id;
		else if (!has_id(*ids, nr, id))
			(*ids)[nr++] = id;
	}
	return nr;
}

/*
 * Call @fn for each chosen session, and go on after an error. It returns 1 if it did something,
 * 0 if there was nothing to do, or a negative error after printing a message.
 */
int persistent__each(int argc, const char **argv, int (*fn)(u32 id, void *arg), void *arg,
		     int *done)
{
	u32 *ids;
	int err, nr = persistent__choose(argc, argv, &ids, &err);

	if (nr < 0)
		return nr;
	for (int i = 0; i < nr; i++) {
		int ret = fn(ids[i], arg);

		err = min(ret, 0) ?: err;
		*done += ret > 0;
	}
	free(ids);
	return err;
}

/*
 * evsel__open() cannot be used: it drops attributes until the kernel accepts an event, and so
 * could open another one.
 */
int persistent__open(u32 id, u32 instance)
{
	int fd = persistent__reopen(id | ((u64)instance + 1) << PERF_PERSISTENT_INSTANCE_SHIFT);

	return fd == -ENOENT ? persistent__why_gone(id) : fd;
}

int persistent__set(int fd, struct perf_persistent_set *set)
{
	return ioctl(fd, PERF_EVENT_IOC_SET_PERSISTENT, set) < 0 ? -errno : 0;
}

/* For one member; it is no error if this one has gone, since others may be there. */
int persistent__set_member(int fd, u32 member, struct perf_persistent_set *set)
{
	int err;

	set->member = member + 1;
	err = persistent__set(fd, set);
	return err == -ENOENT ? 0 : err;
}

int persistent__set_session(u32 id, struct perf_persistent_set *set)
{
	int err, fd = persistent__open_session(id);

	if (fd < 0)
		return fd;
	err = persistent__set(fd, set);
	close(fd);
	return err;
}

/*
 * End all instances at once by a short time to live, also for those who have them open:
 * attached one by one, they would go on for their readers. Returns when they have ended.
 */
int persistent__end(u32 id)
{
	struct perf_persistent_set set = {
		.flags	= PERF_PERSISTENT_SET_TTL,
		.ttl	= 1,
	};
	char name[PERF_PERSISTENT_NAME_MAX];
	int err = persistent__set_session(id, &set);

	for (int i = 0; !err && persistent__name(id, name); i++) {
		usleep(USEC_PER_MSEC);
		if (i == END_TIMEOUT_MSEC)
			err = -ETIMEDOUT;
	}
	/* Another process ended it first. */
	return err == -ENOENT || err == -ESRCH ? 0 : err;
}

/*
 * Returns the number of instances and, from the same query, what each is and has counted;
 * or a negative error. Instances may come and go while the array is allocated.
 */
int persistent__instances(u32 id, struct perf_persistent_query *query,
			  struct perf_persistent_info **instances)
{
	int err, fd = persistent__open_session(id);
	u32 room;

	*instances = NULL;
	*query = (struct perf_persistent_query) { .nr_instances = ROOM_FOR_INSTANCES };
	if (fd < 0)
		return fd;

	do {
		room = query->nr_instances;
		free(*instances);
		*instances = calloc(room, sizeof(**instances));
		*query = (struct perf_persistent_query) {
			.instances    = (u64)(unsigned long)*instances,
			.nr_instances = room,
		};
		err = *instances ? persistent__query(fd, query) : -ENOMEM;
	} while (!err && query->nr_instances > room);
	close(fd);

	if (err)
		zfree(instances);
	/* ESRCH: the session ended after it was opened. */
	return err == -ESRCH ? -ENOENT : err ?: (int)query->nr_instances;
}

/* The owner chose the text, which must not control the reader's terminal. */
char *persistent__printable(char *text)
{
	u32 code;
	int len;

	for (char *c = text; *c; c += len) {
		len = utf8__decode(c, &code);
		if (!len || utf8__is_control(code)) {
			*c = '?';
			len = 1;
		}
	}
	return text;
}

/*
 * Query the attr that the event was opened with, which drivers may have changed since, and
 * its texts. Long texts are truncated.
 */
int persistent__ask_fd(int fd, u32 id, struct persistent_answer *answer)
{
	int err;

	memset(answer, 0, sizeof(*answer));
	answer->query.attr = (u64)(unsigned long)&answer->attr;
	answer->query.attr_size = sizeof(answer->attr);
	answer->query.label = (u64)(unsigned long)answer->label;
	answer->query.label_size = sizeof(answer->label) - 1;
	answer->query.filter = (u64)(unsigned long)answer->filter;
	answer->query.filter_size = sizeof(answer->filter);
	answer->query.cgroup = (u64)(unsigned long)answer->cgroup;
	answer->query.cgroup_size = sizeof(answer->cgroup) - 1;
	err = persistent__query(fd, &answer->query);
	answer->filter[sizeof(answer->filter) - 1] = '\0';
	/* The instance left the session, or the session ended, since it was opened. */
	if (err == -EINVAL || err == -ESRCH ||
	    (!err && answer->query.self.state == PERF_PERSISTENT_STATE_EXPIRED))
		err = persistent__why_gone(id);
	/* The caller lost the right to the instance since it was opened. */
	if (!err && !answer->query.attr_size)
		err = -EACCES;
	persistent__printable(answer->label);
	answer->attr.size = sizeof(answer->attr);
	return err;
}

int persistent__ask(u32 id, u32 instance, struct persistent_answer *answer)
{
	int err, fd = persistent__open(id, instance);

	if (fd < 0)
		return fd;
	err = persistent__ask_fd(fd, id, answer);
	close(fd);
	return err;
}
