/* SPDX-License-Identifier: BSD-3-Clause */
/* Executing: straight code, branches, loops, moves, views, lists, dynamic shapes, scalars, failures, and the places
 * where a run stops. Activations are full of NaN before every run. */
#include "tests/support/method_rig.h"

#include <setjmp.h>
#include <stdarg.h>
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

static int dynamic(uint64_t offset, int32_t n)
{
	return mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(n), .arena = 1, .offset = offset,
				      .dynamism = ET_DYNAMIC_BOUND });
}

static int op(const char *name, const char *overload)
{
	return mk_operator(&mk, name, overload);
}

static void adds_and_reuses_memory(void **state)
{
	mk_arena(&mk, 64);
	int a = planned(0, 4), b = planned(16, 4), c = planned(0, 4);
	int add = op("test::add", "out");
	mk_kernel(&mk, add, MK_ARGS(a, a, b, b)); /* b = 2a */
	mk_kernel(&mk, add, MK_ARGS(b, b, c, c)); /* c = 4a, where a was */
	mk_input(&mk, a);
	mk_output(&mk, c);
	rig_open(&rig, &mk);
	assert_false(rig.info->is_stateful);
	assert_int_equal(rig.info->n_state_bytes, 0);
	for (int round = 1; round < 4; round++) {
		float in[4] = { 1, 2, 3, (float)round }, out[4];
		rig_run_floats(&rig, in, 4, out, 4);
		assert_true(out[0] == 4 && out[3] == 4 * (float)round);
		assert_true(in[0] == 1);
	}
}

static void a_branch_is_taken_or_not(void **state)
{
	mk_arena(&mk, 128);
	int a = planned(0, 1), limit = planned(4, 1),
	    less = mk_tensor(&mk, &(struct mk_tensor){ .type = ET_BOOL, MK_SIZES(1), .arena = 1, .offset = 8 });
	int yes = planned(16, 1), no = planned(32, 1), out = planned(48, 1);
	int hundred = mk_int(&mk, 100), five = mk_int(&mk, 5), never = mk_bool(&mk, false);
	mk_kernel(&mk, op("test::fill", ""), MK_ARGS(five, limit));
	mk_kernel(&mk, op("test::less", ""), MK_ARGS(a, limit, less));
	mk_jump_false(&mk, less, 6);
	mk_kernel(&mk, 0, MK_ARGS(hundred, yes));
	mk_move(&mk, yes, out);
	mk_jump_false(&mk, never, 8);
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(a, a, no, no));
	mk_move(&mk, no, out);
	mk_input(&mk, a);
	mk_output(&mk, out);
	rig_open(&rig, &mk);
	assert_false(rig.info->is_stateful);
	assert_false(rig.info->outputs[0].zero_copy);
	float in = 3, result = 0;
	rig_run_floats(&rig, &in, 1, &result, 1);
	assert_true(result == 100);
	in = 7;
	rig_run_floats(&rig, &in, 1, &result, 1);
	assert_true(result == 14);
	in = 4;
	rig_run_floats(&rig, &in, 1, &result, 1);
	assert_true(result == 100);
}

static void a_loop_counts_and_starts_anew(void **state)
{
	mk_arena(&mk, 64);
	int x = planned(0, 2), sum = planned(16, 2);
	int i = mk_int(&mk, 7), zero = mk_int(&mk, 0), one = mk_int(&mk, 1), n = mk_int(&mk, 10);
	int done = mk_bool(&mk, false);
	mk_move(&mk, zero, i); /* written before it is read: not state */
	mk_kernel(&mk, op("test::fill", ""), MK_ARGS(zero, sum));
	mk_kernel(&mk, op("test::accumulate_", ""), MK_ARGS(sum, x));
	mk_kernel(&mk, op("test::add", "Scalar"), MK_ARGS(i, one, i));
	mk_kernel(&mk, op("test::lt", "Scalar"), MK_ARGS(n, i, done)); /* 10 < i ? */
	mk_jump_false(&mk, done, 2);
	mk_input(&mk, x);
	mk_output(&mk, sum);
	mk_output(&mk, i);
	rig_open(&rig, &mk);
	assert_false(rig.info->is_stateful);
	for (int round = 0; round < 2; round++) {
		float in[2] = { 1, 2 }, out[2];
		struct rig_run run;
		rig_run_init(&rig, &run);
		rig_input(&run, 0, in, 2);
		rig_output(&run, 0, out, 2);
		assert_int_equal(rig_run(&rig, &run), ET_OK);
		assert_true(out[0] == 11 && out[1] == 22);
		assert_int_equal(run.outputs[1].tag, ET_TAG_INT);
		assert_int_equal(run.outputs[1].i, 11);
	}
}

