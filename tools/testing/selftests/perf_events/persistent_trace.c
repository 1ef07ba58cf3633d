// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: tracepoints for marks, changes and gaps, which other
 * events and the session itself can count and sample.
 */
#include <signal.h>

#include "persistent_rights.h"

#define CPUS		2
#define PAGES		4
#define CYCLES_OF_CPU	3
#define SOON		50000000ULL
#define HOUR		3600000000000ULL
#define WRONG		UINT_MAX

/* The size of a text that is one byte too long, with the NUL */
#define TOO_LONG	(PERF_PERSISTENT_MARK_MAX + 1)

/*
 * Fields of a tracepoint for an instance, for a session (-1) or a member, or for a mark (the
 * offset of the text, and its size << 16)
 */
struct report {
	__u32			common[2];
	__u32			id;
	union {
		struct {
			__u32	instance;
			__u32	nr;
			int	cpu;
			int	pid;
		};
		struct {
			int	member;
			__u32	flags;
		};
		__u32		text;
		char		bytes[PERF_PERSISTENT_MARK_MAX + 64];
	};
};

static const char *text_of(const struct report *r)
{
	return (const char *)r + (r->text & 0xffff);
}

static struct perf_event_attr trace_attr(const char *name)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_TRACEPOINT,
		.size		= sizeof(attr),
		.sample_period	= 1,
		.sample_type	= PERF_SAMPLE_RAW,
	};
	char path[128];

	snprintf(path, sizeof(path), "/sys/kernel/tracing/events/perf_persistent/%s/id", name);
	attr.config = read_number(path);

	return attr;
}

static void ring_copy(struct ring *r, __u64 pos, void *to, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		((char *)to)[i] = r->data[(pos + i) & (r->size - 1)];
}

/*
 * The number of reports in a buffer since the last call, and the last one. A
 * sample is a header, the size of the report, and the report.
 */
static unsigned int ring_reports(struct ring *r, struct report *last)
{
	const size_t before = sizeof(struct perf_event_header) + sizeof(__u32);
	__u64 pos = r->page->data_tail, head = ring_head(r);
	struct perf_event_header header;
	unsigned int n;

	for (n = 0; pos < head; n++) {
		ring_copy(r, pos, &header, sizeof(header));
		if (header.type != PERF_RECORD_SAMPLE || header.size > before + sizeof(*last))
			return WRONG;
		memset(last, 0, sizeof(*last));
		ring_copy(r, pos + before, last, header.size - before);
		pos += header.size;
	}
	r->page->data_tail = head;

	return n;
}

/* An event on each CPU that counts and samples a tracepoint */
struct watch {
	int			fds[CPUS];
	struct ring		rings[CPUS];
	__u64			counted;
};

static int watch_open(struct watch *w, const char *name)
{
	struct perf_event_attr attr = trace_attr(name);
	int cpu, err;

	w->counted = 0;
	for (cpu = 0; cpu < CPUS; cpu++) {
		w->fds[cpu] = event_open(&attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
		if (w->fds[cpu] < 0)
			return w->fds[cpu];
		err = ring_map(&w->rings[cpu], w->fds[cpu], PAGES, PROT_READ | PROT_WRITE);
		if (err)
			return err;
	}

	return 0;
}

/* Watch the reports about one session */
static int watch_session(struct watch *w, int id)
{
	char filter[32];
	int cpu, err = 0;

	snprintf(filter, sizeof(filter), "id == %d", id);
	for (cpu = 0; !err && cpu < CPUS; cpu++)
		err = event_ioctl(w->fds[cpu], PERF_EVENT_IOC_SET_FILTER, filter);

	return err;
}

/* The number of reports since the last call, if count and samples agree */
static unsigned int watch_reports(struct watch *w, struct report *last)
{
	__u64 counted = 0;
	unsigned int n = 0;
	int cpu;

	for (cpu = 0; cpu < CPUS; cpu++) {
		counted += count(w->fds[cpu]);
		n += ring_reports(&w->rings[cpu], last);
	}
	if (counted - w->counted != n)
		return WRONG;
	w->counted = counted;

	return n;
}

FIXTURE(trace)
{
	struct registry		registry;
	struct watch		watch;
	struct report		last;
	int			fd;
	int			id;
	int			view;
};

FIXTURE_SETUP(trace)
{
	struct perf_event_attr attr = event_attr(CLOCK);

	registry_setup(_metadata, &self->registry);
	pin(0);
	self->fd = event_open(&attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	self->id = DETACH(self->fd, .member = 5);
	ASSERT_LT(0, self->id);
	self->view = reopen(self->id);
	ASSERT_LE(0, self->view);
}

FIXTURE_TEARDOWN_PARENT(trace)
{
	hot_teardown(_metadata, &self->registry);
}

#define WATCH(name)	ASSERT_EQ(0, watch_open(&self->watch, name))

#define EXPECT_REPORTS(n)	EXPECT_EQ(n, watch_reports(&self->watch, &self->last))

#define EXPECT_REPORT_OF(the_id) do {	\
	EXPECT_REPORTS(1);		\
	EXPECT_EQ(the_id, self->last.id);	\
} while (0)

#define EXPECT_INSTANCE(the_id, _instance, _member, _cpu, _pid) do {	\
	EXPECT_REPORT_OF(the_id);					\
	EXPECT_EQ(_instance, self->last.instance);			\
	EXPECT_EQ(_member, self->last.nr);				\
	EXPECT_EQ(_cpu, self->last.cpu);				\
	EXPECT_EQ(_pid, self->last.pid);				\
} while (0)

