// SPDX-License-Identifier: GPL-2.0
/*
 * perf record --persistent: set up events, give them to the kernel's registry,
 * and leave them alone.
 */
#include "persistent.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/string.h>
#include <linux/zalloc.h>
#include <perf/cpumap.h>
#include <sys/ioctl.h>
#include "callchain.h"
#include "cap.h"
#include "cpumap.h"
#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "parse-events.h"
#include "perf-sys.h"
#include "pmus.h"
#include "pmu.h"
#include "record.h"
#include "rlimit.h"
#include "string2.h"
#include <internal/evsel.h>
#include <internal/lib.h>
#include <internal/xyarray.h>

#define FD(e, x) (*(int *)xyarray__entry((e)->core.fd, x, 0))

struct persistent_start {
	struct evlist		*evlist;
	struct record_opts	*opts;
	char			*name;
	bool			until_full;
	u32			id;
};

/*
 * A name that means something already would never be found again between the
 * slashes of persistent/NAME/, or be taken for an event by whoever reads it.
 */
static bool persistent__is_word(const char *name)
{
	struct perf_pmu *pmu = perf_pmus__find(PERSISTENT_PMU);
	struct parse_events_terms terms;
	struct parse_events_error err;
	struct parse_events_term *term;
	struct evlist *evlist;
	bool word = perf_pmus__find(name) || (pmu && perf_pmu__has_format(pmu, name));

	parse_events_terms__init(&terms);
	if (parse_events_terms(&terms, name, /*input=*/NULL))
		word = true;
	list_for_each_entry(term, &terms.terms, list)
		word |= term->type_term != PARSE_EVENTS__TERM_TYPE_USER;
	parse_events_terms__exit(&terms);
	if (word)
		return true;

	evlist = evlist__new();
	if (!evlist)
		return true;
	parse_events_error__init(&err);
	word = !parse_events(evlist, name, &err);
	parse_events_error__exit(&err);
	evlist__delete(evlist);
	return word;
}

/* NAME, NAME,full or ,full for a recording that keeps the default name */
static int persistent_start__parse(struct persistent_start *start, const char *spec)
{
	char *comma;

	if (!spec)
		return 0;

	start->name = strdup(spec);
	if (!start->name)
		return -ENOMEM;

	comma = strchr(start->name, ',');
	if (comma) {
		*comma = '\0';
		if (strcmp(comma + 1, "full")) {
			pr_err("--persistent=%s: '%s' is unknown, only 'full' can follow the name\n",
			       spec, comma + 1);
			return -EINVAL;
		}
		start->until_full = true;
	}
	if (!start->name[0]) {
		zfree(&start->name);
		return comma ? 0 : -EINVAL;
	}

	if (!persistent__valid_name(start->name)) {
		pr_err("--persistent=%s: a name is a lower case letter, then letters, digits, '_', '-', at most %d\n",
		       start->name, PERF_PERSISTENT_NAME_MAX - 1);
		return -EINVAL;
	}
	if (persistent__is_word(start->name)) {
		pr_err("--persistent=%s: '%s' is a word for events already, choose another name\n",
		       start->name, start->name);
		return -EINVAL;
	}
	return 0;
}

static const char *evsel__not_persistent(struct evsel *evsel)
{
	if (evsel__leader(evsel) != evsel || evsel->core.nr_members > 1)
		return "event groups are not supported yet";
	if (evsel->precise_max)
		return "write the precise level that it is to keep (p, pp or ppp), not P";
	if (evsel__tool_event(evsel) != PERF_TOOL_NONE)
		return "it is counted by perf itself, which will not be there";
	if (evsel__is_aux_event(evsel) || evsel->needs_auxtrace_mmap)
		return "AUX area tracing cannot be persistent";
	if (!list_empty(&evsel->bpf_filters))
		return "BPF filters are not supported yet";
	if (evsel->cgrp)
		return "cgroups are not supported yet";
	if (strlen(evsel__name(evsel)) >= PERF_PERSISTENT_LABEL_MAX)
		return "its text is too long";
	return NULL;
}

/*
 * Whoever reads the recording did not choose it and may find other members in
 * the same buffer, so each record must say what, when, who and where it is.
 */
