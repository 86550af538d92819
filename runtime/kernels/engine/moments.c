/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums for means and variances: several independent partial sums, so that no addition waits for the one before it.
 * Short planes of a channel are gathered first, so that they become few long ones. */
#include "runtime/kernels/engine/moments.h"

#include "runtime/kernels/simd/ukernels.h"
#include "runtime/kernels/engine/elementwise.h"

/* For many numbers. */
#define ADD_LANES(name, few, term)                                                                      \
	static void name(const double *x, size_t n, double *sum, double center __attribute__((unused))) \
	{                                                                                               \
		enum { LANES = 8 };                                                                     \
		double sums[LANES] = { 0 };                                                             \
		size_t i = 0;                                                                           \
		if (n < 2 * LANES) {                                                                    \
			*sum += few;                                                                    \
			return;                                                                         \
		}                                                                                       \
		for (; i + LANES <= n; i += LANES) {                                                    \
			for (size_t lane = 0; lane < LANES; lane++)                                     \
				sums[lane] += term(x[i + lane]);                                        \
		}                                                                                       \
		for (; i < n; i++)                                                                      \
			sums[0] += term(x[i]);                                                          \
		for (size_t lane = 0; lane < LANES; lane++)                                             \
			*sum += sums[lane];                                                             \
	}
#define IDENTITY(number)           (number)
#define SQUARED_DIFFERENCE(number) (((number) - center) * ((number) - center))
ADD_LANES(add_numbers, et_sum_few(x, n), IDENTITY)
ADD_LANES(add_squared_differences, et_squares_few(x, n, center), SQUARED_DIFFERENCE)

void et_add_doubles(const double *x, size_t n, double *sum, double *squares, double center)
{
	if (sum)
		add_numbers(x, n, sum, center);
	if (squares)
		add_squared_differences(x, n, squares, center);
}

static void add_floats(const float *x, size_t n, double *sum, double *squares, double center)
{
	if (sum)
		*sum += et_ukernels()->sum(n, x);
	if (squares)
		*squares += et_ukernels()->squares(n, x, center);
}

void et_add_moments(const uint8_t *data, enum et_scalar_type type, size_t n, double *sum, double *squares,
	double center)
{
	double block[256];
	float floats[256];
	et_load_fn load = et_loader(type, ET_F64);
	for (size_t done = 0, part; et_type_is_half(type) && done < n; done += part) {
		part = n - done < 256 ? n - done : 256;
		et_loader(type, ET_F32)(floats, data + done * et_scalar_size(type), 1, part);
		add_floats(floats, part, sum, squares, center);
	}
	if (et_type_is_half(type))
		return;
	if (type == ET_FLOAT32 && (uintptr_t)data % sizeof(float) == 0) {
		add_floats((const float *)data, n, sum, squares, center);
		return;
	}
	for (size_t done = 0; done < n;) {
		size_t part = n - done < 256 ? n - done : 256;
		const double *numbers = block;
		if (type == ET_FLOAT64)
			numbers = (const double *)(const void *)data + done;
		else
			load(block, data + done * et_scalar_size(type), 1, part);
		et_add_doubles(numbers, part, sum, squares, center);
		done += part;
	}
}

enum { SHORT_PLANE = 64, PLANES = 1024, PART = 256 };

/* Gather the planes of channel @c as doubles, one behind the other. */
static void gather_planes(const struct et_batch *x, size_t c, double *to)
{
	const size_t bytes = et_scalar_size(x->type), inner = x->inner, step = x->n * inner, n = x->n_batch;
	const bool is_float = x->type == ET_FLOAT32;
	const uint8_t *data = x->data + c * inner * bytes;
	const et_load_fn load = et_loader(x->type, ET_F64);
	if (inner == 1) {
		load(to, data, (ptrdiff_t)step, n);
		return;
	}
	for (size_t b = 0; b < n; b++, to += inner, data += step * bytes) {
		if (!is_float)
			load(to, data, 1, inner);
		ET_INDEPENDENT
		for (size_t i = 0; is_float && i < inner; i++) { /* too few for a call */
			float number;
			memcpy(&number, data + i * sizeof(number), sizeof(number));
			to[i] = (double)number;
		}
	}
}

/* Add up channel @c: its sum, or the sum of the squares of x - center. Short planes are gathered, as many at a time as
 * there is room for; @gathered holds all of them already, if not NULL. */
