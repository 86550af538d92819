/* SPDX-License-Identifier: BSD-3-Clause */
/* Random programs, compared with an interpreter that works as ExecuTorch does: one memory per client, laid out as
 * planned, inputs copied in, outputs copied out. Tensors overlap in any way, instructions branch and jump back, so
 * most of these programs make no sense. But splitting memory into state and activations, binding inputs and outputs,
 * and NaN in activations must not change any result. Two clients take turns. */
#include "tests/support/method_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { N_ARENA = 40, N = 4, WIDE = 2 * N, N_TENSORS = 10, N_STEPS = 10, N_INPUTS = 2, N_OUTPUTS = 2, N_RUNS = 4 };

enum kind { ADD, COPY, CLONE, ACCUMULATE, FILL, MOVE, JUMP, N_KINDS, JOIN = N_KINDS, PART, SPLIT };

struct step {
	enum kind kind;
	int a, b, c;
};

struct made {
	int offsets[N_TENSORS]; /* in elements */
	int sizes[N_TENSORS];
	bool is_view[N_TENSORS];
	struct step steps[N_STEPS];
	int inputs[N_INPUTS], outputs[N_OUTPUTS];
};

static uint32_t seed;

static int draw(int n)
{
	seed = seed * 1664525 + 1013904223;
	return (int)((seed >> 8) % (uint32_t)n);
}

static void make(struct made *made)
{
	for (int t = 0; t < N_TENSORS; t++) {
		made->offsets[t] = draw(3) ? draw((N_ARENA - N) / 4) * 4 : draw(N_ARENA - N);
		made->sizes[t] = N;
	}
	for (int s = 0; s < N_STEPS; s++) {
		struct step *step = &made->steps[s];
		*step = (struct step){ (enum kind)draw(N_KINDS), draw(N_TENSORS), draw(N_TENSORS), draw(N_TENSORS) };
		if (step->kind == MOVE && draw(2))
			step->kind = ADD;
		if (step->kind == JUMP) {
			/* forward jumps depend on an input; backward jumps would not end */
			step->a = s + 1 + draw(N_STEPS - s);
			step->b = draw(2);
		}
	}
	for (int i = 0; i < N_INPUTS; i++)
		made->inputs[i] = draw(N_TENSORS - 1);
	if (made->inputs[0] == made->inputs[1])
		made->inputs[1]++;
	for (int i = 0; i < N_OUTPUTS; i++)
		made->outputs[i] = draw(N_TENSORS);
}

/* Each step writes another tensor from those before, as exporters' programs do. They still overlap in any way. */
static void make_straight(struct made *made)
{
	make(made);
	for (int t = 0; t < N_TENSORS; t++)
		made->offsets[t] = draw(8) ? draw(N_ARENA / N) * N : draw(N_ARENA - N);
	for (int s = 0, to = N_INPUTS; s < N_STEPS; s++) {
		int from = s && draw(2) ? to - 1 : draw(to), other = draw(to);
		if (to == N_TENSORS || (to > N_INPUTS && draw(6) == 0))
			made->steps[s] = (struct step){ ACCUMULATE, N_INPUTS + draw(to - N_INPUTS), other, 0 };
		else if (draw(2))
			made->steps[s] = (struct step){ CLONE, from, to++, 0 };
		else
			made->steps[s] = (struct step){ ADD, from, other, to++ };
	}
	for (int i = 0; i < N_INPUTS; i++)
		made->inputs[i] = i;
	for (int i = 0; i < N_OUTPUTS; i++)
		made->outputs[i] = N_TENSORS - 1 - i;
}

/* A tensor before @end of @size elements; one is there. */
static int draw_sized(const struct made *made, int end, int size)
{
	int t;
	do
		t = draw(end);
	while (made->sizes[t] != size);
	return t;
}

