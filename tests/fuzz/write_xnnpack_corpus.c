/* SPDX-License-Identifier: BSD-3-Clause */
/* Write the seeds of corpus/xnnpack: each kind of node once, valid; the datatypes of constants; and one payload for
 * each reason for which a payload is refused.
 *
 *     write_xnnpack_corpus FOLDER */
#include "delegates/xnnpack/support/test_make.h"

#include "runtime/base/checked.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *folder;

static void write_seed(struct make_xnn *mk, const char *name, uint8_t n_args)
{
	char path[512];
	size_t n_bytes;
	bool is_old = mk->is_old;
	uint8_t *bytes = mx_finish(mk, &n_bytes);
	if (!is_old)
		bytes[0] = n_args; /* free in the header, and what fuzz_xnnpack.c looks at */
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *file = fopen(path, "wb");
	if (!file || fwrite(bytes, 1, n_bytes, file) != n_bytes || fclose(file) != 0) {
		perror(path);
		exit(1);
	}
	free(bytes);
}

static uint32_t value(struct make_xnn *mk, uint32_t type, uint32_t input, uint32_t output, uint32_t n_dims,
	const uint32_t *dims)
{
	struct mx_value made = { .type = type, .n_dims = n_dims, .input = input, .output = output };
	memcpy(made.dims, dims, n_dims * sizeof(*dims));
	if (type == ET_XNN_QINT8)
		made.scale = 0.25f;
	return mx_value(mk, &made);
}

#define DIMS(...)                                                                  \
	sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), (const uint32_t[]) \
	{                                                                          \
		__VA_ARGS__                                                        \
	}

static uint32_t constant(struct make_xnn *mk, uint32_t type, uint32_t n_dims, const uint32_t *dims)
{
	static float numbers[256], scales[16];
	struct mx_value made = { .type = type, .n_dims = n_dims };
	size_t n = 1;
	for (uint32_t i = 0; i < n_dims; i++)
		n *= made.dims[i] = dims[i];
	for (int i = 0; i < 256; i++)
		numbers[i] = sinf((float)i);
	for (int i = 0; i < 16; i++)
		scales[i] = 0.5f;
	if (et_xnn_type_bits(type) <= 8 || type == ET_XNN_QCINT32) {
		made.scales = scales;
		made.n_scales = type == ET_XNN_QBINT4 ? dims[0] * dims[1] / 32 : dims[0];
		made.block_size = type == ET_XNN_QBINT4 ? 32 : 0;
	}
	made.constant = mx_constant(mk, numbers, n * et_xnn_type_bits(type) / 8);
	return mx_value(mk, &made);
}

/* One node that turns [1,4,4,2] into @dims. */
static void one_node(const char *name, uint8_t kind, const struct et_xnn_node *node, uint32_t n_dims,
	const uint32_t *dims)
{
	struct make_xnn mk;
	mx_init(&mk);
	struct et_xnn_node made = *node;
	made.inputs[0] = value(&mk, ET_XNN_FP32, 1, 0, DIMS(1, 4, 4, 2));
	made.outputs[0] = value(&mk, ET_XNN_FP32, 0, 2, n_dims, dims);
	mx_node(&mk, kind, &made);
	write_seed(&mk, name, 2);
}

