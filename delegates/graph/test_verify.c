/* SPDX-License-Identifier: BSD-3-Clause */
/* et_graph_verify: which graphs are refused, which numbers are changed, and the sizes that operators' results have. */
#include "delegates/graph/operators.h"
#include "delegates/graph/shapes.h"
#include "tests/support/graph_rig.h"
#include "runtime/base/checked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void rows_are_sorted_and_found(void **state)
{
	uint32_t n;
	for (n = 0; et_graph_operator_at(n); n++) {
		const struct et_graph_operator *op = et_graph_operator_at(n);
		assert_ptr_equal(et_graph_operator_find(op->name), op);
		assert_non_null(strchr(op->signature, '>'));
		assert_int_equal(strspn(op->signature, "TtIiNnDdBbSsELOlf_"),
			strchr(op->signature, '>') - op->signature);
	}
	assert_int_equal(n, 89);
	assert_null(et_graph_operator_find("aten.relu"));
}

/* A call with one result: the sizes that its arguments give it. */
static const struct {
	const char *inputs; /* lines */
	const char *call, *result;
} shapes[] = {
	{ "%0: f32[2, 1, 3] = input\n%1: f32[4, 1] = input\n", "aten.mul.Tensor(%0, %1)", "f32[2, 4, 3]" },
	{ "%0: f32[] = input\n", "aten.relu.default(%0)", "f32[]" },
	{ "%0: f32[0, 3] = input\n", "aten.relu.default(%0)", "f32[0, 3]" },
	{ "%0: f32[2, 3] = input\n%1: f32[3, 5] = input\n", "aten.mm.default(%0, %1)", "f32[2, 5]" },
	{ "%0: f32[7, 2, 3] = input\n%1: f32[7, 3, 5] = input\n", "aten.bmm.default(%0, %1)", "f32[7, 2, 5]" },
	{ "%0: f32[2, 4, 6] = input\n%1: f32[5, 6] = constant\n", "aten.linear.default(%0, %1, none)", "f32[2, 4, 5]" },
	{ "%0: f32[2, 64] = input\n%1: u8[5, 32] = constant\n%2: f32[2, 5] = constant\n",
		"et_vk.linear_q4gsw.default(%0, %1, %2, 32, none)", "f32[2, 5]" },
	{ "%0: f32[2, 3, 4] = input\n", "aten.mean.dim(%0, [-1, 0], true, none)", "f32[1, 3, 1]" },
	{ "%0: f32[2, 3, 4] = input\n", "aten.sum.dim_IntList(%0, none, false, none)", "f32[]" },
	{ "%0: f32[2, 3, 4] = input\n", "aten.argmax.default(%0, 1, false)", "i32[2, 4]" },
	{ "%0: f32[2, 3, 4] = input\n", "aten.argmax.default(%0, none, true)", "i32[1, 1, 1]" },
	{ "%0: f32[2, 3, 4] = input\n", "aten.view_copy.default(%0, [-1, 8])", "f32[3, 8]" },
	{ "%0: f32[2, 3, 4] = input\n", "aten.permute_copy.default(%0, [2, -3, 1])", "f32[4, 2, 3]" },
	{ "%0: f32[1, 3, 1] = input\n", "aten.squeeze_copy.dims(%0, [0, 1])", "f32[3, 1]" },
	{ "%0: f32[2, 3] = input\n", "aten.unsqueeze_copy.default(%0, -1)", "f32[2, 3, 1]" },
	{ "%0: f32[2, 10] = input\n", "aten.slice_copy.Tensor(%0, 1, 1, -1, 3)", "f32[2, 3]" },
	{ "%0: f32[2, 10] = input\n", "aten.slice_copy.Tensor(%0, 1, none, 9223372036854775807, 1)", "f32[2, 10]" },
	{ "%0: f32[2, 10] = input\n", "aten.slice_copy.Tensor(%0, 1, 8, 3, 1)", "f32[2, 0]" },
	{ "%0: f32[2, 10] = input\n", "aten.select_copy.int(%0, 0, -1)", "f32[10]" },
	{ "%0: f32[3, 1] = input\n", "aten.expand_copy.default(%0, [2, -1, 4], none)", "f32[2, 3, 4]" },
	{ "%0: f32[2, 3] = input\n%1: f32[0] = input\n", "aten.cat.default([%1, %0, %0], -1)", "f32[2, 6]" },
	{ "%0: f32[9, 4] = constant\n%1: i32[2, 5] = input\n", "aten.embedding.default(%0, %1, -1, false, false)",
		"f32[2, 5, 4]" },
	{ "%0: f32[9, 4] = input\n%1: i32[2, 4] = input\n", "aten.gather.default(%0, 0, %1, false)", "f32[2, 4]" },
	{ "%0: f32[9, 4, 5] = input\n%1: i32[2] = input\n", "aten.index.Tensor(%0, [none, %1, %1])", "f32[9, 2]" },
	{ "%0: f32[9, 4, 5] = input\n%1: i32[2] = input\n", "aten.index.Tensor(%0, [%1, none, %1])", "f32[2, 4]" },
	{ "", "aten.full.default([2, 3], 1.0, none, none, none, none)", "f32[2, 3]" },
	{ "", "aten.arange.start_step(0, 7, 2, none, none, none, none)", "i32[4]" },
	{ "%0: f32[2, 3] = input\n", "aten.constant_pad_nd.default(%0, [1, 2, 0, -1], 0.0)", "f32[1, 6]" },
	{ "%0: f32[1, 4, 9] = input\n%1: f32[8, 2, 3] = constant\n",
		"aten.convolution.default(%0, %1, none, [2], [1], [1], false, [0], 2)", "f32[1, 8, 5]" },
	{ "%0: f32[1, 4, 9, 9] = input\n%1: f32[4, 3, 3, 3] = constant\n",
		"aten.convolution.default(%0, %1, none, [2, 2], [1, 1], [1, 1], true, [1, 1], 2)",
		"f32[1, 6, 18, 18]" },
	{ "%0: f32[1, 4, 9, 9] = input\n", "aten.avg_pool2d.default(%0, [2, 2], [], [0, 0], true, true, none)",
		"f32[1, 4, 5, 5]" },
	/* the last window would begin in the padding */
	{ "%0: f32[1, 1, 3, 3] = input\n", "aten.avg_pool2d.default(%0, [2, 2], [2, 2], [1, 1], true, true, none)",
		"f32[1, 1, 2, 2]" },
	{ "%0: f32[1, 4, 9, 9] = input\n", "aten.upsample_bilinear2d.vec(%0, [3, 5], false, none)", "f32[1, 4, 3, 5]" },
	{ "%0: f32[1, 4, 9, 9] = input\n", "aten.upsample_nearest2d.vec(%0, none, [1.5, 2.0])", "f32[1, 4, 13, 18]" },
	{ "%0: f32[1, 2, 3, 8] = input\n%1: f32[1, 2, 7, 8] = input\n%2: f32[1, 2, 7, 4] = input\n",
		"et_vk.sdpa.default(%0, %1, %2, none, none)", "f32[1, 2, 3, 4]" },
};

