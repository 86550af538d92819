/* SPDX-License-Identifier: BSD-3-Clause */
/* Sorting, and finding by name in what was sorted. For numbers and names that a file chose: n log n whatever they are,
 * without recursion, allocation or the C library's sort, which may do either. */
#ifndef RUNTIME_BASE_SORT_H
#define RUNTIME_BASE_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ET_SORT_MOST_BYTES = 32 };

/* Put @items, of at most ET_SORT_MOST_BYTES each, into order; those of which neither is before the other in any. */
void et_sort(void *items, size_t n, size_t item_bytes, bool (*is_before)(const void *a, const void *b));

/* Something that has a name: number @index of whatever the caller has. */
struct et_name {
	const char *text;
	uint32_t index;
};

#define ET_NO_NAME UINT32_MAX

/* By text, and those of one text by index. */
void et_names_sort(struct et_name *names, uint32_t n);
/* The lowest index of that text in @names, which have been sorted; ET_NO_NAME if there is none. */
uint32_t et_names_find(const struct et_name *names, uint32_t n, const char *text);

#endif
