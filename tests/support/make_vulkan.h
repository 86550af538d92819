/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes a graph as a VulkanBackend payload: for tests with operators that no program at hand has, and for fuzzing. */
#ifndef TESTS_SUPPORT_MAKE_VULKAN_H
#define TESTS_SUPPORT_MAKE_VULKAN_H

#include "delegates/graph/graph.h"

/* The payload, for free(); constants lie in it, as zeros where the graph does not have their data. */
uint8_t *make_vulkan(const struct et_graph *graph, size_t *ret_n);

#endif
