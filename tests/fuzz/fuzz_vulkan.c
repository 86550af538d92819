/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: the input is a VulkanBackend payload. What is read is printed and parsed, and both must give the same
 * text; its shape rules run with other sizes than the largest. An input that begins with '%' is a graph's text. */
#include "delegates/graph/passes.h"
#include "delegates/graph/shapes.h"
#include "delegates/graph/text.h"
#include "delegates/graph/vulkan_payload.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/counting_alloc.h"

#include <stdlib.h>
#include <string.h>

struct text {
	char *chars;
	size_t n, room;
};

static void append(void *self, const char *chars, size_t n)
{
	struct text *text = self;
	if (!n)
		return;
	if (text->n + n > text->room) {
		text->room = (text->n + n) * 2;
		text->chars = realloc(text->chars, text->room);
		if (!text->chars)
			abort();
	}
	memcpy(text->chars + text->n, chars, n);
	text->n += n;
}

static struct text print(const struct et_graph *graph)
{
	struct text text = { 0 };
	const struct et_graph_sink sink = { &text, append };
	if (!et_graph_print(graph, &sink))
		abort();
	return text;
}

static void try_sizes(const struct et_graph *graph)
{
	struct et_graph_size *sizes = calloc(graph->n_values ? graph->n_values : 1, sizeof(*sizes));
	struct et_diag diag = { "" };
	if (!sizes)
		abort();
	et_graph_largest_sizes(graph, sizes);
	for (uint32_t i = 0; i < graph->n_values; i++) {
		sizes[i].is_known = true;
		sizes[i].symbol = INT64_MIN / (i + 1);
		for (uint32_t k = 0; k < sizes[i].n_dims; k++)
			sizes[i].dims[k] = (i + k) % 3 ? sizes[i].dims[k] / 2 : UINT32_MAX - k;
	}
	for (uint32_t i = 0; i < graph->n_nodes; i++)
		if (et_graph_infer(graph, i, sizes, &diag) == ET_E_INVALID_ARGUMENT && !diag.text[0])
			abort();
	free(sizes);
}

static enum et_status make(struct et_graph *graph, const uint8_t *bytes, size_t n, struct et_pool *pool,
	struct et_diag *diag)
{
	return n && bytes[0] == '%' ? et_graph_parse(graph, (const char *)bytes, n, pool, diag)
				    : et_graph_read_vulkan(graph, bytes, n, NULL, pool, diag);
}

/* Whether a later node reads what lies in @owner. */
static bool is_read_after(const struct et_graph *graph, const uint32_t *owners, uint32_t owner, uint32_t node)
{
	for (uint32_t n = node + 1; n < graph->n_nodes; n++)
		for (uint32_t p = 0; p <= graph->nodes[n].n_steps; p++) {
			struct et_graph_node part = et_graph_part(&graph->nodes[n], p);
			for (uint32_t i = 0; i < part.n_args; i++) {
				const struct et_graph_value *arg = &graph->values[part.args[i]];
				if (owners[part.args[i]] == owner)
					return true;
				for (uint32_t k = 0; arg->kind == ET_GRAPH_VALUES && k < arg->list.n; k++)
					if (owners[arg->list.values[k]] == owner)
						return true;
			}
		}
	return false;
}

/* A result must not lie in memory whose contents a later node, or its own one, still reads. */
static void check_places(const struct et_graph *graph, uint64_t n_arena)
{
	uint32_t *owners = calloc(graph->n_values, sizeof(*owners));
	bool *is_made = calloc(graph->n_values, sizeof(*is_made));
	if (!owners || !is_made)
		abort();
	for (uint32_t i = 0; i < graph->n_values; i++)
		owners[i] = i;
	for (uint32_t n = 0; n < graph->n_nodes; n++) {
		for (uint32_t i = 0; i < graph->nodes[n].n_results; i++) {
			uint32_t result = graph->nodes[n].results[i];
			const struct et_graph_tensor *tensor = graph->values[result].tensor;
			if (graph->values[result].kind != ET_GRAPH_TENSOR)
				continue;
			if (tensor->alias_of != ET_GRAPH_NONE)
				owners[result] = owners[tensor->alias_of];
			if (tensor->place >= ET_GRAPH_OUTPUT_PLACE)
				continue;
			if (tensor->place % 64 || tensor->n_bytes > n_arena - tensor->place)
				abort();
			for (uint32_t k = 0; k < graph->n_values; k++) {
				const struct et_graph_tensor *other = graph->values[k].tensor;
				if (is_made[k] && other->place < tensor->place + tensor->n_bytes &&
					tensor->place < other->place + other->n_bytes &&
					(is_read_after(graph, owners, k, n ? n - 1 : 0)))
					abort();
			}
			is_made[result] = true;
		}
	}
	free(owners);
	free(is_made);
}

static void try_passes(struct et_graph *graph, uint32_t n_input)
{
	struct et_diag diag = { "" };
	uint64_t n_arena;
	static enum et_status (*const passes[])(struct et_graph *, struct et_diag *) = { et_graph_remove_copies,
		et_graph_precompute, et_graph_simplify_quantized, et_graph_fuse_attention, et_graph_fuse_epilogues,
		et_graph_fuse_chains };
	for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]); i++)
		if (passes[i](graph, &diag) != ET_OK || et_graph_verify(graph, &diag) != ET_OK)
			abort();
	et_graph_remove_dead(graph);
	if (et_graph_verify(graph, &diag) != ET_OK)
		abort();
	et_graph_find_aliases(graph);
	if (et_graph_place(graph, 64, &n_arena, &diag) == ET_OK && n_input < 4096)
		check_places(graph, n_arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	struct counting_alloc counting = { 0 };
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_graph graph, again;
	struct et_pool pool;
	struct et_diag diag = { "" };
	et_pool_init(&pool, &allocator);
	if (make(&graph, bytes, n_bytes, &pool, &diag) == ET_OK) {
		struct text text = print(&graph);
		if (et_graph_parse(&again, text.chars, text.n, &pool, &diag) == ET_OK) {
			struct text second = print(&again);
			if (second.n != text.n || memcmp(second.chars, text.chars, text.n) != 0)
				abort();
			free(second.chars);
		} else if (text.n < 4096) { /* larger ones may pass a limit of texts */
			abort();
		}
		free(text.chars);
		try_sizes(&graph);
		try_passes(&graph, (uint32_t)n_bytes);
	} else if (!diag.text[0]) {
		abort();
	}
	et_pool_deinit(&pool);
	if (counting.n_live != 0)
		abort();
	return 0;
}
