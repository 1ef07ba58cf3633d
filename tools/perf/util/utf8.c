// SPDX-License-Identifier: GPL-2.0
#include "utf8.h"

/* Returns the length of a UTF-8 character and its code, or 0 if it is invalid. */
int utf8__decode(const char *text, u32 *code)
{
	static const u32 least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *s = (const unsigned char *)text;
	int len = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
	u32 c = len > 1 ? *s & (0x7f >> len) : *s;

	*code = 0xfffd;
	for (int i = 1; i < len; i++) {
		if (s[i] >> 6 != 2)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (!len || c < least[len] || c > 0x10ffff || c >> 11 == 0x1b)
		return 0;
	*code = c;
	return len;
}

/* C0, C1 or DEL: a terminal may interpret them. */
bool utf8__is_control(u32 code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0);
}
