/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantized operators, embedding bags, distances, gradients and random numbers, worked out by hand. */
#include "runtime/kernels/test_rig.h"
#include "runtime/kernel.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static void quantized(void **state)
{
	static const struct kernel_case cases[] = {
		{ "quantized_decomposed::quantize_per_tensor.out", "f32[4]{1,-1,0.25,1000} 0.5 10 0 255 0",
			"u8[4]{12,8,10,255}" },
		{ "quantized_decomposed::quantize_per_tensor.out", "f32[2]{-1e9,1e9} 0.5 0 -2147483648 2147483647 3",
			"i32[2]{-2000000000,2000000000}" },
		/* NaN and values that no integer holds become the smallest */
		{ "quantized_decomposed::quantize_per_tensor.out", "f32[5]{inf,-inf,nan,1e30,1e9} 0.5 10 -8 127 1",
			"i8[5]{-8,-8,-8,-8,127}" },
		{ "quantized_decomposed::quantize_per_tensor.out", "f32[1]{1e10} 0.5 0 -2147483648 2147483647 3",
			"i32[1]{2147483647}" },
		{ "quantized_decomposed::quantize_per_tensor.out", "f32[1]{1} 0.5 10 0 256 0",
			"! from 0 to 256 ! u8[1]{0}" },
		{ "quantized_decomposed::quantize_per_tensor.out", "f32[1]{1} 0.5 10 0 255 1", "! dtype 1 ! u8[1]{0}" },
		{ "quantized_decomposed::quantize_per_tensor.Tensor_out", "f32[1]{1} f64[1]{0.5} i64[1]{1} 0 255 0",
			"u8[1]{3}" },
		{ "quantized_decomposed::dequantize_per_tensor.out", "u8[2]{12,8} 0.5 10 0 255 0 -", "f32[2]{1,-1}" },
		{ "quantized_decomposed::dequantize_per_tensor.out",
			"i8[1,2,1,2]@0231{-128,127,0,-1} 0.1 -3 -128 127 1 -", "f32[1,2,1,2]@0231{-12.5,13,0.3,0.2}" },
		{ "quantized_decomposed::dequantize_per_tensor.out",
			"u8[1,2,1,2]@0231{0,255,128,127} 0.5 128 0 255 0 -", "f32[1,2,1,2]{-64,63.5,0,-0.5}" },
		{ "quantized_decomposed::dequantize_per_tensor.out", "i8[2]{4,5} 0.5 2 -128 127 1 -",
			"! cannot take the sizes ! f32[3]{0,0,0}" },
		{ "quantized_decomposed::dequantize_per_tensor.out",
			"i32[3]{-2147483648,7,16777218} 0.5 1 -2147483648 2147483647 3 -",
			"= f32[3]{1073741823.5,3,8388608}" },
		{ "quantized_decomposed::dequantize_per_tensor.out", "i16[3]{-32768,7,32767} 0.5 1 -32768 32767 2 -",
			"= f32[3]{-16384.5,3,16383}" },
		{ "quantized_decomposed::dequantize_per_tensor.out", "b16[3]{0,7,65535} 0.5 1 0 65535 22 -",
			"= f32[3]{-0.5,3,32767}" },
		{ "quantized_decomposed::quantize_per_tensor.out", "f32[3]{-1,3,1e6} 0.5 1 0 65535 22",
			"b16[3]{0,7,65535}" },
		{ "quantized_decomposed::quantize_per_tensor.out", "f32[1]{3} 0.5 1 0 65535 27",
			"! not a quantized type ! b16[1]{0}" },
		{ "quantized_decomposed::dequantize_per_channel.out",
			"b16[2,1]{7,65535} f32[2]{0.5,2} i64[2]{1,0} 0 0 65535 22 -", "f32[2,1]{3,131070}" },
		{ "quantized_decomposed::dequantize_per_tensor.out", "i8[0]{} 0.5 2 -128 127 1 -", "f32[0]{}" },
		{ "quantized_decomposed::dequantize_per_tensor.out", "i8[1]{4} 0.5 2 -128 127 1 5", "f16[1]{1}" },
		/* computed in float: 0.1 times 3 differs from double */
		{ "quantized_decomposed::dequantize_per_tensor.out", "u8[2]{4,0} 0.1 1 0 255 0 7",
			"= f64[2]{0.30000001192092896,-0.10000000149011612}" },
		{ "quantized_decomposed::dequantize_per_tensor.out",
			"i32[2]{16777218,-5} 0.5 1 -2147483648 2147483647 3 7", "= f64[2]{8388608,-3}" },
		{ "quantized_decomposed::dequantize_per_channel.out",
			"i8[2,2]{1,2,3,4} f32[2]{0.5,2} i64[2]{0,1} 0 -128 127 1 5", "f16[2,2]{0.5,1,4,6}" },
		{ "quantized_decomposed::quantize_per_tensor.out", "f16[5]{1,-1,0.25,inf,nan} 0.5 10 0 255 0",
			"u8[5]{12,8,10,0,0}" },
		{ "quantized_decomposed::quantize_per_tensor.out",
			"bf16[2]{998244352,-3} 0.5 0 -2147483648 2147483647 3", "i32[2]{1996488704,-6}" },
		{ "quantized_decomposed::quantize_per_channel.out",
			"f32[2,2]{1,2,3,4} f32[2]{1,2} i64[2]{0,1} 0 -128 127 1", "i8[2,2]{1,2,3,3}" },
		/* 0.5 in float, more in double */
		{ "quantized_decomposed::quantize_per_channel.out", "f32[1,1]{0.05} f64[1]{0.1} i64[1]{0} 0 -128 127 1",
			"i8[1,1]{0}" },
		{ "quantized_decomposed::dequantize_per_tensor.out",
			"i32[2]{2000000001,-2147483648} 0.5 2000000000 -2147483648 2147483647 3 -",
			"f32[2]{0.5,73741824}" },
		{ "quantized_decomposed::quantize_per_channel.out",
			"f32[2,2]{1,2,3,4} f32[3]{1,2,3} i64[2]{0,1} 0 -128 127 1", "! 3 numbers ! i8[2,2]{0,0,0,0}" },
		{ "quantized_decomposed::dequantize_per_channel.out", "i8[2,2]{1,2,3,4} f64[2]{1,2} - -1 -128 127 1 -",
			"f32[2,2]{1,4,3,8}" },
		{ "quantized_decomposed::quantize_per_token.out",
			"f32[2,2]{1,2,3,4} f64[2,1]{1,2} i64[2,1]{0,1} -128 127 1", "i8[2,2]{1,2,3,3}" },
		{ "quantized_decomposed::dequantize_per_token.out",
			"i8[2,2]{1,2,3,3} f64[2,1]{1,2} i64[2,1]{0,1} -128 127 1 6", "f32[2,2]{1,2,4,4}" },
		{ "quantized_decomposed::quantize_per_token.out",
			"f32[1,2,2]{1,2,3,4} f64[2]{1,2} i64[2]{0,1} -128 127 1", "i8[1,2,2]{1,2,3,3}" },
		{ "quantized_decomposed::dequantize_per_token.out",
			"i8[1,2,2]{1,2,3,3} f64[2]{1,2} i64[2]{0,1} -128 127 1 6", "f32[1,2,2]{1,2,4,4}" },
		{ "quantized_decomposed::dequantize_per_token.out",
			"i8[2,2]{1,2,3,3} f64[3]{1,2,3} i64[2]{0,1} -128 127 1 6",
			"! 3 numbers for 2 tokens ! f32[2,2]{1,2,4,4}" },
		{ "quantized_decomposed::choose_qparams.Tensor_out", "f32[2]{inf,1} 0 255 1e-5 0",
			"f64[1]{inf} i64[1]{-2147483648}" },
		{ "quantized_decomposed::choose_qparams.Tensor_out", "f32[2]{-1,3} 0 255 1e-5 0",
			"f64[1]{0.0156862745} i64[1]{64}" },
		{ "quantized_decomposed::choose_qparams_per_token_asymmetric.out", "f32[2,2]{0,0,-1,3} 1",
			"f64[2,1]{0.1,0.0156862745} i64[2,1]{127,-64}" },
		{ "quantized_decomposed::add.out", "u8[1]{10} 0.5 2 0 255 u8[1]{6} 1.0 0 0 255 2.0 1 0 255",
			"u8[1]{6}" },
		{ "quantized_decomposed::add.out", "i16[1]{1000} 0.5 -2 0 255 i16[1]{-900} 0.5 0 0 255 1.0 1 0 255",
			"i16[1]{52}" },
		{ "quantized_decomposed::embedding_4bit.out", "u8[1,1]{159} f32[1]{2} - -8 7 i64[1]{0}",
			"f32[1,2]{2,14}" },
		{ "quantized_decomposed::embedding_2bit.out", "u8[1,1]{228} f32[1]{1} - -2 1 i32[1]{0}",
			"f32[1,4]{-2,-1,0,1}" },
		{ "quantized_decomposed::embedding_byte.out",
			"u8[2,2]{1,2,3,4} f32[2]{1,2} f32[2]{0,1} 0 255 i64[1]{1}", "f32[1,2]{4,6}" },
		{ "quantized_decomposed::embedding_byte.out", "u8[2,2]{1,2,3,4} f32[2]{1,2} - 0 255 i64[1]{2}",
			"! index 2 of 2 ! f32[1,2]{0,0}" },
		{ "quantized_decomposed::mixed_mm.out", "f32[1,2]{1,2} i8[2,2]{1,2,3,4} f32[2]{1,10} -",
			"f32[1,2]{61,82}" },
		{ "quantized_decomposed::mixed_linear.out", "f32[1,2]{1,2} i8[2,2]{1,2,3,4} f32[2]{1,10} - -",
			"f32[1,2]{5,110}" },
		{ "quantized_decomposed::mixed_linear.out", "f32[1,2]{1,2} i8[1,2]{3,4} f32[1,2]{1,10} - -",
			"f32[1,1]{83}" },
		/* fewer numbers than groups; and fp16, which is rounded after each step */
		{ "quantized_decomposed::mixed_linear.out", "f32[1,1]{1} i8[2,1]{1,1} f32[2,3]{1,2,3,4,5,6} - -",
			"f32[1,2]{1,2}" },
		{ "quantized_decomposed::mixed_linear.out", "f16[1,3]{2048,1,1} i8[1,3]{1,1,1} f16[1]{1} - -",
			"= f16[1,1]{2048}" },
		{ "quantized_decomposed::mixed_mm.out", "f16[1,3]{2048,1,1} i8[3,1]{1,1,1} f16[3]{1,1,1} -",
			"= f16[1,1]{2048}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void groups(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::_embedding_bag.out", "f32[2,1]{1,5} i64[3]{0,1,1} i64[2]{0,1} false 1 false - false -1",
			"f32[2,1]{1,5} i64[3]{0,1,1} i64[2]{1,2} i64[2]{1,2}" },
		{ "aten::_embedding_bag.out", "f32[2,1]{1,5} i64[2]{0,1} i64[1]{0} false 0 false f32[2]{2,3} false -1",
			"f32[1,1]{17} i64[0]{} i64[1]{0} i64[1]{0}" },
		{ "aten::_embedding_bag.out", "f32[2,1]{1,5} i64[2]{0,1} i64[2]{1,0} false 0 false - false -1",
			"! offset 0 ! f32[2,1]{0,0} i64[0]{} i64[2]{0,0} i64[2]{0,0}" },
		{ "aten::_embedding_bag_forward_only.out",
			"f32[3,2]{1,5,4,2,9,9} i64[4]{0,1,2,1} i64[2]{0,3} false 2 false - false 2",
			"f32[2,2]{4,5,4,2} i64[4]{0,0,0,1} i64[2]{2,1} i64[2,2]{1,0,1,1}" },
		{ "aten::index_reduce.out", "f32[2]{1,2} 0 i64[2]{0,0} f32[2]{3,5} prod true", "f32[2]{15,2}" },
		{ "aten::index_reduce.out", "f32[2]{1,2} 0 i64[2]{0,0} f32[2]{3,5} mean false", "f32[2]{4,2}" },
		{ "aten::_cdist_forward.out", "f32[1,2]{0,0} f32[2,2]{3,4,1,0} 2.0 -", "f32[1,2]{5,1}" },
		{ "aten::_cdist_forward.out", "f32[1,2]{0,0} f32[2,2]{3,4,1,0} inf -", "f32[1,2]{4,1}" },
		{ "aten::_cdist_forward.out", "f64[1,6]{1,2,3,4,5,-6} f64[2,6]{0,0,0,0,0,0, 1,2,3,4,5,nan} 1.0 -",
			"f64[1,2]{21,nan}" },
		{ "aten::_cdist_forward.out", "f32[1,6]{1,2,3,4,5,-6} f32[2,6]{0,0,0,0,0,0, 1,2,3,4,5,0} 2.0 -",
			"f32[1,2]{9.5393920,6}" },
		{ "aten::_cdist_forward.out", "f32[1,6]{1,2,3,4,5,-6} f32[2,6]{0,0,0,0,0,0, 1,2,3,4,5,0} 0.0 -",
			"f32[1,2]{6,1}" },
		{ "aten::_cdist_forward.out", "f32[1,2]{inf,1} f32[2,2]{inf,1, -inf,1} 0.0 -", "f32[1,2]{1,1}" },
		{ "aten::_cdist_forward.out", "f64[1,2]{1,2} f64[2,2]{nan,9, 9,nan} inf -", "f64[1,2]{nan,nan}" },
		{ "aten::_pdist_forward.out", "f32[3,1]{0,1,3} 1.0", "f32[3]{1,3,2}" },
		{ "aten::dist.out", "f32[2]{1,2} f32[2]{4,6} 2", "f32[]{5}" },
		{ "aten::glu.out", "f32[4]{1,2,0,0} 0", "f32[2]{.5,1}" },
		{ "aten::tril.out", "f32[2,3]{1,2,3,4,5,6} 1", "f32[2,3]{1,2,0,4,5,6}" },
		{ "aten::convolution_backward.out",
			"f32[1,1,2]{1,1} f32[1,1,3]{1,2,3} f32[1,1,2]{1,10} (1) (1) (0) (1) false (0) 1 "
			"(true,true,true)",
			"f32[1,1,3]{1,11,10} f32[1,1,2]{3,5} f32[1]{2}" },
		/* the bias's sizes do not matter; outputs that are not wanted are zeroed */
		{ "aten::convolution_backward.out",
			"f32[1,2,3]{1,2,3,4,5,6} f32[1,2,5]{1,2,3,4,5,6,7,8,9,10} "
			"f32[2,1,3]{1,10,100,2,20,200} - (2) (1) (1) false (0) 2 (true,true,true)",
			"f32[1,2,5]{10,102,20,203,30,80,810,100,1012,120} f32[2,1,3]{16,22,10,89,124,73} "
			"f32[2]{6,15}" },
		{ "aten::convolution_backward.out",
			"f32[1,1,2]{1,1} f32[1,1,3]{1,2,3} f32[1,1,2]{1,10} - (1) (0) (1) false (0) 1 "
			"(false,true,false)",
			"f32[1,1,3]{0,0,0} f32[1,1,2]{3,5} f32[1]{0}" },
		{ "aten::native_dropout.out", "f32[2]{1,2} 0.5 false", "f32[2]{1,2} bool[2]{1,1}" },
		{ "aten::native_dropout.out", "f32[2]{1,2} 1.0 true", "f32[2]{0,0} bool[2]{0,0}" },
		{ "aten::rand.out", "(2)", "! INT32 ! i32[2]{0,0}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

/* Two draws differ, and have the distribution they should have. */
static void random_numbers(void **state)
{
	enum { N = 20000 };
	static float drawn[2][N];
	for (int is_normal = 0; is_normal < 2; is_normal++) {
		const struct et_kernel *kernel = find_kernel(is_normal ? "aten::randn.out" : "aten::rand.out");
		double mean = 0, squares = 0;
		for (int k = 0; k < 2; k++) {
			int32_t size = N, stride = 1;
			uint8_t order = 0;
			struct et_tensor tensor = { .data = drawn[k],
				.capacity = N,
				.sizes = &size,
				.strides = &stride,
				.dim_order = &order,
				.type = ET_FLOAT32,
				.n_dims = 1 };
			struct et_evalue n = { .i = N, .tag = ET_TAG_INT },
					 out = { .tensor = &tensor, .tag = ET_TAG_TENSOR };
			struct et_evalue *items[] = { &n };
			struct et_list list = { .n = 1, .values = items };
			struct et_evalue sizes = { .list = &list, .tag = ET_TAG_INT_LIST };
			struct et_kernel_ctx ctx = { .kernel = kernel };
			assert_int_equal(kernel->run(&ctx, (struct et_evalue *[]){ &sizes, &out }), ET_OK);
		}
		assert_memory_not_equal(drawn[0], drawn[1], sizeof(drawn[0]));
		for (int i = 0; i < N; i++) {
			assert_true(is_normal || (drawn[0][i] >= 0 && drawn[0][i] <= 1));
			mean += drawn[0][i] / N;
			squares += (double)drawn[0][i] * drawn[0][i] / N;
		}
		/* Ten standard errors: this does not fail by chance. */
		assert_true(fabs(mean - (is_normal ? 0 : 0.5)) < (is_normal ? 0.071 : 0.021));
		assert_true(fabs(squares - mean * mean - (is_normal ? 1 : 1. / 12)) < 0.12);
	}
}

/* Runs long enough for loops of their own: each type, back and forth. */
static void long_ones(void **state)
{
	enum { CHANNELS = 3, INNER = 37, N = 2 * CHANNELS * INNER };
	static const struct {
		const char *name;
		int type;
		long long least, most;
	} types[] = { { "u8", 0, 0, 255 }, { "i8", 1, -128, 127 }, { "i16", 2, -32768, 32767 },
		{ "i32", 3, -2147483648, 2147483647 } };
	for (size_t t = 0; t < ET_ARRAY_LEN(types); t++) {
		char *args[3] = { NULL, NULL, NULL }, *expected[3] = { NULL, NULL, NULL };
		const char *name = types[t].name;
		size_t n[6];
		FILE *in[3], *out[3];
		for (size_t k = 0; k < 3; k++) {
			in[k] = open_memstream(&args[k], &n[k]);
			out[k] = open_memstream(&expected[k], &n[3 + k]);
			assert_true(in[k] && out[k]);
		}
		fprintf(in[0], "%s[2,3,37]{", name);
		fprintf(in[1], "f32[%d]{", N);
		fprintf(in[2], "%s[%d]{", name, N);
		fputs("f32[2,3,37]{", out[0]);
		fprintf(out[1], "%s[%d]{", name, N);
		fprintf(out[2], "%s[%d]{", name, N);
		for (int i = 0; i < N; i++) {
			int x = i * 5 % 113, channel = i / INNER % CHANNELS;
			double wide = (i - N / 2) * 0x1p24, q = (double)((float)(wide * 4) + 9);
			fprintf(in[0], "%d,", x);
			fprintf(out[0], "%.9g,", (x - (channel + 4)) * (0.25 * (channel + 1)));
			fprintf(in[1], "%.1f,", i % 3 ? (i - N / 2) / 2.0 : wide);
			q = i % 3 ? (i - N / 2) * 2.0 + 9 : q;
			fprintf(out[1], "%.0f,", fmin(fmax(q, (double)types[t].least), (double)types[t].most));
			fprintf(in[2], "%d,", x);
			fprintf(out[2], "%.0f,", fmin(rint(((x - 2) * 0.5 + (x - 1) * 1.0) * 0.5) + 1, 127));
		}
		fprintf(in[0], "} f32[3]{0.25,0.5,0.75} i64[3]{4,5,6} 1 %lld %lld %d -", types[t].least, types[t].most,
			types[t].type);
		fprintf(in[1], "} 0.25 9 %lld %lld %d", types[t].least, types[t].most, types[t].type);
		fprintf(in[2], "} 0.5 2 0 255 %s[%d]{", name, N);
		for (int i = 0; i < N; i++)
			fprintf(in[2], "%d,", i * 5 % 113);
		fputs("} 1.0 1 0 255 2.0 1 0 127", in[2]);
		static const char *const kernels[] = { "quantized_decomposed::dequantize_per_channel.out",
			"quantized_decomposed::quantize_per_tensor.out", "quantized_decomposed::add.out" };
		for (size_t k = 0; k < 3; k++) {
			fputs("}", out[k]);
			fclose(in[k]);
			fclose(out[k]);
			check_kernel_cases(&(const struct kernel_case){ kernels[k], args[k], expected[k] }, 1);
			free(args[k]);
			free(expected[k]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantized),
		cmocka_unit_test(long_ones),
		cmocka_unit_test(groups),
		cmocka_unit_test(random_numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
