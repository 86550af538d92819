/* SPDX-License-Identifier: BSD-3-Clause */
/* The counterpart of the decoder: writes payloads as the exporter does, on top of the FlatBuffer builder for tests.
 *
 * It takes the layout of a node's table from kind.c, so a mistake there would not show here; the exporter's own files,
 * which other tests run, would show it. */
#include "delegates/xnnpack/support/test_make.h"
#include "runtime/program/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void mx_init(struct make_xnn *mk)
{
	*mk = (struct make_xnn){ 0 };
	fbb_init(&mk->fb);
	/* constant 0 stands for none */
	fbb_table_begin(&mk->fb);
	mk->constants[mk->n_constants++] = fbb_table_end(&mk->fb);
}

uint32_t mx_constant(struct make_xnn *mk, const void *bytes, size_t n_bytes)
{
	if (mk->is_old) {
		fbb_ref storage = fbb_vector(&mk->fb, bytes, n_bytes, 1, 16);
		fbb_table_begin(&mk->fb);
		fbb_add_ref(&mk->fb, 0, storage);
	} else {
		size_t at = (mk->n_bytes + 15) / 16 * 16;
		mk->bytes = realloc(mk->bytes, at + n_bytes);
		memset(mk->bytes + mk->n_bytes, 0, at - mk->n_bytes);
		memcpy(mk->bytes + at, bytes, n_bytes);
		mk->n_bytes = at + n_bytes;
		fbb_table_begin(&mk->fb);
		fbb_add_u64(&mk->fb, 0, at);
		fbb_add_u64(&mk->fb, 1, n_bytes);
	}
	mk->constants[mk->n_constants] = fbb_table_end(&mk->fb);
	return mk->n_constants++;
}

uint32_t mx_named_constant(struct make_xnn *mk, const char *key)
{
	fbb_ref name = fbb_string(&mk->fb, key);
	fbb_table_begin(&mk->fb);
	fbb_add_u64(&mk->fb, 0, UINT64_MAX);
	fbb_add_ref(&mk->fb, 2, name);
	mk->constants[mk->n_constants] = fbb_table_end(&mk->fb);
	return mk->n_constants++;
}

static uint8_t add_quant(struct make_xnn *mk, const struct mx_value *value, fbb_ref *ret_quant)
{
	struct fb_build *fb = &mk->fb;
	if (value->scales) {
		if (!mk->shares_scales || !mk->scales)
			mk->scales = fbb_vector(fb, value->scales, value->n_scales, 4, 4);
		fbb_table_begin(fb);
		fbb_add_ref(fb, 0, mk->scales);
		fbb_add_u32(fb, 1, value->channel_dim);
		if (value->block_size)
			fbb_add_u32(fb, 2, value->block_size);
		*ret_quant = fbb_table_end(fb);
		return value->block_size ? ET_XNN_QUANT_BLOCK : ET_XNN_QUANT_CHANNEL;
	}
	fbb_table_begin(fb);
	if (value->scales_constant) {
		fbb_add_u32(fb, 1, value->channel_dim);
		fbb_add_u32(fb, 2, value->scales_constant);
		fbb_add_u32(fb, 3, value->n_scales);
		*ret_quant = fbb_table_end(fb);
		return ET_XNN_QUANT_CHANNEL;
	}
	if (value->n_row_dims) {
		fbb_add_u32(fb, 0, value->n_row_dims);
	} else {
		fbb_add_f32(fb, 0, value->scale);
		fbb_add_u32(fb, 1, (uint32_t)value->zero_point);
	}
	*ret_quant = fbb_table_end(fb);
	return value->n_row_dims ? ET_XNN_QUANT_ROW : ET_XNN_QUANT_TENSOR;
}

uint32_t mx_value(struct make_xnn *mk, const struct mx_value *value)
{
	struct fb_build *fb = &mk->fb;
	bool is_quantized = value->scales || value->scales_constant || value->n_row_dims || value->scale != 0;
	fbb_ref quant = 0;
	uint8_t quant_type = is_quantized ? add_quant(mk, value, &quant) : 0;
	fbb_ref dims = fbb_vector(fb, value->dims, value->n_dims, 4, 4);
	uint32_t external = value->input ? value->input : value->output;
	if (external > mk->n_externs)
		mk->n_externs = external;

	fbb_table_begin(fb);
	fbb_add_u16(fb, 0, (uint16_t)value->type);
	fbb_add_u32(fb, 1, value->n_dims);
	fbb_add_ref(fb, 2, dims);
	fbb_add_u32(fb, 3, value->constant);
	fbb_add_u32(fb, 4, external - 1);
	fbb_add_u32(fb, 5, (value->input ? 1u : 0) | (value->output ? 2u : 0));
	fbb_add_u32(fb, 6, mk->n_values + 100); /* ids are not indexes */
	if (value->dynamic_type)
		fbb_add_u16(fb, 7, (uint16_t)value->dynamic_type);
	fbb_ref tensor = fbb_table_end(fb);
	if (is_quantized) {
		fbb_table_begin(fb);
		fbb_add_ref(fb, 0, tensor);
		fbb_add_u8(fb, 1, quant_type);
		fbb_add_ref(fb, 2, quant);
		tensor = fbb_table_end(fb);
	}
	fbb_table_begin(fb);
	fbb_add_u8(fb, 0, is_quantized ? 2 : 1);
	fbb_add_ref(fb, 1, tensor);
	mk->values[mk->n_values] = fbb_table_end(fb);
	return 100 + mk->n_values++;
}

