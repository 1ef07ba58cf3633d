// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent perf events: contents of sysfs and /proc/PID/fdinfo, and who can see them.
 */
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>

#include "persistent.h"

#define SECRET	"label-of-mine"

FIXTURE(sysfs)
{
	struct registry		registry;
	int			cpu;
	int			fd;
	int			view;
	int			id;
};

FIXTURE_SETUP(sysfs)
{
	struct perf_event_attr attr = sampling_attr(CLOCK);

	registry_setup(_metadata, &self->registry);

	self->cpu = pin(0);
	attr.sample_period = 1000000000;
	self->fd = event_open(&attr, -1, self->cpu, -1, 0);
	self->id = DETACH(self->fd, .name = addr("shown"), .label = addr(SECRET),
			  .buffer_pages = 4);
	ASSERT_LT(0, self->id);
	self->view = reopen(self->id);
	ASSERT_LE(0, self->view);
}

FIXTURE_TEARDOWN_PARENT(sysfs)
{
	registry_teardown(_metadata, &self->registry);
}

/* A file of the session, without the newline */
static const char *show(int id, const char *file)
{
	static char buf[4096];
	char path[128];

	snprintf(path, sizeof(path), REGISTRY "/ids/%d/%s", id, file);
	if (read_file(path, buf, sizeof(buf)) < 0)
		return strerrorname_np(errno);
	if (buf[0] && buf[strlen(buf) - 1] == '\n')
		buf[strlen(buf) - 1] = '\0';

	return buf;
}

static long long show_number(int id, const char *file)
{
	return strtoll(show(id, file), NULL, 10);
}

static int join(int id, enum event event, int cpu, __u32 member)
{
	struct perf_event_attr attr = event_attr(event);
	int fd = event_open(&attr, -1, cpu, -1, 0);

	DETACH(fd, .id = id, .member = member);

	return fd;
}

/* perf finds type and format where every PMU has them. */
TEST_F(sysfs, format)
{
	char buf[64];

	EXPECT_EQ(PERF_TYPE_PERSISTENT, read_number(REGISTRY "/type"));
	EXPECT_LT(0, read_file(REGISTRY "/format/id", buf, sizeof(buf)));
	EXPECT_STREQ("config:0-30\n", buf);
	EXPECT_LT(0, read_file(REGISTRY "/format/instance", buf, sizeof(buf)));
	EXPECT_STREQ("config:32-63\n", buf);
}

/* perf must not conclude that the PMU counts on some CPUs only. */
TEST_F(sysfs, no_cpus)
{
	EXPECT_EQ(-1, access(REGISTRY "/cpus", F_OK));
	EXPECT_EQ(-1, access(REGISTRY "/cpumask", F_OK));
}

/* perf finds the session by its name. */
TEST_F(sysfs, events)
{
	char buf[64], id[64];

	snprintf(id, sizeof(id), "id=0x%x\n", self->id);
	EXPECT_LT(0, read_file(REGISTRY "/events/shown", buf, sizeof(buf)));
	EXPECT_STREQ(id, buf);
	EXPECT_EQ(1, registry_count("events"));
	EXPECT_EQ(1, registry_count("ids"));
}

/* A session without a name can be found by its default name. */
TEST_F(sysfs, default_name)
{
	struct perf_event_attr attr = event_attr(CLOCK);
	int id = detach(event_open(&attr, -1, self->cpu, -1, 0));
	char path[64];

	snprintf(path, sizeof(path), REGISTRY "/events/p%d", id);
	EXPECT_EQ(0, access(path, R_OK));
}

/* The session's directory agrees with QUERY. */
TEST_F(sysfs, agrees_with_query)
{
	char type[32];
	struct answer a;
	__u64 age;

	ASSERT_EQ(0, query(self->fd, &a));
	snprintf(type, sizeof(type), "%u:0x%llx", a.attr.type, a.attr.config);

	EXPECT_STREQ(a.info.name, show(self->id, "name"));
	EXPECT_STREQ("0", show(self->id, "uid"));
	EXPECT_STREQ("0", show(self->id, "gid"));
	EXPECT_STREQ("0000", show(self->id, "mode"));
	EXPECT_STREQ("0", show(self->id, "time_left"));
	EXPECT_STREQ("1", show(self->id, "members"));
	EXPECT_STREQ("1", show(self->id, "instances"));
	EXPECT_EQ(self->cpu, show_number(self->id, "cpus"));
	EXPECT_STREQ(type, show(self->id, "types"));
	EXPECT_EQ((a.info.buffer_pages + 1) * getpagesize(),
		  show_number(self->id, "buffer_bytes"));
	EXPECT_EQ(a.info.self.lost, show_number(self->id, "lost"));
	age = show_number(self->id, "age");
	EXPECT_LE(a.info.age, age);
	ASSERT_EQ(0, query(self->fd, &a));
	EXPECT_GE(a.info.age, age);
}

