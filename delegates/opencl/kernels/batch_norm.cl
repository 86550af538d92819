/* SPDX-License-Identifier: BSD-3-Clause */
/* Batch norm of a trained model, [N, C, ...]: mean and variance are given for each channel. */
__kernel void batch_norm(uint n, uint n_channels, uint n_inner, float eps, int has_weight, int has_bias, TENSOR(T_O, o),
	CONST_TENSOR(T_A, x), CONST_TENSOR(T_W, w), CONST_TENSOR(T_B, b), CONST_TENSOR(T_M, mean), CONST_TENSOR(T_V, variance))
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	uint c = i / n_inner % n_channels;
	float v = (LOAD(T_A, x + x_at, i) - LOAD(T_M, mean + mean_at, c)) /
		sqrt(LOAD(T_V, variance + variance_at, c) + eps);
	if (has_weight)
		v *= LOAD(T_W, w + w_at, c);
	if (has_bias)
		v += LOAD(T_B, b + b_at, c);
	STORE(T_O, o + o_at, i, v);
}
