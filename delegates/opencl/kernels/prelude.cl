/* SPDX-License-Identifier: BSD-3-Clause */
/* Definitions that all kernels share: loads and stores by type, and windows. A kernel's definitions name the types of its tensors (T_O, T_A ...)
 * and COMPUTE, the type in which it computes. A tensor is a buffer and the number of its first element there. Kernels
 * have one dimension of work-items; the host rounds their number up, so each kernel checks its own. */
#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

#define TYPE_f32  float
#define TYPE_f16  half
#define TYPE_i64  long
#define TYPE_i32  int
#define TYPE_i8   char
#define TYPE_u8   uchar
#define TYPE_bool uchar
#define TYPE(t)   JOIN(TYPE_, t)

#define LOAD_f32(p, i)  ((p)[i])
#define LOAD_f16(p, i)  vload_half(i, p)
#define LOAD_i64(p, i)  ((p)[i])
#define LOAD_i32(p, i)  ((p)[i])
#define LOAD_i8(p, i)   ((p)[i])
#define LOAD_u8(p, i)   ((p)[i])
#define LOAD_bool(p, i) ((p)[i] != 0)
#define LOAD(t, p, i)   JOIN(LOAD_, t)(p, i)

#define STORE_f32(p, i, v)  (p)[i] = (float)(v)
#define STORE_f16(p, i, v)  vstore_half_rte((float)(v), i, p)
#define STORE_bool(p, i, v) (p)[i] = (v) != 0
#ifdef COMPUTES_IN_INTEGERS
#define STORE_i64(p, i, v) (p)[i] = (long)(v)
#define STORE_i32(p, i, v) (p)[i] = (int)(v)
#define STORE_i8(p, i, v)  (p)[i] = (char)(v)
#define STORE_u8(p, i, v)  (p)[i] = (uchar)(v)
#else
#define STORE_i64(p, i, v) (p)[i] = convert_long_sat((float)(v))
#define STORE_i32(p, i, v) (p)[i] = convert_int_sat((float)(v))
#define STORE_i8(p, i, v)  (p)[i] = convert_char_sat((float)(v))
#define STORE_u8(p, i, v)  (p)[i] = convert_uchar_sat((float)(v))
#endif
#define STORE(t, p, i, v) JOIN(STORE_, t)(p, i, v)

#define TENSOR(t, name)       __global TYPE(t) *name, ulong name##_at
#define CONST_TENSOR(t, name) __global const TYPE(t) *name, ulong name##_at

/* Find the element, of @n along one dimension of the input, that weight @k of a window meets for element @o of the
 * result; IS_TRANSPOSED: of a transposed convolution. False: none, or one in the padding. */
static inline bool in_window(int o, int k, int stride, int padding, int dilation, int n, int *ret)
{
#ifdef IS_TRANSPOSED
	int at = o + padding - k * dilation;
	if (at < 0 || at % stride != 0)
		return false;
	at /= stride;
#else
	int at = o * stride - padding + k * dilation;
#endif
	*ret = at;
	return at >= 0 && at < n;
}
