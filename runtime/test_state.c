/* SPDX-License-Identifier: BSD-3-Clause */
/* State: which values are state, who owns them, and their fate when a run is cut short. Binding: which inputs and
 * outputs lie in the caller's memory. Activations are full of NaN before every run. */
#include "runtime/plan_internal.h"
#include "tests/support/method_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static struct method_rig rig;
static struct make_program mk;
static int add, copy, accumulate, fill, fail;

static int setup(void **state)
{
	memset(&rig, 0, sizeof rig);
	rig_init(&rig);
	mk_init(&mk);
	mk_method(&mk, "forward");
	add = mk_operator(&mk, "test::add", "out");
	copy = mk_operator(&mk, "test::copy_", "");
	accumulate = mk_operator(&mk, "test::accumulate_", "");
	fill = mk_operator(&mk, "test::fill", "");
	fail = mk_operator(&mk, "test::fail", "");
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

/* y = x + h; h = y */
static void make_accumulator(uint32_t initial, int64_t arena_bytes, int32_t n)
{
	mk_arena(&mk, arena_bytes);
	int x = planned(0, n), y = planned((uint64_t)n * 4, n);
	int h = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(n), .arena = 1, .offset = (uint64_t)n * 8,
				       .constant = initial });
	mk_kernel(&mk, add, MK_ARGS(x, h, y, y));
	mk_kernel(&mk, copy, MK_ARGS(h, y, h));
	mk_input(&mk, x);
	mk_output(&mk, y);
}

static float step(struct et_method *method, float value)
{
	struct rig_run run;
	float out = 0;
	rig_run_init(&rig, &run);
	run.run.method = method;
	rig_input(&run, 0, &value, 1);
	rig_output(&run, 0, &out, 1);
	if (rig_run(&rig, &run))
		fail_msg("%s", run.run.diag.text);
	return out;
}

static void read_before_written_is_state(void **state)
{
	make_accumulator(0, 64, 1);
	rig_open(&rig, &mk);
	assert_true(rig.info->is_stateful);
	assert_int_equal(rig.info->n_state_bytes, 4 + 8); /* keeps its offset within 64 bytes */
	assert_true(step(rig.method, 1) == 1);            /* zeros at first */
	assert_true(step(rig.method, 2) == 3);
	et_method_reset(rig.method);
	assert_true(step(rig.method, 5) == 5);
}

/* Output y has no planned memory, and is written only if x is not 0. */
static void an_output_of_another_method_is_never_seen(void **state)
{
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1) });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1) });
	int zero = mk_tensor(&mk,
		&(struct mk_tensor){ MK_FP32, MK_SIZES(1), .constant = mk_constant(&mk, "\0\0\0\0", 4) });
	mk_arena(&mk, 64);
	int is_wanted = mk_tensor(&mk, &(struct mk_tensor){ .type = ET_BOOL, MK_SIZES(1), .arena = 1 });
	mk_kernel(&mk, mk_operator(&mk, "test::less", ""), MK_ARGS(zero, x, is_wanted, is_wanted));
	mk_jump_false(&mk, is_wanted, 3);
	mk_kernel(&mk, add, MK_ARGS(x, x, y, y));
	mk_kernel(&mk, mk_operator(&mk, "test::less", ""), MK_ARGS(zero, x, is_wanted, is_wanted));
	mk_input(&mk, x);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	rig.poison = -1;
	struct et_method *other = NULL;
	assert_int_equal(et_method_new(&other, rig.plan, &rig.allocator, NULL), ET_OK);
	assert_true(step(rig.method, 4) == 8);
	assert_true(step(other, 0) == 0);
	assert_true(step(rig.method, 0) == 8); /* its own, from the run before */
	assert_true(rig.info->is_stateful);
	et_method_free(other);
}

static void two_methods_share_nothing(void **state)
{
	make_accumulator(0, 64, 1);
	rig_open(&rig, &mk);
	struct et_method *other = NULL;
	assert_int_equal(et_method_new(&other, rig.plan, &rig.allocator, NULL), ET_OK);
	float a = 0, b = 0;
	for (int i = 0; i < 10; i++) {
		a += 1;
		b += 10;
		assert_true(step(rig.method, 1) == a);
		assert_true(step(other, 10) == b);
	}
	et_method_free(other);
}

