// SPDX-License-Identifier: GPL-2.0
/*
 * perf record, stat --persistent: open the events of a session exactly as requested, and
 * detach them into the kernel's registry.
 */
#include "start.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <linux/capability.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <linux/zalloc.h>
#include <api/fs/fs.h>
#include <internal/lib.h>
#include <perf/cpumap.h>
#include <perf/threadmap.h>
#include <sys/ioctl.h>
#include "cap.h"
#include "cgroup.h"
#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "perf-sys.h"
#include "record.h"
#include "registry.h"
#include "rlimit.h"
#include "target.h"
#include "thread_map.h"
#include "time-utils.h"

/* Open all events again, but not for ever. */
#define OPEN_AGAIN	1
#define MAX_TRIES	10

/* Time to live of an uncommitted session in seconds, unless it is renewed */
#define SETUP_TTL	25

/* System-wide side-band has no threads. */
static int evsel__persistent_threads(struct evsel *evsel)
{
	return evsel->core.system_wide ? 1 : perf_thread_map__nr(evsel->core.threads);
}

static int evsel__target_pid(struct evsel *evsel, int thread)
{
	if (evsel->cgrp)
		return evsel->cgrp->fd;
	return evsel->core.system_wide ? -1 : perf_thread_map__pid(evsel->core.threads, thread);
}

/* Where an error occurred: "on CPU 1", "of task 42 on CPU 1" */
static const char *evsel__persistent_place(struct evsel *evsel, struct perf_cpu cpu, int thread,
					   char *buf, size_t size)
{
	int pid = evsel->cgrp ? -1 : evsel__target_pid(evsel, thread), len = 0;

	buf[0] = '\0';
	if (evsel->cgrp)
		len = scnprintf(buf, size, " in cgroup %s", evsel->cgrp->name);
	else if (pid >= 0)
		len = scnprintf(buf, size, " of task %d", pid);
	if (cpu.cpu >= 0)
		scnprintf(buf + len, size - len, " on CPU %d", cpu.cpu);
	return buf;
}

static bool is_online(struct perf_cpu cpu)
{
	struct perf_cpu_map *online = perf_cpu_map__new_online_cpus();
	bool ret = perf_cpu_map__has(online, cpu);

	perf_cpu_map__put(online);
	return ret;
}

static void evsel__set_cpus(struct evsel *evsel, struct perf_cpu_map *cpus)
{
	perf_cpu_map__put(evsel->core.cpus);
	evsel->core.cpus = perf_cpu_map__get(cpus);
}

static void persistent_start__open_error(struct persistent_start *start, struct evsel *evsel,
					 struct perf_cpu cpu, int thread, int err)
{
	char msg[BUFSIZ], place[128];

	if (cpu.cpu >= 0 && !is_online(cpu))
		scnprintf(msg, sizeof(msg), "the CPU is not online");
	else if (err == ESRCH)
		scnprintf(msg, sizeof(msg), "no such task, or it has exited");
	else if (err == EINVAL && evsel->core.attr.inherit_stat)
		scnprintf(msg, sizeof(msg),
			  "not supported, or this kernel does not record the counts of children that exit (-s)");
	else if (evsel->cgrp && err == ENOENT)
		scnprintf(msg, sizeof(msg),
			  "not supported, or the perf_event cgroup controller is not mounted");
	else
		evsel__open_strerror(evsel, start->target, err, msg, sizeof(msg));
	pr_err("%s%s: %s\n", evsel__name(evsel),
	       evsel__persistent_place(evsel, cpu, thread, place, sizeof(place)), msg);
}

/*
 * As without --persistent, exclude the kernel from an event of a task if the user may not
 * measure it, and replace cycles by a clock if no event was given. The label shows the
 * result.
 */
static bool persistent_start__falls_back(struct persistent_start *start, struct evsel *evsel,
					 int err)
{
	bool kernel = err == EACCES && !target__has_cpu(start->target);
	bool clock = start->record && start->by_default &&
		     (err == ENOENT || err == ENODEV || err == ENXIO);
	char was[PERF_PERSISTENT_LABEL_MAX], msg[BUFSIZ];

	scnprintf(was, sizeof(was), "%s", evsel__name(evsel));
	if ((!kernel && !clock) || !evsel__fallback(evsel, start->target, err, msg, sizeof(msg)))
		return false;

	if (clock && !evsel->exclude_GH) {
		/* exclude_guest is for cycles only, and would show in the name. */
		evsel->core.attr.exclude_guest = 0;
		zfree(&evsel->name);
	}
	pr_info("%s %s, falling back to %s\n", was,
		kernel ? "needs permission to measure the kernel (kernel.perf_event_paranoid)" :
			 "is not supported here", evsel__name(evsel));
	return true;
}

