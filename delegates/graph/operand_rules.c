/* SPDX-License-Identifier: BSD-3-Clause */
/* What a kernel reads beside the tensor whose sizes give the result's: each operand must be as large as the kernel
 * takes for granted. The sizes are those of one run, or the largest ones.
 *
 * What must always be true: a kernel that reads its operands by the rules in operators.h and checks nothing but indexes
 * that lie in tensors stays within every operand of a graph that was verified.
 *
 * Exporters pad the weights of quantized operators to a multiple of four rows or columns, so those operands may be
 * larger. Everything else has exactly the sizes that PyTorch asks for. */
#include "delegates/graph/operand_rules.h"

#include "delegates/graph/operators.h"
#include "runtime/base/checked.h"
#include "runtime/tensor.h"

#include <string.h>

typedef const struct et_graph_size *sizes;

static uint64_t numel(sizes size)
{
	uint64_t n = 1;
	for (uint32_t i = 0; i < size->n_dims; i++)
		n = et_times(n, size->dims[i]);
	return n;
}

static uint32_t last_dim(sizes size)
{
	return size->n_dims ? size->dims[size->n_dims - 1] : 1;
}

/* Whether argument @arg is a vector of @n elements, or was left out. */
static bool is_vector(struct et_graph_shapes *s, uint32_t arg, uint32_t n)
{
	sizes size = et_graph_arg(s, arg);
	return !size || (size->n_dims == 1 && size->dims[0] == n) ||
	       et_graph_misfit(s, "argument %u is no vector of %u elements", arg, n);
}

/* Whether argument @arg has @n elements at least, or was left out. */
static bool has_elements(struct et_graph_shapes *s, uint32_t arg, uint64_t n)
{
	sizes size = et_graph_arg(s, arg);
	return !size || numel(size) >= n ||
	       et_graph_misfit(s, "argument %u has %llu elements, %llu are needed", arg,
		       (unsigned long long)numel(size), (unsigned long long)n);
}

static bool has_n_dims(struct et_graph_shapes *s, uint32_t arg, uint32_t n)
{
	sizes size = et_graph_arg(s, arg);
	return size->n_dims == n || et_graph_misfit(s, "argument %u has %u dimensions, not %u", arg, size->n_dims, n);
}

/* Whether the number in argument @arg is known: a literal, or a symbol in a run. */
static bool is_known(const struct et_graph_shapes *s, uint32_t arg)
{
	uint32_t index = s->node->args[arg];
	const struct et_graph_value *value = &s->graph->values[index];
	return value->kind == ET_GRAPH_INT || (value->kind == ET_GRAPH_SYMBOL && s->sizes[index].is_known);
}

/* Whether argument @arg was left out or is one of two texts. */
static bool is_text(struct et_graph_shapes *s, uint32_t arg, const char *one, const char *other)
{
	const struct et_graph_value *value = &s->graph->values[s->node->args[arg]];
	return value->kind != ET_GRAPH_STRING || strcmp(value->string, one) == 0 || strcmp(value->string, other) == 0 ||
	       et_graph_misfit(s, "argument %u is neither '%s' nor '%s'", arg, one, other);
}

/* Whether the last dimensions of @size can be broadcast to the @n_dims dimensions in @to. */
static bool is_broadcast_of(sizes size, const uint32_t *to, uint32_t n_dims)
{
	if (size->n_dims > n_dims)
		return false;
	for (uint32_t i = 1; i <= size->n_dims; i++)
		if (size->dims[size->n_dims - i] != 1 && size->dims[size->n_dims - i] != to[n_dims - i])
			return false;
	return true;
}

bool et_graph_fits_any(struct et_graph_shapes *s)
{
	return true;
}

/* --- texts and dimensions ------------------------------------------------------------------------- */

bool et_graph_fits_gelu(struct et_graph_shapes *s)
{
	return is_text(s, 1, "none", "tanh");
}

bool et_graph_fits_div_mode(struct et_graph_shapes *s)
{
	return is_text(s, 2, "floor", "trunc");
}

