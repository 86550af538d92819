/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes: a text before, the text after. */
#include "delegates/graph/passes.h"
#include "runtime/base/checked.h"
#include "tests/support/graph_rig_expect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void copies(struct et_graph *graph)
{
	struct et_diag diag;
	assert_int_equal(et_graph_remove_copies(graph, &diag), ET_OK);
}

static void places(struct et_graph *graph)
{
	struct et_diag diag;
	uint64_t n;
	et_graph_find_aliases(graph);
	assert_int_equal(et_graph_place(graph, 64, &n, &diag), ET_OK);
}

/* The first output has another type in the caller's memory. */
static void places_of_converted(struct et_graph *graph)
{
	graph->values[graph->outputs[0]].tensor->needs_place = true;
	places(graph);
}

static void expect(const char *before, void (*pass)(struct et_graph *graph), const char *after)
{
	struct graph_rig rig;
	if (graph_rig_parse(&rig, before) != ET_OK)
		fail_msg("%s", rig.diag.text);
	pass(&rig.graph);
	graph_rig_expect(&rig, after);
}

static void copies_go(void **state)
{
	expect("%0: f32[4, 6] = input\n"
	       "%1: symbol = sym_size.int(%0, 0)\n"
	       "%2: f32[4, 6] = aten.clone.default(%0, none)\n"
	       "%3: f32[4, 6] = aten.slice_copy.Tensor(%2, 1, 0, 9223372036854775807, 1)\n"
	       "%4: f32[4, 6] = aten.permute_copy.default(%3, [0, -1])\n"
	       "%5: f32[4, 6] = aten.expand_copy.default(%4, [-1, -1], none)\n"
	       "%6: f32[8, 6] = aten.cat.default([%5, %2], 0)\n"
	       "%7: f32[8, 6] = aten.cat.default([%2, %5], 0)\n"
	       "%8: f32[4, 6] = constant 0\n"
	       "%9: f32[4, 6] = et_vk.prepack.default(%8)\n"
	       "%10: f32[4, 6] = aten.add.Tensor(%5, %9, 1)\n"
	       "return %6, %7, %10, %1\n",
		copies,
		"%0: f32[4, 6] = input\n"
		"%1: symbol = sym_size.int(%0, 0)\n"
		"%2: f32[8, 6] = aten.cat.default([%0, %0], 0)\n"
		"%3: f32[8, 6] = aten.cat.default([%0, %0], 0)\n"
		"%4: f32[4, 6] = constant 0\n"
		"%5: f32[4, 6] = aten.add.Tensor(%0, %4, 1)\n"
		"return %2, %3, %5, %1\n");
}

static void copies_that_may_change_something_stay(void **state)
{
	static const char *const texts[] = {
		/* the copy of an input is the caller's output */
		"%0: f32[4] = input\n%1: f32[4] = aten.clone.default(%0, none)\nreturn %1\n",
		/* another type */
		"%0: f32[4] = input\n"
		"%1: f16[4] = dim_order_ops._to_dim_order_copy.default(%0, none, none, none, none, none, none)\n"
		"%2: f16[4] = aten.relu.default(%1)\nreturn %2\n",
		/* a run may have one row, which expands to four */
		"%0: f32[4, 1] = input\n%1: f32[4, 1] = aten.expand_copy.default(%0, [4, 1], none)\n"
		"%2: f32[4, 1] = aten.relu.default(%1)\nreturn %2\n",
		/* a part, every second one, an unknown one */
		"%0: f32[8] = input\n%1: f32[7] = aten.slice_copy.Tensor(%0, 0, 0, 7, 1)\n"
		"%2: f32[7] = aten.relu.default(%1)\nreturn %2\n",
		"%0: f32[1] = input\n%1: f32[1] = aten.slice_copy.Tensor(%0, 0, 0, 9, 2)\n"
		"%2: f32[1] = aten.relu.default(%1)\nreturn %2\n",
		"%0: f32[8] = input\n%1: symbol = sym_size.int(%0, 0)\n"
		"%2: f32[8] = aten.slice_copy.Tensor(%0, 0, 0, %1, 1)\n%3: f32[8] = aten.relu.default(%2)\n"
		"return %3\n",
		/* what a later node changes */
		"%0: f32[1, 4, 1, 8] = input\n%1: f32[1, 16, 1, 8] = state\n"
		"%2: f32[1, 16, 1, 8] = aten.clone.default(%1, none)\n%3: f32[1, 16, 1, 8] = state\n"
		"%4: f32[1, 4, 1, 8] = sdpa_with_kv_cache.default(%0, %0, %0, %1, %3, 0, 4, none, 0.0, true, none)\n"
		"%5: f32[1, 16, 1, 8] = aten.relu.default(%2)\nreturn %4, %5\n",
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(texts); i++)
		expect(texts[i], copies, texts[i]);
}

