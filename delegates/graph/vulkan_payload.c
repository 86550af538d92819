/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of VulkanBackend payloads. It takes values, calls and constants as they stand, and checks that indexes are
 * in range and bytes exist; et_graph_verify checks what they mean. The number of a value in the payload is its index in
 * the graph. */
#include "delegates/graph/vulkan_payload.h"

#include "delegates/graph/operators.h"
#include "runtime/base/checked.h"
#include "runtime/program/flatbuffer.h"
#include "runtime/tensor.h"

#include <string.h>

enum { HEADER_BYTES = 30, MAX_TEXT = 100 };
enum { GRAPH_CHAIN = 1, GRAPH_VALUES, GRAPH_INPUTS, GRAPH_OUTPUTS, GRAPH_CONSTANTS };
enum { CALL_NAME = 1, CALL_ARGS };
enum { TENSOR_TYPE, TENSOR_DIMS, TENSOR_CONSTANT, TENSOR_MEMORY, TENSOR_HOST_TYPE = 6 };
enum { CONSTANT_OFFSET, CONSTANT_LENGTH, CONSTANT_KEY };
enum { TYPE_UNSET = 127 };

/* The schema's numbers of the union GraphTypes. */
enum {
	UNION_NULL = 1,
	UNION_INT,
	UNION_DOUBLE,
	UNION_BOOL,
	UNION_TENSOR,
	UNION_INTS,
	UNION_DOUBLES,
	UNION_BOOLS,
	UNION_VALUES,
	UNION_STRING,
	UNION_SYMBOL,
};

struct reader {
	struct et_fb fb;
	struct et_graph *graph;
	const struct et_graph_named_data *named_data;
	struct et_fb_vector constants;
	const uint8_t *bytes; /* constants that lie in the payload */
	uint64_t n_bytes;
};

static enum et_status open_payload(struct reader *r, const uint8_t *bytes, size_t n, struct et_fb_table *ret_root,
	struct et_diag *diag)
{
	if (n < HEADER_BYTES || memcmp(bytes + 4, "VH00", 4) != 0)
		return et_fail(diag, ET_E_INVALID_PROGRAM, "Vulkan payload: it has no header 'VH00'");
	uint32_t graph_at = et_load_u32(bytes + 10), n_graph = et_load_u32(bytes + 14);
	uint32_t bytes_at = et_load_u32(bytes + 18);
	r->n_bytes = et_load_u64(bytes + 22);
	if (!et_in_range(graph_at, n_graph, n) || !et_in_range(bytes_at, r->n_bytes, n))
		return et_fail(diag, ET_E_INVALID_PROGRAM, "Vulkan payload: the header points outside its %zu bytes",
			n);
	r->bytes = bytes + bytes_at;
	*ret_root = et_fb_open(&r->fb, bytes + graph_at, n_graph, "VK00", diag);
	return et_fb_status(&r->fb);
}

/* --- values --------------------------------------------------------------------------------------- */

static enum et_status find_constant(struct reader *r, struct et_graph_tensor *tensor)
{
	if (tensor->constant >= r->constants.n)
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "constant %u of %u", tensor->constant, r->constants.n);
	struct et_fb_table entry = et_fb_table_at(&r->fb, r->constants, tensor->constant);
	struct et_fb_string key = et_fb_string(&r->fb, entry, CONSTANT_KEY);
	uint64_t offset = et_fb_u64(&r->fb, entry, CONSTANT_OFFSET, 0);
	uint64_t n = et_fb_u64(&r->fb, entry, CONSTANT_LENGTH, 0);
	if (et_fb_status(&r->fb) != ET_OK)
		return et_fb_status(&r->fb);
	if (key.n > 0) {
		if (!r->named_data || !r->named_data->find(r->named_data->self, key.chars, &tensor->data, &n))
			return et_fb_fail(&r->fb, ET_E_NOT_FOUND, "the program has no named data '%.100s'", key.chars);
	} else {
		if (!et_in_range(offset, n, r->n_bytes))
			return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "constant %u lies outside the payload",
				tensor->constant);
		tensor->data = r->bytes + offset;
	}
	/* A constant that is a view of a larger one may be stored from where the larger one begins, so any other length
	 * than the tensor's own would give wrong numbers. */
	if (n != tensor->n_bytes)
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM,
			"constant %u has %llu bytes, its sizes and type need %llu", tensor->constant,
			(unsigned long long)n, (unsigned long long)tensor->n_bytes);
	return ET_OK;
}