void mx_node(struct make_xnn *mk, uint8_t type, const struct et_xnn_node *node)
{
	struct fb_build *fb = &mk->fb;
	const struct et_xnn_kind *kind = et_xnn_kind_at(type);
	uint8_t nothing = ET_XNN_FIELD_END;
	const uint8_t *fields = kind && kind->fields ? kind->fields : &nothing;
	fbb_ref lists[2], range = 0;
	for (uint32_t i = 0; i < 2; i++)
		lists[i] = fbb_vector(fb, node->list[i], node->n_list[i], 4, 4);
	if (node->min != 0 || node->max != 0) {
		fbb_table_begin(fb);
		fbb_add_f32(fb, 0, node->min);
		fbb_add_f32(fb, 1, node->max);
		range = fbb_table_end(fb);
	}
	uint32_t n_inputs = 0, n_outputs = 0, n_lists = 0;
	fbb_table_begin(fb);
	for (uint32_t i = 0; fields[i] != ET_XNN_FIELD_END; i++) {
		switch (fields[i]) {
		case ET_XNN_FIELD_SKIP:
			break;
		case ET_XNN_FIELD_INPUT:
		case ET_XNN_FIELD_BIAS:
			fbb_add_u32(fb, i, n_inputs < ET_XNN_MAX_INPUTS ? node->inputs[n_inputs++] : 0);
			break;
		case ET_XNN_FIELD_OUTPUT:
			fbb_add_u32(fb, i, node->outputs[n_outputs++]);
			break;
		case ET_XNN_FIELD_FLAGS:
			fbb_add_u32(fb, i, node->flags);
			break;
		case ET_XNN_FIELD_FLOAT:
			fbb_add_f32(fb, i, node->number);
			break;
		case ET_XNN_FIELD_LIST:
			fbb_add_ref(fb, i, lists[n_lists++]);
			break;
		default:
			fbb_add_u32(fb, i, node->numbers[fields[i] - ET_XNN_FIELD_NUMBER]);
			break;
		}
	}
	fbb_ref table = fbb_table_end(fb);
	fbb_table_begin(fb);
	fbb_add_u8(fb, 0, type);
	fbb_add_ref(fb, 1, table);
	fbb_add_u32(fb, 2, mk->n_nodes);
	fbb_add_ref(fb, 3, range);
	mk->nodes[mk->n_nodes++] = fbb_table_end(fb);
}

static void store(uint8_t *at, uint64_t value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

uint8_t *mx_finish(struct make_xnn *mk, size_t *ret_n_bytes)
{
	struct fb_build *fb = &mk->fb;
	fbb_ref constants = fbb_refs(fb, mk->constants, mk->n_constants);
	fbb_ref values = fbb_refs(fb, mk->values, mk->n_values);
	fbb_ref nodes = fbb_refs(fb, mk->nodes, mk->n_nodes);
	fbb_table_begin(fb);
	fbb_add_ref(fb, 1, nodes);
	fbb_add_ref(fb, 2, values);
	fbb_add_u32(fb, 3, mk->n_externs);
	fbb_add_ref(fb, mk->is_old ? 6 : 8, constants);
	fbb_finish(fb, fbb_table_end(fb), mk->is_old ? "XN00" : "XN01", 0);

	size_t n_graph, n_header = mk->is_old ? 0 : 32;
	uint8_t *graph = fbb_data(fb, &n_graph);
	size_t constants_at = (n_header + n_graph + 15) / 16 * 16;
	size_t n = mk->is_old ? n_graph : constants_at + mk->n_bytes;
	uint8_t *payload = calloc(1, n + ET_SOURCE_PADDING);
	memcpy(payload + n_header, graph, n_graph);
	if (!mk->is_old) {
		memcpy(payload + 4, "XH00", 4);
		store(payload + 8, 30, 2);
		store(payload + 10, n_header, 4);
		store(payload + 14, n_graph, 4);
		store(payload + 18, constants_at, 4);
		store(payload + 22, mk->n_bytes, 8);
		if (mk->n_bytes)
			memcpy(payload + constants_at, mk->bytes, mk->n_bytes);
	}
	free(mk->bytes);
	fbb_deinit(fb);
	*mk = (struct make_xnn){ 0 };
	*ret_n_bytes = n;
	return payload;
}