static void dead_nodes_go(void **state)
{
	expect("%0: f32[1, 1, 4, 4] = input\n"
	       "%1: f32[1, 1, 4, 4] = aten.relu.default(%0)\n"
	       "%2: f32[1, 2, 4, 4] = aten.cat.default([%1, %1], 1)\n"
	       "%3: f32[1, 2, 2, 2], %4: i32[1, 2, 2, 2] = aten.max_pool2d_with_indices.default(%2, [2, 2], [], [0, 0], "
	       "[1, 1], false)\n"
	       "%5: f32[1, 1, 4, 4] = aten.abs.default(%0)\n"
	       "%6: symbol = sym_size.int(%5, 0)\n"
	       "%7: f32[1, 1, 2, 2], %8: i32[1, 1, 2, 2] = aten.max_pool2d_with_indices.default(%5, [2, 2], [], [0, 0], "
	       "[1, 1], false)\n"
	       "return %8\n",
		et_graph_remove_dead,
		"%0: f32[1, 1, 4, 4] = input\n"
		"%1: f32[1, 1, 4, 4] = aten.abs.default(%0)\n"
		"%2: f32[1, 1, 2, 2], %3: i32[1, 1, 2, 2] = aten.max_pool2d_with_indices.default(%1, [2, 2], [], [0, 0], "
		"[1, 1], false)\n"
		"return %3\n");
	/* what writes a state is never dead */
	static const char *const writer =
		"%0: f32[1, 4, 1, 8] = input\n%1: f32[1, 16, 1, 8] = state\n%2: f32[1, 16, 1, 8] = state\n"
		"%3: f32[1, 4, 1, 8] = sdpa_with_kv_cache.default(%0, %0, %0, %1, %2, 0, 4, none, 0.0, true, none)\n"
		"%4: f32[1, 4, 1, 8] = aten.relu.default(%0)\nreturn %4\n";
	expect(writer, et_graph_remove_dead, writer);
}

static void views_are_aliases(void **state)
{
	expect("%0: f32[6, 4] = input\n"
	       "%1: f32[3, 8] = aten.view_copy.default(%0, [3, 8])\n"
	       "%2: f32[1, 3, 8] = aten.unsqueeze_copy.default(%1, 0)\n"
	       "%3: f32[1, 2, 8] = aten.slice_copy.Tensor(%2, 1, 1, 3, 1)\n"
	       "%4: f32[1, 8] = aten.select_copy.int(%3, 1, 1)\n"
	       "%5: f32[2, 4], %6: f32[4, 4] = aten.split_with_sizes_copy.default(%0, [2, 4], 0)\n"
	       "%7: f32[6, 1], %8: f32[6, 3] = aten.split_with_sizes_copy.default(%0, [1, 3], 1)\n"
	       "%9: f32[4] = aten.select_copy.int(%0, 0, -1)\n"
	       "%10: f32[3, 8] = aten.view_copy.default(%0, [3, 8])\n"
	       "return %4, %6, %8, %9, %10\n",
		et_graph_find_aliases,
		"%0: f32[6, 4] = input\n"
		"%1: f32[3, 8] in %0 = aten.view_copy.default(%0, [3, 8])\n"
		"%2: f32[1, 3, 8] in %1 = aten.unsqueeze_copy.default(%1, 0)\n"
		"%3: f32[1, 2, 8] in %2 from row 1 of dim 1 = aten.slice_copy.Tensor(%2, 1, 1, 3, 1)\n"
		"%4: f32[1, 8] = aten.select_copy.int(%3, 1, 1)\n"
		"%5: f32[2, 4] in %0, %6: f32[4, 4] = aten.split_with_sizes_copy.default(%0, [2, 4], 0)\n"
		"%7: f32[6, 1], %8: f32[6, 3] = aten.split_with_sizes_copy.default(%0, [1, 3], 1)\n"
		"%9: f32[4] = aten.select_copy.int(%0, 0, -1)\n"
		"%10: f32[3, 8] = aten.view_copy.default(%0, [3, 8])\n"
		"return %4, %6, %8, %9, %10\n");
}

