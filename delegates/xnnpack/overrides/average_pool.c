/* SPDX-License-Identifier: BSD-3-Clause */
/* Average pooling where some windows lie wholly in the padding, which XNNPACK does not take.
 *
 * An output is the sum of those elements of its window that lie in the image, divided by their count, within the
 * limits. For a window wholly in the padding the count is that of ExecuTorch's XNNPACK, which takes such windows: 0
 * beside or in front of the image, below 0 further behind. 0 / 0 is NaN, of which its kernels make the lower limit,
 * and so does this one. */
#include "delegates/xnnpack/ukernels/fp16.h"
#include "delegates/xnnpack/overrides/pool_windows.h"

#include <math.h>

struct average {
	struct et_xnn_pool_windows windows;
	bool is_fp16;
};

/* Elements of a window that lie in the image: from @at to before @end. @end may be less than @at. */
struct span {
	size_t at, end;
};

static struct span find_span(const struct et_xnn_pool_windows *windows, int axis, size_t position)
{
	size_t size = axis ? windows->width : windows->height, pad = windows->pad[axis],
	       from = position * windows->stride[axis], end = from + windows->kernel[axis];
	end = end > pad ? end - pad : 0;
	return (struct span){ from > pad ? from - pad : 0, end < size ? end : size };
}

static float count_of(struct span span)
{
	return (float)((double)span.end - (double)span.at);
}

static float at(const struct average *average, size_t i)
{
	return average->is_fp16 ? et_xnn_from_fp16(((const uint16_t *)average->windows.in)[i])
				: ((const float *)average->windows.in)[i];
}

static void put(const struct average *average, size_t i, float mean)
{
	mean = mean >= average->windows.min ? mean : average->windows.min; /* also for NaN */
	mean = mean > average->windows.max ? average->windows.max : mean;
	if (average->is_fp16)
		((uint16_t *)average->windows.out)[i] = et_float_to_fp16(mean);
	else
		((float *)average->windows.out)[i] = mean;
}

/* Output rows @begin to @end of all images. */
static void run_rows(void *arg, size_t begin, size_t end)
{
	const struct average *average = arg;
	const struct et_xnn_pool_windows *windows = &average->windows;
	const size_t n = windows->channels;
	for (size_t i = begin * windows->out_width; i < end * windows->out_width; i++) {
		size_t row = i / windows->out_width, first = row / windows->out_height * windows->height;
		struct span down = find_span(windows, 0, row % windows->out_height),
			    across = find_span(windows, 1, i % windows->out_width);
		float scale = 1 / (count_of(down) * count_of(across));
		for (size_t c = 0; c < n; c++) {
			float sum = 0;
			for (size_t y = down.at; y < down.end; y++)
				for (size_t x = across.at; x < across.end; x++)
					sum += at(average, ((first + y) * windows->width + x) * n + c);
			put(average, i * n + c, sum * scale);
		}
	}
}

bool et_xnn_override_needs_average(const struct et_xnn_node *node)
{
	return node->kind->define == et_xnn_define_average_pooling && et_xnn_pool_is_padded_by_windows(node);
}

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_value *in = &payload->values[node->inputs[0]];
	return et_xnn_override_needs_average(node) && !in->data && (in->type == ET_XNN_FP32 || in->type == ET_XNN_FP16);
}

static void run(const struct et_xnn_override_run *run)
{
	struct average average = {
		.windows = et_xnn_pool_windows(run),
		.is_fp16 = run->payload->values[run->node->inputs[0]].type == ET_XNN_FP16,
	};
	et_xnn_pool_windows_run(run, run_rows, &average);
}

const struct et_xnn_override et_xnn_override_average_pool = {
	.name = "average-pool",
	.reason = "correctness: XNNPACK does not take windows that lie wholly in the padding",
	.takes = takes,
	.is_required = true,
	.run = run,
};
