/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs' texts: what is printed reads back the same, and mistakes are named with their place. */
#include "tests/support/graph_rig.h"
#include "runtime/base/checked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

/* Each is as the printer writes it. */
static const char *const texts[] = {
	/* all literals */
	"%0: f32[1, 3, 8, 8] = input\n"
	"%1: f32[4, 3, 3, 3] = constant 0\n"
	"%2: f32[4] = constant {0.0, -1.5, inf, 0.25}\n"
	"%3: f32[1, 4, 8, 8] = et_vk.conv_with_clamp.default(%0, %1, %2, [1, 1], [1, 1], [1, 1], false, [0, 0], 1, 0, "
	"1.7976931348623157e+308)\n"
	"%4: f32[1, 4, 16, 16] = aten.upsample_nearest2d.vec(%3, none, [2.0, 2.0])\n"
	"%5: f32[1, 4, 16, 16] = aten.gelu.default(%4, \"tanh\")\n"
	"return %5\n",
	/* symbols, several results, a state, types of the caller */
	"%0: f16[1, 4, 2, 8] = input f32\n"
	"%1: f16[1, 4, 1, 8] = input f32\n"
	"%2: i32[1] = input i64\n"
	"%3: symbol = sym_size.int(%0, 1)\n"
	"%4: symbol = et_vk.select_as_symint.default(%2, 0, 0)\n"
	"%5: f16[1, 16, 1, 8] = state\n"
	"%6: f16[1, 16, 1, 8] = state\n"
	"%7: f16[1, 4, 2, 8] = sdpa_with_kv_cache.default(%0, %1, %1, %5, %6, %4, %3, none, 0.0, true, none)\n"
	"%8: f16[1, 4, 2, 4], %9: f16[1, 4, 2, 4] = aten.split_with_sizes_copy.default(%7, [4, 4], 3)\n"
	"%10: f16[1, 4, 2, 8] = aten.cat.default([%9, %8], -1)\n"
	"%11: f16[4, 16] = aten.view_copy.default(%10, [%3, 16])\n"
	"return %11 f32, %3\n",
	/* steps, of which some have another type than the result */
	"%0: i8[1, 4, 8, 8] = input\n"
	"%1: f32[1, 4, 1, 1] = input\n"
	"%2: i8[4, 4] = constant 0\n"
	"%3: i32[4] = constant 1\n"
	"%4: f32[4] = constant 2\n"
	"%5: i8[1, 4, 8, 8] = et_vk.q8ta_conv2d_pw.default(%0, 0.5, 3, %2, %3, %4, 0.25, 4, none, [1, 1], [1, 1], [0, 0], "
	"[1, 1], 1, \"none\") | quantized_decomposed.dequantize_per_tensor.default(_, 0.25, 4, -128, 127, none, none) | "
	"aten.mul.Tensor(_: f32, _: f32) | aten.sub.Tensor(%1, _: f32, 2) | "
	"quantized_decomposed.quantize_per_tensor.default(_: f32, 0.5, 3, -128, 127, none)\n"
	"%6: i8[1, 4, 8, 8] = aten.relu.default(%5) | et_vk.q8ta_add.default(_, %0, 0.5, 0, 0.5, 0, 0.5, 0, 1)\n"
	"return %6\n",
	/* constants of every type that texts have; a name with a character that needs an escape; no inputs */
	"%0: i8[2] = constant {-128, 127}\n"
	"%1: i8[4] = aten.cat.default([%0, %0], 0)\n"
	"%2: f64[1, 1] = constant {0.1}\n"
	"%3: f64[1, 1], %4: i8[1, 1] = torchao.choose_qparams_affine.default(%2, \"a\\x22\\x5c\\x01\", [1, 1], none, none, "
	"none, none, none, none, false)\n"
	"%5: u8[2] = constant {0, 255}\n"
	"%6: bool[2] = constant {0, 1}\n"
	"%7: i64[2] = constant {-9007199254740991, 5}\n"
	"%8: i32[2] = constant {-2147483648, 2147483647}\n"
	"%9: f16[1] = constant 7\n"
	"return %1, %5, %6, %7, %8, %3, %9\n",
};

static void texts_come_back(void **state)
{
	for (size_t i = 0; i < ET_ARRAY_LEN(texts); i++) {
		struct graph_rig rig;
		if (graph_rig_parse(&rig, texts[i]) != ET_OK)
			fail_msg("text %zu: %s", i, rig.diag.text);
		assert_string_equal(graph_rig_text(&rig), texts[i]);
		graph_rig_deinit(&rig);
	}
}

static void numbers_and_comments_are_free(void **state)
{
	struct graph_rig rig;
	assert_int_equal(graph_rig_parse(&rig, "# a comment\n\n  %7 : f32 [ 2 ] = input   # the only one\n"
					       "%3: f32[2] = aten.relu.default( %7 )\nreturn %3"),
		ET_OK);
	assert_string_equal(graph_rig_text(&rig),
		"%0: f32[2] = input\n%1: f32[2] = aten.relu.default(%0)\nreturn %1\n");
	graph_rig_deinit(&rig);
}

