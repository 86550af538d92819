/* SPDX-License-Identifier: BSD-3-Clause */
/* Pooling: the mean or the maximum of a window, in two or three dimensions, regular or adaptive.
 *
 * The operators differ in where an output position's window lies; so each dimension first becomes a table of windows,
 * and one loop serves all. Means are summed in double, except for fp16 and bf16 and for the adaptive 3-D mean, which
 * only PyTorch defines: those are summed in the elements' own type. An index is the position in the input's plane,
 * row-major, whatever the dim order. */
#include "runtime/kernels/engine/args.h"
#include "runtime/kernels/engine/index_copy.h"
#include "runtime/kernels/kernels.h"
#include "runtime/base/expand.h"

#include <math.h>

enum { SPACE = 3, MAX_PLANES = 8 };

/* The window of one output position in one dimension: @n input positions, starting at @first, @step apart. */
struct window {
	int64_t first, step, n;
	int64_t n_padded; /* including positions in the padding, which a mean may count */
};

/* How a window becomes a number. */
struct pooling {
	bool is_max;
	bool counts_padding;
	bool rounds;          /* round each sum and quotient to the element type */
	bool sums_floats;     /* sum in float; for fp16 and bf16 elements too */
	bool divides_by_each; /* divide by the window's size in one dimension after another */
	int64_t divisor;      /* 0: the number of elements counted */
};

struct pool {
	struct pooling pooling;
	int64_t in[SPACE], out[SPACE];
	struct window *windows[SPACE]; /* out[d] windows for dimension d */
	struct et_view x, y, indices;  /* batch, channel, space; @indices has no data if there is no such output */
	struct et_walk planes;
	const struct et_compute *compute;
};

/* The divisor of a mean: the number of elements in the window, or of those plus the padding that it covers. */
static int64_t divisor_of(const struct pool *p, const struct window *const *at)
{
	if (p->pooling.divisor)
		return p->pooling.divisor;
	if (p->pooling.counts_padding)
		return at[0]->n_padded * at[1]->n_padded * at[2]->n_padded;
	return at[0]->n * at[1]->n * at[2]->n;
}

/* Integers: exact, and wrapping around. */
static int64_t pool_window_ints(const struct pool *p, const uint8_t *plane, const struct window *const *at,
	int64_t *index)
{
	enum et_scalar_type type = p->x.type;
	int64_t most = 0, element;
	uint64_t sum = 0;
	*index = -1;
	for (int64_t i = 0; i < at[0]->n * at[1]->n * at[2]->n; i++) {
		int64_t d = at[0]->first + i / at[2]->n / at[1]->n * at[0]->step;
		int64_t h = at[1]->first + i / at[2]->n % at[1]->n * at[1]->step;
		int64_t w = at[2]->first + i % at[2]->n * at[2]->step;
		element = et_element_get_int(plane + (d * p->x.strides[2] + h * p->x.strides[3] + w * p->x.strides[4]) *
							     (int64_t)et_scalar_size(type),
			type);
		sum += (uint64_t)element;
		if (*index < 0 || element > most) {
			most = element;
			*index = (d * p->in[1] + h) * p->in[2] + w;
		}
	}
	int64_t divisor = divisor_of(p, at);
	if (p->pooling.is_max || divisor == 0)
		return most;
	return divisor == -1 ? (int64_t)-sum : (int64_t)sum / divisor;
}

/* The maximum so far and its position in the plane. Of equal numbers the first wins; NaN wins over all. */
struct largest {
	double number;
	int64_t index;
};

static void update_largest(struct largest *most, const double *row, int64_t n, int64_t index, int64_t step)
{
	for (int64_t k = 0; k < n; k++, index += step) {
		if (most->index < 0 || row[k] > most->number || row[k] != row[k])
			*most = (struct largest){ row[k], index };
	}
}

