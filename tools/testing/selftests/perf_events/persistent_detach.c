// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: errors of DETACH, ATTACH and SET.
 */
#include "persistent.h"

#define TASK_CPU	-1
#define SIZE		sizeof(struct perf_event_detach)
#define SWITCH_ID	"/sys/kernel/tracing/events/sched/sched_switch/id"

FIXTURE(detach)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	int			cpu;
	int			fd;
};

FIXTURE_SETUP(detach)
{
	registry_setup(_metadata, &self->registry);

	self->cpu = pin(0);
	self->attr = event_attr(CLOCK);
	self->fd = event_open(&self->attr, -1, self->cpu, -1, 0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN_PARENT(detach)
{
	registry_teardown(_metadata, &self->registry);
}

/* After a refusal nothing is left behind, and a valid call still works */
static void expect_untouched(struct __test_metadata *_metadata, int fd)
{
	EXPECT_EQ(0, registry_count("ids"));
	EXPECT_EQ(0, registry_count("events"));
	EXPECT_LT(0, detach(fd));
}

#define EXPECT_REFUSED(error, fd, ret) do {	\
	EXPECT_EQ(error, ret);			\
	expect_untouched(_metadata, fd);	\
} while (0)

/* A page with @size bytes of @fill at its end, and no page after it */
static void *page_end(char fill, size_t size)
{
	size_t page = getpagesize();
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(p + page, page);
	memset(p + page - size, fill, size);

	return p + page - size;
}

/* A persistent event cannot be detached again. */
TEST_F(detach, twice)
{
	int id = detach(self->fd);

	ASSERT_LT(0, id);
	EXPECT_EQ(-EEXIST, detach(self->fd));
	EXPECT_EQ(-EEXIST, detach(reopen(id)));
	EXPECT_EQ(-EEXIST, DETACH(self->fd, .id = id, .member = 1));
	EXPECT_EQ(1, registry_count("ids"));
}

/* A name without a NUL is refused. */
TEST_F(detach, name_unterminated)
{
	EXPECT_REFUSED(-EFAULT, self->fd, DETACH(self->fd, .name = addr(page_end('a', 10))));
}

/* A label has at most 255 bytes. */
TEST_F(detach, label_too_long)
{
	char label[PERF_PERSISTENT_LABEL_MAX + 1] = "";

	memset(label, '%', PERF_PERSISTENT_LABEL_MAX);
	EXPECT_REFUSED(-EINVAL, self->fd, DETACH(self->fd, .label = addr(label)));
}

/* A label of the maximal length is kept, with any bytes in it. */
TEST_F(detach, longest_label)
{
	char label[PERF_PERSISTENT_LABEL_MAX] = "";
	struct answer a;

	memset(label, '\377', PERF_PERSISTENT_LABEL_MAX - 1);
	ASSERT_LT(0, DETACH(self->fd, .label = addr(label)));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_STREQ(label, a.label);
}

/* Bad addresses give -EFAULT. */
TEST_F(detach, bad_address)
{
	EXPECT_EQ(-EFAULT, event_ioctl(self->fd, PERF_EVENT_IOC_DETACH, (void *)8));
	EXPECT_EQ(-EFAULT, DETACH(self->fd, .name = 8));
	EXPECT_REFUSED(-EFAULT, self->fd, DETACH(self->fd, .label = 8));
}

/* Nothing beyond the end of my memory is read if a struct claims to be longer. */
TEST_F(detach, struct_unterminated)
{
	struct perf_event_detach *d = page_end(0, SIZE);

	EXPECT_REFUSED(-EFAULT, self->fd,
		       event_ioctl(self->fd, sized(PERF_EVENT_IOC_DETACH, SIZE + 8), d));
}

/* A struct smaller than the first version is refused. */
TEST_F(detach, struct_too_small)
{
	struct perf_event_detach d = {};

	EXPECT_EQ(40, PERF_EVENT_DETACH_SIZE_VER0);
	EXPECT_EQ(PERF_EVENT_DETACH_SIZE_VER0, SIZE);
	EXPECT_REFUSED(-EINVAL, self->fd,
		       event_ioctl(self->fd, sized(PERF_EVENT_IOC_DETACH, SIZE - 8), &d));
}

/* A newer program may pass a longer struct if the unknown part is zero ... */
TEST_F(detach, struct_longer)
{
	__u64 longer[SIZE / 8 + 2] = {};

	EXPECT_LT(0, event_ioctl(self->fd, sized(PERF_EVENT_IOC_DETACH, SIZE + 16), longer));
}

/* ... and gets an error if it is not. */
TEST_F(detach, struct_with_unknown_bits)
{
	__u64 longer[SIZE / 8 + 2] = { [SIZE / 8 + 1] = 1 };

	EXPECT_REFUSED(-E2BIG, self->fd,
		       event_ioctl(self->fd, sized(PERF_EVENT_IOC_DETACH, SIZE + 16), longer));
}

/* Unknown flags are refused. */
TEST_F(detach, unknown_flag)
{
	EXPECT_EQ(-EINVAL, DETACH(self->fd, .flags = 1U << 31));
	EXPECT_REFUSED(-EINVAL, self->fd, DETACH(self->fd, .flags = 1U << 2));
}

/* Joining an unknown id is refused. */
TEST_F(detach, join_unknown_id)
{
	EXPECT_EQ(-ENOENT, DETACH(self->fd, .id = INT_MAX));
	EXPECT_REFUSED(-ENOENT, self->fd, DETACH(self->fd, .id = UINT_MAX));
}

/* A joining event cannot set name, time to live and state of the session. */
TEST_F(detach, join_cannot_set_up)
{
	int other = event_open(&self->attr, -1, self->cpu, -1, 0), id = detach(other);

	ASSERT_LT(0, id);
	EXPECT_EQ(-EINVAL, DETACH(self->fd, .id = id, .member = 1, .name = addr("x")));
	EXPECT_EQ(-EINVAL, DETACH(self->fd, .id = id, .member = 1, .ttl = 1));
	EXPECT_EQ(-EINVAL, DETACH(self->fd, .id = id, .member = 1,
				  .flags = PERF_DETACH_UNCOMMITTED));
	EXPECT_EQ(id, DETACH(self->fd, .id = id, .member = 1));
}

/* The number of a buffer's pages is a power of two. */
TEST_F(detach, odd_buffer)
{
	EXPECT_REFUSED(-EINVAL, self->fd, DETACH(self->fd, .buffer_pages = 3));
}

/* A buffer larger than memory is refused. */
TEST_F(detach, huge_buffer)
{
	EXPECT_REFUSED(-ENOMEM, self->fd, DETACH(self->fd, .buffer_pages = 1U << 31));
}

/* I cannot choose another size than that of a mapped buffer. */
TEST_F(detach, other_size_than_mapped)
{
	struct ring r = {};

	ASSERT_EQ(0, ring_map(&r, self->fd, 4, PROT_READ | PROT_WRITE));
	EXPECT_REFUSED(-EINVAL, self->fd, DETACH(self->fd, .buffer_pages = 8));
}

/* An overwrite buffer that is written forward is refused: it has no start to read from. */
TEST_F(detach, forward_loop)
{
	struct ring r = {};

	ASSERT_EQ(0, ring_map(&r, self->fd, 4, PROT_READ));
	EXPECT_EQ(-EINVAL, detach(self->fd));
	EXPECT_EQ(0, ring_unmap(&r));
	expect_untouched(_metadata, self->fd);
}

/* A sigtrap event is refused: it is of no use without its task. */
TEST_F(detach, sigtrap)
{
	int fd;

	self->attr.sigtrap = 1;
	self->attr.remove_on_exec = 1;
	fd = event_open(&self->attr, 0, TASK_CPU, -1, 0);
	ASSERT_LE(0, fd);
	EXPECT_REFUSED(-EINVAL, self->fd, detach(fd));
}

/* A session can have events of a CPU, of a task, and of a task on a CPU. */
TEST_F(detach, task)
{
	int id = detach(self->fd);

	ASSERT_LT(0, id);
	EXPECT_EQ(id, DETACH(event_open(&self->attr, 0, TASK_CPU, -1, 0), .id = id));
	EXPECT_EQ(id, DETACH(event_open(&self->attr, 0, self->cpu, -1, 0), .id = id));
	EXPECT_EQ(-EEXIST, DETACH(event_open(&self->attr, 0, TASK_CPU, -1, 0), .id = id));
	EXPECT_EQ(-EEXIST, DETACH(event_open(&self->attr, 0, self->cpu, -1, 0), .id = id));
}

/* Raw samples can be detached by those who may open them: of system calls of their own task. */
TEST_F(detach, raw_samples)
{
	static const struct {
		const char	*id;
		int		pid, cpu;
		bool		allowed;
	} cases[] = {
		{ TRACEPOINT_ID, 0, TASK_CPU, true },
		{ TRACEPOINT_ID, 0, 0, true },
		{ TRACEPOINT_ID, -1, 0, false },
		{ SWITCH_ID, 0, TASK_CPU, false },
		{ SWITCH_ID, -1, 0, false },
	};
	int fd, opened, detached;
	unsigned int i;

	ASSERT_EQ(0, set_sysctl(PARANOID, 2));
	self->attr = sampling_attr(TRACEPOINT);
	self->attr.sample_type |= PERF_SAMPLE_RAW;
	self->attr.exclude_kernel = 1;

	for (i = 0; i < ARRAY_LEN(cases); i++) {
		self->attr.config = read_number(cases[i].id);
		fd = event_open(&self->attr, cases[i].pid, cases[i].cpu, -1, 0);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, become(USER));
		opened = event_open(&self->attr, cases[i].pid, cases[i].cpu, -1, 0);
		detached = DETACH(fd, .buffer_pages = 1);
		EXPECT_EQ(cases[i].allowed, opened >= 0) {
			TH_LOG("case %u: %d", i, opened);
		}
		EXPECT_EQ(cases[i].allowed, detached > 0) {
			TH_LOG("case %u: %d", i, detached);
		}
		ASSERT_EQ(0, become(0));
	}
}

