/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of kernels that no exporter would make, made from choices.
 *
 * What a Plan and a run see to holds: the kinds of arguments that the signature names, dim orders that are
 * permutations, sizes that can be addressed, memory of at least that size and aligned to its elements. Everything
 * else is up to chance: dtypes, ranks up to 16, sizes, empty tensors with dimensions of 2^31 - 1, numbers at the ends
 * of their range, lists of any length, None, what lies in memory, and memory that arguments share.
 *
 * Each call must answer a status, with a sentence if it is a refusal; outputs must fit their memory afterwards; and
 * what is only read must not have changed. What lies outside, the sanitizers see: each tensor has an allocation of
 * its exact size, or all of them lie in one. A call that was done is made twice again, to see that nothing shows of
 * what lay in its outputs and in scratch memory before. Whatever is wrong is printed, and the program aborts. */
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

/* Kernels of all tables, and the one at @index. */
size_t hostile_n_kernels(void);
const struct et_kernel *hostile_kernel(size_t index);

#endif
