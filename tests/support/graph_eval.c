/* SPDX-License-Identifier: BSD-3-Clause */
/* The interpreter: each tensor is an array of doubles, rounded to its type after each operator, or step. Loops are the
 * definitions of the operators (operators.h names the sources), so nothing here is fast. It aborts when memory runs
 * out.
 *
 * Known: elementwise operators, quantizing, views, permute, pad, full, softmax, products, convolutions that are not
 * transposed, static int8 layers, attention. */
#include "tests/support/graph_eval.h"

#include "delegates/graph/operators.h"
#include "delegates/graph/shapes.h"
#include "delegates/graph/text_internal.h"
#include "runtime/base/checked.h"
#include "runtime/base/fp16.h"
#include "runtime/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct eval {
	const struct et_graph *graph;
	struct et_graph_size *sizes;
	double **data; /* of each tensor that was made so far */
	uint64_t seed;
};

/* A part of a node, with its operands at hand. */
struct work {
	struct eval *eval;
	struct et_graph_node part;
	const char *name;
	const double *in[10]; /* of the arguments that are tensors */
	const struct et_graph_size *size[10];
	double *out;
	const struct et_graph_size *out_size;
	size_t n_out;
};

static void *room(size_t n, size_t item_bytes)
{
	void *items = calloc(n ? n : 1, item_bytes);
	if (!items)
		abort();
	return items;
}

static size_t numel(const struct et_graph_size *size)
{
	size_t n = 1;
	for (uint32_t i = 0; i < size->n_dims; i++)
		n *= size->dims[i];
	return n;
}

static double round_to(uint8_t type, double d)
{
	if (type == ET_FLOAT32)
		return (double)(float)d;
	return type == ET_FLOAT16 ? (double)et_fp16_to_float(et_float_to_fp16((float)d)) : d;
}

static uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= UINT64_C(0xff51afd7ed558ccd);
	x ^= x >> 33;
	x *= UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ x >> 33;
}

static void fill(const struct eval *eval, uint32_t index, uint64_t source)
{
	const struct et_graph_tensor *tensor = eval->graph->values[index].tensor;
	size_t n = numel(&eval->sizes[index]);
	double *data = eval->data[index] = room(n, sizeof(*data));
	for (size_t i = 0; i < n; i++) {
		uint64_t random = mix(eval->seed + mix(source + 1) + i);
		if (tensor->data && et_graph_load(tensor->data, tensor->type, i, &data[i]))
			continue;
		if (tensor->type == ET_INT8)
			data[i] = (double)(int8_t)random;
		else if (tensor->type == ET_UINT8)
			data[i] = (double)(uint8_t)random;
		else if (tensor->type == ET_BOOL)
			data[i] = (double)(random & 1);
		else if (tensor->type == ET_INT32 || tensor->type == ET_INT64)
			data[i] = (double)(random % 4);
		else
			data[i] = (double)(int64_t)(random % 257) / 64 - 2;
	}
}

/* --- literals ------------------------------------------------------------------------------------- */

static double number(const struct work *w, uint32_t arg, double absent)
{
	const struct et_graph_value *value = &w->eval->graph->values[w->part.args[arg]];
	if (value->kind == ET_GRAPH_SYMBOL)
		return (double)w->eval->sizes[w->part.args[arg]].symbol;
	return value->kind == ET_GRAPH_INT      ? (double)value->i
	       : value->kind == ET_GRAPH_DOUBLE ? value->d
	       : value->kind == ET_GRAPH_BOOL   ? value->b
						: absent;
}

static int64_t item(const struct work *w, uint32_t arg, uint32_t index, int64_t absent)
{
	const struct et_graph_value *list = &w->eval->graph->values[w->part.args[arg]];
	if (list->kind != ET_GRAPH_INTS || !list->list.n)
		return absent;
	return list->list.ints[index < list->list.n ? index : list->list.n - 1];
}

static bool has_text(const struct work *w, uint32_t arg, const char *text)
{
	const struct et_graph_value *value = &w->eval->graph->values[w->part.args[arg]];
	return value->kind == ET_GRAPH_STRING && strcmp(value->string, text) == 0;
}

static bool is(const struct work *w, const char *name)
{
	return strcmp(w->name, name) == 0;
}

/* --- element by element --------------------------------------------------------------------------- */

static double quantize(double x, double scale, double zero, double least, double most)
{
	double q = (double)rintf((float)x / (float)scale) + zero;
	return fmin(fmax(q, least), most);
}

