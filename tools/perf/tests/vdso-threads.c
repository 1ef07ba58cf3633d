// SPDX-License-Identifier: GPL-2.0
#include <pthread.h>
#include "debug.h"
#include "dso.h"
#include "machine.h"
#include "tests.h"
#include "thread.h"
#include "util.h"
#include "vdso.h"

struct finder {
	pthread_t id;
	struct machine *machine;
	struct thread *thread;
	struct dso *dso;
};

static void *find(void *arg)
{
	struct finder *finder = arg;

	finder->dso = machine__findnew_vdso(finder->machine, finder->thread);
	return NULL;
}

/* Of threads that synthesize events of running tasks, the first one creates the dso. */
static int test__vdso_threads(struct test_suite *test __maybe_unused, int subtest __maybe_unused)
{
	perf_set_multithreaded();
	for (int i = 0; i < 500; i++) {
		struct finder finders[4];
		struct machines machines;
		struct thread *thread;

		machines__init(&machines);
		thread = machine__findnew_thread(&machines.host, 1, 1);
		TEST_ASSERT_VAL("no thread", thread);
		for (size_t j = 0; j < ARRAY_SIZE(finders); j++) {
			struct finder *finder = &finders[j];
			int err;

			finder->machine = &machines.host;
			finder->thread = thread;
			err = pthread_create(&finder->id, NULL, find, finder);
			TEST_ASSERT_EQUAL("pthread_create", err, 0);
		}
		for (size_t j = 0; j < ARRAY_SIZE(finders); j++) {
			struct dso *dso;

			pthread_join(finders[j].id, NULL);
			dso = finders[j].dso;
			TEST_ASSERT_VAL("no vDSO", dso);
			TEST_ASSERT_VAL("more than one", RC_CHK_EQUAL(dso, finders[0].dso));
		}
		for (size_t j = 0; j < ARRAY_SIZE(finders); j++)
			dso__put(finders[j].dso);
		thread__put(thread);
		machine__delete_threads(&machines.host);
		machines__exit(&machines);
	}
	perf_set_singlethreaded();
	return TEST_OK;
}

DEFINE_SUITE("Threads that look for the vDSO", vdso_threads);
