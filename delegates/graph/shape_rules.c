/* SPDX-License-Identifier: BSD-3-Clause */
/* Shape rules of all operators but those with windows (window_rules.c). The rules are PyTorch's; for et_vk, what
 * ExecuTorch's backends/vulkan/custom_ops_lib.py computes. */
#include "delegates/graph/shape_rules.h"

#include "delegates/graph/operators.h"
#include "runtime/base/checked.h"

#include <math.h>
#include <string.h>

static bool set(struct et_graph_shapes *s, uint32_t result, const uint32_t *dims, uint32_t n_dims)
{
	struct et_graph_size *size = et_graph_result(s, result);
	if (n_dims > ET_GRAPH_MAX_DIMS)
		return et_graph_misfit(s, "%u dimensions", n_dims);
	memset(size->dims, 0, sizeof(size->dims));
	memcpy(size->dims, dims, n_dims * sizeof(*dims));
	size->n_dims = (uint8_t)n_dims;
	return true;
}

static bool set_like(struct et_graph_shapes *s, uint32_t result, const struct et_graph_size *size)
{
	return set(s, result, size->dims, size->n_dims);
}

static uint64_t numel(const uint32_t *dims, uint32_t n_dims)
{
	uint64_t n = 1;
	for (uint32_t i = 0; i < n_dims; i++)
		n = et_times(n, dims[i]);
	return n;
}

/* --- the same, or broadcast ----------------------------------------------------------------------- */

bool et_graph_infer_same(struct et_graph_shapes *s)
{
	return set_like(s, 0, et_graph_arg(s, 0));
}

static bool broadcast(struct et_graph_shapes *s, struct et_graph_size *to, const struct et_graph_size *other)
{
	uint32_t n = to->n_dims > other->n_dims ? to->n_dims : other->n_dims;
	struct et_graph_size size = { .n_dims = (uint8_t)n };
	for (uint32_t i = 1; i <= n; i++) { /* from the innermost dimension */
		uint32_t a = i <= to->n_dims ? to->dims[to->n_dims - i] : 1;
		uint32_t b = i <= other->n_dims ? other->dims[other->n_dims - i] : 1;
		if (a != b && a != 1 && b != 1)
			return et_graph_misfit(s, "sizes %u and %u do not go together", a, b);
		size.dims[n - i] = a == 1 ? b : a;
	}
	*to = size;
	return true;
}

/* All tensors among the arguments. */
bool et_graph_infer_broadcast(struct et_graph_shapes *s)
{
	struct et_graph_size size = *et_graph_arg(s, 0);
	for (uint32_t i = 1; i < s->node->n_args; i++) {
		const struct et_graph_size *other = et_graph_arg(s, i);
		if (other && !broadcast(s, &size, other))
			return false;
	}
	return set_like(s, 0, &size);
}

bool et_graph_infer_rotary(struct et_graph_shapes *s)
{
	return set_like(s, 0, et_graph_arg(s, 0)) && set_like(s, 1, et_graph_arg(s, 1));
}

/* q [B,H,S,D], k and v [B,H,L,D]. */
bool et_graph_infer_attention(struct et_graph_shapes *s)
{
	const struct et_graph_size *q = et_graph_arg(s, 0), *k = et_graph_arg(s, 1), *v = et_graph_arg(s, 2);
	if (q->n_dims != 4 || k->n_dims != 4 || v->n_dims != 4 || q->dims[3] != k->dims[3] || k->dims[2] != v->dims[2])
		return et_graph_misfit(s, "query, key and value do not fit each other");
	struct et_graph_size size = *q;
	size.dims[3] = v->dims[3];
	return set_like(s, 0, &size);
}

/* q [N,S,D], v [N,L,E] */
bool et_graph_infer_attention_rows(struct et_graph_shapes *s)
{
	const struct et_graph_size *q = et_graph_arg(s, 0), *v = et_graph_arg(s, 2);
	if (q->n_dims != 3 || v->n_dims != 3)
		return et_graph_misfit(s, "query and value do not fit each other");
	struct et_graph_size size = *q;
	size.dims[2] = v->dims[2];
	return set_like(s, 0, &size);
}

