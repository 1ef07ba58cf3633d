// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: buffers that stay without a mapping.
 */
#include "persistent_cgroup.h"

#define N	20
#define PAGES	8
#define RW	(PROT_READ | PROT_WRITE)

FIXTURE(buffer)
{
	struct registry		registry;
	struct perf_event_attr	attr;
	int			cpu;
	int			fd;
	int			id;
};

FIXTURE_VARIANT(buffer)
{
	bool			loop;
};

FIXTURE_VARIANT_ADD(buffer, full) { .loop = false };
FIXTURE_VARIANT_ADD(buffer, loop) { .loop = true };

FIXTURE_SETUP(buffer)
{
	registry_setup(_metadata, &self->registry);

	self->cpu = pin(0);
	self->attr = sampling_attr(TRACEPOINT);
	self->attr.write_backward = variant->loop;
	self->fd = event_open(&self->attr, -1, self->cpu, -1, 0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN_PARENT(buffer)
{
	registry_teardown(_metadata, &self->registry);
}

static int prot_of(bool loop)
{
	return loop ? PROT_READ : RW;
}

static unsigned int samples(struct ring *r, bool loop)
{
	return loop ? loop_samples(r) : ring_samples(r);
}

/* A sampling event gets a buffer of 512 KiB. */
TEST_F(buffer, default_size)
{
	struct answer a;

	ASSERT_LT(0, detach(self->fd));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(512 * 1024 / getpagesize(), a.info.buffer_pages);
	EXPECT_EQ(variant->loop, !!(a.info.flags & PERF_PERSISTENT_OVERWRITE));
}

/* A sampling event of an unprivileged user gets a buffer of 128 KiB. */
TEST_F(buffer, default_size_of_user)
{
	struct answer a;

	ASSERT_EQ(0, set_sysctl(PARANOID, -1));
	ASSERT_EQ(0, become(USER));
	self->fd = event_open(&self->attr, -1, self->cpu, -1, 0);
	ASSERT_LT(0, detach(self->fd));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(128 * 1024 / getpagesize(), a.info.buffer_pages);
}

/* I can choose another size. */
TEST_F(buffer, size_asked_for)
{
	struct answer a;

	ASSERT_LT(0, DETACH(self->fd, .buffer_pages = 2));
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_EQ(2, a.info.buffer_pages);
}

/* A buffer is shared within one session: its writers cannot be in another one. */
TEST_F(buffer, of_another_session)
{
	int sharer = event_open(&self->attr, -1, self->cpu, -1, 0);
	struct ring r;

	ASSERT_EQ(0, ring_map(&r, self->fd, PAGES, prot_of(variant->loop)));
	ASSERT_EQ(0, result(ioctl(sharer, PERF_EVENT_IOC_SET_OUTPUT, self->fd)));
	self->id = detach(self->fd);
	ASSERT_LT(0, self->id);
	EXPECT_EQ(-EBUSY, detach(sharer));
	EXPECT_EQ(1, registry_count("ids"));
	EXPECT_EQ(self->id, DETACH(sharer, .id = self->id, .member = 1));
}

/* A counting event has no buffer unless I ask for one. */
TEST_F(buffer, counting)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	int none, some;
	struct answer a;

	attr.write_backward = variant->loop;
	none = event_open(&attr, -1, self->cpu, -1, 0);
	some = event_open(&attr, -1, self->cpu, -1, 0);

	ASSERT_LT(0, detach(none));
	ASSERT_EQ(0, query(none, &a));
	EXPECT_EQ(0, a.info.buffer_pages);
	EXPECT_EQ(0, a.info.self.buffer_id);

	ASSERT_LT(0, DETACH(some, .buffer_pages = PAGES));
	ASSERT_EQ(0, query(some, &a));
	EXPECT_EQ(PAGES, a.info.buffer_pages);
	EXPECT_LT(0, a.info.self.buffer_id);
}

/* An event that only records comm, mmap and fork gets a buffer as well. */
TEST_F(buffer, side_band)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	struct answer a;
	int fd;

	attr.config = PERF_COUNT_SW_DUMMY;
	attr.comm = 1;
	attr.task = 1;
	attr.mmap2 = 1;
	attr.write_backward = variant->loop;
	fd = event_open(&attr, -1, self->cpu, -1, 0);
	ASSERT_LT(0, detach(fd));
	ASSERT_EQ(0, query(fd, &a));
	EXPECT_EQ(512 * 1024 / getpagesize(), a.info.buffer_pages);
}

