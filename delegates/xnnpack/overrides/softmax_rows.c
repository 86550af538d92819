/* SPDX-License-Identifier: BSD-3-Clause */
/* Softmax of short rows of halves, in vectors of the processors that have them (softmax_fp16.h), where there are enough to be worth a cut.
 * Longer rows, and those of floats, are XNNPACK's; but those that become longer from run to run are done here, too. */
#include "delegates/xnnpack/overrides/override.h"
#include "delegates/xnnpack/ukernels/softmax_fp16.h"

enum {
	COST = 16,      /* products in whose time one number is done */
	GRAIN = 1 << 14 /* numbers that are worth another thread's while */
};

struct rows {
	const uint16_t *in;
	uint16_t *out;
	size_t n; /* numbers of a row */
};

static bool takes(const struct et_xnn_payload *payload, const struct et_xnn_node *node)
{
	if (node->kind->define != et_xnn_define_softmax || !et_softmax_fp16())
		return false;
	const struct et_xnn_value *in = &payload->values[node->inputs[0]], *out = &payload->values[node->outputs[0]];
	const struct et_xnn_shape *shape = &in->shape;
	return in->type == ET_XNN_FP16 && out->type == ET_XNN_FP16 && !in->data && shape->n_dims > 0 &&
	       shape->dims[shape->n_dims - 1] <= ET_SOFTMAX_FP16_MOST &&
	       et_xnn_override_is_worth((uint64_t)COST * et_xnn_n_elements(shape));
}

static void run_rows(void *arg, size_t begin, size_t end)
{
	const struct rows *rows = arg;
	et_softmax_fp16()->run(rows->out + begin * rows->n, rows->in + begin * rows->n, end - begin, rows->n);
}

static void run(const struct et_xnn_override_run *run)
{
	const struct et_xnn_node *node = run->node;
	const struct et_xnn_shape *shape = &run->shapes[node->inputs[0]];
	struct rows rows = {
		.in = run->memory[node->inputs[0]],
		.out = run->memory[node->outputs[0]],
		.n = shape->dims[shape->n_dims - 1],
	};
	et_xnn_threads_parallel_for(run->threads, run_rows, &rows, et_xnn_n_rows(shape), 1 + GRAIN / rows.n);
}

const struct et_xnn_override et_xnn_override_softmax = {
	.name = "Softmax (NC, F16), by rows",
	.takes = takes,
	.run = run,
};
