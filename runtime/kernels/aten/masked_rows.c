/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention's guard for rows that are masked as a whole, in one call.
 *
 * A softmax over a row of minus infinities is NaN, so PyTorch's attention replaces such rows:
 *     masked = x.eq(-inf);  rows = masked.all(-1, keepdim=True);  where(rows, full_like(y, 0), y)
 * where y is the softmax of x; all() is exported as logical_not, any, logical_not. Six kernels go over all scores,
 * though the first score of nearly every row is enough. Here each row is read up to its first number that is not minus
 * infinity, and copied or filled.
 *
 * It is done for row-major fp32 tensors of fixed sizes that fit each other, for which no kernel refuses its arguments.
 * The result may lie at the place of x or y, but not over a part of it. Rows are not divided, and a run stops between
 * two of them, so longer ones are left to the kernels. */
#include "runtime/kernels/aten/view_copy.h"
#include "runtime/kernels/engine/args.h"
#include "runtime/kernels/kernels.h"

#include <math.h>
#include <string.h>

enum { EQ, NOT, ANY, NOT_AGAIN, FULL, WHERE, N_CALLS };
enum { GRAIN = 1 << 15, MOST_COLUMNS = ET_PACE_STEPS };

/* Whether the tensor has the sizes of @like, or, @is_row, one element for each of its rows. */
static bool fits(const struct et_evalue *value, enum et_scalar_type type, const struct et_tensor *like, bool is_row)
{
	const struct et_tensor *tensor = value->tensor;
	const size_t n_dims = like->n_dims;
	return tensor->type == type && tensor->dynamism == ET_STATIC && tensor->n_dims == n_dims &&
	       et_dim_order_is_contiguous(tensor->dim_order, tensor->n_dims) &&
	       memcmp(tensor->sizes, like->sizes, (n_dims - 1) * sizeof(*like->sizes)) == 0 &&
	       tensor->sizes[n_dims - 1] == (is_row ? 1 : like->sizes[n_dims - 1]);
}

static bool is_apart(const uint8_t *a, const uint8_t *b, size_t n_bytes)
{
	return a == b || a + n_bytes <= b || b + n_bytes <= a;
}

static bool takes(struct et_evalue *const *const *args)
{
	const struct et_tensor *x = args[EQ][0]->tensor, *y = args[WHERE][2]->tensor, *out = args[WHERE][3]->tensor;
	const struct et_evalue *number = args[EQ][1];
	bool is_chain = args[NOT][0] == args[EQ][2] && args[ANY][0] == args[NOT][1] &&
			args[NOT_AGAIN][0] == args[ANY][3] && args[WHERE][0] == args[NOT_AGAIN][1] &&
			args[WHERE][1] == args[FULL][3];
	if (!is_chain || x->n_dims == 0 || x->sizes[x->n_dims - 1] > MOST_COLUMNS || number->tag != ET_TAG_DOUBLE ||
		number->d != -INFINITY || (args[ANY][1]->i != -1 && args[ANY][1]->i != x->n_dims - 1) ||
		!args[ANY][2]->b)
		return false;
	const size_t n_bytes = et_tensor_numel(x) * sizeof(float);
	return n_bytes && fits(args[EQ][0], ET_FLOAT32, x, false) && fits(args[EQ][2], ET_BOOL, x, false) &&
	       fits(args[NOT][1], ET_BOOL, x, false) && fits(args[ANY][3], ET_BOOL, x, true) &&
	       fits(args[NOT_AGAIN][1], ET_BOOL, x, true) &&
	       fits(args[FULL][0], args[FULL][0]->tensor->type, x, false) &&
	       fits(args[FULL][3], ET_FLOAT32, x, false) && fits(args[WHERE][2], ET_FLOAT32, x, false) &&
	       fits(args[WHERE][3], ET_FLOAT32, x, false) && is_apart(out->data, x->data, n_bytes) &&
	       is_apart(out->data, y->data, n_bytes);
}

struct rows {
	const float *x, *y;
	float *out;
	size_t n_columns;
	float fill;
};

static void run_rows(void *arg, size_t begin, size_t end)
{
	const struct rows *rows = arg;
	const size_t n = rows->n_columns;
	for (size_t i = begin; i < end; i++) {
		const float *x = rows->x + i * n, *y = rows->y + i * n;
		float *out = rows->out + i * n;
		size_t k = 0;
		while (k < n && x[k] == -INFINITY)
			k++;
		if (k < n && out != y)
			memcpy(out, y, n * sizeof(*out));
		for (size_t j = 0; j < n && k == n; j++)
			out[j] = rows->fill;
	}
}

static enum et_status run(struct et_kernel_ctx *ctx, struct et_evalue *const *const *args, bool *ret_is_done)
{
	struct et_wide fill;
	if (!takes(args))
		return ET_OK;
	ET_TRY(et_number_element(ctx, ET_FLOAT32, args[FULL][1], &fill));
	const struct et_tensor *x = args[EQ][0]->tensor;
	struct rows rows = { x->data, args[WHERE][2]->tensor->data, args[WHERE][3]->tensor->data,
		(size_t)x->sizes[x->n_dims - 1], 0 };
	memcpy(&rows.fill, &fill, sizeof(rows.fill));
	et_parallel_for(ctx->compute, run_rows, &rows, et_tensor_numel(x) / rows.n_columns, 1 + GRAIN / rows.n_columns);
	*ret_is_done = true;
	return ET_OK;
}

const struct et_kernel_sequence et_masked_rows = {
	.n = N_CALLS,
	.names = { "aten::eq.Scalar_out", "aten::logical_not.out", "aten::any.out", "aten::logical_not.out",
		"aten::full_like.out", "aten::where.self_out" },
	.run = run,
};