/* @sum plus @n numbers, in order. */
static double add_row(const struct pool *p, double sum, const double *row, int64_t n)
{
	if (p->pooling.rounds) {
		for (int64_t k = 0; k < n; k++)
			sum = et_round_to(sum + row[k], p->x.type);
	} else if (p->pooling.sums_floats) {
		for (int64_t k = 0; k < n; k++)
			sum = (float)(sum + row[k]);
	} else {
		for (int64_t k = 0; k < n; k++)
			sum += row[k];
	}
	return sum;
}

static double pool_window(const struct pool *p, const uint8_t *plane, const struct window *const *at, int64_t *index)
{
	enum { PART = 16 };
	enum et_scalar_type type = p->x.type;
	const int64_t bytes = (int64_t)et_scalar_size(type), step = p->x.strides[4] * at[2]->step;
	bool is_direct = type == ET_FLOAT64 && step == 1;
	et_load_fn load = et_loader(type, ET_F64);
	struct largest most = { -INFINITY, -1 };
	double sum = 0, room[PART];
	for (int64_t i = 0; i < at[0]->n; i++) {
		for (int64_t j = 0; j < at[1]->n; j++) {
			int64_t d = at[0]->first + i * at[0]->step, h = at[1]->first + j * at[1]->step;
			int64_t first = (d * p->in[1] + h) * p->in[2] + at[2]->first;
			const uint8_t *from = plane + (d * p->x.strides[2] + h * p->x.strides[3] +
							      at[2]->first * p->x.strides[4]) *
							      bytes;
			for (int64_t done = 0, part; done < at[2]->n; done += part) {
				const double *row = room;
				part = at[2]->n - done < PART ? at[2]->n - done : PART;
				if (is_direct)
					row = (const double *)(const void *)from + done;
				else
					load(room, from + done * step * bytes, step, (size_t)part);
				if (p->pooling.is_max)
					update_largest(&most, row, part, first + done * at[2]->step, at[2]->step);
				else
					sum = add_row(p, sum, row, part);
			}
		}
	}
	*index = most.index;
	if (p->pooling.is_max)
		return most.number;
	for (size_t d = 0; d < SPACE && p->pooling.divides_by_each; d++)
		sum = et_round_to(sum / et_round_to((double)at[d]->n, type), type);
	if (p->pooling.divides_by_each)
		return sum;
	double divisor = (double)divisor_of(p, at);
	return sum / (p->pooling.rounds ? et_round_to(divisor, type) : divisor);
}

/* Go to the next output position. */
static inline void next_output(const struct pool *p, int64_t *d, int64_t *h, int64_t *w)
{
	if (++*w < p->out[2])
		return;
	*w = 0;
	if (++*h < p->out[1])
		return;
	*h = 0;
	++*d;
}

/* Means of 1, 2, 4 or 8 planes at once. The planes' sums are independent of each other, and each has the same order as
 * if computed alone. */