/* Argument 1 is a dimension of the first tensor. */
bool et_graph_fits_dim(struct et_graph_shapes *s)
{
	uint32_t dim;
	return !is_known(s, 1) || et_graph_dim(s, et_graph_int(s, 1, 0), et_graph_arg(s, 0)->n_dims, &dim);
}

/* Argument 1 has dimensions of the first tensor, each once. */
bool et_graph_fits_dims(struct et_graph_shapes *s)
{
	sizes x = et_graph_arg(s, 0);
	uint32_t dim, seen = 0;
	for (uint32_t i = 0; i < et_graph_n_items(s, 1); i++) {
		if (!et_graph_dim(s, et_graph_item(s, 1, i), x->n_dims, &dim))
			return false;
		if (seen & 1u << dim)
			return et_graph_misfit(s, "dimension %u comes twice", dim);
		seen |= 1u << dim;
	}
	return true;
}

/* There is an element for each of the result to choose from. */
bool et_graph_fits_some(struct et_graph_shapes *s)
{
	return numel(et_graph_arg(s, 0)) || !numel(et_graph_result(s, 0)) ||
	       et_graph_misfit(s, "nothing to choose from");
}

/* x, dim, index: one element. */
bool et_graph_fits_element(struct et_graph_shapes *s)
{
	sizes x = et_graph_arg(s, 0);
	uint32_t dim;
	if (!x->n_dims || !is_known(s, 1) || !is_known(s, 2))
		return et_graph_misfit(s, "an element that is not known");
	if (!et_graph_dim(s, et_graph_int(s, 1, 0), x->n_dims, &dim))
		return false;
	int64_t index = et_graph_int(s, 2, 0), n = x->dims[dim];
	if (index < -n || index >= n || numel(x) != x->dims[dim])
		return et_graph_misfit(s, "index %lld of %u, of %llu elements", (long long)index, x->dims[dim],
			(unsigned long long)numel(x));
	return true;
}

/* What is taken away at one end is there before anything is added at the other. */
bool et_graph_fits_pad(struct et_graph_shapes *s)
{
	sizes x = et_graph_arg(s, 0);
	for (uint32_t i = 0; i < et_graph_n_items(s, 1) / 2; i++) {
		int64_t before = et_graph_item(s, 1, 2 * i), behind = et_graph_item(s, 1, 2 * i + 1);
		int64_t left = x->dims[x->n_dims - 1 - i];
		if (before < -left || behind < -left || (before < 0 ? before : 0) + (behind < 0 ? behind : 0) < -left)
			return et_graph_misfit(s, "more is taken away than there is");
	}
	return true;
}

/* --- windows -------------------------------------------------------------------------------------- */

static int64_t spatial(struct et_graph_shapes *s, uint32_t arg, uint32_t index, int64_t absent)
{
	uint32_t n = et_graph_n_items(s, arg);
	return n ? et_graph_item(s, arg, index < n ? index : n - 1) : absent;
}

bool et_graph_fits_convolution(struct et_graph_shapes *s)
{
	return is_vector(s, 2, et_graph_result(s, 0)->dims[1]);
}

/* Each window has an element of the input at least. x, kernel, stride, padding */
static bool fits_pool(struct et_graph_shapes *s)
{
	for (uint32_t i = 0; i < 2; i++)
		if (spatial(s, 3, i, 0) > spatial(s, 1, i, 1) / 2)
			return et_graph_misfit(s, "a padding of more than half the kernel");
	return et_graph_fits_some(s);
}

bool et_graph_fits_max_pool(struct et_graph_shapes *s)
{
	for (uint32_t i = 0; i < 2; i++)
		if (spatial(s, 4, i, 1) != 1 && spatial(s, 3, i, 0))
			return et_graph_misfit(s, "both padding and dilation"); /* a window could miss the input */
	return fits_pool(s);
}

bool et_graph_fits_avg_pool(struct et_graph_shapes *s)
{
	if (is_known(s, 6) && !et_graph_int(s, 6, 1))
		return et_graph_misfit(s, "a division by zero");
	return fits_pool(s);
}

