// SPDX-License-Identifier: GPL-2.0
/*
 * perf record, stat --persistent: check what can be persistent, and configure attrs so
 * that others can make sense of the records later.
 */
#include "start.h"

#include <errno.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/perf_event.h>
#include <internal/cpumap.h>
#include <internal/lib.h>
#include "callchain.h"
#include "debug.h"
#include "evlist.h"
#include "evsel.h"
#include "evsel_config.h"
#include "record.h"
#include "registry.h"
#include "stat.h"
#include "target.h"

/* Ordinary perf leaves out offline CPUs; here, record on all CPUs or on none. */
static int persistent__check_cpus(const struct target *target)
{
	struct perf_cpu_map *cpus, *online;
	int err = 0;

	if (!target->cpu_list)
		return 0;

	cpus = perf_cpu_map__new(target->cpu_list);
	online = perf_cpu_map__new_online_cpus();
	if (!cpus || !perf_cpu_map__is_subset(online, cpus)) {
		pr_err("-C %s: some of these CPUs are offline or do not exist\n", target->cpu_list);
		err = -ENODEV;
	}
	perf_cpu_map__put(online);
	perf_cpu_map__put(cpus);
	return err;
}

/* Events of tasks are on all CPUs. */
static int persistent__check_target(const struct target *target)
{
	const char *option = NULL;

	if (target__has_task(target) && (target->cpu_list || target->system_wide))
		option = target->cpu_list ? "-C" : "-a";
	else if (target->pid && target->tid)
		option = "-t";
	if (!option)
		return persistent__check_cpus(target);

	pr_err("--persistent: %s cannot be used with %s\n", option, target->pid ? "-p" : "-t");
	return -EINVAL;
}

/*
 * Check the options, the kernel and the target before any event. Options of record and
 * stat that are not @allowed affect only what perf does after it has opened the events.
 */
int persistent__check_start(const struct target *target, const struct option *options,
			    const char * const *allowed, const char *with)
{
	int err = persistent__check_options(options, allowed, /*allowed=*/true, with);

	if (!err && persistent__type() < 0)
		err = -EOPNOTSUPP;
	return err ?: persistent__check_target(target);
}

static const char *evsel__not_persistent(struct evsel *evsel, struct persistent_start *start)
{
	const struct perf_event_attr *attr = &evsel->core.attr;
	bool has_buffer = evsel__has_buffer(evsel);

	if (evsel->weak_group)
		return "a weak group may be split silently; leave out :W";
	if (evsel->precise_max)
		return "give a fixed precise level (p, pp or ppp) instead of P";
	if (evsel__is_non_perf_event_open_pmu(evsel) || evsel__is_retire_lat(evsel))
		return "perf itself would have to count it";
	if (evsel__is_aux_event(evsel) || evsel->needs_auxtrace_mmap)
		return "AUX area tracing needs a running perf";
	if (!list_empty(&evsel->bpf_filters))
		return "a BPF filter ends when perf exits; only tracepoints have other filters";
	if (evsel->bpf_counter)
		return "its BPF program ends when perf exits";
	if (has_buffer && attr->write_backward == start->spec.discard)
		return "all events must overwrite or, with --persistent=NAME,discard, discard";
	/* A task and its children on several CPUs cannot write to one buffer. */
	if (has_buffer && attr->inherit && perf_cpu_map__has_any_cpu(evsel->core.cpus))
		return "inherited events need a buffer per CPU, which --per-thread does not allow";
	if (attr->inherit_stat && attr->read_format & PERF_FORMAT_GROUP)
		return "with -s, the events of a group are read one by one; leave out :S";
	if (!perf_cpu_map__equal(evsel->core.cpus, evsel__leader(evsel)->core.cpus))
		return "it is not on the same CPUs as the leader of its group";
	if (strlen(evsel__name(evsel)) >= PERF_PERSISTENT_LABEL_MAX)
		return "its name is too long";
	return NULL;
}

/* A record that is larger than an overwrite buffer would overwrite its own header. */
static int evsel__check_sample_size(struct evsel *evsel, struct record_opts *opts)
{
	u64 pages = DIV_ROUND_UP(evsel->core.attr.sample_stack_user, page_size) + 1;

	if (!evsel->core.attr.sample_stack_user || !evsel->core.attr.write_backward ||
	    opts->mmap_pages >= pages)
		return 0;
	pr_err("%s: a sample with %u bytes of stack may not fit into -m %u, use -m %lu or more\n",
	       evsel__name(evsel), evsel->core.attr.sample_stack_user, opts->mmap_pages,
	       roundup_pow_of_two(pages));
	return -EINVAL;
}

static int persistent_start__check(struct persistent_start *start)
{
	struct evlist *evlist = start->evlist;
	struct evsel *evsel;
	const char *why;

	evlist__for_each_entry(evlist, evsel) {
		if (start->record && evsel__check_sample_size(evsel, start->record))
			return -EINVAL;
		why = evsel__not_persistent(evsel, start);
		if (why) {
			pr_err("%s cannot be persistent: %s\n", evsel__name(evsel), why);
			return -EOPNOTSUPP;
		}
	}

	if (evlist__nr_entries(evlist) > PERSISTENT_MAX_MEMBERS) {
		pr_err("too many events: %d, but a session has at most %d; start several sessions\n",
		       evlist__nr_entries(evlist), PERSISTENT_MAX_MEMBERS);
		return -E2BIG;
	}
	return 0;
}

