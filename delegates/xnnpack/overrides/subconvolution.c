/* SPDX-License-Identifier: BSD-3-Clause */
/* Which taps and which outputs a subconvolution has.
 *
 * Shared by deconvolution.c, deconvolution_qs8.c and conv_im2col.c. Sizes were checked before (shape.c), so nothing
 * overflows. How results are computed and where filters are packed is each override's own. */
#include "delegates/xnnpack/overrides/subconvolution.h"

struct et_xnn_subconv_taps et_xnn_subconv_taps(size_t kernel, size_t stride, size_t dilation, size_t number)
{
	size_t first = 0, step = 1;
	while (first < kernel && first < stride && first * dilation % stride != number)
		first++;
	while (step * dilation % stride != 0)
		step++;
	if (first == kernel || first == stride)
		return (struct et_xnn_subconv_taps){ .step = step };
	return (struct et_xnn_subconv_taps){ .first = first,
		.n = (kernel - first + step - 1) / step,
		.step = step,
		.behind = (first * dilation - number) / stride,
		.dilation = step * dilation / stride };
}

/* The first step whose output is not before @output. */
static size_t first_step(size_t stride, size_t pad, size_t number, size_t output)
{
	return output + pad > number ? (output + pad - number + stride - 1) / stride : 0;
}

struct et_xnn_subconv_steps et_xnn_subconv_steps(size_t stride, size_t pad, size_t number, size_t begin, size_t end)
{
	size_t first = first_step(stride, pad, number, begin), last = first_step(stride, pad, number, end);
	return (struct et_xnn_subconv_steps){
		.first = first, .n = last > first ? last - first : 0, .at = first * stride + number - pad
	};
}
