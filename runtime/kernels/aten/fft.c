/* SPDX-License-Identifier: BSD-3-Clause */
/* aten::_fft_r2c and _fft_c2r: Fourier transforms of real numbers, along any dimensions.
 *
 * One line at a time, in double. A line whose length has only small factors is transformed factor by factor (every p-th
 * element by itself, then the p results combined: Cooley and Tukey 1965). Any other length is a convolution with a
 * chirp whose length is a power of two (Bluestein 1970), so no length takes long. Only half of a real line's spectrum
 * is kept; the other half mirrors it. A real line of even length is transformed as half as many complex numbers, made
 * of its even and its odd elements; their spectrum is separated by its symmetries.
 *
 * ExecuTorch has these two operators in its optimized library only, and no transform of complex numbers. */
#include "runtime/kernels/engine/complex_elementwise.h"
#include "runtime/kernels/engine/args.h"
#include "runtime/kernels/kernels.h"
#include "runtime/base/expand.h"

#include <math.h>

enum {
	FACTOR_MAX = 32,
	FACTORS_MAX = 64,
	LONG_PART = 1 << 12, /* longer parts of a transform ask whether they must stop */
	TWIDDLE_STEPS = 32,  /* of et_pace, for a sine and a cosine */
};

/* How lines of one length are transformed. */
struct fft {
	size_t n, n_factors, n_twiddles;
	uint8_t factors[FACTORS_MAX];
	double sign; /* of the exponent: -1 forward, 1 backward */
	double complex
		*twiddles;      /* exp(sign 2 pi i k / n_twiddles), for n_twiddles numbers k; n_twiddles is n or 2 n */
	double complex *room;   /* 2 n: scratch memory for a line */
	struct fft *chirped;    /* NULL if factors suffice; otherwise the forward transform of power-of-two length */
	double complex *chirp;  /* exp(sign pi i k^2 / n) */
	double complex *filter; /* the transform of its conjugate, around 0 */
	double complex *wide;   /* chirped->n */
	const struct et_compute *compute;
};

/* Twiddle factor @k of @n: the angle is exact in 64 bits. */
static double complex twiddle(double sign, uint64_t k, uint64_t n)
{
	double angle = sign * 2 * 3.14159265358979323846 * (double)(k % n) / (double)n;
	return CMPLX(cos(angle), sin(angle));
}

/* All @n twiddle factors. If 8 divides n, only sines and cosines of one eighth are computed, since the others mirror
 * them. */
static void fill_twiddles(const struct et_compute *compute, double sign, size_t n, double complex *twiddles)
{
	size_t quarter = n / 4;
	struct et_pace pace = { compute };
	if (n % 8) {
		for (size_t k = 0; k < n && !et_pace_must_stop(&pace, TWIDDLE_STEPS); k++)
			twiddles[k] = twiddle(sign, k, n);
		return;
	}
	for (size_t k = 0; k <= n / 8 && !et_pace_must_stop(&pace, TWIDDLE_STEPS); k++) {
		double complex one = twiddle(1, k, n);
		twiddles[k] = CMPLX(creal(one), sign * cimag(one));
		twiddles[quarter - k] = CMPLX(cimag(one), sign * creal(one));
	}
	for (size_t k = 1; k <= quarter && !et_pace_must_stop(&pace, 1); k++)
		twiddles[quarter + k] = CMPLX(-creal(twiddles[quarter - k]), cimag(twiddles[quarter - k]));
	for (size_t k = 1; k < n / 2 && !et_pace_must_stop(&pace, 1); k++)
		twiddles[n - k] = conj(twiddles[k]);
}

static bool split(struct fft *f)
{
	size_t rest = f->n;
	for (size_t i = 1; i <= FACTOR_MAX; i++) {
		size_t factor = i == 1 ? 4 : i; /* factors of 4 before factors of 2 */
		for (; rest % factor == 0 && rest > 1; rest /= factor) {
			if (f->n_factors == FACTORS_MAX)
				return false;
			f->factors[f->n_factors++] = (uint8_t)factor;
		}
	}
	return rest == 1;
}