static void results_have_their_sizes(void **state)
{
	for (size_t i = 0; i < ET_ARRAY_LEN(shapes); i++) {
		struct graph_rig rig;
		char text[500];
		snprintf(text, sizeof(text), "%s%%9: %s = %s\nreturn %%9\n", shapes[i].inputs, shapes[i].result,
			shapes[i].call);
		if (graph_rig_parse(&rig, text) != ET_OK)
			fail_msg("%s: %s", shapes[i].call, rig.diag.text);
		graph_rig_deinit(&rig);
		/* and no others */
		snprintf(text, sizeof(text), "%s%%9: %.3s[77] = %s\nreturn %%9\n", shapes[i].inputs, shapes[i].result,
			shapes[i].call);
		if (graph_rig_parse(&rig, text) == ET_OK)
			fail_msg("%s: any sizes are taken", shapes[i].call);
		graph_rig_deinit(&rig);
	}
}

static void what_does_not_fit_is_refused(void **state)
{
	static const struct {
		const char *inputs, *call, *why;
	} cases[] = {
		{ "%0: f32[2, 3] = input\n%1: f32[2] = input\n", "aten.mul.Tensor(%0, %1)", "sizes 3 and 2" },
		{ "%0: f32[2, 3] = input\n", "aten.mm.default(%0, %0)", "do not fit each other" },
		{ "%0: f32[2, 3] = input\n%1: f32[3, 1] = input\n", "aten.linear.default(%0, %1, none)", "rows of 1" },
		{ "%0: f32[2, 3] = input\n", "aten.mean.dim(%0, [2], true, none)", "dimension 2 of 2" },
		{ "%0: f32[2, 3] = input\n", "aten.view_copy.default(%0, [-1, 4])", "6 elements do not fit" },
		{ "%0: f32[2, 3] = input\n", "aten.view_copy.default(%0, [5])", "6 elements become 5" },
		{ "%0: f32[2, 3] = input\n", "aten.view_copy.default(%0, [-2])", "a size of -2" },
		{ "%0: f32[2, 3] = input\n", "aten.permute_copy.default(%0, [0, 0])", "comes twice" },
		{ "%0: f32[2, 3] = input\n", "aten.slice_copy.Tensor(%0, 0, 0, 1, 0)", "the step 0" },
		{ "%0: f32[2, 3] = input\n", "aten.select_copy.int(%0, 0, 2)", "index 2 of 2" },
		{ "%0: f32[2, 3] = input\n%1: f32[3, 3] = input\n", "aten.cat.default([%0, %1], 1)", "sizes 2 and 3" },
		{ "", "aten.cat.default([], 1)", "is no list of values" },
		{ "%0: f32[2, 3] = input\n", "aten.expand_copy.default(%0, [4, 3], none)", "size 2 becomes 4" },
		{ "%0: f32[2, 3] = input\n", "aten.constant_pad_nd.default(%0, [-2, -2], 0)", "a size of -1" },
		{ "%0: f32[1, 4, 9] = input\n%1: f32[8, 3, 3] = constant\n",
			"aten.convolution.default(%0, %1, none, [2], [1], [1], false, [0], 2)",
			"4 channels, 2 groups" },
		{ "%0: f32[1, 4, 9] = input\n%1: f32[8, 4, 3] = constant\n",
			"aten.convolution.default(%0, %1, none, [0], [1], [1], false, [0], 1)", "stride 0" },
		{ "%0: f32[1, 4, 9] = input\n%1: f32[8, 4, 13] = constant\n",
			"aten.convolution.default(%0, %1, none, [1], [1], [1], false, [0], 1)",
			"larger than the input" },
		{ "%0: f32[1, 1, 4, 4] = input\n", "aten.upsample_nearest2d.vec(%0, none, [nan, 1.0])",
			"a size of nan" },
		{ "", "aten.arange.start_step(0, 7, 0, none, none, none, none)", "by 0" },
		{ "%0: f32[2] = input\n", "aten.relu.default([1])", "argument 0 is no tensor" },
		{ "%0: f32[2] = input\n", "aten.add.Tensor(%0, %0, \"1\")", "argument 2 is no number" },
		{ "%0: f32[2] = input\n", "aten.mean.dim(%0, [0], 2, none)", "neither true nor false" },
		{ "%0: f32[2] = input\n", "aten._softmax.default(%0, 0.5, false)", "no whole number" },
		{ "%0: f32[2] = input\n", "aten.gelu.default(%0, 1)", "is no text" },
		{ "%0: f32[2] = input\n", "aten.cat.default([1, %0], 0)", "an item of a wrong kind" },
		{ "%0: f32[1, 4, 1, 8] = input\n",
			"sdpa_with_kv_cache.default(%0, %0, %0, %0, %0, 0, 4, none, 0.0, true, none)", "is no state" },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		struct graph_rig rig;
		char text[500];
		snprintf(text, sizeof(text), "%s%%9: f32[2, 3] = %s\nreturn %%9\n", cases[i].inputs, cases[i].call);
		if (graph_rig_parse(&rig, text) != ET_E_DELEGATE_INVALID_COMPATIBILITY ||
			!strstr(rig.diag.text, cases[i].why))
			fail_msg("%s: '%s' instead of '%s'", cases[i].call, rig.diag.text, cases[i].why);
		graph_rig_deinit(&rig);
	}
}

