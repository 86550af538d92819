/* SPDX-License-Identifier: BSD-3-Clause */
/* inferctl inspect --graph: the graph of each payload that was exported for VulkanBackend, on stdout. No backend is
 * needed, since payloads are only read. */
#include "clients/inferctl/graph.h"

#include "clients/inferctl/ctl.h"
#include "delegates/graph/passes.h"
#include "delegates/graph/text.h"
#include "delegates/graph/vulkan_payload.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <stdio.h>
#include <string.h>

static void write_out(void *self, const char *text, size_t n)
{
	fwrite(text, 1, n, stdout);
}

static bool find(void *self, const char *key, const uint8_t **ret_bytes, uint64_t *ret_n_bytes)
{
	size_t n;
	if (et_program_find_named_data(self, key, ret_bytes, &n) != ET_OK)
		return false;
	*ret_n_bytes = n;
	return true;
}

enum ctl_graph_form ctl_graph_form(const char *name)
{
	static const char *const names[CTL_N_GRAPH_FORMS] = { "text", "simplified", "dot" };
	uint32_t form = 0;
	while (form < CTL_N_GRAPH_FORMS && strcmp(names[form], name) != 0)
		form++;
	return (enum ctl_graph_form)form;
}

/* @ret_n_bytes: of the arena of a run. */
static enum et_status simplify(struct et_graph *graph, uint64_t *ret_n_bytes, struct et_diag *diag)
{
	static enum et_status (*const passes[])(struct et_graph *, struct et_diag *) = { et_graph_precompute,
		et_graph_remove_copies, et_graph_simplify_quantized, et_graph_fuse_attention, et_graph_fuse_epilogues,
		et_graph_fuse_chains, et_graph_remove_copies };
	for (size_t i = 0; i < ET_ARRAY_LEN(passes); i++) {
		enum et_status status = passes[i](graph, diag);
		if (status != ET_OK)
			return status;
	}
	et_graph_remove_dead(graph);
	et_graph_find_aliases(graph);
	return et_graph_place(graph, 64, ret_n_bytes, diag);
}

static bool print_one(const struct et_program *program, const struct et_method_spec *method, uint32_t index,
	enum ctl_graph_form form)
{
	static const struct et_graph_sink sink = { NULL, write_out };
	const struct et_delegate_spec *spec = &method->delegates[index];
	const struct et_graph_named_data named_data = { (void *)program, find };
	struct et_graph graph;
	struct et_pool pool;
	struct et_diag diag = { "" };
	et_pool_init(&pool, et_platform_allocator());
	uint64_t n_bytes = 0;
	enum et_status status = et_graph_read_vulkan(&graph, spec->payload, spec->n_bytes, &named_data, &pool, &diag);
	if (status == ET_OK && form == CTL_GRAPH_SIMPLIFIED)
		status = simplify(&graph, &n_bytes, &diag);
	if (status == ET_OK) {
		printf("%s method %s, payload %u%s%s\n", form == CTL_GRAPH_DOT ? "//" : "#", ctl_safe(method->name),
			index, form == CTL_GRAPH_SIMPLIFIED ? ": memory of a run " : "",
			form == CTL_GRAPH_SIMPLIFIED ? ctl_bytes(n_bytes) : "");
		if (form == CTL_GRAPH_DOT)
			et_graph_print_dot(&graph, &sink);
		else if (!et_graph_print(&graph, &sink))
			status = et_fail(&diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to print the graph");
	}
	if (status != ET_OK)
		ctl_fail("method %s, payload %u: %s", ctl_safe(method->name), index, diag.text);
	et_pool_deinit(&pool);
	return status == ET_OK;
}

int ctl_graph_print(const struct et_program *program, enum ctl_graph_form form)
{
	uint32_t n_found = 0, n_failed = 0;
	for (uint32_t m = 0; m < et_program_n_methods(program); m++) {
		const struct et_method_spec *method = et_program_method_at(program, m);
		for (uint32_t i = 0; i < method->n_delegates; i++) {
			if (strcmp(method->delegates[i].id, "VulkanBackend") != 0)
				continue;
			n_found++;
			n_failed += !print_one(program, method, i, form);
		}
	}
	if (!n_found)
		return ctl_fail("no payload of the program is a graph for a GPU (exported for VulkanBackend)");
	return n_failed ? CTL_FAILED : CTL_OK;
}