static int persistent_start__config(struct persistent_start *start)
{
	struct record_opts *opts = start->opts;
	struct evsel *evsel;
	const char *why;

	opts->overwrite = !start->until_full;
	opts->no_inherit = true;
	opts->sample_identifier = true;
	opts->build_id = true;

	evlist__uniquify_name(start->evlist);
	evlist__config(start->evlist, opts, &callchain_param);

	evlist__for_each_entry(start->evlist, evsel) {
		struct perf_event_attr *attr = &evsel->core.attr;

		why = evsel__not_persistent(evsel);
		if (why) {
			pr_err("%s cannot be persistent: %s\n", evsel__name(evsel), why);
			return -EOPNOTSUPP;
		}
		evsel__set_sample_bit(evsel, TID);
		evsel__set_sample_bit(evsel, TIME);
		evsel__set_sample_bit(evsel, CPU);
		evsel__set_sample_bit(evsel, PERIOD);
		attr->read_format = PERF_FORMAT_ID | PERF_FORMAT_LOST |
				    PERF_FORMAT_TOTAL_TIME_ENABLED |
				    PERF_FORMAT_TOTAL_TIME_RUNNING;
		attr->disabled = 1;
		attr->enable_on_exec = 0;
		/* It has no samples; a frequency would keep a timer going for ever. */
		if (evsel__is_dummy_event(evsel)) {
			attr->freq = 0;
			attr->sample_period = 1;
		}
	}
	return 0;
}

/* No fall-backs: what the kernel refuses is an error, said of that event. */
static int evsel__open_persistent(struct evsel *evsel, struct target *target)
{
	int nr = perf_cpu_map__nr(evsel->core.cpus);
	struct perf_cpu cpu;
	char msg[BUFSIZ];
	int idx;

	if (perf_evsel__alloc_fd(&evsel->core, nr, 1) < 0)
		return -ENOMEM;

	perf_cpu_map__for_each_cpu(cpu, idx, evsel->core.cpus) {
		int err, fd = sys_perf_event_open(&evsel->core.attr, -1, cpu.cpu, -1,
						  PERF_FLAG_FD_CLOEXEC);

		if (fd < 0) {
			err = errno;
			evsel__open_strerror(evsel, target, err, msg, sizeof(msg));
			pr_err("%s on CPU %d: %s\n", evsel__name(evsel), cpu.cpu, msg);
			return -err;
		}
		FD(evsel, idx) = fd;
	}
	return 0;
}

static int persistent_start__open(struct persistent_start *start)
{
	struct evsel *evsel;
	char sbuf[STRERR_BUFSIZE];
	int err;

	evlist__for_each_entry(start->evlist, evsel) {
		err = evsel__open_persistent(evsel, &start->opts->target);
		if (err)
			return err;
	}

	if (evlist__apply_filters(start->evlist, &evsel, &start->opts->target)) {
		err = -errno;
		pr_err("%s: the kernel refuses the filter \"%s\": %s\n", evsel__name(evsel),
		       evsel->filter, str_error_r(errno, sbuf, sizeof(sbuf)));
		return err;
	}
	return 0;
}

/*
 * Samples of all members go to one buffer per CPU, which its first member
 * brings. Side-band has a buffer of its own: samples come so much faster that
 * they would push out the names of the tasks that they belong to.
 */
static int evlist__buffer_owner(struct evlist *evlist, struct evsel *evsel, struct perf_cpu cpu)
{
	struct evsel *pos;
	int idx;

	evlist__for_each_entry(evlist, pos) {
		if (pos == evsel)
			break;
		idx = perf_cpu_map__idx(pos->core.cpus, cpu);
		if (idx >= 0 && pos->tracking == evsel->tracking)
			return FD(pos, idx);
	}
	return -1;
}

/*
 * A task's side-band can take more than its samples do, so it gets as much room.
 * Without the capability, what mmap() allows a user by default must do for both.
 */
static u32 persistent_start__pages(struct persistent_start *start, struct evsel *evsel)
{
	u32 pages = (512 * 1024) / page_size;
	bool used_root;

	if (start->opts->mmap_pages != UINT_MAX)
		return start->opts->mmap_pages;
	if (!perf_cap__capable(CAP_IPC_LOCK, &used_root))
		pages /= evsel->tracking ? 4 : 2;
	return max(pages, 1u);
}

static void persistent_start__detach_error(struct persistent_start *start, struct evsel *evsel,
					   int cpu, int err)
{
	char sbuf[STRERR_BUFSIZE];

	switch (err) {
	case EEXIST:
		pr_err("the name '%s' is taken ('perf persistent list' shows by whom)\n",
		       start->name ?: "");
		break;
	case EAGAIN:
		pr_err("%s on CPU %d: the limit on persistent events is reached (kernel.perf_event_persistent_* in sysctl(8))\n",
		       evsel__name(evsel), cpu);
		break;
	case EPERM:
		pr_err("%s on CPU %d: no more memory can be locked for buffers, use a smaller -m or raise kernel.perf_event_mlock_kb\n",
		       evsel__name(evsel), cpu);
		break;
	default:
		pr_err("%s on CPU %d cannot be made persistent: %s\n", evsel__name(evsel), cpu,
		       str_error_r(err, sbuf, sizeof(sbuf)));
	}
}