static void weights(const char *name, uint8_t kind, uint32_t type, bool is_dynamic)
{
	struct make_xnn mk;
	mx_init(&mk);
	uint32_t in, out, filter, bias, activation = type == ET_XNN_QCINT8 && !is_dynamic ? ET_XNN_QINT8 : ET_XNN_FP32;
	struct et_xnn_node node = { .numbers = { 1, 1, 1, 1, 3, 3, 1, 1, 1, 1, 2, 2, 1 } };
	if (kind == MX_LINEAR) {
		in = value(&mk, activation, 1, 0, DIMS(2, 32));
		out = value(&mk, activation, 0, 2, DIMS(2, 4));
		filter = constant(&mk, type, DIMS(4, 32));
		bias = constant(&mk, activation == ET_XNN_QINT8 ? ET_XNN_QCINT32 : ET_XNN_FP32, DIMS(4));
	} else {
		bool is_depthwise = kind == MX_DEPTHWISE;
		in = value(&mk, activation, 1, 0, DIMS(1, 4, 4, 2));
		out = value(&mk, activation, 0, 2, DIMS(1, 4, 4, 2));
		filter = is_depthwise ? constant(&mk, type, DIMS(1, 3, 3, 2)) : constant(&mk, type, DIMS(2, 3, 3, 2));
		bias = constant(&mk, activation == ET_XNN_QINT8 ? ET_XNN_QCINT32 : ET_XNN_FP32, DIMS(2));
		if (is_depthwise) {
			node.numbers[ET_XNN_GROUP_IN] = node.numbers[ET_XNN_GROUP_OUT] = 1;
			node.numbers[ET_XNN_GROUPS] = 2;
		}
	}
	if (is_dynamic) {
		struct mx_value rows = { .type = ET_XNN_QDINT8, .n_row_dims = kind == MX_LINEAR ? 1 : 3 };
		rows.n_dims = kind == MX_LINEAR ? 2 : 4;
		memcpy(rows.dims, kind == MX_LINEAR ? (uint32_t[4]){ 2, 32 } : (uint32_t[4]){ 1, 4, 4, 2 },
			sizeof(uint32_t[4]));
		uint32_t quantized = mx_value(&mk, &rows);
		mx_node(&mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { in }, .outputs = { quantized } });
		in = quantized;
	}
	node.inputs[0] = in;
	node.inputs[1] = filter;
	node.inputs[2] = bias;
	node.outputs[0] = out;
	mx_node(&mk, kind, &node);
	write_seed(&mk, name, 2);
}

static void two_inputs(const char *name, uint8_t kind, const struct et_xnn_node *node, uint32_t n_dims,
	const uint32_t *dims)
{
	struct make_xnn mk;
	mx_init(&mk);
	struct et_xnn_node made = *node;
	made.inputs[0] = value(&mk, ET_XNN_FP32, 1, 0, DIMS(2, 3, 3));
	made.inputs[1] = value(&mk, ET_XNN_FP32, 2, 0, DIMS(2, 3, 3));
	made.outputs[0] = value(&mk, ET_XNN_FP32, 0, 3, n_dims, dims);
	mx_node(&mk, kind, &made);
	write_seed(&mk, name, 3);
}

static void chain(void)
{
	struct make_xnn mk;
	mx_init(&mk);
	uint32_t in = value(&mk, ET_XNN_FP32, 1, 0, DIMS(1, 4, 4, 2));
	uint32_t padded = value(&mk, ET_XNN_FP32, 0, 0, DIMS(1, 6, 6, 2));
	uint32_t convolved = value(&mk, ET_XNN_FP32, 0, 0, DIMS(1, 4, 4, 2));
	uint32_t clamped = value(&mk, ET_XNN_FP32, 0, 0, DIMS(1, 4, 4, 2));
	uint32_t bytes = value(&mk, ET_XNN_QINT8, 0, 2, DIMS(1, 4, 4, 2));
	uint32_t copy = value(&mk, ET_XNN_FP32, 0, 3, DIMS(1, 4, 4, 2));
	uint32_t filter = constant(&mk, ET_XNN_FP32, DIMS(2, 3, 3, 2)), slope = constant(&mk, ET_XNN_FP32, DIMS(2));
	mx_node(&mk, MX_PAD,
		&(struct et_xnn_node){ .inputs = { in },
			.outputs = { padded },
			.n_list = { 4, 4 },
			.list = { { 0, 1, 1, 0 }, { 0, 1, 1, 0 } } });
	mx_node(&mk, MX_CONV,
		&(struct et_xnn_node){ .inputs = { padded, filter, ET_XNN_NONE },
			.outputs = { convolved },
			.numbers = { 0, 0, 0, 0, 3, 3, 1, 1, 1, 1, 2, 2, 1 } });
	mx_node(&mk, MX_CLAMP, &(struct et_xnn_node){ .inputs = { convolved }, .outputs = { clamped }, .max = 6 });
	mx_node(&mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { clamped }, .outputs = { bytes } });
	mx_node(&mk, MX_PRELU, &(struct et_xnn_node){ .inputs = { clamped, slope }, .outputs = { copy } });
	write_seed(&mk, "made-chain", 3);

	mx_init(&mk);
	in = value(&mk, ET_XNN_FP32, 1, 0, DIMS(1, 4, 4, 2));
	uint32_t most = value(&mk, ET_XNN_FP32, 0, 2, DIMS(1, 2, 2, 2));
	uint32_t where = value(&mk, ET_XNN_FP32, 0, 3, DIMS(1, 2, 2, 2));
	mx_node(&mk, MX_ARGMAX,
		&(struct et_xnn_node){ .inputs = { in },
			.outputs = { most, where },
			.numbers = { [ET_XNN_KERNEL_H] = 2, [ET_XNN_KERNEL_W] = 2 } });
	write_seed(&mk, "made-argmax", 3);
}