static void *alloc_complex(struct et_kernel_ctx *ctx, size_t n)
{
	size_t n_bytes;
	if (!et_mul(n, sizeof(double complex), &n_bytes)) {
		et_refuse(ctx, "too large");
		return NULL;
	}
	return et_kernel_scratch(ctx, n_bytes);
}

/* Complex product without C's handling of infinities: a line with an infinity has no finite spectrum anyway. */
static inline double complex times(double complex a, double complex b)
{
	return CMPLX(creal(a) * creal(b) - cimag(a) * cimag(b), creal(a) * cimag(b) + cimag(a) * creal(b));
}

/* The inputs of one step: @p parts of @m results each, @stride apart, are combined into @p @m results. A call combines
 * those from @begin to @end of each part. */
struct parts {
	const double complex *from;
	size_t stride, m, step; /* of the twiddle factors */
};

ET_EXPANDED void combine_2(const struct fft *f, const struct parts *parts, size_t begin, size_t end, double complex *to)
{
	for (size_t i = begin; i < end; i++) {
		double complex a = parts->from[i],
			       b = times(parts->from[parts->stride + i], f->twiddles[i * parts->step]);
		to[i] = a + b;
		to[parts->m + i] = a - b;
	}
}

ET_EXPANDED void combine_4(const struct fft *f, const struct parts *parts, size_t begin, size_t end, double complex *to)
{
	size_t m = parts->m, step = parts->step;
	for (size_t i = begin; i < end; i++) {
		const double complex *from = parts->from + i;
		double complex a = from[0], b = times(from[parts->stride], f->twiddles[i * step]),
			       c = times(from[2 * parts->stride], f->twiddles[2 * i * step]),
			       d = times(from[3 * parts->stride], f->twiddles[3 * i * step]);
		double complex even = a + c, odd = a - c, sum = b + d, difference = b - d;
		difference = CMPLX(-f->sign * cimag(difference), f->sign * creal(difference));
		to[i] = even + sum;
		to[m + i] = odd + difference;
		to[2 * m + i] = even - sum;
		to[3 * m + i] = odd - difference;
	}
}

ET_EXPANDED void combine_any(const struct fft *f, const struct parts *parts, size_t p, size_t begin, size_t end,
	double complex *to)
{
	size_t m = parts->m, step = parts->step;
	for (size_t i = begin; i < end; i++) {
		double complex terms[FACTOR_MAX];
		for (size_t k = 0; k < p; k++)
			terms[k] = times(parts->from[k * parts->stride + i], f->twiddles[k * i * step]);
		for (size_t j = 0; j < p; j++) {
			double complex sum = terms[0];
			for (size_t k = 1; k < p; k++)
				sum += times(terms[k], f->twiddles[j * k % p * m * step]);
			to[j * m + i] = sum;
		}
	}
}

/* The same for long parts, until the kernel must stop. A function of its own, so that the code for short ones, which
 * most are, stays as fast as without it. */
static __attribute__((noinline)) void combine_long(const struct fft *f, const struct parts *parts, size_t p,
	double complex *to)
{
	for (size_t at = 0, n; (n = et_next_chunk(f->compute, at, parts->m)); at += n) {
		if (p == 4)
			combine_4(f, parts, at, at + n, to);
		else if (p == 2)
			combine_2(f, parts, at, at + n, to);
		else
			combine_any(f, parts, p, at, at + n, to);
	}
}

/* Transform every @stride-th element of @from to @to, in order. @to and @from do not overlap. */
static void transform_part(const struct fft *f, size_t level, size_t n, const double complex *from, size_t stride,
	double complex *to, double complex *room)
{
	if (n > LONG_PART && et_must_stop(f->compute))
		return;
	size_t p = f->factors[level], m = n / p;
	struct parts parts = { .from = from, .stride = stride, .m = m, .step = f->n_twiddles / n };
	if (m > 1) {
		for (size_t k = 0; k < p; k++)
			transform_part(f, level + 1, m, from + k * stride, stride * p, room + k * m, to + k * m);
		parts.from = room;
		parts.stride = m;
	}
	if (m > LONG_PART)
		combine_long(f, &parts, p, to);
	else if (p == 4)
		combine_4(f, &parts, 0, m, to);
	else if (p == 2)
		combine_2(f, &parts, 0, m, to);
	else
		combine_any(f, &parts, p, 0, m, to);
}

