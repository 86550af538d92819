/* SPDX-License-Identifier: BSD-3-Clause */
/* Sorting numbers and records that an untrusted file chose: no bad case in time, no recursion, no allocation. (The C
 * library's qsort may recurse or allocate.) */
#ifndef RUNTIME_BASE_SORT_H
#define RUNTIME_BASE_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ET_SORT_MOST_BYTES = 32 };

/* Sort @items, each of at most ET_SORT_MOST_BYTES. The order of items of which neither is before the other is
 * unspecified. */
void et_sort(void *items, size_t n, size_t item_bytes, bool (*is_before)(const void *a, const void *b));

/* An item for et_sort_by_key. @index is the caller's. */
struct et_sort_item {
	uint64_t key;
	uint32_t index;
};
/* Sort @items by their keys; items with equal keys keep their order. @room has space for @n items; its contents are
 * undefined afterwards. */
void et_sort_by_key(struct et_sort_item *items, struct et_sort_item *room, size_t n);

#endif
