/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers that decide addresses, sizes or divisions and are out of range: each kernel that takes one refuses it with a
 * text. Every tensor is an allocation of its exact size (test_rig.c), so the address sanitizer also sees that nothing
 * outside was touched.
 *
 * A row is a case in which '#' stands for the number; it is tried with many numbers. */
#include "runtime/kernels/test_rig.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum counting {
	FROM_START, /* 0 … size - 1 */
	FROM_BOTH,  /* -1 is the last one, too */
};

struct outside {
	const char *kernel, *args, *outputs;
	const char *words; /* of the refusal */
	int64_t size;      /* the first number that is too large */
	enum counting counting;
};

static void try_number(const struct outside *row, int64_t number)
{
	char args[300], expected[200];
	const char *hole = strchr(row->args, '#');
	assert_non_null(hole);
	snprintf(args, sizeof(args), "%.*s%" PRId64 "%s", (int)(hole - row->args), row->args, number, hole + 1);
	snprintf(expected, sizeof(expected), "! %s ! %s", row->words, row->outputs);
	check_kernel_cases(&(struct kernel_case){ row->kernel, args, expected }, 1);
}

static void try_rows(const struct outside *rows, size_t n_rows)
{
	for (size_t i = 0; i < n_rows; i++) {
		const struct outside *row = &rows[i];
		const int64_t lowest = row->counting == FROM_BOTH ? -row->size : 0;
		const int64_t numbers[] = { row->size, row->size + 1, lowest - 1, lowest - 2, INT32_MAX, INT32_MIN,
			(int64_t)UINT32_MAX + 1, INT64_MAX, INT64_MAX / 4 + 1, INT64_MIN };
		for (size_t k = 0; k < ET_ARRAY_LEN(numbers); k++)
			try_number(row, numbers[k]);
	}
}

