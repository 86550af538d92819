/* SPDX-License-Identifier: BSD-3-Clause */
/* Depthwise convolutions of floats, or of half floats (IEEE 754 binary16), NHWC: each channel has a filter of its own.
 *
 * depthwise.c is built once for each instruction set that is worth it; which one runs is decided by asking the processor.
 * Each sum begins with the bias and takes the taps row by row; builds differ in rounding only. Sums of halves are rounded to halves after each tap,
 * and take those of 3 × 3 and 5 × 5 as XNNPACK does. */
#ifndef DELEGATES_XNNPACK_UKERNELS_DEPTHWISE_H
#define DELEGATES_XNNPACK_UKERNELS_DEPTHWISE_H

#include <stdbool.h>
#include <stddef.h>

struct et_depthwise {
	size_t channels;
	size_t height, width, out_height, out_width;
	size_t kernel_height, kernel_width, stride_height, stride_width, dilation_height, dilation_width;
	ptrdiff_t top, left; /* zeros around the image; those below and to the right follow from the sizes */
	float min, max;      /* limits of what comes out; NaN stays, but of halves' up to 5 × 5 it is the lower one */
	bool counts_zeros;   /* those outside are multiplied, too, as infinite weights make NaNs of them: slow */
	const float *filter; /* [kernel_height][kernel_width][channels] */
	const float *bias;   /* [channels], or NULL */
	const void *in;      /* [n][height][width][channels], of floats or halves, as the build says */
	void *out;           /* [n][out_height][out_width][channels], likewise */
};

struct et_depthwise_build {
	const char *name;
	bool are_fp16;
	/* Rows @begin to @end of the output, counted through all images. Reads and writes nothing outside the
	 * arrays. */
	void (*run)(const struct et_depthwise *job, size_t begin, size_t end);
};

/* Whether it has loops of its own: 3 × 3 and 5 × 5 of stride 1 and 2, 7 × 7 of stride 1. */
static inline bool et_depthwise_is_usual(const struct et_depthwise *job)
{
	size_t kernel = job->kernel_width, stride = job->stride_width;
	return job->kernel_height == kernel && job->stride_height == stride && job->dilation_height == 1 &&
	       job->dilation_width == 1 &&
	       (stride == 1 ? kernel == 3 || kernel == 5 || kernel == 7 : stride == 2 && (kernel == 3 || kernel == 5));
}

/* The best one of floats for this processor; NULL: it has none that was seen to be faster than XNNPACK's. */
const struct et_depthwise_build *et_depthwise(void);
/* The same of halves. */
const struct et_depthwise_build *et_depthwise_fp16(void);
/* The best one of floats, also where it was not seen to be faster. */
const struct et_depthwise_build *et_depthwise_any(void);
/* Each one of floats that this processor can run, from 0; NULL behind the last. For tests. */
const struct et_depthwise_build *et_depthwise_at(size_t i);

extern const struct et_depthwise_build et_depthwise_base;
#ifdef __x86_64__
extern const struct et_depthwise_build et_depthwise_avx2;
extern const struct et_depthwise_build et_depthwise_avx512;
extern const struct et_depthwise_build et_depthwise_fp16_avx512;
#endif

#endif
