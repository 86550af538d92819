/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators that interpolate pixels: resizing an image, and sampling it at positions given by another tensor.
 *
 * A bilinear resize is separable: each output row and column has a list of input positions and weights, made once.
 * Plain bilinear has two of them; antialiased has as many as the shrunk pixel covers. Positions are computed in float,
 * as in PyTorch. The grid sampler reads each position of its grid once. */
#include "runtime/kernels/engine/args.h"
#include "runtime/kernels/engine/index_copy.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/engine/elementwise.h"
#include "runtime/base/expand.h"

#include <math.h>

/* One output row or column: the weights of @n input positions, starting at @first. */
struct taps {
	int64_t first, n;
	float *weights;
};

struct resize {
	enum et_scalar_type type; /* of the tensors */
	int64_t n_taps[2];        /* the largest n */
	struct taps *taps[2];     /* rows, columns */
	bool is_bilinear;         /* two weights each; if n is 1, both apply to the same position */
	struct et_view x, y;
	const struct et_compute *compute;
};

/* Interpolate four pixels, first within the rows, then between them, in float. ExecuTorch's last bit matters: when the
 * result is stored as 8 bits, values halfway between two integers are frequent. */
static double blend(const double *pixels, const float *h, const float *w)
{
	float top = (float)pixels[0] * w[0] + (float)pixels[1] * w[1];
	float bottom = (float)pixels[2] * w[0] + (float)pixels[3] * w[1];
	return (double)(top * h[0] + bottom * h[1]);
}

/* The number of channels if they are adjacent in both tensors, otherwise 1. */
static int64_t n_adjacent_channels(const struct resize *r)
{
	return r->x.strides[1] == 1 && r->y.strides[1] == 1 ? r->y.sizes[1] : 1;
}

/* Add one weighted pixel to an antialiased pixel. The sum has the output's type after each step, as in ExecuTorch:
 * integers lose their fraction, fp16 and bf16 are rounded, unless there are too many terms (ET_HALF_TERMS). */
static double add_weighted(const struct resize *r, double sum, double pixel, const struct taps *h, int64_t j,
	const struct taps *w, int64_t k)
{
	float more = (float)pixel * h->weights[j] * w->weights[k];
	if (!et_type_is_float(r->x.type))
		return (double)et_double_to_int((double)((float)sum + more));
	if (h->n * w->n <= ET_HALF_TERMS)
		return et_round_to(sum + et_round_to((double)more, r->x.type), r->x.type);
	return (double)((float)sum + more);
}

/* The sum over all taps, for float and double. */
#define WEIGHTED_SUM(name, type)                                                                     \
	static double name(const type *corner, int64_t row, int64_t column, const struct taps *h,    \
		const struct taps *w)                                                                \
	{                                                                                            \
		type sum = 0;                                                                        \
		for (int64_t j = 0; j < h->n; j++) {                                                 \
			for (int64_t k = 0; k < w->n; k++)                                           \
				sum += corner[j * row + k * column] * h->weights[j] * w->weights[k]; \
		}                                                                                    \
		return (double)sum;                                                                  \
	}
WEIGHTED_SUM(weighted_floats, float)
WEIGHTED_SUM(weighted_doubles, double)

/* The same for bytes, which lose their fraction after each step. */
static double weighted_bytes(const uint8_t *corner, int64_t row, int64_t column, const struct taps *h,
	const struct taps *w)
{
	float sum = 0;
	for (int64_t j = 0; j < h->n; j++) {
		for (int64_t k = 0; k < w->n; k++)
			sum = (float)(int32_t)(sum +
					       (float)corner[j * row + k * column] * h->weights[j] * w->weights[k]);
	}
	return (double)sum;
}

enum { PART = 64 };

/* @n antialiased pixels of a row, for fp16 or bf16 that were converted to float at @x: as add_weighted does it, for all
 * of them at once. */
static void weigh_half_row(const struct resize *r, const float *x, const struct taps *h, const struct taps *w, size_t n,
	int64_t most, float *sums)
{
	const int64_t row = r->x.strides[2], column = r->x.strides[3];
	memset(sums, 0, n * sizeof(*sums));
	for (int64_t j = 0; j < h->n; j++) {
		const float *from = x + (h->first + j) * row;
		for (int64_t k = 0; k < most; k++) {
			float more[PART];
			for (size_t i = 0; i < n; i++)
				more[i] = k < w[i].n ? from[(w[i].first + k) * column] * h->weights[j] * w[i].weights[k]
						     : 0;
			et_round_floats(r->type, more, n);
			for (size_t i = 0; i < n; i++)
				sums[i] += more[i];
			et_round_floats(r->type, sums, n);
		}
	}
}

