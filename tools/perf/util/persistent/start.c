// SPDX-License-Identifier: GPL-2.0
/*
 * perf record, stat --persistent: give the events that are open to the kernel's
 * registry.
 */
#include "start.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <linux/capability.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <perf/cpumap.h>
#include <sys/ioctl.h>
#include <api/fs/fs.h>
#include <internal/lib.h>
#include "cap.h"
#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "registry.h"
#include "target.h"
#include "time-utils.h"

/* What is not committed lives that many seconds, unless it is renewed. */
#define SETUP_TTL	25

static bool is_perfmon(void)
{
	return perf_cap__capable(CAP_PERFMON);
}

/* The longest time to live that the user may ask for in ns. */
static u64 max_ttl(void)
{
	int secs;

	if (is_perfmon() || sysctl__read_int("kernel/perf_event_persistent_max_ttl", &secs))
		return UINT64_MAX;
	return (u64)secs * NSEC_PER_SEC;
}

/* What it will have once it is committed: what was asked for, or the default. */
u64 persistent_start__ttl(struct persistent_start *start)
{
	u64 max = max_ttl();

	return start->spec.set.ttl ?: max == UINT64_MAX ? 0 : max;
}

/* The kernel would say so at the end of the set-up. */
int persistent_start__check_ttl(struct persistent_start *start)
{
	u64 max = max_ttl();

	if (start->spec.set.ttl <= max)
		return 0;

	pr_err("ttl=%llus: without CAP_PERFMON at most %llus (kernel.perf_event_persistent_max_ttl)\n",
	       (unsigned long long)(start->spec.set.ttl / NSEC_PER_SEC),
	       (unsigned long long)(max / NSEC_PER_SEC));
	return -EINVAL;
}

/*
 * Samples of all members go to one buffer per CPU, or per thread if they follow
 * it from CPU to CPU, which the first one brings. Side-band has a buffer of its
 * own: samples come so much faster that they would push out the names of the
 * tasks that they belong to.
 */
static int persistent_start__buffer_owner(struct persistent_start *start, struct evsel *evsel,
					  int idx, int thread)
{
	struct perf_cpu cpu = perf_cpu_map__cpu(evsel->core.cpus, idx);
	int shared = cpu.cpu < 0 ? thread : 0;
	struct evsel *pos;

	evlist__for_each_entry(start->evlist, pos) {
		if (pos == evsel)
			break;
		idx = perf_cpu_map__idx(pos->core.cpus, cpu);
		if (idx >= 0 && pos->tracking == evsel->tracking && evsel__has_buffer(pos))
			return PERSISTENT_FD(pos, idx, shared);
	}
	idx = perf_cpu_map__idx(evsel->core.cpus, cpu);
	return shared == thread ? -1 : PERSISTENT_FD(evsel, idx, shared);
}

/*
 * A task's side-band can take more than its samples do, so it gets as much room.
 * Without the capability, what mmap() allows a user by default must do for both.
 */
static u32 persistent_start__pages(struct persistent_start *start, struct evsel *evsel)
{
	u32 pages = (512 * 1024) / page_size;

	if (evsel->tracking && start->spec.side_band_pages)
		return start->spec.side_band_pages;
	if (start->pages != UINT_MAX)
		return start->pages;
	if (!perf_cap__capable(CAP_IPC_LOCK))
		pages /= evsel->tracking ? 4 : 2;
	return max(pages, 1u);
}

static int persistent_start__detach_error(struct persistent_start *start, struct evsel *evsel,
					  struct perf_cpu cpu, int thread, int err)
{
	const char *name = evsel__name(evsel);
	char sbuf[STRERR_BUFSIZE], place[128];

