/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention's guard for masked rows as a program has it, computed by one call or by six: the result is that of the six
 * kernels, to the bit. Then programs in which a run must not, or cannot, compute them together. Activations are full of
 * NaN before each run. */
#include "runtime/kernels/kernels.h"
#include "tests/support/method_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { ROWS = 6, COLUMNS = 6, N = ROWS * COLUMNS, N_BYTES = N * sizeof(float) };

/* Places of tensors in the arena, in bytes. */
enum {
	X_AT = 0,
	M_AT = 192,
	NOT_AT = 256,
	ANY_AT = 320,
	AGAIN_AT = 384,
	FULL_AT = 448,
	Y_AT = 640,
	OUT_AT = 832,
	END = 1024
};

struct guard {
	double number, fill;
	int dim;
	bool is_full_early; /* full_like is the second call */
	bool has_clone;     /* another call is among them */
	bool shows_any;     /* what any writes is an output */
	bool reads_mask;    /* what eq writes is read once more */
	bool skips_not;     /* where reads what any writes */
	bool jumps;
	int mask_at, out_at;
	uint32_t n_sequences;
};
static const struct guard usual = {
	.number = -INFINITY, .dim = -1, .mask_at = M_AT, .out_at = OUT_AT, .n_sequences = 1
};

static struct method_rig rig;

static int tensor(struct make_program *mk, int type, int32_t n_rows, int32_t n_columns, int at)
{
	return mk_tensor(mk,
		&(struct mk_tensor){ .type = type, MK_SIZES(n_rows, n_columns), .arena = 1, .offset = (uint64_t)at });
}

/* x and y are doubled inputs, so that they lie among the activations. */
static void open(const struct guard *g)
{
	struct make_program mk;
	const bool is_down = g->dim == 0;
	const int32_t n_rows = is_down ? 1 : ROWS, n_columns = is_down ? COLUMNS : 1;
	memset(&rig, 0, sizeof(rig));
	rig_init(&rig);
	rig.registry.tables = et_kernel_tables;
	rig.registry.n_tables = et_n_kernel_tables;
	mk_init(&mk);
	mk_method(&mk, "forward");
	mk_arena(&mk, END);
	int in[2], made[2];
	int add = mk_operator(&mk, "aten::add", "out"), one = mk_int(&mk, 1);
	for (int i = 0; i < 2; i++) {
		in[i] = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(ROWS, COLUMNS) });
		made[i] = tensor(&mk, ET_FLOAT32, ROWS, COLUMNS, i ? Y_AT : X_AT);
		mk_kernel(&mk, add, MK_ARGS(in[i], in[i], one, made[i]));
	}
	int mask = tensor(&mk, ET_BOOL, ROWS, COLUMNS, g->mask_at),
	    unmasked = tensor(&mk, ET_BOOL, ROWS, COLUMNS, NOT_AT),
	    any = tensor(&mk, ET_BOOL, n_rows, n_columns, ANY_AT),
	    none = tensor(&mk, ET_BOOL, n_rows, n_columns, AGAIN_AT),
	    full = tensor(&mk, ET_FLOAT32, ROWS, COLUMNS, FULL_AT),
	    out = tensor(&mk, ET_FLOAT32, ROWS, COLUMNS, g->out_at),
	    result = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(ROWS, COLUMNS) }),
	    other = mk_tensor(&mk, &(struct mk_tensor){ ET_BOOL, MK_SIZES(ROWS, COLUMNS) });
	int eq = mk_operator(&mk, "aten::eq", "Scalar_out"), not = mk_operator(&mk, "aten::logical_not", "out"),
	    any_op = mk_operator(&mk, "aten::any", "out"), full_like = mk_operator(&mk, "aten::full_like", "out"),
	    where = mk_operator(&mk, "aten::where", "self_out");
	int number = mk_double(&mk, g->number), fill = mk_double(&mk, g->fill), dim = mk_int(&mk, g->dim),
	    keeps = mk_bool(&mk, true), type = mk_none(&mk);
	if (g->jumps)
		mk_jump_false(&mk, keeps, 3);
	mk_kernel(&mk, eq, MK_ARGS(made[0], number, mask));
	if (g->is_full_early)
		mk_kernel(&mk, full_like, MK_ARGS(made[1], fill, type, full));
	mk_kernel(&mk, not, MK_ARGS(mask, unmasked));
	if (g->has_clone)
		mk_kernel(&mk, add, MK_ARGS(made[1], made[1], one, result));
	mk_kernel(&mk, any_op, MK_ARGS(unmasked, dim, keeps, any));
	mk_kernel(&mk, not, MK_ARGS(any, none));
	if (!g->is_full_early)
		mk_kernel(&mk, full_like, MK_ARGS(made[1], fill, type, full));
	mk_kernel(&mk, where, MK_ARGS(g->skips_not ? any : none, full, made[1], out));
	if (g->reads_mask)
		mk_kernel(&mk, not, MK_ARGS(mask, other));
	mk_kernel(&mk, add, MK_ARGS(out, out, one, result));
	mk_input(&mk, in[0]);
	mk_input(&mk, in[1]);
	mk_output(&mk, result);
	if (g->shows_any)
		mk_output(&mk, any);
	if (g->reads_mask)
		mk_output(&mk, other);
	rig_open(&rig, &mk);
	assert_int_equal(rig.info->n_sequences, g->n_sequences);
}

static bool is_masked(const struct guard *g, const float *x, int i)
{
	const int first = g->dim == 0 ? i % COLUMNS : i / COLUMNS * COLUMNS, step = g->dim == 0 ? COLUMNS : 1,
		  n = g->dim == 0 ? ROWS : COLUMNS;
	for (int k = 0; k < n; k++)
		if ((double)(2 * x[first + k * step]) != g->number)
			return g->skips_not;
	return !g->skips_not;
}

