/* SPDX-License-Identifier: BSD-3-Clause */
/* The writer of payloads: the inverse of delegates/graph/vulkan_payload.c. It aborts when memory runs out. */
#include "tests/support/make_vulkan.h"

#include "delegates/graph/operators.h"
#include "runtime/base/checked.h"
#include "runtime/tensor.h"
#include "tests/support/fb_build.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 32 };

struct writer {
	const struct et_graph *graph;
	struct fb_build fb;
	uint64_t n_constant_bytes;
	fbb_ref *constants;
	uint32_t n_constants;
};

static void *room(size_t n, size_t item_bytes)
{
	void *items = calloc(n ? n : 1, item_bytes);
	if (!items)
		abort();
	return items;
}

static uint8_t type_number(uint8_t type)
{
	static const uint8_t types[] = { ET_BOOL, ET_UINT8, ET_INT8, ET_INT32, ET_FLOAT16, ET_FLOAT32, ET_FLOAT64,
		ET_INT64 };
	for (uint8_t i = 0; i < ET_ARRAY_LEN(types); i++)
		if (types[i] == type)
			return i;
	abort();
}

static fbb_ref constant(struct writer *w, const struct et_graph_tensor *tensor)
{
	fbb_table_begin(&w->fb);
	fbb_add_u64(&w->fb, 0, w->n_constant_bytes);
	fbb_add_u64(&w->fb, 1, tensor->n_bytes);
	w->n_constant_bytes += tensor->n_bytes;
	return fbb_table_end(&w->fb);
}

static fbb_ref tensor_value(struct writer *w, const struct et_graph_value *value)
{
	const struct et_graph_tensor *tensor = value->tensor;
	bool is_constant = value->origin == ET_GRAPH_CONSTANT || value->origin == ET_GRAPH_STATE;
	fbb_ref dims = fbb_vector(&w->fb, tensor->dims, tensor->n_dims, 4, 4);
	if (is_constant)
		w->constants[w->n_constants] = constant(w, tensor);
	fbb_table_begin(&w->fb);
	fbb_add_u8(&w->fb, 0, type_number(tensor->type));
	fbb_add_ref(&w->fb, 1, dims);
	fbb_add_u32(&w->fb, 2, is_constant ? w->n_constants++ : UINT32_MAX);
	fbb_add_u32(&w->fb, 3, value->origin == ET_GRAPH_STATE ? 0 : UINT32_MAX);
	fbb_add_u8(&w->fb, 6, type_number(tensor->host_type));
	return fbb_table_end(&w->fb);
}

static fbb_ref list_value(struct writer *w, const struct et_graph_value *value)
{
	uint32_t n_item = value->kind == ET_GRAPH_BOOLS ? 1 : value->kind == ET_GRAPH_VALUES ? 4 : 8;
	fbb_ref items = fbb_vector(&w->fb, value->list.ints, value->list.n, n_item, n_item);
	fbb_table_begin(&w->fb);
	fbb_add_ref(&w->fb, 0, items);
	return fbb_table_end(&w->fb);
}

/* @ret_type: the number in the union GraphTypes. */
static fbb_ref inner_value(struct writer *w, const struct et_graph_value *value, uint8_t *ret_type)
{
	static const uint8_t types[ET_GRAPH_N_KINDS] = { [ET_GRAPH_NULL] = 1,
		[ET_GRAPH_INT] = 2,
		[ET_GRAPH_DOUBLE] = 3,
		[ET_GRAPH_BOOL] = 4,
		[ET_GRAPH_TENSOR] = 5,
		[ET_GRAPH_INTS] = 6,
		[ET_GRAPH_DOUBLES] = 7,
		[ET_GRAPH_BOOLS] = 8,
		[ET_GRAPH_VALUES] = 9,
		[ET_GRAPH_STRING] = 10,
		[ET_GRAPH_SYMBOL] = 11 };
	fbb_ref text = value->kind == ET_GRAPH_STRING ? fbb_string(&w->fb, value->string) : 0;
	*ret_type = types[value->kind];
	if (value->kind == ET_GRAPH_TENSOR)
		return tensor_value(w, value);
	if (value->kind >= ET_GRAPH_INTS && value->kind <= ET_GRAPH_VALUES)
		return list_value(w, value);
	fbb_table_begin(&w->fb);
	if (value->kind == ET_GRAPH_INT)
		fbb_add_u64(&w->fb, 0, (uint64_t)value->i);
	else if (value->kind == ET_GRAPH_DOUBLE)
		fbb_add_f64(&w->fb, 0, value->d);
	else if (value->kind == ET_GRAPH_BOOL)
		fbb_add_u8(&w->fb, 0, value->b);
	else if (value->kind == ET_GRAPH_STRING)
		fbb_add_ref(&w->fb, 0, text);
	return fbb_table_end(&w->fb);
}

