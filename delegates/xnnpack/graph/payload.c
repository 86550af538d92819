/* SPDX-License-Identifier: BSD-3-Clause */
/* The payload's decoder.
 *
 * A payload is a stranger's: XNNPACK itself asserts, or reads out of bounds, when a graph makes no sense, so
 * everything it relies on is checked: here what has to do with bytes and single values, in payload_check.c how
 * nodes fit together, in shape.c what has to do with sizes. After et_xnn_payload_read:
 *
 *     - a node's inputs and outputs are values of this payload, written before they are read, each
 *       by one node, and never a constant or an argument that the caller only reads;
 *     - a constant has as many bytes as its shape and datatype say;
 *     - there are as many scales as channels, with readable bytes behind: copied, or where they lie in the program, which
 *       stays;
 *     - the datatypes of a node fit each other as far as XNNPACK would not say so by itself.
 *
 * Constants stay where they are. Which of them must remain readable, because an operator does not pack them
 * or packs them again for each context, is noted in `is_kept`. */
#include "delegates/xnnpack/graph/kind.h"

#include "runtime/base/checked.h"
#include "runtime/program/flatbuffer.h"

#include <math.h>
#include <string.h>

enum {
	HEADER_BYTES = 30,
	SCALE_PADDING = 64, /* XNNPACK reads up to 10 parameters past the end */
	/* Scales are copied for each value, and values may share them: in all at most so many times the payload, or of what lies
	 * beside it the pieces that they are in, */
	TIMES_SCALES = 4,
	SPARE_SCALES = 4096,
	MOST_NAMED_SCALES = 1 << 30, /* and never more bytes than these */
};

enum { GRAPH_NODES = 1, GRAPH_VALUES, GRAPH_N_EXTERNS, GRAPH_BUFFERS = 6, GRAPH_CONSTANTS = 8 };
enum { VALUE_UNION, VALUE_PLAIN = 1, VALUE_QUANTIZED = 2 };
enum {
	TENSOR_TYPE,
	TENSOR_DIMS = 2,
	TENSOR_CONSTANT,
	TENSOR_EXTERNAL,
	TENSOR_FLAGS,
	TENSOR_ID,
	TENSOR_DYNAMIC_TYPE,
};
enum { QUANTIZED_TENSOR, QUANTIZED_UNION };
enum { CHANNEL_SCALES, CHANNEL_DIM, CHANNEL_CONSTANT, CHANNEL_N_SCALES };
enum { BLOCK_SCALES, BLOCK_DIM, BLOCK_SIZE, BLOCK_CONSTANT = 4, BLOCK_N_SCALES };
enum { NODE_UNION, NODE_MIN_MAX = 3 };
enum { CONSTANT_OFFSET, CONSTANT_SIZE, CONSTANT_KEY };

static const struct {
	const char *name;
	uint8_t bits;  /* 0: not in this XNNPACK, or nothing that a program can hold */
	uint8_t quant; /* enum et_xnn_quant */
} types[ET_XNN_N_TYPES] = {
	[ET_XNN_INVALID] = { "invalid", 0, 0 },
	[ET_XNN_FP32] = { "fp32", 32, ET_XNN_QUANT_NONE },
	[ET_XNN_FP16] = { "fp16", 16, ET_XNN_QUANT_NONE },
	[ET_XNN_QINT8] = { "qint8", 8, ET_XNN_QUANT_TENSOR },
	[ET_XNN_QUINT8] = { "quint8", 8, ET_XNN_QUANT_TENSOR },
	[ET_XNN_QINT32] = { "qint32", 32, ET_XNN_QUANT_TENSOR },
	[ET_XNN_QCINT8] = { "qcint8", 8, ET_XNN_QUANT_CHANNEL },
	[ET_XNN_QCINT32] = { "qcint32", 32, ET_XNN_QUANT_CHANNEL },
	[ET_XNN_QCINT4] = { "qcint4", 4, ET_XNN_QUANT_CHANNEL },
	[ET_XNN_QDINT8] = { "qdint8", 8, ET_XNN_QUANT_ROW },
	[ET_XNN_QBINT4] = { "qbint4", 4, ET_XNN_QUANT_BLOCK },
	[ET_XNN_QPINT8] = { "qpint8", 0, 0 },
	[ET_XNN_INT32] = { "int32", 32, ET_XNN_QUANT_NONE },
	[ET_XNN_PFP32] = { "pfp32", 0, 0 },
	[ET_XNN_BF16] = { "bf16", 16, ET_XNN_QUANT_NONE },
};