static void resize_planes_of_half(void *arg, size_t begin, size_t end)
{
	const struct resize *r = arg;
	const int64_t *xs = r->x.strides, *ys = r->y.strides;
	int64_t channels = r->y.sizes[1], n_columns = r->y.sizes[3];
	et_store_fn store = et_storer(r->type, ET_F32);
	for (size_t i = begin; i < end; i++) {
		int64_t row = (int64_t)i % r->y.sizes[2], plane = (int64_t)i / r->y.sizes[2], batch = plane / channels,
			channel = plane % channels;
		const float *x = (const float *)(const void *)r->x.data + batch * xs[0] + channel * xs[1];
		for (int64_t k = 0; k < n_columns; k += PART) {
			float sums[PART];
			size_t n = (size_t)(n_columns - k < PART ? n_columns - k : PART);
			weigh_half_row(r, x, &r->taps[0][row], &r->taps[1][k], n, r->n_taps[1], sums);
			int64_t to = batch * ys[0] + channel * ys[1] + row * ys[2] + k * ys[3];
			store(r->y.data + to * (int64_t)et_scalar_size(r->type), ys[3], sums, n);
		}
	}
}

static void resize_planes(void *arg, size_t begin, size_t end)
{
	const struct resize *r = arg;
	const int64_t *xs = r->x.strides, *ys = r->y.strides;
	int64_t channels = r->y.sizes[1], n_x = (int64_t)et_scalar_size(r->x.type);
	et_load_fn load = et_loader(r->x.type, ET_F64);
	bool is_single = r->x.type == ET_FLOAT32, is_double = r->x.type == ET_FLOAT64, is_byte = r->x.type == ET_UINT8;
	struct et_pace pace = { r->compute };
	const size_t n_steps = (size_t)(r->n_taps[0] * r->n_taps[1]) + 4;
	for (size_t plane = begin; plane < end; plane++) {
		int64_t batch = (int64_t)plane / channels, channel = (int64_t)plane % channels;
		const uint8_t *x = r->x.data + (batch * xs[0] + channel * xs[1]) * n_x;
		int64_t y = batch * ys[0] + channel * ys[1];
		for (int64_t i = 0; i < r->y.sizes[2] * r->y.sizes[3] && !et_pace_must_stop(&pace, n_steps); i++) {
			int64_t row = i / r->y.sizes[3], column = i % r->y.sizes[3];
			const struct taps *h = &r->taps[0][row], *w = &r->taps[1][column];
			double sum = 0, pixel, pixels[4];
			int64_t corner = h->first * xs[2] + w->first * xs[3];
			bool is_plain = (is_single || is_double || is_byte) && !r->is_bilinear;
			if (is_plain && is_single)
				sum = weighted_floats((const float *)(const void *)x + corner, xs[2], xs[3], h, w);
			else if (is_plain && is_byte)
				sum = weighted_bytes(x + corner, xs[2], xs[3], h, w);
			else if (is_plain)
				sum = weighted_doubles((const double *)(const void *)x + corner, xs[2], xs[3], h, w);
			for (int64_t j = 0; !is_plain && j < (r->is_bilinear ? 2 : h->n); j++) {
				for (int64_t k = 0; k < (r->is_bilinear ? 2 : w->n); k++) {
					int64_t at = (h->first + (j < h->n ? j : 0)) * xs[2] +
						     (w->first + (k < w->n ? k : 0)) * xs[3];
					load(&pixel, x + at * n_x, 1, 1);
					if (r->is_bilinear)
						pixels[2 * j + k] = pixel;
					else
						sum = add_weighted(r, sum, pixel, h, j, w, k);
				}
			}
			if (r->is_bilinear)
				sum = blend(pixels, h->weights, w->weights);
			int64_t to = y + row * ys[2] + column * ys[3];
			if (is_single)
				((float *)r->y.data)[to] = (float)sum;
			else if (is_byte)
				r->y.data[to] = (uint8_t)(int32_t)sum;
			else
				et_element_set_double(r->y.data + to * (int64_t)et_scalar_size(r->y.type), r->y.type,
					sum);
		}
	}
}

/* Columns from @begin to @end of one output row of float, double or byte, with @n adjacent channels. The same results
 * as blend; double is computed in double. */
