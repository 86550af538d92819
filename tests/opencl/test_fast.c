/* SPDX-License-Identifier: BSD-3-Clause */
/* Fast kernels and fused nodes against the plain kernels, at their edges: sizes that are no multiple of a tile, more
 * than a block, paddings, groups. Numbers are small multiples of powers of two, so that most sums are exact in any
 * order. */
#include "tests/opencl/rig.h"

#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_TEXT = 400000 };

struct example {
	const char *name;
	uint32_t n_parts;    /* nodes that run when fused; 0: whatever */
	const char *graph;   /* {?} stands for numbers */
	const char *args[6]; /* inputs, then the types of the outputs */
};

#define Q "quantized_decomposed."

static const struct example examples[] = {
	{ "3 x 3, relu6", 1,
		"%0: f32[1, 3, 9, 21] = input\n%1: f32[37, 3, 3, 3] = constant {?}\n%2: f32[37] = constant {?}\n"
		"%3: f32[1, 37, 9, 21] = et_vk.conv_with_clamp.default(%0, %1, %2, [1, 1], [1, 1], [1, 1], false, [0, 0], "
		"1, 0.0, 6.0)\nreturn %3\n",
		{ "f32[1, 3, 9, 21]", "f32[1, 37, 9, 21]" } },
	{ "zeros around, stride 2, no bias", 1,
		"%0: f32[1, 5, 8, 40] = input\n%1: f32[1, 5, 9, 41] = aten.constant_pad_nd.default(%0, [0, 1, 0, 1], 0.0)\n"
		"%2: f32[8, 5, 3, 3] = constant {?}\n%3: f32[1, 8, 4, 20] = aten.convolution.default(%1, %2, none, [2, 2], "
		"[0, 0], [1, 1], false, [0, 0], 1)\nreturn %3\n",
		{ "f32[1, 5, 8, 40]", "f32[1, 8, 4, 20]" } },
	{ "stride 3, dilation 2", 1,
		"%0: f32[1, 2, 11, 61] = input\n%1: f32[3, 2, 2, 3] = constant {?}\n%2: f32[3] = constant {?}\n"
		"%3: f32[1, 3, 5, 20] = aten.convolution.default(%0, %1, %2, [3, 3], [2, 1], [2, 2], false, [0, 0], 1)\n"
		"return %3\n",
		{ "f32[1, 2, 11, 61]", "f32[1, 3, 5, 20]" } },
	{ "1 x 1, residual, more than a piece of weights", 1,
		"%0: f32[1, 130, 7, 7] = input\n%1: f32[1, 40, 7, 7] = input\n%2: f32[40, 130, 1, 1] = constant {?}\n"
		"%3: f32[40] = constant {?}\n%4: f32[1, 40, 7, 7] = aten.convolution.default(%0, %2, %3, [1, 1], [0, 0], "
		"[1, 1], false, [0, 0], 1)\n%5: f32[1, 40, 7, 7] = aten.add.Tensor(%4, %1, 2)\n"
		"%6: f32[1, 40, 7, 7] = aten.relu.default(%5)\nreturn %6\n",
		{ "f32[1, 130, 7, 7]", "f32[1, 40, 7, 7]", "f32[1, 40, 7, 7]" } },
	{ "1 x 1, factors of channels, hardswish", 1,
		"%0: f32[1, 4, 3, 3] = input\n%1: f32[1, 6, 1, 1] = input\n%2: f32[6, 4, 1, 1] = constant {?}\n"
		"%3: f32[1, 6, 3, 3] = aten.convolution.default(%0, %2, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)\n"
		"%4: f32[1, 6, 3, 3] = aten.mul.Tensor(%3, %1)\n%5: f32[1, 6, 3, 3] = aten.hardswish.default(%4)\nreturn %5\n",
		{ "f32[1, 4, 3, 3]", "f32[1, 6, 1, 1]", "f32[1, 6, 3, 3]" } },
	{ "groups", 1,
		"%0: f32[1, 6, 5, 18] = input\n%1: f32[70, 3, 3, 3] = constant {?}\n%2: f32[70] = constant {?}\n"
		"%3: f32[1, 70, 5, 18] = aten.convolution.default(%0, %1, %2, [1, 1], [1, 1], [1, 1], false, [0, 0], 2)\n"
		"return %3\n",
		{ "f32[1, 6, 5, 18]", "f32[1, 70, 5, 18]" } },
	{ "one dimension", 1,
		"%0: f32[2, 3, 33] = input\n%1: f32[5, 3, 3] = constant {?}\n%2: f32[5] = constant {?}\n"
		"%3: f32[2, 5, 33] = aten.convolution.default(%0, %1, %2, [1], [1], [1], false, [0], 1)\nreturn %3\n",
		{ "f32[2, 3, 33]", "f32[2, 5, 33]" } },
	{ "each channel alone", 1,
		"%0: f32[1, 5, 10, 7] = input\n%1: f32[5, 1, 5, 5] = constant {?}\n%2: f32[5] = constant {?}\n"
		"%3: f32[1, 5, 10, 7] = et_vk.conv_with_clamp.default(%0, %1, %2, [1, 1], [2, 2], [1, 1], false, [0, 0], 5, "
		"0.0, 6.0)\nreturn %3\n",
		{ "f32[1, 5, 10, 7]", "f32[1, 5, 10, 7]" } },
	{ "each channel alone, stride 2, zeros around", 1,
		"%0: f32[1, 3, 17, 43] = input\n%1: f32[1, 3, 18, 44] = aten.constant_pad_nd.default(%0, [0, 1, 0, 1], 0.0)\n"
		"%2: f32[3, 1, 3, 3] = constant {?}\n%3: f32[1, 3, 8, 21] = aten.convolution.default(%1, %2, none, [2, 2], "
		"[0, 0], [1, 1], false, [0, 0], 3)\nreturn %3\n",
		{ "f32[1, 3, 17, 43]", "f32[1, 3, 8, 21]" } },
	{ "each channel alone, three wide rows", 1,
		"%0: f32[1, 2, 3, 40] = input\n%1: f32[2, 1, 3, 3] = constant {?}\n%2: f32[1, 2, 3, 40] = "
		"aten.convolution.default(%0, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 2)\nreturn %2\n",
		{ "f32[1, 2, 3, 40]", "f32[1, 2, 3, 40]" } },
	{ "each channel alone, dilated, two images", 1,
		"%0: f32[2, 3, 11, 50] = input\n%1: f32[3, 1, 3, 3] = constant {?}\n%2: f32[2, 3, 11, 50] = "
		"aten.convolution.default(%0, %1, none, [1, 1], [2, 2], [2, 2], false, [0, 0], 3)\nreturn %2\n",
		{ "f32[2, 3, 11, 50]", "f32[2, 3, 11, 50]" } },
	{ "transposed, with limits", 1,
		"%0: f32[1, 2, 3, 3] = input\n%1: f32[2, 3, 2, 2] = constant {?}\n%2: f32[3] = constant {?}\n"
		"%3: f32[1, 3, 6, 6] = et_vk.conv_with_clamp.default(%0, %1, %2, [2, 2], [0, 0], [1, 1], true, [0, 0], 1, "
		"0.0, 1.0)\nreturn %3\n",
		{ "f32[1, 2, 3, 3]", "f32[1, 3, 6, 6]" } },
	{ "linear, one row", 1,
		"%0: f32[1, 37] = input\n%1: f32[35, 37] = constant {?}\n%2: f32[35] = constant {?}\n"
		"%3: f32[1, 35] = aten.linear.default(%0, %1, %2)\nreturn %3\n",
		{ "f32[1, 37]", "f32[1, 35]" } },
	{ "linear, gelu, residual", 1,
		"%0: f32[3, 5, 20] = input\n%1: f32[3, 5, 17] = input\n%2: f32[17, 20] = constant {?}\n"
		"%3: f32[3, 5, 17] = aten.linear.default(%0, %2, none)\n%4: f32[3, 5, 17] = aten.gelu.default(%3, \"none\")\n"
		"%5: f32[3, 5, 17] = aten.sub.Tensor(%4, %1, 1)\nreturn %5\n",
		{ "f32[3, 5, 20]", "f32[3, 5, 17]", "f32[3, 5, 17]" } },
	{ "fewer rows than declared", 1,
		"%0: f32[9, 20] = input\n%1: f32[16, 20] = constant {?}\n"
		"%2: f32[9, 16] = aten.linear.default(%0, %1, none)\n%3: f32[9, 16] = aten.mul.Tensor(%2, %2)\nreturn %3\n",
		{ "f32[3, 20]", "f32[9, 16]" } },
	{ "weights that are an input", 1,
		"%0: f32[2, 3] = input\n%1: f32[4, 3] = input\n%2: f32[2, 4] = aten.linear.default(%0, %1, none)\nreturn %2\n",
		{ "f32[2, 3]", "f32[4, 3]", "f32[2, 4]" } },
	{ "mm, fewer columns than lanes", 1,
		"%0: f32[9, 6] = input\n%1: f32[6, 5] = input\n%2: f32[9, 5] = aten.mm.default(%0, %1)\nreturn %2\n",
		{ "f32[9, 6]", "f32[6, 5]", "f32[9, 5]" } },
	{ "bmm, a rest of columns, scaled", 1,
		"%0: f32[2, 10, 7] = input\n%1: f32[2, 7, 37] = input\n%2: f32[1] = constant {0.5}\n"
		"%3: f32[2, 10, 37] = aten.bmm.default(%0, %1)\n%4: f32[2, 10, 37] = aten.mul.Tensor(%3, %2)\nreturn %4\n",
		{ "f32[2, 10, 7]", "f32[2, 7, 37]", "f32[2, 10, 37]" } },
	{ "four bits", 1,
		"%0: f32[3, 96] = input\n%1: u8[6, 48] = constant {?}\n%2: f32[3, 6] = constant {?}\n%3: f32[6] = constant {?}\n"
		"%4: f32[3, 6] = et_vk.linear_q4gsw.default(%0, %1, %2, 32, %3)\n%5: f32[3, 6] = aten.relu.default(%4)\n"
		"return %5\n",
		{ "f32[3, 96]", "f32[3, 6]" } },
	{ "four bits, quantized input", 0,
		"%0: f32[2, 64] = input\n%1: f32[2, 1] = input\n%2: i8[2, 1] = input\n%3: u8[5, 32] = constant {?}\n"
		"%4: i32[2, 5] = constant {?}\n%5: f32[2, 5] = constant {?}\n"
		"%6: f32[2, 5] = et_vk.linear_dq8ca_q4gsw.default(%0, %1, %2, %3, %4, %5, 32, none)\nreturn %6\n",
		{ "f32[2, 64]", "f32[2, 1]{0.25, 0.5}", "i8[2, 1]{3, -4}", "f32[2, 5]" } },
	{ "four bits, the even one high", 1,
		"%0: f32[2, 32] = input\n%1: u8[7, 16] = constant {?}\n%2: f32[7] = constant {?}\n"
		"%3: f32[2, 7] = et_vk.linear_qcs4w.default(%0, %1, %2)\nreturn %3\n",
		{ "f32[2, 32]", "f32[2, 7]" } },
	{ "eight bits", 1,
		"%0: f32[2, 64] = input\n%1: i8[5, 64] = constant {?}\n%2: f32[5] = constant {?}\n"
		"%3: f32[2, 5] = aten._weight_int8pack_mm.default(%0, %1, %2)\nreturn %3\n",
		{ "f32[2, 64]", "f32[2, 5]" } },
	{ "groups that are no multiple", 1,
		"%0: f32[1, 16] = input\n%1: u8[2, 8] = constant {?}\n%2: f32[2, 2] = constant {?}\n"
		"%3: f32[1, 2] = et_vk.linear_q4gsw.default(%0, %1, %2, 8, none)\nreturn %3\n",
		{ "f32[1, 16]", "f32[1, 2]" } },
	{ "int8 linear, more columns than a work-item has", 1,
		"%0: i8[3, 300] = input\n%1: i8[84, 300] = constant {?}\n%2: i32[84] = constant {?}\n%3: f32[84] = constant {?}\n"
		"%4: f32[84] = constant {?}\n%5: i8[3, 84] = et_vk.q8ta_linear.default(%0, 0.5, 3, %1, %2, %3, 64.0, -2, %4, "
		"\"relu\")\nreturn %5\n",
		{ "i8[3, 300]", "i8[3, 84]" } },
	{ "int8 convolution, relu6", 1,
		"%0: i8[1, 5, 6, 19] = input\n%1: i8[12, 48] = constant {?}\n%2: i32[12] = constant {?}\n"
		"%3: f32[12] = constant {?}\n%4: f32[12] = constant {?}\n"
		"%5: i8[1, 12, 6, 19] = et_vk.q8ta_conv2d.default(%0, 0.5, -3, %1, %2, %3, 16.0, 1, %4, [3, 3], [1, 1], [1, 1], "
		"[1, 1], 1, \"none\")\n"
		"%6: f32[1, 12, 6, 19] = " Q "dequantize_per_tensor.default(%5, 16.0, 1, -128, 127, none, none)\n"
		"%7: f32[1, 12, 6, 19] = aten.hardtanh.default(%6, 0.0, 160.0)\n"
		"%8: i8[1, 12, 6, 19] = " Q "quantize_per_tensor.default(%7, 16.0, 1, -128, 127, none)\nreturn %8\n",
		{ "i8[1, 5, 6, 19]", "i8[1, 12, 6, 19]" } },
	{ "int8 convolution, 1 x 1", 1,
		"%0: i8[1, 8, 3, 3] = input\n%1: i8[4, 8] = constant {?}\n%2: i32[4] = constant {?}\n"
		"%3: f32[4] = constant {?}\n%4: f32[4] = constant {?}\n"
		"%5: i8[1, 4, 3, 3] = et_vk.q8ta_conv2d_pw.default(%0, 0.5, 7, %1, %2, %3, 4.0, 0, %4, [1, 1], [1, 1], [0, 0], "
		"[1, 1], 1, \"relu\")\nreturn %5\n",
		{ "i8[1, 8, 3, 3]", "i8[1, 4, 3, 3]" } },
	{ "int8 convolution, each channel alone", 1,
		"%0: i8[1, 4, 9, 20] = input\n%1: i8[3, 3, 4] = constant {?}\n%2: i32[4] = constant {?}\n"
		"%3: f32[4] = constant {?}\n%4: f32[4] = constant {?}\n"
		"%5: i8[1, 4, 5, 10] = et_vk.q8ta_conv2d_dw.default(%0, 0.5, 7, %1, %2, %3, 4.0, 0, %4, [3, 3], [2, 2], [1, 1], "
		"[1, 1], 4, \"none\")\nreturn %5\n",
		{ "i8[1, 4, 9, 20]", "i8[1, 4, 5, 10]" } },
	{ "a chain that broadcasts", 1,
		"%0: f32[2, 3, 17] = input\n%1: f32[3, 1] = input\n%2: f32[17] = input\n%3: f32[2, 3, 17] = "
		"aten.mul.Tensor(%0, %1)\n%4: f32[2, 3, 17] = aten.sigmoid.default(%3)\n"
		"%5: f32[2, 3, 17] = aten.add.Tensor(%4, %2, 1)\n%6: f32[2, 3, 17] = aten.tanh.default(%5)\nreturn %6\n",
		{ "f32[2, 3, 17]", "f32[3, 1]", "f32[17]", "f32[2, 3, 17]" } },
	{ "a chain of bools", 1,
		"%0: f32[33] = input\n%1: f32[33] = input\n%2: bool[33] = aten.ge.Scalar(%0, 0.25)\n"
		"%3: f32[33] = aten.where.self(%2, %0, %1)\nreturn %3\n",
		{ "f32[33]", "f32[33]", "f32[33]" } },
	{ "one element", 1, "%0: f32[] = input\n%1: f32[] = aten.exp.default(%0)\nreturn %1\n",
		{ "f32[]{0.5}", "f32[]" } },
	{ "integers of 32 bits", 2,
		"%0: i32[5] = input\n%1: i32[5] = aten.mul.Tensor(%0, %0)\n%2: i32[5] = aten.add.Tensor(%1, %0, 1)\nreturn %2\n",
		{ "i32[5]{16777217, 3, -5, 46341, 0}", "i32[5]" } },
	{ "casts", 1,
		"%0: f32[18] = input\n%1: i8[18] = dim_order_ops._to_dim_order_copy.default(%0, none, none, none, none, none, "
		"none)\n%2: bool[18] = aten.logical_not.default(%1)\nreturn %2\n",
		{ "f32[18]", "bool[18]" } },
	{ "quantized by a chain", 1,
		"%0: f32[50] = input\n%1: f32[50] = aten.leaky_relu.default(%0, 0.5)\n"
		"%2: i8[50] = " Q "quantize_per_tensor.default(%1, 0.25, 4, -128, 127, none)\nreturn %2\n",
		{ "f32[50]", "i8[50]" } },
	{ "attention", 1,
		"%0: f32[2, 5, 8] = input\n%1: f32[2, 19, 8] = input\n%2: f32[2, 19, 6] = input\n%3: f32[1, 5, 19] = input\n"
		"%4: f32[1] = constant {0.25}\n%5: f32[2, 8, 19] = aten.permute_copy.default(%1, [0, 2, 1])\n"
		"%6: f32[2, 5, 19] = aten.bmm.default(%0, %5)\n%7: f32[2, 5, 19] = aten.mul.Tensor(%6, %4)\n"
		"%8: f32[2, 5, 19] = aten.add.Tensor(%7, %3, 1)\n%9: f32[2, 5, 19] = aten._softmax.default(%8, -1, false)\n"
		"%10: f32[2, 5, 6] = aten.bmm.default(%9, %2)\nreturn %10\n",
		{ "f32[2, 5, 8]", "f32[2, 19, 8]", "f32[2, 19, 6]", "f32[1, 5, 19]", "f32[2, 5, 6]" } },
	{ "attention over rows, in lanes", 1,
		"%0: f32[2, 3, 32] = input\n%1: f32[2, 35, 32] = input\n%2: f32[2, 35, 16] = input\n%3: f32[3, 35] = input\n"
		"%4: f32[1] = constant {0.0625}\n%5: f32[2, 32, 35] = aten.permute_copy.default(%1, [0, 2, 1])\n"
		"%6: f32[2, 3, 35] = aten.bmm.default(%0, %5)\n%7: f32[2, 3, 35] = aten.mul.Tensor(%6, %4)\n"
		"%8: f32[2, 3, 35] = aten.add.Tensor(%7, %3, 1)\n%9: f32[2, 3, 35] = aten._softmax.default(%8, -1, false)\n"
		"%10: f32[2, 3, 16] = aten.bmm.default(%9, %2)\nreturn %10\n",
		{ "f32[2, 3, 32]", "f32[2, 35, 32]", "f32[2, 35, 16]", "f32[3, 35]", "f32[2, 3, 16]" } },
	{ "attention over columns, in lanes", 1,
		"%0: f32[1, 3, 16] = input\n%1: f32[1, 16, 18] = input\n%2: f32[1, 18, 16] = input\n"
		"%3: f32[1, 3, 18] = aten.bmm.default(%0, %1)\n%4: f32[1, 3, 18] = aten._softmax.default(%3, 2, false)\n"
		"%5: f32[1, 3, 16] = aten.bmm.default(%4, %2)\nreturn %5\n",
		{ "f32[1, 3, 16]", "f32[1, 16, 18]", "f32[1, 18, 16]", "f32[1, 3, 16]" } },
	{ "attention, a mask of bools, in lanes", 1,
		"%0: f32[1, 2, 3, 16] = input\n%1: f32[1, 2, 18, 16] = input\n%2: f32[1, 2, 18, 32] = input\n"
		"%3: bool[3, 18] = input\n%4: f32[1, 2, 3, 32] = et_vk.sdpa.default(%0, %1, %2, %3, 0.125)\nreturn %4\n",
		{ "f32[1, 2, 3, 16]", "f32[1, 2, 18, 16]", "f32[1, 2, 18, 32]", "bool[3, 18]", "f32[1, 2, 3, 32]" } },
	{ "attention over columns", 1,
		"%0: f32[1, 3, 20] = input\n%1: f32[1, 20, 18] = input\n%2: f32[1, 18, 20] = input\n"
		"%3: f32[1, 3, 18] = aten.bmm.default(%0, %1)\n%4: f32[1, 3, 18] = aten._softmax.default(%3, 2, false)\n"
		"%5: f32[1, 3, 20] = aten.bmm.default(%4, %2)\nreturn %5\n",
		{ "f32[1, 3, 20]", "f32[1, 20, 18]", "f32[1, 18, 20]", "f32[1, 3, 20]" } },
};

