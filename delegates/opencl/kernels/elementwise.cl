/* SPDX-License-Identifier: BSD-3-Clause */
/* Each element of the result from the elements of up to three operands at its place. Operands and result have strides
 * of their own, so this also broadcasts, permutes, slices, flips and fills. EXPRESSION computes v from a, b, c, the
 * numbers p and the number i of the element. */
#ifdef COMPUTES_IN_INTEGERS
/* Division by zero, and the one quotient that does not fit, trap on processors: both give a number. */
COMPUTE divide_trunc(COMPUTE a, COMPUTE b)
{
	return b == 0 ? 0 : b == -1 ? (COMPUTE)(0 - a) : a / b;
}
COMPUTE divide_floor(COMPUTE a, COMPUTE b)
{
	COMPUTE q = divide_trunc(a, b);
	return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
#else
float divide_trunc(float a, float b)
{
	return trunc(a / b);
}
/* As PyTorch: from the remainder, so that what is a whole number of times b does not fall below it. */
float divide_floor(float a, float b)
{
	if (b == 0)
		return a / b;
	float rest = fmod(a, b), q = (a - rest) / b;
	if (rest != 0 && (b < 0) != (rest < 0))
		q -= 1;
	if (q == 0)
		return copysign(0.0f, a / b);
	float whole = floor(q);
	return q - whole > 0.5f ? whole + 1 : whole;
}
#endif

__kernel void elementwise(uint n, uint n_dims, uint8 sizes, JOIN(COMPUTE, 8) numbers, TENSOR(T_O, o), int8 o_strides
#if OPERANDS > 0
	, CONST_TENSOR(T_A, xa), int8 a_strides
#endif
#if OPERANDS > 1
	, CONST_TENSOR(T_B, xb), int8 b_strides
#endif
#if OPERANDS > 2
	, CONST_TENSOR(T_C, xc), int8 c_strides
#endif
)
{
	uint i = get_global_id(0), rest = i, dims[8];
	int so[8], o_off = 0;
	COMPUTE p[8], v;
	if (i >= n)
		return;
	vstore8(sizes, 0, dims);
	vstore8(numbers, 0, p);
	vstore8(o_strides, 0, so);
#if OPERANDS > 0
	int sa[8], a_off = 0;
	vstore8(a_strides, 0, sa);
#endif
#if OPERANDS > 1
	int sb[8], b_off = 0;
	vstore8(b_strides, 0, sb);
#endif
#if OPERANDS > 2
	int sc[8], c_off = 0;
	vstore8(c_strides, 0, sc);
#endif
	for (uint k = n_dims; k-- > 0;) {
		uint at = rest % dims[k];
		rest /= dims[k];
		o_off += (int)at * so[k];
#if OPERANDS > 0
		a_off += (int)at * sa[k];
#endif
#if OPERANDS > 1
		b_off += (int)at * sb[k];
#endif
#if OPERANDS > 2
		c_off += (int)at * sc[k];
#endif
	}
#if OPERANDS > 0
	COMPUTE a = (COMPUTE)LOAD(T_A, xa + xa_at, a_off);
#endif
#if OPERANDS > 1
	COMPUTE b = (COMPUTE)LOAD(T_B, xb + xb_at, b_off);
#endif
#if OPERANDS > 2
	COMPUTE c = (COMPUTE)LOAD(T_C, xc + xc_at, c_off);
#endif
	v = EXPRESSION;
	STORE(T_O, o + o_at, o_off, v);
}
