// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: the answers of QUERY.
 */
#include <linux/hw_breakpoint.h>

#include "persistent.h"

#define SIZE	sizeof(struct perf_persistent_query)

/* The size of the fields that do not change by themselves */
#define FIXED	offsetof(struct perf_persistent_info, count)

static int watched;

static struct perf_event_attr breakpoint(void)
{
	struct perf_event_attr attr = {
		.type		= PERF_TYPE_BREAKPOINT,
		.size		= sizeof(attr),
		.bp_type	= HW_BREAKPOINT_W,
		.bp_addr	= addr(&watched),
		.bp_len		= sizeof(watched),
		.exclude_kernel	= 1,
		.sample_period	= 1,
	};

	return attr;
}

static struct perf_event_attr probe(void)
{
	struct perf_event_attr attr = {
		.type		= read_number("/sys/bus/event_source/devices/kprobe/type"),
		.size		= sizeof(attr),
		.kprobe_func	= addr("do_nanosleep"),
	};

	return attr;
}

/* The size of the attr in the kernel; it tells a caller that passes a larger one. */
static __u32 kernel_attr_size(void)
{
	struct {
		struct perf_event_attr	attr;
		__u64			more;
	} given = { .attr.size = sizeof(given), .more = 1 };

	return event_open(&given.attr, 0, -1, -1, 0) == -E2BIG ? given.attr.size : 0;
}

/* The kernel sets the depth of call chains if none was given. */
static bool same_attr(struct perf_event_attr given, const struct perf_event_attr *seen)
{
	given.size = kernel_attr_size();
	given.sample_max_stack = read_number("/proc/sys/kernel/perf_event_max_stack");

	return !memcmp(&given, seen, sizeof(given));
}

FIXTURE(query)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	struct answer		answer;
	int			cpu;
	int			fd;
	int			id;
};

FIXTURE_VARIANT(query)
{
	enum event		event;
	bool			sampling;
	bool			loop;
};

FIXTURE_VARIANT_ADD(query, clock) { .event = CLOCK };
FIXTURE_VARIANT_ADD(query, tracepoint) { .event = TRACEPOINT };
FIXTURE_VARIANT_ADD(query, full) { .event = TRACEPOINT, .sampling = true };
FIXTURE_VARIANT_ADD(query, loop) { .event = FAULTS, .sampling = true, .loop = true };
FIXTURE_VARIANT_ADD(query, cycles) { .event = CYCLES };
FIXTURE_VARIANT_ADD(query, cycles_loop) { .event = CYCLES, .sampling = true, .loop = true };

FIXTURE_SETUP(query)
{
	if (!has_event(variant->event))
		SKIP(return, NO_EVENT);
	registry_setup(_metadata, &self->registry);

	self->cpu = pin(0);
	self->attr = variant->sampling ? sampling_attr(variant->event) :
					 event_attr(variant->event);
	self->attr.write_backward = variant->loop;
	self->fd = event_open(&self->attr, -1, self->cpu, -1, 0);
	self->id = DETACH(self->fd, .name = addr("asked"), .label = addr("the/label/"));
	ASSERT_LT(0, self->id);
	ASSERT_EQ(0, query(self->fd, &self->answer));
}

FIXTURE_TEARDOWN_PARENT(query)
{
	registry_teardown(_metadata, &self->registry);
}

/* I am told the name, the owner and the label of a session. */
TEST_F(query, id)
{
	EXPECT_STREQ("asked", self->answer.info.name);
	EXPECT_STREQ("the/label/", self->answer.label);
	EXPECT_EQ(strlen("the/label/") + 1, self->answer.info.label_size);
	EXPECT_EQ(0, self->answer.info.uid);
	EXPECT_EQ(0, self->answer.info.gid);
	EXPECT_EQ(0, self->answer.info.mode);
	EXPECT_EQ(0, self->answer.info.ended);
	EXPECT_EQ(PERF_PERSISTENT_PRIVILEGED | (variant->loop ? PERF_PERSISTENT_OVERWRITE : 0),
		  self->answer.info.flags);
}

/* I am told which instance I have open. */
TEST_F(query, self)
{
	const struct perf_persistent_info *inst = &self->answer.info.self;
	__u64 event_id = 0;

	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ID, &event_id));
	EXPECT_EQ(self->id, inst->id);
	EXPECT_EQ(0, inst->instance);
	EXPECT_EQ(0, inst->member);
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, inst->state);
	EXPECT_EQ(self->cpu, inst->cpu);
	EXPECT_EQ(-1, inst->pid);
	EXPECT_EQ(event_id, inst->event_id);
	EXPECT_EQ(variant->sampling, !!inst->buffer_id);
	EXPECT_EQ(1, self->answer.info.nr_instances);
	EXPECT_EQ(0, memcmp(inst, &self->answer.instances[0], FIXED));
}