#define BLEND_ROW(name, element, type)                                                                                 \
	ET_EXPANDED void name##_of(const struct resize *r, const struct taps *h, int64_t x, int64_t y,                 \
		const int64_t n, int64_t begin, int64_t end)                                                           \
	{                                                                                                              \
		const int64_t *xs = r->x.strides, *ys = r->y.strides;                                                  \
		const element *upper = (const element *)(const void *)r->x.data + x + h->first * xs[2],                \
			      *lower = upper + (h->n > 1 ? xs[2] : 0);                                                 \
		type h0 = h->weights[0], h1 = h->weights[1];                                                           \
		for (int64_t column = begin; column < end; column++) {                                                 \
			const struct taps *w = &r->taps[1][column];                                                    \
			const element *a = upper + w->first * xs[3], *b = lower + w->first * xs[3];                    \
			int64_t next = w->n > 1 ? xs[3] : 0;                                                           \
			type w0 = w->weights[0], w1 = w->weights[1];                                                   \
			element *to = (element *)(void *)r->y.data + y + column * ys[3];                               \
			for (int64_t c = 0; c < n; c++) {                                                              \
				type top = a[c] * w0 + a[c + next] * w1, bottom = b[c] * w0 + b[c + next] * w1;        \
				to[c] = (element)(top * h0 + bottom * h1);                                             \
			}                                                                                              \
		}                                                                                                      \
	}                                                                                                              \
	static void name(const struct resize *r, const struct taps *h, int64_t x, int64_t y, int64_t n, int64_t begin, \
		int64_t end)                                                                                           \
	{                                                                                                              \
		if (n == 1)                                                                                            \
			name##_of(r, h, x, y, 1, begin, end);                                                          \
		else                                                                                                   \
			name##_of(r, h, x, y, n, begin, end);                                                          \
	}
BLEND_ROW(blend_floats, float, float)
BLEND_ROW(blend_doubles, double, double)
BLEND_ROW(blend_bytes, uint8_t, float)

/* Output rows of all planes or, in channels last, of all batch items. */
static void blend_rows(void *arg, size_t begin, size_t end)
{
	const struct resize *r = arg;
	const int64_t *xs = r->x.strides, *ys = r->y.strides, *sizes = r->y.sizes;
	int64_t n_adjacent = n_adjacent_channels(r), parts = sizes[1] / n_adjacent;
	int64_t row = (int64_t)begin % sizes[2], part = (int64_t)begin / sizes[2] % parts,
		batch = (int64_t)begin / sizes[2] / parts;
	struct et_pace pace = { r->compute };
	const int64_t most = ET_PACE_STEPS / n_adjacent + 1;
	for (size_t i = begin; i < end; i++) {
		for (int64_t column = 0, n; column < sizes[3]; column += n) {
			n = sizes[3] - column < most ? sizes[3] - column : most;
			if (et_pace_must_stop(&pace, (size_t)(n * n_adjacent)))
				return;
			(r->x.type == ET_FLOAT64        ? blend_doubles
				: r->x.type == ET_UINT8 ? blend_bytes
							: blend_floats)(r, &r->taps[0][row],
				batch * xs[0] + part * n_adjacent * xs[1],
				batch * ys[0] + part * n_adjacent * ys[1] + row * ys[2], n_adjacent, column,
				column + n);
		}
		if (++row < sizes[2])
			continue;
		row = 0;
		if (++part < parts)
			continue;
		part = 0;
		batch++;
	}
}

static float step_of(int64_t in, int64_t out, bool align_corners, double factor)
{
	if (align_corners)
		return out > 1 ? (float)(in - 1) / (float)(out - 1) : 0;
	return factor > 0 ? (float)(1 / factor) : (float)in / (float)out;
}

static void bilinear_taps(struct taps *taps, int64_t i, int64_t in, int64_t out, float step, bool align_corners)
{
	float at = align_corners ? step * (float)i : step * ((float)i + 0.5f) - 0.5f;
	at = in == out ? (float)i : at < 0 ? 0 : at;
	int64_t first = (int64_t)floorf(at);
	first = first < in - 1 ? first : in - 1;
	float rest = at - (float)first;
	rest = rest < 0 ? 0 : rest > 1 ? 1 : rest;
	taps->first = first;
	taps->n = first < in - 1 && in != out ? 2 : 1;
	taps->weights[0] = 1 - rest;
	taps->weights[1] = rest;
}

