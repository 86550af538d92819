/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators that no program at hand has, and the edges of others: graphs from texts, with numbers worked out by hand or
 * by PyTorch. Programs with ExecuTorch's outputs are tests of their own (meson.build). */
#include "tests/opencl/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct example {
	const char *name, *graph;
	const char *args[6]; /* inputs, then the outputs that are expected */
	int result;          /* of the run */
	const char *says;
};

static const struct example examples[] = {
	{ "and of bools",
		"%0: bool[4] = input\n%1: bool[4] = input\n%2: bool[4] = aten.bitwise_and.Tensor(%0, %1)\nreturn %2\n",
		{ "bool[4]{1, 1, 0, 0}", "bool[4]{1, 0, 1, 0}", "bool[4]{1, 0, 0, 0}" } },
	{ "and of ints",
		"%0: i32[2] = input\n%1: i32[2] = input\n%2: i32[2] = aten.bitwise_and.Tensor(%0, %1)\nreturn %2\n",
		{ "i32[2]{12, 10}", "i32[2]{10, 7}", "i32[2]{8, 2}" } },
	{ "ge of floats", "%0: f32[3] = input\n%1: bool[3] = aten.ge.Scalar(%0, 2)\nreturn %1\n",
		{ "f32[3]{1, 2, 3}", "bool[3]{0, 1, 1}" } },
	{ "ge of ints with a fraction", "%0: i32[3] = input\n%1: bool[3] = aten.ge.Scalar(%0, 1.5)\nreturn %1\n",
		{ "i32[3]{1, 2, 3}", "bool[3]{0, 1, 1}" } },
	{ "gather",
		"%0: f32[2, 3] = input\n%1: i32[2, 2] = input\n%2: f32[2, 2] = aten.gather.default(%0, 1, %1, false)\n"
		"return %2\n",
		{ "f32[2, 3]{1, 2, 3, 4, 5, 6}", "i32[2, 2]{0, 2, 1, 0}", "f32[2, 2]{1, 3, 5, 4}" } },
	{ "gather below 0",
		"%0: f32[2, 3] = input\n%1: i32[2, 2] = input\n%2: f32[2, 2] = aten.gather.default(%0, 1, %1, false)\n"
		"return %2\n",
		{ "f32[2, 3]{1, 2, 3, 4, 5, 6}", "i32[2, 2]{0, -1, 1, 0}", "f32[2, 2]{1, 3, 5, 4}" },
		INFERD_DELEGATE_E_ARGUMENT, "an index in a tensor is out of range" },
	{ "index from the end, int64",
		"%0: f32[3, 2] = input\n%1: i32[2] = input\n%2: f32[2, 2] = aten.index.Tensor(%0, [%1])\nreturn %2\n",
		{ "f32[3, 2]{1, 2, 3, 4, 5, 6}", "i64[2]{-1, 0}", "f32[2, 2]{5, 6, 1, 2}" } },
	{ "index behind the end",
		"%0: f32[3, 2] = input\n%1: i32[2] = input\n%2: f32[2, 2] = aten.index.Tensor(%0, [%1])\nreturn %2\n",
		{ "f32[3, 2]{1, 2, 3, 4, 5, 6}", "i64[2]{0, 3}", "f32[2, 2]{5, 6, 1, 2}" }, INFERD_DELEGATE_E_ARGUMENT,
		"an index in a tensor is out of range" },
	{ "an embedding's index that does not fit 32 bits",
		"%0: f32[3, 2] = constant {1, 2, 3, 4, 5, 6}\n%1: i32[1] = input\n"
		"%2: f32[1, 2] = aten.embedding.default(%0, %1, -1, false, false)\nreturn %2\n",
		{ "i64[1]{4294967297}", "f32[1, 2]{3, 4}" }, INFERD_DELEGATE_E_ARGUMENT,
		"an index in a tensor is out of range" },
	{ "mm", "%0: f32[2, 3] = input\n%1: f32[3, 2] = input\n%2: f32[2, 2] = aten.mm.default(%0, %1)\nreturn %2\n",
		{ "f32[2, 3]{1, 2, 3, 4, 5, 6}", "f32[3, 2]{1, 0, 0, 1, 1, 1}", "f32[2, 2]{4, 5, 10, 11}" } },
	{ "four bits, the even one high",
		"%0: f32[1, 4] = input\n%1: u8[2, 2] = constant {154, 120, 136, 240}\n%2: f32[2] = constant {0.5, 2}\n"
		"%3: f32[1, 2] = et_vk.linear_qcs4w.default(%0, %1, %2)\nreturn %3\n",
		{ "f32[1, 4]{1, 2, 3, 4}", "f32[1, 2]{1, -22}" } },
	{ "four bits in groups, the even one low",
		"%0: f32[1, 4] = input\n%1: u8[1, 2] = constant {154, 120}\n%2: f32[2, 1] = constant {0.5, 2}\n"
		"%3: f32[1] = constant {10}\n%4: f32[1, 1] = et_vk.linear_q4gsw.default(%0, %1, %2, 2, %3)\nreturn %4\n",
		{ "f32[1, 4]{1, 2, 3, 4}", "f32[1, 1]{4}" } },
	{ "dequantize by channel",
		"%0: i8[2, 2] = input\n%1: f32[2] = constant {0.5, 2}\n%2: i32[2] = constant {1, 0}\n"
		"%3: f32[2, 2] = quantized_decomposed.dequantize_per_channel.default(%0, %1, %2, 0, -128, 127, none, none)\n"
		"return %3\n",
		{ "i8[2, 2]{1, 2, 3, 4}", "f32[2, 2]{0, 0.5, 6, 8}" } },
	{ "quantize rounds half to even, and saturates",
		"%0: f32[5] = input\n"
		"%1: i8[5] = quantized_decomposed.quantize_per_tensor.default(%0, 1.0, 0, -128, 127, none)\nreturn %1\n",
		{ "f32[5]{0.5, 1.5, -2.5, 1000, -1000}", "i8[5]{0, 2, -2, 127, -128}" } },
	{ "batch norm",
		"%0: f32[1, 2, 2] = input\n%1: f32[2] = constant {1, 2}\n%2: f32[2] = constant {0, 1}\n"
		"%3: f32[2] = constant {1, 3}\n%4: f32[2] = constant {4, 1}\n"
		"%5: f32[1, 2, 2], %6: f32[0], %7: f32[0] = "
		"aten._native_batch_norm_legit_no_training.default(%0, %1, %2, %3, %4, 0.1, 0.0)\nreturn %5\n",
		{ "f32[1, 2, 2]{1, 2, 3, 4}", "f32[1, 2, 2]{0, 0.5, 1, 3}" } },
	{ "attention with a mask",
		"%0: f32[1, 1, 1, 2] = input\n%1: f32[1, 1, 2, 2] = input\n%2: f32[1, 1, 2, 2] = input\n"
		"%3: f32[1, 2] = input\n%4: f32[1, 1, 1, 2] = et_vk.sdpa.default(%0, %1, %2, %3, none)\nreturn %4\n",
		{ "f32[1, 1, 1, 2]{1, 1}", "f32[1, 1, 2, 2]{1, 1, 1, 1}", "f32[1, 1, 2, 2]{1, 2, 3, 4}",
			"f32[1, 2]{0, -inf}", "f32[1, 1, 1, 2]{1, 2}" } },
	{ "attention without",
		"%0: f32[1, 1, 1, 2] = input\n%1: f32[1, 1, 2, 2] = input\n%2: f32[1, 1, 2, 2] = input\n"
		"%4: f32[1, 1, 1, 2] = et_vk.sdpa.default(%0, %1, %2, none, none)\nreturn %4\n",
		{ "f32[1, 1, 1, 2]{1, 1}", "f32[1, 1, 2, 2]{1, 1, 1, 1}", "f32[1, 1, 2, 2]{1, 2, 3, 4}",
			"f32[1, 1, 1, 2]{2, 3}" } },
	{ "floor division of ints",
		"%0: i32[4] = input\n%1: i32[4] = input\n%2: i32[4] = aten.div.Tensor_mode(%0, %1, \"floor\")\nreturn %2\n",
		{ "i32[4]{7, -7, 7, -8}", "i32[4]{2, 2, 0, -1}", "i32[4]{3, -4, 0, 8}" } },
	{ "the division that does not fit",
		"%0: i32[1] = input\n%1: i32[1] = input\n%2: i32[1] = aten.div.Tensor_mode(%0, %1, \"trunc\")\nreturn %2\n",
		{ "i32[1]{-2147483648}", "i32[1]{-1}", "i32[1]{-2147483648}" } },
	{ "padding that also takes away",
		"%0: f32[1, 4] = input\n%1: f32[1, 5] = aten.constant_pad_nd.default(%0, [-1, 2], 9.0)\nreturn %1\n",
		{ "f32[1, 4]{1, 2, 3, 4}", "f32[1, 5]{2, 3, 4, 9, 9}" } },
	{ "a cast",
		"%0: f32[3] = input\n"
		"%1: i32[3] = dim_order_ops._to_dim_order_copy.default(%0, none, none, none, none, none, none)\nreturn %1\n",
		{ "f32[3]{1.9, -1.9, 7}", "i64[3]{1, -1, 7}" } },
	{ "NaN is the largest", "%0: f32[2, 3] = input\n%1: f32[2] = aten.amax.default(%0, [1], false)\nreturn %1\n",
		{ "f32[2, 3]{1, nan, 3, 4, 6, 5}", "f32[2]{nan, 6}" } },
	{ "the first one wins", "%0: f32[4] = input\n%1: i32[1] = aten.argmax.default(%0, 0, true)\nreturn %1\n",
		{ "f32[4]{1, 3, 3, 2}", "i64[1]{1}" } },
	{ "half", "%0: f16[3] = input f32\n%1: f16[3] = aten.mul.Tensor(%0, %0)\nreturn %1 f32\n",
		{ "f32[3]{1, 2, 300}", "f32[3]{1, 4, inf}" } },
	{ "an input and an output twice", "%0: f32[2] = input\n%1: f32[2] = aten.relu.default(%0)\nreturn %0, %1, %1\n",
		{ "f32[2]{-1, 2}", "f32[2]{-1, 2}", "f32[2]{0, 2}", "f32[2]{0, 2}" } },
	{ "a constant as an output",
		"%0: f32[1] = input\n%1: f32[2] = constant {5, 6}\n%2: f32[1] = aten.relu.default(%0)\nreturn %1, %2\n",
		{ "f32[1]{-1}", "f32[2]{5, 6}", "f32[1]{0}" } },
	{ "sizes that are computed",
		"%0: f32[4] = input\n%1: symbol = sym_size.int(%0, 0)\n%2: symbol = mul(%1, 3)\n%3: symbol = sub(%2, 1)\n"
		"%4: symbol = floordiv(%3, 2)\n%5: f32[5] = aten.full.default([%4], 7.0, none, none, none, none)\n"
		"return %5\n",
		{ "f32[3]{1, 2, 3}", "f32[4]{7, 7, 7, 7}" } },
	{ "no elements", "%0: f32[4, 2] = input\n%1: f32[4, 2] = aten.exp.default(%0)\nreturn %1\n",
		{ "f32[0, 2]{}", "f32[0, 2]{}" } },
	{ "more than the largest size", "%0: f32[2] = input\n%1: f32[2] = aten.exp.default(%0)\nreturn %1\n",
		{ "f32[3]{0, 0, 0}", "f32[3]{1, 1, 1}" }, INFERD_DELEGATE_E_ARGUMENT,
		"has size 3 in dimension 0, at most 2" },
	{ "another type", "%0: f32[2] = input\n%1: f32[2] = aten.exp.default(%0)\nreturn %1\n",
		{ "i32[2]{0, 0}", "f32[2]{1, 1}" }, INFERD_DELEGATE_E_ARGUMENT,
		"has type INT32, the payload has FP32" },
	{ "a window of 2^40 elements over four",
		"%0: f32[1, 1, 2, 2] = input\n%1: f32[1, 1, 3, 3], %2: i32[1, 1, 3, 3] = "
		"aten.max_pool2d_with_indices.default(%0, [1048576, 1048576], [1, 1], [524288, 524288], [1, 1], false)\n"
		"return %1, %2\n",
		{ "f32[1, 1, 2, 2]{1, 2, 3, 4}", "f32[1, 1, 3, 3]{4, 4, 4, 4, 4, 4, 4, 4, 4}",
			"i64[1, 1, 3, 3]{3, 3, 3, 3, 3, 3, 3, 3, 3}" } },
	{ "an average over an end that is not there",
		"%0: f32[1, 1, 3, 3] = input\n"
		"%1: f32[1, 1, 2, 2] = aten.avg_pool2d.default(%0, [2, 2], [2, 2], [0, 0], true, true, none)\nreturn %1\n",
		{ "f32[1, 1, 3, 3]{1, 2, 3, 4, 5, 6, 7, 8, 9}", "f32[1, 1, 2, 2]{3, 4.5, 7.5, 9}" } },
};

