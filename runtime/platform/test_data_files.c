/* SPDX-License-Identifier: BSD-3-Clause */
/* Data files: the exporter's own files, shared by programs, alive longer than the caller that opened them. */
#include "runtime/platform/platform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char data_path[] = EXTERNAL_MODELS "/_default_external_constant.ptd";

static void add(struct et_platform_data *data)
{
	struct et_source source;
	struct et_diag diag = { "" };
	assert_int_equal(et_platform_source_open(&source, data_path, NULL, NULL, &diag), ET_OK);
	assert_int_equal(et_platform_data_add(data, &source, "mine", &diag), ET_OK);
}

static struct et_program *open_program(struct et_platform_data *data)
{
	struct et_program *program;
	struct et_source source;
	struct et_diag diag = { "" };
	assert_int_equal(et_platform_source_open(&source, EXTERNAL_MODELS "/mlp.bpte", NULL, NULL, &diag), ET_OK);
	assert_int_equal(et_platform_data_bind(data, &source, &diag), ET_OK);
	assert_int_equal(et_program_open(&program, &source, et_platform_data_table(data), et_platform_allocator(),
				 &diag),
		ET_OK);
	return program;
}

/* Read the bytes of all constants: a sanitizer notices if any are freed. */
static unsigned sum_of_constants(const struct et_program *program)
{
	const struct et_method_spec *method = et_program_method_at(program, 0);
	unsigned sum = 0;
	for (uint32_t i = 0; i < method->n_values; i++) {
		const struct et_tensor_spec *tensor = method->values[i].tag == ET_TAG_TENSOR ? method->values[i].tensor
											     : NULL;
		for (size_t k = 0; tensor && tensor->storage == ET_STORAGE_CONSTANT && k < tensor->n_bytes; k++)
			sum += tensor->constant[k];
	}
	return sum;
}

static void programs_keep_their_data(void **state)
{
	struct et_platform_data *data = et_platform_data_new();
	assert_null(et_platform_data_table(data));
	assert_null(et_platform_data_table(NULL));
	assert_int_equal(et_platform_data_n_bytes(data), 0);
	add(data);
	assert_int_equal(et_platform_data_n_bytes(data), 11560);
	struct et_program *one = open_program(data), *other = open_program(data);
	assert_null(et_platform_data_unref(data));
	unsigned sum = sum_of_constants(one);
	assert_true(sum > 0);
	assert_null(et_program_unref(one));
	assert_int_equal(sum_of_constants(other), sum);
	et_program_unref(other);
	assert_null(et_platform_data_unref(NULL));
}

static void too_many_data_files_are_refused(void **state)
{
	struct et_platform_data *data = et_platform_data_new();
	struct et_source source;
	struct et_diag diag = { "" };
	for (int i = 0; i < ET_PLATFORM_MAX_DATA; i++)
		add(data);
	assert_int_equal(et_platform_source_open(&source, data_path, NULL, NULL, &diag), ET_OK);
	assert_int_equal(et_platform_data_add(data, &source, "mine", &diag), ET_E_NOT_SUPPORTED);
	assert_string_equal(diag.text, "mine: a program can have 15 data files");
	source.release(source.owner);
	et_platform_data_unref(data);
}

static void other_files_stay_the_callers(void **state)
{
	struct et_platform_data *data = et_platform_data_new();
	struct et_source source;
	struct et_diag diag = { "" };
	assert_int_equal(et_platform_source_open(&source, EXTERNAL_MODELS "/mlp.bpte", NULL, NULL, &diag), ET_OK);
	assert_int_equal(et_platform_data_add(data, &source, "mine", &diag), ET_E_INVALID_EXTERNAL_DATA);
	assert_string_equal(diag.text, "mine: not a data file of version FT01");
	source.release(source.owner);
	assert_null(et_platform_data_table(data));
	et_platform_data_unref(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs_keep_their_data),
		cmocka_unit_test(too_many_data_files_are_refused),
		cmocka_unit_test(other_files_stay_the_callers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