/* Skip default events that do not exist. */
static bool persistent_start__skips(struct persistent_start *start, int err)
{
	return start->stat && start->by_default && (err == -ENOENT || err == -EOPNOTSUPP);
}

/*
 * Leave out a thread that ended after it was listed. If it ended between two opens, the
 * leader has ended, too. A task whose event is inherited may have swapped contexts with its
 * child, so that the leader is not in the context of its sibling.
 */
static bool persistent_start__may_try_again(struct persistent_start *start, struct evsel *evsel,
					    int thread, int err)
{
	if (err == ESRCH && evsel__persistent_threads(evsel) > 1)
		return !thread_map__remove(evsel->core.threads, thread);

	if ((err == ENODEV || (err == EINVAL && evsel->core.attr.inherit)) &&
	    !evsel__is_group_leader(evsel) && !target__has_cpu(start->target) &&
	    start->tries++ < MAX_TRIES)
		return true;

	/* exclude_guest was not asked for, and the PMU may not support it. */
	if (err == EINVAL && evsel->core.attr.exclude_guest && !evsel->exclude_GH) {
		evsel->core.attr.exclude_guest = 0;
		start->tries = 0;
		pr_info("%s will count in guests, too: the kernel does not exclude them from it\n",
			evsel__name(evsel));
		return true;
	}
	return false;
}

/*
 * System-wide events are also on CPUs that are offline, and start when these come online.
 * Events that are bound to certain CPUs stay there.
 */
static int persistent_start__add_offline_cpus(struct persistent_start *start)
{
	struct perf_cpu_map *online = evlist__core(start->evlist)->user_requested_cpus, *present;
	struct evsel *evsel;
	char *list;
	size_t len;
	int err;

	if (!start->target->system_wide || start->target->cpu_list)
		return 0;

	err = sysfs__read_str("devices/system/cpu/present", &list, &len);
	if (err) {
		pr_err("failed to read which CPUs are present: %s\n", strerror(-err));
		return err;
	}
	present = perf_cpu_map__new(list);
	free(list);
	if (!present)
		return -ENOMEM;

	evlist__for_each_entry(start->evlist, evsel) {
		if (perf_cpu_map__equal(evsel->core.cpus, online))
			evsel__set_cpus(evsel, present);
	}
	/* evlist__close() closes the files of these CPUs. */
	err = perf_cpu_map__merge(&evlist__core(start->evlist)->all_cpus, present);
	perf_cpu_map__put(present);
	return err;
}

/* Some PMUs do not know a CPU that was never online: leave it out for the whole group. */
static bool persistent_start__leaves_out_offline(struct persistent_start *start,
						 struct evsel *evsel, struct perf_cpu cpu, int err)
{
	struct perf_cpu_map *online = evlist__core(start->evlist)->user_requested_cpus;
	struct evsel *pos;

	if (cpu.cpu < 0 || perf_cpu_map__has(online, cpu) || is_online(cpu) || err == EACCES ||
	    err == EMFILE || err == ENFILE || err == ENOMEM)
		return false;

	pr_warning("%s will not be on CPUs that are offline: its PMU rejects it on CPU %d\n",
		   evsel__name(evsel), cpu.cpu);
	evlist__for_each_entry(start->evlist, pos) {
		if (evsel__leader(pos) != evsel__leader(evsel))
			continue;
		/* The files are numbered by the CPUs. */
		perf_evsel__close(&pos->core);
		evsel__set_cpus(pos, online);
	}
	return true;
}

/* If the kernel refuses the event, print an error for it, unless perf falls back. */
static int persistent_start__open_one(struct persistent_start *start, struct evsel *evsel,
				      int idx, int thread)
{
	struct perf_cpu cpu = perf_cpu_map__cpu(evsel->core.cpus, idx);
	unsigned long flags = PERF_FLAG_FD_CLOEXEC | PERF_FLAG_OFFLINE_CPU |
			      (evsel->cgrp ? PERF_FLAG_PID_CGROUP : 0);
	struct evsel *leader = evsel__leader(evsel);
	int leader_fd = leader == evsel ? -1 : PERSISTENT_FD(leader, idx, thread);
	enum rlimit_action limit = NO_CHANGE;
	int err, fd;

	do {
		fd = sys_perf_event_open(&evsel->core.attr, evsel__target_pid(evsel, thread),
					 cpu.cpu, leader_fd, flags);
	} while (fd < 0 && errno == EMFILE && rlimit__increase_nofile(&limit));

	PERSISTENT_FD(evsel, idx, thread) = fd;
	if (fd >= 0)
		return 0;

	err = errno;
	if (persistent_start__may_try_again(start, evsel, thread, err) ||
	    persistent_start__leaves_out_offline(start, evsel, cpu, err) ||
	    persistent_start__falls_back(start, evsel, err))
		return OPEN_AGAIN;
	if (!persistent_start__skips(start, -err))
		persistent_start__open_error(start, evsel, cpu, thread, err);
	return -err;
}

