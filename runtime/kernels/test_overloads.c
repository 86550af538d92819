/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators that differ from tested ones in a name, a type, or a number that is a tensor: one call of each, worked out
 * by hand. test_rig.c then tries every type in the place of each tensor's type; random calls of these operators hardly
 * ever succeed. */
#include "runtime/kernels/test_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static void floats(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::_native_batch_norm_legit.out", "f32[2,1]{1,3} - - f32[1]{0} f32[1]{1} false 0.1 3.0",
			"f32[2,1]{0.5,1.5} f32[0]{} f32[0]{}" },
		{ "aten::as_strided_scatter.out", "i8[4]{1,2,3,4} i8[2]{8,9} (2) (2) 1", "i8[4]{1,8,3,9}" },
		{ "aten::avg_pool3d.out", "f32[1,1,2,2]{1,2,3,6} (1,2,2) (1,1,1) (0,0,0) false true -",
			"f32[1,1,1,1]{3}" },
		{ "aten::diagonal_scatter.out", "i8[2,2]{1,2,3,4} i8[2]{8,9} 0 0 1", "i8[2,2]{8,2,3,9}" },
		{ "aten::max_pool3d_with_indices.out", "f32[1,1,2,2]{1,2,6,3} (1,2,2) (1,1,1) (0,0,0) (1,1,1) false",
			"f32[1,1,1,1]{6} i64[1,1,1,1]{2}" },
		{ "aten::reflection_pad2d.out", "i8[1,2,2]{1,2,3,4} (1,0,0,1)", "i8[1,3,3]{2,1,2,4,3,4,2,1,2}" },
		{ "aten::reflection_pad3d.out", "i8[1,2,1,2]{1,2,3,4} (1,0,0,0,0,1)",
			"i8[1,3,1,3]{2,1,2,4,3,4,2,1,2}" },
		{ "aten::replication_pad3d.out", "i8[1,2,1,2]{1,2,3,4} (1,0,0,0,0,1)",
			"i8[1,3,1,3]{1,1,2,3,3,4,3,3,4}" },
		{ "aten::scatter.reduce_out", "f32[2]{1,2} 0 i64[1]{1} f32[1]{9} add", "f32[2]{1,11}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void quantized(void **state)
{
	static const struct kernel_case cases[] = {
		{ "quantized_decomposed::dequantize_per_tensor.Tensor_out",
			"u8[2]{12,8} f64[1]{0.5} i64[1]{10} 0 255 0 -", "f32[2]{1,-1}" },
		{ "quantized_decomposed::embedding_2bit.dtype_out", "u8[1,1]{228} f16[1]{1} - -2 1 i32[1]{0} 5",
			"f16[1,4]{-2,-1,0,1}" },
		{ "quantized_decomposed::embedding_4bit.dtype_out", "u8[1,1]{159} f32[1]{2} - -8 7 i64[1]{0} 15",
			"bf16[1,2]{2,14}" },
		{ "quantized_decomposed::embedding_byte.dtype_out",
			"i8[2,2]{1,2,3,-4} f32[2]{1,2} f32[2]{0,1} -128 127 i64[1]{1} -", "f32[1,2]{4,-10}" },
		{ "cadence::dequantize_per_tensor_asym16u.out", "u16[2]{65530,10} 0.5 10 0 65535 27",
			"f32[2]{32760,0}" },
		{ "cadence::dequantize_per_tensor_asym8s.out", "i8[2]{30,-10} 0.5 10 -128 127 1", "f32[2]{10,-10}" },
		{ "cadence::quantize_per_tensor_asym16u.out", "f32[2]{32760,-9} 0.5 10 0 65535 27", "u16[2]{65530,0}" },
		{ "cadence::quantize_per_tensor_asym32s.out", "f32[2]{10,-9} 0.5 10 -2147483648 2147483647 3",
			"i32[2]{30,-8}" },
		{ "cadence::quantize_per_tensor_asym8s.out", "f32[2]{10,-90} 0.5 10 -128 127 1", "i8[2]{30,-128}" },
		{ "cadence::quantized_mul.out", "i8[1]{4} f32[1]{0.5} i32[1]{0} i8[1]{6} f32[1]{0.5} i32[1]{2} 0.5 1",
			"i8[1]{9}" },
		{ "cadence::quantized_max_pool2d.out", "u8[1,1,2,2]{1,2,4,3} (2,2) (1,1) (0,0) (1,1) false",
			"u8[1,1,1,1]{4}" },
		/* fp16, 64 steps of 1/128 above -64 */
		{ "cadence::quantized_softmax.out",
			"i8[1,2]{7,7} - -1 0 i32[1]{0} f32[1]{1} i32[1]{0} f32[1]{0.0078125} i32[1]{-64}",
			"i8[1,2]{0,0}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

/* (4 * 3 + 2) / 2 + 1, and without the 2. */
static void products(void **state)
{
	static const struct kernel_case cases[] = {
		{ "cadence::quantized_fully_connected.out",
			"i8[1,1]{4} i8[1,1]{3} i32[1]{2} 0 i32[1]{0} i32[1]{1073741824} i32[1]{0} 1 -", "i8[1,1]{8}" },
		{ "cadence::quantized_fully_connected_asym8sxasym8s_asym8s.per_tensor_out",
			"i8[1,1]{4} i8[1,1]{3} i32[1]{2} 0 0 1073741824 0 1 -", "i8[1,1]{8}" },
		{ "cadence::quantized_linear_asym8uxasym8u_asym8u.per_tensor_out",
			"u8[1,1]{4} u8[1,1]{3} i32[1]{2} 0 0 1073741824 0 1 -", "u8[1,1]{8}" },
		{ "cadence::quantized_matmul_asym8uxasym8u_asym8u.out",
			"u8[1,1]{4} 0 u8[1,1]{3} 0 - 1073741824 0 1 false", "u8[1,1]{7}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

/* One pixel: (x * 3 + 2) / 2 + 1, for x of 2 and 4. */
static void windows(void **state)
{
#define TENSORS  "i32[1]{2} (1) (0) (1) 1 0 i32[1]{0} f32[1]{1} 2.0 1 i32[1]{1} i32[1]{0}"
#define TENSORS2 "i32[1]{2} (1,1) (0,0) (1,1) 1 0 i32[1]{0} f32[1]{1} 2.0 1 i32[1]{1} i32[1]{0}"
#define NUMBERS  "i32[1]{2} (1,1) (0,0) (1,1) 1 0 0 1.0 2.0 1 1 0"
	static const struct kernel_case cases[] = {
		{ "cadence::quantized_conv1d_ncl.out", "i8[1,1,2]{2,4} i8[1,1,1]{3} " TENSORS, "i8[1,1,2]{5,8}" },
		{ "cadence::quantized_conv1d_nlc.out", "i8[1,2,1]{2,4} i8[1,1,1]{3} " TENSORS, "i8[1,2,1]{5,8}" },
		{ "cadence::quantized_conv2d_nchw.out", "u8[1,1,1,2]{2,4} u8[1,1,1,1]{3} " TENSORS2,
			"u8[1,1,1,2]{5,8}" },
		{ "cadence::quantized_conv2d_nchw_asym8sxsym8s_asym8s.per_tensor_out",
			"i8[1,1,1,2]{2,4} i8[1,1,1,1]{3} " NUMBERS, "i8[1,1,1,2]{5,8}" },
		{ "cadence::quantized_conv2d_nchw_asym8uxsym8u_asym8u.per_tensor_out",
			"u8[1,1,1,2]{2,4} u8[1,1,1,1]{3} " NUMBERS, "u8[1,1,1,2]{5,8}" },
		{ "cadence::quantized_conv2d_nchw_depthwise_asym8sxsym8s_asym8s.per_tensor_out",
			"i8[1,1,1,2]{2,4} i8[1,1,1,1]{3} " NUMBERS, "i8[1,1,1,2]{5,8}" },
		{ "cadence::quantized_conv2d_nchw_depthwise_asym8uxsym8u_asym8u.per_tensor_out",
			"u8[1,1,1,2]{2,4} u8[1,1,1,1]{3} " NUMBERS, "u8[1,1,1,2]{5,8}" },
		{ "cadence::quantized_conv2d_nchw_dilated_asym8sxsym8s_asym8s.per_tensor_out",
			"i8[1,1,1,2]{2,4} i8[1,1,1,1]{3} " NUMBERS, "i8[1,1,1,2]{5,8}" },
		{ "cadence::quantized_conv2d_nhwc_asym8sxsym8s_asym8s.per_tensor_out",
			"i8[1,1,2,1]{2,4} i8[1,1,1,1]{3} " NUMBERS, "i8[1,1,2,1]{5,8}" },
		{ "cadence::quantized_conv2d_nhwc_asym8uxsym8u_asym8u.per_tensor_out",
			"u8[1,1,2,1]{2,4} u8[1,1,1,1]{3} " NUMBERS, "u8[1,1,2,1]{5,8}" },
		{ "cadence::quantized_conv2d_nhwc_depthwise_asym8sxsym8s_asym8s.per_tensor_out",
			"i8[1,1,2,1]{2,4} i8[1,1,1,1]{3} " NUMBERS, "i8[1,1,2,1]{5,8}" },
		{ "cadence::quantized_conv2d_nhwc_depthwise_asym8uxsym8u_asym8u.per_tensor_out",
			"u8[1,1,2,1]{2,4} u8[1,1,1,1]{3} " NUMBERS, "u8[1,1,2,1]{5,8}" },
		{ "cadence::quantized_conv2d_nhwc_dilated_asym8sxsym8s_asym8s.per_tensor_out",
			"i8[1,1,2,1]{2,4} i8[1,1,1,1]{3} " NUMBERS, "i8[1,1,2,1]{5,8}" },
		{ "cadence::quantized_conv2d_nhwc_dilated_asym8uxsym8u_asym8u.per_tensor_out",
			"u8[1,1,2,1]{2,4} u8[1,1,1,1]{3} " NUMBERS, "u8[1,1,2,1]{5,8}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(floats),
		cmocka_unit_test(quantized),
		cmocka_unit_test(products),
		cmocka_unit_test(windows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
