/* SPDX-License-Identifier: BSD-3-Clause */
/* Softmax of short rows of half floats. */
#ifndef DELEGATES_XNNPACK_UKERNELS_SOFTMAX_FP16_H
#define DELEGATES_XNNPACK_UKERNELS_SOFTMAX_FP16_H

#include <stddef.h>
#include <stdint.h>

enum { ET_SOFTMAX_FP16_MOST = 256 }; /* numbers of a row that is short */

/* softmax_fp16.c, as built for one kind of processor. */
struct et_softmax_fp16_build {
	const char *name;
	/* Of @n_rows rows of @n numbers each, one or more, one behind the other, make those of @out, which may be @in. Nothing
	 * beside them is read or written. To the bit what the original's XNNPACK (92a7ad5) gives; a row that holds a NaN or nothing finite
	 * is NaN. */
	void (*run)(uint16_t *out, const uint16_t *in, size_t n_rows, size_t n);
};

#ifdef __x86_64__
extern const struct et_softmax_fp16_build et_softmax_fp16_avx512;
#endif

/* The build that this processor runs; NULL: there is none. */
const struct et_softmax_fp16_build *et_softmax_fp16(void);

#endif
