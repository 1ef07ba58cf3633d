/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __PERF_JSON_H
#define __PERF_JSON_H

#include <stdbool.h>
#include <stdio.h>
#include <linux/types.h>

void json__quote(FILE *fp, const char *text);

/* A streaming writer of JSON. Within an array, keys are NULL. */
struct json_out {
	FILE	*fp;
	int	depth;
	bool	comma;
};

void json_out__begin(struct json_out *out, const char *key, char bracket);
void json_out__end(struct json_out *out, char bracket);
void json_out__string(struct json_out *out, const char *key, const char *value);
void json_out__number(struct json_out *out, const char *key, u64 value);
void json_out__bool(struct json_out *out, const char *key, bool value);
void json_out__double(struct json_out *out, const char *key, double value);

#endif /* __PERF_JSON_H */
