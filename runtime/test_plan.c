/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans that are refused, each with its sentence; kernels' signatures; and every allocation failing in turn. */
#include "runtime/plan_internal.h"
#include "tests/support/method_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct method_rig rig;
static struct make_program mk;

static int setup(void **state)
{
	memset(&rig, 0, sizeof rig);
	rig_init(&rig);
	mk_init(&mk);
	mk_method(&mk, "forward");
	return 0;
}

static int teardown(void **state)
{
	rig_close(&rig);
	return 0;
}

static int planned(uint64_t offset, int32_t n)
{
	return mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(n), .arena = 1, .offset = offset });
}

static void refuses(enum et_status status, const char *sentence)
{
	assert_int_equal(rig_try_plan(&rig, &mk), status);
	assert_string_equal(rig.diag.text, sentence);
}

static void all_missing_operators_are_named(void **state)
{
	mk_arena(&mk, 64);
	int x = planned(0, 1);
	mk_operator(&mk, "aten::unused", "out"); /* no instruction needs it */
	mk_kernel(&mk, mk_operator(&mk, "aten::eleven", "out"), MK_ARGS(x));
	mk_kernel(&mk, mk_operator(&mk, "test::fail", ""), MK_ARGS(x, x));
	mk_kernel(&mk, mk_operator(&mk, "my::own", ""), MK_ARGS(x));
	refuses(ET_E_OPERATOR_MISSING, "method 'forward' needs operators that are missing: aten::eleven.out, my::own");
}

static void many_missing_operators_are_counted(void **state)
{
	char name[64];
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof name, "aten::some_operator_number_%d", i);
		mk_kernel(&mk, mk_operator(&mk, name, "out"), (const int[]){ 0 }, 0);
	}
	assert_int_equal(rig_try_plan(&rig, &mk), ET_E_OPERATOR_MISSING);
	assert_non_null(strstr(rig.diag.text, "aten::some_operator_number_0.out, "));
	assert_non_null(strstr(rig.diag.text, " more"));
}

static int n_held, n_holdable;

static enum et_status hold(const struct et_kernel *kernel, uint64_t tenant, void **ret_held, struct et_diag *diag)
{
	if (n_held == n_holdable)
		return et_fail(diag, ET_E_OUT_OF_RESOURCES, "no room for %s", kernel->name);
	n_held++;
	*ret_held = &n_held;
	return ET_OK;
}

static void release(void *held)
{
	--*(int *)held;
}

/* The Plan holds its operators as long as it lives, except operators that no instruction uses. */
static void operators_are_held(void **state)
{
	static const struct et_kernel kernels[] = {
		{ .name = "test::one", .signature = "T>T", .hold = hold, .release = release },
		{ .name = "test::three", .signature = "T>T", .hold = hold, .release = release },
		{ .name = "test::two", .signature = "T>T", .hold = hold, .release = release },
	};
	static const struct et_kernel_table table = { kernels, 3 };
	static const struct et_kernel_table *const tables[] = { &table };
	struct et_plan *plan;
	rig.registry.tables = tables;
	mk_arena(&mk, 64);
	int x = planned(0, 1), y = planned(16, 1);
	mk_kernel(&mk, mk_operator(&mk, "test::one", ""), MK_ARGS(x, y));
	mk_operator(&mk, "test::three", "");
	mk_kernel(&mk, mk_operator(&mk, "test::two", ""), MK_ARGS(x, y));
	n_held = 0;
	n_holdable = 1;
	refuses(ET_E_OUT_OF_RESOURCES, "no room for test::two");
	assert_int_equal(n_held, 0);
	n_holdable = 2;
	assert_int_equal(et_plan_new(&plan, rig.program, NULL, &rig.registry, NULL, 1, &rig.allocator, &rig.diag),
		ET_OK);
	assert_int_equal(n_held, 2);
	et_plan_unref(plan);
	assert_int_equal(n_held, 0);
}

static void a_missing_backend_is_named(void **state)
{
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1) });
	mk_call(&mk, mk_delegate(&mk, "QnnBackend", "abc", 3, false, NULL, NULL), MK_ARGS(x));
	refuses(ET_E_BACKEND_MISSING, "Backend 'QnnBackend' is not available. Available backends: []");
}