bool et_graph_fits_resize(struct et_graph_shapes *s)
{
	return et_graph_fits_some(s);
}

/* --- norms ---------------------------------------------------------------------------------------- */

bool et_graph_fits_rms_norm(struct et_graph_shapes *s)
{
	sizes x = et_graph_arg(s, 0);
	return x->n_dims ? is_vector(s, 1, last_dim(x)) : et_graph_misfit(s, "a norm of a number");
}

/* x, sizes, weight, bias: the last dimensions of x. */
bool et_graph_fits_layer_norm(struct et_graph_shapes *s)
{
	sizes x = et_graph_arg(s, 0);
	uint32_t n = et_graph_n_items(s, 1);
	if (!n)
		return et_graph_misfit(s, "it normalizes nothing");
	for (uint32_t arg = 2; arg <= 3; arg++) {
		sizes w = et_graph_arg(s, arg);
		if (w && (w->n_dims != n || memcmp(w->dims, x->dims + x->n_dims - n, n * sizeof(*w->dims)) != 0))
			return et_graph_misfit(s, "argument %u has not the sizes that are normalized", arg);
	}
	const struct et_graph_value *list = &s->graph->values[s->node->args[1]];
	for (uint32_t i = 0; i < n && list->kind == ET_GRAPH_INTS; i++)
		if (list->list.ints[i] != x->dims[x->n_dims - n + i])
			return et_graph_misfit(s, "it normalizes other sizes than the input has");
	return true;
}

/* x, weight, bias, N, C, HW, groups */
bool et_graph_fits_group_norm(struct et_graph_shapes *s)
{
	sizes x = et_graph_arg(s, 0);
	uint64_t n_inner = 1;
	if (x->n_dims < 2)
		return et_graph_misfit(s, "an input of %u dimensions", x->n_dims);
	for (uint32_t i = 2; i < x->n_dims; i++)
		n_inner = et_times(n_inner, x->dims[i]);
	const uint64_t wanted[] = { x->dims[0], x->dims[1], n_inner };
	for (uint32_t i = 0; i < ET_ARRAY_LEN(wanted); i++)
		if (is_known(s, 3 + i) && (uint64_t)et_graph_int(s, 3 + i, 0) != wanted[i])
			return et_graph_misfit(s, "argument %u is not the input's", 3 + i);
	if (is_known(s, 6)) {
		int64_t groups = et_graph_int(s, 6, 1);
		if (groups < 1 || x->dims[1] % groups != 0)
			return et_graph_misfit(s, "%lld groups of %u channels", (long long)groups, x->dims[1]);
	}
	return is_vector(s, 1, x->dims[1]) && is_vector(s, 2, x->dims[1]);
}

/* x, weight, bias, mean, variance */
bool et_graph_fits_batch_norm(struct et_graph_shapes *s)
{
	sizes x = et_graph_arg(s, 0);
	if (x->n_dims < 2)
		return et_graph_misfit(s, "an input of %u dimensions", x->n_dims);
	for (uint32_t arg = 1; arg <= 4; arg++)
		if (!is_vector(s, arg, x->dims[1]))
			return false;
	return true;
}

/* --- linear layers -------------------------------------------------------------------------------- */

/* The rows of weights must have an element for each of x. @per_item: weights in an element. */
static bool has_columns(struct et_graph_shapes *s, uint32_t weights_arg, uint32_t per_item)
{
	uint64_t k = last_dim(et_graph_arg(s, 0)), n = (uint64_t)et_graph_arg(s, weights_arg)->dims[1] * per_item;
	return k <= n || et_graph_misfit(s, "rows of %llu weights, the input has %llu", (unsigned long long)n,
				 (unsigned long long)k);
}

static bool has_exact_columns(struct et_graph_shapes *s, uint32_t weights_arg)
{
	uint32_t k = last_dim(et_graph_arg(s, 0)), n = et_graph_arg(s, weights_arg)->dims[1];
	return k == n || et_graph_misfit(s, "rows of %u weights, the input has %u", n, k);
}