/* How many elements the type that ends at @end has, and its first letter: "i8[3, 4]". */
static uint32_t count(const char *text, const char *end, char *ret_type)
{
	const char *at = end;
	uint32_t n = 1;
	while (at > text && *at != '[')
		at--;
	for (const char *c = at + 1; *c != ']'; c += strspn(c, ", ")) {
		char *next;
		n *= (uint32_t)strtoul(c, &next, 10);
		c = next;
	}
	while (at > text && (isalnum((unsigned char)at[-1])))
		at--;
	*ret_type = at[0];
	return n;
}

/* Numbers in braces at @to, which has room for MAX_TEXT / 2 characters. */
static uint32_t put_numbers(char *to, uint32_t n, char type, uint32_t seed)
{
	uint32_t n_chars = 0;
	for (uint32_t i = 0; i < n; i++) {
		int k = (int)((i * 2654435761u + seed * 40503u) >> 16 & 0xff);
		double number = type == 'f' ? (k % 17 - 8) * 0.25 : type == 'b' ? k & 1 : type == 'i' ? k % 31 - 15 : k;
		n_chars += (uint32_t)snprintf(to + n_chars, 16, "%s%g", i ? ", " : "{", number);
		assert_true(n_chars < MAX_TEXT / 2 - 16);
	}
	return n_chars + (uint32_t)snprintf(to + n_chars, 16, "%s}", n ? "" : "{");
}