static void a_method_that_is_not_there(void **state)
{
	mk_method(&mk, "encode");
	assert_int_equal(rig_try_plan(&rig, &mk), ET_OK); /* forward, of two */
	struct et_plan *plan = NULL;
	struct et_diag diag = { 0 };
	assert_int_equal(et_plan_new(&plan, rig.program, "decode", &rig.registry, NULL, 1, &rig.allocator, &diag),
		ET_E_NOT_FOUND);
	assert_string_equal(diag.text, "the program has no method 'decode'");
	assert_int_equal(et_plan_new(&plan, rig.program, "encode", &rig.registry, NULL, 1, &rig.allocator, &diag),
		ET_OK);
	et_plan_unref(plan);
}

static void refuses_method(const char *method, enum et_status status, const char *sentence)
{
	struct et_plan *plan = NULL;
	struct et_diag diag = { 0 };
	assert_int_equal(et_plan_new(&plan, rig.program, method, &rig.registry, NULL, 1, &rig.allocator, &diag),
		status);
	assert_string_equal(diag.text, sentence);
}

/* A method that cannot run does not disturb the others, whichever comes first. */
static void a_refused_method_does_not_disturb_others(void **state)
{
	struct mk_tensor outside = { MK_FP32, MK_SIZES(1), .name = "w", .is_external = true };
	struct mk_tensor unbound = { MK_FP32, MK_SIZES(1), .dynamism = ET_DYNAMIC_UNBOUND };
	struct mk_tensor device = { MK_FP32, MK_SIZES(1), .device_type = 1 };
	mk_input(&mk, mk_tensor(&mk, &outside));
	mk_method(&mk, "unbound");
	mk_tensor(&mk, &unbound);
	mk_method(&mk, "works");
	mk_input(&mk, mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1) }));
	mk_method(&mk, "device");
	mk_tensor(&mk, &device);
	mk_method(&mk, "operator");
	mk_kernel(&mk, mk_operator(&mk, "aten::eleven", "out"), MK_ARGS(mk_none(&mk)));
	mk_method(&mk, "backend");
	mk_call(&mk, mk_delegate(&mk, "QnnBackend", "abc", 3, false, NULL, NULL),
		MK_ARGS(mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1) })));
	refuses(ET_E_NOT_FOUND, "forward: value 0: tensor 'w' lies outside the file, and no data file was given; "
				"its .ptd of the same export has it");
	refuses_method("unbound", ET_E_NOT_SUPPORTED,
		"unbound: value 0: the tensor's shape is DYNAMIC_UNBOUND, which is not supported");
	refuses_method("device", ET_E_NOT_SUPPORTED,
		"device: value 0: the tensor lies on device type 1, only the CPU is supported");
	refuses_method("operator", ET_E_OPERATOR_MISSING,
		"method 'operator' needs operators that are missing: aten::eleven.out");
	refuses_method("backend", ET_E_BACKEND_MISSING,
		"Backend 'QnnBackend' is not available. Available backends: []");
	struct et_plan *plan = NULL;
	assert_int_equal(et_plan_new(&plan, rig.program, "works", &rig.registry, NULL, 1, &rig.allocator, &rig.diag),
		ET_OK);
	assert_int_equal(et_plan_info(plan)->n_inputs, 1);
	et_plan_unref(plan);
}

static void arguments_of_a_wrong_kind(void **state)
{
	mk_arena(&mk, 64);
	int x = planned(0, 1), n = mk_int(&mk, 1);
	mk_kernel(&mk, mk_operator(&mk, "test::add", "out"), MK_ARGS(x, n, x));
	refuses(ET_E_INVALID_PROGRAM, "instruction 0 (test::add.out): argument 1 is a Int, which 'T' of its signature "
				      "TT>T does not take");
}

static void too_few_arguments(void **state)
{
	mk_arena(&mk, 64);
	int x = planned(0, 1);
	mk_kernel(&mk, mk_operator(&mk, "test::add", "out"), MK_ARGS(x, x));
	refuses(ET_E_INVALID_PROGRAM, "instruction 0 (test::add.out): 2 arguments, expected 3");
}

