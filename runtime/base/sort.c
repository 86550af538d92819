/* SPDX-License-Identifier: BSD-3-Clause */
/* Heap sort: of the quick ones the one that needs no memory and has no bad case, which a file could be made to be. What
 * takes the place of the largest item is small, mostly: so the place goes all the way down first, past the larger child
 * each time, and the item then up from there, which is a little more than half the comparisons (Wegener, 1993).
 *
 * What must always be true: one item is out of the array while one place in it is free, so none is lost or there twice,
 * whatever @is_before answers.
 *
 * Deliberately missing: stability. Who needs it has an index among what is compared, as names do. */
#include "runtime/base/sort.h"

#include <string.h>

struct heap {
	uint8_t *items;
	size_t n, item_bytes;
	bool (*is_before)(const void *a, const void *b);
};

static uint8_t *item_at(const struct heap *heap, size_t i)
{
	return heap->items + i * heap->item_bytes;
}

static void move(void *to, const void *from, size_t n)
{
	if (n == 16) /* most, and then it is no call */
		memcpy(to, from, 16);
	else
		memcpy(to, from, n);
}

/* Put @item where it belongs in the heap below @top, whose place is free. */
static void sift(const struct heap *heap, size_t top, const uint8_t *item)
{
	size_t at = top;
	for (size_t child; (child = 2 * at + 1) < heap->n; at = child) {
		if (child + 1 < heap->n && heap->is_before(item_at(heap, child), item_at(heap, child + 1)))
			child++;
		move(item_at(heap, at), item_at(heap, child), heap->item_bytes);
	}
	while (at > top) {
		size_t parent = (at - 1) / 2;
		if (!heap->is_before(item_at(heap, parent), item))
			break;
		move(item_at(heap, at), item_at(heap, parent), heap->item_bytes);
		at = parent;
	}
	move(item_at(heap, at), item, heap->item_bytes);
}

static bool is_in_order(const struct heap *heap)
{
	for (size_t i = 1; i < heap->n; i++)
		if (heap->is_before(item_at(heap, i), item_at(heap, i - 1)))
			return false;
	return true;
}

void et_sort(void *items, size_t n, size_t item_bytes, bool (*is_before)(const void *a, const void *b))
{
	struct heap heap = { .items = items, .n = n, .item_bytes = item_bytes, .is_before = is_before };
	uint8_t item[ET_SORT_MOST_BYTES];
	if (is_in_order(&heap))
		return;
	for (size_t i = n / 2; i-- > 0;) {
		move(item, item_at(&heap, i), item_bytes);
		sift(&heap, i, item);
	}
	while (heap.n > 1) {
		heap.n--;
		move(item, item_at(&heap, heap.n), item_bytes);
		move(item_at(&heap, heap.n), item_at(&heap, 0), item_bytes);
		sift(&heap, 0, item);
	}
}

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
