/* SPDX-License-Identifier: BSD-3-Clause */
/* cadence::'s operators that only move numbers: im2row, copies, masks.
 *
 * A row of im2row holds all numbers that one output position of a convolution needs, so that a convolution becomes a
 * matrix product. For a transposed convolution the window goes backwards: it holds the input positions that contribute
 * to the output position, and the zero point where there is none. Elements are copied whatever their type is.
 *
 * Operators that Cadence's memory planning calls _nop (their output is already where the inputs are) still copy here,
 * and so do DMA copies, because memory is planned differently here. */
#include "runtime/kernels/cadence/cadence.h"
#include "runtime/kernels/kernels.h"

/* --- im2row ------------------------------------------------------------------------------------------------- */

/* Dimension 0 is the height, which is 1 for a 1-D input. */
struct rows {
	int64_t batch, channels, size[2];
	int64_t batch_stride, channel_stride, step[2]; /* of the input, in elements */
	int64_t kernel[2], dilation[2], padding[2], stride[2], n[2];
	int64_t channel_step, position_step; /* within a row */
	bool is_transposed;
};

static enum et_status get_pair(struct et_kernel_ctx *ctx, const struct et_evalue *list, int64_t least, const char *what,
	int64_t *ret)
{
	ET_REQUIRE(ctx, et_list_len(list) == 2, "%s of %zu numbers", what, et_list_len(list));
	for (size_t d = 0; d < 2; d++) {
		ret[d] = et_list_int(list, d);
		ET_REQUIRE(ctx, ret[d] >= least && ret[d] <= INT32_MAX, "%s %lld", what, (long long)ret[d]);
	}
	return ET_OK;
}

/* @lists: kernel, dilation, padding, stride, and output padding if transposed. */
static enum et_status read_rows(struct et_kernel_ctx *ctx, struct rows *r, const struct et_tensor *x,
	struct et_evalue *const *lists, bool is_last)
{
	int64_t more[2] = { 0 };
	ET_REQUIRE(ctx, x->n_dims == 3 || x->n_dims == 4, "an input of rank %u", x->n_dims);
	ET_TRY(et_require_contiguous(ctx, x, "the input"));
	ET_TRY(get_pair(ctx, lists[0], 1, "kernel", r->kernel));
	ET_TRY(get_pair(ctx, lists[1], 1, "dilation", r->dilation));
	ET_TRY(get_pair(ctx, lists[2], 0, "padding", r->padding));
	ET_TRY(get_pair(ctx, lists[3], 1, "stride", r->stride));
	if (r->is_transposed)
		ET_TRY(get_pair(ctx, lists[4], 0, "output padding", more));
	size_t n = x->n_dims, width = is_last ? n - 2 : n - 1;
	r->batch = x->sizes[0];
	r->channels = x->sizes[is_last ? n - 1 : 1];
	r->size[0] = n == 4 ? x->sizes[width - 1] : 1;
	r->size[1] = x->sizes[width];
	r->channel_stride = is_last ? 1 : r->size[0] * r->size[1];
	r->step[1] = is_last ? r->channels : 1;
	r->step[0] = r->step[1] * r->size[1];
	r->batch_stride = r->channels * r->size[0] * r->size[1];
	for (size_t d = 0; d < 2; d++) {
		int64_t reach = r->dilation[d] * (r->kernel[d] - 1), pads = 2 * r->padding[d];
		int64_t last = r->is_transposed ? (r->size[d] - 1) * r->stride[d] + reach + more[d] - pads
						: r->size[d] + pads - reach - 1;
		ET_REQUIRE(ctx, last >= (r->is_transposed ? -1 : 0) && r->size[d] > 0,
			"the kernel does not fit into %lld", (long long)r->size[d]);
		r->n[d] = (r->is_transposed ? last : last / r->stride[d]) + 1;
		ET_REQUIRE(ctx, r->n[d] <= INT32_MAX, "%lld positions", (long long)r->n[d]);
	}
	int64_t area = r->kernel[0] * r->kernel[1];
	ET_REQUIRE(ctx, area <= INT32_MAX, "a kernel of %lld", (long long)area);
	r->channel_step = r->is_transposed && is_last ? 1 : area;
	r->position_step = r->is_transposed && is_last ? r->channels : 1;
	return ET_OK;
}

