/* SPDX-License-Identifier: BSD-3-Clause */
/* Shape rules of convolutions, pooling and resizing. Tensors are N, C, then one or two spatial dimensions. */
#include "delegates/graph/operators.h"
#include "delegates/graph/shape_rules.h"

#include <math.h>

enum { MAX_SPATIAL = 2 };

/* A window along one dimension. The padding is in front of the input and, if behind is -1, also behind it. */
struct window {
	int64_t kernel, stride, padding, dilation, behind;
};

/* Item @index of list @arg; the only item if there is one; @absent if there is none. */
static int64_t spatial(struct et_graph_shapes *s, uint32_t arg, uint32_t index, int64_t absent)
{
	uint32_t n = et_graph_n_items(s, arg);
	if (!n)
		return absent;
	return et_graph_item(s, arg, index < n ? index : n - 1);
}

static bool check_window(struct et_graph_shapes *s, const struct window *w)
{
	const int64_t most = 1 << 20; /* so that nothing below overflows */
	if (w->kernel < 1 || w->kernel > most || w->stride < 1 || w->stride > most || w->padding < 0 ||
		w->padding > most || w->behind < -1 || w->behind > most || w->dilation < 1 || w->dilation > most)
		return et_graph_misfit(s, "kernel %lld, stride %lld, padding %lld, dilation %lld", (long long)w->kernel,
			(long long)w->stride, (long long)w->padding, (long long)w->dilation);
	return true;
}

/* How often the window fits. @is_ceil: the last one may reach over the end, but must begin before it. */
static bool slide(struct et_graph_shapes *s, const struct window *w, uint32_t in, bool is_ceil, uint32_t *ret_out)
{
	if (!check_window(s, w))
		return false;
	int64_t room = (int64_t)in + w->padding + (w->behind < 0 ? w->padding : w->behind) -
		       w->dilation * (w->kernel - 1) - 1;
	if (room < 0)
		return et_graph_misfit(s, "a window larger than the input");
	int64_t n = (room + (is_ceil ? w->stride - 1 : 0)) / w->stride + 1;
	if (is_ceil && (n - 1) * w->stride >= (int64_t)in + w->padding)
		n--;
	return et_graph_take_size(s, n, ret_out);
}

/* The inverse, for transposed convolutions. */
static bool spread(struct et_graph_shapes *s, const struct window *w, uint32_t in, int64_t extra, uint32_t *ret_out)
{
	if (!check_window(s, w))
		return false;
	if (extra < 0 || extra > INT32_MAX)
		return et_graph_misfit(s, "output padding %lld", (long long)extra);
	return et_graph_take_size(s,
		((int64_t)in - 1) * w->stride - 2 * w->padding + w->dilation * (w->kernel - 1) + extra + 1, ret_out);
}

static bool set(struct et_graph_shapes *s, uint32_t result, const struct et_graph_size *size)
{
	struct et_graph_size *to = et_graph_result(s, result);
	*to = *size;
	return true;
}

/* x, w, bias, stride, padding, dilation, is_transposed, output padding, groups */
bool et_graph_infer_convolution(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0), *w = et_graph_arg(s, 1);
	bool is_transposed = et_graph_bool(s, 6);
	int64_t groups = et_graph_int(s, 8, 1);
	if (x->n_dims != w->n_dims || x->n_dims < 3 || x->n_dims > 2 + MAX_SPATIAL)
		return et_graph_misfit(s, "an input of %u dimensions, weights of %u", x->n_dims, w->n_dims);
	if (groups < 1 || groups > UINT32_MAX || x->dims[1] % groups != 0 ||
		(is_transposed ? w->dims[0] != x->dims[1]
			       : w->dims[1] != x->dims[1] / groups || w->dims[0] % groups != 0))
		return et_graph_misfit(s, "%u channels, %lld groups, weights [%u, %u, ...]", x->dims[1],
			(long long)groups, w->dims[0], w->dims[1]);
	struct et_graph_size size = *x;
	int64_t n_channels = w->dims[0];
	if (is_transposed && __builtin_mul_overflow(w->dims[1], groups, &n_channels))
		return et_graph_misfit(s, "%u channels for each of %lld groups", w->dims[1], (long long)groups);
	if (!et_graph_take_size(s, n_channels, &size.dims[1]))
		return false;
	for (uint32_t i = 2; i < x->n_dims; i++) {
		struct window window = { w->dims[i], spatial(s, 3, i - 2, 1), spatial(s, 4, i - 2, 0),
			spatial(s, 5, i - 2, 1), -1 };
		if (is_transposed ? !spread(s, &window, x->dims[i], spatial(s, 7, i - 2, 0), &size.dims[i])
				  : !slide(s, &window, x->dims[i], false, &size.dims[i]))
			return false;
	}
	return set(s, 0, &size);
}

/* x, w, bias, stride, padding in front and behind, dilation, groups */
bool et_graph_infer_padded_convolution(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0), *w = et_graph_arg(s, 1);
	int64_t groups = et_graph_int(s, 6, 1);
	if (x->n_dims != w->n_dims || x->n_dims < 3 || x->n_dims > 2 + MAX_SPATIAL ||
		et_graph_n_items(s, 4) != 2 * (x->n_dims - 2u))
		return et_graph_misfit(s, "an input of %u dimensions, weights of %u, padding of %u", x->n_dims,
			w->n_dims, et_graph_n_items(s, 4));
	if (groups < 1 || groups > UINT32_MAX || x->dims[1] % groups != 0 || w->dims[1] != x->dims[1] / groups ||
		w->dims[0] % groups != 0)
		return et_graph_misfit(s, "%u channels, %lld groups, weights [%u, %u, ...]", x->dims[1],
			(long long)groups, w->dims[0], w->dims[1]);
	struct et_graph_size size = *x;
	size.dims[1] = w->dims[0];
	for (uint32_t i = 2; i < x->n_dims; i++) {
		struct window window = { w->dims[i], spatial(s, 3, i - 2, 1), et_graph_item(s, 4, 2 * (i - 2)),
			spatial(s, 5, i - 2, 1), et_graph_item(s, 4, 2 * (i - 2) + 1) };
		if (window.behind < 0)
			return et_graph_misfit(s, "padding of %lld", (long long)window.behind);
		if (!slide(s, &window, x->dims[i], false, &size.dims[i]))
			return false;
	}
	return set(s, 0, &size);
}

