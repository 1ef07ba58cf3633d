// SPDX-License-Identifier: GPL-2.0
#include "json.h"

#include <inttypes.h>
#include "registry.h"

static void json_out__quote(struct json_out *out, const char *text)
{
	u32 code;
	int len;

	fputc('"', out->fp);
	for (; *text; text += len ?: 1) {
		len = persistent__utf8(text, &code);
		if (code == '"' || code == '\\')
			fprintf(out->fp, "\\%c", *text);
		else if (!len || persistent__is_control(code))
			fprintf(out->fp, "\\u%04x", code);
		else
			fwrite(text, 1, len, out->fp);
	}
	fputc('"', out->fp);
}

static void json_out__key(struct json_out *out, const char *key)
{
	if (out->comma)
		fputs(key ? ", " : ",", out->fp);
	out->comma = true;
	if (!key)
		return;

	json_out__quote(out, key);
	fputs(": ", out->fp);
}

void json_out__begin(struct json_out *out, const char *key, char bracket)
{
	json_out__key(out, key);
	/* What is in an array of objects gets a line each. */
	if (bracket == '{' && !key && out->depth)
		fprintf(out->fp, "\n%.*s", out->depth, "\t\t\t\t\t\t\t\t");
	fputc(bracket, out->fp);
	out->depth++;
	out->comma = false;
}

void json_out__end(struct json_out *out, char bracket)
{
	out->depth--;
	fputc(bracket, out->fp);
	out->comma = true;
	if (!out->depth)
		fputc('\n', out->fp);
}

void json_out__string(struct json_out *out, const char *key, const char *value)
{
	json_out__key(out, key);
	json_out__quote(out, value);
}

void json_out__number(struct json_out *out, const char *key, u64 value)
{
	json_out__key(out, key);
	fprintf(out->fp, "%" PRIu64, value);
}

void json_out__bool(struct json_out *out, const char *key, bool value)
{
	json_out__key(out, key);
	fputs(value ? "true" : "false", out->fp);
}

void json_out__double(struct json_out *out, const char *key, double value)
{
	json_out__key(out, key);
	fprintf(out->fp, "%.*f", value < 1e15 ? 6 : 0, value);
}