static void antialiased_taps(struct taps *taps, int64_t i, int64_t in, float step, int64_t most)
{
	float center = step * ((float)i + 0.5f), reach = step >= 1 ? step : 1, scale = 1 / reach, total = 0;
	int64_t first = (int64_t)(center - reach + 0.5f), end = (int64_t)(center + reach + 0.5f);
	first = first < 0 ? 0 : first;
	end = end < in ? end : in;
	end = end - first < most ? end : first + most; /* at large positions a float is off by more than one */
	for (int64_t k = 0; k < end - first; k++) {
		float distance = fabsf(((float)(first + k) - center + 0.5f) * scale);
		taps->weights[k] = distance < 1 ? 1 - distance : 0;
		total += taps->weights[k];
	}
	taps->first = first;
	taps->n = end > first ? end - first : 0;
	for (int64_t k = 0; k < taps->n && total > 0; k++)
		taps->weights[k] /= total;
	if (total > 0)
		return;
	int64_t nearest = (int64_t)center;
	taps->first = nearest < in ? nearest : in - 1;
	taps->n = 1;
	taps->weights[0] = 1;
}

/* @sizes: of the output; @factors: given ones, or 0. */
static enum et_status resize(struct et_kernel_ctx *ctx, const struct et_tensor *self, const int64_t *sizes,
	const double *factors, bool align_corners, bool antialias, struct et_tensor *out)
{
	struct resize r = { .is_bilinear = !antialias, .type = self->type, .compute = ctx->compute };
	ET_TRY(et_require_same_type(ctx, self, out));
	ET_REQUIRE(ctx, et_loader(self->type, ET_F64), "does not take %s", et_scalar_name(self->type));
	ET_REQUIRE(ctx, sizes[0] > 0 && sizes[1] > 0 && self->sizes[2] > 0 && self->sizes[3] > 0,
		"an output of %lld by %lld from %d by %d", (long long)sizes[0], (long long)sizes[1], self->sizes[2],
		self->sizes[3]);
	et_view_of(&r.x, self);
	/* The output's memory bounds the size of the tables. */
	ET_TRY(et_resize(ctx, out, (const int64_t[]){ r.x.sizes[0], r.x.sizes[1], sizes[0], sizes[1] }, 4));
	if (et_tensor_numel(out) == 0)
		return ET_OK;
	for (size_t k = 0; k < 2; k++) {
		int64_t in = self->sizes[2 + k], n = sizes[k];
		float step = step_of(in, n, align_corners, factors[k]);
		size_t most = antialias ? (size_t)(2 * ceilf(step >= 1 ? step : 1)) + 2 : 2;
		most = most < (size_t)in + 2 ? most : (size_t)in + 2;
		r.taps[k] = et_kernel_scratch(ctx, (size_t)n * sizeof(struct taps));
		float *weights = et_kernel_scratch(ctx, (size_t)n * most * sizeof(*weights));
		if (!r.taps[k] || !weights)
			return ET_E_MEMORY_ALLOCATION_FAILED;
		struct et_pace pace = { ctx->compute };
		for (int64_t i = 0; i < n; i++) {
			if (et_pace_must_stop(&pace, most)) /* what is not filled in must not be used */
				return ET_E_CANCELLED;
			r.taps[k][i].weights = weights + (size_t)i * most;
			if (antialias)
				antialiased_taps(&r.taps[k][i], i, in, step, (int64_t)most);
			else
				bilinear_taps(&r.taps[k][i], i, in, n, step, align_corners);
			r.n_taps[k] = r.taps[k][i].n > r.n_taps[k] ? r.taps[k][i].n : r.n_taps[k];
		}
	}
	et_view_of(&r.y, out);
	size_t numel = et_tensor_numel(out);
	bool computes_in_float = r.is_bilinear && et_type_is_half(self->type); /* computed in float anyway */
	if (computes_in_float) {
		r.x.data = et_kernel_scratch(ctx, et_tensor_numel(self) * sizeof(float));
		r.y.data = et_kernel_scratch(ctx, numel * sizeof(float));
		r.x.type = r.y.type = ET_FLOAT32;
		if (!r.x.data || !r.y.data)
			return ET_E_MEMORY_ALLOCATION_FAILED;
		struct et_view of_half;
		et_view_of(&of_half, self);
		ET_TRY(et_view_cast(ctx, &r.x, &of_half));
	}
	if (antialias && et_type_is_half(self->type) && r.n_taps[0] * r.n_taps[1] <= ET_HALF_TERMS) {
		if (!et_local_copy(ctx, self, ET_FLOAT32, &r.x))
			return ET_E_MEMORY_ALLOCATION_FAILED;
		et_parallel_for(ctx->compute, resize_planes_of_half, &r,
			(size_t)(r.y.sizes[0] * r.y.sizes[1] * sizes[0]), 1024 / (size_t)sizes[1] + 1);
		return ET_OK;
	}
	if (r.is_bilinear && (r.x.type == ET_FLOAT32 || r.x.type == ET_FLOAT64 || r.x.type == ET_UINT8)) {
		size_t rows = (size_t)(r.y.sizes[0] * r.y.sizes[1] / n_adjacent_channels(&r) * sizes[0]);
		et_parallel_for(ctx->compute, blend_rows, &r, rows, 4096 / (size_t)sizes[1] + 1);
		struct et_view of_half;
		et_view_of(&of_half, out);
		return computes_in_float ? et_view_cast(ctx, &of_half, &r.y) : ET_OK;
	}
	et_parallel_for(ctx->compute, resize_planes, &r, (size_t)(r.y.sizes[0] * r.y.sizes[1]),
		4096 / (size_t)(sizes[0] * sizes[1]) + 1);
	return ET_OK;
}

