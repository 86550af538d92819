/* SPDX-License-Identifier: BSD-3-Clause */
/* Rotary embedding of [B, S, H, D]: pairs of neighbours are turned by the angles of their row, whose cosines and sines
 * are [S, D / 2]. A work-item for each pair. */
__kernel void rotary(uint n, uint n_rows, uint n_heads, uint n_pairs, TENSOR(T_O, o), CONST_TENSOR(T_A, x),
	CONST_TENSOR(T_B, cosines), CONST_TENSOR(T_C, sines))
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	ulong angle = (ulong)(i / n_pairs / n_heads % n_rows) * n_pairs + i % n_pairs;
	float c = LOAD(T_B, cosines + cosines_at, angle), s = LOAD(T_C, sines + sines_at, angle);
	float a = LOAD(T_A, x + x_at, 2 * (ulong)i), b = LOAD(T_A, x + x_at, 2 * (ulong)i + 1);
	STORE(T_O, o + o_at, 2 * (ulong)i, a * c - b * s);
	STORE(T_O, o + o_at, 2 * (ulong)i + 1, a * s + b * c);
}
