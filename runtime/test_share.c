/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods of one program that share mutable buffers: each sees what the others have written, from the same initial
 * values, whichever is made or freed first. Methods that are not made to share do not share. */
#include "runtime/base/checked.h"
#include "runtime/method.h"
#include "tests/support/method_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { SMALL = 256, LARGE = 1 << 20, MAX_OPENED = 8 };

static struct method_rig rig;
static struct make_program mk;

/* A Method with its Plan and a frame; the Method that runs borrows the rig. */
struct opened {
	struct et_plan *plan;
	struct et_method *method;
	struct et_frame *frame;
};
static struct opened all[MAX_OPENED];
static int n_opened;

static int setup(void **state)
{
	memset(&rig, 0, sizeof rig);
	n_opened = 0;
	rig_init(&rig);
	mk_init(&mk);
	return 0;
}

static void close_one(struct opened *one)
{
	one->frame = et_frame_free(one->frame);
	one->method = et_method_free(one->method);
	one->plan = et_plan_unref(one->plan);
}

static int teardown(void **state)
{
	while (n_opened > 0)
		close_one(&all[--n_opened]);
	rig.plan = NULL;
	rig.method = NULL;
	rig.frame = NULL;
	rig_close(&rig);
	return 0;
}

static int planned(uint32_t arena, uint64_t offset, uint32_t initial)
{
	return mk_tensor(&mk,
		&(struct mk_tensor){ MK_FP32, MK_SIZES(1), .arena = arena, .offset = offset, .constant = initial });
}

/* Every method has arena 1 for itself and the shared arena 2 of @n_shared bytes. */
static void begin_method(const char *name, int64_t n_shared)
{
	mk_method(&mk, name);
	mk_arena(&mk, 64);
	mk_arena(&mk, n_shared);
}

/* The methods: forward(x): h += x, returns h + h; set(x): h = x, without reading h; get(): returns h; apart(x): x + x;
 * steps(x): s += x, returns s + h, with a buffer s at 128 that only it has; number(): 7, without any arena. @h_initial
 * and @s_initial: the buffers' initial values. */
static void make_methods(int64_t n_shared, uint32_t h_initial, uint32_t s_initial)
{
	begin_method("forward", n_shared);
	int x = planned(1, 0, 0), y = planned(1, 16, 0), h = planned(2, 64, h_initial);
	mk_kernel(&mk, mk_operator(&mk, "test::accumulate_", ""), MK_ARGS(h, x));
	mk_kernel(&mk, mk_operator(&mk, "test::add", "out"), MK_ARGS(h, h, y));
	mk_input(&mk, x);
	mk_output(&mk, y);

	begin_method("set", n_shared);
	x = planned(1, 0, 0);
	h = planned(2, 64, h_initial);
	mk_kernel(&mk, mk_operator(&mk, "test::copy_", ""), MK_ARGS(h, x));
	mk_input(&mk, x);

	begin_method("get", n_shared);
	h = planned(2, 64, h_initial);
	mk_output(&mk, h);

	begin_method("apart", n_shared);
	x = planned(1, 0, 0);
	y = planned(1, 16, 0);
	mk_kernel(&mk, mk_operator(&mk, "test::add", "out"), MK_ARGS(x, x, y));
	mk_input(&mk, x);
	mk_output(&mk, y);

	begin_method("steps", n_shared);
	x = planned(1, 0, 0);
	y = planned(1, 16, 0);
	h = planned(2, 64, h_initial);
	int s = planned(2, 128, s_initial);
	mk_kernel(&mk, mk_operator(&mk, "test::accumulate_", ""), MK_ARGS(s, x));
	mk_kernel(&mk, mk_operator(&mk, "test::add", "out"), MK_ARGS(s, h, y));
	mk_input(&mk, x);
	mk_output(&mk, y);

	mk_method(&mk, "number");
	mk_output(&mk, mk_int(&mk, 7));

	mk_method(&mk, "refused"); /* it cannot run here, and does not disturb the others */
	mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(1), .dynamism = ET_DYNAMIC_UNBOUND });

	if (rig_try_plan(&rig, &mk))
		fail_msg("%s", rig.diag.text);
	rig.plan = et_plan_unref(rig.plan);
}

static enum et_status try_open(const char *method, const struct opened *with, struct opened *ret)
{
	rig.diag.text[0] = '\0';
	assert_int_equal(et_plan_new(&ret->plan, rig.program, method, &rig.registry, NULL, 1, &rig.allocator,
				 &rig.diag),
		ET_OK);
	enum et_status status = et_method_new_with(&ret->method, ret->plan, with ? with->method : NULL, &rig.allocator,
		&rig.diag);
	if (status)
		ret->plan = et_plan_unref(ret->plan);
	return status;
}

