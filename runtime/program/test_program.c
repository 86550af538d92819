/* SPDX-License-Identifier: BSD-3-Clause */
/* Correct programs: how the reader decodes each part. Refusals are in test_program_refusals.c. */
#include "runtime/program/bundle.h"
#include "runtime/program/program.h"
#include "tests/support/counting_alloc.h"
#include "tests/support/make_program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct counting_alloc counting;
static int n_released;

static void release(void *owner)
{
	n_released++;
	free(owner);
}

/* Takes over @bytes, which came from malloc. */
static struct et_program *open_with(uint8_t *bytes, size_t n_bytes, const struct et_external_data *external)
{
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_source source = { .bytes = bytes, .n_bytes = n_bytes, .owner = bytes, .release = release };
	struct et_program *program = NULL;
	struct et_diag diag = { 0 };
	enum et_status status = et_program_open(&program, &source, external, &allocator, &diag);
	if (status != ET_OK)
		fail_msg("%s: %s", et_status_text(status), diag.text);
	return program;
}

static struct et_program *finish_and_open(struct make_program *mk)
{
	size_t n_bytes;
	bool has_header = mk->has_header;
	uint8_t *bytes = mk_finish(mk, &n_bytes);
	assert_int_equal(et_program_extent(bytes, ET_PROGRAM_HEAD), has_header ? n_bytes : 0);
	assert_int_equal(et_program_extent(bytes, ET_PROGRAM_HEAD - 1), 0);
	return open_with(bytes, n_bytes, NULL);
}

static int reset(void **state)
{
	(void)state;
	counting = (struct counting_alloc){ 0 };
	n_released = 0;
	return 0;
}

static int check_nothing_left(void **state)
{
	(void)state;
	return counting.n_live == 0 ? 0 : -1;
}

static void make_all_values(struct make_program *mk)
{
	const bool bools[] = { true, false, true };
	const double doubles[] = { 0.5, -1.5 };
	mk_method(mk, "forward");
	mk_none(mk);
	int one = mk_int(mk, -7);
	int two = mk_int(mk, INT64_MAX);
	mk_bool(mk, true);
	mk_double(mk, 2.5);
	mk_string(mk, "mean");
	int tensor = mk_tensor(mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2, 3) });
	mk_slots(mk, ET_TAG_INT_LIST, MK_ARGS(two, one));
	mk_doubles(mk, doubles, 2);
	mk_bools(mk, bools, 3);
	/* lists may name later values */
	mk_slots(mk, ET_TAG_TENSOR_LIST, MK_ARGS(tensor, 12));
	mk_slots(mk, ET_TAG_OPTIONAL_TENSOR_LIST, MK_ARGS(tensor, -1, 0, 12));
	mk_tensor(mk, &(struct mk_tensor){ .type = ET_INT64 });
}