#define MEAN_PLANES(name, number)                                                                                     \
	ET_EXPANDED void name##_window(size_t n_planes, const struct pool *p, const number *const *planes,            \
		const struct window *const *at, number *ret_sums)                                                     \
	{                                                                                                             \
		number sums[MAX_PLANES] = { 0 };                                                                      \
		int64_t step = p->x.strides[4] * at[2]->step;                                                         \
		for (int64_t d = 0; d < at[0]->n; d++) {                                                              \
			for (int64_t h = 0; h < at[1]->n; h++) {                                                      \
				int64_t row = (at[0]->first + d * at[0]->step) * p->x.strides[2] +                    \
					      (at[1]->first + h * at[1]->step) * p->x.strides[3] +                    \
					      at[2]->first * p->x.strides[4];                                         \
				for (int64_t k = 0; k < at[2]->n; k++, row += step) {                                 \
					for (size_t plane = 0; plane < n_planes; plane++)                             \
						sums[plane] += planes[plane][row];                                    \
				}                                                                                     \
			}                                                                                             \
		}                                                                                                     \
		memcpy(ret_sums, sums, n_planes * sizeof(*sums));                                                     \
	}                                                                                                             \
	ET_EXPANDED void name##_of(const struct pool *p, const struct et_place *places, size_t n_planes)              \
	{                                                                                                             \
		const number *planes[MAX_PLANES];                                                                     \
		uint8_t *results[MAX_PLANES];                                                                         \
		number sums[MAX_PLANES];                                                                              \
		int64_t bytes = (int64_t)et_scalar_size(p->y.type), d = 0, h = 0, w = 0;                              \
		et_store_fn store = et_storer(p->y.type, ET_F64);                                                     \
		for (size_t k = 0; k < n_planes; k++) {                                                               \
			planes[k] = (const number *)(const void *)p->x.data + places[k].offset[2];                    \
			results[k] = p->y.data + places[k].offset[0] * bytes;                                         \
		}                                                                                                     \
		struct et_pace pace = { p->compute };                                                                 \
		for (int64_t i = 0; i < p->out[0] * p->out[1] * p->out[2]; i++) {                                     \
			const struct window *at[SPACE] = { &p->windows[0][d], &p->windows[1][h], &p->windows[2][w] }; \
			if (et_pace_must_stop(&pace, n_planes * (size_t)(at[0]->n * at[1]->n * at[2]->n)))            \
				return;                                                                               \
			int64_t to = d * p->y.strides[2] + h * p->y.strides[3] + w * p->y.strides[4];                 \
			double divisor = (double)divisor_of(p, at);                                                   \
			name##_window(n_planes, p, planes, at, sums);                                                 \
			for (size_t k = 0; k < n_planes; k++) {                                                       \
				double mean = (double)sums[k] / divisor;                                              \
				store(results[k] + to * bytes, 1, &mean, 1);                                          \
			}                                                                                             \
			next_output(p, &d, &h, &w);                                                                   \
		}                                                                                                     \
	}                                                                                                             \
	static void name(const struct pool *p, const struct et_place *places, size_t n_planes)                        \
	{                                                                                                             \
		if (n_planes == 8)                                                                                    \
			name##_of(p, places, 8);                                                                      \
		else if (n_planes == 4)                                                                               \
			name##_of(p, places, 4);                                                                      \
		else if (n_planes == 2)                                                                               \
			name##_of(p, places, 2);                                                                      \
		else                                                                                                  \
			name##_of(p, places, 1);                                                                      \
	}
MEAN_PLANES(mean_floats, float)
MEAN_PLANES(mean_doubles, double)

/* Planes [begin, end) of batch times channel. */
static void pool_planes(void *arg, size_t begin, size_t end)
{
	const struct pool *p = arg;
	struct et_place place;
	et_place_seek(&place, &p->planes, begin);
	/* fp16 and bf16 were converted to float before */
	bool are_floats = p->pooling.sums_floats && p->x.type == ET_FLOAT32,
	     are_doubles = p->x.type == ET_FLOAT64 && !p->pooling.is_max && !p->pooling.rounds &&
			   !p->pooling.divides_by_each;
	size_t plane = begin;
	while ((are_floats || are_doubles) && plane < end) {
		struct et_place places[MAX_PLANES];
		size_t n = MAX_PLANES;
		while (n > end - plane)
			n /= 2;
		for (size_t k = 0; k < n; k++) {
			places[k] = place;
			et_place_advance(&place, &p->planes, 1);
		}
		(are_floats ? mean_floats : mean_doubles)(p, places, n);
		plane += n;
	}
	struct et_pace pace = { p->compute };
	for (; plane < end; plane++) {
		const uint8_t *x = p->x.data + place.offset[2] * (int64_t)et_scalar_size(p->x.type);
		int64_t d = 0, h = 0, w = 0, index;
		for (int64_t i = 0; i < p->out[0] * p->out[1] * p->out[2]; i++, next_output(p, &d, &h, &w)) {
			const struct window *at[SPACE] = { &p->windows[0][d], &p->windows[1][h], &p->windows[2][w] };
			if (et_pace_must_stop(&pace, (size_t)(at[0]->n * at[1]->n * at[2]->n)))
				return;
			int64_t to = place.offset[0] + d * p->y.strides[2] + h * p->y.strides[3] + w * p->y.strides[4];
			uint8_t *element = p->y.data + to * (int64_t)et_scalar_size(p->y.type);
			if (et_type_is_float(p->x.type))
				et_element_set_double(element, p->y.type, pool_window(p, x, at, &index));
			else
				et_element_set_int(element, p->y.type, pool_window_ints(p, x, at, &index));
			if (!p->indices.data)
				continue;
			to = place.offset[1] + d * p->indices.strides[2] + h * p->indices.strides[3] +
			     w * p->indices.strides[4];
			et_element_set_int(p->indices.data + to * (int64_t)et_scalar_size(p->indices.type),
				p->indices.type, index);
		}
		et_place_advance(&place, &p->planes, 1);
	}
}

