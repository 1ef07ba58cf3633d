/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_PERSISTENT_FLUSH_H
#define __PERF_PERSISTENT_FLUSH_H

#include <linux/types.h>

int persistent__flush(u32 id, const char *path);

#endif /* __PERF_PERSISTENT_FLUSH_H */