/* Four dimensions, or three: then C is the first. */
static bool pool(struct et_graph_shapes *s, bool is_ceil, int dilation_arg, struct et_graph_size *ret_size)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	if (x->n_dims < 3 || x->n_dims > 4)
		return et_graph_misfit(s, "an input of %u dimensions", x->n_dims);
	*ret_size = *x;
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t dim = x->n_dims - 2 + i;
		struct window window = { spatial(s, 1, i, 1), 1, spatial(s, 3, i, 0), 1, -1 };
		window.stride = spatial(s, 2, i, window.kernel);
		if (dilation_arg >= 0)
			window.dilation = spatial(s, (uint32_t)dilation_arg, i, 1);
		if (!slide(s, &window, x->dims[dim], is_ceil, &ret_size->dims[dim]))
			return false;
	}
	return true;
}

bool et_graph_infer_avg_pool(struct et_graph_shapes *s)
{
	struct et_graph_size size;
	return pool(s, et_graph_bool(s, 4), -1, &size) && set(s, 0, &size);
}

bool et_graph_infer_max_pool(struct et_graph_shapes *s)
{
	struct et_graph_size size;
	return pool(s, et_graph_bool(s, 5), 4, &size) && set(s, 0, &size) && set(s, 1, &size);
}

/* x, scale, zero, w [OC, ...], sums, scales, out scale, out zero, bias, kernel, stride, padding, then dilation
 * (and output padding first, if transposed) */
static bool infer_q8ta(struct et_graph_shapes *s, int64_t n_channels, int output_padding_arg)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	uint32_t dilation_arg = output_padding_arg < 0 ? 12 : 13;
	if (x->n_dims != 4)
		return et_graph_misfit(s, "an input of %u dimensions", x->n_dims);
	struct et_graph_size size = *x;
	if (!et_graph_take_size(s, n_channels, &size.dims[1]))
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		struct window window = { spatial(s, 9, i, 1), spatial(s, 10, i, 1), spatial(s, 11, i, 0),
			spatial(s, dilation_arg, i, 1), -1 };
		if (output_padding_arg < 0 ? !slide(s, &window, x->dims[2 + i], false, &size.dims[2 + i])
					   : !spread(s, &window, x->dims[2 + i],
						     spatial(s, (uint32_t)output_padding_arg, i, 0), &size.dims[2 + i]))
			return false;
	}
	return set(s, 0, &size);
}

/* The channels of the result: weights may be padded to a multiple of four, so the declared size decides within that. */
static int64_t declared_channels(const struct et_graph_shapes *s, uint32_t n_rows)
{
	const struct et_graph_size *result = et_graph_result(s, 0);
	uint32_t n = result->n_dims == 4 ? result->dims[1] : 0;
	return n <= n_rows && (uint64_t)n + 3 >= n_rows ? n : n_rows;
}

bool et_graph_infer_q8ta_convolution(struct et_graph_shapes *s)
{
	const struct et_graph_size *w = et_graph_arg(s, 3);
	return w->n_dims ? infer_q8ta(s, declared_channels(s, w->dims[0]), -1) : et_graph_misfit(s, "no weights");
}

bool et_graph_infer_q8ta_depthwise(struct et_graph_shapes *s)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	return infer_q8ta(s, x->dims[1], -1);
}

bool et_graph_infer_q8ta_transposed(struct et_graph_shapes *s)
{
	const struct et_graph_size *w = et_graph_arg(s, 3);
	return w->n_dims ? infer_q8ta(s, declared_channels(s, w->dims[0]), 12) : et_graph_misfit(s, "no weights");
}

/* x, sizes or none, ..., scale factors or none */
static bool upsample(struct et_graph_shapes *s, uint32_t scales_arg)
{
	const struct et_graph_size *x = et_graph_arg(s, 0);
	const struct et_graph_value *scales = &s->graph->values[s->node->args[scales_arg]];
	struct et_graph_size size = *x;
	if (x->n_dims != 4)
		return et_graph_misfit(s, "an input of %u dimensions", x->n_dims);
	for (uint32_t i = 0; i < 2; i++) {
		double n;
		if (et_graph_n_items(s, 1) == 2)
			n = (double)et_graph_item(s, 1, i);
		else if (scales->kind == ET_GRAPH_DOUBLES && scales->list.n == 2)
			n = floor(x->dims[2 + i] * scales->list.doubles[i]);
		else
			return et_graph_misfit(s, "neither two sizes nor two factors");
		if (!(n >= 0) || n > UINT32_MAX)
			return et_graph_misfit(s, "the result would have a size of %g", n);
		size.dims[2 + i] = (uint32_t)n;
	}
	return set(s, 0, &size);
}

bool et_graph_infer_upsample_bilinear(struct et_graph_shapes *s)
{
	return upsample(s, 3);
}

bool et_graph_infer_upsample_nearest(struct et_graph_shapes *s)
{
	return upsample(s, 2);
}