/* A table [groups, rows], both as many as the weights have or more. */
static bool has_groups(struct et_graph_shapes *s, uint32_t arg, uint32_t group_arg, uint32_t n_rows)
{
	sizes table = et_graph_arg(s, arg);
	uint32_t k = last_dim(et_graph_arg(s, 0));
	if (!is_known(s, group_arg) || et_graph_int(s, group_arg, 0) < 1)
		return et_graph_misfit(s, "groups of no weights");
	uint64_t group = (uint64_t)et_graph_int(s, group_arg, 0);
	if (table->n_dims != 2 || table->dims[1] < n_rows || et_times(table->dims[0], group) < k)
		return et_graph_misfit(s, "argument %u has not a row for each group of weights", arg);
	return true;
}

/* x, weights [N, K], bias [N] */
bool et_graph_fits_linear(struct et_graph_shapes *s)
{
	return has_exact_columns(s, 1) && is_vector(s, 2, et_graph_arg(s, 1)->dims[0]);
}

/* x, weights, scales */
bool et_graph_fits_linear_q8(struct et_graph_shapes *s)
{
	return has_exact_columns(s, 1) && has_elements(s, 2, et_graph_arg(s, 1)->dims[0]);
}

bool et_graph_fits_linear_qcs4w(struct et_graph_shapes *s)
{
	return has_columns(s, 1, 2) && has_elements(s, 2, et_graph_arg(s, 1)->dims[0]);
}

/* x, weights, scales, group size, bias */
bool et_graph_fits_linear_q4gsw(struct et_graph_shapes *s)
{
	uint32_t n_rows = et_graph_arg(s, 1)->dims[0];
	return has_columns(s, 1, 2) && has_groups(s, 2, 3, n_rows) && has_elements(s, 4, n_rows);
}

/* x, its scales and zero points, weights, their sums and scales, group size, bias */
bool et_graph_fits_linear_dq8ca(struct et_graph_shapes *s)
{
	sizes x = et_graph_arg(s, 0);
	uint32_t n_rows = et_graph_arg(s, 3)->dims[0];
	uint64_t n = 1;
	for (uint32_t i = 0; i + 1 < x->n_dims; i++)
		n = et_times(n, x->dims[i]);
	return has_elements(s, 1, n) && has_elements(s, 2, n) && has_columns(s, 3, 2) && has_groups(s, 4, 6, n_rows) &&
	       has_groups(s, 5, 6, n_rows) && has_elements(s, 7, n_rows);
}

/* --- static int8 ---------------------------------------------------------------------------------- */

/* x, scale, zero, weights, sums, scales, out scale, out zero, bias: an element of each for each channel */
static bool fits_q8ta(struct et_graph_shapes *s, uint64_t n_channels, uint32_t act_arg)
{
	return has_elements(s, 4, n_channels) && has_elements(s, 5, n_channels) && has_elements(s, 8, n_channels) &&
	       is_text(s, act_arg, "relu", "none");
}

bool et_graph_fits_q8ta_linear(struct et_graph_shapes *s)
{
	return has_columns(s, 3, 1) && fits_q8ta(s, et_graph_arg(s, 3)->dims[0], 9);
}

/* Weights [output channels, kernel and input channels of a group]. */
static bool fits_q8ta_window(struct et_graph_shapes *s, uint32_t groups_arg)
{
	sizes x = et_graph_arg(s, 0), w = et_graph_arg(s, 3);
	uint32_t n_channels = et_graph_result(s, 0)->dims[1];
	int64_t groups = et_graph_int(s, groups_arg, 1);
	if (!is_known(s, groups_arg) || groups < 1 || x->dims[1] % groups != 0 || n_channels % groups != 0)
		return et_graph_misfit(s, "%lld groups of %u and %u channels", (long long)groups, x->dims[1],
			n_channels);
	uint64_t n = et_times((uint64_t)spatial(s, 9, 0, 1) * (uint64_t)spatial(s, 9, 1, 1),
		x->dims[1] / (uint64_t)groups);
	if (w->n_dims != 2 || w->dims[0] < n_channels || w->dims[1] < n)
		return et_graph_misfit(s, "the weights are no %u rows of %llu", n_channels, (unsigned long long)n);
	return fits_q8ta(s, n_channels, groups_arg + 1);
}

