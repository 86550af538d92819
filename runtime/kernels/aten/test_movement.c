/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators that move or choose elements: views, concatenation, indices, fills, numbers. Worked out by hand. */
#include "runtime/kernels/test_rig.h"

#include "runtime/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void shape(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::permute_copy.out", "i8[2,3]{1,2,3,4,5,6} (1,0)", "i8[3,2]{1,4,2,5,3,6}" },
		{ "aten::permute_copy.out", "i8[2,3]{1,2,3,4,5,6} (0,0)", "! not a permutation ! i8[2,2]{0,0,0,0}" },
		{ "aten::slice_copy.Tensor_out", "f32[5]{0,1,2,3,4} 0 1 -1 2", "f32[2]{1,3}" },
		{ "aten::slice_copy.Tensor_out", "f32[3]{0,1,2} 0 - 9223372036854775807 1", "f32[3]{0,1,2}" },
		{ "aten::slice_copy.Tensor_out", "f32[3]{0,1,2} 0 5 9 1", "f32[0]{}" },
		{ "aten::slice_copy.Tensor_out", "f32[3]{0,1,2} 0 0 1 0", "! step 0 ! f32[1]{0}" },
		{ "aten::select_copy.int_out", "f64[2,2]{1,2,3,4} 1 -1", "f64[2]{2,4}" },
		{ "aten::select_copy.int_out", "f64[2]{1,2} 0 2", "! index 2 of 2 ! f64[]{0}" },
		{ "aten::expand_copy.out", "i16[2,1]{1,2} (2,-1,3) false", "i16[2,2,3]{1,1,1,2,2,2,1,1,1,2,2,2}" },
		{ "aten::repeat.out", "i32[2]{1,2} (2,2)", "i32[2,4]{1,2,1,2,1,2,1,2}" },
		{ "aten::flip.out", "i32[2,2]{1,2,3,4} (0,1)", "i32[2,2]{4,3,2,1}" },
		{ "aten::roll.out", "i32[5]{1,2,3,4,5} (2) (0)", "i32[5]{4,5,1,2,3}" },
		{ "aten::roll.out", "i32[2,2]{1,2,3,4} (-1) ()", "i32[2,2]{2,3,4,1}" },
		{ "aten::diagonal_copy.out", "i32[2,3]{1,2,3,4,5,6} 1 0 1", "i32[2]{2,6}" },
		{ "aten::diagonal_copy.out", "i32[2,2]{1,2,3,4} 5 0 1", "i32[0]{}" },
		{ "aten::unfold_copy.out", "i32[4]{1,2,3,4} 0 2 1", "i32[3,2]{1,2,2,3,3,4}" },
		{ "aten::unfold_copy.out", "bool[3]{1,0,1} 0 2 1", "f64[2,2]{1,0,0,1}" },
		{ "aten::as_strided_copy.out", "i32[4]{1,2,3,4} (2,2) (1,1) 1", "i32[2,2]{2,3,3,4}" },
		{ "aten::as_strided_copy.out", "i32[4]{1,2,3,4} (2,2) (1,2) 1", "! element 4 ! i32[2,2]{0,0,0,0}" },
		{ "aten::pixel_shuffle.out", "i8[4,1,1]{1,2,3,4} 2", "i8[1,2,2]{1,2,3,4}" },
		{ "aten::pixel_unshuffle.out", "i8[1,2,2]{1,2,3,4} 2", "i8[4,1,1]{1,2,3,4}" },
		{ "aten::squeeze_copy.dims_out", "i8[1,2,1]{1,2} (0,1)", "i8[2,1]{1,2}" },
		{ "aten::unsqueeze_copy.out", "i8[2]{1,2} -1", "i8[2,1]{1,2}" },
		{ "aten::view_copy.out", "i8[2,3]{1,2,3,4,5,6} (3,-1)", "i8[3,2]{1,2,3,4,5,6}" },
		{ "aten::view_copy.out", "i8[2,3]{1,2,3,4,5,6} (4,-1)", "! viewed as ! i8[4,1]{0,0,0,0}" },
		{ "aten::view_copy.out", "i8[1,2,1,2]@0231{1,2,3,4} (4)", "! row-major ! i8[4]{0,0,0,0}" },
		{ "aten::resize.out", "i8[2,3]{1,2,3,4,5,6} (2,2) -", "i8[2,2]{1,2,3,4}" },
		{ "aten::resize.out", "f32[2]{1,2} (3,1) -", "f32[3,1]{1,2,0}" },
		{ "aten::resize.out", "f32[2]{1,2} () -", "f32[]{1}" },
		{ "aten::resize.out", "f32[2]{1,2} (-1) -", "! size -1 of dimension 0 ! f32[1]{0}" },
		{ "dim_order_ops::_to_dim_order_copy.out", "f32[1,2,1,2]{1.5,2,3,300} false (0,2,3,1)",
			"u8[1,2,1,2]@0231{1,2,3,44}" },
		{ "aten::_to_copy.out", "f32[7]{nan,inf,-inf,3e9,-3e9,-2147483648,7.5} false -",
			"i32[7]{-2147483648,-2147483648,-2147483648,-2147483648,-2147483648,-2147483648,7}" },
		{ "aten::_to_copy.out", "bf16[5]{nan,-3,inf,3e9,100.5} false -",
			"i32[5]{-2147483648,-3,-2147483648,-2147483648,100}" },
		{ "aten::_to_copy.out", "bf16[3]{nan,-3e9,0.5} false -", "bool[3]{1,1,1}" },
		{ "aten::_to_copy.out", "i32[3]{-2147483648,16777217,3} false -", "f32[3]{-2147483648,16777216,3}" },
		{ "aten::_to_copy.out", "u16[2]{65535,1} false -", "f32[2]{65535,1}" },
		{ "aten::_to_copy.out", "f64[3]{nan,-2147483648.5,2147483647.5} false -",
			"i32[3]{-2147483648,-2147483648,2147483647}" },
		{ "aten::_to_copy.out", "f32[2]{nan,300} false -", "i16[2]{0,300}" },
		{ "dim_order_ops::_to_dim_order_copy.out", "f32[1,2,1,2]{1,2,3,4} false (0,1,2,3)",
			"! not the requested one ! f32[1,2,1,2]@0231{0,0,0,0}" },
		{ "aten::copy_", "f32[2,2]{0,0,0,0} i32[2]{1,2} false", "f32[2,2]{1,2,1,2}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void concatenate(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::cat.out", "(f32[1,2]{1,2};f32[0]{};i32[2,2]{3,4,5,6}) 0", "f32[3,2]{1,2,3,4,5,6}" },
		/* Empty tensors of any sizes and ranks are skipped; those that fit count. */
		{ "aten::cat.out", "(i32[2,0]{};i32[2,1]{3,4};i32[0]{};i32[1,0,3]{}) 0", "i32[2,1]{3,4}" },
		{ "aten::cat.out", "(f32[0,3]{};f32[1,2]{1,2}) 1", "f32[1,2]{1,2}" },
		{ "aten::cat.out", "(f32[0]{};f32[2,0]{};f32[2,0]{}) 0", "f32[4,0]{}" },
		{ "aten::cat.out", "(f32[1,2]{1,2};f32[1,1]{3}) 0", "! sizes 1 and 2 ! f32[2,2]{0,0,0,0}" },
		{ "aten::cat.out", "(f32[1,2]{1,2};f32[1,3]{3,4,5}) 0", "! sizes 3 and 2 ! f32[2,2]{0,0,0,0}" },
		{ "aten::stack.out", "(i8[2]{1,2};i8[2]{3,4}) 1", "i8[2,2]{1,3,2,4}" },
		{ "aten::split_with_sizes_copy.out", "i8[3]{1,2,3} (1,2) 0", "(i8[1]{1};i8[2]{2,3})" },
		{ "aten::split_with_sizes_copy.out", "i8[3]{1,2,3} (1,3) 0",
			"! more than 3 ! (i8[1]{0};i8[3]{0,0,0})" },
		{ "aten::split_copy.Tensor_out", "i8[3]{1,2,3} 2 0", "(i8[2]{1,2};i8[1]{3})" },
		{ "aten::split_copy.Tensor_out", "i8[3]{1,2,-3} 2 0", "(f32[2]{1,2};bool[1]{1})" },
		{ "aten::split_with_sizes_copy.out", "bf16[3]{1,2.5,-3} (2,1) 0", "(i64[2]{1,2};f16[1]{-3})" },
		{ "aten::unbind_copy.int_out", "f32[2,2]{1,2.5,3,0} 1", "(u8[2]{1,3};bf16[2]{2.5,0})" },
		{ "aten::unbind_copy.int_out", "i8[2,2]{1,2,3,4} 1", "(i8[2]{1,3};i8[2]{2,4})" },
		{ "aten::constant_pad_nd.out", "i8[2,2]{1,2,3,4} (1,0,0,-1) 9", "i8[1,3]{9,1,2}" },
		{ "aten::constant_pad_nd.out", "f32[1]{1} (-2,3) 9", "f32[2]{9,9}" },
		/* cropped inside and padded outside, and vice versa */
		{ "aten::constant_pad_nd.out", "i8[2,2,3]{1,2,3,4,5,6,7,8,9,10,11,12} (1,-1,0,1,-1,0) 7",
			"i8[1,3,3]{7,7,8,7,10,11,7,7,7}" },
		{ "aten::constant_pad_nd.out", "i8[2,3]{1,2,3,4,5,6} (-1,-1,1,1) 7", "i8[4,1]{7,2,5,7}" },
		{ "aten::constant_pad_nd.out", "i8[1,2,2]{1,2,3,4} (0,0,0,0,1,0) 7", "i8[2,2,2]{7,7,7,7,1,2,3,4}" },
		{ "aten::constant_pad_nd.out", "i8[3,2]{1,2,3,4,5,6} (0,0,-1,1) 7", "i8[3,2]{3,4,5,6,7,7}" },
		{ "aten::constant_pad_nd.out", "f32[1,2,1,2]@0231{1,2,3,4} (1,0) 9", "f32[1,2,1,3]@0231{9,1,2,9,3,4}" },
		{ "aten::constant_pad_nd.out", "f32[1,2,1,2]@0231{1,2,3,4} (1,0) 9", "f32[1,2,1,3]{9,1,2,9,3,4}" },
		{ "aten::constant_pad_nd.out", "i8[0,2]{} (1,0,0,1) 7", "i8[1,3]{7,7,7}" },
		{ "aten::constant_pad_nd.out", "f64[2]{1,2} (9,10) 3",
			"f64[21]{3,3,3,3,3,3,3,3,3,1,2,3,3,3,3,3,3,3,3,3,3}" },
		{ "aten::slice_scatter.out", "i8[4]{1,2,3,4} i8[2]{8,9} 0 1 - 2", "i8[4]{1,8,3,9}" },
		{ "aten::slice_scatter.out", "i32[0,3]{} i32[0,1]{} 1 - 1 1", "f32[0,3]{}" },
		{ "aten::select_scatter.out", "i8[2,2]{1,2,3,4} i8[2]{8,9} 1 0", "i8[2,2]{8,2,9,4}" },
		{ "aten::select_scatter.out", "i8[2]{1,2} i8[2]{8,9} 0 0", "! sizes differ ! i8[2]{0,0}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void choose(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::index.Tensor_out", "i8[3]{1,2,3} (i64[2]{-1,0})", "i8[2]{3,1}" },
		{ "aten::index.Tensor_out", "i8[3]{1,2,3} (i64[1]{3})", "! index 3 in dimension 0 ! i8[1]{0}" },
		{ "aten::index.Tensor_out", "i8[2,3]{1,2,3,4,5,6} (-;i64[1]{1})", "i8[2,1]{2,5}" },
		{ "aten::index.Tensor_out", "i8[2,3]{1,2,3,4,5,6} (i64[2]{0,1};i64[1]{2})", "i8[2]{3,6}" },
		{ "aten::index.Tensor_out", "i8[2,1,2]{1,2,3,4} (i64[2]{1,0};-;i64[]{1})", "i8[2,1]{4,2}" },
		{ "aten::index.Tensor_out", "i16[3,2]{1,2,3,4,5,6} (i64[3]{2,0,-1})", "i16[3,2]{5,6,1,2,5,6}" },
		{ "aten::index.Tensor_out", "i16[3,2]{1,2,3,4,5,6} (i64[2]{2,3})",
			"! index 3 in dimension 0 ! i16[2,2]{0,0,0,0}" },
		{ "aten::index.Tensor_out", "f32[1,3,1,2]{1,2,3,4,5,6} (-;i64[2,1]{1,0})", "f32[1,2,1,1,2]{3,4,1,2}" },
		{ "aten::index.Tensor_out", "f32[1,2,1,2]@0231{1,2,3,4} (-;i64[2]{1,0})",
			"f32[1,2,1,2]@0231{3,4,1,2}" },
		{ "aten::index.Tensor_out", "i8[3]{1,2,3} (i64[]{1})", "i8[]{2}" },
		{ "aten::index.Tensor_out",
			"i8[2,2,2,2]{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15} (-;i64[2]{1,0};i64[2]{0,1})",
			"i8[2,2,2]{4,5,2,3,12,13,10,11}" },
		{ "aten::index.Tensor_out", "i8[3]{1,2,3} (bool[3]{1,0,1})", "i8[2]{1,3}" },
		{ "aten::index.Tensor_out", "i8[2,2]{1,2,3,4} (bool[2,2]{0,1,1,0})", "i8[2]{2,3}" },
		{ "aten::index_put.out", "i8[3]{1,2,3} (i64[2]{2,2}) i8[2]{5,6} true", "i8[3]{1,2,14}" },
		{ "aten::index_put_", "i8[3]{1,2,3} (i64[1]{-1}) i8[]{5} false", "i8[3]{1,2,5}" },
		{ "aten::index_select.out", "i8[2,2]{1,2,3,4} 1 i32[3]{1,1,0}", "i8[2,3]{2,2,1,4,4,3}" },
		{ "aten::index_select.out", "i8[2]{1,2} 0 i64[1]{2}", "! index 2 of 2 ! i8[1]{0}" },
		{ "aten::repeat_interleave.Tensor_out", "i64[1]{1} -", "! an output of ! c64[1]{0:0}" },
		{ "aten::_embedding_bag.out", "f32[2,1]{1,2} i64[2]{0,1} i64[1]{1} false 1 false - false -1",
			"f32[1,1]{2} i64[2]{0,0} i64[1]{1} i64[1]{1}" },
		{ "aten::_embedding_bag.out", "f32[3,1]{1,2,4} i64[3]{0,1,2} i64[2]{0,2} false 0 false - false 1",
			"f32[2,1]{1,4} i64[3]{0,0,1} i64[2]{0,0} i64[2]{0,0}" },
		{ "aten::_embedding_bag.out", "f32[3,1]{1,2,4} i64[3]{0,1,2} i64[2]{0,2} false 0 false - false -1",
			"f32[2,1]{3,4} i64[0]{} i64[2]{0,0} i64[2]{0,0}" },
		{ "aten::_embedding_bag.out",
			"f64[3,1]{1,2,4} i64[3]{0,1,2} i64[2]{0,3} false 0 false f64[3]{2,1,1} false -1",
			"f64[2,1]{8,0} i64[3]{0,0,0} i64[2]{0,0} i64[2]{0,0}" },
		{ "aten::_embedding_bag.out", "f32[3,1]{1,2,4} i64[3]{0,1,2} i64[2]{0,3} false 2 false - false -1",
			"f32[2,1]{4,0} i64[3]{0,0,0} i64[2]{3,0} i64[2,1]{2,0}" },
		{ "aten::gather.out", "i8[2,2]{1,2,3,4} 1 i64[2,1]{1,0} false", "i8[2,1]{2,3}" },
		{ "aten::gather.out", "i8[2,2]{1,2,3,4} 1 i64[2,1]{1,7} false", "! index 7 of 2 ! i8[2,1]{0,0}" },
		{ "aten::scatter.src_out", "i8[3]{1,2,3} 0 i64[1]{2} i8[1]{9}", "i8[3]{1,2,9}" },
		{ "aten::scatter.value_out", "f32[3]{1,2,3} 0 i64[1]{0} 9", "f32[3]{9,2,3}" },
		{ "aten::scatter_add.out", "f32[2]{1,2} 0 i64[2]{0,0} f32[2]{3,4}", "f32[2]{8,2}" },
		{ "aten::scatter_add.out", "f64[2]{1,2} 0 i64[2]{-1,-1} f64[2]{3,4}", "f64[2]{1,9}" },
		{ "aten::scatter_add.out", "u8[2]{250,2} 0 i64[2]{0,1} u8[2]{10,4}", "u8[2]{4,6}" },
		{ "aten::scatter_add.out", "i16[1]{1} 0 i64[1]{-2} i16[1]{1}", "! index -2 of 1 ! i16[1]{0}" },
		{ "aten::scatter.reduce_out", "i64[2]{3,5} 0 i64[2]{1,1} i64[2]{2,-4} multiply", "i64[2]{3,-40}" },
		{ "aten::scatter.reduce_out", "bool[2]{1,1} 0 i64[1]{1} bool[1]{0} multiply", "bool[2]{1,0}" },
		{ "aten::embedding.out", "f32[2,2]{1,2,3,4} i64[2]{1,1} -1 false false", "f32[2,2]{3,4,3,4}" },
		{ "aten::embedding.out", "f32[2,2]{1,2,3,4} i64[1]{-1} -1 false false",
			"! index -1 of 2 ! f32[1,2]{0,0}" },
		{ "aten::masked_select.out", "f32[3]{1,2,3} bool[1]{1}", "f32[3]{1,2,3}" },
		{ "aten::masked_scatter.out", "f32[3]{1,2,3} bool[3]{1,0,1} f32[2]{8,9}", "f32[3]{8,2,9}" },
		{ "aten::masked_scatter.out", "f32[2]{1,2} bool[2]{1,1} f32[1]{8}",
			"! the mask chooses more ! f32[2]{0,0}" },
		{ "aten::searchsorted.Tensor_out", "f32[3]{1,3,3} f32[4]{0,3,4,nan} false false - -",
			"i64[4]{0,1,3,3}" },
		{ "aten::searchsorted.Tensor_out", "i8[2,2]{1,3,5,7} i8[2,1]{3,7} true true - -", "i32[2,1]{2,2}" },
		{ "aten::searchsorted.Tensor_out", "i8[3]{3,1,2} i8[]{2} false false right i64[3]{1,2,0}", "i64[]{2}" },
		{ "aten::searchsorted.Tensor_out", "i64[6]{1,3,3,5,7,9} i64[8]{0,1,2,3,4,9,10,7} false false - -",
			"i64[8]{0,0,1,1,3,5,6,4}" },
		{ "aten::searchsorted.Tensor_out", "f64[6]{1,3,3,5,7,9} f64[8]{0,1,2,3,4,9,10,7} false true - -",
			"i64[8]{0,1,1,3,3,6,6,5}" },
		{ "aten::searchsorted.Tensor_out", "i8[0]{} i8[1]{2} false false - -", "i64[1]{0}" },
		{ "aten::searchsorted.Tensor_out", "i8[2]{1,2} i8[1]{2} false false - i64[2]{0,2}",
			"! index 2 of 2 ! i64[1]{0}" },
		{ "aten::bucketize.Tensor_out", "i32[2,2]{0,1,2,9} i32[2]{1,2} true true", "i32[2,2]{0,1,2,2}" },
		/* among NaNs, PyTorch's search steps decide */
		{ "aten::bucketize.Tensor_out", "f32[1]{0} f32[4]{1,3,nan,nan} false false", "i64[1]{4}" },
		{ "aten::bucketize.Tensor_out", "f32[2]{1,3} f32[2]{2,nan} false true", "i64[2]{2,2}" },
		{ "aten::nonzero.out", "f32[2,2]{0,0.5,-1,0}", "i64[2,2]{0,1,1,0}" },
		{ "aten::nonzero.out", "i8[2,2,3]{0,1,0,0,0,2, 3,0,0,0,4,0}", "i64[4,3]{0,0,1, 0,1,2, 1,0,0, 1,1,1}" },
		{ "aten::nonzero.out", "i32[]{5}", "i64[1,0]{}" },
		{ "aten::repeat_interleave.Tensor_out", "i64[3]{2,0,1} -", "i64[3]{0,0,2}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void make(void **state)
{
	static const struct kernel_case cases[] = {
		{ "aten::arange.start_out", "1 2 0.25", "f32[4]{1,1.25,1.5,1.75}" },
		{ "aten::arange.out", "3", "i64[3]{0,1,2}" },
		/* Whole numbers are truncated before they are counted. */
		{ "aten::arange.out", "3.5", "i64[3]{0,1,2}" },
		{ "aten::arange.start_out", "-0.5 2.5 2", "i64[1]{0}" },
		{ "aten::arange.start_out", "0.5 4.5 1.5", "i64[4]{0,1,2,3}" },
		{ "aten::arange.start_out", "0.5 4.5 0.5", "! from 0 to 4 by 0 ! i64[1]{0}" },
		{ "aten::full.out", "(2) 1.5", "f16[2]{1.5,1.5}" },
		{ "aten::full_like.out", "f32[2]{0,0} true -", "bool[2]{1,1}" },
		{ "aten::zeros.out", "(2)", "i8[2]{0,0}" },
		{ "aten::empty.out", "(1) -", "i8[1]{0}" },
		{ "aten::empty_permuted.out", "(1,2) (1,0)", "i8[1,2]{0,0}" },
		{ "aten::empty_strided.out", "(2) (1)", "f32[2]{0,0}" },
		{ "aten::empty_strided.out", "(2) (1,1)", "! a layout of 2 dimensions for 1 ! f32[2]{0,0}" },
		{ "aten::new_empty_strided.out", "f32[1]{7} (2) (1)", "i32[2]{0,0}" },
		{ "aten::tril_indices.out", "3 2 0", "i64[2,5]{0,1,1,2,2,0,0,1,0,1}" },
		{ "aten::tril_indices.out", "2 3 1", "i32[2,5]{0,0,1,1,1,0,1,0,1,2}" },
		{ "aten::tril_indices.out", "3 3 -9223372036854775808", "i64[2,0]{}" },
		{ "aten::tril_indices.out", "5 3 -1", "i64[2,9]{1,2,2,3,3,3,4,4,4,0,0,1,0,1,2,0,1,2}" },
		{ "aten::tril_indices.out", "2147483647 2147483647 0", "! 2305843008139952128 ! i64[2,0]{}" },
		{ "aten::triu_indices.out", "2147483647 1 -2147483647", "! 2147483647 ! i64[2,0]{}" },
		{ "aten::triu_indices.out", "3 2 0", "i64[2,3]{0,0,1,0,1,1}" },
		{ "aten::triu_indices.out", "2 2 -1", "i64[2,4]{0,0,1,1,0,1,0,1}" },
		{ "aten::triu_indices.out", "2 2 9223372036854775807", "i64[2,0]{}" },
		{ "aten::triu_indices.out", "2 2 -9223372036854775808", "i64[2,4]{0,0,1,1,0,1,0,1}" },
		{ "aten::triu_indices.out", "-1 2 0", "! -1 rows ! i64[2,0]{}" },
		{ "aten::scalar_tensor.out", "-3", "i32[]{-3}" },
		{ "aten::fill.Tensor_out", "f32[2]{0,0} i64[1]{7}", "f32[2]{7,7}" },
		{ "aten::reflection_pad1d.out", "i8[1,3]{1,2,3} (2,1)", "i8[1,6]{3,2,1,2,3,2}" },
		{ "aten::reflection_pad1d.out", "f32[2,3]{0,1,2,3,4,5} (2,-4)", "f32[2,1]{2,5}" },
		{ "aten::reflection_pad1d.out", "f32[2,3]{0,1,2,3,4,5} (-4,2)", "f32[2,1]{0,3}" },
		{ "aten::replication_pad2d.out", "i8[1,1,2]{1,2} (1,0,0,1)", "i8[1,2,3]{1,1,2,1,1,2}" },
		{ "aten::replication_pad1d.out", "i32[1,5]{1,2,3,4,5} (2,3)", "i32[1,10]{1,1,1,2,3,4,5,5,5,5}" },
		{ "aten::reflection_pad1d.out", "f64[1,5]{1,2,3,4,5} (4,2)", "f64[1,11]{5,4,3,2,1,2,3,4,5,4,3}" },
		{ "aten::reflection_pad1d.out", "i8[1,2]{1,2} (2,0)", "! padding 2, 0 of size 2 ! i8[1,4]{0,0,0,0}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

static void numbers(void **state)
{
	static const struct kernel_case cases[] = {
		{ "executorch_prim::add.Scalar", "2 3", "5" },
		{ "executorch_prim::add.Scalar", "2 0.5", "2.5" },
		{ "executorch_prim::floordiv.Scalar", "-7 2", "-4" },
		{ "executorch_prim::floordiv.Scalar", "1 0", "! by zero ! 0" },
		{ "executorch_prim::truediv.Scalar", "1 2", "0.5" },
		{ "executorch_prim::mod.Scalar", "7 3", "1" },
		{ "executorch_prim::lt.Scalar", "1 1.5", "true" },
		{ "executorch_prim::eq.Scalar", "1 2", "false" },
		{ "executorch_prim::neg.Scalar", "3", "-3" },
		{ "executorch_prim::ceil.Scalar", "1.2", "2" },
		{ "executorch_prim::round.Scalar", "2.5", "2" },
		{ "executorch_prim::trunc.Scalar", "-1.5", "-1" },
		{ "executorch_prim::sym_float.Scalar", "3", "3.0" },
		{ "executorch_prim::sym_not.Scalar", "true", "false" },
		{ "executorch_prim::sym_ite.Scalar", "false 1 2", "2" },
		{ "executorch_prim::sym_max.Scalar", "4 3", "4" },
		{ "aten::sym_size.int", "f32[2,3]{1,2,3,4,5,6} -1", "3" },
		{ "aten::_local_scalar_dense", "i32[1]{7}", "7" },
		{ "executorch_prim::et_copy_index.tensor", "f32[2,1]{1,2} f32[1]{9} 1", "f32[2,1]{1,9}" },
	};
	check_kernel_cases(cases, ET_ARRAY_LEN(cases));
}

/* A tensor that grows by more than one element shows nothing of what its memory held before. */
static void a_step_that_skips_elements(void **state)
{
	float memory[4] = { 1, 7, 7, 7 }, element = 9;
	int32_t sizes[] = { 1, 1 }, strides[] = { 1, 1 }, one = 1;
	const uint8_t order[] = { 0, 1 };
	struct et_tensor to = { memory, 4, sizes, strides, order, ET_FLOAT32, 2, ET_DYNAMIC_BOUND, false };
	struct et_tensor from = { &element, 1, &one, &one, order, ET_FLOAT32, 1, ET_STATIC, false };
	struct et_evalue args[] = { { .tag = ET_TAG_TENSOR, .tensor = &to }, { .tag = ET_TAG_TENSOR, .tensor = &from },
		{ .tag = ET_TAG_INT, .i = 3 } };
	struct et_evalue *list[] = { &args[0], &args[1], &args[2] };
	struct et_diag diag = { 0 };
	const struct et_kernel *kernel = find_kernel("executorch_prim::et_copy_index.tensor");
	struct et_kernel_ctx ctx = { .kernel = kernel, .diag = &diag };
	assert_int_equal(kernel->run(&ctx, list), ET_OK);
	assert_int_equal(sizes[0], 4);
	assert_memory_equal(memory, ((const float[]){ 1, 0, 0, 9 }), sizeof memory);
}

/* One element many times, for each element size. */
static void repeat(void **state)
{
	static const char *const elements[][2] = { { "bool", "1" }, { "i8", "-3" }, { "i16", "-300" }, { "f16", "2.5" },
		{ "f32", "-1.5" }, { "i64", "-9000000000" }, { "c128", "1:-2" } };
	static const size_t lengths[] = { 1, 2, 63, 64, 65, 127, 128, 129, 300 };
	for (size_t i = 0; i < ET_ARRAY_LEN(elements) * ET_ARRAY_LEN(lengths); i++) {
		const char *const *element = elements[i / ET_ARRAY_LEN(lengths)];
		size_t n = lengths[i % ET_ARRAY_LEN(lengths)], n_text;
		char args[64], *expected = NULL;
		FILE *to = open_memstream(&expected, &n_text);
		assert_non_null(to);
		snprintf(args, sizeof(args), "%s[1]{%s} (%zu) false", element[0], element[1], n);
		fprintf(to, "%s[%zu]{", element[0], n);
		for (size_t k = 0; k < n; k++)
			fprintf(to, "%s,", element[1]);
		fputs("}", to);
		fclose(to);
		check_kernel_cases(&(const struct kernel_case){ "aten::expand_copy.out", args, expected }, 1);
		free(expected);
	}
}

/* Rows of pieces of any length, split; each byte differs from those near it. */
static void pieces(void **state)
{
	enum { ROWS = 3 };
	static const size_t lengths[] = { 1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 34, 47, 63, 64, 65, 95, 104, 127,
		128, 129, 300, 511, 512, 513, 600 };
	for (size_t i = 0; i < ET_ARRAY_LEN(lengths); i++) {
		const size_t n = lengths[i];
		char *args = NULL, *expected = NULL;
		size_t n_args, n_expected;
		FILE *in = open_memstream(&args, &n_args), *out = open_memstream(&expected, &n_expected);
		assert_true(in && out);
		fprintf(in, "u8[%d,%zu]{", ROWS, n + 5);
		for (size_t k = 0; k < ROWS * (n + 5); k++)
			fprintf(in, "%zu,", k % 251);
		fprintf(in, "} (5,%zu) 1", n);
		for (size_t piece = 0; piece < 2; piece++) {
			const size_t start = piece ? 5 : 0, size = piece ? n : 5;
			fprintf(out, piece ? "};u8[%d,%zu]{" : "(u8[%d,%zu]{", ROWS, size);
			for (size_t k = 0; k < ROWS * size; k++)
				fprintf(out, "%zu,", (k / size * (n + 5) + start + k % size) % 251);
		}
		fputs("})", out);
		fclose(in);
		fclose(out);
		check_kernel_cases(&(const struct kernel_case){ "aten::split_with_sizes_copy.out", args, expected }, 1);
		free(args);
		free(expected);
	}
}

/* Copies of elements that follow each other; check_kernel_cases compares with what find_part tells. */
static void parts(void **state)
{
	static const struct {
		struct kernel_case test;
		int32_t sizes[3];   /* of the first argument, which has 3 dimensions */
		int64_t numbers[4]; /* the other arguments; NO: None or a list */
		int first;          /* -1: they do not follow each other */
	} cases[] = {
#define NO INT64_MIN
		{ { "aten::slice_copy.Tensor_out", "i8[4,1,2]{1,2,3,4,5,6,7,8} 0 1 3 1", "i8[2,1,2]{3,4,5,6}" },
			{ 4, 1, 2 }, { 0, 1, 3, 1 }, 2 },
		{ { "aten::slice_copy.Tensor_out", "i8[1,4,2]{1,2,3,4,5,6,7,8} -2 -1 - 1", "i8[1,1,2]{7,8}" },
			{ 1, 4, 2 }, { -2, -1, NO, 1 }, 6 },
		{ { "aten::slice_copy.Tensor_out", "i8[4,1,2]{1,2,3,4,5,6,7,8} 0 - 9 2", "i8[2,1,2]{1,2,5,6}" },
			{ 4, 1, 2 }, { 0, NO, 9, 2 }, -1 },
		{ { "aten::slice_copy.Tensor_out", "i8[2,1,2]{1,2,3,4} 2 0 1 1", "i8[2,1,1]{1,3}" }, { 2, 1, 2 },
			{ 2, 0, 1, 1 }, -1 },
		{ { "aten::narrow_copy.out", "i8[1,1,4]{1,2,3,4} 2 -3 2", "i8[1,1,2]{2,3}" }, { 1, 1, 4 },
			{ 2, -3, 2, NO }, 1 },
		{ { "aten::select_copy.int_out", "i8[3,2,1]{1,2,3,4,5,6} 0 -1", "i8[2,1]{5,6}" }, { 3, 2, 1 },
			{ 0, -1, NO, NO }, 4 },
		{ { "aten::select_copy.int_out", "i8[3,1,1]{1,2,3} 0 3", "! index 3 of 3 ! i8[1,1]{0}" }, { 3, 1, 1 },
			{ 0, 3, NO, NO }, -1 },
		{ { "aten::split_copy.Tensor_out", "i8[1,3,1]{1,2,3} 2 1", "(i8[1,2,1]{1,2};i8[1,1,1]{3})" },
			{ 1, 3, 1 }, { 2, 1, NO, NO }, 0 },
		{ { "aten::split_with_sizes_copy.out", "i8[2,1,2]{1,2,3,4} (1,1) 2",
			  "(i8[2,1,1]{1,3};i8[2,1,1]{2,4})" },
			{ 2, 1, 2 }, { NO, 2, NO, NO }, -1 },
		{ { "aten::unbind_copy.int_out", "i8[2,1,2]{1,2,3,4} -3", "(i8[1,2]{1,2};i8[1,2]{3,4})" }, { 2, 1, 2 },
			{ -3, NO, NO, NO }, 0 },
		{ { "aten::unbind_copy.int_out", "i8[1,1,1]{1} 3", "! dimension 3 ! (i8[1,1]{0})" }, { 1, 1, 1 },
			{ 3, NO, NO, NO }, -1 },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		int32_t sizes[3];
		memcpy(sizes, cases[i].sizes, sizeof(sizes));
		struct et_tensor self = { .sizes = sizes, .type = ET_INT8, .n_dims = 3 };
		struct et_evalue values[5] = { { .tag = ET_TAG_TENSOR, .tensor = &self } }, *args[5] = { &values[0] };
		for (size_t k = 0; k < 4; k++) {
			values[k + 1] = (struct et_evalue){ .tag = ET_TAG_INT, .i = cases[i].numbers[k] };
			values[k + 1].tag = cases[i].numbers[k] == NO ? ET_TAG_NONE : ET_TAG_INT;
			args[k + 1] = &values[k + 1];
		}
		size_t first, n;
		bool follows = find_kernel(cases[i].test.kernel)->find_part(args, &first, &n);
		assert_int_equal(follows ? (int)first : -1, cases[i].first);
		check_kernel_cases(&cases[i].test, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shape),
		cmocka_unit_test(concatenate),
		cmocka_unit_test(choose),
		cmocka_unit_test(make),
		cmocka_unit_test(numbers),
		cmocka_unit_test(a_step_that_skips_elements),
		cmocka_unit_test(repeat),
		cmocka_unit_test(pieces),
		cmocka_unit_test(parts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
