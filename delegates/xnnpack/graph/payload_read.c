/* SPDX-License-Identifier: BSD-3-Clause */
/* The payload's decoder: the frame, the constants, the nodes.
 *
 * A payload is a stranger's. XNNPACK itself asserts, or reads out of bounds, when a graph makes no sense, so
 * everything it relies on is checked here: bytes and single nodes in this file, single values in payload_values.c,
 * how nodes fit together in payload_check.c, sizes in shape.c. After et_xnn_payload_read:
 *
 *     - a node's inputs and outputs are values of this payload. Each value is written before it is read, by one
 *       node, and that value is never a constant or an argument that the caller only reads;
 *     - a constant has as many bytes as its shape and datatype say;
 *     - there are as many scales as channels, with readable bytes behind: copied, or where they lie in the program,
 *       which stays;
 *     - the datatypes of a node fit each other, as far as XNNPACK would not say so by itself.
 *
 * Constants stay where they are. `is_resident` notes which constants must remain readable, because an operator does
 * not pack them or packs them again for each instance. */
#include "delegates/xnnpack/graph/payload_internal.h"

#include "runtime/base/checked.h"

#include <math.h>
#include <string.h>

enum { HEADER_BYTES = 30 };
enum { GRAPH_NODES = 1, GRAPH_VALUES, GRAPH_N_EXTERNS, GRAPH_BUFFERS = 6, GRAPH_CONSTANTS = 8 };
enum { NODE_UNION, NODE_MIN_MAX = 3 };
enum { CONSTANT_OFFSET, CONSTANT_SIZE, CONSTANT_KEY };

enum et_status et_xnn_reader_no_memory(const struct et_xnn_reader *r)
{
	return et_fail(r->diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to read an XNNPACK payload");
}

/* --- the frame ------------------------------------------------------------------------------------ */

/* Find the FlatBuffer and the constants behind it. */
static enum et_status open_payload(struct et_xnn_reader *r)
{
	const uint8_t *bytes = r->source->bytes;
	size_t n = r->source->n_bytes;
	const uint8_t *graph = bytes;
	size_t n_graph = n;

	if (n >= HEADER_BYTES && memcmp(bytes + 4, "XH00", 4) == 0) {
		uint32_t graph_at = et_load_u32(bytes + 10);
		uint32_t constants_at = et_load_u32(bytes + 18);
		n_graph = et_load_u32(bytes + 14);
		r->n_constant_bytes = et_load_u64(bytes + 22);
		if (!et_in_range(graph_at, n_graph, n) || !et_in_range(constants_at, r->n_constant_bytes, n) ||
			constants_at < (uint64_t)graph_at + n_graph)
			return et_fail(r->diag, ET_E_DELEGATE_INVALID_COMPATIBILITY,
				"XNNPACK payload: the header points outside its %zu bytes", n);
		graph = bytes + graph_at;
		r->constants = bytes + constants_at;
		r->has_header = true;
	}
	const char *identifier = NULL;
	static const char *const identifiers[] = { "XN00", "XN01" };
	for (size_t i = 0; i < ET_ARRAY_LEN(identifiers); i++) {
		if (et_fb_has_identifier(graph, n_graph, identifiers[i]))
			identifier = identifiers[i];
	}
	if (!identifier)
		return et_fail(r->diag, ET_E_DELEGATE_INVALID_COMPATIBILITY,
			"XNNPACK payload: neither 'XN00' nor 'XN01' is where the graph should begin");
	r->graph = et_fb_open(&r->fb, graph, n_graph, identifier, r->diag);
	r->table = et_fb_vector(&r->fb, r->graph, r->has_header ? GRAPH_CONSTANTS : GRAPH_BUFFERS, 4);
	return et_fb_status(&r->fb);
}

enum et_status et_xnn_reader_find_constant(struct et_xnn_reader *r, uint32_t index, size_t n_bytes,
	struct et_xnn_constant *ret_constant)
{
	if (index >= r->table.n)
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "constant %u of %u", index, r->table.n);
	struct et_fb_table entry = et_fb_table_at(&r->fb, r->table, index);
	const uint8_t *bytes = NULL;
	size_t n = 0;
	bool in_payload = true;
	if (!r->has_header) {
		struct et_fb_vector storage = et_fb_blob(&r->fb, entry, 0);
		bytes = storage.items;
		n = storage.n;
	} else {
		struct et_fb_string key = et_fb_string(&r->fb, entry, CONSTANT_KEY);
		uint64_t offset = et_fb_u64(&r->fb, entry, CONSTANT_OFFSET, 0);
		uint64_t size = et_fb_u64(&r->fb, entry, CONSTANT_SIZE, 0);
		if (et_fb_status(&r->fb) != ET_OK)
			return et_fb_status(&r->fb);
		if (key.chars && key.n > 0) {
			in_payload = false;
			uint64_t n_named;
			if (r->source->named_data(r->source->self, key.chars, &bytes, &n_named) != INFERD_DELEGATE_OK)
				return et_fb_fail(&r->fb, ET_E_NOT_FOUND, "the program has no named data '%.100s'",
					key.chars);
			n = (size_t)n_named;
		} else {
			if (!et_in_range(offset, size, r->n_constant_bytes))
				return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "constant %u lies outside the payload",
					index);
			bytes = r->constants + offset;
			n = (size_t)size;
		}
	}
	if (et_fb_status(&r->fb) != ET_OK)
		return et_fb_status(&r->fb);
	if (n < n_bytes || !bytes)
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM,
			"constant %u has %zu bytes, its shape and datatype need %zu", index, n, n_bytes);
	*ret_constant = (struct et_xnn_constant){ bytes, n, in_payload };
	return ET_OK;
}

