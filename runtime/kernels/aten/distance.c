/* SPDX-License-Identifier: BSD-3-Clause */
/* Distances between vectors: of all pairs from two sets, of all pairs within one set, of two whole tensors.
 *
 * All are the p-norm of a difference, summed in double (differences of floats, and powers of them, are floats): p = 0
 * counts, infinity takes the maximum. Pairs are computed a block at a time: a block of the other vectors is transposed
 * first, so that numbers of adjacent vectors are adjacent, and several rows share it. */
#include "runtime/kernels/simd/ukernels.h"
#include "runtime/kernels/simd/span_ukernels.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/engine/elementwise.h"

#include <math.h>

enum {
	ROWS = 16,
	TERMS = 32,
	POWER_STEPS = 4, /* of et_pace */
};

static bool is_power(double p)
{
	return p != 0 && p != 1 && p != 2 && !isinf(p);
}

/* Vectors of @n numbers of @type: @next from one vector to the next, @step from one number to the next. */
struct vectors {
	const uint8_t *data;
	int64_t next, step; /* in elements */
};

/* The distances between @rows and @others: at most ROWS and ET_DISTANCES vectors. */
struct block {
	struct vectors rows, others;
	size_t n_rows, n_others, n;
	enum et_scalar_type type;
	double p;
	bool is_triangle; /* the distances of row r to the first r others are not wanted */
};

/* Add powers of the differences between one vector and the others, in the layout of struct et_distances. */
static void add_float_powers(const struct et_distances *d, double p)
{
	float powers[ET_DISTANCES], exponents[ET_DISTANCES];
	for (size_t k = 0; k < d->n_others; k++)
		exponents[k] = (float)p;
	for (size_t j = 0; j < d->n; j++) {
		const float from = ((const float *)d->from)[j], *others = (const float *)d->others + j * ET_DISTANCES;
		for (size_t k = 0; k < d->n_others; k++)
			powers[k] = fabsf(from - others[k]);
		et_ukernels()->each_pow(d->n_others, powers, powers, exponents);
		for (size_t k = 0; k < d->n_others; k++)
			d->sums[k] += (double)powers[k];
	}
}

static void add_double_powers(const struct et_distances *d, double p)
{
	for (size_t j = 0; j < d->n; j++) {
		const double from = ((const double *)d->from)[j],
			     *others = (const double *)d->others + j * ET_DISTANCES;
		for (size_t k = 0; k < d->n_others; k++)
			d->sums[k] += pow(fabs(from - others[k]), p);
	}
}

static void add_distances(const struct et_distances *d, enum et_compute_class compute_class, double p)
{
	enum et_distance kind = p == 0   ? ET_DISTANCE_COUNT
				: p == 1 ? ET_DISTANCE_SUM
				: p == 2 ? ET_DISTANCE_SQUARES
					 : ET_DISTANCE_LARGEST;
	if (is_power(p) && compute_class == ET_F32)
		add_float_powers(d, p);
	else if (is_power(p))
		add_double_powers(d, p);
	else if (compute_class == ET_F32)
		et_span_ukernels()->float_distances(d, kind);
	else
		et_span_ukernels()->double_distances(d, kind);
}

/* The distances of @block, one row after another, with the others transposed. False: the run must end. */
static bool measure(struct et_pace *pace, const struct block *block, double (*distances)[ET_DISTANCES])
{
	union {
		float f[TERMS * ET_DISTANCES];
		double d[TERMS * ET_DISTANCES];
	} others;
	union {
		float f[TERMS];
		double d[TERMS];
	} row;
	enum et_compute_class compute_class = et_class_of(block->type);
	et_load_fn load = et_loader(block->type, compute_class);
	const size_t bytes = et_scalar_size(block->type),
		     size = compute_class == ET_F32 ? sizeof(float) : sizeof(double),
		     n_lanes = (block->n_others + 7) / 8 * 8, n_more = n_lanes - block->n_others;
	const size_t term_steps = is_power(block->p) ? POWER_STEPS : 1;
	for (size_t r = 0; r < block->n_rows; r++)
		memset(distances[r], 0, n_lanes * sizeof(double));
	for (size_t i = 0, part; i < block->n; i += part) {
		part = block->n - i < TERMS ? block->n - i : TERMS;
		if (et_pace_must_stop(pace, part * block->n_rows * block->n_others * term_steps))
			return false;
		for (size_t j = 0; j < part; j++) {
			uint8_t *to = (uint8_t *)&others + j * ET_DISTANCES * size;
			load(to, block->others.data + (int64_t)(i + j) * block->others.step * (int64_t)bytes,
				block->others.next, block->n_others);
			memset(to + block->n_others * size, 0, n_more * size);
		}
		for (size_t r = 0; r < block->n_rows; r++) {
			const size_t first = !block->is_triangle ? 0 : is_power(block->p) ? r : r / 8 * 8;
			if (first >= block->n_others)
				break;
			load(&row,
				block->rows.data + ((int64_t)r * block->rows.next + (int64_t)i * block->rows.step) *
							   (int64_t)bytes,
				block->rows.step, part);
			add_distances(&(const struct et_distances){ part, block->n_others - first, i + part == block->n,
					      &row, (const uint8_t *)&others + first * size, distances[r] + first },
				compute_class, block->p);
		}
	}
	for (size_t r = 0; is_power(block->p) && r < block->n_rows; r++) {
		for (size_t k = 0; k < block->n_others; k++)
			distances[r][k] = pow(distances[r][k], 1 / block->p);
	}
	return true;
}