static bool element(const struct work *w, const double *x, double *y)
{
	double a = x[0], b = x[1];
	if (is(w, "aten.abs.default"))
		*y = fabs(a);
	else if (is(w, "aten.exp.default"))
		*y = exp(a);
	else if (is(w, "aten.sqrt.default"))
		*y = sqrt(a);
	else if (is(w, "aten.relu.default"))
		*y = a > 0 ? a : 0;
	else if (is(w, "aten.sigmoid.default"))
		*y = 1 / (1 + exp(-a));
	else if (is(w, "aten.tanh.default"))
		*y = tanh(a);
	else if (is(w, "aten.gelu.default") && has_text(w, 1, "tanh"))
		*y = 0.5 * a * (1 + tanh(sqrt(2 / M_PI) * (a + 0.044715 * a * a * a)));
	else if (is(w, "aten.gelu.default"))
		*y = 0.5 * a * (1 + erf(a / sqrt(2)));
	else if (is(w, "aten.hardswish.default"))
		*y = a * fmin(fmax(a + 3, 0), 6) / 6;
	else if (is(w, "aten.hardtanh.default") || is(w, "aten.clamp.default"))
		*y = fmin(fmax(a, number(w, 1, -INFINITY)), number(w, 2, INFINITY));
	else if (is(w, "aten.leaky_relu.default"))
		*y = a > 0 ? a : a * number(w, 1, 0);
	else if (is(w, "aten.pow.Tensor_Scalar"))
		*y = pow(a, number(w, 1, 1));
	else if (is(w, "aten.logical_not.default"))
		*y = a == 0;
	else if (is(w, "aten.eq.Scalar"))
		*y = a == number(w, 1, 0);
	else if (is(w, "aten.ge.Scalar"))
		*y = a >= number(w, 1, 0);
	else if (is(w, "aten.le.Scalar"))
		*y = a <= number(w, 1, 0);
	else if (is(w, "aten.add.Tensor"))
		*y = a + number(w, 2, 1) * b;
	else if (is(w, "aten.sub.Tensor"))
		*y = a - number(w, 2, 1) * b;
	else if (is(w, "aten.mul.Tensor"))
		*y = a * b;
	else if (is(w, "aten.div.Tensor"))
		*y = a / b;
	else if (is(w, "aten.where.self"))
		*y = a != 0 ? b : x[2];
	else if (is(w, "aten.clone.default") || is(w, "et_vk.prepack.default"))
		*y = a;
	else if (is(w, "quantized_decomposed.quantize_per_tensor.default"))
		*y = quantize(a, number(w, 1, 1), number(w, 2, 0), number(w, 3, 0), number(w, 4, 0));
	else if (is(w, "quantized_decomposed.dequantize_per_tensor.default"))
		*y = (a - number(w, 2, 0)) * number(w, 1, 1);
	else if (is(w, "et_vk.q8ta_add.default"))
		*y = quantize((a - number(w, 3, 0)) * number(w, 2, 1) +
				      number(w, 8, 1) * (b - number(w, 5, 0)) * number(w, 4, 1),
			number(w, 6, 1), number(w, 7, 0), -128, 127);
	else
		return false;
	return true;
}

/* The element of a tensor that is broadcast to the result's sizes. */
static size_t broadcast_at(const struct et_graph_size *size, const struct et_graph_size *to, size_t at)
{
	size_t index = 0, stride = 1;
	for (uint32_t i = 1; i <= to->n_dims; i++) {
		uint32_t n = to->dims[to->n_dims - i];
		if (i <= size->n_dims && size->dims[size->n_dims - i] != 1)
			index += at % n * stride;
		if (i <= size->n_dims)
			stride *= size->dims[size->n_dims - i];
		at /= n;
	}
	return index;
}

static bool elementwise(const struct work *w)
{
	for (size_t i = 0; i < w->n_out; i++) {
		double x[3] = { 0 };
		for (uint32_t k = 0; k < 3 && k < w->part.n_args; k++)
			if (w->in[k])
				x[k] = w->in[k][broadcast_at(w->size[k], w->out_size, i)];
		if (!element(w, x, &w->out[i]))
			return false;
	}
	return true;
}

/* --- movement ------------------------------------------------------------------------------------- */