/* I am told the count, the times and the losses of each instance. */
TEST_F(query, counts)
{
	struct perf_persistent_info *inst = &self->answer.info.self;
	__u64 before;

	drive(variant->event, 10);
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	before = inst->count;
	ASSERT_EQ(0, query(self->fd, &self->answer));
	EXPECT_LE(before + 10, inst->count);
	EXPECT_EQ(count(self->fd), inst->count);
	EXPECT_LT(0, inst->time_running);
	EXPECT_LE(inst->time_running, inst->time_enabled);
	EXPECT_EQ(0, inst->lost);
	EXPECT_EQ(0, memcmp(inst, &self->answer.instances[0], sizeof(*inst)));
}

/* I get the attr that was passed to perf_event_open(). */
TEST_F(query, attr)
{
	EXPECT_EQ(kernel_attr_size(), self->answer.info.attr_size);
	EXPECT_TRUE(same_attr(self->attr, &self->answer.attr));
}

/* The same when its period was changed since, through any file. */
TEST_F(query, attr_with_other_period)
{
	__u64 period = 12345;

	if (variant->sampling)
		ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_PERIOD, &period));
	ASSERT_EQ(0, query(reopen(self->id), &self->answer));
	EXPECT_TRUE(same_attr(self->attr, &self->answer.attr));
}

/* I am told if it is enabled. */
TEST_F(query, state)
{
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_DISABLE, NULL));
	ASSERT_EQ(0, query(self->fd, &self->answer));
	EXPECT_EQ(PERF_PERSISTENT_STATE_DISABLED, self->answer.info.self.state);
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_ENABLE, NULL));
	ASSERT_EQ(0, query(self->fd, &self->answer));
	EXPECT_EQ(PERF_PERSISTENT_STATE_ENABLED, self->answer.info.self.state);
}

/* I am told how old it is, and that its time to live is unlimited. */
TEST_F(query, times)
{
	struct answer later;

	EXPECT_EQ(0, self->answer.info.ttl);
	EXPECT_LT(0, self->answer.info.age);
	ASSERT_EQ(0, query(self->fd, &later));
	EXPECT_LT(self->answer.info.age, later.info.age);
	EXPECT_GT(PATIENCE_MS * 1000000ULL, later.info.age);
	EXPECT_EQ(0, later.info.offline_time);
	EXPECT_EQ(0, later.info.offline_count);
}

/* The pointers that I passed come back unchanged. */
TEST_F(query, pointers)
{
	EXPECT_EQ(addr(&self->answer.attr), self->answer.info.attr);
	EXPECT_EQ(addr(self->answer.label), self->answer.info.label);
	EXPECT_EQ(addr(self->answer.instances), self->answer.info.instances);
}

/* With a buffer of size 0 I am told the size that is needed. */
TEST_F(query, no_room)
{
	struct perf_persistent_query q = {};

	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_QUERY_PERSISTENT, &q));
	EXPECT_EQ(kernel_attr_size(), q.attr_size);
	EXPECT_EQ(strlen("the/label/") + 1, q.label_size);
	EXPECT_EQ(1, q.nr_instances);
}

/* With a small buffer I get as much as fits, and nothing is written beyond. */
TEST_F(query, little_room)
{
	char attr[PERF_ATTR_SIZE_VER0 + 1] = "", label[4] = "";
	struct perf_persistent_query q = {
		.attr		= addr(attr),
		.attr_size	= PERF_ATTR_SIZE_VER0,
		.label		= addr(label),
		.label_size	= 3,
	};

	attr[PERF_ATTR_SIZE_VER0] = 'x';
	label[3] = 'x';
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_QUERY_PERSISTENT, &q));
	self->attr.size = kernel_attr_size();
	EXPECT_EQ(0, memcmp(attr, &self->attr, PERF_ATTR_SIZE_VER0));
	EXPECT_EQ('x', attr[PERF_ATTR_SIZE_VER0]);
	EXPECT_EQ(0, memcmp(label, "thex", 4));
	EXPECT_EQ(kernel_attr_size(), q.attr_size);
	EXPECT_EQ(strlen("the/label/") + 1, q.label_size);
}

FIXTURE(answer)
{
	struct registry		registry;
	int			fd;
	int			id;
};