static void memory_is_used_again(void **state)
{
	expect("%0: f32[16] = input\n"
	       "%1: f32[16] = aten.relu.default(%0)\n"
	       "%2: f32[4, 4] = aten.view_copy.default(%1, [4, 4])\n"
	       "%3: f32[32] = aten.cat.default([%1, %1], 0)\n"
	       "%4: f32[4, 4] = aten.abs.default(%2)\n" /* %1 lives until here, by its alias */
	       "%5: f32[4, 4] = aten.exp.default(%4)\n"
	       "%6: f32[16] = aten.abs.default(%0)\n" /* never read */
	       "%7: f32[32] = aten.exp.default(%3)\n"
	       "%8: f32[8] = aten.slice_copy.Tensor(%7, 0, 0, 8, 1)\n"
	       "return %5, %8\n",
		places,
		"%0: f32[16] = input\n"
		"%1: f32[16] at 0 = aten.relu.default(%0)\n"
		"%2: f32[4, 4] in %1 = aten.view_copy.default(%1, [4, 4])\n"
		"%3: f32[32] at 64 = aten.cat.default([%1, %1], 0)\n"
		"%4: f32[4, 4] at 192 = aten.abs.default(%2)\n"
		"%5: f32[4, 4] = aten.exp.default(%4)\n"
		"%6: f32[16] at 0 = aten.abs.default(%0)\n"
		"%7: f32[32] at 192 = aten.exp.default(%3)\n"
		"%8: f32[8] = aten.slice_copy.Tensor(%7, 0, 0, 8, 1)\n"
		"return %5, %8\n");
}

static void an_output_to_convert_has_a_place_to_the_end(void **state)
{
	expect("%0: f32[16] = input\n"
	       "%1: i32[] = aten.argmax.default(%0, none, false)\n"
	       "%2: f32[16] = aten.abs.default(%0)\n"
	       "%3: f32[16] = aten.exp.default(%2)\n"
	       "%4: f32[16] = aten.abs.default(%3)\n"
	       "return %1 i64, %4\n",
		places_of_converted,
		"%0: f32[16] = input\n"
		"%1: i32[] at 0 = aten.argmax.default(%0, none, false)\n"
		"%2: f32[16] at 64 = aten.abs.default(%0)\n"
		"%3: f32[16] at 128 = aten.exp.default(%2)\n"
		"%4: f32[16] = aten.abs.default(%3)\n"
		"return %1 i64, %4\n");
}

/* What a step reads is read by its node. */
static void steps_are_arguments(void **state)
{
	expect("%0: f32[16] = input\n"
	       "%1: f32[16] = aten.clone.default(%0, none)\n"
	       "%2: f32[16] = aten.exp.default(%0) | aten.add.Tensor(_, %1, 1)\n"
	       "return %2\n",
		copies,
		"%0: f32[16] = input\n"
		"%1: f32[16] = aten.exp.default(%0) | aten.add.Tensor(_, %0, 1)\n"
		"return %1\n");
	expect("%0: f32[16] = input\n"
	       "%1: f32[16] = aten.abs.default(%0)\n"
	       "%2: f32[16] = aten.sqrt.default(%0)\n"
	       "%3: f32[16] = aten.exp.default(%0) | aten.add.Tensor(_, %2, 1)\n"
	       "%4: f32[16] = aten.clone.default(%0, none) | aten.add.Tensor(_, %1, 1)\n"
	       "return %4\n",
		et_graph_remove_dead,
		"%0: f32[16] = input\n"
		"%1: f32[16] = aten.abs.default(%0)\n"
		"%2: f32[16] = aten.clone.default(%0, none) | aten.add.Tensor(_, %1, 1)\n"
		"return %2\n");
	expect("%0: f32[16] = input\n"
	       "%1: f32[16] = aten.abs.default(%0)\n"
	       "%2: f32[16] = aten.sqrt.default(%0)\n"
	       "%3: f32[16] = aten.exp.default(%2) | aten.add.Tensor(_, %1, 1)\n"
	       "%4: f32[16] = aten.abs.default(%3)\n"
	       "return %4\n",
		places,
		"%0: f32[16] = input\n"
		"%1: f32[16] at 0 = aten.abs.default(%0)\n"
		"%2: f32[16] at 64 = aten.sqrt.default(%0)\n"
		"%3: f32[16] at 128 = aten.exp.default(%2) | aten.add.Tensor(_, %1, 1)\n"
		"%4: f32[16] = aten.abs.default(%3)\n"
		"return %4\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_go),
		cmocka_unit_test(copies_that_may_change_something_stay),
		cmocka_unit_test(dead_nodes_go),
		cmocka_unit_test(views_are_aliases),
		cmocka_unit_test(memory_is_used_again),
		cmocka_unit_test(steps_are_arguments),
		cmocka_unit_test(an_output_to_convert_has_a_place_to_the_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
