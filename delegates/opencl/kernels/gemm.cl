/* SPDX-License-Identifier: BSD-3-Clause */
/* o[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n], plus a bias for each n, and an epilogue. A work-item
 * computes ROWS rows of WIDTH columns in registers, without local memory. IS_PACKED: b is [n / WIDTH, k, WIDTH], so
 * that each of its elements is read in order. Rows and columns beyond the last are computed again, or not written.
 *
 * IS_INT8: a and b are int8. A sum of at most DEPTH products below 2^15 is exact in a float, and integers are taken
 * from there: multiplying floats is what processors do fastest. Rows are converted for PANELS times WIDTH columns.
 * sizes: batches, m, n, k. */
#ifdef IS_INT8
#define DEPTH  256
#define PANELS 4
#else
#define PANELS 1
#endif
__kernel LOCAL void gemm(uint n, uint4 sizes, uint n_row_tiles, uint n_groups, ulong b_batch, int has_bias,
	__global uchar *o, ulong o_at, int o_type, CONST_TENSOR(T_A, a), CONST_TENSOR(T_B, b), CONST_TENSOR(T_C, bias)
	INT8_ARGS EPILOGUE_ARGS)
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	uint n_rows = sizes.s1, n_columns = sizes.s2, n_along = sizes.s3;
	uint row = i % n_row_tiles * ROWS, group = i / n_row_tiles % n_groups, batch = i / n_row_tiles / n_groups;
	uint first = group * PANELS * WIDTH;
	a += a_at + (ulong)batch * n_rows * n_along;
#ifdef IS_PACKED
	uint n_panels = min((n_columns - first + WIDTH - 1) / WIDTH, (uint)PANELS);
	b += b_at + (ulong)first * n_along;
#else
	if (first + WIDTH > n_columns && n_columns >= WIDTH)
		first = n_columns - WIDTH;
	uint n_panels = 1;
	b += b_at + (ulong)batch * b_batch + first;
#endif
#define START(t) __global const TYPE(T_A) *row##t = a + (ulong)min(row + t, n_rows - 1) * n_along;
#define ZERO(t)  VEC sum##t = (VEC)(0.0f);
	EACH_ROW(START)
#ifdef IS_INT8
	float block[ROWS * DEPTH];
	IVEC totals[PANELS * ROWS];
	for (uint t = 0; t < PANELS * ROWS; t++)
		totals[t] = (IVEC)(0);
	for (uint from = 0; from < n_along; from += DEPTH) {
		uint depth = min(n_along - from, (uint)DEPTH);
#define CONVERT(t)                                                                                                 \
		for (uint k = 0; k < depth; k += WIDTH)                                                            \
			VSTORE((k + WIDTH <= depth ? VLOAD_AS(T_A, row##t + from + k)                              \
						   : load_lanes((__global const uchar *)row##t, IS_I8, from + k, 1, \
							     depth - k)) -                                         \
					(float)x_zero,                                                             \
				0, block + t * DEPTH + k);
		EACH_ROW(CONVERT)
		for (uint p = 0; p < n_panels; p++) {
			__global const TYPE(T_B) *column = b + ((ulong)p * n_along + from) * WIDTH;
			EACH_ROW(ZERO)
			for (uint k = 0; k < depth; k++) {
				VEC column_of_b = VLOAD_AS(T_B, column + k * WIDTH);
#define MULTIPLY(t) sum##t += block[t * DEPTH + k] * column_of_b;
				EACH_ROW(MULTIPLY)
			}
#define ADD_UP(t) totals[p * ROWS + t] += TO_IVEC(sum##t);
			EACH_ROW(ADD_UP)
		}
	}
#else
	VEC totals[ROWS];
	EACH_ROW(ZERO)
#ifdef IS_PACKED
	uint stride = WIDTH;
#else
	uint stride = n_columns;
	if (n_columns < WIDTH) {
		for (uint k = 0; k < n_along; k++)
			for (uint l = 0; l < n_columns; l++) {
				VEC only = LANES == (IVEC)((int)l) ? (VEC)(LOAD(T_B, b, (ulong)k * stride + l)) : (VEC)(0.0f);
#define MULTIPLY_ONE(t) sum##t += LOAD(T_A, row##t, k) * only;
				EACH_ROW(MULTIPLY_ONE)
			}
	} else
#endif
	for (uint k = 0; k < n_along; k++) {
		VEC column_of_b = VLOAD_AS(T_B, b + (ulong)k * stride);
#define MULTIPLY(t) sum##t += LOAD(T_A, row##t, k) * column_of_b;
		EACH_ROW(MULTIPLY)
	}
#define KEEP(t) totals[t] = sum##t;
	EACH_ROW(KEEP)
#endif
	for (uint p = 0; p < n_panels; p++) {
		uint column = first + p * WIDTH, n_lanes = min(n_columns - column, (uint)WIDTH);
		VEC more = (VEC)(0.0f);
		if (has_bias)
			more = load_lanes((__global const uchar *)bias, LANE_TYPE(T_C), bias_at + column, 1, n_lanes);
#ifdef IS_INT8
		VEC scale = x_scale *
			load_lanes((__global const uchar *)scales, LANE_TYPE(T_S), scales_at + column, 1, n_lanes);
#endif
		for (uint t = 0; t < ROWS && row + t < n_rows; t++) {
#ifdef IS_INT8
			VEC v = TO_VEC(totals[p * ROWS + t]) * scale + more;
			if (is_relu)
				v = max(v, 0.0f);
			v = clamp(rint(v / o_scale) + (float)o_zero, -128.0f, 127.0f);
#else
			VEC v = totals[t] + more;
#endif
			ulong at = ((ulong)batch * n_rows + row + t) * n_columns + column;
			FINISH(v, n_lanes, o, o_type, o_at + at, batch, row + t, column)
		}
	}
}