	evsel__persistent_place(evsel, cpu, thread, place, sizeof(place));
	switch (err) {
	case EEXIST:
		if (!start->id)
			pr_err("--persistent=%s: the name is taken ('perf persistent list' shows by whom)\n",
			       start->spec.name ?: "");
		else
			pr_err("%s%s is listed twice\n", name, place);
		break;
	case EAGAIN:
		pr_err("%s%s: the limit on persistent events is reached; end some with 'perf persistent stop', choose fewer CPUs, tasks or events, or raise %s\n",
		       name, place, is_perfmon() ? "kernel.perf_event_persistent_max" :
						   "user.max_perf_persistent");
		break;
	case EPERM:
		pr_err("%s%s: no more memory can be locked for buffers, use a smaller %s or raise kernel.perf_event_mlock_kb\n",
		       name, place,
		       evsel->tracking && start->spec.side_band_pages ? "sideband=" : "-m");
		break;
	case EACCES:
		pr_err("%s%s cannot be made persistent without CAP_PERFMON\n", name, place);
		break;
	case EOPNOTSUPP:
		pr_err("%s%s cannot be persistent: its PMU is for one user at a time\n", name,
		       place);
		break;
	default:
		pr_err("%s%s cannot be made persistent: %s\n", name, place,
		       str_error_r(err, sbuf, sizeof(sbuf)));
	}
	return -err;
}

static void persistent_start__new_id(struct persistent_start *start,
				     struct perf_event_detach *detach)
{
	detach->name = (u64)(unsigned long)start->spec.name;
	start->setup_ttl = min(max_ttl(), (u64)SETUP_TTL * NSEC_PER_SEC);
	detach->ttl = start->setup_ttl;
	detach->flags = PERF_DETACH_UNCOMMITTED;
	start->renewed = rdclock();
}

static int persistent_start__detach_one(struct persistent_start *start, struct evsel *evsel,
					u32 member, int idx, int thread)
{
	struct perf_cpu cpu = perf_cpu_map__cpu(evsel->core.cpus, idx);
	int owner = persistent_start__buffer_owner(start, evsel, idx, thread);
	bool has_buffer = evsel__has_buffer(evsel);
	const char *label = evsel__name(evsel);
	int id, fd = PERSISTENT_FD(evsel, idx, thread);
	struct perf_event_detach detach = {
		.id	= start->id,
		.member	= member,
		.label	= (u64)(unsigned long)label,
	};

	if (!start->id)
		persistent_start__new_id(start, &detach);

	if (has_buffer && owner < 0)
		detach.buffer_pages = persistent_start__pages(start, evsel);
	if (has_buffer && owner >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, owner) < 0)
		return persistent_start__detach_error(start, evsel, cpu, thread, errno);

	id = ioctl(fd, PERF_EVENT_IOC_DETACH, &detach);
	if (id < 0)
		return persistent_start__detach_error(start, evsel, cpu, thread, errno);
	start->id = id;
	start->nr_buffers += !!detach.buffer_pages;
	start->buffer_bytes += (u64)detach.buffer_pages * page_size;
	return persistent_start__renew(start);
}

/* A leader comes before its siblings, as it does in the list. */
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

int persistent_start__query(struct persistent_start *start, struct perf_persistent_query *query)
{
	return persistent__query(PERSISTENT_FD(evlist__first(start->evlist), 0, 0), query);
}

static int persistent_start__set(struct persistent_start *start, u32 flags, u64 ttl)
{
	struct perf_persistent_set set = start->spec.set;

	set.flags = flags | PERF_PERSISTENT_SET_TTL;
	set.ttl = ttl;
	return persistent__set(PERSISTENT_FD(evlist__first(start->evlist), 0, 0), &set);
}

int persistent_start__renew(struct persistent_start *start)
{
	u64 now = rdclock();
	int err;

	if (now - start->renewed < start->setup_ttl / 4)
		return 0;

	err = persistent_start__set(start, 0, start->setup_ttl);
	if (err)
		pr_err("id %u ended before it was set up: %s\n", start->id, strerror(-err));
	start->renewed = now;
	return err;
}

/* From here on it is there to stay, for those who may use it. */
int persistent_start__commit(struct persistent_start *start)
{
	const struct perf_persistent_set *set = &start->spec.set;
	u32 flags = PERF_PERSISTENT_SET_COMMITTED | set->flags;
	int err = persistent_start__set(start, flags, set->ttl);

	if (err)
		pr_err("id %u ended before it was set up: %s\n", start->id, strerror(-err));
	return err;
}
