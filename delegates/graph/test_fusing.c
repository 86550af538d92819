/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes that fold and fuse: a text before, the text after. */
#include "delegates/graph/passes.h"
#include "runtime/base/checked.h"
#include "tests/support/graph_rig_expect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

typedef enum et_status pass(struct et_graph *graph, struct et_diag *diag);

static void expect(const char *before, pass *run, const char *after)
{
	struct graph_rig rig;
	if (graph_rig_parse(&rig, before) != ET_OK)
		fail_msg("%s", rig.diag.text);
	assert_int_equal(run(&rig.graph, &rig.diag), ET_OK);
	graph_rig_expect(&rig, after);
}

static void constants_are_computed(void **state)
{
	expect("%0: f32[8, 4] = input\n"
	       "%1: f32[2, 6] = constant 3\n"
	       "%2: f32[3, 4] = aten.view_copy.default(%1, [3, -1])\n"
	       "%3: symbol = sym_size.int(%1, 1)\n"
	       "%4: symbol = mul(%3, 2)\n"
	       "%5: symbol = sym_size.int(%0, 0)\n"
	       "%6: f32[12] = aten.view_copy.default(%2, [%4])\n"
	       "%7: f32[2] = aten.full.default([2], 0.5, none, none, none, none)\n"
	       "%8: f32[] = constant {2.0}\n"
	       "%9: f32[1] = constant {8.0}\n"
	       "%10: f32[1] = aten.div.Tensor(%9, %8)\n"
	       "%11: f32[8, 4] = aten.mul.Tensor(%0, %10)\n"
	       "%12: f32[12] = aten.relu.default(%6)\n"
	       "%13: f32[2] = aten.relu.default(%7)\n"
	       "%14: f32[8, 2] = aten.slice_copy.Tensor(%11, 1, 0, %5, 2)\n"
	       "return %11, %12, %13, %14\n",
		et_graph_precompute,
		"%0: f32[8, 4] = input\n"
		"%1: symbol = sym_size.int(%0, 0)\n"
		"%2: f32[1] = constant {4.0}\n"
		"%3: f32[8, 4] = aten.mul.Tensor(%0, %2)\n"
		"%4: f32[12] = constant 3\n"
		"%5: f32[12] = aten.relu.default(%4)\n"
		"%6: f32[2] = constant {0.5, 0.5}\n"
		"%7: f32[2] = aten.relu.default(%6)\n"
		"%8: f32[8, 2] = aten.slice_copy.Tensor(%3, 1, 0, %1, 2)\n"
		"return %3, %5, %7, %8\n");
}

/* An output is the caller's memory, and a large constant would take memory of each model. */
static void some_constants_stay(void **state)
{
	static const char *const text = "%0: f32[2, 6] = constant 3\n"
					"%1: f32[12] = aten.view_copy.default(%0, [12])\n"
					"%2: f32[1025] = aten.full.default([1025], 0.5, none, none, none, none)\n"
					"%3: f32[1025] = aten.relu.default(%2)\n"
					"return %1, %3\n";
	expect(text, et_graph_precompute, text);
}

#define DEQUANTIZE "quantized_decomposed.dequantize_per_tensor.default"
#define QUANTIZE   "quantized_decomposed.quantize_per_tensor.default"

static void activations_of_integers_are_clamps(void **state)
{
	/* 6 / 0.05 = 120 */
	expect("%0: i8[4] = input\n"
	       "%1: f32[4] = " DEQUANTIZE "(%0, 0.05, -10, -128, 127, none, none)\n"
	       "%2: f32[4] = aten.hardtanh.default(%1, 0, 6.0)\n"
	       "%3: i8[4] = " QUANTIZE "(%2, 0.05, -10, -128, 127, none)\n"
	       "%4: f32[4] = aten.relu.default(%1)\n"
	       "%5: i8[4] = " QUANTIZE "(%4, 0.05, -10, -128, 127, none)\n"
	       "%6: i8[4] = " QUANTIZE "(%1, 0.05, -10, -128, 127, none)\n"
	       "return %3, %5, %6\n",
		et_graph_simplify_quantized,
		"%0: i8[4] = input\n"
		"%1: i8[4] = aten.clamp.default(%0, -10, 110)\n"
		"%2: i8[4] = aten.clamp.default(%0, -10, 127)\n"
		"%3: i8[4] = aten.clone.default(%0, none)\n"
		"return %1, %2, %3\n");
}