static void nothing_writes_to_constants(void **state)
{
	float weight = 1;
	mk_arena(&mk, 64);
	int x = planned(0, 1);
	int constant = mk_tensor(&mk,
		&(struct mk_tensor){ MK_FP32, MK_SIZES(1), .constant = mk_constant(&mk, &weight, sizeof weight) });
	int list = mk_slots(&mk, ET_TAG_TENSOR_LIST, (const int[]){ x, constant }, 2);
	mk_kernel(&mk, mk_operator(&mk, "test::split", ""), MK_ARGS(x, list));
	refuses(ET_E_INVALID_PROGRAM, "instruction 0 (test::split) would write to value 1, a constant");
}

/* A move may pass a constant; the Plan cannot know that, the run refuses. */
static void moves_and_views_cannot_write_to_constants(void **state)
{
	float weight = 1;
	mk_arena(&mk, 64);
	int constant = mk_tensor(&mk,
		&(struct mk_tensor){ MK_FP32, MK_SIZES(1), .constant = mk_constant(&mk, &weight, sizeof weight) });
	int x = planned(0, 1), target = planned(16, 1), go = mk_bool(&mk, true);
	int view = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1) });
	mk_jump_false(&mk, go, 3);
	mk_move(&mk, constant, target);
	mk_kernel(&mk, mk_operator(&mk, "test::add", "out"), MK_ARGS(x, x, target));
	mk_kernel(&mk, mk_operator(&mk, "test::view", ""), MK_ARGS(constant, view));
	mk_kernel(&mk, mk_operator(&mk, "test::copy_", ""), MK_ARGS(view, x));
	mk_input(&mk, x);
	mk_input(&mk, go);
	rig_open(&rig, &mk);
	struct rig_run run;
	float in = 5;
	rig_run_init(&rig, &run);
	rig_input(&run, 0, &in, 1);
	run.inputs[1].b = true;
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_PROGRAM);
	assert_string_equal(run.run.diag.text,
		"instruction 2 (test::add.out): argument 2 is written but refers to a constant");
	run.inputs[1].b = false;
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_PROGRAM);
	assert_string_equal(run.run.diag.text,
		"instruction 4 (test::copy_): argument 0 is written but refers to a constant");
}

static void moves_that_change_the_kind(void **state)
{
	mk_arena(&mk, 64);
	mk_move(&mk, planned(0, 1), mk_int(&mk, 1));
	refuses(ET_E_INVALID_PROGRAM, "instruction 0: moves a Tensor to a value that holds a Int");
}

static void moves_of_lists(void **state)
{
	int one = mk_int(&mk, 1);
	int a = mk_slots(&mk, ET_TAG_INT_LIST, &one, 1), b = mk_slots(&mk, ET_TAG_INT_LIST, &one, 1);
	mk_move(&mk, a, b);
	refuses(ET_E_NOT_SUPPORTED, "instruction 0: moves of lists are not supported");
}

/* A scalar that changes its kind during a run is refused where a kernel relies on the kind. */
static void scalars_that_change_their_kind(void **state)
{
	mk_arena(&mk, 64);
	int n = mk_int(&mk, 1), d = mk_double(&mk, 1.5), sum = mk_int(&mk, 0), x = planned(0, 2), y = planned(16, 2);
	int list = mk_slots(&mk, ET_TAG_INT_LIST, &n, 1), which = mk_bool(&mk, true);
	mk_move(&mk, d, n);
	mk_jump_false(&mk, which, 3);
	mk_kernel(&mk, mk_operator(&mk, "test::sum_ints", ""), MK_ARGS(list, sum));
	mk_kernel(&mk, mk_operator(&mk, "test::shrink", ""), MK_ARGS(x, n, y));
	mk_input(&mk, x);
	mk_input(&mk, which);
	rig_open(&rig, &mk);
	struct rig_run run;
	float in[2] = { 0 };
	rig_run_init(&rig, &run);
	rig_input(&run, 0, in, 2);
	run.inputs[1].b = true;
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_PROGRAM);
	assert_string_equal(run.run.diag.text, "instruction 2 (test::sum_ints): item 0 of argument 0 became a Double");
	run.inputs[1].b = false;
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_PROGRAM);
	assert_string_equal(run.run.diag.text, "instruction 3 (test::shrink): argument 1 became a Double");
}

static void a_view_is_read_before_it_is_made(void **state)
{
	mk_arena(&mk, 64);
	int view = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1) }), y = planned(0, 1);
	mk_kernel(&mk, mk_operator(&mk, "test::add", "out"), MK_ARGS(view, view, y));
	rig_open(&rig, &mk);
	struct rig_run run;
	rig_run_init(&rig, &run);
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_PROGRAM);
	assert_string_equal(run.run.diag.text,
		"instruction 0 (test::add.out): argument 0 has no memory: it was freed or never bound");
}

