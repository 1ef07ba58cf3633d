// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kernel.h>
#include <linux/perf_event.h>
#include "debug.h"
#include "persistent.h"
#include "persistent-info.h"
#include "persistent-json.h"
#include "persistent-read.h"
#include "strbuf.h"
#include "tests.h"

/* What cannot be a name must never become a path. */
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

/* Side-band is left out, and so is what is no TYPE:CONFIG. */
static int test__types(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	static const char expected[] =
		"cpu-clock instructions L1-dcache-loads r1a8 breakpoint 77777:0xff";
	char types[] = "1:0x0\n1:0x9\n0:0x1\n3:0x0\njunk\n4:0x1a8\n5:0x0\n77777:0xff";
	char empty[] = "";
	struct strbuf sb;
	int err, same;

	strbuf_init(&sb, 0);
	err = persistent__parse_types(types, ' ', &sb);
	same = !strcmp(sb.buf, expected);
	if (!same)
		pr_debug("types: '%s'\n", sb.buf);
	strbuf_setlen(&sb, 0);
	err = persistent__parse_types(empty, ' ', &sb) ?: err;
	same &= !sb.len;
	strbuf_release(&sb);
	TEST_ASSERT_VAL("types", !err && same);
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

/* A label that stands for another event than the one that runs has no say. */
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
	char text[] = "a\033[31m\"\\\n\xff";
	char buf[128] = "";
	struct json_out out = { .fp = fmemopen(buf, sizeof(buf), "w") };

	TEST_ASSERT_VAL("no memory", out.fp);
	json_out__begin(&out, NULL, '[');
	json_out__string(&out, NULL, text);
	json_out__begin(&out, NULL, '{');
	json_out__number(&out, "n", 18446744073709551615ULL);
	json_out__bool(&out, "b", true);
	json_out__end(&out, '}');
	json_out__end(&out, ']');
	fclose(out.fp);
	TEST_ASSERT_VAL(buf, !strcmp(buf, "[\"a\\u001b[31m\\\"\\\\\\u000a\\u00ff\",\n"
					  "\t{\"n\": 18446744073709551615, \"b\": true}]\n"));

	TEST_ASSERT_VAL("not printable", !strcmp(persistent__printable(text), "a?[31m\"\\??"));
	return TEST_OK;
}

static struct test_case persistent_tests[] = {
	TEST_CASE("Names", names),
	TEST_CASE("Ids", ids),
	TEST_CASE("Types in sysfs", types),
	TEST_CASE("Modes", modes),
	TEST_CASE("Units of labels", units),
	TEST_CASE("Text of others", text),
	{ .name = NULL, }
};

struct test_suite suite__persistent = {
	.desc = "persistent",
	.test_cases = persistent_tests,
};