/* A counting event that is read through its user page can be detached with the page mapped. */
TEST_F(buffer, user_page_alone)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	struct ring r = {};
	int fd, id;

	attr.write_backward = variant->loop;
	fd = event_open(&attr, -1, self->cpu, -1, 0);
	ASSERT_EQ(0, ring_map(&r, fd, 0, RW));
	id = detach(fd);
	ASSERT_LT(0, id);
	ASSERT_EQ(0, ring_unmap(&r));
	EXPECT_EQ(0, ring_map(&r, reopen(id), 0, PROT_READ));
}

/* The same with a read-only page; without data, any number may map it writable. */
TEST_F(buffer, user_page_read_only)
{
	struct perf_event_attr attr = event_attr(TRACEPOINT);
	struct ring first = {}, second = {}, third = {};
	int fd, id;

	attr.write_backward = variant->loop;
	fd = event_open(&attr, -1, self->cpu, -1, 0);
	ASSERT_EQ(0, ring_map(&first, fd, 0, PROT_READ));
	id = detach(fd);
	ASSERT_LT(0, id);
	ASSERT_EQ(0, ring_unmap(&first));
	EXPECT_EQ(0, ring_map(&second, reopen(id), 0, RW));
	EXPECT_EQ(0, ring_map(&third, reopen(id), 0, RW));
}

/* A buffer fills while no process has the event open. */
TEST_F(buffer, fills_without_a_process)
{
	struct ring r = {};

	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	ASSERT_LT(0, self->id);
	close(self->fd);

	drive(TRACEPOINT, N);

	ASSERT_EQ(0, ring_map(&r, reopen(self->id), PAGES, PROT_READ));
	EXPECT_EQ(N, samples(&r, variant->loop));
}

/* After the maker's exit, the next reader finds the old records and the new ones. */
TEST_F(buffer, keeps_its_contents)
{
	struct ring r = {};
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child) {
		EXPECT_EQ(0, ring_map(&r, self->fd, PAGES, prot_of(variant->loop)));
		drive(TRACEPOINT, N);
		self->id = detach(self->fd);
		_exit(_metadata->exit_code);
	}
	close(self->fd);
	ASSERT_TRUE(passed(child));

	ASSERT_EQ(0, ring_map(&r, reopen(self->id), PAGES, PROT_READ));
	EXPECT_EQ(N, samples(&r, variant->loop));
	drive(TRACEPOINT, N);
	EXPECT_EQ(2 * N, samples(&r, variant->loop));
}

/* Unmapping and closing between readers loses nothing. */
TEST_F(buffer, one_reader_after_the_other)
{
	struct ring r = {};
	int i, fd;

	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	close(self->fd);

	for (i = 1; i <= 5; i++) {
		drive(TRACEPOINT, N);
		fd = reopen(self->id);
		ASSERT_EQ(0, ring_map(&r, fd, PAGES, PROT_READ));
		EXPECT_EQ(i * N, samples(&r, variant->loop));
		ASSERT_EQ(0, ring_unmap(&r));
		close(fd);
	}
}

/* Many readers at the same time see the same records. */
TEST_F(buffer, many_readers)
{
	struct ring r[5] = {};
	int i;

	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	for (i = 0; i < ARRAY_LEN(r); i++)
		ASSERT_EQ(0, ring_map(&r[i], reopen(self->id), PAGES, PROT_READ));

	drive(TRACEPOINT, N);
	for (i = 0; i < ARRAY_LEN(r); i++)
		EXPECT_EQ(N, samples(&r[i], variant->loop));
}

/* A buffer can be mapped in its own size only. */
TEST_F(buffer, mapped_in_its_size)
{
	struct ring r = {};

	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	EXPECT_EQ(-EINVAL, ring_map(&r, reopen(self->id), PAGES / 2, PROT_READ));
	EXPECT_EQ(-EINVAL, ring_map(&r, reopen(self->id), PAGES * 2, PROT_READ));
}

/* A read-only mapping stays read-only, against mprotect() and /proc/self/mem. */
TEST_F(buffer, read_only_for_good)
{
	int mem = open("/proc/self/mem", O_RDWR);
	struct ring r = {};

	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	ASSERT_EQ(0, ring_map(&r, reopen(self->id), PAGES, PROT_READ));

	EXPECT_EQ(-EACCES, ring_protect(&r, RW));
	EXPECT_EQ(-1, pwrite(mem, "x", 1, (long)r.data));
	EXPECT_EQ(-1, pwrite(mem, "x", 1, (long)&r.page->data_tail));
	EXPECT_EQ(0, ring_protect(&r, PROT_NONE));
	EXPECT_EQ(-EACCES, ring_protect(&r, RW));
	EXPECT_EQ(0, ring_protect(&r, PROT_READ));
}