/* The input position under kernel position @k at output position @at; -1: none. */
static int64_t input_position(const struct rows *r, size_t d, int64_t at, int64_t k)
{
	int64_t in = r->is_transposed ? at + r->padding[d] - (r->kernel[d] - 1 - k) * r->dilation[d]
				      : at * r->stride[d] - r->padding[d] + k * r->dilation[d];
	if (r->is_transposed)
		in = in % r->stride[d] == 0 ? in / r->stride[d] : -1;
	return in >= 0 && in < r->size[d] ? in : -1;
}

/* Write one row; @empty is the element outside the input. */
static void write_row(const struct rows *r, const struct et_tensor *x, int64_t batch, const int64_t *at,
	const uint8_t *empty, uint8_t *to)
{
	size_t bytes = et_element_bytes(x);
	for (int64_t k = 0; k < r->kernel[0] * r->kernel[1]; k++) {
		int64_t row = input_position(r, 0, at[0], k / r->kernel[1]),
			column = input_position(r, 1, at[1], k % r->kernel[1]);
		int64_t first = batch * r->batch_stride + row * r->step[0] + column * r->step[1];
		for (int64_t c = 0; c < r->channels; c++) {
			size_t place = (size_t)(c * r->channel_step + k * r->position_step);
			size_t from = (size_t)(first + c * r->channel_stride);
			memcpy(to + place * bytes,
				row < 0 || column < 0 ? empty : (const uint8_t *)x->data + from * bytes, bytes);
		}
	}
}

static enum et_status run_rows(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct rows r = { .is_transposed = et_cadence_kind_of(ctx)->is_transposed };
	const struct et_tensor *x = args[0]->tensor;
	size_t next = r.is_transposed ? 6 : 5;
	struct et_tensor *out = args[next + 2]->tensor;
	ET_REQUIRE(ctx, et_loader(x->type, ET_F64) != NULL, "%s", et_scalar_name(x->type));
	ET_TRY(read_rows(ctx, &r, x, args + 1, args[next + 1]->b));
	ET_TRY(et_require_same_type(ctx, x, out));
	int64_t area = r.kernel[0] * r.kernel[1];
	ET_REQUIRE(ctx, r.channels == 0 || area <= INT32_MAX / r.channels, "rows of %lld x %lld numbers",
		(long long)r.channels, (long long)area);
	int64_t n_row = r.channels * area;
	ET_TRY(et_resize(ctx, out, (const int64_t[]){ r.batch, r.n[0] * r.n[1], n_row }, 3));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	if (args[next]->tag == ET_TAG_TENSOR)
		ET_TRY(et_require_type(ctx, args[next]->tensor, ET_INT32, "a zero point"));
	uint8_t *to = out->data;
	struct et_pace pace = { ctx->compute };
	for (int64_t b = 0; b < r.batch && n_row; b++) {
		uint8_t empty[sizeof(double)];
		int32_t zero;
		ET_TRY(et_get_zero_at(ctx, args[next], (size_t)b, (size_t)r.batch, &zero));
		if (et_type_is_float(x->type))
			et_element_set_double(empty, x->type, zero);
		else
			et_element_set_int(empty, x->type, zero);
		for (int64_t i = 0; i < r.n[0] * r.n[1] && !et_pace_must_stop(&pace, (size_t)n_row);
			i++, to += (size_t)n_row * et_element_bytes(x)) {
			const int64_t at[2] = { i / r.n[1], i % r.n[1] };
			write_row(&r, x, b, at, empty, to);
		}
	}
	return ET_OK;
}

/* --- masks -------------------------------------------------------------------------------------------------- */

