/* SPDX-License-Identifier: BSD-3-Clause */
/* Names in sorted order, and binary search in them.
 *
 * The keys of a program's named data come from an untrusted file and may be many, so a linear search per look-up
 * would be too slow. */
#include "runtime/base/names.h"
#include "runtime/base/sort.h"

#include <string.h>

static bool is_name_before(const void *a, const void *b)
{
	const struct et_name *one = a, *other = b;
	int order = strcmp(one->text, other->text);
	return order ? order < 0 : one->index < other->index;
}

void et_names_sort(struct et_name *names, uint32_t n)
{
	et_sort(names, n, sizeof *names, is_name_before);
}

uint32_t et_names_find(const struct et_name *names, uint32_t n, const char *text)
{
	uint32_t low = 0, high = n;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (strcmp(names[middle].text, text) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && strcmp(names[low].text, text) == 0 ? names[low].index : ET_NO_NAME;
}
