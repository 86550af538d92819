/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules for operands: each text is right, and each change to it is refused with a sentence. */
#include "delegates/graph/operators.h"
#include "delegates/graph/shapes.h"
#include "runtime/base/checked.h"
#include "tests/support/graph_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { MAX_CHANGES = 10, MAX_TEXT = 1500 };

struct change {
	const char *from, *to, *why;
};

static const struct {
	const char *text;
	struct change changes[MAX_CHANGES];
} cases[] = {
	{ "%0: f16[2, 3] = input\n%9: f16[2, 3] = aten.relu.default(%0)\nreturn %9\n",
		{ { "%9: f16", "%9: f32", "result 0 is of a type" } } },
	{ "%0: f32[2, 3] = input\n%1: f32[3] = input\n%9: f32[2, 3] = aten.add.Tensor(%0, %1, 1)\nreturn %9\n",
		{ { "%1: f32", "%1: f16", "argument 1 is of a type" } } },
	{ "%0: f32[2] = input\n%1: f32[3] = input\n%9: f32[5] = aten.cat.default([%0, %1], 0)\nreturn %9\n",
		{ { "%1: f32", "%1: i32", "argument 0 is of a type" } } },
	{ "%0: f32[4] = input\n%8: f32[1], %9: f32[3] = aten.split_with_sizes_copy.default(%0, [1, 3], 0)\n"
	  "return %9\n",
		{ { "%9: f32", "%9: f16", "result 1 is of a type" } } },
	{ "%0: bool[4] = input\n%1: bool[4] = input\n%9: bool[4] = aten.bitwise_and.Tensor(%0, %1)\nreturn %9\n",
		{ { "%1: bool", "%1: u8", "argument 1 is of a type" } } },
	{ "%0: f32[4] = input\n%9: bool[4] = aten.eq.Scalar(%0, 1)\nreturn %9\n",
		{ { "bool", "f32", "result 0 is of a type" } } },
	{ "%0: bool[4] = input\n%1: f32[4] = input\n%9: f32[4] = aten.where.self(%0, %1, %1)\nreturn %9\n",
		{ { "bool", "f32", "argument 0 is of a type" } } },
	{ "%0: f32[9, 4] = constant\n%1: i32[2] = input\n"
	  "%9: f32[2, 4] = aten.embedding.default(%0, %1, -1, false, false)\nreturn %9\n",
		{ { "i32", "f32", "argument 1 is of a type" } } },
	{ "%0: f32[9, 4] = input\n%1: i32[2] = input\n%9: f32[2, 4] = aten.index.Tensor(%0, [%1])\nreturn %9\n",
		{ { "i32", "bool", "argument 1 is of a type" } } },
	{ "%0: f32[2, 3] = input\n%9: f32[2, 3] = aten.gelu.default(%0, \"tanh\")\nreturn %9\n",
		{ { "tanh", "than", "neither 'none' nor 'tanh'" }, { "f32", "i32", "argument 0 is of a type" } } },
	{ "%0: i32[2] = input\n%9: i32[2] = aten.div.Tensor_mode(%0, %0, \"floor\")\nreturn %9\n",
		{ { "floor", "round", "neither 'floor' nor 'trunc'" } } },
	{ "%0: f32[2, 3] = input\n%9: f32[2, 3] = aten._softmax.default(%0, 1, false)\nreturn %9\n",
		{ { "%0, 1", "%0, 2", "dimension 2 of 2" }, { "%0, 1", "%0, -3", "dimension -3 of 2" } } },
	{ "%0: f32[2, 3] = input\n%9: f32[2, 3] = aten.flip.default(%0, [0, -1])\nreturn %9\n",
		{ { "-1", "2", "dimension 2 of 2" }, { "-1", "-2", "comes twice" } } },
	{ "%0: f32[0, 2] = input\n%9: f32[0] = aten.amax.default(%0, [1], false)\nreturn %9\n",
		{ { "%9: f32[0] = aten.amax.default(%0, [1]", "%9: f32[2] = aten.amax.default(%0, [0]",
			  "nothing to choose" },
			{ "%9: f32[0] = aten.amax.default(%0, [1]", "%9: i32[2] = aten.argmin.default(%0, 0",
				"nothing to choose" } } },
	{ "%0: i32[1] = input\n%9: symbol = et_vk.select_as_symint.default(%0, 0, -1)\nreturn %9\n",
		{ { "-1)", "1)", "index 1 of 1" }, { "i32[1]", "i32[1, 2]", "of 2 elements" },
			{ "i32", "f32", "argument 0 is of a type" }, { "%0, 0", "%0, 1", "dimension 1 of 1" } } },
	{ "%0: f32[4] = input\n%9: f32[5] = aten.constant_pad_nd.default(%0, [-2, 3], 0)\nreturn %9\n",
		{ { "-2, 3", "-5, 6", "more is taken away" } } },

	/* windows */
	{ "%0: f16[1, 4, 9] = input\n%1: f16[8, 2, 3] = constant\n%2: f16[8] = constant\n"
	  "%9: f16[1, 8, 5] = aten.convolution.default(%0, %1, %2, [2], [1], [1], false, [0], 2)\nreturn %9\n",
		{ { "%2: f16[8]", "%2: f16[7]", "argument 2 is no vector of 8" },
			{ "%2: f16[8]", "%2: f16[1, 8]", "argument 2 is no vector of 8" },
			{ "%1: f16", "%1: f32", "argument 1 is of a type" } } },
	{ "%0: f32[1, 4, 4, 4] = input\n%1: f32[4, 3, 2, 2] = constant\n%2: f32[6] = constant\n"
	  "%9: f32[1, 6, 8, 8] = et_vk.conv_with_clamp.default(%0, %1, %2, [2, 2], [0, 0], [1, 1], true, [0, 0], 2, 0, "
	  "6)\nreturn %9\n",
		{ { "%2: f32[6]", "%2: f32[4]", "argument 2 is no vector of 6" } } },
	{ "%0: f32[1, 4, 9, 9] = input\n%9: f32[1, 4, 5, 5] = aten.avg_pool2d.default(%0, [3, 3], [2, 2], [1, 1], false, "
	  "true, 5)\nreturn %9\n",
		{ { "5)", "0)", "a division by zero" }, { "[3, 3]", "[1, 1]", "more than half the kernel" } } },
	{ "%0: f32[1, 4, 9, 9] = input\n%8: f32[1, 4, 5, 5], %9: i32[1, 4, 5, 5] = "
	  "aten.max_pool2d_with_indices.default(%0, [3, 3], [2, 2], [1, 1], [1, 1], false)\nreturn %8\n",
		{ { "[3, 3]", "[1, 1]", "more than half the kernel" },
			{ "%9: i32", "%9: f32", "result 1 is of a type" },
			{ "[1, 1], false", "[2, 2], false", "both padding and dilation" } } },
	{ "%0: f32[1, 1, 0, 3] = input\n%9: f32[1, 1, 0, 3] = aten.upsample_nearest2d.vec(%0, [0, 3], none)\nreturn %9\n",
		{ { "%9: f32[1, 1, 0, 3] = aten.upsample_nearest2d.vec(%0, [0",
			"%9: f32[1, 1, 2, 3] = aten.upsample_nearest2d.vec(%0, [2", "nothing to choose" } } },

	/* norms */
	{ "%0: f32[2, 3, 4] = input\n%1: f32[4] = constant\n%9: f32[2, 3, 4] = et_vk.rms_norm.default(%0, %1, "
	  "0.1)\nreturn %9\n",
		{ { "%1: f32[4]", "%1: f32[3]", "argument 1 is no vector of 4" } } },
	{ "%0: f32[2, 3, 4] = input\n%1: f32[3, 4] = constant\n%2: f32[3, 4] = constant\n"
	  "%7: f32[2, 3, 4], %8: f32[2, 1, 1], %9: f32[2, 1, 1] = aten.native_layer_norm.default(%0, [3, 4], %1, %2, "
	  "0.1)\nreturn %7\n",
		{ { "%1: f32[3, 4]", "%1: f32[4, 3]", "argument 2 has not the sizes" },
			{ "%2: f32[3, 4]", "%2: f32[4]", "argument 3 has not the sizes" },
			{ "[3, 4], %1", "[1, 4], %1", "other sizes than the input has" } } },
	{ "%0: f32[2, 6, 5] = input\n%1: f32[6] = constant\n%7: f32[2, 6, 5], %8: f32[2, 3], %9: f32[2, 3] = "
	  "aten.native_group_norm.default(%0, %1, none, 2, 6, 5, 3, 0.1)\nreturn %7\n",
		{ { "%1: f32[6]", "%1: f32[5]", "argument 1 is no vector of 6" },
			{ "2, 6, 5, 3,", "2, 5, 6, 3,", "argument 4 is not the input's" },
			{ "2, 6, 5, 3,", "2, 6, 4, 3,", "argument 5 is not the input's" },
			{ "%8: f32[2, 3], %9: f32[2, 3] = aten.native_group_norm.default(%0, %1, none, 2, 6, 5, 3,",
				"%8: f32[2, 4], %9: f32[2, 4] = aten.native_group_norm.default(%0, %1, none, 2, 6, 5, 4,",
				"4 groups of 6" } } },
	{ "%0: f32[2, 6, 5] = input\n%1: f32[6] = constant\n%7: f32[2, 6, 5], %8: f32[0], %9: f32[0] = "
	  "aten._native_batch_norm_legit_no_training.default(%0, none, none, %1, %1, 0.1, 0.1)\nreturn %7\n",
		{ { "%1: f32[6]", "%1: f32[2]", "argument 3 is no vector of 6" } } },

	/* linear layers */
	{ "%0: f32[2, 4] = input\n%1: f32[5, 4] = constant\n%2: f32[5] = constant\n%9: f32[2, 5] = "
	  "aten.linear.default(%0, %1, %2)\nreturn %9\n",
		{ { "%2: f32[5]", "%2: f32[4]", "argument 2 is no vector of 5" },
			{ "%1: f32[5, 4]", "%1: f32[5, 3]", "rows of 3 weights" },
			{ "%1: f32[5, 4]", "%1: f32[5, 8]", "rows of 8 weights" } } },
	{ "%0: f32[2, 4] = input\n%1: i8[5, 4] = constant\n%2: f32[5] = constant\n%9: f32[2, 5] = "
	  "aten._weight_int8pack_mm.default(%0, %1, %2)\nreturn %9\n",
		{ { "%2: f32[5]", "%2: f32[4]", "argument 2 has 4 elements" },
			{ "%1: i8[5, 4]", "%1: i8[5, 2]", "rows of 2 weights" },
			{ "i8", "u8", "argument 1 is of a type" } } },
	{ "%0: f32[2, 64] = input\n%1: u8[5, 32] = constant\n%2: f32[2, 5] = constant\n%3: f32[5] = constant\n"
	  "%9: f32[2, 5] = et_vk.linear_q4gsw.default(%0, %1, %2, 32, %3)\nreturn %9\n",
		{ { "u8[5, 32]", "u8[5, 31]", "rows of 62 weights" },
			{ "%2: f32[2, 5]", "%2: f32[1, 5]", "a row for each group" },
			{ "%2: f32[2, 5]", "%2: f32[2, 4]", "a row for each group" },
			{ "%2, 32", "%2, 0", "groups of no weights" }, { "%2, 32", "%2, 16", "a row for each group" },
			{ "%3: f32[5]", "%3: f32[3]", "argument 4 has 3 elements" } } },
	{ "%0: f32[2, 6] = input\n%1: u8[5, 3] = constant\n%2: f32[5] = constant\n%9: f32[2, 5] = "
	  "et_vk.linear_qcs4w.default(%0, %1, %2)\nreturn %9\n",
		{ { "u8[5, 3]", "u8[5, 2]", "rows of 4 weights" },
			{ "%2: f32[5]", "%2: f32[4]", "argument 2 has 4 elements" } } },
	{ "%0: f32[1, 2, 64] = input\n%1: f32[1, 2] = input\n%2: i8[1, 2] = input\n%3: u8[5, 32] = constant\n"
	  "%4: i32[2, 5] = constant\n%5: f32[2, 5] = constant\n%6: f32[5] = constant\n"
	  "%9: f32[1, 2, 5] = et_vk.linear_dq8ca_q4gsw.default(%0, %1, %2, %3, %4, %5, 32, %6)\nreturn %9\n",
		{ { "%1: f32[1, 2]", "%1: f32[1, 1]", "argument 1 has 1 elements, 2" },
			{ "%2: i8[1, 2]", "%2: i8[1]", "argument 2 has 1 elements" },
			{ "u8[5, 32]", "u8[5, 16]", "rows of 32 weights" },
			{ "i32[2, 5]", "i32[1, 5]", "argument 4 has not a row" },
			{ "%5: f32[2, 5]", "%5: f32[5, 2]", "argument 5 has not a row" },
			{ "%6: f32[5]", "%6: f32[2]", "argument 7 has 2" },
			{ "%2: i8", "%2: f32", "argument 2 is of a type" } } },

	/* static int8 */
	{ "%0: i8[2, 6] = input\n%1: i8[5, 8] = constant\n%2: i32[8] = constant\n%3: f32[8] = constant\n"
	  "%9: i8[2, 5] = et_vk.q8ta_linear.default(%0, 0.1, 3, %1, %2, %3, 0.2, 4, %3, \"relu\")\nreturn %9\n",
		{ { "%1: i8[5, 8]", "%1: i8[5, 4]", "rows of 4 weights" },
			{ "%2: i32[8]", "%2: i32[4]", "argument 4 has 4" },
			{ "%3: f32[8]", "%3: f32[4]", "argument 5 has 4" },
			{ "relu", "gelu", "neither 'relu' nor 'none'" },
			{ "%0: i8", "%0: u8", "argument 0 is of a type" } } },
	{ "%0: i8[1, 4, 8, 8] = input\n%1: i8[6, 20] = constant\n%2: i32[8] = constant\n%3: f32[8] = constant\n"
	  "%9: i8[1, 6, 8, 8] = et_vk.q8ta_conv2d.default(%0, 0.1, 3, %1, %2, %3, 0.2, 4, none, [3, 3], [1, 1], [1, 1], [1, "
	  "1], 2, \"none\")\nreturn %9\n",
		{ { "i8[6, 20]", "i8[6, 17]", "no 6 rows of 18" }, { "i8[6, 20]", "i8[5, 20]", "2 groups of 4 and 5" },
			{ "], 2, ", "], 1, ", "no 6 rows of 36" }, { "], 2, ", "], 0, ", "0 groups" },
			{ "], 2, ", "], 4, ", "4 groups of 4 and 6" },
			{ "%3: f32[8]", "%3: f32[4]", "argument 5 has 4" }, { "\"none\"", "\"tanh\"", "neither" } } },
	{ "%0: i8[1, 4, 8, 8] = input\n%1: i8[6, 4] = constant\n%2: i32[8] = constant\n%3: f32[8] = constant\n"
	  "%9: i8[1, 6, 8, 8] = et_vk.q8ta_conv2d_pw.default(%0, 0.1, 3, %1, %2, %3, 0.2, 4, %3, [1, 1], [1, 1], [0, 0], "
	  "[1, 1], 1, \"none\")\nreturn %9\n",
		{ { "[1, 1], [1, 1], [0, 0]", "[3, 3], [1, 1], [1, 1]", "more than one point" },
			{ "i8[6, 4]", "i8[6, 3]", "no 6 rows of 4" } } },
	{ "%0: i8[1, 6, 8, 8] = input\n%1: i8[3, 3, 8] = constant\n%2: i32[8] = constant\n%3: f32[8] = constant\n"
	  "%9: i8[1, 6, 8, 8] = et_vk.q8ta_conv2d_dw.default(%0, 0.1, 3, %1, %2, %3, 0.2, 4, %3, [3, 3], [1, 1], [1, 1], "
	  "[1, 1], 6, \"none\")\nreturn %9\n",
		{ { "i8[3, 3, 8]", "i8[3, 2, 8]", "weights [3, 2, 8] for 6" },
			{ "i8[3, 3, 8]", "i8[3, 3, 4]", "weights [3, 3, 4] for 6" },
			{ "i8[3, 3, 8]", "i8[9, 8]", "argument 3 has 2 dimensions" },
			{ "], 6, ", "], 3, ", "for 6 channels" } } },
	{ "%0: i8[1, 4, 4, 4] = input\n%1: i8[6, 16] = constant\n%2: i32[8] = constant\n%3: f32[8] = constant\n"
	  "%9: i8[1, 6, 8, 8] = et_vk.q8ta_conv2d_transposed.default(%0, 0.1, 3, %1, %2, %3, 0.2, 4, %3, [2, 2], [2, 2], "
	  "[0, 0], [0, 0], [1, 1], 1, \"none\")\nreturn %9\n",
		{ { "i8[6, 16]", "i8[6, 12]", "no 6 rows of 16" } } },
	{ "%0: i8[2] = input\n%9: i8[2] = et_vk.q8ta_add.default(%0, %0, 0.1, 1, 0.1, 1, 0.1, 1, 1)\nreturn %9\n",
		{ { "%0: i8", "%0: f32", "argument 0 is of a type" } } },

	/* between floats and integers */
	{ "%0: f32[2] = input\n%9: i8[2] = quantized_decomposed.quantize_per_tensor.default(%0, 0.1, 1, -128, 127, "
	  "none)\nreturn %9\n",
		{ { "-128", "-129", "a range from -129" }, { "127", "-129", "a range" },
			{ "%9: i8", "%9: u8", "a range" }, { "%9: i8", "%9: f32", "result 0 is of a type" } } },
	{ "%0: i8[2] = input\n%9: f32[2] = quantized_decomposed.dequantize_per_tensor.default(%0, 0.1, 1, -128, 127, none, "
	  "none)\nreturn %9\n",
		{ { "127", "128", "a range" }, { "%0: i8", "%0: f32", "argument 0 is of a type" } } },
	{ "%0: i8[2, 3] = input\n%1: f32[3] = constant\n%2: i32[3] = constant\n%9: f32[2, 3] = "
	  "quantized_decomposed.dequantize_per_channel.default(%0, %1, %2, 1, -128, 127, none, none)\nreturn %9\n",
		{ { "%2, 1", "%2, 0", "argument 1 is no vector of 2" }, { "%2, 1", "%2, 2", "dimension 2 of 2" },
			{ "%2: i32[3]", "%2: i32[2]", "argument 2 is no vector" } } },

	/* what passes make */
	{ "%0: f32[1, 4, 9, 8] = input\n%1: f32[8, 2, 3, 3] = constant\n%2: f32[8] = constant\n%9: f32[1, 8, 5, 6] = "
	  "graph.convolution(%0, %1, %2, [2, 2], [0, 2, 1, 4], [1, 1], 2)\nreturn %9\n",
		{ { "4]", "6]", "other sizes" }, { "4]", "-4]", "padding of -4" }, { ", 4]", "]", "padding of 3" },
			{ "%2: f32[8]", "%2: f32[1]", "no vector of 8" }, { "], 2)", "], 3)", "3 groups" } } },
	{ "%0: f32[6, 5, 8] = input\n%1: f32[6, 8, 7] = input\n%2: f32[6, 7, 4] = input\n%3: f32[2, 3, 1, 7] = input\n"
	  "%9: f32[6, 5, 4] = graph.attention(%0, %1, %2, %3, 0.5, false)\nreturn %9\n",
		{ { "false", "true", "do not fit each other" }, { "%1: f32[6", "%1: f32[1", "do not fit each other" },
			{ "%3: f32[2, 3", "%3: f32[2, 1", "the mask does not fit" },
			{ "3, 1, 7]", "3, 5, 6]", "the mask does not fit" } } },

	/* steps */
	{ "%0: f32[2, 3] = input\n%1: f32[3] = input\n%8: f32[2, 3] = aten.exp.default(%0) | aten.add.Tensor(%1, _, 1) | "
	  "aten.gelu.default(_, \"none\")\n%9: bool[2, 3] = aten.exp.default(%0) | aten.eq.Scalar(_: f32, 1)\nreturn %8, "
	  "%9\n",
		{ { "%1, _", "%1, %0", "does not read the running value" },
			{ "%1: f32[3]", "%1: f32[4]", "sizes 4 and 3 do not go" },
			{ "%1: f32[3]", "%1: f32[5, 2, 3]", "the step changes the sizes" },
			{ "_, \"none\"", "_, \"no\"", "neither" }, { "%1: f32", "%1: f16", "argument 1 is of a type" },
			{ "_: f32, 1", "_, 1", "result 0 is of a type" },
			{ "aten.gelu.default(_, \"none\")", "aten._softmax.default(_, 0, false)", "it is no step" } } },

	/* attention */
	{ "%0: f32[1, 5, 4, 8] = input\n%1: f32[1, 5, 2, 8] = input\n%2: f32[5, 4] = input\n%3: f32[5, 4] = input\n"
	  "%8: f32[1, 5, 4, 8], %9: f32[1, 5, 2, 8] = et_vk.apply_rotary_emb.default(%0, %1, %2, %3)\nreturn %8, %9\n",
		{ { "%2: f32[5, 4]", "%2: f32[4, 4]", "argument 2 is no table of 5 times 4" },
			{ "%3: f32[5, 4]", "%3: f32[5, 2]", "argument 3 is no table" },
			{ "%3: f32[5, 4]", "%3: f32[20]", "argument 3 is no table" },
			{ "[1, 5, 2, 8]", "[1, 4, 2, 8]", "do not fit each other" } } },
	{ "%0: f32[2, 3, 5, 8] = input\n%1: f32[2, 3, 7, 8] = input\n%2: f32[3, 1, 7] = input\n%9: f32[2, 3, 5, 8] = "
	  "et_vk.sdpa.default(%0, %1, %1, %2, none)\nreturn %9\n",
		{ { "%2: f32[3, 1, 7]", "%2: f32[3, 1, 6]", "the mask does not fit" },
			{ "%2: f32[3, 1, 7]", "%2: f32[2, 2, 3, 5, 7]", "the mask does not fit" },
			{ "%1: f32[2, 3", "%1: f32[2, 1", "do not fit each other" } } },
	{ "%0: f32[1, 4, 6, 8] = input\n%1: f32[1, 4, 2, 8] = input\n%2: f32[1, 16, 2, 8] = state\n%3: f32[1, 16, 2, 8] = "
	  "state\n%4: f32[4, 8] = input\n%9: f32[1, 4, 6, 8] = sdpa_with_kv_cache.default(%0, %1, %1, %2, %3, 3, 1, %4, "
	  "0.0, true, none)\nreturn %9\n",
		{ { "%1: f32[1, 4, 2", "%1: f32[1, 4, 4", "6 heads of 4" },
			{ "%2: f32[1, 16, 2, 8]", "%2: f32[1, 16, 1, 8]", "the caches do not fit" },
			{ "%3: f32[1, 16, 2, 8]", "%3: f32[1, 15, 2, 8]", "the caches do not fit" },
			{ "%2, %3, 3", "%2, %2, 3", "both caches are one" },
			{ "%3, 3,", "%3, -1,", "4 rows at position -1 of 16" },
			{ "%3, 3,", "%3, 13,", "4 rows at position 13 of 16" },
			{ "%4: f32[4, 8]", "%4: f32[3, 8]", "the mask does not fit" },
			{ "%4: f32[4, 8]", "%4: f32[4, 6]", "the mask does not fit" },
			{ "%4: f32[4, 8]", "%4: f32[4, 17]", "the mask does not fit" },
			{ "[1, 4, 6, 8] = input", "[6, 4, 6, 8] = input", "do not fit each other" } } },
};

