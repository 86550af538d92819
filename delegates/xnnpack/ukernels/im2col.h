/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of an image times a packed filter, by copying (im2col): with groups, dilation, transposed, and with the
 * zeros outside the image multiplied like pixels.
 *
 * Nothing is allocated, nothing can fail; any thread. */
#ifndef DELEGATES_XNNPACK_UKERNELS_IM2COL_H
#define DELEGATES_XNNPACK_UKERNELS_IM2COL_H

#include "delegates/xnnpack/ukernels/gemm.h"

struct et_xnn_im2col {
	const struct et_xnn_gemm_build *build;
	/* The caller sets in (the image), out (of the first window), packed and n_columns (of the first group), and
	 * the limits; the rest is set here. */
	struct et_xnn_gemm job;
	size_t groups, packed_step; /* from one group's packed filter to the next one's, in elements */
	size_t height, width;       /* of the image, channels last */
	size_t channels;            /* of a group */
	size_t out_width;           /* windows in a row */
	/* that were packed: all of a window; if it has none, those of the filter whose bias is taken */
	size_t filter_taps;
	/* [0] is down, [1] is across. Window i begins at i × stride + first. Its taps lie a step apart, which may be
	 * negative. The image's pixels lie a spread apart; everything else is zeros. */
	size_t kernel[2], stride[2], spread[2];
	ptrdiff_t first[2], step[2];
	size_t out_step[2]; /* from one window's place in the output to the next one's, in elements */
};

/* Whether a window of so many elements fits the buffer. */
bool et_xnn_im2col_fit(size_t n_taps, size_t channels, size_t n_bytes);
/* All windows of rows @begin to @end. */
void et_xnn_im2col_run(const struct et_xnn_im2col *im2col, size_t begin, size_t end);

#endif
