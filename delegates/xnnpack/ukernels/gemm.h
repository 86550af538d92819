/* SPDX-License-Identifier: BSD-3-Clause */
/* Matrix product (GEMM) of a left matrix that is read where it lies and a packed right one, fp32 or fp16:
 * convolutions and fully connected layers.
 *
 * gemm.c is built once for each instruction set that gains; gemm_dispatch.c asks the processor which build runs. Each
 * sum begins with the bias and takes its products in the order in which they lie, so with the same multiply-add
 * results are XNNPACK's to the bit. Sums of fp16 are rounded to fp16 after each product, like those of the original's
 * XNNPACK on processors with AVX512-FP16. */
#ifndef DELEGATES_XNNPACK_UKERNELS_GEMM_H
#define DELEGATES_XNNPACK_UKERNELS_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Elements are fp32 or fp16, as the build says. A row of the left matrix is @n_segments runs of @depth elements: one
 * for a fully connected layer or a pointwise convolution, one for each row of the filter for others. */
struct et_xnn_gemm {
	size_t n_columns;
	size_t n_segments, depth;
	size_t in_stride; /* from row to row, in elements */
	/* From segment to segment; after each @n_in_line segments, if that is not 0, @line_stride more. */
	ptrdiff_t segment_stride, line_stride;
	size_t n_in_line;
	size_t out_stride;
	/* In the packed filter: its depth, where the first segment begins, and how far it is to the next segment. */
	size_t filter_depth, filter_first, filter_segment;
	/* 0; or the filter is not packed: its rows lie so many elements apart, there is no bias, and columns are a
	 * multiple of a quarter of a panel. */
	size_t filter_pitch;
	float min, max;        /* limits of what comes out; NaN stays */
	const uint8_t *packed; /* by et_xnn_gemm_pack, or the build's pack */
	const uint8_t *in;
	uint8_t *out;
};

/* A filter, and a bias of [n_columns] or NULL, each of fp32 or fp16. */
struct et_xnn_gemm_filter {
	const void *filter, *bias;
	bool filter_is_fp16, bias_is_fp16;
	size_t depth, n_columns;
	size_t of_column, of_row; /* strides: from column to column, and from row to row of a column */
};

struct et_xnn_gemm_build {
	const char *name;
	size_t n_bytes; /* of an element: floats or halves */
	size_t panel;   /* columns */
	/* Rows @begin to @end, columns @left to @right of what comes out; @left is a multiple of the panel, @right
	 * too or the last. Reads and writes nothing outside the matrices. */
	void (*run)(const struct et_xnn_gemm *job, size_t begin, size_t end, size_t left, size_t right);
	/* Pack a filter as fp16; NULL: the build is for fp32. */
	void (*pack)(const struct et_xnn_gemm_filter *filter, void *packed);
};

enum { ET_GEMM_PANEL = 32, ET_GEMM_FP16_PANEL = 64 };

/* How many elements a filter of @depth rows and @n_columns takes, packed in panels of @panel columns. SIZE_MAX: more
 * than can be addressed. */
size_t et_xnn_gemm_n_packed(size_t depth, size_t n_columns, size_t panel);
/* @filter: [n_columns][depth]. @bias: [n_columns], or NULL. */
void et_xnn_gemm_pack(const float *filter, const float *bias, size_t depth, size_t n_columns, float *packed);
/* Pack a part of a filter whose rows do not lie in one piece; the caller goes on until all parts are packed. Each
 * panel has 1 + @depth rows: its columns' biases, then their weights in order. */
struct et_xnn_gemm_part {
	size_t row, n_rows; /* of each panel */
	size_t column, n;   /* of the packed matrix; with the last column come the zeros that fill its panel */
	const float *from;  /* the first column, @n_rows floats; NULL: zeros */
	size_t from_stride; /* to the next column */
};
void et_xnn_gemm_pack_part(const struct et_xnn_gemm_part *part, size_t depth, size_t n_columns, float *packed);
/* The width of the panel that begins at column @at: one to four quarters of @panel. */
static inline size_t et_xnn_gemm_width(size_t at, size_t n_columns, size_t panel)
{
	size_t n = n_columns - at, quarter = panel / 4;
	return n > 3 * quarter ? panel : n > 2 * quarter ? 3 * quarter : n > quarter ? 2 * quarter : quarter;
}

/* The best fp32 build for this processor; NULL: no build is known to be faster than XNNPACK here. */
const struct et_xnn_gemm_build *et_xnn_gemm(void);
#ifdef __x86_64__
/* The build for AVX2 was measured to be faster than XNNPACK here (gemm_choice.c). */
void et_xnn_gemm_prefer_avx2(void);
#endif
/* The fp16 build; NULL: this processor does not compute fp16. */
const struct et_xnn_gemm_build *et_xnn_gemm_fp16(void);
/* The best fp32 build, also where it is not known to be faster. */
const struct et_xnn_gemm_build *et_xnn_gemm_any(void);
/* Whether XNNPACK would compute so few columns by its kernels for two columns, which are SSE only: those make the
 * upper limit of a NaN, and 0 of infinity times a weight of 0. */
bool et_xnn_gemm_is_narrow(size_t n_columns);
/* For tests: the @i-th fp32 build that this processor runs; NULL behind the last. */
const struct et_xnn_gemm_build *et_xnn_gemm_at(size_t i);
/* For tests: @build, of fp32, is the best one from now on; NULL: as before. */
void et_xnn_gemm_choose(const struct et_xnn_gemm_build *build);

extern const struct et_xnn_gemm_build et_xnn_gemm_base;
#ifdef __x86_64__
extern const struct et_xnn_gemm_build et_xnn_gemm_avx2;
extern const struct et_xnn_gemm_build et_xnn_gemm_avx512;
extern const struct et_xnn_gemm_build et_xnn_gemm_avx512fp16;
#endif

#endif