/* A buffer for a task and its children on all CPUs is refused. */
TEST_F(detach, buffer_for_children)
{
	struct answer a;
	int fd;

	self->attr = sampling_attr(CLOCK);
	self->attr.inherit = 1;
	fd = event_open(&self->attr, 0, TASK_CPU, -1, 0);
	EXPECT_EQ(-EINVAL, DETACH(fd, .buffer_pages = 1));
	EXPECT_REFUSED(-EINVAL, fd, DETACH(fd, .buffer_pages = 128));
	ASSERT_EQ(0, query(fd, &a));
	EXPECT_EQ(0, a.info.buffer_pages);
	EXPECT_LT(0, DETACH(event_open(&self->attr, 0, self->cpu, -1, 0), .buffer_pages = 1));
}

/* attr.persistent is refused for the same events, and no event is opened. */
TEST_F(detach, persistent_at_open)
{
	int next = dup(self->fd);

	close(next);
	self->attr.persistent = 1;
	EXPECT_EQ(-EINVAL, event_open(&self->attr, -1, self->cpu, self->fd, 0));
	EXPECT_EQ(next, dup(self->fd));
	EXPECT_EQ(0, registry_count("ids"));
	EXPECT_LE(0, event_open(&self->attr, 0, TASK_CPU, -1, 0));
	EXPECT_EQ(1, registry_count("ids"));
}

