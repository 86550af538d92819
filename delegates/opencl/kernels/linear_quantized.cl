/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear layers with weights of 4 or 8 bits, [N, K]. IS_4BIT: two to a byte; the even k is the low half, or the high one
 * (EVEN_IS_HIGH), and 8 is subtracted. Scales are [K / group, N]. IS_DYNAMIC: the input is quantized first, each row with
 * its own scale and zero point. A work-item for each element. */
__kernel void linear_quantized(uint n, uint n_columns, uint n_along, uint row_bytes, uint group, uint scale_columns,
	int has_bias, TENSOR(T_O, o), CONST_TENSOR(T_A, x), CONST_TENSOR(T_W, w), CONST_TENSOR(T_S, scales),
	CONST_TENSOR(T_C, bias)
#ifdef IS_DYNAMIC
	, CONST_TENSOR(T_XS, x_scale), CONST_TENSOR(T_XZ, x_zero)
#endif
)
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	uint column = i % n_columns, row = i / n_columns;
	float sum = 0;
	x += x_at + (ulong)row * n_along;
	w += w_at + (ulong)column * row_bytes;
	scales += scales_at;
#ifdef IS_DYNAMIC
	float scale = LOAD(T_XS, x_scale + x_scale_at, row);
	float zero = LOAD(T_XZ, x_zero + x_zero_at, row);
#endif
	for (uint from = 0, g = 0; from < n_along; from += group, g++) {
		uint to = min(from + group, n_along);
		float part = 0;
		for (uint k = from; k < to; k++) {
#ifdef IS_4BIT
			uint byte = (uchar)w[k / 2];
#ifdef EVEN_IS_HIGH
			float weight = (float)((k & 1 ? byte & 15 : byte >> 4)) - 8;
#else
			float weight = (float)((k & 1 ? byte >> 4 : byte & 15)) - 8;
#endif
#else
			float weight = LOAD(T_W, w, k);
#endif
#ifdef IS_DYNAMIC
			part += (clamp(rint(LOAD(T_A, x, k) / scale) + zero, -128.0f, 127.0f) - zero) * weight;
#else
			part += LOAD(T_A, x, k) * weight;
#endif
		}
		sum += part * LOAD(T_S, scales, (ulong)g * scale_columns + column);
	}
#ifdef IS_DYNAMIC
	sum *= scale;
#endif
	if (has_bias)
		sum += LOAD(T_C, bias + bias_at, column);
	STORE(T_O, o + o_at, i, sum);
}