const char *et_xnn_type_name(uint32_t type)
{
	return type < ET_XNN_N_TYPES ? types[type].name : "?";
}

uint32_t et_xnn_type_bits(uint32_t type)
{
	return type < ET_XNN_N_TYPES ? types[type].bits : 0;
}

/* Where a serialized id is looked up: open addressing, a power of two of slots. */
struct id_map {
	struct {
		uint32_t id;
		uint32_t index; /* NONE = free */
	} *slots;
	size_t mask;
};

/* Where pieces of named data are looked up that scales are in: like an id_map, as large as that. */
struct piece_set {
	const uint8_t **slots; /* NULL = free; the array itself: nothing was looked up yet */
	uint64_t n_bytes;      /* of all */
};

struct constant {
	const uint8_t *bytes;
	size_t n_bytes; /* all there are */
	bool in_payload;
};

struct reader {
	const struct inferd_delegate_payload *source;
	struct et_pool *pool;
	struct et_diag *diag;
	struct et_fb fb;
	struct et_fb_table graph;
	bool has_header;
	const uint8_t *constants; /* behind the FlatBuffer */
	uint64_t n_constant_bytes;
	struct et_fb_vector table; /* of constants: ConstantDataOffset, or Buffer without a header */
	struct id_map ids;
	struct et_xnn_payload *payload;
	struct piece_set pieces;
	uint64_t n_scale_bytes, n_named_scale_bytes; /* copied, of the payload and of the Program's named data */
};

static size_t hash_id(uint32_t id)
{
	return (size_t)(id * UINT32_C(2654435761));
}

static uint32_t find_id(const struct id_map *map, uint32_t id)
{
	for (size_t at = hash_id(id) & map->mask;; at = (at + 1) & map->mask) {
		if (map->slots[at].index == ET_XNN_NONE || map->slots[at].id == id)
			return map->slots[at].index;
	}
}

static void put_id(struct id_map *map, uint32_t id, uint32_t index)
{
	size_t at = hash_id(id) & map->mask;
	while (map->slots[at].index != ET_XNN_NONE)
		at = (at + 1) & map->mask;
	map->slots[at].id = id;
	map->slots[at].index = index;
}

static enum et_status no_memory(struct et_diag *diag)
{
	return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to read an XNNPACK payload");
}

/* --- the frame ------------------------------------------------------------------------------------ */

/* Find the FlatBuffer and the constants behind it. */
static enum et_status open_payload(struct reader *r)
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

/* Constant @index, of which there must be at least @n_bytes. */
static enum et_status find_constant(struct reader *r, uint32_t index, size_t n_bytes, struct constant *ret_constant)
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
	*ret_constant = (struct constant){ bytes, n, in_payload };
	return ET_OK;
}

/* --- values --------------------------------------------------------------------------------------- */

/* Bytes of a tensor, in which a row of nibbles begins at a byte; false if they are beyond anything reasonable. */
static bool tensor_bytes(const struct et_xnn_shape *shape, uint32_t bits, size_t *ret_bytes)
{
	size_t n = 1;
	for (uint32_t i = 0; i < shape->n_dims; i++) {
		size_t dim = shape->dims[i];
		if (bits == 4 && i + 1 == shape->n_dims)
			dim = dim / 2 + dim % 2;
		if (!et_mul(n, dim, &n))
			return false;
	}
	if (n > SIZE_MAX / 64)
		return false;
	*ret_bytes = bits == 4 ? n : n * bits / 8;
	return true;
}