bool et_graph_fits_q8ta_convolution(struct et_graph_shapes *s)
{
	return fits_q8ta_window(s, 13);
}

bool et_graph_fits_q8ta_transposed(struct et_graph_shapes *s)
{
	return fits_q8ta_window(s, 14);
}

bool et_graph_fits_q8ta_pointwise(struct et_graph_shapes *s)
{
	if (spatial(s, 9, 0, 1) != 1 || spatial(s, 9, 1, 1) != 1 || et_graph_int(s, 13, 1) != 1)
		return et_graph_misfit(s, "a kernel of more than one point, or several groups");
	return fits_q8ta_window(s, 13);
}

/* Weights [kernel height, kernel width, channels]. */
bool et_graph_fits_q8ta_depthwise(struct et_graph_shapes *s)
{
	sizes x = et_graph_arg(s, 0), w = et_graph_arg(s, 3);
	if (!has_n_dims(s, 3, 3))
		return false;
	if (w->dims[0] != spatial(s, 9, 0, 1) || w->dims[1] != spatial(s, 9, 1, 1) || w->dims[2] < x->dims[1] ||
		(is_known(s, 13) && et_graph_int(s, 13, 1) != x->dims[1]))
		return et_graph_misfit(s, "weights [%u, %u, %u] for %u channels", w->dims[0], w->dims[1], w->dims[2],
			x->dims[1]);
	return fits_q8ta(s, x->dims[1], 14);
}

/* --- between floats and integers ------------------------------------------------------------------ */

static bool is_range(struct et_graph_shapes *s, uint32_t arg, uint8_t type)
{
	if (!is_known(s, arg) || !is_known(s, arg + 1))
		return et_graph_misfit(s, "a range that is not known");
	int64_t least = et_graph_int(s, arg, 0), most = et_graph_int(s, arg + 1, 0);
	int64_t type_least = type == ET_INT8 ? INT8_MIN : type == ET_UINT8 ? 0 : INT32_MIN;
	int64_t type_most = type == ET_INT8 ? INT8_MAX : type == ET_UINT8 ? UINT8_MAX : INT32_MAX;
	return (least >= type_least && most <= type_most && least <= most) ||
	       et_graph_misfit(s, "a range from %lld to %lld", (long long)least, (long long)most);
}

/* x, scale, zero, least, most, both ways */
bool et_graph_fits_quantize(struct et_graph_shapes *s)
{
	uint8_t from = s->graph->values[s->node->args[0]].tensor->type;
	uint8_t to = s->graph->values[s->node->results[0]].tensor->type;
	return is_range(s, 3, from == ET_INT8 || from == ET_UINT8 || from == ET_INT32 ? from : to);
}

/* x, scales, zeros, dim, least, most */
bool et_graph_fits_dequantize_channels(struct et_graph_shapes *s)
{
	sizes x = et_graph_arg(s, 0);
	uint32_t dim;
	if (!is_known(s, 3) || !x->n_dims)
		return et_graph_misfit(s, "a dimension that is not known");
	if (!et_graph_dim(s, et_graph_int(s, 3, 0), x->n_dims, &dim))
		return false;
	return is_vector(s, 1, x->dims[dim]) && is_vector(s, 2, x->dims[dim]) &&
	       is_range(s, 4, s->graph->values[s->node->args[0]].tensor->type);
}

/* --- attention ------------------------------------------------------------------------------------ */

