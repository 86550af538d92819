/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels called on text: each case is one line in a table.
 *
 *     {"aten::add.out", "f32[2]{1,2} f32[1]{10} 1", "f32[2]{11,12}"}
 *
 * Arguments stand as the kernel's signature says, parted by spaces:
 *     tensor   type[sizes]{elements}, elements row-major whatever the dim order is, which may be put in front of
 *              them: f32[1,2,1,2]@0231{1,2,3,4}; types f32 f64 f16 bf16 i64 i32 i16 i8 u16 u8 bool
 *              and c32 c64 c128, whose elements are written 1:2
 *     lists    (1,2), of tensors (f32[1]{1};f32[1]{2}), where - is None,
 *              of truths (true,false)
 *     numbers  an Int, a Double if it has a point, true or false; strings as they are; None is -
 * Expected outputs follow the same way; they also give the outputs' sizes and dim orders. Of an operator that
 * changes arguments, these are expected in front of the others. "! text" expects a refusal whose sentence contains the
 * text, and "= " in front that floats are equal, zeros by their sign, too, not only close. */
#ifndef RUNTIME_KERNELS_TEST_RIG_H
#define RUNTIME_KERNELS_TEST_RIG_H

#include "runtime/base/checked.h"

struct et_kernel;

struct kernel_case {
	const char *kernel, *args, *expected;
};

/* Fail the test, naming the case, at the first that goes wrong. */
void check_kernel_cases(const struct kernel_case *cases, size_t n);

/* Fails the test if there is none. */
const struct et_kernel *find_kernel(const char *name);

#endif
