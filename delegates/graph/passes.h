/* SPDX-License-Identifier: BSD-3-Clause */
/* The passes over a graph that do not depend on a driver, in the order in which they run. Each leaves a graph that
 * et_graph_verify accepts. One thread at a time. Those that need memory answer ET_E_MEMORY_ALLOCATION_FAILED. */
#ifndef DELEGATES_GRAPH_PASSES_H
#define DELEGATES_GRAPH_PASSES_H

#include "delegates/graph/graph.h"

/* Remove nodes that return an argument as it is: clone, prepack, casts to the same type, slices, permutations and
 * expansions that change nothing, whatever sizes a run has. Who read the result reads the argument. An output of the
 * graph keeps its node, since the caller's memory has to be filled. In pass_copies.c. */
enum et_status et_graph_remove_copies(struct et_graph *graph, struct et_diag *diag);

/* Remove nodes of whose results nothing is used, and which change no state. In pass_dead.c. */
void et_graph_remove_dead(struct et_graph *graph);

/* Compute what does not depend on a run: symbols of literals and of constants' sizes, views of constants, small
 * constants that full makes, and sums and products of constants of one element. In pass_precompute.c. */
enum et_status et_graph_precompute(struct et_graph *graph, struct et_diag *diag);

/* Replace dequantize, activation, quantize by a clamp of the integers where that gives the same. Fewer nodes, and what
 * is left of them is dead code that goes too. In pass_quantized.c. */
enum et_status et_graph_simplify_quantized(struct et_graph *graph, struct et_diag *diag);

/* Replace the nodes between two bmm, which scale and mask scores and take their softmax, and both bmm, by one
 * graph.attention. In pass_attention.c. */
enum et_status et_graph_fuse_attention(struct et_graph *graph, struct et_diag *diag);

/* Give matrix products and convolutions their padding and their steps. Afterwards there is no conv_with_clamp. In
 * pass_epilogues.c. */
enum et_status et_graph_fuse_epilogues(struct et_graph *graph, struct et_diag *diag);

/* Make one node of each chain of elementwise operators. In pass_chains.c. */
enum et_status et_graph_fuse_chains(struct et_graph *graph, struct et_diag *diag);

/* Let results lie where an argument lies, so that nothing is copied: views, squeezes and unsqueezes, and slices,
 * selections and parts along the outermost dimension that is not 1. Sets the alias_ members of their tensors;
 * such a node needs no work. Outputs of the graph and what lies in a state are left alone. Aliases from before are
 * forgotten. In pass_aliases.c. */
void et_graph_find_aliases(struct et_graph *graph);

/* Give each tensor that a node makes, and that is neither an output of the graph nor an alias, a place in the arena of
 * a run: tensors that are not in use at the same time share memory. An output whose needs_place is set gets a place
 * that nothing else has until the end of the run. Sizes are the largest ones. Every place is a multiple of @align, a
 * power of two. *@ret_n_bytes: the arena's size. In pass_places.c. */
enum et_status et_graph_place(struct et_graph *graph, uint64_t align, uint64_t *ret_n_bytes, struct et_diag *diag);

#endif
