/* SPDX-License-Identifier: BSD-3-Clause */
/* Max pooling that XNNPACK does not take: strides longer than the window, windows of one element, windows wholly in
 * the padding, dilation with padding (XNNPACK would read outside the image), and 8 bits with limits that leave one
 * value only (XNNPACK asserts that there are two).
 *
 * An output is the largest of those elements of its window that lie in the image, within the limits. For a window
 * wholly in the padding it is the nearest element of the image that is a whole number of dilations away, or the first
 * element if there is none. fp16 is compared as integers of the same order. 8 bits are compared as they are, because
 * input and output have one scale. */
#include "delegates/xnnpack/ukernels/fp16.h"
#include "delegates/xnnpack/overrides/pool_windows.h"
#include "delegates/xnnpack/overrides/quantized.h"

#include <string.h>

struct pool {
	struct et_xnn_pool_windows windows; /* limits in the elements' unit */
	size_t dilation[2];
};

/* Elements of a window that lie in the image: @n of them from @at on, a dilation apart. */
struct taps {
	size_t at, n;
};

/* The element that a window wholly in the padding reads. */
static size_t find_nearest(size_t from, size_t pad, size_t size, size_t dilation)
{
	size_t end = size + pad;
	if (from < pad)
		from += (pad - from + dilation - 1) / dilation * dilation;
	if (from >= end) {
		size_t back = ((from - end) / dilation + 1) * dilation;
		from = from > back ? from - back : 0;
	}
	return from > pad ? from - pad : 0;
}

/* For the window that begins at @from, counted from the padding on. */
static struct taps find_taps(const struct pool *pool, int axis, size_t from)
{
	const struct et_xnn_pool_windows *windows = &pool->windows;
	size_t size = axis ? windows->width : windows->height, dilation = pool->dilation[axis],
	       pad = windows->pad[axis], kernel = windows->kernel[axis];
	size_t first = from < pad ? (pad - from + dilation - 1) / dilation : 0;
	size_t end = from < size + pad ? (size + pad - from + dilation - 1) / dilation : 0;
	end = end < kernel ? end : kernel;
	if (first < end)
		return (struct taps){ from + first * dilation - pad, end - first };
	return (struct taps){ find_nearest(from, pad, size, dilation), 1 };
}

static int16_t order_of_half(uint16_t fp16)
{
	return (int16_t)(fp16 & 0x8000 ? fp16 ^ 0x7fff : fp16);
}

static uint16_t half_of_order(int16_t order)
{
	return (uint16_t)(order < 0 ? order ^ 0x7fff : order);
}

/* Output rows @begin to @end of all images. type: of the elements. key: the type that they are compared in; from, to:
 * conversions into it and back. */
#define DEFINE_ROWS(name, type, key, from, to)                                                                     \
	static void name(void *arg, size_t begin, size_t end)                                                      \
	{                                                                                                          \
		const struct pool *pool = arg;                                                                     \
		const struct et_xnn_pool_windows *windows = &pool->windows;                                        \
		const size_t n = windows->channels;                                                                \
		for (size_t row = begin; row < end; row++) {                                                       \
			size_t image = row / windows->out_height,                                                  \
			       top = row % windows->out_height * windows->stride[0];                               \
			const type *in = (const type *)windows->in + image * windows->height * windows->width * n; \
			type *out = (type *)windows->out + row * windows->out_width * n;                           \
			struct taps down = find_taps(pool, 0, top);                                                \
			for (size_t x = 0; x < windows->out_width; x++, out += n) {                                \
				struct taps across = find_taps(pool, 1, x * windows->stride[1]);                   \
				memcpy(out, in + (down.at * windows->width + across.at) * n, n * sizeof(*out));    \
				for (size_t i = 0; i < down.n; i++)                                                \
					for (size_t j = 0; j < across.n; j++) {                                    \
						size_t y = down.at + i * pool->dilation[0],                        \
						       column = across.at + j * pool->dilation[1];                 \
						const type *tap = in + (y * windows->width + column) * n;          \
						for (size_t c = 0; c < n; c++) {                                   \
							key a = from(out[c]), b = from(tap[c]);                    \
							out[c] = to(b > a ? b : a);                                \
						}                                                                  \
					}                                                                          \
				key min = (key)windows->min, max = (key)windows->max;                              \
				for (size_t c = 0; c < n; c++) {                                                   \
					key a = from(out[c]);                                                      \
					a = a < min ? min : a;                                                     \
					out[c] = to(a > max ? max : a);                                            \
				}                                                                                  \
			}                                                                                          \
		}                                                                                                  \
	}

