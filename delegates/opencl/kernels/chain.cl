/* SPDX-License-Identifier: BSD-3-Clause */
/* A chain of elementwise operators: the instructions say what is computed of the operands, which have strides of their
 * own. A work-item for WIDTH elements along the innermost dimension; the result is dense. */
#define CHAIN_OPERAND(i) , __global const uchar *x##i, ulong x##i##_at, int x##i##_type, int8 x##i##_strides
__kernel LOCAL void chain(uint n, uint n_dims, uint8 sizes, uint n_segments, float low, float high, __global uchar *o, ulong o_at,
	int o_type, __global const int *code CHAIN_OPERAND(0) CHAIN_OPERAND(1) CHAIN_OPERAND(2))
{
	uint i = get_global_id(0), dims[8];
	int s0[8], s1[8], s2[8];
	if (i >= n)
		return;
	vstore8(sizes, 0, dims);
	vstore8(x0_strides, 0, s0);
	vstore8(x1_strides, 0, s1);
	vstore8(x2_strides, 0, s2);
	uint inner = dims[n_dims - 1], row = i / n_segments, first = i % n_segments * WIDTH;
	if (first + WIDTH > inner && inner >= WIDTH)
		first = inner - WIDTH; /* some elements twice, rather than a rest */
	uint n_lanes = min(inner - first, (uint)WIDTH), rest = row, last = n_dims - 1;
	long at0 = x0_at + (long)first * s0[last], at1 = x1_at + (long)first * s1[last], at2 = x2_at + (long)first * s2[last];
	for (uint k = last; k-- > 0;) {
		uint at = rest % dims[k];
		rest /= dims[k];
		at0 += (long)at * s0[k];
		at1 += (long)at * s1[k];
		at2 += (long)at * s2[k];
	}
	struct operand operands[] = { { x0, at0, x0_type, s0[last] }, { x1, at1, x1_type, s1[last] },
		{ x2, at2, x2_type, s2[last] } };
	VEC v = run_steps(code, (VEC)(0.0f), operands, n_lanes);
	v = v < (VEC)(low) ? (VEC)(low) : v > (VEC)(high) ? (VEC)(high) : v;
	store_lanes(o, o_type, o_at + (ulong)row * inner + first, n_lanes, v);
}