/* XNNPACK multiplies what fills up a row of nibbles with whatever lies behind the activations: it has to stand for 0. */
static bool is_filled_with_zeros(const struct et_xnn_value *matrix)
{
	size_t stride = matrix->shape.dims[1] / 2 + 1;
	if (matrix->shape.dims[1] % 2 == 0 || !matrix->data)
		return true;
	for (size_t at = stride - 1; at < matrix->n_bytes; at += stride) {
		if (matrix->data[at] >> 4 != 8)
			return false;
	}
	return true;
}

/* Whether these are floats of the program that may be read where they lie, for as long as it is there. */
static bool stays_readable(const struct reader *r, const uint8_t *bytes, size_t n_bytes)
{
	uintptr_t offset = (uintptr_t)bytes - (uintptr_t)r->source->file;
	return r->source->file && (uintptr_t)bytes % _Alignof(float) == 0 &&
	       et_in_range(offset, n_bytes, r->source->n_file_bytes);
}

/* Count a piece's bytes, once. A value has one at most, and there are more slots than values. */
static bool note_piece(struct reader *r, const struct constant *piece)
{
	struct piece_set *pieces = &r->pieces;
	if (!pieces->slots) {
		pieces->slots = ET_POOL_NEW_ARRAY(r->pool, const uint8_t *, r->ids.mask + 1);
		if (!pieces->slots)
			return false;
	}
	/* pieces begin at multiples of something: the upper half knows of all bits */
	size_t at = (uintptr_t)piece->bytes * UINT64_C(0x9e3779b97f4a7c15) >> 32 & r->ids.mask;
	while (pieces->slots[at] && pieces->slots[at] != piece->bytes)
		at = (at + 1) & r->ids.mask;
	if (!pieces->slots[at])
		pieces->n_bytes += piece->n_bytes;
	pieces->slots[at] = piece->bytes;
	return true;
}

/* How many bytes of scales may be copied of the payload, or else of what lies beside it. */
static uint64_t most_scales(const struct reader *r, bool in_payload)
{
	if (in_payload)
		return SPARE_SCALES + TIMES_SCALES * r->source->n_bytes;
	return r->pieces.n_bytes < MOST_NAMED_SCALES / TIMES_SCALES ? SPARE_SCALES + TIMES_SCALES * r->pieces.n_bytes
								    : MOST_NAMED_SCALES;
}

/* Scales, one for each of @n: from the table itself or from a constant, as fp32 or (blocks) bf16. */
static enum et_status read_scales(struct reader *r, struct et_fb_table quant, uint32_t inline_field,
	uint32_t constant_field, uint32_t count_field, size_t n, bool is_bf16, struct et_xnn_value *value)
{
	size_t item = is_bf16 ? sizeof(uint16_t) : sizeof(float);
	size_t n_bytes;
	if (n > UINT32_MAX || !et_mul(n, item, &n_bytes) || n_bytes > SIZE_MAX - SCALE_PADDING)
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "absurdly many scales");
	uint32_t constant = et_fb_u32(&r->fb, quant, constant_field, 0);
	struct et_fb_vector inline_scales = et_fb_vector(&r->fb, quant, inline_field, 4);
	struct constant found = { .in_payload = true };
	uint32_t n_given = constant ? et_fb_u32(&r->fb, quant, count_field, 0) : inline_scales.n;
	if (n_given != n)
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "%u scales where the shape has %zu", n_given, n);
	if (constant) {
		enum et_status status = find_constant(r, constant, n_bytes, &found);
		if (status != ET_OK)
			return status;
		value->n_scales = (uint32_t)n;
		if (!found.in_payload && !is_bf16 && stays_readable(r, found.bytes, n_bytes + SCALE_PADDING)) {
			value->scales = (const float *)(const void *)found.bytes;
			return ET_OK;
		}
		if (!found.in_payload && !note_piece(r, &found))
			return no_memory(r->diag);
	}
	uint64_t *n_copied = found.in_payload ? &r->n_scale_bytes : &r->n_named_scale_bytes;
	*n_copied += n_bytes; /* below 2^64: there are few values, and each has bytes */
	if (*n_copied > most_scales(r, found.in_payload))
		return et_fb_fail(&r->fb, ET_E_OUT_OF_RESOURCES, "scales of all values are %llu bytes or more",
			(unsigned long long)*n_copied);
	uint8_t *copy = et_pool_alloc(r->pool, n_bytes + SCALE_PADDING, SCALE_PADDING);
	if (!copy)
		return et_fb_fail(&r->fb, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for scales");
	if (found.bytes) {
		memcpy(copy, found.bytes, n_bytes);
	} else {
		for (uint32_t i = 0; i < n; i++) {
			float scale = et_fb_f32_at(&r->fb, inline_scales, i);
			if (is_bf16) {
				/* Not to the nearest: this is how the original rounds such. */
				uint32_t word;
				scale *= 1.00389105f;
				memcpy(&word, &scale, sizeof(word));
				((uint16_t *)copy)[i] = (uint16_t)(word >> 16);
			} else {
				((float *)copy)[i] = scale;
			}
		}
	}
	value->n_scales = (uint32_t)n;
	if (is_bf16)
		value->block_scales = (const uint16_t *)copy;
	else
		value->scales = (const float *)copy;
	return et_fb_status(&r->fb);
}

