/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that must be refused, each with the sentence that says where and why. */
#include "runtime/program/bundle.h"
#include "runtime/program/program.h"
#include "runtime/program/program_internal.h"
#include "tests/support/counting_alloc.h"
#include "tests/support/make_program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The refusal of the first method of @program. Nothing else is known of a refused method. */
static enum et_status refusal_of(const struct et_program *program, struct et_diag *diag)
{
	const struct et_method_spec *method = et_program_method_at(program, 0);
	if (!method || !method->why_not)
		return ET_OK;
	assert_string_equal(diag->text, "");
	assert_int_equal(method->n_values + method->n_inputs + method->n_outputs + method->n_arenas +
				 method->n_operators + method->n_delegates + method->n_instructions,
		0);
	return et_fail(diag, method->refusal, "%s", method->why_not);
}

/* Open @bytes. Expect @status and a sentence that contains @sentence, for the whole program, or for its method if
 * the file is not at fault. Frees @bytes. */
static void expect_with(uint8_t *bytes, size_t n_bytes, const struct et_external_data *external, enum et_status status,
	const char *sentence)
{
	struct counting_alloc counting = { 0 };
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_source source = { .bytes = bytes, .n_bytes = n_bytes };
	struct et_program *program = NULL;
	struct et_diag diag = { 0 };
	enum et_status got = et_program_open(&program, &source, external, &allocator, &diag);
	assert_int_equal(!program, got != ET_OK);
	assert_int_equal(got == ET_OK, status != ET_E_INVALID_PROGRAM);
	if (program)
		got = refusal_of(program, &diag);
	if (got != status || !strstr(diag.text, sentence))
		fail_msg("wanted %s: %s\n   got %s: %s", et_status_text(status), sentence, et_status_text(got),
			diag.text);
	et_program_unref(program);
	assert_int_equal(counting.n_live, 0);
	free(bytes);
}

static void expect_bytes(uint8_t *bytes, size_t n_bytes, enum et_status status, const char *sentence)
{
	expect_with(bytes, n_bytes, NULL, status, sentence);
}

static void expect(struct make_program *mk, enum et_status status, const char *sentence)
{
	size_t n_bytes;
	uint8_t *bytes = mk_finish(mk, &n_bytes);
	expect_bytes(bytes, n_bytes, status, sentence);
}

static void expect_invalid(struct make_program *mk, const char *sentence)
{
	expect(mk, ET_E_INVALID_PROGRAM, sentence);
}

static void begin(struct make_program *mk)
{
	mk_init(mk);
	mk_method(mk, "forward");
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* A method whose value 1 is @tensor; arena 1 has 64 bytes. */
static void expect_tensor(const struct mk_tensor *tensor, enum et_status status, const char *sentence)
{
	struct make_program mk;
	begin(&mk);
	mk_arena(&mk, 64);
	mk_none(&mk);
	mk_tensor(&mk, tensor);
	expect(&mk, status, sentence);
}

#define EXPECT_TENSOR(status, sentence, ...) expect_tensor(&(struct mk_tensor){ __VA_ARGS__ }, status, sentence)

static void test_shapes(void **state)
{
	(void)state;
	const uint8_t twice[] = { 0, 0 }, beyond[] = { 0, 2 };
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "forward: value 1: size -3 in dimension 1", MK_FP32, MK_SIZES(2, -3));
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "value 1: its sizes are absurd", MK_FP32,
		MK_SIZES(INT32_MAX, INT32_MAX, INT32_MAX));
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "value 1: its sizes are absurd", .type = ET_FLOAT64,
		MK_SIZES(INT32_MAX, INT32_MAX));
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "value 1: its sizes are absurd", MK_FP32,
		MK_SIZES(0, INT32_MAX, INT32_MAX, INT32_MAX));
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "value 1: the dim order is no permutation of its 2 dimensions", MK_FP32,
		MK_SIZES(2, 3), .dim_order = twice);
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "the dim order is no permutation", MK_FP32, MK_SIZES(2, 3),
		.dim_order = beyond);
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "value 1: 2 dimensions, but a dim order of 3", MK_FP32, MK_SIZES(2, 3),
		.n_dim_order = 3);
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "value 1: the tensor has 17 dimensions, 16 are the most", MK_FP32,
		.n_dims = 17);
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "value 1: the tensor has no sizes", MK_FP32, .has_no_sizes = true);
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "value 1: the tensor has no dim order", MK_FP32, .has_no_dim_order = true);
}