/* --- products ------------------------------------------------------------------------------------- */

bool et_graph_infer_matmul(struct et_graph_shapes *s)
{
	const struct et_graph_size *a = et_graph_arg(s, 0), *b = et_graph_arg(s, 1);
	uint32_t n = a->n_dims;
	if (n < 2 || n > 3 || b->n_dims != n || a->dims[n - 1] != b->dims[n - 2] ||
		(n == 3 && a->dims[0] != b->dims[0]))
		return et_graph_misfit(s, "the matrices do not fit each other");
	struct et_graph_size size = *a;
	size.dims[n - 1] = b->dims[n - 1];
	return set_like(s, 0, &size);
}

static bool infer_linear(struct et_graph_shapes *s, uint32_t weights_arg)
{
	const struct et_graph_size *x = et_graph_arg(s, 0), *w = et_graph_arg(s, weights_arg);
	if (!x->n_dims || w->n_dims != 2)
		return et_graph_misfit(s, "an input of %u dimensions, weights of %u", x->n_dims, w->n_dims);
	struct et_graph_size size = *x;
	size.dims[x->n_dims - 1] = w->dims[0];
	return set_like(s, 0, &size);
}

bool et_graph_infer_linear(struct et_graph_shapes *s)
{
	return infer_linear(s, 1);
}

bool et_graph_infer_linear_dq8ca(struct et_graph_shapes *s)
{
	return infer_linear(s, 3);
}

bool et_graph_infer_q8ta_linear(struct et_graph_shapes *s)
{
	return infer_linear(s, 3);
}

/* --- reductions and norms ------------------------------------------------------------------------- */

static bool reduce(struct et_graph_shapes *s, const bool *is_reduced, bool is_kept)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	uint32_t dims[ET_GRAPH_MAX_DIMS], n = 0;
	for (uint32_t i = 0; i < x->n_dims; i++) {
		if (!is_reduced[i])
			dims[n++] = x->dims[i];
		else if (is_kept)
			dims[n++] = 1;
	}
	return set(s, 0, dims, n);
}

/* x, dims (none or empty: all), keepdim */
bool et_graph_infer_reduce(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	bool is_reduced[ET_GRAPH_MAX_DIMS] = { false };
	uint32_t n = et_graph_n_items(s, 1);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t dim;
		if (!et_graph_dim(s, et_graph_item(s, 1, i), x->n_dims, &dim))
			return false;
		is_reduced[dim] = true;
	}
	if (!n)
		memset(is_reduced, true, sizeof(is_reduced));
	return reduce(s, is_reduced, et_graph_bool(s, 2));
}

/* x, one dim or none, keepdim */
bool et_graph_infer_reduce_one(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	bool is_reduced[ET_GRAPH_MAX_DIMS] = { false };
	uint32_t dim;
	if (s->graph->values[s->node->args[1]].kind == ET_GRAPH_NULL) {
		memset(is_reduced, true, sizeof(is_reduced));
	} else {
		if (!et_graph_dim(s, et_graph_int(s, 1, 0), x->n_dims, &dim))
			return false;
		is_reduced[dim] = true;
	}
	return reduce(s, is_reduced, et_graph_bool(s, 2));
}

/* Mean and deviation have a one in place of each dimension that is normalized. */
bool et_graph_infer_layer_norm(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	uint32_t n = et_graph_n_items(s, 1);
	if (n > x->n_dims)
		return et_graph_misfit(s, "it normalizes %u of %u dimensions", n, x->n_dims);
	struct et_graph_size size = *x;
	for (uint32_t i = x->n_dims - n; i < x->n_dims; i++)
		size.dims[i] = 1;
	return set_like(s, 0, x) && set_like(s, 1, &size) && set_like(s, 2, &size);
}