static void signatures_are_read(void **state)
{
	struct et_kernel_arg args[4];
	assert_int_equal(et_kernel_signature("=Tt&T>N", args, 4), 4);
	assert_true(!args[0].is_read && args[0].is_written && args[1].is_read && !args[1].is_written);
	assert_true(args[2].is_read && args[2].is_written && !args[3].is_read && args[3].is_written);
	assert_int_equal(et_kernel_signature("TV>*T", args, 4), 3);
	assert_true(args[2].is_view);
	assert_int_equal(et_kernel_signature("", args, 4), 0);
	const char *const malformed[] = { "TTTTT", "T>T>T", "=", "T?", "N>T", ">*T", "I>*T", "T>l", "T>*N" };
	for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++)
		assert_int_equal(et_kernel_signature(malformed[i], args, 4), -1);
	assert_true(et_kernel_letter_takes('t', ET_TAG_NONE) && !et_kernel_letter_takes('T', ET_TAG_NONE));
	assert_true(et_kernel_letter_takes('l', ET_TAG_OPTIONAL_TENSOR_LIST));
	assert_false(et_kernel_letter_takes('L', ET_TAG_OPTIONAL_TENSOR_LIST));
	assert_true(et_kernel_letter_takes('S', ET_TAG_BOOL) && !et_kernel_letter_takes('I', ET_TAG_BOOL));
}

static void kernels_are_found_and_sorted(void **state)
{
	for (size_t i = 0; i < rig_kernels.n; i++) {
		assert_ptr_equal(et_kernel_table_find(&rig_kernels, rig_kernels.kernels[i].name),
			&rig_kernels.kernels[i]);
		assert_true(i == 0 || strcmp(rig_kernels.kernels[i - 1].name, rig_kernels.kernels[i].name) < 0);
	}
	assert_null(et_kernel_table_find(&rig_kernels, "test::"));
	assert_null(et_kernel_table_find(&rig_kernels, "zzz"));
}

static void unaligned_constants_are_copied_once(void **state)
{
	float weight[3] = { 1, 2, 3 };
	mk_arena(&mk, 64);
	int constant = mk_tensor(&mk,
		&(struct mk_tensor){ MK_FP32, MK_SIZES(3), .constant = mk_constant(&mk, weight, sizeof weight) });
	int x = planned(0, 3), y = planned(16, 3);
	mk_kernel(&mk, mk_operator(&mk, "test::add", "out"), MK_ARGS(x, constant, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	size_t n_bytes;
	uint8_t *bytes = mk_finish(&mk, &n_bytes);
	for (size_t skew = 0; skew < 2; skew++) {
		uint8_t *file = aligned_alloc(64, (n_bytes + skew + 127) / 64 * 64);
		memcpy(file + skew, bytes, n_bytes);
		struct et_source source = { .bytes = file + skew, .n_bytes = n_bytes };
		enum et_status status = et_program_open(&rig.program, &source, NULL, &rig.allocator, &rig.diag);
		if (!status)
			status = et_plan_new(&rig.plan, rig.program, NULL, &rig.registry, NULL, 1, &rig.allocator,
				&rig.diag);
		if (status)
			fail_msg("%s", rig.diag.text);
		rig.info = et_plan_info(rig.plan);
		assert_int_equal(rig.info->n_copied_constant_bytes, skew ? sizeof weight : 0);
		assert_int_equal(et_method_new(&rig.method, rig.plan, &rig.allocator, NULL), ET_OK);
		assert_int_equal(et_frame_new(&rig.frame, rig.plan, &rig.allocator, &rig.allocator, NULL), ET_OK);
		float in[3] = { 1, 1, 1 }, out[3];
		rig_run_floats(&rig, in, 3, out, 3);
		assert_true(out[2] == 4);
		rig.frame = et_frame_free(rig.frame);
		rig.method = et_method_free(rig.method);
		rig.plan = et_plan_unref(rig.plan);
		rig.program = et_program_unref(rig.program);
		free(file);
	}
	free(bytes);
}

/* Forty tensors with the same bytes. Aligned they cost nothing; unaligned the copies are limited. */
static void copies_of_unaligned_constants_are_limited(void **state)
{
	enum { N = 40, N_FLOATS = 1 << 14 };
	static float weight[N_FLOATS];
	uint32_t constant = mk_constant(&mk, weight, sizeof weight);
	for (int i = 0; i < N; i++)
		mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(N_FLOATS), .constant = constant });
	mk_output(&mk, mk_none(&mk));
	size_t n_bytes;
	uint8_t *bytes = mk_finish(&mk, &n_bytes);
	for (size_t skew = 0; skew < 2; skew++) {
		uint8_t *file = aligned_alloc(64, (n_bytes + skew + 127) / 64 * 64);
		memcpy(file + skew, bytes, n_bytes);
		struct et_source source = { .bytes = file + skew, .n_bytes = n_bytes };
		assert_int_equal(et_program_open(&rig.program, &source, NULL, &rig.allocator, &rig.diag), ET_OK);
		enum et_status status = et_plan_new(&rig.plan, rig.program, NULL, &rig.registry, NULL, 1,
			&rig.allocator, &rig.diag);
		assert_int_equal(status, skew ? ET_E_INVALID_PROGRAM : ET_OK);
		if (skew)
			assert_string_equal(rig.diag.text,
				"copies of unaligned constants would take more than 16 times the size of their file");
		else
			rig.plan = et_plan_unref(rig.plan);
		rig.program = et_program_unref(rig.program);
		free(file);
	}
	free(bytes);
}

