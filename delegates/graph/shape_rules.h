/* SPDX-License-Identifier: BSD-3-Clause */
/* The shape rules that operators name in their rows. Each writes the sizes of its node's results, or answers false with
 * a sentence in the diagnosis. A rule that would need an unknown symbol sets is_unknown. */
#ifndef DELEGATES_GRAPH_SHAPE_RULES_H
#define DELEGATES_GRAPH_SHAPE_RULES_H

#include "delegates/graph/shapes.h"

struct et_graph_shapes {
	const struct et_graph *graph;
	const struct et_graph_node *node; /* a part of one: et_graph_part */
	uint32_t index;                   /* the node's */
	struct et_graph_size *sizes;      /* of all values */
	struct et_diag *diag;
	bool is_unknown;
};

#define ET_GRAPH_RULE(name) bool et_graph_infer_##name(struct et_graph_shapes *s)
ET_GRAPH_RULE(arange);
ET_GRAPH_RULE(arithmetic);
ET_GRAPH_RULE(attention);
ET_GRAPH_RULE(attention_rows);
ET_GRAPH_RULE(avg_pool);
ET_GRAPH_RULE(batch_norm);
ET_GRAPH_RULE(broadcast);
ET_GRAPH_RULE(cat);
ET_GRAPH_RULE(convolution);
ET_GRAPH_RULE(embedding);
ET_GRAPH_RULE(expand);
ET_GRAPH_RULE(full);
ET_GRAPH_RULE(gather);
ET_GRAPH_RULE(group_norm);
ET_GRAPH_RULE(index);
ET_GRAPH_RULE(layer_norm);
ET_GRAPH_RULE(linear);
ET_GRAPH_RULE(linear_dq8ca);
ET_GRAPH_RULE(matmul);
ET_GRAPH_RULE(max_pool);
ET_GRAPH_RULE(pad);
ET_GRAPH_RULE(padded_convolution);
ET_GRAPH_RULE(permute);
ET_GRAPH_RULE(q8ta_convolution);
ET_GRAPH_RULE(q8ta_depthwise);
ET_GRAPH_RULE(q8ta_linear);
ET_GRAPH_RULE(q8ta_transposed);
ET_GRAPH_RULE(qparams);
ET_GRAPH_RULE(reduce);
ET_GRAPH_RULE(reduce_one);
ET_GRAPH_RULE(rotary);
ET_GRAPH_RULE(same);
ET_GRAPH_RULE(select);
ET_GRAPH_RULE(slice);
ET_GRAPH_RULE(split);
ET_GRAPH_RULE(squeeze);
ET_GRAPH_RULE(sym_size);
ET_GRAPH_RULE(unknown_symbol);
ET_GRAPH_RULE(unsqueeze);
ET_GRAPH_RULE(upsample_bilinear);
ET_GRAPH_RULE(upsample_nearest);
ET_GRAPH_RULE(view);
#undef ET_GRAPH_RULE

/* --- for the files with the rules ----------------------------------------------------------------- */

/* The sizes of argument @arg, a tensor; NULL if it was left out. */
const struct et_graph_size *et_graph_arg(const struct et_graph_shapes *s, uint32_t arg);
struct et_graph_size *et_graph_result(const struct et_graph_shapes *s, uint32_t result);
/* The number in argument @arg: a literal or a symbol; @absent if it was left out. */
int64_t et_graph_int(struct et_graph_shapes *s, uint32_t arg, int64_t absent);
double et_graph_double(const struct et_graph_shapes *s, uint32_t arg, double absent);
bool et_graph_bool(const struct et_graph_shapes *s, uint32_t arg);
/* The items of the list in argument @arg, and how many there are; 0 if it was left out. */
uint32_t et_graph_n_items(const struct et_graph_shapes *s, uint32_t arg);
int64_t et_graph_item(struct et_graph_shapes *s, uint32_t arg, uint32_t index);
/* Item @index of argument @arg, a list of tensors; NULL if it was left out. */
const struct et_graph_size *et_graph_tensor_item(const struct et_graph_shapes *s, uint32_t arg, uint32_t index);
/* Turn @dim, which may be negative to count from the end, into the number of a dimension of a tensor of @n_dims. */
bool et_graph_dim(struct et_graph_shapes *s, int64_t dim, uint32_t n_dims, uint32_t *ret_dim);
/* @size as a size of a tensor. */
bool et_graph_take_size(const struct et_graph_shapes *s, int64_t size, uint32_t *ret_size);
/* Answer false with a sentence. */
bool et_graph_misfit(const struct et_graph_shapes *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