static fbb_ref outer_value(struct writer *w, const struct et_graph_value *value)
{
	uint8_t type;
	fbb_ref inner = inner_value(w, value, &type);
	fbb_table_begin(&w->fb);
	fbb_add_u8(&w->fb, 0, type);
	fbb_add_ref(&w->fb, 1, inner);
	return fbb_table_end(&w->fb);
}

/* Several results are a value of their own: a list, which is appended to @values. */
static fbb_ref call(struct writer *w, const struct et_graph_node *node, fbb_ref *values, uint32_t *n_values)
{
	uint32_t *args = room(node->n_args + 1, sizeof(*args));
	memcpy(args, node->args, node->n_args * sizeof(*args));
	args[node->n_args] = node->results[0];
	if (node->n_results != 1) {
		const struct et_graph_value list = { .kind = ET_GRAPH_VALUES,
			.list = { .n = node->n_results, .values = node->results } };
		args[node->n_args] = *n_values;
		values[(*n_values)++] = outer_value(w, &list);
	}
	fbb_ref name = fbb_string(&w->fb, node->op->name);
	fbb_ref vector = fbb_vector(&w->fb, args, node->n_args + 1, 4, 4);
	free(args);
	fbb_table_begin(&w->fb);
	fbb_add_ref(&w->fb, 1, name);
	fbb_add_ref(&w->fb, 2, vector);
	return fbb_table_end(&w->fb);
}

static void write_graph(struct writer *w)
{
	const struct et_graph *graph = w->graph;
	fbb_ref *values = room(graph->n_values + graph->n_nodes, sizeof(*values));
	fbb_ref *calls = room(graph->n_nodes, sizeof(*calls));
	uint32_t n_values = graph->n_values;
	w->constants = room(graph->n_values, sizeof(*w->constants));
	for (uint32_t i = 0; i < graph->n_values; i++)
		values[i] = outer_value(w, &graph->values[i]);
	for (uint32_t i = 0; i < graph->n_nodes; i++)
		calls[i] = call(w, &graph->nodes[i], values, &n_values);
	fbb_ref fields[] = { fbb_string(&w->fb, "0"), fbb_refs(&w->fb, calls, graph->n_nodes),
		fbb_refs(&w->fb, values, n_values), fbb_vector(&w->fb, graph->inputs, graph->n_inputs, 4, 4),
		fbb_vector(&w->fb, graph->outputs, graph->n_outputs, 4, 4),
		fbb_refs(&w->fb, w->constants, w->n_constants) };
	fbb_table_begin(&w->fb);
	for (unsigned i = 0; i < ET_ARRAY_LEN(fields); i++)
		fbb_add_ref(&w->fb, i, fields[i]);
	fbb_finish(&w->fb, fbb_table_end(&w->fb), "VK00", 0);
	free(values);
	free(calls);
	free(w->constants);
}

static void copy_constants(const struct et_graph *graph, uint8_t *to)
{
	for (uint32_t i = 0; i < graph->n_values; i++) {
		const struct et_graph_value *value = &graph->values[i];
		if (value->kind != ET_GRAPH_TENSOR ||
			(value->origin != ET_GRAPH_CONSTANT && value->origin != ET_GRAPH_STATE))
			continue;
		if (value->tensor->data)
			memcpy(to, value->tensor->data, value->tensor->n_bytes);
		to += value->tensor->n_bytes;
	}
}

static void put_u32(uint8_t *to, size_t i)
{
	uint32_t u32 = (uint32_t)i;
	memcpy(to, &u32, sizeof(u32));
}

uint8_t *make_vulkan(const struct et_graph *graph, size_t *ret_n)
{
	struct writer w = { .graph = graph };
	size_t n;
	fbb_init(&w.fb);
	write_graph(&w);
	const uint8_t *bytes = fbb_data(&w.fb, &n);
	*ret_n = HEADER_BYTES + n + w.n_constant_bytes;
	uint8_t *payload = room(*ret_n, 1);
	memcpy(payload + 4, "VH00", 4);
	payload[8] = HEADER_BYTES;
	put_u32(payload + 10, HEADER_BYTES);
	put_u32(payload + 14, n);
	put_u32(payload + 18, HEADER_BYTES + n);
	put_u32(payload + 22, w.n_constant_bytes);
	memcpy(payload + HEADER_BYTES, bytes, n);
	copy_constants(graph, payload + HEADER_BYTES + n);
	fbb_deinit(&w.fb);
	return payload;
}
