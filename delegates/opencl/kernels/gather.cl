/* SPDX-License-Identifier: BSD-3-Clause */
/* Elements of x by indexes that tensors hold. Up to INDEXES tensors name a place along one dimension of x each; the other
 * dimensions of x follow from the place of the result's element. An index out of range gives 0 and is told. */
__kernel void gather(uint n, uint n_dims, uint8 sizes, TENSOR(T_O, o), CONST_TENSOR(T_O, x), int8 x_strides, int wraps,
	__global int *error
#define INDEX(k) , CONST_TENSOR(T_I##k, i##k), int8 i##k##_strides, int n##k, int step##k
	INDEX(0)
#if INDEXES > 1
	INDEX(1)
#endif
#if INDEXES > 2
	INDEX(2)
#endif
#if INDEXES > 3
	INDEX(3)
#endif
)
{
	uint i = get_global_id(0), rest = i, dims[8], at[8];
	int sx[8], s[8], off = 0;
	bool is_wrong = false;
	if (i >= n)
		return;
	vstore8(sizes, 0, dims);
	vstore8(x_strides, 0, sx);
	for (uint k = n_dims; k-- > 0;) {
		at[k] = rest % dims[k];
		rest /= dims[k];
		off += (int)at[k] * sx[k];
	}
#define TAKE(k) { \
		int place = 0; \
		vstore8(i##k##_strides, 0, s); \
		for (uint d = 0; d < n_dims; d++) \
			place += (int)at[d] * s[d]; \
		long index = LOAD(T_I##k, i##k + i##k##_at, place); \
		if (wraps && index < 0) \
			index += n##k; \
		is_wrong |= index < 0 || index >= n##k; \
		off += is_wrong ? 0 : (int)index * step##k; \
	}
	TAKE(0)
#if INDEXES > 1
	TAKE(1)
#endif
#if INDEXES > 2
	TAKE(2)
#endif
#if INDEXES > 3
	TAKE(3)
#endif
	if (is_wrong)
		*error = 1;
	STORE(T_O, o + o_at, i, is_wrong ? 0 : LOAD(T_O, x + x_at, off));
}
