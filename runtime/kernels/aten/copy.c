/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies: the whole of a tensor into another, with another type or dim order where the operator allows it.
 *
 * Every one of them is et_view_cast from one tensor to the other. The result has the output's own dim order; a dim
 * order among the arguments must agree with it. */
#include "runtime/kernels/engine/args.h"
#include "runtime/kernels/simd/cast_ukernels.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/engine/elementwise.h"

/* Copy a few elements between tensors of the same sizes and dim order, without resizing and walking. False: the call is
 * not of this kind. */
static bool copy_same_layout(const struct et_tensor *from, struct et_tensor *to)
{
	enum { FEW = 512 };
	const enum et_compute_class compute_class = et_cast_class(to->type, from->type);
	const et_load_fn load = et_loader(from->type, compute_class);
	const et_store_fn store = et_storer(to->type, compute_class);
	const size_t numel = et_tensor_numel(from);
	const bool is_same = from->type == to->type;
	et_cast_fn cast;
	uint64_t block[FEW];
	if (numel > FEW || from->n_dims != to->n_dims || !(is_same || (load && store)))
		return false;
	for (size_t d = 0; d < from->n_dims; d++) {
		if (from->sizes[d] != to->sizes[d] || from->dim_order[d] != to->dim_order[d])
			return false;
	}
	if (numel == 0)
		return true;
	if (is_same)
		et_copy_bytes(to->data, from->data, numel * et_element_bytes(from));
	else if ((cast = et_find_cast(to->type, from->type)))
		cast(numel, to->data, from->data);
	else if (et_class_is_type(compute_class, to->type))
		load(to->data, from->data, 1, numel);
	else {
		const bool is_class = et_class_is_type(compute_class, from->type);
		if (!is_class)
			load(block, from->data, 1, numel);
		store(to->data, 1, is_class ? from->data : block, numel);
	}
	return true;
}

static enum et_status copy_any(struct et_kernel_ctx *ctx, const struct et_tensor *from, struct et_tensor *to)
{
	struct et_view view;
	if (copy_same_layout(from, to))
		return ET_OK;
	et_view_of(&view, from);
	return et_cast_view_to_output(ctx, &view, to);
}

static enum et_status run_clone(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view view;
	/* The output is the last argument, after any hints. */
	struct et_tensor *out = args[ctx->kernel->signature[1] == '>' ? 1 : 2]->tensor;
	if (args[0]->tensor->type == out->type && copy_same_layout(args[0]->tensor, out))
		return ET_OK;
	et_view_of(&view, args[0]->tensor);
	return et_copy_view_to_output(ctx, &view, out);
}

static enum et_status require_dim_order(struct et_kernel_ctx *ctx, const struct et_evalue *dim_order,
	const struct et_tensor *out)
{
	if (et_is_none(dim_order))
		return ET_OK;
	ET_REQUIRE(ctx, et_list_len(dim_order) == out->n_dims, "a dim order of %zu for rank %u", et_list_len(dim_order),
		out->n_dims);
	for (size_t d = 0; d < out->n_dims; d++)
		ET_REQUIRE(ctx, et_list_int(dim_order, d) == out->dim_order[d],
			"the output's dim order is not the requested one");
	return ET_OK;
}

static enum et_status run_to_dim_order(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	ET_TRY(require_dim_order(ctx, args[2], args[3]->tensor));
	return copy_any(ctx, args[0]->tensor, args[3]->tensor);
}

static enum et_status run_clone_dim_order(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	ET_TRY(et_require_same_type(ctx, args[0]->tensor, args[3]->tensor));
	return run_to_dim_order(ctx, args);
}

static enum et_status run_to_copy(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return copy_any(ctx, args[0]->tensor, args[3]->tensor);
}

/* Copy src, broadcast to self's sizes. */
static enum et_status copy_broadcast(struct et_kernel_ctx *ctx, const struct et_tensor *self,
	const struct et_tensor *src, struct et_tensor *out)
{
	struct et_view like, view;
	et_view_of(&like, self);
	et_view_of(&view, src);
	ET_REQUIRE(ctx, et_view_broadcast(&view, like.sizes, like.n_dims),
		"the source's sizes do not broadcast to the destination's");
	return et_cast_view_to_output(ctx, &view, out);
}

static enum et_status run_copy(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return copy_broadcast(ctx, args[0]->tensor, args[1]->tensor, args[3]->tensor);
}

static enum et_status run_copy_in_place(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return copy_broadcast(ctx, args[0]->tensor, args[1]->tensor, args[0]->tensor);
}

static const struct et_kernel rows[] = {
	{ "aten::_to_copy.out", "TBi>T", run_to_copy },
	{ "aten::alias_copy.out", "T>T", run_clone },
	{ "aten::clone.out", "Ti>T", run_clone },
	{ "aten::copy.out", "TTB>T", run_copy },
	{ "aten::copy_", "=TTB", run_copy_in_place },
	{ "aten::detach_copy.out", "T>T", run_clone },
	{ "aten::lift_fresh_copy.out", "T>T", run_clone },
	{ "dim_order_ops::_clone_dim_order.out", "TBv>T", run_clone_dim_order },
	{ "dim_order_ops::_to_dim_order_copy.out", "TBv>T", run_to_dim_order },
	{ "et_copy::_d2h_copy.out", "T>T", run_clone },
	{ "et_copy::_h2d_copy.out", "T>T", run_clone },
	{ "llama::fallback.out", "T>T", run_clone },
};

ET_KERNEL_TABLE(copy);