static void an_initial_value_comes_back(void **state)
{
	float initial = 7;
	uint32_t number = mk_initial(&mk, &initial, sizeof initial);
	make_accumulator(number, 64, 1);
	rig_open(&rig, &mk);
	assert_true(step(rig.method, 1) == 8);
	assert_true(step(rig.method, 1) == 9);
	et_method_reset(rig.method);
	assert_true(step(rig.method, 1) == 8);
	assert_int_equal(rig.info->n_reset_bytes, rig.info->n_state_bytes + 4);
}

/* A file may put many initial values at one place: n_reset_bytes tells in advance how long a reset takes. */
static void overlapping_initial_values_count_each(void **state)
{
	enum { N = 50, N_FLOATS = 100 };
	static const float initial[N_FLOATS] = { 7 };
	uint32_t number = mk_initial(&mk, initial, sizeof initial);
	make_accumulator(number, 3 * sizeof initial, N_FLOATS);
	for (int i = 1; i < N; i++)
		mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(N_FLOATS), .arena = 1,
				       .offset = 2 * sizeof initial, .constant = number });
	rig_open(&rig, &mk);
	assert_int_equal(rig.info->n_reset_bytes, rig.info->n_state_bytes + N * sizeof initial);
}

static void overlapping_state_is_state(void **state)
{
	mk_arena(&mk, 256);
	int x = planned(0, 1);
	int h = planned(64, 4), part = planned(76, 2), beside = planned(128, 1);
	mk_kernel(&mk, add, MK_ARGS(x, x, beside));
	mk_kernel(&mk, accumulate, MK_ARGS(h, h));
	mk_kernel(&mk, add, MK_ARGS(part, part, part));
	mk_input(&mk, x);
	mk_output(&mk, beside);
	rig_open(&rig, &mk);
	assert_int_equal(rig.plan->tensors[rig.plan->values[h].tensor].place, ET_PLACE_STATE);
	assert_int_equal(rig.plan->tensors[rig.plan->values[part].tensor].place, ET_PLACE_STATE);
	assert_int_equal(rig.plan->tensors[rig.plan->values[beside].tensor].place, ET_PLACE_ACTIVATION);
	size_t h_at = rig.plan->tensors[rig.plan->values[h].tensor].offset;
	assert_int_equal(rig.plan->tensors[rig.plan->values[part].tensor].offset, h_at + 12);
	assert_int_equal(rig.info->n_state_bytes, 20);
}