/* The same with tensors that are joined from two and taken apart again. */
static void make_parts(struct made *made)
{
	make(made);
	for (int t = 0; t < N_TENSORS; t++)
		made->offsets[t] = draw(8) ? draw(N_ARENA / N - 1) * N : draw(N_ARENA - WIDE);
	const bool branches = draw(3) == 0; /* few copies are elided in a program that does */
	int last_wide = -1, to = N_INPUTS;
	for (int s = 0; s < N_STEPS; s++) {
		int from = s && draw(2) ? to - 1 : draw(to), size = made->sizes[from];
		struct step *step = &made->steps[s];
		if (branches && draw(8) == 0) {
			*step = (struct step){ JUMP, s + 1 + draw(N_STEPS - s), draw(2), 0 };
			continue;
		}
		if (to == N_TENSORS || (to > N_INPUTS && draw(8) == 0)) {
			int target = N_INPUTS + draw(to - N_INPUTS);
			*step = (struct step){ ACCUMULATE, target, draw_sized(made, to, made->sizes[target]), 0 };
			continue;
		}
		if (last_wide < 0 || draw(5) == 0) {
			*step = (struct step){ JOIN, draw_sized(made, to, N), draw_sized(made, to, N), to };
			size = WIDE;
			last_wide = to;
		} else if (draw(2)) {
			*step = (struct step){ PART, draw_sized(made, to, WIDE), draw(3) * N / 2, to };
			size = N;
		} else if (to + 1 < N_TENSORS && draw(3) == 0) {
			*step = (struct step){ SPLIT, last_wide, to, to + 1 };
			made->sizes[to++] = N;
			size = N;
		} else if (draw(2)) {
			*step = (struct step){ CLONE, from, to, 0 };
		} else {
			*step = (struct step){ ADD, from, draw_sized(made, to, size), to };
		}
		made->sizes[to++] = size;
	}
	for (int i = 0; i < N_INPUTS; i++)
		made->inputs[i] = i;
	for (int i = 0; i < N_OUTPUTS; i++)
		made->outputs[i] = N_TENSORS - 1 - i;
}

static void assemble(const struct made *made, struct make_program *mk)
{
	mk_init(mk);
	mk_method(mk, "forward");
	mk_arena(mk, N_ARENA * 4);
	for (int t = 0; t < N_TENSORS; t++)
		mk_tensor(mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(made->sizes[t]), .arena = 1,
				      .offset = (uint64_t)made->offsets[t] * 4 });
	int bools[2] = { mk_bool(mk, false), mk_bool(mk, false) }, three = mk_int(mk, 3);
	int add = mk_operator(mk, "test::add", "out"), copy = mk_operator(mk, "test::copy_", "");
	int clone = mk_operator(mk, "test::clone", ""), part = mk_operator(mk, "test::part", "");
	int cat = mk_operator(mk, "test::cat", ""), split = mk_operator(mk, "test::split", "");
	int accumulate = mk_operator(mk, "test::accumulate_", ""), fill = mk_operator(mk, "test::fill", "");
	for (int s = 0; s < N_STEPS; s++) {
		const struct step *step = &made->steps[s];
		switch (step->kind) {
		case ADD:
			mk_kernel(mk, add, MK_ARGS(step->a, step->b, step->c));
			break;
		case COPY:
			mk_kernel(mk, copy, MK_ARGS(step->a, step->b));
			break;
		case CLONE:
			mk_kernel(mk, clone, MK_ARGS(step->a, step->b));
			break;
		case ACCUMULATE:
			mk_kernel(mk, accumulate, MK_ARGS(step->a, step->b));
			break;
		case FILL:
			mk_kernel(mk, fill, MK_ARGS(three, step->a));
			break;
		case MOVE:
			mk_move(mk, step->a, step->b);
			break;
		case JOIN:
			mk_kernel(mk, cat,
				MK_ARGS(mk_slots(mk, ET_TAG_TENSOR_LIST, (const int[]){ step->a, step->b }, 2),
					step->c));
			break;
		case PART:
			mk_kernel(mk, part, MK_ARGS(step->a, mk_int(mk, step->b), step->c));
			break;
		case SPLIT:
			mk_kernel(mk, split,
				MK_ARGS(step->a,
					mk_slots(mk, ET_TAG_TENSOR_LIST, (const int[]){ step->b, step->c }, 2)));
			break;
		default:
			mk_jump_false(mk, bools[step->b], step->a);
			break;
		}
	}
	/* every program reads both, so both may be given any value */
	mk_jump_false(mk, bools[0], N_STEPS + 2);
	mk_jump_false(mk, bools[1], N_STEPS + 2);
	for (int i = 0; i < N_INPUTS; i++)
		mk_input(mk, made->inputs[i]);
	mk_input(mk, bools[0]);
	mk_input(mk, bools[1]);
	for (int i = 0; i < N_OUTPUTS; i++)
		mk_output(mk, made->outputs[i]);
}