#define CPU1_ONLINE	"/sys/devices/system/cpu/cpu1/online"

FIXTURE_SETUP(answer)
{
	struct perf_event_attr attr = sampling_attr(CLOCK);

	registry_setup(_metadata, &self->registry);
	self->fd = event_open(&attr, -1, pin(0), -1, 0);
	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);
}

FIXTURE_TEARDOWN_PARENT(answer)
{
	write_file(CPU1_ONLINE, "1");
	registry_teardown(_metadata, &self->registry);
}

/* A session that was detached without a name has a name made of its id. */
TEST_F(answer, default_name)
{
	char name[PERF_PERSISTENT_NAME_MAX];
	struct answer a;

	snprintf(name, sizeof(name), "p%d", self->id);
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_STREQ(name, a.info.name);
	EXPECT_STREQ("", a.label);
	EXPECT_EQ(1, a.info.label_size);
}

/* With room for one instance of several I get the first, and the number of all. */
TEST_F(answer, some_instances)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	struct perf_persistent_info inst[2] = {};
	struct perf_persistent_query q = {
		.instances	= addr(inst),
		.nr_instances	= 1,
	};
	int i;

	for (i = 1; i <= 2; i++)
		ASSERT_EQ(self->id, DETACH(event_open(&attr, -1, 0, -1, 0),
					   .id = self->id, .member = i));
	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_QUERY_PERSISTENT, &q));
	EXPECT_EQ(3, q.nr_instances);
	EXPECT_EQ(self->id, inst[0].id);
	EXPECT_EQ(0, inst[1].id);
}

/* A newer program passes a longer struct and gets zeroes in the unknown part. */
TEST_F(answer, longer)
{
	__u64 longer[SIZE / 8 + 2] = {};
	unsigned int cmd = sized(PERF_EVENT_IOC_QUERY_PERSISTENT, sizeof(longer));

	ASSERT_EQ(0, event_ioctl(self->fd, cmd, longer));
	EXPECT_EQ(self->id, ((struct perf_persistent_query *)longer)->self.id);
	EXPECT_EQ(0, longer[SIZE / 8]);
	EXPECT_EQ(0, longer[SIZE / 8 + 1]);

	longer[SIZE / 8 + 1] = 1;
	EXPECT_EQ(-E2BIG, event_ioctl(self->fd, cmd, longer));
}

/* The input values of output fields do not matter. */
TEST_F(answer, garbage_is_overwritten)
{
	struct perf_persistent_query q = {
		.flags		= -1,
		.ttl		= -1,
		.offline_count	= -1,
		.self.lost	= -1,
		.ended		= -1,
	};

	ASSERT_EQ(0, event_ioctl(self->fd, PERF_EVENT_IOC_QUERY_PERSISTENT, &q));
	EXPECT_EQ(PERF_PERSISTENT_PRIVILEGED, q.flags);
	EXPECT_EQ(0, q.ttl);
	EXPECT_EQ(0, q.self.lost);
	EXPECT_EQ(0, q.offline_count);
	EXPECT_EQ(0, q.ended);
}

/* A struct that is too small, or at a bad address, is refused. */
TEST_F(answer, bad_struct)
{
	struct perf_persistent_query q = {};
	unsigned int cmd = sized(PERF_EVENT_IOC_QUERY_PERSISTENT, SIZE - 8);

	EXPECT_EQ(312, PERF_PERSISTENT_QUERY_SIZE_VER0);
	EXPECT_EQ(PERF_PERSISTENT_QUERY_SIZE_VER0, SIZE);
	EXPECT_EQ(-EINVAL, event_ioctl(self->fd, cmd, &q));
	EXPECT_EQ(-EFAULT, event_ioctl(self->fd, PERF_EVENT_IOC_QUERY_PERSISTENT, NULL));
}

#define EXPECT_QUERY(error, ...) do {						\
	struct perf_persistent_query q = { __VA_ARGS__ };			\
	EXPECT_EQ(error, event_ioctl(self->fd, PERF_EVENT_IOC_QUERY_PERSISTENT, &q)); \
} while (0)

/* Each bad address gives -EFAULT. */
TEST_F(answer, bad_addresses)
{
	EXPECT_QUERY(-EFAULT, .attr = 8, .attr_size = 8);
	EXPECT_QUERY(-EFAULT, .label = 8, .label_size = 8);
	EXPECT_QUERY(-EFAULT, .instances = 8, .nr_instances = 8);
	EXPECT_QUERY(0, .attr = 8, .label = 8, .instances = 8);
}

