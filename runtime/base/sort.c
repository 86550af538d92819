/* SPDX-License-Identifier: BSD-3-Clause */
/* Sorting without recursion or allocation, for input that a hostile file may have chosen.
 *
 * et_sort is heap sort: n log n in the worst case, and no extra memory. The item that replaces the largest one is
 * usually small. So the free place first moves all the way down, past the larger child each time, and the item then
 * moves up from there. That takes little more than half the comparisons (Wegener, 1993). What must always be true:
 * while one place of the array is free, exactly one item is outside of it, so no item is lost or duplicated, whatever
 * @is_before answers. et_sort is not stable. A caller that needs a stable order compares an index, too, as names.c
 * does.
 *
 * et_sort_by_key is radix sort with digits of 8 bits, lowest digit first. It skips the bits that no key has, so its
 * time grows with the length of the keys, whatever their order. Few items are sorted by insertion. */
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
	if (n == 16) /* the most common size: compiled without a call */
		memcpy(to, from, 16);
	else
		memcpy(to, from, n);
}

/* Insert @item into the heap below @top, whose place is free. */
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

/* --- by key -------------------------------------------------------------------------------------------------- */

static void sort_few(struct et_sort_item *items, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		struct et_sort_item item = items[i];
		size_t at = i;
		for (; at && items[at - 1].key > item.key; at--)
			items[at] = items[at - 1];
		items[at] = item;
	}
}

void et_sort_by_key(struct et_sort_item *items, struct et_sort_item *room, size_t n)
{
	enum { FEW = 32, DIGIT_BITS = 8, N_DIGITS = 1 << DIGIT_BITS };
	struct et_sort_item *from = items, *to = room;
	uint64_t used = 0;
	if (n <= FEW) {
		sort_few(items, n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		used |= items[i].key;
	for (unsigned shift = used ? (unsigned)__builtin_ctzll(used) : 0; shift < 64 && used >> shift;
		shift += DIGIT_BITS) {
		size_t ends[N_DIGITS + 1] = { 0 };
		for (size_t i = 0; i < n; i++)
			ends[(from[i].key >> shift) % N_DIGITS + 1]++;
		for (size_t d = 0; d < N_DIGITS; d++)
			ends[d + 1] += ends[d];
		for (size_t i = 0; i < n; i++)
			to[ends[(from[i].key >> shift) % N_DIGITS]++] = from[i];
		struct et_sort_item *sorted = to;
		to = from;
		from = sorted;
	}
	if (from != items)
		memcpy(items, from, n * sizeof *items);
}