static void test_tensor_kinds(void **state)
{
	(void)state;
	EXPECT_TENSOR(ET_E_NOT_SUPPORTED, "forward: value 1: the tensor's shape is DYNAMIC_UNBOUND", MK_FP32,
		MK_SIZES(2), .dynamism = ET_DYNAMIC_UNBOUND);
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "value 1: unknown shape dynamism 3", MK_FP32, MK_SIZES(2), .dynamism = 3);
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "value 1: unknown shape dynamism -1", MK_FP32, MK_SIZES(2),
		.dynamism = 255);
	EXPECT_TENSOR(ET_E_NOT_SUPPORTED, "value 1: scalar type 30 (UNKNOWN) is not supported", .type = 30,
		MK_SIZES(2));
	EXPECT_TENSOR(ET_E_NOT_SUPPORTED, "value 1: scalar type 100 (UNKNOWN)", .type = 100, MK_SIZES(2));
	EXPECT_TENSOR(ET_E_NOT_SUPPORTED, "value 1: scalar type -1 (UNKNOWN)", .type = 255, MK_SIZES(2));
	EXPECT_TENSOR(ET_E_NOT_SUPPORTED, "value 1: the tensor lies on device type 1", MK_FP32, MK_SIZES(2),
		.device_type = 1);
	EXPECT_TENSOR(ET_E_NOT_SUPPORTED, "value 1: storage offset 4 is not supported", MK_FP32, MK_SIZES(2),
		.storage_offset = 4);
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "value 1: unknown data location 2", MK_FP32, MK_SIZES(2), .location = 2);
}

static void test_arenas(void **state)
{
	(void)state;
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "forward: value 1: arena 1 has 64 bytes, but 64 at 32 are needed", MK_FP32,
		MK_SIZES(16), .arena = 1, .offset = 32);
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "arena 1 has 64 bytes, but 4 at 18446744073709551612 are needed", MK_FP32,
		MK_SIZES(1), .arena = 1, .offset = (uint64_t)-4);
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "arena 1 has 64 bytes, but 0 at 65 are needed", MK_FP32, MK_SIZES(0),
		.arena = 1, .offset = 65);
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "value 1: it is planned in arena 2, but there are arenas 1 to 1", MK_FP32,
		MK_SIZES(1), .arena = 2);
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "value 1: it is planned in arena 0", MK_FP32, MK_SIZES(1),
		.has_allocation = true);

	struct make_program mk;
	begin(&mk);
	mk_arena(&mk, 8);
	mk_arena(&mk, -1);
	expect_invalid(&mk, "forward: arena 2: it has -1 bytes, which is absurd");
	begin(&mk);
	mk_arena(&mk, INT64_MAX / 2 + 1);
	mk_arena(&mk, INT64_MAX / 2 + 1);
	expect_invalid(&mk, "forward: arena 2: it has 4611686018427387904 bytes, which is absurd");
}

static void test_constants(void **state)
{
	(void)state;
	const float four[4] = { 0 };
	struct make_program mk;
	for (int is_inline = 0; is_inline < 2; is_inline++) {
		mk_init(&mk);
		mk.has_inline_constants = is_inline;
		uint32_t constant = mk_constant(&mk, four, sizeof four);
		mk_method(&mk, "forward");
		mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(5), .constant = constant });
		expect_invalid(&mk, is_inline ? "forward: value 0: constant 1 has 16 bytes, but the tensor needs 20"
					      : "forward: value 0: its constant is 20 bytes at 0 of segment 0, "
						"which has 16");
		mk_init(&mk);
		mk.has_inline_constants = is_inline;
		mk_constant(&mk, four, sizeof four);
		mk_method(&mk, "forward");
		mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .constant = 2 });
		expect_invalid(&mk, "forward: value 0: it is constant 2, but there are 2");
	}
	/* no constants at all */
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "value 1: it is constant 1, but there are 0", MK_FP32, MK_SIZES(1),
		.constant = 1);
}

static void test_initial_values(void **state)
{
	(void)state;
	const float four[4] = { 0 };
	EXPECT_TENSOR(ET_E_INVALID_PROGRAM, "value 1: its initial value is in list 0, but there are 0", MK_FP32,
		MK_SIZES(1), .arena = 1, .constant = 1);
	struct make_program mk;
	begin(&mk);
	mk_arena(&mk, 64);
	uint32_t initial = mk_initial(&mk, four, sizeof four);
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(5), .arena = 1, .constant = initial });
	expect_invalid(&mk, "forward: value 0: its initial value is 20 bytes at 0 of segment 0, which has 16");
	begin(&mk);
	mk_arena(&mk, 64);
	initial = mk_initial(&mk, four, sizeof four);
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1), .arena = 1, .constant = initial + 1 });
	expect_invalid(&mk, "forward: value 0: its initial value is number 2, but there are 2");
	begin(&mk);
	mk_arena(&mk, 64);
	initial = mk_initial(&mk, four, sizeof four);
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1), .arena = 1, .constant = initial, .initial_list = 1 });
	expect_invalid(&mk, "forward: value 0: its initial value is in list 1, but there are 1");
}