static bool read_type(uint8_t number, uint8_t *ret_type)
{
	static const uint8_t types[] = { ET_BOOL, ET_UINT8, ET_INT8, ET_INT32, ET_FLOAT16, ET_FLOAT32, ET_FLOAT64,
		ET_INT64 };
	if (number >= ET_ARRAY_LEN(types))
		return false;
	*ret_type = types[number];
	return true;
}

static enum et_status read_tensor(struct reader *r, struct et_fb_table table, struct et_graph_value *value)
{
	uint8_t type = et_fb_u8(&r->fb, table, TENSOR_TYPE, 0);
	uint8_t host_type = et_fb_u8(&r->fb, table, TENSOR_HOST_TYPE, TYPE_UNSET);
	struct et_fb_vector dims = et_fb_vector(&r->fb, table, TENSOR_DIMS, 4);
	/* An absent field is 0, the schema's default: constant 0. */
	int32_t constant = et_fb_i32(&r->fb, table, TENSOR_CONSTANT, 0);
	int32_t memory = et_fb_i32(&r->fb, table, TENSOR_MEMORY, 0);
	uint32_t sizes[ET_GRAPH_MAX_DIMS] = { 0 };
	if (dims.n > ET_GRAPH_MAX_DIMS)
		return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED, "%u dimensions, at most %u are supported", dims.n,
			ET_GRAPH_MAX_DIMS);
	for (uint32_t i = 0; i < dims.n; i++)
		sizes[i] = et_fb_u32_at(&r->fb, dims, i);
	if (et_fb_status(&r->fb) != ET_OK)
		return et_fb_status(&r->fb);
	struct et_graph_tensor *tensor = et_graph_new_tensor(r->graph, ET_FLOAT32, dims.n, sizes);
	if (!tensor)
		return et_fb_fail(&r->fb, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to read a Vulkan payload");
	if (!read_type(type, &tensor->type) ||
		!read_type(host_type == TYPE_UNSET ? type : host_type, &tensor->host_type))
		return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED, "datatype %u or %u is not known", type, host_type);
	if (!et_graph_set_bytes(tensor))
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "its sizes are too large");
	value->kind = ET_GRAPH_TENSOR;
	value->tensor = tensor;
	if (constant < 0)
		return ET_OK;
	tensor->constant = (uint32_t)constant;
	/* A constant with memory of its own is written by the graph: a KV cache. */
	value->origin = memory >= 0 ? ET_GRAPH_STATE : ET_GRAPH_CONSTANT;
	return find_constant(r, tensor);
}

static enum et_status read_list(struct reader *r, struct et_fb_table table, struct et_graph_value *value)
{
	uint32_t item_bytes = value->kind == ET_GRAPH_BOOLS ? 1 : value->kind == ET_GRAPH_VALUES ? 4 : 8;
	struct et_fb_vector items = et_fb_vector(&r->fb, table, 0, item_bytes);
	if (items.n > ET_GRAPH_MAX_LIST)
		return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED, "a list of %u items; at most %u are supported", items.n,
			ET_GRAPH_MAX_LIST);
	void *room = et_fb_array(&r->fb, r->graph->pool, items.n, item_bytes);
	value->list.n = room ? items.n : 0;
	value->list.ints = room;
	for (uint32_t i = 0; i < value->list.n; i++) {
		if (value->kind == ET_GRAPH_INTS)
			value->list.ints[i] = et_fb_i64_at(&r->fb, items, i);
		else if (value->kind == ET_GRAPH_DOUBLES)
			value->list.doubles[i] = et_fb_f64_at(&r->fb, items, i);
		else if (value->kind == ET_GRAPH_BOOLS)
			value->list.bools[i] = et_fb_u8_at(&r->fb, items, i) != 0;
		else
			value->list.values[i] = et_fb_u32_at(&r->fb, items, i);
	}
	return et_fb_status(&r->fb);
}

