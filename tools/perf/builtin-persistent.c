// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent: list, dump and stop the recordings that the kernel keeps.
 */
#include "builtin.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/time64.h>
#include <linux/zalloc.h>
#include <subcmd/parse-options.h>
#include <sys/ioctl.h>
#include "util/cpumap.h"
#include "util/debug.h"
#include "util/evlist.h"
#include "util/evsel.h"
#include "util/persistent.h"
#include "util/persistent-evlist.h"
#include "util/persistent-output.h"
#include "util/persistent-reader.h"
#include "util/strbuf.h"
#include "util/symbol.h"
#include "util/target.h"
#include "util/trace-event.h"
#include "util/units.h"

static const char * const persistent_subcommands[] = { "list", "dump", "stop", NULL };

static const char * const persistent_usage[] = {
	"perf persistent list [-v]                        show what the kernel keeps, and whose it is",
	"perf persistent dump [-o <file>] <name|id>       write a snapshot of one, which goes on, to a perf.data",
	"perf persistent stop <name|id>...|--mine|--all   end some of them",
	NULL
};

static u64 persistent__number(u32 id, const char *file)
{
	char buf[32];

	return persistent__value(id, file, buf, sizeof(buf)) < 0 ? 0 : strtoull(buf, NULL, 0);
}

static const char *persistent__name(u32 id, char buf[PERF_PERSISTENT_NAME_MAX])
{
	return persistent__value(id, "name", buf, PERF_PERSISTENT_NAME_MAX) < 0 ? NULL : buf;
}

static const char *scnprintf_age(char *buf, size_t size, u64 ns)
{
	unsigned long secs = ns / NSEC_PER_SEC;

	if (secs < 60)
		scnprintf(buf, size, "%lus", secs);
	else if (secs < 3600)
		scnprintf(buf, size, "%lum%02lus", secs / 60, secs % 60);
	else if (secs < 86400)
		scnprintf(buf, size, "%luh%02lum", secs / 3600, secs / 60 % 60);
	else
		scnprintf(buf, size, "%lud%02luh", secs / 86400, secs / 3600 % 24);
	return buf;
}

static const char *scnprintf_owner(char *buf, size_t size, uid_t uid)
{
	struct passwd *user = getpwuid(uid);

	if (user)
		scnprintf(buf, size, "%s", user->pw_name);
	else
		scnprintf(buf, size, "%u", uid);
	return buf;
}

/*
 * Finding a name by its number reads most of tracefs, so it is done once for
 * each. Who may not read tracefs gets NULL.
 */
static const char *list__tracepoint(u64 config __maybe_unused)
{
#ifdef HAVE_LIBTRACEEVENT
	static struct tracepoint {
		u64	config;
		char	*name;
	} *known;
	static int nr;
	struct tracepoint *tmp;

	for (int i = 0; i < nr; i++) {
		if (known[i].config == config)
			return known[i].name;
	}

	tmp = realloc(known, (nr + 1) * sizeof(*known));
	if (!tmp)
		return NULL;
	known = tmp;
	known[nr] = (struct tracepoint) { config, tracepoint_id_to_name(config) };
	return known[nr++].name;
#else
	return NULL;
#endif
}

static void list__type(u32 type, u64 config, struct strbuf *sb)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr), .type = type, .config = config, .exclude_guest = 1,
	};
	const char *name = type == PERF_TYPE_TRACEPOINT ? list__tracepoint(config) : NULL;
	struct evsel *evsel = type < PERF_TYPE_TRACEPOINT ? evsel__new(&attr) : NULL;

	if (evsel)
		name = evsel__name(evsel);
	if (name)
		strbuf_addstr(sb, name);
	else
		strbuf_addf(sb, "%u:0x%llx", type, (unsigned long long)config);
	if (evsel)
		evsel__delete(evsel);
}

/*
 * Labels are text that the owner chose and only the entitled may see; sysfs
 * shows everybody what is counted.
 */
static void list__types(u32 id, struct strbuf *sb)
{
	char types[4096], *line, *next = types;
	unsigned long long config;
	u32 type;

	if (persistent__value(id, "types", types, sizeof(types)) < 0)
		return;

	while ((line = strsep(&next, "\n"))) {
		if (sscanf(line, "%u:%llx", &type, &config) != 2)
			continue;
		/* Side-band comes with every recording. */
		if (type == PERF_TYPE_SOFTWARE && config == PERF_COUNT_SW_DUMMY)
			continue;
		if (sb->len)
			strbuf_addch(sb, ' ');
		list__type(type, config, sb);
	}
}