/* q, k [B, S, H, D], cos, sin [S, D / 2] */
bool et_graph_fits_rotary(struct et_graph_shapes *s)
{
	sizes q = et_graph_arg(s, 0), k = et_graph_arg(s, 1);
	if (!has_n_dims(s, 0, 4) || !has_n_dims(s, 1, 4))
		return false;
	if (q->dims[0] != k->dims[0] || q->dims[1] != k->dims[1] || q->dims[3] != k->dims[3] || q->dims[3] % 2 != 0)
		return et_graph_misfit(s, "query and key do not fit each other");
	for (uint32_t arg = 2; arg <= 3; arg++) {
		sizes table = et_graph_arg(s, arg);
		if (table->n_dims != 2 || table->dims[0] != q->dims[1] || table->dims[1] != q->dims[3] / 2)
			return et_graph_misfit(s, "argument %u is no table of %u times %u", arg, q->dims[1],
				q->dims[3] / 2);
	}
	return true;
}

/* q [N, S, D], k [N, L, D] or [N, D, L], v [N, L, E], mask, scale, which of the two */
bool et_graph_fits_attention_rows(struct et_graph_shapes *s)
{
	sizes q = et_graph_arg(s, 0), k = et_graph_arg(s, 1), v = et_graph_arg(s, 2), mask = et_graph_arg(s, 3);
	bool has_rows = et_graph_bool(s, 5);
	if (k->n_dims != 3 || k->dims[0] != q->dims[0] || v->dims[0] != q->dims[0] ||
		k->dims[has_rows ? 2 : 1] != q->dims[2] || k->dims[has_rows ? 1 : 2] != v->dims[1])
		return et_graph_misfit(s, "query, key and value do not fit each other");
	if (!mask)
		return true;
	const uint32_t scores[] = { q->dims[1], v->dims[1] };
	uint64_t n = 1;
	for (uint32_t i = 0; i + 2 < mask->n_dims; i++)
		n = et_times(n, mask->dims[i]);
	struct et_graph_size inner = { .n_dims = mask->n_dims < 2 ? mask->n_dims : 2 };
	memcpy(inner.dims, mask->dims + mask->n_dims - inner.n_dims, inner.n_dims * sizeof(*inner.dims));
	return (is_broadcast_of(&inner, scores, 2) && (n == 1 || n == q->dims[0])) ||
	       et_graph_misfit(s, "the mask does not fit");
}

/* q [B, H, S, D], k, v [B, H, L, D], mask */
bool et_graph_fits_sdpa(struct et_graph_shapes *s)
{
	sizes q = et_graph_arg(s, 0), k = et_graph_arg(s, 1), v = et_graph_arg(s, 2), mask = et_graph_arg(s, 3);
	for (uint32_t i = 0; i < 2; i++)
		if (q->dims[i] != k->dims[i] || q->dims[i] != v->dims[i])
			return et_graph_misfit(s, "query, key and value do not fit each other");
	const uint32_t scores[] = { q->dims[0], q->dims[1], q->dims[2], k->dims[2] };
	return !mask || is_broadcast_of(mask, scores, 4) || et_graph_misfit(s, "the mask does not fit");
}

/* q, k, v [1, S, heads, D], caches [1, rows, heads of k, D], position, _, mask [S, columns] */
bool et_graph_fits_kv_cache(struct et_graph_shapes *s)
{
	sizes q = et_graph_arg(s, 0), k = et_graph_arg(s, 1), v = et_graph_arg(s, 2), mask = et_graph_arg(s, 7);
	for (uint32_t arg = 0; arg < 5; arg++)
		if (!has_n_dims(s, arg, 4))
			return false;
	if (memcmp(k->dims, v->dims, 4 * sizeof(*k->dims)) != 0 || q->dims[0] != 1 || k->dims[0] != 1 ||
		q->dims[1] != k->dims[1] || q->dims[3] != k->dims[3])
		return et_graph_misfit(s, "query, key and value do not fit each other");
	if (!k->dims[2] || q->dims[2] % k->dims[2] != 0)
		return et_graph_misfit(s, "%u heads of %u", q->dims[2], k->dims[2]);
	sizes cache = et_graph_arg(s, 3), other = et_graph_arg(s, 4);
	if (memcmp(cache->dims, other->dims, 4 * sizeof(*cache->dims)) != 0 || cache->dims[0] != 1 ||
		cache->dims[2] != k->dims[2] || cache->dims[3] != k->dims[3] || cache->dims[1] < k->dims[1])
		return et_graph_misfit(s, "the caches do not fit the key");
	if (s->node->args[3] == s->node->args[4])
		return et_graph_misfit(s, "both caches are one");
	uint32_t n_rows = k->dims[1], last = cache->dims[1] - n_rows;
	int64_t position = is_known(s, 5) ? et_graph_int(s, 5, 0) : 0;
	if (position < 0 || position > last)
		return et_graph_misfit(s, "%u rows at position %lld of %u", n_rows, (long long)position,
			cache->dims[1]);
	if (mask && (mask->n_dims != 2 || mask->dims[0] != n_rows || mask->dims[1] < n_rows + (uint64_t)position ||
			    mask->dims[1] > cache->dims[1]))
		return et_graph_misfit(s, "the mask does not fit");
	return true;
}