static void views_follow_what_they_view(void **state)
{
	mk_arena(&mk, 64);
	int x = planned(0, 4), y = planned(16, 4);
	int view = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2, 2) });
	mk_kernel(&mk, op("test::view", ""), MK_ARGS(x, view));
	int wide = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2, 2), .arena = 1, .offset = 16 });
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(view, view, wide));
	int back = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	mk_kernel(&mk, 0, MK_ARGS(wide, back));
	mk_input(&mk, x);
	mk_output(&mk, back);
	(void)y;
	rig_open(&rig, &mk);
	assert_true(rig.info->inputs[0].zero_copy);
	assert_false(rig.info->outputs[0].zero_copy);
	for (int round = 0; round < 2; round++) {
		float in[4] = { 1, 2, 3, 4 }, out[4];
		rig_run_floats(&rig, in, 4, out, 4);
		assert_true(out[3] == 8);
	}
}

/* a = x + x, b = a.clone(), y = b's view + x, z = a + y. @is_written_later: a changes while b is needed. */
static void copy_and_add(bool is_written_later, uint32_t n_elided)
{
	mk_arena(&mk, 96);
	int x = planned(0, 4), a = planned(16, 4), b = planned(32, 4), y = planned(48, 4), z = planned(64, 4);
	int view = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(x, x, a));
	mk_kernel(&mk, op("test::clone", ""), MK_ARGS(a, b));
	mk_kernel(&mk, op("test::view", ""), MK_ARGS(b, view));
	if (is_written_later)
		mk_kernel(&mk, op("test::accumulate_", ""), MK_ARGS(a, x));
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(view, x, y));
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(a, y, z));
	mk_input(&mk, x);
	mk_output(&mk, z);
	rig_open(&rig, &mk);
	assert_int_equal(rig.info->n_elided_copies, n_elided);
	float in[4] = { 1, 2, 3, 4 }, out[4];
	rig_run_floats(&rig, in, 4, out, 4);
	assert_true(out[3] == (is_written_later ? 24 : 20));
}

static void a_copy_is_elided(void **state)
{
	copy_and_add(false, 1);
}

static void a_copy_of_what_changes_is_not_elided(void **state)
{
	copy_and_add(true, 0);
}

/* a = (x, x + x), b = four elements of a from @from on, c = b + b, y = b + c, which is the output, or b is. */
enum later { NOTHING_LATER, A_CHANGES, ANOTHER_TENSOR, B_CHANGES };

static void take_a_part(enum later later, int from, bool is_output, uint32_t n_elided, float last)
{
	mk_arena(&mk, 112);
	int x = planned(0, 4), twice = planned(16, 4), a = planned(32, 8), b = planned(64, 4);
	int c = planned(later == ANOTHER_TENSOR ? 48 : 80, 4), y = planned(96, 4);
	int both = mk_slots(&mk, ET_TAG_TENSOR_LIST, (const int[]){ x, twice }, 2), first = mk_int(&mk, from);
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(x, x, twice));
	mk_kernel(&mk, op("test::cat", ""), MK_ARGS(both, a));
	mk_kernel(&mk, op("test::part", ""), MK_ARGS(a, first, b));
	if (later == A_CHANGES)
		mk_kernel(&mk, op("test::accumulate_", ""), MK_ARGS(a, a));
	if (later == B_CHANGES)
		mk_kernel(&mk, op("test::accumulate_", ""), MK_ARGS(b, x));
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(b, b, c));
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(b, c, y));
	mk_input(&mk, x);
	mk_output(&mk, is_output ? b : y);
	rig_open(&rig, &mk);
	assert_int_equal(rig.info->n_elided_copies, n_elided);
	float in[4] = { 1, 2, 3, 4 }, out[4];
	rig_run_floats(&rig, in, 4, out, 4);
	assert_true(out[3] == last);
}

static void a_part_is_elided(void **state)
{
	take_a_part(NOTHING_LATER, 4, false, 1, 24);
}

static void a_part_that_is_less_aligned_is_not_elided(void **state)
{
	take_a_part(NOTHING_LATER, 2, false, 0, 12);
}