static int persistent_start__open_evsel(struct persistent_start *start, struct evsel *evsel)
{
	int err, nr_cpus = perf_cpu_map__nr(evsel->core.cpus);
	int nr_threads = evsel__persistent_threads(evsel);

	if (perf_evsel__alloc_fd(&evsel->core, nr_cpus, nr_threads) < 0)
		return -ENOMEM;

	for (int idx = 0; idx < nr_cpus; idx++) {
		for (int thread = 0; thread < nr_threads; thread++) {
			err = persistent_start__open_one(start, evsel, idx, thread);
			if (err)
				return err;
		}
	}
	return 0;
}

static int persistent_start__open_all(struct persistent_start *start)
{
	struct evsel *evsel, *tmp;
	int err;

	evlist__for_each_entry_safe(start->evlist, tmp, evsel) {
		err = persistent_start__open_evsel(start, evsel);
		if (persistent_start__skips(start, err)) {
			pr_info("%s is left out: it is not supported here\n", evsel__name(evsel));
			evlist__remove(start->evlist, evsel);
			evsel__put(evsel);
		} else if (err) {
			return err;
		}
	}
	return 0;
}

int persistent_start__open(struct persistent_start *start)
{
	char sbuf[STRERR_BUFSIZE];
	struct evsel *evsel;
	int err = persistent_start__add_offline_cpus(start);

	if (err)
		return err;

	/* Start over, so that all events have the same threads. */
	while ((err = persistent_start__open_all(start)) == OPEN_AGAIN)
		evlist__close(start->evlist);
	if (err)
		return err;

	if (evlist__apply_filters(start->evlist, &evsel, start->target)) {
		err = -errno;
		pr_err("%s: the kernel rejects the filter \"%s\": %s\n", evsel__name(evsel),
		       evsel->filter, str_error_r(-err, sbuf, sizeof(sbuf)));
	}
	return err;
}

/* The time to live once the session is committed: as given, or the default */
u64 persistent_start__ttl(struct persistent_start *start)
{
	u64 max = persistent__max_ttl();

	return start->spec.set.ttl ?: max == UINT64_MAX ? 0 : max;
}

/*
 * Samples of all members go to one buffer per CPU, or per thread if they follow it from
 * CPU to CPU; the first member brings it. Side-band has a buffer of its own: samples come
 * so much faster that they would overwrite the names of their tasks. Returns the file of
 * the owner, or -1 if this event, which needs a buffer, is to bring it.
 */
static int persistent_start__buffer_owner(struct persistent_start *start, struct evsel *evsel,
					  int idx, int thread)
{
	struct perf_cpu cpu = perf_cpu_map__cpu(evsel->core.cpus, idx);
	int shared = cpu.cpu < 0 ? thread : 0;
	struct evsel *pos;

	evlist__for_each_entry(start->evlist, pos) {
		idx = perf_cpu_map__idx(pos->core.cpus, cpu);
		if (idx >= 0 && pos->tracking == evsel->tracking && evsel__has_buffer(pos))
			break;
	}
	return pos == evsel && shared == thread ? -1 : PERSISTENT_FD(pos, idx, shared);
}

/*
 * A task's side-band can take more room than its samples, so it gets as much. Without the
 * capability, both together stay within the default limit of mmap().
 */
static u32 persistent_start__pages(struct persistent_start *start, struct evsel *evsel)
{
	u32 pages = (512 * 1024) / page_size;

	if (evsel->tracking && start->spec.side_band_pages)
		return start->spec.side_band_pages;
	if (start->record->mmap_pages != UINT_MAX)
		return start->record->mmap_pages;
	if (!perf_cap__capable(CAP_IPC_LOCK))
		pages /= evsel->tracking ? 4 : 2;
	return max(pages, 1u);
}

static int persistent_start__detach_error(struct persistent_start *start, struct evsel *evsel,
					  struct perf_cpu cpu, int thread, int err)
{
	bool has_option = evsel->tracking && start->spec.side_band_pages;
	const char *size = has_option ? "sideband=" : "-m", *name = evsel__name(evsel);
	char sbuf[STRERR_BUFSIZE], place[128];