static struct opened *open_one(const char *method, const struct opened *with)
{
	struct opened *one = &all[n_opened];
	*one = (struct opened){ 0 };
	if (try_open(method, with, one) ||
		et_frame_new(&one->frame, one->plan, &rig.allocator, &rig.allocator, &rig.diag))
		fail_msg("%s", rig.diag.text);
	n_opened++;
	return one;
}

static void prepare(struct opened *one, struct rig_run *run, float *in, float *out)
{
	rig.plan = one->plan;
	rig.info = et_plan_info(one->plan);
	rig.method = one->method;
	rig.frame = one->frame;
	rig_run_init(&rig, run);
	if (rig.info->n_inputs)
		rig_input(run, 0, in, 1);
	if (rig.info->n_outputs)
		rig_output(run, 0, out, 1);
}

static float run_one(struct opened *one, float in)
{
	struct rig_run run;
	float out = -1;
	prepare(one, &run, &in, &out);
	if (rig_run(&rig, &run))
		fail_msg("%s", run.run.diag.text);
	return out;
}

static bool at_once(void *self)
{
	return true;
}

/* Abandon the run between its first and its second instruction. */
static enum et_status cut_short(struct opened *one)
{
	struct rig_run run;
	float in = 100, out;
	prepare(one, &run, &in, &out);
	enum et_status status = et_run_begin(&run.run);
	if (status)
		return status;
	run.env.should_yield = at_once;
	assert_int_equal(et_run_advance(&run.run, &run.env), ET_STOP_QUEUE);
	assert_int_equal(run.run.pc, 1);
	atomic_store(&run.run.cancelled, true);
	assert_int_equal(et_run_advance(&run.run, &run.env), ET_STOP_FAILED);
	return et_run_end(&run.run);
}

static void one_method_writes_and_others_read(void **state)
{
	make_methods(SMALL, 0, 0);
	struct opened *forward = open_one("forward", NULL), *get = open_one("get", forward),
		      *set = open_one("set", get);
	assert_true(run_one(get, 0) == 0);
	assert_true(run_one(forward, 2) == 4);
	assert_true(run_one(forward, 1) == 6);
	assert_true(run_one(get, 0) == 3);
	run_one(set, 10);
	assert_true(run_one(get, 0) == 10);
	assert_true(run_one(forward, 1) == 22);
}

static void methods_do_not_share_by_default(void **state)
{
	make_methods(SMALL, 0, 0);
	struct opened *forward = open_one("forward", NULL), *get = open_one("get", NULL),
		      *another = open_one("forward", NULL);
	assert_true(run_one(forward, 2) == 4);
	assert_true(run_one(get, 0) == 0);
	assert_true(run_one(another, 5) == 10);
	assert_true(run_one(forward, 0) == 4);
	/* each has state that runs must not overlap on */
	for (int i = 0; i < n_opened; i++)
		assert_true(et_plan_info(all[i].plan)->is_stateful);
}

static void two_methods_of_one_plan_may_share(void **state)
{
	make_methods(SMALL, 0, 0);
	struct opened *first = open_one("forward", NULL), *second = open_one("forward", first);
	assert_true(run_one(first, 1) == 2);
	assert_true(run_one(second, 1) == 4);
	assert_true(run_one(first, 1) == 6);
}

/* A buffer that only a later Method uses starts with its initial value; existing values stay. */
static void state_starts_with_all_methods_initial_values(void **state)
{
	float seven = 7, three = 3;
	uint32_t h = mk_initial(&mk, &seven, sizeof seven), s = mk_initial(&mk, &three, sizeof three);
	make_methods(SMALL, h, s);
	struct opened *forward = open_one("forward", NULL);
	/* h of four methods, s of one, and the method's own once more */
	assert_int_equal(et_plan_info(forward->plan)->n_reset_bytes, SMALL + 6 * sizeof seven);
	assert_true(run_one(forward, 1) == 16);
	struct opened *steps = open_one("steps", forward);
	assert_true(run_one(steps, 1) == 12); /* 3 + 1, and 8 */
	assert_true(run_one(open_one("get", steps), 0) == 8);
	et_method_reset(forward->method);
	assert_true(run_one(steps, 1) == 11); /* 3 + 1, and 7: everything has its initial value again */
}