/* --- types ---------------------------------------------------------------------------------------- */

static bool is_one_of(uint8_t type, const char *list)
{
	static const struct {
		char letter;
		uint8_t type;
	} letters[] = { { 'f', ET_FLOAT32 }, { 'h', ET_FLOAT16 }, { 'd', ET_FLOAT64 }, { 'b', ET_BOOL },
		{ 'u', ET_UINT8 }, { 'c', ET_INT8 }, { 'w', ET_INT32 }, { 'l', ET_INT64 } };
	for (size_t i = 0; i < ET_ARRAY_LEN(letters); i++)
		if (letters[i].type == type)
			return strchr(list, letters[i].letter) != NULL;
	return false;
}

/* The letters of operators.h, and the types of each. */
static bool is_type_of(uint8_t type, char letter)
{
	static const struct {
		char letter;
		const char *list;
	} rows[] = { { 'a', "fhdbucwl" }, { 'x', "fhdbucwl" }, { 'f', "fhd" }, { 's', "fhd" }, { 'm', "fhdb" },
		{ 'k', "bucwl" }, { 'n', "wl" }, { 'z', "cwl" }, { 'q', "cuw" }, { 'b', "b" }, { 'c', "c" },
		{ 'u', "u" }, { 'w', "w" } };
	for (size_t i = 0; i < ET_ARRAY_LEN(rows); i++)
		if (rows[i].letter == letter)
			return is_one_of(type, rows[i].list);
	return false;
}

/* @common: the type that the letters x, f, k and q of this row stand for, or UINT8_MAX: none came so far. */
static bool has_type(struct et_graph_shapes *s, uint32_t index, char letter, const char *what, uint32_t number,
	uint8_t *common)
{
	const struct et_graph_value *value = &s->graph->values[index];
	if (value->kind == ET_GRAPH_VALUES) {
		for (uint32_t i = 0; i < value->list.n; i++)
			if (!has_type(s, value->list.values[i], letter, what, number, common))
				return false;
		return true;
	}
	if (value->kind != ET_GRAPH_TENSOR)
		return true; /* left out */
	bool is_common = strchr("xfkq", letter) != NULL;
	if (!is_type_of(value->tensor->type, letter) ||
		(is_common && *common != UINT8_MAX && *common != value->tensor->type))
		return et_graph_misfit(s, "%s %u is of a type that does not fit", what, number);
	if (is_common)
		*common = value->tensor->type;
	return true;
}

bool et_graph_types_fit(struct et_graph_shapes *s)
{
	const struct et_graph_node *node = s->node;
	const char *type = node->op->types, *result_types = strchr(type, '>') + 1;
	size_t n_result_types = strlen(result_types);
	uint8_t common = UINT8_MAX;
	for (uint32_t i = 0; i < node->n_args; i++)
		if (strchr("TtEO", node->op->signature[i]) &&
			!has_type(s, node->args[i], *type++, "argument", i, &common))
			return false;
	for (uint32_t i = 0; i < node->n_results && n_result_types; i++) {
		char letter = result_types[i < n_result_types ? i : n_result_types - 1];
		if (!has_type(s, node->results[i], letter, "result", i, &common))
			return false;
	}
	return true;
}
