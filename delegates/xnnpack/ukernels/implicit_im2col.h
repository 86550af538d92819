/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of an image times a packed filter, without a copy (implicit im2col): convolutions, and the subconvolutions
 * of transposed ones.
 *
 * Nothing is allocated, nothing can fail; any thread. */
#ifndef DELEGATES_XNNPACK_UKERNELS_IMPLICIT_IM2COL_H
#define DELEGATES_XNNPACK_UKERNELS_IMPLICIT_IM2COL_H

#include "delegates/xnnpack/ukernels/gemm.h"

struct et_xnn_implicit_im2col {
	const struct et_xnn_gemm_build *build;
	/* The caller sets in (the image), out (of the first window), packed, filter_depth, n_columns and the limits;
	 * the rest is set here. */
	struct et_xnn_gemm job;
	size_t height, width, channels; /* of the image, channels last */
	size_t out_width;               /* windows in a row */
	/* [0] is down, [1] is across. Window i covers kernel pixels from i × stride + skip - pad on; those outside
	 * the image are zeros. */
	size_t kernel[2], stride[2], skip[2], pad[2];
	size_t out_step[2]; /* from one window's place in the output to the next one's, in elements */
	bool counts_zeros;  /* zeros outside the image are multiplied, too: see below */
};

/* Whether one of a filter's @n floats (as fp16, if @are_fp16) is infinite or NaN, so that zeros outside the image
 * make NaNs of it and must be multiplied. With other filters they are left out. */
bool et_xnn_implicit_im2col_count_zeros(const float *filter, size_t n, bool are_fp16);
/* Note that behind a packed filter, in that many bytes; and read the note. */
enum { ET_XNN_IMPLICIT_IM2COL_MARK = 64 /* bytes */ };
void et_xnn_implicit_im2col_mark(const float *filter, size_t n, bool are_fp16, uint8_t *mark);
bool et_xnn_implicit_im2col_is_marked(const uint8_t *mark);

/* How many rows of windows read about as much of the image as the second-level cache holds; at least 1. */
size_t et_xnn_implicit_im2col_strip(const struct et_xnn_implicit_im2col *windows);
/* All windows of rows @begin to @end. */
void et_xnn_implicit_im2col_run(const struct et_xnn_implicit_im2col *windows, size_t begin, size_t end);

#endif
