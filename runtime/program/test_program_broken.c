/* SPDX-License-Identifier: BSD-3-Clause */
/* Real and made files, cut off at every length, with every bit flipped, and with the nth allocation failing: an answer
 * each time, never a crash, and no leak. If a file still opens, the test walks all of it.
 *
 * The files are in tests/models/small, and in the models folder beside the checkout if there is one. */
#include "runtime/program/bundle.h"
#include "runtime/program/flatbuffer.h"
#include "runtime/program/program.h"
#include "tests/support/counting_alloc.h"
#include "tests/support/make_program.h"
#include "tests/support/walk_program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static uint64_t sink;

/* Open the file and walk it; returns whether it opened. */
static bool try_program(const uint8_t *bytes, size_t n_bytes, size_t fail_at, bool *ret_ran_out)
{
	struct counting_alloc counting = { .fail_at = fail_at };
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_source source = { .bytes = bytes, .n_bytes = n_bytes };
	struct et_program *program = NULL;
	struct et_diag diag = { 0 };
	enum et_status status = et_program_open(&program, &source, NULL, &allocator, &diag);
	*ret_ran_out = status == ET_E_MEMORY_ALLOCATION_FAILED;
	if (status == ET_OK) {
		sink += walk_program(program);
		et_program_unref(program);
	} else if (!diag.text[0]) {
		fail_msg("refused without a sentence: %s", et_status_text(status));
	}
	if (counting.n_live)
		fail_msg("%zu pieces of memory left behind", counting.n_live);
	return status == ET_OK;
}

static bool try_bundle(const uint8_t *bytes, size_t n_bytes, size_t fail_at, bool *ret_ran_out)
{
	struct counting_alloc counting = { .fail_at = fail_at };
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_pool pool;
	et_pool_init(&pool, &allocator);
	struct et_bundle bundle;
	struct et_diag diag = { 0 };
	enum et_status status = et_bundle_open(&bundle, bytes, n_bytes, &pool, &diag);
	*ret_ran_out = status == ET_E_MEMORY_ALLOCATION_FAILED;
	if (status == ET_OK)
		sink += walk_bundle(&bundle);
	else if (!diag.text[0])
		fail_msg("refused without a sentence: %s", et_status_text(status));
	et_pool_deinit(&pool);
	if (counting.n_live)
		fail_msg("%zu pieces of memory left behind", counting.n_live);
	return status == ET_OK;
}

static bool try_both(const uint8_t *bytes, size_t n_bytes)
{
	bool ran_out;
	bool opened = try_program(bytes, n_bytes, 0, &ran_out);
	if (et_bundle_is(bytes, n_bytes))
		opened &= try_bundle(bytes, n_bytes, 0, &ran_out);
	return opened;
}

/* Cut the file at every length below @n_bytes, at most @n_steps of them, each in a buffer of exactly that length. */
static void cut_off(const uint8_t *bytes, size_t n_bytes, size_t n_steps)
{
	size_t step = n_bytes / n_steps + 1;
	for (size_t n = 0; n < n_bytes; n += step) {
		uint8_t *copy = malloc(n ? n : 1);
		assert_non_null(copy);
		memcpy(copy, bytes, n);
		try_both(copy, n);
		free(copy);
	}
}

/* Flip every bit of the first @n bytes, at most @n_steps bytes of them. */
static void turn_bits(uint8_t *bytes, size_t n_bytes, size_t n, size_t n_steps)
{
	size_t step = n / n_steps + 1;
	for (size_t i = 0; i < n; i += step) {
		for (int bit = 0; bit < 8; bit++) {
			bytes[i] ^= (uint8_t)(1 << bit);
			try_both(bytes, n_bytes);
			bytes[i] ^= (uint8_t)(1 << bit);
		}
		uint8_t was = bytes[i];
		bytes[i] = was ? 0 : 0xff;
		try_both(bytes, n_bytes);
		bytes[i] = was;
	}
}

static void run_out(const uint8_t *bytes, size_t n_bytes)
{
	bool ran_out = true;
	for (size_t n = 1; ran_out; n++)
		assert_true(try_program(bytes, n_bytes, n, &ran_out) == !ran_out);
	ran_out = et_bundle_is(bytes, n_bytes);
	for (size_t n = 1; ran_out; n++)
		assert_true(try_bundle(bytes, n_bytes, n, &ran_out) == !ran_out);
}

/* NULL: there is no such file. */
static uint8_t *read_file(const char *folder, const char *name, size_t *ret_n_bytes)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *file = fopen(path, "rb");
	if (!file)
		return NULL;
	fseek(file, 0, SEEK_END);
	size_t n = (size_t)ftell(file);
	rewind(file);
	uint8_t *bytes = malloc(n ? n : 1);
	assert_non_null(bytes);
	assert_int_equal(fread(bytes, 1, n, file), n);
	fclose(file);
	*ret_n_bytes = n;
	return bytes;
}