static void list__members(u32 id)
{
	int fd = persistent__open_any(id);
	struct evlist *evlist;
	struct evsel *evsel;
	char cpus[256];

	/* The labels of others are none of the caller's business. */
	if (fd < 0)
		return;
	close(fd);

	evlist = evlist__new();
	if (!evlist)
		return;

	if (evlist__add_persistent(evlist, id, PERSISTENT_ALL) >= 0) {
		evlist__for_each_entry(evlist, evsel) {
			cpu_map__snprint(evsel->core.own_cpus, cpus, sizeof(cpus));
			printf("    member %u: %s, CPUs %s\n",
			       evsel->persistent->instances[0].member, evsel__name(evsel), cpus);
		}
	}
	evlist__delete(evlist);
}

#define LIST_FORMAT "%-20s %6s %-10s %-8s %8s %8s %8s %10s  %s\n"

static void list__print(u32 id)
{
	char name[PERF_PERSISTENT_NAME_MAX], number[16], owner[64], cpus[256] = "";
	char age[32], left[32] = "-", buffer[32], lost[32];
	u64 ns = persistent__number(id, "time_left");
	struct strbuf events;

	/* It may have ended since the folder was read. */
	if (!persistent__name(id, name))
		return;

	strbuf_init(&events, 0);
	list__types(id, &events);
	persistent__value(id, "cpus", cpus, sizeof(cpus));
	scnprintf(number, sizeof(number), "%u", id);
	scnprintf_owner(owner, sizeof(owner), persistent__number(id, "owner"));
	scnprintf_age(age, sizeof(age), persistent__number(id, "age"));
	if (ns)
		scnprintf_age(left, sizeof(left), ns);
	unit_number__scnprintf(buffer, sizeof(buffer), persistent__number(id, "buffer_bytes"));
	scnprintf(lost, sizeof(lost), "%lu", (unsigned long)persistent__number(id, "lost"));

	printf(LIST_FORMAT, name, number, owner, cpus, age, left, buffer, lost, events.buf);
	strbuf_release(&events);
	if (verbose > 0)
		list__members(id);
}

static int persistent__list(int argc, const char **argv)
{
	const struct option options[] = {
		OPT_INCR('v', "verbose", &verbose, "show each event by the name it was given"),
		OPT_END()
	};
	const char * const usage[] = { persistent_usage[0], NULL };
	u32 *ids;
	int nr;

	argc = parse_options(argc, argv, options, usage, 0);
	if (argc)
		usage_with_options(usage, options);

	if (persistent__type() < 0)
		return -EOPNOTSUPP;

	nr = persistent__ids(&ids);
	if (nr < 0) {
		pr_err("the list of persistent events cannot be read: %s\n", strerror(-nr));
		return nr;
	}

	if (nr)
		printf(LIST_FORMAT, "NAME", "ID", "OWNER", "CPUS", "AGE", "LEFT", "BUFFER", "LOST",
		       "EVENTS");
	for (int i = 0; i < nr; i++)
		list__print(ids[i]);
	free(ids);
	return 0;
}

static struct persistent_output dump_output;

