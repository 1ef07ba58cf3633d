// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: a call that fails half-way leaves nothing behind.
 *
 * /proc/self/fail-nth fails the first, second, ... allocation or copy of a
 * call, until the call runs to its end. The user's limits allow just what the
 * test needs, so a leaked count or charge makes the next attempt fail.
 */
#include <signal.h>

#include "persistent.h"

#define PAGES	2
#define RW	(PROT_READ | PROT_WRITE)

static const struct {
	const char *path;
	const char *value;
} knobs[] = {
	{ "/sys/kernel/debug/failslab/ignore-gfp-wait", "N" },
	{ "/sys/kernel/debug/failslab/verbose", "0" },
	{ "/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N" },
	{ "/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem", "N" },
	{ "/sys/kernel/debug/fail_page_alloc/min-order", "0" },
	{ "/sys/kernel/debug/fail_page_alloc/verbose", "0" },
	{ "/sys/kernel/debug/fail_usercopy/verbose", "0" },
};

/* The objects that the steps work on */
struct target {
	struct perf_event_attr	attr;
	struct ring		ring;
	int			fd;
	int			other;
	int			reopened;
	int			id;
	int			fail_nth;
};

FIXTURE(fault)
{
	struct registry		registry;
	char			knobs[ARRAY_LEN(knobs)][16];
	int			fail_nth;
	struct target		target;
};

/* A user who may have two instances, each with a buffer of PAGES on two CPUs */
FIXTURE_SETUP(fault)
{
	struct target *t = &self->target;
	struct rlimit none = {};
	int i;

	registry_setup(_metadata, &self->registry);
	for (i = 0; i < ARRAY_LEN(knobs); i++) {
		ASSERT_LT(0, read_file(knobs[i].path, self->knobs[i], sizeof(self->knobs[i])));
		ASSERT_EQ(0, write_file(knobs[i].path, knobs[i].value));
	}
	ASSERT_EQ(0, set_sysctl(PARANOID, 0));
	ASSERT_EQ(0, set_sysctl(MAX_USER, 2));
	ASSERT_EQ(0, set_sysctl(MLOCK_KB, (PAGES + 1) * getpagesize() / 1024));
	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &none));
	self->fail_nth = open("/proc/self/fail-nth", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->fail_nth);
	t->fail_nth = self->fail_nth;

	ASSERT_EQ(0, become(USER));
	ASSERT_EQ(0, only_capability(CAP_SYS_RESOURCE));
	t->attr = sampling_attr(CLOCK);
	t->fd = event_open(&t->attr, -1, 0, -1, 0);
	t->other = event_open(&t->attr, -1, 0, -1, 0);
	ASSERT_LE(0, t->other);
}

FIXTURE_TEARDOWN_PARENT(fault)
{
	int i;

	for (i = 0; i < ARRAY_LEN(knobs); i++)
		write_file(knobs[i].path, self->knobs[i]);
	registry_teardown(_metadata, &self->registry);
}

/* The parts of all sessions, as a text to compare */
static void registry_state(char *state, size_t size)
{
	static const char * const files[] = { "instances", "members", "buffer_bytes" };
	struct dirent *entry;
	DIR *d = opendir(REGISTRY "/ids");
	char path[512];
	size_t len;
	int i;

	len = snprintf(state, size, "%d names:", registry_count("events"));
	while (d && (entry = readdir(d))) {
		if (entry->d_name[0] == '.')
			continue;
		len += snprintf(state + len, size - len, " id");
		for (i = 0; i < ARRAY_LEN(files); i++) {
			snprintf(path, sizeof(path), REGISTRY "/ids/%s/%s", entry->d_name,
				 files[i]);
			len += snprintf(state + len, size - len, ",%lld", read_number(path));
		}
	}
	closedir(d);
}

static void inject(int fail_nth, int nth)
{
	char buf[16];

	pwrite(fail_nth, buf, snprintf(buf, sizeof(buf), "%d", nth), 0);
}

