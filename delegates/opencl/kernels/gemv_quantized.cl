/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear layers with weights of 4 or 8 bits, as linear_quantized.cl has them, along the rows of the weights: a
 * work-item reads COLUMNS rows of weights and one row of x, WIDTH elements at once, and adds what is in a group before
 * it takes the group's scale. Groups are whole multiples of WIDTH, with 4 bits of 2 * WIDTH. */
#define COLUMNS 4
#ifdef IS_4BIT
#define STEP (2 * WIDTH)
#else
#define STEP WIDTH
#endif

static inline float sum_of(VEC v)
{
	float lanes[WIDTH], sum = 0;
	VSTORE(v, 0, lanes);
	for (int i = 0; i < WIDTH; i++)
		sum += lanes[i];
	return sum;
}

__kernel LOCAL void gemv_quantized(uint n, uint n_columns, uint n_along, uint row_bytes, uint group, uint scale_columns,
	int has_bias, __global uchar *o, ulong o_at, int o_type, CONST_TENSOR(T_A, x), CONST_TENSOR(T_W, w),
	CONST_TENSOR(T_S, scales), CONST_TENSOR(T_C, bias)
#ifdef IS_DYNAMIC
	, CONST_TENSOR(T_XS, x_scale), CONST_TENSOR(T_XZ, x_zero)
#endif
	EPILOGUE_ARGS)
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	uint n_blocks = (n_columns + COLUMNS - 1) / COLUMNS, column = i % n_blocks * COLUMNS, row = i / n_blocks;
	uint n_lanes = min(n_columns - column, (uint)COLUMNS);
	VEC sums[COLUMNS];
	float lanes[WIDTH] = { 0 };
	x += x_at + (ulong)row * n_along;
	w += w_at;
	scales += scales_at;
#define EACH_COLUMN(X) X(0) X(1) X(2) X(3)
#define START(t)                                                                                              \
	__global const TYPE(T_W) *row##t = w + (ulong)min(column + t, n_columns - 1) * row_bytes;         \
	VEC sum##t = (VEC)(0.0f);
	EACH_COLUMN(START)
#ifdef IS_DYNAMIC
	float scale = LOAD(T_XS, x_scale + x_scale_at, row), zero = LOAD(T_XZ, x_zero + x_zero_at, row);
#define TAKE(k) (clamp(rint(VLOAD_AS(T_A, x + (k)) / scale) + zero, -128.0f, 127.0f) - zero)
#else
#define TAKE(k) VLOAD_AS(T_A, x + (k))
#endif
	for (uint from = 0, g = 0; from < n_along; from += group, g++) {
		uint to = min(from + group, n_along);
#define START_GROUP(t) VEC part##t = (VEC)(0.0f);
		EACH_COLUMN(START_GROUP)
		for (uint k = from; k < to; k += STEP) {
			VEC first = TAKE(k);
#ifdef IS_4BIT
			VEC second = TAKE(k + WIDTH), even = (VEC)(first.even, second.even), odd = (VEC)(first.odd, second.odd);
#ifdef EVEN_IS_HIGH
#define MULTIPLY(t)                                                                           \
			IVEC bytes##t = TO_IVEC(VLOAD(0, (__global const uchar *)row##t + k / 2)); \
			part##t += odd * TO_VEC((bytes##t & 15) - 8) + even * TO_VEC((bytes##t >> 4) - 8);
#else
#define MULTIPLY(t)                                                                           \
			IVEC bytes##t = TO_IVEC(VLOAD(0, (__global const uchar *)row##t + k / 2)); \
			part##t += even * TO_VEC((bytes##t & 15) - 8) + odd * TO_VEC((bytes##t >> 4) - 8);
#endif
#else
#define MULTIPLY(t) part##t += first * VLOAD_AS(T_W, row##t + k);
#endif
			EACH_COLUMN(MULTIPLY)
		}
#define ADD_GROUP(t) sum##t += part##t * LOAD(T_S, scales, (ulong)g * scale_columns + min(column + t, n_columns - 1));
		EACH_COLUMN(ADD_GROUP)
	}
#define KEEP(t) sums[t] = sum##t;
	EACH_COLUMN(KEEP)
	for (uint t = 0; t < n_lanes; t++) {
		float sum = sum_of(sums[t]);
#ifdef IS_DYNAMIC
		sum *= scale;
#endif
		lanes[t] = has_bias ? sum + LOAD(T_C, bias + bias_at, column + t) : sum;
	}
	FINISH(VLOAD(0, lanes), n_lanes, o, o_type, o_at + (ulong)row * n_columns + column, 0, row, column)
}