static enum et_status read_value(struct reader *r, struct et_fb_table outer)
{
	static const uint8_t kinds[] = { [UNION_INTS] = ET_GRAPH_INTS,
		[UNION_DOUBLES] = ET_GRAPH_DOUBLES,
		[UNION_BOOLS] = ET_GRAPH_BOOLS,
		[UNION_VALUES] = ET_GRAPH_VALUES };
	uint8_t which = et_fb_u8(&r->fb, outer, 0, 0);
	struct et_fb_table table = et_fb_table(&r->fb, outer, 1);
	struct et_graph_value value = { .kind = ET_GRAPH_NULL, .producer = ET_GRAPH_NONE };
	struct et_fb_string text;
	enum et_status status = ET_OK;
	switch (which) {
	case UNION_NULL:
		break;
	case UNION_INT:
		value.kind = ET_GRAPH_INT;
		value.i = et_fb_i64(&r->fb, table, 0, 0);
		break;
	case UNION_DOUBLE:
		value.kind = ET_GRAPH_DOUBLE;
		value.d = et_fb_f64(&r->fb, table, 0);
		break;
	case UNION_BOOL:
		value.kind = ET_GRAPH_BOOL;
		value.b = et_fb_bool(&r->fb, table, 0, false);
		break;
	case UNION_TENSOR:
		status = read_tensor(r, table, &value);
		break;
	case UNION_INTS:
	case UNION_DOUBLES:
	case UNION_BOOLS:
	case UNION_VALUES:
		value.kind = kinds[which];
		status = read_list(r, table, &value);
		break;
	case UNION_STRING:
		text = et_fb_string(&r->fb, table, 0);
		if (text.n > MAX_TEXT)
			return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED, "a text of %u characters", text.n);
		value.kind = ET_GRAPH_STRING;
		value.string = text.chars ? et_pool_strndup(r->graph->pool, text.chars, text.n) : "";
		if (!value.string)
			return et_fb_fail(&r->fb, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to read a Vulkan payload");
		break;
	case UNION_SYMBOL:
		value.kind = ET_GRAPH_SYMBOL;
		break;
	default:
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "it is of the unknown kind %u", which);
	}
	if (status == ET_OK)
		status = et_fb_status(&r->fb);
	if (status == ET_OK && et_graph_add_value(r->graph, &value) == ET_GRAPH_NONE)
		status = et_fb_fail(&r->fb, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to read a Vulkan payload");
	return status;
}

/* --- calls ---------------------------------------------------------------------------------------- */

/* The argument at @index of a call: a value of the graph. */
static uint32_t read_arg(struct reader *r, struct et_fb_vector args, uint32_t index)
{
	uint32_t value = et_fb_u32_at(&r->fb, args, index);
	if (value < r->graph->n_values)
		return value;
	et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "it names value %u of %u", value, r->graph->n_values);
	return 0;
}

