/* SPDX-License-Identifier: BSD-3-Clause */
/* A program under test with everything around it: kernels that are easy to follow, a registry, a Plan, and
 * runs in which nothing else can go wrong.
 *
 * The kernels work on FP32 tensors (and numbers), check nothing but what they must, and are found under "test::":
 *     add.out "TT>T"    both added, sizes from the first
 *     copy_ "=TT"       the first becomes the second
 *     accumulate_ "&TT" the second is added to the first
 *     view "T>*T"       a view
 *     cat "L>T"         all items in a row, 1-dimensional
 *     split "T>L"       each item takes as many as it holds
 *     part "TI>T"       RIG_PART elements, from that one on
 *     clone "T>T"       a copy
 *     reshape "TV>T"    the same, refuses sizes whose product is another; split_sizes "TV>L": split, refuses sizes
 *                       that are not the items'. Both count in rig_n_checked
 *     add.Scalar "SS>N", lt.Scalar "SS>N"   numbers
 *     fill "S>T"        every element that number; the size stays
 *     shrink "TI>T"     the first so many elements
 *     sum_ints "V>N"    the items added
 *     less "TT>T"       BOOL
 *     fail "T>T"        fails with a sentence
 *     scratch "T>T"     copies by way of scratch memory
 *     series "T>T"      the same, and may take RIG_SERIES_STEPS for each element */
#ifndef TESTS_SUPPORT_METHOD_RIG_H
#define TESTS_SUPPORT_METHOD_RIG_H

#include "runtime/method.h"
#include "tests/support/counting_alloc.h"
#include "tests/support/make_program.h"

enum { RIG_MAX_IOS = 8 };

extern const struct et_kernel_table rig_kernels;

/* Of "test::series", which else is "test::scratch". */
enum { RIG_SERIES_STEPS = 1000 * 1000 * 1000 };

enum { RIG_PART = 4 };

/* Calls of "test::reshape" and "test::split_sizes". */
extern uint32_t rig_n_checked;

struct method_rig {
	struct counting_alloc counting;
	struct et_allocator allocator;
	struct et_backend_entry backends[4];
	size_t n_backends;
	struct et_registry registry;
	struct et_options options; /* of the model; the test's */
	struct et_program *program;
	struct et_plan *plan;
	const struct et_plan_info *info;
	struct et_method *method;
	struct et_frame *frame;
	struct et_pool scratch;
	struct et_diag diag;
	int poison; /* what activations are filled with before each run; -1: nothing */
};

/* One run with everything that belongs to it. */
struct rig_run {
	struct et_run run;
	struct et_io inputs[RIG_MAX_IOS], outputs[RIG_MAX_IOS];
	struct et_worker_env env;
};

/* @rig all zeros but for backends. */
void rig_init(struct method_rig *rig);
/* Finish the program and make a Plan of its method: the status, and the sentence in rig->diag. */
enum et_status rig_try_plan(struct method_rig *rig, struct make_program *mk);
/* The same and a Method and a frame; fails the test if that does not work. */
void rig_open(struct method_rig *rig, struct make_program *mk);
/* Frees everything and checks that nothing is left. */
void rig_close(struct method_rig *rig);

/* Fill in what does not change: method, frame, sizes of inputs as planned. */
void rig_run_init(struct method_rig *rig, struct rig_run *run);
void rig_input(struct rig_run *run, uint32_t index, float *data, uint32_t n);
void rig_output(struct rig_run *run, uint32_t index, float *data, uint32_t n);
/* Begin, advance until it ends, end. */
enum et_status rig_run(struct method_rig *rig, struct rig_run *run);
/* The common case: one input of @n_in floats, one output of @n_out. Fails the test unless it ends well. */
void rig_run_floats(struct method_rig *rig, float *in, uint32_t n_in, float *out, uint32_t n_out);

#endif