static void test_all_kinds_of_values(void **state)
{
	(void)state;
	struct make_program mk;
	mk_init(&mk);
	make_all_values(&mk);
	struct et_program *program = finish_and_open(&mk);
	assert_int_equal(et_program_n_methods(program), 1);
	const struct et_method_spec *method = et_program_find_method(program, "forward");
	assert_non_null(method);
	assert_ptr_equal(method, et_program_method_at(program, 0));
	assert_null(et_program_find_method(program, "backward"));
	assert_int_equal(method->n_values, 13);
	const struct et_value_spec *v = method->values;
	for (uint8_t i = 0; i < 13; i++) {
		static const uint8_t tags[] = { ET_TAG_NONE, ET_TAG_INT, ET_TAG_INT, ET_TAG_BOOL, ET_TAG_DOUBLE,
			ET_TAG_STRING, ET_TAG_TENSOR, ET_TAG_INT_LIST, ET_TAG_DOUBLE_LIST, ET_TAG_BOOL_LIST,
			ET_TAG_TENSOR_LIST, ET_TAG_OPTIONAL_TENSOR_LIST, ET_TAG_TENSOR };
		assert_int_equal(v[i].tag, tags[i]);
	}
	assert_int_equal(v[1].i, -7);
	assert_true(v[2].i == INT64_MAX);
	assert_true(v[3].b);
	assert_true(v[4].d == 2.5);
	assert_int_equal(v[5].list->n, 4);
	assert_string_equal(v[5].list->chars, "mean");
	assert_int_equal(v[7].list->n, 2);
	assert_int_equal(v[7].list->values[0], 2);
	assert_int_equal(v[7].list->values[1], 1);
	assert_true(v[8].list->doubles[0] == 0.5 && v[8].list->doubles[1] == -1.5);
	assert_int_equal(v[9].list->n, 3);
	assert_memory_equal(v[9].list->bools, "\1\0\1", 3);
	assert_int_equal(v[10].list->values[1], 12);
	assert_int_equal(v[11].list->n, 4);
	assert_int_equal(v[11].list->values[0], 6);
	assert_int_equal(v[11].list->values[1], ET_NO_VALUE);
	assert_int_equal(v[11].list->values[2], 0);
	const struct et_tensor_spec *t = v[6].tensor;
	assert_int_equal(t->type, ET_FLOAT32);
	assert_int_equal(t->n_dims, 2);
	assert_int_equal(t->sizes[1], 3);
	assert_int_equal(t->dim_order[1], 1);
	assert_int_equal(t->storage, ET_STORAGE_NONE);
	assert_int_equal(t->n_bytes, 24);
	assert_int_equal(v[12].tensor->n_dims, 0);
	assert_int_equal(v[12].tensor->n_bytes, 8);
	et_program_unref(program);
}

static void check_constants(bool is_inline)
{
	const float weights[] = { 1, 2, 3, 4 };
	const uint8_t odd[] = { 9, 8, 7 };
	struct make_program mk;
	mk_init(&mk);
	mk.has_inline_constants = is_inline;
	uint32_t first = mk_constant(&mk, odd, sizeof odd);
	uint32_t second = mk_constant(&mk, weights, sizeof weights);
	mk_method(&mk, "forward");
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .constant = second, .name = "w" });
	mk_tensor(&mk, &(struct mk_tensor){ .type = ET_UINT8, MK_SIZES(3), .constant = first });
	mk_tensor(&mk, &(struct mk_tensor){ .type = ET_UINT8, MK_SIZES(0), .constant = first });
	struct et_program *program = finish_and_open(&mk);
	const struct et_value_spec *v = et_program_method_at(program, 0)->values;
	assert_int_equal(v[0].tensor->storage, ET_STORAGE_CONSTANT);
	assert_memory_equal(v[0].tensor->constant, weights, sizeof weights);
	assert_string_equal(v[0].tensor->name, "w");
	assert_memory_equal(v[1].tensor->constant, odd, sizeof odd);
	assert_null(v[1].tensor->name);
	assert_int_equal(v[2].tensor->storage, ET_STORAGE_CONSTANT);
	assert_int_equal(v[2].tensor->n_bytes, 0);
	/* in place, not copied */
	const struct et_source *source = et_program_source(program);
	assert_true(v[0].tensor->constant > source->bytes);
	assert_true(v[0].tensor->constant < source->bytes + source->n_bytes);
	struct et_program_stats stats;
	et_program_stats(program, &stats);
	assert_true(stats.n_constant_bytes >= sizeof odd + sizeof weights);
	assert_true(stats.n_constant_bytes < 64);
	assert_int_equal(stats.n_segments, is_inline ? 0 : 1);
	et_program_unref(program);
}

static void test_constants_in_a_segment(void **state)
{
	(void)state;
	check_constants(false);
}

static void test_constants_inline(void **state)
{
	(void)state;
	check_constants(true);
}

