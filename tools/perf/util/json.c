// SPDX-License-Identifier: GPL-2.0
#include "json.h"

#include <inttypes.h>
#include "utf8.h"

/* NULL becomes an empty string, and invalid UTF-8 U+FFFD. */
void json__quote(FILE *fp, const char *text)
{
	u32 code;
	int len;

	fputc('"', fp);
	for (; text && *text; text += len ?: 1) {
		len = utf8__decode(text, &code);
		if (code == '"' || code == '\\')
			fprintf(fp, "\\%c", *text);
		else if (!len || utf8__is_control(code))
			fprintf(fp, "\\u%04x", code);
		else
			fwrite(text, 1, len, fp);
	}
	fputc('"', fp);
}

static void json_out__key(struct json_out *out, const char *key)
{
	if (out->comma)
		fputs(key ? ", " : ",", out->fp);
	out->comma = true;
	if (!key)
		return;

	json__quote(out->fp, key);
	fputs(": ", out->fp);
}

void json_out__begin(struct json_out *out, const char *key, char bracket)
{
	json_out__key(out, key);
	/* Objects in an array get a line each. */
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
	json__quote(out->fp, value);
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
