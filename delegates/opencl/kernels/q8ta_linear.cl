/* SPDX-License-Identifier: BSD-3-Clause */
/* A linear layer between tensors of int8: y = sum of (x - x_zero) * w, times scales, plus bias, quantized again. */
__kernel void q8ta_linear(uint n, uint n_columns, uint n_along, uint row_bytes, float x_scale, int x_zero, float o_scale,
	int o_zero, int has_bias, int is_relu, TENSOR(T_O, o), CONST_TENSOR(T_A, x), CONST_TENSOR(T_W, w), CONST_TENSOR(T_S, scales),
	CONST_TENSOR(T_C, bias))
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	uint column = i % n_columns, row = i / n_columns;
	int sum = 0;
	x += x_at + (ulong)row * n_along;
	w += w_at + (ulong)column * row_bytes;
	for (uint k = 0; k < n_along; k++)
		sum += ((int)x[k] - x_zero) * (int)w[k];
	float v = sum * (x_scale * LOAD(T_S, scales + scales_at, column));
	if (has_bias)
		v += LOAD(T_C, bias + bias_at, column);
	if (is_relu)
		v = max(v, 0.0f);
	STORE(T_O, o + o_at, i, clamp(rint(v / o_scale) + o_zero, -128.0f, 127.0f));
}