static void test_no_extended_header(void **state)
{
	(void)state;
	const float weights[] = { 1, 2 };
	struct make_program mk;
	mk_init(&mk);
	mk.has_header = false;
	mk.has_inline_constants = true;
	uint32_t constant = mk_constant(&mk, weights, sizeof weights);
	mk_method(&mk, "forward");
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2), .constant = constant });
	struct et_program *program = finish_and_open(&mk);
	const struct et_value_spec *v = et_program_method_at(program, 0)->values;
	assert_memory_equal(v[0].tensor->constant, weights, sizeof weights);
	et_program_unref(program);
}

/* Arenas are numbered as in ExecuTorch, and so large. */
static void test_all_types(void **state)
{
	static const uint8_t n_bytes[] = { 1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1,
		1, 1, 2, 4, 8 };
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	for (size_t i = 0; i < sizeof(n_bytes); i++)
		mk_tensor(&mk, &(struct mk_tensor){ .type = (uint8_t)i, MK_SIZES(3) });
	struct et_program *program = finish_and_open(&mk);
	const struct et_value_spec *v = et_program_method_at(program, 0)->values;
	for (size_t i = 0; i < sizeof(n_bytes); i++)
		assert_int_equal(v[i].tensor->n_bytes, 3 * n_bytes[i]);
	et_program_unref(program);
}

static void test_memory_plan(void **state)
{
	(void)state;
	const float start[] = { 5, 6 };
	const uint8_t nhwc[] = { 0, 2, 3, 1 };
	struct make_program mk;
	mk_init(&mk);
	uint32_t initial = mk_initial(&mk, "x", 1);
	initial = mk_initial(&mk, start, sizeof start);
	mk_method(&mk, "forward");
	uint32_t small = mk_arena(&mk, 32);
	uint32_t large = mk_arena(&mk, (int64_t)6 << 32);
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2), .arena = small, .offset = 24, .constant = initial });
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1, 3, 2, 2), .dim_order = nhwc, .arena = large,
			       .offset = (uint64_t)5 << 32, .dynamism = ET_DYNAMIC_BOUND });
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(0, 9), .arena = small, .offset = 32 });
	struct et_program *program = finish_and_open(&mk);
	const struct et_method_spec *method = et_program_method_at(program, 0);
	assert_int_equal(method->n_arenas, 3);
	assert_int_equal(method->arena_bytes[0], 0);
	assert_int_equal(method->arena_bytes[small], 32);
	assert_true(method->arena_bytes[large] == (size_t)6 << 32);
	const struct et_tensor_spec *t = method->values[0].tensor;
	assert_int_equal(t->storage, ET_STORAGE_PLANNED);
	assert_int_equal(t->arena, 1);
	assert_int_equal(t->offset, 24);
	assert_memory_equal(t->constant, start, sizeof start);
	t = method->values[1].tensor;
	assert_int_equal(t->arena, 2);
	assert_true(t->offset == (size_t)5 << 32);
	assert_int_equal(t->dynamism, ET_DYNAMIC_BOUND);
	assert_int_equal(t->dim_order[3], 1);
	assert_null(t->constant);
	/* no bytes, at the very end */
	assert_int_equal(method->values[2].tensor->n_bytes, 0);
	et_program_unref(program);
}

