// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: opening by id, and its errors.
 */
#include "persistent.h"

FIXTURE(reopen)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	int			cpu;
	int			fd;
	int			id;
};

FIXTURE_SETUP(reopen)
{
	struct perf_event_attr attr = event_attr(CLOCK);

	registry_setup(_metadata, &self->registry);

	self->cpu = pin(0);
	self->fd = event_open(&attr, -1, self->cpu, -1, 0);
	ASSERT_LE(0, self->fd);
	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);

	self->attr.type = PERF_TYPE_PERSISTENT;
	self->attr.size = sizeof(self->attr);
	self->attr.config = self->id;
}

FIXTURE_TEARDOWN_PARENT(reopen)
{
	registry_teardown(_metadata, &self->registry);
}

static int open_attr(const struct perf_event_attr *attr)
{
	return event_open(attr, -1, -1, -1, 0);
}

/* The PMU's type is the same on every kernel, and in sysfs where programs look. */
TEST_F(reopen, type)
{
	EXPECT_EQ(6, PERF_TYPE_PERSISTENT);
	EXPECT_EQ(PERF_TYPE_PERSISTENT, read_number(REGISTRY "/type"));
}

/* -ENOENT for an unknown id. */
TEST_F(reopen, unknown_id)
{
	EXPECT_EQ(-ENOENT, reopen(0));
	EXPECT_EQ(-ENOENT, reopen(self->id + 1));
	EXPECT_EQ(-ENOENT, reopen(INT_MAX));
	EXPECT_EQ(-ENOENT, reopen_at(UINT_MAX, -1, -1));
}

/* -ENOENT for the id of a session that has ended. */
TEST_F(reopen, former_id)
{
	ASSERT_EQ(0, attach(self->fd));
	EXPECT_EQ(-ENOENT, reopen(self->id));
	EXPECT_EQ(-ENOENT, reopen_instance(self->id, 0));
	EXPECT_EQ(-ENOENT, reopen_at(self->id, -1, self->cpu));
}

/* -ENOENT for an unknown instance. */
TEST_F(reopen, unknown_instance)
{
	EXPECT_LE(0, reopen_instance(self->id, 0));
	EXPECT_EQ(-ENOENT, reopen_instance(self->id, 1));
	EXPECT_EQ(-ENOENT, reopen_instance(self->id, UINT_MAX - 1));
}

/* -ENOENT for a CPU that the session does not measure. */
TEST_F(reopen, unknown_cpu)
{
	EXPECT_LE(0, reopen_at(self->id, -1, self->cpu));
	EXPECT_EQ(-ENOENT, reopen_at(self->id, -1, self->cpu + 1));
	EXPECT_EQ(-ENOENT, reopen_at(self->id, -1, INT_MAX));
}

/* -ENOENT for a task that the session does not measure, -ESRCH if there is no such task. */
TEST_F(reopen, unknown_task)
{
	EXPECT_EQ(-ESRCH, reopen_at(self->id, INT_MAX, -1));
	EXPECT_EQ(-ENOENT, reopen_at(self->id, getpid(), -1));
	EXPECT_EQ(-ENOENT, reopen_at(self->id, getpid(), self->cpu));
}

/* Negative pids and CPUs below -1 are refused. */
TEST_F(reopen, negative)
{
	EXPECT_EQ(-EINVAL, reopen_at(self->id, -1, -2));
	EXPECT_EQ(-EINVAL, reopen_at(self->id, -2, -1));
	EXPECT_EQ(-EINVAL, reopen_at(self->id, INT_MIN, self->cpu));
}

/* An instance and a CPU cannot both be given. */
TEST_F(reopen, instance_and_cpu)
{
	__u64 config = self->id | 1ULL << PERF_PERSISTENT_INSTANCE_SHIFT;

	EXPECT_LE(0, reopen_at(config, -1, -1));
	EXPECT_EQ(-EINVAL, reopen_at(config, -1, self->cpu));
	EXPECT_EQ(-EINVAL, reopen_at(config, getpid(), -1));
}

/* No flag but CLOEXEC is allowed. */
TEST_F(reopen, flags)
{
	EXPECT_LE(0, event_open(&self->attr, -1, -1, -1, PERF_FLAG_FD_CLOEXEC));
	EXPECT_EQ(-EINVAL, event_open(&self->attr, -1, -1, -1, PERF_FLAG_FD_OUTPUT));
	EXPECT_EQ(-EINVAL, event_open(&self->attr, -1, -1, -1, PERF_FLAG_FD_NO_GROUP));
	EXPECT_EQ(-EINVAL, event_open(&self->attr, -1, -1, -1, PERF_FLAG_PID_CGROUP));
	EXPECT_EQ(-EINVAL, event_open(&self->attr, -1, -1, -1, PERF_FLAG_OFFLINE_CPU));
	EXPECT_EQ(-EINVAL, event_open(&self->attr, -1, -1, -1, 1UL << 31));
}

