/* Distances between vectors: of all pairs from two sets, of all pairs within one, of two whole tensors.
 *
 * All are the p-norm of a difference, summed in double (differences, and powers of
 * them, of floats are floats): p = 0 counts, infinity takes the largest. */
#include "runtime/kernels/hot.h"
#include "runtime/kernels/hot_spans.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/map.h"

#include <math.h>

enum { BLOCK = 128 };

struct norm {
	double p, sum;
};

static bool is_power(const struct norm *norm)
{
	return norm->p != 0 && norm->p != 1 && norm->p != 2 && !isinf(norm->p);
}

/* Of powers already raised, where @norm is of any other than these. */
static void add_sizes(struct norm *norm, const double *sizes, size_t n)
{
	enum { LANES = 4 };
	double sums[LANES] = { 0 };
	size_t i = 0;
	for (; isinf(norm->p) && i < n; i++)
		norm->sum = sizes[i] > norm->sum || sizes[i] != sizes[i] ? sizes[i] : norm->sum;
	for (; norm->p == 0 && i < n; i++)
		norm->sum += sizes[i] != 0;
	for (; norm->p == 2 && i + LANES <= n; i += LANES) {
		for (size_t lane = 0; lane < LANES; lane++)
			sums[lane] += sizes[i + lane] * sizes[i + lane];
	}
	for (; i + LANES <= n; i += LANES) {
		for (size_t lane = 0; lane < LANES; lane++)
			sums[lane] += sizes[i + lane];
	}
	for (; i < n; i++)
		norm->sum += (norm->p == 2 ? sizes[i] : 1) * sizes[i];
	norm->sum += (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static void add_difference(struct norm *norm, double difference)
{
	double size = fabs(difference);
	if (is_power(norm))
		size = pow(size, norm->p);
	add_sizes(norm, &size, 1);
}

static double finish(const struct norm *norm)
{
	if (norm->p == 0 || norm->p == 1 || isinf(norm->p))
		return norm->sum;
	return norm->p == 2 ? sqrt(norm->sum) : pow(norm->sum, 1 / norm->p);
}

/* Floats, and halves as such: @n from each of two places. */
static void add_floats(struct norm *norm, const float *a, const float *b, size_t n)
{
	float powers[BLOCK], exponents[BLOCK];
	double sizes[BLOCK];
	for (size_t i = 0; i < n; i++)
		powers[i] = fabsf(a[i] - b[i]);
	for (size_t i = 0; is_power(norm) && i < n; i++)
		exponents[i] = (float)norm->p;
	if (is_power(norm))
		et_hot()->each_pow(n, powers, powers, exponents);
	for (size_t i = 0; i < n; i++)
		sizes[i] = (double)powers[i];
	add_sizes(norm, sizes, n);
}

static void add_doubles(struct norm *norm, const double *a, const double *b, size_t n)
{
	double sizes[BLOCK];
	for (size_t i = 0; i < n; i++)
		sizes[i] = fabs(a[i] - b[i]);
	for (size_t i = 0; is_power(norm) && i < n; i++)
		sizes[i] = pow(sizes[i], norm->p);
	add_sizes(norm, sizes, n);
}

/* Between @n elements from each of two places, @step apart. */
static __attribute__((noinline)) double distance_by_blocks(const uint8_t *a, const uint8_t *b, int64_t step_a,
	int64_t step_b, size_t n, enum et_scalar_type type, double p)
{
	struct norm norm = { .p = p };
	union {
		float f[BLOCK];
		double d[BLOCK];
	} of_a, of_b;
	enum et_class class = et_class_of(type);
	et_load_fn load = et_loader(type, class);
	int64_t bytes = (int64_t)et_scalar_size(type);
	for (size_t i = 0; i < n; i += BLOCK) {
		size_t part = n - i < BLOCK ? n - i : BLOCK;
		const uint8_t *from_a = a + (int64_t)i * step_a * bytes,
			      *from_b = b + (int64_t)i * step_b * bytes;
		if (type == ET_FLOAT32 && step_a == 1 && step_b == 1) {
			add_floats(&norm, (const float *)(const void *)from_a,
				(const float *)(const void *)from_b, part);
			continue;
		}
		load(&of_a, from_a, step_a, part);
		load(&of_b, from_b, step_b, part);
		if (class == ET_F32)
			add_floats(&norm, of_a.f, of_b.f, part);
		else
			add_doubles(&norm, of_a.d, of_b.d, part);
	}
	return finish(&norm);
}

/* From @n elements at @a, @step_a apart, to @n_others others at @b, @next elements apart. */
static void distances_to(const uint8_t *a, const uint8_t *b, int64_t step_a, int64_t step_b, int64_t next,
	size_t n_others, size_t n, enum et_scalar_type type, double p, double *distances)
{
	bool is_plain = step_a == 1 && step_b == 1 && !is_power(&(struct norm){ .p = p });
	enum et_distance kind = p == 0   ? ET_DISTANCE_COUNT
				: p == 1 ? ET_DISTANCE_SUM
				: p == 2 ? ET_DISTANCE_SQUARES
					 : ET_DISTANCE_LARGEST;
	if (is_plain && type == ET_FLOAT32) {
		et_hot_spans()->float_distances((const float *)(const void *)a,
			(const float *)(const void *)b, next, n_others, n, distances, kind);
		return;
	}
	if (is_plain && type == ET_FLOAT64) {
		et_hot_spans()->double_distances((const double *)(const void *)a,
			(const double *)(const void *)b, next, n_others, n, distances, kind);
		return;
	}
	for (size_t k = 0; k < n_others; k++)
		distances[k] = distance_by_blocks(
			a, b + (int64_t)k * next * (int64_t)et_scalar_size(type), step_a, step_b, n, type, p);
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
	double p = args[2]->d;
	ET_REQUIRE(ctx, x1->n_dims >= 2 && x2->n_dims >= 2, "ranks %u and %u", x1->n_dims, x2->n_dims);
	ET_TRY(et_require_same_type(ctx, x1, x2));
	ET_TRY(et_require_same_type(ctx, x1, out));
	ET_REQUIRE(ctx, et_type_is_float(x1->type) && p >= 0, "takes floats and p >= 0");
	et_view_of(&a, x1);
	et_view_of(&b, x2);
	size_t n_dims = a.n_dims > b.n_dims ? a.n_dims : b.n_dims;
	int64_t m = a.sizes[a.n_dims - 1], rows = a.sizes[a.n_dims - 2], columns = b.sizes[b.n_dims - 2];
	ET_REQUIRE(ctx, b.sizes[b.n_dims - 1] == m, "vectors of %lld and %lld", (long long)m,
		(long long)b.sizes[b.n_dims - 1]);
	int64_t step_a = a.strides[a.n_dims - 1], step_b = b.strides[b.n_dims - 1];
	et_view_remove(&a, (size_t)a.n_dims - 1);
	et_view_remove(&b, (size_t)b.n_dims - 1);
	et_view_insert(&a, a.n_dims, 1, 0);             /* (…, P, 1) */
	et_view_insert(&b, (size_t)b.n_dims - 1, 1, 0); /* (…, 1, R) */
	for (size_t d = 0; d < n_dims; d++) {
		size_t from_end = n_dims - d;
		int64_t of_a = from_end <= a.n_dims ? a.sizes[a.n_dims - from_end] : 1;
		int64_t of_b = from_end <= b.n_dims ? b.sizes[b.n_dims - from_end] : 1;
		sizes[d] = from_end == 2 ? rows : from_end == 1 ? columns : of_a == 1 ? of_b : of_a;
	}
	ET_REQUIRE(ctx, et_view_broadcast(&a, sizes, n_dims) && et_view_broadcast(&b, sizes, n_dims),
		"the batches do not broadcast");
	ET_TRY(et_resize(ctx, out, sizes, n_dims));
	et_view_of(&y, out);
	et_walk_init(&walk, (const struct et_view *[]){ &y, &a, &b }, 3);
	et_place_seek(&place, &walk, 0);
	et_store_fn store = et_storer(out->type, ET_F64);
	int64_t *steps[] = { walk.strides[0], walk.strides[1], walk.strides[2] };
	size_t last = walk.n_dims - 1;
	for (size_t i = 0, run; i < walk.numel; i += run) {
		double distances[BLOCK];
		run = et_place_run(&place, &walk);
		run = run < BLOCK ? run : BLOCK;
		const uint8_t *from_a = a.data + place.offset[1] * bytes,
			      *from_b = b.data + place.offset[2] * bytes;
		/* Mostly it is one to many. */
		size_t n_at_once = steps[1][last] == 0 ? run : 1;
		for (size_t k = 0; k < run; k += n_at_once)
			distances_to(from_a + (int64_t)k * steps[1][last] * bytes,
				from_b + (int64_t)k * steps[2][last] * bytes, step_a, step_b, steps[2][last],
				n_at_once, (size_t)m, x1->type, p, &distances[k]);
		store(y.data + place.offset[0] * bytes, steps[0][last], distances, run);
		et_place_advance(&place, &walk, run);
	}
	return ET_OK;
}

/* x (N, M), p > out: the pairs (0,1), (0,2) … (1,2) … */
static enum et_status run_pdist(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor;
	struct et_tensor *out = args[2]->tensor;
	double p = args[1]->d;
	ET_REQUIRE(ctx, x->n_dims == 2 && et_type_is_float(x->type) && p >= 0,
		"takes a matrix of floats and p >= 0");
	ET_TRY(et_require_same_type(ctx, x, out));
	int64_t n = x->sizes[0], m = x->sizes[1], bytes = (int64_t)et_element_bytes(x),
		row = x->strides[0] * bytes;
	int64_t n_pairs = n * (n - 1) / 2;
	ET_TRY(et_resize(ctx, out, &n_pairs, 1));
	uint8_t *to = out->data;
	const uint8_t *rows = x->data;
	et_store_fn store = et_storer(out->type, ET_F64);
	for (int64_t i = 0; i < n; i++) {
		for (int64_t j = i + 1, part; j < n; j += part, to += part * bytes) {
			double distances[BLOCK];
			part = n - j < BLOCK ? n - j : BLOCK;
			distances_to(rows + i * row, rows + j * row, x->strides[1], x->strides[1],
				x->strides[0], (size_t)part, (size_t)m, x->type, p, distances);
			store(to, 1, distances, (size_t)part);
		}
	}
	return ET_OK;
}

static enum et_status run_dist(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *self = args[0]->tensor, *other = args[1]->tensor;
	struct et_tensor *out = args[3]->tensor;
	struct norm norm = { .p = et_number_double(args[2]) };
	struct et_view a, b;
	struct et_walk walk;
	struct et_place place;
	int64_t sizes[ET_MAX_DIMS];
	size_t n_dims = self->n_dims > other->n_dims ? self->n_dims : other->n_dims;
	ET_REQUIRE(ctx,
		et_type_is_float(self->type) && et_type_is_float(other->type) &&
			et_type_is_float(out->type) && norm.p >= 0,
		"takes floats and p >= 0");
	et_view_of(&a, self);
	et_view_of(&b, other);
	for (size_t d = 0; d < n_dims; d++) {
		size_t from_end = n_dims - d;
		int64_t of_a = from_end <= a.n_dims ? a.sizes[a.n_dims - from_end] : 1;
		sizes[d] = of_a == 1 && from_end <= b.n_dims ? b.sizes[b.n_dims - from_end] : of_a;
	}
	ET_REQUIRE(ctx, et_view_broadcast(&a, sizes, n_dims) && et_view_broadcast(&b, sizes, n_dims),
		"the tensors do not broadcast");
	ET_TRY(et_resize(ctx, out, NULL, 0));
	et_walk_init(&walk, (const struct et_view *[]){ &a, &b }, 2);
	et_place_seek(&place, &walk, 0);
	for (size_t i = 0; i < walk.numel; i++) {
		add_difference(&norm,
			et_element_get_double(
				a.data + place.offset[0] * (int64_t)et_scalar_size(a.type), a.type) -
				et_element_get_double(
					b.data + place.offset[1] * (int64_t)et_scalar_size(b.type), b.type));
		et_place_advance(&place, &walk, 1);
	}
	et_element_set_double(out->data, out->type, finish(&norm));
	return ET_OK;
}

static const struct et_kernel rows[] = {
	{ "aten::_cdist_forward.out", "TTDi>T", run_cdist },
	{ "aten::_pdist_forward.out", "TD>T", run_pdist },
	{ "aten::dist.out", "TTS>T", run_dist },
};

ET_KERNEL_TABLE(distance);
