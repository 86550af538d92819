/* SPDX-License-Identifier: BSD-3-Clause */
/* The sizes that tensors and symbols have in one run, or at most. */
#ifndef DELEGATES_GRAPH_SHAPES_H
#define DELEGATES_GRAPH_SHAPES_H

#include "delegates/graph/graph.h"

struct et_graph_size {
	uint32_t dims[ET_GRAPH_MAX_DIMS]; /* of a tensor */
	uint8_t n_dims;
	bool is_known; /* of a symbol: whether @symbol is its value */
	int64_t symbol;
};

/* Set @sizes, which has an item for each value, to the largest sizes of all tensors and to unknown symbols. */
void et_graph_largest_sizes(const struct et_graph *graph, struct et_graph_size *sizes);

/* Compute the sizes of a node's results from those of its arguments, and check that all operands fit each other, as
 * et_graph_verify does for the largest sizes. Who runs a graph calls it for each node in turn, beginning with
 * et_graph_largest_sizes, the sizes of the run's inputs (none larger than declared: the caller checks that) and known
 * symbols. Then no result is larger than its declared sizes, and no operand smaller than its operator's kernel needs.
 * ET_OK; ET_E_NOT_SUPPORTED if the sizes depend on a symbol that is not known: then those of the results are undefined;
 * ET_E_INVALID_ARGUMENT with the node and a sentence if something does not fit. No memory is taken. */
enum et_status et_graph_infer(const struct et_graph *graph, uint32_t node, struct et_graph_size *sizes,
	struct et_diag *diag);

/* The second half of that, for results whose sizes are given. */
enum et_status et_graph_fits(const struct et_graph *graph, uint32_t node, struct et_graph_size *sizes,
	struct et_diag *diag);

#endif