/* Turn "f32[2]{1, 2}" into the output "f32[2]". */
static void add_output(struct rig_run *run, const char *text)
{
	char type[64];
	snprintf(type, sizeof(type), "%.*s", (int)strcspn(text, "{"), text);
	rig_arg(run, type);
}

static void try_example(struct rig *rig, const struct example *example)
{
	struct inferd_delegate_model *model;
	struct inferd_delegate_model_info info;
	struct inferd_delegate_instance *instance;
	struct rig_run run = { .n = 0 };
	if (rig_init(rig, example->graph, &model, &info))
		fail_msg("%s: %s", example->name, rig->message.text);
	assert_int_equal(rig->table->instance_new(model, &instance, &rig->message), 0);
	for (uint32_t i = 0; i < info.n_inputs + info.n_outputs; i++)
		(i < info.n_inputs ? rig_arg : add_output)(&run, example->args[i]);
	int result = rig_execute(rig, model, instance, &run);
	if (result != example->result || (result && !strstr(rig->message.text, example->says)))
		fail_msg("%s: %d, %s", example->name, result, rig->message.text);
	for (uint32_t i = 0; i < info.n_outputs && !result; i++)
		rig_expect(&run, info.n_inputs + i, example->args[info.n_inputs + i], example->name);
	rig->table->instance_free(instance);
	rig->table->destroy(model);
}

