/* SPDX-License-Identifier: BSD-3-Clause */
/* Judging an output against what was expected. */
#ifndef CLIENTS_INFERCTL_COMPARE_H
#define CLIENTS_INFERCTL_COMPARE_H

#include "clients/inferctl/value.h"

/* What holds for one output. Bounds that are not set are negative; where several are set, all must hold. */
struct ctl_tolerance {
	double atol, rtol; /* |got - expected| <= atol + rtol * |expected|, for floats; integers are exact */
	double cosine;     /* at least */
	bool argmax;       /* the largest element lies at the same place */
};
/* Nothing set: the defaults of the type hold (fp32, fp64: rtol 1e-3, atol 1e-4; fp16, bf16: 1e-2, 1e-3). */
#define CTL_TOLERANCE_DEFAULT ((struct ctl_tolerance){ .atol = -1, .rtol = -1, .cosine = -1 })

struct ctl_difference {
	bool is_equal;
	char what[CTL_VALUE_TEXT * 2 + 32]; /* "FP32 [2], expected FP32 [3]"; empty: an element, as follows */
	size_t n_elements, n_beyond;        /* how many are beyond the tolerance */
	size_t worst;                       /* the one furthest beyond, row-major */
	struct ctl_number got, expected;    /* there */
	double error, allowed;              /* there */
	double max_error;                   /* over all elements; NaN where a NaN met a number */
};

/* Judge @got. An expected NONE is nothing to judge: equal. */
void ctl_compare(struct ctl_difference *ret, const struct ctl_value *got, const struct ctl_value *expected,
	const struct ctl_tolerance *tolerance);

#endif