/* True if a failure was injected since; stops the injection */
static bool injected(int fail_nth)
{
	char buf[16] = "";

	pread(fail_nth, buf, sizeof(buf) - 1, 0);
	while (pwrite(fail_nth, "0", 1, 0) != 1)
		;

	return atoi(buf) == 0;
}

typedef int (*step_t)(struct target *t);

/* Run a step until it succeeds; returns the number of failures */
static int walk(struct __test_metadata *_metadata, int fail_nth, struct target *t,
		step_t step, step_t undo)
{
	char before[256], after[256];
	bool failed = true;
	int nth, ret;

	for (nth = 1; failed; nth++) {
		registry_state(before, sizeof(before));
		inject(fail_nth, nth);
		ret = step(t);
		failed = injected(fail_nth);

		if (ret >= 0)
			ASSERT_EQ(0, undo(t));
		EXPECT_TRUE(ret >= 0 || (failed && (ret == -ENOMEM || ret == -EFAULT)));
		registry_state(after, sizeof(after));
		ASSERT_STREQ(before, after) {
			TH_LOG("failure %d: %d", nth, ret);
		}
	}
	EXPECT_LE(0, ret);

	return nth - 2;
}

static int attach_fd(struct target *t)
{
	return attach(t->fd);
}

static int attach_other(struct target *t)
{
	return attach(t->other);
}

static int close_reopened(struct target *t)
{
	return close(t->reopened);
}

static int nothing(struct target *t)
{
	return 0;
}

static int detach_default(struct target *t)
{
	return detach(t->fd);
}

static int detach_all_parts(struct target *t)
{
	return DETACH(t->fd, .flags = PERF_DETACH_UNCOMMITTED, .member = 3,
		      .name = addr("name"), .label = addr("label"),
		      .ttl = 1000000000000, .buffer_pages = PAGES);
}

static int detach_mapped(struct target *t)
{
	int ret = ring_map(&t->ring, t->fd, PAGES, RW);

	if (ret)
		return ret;
	ret = detach(t->fd);
	ring_unmap(&t->ring);

	return ret;
}

static int join(struct target *t)
{
	return DETACH(t->other, .id = t->id, .member = 4,
		      .label = addr("label"), .buffer_pages = PAGES);
}

static int open_persistent(struct target *t)
{
	struct perf_event_attr attr = t->attr;

	attr.persistent = 1;
	attr.sample_period = 0;
	t->reopened = event_open(&attr, -1, 0, -1, 0);

	return t->reopened;
}

static int attach_and_close(struct target *t)
{
	return attach(t->reopened) ?: close(t->reopened);
}

static int open_by_id(struct target *t)
{
	t->reopened = reopen(t->id);

	return t->reopened;
}

static int map(struct target *t)
{
	return ring_map(&t->ring, t->fd, PAGES, RW);
}

static int unmap(struct target *t)
{
	return ring_unmap(&t->ring);
}

static int ask(struct target *t)
{
	struct answer a;

	return query(t->fd, &a);
}

static int set(struct target *t)
{
	return SET(t->fd, .flags = PERF_PERSISTENT_SET_TTL, .ttl = 1000000000000);
}

static int rename_it(struct target *t)
{
	return SET(t->fd, .flags = PERF_PERSISTENT_SET_NAME, .name = addr("other"));
}

static int rename_back(struct target *t)
{
	return SET(t->fd, .flags = PERF_PERSISTENT_SET_NAME, .name = addr("name"));
}

static int rename_to_default(struct target *t)
{
	return SET(t->fd, .flags = PERF_PERSISTENT_SET_NAME);
}

static int is_held(int fd)
{
	return state_of(fd) == PERF_PERSISTENT_STATE_HELD;
}

static int is_disabled(int fd)
{
	return state_of(fd) == PERF_PERSISTENT_STATE_DISABLED;
}

static int is_enabled(int fd)
{
	return state_of(fd) == PERF_PERSISTENT_STATE_ENABLED;
}

static int is_cleared(int fd)
{
	return total(fd) == 0;
}

#define OLD_PERIOD	1
#define NEW_PERIOD	10
#define CALLS		100
/* Names of unprivileged users have a prefix. */
#define NEW_NAME	"u1000-other"

