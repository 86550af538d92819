/* SPDX-License-Identifier: BSD-3-Clause */
/* Special functions: polygamma, the modified Bessel function I0, the incomplete gamma functions.
 *
 * ExecuTorch has none of them. Each is a textbook series or continued fraction, summed in double until it no longer
 * changes (Abramowitz and Stegun, 6.4, 6.5, 9.6). How many terms that takes depends on the numbers, which a client may
 * have chosen: an element can take a millisecond. So the terms are counted, and the loop over the elements asks whether
 * it must stop. */
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/engine/elementwise.h"

/* I0(x) = sum of (x²/4)^k / k!², all terms positive. For infinite x the result is NaN, as in PyTorch. */
static double bessel_i0(double x, size_t *n_steps)
{
	double quarter = x * x / 4, term = 1, sum = 1;
	if (!(fabs(x) < 720))
		return isfinite(x) ? INFINITY : NAN;
	for (int k = 1; term > sum * 1e-17; k++) {
		term *= quarter / ((double)k * k);
		sum += term;
		++*n_steps;
	}
	return sum;
}
ET_PACED_FLOAT_FNS(i0, 1, bessel_i0(a, &n_steps))

/* Regularized lower incomplete gamma function P(a, x) by its series: for x < a + 1. */
static double gamma_series(double a, double x, size_t *n_steps)
{
	double term = 1 / a, sum = term;
	for (int k = 1; k < 100000 && fabs(term) > fabs(sum) * 1e-17; k++) {
		term *= x / (a + k);
		sum += term;
		++*n_steps;
	}
	return sum * exp(a * log(x) - x - lgamma(a));
}

/* The upper function, Q(a, x), by its continued fraction, evaluated forwards (Lentz): for larger x. */
static double gamma_fraction(double a, double x, size_t *n_steps)
{
	const double tiny = 1e-300;
	double b = x + 1 - a, c = 1 / tiny, d = 1 / b, product = d;
	for (int k = 1; k < 100000; k++) {
		double numerator = -k * (k - a);
		b += 2;
		d = numerator * d + b;
		d = 1 / (fabs(d) < tiny ? tiny : d);
		c = b + numerator / c;
		c = fabs(c) < tiny ? tiny : c;
		product *= c * d;
		++*n_steps;
		if (fabs(c * d - 1) < 1e-16)
			break;
	}
	return product * exp(a * log(x) - x - lgamma(a));
}

static double incomplete_gamma(double a, double x, bool is_upper, size_t *n_steps)
{
	/* The order of these tests is PyTorch's; it also decides the result if one argument is NaN. */
	if (a < 0 || x < 0 || (a == 0 && !(x > 0)) || (isinf(a) && isinf(x)))
		return NAN;
	if (a != 0 && (x == 0 || isinf(a)))
		return is_upper ? 1 : 0;
	if (a == 0 || isinf(x))
		return is_upper ? 0 : 1;
	if (a != a || x != x)
		return NAN;
	if (x < a + 1)
		return is_upper ? 1 - gamma_series(a, x, n_steps) : gamma_series(a, x, n_steps);
	return is_upper ? gamma_fraction(a, x, n_steps) : 1 - gamma_fraction(a, x, n_steps);
}
ET_PACED_FLOAT_FNS(igamma, 2, incomplete_gamma(a, b, false, &n_steps))
ET_PACED_FLOAT_FNS(igammac, 2, incomplete_gamma(a, b, true, &n_steps))

/* Terms B(2k) / (2k)! of the Euler-Maclaurin formula. */
static const double bernoulli[] = { 1. / 12, -1. / 720, 1. / 30240, -1. / 1209600, 1. / 47900160, -691. / 1307674368000,
	1. / 74724249600, -3617. / 10670622842880000 };

enum { POWER_STEPS = 8 }; /* how many of the other steps a power takes as long as */

/* Hurwitz zeta function: the sum of (x + k)^-s for k = 0, 1 …, for s > 1. */
static double zeta(double s, double x, size_t *n_steps)
{
	double sum = 0, at = x;
	if (x <= 0 && x == floor(x))
		return INFINITY;
	for (int k = 0; k < 12 || at < 12; k++, at++) {
		sum += pow(at, -s);
		*n_steps += POWER_STEPS;
	}
	sum += pow(at, 1 - s) / (s - 1) + pow(at, -s) / 2;
	double factor = s, power = pow(at, -s - 1);
	for (size_t k = 0; k < ET_ARRAY_LEN(bernoulli); k++) {
		sum += bernoulli[k] * factor * power;
		factor *= (s + 2 * (double)k + 1) * (s + 2 * (double)k + 2);
		power /= at * at;
	}
	return sum;
}

static double digamma(double x)
{
	double result = 0;
	if (x == 0)
		return copysign(INFINITY, -x);
	if (x < 0) {
		if (x == floor(x))
			return NAN;
		return digamma(1 - x) - 3.14159265358979323846 / tan(3.14159265358979323846 * x);
	}
	for (; x < 12; x++)
		result -= 1 / x;
	double square = 1 / (x * x);
	return result + log(x) - 0.5 / x -
	       square * (1. / 12 - square * (1. / 120 - square * (1. / 252 - square * (1. / 240 - square / 132))));
}

/* Reflected for x < 0.5, as PyTorch does, in the precision of the element type: at the poles the result is whatever
 * rounding leaves of the sine of a multiple of pi. */
static double trigamma(double x, bool is_single, size_t *n_steps)
{
	const double pi = 3.14159265358979323846;
	if (!(x < 0.5))
		return zeta(2, x, n_steps);
	double sine = is_single ? (double)sinf((float)pi * (float)x) : sin(pi * x);
	return pi * pi / (sine * sine) - zeta(2, 1 - x, n_steps);
}

static double polygamma(double n, double x, bool is_single, size_t *n_steps)
{
	if (n == 0)
		return digamma(x);
	if (n == 1)
		return trigamma(x, is_single, n_steps);
	if (x < -1e4) /* it would take as many terms */
		return NAN;
	return (fmod(n, 2) == 0 ? -1 : 1) * exp(lgamma(n + 1)) * zeta(n + 1, x, n_steps);
}
ET_PACED_FN(polygamma_f32, float, ET_LOADS2(float), polygamma((double)a, (double)b, true, &n_steps))
ET_PACED_FN(polygamma_f64, double, ET_LOADS2(double), polygamma(a, b, false, &n_steps))

static enum et_status run_polygamma(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	static const struct et_elementwise op = { ET_ELEMENTWISE_FLOAT, ET_FLOATS(polygamma), .promotes = 2 };
	ET_REQUIRE(ctx, args[0]->i >= 0 && args[0]->i <= 100, "order %lld", (long long)args[0]->i);
	return et_elementwise_apply(ctx, &op, (const struct et_evalue *[]){ args[0], args[1] }, 2, args[2]->tensor);
}

enum { MOST_STEPS = 1000 * 1000 }; /* 100,000 terms with divisions, 10,000 powers: a millisecond */

static const struct et_kernel rows[] = {
	{ "aten::i0.out", "T>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(i0)),
		.element_steps = 5000 },
	{ "aten::igamma.out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(igamma)),
		.element_steps = MOST_STEPS },
	{ "aten::igammac.out", "TT>T", et_elementwise_run, ET_ELEMENTWISE(ET_ELEMENTWISE_FLOAT, ET_FLOATS(igammac)),
		.element_steps = MOST_STEPS },
	{ "aten::polygamma.out", "IT>T", run_polygamma, .element_steps = MOST_STEPS },
};

ET_KERNEL_TABLE(special);
