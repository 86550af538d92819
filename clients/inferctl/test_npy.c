/* SPDX-License-Identifier: BSD-3-Clause */
/* Test npy: values survive a write and a read, and malformed files are refused. */
#include "clients/inferctl/npy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static int read_bytes(const void *bytes, size_t n, struct ctl_value *ret, void **ret_memory, char *error)
{
	FILE *file = fmemopen((void *)(uintptr_t)bytes, n, "r");
	int rc;
	assert_non_null(file);
	rc = ctl_npy_read(file, ret, ret_memory, error, 256);
	fclose(file);
	return rc;
}

static size_t write_bytes(const struct ctl_value *value, char **ret_bytes)
{
	size_t n = 0;
	FILE *file = open_memstream(ret_bytes, &n);
	assert_non_null(file);
	assert_int_equal(ctl_npy_write(file, value), 0);
	fclose(file);
	return n;
}

static void test_there_and_back(void **state)
{
	const float data[] = { 1, 2, 3, 4, 5, 6 };
	struct ctl_value value = { .tag = ET_TAG_TENSOR,
		.type = ET_FLOAT32,
		.n_dims = 3,
		.sizes = { 1, 2, 3 },
		.dim_order = { 0, 1, 2 },
		.data = (const uint8_t *)data,
		.n_bytes = sizeof(data) };
	struct ctl_value back;
	char *bytes, error[256];
	void *memory;
	size_t n = write_bytes(&value, &bytes);

	assert_int_equal((n - sizeof(data)) % 64, 0); /* NumPy wants the data aligned */
	assert_memory_equal(bytes, "\x93NUMPY\x01\x00", 8);
	assert_non_null(strstr(bytes + 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3), }"));
	assert_int_equal(read_bytes(bytes, n, &back, &memory, error), 0);
	assert_int_equal(back.n_dims, 3);
	assert_memory_equal(back.sizes, value.sizes, 3 * sizeof(int32_t));
	assert_int_equal(back.n_bytes, sizeof(data));
	assert_memory_equal(back.data, data, sizeof(data));
	free(memory);
	/* every cut is noticed */
	for (size_t cut = 1; cut < n; cut++)
		assert_int_equal(read_bytes(bytes, cut, &back, &memory, error), -1);
	free(bytes);
}

/* Every type that is written under a name of its own comes back as itself. */
static void test_types(void **state)
{
	static const uint8_t types[] = { ET_FLOAT32, ET_FLOAT64, ET_FLOAT16, ET_INT64, ET_INT32, ET_INT16, ET_INT8,
		ET_UINT8, ET_BOOL, ET_UINT16, ET_UINT32, ET_UINT64, ET_COMPLEX64, ET_COMPLEX128 };
	static const uint8_t zeros[2 * 16];
	for (size_t i = 0; i < sizeof(types); i++) {
		struct ctl_value back, value = { .tag = ET_TAG_TENSOR,
			.type = types[i],
			.n_dims = 1,
			.sizes = { 2 },
			.data = zeros,
			.n_bytes = 2 * et_scalar_size(types[i]) };
		char *bytes, error[256];
		void *memory;
		size_t n = write_bytes(&value, &bytes);
		assert_int_equal(read_bytes(bytes, n, &back, &memory, error), 0);
		assert_int_equal(back.type, types[i]);
		assert_int_equal(back.n_bytes, value.n_bytes);
		free(memory);
		free(bytes);
	}
}

static void test_orders(void **state)
{
	/* [[0,1,2],[3,4,5]] column by column: Fortran order, kept as it is */
	const int16_t columns[] = { 0, 3, 1, 4, 2, 5 };
	/* [1,2,2,1] channels last: neither C nor Fortran order, written row by row */
	const int16_t last[] = { 10, 20, 11, 21 };
	struct ctl_value value = { .tag = ET_TAG_TENSOR,
		.type = ET_INT16,
		.n_dims = 2,
		.sizes = { 2, 3 },
		.dim_order = { 1, 0 },
		.data = (const uint8_t *)columns,
		.n_bytes = sizeof(columns) };
	struct ctl_value back;
	char *bytes, error[256];
	void *memory;
	size_t n = write_bytes(&value, &bytes);

	assert_int_equal(read_bytes(bytes, n, &back, &memory, error), 0);
	for (int i = 0; i < 6; i++)
		assert_int_equal(ctl_value_at(&back, (size_t)i).i, i);
	free(memory);
	free(bytes);

	value = (struct ctl_value){ .tag = ET_TAG_TENSOR,
		.type = ET_INT16,
		.n_dims = 4,
		.sizes = { 1, 2, 2, 1 },
		.dim_order = { 0, 2, 3, 1 },
		.data = (const uint8_t *)last,
		.n_bytes = sizeof(last) };
	n = write_bytes(&value, &bytes);
	assert_int_equal(read_bytes(bytes, n, &back, &memory, error), 0);
	assert_memory_equal(back.data, ((int16_t[]){ 10, 11, 20, 21 }), sizeof(last));
	free(memory);
	free(bytes);
}

static void test_numbers(void **state)
{
	struct ctl_value value = { .tag = ET_TAG_DOUBLE, .d = 2.5 }, back;
	char *bytes, error[256];
	void *memory;
	size_t n = write_bytes(&value, &bytes);
	assert_int_equal(read_bytes(bytes, n, &back, &memory, error), 0);
	assert_int_equal(back.n_dims, 0);
	assert_int_equal(back.type, ET_FLOAT64);
	assert_true(ctl_value_at(&back, 0).d == 2.5);
	free(memory);
	free(bytes);
}

static int read_header(const char *header, char *error)
{
	uint8_t bytes[400];
	size_t n = strlen(header);
	struct ctl_value value;
	void *memory;
	memcpy(bytes, "\x93NUMPY\x01\x00", 8);
	bytes[8] = (uint8_t)n;
	bytes[9] = (uint8_t)(n >> 8);
	memcpy(bytes + 10, header, n);
	memset(bytes + 10 + n, 0, 16);
	if (read_bytes(bytes, 10 + n + 16, &value, &memory, error) < 0)
		return -1;
	free(memory);
	return 0;
}

static void test_hostile_headers(void **state)
{
	static const char *const bad[] = {
		"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }",
		"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
		"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999,), }",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2147483647, 2147483647, 2147483647), }",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2000000000,), }", /* no such data follows */
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1, x), }",
		"{'descr': '<f4', 'fortran_order': False, }",
		"{'descr': '<f4",
		"",
		"'",
		"{'shape'",
	};
	char error[256];
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		error[0] = 0;
		assert_int_equal(read_header(bad[i], error), -1);
		assert_true(error[0] != 0);
	}
	assert_int_equal(read_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", error), 0);
	assert_int_equal(read_header("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", error), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_orders),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_hostile_headers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