/* self, output size or None, align corners, factors or None > out */
static enum et_status run_bilinear(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	bool has_sizes = !et_is_none(args[1]), has_factors = !et_is_none(args[3]);
	int64_t sizes[2];
	double factors[2] = { 0, 0 };
	ET_REQUIRE(ctx, self->n_dims == 4, "rank %u", self->n_dims);
	ET_REQUIRE(ctx, has_sizes != has_factors, "takes either sizes or factors");
	ET_REQUIRE(ctx, args[has_sizes ? 1 : 3]->list->n == 2, "takes two sizes or factors");
	for (size_t k = 0; k < 2; k++) {
		if (has_factors) {
			factors[k] = args[3]->list->doubles[k];
			ET_REQUIRE(ctx, factors[k] > 0 && factors[k] < 1e6, "a factor of %g", factors[k]);
		}
		sizes[k] = has_sizes ? et_list_int(args[1], k)
				     : et_double_to_int((double)self->sizes[2 + k] * factors[k]);
	}
	return resize(ctx, self, sizes, factors, args[2]->b, false, args[4]->tensor);
}

/* self, output size, align corners, a factor or None for each of two dimensions > out */
static enum et_status run_bilinear_aa(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor;
	int64_t sizes[2];
	double factors[2];
	ET_REQUIRE(ctx, self->n_dims == 4 && et_list_len(args[1]) == 2, "rank %u, %zu sizes", self->n_dims,
		et_list_len(args[1]));
	bool has_factors = !et_is_none(args[3]) && !et_is_none(args[4]); /* only if both are given */
	for (size_t k = 0; k < 2; k++) {
		sizes[k] = et_list_int(args[1], k);
		factors[k] = has_factors ? args[3 + k]->d : 0;
		ET_REQUIRE(ctx, factors[k] == 0 || (factors[k] > 1e-6 && factors[k] < 1e6), "a factor of %g",
			factors[k]);
	}
	return resize(ctx, self, sizes, factors, args[2]->b, true, args[5]->tensor);
}

/* --- grid sampler ---------------------------------------------------------------------------------------- */

enum { BILINEAR, NEAREST, BICUBIC };
enum { ZEROS, BORDER, REFLECTION };

struct grid {
	struct et_view x, grid, y;
	int64_t mode, padding;
	bool align_corners;
	/* type in which positions and weights are computed and rounded after each operation */
	enum et_scalar_type type;
};

/* Everything below is inlined into sample_as, where mode, padding and types are constants. */

/* floor without a call. */
ET_EXPANDED double floor_of(double x)
{
	bool is_near = x > -0x1p31 && x < 0x1p31;
	double whole = (double)(int32_t)(is_near ? x : 0);
	return is_near ? whole - (double)(whole > x) : floor(x);
}

ET_EXPANDED double nearest_to(double x)
{
	double size = fabs(x), whole = (size + 0x1p52) - 0x1p52;
	return copysign(size < 0x1p52 ? whole : size, x);
}

/* The pixel that a position belongs to depends on the position's last bit. */
ET_EXPANDED double rounded(const struct grid *g, double value)
{
	return g->type == ET_FLOAT32 ? (float)value : g->type == ET_FLOAT64 ? value : et_round_to(value, g->type);
}

/* NaN becomes the last position, as ExecuTorch's comparisons make it. */
ET_EXPANDED double clip(const struct grid *g, double at, int64_t size)
{
	double last = rounded(g, (double)(size - 1));
	return at < 0 ? 0 : at < last ? at : last;
}