/* Every allocation fails once: no leak, and no half-made Plan. */
static void every_allocation_may_fail(void **state)
{
	float initial[4] = { 1 };
	mk_arena(&mk, 128);
	uint32_t number = mk_initial(&mk, initial, sizeof initial);
	int x = planned(0, 4), y = planned(16, 4), go = mk_bool(&mk, false);
	int h = mk_tensor(&mk,
		&(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = 1, .offset = 64, .constant = number });
	mk_kernel(&mk, mk_operator(&mk, "test::add", "out"), MK_ARGS(x, h, y));
	mk_jump_false(&mk, go, 3);
	mk_kernel(&mk, mk_operator(&mk, "test::scratch", ""), MK_ARGS(y, h));
	mk_input(&mk, x);
	mk_input(&mk, go);
	mk_output(&mk, y);
	size_t n_bytes;
	uint8_t *bytes = mk_finish(&mk, &n_bytes);
	struct et_source source = { .bytes = bytes, .n_bytes = n_bytes };
	assert_int_equal(et_program_open(&rig.program, &source, NULL, &rig.allocator, &rig.diag), ET_OK);
	bool is_done = false;
	for (size_t n = 1; !is_done; n++) {
		assert_true(n < 1000);
		rig.counting.fail_at = rig.counting.n_calls + n;
		rig.diag.text[0] = '\0';
		enum et_status status = et_plan_new(&rig.plan, rig.program, NULL, &rig.registry, NULL, 2,
			&rig.allocator, &rig.diag);
		if (!status)
			status = et_method_new(&rig.method, rig.plan, &rig.allocator, &rig.diag);
		if (!status)
			status = et_frame_new(&rig.frame, rig.plan, &rig.allocator, &rig.allocator, &rig.diag);
		if (!status) {
			rig.info = et_plan_info(rig.plan);
			struct rig_run run;
			float in[4] = { 1 }, out[4];
			rig_run_init(&rig, &run);
			rig_input(&run, 0, in, 4);
			rig_output(&run, 0, out, 4);
			run.inputs[1].b = true;
			status = rig_run(&rig, &run);
			is_done = status == ET_OK;
			if (!is_done)
				assert_string_equal(run.run.diag.text,
					"instruction 2 (test::scratch): no memory for 16 bytes of scratch");
			rig.diag = run.run.diag;
		}
		if (!is_done) {
			assert_int_equal(status, ET_E_MEMORY_ALLOCATION_FAILED);
			assert_true(rig.diag.text[0]);
		}
		rig.counting.fail_at = 0;
		rig.frame = et_frame_free(rig.frame);
		rig.method = et_method_free(rig.method);
		rig.plan = et_plan_unref(rig.plan);
	}
	rig.program = et_program_unref(rig.program);
	free(bytes);
}

/* --- programs that are made to waste time ------------------------------------------------------------- */