static void transform(const struct fft *f, double complex *line);

static void transform_chirped(const struct fft *f, double complex *line)
{
	size_t n = f->n, wide = f->chirped->n;
	struct et_pace pace = { f->compute };
	for (size_t i = 0; i < wide && !et_pace_must_stop(&pace, 1); i++)
		f->wide[i] = i < n ? times(line[i], f->chirp[i]) : 0;
	transform(f->chirped, f->wide);
	/* the inverse, as the transform of the conjugate */
	for (size_t i = 0; i < wide && !et_pace_must_stop(&pace, 1); i++)
		f->wide[i] = conj(times(f->wide[i], f->filter[i]));
	transform(f->chirped, f->wide);
	for (size_t i = 0; i < n && !et_pace_must_stop(&pace, 1); i++)
		line[i] = times(conj(f->wide[i]) / (double)wide, f->chirp[i]);
}

static void transform(const struct fft *f, double complex *line)
{
	if (f->chirped) {
		transform_chirped(f, line);
		return;
	}
	if (f->n == 1)
		return;
	double complex *copy = f->room + f->n;
	for (size_t at = 0, part; (part = et_next_chunk(f->compute, at, f->n)); at += part)
		memcpy(copy + at, line + at, part * sizeof(*line));
	transform_part(f, 0, f->n, copy, 1, line, f->room);
}

static enum et_status start_fft(struct et_kernel_ctx *ctx, struct fft *f, size_t n, double sign);

static enum et_status start_chirp(struct et_kernel_ctx *ctx, struct fft *f)
{
	size_t n = f->n, wide = 1;
	while (wide < 2 * n)
		wide *= 2;
	f->chirped = et_kernel_scratch(ctx, sizeof(*f->chirped));
	f->chirp = alloc_complex(ctx, n);
	f->filter = alloc_complex(ctx, wide);
	f->wide = alloc_complex(ctx, wide);
	if (!f->chirped || !f->chirp || !f->filter || !f->wide)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	ET_TRY(start_fft(ctx, f->chirped, wide, -1));
	struct et_pace pace = { f->compute };
	for (size_t i = 0; i < wide && !et_pace_must_stop(&pace, 1); i++)
		f->filter[i] = 0;
	for (size_t i = 0; i < n && !et_pace_must_stop(&pace, TWIDDLE_STEPS); i++) {
		f->chirp[i] = twiddle(f->sign, (uint64_t)i * i, 2 * (uint64_t)n);
		f->filter[i] = f->filter[(wide - i) % wide] = conj(f->chirp[i]);
	}
	transform(f->chirped, f->filter);
	return ET_OK;
}

static enum et_status start_twiddles(struct et_kernel_ctx *ctx, struct fft *f)
{
	f->twiddles = alloc_complex(ctx, f->n_twiddles);
	f->room = alloc_complex(ctx, 2 * f->n);
	if (!f->twiddles || !f->room)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	fill_twiddles(f->compute, f->sign, f->n_twiddles, f->twiddles);
	return ET_OK;
}

static enum et_status start_fft(struct et_kernel_ctx *ctx, struct fft *f, size_t n, double sign)
{
	*f = (struct fft){ .n = n, .n_twiddles = n, .sign = sign, .compute = ctx->compute };
	return split(f) ? start_twiddles(ctx, f) : start_chirp(ctx, f);
}

/* For real lines. *@ret_is_half: the length is even and its half has small factors, so half as many complex numbers are
 * transformed. */
static enum et_status start_halved(struct et_kernel_ctx *ctx, struct fft *f, size_t n, double sign, bool *ret_is_half)
{
	*f = (struct fft){ .n = n / 2, .n_twiddles = n, .sign = sign, .compute = ctx->compute };
	*ret_is_half = n % 2 == 0 && split(f);
	return *ret_is_half ? start_twiddles(ctx, f) : start_fft(ctx, f, n, sign);
}