static void writes_of_parts_add_up(void **state)
{
	mk_arena(&mk, 64);
	int x = planned(0, 2), whole = planned(16, 4), left = planned(16, 2), right = planned(24, 2),
	    y = planned(32, 4);
	mk_kernel(&mk, add, MK_ARGS(x, x, left));
	mk_kernel(&mk, copy, MK_ARGS(right, x));
	mk_kernel(&mk, add, MK_ARGS(whole, whole, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	assert_false(rig.info->is_stateful);
	float in[2] = { 1, 2 }, out[4];
	rig_run_floats(&rig, in, 2, out, 4);
	assert_true(out[0] == 4 && out[1] == 8 && out[2] == 2 && out[3] == 4);
}

static void a_partial_write_is_not_enough(void **state)
{
	mk_arena(&mk, 64);
	int x = planned(0, 2), whole = planned(16, 4), left = planned(16, 2), y = planned(32, 4);
	mk_kernel(&mk, add, MK_ARGS(x, x, left));
	mk_kernel(&mk, add, MK_ARGS(whole, whole, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	assert_true(rig.info->is_stateful);
}

/* A branch writes on one path only. */
static void a_write_on_one_path_is_not_enough(void **state)
{
	mk_arena(&mk, 64);
	int go = mk_bool(&mk, true), five = mk_int(&mk, 5), h = planned(16, 1), y = planned(32, 1);
	mk_jump_false(&mk, go, 2);
	mk_kernel(&mk, fill, MK_ARGS(five, h));
	mk_kernel(&mk, add, MK_ARGS(h, h, y));
	mk_input(&mk, go);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	assert_true(rig.info->is_stateful);
	assert_int_equal(rig.plan->tensors[rig.plan->values[h].tensor].place, ET_PLACE_STATE);
	struct rig_run run;
	float out = -1;
	rig_run_init(&rig, &run);
	rig_output(&run, 0, &out, 1);
	run.inputs[0].b = false;
	assert_int_equal(rig_run(&rig, &run), ET_OK);
	assert_true(out == 0);
	run.inputs[0].b = true;
	assert_int_equal(rig_run(&rig, &run), ET_OK);
	assert_true(out == 10);
	run.inputs[0].b = false;
	assert_int_equal(rig_run(&rig, &run), ET_OK);
	assert_true(out == 10); /* the value is kept */
}

/* The value was written in the second iteration of a loop, but not in the first. */
static void the_first_round_of_a_loop_counts(void **state)
{
	mk_arena(&mk, 64);
	int stop = mk_bool(&mk, true), five = mk_int(&mk, 5), h = planned(16, 1), y = planned(32, 1);
	mk_kernel(&mk, add, MK_ARGS(h, h, y));
	mk_kernel(&mk, fill, MK_ARGS(five, h));
	mk_jump_false(&mk, stop, 0);
	mk_input(&mk, stop);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	assert_true(rig.info->is_stateful);
}

static void a_scalar_that_outlives_the_run_is_state(void **state)
{
	mk_arena(&mk, 64);
	int n = mk_int(&mk, 3), one = mk_int(&mk, 1);
	mk_kernel(&mk, mk_operator(&mk, "test::add", "Scalar"), MK_ARGS(n, one, n));
	mk_output(&mk, n);
	rig_open(&rig, &mk);
	assert_true(rig.info->is_stateful);
	struct rig_run run;
	rig_run_init(&rig, &run);
	for (int i = 4; i < 8; i++) {
		assert_int_equal(rig_run(&rig, &run), ET_OK);
		assert_int_equal(run.outputs[0].i, i);
	}
	et_method_reset(rig.method);
	assert_int_equal(rig_run(&rig, &run), ET_OK);
	assert_int_equal(run.outputs[0].i, 4);
}

static void dynamic_state_keeps_its_size(void **state)
{
	mk_arena(&mk, 64);
	int n = mk_int(&mk, 2);
	int h = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = 1, .dynamism = ET_DYNAMIC_BOUND });
	int y = mk_tensor(&mk,
		&(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = 1, .offset = 16, .dynamism = ET_DYNAMIC_BOUND });
	mk_kernel(&mk, add, MK_ARGS(h, h, y));
	mk_kernel(&mk, mk_operator(&mk, "test::shrink", ""), MK_ARGS(y, n, h));
	mk_input(&mk, n);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	assert_true(rig.info->is_stateful);
	struct rig_run run;
	float out[4];
	rig_run_init(&rig, &run);
	rig_output(&run, 0, out, 4);
	for (int32_t before = 4, now = 3; now > 0; before = now--) {
		run.inputs[0].i = now;
		assert_int_equal(rig_run(&rig, &run), ET_OK);
		assert_int_equal(run.outputs[0].sizes[0], before);
	}
	et_method_reset(rig.method);
	assert_int_equal(rig_run(&rig, &run), ET_OK);
	assert_int_equal(run.outputs[0].sizes[0], 4);
}

/* Run make_accumulator's program up to the point between its two instructions, and abandon it. */
static enum et_status cut_short(struct rig_run *run, float *in, float *out, uint32_t n)
{
	rig_run_init(&rig, run);
	rig_input(run, 0, in, n);
	rig_output(run, 0, out, n);
	enum et_status status = et_run_begin(&run->run);
	if (status)
		return status;
	atomic_store(&run->run.cancelled, true);
	assert_int_equal(et_run_advance(&run->run, &run->env), ET_STOP_FAILED);
	return et_run_end(&run->run);
}

/* h is written, then the next kernel fails. */
static void a_small_state_is_rolled_back(void **state)
{
	mk_arena(&mk, 64);
	int x = planned(0, 1), h = planned(16, 1), y = planned(32, 1), go = mk_bool(&mk, true);
	mk_kernel(&mk, accumulate, MK_ARGS(h, x));
	mk_jump_false(&mk, go, 3);
	mk_kernel(&mk, fail, MK_ARGS(x, y));
	mk_kernel(&mk, add, MK_ARGS(h, h, y));
	mk_input(&mk, x);
	mk_input(&mk, go);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	struct rig_run run;
	float in = 1, out;
	rig_run_init(&rig, &run);
	rig_input(&run, 0, &in, 1);
	rig_output(&run, 0, &out, 1);
	assert_int_equal(rig_run(&rig, &run), ET_OK);
	assert_true(out == 2);
	run.inputs[1].b = true;
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_ARGUMENT);
	assert_false(et_method_is_lost(rig.method));
	run.inputs[1].b = false;
	assert_int_equal(rig_run(&rig, &run), ET_OK);
	assert_true(out == 4); /* as if the failed run had never happened */
}

static void a_large_state_is_lost_until_reset(void **state)
{
	enum { N = 20000 };
	static float in[N], out[N];
	make_accumulator(0, (int64_t)N * 12, N);
	rig_open(&rig, &mk);
	in[N - 1] = 3;
	rig_run_floats(&rig, in, N, out, N);
	struct rig_run run;
	assert_int_equal(cut_short(&run, in, out, N), ET_E_CANCELLED);
	assert_true(et_method_is_lost(rig.method));
	assert_int_equal(cut_short(&run, in, out, N), ET_E_STATE_LOST);
	assert_string_equal(run.run.diag.text, "an earlier run was cut short; reset the method first");
	et_method_reset(rig.method);
	assert_false(et_method_is_lost(rig.method));
	rig_run_floats(&rig, in, N, out, N);
	assert_true(out[N - 1] == 3);
	et_method_lose(rig.method); /* as if another Method should continue it */
	assert_true(et_method_is_lost(rig.method));
	et_method_reset(rig.method);
	rig_run_floats(&rig, in, N, out, N);
	assert_true(out[N - 1] == 3);
}

static void a_refused_run_leaves_the_state(void **state)
{
	make_accumulator(0, 64, 1);
	rig_open(&rig, &mk);
	assert_true(step(rig.method, 1) == 1);
	struct rig_run run, second;
	float in = 1, out;
	rig_run_init(&rig, &run);
	rig_input(&run, 0, NULL, 1);
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_ARGUMENT);
	assert_true(step(rig.method, 1) == 2);
	/* a second run at the same time is refused, and the first continues */
	rig_input(&run, 0, &in, 1);
	rig_output(&run, 0, &out, 1);
	second = run;
	assert_int_equal(et_run_begin(&run.run), ET_OK);
	assert_int_equal(et_run_begin(&second.run), ET_E_INVALID_STATE);
	assert_int_equal(et_run_advance(&run.run, &run.env), ET_STOP_DONE);
	assert_int_equal(et_run_end(&run.run), ET_OK);
	assert_true(out == 3);
}

