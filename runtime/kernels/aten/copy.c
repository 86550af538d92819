/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies: the whole of a tensor into another, with another type or dim order where the operator allows it.
 *
 * Every one of them is et_view_cast from one tensor to the other. The result has the output's own dim order; a dim
 * order among the arguments must agree with it. */
#include "runtime/kernels/engine/args.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/engine/elementwise.h"

static enum et_status copy_any(struct et_kernel_ctx *ctx, const struct et_tensor *from, struct et_tensor *to)
{
	struct et_view view;
	et_view_of(&view, from);
	return et_cast_view_to_output(ctx, &view, to);
}

static enum et_status run_clone(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view view;
	/* The output is the last argument, after any hints. */
	struct et_tensor *out = args[ctx->kernel->signature[1] == '>' ? 1 : 2]->tensor;
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
	{ "aten::_to_copy.out", "TBi>T", run_to_copy, .only_copies = true },
	{ "aten::alias_copy.out", "T>T", run_clone, .only_copies = true },
	{ "aten::clone.out", "Ti>T", run_clone, .only_copies = true },
	{ "aten::copy.out", "TTB>T", run_copy },
	{ "aten::copy_", "=TTB", run_copy_in_place },
	{ "aten::detach_copy.out", "T>T", run_clone, .only_copies = true },
	{ "aten::lift_fresh_copy.out", "T>T", run_clone, .only_copies = true },
	{ "dim_order_ops::_clone_dim_order.out", "TBv>T", run_clone_dim_order, .only_copies = true },
	{ "dim_order_ops::_to_dim_order_copy.out", "TBv>T", run_to_dim_order, .only_copies = true },
	{ "et_copy::_d2h_copy.out", "T>T", run_clone },
	{ "et_copy::_h2d_copy.out", "T>T", run_clone },
	{ "llama::fallback.out", "T>T", run_clone },
};

ET_KERNEL_TABLE(copy);