static void a_part_of_what_changes_is_not_elided(void **state)
{
	take_a_part(A_CHANGES, 4, false, 0, 24);
}

/* a and b move together: c comes where b would be in a. */
static void a_part_moves_away_from_another_tensor(void **state)
{
	take_a_part(ANOTHER_TENSOR, 4, false, 1, 24);
}

static void a_part_that_changes_is_not_elided(void **state)
{
	take_a_part(B_CHANGES, 4, false, 0, 36);
}

static void a_part_that_is_an_output_is_not_elided(void **state)
{
	take_a_part(NOTHING_LATER, 4, true, 0, 8);
}

/* The state counts up; its part is what it was before. */
static void a_part_of_state_is_not_elided(void **state)
{
	mk_arena(&mk, 96);
	int counts = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(8), .arena = 1 });
	int x = planned(32, 8), part = planned(64, 4), y = planned(80, 4), four = mk_int(&mk, 4);
	mk_kernel(&mk, op("test::part", ""), MK_ARGS(counts, four, part));
	mk_kernel(&mk, op("test::accumulate_", ""), MK_ARGS(counts, x));
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(part, part, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	assert_true(rig.info->is_stateful);
	assert_int_equal(rig.info->n_elided_copies, 0);
	float in[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, out[4];
	for (int round = 0; round < 3; round++) {
		rig_run_floats(&rig, in, 8, out, 4);
		assert_true(out[3] == 16 * (float)round);
	}
}

static void a_part_from_a_number_that_varies_is_not_elided(void **state)
{
	mk_arena(&mk, 96);
	int x = planned(0, 8), a = planned(32, 8), b = planned(64, 4), y = planned(80, 4), from = mk_int(&mk, 2);
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(x, x, a));
	mk_kernel(&mk, op("test::part", ""), MK_ARGS(a, from, b));
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(b, b, y));
	mk_input(&mk, x);
	mk_input(&mk, from);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	assert_int_equal(rig.info->n_elided_copies, 0);
	float in[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, out[4];
	for (int round = 0; round < 3; round++) {
		struct rig_run run;
		rig_run_init(&rig, &run);
		rig_input(&run, 0, in, 8);
		run.inputs[1].i = round;
		rig_output(&run, 0, out, 4);
		assert_int_equal(rig_run(&rig, &run), ET_OK);
		assert_true(out[0] == 4 * (float)(round + 1));
	}
}