/* --- nodes ---------------------------------------------------------------------------------------- */

static enum et_status read_list(struct et_xnn_reader *r, struct et_fb_table table, uint32_t field,
	struct et_xnn_node *node, uint32_t slot)
{
	struct et_fb_vector list = et_fb_vector(&r->fb, table, field, 4);
	if (list.n > ET_XNN_MAX_DIMS)
		return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED,
			"XNNPACK node '%s' with %u dimensions; at most %u are supported", node->kind->name, list.n,
			ET_XNN_MAX_DIMS);
	node->n_list[slot] = list.n;
	for (uint32_t i = 0; i < list.n; i++)
		node->list[slot][i] = et_fb_u32_at(&r->fb, list, i);
	return et_fb_status(&r->fb);
}

/* Find the value with the id that the field has. */
static enum et_status read_operand(struct et_xnn_reader *r, struct et_fb_table table, uint32_t field,
	const struct et_xnn_node *node, uint32_t *ret_index)
{
	uint32_t id = et_fb_u32(&r->fb, table, field, 0);
	uint32_t index = et_xnn_reader_find_id(r, id);
	if (index == ET_XNN_NONE)
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "XNNPACK node '%s': no value has id %u",
			node->kind->name, id);
	*ret_index = index;
	return et_fb_status(&r->fb);
}

/* Whether the node's number may be NaN: a padding value and the slope of a leaky ReLU may, unless they are for
 * integers. */
static bool may_be_nan(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	enum et_xnn_type type = payload->values[node->outputs[0]].type;
	bool is_slope = node->kind->define == et_xnn_define_unary && node->kind->op == xnn_unary_leaky_relu;
	return (node->kind->infer == et_xnn_infer_pad || is_slope) &&
	       (type == ET_XNN_FP32 || type == ET_XNN_FP16 || type == ET_XNN_BF16 || type == ET_XNN_QINT8 ||
		       type == ET_XNN_QUINT8);
}

/* Whether the node may have its limits. Limits that XNNPACK applies by a node of their own may be anything, as in
 * ExecuTorch: the upper limit counts if the lower one is above it, and the effect of a NaN depends on the datatype
 * (docs/operators.md). For other nodes XNNPACK refuses such limits, and so does this. */
static bool may_limit(const struct et_xnn_node *node)
{
	return et_xnn_is_clamp(node) || node->kind->define == et_xnn_define_binary || node->min <= node->max;
}