static void test_instructions_and_chains(void **state)
{
	(void)state;
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "first");
	mk_method(&mk, "second");
	int a = mk_int(&mk, 1), b = mk_int(&mk, 2), c = mk_bool(&mk, false);
	mk_input(&mk, b);
	mk_input(&mk, a);
	mk_output(&mk, c);
	int add = mk_operator(&mk, "aten::add", "out");
	int view = mk_operator(&mk, "executorch_prim::et_view", "default");
	int sym = mk_operator(&mk, "aten::sym_size", "");
	int none = mk_operator(&mk, "aten::plain", NULL);
	int in_segment = mk_delegate(&mk, "XnnpackBackend", "pay", 3, false, "key", "value");
	int in_line = mk_delegate(&mk, "OtherBackend", "load!", 5, true, NULL, NULL);
	mk_kernel(&mk, view, MK_ARGS(a, b, c));
	mk_jump_false(&mk, c, 2);
	mk_chain(&mk);
	mk_call(&mk, in_line, MK_ARGS(b));
	mk_move(&mk, a, b);
	mk_jump_false(&mk, c, 1);
	mk_jump_false(&mk, c, 5);
	mk_free(&mk, b);
	(void)add;
	(void)in_segment;
	struct et_program *program = finish_and_open(&mk);
	assert_int_equal(et_program_n_methods(program), 2);
	assert_int_equal(et_program_find_method(program, "first")->n_instructions, 0);
	const struct et_method_spec *m = et_program_find_method(program, "second");
	assert_int_equal(m->n_inputs, 2);
	assert_int_equal(m->inputs[0], b);
	assert_int_equal(m->inputs[1], a);
	assert_int_equal(m->n_outputs, 1);
	assert_int_equal(m->outputs[0], c);
	assert_int_equal(m->n_operators, 4);
	assert_string_equal(m->operators[0], "aten::add.out");
	assert_string_equal(m->operators[1], "executorch_prim::et_view.default");
	assert_string_equal(m->operators[sym], "aten::sym_size");
	assert_string_equal(m->operators[none], "aten::plain");
	assert_int_equal(m->n_delegates, 2);
	assert_string_equal(m->delegates[0].id, "XnnpackBackend");
	assert_int_equal(m->delegates[0].n_bytes, 3);
	assert_memory_equal(m->delegates[0].payload, "pay", 3);
	assert_int_equal(m->delegates[0].n_specs, 1);
	assert_string_equal(m->delegates[0].specs[0].key, "key");
	assert_int_equal(m->delegates[0].specs[0].n_bytes, 5);
	assert_memory_equal(m->delegates[0].specs[0].value, "value", 5);
	assert_memory_equal(m->delegates[1].payload, "load!", 5);
	assert_int_equal(m->delegates[1].n_specs, 0);

	assert_int_equal(m->n_instructions, 7);
	const struct et_instruction_spec *i = m->instructions;
	assert_int_equal(i[0].op, ET_OP_KERNEL);
	assert_int_equal(i[0].index, 1);
	assert_int_equal(i[0].n_args, 3);
	assert_int_equal(i[0].args[2], c);
	assert_int_equal(i[1].op, ET_OP_JUMP_FALSE);
	assert_int_equal(i[1].args[0], c);
	assert_int_equal(i[1].index, 2); /* the first chain's end is the second's start */
	assert_int_equal(i[2].op, ET_OP_DELEGATE);
	assert_int_equal(i[2].index, 1);
	assert_int_equal(i[3].op, ET_OP_MOVE);
	assert_int_equal(i[3].args[0], a);
	assert_int_equal(i[3].args[1], b);
	assert_int_equal(i[4].index, 3); /* 1 of the second chain */
	assert_int_equal(i[5].index, 7); /* the end */
	assert_int_equal(i[6].op, ET_OP_FREE);
	assert_int_equal(i[6].args[0], b);
	struct et_program_stats stats;
	et_program_stats(program, &stats);
	assert_int_equal(stats.n_payload_bytes, 8);
	et_program_unref(program);
}

static enum et_status find_external(void *self, const char *name, const struct et_tensor_spec *expected,
	const uint8_t **ret_bytes, size_t *ret_n_bytes, struct et_diag *diag)
{
	int *n_asked = self;
	++*n_asked;
	if (strcmp(name, "blob") == 0 && !expected) {
		*ret_bytes = (const uint8_t *)"BLOB";
		*ret_n_bytes = 4;
		return ET_OK;
	}
	if (strcmp(name, "w") == 0 && expected && expected->n_bytes == 4 && expected->sizes[0] == 4) {
		*ret_bytes = (const uint8_t *)"abcd";
		*ret_n_bytes = 4;
		return ET_OK;
	}
	return et_fail(diag, ET_E_NOT_FOUND, "no such thing");
}