/* --- where inputs and outputs lie --------------------------------------------------------------------------- */

static void run_two_outputs(struct rig_run *run, float *in, float *out, float *second)
{
	rig_run_init(&rig, run);
	rig_input(run, 0, in, 4);
	rig_output(run, 0, out, 4);
	if (second)
		rig_output(run, 1, second, 4);
	if (rig_run(&rig, run))
		fail_msg("%s", run->run.diag.text);
}

static void memory_is_bound_where_no_value_can_observe_it(void **state)
{
	mk_arena(&mk, 64);
	int x = planned(0, 4), t = planned(16, 4), y = planned(0, 4); /* y at the place of x, but later */
	mk_kernel(&mk, add, MK_ARGS(x, x, t));
	mk_kernel(&mk, add, MK_ARGS(t, t, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	assert_true(rig.info->inputs[0].zero_copy && rig.info->outputs[0].zero_copy);
	struct rig_run run;
	float in[4] = { 1, 2, 3, 4 }, out[4];
	run_two_outputs(&run, in, out, NULL);
	assert_int_equal(run.run.n_copied_bytes, 0);
	assert_false(run.inputs[0].copied || run.outputs[0].copied);
	assert_ptr_equal(et_run_output(&run.run, 0)->data, out);
	assert_true(out[3] == 16);
}

static void memory_in_use_meanwhile_is_copied(void **state)
{
	mk_arena(&mk, 64);
	int x = planned(0, 4), t = planned(0, 4), y = planned(16, 4);
	mk_kernel(&mk, add, MK_ARGS(x, x, t)); /* in place, as some planners do */
	mk_kernel(&mk, add, MK_ARGS(t, t, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	assert_false(rig.info->inputs[0].zero_copy);
	struct rig_run run;
	float in[4] = { 1, 2, 3, 4 }, out[4];
	run_two_outputs(&run, in, out, NULL);
	assert_int_equal(run.run.n_copied_bytes, 16);
	assert_true(run.inputs[0].copied && in[3] == 4 && out[3] == 16);
}

static void written_inputs_and_double_outputs_are_copied(void **state)
{
	float weight[4] = { 9, 8, 7, 6 };
	mk_arena(&mk, 64);
	int x = planned(0, 4), unplanned = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	int constant = mk_tensor(&mk,
		&(struct mk_tensor){ MK_FP32, MK_SIZES(4), .constant = mk_constant(&mk, weight, sizeof weight) });
	mk_kernel(&mk, accumulate, MK_ARGS(x, x));
	mk_kernel(&mk, accumulate, MK_ARGS(unplanned, constant));
	mk_input(&mk, x);
	mk_input(&mk, unplanned);
	mk_output(&mk, x); /* both an input and an output */
	mk_output(&mk, unplanned);
	mk_output(&mk, constant);
	mk_output(&mk, constant);
	rig_open(&rig, &mk);
	struct rig_run run;
	float in[4] = { 1, 2, 3, 4 }, other[4] = { 1, 1, 1, 1 }, out[4][4];
	rig_run_init(&rig, &run);
	rig_input(&run, 0, in, 4);
	rig_input(&run, 1, other, 4);
	for (uint32_t i = 0; i < 4; i++)
		rig_output(&run, i, out[i], 4);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(rig_run(&rig, &run), ET_OK);
		assert_int_equal(run.run.n_copied_bytes, 6 * 16);
		assert_true(in[3] == 4 && other[0] == 1); /* the caller's inputs are never written */
		assert_true(out[0][3] == 8 && out[1][0] == 10 && out[2][1] == 8 && out[3][1] == 8);
	}
}

static void unplanned_memory_is_bound(void **state)
{
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	mk_kernel(&mk, add, MK_ARGS(x, x, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	struct rig_run run;
	float in[5] = { 1, 2, 3, 4 }, out[4];
	run_two_outputs(&run, in, out, NULL);
	assert_int_equal(run.run.n_copied_bytes, 0);
	assert_true(out[3] == 8);
	rig_output(&run, 0, NULL, 0);
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_ARGUMENT);
	rig_output(&run, 0, in, 4); /* over its own input, without other memory for it */
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_ARGUMENT);
	rig_output(&run, 0, out, 4);
	run.inputs[0].tensor.data = (uint8_t *)in + 1;
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_ARGUMENT);
	assert_string_equal(run.run.diag.text, "input 0: memory is not aligned for FP32");
}

static void unaligned_memory_of_the_caller_is_copied(void **state)
{
	mk_arena(&mk, 64);
	int x = planned(0, 4), y = planned(16, 4);
	mk_kernel(&mk, add, MK_ARGS(x, x, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	assert_true(rig.info->inputs[0].zero_copy && rig.info->outputs[0].zero_copy);
	uint8_t bytes[64];
	float in[4] = { 1, 2, 3, 4 };
	memcpy(bytes + 1, in, sizeof in);
	struct rig_run run;
	rig_run_init(&rig, &run);
	rig_input(&run, 0, (float *)(void *)(bytes + 1), 4);
	rig_output(&run, 0, (float *)(void *)(bytes + 5), 4); /* overlaps the input, and is as unaligned */
	assert_int_equal(rig_run(&rig, &run), ET_OK);
	assert_int_equal(run.run.n_copied_bytes, 32);
	float out[4];
	memcpy(out, bytes + 5, sizeof out);
	assert_true(out[0] == 2 && out[3] == 8);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(read_before_written_is_state),
		TEST(an_output_of_another_method_is_never_seen),
		TEST(two_methods_share_nothing),
		TEST(an_initial_value_comes_back),
		TEST(overlapping_initial_values_count_each),
		TEST(overlapping_state_is_state),
		TEST(writes_of_parts_add_up),
		TEST(a_partial_write_is_not_enough),
		TEST(a_write_on_one_path_is_not_enough),
		TEST(the_first_round_of_a_loop_counts),
		TEST(a_scalar_that_outlives_the_run_is_state),
		TEST(dynamic_state_keeps_its_size),
		TEST(a_small_state_is_rolled_back),
		TEST(a_large_state_is_lost_until_reset),
		TEST(a_refused_run_leaves_the_state),
		TEST(memory_is_bound_where_no_value_can_observe_it),
		TEST(memory_in_use_meanwhile_is_copied),
		TEST(written_inputs_and_double_outputs_are_copied),
		TEST(unplanned_memory_is_bound),
		TEST(unaligned_memory_of_the_caller_is_copied),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