/* @_member is -1 for all. */
#define EXPECT_SESSION(the_id, _member) do {	\
	EXPECT_REPORT_OF(the_id);		\
	EXPECT_EQ(_member, self->last.member);	\
} while (0)

/* Each instance that is detached is reported once, and no refused one. */
TEST_F(trace, detach)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int fd = event_open(&attr, -1, HOT_CPU, -1, 0), task = event_open(&attr, 0, -1, -1, 0), id;
	struct answer a;

	WATCH("persistent_detach");
	ASSERT_EQ(self->id, DETACH(fd, .id = self->id, .member = 5));
	EXPECT_INSTANCE(self->id, 1, 5, HOT_CPU, -1);
	id = DETACH(task, .member = 3);
	ASSERT_LT(0, id);
	EXPECT_INSTANCE(id, 0, 3, -1, getpid());

	attr.persistent = 1;
	fd = event_open(&attr, -1, 0, -1, 0);
	ASSERT_EQ(0, query(fd, &a));
	EXPECT_INSTANCE(a.info.self.id, 0, 0, 0, -1);

	EXPECT_EQ(-EEXIST, detach(fd));
	attr.persistent = 0;
	fd = event_open(&attr, -1, 0, -1, 0);
	EXPECT_EQ(-EEXIST, DETACH(fd, .id = self->id, .member = 5));
	EXPECT_EQ(-ENOENT, DETACH(fd, .id = INT_MAX));
	EXPECT_REPORTS(0);
}

/* Each instance that is attached is reported. */
TEST_F(trace, attach)
{
	WATCH("persistent_attach");
	ASSERT_EQ(0, become_powerless());
	EXPECT_EQ(-EACCES, attach(self->view));
	ASSERT_EQ(0, become_capable());
	EXPECT_REPORTS(0);
	ASSERT_EQ(0, attach(self->view));
	EXPECT_INSTANCE(self->id, 0, 5, 0, -1);
	EXPECT_EQ(-EINVAL, attach(self->view));
	EXPECT_REPORTS(0);
}

/* Enabling a session or a member is reported once, whatever its number of instances. */
TEST_F(trace, enable)
{
	struct perf_event_attr attr = event_attr(CLOCK);

	ASSERT_EQ(self->id, DETACH(event_open(&attr, -1, HOT_CPU, -1, 0), .id = self->id,
				   .member = 5));
	WATCH("persistent_enable");
	ASSERT_EQ(0, session_disable(self->view));
	EXPECT_REPORTS(0);
	ASSERT_EQ(0, session_enable(self->view));
	EXPECT_SESSION(self->id, -1);
	ASSERT_EQ(0, SET(self->fd, .flags = PERF_PERSISTENT_SET_ENABLE, .member = 6));
	EXPECT_SESSION(self->id, 5);
	EXPECT_EQ(-ENOENT, SET(self->fd, .flags = PERF_PERSISTENT_SET_ENABLE, .member = 5));
	EXPECT_REPORTS(0);
}

