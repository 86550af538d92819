/* SPDX-License-Identifier: BSD-3-Clause */
/* Prebuilt runtimes: lists of them, found by number.
 *
 * The list may be the Program's (prebuilt_cache.c) or a worker's (threads.c). A number stays valid when the payload is
 * gone: then it is not found. Deleting a runtime reads neither the payload nor its weights. */
#include "delegates/xnnpack/prebuilt.h"

#include "delegates/xnnpack/allocator.h"

#include <stdatomic.h>
#include <string.h>

static size_t size_of(uint32_t n_runtimes)
{
	return sizeof(struct et_xnn_prebuilt) + n_runtimes * sizeof(xnn_runtime_t);
}

struct et_xnn_prebuilt *et_xnn_prebuilt_new(const struct et_allocator *allocator, uint32_t n_runtimes)
{
	static _Atomic(uint64_t) last_number;
	struct et_xnn_prebuilt *prebuilt = allocator->alloc(allocator->self, size_of(n_runtimes),
		_Alignof(struct et_xnn_prebuilt));
	if (!prebuilt)
		return NULL;
	memset(prebuilt, 0, size_of(n_runtimes));
	et_list_init(&prebuilt->node);
	prebuilt->number = atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
	prebuilt->n_runtimes = n_runtimes;
	return prebuilt;
}

void et_xnn_prebuilt_free(const struct et_allocator *allocator, struct et_xnn_prebuilt *prebuilt)
{
	et_list_remove(&prebuilt->node);
	et_xnn_memory_own(prebuilt->n_held);
	for (uint32_t i = 0; i < prebuilt->n_runtimes; i++)
		xnn_delete_runtime(prebuilt->runtimes[i]);
	allocator->free(allocator->self, prebuilt, size_of(prebuilt->n_runtimes));
}

struct et_xnn_prebuilt *et_xnn_prebuilt_find(const struct et_list_node *list, uint64_t number)
{
	for (struct et_list_node *node = list->next; node != list; node = node->next) {
		struct et_xnn_prebuilt *prebuilt = ET_CONTAINER_OF(node, struct et_xnn_prebuilt, node);
		if (prebuilt->number == number)
			return prebuilt;
	}
	return NULL;
}

void et_xnn_prebuilt_list_clear(const struct et_allocator *allocator, struct et_list_node *list)
{
	while (!et_list_is_empty(list))
		et_xnn_prebuilt_free(allocator, ET_CONTAINER_OF(list->next, struct et_xnn_prebuilt, node));
}
