/* SPDX-License-Identifier: BSD-3-Clause */
/* Binary elementwise operators that XNNPACK rounds otherwise than the original or does not take.
 *
 * 8 bits: division, maximum and minimum, for which neither XNNPACK has a kernel (both compute in floats and quantize
 * the result, quantized.h); PReLU, for which the original alone has a kernel; sums, differences and products whose
 * scales XNNPACK does not take. int32: division. The remainder is never below 0, and a division by 0 gives 0. XNNPACK
 * ends the process at INT32_MIN / -1; here the result is INT32_MIN, because results are taken modulo 2^32.
 *
 * Shapes are broadcast from the last dimension on. Neighbouring dimensions with the same broadcast are joined to
 * one. */
#include "delegates/xnnpack/overrides/override.h"
#include "delegates/xnnpack/overrides/quantized.h"

#include <math.h>

enum { BLOCK = 128, GRAIN = 1 << 14 /* elements that are worth another thread */ };

struct binary;

/* @n elements of a row, from @offsets of the inputs to @to of the output. */
typedef void (*run_row_fn)(const struct binary *binary, const size_t *offsets, size_t to, size_t n);

struct binary {
	enum xnn_binary_operator op;
	uint32_t n_dims;
	size_t dims[ET_XNN_MAX_DIMS], steps[ET_XNN_MAX_DIMS][2];
	const void *in[2];
	void *out;
	run_row_fn run_row;
	float floats[2][256];   /* the inputs' bytes as floats */
	int32_t zero_points[2]; /* of the inputs */
	float above, below;     /* scale a number that is not negative, and a product, to the output's unit */
	struct et_xnn_quantized quantized;
	int32_t least, most;
};

/* --- which nodes --- */

static bool may_be_halfway(const struct et_xnn_value *in, const struct et_xnn_value *out)
{
	struct et_xnn_quantized from = et_xnn_quantized(in), to = et_xnn_quantized(out);
	for (unsigned i = 0; i < 256; i++)
		if (et_xnn_is_halfway(&to, et_xnn_dequantize(&from, (uint8_t)i)))
			return true;
	return false;
}

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	if (node->kind->define != et_xnn_define_binary)
		return false;
	const struct et_xnn_value *values = payload->values, *out = &values[node->outputs[0]];
	if (et_xnn_override_needs_quotient(payload, node))
		return true;
	if (!et_xnn_is_8_bit(out))
		return false;
	switch ((enum xnn_binary_operator)node->kind->op) {
	case xnn_binary_divide:
	case xnn_binary_prelu:
		return true;
	case xnn_binary_maximum:
	case xnn_binary_minimum:
		return may_be_halfway(&values[node->inputs[0]], out) || may_be_halfway(&values[node->inputs[1]], out);
	default:
		return !et_xnn_scales_fit(payload, node);
	}
}

bool et_xnn_override_needs_quotient(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return node->kind->define == et_xnn_define_binary && node->kind->op == xnn_binary_divide &&
	       payload->values[node->outputs[0]].type == ET_XNN_INT32;
}

/* --- 8 bits --- */

/* @a = @a op @b. */
static void apply(enum xnn_binary_operator op, float *a, const float *b, size_t n)
{
	switch (op) {
	case xnn_binary_add:
		for (size_t i = 0; i < n; i++)
			a[i] += b[i];
		break;
	case xnn_binary_subtract:
		for (size_t i = 0; i < n; i++)
			a[i] -= b[i];
		break;
	case xnn_binary_multiply:
		for (size_t i = 0; i < n; i++)
			a[i] *= b[i];
		break;
	case xnn_binary_divide:
		for (size_t i = 0; i < n; i++)
			a[i] /= b[i];
		break;
	case xnn_binary_maximum:
		for (size_t i = 0; i < n; i++)
			a[i] = a[i] > b[i] ? a[i] : b[i];
		break;
	default:
		for (size_t i = 0; i < n; i++)
			a[i] = a[i] < b[i] ? a[i] : b[i];
		break;
	}
}

