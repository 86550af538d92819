/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of a picture times a packed filter, of any form: in groups, with gaps between taps, transposed ones, and where what lies
 * outside of the picture is multiplied like the rest of it.
 *
 * Nothing is allocated, nothing can fail; any thread. */
#ifndef DELEGATES_XNNPACK_UKERNELS_IM2COL_H
#define DELEGATES_XNNPACK_UKERNELS_IM2COL_H

#include "delegates/xnnpack/ukernels/gemm.h"

struct et_xnn_im2col {
	const struct et_xnn_gemm_build *build;
	/* Where the picture begins, the place of the first window in the output, the packed filter of the first group, how wide it is,
	 * and the limits; the rest is filled in here. */
	struct et_xnn_gemm job;
	size_t groups, packed_step; /* from one group's packed filter to the next one's, in elements */
	size_t height, width;       /* of the picture, channels last */
	size_t channels;            /* of a group */
	size_t out_width;           /* windows in a row */
	size_t filter_taps; /* that were packed: all of a window, unless it has none, and the bias alone counts */
	/* Down, across. Window i begins at i × stride + first; its taps lie a step apart, which may lead backwards. The
	 * picture's pixels lie a spread apart, and all that is none of them is zeros. */
	size_t kernel[2], stride[2], spread[2];
	ptrdiff_t first[2], step[2];
	size_t out_step[2]; /* from one window's place in the output to the next one's, in elements */
};

/* Whether windows of so many elements can be done here. */
bool et_xnn_im2col_fit(size_t n_taps, size_t channels, size_t n_bytes);
/* All windows of rows @begin to @end. */
void et_xnn_im2col_run(const struct et_xnn_im2col *patches, size_t begin, size_t end);

#endif
