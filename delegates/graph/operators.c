/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of operators, and the search in it. The rows are sorted by name, which test_verify.c checks. What is in no
 * row is refused by the readers, with the name. */
#include "delegates/graph/operators.h"

#include "delegates/graph/operand_rules.h"
#include "delegates/graph/shape_rules.h"
#include "runtime/base/checked.h"

#include <string.h>

#define ROW(name, signature, types, group, rule, fits) \
	{ name, signature, types, ET_GRAPH_##group, false, 0, et_graph_infer_##rule, et_graph_fits_##fits }
#define INTERNAL(name, signature, types, group, rule, fits) \
	{ name, signature, types, ET_GRAPH_##group, true, 0, et_graph_infer_##rule, et_graph_fits_##fits }

/* Sorted by name. */
static const struct et_graph_operator rows[] = {
	ROW("add", "II>I", ">", NUMBER, arithmetic, any),
	ROW("aten._native_batch_norm_legit_no_training.default", "TttTTDD>TTT", "fffff>fff", NORM, batch_norm,
		batch_norm),
	ROW("aten._softmax.default", "TIB>T", "f>f", NORM, same, dim),
	ROW("aten._weight_int8pack_mm.default", "TTT>T", "fcs>f", MATRIX, linear, linear_q8),
	ROW("aten.abs.default", "T>T", "x>x", ELEMENTWISE, same, any),
	ROW("aten.add.Tensor", "TTN>T", "xx>x", ELEMENTWISE, broadcast, any),
	ROW("aten.amax.default", "TlB>T", "x>x", REDUCTION, reduce, some),
	ROW("aten.amin.default", "TlB>T", "x>x", REDUCTION, reduce, some),
	ROW("aten.arange.start_step", "NNN____>T", ">a", MOVEMENT, arange, any),
	ROW("aten.argmax.default", "TiB>T", "a>n", REDUCTION, reduce_one, some),
	ROW("aten.argmin.default", "TiB>T", "a>n", REDUCTION, reduce_one, some),
	ROW("aten.avg_pool2d.default", "TLLLBBi>T", "f>f", WINDOW, avg_pool, avg_pool),
	ROW("aten.bitwise_and.Tensor", "TT>T", "kk>k", ELEMENTWISE, broadcast, any),
	ROW("aten.bmm.default", "TT>T", "ff>f", MATRIX, matmul, any),
	ROW("aten.cat.default", "EI>T", "x>x", MOVEMENT, cat, any),
	ROW("aten.clamp.default", "Tnn>T", "x>x", ELEMENTWISE, same, any),
	ROW("aten.clone.default", "T_>T", "x>x", MOVEMENT, same, any),
	ROW("aten.constant_pad_nd.default", "TLN>T", "x>x", MOVEMENT, pad, pad),
	ROW("aten.convolution.default", "TTtLLLBLI>T", "fff>f", WINDOW, convolution, convolution),
	ROW("aten.div.Tensor", "TT>T", "xx>x", ELEMENTWISE, broadcast, any),
	ROW("aten.div.Tensor_mode", "TTs>T", "xx>x", ELEMENTWISE, broadcast, div_mode),
	ROW("aten.embedding.default", "TT___>T", "xn>x", MOVEMENT, embedding, any),
	ROW("aten.eq.Scalar", "TN>T", "a>b", ELEMENTWISE, same, any),
	ROW("aten.exp.default", "T>T", "f>f", ELEMENTWISE, same, any),
	ROW("aten.expand_copy.default", "TL_>T", "x>x", MOVEMENT, expand, any),
	ROW("aten.flip.default", "TL>T", "x>x", MOVEMENT, same, dims),
	ROW("aten.full.default", "LN____>T", ">a", MOVEMENT, full, any),
	ROW("aten.full_like.default", "TN_____>T", "a>a", MOVEMENT, same, any),
	ROW("aten.gather.default", "TIT_>T", "xn>x", MOVEMENT, gather, any),
	ROW("aten.ge.Scalar", "TN>T", "a>b", ELEMENTWISE, same, any),
	ROW("aten.gelu.default", "Ts>T", "f>f", ELEMENTWISE, same, gelu),
	ROW("aten.hardswish.default", "T>T", "f>f", ELEMENTWISE, same, any),
	ROW("aten.hardtanh.default", "TNN>T", "x>x", ELEMENTWISE, same, any),
	ROW("aten.index.Tensor", "TO>T", "xn>x", MOVEMENT, index, any),
	ROW("aten.le.Scalar", "TN>T", "a>b", ELEMENTWISE, same, any),
	ROW("aten.leaky_relu.default", "TN>T", "f>f", ELEMENTWISE, same, any),
	ROW("aten.linear.default", "TTt>T", "fff>f", MATRIX, linear, linear),
	ROW("aten.logical_not.default", "T>T", "a>b", ELEMENTWISE, same, any),
	ROW("aten.max_pool2d_with_indices.default", "TLLLLB>TT", "x>xn", WINDOW, max_pool, max_pool),
	ROW("aten.mean.dim", "TlB_>T", "f>f", REDUCTION, reduce, any),
	ROW("aten.mm.default", "TT>T", "ff>f", MATRIX, matmul, any),
	ROW("aten.mul.Tensor", "TT>T", "xx>x", ELEMENTWISE, broadcast, any),
	ROW("aten.native_group_norm.default", "TttIIIID>TTT", "fff>fff", NORM, group_norm, group_norm),
	ROW("aten.native_layer_norm.default", "TLttD>TTT", "fff>fff", NORM, layer_norm, layer_norm),
	ROW("aten.permute_copy.default", "TL>T", "x>x", MOVEMENT, permute, any),
	ROW("aten.pow.Tensor_Scalar", "TN>T", "x>x", ELEMENTWISE, same, any),
	ROW("aten.relu.default", "T>T", "x>x", ELEMENTWISE, same, any),
	ROW("aten.select_copy.int", "TII>T", "x>x", MOVEMENT, select, any),
	ROW("aten.sigmoid.default", "T>T", "f>f", ELEMENTWISE, same, any),
	ROW("aten.slice_copy.Tensor", "TIiiI>T", "x>x", MOVEMENT, slice, any),
	ROW("aten.split_with_sizes_copy.default", "TLI>*", "x>x", MOVEMENT, split, any),
	ROW("aten.sqrt.default", "T>T", "f>f", ELEMENTWISE, same, any),
	ROW("aten.squeeze_copy.dims", "TL>T", "x>x", MOVEMENT, squeeze, any),
	ROW("aten.sub.Tensor", "TTN>T", "xx>x", ELEMENTWISE, broadcast, any),
	ROW("aten.sum.dim_IntList", "TlB_>T", "x>x", REDUCTION, reduce, any),
	ROW("aten.tanh.default", "T>T", "f>f", ELEMENTWISE, same, any),
	ROW("aten.unsqueeze_copy.default", "TI>T", "x>x", MOVEMENT, unsqueeze, any),
	ROW("aten.upsample_bilinear2d.vec", "TlBf>T", "f>f", WINDOW, upsample_bilinear, resize),
	ROW("aten.upsample_nearest2d.vec", "Tlf>T", "x>x", WINDOW, upsample_nearest, resize),
	ROW("aten.view_copy.default", "TL>T", "x>x", MOVEMENT, view, any),
	ROW("aten.where.self", "TTT>T", "bxx>x", ELEMENTWISE, broadcast, any),
	ROW("dim_order_ops._to_dim_order_copy.default", "T______>T", "a>a", ELEMENTWISE, same, any),
	ROW("et_vk.apply_rotary_emb.default", "TTTT>TT", "ffff>ff", ATTENTION, rotary, rotary),
	ROW("et_vk.conv_with_clamp.default", "TTtLLLBLInn>T", "fff>f", WINDOW, convolution, convolution),
	ROW("et_vk.linear_dq8ca_q4gsw.default", "TTTTTTIt>T", "fszuwss>f", MATRIX, linear_dq8ca, linear_dq8ca),
	ROW("et_vk.linear_q4gsw.default", "TTTIt>T", "fuss>f", MATRIX, linear, linear_q4gsw),
	ROW("et_vk.linear_qcs4w.default", "TTT>T", "fus>f", MATRIX, linear, linear_qcs4w),
	ROW("et_vk.prepack.default", "T>T", "x>x", MOVEMENT, same, any),
	ROW("et_vk.q8ta_add.default", "TTDIDIDIN>T", "cc>c", ELEMENTWISE, broadcast, any),
	ROW("et_vk.q8ta_conv2d.default", "TDITTTDItLLLLIs>T", "ccwss>c", WINDOW, q8ta_convolution, q8ta_convolution),
	ROW("et_vk.q8ta_conv2d_dw.default", "TDITTTDItLLLLIs>T", "ccwss>c", WINDOW, q8ta_depthwise, q8ta_depthwise),
	ROW("et_vk.q8ta_conv2d_pw.default", "TDITTTDItLLLLIs>T", "ccwss>c", WINDOW, q8ta_convolution, q8ta_pointwise),
	ROW("et_vk.q8ta_conv2d_transposed.default", "TDITTTDItLLLLLIs>T", "ccwss>c", WINDOW, q8ta_transposed,
		q8ta_transposed),
	ROW("et_vk.q8ta_linear.default", "TDITTTDIts>T", "ccwss>c", MATRIX, q8ta_linear, q8ta_linear),
	ROW("et_vk.q8ta_linear_gemv.default", "TDITTTDIts>T", "ccwss>c", MATRIX, q8ta_linear, q8ta_linear),
	ROW("et_vk.rms_norm.default", "TTD>T", "ff>f", NORM, same, rms_norm),
	ROW("et_vk.sdpa.default", "TTTtd>T", "fffm>f", ATTENTION, attention, sdpa),
	ROW("et_vk.select_as_symint.default", "TII>I", "n>", NUMBER, unknown_symbol, element),
	ROW("floordiv", "II>I", ">", NUMBER, arithmetic, any),
	INTERNAL("graph.attention", "TTTtdB>T", "ffff>f", ATTENTION, attention_rows, attention_rows),
	INTERNAL("graph.convolution", "TTtLLLI>T", "fff>f", WINDOW, padded_convolution, convolution),
	ROW("mul", "II>I", ">", NUMBER, arithmetic, any),
	ROW("quantized_decomposed.dequantize_per_channel.default", "TTtIII__>T", "qsz>s", QUANTIZE, same,
		dequantize_channels),
	ROW("quantized_decomposed.dequantize_per_tensor.default", "TDIII__>T", "q>s", QUANTIZE, same, quantize),
	ROW("quantized_decomposed.quantize_per_tensor.default", "TDIII_>T", "s>q", QUANTIZE, same, quantize),
	{ "sdpa_with_kv_cache.default", "TTTTTIItDBd>T", "fffffm>f", ET_GRAPH_ATTENTION, false, 2, et_graph_infer_same,
		et_graph_fits_kv_cache },
	ROW("sub", "II>I", ">", NUMBER, arithmetic, any),
	ROW("sym_size.int", "TI>I", "a>", NUMBER, sym_size, any),
	ROW("torchao.choose_qparams_affine.default", "TsL______b>TT", "s>sz", QUANTIZE, qparams, any),
};

const struct et_graph_operator *et_graph_operator_find(const char *name)
{
	size_t from = 0, to = ET_ARRAY_LEN(rows);
	while (from < to) {
		size_t middle = (from + to) / 2;
		int order = strcmp(name, rows[middle].name);
		if (!order)
			return &rows[middle];
		if (order < 0)
			to = middle;
		else
			from = middle + 1;
	}
	return NULL;
}

const struct et_graph_operator *et_graph_operator_at(uint32_t index)
{
	return index < ET_ARRAY_LEN(rows) ? &rows[index] : NULL;
}

bool et_graph_operator_is_step(const struct et_graph_operator *op)
{
	return op->group == ET_GRAPH_ELEMENTWISE ||
	       (op->group == ET_GRAPH_QUANTIZE && op->fits == et_graph_fits_quantize);
}

uint32_t et_graph_operator_n_args(const struct et_graph_operator *op, uint32_t *ret_n_results)
{
	const char *mark = strchr(op->signature, '>');
	*ret_n_results = mark[1] == '*' ? UINT32_MAX : (uint32_t)strlen(mark + 1);
	return (uint32_t)(mark - op->signature);
}
