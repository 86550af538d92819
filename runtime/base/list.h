/* SPDX-License-Identifier: BSD-3-Clause */
/* A doubly linked ring of nodes that are embedded in the objects they link. Not thread-safe.
 *
 * An initialized node that is in no list is linked to itself, so et_list_remove may be called on it at any time, and
 * more than once. */
#ifndef RUNTIME_BASE_LIST_H
#define RUNTIME_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct et_list_node {
	struct et_list_node *prev, *next;
};

#define ET_CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

static inline void et_list_init(struct et_list_node *node)
{
	node->prev = node->next = node;
}

static inline bool et_list_is_empty(const struct et_list_node *head)
{
	return head->next == head;
}

static inline void et_list_append(struct et_list_node *head, struct et_list_node *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

static inline void et_list_remove(struct et_list_node *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	et_list_init(node);
}

/* The body may remove @node. @after is a spare `struct et_list_node *`. */
#define ET_LIST_FOR_EACH(node, after, head) \
	for ((node) = (head)->next, (after) = (node)->next; (node) != (head); (node) = (after), (after) = (node)->next)

#endif
