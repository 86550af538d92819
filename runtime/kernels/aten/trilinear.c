/* SPDX-License-Identifier: BSD-3-Clause */
/* _trilinear: three tensors with dimensions inserted into each, multiplied elementwise and summed over some dimensions.
 *
 * Two of the tensors are multiplied first and summed over the dimensions that the third lacks. Then the result is
 * multiplied with the third. Sums are computed in double and rounded to the tensors' type after each of the two steps.
 * This is the plain definition: one number at a time, on one thread. */
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/engine/args.h"
#include "runtime/kernels/engine/elementwise.h"

#include <string.h>

/* Insert the dimensions in @list, of size 1, into @view, so that it has @n_dims. */
static enum et_status insert_dims(struct et_kernel_ctx *ctx, struct et_view *view, const struct et_evalue *list,
	size_t n_dims)
{
	uint32_t set = 0;
	if (et_list_len(list))
		ET_TRY(et_get_dims(ctx, list, n_dims, &set));
	ET_REQUIRE(ctx, view->n_dims + et_list_len(list) == n_dims, "%u dimensions and %zu more", view->n_dims,
		et_list_len(list));
	for (size_t d = 0; d < n_dims; d++) {
		if (set >> d & 1)
			et_view_insert(view, d, 1, 0);
	}
	return ET_OK;
}

/* The elementwise product of two views of the same rank, summed over the dimensions in @summed, which remain with
 * stride 0. Summed in double, rounded to @type at the end. */
static enum et_status sum_products(struct et_kernel_ctx *ctx, struct et_view *ret_sums, const struct et_view *a,
	const struct et_view *b, uint32_t summed, enum et_scalar_type type)
{
	struct et_view sums, left, right;
	struct et_walk walk;
	struct et_place place;
	int64_t sizes[ET_MAX_DIMS];
	size_t numel = 1, n_bytes, n_dims = a->n_dims;
	et_view_begin(&sums, NULL, ET_FLOAT64);
	et_view_clone(&left, a);
	et_view_clone(&right, b);
	for (size_t d = n_dims; d-- > 0;) {
		sizes[d] = a->sizes[d] == 1 ? b->sizes[d] : a->sizes[d];
		et_view_insert(&sums, 0, sizes[d], summed >> d & 1 ? 0 : (int64_t)numel);
		ET_REQUIRE(ctx, (summed >> d & 1) || et_mul(numel, (size_t)sizes[d], &numel), "the sizes overflow");
	}
	ET_REQUIRE(ctx, et_view_broadcast(&left, sizes, n_dims) && et_view_broadcast(&right, sizes, n_dims),
		"the tensors do not broadcast");
	ET_REQUIRE(ctx, et_mul(numel, sizeof(double), &n_bytes), "the sizes overflow");
	double *numbers = et_kernel_scratch(ctx, n_bytes);
	if (!numbers)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	memset(numbers, 0, n_bytes);
	sums.data = (uint8_t *)numbers;
	et_walk_init(&walk, (const struct et_view *[]){ &sums, &left, &right }, 3);
	et_place_seek(&place, &walk, 0);
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0; i < walk.numel && !et_pace_must_stop(&pace, 8); i++) {
		const uint8_t *l = left.data + place.offset[1] * (int64_t)et_scalar_size(left.type);
		const uint8_t *r = right.data + place.offset[2] * (int64_t)et_scalar_size(right.type);
		numbers[place.offset[0]] += et_element_get_double(l, left.type) * et_element_get_double(r, right.type);
		et_place_advance(&place, &walk, 1);
	}
	for (size_t i = 0; i < numel; i++)
		numbers[i] = et_round_to(numbers[i], type);
	for (size_t d = 0; d < n_dims; d++)
		sums.sizes[d] = summed >> d & 1 ? 1 : sums.sizes[d];
	et_view_clone(ret_sums, &sums);
	return ET_OK;
}

static enum et_status run_trilinear(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_tensor *result = args[8]->tensor;
	struct et_view in[3], sums;
	size_t n_dims = args[0]->tensor->n_dims + et_list_len(args[3]);
	uint32_t summed = 0, early = 0;
	ET_REQUIRE(ctx, n_dims <= ET_MAX_DIMS && et_loader(result->type, ET_F64), "%zu dimensions of %s", n_dims,
		et_scalar_name(result->type));
	if (et_list_len(args[6]))
		ET_TRY(et_get_dims(ctx, args[6], n_dims, &summed));
	if (et_list_len(args[5]))
		ET_TRY(et_get_dims(ctx, args[5], n_dims, &early));
	early &= summed;
	for (size_t k = 0; k < 3; k++) {
		ET_TRY(et_require_same_type(ctx, args[k]->tensor, result));
		et_view_of(&in[k], args[k]->tensor);
		ET_TRY(insert_dims(ctx, &in[k], args[3 + k], n_dims));
	}
	ET_TRY(sum_products(ctx, &sums, &in[0], &in[1], early, result->type));
	ET_TRY(sum_products(ctx, &sums, &sums, &in[2], summed & ~early, result->type));
	for (size_t d = n_dims; d-- > 0;) {
		if (summed >> d & 1)
			et_view_remove(&sums, d);
	}
	return et_cast_view_to_output(ctx, &sums, result);
}

static const struct et_kernel rows[] = {
	{ "aten::_trilinear.out", "TTTVVVVI>T", run_trilinear },
};

ET_KERNEL_TABLE(trilinear);