/* A sibling is detached into the session of its leader, after the leader, and into no other. */
TEST_F(detach, sibling)
{
	int sibling = event_open(&self->attr, -1, self->cpu, self->fd, 0), other, id;

	ASSERT_LE(0, sibling);
	EXPECT_EQ(-EINVAL, detach(sibling));
	EXPECT_EQ(0, registry_count("ids"));
	other = detach(event_open(&self->attr, -1, self->cpu, -1, 0));
	ASSERT_LT(0, other);
	EXPECT_EQ(-EINVAL, DETACH(sibling, .id = other, .member = 1));

	id = detach(self->fd);
	ASSERT_LT(0, id);
	EXPECT_EQ(-EINVAL, detach(sibling));
	EXPECT_EQ(-EINVAL, DETACH(sibling, .id = other, .member = 1));
	EXPECT_EQ(id, DETACH(sibling, .id = id, .member = 1));
	EXPECT_EQ(2, registry_count("ids"));
}

/* Unknown bits of the attr are refused. */
TEST_F(detach, reserved_attr_bits)
{
	__u64 *flags = (__u64 *)&self->attr.read_format + 1;
	int bit;

	for (bit = 41; bit < 64; bit++) {
		*flags = 1ULL << bit;
		EXPECT_EQ(-EINVAL, event_open(&self->attr, -1, self->cpu, -1, 0)) {
			TH_LOG("bit %d", bit);
		}
	}

	*flags = 1ULL << 40;
	EXPECT_LE(0, event_open(&self->attr, -1, self->cpu, -1, 0));
	EXPECT_TRUE((bool)self->attr.persistent);
	EXPECT_EQ(1, registry_count("ids"));
}