static void check(const struct guard *g)
{
	static const float kinds[ROWS][3] = { { 1, 2, 3 }, { -INFINITY, -INFINITY, -INFINITY },
		{ -INFINITY, -INFINITY, 1 }, { -INFINITY, NAN, -INFINITY }, { INFINITY, -INFINITY, 0 },
		{ 0.5f, 0.5f, 0.5f } };
	open(g);
	for (int round = 0; round < 3; round++) {
		float x[N], y[N], result[N], right[N];
		bool others[N];
		struct rig_run run;
		for (int i = 0; i < N; i++) {
			x[i] = kinds[(i / COLUMNS + round) % ROWS][i % COLUMNS / 2];
			y[i] = i % 7 ? (float)(i + round) : round ? -0.0f : NAN;
		}
		for (int i = 0; i < N; i++)
			right[i] = 2 * (is_masked(g, x, i) ? (float)g->fill : 2 * y[i]);
		rig_run_init(&rig, &run);
		rig_input(&run, 0, x, N);
		rig_input(&run, 1, y, N);
		rig_output(&run, 0, result, N);
		run.outputs[1].tensor.data = others;
		run.outputs[1].tensor.n_bytes = sizeof(others);
		if (rig_run(&rig, &run))
			fail_msg("%s", run.run.diag.text);
		assert_memory_equal(result, right, N_BYTES);
		for (int i = 0; i < ROWS && g->shows_any; i++)
			assert_int_equal(others[i], !is_masked(g, x, i * COLUMNS));
		for (int i = 0; i < N && g->reads_mask; i++)
			assert_int_equal(others[i], 2 * x[i] != -INFINITY);
	}
}

static void check_and_close(struct guard g)
{
	check(&g);
	rig_close(&rig);
}

#define CHECK(...)                      \
	do {                            \
		struct guard g = usual; \
		__VA_ARGS__;            \
		check_and_close(g);     \
	} while (0)

static void together(void **state)
{
	CHECK(g.fill = 0);
	CHECK(g.is_full_early = true);
	CHECK(g.fill = -7.5);
	CHECK(g.dim = 1);
	CHECK(g.out_at = X_AT);
}

/* One call might compute them, but finds that they are something else. */
static void not_that_guard(void **state)
{
	CHECK(g.number = 1);
	CHECK(g.dim = 0);
	CHECK(g.skips_not = true; g.n_sequences = 0); /* what logical_not writes is never read */
	CHECK(g.out_at = X_AT + 8);
}

/* The output of one of them is needed elsewhere, or the calls do not follow each other. */
static void apart(void **state)
{
	CHECK(g.shows_any = true; g.n_sequences = 0);
	CHECK(g.reads_mask = true; g.n_sequences = 0);
	CHECK(g.has_clone = true; g.n_sequences = 0);
	CHECK(g.jumps = true; g.n_sequences = 0);
}

/* The output of eq lies over a tensor that is needed later: y, or the output of full_like. */
static void overwritten(void **state)
{
	static const int places[] = { Y_AT, Y_AT + N_BYTES - 4, FULL_AT, X_AT };
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		struct guard g = usual;
		g.is_full_early = true;
		g.mask_at = places[i];
		g.n_sequences = 0;
		open(&g);
		rig_close(&rig);
	}
}

/* A row so long that a run has to stop inside it is left to the kernels, which do. */
static void long_rows(void **state)
{
	static float numbers[2][ET_PACE_STEPS + 1];
	for (int is_long = 0; is_long < 2; is_long++) {
		int32_t sizes[2] = { 1, ET_PACE_STEPS + is_long }, one_column[2] = { 1, 1 };
		uint8_t dim_order[2] = { 0, 1 };
		struct et_tensor in = {
			.type = ET_FLOAT32, .n_dims = 2, .sizes = sizes, .dim_order = dim_order, .data = numbers[0]
		};
		struct et_tensor result = in, bools = in, row;
		result.data = numbers[1];
		bools.type = ET_BOOL;
		row = bools;
		row.sizes = one_column;
		struct et_evalue x = { .tag = ET_TAG_TENSOR, .tensor = &in }, y = x, full = x,
				 out = { .tag = ET_TAG_TENSOR, .tensor = &result },
				 mask = { .tag = ET_TAG_TENSOR, .tensor = &bools }, unmasked = mask,
				 any = { .tag = ET_TAG_TENSOR, .tensor = &row }, none = any,
				 number = { .tag = ET_TAG_DOUBLE, .d = -INFINITY }, fill = { .tag = ET_TAG_DOUBLE },
				 dim = { .tag = ET_TAG_INT, .i = -1 }, keeps = { .tag = ET_TAG_BOOL, .b = true };
		struct et_evalue *const eq[] = { &x, &number, &mask }, *const not[] = { &mask, &unmasked },
					*const any_of[] = { &unmasked, &dim, &keeps, &any },
					*const again[] = { &any, &none },
					*const full_like[] = { &y, &fill, NULL, &full },
					*const where[] = { &none, &full, &y, &out };
		struct et_evalue *const *const calls[] = { eq, not, any_of, again, full_like, where };
		struct et_kernel_ctx ctx = { 0 };
		bool is_done = false;
		assert_int_equal(et_masked_rows.run(&ctx, calls, &is_done), ET_OK);
		assert_int_equal(is_done, !is_long);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(together),
		cmocka_unit_test(not_that_guard),
		cmocka_unit_test(apart),
		cmocka_unit_test(overwritten),
		cmocka_unit_test(long_rows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