static void test_external_tensors(void **state)
{
	(void)state;
	EXPECT_TENSOR(ET_E_NOT_FOUND,
		"forward: value 1: tensor 'layer.weight' lies outside the file, and no data file was given", MK_FP32,
		MK_SIZES(1), .name = "layer.weight", .is_external = true);
	EXPECT_TENSOR(ET_E_INVALID_EXTERNAL_DATA, "value 1: it lies outside the file but has no name", MK_FP32,
		MK_SIZES(1), .is_external = true);
}

/* The reader continues after a method that is refused alone, and refuses the file for a later mistake. */
static void test_damage_behind_a_refusal(void **state)
{
	(void)state;
	struct make_program mk;
	begin(&mk);
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1), .name = "w", .is_external = true });
	mk_method(&mk, "second");
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(-3) });
	expect_invalid(&mk, "second: value 0: size -3 in dimension 0");
}

static enum et_status find_little(void *self, const char *name, const struct et_tensor_spec *expected,
	const uint8_t **ret_bytes, size_t *ret_n_bytes, struct et_diag *diag)
{
	(void)expected;
	if (strcmp(name, "absent") == 0)
		return ET_E_NOT_FOUND;
	if (strcmp(name, "other") == 0)
		return et_fail(diag, ET_E_INVALID_EXTERNAL_DATA, "it is FP16 there");
	*ret_bytes = self;
	*ret_n_bytes = 3;
	return ET_OK;
}

static void expect_external(const char *name, enum et_status status, const char *sentence)
{
	uint8_t few[3] = { 0 };
	const struct et_external_data external = { .self = few, .find = find_little };
	struct make_program mk;
	begin(&mk);
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1), .name = name, .is_external = true });
	size_t n_bytes;
	uint8_t *bytes = mk_finish(&mk, &n_bytes);
	expect_with(bytes, n_bytes, &external, status, sentence);
}

static void test_external_data(void **state)
{
	(void)state;
	expect_external("w", ET_E_INVALID_EXTERNAL_DATA,
		"forward: value 0: tensor 'w' lies outside the file with 3 bytes, but needs 4");
	expect_external("absent", ET_E_NOT_FOUND, "forward: value 0: tensor 'absent' lies outside the file: not found");
	expect_external("other", ET_E_INVALID_EXTERNAL_DATA,
		"forward: value 0: tensor 'other' lies outside the file: it is FP16 there");
}

/* --- values ----------------------------------------------------------------------------------- */

static void expect_list(uint8_t tag, int first, int second, const char *sentence)
{
	struct make_program mk;
	begin(&mk);
	mk_none(&mk);
	mk_int(&mk, 4);
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1) });
	mk_slots(&mk, tag, MK_ARGS(first, second));
	expect_invalid(&mk, sentence);
}

static void test_lists(void **state)
{
	(void)state;
	expect_list(ET_TAG_INT_LIST, 1, 9, "forward: value 3: item 1 is value 9, but there are 4");
	expect_list(ET_TAG_INT_LIST, -1, 1, "forward: value 3: item 0 is value -1");
	expect_list(ET_TAG_INT_LIST, 1, 2, "value 3: item 1 of the IntList is value 2, which is Tensor, not Int");
	expect_list(ET_TAG_INT_LIST, 1, 3, "value 3: item 1 of the IntList is value 3, which is IntList, not Int");
	expect_list(ET_TAG_TENSOR_LIST, 2, 0, "item 1 of the TensorList is value 0, which is None, not Tensor");
	expect_list(ET_TAG_TENSOR_LIST, 2, -1, "value 3: item 1 is value -1");
	expect_list(ET_TAG_TENSOR_LIST, 3, 2, "item 0 of the TensorList is value 3, which is TensorList, not Tensor");
	expect_list(ET_TAG_OPTIONAL_TENSOR_LIST, 0, 1,
		"item 1 of the OptionalTensorList is value 1, which is Int, not Tensor");
	expect_list(ET_TAG_OPTIONAL_TENSOR_LIST, -2, 1, "value 3: item 0 is value -2");
}

