/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of the XNNPACK delegate: payloads made by hand, valid ones in a few lines and hostile ones by setting a
 * field.
 *
 * struct make_xnn mk; mx_init(&mk); uint32_t in = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1,
 * 4), .input = 1 }); uint32_t out = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 4), .output = 2
 * }); mx_node(&mk, MX_SIGMOID, &(struct et_xnn_node){ .inputs = { in }, .outputs = { out } }); uint8_t *payload =
 * mx_finish(&mk, &n_bytes); // free it */
#ifndef DELEGATES_XNNPACK_SUPPORT_TEST_MAKE_H
#define DELEGATES_XNNPACK_SUPPORT_TEST_MAKE_H

#include "delegates/xnnpack/graph/kind.h"
#include "tests/support/fb_build.h"

enum { MX_MAX_ITEMS = 1024 };

#define MX_DIMS(...) .dims = { __VA_ARGS__ }, .n_dims = sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t)

/* Numbers of the union XNodeUnion. */
enum {
	MX_ADD = 1,
	MX_LINEAR = 2,
	MX_SOFTMAX = 3,
	MX_SIGMOID = 4,
	MX_TRANSPOSE = 5,
	MX_CLAMP = 6,
	MX_CONV = 7,
	MX_RESIZE = 9,
	MX_PAD = 10,
	MX_AVERAGE = 11,
	MX_DEPTHWISE = 13,
	MX_MAX_POOL = 14,
	MX_MULTIPLY = 15,
	MX_SUBTRACT = 16,
	MX_CONVERT = 18,
	MX_GLOBAL = 19,
	MX_LEAKY_RELU = 25,
	MX_NEGATE = 27,
	MX_RESHAPE = 20,
	MX_ARGMAX = 21,
	MX_PRELU = 31,
	MX_CAT2 = 32,
	MX_SLICE = 35,
	MX_ATTENTION = 36,
	MX_MATMUL = 37,
	MX_DECONV = 39,
};

struct mx_value {
	uint32_t type; /* enum et_xnn_type */
	uint32_t dims[8], n_dims;
	uint32_t constant; /* from mx_constant; 0 = none */
	uint32_t input;    /* argument + 1; 0 = not external */
	uint32_t output;   /* likewise */
	uint32_t dynamic_type;
	float scale; /* not 0: one scale for all */
	int32_t zero_point;
	const float *scales; /* a scale a channel, or a block */
	uint32_t n_scales, channel_dim;
	uint32_t scales_constant; /* instead of @scales, a scale a channel */
	uint32_t block_size;
	uint32_t n_row_dims;
};

struct make_xnn {
	struct fb_build fb;
	bool is_old;        /* no header, constants inline, "XN00" */
	uint32_t n_externs; /* follows from the values; a test may raise it */
	bool shares_scales; /* all values have the vector of the first */
	fbb_ref scales;
	fbb_ref values[MX_MAX_ITEMS], nodes[MX_MAX_ITEMS], constants[MX_MAX_ITEMS];
	uint32_t n_values, n_nodes, n_constants;
	uint8_t *bytes; /* of the constants */
	size_t n_bytes;
};

void mx_init(struct make_xnn *mk);
/* A constant's number. */
uint32_t mx_constant(struct make_xnn *mk, const void *bytes, size_t n_bytes);
uint32_t mx_named_constant(struct make_xnn *mk, const char *key);
/* A value's id. */
uint32_t mx_value(struct make_xnn *mk, const struct mx_value *value);
/* Inputs and outputs are ids. */
void mx_node(struct make_xnn *mk, uint8_t type, const struct et_xnn_node *node);
/* The payload, followed by 64 zeros, is the caller's to free. Ends the maker. */
uint8_t *mx_finish(struct make_xnn *mk, size_t *ret_n_bytes);

#endif