/* A child does not inherit the mapping. */
TEST_F(buffer, mapping_is_not_inherited)
{
	struct ring r = {};
	pid_t child;
	int status;

	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	ASSERT_EQ(0, ring_map(&r, self->fd, PAGES, PROT_READ));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(msync(r.page, r.size, MS_ASYNC) ? errno : 0);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(ENOMEM, WEXITSTATUS(status));
}

/* SET_OUTPUT cannot take a buffer away from its readers. */
TEST_F(buffer, not_redirected)
{
	int other = event_open(&self->attr, -1, self->cpu, -1, 0);
	struct ring r = {};

	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	ASSERT_EQ(0, ring_map(&r, other, PAGES, prot_of(variant->loop)));
	EXPECT_EQ(-EINVAL, result(ioctl(self->fd, PERF_EVENT_IOC_SET_OUTPUT, other)));
	EXPECT_EQ(-EINVAL, result(ioctl(self->fd, PERF_EVENT_IOC_SET_OUTPUT, -1L)));
	drive(TRACEPOINT, N);
	ASSERT_EQ(0, ring_map(&r, self->fd, PAGES, PROT_READ));
	EXPECT_EQ(N, samples(&r, variant->loop));
}

/* A mapping of an attached event keeps its records; the event ends when closed. */
TEST_F(buffer, mapped_while_attached)
{
	struct ring r = {};

	self->id = DETACH(self->fd, .buffer_pages = PAGES);
	ASSERT_EQ(0, ring_map(&r, reopen(self->id), PAGES, PROT_READ));
	drive(TRACEPOINT, N);
	ASSERT_EQ(0, attach(self->fd));
	drive(TRACEPOINT, N);
	close(self->fd);

	drive(TRACEPOINT, N);
	EXPECT_EQ(2 * N, samples(&r, variant->loop));
}

/* Once attached and unmapped, the buffer is freed; the next one is new and empty. */
TEST_F(buffer, gone_when_attached)
{
	struct ring r = {};

	ASSERT_LT(0, DETACH(self->fd, .buffer_pages = PAGES));
	drive(TRACEPOINT, N);
	ASSERT_EQ(0, attach(self->fd));

	ASSERT_EQ(0, ring_map(&r, self->fd, 2 * PAGES, RW));
	EXPECT_EQ(0, ring_head(&r));
}

static bool write_to(const char *root, const char *file, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", root, file);

	return !write_file(path, text);
}

static long read_memory(const char *group)
{
	char path[160], text[32];

	snprintf(path, sizeof(path), "%s/memory.current", group);

	return read_file(path, text, sizeof(text)) < 0 ? -1 : atol(text);
}

/* The memory cgroup of the caller is charged for the buffer that DETACH makes, until it ends. */
TEST_F(buffer, of_a_memory_cgroup)
{
	char root[64], group[128];
	long size = 1024L * getpagesize(), before, with;
	bool mounted = false;
	int dir;

	ASSERT_EQ(0, find_cgroups(root, sizeof(root), &mounted));
	ASSERT_TRUE(write_to(root, "cgroup.subtree_control", "+memory"));
	dir = make_cgroup(root, "persistent_memory", group);
	ASSERT_LE(0, dir);
	ASSERT_TRUE(write_to(group, "cgroup.procs", "0"));

	before = read_memory(group);
	EXPECT_LE(0, before);
	EXPECT_LT(0, DETACH(self->fd, .buffer_pages = 1024));
	with = read_memory(group);
	EXPECT_LE(before + size, with);
	EXPECT_EQ(0, attach(self->fd));
	EXPECT_EQ(0, close(self->fd));
	EXPECT_TRUE(eventually(read_memory(group) < with - size / 2));

	ASSERT_TRUE(write_to(root, "cgroup.procs", "0"));
	close(dir);
	ASSERT_EQ(0, rmdir(group));
	ASSERT_TRUE(write_to(root, "cgroup.subtree_control", "-memory"));
	ASSERT_EQ(0, leave_cgroups(root, mounted));
}

TEST_HARNESS_MAIN