static int persistent_start__detach_cpu(struct persistent_start *start, struct evsel *evsel,
					int idx, struct perf_cpu cpu)
{
	int owner = evlist__buffer_owner(start->evlist, evsel, cpu);
	const char *label = evsel__name(evsel);
	struct perf_event_detach detach = {
		.size	= sizeof(detach),
		.id	= start->id,
		.member	= evsel->core.idx,
		.label	= (u64)(unsigned long)label,
	};
	int id, err;

	if (!start->id)
		detach.name = (u64)(unsigned long)start->name;
	if (owner < 0)
		detach.buffer_pages = persistent_start__pages(start, evsel);
	else if (ioctl(FD(evsel, idx), PERF_EVENT_IOC_SET_OUTPUT, owner) < 0)
		goto error;

	id = ioctl(FD(evsel, idx), PERF_EVENT_IOC_DETACH, &detach);
	if (id < 0)
		goto error;
	start->id = id;
	return 0;
error:
	err = errno;
	persistent_start__detach_error(start, evsel, cpu.cpu, err);
	return -err;
}

static int persistent_start__detach(struct persistent_start *start)
{
	struct evsel *evsel;
	struct perf_cpu cpu;
	int idx, err;

	evlist__for_each_entry(start->evlist, evsel) {
		perf_cpu_map__for_each_cpu(cpu, idx, evsel->core.cpus) {
			err = persistent_start__detach_cpu(start, evsel, idx, cpu);
			if (err)
				return err;
		}
	}

	/* Side-band comes last in the list and must not miss the first sample. */
	evlist__for_each_entry_reverse(start->evlist, evsel) {
		if (evsel__enable(evsel)) {
			err = -errno;
			pr_err("%s cannot be enabled: %m\n", evsel__name(evsel));
			return err;
		}
	}
	return 0;
}

/* Ordinary events answer EINVAL and end as they are closed. */
static void persistent_start__undo(struct persistent_start *start)
{
	struct evsel *evsel;
	bool left = false;

	if (!start->id)
		return;

	evlist__for_each_entry(start->evlist, evsel) {
		for (int idx = 0; evsel->core.fd && idx < xyarray__max_x(evsel->core.fd); idx++) {
			if (FD(evsel, idx) >= 0 &&
			    ioctl(FD(evsel, idx), PERF_EVENT_IOC_ATTACH, 0) < 0 && errno != EINVAL)
				left = true;
		}
	}

	if (left)
		pr_err("id %u could not be taken back whole, see 'perf persistent stop %u'\n",
		       start->id, start->id);
	else
		pr_err("nothing was left running\n");
}

static int persistent_start__report(struct persistent_start *start)
{
	struct perf_persistent_query query = {};
	struct evsel *evsel, *first = evlist__first(start->evlist);
	char cpus[256];
	int err = persistent__query(FD(first, 0), &query);

	if (err) {
		pr_err("id %u does not answer: %s\n", start->id, strerror(-err));
		return err;
	}

	cpu_map__snprint(first->core.cpus, cpus, sizeof(cpus));
	printf("%s: id %u,", query.name, start->id);
	evlist__for_each_entry(start->evlist, evsel) {
		if (!evsel->tracking)
			printf(" %s", evsel__name(evsel));
	}
	printf(" on CPUs %s, %zuK each, %s\n", cpus, query.buffer_pages * (size_t)page_size / 1024,
	       start->until_full ? "until full" : "overwriting the oldest");
	pr_info("[ perf record: 'perf persistent dump %s' takes a snapshot, 'perf persistent stop %s' ends it ]\n",
		query.name, query.name);
	return 0;
}

/*
 * Only SIGKILL can interrupt the set-up: a signal that ends perf in between
 * would leave a part of it.
 */
static bool interrupted(void)
{
	sigset_t pending;

	if (sigpending(&pending))
		return false;
	return sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) ||
	       sigismember(&pending, SIGHUP) || sigismember(&pending, SIGQUIT);
}

static int persistent_start__run(struct persistent_start *start)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);

	err = persistent_start__open(start);
	if (!err)
		err = persistent_start__detach(start);
	if (!err && interrupted())
		err = -EINTR;
	if (!err)
		err = persistent_start__report(start);
	if (err)
		persistent_start__undo(start);

	evlist__close(start->evlist);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return err;
}

int evlist__start_persistent(struct evlist *evlist, struct record_opts *opts, const char *spec)
{
	struct persistent_start start = { .evlist = evlist, .opts = opts };
	enum rlimit_action limit = NO_CHANGE;
	int err;

	if (persistent__type() < 0)
		return -EOPNOTSUPP;

	/* One file a member and CPU, before they are the kernel's alone. */
	rlimit__increase_nofile(&limit);
	err = persistent_start__parse(&start, spec);
	if (!err)
		err = persistent_start__config(&start);
	if (!err)
		err = persistent_start__run(&start);
	free(start.name);
	return err;
}
