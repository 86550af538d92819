/* The average of windows of which some lie wholly in the padding, which XNNPACK does not take.
 *
 * An output is the sum of what of its window lies in the picture, divided by how many those are, a channel each, within the limits.
 * ExecuTorch's XNNPACK, which takes such windows, counts from a window's first element in the padded picture to its last: none where
 * it lies just beside the picture or in front, and less than none further behind. 0 divided by 0 is no number, of which its
 * kernels make the lower limit; so is it here. */
#include "delegates/xnnpack/half.h"
#include "delegates/xnnpack/own.h"

#include <math.h>

enum { GRAIN = 1 << 17 /* elements looked at that are worth another thread's while */ };

struct average {
	size_t height, width, channels, out_height, out_width;
	size_t kernel[2], stride[2], pad[2];
	bool is_halves;
	const void *in;
	void *out;
	float min, max;
};

/* Elements of a window that lie in the picture: from @at to before @end, which may lie in front of it. */
struct span {
	size_t at, end;
};

static struct span find_span(const struct average *average, int axis, size_t position)
{
	size_t size = axis ? average->width : average->height, pad = average->pad[axis],
	       from = position * average->stride[axis], end = from + average->kernel[axis];
	end = end > pad ? end - pad : 0;
	return (struct span){ from > pad ? from - pad : 0, end < size ? end : size };
}

static float count_of(struct span span)
{
	return (float)((double)span.end - (double)span.at);
}

static float at(const struct average *average, size_t i)
{
	return average->is_halves ? et_xnn_from_half(((const uint16_t *)average->in)[i])
				  : ((const float *)average->in)[i];
}

static void put(const struct average *average, size_t i, float mean)
{
	mean = mean >= average->min ? mean : average->min; /* and what is no number */
	mean = mean > average->max ? average->max : mean;
	if (average->is_halves)
		((uint16_t *)average->out)[i] = et_xnn_to_half(mean);
	else
		((float *)average->out)[i] = mean;
}

/* Rows @begin to @end of all pictures. */
static void run_rows(void *arg, size_t begin, size_t end)
{
	const struct average *average = arg;
	const size_t n = average->channels;
	for (size_t i = begin * average->out_width; i < end * average->out_width; i++) {
		size_t row = i / average->out_width, first = row / average->out_height * average->height;
		struct span down = find_span(average, 0, row % average->out_height),
			    across = find_span(average, 1, i % average->out_width);
		float scale = 1 / (count_of(down) * count_of(across));
		for (size_t c = 0; c < n; c++) {
			float sum = 0;
			for (size_t y = down.at; y < down.end; y++)
				for (size_t x = across.at; x < across.end; x++)
					sum += at(average, ((first + y) * average->width + x) * n + c);
			put(average, i * n + c, sum * scale);
		}
	}
}

bool et_xnn_own_needs_average(const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	return node->kind->define == et_xnn_define_average_pooling &&
	       (n[ET_XNN_PAD_TOP] >= n[ET_XNN_KERNEL_H] || n[ET_XNN_PAD_BOTTOM] >= n[ET_XNN_KERNEL_H] ||
		       n[ET_XNN_PAD_LEFT] >= n[ET_XNN_KERNEL_W] || n[ET_XNN_PAD_RIGHT] >= n[ET_XNN_KERNEL_W]);
}

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	const struct et_xnn_value *in = &payload->values[node->inputs[0]];
	return et_xnn_own_needs_average(node) && !in->data &&
	       (in->type == ET_XNN_FP32 || in->type == ET_XNN_FP16);
}

static void run(const struct et_xnn_own_run *run)
{
	const struct et_xnn_node *node = run->node;
	const uint32_t *n = node->numbers;
	const size_t *in = run->shapes[node->inputs[0]].dims, *out = run->shapes[node->outputs[0]].dims;
	struct average average = {
		.height = in[1],
		.width = in[2],
		.channels = in[3],
		.out_height = out[1],
		.out_width = out[2],
		.kernel = { n[ET_XNN_KERNEL_H], n[ET_XNN_KERNEL_W] },
		.stride = { n[ET_XNN_STRIDE_H], n[ET_XNN_STRIDE_W] },
		.pad = { n[ET_XNN_PAD_TOP], n[ET_XNN_PAD_LEFT] },
		.is_halves = run->payload->values[node->inputs[0]].type == ET_XNN_FP16,
		.in = run->memory[node->inputs[0]],
		.out = run->memory[node->outputs[0]],
		.min = node->min,
		.max = node->max,
	};
	size_t of_row = out[2] * in[3] * average.kernel[0] * average.kernel[1];
	et_xnn_lane_parallel_for(
		run->lane, run_rows, &average, out[0] * out[1], 1 + GRAIN / (of_row ? of_row : 1));
}

const struct et_xnn_own et_xnn_own_average = {
	.name = "Average Pooling (NHWC), by rows",
	.takes = takes,
	.is_sole = true,
	.run = run,
};
