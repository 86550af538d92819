/* Distances between vectors: of all pairs from two sets, of all pairs within one, of two whole tensors.
 *
 * All are the p-norm of a difference, summed in double: p = 0 counts, infinity takes the largest. */
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/map.h"

#include <math.h>

struct norm {
	double p, sum;
};

static void add_difference(struct norm *norm, double difference)
{
	double size = fabs(difference);
	if (norm->p == 0)
		norm->sum += size != 0;
	else if (isinf(norm->p))
		norm->sum = size > norm->sum || size != size ? size : norm->sum;
	else
		norm->sum += norm->p == 1 ? size : norm->p == 2 ? size * size : pow(size, norm->p);
}

static double finish(const struct norm *norm)
{
	if (norm->p == 0 || norm->p == 1 || isinf(norm->p))
		return norm->sum;
	return norm->p == 2 ? sqrt(norm->sum) : pow(norm->sum, 1 / norm->p);
}

/* Between @n elements from each of two places, @step apart in bytes. */
static double distance(const uint8_t *a, const uint8_t *b, int64_t step_a, int64_t step_b, int64_t n,
	enum et_scalar_type type, double p)
{
	struct norm norm = { .p = p };
	for (int64_t i = 0; i < n; i++)
		add_difference(&norm, et_element_get_double(a + i * step_a, type) -
					      et_element_get_double(b + i * step_b, type));
	return finish(&norm);
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
	int64_t step_a = a.strides[a.n_dims - 1] * bytes, step_b = b.strides[b.n_dims - 1] * bytes;
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
	for (size_t i = 0; i < walk.numel; i++) {
		et_element_set_double(y.data + place.offset[0] * bytes, y.type,
			distance(a.data + place.offset[1] * bytes, b.data + place.offset[2] * bytes, step_a,
				step_b, m, x1->type, p));
		et_place_advance(&place, &walk, 1);
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
	for (int64_t i = 0; i < n; i++) {
		for (int64_t j = i + 1; j < n; j++, to += bytes) {
			const uint8_t *a = x->data;
			et_element_set_double(to, out->type,
				distance(a + i * row, a + j * row, x->strides[1] * bytes,
					x->strides[1] * bytes, m, x->type, p));
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