static enum et_status read_node(struct et_xnn_reader *r, struct et_fb_table outer, uint32_t index)
{
	uint8_t which = et_fb_u8(&r->fb, outer, NODE_UNION, 0);
	struct et_fb_table table = et_fb_table(&r->fb, outer, NODE_UNION + 1);
	struct et_fb_table range = et_fb_table(&r->fb, outer, NODE_MIN_MAX);
	const struct et_xnn_kind *kind = et_xnn_kind_at(which);
	if (!kind)
		return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED, "XNNPACK node type %u (node %u) is not known", which,
			index);
	struct et_xnn_node node = { .kind = kind, .index = index, .min = -INFINITY, .max = INFINITY };
	if (!kind->infer)
		return et_xnn_node_fail(r->diag, ET_E_NOT_SUPPORTED, &node, "is not supported");
	if (et_fb_is_absent(table))
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "it is empty");
	if (!et_fb_is_absent(range) && !kind->is_unlimited) {
		node.min = et_fb_f32(&r->fb, range, 0);
		node.max = et_fb_f32(&r->fb, range, 1);
	}

	uint32_t n_inputs = 0, n_outputs = 0, n_lists = 0;
	enum et_status status = ET_OK;
	for (uint32_t i = 0; kind->fields[i] != ET_XNN_FIELD_END && status == ET_OK; i++) {
		uint8_t field = kind->fields[i];
		switch (field) {
		case ET_XNN_FIELD_SKIP:
			break;
		case ET_XNN_FIELD_BIAS:
			if (et_fb_u32(&r->fb, table, i, 0) == ET_XNN_NONE) {
				node.inputs[n_inputs++] = ET_XNN_NONE;
				break;
			}
			__attribute__((fallthrough));
		case ET_XNN_FIELD_INPUT:
			/* A concatenation's table has more fields than inputs. */
			if (n_inputs < kind->n_inputs)
				status = read_operand(r, table, i, &node, &node.inputs[n_inputs++]);
			break;
		case ET_XNN_FIELD_OUTPUT:
			status = read_operand(r, table, i, &node, &node.outputs[n_outputs++]);
			break;
		case ET_XNN_FIELD_FLAGS:
			node.flags = et_fb_u32(&r->fb, table, i, 0);
			break;
		case ET_XNN_FIELD_FLOAT:
			node.number = et_fb_f32(&r->fb, table, i);
			break;
		case ET_XNN_FIELD_LIST:
			status = read_list(r, table, i, &node, n_lists++);
			break;
		default:
			node.numbers[field - ET_XNN_FIELD_NUMBER] = et_fb_u32(&r->fb, table, i, 0);
			break;
		}
	}
	if (status == ET_OK)
		status = et_fb_status(&r->fb);
	if (status != ET_OK)
		return status;
	if (node.flags & ~kind->flags)
		return et_xnn_node_fail(r->diag, ET_E_NOT_SUPPORTED, &node, "has flags 0x%x, which are not supported",
			node.flags);
	if (!may_limit(&node) || (isnan(node.number) && !may_be_nan(r->payload, &node)))
		return et_xnn_node_fail(r->diag, ET_E_INVALID_PROGRAM, &node,
			"has limits in the wrong order, or a limit or parameter that is NaN");
	return et_xnn_payload_add_node(r->payload, &node, r->pool) ? ET_OK : et_xnn_reader_no_memory(r);
}

static enum et_status read_graph(struct et_xnn_reader *r)
{
	struct et_xnn_payload *payload = r->payload;
	struct et_fb_vector values = et_fb_vector(&r->fb, r->graph, GRAPH_VALUES, 4);
	struct et_fb_vector nodes = et_fb_vector(&r->fb, r->graph, GRAPH_NODES, 4);
	payload->n_externs = et_fb_u32(&r->fb, r->graph, GRAPH_N_EXTERNS, 0);
	if (et_fb_status(&r->fb) != ET_OK)
		return et_fb_status(&r->fb);
	if (values.n > ET_XNN_MAX_VALUES || nodes.n > ET_XNN_MAX_NODES || payload->n_externs > ET_XNN_MAX_EXTERNS ||
		r->source->n_args > ET_XNN_MAX_EXTERNS)
		return et_fail(r->diag, ET_E_NOT_SUPPORTED,
			"XNNPACK payload: %u values, %u nodes, %u arguments are more than is supported", values.n,
			nodes.n, payload->n_externs);

	payload->values = et_pool_scratch(r->pool, values.n * sizeof(*payload->values), _Alignof(struct et_xnn_value));
	payload->nodes = et_pool_scratch(r->pool, nodes.n * sizeof(*payload->nodes), _Alignof(struct et_xnn_node));
	if (!payload->values || !payload->nodes || !et_xnn_reader_init_ids(r, values.n))
		return et_xnn_reader_no_memory(r);
	payload->max_values = values.n;
	payload->max_nodes = nodes.n;

	enum et_status status = ET_OK;
	for (uint32_t i = 0; i < values.n && status == ET_OK; i++) {
		et_fb_where(&r->fb, "XNNPACK value", i);
		status = et_xnn_reader_read_value(r, et_fb_table_at(&r->fb, values, i));
	}
	for (uint32_t i = 0; i < nodes.n && status == ET_OK; i++) {
		et_fb_where(&r->fb, "XNNPACK node", i);
		status = read_node(r, et_fb_table_at(&r->fb, nodes, i), i);
	}
	return status == ET_OK ? et_xnn_payload_check(payload, r->source->n_args, r->pool, r->diag) : status;
}

enum et_status et_xnn_payload_read(struct et_xnn_payload *ret_payload, const struct inferd_delegate_payload *source,
	struct et_pool *pool, struct et_diag *diag)
{
	struct et_xnn_payload payload = { 0 };
	struct et_xnn_reader r = { .source = source, .pool = pool, .diag = diag, .payload = &payload };
	enum et_status status = open_payload(&r);
	if (status == ET_OK)
		status = read_graph(&r);
	if (status == ET_OK)
		*ret_payload = payload;
	return status == ET_E_INVALID_PROGRAM ? ET_E_DELEGATE_INVALID_COMPATIBILITY : status;
}
