/* SPDX-License-Identifier: BSD-3-Clause */
/* The printer of texts. Values get their numbers when they are first written; what no node makes is written before the
 * line that first reads it. */
#include "delegates/graph/text.h"

#include "delegates/graph/operators.h"
#include "delegates/graph/text_internal.h"
#include "runtime/base/checked.h"
#include "runtime/tensor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const struct et_graph_type_name et_graph_type_names[] = {
	{ ET_UINT8, "u8" },
	{ ET_INT8, "i8" },
	{ ET_INT32, "i32" },
	{ ET_INT64, "i64" },
	{ ET_FLOAT16, "f16" },
	{ ET_FLOAT32, "f32" },
	{ ET_FLOAT64, "f64" },
	{ ET_BOOL, "bool" },
};
const size_t et_graph_n_type_names = ET_ARRAY_LEN(et_graph_type_names);

enum { MAX_ELEMENTS = 16 }; /* of a constant whose numbers are printed */

struct printer {
	const struct et_graph *graph;
	const struct et_graph_sink *sink;
	uint32_t *numbers; /* of values; ET_GRAPH_NONE: not yet */
	uint32_t next;
	uint32_t running; /* the running value, in the arguments of a step */
	uint8_t result_type;
};

static void put(struct printer *p, const char *text)
{
	p->sink->write(p->sink->self, text, strlen(text));
}

static const char *type_name(uint8_t type)
{
	for (size_t i = 0; i < et_graph_n_type_names; i++)
		if (et_graph_type_names[i].type == type)
			return et_graph_type_names[i].name;
	return "?";
}

static void put_int(struct printer *p, int64_t i)
{
	char text[32];
	snprintf(text, sizeof(text), "%" PRId64, i);
	put(p, text);
}

/* Write @d with so many digits that it reads back the same, and never like an int. */
static void put_double(struct printer *p, double d)
{
	char text[40];
	if (isnan(d)) {
		put(p, "nan");
		return;
	}
	snprintf(text, sizeof(text), "%.17g", d);
	for (int digits = 1; digits < 17; digits++) {
		char shorter[40];
		double back;
		snprintf(shorter, sizeof(shorter), "%.*g", digits, d);
		if (sscanf(shorter, "%lf", &back) == 1 && back == d) {
			memcpy(text, shorter, sizeof(text));
			break;
		}
	}
	put(p, text);
	if (!strpbrk(text, ".en"))
		put(p, ".0");
}

static void put_string(struct printer *p, const char *string)
{
	char text[8];
	put(p, "\"");
	for (const char *c = string; *c; c++) {
		if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ' || (unsigned char)*c > '~')
			snprintf(text, sizeof(text), "\\x%02x", (unsigned char)*c);
		else
			snprintf(text, sizeof(text), "%c", *c);
		put(p, text);
	}
	put(p, "\"");
}

static void put_name(struct printer *p, uint32_t index)
{
	if (p->numbers[index] == ET_GRAPH_NONE)
		p->numbers[index] = p->next++;
	put(p, "%");
	put_int(p, p->numbers[index]);
}

static void put_value(struct printer *p, uint32_t index);

static void put_running(struct printer *p, const struct et_graph_value *value)
{
	put(p, "_");
	if (value->tensor->type == p->result_type)
		return;
	put(p, ": ");
	put(p, type_name(value->tensor->type));
}

static void put_item(struct printer *p, const struct et_graph_value *list, uint32_t i)
{
	if (list->kind == ET_GRAPH_INTS)
		put_int(p, list->list.ints[i]);
	else if (list->kind == ET_GRAPH_DOUBLES)
		put_double(p, list->list.doubles[i]);
	else if (list->kind == ET_GRAPH_BOOLS)
		put(p, list->list.bools[i] ? "true" : "false");
	else
		put_value(p, list->list.values[i]);
}

static void put_value(struct printer *p, uint32_t index)
{
	const struct et_graph_value *value = &p->graph->values[index];
	switch ((enum et_graph_kind)value->kind) {
	case ET_GRAPH_INT:
		put_int(p, value->i);
		break;
	case ET_GRAPH_DOUBLE:
		put_double(p, value->d);
		break;
	case ET_GRAPH_BOOL:
		put(p, value->b ? "true" : "false");
		break;
	case ET_GRAPH_STRING:
		put_string(p, value->string);
		break;
	case ET_GRAPH_INTS:
	case ET_GRAPH_DOUBLES:
	case ET_GRAPH_BOOLS:
	case ET_GRAPH_VALUES:
		put(p, "[");
		for (uint32_t i = 0; i < value->list.n; i++) {
			put(p, i ? ", " : "");
			put_item(p, value, i);
		}
		put(p, "]");
		break;
	case ET_GRAPH_SYMBOL:
	case ET_GRAPH_TENSOR:
		if (index == p->running)
			put_running(p, value);
		else
			put_name(p, index);
		break;
	default:
		put(p, "none");
	}
}