static void other_scales_stay(void **state)
{
	static const char *const texts[] = {
		"%0: i8[4] = input\n%1: f32[4] = " DEQUANTIZE "(%0, 0.05, -10, -128, 127, none, none)\n"
		"%2: f32[4] = aten.relu.default(%1)\n%3: i8[4] = " QUANTIZE
		"(%2, 0.06, -10, -128, 127, none)\nreturn %3\n",
		"%0: i8[4] = input\n%1: f32[4] = " DEQUANTIZE "(%0, 0.05, -10, -128, 127, none, none)\n"
		"%2: f32[4] = aten.relu.default(%1)\n%3: i8[4] = " QUANTIZE
		"(%2, 0.05, -9, -128, 127, none)\nreturn %3\n",
		"%0: i8[4] = input\n%1: f32[4] = " DEQUANTIZE "(%0, 0.05, -10, -128, 127, none, none)\n"
		"%2: f32[4] = aten.exp.default(%1)\n%3: i8[4] = " QUANTIZE
		"(%2, 0.05, -10, -128, 127, none)\nreturn %3\n",
		/* the activation has another reader */
		"%0: i8[4] = input\n%1: f32[4] = " DEQUANTIZE "(%0, 0.05, -10, -128, 127, none, none)\n"
		"%2: f32[4] = aten.relu.default(%1)\n%3: i8[4] = " QUANTIZE
		"(%2, 0.05, -10, -128, 127, none)\nreturn %3, %2\n",
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(texts); i++)
		expect(texts[i], et_graph_simplify_quantized, texts[i]);
}

static void a_convolution_takes_its_neighbours(void **state)
{
	expect("%0: f16[1, 4, 9, 8] = input\n"
	       "%1: f16[1, 4, 9, 8] = aten.relu.default(%0)\n"
	       "%2: f16[1, 4, 11, 13] = aten.constant_pad_nd.default(%1, [1, 4, 0, 2], 0.0)\n"
	       "%3: f16[8, 2, 3, 3] = constant 0\n"
	       "%4: f16[8] = constant 1\n"
	       "%5: f16[1, 8, 6, 7] = et_vk.conv_with_clamp.default(%2, %3, %4, [2, 2], [1, 1], [1, 1], false, [0, 0], 2, "
	       "0.0, 6.0)\n"
	       "%6: f16[8, 8, 1, 1] = constant 2\n"
	       "%7: f16[1, 8, 6, 7] = aten.convolution.default(%5, %6, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)\n"
	       "%8: f16[8, 1, 1] = constant 3\n"
	       "%9: f16[1, 8, 6, 7] = aten.add.Tensor(%7, %8, 1)\n"
	       "%10: f16[1, 8, 6, 7] = aten.add.Tensor(%5, %9, 1)\n"
	       "return %10\n",
		et_graph_fuse_epilogues,
		"%0: f16[1, 4, 9, 8] = input\n"
		"%1: f16[1, 4, 9, 8] = aten.relu.default(%0)\n"
		"%2: f16[8, 2, 3, 3] = constant 0\n"
		"%3: f16[8] = constant 1\n"
		"%4: f16[1, 8, 6, 7] = graph.convolution(%1, %2, %3, [2, 2], [1, 3, 2, 5], [1, 1], 2) | "
		"aten.clamp.default(_, 0.0, 6.0)\n"
		"%5: f16[8, 8, 1, 1] = constant 2\n"
		"%6: f16[8, 1, 1] = constant 3\n"
		"%7: f16[1, 8, 6, 7] = aten.convolution.default(%4, %5, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) | "
		"aten.add.Tensor(_, %6, 1) | aten.add.Tensor(%4, _, 1)\n"
		"return %7\n");
}

