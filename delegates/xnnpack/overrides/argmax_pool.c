/* SPDX-License-Identifier: BSD-3-Clause */
/* Argmax pooling of fp32: the largest element of each window, and its index in the window. Windows tile the image.
 *
 * XNNPACK takes neither padding nor windows of one element. Numbers are the original's: an element in the padding
 * reads the nearest element of the image; elements are counted down the columns, and of equal ones the first is the
 * largest. No window reads what is left over behind the last whole one. A comparison with NaN is false, so a NaN wins
 * only as the first element of its window. */
#include "delegates/xnnpack/overrides/pool_windows.h"

struct argmax {
	struct et_xnn_pool_windows windows;
	int32_t *indexes;
};

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	return node->kind->infer == et_xnn_infer_argmax && !payload->values[node->inputs[0]].data;
}

static size_t nearest(size_t at, size_t pad, size_t size)
{
	at = at > pad ? at - pad : 0;
	return at < size ? at : size - 1;
}

/* The window whose first element is at (@top, @left) of the padded image. */
static void run_window(const struct argmax *argmax, const float *in, size_t top, size_t left, size_t to)
{
	const struct et_xnn_pool_windows *windows = &argmax->windows;
	size_t n = windows->channels;
	float *out = (float *)windows->out + to;
	int32_t *indexes = argmax->indexes + to, index = 0;
	for (size_t i = 0; i < windows->kernel[1]; i++)
		for (size_t j = 0; j < windows->kernel[0]; j++, index++) {
			size_t y = nearest(top + j, windows->pad[0], windows->height),
			       x = nearest(left + i, windows->pad[1], windows->width);
			const float *tap = in + (y * windows->width + x) * n;
			for (size_t c = 0; c < n; c++) {
				bool is_larger = index == 0 || tap[c] > out[c];
				out[c] = is_larger ? tap[c] : out[c];
				indexes[c] = is_larger ? index : indexes[c];
			}
		}
}

/* Output rows @begin to @end of all images. */
static void run_rows(void *arg, size_t begin, size_t end)
{
	const struct argmax *argmax = arg;
	const struct et_xnn_pool_windows *windows = &argmax->windows;
	size_t n = windows->channels;
	for (size_t row = begin; row < end; row++) {
		size_t image = row / windows->out_height, top = row % windows->out_height * windows->kernel[0];
		const float *in = (const float *)windows->in + image * windows->height * windows->width * n;
		for (size_t x = 0; x < windows->out_width; x++)
			run_window(argmax, in, top, x * windows->kernel[1], (row * windows->out_width + x) * n);
	}
}

static void run(const struct et_xnn_override_run *run)
{
	struct argmax argmax = {
		.windows = et_xnn_pool_windows(run),
		.indexes = run->memory[run->node->outputs[1]],
	};
	et_xnn_pool_windows_run(run, run_rows, &argmax);
}

const struct et_xnn_override et_xnn_override_argmax_pool = {
	.name = "argmax-pool-fp32",
	.reason = "correctness: XNNPACK takes neither padding nor windows of one element",
	.takes = takes,
	.is_required = true,
	.run = run,
};