/* fmod(at, span) for at >= 0 and an integer span: all of its steps are exact. */
ET_EXPANDED double remainder_of(double at, double span)
{
	if (!(at < 0x1p31))
		return fmod(at, span);
	double rest = at - floor_of(at / span) * span;
	return rest < 0 ? rest + span : rest;
}

ET_EXPANDED double reflect(const struct grid *g, double at, int64_t size)
{
	double low = g->align_corners ? 0 : -0.5, span = rounded(g, (double)(size - g->align_corners));
	if (span == 0)
		return 0;
	at = fabs(rounded(g, at - low));
	double extra = rounded(g, remainder_of(at, span));
	double flips = floor_of(rounded(g, at / span));
	bool is_forward = !(flips < 0x1p31) || (int64_t)flips % 2 == 0; /* numbers beyond int32 are even */
	return rounded(g, (is_forward ? extra : rounded(g, span - extra)) + low);
}

/* Converts a position in [-1, 1] to pixels. */
ET_EXPANDED double to_pixels(const struct grid *g, double at, int64_t size)
{
	at = rounded(g, at + 1);
	if (g->align_corners)
		return rounded(g, rounded(g, at / 2) * rounded(g, (double)(size - 1)));
	return rounded(g, rounded(g, rounded(g, at * rounded(g, (double)size)) - 1) / 2);
}

/* A position outside the image, moved according to the padding mode. */
ET_EXPANDED double apply_padding(const struct grid *g, double at, int64_t size)
{
	if (g->padding == REFLECTION)
		at = reflect(g, at, size);
	return g->padding == ZEROS ? at : clip(g, at, size);
}

/* The offset of a pixel in its plane, in elements. OUTSIDE: no such pixel; it counts as 0. */
enum { OUTSIDE = -1 };

ET_EXPANDED int64_t place(const struct grid *g, double h, double w)
{
	if (!(h >= 0 && h < (double)g->x.sizes[2] && w >= 0 && w < (double)g->x.sizes[3]))
		return OUTSIDE;
	return (int64_t)h * g->x.strides[2] + (int64_t)w * g->x.strides[3];
}

/* A number of the image or of the grid, which have one type. */
ET_EXPANDED double number(const struct grid *g, const uint8_t *plane, int64_t at)
{
	if (g->x.type == ET_FLOAT32)
		return (double)((const float *)plane)[at];
	if (g->x.type == ET_FLOAT64)
		return ((const double *)(const void *)plane)[at];
	return et_element_get_double(plane + at * (int64_t)et_scalar_size(g->x.type), g->x.type);
}

ET_EXPANDED double pixel(const struct grid *g, const uint8_t *plane, int64_t at)
{
	return at == OUTSIDE ? 0 : number(g, plane, at);
}

/* ((a x + b) x + c) x + d */
ET_EXPANDED double polynomial(const struct grid *g, double x, double a, double b, double c, double d)
{
	double sum = rounded(g, rounded(g, a * x) + b);
	sum = rounded(g, rounded(g, sum * x) + c);
	return rounded(g, rounded(g, sum * x) + d);
}

ET_EXPANDED void cubic_weights(const struct grid *g, double t, double *weights)
{
	const double a = -0.75;
	double back = rounded(g, 1 - t);
	weights[0] = polynomial(g, rounded(g, t + 1), a, -5 * a, 8 * a, -4 * a);
	weights[1] = polynomial(g, t, a + 2, -(a + 3), 0, 1);
	weights[2] = polynomial(g, back, a + 2, -(a + 3), 0, 1);
	weights[3] = polynomial(g, rounded(g, back + 1), a, -5 * a, 8 * a, -4 * a);
}

ET_EXPANDED double weigh(const struct grid *g, const double *numbers, const double *weights)
{
	double sum = 0;
	for (int i = 0; i < 4; i++)
		sum = rounded(g, sum + rounded(g, numbers[i] * weights[i]));
	return sum;
}

/* The pixels and weights of one position of the grid, the same for every channel. */
struct grid_sample {
	int64_t at[4][4];     /* nearest uses one, bilinear one row, bicubic all */
	double weights[2][4]; /* of the columns, and of the rows */
};

ET_EXPANDED void find_cubic(const struct grid *g, double h, double w, struct grid_sample *grid_sample)
{
	int64_t h0 = et_double_to_int(floor_of(h)), w0 = et_double_to_int(floor_of(w));
	cubic_weights(g, rounded(g, w - rounded(g, (double)w0)), grid_sample->weights[0]);
	cubic_weights(g, rounded(g, h - rounded(g, (double)h0)), grid_sample->weights[1]);
	double rows[4], columns[4];
	for (int i = 0; i < 4; i++) {
		rows[i] = apply_padding(g, (double)(int64_t)((uint64_t)h0 - 1 + (uint64_t)i), g->x.sizes[2]);
		columns[i] = apply_padding(g, (double)(int64_t)((uint64_t)w0 - 1 + (uint64_t)i), g->x.sizes[3]);
	}
	for (int i = 0; i < 4; i++) {
		for (int k = 0; k < 4; k++)
			grid_sample->at[i][k] = place(g, rows[i], columns[k]);
	}
}

