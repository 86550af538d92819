/* SPDX-License-Identifier: BSD-3-Clause */
/* Elementwise operators: promotion, broadcasting, dim orders, and each function once, with PyTorch's semantics worked
 * out by hand. */
#include "runtime/kernels/test_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static void promotion(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::add.out", "f32[2]{1,2} f32[2]{10,20} 1", "f32[2]{11,22}" },
		{ "aten::add.out", "i32[2]{1,2} f32[2]{.5,.25} 2", "f32[2]{2,2.5}" },
		{ "aten::add.out", "u8[2]{200,1} i8[2]{100,-2} 1", "i16[2]{300,-1}" },
		{ "aten::add.out", "u8[2]{200,1} u8[2]{100,2} 1", "u8[2]{44,3}" },
		{ "aten::add.out", "bool[2]{1,0} bool[2]{1,0} 1", "bool[2]{1,0}" },
		{ "aten::add.out", "f16[1]{1} bf16[1]{2} 1", "f32[1]{3}" },
		{ "aten::add.out", "i64[1]{9007199254740993} i64[1]{1} 1", "i64[1]{9007199254740994}" },
		{ "aten::add.Scalar_out", "i32[2]{1,2} 1.5 1", "f32[2]{2.5,3.5}" },
		{ "aten::add.Scalar_out", "bool[2]{1,0} 3 1", "i64[2]{4,3}" },
		{ "aten::add.Scalar_out", "f16[1]{1} 3 1", "f16[1]{4}" },
		{ "aten::add.out", "u8[1]{200} u8[1]{100} 1", "i32[1]{44}" }, /* wraps in the common type */
		{ "aten::add.out", "f32[1]{1} f32[1]{2} 1", "! does not fit ! i32[1]{0}" },
		{ "aten::div.out", "i32[2]{1,3} i32[2]{2,2}", "f32[2]{.5,1.5}" },
		/* Integer division if the output has the inputs' type; one divisor for several elements: by its
		 * inverse. */
		{ "aten::div.out", "bool[2]{1,0} bool[2]{1,1}", "bool[2]{1,0}" },
		/* One divisor: by its inverse, unless that is subnormal, zero or infinite. */
		{ "aten::div.out", "f32[2]{5,41} f32[1]{41}", "= f32[2]{0.12195121496915817,0.9999999403953552}" },
		{ "aten::div.out", "f32[2]{5,41} f32[2]{41,41}", "= f32[2]{0.12195122241973877,1}" },
		{ "aten::div.out", "f32[1]{41} f32[2]{41,2}", "= f32[2]{1,20.5}" },
		{ "aten::div.out", "f32[2]{2e-39,3e-39} f32[1]{1e-39}", "f32[2]{2,3}" },
		{ "aten::div.Scalar_out", "f64[2]{5,49} 49", "= f64[2]{0.1020408163265306,0.9999999999999999}" },
		{ "aten::div.Scalar_out", "f32[2]{3e38,0} 300000000000000000000000000000000000000.0", "f32[2]{1,0}" },
		{ "aten::div.Scalar_out", "f32[3]{1,0,-1} 0", "f32[3]{inf,nan,-inf}" },
		{ "aten::div.out", "bool[]{1} bool[2]{1,0}", "! integer by zero ! bool[2]{0,0}" },
		{ "aten::div.out", "i64[3]{-7,9,7} i64[3]{2,-3,7}", "i64[3]{-3,-3,1}" },
		{ "aten::div.out", "u8[1]{200} u8[3]{3,200,255}", "u8[3]{66,1,0}" },
		{ "aten::div.out", "i16[3]{-7,9,7} i16[]{-1}", "i16[3]{7,-9,-7}" },
		{ "aten::div.out", "i16[3]{-7,9,7} i16[1]{2}", "i16[3]{0,0,0}" },
		{ "aten::div.out", "i32[2,2]{1,2,3,4} i32[2]{1,2}", "i32[2,2]{1,1,3,2}" },
		{ "aten::div.out", "i32[2]{1,3} i64[2]{2,2}", "! does not fit an output ! i64[2]{0,0}" },
		{ "aten::eq.Scalar_out", "u8[3]{1,2,255} 255", "bool[3]{0,0,1}" },
		{ "aten::gt.Tensor_out", "i64[2]{1,3} f32[2]{1.5,2.5}", "bool[2]{0,1}" },
		{ "aten::lt.Scalar_out", "f32[2]{1,nan} 2", "u8[2]{1,0}" },
		/* Remainders are exact, however large the quotient; the remainder of -4 by 2 is -0. */
		{ "aten::fmod.Tensor_out", "f32[6]{1e30,5,-5,16777215,1,-3} f32[6]{3,-3,3,0.75,inf,nan}",
			"= f32[6]{0,2,-2,0,1,nan}" },
		{ "aten::remainder.Tensor_out", "f32[5]{1e30,5,-5,1,-1} f32[5]{-3,-3,3,inf,inf}",
			"= f32[5]{0,-1,1,1,inf}" },
		{ "aten::div.out_mode", "f32[4]{7,-7,1e30,1} f32[4]{2,2,3,0} floor", "f32[4]{3,-4,3.3333333e29,inf}" },
		{ "aten::floor_divide.out", "f32[6]{-1,1,-0.5,9e15,-7.5,nan} f32[6]{3,-3,0.25,1,0.5,1}",
			"f32[6]{-1,-1,-2,9e15,-15,nan}" },
		{ "aten::div.out_mode", "f64[3]{-7,7,-1e300} f64[3]{2,-2,3} floor", "f64[3]{-4,-4,-3.3333333333e299}" },
		{ "aten::remainder.Tensor_out",
			"i64[5]{-7,4294967296,-9223372036854775807,6,4294967295} "
			"i64[5]{3,7,10,-4,4294967295}",
			"i64[5]{2,4,3,-2,0}" },
		{ "aten::floor_divide.out",
			"i64[5]{-7,4294967296,-9223372036854775807,6,4294967295} i64[5]{3,7,10,-4,2}",
			"i64[5]{-3,613566756,-922337203685477581,-2,2147483647}" },
		/* Integers that all have one type are not widened. */
		{ "aten::add.out", "i8[3]{100,-100,1} i8[3]{100,-100,2} 3", "i8[3]{-112,112,7}" },
		{ "aten::sub.out", "i16[2]{-32768,5} i16[1]{1} 1", "i16[2]{32767,4}" },
		{ "aten::mul.out", "i32[2]{65536,3} i32[2]{65536,-4}", "i32[2]{0,-12}" },
		{ "aten::add.Scalar_out", "u8[2]{250,1} 10 1", "u8[2]{4,11}" },
		{ "aten::maximum.out", "u8[2]{200,1} u8[2]{100,2}", "u8[2]{200,2}" },
		{ "aten::minimum.out", "i8[2]{-128,1} i8[2]{127,2}", "i8[2]{-128,1}" },
		{ "aten::gt.Tensor_out", "i8[2]{-1,1} i8[2]{1,-1}", "bool[2]{0,1}" },
		{ "aten::gt.Tensor_out", "u8[2]{200,1} u8[2]{100,2}", "bool[2]{1,0}" },
		{ "aten::logical_xor.out", "bool[4]{0,0,1,1} bool[4]{0,1,0,1}", "bool[4]{0,1,1,0}" },
		{ "aten::bitwise_and.Tensor_out", "bool[2]{1,1} bool[2]{1,0}", "bool[2]{1,0}" },
		{ "aten::where.self_out", "bool[2]{1,0} i8[2]{1,2} i8[2]{-3,-4}", "i8[2]{1,-4}" },
		{ "aten::where.self_out", "u8[2]{4,0} i16[2]{1,2} i16[2]{-3,-4}", "i16[2]{1,-4}" },
		{ "aten::masked_fill.Scalar_out", "i32[2]{1,2} bool[2]{1,0} 7", "i32[2]{7,2}" },
		{ "aten::bitwise_left_shift.Tensor_out", "i32[4]{1,1,-1,3} i32[4]{31,32,1,-1}",
			"i32[4]{-2147483648,0,-2,0}" },
		{ "aten::bitwise_left_shift.Tensor_out", "i8[3]{1,1,3} i8[3]{7,8,1}", "i8[3]{-128,0,6}" },
		{ "aten::bitwise_left_shift.Tensor_Scalar_out", "i32[3]{1,-1,3} 31",
			"i32[3]{-2147483648,-2147483648,-2147483648}" },
		{ "aten::bitwise_left_shift.Tensor_Scalar_out", "i32[2]{1,3} 32", "i32[2]{0,0}" },
		{ "aten::bitwise_left_shift.Tensor_Scalar_out", "i8[2]{1,3} -1", "i8[2]{0,0}" },
		{ "aten::bitwise_left_shift.Tensor_Scalar_out", "i64[2]{1,3} 62",
			"i64[2]{4611686018427387904,-4611686018427387904}" },
		{ "aten::bitwise_left_shift.Tensor_Scalar_out", "u8[2]{1,255} 7", "u8[2]{128,128}" },
		{ "aten::bitwise_left_shift.Tensor_Scalar_out", "bool[2]{1,0} 3", "i64[2]{8,0}" },
		{ "aten::bitwise_right_shift.Tensor_out", "i32[4]{-8,-8,8,8} i32[4]{1,32,33,-1}", "i32[4]{-4,-1,0,0}" },
		{ "aten::bitwise_right_shift.Tensor_out", "u8[3]{200,200,200} u8[3]{1,8,255}", "u8[3]{100,0,0}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void shapes(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::mul.out", "f32[2,1]{1,2} f32[3]{1,10,100}", "f32[2,3]{1,10,100,2,20,200}" },
		{ "aten::mul.out", "f32[]{3} f32[2]{1,2}", "f32[2]{3,6}" },
		/* One operand has all sizes, and the others are repeated: inside, outside, both. */
		{ "aten::add.out", "i32[2,2,2]{1,2,3,4,5,6,7,8} i64[2,1]{10,20} 1",
			"i64[2,2,2]{11,12,23,24,15,16,27,28}" },
		{ "aten::mul.out", "f16[3]{1,10,100} f16[2,3]{1,2,3,4,5,6}", "f16[2,3]{1,20,300,4,50,600}" },
		{ "aten::sub.out", "i8[2,1]{1,2} i8[2,2]{1,2,3,4} 1", "i8[2,2]{0,-1,-1,-2}" },
		{ "aten::lt.Tensor_out", "i64[2,2]{1,2,3,4} i64[1,1]{3}", "bool[2,2]{1,1,0,0}" },
		{ "aten::where.self_out", "bool[2,1]{1,0} i32[2,2]{1,2,3,4} i32[2]{8,9}", "i32[2,2]{1,2,8,9}" },
		{ "aten::add.out", "f32[1,2,1,2]@0231{1,2,3,4} f32[2,1,1]{10,20} 1", "f32[1,2,1,2]@0231{11,12,23,24}" },
		{ "aten::mul.out", "f32[1,2]{1,2} f32[1,1,1]{3}", "f32[1,1,2]{3,6}" },
		{ "aten::mul.out", "f32[1,2]{1,2} f32[1,1,1]{3}", "! cannot take the sizes ! f32[1,2]{0,0}" },
		/* sizes that each come from another operand */
		{ "aten::mul.out", "i8[2,1]{2,3} i8[3]{1,2,3}", "i8[2,3]{2,4,6,3,6,9}" },
		{ "aten::sub.out", "f32[2,1,2]{1,2,3,4} f32[2,2]{10,20,30,40} 1",
			"f32[2,2,2]{-9,-18,-29,-38,-7,-16,-27,-36}" },
		{ "aten::mul.out", "f32[1,2]{1,2} f32[1]{3}", "! cannot take the sizes ! f32[2,2]{0,0,0,0}" },
		{ "aten::mul.out", "f32[0,1]{} f32[1]{3}", "! cannot take the sizes ! f32[0,2]{}" },
		{ "aten::mul.out", "f32[]{3} f32[]{2}", "f32[]{6}" },
		{ "aten::mul.out", "f32[0]{} f32[1]{2}", "f32[0]{}" },
		{ "aten::mul.out", "f32[2,0,3]{} f32[1,3]{1,2,3}", "f32[2,0,3]{}" },
		{ "aten::mul.out", "f32[2]{1,2} f32[3]{1,2,3}", "! do not broadcast ! f32[3]{0,0,0}" },
		{ "aten::mul.out", "f32[2]{1,2} f32[2]{1,2}", "! cannot take the sizes [2] ! f32[3]{0,0,0}" },
		{ "aten::sub.out", "f32[1,2,1,2]@0231{1,2,3,4} f32[1,2,1,2]@0231{4,3,2,1} 1",
			"f32[1,2,1,2]@0231{-3,-1,1,3}" },
		{ "aten::sub.out", "f32[1,2,1,2]@0231{1,2,3,4} f32[2,1,1]{1,2} 1", "f32[1,2,1,2]@0231{0,1,1,2}" },
		{ "aten::where.self_out", "bool[2,1]{1,0} f32[2]{1,2} i32[]{7}", "f32[2,2]{1,2,7,7}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void unary(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::abs.out", "i8[3]{-128,-1,5}", "i8[3]{-128,1,5}" },
		{ "aten::abs.out", "f32[2]{-0.5,nan}", "f32[2]{.5,nan}" },
		{ "aten::bitwise_not.out", "bool[2]{1,0}", "bool[2]{0,1}" },
		{ "aten::bitwise_not.out", "u8[2]{1,0}", "u8[2]{254,255}" },
		{ "aten::bitwise_not.out", "f32[1]{1}", "! does not take FP32 ! f32[1]{0}" },
		{ "aten::ceil.out", "f32[2]{-0.5,1.2}", "f32[2]{0,2}" },
		{ "aten::ceil.out", "i32[1]{3}", "i32[1]{3}" },
		{ "aten::elu.out", "f32[2]{-1,2} 1. 1 1", "f32[2]{-0.632120559,2}" },
		{ "aten::elu.out", "f32[4]{-1,2,nan,-inf} 2. 3 0.5", "f32[4]{-2.36081604,6,nan,-6}" },
		{ "aten::elu.out", "f32[2]{-1,2} 1. 1 -1", "f32[2]{1.71828183,2}" },
		{ "aten::exp.out", "i64[2]{0,1}", "f32[2]{1,2.71828183}" },
		{ "aten::exp.out", "f16[]{100}", "f64[]{2.6881171418161356e43}" },
		{ "aten::gelu.out", "f32[2]{1,-1} none", "f32[2]{0.841344746,-0.158655254}" },
		{ "aten::gelu.out", "f32[2]{1,-1} tanh", "f32[2]{0.841191991,-0.158808009}" },
		{ "aten::hardtanh.out", "f32[4]{-2,0.5,9,nan} 0.0 6.0", "f32[4]{0,.5,6,nan}" },
		{ "aten::isnan.out", "f32[2]{nan,1}", "bool[2]{1,0}" },
		{ "aten::isnan.out", "i32[2]{5,1}", "bool[2]{0,0}" },
		{ "aten::leaky_relu.out", "f32[2]{-2,3} 0.1", "f32[2]{-0.2,3}" },
		{ "aten::logical_not.out", "f32[3]{0,-1,nan}", "bool[3]{1,0,0}" },
		{ "aten::logical_not.out", "f32[1,2,1,2]@0231{0,1,-0.0,2}", "bool[1,2,1,2]{1,0,1,0}" },
		{ "aten::logical_not.out", "f32[2]{0,-1}", "f32[2]{1,0}" },
		{ "aten::logical_not.out", "f32[2]{0,-1}", "! cannot take the sizes ! bool[3]{0,0,0}" },
		{ "aten::logical_not.out", "f32[0]{}", "bool[0]{}" },
		{ "aten::logit.out", "f32[3]{0.5,0.9,2} 0.1", "f32[3]{0,2.19722458,2.19722458}" },
		{ "aten::relu.out", "f32[3]{-1,nan,2}", "f32[3]{0,nan,2}" },
		{ "aten::round.out", "f32[4]{0.5,1.5,2.5,-0.5}", "f32[4]{0,2,2,0}" },
		{ "aten::round.decimals_out", "f32[2]{1.2345,-1.2355} 2", "f32[2]{1.23,-1.24}" },
		{ "aten::round.decimals_out", "f32[1]{1250} -2", "f32[1]{1200}" },
		{ "aten::sigmoid.out", "f32[2]{0,-1000}", "f32[2]{0.5,0}" },
		{ "aten::sign.out", "f32[3]{-3,0,nan}", "f32[3]{-1,0,nan}" },
		{ "aten::tanh.out", "f16[1]{1}", "f16[1]{0.7617}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void binary(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::clamp.out", "f32[4]{-1,0.5,3,nan} 0 -", "f32[4]{0,.5,3,nan}" },
		{ "aten::clamp.out", "i32[3]{-1,1,3} 0 2", "i32[3]{0,1,2}" },
		{ "aten::clamp.out", "i32[1]{1} - -", "! both limits are None ! i32[1]{0}" },
		{ "aten::clamp.Tensor_out", "f32[2]{-1,5} - f32[1]{2}", "f32[2]{-1,2}" },
		{ "aten::div.out_mode", "f32[2]{7,-7} f32[1]{2} floor", "f32[2]{3,-4}" },
		{ "aten::div.out_mode", "i32[2]{7,-7} i32[1]{2} trunc", "i32[2]{3,-3}" },
		{ "aten::div.out_mode", "i32[2]{7,-7} i32[1]{2} floor", "i32[2]{3,-4}" },
		{ "aten::div.out_mode", "i32[1]{7} i32[1]{0} floor", "! by zero ! i32[1]{0}" },
		{ "aten::div.out_mode",
			"i64[6]{-7,7,-7,-4294967297,4294967295,-9223372036854775808} "
			"i64[6]{2,-2,-2,2,-4294967295,3} trunc",
			"i64[6]{-3,-3,3,-2147483648,-1,-3074457345618258602}" },
		{ "aten::remainder.Scalar_out", "i64[4]{-7,7,-4294967297,-9223372036854775808} -3",
			"i64[4]{-1,-2,-2,-2}" },
		{ "aten::mul.out", "i16[3]{1,-2,30000} i16[1]{3}", "i16[3]{3,-6,24464}" },
		{ "aten::mul.Scalar_out", "i8[2]{100,-3} 259", "i8[2]{44,-9}" },
		{ "aten::div.out_mode", "i64[1]{-9223372036854775808} i64[1]{-1} trunc",
			"i64[1]{-9223372036854775808}" },
		{ "aten::div.out_mode", "f32[1]{7} f32[1]{2} -", "f32[1]{3.5}" },
		{ "aten::floor_divide.out", "f32[3]{1,-1,1} f32[3]{0.1,0,0}", "f32[3]{9,-inf,inf}" },
		{ "aten::fmod.Scalar_out", "i32[2]{-7,7} 3", "i32[2]{-1,1}" },
		{ "aten::fmod.Scalar_out", "i32[1]{-7} 0", "! by zero ! i32[1]{0}" },
		{ "aten::remainder.Scalar_out", "i32[2]{-7,7} 3", "i32[2]{2,1}" },
		{ "aten::remainder.Tensor_out", "f32[2]{-7,7} f32[2]{3,-3}", "f32[2]{2,-2}" },
		{ "aten::maximum.out", "f32[3]{1,nan,2} f32[3]{2,1,nan}", "f32[3]{2,nan,nan}" },
		{ "aten::fmax.out", "f32[3]{1,nan,2} f32[3]{2,1,nan}", "f32[3]{2,1,2}" },
		{ "aten::pow.Tensor_Scalar_out", "f32[2]{3,-3} 2", "f32[2]{9,9}" },
		{ "aten::pow.Tensor_Scalar_out", "i32[2]{3,-2} 3", "i32[2]{27,-8}" },
		{ "aten::pow.Scalar_out", "2 f32[2]{0.5,3}", "f32[2]{1.41421356,8}" },
		{ "aten::pow.Tensor_Tensor_out", "u8[1]{3} u8[1]{6}", "u8[1]{217}" },
		{ "aten::bitwise_left_shift.Tensor_out", "i8[3]{1,1,-1} i8[3]{7,8,1}", "i8[3]{-128,0,-2}" },
		{ "aten::bitwise_right_shift.Tensor_out", "i8[3]{-128,-1,64} i8[3]{7,9,3}", "i8[3]{-1,-1,8}" },
		{ "aten::bitwise_xor.Scalar_out", "bool[2]{1,0} true", "bool[2]{0,1}" },
		{ "aten::logical_xor.out", "f32[2]{2,0} bool[2]{1,1}", "bool[2]{0,1}" },
		{ "aten::masked_fill.Scalar_out", "f32[2]{1,2} bool[2]{0,1} -1", "f32[2]{1,-1}" },
		{ "aten::rsub.Scalar_out", "f32[1]{1} 3 2", "f32[1]{1}" },
		{ "aten::atan2.out", "i32[1]{1} i32[1]{-1}", "f32[1]{2.35619449}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void special(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::polygamma.out", "0 f64[3]{1,-0.5,100}", "f64[3]{-0.577215665,0.036489974,4.600161853}" },
		{ "aten::polygamma.out", "1 f64[2]{1,-0.5}", "f64[2]{1.644934067,8.934802201}" },
		{ "aten::polygamma.out", "2 f32[2]{1,-1}", "f32[2]{-2.404113806,-inf}" },
		{ "aten::polygamma.out", "-1 f32[1]{1}", "! order -1 ! f32[1]{0}" },
		{ "aten::i0.out", "f32[3]{inf,-inf,nan}", "f32[3]{nan,nan,nan}" },
		{ "aten::i0.out", "f64[3]{0,1,10}", "f64[3]{1,1.266065878,2815.716628}" },
		{ "aten::igamma.out", "f64[3]{1,2,0} f64[3]{1,5,1}", "f64[3]{0.632120559,0.959572318,1}" },
		{ "aten::igamma.out", "f32[5]{nan,nan,nan,0,inf} f32[5]{0,inf,1,nan,inf}", "f32[5]{0,1,nan,nan,nan}" },
		{ "aten::igammac.out", "f32[4]{nan,nan,0,inf} f32[4]{0,inf,3,7}", "f32[4]{1,0,0,1}" },
		{ "aten::ldexp.out", "f16[3]{0,3,1} f16[3]{40,4,-40}", "f16[3]{nan,48,0}" },
		{ "aten::ldexp.out", "f32[3]{0,3,1} f32[3]{40,4,-2}", "f32[3]{0,48,0.25}" },
		{ "aten::igammac.out", "f64[3]{1,2,1} f64[3]{1,5,-1}", "f64[3]{0.367879441,0.040427682,nan}" },
		{ "aten::angle.out", "f32[3]{-2,3,nan}", "f32[3]{3.14159265,0,nan}" },
		{ "aten::lgamma.out", "f32[1]{5}", "f32[1]{3.17805383}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static int64_t wrapped(int64_t value, unsigned bits, bool is_signed)
{
	uint64_t kept = (uint64_t)value & ((UINT64_C(1) << bits) - 1);
	bool is_below = is_signed && kept >> (bits - 1);
	return (int64_t)kept - (is_below ? INT64_C(1) << bits : 0);
}

static int64_t remainder_of(int64_t a, int64_t b)
{
	int64_t left = a % b;
	return left != 0 && (left < 0) != (b < 0) ? left + b : left;
}

/* Integers of 8 to 32 bits, elementwise, compared with the same in 64 bits: all edge values with each other. */
static void integers_of_all_widths(void **state)
{
	enum { N_OPS = 9 };
	static const char *const kernels[N_OPS] = { "aten::floor_divide.out", "aten::div.out_mode",
		"aten::remainder.Tensor_out", "aten::fmod.Tensor_out", "aten::bitwise_left_shift.Tensor_out",
		"aten::bitwise_right_shift.Tensor_out", "aten::add.out", "aten::sub.out", "aten::mul.out" };
	static const char *const more[N_OPS] = { "", " trunc", "", "", "", "", " 1", " 1", "" };
	static const struct {
		const char *name;
		unsigned bits;
		bool is_signed;
	} types[] = { { "i8", 8, true }, { "u8", 8, false }, { "i16", 16, true }, { "i32", 32, true } };
	for (size_t t = 0; t < ET_ARRAY_LEN(types); t++) {
		int64_t most = (INT64_C(1) << (types[t].bits - types[t].is_signed)) - 1,
			least = types[t].is_signed ? -most - 1 : 0;
		const int64_t edges[] = { least, least + 1, -7 * types[t].is_signed, -1 * types[t].is_signed, 0, 1, 2,
			3, 7, 9, types[t].bits, most / 3, most / 2 + 1, most - 1, most };
		for (size_t op = 0; op < N_OPS; op++) {
			char *args[2] = { NULL, NULL }, *both = NULL, *expected = NULL;
			size_t n[2], n_expected, n_both, count = 0;
			FILE *in[] = { open_memstream(&args[0], &n[0]), open_memstream(&args[1], &n[1]) },
			     *out = open_memstream(&expected, &n_expected), *all = open_memstream(&both, &n_both);
			assert_true(in[0] && in[1] && out && all);
			for (size_t k = 0; k < ET_ARRAY_LEN(edges) * ET_ARRAY_LEN(edges); k++) {
				int64_t a = edges[k / ET_ARRAY_LEN(edges)], b = edges[k % ET_ARRAY_LEN(edges)],
					shifted = b < 0 || b >= types[t].bits ? 0 : a * (INT64_C(1) << b),
					by = b < 0 || b >= types[t].bits ? 63 : b;
				if (op < 4 && b == 0)
					continue;
				int64_t rest = op < 4 ? remainder_of(a, b) : 0;
				int64_t results[N_OPS] = { op < 4 ? (a - rest) / b : 0, op < 4 ? a / b : 0, rest,
					op < 4 ? a % b : 0, shifted, a >> by, a + b, a - b, a * b };
				count++;
				fprintf(in[0], "%lld,", (long long)a);
				fprintf(in[1], "%lld,", (long long)b);
				fprintf(out, "%lld,",
					(long long)wrapped(results[op], types[t].bits, types[t].is_signed));
			}
			fclose(in[0]);
			fclose(in[1]);
			fclose(out);
			char *elements = expected, *whole = NULL;
			size_t n_whole;
			FILE *result = open_memstream(&whole, &n_whole);
			assert_true(result);
			for (size_t k = 0; k < 2; k++) {
				fprintf(all, "%s[%zu]{%s}%s", types[t].name, count, args[k], k ? more[op] : " ");
				free(args[k]);
			}
			fprintf(result, "%s[%zu]{%s}", types[t].name, count, elements);
			fclose(all);
			fclose(result);
			check_kernel_cases(&(const struct kernel_case){ kernels[op], both, whole }, 1);
			free(both);
			free(whole);
			free(elements);
		}
	}
}

/* Floats compared with the C library in double. */
static void gelu_of_many(void **state)
{
	enum { N = 2001 };
	char *args = NULL, *expected = NULL;
	size_t n_args, n_expected;
	FILE *in = open_memstream(&args, &n_args), *out = open_memstream(&expected, &n_expected);
	assert_true(in && out);
	fprintf(in, "f32[%d]{", N);
	fprintf(out, "f32[%d]{", N);
	for (int i = 0; i < N; i++) {
		float x = (float)(i - N / 2) * (float)(i - N / 2) * (i < N / 2 ? -1.2e-5f : 1.2e-5f);
		fprintf(in, "%.9g,", (double)x);
		fprintf(out, "%.9g,", (double)x / 2 * erfc(-(double)x * sqrt(0.5)));
	}
	fputs("} none", in);
	fputs("}", out);
	fclose(in);
	fclose(out);
	check_kernel_cases(&(const struct kernel_case){ "aten::gelu.out", args, expected }, 1);
	free(args);
	free(expected);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(integers_of_all_widths),
		cmocka_unit_test(gelu_of_many),
		cmocka_unit_test(promotion),
		cmocka_unit_test(shapes),
		cmocka_unit_test(unary),
		cmocka_unit_test(binary),
		cmocka_unit_test(special),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