/* Of 8 bits, as XNNPACK wants it; nodes of our own compute with it as an integer. */
static bool is_zero_point_held(const struct et_xnn_value *value)
{
	bool is_signed = value->type == ET_XNN_QINT8;
	return !et_xnn_is_8_bit(value) || (value->zero_point >= (is_signed ? INT8_MIN : 0) &&
						  value->zero_point <= (is_signed ? INT8_MAX : UINT8_MAX));
}

static enum et_status read_quant(struct reader *r, struct et_fb_table quantized, struct et_xnn_value *value)
{
	const struct et_xnn_shape *shape = &value->shape;
	value->quant = et_fb_u8(&r->fb, quantized, QUANTIZED_UNION, 0);
	struct et_fb_table quant = et_fb_table(&r->fb, quantized, QUANTIZED_UNION + 1);
	size_t n_scales;
	switch (value->quant) {
	case ET_XNN_QUANT_TENSOR:
		value->scale = et_fb_f32(&r->fb, quant, 0);
		value->zero_point = et_fb_i32(&r->fb, quant, 1, 0);
		if (!isnormal(value->scale) || value->scale < 0)
			return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "scale %g", (double)value->scale);
		if (!is_zero_point_held(value))
			return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "zero point %d of %s", (int)value->zero_point,
				et_xnn_type_name(value->type));
		return et_fb_status(&r->fb);
	case ET_XNN_QUANT_CHANNEL:
		value->channel_dim = et_fb_u32(&r->fb, quant, CHANNEL_DIM, 0);
		if (value->channel_dim >= shape->n_dims)
			return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "scales along dimension %u of %u",
				value->channel_dim, shape->n_dims);
		return read_scales(r, quant, CHANNEL_SCALES, CHANNEL_CONSTANT, CHANNEL_N_SCALES,
			shape->dims[value->channel_dim], false, value);
	case ET_XNN_QUANT_BLOCK:
		value->channel_dim = et_fb_u32(&r->fb, quant, BLOCK_DIM, 0);
		value->block_size = et_fb_u32(&r->fb, quant, BLOCK_SIZE, 0);
		if (value->channel_dim != 0 || shape->n_dims != 2 || value->block_size < XNN_MIN_BLOCKSIZE ||
			value->block_size % XNN_MIN_BLOCKSIZE != 0 || shape->dims[1] % value->block_size != 0)
			return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED,
				"blocks of %u along dimension %u of a filter with %u dimensions are not "
				"supported",
				value->block_size, value->channel_dim, shape->n_dims);
		if (!et_mul(shape->dims[0], shape->dims[1] / value->block_size, &n_scales))
			return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "absurdly many scales");
		return read_scales(r, quant, BLOCK_SCALES, BLOCK_CONSTANT, BLOCK_N_SCALES, n_scales, true, value);
	case ET_XNN_QUANT_ROW:
		value->n_row_dims = et_fb_u32(&r->fb, quant, 0, 0);
		if (value->n_row_dims == 0 || value->n_row_dims > shape->n_dims)
			return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "rows of %u of %u dimensions",
				value->n_row_dims, shape->n_dims);
		return et_fb_status(&r->fb);
	default:
		return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED, "quantization %u is not known", value->quant);
	}
}

