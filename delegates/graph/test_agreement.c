/* SPDX-License-Identifier: BSD-3-Clause */
/* A graph gives the same numbers before and after the passes, by a plain interpreter. The interpreter
 * itself is compared with numbers that it did not compute. */
#include "delegates/graph/passes.h"
#include "runtime/base/checked.h"
#include "tests/support/graph_eval.h"
#include "tests/support/graph_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef enum et_status pass(struct et_graph *graph, struct et_diag *diag);

static pass *const passes[] = { et_graph_precompute, et_graph_remove_copies, et_graph_simplify_quantized,
	et_graph_fuse_attention, et_graph_fuse_epilogues, et_graph_fuse_chains, et_graph_remove_copies };

#define DEQUANTIZE "quantized_decomposed.dequantize_per_tensor.default"
#define QUANTIZE   "quantized_decomposed.quantize_per_tensor.default"

static const struct {
	const char *text;
	uint32_t n_nodes; /* after all passes */
} graphs[] = {
	/* pads of which one is wider in front, groups, clamps, a residual that is either operand, a bias of channels */
	{ "%0: f32[1, 4, 9, 8] = input\n"
	  "%1: f32[1, 4, 12, 11] = aten.constant_pad_nd.default(%0, [2, 1, 0, 3], 0.0)\n"
	  "%2: f32[8, 2, 3, 2] = constant 0\n"
	  "%3: f32[8] = constant 1\n"
	  "%4: f32[1, 8, 6, 12] = et_vk.conv_with_clamp.default(%1, %2, %3, [2, 1], [1, 1], [1, 1], false, [0, 0], 2, "
	  "-1.0, 6.0)\n"
	  "%5: f32[8, 8, 1, 1] = constant 2\n"
	  "%6: f32[1, 8, 6, 12] = aten.convolution.default(%4, %5, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)\n"
	  "%7: f32[8, 1, 1] = constant 3\n"
	  "%8: f32[1, 8, 6, 12] = aten.add.Tensor(%6, %7, 2)\n"
	  "%9: f32[1, 8, 6, 12] = aten.sub.Tensor(%4, %8, 0.5)\n"
	  "%10: f32[1, 8, 6, 12] = aten.hardswish.default(%9)\n"
	  "return %10\n",
		2 },
	/* one spatial dimension, dilation, a pad that a convolution and an operator read */
	{ "%0: f16[2, 3, 10] = input f32\n"
	  "%1: f16[2, 3, 13] = aten.constant_pad_nd.default(%0, [1, 2], 0)\n"
	  "%2: f16[5, 3, 3] = constant 0\n"
	  "%3: f16[2, 5, 5] = aten.convolution.default(%1, %2, none, [2], [0], [2], false, [0], 1)\n"
	  "%4: f16[2, 3, 13] = aten.relu.default(%1)\n"
	  "return %3 f32, %4 f32\n",
		3 },
	/* activations between integers: the same scale, another one, a range that is narrower than the type's */
	{ "%0: i8[3, 6] = input\n"
	  "%1: i8[5, 8] = constant 0\n"
	  "%2: i32[8] = constant 1\n"
	  "%3: f32[8] = constant 2\n"
	  "%4: i8[3, 5] = et_vk.q8ta_linear.default(%0, 0.02, 3, %1, %2, %3, 0.07, -4, %3, \"none\")\n"
	  "%5: f32[3, 5] = " DEQUANTIZE "(%4, 0.07, -4, -128, 127, none, none)\n"
	  "%6: f32[3, 5] = aten.hardtanh.default(%5, -1.5, 6)\n"
	  "%7: f32[3, 5] = aten.relu.default(%6)\n"
	  "%8: i8[3, 5] = " QUANTIZE "(%7, 0.07, -4, -128, 127, none)\n"
	  "%9: f32[3, 6] = " DEQUANTIZE "(%0, 0.05, 7, -128, 127, none, none)\n"
	  "%10: f32[3, 6] = aten.clamp.default(%9, -2.03, none)\n"
	  "%11: i8[3, 6] = " QUANTIZE "(%10, 0.05, 7, -50, 100, none)\n"
	  "%12: f32[3, 6] = aten.sigmoid.default(%9)\n"
	  "%13: i8[3, 6] = " QUANTIZE "(%12, 0.004, -128, -128, 127, none)\n"
	  "%14: i8[3, 6] = et_vk.q8ta_add.default(%11, %13, 0.05, 7, 0.004, -128, 0.1, 0, 1)\n"
	  "return %8, %14\n",
		3 },
	/* constants that are computed, a chain with broadcasts, a type between that is another one */
	{ "%0: f32[4, 6] = input\n"
	  "%1: f32[2, 3] = constant 0\n"
	  "%2: f32[6] = aten.view_copy.default(%1, [-1])\n"
	  "%3: f32[] = constant {3.0}\n"
	  "%4: f32[1] = constant {7.0}\n"
	  "%5: f32[1] = aten.div.Tensor(%3, %4)\n"
	  "%6: f32[4, 6] = aten.mul.Tensor(%0, %5)\n"
	  "%7: f32[4, 6] = aten.add.Tensor(%2, %6, -1)\n"
	  "%8: bool[4, 6] = aten.ge.Scalar(%7, 0.25)\n"
	  "%9: f32[1, 6] = aten.full.default([1, 6], -4.5, none, none, none, none)\n"
	  "%10: f32[4, 6] = aten.where.self(%8, %0, %9)\n"
	  "%11: f32[4, 6] = aten.exp.default(%10)\n"
	  "return %11\n",
		1 },
	/* attention with a mask of all heads, whose keys are transposed rows */
	{ "%0: f32[1, 3, 5, 8] = input\n"
	  "%1: f32[1, 3, 7, 8] = input\n"
	  "%2: f32[1, 3, 7, 4] = input\n"
	  "%3: f32[1, 1, 5, 7] = input\n"
	  "%4: f32[1, 3, 8, 7] = aten.permute_copy.default(%1, [0, 1, 3, 2])\n"
	  "%5: f32[3, 5, 8] = aten.squeeze_copy.dims(%0, [0])\n"
	  "%6: f32[3, 8, 7] = aten.squeeze_copy.dims(%4, [0])\n"
	  "%7: f32[3, 5, 7] = aten.bmm.default(%5, %6)\n"
	  "%8: f32[1, 3, 5, 7] = aten.view_copy.default(%7, [1, 3, 5, 7])\n"
	  "%9: f32[] = constant {2.5}\n"
	  "%10: f32[1, 3, 5, 7] = aten.div.Tensor(%8, %9)\n"
	  "%11: f32[1, 3, 5, 7] = aten.add.Tensor(%3, %10, 1)\n"
	  "%12: f32[1, 3, 5, 7] = aten._softmax.default(%11, 3, false)\n"
	  "%13: f32[3, 5, 7] = aten.squeeze_copy.dims(%12, [0])\n"
	  "%14: f32[3, 7, 4] = aten.squeeze_copy.dims(%2, [0])\n"
	  "%15: f32[3, 5, 4] = aten.bmm.default(%13, %14)\n"
	  "%16: f32[3, 5, 4] = aten.gelu.default(%15, \"tanh\")\n"
	  "return %16\n",
		5 },
	/* a mask of each head, and keys that nobody transposed */
	{ "%0: f32[6, 5, 8] = input\n"
	  "%1: f32[6, 8, 7] = input\n"
	  "%2: f32[6, 7, 4] = input\n"
	  "%3: f32[2, 3, 1, 7] = input\n"
	  "%4: f32[6, 5, 7] = aten.bmm.default(%0, %1)\n"
	  "%5: f32[2, 3, 5, 7] = aten.view_copy.default(%4, [2, 3, 5, 7])\n"
	  "%6: f32[2, 3, 5, 7] = aten.add.Tensor(%5, %3, 1)\n"
	  "%7: f32[2, 3, 5, 7] = aten._softmax.default(%6, -1, false)\n"
	  "%8: f32[6, 5, 7] = aten.view_copy.default(%7, [6, 5, 7])\n"
	  "%9: f32[6, 5, 4] = aten.bmm.default(%8, %2)\n"
	  "return %9\n",
		1 },
};