/* Bfloats in every place that they may have: arguments, a filter, another constant, what is between nodes and what
 * is read of an output, beside floats and fp16. */
static void bf16(void)
{
	struct make_xnn mk;
	mx_init(&mk);
	uint32_t in = value(&mk, ET_XNN_BF16, 1, 0, DIMS(3, 4)), layer = value(&mk, ET_XNN_BF16, 0, 0, DIMS(3, 4)),
		 sum = value(&mk, ET_XNN_BF16, 0, 2, DIMS(3, 4)), turned = value(&mk, ET_XNN_BF16, 0, 0, DIMS(4, 3)),
		 product = value(&mk, ET_XNN_FP32, 0, 0, DIMS(3, 3)), again = value(&mk, ET_XNN_BF16, 0, 0, DIMS(3, 3)),
		 fp16 = value(&mk, ET_XNN_FP16, 0, 3, DIMS(3, 3));
	uint32_t filter = constant(&mk, ET_XNN_BF16, DIMS(4, 4)), bias = constant(&mk, ET_XNN_FP32, DIMS(4)),
		 other = constant(&mk, ET_XNN_BF16, DIMS(4));
	const struct et_xnn_node any = { .min = -INFINITY, .max = INFINITY };
	struct et_xnn_node node = any;
	node.inputs[0] = in;
	node.inputs[1] = filter;
	node.inputs[2] = bias;
	node.outputs[0] = layer;
	mx_node(&mk, MX_LINEAR, &node);
	node = any;
	node.inputs[0] = layer;
	node.inputs[1] = other;
	node.outputs[0] = sum;
	mx_node(&mk, MX_ADD, &node);
	mx_node(&mk, MX_TRANSPOSE,
		&(struct et_xnn_node){
			.inputs = { sum }, .outputs = { turned }, .n_list = { 2 }, .list = { { 1, 0 } } });
	node = any;
	node.inputs[0] = in;
	node.inputs[1] = turned;
	node.outputs[0] = product;
	mx_node(&mk, MX_MATMUL, &node);
	mx_node(&mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { product }, .outputs = { again } });
	mx_node(&mk, MX_CONVERT, &(struct et_xnn_node){ .inputs = { again }, .outputs = { fp16 } });
	write_seed(&mk, "made-bf16", 3);
}

/* A sigmoid of @made, which is broken or unusual. */
static void one_value(const char *name, struct mx_value made)
{
	struct make_xnn mk;
	struct mx_value out = { .type = ET_XNN_FP32, MX_DIMS(2, 32), .output = 2 };
	mx_init(&mk);
	if (!made.n_dims) {
		made.n_dims = 2;
		memcpy(made.dims, out.dims, sizeof(made.dims));
	}
	uint32_t in = mx_value(&mk, &made), id = mx_value(&mk, &out);
	mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { in }, .outputs = { id } });
	write_seed(&mk, name, 2);
}

/* A linear layer whose filter is @filter, of 4 times 32 elements if nothing else is said. */
static void one_filter(const char *name, struct mx_value filter, const char *key, bool is_old)
{
	static const float numbers[128] = { 1, 2, 3 };
	struct make_xnn mk;
	mx_init(&mk);
	mk.is_old = is_old;
	uint32_t in = value(&mk, ET_XNN_FP32, 1, 0, DIMS(2, 32)), out = value(&mk, ET_XNN_FP32, 0, 2, DIMS(2, 4));
	if (!filter.n_dims) {
		filter.n_dims = 2;
		filter.dims[0] = 4;
		filter.dims[1] = 32;
	}
	filter.constant = key ? mx_named_constant(&mk, key) : mx_constant(&mk, numbers, sizeof(numbers));
	uint32_t id = mx_value(&mk, &filter);
	mx_node(&mk, MX_LINEAR, &(struct et_xnn_node){ .inputs = { in, id, ET_XNN_NONE }, .outputs = { out } });
	write_seed(&mk, name, 2);
}

