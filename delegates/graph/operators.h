/* SPDX-License-Identifier: BSD-3-Clause */
/* The operators that a graph may have: one table row each.
 *
 * A signature has a letter for each argument, then '>' and a letter for each result:
 *
 *     T tensor            I int or symbol      N int or double     B bool      E list of tensors
 *     t tensor or none    i the same or none   n the same or none  S string    O list of tensors or none
 *     _ anything, unused  D double             d double or none    s string or none
 *     L list of ints or symbols                l the same or none  b bool or none
 *     f list of doubles, or none
 *
 * Results are T, I (a symbol) or * (any number of tensors).
 *
 * Types have a letter for each argument that is a tensor or a list of them, then '>' and a letter for each result that
 * is a tensor; the last letter is that of all further results:
 *
 *     x any type           k an integer or bool      f a float       q i8, u8 or i32     (all of a node are one type)
 *     a any type           n i32 or i64 (indices)    s any float     z i8, i32 or i64 (zero points)
 *     m a float or bool    b bool                    c i8            u u8            w i32
 *
 * A float is f16, f32 or f64.
 *
 * Names that begin with "graph." are ours, for what passes make:
 *
 *     graph.convolution   x, weights, bias, stride, padding, dilation, groups: aten.convolution whose padding is a list
 *                         of the zeros in front of and behind each spatial dimension, beginning with the outermost one
 *     graph.attention     q [N, S, D], k, v [N, L, E], mask, scale, has_rows: softmax(q k * scale + mask) v, where k
 *                         is [N, L, D] if has_rows, else [N, D, L]; the mask's last two dimensions go with S and L,
 *                         those before them have one element or N altogether
 *
 * Source of other names and arguments: PyTorch's native_functions.yaml; for et_vk, ExecuTorch's
 * backends/vulkan/custom_ops_lib.py; for quantized_decomposed and torchao, the libraries of these names. */
#ifndef DELEGATES_GRAPH_OPERATORS_H
#define DELEGATES_GRAPH_OPERATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kind of work that an operator does, for the passes. */
enum et_graph_class {
	ET_GRAPH_ELEMENTWISE, /* each element of the result depends on the elements of the arguments at its place */
	ET_GRAPH_MOVEMENT,    /* each element of the result is an element of an argument, or a number */
	ET_GRAPH_REDUCTION,
	ET_GRAPH_NORM,
	ET_GRAPH_ATTENTION,
	ET_GRAPH_MATRIX,   /* matrix products, linear layers */
	ET_GRAPH_WINDOW,   /* convolutions, pooling, resizing */
	ET_GRAPH_QUANTIZE, /* between floats and integers */
	ET_GRAPH_NUMBER,   /* computes a symbol */
};

struct et_graph_shapes;

struct et_graph_operator {
	const char *name;      /* with its overload: "aten.add.Tensor" */
	const char *signature; /* see above */
	const char *types;     /* see above */
	uint8_t group;         /* enum et_graph_class */
	bool is_internal;      /* made by passes only: readers of payloads refuse it, as any unknown name */
	uint8_t n_states;      /* arguments 3 ... 3 + n_states - 1 are states, which the operator changes: KV caches */
	/* Sizes of the results from those of the arguments; in shape_rules.c. */
	bool (*infer)(struct et_graph_shapes *shapes);
	/* Whether the other operands fit, after that; in operand_rules.c. */
	bool (*fits)(struct et_graph_shapes *shapes);
};

/* The row of @name; NULL: no such operator. */
const struct et_graph_operator *et_graph_operator_find(const char *name);
/* All rows, by name; NULL from the end on. */
const struct et_graph_operator *et_graph_operator_at(uint32_t index);

/* Whether it may be a step of a node: element by element, with one result of the running value's sizes. */
bool et_graph_operator_is_step(const struct et_graph_operator *op);

/* The number of arguments; *@ret_n_results: of results, UINT32_MAX for any. */
uint32_t et_graph_operator_n_args(const struct et_graph_operator *op, uint32_t *ret_n_results);

#endif