/* The same place in two methods holds different things in a program that was not planned for sharing. */
static void the_methods_own_initial_values_win(void **state)
{
	static const char *names[] = { "forward", "get" };
	static const float values[] = { 7, 3 };
	for (int m = 0; m < 2; m++) {
		uint32_t initial = mk_initial(&mk, &values[m], sizeof values[m]);
		begin_method(names[m], SMALL);
		mk_output(&mk, planned(2, 64, initial));
	}
	if (rig_try_plan(&rig, &mk))
		fail_msg("%s", rig.diag.text);
	rig.plan = et_plan_unref(rig.plan);
	struct opened *forward = open_one("forward", NULL), *get = open_one("get", NULL),
		      *with = open_one("get", forward);
	for (int i = 0; i < 2; i++) {
		assert_true(run_one(forward, 0) == 7);
		assert_true(run_one(get, 0) == 3);
		assert_true(run_one(with, 0) == 7); /* the first Method's memory */
		et_method_reset(forward->method);
		et_method_reset(get->method);
	}
}

static void shared_state_is_allocated_once(void **state)
{
	make_methods(LARGE, 0, 0);
	struct opened *forward = open_one("forward", NULL);
	const struct et_plan_info *info = et_plan_info(forward->plan);
	assert_int_equal(info->n_shared_bytes, LARGE);
	assert_int_equal(info->n_state_bytes, LARGE);
	size_t before = rig.counting.n_live_bytes;
	struct opened *get = open_one("get", forward);
	assert_true(rig.counting.n_live_bytes - before < 64 * 1024);
	assert_int_equal(et_plan_info(get->plan)->n_shared_bytes, LARGE);
}

static void methods_without_shared_buffers_are_refused(void **state)
{
	make_methods(SMALL, 0, 0);
	struct opened *forward = open_one("forward", NULL), *apart = open_one("apart", NULL), none;
	assert_int_equal(et_plan_info(apart->plan)->n_shared_bytes, 0);
	assert_false(et_plan_info(apart->plan)->is_stateful);
	assert_int_equal(try_open("apart", forward, &none), ET_E_INVALID_ARGUMENT);
	assert_int_equal(try_open("forward", apart, &none), ET_E_INVALID_ARGUMENT);
}

static void another_program_does_not_share(void **state)
{
	make_methods(SMALL, 0, 0);
	struct opened *forward = open_one("forward", NULL), none;
	struct et_program *first = rig.program;
	mk_init(&mk);
	make_methods(SMALL, 0, 0); /* byte for byte the same */
	assert_int_equal(try_open("forward", forward, &none), ET_E_INVALID_ARGUMENT);
	et_program_unref(first);
}

/* Arenas of different sizes, another number of arenas, or only one method with arenas: none of these was planned by
 * share_mutable_buffers. */
static void other_arenas_are_not_shared(void **state)
{
	static const struct {
		int64_t first, second;
		uint32_t n_more;
		bool is_alone;
	} rows[] = { { 256, 128, 0, false }, { 256, 256, 1, false }, { 256, 256, 0, true } };
	for (size_t i = 0; i < ET_ARRAY_LEN(rows); i++) {
		if (i)
			mk_init(&mk);
		for (int m = 0; m < (rows[i].is_alone ? 1 : 2); m++) {
			begin_method(m ? "other" : "forward", m ? rows[i].second : rows[i].first);
			if (m)
				for (uint32_t k = 0; k < rows[i].n_more; k++)
					mk_arena(&mk, 64);
			int x = planned(1, 0, 0), h = planned(2, 64, 0);
			mk_kernel(&mk, mk_operator(&mk, "test::copy_", ""), MK_ARGS(h, x));
			mk_input(&mk, x);
			mk_output(&mk, h);
		}
		mk_method(&mk, "number");
		mk_output(&mk, mk_int(&mk, 7));
		if (rig_try_plan(&rig, &mk))
			fail_msg("%s", rig.diag.text);
		assert_int_equal(rig.info->n_shared_bytes, 0);
		assert_false(rig.info->is_stateful);
		rig.plan = et_plan_unref(rig.plan);
		rig.program = et_program_unref(rig.program);
	}
}

/* An input is never a mutable buffer. */
static void an_arena_with_an_input_is_not_shared(void **state)
{
	for (int other = 0; other < 2; other++) {
		if (other)
			mk_init(&mk);
		for (int m = 0; m < 2; m++) {
			begin_method(m ? "other" : "forward", SMALL);
			int x = planned(m == other ? 2 : 1, 0, 0), h = planned(2, 64, 0);
			mk_kernel(&mk, mk_operator(&mk, "test::copy_", ""), MK_ARGS(h, x));
			mk_input(&mk, x);
			mk_output(&mk, h);
		}
		if (rig_try_plan(&rig, &mk))
			fail_msg("%s", rig.diag.text);
		assert_int_equal(rig.info->n_shared_bytes, 0);
		assert_false(rig.info->is_stateful);
		assert_true(rig.info->inputs[0].zero_copy);
		rig.plan = et_plan_unref(rig.plan);
		rig.program = et_program_unref(rig.program);
	}
}