/* The file has CLOEXEC only if I ask for it. */
TEST_F(reopen, cloexec)
{
	int fd = open_attr(&self->attr);

	EXPECT_EQ(0, fcntl(fd, F_GETFD));
	fd = event_open(&self->attr, -1, -1, -1, PERF_FLAG_FD_CLOEXEC);
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
}

/* A group cannot be given: the event has its own. */
TEST_F(reopen, group)
{
	EXPECT_EQ(-EINVAL, event_open(&self->attr, -1, -1, self->fd, 0));
	EXPECT_EQ(-EINVAL, event_open(&self->attr, -1, -1, -2, 0));
}

#define FIELD(f)	{ .f = 1 }

/* Other attr fields are refused, except those that views can choose. */
TEST_F(reopen, other_attr_fields)
{
	static const struct perf_event_attr attrs[] = {
		FIELD(sample_period), FIELD(sample_type), FIELD(pinned), FIELD(exclusive),
		FIELD(exclude_user), FIELD(exclude_kernel), FIELD(exclude_hv),
		FIELD(exclude_idle), FIELD(mmap), FIELD(comm), FIELD(freq),
		FIELD(inherit_stat), FIELD(enable_on_exec), FIELD(task),
		FIELD(watermark), FIELD(precise_ip), FIELD(mmap_data),
		FIELD(sample_id_all), FIELD(exclude_host),
		FIELD(exclude_callchain_kernel), FIELD(exclude_callchain_user),
		FIELD(mmap2), FIELD(comm_exec), FIELD(use_clockid),
		FIELD(context_switch), FIELD(write_backward), FIELD(namespaces),
		FIELD(ksymbol), FIELD(bpf_event), FIELD(aux_output), FIELD(cgroup),
		FIELD(text_poke), FIELD(build_id), FIELD(persistent),
		FIELD(wakeup_events), FIELD(bp_type), FIELD(config1), FIELD(config2),
		FIELD(config3), FIELD(branch_sample_type), FIELD(sample_regs_user),
		FIELD(sample_stack_user), FIELD(clockid), FIELD(sample_regs_intr),
		FIELD(aux_watermark), FIELD(sample_max_stack), FIELD(aux_sample_size),
		FIELD(sig_data),
		{ .inherit = 1, .inherit_thread = 1 },
		{ .remove_on_exec = 1 },
		{ .remove_on_exec = 1, .sigtrap = 1 },
		{ .sample_period = 99, .freq = 1, .sample_type = PERF_SAMPLE_IP |
		  PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD,
		  .disabled = 1, .sample_id_all = 1, .exclude_guest = 1 },
	};
	struct perf_event_attr attr;
	int i;

	for (i = 0; i < ARRAY_LEN(attrs); i++) {
		attr = attrs[i];
		attr.type = self->attr.type;
		attr.size = self->attr.size;
		attr.config = self->attr.config;
		EXPECT_EQ(-EOPNOTSUPP, open_attr(&attr)) {
			TH_LOG("attrs[%d]", i);
		}
	}
	EXPECT_LE(0, open_attr(&self->attr));
}

/* Each field can be as the event was opened with, also if two fields share 64 bits. */
TEST_F(reopen, own_attr_fields)
{
	static const struct perf_event_attr attrs[] = {
		{ .wakeup_events = 3 }, { .bp_type = 2 }, { .sample_stack_user = 8192 },
		{ .use_clockid = 1, .clockid = CLOCK_MONOTONIC }, { .aux_watermark = 4096 },
		{ .wakeup_events = 3, .bp_type = 2, .sample_stack_user = 8192, .use_clockid = 1,
		  .clockid = CLOCK_MONOTONIC, .aux_watermark = 4096 },
	};
	struct perf_event_attr own = event_attr(CLOCK), attr;
	int i, id, fd;

	own.wakeup_events = 3;
	own.bp_type = 2;
	own.sample_stack_user = 8192;
	own.use_clockid = 1;
	own.clockid = CLOCK_MONOTONIC;
	own.aux_watermark = 4096;
	fd = event_open(&own, -1, self->cpu, -1, 0);
	ASSERT_LE(0, fd);
	id = detach(fd);
	ASSERT_LT(0, id);

	for (i = 0; i < ARRAY_LEN(attrs); i++) {
		attr = attrs[i];
		attr.type = self->attr.type;
		attr.size = self->attr.size;
		attr.config = id;
		EXPECT_LE(0, open_attr(&attr)) {
			TH_LOG("attrs[%d]", i);
		}
	}
	attr.sample_stack_user = 4096;
	EXPECT_EQ(-EOPNOTSUPP, open_attr(&attr));
	attr.sample_stack_user = CLOCK_MONOTONIC;
	EXPECT_EQ(-EOPNOTSUPP, open_attr(&attr));
}

/* An old program can pass the old, short attr. */
TEST_F(reopen, short_attr)
{
	self->attr.size = PERF_ATTR_SIZE_VER0;
	EXPECT_LE(0, open_attr(&self->attr));
	self->attr.size = 0;
	EXPECT_LE(0, open_attr(&self->attr));
}