static double *eval(struct graph_rig *rig, uint64_t seed, size_t *ret_n)
{
	double *all = graph_eval(&rig->graph, seed, ret_n, &rig->diag);
	if (!all)
		fail_msg("not evaluated: %s", rig->diag.text);
	return all;
}

static void compare(struct graph_rig *rig, uint64_t seed, const double *before, size_t n_before)
{
	size_t n;
	double *after = eval(rig, seed, &n);
	assert_int_equal(n, n_before);
	for (size_t i = 0; i < n; i++)
		if (!(fabs(after[i] - before[i]) <= 1e-5 * (1 + fabs(before[i]))))
			fail_msg("element %zu is %g instead of %g in\n%s", i, after[i], before[i], graph_rig_text(rig));
	free(after);
}

static void passes_keep_the_numbers(void **state)
{
	for (size_t i = 0; i < ET_ARRAY_LEN(graphs); i++)
		for (uint64_t seed = 0; seed < 20; seed++) {
			struct graph_rig rig;
			size_t n;
			if (graph_rig_parse(&rig, graphs[i].text) != ET_OK)
				fail_msg("%zu: %s", i, rig.diag.text);
			double *before = eval(&rig, seed, &n);
			for (size_t p = 0; p < ET_ARRAY_LEN(passes); p++) {
				assert_int_equal(passes[p](&rig.graph, &rig.diag), ET_OK);
				compare(&rig, seed, before, n);
			}
			et_graph_remove_dead(&rig.graph);
			if (rig.graph.n_nodes != graphs[i].n_nodes)
				fail_msg("%u nodes are left in\n%s", rig.graph.n_nodes, graph_rig_text(&rig));
			free(before);
			graph_rig_deinit(&rig);
		}
}

