/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of overrides: each row has a name of its own, a reason, and a line in docs/overrides.md; the option
 * overrides switches rows off, but not for nodes that need them. And the choice of the GEMM that some of them use. */
#include "delegates/xnnpack/gemm_choice.h"
#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/support/test_args.h"
#include "delegates/xnnpack/ukernels/depthwise.h"
#include "delegates/xnnpack/ukernels/gemm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void test_rows(void **state)
{
	static char text[1 << 16];
	FILE *file = fopen(OVERRIDES_MD, "r");
	assert_non_null(file);
	size_t n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	assert_in_range(n, 1, sizeof(text) - 2);
	for (size_t i = 0; et_xnn_override_at(i); i++) {
		const struct et_xnn_override *row = et_xnn_override_at(i);
		char cell[80];
		snprintf(cell, sizeof(cell), "| `%s` |", row->name);
		if (!strstr(text, cell))
			fail_msg("docs/overrides.md has no line for %s", row->name);
		assert_true(strncmp(row->reason, "speed: ", 7) == 0 || strncmp(row->reason, "correctness: ", 13) == 0);
		assert_true(!row->is_required || row->reason[0] == 'c');
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(row->name, et_xnn_override_at(j)->name);
	}
}

static void test_option(void **state)
{
	uint32_t off = 7;
	assert_true(et_xnn_overrides_parse("all", &off));
	assert_int_equal(off, 0);
	assert_true(et_xnn_overrides_parse("none", &off));
	assert_int_equal(off, UINT32_MAX);
	assert_true(et_xnn_overrides_parse("-depthwise-fp32", &off));
	assert_ptr_equal(et_xnn_override_at(0), &et_xnn_override_depthwise);
	assert_int_equal(off, 1);
	assert_true(et_xnn_overrides_parse("-depthwise-fp32,-depthwise-fp16", &off));
	assert_int_equal(off, 3);
	static const char *const wrong[] = { "", "-", "depthwise-fp32", "-depthwise", "-depthwise-fp32,", ",",
		"-depthwise-fp32 ", "all,-depthwise-fp32", "-depthwise-fp32,,-depthwise-fp16", "none " };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_false(et_xnn_overrides_parse(wrong[i], &off));
		assert_int_equal(off, 3);
	}
}

/* A depthwise convolution of @kernel x @kernel over [1, 9, 9, 16], compiled with the option. */
static void compile(uint32_t kernel, const char *overrides, const struct et_xnn_override *expected)
{
	static float taps[16 * 9];
	const uint32_t pad = kernel / 2;
	const struct et_option option = { "xnnpack", "overrides", overrides };
	struct et_payload payload = { .n_args = 2, .options = &option, .n_options = 1 };
	struct et_model *model;
	struct et_model_info info;
	struct et_diag diag = { 0 };
	struct make_xnn mk;
	mx_init(&mk);
	uint32_t x = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 9, 9, 16), .input = 1 }),
		 filter = mx_value(&mk,
			 &(struct mx_value){ .type = ET_XNN_FP32,
				 MX_DIMS(1, kernel, kernel, 16),
				 .constant = mx_constant(&mk, taps, 16 * kernel * kernel * sizeof(float)) }),
		 out = mx_value(&mk, &(struct mx_value){ .type = ET_XNN_FP32, MX_DIMS(1, 9, 9, 16), .output = 2 });
	mx_node(&mk, MX_DEPTHWISE,
		&(struct et_xnn_node){ .inputs = { x, filter, ET_XNN_NONE },
			.outputs = { out },
			.numbers = { pad, pad, pad, pad, kernel, kernel, 1, 1, 1, 1, 1, 1, 16 } });
	uint8_t *bytes = mx_finish(&mk, &payload.n_bytes);
	payload.bytes = bytes;
	test_ok(test_ops->compile(test_backend, &payload, &model, &info, &diag), &diag);
	assert_ptr_equal(et_direct_model(model)->model->partitions.partitions[0].override, expected);
	test_ops->model_free(model);
	free(bytes);
}

static void test_switched_off(void **state)
{
	const struct et_xnn_override *row = &et_xnn_override_depthwise;
	et_xnn_override_set_least_work(0);
	compile(3, "all", et_depthwise() ? row : NULL);
	compile(3, "-depthwise-fp16", et_depthwise() ? row : NULL);
	compile(3, "-depthwise-fp32", NULL);
	compile(3, "none", NULL);
	compile(1, "none", row); /* XNNPACK would lose NaNs */
}

static void test_refused_option(void **state)
{
	static const struct et_option options[] = { { "xnnpack", "overrides", "-everything" },
		{ "xnnpack", "tint", "red" } };
	static const char *const said[] = { "is all, none or -NAME,-NAME..., not '-everything'", "no option 'tint'" };
	for (int i = 0; i < 2; i++) {
		struct et_payload payload = { .options = &options[i], .n_options = 1 };
		struct et_direct_config config = { .options = &options[i], .n_options = 1 };
		struct et_backend_entry entry;
		struct et_model *model;
		struct et_model_info info;
		struct et_diag diag = { 0 };
		test_refused(test_ops->compile(test_backend, &payload, &model, &info, &diag), ET_E_INVALID_PROGRAM,
			&diag, said[i]);
		test_refused(et_direct_open(&entry, &et_xnnpack_delegate, &config, &test_allocator, NULL, &diag),
			ET_E_INVALID_PROGRAM, &diag, said[i]);
	}
}

/* What was measured when the first backend was opened holds, and is a build that this processor runs. */
static void test_gemm_is_chosen_once(void **state)
{
	const struct et_xnn_gemm_build *chosen = et_xnn_gemm();
	bool runs = !chosen;
	for (size_t i = 0; et_xnn_gemm_at(i); i++)
		runs = runs || et_xnn_gemm_at(i) == chosen;
	assert_true(runs);
	size_t n_calls = test_counting.n_calls;
	et_xnn_choose_gemm(&test_allocator);
	assert_ptr_equal(et_xnn_gemm(), chosen);
	assert_int_equal(test_counting.n_calls, n_calls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_option),
		cmocka_unit_test_setup_teardown(test_switched_off, test_set_up, test_tear_down_choices),
		cmocka_unit_test_setup_teardown(test_refused_option, test_set_up, test_tear_down),
		cmocka_unit_test_setup_teardown(test_gemm_is_chosen_once, test_set_up, test_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
