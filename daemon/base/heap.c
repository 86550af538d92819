/* SPDX-License-Identifier: BSD-3-Clause */
/* Pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986), in its two-pass form.
 *
 * Every node comes before its children in the heap's order. Children form a list by `next`; `prev` leads back
 * to the sibling before or, for the first child, to the parent, so that any node can be cut out. */
#include "daemon/base/heap.h"

#include <string.h>

static struct inf_heap_node *join(const struct inf_heap *heap, struct inf_heap_node *a, struct inf_heap_node *b)
{
	if (!a || !b)
		return a ? a : b;
	if (heap->is_before(b, a)) {
		struct inf_heap_node *swap = a;
		a = b;
		b = swap;
	}
	b->next = a->child;
	b->prev = a;
	if (a->child)
		a->child->prev = b;
	a->child = b;
	return a;
}

/* The children of a removed node: joined in pairs from the left, then together from the right. */
static struct inf_heap_node *join_all(const struct inf_heap *heap, struct inf_heap_node *first)
{
	struct inf_heap_node *pairs = NULL, *all = NULL;
	while (first) {
		struct inf_heap_node *a = first, *b = a->next;
		first = b ? b->next : NULL;
		a->next = a->prev = NULL;
		if (b)
			b->next = b->prev = NULL;
		a = join(heap, a, b);
		a->next = pairs;
		pairs = a;
	}
	while (pairs) {
		struct inf_heap_node *after = pairs->next;
		pairs->next = NULL;
		all = join(heap, all, pairs);
		pairs = after;
	}
	return all;
}

void inf_heap_push(struct inf_heap *heap, struct inf_heap_node *node)
{
	memset(node, 0, sizeof(*node));
	node->is_in = true;
	heap->root = join(heap, heap->root, node);
}

void inf_heap_remove(struct inf_heap *heap, struct inf_heap_node *node)
{
	if (!node->is_in)
		return;
	struct inf_heap_node *below = join_all(heap, node->child);
	if (heap->root == node) {
		heap->root = below;
	} else {
		if (node->prev->child == node)
			node->prev->child = node->next;
		else
			node->prev->next = node->next;
		if (node->next)
			node->next->prev = node->prev;
		heap->root = join(heap, heap->root, below);
	}
	memset(node, 0, sizeof(*node));
}
