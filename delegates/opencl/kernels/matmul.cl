/* SPDX-License-Identifier: BSD-3-Clause */
/* o[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n], plus a bias for each n. b has strides, so that linear
 * layers, whose weights are [n, k], are the same kernel. A work-item for each element. */
__kernel void matmul(uint n, uint n_rows, uint n_columns, uint n_along, int b_batch, int b_along, int b_column, int has_bias,
	TENSOR(T_O, o), CONST_TENSOR(T_A, a), CONST_TENSOR(T_B, b), CONST_TENSOR(T_C, bias))
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	uint column = i % n_columns, row = i / n_columns, batch = row / n_rows;
	float sum = 0;
	a += a_at + (ulong)row * n_along;
	b += b_at + (ulong)batch * b_batch + (ulong)column * b_column;
	for (uint k = 0; k < n_along; k++)
		sum += LOAD(T_A, a, k) * LOAD(T_B, b, (ulong)k * b_along);
	if (has_bias)
		sum += LOAD(T_C, bias + bias_at, column);
	STORE(T_O, o + o_at, i, sum);
}