/* x, weight, bias, N, C, HW, groups, eps */
bool et_graph_infer_group_norm(struct et_graph_shapes *s)
{
	uint32_t dims[2];
	return et_graph_take_size(s, et_graph_int(s, 3, 0), &dims[0]) &&
	       et_graph_take_size(s, et_graph_int(s, 6, 0), &dims[1]) && set_like(s, 0, et_graph_arg(s, 0)) &&
	       set(s, 1, dims, 2) && set(s, 2, dims, 2);
}

bool et_graph_infer_batch_norm(struct et_graph_shapes *s)
{
	static const uint32_t nothing[] = { 0 };
	return set_like(s, 0, et_graph_arg(s, 0)) && set(s, 1, nothing, 1) && set(s, 2, nothing, 1);
}

/* A scale and a zero point for each block of x. block_size (argument 2) has a size for each dimension; a dimension that
 * one block covers is dropped unless keepdim (argument 9), but for a block of 1, which covers nothing. */
bool et_graph_infer_qparams(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	uint32_t dims[ET_GRAPH_MAX_DIMS], n = 0;
	if (et_graph_n_items(s, 2) != x->n_dims)
		return et_graph_misfit(s, "a block of %u dimensions", et_graph_n_items(s, 2));
	for (uint32_t i = 0; i < x->n_dims; i++) {
		int64_t block = et_graph_item(s, 2, i);
		if (block <= 0 || x->dims[i] % block != 0)
			return et_graph_misfit(s, "blocks of %lld in a dimension of %u", (long long)block, x->dims[i]);
		if (block == 1 || block != x->dims[i] || et_graph_bool(s, 9))
			dims[n++] = (uint32_t)(x->dims[i] / block);
	}
	return set(s, 0, dims, n) && set(s, 1, dims, n);
}

/* --- movement ------------------------------------------------------------------------------------- */

bool et_graph_infer_view(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	uint32_t n = et_graph_n_items(s, 1), dims[ET_GRAPH_MAX_DIMS], open = ET_GRAPH_NONE;
	uint64_t n_elements = numel(x->dims, x->n_dims), n_given;
	if (n > ET_GRAPH_MAX_DIMS)
		return et_graph_misfit(s, "%u dimensions", n);
	for (uint32_t i = 0; i < n; i++) {
		int64_t size = et_graph_item(s, 1, i);
		dims[i] = 1;
		if (size == -1 && open == ET_GRAPH_NONE)
			open = i; /* what is left */
		else if (!et_graph_take_size(s, size, &dims[i]))
			return false;
	}
	n_given = numel(dims, n);
	if (open != ET_GRAPH_NONE) {
		if (!n_given || n_elements % n_given != 0 || n_elements / n_given > UINT32_MAX)
			return et_graph_misfit(s, "%llu elements do not fit", (unsigned long long)n_elements);
		dims[open] = (uint32_t)(n_elements / n_given);
	} else if (n_given != n_elements) {
		return et_graph_misfit(s, "%llu elements become %llu", (unsigned long long)n_elements,
			(unsigned long long)n_given);
	}
	return set(s, 0, dims, n);
}

bool et_graph_infer_permute(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	struct et_graph_size size = *x;
	uint32_t seen = 0;
	if (et_graph_n_items(s, 1) != x->n_dims)
		return et_graph_misfit(s, "a permutation of %u dimensions", et_graph_n_items(s, 1));
	for (uint32_t i = 0; i < x->n_dims; i++) {
		uint32_t dim;
		if (!et_graph_dim(s, et_graph_item(s, 1, i), x->n_dims, &dim))
			return false;
		seen |= 1u << dim;
		size.dims[i] = x->dims[dim];
	}
	if (seen != (1u << x->n_dims) - 1)
		return et_graph_misfit(s, "a dimension comes twice");
	return set_like(s, 0, &size);
}