static void what_lies_elsewhere_is_refused(void **state)
{
	static const char *const texts[] = {
		"%0: f32[2] = input\n%1: f32[2] = input\n%2: f32[2] in %1 = aten.view_copy.default(%0, [2])\nreturn %2\n",
		"%0: f32[2] = input\n%1: f32[2] in %0 from row 1 of dim 0 = aten.view_copy.default(%0, [2])\nreturn %1\n",
		"%0: f32[2] = input\n%1: f32[2] in %0 = input\nreturn %1\n",
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(texts); i++) {
		struct graph_rig rig;
		if (graph_rig_parse(&rig, texts[i]) != ET_E_DELEGATE_INVALID_COMPATIBILITY ||
			(!strstr(rig.diag.text, "does not lie in argument 0") &&
				!strstr(rig.diag.text, "what no node makes")))
			fail_msg("%s: '%s'", texts[i], rig.diag.text);
		graph_rig_deinit(&rig);
	}
}

/* 0, 0.0 and False are one value in an export. */
static void numbers_become_of_the_right_kind(void **state)
{
	struct graph_rig rig;
	assert_int_equal(graph_rig_parse(&rig, "%0: f32[2, 3] = input\n"
					       "%1: f32[2, 3] = aten._softmax.default(%0, 1.0, 0)\n"
					       "%2: f32[1, 1, 1, 1] = input\n"
					       "%3: f32[1, 1, 2, 2] = aten.upsample_nearest2d.vec(%2, none, [2, 2])\n"
					       "%4: f32[2, 3] = aten.leaky_relu.default(%1, false)\n"
					       "return %4, %3\n"),
		ET_OK);
	const char *text = graph_rig_text(&rig);
	assert_non_null(strstr(text, "_softmax.default(%0, 1, false)"));
	assert_non_null(strstr(text, "vec(%1, none, [2.0, 2.0])"));
	assert_non_null(strstr(text, "leaky_relu.default(%2, 0)"));
	graph_rig_deinit(&rig);
}

