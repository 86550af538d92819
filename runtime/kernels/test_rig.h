/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels called on text: each case is one line in a table.
 *
 *     {"aten::add.out", "f32[2]{1,2} f32[1]{10} 1", "f32[2]{11,12}"}
 *
 * Arguments are in the order of the kernel's signature, separated by spaces:
 *     tensor   type[sizes]{elements}; elements are row-major whatever the dim order is, which may stand before
 *              them: f32[1,2,1,2]@0231{1,2,3,4}; types f32 f64 f16 bf16 i64 i32 i16 i8 u16 u8 bool
 *              and c32 c64 c128, whose elements are written 1:2
 *     lists    (1,2); of tensors (f32[1]{1};f32[1]{2}), where - is None; of bool (true,false)
 *     numbers  an Int, a Double if it has a point, true or false; strings as they are; None is -
 * Expected outputs follow in the same way; they also give the outputs' sizes and dim orders. If an operator changes
 * arguments, these are expected before the others. "! text" expects a refusal whose error text contains the text. "= "
 * in front expects floats to be equal, including the sign of zeros, not only close. */
#ifndef RUNTIME_KERNELS_TEST_RIG_H
#define RUNTIME_KERNELS_TEST_RIG_H

#include "runtime/base/checked.h"

struct et_kernel;

struct kernel_case {
	const char *kernel, *args, *expected;
};

/* Fail the test at the first case that goes wrong, and name the case. */
void check_kernel_cases(const struct kernel_case *cases, size_t n);

/* Fail the test if there is no such kernel. */
const struct et_kernel *find_kernel(const char *name);

#endif