static void permute(const struct work *w)
{
	const struct et_graph_size *x = w->size[0];
	for (size_t i = 0; i < w->n_out; i++) {
		uint32_t coords[ET_GRAPH_MAX_DIMS] = { 0 };
		size_t rest = i, at = 0;
		for (uint32_t d = x->n_dims; d-- > 0; rest /= w->out_size->dims[d]) {
			int64_t from = item(w, 1, d, 0);
			coords[from < 0 ? from + x->n_dims : from] = (uint32_t)(rest % w->out_size->dims[d]);
		}
		for (uint32_t d = 0; d < x->n_dims; d++)
			at = at * x->dims[d] + coords[d];
		w->out[i] = w->in[0][at];
	}
}

static void pad(const struct work *w)
{
	const struct et_graph_size *x = w->size[0];
	uint32_t n_pairs = w->eval->graph->values[w->part.args[1]].list.n / 2;
	for (size_t i = 0; i < w->n_out; i++) {
		size_t rest = i, at = 0, stride = 1;
		bool is_inside = true;
		for (uint32_t d = x->n_dims, pair = 0; d-- > 0; pair++) {
			int64_t from = (int64_t)(rest % w->out_size->dims[d]) -
				       (pair < n_pairs ? item(w, 1, 2 * pair, 0) : 0);
			is_inside = is_inside && from >= 0 && from < x->dims[d];
			at += (size_t)from * stride;
			stride *= x->dims[d];
			rest /= w->out_size->dims[d];
		}
		w->out[i] = is_inside ? w->in[0][at] : number(w, 2, 0);
	}
}

/* --- products ------------------------------------------------------------------------------------- */

/* @n products of matrices [m, k]; the second one is [k, columns], or [columns, k] if it is @transposed. */
static void matmul(const double *a, const double *b, double *y, size_t n, size_t m, size_t k, size_t columns,
	bool transposed)
{
	for (size_t i = 0; i < n * m * columns; i++) {
		size_t column = i % columns, row = i / columns, batch = row / m;
		double sum = 0;
		for (size_t l = 0; l < k; l++)
			sum += a[row * k + l] *
			       b[batch * k * columns + (transposed ? column * k + l : l * columns + column)];
		y[i] = sum;
	}
}

static void softmax(const double *x, double *y, size_t n_rows, size_t n)
{
	for (size_t row = 0; row < n_rows; row++) {
		double most = -INFINITY, sum = 0;
		for (size_t i = 0; i < n; i++)
			most = fmax(most, x[row * n + i]);
		for (size_t i = 0; i < n; i++)
			sum += y[row * n + i] = exp(x[row * n + i] - most);
		for (size_t i = 0; i < n; i++)
			y[row * n + i] /= sum;
	}
}

static void attention(const struct work *w)
{
	const struct et_graph_size *q = w->size[0], *v = w->size[2];
	size_t n = q->dims[0], rows = q->dims[1], columns = v->dims[1];
	struct et_graph_size mask = w->in[3] ? *w->size[3] : (struct et_graph_size){ .n_dims = 0 };
	struct et_graph_size scores_size = { .dims = { q->dims[0], q->dims[1], v->dims[1] }, .n_dims = 3 };
	double *scores = room(n * rows * columns, sizeof(*scores));
	if (mask.n_dims > 3) { /* its outer dimensions are one to the scores */
		struct et_graph_size outer = { .n_dims = 3, .dims = { 1, 1, 1 } };
		for (uint32_t i = 0; i < mask.n_dims; i++)
			outer.dims[i + 2 < mask.n_dims ? 0 : i + 3 - mask.n_dims] *= mask.dims[i];
		mask = outer;
	}
	matmul(w->in[0], w->in[1], scores, n, rows, q->dims[2], columns, number(w, 5, 0) != 0);
	for (size_t i = 0; i < n * rows * columns; i++)
		scores[i] = scores[i] * number(w, 4, 1) +
			    (w->in[3] ? w->in[3][broadcast_at(&mask, &scores_size, i)] : 0);
	softmax(scores, scores, n * rows, columns);
	matmul(scores, w->in[2], w->out, n, rows, columns, v->dims[2], false);
	free(scores);
}