/* Found by the samples in an overwrite buffer, whose head moves downward */
static int has_new_period(int fd)
{
	/* A sample also has the identifier, the task and the time. */
	size_t size = sizeof(struct perf_event_header) + 3 * sizeof(__u64);
	struct answer before, after;

	if (query(fd, &before))
		return -1;
	drive(TRACEPOINT, CALLS);
	if (query(fd, &after))
		return -1;

	/* The first samples are taken with the old period. */
	return before.info.buffer_head - after.info.buffer_head < CALLS / 2 * size;
}

/* -1 if only one of the two changed */
static int has_new_period_and_name(int fd)
{
	int period = has_new_period(fd);
	struct answer a;

	if (query(fd, &a))
		return -1;

	return period == !strcmp(a.info.name, NEW_NAME) ? period : -1;
}

#define OLD_FILTER	"common_pid == 1"
#define NEW_FILTER	"common_pid == 2"

/* -1 if the filter is neither of the two */
static int has_new_filter(int fd)
{
	char text[64] = "";
	struct perf_persistent_query q = { .filter = addr(text), .filter_size = sizeof(text) };

	if (event_ioctl(fd, PERF_EVENT_IOC_QUERY_PERSISTENT, &q))
		return -1;
	if (!strcmp(text, OLD_FILTER))
		return 0;

	return !strcmp(text, NEW_FILTER) ? 1 : -1;
}

/* Both instances were changed, or none if the call failed; the check itself cannot fail */
static int all_or_none(struct target *t, int ret, int (*is_done)(int fd))
{
	int one, other;
	char left[16] = "";

	pread(t->fail_nth, left, sizeof(left) - 1, 0);
	while (pwrite(t->fail_nth, "0", 1, 0) != 1)
		;
	one = is_done(t->fd);
	other = is_done(t->other);
	inject(t->fail_nth, atoi(left));

	return one == !ret && other == !ret ? ret : -EBADE;
}

static int hold_all(struct target *t)
{
	return all_or_none(t, hold(t->reopened), is_held);
}

/* Open a new view, so that the next step finds nothing held */
static int let_go(struct target *t)
{
	close(t->reopened);
	t->reopened = reopen_instance(t->id, 0);

	return t->reopened < 0 ? t->reopened : 0;
}

static int open_view(struct target *t)
{
	t->reopened = VIEW(t->id, 0, .disabled = 1, .read_format = PERF_FORMAT_ID |
			   PERF_FORMAT_LOST | PERF_FORMAT_TOTAL_TIME_ENABLED);

	return t->reopened;
}

static int disable_all(struct target *t)
{
	return all_or_none(t, session_disable(t->reopened), is_disabled);
}

static int enable_all(struct target *t)
{
	return all_or_none(t, session_enable(t->reopened), is_enabled);
}

static int clear_all(struct target *t)
{
	return all_or_none(t, SET(t->reopened, .flags = PERF_PERSISTENT_SET_CLEAR), is_cleared);
}

/* Count something that can be cleared */
static int count_again(struct target *t)
{
	int ret = session_enable(t->reopened);

	drive(CLOCK, 1);
	ret = ret ?: session_disable(t->reopened);

	return ret ?: is_cleared(t->fd) || is_cleared(t->other) ? -EBADE : 0;
}

static int set_period(struct target *t)
{
	return all_or_none(t, session_period(t->fd, NEW_PERIOD), has_new_period);
}

static int set_old_period(struct target *t)
{
	return session_period(t->fd, OLD_PERIOD);
}

static int set_period_and_name(struct target *t)
{
	return all_or_none(t, SET(t->fd, .period = NEW_PERIOD, .name = addr("other"),
				  .flags = PERF_PERSISTENT_SET_PERIOD | PERF_PERSISTENT_SET_NAME),
			   has_new_period_and_name);
}

static int set_old_period_and_name(struct target *t)
{
	return SET(t->fd, .period = OLD_PERIOD, .name = addr("name"),
		   .flags = PERF_PERSISTENT_SET_PERIOD | PERF_PERSISTENT_SET_NAME);
}