ET_EXPANDED void find(const struct grid *g, double grid_w, double grid_h, struct grid_sample *grid_sample)
{
	int64_t height = g->x.sizes[2], width = g->x.sizes[3];
	double h = to_pixels(g, grid_h, height), w = to_pixels(g, grid_w, width);
	if (g->mode == BICUBIC) {
		find_cubic(g, h, w, grid_sample);
		return;
	}
	h = apply_padding(g, h, height);
	w = apply_padding(g, w, width);
	if (g->mode == NEAREST) {
		h = nearest_to(h);
		w = nearest_to(w);
		grid_sample->at[0][0] = g->padding == ZEROS ? place(g, h, w)
							    : place(g, clip(g, h, height), clip(g, w, width));
		return;
	}
	double h0 = floor_of(h), w0 = floor_of(w);
	for (int i = 0; i < 4; i++) {
		double at_h = h0 + i / 2, at_w = w0 + i % 2;
		double share_h = i / 2 ? rounded(g, h - h0) : rounded(g, h0 + 1 - h);
		double share_w = i % 2 ? rounded(g, w - w0) : rounded(g, w0 + 1 - w);
		grid_sample->weights[0][i] = rounded(g, share_w * share_h);
		if (g->padding != ZEROS) {
			at_h = clip(g, at_h, height);
			at_w = clip(g, at_w, width);
		}
		grid_sample->at[0][i] = place(g, at_h, at_w);
		if (grid_sample->at[0][i] == OUTSIDE)
			grid_sample->weights[0][i] = 0; /* the weight could be infinite or NaN */
	}
}

ET_EXPANDED double sample(const struct grid *g, const uint8_t *plane, const struct grid_sample *grid_sample)
{
	double row[4], rows[4];
	if (g->mode == NEAREST)
		return pixel(g, plane, grid_sample->at[0][0]);
	for (int i = 0; i < (g->mode == BICUBIC ? 4 : 1); i++) {
		for (int k = 0; k < 4; k++)
			row[k] = pixel(g, plane, grid_sample->at[i][k]);
		rows[i] = weigh(g, row, grid_sample->weights[0]);
	}
	return g->mode == BICUBIC ? weigh(g, rows, grid_sample->weights[1]) : rows[0];
}

/* Row @row of all channels of image @n. */
ET_EXPANDED void sample_row(const struct grid *g, int64_t n, int64_t row, struct grid_sample *samples)
{
	const int64_t *xs = g->x.strides, *ys = g->y.strides, *at = g->grid.strides;
	int64_t bytes = (int64_t)et_scalar_size(g->x.type), columns = g->y.sizes[3];
	for (int64_t w = 0; w < columns; w++) {
		const int64_t from = n * at[0] + row * at[1] + w * at[2];
		find(g, number(g, g->grid.data, from), number(g, g->grid.data, from + at[3]), &samples[w]);
	}
	for (int64_t c = 0; c < g->y.sizes[1]; c++) {
		const uint8_t *plane = g->x.data + (n * xs[0] + c * xs[1]) * bytes;
		uint8_t *to = g->y.data + (n * ys[0] + c * ys[1] + row * ys[2]) * bytes;
		for (int64_t w = 0; w < columns; w++) {
			double result = sample(g, plane, &samples[w]);
			if (g->type == ET_FLOAT32 && g->x.type == ET_FLOAT32)
				((float *)(void *)to)[w * ys[3]] = (float)result;
			else if (g->type == ET_FLOAT64)
				((double *)(void *)to)[w * ys[3]] = result;
			else
				et_element_set_double(to + w * ys[3] * bytes, g->y.type, result);
		}
	}
}

/* Compiled for the common modes; sample_any serves the others. */
ET_EXPANDED void sample_as(const struct grid *of, int64_t n, int64_t row, struct grid_sample *samples,
	const enum et_scalar_type type, const int64_t mode, const bool has_padding)
{
	struct grid g = *of;
	g.type = type;
	g.x.type = g.y.type = g.grid.type = (uint8_t)type;
	g.mode = mode;
	if (!has_padding)
		g.padding = ZEROS;
	sample_row(&g, n, row, samples);
}

