/* SPDX-License-Identifier: BSD-3-Clause */
/* Normalization of a row of n_along elements, a work-item each. Weights and bias have one number for each n_inner
 * elements, repeated after n_weights of them: layer norm has n_inner = 1, group norm the plane's size. A row of a group
 * norm begins at another weight: row % n_rows times n_along / n_inner. */
__kernel void norm(uint n, uint n_along, uint n_inner, uint n_rows, float eps, int has_weight, int has_bias,
	TENSOR(T_O, o), CONST_TENSOR(T_A, x), CONST_TENSOR(T_W, w), CONST_TENSOR(T_B, b)
#ifdef HAS_STATISTICS
	, TENSOR(T_M, o_mean), TENSOR(T_R, o_rstd)
#endif
)
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	ulong first = (ulong)i * n_along;
	uint row = (i % n_rows) * (n_along / n_inner);
	float mean = 0, squares = 0;
	x += x_at + first;
	o += o_at + first;
	w += w_at + row;
	b += b_at + row;
#ifdef HAS_STATISTICS
	for (uint k = 0; k < n_along; k++)
		mean += LOAD(T_A, x, k);
	mean /= n_along;
#endif
	for (uint k = 0; k < n_along; k++) {
		float d = LOAD(T_A, x, k) - mean;
		squares += d * d;
	}
	float rstd = 1 / sqrt(squares / n_along + eps);
	for (uint k = 0; k < n_along; k++) {
		float v = (LOAD(T_A, x, k) - mean) * rstd;
		if (has_weight)
			v *= LOAD(T_W, w, k / n_inner);
		if (has_bias)
			v += LOAD(T_B, b, k / n_inner);
		STORE(T_O, o, k, v);
	}
#ifdef HAS_STATISTICS
	STORE(T_M, o_mean + o_mean_at, i, mean);
	STORE(T_R, o_rstd + o_rstd_at, i, rstd);
#endif
}