static int set_filter(struct target *t)
{
	return all_or_none(t, SET(t->fd, .flags = PERF_PERSISTENT_SET_FILTER,
				  .filter = addr(NEW_FILTER)), has_new_filter);
}

static int set_old_filter(struct target *t)
{
	return SET(t->fd, .flags = PERF_PERSISTENT_SET_FILTER, .filter = addr(OLD_FILTER));
}

static int mark(struct target *t)
{
	return SET(t->fd, .flags = PERF_PERSISTENT_SET_MARK, .mark = addr("mark"));
}

static int change_mode(struct target *t)
{
	return session_mode(t->fd, 0644);
}

static int map_for_reading(struct target *t)
{
	return ring_map(&t->ring, t->reopened, PAGES, PROT_READ);
}

/* An event of this process, with a buffer, or with its children and no buffer */
static int open_for_task(struct target *t, bool inherit)
{
	t->attr.inherit = inherit;
	close(t->fd);
	t->fd = event_open(&t->attr, 0, -1, -1, 0);

	return t->fd < 0 ? t->fd : 0;
}

static int detach_again(struct target *t)
{
	t->id = detach_all_parts(t);

	return t->id < 0 ? t->id : 0;
}

/* Detaching an event with all optional fields. */
TEST_F(fault, detach_all_parts)
{
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, detach_all_parts, attach_fd));
}

/* Detaching an event with defaults. */
TEST_F(fault, detach_default)
{
	ASSERT_EQ(0, become(0));
	ASSERT_EQ(0, set_sysctl(MLOCK_KB, 132));
	ASSERT_EQ(0, become(USER));
	ASSERT_EQ(0, only_capability(CAP_SYS_RESOURCE));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, detach_default, attach_fd));
}

/* Detaching an event with a mapped buffer. */
TEST_F(fault, detach_mapped)
{
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, detach_mapped, attach_fd));
}

/* Joining a session with a second event. */
TEST_F(fault, join)
{
	ASSERT_EQ(0, detach_again(&self->target));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, join, attach_other));
}

/* Opening an event with attr.persistent. */
TEST_F(fault, open_persistent)
{
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target,
			  open_persistent, attach_and_close));
}

/* Opening an event by id. */
TEST_F(fault, reopen)
{
	ASSERT_EQ(0, detach_again(&self->target));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, open_by_id, close_reopened));
}

/* Mapping as a consumer; a failed attempt does not lock others out. */
TEST_F(fault, map)
{
	ASSERT_EQ(0, detach_again(&self->target));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, map, unmap));
}

/* Mapping as a reader. */
TEST_F(fault, map_for_reading)
{
	ASSERT_EQ(0, detach_again(&self->target));
	ASSERT_LE(0, open_by_id(&self->target));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, map_for_reading, unmap));
}

/* Detaching an event of a task, with a buffer. */
TEST_F(fault, detach_task)
{
	ASSERT_EQ(0, open_for_task(&self->target, false));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, detach_all_parts, attach_fd));
}

/* Detaching an event of a task with its children. */
TEST_F(fault, detach_inherited)
{
	pid_t child;

	ASSERT_EQ(0, open_for_task(&self->target, true));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		pause();
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, detach_default, attach_fd));
	ASSERT_EQ(0, kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, NULL, 0));
}

/* Renaming: a session has its old name until it has the new one, and never both. */
TEST_F(fault, rename)
{
	ASSERT_EQ(0, detach_again(&self->target));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, rename_it, rename_back));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target,
			  rename_to_default, rename_back));
}

/* Opening a view with a count of its own. */
TEST_F(fault, view)
{
	ASSERT_EQ(0, detach_again(&self->target));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, open_view, close_reopened));
}

/* Holding a session: all of its instances, or none. */
TEST_F(fault, hold)
{
	ASSERT_EQ(0, detach_again(&self->target));
	ASSERT_LT(0, join(&self->target));
	ASSERT_EQ(0, let_go(&self->target));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, hold_all, let_go));
}