/* The place that passes gave the tensor. */
static void put_memory(struct printer *p, const struct et_graph_tensor *tensor)
{
	char text[64];
	if (tensor->alias_of != ET_GRAPH_NONE) {
		put(p, " in ");
		put_name(p, tensor->alias_of);
		if (tensor->alias_start) {
			snprintf(text, sizeof(text), " from row %" PRIu64 " of dim %u", tensor->alias_start,
				tensor->alias_dim);
			put(p, text);
		}
	} else if (tensor->place < ET_GRAPH_OUTPUT_PLACE) {
		snprintf(text, sizeof(text), " at %" PRIu64, tensor->place);
		put(p, text);
	}
}

/* "%3: f32[1, 8]" */
static void put_made(struct printer *p, uint32_t index)
{
	const struct et_graph_value *value = &p->graph->values[index];
	put_name(p, index);
	if (value->kind != ET_GRAPH_TENSOR) {
		put(p, ": symbol");
		return;
	}
	put(p, ": ");
	put(p, type_name(value->tensor->type));
	put(p, "[");
	for (uint32_t i = 0; i < value->tensor->n_dims; i++) {
		put(p, i ? ", " : "");
		put_int(p, value->tensor->dims[i]);
	}
	put(p, "]");
	put_memory(p, value->tensor);
}

static void put_host_type(struct printer *p, uint32_t index)
{
	const struct et_graph_value *value = &p->graph->values[index];
	if (value->kind != ET_GRAPH_TENSOR || value->tensor->type == value->tensor->host_type)
		return;
	put(p, " ");
	put(p, type_name(value->tensor->host_type));
}

/* The elements, if they are few and known. */
static bool put_elements(struct printer *p, const struct et_graph_tensor *tensor)
{
	size_t item_bytes = et_scalar_size((enum et_scalar_type)tensor->type), n = tensor->n_bytes / item_bytes;
	double d;
	if (!tensor->data || n > MAX_ELEMENTS)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!et_graph_load(tensor->data, tensor->type, i, &d))
			return false;
	put(p, " = constant {");
	for (size_t i = 0; i < n; i++) {
		et_graph_load(tensor->data, tensor->type, i, &d);
		put(p, i ? ", " : "");
		if (tensor->type == ET_FLOAT32 || tensor->type == ET_FLOAT64)
			put_double(p, d);
		else
			put_int(p, (int64_t)d);
	}
	put(p, "}\n");
	return true;
}

static void put_constant(struct printer *p, const struct et_graph_tensor *tensor)
{
	char text[96];
	if (put_elements(p, tensor))
		return;
	if (tensor->constant != ET_GRAPH_NONE)
		snprintf(text, sizeof(text), " = constant %u\n", tensor->constant);
	else
		snprintf(text, sizeof(text), " = constant\n");
	put(p, text);
}

/* Write the constants and states that the argument has, before the first line that reads them. */
static void put_sources(struct printer *p, uint32_t index)
{
	const struct et_graph_value *value = &p->graph->values[index];
	if (value->kind == ET_GRAPH_VALUES) {
		for (uint32_t i = 0; i < value->list.n; i++)
			put_sources(p, value->list.values[i]);
		return;
	}
	if (value->kind != ET_GRAPH_TENSOR || p->numbers[index] != ET_GRAPH_NONE)
		return;
	if (value->origin == ET_GRAPH_CONSTANT) {
		put_made(p, index);
		put_constant(p, value->tensor);
	} else if (value->origin == ET_GRAPH_STATE) {
		put_made(p, index);
		put(p, " = state\n");
	}
}

static void put_call(struct printer *p, const struct et_graph_node *part)
{
	put(p, part->op->name);
	put(p, "(");
	for (uint32_t i = 0; i < part->n_args; i++) {
		put(p, i ? ", " : "");
		put_value(p, part->args[i]);
	}
	put(p, ")");
}

