/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of a matrix that is read where it lies and one that was packed: convolutions and fully connected layers
 * of floats, or of half floats (IEEE 754 binary16).
 *
 * gemm.c is built once for each instruction set that is worth it; which one runs is decided by asking the
 * processor. Each sum begins with the bias and takes its products in the order in which they lie, so with the same
 * multiply-add results are XNNPACK's to the bit. Sums of halves are halves, too, as those of
 * later XNNPACKs on processors with AVX512-FP16 are. */
#ifndef DELEGATES_XNNPACK_UKERNELS_GEMM_H
#define DELEGATES_XNNPACK_UKERNELS_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Elements are floats or halves, as the build says. A row of the left matrix is @n_segments runs of @depth of them: one for a fully connected layer or a pointwise convolution, one
 * for each row of the filter of others. */
struct et_xnn_gemm {
	size_t n_columns;
	size_t n_segments, depth;
	size_t in_stride; /* from row to row, in elements */
	/* From segment to segment; after each @n_in_line of them, if that is not 0, @line_stride more. */
	ptrdiff_t segment_stride, line_stride;
	size_t n_in_line;
	size_t out_stride;
	/* Of the packed filter: how deep it is; where in it the first segment begins; how far it is to the next one. */
	size_t filter_depth, filter_first, filter_segment;
	/* 0; or the filter is not packed but lies row by row, so many elements apart, and there is no bias: then columns are a multiple
	 * of a quarter of a panel. */
	size_t filter_pitch;
	float min, max;        /* limits of what comes out; NaN stays */
	const uint8_t *packed; /* by et_xnn_gemm_pack, or the build's pack */
	const uint8_t *in;
	uint8_t *out;
};

/* A filter, and a bias, [n_columns] or NULL, of which each is floats or halves. */
struct et_xnn_gemm_filter {
	const void *filter, *bias;
	bool filter_is_fp16, bias_is_fp16;
	size_t depth, n_columns;
	size_t of_column, of_row; /* from one column's weights to the next one's, from weight to weight */
};

struct et_xnn_gemm_build {
	const char *name;
	size_t n_bytes; /* of an element: floats or halves */
	size_t panel;   /* columns */
	/* Rows @begin to @end, columns @left to @right of what comes out; @left is a multiple of the panel, @right too or
	 * the last. Reads and writes nothing outside the matrices. */
	void (*run)(const struct et_xnn_gemm *job, size_t begin, size_t end, size_t left, size_t right);
	/* To halves; NULL: it is one for floats. */
	void (*pack)(const struct et_xnn_gemm_filter *filter, void *packed);
};

enum { ET_GEMM_PANEL = 32, ET_GEMM_FP16_PANEL = 64 };

/* @depth deep, @n_columns wide, in panels of @panel: how many elements packed. SIZE_MAX if that is more than there is memory
 * for. */
size_t et_xnn_gemm_n_packed(size_t depth, size_t n_columns, size_t panel);
/* @filter: [n_columns][depth]. @bias: [n_columns], or NULL. */
void et_xnn_gemm_pack(const float *filter, const float *bias, size_t depth, size_t n_columns, float *packed);
/* For filters whose rows do not lie in one piece: a part of what is packed, until all of it was. Each panel has 1 + @depth
 * rows: its columns' biases, then their weights in order. */
struct et_xnn_gemm_part {
	size_t row, n_rows; /* of each panel */
	size_t column, n;   /* of the packed matrix; behind the last one come the zeros that fill its panel */
	const float *from;  /* the first of these columns, @n_rows floats; NULL: zeros */
	size_t from_stride; /* to the next one */
};
void et_xnn_gemm_pack_part(const struct et_xnn_gemm_part *partition, size_t depth, size_t n_columns, float *packed);
/* How wide the panel is that begins at column @at: quarters of @panel. */
static inline size_t et_xnn_gemm_width(size_t at, size_t n_columns, size_t panel)
{
	size_t n = n_columns - at, partition = panel / 4;
	return n > 3 * partition   ? panel
	       : n > 2 * partition ? 3 * partition
	       : n > partition     ? 2 * partition
				   : partition;
}

/* The best one of floats for this processor; NULL: it has none that was seen to be faster than XNNPACK's. */
const struct et_xnn_gemm_build *et_xnn_gemm(void);
/* That of halves; NULL: this processor computes no halves. */
const struct et_xnn_gemm_build *et_xnn_gemm_fp16(void);
/* The best one of floats, also where it was not seen to be faster. */
const struct et_xnn_gemm_build *et_xnn_gemm_any(void);
/* Whether XNNPACK would do so few columns by kernels for two of them, which it has for SSE alone: those make the upper limit of
 * a NaN, and 0 of an infinity times a weight of 0. */
bool et_xnn_gemm_is_narrow(size_t n_columns);
/* Each one of floats that this processor can run, from 0; NULL behind the last. For tests. */
const struct et_xnn_gemm_build *et_xnn_gemm_at(size_t i);
/* For tests: @build, of floats, is the best from now on; NULL: what was. */
void et_xnn_gemm_choose(const struct et_xnn_gemm_build *build);

extern const struct et_xnn_gemm_build et_xnn_gemm_base;
#ifdef __x86_64__
extern const struct et_xnn_gemm_build et_xnn_gemm_avx2;
extern const struct et_xnn_gemm_build et_xnn_gemm_avx512;
extern const struct et_xnn_gemm_build et_xnn_gemm_avx512fp16;
#endif

#endif
