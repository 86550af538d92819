/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of kernels that no exporter would write, made from choices.
 *
 * A call keeps the guarantees of a Plan and a run: arguments have the kinds that the signature names, dim orders are
 * permutations, sizes can be addressed, and memory is large enough and aligned to its elements. Everything else is
 * random: dtypes, ranks up to 16, sizes, empty tensors with dimensions of 2^31 - 1, numbers at the limits of their
 * range, lists of any length, None, the contents of memory, and memory that arguments share.
 *
 * Each call must return a status, with a sentence if it is a refusal. Afterwards outputs must fit their memory, and
 * inputs must be unchanged. The sanitizers see accesses outside of a tensor: each tensor has an allocation of its
 * exact size, or all lie in one. A call that succeeded is repeated twice, to check that the old contents of its
 * outputs and of scratch memory have no influence. On a failure it prints what is wrong and aborts. */
#ifndef TESTS_SUPPORT_HOSTILE_H
#define TESTS_SUPPORT_HOSTILE_H

#include "runtime/kernel.h"
#include "tests/support/choices.h"

/* Any call of @kernel. */
void hostile_call(const struct et_kernel *kernel, struct choices *choices);
/* A call that is like @args in all but a few things. They stay as they are. */
void hostile_call_near(const struct et_kernel *kernel, struct et_evalue *const *args, struct choices *choices);
/* The calls that are like @args, but for the type of one tensor, or that of all: each type there is, in turn. */
void hostile_call_types(const struct et_kernel *kernel, struct et_evalue *const *args);
/* The same beside a call by chance. False: that was refused, and nothing more was tried. */
bool hostile_call_types_made_up(const struct et_kernel *kernel, struct choices *choices);

enum hostile_end {
	HOSTILE_REFUSED, /* the call, or it is too small to tell */
	HOSTILE_STOPPED,
	HOSTILE_RAN_ON,       /* it wrote much, and did not ask whether it must stop */
	HOSTILE_WROTE_LITTLE, /* nor did this one, but only what it reads is large */
};
/* The call that is like @args with all sizes that are not 1 so large that it works on a million elements, told to stop
 * when it asks for the time after @n_before. If that is refused, numbers among the arguments grow, too: they may be
 * sizes. */
enum hostile_end hostile_call_stopped(const struct et_kernel *kernel, struct et_evalue *const *args, size_t n_before);

/* Kernels of all tables, and the one at @index. */
size_t hostile_n_kernels(void);
const struct et_kernel *hostile_kernel(size_t index);

#endif