/* An event that is not persistent cannot be attached. */
TEST_F(detach, attach_ordinary)
{
	EXPECT_REFUSED(-EINVAL, self->fd, attach(self->fd));
	EXPECT_EQ(0, attach(self->fd));
	EXPECT_EQ(-EINVAL, attach(self->fd));
}

/* ATTACH takes no argument. */
TEST_F(detach, attach_argument)
{
	int id = detach(self->fd);

	EXPECT_EQ(-EINVAL, event_ioctl(self->fd, PERF_EVENT_IOC_ATTACH, (void *)1));
	EXPECT_TRUE(registry_has(id));
}

/* An invalid SET is refused and changes nothing. */
TEST_F(detach, set)
{
	struct answer a;

	EXPECT_EQ(-EINVAL, SET(self->fd, .flags = PERF_PERSISTENT_SET_TTL));
	ASSERT_LT(0, DETACH(self->fd, .flags = PERF_DETACH_UNCOMMITTED));

	EXPECT_EQ(-EFAULT, event_ioctl(self->fd, PERF_EVENT_IOC_SET_PERSISTENT, NULL));
	EXPECT_EQ(-EINVAL, SET(self->fd, .flags = PERF_PERSISTENT_SET_COMMITTED,
			       .__reserved = 1));
	EXPECT_EQ(-EINVAL, SET(self->fd, .flags = 1U << 31 | PERF_PERSISTENT_SET_COMMITTED));
	EXPECT_EQ(-EINVAL, SET(self->fd, .flags = PERF_PERSISTENT_SET_COMMITTED |
						  PERF_PERSISTENT_SET_TTL, .ttl = -1ULL));
	EXPECT_EQ(-EINVAL, SET(self->fd, .name = addr("X"),
			       .flags = PERF_PERSISTENT_SET_NAME |
					PERF_PERSISTENT_SET_COMMITTED));
	EXPECT_EQ(-EFAULT, SET(self->fd, .name = 8,
			       .flags = PERF_PERSISTENT_SET_NAME |
					PERF_PERSISTENT_SET_COMMITTED));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_NE(0, a.info.flags & PERF_PERSISTENT_UNCOMMITTED);
}

/* SET's struct grows by the same rules as DETACH's. */
TEST_F(detach, set_longer)
{
	const size_t size = sizeof(struct perf_persistent_set), too_small[] = { 0, 8, 48, 56, 63 };
	__u64 longer[size / 8 + 1], last = size / 8;
	int i;

	EXPECT_EQ(64, PERF_PERSISTENT_SET_SIZE_VER0);
	EXPECT_EQ(PERF_PERSISTENT_SET_SIZE_VER0, size);
	ASSERT_LT(0, detach(self->fd));
	memset(longer, 0, sizeof(longer));
	for (i = 0; i < ARRAY_LEN(too_small); i++)
		EXPECT_EQ(-EINVAL, event_ioctl(self->fd, sized(PERF_EVENT_IOC_SET_PERSISTENT,
							       too_small[i]), longer));
	EXPECT_EQ(0, event_ioctl(self->fd, sized(PERF_EVENT_IOC_SET_PERSISTENT, size + 8),
				 longer));
	longer[last] = 1;
	EXPECT_EQ(-E2BIG, event_ioctl(self->fd, sized(PERF_EVENT_IOC_SET_PERSISTENT, size + 8),
				      longer));
}

/* Only persistent events can be held, and not through the file that was detached. */
TEST_F(detach, hold)
{
	EXPECT_EQ(-EINVAL, hold(self->fd));
	ASSERT_LT(0, detach(self->fd));
	EXPECT_EQ(-EOPNOTSUPP, hold(self->fd));
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, state_of(self->fd));
}

TEST_HARNESS_MAIN