static void the_parts_of_a_split_are_elided(void **state)
{
	mk_arena(&mk, 160);
	int x = planned(0, 8), a = planned(32, 8), b = planned(64, 4), c = planned(80, 4), y = planned(96, 8);
	int parts = mk_slots(&mk, ET_TAG_TENSOR_LIST, (const int[]){ b, c }, 2);
	int turned = mk_slots(&mk, ET_TAG_TENSOR_LIST, (const int[]){ c, b }, 2);
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(x, x, a));
	mk_kernel(&mk, op("test::split", ""), MK_ARGS(a, parts));
	mk_kernel(&mk, op("test::cat", ""), MK_ARGS(turned, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	assert_int_equal(rig.info->n_elided_copies, 2);
	float in[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, out[8];
	rig_run_floats(&rig, in, 8, out, 8);
	assert_true(out[0] == 10 && out[3] == 16 && out[4] == 2 && out[7] == 8);
}

/* a = x + x of 8, b = a by "reshape", or b and c = a by "split_sizes"; the sizes are @first and @second. The latter is
 * a constant, the program's second input, or an item that an instruction moves that input to. */
enum size_is { CONSTANT, AN_INPUT, MOVED };

static void make_sizes(const char *name, enum size_is size_is, int first, int second)
{
	bool splits = strcmp(name, "test::split_sizes") == 0;
	int in = mk_int(&mk, second), item = size_is == AN_INPUT ? in : mk_int(&mk, second);
	mk_arena(&mk, 160);
	int x = planned(0, 8), a = planned(32, 8), b = planned(64, splits ? 4 : 8), c = planned(80, 4),
	    y = planned(96, 4);
	int sizes = mk_slots(&mk, ET_TAG_INT_LIST, (const int[]){ mk_int(&mk, first), item }, 2);
	int out = splits ? mk_slots(&mk, ET_TAG_TENSOR_LIST, (const int[]){ b, c }, 2) : b;
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(x, x, a));
	if (size_is == MOVED)
		mk_move(&mk, in, item);
	mk_kernel(&mk, op(name, ""), MK_ARGS(a, sizes, out));
	if (splits)
		mk_kernel(&mk, op("test::add", "out"), MK_ARGS(b, c, y));
	else
		mk_kernel(&mk, op("test::part", ""), MK_ARGS(b, mk_int(&mk, 2), y));
	mk_input(&mk, x);
	mk_input(&mk, in);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	assert_int_equal(rig.info->n_elided_copies, splits ? 2 : 1);
	rig_n_checked = 0;
}

static enum et_status run_sizes(int second)
{
	float in[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, out[4];
	struct rig_run run;
	rig_run_init(&rig, &run);
	rig_input(&run, 0, in, 8);
	run.inputs[1].i = second;
	rig_output(&run, 0, out, 4);
	return rig_run(&rig, &run);
}

/* The kernel refuses in each run that it would refuse if it copied. */
static void vary_size(const char *name, enum size_is size_is, int first, int good, int bad)
{
	make_sizes(name, size_is, first, good);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(run_sizes(good), ET_OK);
		assert_int_equal(run_sizes(bad), ET_E_INVALID_ARGUMENT);
	}
	assert_int_equal(rig_n_checked, 4);
}

static void an_elided_reshape_to_an_input_is_checked(void **state)
{
	vary_size("test::reshape", AN_INPUT, 2, 4, 5);
}

static void an_elided_reshape_to_what_changes_is_checked(void **state)
{
	vary_size("test::reshape", MOVED, 2, 4, 5);
}

static void an_elided_split_by_an_input_is_checked(void **state)
{
	vary_size("test::split_sizes", AN_INPUT, 4, 4, 3);
}

static void an_elided_split_by_what_changes_is_checked(void **state)
{
	vary_size("test::split_sizes", MOVED, 4, 4, 3);
}

static void an_elided_reshape_to_other_sizes_is_refused(void **state)
{
	make_sizes("test::reshape", CONSTANT, 1, 5);
	for (int round = 0; round < 2; round++)
		assert_int_equal(run_sizes(5), ET_E_INVALID_ARGUMENT);
	assert_int_equal(rig_n_checked, 2);
}

static void an_elided_split_into_other_sizes_is_refused(void **state)
{
	make_sizes("test::split_sizes", CONSTANT, 5, 3);
	for (int round = 0; round < 2; round++)
		assert_int_equal(run_sizes(3), ET_E_INVALID_ARGUMENT);
	assert_int_equal(rig_n_checked, 2);
}

static void an_elided_reshape_is_called_once(void **state)
{
	make_sizes("test::reshape", CONSTANT, 2, 4);
	for (int round = 0; round < 3; round++)
		assert_int_equal(run_sizes(4), ET_OK);
	assert_int_equal(rig_n_checked, 1);
}

static void an_elided_split_is_called_once(void **state)
{
	make_sizes("test::split_sizes", CONSTANT, 4, 4);
	for (int round = 0; round < 3; round++)
		assert_int_equal(run_sizes(4), ET_OK);
	assert_int_equal(rig_n_checked, 1);
}

/* v lies where b is in a. That an instruction which never runs reads v first does not make it written then. */
static void a_tensor_that_dead_code_reads_first_does_not_overwrite_a_part(void **state)
{
	mk_arena(&mk, 112);
	int x = planned(0, 4), a = planned(32, 8), b = planned(64, 4), v = planned(48, 4), t = planned(80, 4);
	int y = planned(96, 4), never = mk_bool(&mk, false), four = mk_int(&mk, 4);
	int twice = mk_slots(&mk, ET_TAG_TENSOR_LIST, (const int[]){ x, x }, 2);
	mk_jump_false(&mk, never, 2);
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(v, v, t));
	mk_kernel(&mk, op("test::cat", ""), MK_ARGS(twice, a));
	mk_kernel(&mk, op("test::part", ""), MK_ARGS(a, four, b));
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(x, x, v));
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(b, v, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	float in[4] = { 1, 2, 3, 4 }, out[4];
	rig_run_floats(&rig, in, 4, out, 4);
	assert_true(out[3] == 12);
}