/* Sizes of a run, smaller than the largest ones. */
static void smaller_inputs_give_smaller_results(void **state)
{
	struct graph_rig rig;
	struct et_graph_size sizes[32];
	assert_int_equal(graph_rig_parse(&rig,
				 "%0: f32[8, 4] = input\n"
				 "%1: symbol = sym_size.int(%0, 0)\n"
				 "%2: symbol = add(%1, 3)\n"
				 "%3: symbol = floordiv(%2, -2)\n"
				 "%4: symbol = mul(%3, -4)\n"
				 "%5: f32[24, 4] = aten.full.default([%4, 4], 1.0, none, none, none, none)\n"
				 "return %5, %3\n"),
		ET_OK);
	assert_true(rig.graph.n_values <= ET_ARRAY_LEN(sizes));
	et_graph_largest_sizes(&rig.graph, sizes);
	sizes[rig.graph.inputs[0]].dims[0] = 5;
	for (uint32_t i = 0; i < rig.graph.n_nodes; i++)
		assert_int_equal(et_graph_infer(&rig.graph, i, sizes, &rig.diag), ET_OK);
	assert_int_equal(sizes[rig.graph.outputs[1]].symbol, -4); /* 8 / -2 */
	assert_int_equal(sizes[rig.graph.outputs[0]].dims[0], 16);
	graph_rig_deinit(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_sorted_and_found),
		cmocka_unit_test(results_have_their_sizes),
		cmocka_unit_test(what_does_not_fit_is_refused),
		cmocka_unit_test(what_lies_elsewhere_is_refused),
		cmocka_unit_test(numbers_become_of_the_right_kind),
		cmocka_unit_test(smaller_inputs_give_smaller_results),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