#define AS_IT_IS(x) (x)
DEFINE_ROWS(run_f32, float, float, AS_IT_IS, AS_IT_IS)
DEFINE_ROWS(run_s8, int8_t, int8_t, AS_IT_IS, AS_IT_IS)
DEFINE_ROWS(run_u8, uint8_t, uint8_t, AS_IT_IS, AS_IT_IS)
DEFINE_ROWS(run_f16, uint16_t, int16_t, order_of_half, half_of_order)

/* Whether the limits leave less than two of the 8-bit values. */
static bool leaves_one(const struct et_xnn_value *value, const struct et_xnn_node *node)
{
	if (!et_xnn_is_8_bit(value))
		return false;
	struct et_xnn_quantized quantized = et_xnn_quantized(value);
	et_xnn_limit(&quantized, node->min, node->max);
	return quantized.most - quantized.least < 2;
}

bool et_xnn_override_needs_pool(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	if (node->kind->define != et_xnn_define_max_pooling)
		return false;
	if (leaves_one(&payload->values[node->outputs[0]], node))
		return true;
	bool is_dilated = n[ET_XNN_DILATION_H] > 1 || n[ET_XNN_DILATION_W] > 1;
	bool is_padded = n[ET_XNN_PAD_TOP] || n[ET_XNN_PAD_RIGHT] || n[ET_XNN_PAD_BOTTOM] || n[ET_XNN_PAD_LEFT];
	return (is_dilated && is_padded) || n[ET_XNN_STRIDE_H] > n[ET_XNN_KERNEL_H] ||
	       n[ET_XNN_STRIDE_W] > n[ET_XNN_KERNEL_W] || (n[ET_XNN_KERNEL_H] == 1 && n[ET_XNN_KERNEL_W] == 1) ||
	       et_xnn_pool_is_padded_by_windows(node);
}

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	if (!et_xnn_override_needs_pool(payload, node))
		return false;
	const struct et_xnn_value *in = &payload->values[node->inputs[0]], *out = &payload->values[node->outputs[0]];
	return !in->data && in->scale == out->scale && in->zero_point == out->zero_point;
}

static void run(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const uint32_t *n = node->numbers;
	const struct et_xnn_value *value = &run->payload->values[node->outputs[0]];
	struct pool pool = {
		.windows = et_xnn_pool_windows(run),
		.dilation = { n[ET_XNN_DILATION_H], n[ET_XNN_DILATION_W] },
	};
	struct et_xnn_quantized quantized;
	void (*rows)(void *arg, size_t begin, size_t end) = run_f32;
	switch (value->type) {
	case ET_XNN_FP16:
		rows = run_f16;
		pool.windows.min = order_of_half(et_float_to_fp16(node->min));
		pool.windows.max = order_of_half(et_float_to_fp16(node->max));
		break;
	case ET_XNN_QINT8:
	case ET_XNN_QUINT8:
		rows = value->type == ET_XNN_QINT8 ? run_s8 : run_u8;
		quantized = et_xnn_quantized(value);
		et_xnn_limit(&quantized, node->min, node->max);
		pool.windows.min = quantized.least;
		pool.windows.max = quantized.most;
		break;
	default:
		break;
	}
	et_xnn_pool_windows_run(run, rows, &pool);
}

const struct et_xnn_override et_xnn_override_max_pool = {
	.name = "max-pool",
	.reason = "correctness: XNNPACK does not take some strides, paddings, dilations and limits",
	.takes = takes,
	.is_required = true,
	.run = run,
};
