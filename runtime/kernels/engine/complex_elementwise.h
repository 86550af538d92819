/* SPDX-License-Identifier: BSD-3-Clause */
/* Complex numbers: plain loops in double complex, for the few operators that take them in ExecuTorch. */
#ifndef RUNTIME_KERNELS_ENGINE_COMPLEX_ELEMENTWISE_H
#define RUNTIME_KERNELS_ENGINE_COMPLEX_ELEMENTWISE_H

#include "runtime/kernels/engine/elementwise.h"

#include <complex.h>

/* Computes one complex result of an elementwise operator from its operands. */
typedef double complex (*et_complex_fn)(const double complex *operands);

/* One element of any type that can be computed with; the imaginary part of a real one is 0. */
double complex et_element_get_complex(const void *element, enum et_scalar_type type);
/* A real @type stores the real part. */
void et_element_set_complex(void *element, enum et_scalar_type type, double complex value);

/* Change the complex @view to a real one whose last, additional dimension is the two parts. */
void et_view_parts(struct et_view *view);

/* Convert element by element where either side is complex; sizes equal. */
enum et_status et_complex_cast(struct et_kernel_ctx *ctx, const struct et_view *to, const struct et_view *from);
/* Apply @fn. @views: the output, then the operands broadcast to it; NULL for an operand that is a number, found in
 * @numbers. */
void et_complex_apply(const struct et_compute *compute, et_complex_fn fn, const struct et_view *const *views,
	const double *numbers, size_t n_views);
/* out = the sum over the dimensions in @set; both complex. */
enum et_status et_complex_sum(struct et_kernel_ctx *ctx, const struct et_tensor *self, uint32_t set, bool keepdim,
	struct et_tensor *out);
/* out = a b, for 2-dimensional views of one complex type. */
void et_complex_multiply(const struct et_compute *compute, const struct et_view *out, const struct et_view *a,
	const struct et_view *b);

#endif
