/* SPDX-License-Identifier: BSD-3-Clause */
/* Compare outputs with expected ones.
 *
 * Floats: |got - expected| <= atol + rtol * |expected|; NaN equals NaN; infinities must have the same sign. Integers
 * and booleans are compared exactly, whatever the tolerance is, and without a conversion to double, which would
 * round int64. The element reported is the one whose error exceeds its bound by most. NaN instead of a number, or a
 * number instead of NaN, exceeds every bound.
 *
 * A scalar output may be expected as a tensor without dimensions, because ExecuTorch's bundler writes only tensors.
 *
 * A cosine or an argmax bound replaces the comparison of elements. A NaN anywhere fails a cosine bound. */
#include "clients/inferctl/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void bounds_for(const struct ctl_tolerance *tolerance, const struct ctl_value *expected, double *ret_atol,
	double *ret_rtol)
{
	bool is_half = expected->tag == ET_TAG_TENSOR &&
		       (expected->type == ET_FLOAT16 || expected->type == ET_BFLOAT16);
	*ret_atol = tolerance->atol >= 0 ? tolerance->atol : is_half ? 1e-3 : 1e-4;
	*ret_rtol = tolerance->rtol >= 0 ? tolerance->rtol : is_half ? 1e-2 : 1e-3;
}

/* Whether @tensor is how ExecuTorch's bundler writes a scalar of kind @tag: no dimensions, and PyTorch's datatype
 * for it. */
static bool is_number(const struct ctl_value *tensor, uint8_t tag)
{
	if (tensor->tag != ET_TAG_TENSOR || tensor->n_dims)
		return false;
	return (tag == ET_TAG_INT && tensor->type == ET_INT64) || (tag == ET_TAG_BOOL && tensor->type == ET_BOOL) ||
	       (tag == ET_TAG_DOUBLE && (tensor->type == ET_FLOAT32 || tensor->type == ET_FLOAT64));
}

static bool is_same_kind(const struct ctl_value *got, const struct ctl_value *expected)
{
	if (got->tag != expected->tag)
		return is_number(expected, got->tag);
	return got->tag != ET_TAG_TENSOR ||
	       (got->type == expected->type && got->n_dims == expected->n_dims &&
		       memcmp(got->sizes, expected->sizes, got->n_dims * sizeof(got->sizes[0])) == 0);
}

/* The error of one element, and its bound in *ret_allowed. An infinite error is beyond every bound. */
static double element_error(struct ctl_number got, struct ctl_number expected, double atol, double rtol,
	double *ret_allowed)
{
	*ret_allowed = 0;
	if (got.is_integer && expected.is_integer) {
		if (got.i == expected.i)
			return 0;
		/* different integers beyond 2^53 may round to the same double */
		return fmax(fabs(got.d - expected.d), 1);
	}
	if (isnan(got.d) && isnan(expected.d))
		return 0;
	if (isnan(got.d) || isnan(expected.d))
		return INFINITY;
	if (isinf(got.d) || isinf(expected.d))
		return got.d == expected.d ? 0 : INFINITY;
	*ret_allowed = atol + rtol * fabs(expected.d);
	return fabs(got.d - expected.d);
}

static void compare_elements(struct ctl_difference *ret, const struct ctl_value *got, const struct ctl_value *expected,
	double atol, double rtol)
{
	double worst_excess = -1;
	for (size_t i = 0; i < ret->n_elements; i++) {
		struct ctl_number a = ctl_value_at(got, i), b = ctl_value_at(expected, i);
		double allowed, error = element_error(a, b, atol, rtol, &allowed);
		bool is_beyond = !(error <= allowed);
		double excess = is_beyond ? error - allowed : 0;

		if (error > ret->max_error)
			ret->max_error = error;
		ret->n_beyond += is_beyond;
		if (excess > worst_excess) {
			worst_excess = excess;
			ret->worst = i;
			ret->got = a;
			ret->expected = b;
			ret->error = error;
			ret->allowed = allowed;
		}
	}
	ret->is_equal = ret->n_beyond == 0;
}

static void compare_cosine(struct ctl_difference *ret, const struct ctl_value *got, const struct ctl_value *expected,
	double at_least)
{
	double dot = 0, got_sq = 0, expected_sq = 0, cosine;
	for (size_t i = 0; i < ret->n_elements; i++) {
		double a = ctl_value_at(got, i).d, b = ctl_value_at(expected, i).d;
		dot += a * b;
		got_sq += a * a;
		expected_sq += b * b;
	}
	if (got_sq == 0 && expected_sq == 0)
		return;
	cosine = dot / sqrt(got_sq * expected_sq);
	if (!(cosine >= at_least)) {
		ret->is_equal = false;
		snprintf(ret->what, sizeof(ret->what), "cosine %.6g, expected at least %g", cosine, at_least);
	}
}

static size_t argmax(const struct ctl_value *value, size_t n)
{
	size_t best = 0;
	for (size_t i = 1; i < n; i++)
		if (ctl_value_at(value, i).d > ctl_value_at(value, best).d)
			best = i;
	return best;
}

void ctl_compare(struct ctl_difference *ret, const struct ctl_value *got, const struct ctl_value *expected,
	const struct ctl_tolerance *tolerance)
{
	struct ctl_value parts[2] = { ctl_value_parts(got), ctl_value_parts(expected) };
	double atol, rtol;
	bool has_bounds = tolerance->atol >= 0 || tolerance->rtol >= 0, is_float;

	memset(ret, 0, sizeof(*ret));
	ret->is_equal = true;
	if (expected->tag == ET_TAG_NONE)
		return;
	if (!is_same_kind(got, expected)) {
		char a[CTL_VALUE_TEXT], b[CTL_VALUE_TEXT];
		ret->is_equal = false;
		snprintf(ret->what, sizeof(ret->what), "%s, expected %s", ctl_value_text(a, got),
			ctl_value_text(b, expected));
		return;
	}
	got = &parts[0];
	expected = &parts[1];
	ret->n_elements = ctl_value_numel(expected);
	bounds_for(tolerance, expected, &atol, &rtol);
	is_float = expected->tag == ET_TAG_DOUBLE ||
		   (expected->tag == ET_TAG_TENSOR && ctl_type_is_float(expected->type));

	compare_elements(ret, got, expected, atol, rtol);
	if (!is_float || has_bounds || (tolerance->cosine < 0 && !tolerance->argmax)) {
		if (!ret->is_equal)
			return;
	}
	ret->is_equal = true;
	if (is_float && tolerance->cosine >= 0)
		compare_cosine(ret, got, expected, tolerance->cosine);
	if (is_float && ret->is_equal && tolerance->argmax && ret->n_elements) {
		size_t a = argmax(got, ret->n_elements), b = argmax(expected, ret->n_elements);
		if (a != b) {
			ret->is_equal = false;
			snprintf(ret->what, sizeof(ret->what), "largest element at %zu, expected at %zu", a, b);
		}
	}
}
