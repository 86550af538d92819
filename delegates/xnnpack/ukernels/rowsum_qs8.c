/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of columns of 8 bits, in vectors of 16 bits, for as many rows at once as 16 bits hold. Compiled once for each
 * instruction set (rowsum_qs8_dispatch.c chooses). */
#include "delegates/xnnpack/ukernels/rowsum_qs8.h"

#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)

enum { MOST_ROWS = 255 }; /* whose sum of numbers from -128 to 127 fits 16 bits */

static inline void add_rows(int16_t *sums, const uint8_t *row, size_t n_rows, size_t pitch, const size_t n_columns,
	const uint8_t flip)
{
	for (size_t i = 0; i < n_rows; i++, row += pitch)
		for (size_t j = 0; j < n_columns; j++)
			sums[j] = (int16_t)(sums[j] + (int8_t)(row[j] ^ flip));
}

/* The usual widths are constants, so that the loop is unrolled for them. */
static void run(int32_t *sums, const uint8_t *rows, size_t n_rows, size_t pitch, size_t n_columns, uint8_t flip)
{
	for (size_t from = 0; from < n_rows; from += MOST_ROWS) {
		int16_t partial[ET_ROWSUM_QS8_WIDTH] = { 0 };
		const uint8_t *row = rows + from * pitch;
		size_t n = n_rows - from < MOST_ROWS ? n_rows - from : MOST_ROWS;
		if (flip == 0 && n_columns == 64)
			add_rows(partial, row, n, pitch, 64, 0);
		else if (flip == 0 && n_columns == 48)
			add_rows(partial, row, n, pitch, 48, 0);
		else if (flip == 0 && n_columns == 32)
			add_rows(partial, row, n, pitch, 32, 0);
		else if (flip == 0 && n_columns == 16)
			add_rows(partial, row, n, pitch, 16, 0);
		else
			add_rows(partial, row, n, pitch, n_columns, flip);
		for (size_t j = 0; j < ET_ROWSUM_QS8_WIDTH; j++)
			sums[j] = (int32_t)((uint32_t)sums[j] + (uint32_t)partial[j]);
	}
}

const struct et_rowsum_qs8_build ET_ROWSUM_QS8_NAME = { .name = TEXT(ET_ROWSUM_QS8_NAME), .run = run };
