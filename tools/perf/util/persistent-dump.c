// SPDX-License-Identifier: GPL-2.0
/*
 * perf persistent dump: a snapshot of a recording that goes on, as a perf.data.
 */
#include "persistent-dump.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/time64.h>
#include <sys/stat.h>
#include "data.h"
#include "debug.h"
#include "evlist.h"
#include "persistent.h"
#include "persistent-evlist.h"
#include "persistent-output.h"
#include "persistent-reader.h"
#include "target.h"

static struct persistent_output dump_output;

/* A snapshot that is interrupted leaves nothing behind. */
static void dump__interrupted(int sig)
{
	if (dump_output.partial)
		unlink(dump_output.partial);
	signal(sig, SIG_DFL);
	raise(sig);
}

/* Tells every second how far it is, in a thread, so that no write need be cut in pieces. */
struct dump_progress {
	pthread_t	thread;
	sem_t		stop;
	struct timespec	next;
	int		fd;
	u64		total;
	bool		started;
	bool		shown;
};

static void *dump_progress__run(void *arg)
{
	const char *end = isatty(STDERR_FILENO) ? "\r" : "\n";
	struct dump_progress *progress = arg;
	struct stat st;
	u64 total;

	for (;;) {
		/* The first time after a second: most snapshots take less. */
		progress->next.tv_sec++;
		if (!sem_timedwait(&progress->stop, &progress->next) || errno != ETIMEDOUT)
			break;
		total = READ_ONCE(progress->total);
		if (fstat(progress->fd, &st))
			break;
		fprintf(stderr, "[ perf persistent dump: %u of %u MB written ]%s",
			(u32)(min((u64)st.st_size, total) >> 20), (u32)(total >> 20), end);
		progress->shown = true;
	}
	return NULL;
}

static void dump_progress__start(struct dump_progress *progress, int fd)
{
	*progress = (struct dump_progress) { .fd = fd };
	if (quiet)
		return;
	sem_init(&progress->stop, 0, 0);
	clock_gettime(CLOCK_REALTIME, &progress->next);
	progress->started = !pthread_create(&progress->thread, NULL, dump_progress__run, progress);
}

static void dump_progress__stop(struct dump_progress *progress)
{
	if (!progress->started)
		return;
	sem_post(&progress->stop);
	pthread_join(progress->thread, NULL);
	if (progress->shown && isatty(STDERR_FILENO))
		fputc('\n', stderr);
}

static void dump__report(struct persistent_reader *reader, const char *name, u32 id)
{
	struct persistent_output *output = &dump_output;
	unsigned long long bytes = persistent_reader__lost_bytes(reader);

	pr_info("[ perf persistent dump: wrote %.3f MB %s (%llu samples) of %s, id %u ]\n",
		output->bytes / 1024.0 / 1024.0, output->path,
		(unsigned long long)output->samples, name, id);
	if (bytes)
		pr_info("[ older records were overwritten: %llu bytes ]\n", bytes);
	if (output->lost)
		pr_info("[ lost for want of room in the buffer: %llu samples ]\n",
			(unsigned long long)output->lost);
	if (!quiet)
		persistent_reader__print_horizon(reader, stderr);
}

static int dump__write_buffers(struct persistent_reader *reader)
{
	struct dump_progress progress;
	int err;

	dump_progress__start(&progress, perf_data__fd(&dump_output.data));
	err = persistent_reader__read(reader);
	for (int i = 0; i < reader->nr; i++)
		WRITE_ONCE(progress.total, progress.total + reader->buffers[i].len);
	if (!err)
		err = persistent_output__synthesize(&dump_output);
	if (!err) {
		persistent_reader__find_horizon(reader);
		err = persistent_output__write(&dump_output, reader);
	}
	dump_progress__stop(&progress);
	return err ?: persistent_output__write_lost(&dump_output);
}

static int dump__write(struct evlist *evlist, struct persistent_reader *reader, const char *path)
{
	int err = persistent_output__open(&dump_output, evlist, path);

	if (err)
		return err;

	err = dump__write_buffers(reader);
	if (!err)
		return persistent_output__close(&dump_output);
	persistent_output__abort(&dump_output);
	return err;
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
	if (!err)
		dump__report(&reader, name, id);

	persistent_reader__exit(&reader);
	evlist__close(evlist);
	evlist__put(evlist);
	return err;
}

/* Returns 0 or, having said what is wrong, a negative error. */
int persistent__write_dump(u32 id, const char *path)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	int err = persistent__check_buffer(id);

	if (err)
		return err;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		/* What is ignored, as nohup does, stays so. */
		if (signal(ends[i], dump__interrupted) == SIG_IGN)
			signal(ends[i], SIG_IGN);
	}
	return dump__run(id, path);
}
