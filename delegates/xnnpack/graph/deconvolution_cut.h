/* SPDX-License-Identifier: BSD-3-Clause */
/* Transposed convolutions whose output is smaller than their stride: XNNPACK computes them whole, and a slice cuts
 * them. */
#ifndef DELEGATES_XNNPACK_GRAPH_DECONVOLUTION_CUT_H
#define DELEGATES_XNNPACK_GRAPH_DECONVOLUTION_CUT_H

#include "delegates/xnnpack/graph/kind.h"

/* Whether @node is a transposed convolution for which XNNPACK computes outputs that lie a stride apart together. */
bool et_xnn_has_subconvs(const struct et_xnn_node *node);
/* Whether @node has subconvolutions and its output may be smaller than its stride: where its input is one pixel. */
bool et_xnn_may_be_below_stride(const struct et_xnn_node *node);
/* Whether @node has subconvolutions and @out, its output's shape, is smaller than its stride: XNNPACK must not be
 * asked for @out alone. */
bool et_xnn_is_below_stride(const struct et_xnn_node *node, const struct et_xnn_shape *out);
/* The shape that the output of a transposed convolution would have if its padding cut nothing off. */
struct et_xnn_shape et_xnn_without_padding(const struct et_xnn_node *node, const struct et_xnn_shape *out);
/* Whether @node would have to be computed whole and cut, and the whole is too large. */
bool et_xnn_is_too_large_to_cut(const struct et_xnn_node *node, const struct et_xnn_shape *out);
/* Whether a node that is left to XNNPACK may have to be cut: then a runtime is good for the shapes that it was made
 * for. */
bool et_xnn_may_be_cut(const struct et_xnn_payload *payload);
/* Whether a runtime that was made for the shapes @a is also good for the shapes @b; each has one shape for each
 * value. */
bool et_xnn_is_cut_alike(const struct et_xnn_payload *payload, const struct et_xnn_shape *a,
	const struct et_xnn_shape *b);

#endif