static void test_named_data(void **state)
{
	(void)state;
	int n_asked = 0;
	const struct et_external_data external = { .self = &n_asked, .find = find_external };
	struct make_program mk;
	mk_init(&mk);
	mk_named_data(&mk, "first", "one", 3);
	mk_named_data(&mk, "second", "twos", 4);
	mk_named_data(&mk, "empty", "", 0);
	mk_named_data(&mk, "second", "another", 7);
	mk_method(&mk, "forward");
	size_t n_bytes;
	uint8_t *bytes = mk_finish(&mk, &n_bytes);
	struct et_program *program = open_with(bytes, n_bytes, &external);
	const uint8_t *found = NULL;
	size_t n_found = 9;
	assert_int_equal(et_program_find_named_data(program, "second", &found, &n_found), ET_OK);
	assert_int_equal(n_found, 4);
	assert_memory_equal(found, "twos", 4);
	assert_int_equal(et_program_find_named_data(program, "empty", &found, &n_found), ET_OK);
	assert_int_equal(n_found, 0);
	assert_int_equal(n_asked, 0);
	assert_int_equal(et_program_find_named_data(program, "blob", &found, &n_found), ET_OK);
	assert_memory_equal(found, "BLOB", 4);
	assert_int_equal(et_program_find_named_data(program, "third", &found, &n_found), ET_E_NOT_FOUND);
	struct et_program_stats stats;
	et_program_stats(program, &stats);
	assert_int_equal(stats.n_named_data, 4);
	assert_int_equal(stats.n_named_bytes, 14);
	et_program_unref(program);
}

static void test_external_tensors(void **state)
{
	(void)state;
	int n_asked = 0;
	const struct et_external_data external = { .self = &n_asked, .find = find_external };
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 8);
	mk_tensor(&mk, &(struct mk_tensor){ .type = ET_UINT8, MK_SIZES(4), .name = "w", .is_external = true });
	mk_tensor(&mk, &(struct mk_tensor){ .type = ET_UINT8,
			       MK_SIZES(4),
			       .name = "w",
			       .is_external = true,
			       .arena = arena,
			       .offset = 4,
			       .constant = 77 });
	size_t n_bytes;
	uint8_t *bytes = mk_finish(&mk, &n_bytes);
	struct et_program *program = open_with(bytes, n_bytes, &external);
	const struct et_value_spec *v = et_program_method_at(program, 0)->values;
	assert_int_equal(v[0].tensor->storage, ET_STORAGE_CONSTANT);
	assert_memory_equal(v[0].tensor->constant, "abcd", 4);
	assert_int_equal(v[1].tensor->storage, ET_STORAGE_PLANNED);
	assert_memory_equal(v[1].tensor->constant, "abcd", 4);
	assert_int_equal(n_asked, 2);
	et_program_unref(program);
}

static void test_references(void **state)
{
	(void)state;
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	struct et_program *program = finish_and_open(&mk);
	assert_ptr_equal(et_program_ref(program), program);
	assert_null(et_program_unref(program));
	assert_int_equal(n_released, 0);
	assert_null(et_program_method_at(program, 1));
	assert_null(et_program_unref(program));
	assert_int_equal(n_released, 1);
	assert_null(et_program_unref(NULL));
}

