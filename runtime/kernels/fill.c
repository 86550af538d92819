/* Operators that make tensors from numbers.
 *
 * empty gives zeros: what a tensor held before may be another client's. */
#include "runtime/kernels/complexes.h"
#include "runtime/kernels/args.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/shape.h"

#include <math.h>

enum { BLOCK = 256 };

enum et_status et_fill(struct et_kernel_ctx *ctx, struct et_tensor *out, const struct et_evalue *number)
{
	struct et_wide element = { { 0 } };
	struct et_view to, from;
	ET_REQUIRE(
		ctx, et_loader(et_real_type(out->type), ET_F64), "cannot fill %s", et_scalar_name(out->type));
	if (et_type_is_complex(out->type))
		et_element_set_complex(&element, out->type, et_number_double(number));
	else if (number->tag == ET_TAG_DOUBLE)
		et_element_set_double(&element, out->type, number->d);
	else
		et_element_set_int(&element, out->type, et_number_int(number));
	et_view_of(&to, out);
	from = to;
	from.data = (uint8_t *)&element;
	memset(from.strides, 0, sizeof(from.strides));
	et_view_copy(&to, &from);
	return ET_OK;
}

static enum et_status resize_to_list(
	struct et_kernel_ctx *ctx, struct et_tensor *out, const struct et_evalue *list)
{
	int64_t sizes[ET_MAX_DIMS];
	size_t n = et_list_len(list);
	ET_REQUIRE(ctx, n <= ET_MAX_DIMS, "%zu dimensions", n);
	for (size_t d = 0; d < n; d++)
		sizes[d] = et_list_int(list, d);
	return et_resize(ctx, out, sizes, n);
}

static enum et_status run_full(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	ET_TRY(resize_to_list(ctx, args[2]->tensor, args[0]));
	return et_fill(ctx, args[2]->tensor, args[1]);
}

static enum et_status run_full_like(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	ET_TRY(et_resize_like(ctx, args[3]->tensor, args[0]->tensor));
	return et_fill(ctx, args[3]->tensor, args[1]);
}

static enum et_status run_fill(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	ET_TRY(et_resize_like(ctx, args[2]->tensor, args[0]->tensor));
	return et_fill(ctx, args[2]->tensor, args[1]);
}

static enum et_status run_fill_tensor(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *value = args[1]->tensor;
	struct et_view view, like;
	ET_REQUIRE(ctx, et_tensor_numel(value) == 1, "the value has more than one element");
	et_view_of(&like, args[0]->tensor);
	et_view_of(&view, value);
	view.n_dims = 0;
	et_view_broadcast(&view, like.sizes, like.n_dims);
	return et_give_view_cast(ctx, &view, args[2]->tensor);
}

/* The row is the number to fill with; the sizes come first, the output last. */
static enum et_status run_constant(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_tensor *out = args[strlen(ctx->kernel->signature) - 2]->tensor;
	ET_TRY(resize_to_list(ctx, out, args[0]));
	return et_fill(ctx, out, ctx->kernel->row);
}
static const struct et_evalue zero = { .tag = ET_TAG_INT, .i = 0 };
static const struct et_evalue one = { .tag = ET_TAG_INT, .i = 1 };

static enum et_status run_scalar_tensor(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	ET_TRY(et_resize(ctx, args[1]->tensor, NULL, 0));
	return et_fill(ctx, args[1]->tensor, args[0]);
}

static enum et_status arange(
	struct et_kernel_ctx *ctx, double start, double end, double step, struct et_tensor *out)
{
	double n = ceil((end - start) / step);
	ET_REQUIRE(ctx, n >= 0 && n <= INT32_MAX, "from %g to %g by %g", start, end, step);
	ET_REQUIRE(ctx, et_loader(out->type, ET_F64), "cannot fill %s", et_scalar_name(out->type));
	ET_TRY(et_resize(ctx, out, (const int64_t[]){ (int64_t)n }, 1));
	double block[BLOCK];
	et_store_fn store = et_storer(out->type, ET_F64);
	for (size_t i = 0; i < (size_t)n; i += BLOCK) {
		size_t part = (size_t)n - i < BLOCK ? (size_t)n - i : BLOCK;
		for (size_t k = 0; k < part; k++)
			block[k] = start + (double)(int32_t)(i + k) * step;
		store((uint8_t *)out->data + i * et_element_bytes(out), 1, block, part);
	}
	return ET_OK;
}

static enum et_status run_arange(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return arange(ctx, 0, et_number_double(args[0]), 1, args[1]->tensor);
}

static enum et_status run_arange_start(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return arange(ctx, et_number_double(args[0]), et_number_double(args[1]), et_number_double(args[2]),
		args[3]->tensor);
}

static const struct et_kernel rows[] = {
	{ "aten::arange.out", "S>T", run_arange },
	{ "aten::arange.start_out", "SSS>T", run_arange_start },
	{ "aten::empty.out", "Vi>T", run_constant, &zero },
	{ "aten::fill.Scalar_out", "TS>T", run_fill },
	{ "aten::fill.Tensor_out", "TT>T", run_fill_tensor },
	{ "aten::full.out", "VS>T", run_full },
	{ "aten::full_like.out", "TSi>T", run_full_like },
	{ "aten::ones.out", "V>T", run_constant, &one },
	{ "aten::scalar_tensor.out", "S>T", run_scalar_tensor },
	{ "aten::zeros.out", "V>T", run_constant, &zero },
	{ "dim_order_ops::_empty_dim_order.out", "Vv>T", run_constant, &zero },
};

ET_KERNEL_TABLE(fill);