/* Distances from each of @n_rows vectors to each of @n_others, stored at @to with these strides. */
static void measure_all(struct et_pace *pace, const struct block *all, uint8_t *to, int64_t row, int64_t column)
{
	double distances[ROWS][ET_DISTANCES];
	et_store_fn store = et_storer(all->type, ET_F64);
	const int64_t bytes = (int64_t)et_scalar_size(all->type);
	struct block block = *all;
	for (size_t k = 0; k < all->n_others; k += ET_DISTANCES) {
		block.n_others = all->n_others - k < ET_DISTANCES ? all->n_others - k : ET_DISTANCES;
		block.others.data = all->others.data + (int64_t)k * all->others.next * bytes;
		for (size_t i = 0; i < all->n_rows; i += ROWS) {
			block.n_rows = all->n_rows - i < ROWS ? all->n_rows - i : ROWS;
			block.rows.data = all->rows.data + (int64_t)i * all->rows.next * bytes;
			if (et_pace_must_stop(pace, block.n_rows * block.n_others) || !measure(pace, &block, distances))
				return;
			for (size_t r = 0; r < block.n_rows; r++)
				store(to + ((int64_t)(i + r) * row + (int64_t)k * column) * bytes, column, distances[r],
					block.n_others);
		}
	}
}

/* The vectors in the last two dimensions of @view, which are removed from the view. */
static struct vectors split_vectors(struct et_view *view)
{
	size_t last = (size_t)view->n_dims - 1;
	struct vectors vectors = { view->data, view->strides[last - 1], view->strides[last] };
	et_view_remove(view, last);
	et_view_remove(view, last - 1);
	return vectors;
}

/* x1 (…, P, M), x2 (…, R, M), p, mode > out (…, P, R) */
static enum et_status run_cdist(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x1 = args[0]->tensor, *x2 = args[1]->tensor;
	struct et_tensor *out = args[4]->tensor;
	struct et_view a, b, y;
	struct et_walk walk;
	struct et_place place;
	int64_t sizes[ET_MAX_DIMS], bytes = (int64_t)et_element_bytes(x1);
	struct block all = { .type = x1->type, .p = args[2]->d };
	ET_REQUIRE(ctx, x1->n_dims >= 2 && x2->n_dims >= 2, "ranks %u and %u", x1->n_dims, x2->n_dims);
	ET_TRY(et_require_same_type(ctx, x1, x2));
	ET_TRY(et_require_same_type(ctx, x1, out));
	ET_REQUIRE(ctx, et_type_is_float(x1->type) && all.p >= 0, "takes floats and p >= 0");
	et_view_of(&a, x1);
	et_view_of(&b, x2);
	all.n = (size_t)a.sizes[a.n_dims - 1];
	all.n_rows = (size_t)a.sizes[a.n_dims - 2];
	all.n_others = (size_t)b.sizes[b.n_dims - 2];
	ET_REQUIRE(ctx, b.sizes[b.n_dims - 1] == (int64_t)all.n, "vectors of %zu and %lld", all.n,
		(long long)b.sizes[b.n_dims - 1]);
	all.rows = split_vectors(&a);
	all.others = split_vectors(&b);
	ET_REQUIRE(ctx, et_view_broadcast_both(&a, &b), "the batches do not broadcast");
	memcpy(sizes, a.sizes, a.n_dims * sizeof(*sizes));
	sizes[a.n_dims] = (int64_t)all.n_rows;
	sizes[a.n_dims + 1] = (int64_t)all.n_others;
	ET_TRY(et_resize(ctx, out, sizes, (size_t)a.n_dims + 2));
	et_view_of(&y, out);
	const struct vectors to = split_vectors(&y);
	et_walk_init(&walk, (const struct et_view *[]){ &y, &a, &b }, 3);
	et_place_seek(&place, &walk, 0);
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0; et_tensor_numel(out) > 0 && i < walk.numel && !et_pace_must_stop(&pace, 1); i++) {
		all.rows.data = a.data + place.offset[1] * bytes;
		all.others.data = b.data + place.offset[2] * bytes;
		measure_all(&pace, &all, y.data + place.offset[0] * bytes, to.next, to.step);
		et_place_advance(&place, &walk, 1);
	}
	return ET_OK;
}