static void test_bundled_numbers(void **state)
{
	(void)state;
	static const struct mk_bundled inputs[] = { { MK_BUNDLED_INT, -7 }, { MK_BUNDLED_BOOL, 1 },
		{ MK_BUNDLED_DOUBLE, 2.5 }, { MK_BUNDLED_NONE, 0 } };
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	size_t n_program, n_bytes;
	uint8_t *pte = mk_finish(&mk, &n_program);
	uint8_t *bytes = mk_bundle_of_numbers(pte, n_program, "forward", inputs, 4, &n_bytes);
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_pool pool;
	et_pool_init(&pool, &allocator);
	struct et_bundle bundle;
	struct et_diag diag = { 0 };
	assert_int_equal(et_bundle_open(&bundle, bytes, n_bytes, &pool, &diag), ET_OK);
	const struct et_bundle_case *item = &bundle.suites[0].cases[0];
	assert_int_equal(item->n_inputs, 4);
	assert_int_equal(item->n_outputs, 0);
	assert_int_equal(item->inputs[0].tag, ET_TAG_INT);
	assert_int_equal(item->inputs[0].i, -7);
	assert_int_equal(item->inputs[1].tag, ET_TAG_BOOL);
	assert_true(item->inputs[1].b);
	assert_int_equal(item->inputs[2].tag, ET_TAG_DOUBLE);
	assert_true(item->inputs[2].d == 2.5);
	assert_int_equal(item->inputs[3].tag, ET_TAG_NONE);
	et_pool_deinit(&pool);
	free(bytes);
	free(pte);
}

static void test_bundle(void **state)
{
	(void)state;
	const float input[] = { 1, 2, 3 }, output[] = { 4, 5, 6 };
	struct make_program mk;
	mk_init(&mk);
	uint32_t constant = mk_constant(&mk, input, sizeof input);
	mk_method(&mk, "forward");
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(3), .constant = constant });
	size_t n_program, n_bytes;
	uint8_t *pte = mk_finish(&mk, &n_program);
	uint8_t *bytes = mk_bundle(pte, n_program, "forward", input, output, 3, &n_bytes);
	assert_true(et_bundle_is(bytes, n_bytes));
	assert_false(et_bundle_is(pte, n_program));

	struct et_allocator allocator = counting_allocator(&counting);
	struct et_pool pool;
	et_pool_init(&pool, &allocator);
	struct et_bundle bundle;
	struct et_diag diag = { 0 };
	assert_int_equal(et_bundle_open(&bundle, bytes, n_bytes, &pool, &diag), ET_OK);
	assert_int_equal(bundle.n_program_bytes, n_program);
	assert_memory_equal(bundle.program, pte, n_program);
	assert_int_equal(bundle.n_suites, 1);
	assert_string_equal(bundle.suites[0].method, "forward");
	assert_int_equal(bundle.suites[0].n_cases, 1);
	const struct et_bundle_case *item = &bundle.suites[0].cases[0];
	assert_int_equal(item->n_inputs, 1);
	assert_int_equal(item->n_outputs, 1);
	assert_int_equal(item->inputs[0].tag, ET_TAG_TENSOR);
	assert_int_equal(item->inputs[0].tensor.type, ET_FLOAT32);
	assert_int_equal(item->inputs[0].tensor.n_dims, 1);
	assert_int_equal(item->inputs[0].tensor.sizes[0], 3);
	assert_memory_equal(item->inputs[0].tensor.data, input, sizeof input);
	assert_memory_equal(item->outputs[0].tensor.data, output, sizeof output);
	et_pool_deinit(&pool);

	/* the same bytes open as the program within */
	struct et_program *program = open_with(bytes, n_bytes, NULL);
	assert_memory_equal(et_program_method_at(program, 0)->values[0].tensor->constant, input, sizeof input);
	assert_ptr_equal(et_program_source(program)->bytes, bytes);
	et_program_unref(program);
	free(pte);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, reset, check_nothing_left)
	const struct CMUnitTest tests[] = {
		TEST(test_all_kinds_of_values),
		TEST(test_constants_in_a_segment),
		TEST(test_constants_inline),
		TEST(test_no_extended_header),
		TEST(test_all_types),
		TEST(test_memory_plan),
		TEST(test_instructions_and_chains),
		TEST(test_named_data),
		TEST(test_external_tensors),
		TEST(test_references),
		TEST(test_bundle),
		TEST(test_bundled_numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