static void a_linear_layer_takes_its_neighbours(void **state)
{
	expect("%0: i8[2, 4] = input\n"
	       "%1: i8[3, 4] = constant 0\n"
	       "%2: i32[3] = constant 1\n"
	       "%3: f32[3] = constant 2\n"
	       "%4: i8[2, 3] = et_vk.q8ta_linear.default(%0, 0.5, 3, %1, %2, %3, 0.25, 4, none, \"none\")\n"
	       "%5: f32[2, 3] = " DEQUANTIZE "(%4, 0.25, 4, -128, 127, none, none)\n"
	       "%6: f32[2, 3] = aten.hardswish.default(%5)\n"
	       "%7: i8[2, 3] = " QUANTIZE "(%6, 0.125, 0, -128, 127, none)\n"
	       "return %7\n",
		et_graph_fuse_epilogues,
		"%0: i8[2, 4] = input\n"
		"%1: i8[3, 4] = constant 0\n"
		"%2: i32[3] = constant 1\n"
		"%3: f32[3] = constant 2\n"
		"%4: i8[2, 3] = et_vk.q8ta_linear.default(%0, 0.5, 3, %1, %2, %3, 0.25, 4, none, \"none\") | " DEQUANTIZE
		"(_, 0.25, 4, -128, 127, none, none) | aten.hardswish.default(_: f32) | " QUANTIZE
		"(_: f32, 0.125, 0, -128, 127, none)\n"
		"return %4\n");
}

static void what_others_read_is_not_fused(void **state)
{
	static const char *const texts[] = {
		/* an output; a second reader; another size */
		"%0: f32[2, 3] = input\n%1: f32[2, 2] = input\n%2: f32[2, 3] = aten.mm.default(%1, %0)\n"
		"%3: f32[2, 3] = aten.relu.default(%2)\nreturn %3, %2\n",
		"%0: f32[2, 3] = input\n%1: f32[2, 2] = input\n%2: f32[2, 3] = aten.mm.default(%1, %0)\n"
		"%3: f32[2, 3] = aten.relu.default(%2)\n%4: f32[2, 3] = aten.exp.default(%2)\nreturn %3, %4\n",
		"%0: f32[2, 3] = input\n%1: f32[1, 2] = input\n%2: f32[1, 3] = aten.mm.default(%1, %0)\n"
		"%3: f32[2, 3] = aten.add.Tensor(%2, %0, 1)\nreturn %3\n",
		/* a padding that is no zero, around channels, or taken away; a transposed convolution */
		"%0: f32[1, 1, 4] = input\n%1: f32[1, 1, 6] = aten.constant_pad_nd.default(%0, [1, 1], 1)\n%2: f32[1, 1, 1] = "
		"constant 0\n%3: f32[1, 1, 6] = aten.convolution.default(%1, %2, none, [1], [0], [1], false, [0], 1)\nreturn "
		"%3\n",
		"%0: f32[1, 1, 4] = input\n%1: f32[1, 2, 4] = aten.constant_pad_nd.default(%0, [0, 0, 0, 1], 0)\n%2: f32[1, 2, "
		"1] = constant 0\n%3: f32[1, 1, 4] = aten.convolution.default(%1, %2, none, [1], [0], [1], false, [0], "
		"1)\nreturn %3\n",
		"%0: f32[1, 1, 4] = input\n%1: f32[1, 1, 4] = aten.constant_pad_nd.default(%0, [1, -1], 0)\n%2: f32[1, 1, 1] = "
		"constant 0\n%3: f32[1, 1, 4] = aten.convolution.default(%1, %2, none, [1], [0], [1], false, [0], 1)\nreturn "
		"%3\n",
		"%0: f32[1, 1, 4] = input\n%1: f32[1, 1, 6] = aten.constant_pad_nd.default(%0, [1, 1], 0)\n%2: f32[1, 1, 1] = "
		"constant 0\n%3: f32[1, 1, 6] = aten.convolution.default(%1, %2, none, [1], [0], [1], true, [0], 1)\nreturn "
		"%3\n",
		/* the state may have changed by the time of the last step */
		"%0: f32[1, 1, 2, 8] = input\n%1: f32[1, 4, 2, 8] = state\n%2: f32[5, 8] = constant 0\n%3: f32[1, 4, 2, 5] = "
		"aten.linear.default(%1, %2, none)\n%4: f32[1, 4, 2, 8] = state\n%5: f32[1, 1, 2, 8] = "
		"sdpa_with_kv_cache.default(%0, %0, %0, %1, %4, 0, 1, none, 0.0, true, none)\n%6: f32[1, 4, 2, 5] = "
		"aten.relu.default(%3)\nreturn %5, %6\n",
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(texts); i++)
		expect(texts[i], et_graph_fuse_epilogues, texts[i]);
}