/* The same for disabling. */
TEST_F(trace, disable)
{
	struct perf_event_attr attr = event_attr(CLOCK);

	ASSERT_EQ(self->id, DETACH(event_open(&attr, -1, HOT_CPU, -1, 0), .id = self->id,
				   .member = 5));
	WATCH("persistent_disable");
	ASSERT_EQ(0, session_disable(self->view));
	EXPECT_SESSION(self->id, -1);
	ASSERT_EQ(0, session_enable(self->view));
	EXPECT_REPORTS(0);
	ASSERT_EQ(0, SET(self->fd, .flags = PERF_PERSISTENT_SET_DISABLE, .member = 6));
	EXPECT_SESSION(self->id, 5);
	EXPECT_EQ(-EINVAL, SET(self->fd, .flags = PERF_PERSISTENT_SET_DISABLE, .__reserved = 1));
	EXPECT_REPORTS(0);
}

/* The first hold is reported, further ones are not. */
TEST_F(trace, hold)
{
	int other = reopen(self->id);

	WATCH("persistent_hold");
	ASSERT_EQ(0, hold(self->view));
	EXPECT_SESSION(self->id, -1);
	ASSERT_EQ(0, hold(self->view));
	ASSERT_EQ(0, hold(other));
	EXPECT_REPORTS(0);
	ASSERT_EQ(0, hold_member(reopen(self->id), 5));
	EXPECT_SESSION(self->id, 5);
	close(self->view);
	close(other);
	EXPECT_REPORTS(0);
	ASSERT_EQ(0, hold(reopen(self->id)));
	EXPECT_SESSION(self->id, -1);
	EXPECT_EQ(-EOPNOTSUPP, hold(self->fd));
	EXPECT_REPORTS(0);
}

/* The last release is reported, however the holder ends. */
TEST_F(trace, release)
{
	int other = reopen(self->id), member = reopen(self->id);
	pid_t child;

	WATCH("persistent_release");
	ASSERT_EQ(0, hold(self->view));
	ASSERT_EQ(0, hold(other));
	ASSERT_EQ(0, hold_member(member, 5));
	close(self->view);
	EXPECT_REPORTS(0);
	close(other);
	EXPECT_SESSION(self->id, -1);
	close(member);
	EXPECT_SESSION(self->id, 5);

	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		if (hold(reopen(self->id)))
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	EXPECT_SESSION(self->id, -1);
	close(reopen(self->id));
	EXPECT_REPORTS(0);
}

/* The end of a session's time is reported once, and not if the time was extended. */
TEST_F(trace, expire)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int id;

	ASSERT_EQ(self->id, DETACH(event_open(&attr, -1, HOT_CPU, -1, 0), .id = self->id,
				   .member = 5));
	WATCH("persistent_expire");
	ASSERT_EQ(0, SET(self->view, .flags = PERF_PERSISTENT_SET_TTL, .ttl = SOON));
	ASSERT_EQ(0, SET(self->view, .flags = PERF_PERSISTENT_SET_TTL, .ttl = HOUR));
	id = DETACH(event_open(&attr, -1, 0, -1, 0), .ttl = 2 * SOON);
	ASSERT_LT(0, id);
	ASSERT_TRUE(eventually(!registry_has(id)));
	EXPECT_SESSION(id, -1);
	ASSERT_EQ(0, SET(self->view, .flags = PERF_PERSISTENT_SET_TTL, .ttl = SOON));
	ASSERT_TRUE(eventually(!registry_has(self->id)));
	EXPECT_SESSION(self->id, -1);
}

