/* SPDX-License-Identifier: BSD-3-Clause */
/* Scale and zero point of each row, so that its range, with 0 in it, becomes the whole range of int8. */
__kernel void choose_qparams(uint n, uint n_along, float least, TENSOR(T_O, scales), TENSOR(T_Z, zeros), CONST_TENSOR(T_A, x))
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	float low = 0, high = 0;
	x += x_at + (ulong)i * n_along;
	for (uint k = 0; k < n_along; k++) {
		float v = LOAD(T_A, x, k);
		low = min(low, v);
		high = max(high, v);
	}
	float scale = max((high - low) / 255, least);
	STORE(T_O, scales + scales_at, i, scale);
	STORE(T_Z, zeros + zeros_at, i, clamp(-128 - rint(low / scale), -128.0f, 127.0f));
}