/* Disabling a session. */
TEST_F(fault, disable)
{
	ASSERT_EQ(0, detach_again(&self->target));
	ASSERT_LT(0, join(&self->target));
	ASSERT_EQ(0, let_go(&self->target));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, disable_all, enable_all));
}

/* Enabling a session. */
TEST_F(fault, enable)
{
	ASSERT_EQ(0, detach_again(&self->target));
	ASSERT_LT(0, join(&self->target));
	ASSERT_EQ(0, let_go(&self->target));
	ASSERT_EQ(0, disable_all(&self->target));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, enable_all, disable_all));
}

/* Clearing a session. */
TEST_F(fault, clear)
{
	ASSERT_EQ(0, detach_again(&self->target));
	ASSERT_LT(0, join(&self->target));
	ASSERT_EQ(0, let_go(&self->target));
	ASSERT_EQ(0, count_again(&self->target));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, clear_all, count_again));
}

/* Use two tracepoints instead of the clocks. */
static int open_tracepoints(struct target *t, bool sampling)
{
	int err;

	/* Reading the id of the tracepoint needs more rights than opening it. */
	err = become(0);
	t->attr = sampling ? sampling_attr(TRACEPOINT) : event_attr(TRACEPOINT);
	t->attr.write_backward = sampling;
	err = err ?: become(USER) ?: only_capability(CAP_SYS_RESOURCE);
	close(t->fd);
	close(t->other);
	t->fd = event_open(&t->attr, -1, 0, -1, 0);
	t->other = event_open(&t->attr, -1, 0, -1, 0);

	return err;
}

/* Changing the period of a session. */
TEST_F(fault, period)
{
	pin(0);
	ASSERT_EQ(0, open_tracepoints(&self->target, true));
	ASSERT_EQ(0, detach_again(&self->target));
	ASSERT_LT(0, join(&self->target));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, set_period, set_old_period));
}

/* Changing period and name of a session: both, or neither. */
TEST_F(fault, period_and_name)
{
	pin(0);
	ASSERT_EQ(0, open_tracepoints(&self->target, true));
	ASSERT_EQ(0, detach_again(&self->target));
	ASSERT_LT(0, join(&self->target));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, set_period_and_name,
			  set_old_period_and_name));
}

/* Changing the filter of a session's tracepoints. */
TEST_F(fault, filter)
{
	struct target *t = &self->target;

	ASSERT_EQ(0, open_tracepoints(t, false));
	t->id = detach(t->fd);
	ASSERT_LT(0, t->id);
	ASSERT_EQ(t->id, DETACH(t->other, .id = t->id, .member = 1));
	ASSERT_EQ(0, set_old_filter(t));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, t, set_filter, set_old_filter));
}

/* Making a mark in a session. */
TEST_F(fault, mark)
{
	ASSERT_EQ(0, detach_again(&self->target));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, mark, nothing));
}

/* Changing the mode of a session. */
TEST_F(fault, mode)
{
	ASSERT_EQ(0, detach_again(&self->target));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, change_mode, nothing));
}

/* Querying everything that can be queried. */
TEST_F(fault, query)
{
	ASSERT_EQ(0, detach_again(&self->target));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, ask, nothing));
}

/* Attaching never fails for lack of memory. */
TEST_F(fault, attach)
{
	ASSERT_EQ(0, detach_again(&self->target));
	EXPECT_LE(0, walk(_metadata, self->fail_nth, &self->target, attach_fd, detach_again));
}

/* Changing the time to live. */
TEST_F(fault, set)
{
	ASSERT_EQ(0, detach_again(&self->target));
	EXPECT_LT(0, walk(_metadata, self->fail_nth, &self->target, set, nothing));
}

int main(int argc, char **argv)
{
	if (access("/proc/self/fail-nth", F_OK)) {
		ksft_print_header();
		ksft_exit_skip("no fault injection in this kernel (CONFIG_FAULT_INJECTION)\n");
	}

	return test_harness_run(argc, argv);
}