/* SET is reported once, with all its changes, and not if it was refused. */
TEST_F(trace, set)
{
	const __u32 both = PERF_PERSISTENT_SET_NAME | PERF_PERSISTENT_SET_TTL;
	static const __u32 one[] = {
		PERF_PERSISTENT_SET_NAME, PERF_PERSISTENT_SET_TTL, PERF_PERSISTENT_SET_COMMITTED,
		PERF_PERSISTENT_SET_UID, PERF_PERSISTENT_SET_GID, PERF_PERSISTENT_SET_MODE,
		PERF_PERSISTENT_SET_ENABLE, PERF_PERSISTENT_SET_DISABLE,
		PERF_PERSISTENT_SET_HOLD, PERF_PERSISTENT_SET_MARK,
	};
	int i;

	WATCH("persistent_set");
	for (i = 0; i < ARRAY_LEN(one); i++) {
		ASSERT_EQ(0, SET(self->view, .flags = one[i], .name = addr("name"), .ttl = HOUR,
				 .mark = addr("mark"), .member = 6));
		EXPECT_SESSION(self->id, 5);
		EXPECT_EQ(one[i], self->last.flags);
	}
	ASSERT_EQ(0, SET(self->fd, .flags = both, .name = addr("other")));
	EXPECT_SESSION(self->id, -1);
	EXPECT_EQ(both, self->last.flags);

	EXPECT_EQ(-EINVAL, SET(self->fd, .flags = both, .name = addr("Bad")));
	EXPECT_EQ(-EINVAL, SET(self->fd, .flags = PERF_PERSISTENT_SET_PERIOD, .period = 1));
	EXPECT_EQ(-EINVAL, SET(self->fd, .flags = PERF_PERSISTENT_SET_FILTER, .filter = addr("")));
	ASSERT_EQ(0, become_powerless());
	EXPECT_EQ(-EACCES, SET(self->fd, .flags = both, .name = addr("third")));
	ASSERT_EQ(0, become_capable());
	EXPECT_REPORTS(0);
}

/* A mark is reported once with its text, whatever the other changes, or not at all. */
TEST_F(trace, mark)
{
	static const __u32 others[] = { 0, PERF_PERSISTENT_SET_TTL, PERF_PERSISTENT_SET_DISABLE };
	int i;

	WATCH("persistent_mark");
	for (i = 0; i < ARRAY_LEN(others); i++) {
		ASSERT_EQ(0, SET(self->view, .flags = PERF_PERSISTENT_SET_MARK | others[i],
				 .mark = addr("now")));
		EXPECT_REPORT_OF(self->id);
		EXPECT_STREQ("now", text_of(&self->last));
	}
	EXPECT_EQ(-EINVAL, SET(self->view, .flags = PERF_PERSISTENT_SET_MARK |
						    PERF_PERSISTENT_SET_NAME,
			       .mark = addr("now"), .name = addr("Bad")));
	EXPECT_EQ(-EINVAL, SET(self->view, .flags = PERF_PERSISTENT_SET_MARK |
						    PERF_PERSISTENT_SET_PERIOD,
			       .mark = addr("now"), .period = 0));
	EXPECT_REPORTS(0);
}

/* CPU hotplug is reported each time to all events there, old and new. */
TEST_F(trace, offline_and_online)
{
	static const char * const names[] = { "persistent_offline", "persistent_online" };
	struct perf_event_attr attr = event_attr(CLOCK);
	struct watch before[2], after[2];
	struct report last = {};
	int id, i, nr;

	for (nr = 0; nr < ARRAY_LEN(names); nr++) {
		ASSERT_EQ(0, watch_open(&before[nr], names[nr]));
		ASSERT_LT(0, detach(before[nr].fds[HOT_CPU]));
	}
	id = DETACH(event_open(&attr, -1, HOT_CPU, -1, 0), .member = 7);
	ASSERT_LT(0, id);
	for (nr = 0; nr < ARRAY_LEN(names); nr++) {
		ASSERT_EQ(0, watch_open(&after[nr], names[nr]));
		ASSERT_LT(0, detach(after[nr].fds[HOT_CPU]));
		ASSERT_EQ(0, watch_session(&before[nr], id));
		ASSERT_EQ(0, watch_session(&after[nr], id));
	}

#define EXPECT_IN(watches, what) do {						\
	EXPECT_EQ(1, watch_reports(&(watches)[what], &last)) {			\
		TH_LOG("%s in " #watches ", time %d", names[what], i);		\
	}									\
	EXPECT_EQ(id, last.id);							\
	EXPECT_EQ(0, last.instance);						\
	EXPECT_EQ(7, last.nr);							\
	EXPECT_EQ(HOT_CPU, last.cpu);						\
	EXPECT_EQ(-1, last.pid);						\
} while (0)

	for (i = 0; i < CYCLES_OF_CPU; i++) {
		ASSERT_EQ(0, set_online(false));
		EXPECT_IN(before, 0);
		EXPECT_IN(after, 0);
		ASSERT_EQ(0, set_online(true));
		EXPECT_IN(before, 1);
		EXPECT_IN(after, 1);
	}
}