static void lists_of_tensors_are_read_and_written(void **state)
{
	mk_arena(&mk, 64);
	int x = planned(0, 3), a = planned(16, 1), b = planned(20, 2), y = planned(32, 3);
	int parts = mk_slots(&mk, ET_TAG_TENSOR_LIST, (const int[]){ a, b }, 2);
	int turned = mk_slots(&mk, ET_TAG_TENSOR_LIST, (const int[]){ b, a }, 2);
	mk_kernel(&mk, op("test::split", ""), MK_ARGS(x, parts, parts));
	mk_kernel(&mk, op("test::cat", ""), MK_ARGS(turned, y, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	assert_false(rig.info->is_stateful);
	float in[3] = { 1, 2, 3 }, out[3];
	rig_run_floats(&rig, in, 3, out, 3);
	assert_true(out[0] == 2 && out[1] == 3 && out[2] == 1);
}

static void dynamic_sizes_go_through(void **state)
{
	mk_arena(&mk, 64);
	int x = dynamic(0, 4), y = dynamic(16, 4);
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(x, x, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	for (int32_t n = 4; n > 0; n--) {
		float in[4] = { 1, 2, 3, 4 }, out[4] = { 0 };
		struct rig_run run;
		rig_run_init(&rig, &run);
		run.inputs[0].sizes[0] = n;
		rig_input(&run, 0, in, (uint32_t)n);
		rig_output(&run, 0, out, 4);
		assert_int_equal(rig_run(&rig, &run), ET_OK);
		assert_int_equal(run.outputs[0].sizes[0], n);
		assert_true(out[n - 1] == 2 * (float)n);
		assert_true(n == 4 || out[n] == 0);
	}
	struct rig_run run;
	float in[5] = { 0 };
	rig_run_init(&rig, &run);
	run.inputs[0].sizes[0] = 5;
	rig_input(&run, 0, in, 5);
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_ARGUMENT);
	assert_string_equal(run.run.diag.text, "input 0: sizes [5], expected [4] or less");
}

static void a_tensor_is_not_resized_under_its_reader(void **state)
{
	mk_arena(&mk, 64);
	int x = dynamic(0, 4), y = dynamic(16, 4);
	mk_move(&mk, x, y); /* from here on one tensor, which the Plan alone cannot know */
	mk_kernel(&mk, op("test::cat", ""), MK_ARGS(mk_slots(&mk, ET_TAG_TENSOR_LIST, (int[]){ x, x }, 2), y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	struct rig_run run;
	float in[4] = { 1, 2 }, out[4];
	rig_run_init(&rig, &run);
	run.inputs[0].sizes[0] = 2;
	rig_input(&run, 0, in, 2);
	rig_output(&run, 0, out, 4);
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_PROGRAM);
	assert_non_null(strstr(run.run.diag.text, "are the same tensor"));
}

static void scalars_are_inputs_and_outputs(void **state)
{
	mk_arena(&mk, 16);
	int n = mk_int(&mk, 3), unread = mk_int(&mk, 8), sum = mk_int(&mk, 0), two = mk_int(&mk, 2);
	int list = mk_slots(&mk, ET_TAG_INT_LIST, (const int[]){ n, two, sum }, 3), total = mk_int(&mk, 0);
	mk_kernel(&mk, op("test::add", "Scalar"), MK_ARGS(n, two, sum));
	mk_kernel(&mk, op("test::sum_ints", ""), MK_ARGS(list, total));
	mk_input(&mk, n);
	mk_input(&mk, unread);
	mk_output(&mk, sum);
	mk_output(&mk, total);
	rig_open(&rig, &mk);
	assert_false(rig.info->is_stateful);
	struct rig_run run;
	rig_run_init(&rig, &run);
	run.inputs[0].i = 40;
	run.inputs[1].i = 8;
	assert_int_equal(rig_run(&rig, &run), ET_OK);
	assert_int_equal(run.outputs[0].i, 42);
	assert_int_equal(run.outputs[1].i, 84);
	run.inputs[1].i = 9; /* the program would not notice */
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_ARGUMENT);
	run.inputs[1].tag = ET_TAG_DOUBLE;
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_ARGUMENT);
	assert_string_equal(run.run.diag.text, "input 1: a Double, expected a Int");
}

static void wrong_inputs_are_named(void **state)
{
	mk_arena(&mk, 64);
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2, 3), .arena = 1 });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(2, 3), .arena = 1, .offset = 32 });
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(x, x, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	float in[6] = { 1, 2, 3, 4, 5, 6 }, out[6];
	struct rig_run run;
	rig_run_init(&rig, &run);
	rig_output(&run, 0, out, 6);
	rig_input(&run, 0, in, 5);
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_ARGUMENT);
	assert_string_equal(run.run.diag.text, "input 0: 20 bytes, but sizes [2,3] of FP32 take 24");
	rig_input(&run, 0, NULL, 6);
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_ARGUMENT);
	assert_string_equal(run.run.diag.text, "input 0: no memory given");
	rig_input(&run, 0, in, 6);
	run.inputs[0].sizes[0] = -2;
	run.inputs[0].sizes[1] = -3;
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_ARGUMENT);
	assert_string_equal(run.run.diag.text, "input 0: sizes [-2,-3], expected [2,3]");
	run.inputs[0].n_dims = 1;
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_ARGUMENT);
	assert_string_equal(run.run.diag.text, "input 0: 1 dimensions, expected [2,3]");
	rig_run_init(&rig, &run);
	rig_input(&run, 0, in, 6);
	rig_output(&run, 0, out, 5);
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_ARGUMENT);
	assert_string_equal(run.run.diag.text, "output 0: room for 20 bytes, expected 24");
	rig_output(&run, 0, NULL, 0); /* uses the planned memory instead */
	assert_int_equal(rig_run(&rig, &run), ET_OK);
	assert_true(((const float *)et_run_output(&run.run, 0)->data)[5] == 12);
}