/* A view with five dimensions: batch, channel, space; inserted dimensions have size 1. */
static void insert_missing(struct et_view *view, size_t n_space)
{
	while (view->n_dims < n_space + 2)
		et_view_insert(view, 0, 1, 0);
	while (view->n_dims < SPACE + 2)
		et_view_insert(view, 2, 1, 0);
}

static void widen(struct et_view *view, const struct et_tensor *tensor, size_t n_space)
{
	et_view_of(view, tensor);
	insert_missing(view, n_space);
}

/* Regular windows in one dimension. */
struct grid {
	int64_t kernel, stride, padding, dilation;
};

static enum et_status regular_size(struct et_kernel_ctx *ctx, const struct grid *g, int64_t in, bool is_ceil,
	int64_t *ret_out)
{
	ET_REQUIRE(ctx,
		g->kernel > 0 && g->kernel < INT32_MAX && g->stride > 0 && g->stride < INT32_MAX && g->dilation > 0 &&
			g->dilation < INT32_MAX && g->padding >= 0 && g->padding <= g->kernel / 2,
		"kernel %lld, stride %lld, padding %lld, dilation %lld", (long long)g->kernel, (long long)g->stride,
		(long long)g->padding, (long long)g->dilation);
	int64_t room = in + 2 * g->padding - g->dilation * (g->kernel - 1) - 1;
	int64_t reach = is_ceil ? room + g->stride - 1 : room;
	/* A window that lacks less than a stride is cut off, as in ExecuTorch: the quotient is then 0, not -1. */
	*ret_out = reach / g->stride + 1;
	if (is_ceil && (*ret_out - 1) * g->stride >= in + g->padding) /* it would begin in the padding */
		--*ret_out;
	ET_REQUIRE(ctx, *ret_out > 0 && in > 0, "a window of %lld does not fit an input of %lld", (long long)g->kernel,
		(long long)in);
	return ET_OK;
}

/* n / step, rounded up; without a division for the usual step of 1. */
static int64_t div_round_up(int64_t n, int64_t step)
{
	return step == 1 ? n : (n + step - 1) / step;
}

static struct window regular_window(const struct grid *g, int64_t in, int64_t out)
{
	int64_t first = out * g->stride - g->padding, end = first + (g->kernel - 1) * g->dilation + 1;
	int64_t padded = end < in + g->padding ? end : in + g->padding;
	struct window window = { .step = g->dilation };
	window.n_padded = padded > first ? div_round_up(padded - first, g->dilation) : 0;
	if (first < 0)
		first += div_round_up(-first, g->dilation) * g->dilation;
	end = end < in ? end : in;
	window.first = first;
	window.n = end > first ? div_round_up(end - first, g->dilation) : 0;
	return window;
}

static struct window adaptive_window(int64_t in, int64_t n_out, int64_t out)
{
	int64_t first = out * in / n_out, end = ((out + 1) * in + n_out - 1) / n_out;
	return (struct window){ first, 1, end - first, end - first };
}

/* Fill the table of dimension @at; @grid is NULL for adaptive pooling. */
static void fill_windows(struct pool *p, size_t at, const struct grid *grid, bool is_empty)
{
	struct window *windows = p->windows[at];
	int64_t in = p->in[at], n = p->out[at];
	if (n == 1 && (!grid || (grid->kernel == 1 && grid->padding == 0)))
		windows[0] = (struct window){ 0, 1, grid ? 1 : in, grid ? 1 : in };
	else
		for (int64_t o = 0; o < n; o++)
			windows[o] = grid ? regular_window(grid, in, o) : adaptive_window(in, n, o);
	/* If the input is empty in one dimension, the others may be larger than any memory, so nothing is read. */
	for (int64_t o = 0; is_empty && o < n; o++)
		windows[o].n = 0;
}