/* Replace each {?} by numbers. The caller frees it. */
static char *expand(const char *text)
{
	char *out = malloc(MAX_TEXT);
	uint32_t n = 0, seed = 0;
	assert_non_null(out);
	while (*text) {
		const char *mark = strstr(text, "{?}"), *end = mark;
		size_t n_before = mark ? (size_t)(mark - text) : strlen(text);
		assert_true(n + n_before < MAX_TEXT / 2);
		memcpy(out + n, text, n_before);
		n += (uint32_t)n_before;
		if (!mark)
			break;
		while (*end != ']')
			end--;
		char type;
		uint32_t n_numbers = count(text, end, &type);
		n += put_numbers(out + n, n_numbers, type, ++seed);
		text = mark + 3;
	}
	out[n] = 0;
	return out;
}

static void add_input(struct rig_run *run, const char *text, uint32_t seed)
{
	char type;
	if (strchr(text, '{')) {
		rig_arg(run, text);
		return;
	}
	char *with = malloc(MAX_TEXT);
	assert_non_null(with);
	int n = snprintf(with, 64, "%s", text);
	uint32_t n_numbers = count(text, text + strlen(text) - 1, &type);
	put_numbers(with + n, n_numbers, type, 77 + seed);
	rig_arg(run, with);
	free(with);
}