/* Both ways between half the spectrum of a real line, @f->n + 1 numbers, and the spectrum of @f->n numbers whose parts
 * are the line's even and odd elements: E + W^k O and E - W^k O, where the latter spectrum is E + iO. */
static void convert_half_spectrum(const struct fft *f, double complex *line, double factor)
{
	size_t n = f->n;
	for (size_t at = 0, part; (part = et_next_chunk(f->compute, at, n / 2 + 1)); at += part) {
		for (size_t k = at; k < at + part; k++) {
			double complex a = line[k], b = conj(line[n - k]), even = (a + b) * factor,
				       odd = (a - b) * factor;
			odd = times(CMPLX(-f->sign * cimag(odd), f->sign * creal(odd)), f->twiddles[k]);
			line[k] = even + odd;
			line[n - k] = conj(even - odd);
		}
	}
}

/* Lines along one dimension. The missing part of a spectrum mirrors the rest. */
struct lines {
	struct et_view from, to;
	size_t dim;
	double factor;
	bool is_half; /* the input is half a spectrum */
};

/* A line's elements in memory, @step bytes apart, and in the line that is transformed: each a complex number, or a part
 * of one. */
struct line_place {
	enum et_scalar_type type;
	int64_t step;
	size_t n, n_doubles;
};

static void read_line(const struct line_place *place, size_t n, const uint8_t *from, double *to)
{
	bool is_complex = et_type_is_complex(place->type);
	bool is_float = place->type == ET_FLOAT32 || place->type == ET_COMPLEX64;
	for (size_t k = 0; k < n; k++, from += place->step, to += place->n_doubles) {
		const float *floats = (const void *)from;
		const double *doubles = (const void *)from;
		to[0] = is_float ? (double)floats[0] : doubles[0];
		if (place->n_doubles == 2)
			to[1] = !is_complex ? 0 : is_float ? (double)floats[1] : doubles[1];
	}
}

static void write_line(const struct line_place *place, size_t n, const double *from, double factor, uint8_t *to)
{
	bool is_complex = et_type_is_complex(place->type);
	bool is_float = place->type == ET_FLOAT32 || place->type == ET_COMPLEX64;
	for (size_t k = 0; k < n; k++, to += place->step, from += place->n_doubles) {
		float *floats = (void *)to;
		double *doubles = (void *)to;
		for (size_t i = 0; i < 1u + is_complex; i++) {
			if (is_float)
				floats[i] = (float)(from[i] * factor);
			else
				doubles[i] = from[i] * factor;
		}
	}
}

/* Transform in place; start_halved says what @n real elements become. */
static void transform_line(const struct fft *f, const struct lines *l, size_t n, double complex *line)
{
	bool is_halved = f->n < n;
	if (l->is_half) { /* numbers that mirror themselves are real, whatever the input says */
		line[0] = creal(line[0]);
		if (n % 2 == 0)
			line[n / 2] = creal(line[n / 2]);
		for (size_t at = n / 2 + 1, part; !is_halved && (part = et_next_chunk(f->compute, at, n)); at += part)
			for (size_t k = at; k < at + part; k++)
				line[k] = conj(line[n - k]);
		if (is_halved)
			convert_half_spectrum(f, line, 1);
	}
	transform(f, line);
	if (is_halved && !l->is_half) {
		line[f->n] = line[0];
		convert_half_spectrum(f, line, 0.5);
	}
}