/* The losses of a session are the sum over its buffers. */
TEST_F(sysfs, lost)
{
	struct perf_event_attr attr = sampling_attr(TRACEPOINT);
	__u64 lost = 0;
	struct answer a;
	int i, fd[2];

	for (i = 0; i < 2; i++) {
		fd[i] = event_open(&attr, -1, self->cpu, -1, 0);
		ASSERT_EQ(self->id, DETACH(fd[i], .id = self->id, .member = i + 1,
					   .buffer_pages = 1));
	}
	drive(TRACEPOINT, 1000);
	for (i = 0; i < 2; i++) {
		event_ioctl(fd[i], PERF_EVENT_IOC_DISABLE, NULL);
		ASSERT_EQ(0, query(fd[i], &a));
		EXPECT_LT(0, a.info.self.lost);
		lost += a.info.self.lost;
	}
	EXPECT_EQ(lost, show_number(self->id, "lost"));

	/* While a buffer is full, it counts events. */
	ASSERT_EQ(0, become(OTHER));
	EXPECT_STREQ("EACCES", show(self->id, "lost"));
}

/* The owner, group and mode are those that I set. */
TEST_F(sysfs, rights)
{
	ASSERT_EQ(0, SET(self->fd, .uid = USER, .gid = OTHER, .mode = 0750,
			 .flags = PERF_PERSISTENT_SET_UID | PERF_PERSISTENT_SET_GID |
				  PERF_PERSISTENT_SET_MODE));
	EXPECT_STREQ("1000", show(self->id, "uid"));
	EXPECT_STREQ("1001", show(self->id, "gid"));
	EXPECT_STREQ("0750", show(self->id, "mode"));
}

/* A session shows its numbers of instances and members, and its CPUs. */
TEST_F(sysfs, several)
{
	int fd = join(self->id, TRACEPOINT, 0, 1);

	if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
		join(self->id, TRACEPOINT, 1, 1);
		EXPECT_STREQ("3", show(self->id, "instances"));
		EXPECT_STREQ("0-1", show(self->id, "cpus"));
	}
	EXPECT_STREQ("2", show(self->id, "members"));
	EXPECT_NE(NULL, strstr(show(self->id, "types"), "\n2:0x"));

	ASSERT_EQ(0, attach(fd));
	stop(self->id);
	EXPECT_FALSE(registry_has(self->id));
}

/* Offline CPUs stay in the list. */
TEST_F(sysfs, offline)
{
	char cpus[32];

	join(self->id, TRACEPOINT, HOT_CPU, 1);
	ASSERT_EQ(0, set_online(false));
	snprintf(cpus, sizeof(cpus), "%s", show(self->id, "cpus"));
	ASSERT_EQ(0, set_online(true));
	EXPECT_STREQ("0-1", cpus);
	EXPECT_STREQ("2", show(self->id, "instances"));
}

/* Members are listed by number, not in the order in which they joined. */
TEST_F(sysfs, types_in_order)
{
	char software[32], both[64];

	/* Members 0 to 2; member 1 joins last. */
	snprintf(software, sizeof(software), "%s", show(self->id, "types"));
	join(self->id, TRACEPOINT, self->cpu, 2);
	join(self->id, CLOCK, self->cpu, 1);
	snprintf(both, sizeof(both), "%s\n1:0x%x\n2:0x%llx", software, PERF_COUNT_SW_CPU_CLOCK,
		 event_attr(TRACEPOINT).config);
	EXPECT_STREQ(both, show(self->id, "types"));
}

/* A shared buffer is counted once. */
TEST_F(sysfs, shared_buffer)
{
	struct perf_event_attr attr = sampling_attr(FAULTS);
	int fd = event_open(&attr, -1, self->cpu, -1, 0);

	ASSERT_EQ(0, ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, self->fd));
	ASSERT_EQ(self->id, DETACH(fd, .id = self->id, .member = 1));
	EXPECT_EQ(5 * getpagesize(), show_number(self->id, "buffer_bytes"));
}

/* All files are gone with the last instance. */
TEST_F(sysfs, gone_after_attach)
{
	ASSERT_EQ(0, attach(self->fd));
	EXPECT_EQ(-1, access(REGISTRY "/events/shown", F_OK));
	EXPECT_FALSE(registry_has(self->id));
	EXPECT_EQ(0, registry_count("ids"));
	EXPECT_EQ(0, registry_count("events"));
}

/* An open file does not keep the session, and reading it fails. */
TEST_F(sysfs, gone_while_open)
{
	char path[64], buf[8];
	int name, dir;

	snprintf(path, sizeof(path), REGISTRY "/ids/%d", self->id);
	dir = open(path, O_RDONLY | O_DIRECTORY);
	name = openat(dir, "name", O_RDONLY);
	ASSERT_LE(0, name);

	ASSERT_EQ(0, attach(self->fd));
	EXPECT_EQ(-1, read(name, buf, sizeof(buf)));
	EXPECT_EQ(ENODEV, errno);
	EXPECT_EQ(-1, openat(dir, "uid", O_RDONLY));
}

