/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of columns of 8 bits (mean.c). */
#ifndef DELEGATES_XNNPACK_UKERNELS_ROWSUM_QS8_H
#define DELEGATES_XNNPACK_UKERNELS_ROWSUM_QS8_H

#include <stddef.h>
#include <stdint.h>

enum { ET_ROWSUM_QS8_WIDTH = 64 }; /* columns at once */

/* A build of rowsum_qs8.c. */
struct et_rowsum_qs8_build {
	const char *name;
	/* Add @n_rows rows, @pitch bytes apart, of @n_columns numbers (at most ET_ROWSUM_QS8_WIDTH) to @sums; sums
	 * behind @n_columns stay as they are. Each byte is XORed with @flip and taken as signed: 0 for signed bytes,
	 * 0x80 for unsigned ones, which become 128 less. Sums are modulo 2^32. */
	void (*run)(int32_t *sums, const uint8_t *rows, size_t n_rows, size_t pitch, size_t n_columns, uint8_t flip);
};

extern const struct et_rowsum_qs8_build et_rowsum_qs8_base;
#ifdef __x86_64__
extern const struct et_rowsum_qs8_build et_rowsum_qs8_avx2, et_rowsum_qs8_avx512;
#endif

/* The @i-th build that this processor runs, from the plainest to the best; NULL behind the last. */
const struct et_rowsum_qs8_build *et_rowsum_qs8_at(size_t i);
/* The best build for this processor. */
const struct et_rowsum_qs8_build *et_rowsum_qs8(void);

#endif