static void strange_values(void)
{
	static const float scales[8] = { 1, 1, 1, 1, 1, 1, 1, 1 }, bad[4] = { 1, -1, 1, 1 };
	one_value("bad-old-dynamic",
		(struct mx_value){ .type = ET_XNN_FP32, .input = 1, .dynamic_type = ET_XNN_QINT8 });
	one_value("bad-old-dynamic-type",
		(struct mx_value){ .type = ET_XNN_FP32, .input = 1, .dynamic_type = ET_XNN_QUINT8 });
	one_value("bad-scale", (struct mx_value){ .type = ET_XNN_QINT8, .input = 1, .scale = -1 });
	one_value("bad-type", (struct mx_value){ .type = ET_XNN_QPINT8, .input = 1 });
	one_value("bad-type-number", (struct mx_value){ .type = 200, .input = 1 });
	one_value("bad-quantization", (struct mx_value){ .type = ET_XNN_FP32, .input = 1, .scale = 1 });
	one_value("bad-row-argument", (struct mx_value){ .type = ET_XNN_QDINT8, .input = 1, .n_row_dims = 1 });
	one_value("bad-rows", (struct mx_value){ .type = ET_XNN_QDINT8, .n_row_dims = 9 });
	one_value("bad-rank", (struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 1, 1, 1, 1, 2, 32), .input = 1 });
	one_value("bad-size",
		(struct mx_value){ .type = ET_XNN_FP32, .input = 1, MX_DIMS(UINT32_MAX, UINT32_MAX, UINT32_MAX) });
	one_value("bad-argument", (struct mx_value){ .type = ET_XNN_FP32, .input = 7 });
	one_value("bad-nobody-writes", (struct mx_value){ .type = ET_XNN_FP32 });
	one_value("bad-two-of-one", (struct mx_value){ .type = ET_XNN_FP32, .input = 2 });
	one_value("bad-no-such-constant", (struct mx_value){ .type = ET_XNN_FP32, .constant = 9 });
	one_value("bad-sizes-differ", (struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(3, 5), .input = 1 });
	one_value("made-bfloat", (struct mx_value){ .type = ET_XNN_BF16, .input = 1 });
	one_value("bad-half", (struct mx_value){ .type = ET_XNN_FP16, .input = 1 });
	one_value("bad-int32", (struct mx_value){ .type = ET_XNN_INT32, .input = 1 });
	one_filter("bad-named", (struct mx_value){ .type = ET_XNN_FP32 }, "weights", false);
	one_filter("bad-short", (struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(4, 64) }, NULL, false);
	one_filter("made-old", (struct mx_value){ .type = ET_XNN_FP32 }, NULL, true);
	one_filter("bad-old-short", (struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(4, 64) }, NULL, true);
	one_filter("bad-n-scales", (struct mx_value){ .type = ET_XNN_QCINT8, .scales = scales, .n_scales = 3 }, NULL,
		false);
	one_filter("bad-scales", (struct mx_value){ .type = ET_XNN_QCINT8, .scales = bad, .n_scales = 4 }, NULL, false);
	/* scales from a constant: here the filter's own bytes, which begin with three floats above 0 */
	one_filter("bad-nibbles",
		(struct mx_value){ .type = ET_XNN_QCINT4, MX_DIMS(3, 31), .scales_constant = 1, .n_scales = 3 }, NULL,
		false);
	one_filter("bad-scales-constant",
		(struct mx_value){ .type = ET_XNN_QCINT8, .scales_constant = 9, .n_scales = 4 }, NULL, false);
	one_filter("bad-channel",
		(struct mx_value){ .type = ET_XNN_QCINT8, .scales = scales, .n_scales = 4, .channel_dim = 5 }, NULL,
		false);
	one_filter("bad-block",
		(struct mx_value){ .type = ET_XNN_QBINT4, .scales = scales, .n_scales = 4, .block_size = 7 }, NULL,
		false);
	one_filter("bad-filter-argument", (struct mx_value){ .type = ET_XNN_FP32, .input = 1 }, NULL, false);
	one_filter("bad-filter-type", (struct mx_value){ .type = ET_XNN_FP16 }, NULL, false);
	one_filter("bad-filter-quantized", (struct mx_value){ .type = ET_XNN_QINT8, .scale = 1 }, NULL, false);
}

