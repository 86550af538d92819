/* SPDX-License-Identifier: BSD-3-Clause */
/* Depthwise convolution of signed 8 bits, NHWC: 3 × 3 and 5 × 5, stride 1 and 2.
 *
 * Sums are exact. A sum is multiplied with its channel's scale and rounded, ties to even, as in XNNPACK, so results are
 * XNNPACK's to the bit. depthwise_qs8.c is built for AVX512-VNNI alone; depthwise_qs8_dispatch.c asks the processor. */
#ifndef DELEGATES_XNNPACK_UKERNELS_DEPTHWISE_QS8_H
#define DELEGATES_XNNPACK_UKERNELS_DEPTHWISE_QS8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct et_depthwise_qs8 {
	size_t channels;
	size_t height, width, out_height, out_width;
	size_t kernel, stride; /* both down and across */
	ptrdiff_t top, left;   /* pixels around the image; those below and to the right follow from the sizes */
	int8_t zero;           /* the input's zero point: the value of pixels around the image */
	int8_t out_zero;
	float min, max;        /* limits of outputs, less their zero point: integers */
	const uint8_t *packed; /* by et_depthwise_qs8_pack */
	const int8_t *in;      /* [n][height][width][channels] */
	int8_t *out;           /* [n][out_height][out_width][channels] */
};

struct et_depthwise_qs8_build {
	const char *name;
	/* Rows @begin to @end of the output, counted through all images. Reads and writes nothing outside the
	 * arrays. */
	void (*run)(const struct et_depthwise_qs8 *job, size_t begin, size_t end);
};

/* The filter, and what its packing depends on besides. */
struct et_depthwise_qs8_filter {
	size_t channels, kernel;
	int8_t zero;         /* the input's zero point */
	const int8_t *taps;  /* [kernel][kernel][channels] */
	const int32_t *bias; /* [channels], or NULL */
	/* [channels], or NULL: @scale for all; a sum stands for so many times in_scale */
	const float *scales;
	float scale, in_scale, out_scale;
};

/* Bytes that a packed filter takes; SIZE_MAX: more than can be addressed. */
size_t et_depthwise_qs8_n_packed(size_t channels, size_t kernel);
void et_depthwise_qs8_pack(const struct et_depthwise_qs8_filter *filter, void *packed);

/* The build for this processor; NULL: there is none. */
const struct et_depthwise_qs8_build *et_depthwise_qs8(void);

#ifdef __x86_64__
extern const struct et_depthwise_qs8_build et_depthwise_qs8_vnni;
#endif

/* --- for depthwise_qs8.c and the packing: the layout of a packed filter ---------------------------------------- */

/* A packed filter is one block for each BLOCK channels: first, for each channel, its bias less what the zero point
 * adds to its sum; then the scales; then the taps. Taps of one column are in fours, from the top to the bottom, filled
 * up with zeros: a word for each channel. Words, biases and scales of a block are in four vectors. Word 4 * i + j of
 * vector v belongs to channel 16 * i + 4 * v + j, because so the bytes of four rows are interleaved. */
enum {
	ET_DEPTHWISE_QS8_BLOCK = 64,
	ET_DEPTHWISE_QS8_TAPS = 2 * 4 * ET_DEPTHWISE_QS8_BLOCK, /* where taps begin */
	ET_DEPTHWISE_QS8_MOST = 5,                              /* the largest kernel */
};

/* The number of fours that a column of taps takes. */
static inline size_t et_depthwise_qs8_fours(size_t kernel)
{
	return (kernel + 3) / 4;
}

/* The size of a block. */
static inline size_t et_depthwise_qs8_block(size_t kernel)
{
	return ET_DEPTHWISE_QS8_TAPS + kernel * et_depthwise_qs8_fours(kernel) * 4 * ET_DEPTHWISE_QS8_BLOCK;
}

#endif