static void a_failing_kernel_says_where(void **state)
{
	mk_arena(&mk, 64);
	int x = planned(0, 1), y = planned(16, 1);
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(x, x, y));
	mk_kernel(&mk, op("test::fail", ""), MK_ARGS(x, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	float in = 1, out;
	struct rig_run run;
	rig_run_init(&rig, &run);
	rig_input(&run, 0, &in, 1);
	rig_output(&run, 0, &out, 1);
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_ARGUMENT);
	assert_string_equal(run.run.diag.text, "instruction 1 (test::fail): it does not want to");
}

static void freed_memory_is_an_error_and_comes_back(void **state)
{
	mk_arena(&mk, 64);
	int x = planned(0, 1), y = planned(16, 1), go = mk_bool(&mk, true);
	mk_input(&mk, x);
	mk_input(&mk, go);
	mk_output(&mk, y);
	mk_kernel(&mk, op("test::add", "out"), MK_ARGS(x, x, y));
	mk_jump_false(&mk, go, 3);
	mk_free(&mk, y);
	mk_kernel(&mk, 0, MK_ARGS(y, y, y));
	rig_open(&rig, &mk);
	float in = 1, out;
	struct rig_run run;
	rig_run_init(&rig, &run);
	rig_input(&run, 0, &in, 1);
	rig_output(&run, 0, &out, 1);
	run.inputs[1].b = true;
	assert_int_equal(rig_run(&rig, &run), ET_E_INVALID_PROGRAM);
	assert_string_equal(run.run.diag.text,
		"instruction 3 (test::add.out): argument 0 has no memory: it was freed or never bound");
	run.inputs[1].b = false;
	assert_int_equal(rig_run(&rig, &run), ET_OK);
	assert_true(out == 4);
}

