/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_REGISTRY_H
#define __PERF_PERSISTENT_REGISTRY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <linux/perf_event.h>
#include <linux/types.h>
#include <internal/xyarray.h>
#include <sys/types.h>

struct option;

#define PERSISTENT_FD(evsel, cpu_map_idx, thread) \
	(*(int *)xyarray__entry((evsel)->core.fd, cpu_map_idx, thread))

/* "rwxrwxrwx" with the final NUL */
#define PERSISTENT_MODE_SIZE	10

/* Longer filters are truncated. */
#define PERSISTENT_FILTER_MAX	4096

/* Maximum number of members of a session */
#define PERSISTENT_MAX_MEMBERS	128

/*
 * Persistent events live in the kernel's registry, not in a process. Sysfs shows what
 * anybody may know; the rest is queried through a file descriptor, by those who may open
 * one.
 */
int persistent__type(void);
bool persistent__valid_name(const char *name);
int persistent__lookup(const char *str);
int persistent__find(const char *str);
int persistent__choose(int argc, const char **argv, u32 **ids, int *err);
int persistent__each(int argc, const char **argv, int (*fn)(u32 id, void *arg), void *arg,
		     int *done);
int persistent__value(u32 id, const char *file, char *buf, size_t size);
u64 persistent__number(u32 id, const char *file);
const char *persistent__name(u32 id, char name[PERF_PERSISTENT_NAME_MAX]);
bool persistent__name_or_id(u32 id, char name[PERF_PERSISTENT_NAME_MAX]);
const char *persistent__owner(u32 id, char *buf, size_t size);
const char *persistent__user(uid_t uid, char *buf, size_t size);
const char *persistent__group(gid_t gid, char *buf, size_t size);
const char *persistent__mode(u32 mode, char buf[PERSISTENT_MODE_SIZE]);
const char *persistent__strerror(u32 id, char right, int err, char *buf, size_t size);
int persistent__error(const char *verb, u32 id, const char *name, char right, int err);
int persistent__parse_id(const char *str, u32 *id);
int persistent__find_name(const char *name);
char *persistent__printable(char *text);

/* What an instance reports about itself; persistent__details() fills in its location. */
struct persistent_answer {
	struct perf_persistent_query	query;
	struct perf_event_attr		attr;
	char				label[PERF_PERSISTENT_LABEL_MAX];
	char				filter[PERSISTENT_FILTER_MAX];
	char				cgroup[PATH_MAX];
	char				where[PATH_MAX + 64];
};

int persistent__ask_fd(int fd, u32 id, struct persistent_answer *answer);
int persistent__ask(u32 id, u32 instance, struct persistent_answer *answer);
int persistent__open(u32 id, u32 instance);
int persistent__open_session(u32 id);
int persistent__read_numbers(int dir, const char *name, u32 **numbers);
int persistent__end(u32 id);
int persistent__query(int fd, struct perf_persistent_query *query);
int persistent__set(int fd, struct perf_persistent_set *set);
int persistent__set_member(int fd, u32 member, struct perf_persistent_set *set);
int persistent__set_session(u32 id, struct perf_persistent_set *set);
int persistent__instances(u32 id, struct perf_persistent_query *query,
			  struct perf_persistent_info **instances);

void persistent__note_options(struct option *options, bool *given);
int persistent__check_options(const struct option *options, const char * const *names,
			      bool allowed, const char *with);

/* Parsers of settings that the user types */
bool persistent__capable(void);
u64 persistent__max_ttl(void);
u64 persistent__parse_time(const char *str);
u64 persistent__parse_bytes(const char *str);
bool persistent__parse_number(const char *str, int base, u32 max, u32 *nr);
u64 persistent__parse_count(const char *str);
int persistent_option__time(const struct option *opt, const char *str, int unset);
int persistent_option__size(const struct option *opt, const char *str, int unset);
int persistent_option__count(const struct option *opt, const char *str, int unset);
const char *persistent__parse_setting(struct perf_persistent_set *set, const char *name,
				      const char *str);

#endif /* __PERF_PERSISTENT_REGISTRY_H */