/* Read all files of the registry, and count those with data that others must not see */
static const char *secret;
static int secrets, files;

static int look_for_secret(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	char buf[4096];

	if (type != FTW_F || !strstr(path, "/persistent/") || access(path, R_OK))
		return 0;

	if (read_file(path, buf, sizeof(buf)) >= 0) {
		files++;
		secrets += !!strstr(buf, secret);
	}

	return 0;
}

static void search(const char *text)
{
	secret = text;
	secrets = 0;
	files = 0;
	nftw(REGISTRY "/ids", look_for_secret, 8, FTW_PHYS);
	nftw(REGISTRY "/events", look_for_secret, 8, FTW_PHYS);
}

/* Other users see the owner and the name, but not the label or the maker. */
TEST_F(sysfs, stranger)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", getpid());
	ASSERT_EQ(0, become(USER));

	EXPECT_STREQ("0", show(self->id, "uid"));
	EXPECT_STREQ("shown", show(self->id, "name"));
	EXPECT_STREQ("1", show(self->id, "instances"));
	search("shown");
	EXPECT_EQ(1, secrets);
	/* Not "lost" */
	EXPECT_EQ(12, files);
	search(SECRET);
	EXPECT_EQ(0, secrets);
	search(program_invocation_short_name);
	EXPECT_EQ(0, secrets);
}

/* All files are read-only. */
TEST_F(sysfs, read_only)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), REGISTRY "/ids/%d/name", self->id);
	ASSERT_EQ(0, stat(path, &st));
	EXPECT_EQ(0444, st.st_mode & 07777);
	EXPECT_GT(0, write_file(path, "other"));
	EXPECT_STREQ("shown", show(self->id, "name"));
}

/* The value of a line of /proc/self/fdinfo, or NULL */
static const char *fdinfo_line(int fd, const char *key)
{
	static char buf[4096];
	char path[64], *line;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (read_file(path, buf, sizeof(buf)) < 0)
		return NULL;
	for (line = strtok(buf, "\n"); line; line = strtok(NULL, "\n")) {
		if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':')
			return line + strlen(key) + 2;
	}

	return NULL;
}

/* In a user namespace that does not map it, the owner's uid is the overflow uid. */
TEST_F(sysfs, user_namespace)
{
	ASSERT_EQ(0, become(USER));
	ASSERT_EQ(0, unshare(CLONE_NEWUSER));
	EXPECT_STREQ("65534", show(self->id, "uid"));
	EXPECT_STREQ("65534", show(self->id, "gid"));
}

/* Reading all files while sessions come and go neither hangs nor shows one without an id. */
TEST_F(sysfs, while_ids_come_and_go)
{
	__u64 end = now_ns() + 1000000000ULL;
	struct perf_event_attr attr = event_attr(CLOCK);
	int fd = event_open(&attr, -1, self->cpu, -1, 0), n = 0;
	pid_t child = fork();

	ASSERT_LE(0, child);
	while (!child) {
		search("id=0x0\n");
		if (secrets)
			abort();
	}
	while (now_ns() < end) {
		ASSERT_LT(0, detach(fd));
		ASSERT_EQ(0, attach(fd));
		n++;
	}
	EXPECT_EQ(0, waitpid(child, NULL, WNOHANG));
	kill(child, SIGKILL);
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	EXPECT_LT(0, n);
}

/* fdinfo of a descriptor shows the session and the instance. */
TEST_F(sysfs, fdinfo)
{
	int fd = reopen(self->id);

	EXPECT_EQ(self->id, atoi(fdinfo_line(fd, "persistent-id")));
	EXPECT_STREQ("0", fdinfo_line(fd, "persistent-instance"));
	EXPECT_STREQ("0", fdinfo_line(fd, "pos"));
}

/* fdinfo of an ordinary event is unchanged. */
TEST_F(sysfs, fdinfo_ordinary)
{
	ASSERT_EQ(0, attach(self->fd));
	EXPECT_EQ(NULL, fdinfo_line(self->fd, "persistent-id"));
	EXPECT_EQ(NULL, fdinfo_line(self->view, "persistent-id"));
	EXPECT_STREQ("0", fdinfo_line(self->fd, "pos"));
}

/* fdinfo of an instance shows the number of that instance. */
TEST_F(sysfs, fdinfo_of_instance)
{
	ASSERT_LE(0, join(self->id, TRACEPOINT, self->cpu, 7));
	EXPECT_STREQ("1", fdinfo_line(reopen_instance(self->id, 1), "persistent-instance"));
}

TEST_HARNESS_MAIN