static void too_many_arenas_are_refused(void **state)
{
	for (int i = 0; i < 64; i++)
		mk_arena(&mk, 64);
	refuses(ET_E_NOT_SUPPORTED, "method 'forward' has 65 arenas, 64 are the most");
}

/* @n inputs side by side; an unused tensor covers them all, so they are one component. */
static void make_inputs(int n)
{
	mk_arena(&mk, 4 * n);
	planned(0, n);
	for (int i = 0; i < n; i++)
		mk_input(&mk, planned(4 * (uint64_t)i, 1));
}

static void many_inputs_are_bound(void **state)
{
	enum { N = 1024 };
	make_inputs(N);
	rig_open(&rig, &mk);
	for (int i = 0; i < N; i++)
		assert_true(rig.info->inputs[i].zero_copy);
}

static void too_many_inputs_are_copied(void **state)
{
	make_inputs(4200);
	rig_open(&rig, &mk);
	assert_false(rig.info->inputs[0].zero_copy);
}

/* Whether a tensor that is written first and read last is called state. Between the two lie @n_blocks of @n_jumps each;
 * each block is reached from the one behind it, so a sweep finds only one more. */
static bool is_state_beyond(int n_blocks, int n_jumps, int n_values)
{
	mk_arena(&mk, 64);
	int x = planned(0, 1), t = planned(16, 1), y = planned(32, 1);
	int condition = mk_bool(&mk, true), no = mk_bool(&mk, false);
	int copy = mk_operator(&mk, "test::scratch", ""), n_block = n_jumps + 2, end = 3 + n_blocks * n_block;
	for (int i = 0; i < n_values; i++)
		mk_none(&mk);
	mk_kernel(&mk, copy, MK_ARGS(x, t));
	mk_jump_false(&mk, condition, end - n_block);
	mk_jump_false(&mk, no, end);
	for (int i = 0; i < n_blocks; i++) {
		for (int j = 0; j < n_jumps; j++)
			mk_jump_false(&mk, condition, end);
		mk_jump_false(&mk, condition, i ? 3 + (i - 1) * n_block : end);
		mk_jump_false(&mk, no, end);
	}
	mk_kernel(&mk, copy, MK_ARGS(t, y));
	mk_input(&mk, x);
	mk_input(&mk, condition);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	return rig.info->is_stateful;
}

static void jumps_are_followed(void **state)
{
	assert_false(is_state_beyond(60, 10, 100));
}

static void too_many_jumps_are_not_followed(void **state)
{
	assert_true(is_state_beyond(60, 150, 32000));
}

/* Not a product: the elements of the largest tensor. */
static void likely_steps_of_one_instruction(void **state)
{
	mk_arena(&mk, 4096);
	int x = planned(0, 4), y = planned(64, 50);
	mk_kernel(&mk, mk_operator(&mk, "test::add", "out"), MK_ARGS(x, x, y));
	assert_int_equal(rig_try_plan(&rig, &mk), ET_OK);
	assert_int_equal(et_plan_info(rig.plan)->n_likely_steps, 50);
}

/* Each element may take many steps, whatever the sizes say. */
static void steps_of_long_elements(void **state)
{
	mk_arena(&mk, 4096);
	int x = planned(0, 7), y = planned(64, 7);
	mk_kernel(&mk, mk_operator(&mk, "test::series", ""), MK_ARGS(x, y));
	assert_int_equal(rig_try_plan(&rig, &mk), ET_OK);
	assert_int_equal(et_plan_info(rig.plan)->n_likely_steps, 7 * (size_t)RIG_SERIES_STEPS);
	assert_int_equal(et_plan_info(rig.plan)->n_most_steps, 7 * (7 + 2) * (size_t)RIG_SERIES_STEPS);
}

static size_t most_steps(void)
{
	if (rig_try_plan(&rig, &mk) != ET_OK)
		fail_msg("%s", rig.diag.text);
	return et_plan_info(rig.plan)->n_most_steps;
}

/* The largest tensor's elements, times the elements of all others plus one for each argument. */
static void steps_of_one_instruction(void **state)
{
	mk_arena(&mk, 4096);
	int x = planned(0, 4), y = planned(64, 5), small = planned(128, 2), out = planned(192, 50);
	int items[] = { x, y, small };
	mk_kernel(&mk, mk_operator(&mk, "test::add", "out"), MK_ARGS(small, small, small));
	mk_kernel(&mk, mk_operator(&mk, "test::cat", ""), MK_ARGS(mk_slots(&mk, ET_TAG_TENSOR_LIST, items, 3), out));
	assert_int_equal(most_steps(), 50 * (4 + 5 + 2 + 4));
}