/* The arguments of the kernels of this file. */
struct request {
	size_t n_space;
	const struct et_tensor *self;
	const struct et_evalue *kernel, *stride, *padding, *dilation; /* regular pooling; NULL: the default */
	bool is_ceil;
	const struct et_evalue *sizes; /* adaptive pooling */
	struct et_tensor *out, *indices;
};

static enum et_status resize_outputs(struct et_kernel_ctx *ctx, struct pool *p, const struct request *r)
{
	int64_t sizes[ET_MAX_DIMS];
	for (size_t d = 0; d < r->self->n_dims; d++) {
		size_t from_end = r->self->n_dims - d;
		sizes[d] = from_end <= r->n_space ? p->out[SPACE - from_end] : r->self->sizes[d];
	}
	ET_TRY(et_resize(ctx, r->out, sizes, r->self->n_dims));
	widen(&p->y, r->out, r->n_space);
	et_view_clone(&p->indices, &p->y);
	p->indices.data = NULL;
	if (r->indices) {
		ET_TRY(et_require_type(ctx, r->indices, ET_INT64, "the indices"));
		ET_TRY(et_resize(ctx, r->indices, sizes, r->self->n_dims));
		widen(&p->indices, r->indices, r->n_space);
	}
	return ET_OK;
}

/* Sizes first, then the outputs, which bound them, and only then tables of these sizes. */
static enum et_status run_pool(struct et_kernel_ctx *ctx, const struct pooling *pooling, const struct request *r)
{
	struct pool pool, *p = &pool; /* not cleared: it is larger than many a tensor */
	struct grid grids[SPACE];
	struct et_view outer[3];
	const struct et_tensor *self = r->self;
	ET_REQUIRE(ctx, self->n_dims == r->n_space + 1 || self->n_dims == r->n_space + 2, "rank %u", self->n_dims);
	ET_TRY(et_require_same_type(ctx, self, r->out));
	ET_REQUIRE(ctx, et_loader(self->type, ET_F64), "does not take %s", et_scalar_name(self->type));
	p->pooling = *pooling;
	p->compute = ctx->compute;
	widen(&p->x, self, r->n_space);
	for (size_t at = 0; at < SPACE; at++) {
		bool is_missing = at + r->n_space < SPACE;
		size_t d = at + r->n_space - SPACE;
		grids[at] = (struct grid){ 1, 1, 0, 1 };
		p->in[at] = p->x.sizes[2 + at];
		p->out[at] = 1;
		if (is_missing)
			continue;
		if (r->sizes) {
			p->out[at] = et_list_int_or(r->sizes, d, 1);
			continue;
		}
		int64_t kernel = et_list_int_or(r->kernel, d, 1);
		grids[at] = (struct grid){ kernel, et_list_int_or(r->stride, d, kernel),
			et_list_int_or(r->padding, d, 0), et_list_int_or(r->dilation, d, 1) };
		ET_TRY(regular_size(ctx, &grids[at], p->in[at], r->is_ceil, &p->out[at]));
	}
	ET_TRY(resize_outputs(ctx, p, r));
	if (et_tensor_numel(r->out) == 0)
		return ET_OK;
	if (p->pooling.sums_floats && et_type_is_half(self->type)) {
		if (!et_local_copy(ctx, self, ET_FLOAT32, &p->x))
			return ET_E_MEMORY_ALLOCATION_FAILED;
		insert_missing(&p->x, r->n_space);
	}
	size_t n_windows = (size_t)p->out[0] + (size_t)p->out[1] + (size_t)p->out[2];
	p->windows[0] = et_kernel_scratch(ctx, n_windows * sizeof(struct window));
	if (!p->windows[0])
		return ET_E_MEMORY_ALLOCATION_FAILED;
	p->windows[1] = p->windows[0] + p->out[0];
	p->windows[2] = p->windows[1] + p->out[1];
	bool is_empty = et_tensor_numel(self) == 0;
	for (size_t at = 0; at < SPACE; at++)
		fill_windows(p, at, r->sizes ? NULL : &grids[at], is_empty);
	et_view_clone(&outer[0], &p->y);
	et_view_clone(&outer[1], &p->indices);
	et_view_clone(&outer[2], &p->x);
	for (size_t k = 0; k < 3; k++)
		outer[k].n_dims = 2;
	et_walk_init(&p->planes, (const struct et_view *[]){ &outer[0], &outer[1], &outer[2] }, 3);
	size_t work = (size_t)(p->out[0] * p->out[1] * p->out[2]);
	et_parallel_for(ctx->compute, pool_planes, p, p->planes.numel, 4096 / work + 1);
	return ET_OK;
}