/* A node of @kind from [2,3,3] and itself to @out; the argument is id 0, the result id 1. */
static void strange_node(const char *name, uint8_t kind, struct et_xnn_node node, uint32_t type, uint32_t n_externs,
	int how)
{
	struct make_xnn mk;
	mx_init(&mk);
	uint32_t in = value(&mk, ET_XNN_FP32, how == 1 ? 2 : 1, 0, DIMS(2, 3, 3));
	uint32_t out = value(&mk, type, 0, how == 1 ? 1 : 2, DIMS(2, 3, 3));
	uint32_t spare = value(&mk, ET_XNN_FP32, 0, 0, DIMS(2, 3, 3));
	if (n_externs)
		mk.n_externs = n_externs;
	node.inputs[0] = how == 2 ? 999 : how == 3 ? spare : in;
	node.inputs[1] = how == 5 ? spare : in;
	node.outputs[0] = how == 6 ? in : out;
	mx_node(&mk, kind, &node);
	if (how == 4)
		mx_node(&mk, kind, &node);
	if (how == 7) {
		node.outputs[0] = spare;
		mx_node(&mk, kind, &node);
	}
	write_seed(&mk, name, 2);
}

static void strange_nodes(void)
{
	const struct et_xnn_node plain = { .min = -INFINITY, .max = INFINITY };
	struct et_xnn_node node = plain;
	strange_node("bad-kind", 99, plain, ET_XNN_FP32, 0, 0);
	strange_node("bad-attention", MX_ATTENTION, plain, ET_XNN_FP32, 0, 0);
	strange_node("bad-order", MX_ADD, plain, ET_XNN_FP32, 0, 1);
	strange_node("bad-id", MX_ADD, plain, ET_XNN_FP32, 0, 2);
	strange_node("bad-unwritten", MX_ADD, plain, ET_XNN_FP32, 0, 3);
	strange_node("bad-written-twice", MX_ADD, plain, ET_XNN_FP32, 0, 4);
	strange_node("bad-unwritten-second", MX_ADD, plain, ET_XNN_FP32, 0, 5);
	strange_node("bad-writes-argument", MX_ADD, plain, ET_XNN_FP32, 0, 6);
	strange_node("made-unused", MX_ADD, plain, ET_XNN_FP32, 0, 7);
	strange_node("bad-externs", MX_ADD, plain, ET_XNN_FP32, 1000000, 0);
	strange_node("bad-extern-nobody", MX_ADD, plain, ET_XNN_FP32, 5, 0);
	strange_node("bad-bfloat-types", MX_ADD, plain, ET_XNN_BF16, 0, 0);
	strange_node("bad-types", MX_ADD, plain, ET_XNN_FP16, 0, 0);
	strange_node("bad-matmul-types", MX_MATMUL, plain, ET_XNN_FP16, 0, 0);
	strange_node("bad-softmax-types", MX_SOFTMAX, plain, ET_XNN_QINT8, 0, 0);
	strange_node("bad-convert", MX_CONVERT, plain, ET_XNN_INT32, 0, 0);
	node.flags = 0x80000000;
	strange_node("bad-flags", MX_ADD, node, ET_XNN_FP32, 0, 0);
	node = plain;
	node.min = NAN;
	strange_node("bad-limits", MX_ADD, node, ET_XNN_FP32, 0, 0);
}