/* A method with fewer arenas than the first one has. */
static void fewer_arenas_are_not_shared(void **state)
{
	begin_method("forward", SMALL);
	mk_method(&mk, "other");
	mk_arena(&mk, 64);
	if (rig_try_plan(&rig, &mk))
		fail_msg("%s", rig.diag.text);
	rig.plan = et_plan_unref(rig.plan);
	assert_int_equal(et_plan_info(open_one("other", NULL)->plan)->n_shared_bytes, 0);
	assert_int_equal(et_plan_info(open_one("forward", NULL)->plan)->n_shared_bytes, 0);
}

static void a_run_excludes_runs_of_the_others(void **state)
{
	make_methods(SMALL, 0, 0);
	struct opened *forward = open_one("forward", NULL), *get = open_one("get", forward);
	struct rig_run run, second;
	float in = 1, out = 0, got = 0;
	prepare(forward, &run, &in, &out);
	assert_int_equal(et_run_begin(&run.run), ET_OK);
	prepare(get, &second, NULL, &got);
	assert_int_equal(et_run_begin(&second.run), ET_E_INVALID_STATE);
	assert_int_equal(et_run_advance(&run.run, &run.env), ET_STOP_DONE);
	assert_int_equal(et_run_end(&run.run), ET_OK);
	assert_true(run_one(get, 0) == 1);
}

static void a_small_shared_state_is_rolled_back_for_all(void **state)
{
	make_methods(SMALL, 0, 0);
	struct opened *forward = open_one("forward", NULL), *get = open_one("get", forward);
	run_one(forward, 1);
	assert_int_equal(cut_short(forward), ET_E_CANCELLED);
	assert_true(run_one(get, 0) == 1);
}

static void a_large_shared_state_is_lost_for_all(void **state)
{
	make_methods(LARGE, 0, 0);
	struct opened *get = open_one("get", NULL), *forward = open_one("forward", get);
	run_one(forward, 1);
	assert_int_equal(cut_short(forward), ET_E_CANCELLED);
	assert_true(et_method_is_lost(get->method) && et_method_is_lost(forward->method));
	assert_int_equal(cut_short(get), ET_E_STATE_LOST);
	et_method_reset(get->method);
	assert_false(et_method_is_lost(get->method) || et_method_is_lost(forward->method));
	assert_true(run_one(forward, 1) == 2);
	et_method_lose(get->method);
	assert_int_equal(cut_short(forward), ET_E_STATE_LOST);
}

/* The Method that holds the memory may be freed first, if the others are not used any more. */
static void sharing_methods_may_be_freed_in_any_order(void **state)
{
	make_methods(SMALL, 0, 0);
	struct opened *forward = open_one("forward", NULL), *get = open_one("get", forward);
	run_one(forward, 1);
	close_one(forward);
	close_one(get);
}

static void the_nth_allocation_fails(void **state)
{
	make_methods(SMALL, 0, 0);
	struct opened *forward = open_one("forward", NULL);
	struct et_plan *plan = open_one("get", forward)->plan;
	struct et_method *method = NULL;
	for (size_t n = 0; !method; n++) {
		assert_true(n < 10);
		rig.counting.fails_once = true;
		rig.counting.fail_at = rig.counting.n_calls + n + 1;
		enum et_status status = et_method_new_with(&method, plan, forward->method, &rig.allocator, NULL);
		assert_int_equal(status, method ? ET_OK : ET_E_MEMORY_ALLOCATION_FAILED);
	}
	rig.counting.fail_at = 0;
	et_method_free(method);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(one_method_writes_and_others_read),
		TEST(methods_do_not_share_by_default),
		TEST(two_methods_of_one_plan_may_share),
		TEST(state_starts_with_all_methods_initial_values),
		TEST(the_methods_own_initial_values_win),
		TEST(shared_state_is_allocated_once),
		TEST(methods_without_shared_buffers_are_refused),
		TEST(another_program_does_not_share),
		TEST(other_arenas_are_not_shared),
		TEST(an_arena_with_an_input_is_not_shared),
		TEST(fewer_arenas_are_not_shared),
		TEST(a_run_excludes_runs_of_the_others),
		TEST(a_small_shared_state_is_rolled_back_for_all),
		TEST(a_large_shared_state_is_lost_for_all),
		TEST(sharing_methods_may_be_freed_in_any_order),
		TEST(the_nth_allocation_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