static void test_values_without_a_body(void **state)
{
	(void)state;
	static const struct {
		uint8_t type;
		bool is_empty; /* the body is there but empty */
		const char *sentence;
	} cases[] = {
		{ 0, true, "forward: value 0: unknown value type 0" },
		{ 12, true, "forward: value 0: unknown value type 12" },
		{ 255, true, "forward: value 0: unknown value type 255" },
		{ ET_TAG_INT, false, "value 0: a value of type 2 (Int) is missing" },
		{ ET_TAG_TENSOR, false, "value 0: a value of type 5 (Tensor) is missing" },
		{ ET_TAG_STRING, true, "value 0: the string is missing" },
		{ ET_TAG_INT_LIST, true, "value 0: the list is missing" },
		{ ET_TAG_DOUBLE_LIST, true, "value 0: the list is missing" },
		{ ET_TAG_BOOL_LIST, true, "value 0: the list is missing" },
		{ ET_TAG_TENSOR_LIST, true, "value 0: the list is missing" },
		{ ET_TAG_OPTIONAL_TENSOR_LIST, true, "value 0: the list is missing" },
		{ ET_TAG_TENSOR, true, "value 0: the tensor has no sizes" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct make_program mk;
		begin(&mk);
		fbb_ref body = 0;
		if (cases[i].is_empty) {
			fbb_table_begin(&mk.fb);
			body = fbb_table_end(&mk.fb);
		}
		mk_value(&mk, cases[i].type, body);
		expect_invalid(&mk, cases[i].sentence);
	}
}

static void test_inputs_and_outputs(void **state)
{
	(void)state;
	struct make_program mk;
	begin(&mk);
	mk_int(&mk, 1);
	mk_input(&mk, 0);
	mk_input(&mk, 1);
	expect_invalid(&mk, "forward: input 1 is value 1, but there are 1 values");
	begin(&mk);
	mk_int(&mk, 1);
	mk_output(&mk, -1);
	expect_invalid(&mk, "forward: output 0 is value -1, but there are 1 values");
}

/* --- code ------------------------------------------------------------------------------------- */

static void test_instructions(void **state)
{
	(void)state;
	struct make_program mk;
	begin(&mk);
	int one = mk_int(&mk, 1);
	int add = mk_operator(&mk, "aten::add", "out");
	mk_kernel(&mk, add, MK_ARGS(one, one));
	mk_kernel(&mk, add + 1, MK_ARGS(one));
	expect_invalid(&mk, "forward: instruction 1: it calls operator 1, but there are 1");
	begin(&mk);
	mk_kernel(&mk, -1, MK_ARGS(0));
	expect_invalid(&mk, "forward: instruction 0: it calls operator -1, but there are 0");
	begin(&mk);
	mk_int(&mk, 1);
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(0, 1));
	expect_invalid(&mk, "forward: instruction 0: argument 1 is value 1, but there are 1 values");
	begin(&mk);
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(-1));
	expect_invalid(&mk, "instruction 0: argument 0 is value -1, but there are 0 values");
	begin(&mk);
	mk_call(&mk, 0, MK_ARGS(0));
	expect_invalid(&mk, "forward: instruction 0: it calls delegate 0, but there are 0");
	begin(&mk);
	mk_int(&mk, 1);
	mk_move(&mk, 0, 1);
	expect_invalid(&mk, "forward: instruction 0: argument 1 is value 1, but there are 1 values");
	begin(&mk);
	mk_free(&mk, -5);
	expect_invalid(&mk, "forward: instruction 0: argument 0 is value -5, but there are 0 values");
}

static void test_jumps(void **state)
{
	(void)state;
	struct make_program mk;
	begin(&mk);
	mk_bool(&mk, true);
	mk_free(&mk, 0);
	mk_chain(&mk);
	mk_jump_false(&mk, 0, 2);
	expect_invalid(&mk, "forward: instruction 1: it jumps to instruction 2 of a chain of 1");
	begin(&mk);
	mk_bool(&mk, true);
	mk_jump_false(&mk, 0, -1);
	expect_invalid(&mk, "forward: instruction 0: it jumps to instruction -1 of a chain of 1");
	begin(&mk);
	mk_jump_false(&mk, 3, 0);
	expect_invalid(&mk, "forward: instruction 0: argument 0 is value 3, but there are 0 values");
}

static void test_broken_instructions(void **state)
{
	(void)state;
	struct make_program mk;
	begin(&mk);
	mk_instruction(&mk, ET_OP_KERNEL, 0);
	expect_invalid(&mk, "forward: instruction 0: an instruction of type 1 without its body");
	for (int type = 0; type <= 6; type += 6) {
		begin(&mk);
		fbb_table_begin(&mk.fb);
		mk_instruction(&mk, (uint8_t)type, fbb_table_end(&mk.fb));
		expect_invalid(&mk, type ? "unknown instruction type 6" : "unknown instruction type 0");
	}
	begin(&mk);
	mk_operator(&mk, "aten::add", "out");
	fbb_table_begin(&mk.fb);
	mk_instruction(&mk, ET_OP_KERNEL, fbb_table_end(&mk.fb));
	expect_invalid(&mk, "instruction 0: it has no list of arguments");
}

