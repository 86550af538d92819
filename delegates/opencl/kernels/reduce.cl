/* SPDX-License-Identifier: BSD-3-Clause */
/* One element of the result from the elements of x along the reduced dimensions: a work-item each. */
__kernel void reduce(uint n, uint n_kept, uint8 kept, int8 kept_strides, uint n_inner, uint n_reduced, uint8 reduced,
	int8 reduced_strides, TENSOR(T_O, o), CONST_TENSOR(T_A, x))
{
	uint i = get_global_id(0), rest = i, dims[8];
	int s[8], base = 0;
	if (i >= n)
		return;
	vstore8(kept, 0, dims);
	vstore8(kept_strides, 0, s);
	for (uint k = n_kept; k-- > 0;) {
		base += (int)(rest % dims[k]) * s[k];
		rest /= dims[k];
	}
	vstore8(reduced, 0, dims);
	vstore8(reduced_strides, 0, s);
	x += x_at;
	COMPUTE best = 0;
	uint best_at = 0;
	for (uint r = 0; r < n_inner; r++) {
		int off = base;
		rest = r;
		for (uint k = n_reduced; k-- > 0;) {
			off += (int)(rest % dims[k]) * s[k];
			rest /= dims[k];
		}
		COMPUTE v = (COMPUTE)LOAD(T_A, x, off);
#ifdef IS_SUM
		best += v;
#else
		/* NaN is larger and smaller than everything; the first one wins. */
		if (r == 0 || (best == best && (v BETTER best || v != v))) {
			best = v;
			best_at = r;
		}
#endif
	}
#ifdef IS_MEAN
	best /= n_inner;
#endif
#ifdef IS_INDEX
	(o + o_at)[i] = best_at;
#else
	STORE(T_O, o + o_at, i, best);
#endif
}