static void chains_are_nodes(void **state)
{
	expect("%0: f32[4, 2] = input\n"
	       "%1: f32[2] = input\n"
	       "%2: f32[4, 2] = aten.exp.default(%0)\n"
	       "%3: f32[4, 2] = aten.mul.Tensor(%2, %2)\n"
	       "%4: bool[4, 2] = aten.le.Scalar(%3, 1)\n"
	       "%5: f32[4, 2] = aten.sub.Tensor(%0, %1, 1)\n"
	       "%6: f32[4, 2] = aten.where.self(%4, %5, %1)\n"
	       "%7: f32[2, 4] = aten.permute_copy.default(%6, [1, 0])\n"
	       "%8: f32[2, 4] = aten.abs.default(%7)\n"
	       "return %8\n",
		et_graph_fuse_chains,
		"%0: f32[4, 2] = input\n"
		"%1: f32[2] = input\n"
		"%2: bool[4, 2] = aten.exp.default(%0) | aten.mul.Tensor(_: f32, _: f32) | aten.le.Scalar(_: f32, 1)\n"
		"%3: f32[4, 2] = aten.sub.Tensor(%0, %1, 1) | aten.where.self(%2, _, %1)\n"
		"%4: f32[2, 4] = aten.permute_copy.default(%3, [1, 0])\n"
		"%5: f32[2, 4] = aten.abs.default(%4)\n"
		"return %5\n");
}

static void attention_is_one_node(void **state)
{
	expect("%0: f32[1, 4, 5, 8] = input\n"
	       "%1: f32[1, 4, 7, 8] = input\n"
	       "%2: f32[1, 1, 1, 7] = input\n"
	       "%3: f32[1, 4, 8, 7] = aten.permute_copy.default(%1, [0, 1, 3, 2])\n"
	       "%4: f32[4, 5, 8] = aten.squeeze_copy.dims(%0, [0])\n"
	       "%5: f32[4, 8, 7] = aten.squeeze_copy.dims(%3, [0])\n"
	       "%6: f32[4, 5, 7] = aten.bmm.default(%4, %5)\n"
	       "%7: f32[1, 4, 5, 7] = aten.view_copy.default(%6, [1, 4, 5, 7])\n"
	       "%8: f32[] = constant {0.5}\n"
	       "%9: f32[1, 4, 5, 7] = aten.mul.Tensor(%7, %8)\n"
	       "%10: f32[1, 4, 5, 7] = aten.add.Tensor(%9, %2, 1)\n"
	       "%11: f32[1, 4, 5, 7] = aten._softmax.default(%10, -1, false)\n"
	       "%12: f32[4, 5, 7] = aten.squeeze_copy.dims(%11, [0])\n"
	       "%13: f32[4, 7, 8] = aten.squeeze_copy.dims(%1, [0])\n"
	       "%14: f32[4, 5, 8] = aten.bmm.default(%12, %13)\n"
	       "return %14\n",
		et_graph_fuse_attention,
		"%0: f32[1, 4, 5, 8] = input\n"
		"%1: f32[1, 4, 7, 8] = input\n"
		"%2: f32[1, 1, 1, 7] = input\n"
		"%3: f32[4, 5, 8] = aten.squeeze_copy.dims(%0, [0])\n"
		"%4: f32[4, 7, 8] = aten.squeeze_copy.dims(%1, [0])\n"
		"%5: f32[4, 7, 8] = aten.squeeze_copy.dims(%1, [0])\n"
		"%6: f32[4, 5, 8] = graph.attention(%3, %4, %5, %2, 0.5, true)\n"
		"return %6\n");
	/* no scale, no mask, no transposition */
	expect("%0: f32[4, 5, 8] = input\n"
	       "%1: f32[4, 8, 7] = input\n"
	       "%2: f32[4, 7, 3] = input\n"
	       "%3: f32[4, 5, 7] = aten.bmm.default(%0, %1)\n"
	       "%4: f32[4, 5, 7] = aten._softmax.default(%3, 2, false)\n"
	       "%5: f32[4, 5, 3] = aten.bmm.default(%4, %2)\n"
	       "return %5\n",
		et_graph_fuse_attention,
		"%0: f32[4, 5, 8] = input\n"
		"%1: f32[4, 8, 7] = input\n"
		"%2: f32[4, 7, 3] = input\n"
		"%3: f32[4, 5, 3] = graph.attention(%0, %1, %2, none, 1.0, false)\n"
		"return %3\n");
}