/* Bytes that are no payload: their header is wrong. */
static void strange_headers(void)
{
	static const uint32_t wrong[] = { 10, 14, 18, 22 };
	for (size_t i = 0; i <= ET_ARRAY_LEN(wrong); i++) {
		struct make_xnn mk;
		char path[512];
		size_t n_bytes;
		mx_init(&mk);
		uint32_t in = value(&mk, ET_XNN_FP32, 1, 0, DIMS(2, 3)),
			 out = value(&mk, ET_XNN_FP32, 0, 2, DIMS(2, 3));
		mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { in }, .outputs = { out } });
		uint8_t *bytes = mx_finish(&mk, &n_bytes);
		bytes[0] = 2;
		if (i < ET_ARRAY_LEN(wrong))
			memset(bytes + wrong[i], 0xff, 4);
		else
			memcpy(bytes + 4, "XXXX", 4);
		snprintf(path, sizeof(path), "%s/bad-header-%zu", folder, i);
		FILE *file = fopen(path, "wb");
		if (!file || fwrite(bytes, 1, n_bytes, file) != n_bytes || fclose(file) != 0) {
			perror(path);
			exit(1);
		}
		free(bytes);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: write_xnnpack_corpus FOLDER\n");
		return 2;
	}
	folder = argv[1];
	const struct et_xnn_node window = { .numbers = { 0, 0, 0, 0, 2, 2, 2, 2, 1, 1 } };
	one_node("made-sigmoid", MX_SIGMOID, &(struct et_xnn_node){ 0 }, DIMS(1, 4, 4, 2));
	one_node("made-softmax", MX_SOFTMAX, &(struct et_xnn_node){ 0 }, DIMS(1, 4, 4, 2));
	one_node("made-average", MX_AVERAGE, &window, DIMS(1, 2, 2, 2));
	one_node("made-max-pool", MX_MAX_POOL, &window, DIMS(1, 2, 2, 2));
	one_node("made-global", MX_GLOBAL, &(struct et_xnn_node){ .flags = 0x40, .min = -9, .max = 9 },
		DIMS(1, 1, 1, 2));
	one_node("made-transpose", MX_TRANSPOSE, &(struct et_xnn_node){ .n_list = { 4 }, .list = { { 0, 3, 1, 2 } } },
		DIMS(1, 2, 4, 4));
	one_node("made-reshape", MX_RESHAPE, &(struct et_xnn_node){ .n_list = { 2 }, .list = { { 0, 8 } } },
		DIMS(4, 8));
	one_node("made-slice", MX_SLICE,
		&(struct et_xnn_node){ .n_list = { 4, 4 }, .list = { { 0, 1, 0, 0 }, { 1, 2, 0, 2 } } },
		DIMS(1, 2, 4, 2));
	one_node("made-resize", MX_RESIZE,
		&(struct et_xnn_node){ .numbers = { [ET_XNN_NEW_H] = 3, [ET_XNN_NEW_W] = 5 } }, DIMS(1, 3, 5, 2));
	two_inputs("made-add", MX_ADD, &(struct et_xnn_node){ .min = -1, .max = 1 }, DIMS(2, 3, 3));
	two_inputs("made-matmul", MX_MATMUL, &(struct et_xnn_node){ .flags = 1 }, DIMS(2, 3, 3));
	two_inputs("made-cat", MX_CAT2, &(struct et_xnn_node){ .numbers = { [ET_XNN_AXIS] = 1 } }, DIMS(2, 6, 3));
	weights("made-linear", MX_LINEAR, ET_XNN_FP32, false);
	weights("made-linear-qs8", MX_LINEAR, ET_XNN_QCINT8, false);
	weights("made-linear-qd8", MX_LINEAR, ET_XNN_QCINT8, true);
	weights("made-linear-qc4", MX_LINEAR, ET_XNN_QCINT4, true);
	weights("made-linear-qb4", MX_LINEAR, ET_XNN_QBINT4, true);
	weights("made-conv", MX_CONV, ET_XNN_FP32, false);
	weights("made-conv-qs8", MX_CONV, ET_XNN_QCINT8, false);
	weights("made-conv-qd8", MX_CONV, ET_XNN_QCINT8, true);
	weights("made-depthwise", MX_DEPTHWISE, ET_XNN_FP32, false);
	weights("made-deconv", MX_DECONV, ET_XNN_FP32, false);
	weights("made-deconv-qs8", MX_DECONV, ET_XNN_QCINT8, false);
	chain();
	bf16();
	strange_values();
	strange_nodes();
	strange_headers();
	return 0;
}
