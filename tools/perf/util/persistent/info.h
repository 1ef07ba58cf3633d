/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_INFO_H
#define __PERF_PERSISTENT_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/perf_event.h>
#include <linux/types.h>
#include "registry.h"

struct strbuf;
struct strlist;

/* Type and config of each member of a session, from sysfs, in the order of the members */
struct persistent_types {
	int			nr;
	struct persistent_type {
		u32		type;
		u64		config;
	} list[PERSISTENT_MAX_MEMBERS];
};

/* Side-band names tasks, counts nothing, and comes with every session. */
static inline bool persistent__is_side_band(u32 type, u64 config)
{
	return type == PERF_TYPE_SOFTWARE && config == PERF_COUNT_SW_DUMMY;
}

/*
 * A session: the answer to one query, with all instances but without self, and the members.
 * @cgroups has that of each member's first instance; NULL for none. @no_cgroup: a member
 * is in none.
 */
struct persistent_info {
	u32				id;
	char				name[PERF_PERSISTENT_NAME_MAX];
	struct perf_persistent_query	query;
	int				nr;
	struct perf_persistent_info	*instances;
	u32				nr_members;
	struct persistent_info_member {
		bool			known;
		struct perf_event_attr	attr;
		char			label[PERF_PERSISTENT_LABEL_MAX];
	} *members;
	struct strlist			*cgroups;
	bool				no_cgroup;
};

int persistent_info__init(struct persistent_info *info, u32 id);
int persistent_info__init_types(struct persistent_info *info, u32 id);
int persistent_info__init_control(struct persistent_info *info, u32 id);
int persistent_info__nr_hidden(const struct persistent_info *info);
void persistent_info__exit(struct persistent_info *info);
int persistent_info__find_member(struct persistent_info *info, const char *event);
bool persistent_info__is_side_band(struct persistent_info *info, u32 member);
int persistent_info__sort_side_band(struct persistent_info *info);
bool persistent_info__includes_guests(struct persistent_info *info, u32 member);

/* As in persistent/id=N,instance=M/, where 0 stands for all instances */
static inline u32 persistent_details__instance(const struct persistent_answer *details)
{
	return details->query.self.instance + 1;
}

int persistent__details(u32 id, u32 instance, struct persistent_answer *details);
int persistent_info__details(struct persistent_info *info, int i,
			     struct persistent_answer *details);
const char *persistent__state(u32 state);

/* Summaries of all instances of a session */
#define PERSISTENT_STATES	(PERF_PERSISTENT_STATE_REVOKED + 1)

void persistent__scnprintf_cpus(char *buf, size_t size,
				const struct perf_persistent_info *instances, int nr);
void persistent__count_states(const struct perf_persistent_info *instances, int nr,
			      u32 nrs[PERSISTENT_STATES]);
void persistent__scnprintf_state(char *buf, size_t size, const struct perf_persistent_query *query,
				 const struct perf_persistent_info *instances, int nr);
void persistent_info__scnprintf_target(const struct persistent_info *info, char *buf,
				       size_t size, int nr, const char *cpus);

/* Names of the events, which anybody may know */
int persistent_types__read(struct persistent_types *types, u32 id);
int persistent_types__add_names(const struct persistent_types *types, char sep,
				struct strbuf *sb);
bool persistent_types__have_cpu_pmu(const struct persistent_types *types);
int persistent__add_name(struct strbuf *sb, u32 type, u64 config);
char *persistent__fit_events(const char *events, int width);
bool persistent__is_cpu_pmu(u32 type);
char *persistent__describe(const char *name);

#endif /* __PERF_PERSISTENT_INFO_H */
