/* SPDX-License-Identifier: BSD-3-Clause */
/* What convolutions of floats and of int8 have in common: sizes and windows as kernels take them. */
#ifndef DELEGATES_OPENCL_STEPS_WINDOW_H
#define DELEGATES_OPENCL_STEPS_WINDOW_H

#include "delegates/opencl/step.h"

/* Item @index of the list in argument @arg, for the height (0) or the width (1); the only item if there is one; @absent
 * if there is none. */
int64_t ocl_spatial(struct ocl_call *call, uint32_t arg, uint32_t index, int64_t absent);

/* Sizes as kernels/convolution.cl wants them: C, H, W, OC, OH, OW, KH, KW. */
struct ocl_convolution {
	uint32_t sizes[8];
	int64_t window[8]; /* stride, padding, dilation of height and width, groups */
	uint64_t n, n_x;   /* elements of the result and of the input */
	uint64_t cost;
};

/* Check sizes and window against the tensors: channels divide into the groups, no product overflows. x and the result
 * are [N, C, H, W], or [N, C, W]. */
bool ocl_convolution_check(struct ocl_call *call, struct ocl_convolution *c);

#endif