/* Room for one more of @n items, of @max. NULL if there is no memory. Pages that nothing is written to cost nothing, so
 * nothing is cleared. */
static void *grow(struct et_pool *pool, void *items, uint32_t n, uint32_t *max, size_t item_bytes)
{
	uint32_t more = *max ? 2 * *max : 16;
	if (n < *max)
		return items;
	void *moved = et_pool_scratch(pool, more * item_bytes, _Alignof(max_align_t));
	if (!moved)
		return NULL;
	if (n)
		memcpy(moved, items, n * item_bytes);
	*max = more;
	return moved;
}

bool et_xnn_payload_add_value(struct et_xnn_payload *payload, const struct et_xnn_value *value, struct et_pool *pool)
{
	struct et_xnn_value *values = grow(pool, payload->values, payload->n_values, &payload->max_values,
		sizeof(*values));
	if (!values)
		return false;
	payload->values = values;
	values[payload->n_values++] = *value;
	return true;
}

static enum et_status add_value(struct reader *r, const struct et_xnn_value *value)
{
	uint32_t index = r->payload->n_values;
	if (find_id(&r->ids, value->id) != ET_XNN_NONE)
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "id %u is there twice", value->id);
	if (!et_xnn_payload_add_value(r->payload, value, r->pool))
		return no_memory(r->diag);
	put_id(&r->ids, value->id, index);
	return ET_OK;
}

static enum et_status add_node(struct reader *r, const struct et_xnn_node *node)
{
	struct et_xnn_payload *payload = r->payload;
	struct et_xnn_node *nodes = grow(r->pool, payload->nodes, payload->n_nodes, &payload->max_nodes,
		sizeof(*nodes));
	if (!nodes)
		return no_memory(r->diag);
	payload->nodes = nodes;
	nodes[payload->n_nodes++] = *node;
	return ET_OK;
}

/* The old way of dynamic quantization: an external value that is declared fp32 and meant to be
 * qdint8 wherever it is used. Becomes what the new way says outright: the fp32 value, a
 * convert, and a qdint8 value, which takes over the id. @value is the fp32 one. */
static enum et_status split_old_dynamic(struct reader *r, uint32_t type, struct et_xnn_value *value)
{
	if (type != ET_XNN_QINT8 || value->external != ET_XNN_IS_INPUT || value->quant || value->shape.n_dims == 0 ||
		(value->type != ET_XNN_FP32 && value->type != ET_XNN_FP16))
		return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED,
			"a %s value that is to be quantized to %s at run time is not supported",
			et_xnn_type_name(value->type), et_xnn_type_name(type));
	struct et_xnn_payload *payload = r->payload;
	struct et_xnn_value row = {
		.id = value->id,
		.type = ET_XNN_QDINT8,
		.quant = ET_XNN_QUANT_ROW,
		.n_row_dims = 1,
		.external_id = ET_XNN_NONE,
		.shape = value->shape,
		.seen_as = ET_XNN_NONE,
		.stands_for = ET_XNN_NONE,
		.producer = ET_XNN_NONE,
	};
	uint32_t external = payload->n_values;
	if (!et_xnn_payload_add_value(payload, value, r->pool)) /* has no id of its own any more */
		return no_memory(r->diag);
	struct et_xnn_node node = {
		.kind = et_xnn_kind_at(ET_XNN_KIND_CONVERT),
		.index = external, /* for messages: the value that asked for it */
		.inputs = { external },
		.outputs = { payload->n_values },
		.min = -INFINITY,
		.max = INFINITY,
	};
	enum et_status status = add_node(r, &node);
	return status == ET_OK ? add_value(r, &row) : status;
}

