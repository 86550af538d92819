/* SPDX-License-Identifier: BSD-3-Clause */
/* Matrix product of rows of 8 bits and a packed filter of signed 8 bits: fully connected layers whose rows are
 * quantized at run time, and transposed convolutions of 8 bits (deconvolution_qs8.c).
 *
 * Rows are unsigned, because the processor's instructions want one unsigned operand: 128 is added to each element and
 * to the zero point. Sums are exact, and scaling follows XNNPACK's order, so with the same multiply-add results are
 * XNNPACK's to the bit. Rows are quantized as in XNNPACK (src/xnnpack/quantization.h).
 *
 * gemm_qs8.c is built once for each instruction set that gains; gemm_qs8_dispatch.c asks the processor which build
 * runs. */
#ifndef DELEGATES_XNNPACK_UKERNELS_GEMM_QS8_H
#define DELEGATES_XNNPACK_UKERNELS_GEMM_QS8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ET_GEMM_QS8_PANEL = 32,   /* columns */
	ET_GEMM_QS8_DEPTH = 64,   /* rows and filter are filled up to a multiple of it */
	ET_GEMM_QS8_SPARE = 16,   /* rows that may be read behind the last one; their contents do not matter */
	ET_GEMM_QS8_SEGMENT = 16, /* a segment of a row is filled up to a multiple of it */
};

/* An element q of a row stands for (q - zero) * scale. */
struct et_xnn_row_scale {
	float scale;
	int32_t zero; /* 0 to 255 */
};

/* The layout of rows in memory: their scales, then the rows. */
struct et_xnn_rows {
	size_t n_rows, depth;
	size_t first, stride; /* where the first row lies, and from row to row, in bytes */
	size_t n_bytes;       /* of all, with ET_GEMM_QS8_SPARE rows more */
};
/* False: more than can be addressed. */
bool et_xnn_rows(struct et_xnn_rows *ret_rows, size_t n_rows, size_t depth);

/* A row is @n_segments runs of @depth bytes, one for a whole row; the packed filter has them one behind the other. */
struct et_xnn_gemm_qs8 {
	size_t n_columns;
	size_t n_segments;
	/* a multiple of ET_GEMM_QS8_DEPTH; of ET_GEMM_QS8_SEGMENT for et_xnn_gemm_qs8_vectors, and it may be 0 */
	size_t depth;
	size_t in_stride; /* bytes */
	/* From segment to segment, in bytes; after each @n_in_line segments, if that is not 0, @line_stride more. */
	size_t segment_stride, line_stride, n_in_line;
	size_t out_stride;     /* floats */
	float min, max;        /* limits of what comes out; NaN stays */
	const uint8_t *packed; /* by et_xnn_gemm_qs8_pack */
	const struct et_xnn_row_scale *scales;
	const uint8_t *in; /* ET_GEMM_QS8_SPARE rows more than there are may be read */
	float *out;
};

struct et_xnn_gemm_qs8_build {
	const char *name;
	/* The least and the most of @n > 0 floats; NaNs may be passed over or not. */
	void (*limits)(const float *in, size_t n, float *ret_min, float *ret_max);
	/* Each float times @factor, rounded to even, plus @zero, limited to 0 to 255. */
	void (*quantize)(const float *in, size_t n, float factor, int32_t zero, uint8_t *out);
	/* The same for @n pixels of @n_channels (2 to 4): channels lie @stride floats apart at @in and side by side
	 * at @out. Each byte is XORed with @flip. */
	void (*pixels)(const float *in, size_t stride, size_t n, size_t n_channels, float factor, int32_t zero,
		uint8_t flip, uint8_t *out);
	/* Rows @begin to @end, columns @left to @right of what comes out; @left is a multiple of ET_GEMM_QS8_PANEL,
	 * @right too or the last. */
	void (*run)(const struct et_xnn_gemm_qs8 *job, size_t begin, size_t end, size_t left, size_t right);
};

/* Quantize rows @begin to @end of the dense rows at @in, to memory with the layout @rows. */
void et_xnn_rows_quantize(const struct et_xnn_gemm_qs8_build *build, const struct et_xnn_rows *rows, const float *in,
	size_t begin, size_t end, void *to);

/* How many bytes a filter of @depth rows and @n_columns takes, packed. SIZE_MAX: more than can be addressed. */
size_t et_xnn_gemm_qs8_n_packed(size_t depth, size_t n_columns);
/* @filter: [n_columns][depth]. @scales: [n_columns]. @bias: [n_columns], or NULL. */
void et_xnn_gemm_qs8_pack(const int8_t *filter, const float *scales, const float *bias, size_t depth, size_t n_columns,
	void *packed);
/* The width of the panel that begins at column @at. */
static inline size_t et_xnn_gemm_qs8_width(size_t at, size_t n_columns)
{
	return n_columns - at > 16 ? ET_GEMM_QS8_PANEL : 16;
}
/* Bytes of a panel, or of all panels: sums, scales and biases of its columns, 4 bytes each, then the filter. @depth
 * is filled up. */
static inline size_t et_xnn_gemm_qs8_panel(size_t depth, size_t width)
{
	return width * (12 + depth);
}

/* The best build for this processor; NULL: no build is known to be faster than XNNPACK here. The first call asks the
 * kernel for permission to use tiles (AMX). Any thread. */
const struct et_xnn_gemm_qs8_build *et_xnn_gemm_qs8(void);
/* The best build for rows of several segments; it reads no spare rows. NULL likewise. */
const struct et_xnn_gemm_qs8_build *et_xnn_gemm_qs8_vectors(void);
/* For tests: the @i-th build that this processor runs; NULL behind the last. */
const struct et_xnn_gemm_qs8_build *et_xnn_gemm_qs8_at(size_t i);
/* For tests: @build is the best one from now on; NULL: as before. */
void et_xnn_gemm_qs8_choose(const struct et_xnn_gemm_qs8_build *build);

extern const struct et_xnn_gemm_qs8_build et_xnn_gemm_qs8_base;
#ifdef __x86_64__
extern const struct et_xnn_gemm_qs8_build et_xnn_gemm_qs8_vnni;
extern const struct et_xnn_gemm_qs8_build et_xnn_gemm_qs8_amx;
#endif

#endif