bool et_graph_infer_cat(struct et_graph_shapes *s)
{
	struct et_graph_size size = { .n_dims = 0 };
	uint32_t n = et_graph_n_items(s, 0), dim = 0;
	bool is_first = true;
	for (uint32_t i = 0; i < n; i++) {
		const struct et_graph_size *x = et_graph_tensor_item(s, 0, i);
		if (x->n_dims == 1 && !x->dims[0]) /* as in PyTorch: it goes with everything */
			continue;
		if (is_first) {
			size = *x;
			is_first = false;
			if (!et_graph_dim(s, et_graph_int(s, 1, 0), x->n_dims, &dim))
				return false;
			continue;
		}
		if (x->n_dims != size.n_dims)
			return et_graph_misfit(s, "tensors of %u and %u dimensions", size.n_dims, x->n_dims);
		for (uint32_t k = 0; k < x->n_dims; k++)
			if (k != dim && x->dims[k] != size.dims[k])
				return et_graph_misfit(s, "sizes %u and %u", size.dims[k], x->dims[k]);
		if (!et_graph_take_size(s, (int64_t)size.dims[dim] + x->dims[dim], &size.dims[dim]))
			return false;
	}
	if (is_first && n)
		size = *et_graph_tensor_item(s, 0, 0);
	return n ? set_like(s, 0, &size) : et_graph_misfit(s, "it has no tensors");
}

bool et_graph_infer_expand(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	uint32_t n = et_graph_n_items(s, 1), dims[ET_GRAPH_MAX_DIMS];
	if (n > ET_GRAPH_MAX_DIMS || n < x->n_dims)
		return et_graph_misfit(s, "%u dimensions become %u", x->n_dims, n);
	for (uint32_t i = 0; i < n; i++) {
		int64_t size = et_graph_item(s, 1, i);
		uint32_t own = i < n - x->n_dims ? 1 : x->dims[i - (n - x->n_dims)];
		if (size == -1)
			size = own;
		if (!et_graph_take_size(s, size, &dims[i]))
			return false;
		if (own != 1 && own != dims[i])
			return et_graph_misfit(s, "size %u becomes %u", own, dims[i]);
	}
	return set(s, 0, dims, n);
}

/* The place where a slice begins or ends, as in Python. */
static int64_t clip(int64_t at, uint32_t size)
{
	if (at < 0)
		at += size;
	return at < 0 ? 0 : at > size ? size : at;
}

bool et_graph_infer_slice(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	uint32_t dim;
	if (!x->n_dims || !et_graph_dim(s, et_graph_int(s, 1, 0), x->n_dims, &dim))
		return et_graph_misfit(s, "a slice of a number");
	uint32_t n = x->dims[dim];
	int64_t from = clip(et_graph_int(s, 2, 0), n), to = clip(et_graph_int(s, 3, n), n);
	int64_t step = et_graph_int(s, 4, 1);
	if (step <= 0)
		return et_graph_misfit(s, "the step %lld", (long long)step);
	struct et_graph_size size = *x;
	size.dims[dim] = to > from ? (uint32_t)((to - from - 1) / step + 1) : 0;
	return set_like(s, 0, &size);
}

bool et_graph_infer_select(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	uint32_t dim, dims[ET_GRAPH_MAX_DIMS], n = 0;
	if (!x->n_dims || !et_graph_dim(s, et_graph_int(s, 1, 0), x->n_dims, &dim))
		return et_graph_misfit(s, "a part of a number");
	int64_t index = et_graph_int(s, 2, 0);
	if (index < -(int64_t)x->dims[dim] || index >= x->dims[dim])
		return et_graph_misfit(s, "index %lld of %u", (long long)index, x->dims[dim]);
	for (uint32_t i = 0; i < x->n_dims; i++)
		if (i != dim)
			dims[n++] = x->dims[i];
	return set(s, 0, dims, n);
}

bool et_graph_infer_split(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	uint32_t dim, n = et_graph_n_items(s, 1);
	uint64_t sum = 0;
	if (n != s->node->n_results || !et_graph_dim(s, et_graph_int(s, 2, 0), x->n_dims, &dim))
		return et_graph_misfit(s, "%u sizes for %u parts", n, s->node->n_results);
	for (uint32_t i = 0; i < n; i++) {
		struct et_graph_size size = *x;
		if (!et_graph_take_size(s, et_graph_item(s, 1, i), &size.dims[dim]) || !set_like(s, i, &size))
			return false;
		et_add_up(&sum, size.dims[dim]);
	}
	return sum == x->dims[dim] || et_graph_misfit(s, "the parts' sizes do not add up to %u", x->dims[dim]);
}

