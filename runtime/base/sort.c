/* Heap sort: of the quick ones the one that needs no memory and has no bad case, which a file could be made to be.
 *
 * What must always be true: items are only swapped, so none is lost or there twice, whatever @is_before answers.
 *
 * Deliberately missing: stability. Who needs it has an index among what is compared, as names do. */
#include "runtime/base/sort.h"

#include <string.h>

struct heap {
	uint8_t *items;
	size_t n, item_bytes;
	bool (*is_before)(const void *a, const void *b);
};

static void swap(const struct heap *heap, size_t i, size_t j)
{
	uint8_t spare[ET_SORT_MOST_BYTES], *a = heap->items + i * heap->item_bytes,
					   *b = heap->items + j * heap->item_bytes;
	memcpy(spare, a, heap->item_bytes);
	memcpy(a, b, heap->item_bytes);
	memcpy(b, spare, heap->item_bytes);
}

static bool comes_before(const struct heap *heap, size_t i, size_t j)
{
	return heap->is_before(heap->items + i * heap->item_bytes, heap->items + j * heap->item_bytes);
}

static void sift_down(const struct heap *heap, size_t at)
{
	for (;;) {
		size_t last = at, left = 2 * at + 1;
		if (left < heap->n && comes_before(heap, last, left))
			last = left;
		if (left + 1 < heap->n && comes_before(heap, last, left + 1))
			last = left + 1;
		if (last == at)
			return;
		swap(heap, at, last);
		at = last;
	}
}

void et_sort(void *items, size_t n, size_t item_bytes, bool (*is_before)(const void *a, const void *b))
{
	struct heap heap = { .items = items, .n = n, .item_bytes = item_bytes, .is_before = is_before };
	for (size_t i = n / 2; i-- > 0;)
		sift_down(&heap, i);
	while (heap.n > 1) {
		swap(&heap, 0, --heap.n);
		sift_down(&heap, 0);
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