static enum et_status transform_lines(struct et_kernel_ctx *ctx, struct lines *l, size_t n, double sign)
{
	struct fft f;
	struct et_walk walk;
	struct et_place place;
	bool is_halved = false, is_real_in = !et_type_is_complex(l->from.type);
	double complex *line = alloc_complex(ctx, n + 1);
	if (!line)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	if (is_real_in || l->is_half)
		ET_TRY(start_halved(ctx, &f, n, sign, &is_halved));
	else
		ET_TRY(start_fft(ctx, &f, n, sign));
	int64_t bytes[2] = { (int64_t)et_scalar_size(l->to.type), (int64_t)et_scalar_size(l->from.type) };
	struct line_place out = { .type = l->to.type,
		.step = l->to.strides[l->dim] * bytes[0],
		.n = (size_t)l->to.sizes[l->dim],
		.n_doubles = is_halved && l->is_half ? 1 : 2 };
	struct line_place in = { .type = l->from.type,
		.step = l->from.strides[l->dim] * bytes[1],
		.n = l->is_half ? n / 2 + 1 : n,
		.n_doubles = is_halved && is_real_in ? 1 : 2 };
	l->to.sizes[l->dim] = l->from.sizes[l->dim] = 1;
	et_walk_init(&walk, (const struct et_view *[]){ &l->to, &l->from }, 2);
	et_place_seek(&place, &walk, 0);
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0; i < walk.numel && !et_pace_must_stop(&pace, 8 * n); i++) {
		const uint8_t *from = l->from.data + place.offset[1] * bytes[1];
		for (size_t at = 0, part; (part = et_next_chunk(ctx->compute, at, in.n)); at += part)
			read_line(&in, part, from + (ptrdiff_t)at * in.step, (double *)line + at * in.n_doubles);
		transform_line(&f, l, n, line);
		uint8_t *to = l->to.data + place.offset[0] * bytes[0];
		for (size_t at = 0, part; (part = et_next_chunk(ctx->compute, at, out.n)); at += part)
			write_line(&out, part, (const double *)line + at * out.n_doubles, l->factor,
				to + (ptrdiff_t)at * out.step);
		et_place_advance(&place, &walk, 1);
	}
	return ET_OK;
}

/* The dimensions in @list, each at most once; *@ret_last: the last of them. */
static enum et_status get_dims(struct et_kernel_ctx *ctx, const struct et_evalue *list, const struct et_tensor *self,
	size_t *ret_last)
{
	uint32_t set = 0;
	ET_REQUIRE(ctx, et_list_len(list) > 0, "no dimensions");
	for (size_t i = 0; i < et_list_len(list); i++) {
		int64_t dim = et_list_int(list, i);
		ET_REQUIRE(ctx, dim >= 0 && dim < self->n_dims, "dimension %lld of %u", (long long)dim, self->n_dims);
		ET_REQUIRE(ctx, !(set >> dim & 1), "dimension %lld twice", (long long)dim);
		set |= 1u << dim;
		*ret_last = (size_t)dim;
	}
	return ET_OK;
}

/* Normalization 0: none; 1: divide by the root of the number of elements; 2: divide by the number. */
static enum et_status get_factor(struct et_kernel_ctx *ctx, int64_t norm, const struct et_evalue *list,
	const struct et_tensor *real, double *ret)
{
	double n = 1;
	ET_REQUIRE(ctx, norm >= 0 && norm <= 2, "normalization %lld", (long long)norm);
	for (size_t i = 0; i < et_list_len(list); i++)
		n *= real->sizes[et_list_int(list, i)];
	*ret = norm == 0 ? 1 : norm == 1 ? 1 / sqrt(n) : 1 / n;
	return ET_OK;
}

static enum et_status require_types(struct et_kernel_ctx *ctx, const struct et_tensor *real,
	const struct et_tensor *spectrum)
{
	ET_REQUIRE(ctx,
		(real->type == ET_FLOAT32 && spectrum->type == ET_COMPLEX64) ||
			(real->type == ET_FLOAT64 && spectrum->type == ET_COMPLEX128),
		"%s and %s", et_scalar_name(real->type), et_scalar_name(spectrum->type));
	return ET_OK;
}

/* The same view with size @size in dimension @dim. */
static struct et_view narrowed(const struct et_view *view, size_t dim, int64_t size)
{
	struct et_view narrow = *view;
	narrow.sizes[dim] = size;
	return narrow;
}