bool et_graph_infer_squeeze(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	bool is_gone[ET_GRAPH_MAX_DIMS] = { false };
	uint32_t dims[ET_GRAPH_MAX_DIMS], n = 0;
	for (uint32_t i = 0; i < et_graph_n_items(s, 1); i++) {
		uint32_t dim;
		if (!et_graph_dim(s, et_graph_item(s, 1, i), x->n_dims, &dim))
			return false;
		is_gone[dim] = x->dims[dim] == 1;
	}
	for (uint32_t i = 0; i < x->n_dims; i++)
		if (!is_gone[i])
			dims[n++] = x->dims[i];
	return set(s, 0, dims, n);
}

bool et_graph_infer_unsqueeze(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	uint32_t dim, dims[ET_GRAPH_MAX_DIMS + 1];
	if (!et_graph_dim(s, et_graph_int(s, 1, 0), x->n_dims + 1, &dim))
		return false;
	for (uint32_t i = 0, k = 0; i <= x->n_dims; i++)
		dims[i] = i == dim ? 1 : x->dims[k++];
	return set(s, 0, dims, x->n_dims + 1);
}

bool et_graph_infer_embedding(struct et_graph_shapes *s)
{
	const struct et_graph_size *weights = et_graph_arg(s, 0), *indices = et_graph_arg(s, 1);
	struct et_graph_size size = *indices;
	if (weights->n_dims != 2 || indices->n_dims >= ET_GRAPH_MAX_DIMS)
		return et_graph_misfit(s, "weights of %u dimensions, indices of %u", weights->n_dims, indices->n_dims);
	size.dims[size.n_dims++] = weights->dims[1];
	return set_like(s, 0, &size);
}

bool et_graph_infer_gather(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0), *indices = et_graph_arg(s, 2);
	uint32_t dim;
	if (!et_graph_dim(s, et_graph_int(s, 1, 0), x->n_dims, &dim))
		return false;
	if (x->n_dims != indices->n_dims)
		return et_graph_misfit(s, "%u and %u dimensions", x->n_dims, indices->n_dims);
	for (uint32_t i = 0; i < x->n_dims; i++)
		if (i != dim && indices->dims[i] > x->dims[i])
			return et_graph_misfit(s, "%u indices for a size of %u", indices->dims[i], x->dims[i]);
	return set_like(s, 0, indices);
}

/* The dimensions that have indices become one broadcast block of dimensions: where they are if they follow each other,
 * else in front. */
bool et_graph_infer_index(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	uint32_t n = et_graph_n_items(s, 1), dims[2 * ET_GRAPH_MAX_DIMS], n_dims = 0, first = 0, last = 0,
		 n_indexed = 0;
	struct et_graph_size block = { .n_dims = 0 };
	if (n > x->n_dims)
		return et_graph_misfit(s, "%u indices for %u dimensions", n, x->n_dims);
	for (uint32_t i = 0; i < n; i++) {
		const struct et_graph_size *index = et_graph_tensor_item(s, 1, i);
		if (!index)
			continue;
		if (!broadcast(s, &block, index))
			return false;
		if (!n_indexed++)
			first = i;
		last = i;
	}
	if (!n_indexed)
		return et_graph_misfit(s, "no index");
	uint32_t at = last - first + 1 == n_indexed ? first : 0;
	for (uint32_t i = 0; i <= x->n_dims; i++) {
		if (i == at) {
			memcpy(dims + n_dims, block.dims, block.n_dims * sizeof(*dims));
			n_dims += block.n_dims;
		}
		if (i < x->n_dims && (i >= n || !et_graph_tensor_item(s, 1, i)))
			dims[n_dims++] = x->dims[i];
	}
	return set(s, 0, dims, n_dims);
}

