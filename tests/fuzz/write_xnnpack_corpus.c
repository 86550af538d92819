/* Writes the seeds of corpus/xnnpack: each kind of node once, valid, and the datatypes that constants have.
 *
 *     write_xnnpack_corpus FOLDER */
#include "delegates/xnnpack/test_make.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *folder;

static void write_seed(struct make_xnn *mk, const char *name, uint8_t n_args)
{
	char path[512];
	size_t n_bytes;
	uint8_t *bytes = mx_finish(mk, &n_bytes);
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
static void one_node(
	const char *name, uint8_t kind, const struct et_xnn_node *node, uint32_t n_dims, const uint32_t *dims)
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
	uint32_t in, out, filter, bias,
		activation = type == ET_XNN_QCINT8 && !is_dynamic ? ET_XNN_QINT8 : ET_XNN_FP32;
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
		filter = is_depthwise ? constant(&mk, type, DIMS(1, 3, 3, 2))
				      : constant(&mk, type, DIMS(2, 3, 3, 2));
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

static void two_inputs(
	const char *name, uint8_t kind, const struct et_xnn_node *node, uint32_t n_dims, const uint32_t *dims)
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
	uint32_t filter = constant(&mk, ET_XNN_FP32, DIMS(2, 3, 3, 2)),
		 slope = constant(&mk, ET_XNN_FP32, DIMS(2));
	mx_node(&mk, MX_PAD,
		&(struct et_xnn_node){ .inputs = { in },
			.outputs = { padded },
			.n_list = { 4, 4 },
			.list = { { 0, 1, 1, 0 }, { 0, 1, 1, 0 } } });
	mx_node(&mk, MX_CONV,
		&(struct et_xnn_node){ .inputs = { padded, filter, ET_XNN_NONE },
			.outputs = { convolved },
			.numbers = { 0, 0, 0, 0, 3, 3, 1, 1, 1, 1, 2, 2, 1 } });
	mx_node(&mk, MX_CLAMP,
		&(struct et_xnn_node){ .inputs = { convolved }, .outputs = { clamped }, .max = 6 });
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
	one_node("made-transpose", MX_TRANSPOSE,
		&(struct et_xnn_node){ .n_list = { 4 }, .list = { { 0, 3, 1, 2 } } }, DIMS(1, 2, 4, 4));
	one_node("made-reshape", MX_RESHAPE, &(struct et_xnn_node){ .n_list = { 2 }, .list = { { 0, 8 } } },
		DIMS(4, 8));
	one_node("made-slice", MX_SLICE,
		&(struct et_xnn_node){ .n_list = { 4, 4 }, .list = { { 0, 1, 0, 0 }, { 1, 2, 0, 2 } } },
		DIMS(1, 2, 4, 2));
	one_node("made-resize", MX_RESIZE,
		&(struct et_xnn_node){ .numbers = { [ET_XNN_NEW_H] = 3, [ET_XNN_NEW_W] = 5 } },
		DIMS(1, 3, 5, 2));
	two_inputs("made-add", MX_ADD, &(struct et_xnn_node){ .min = -1, .max = 1 }, DIMS(2, 3, 3));
	two_inputs("made-matmul", MX_MATMUL, &(struct et_xnn_node){ .flags = 1 }, DIMS(2, 3, 3));
	two_inputs("made-cat", MX_CAT2, &(struct et_xnn_node){ .numbers = { [ET_XNN_AXIS] = 1 } },
		DIMS(2, 6, 3));
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
	chain();
	return 0;
}
