/* SPDX-License-Identifier: BSD-3-Clause */
/* Compare an output with the expected one. */
#ifndef CLIENTS_INFERCTL_COMPARE_H
#define CLIENTS_INFERCTL_COMPARE_H

#include "clients/inferctl/value.h"

/* The bounds for an output. A bound that is not set is negative; all bounds that are set must hold. */
struct ctl_tolerance {
	double atol, rtol; /* |got - expected| <= atol + rtol * |expected|, for floats; integers are exact */
	double cosine;     /* at least */
	bool argmax;       /* the largest element must be at the same index */
};
/* No bound is set: the defaults of the datatype hold (fp32, fp64: rtol 1e-3, atol 1e-4; fp16, bf16: 1e-2, 1e-3). */
#define CTL_TOLERANCE_DEFAULT ((struct ctl_tolerance){ .atol = -1, .rtol = -1, .cosine = -1 })

struct ctl_difference {
	bool is_equal;
	char what[CTL_VALUE_TEXT * 2 + 32]; /* "FP32 [2], expected FP32 [3]"; empty: an element differs, see below */
	size_t n_elements, n_beyond;        /* all elements, and those beyond the tolerance */
	size_t worst;                       /* row-major index of the element that is furthest beyond it */
	struct ctl_number got, expected;    /* of the worst element */
	double error, allowed;              /* of the worst element */
	double max_error;                   /* over all elements; infinity if one is NaN and the other is not */
};

/* Compare @got with @expected. An expected NONE is equal to everything. */
void ctl_compare(struct ctl_difference *ret, const struct ctl_value *got, const struct ctl_value *expected,
	const struct ctl_tolerance *tolerance);

#endif
