/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of operators, and the search in it. The rows are sorted by name, which test_verify.c checks. What is in no
 * row is refused by the readers, with the name. */
#include "delegates/graph/operators.h"

#include "delegates/graph/shape_rules.h"
#include "runtime/base/checked.h"

#include <string.h>

#define ROW(name, signature, group, rule) { name, signature, ET_GRAPH_##group, 0, et_graph_infer_##rule }

/* Sorted by name. */
static const struct et_graph_operator rows[] = {
	ROW("add", "II>I", NUMBER, arithmetic),
	ROW("aten._native_batch_norm_legit_no_training.default", "TttTTDD>TTT", NORM, batch_norm),
	ROW("aten._softmax.default", "TIB>T", NORM, same),
	ROW("aten._weight_int8pack_mm.default", "TTT>T", MATRIX, linear),
	ROW("aten.abs.default", "T>T", ELEMENTWISE, same),
	ROW("aten.add.Tensor", "TTN>T", ELEMENTWISE, broadcast),
	ROW("aten.amax.default", "TlB>T", REDUCTION, reduce),
	ROW("aten.amin.default", "TlB>T", REDUCTION, reduce),
	ROW("aten.arange.start_step", "NNN____>T", MOVEMENT, arange),
	ROW("aten.argmax.default", "TiB>T", REDUCTION, reduce_one),
	ROW("aten.argmin.default", "TiB>T", REDUCTION, reduce_one),
	ROW("aten.avg_pool2d.default", "TLLLBBi>T", WINDOW, avg_pool),
	ROW("aten.bitwise_and.Tensor", "TT>T", ELEMENTWISE, broadcast),
	ROW("aten.bmm.default", "TT>T", MATRIX, matmul),
	ROW("aten.cat.default", "EI>T", MOVEMENT, cat),
	ROW("aten.clamp.default", "Tnn>T", ELEMENTWISE, same),
	ROW("aten.clone.default", "T_>T", MOVEMENT, same),
	ROW("aten.constant_pad_nd.default", "TLN>T", MOVEMENT, pad),
	ROW("aten.convolution.default", "TTtLLLBLI>T", WINDOW, convolution),
	ROW("aten.div.Tensor", "TT>T", ELEMENTWISE, broadcast),
	ROW("aten.div.Tensor_mode", "TTs>T", ELEMENTWISE, broadcast),
	ROW("aten.embedding.default", "TT___>T", MOVEMENT, embedding),
	ROW("aten.eq.Scalar", "TN>T", ELEMENTWISE, same),
	ROW("aten.exp.default", "T>T", ELEMENTWISE, same),
	ROW("aten.expand_copy.default", "TL_>T", MOVEMENT, expand),
	ROW("aten.flip.default", "TL>T", MOVEMENT, same),
	ROW("aten.full.default", "LN____>T", MOVEMENT, full),
	ROW("aten.full_like.default", "TN_____>T", MOVEMENT, same),
	ROW("aten.gather.default", "TIT_>T", MOVEMENT, gather),
	ROW("aten.ge.Scalar", "TN>T", ELEMENTWISE, same),
	ROW("aten.gelu.default", "Ts>T", ELEMENTWISE, same),
	ROW("aten.hardswish.default", "T>T", ELEMENTWISE, same),
	ROW("aten.hardtanh.default", "TNN>T", ELEMENTWISE, same),
	ROW("aten.index.Tensor", "TO>T", MOVEMENT, index),
	ROW("aten.le.Scalar", "TN>T", ELEMENTWISE, same),
	ROW("aten.leaky_relu.default", "TN>T", ELEMENTWISE, same),
	ROW("aten.linear.default", "TTt>T", MATRIX, linear),
	ROW("aten.logical_not.default", "T>T", ELEMENTWISE, same),
	ROW("aten.max_pool2d_with_indices.default", "TLLLLB>TT", WINDOW, max_pool),
	ROW("aten.mean.dim", "TlB_>T", REDUCTION, reduce),
	ROW("aten.mm.default", "TT>T", MATRIX, matmul),
	ROW("aten.mul.Tensor", "TT>T", ELEMENTWISE, broadcast),
	ROW("aten.native_group_norm.default", "TttIIIID>TTT", NORM, group_norm),
	ROW("aten.native_layer_norm.default", "TLttD>TTT", NORM, layer_norm),
	ROW("aten.permute_copy.default", "TL>T", MOVEMENT, permute),
	ROW("aten.pow.Tensor_Scalar", "TN>T", ELEMENTWISE, same),
	ROW("aten.relu.default", "T>T", ELEMENTWISE, same),
	ROW("aten.select_copy.int", "TII>T", MOVEMENT, select),
	ROW("aten.sigmoid.default", "T>T", ELEMENTWISE, same),
	ROW("aten.slice_copy.Tensor", "TIiiI>T", MOVEMENT, slice),
	ROW("aten.split_with_sizes_copy.default", "TLI>*", MOVEMENT, split),
	ROW("aten.sqrt.default", "T>T", ELEMENTWISE, same),
	ROW("aten.squeeze_copy.dims", "TL>T", MOVEMENT, squeeze),
	ROW("aten.sub.Tensor", "TTN>T", ELEMENTWISE, broadcast),
	ROW("aten.sum.dim_IntList", "TlB_>T", REDUCTION, reduce),
	ROW("aten.tanh.default", "T>T", ELEMENTWISE, same),
	ROW("aten.unsqueeze_copy.default", "TI>T", MOVEMENT, unsqueeze),
	ROW("aten.upsample_bilinear2d.vec", "TlBf>T", WINDOW, upsample_bilinear),
	ROW("aten.upsample_nearest2d.vec", "Tlf>T", WINDOW, upsample_nearest),
	ROW("aten.view_copy.default", "TL>T", MOVEMENT, view),
	ROW("aten.where.self", "TTT>T", ELEMENTWISE, broadcast),
	ROW("dim_order_ops._to_dim_order_copy.default", "T______>T", ELEMENTWISE, same),
	ROW("et_vk.apply_rotary_emb.default", "TTTT>TT", ATTENTION, rotary),
	ROW("et_vk.conv_with_clamp.default", "TTtLLLBLInn>T", WINDOW, convolution),
	ROW("et_vk.linear_dq8ca_q4gsw.default", "TTTTTTIt>T", MATRIX, linear_dq8ca),
	ROW("et_vk.linear_q4gsw.default", "TTTIt>T", MATRIX, linear),
	ROW("et_vk.linear_qcs4w.default", "TTT>T", MATRIX, linear),
	ROW("et_vk.prepack.default", "T>T", MOVEMENT, same),
	ROW("et_vk.q8ta_add.default", "TTDIDIDIN>T", ELEMENTWISE, broadcast),
	ROW("et_vk.q8ta_conv2d.default", "TDITTTDItLLLLIs>T", WINDOW, q8ta_convolution),
	ROW("et_vk.q8ta_conv2d_dw.default", "TDITTTDItLLLLIs>T", WINDOW, q8ta_depthwise),
	ROW("et_vk.q8ta_conv2d_pw.default", "TDITTTDItLLLLIs>T", WINDOW, q8ta_convolution),
	ROW("et_vk.q8ta_conv2d_transposed.default", "TDITTTDItLLLLLIs>T", WINDOW, q8ta_transposed),
	ROW("et_vk.q8ta_linear.default", "TDITTTDIts>T", MATRIX, q8ta_linear),
	ROW("et_vk.q8ta_linear_gemv.default", "TDITTTDIts>T", MATRIX, q8ta_linear),
	ROW("et_vk.rms_norm.default", "TTD>T", NORM, same),
	ROW("et_vk.sdpa.default", "TTTtd>T", ATTENTION, attention),
	ROW("et_vk.select_as_symint.default", "TII>I", NUMBER, unknown_symbol),
	ROW("floordiv", "II>I", NUMBER, arithmetic),
	ROW("mul", "II>I", NUMBER, arithmetic),
	ROW("quantized_decomposed.dequantize_per_channel.default", "TTtIII__>T", QUANTIZE, same),
	ROW("quantized_decomposed.dequantize_per_tensor.default", "TDIII__>T", QUANTIZE, same),
	ROW("quantized_decomposed.quantize_per_tensor.default", "TDIII_>T", QUANTIZE, same),
	{ "sdpa_with_kv_cache.default", "TTTTTIItDBd>T", ET_GRAPH_ATTENTION, 2, et_graph_infer_same },
	ROW("sub", "II>I", NUMBER, arithmetic),
	ROW("sym_size.int", "TI>I", NUMBER, sym_size),
	ROW("torchao.choose_qparams_affine.default", "TsL______b>TT", QUANTIZE, qparams),
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

uint32_t et_graph_operator_n_args(const struct et_graph_operator *op, uint32_t *ret_n_results)
{
	const char *mark = strchr(op->signature, '>');
	*ret_n_results = mark[1] == '*' ? UINT32_MAX : (uint32_t)strlen(mark + 1);
	return (uint32_t)(mark - op->signature);
}