static void test_names(void **state)
{
	(void)state;
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, NULL);
	expect_invalid(&mk, "method 0: it has no name");
	begin(&mk);
	mk_operator(&mk, NULL, "out");
	expect_invalid(&mk, "forward: operator 0: it has no name");
	begin(&mk);
	mk_delegate(&mk, NULL, "p", 1, true, NULL, NULL);
	expect_invalid(&mk, "forward: delegate 0: it does not name its backend");
	begin(&mk);
	mk_named_data(&mk, NULL, "p", 1);
	expect_invalid(&mk, "named data 0: it has no key");
}

/* --- the file --------------------------------------------------------------------------------- */

static uint8_t *small_program(size_t *ret_n_bytes)
{
	const float four[4] = { 1, 2, 3, 4 };
	struct make_program mk;
	mk_init(&mk);
	uint32_t constant = mk_constant(&mk, four, sizeof four);
	mk_named_data(&mk, "weight", four, sizeof four);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 16);
	int w = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .constant = constant });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena });
	mk_delegate(&mk, "XnnpackBackend", "payload", 7, false, "k", "v");
	mk_call(&mk, 0, MK_ARGS(w, y));
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

static void put(uint8_t *at, uint64_t value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

static void expect_patched(size_t at, uint64_t value, size_t n, const char *sentence)
{
	size_t n_bytes;
	uint8_t *bytes = small_program(&n_bytes);
	put(bytes + at, value, n);
	expect_bytes(bytes, n_bytes, ET_E_INVALID_PROGRAM, sentence);
}

static void test_headers(void **state)
{
	(void)state;
	expect_patched(4, 0x31315445, 4,
		"the identifier is 'ET11', not 'ET12': another kind of file, or another version of it");
	expect_patched(12, 23, 4, "the extended header's length is 23");
	expect_patched(16, UINT64_MAX, 8, "truncated: the header speaks of 18446744073709551615 bytes of program");
	expect_patched(24, UINT64_MAX, 8, "truncated: the header speaks of");
	expect_patched(32, UINT64_MAX, 8, "truncated: the header speaks of");
	expect_patched(16, 4, 8, "4 bytes are too few for a FlatBuffer");
	/* a base of 0 says that there are no segments, but some are needed */
	expect_patched(24, 0, 8, "segment 2 is referred to, but there are 0");
	/* segments that the size does not include, beyond the file */
	size_t n_bytes;
	uint8_t *bytes = small_program(&n_bytes);
	uint64_t base = et_load_u64(bytes + 24);
	put(bytes + 24, base + 16, 8);
	put(bytes + 32, 0, 8);
	expect_bytes(bytes, n_bytes, ET_E_INVALID_PROGRAM,
		"segment 2: 16 bytes at 32 reach beyond the file, which has 32 behind byte");
	bytes = malloc(1);
	assert_non_null(bytes);
	expect_bytes(bytes, 0, ET_E_INVALID_PROGRAM, "0 bytes are too few for a FlatBuffer");
}

static void test_constants_in_two_places(void **state)
{
	(void)state;
	struct fb_build b;
	fbb_init(&b);
	const uint64_t offsets[] = { 0, 0 };
	fbb_ref list = fbb_vector(&b, offsets, 2, 8, 8);
	fbb_table_begin(&b);
	fbb_ref buffer = fbb_table_end(&b);
	fbb_ref buffers = fbb_refs(&b, &buffer, 1);
	fbb_table_begin(&b);
	fbb_add_ref(&b, SUBSEGMENT_OFFSETS, list);
	fbb_ref segment = fbb_table_end(&b);
	fbb_table_begin(&b);
	fbb_add_ref(&b, PROGRAM_CONSTANT_BUFFER, buffers);
	fbb_add_ref(&b, PROGRAM_CONSTANT_SEGMENT, segment);
	fbb_finish(&b, fbb_table_end(&b), "ET12", 0);
	size_t n_bytes;
	uint8_t *data = fbb_data(&b, &n_bytes);
	uint8_t *bytes = malloc(n_bytes);
	assert_non_null(bytes);
	memcpy(bytes, data, n_bytes);
	fbb_deinit(&b);
	expect_bytes(bytes, n_bytes, ET_E_INVALID_PROGRAM, "constants are both in a segment (2) and inline (1)");
}

/* A plan that lacks one list at a time. */
static void test_missing_lists(void **state)
{
	(void)state;
	static const struct {
		unsigned field;
		const char *sentence;
	} cases[] = {
		{ PLAN_VALUES, "forward: the method has no values" },
		{ PLAN_INPUTS, "forward: the method has no list of inputs" },
		{ PLAN_OUTPUTS, "forward: the method has no list of outputs" },
		{ PLAN_CHAINS, "forward: the method has no chain of instructions" },
		{ PLAN_ARENA_SIZES, "forward: the method has no list of arena sizes" },
		{ CHAIN_INSTRUCTIONS + 100, "forward: chain 0 has no list of instructions" },
		{ PROGRAM_EXECUTION_PLAN + 200, "there is no list of methods" },
		{ PLAN_ARENA_DEVICES + 300, "forward: arena 3: it lies on device type 1, only the CPU is supported" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		unsigned omit = cases[i].field;
		struct fb_build b;
		fbb_init(&b);
		fbb_ref name = fbb_string(&b, "forward");
		fbb_ref empty = fbb_vector(&b, NULL, 0, 4, 8);
		fbb_table_begin(&b);
		fbb_add_ref(&b, CHAIN_INSTRUCTIONS, omit == CHAIN_INSTRUCTIONS + 100 ? 0 : empty);
		fbb_ref chain = fbb_table_end(&b);
		fbb_ref chains = fbb_refs(&b, &chain, 1);
		fbb_table_begin(&b);
		fbb_add_u32(&b, ARENA_DEVICE_INDEX, 3);
		fbb_add_u8(&b, ARENA_DEVICE_TYPE, 1);
		fbb_ref device = fbb_table_end(&b);
		fbb_ref devices = fbb_refs(&b, &device, 1);
		fbb_table_begin(&b);
		fbb_add_ref(&b, PLAN_NAME, name);
		for (unsigned field = PLAN_VALUES; field <= PLAN_ARENA_SIZES; field++)
			fbb_add_ref(&b, field, field == omit ? 0 : field == PLAN_CHAINS ? chains : empty);
		fbb_add_ref(&b, PLAN_ARENA_DEVICES, omit == PLAN_ARENA_DEVICES + 300 ? devices : 0);
		fbb_ref plan = fbb_table_end(&b);
		fbb_ref plans = fbb_refs(&b, &plan, 1);
		fbb_table_begin(&b);
		fbb_add_ref(&b, PROGRAM_EXECUTION_PLAN, omit == PROGRAM_EXECUTION_PLAN + 200 ? 0 : plans);
		fbb_finish(&b, fbb_table_end(&b), "ET12", 0);
		size_t n_bytes;
		uint8_t *data = fbb_data(&b, &n_bytes);
		uint8_t *bytes = malloc(n_bytes);
		assert_non_null(bytes);
		memcpy(bytes, data, n_bytes);
		fbb_deinit(&b);
		expect_bytes(bytes, n_bytes,
			omit == PLAN_ARENA_DEVICES + 300 ? ET_E_NOT_SUPPORTED : ET_E_INVALID_PROGRAM,
			cases[i].sentence);
	}
}

/* Each delegate is compiled separately, so many delegates could share a payload to multiply the file's size. */
static void test_shared_payloads(void **state)
{
	(void)state;
	static const uint8_t payload[1 << 16];
	for (int n = 1; n <= 1000; n = n == 1 ? 50 : 20 * n) {
		struct make_program mk;
		size_t n_bytes;
		begin(&mk);
		mk_output(&mk, mk_none(&mk));
		for (int i = 0; i < n; i++)
			mk_delegate(&mk, "X", payload, i ? 1 : sizeof payload, n < 1000, NULL, NULL);
		for (int i = 1; i < n; i++)
			((fbb_ref *)mk.delegates.items)[i] = ((fbb_ref *)mk.delegates.items)[0];
		if (n == 1000) {
			expect_invalid(&mk, "payloads are shared so often that they are more than 64 times the file");
			continue;
		}
		uint8_t *bytes = mk_finish(&mk, &n_bytes);
		struct counting_alloc counting = { 0 };
		struct et_allocator allocator = counting_allocator(&counting);
		struct et_source source = { .bytes = bytes, .n_bytes = n_bytes };
		struct et_program *program = NULL;
		struct et_diag diag = { 0 };
		assert_int_equal(et_program_open(&program, &source, NULL, &allocator, &diag), ET_OK);
		assert_int_equal(et_program_method_at(program, 0)->n_delegates, n);
		et_program_unref(program);
		free(bytes);
	}
}

/* Two segments each cover all of the data: with a thousand of them a small file would cost as much as a large one. */
static void test_overlapping_segments(void **state)
{
	(void)state;
	static const uint8_t data[256];
	struct make_program mk;
	begin(&mk);
	mk_output(&mk, mk_none(&mk));
	mk_named_data(&mk, "a", data, sizeof data);
	mk_named_data(&mk, "b", data, sizeof data);
	size_t *ranges = mk.segments.items; /* where each begins, and its size */
	for (int i = 0; i < 4; i++)
		ranges[i] = i % 2 ? mk.segment_bytes.n : 0;
	expect_invalid(&mk, "segment 1: segments overlap: they are more than the file");
}

/* A delegate with a reference to a payload that does not exist. */
static void test_payloads(void **state)
{
	(void)state;
	static const struct {
		int location; /* -1: no reference at all */
		uint32_t index;
		bool has_key;
		const char *sentence;
	} cases[] = {
		{ -1, 0, true, "forward: delegate 0: it has no payload" },
		{ 0, 1, true, "forward: delegate 0: its payload is number 1, but there are 1" },
		{ 0, 0, true, "forward: delegate 0: its payload (number 0) is missing" },
		{ 1, 0, true, "forward: delegate 0: segment 0 is referred to, but there are 0" },
		{ 2, 0, true, "forward: delegate 0: unknown payload location 2" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct make_program mk;
		begin(&mk);
		fbb_table_begin(&mk.fb);
		fbb_ref empty = fbb_table_end(&mk.fb);
		mk_delegate(&mk, "X", "x", 1, true, NULL, NULL);
		((fbb_ref *)mk.inline_payloads.items)[0] = empty;
		fbb_ref processed = 0;
		if (cases[i].location >= 0) {
			fbb_table_begin(&mk.fb);
			fbb_add_u32(&mk.fb, PROCESSED_INDEX, cases[i].index);
			fbb_add_u8(&mk.fb, PROCESSED_LOCATION, (uint8_t)cases[i].location);
			processed = fbb_table_end(&mk.fb);
		}
		fbb_ref id = fbb_string(&mk.fb, "X");
		fbb_table_begin(&mk.fb);
		fbb_add_ref(&mk.fb, DELEGATE_ID, id);
		fbb_add_ref(&mk.fb, DELEGATE_PROCESSED, processed);
		((fbb_ref *)mk.delegates.items)[0] = fbb_table_end(&mk.fb);
		expect_invalid(&mk, cases[i].sentence);
	}
	struct make_program mk;
	begin(&mk);
	mk_delegate(&mk, "X", "x", 1, true, NULL, NULL);
	fbb_table_begin(&mk.fb);
	fbb_ref spec = fbb_table_end(&mk.fb);
	fbb_ref specs = fbb_refs(&mk.fb, &spec, 1);
	fbb_table_begin(&mk.fb);
	fbb_ref processed = fbb_table_end(&mk.fb);
	fbb_ref id = fbb_string(&mk.fb, "X");
	fbb_table_begin(&mk.fb);
	fbb_add_ref(&mk.fb, DELEGATE_ID, id);
	fbb_add_ref(&mk.fb, DELEGATE_PROCESSED, processed);
	fbb_add_ref(&mk.fb, DELEGATE_COMPILE_SPECS, specs);
	((fbb_ref *)mk.delegates.items)[0] = fbb_table_end(&mk.fb);
	expect_invalid(&mk, "forward: delegate 0: compile spec 0 has no key");
}

/* One tensor with a name of 60 kB; a thousand values refer to it. */
static void test_sharing(void **state)
{
	(void)state;
	enum { N_NAME = 60000 };
	char *name = malloc(N_NAME + 1);
	assert_non_null(name);
	memset(name, 'n', N_NAME);
	name[N_NAME] = '\0';
	struct make_program mk;
	begin(&mk);
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1), .name = name });
	fbb_ref ref = ((fbb_ref *)mk.values.items)[0];
	mk.values.items = realloc(mk.values.items, 1000 * sizeof ref);
	assert_non_null(mk.values.items);
	for (mk.values.n = 0; mk.values.n < 1000; mk.values.n++)
		((fbb_ref *)mk.values.items)[mk.values.n] = ref;
	expect_invalid(&mk, "the same bytes are used over and over");
	free(name);
}