/* As in ExecuTorch: @memory belongs to one client forever. */
static void interpret(const struct made *made, float *memory, float in[N_INPUTS][N], const bool *bools,
	float out[N_OUTPUTS][WIDE])
{
	float *value_indices[N_TENSORS];
	for (int t = 0; t < N_TENSORS; t++)
		value_indices[t] = memory + made->offsets[t];
	for (int i = 0; i < N_INPUTS; i++)
		memcpy(value_indices[made->inputs[i]], in[i], N * sizeof(float));
	for (int s = 0; s < N_STEPS; s++) {
		const struct step *step = &made->steps[s];
		const int n = step->kind == JUMP ? 0 : made->sizes[step->a];
		float *a = step->kind == JUMP ? NULL : value_indices[step->a], *b = value_indices[step->b],
		      *c = value_indices[step->c];
		if (step->kind == JUMP) {
			if (!bools[step->b])
				s = step->a - 1;
		} else if (step->kind == MOVE) {
			value_indices[step->b] = a;
		} else if (step->kind == CLONE) {
			memmove(b, a, (size_t)n * sizeof(float));
		} else if (step->kind == COPY) {
			memmove(a, b, N * sizeof(float));
		} else if (step->kind == JOIN) {
			memmove(c, a, N * sizeof(float));
			memmove(c + N, b, N * sizeof(float));
		} else if (step->kind == PART) {
			memmove(c, a + step->b, N * sizeof(float));
		} else if (step->kind == SPLIT) {
			memmove(b, a, N * sizeof(float));
			memmove(c, a + N, N * sizeof(float));
		} else {
			for (int i = 0; i < n; i++) {
				if (step->kind == ADD)
					c[i] = a[i] + b[i];
				else if (step->kind == ACCUMULATE)
					a[i] += b[i];
				else
					a[i] = 3;
			}
		}
	}
	for (int i = 0; i < N_OUTPUTS; i++)
		memcpy(out[i], value_indices[made->outputs[i]], (size_t)made->sizes[made->outputs[i]] * sizeof(float));
}

static uint32_t n_stateful, n_bound, n_elided;

static void compare(uint32_t number, void (*make_program)(struct made *made))
{
	struct made made = { 0 };
	struct make_program mk;
	struct method_rig rig = { 0 };
	seed = number;
	make_program(&made);
	assemble(&made, &mk);
	rig_init(&rig);
	rig_open(&rig, &mk);
	struct et_method *methods[2] = { rig.method, NULL };
	assert_int_equal(et_method_new(&methods[1], rig.plan, &rig.allocator, NULL), ET_OK);
	n_stateful += rig.info->is_stateful;
	n_elided += rig.info->n_elided_copies;
	for (int i = 0; i < N_OUTPUTS; i++)
		n_bound += rig.info->inputs[i].zero_copy + rig.info->outputs[i].zero_copy;
	float memories[2][N_ARENA] = { 0 };
	for (int r = 0; r < N_RUNS * 2; r++) {
		float in[N_INPUTS][N], want[N_OUTPUTS][WIDE] = { 0 }, got[N_OUTPUTS][WIDE] = { 0 };
		bool bools[2] = { draw(2), draw(2) };
		struct rig_run run;
		rig_run_init(&rig, &run);
		run.run.method = methods[r % 2];
		for (int i = 0; i < N_INPUTS; i++) {
			for (int e = 0; e < N; e++)
				in[i][e] = (float)draw(100);
			rig_input(&run, (uint32_t)i, in[i], N);
		}
		for (uint32_t i = 0; i < N_OUTPUTS; i++)
			rig_output(&run, i, got[i], (uint32_t)made.sizes[made.outputs[i]]);
		run.inputs[N_INPUTS].b = bools[0];
		run.inputs[N_INPUTS + 1].b = bools[1];
		interpret(&made, memories[r % 2], in, bools, want);
		if (rig_run(&rig, &run))
			fail_msg("program %u: %s", number, run.run.diag.text);
		if (memcmp(got, want, sizeof got) != 0)
			fail_msg("program %u, run %d: another answer than with one memory", number, r);
	}
	et_method_free(methods[1]);
	rig_close(&rig);
}

static void random_programs_compute_the_same(void **state)
{
	for (uint32_t number = 1; number <= 3000; number++)
		compare(number, make);
	/* the programs were of different kinds */
	assert_in_range(n_stateful, 100, 2950);
	assert_in_range(n_bound, 100, 11000);
}

static void copies_are_elided_without_a_difference(void **state)
{
	n_elided = 0;
	for (uint32_t number = 1; number <= 20000; number++)
		compare(number, make_straight);
	assert_in_range(n_elided, 5000, 80000);
}

static void parts_are_elided_without_a_difference(void **state)
{
	n_elided = 0;
	for (uint32_t number = 1; number <= 8000; number++)
		compare(number, make_parts);
	assert_in_range(n_elided, 1500, 32000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_programs_compute_the_same),
		cmocka_unit_test(copies_are_elided_without_a_difference),
		cmocka_unit_test(parts_are_elided_without_a_difference),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