	evsel__persistent_place(evsel, cpu, thread, place, sizeof(place));
	if (err == EEXIST && !start->id)
		pr_err("--persistent=%s: the name is taken ('perf persistent list' shows by whom)\n",
		       start->spec.name ?: "");
	else if (err == EEXIST)
		pr_err("%s%s is listed twice\n", name, place);
	else if (err == EAGAIN)
		pr_err("%s%s: %skernel.perf_event_persistent_max is reached: raise it, end sessions with 'perf persistent stop', or choose fewer CPUs, tasks or events\n",
		       name, place, persistent__capable() ?
		       "" : "user.max_perf_persistent or ");
	else if (err == EPERM)
		pr_err("%s%s: no more memory can be locked for buffers, use a smaller %s or raise kernel.perf_event_mlock_kb\n",
		       name, place, size);
	else if (err == ENOMEM)
		pr_err("%s%s: not enough memory for its buffer, use a smaller %s\n", name, place,
		       size);
	else if (err == EACCES)
		pr_err("%s%s cannot be made persistent without CAP_PERFMON\n", name, place);
	else if (err == EOPNOTSUPP)
		pr_err("%s%s cannot be persistent: its PMU is for one user at a time\n", name,
		       place);
	else
		pr_err("%s%s cannot be made persistent: %s\n", name, place,
		       str_error_r(err, sbuf, sizeof(sbuf)));
	return -err;
}

static int persistent_start__detach_one(struct persistent_start *start, struct evsel *evsel,
					u32 member, int idx, int thread)
{
	struct perf_cpu cpu = perf_cpu_map__cpu(evsel->core.cpus, idx);
	const char *label = evsel__name(evsel);
	int id, owner, fd = PERSISTENT_FD(evsel, idx, thread);
	struct perf_event_detach detach = {
		.id	= start->id,
		.member	= member,
		.label	= (u64)(unsigned long)label,
	};

	if (!start->id) {
		start->setup_ttl = min(persistent__max_ttl(), (u64)SETUP_TTL * NSEC_PER_SEC);
		start->renewed = rdclock();
		detach.name = (u64)(unsigned long)start->spec.name;
		detach.ttl = start->setup_ttl;
		detach.flags = PERF_DETACH_UNCOMMITTED;
	}

	if (evsel__has_buffer(evsel)) {
		owner = persistent_start__buffer_owner(start, evsel, idx, thread);
		if (owner < 0)
			detach.buffer_pages = persistent_start__pages(start, evsel);
		else if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, owner) < 0)
			return persistent_start__detach_error(start, evsel, cpu, thread, errno);
	}

	id = ioctl(fd, PERF_EVENT_IOC_DETACH, &detach);
	if (id < 0)
		return persistent_start__detach_error(start, evsel, cpu, thread, errno);
	start->id = id;
	start->nr_buffers += !!detach.buffer_pages;
	start->buffer_bytes += (u64)detach.buffer_pages * page_size;
	return persistent_start__renew(start);
}

/* Leaders come before their siblings, as in the list. */
int persistent_start__detach(struct persistent_start *start)
{
	struct evsel *evsel;
	u32 member = 0;

	evlist__for_each_entry(start->evlist, evsel) {
		unsigned int idx;

		perf_cpu_map__for_each_idx(idx, evsel->core.cpus) {
			for (int thread = 0; thread < evsel__persistent_threads(evsel); thread++) {
				int err = persistent_start__detach_one(start, evsel, member, idx,
								       thread);

				if (err)
					return err;
			}
		}
		member++;
	}
	return 0;
}

static int persistent_start__set(struct persistent_start *start, u32 flags, u64 ttl)
{
	struct perf_persistent_set set = start->spec.set;
	int err;

	set.flags = flags | PERF_PERSISTENT_SET_TTL;
	set.ttl = ttl;
	err = persistent__set(PERSISTENT_FD(evlist__first(start->evlist), 0, 0), &set);
	if (err == -ESRCH || err == -ENOENT)
		pr_err("%s: id %u ended before it was set up\n", start->spec.name ?: "session",
		       start->id);
	else if (err)
		pr_err("cannot set up session %u: %s\n", start->id, strerror(-err));
	return err;
}

int persistent_start__renew(struct persistent_start *start)
{
	u64 now = rdclock();

	if (now - start->renewed < start->setup_ttl / 4)
		return 0;

	start->renewed = now;
	return persistent_start__set(start, 0, start->setup_ttl);
}

/*
 * Root in a user namespace has CAP_PERFMON there, which is not enough for the kernel.
 *
 * @ttl: what was asked for; 0 for no limit
 */
void persistent__warn_limited(u32 id, u64 ttl)
{
	u64 left = ttl ? 0 : persistent__number(id, "time_left");

	if (left)
		pr_warning("id %u ends in %llus: CAP_PERFMON in a user namespace is not enough for more (kernel.perf_event_persistent_max_ttl)\n",
			   id, (unsigned long long)(left / NSEC_PER_SEC));
}

/* From here on the session stays, for those who may use it. */
int persistent_start__commit(struct persistent_start *start)
{
	const struct perf_persistent_set *set = &start->spec.set;
	u32 flags = PERF_PERSISTENT_SET_COMMITTED | set->flags;
	int err = persistent_start__set(start, flags, set->ttl);

	if (!err)
		persistent__warn_limited(start->id, persistent_start__ttl(start));
	return err;
}