static void scratch_is_used_again(void **state)
{
	mk_arena(&mk, 64);
	int x = planned(0, 4), y = planned(16, 4);
	for (int i = 0; i < 10; i++)
		mk_kernel(&mk, i ? 0 : op("test::scratch", ""), MK_ARGS(x, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	float in[4] = { 1, 2, 3, 4 }, out[4];
	rig_run_floats(&rig, in, 4, out, 4);
	size_t n_calls = rig.counting.n_calls;
	rig_run_floats(&rig, in, 4, out, 4);
	assert_int_equal(rig.counting.n_calls, n_calls); /* begin, advance and end allocate nothing */
}

static uint64_t now_is(void *self)
{
	return *(uint64_t *)self;
}

static bool yield_always(void *self)
{
	++*(int *)self;
	return true;
}

static void stops_between_instructions(void **state)
{
	mk_arena(&mk, 64);
	int x = planned(0, 1), y = planned(16, 1);
	for (int i = 0; i < 3; i++)
		mk_kernel(&mk, i ? 0 : op("test::add", "out"), MK_ARGS(x, x, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	rig_open(&rig, &mk);
	float in = 1, out;
	int n_yields = 0;
	uint64_t now = 10;
	struct rig_run run;
	rig_run_init(&rig, &run);
	rig_input(&run, 0, &in, 1);
	rig_output(&run, 0, &out, 1);
	run.env.should_yield = yield_always;
	run.env.yield_self = &n_yields;
	run.env.now_ns = now_is;
	run.env.clock = &now;
	run.run.deadline_ns = 20;
	assert_int_equal(rig_run(&rig, &run), ET_OK);
	assert_int_equal(n_yields, 2);

	assert_int_equal(et_run_begin(&run.run), ET_OK);
	assert_int_equal(et_run_advance(&run.run, &run.env), ET_STOP_QUEUE);
	now = 20;
	assert_int_equal(et_run_advance(&run.run, &run.env), ET_STOP_FAILED);
	assert_int_equal(et_run_end(&run.run), ET_E_DEADLINE);
	assert_string_equal(run.run.diag.text, "the deadline passed before instruction 1");

	now = 10;
	assert_int_equal(et_run_begin(&run.run), ET_OK);
	assert_int_equal(et_run_advance(&run.run, &run.env), ET_STOP_QUEUE);
	et_run_cancel(&run.run);
	assert_int_equal(et_run_advance(&run.run, &run.env), ET_STOP_FAILED);
	assert_int_equal(et_run_end(&run.run), ET_E_CANCELLED);

	run.run.cancelled = false;
	assert_int_equal(et_run_begin(&run.run), ET_OK);
	run.env.queue = (struct et_queue_id){ .kind = ET_QUEUE_GPU };
	assert_int_equal(et_run_advance(&run.run, &run.env), ET_STOP_QUEUE);
	assert_int_equal(run.run.queue.kind, ET_QUEUE_CPU);
	assert_int_equal(et_run_end(&run.run), ET_E_CANCELLED); /* abandoned */
}

static void an_endless_program_ends(void **state)
{
	int x = mk_int(&mk, 0), y = mk_int(&mk, 0), never = mk_bool(&mk, false);
	mk_move(&mk, x, y);
	mk_jump_false(&mk, never, 0);
	rig_open(&rig, &mk);
	struct rig_run run;
	rig_run_init(&rig, &run);
	assert_int_equal(et_run_begin(&run.run), ET_OK);
	run.run.n_executed = 99 * 1000 * 1000; /* as if it had run for long */
	assert_int_equal(et_run_advance(&run.run, &run.env), ET_STOP_FAILED);
	assert_int_equal(et_run_end(&run.run), ET_E_INVALID_PROGRAM);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(adds_and_reuses_memory),
		TEST(a_branch_is_taken_or_not),
		TEST(a_loop_counts_and_starts_anew),
		TEST(views_follow_what_they_view),
		TEST(a_copy_is_elided),
		TEST(a_copy_of_what_changes_is_not_elided),
		TEST(a_part_is_elided),
		TEST(a_part_that_is_less_aligned_is_not_elided),
		TEST(a_part_of_what_changes_is_not_elided),
		TEST(a_part_moves_away_from_another_tensor),
		TEST(a_part_that_changes_is_not_elided),
		TEST(a_part_that_is_an_output_is_not_elided),
		TEST(a_part_of_state_is_not_elided),
		TEST(a_part_from_a_number_that_varies_is_not_elided),
		TEST(the_parts_of_a_split_are_elided),
		TEST(an_elided_reshape_to_an_input_is_checked),
		TEST(an_elided_reshape_to_what_changes_is_checked),
		TEST(an_elided_split_by_an_input_is_checked),
		TEST(an_elided_split_by_what_changes_is_checked),
		TEST(an_elided_reshape_to_other_sizes_is_refused),
		TEST(an_elided_split_into_other_sizes_is_refused),
		TEST(an_elided_reshape_is_called_once),
		TEST(an_elided_split_is_called_once),
		TEST(a_tensor_that_dead_code_reads_first_does_not_overwrite_a_part),
		TEST(lists_of_tensors_are_read_and_written),
		TEST(dynamic_sizes_go_through),
		TEST(a_tensor_is_not_resized_under_its_reader),
		TEST(scalars_are_inputs_and_outputs),
		TEST(wrong_inputs_are_named),
		TEST(a_failing_kernel_says_where),
		TEST(freed_memory_is_an_error_and_comes_back),
		TEST(scratch_is_used_again),
		TEST(stops_between_instructions),
		TEST(an_endless_program_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