static enum et_status read_value(struct reader *r, struct et_fb_table outer)
{
	uint8_t which = et_fb_u8(&r->fb, outer, VALUE_UNION, 0);
	struct et_fb_table inner = et_fb_table(&r->fb, outer, VALUE_UNION + 1);
	struct et_fb_table tensor = inner;
	if (which == VALUE_QUANTIZED)
		tensor = et_fb_table(&r->fb, inner, QUANTIZED_TENSOR);
	else if (which != VALUE_PLAIN)
		return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED, "kind %u of value is not known", which);
	if (et_fb_is_absent(tensor))
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "it has no tensor");

	struct et_xnn_value value = {
		.id = et_fb_u32(&r->fb, tensor, TENSOR_ID, 0),
		.external_id = et_fb_u32(&r->fb, tensor, TENSOR_EXTERNAL, 0),
		.seen_as = ET_XNN_NONE,
		.stands_for = ET_XNN_NONE,
		.producer = ET_XNN_NONE,
	};
	uint16_t type = et_fb_u16(&r->fb, tensor, TENSOR_TYPE, 0);
	uint16_t dynamic_type = et_fb_u16(&r->fb, tensor, TENSOR_DYNAMIC_TYPE, 0);
	uint32_t flags = et_fb_u32(&r->fb, tensor, TENSOR_FLAGS, 0);
	uint32_t constant = et_fb_u32(&r->fb, tensor, TENSOR_CONSTANT, 0);
	struct et_fb_vector dims = et_fb_vector(&r->fb, tensor, TENSOR_DIMS, 4);
	if (et_fb_status(&r->fb) != ET_OK)
		return et_fb_status(&r->fb);

	if (et_xnn_type_bits(type) == 0)
		return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED, "datatype %s (%u) is not supported",
			et_xnn_type_name(type), type);
	value.type = (uint8_t)type;
	if (flags & ~(uint32_t)(ET_XNN_IS_INPUT | ET_XNN_IS_OUTPUT) || flags == (ET_XNN_IS_INPUT | ET_XNN_IS_OUTPUT))
		return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED, "flags 0x%x are not supported", flags);
	value.external = (uint8_t)flags;
	if (dims.n > ET_XNN_MAX_DIMS)
		return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED, "%u dimensions; XNNPACK has at most %u", dims.n,
			ET_XNN_MAX_DIMS);
	value.shape.n_dims = dims.n;
	for (uint32_t i = 0; i < dims.n; i++)
		value.shape.dims[i] = et_fb_u32_at(&r->fb, dims, i);
	size_t n_bytes;
	if (!tensor_bytes(&value.shape, et_xnn_type_bits(type), &n_bytes))
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "its size overflows");

	if (value.external) {
		if (value.external_id >= r->source->n_args || value.external_id >= r->payload->n_externs)
			return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "it is argument %u of a call that passes %u",
				value.external_id, r->source->n_args);
		if (constant)
			return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "an argument that is a constant");
	} else {
		value.external_id = ET_XNN_NONE;
	}
	if (constant) {
		struct constant found;
		enum et_status status = find_constant(r, constant, n_bytes, &found);
		if (status != ET_OK)
			return status;
		value.data = found.bytes;
		value.in_payload = found.in_payload;
		value.n_bytes = n_bytes;
	}
	if (which == VALUE_QUANTIZED) {
		enum et_status status = read_quant(r, inner, &value);
		if (status != ET_OK)
			return status;
	}
	if (value.quant != types[type].quant)
		return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED, "datatype %s with quantization %u is not supported",
			et_xnn_type_name(type), value.quant);
	if (value.type == ET_XNN_QDINT8 && (value.data || value.external))
		return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED,
			"datatype %s is not supported for constants and arguments", et_xnn_type_name(type));
	if (et_xnn_type_bits(type) == 4 &&
		(value.shape.n_dims != 2 || (type == ET_XNN_QBINT4 && value.shape.dims[1] % 2 != 0)))
		return et_fb_fail(&r->fb, ET_E_NOT_SUPPORTED, "datatype %s is supported for matrices%s",
			et_xnn_type_name(type), type == ET_XNN_QBINT4 ? " with an even number of columns" : "");
	if (et_xnn_type_bits(type) == 4 && !is_filled_with_zeros(&value))
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "rows of nibbles are filled up with others than 0");
	if (dynamic_type != 0)
		return split_old_dynamic(r, dynamic_type, &value);
	return add_value(r, &value);
}