/* Members of a session for all tracepoints, on each CPU */
enum {
	DETACHED, ATTACHED, WENT, CAME, ENABLED, DISABLED, HELD, RELEASED, EXPIRED, CHANGED,
	MARKED, NAMES
};

static const char * const names[NAMES] = {
	"persistent_detach", "persistent_attach", "persistent_offline", "persistent_online",
	"persistent_enable", "persistent_disable", "persistent_hold", "persistent_release",
	"persistent_expire", "persistent_set", "persistent_mark",
};

FIXTURE(own)
{
	struct registry		registry;
	struct watch		members[NAMES];
	struct report		last;
	int			id;
	int			view;
};

FIXTURE_SETUP(own)
{
	int i, cpu;

	registry_setup(_metadata, &self->registry);
	pin(0);
	for (i = 0; i < NAMES; i++) {
		ASSERT_EQ(0, watch_open(&self->members[i], names[i]));
		for (cpu = 0; cpu < CPUS; cpu++) {
			self->id = DETACH(self->members[i].fds[cpu], .id = self->id, .member = i);
			ASSERT_LT(0, self->id);
		}
	}
	self->view = reopen_instance(self->id, 0);
	ASSERT_LE(0, self->view);
}

FIXTURE_TEARDOWN_PARENT(own)
{
	hot_teardown(_metadata, &self->registry);
}

#define EXPECT_OWN(what, n) do {							\
	self->last.id = self->id;							\
	EXPECT_EQ(n, watch_reports(&self->members[what], &self->last)) {		\
		TH_LOG("%s", names[what]);						\
	}										\
	EXPECT_EQ(self->id, self->last.id);						\
} while (0)

/* A mark is in the session's own buffer, with its id and my text. */
TEST_F(own, mark)
{
	char text[TOO_LONG];

	ASSERT_EQ(0, SET(self->view, .flags = PERF_PERSISTENT_SET_MARK, .mark = addr("here")));
	EXPECT_OWN(MARKED, 1);
	EXPECT_STREQ("here", text_of(&self->last));
	EXPECT_EQ(sizeof("here"), self->last.text >> 16);

	memset(text, 'x', sizeof(text));
	text[PERF_PERSISTENT_MARK_MAX - 1] = '\0';
	ASSERT_EQ(0, SET(self->view, .flags = PERF_PERSISTENT_SET_MARK, .mark = addr(text)));
	EXPECT_OWN(MARKED, 1);
	EXPECT_STREQ(text, text_of(&self->last));
	EXPECT_OWN(CHANGED, 2);
}

/* The mark is written before other changes of the same call, such as hold. */
TEST_F(own, mark_and_hold)
{
	ASSERT_EQ(0, SET(self->view, .mark = addr("here"),
			 .flags = PERF_PERSISTENT_SET_MARK | PERF_PERSISTENT_SET_HOLD));
	EXPECT_OWN(MARKED, 1);
	EXPECT_EQ(PERF_PERSISTENT_STATE_HELD, state_of(self->view));
}

/* An invalid text is refused, and none of the other changes is made. */
TEST_F(own, bad_mark)
{
	const __u32 flags = PERF_PERSISTENT_SET_MARK | PERF_PERSISTENT_SET_DISABLE;
	char text[TOO_LONG];

	memset(text, 'x', sizeof(text));
	text[PERF_PERSISTENT_MARK_MAX] = '\0';
	EXPECT_EQ(-EINVAL, SET(self->view, .flags = flags, .mark = addr(text)));
	EXPECT_EQ(-EINVAL, SET(self->view, .flags = flags, .mark = addr("")));
	EXPECT_EQ(-EINVAL, SET(self->view, .flags = flags, .mark = addr("a\nline")));
	EXPECT_EQ(-EINVAL, SET(self->view, .flags = flags, .mark = addr("\033[2J")));
	/* U+009B, which starts a control sequence as well */
	EXPECT_EQ(-EINVAL, SET(self->view, .flags = flags, .mark = addr("\xc2\x9b\x32J")));
	EXPECT_EQ(-EINVAL, SET(self->view, .flags = flags));
	EXPECT_EQ(-EFAULT, SET(self->view, .flags = flags, .mark = 8));
	EXPECT_EQ(-EFAULT, SET(self->view, .flags = flags, .mark = -1ULL));
	EXPECT_EQ(-ENOENT, SET(self->view, .flags = flags, .mark = addr("x"), .member = 100));
	EXPECT_OWN(MARKED, 0);
	EXPECT_OWN(DISABLED, 0);
	EXPECT_OWN(CHANGED, 0);
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->view));
	EXPECT_EQ(0, SET(self->view, .flags = PERF_PERSISTENT_SET_MARK,
			 .mark = addr("\xc2\xa9 \xc3\x9b")));
}

