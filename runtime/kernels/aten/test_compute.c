/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators that combine many elements: reductions, lines, norms, pools, products, convolution, sampling. Small cases
 * are worked out by hand. The fast ways of convolution and matrix product are compared with the plain double ones on
 * larger random data, in three threads. */
#include "runtime/kernels/test_rig.h"
#include "runtime/kernels/engine/dtype.h"
#include "runtime/kernel.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static void reductions(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::sum.IntList_out", "i32[2,2]{1,2,3,4} (0) false -", "i64[2]{4,6}" },
		{ "aten::sum.IntList_out", "f32[2,2]{1,2,3,4} - true -", "f32[1,1]{10}" },
		{ "aten::sum.IntList_out", "f32[0]{} (0) false -", "f32[]{0}" },
		{ "aten::mean.out", "f32[1,2,1,2]@0231{1,2,3,4} (-1,2) false -", "f32[1,2]{1.5,3.5}" },
		/* float sums: each row in its order */
		{ "aten::mean.out",
			"f32[10,3]{16777216,1,-16777216, 1,2,3, 16777216,-16777216,3, 4,5,6, "
			"3,16777216,-16777216,"
			" 0,0,nan, -1,-2,-3, 0,inf,1, 16777216,1,-16777216, 16777216,-16777216,3} (1) false "
			"-",
			"f32[10]{0,2,1,5,1.33333333,nan,-2,inf,0,1}" },
		{ "aten::prod.int_out", "i64[2,2]{1,2,3,4} 1 false -", "i64[2]{2,12}" },
		{ "aten::amax.out", "f32[2,2]{1,nan,3,4} (1) false", "f32[2]{nan,4}" },
		{ "aten::amin.out", "i8[3]{3,-1,2} () true", "i8[1]{-1}" },
		{ "aten::sum.IntList_out", "i32[2,3]{2147483647,1,-5, 1,2,3} (1) false -", "i64[2]{2147483643,6}" },
		{ "aten::sum.IntList_out", "i8[4]{-128,-128,127,1} () false -", "i64[]{-128}" },
		{ "aten::sum.IntList_out", "u8[1,3]{255,255,1} (1) true -", "i64[1,1]{511}" },
		{ "aten::amin.out", "i32[2,5]{3,-2147483648,2,2147483647,0, 5,6,7,8,9} (1) false",
			"i32[2]{-2147483648,5}" },
		{ "aten::amax.out", "i32[2,5]{3,-2147483648,2,2147483647,0, -5,-6,-7,-8,-4} (1) false",
			"i32[2]{2147483647,-4}" },
		{ "aten::amax.out", "i64[6]{-9,-8,-7,-6,-5,-10} () true", "i64[1]{-5}" },
		{ "aten::amin.out", "i64[6]{9,8,7,6,5,10} () true", "i64[1]{5}" },
		{ "aten::max.unary_out", "f16[2,2]{1,2,nan,4}", "f16[]{nan}" },
		{ "aten::max.unary_out", "f32[0,6]{}", "bf16[]{-inf}" },
		{ "aten::min.unary_out", "i8[3,0]{}", "f32[]{inf}" },
		{ "aten::max.unary_out", "i16[0]{}", "i16[]{-32768}" },
		{ "aten::min.unary_out", "i64[0]{}", "i64[]{9223372036854775807}" },
		{ "aten::max.unary_out", "u8[0]{}", "u8[]{0}" },
		{ "aten::min.unary_out", "u8[0]{}", "u8[]{255}" },
		{ "aten::min.unary_out", "bool[0]{}", "bool[]{1}" },
		{ "aten::max.unary_out", "f32[0]{}", "! FP32 does not fit ! i32[]{0}" },
		{ "aten::amin.out",
			"i8[2,18]{3,-1,2,0,0,0,0,0,0,0,0,0,0,0,0,0,127,-128, "
			"5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,5,4,127} (1) false",
			"i8[2]{-128,4}" },
		{ "aten::amax.out",
			"i8[2,18]{3,-1,2,0,0,0,0,0,0,0,0,0,0,0,0,0,126,-128, "
			"-5,-5,-5,-5,-5,-5,-5,-5,-5,-5,-5,-5,-5,-5,-5,-5,-4,-128} (1) false",
			"i8[2]{126,-4}" },
		{ "aten::amax.out", "u8[3]{3,255,2} () true", "u8[1]{255}" },
		{ "aten::amin.out", "u8[3]{128,255,127} () true", "u8[1]{127}" },
		{ "aten::amin.out", "i8[3,2]{3,-128, -1,127, 2,0} (0) false", "i8[2]{-1,-128}" },
		{ "aten::amax.out", "i8[3,2]{-3,-128, -1,127, -2,0} (0) false", "i8[2]{-1,127}" },
		{ "aten::amin.out", "u8[3,2]{3,200, 1,255, 2,128} (0) true", "u8[1,2]{1,128}" },
		{ "aten::amax.out", "u8[3,2]{3,200, 1,255, 2,0} (0) true", "u8[1,2]{3,255}" },
		{ "aten::amin.out", "i64[3,2]{3,-9223372036854775808, -1,7, 2,0} (0) false",
			"i64[2]{-1,-9223372036854775808}" },
		{ "aten::amax.out", "i32[3,2]{-3,-2147483648, -1,7, -2,0} (0) false", "i32[2]{-1,7}" },
		{ "aten::amin.out", "bool[3,2]{1,1,0,1,1,1} (0) false", "bool[2]{0,1}" },
		{ "aten::amax.out", "i8[0,2]{} (0) false", "! dimensions are empty ! i8[2]{0,0}" },
		{ "aten::argmax.out", "i8[3,2]{-3,-128, -1,127, -2,0} 0 false", "i64[2]{1,1}" },
		{ "aten::argmax.out", "f32[4]{1,3,3,2} - false", "i64[]{1}" },
		{ "aten::argmax.out", "f32[1,2,1,2]@0231{1,2,9,4} - false", "i64[]{2}" },
		{ "aten::argmax.out",
			"f32[2,40]{"
			"0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,5,0,0,5,0,0,0,"
			"0,0,7,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,nan,9,0,nan,0,0,0}"
			" 1 false",
			"i64[2]{33,33}" },
		{ "aten::argmin.out",
			"i32[2,40]{"
			"0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,-1,0,0,0,-2,"
			"3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3} 1 "
			"false",
			"i64[2]{39,0}" },
		/* down columns: the first of several equal ones; NaN wins, the first one */
		{ "aten::max.dim_max", "f32[3,4]{1,5,nan,2, 3,5,nan,nan, 3,4,9,9} 0 false",
			"f32[4]{3,5,nan,nan} i64[4]{1,0,0,1}" },
		{ "aten::min.dim_min", "f32[3,4]{1,5,nan,2, -3,4,nan,nan, -3,4,9,9} 0 true",
			"f32[1,4]{-3,4,nan,nan} i64[1,4]{1,1,0,1}" },
		{ "aten::argmin.out", "f32[2,2]{-0.0,1,0,-inf} 0 false", "i64[2]{0,1}" },
		{ "aten::amin.out", "f32[2,2]{1,nan,-3,4} (0) false", "f32[2]{-3,nan}" },
		{ "aten::max.dim_max", "i32[2,2]{5,5,1,2} 1 true", "i32[2,1]{5,2} i64[2,1]{0,1}" },
		{ "aten::max.dim_max", "i32[2,0]{} 1 false", "! dimensions are empty ! i32[2]{0,0} i64[2]{0,0}" },
		{ "aten::any.out", "f32[2,2]{0,0,0,nan} 1 false", "bool[2]{0,1}" },
		{ "aten::any.dims_out", "bool[2]{0,0} - false", "bool[]{0}" },
		{ "aten::any.out", "bool[3,2]{0,1,0,0,0,1} 0 false", "bool[2]{0,1}" },
		{ "aten::any.out", "f32[2,3]{0,nan,0,-0.0,0,2} 0 false", "bool[3]{0,1,1}" },
		{ "aten::any.out", "i32[2,3]{0,256,0,0,0,-1} 0 true", "bool[1,3]{0,1,1}" },
		{ "aten::any.out", "f32[2,3]{0,0,0,-0.0,0,2} 1 false", "bool[2]{0,1}" },
		{ "aten::sum.IntList_out", "bool[3,2]{1,1,0,1,1,1} (0) false -", "i64[2]{2,3}" },
		{ "aten::sum.IntList_out", "i8[3,2]{100,-1,100,-1,100,-1} (0) true -", "i64[1,2]{300,-3}" },
		{ "aten::prod.int_out", "f32[3,2]{2,-1,3,-1,4,5} 0 false -", "f32[2]{24,5}" },
		{ "aten::amax.out", "f32[2,9]{1,2,3,4,5,6,7,8,0, 1,2,3,4,5,6,7,8,9} (1) false", "f32[2]{8,9}" },
		{ "aten::amin.out", "f32[2,9]{1,2,3,4,5,6,7,8,0, 1,nan,3,4,5,6,7,8,-9} (1) false", "f32[2]{0,nan}" },
		{ "aten::var.out", "f32[4]{1,2,3,4} - true false", "f32[]{1.66666667}" },
		{ "aten::var_mean.correction_out", "f32[2,2]{1,3,2,6} (1) 0 false", "f32[2]{1,4} f32[2]{2,4}" },
		{ "aten::cumsum.out", "i32[2,2]{1,2,3,4} 0 -", "i64[2,2]{1,2,4,6}" },
		{ "aten::cumsum.out", "f32[2]{-1.9,-2.9} 0 3", "i32[2]{-1,-3}" },
		{ "aten::cumsum.out", "f16[2,9]{1.5,1.5,1.5,1.5,1.5,1.5,1.5,1.5,1.5, 1,2,3,4,5,6,7,8,2.5} 0 4",
			"i64[2,9]{1,1,1,1,1,1,1,1,1, 2,3,4,5,6,7,8,9,3}" },
		{ "aten::cumprod.out", "f64[3]{1.5,2.5,-3.5} 0 4", "i64[3]{1,2,-6}" },
		{ "aten::sum.IntList_out", "f32[2,2]{1.5,1.5,-1.9,2.9} (1) false 4", "i64[2]{2,1}" },
		{ "aten::sum.IntList_out", "f32[2,2]{1.5,1.5,-1.9,2.9} (0) false 3", "i32[2]{0,3}" },
		{ "aten::sum.IntList_out", "f32[2,2,2]{1.5,2,-3.9,4, 5,6.9,7,8} (0,2) false 0", "u8[2]{14,16}" },
		{ "aten::sum.IntList_out", "bf16[2,2,2]{1.5,2,-3.9,4, 5,6.9,7,8} (0,2) true 2", "i16[1,2,1]{14,16}" },
		{ "aten::sum.IntList_out", "i32[3,2]{3,-3,0,0,0,1} (1) false 11", "bool[3]{1,0,1}" },
		{ "aten::sum.IntList_out", "f32[2,2]{0.5,0,-0.5,0} (0) false 11", "bool[2]{1,0}" },
		{ "aten::prod.out", "f64[3]{1.5,2.5,-3.5} 1", "i8[]{-6}" },
		{ "aten::prod.int_out", "bf16[2,1]{1.5,2.5} 0 true 3", "i32[1,1]{2}" },
		{ "aten::any.dims_out", "i32[2,3]{0,2,0,0,1,5} () false", "bool[2,3]{0,1,0,0,1,1}" },
		{ "aten::any.dims_out", "f32[2,2]{0,nan,0.5,0} () true", "bool[2,2]{0,1,1,0}" },
		{ "aten::any.dims_out", "f32[2,2]{0,nan,0.5,0} - false", "bool[]{1}" },
		{ "aten::any.dims_out", "f32[2,0]{} () true", "bool[2,0]{}" },
		{ "aten::topk.values", "f32[4]{1,4,2,3} 2 0 true true", "f32[2]{4,3} i64[2]{1,3}" },
		{ "aten::topk.values", "f32[20]{5,19,1,7,3,0,2,13,nan,11,17,4,18,6,16,8,15,9,14,10} 18 0 true true",
			"f32[18]{nan,19,18,17,16,15,14,13,11,10,9,8,7,6,5,4,3,2} "
			"i64[18]{8,1,12,10,14,16,18,7,9,19,17,15,3,13,0,11,4,6}" },
		{ "aten::topk.values", "f32[]{7} 0 0 true true", "f32[]{7} i64[]{0}" },
		{ "aten::topk.values", "i32[6]{5,-19,1,7,3,0} 3 0 false true", "i32[3]{-19,0,1} i64[3]{1,5,2}" },
		/* which of several equal numbers, and in which order: where the C++ library sorts, where it does not,
		 * where it uses heaps from the start, and where bad pivots make it use heaps */
		{ "aten::topk.values", "i64[24]{1,2,0,2,1,1,2,2,2,0,2,0,1,2,1,0,0,0,2,1,0,0,2,1} 20 0 true true",
			"i64[20]{2,2,2,2,2,2,2,2,2,1,1,1,1,1,1,1,0,0,0,0} "
			"i64[20]{1,13,10,18,8,7,6,22,3,19,0,14,23,5,4,12,21,20,9,2}" },
		{ "aten::topk.values", "f32[24]{0,0,1,2,2,1,2,2,0,0,1,0,2,0,2,2,0,2,2,2,0,0,0,0} 20 0 false false",
			"f32[20]{0,0,0,0,0,0,0,0,0,1,0,1,0,2,1,2,2,2,2,2} "
			"i64[20]{1,23,22,21,20,16,13,11,9,5,0,2,8,18,10,7,3,4,19,12}" },
		{ "aten::topk.values",
			"i8[128]{1,0,0,1,0,0,1,1,1,0,1,0,0,1,1,0,1,1,1,1,0,0,1,1,0,0,0,0,1,1,1,0,1,0,0,1,1,"
			"0,1,1,0,1,0,0,1,1,1,0,1,1,0,1,1,1,1,0,0,0,0,0,1,1,1,1,1,1,1,0,0,0,0,0,0,1,1,1,1,1,"
			"1,0,0,1,1,0,0,1,0,0,0,1,1,1,1,1,0,1,0,1,0,0,0,1,1,1,0,1,0,0,0,0,1,0,1,0,1,1,1,0,0,"
			"0,0,0,0,1,0,0,1,0} 2 0 true true",
			"i8[2]{1,1} i64[2]{3,0}" },
		{ "aten::topk.values",
			"i64[40]{0,5,0,5,1,6,1,6,2,7,2,7,3,8,3,8,4,9,4,9,0,1,1,2,2,3,3,4,4,5,5,6,6,7,7,8,8,9,"
			"9,10} 39 0 false true",
			"i64[39]{0,0,0,1,1,1,1,2,2,2,2,3,3,3,3,4,4,4,4,5,5,5,5,6,6,6,6,7,7,7,7,8,8,8,8,9,9,9,"
			"9} i64[39]{0,2,20,22,21,6,4,8,10,24,23,26,12,25,14,28,27,16,18,30,3,29,1,7,5,31,32,"
			"11,9,33,34,36,15,13,35,37,38,17,19}" },
		{ "aten::sort.values", "f32[4]{2,nan,1,2} 0 false", "f32[4]{1,2,2,nan} i64[4]{2,0,3,1}" },
		{ "aten::sort.values", "i8[21]{3,8,2,5,7,1,0,7,4,8,3,3,7,8,8,7,6,2,3,2,8} 0 false",
			"i8[21]{0,1,2,2,2,3,3,3,3,4,5,6,7,7,7,7,8,8,8,8,8} "
			"i64[21]{6,5,2,17,19,0,10,11,18,8,3,16,4,7,12,15,1,9,13,14,20}" },
		{ "aten::sort.values", "f64[21]{3,8,2,5,7,1,0,7,4,8,3,3,7,8,8,7,6,2,3,2,8} 0 true",
			"f64[21]{8,8,8,8,8,7,7,7,7,6,5,4,3,3,3,3,2,2,2,1,0} "
			"i64[21]{1,9,13,14,20,4,7,12,15,16,3,8,0,10,11,18,2,17,19,5,6}" },
		{ "aten::median.dim_values", "f32[4]{4,1,3,2} 0 false", "f32[]{2} i64[]{3}" },
		{ "aten::median.dim_values", "f32[5]{3,1,3,3,2} 0 false", "f32[]{3} i64[]{0}" },
		{ "aten::median.dim_values", "i64[6]{5,4,4,4,5,1} 0 false", "i64[]{4} i64[]{2}" },
		{ "aten::median.dim_values", "f32[4]{2,nan,nan,1} 0 false", "f32[]{nan} i64[]{1}" },
		{ "aten::nanmedian.dim_values", "f32[4]{nan,2,nan,1} 0 false", "f32[]{1} i64[]{3}" },
		{ "aten::nanmedian.dim_values", "f32[2]{nan,nan} 0 false", "f32[]{nan} i64[]{0}" },
		{ "aten::_softmax.out", "f32[2]{0,0.693147181} 0 false", "f32[2]{0.333333333,0.666666667}" },
		{ "aten::_log_softmax.out", "f32[2]{1000,1000} 0 false", "f32[2]{-0.693147181,-0.693147181}" },
		{ "aten::_softmax.out", "f32[2,2]{-200,nan,0,1} 0 false", "f32[2,2]{0,nan,1,nan}" },
		{ "aten::_softmax.out", "f32[3]{-inf,5,-inf} 0 false", "f32[3]{0,1,0}" },
		{ "aten::_softmax.out", "f32[2]{-inf,-inf} 0 false", "f32[2]{nan,nan}" },
		{ "aten::_softmax.out", "f32[]{7} 0 false", "f32[]{1}" },
		{ "aten::_log_softmax.out", "f32[2,1]{0,-1000} 0 false", "f32[2,1]{0,-1000}" },
		{ "aten::_softmax.out", "i32[2]{0,1} 0 false", "! an output of INT32 ! i32[2]{0,0}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void norms_and_pools(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::_native_batch_norm_legit_no_training.out",
			"f32[1,2,2]{1,2,3,4} f32[2]{2,1} - f32[2]{1,3} f32[2]{3,8} 0.1 1.0",
			"f32[1,2,2]{0,1,0,0.333333333} f32[0]{} f32[0]{}" },
		/* one dimension: the channels */
		{ "aten::_native_batch_norm_legit_no_training.out",
			"f32[3]{1,2,3} f32[3]{2,1,1} - f32[3]{0,1,1} f32[3]{3,0,3} 0.1 1.0",
			"f32[3]{1,1,1} f32[0]{} f32[0]{}" },
		{ "aten::_native_batch_norm_legit_no_training.out",
			"f16[2]{1,2} f16[2]{2,1} - f16[2]{0,1} f16[2]{3,0} 0.1 1.0", "f16[2]{1,1} f16[0]{} f16[0]{}" },
		{ "aten::_native_batch_norm_legit_no_training.out",
			"f64[2,2]{1,2,3,4} f64[2]{2,1} - f64[2]{0,1} f64[2]{3,0} 0.1 1.0",
			"f64[2,2]{1,1,3,3} f64[0]{} f64[0]{}" },
		{ "aten::native_layer_norm.out", "f32[1,2]{1,3} (2) f32[2]{2,2} f32[2]{1,1} 0.0",
			"f32[1,2]{-1,3} f32[1,1]{2} f32[1,1]{1}" },
		{ "aten::native_layer_norm.out", "f32[1,2]{1,3} (2) - c64[2]{0:0,0:0} 0.0",
			"! does not take numbers for channels that are COMPLEX64 ! f32[1,2]{0,0} f32[1,1]{0} "
			"f32[1,1]{0}" },
		{ "aten::_native_batch_norm_legit.no_stats_out", "c64[1,1]{0:0} - - true 0.1 1e-05",
			"! does not take COMPLEX64 ! c64[1,1]{0:0} f32[1]{0} f32[1]{0}" },
		{ "aten::_native_batch_norm_legit.no_stats_out", "f32[1,1]{0} - - true 0.1 1e-05",
			"! cannot store mean and deviation ! f32[1,1]{0} c64[1]{0:0} f32[1]{0}" },
		{ "aten::native_group_norm.out", "f32[1,2,1]{1,3} f32[2]{1,2} - 1 2 1 1 0.0",
			"f32[1,2,1]{-1,2} f32[1,1]{2} f32[1,1]{1}" },
		/* channels last, on either side or both */
		{ "aten::native_group_norm.out", "f32[1,2,1,2]@0231{1,3,10,30} f32[2]{1,2} - 1 2 2 2 0.0",
			"f32[1,2,1,2]@0231{-1,1,-2,2} f32[1,2]{2,20} f32[1,2]{1,0.1}" },
		{ "aten::native_group_norm.out", "f32[1,2,1,2]@0231{1,3,10,30} f32[2]{1,2} - 1 2 2 2 0.0",
			"f32[1,2,1,2]{-1,1,-2,2} f32[1,2]{2,20} f32[1,2]{1,0.1}" },
		{ "aten::native_group_norm.out", "f64[1,2,1,2]{1,3,10,30} - f64[2]{0,1} 1 2 2 2 0.0",
			"f64[1,2,1,2]@0231{-1,1,0,2} f64[1,2]{2,20} f64[1,2]{1,0.1}" },
		{ "aten::native_layer_norm.out", "f32[1,2,2,2]@0231{1,3,5,7,10,30,50,70} (2) - - 0.0",
			"f32[1,2,2,2]@0231{-1,1,-1,1,-1,1,-1,1} f32[1,2,2,1]@0231{2,6,20,60} "
			"f32[1,2,2,1]@0231{1,1,0.1,0.1}" },
		{ "aten::_native_batch_norm_legit.no_stats_out",
			"f32[1,2,1,2]@0231{1,3,10,30} f32[2]{1,2} - true 0.1 0.0",
			"f32[1,2,1,2]@0231{-1,1,-2,2} f32[2]{2,20} f32[2]{1,0.1}" },
		/* in bf16, 256 + 1 is 256, each of fifteen times */
		{ "aten::_adaptive_avg_pool3d.out", "bf16[1,1,1,16]{256,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1} (1,1,1)",
			"bf16[1,1,1,1]{16}" },
		{ "aten::avg_pool2d.out", "f32[1,2,2]{1,2,3,4} (2,2) () (1,1) false true -",
			"f32[1,2,2]{.25,.5,.75,1}" },
		{ "aten::avg_pool2d.out", "f32[1,2,2]{1,2,3,4} (2,2) () (1,1) false false -", "f32[1,2,2]{1,2,3,4}" },
		{ "aten::avg_pool2d.out", "f32[1,1,3]{1,2,3} (1,2) () () true false -", "f32[1,1,2]{1.5,3}" },
		/* A window larger than the input by less than a stride. */
		{ "aten::avg_pool2d.out", "f32[1,1,3]{1,2,3} (1,4) (1,2) () false true -", "f32[1,1,1]{2}" },
		{ "aten::avg_pool2d.out", "f32[1,1,3]{1,2,3} (1,4) (1,1) () false true -",
			"! a window of 4 does not fit ! f32[1,1,1]{0}" },
		{ "aten::max_pool2d_with_indices.out", "f32[1,1,2]{5,6} (1,4) (1,3) () () false",
			"f32[1,1,1]{6} i64[1,1,1]{1}" },
		{ "aten::max_pool2d_with_indices.out", "f32[1,2,2]{1,4,3,2} (2,2) () () () false",
			"f32[1,1,1]{4} i64[1,1,1]{1}" },
		{ "aten::max_pool2d_with_indices.out", "f32[1,1,2]{-5,-6} (1,3) (1,1) (0,1) () false",
			"f32[1,1,2]{-5,-5} i64[1,1,2]{0,0}" },
		{ "aten::_adaptive_avg_pool2d.out", "f32[1,1,3]{1,2,3} (1,2)", "f32[1,1,2]{1.5,2.5}" },
		{ "aten::adaptive_avg_pool2d.out", "f32[1,1,3]{1,2,3} (1,2)", "f32[1,1,2]{1.5,2.5}" },
		{ "aten::adaptive_avg_pool3d.out", "f32[1,1,1,3]{1,2,3} (1,1,2)", "f32[1,1,1,2]{1.5,2.5}" },
		/* An empty tensor needs no memory, whatever its sizes. */
		{ "aten::_adaptive_avg_pool2d.out", "f32[0,2,2]{} (2147483647,2147483647)",
			"f32[0,2147483647,2147483647]{}" },
		{ "aten::max_pool2d_with_indices_backward.grad_input",
			"f32[1,1,1]{2} f32[1,2,2]{1,4,3,2} (2,2) () () () false i64[1,1,1]{1}", "f32[1,2,2]{0,2,0,0}" },
		{ "aten::max_pool2d_with_indices_backward.grad_input",
			"f32[1,1,1]{2} f32[1,2,2]{1,4,3,2} (2,2) () () () false i64[1,1,1]{4}",
			"! index 4 of 4 ! f32[1,2,2]{0,0,0,0}" },
		{ "aten::upsample_nearest2d.vec_out", "u8[1,1,1,2]{1,2} (2,4) -", "u8[1,1,2,4]{1,1,2,2,1,1,2,2}" },
		{ "aten::upsample_nearest2d.vec_out", "f32[1,2,1,2]@0231{1,2,3,4} (1,4) -",
			"f32[1,2,1,4]@0231{1,1,2,2,3,3,4,4}" },
		{ "aten::upsample_nearest2d.vec_out", "f32[1,1,1,3]{1,2,3} (1,5) -", "f32[1,1,1,5]{1,1,2,2,3}" },
		{ "aten::upsample_bilinear2d.vec_out", "f32[1,1,1,2]{0,1} (1,4) false -", "f32[1,1,1,4]{0,.25,.75,1}" },
		{ "aten::upsample_bilinear2d.vec_out", "f32[1,1,1,2]{0,1} (1,3) true -", "f32[1,1,1,3]{0,.5,1}" },
		/* double, computed in double */
		{ "aten::upsample_bilinear2d.vec_out", "f64[1,1,2,2]{1.8,7.3,9.8,0.9} (4,4) false -",
			"f64[1,1,4,4]{1.8,3.175,5.925,7.3,3.8,4.275,5.225,5.7,7.8,6.475,3.825,2.5,9.8,7.575,"
			"3.125,0.9}" },
		{ "aten::upsample_bilinear2d.vec_out", "f64[1,2,1,2]@0231{1e300,2e300,-3e300,4e300} (1,4) false -",
			"f64[1,2,1,4]@0231{1e300,1.25e300,1.75e300,2e300,-3e300,-1.25e300,2.25e300,4e300}" },
		{ "aten::_upsample_bilinear2d_aa.out",
			"f64[1,1,4,4]{-84,-20,32,42,96,-51,-1,71,67,-18,56,-86,-19,87,79,30} (2,2) false 0.3 "
			"-",
			"f64[1,1,2,2]{-4.79591942,19.8979588,32.4897957,21.9795914}" },
		{ "aten::grid_sampler_2d.out", "c64[1,1,1,2]{1:1,3:0} c64[1,1,1,2]{0:0,0:0} 0 0 true",
			"! does not take COMPLEX64 ! c64[1,1,1,1]{0:0}" },
		{ "aten::grid_sampler_2d.out", "f32[1,1,1,2]{1,3} f32[1,1,1,2]{0,0} 0 0 true", "f32[1,1,1,1]{2}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void products(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::mm.out", "f32[2,2]{1,2,3,4} f32[2,1]{5,6}", "f32[2,1]{17,39}" },
		{ "aten::mm.out", "f32[2,2]{1,2,3,4} f32[1,2]{5,6}", "! times ! f32[2,2]{0,0,0,0}" },
		{ "aten::mm.out", "i64[1,2]{1,2} i64[2,1]{3,4}", "i64[1,1]{11}" },
		{ "aten::mm.out", "f32[1,0]{} f32[0,2]{}", "f32[1,2]{0,0}" },
		/* few terms, several rows */
		{ "aten::linear.out",
			"f32[8,2]{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16} f32[3,2]{1,2,3,4,5,6} "
			"f32[3]{10,20,30}",
			"f32[8,3]{15,31,47,21,45,69,27,59,91,33,73,113,39,87,135,45,101,157,51,115,179,57,"
			"129,201}" },
		{ "aten::linear.out",
			"f64[8,2]{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16} f64[3,2]{1,2,3,4,5,6} "
			"f64[3]{10,20,30}",
			"f64[8,3]{15,31,47,21,45,69,27,59,91,33,73,113,39,87,135,45,101,157,51,115,179,57,"
			"129,201}" },
		{ "aten::linear.out",
			"i32[8,2]{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16} i32[3,2]{1,2,3,4,5,6} "
			"i32[3]{10,20,30}",
			"i32[8,3]{15,31,47,21,45,69,27,59,91,33,73,113,39,87,135,45,101,157,51,115,179,57,"
			"129,201}" },
		{ "aten::linear.out",
			"i16[8,2]{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16} i16[3,2]{1,2,3,4,5,6} "
			"i16[3]{10,20,30}",
			"i16[8,3]{15,31,47,21,45,69,27,59,91,33,73,113,39,87,135,45,101,157,51,115,179,57,"
			"129,201}" },
		{ "aten::linear.out", "f32[2,1,2]{1,2,3,4} f32[3,2]{1,0,0,1,1,1} f32[3]{10,20,30}",
			"f32[2,1,3]{11,22,33,13,24,37}" },
		/* channels last, one channel, one pixel: rows are the same in each */
		{ "aten::linear.out", "f32[2,1,2]@021{1,2,3,4} f32[3,2]{1,0,0,1,1,1} f32[3]{10,20,30}",
			"f32[2,1,3]@021{11,22,33,13,24,37}" },
		{ "aten::linear.out", "f32[2,1,1,2]@0231{1,2,3,4} f32[1,2]{1,10} -", "f32[2,1,1,1]{21,43}" },
		{ "aten::linear.out", "f32[1,2,2]@021{1,2,3,4} f32[1,2]{1,10} -",
			"! input must be in row-major ! f32[1,2,1]{0,0}" },
		{ "aten::linear.out", "f32[1,2,1]{1,2} f32[2,1]{1,10} -",
			"! output must be in row-major ! f32[1,2,2]@021{0,0,0,0}" },
		{ "aten::linear.out", "i64[2]{1,2} i64[1,2]{3,4} -", "i64[1]{11}" },
		{ "aten::linear.out", "f32[1,2]{1,2} f32[2,2]{1,0,0,1} f32[1]{5}", "f32[1,2]{6,7}" },
		{ "aten::linear.out", "f32[1,2]{1,2} f32[1,3]{1,0,0} -", "! rank 2 ! f32[1,1]{0}" },
		{ "aten::addmm.out", "f32[2]{10,20} f32[1,2]{1,2} f32[2,2]{1,0,0,1} 0.5 2", "f32[1,2]{7,14}" },
		{ "aten::addbmm.out", "f32[1]{10} f32[2,1,2]{1,2,3,4} f32[2,2,1]{1,1,2,0.5} 0.5 2", "f32[1,1]{27}" },
		{ "aten::addbmm.out", "f16[1]{10} f16[2,1,2]{1,2,3,4} f16[2,2,1]{1,1,2,0.5} 0.5 2", "f16[1,1]{27}" },
		{ "aten::addmm.out", "f32[1]{3} f32[1,0]{} f32[0,9]{} 2 1", "f32[1,9]{6,6,6,6,6,6,6,6,6}" },
		{ "aten::_trilinear.out", "f32[2]{1,2} f32[2]{3,4} f32[2]{5,6} () () () (0) 1", "f32[]{63}" },
		{ "aten::_trilinear.out", "f32[2]{1,2} f32[2]{3,4} f32[2]{5,6} (1) (0) (1) () 1",
			"f32[2,2]{15,20,36,48}" },
		{ "aten::bmm.out", "f16[2,1,1]{2,3} f16[2,1,1]{5,7}", "f16[2,1,1]{10,21}" },
		{ "aten::convolution.out", "f32[1,1,3]{1,2,3} f32[1,1,2]{1,10} f32[1]{100} (1) (0) (1) false (0) 1",
			"f32[1,1,2]{121,132}" },
		{ "aten::convolution.out", "f32[1,1,3]{1,2,3} f32[1,1,2]{1,10} - (2) (1) (1) false (0) 1",
			"f32[1,1,2]{10,32}" },
		{ "aten::convolution.out", "f32[1,1,3]{1,2,3} f32[1,1,2]{1,10} - (1) (0) (2) false (0) 1",
			"f32[1,1,1]{31}" },
		{ "aten::convolution.out", "f32[1,1,2]{1,2} f32[1,1,2]{1,10} - (2) (0) (1) true (0) 1",
			"f32[1,1,4]{1,10,2,20}" },
		{ "aten::convolution.out", "f64[1,1,2]{1,2} f64[1,1,2]{1,10} f64[1]{5} (2) (0) (1) true (1) 1",
			"f64[1,1,5]{6,15,7,25,5}" },
		{ "aten::convolution.out", "i64[1,1,2]{1,2} i64[1,1,3]{1,10,100} - (2) (1) (2) true (0) 1",
			"i64[1,1,5]{0,12,0,120,0}" },
		{ "aten::convolution.out", "f32[1,2,1]{3,5} f32[2,1,1]{2,4} - (1) (0) (1) false (0) 2",
			"f32[1,2,1]{6,20}" },
		{ "aten::convolution.out", "f32[1,1,1]{1} f32[1,1,3]{1,1,1} - (1) (0) (1) false (0) 1",
			"! does not fit ! f32[1,1,1]{0}" },
		{ "aten::convolution.out", "f32[1,1,2]{1,2} f32[1,1,3]{1,10,100} - (2) (0) (1) false (0) 1",
			"f32[1,1,1]{21}" },
		{ "aten::convolution.out", "f32[1,1,2]{1,2} f32[1,1,3]{1,10,100} - (1) (0) (1) false (0) 1",
			"! does not fit ! f32[1,1,1]{0}" },
		{ "aten::convolution.out", "f32[1,1,0]{} f32[2,1,3]{1,2,3,4,5,6} f32[2]{7,8} (2) (1) (1) false (0) 1",
			"f32[1,2,1]{7,8}" },
		{ "aten::convolution.out", "f32[1,1,0]{} f32[1,1,3]{1,2,3} - (1) (0) (1) true (0) 1",
			"f32[1,1,2]{0,0}" },
		{ "aten::convolution.out", "f32[1,1,2]{1,2} f32[1,1,0]{} f32[1]{7} (1) (0) (1) false (0) 1",
			"f32[1,1,3]{7,7,7}" },
		{ "aten::convolution.out", "f32[1,0,2]{} f32[3,0,1]{} f32[3]{1,2,3} (1) (0) (1) false (0) 1",
			"f32[1,0,2]{}" },
		{ "aten::convolution.out", "f32[1,1,1]{1} f32[1,1,1]{1} - (0) (0) (1) false (0) 1",
			"! stride 0 ! f32[1,1,1]{0}" },
		/* Subconvs that are deeper than their input. */
		{ "aten::convolution.out", "f32[1,1,1,1,1]{2} f32[1,1,1,1,1]{3} f32[1]{1} (1) (0) (2) true (1,0,0) 1",
			"f32[1,1,2,1,1]{7,1}" },
		{ "aten::convolution.out",
			"f32[1,2,2,1,1]{1,2,3,4} f32[2,1,4,1,1]{1,2,3,4,5,6,7,8} f32[2]{100,200} (4,1,1) "
			"(1,0,0) "
			"(1) true (3,0,0) 2",
			"f32[1,2,9,1,1]{102,103,104,102,104,106,108,100,100,218,221,224,220,224,228,232,200,"
			"200}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

/* --- fast against plain ------------------------------------------------------------------------------------ */

/* Two batch items of whole numbers, which every type holds or wraps around in the same way. */
static void products_of_all_types(void **state)
{
	static const struct {
		const char *name;
		uint64_t mask, sign;
	} types[] = { { "f32", UINT64_MAX, 0 }, { "f64", UINT64_MAX, 0 }, { "i64", UINT64_MAX, 0 },
		{ "i32", UINT32_MAX, UINT64_C(1) << 31 }, { "i16", UINT16_MAX, 1 << 15 }, { "i8", UINT8_MAX, 1 << 7 },
		{ "u8", UINT8_MAX, 0 } };
	static const size_t sizes[][3] = { { 1, 1, 1 }, { 4, 4, 4 }, { 5, 3, 7 }, { 2, 9, 16 }, { 9, 5, 21 },
		{ 3, 2, 40 }, { 8, 17, 12 } };
	for (size_t i = 0; i < ET_ARRAY_LEN(types) * ET_ARRAY_LEN(sizes); i++) {
		size_t type = i / ET_ARRAY_LEN(sizes), rows = sizes[i % ET_ARRAY_LEN(sizes)][0],
		       n_k = sizes[i % ET_ARRAY_LEN(sizes)][1], columns = sizes[i % ET_ARRAY_LEN(sizes)][2];
		const char *name = types[type].name;
		char *args = NULL, *expected = NULL;
		size_t n_args, n_expected;
		FILE *in = open_memstream(&args, &n_args), *out = open_memstream(&expected, &n_expected);
		assert_true(in && out);
		fprintf(in, "%s[2,%zu,%zu]{", name, rows, n_k);
		for (size_t k = 0; k < 2 * rows * n_k; k++)
			fprintf(in, "%zu,", k * 7 % 23);
		fprintf(in, "} %s[2,%zu,%zu]{", name, n_k, columns);
		for (size_t k = 0; k < 2 * n_k * columns; k++)
			fprintf(in, "%zu,", k * 5 % 19);
		fputs("}", in);
		fprintf(out, "%s[2,%zu,%zu]{", name, rows, columns);
		for (size_t at = 0; at < 2 * rows * columns; at++) {
			size_t row = at / columns, batch = row / rows, column = at % columns;
			uint64_t sum = 0;
			for (size_t k = 0; k < n_k; k++)
				sum += (row * n_k + k) * 7 % 23 * (((batch * n_k + k) * columns + column) * 5 % 19);
			sum &= types[type].mask;
			fprintf(out, "%lld,",
				(long long)sum - (sum & types[type].sign ? (long long)types[type].mask + 1 : 0));
		}
		fputs("}", out);
		fclose(in);
		fclose(out);
		check_kernel_cases(&(const struct kernel_case){ "aten::bmm.out", args, expected }, 1);
		free(args);
		free(expected);
	}
}

static void *heap_alloc(void *self, size_t n_bytes, size_t align)
{
	return aligned_alloc(align, (n_bytes + align - 1) / align * align);
}

static void heap_free(void *self, void *ptr, size_t n_bytes)
{
	free(ptr);
}

static const struct et_allocator heap = { NULL, heap_alloc, heap_free };

struct test_tensor {
	struct et_tensor tensor;
	int32_t sizes[4], strides[4];
	uint8_t order[4];
	struct et_evalue value;
};

static void alloc_tensor(struct test_tensor *o, enum et_scalar_type type, size_t n_dims, const int32_t *sizes,
	bool is_last, unsigned seed)
{
	static const uint8_t last[] = { 0, 2, 3, 1 };
	for (uint8_t d = 0; d < n_dims; d++) {
		o->sizes[d] = sizes[d];
		o->order[d] = is_last ? last[d] : d;
	}
	et_dim_order_to_strides(o->sizes, o->order, n_dims, o->strides);
	o->tensor = (struct et_tensor){ .sizes = o->sizes,
		.strides = o->strides,
		.dim_order = o->order,
		.type = (uint8_t)type,
		.n_dims = (uint8_t)n_dims };
	size_t numel = et_tensor_numel(&o->tensor);
	o->tensor.capacity = numel;
	o->tensor.data = malloc(numel * et_scalar_size(type) + 1);
	assert_non_null(o->tensor.data);
	for (size_t i = 0; i < numel; i++) { /* the same numbers whatever the type and dim order: drawn row-major */
		size_t rest = i, at = 0;
		for (size_t d = n_dims; d-- > 0; rest /= (size_t)sizes[d])
			at += rest % (size_t)sizes[d] * (size_t)o->strides[d];
		seed = seed * 1664525 + 1013904223;
		et_element_set_double((uint8_t *)o->tensor.data + at * et_scalar_size(type), type,
			(float)(seed >> 8) / 0x1p23f - 1);
	}
	o->value = (struct et_evalue){ .tensor = &o->tensor, .tag = ET_TAG_TENSOR };
}

/* Three threads, however little there is to do. */
struct share {
	et_range_fn fn;
	void *arg;
	size_t begin, end;
};

static void *run_share(void *arg)
{
	struct share *share = arg;
	if (share->begin < share->end)
		share->fn(share->arg, share->begin, share->end);
	return NULL;
}

static void parallel_for(void *self, et_range_fn fn, void *arg, size_t n, size_t grain)
{
	struct share shares[3];
	pthread_t threads[3];
	for (size_t i = 0; i < 3; i++) {
		shares[i] = (struct share){ fn, arg, n * i / 3, n * (i + 1) / 3 };
		assert_int_equal(pthread_create(&threads[i], NULL, run_share, &shares[i]), 0);
	}
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static const struct et_compute threaded = { .parallel_for = parallel_for };

static void call_in(const char *name, struct et_evalue *const *args, const struct et_compute *compute)
{
	struct et_diag diag = { 0 };
	struct et_pool scratch;
	const struct et_kernel *kernel = find_kernel(name);
	et_pool_init(&scratch, &heap);
	struct et_kernel_ctx ctx = { kernel, compute, &scratch, &diag };
	if (kernel->run(&ctx, args) != ET_OK)
		fail_msg("%s", diag.text);
	et_pool_deinit(&scratch);
}

static void call(const char *name, struct et_evalue *const *args)
{
	call_in(name, args, &threaded);
}

static void assert_close(const struct test_tensor *fast, const struct test_tensor *plain)
{
	for (size_t i = 0; i < et_tensor_numel(&fast->tensor); i++) {
		size_t rest = i, a = 0, b = 0;
		for (size_t d = fast->tensor.n_dims; d-- > 0; rest /= (size_t)fast->sizes[d]) {
			a += rest % (size_t)fast->sizes[d] * (size_t)fast->strides[d];
			b += rest % (size_t)fast->sizes[d] * (size_t)plain->strides[d];
		}
		double x = ((const float *)fast->tensor.data)[a], y = ((const double *)plain->tensor.data)[b];
		if (fabs(x - y) > 1e-4 + 1e-4 * fabs(y))
			fail_msg("element %zu: %g, plainly %g", i, x, y);
	}
}

static void matrices_of_all_sizes(void **state)
{
	static const int32_t sizes[][3] = { { 1, 1, 1 }, { 1, 300, 70 }, { 5, 3, 1 }, { 9, 17, 33 }, { 8, 257, 32 },
		{ 64, 600, 65 }, { 130, 31, 200 }, { 3, 513, 7 },
		/* few rows with few terms, and one more of either */
		{ 2, 1, 5 }, { 3, 3, 1000 }, { 4, 16, 67 }, { 5, 16, 67 }, { 4, 17, 68 } };
	for (size_t i = 0; i < ET_ARRAY_LEN(sizes); i++) {
		struct test_tensor t[2][3];
		for (int plain = 0; plain < 2; plain++) {
			enum et_scalar_type type = plain ? ET_FLOAT64 : ET_FLOAT32;
			int32_t m = sizes[i][0], k = sizes[i][1], n = sizes[i][2];
			alloc_tensor(&t[plain][0], type, 2, (int32_t[]){ m, k }, false, 1);
			alloc_tensor(&t[plain][1], type, 2, (int32_t[]){ k, n }, false, 2);
			alloc_tensor(&t[plain][2], type, 2, (int32_t[]){ m, n }, false, 3);
			call("aten::mm.out",
				(struct et_evalue *[]){ &t[plain][0].value, &t[plain][1].value, &t[plain][2].value });
		}
		assert_close(&t[0][2], &t[1][2]);
		for (size_t k = 0; k < 6; k++)
			free(t[k / 3][k % 3].tensor.data);
	}
}

struct conv_case {
	int32_t batch, in_channels, out_channels, size[2], kernel[2];
	int64_t stride, padding, dilation, groups;
	bool is_transposed;
	int64_t output_padding;
};

static void check_conv(const struct conv_case *c, bool is_last)
{
	struct test_tensor t[2][4];
	struct et_evalue stride = { .tag = ET_TAG_INT, .i = c->stride },
			 padding = { .tag = ET_TAG_INT, .i = c->padding };
	struct et_evalue dilation = { .tag = ET_TAG_INT, .i = c->dilation },
			 more = { .tag = ET_TAG_INT, .i = c->output_padding };
	struct et_evalue transposed = { .tag = ET_TAG_BOOL, .b = c->is_transposed },
			 groups = { .tag = ET_TAG_INT, .i = c->groups };
	struct et_evalue *items[4] = { &stride, &padding, &dilation, &more };
	struct et_list lists[4];
	struct et_evalue options[4];
	int32_t out[2];
	for (size_t k = 0; k < 4; k++) {
		lists[k] = (struct et_list){ .n = 1, .values = &items[k] };
		options[k] = (struct et_evalue){ .tag = ET_TAG_INT_LIST, .list = &lists[k] };
	}
	for (size_t d = 0; d < 2; d++) {
		int64_t reach = c->dilation * (c->kernel[d] - 1) + 1, spread = (c->size[d] - 1) * c->stride;
		out[d] = (int32_t)(c->is_transposed ? spread + reach - 2 * c->padding + c->output_padding
						    : (c->size[d] + 2 * c->padding - reach) / c->stride + 1);
	}
	int32_t per_group[2] = { c->in_channels / (int32_t)c->groups, c->out_channels / (int32_t)c->groups };
	for (int plain = 0; plain < 2; plain++) {
		enum et_scalar_type type = plain ? ET_FLOAT64 : ET_FLOAT32;
		bool last = is_last && !plain;
		alloc_tensor(&t[plain][0], type, 4, (int32_t[]){ c->batch, c->in_channels, c->size[0], c->size[1] },
			last, 1);
		alloc_tensor(&t[plain][1], type, 4,
			(int32_t[]){ c->is_transposed ? c->in_channels : c->out_channels, per_group[c->is_transposed],
				c->kernel[0], c->kernel[1] },
			last, 2);
		alloc_tensor(&t[plain][2], type, 1, (int32_t[]){ c->out_channels }, false, 3);
		alloc_tensor(&t[plain][3], type, 4, (int32_t[]){ c->batch, c->out_channels, out[0], out[1] }, last, 4);
		call("aten::convolution.out",
			(struct et_evalue *[]){ &t[plain][0].value, &t[plain][1].value, &t[plain][2].value, &options[0],
				&options[1], &options[2], &transposed, &options[3], &groups, &t[plain][3].value });
	}
	assert_close(&t[0][3], &t[1][3]);
	for (size_t k = 0; k < 8; k++)
		free(t[k / 4][k % 4].tensor.data);
}

static void convolutions_of_all_kinds(void **state)
{
	static const struct conv_case cases[] = {
		{ 1, 3, 8, { 9, 11 }, { 3, 3 }, 1, 1, 1, 1 },
		{ 2, 3, 8, { 9, 11 }, { 3, 3 }, 2, 1, 1, 1 },
		{ 1, 16, 24, { 7, 7 }, { 1, 1 }, 1, 0, 1, 1 },
		{ 1, 16, 24, { 7, 7 }, { 1, 1 }, 2, 0, 1, 1 },
		{ 1, 12, 12, { 8, 9 }, { 3, 3 }, 1, 1, 1, 12 },
		{ 2, 12, 12, { 8, 9 }, { 5, 5 }, 2, 2, 1, 12 },
		{ 1, 8, 12, { 6, 50 }, { 2, 3 }, 1, 2, 2, 4 },
		{ 1, 300, 5, { 3, 3 }, { 3, 3 }, 1, 1, 1, 1 },
		{ 1, 4, 1, { 5, 1 }, { 1, 1 }, 1, 0, 1, 1 },
		{ 1, 1, 6, { 5, 70 }, { 3, 3 }, 1, 0, 1, 1 },
		{ 1, 6, 12, { 5, 6 }, { 3, 3 }, 1, 1, 1, 6 },
		{ 1, 7, 7, { 1, 5 }, { 1, 5 }, 1, 2, 1, 7 },
		{ 2, 6, 8, { 5, 7 }, { 3, 3 }, 2, 1, 1, 1, true, 1 },
		{ 1, 6, 8, { 5, 7 }, { 2, 4 }, 2, 0, 1, 2, true },
		{ 1, 8, 8, { 9, 30 }, { 3, 3 }, 2, 1, 1, 8, true },
		{ 1, 4, 6, { 4, 5 }, { 3, 2 }, 4, 0, 1, 2, true, 3 }, /* outputs that no input reaches */
		{ 1, 4, 6, { 6, 5 }, { 3, 4 }, 3, 2, 2, 1, true },
		{ 1, 4, 6, { 6, 5 }, { 3, 4 }, 2, 1, 2, 1, true, 1 },
		{ 1, 4, 6, { 6, 7 }, { 5, 3 }, 1, 2, 3, 1, true },
		{ 1, 5, 6, { 6, 7 }, { 1, 1 }, 1, 0, 1, 1, true },
		{ 1, 4, 6, { 2, 3 }, { 3, 3 }, 20, 0, 1, 2, true }, /* more subconvs than are worth it */
		/* Depthwise subconvs that reach beyond their input, or do not use all of it. */
		{ 1, 8, 8, { 9, 30 }, { 4, 4 }, 2, 1, 1, 8, true },
		{ 1, 8, 8, { 9, 30 }, { 3, 3 }, 2, 1, 1, 8, true, 1 },
		{ 1, 1, 1, { 2, 8193 }, { 2, 2 }, 2, 1, 1, 1, true },
		{ 1, 2, 2, { 1, 2 }, { 1, 1 }, 1, 0, 1, 2, true, 300 },
		/* weights that are transposed some channels at a time */
		{ 1, 700, 70, { 3, 3 }, { 4, 4 }, 2, 1, 1, 1, true },
		{ 2, 1500, 40, { 2, 1 }, { 4, 3 }, 1, 0, 1, 1, true },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		check_conv(&cases[i], false);
		check_conv(&cases[i], true);
	}
}

/* Along each dimension, for float and double; dense lines and lines across others. */
static void lines_of_all_sizes(void **state)
{
	static const int32_t sizes[][4] = { { 1, 1, 1, 1 }, { 1, 3, 2, 5 }, { 2, 70, 1, 17 }, { 1, 5, 9, 300 },
		{ 3, 16, 4, 67 }, { 1, 2, 1, 1030 }, { 3, 16, 4, 7 } };
	static const char *const values[] = { "aten::_softmax.out", "aten::_log_softmax.out" };
	static const char *const indices[] = { "aten::argmax.out", "aten::argmin.out" };
	for (size_t i = 0; i < ET_ARRAY_LEN(sizes) * 8; i++) {
		const int32_t *size = sizes[i / 8];
		size_t dim = i % 4;
		struct test_tensor t[2][3];
		struct et_evalue dim_value = { .tag = ET_TAG_INT, .i = (int64_t)dim }, no = { .tag = ET_TAG_BOOL };
		int32_t left[3];
		for (size_t d = 0; d < 3; d++)
			left[d] = size[d < dim ? d : d + 1];
		for (size_t k = 0; k < 2; k++) {
			for (int plain = 0; plain < 2; plain++) {
				enum et_scalar_type type = plain ? ET_FLOAT64 : ET_FLOAT32;
				bool is_last = i % 8 > 3 && !plain;
				alloc_tensor(&t[plain][0], type, 4, size, is_last, (unsigned)i);
				alloc_tensor(&t[plain][1], type, 4, size, is_last, 2);
				alloc_tensor(&t[plain][2], ET_INT64, 3, left, false, 3);
				struct et_evalue *in = &t[plain][0].value;
				call(values[k], (struct et_evalue *[]){ in, &dim_value, &no, &t[plain][1].value });
				call(indices[k], (struct et_evalue *[]){ in, &dim_value, &no, &t[plain][2].value });
			}
			assert_close(&t[0][1], &t[1][1]);
			assert_memory_equal(t[0][2].tensor.data, t[1][2].tensor.data,
				et_tensor_n_bytes(&t[0][2].tensor));
			for (size_t n = 0; n < 6; n++)
				free(t[n / 3][n % 3].tensor.data);
		}
	}
}

/* Elementwise operators, reductions and lines give the same in pieces as at once. */
static void work_in_pieces_is_complete(void **state)
{
	struct test_tensor x, y, sum, mean, soft, dims_value;
	alloc_tensor(&x, ET_FLOAT32, 3, (int32_t[]){ 300, 7, 64 }, false, 1);
	alloc_tensor(&y, ET_FLOAT32, 2, (int32_t[]){ 7, 1 }, false, 2);
	alloc_tensor(&sum, ET_FLOAT32, 3, (int32_t[]){ 300, 7, 64 }, false, 3);
	alloc_tensor(&mean, ET_FLOAT32, 2, (int32_t[]){ 300, 7 }, false, 4);
	alloc_tensor(&soft, ET_FLOAT32, 3, (int32_t[]){ 300, 7, 64 }, false, 5);
	struct et_evalue one = { .tag = ET_TAG_INT, .i = 1 }, last = { .tag = ET_TAG_INT, .i = 2 };
	struct et_evalue no = { .tag = ET_TAG_BOOL }, none = { .tag = ET_TAG_NONE };
	struct et_list list = { .n = 1, .values = (struct et_evalue *[]){ &last } };
	dims_value.value = (struct et_evalue){ .tag = ET_TAG_INT_LIST, .list = &list };
	call("aten::add.out", (struct et_evalue *[]){ &x.value, &y.value, &one, &sum.value });
	call("aten::mean.out", (struct et_evalue *[]){ &x.value, &dims_value.value, &no, &none, &mean.value });
	call("aten::_softmax.out", (struct et_evalue *[]){ &x.value, &last, &no, &soft.value });
	const float *px = x.tensor.data, *py = y.tensor.data, *psum = sum.tensor.data, *psoft = soft.tensor.data;
	for (size_t row = 0; row < 300 * 7; row++) {
		double total = 0, exps = 0, softs = 0;
		for (size_t i = 0; i < 64; i++) {
			assert_true(psum[row * 64 + i] == px[row * 64 + i] + py[row % 7]);
			total += px[row * 64 + i];
			exps += exp(px[row * 64 + i]);
			softs += psoft[row * 64 + i];
		}
		assert_true(fabs(((const float *)mean.tensor.data)[row] - total / 64) < 1e-5);
		assert_true(fabs(softs - 1) < 1e-5);
		assert_true(fabs(psoft[row * 64] - exp(px[row * 64]) / exps) < 1e-5);
	}
	free(x.tensor.data);
	free(y.tensor.data);
	free(sum.tensor.data);
	free(mean.tensor.data);
	free(soft.tensor.data);
}

/* to the last bit */
static void work_in_pieces_gives_equal_results(void **state)
{
	static const char *const names[] = { "aten::_softmax.out", "aten::_log_softmax.out" };
	for (size_t i = 0; i < ET_ARRAY_LEN(names) * 20; i++) {
		struct test_tensor x, whole, shared;
		const int32_t n = 1 + (int32_t)i / 2, sizes[] = { (1 << 14) / n + 40 + (int32_t)i, n };
		struct et_evalue last = { .tag = ET_TAG_INT, .i = 1 }, no = { .tag = ET_TAG_BOOL };
		alloc_tensor(&x, ET_FLOAT32, 2, sizes, false, (unsigned)i);
		alloc_tensor(&whole, ET_FLOAT32, 2, sizes, false, 1);
		alloc_tensor(&shared, ET_FLOAT32, 2, sizes, false, 2);
		call_in(names[i % 2], (struct et_evalue *[]){ &x.value, &last, &no, &whole.value }, NULL);
		call(names[i % 2], (struct et_evalue *[]){ &x.value, &last, &no, &shared.value });
		assert_memory_equal(whole.tensor.data, shared.tensor.data, et_tensor_n_bytes(&whole.tensor));
		free(x.tensor.data);
		free(whole.tensor.data);
		free(shared.tensor.data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reductions),
		cmocka_unit_test(norms_and_pools),
		cmocka_unit_test(products),
		cmocka_unit_test(products_of_all_types),
		cmocka_unit_test(matrices_of_all_sizes),
		cmocka_unit_test(convolutions_of_all_kinds),
		cmocka_unit_test(lines_of_all_sizes),
		cmocka_unit_test(work_in_pieces_is_complete),
		cmocka_unit_test(work_in_pieces_gives_equal_results),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