static void put_node(struct printer *p, const struct et_graph_node *node)
{
	for (uint32_t k = 0; k <= node->n_steps; k++) {
		struct et_graph_node part = et_graph_part(node, k);
		for (uint32_t i = 0; i < part.n_args; i++)
			put_sources(p, part.args[i]);
	}
	for (uint32_t i = 0; i < node->n_results; i++) {
		put(p, i ? ", " : "");
		put_made(p, node->results[i]);
	}
	put(p, " = ");
	for (uint32_t k = 0; k <= node->n_steps; k++) {
		struct et_graph_node part = et_graph_part(node, k);
		put(p, k ? " | " : "");
		p->running = k ? node->steps[k - 1].input : ET_GRAPH_NONE;
		p->result_type = k ? p->graph->values[node->results[0]].tensor->type : 0;
		put_call(p, &part);
	}
	p->running = ET_GRAPH_NONE;
	put(p, "\n");
}

bool et_graph_load(const uint8_t *data, uint8_t type, size_t index, double *ret_number)
{
	int64_t i64;
	int32_t i32;
	float f;
	switch (type) {
	case ET_UINT8:
	case ET_BOOL:
		*ret_number = data[index];
		return true;
	case ET_INT8:
		*ret_number = (int8_t)data[index];
		return true;
	case ET_INT32:
		memcpy(&i32, data + index * sizeof(i32), sizeof(i32));
		*ret_number = i32;
		return true;
	case ET_INT64:
		memcpy(&i64, data + index * sizeof(i64), sizeof(i64));
		*ret_number = (double)i64;
		return i64 < (INT64_C(1) << 53) && i64 > -(INT64_C(1) << 53);
	case ET_FLOAT32:
		memcpy(&f, data + index * sizeof(f), sizeof(f));
		*ret_number = (double)f;
		return true;
	case ET_FLOAT64:
		memcpy(ret_number, data + index * sizeof(double), sizeof(double));
		return true;
	default:
		return false;
	}
}

bool et_graph_store(uint8_t *data, uint8_t type, size_t index, double number)
{
	static const struct {
		uint8_t type;
		double least, most;
	} ranges[] = { { ET_UINT8, 0, UINT8_MAX }, { ET_BOOL, 0, 1 }, { ET_INT8, INT8_MIN, INT8_MAX },
		{ ET_INT32, INT32_MIN, INT32_MAX }, { ET_INT64, -0x1p53 + 1, 0x1p53 - 1 } };
	size_t n = et_scalar_size((enum et_scalar_type)type);
	float f = (float)number;
	int64_t i = 0;
	if (type == ET_FLOAT32 || type == ET_FLOAT64) {
		memcpy(data + index * n, type == ET_FLOAT32 ? (const void *)&f : &number, n);
		return true;
	}
	for (size_t k = 0; k < ET_ARRAY_LEN(ranges); k++)
		if (ranges[k].type == type) {
			if (!(number >= ranges[k].least && number <= ranges[k].most) || number != floor(number))
				return false;
			i = (int64_t)number;
			memcpy(data + index * n, &i, n); /* little-endian */
			return true;
		}
	return false;
}

bool et_graph_print(const struct et_graph *graph, const struct et_graph_sink *sink)
{
	struct et_pool pool;
	et_pool_init(&pool, &graph->pool->allocator);
	struct printer p = { .graph = graph, .sink = sink, .running = ET_GRAPH_NONE };
	p.numbers = ET_POOL_NEW_ARRAY(&pool, uint32_t, graph->n_values);
	if (p.numbers) {
		memset(p.numbers, 0xff, graph->n_values * sizeof(*p.numbers));
		for (uint32_t i = 0; i < graph->n_inputs; i++) {
			put_made(&p, graph->inputs[i]);
			put(&p, " = input");
			put_host_type(&p, graph->inputs[i]);
			put(&p, "\n");
		}
		for (uint32_t i = 0; i < graph->n_nodes; i++)
			put_node(&p, &graph->nodes[i]);
		for (uint32_t i = 0; i < graph->n_outputs; i++)
			put_sources(&p, graph->outputs[i]);
		put(&p, "return");
		for (uint32_t i = 0; i < graph->n_outputs; i++) {
			put(&p, i ? ", " : " ");
			put_value(&p, graph->outputs[i]);
			put_host_type(&p, graph->outputs[i]);
		}
		put(&p, "\n");
	}
	et_pool_deinit(&pool);
	return p.numbers != NULL;
}
