/* SPDX-License-Identifier: BSD-3-Clause */
/* Shapes of a payload's values, and the limits that keep computations with them from overflowing. */
#ifndef DELEGATES_XNNPACK_GRAPH_SHAPE_H
#define DELEGATES_XNNPACK_GRAPH_SHAPE_H

#include "delegates/xnnpack/graph/kind.h"

/* No honest program needs more; the product of two such numbers is far from overflow. */
#define ET_XNN_MAX_ELEMENTS    (UINT64_C(1) << 31) /* of a tensor */
#define ET_XNN_MAX_INDIRECTION (UINT64_C(1) << 27) /* pointers in the table of a convolution or pooling */

/* The shapes of all values. @shapes: one for each value; those of the inputs are given, the others are written, also on
 * failure. If an input is empty, other values may be empty, too: XNNPACK must not see those.
 * ET_E_INVALID_ARGUMENT or ET_E_INVALID_PROGRAM if a node cannot work with the shapes of its inputs. */
enum et_status et_xnn_infer_shapes(const struct et_xnn_payload *payload, struct et_xnn_shape *shapes,
	struct et_diag *diag);
/* The number of elements. The shape was checked: the product does not overflow. */
uint64_t et_xnn_count(const struct et_xnn_shape *shape);
uint64_t et_xnn_count_dims(const size_t *dims, uint32_t n_dims);
/* Whether the shape has at most ET_XNN_MAX_ELEMENTS elements, also when dimensions of size 0 are left out: then nothing
 * that is computed from the others overflows. */
bool et_xnn_is_sane(const struct et_xnn_shape *shape);
/* Whether a dimension has size 0. */
bool et_xnn_is_empty(const struct et_xnn_shape *shape);
/* "[1,3,224,224]" */
void et_xnn_shape_text(const struct et_xnn_shape *shape, char *ret_text, size_t n);
/* The axis of a concatenation, counted from the first dimension; at or above @n_dims if it makes no sense. */
uint32_t et_xnn_axis(const struct et_xnn_node *node, uint32_t n_dims);

#endif