static void try_examples(const char *fuse)
{
	struct rig rig;
	rig_load(&rig);
	rig_set(&rig, "fuse", fuse);
	if (!rig_open_driver(&rig))
		skip();
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++)
		try_example(&rig, &examples[i]);
	rig_close(&rig);
}

static void test_examples(void **state)
{
	try_examples("yes");
}

static void test_plain_examples(void **state)
{
	try_examples("no");
}

/* What cannot be run is refused at load, and the operator is named. */
static void test_refused(void **state)
{
	static const struct {
		const char *graph, *says;
	} cases[] = {
		{ "%0: f64[2] = input\n%1: f64[2] = aten.abs.default(%0)\nreturn %1\n",
			"aten.abs.default: a tensor has type" },
		{ "%0: i32[2] = input\n%1: i32[2] = aten.exp.default(%0)\nreturn %1\n", "aten.exp.default: " },
		{ "%0: f32[2] = input\n%1: f32[2] = aten.gelu.default(%0, \"sine\")\nreturn %1\n",
			"aten.gelu.default" },
		{ "%0: f32[3, 2] = input\n%1: f32[2] = input\n%2: f32[2, 2] = aten.index.Tensor(%0, [%1])\nreturn %2\n",
			"aten.index.Tensor" },
	};
	struct inferd_delegate_model *model;
	struct inferd_delegate_model_info info;
	struct rig rig;
	rig_load(&rig);
	if (!rig_open_driver(&rig))
		skip();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(rig_init(&rig, cases[i].graph, &model, &info) != 0);
		if (!strstr(rig.message.text, cases[i].says))
			fail_msg("'%s' does not say '%s'", rig.message.text, cases[i].says);
	}
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_examples), cmocka_unit_test(test_plain_examples),
		cmocka_unit_test(test_refused) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
