/* SPDX-License-Identifier: BSD-3-Clause */
/* fp16 and bf16 where each operation rounds; infinities, NaN, and integers that reach 2^63; complex numbers. The
 * expected numbers are ExecuTorch's, or PyTorch's where ExecuTorch has none. */
#include "runtime/kernels/test_rig.h"
#include "runtime/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static void half(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::addmm.out",
			"bf16[1,2]{3.21875,0.69921875} bf16[1,4]{0.35546875,-2.453125,0.1845703125,-5.46875} "
			"bf16[4,2]{1.3515625,4.03125,-5.75,3.90625,2.09375,4.9375,-3.453125,1.1953125} 1 1",
			"= bf16[1,2]{37.25,-13.0625}" },
		{ "aten::convolution.out",
			"bf16[1,2,4]{1.6796875,-0.3203125,3.703125,3.265625,1.984375,-0.65625,-2.71875,-4.25}"
			" "
			"bf16[1,2,3]{2.984375,0.95703125,-1.5703125,0.609375,-4.75,2.140625} "
			"bf16[1]{-5.8125} "
			"(1) (1) (1) false (0) 1",
			"= bf16[1,1,4]{-14.5625,-8.375,-4.9375,27}" },
		{ "aten::convolution.out",
			"f16[1,2,3]{-2.517578125,0.61767578125,-0.9921875,1.814453125,0.048370361328125,5."
			"3671875} "
			"f16[2,1,3]{5.84765625,1.7451171875,4.06640625,-8.7734375,0.84912109375,-3.7578125} "
			"f16[1]{-1.2939453125} (2) (1) (1) true (1) 1",
			"= f16[1,1,6]{-4.1484375,-15.15625,-0.1748046875,-51.875,1.533203125,-25.5}" },
		{ "aten::avg_pool2d.out",
			"bf16[1,1,2,3]{-4.21875,3.296875,-2.109375,3.25,-3.21875,-4.1875} (2,2) (1,1) (0,0) "
			"false true -",
			"= bf16[1,1,1,2]{-0.22265625,-1.5546875}" },
		{ "aten::_native_batch_norm_legit_no_training.out",
			"bf16[2,2]{-0.439453125,1.4140625,-1.78125,-3.796875} bf16[2]{-0.224609375,-5.75} "
			"bf16[2]{-4.84375,4.375} bf16[2]{-1.984375,3.03125} bf16[2]{2.71875,3.359375} 0.1 "
			"1e-05",
			"= bf16[2,2]{-5.0625,9.4375,-4.875,25.75} bf16[0]{} bf16[0]{}" },
		{ "aten::_native_batch_norm_legit.no_stats_out",
			"bf16[3,2,2]{2.4375,2.703125,1.6484375,0.1044921875,-0.11279296875,5.84375,15.125,1."
			"0703125,"
			"1.609375,-2.453125,1.515625,1.9765625} bf16[2]{-7.875,-8.125} "
			"bf16[2]{2.265625,-0.46875} true 0.1 "
			"1e-05",
			"= "
			"bf16[3,2,2]{-0.125,-0.9375,2.546875,4.96875,7.6875,-10.625,-18.5,3.4375,2.4375,14."
			"9375,2.75,"
			"2.03125} bf16[2]{1.6640625,3.578125} bf16[2]{0.390625,0.1923828125}" },
		{ "aten::_log_softmax.out", "bf16[4]{6.15625,-1.171875,-8.6875,2.28125} 0 false",
			"= bf16[4]{-0.023193359375,-7.34375,-14.875,-3.890625}" },
		{ "aten::var_mean.correction_out",
			"bf16[2,5]{-5.3125,-6.8125,0.48046875,-0.1875,-1.484375,4.03125,5.4375,-2.390625,-4."
			"9375,"
			"-0.072265625} (1) - false",
			"= bf16[2]{10.375,18.75} bf16[2]{-2.65625,0.421875}" },
		{ "aten::var_mean.correction_out",
			"bf16[3,2]{-2.125,-2.1875,-4.28125,6.0625,-0.07958984375,-4.34375} (0) - false",
			"= bf16[2]{4.40625,30.25} bf16[2]{-2.171875,-0.15625}" },
		{ "aten::cumsum.out", "bf16[6]{0.392578125,2.546875,-1.609375,1.8515625,-7.5,-2.453125} 0 -",
			"= bf16[6]{0.392578125,2.9375,1.328125,3.1875,-4.3125,-6.75}" },
		/* rounded to the output's type after each step, along rows and columns */
		{ "aten::prod.int_out", "f32[1,3]{1e30,1e30,1e-30} 1 false 15", "bf16[1]{inf}" },
		{ "aten::prod.int_out", "f32[3,2]{1e30,1,1e30,2,1e-30,3} 0 false 15", "bf16[2]{inf,6}" },
		{ "aten::prod.int_out", "bf16[5]{0.796875,-3.15625,2.15625,-1.7421875,-1.0078125} 0 false -",
			"= bf16[]{-9.5625}" },
		/* NaN and infinite positions: outside, the last pixel, or reflected an even number of times */
		/* sums in float, in order: what is below the last digit of the first is lost */
		{ "aten::mean.out", "f32[1,3]{16777216,1,1} (1) false -", "= f32[1]{5592405.5}" },
		{ "aten::mean.out", "f32[3,2]{16777216,1,1,1,1,1} (0) false -", "= f32[2]{5592405.5,1}" },
		{ "aten::mean.out", "f64[1,3]{16777216,1,1} (1) false -", "= f64[1]{5592406}" },
		{ "aten::avg_pool2d.out", "f32[1,1,3]{16777216,1,1} (1,3) (1) (0) false true -",
			"= f32[1,1,1]{5592405.5}" },
		{ "aten::_adaptive_avg_pool2d.out", "f32[1,1,3]{16777216,1,1} (1,1)", "= f32[1,1,1]{5592405.5}" },
		/* within a row first, in float; and no interpolation where the size stays the same */
		{ "aten::upsample_bilinear2d.vec_out", "f32[1,1,1,2]{1,inf} (1,2) false -", "f32[1,1,1,2]{1,nan}" },
		{ "aten::upsample_bilinear2d.vec_out", "f32[1,1,2,2]{1.8,7.3,9.8,0.9} (4,4) false -",
			"= "
			"f32[1,1,4,4]{1.79999995,3.17499995,5.92500019,7.30000019,3.79999995,4.2750001,5."
			"22500038,5.70000029,7.80000019,6.4749999,3.82500005,2.5,9.80000019,7.57500029,3.125,"
			"0.899999976}" },
		{ "aten::upsample_bilinear2d.vec_out", "u8[1,2,1,2]@0231{10,0,20,255} (1,4) false -",
			"= u8[1,2,1,4]@0231{10,7,2,0,20,78,196,255}" },
		/* antialiased: rounded to the type after each step; a single factor is ignored */
		{ "aten::_upsample_bilinear2d_aa.out",
			"u8[1,1,4,4]{251,69,7,75,146,205,187,233,18,124,94,60,251,62,228,48} (2,2) false - -",
			"= u8[1,1,2,2]{141,116,123,116}" },
		{ "aten::_upsample_bilinear2d_aa.out",
			"i8[1,1,4,4]{-77,0,27,-91,9,-53,12,-41,-16,17,-9,29,83,66,-96,74} (2,2) false - -",
			"= i8[1,1,2,2]{-16,-16,21,4}" },
		{ "aten::_upsample_bilinear2d_aa.out",
			"f16[1,1,4,4]{-15,-26,-70,85,-3,-66,-75,-91,-14,-67,-66,-53,60,82,-71,-18} (2,2) "
			"false - -",
			"= f16[1,1,2,2]{-35.375,-42.03125,-2.91796875,-48.8125}" },
		{ "aten::_upsample_bilinear2d_aa.out",
			"f32[1,1,4,4]{-84,-20,32,42,96,-51,-1,71,67,-18,56,-86,-19,87,79,30} (2,2) false 0.3 "
			"-",
			"f32[1,1,2,2]{-4.795919418334961,19.897958755493164,32.48979568481445,"
			"21.979591369628906}" },
		{ "aten::grid_sampler_2d.out", "f32[1,1,1,3]{1,2,4} f32[1,1,4,2]{nan,0,inf,0,-inf,0,1,0} 0 0 true",
			"f32[1,1,1,4]{0,0,0,4}" },
		{ "aten::grid_sampler_2d.out", "f32[1,1,1,3]{1,2,4} f32[1,1,3,2]{nan,0,inf,0,-inf,0} 1 1 true",
			"f32[1,1,1,3]{4,4,1}" },
		{ "aten::grid_sampler_2d.out", "f32[1,1,1,3]{1,2,4} f32[1,1,2,2]{1e20,0,-1e20,0} 1 2 true",
			"f32[1,1,1,2]{1,1}" },
		{ "aten::grid_sampler_2d.out",
			"f16[1,1,3,3]{0.60546875,-4.0625,0.69677734375,-8.53125,3.701171875,1.087890625,-5."
			"46484375,"
			"4.37109375,2.46484375} "
			"f16[1,1,2,2]{0.1300048828125,-0.39990234375,0.77685546875,0.31005859375} 2 1 "
			"false",
			"= f16[1,1,1,2]{-0.5556640625,1.5}" },
		{ "aten::grid_sampler_2d.out",
			"f16[1,1,3,3]{3.53515625,3.857421875,1.3408203125,-4.4453125,-9.7109375,0.03515625,0."
			"0205078125,"
			"-6.6875,3.48046875} "
			"f16[1,1,2,2]{0.1300048828125,-0.39990234375,0.6669921875,0.333984375} 1 1 false",
			"= f16[1,1,1,2]{3.857421875,3.48046875}" },
		{ "aten::nextafter.out", "f16[4]{1,0,-2,65504} f16[4]{2,-1,-3,inf}",
			"= f16[4]{1.0009765625,-5.960464477539063e-08,-2.001953125,inf}" },
		{ "aten::nextafter.out", "bf16[4]{1,0,-2,-inf} bf16[4]{2,-1,5,0}",
			"= bf16[4]{1.0078125,-9.183549615799121e-41,-1.9921875,-3.3895313892515355e38}" },
		{ "aten::logit.out", "bf16[4]{0.10009765625,0.69921875,0.98828125,-3} 0.2",
			"= bf16[4]{-1.3828125,0.84375,1.390625,-1.3828125}" },
		{ "aten::logit.out", "f32[2]{1,0.25} 1e-06", "f32[2]{13.8023176,-1.0986123}" },
		{ "aten::logit.out", "i32[1]{1} 1e-06", "f32[1]{13.8023176}" },
		{ "aten::logit.out", "f64[1]{1} 1e-06", "f64[1]{13.815509557935018}" },
		{ "aten::logit.out", "i16[1]{3} 1e-06", "f64[1]{13.815509557935018}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

/* Zeros keep their sign, and stay zeros whatever the factors are. */
static void zeros(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::elu.out", "f32[3]{0.0,-0.0,1} 1. 1 1", "= f32[3]{0.0,-0.0,1}" },
		{ "aten::elu.out", "f32[3]{0.0,-0.0,-1} 1. 1 0", "= f32[3]{0.0,-0.0,-0.0}" },
		{ "aten::elu.out", "f32[2]{0.0,-0.0} 1. 1 -1", "= f32[2]{0.0,-0.0}" },
		{ "aten::elu.out", "f32[3]{0.0,-0.0,-1} inf 1 1", "= f32[3]{0.0,-0.0,-inf}" },
		{ "aten::elu.out", "f64[3]{0.0,-0.0,-1} inf 1 1", "= f64[3]{0.0,-0.0,-inf}" },
		{ "aten::tanh.out", "f32[2]{0.0,-0.0}", "= f32[2]{0.0,-0.0}" },
		{ "aten::hardtanh.out", "f32[1]{0.5} nan 1.0", "f32[1]{nan}" },
		{ "aten::hardtanh.out", "f32[1]{0.5} 0.0 nan", "f32[1]{nan}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void infinities(void **state)
{
	static const struct kernel_case cases[] = {
		/* An infinite weight times padding is not computed as a product. */
		{ "aten::convolution.out", "f32[1,1,3]{1,2,3} f32[1,1,3]{inf,1,1} - (1) (1) (1) false (0) 1",
			"f32[1,1,3]{3,inf,inf}" },
		{ "aten::convolution.out",
			"f32[1,2,1,2]{1,2,3,4} f32[1,2,1,3]{inf,1,1,1,1,1} - (1,1) (0,1) (1,1) false (0,0) 1",
			"f32[1,1,1,2]{10,inf}" },
		{ "aten::addmm.out", "f32[2]{1,2} f32[1,2]{1,-2} f32[2,2]{3,1,1,1} 1 inf", "f32[1,2]{inf,-inf}" },
		{ "aten::native_group_norm.out", "f32[1,2,2]{1,2,3,4} f32[2]{inf,1} f32[2]{1,2} 1 2 2 1 1e-05",
			"f32[1,2,2]{nan,nan,2.447211742401123,3.3416354656219482} f32[1,1]{2.5} "
			"f32[1,1]{0.8944236040115356}" },
		{ "aten::hardtanh.out", "f32[4]{-2,0,3,nan} 0.5 -1.0", "f32[4]{-1,-1,-1,nan}" },
		{ "aten::median.out", "f32[0]{}", "f32[]{nan}" },
		{ "aten::polygamma.out", "1 f32[5]{-1,0,0.25,-1.5,3}",
			"f32[5]{1291369695936512,inf,17.19733238220215,9.379247665405273,0."
			"3949340581893921}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void integers(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::avg_pool2d.out",
			"i64[1,1,4]{4611686018427387904,4611686018427387904,3,4} (1,2) (1,2) (0,0) false "
			"true -",
			"i64[1,1,2]{-4611686018427387904,3}" },
		{ "aten::max_pool2d_with_indices.out",
			"i64[1,1,2]{9223372036854775806,9223372036854775807} (1,2) (1,2) (0,0) (1,1) false",
			"i64[1,1,1]{9223372036854775807} i64[1,1,1]{1}" },
		{ "aten::convolution.out",
			"i64[1,1,3]{4611686018427387905,1,3} i64[1,1,2]{2,1} - (1) (0) (1) false (0) 1",
			"i64[1,1,2]{-9223372036854775805,5}" },
		{ "aten::index_reduce.out", "i8[2]{1,2} 0 i64[3]{0,0,1} i8[3]{100,3,-7} mean true", "i8[2]{34,-3}" },
		{ "aten::index_reduce.out", "i64[2]{4611686018427387905,2} 0 i64[1]{0} i64[1]{3} amax true",
			"i64[2]{4611686018427387905,2}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void complex_numbers(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::view_as_real_copy.out", "c64[2]{1:2,3:-4}", "f32[2,2]{1,2,3,-4}" },
		{ "aten::view_as_real_copy.out", "c32[1,2]{1:2,3:-4}", "f64[1,2,2]{1,2,3,-4}" },
		{ "aten::view_as_real_copy.out", "c128[]{1:2}", "f32[2]{1,2}" },
		{ "aten::view_as_real_copy.out", "f32[1]{1}", "! not FP32 ! f32[1,2]{0,0}" },
		{ "aten::view_as_complex_copy.out", "f64[2,2]{1,2,3,-4}", "c128[2]{1:2,3:-4}" },
		{ "aten::view_as_complex_copy.out", "f64[2,1]{1,2}", "! pairs ! c128[2]{0:0,0:0}" },
		{ "aten::mul.out", "c64[2,1]{1:2,0:1} c64[2]{3:4,1:0}", "c64[2,2]{-5:10,1:2,-4:3,0:1}" },
		{ "aten::mul.out", "c64[2]{1:2,0:1} f32[]{2}", "c64[2]{2:4,0:2}" },
		{ "aten::add.out", "c32[2]{1:2,0:1} c32[2]{1:1,2:0} 2", "c32[2]{3:4,4:1}" },
		{ "aten::sub.out", "c128[1]{1:2} c128[1]{1:1} 1", "c128[1]{0:1}" },
		{ "aten::div.out", "c64[1]{-5:10} c64[1]{3:4}", "c64[1]{1:2}" },
		{ "aten::abs.out", "c64[2]{3:4,-5:12}", "f32[2]{5,13}" },
		{ "aten::abs.out", "c64[2]{3:4,-5:12}", "f64[2]{5,13}" },
		{ "aten::abs.out", "c32[2]{3:4,-5:12}", "f16[2]{5,13}" },
		{ "aten::abs.out", "c64[2,2]@10{3:4,-5:12,0:2,8:-6}", "f32[2,2]{5,13,2,10}" },
		{ "aten::abs.out",
			"c64[9]{0x3p125:-0x4p125,0x3p-140:0x4p-140,nan:-inf,inf:nan,-inf:1,nan:1,1:nan,-0:-0,"
			"-0:-2}",
			"= f32[9]{0x5p125,0x5p-140,inf,inf,inf,nan,nan,0,2}" },
		{ "aten::abs.out", "c64[1]{0x1.8p127:0x1.8p127}", "= f32[1]{inf}" },
		{ "aten::abs.out",
			"c128[9]{0x3p1020:-0x4p1020,0x3p-1060:0x4p-1060,nan:-inf,inf:nan,-inf:1,nan:1,1:nan,"
			"-0:-0,-3:4}",
			"= f64[9]{0x5p1020,0x5p-1060,inf,inf,inf,nan,nan,0,5}" },
		{ "aten::_conj_physical.out", "c64[2]{3:4,-5:12}", "c64[2]{3:-4,-5:-12}" },
		{ "aten::sum.IntList_out", "c64[2,2]{1:2,3:4,5:6,7:8} (0) true -", "c64[1,2]{6:8,10:12}" },
		{ "aten::sum.IntList_out", "c128[2,2]{1:2,3:4,5:6,7:8} - false -", "c128[]{16:20}" },
		{ "aten::bmm.out", "c64[1,1,2]{1:1,2:0} c64[1,2,1]{1:-1,0:3}", "c64[1,1,1]{2:6}" },
		{ "aten::cat.out", "(c64[1]{1:2};f32[1]{3}) 0", "c64[2]{1:2,3:0}" },
		{ "aten::permute_copy.out", "c128[2,2]{1:2,3:4,5:6,7:8} (1,0)", "c128[2,2]{1:2,5:6,3:4,7:8}" },
		{ "aten::reflection_pad1d.out", "c128[1,2]{1:2,3:4} (1,0)", "c128[1,3]{3:4,1:2,3:4}" },
		{ "aten::gather.out", "c128[2]{1:2,3:4} 0 i64[1]{1} false", "c128[1]{3:4}" },
		{ "aten::index_put.out", "c128[2]{1:2,3:4} (i64[1]{1}) c128[1]{1:1} true", "c128[2]{1:2,4:5}" },
		{ "aten::full_like.out", "c128[2]{1:2,3:4} 2.5 -", "c128[2]{2.5:0,2.5:0}" },
		{ "aten::where.self_out", "bool[2]{1,0} c64[2]{1:2,3:4} c64[2]{5:6,7:8}", "c64[2]{1:2,7:8}" },
		{ "aten::exp.out", "c64[1]{1:2}", "! complex ! c64[1]{0:0}" },
		{ "aten::mul.out", "c64[1]{1:2} c64[1]{1:2}", "! FP32 ! f32[1]{0}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void sizes(void **state)
{
	static const struct kernel_case cases[] = {
		/* Ceil mode makes room for a window that begins inside. */
		{ "aten::max_pool2d_with_indices.out", "f32[1,1,4]{1,2,3,4} (3,3) (3,3) (0,0) (1,1) true",
			"f32[1,1,2]{3,4} i64[1,1,2]{2,3}" },
		{ "aten::max_pool2d_with_indices.out", "f32[1,1,4]{1,2,3,4} (3,3) (3,3) (0,0) (1,1) false",
			"f32[1,1,1]{3} i64[1,1,1]{2}" },
		{ "aten::max_pool2d_with_indices.out", "f32[1,1,4]{1,2,3,4} (3,3) (2,2) (0,0) (1,1) false",
			"! does not fit ! f32[1,1,1]{0} i64[1,1,1]{0}" },
		{ "aten::replication_pad2d.out", "f32[1,1,3]{1,2,3} (-2,1,0,0)", "f32[1,1,2]{3,3}" },
		{ "aten::replication_pad2d.out", "f32[1,1,3]{1,2,3} (-4,3,0,0)", "f32[1,1,2]{3,3}" },
		{ "aten::replication_pad2d.out", "f32[1,1,3]{1,2,3} (-4,0,0,0)", "! padding -4 ! f32[1,1,2]{0,0}" },
		{ "aten::unfold_copy.out", "f32[]{3} 0 1 1", "f32[1]{3}" },
		{ "aten::unfold_copy.out", "f32[]{3} 0 0 1", "f32[0]{}" },
		{ "aten::unfold_copy.out", "f32[]{3} 0 2 1", "! a window of 2 ! f32[1]{0}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half),
		cmocka_unit_test(zeros),
		cmocka_unit_test(infinities),
		cmocka_unit_test(integers),
		cmocka_unit_test(complex_numbers),
		cmocka_unit_test(sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