/* --- bundles ---------------------------------------------------------------------------------- */

static void expect_bundle(uint8_t *bytes, size_t n_bytes, enum et_status status, const char *sentence)
{
	struct counting_alloc counting = { 0 };
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_pool pool;
	et_pool_init(&pool, &allocator);
	struct et_bundle bundle;
	struct et_diag diag = { 0 };
	enum et_status got = et_bundle_open(&bundle, bytes, n_bytes, &pool, &diag);
	if (got != status || !strstr(diag.text, sentence))
		fail_msg("wanted %s: %s\n   got %s: %s", et_status_text(status), sentence, et_status_text(got),
			diag.text);
	et_pool_deinit(&pool);
	assert_int_equal(counting.n_live, 0);
}

/* The only place in @bytes with @pattern. */
static uint8_t *find_bytes(uint8_t *bytes, size_t n_bytes, const void *pattern, size_t n)
{
	uint8_t *found = NULL;
	for (size_t i = 0; i + n <= n_bytes; i++) {
		if (memcmp(bytes + i, pattern, n) == 0) {
			assert_null(found);
			found = bytes + i;
		}
	}
	assert_non_null(found);
	return found;
}

static void test_bundles(void **state)
{
	(void)state;
	const float input[] = { 1.25f, 2, 3 }, output[] = { 4, 5, 6 };
	size_t n_bytes, n_program;
	uint8_t *pte = small_program(&n_program);
	uint8_t *bytes = mk_bundle(pte, n_program, "forward", input, output, 3, &n_bytes);
	/* the input's bytes follow their count */
	uint8_t *data = find_bytes(bytes, n_bytes, input, sizeof input);
	put(data - 4, 11, 4);
	expect_bundle(bytes, n_bytes, ET_E_INVALID_PROGRAM,
		"forward: bundled input 0: 11 bytes of data for a tensor of 12 bytes");
	put(data - 4, 12, 4);
	bytes[7] = '7';
	assert_true(et_bundle_is(bytes, n_bytes));
	expect_bundle(bytes, n_bytes, ET_E_INVALID_PROGRAM,
		"the identifier is 'BP07', not 'BP08': another kind of file, or another version of it");
	expect_bytes(bytes, n_bytes, ET_E_INVALID_PROGRAM,
		"the identifier is 'BP07', not 'BP08': another kind of file, or another version of it");
	/* a program that is not valid */
	bytes = mk_bundle(pte, 3, "forward", input, output, 3, &n_bytes);
	expect_bytes(bytes, n_bytes, ET_E_INVALID_PROGRAM, "3 bytes are too few for a FlatBuffer");
	bytes = mk_bundle(pte, 0, "forward", input, output, 3, &n_bytes);
	expect_bytes(bytes, n_bytes, ET_E_INVALID_PROGRAM, "the bundle holds no program");
	/* a value of unknown type, and cases of unknown methods */
	const struct mk_bundled unknown = { .type = 200 };
	bytes = mk_bundle_of_numbers(pte, n_program, "forward", &unknown, 1, &n_bytes);
	expect_bundle(bytes, n_bytes, ET_E_INVALID_PROGRAM, "bundled input 0: unknown value type 200");
	free(bytes);
	bytes = mk_bundle_of_numbers(pte, n_program, NULL, NULL, 0, &n_bytes);
	expect_bundle(bytes, n_bytes, ET_E_INVALID_PROGRAM, "it does not name its method");
	free(bytes);
	/* a bundle inside a bundle */
	bytes = mk_bundle(pte, n_program, "forward", input, output, 3, &n_bytes);
	size_t n_outer;
	uint8_t *outer = mk_bundle(bytes, n_bytes, "forward", input, output, 3, &n_outer);
	expect_bytes(outer, n_outer, ET_E_INVALID_PROGRAM,
		"the identifier is 'BP08', not 'ET12': another kind of file, or another version of it");
	free(bytes);
	free(pte);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_tensor_kinds),
		cmocka_unit_test(test_arenas),
		cmocka_unit_test(test_constants),
		cmocka_unit_test(test_initial_values),
		cmocka_unit_test(test_external_tensors),
		cmocka_unit_test(test_damage_behind_a_refusal),
		cmocka_unit_test(test_external_data),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_values_without_a_body),
		cmocka_unit_test(test_inputs_and_outputs),
		cmocka_unit_test(test_instructions),
		cmocka_unit_test(test_jumps),
		cmocka_unit_test(test_broken_instructions),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_constants_in_two_places),
		cmocka_unit_test(test_missing_lists),
		cmocka_unit_test(test_payloads),
		cmocka_unit_test(test_shared_payloads),
		cmocka_unit_test(test_overlapping_segments),
		cmocka_unit_test(test_sharing),
		cmocka_unit_test(test_bundles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