static uint8_t *make_large(size_t *ret_n_bytes)
{
	const float weights[8] = { 1 };
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 4096);
	int add = mk_operator(&mk, "aten::add", "out");
	uint32_t constant = mk_constant(&mk, weights, sizeof weights);
	uint32_t initial = mk_initial(&mk, weights, sizeof weights);
	mk_named_data(&mk, "weight", weights, sizeof weights);
	for (int i = 0; i < 30; i++) {
		int a = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(8), .constant = constant });
		int b = mk_tensor(&mk,
			&(struct mk_tensor){ MK_FP32, MK_SIZES(8), .arena = arena, .constant = initial, .name = "s" });
		int c = mk_int(&mk, i);
		mk_slots(&mk, ET_TAG_INT_LIST, MK_ARGS(c, c));
		mk_slots(&mk, ET_TAG_TENSOR_LIST, MK_ARGS(a, b));
		mk_slots(&mk, ET_TAG_OPTIONAL_TENSOR_LIST, MK_ARGS(a, -1));
		mk_string(&mk, "text");
		mk_kernel(&mk, add, MK_ARGS(a, b, c, b));
	}
	mk_bools(&mk, (const bool[]){ true }, 1);
	mk_doubles(&mk, (const double[]){ 1 }, 1);
	int cond = mk_bool(&mk, true);
	mk_jump_false(&mk, cond, 0);
	mk_move(&mk, 0, 1);
	mk_free(&mk, 0);
	mk_delegate(&mk, "A", "a", 1, false, "k", "v");
	mk_delegate(&mk, "B", "b", 1, true, "k", "v");
	mk_call(&mk, 1, MK_ARGS(0, 1));
	mk_input(&mk, 0);
	mk_output(&mk, 1);
	mk_method(&mk, "other");
	return mk_finish(&mk, ret_n_bytes);
}

static void test_made(void **state)
{
	(void)state;
	size_t n_bytes;
	uint8_t *bytes = make_large(&n_bytes);
	assert_true(try_both(bytes, n_bytes));
	run_out(bytes, n_bytes);
	cut_off(bytes, n_bytes, n_bytes);
	turn_bits(bytes, n_bytes, n_bytes, 600);
	free(bytes);
}

static void test_committed(void **state)
{
	(void)state;
	static const char *const names[] = { "two_methods_cond.bpte", "gelu_xnnpack.bpte" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		size_t n_bytes;
		uint8_t *bytes = read_file(SMALL_MODELS, names[i], &n_bytes);
		if (!bytes)
			fail_msg("no %s/%s", SMALL_MODELS, names[i]);
		assert_true(try_both(bytes, n_bytes));
		run_out(bytes, n_bytes);
		cut_off(bytes, n_bytes, n_bytes);
		turn_bits(bytes, n_bytes, n_bytes, n_bytes);
		free(bytes);
	}
}

/* The program inside a bundle, so that only bytes that the reader reads are flipped. */
static void test_shared(void **state)
{
	(void)state;
	static const char *const names[] = { "silero_vad/xnnpack.bpte", "silero_vad/portable.bpte",
		"vulkan/mixed_vulkan_xnnpack.bpte", "npu/vgf_small_int.bpte", "programs/encoder_dynamic_xnnpack.bpte" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		size_t n_bytes, n_program;
		uint8_t *bytes = read_file(SHARED_MODELS, names[i], &n_bytes);
		if (!bytes)
			fail_msg("no %s/%s", SHARED_MODELS, names[i]);
		const uint8_t *found;
		assert_true(try_both(bytes, n_bytes));
		assert_int_equal(et_bundle_find_program(&found, &n_program, bytes, n_bytes, NULL), ET_OK);
		uint8_t *program = malloc(n_program);
		assert_non_null(program);
		memcpy(program, found, n_program);
		free(bytes);
		size_t n_flatbuffer = n_program;
		if (memcmp(program + 8, "eh00", 4) == 0)
			n_flatbuffer = (size_t)et_load_u64(program + 16);
		assert_true(n_flatbuffer <= n_program);
		run_out(program, n_program);
		cut_off(program, n_flatbuffer, 300);
		turn_bits(program, n_program, n_flatbuffer, 300);
		free(program);
	}
}

/* An argument: test the files beside the checkout. 77 tells meson that there are none. */
int main(int argc, char **argv)
{
	(void)argv;
	const struct CMUnitTest own[] = {
		cmocka_unit_test(test_made),
		cmocka_unit_test(test_committed),
	};
	const struct CMUnitTest shared[] = {
		cmocka_unit_test(test_shared),
	};
	if (argc == 1)
		return cmocka_run_group_tests(own, NULL, NULL);
	if (access(SHARED_MODELS, R_OK)) {
		printf("SKIPPED: no %s\n", SHARED_MODELS);
		return 77;
	}
	return cmocka_run_group_tests(shared, NULL, NULL);
}