/* Numbers worked out apart from the interpreter, from the operators' definitions. */
static void the_interpreter_is_right(void **state)
{
	static const struct {
		const char *text;
		double numbers[6];
		size_t n;
	} cases[] = {
		{ "%0: f32[1, 2, 3] = constant {1, -2, 3, 0.5, 4, -1}\n%1: f32[1, 2, 2] = constant {2, -1, 0.5, 3}\n"
		  "%2: f32[1] = constant {0.25}\n"
		  "%3: f32[1, 1, 4] = aten.convolution.default(%0, %1, %2, [1], [1], [1], false, [0], 1)\nreturn %3\n",
			{ 0.75, 16.5, -7.75, 5.75 }, 4 },
		{ "%0: f32[1, 3] = constant {1, 2, 4}\n%1: f32[1, 3] = aten._softmax.default(%0, -1, false)\nreturn %1\n",
			{ 0.042010066, 0.114195199, 0.843794735 }, 3 },
		{ "%0: f32[2, 2] = constant {1, 2, 3, 4}\n%1: f32[1, 2] = constant {5, 6}\n%2: f32[1] = constant {-1}\n"
		  "%3: f32[2, 1] = aten.linear.default(%0, %1, %2)\n%4: f32[2, 2] = aten.mm.default(%0, %0)\nreturn %3, %4\n",
			{ 16, 38, 7, 10, 15, 22 }, 6 },
		{ "%0: f32[4] = constant {-3.5, -1, 0.5, 2}\n%1: f32[4] = aten.gelu.default(%0, \"none\")\nreturn %1\n",
			{ -0.000814202, -0.158655254, 0.345731231, 1.954499736 }, 4 },
		{ "%0: f32[4] = constant {-0.25, 0.25, 0.75, 100}\n%1: i8[4] = " QUANTIZE
		  "(%0, 0.5, 3, -128, 127, none)\nreturn %1\n",
			{ 3, 3, 5, 127 }, 4 },
		{ "%0: f32[2, 2] = constant {1, 2, 3, 4}\n"
		  "%1: f32[1, 4] = aten.constant_pad_nd.default(%0, [0, 2, -1, 0], 9)\n"
		  "%2: f32[2, 2] = aten.permute_copy.default(%0, [1, 0])\n%3: f32[2] = constant {0, 10}\n"
		  "%4: f32[2, 2] = aten.add.Tensor(%2, %3, 1)\n%5: f32[2] = constant {0, 0}\nreturn %1, %5\n",
			{ 3, 4, 9, 9, 0, 0 }, 6 },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		struct graph_rig rig;
		if (graph_rig_parse(&rig, cases[i].text) != ET_OK)
			fail_msg("%zu: %s", i, rig.diag.text);
		compare(&rig, 0, cases[i].numbers, cases[i].n);
		graph_rig_deinit(&rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_interpreter_is_right),
		cmocka_unit_test(passes_keep_the_numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
