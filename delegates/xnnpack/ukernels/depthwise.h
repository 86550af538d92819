/* SPDX-License-Identifier: BSD-3-Clause */
/* Depthwise convolution, NHWC, fp32 or fp16: each channel has a filter of its own.
 *
 * depthwise.c is built once for each instruction set that gains; depthwise_dispatch.c asks the processor which build
 * runs. Each sum begins with the bias and takes the taps row by row; builds differ in rounding only. Sums of fp16 are
 * rounded to fp16 after each tap, and take the taps of 3 × 3 and 5 × 5 in XNNPACK's order. */
#ifndef DELEGATES_XNNPACK_UKERNELS_DEPTHWISE_H
#define DELEGATES_XNNPACK_UKERNELS_DEPTHWISE_H

#include <stdbool.h>
#include <stddef.h>

struct et_depthwise {
	size_t channels;
	size_t height, width, out_height, out_width;
	size_t kernel_height, kernel_width, stride_height, stride_width, dilation_height, dilation_width;
	ptrdiff_t top, left; /* zeros around the image; those below and to the right follow from the sizes */
	float min, max;      /* limits of outputs; NaN stays, but for fp16 of up to 5 × 5 it becomes the lower limit */
	/* zeros outside the image are multiplied, too, because infinite weights make NaNs of them: slow */
	bool counts_zeros;
	const float *filter; /* [kernel_height][kernel_width][channels] */
	const float *bias;   /* [channels], or NULL */
	const void *in;      /* [n][height][width][channels], fp32 or fp16 as the build says */
	void *out;           /* [n][out_height][out_width][channels], likewise */
};

struct et_depthwise_build {
	const char *name;
	bool are_fp16;
	/* Rows @begin to @end of the output, counted through all images. Reads and writes nothing outside the
	 * arrays. */
	void (*run)(const struct et_depthwise *job, size_t begin, size_t end);
};

/* Whether there are loops for this kernel: 3 × 3 and 5 × 5 of stride 1 and 2, 7 × 7 of stride 1. */
static inline bool et_depthwise_is_usual(const struct et_depthwise *job)
{
	size_t kernel = job->kernel_width, stride = job->stride_width;
	return job->kernel_height == kernel && job->stride_height == stride && job->dilation_height == 1 &&
	       job->dilation_width == 1 &&
	       (stride == 1 ? kernel == 3 || kernel == 5 || kernel == 7 : stride == 2 && (kernel == 3 || kernel == 5));
}

/* The best fp32 build for this processor; NULL: no build is known to be faster than XNNPACK here. */
const struct et_depthwise_build *et_depthwise(void);
/* The same for fp16. */
const struct et_depthwise_build *et_depthwise_fp16(void);
/* The best fp32 build, also where it is not known to be faster. */
const struct et_depthwise_build *et_depthwise_any(void);
/* For tests: the @i-th fp32 build that this processor runs; NULL behind the last. */
const struct et_depthwise_build *et_depthwise_at(size_t i);

extern const struct et_depthwise_build et_depthwise_base;
#ifdef __x86_64__
extern const struct et_depthwise_build et_depthwise_avx2;
extern const struct et_depthwise_build et_depthwise_avx512;
extern const struct et_depthwise_build et_depthwise_fp16_avx512;
#endif

#endif