static void mistakes_are_named(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ "", "the return is missing" },
		{ "%0: f32[2] = input\n", "the return is missing" },
		{ "nonsense\n", "line 1, column 9: this is no line" },
		{ "%0: f32[2] = input\nreturn %0\nreturn %0\n", "line 3, column 1: nothing may follow" },
		{ "%0: f32[2] = input\nreturn %1\n", "line 2, column 10: no line before makes this value" },
		{ "%99999: f32[2] = input\nreturn %0\n", "a number, or a smaller one" },
		{ "%0: f31[2] = input\nreturn %0\n", "this is no type" },
		{ "%0: f32[2 = input\nreturn %0\n", "',' is missing" },
		{ "%0: f32[1,1,1,1,1,1,1,1,1] = input\nreturn %0\n", "at most eight sizes" },
		{ "%0: f32[4294967295,4294967295,4294967295] = input\nreturn %0\n", "too large" },
		{ "%0: f32[2] = input\n%0: f32[2] = input\nreturn %0\n", "made before" },
		{ "%0: f32[2] = nothing(%0)\nreturn %0\n", "no such operator" },
		{ "%0: f32[2] = input\n%1: f32[2] = aten.relu.default(%0, %0)\nreturn %1\n", "fewer arguments" },
		{ "%0: f32[2] = input\n%1: f32[2] = aten.add.Tensor(%0, %0)\nreturn %1\n", "more arguments" },
		{ "%0: f32[2] = input\n%1: f32[2] = aten.leaky_relu.default(%0, x)\nreturn %1\n", "no number, true" },
		{ "%0: f32[2] = input\n%1: f32[2] = aten.gelu.default(%0, \"tanh)\nreturn %1\n", "does not end" },
		{ "%0: f32[2] = input\n%1: f32[2] = aten.gelu.default(%0, \"\\n\")\nreturn %1\n", "may follow" },
		{ "%0: f32[2] = constant {1}\nreturn %0\n", "numbers are missing" },
		{ "%0: f32[2] = constant {1, 2, 3}\nreturn %0\n", "too many" },
		{ "%0: i8[1] = constant {128}\nreturn %0\n", "this is no number" },
		{ "%0: f16[1] = constant {1}\nreturn %0\n", "no numbers in texts" },
		{ "%0: f32[1000000000] = constant {1}\nreturn %0\n", "numbers are missing" },
		{ "%0: symbol = constant 1\nreturn %0\n", "a constant is a tensor" },
		{ "%0: f32[2] = input\n%1: f32[2] = aten.relu.default(_)\nreturn %1\n", "no running value here" },
		{ "%0: f32[2] = input\n%1: f32[2] = aten.relu.default(%0) | aten.relu.default(_: f31)\nreturn %1\n",
			"this is no type" },
		{ "%0: f32[2] = input\n%1: f32[2] = aten.relu.default(%0) | _\nreturn %1\n", "no such operator" },
		{ "%0: f32[2] = input\n%1: f32[1], %2: f32[1] = aten.split_with_sizes_copy.default(%0, [1, 1], 0) | "
		  "aten.relu.default(_)\nreturn %1\n",
			"has one result" },
		{ "%0: f32[2] on 5 = input\nreturn %0\n", "neither 'at' nor 'in'" },
		{ "%0: f32[2] at -5 = input\nreturn %0\n", "a number is missing" },
		{ "%0: f32[2] in %1 = input\nreturn %0\n", "no line before" },
		{ "%0: f32[2] = input\n%1: f32[2] in %0 at 5 = aten.relu.default(%0)\nreturn %1\n",
			"'from row ... of dim ...' is missing" },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		struct graph_rig rig;
		if (graph_rig_parse(&rig, cases[i].text) != ET_E_INVALID_ARGUMENT ||
			!strstr(rig.diag.text, cases[i].why))
			fail_msg("case %zu: '%s' instead of '%s'", i, rig.diag.text, cases[i].why);
		graph_rig_deinit(&rig);
	}
}

static void dot_has_steps(void **state)
{
	struct graph_rig rig;
	assert_int_equal(graph_rig_parse(&rig,
				 "%0: f32[2] = input\n%1: f32[2] = input\n"
				 "%2: f32[2] = aten.relu.default(%0) | aten.add.Tensor(_, %1, 1)\nreturn %2\n"),
		ET_OK);
	assert_string_equal(graph_rig_dot(&rig),
		"digraph {\n  node [shape=box];\n"
		"  v0 [label=\"input\" shape=ellipse];\n  v1 [label=\"input\" shape=ellipse];\n"
		"  n0 [label=\"aten.relu.default\\n| aten.add.Tensor\"];\n"
		"  v0 -> n0 [label=\"2\"];\n  v1 -> n0 [label=\"2\"];\n"
		"  out0 [label=\"output 0\" shape=ellipse];\n  n0 -> out0 [label=\"2\"];\n}\n");
	graph_rig_deinit(&rig);
}

static void dot_has_nodes_and_edges(void **state)
{
	struct graph_rig rig;
	assert_int_equal(graph_rig_parse(&rig, texts[0]), ET_OK);
	assert_string_equal(graph_rig_dot(&rig),
		"digraph {\n  node [shape=box];\n"
		"  v0 [label=\"input\" shape=ellipse];\n"
		"  n0 [label=\"et_vk.conv_with_clamp.default\"];\n  v0 -> n0 [label=\"1x3x8x8\"];\n"
		"  n1 [label=\"aten.upsample_nearest2d.vec\"];\n  n0 -> n1 [label=\"1x4x8x8\"];\n"
		"  n2 [label=\"aten.gelu.default\"];\n  n1 -> n2 [label=\"1x4x16x16\"];\n"
		"  out0 [label=\"output 0\" shape=ellipse];\n  n2 -> out0 [label=\"1x4x16x16\"];\n}\n");
	graph_rig_deinit(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_come_back),
		cmocka_unit_test(numbers_and_comments_are_free),
		cmocka_unit_test(mistakes_are_named),
		cmocka_unit_test(dot_has_steps),
		cmocka_unit_test(dot_has_nodes_and_edges),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
