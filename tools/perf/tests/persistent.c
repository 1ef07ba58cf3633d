// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include <linux/string.h>
#include "debug.h"
#include "json.h"
#include "persistent/info.h"
#include "persistent/read.h"
#include "persistent/registry.h"
#include "persistent/reopen.h"
#include "strbuf.h"
#include "strlist.h"
#include "tests.h"

/* An invalid name must never become a path. */
static int test__names(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	const char * const good[] = { "a", "web", "u1000-web", "p2a", "a_b-c9" };
	const char * const bad[] = {
		"", "9a", "-a", "_a", "Web", "a.b", "a/b", "../a", "a b", "a\n",
	};
	char name[PERF_PERSISTENT_NAME_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		TEST_ASSERT_VAL(good[i], persistent__valid_name(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		TEST_ASSERT_VAL(bad[i], !persistent__valid_name(bad[i]));

	memset(name, 'a', sizeof(name));
	name[PERF_PERSISTENT_NAME_MAX - 1] = '\0';
	TEST_ASSERT_VAL("longest name", persistent__valid_name(name));
	name[PERF_PERSISTENT_NAME_MAX - 1] = 'a';
	name[PERF_PERSISTENT_NAME_MAX] = '\0';
	TEST_ASSERT_VAL("name that is too long", !persistent__valid_name(name));
	return TEST_OK;
}

static int test__ids(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	const char * const bad[] = {
		"", "0", "-1", "+1", " 1", "1 ", "1x", "0x", "0xg", "2147483648", "4294967297",
		"18446744073709551617", "99999999999999999999",
	};
	u32 id;

	TEST_ASSERT_VAL("1", !persistent__parse_id("1", &id) && id == 1);
	TEST_ASSERT_VAL("0x2a", !persistent__parse_id("0x2a", &id) && id == 42);
	TEST_ASSERT_VAL("010 is decimal", !persistent__parse_id("010", &id) && id == 10);
	TEST_ASSERT_VAL("the last id", !persistent__parse_id("2147483647", &id) && id == INT_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		TEST_ASSERT_VAL(bad[i], persistent__parse_id(bad[i], &id) == -EINVAL);
	return TEST_OK;
}

/* Side-band is left out. */
static int test__types(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const char expected[] =
		"cpu-clock instructions L1-dcache-loads r1a8 breakpoint 77777:0xff";
	const struct persistent_types empty = {}, types = {
		.nr   = 7,
		.list = {
			{ 1, 0 }, { 1, 9 }, { 0, 1 }, { 3, 0 }, { 4, 0x1a8 }, { 5, 0 },
			{ 77777, 0xff },
		},
	};
	struct strbuf sb;
	int err, same;

	strbuf_init(&sb, 0);
	err = persistent_types__add_names(&types, ' ', &sb);
	same = !strcmp(sb.buf, expected);
	if (!same)
		pr_debug("types: '%s'\n", sb.buf);
	strbuf_setlen(&sb, 0);
	err = persistent_types__add_names(&empty, ' ', &sb) ?: err;
	same &= !sb.len;
	strbuf_release(&sb);
	TEST_ASSERT_VAL("types", !err && same);
	return TEST_OK;
}

static bool fits(const char *events, int width, const char *expected)
{
	char *text = persistent__fit_events(events, width);
	bool same = text && !strcmp(text, expected);

	if (!same)
		pr_debug("'%s' and not '%s'\n", text, expected);
	free(text);
	return same;
}

/* Print events in full if they fit, else group tracepoints, and truncate as a last resort. */
static int test__width(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const char events[] =
		"sched:a\ncpu-clock\nsched:bcd\n7:0x1\n7:0x2\nschedx:a\nsched:a";
	static const char whole[] = "sched:a cpu-clock sched:bcd 7:0x1 7:0x2 schedx:a sched:a";
	static const char groups[] = "sched:* (3) cpu-clock 7:0x1 7:0x2 schedx:a";

	TEST_ASSERT_VAL("any width", fits(events, 0, whole));
	TEST_ASSERT_VAL("same width", fits(events, 56, whole));
	TEST_ASSERT_VAL("groups", fits(events, 55, groups));
	TEST_ASSERT_VAL("groups that fit", fits(events, 42, groups));
	TEST_ASSERT_VAL("cut", fits(events, 41, "sched:* (3) cpu-clock 7:0x1 7:0x2 sche..."));
	TEST_ASSERT_VAL("little room", fits(events, 2, ".."));
	TEST_ASSERT_VAL("nothing", fits("", 1, ""));
	return TEST_OK;
}

static int test__states(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	struct perf_persistent_info instances[] = {
		{ .member = 1, .cpu = 0, .pid = -1 }, { .member = 1, .cpu = 2, .pid = -1 },
		{ .member = 3, .cpu = 1, .pid = -1 }, { .member = 3, .cpu = 3, .pid = -1 },
	};
	struct persistent_info_member members[4] = {
		[1].attr.type = PERF_TYPE_SOFTWARE, [3].attr.type = PERF_TYPE_SOFTWARE,
	};
	struct perf_persistent_query query = {};
	char buf[64];
	int nr = ARRAY_SIZE(instances);
	struct persistent_info info = { .instances = instances, .nr = nr, .members = members };

	persistent__scnprintf_state(buf, sizeof(buf), &query, instances, nr);
	TEST_ASSERT_VAL(buf, !strcmp(buf, "enabled"));
	instances[0].state = PERF_PERSISTENT_STATE_DISABLED;
	instances[1].state = PERF_PERSISTENT_STATE_OFFLINE;
	persistent__scnprintf_state(buf, sizeof(buf), &query, instances, nr);
	TEST_ASSERT_VAL(buf, !strcmp(buf, "1 of 4 offline"));
	query.flags = PERF_PERSISTENT_UNCOMMITTED;
	persistent__scnprintf_state(buf, sizeof(buf), &query, instances, nr);
	TEST_ASSERT_VAL(buf, !strcmp(buf, "setting up"));

	persistent__scnprintf_cpus(buf, sizeof(buf), instances, nr);
	TEST_ASSERT_VAL(buf, !strcmp(buf, "0-3"));
	TEST_ASSERT_VAL("no side-band", persistent_info__sort_side_band(&info) == nr);
	members[1].attr.config = PERF_COUNT_SW_DUMMY;
	TEST_ASSERT_VAL("side-band", persistent_info__sort_side_band(&info) == 2);
	persistent__scnprintf_cpus(buf, sizeof(buf), instances, 2);
	TEST_ASSERT_VAL(buf, !strcmp(buf, "1,3"));
	members[3].attr.config = PERF_COUNT_SW_DUMMY;
	TEST_ASSERT_VAL("side-band only", persistent_info__sort_side_band(&info) == nr);
	return TEST_OK;
}

static bool has_target(const struct persistent_info *info, int nr, const char *cpus,
		       const char *target)
{
	char buf[24];

	persistent_info__scnprintf_target(info, buf, sizeof(buf), nr, cpus);
	if (!strcmp(buf, target))
		return true;
	pr_debug("not '%s' but '%s'\n", target, buf);
	return false;
}

static int test__targets(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	struct perf_persistent_info instances[] = { { .pid = 7 }, { .pid = 7 }, { .pid = 7 } };
	struct persistent_info info = { .instances = instances };

	TEST_ASSERT_VAL("pid", has_target(&info, 3, "0-2", "pid 7"));
	instances[1].pid = 8;
	TEST_ASSERT_VAL("two", has_target(&info, 3, "0-2", "2 tasks"));
	instances[2].pid = 0;
	TEST_ASSERT_VAL("hidden", has_target(&info, 3, "", "tasks"));
	instances[0].event_id = 1;
	TEST_ASSERT_VAL("elsewhere", has_target(&info, 3, "", "tasks elsewhere"));
	TEST_ASSERT_VAL("unknown", has_target(&info, -EACCES, "", "tasks"));
	TEST_ASSERT_VAL("one CPU", has_target(&info, -EACCES, "3", "CPU 3"));
	TEST_ASSERT_VAL("CPUs", has_target(&info, -EACCES, "0,2-4,6", "CPUs 0,2-4,6"));
	TEST_ASSERT_VAL("more CPUs", has_target(&info, -EACCES, "0,2-4,6,8,10,12,14,16,18",
						"11 CPUs"));

	info.cgroups = strlist__new("/web", NULL);
	TEST_ASSERT_VAL("Not enough memory", info.cgroups);
	TEST_ASSERT_VAL("fits", has_target(&info, -EACCES, "3", "CPU 3 in /web"));
	TEST_ASSERT_VAL("long list", has_target(&info, -EACCES, "0,2-4,6-9", "8 CPUs in /web"));
	strlist__delete(info.cgroups);
	info.cgroups = strlist__new("/system.slice/web.service", NULL);
	TEST_ASSERT_VAL("Not enough memory", info.cgroups);
	TEST_ASSERT_VAL("end", has_target(&info, -EACCES, "3", "CPU 3 in ...web.service"));
	TEST_ASSERT_VAL("add", !strlist__add(info.cgroups, "/db"));
	TEST_ASSERT_VAL("several", has_target(&info, -EACCES, "3", "CPU 3 in 2 cgroups"));
	strlist__delete(info.cgroups);
	return TEST_OK;
}

static int test__modes(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	char buf[PERSISTENT_MODE_SIZE];

	TEST_ASSERT_VAL("0000", !strcmp(persistent__mode(0, buf), "---------"));
	TEST_ASSERT_VAL("0640", !strcmp(persistent__mode(0640, buf), "rw-r-----"));
	TEST_ASSERT_VAL("0777", !strcmp(persistent__mode(0777, buf), "rwxrwxrwx"));
	TEST_ASSERT_VAL("0701", !strcmp(persistent__mode(0701, buf), "rwx-----x"));
	return TEST_OK;
}

/* A label that describes another event than the one that runs is ignored. */
static int test__units(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE };
	char unit[32];
	double scale;

	scale = persistent__parse_unit("whatever", &attr, unit, sizeof(unit));
	TEST_ASSERT_VAL("cpu-clock", !strcmp(unit, "msec") && lround(1 / scale) == 1000000);

	attr.config = PERF_COUNT_SW_PAGE_FAULTS;
	scale = persistent__parse_unit("cpu-clock", &attr, unit, sizeof(unit));
	TEST_ASSERT_VAL("page-faults", !unit[0] && scale == 1.0);

	attr.type = PERF_TYPE_RAW;
	scale = persistent__parse_unit("cpu-clock", &attr, unit, sizeof(unit));
	TEST_ASSERT_VAL("another event's label", !unit[0] && scale == 1.0);
	scale = persistent__parse_unit("no such event\033", &attr, unit, sizeof(unit));
	TEST_ASSERT_VAL("a label that is no event", !unit[0] && scale == 1.0);
	return TEST_OK;
}

static int test__text(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	char text[] = "a\033[31m\"\\\n\xff\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x9e\xc2\x85";
	char invalid[] = "\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xe2\x82";
	static const char json[] =
		"[\"a\\u001b[31m\\\"\\\\\\u000a\\ufffd\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x9e\\u0085\",\"\\ufffd\\ufffd\\ufffd\\ufffd\",\n"
		"\t{\"n\": 18446744073709551615, \"b\": true}]\n";
	char buf[128] = "";
	struct json_out out = { .fp = fmemopen(buf, sizeof(buf), "w") };

	TEST_ASSERT_VAL("no memory", out.fp);
	json_out__begin(&out, NULL, '[');
	json_out__string(&out, NULL, text);
	json_out__string(&out, NULL, "\xc0\xaf\xe2\x82");
	json_out__begin(&out, NULL, '{');
	json_out__number(&out, "n", 18446744073709551615ULL);
	json_out__bool(&out, "b", true);
	json_out__end(&out, '}');
	json_out__end(&out, ']');
	fclose(out.fp);
	TEST_ASSERT_VAL(buf, !strcmp(buf, json));

	TEST_ASSERT_VAL("not printable",
			!strcmp(persistent__printable(text),
				"a?[31m\"\\??\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x9e??"));
	TEST_ASSERT_VAL("no UTF-8", !strcmp(persistent__printable(invalid), "???????????"));
	return TEST_OK;
}

static int test__ttls(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	const char * const bad[] = {
		"", "0", "0s", "-1", "+1", " 1", "1 ", "1x", "1hh", "s", "1.5h",
		"18446744073709551617", "4611686019s", "53377d",
	};

	TEST_ASSERT_VAL("1", persistent__parse_time("1") == 1000000000ULL);
	TEST_ASSERT_VAL("90s", persistent__parse_time("90s") == 90000000000ULL);
	TEST_ASSERT_VAL("15m", persistent__parse_time("15m") == 15 * 60000000000ULL);
	TEST_ASSERT_VAL("2h", persistent__parse_time("2h") == 2 * 3600000000000ULL);
	TEST_ASSERT_VAL("1d", persistent__parse_time("1d") == 24 * 3600000000000ULL);
	TEST_ASSERT_VAL("the longest", persistent__parse_time("4611686018s"));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		TEST_ASSERT_VAL(bad[i], !persistent__parse_time(bad[i]));
	return TEST_OK;
}

static int test__sizes(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	const char * const bad[] = {
		"", "0", "0K", "-1K", "+1K", " 1K", "1K ", "10", "10x", "10Kx", "1e3", "1.5M", "K",
		"18446744073709551617B", "8589934592G",
	};

	TEST_ASSERT_VAL("1B", persistent__parse_bytes("1B") == 1);
	TEST_ASSERT_VAL("64K", persistent__parse_bytes("64K") == 64 << 10);
	TEST_ASSERT_VAL("the largest", persistent__parse_bytes("8589934591G"));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		TEST_ASSERT_VAL(bad[i], !persistent__parse_bytes(bad[i]));
	return TEST_OK;
}

/* Other programs may choose another layout of the records. */
static int test__exit_counts(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	struct perf_event_attr attr = {
		.inherit_stat = 1,
		.read_format  = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING |
				PERF_FORMAT_ID,
	};

	TEST_ASSERT_VAL("before Linux 6.0", attr__has_exit_counts(&attr));
	attr.read_format |= PERF_FORMAT_LOST;
	TEST_ASSERT_VAL("with losses", attr__has_exit_counts(&attr));
	attr.read_format |= PERF_FORMAT_GROUP;
	TEST_ASSERT_VAL("group", !attr__has_exit_counts(&attr));
	attr.read_format = PERF_FORMAT_ID | PERF_FORMAT_LOST;
	TEST_ASSERT_VAL("no times", !attr__has_exit_counts(&attr));
	return TEST_OK;
}

/* Labels are escaped, and units are base units. */
static int test__openmetrics(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const char name[] = "perf_persistent_energy_joules_total{session=\"web\",";
	static const char labels[] =
		"event=\"a\\\"\\\\\\n\",member=\"2\",cgroup=\"/c\"} 1.5";
	struct read_line line = {
		.session = "web", .member = 2, .label = "a\"\\\n", .cgroup = "/c",
		.unit = "Joules", .scale = 0.5, .raw = 3,
		.counts = { .val = 6, .ena = 2, .run = 1 },
	};
	struct openmetrics metrics = {};
	char buf[4096] = "", *at;
	FILE *fp = fmemopen(buf, sizeof(buf), "w");
	int err;

	TEST_ASSERT_VAL("no memory", fp);
	err = openmetrics__add(&metrics, &line);
	openmetrics__print(&metrics, fp);
	openmetrics__exit(&metrics);
	fclose(fp);
	TEST_ASSERT_VAL("no memory", !err);
	at = strstr(buf, name);
	TEST_ASSERT_VAL(buf, at && strstarts(at + strlen(name), labels));
	return TEST_OK;
}

static struct test_case persistent_tests[] = {
	TEST_CASE("Names", names),
	TEST_CASE("Ids", ids),
	TEST_CASE("Types in sysfs", types),
	TEST_CASE("Events in a column", width),
	TEST_CASE("States of instances", states),
	TEST_CASE("Targets of instances", targets),
	TEST_CASE("Modes", modes),
	TEST_CASE("Units of labels", units),
	TEST_CASE("Text of others", text),
	TEST_CASE("Times to live", ttls),
	TEST_CASE("Sizes", sizes),
	TEST_CASE("Counts of tasks that have ended", exit_counts),
	TEST_CASE("OpenMetrics", openmetrics),
	{ .name = NULL, }
};

struct test_suite suite__persistent = {
	.desc = "persistent",
	.test_cases = persistent_tests,
};
