/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_DUMP_H
#define __PERF_PERSISTENT_DUMP_H

#include <linux/types.h>

int persistent__write_dump(u32 id, const char *path);

#endif /* __PERF_PERSISTENT_DUMP_H */