static void other_attention_stays(void **state)
{
	static const char *const texts[] = {
		/* softmax of another dimension */
		"%0: f32[4, 5, 8] = input\n%1: f32[4, 8, 7] = input\n%2: f32[4, 7, 3] = input\n%3: f32[4, 5, 7] = "
		"aten.bmm.default(%0, %1)\n%4: f32[4, 5, 7] = aten._softmax.default(%3, 1, false)\n%5: f32[4, 5, 3] = "
		"aten.bmm.default(%4, %2)\nreturn %5\n",
		/* the scores are an output */
		"%0: f32[4, 5, 8] = input\n%1: f32[4, 8, 7] = input\n%2: f32[4, 7, 3] = input\n%3: f32[4, 5, 7] = "
		"aten.bmm.default(%0, %1)\n%4: f32[4, 5, 7] = aten._softmax.default(%3, 2, false)\n%5: f32[4, 5, 3] = "
		"aten.bmm.default(%4, %2)\nreturn %5, %3\n",
		/* a mask of each batch, for several heads */
		"%0: f32[4, 5, 8] = input\n%1: f32[4, 8, 7] = input\n%2: f32[4, 7, 3] = input\n%3: f32[2, 1, 5, 7] = "
		"input\n%4: f32[4, 5, 7] = aten.bmm.default(%0, %1)\n%5: f32[2, 2, 5, 7] = aten.view_copy.default(%4, [2, 2, 5, "
		"7])\n%6: f32[2, 2, 5, 7] = aten.add.Tensor(%5, %3, 1)\n%7: f32[2, 2, 5, 7] = aten._softmax.default(%6, -1, "
		"false)\n%8: f32[4, 5, 7] = aten.view_copy.default(%7, [4, 5, 7])\n%9: f32[4, 5, 3] = aten.bmm.default(%8, "
		"%2)\nreturn %9\n",
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(texts); i++)
		expect(texts[i], et_graph_fuse_attention, texts[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(constants_are_computed),
		cmocka_unit_test(some_constants_stay),
		cmocka_unit_test(activations_of_integers_are_clamps),
		cmocka_unit_test(other_scales_stay),
		cmocka_unit_test(a_convolution_takes_its_neighbours),
		cmocka_unit_test(a_linear_layer_takes_its_neighbours),
		cmocka_unit_test(what_others_read_is_not_fused),
		cmocka_unit_test(chains_are_nodes),
		cmocka_unit_test(attention_is_one_node),
		cmocka_unit_test(other_attention_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