static void change_text(const char *text, const struct change *change, char *to)
{
	const char *at = strstr(text, change->from);
	if (!at)
		fail_msg("'%s' is not in %s", change->from, text);
	snprintf(to, MAX_TEXT, "%.*s%s%s", (int)(at - text), text, change->to, at + strlen(change->from));
}

static void what_does_not_fit_is_refused(void **state)
{
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		struct graph_rig rig;
		if (graph_rig_parse(&rig, cases[i].text) != ET_OK)
			fail_msg("%s: %s", cases[i].text, rig.diag.text);
		graph_rig_deinit(&rig);
		for (size_t k = 0; k < MAX_CHANGES && cases[i].changes[k].from; k++) {
			const struct change *change = &cases[i].changes[k];
			char text[MAX_TEXT];
			change_text(cases[i].text, change, text);
			if (graph_rig_parse(&rig, text) != ET_E_DELEGATE_INVALID_COMPATIBILITY ||
				!strstr(rig.diag.text, change->why))
				fail_msg("%s: '%s' instead of '%s'", text, rig.diag.text, change->why);
			graph_rig_deinit(&rig);
		}
	}
}

/* A symbol is known in a run: then it is checked, and so are sizes that it gives. */
static void a_run_is_checked(void **state)
{
	static const char *const text =
		"%0: f32[1, 4, 2, 8] = input\n"
		"%1: i32[1] = input\n"
		"%2: symbol = et_vk.select_as_symint.default(%1, 0, 0)\n"
		"%3: f32[1, 16, 2, 8] = state\n"
		"%4: f32[1, 16, 2, 8] = state\n"
		"%5: f32[1, 4, 2, 8] = sdpa_with_kv_cache.default(%0, %0, %0, %3, %4, %2, 1, none, 0.0, true, none)\n"
		"%6: f32[12] = aten.full.default([%2], 0, none, none, none, none)\n"
		"return %5, %6\n";
	static const struct {
		int64_t symbol;
		const char *why[2]; /* of the two nodes that read it */
	} runs[] = { { 12, { NULL, NULL } }, { 0, { NULL, NULL } },
		{ 13, { "4 rows at position 13 of 16", "declared with other sizes" } },
		{ -1, { "4 rows at position -1 of 16", "a size of -1" } } };
	for (size_t i = 0; i < ET_ARRAY_LEN(runs); i++) {
		struct graph_rig rig;
		struct et_graph_size sizes[32];
		if (graph_rig_parse(&rig, text) != ET_OK)
			fail_msg("%s", rig.diag.text);
		assert_true(rig.graph.n_values <= ET_ARRAY_LEN(sizes));
		et_graph_largest_sizes(&rig.graph, sizes);
		assert_int_equal(et_graph_infer(&rig.graph, 0, sizes, &rig.diag), ET_E_NOT_SUPPORTED);
		struct et_graph_size *symbol = &sizes[rig.graph.nodes[0].results[0]];
		symbol->symbol = runs[i].symbol;
		symbol->is_known = true;
		for (uint32_t k = 0; k < 2; k++) {
			rig.diag.text[0] = '\0';
			enum et_status status = et_graph_infer(&rig.graph, 1 + k, sizes, &rig.diag);
			assert_int_equal(status, runs[i].why[k] ? ET_E_INVALID_ARGUMENT : ET_OK);
			if (runs[i].why[k] && !strstr(rig.diag.text, runs[i].why[k]))
				fail_msg("'%s' instead of '%s'", rig.diag.text, runs[i].why[k]);
		}
		graph_rig_deinit(&rig);
	}
}

/* A letter for each tensor, and only letters that are known. */
static void rows_have_types(void **state)
{
	for (uint32_t n = 0; et_graph_operator_at(n); n++) {
		const struct et_graph_operator *op = et_graph_operator_at(n);
		const char *args_end = strchr(op->signature, '>'), *types_end = strchr(op->types, '>');
		long n_tensors = 0;
		assert_non_null(types_end);
		for (const char *c = op->signature; c < args_end; c++)
			n_tensors += strchr("TtEO", *c) != NULL;
		assert_int_equal(types_end - op->types, n_tensors);
		assert_int_equal(strlen(types_end + 1), args_end[1] == 'I' ? 0 : strlen(args_end + 1));
		assert_int_equal(strspn(op->types, "xkfqamnsbcuzw>"), strlen(op->types));
		assert_non_null(op->fits);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_does_not_fit_is_refused),
		cmocka_unit_test(a_run_is_checked),
		cmocka_unit_test(rows_have_types),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