/* x, w, bias, stride, padding, dilation, groups; one spatial dimension counts as a second one of size 1. */
static void convolution(const struct work *w, bool has_ends, uint32_t dilation_arg, uint32_t groups_arg)
{
	const struct et_graph_size *x = w->size[0], *k = w->size[1], *y = w->out_size;
	uint32_t n = x->n_dims - 2u, groups = (uint32_t)number(w, groups_arg, 1);
	uint32_t in[2] = { 1, 1 }, kernel[2] = { 1, 1 }, out[2] = { 1, 1 };
	int64_t stride[2] = { 1, 1 }, front[2] = { 0 }, dilation[2] = { 1, 1 };
	for (uint32_t i = 0; i < n; i++) {
		uint32_t to = 2 - n + i;
		in[to] = x->dims[2 + i];
		kernel[to] = k->dims[2 + i];
		out[to] = y->dims[2 + i];
		stride[to] = item(w, 3, i, 1);
		front[to] = item(w, 4, has_ends ? 2 * i : i, 0);
		dilation[to] = item(w, dilation_arg, i, 1);
	}
	for (size_t i = 0; i < w->n_out; i++) {
		size_t column = i % out[1], row = i / out[1] % out[0], oc = i / out[1] / out[0] % y->dims[1];
		size_t batch = i / out[1] / out[0] / y->dims[1], ic0 = oc / (y->dims[1] / groups) * k->dims[1];
		double sum = w->in[2] ? w->in[2][oc] : 0;
		for (size_t ic = 0; ic < k->dims[1]; ic++)
			for (uint32_t tap = 0; tap < kernel[0] * kernel[1]; tap++) {
				int64_t h = (int64_t)row * stride[0] - front[0] + tap / kernel[1] * dilation[0];
				int64_t v = (int64_t)column * stride[1] - front[1] + tap % kernel[1] * dilation[1];
				if (h < 0 || h >= in[0] || v < 0 || v >= in[1])
					continue;
				sum += w->in[0][((batch * x->dims[1] + ic0 + ic) * in[0] + (size_t)h) * in[1] +
						(size_t)v] *
				       w->in[1][(oc * k->dims[1] + ic) * kernel[0] * kernel[1] + tap];
			}
		w->out[i] = sum;
	}
}

/* x, scale, zero, weights, sums, scales, out scale, out zero, bias, activation */
static void q8ta_linear(const struct work *w)
{
	size_t k = w->size[0]->dims[w->size[0]->n_dims - 1], n = w->size[3]->dims[0];
	for (size_t i = 0; i < w->n_out; i++) {
		double sum = 0;
		for (size_t l = 0; l < k; l++)
			sum += (w->in[0][i / n * k + l] - number(w, 2, 0)) * w->in[3][i % n * w->size[3]->dims[1] + l];
		sum = sum * number(w, 1, 1) * w->in[5][i % n] + (w->in[8] ? w->in[8][i % n] : 0);
		if (has_text(w, 9, "relu"))
			sum = fmax(sum, 0);
		w->out[i] = quantize(sum, number(w, 6, 1), number(w, 7, 0), -128, 127);
	}
}

/* --- graphs --------------------------------------------------------------------------------------- */

static bool compute(const struct work *w)
{
	const struct et_graph_size *x = w->size[0], *y = w->size[1];
	uint32_t last = x && x->n_dims ? x->dims[x->n_dims - 1] : 1;
	double dim = w->part.n_args > 1 ? number(w, 1, 0) : 0;
	if (is(w, "aten.view_copy.default") || is(w, "aten.squeeze_copy.dims") || is(w, "aten.unsqueeze_copy.default"))
		memcpy(w->out, w->in[0], w->n_out * sizeof(*w->out));
	else if (is(w, "aten.permute_copy.default"))
		permute(w);
	else if (is(w, "aten.constant_pad_nd.default"))
		pad(w);
	else if (is(w, "aten.full.default"))
		for (size_t i = 0; i < w->n_out; i++)
			w->out[i] = number(w, 1, 0);
	else if (is(w, "aten.linear.default")) {
		matmul(w->in[0], w->in[1], w->out, 1, numel(x) / last, last, y->dims[0], true);
		for (size_t i = 0; i < w->n_out && w->in[2]; i++)
			w->out[i] += w->in[2][i % y->dims[0]];
	} else if (is(w, "aten.mm.default") || is(w, "aten.bmm.default"))
		matmul(w->in[0], w->in[1], w->out, x->n_dims == 3 ? x->dims[0] : 1, x->dims[x->n_dims - 2], last,
			y->dims[y->n_dims - 1], false);
	else if (is(w, "aten._softmax.default") && (dim == -1 || dim == x->n_dims - 1))
		softmax(w->in[0], w->out, w->n_out / last, last);
	else if (is(w, "graph.attention"))
		attention(w);
	else if (is(w, "graph.convolution"))
		convolution(w, true, 5, 6);
	else if (is(w, "aten.convolution.default") && !number(w, 6, 0))
		convolution(w, false, 5, 8);
	else if (is(w, "et_vk.conv_with_clamp.default") && !number(w, 6, 0)) {
		convolution(w, false, 5, 8);
		for (size_t i = 0; i < w->n_out; i++)
			w->out[i] = fmin(fmax(w->out[i], number(w, 9, -INFINITY)), number(w, 10, INFINITY));
	} else if (is(w, "et_vk.q8ta_linear.default"))
		q8ta_linear(w);
	else
		return elementwise(w);
	return true;
}