bool et_graph_infer_full(struct et_graph_shapes *s)
{
	uint32_t n = et_graph_n_items(s, 0), dims[ET_GRAPH_MAX_DIMS];
	if (n > ET_GRAPH_MAX_DIMS)
		return et_graph_misfit(s, "%u dimensions", n);
	for (uint32_t i = 0; i < n; i++)
		if (!et_graph_take_size(s, et_graph_item(s, 0, i), &dims[i]))
			return false;
	return set(s, 0, dims, n);
}

bool et_graph_infer_arange(struct et_graph_shapes *s)
{
	bool is_symbol = s->graph->values[s->node->args[1]].kind == ET_GRAPH_SYMBOL;
	double from = et_graph_double(s, 0, 0), step = et_graph_double(s, 2, 1);
	double to = is_symbol ? (double)et_graph_int(s, 1, 0) : et_graph_double(s, 1, 0);
	double n = ceil((to - from) / step);
	uint32_t dim;
	if (!(n >= 0) || n > UINT32_MAX || step == 0)
		return et_graph_misfit(s, "from %g to %g by %g", from, to, step);
	dim = (uint32_t)n;
	return set(s, 0, &dim, 1);
}

/* Pairs from the innermost dimension on: how much to add in front and behind; negative: to take away. */
bool et_graph_infer_pad(struct et_graph_shapes *s)
{
	struct et_graph_size size = *et_graph_arg(s, 0);
	uint32_t n = et_graph_n_items(s, 1);
	if (n % 2 != 0 || n / 2 > size.n_dims)
		return et_graph_misfit(s, "%u numbers for %u dimensions", n, size.n_dims);
	for (uint32_t i = 0; i < n / 2; i++) {
		uint32_t *dim = &size.dims[size.n_dims - 1 - i];
		int64_t before = et_graph_item(s, 1, 2 * i), behind = et_graph_item(s, 1, 2 * i + 1);
		if (before > INT32_MAX || before < INT32_MIN || behind > INT32_MAX || behind < INT32_MIN)
			return et_graph_misfit(s, "padding of %lld and %lld", (long long)before, (long long)behind);
		if (!et_graph_take_size(s, *dim + before + behind, dim))
			return false;
	}
	return set_like(s, 0, &size);
}

/* --- symbols -------------------------------------------------------------------------------------- */

static bool set_symbol(struct et_graph_shapes *s, int64_t i)
{
	struct et_graph_size *size = et_graph_result(s, 0);
	size->symbol = i;
	size->is_known = !s->is_unknown;
	return true;
}

bool et_graph_infer_sym_size(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	uint32_t dim;
	if (!x->n_dims || !et_graph_dim(s, et_graph_int(s, 1, 0), x->n_dims, &dim))
		return et_graph_misfit(s, "a size of a number");
	return set_symbol(s, x->dims[dim]);
}

/* The element of a tensor: whoever runs the graph reads it. */
bool et_graph_infer_unknown_symbol(struct et_graph_shapes *s)
{
	s->is_unknown = true;
	return set_symbol(s, 0);
}

bool et_graph_infer_arithmetic(struct et_graph_shapes *s)
{
	int64_t a = et_graph_int(s, 0, 0), b = et_graph_int(s, 1, 0), result = 0;
	bool is_wrong;
	switch (s->node->op->name[0]) {
	case 'a':
		is_wrong = __builtin_add_overflow(a, b, &result);
		break;
	case 's':
		is_wrong = __builtin_sub_overflow(a, b, &result);
		break;
	case 'm':
		is_wrong = __builtin_mul_overflow(a, b, &result);
		break;
	default:
		is_wrong = !b || (a == INT64_MIN && b == -1);
		if (!is_wrong)
			result = a / b - (a % b != 0 && (a < 0) != (b < 0));
	}
	if (is_wrong)
		return et_graph_misfit(s, "%lld and %lld", (long long)a, (long long)b);
	return set_symbol(s, result);
}
