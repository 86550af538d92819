/* SPDX-License-Identifier: BSD-3-Clause */
/* Decoding a payload's values: shape, datatype, constant, quantization parameters.
 *
 * The bytes are a stranger's: every size is multiplied with a check, a constant must have the bytes that its shape and
 * datatype need, and there must be as many scales as channels. Constants stay where they are. Scales stay, too, if the
 * program has readable bytes behind them; otherwise they are copied with padding, within a limit. */
#include "delegates/xnnpack/graph/payload_internal.h"

#include "runtime/base/checked.h"

#include <math.h>
#include <string.h>

enum {
	SCALE_PADDING = 64, /* XNNPACK reads up to 10 parameters past the end */
	/* Scales are copied for each value, and values may share scales in the file. A limit keeps the copies in
	 * proportion: so many times the payload's bytes, or for scales in named data so many times the bytes of the
	 * pieces they are in, */
	TIMES_SCALES = 4,
	SPARE_SCALES = 4096,         /* and these bytes more, */
	MOST_NAMED_SCALES = 1 << 30, /* but for named data never more than these */
};

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

static size_t hash_id(uint32_t id)
{
	return (size_t)(id * UINT32_C(2654435761));
}

bool et_xnn_reader_init_ids(struct et_xnn_reader *r, uint32_t n_values)
{
	size_t n_slots = 16;
	while (n_slots < 2 * (size_t)n_values)
		n_slots *= 2;
	r->ids.slots = et_pool_scratch(r->pool, n_slots * sizeof(*r->ids.slots), _Alignof(max_align_t));
	if (!r->ids.slots)
		return false;
	r->ids.mask = n_slots - 1;
	for (size_t i = 0; i < n_slots; i++)
		r->ids.slots[i].index = ET_XNN_NONE;
	return true;
}

uint32_t et_xnn_reader_find_id(const struct et_xnn_reader *r, uint32_t id)
{
	const struct et_xnn_id_map *map = &r->ids;
	for (size_t at = hash_id(id) & map->mask;; at = (at + 1) & map->mask) {
		if (map->slots[at].index == ET_XNN_NONE || map->slots[at].id == id)
			return map->slots[at].index;
	}
}

static void put_id(struct et_xnn_id_map *map, uint32_t id, uint32_t index)
{
	size_t at = hash_id(id) & map->mask;
	while (map->slots[at].index != ET_XNN_NONE)
		at = (at + 1) & map->mask;
	map->slots[at].id = id;
	map->slots[at].index = index;
}

/* The bytes of a tensor; a row of 4-bit numbers begins at a byte. False if they overflow. */
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

/* Whether the nibble that fills up a row of 4-bit numbers stands for 0: XNNPACK multiplies it with whatever lies
 * behind the activations. */
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

/* Whether the bytes are aligned floats that lie in the program's file, which stays. */
static bool stays_readable(const struct et_xnn_reader *r, const uint8_t *bytes, size_t n_bytes)
{
	uintptr_t offset = (uintptr_t)bytes - (uintptr_t)r->source->file;
	return r->source->file && (uintptr_t)bytes % _Alignof(float) == 0 &&
	       et_in_range(offset, n_bytes, r->source->n_file_bytes);
}

/* Count the bytes of a piece of named data once. A value has one piece at most, and there are more slots than
 * values. */
static bool note_piece(struct et_xnn_reader *r, const struct et_xnn_constant *piece)
{
	struct et_xnn_piece_set *pieces = &r->pieces;
	if (!pieces->slots) {
		pieces->slots = ET_POOL_NEW_ARRAY(r->pool, const uint8_t *, r->ids.mask + 1);
		if (!pieces->slots)
			return false;
	}
	/* pieces are aligned: the lower bits of the product would be alike */
	size_t at = (uintptr_t)piece->bytes * UINT64_C(0x9e3779b97f4a7c15) >> 32 & r->ids.mask;
	while (pieces->slots[at] && pieces->slots[at] != piece->bytes)
		at = (at + 1) & r->ids.mask;
	if (!pieces->slots[at])
		pieces->n_bytes += piece->n_bytes;
	pieces->slots[at] = piece->bytes;
	return true;
}

/* The limit for copied scales, in bytes: of those in the payload, or of those in named data. */
static uint64_t most_scales(const struct et_xnn_reader *r, bool in_payload)
{
	if (in_payload)
		return SPARE_SCALES + TIMES_SCALES * r->source->n_bytes;
	return r->pieces.n_bytes < MOST_NAMED_SCALES / TIMES_SCALES ? SPARE_SCALES + TIMES_SCALES * r->pieces.n_bytes
								    : MOST_NAMED_SCALES;
}