static size_t n_space_of(struct et_kernel_ctx *ctx)
{
	return *(const size_t *)ctx->kernel->row;
}

static enum et_status run_avg_pool(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct pooling pooling = { .counts_padding = args[5]->b };
	struct request request = { n_space_of(ctx), args[0]->tensor, args[1], args[2], args[3], .is_ceil = args[4]->b,
		.out = args[7]->tensor };
	pooling.sums_floats = n_space_of(ctx) == 2 && args[0]->tensor->type == ET_FLOAT32;
	pooling.rounds = n_space_of(ctx) == 2 && et_type_is_half(args[0]->tensor->type);
	if (!et_is_none(args[6])) {
		pooling.divisor = args[6]->i;
		ET_REQUIRE(ctx, pooling.divisor != 0, "a divisor of 0");
	}
	return run_pool(ctx, &pooling, &request);
}

static enum et_status run_max_pool(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct pooling pooling = { .is_max = true };
	struct request request = { n_space_of(ctx), args[0]->tensor, args[1], args[2], args[3], args[4], args[5]->b,
		.out = args[6]->tensor, .indices = args[7]->tensor };
	return run_pool(ctx, &pooling, &request);
}

/* self, sizes > out, and indices for max */
static enum et_status run_adaptive_pool(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	bool is_max = strchr(ctx->kernel->signature, '>')[2] != '\0';
	bool rounds = !is_max && n_space_of(ctx) == 3;
	bool sums_floats = !is_max && !rounds && args[0]->tensor->type != ET_FLOAT64;
	struct pooling pooling = {
		.is_max = is_max, .rounds = rounds, .sums_floats = sums_floats, .divides_by_each = rounds
	};
	struct request request = { n_space_of(ctx), args[0]->tensor, .sizes = args[1], .out = args[2]->tensor,
		.indices = is_max ? args[3]->tensor : NULL };
	return run_pool(ctx, &pooling, &request);
}

/* Add @n gradients of a plane to the elements their maxima came from, among @n_in numbers. Returns how many were added;
 * if an index was out of range, it is in @ret_index. Each index is read once, as a client may change it. */
#define SCATTER_GRAD(name, type, from, to)                                                             \
	static size_t name(size_t n, size_t n_in, void *out, const void *grad, const int64_t *indices, \
		int64_t *ret_index)                                                                    \
	{                                                                                              \
		type *numbers = out;                                                                   \
		for (size_t i = 0; i < n; i++) {                                                       \
			const int64_t index = ((const volatile int64_t *)indices)[i];                  \
			if ((uint64_t)index >= n_in) {                                                 \
				*ret_index = index;                                                    \
				return i;                                                              \
			}                                                                              \
			numbers[index] = to(from(numbers[index]) + from(((const type *)grad)[i]));     \
		}                                                                                      \
		return n;                                                                              \
	}
#define AS_IS
SCATTER_GRAD(scatter_grad_floats, float, AS_IS, AS_IS)
SCATTER_GRAD(scatter_grad_doubles, double, AS_IS, AS_IS)
SCATTER_GRAD(scatter_grad_bf16, uint16_t, et_bf16_to_float, et_float_to_bf16)
SCATTER_GRAD(scatter_grad_fp16, uint16_t, et_fp16_to_float, et_float_to_fp16)

