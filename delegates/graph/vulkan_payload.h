/* SPDX-License-Identifier: BSD-3-Clause */
/* Read a payload that ExecuTorch exported for "VulkanBackend" into a graph.
 *
 * The payload is a header ("VH00"), a FlatBuffer ("VK00") and bytes of constants; constants lie in these bytes or in
 * the program's named data. It is plain ATen operators over row-major tensors: what it says about textures and memory
 * layouts is for Vulkan and ignored here, and so is which tensors share memory.
 *
 * Source: ExecuTorch backends/vulkan/serialization/schema.fbs and vulkan_graph_serialize.py beside it. */
#ifndef DELEGATES_GRAPH_VULKAN_PAYLOAD_H
#define DELEGATES_GRAPH_VULKAN_PAYLOAD_H

#include "delegates/graph/graph.h"

/* How the reader finds the program's named data: true, and the bytes, which live as long as the graph. */
struct et_graph_named_data {
	void *self;
	bool (*find)(void *self, const char *key, const uint8_t **ret_bytes, uint64_t *ret_n_bytes);
};

/* Read, and verify (et_graph_verify). @ret_graph's memory comes from @pool; its constants point into @bytes and into
 * named data. ET_E_DELEGATE_INVALID_COMPATIBILITY (no such payload, or corrupt), ET_E_NOT_SUPPORTED (names an operator
 * that does not exist here, or a limit), ET_E_NOT_FOUND (named data), ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_graph_read_vulkan(struct et_graph *ret_graph, const uint8_t *bytes, size_t n_bytes,
	const struct et_graph_named_data *named_data, struct et_pool *pool, struct et_diag *diag);

#endif