/* A snapshot that is interrupted leaves nothing behind. */
static void dump__interrupted(int sig)
{
	if (dump_output.partial)
		unlink(dump_output.partial);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void dump__report(struct persistent_reader *reader, const char *name, u32 id, int lost)
{
	struct persistent_output *output = &dump_output;
	unsigned long long bytes = persistent_reader__lost_bytes(reader);
	unsigned long secs = output->horizon / NSEC_PER_SEC;
	unsigned long usecs = output->horizon % NSEC_PER_SEC / NSEC_PER_USEC;

	pr_info("[ perf persistent dump: wrote %.3f MB %s (%llu samples) of %s, id %u ]\n",
		output->bytes / 1024.0 / 1024.0, output->path,
		(unsigned long long)output->samples, name, id);
	if (bytes)
		pr_info("[ older records were overwritten: %llu bytes ]\n", bytes);
	if (lost)
		pr_info("[ lost for want of room in the buffer: %d samples ]\n", lost);
	if (output->horizon)
		pr_info("[ names of tasks that ended before %lu.%06lu are lost, %llu samples are older ]\n",
			secs, usecs, (unsigned long long)output->early_samples);
}

static int dump__write(struct evlist *evlist, struct persistent_reader *reader, const char *path)
{
	int lost, err = persistent_output__open(&dump_output, evlist, path);

	if (err)
		return err;

	err = persistent_reader__read(reader);
	if (!err)
		err = persistent_output__synthesize(&dump_output);
	if (!err) {
		persistent_output__find_horizon(&dump_output, reader);
		err = persistent_output__write(&dump_output, reader);
	}
	lost = err ?: persistent_output__write_lost(&dump_output);
	if (lost < 0) {
		persistent_output__abort(&dump_output);
		return lost;
	}
	err = persistent_output__close(&dump_output);
	return err ?: lost;
}

static int dump__run(u32 id, const char *path)
{
	char name[PERF_PERSISTENT_NAME_MAX] = "";
	struct target target = { .system_wide = true };
	struct evlist *evlist = evlist__new();
	struct persistent_reader reader = {};
	int err;

	if (!evlist)
		return -ENOMEM;

	persistent__name(id, name);
	err = evlist__add_persistent(evlist, id, PERSISTENT_ALL);
	if (err > 0)
		err = evlist__create_maps(evlist, &target);
	if (!err)
		err = evlist__reopen_persistent(evlist);
	if (!err)
		err = persistent_reader__init(&reader, evlist);
	if (!err)
		err = dump__write(evlist, &reader, path);
	if (err >= 0)
		dump__report(&reader, name, id, err);

	persistent_reader__exit(&reader);
	evlist__close(evlist);
	evlist__delete(evlist);
	return min(err, 0);
}

static int persistent__dump(int argc, const char **argv)
{
	const char *path = "perf.data";
	const struct option options[] = {
		OPT_STRING('o', "output", &path, "file", "output file name (default: perf.data)"),
		OPT_INCR('v', "verbose", &verbose, "be more verbose"),
		OPT_BOOLEAN('q', "quiet", &quiet, "do not print the summary"),
		OPT_END()
	};
	const char * const usage[] = { persistent_usage[1], NULL };
	int id;

	argc = parse_options(argc, argv, options, usage, 0);
	if (argc != 1)
		usage_with_options(usage, options);
	if (!strcmp(path, "-")) {
		pr_err("-o -: a snapshot cannot be written to a pipe yet\n");
		return -EINVAL;
	}

	id = persistent__find(argv[0]);
	if (id < 0)
		return id;

	signal(SIGINT, dump__interrupted);
	signal(SIGTERM, dump__interrupted);
	if (quiet)
		perf_quiet_option();
	symbol__init(NULL);
	return dump__run(id, path);
}

/*
 * From the last instance to the first: a group's leader cannot go before its
 * siblings.
 */
static int stop__id(u32 id)
{
	struct perf_persistent_instance *instances;
	int err = 0, nr = persistent__instances(id, &instances);
	char name[PERF_PERSISTENT_NAME_MAX] = "";

	persistent__name(id, name);
	if (nr < 0)
		err = nr;

	while (!err && nr-- > 0) {
		int fd = persistent__open(id, instances[nr].instance);

		if (fd < 0)
			err = fd;
		else if (ioctl(fd, PERF_EVENT_IOC_ATTACH, 0) < 0)
			err = -errno;
		if (fd >= 0)
			close(fd);
		/* Somebody else was faster. */
		if (err == -ENOENT || err == -EINVAL)
			err = 0;
	}
	free(instances);

	if (err)
		pr_err("%s, id %u, cannot be stopped: %s\n", name, id, err == -EACCES ?
		       "it is somebody else's, which takes CAP_PERFMON" : strerror(-err));
	else
		printf("%s: id %u stopped\n", name, id);
	return err;
}

static int stop__all(bool mine)
{
	u32 *ids;
	int err = 0, nr = persistent__ids(&ids);

	for (int i = 0; i < nr; i++) {
		if (mine && persistent__number(ids[i], "owner") != geteuid())
			continue;
		err = stop__id(ids[i]) ?: err;
	}
	free(ids);
	return nr < 0 ? nr : err;
}

static int persistent__stop(int argc, const char **argv)
{
	bool mine = false, all = false;
	const struct option options[] = {
		OPT_BOOLEAN(0, "mine", &mine, "stop all that belong to the caller"),
		OPT_BOOLEAN(0, "all", &all, "stop all, whoever they belong to"),
		OPT_INCR('v', "verbose", &verbose, "be more verbose"),
		OPT_END()
	};
	const char * const usage[] = { persistent_usage[2], NULL };
	int err = 0;

	argc = parse_options(argc, argv, options, usage, 0);
	if (mine + all + !!argc != 1)
		usage_with_options(usage, options);

	if (persistent__type() < 0)
		return -EOPNOTSUPP;
	if (mine || all)
		return stop__all(mine);

	for (int i = 0; i < argc; i++) {
		int id = persistent__find(argv[i]);

		err = (id < 0 ? id : stop__id(id)) ?: err;
	}
	return err;
}

int cmd_persistent(int argc, const char **argv)
{
	const struct option options[] = {
		OPT_END()
	};
	static const struct {
		const char	*name;
		int		(*fn)(int argc, const char **argv);
	} commands[] = {
		{ "list", persistent__list },
		{ "dump", persistent__dump },
		{ "stop", persistent__stop },
	};

	argc = parse_options_subcommand(argc, argv, options, persistent_subcommands,
					(const char **)persistent_usage,
					PARSE_OPT_STOP_AT_NON_OPTION);
	if (!argc)
		usage_with_options(persistent_usage, options);

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!strcmp(commands[i].name, argv[0]))
			return commands[i].fn(argc, argv) ? 1 : 0;
	}
	pr_err("'%s' is no subcommand of perf persistent\n", argv[0]);
	usage_with_options(persistent_usage, options);
	return 1;
}
