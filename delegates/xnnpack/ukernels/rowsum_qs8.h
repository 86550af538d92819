/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of columns of 8-bit numbers. */
#ifndef DELEGATES_XNNPACK_UKERNELS_ROWSUM_QS8_H
#define DELEGATES_XNNPACK_UKERNELS_ROWSUM_QS8_H

#include <stddef.h>
#include <stdint.h>

enum { ET_ROWSUM_QS8_WIDTH = 64 }; /* columns at once */

/* rowsum_qs8.c, as built for one kind of processor. */
struct et_rowsum_qs8_build {
	const char *name;
	/* Add @n_rows rows of @n_columns (at most ET_ROWSUM_QS8_WIDTH) numbers, each @pitch bytes behind the one before, to
	 * @sums[0..ET_ROWSUM_QS8_WIDTH), of which those behind @n_columns stay. Numbers are signed once they are xored with @flip: 0 for
	 * such, 0x80 for unsigned ones, which are 128 less then. Sums are modulo 2^32. */
	void (*run)(int32_t *sums, const uint8_t *rows, size_t n_rows, size_t pitch, size_t n_columns, uint8_t flip);
};

extern const struct et_rowsum_qs8_build et_rowsum_qs8_base;
#ifdef __x86_64__
extern const struct et_rowsum_qs8_build et_rowsum_qs8_avx2, et_rowsum_qs8_avx512;
#endif

/* The @i-th build that this processor runs, from the plainest to the best; NULL behind the last. */
const struct et_rowsum_qs8_build *et_rowsum_qs8_at(size_t i);
/* The best one. */
const struct et_rowsum_qs8_build *et_rowsum_qs8(void);

#endif
