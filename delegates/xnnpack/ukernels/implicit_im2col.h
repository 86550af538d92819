/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of a picture times a packed filter: what convolutions and transposed ones are made of.
 *
 * Nothing is allocated, nothing can fail; any thread. */
#ifndef DELEGATES_XNNPACK_UKERNELS_IMPLICIT_IM2COL_H
#define DELEGATES_XNNPACK_UKERNELS_IMPLICIT_IM2COL_H

#include "delegates/xnnpack/ukernels/gemm.h"

struct et_xnn_implicit_im2col {
	const struct et_xnn_gemm_build *build;
	/* Where the picture begins, the place of the first window in the output, the packed filter, how deep and wide that is,
	 * and the limits; the rest is filled in here. */
	struct et_xnn_gemm job;
	size_t height, width, channels; /* of the picture, channels last */
	size_t out_width;               /* windows in a row */
	/* Down, across. Window i covers kernel pixels from i × stride + skip - pad; those outside of the picture are
	 * zeros. */
	size_t kernel[2], stride[2], skip[2], pad[2];
	size_t out_step[2]; /* from one window's place in the output to the next one's, in elements */
	bool counts_zeros;  /* those outside are multiplied, too (below) */
};

/* Whether a filter of @n floats, which become halves if @are_fp16, has weights that are infinite or no numbers, of which a zero
 * outside of the picture makes a NaN as well. Others are not multiplied with those. */
bool et_xnn_implicit_im2col_count_zeros(const float *filter, size_t n, bool are_fp16);
/* That is noted behind a packed filter. */
enum { ET_XNN_IMPLICIT_IM2COL_MARK = 64 /* bytes */ };
void et_xnn_implicit_im2col_mark(const float *filter, size_t n, bool are_fp16, uint8_t *mark);
bool et_xnn_implicit_im2col_is_marked(const uint8_t *mark);

/* How many rows of windows it takes to go over about as much of the picture as the second cache holds: at least 1. */
size_t et_xnn_implicit_im2col_strip(const struct et_xnn_implicit_im2col *windows);
/* All windows of rows @begin to @end. */
void et_xnn_implicit_im2col_run(const struct et_xnn_implicit_im2col *windows, size_t begin, size_t end);

#endif