/* x, dimensions, normalization, one-sided > out */
static enum et_status run_r2c(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor;
	struct et_tensor *out = args[4]->tensor;
	struct et_view from, to;
	int64_t sizes[ET_MAX_DIMS];
	size_t last;
	double factor;
	ET_TRY(require_types(ctx, x, out));
	ET_TRY(get_dims(ctx, args[1], x, &last));
	ET_TRY(get_factor(ctx, args[2]->i, args[1], x, &factor));
	ET_REQUIRE(ctx, args[3]->b, "the two-sided spectrum is not supported");
	ET_REQUIRE(ctx, x->n_dims == out->n_dims && memcmp(x->dim_order, out->dim_order, x->n_dims) == 0,
		"input and output have different dim orders");
	for (size_t d = 0; d < x->n_dims; d++)
		sizes[d] = x->sizes[d];
	ET_REQUIRE(ctx, sizes[last] > 0, "the last dimension is empty");
	sizes[last] = sizes[last] / 2 + 1;
	ET_TRY(et_resize(ctx, out, sizes, x->n_dims));
	et_view_of(&from, x);
	et_view_of(&to, out);
	if (et_tensor_numel(out) == 0)
		return ET_OK;
	struct lines l = { .from = from, .to = to, .dim = last, .factor = factor };
	ET_TRY(transform_lines(ctx, &l, (size_t)x->sizes[last], -1));
	for (size_t i = 0; i + 1 < et_list_len(args[1]); i++) {
		size_t dim = (size_t)et_list_int(args[1], i);
		l = (struct lines){ .from = to, .to = to, .dim = dim, .factor = 1 };
		ET_TRY(transform_lines(ctx, &l, (size_t)to.sizes[dim], -1));
	}
	return ET_OK;
}

/* spectrum, dimensions, normalization, size of the last dimension > out */
static enum et_status run_c2r(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor;
	struct et_tensor *out = args[4]->tensor;
	struct et_view from, to;
	int64_t sizes[ET_MAX_DIMS], n = args[3]->i;
	size_t last, n_bytes, n_dims = et_list_len(args[1]);
	double factor;
	ET_TRY(require_types(ctx, out, x));
	ET_TRY(get_dims(ctx, args[1], x, &last));
	ET_REQUIRE(ctx, x->n_dims == out->n_dims && memcmp(x->dim_order, out->dim_order, x->n_dims) == 0,
		"input and output have different dim orders");
	ET_REQUIRE(ctx, n >= 1 && n <= INT32_MAX && x->sizes[last] >= n / 2 + 1, "lines of %lld from a spectrum of %d",
		(long long)n, x->sizes[last]);
	for (size_t d = 0; d < x->n_dims; d++)
		sizes[d] = x->sizes[d];
	sizes[last] = n;
	ET_TRY(et_resize(ctx, out, sizes, x->n_dims));
	ET_TRY(get_factor(ctx, args[2]->i, args[1], out, &factor));
	et_view_of(&from, x);
	et_view_of(&to, out);
	if (et_tensor_numel(out) == 0)
		return ET_OK;
	if (n_dims > 1) { /* the other dimensions first, in a copy */
		struct et_view copy = narrowed(&from, last, n / 2 + 1);
		from = copy;
		if (!et_mul(et_view_numel(&copy), et_element_bytes(x), &n_bytes))
			return et_refuse(ctx, "too large");
		copy.data = et_kernel_scratch(ctx, n_bytes);
		if (!copy.data)
			return ET_E_MEMORY_ALLOCATION_FAILED;
		et_view_set_row_major(&copy);
		et_view_copy(ctx->compute, &copy, &from);
		from = copy;
	}
	for (size_t i = 0; i + 1 < n_dims; i++) {
		size_t dim = (size_t)et_list_int(args[1], i);
		struct lines l = { .from = from, .to = from, .dim = dim, .factor = 1 };
		ET_TRY(transform_lines(ctx, &l, (size_t)from.sizes[dim], 1));
	}
	struct lines l = { .from = from, .to = to, .dim = last, .factor = factor, .is_half = true };
	return transform_lines(ctx, &l, (size_t)n, 1);
}

static const struct et_kernel rows[] = {
	{ "aten::_fft_c2r.out", "TVII>T", run_c2r },
	{ "aten::_fft_r2c.out", "TVIB>T", run_r2c },
};

ET_KERNEL_TABLE(fft);
