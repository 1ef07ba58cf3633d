// SPDX-License-Identifier: GPL-2.0
/*
 * Print the frequency of this CPU's TSC in kHz, for the guest, which has the same TSC.
 *
 * A reading of time and TSC is the more exact the less time it took, so the quickest of many is
 * used, whatever else runs on the host.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct reading {
	uint64_t ns;
	uint64_t tsc;
};

static struct reading take_reading(void)
{
	uint64_t quickest = UINT64_MAX;
	struct reading best = { 0 };

	for (int i = 0; i < 1000; i++) {
		uint64_t before = __rdtsc(), after;
		struct timespec ts;

		clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
		after = __rdtsc();
		if (after - before < quickest) {
			quickest = after - before;
			best.ns = ts.tv_sec * 1000000000ULL + ts.tv_nsec;
			best.tsc = before + quickest / 2;
		}
	}

	return best;
}

int main(void)
{
	struct reading first = take_reading(), last;

	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
	last = take_reading();
	printf("%.0f\n", (last.tsc - first.tsc) * 1e6 / (last.ns - first.ns));

	return 0;
}