/* x (N, M), p > out: the pairs (0,1), (0,2) … (1,2) …; of a block, only the distances of these pairs are stored. */
static enum et_status run_pdist(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor;
	struct et_tensor *out = args[2]->tensor;
	double distances[ROWS][ET_DISTANCES];
	ET_REQUIRE(ctx, x->n_dims == 2 && et_type_is_float(x->type) && args[1]->d >= 0,
		"takes a matrix of floats and p >= 0");
	ET_TRY(et_require_same_type(ctx, x, out));
	int64_t n = x->sizes[0], bytes = (int64_t)et_element_bytes(x), row = x->strides[0] * bytes;
	int64_t n_pairs = n * (n - 1) / 2;
	ET_TRY(et_resize(ctx, out, &n_pairs, 1));
	uint8_t *to = out->data;
	struct block block = { .n = (size_t)x->sizes[1], .type = x->type, .p = args[1]->d };
	block.rows = block.others = (struct vectors){ x->data, x->strides[0], x->strides[1] };
	et_store_fn store = et_storer(out->type, ET_F64);
	struct et_pace pace = { ctx->compute };
	for (int64_t i = 0; i + 1 < n; i += ROWS) {
		block.n_rows = (size_t)(n - 1 - i < ROWS ? n - 1 - i : ROWS);
		block.rows.data = (const uint8_t *)x->data + i * row;
		for (int64_t j = i + 1; j < n && !et_pace_must_stop(&pace, ROWS * ET_DISTANCES); j += ET_DISTANCES) {
			block.n_others = (size_t)(n - j < ET_DISTANCES ? n - j : ET_DISTANCES);
			block.others.data = (const uint8_t *)x->data + j * row;
			block.is_triangle = j == i + 1;
			if (!measure(&pace, &block, distances))
				return ET_OK;
			for (int64_t r = i; r < i + (int64_t)block.n_rows; r++) {
				int64_t first = r < j ? j : r + 1, skipped = first - j;
				if (skipped < (int64_t)block.n_others)
					store(to + (r * (2 * n - r - 1) / 2 + first - r - 1) * bytes, 1,
						&distances[r - i][skipped], block.n_others - (size_t)skipped);
			}
		}
	}
	return ET_OK;
}

static void add_difference(double *sum, double p, double difference)
{
	double size = fabs(difference);
	if (isinf(p))
		*sum = size > *sum || size != size ? size : *sum;
	else if (p == 0)
		*sum += size != 0;
	else
		*sum += is_power(p) ? pow(size, p) : p == 2 ? size * size : size;
}

static enum et_status run_dist(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor, *other = args[1]->tensor;
	struct et_tensor *out = args[3]->tensor;
	double sum = 0, p = et_number_double(args[2]);
	struct et_view a, b;
	struct et_walk walk;
	struct et_place place;
	ET_REQUIRE(ctx,
		et_type_is_float(self->type) && et_type_is_float(other->type) && et_type_is_float(out->type) && p >= 0,
		"takes floats and p >= 0");
	et_view_of(&a, self);
	et_view_of(&b, other);
	ET_REQUIRE(ctx, et_view_broadcast_both(&a, &b), "the tensors do not broadcast");
	ET_TRY(et_resize(ctx, out, NULL, 0));
	et_walk_init(&walk, (const struct et_view *[]){ &a, &b }, 2);
	et_place_seek(&place, &walk, 0);
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0; i < walk.numel && !et_pace_must_stop(&pace, is_power(p) ? POWER_STEPS : 1); i++) {
		add_difference(&sum, p,
			et_element_get_double(a.data + place.offset[0] * (int64_t)et_scalar_size(a.type), a.type) -
				et_element_get_double(b.data + place.offset[1] * (int64_t)et_scalar_size(b.type),
					b.type));
		et_place_advance(&place, &walk, 1);
	}
	et_element_set_double(out->data, out->type, is_power(p) ? pow(sum, 1 / p) : p == 2 ? sqrt(sum) : sum);
	return ET_OK;
}

static const struct et_kernel rows[] = {
	{ "aten::_cdist_forward.out", "TTDi>T", run_cdist, .multiplies = true },
	{ "aten::_pdist_forward.out", "TD>T", run_pdist, .multiplies = true },
	{ "aten::dist.out", "TTS>T", run_dist },
};

ET_KERNEL_TABLE(distance);
