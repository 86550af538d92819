/* SPDX-License-Identifier: BSD-3-Clause */
/* What the pooling rows (argmax_pool.c, average_pool.c, max_pool.c) share: their windows, and sharing the work among
 * threads. */
#include "delegates/xnnpack/overrides/pool_windows.h"

enum { GRAIN = 1 << 17 /* elements looked at that are worth another thread */ };

struct et_xnn_pool_windows et_xnn_pool_windows(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const uint32_t *n = node->numbers;
	const size_t *in = run->shapes[node->inputs[0]].dims, *out = run->shapes[node->outputs[0]].dims;
	return (struct et_xnn_pool_windows){
		.height = in[1],
		.width = in[2],
		.channels = in[3],
		.out_height = out[1],
		.out_width = out[2],
		.kernel = { n[ET_XNN_KERNEL_H], n[ET_XNN_KERNEL_W] },
		.stride = { n[ET_XNN_STRIDE_H], n[ET_XNN_STRIDE_W] },
		.pad = { n[ET_XNN_PAD_TOP], n[ET_XNN_PAD_LEFT] },
		.in = run->memory[node->inputs[0]],
		.out = run->memory[node->outputs[0]],
		.min = node->min,
		.max = node->max,
	};
}

void et_xnn_pool_windows_run(const struct et_xnn_override_run *run, void (*rows)(void *arg, size_t begin, size_t end),
	void *arg)
{
	const uint32_t *n = run->node->numbers;
	const size_t *out = run->shapes[run->node->outputs[0]].dims;
	size_t n_of_row = out[2] * out[3] * n[ET_XNN_KERNEL_H] * n[ET_XNN_KERNEL_W];
	et_xnn_threads_parallel_for(run->threads, rows, arg, out[0] * out[1], 1 + GRAIN / (n_of_row ? n_of_row : 1));
}

bool et_xnn_pool_is_padded_by_windows(const struct et_xnn_node *node)
{
	const uint32_t *n = node->numbers;
	return n[ET_XNN_PAD_TOP] >= n[ET_XNN_KERNEL_H] || n[ET_XNN_PAD_BOTTOM] >= n[ET_XNN_KERNEL_H] ||
	       n[ET_XNN_PAD_LEFT] >= n[ET_XNN_KERNEL_W] || n[ET_XNN_PAD_RIGHT] >= n[ET_XNN_KERNEL_W];
}
