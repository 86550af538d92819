/* SPDX-License-Identifier: BSD-3-Clause */
/* A transposed convolution as plain convolutions, its subconvolutions (as XNNPACK calls them).
 *
 * Along each axis, output o belongs to subconvolution (o + pad) % stride, at step (o + pad) / stride. All outputs of
 * one subconvolution take the same taps of the filter, and step s reads the input pixel s and some before it. So
 * nothing is computed for the zeros between pixels, and nothing is added up twice. */
#ifndef DELEGATES_XNNPACK_OVERRIDES_SUBCONVOLUTION_H
#define DELEGATES_XNNPACK_OVERRIDES_SUBCONVOLUTION_H

#include <stddef.h>

/* The taps of a subconvolution along one axis: first, first + step, ..., @n of them. At output step s the first tap
 * reads pixel s - @behind, each further tap reads @dilation pixels before the last one. */
struct et_xnn_subconv_taps {
	size_t first, n, step, behind, dilation;
};
struct et_xnn_subconv_taps et_xnn_subconv_taps(size_t kernel, size_t stride, size_t dilation, size_t number);

/* The steps of a subconvolution whose outputs lie in a range: @n of them from @first on; the first one is output @at,
 * the next ones lie a stride apart. */
struct et_xnn_subconv_steps {
	size_t first, n, at;
};
/* For outputs @begin to @end. */
struct et_xnn_subconv_steps et_xnn_subconv_steps(size_t stride, size_t pad, size_t number, size_t begin, size_t end);

#endif
