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

/* Compute the sizes of a node's results from those of its arguments. ET_OK; ET_E_NOT_SUPPORTED if they depend on a
 * symbol that is not known: then those of the results are undefined; ET_E_INVALID_ARGUMENT with the node and a sentence
 * if the arguments do not fit each other. No memory is taken. */
enum et_status et_graph_infer(const struct et_graph *graph, uint32_t node, struct et_graph_size *sizes,
	struct et_diag *diag);

#endif
