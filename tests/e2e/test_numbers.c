/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs and outputs that are not tensors: numbers, bools, strings, and arguments that a program leaves out. */
#include "tests/e2e/harness.h"

#include "tests/support/make_program.h"

#include <stdlib.h>
#include <string.h>

/* (x, None, n, flag) -> (None, x + n x, n + 0.5, n < 3, flag). Of its numbers it says that they are INT, as the
 * exporter does of those that only a run decides. */
static uint8_t *program(size_t *ret_n_bytes)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 64);
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = 16 });
	int left_out = mk_none(&mk), n = mk_int(&mk, 2), flag = mk_bool(&mk, false);
	int more = mk_int(&mk, 0), is_less = mk_int(&mk, 0);
	int half = mk_double(&mk, 0.5), three = mk_int(&mk, 3);
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(x, x, n, y, y));
	mk_kernel(&mk, mk_operator(&mk, "executorch_prim::add", "Scalar"), MK_ARGS(n, half, more));
	mk_kernel(&mk, mk_operator(&mk, "executorch_prim::lt", "Scalar"), MK_ARGS(n, three, is_less));
	const int inputs[] = { x, left_out, n, flag }, outputs[] = { left_out, y, more, is_less, flag };
	for (size_t i = 0; i < sizeof(inputs) / sizeof(*inputs); i++)
		mk_input(&mk, inputs[i]);
	for (size_t i = 0; i < sizeof(outputs) / sizeof(*outputs); i++)
		mk_output(&mk, outputs[i]);
	return mk_finish(&mk, ret_n_bytes);
}

static void test_what_is_left_out(void **state)
{
	struct inferd_binding *b = NULL;
	struct inferd_method *m = NULL;
	struct e2e e;
	double number;
	int64_t integer;
	e2e_init(&e);
	e2e_put_program(&e, "numbers.pte", program);
	e2e_start(&e, NULL);
	struct inferd *d = e2e_connect(&e);
	assert_int_equal(inferd_method_open(d, &m, "numbers", NULL), 0);
	assert_string_equal(inferd_input_info(m, 1)->datatype, "None");
	if (inferd_bind(m, &b) < 0)
		fail_msg("%s", inferd_error(d));
	assert_null(inferd_input(b, 1));
	assert_null(inferd_output(b, 0));
	assert_string_equal(inferd_output_datatype(b, 1), "FP32");
	assert_string_equal(inferd_output_datatype(b, 2), "None"); /* nothing was asked yet */
	assert_null(inferd_output_datatype(b, 5));

	assert_int_equal(inferd_set_scalar_int(b, 1, 1), -INFERD_INVALID_ARGUMENT);
	assert_string_equal(inferd_error(d), "input_1 takes no value: the program leaves it out");
	assert_int_equal(inferd_set_scalar_int(b, 0, 1), -INFERD_INVALID_ARGUMENT);
	assert_string_equal(inferd_error(d), "input_0 is a tensor, not a number");
	assert_int_equal(inferd_infer(b, NULL), -INFERD_INVALID_ARGUMENT);
	assert_non_null(strstr(inferd_error(d), "input_2 is a number"));

	for (int n = 2; n < 4; n++) {
		for (int i = 0; i < 4; i++)
			((float *)inferd_input(b, 0))[i] = (float)i;
		assert_int_equal(inferd_set_scalar_int(b, 2, n), 0);
		assert_int_equal(inferd_set_scalar(b, 3, n == 3), 0);
		if (inferd_infer(b, NULL) < 0)
			fail_msg("%s", inferd_error(d));
		assert_true(((float *)inferd_output(b, 1))[3] == (float)(3 + 3 * n));
		assert_string_equal(inferd_output_datatype(b, 0), "None");
		assert_int_equal(inferd_output_scalar(b, 0, &number), -INFERD_INVALID_ARGUMENT);
		assert_string_equal(inferd_output_datatype(b, 2), "DOUBLE"); /* its info says INT */
		assert_string_equal(inferd_output_info(m, 2)->datatype, "INT");
		assert_int_equal(inferd_output_scalar(b, 2, &number), 0);
		assert_true(number == n + 0.5);
		assert_string_equal(inferd_output_datatype(b, 3), "BOOL");
		assert_int_equal(inferd_output_scalar_int(b, 3, &integer), 0);
		assert_int_equal(integer, n < 3);
		assert_string_equal(inferd_output_datatype(b, 4), "BOOL");
		assert_int_equal(inferd_output_scalar_int(b, 4, &integer), 0);
		assert_int_equal(integer, n == 3);
	}
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

enum { MANY = 200 * 1000 };

/* Nothing -> ("", "brief", one of MANY letters, the same, "last"); and of `moved` one of two. */
static uint8_t *strings(size_t *ret_n_bytes)
{
	char *many = calloc(MANY + 1, 1);
	struct make_program mk;
	assert_non_null(many);
	memset(many, 'm', MANY);
	mk_init(&mk);
	mk_method(&mk, "forward");
	mk_output(&mk, mk_string(&mk, ""));
	mk_output(&mk, mk_string(&mk, "brief"));
	int long_one = mk_string(&mk, many);
	mk_output(&mk, long_one);
	mk_output(&mk, long_one);
	mk_output(&mk, mk_string(&mk, "last"));
	mk_method(&mk, "moved");
	int one = mk_string(&mk, "one"), other = mk_string(&mk, "other");
	mk_move(&mk, one, other);
	mk_output(&mk, other);
	free(many);
	return mk_finish(&mk, ret_n_bytes);
}

/* Told when the Method is opened, as far as there is room; what may be another one each time is not. */
static void test_strings(void **state)
{
	struct inferd_method *m = NULL;
	struct inferd_binding *b = NULL;
	struct e2e e;
	size_t n;
	e2e_init(&e);
	e2e_put_program(&e, "strings.pte", strings);
	e2e_start(&e, NULL);
	struct inferd *d = e2e_connect(&e);
	assert_int_equal(inferd_method_open(d, &m, "strings", NULL), 0);
	assert_string_equal(inferd_output_info(m, 0)->datatype, "String");
	assert_string_equal(inferd_output_text(m, 0, &n), "");
	assert_int_equal(n, 0);
	assert_string_equal(inferd_output_text(m, 1, &n), "brief");
	assert_int_equal(n, 5);
	assert_int_equal(strspn(inferd_output_text(m, 2, &n), "m"), MANY);
	assert_int_equal(n, MANY);
	assert_null(inferd_output_text(m, 3, &n)); /* both are more than is told */
	assert_int_equal(n, 0);
	assert_string_equal(inferd_output_text(m, 4, &n), "last");
	assert_null(inferd_output_text(m, 5, &n));
	assert_int_equal(inferd_bind(m, &b), 0);
	assert_int_equal(inferd_infer(b, NULL), 0);
	assert_string_equal(inferd_output_datatype(b, 1), "String");
	const struct inferd_method_options moved = { .struct_size = sizeof moved, .method = "moved" };
	assert_int_equal(inferd_method_open(d, &m, "strings", &moved), 0);
	assert_string_equal(inferd_output_info(m, 0)->datatype, "String");
	assert_null(inferd_output_text(m, 0, &n));
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_left_out),
		cmocka_unit_test(test_strings),
	};
	return e2e_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