/* A new program can pass a longer attr with zeroes in the unknown part. */
TEST_F(reopen, long_attr)
{
	__u64 longer[sizeof(self->attr) / 8 + 2] = {};
	struct perf_event_attr *attr = (void *)longer;

	*attr = self->attr;
	attr->size = sizeof(longer);
	EXPECT_LE(0, open_attr(attr));

	longer[ARRAY_LEN(longer) - 1] = 1;
	EXPECT_EQ(-E2BIG, open_attr(attr));
}

/* A bad address gives -EFAULT. */
TEST_F(reopen, bad_address)
{
	EXPECT_EQ(-EFAULT, open_attr(NULL));
}

/* If I have no descriptors left I get -EMFILE, and nothing is leaked. */
TEST_F(reopen, no_more_descriptors)
{
	struct rlimit none = { .rlim_max = 1024 }, some = { 1024, 1024 };

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &none));
	EXPECT_EQ(-EMFILE, reopen(self->id));
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &some));
	EXPECT_LE(0, reopen(self->id));
}

/* Each reopened descriptor has its own file flags. */
TEST_F(reopen, files_of_their_own)
{
	int one = reopen(self->id), two = reopen(self->id);

	ASSERT_EQ(0, fcntl(one, F_SETFL, O_NONBLOCK));
	EXPECT_NE(0, fcntl(one, F_GETFL) & O_NONBLOCK);
	EXPECT_EQ(0, fcntl(two, F_GETFL) & O_NONBLOCK);
	EXPECT_EQ(0, fcntl(self->fd, F_GETFL) & O_NONBLOCK);
}

/* Siblings can be added to the detached file, not to a reopened one. */
TEST_F(reopen, new_sibling)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int sibling = event_open(&attr, -1, self->cpu, self->fd, 0);

	EXPECT_EQ(-EBADF, event_open(&attr, -1, self->cpu, reopen(self->id), 0));
	ASSERT_LE(0, sibling);
	EXPECT_EQ(self->id, DETACH(sibling, .id = self->id, .member = 1));
}

/* The registry's ioctls tell an ordinary event from a persistent one. */
TEST_F(reopen, query_after_attach)
{
	struct answer a;

	EXPECT_EQ(0, query(self->fd, &a));
	ASSERT_EQ(0, attach(self->fd));
	EXPECT_EQ(-EINVAL, query(self->fd, &a));
}

/* An unknown ioctl gets the same error as ever. */
TEST_F(reopen, unknown_ioctl)
{
	int fd = reopen(self->id), nr;

	for (nr = 16; nr < 20; nr++) {
		EXPECT_EQ(-ENOTTY, event_ioctl(self->fd, _IO('$', nr), NULL));
		EXPECT_EQ(-ENOTTY, event_ioctl(fd, _IO('$', nr), NULL));
	}
}

#ifdef __x86_64__

#define COMPAT_GETPID		20
#define COMPAT_IOCTL		54
#define COMPAT_PERF_EVENT_OPEN	336

static int compat_syscall(int nr, long a, long b, long c, long d, long e)
{
	int ret;

	asm volatile("int $0x80"
		     : "=a" (ret)
		     : "a" (nr), "b" (a), "c" (b), "d" (c), "S" (d), "D" (e)
		     : "memory", "r8", "r9", "r10", "r11");

	return ret;
}

static bool has_compat(void)
{
	pid_t child = fork();
	int status = -1;

	if (!child)
		_exit(compat_syscall(COMPAT_GETPID, 0, 0, 0, 0, 0) != getpid());
	waitpid(child, &status, 0);

	return !status;
}

/* A 32-bit program has the same structs and gets the same answers. */
TEST_F(reopen, compat)
{
	struct {
		struct perf_event_detach	detach;
		struct perf_persistent_query	query;
		struct perf_event_attr		attr;
		char				name[8];
	} *low = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	int fd;

	if (!has_compat())
		SKIP(return, "no 32-bit system calls (CONFIG_IA32_EMULATION)");

	ASSERT_NE(MAP_FAILED, low);
	memcpy(low->name, "low", sizeof("low"));
	low->detach.name = addr(low->name);
	low->query.attr = addr(&low->attr);
	low->query.attr_size = sizeof(low->attr);
	low->attr = self->attr;

	fd = compat_syscall(COMPAT_PERF_EVENT_OPEN, addr(&low->attr), -1, -1, -1, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, compat_syscall(COMPAT_IOCTL, fd, PERF_EVENT_IOC_ATTACH, 0, 0, 0));
	ASSERT_LT(self->id, compat_syscall(COMPAT_IOCTL, fd, PERF_EVENT_IOC_DETACH,
					   addr(&low->detach), 0, 0));
	ASSERT_EQ(0, compat_syscall(COMPAT_IOCTL, fd, PERF_EVENT_IOC_QUERY_PERSISTENT,
				    addr(&low->query), 0, 0));
	EXPECT_STREQ("low", low->query.name);
	EXPECT_EQ(PERF_TYPE_SOFTWARE, low->attr.type);
}

#endif

TEST_HARNESS_MAIN