/* I am told who leads a group and who belongs to one. */
TEST_F(answer, group)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int sibling = event_open(&attr, -1, 0, self->fd, 0);
	struct answer a;

	ASSERT_EQ(self->id, DETACH(sibling, .id = self->id, .member = 1));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(PERF_PERSISTENT_PRIVILEGED | PERF_PERSISTENT_GROUP_LEADER, a.info.flags);
	ASSERT_EQ(0, query(sibling, &a));
	EXPECT_EQ(PERF_PERSISTENT_PRIVILEGED | PERF_PERSISTENT_GROUP_SIBLING, a.info.flags);
}

/* I am told that a CPU is offline, and can read what was counted there. */
TEST_F(answer, offline)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	struct ring r = {};
	struct answer a;
	int fd, id;

	if (access(CPU1_ONLINE, F_OK))
		SKIP(return, "no second CPU that can be taken offline");

	fd = event_open(&attr, -1, pin(1), -1, 0);
	id = detach(fd);
	ASSERT_LT(0, id);
	drive(TRACEPOINT, 10);
	ASSERT_EQ(0, write_file(CPU1_ONLINE, "0"));

	fd = reopen_at(id, -1, 1);
	ASSERT_EQ(0, query(fd, &a));
	EXPECT_EQ(PERF_PERSISTENT_STATE_OFFLINE, a.info.self.state);
	EXPECT_EQ(1, a.info.self.cpu);
	EXPECT_EQ(10, count(fd));
	ASSERT_EQ(0, ring_map(&r, fd, a.info.buffer_pages, PROT_READ));
	EXPECT_EQ(10, ring_samples(&r));
	EXPECT_EQ(ring_head(&r), a.info.buffer_head);
	EXPECT_EQ(0, attach(fd));
}

/* QUERY never shows the address of a breakpoint. */
TEST_F(answer, breakpoint_address)
{
	struct perf_event_attr attr = breakpoint();
	int fd = event_open(&attr, -1, 0, -1, 0);
	struct answer a;
	int id;

	id = detach(fd);
	ASSERT_LT(0, id);
	__atomic_store_n(&watched, 1, __ATOMIC_RELAXED);
	EXPECT_EQ(1, count(reopen(id)));

	ASSERT_EQ(0, query(fd, &a));
	attr.bp_addr = 0;
	EXPECT_TRUE(same_attr(attr, &a.attr));
}

/* The same for an expired event. */
TEST_F(answer, breakpoint_address_expired)
{
	struct perf_event_attr attr = breakpoint();
	int fd = event_open(&attr, -1, 0, -1, 0);
	struct answer a;

	ASSERT_LT(0, DETACH(fd, .ttl = 1));
	ASSERT_TRUE(eventually(state_of(fd) == PERF_PERSISTENT_STATE_EXPIRED));
	ASSERT_EQ(0, query(fd, &a));
	attr.bp_addr = 0;
	EXPECT_TRUE(same_attr(attr, &a.attr));
}

/* QUERY does not show the maker's pointer to the function name of a kprobe. */
TEST_F(answer, kprobe_address)
{
	struct perf_event_attr attr = probe();
	int fd = event_open(&attr, -1, 0, -1, 0);
	struct answer a;

	ASSERT_LT(0, detach(fd));
	ASSERT_EQ(0, query(fd, &a));
	attr.kprobe_func = 0;
	EXPECT_TRUE(same_attr(attr, &a.attr));
}

/* QUERY does not show sig_data, which is often an address. */
TEST_F(answer, signal_data)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	struct answer a;
	int fd;

	attr.sig_data = addr(&a);
	fd = event_open(&attr, -1, 0, -1, 0);
	ASSERT_LT(0, detach(fd));
	ASSERT_EQ(0, query(fd, &a));
	EXPECT_EQ(0, a.attr.sig_data);
}

/* I am told the filter of a tracepoint. */
TEST_F(answer, filter)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int fd = event_open(&attr, -1, 0, -1, 0);
	static const char filter[] = "__syscall_nr > 7";
	char seen[64] = "";
	struct perf_persistent_query q = {
		.filter		= addr(seen),
		.filter_size	= sizeof(seen),
	};

	ASSERT_EQ(0, event_ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter));
	ASSERT_LT(0, detach(fd));
	ASSERT_EQ(0, event_ioctl(fd, PERF_EVENT_IOC_QUERY_PERSISTENT, &q));
	EXPECT_STREQ(filter, seen);
	EXPECT_EQ(sizeof(filter), q.filter_size);
}

TEST_HARNESS_MAIN
