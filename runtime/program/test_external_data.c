/* SPDX-License-Identifier: BSD-3-Clause */
/* Data files made by hand, and the exporter's own files if the models folder is beside the checkout. */
#include "runtime/program/external_data.h"
#include "runtime/program/flatbuffer.h"
#include "tests/support/counting_alloc.h"
#include "tests/support/fb_build.h"
#include "tests/support/make_program.h"
#include "tests/support/walk_program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { N_HEADER = 40, N_WEIGHTS = 4 };
static const float weights[N_WEIGHTS] = { 1, 2, 3, 4 };

static void put(uint8_t *at, uint64_t value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

/* "w": a 2 by 2 tensor; "blob": three bytes. */
static uint8_t *make_file_of(size_t *ret_n_bytes, uint64_t blob_at, uint64_t n_blob)
{
	const int32_t sizes[] = { 2, 2 };
	const uint8_t order[] = { 0, 1 };
	struct fb_build b;
	fbb_init(&b);
	fbb_ref segments[2], named[2];
	for (int i = 0; i < 2; i++) {
		fbb_table_begin(&b);
		fbb_add_u64(&b, 0, i ? blob_at : 0);
		fbb_add_u64(&b, 1, i ? n_blob : sizeof weights);
		segments[i] = fbb_table_end(&b);
		fbb_ref key = fbb_string(&b, i ? "blob" : "w");
		fbb_ref own_sizes = fbb_vector(&b, sizes, 2, 4, 4);
		fbb_ref own_order = fbb_vector(&b, order, 2, 1, 4);
		fbb_table_begin(&b);
		fbb_add_u8(&b, 0, ET_FLOAT32);
		fbb_add_ref(&b, 1, own_sizes);
		fbb_add_ref(&b, 2, own_order);
		fbb_ref layout = fbb_table_end(&b);
		fbb_table_begin(&b);
		fbb_add_ref(&b, 0, key);
		fbb_add_u32(&b, 1, (uint32_t)i);
		fbb_add_ref(&b, 2, i ? 0 : layout);
		named[i] = fbb_table_end(&b);
	}
	fbb_ref segment_list = fbb_refs(&b, segments, 2);
	fbb_ref named_list = fbb_refs(&b, named, 2);
	fbb_table_begin(&b);
	fbb_add_ref(&b, 1, segment_list);
	fbb_add_ref(&b, 2, named_list);
	fbb_finish(&b, fbb_table_end(&b), "FT01", N_HEADER);
	size_t n;
	uint8_t *data = fbb_data(&b, &n);
	memcpy(data + 8, "FH01", 4);
	put(data + 12, N_HEADER, 4);
	put(data + 16, 48, 8);
	put(data + 24, n - 48, 8);
	put(data + 32, n, 8);
	put(data + 40, sizeof weights + 3, 8);
	uint8_t *file = malloc(n + sizeof weights + 3);
	assert_non_null(file);
	memcpy(file, data, n);
	memcpy(file + n, weights, sizeof weights);
	memcpy(file + n + sizeof weights, "abc", 3);
	fbb_deinit(&b);
	*ret_n_bytes = n + sizeof weights + 3;
	return file;
}

static uint8_t *make_file(size_t *ret_n_bytes)
{
	return make_file_of(ret_n_bytes, sizeof weights, 3);
}

static enum et_status open_bytes(struct et_external **ret_external, const uint8_t *bytes, size_t n_bytes,
	const struct et_external_data *next, struct counting_alloc *counting, struct et_diag *diag)
{
	struct et_allocator allocator = counting_allocator(counting);
	struct et_source source = { .bytes = bytes, .n_bytes = n_bytes };
	*diag = (struct et_diag){ 0 };
	return et_external_open(ret_external, &source, next, &allocator, diag);
}

static void test_overlapping_segments(void **state)
{
	(void)state;
	for (uint64_t n = 3; n <= 4; n++) { /* the file has bytes for 3 more than the tensor's */
		size_t n_bytes;
		uint8_t *bytes = make_file_of(&n_bytes, 0, n);
		struct counting_alloc counting = { 0 };
		struct et_diag diag;
		struct et_external *external = NULL;
		enum et_status status = open_bytes(&external, bytes, n_bytes, NULL, &counting, &diag);
		assert_int_equal(status, n == 3 ? ET_OK : ET_E_INVALID_EXTERNAL_DATA);
		if (status)
			assert_non_null(strstr(diag.text, "segments overlap, or reach beyond the file"));
		et_external_free(external);
		free(bytes);
	}
}

static void test_find(void **state)
{
	(void)state;
	size_t n_bytes;
	uint8_t *bytes = make_file(&n_bytes);
	struct counting_alloc counting = { 0 };
	struct et_diag diag;
	struct et_external *external = NULL, *second = NULL;
	assert_int_equal(open_bytes(&external, bytes, n_bytes, NULL, &counting, &diag), ET_OK);
	assert_string_equal(et_external_entry_at(external, 0)->name, "w");
	assert_int_equal(et_external_entry_at(external, 0)->sizes[1], 2);
	assert_false(et_external_entry_at(external, 1)->is_tensor);
	assert_null(et_external_entry_at(external, 2));

	const struct et_external_data *data = et_external_data(external);
	const int32_t sizes[] = { 2, 2 }, other[] = { 4, 1 };
	const uint8_t order[] = { 0, 1 }, swapped[] = { 1, 0 };
	struct et_tensor_spec spec = {
		.sizes = sizes, .dim_order = order, .type = ET_FLOAT32, .n_dims = 2, .n_bytes = sizeof weights
	};
	const uint8_t *found = NULL;
	size_t n_found = 0;
	assert_int_equal(data->find(data->self, "w", &spec, &found, &n_found, NULL), ET_OK);
	assert_memory_equal(found, weights, sizeof weights);
	assert_int_equal(data->find(data->self, "blob", NULL, &found, &n_found, NULL), ET_OK);
	assert_int_equal(n_found, 3);
	assert_memory_equal(found, "abc", 3);
	assert_int_equal(data->find(data->self, "x", NULL, &found, &n_found, &diag), ET_E_NOT_FOUND);
	assert_string_equal(diag.text, "the data file has nothing of that name");
	/* not the expected tensor */
	assert_int_equal(data->find(data->self, "blob", &spec, &found, &n_found, NULL), ET_E_INVALID_EXTERNAL_DATA);
	spec.sizes = other;
	assert_int_equal(data->find(data->self, "w", &spec, &found, &n_found, NULL), ET_E_INVALID_EXTERNAL_DATA);
	spec.sizes = sizes;
	spec.dim_order = swapped;
	assert_int_equal(data->find(data->self, "w", &spec, &found, &n_found, NULL), ET_E_INVALID_EXTERNAL_DATA);
	spec.dim_order = order;
	spec.type = ET_INT32;
	diag = (struct et_diag){ 0 };
	assert_int_equal(data->find(data->self, "w", &spec, &found, &n_found, &diag), ET_E_INVALID_EXTERNAL_DATA);
	assert_string_equal(diag.text,
		"the data file has another tensor of that name: FP32 [2,2], not INT32 [2,2]; are "
		"both files of one export?");
	spec.type = ET_FLOAT32;
	spec.dim_order = swapped;
	diag = (struct et_diag){ 0 };
	assert_int_equal(data->find(data->self, "w", &spec, &found, &n_found, &diag), ET_E_INVALID_EXTERNAL_DATA);
	assert_non_null(strstr(diag.text, ": FP32 [2,2], not FP32 [2,2] in another dim order;"));
	spec.dim_order = order;

	/* one file behind another */
	uint8_t *renamed = malloc(n_bytes);
	assert_non_null(renamed);
	memcpy(renamed, bytes, n_bytes);
	for (size_t i = 0; i + 4 <= n_bytes; i++) {
		if (memcmp(renamed + i, "blob", 4) == 0)
			memcpy(renamed + i, "BLOB", 4);
	}
	assert_int_equal(open_bytes(&second, renamed, n_bytes, data, &counting, &diag), ET_OK);
	data = et_external_data(second);
	assert_int_equal(data->find(data->self, "BLOB", NULL, &found, &n_found, NULL), ET_OK);
	assert_true(found > renamed && found < renamed + n_bytes);
	assert_int_equal(data->find(data->self, "blob", NULL, &found, &n_found, NULL), ET_OK);
	assert_true(found > bytes && found < bytes + n_bytes);
	/* and the files, in that order */
	assert_ptr_equal(data->source_at(data->self, 0)->bytes, renamed);
	assert_ptr_equal(data->source_at(data->self, 1)->bytes, bytes);
	assert_null(data->source_at(data->self, 2));
	et_external_free(second);
	et_external_free(external);
	assert_null(et_external_free(NULL));
	assert_int_equal(counting.n_live, 0);
	free(renamed);
	free(bytes);
}

static void test_refusals(void **state)
{
	(void)state;
	static const struct {
		size_t at;
		uint64_t value;
		size_t n;
		const char *sentence;
	} cases[] = {
		{ 4, 0x31305446, 3, NULL }, /* the same file: it opens */
		{ 6, '9', 1, "not a data file of version FT01" },
		{ 8, 0, 4, "the data file has no header FH01" },
		{ 12, 39, 4, "the data file has no header FH01" },
		{ 24, UINT64_MAX, 8, "truncated: the header speaks of 18446744073709551615 bytes at 48" },
		{ 40, UINT64_MAX, 8, "truncated: the header speaks of" },
		{ 0, 0x7fffffff, 4, "a table lies beyond the end" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t n_bytes;
		uint8_t *bytes = make_file(&n_bytes);
		put(bytes + cases[i].at, cases[i].value, cases[i].n);
		struct counting_alloc counting = { 0 };
		struct et_diag diag;
		struct et_external *external = NULL;
		enum et_status status = open_bytes(&external, bytes, n_bytes, NULL, &counting, &diag);
		assert_int_equal(status, cases[i].sentence ? ET_E_INVALID_EXTERNAL_DATA : ET_OK);
		if (cases[i].sentence && !strstr(diag.text, cases[i].sentence))
			fail_msg("'%s' does not contain '%s'", diag.text, cases[i].sentence);
		et_external_free(external);
		assert_int_equal(counting.n_live, 0);
		free(bytes);
	}
}

static uint64_t sum_of(const struct et_external *external)
{
	uint64_t sum = 0;
	const struct et_external_entry *entry;
	for (uint32_t i = 0; (entry = et_external_entry_at(external, i)); i++) {
		sum += strlen(entry->name);
		if (entry->n_bytes)
			sum += entry->bytes[0] + entry->bytes[entry->n_bytes - 1];
	}
	return sum;
}

static void test_broken_files_and_little_memory(void **state)
{
	(void)state;
	static volatile uint64_t sink;
	size_t n_bytes;
	uint8_t *bytes = make_file(&n_bytes);
	struct et_diag diag;
	for (size_t n = 0; n < n_bytes; n++) {
		uint8_t *copy = malloc(n ? n : 1);
		assert_non_null(copy);
		memcpy(copy, bytes, n);
		struct counting_alloc counting = { 0 };
		struct et_external *external = NULL;
		assert_int_equal(open_bytes(&external, copy, n, NULL, &counting, &diag), ET_E_INVALID_EXTERNAL_DATA);
		assert_int_equal(counting.n_live, 0);
		assert_true(diag.text[0] != '\0');
		free(copy);
	}
	for (size_t i = 0; i < n_bytes * 8; i++) {
		bytes[i / 8] ^= (uint8_t)(1 << i % 8);
		struct counting_alloc counting = { 0 };
		struct et_external *external = NULL;
		if (open_bytes(&external, bytes, n_bytes, NULL, &counting, &diag) == ET_OK)
			sink += sum_of(external);
		et_external_free(external);
		assert_int_equal(counting.n_live, 0);
		bytes[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	enum et_status status = ET_E_MEMORY_ALLOCATION_FAILED;
	for (size_t n = 1; status == ET_E_MEMORY_ALLOCATION_FAILED; n++) {
		struct counting_alloc counting = { .fail_at = n };
		struct et_external *external = NULL;
		status = open_bytes(&external, bytes, n_bytes, NULL, &counting, &diag);
		et_external_free(external);
		assert_int_equal(counting.n_live, 0);
	}
	assert_int_equal(status, ET_OK);
	free(bytes);
}

static uint8_t *read_file(const char *name, size_t *ret_n_bytes)
{
	char path[512];
	snprintf(path, sizeof path, "%s/programs/%s", SHARED_MODELS, name);
	FILE *file = fopen(path, "rb");
	if (!file)
		fail_msg("no %s", path);
	uint8_t *bytes = malloc(1 << 20);
	assert_non_null(bytes);
	*ret_n_bytes = fread(bytes, 1, 1 << 20, file);
	fclose(file);
	return bytes;
}

static void test_exported(void **state)
{
	(void)state;
	size_t n_data, n_program;
	uint8_t *bytes = read_file("external_portable/_default_external_constant.ptd", &n_data);
	uint8_t *pte = read_file("external_portable/mlp.pte", &n_program);
	struct counting_alloc counting = { 0 };
	struct et_diag diag;
	struct et_external *external = NULL;
	assert_int_equal(open_bytes(&external, bytes, n_data, NULL, &counting, &diag), ET_OK);
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_source source = { .bytes = pte, .n_bytes = n_program };
	struct et_program *program = NULL;
	enum et_status status = et_program_open(&program, &source, et_external_data(external), &allocator, &diag);
	if (status != ET_OK)
		fail_msg("%s", diag.text);
	assert_true(walk_program(program) > 0);
	const struct et_tensor_spec *weight = et_program_method_at(program, 0)->values[0].tensor;
	assert_string_equal(weight->name, "0.weight");
	assert_true(weight->constant > bytes && weight->constant < bytes + n_data);
	et_program_unref(program);
	et_external_free(external);
	assert_int_equal(counting.n_live, 0);
	free(pte);
	free(bytes);
}

/* An argument: test the files beside the checkout. 77 tells meson that there are none. */
int main(int argc, char **argv)
{
	(void)argv;
	const struct CMUnitTest own[] = {
		cmocka_unit_test(test_overlapping_segments),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_broken_files_and_little_memory),
	};
	const struct CMUnitTest shared[] = {
		cmocka_unit_test(test_exported),
	};
	if (argc == 1)
		return cmocka_run_group_tests(own, NULL, NULL);
	if (access(SHARED_MODELS, R_OK)) {
		printf("SKIPPED: no %s\n", SHARED_MODELS);
		return 77;
	}
	return cmocka_run_group_tests(shared, NULL, NULL);
}