/* Read @n scales: from the table itself or from a constant, as fp32 or (blocks) bf16. */
static enum et_status read_scales(struct et_xnn_reader *r, struct et_fb_table quant, uint32_t inline_field,
	uint32_t constant_field, uint32_t count_field, size_t n, bool is_bf16, struct et_xnn_value *value)
{
	size_t item = is_bf16 ? sizeof(uint16_t) : sizeof(float);
	size_t n_bytes;
	if (n > UINT32_MAX || !et_mul(n, item, &n_bytes) || n_bytes > SIZE_MAX - SCALE_PADDING)
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "absurdly many scales");
	uint32_t constant = et_fb_u32(&r->fb, quant, constant_field, 0);
	struct et_fb_vector inline_scales = et_fb_vector(&r->fb, quant, inline_field, 4);
	struct et_xnn_constant found = { .in_payload = true };
	uint32_t n_given = constant ? et_fb_u32(&r->fb, quant, count_field, 0) : inline_scales.n;
	if (n_given != n)
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "%u scales where the shape has %zu", n_given, n);
	if (constant) {
		enum et_status status = et_xnn_reader_find_constant(r, constant, n_bytes, &found);
		if (status != ET_OK)
			return status;
		value->n_scales = (uint32_t)n;
		if (!found.in_payload && !is_bf16 && stays_readable(r, found.bytes, n_bytes + SCALE_PADDING)) {
			value->scales = (const float *)(const void *)found.bytes;
			return ET_OK;
		}
		if (!found.in_payload && !note_piece(r, &found))
			return et_xnn_reader_no_memory(r);
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
				/* ExecuTorch rounds in this way, which is not to the nearest. */
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

/* Whether an 8-bit value's zero point fits its datatype: XNNPACK wants that, and overrides compute with it as an
 * integer. */
static bool is_zero_point_held(const struct et_xnn_value *value)
{
	bool is_signed = value->type == ET_XNN_QINT8;
	return !et_xnn_is_8_bit(value) || (value->zero_point >= (is_signed ? INT8_MIN : 0) &&
						  value->zero_point <= (is_signed ? INT8_MAX : UINT8_MAX));
}

static enum et_status read_quant(struct et_xnn_reader *r, struct et_fb_table quantized, struct et_xnn_value *value)
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

static enum et_status add_value(struct et_xnn_reader *r, const struct et_xnn_value *value)
{
	uint32_t index = r->payload->n_values;
	if (et_xnn_reader_find_id(r, value->id) != ET_XNN_NONE)
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "id %u is there twice", value->id);
	if (!et_xnn_payload_add_value(r->payload, value, r->pool))
		return et_xnn_reader_no_memory(r);
	put_id(&r->ids, value->id, index);
	return ET_OK;
}

/* Decode the old way of dynamic quantization: an external value that is declared fp32 and used as qdint8. It becomes
 * what the new way writes: the fp32 value @value, a convert, and a qdint8 value, which takes over the id. */
static enum et_status split_old_dynamic(struct et_xnn_reader *r, uint32_t type, struct et_xnn_value *value)
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
	if (!et_xnn_payload_add_value(payload, value, r->pool)) /* its id goes to the qdint8 value */
		return et_xnn_reader_no_memory(r);
	struct et_xnn_node node = {
		.kind = et_xnn_kind_at(ET_XNN_KIND_CONVERT),
		.index = external, /* for messages: the value's index */
		.inputs = { external },
		.outputs = { payload->n_values },
		.min = -INFINITY,
		.max = INFINITY,
	};
	if (!et_xnn_payload_add_node(payload, &node, r->pool))
		return et_xnn_reader_no_memory(r);
	return add_value(r, &row);
}

enum et_status et_xnn_reader_read_value(struct et_xnn_reader *r, struct et_fb_table outer)
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
		struct et_xnn_constant found;
		enum et_status status = et_xnn_reader_find_constant(r, constant, n_bytes, &found);
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
	if (value.quant != et_xnn_type_quant(type))
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
		return et_fb_fail(&r->fb, ET_E_INVALID_PROGRAM, "rows of 4-bit numbers are not filled up with 0");
	if (dynamic_type != 0)
		return split_old_dynamic(r, dynamic_type, &value);
	return add_value(r, &value);
}
