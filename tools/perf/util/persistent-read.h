/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_READ_H
#define __PERF_PERSISTENT_READ_H

#include <linux/perf_event.h>
#include <linux/types.h>

double persistent__parse_unit(const char *label, const struct perf_event_attr *attr,
			      char *unit, size_t size);

#endif /* __PERF_PERSISTENT_READ_H */