/* To mark takes the right to control, not just to read or to hold. */
TEST_F(own, right_to_mark)
{
	__u32 bits;

	for (bits = 0; bits <= 7; bits++) {
		ASSERT_EQ(0, become_capable());
		ASSERT_EQ(0, session_mode(self->view, bits));
		ASSERT_EQ(0, become_in(OTHER, NOBODYS, NOBODYS));
		EXPECT_EQ(bits & 2 ? 0 : -EACCES,
			  SET(self->view, .flags = PERF_PERSISTENT_SET_MARK, .mark = addr("x")));
		ASSERT_EQ(0, become_capable());
		EXPECT_OWN(MARKED, bits & 2 ? 1 : 0);
	}
}

/* Records in its own buffer show when the session is disabled and enabled. */
TEST_F(own, stops_and_starts)
{
	int i;

	for (i = 1; i <= 3; i++) {
		ASSERT_EQ(0, session_disable(self->view));
		ASSERT_EQ(0, SET(self->view, .flags = PERF_PERSISTENT_SET_MARK, .mark = addr("x")));
		ASSERT_EQ(0, session_enable(self->view));
		EXPECT_OWN(DISABLED, 1);
		EXPECT_OWN(ENABLED, 1);
		EXPECT_OWN(CHANGED, 1);
		EXPECT_OWN(MARKED, 0);
		ASSERT_EQ(0, hold(self->view));
		ASSERT_EQ(0, close(self->view));
		EXPECT_OWN(HELD, 1);
		EXPECT_OWN(RELEASED, 1);
		self->view = reopen_instance(self->id, i);
		ASSERT_LE(0, self->view);
	}
}

/* Records show the beginning and end of each gap of each instance. */
TEST_F(own, gaps)
{
	int i;

	for (i = 0; i < CYCLES_OF_CPU; i++) {
		ASSERT_EQ(0, set_online(false));
		EXPECT_OWN(WENT, NAMES);
		EXPECT_EQ(HOT_CPU, self->last.cpu);
		EXPECT_OWN(CAME, 0);
		ASSERT_EQ(0, set_online(true));
		EXPECT_OWN(WENT, 0);
		EXPECT_OWN(CAME, NAMES);
		EXPECT_EQ(HOT_CPU, self->last.cpu);
	}
}

/* Records show each instance that joins and leaves, the tracepoints' own as well. */
TEST_F(own, comes_and_goes)
{
	int fd = self->members[ATTACHED].fds[0];

	EXPECT_OWN(DETACHED, CPUS * NAMES);
	EXPECT_EQ(NAMES - 1, self->last.nr);
	ASSERT_EQ(0, attach(self->members[MARKED].fds[0]));
	EXPECT_OWN(ATTACHED, 1);
	EXPECT_EQ(MARKED, self->last.nr);
	ASSERT_EQ(0, attach(fd));
	EXPECT_OWN(ATTACHED, 1);
	EXPECT_EQ(ATTACHED, self->last.nr);
}

/* The end of its time is recorded, too, for those who still map the buffer. */
TEST_F(own, expires)
{
	ASSERT_EQ(0, SET(self->view, .flags = PERF_PERSISTENT_SET_TTL, .ttl = SOON));
	ASSERT_TRUE(eventually(!registry_has(self->id)));
	EXPECT_OWN(EXPIRED, 1);
	EXPECT_EQ(-1, self->last.member);
}

TEST_HARNESS_MAIN