#define SAMPLE(name, type)                                                                          \
	static void name(const struct grid *g, int64_t n, int64_t row, struct grid_sample *samples) \
	{                                                                                           \
		if (g->mode == BILINEAR && g->padding == ZEROS)                                     \
			sample_as(g, n, row, samples, type, BILINEAR, false);                       \
		else if (g->mode == BILINEAR)                                                       \
			sample_as(g, n, row, samples, type, BILINEAR, true);                        \
		else if (g->mode == NEAREST && g->padding == ZEROS)                                 \
			sample_as(g, n, row, samples, type, NEAREST, false);                        \
		else if (g->mode == NEAREST)                                                        \
			sample_as(g, n, row, samples, type, NEAREST, true);                         \
		else                                                                                \
			sample_as(g, n, row, samples, type, BICUBIC, true);                         \
	}
SAMPLE(sample_floats, ET_FLOAT32)
SAMPLE(sample_doubles, ET_FLOAT64)

static void sample_any(const struct grid *g, int64_t n, int64_t row, struct grid_sample *samples)
{
	sample_row(g, n, row, samples);
}

static enum et_status run_grid_sampler(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor, *positions = args[1]->tensor;
	struct et_tensor *out = args[5]->tensor;
	struct grid g = { .mode = (int32_t)args[2]->i, .padding = (int32_t)args[3]->i, .align_corners = args[4]->b };
	ET_REQUIRE(ctx,
		x->n_dims == 4 && positions->n_dims == 4 && positions->sizes[3] == 2 &&
			positions->sizes[0] == x->sizes[0],
		"takes a batch of images and a batch of grids");
	ET_REQUIRE(ctx, g.mode >= 0 && g.mode <= BICUBIC && g.padding >= 0 && g.padding <= REFLECTION,
		"mode %lld, padding %lld", (long long)g.mode, (long long)g.padding);
	ET_REQUIRE(ctx, x->sizes[2] > 0 && x->sizes[3] > 0, "an empty image");
	ET_REQUIRE(ctx, et_loader(x->type, ET_F64), "does not take %s", et_scalar_name(x->type));
	ET_TRY(et_require_same_type(ctx, x, out));
	ET_TRY(et_require_same_type(ctx, x, positions));
	g.type = g.mode == BILINEAR && et_type_is_half(x->type) ? ET_FLOAT32 : (enum et_scalar_type)x->type;
	ET_TRY(et_resize(ctx, out,
		(const int64_t[]){ x->sizes[0], x->sizes[1], positions->sizes[1], positions->sizes[2] }, 4));
	if (et_tensor_numel(out) == 0)
		return ET_OK;
	et_view_of(&g.x, x);
	et_view_of(&g.grid, positions);
	et_view_of(&g.y, out);
	bool computes_in_float = g.type != (enum et_scalar_type)x->type; /* computed in float anyway */
	if (computes_in_float) {
		g.y.type = ET_FLOAT32;
		g.y.data = et_kernel_scratch(ctx, et_tensor_numel(out) * sizeof(float));
		if (!g.y.data || !et_local_copy(ctx, x, ET_FLOAT32, &g.x) ||
			!et_local_copy(ctx, positions, ET_FLOAT32, &g.grid))
			return ET_E_MEMORY_ALLOCATION_FAILED;
	}
	struct grid_sample *samples = et_kernel_scratch(ctx, (size_t)out->sizes[3] * sizeof(*samples) + 1);
	if (!samples)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	void (*sample_one)(const struct grid *, int64_t, int64_t, struct grid_sample *) = g.x.type == ET_FLOAT32
												  ? sample_floats
											  : g.x.type == ET_FLOAT64
												  ? sample_doubles
												  : sample_any;
	for (int64_t i = 0; i < (int64_t)out->sizes[0] * out->sizes[2]; i++)
		sample_one(&g, i / out->sizes[2], i % out->sizes[2], samples);
	if (computes_in_float)
		et_storer(out->type, ET_F32)(out->data, 1, g.y.data, et_tensor_numel(out));
	return ET_OK;
}

static const struct et_kernel rows[] = {
	{ "aten::_upsample_bilinear2d_aa.out", "TVBdd>T", run_bilinear_aa },
	{ "aten::grid_sampler_2d.out", "TTIIB>T", run_grid_sampler },
	{ "aten::upsample_bilinear2d.vec_out", "TvBf>T", run_bilinear },
};

ET_KERNEL_TABLE(upsample);
