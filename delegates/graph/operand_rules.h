/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules that operators name in their rows for what shape rules do not look at: biases, scales, weights of norms,
 * masks, caches, texts and numbers. Each answers false with a sentence in the diagnosis. The sizes of the node's
 * results are known by then. A number that is an unknown symbol passes; it is checked in the run, when it is known. */
#ifndef DELEGATES_GRAPH_OPERAND_RULES_H
#define DELEGATES_GRAPH_OPERAND_RULES_H

#include "delegates/graph/shape_rules.h"

#define ET_GRAPH_FITS(name) bool et_graph_fits_##name(struct et_graph_shapes *s)
ET_GRAPH_FITS(any); /* always true */
ET_GRAPH_FITS(attention_rows);
ET_GRAPH_FITS(avg_pool);
ET_GRAPH_FITS(batch_norm);
ET_GRAPH_FITS(convolution);
ET_GRAPH_FITS(dequantize_channels);
ET_GRAPH_FITS(dim);
ET_GRAPH_FITS(dims);
ET_GRAPH_FITS(div_mode);
ET_GRAPH_FITS(element);
ET_GRAPH_FITS(gelu);
ET_GRAPH_FITS(group_norm);
ET_GRAPH_FITS(kv_cache);
ET_GRAPH_FITS(layer_norm);
ET_GRAPH_FITS(linear);
ET_GRAPH_FITS(linear_dq8ca);
ET_GRAPH_FITS(linear_q4gsw);
ET_GRAPH_FITS(linear_q8);
ET_GRAPH_FITS(linear_qcs4w);
ET_GRAPH_FITS(max_pool);
ET_GRAPH_FITS(pad);
ET_GRAPH_FITS(q8ta_convolution);
ET_GRAPH_FITS(q8ta_depthwise);
ET_GRAPH_FITS(q8ta_linear);
ET_GRAPH_FITS(q8ta_pointwise);
ET_GRAPH_FITS(q8ta_transposed);
ET_GRAPH_FITS(quantize);
ET_GRAPH_FITS(resize);
ET_GRAPH_FITS(rms_norm);
ET_GRAPH_FITS(rotary);
ET_GRAPH_FITS(sdpa);
ET_GRAPH_FITS(some);
#undef ET_GRAPH_FITS

/* Whether the types of a node's tensors are those of its row (operators.h). Results' values must be tensors by now. */
bool et_graph_types_fit(struct et_graph_shapes *s);

#endif