static bool run_part(struct eval *eval, const struct et_graph_node *part)
{
	uint32_t result = part->results[0];
	const struct et_graph_value *value = &eval->graph->values[result];
	struct work w = { .eval = eval, .part = *part, .name = part->op->name, .out_size = &eval->sizes[result] };
	if (value->kind == ET_GRAPH_SYMBOL)
		return true;
	if (part->n_results != 1)
		return false;
	for (uint32_t i = 0; i < part->n_args && i < ET_ARRAY_LEN(w.in); i++)
		if (eval->graph->values[part->args[i]].kind == ET_GRAPH_TENSOR) {
			w.in[i] = eval->data[part->args[i]];
			w.size[i] = &eval->sizes[part->args[i]];
		}
	w.n_out = numel(w.out_size);
	w.out = eval->data[result] = room(w.n_out, sizeof(*w.out));
	if (!compute(&w))
		return false;
	for (size_t i = 0; i < w.n_out; i++)
		w.out[i] = round_to(value->tensor->type, w.out[i]);
	return true;
}

static bool run(struct eval *eval, struct et_diag *diag)
{
	const struct et_graph *graph = eval->graph;
	for (uint32_t i = 0; i < graph->n_inputs; i++)
		if (graph->values[graph->inputs[i]].kind == ET_GRAPH_TENSOR)
			fill(eval, graph->inputs[i], i);
	for (uint32_t i = 0; i < graph->n_values; i++)
		if (graph->values[i].kind == ET_GRAPH_TENSOR && graph->values[i].origin == ET_GRAPH_CONSTANT)
			fill(eval, i, UINT64_C(1000) + graph->values[i].tensor->constant);
	for (uint32_t n = 0; n < graph->n_nodes; n++) {
		if (et_graph_infer(graph, n, eval->sizes, diag) != ET_OK)
			return false;
		for (uint32_t p = 0; p <= graph->nodes[n].n_steps; p++) {
			struct et_graph_node part = et_graph_part(&graph->nodes[n], p);
			if (!run_part(eval, &part)) {
				et_fail(diag, ET_E_NOT_SUPPORTED, "%s", part.op->name);
				return false;
			}
		}
	}
	return true;
}

static double *collect(const struct eval *eval, size_t *ret_n)
{
	const struct et_graph *graph = eval->graph;
	size_t n = 0, at = 0;
	for (uint32_t i = 0; i < graph->n_outputs; i++)
		n += graph->values[graph->outputs[i]].kind == ET_GRAPH_TENSOR ? numel(&eval->sizes[graph->outputs[i]])
									      : 1;
	double *all = room(n, sizeof(*all));
	for (uint32_t i = 0; i < graph->n_outputs; i++) {
		uint32_t index = graph->outputs[i];
		if (graph->values[index].kind != ET_GRAPH_TENSOR)
			all[at++] = (double)eval->sizes[index].symbol;
		else
			for (size_t k = 0; k < numel(&eval->sizes[index]); k++)
				all[at++] = eval->data[index][k];
	}
	*ret_n = n;
	return all;
}

double *graph_eval(const struct et_graph *graph, uint64_t seed, size_t *ret_n, struct et_diag *diag)
{
	struct eval eval = { .graph = graph, .seed = seed };
	eval.sizes = room(graph->n_values, sizeof(*eval.sizes));
	eval.data = room(graph->n_values, sizeof(*eval.data));
	et_graph_largest_sizes(graph, eval.sizes);
	double *all = run(&eval, diag) ? collect(&eval, ret_n) : NULL;
	for (uint32_t i = 0; i < graph->n_values; i++)
		free(eval.data[i]);
	free(eval.data);
	free(eval.sizes);
	return all;
}