/* A kernel that reads only headers may have tensors of any size. */
static void steps_of_views_and_numbers(void **state)
{
	mk_arena(&mk, 4096);
	int x = planned(0, 1000), seen = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1000) });
	int a = mk_int(&mk, 1), b = mk_int(&mk, 2), sum = mk_int(&mk, 0);
	int items[] = { a, b };
	mk_kernel(&mk, mk_operator(&mk, "test::view", ""), MK_ARGS(x, seen));
	mk_kernel(&mk, mk_operator(&mk, "test::sum_ints", ""), MK_ARGS(mk_slots(&mk, ET_TAG_INT_LIST, items, 2), sum));
	assert_int_equal(most_steps(), 0);
}

/* A dynamic view, or the target of a move, may be larger than its own spec: it counts as the largest tensor. */
static void steps_of_a_dynamic_view(void **state)
{
	mk_arena(&mk, 4096);
	int x = planned(0, 1000), y = planned(4000, 3);
	int seen = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2), .dynamism = ET_DYNAMIC_BOUND });
	mk_kernel(&mk, mk_operator(&mk, "test::view", ""), MK_ARGS(x, seen));
	mk_kernel(&mk, mk_operator(&mk, "test::shrink", ""), MK_ARGS(seen, mk_int(&mk, 1), y));
	assert_int_equal(most_steps(), 1000 * (3 + 3));
}

static void steps_of_a_moved_tensor(void **state)
{
	mk_arena(&mk, 4096);
	int x = planned(0, 900), y = planned(4000, 3), z = planned(4032, 3);
	mk_move(&mk, x, y);
	mk_kernel(&mk, mk_operator(&mk, "test::add", "out"), MK_ARGS(y, z, z));
	assert_int_equal(most_steps(), 900 * (3 + 3 + 3));
}

/* AddressSanitizer sees a read behind the arguments of all calls. */
static void a_call_without_arguments_has_no_first_one(void **state)
{
	static const struct et_kernel kernel = { "test::nothing", "", NULL, NULL };
	struct et_plan_operator operator= {.kernel = &kernel };
	struct et_plan_instruction call = { .op = ET_OP_KERNEL, .first_arg = 1 };
	uint32_t *args = calloc(1, sizeof *args);
	struct et_method_spec spec = { .n_instructions = 1 };
	struct et_plan plan = { .spec = &spec, .operators = &operator, .instructions = & call, .args = args };
	size_t n_left = 1;
	assert_int_equal(et_copy_elision_run(&plan, NULL, NULL, 0, &n_left, &rig.scratch), ET_OK);
	assert_false(call.runs_once);
	free(args);
	mk_deinit(&mk);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(all_missing_operators_are_named),
		TEST(many_missing_operators_are_counted),
		TEST(operators_are_held),
		TEST(a_missing_backend_is_named),
		TEST(a_method_that_is_not_there),
		TEST(a_refused_method_does_not_disturb_others),
		TEST(arguments_of_a_wrong_kind),
		TEST(too_few_arguments),
		TEST(nothing_writes_to_constants),
		TEST(moves_and_views_cannot_write_to_constants),
		TEST(moves_that_change_the_kind),
		TEST(moves_of_lists),
		TEST(scalars_that_change_their_kind),
		TEST(a_view_is_read_before_it_is_made),
		cmocka_unit_test(signatures_are_read),
		cmocka_unit_test(kernels_are_found_and_sorted),
		TEST(unaligned_constants_are_copied_once),
		TEST(copies_of_unaligned_constants_are_limited),
		TEST(every_allocation_may_fail),
		TEST(too_many_arenas_are_refused),
		TEST(many_inputs_are_bound),
		TEST(too_many_inputs_are_copied),
		TEST(jumps_are_followed),
		TEST(too_many_jumps_are_not_followed),
		TEST(steps_of_one_instruction),
		TEST(likely_steps_of_one_instruction),
		TEST(steps_of_long_elements),
		TEST(steps_of_views_and_numbers),
		TEST(steps_of_a_dynamic_view),
		TEST(steps_of_a_moved_tensor),
		TEST(a_call_without_arguments_has_no_first_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
