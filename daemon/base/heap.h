/* SPDX-License-Identifier: BSD-3-Clause */
/* A priority queue of nodes embedded in the objects it orders: a pairing heap.
 *
 * No call allocates or fails. Push is O(1), taking the first and removing any are O(log n) amortized. Not
 * thread-safe. A node that is in no heap is all zeros. */
#ifndef DAEMON_BASE_HEAP_H
#define DAEMON_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

struct inf_heap_node {
	struct inf_heap_node *child, *next;
	struct inf_heap_node *prev; /* the sibling before it, or the parent of a first child */
	bool is_in;
};

struct inf_heap {
	struct inf_heap_node *root; /* the first node in the order; NULL while empty */
	bool (*is_before)(const struct inf_heap_node *a, const struct inf_heap_node *b);
};

/* @node must not be in a heap. */
void inf_heap_push(struct inf_heap *heap, struct inf_heap_node *node);
/* Nothing happens if @node is in no heap; if it is in one, it must be this one. */
void inf_heap_remove(struct inf_heap *heap, struct inf_heap_node *node);

#endif
