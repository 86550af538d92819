/* SPDX-License-Identifier: BSD-3-Clause */
/* A graph as text: for people, and for the tests of passes, which compare texts.
 *
 *     %0: f32[1, 8] = input
 *     %1: f32[4, 8] = constant 0
 *     %2: i64[2] = constant {3, 4}
 *     %3: f16[1, 2, 16, 8] = state
 *     %4: symbol = sym_size.int(%0, 0)
 *     %5: f32[1, 4] = aten.linear.default(%0, %1, none)
 *     %6: f32[1, 2, 2, 2], %7: i32[1, 2, 2, 2] = aten.max_pool2d_with_indices.default(%0, [2, 2], [], [0], [1], false)
 *     %9: f32[1, 8] = aten.cat.default([%5, %5], 1)
 *     %10: f32[1, 4] = aten.linear.default(%0, %1, none) | aten.add.Tensor(_, %5, 1) | aten.relu.default(_)
 *     return %5
 *
 * Behind a '|' stands a step of the node; '_' is the running value, `_: f32` if its type is another than the result's.
 * Literals stand where they are used: ints, doubles (with a point, an exponent, inf or nan), true, false, none, texts
 * in quotes, lists in brackets; a list whose items are not all ints, doubles or bools is a list of values. A number
 * behind `constant` is the constant's number in the payload: then the text does not have its data. `input f32` instead
 * of `input`, and `return %5 f32`, name the type that the caller has, if it is another one. Everything from '#' to the
 * end of a line is a comment.
 *
 * After passes a text also says where tensors lie: `f32[1, 4] at 128` in the arena of a run, `f32[4] in %5` where that
 * tensor lies, `f32[4] in %5 from row 2 of dim 0` in a part of it. */
#ifndef DELEGATES_GRAPH_TEXT_H
#define DELEGATES_GRAPH_TEXT_H

#include "delegates/graph/graph.h"

/* The receiver of a text, called with pieces of it. */
struct et_graph_sink {
	void *self;
	void (*write)(void *self, const char *text, size_t n);
};

/* Write the graph. It must have been verified. Values are numbered anew, in the order in which they appear, so equal
 * graphs give equal texts. False without memory for that. */
bool et_graph_print(const struct et_graph *graph, const struct et_graph_sink *sink);

/* Write the graph in Graphviz's language: tensors are edges. In dot.c. */
void et_graph_print_dot(const struct et_graph *graph, const struct et_graph_sink *sink);

/* Read a text, and verify it. @ret_graph's memory comes from @pool. ET_E_INVALID_ARGUMENT with line and column, or
 * what et_graph_verify answers. In text_parse.c. */
enum et_status et_graph_parse(struct et_graph *ret_graph, const char *text, size_t n, struct et_pool *pool,
	struct et_diag *diag);

#endif