/* The results come last, as one value or as a list of values. */
static enum et_status read_call(struct reader *r, struct et_fb_table call)
{
	struct et_fb_string name = et_fb_string(&r->fb, call, CALL_NAME);
	struct et_fb_vector args = et_fb_vector(&r->fb, call, CALL_ARGS, 4);
	if (!name.chars || !args.n)
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "it has no name or no arguments");
	const struct et_graph_operator *op = et_graph_operator_find(name.chars);
	if (!op || op->is_internal)
		return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED, "the operator '%.100s' is not supported", name.chars);
	uint32_t last = read_arg(r, args, args.n - 1), n_results, n_given = args.n - 1;
	uint32_t n_args = et_graph_operator_n_args(op, &n_results);
	if (et_fb_status(&r->fb) != ET_OK)
		return et_fb_status(&r->fb);
	const struct et_graph_value *result = &r->graph->values[last];
	bool is_list = result->kind == ET_GRAPH_VALUES;
	uint32_t n_made = is_list ? result->list.n : 1;
	if (n_given < n_args || (n_results != UINT32_MAX && n_made != n_results))
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM,
			"'%s' has %u arguments and %u results, which are too few or too many", op->name, n_given,
			n_made);
	struct et_graph_node *node = et_graph_add_node(r->graph, op, n_args, n_made);
	if (!node)
		return et_fb_fail(&r->fb, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to read a Vulkan payload");
	for (uint32_t i = 0; i < n_given; i++) {
		uint32_t arg = read_arg(r, args, i);
		if (i < n_args)
			node->args[i] = arg;
		else if (r->graph->values[arg].kind !=
			 ET_GRAPH_NULL) /* later versions of an operator append arguments */
			return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED, "'%s' has %u arguments, %u are known", op->name,
				n_given, n_args);
	}
	for (uint32_t i = 0; i < n_made; i++)
		node->results[i] = is_list ? result->list.values[i] : last;
	return et_fb_status(&r->fb);
}

static uint32_t *read_ids(struct reader *r, struct et_fb_table root, uint32_t field, uint32_t *ret_n)
{
	struct et_fb_vector ids = et_fb_vector(&r->fb, root, field, 4);
	*ret_n = 0;
	if (ids.n > ET_GRAPH_MAX_LIST) {
		et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED, "%u arguments", ids.n);
		return NULL;
	}
	uint32_t *values = ET_FB_NEW_ARRAY(&r->fb, r->graph->pool, uint32_t, ids.n);
	*ret_n = values ? ids.n : 0;
	for (uint32_t i = 0; i < *ret_n; i++)
		values[i] = read_arg(r, ids, i);
	return values;
}

static enum et_status read_graph(struct reader *r, struct et_fb_table root)
{
	struct et_fb_vector values = et_fb_vector(&r->fb, root, GRAPH_VALUES, 4);
	struct et_fb_vector chain = et_fb_vector(&r->fb, root, GRAPH_CHAIN, 4);
	enum et_status status = et_fb_status(&r->fb);
	r->constants = et_fb_vector(&r->fb, root, GRAPH_CONSTANTS, 4);
	for (uint32_t i = 0; i < values.n && status == ET_OK; i++) {
		et_fb_where(&r->fb, "value", i);
		status = read_value(r, et_fb_table_at(&r->fb, values, i));
	}
	et_fb_where(&r->fb, "the graph's inputs and outputs", 0);
	r->graph->inputs = read_ids(r, root, GRAPH_INPUTS, &r->graph->n_inputs);
	r->graph->outputs = read_ids(r, root, GRAPH_OUTPUTS, &r->graph->n_outputs);
	for (uint32_t i = 0; i < chain.n && status == ET_OK; i++) {
		et_fb_where(&r->fb, "call", i);
		status = read_call(r, et_fb_table_at(&r->fb, chain, i));
	}
	if (status == ET_OK)
		status = et_fb_status(&r->fb);
	for (uint32_t i = 0; i < r->graph->n_inputs && status == ET_OK; i++)
		if (r->graph->values[r->graph->inputs[i]].origin == ET_GRAPH_OF_NODE)
			r->graph->values[r->graph->inputs[i]].origin = ET_GRAPH_INPUT;
	return status;
}

enum et_status et_graph_read_vulkan(struct et_graph *ret_graph, const uint8_t *bytes, size_t n_bytes,
	const struct et_graph_named_data *named_data, struct et_pool *pool, struct et_diag *diag)
{
	struct reader r = { .graph = ret_graph, .named_data = named_data };
	struct et_fb_table root;
	et_graph_init(ret_graph, pool);
	enum et_status status = open_payload(&r, bytes, n_bytes, &root, diag);
	if (status == ET_OK)
		status = read_graph(&r, root);
	if (status == ET_OK)
		status = et_graph_verify(ret_graph, diag);
	return status == ET_E_INVALID_PROGRAM ? ET_E_DELEGATE_INVALID_COMPATIBILITY : status;
}
