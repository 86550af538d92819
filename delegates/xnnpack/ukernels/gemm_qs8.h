/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of rows that are quantized at run time and a filter of 8-bit integers that was packed: fully connected layers of
 * dynamically quantized networks.
 *
 * Rows are made unsigned, as the processor's instructions want one side: what stands for zero is counted up by 128 like
 * all else. Sums are exact, and what follows is done in XNNPACK's order, so with the same multiply-add results are XNNPACK's to
 * the bit. How rows are quantized is XNNPACK's (src/xnnpack/quantization.h), too.
 *
 * gemm_qs8.c is built once for each instruction set that is worth it; which one runs is decided by asking the processor. */
#ifndef DELEGATES_XNNPACK_UKERNELS_GEMM_QS8_H
#define DELEGATES_XNNPACK_UKERNELS_GEMM_QS8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ET_GEMM_QS8_PANEL = 32,   /* columns */
	ET_GEMM_QS8_DEPTH = 64,   /* rows and filter are filled up to a multiple of that */
	ET_GEMM_QS8_SPARE = 16,   /* rows that may be read behind the last, whatever is there */
	ET_GEMM_QS8_SEGMENT = 16, /* a segment of a row is filled up to a multiple of that */
};

/* An element q of a row stands for (q - zero) * scale. */
struct et_xnn_row_scale {
	float scale;
	int32_t zero; /* 0 to 255 */
};

/* Memory of rows: their scales, then they themselves. */
struct et_xnn_rows {
	size_t n_rows, depth;
	size_t first, stride; /* where the first row lies and how far it is to the next, in bytes */
	size_t n_bytes;       /* with ET_GEMM_QS8_SPARE rows more */
};
/* False: more than there is memory for. */
bool et_xnn_rows(struct et_xnn_rows *ret_rows, size_t n_rows, size_t depth);

/* A row is @n_segments runs of @depth bytes, of which the packed matrix has one behind the other: one, for who has whole rows. */
struct et_xnn_gemm_qs8 {
	size_t n_columns;
	size_t n_segments;
	size_t depth; /* a multiple of ET_GEMM_QS8_DEPTH; of ET_GEMM_QS8_SEGMENT for et_xnn_gemm_qs8_vectors, and it may be 0 */
	size_t in_stride; /* bytes */
	/* From segment to segment, in bytes; after each @n_in_line of them, if that is not 0, @line_stride more. */
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
	/* The least and the most of @n > 0 floats; of those that are NaN any may be passed over. */
	void (*limits)(const float *in, size_t n, float *ret_min, float *ret_max);
	/* Each times @factor, rounded to even, and @zero added; limited to what a byte holds. */
	void (*quantize)(const float *in, size_t n, float factor, int32_t zero, uint8_t *out);
	/* The same with @n pixels of @n_channels (2 to 4), which lie @stride floats apart at @in and side by side at @out, each byte
	 * XORed with @flip. */
	void (*pixels)(const float *in, size_t stride, size_t n, size_t n_channels, float factor, int32_t zero,
		uint8_t flip, uint8_t *out);
	/* Rows @begin to @end, columns @left to @right of what comes out; @left is a multiple of ET_GEMM_QS8_PANEL, @right too or
	 * the last. */
	void (*run)(const struct et_xnn_gemm_qs8 *job, size_t begin, size_t end, size_t left, size_t right);
};

/* Rows @begin to @end of those that lie one behind the other at @in, to memory of et_xnn_rows. */
void et_xnn_rows_quantize(const struct et_xnn_gemm_qs8_build *build, const struct et_xnn_rows *rows, const float *in,
	size_t begin, size_t end, void *to);

/* @depth deep, @n_columns wide: how many bytes packed. SIZE_MAX if that is more than there is memory for. */
size_t et_xnn_gemm_qs8_n_packed(size_t depth, size_t n_columns);
/* @filter: [n_columns][depth]. @scales: [n_columns]. @bias: [n_columns], or NULL. */
void et_xnn_gemm_qs8_pack(const int8_t *filter, const float *scales, const float *bias, size_t depth, size_t n_columns,
	void *packed);
/* How wide the panel is that begins at column @at. */
static inline size_t et_xnn_gemm_qs8_width(size_t at, size_t n_columns)
{
	return n_columns - at > 16 ? ET_GEMM_QS8_PANEL : 16;
}
/* Bytes of a panel, or of all: its columns' sums, scales and biases, 4 bytes each, then the filter. @depth is filled up. */
static inline size_t et_xnn_gemm_qs8_panel(size_t depth, size_t width)
{
	return width * (12 + depth);
}

/* The best one for this processor; NULL: it has none that was seen to be faster than XNNPACK's. The first call asks the system
 * for what the best one needs. Any thread. */
const struct et_xnn_gemm_qs8_build *et_xnn_gemm_qs8(void);
/* The best one for rows of several segments, which reads no spare rows; NULL likewise. */
const struct et_xnn_gemm_qs8_build *et_xnn_gemm_qs8_vectors(void);
/* Each one that this processor can run, from 0; NULL behind the last. For tests. */
const struct et_xnn_gemm_qs8_build *et_xnn_gemm_qs8_at(size_t i);
/* For tests: @build is the best from now on; NULL: what was. */
void et_xnn_gemm_qs8_choose(const struct et_xnn_gemm_qs8_build *build);

extern const struct et_xnn_gemm_qs8_build et_xnn_gemm_qs8_base;
#ifdef __x86_64__
extern const struct et_xnn_gemm_qs8_build et_xnn_gemm_qs8_vnni;
extern const struct et_xnn_gemm_qs8_build et_xnn_gemm_qs8_amx;
#endif

#endif