static void run_example(struct rig *rig, const struct example *example, struct rig_run *run, uint32_t *ret_n_inputs)
{
	struct inferd_delegate_model *model;
	struct inferd_delegate_model_info info;
	struct inferd_delegate_instance *instance;
	char *graph = expand(example->graph);
	if (rig_init(rig, graph, &model, &info))
		fail_msg("%s: %s", example->name, rig->message.text);
	free(graph);
	assert_int_equal(rig->table->instance_new(model, &instance, &rig->message), 0);
	run->n = 0;
	run->is_profiled = true;
	for (uint32_t i = 0; i < info.n_inputs; i++)
		add_input(run, example->args[i], i);
	for (uint32_t i = 0; i < info.n_outputs; i++)
		rig_arg(run, example->args[info.n_inputs + i]);
	if (rig_execute(rig, model, instance, run))
		fail_msg("%s: %s", example->name, rig->message.text);
	rig->table->instance_free(instance);
	rig->table->destroy(model);
	*ret_n_inputs = info.n_inputs;
}

static void compare(const struct example *example, const struct rig_run *fast, const struct rig_run *plain,
	uint32_t arg)
{
	uint32_t n = 1;
	for (uint32_t i = 0; i < plain->args[arg].n_dims; i++) {
		assert_int_equal(fast->args[arg].sizes[i], plain->args[arg].sizes[i]);
		n *= (uint32_t)plain->args[arg].sizes[i];
	}
	for (uint32_t i = 0; i < n; i++) {
		double got = rig_element(fast, arg, i), wanted = rig_element(plain, arg, i);
		if (!(fabs(got - wanted) <= 1e-5 * (1 + fabs(wanted))))
			fail_msg("%s: element %u is %g, the plain kernel says %g", example->name, i, got, wanted);
	}
	for (uint64_t i = fast->args[arg].n_bytes; i < RIG_MAX_BYTES; i++)
		if (fast->bytes[arg][i] != 0x5a)
			fail_msg("%s: byte %llu behind the output was written", example->name, (unsigned long long)i);
}

static void fast_kernels_agree_with_plain_ones(void **state)
{
	static struct rig_run fast_run, plain_run;
	struct rig fast, plain;
	rig_load(&fast);
	if (!rig_open_driver(&fast))
		skip();
	rig_load(&plain);
	rig_set(&plain, "fuse", "no");
	assert_true(rig_open_driver(&plain));
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		uint32_t n_inputs;
		run_example(&fast, &examples[i], &fast_run, &n_inputs);
		run_example(&plain, &examples[i], &plain_run, &n_inputs);
		if (examples[i].n_parts && fast_run.n_parts != examples[i].n_parts)
			fail_msg("%s: %u nodes, not %u", examples[i].name, fast_run.n_parts, examples[i].n_parts);
		for (uint32_t k = n_inputs; k < fast_run.n; k++)
			compare(&examples[i], &fast_run, &plain_run, k);
	}
	rig_close(&fast);
	rig_close(&plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(fast_kernels_agree_with_plain_ones) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