/*
 * Side-band is enabled from the beginning, even with a command: the names from before are
 * needed when the other events are enabled later.
 */
static void evsel__config_dummy(struct evsel *evsel, struct target *target)
{
	struct perf_event_attr *attr = &evsel->core.attr;

	if (evsel->tracking) {
		attr->disabled = 1;
		attr->enable_on_exec = target__none(target);
	}
	attr->inherit_stat = 0;
	/* Side-band has no samples; a frequency would keep a timer running for ever. */
	attr->freq = 0;
	attr->sample_period = 1;
}

/*
 * One event of the CPU's PMU that counts in guests keeps KVM from giving guests the PMU, and
 * a persistent event stays. So require a modifier to count there; keep the name as typed.
 */
static void evsel__exclude_guests(struct evsel *evsel)
{
	if (!evsel->core.is_pmu_core || evsel->exclude_GH)
		return;
	evsel__name(evsel);
	evsel->core.attr.exclude_guest = 1;
}

static void evsel__config_persistent(struct evsel *evsel, bool overwrite)
{
	struct perf_event_attr *attr = &evsel->core.attr;

	/* With leader sampling, perf makes siblings write forward. */
	if (!evsel__get_config_term(evsel, OVERWRITE))
		attr->write_backward = overwrite;

	evsel__set_sample_bit(evsel, TID);
	evsel__set_sample_bit(evsel, TIME);
	evsel__set_sample_bit(evsel, CPU);
	/* With it, the kernel samples these each time, whatever the period. */
	if (attr->freq || evsel__is_clock(evsel) ||
	    (attr->type != PERF_TYPE_SOFTWARE && attr->type != PERF_TYPE_BREAKPOINT))
		evsel__set_sample_bit(evsel, PERIOD);

	/* GROUP is for the samples of a group; counts are read event by event. */
	attr->read_format &= PERF_FORMAT_GROUP;
	attr->read_format |= PERF_FORMAT_ID | PERF_FORMAT_LOST | PERF_FORMAT_TOTAL_TIME_ENABLED |
			     PERF_FORMAT_TOTAL_TIME_RUNNING;
}

/*
 * Readers did not choose the events, and may find other members in the same buffer, so
 * each record must tell its event, time, task and CPU.
 */
static int persistent_start__config_record(struct persistent_start *start)
{
	struct record_opts *opts = start->record;
	struct evsel *evsel;

	opts->overwrite = !start->spec.discard;
	opts->no_inherit |= target__has_cpu(start->target);
	if (opts->inherit_stat && opts->no_inherit) {
		pr_err("-s needs -p, -t or a command, and cannot be used with -i\n");
		return -EINVAL;
	}
	opts->sample_identifier = true;
	opts->build_id = true;

	evlist__uniquify_evsel_names(start->evlist, &stat_config);
	evlist__config(start->evlist, opts, &callchain_param);

	evlist__for_each_entry(start->evlist, evsel) {
		evsel__config_persistent(evsel, opts->overwrite);
		evsel__exclude_guests(evsel);
		if (evsel__is_dummy_event(evsel))
			evsel__config_dummy(evsel, start->target);
		if (!evsel->core.attr.inherit_stat)
			continue;
		/*
		 * PERF_SAMPLE_READ keeps a task from swapping contexts with a child: the
		 * child would get the one event that writes no record when its task ends.
		 */
		evsel__set_sample_bit(evsel, READ);
		if (!evsel->core.attr.sample_period)
			evsel->core.attr.freq = 0;
	}
	return 0;
}

static int persistent_start__config_stat(struct persistent_start *start)
{
	struct perf_stat_config *config = start->stat;
	struct evsel *evsel;

	if (start->spec.discard || start->spec.side_band_pages) {
		pr_err("--persistent: counts have no buffers, leave out %s\n",
		       start->spec.discard ? "discard" : "sideband=");
		return -EINVAL;
	}
	evlist__uniquify_evsel_names(start->evlist, config);

	evlist__for_each_entry(start->evlist, evsel) {
		struct perf_event_attr *attr = &evsel->core.attr;
		bool leads = evsel__is_group_leader(evsel);

		attr->read_format = PERF_FORMAT_ID | PERF_FORMAT_LOST |
				    PERF_FORMAT_TOTAL_TIME_ENABLED |
				    PERF_FORMAT_TOTAL_TIME_RUNNING;
		attr->sample_type = PERF_SAMPLE_IDENTIFIER;
		/* Tracepoints have a period by default. */
		attr->sample_period = 0;
		attr->inherit = !config->no_inherit && !target__has_cpu(start->target);
		attr->disabled = leads;
		attr->enable_on_exec = leads && target__enable_on_exec(start->target);
		if (config->all_user || config->all_kernel) {
			attr->exclude_kernel = config->all_user;
			attr->exclude_user = config->all_kernel;
		}
		evsel__exclude_guests(evsel);
	}
	return 0;
}

int persistent_start__config(struct persistent_start *start)
{
	int err = start->record ? persistent_start__config_record(start) :
				  persistent_start__config_stat(start);

	return err ?: persistent_start__check(start);
}