static void run_row_8(const struct binary *binary, const size_t *offsets, size_t to, size_t n)
{
	const size_t *steps = binary->steps[binary->n_dims - 1];
	const uint8_t *a = (const uint8_t *)binary->in[0] + offsets[0],
		      *b = (const uint8_t *)binary->in[1] + offsets[1];
	uint8_t *out = (uint8_t *)binary->out + to;
	for (size_t at = 0, n_block; at < n; at += n_block) {
		float left[BLOCK], right[BLOCK];
		n_block = n - at < BLOCK ? n - at : BLOCK;
		for (size_t i = 0; i < n_block; i++) {
			left[i] = binary->floats[0][a[(at + i) * steps[0]]];
			right[i] = binary->floats[1][b[(at + i) * steps[1]]];
		}
		apply(binary->op, left, right, n_block);
		for (size_t i = 0; i < n_block; i++)
			out[at + i] = et_xnn_quantize(&binary->quantized, left[i]);
	}
}

/* PReLU. Products are exact and rounded before the zero point is added. */
static void run_row_prelu(const struct binary *binary, const size_t *offsets, size_t to, size_t n)
{
	const size_t *steps = binary->steps[binary->n_dims - 1];
	const uint8_t *a = (const uint8_t *)binary->in[0] + offsets[0],
		      *b = (const uint8_t *)binary->in[1] + offsets[1];
	uint8_t *out = (uint8_t *)binary->out + to;
	const struct et_xnn_quantized *quantized = &binary->quantized;
	for (size_t i = 0; i < n; i++) {
		int32_t left = a[i * steps[0]], right = b[i * steps[1]];
		left = (quantized->is_signed ? (int8_t)left : left) - binary->zero_points[0];
		right = (quantized->is_signed ? (int8_t)right : right) - binary->zero_points[1];
		float number = left < 0 ? (float)(left * right) * binary->below : (float)left * binary->above;
		float least = quantized->least - quantized->zero_point, most = quantized->most - quantized->zero_point;
		number = number > least ? number : least;
		out[i] = (uint8_t)(int32_t)(et_xnn_round(number < most ? number : most) + quantized->zero_point);
	}
}

/* The original applies limits in a node of their own, after the rounding. */
static void prepare_8(struct binary *binary, const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_value *values = run->payload->values;
	for (unsigned i = 0; i < 2; i++) {
		struct et_xnn_quantized from = et_xnn_quantized(&values[node->inputs[i]]);
		for (unsigned j = 0; j < 256; j++)
			binary->floats[i][j] = et_xnn_dequantize(&from, (uint8_t)j);
	}
	const struct et_xnn_value *a = &values[node->inputs[0]], *b = &values[node->inputs[1]],
				  *out = &values[node->outputs[0]];
	binary->zero_points[0] = a->zero_point;
	binary->zero_points[1] = b->zero_point;
	binary->above = a->scale / out->scale;
	binary->below = a->scale * b->scale / out->scale;
	binary->quantized = et_xnn_quantized(out);
	et_xnn_limit(&binary->quantized, node->min, node->max);
	binary->run_row = node->kind->op == xnn_binary_prelu ? run_row_prelu : run_row_8;
}

/* --- int32 --- */

static int32_t divide(int32_t a, int32_t b)
{
	if (b == 0)
		return 0;
	int64_t quotient = (int64_t)a / b, rest = (int64_t)a % b;
	if (rest < 0)
		quotient += b > 0 ? -1 : 1;
	return (int32_t)(uint32_t)quotient;
}

static void run_row_32(const struct binary *binary, const size_t *offsets, size_t to, size_t n)
{
	const size_t *steps = binary->steps[binary->n_dims - 1];
	const int32_t *a = (const int32_t *)binary->in[0] + offsets[0],
		      *b = (const int32_t *)binary->in[1] + offsets[1];
	int32_t *out = (int32_t *)binary->out + to;
	for (size_t i = 0; i < n; i++) {
		int32_t quotient = divide(a[i * steps[0]], b[i * steps[1]]);
		quotient = quotient < binary->least ? binary->least : quotient;
		out[i] = quotient > binary->most ? binary->most : quotient;
	}
}