/* Sizes at the ends of their range, of tensors with no or hardly any elements. */
static void sizes_without_elements(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::gather.out", "f32[2]{1,2} 0 i64[0]{} false", "f32[0]{}" },
		{ "aten::gather.out", "f32[2,2]{1,2,3,4} 0 i64[0]{} false", "f32[0]{}" },
		{ "aten::scatter.src_out", "f32[2]{1,2} 0 i64[0]{} f32[1]{3}", "f32[2]{1,2}" },
		{ "aten::scatter.value_out", "f32[2]{1,2} 0 i64[0]{} 3", "f32[2]{1,2}" },
		{ "aten::index_select.out", "f32[]{1} 0 i64[2]{0,0}", "! 2 indices ! f32[]{0}" },
		{ "aten::index_select.out", "f32[]{1} 0 i64[1]{0}", "f32[]{1}" },
		{ "aten::_softmax.out", "f32[2147483647,2147483647,0]{} 2 false", "f64[2147483647,2147483647,0]{}" },
		{ "aten::cumsum.out", "i32[2147483647,2147483647,0]{} 2 -", "i64[2147483647,2147483647,0]{}" },
		{ "aten::convolution.out",
			"f64[1,0,1,1]{} f64[1,0,2147483647,2147483647]@2301{} f64[1]{3} (1,1) "
			"(1073741823,1073741823) (1,1) false (0,0) 1",
			"f64[1,0,1,1]{}" },
		{ "aten::convolution.out",
			"i32[1,0,1,1]{} i32[1,0,2147483647,2147483647]@2301{} - (1,1) "
			"(1073741823,1073741823) (1,1) "
			"false (0,0) 1",
			"i32[1,0,1,1]{}" },
		{ "aten::linear.out", "f32[2147483647,2147483647,0]{} f32[0,0]{} -", "f32[2147483647,2147483647,0]{}" },
		{ "aten::bmm.out", "f32[2147483647,2147483647,0]{} f32[2147483647,0,0]{}",
			"f32[2147483647,2147483647,0]{}" },
		{ "aten::addbmm.out", "i32[1]{3} i32[2147483647,1,0]{} i32[2147483647,0,1]{} 1 1", "i32[1,1]{3}" },
		{ "aten::_adaptive_avg_pool3d.out", "f32[1,2147483647,2147483647,0]@0123{} (1,1,1)",
			"f32[1,1,1,1]{nan}" },
		{ "aten::grid_sampler_2d.out",
			"f32[2147483647,0,1,1]{} f32[2147483647,2147483647,0,2]@1023{} 0 0 false",
			"f32[2147483647,0,2147483647,0]@2013{}" },
		{ "aten::tril.out", "i8[2147483647,2147483647,0]{} 0", "i8[2147483647,2147483647,0]{}" },
		{ "cadence::quantized_matmul.out", "i8[2147483647,0,0]{} 0 i8[2147483647,0,1000]{} 0 - 1 0 0 false",
			"i8[2147483647,0,1000]{}" },
		/* no rank at all */
		{ "cadence::quantized_conv2d_nchw.per_tensor_out",
			"i8[]{1} i8[1,1,1,1]{1} i32[1]{0} (1) (0) (1) 1 0 0 1.0 1.0 0 0 0",
			"! rank 0 ! i8[1,1,1,1]{0}" },
		{ "aten::native_dropout.out", "f32[2,2]{1,2,3,4} 0.5 true",
			"! the sizes [2,2] ! f32[2]{0,0} bool[1]{0}" },
		{ "quantized_decomposed::add.out", "i8[1,1]{1} 1.0 0 0 127 i8[1,1]{1} 1.0 0 0 127 1.0 0 0 127",
			"! the sizes [1,1] ! i8[1]{0}" },
		/* numbers whose product is 2^64, which is 0 */
		{ "aten::native_group_norm.out", "f32[16,1073741824,0]{} - - 16 1073741824 1073741824 1 1e-5",
			"! elements are not ! f32[16,1073741824,0]{} "
			"f32[16,1]{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0} "
			"f32[16,1]{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}" },
		/* strides whose product does not fit an int64 */
		{ "aten::convolution.out",
			"f32[1,1,1,1]{2} f32[1,1,1,1]{3} - (2147483645,2147483645) (1,1) (1,1) false (0,0) 1",
			"f32[1,1,1,1]{0}" },
		{ "aten::convolution.out",
			"f32[1,1,1,1]{2} f32[1,1,1,4]{3,3,3,3} - (2147483645,1431655766) (1,2147483646) "
			"(1,1431655764) false (0,0) 1",
			"f32[1,1,1,1]{0}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void an_index_that_points_outside(void **state)
{
	static const struct outside rows[] = {
		{ "aten::index.Tensor_out", "f32[2]{1,2} (i64[1]{#})", "f32[1]{0}", "index", 2, FROM_BOTH },
		{ "aten::index.Tensor_out", "f32[3,2]{1,2,3,4,5,6} (-;i64[2]{0,#})", "f32[3,2]{0,0,0,0,0,0}", "index",
			2, FROM_BOTH },
		{ "aten::index.Tensor_out", "f32[2,2]{1,2,3,4} (i64[1]{0};i64[1]{#})", "f32[1]{0}", "index", 2,
			FROM_BOTH },
		{ "aten::index_put.out", "f32[2]{1,2} (i64[1]{#}) f32[1]{9} false", "f32[2]{0,0}", "index", 2,
			FROM_BOTH },
		{ "aten::index_put.out", "f32[2]{1,2} (i64[1]{#}) f32[1]{9} true", "f32[2]{0,0}", "index", 2,
			FROM_BOTH },
		{ "aten::index_put_", "f32[2]{1,2} (i64[1]{#}) f32[1]{9} false", "f32[2]{1,2}", "index", 2, FROM_BOTH },
		{ "aten::index_put_", "f32[2]{1,2} (i64[1]{#}) f32[1]{9} true", "f32[2]{1,2}", "index", 2, FROM_BOTH },
		{ "aten::index_select.out", "f32[2,2]{1,2,3,4} 1 i64[1]{#}", "f32[2,1]{0,0}", "index", 2, FROM_START },
		{ "aten::gather.out", "f32[2,2]{1,2,3,4} 1 i64[1,1]{#} false", "f32[1,1]{0}", "index", 2, FROM_BOTH },
		{ "aten::scatter.src_out", "f32[2]{1,2} 0 i64[1]{#} f32[1]{9}", "f32[2]{0,0}", "index", 2, FROM_BOTH },
		{ "aten::scatter.value_out", "f32[2]{1,2} 0 i64[1]{#} 9", "f32[2]{0,0}", "index", 2, FROM_BOTH },
		{ "aten::scatter.reduce_out", "f32[2]{1,2} 0 i64[1]{#} f32[1]{9} add", "f32[2]{0,0}", "index", 2,
			FROM_BOTH },
		{ "aten::scatter.reduce_out", "f32[2]{1,2} 0 i64[1]{#} f32[1]{9} multiply", "f32[2]{0,0}", "index", 2,
			FROM_BOTH },
		{ "aten::scatter_add.out", "f32[2]{1,2} 0 i64[1]{#} f32[1]{9}", "f32[2]{0,0}", "index", 2, FROM_BOTH },
		{ "aten::index_reduce.out", "f32[2]{1,2} 0 i64[1]{#} f32[1]{9} prod true", "f32[2]{0,0}", "index", 2,
			FROM_START },
		{ "aten::embedding.out", "f32[2,2]{1,2,3,4} i64[1]{#} -1 false false", "f32[1,2]{0,0}", "index", 2,
			FROM_START },
		{ "aten::_embedding_bag.out", "f32[2,1]{1,2} i64[1]{#} i64[1]{0} false 0 false - false -1",
			"f32[1,1]{0} i64[1]{0} i64[1]{0} i64[1]{0}", "index", 2, FROM_START },
		{ "aten::_embedding_bag.out", "f32[2,1]{1,2} i64[2]{0,1} i64[2]{0,#} false 1 false - false -1",
			"f32[2,1]{0,0} i64[2]{0,0} i64[2]{0,0} i64[2]{0,0}", "offset", 3, FROM_START },
		{ "aten::max_pool2d_with_indices_backward.grad_input",
			"f32[1,1,1]{1} f32[1,2,2]{1,2,3,4} (2,2) (2,2) (0,0) (1,1) false i64[1,1,1]{#}",
			"f32[1,2,2]{0,0,0,0}", "index", 4, FROM_START },
		{ "aten::searchsorted.Tensor_out", "f32[2]{1,2} f32[1]{2} false false - i64[2]{0,#}", "i64[1]{0}",
			"index", 2, FROM_START },
		{ "aten::select_copy.int_out", "f32[2]{1,2} 0 #", "f32[]{0}", "index", 2, FROM_BOTH },
		{ "aten::select_scatter.out", "f32[2]{1,2} f32[]{9} 0 #", "f32[2]{0,0}", "index", 2, FROM_BOTH },
		{ "aten::narrow_copy.out", "f32[2]{1,2} 0 # 1", "f32[1]{0}", "", 2, FROM_BOTH },
		{ "aten::narrow_copy.out", "f32[2]{1,2} 0 0 #", "f32[2]{0,0}", "", 3, FROM_START },
		{ "aten::as_strided_copy.out", "f32[2]{1,2} (1) (1) #", "f32[1]{0}", "", 2, FROM_START },
		{ "aten::as_strided_copy.out", "f32[2]{1,2} (2) (#) 0", "f32[2]{0,0}", "", 2, FROM_START },
		{ "aten::as_strided_copy.out", "f32[2]{1,2} (#) (1) 0", "f32[2]{0,0}", "", 3, FROM_START },
		{ "aten::as_strided_scatter.out", "f32[2]{1,2} f32[1]{9} (1) (1) #", "f32[2]{0,0}", "", 2, FROM_START },
		{ "executorch_prim::et_copy_index.tensor", "f32[2,1]{1,2} f32[1]{9} #", "f32[2,1]{1,2}", "", 2,
			FROM_START },
		{ "quantized_decomposed::embedding_byte.out", "u8[2,1]{1,2} f32[2]{1,1} - 0 255 i64[1]{#}",
			"f32[1,1]{0}", "index", 2, FROM_START },
		{ "quantized_decomposed::embedding_byte.dtype_out", "u8[2,1]{1,2} f32[2]{1,1} - 0 255 i64[1]{#} -",
			"f32[1,1]{0}", "index", 2, FROM_START },
		{ "quantized_decomposed::embedding_4bit.out", "u8[2,1]{1,2} f32[2]{1,1} - -8 7 i64[1]{#}",
			"f32[1,2]{0,0}", "index", 2, FROM_START },
		{ "quantized_decomposed::embedding_4bit.dtype_out", "u8[2,1]{1,2} f32[2]{1,1} - -8 7 i64[1]{#} -",
			"f32[1,2]{0,0}", "index", 2, FROM_START },
		{ "quantized_decomposed::embedding_2bit.out", "u8[2,1]{1,2} f32[2]{1,1} - -2 1 i64[1]{#}",
			"f32[1,4]{0,0,0,0}", "index", 2, FROM_START },
		{ "quantized_decomposed::embedding_2bit.dtype_out", "u8[2,1]{1,2} f32[2]{1,1} - -2 1 i64[1]{#} -",
			"f32[1,4]{0,0,0,0}", "index", 2, FROM_START },
	};
	try_rows(rows, ET_ARRAY_LEN(rows));
}

static void a_dimension_that_does_not_exist(void **state)
{
	static const struct outside rows[] = {
		{ "aten::index_select.out", "f32[2]{1,2} # i64[1]{0}", "f32[1]{0}", "", 1, FROM_BOTH },
		{ "aten::gather.out", "f32[2]{1,2} # i64[1]{0} false", "f32[1]{0}", "", 1, FROM_BOTH },
		{ "aten::scatter.src_out", "f32[2]{1,2} # i64[1]{0} f32[1]{9}", "f32[2]{0,0}", "", 1, FROM_BOTH },
		{ "aten::scatter.value_out", "f32[2]{1,2} # i64[1]{0} 9", "f32[2]{0,0}", "", 1, FROM_BOTH },
		{ "aten::scatter_add.out", "f32[2]{1,2} # i64[1]{0} f32[1]{9}", "f32[2]{0,0}", "", 1, FROM_BOTH },
		{ "aten::index_reduce.out", "f32[2]{1,2} # i64[1]{0} f32[1]{9} prod true", "f32[2]{0,0}", "", 1,
			FROM_BOTH },
		{ "aten::select_copy.int_out", "f32[2]{1,2} # 0", "f32[]{0}", "", 1, FROM_BOTH },
		{ "aten::select_scatter.out", "f32[2]{1,2} f32[]{9} # 0", "f32[2]{0,0}", "", 1, FROM_BOTH },
		{ "aten::slice_copy.Tensor_out", "f32[2]{1,2} # 0 1 1", "f32[1]{0}", "", 1, FROM_BOTH },
		{ "aten::slice_scatter.out", "f32[2]{1,2} f32[1]{9} # 0 1 1", "f32[2]{0,0}", "", 1, FROM_BOTH },
		{ "aten::narrow_copy.out", "f32[2]{1,2} # 0 1", "f32[1]{0}", "", 1, FROM_BOTH },
		{ "aten::unfold_copy.out", "f32[2]{1,2} # 1 1", "f32[2,1]{0,0}", "", 1, FROM_BOTH },
		{ "aten::diagonal_copy.out", "f32[2,2]{1,2,3,4} 0 0 #", "f32[2]{0,0}", "", 2, FROM_BOTH },
		{ "aten::diagonal_scatter.out", "f32[2,2]{1,2,3,4} f32[2]{8,9} 0 # 1", "f32[2,2]{0,0,0,0}", "", 2,
			FROM_BOTH },
		{ "aten::permute_copy.out", "f32[1,2]{1,2} (#,0)", "f32[2,1]{0,0}", "", 2, FROM_BOTH },
		{ "aten::transpose_copy.int_out", "f32[1,2]{1,2} 0 #", "f32[2,1]{0,0}", "", 2, FROM_BOTH },
		{ "aten::flip.out", "f32[2]{1,2} (#)", "f32[2]{0,0}", "", 1, FROM_BOTH },
		{ "aten::roll.out", "f32[2]{1,2} (1) (#)", "f32[2]{0,0}", "", 1, FROM_BOTH },
		{ "aten::unsqueeze_copy.out", "f32[2]{1,2} #", "f32[2,1]{0,0}", "", 2, FROM_BOTH },
		{ "aten::squeeze_copy.dim_out", "f32[2]{1,2} #", "f32[2]{0,0}", "", 1, FROM_BOTH },
		{ "aten::squeeze_copy.dims_out", "f32[2]{1,2} (#)", "f32[2]{0,0}", "", 1, FROM_BOTH },
		{ "aten::cat.out", "(f32[1]{1};f32[1]{2}) #", "f32[2]{0,0}", "", 1, FROM_BOTH },
		{ "aten::stack.out", "(f32[1]{1};f32[1]{2}) #", "f32[2,1]{0,0}", "", 2, FROM_BOTH },
		{ "aten::split_copy.Tensor_out", "f32[2]{1,2} 1 #", "(f32[1]{0};f32[1]{0})", "", 1, FROM_BOTH },
		{ "aten::split_with_sizes_copy.out", "f32[2]{1,2} (1,1) #", "(f32[1]{0};f32[1]{0})", "", 1, FROM_BOTH },
		{ "aten::unbind_copy.int_out", "f32[2]{1,2} #", "(f32[]{0};f32[]{0})", "", 1, FROM_BOTH },
		{ "aten::glu.out", "f32[2]{1,2} #", "f32[1]{0}", "", 1, FROM_BOTH },
		{ "aten::_softmax.out", "f32[2]{1,2} # false", "f32[2]{0,0}", "", 1, FROM_BOTH },
		{ "aten::_log_softmax.out", "f32[2]{1,2} # false", "f32[2]{0,0}", "", 1, FROM_BOTH },
		{ "aten::cumsum.out", "f32[2]{1,2} # -", "f32[2]{0,0}", "", 1, FROM_BOTH },
		{ "aten::cumprod.out", "f32[2]{1,2} # -", "f32[2]{0,0}", "", 1, FROM_BOTH },
		{ "aten::sort.values", "f32[2]{1,2} # false", "f32[2]{0,0} i64[2]{0,0}", "", 1, FROM_BOTH },
		{ "aten::topk.values", "f32[2]{1,2} 1 # true true", "f32[1]{0} i64[1]{0}", "", 1, FROM_BOTH },
		{ "aten::topk.values", "f32[2]{1,2} # 0 true true", "f32[2]{0,0} i64[2]{0,0}", "", 3, FROM_START },
		{ "aten::median.dim_values", "f32[2]{1,2} # false", "f32[]{0} i64[]{0}", "", 1, FROM_BOTH },
		{ "aten::nanmedian.dim_values", "f32[2]{1,2} # false", "f32[]{0} i64[]{0}", "", 1, FROM_BOTH },
		{ "aten::max.dim_max", "f32[2]{1,2} # false", "f32[]{0} i64[]{0}", "", 1, FROM_BOTH },
		{ "aten::min.dim_min", "f32[2]{1,2} # false", "f32[]{0} i64[]{0}", "", 1, FROM_BOTH },
		{ "aten::argmax.out", "f32[2]{1,2} # false", "i64[]{0}", "", 1, FROM_BOTH },
		{ "aten::argmin.out", "f32[2]{1,2} # false", "i64[]{0}", "", 1, FROM_BOTH },
		{ "aten::any.out", "bool[2]{0,1} # false", "bool[]{0}", "", 1, FROM_BOTH },
		{ "aten::any.dims_out", "bool[2]{0,1} (#) false", "bool[]{0}", "", 1, FROM_BOTH },
		{ "aten::sum.IntList_out", "f32[2]{1,2} (#) false -", "f32[]{0}", "", 1, FROM_BOTH },
		{ "aten::mean.out", "f32[2]{1,2} (#) false -", "f32[]{0}", "", 1, FROM_BOTH },
		{ "aten::prod.int_out", "f32[2]{1,2} # false -", "f32[]{0}", "", 1, FROM_BOTH },
		{ "aten::amax.out", "f32[2]{1,2} (#) false", "f32[]{0}", "", 1, FROM_BOTH },
		{ "aten::amin.out", "f32[2]{1,2} (#) false", "f32[]{0}", "", 1, FROM_BOTH },
		{ "aten::var.out", "f32[2]{1,2} (#) true false", "f32[]{0}", "", 1, FROM_BOTH },
		{ "aten::sym_size.int", "f32[2]{1,2} #", "0", "", 1, FROM_BOTH },
		{ "quantized_decomposed::quantize_per_channel.out", "f32[2]{1,2} f64[2]{1,1} i64[2]{0,0} # 0 255 0",
			"u8[2]{0,0}", "", 1, FROM_BOTH },
	};
	try_rows(rows, ET_ARRAY_LEN(rows));
}

static void masks_and_counts_that_do_not_fit(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::index.Tensor_out", "f32[3]{1,2,3} (bool[2]{1,1})", "! a mask of size 2 ! f32[2]{0,0}" },
		{ "aten::index.Tensor_out", "f32[3]{1,2,3} (bool[4]{1,1,1,1})", "! a mask of size 4 ! f32[3]{0,0,0}" },
		{ "aten::index_put_", "f32[2]{1,2} (bool[3]{1,1,1}) f32[1]{9} false",
			"! a mask of size 3 ! f32[2]{0,0}" },
		{ "aten::masked_select.out", "f32[3]{1,2,3} bool[2]{1,1}", "! broadcast ! f32[2]{0,0}" },
		{ "aten::masked_scatter.out", "f32[2]{1,2} bool[2]{1,1} f32[1]{8}",
			"! the mask chooses more ! f32[2]{0,0}" },
		{ "aten::repeat_interleave.Tensor_out", "i64[2]{1,-1} -", "! repeats ! i64[1]{0}" },
		{ "aten::repeat_interleave.Tensor_out", "i64[2]{1,9223372036854775807} -", "! repeats ! i64[1]{0}" },
		{ "aten::split_with_sizes_copy.out", "f32[2]{1,2} (3,-1) 0", "!  ! (f32[1]{0};f32[1]{0})" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void an_integer_divided_by_zero(void **state)
{
	static const struct {
		const char *kernel, *args; /* '#' is the type */
	} rows[] = {
		{ "aten::div.out_mode", "#[2]{7,7} #[2]{1,0} trunc" },
		{ "aten::div.out_mode", "#[2]{7,7} #[2]{1,0} floor" },
		{ "aten::div.Scalar_mode_out", "#[2]{7,7} 0 trunc" },
		{ "aten::div.Scalar_mode_out", "#[2]{7,7} 0 floor" },
		{ "aten::floor_divide.out", "#[2]{7,7} #[2]{1,0}" },
		{ "aten::fmod.Tensor_out", "#[2]{7,7} #[2]{1,0}" },
		{ "aten::fmod.Scalar_out", "#[2]{7,7} 0" },
		{ "aten::remainder.Tensor_out", "#[2]{7,7} #[2]{1,0}" },
		{ "aten::remainder.Scalar_out", "#[2]{7,7} 0" },
	};
	static const char *const types[] = { "u8", "i8", "i16", "i32", "i64" };
	static const struct kernel_case numbers[] = {
		{ "executorch_prim::floordiv.Scalar", "1 0", "! by zero ! 0" },
		{ "executorch_prim::floordiv.int", "1 0", "! by zero ! 0" },
		{ "executorch_prim::mod.Scalar", "1 0", "! by zero ! 0" },
		{ "executorch_prim::mod.int", "1 0", "! by zero ! 0" },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(rows); i++) {
		for (size_t t = 0; t < ET_ARRAY_LEN(types); t++) {
			char args[100], expected[100];
			size_t n = 0;
			for (const char *at = rows[i].args; *at; at++)
				n += (size_t)snprintf(args + n, sizeof(args) - n, "%.*s",
					*at == '#' ? (int)strlen(types[t]) : 1, *at == '#' ? types[t] : at);
			snprintf(expected, sizeof(expected), "! by zero ! %s[2]{0,0}", types[t]);
			check_kernel_cases(&(struct kernel_case){ rows[i].kernel, args, expected }, 1);
		}
	}
	check_kernel_cases(numbers, ET_ARRAY_LEN(numbers));
}

/* An output's memory is as large as the program's upper bound. */
static void a_result_beyond_the_bound(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::masked_select.out", "f32[3]{1,2,3} bool[3]{1,1,0}", "! the sizes [2] ! f32[1]{0}" },
		{ "aten::nonzero.out", "f32[3]{1,2,0}", "! the sizes [2,1] ! i64[1,1]{0}" },
		{ "aten::repeat_interleave.Tensor_out", "i64[2]{1,2} -", "! the sizes [3] ! i64[2]{0,0}" },
		{ "aten::index.Tensor_out", "f32[3]{1,2,3} (i64[2]{0,1})", "! the sizes [2] ! f32[1]{0}" },
		{ "aten::index.Tensor_out", "f32[3]{1,2,3} (bool[3]{1,1,0})", "! the sizes [2] ! f32[1]{0}" },
		{ "aten::index_select.out", "f32[3]{1,2,3} 0 i64[2]{0,1}", "! the sizes [2] ! f32[1]{0}" },
		{ "aten::gather.out", "f32[3]{1,2,3} 0 i64[2]{0,1} false", "! the sizes [2] ! f32[1]{0}" },
		{ "aten::embedding.out", "f32[2,1]{1,2} i64[2]{0,1} -1 false false",
			"! the sizes [2,1] ! f32[1,1]{0}" },
		{ "aten::scatter_add.out", "f32[2]{1,2} 0 i64[1]{0} f32[1]{9}", "! the sizes [2] ! f32[1]{0}" },
		{ "aten::arange.start_out", "0 3 1", "! the sizes [3] ! f32[2]{0,0}" },
		{ "aten::arange.start_out", "0 9223372036854775807 1", "!  ! i64[2]{0,0}" },
		{ "aten::full.out", "(3) 1.5", "! the sizes [3] ! f32[2]{0,0}" },
		{ "aten::full.out", "(4294967296,4294967296) 1.5", "!  ! f32[1,1]{0}" },
		{ "aten::cat.out", "(f32[1]{1};f32[2]{2,3}) 0", "! the sizes [3] ! f32[2]{0,0}" },
		{ "aten::repeat.out", "f32[2]{1,2} (2)", "! the sizes [4] ! f32[2]{0,0}" },
		{ "aten::repeat.out", "f32[2]{1,2} (4611686018427387904)", "!  ! f32[2]{0,0}" },
		{ "aten::expand_copy.out", "f32[1]{1} (3) false", "! the sizes [3] ! f32[2]{0,0}" },
		{ "aten::constant_pad_nd.out", "f32[1]{1} (1,1) 0", "! the sizes [3] ! f32[2]{0,0}" },
		{ "aten::constant_pad_nd.out", "f32[1]{1} (9223372036854775807,1) 0", "!  ! f32[2]{0,0}" },
		{ "aten::add.out", "f32[3]{1,2,3} f32[1]{1} 1", "! the sizes [3] ! f32[2]{0,0}" },
		{ "aten::mm.out", "f32[2,1]{1,2} f32[1,2]{1,2}", "! the sizes [2,2] ! f32[1,2]{0,0}" },
		{ "aten::upsample_nearest2d.vec_out", "f32[1,1,1,1]{1} (2,2) -",
			"! the sizes [1,1,2,2] ! f32[1,1,1,2]{0,0}" },
		{ "aten::_to_copy.out", "f32[3]{1,2,3} false -", "! the sizes [3] ! f32[2]{0,0}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_without_elements),
		cmocka_unit_test(an_index_that_points_outside),
		cmocka_unit_test(a_dimension_that_does_not_exist),
		cmocka_unit_test(masks_and_counts_that_do_not_fit),
		cmocka_unit_test(an_integer_divided_by_zero),
		cmocka_unit_test(a_result_beyond_the_bound),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
