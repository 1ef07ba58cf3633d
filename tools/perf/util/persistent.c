// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's registry of persistent events, as a tool sees it.
 */
#include "persistent.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/zalloc.h>
#include <sys/ioctl.h>
#include "debug.h"
#include "perf-sys.h"
#include "pmu.h"

/* Where a search for the first instance that is left gives up. */
#define PERSISTENT_MAX_PROBE	65536

/*
 * Returns the length read without the newline, or a negative error.
 */
static int persistent__read(const char *file, char *buf, size_t size)
{
	char path[PATH_MAX];
	ssize_t len;
	int fd;

	if (!perf_pmu__pathname_scnprintf(path, sizeof(path), PERSISTENT_PMU, file))
		return -ENAMETOOLONG;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;

	len = read(fd, buf, size - 1);
	if (len < 0)
		len = -errno;
	close(fd);
	if (len < 0)
		return len;

	while (len && isspace(buf[len - 1]))
		len--;
	buf[len] = '\0';
	return len;
}

/*
 * The number is read and never assumed: on a kernel without the feature it
 * belongs to another PMU, which must not be opened in its place.
 */
int persistent__type(void)
{
	static int type;
	char buf[32];

	if (!type) {
		if (persistent__read("type", buf, sizeof(buf)) < 0) {
			pr_err("this kernel has no persistent events (CONFIG_PERF_EVENTS_PERSISTENT)\n");
			return -EOPNOTSUPP;
		}
		type = atoi(buf);
	}
	return type;
}

/* The kernel's own rule, so that what cannot be a name never becomes a path. */
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

static int persistent__find_id(const char *str)
{
	char *end, buf[PERF_PERSISTENT_NAME_MAX];
	unsigned long id;

	errno = 0;
	id = strtoul(str, &end, 0);
	if (*end || errno || !id || id > INT_MAX) {
		pr_err("'%s' is no id: ids are numbers from 1 to %d\n", str, INT_MAX);
		return -EINVAL;
	}

	if (persistent__value(id, "name", buf, sizeof(buf)) < 0) {
		pr_err("no persistent event has the id %s ('perf persistent list' shows what there is)\n",
		       str);
		return -ENOENT;
	}
	return id;
}

/*
 * Returns the id of what the user typed, a name or an id; or, having said what
 * is wrong with it, a negative error.
 */
int persistent__find(const char *str)
{
	char path[sizeof("events/") + PERF_PERSISTENT_NAME_MAX], buf[64];
	u32 id;

	if (persistent__type() < 0)
		return -EOPNOTSUPP;

	if (isdigit(str[0]))
		return persistent__find_id(str);

	if (!persistent__valid_name(str)) {
		pr_err("'%s' is neither an id nor a name (a lower case letter, then letters, digits, '_', '-')\n",
		       str);
		return -EINVAL;
	}

	snprintf(path, sizeof(path), "events/%s", str);
	if (persistent__read(path, buf, sizeof(buf)) < 0 ||
	    sscanf(buf, "id=%x", &id) != 1) {
		pr_err("no persistent event has the name '%s' ('perf persistent list' shows what there is)\n",
		       str);
		return -ENOENT;
	}
	return id;
}

static int id_cmp(const void *a, const void *b)
{
	const u32 *l = a, *r = b;

	return *l < *r ? -1 : *l > *r;
}

/*
 * Returns how many ids there are and, in ascending order, which.
 */
int persistent__ids(u32 **ids)
{
	char path[PATH_MAX];
	struct dirent *dent;
	int nr = 0;
	DIR *dir;

	*ids = NULL;
	perf_pmu__pathname_scnprintf(path, sizeof(path), PERSISTENT_PMU, "ids");
	dir = opendir(path);
	if (!dir)
		return -errno;

	while ((dent = readdir(dir))) {
		u32 *tmp, id = strtoul(dent->d_name, NULL, 10);

		if (!id)
			continue;
		tmp = realloc(*ids, (nr + 1) * sizeof(id));
		if (!tmp) {
			zfree(ids);
			closedir(dir);
			return -ENOMEM;
		}
		tmp[nr++] = id;
		*ids = tmp;
	}
	closedir(dir);

	if (nr)
		qsort(*ids, nr, sizeof(**ids), id_cmp);
	return nr;
}

/*
 * A way of opening of its own: evsel__open() tries less and less of what was
 * asked for until the kernel agrees, and so would end with another event.
 */
int persistent__open(u32 id, int instance)
{
	int fd, type = persistent__type();
	struct perf_event_attr attr = {
		.type	= type,
		.size	= sizeof(attr),
		.config	= id | (u64)(instance + 1) << PERF_PERSISTENT_INSTANCE_SHIFT,
	};

	if (type < 0)
		return type;

	fd = sys_perf_event_open(&attr, -1, -1, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Numbers of instances are not used again, so the first ones may be gone. */
int persistent__open_any(u32 id)
{
	char name[PERF_PERSISTENT_NAME_MAX];
	int fd = persistent__value(id, "name", name, sizeof(name));

	if (fd < 0)
		return fd;

	fd = -ENOENT;
	for (int i = 0; i < PERSISTENT_MAX_PROBE && fd == -ENOENT; i++)
		fd = persistent__open(id, i);
	return fd;
}

int persistent__query(int fd, struct perf_persistent_query *query)
{
	query->size = sizeof(*query);
	return ioctl(fd, PERF_EVENT_IOC_QUERY_PERSISTENT, query) < 0 ? -errno : 0;
}

/*
 * Returns how many instances the id has and which; they may come and go while
 * the room for them is made.
 */
int persistent__instances(u32 id, struct perf_persistent_instance **instances)
{
	struct perf_persistent_query query = {};
	u32 room = 0;
	int err, fd;

	*instances = NULL;
	fd = persistent__open_any(id);
	if (fd < 0)
		return fd;

	while (!(err = persistent__query(fd, &query)) && query.nr_instances > room) {
		free(*instances);
		room = query.nr_instances;
		*instances = calloc(room, sizeof(**instances));
		if (!*instances) {
			err = -ENOMEM;
			break;
		}
		query = (struct perf_persistent_query) {
			.instances    = (u64)(unsigned long)*instances,
			.nr_instances = room,
		};
	}
	close(fd);
	if (err) {
		zfree(instances);
		return err;
	}
	return query.nr_instances;
}

/*
 * What the member was opened with: the kernel's own copy of the attr may have
 * been rewritten by a driver, and does not tell the name.
 */
int persistent__member(u32 id, int instance, struct perf_event_attr *attr,
		       char label[PERF_PERSISTENT_LABEL_MAX])
{
	struct perf_persistent_query query = {
		.attr	    = (u64)(unsigned long)attr,
		.attr_size  = sizeof(*attr),
		.label	    = (u64)(unsigned long)label,
		.label_size = PERF_PERSISTENT_LABEL_MAX,
	};
	int err, fd = persistent__open(id, instance);

	if (fd < 0)
		return fd;

	memset(attr, 0, sizeof(*attr));
	label[0] = '\0';
	err = persistent__query(fd, &query);
	close(fd);
	label[PERF_PERSISTENT_LABEL_MAX - 1] = '\0';
	attr->size = sizeof(*attr);
	return err;
}