static int32_t integer_limit(float limit)
{
	return limit >= 0x1p31f ? INT32_MAX : limit >= -0x1p31f ? (int32_t)limit : INT32_MIN;
}

static void prepare_32(struct binary *binary, const struct et_xnn_override_run *run)
{
	binary->least = integer_limit(run->node->min);
	binary->most = integer_limit(run->node->max);
	binary->run_row = run_row_32;
}

/* --- both --- */

/* The output's dimensions, and the steps along them in the inputs, in elements: 0 where an input is broadcast. */
static void lay_out(struct binary *binary, const struct et_xnn_shape *const shapes[2], const struct et_xnn_shape *out)
{
	size_t all[2] = { 1, 1 }, dims[ET_XNN_MAX_DIMS], steps[ET_XNN_MAX_DIMS][2];
	uint32_t n = 0;
	for (uint32_t i = 1; i <= out->n_dims; i++) {
		size_t dim = out->dims[out->n_dims - i], step[2];
		if (dim == 1)
			continue;
		for (unsigned j = 0; j < 2; j++) {
			size_t own = i <= shapes[j]->n_dims ? shapes[j]->dims[shapes[j]->n_dims - i] : 1;
			step[j] = own == 1 ? 0 : all[j];
			all[j] *= own;
		}
		bool is_joined = n > 0 && step[0] == steps[n - 1][0] * dims[n - 1] &&
				 step[1] == steps[n - 1][1] * dims[n - 1];
		if (is_joined) {
			dims[n - 1] *= dim;
			continue;
		}
		dims[n] = dim;
		steps[n][0] = step[0];
		steps[n++][1] = step[1];
	}
	if (n == 0) {
		dims[n] = 1;
		steps[n][0] = 0;
		steps[n++][1] = 0;
	}
	binary->n_dims = n;
	for (uint32_t i = 0; i < n; i++) {
		binary->dims[i] = dims[n - 1 - i];
		binary->steps[i][0] = steps[n - 1 - i][0];
		binary->steps[i][1] = steps[n - 1 - i][1];
	}
}

/* Elements @begin to @end of the output, row by row. */
static void run_elements(void *arg, size_t begin, size_t end)
{
	const struct binary *binary = arg;
	uint32_t last = binary->n_dims - 1;
	size_t of_row = binary->dims[last], n;
	for (size_t at = begin; at < end; at += n) {
		size_t row = at / of_row, column = at % of_row;
		size_t offsets[2] = { column * binary->steps[last][0], column * binary->steps[last][1] };
		for (uint32_t i = last; i > 0; i--) {
			size_t index = row % binary->dims[i - 1];
			row /= binary->dims[i - 1];
			offsets[0] += index * binary->steps[i - 1][0];
			offsets[1] += index * binary->steps[i - 1][1];
		}
		n = of_row - column < end - at ? of_row - column : end - at;
		binary->run_row(binary, offsets, at, n);
	}
}

static void run(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_value *values = run->payload->values;
	const struct et_xnn_shape *out = &run->shapes[node->outputs[0]];
	struct binary binary = { .op = (enum xnn_binary_operator)node->kind->op, .out = run->memory[node->outputs[0]] };
	const struct et_xnn_shape *shapes[2];
	for (unsigned i = 0; i < 2; i++) {
		uint32_t input = node->inputs[i];
		binary.in[i] = et_xnn_override_read(run, input);
		shapes[i] = &run->shapes[input];
	}
	lay_out(&binary, shapes, out);
	if (values[node->outputs[0]].type == ET_XNN_INT32)
		prepare_32(&binary, run);
	else
		prepare_8(&binary, run);
	et_xnn_threads_parallel_for(run->threads, run_elements, &binary, et_xnn_n_elements(out), GRAIN);
}

const struct et_xnn_override et_xnn_override_binary = {
	.name = "binary",
	.reason = "correctness: Debian's XNNPACK rounds halves away from 0, refuses some scales, and ends the "
		  "process at INT32_MIN / -1",
	.takes = takes,
	.is_required = true,
	.run = run,
};