/* mask, threshold > out: one bit for each number, 1 if it must be ignored. */
static enum et_status run_mask(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *mask = args[0]->tensor;
	struct et_tensor *out = args[2]->tensor;
	int64_t sizes[ET_MAX_DIMS];
	size_t n = mask->n_dims;
	bool is_bool = mask->type == ET_BOOL;
	ET_REQUIRE(ctx, is_bool || mask->type == ET_FLOAT32, "a mask of %s", et_scalar_name(mask->type));
	ET_REQUIRE(ctx, n > 0 && mask->sizes[n - 1] % 8 == 0, "the mask's last dimension is not a multiple of 8");
	ET_TRY(et_require_type(ctx, out, ET_UINT8, "the output"));
	ET_TRY(et_require_contiguous(ctx, mask, "the mask"));
	for (size_t d = 0; d < n; d++)
		sizes[d] = mask->sizes[d];
	sizes[n - 1] /= 8;
	ET_TRY(et_resize(ctx, out, sizes, n));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0; i < et_tensor_numel(out) && !et_pace_must_stop(&pace, 8); i++) {
		uint8_t bits = 0;
		for (size_t k = 0; k < 8; k++) {
			const uint8_t *element = (const uint8_t *)mask->data + (i * 8 + k) * et_element_bytes(mask);
			bool is_out = is_bool ? !*element
					      : et_element_get_double(element, ET_FLOAT32) < (float)args[1]->d;
			bits |= (uint8_t)(is_out << k);
		}
		((uint8_t *)out->data)[i] = bits;
	}
	return ET_OK;
}

/* condition, number, other number > out */
static enum et_status run_where(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *condition = args[0]->tensor;
	struct et_tensor *out = args[3]->tensor;
	ET_TRY(et_require_type(ctx, condition, ET_BOOL, "the condition"));
	ET_TRY(et_require_type(ctx, out, ET_FLOAT32, "the output"));
	ET_TRY(et_require_contiguous(ctx, condition, "the condition"));
	ET_TRY(et_resize_like(ctx, out, condition));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	struct et_pace pace = { ctx->compute };
	for (size_t i = 0; i < et_tensor_numel(out) && !et_pace_must_stop(&pace, 1); i++)
		((float *)out->data)[i] = (float)args[((const uint8_t *)condition->data)[i] ? 1 : 2]->d;
	return ET_OK;
}

/* --- copies ------------------------------------------------------------------------------------------------- */

enum et_status et_cadence_run_as(struct et_kernel_ctx *ctx, const char *name, struct et_evalue *const *args)
{
	struct et_kernel_ctx as = *ctx;
	as.kernel = NULL;
	for (size_t t = 0; t < et_n_kernel_tables && !as.kernel; t++)
		as.kernel = et_kernel_table_find(et_kernel_tables[t], name);
	return as.kernel->run(&as, args);
}

static enum et_status run_as_named(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return et_cadence_run_as(ctx, et_cadence_kind_of(ctx)->as, args);
}

/* Arguments behind the source are hints. */
static enum et_status run_copy(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_view view;
	et_view_of(&view, args[0]->tensor);
	return et_copy_view_to_output(ctx, &view, args[strlen(ctx->kernel->signature) - 2]->tensor);
}

static const struct et_cadence_kind plain = { 0 }, back = { .is_transposed = true };
static const struct et_cadence_kind cat = { .as = "aten::cat.out" },
				    select_copy = { .as = "aten::select_copy.int_out" },
				    slice_copy = { .as = "aten::slice_copy.Tensor_out" };

static const struct et_kernel rows[] = {
	{ "cadence::_cat_nop.out", "LI>T", run_as_named, &cat },
	{ "cadence::_select_copy_nop.int_out", "TII>T", run_as_named, &select_copy },
	{ "cadence::_slice_copy_nop.Tensor_out", "TIiiI>T", run_as_named, &slice_copy },
	{ "cadence::contiguous.out", "Ti>T", run_copy },
	{ "cadence::idma_copy.out", "TII>T", run_copy },
	{ "cadence::idma_load.out", "TII>T", run_copy },
	{ "cadence::idma_store.out", "TII>T", run_copy },
	{ "cadence::idma_wait.out", "TI>T", run_copy },
	{ "cadence::im2row.out", "TVVVVTB>T", run_rows, &plain },
	{ "cadence::im2row.per_tensor_out", "TVVVVIB>T", run_rows, &plain },
	{ "cadence::sdpa_bitwise_mask_gen.out", "TD>T", run_mask },
	{ "cadence::transposed_im2row.out", "TVVVVVTB>T", run_rows, &back },
	{ "cadence::where_Scalar.out", "TDD>T", run_where },
};

ET_KERNEL_TABLE(cadence_im2row_copy);