static void add_channel(const struct et_batch *x, size_t c, const double *gathered, double *sum, double *squares,
	double center)
{
	const size_t plane_bytes = x->inner * et_scalar_size(x->type), numel = x->n_batch * x->inner,
		     part = x->inner <= SHORT_PLANE && x->inner ? PART / x->inner * x->inner : x->inner;
	double room[PART];
	for (size_t at = 0; at < numel; at += part) {
		const size_t n = numel - at < part ? numel - at : part;
		if (gathered) {
			et_add_doubles(gathered + at, n, sum, squares, center);
			continue;
		}
		struct et_batch planes = *x;
		planes.data += at / x->inner * x->n * plane_bytes;
		planes.n_batch = n / x->inner;
		if (x->inner > SHORT_PLANE) {
			et_add_moments(planes.data + c * plane_bytes, x->type, n, sum, squares, center);
		} else {
			gather_planes(&planes, c, room);
			et_add_doubles(room, n, sum, squares, center);
		}
	}
}

/* Sums and sums of squares of short planes. Many are converted to float at a time, because a vector load right after
 * small stores to the same memory is slow (store forwarding). */
static void add_short_planes(const struct et_batch *x, const uint8_t *data, size_t n_planes, double (*ret_sums)[2])
{
	const size_t inner = x->inner, step = x->n * inner * et_scalar_size(x->type);
	const et_load_fn load = et_loader(x->type, ET_F32);
	float floats[PART];
	if (inner == 1)
		load(floats, data, (ptrdiff_t)x->n, n_planes);
	for (size_t k = 0; inner > 1 && k < n_planes; k++)
		load(floats + k * inner, data + k * step, 1, inner);
	for (size_t k = 0; k < n_planes; k++) {
		const double only = (double)floats[k];
		ret_sums[k][0] = inner == 1 ? only : 0;
		ret_sums[k][1] = inner == 1 ? only * only : 0;
		if (inner > 1)
			add_floats(floats + k * inner, inner, &ret_sums[k][0], &ret_sums[k][1], 0);
	}
}

/* For a normalized tensor of fp16 or bf16: channel @c's sum and sum of squares, rounded after each plane. */
static void add_half_planes(const struct et_batch *x, size_t c, enum et_scalar_type type, float *ret_sums)
{
	const size_t plane_bytes = x->inner * et_scalar_size(x->type), step = x->n * plane_bytes;
	const bool is_short = et_type_is_half(x->type) && x->inner <= SHORT_PLANE && x->inner;
	const uint8_t *data = x->data + c * plane_bytes;
	float sum = 0, squares = 0;
	double sums[PART][2];
	for (size_t b = 0, n = 1; b < x->n_batch; b += n, data += n * step) {
		if (is_short) {
			n = x->n_batch - b < PART / x->inner ? x->n_batch - b : PART / x->inner;
			add_short_planes(x, data, n, sums);
		} else {
			sums[0][0] = sums[0][1] = 0;
			et_add_moments(data, x->type, x->inner, &sums[0][0], &sums[0][1], 0);
		}
		for (size_t k = 0; k < n; k++) {
			sum = et_round_half(sum + et_round_half((float)sums[k][0], type), type);
			squares = et_round_half(squares + et_round_half((float)sums[k][1], type), type);
		}
	}
	ret_sums[0] = sum;
	ret_sums[1] = squares;
}

void et_channel_moments(const struct et_batch *x, const struct et_tensor *like, size_t c, double *ret_mean,
	double *ret_var)
{
	const size_t numel = x->n_batch * x->inner;
	const double count = et_half_or_exact(like, (double)numel);
	double sum = 0, squares = 0, mean, room[PLANES];
	if (et_type_is_half(like->type)) {
		float sums[2];
		add_half_planes(x, c, like->type, sums);
		*ret_mean = mean = et_half_or_exact(like, (double)sums[0] / count);
		*ret_var = et_half_or_exact(like,
			et_half_or_exact(like, (double)sums[1] / count) - et_half_or_exact(like, mean * mean));
		return;
	}
	const double *gathered = NULL;
	if (x->type == ET_FLOAT64 && x->n_batch == 1 && numel <= PART) {
		gathered = (const double *)(const void *)(x->data + c * x->inner * sizeof(double));
	} else if (x->inner <= SHORT_PLANE && numel <= PLANES) {
		gather_planes(x, c, room);
		gathered = room;
	}
	add_channel(x, c, gathered, &sum, NULL, 0);
	*ret_mean = mean = sum / count;
	add_channel(x, c, gathered, NULL, &squares, mean);
	*ret_var = squares / count;
}