/* --- nodes ---------------------------------------------------------------------------------------- */

static enum et_status read_list(struct reader *r, struct et_fb_table table, uint32_t field, struct et_xnn_node *node,
	uint32_t slot)
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

/* The value that an id names. */
static enum et_status read_operand(struct reader *r, struct et_fb_table table, uint32_t field,
	const struct et_xnn_node *node, uint32_t *ret_index)
{
	uint32_t id = et_fb_u32(&r->fb, table, field, 0);
	uint32_t index = find_id(&r->ids, id);
	if (index == ET_XNN_NONE)
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "XNNPACK node '%s': no value has id %u",
			node->kind->name, id);
	*ret_index = index;
	return et_fb_status(&r->fb);
}

/* Paddings and the slopes of leaky ReLUs may be no number, but for integers; nothing else computes with such. */
static bool may_be_nan(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	enum et_xnn_type type = payload->values[node->outputs[0]].type;
	bool is_slope = node->kind->define == et_xnn_define_unary && node->kind->op == xnn_unary_leaky_relu;
	return (node->kind->infer == et_xnn_infer_pad || is_slope) &&
	       (type == ET_XNN_FP32 || type == ET_XNN_FP16 || type == ET_XNN_BF16 || type == ET_XNN_QINT8 ||
		       type == ET_XNN_QUINT8);
}

/* Limits that XNNPACK applies by a node of their own may be anything, as in the original: the upper one counts where the lower is above
 * it, and what one that is no number makes depends on the datatype (docs/operators.md). Of the others both refuse those. */
static bool may_limit(const struct et_xnn_node *node)
{
	return et_xnn_is_clamp(node) || node->kind->define == et_xnn_define_binary || node->min <= node->max;
}

static enum et_status read_node(struct reader *r, struct et_fb_table outer, uint32_t index)
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
			"has limits or a parameter that is no number");
	return add_node(r, &node);
}

static enum et_status read_graph(struct reader *r)
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

	size_t n_slots = 16;
	while (n_slots < 2 * (size_t)values.n)
		n_slots *= 2;
	payload->values = et_pool_scratch(r->pool, values.n * sizeof(*payload->values), _Alignof(struct et_xnn_value));
	payload->nodes = et_pool_scratch(r->pool, nodes.n * sizeof(*payload->nodes), _Alignof(struct et_xnn_node));
	r->ids.slots = et_pool_scratch(r->pool, n_slots * sizeof(*r->ids.slots), _Alignof(max_align_t));
	if (!payload->values || !payload->nodes || !r->ids.slots)
		return no_memory(r->diag);
	payload->max_values = values.n;
	payload->max_nodes = nodes.n;
	r->ids.mask = n_slots - 1;
	for (size_t i = 0; i < n_slots; i++)
		r->ids.slots[i].index = ET_XNN_NONE;

	enum et_status status = ET_OK;
	for (uint32_t i = 0; i < values.n && status == ET_OK; i++) {
		et_fb_where(&r->fb, "XNNPACK value", i);
		status = read_value(r, et_fb_table_at(&r->fb, values, i));
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
	struct reader r = { .source = source, .pool = pool, .diag = diag, .payload = &payload };
	enum et_status status = open_payload(&r);
	if (status == ET_OK)
		status = read_graph(&r);
	if (status == ET_OK)
		*ret_payload = payload;
	return status == ET_E_INVALID_PROGRAM ? ET_E_DELEGATE_INVALID_COMPATIBILITY : status;
}