/* Each gradient is added where its maximum came from. */
static enum et_status run_max_pool_backward(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *grad = args[0]->tensor, *self = args[1]->tensor, *indices = args[7]->tensor;
	struct et_tensor *out = args[8]->tensor;
	size_t n_in = 1, n_out = 1, bytes = et_element_bytes(out);
	ET_TRY(et_require_same_type(ctx, grad, out));
	ET_TRY(et_require_type(ctx, indices, ET_INT64, "the indices"));
	ET_REQUIRE(ctx, et_type_is_float(grad->type), "does not take %s", et_scalar_name(grad->type));
	ET_REQUIRE(ctx, self->n_dims >= 3 && grad->n_dims == self->n_dims && indices->n_dims == self->n_dims,
		"ranks %u, %u and %u", grad->n_dims, self->n_dims, indices->n_dims);
	for (size_t d = 0; d < self->n_dims; d++) {
		bool is_space = d + 2 >= self->n_dims;
		ET_REQUIRE(ctx, grad->sizes[d] == indices->sizes[d] && (is_space || grad->sizes[d] == self->sizes[d]),
			"sizes differ in dimension %zu", d);
		n_in *= is_space ? (size_t)self->sizes[d] : 1;
		n_out *= is_space ? (size_t)grad->sizes[d] : 1;
	}
	ET_TRY(et_require_contiguous(ctx, grad, "the gradient"));
	ET_TRY(et_require_contiguous(ctx, indices, "the indices"));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	ET_TRY(et_resize_like(ctx, out, self));
	et_fill_many(ctx->compute, out->data, &(const uint8_t){ 0 }, et_tensor_n_bytes(out), 1);
	size_t (*scatter_grad)(size_t, size_t, void *, const void *, const int64_t *,
		int64_t *) = out->type == ET_FLOAT32    ? scatter_grad_floats
			     : out->type == ET_FLOAT64  ? scatter_grad_doubles
			     : out->type == ET_BFLOAT16 ? scatter_grad_bf16
							: scatter_grad_fp16;
	uint8_t *to = out->data;
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0, numel = et_tensor_numel(grad); i < numel && !et_pace_must_stop(&pace, 1);
		i += n_out, to += n_in * bytes) {
		for (size_t at = 0, part; (part = et_pace_chunk(&pace, at, n_out)); at += part) {
			int64_t index = 0;
			ET_REQUIRE(ctx,
				scatter_grad(part, n_in, to, (const uint8_t *)grad->data + (i + at) * bytes,
					(const int64_t *)indices->data + i + at, &index) == part,
				"index %lld of %zu", (long long)index, n_in);
		}
	}
	return ET_OK;
}

static const size_t two = 2, three = 3;

static const struct et_kernel rows[] = {
	{ "aten::_adaptive_avg_pool2d.out", "TV>T", run_adaptive_pool, &two },
	{ "aten::_adaptive_avg_pool3d.out", "TV>T", run_adaptive_pool, &three },
	{ "aten::adaptive_avg_pool2d.out", "TV>T", run_adaptive_pool, &two },
	{ "aten::adaptive_avg_pool3d.out", "TV>T", run_adaptive_pool, &three },
	{ "aten::adaptive_max_pool2d.out", "TV>TT", run_adaptive_pool, &two },
	{ "aten::adaptive_max_pool3d.out", "TV>TT", run_adaptive_pool, &three },
	{ "aten::avg_pool2d.out", "TVVVBBi>T", run_avg_pool, &two },
	{ "aten::avg_pool3d.out", "TVVVBBi>T", run_avg_pool, &three },
	{ "aten::max_pool2d_with_indices.out", "TVVVVB>TT", run_max_pool, &two },
	{ "aten::max_pool2d_with_indices_backward.grad_input", "TTVVVVBT>T", run_max_pool_backward },
	{ "aten::max_pool3d_with_indices.out", "TVVVVB>TT", run_max_pool, &three },
};

ET_KERNEL_TABLE(pool);
