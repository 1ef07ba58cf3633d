/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_UTF8_H
#define __PERF_UTF8_H

#include <stdbool.h>
#include <linux/types.h>

int utf8__decode(const char *text, u32 *code);
bool utf8__is_control(u32 code);

#endif /* __PERF_UTF8_H */
