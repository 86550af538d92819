/* SPDX-License-Identifier: BSD-3-Clause */
/* Definitions that all kernels share: loads and stores by type, and windows. A kernel's definitions name the types of
 * its tensors (T_O, T_A ...) and COMPUTE, the type in which it computes. A tensor is a buffer and the number of its
 * first element there. Kernels have one dimension of work-items; the host rounds their number up, so each kernel checks
 * its own. */
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

/* --- kernels that compute WIDTH elements at once --------------------------------------------------- */
#ifdef WIDTH
#define VEC       JOIN(float, WIDTH)
#define IVEC      JOIN(int, WIDTH)
#define VLOAD     JOIN(vload, WIDTH)
#define VSTORE    JOIN(vstore, WIDTH)
#define TO_VEC    JOIN(convert_float, WIDTH)
#define TO_IVEC   JOIN(convert_int, WIDTH)
#define TO_CHARS  JOIN(convert_char, WIDTH)
#define TO_UCHARS JOIN(convert_uchar, WIDTH)
#if WIDTH == 16
#define LANES (IVEC)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#else
#define LANES (IVEC)(0, 1, 2, 3)
#endif

/* Rows of a tile have variables of their own, since not every compiler keeps an array in registers. */
#if ROWS == 8
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#else
#define EACH_ROW(X) X(0) X(1) X(2) X(3)
#endif
#define LOCAL __attribute__((reqd_work_group_size(GROUP, 1, 1)))

#define VLOAD_f32(p) VLOAD(0, p)
#define VLOAD_f16(p) JOIN(vload_half, WIDTH)(0, p)
#define VLOAD_i8(p)  TO_VEC(VLOAD(0, p))
#define VLOAD_u8(p)  TO_VEC(VLOAD(0, p))
#define VLOAD_AS(t, p) JOIN(VLOAD_, t)(p)

#define LANE_f32     IS_F32
#define LANE_f16     IS_F16
#define LANE_i8      IS_I8
#define LANE_u8      IS_U8
#define LANE_bool    IS_U8
#define LANE_TYPE(t) JOIN(LANE_, t)

/* Types that are known in the run only: enum ocl_lane_type in delegates/opencl/epilogue.c. */
enum { IS_F32, IS_F16, IS_I8, IS_U8 };

static inline float load_one(__global const uchar *p, int type, long at)
{
	switch (type) {
	case IS_F32:
		return ((__global const float *)p)[at];
	case IS_F16:
		return vload_half(at, (__global const half *)p);
	case IS_I8:
		return ((__global const char *)p)[at];
	default:
		return p[at];
	}
}

/* The first @n of WIDTH elements, which are @stride apart. */
static inline VEC load_lanes(__global const uchar *p, int type, long at, int stride, uint n)
{
	float lanes[WIDTH];
	if (stride == 0)
		return (VEC)(load_one(p, type, at));
	if (stride == 1 && n == WIDTH)
		switch (type) {
		case IS_F32:
			return VLOAD(0, (__global const float *)p + at);
		case IS_F16:
			return JOIN(vload_half, WIDTH)(0, (__global const half *)p + at);
		case IS_I8:
			return TO_VEC(VLOAD(0, (__global const char *)p + at));
		default:
			return TO_VEC(VLOAD(0, p + at));
		}
#if WIDTH == 16
	if (stride == 1 && type == IS_F32 && n >= 8) { /* two halves that overlap */
		VSTORE((VEC)(0.0f), 0, lanes);
		vstore8(vload8(0, (__global const float *)p + at), 0, lanes);
		vstore8(vload8(0, (__global const float *)p + at + n - 8), 0, lanes + n - 8);
		return VLOAD(0, lanes);
	}
#endif
	for (uint i = 0; i < WIDTH; i++)
		lanes[i] = i < n ? load_one(p, type, at + (long)i * stride) : 0;
	return VLOAD(0, lanes);
}

/* Integers saturate. */
static inline void store_lanes(__global uchar *p, int type, long at, uint n, VEC v)
{
	float lanes[WIDTH];
	if (type == IS_I8)
		v = clamp(v, -128.0f, 127.0f);
	else if (type == IS_U8)
		v = clamp(v, 0.0f, 255.0f);
	if (n == WIDTH) {
		switch (type) {
		case IS_F32:
			VSTORE(v, 0, (__global float *)p + at);
			return;
		case IS_F16:
			JOIN(JOIN(vstore_half, WIDTH), _rte)(v, 0, (__global half *)p + at);
			return;
		case IS_I8:
			VSTORE(TO_CHARS(TO_IVEC(v)), 0, (__global char *)p + at);
			return;
		default:
			VSTORE(TO_UCHARS(TO_IVEC(v)), 0, p + at);
			return;
		}
	}
	VSTORE(v, 0, lanes);
#if WIDTH == 16
	if (type == IS_F32 && n >= 4) { /* two parts that overlap */
		__global float *to = (__global float *)p + at;
		if (n >= 8) {
			vstore8(v.lo, 0, to);
			vstore8(vload8(0, lanes + n - 8), 0, to + n - 8);
		} else {
			vstore4(v.lo.lo, 0, to);
			vstore4(vload4(0, lanes + n - 4), 0, to + n - 4);
		}
		return;
	}
#endif
	switch (type) {
	case IS_F32:
		for (uint i = 0; i < n; i++)
			((__global float *)p)[at + i] = lanes[i];
		return;
	case IS_F16:
		for (uint i = 0; i < n; i++)
			vstore_half_rte(lanes[i], at + i, (__global half *)p);
		return;
	default:
		for (uint i = 0; i < n; i++)
			p[at + i] = (uchar)(int)lanes[i];
	}
}

/* --- epilogues: the steps of a node, which delegates/opencl/epilogue.c writes as instructions ------- */

/* A tensor that a step reads beside the running value. */
struct operand {
	__global const uchar *p;
	long at;
	int type, stride;
};

/* Eight words an instruction: operator, three registers (an operand's number; RUNNING; NO_REGISTER), four floats. */
enum { RUNNING = -1, NO_REGISTER = -2, INSTRUCTION = 8 };

static inline VEC read_register(int r, VEC running, const struct operand *operands, uint n)
{
	if (r == NO_REGISTER)
		return (VEC)(0.0f);
	if (r == RUNNING)
		return running;
	return load_lanes(operands[r].p, operands[r].type, operands[r].at, operands[r].stride, n);
}

static inline VEC power(VEC a, float p)
{
	return p == 2 ? a * a : p == 0.5f ? sqrt(a) : pow(a, (VEC)(p));
}

static VEC run_steps(__global const int *code, VEC running, const struct operand *operands, uint n)
{
	int n_steps = code[0];
	for (int i = 0; i < n_steps; i++) {
		__global const int *c = code + 1 + i * INSTRUCTION;
		VEC a = read_register(c[1], running, operands, n), b = read_register(c[2], running, operands, n);
		float p = as_float(c[4]), q = as_float(c[5]);
		const VEC one = (VEC)(1.0f), zero = (VEC)(0.0f);
		switch (c[0]) {
		case 0: /* the same number, of another type */
			running = a;
			break;
		case 1: /* abs */
			running = fabs(a);
			break;
		case 2: /* logical_not */
			running = a == zero ? one : zero;
			break;
		case 4: /* exp */
			running = exp(a);
			break;
		case 5: /* hardswish */
			running = a * clamp(a + 3, 0.0f, 6.0f) / 6;
			break;
		case 6: /* sigmoid */
			running = one / (one + exp(-a));
			break;
		case 7: /* sqrt */
			running = sqrt(a);
			break;
		case 8: /* tanh */
			running = tanh(a);
			break;
		case 9: /* eq */
			running = a == (VEC)(p) ? one : zero;
			break;
		case 10: /* ge */
			running = a >= (VEC)(p) ? one : zero;
			break;
		case 11: /* le */
			running = a <= (VEC)(p) ? one : zero;
			break;
		case 12: /* leaky_relu */
			running = a > zero ? a : a * p;
			break;
		case 13: /* pow */
			running = power(a, p);
			break;
		case 14: /* clamp, hardtanh, relu */
			running = a < (VEC)(p) ? (VEC)(p) : a > (VEC)(q) ? (VEC)(q) : a;
			break;
		case 15: /* gelu */
			running = 0.5f * a * (one + erf(a * 0.70710678118654752f));
			break;
		case 16: /* gelu by tanh */
			running = 0.5f * a * (one + tanh(0.7978845608028654f * (a + 0.044715f * a * a * a)));
			break;
		case 17: /* add, sub: p is alpha, or minus alpha */
			running = a + p * b;
			break;
		case 18: /* mul */
			running = a * b;
			break;
		case 19: /* div */
			running = a / b;
			break;
		case 20: /* where */
			running = a != zero ? b : read_register(c[3], running, operands, n);
			break;
		case 21: /* a cast to integers */
			running = trunc(clamp(a, p, q));
			break;
		case 22: /* a cast to bool */
			running = a != zero ? one : zero;
			break;
		case 23: /* quantize: 1 / scale, zero point, least, most */
			running = clamp(rint(a * p) + q, as_float(c[6]), as_float(c[7]));
			break;
		case 24: /* dequantize: scale, zero point */
			running = (a - q) * p;
			break;
		}
	}
	return running;
}

/* Arguments of a kernel of floats or of int8 tensors (ocl_put_q8ta), where it is built for the latter. */
#ifdef IS_INT8
#define INT8_ARGS , CONST_TENSOR(T_S, scales), float x_scale, int x_zero, float o_scale, int o_zero, int is_relu
#else
#define INT8_ARGS
#endif
/* Arguments of a kernel whose result has an epilogue. Strides of an operand: of the result's outer, middle and inner
 * dimensions, as the kernel counts them. */
#define OPERAND_ARGS(i) , __global const uchar *e##i, ulong e##i##_at, int e##i##_type, int4 e##i##_strides
#define EPILOGUE_ARGS   , float low, float high, __global const int *code OPERAND_ARGS(0) OPERAND_ARGS(1) OPERAND_ARGS(2)
#define OPERAND(i, outer, middle, inner)                                                                    \
	{ e##i, (long)e##i##_at + (long)(outer) * e##i##_strides.s0 + (long)(middle) * e##i##_strides.s1 + \
		(long)(inner) * e##i##_strides.s2, e##i##_type, e##i##_strides.s2 }
/* Bring @v, @n elements of the result from its element (outer, middle, inner) on, through the steps, and write it. */
#define FINISH(v, n, o, o_type, at, outer, middle, inner)                                                      \
	{                                                                                                      \
		VEC done = v;                                                                                  \
		if (code[0]) {                                                                                 \
			struct operand operands[] = { OPERAND(0, outer, middle, inner),                        \
				OPERAND(1, outer, middle, inner), OPERAND(2, outer, middle, inner) };          \
			done = run_steps(code, done, operands, n);                                             \
		}                                                                                              \
		done = done < (VEC)(low) ? (VEC)(low) : done > (VEC)(high) ? (VEC)(high) : done;               \
		store_lanes(o, o_type, at, n, done);                                                           \
	}

#if defined(T_A) && defined(T_W)
/* WIDTH elements of x from @at on, @stride apart, those whose place along the row (from @px on) is outside it 0. */
static inline VEC take_row(__global const TYPE(T_A) *x, long at, long n_x, int px, int stride, int width, float zero)
{
	VEC v;
	bool is_inside = px >= 0 && px + (WIDTH - 1) * stride < width;
	if (stride == 1 && at >= 0 && at + WIDTH <= n_x) {
		v = VLOAD_AS(T_A, x + at);
	} else if (stride == 2 && at >= 0 && at + 2 * WIDTH <= n_x) {
		VEC first = VLOAD_AS(T_A, x + at), second = VLOAD_AS(T_A, x + at + WIDTH);
		v = (VEC)(first.even, second.even);
	} else {
		float lanes[WIDTH];
		for (int l = 0; l < WIDTH; l++)
			lanes[l] = px + l * stride >= 0 && px + l * stride < width ? LOAD(T_A, x, at + l * stride) : 0;
		v = VLOAD(0, lanes);
	}
	v -= zero;
	if (is_inside)
		return v;
	IVEC place = px + LANES * stride;
	return place >= 0 && place < width ? v : (VEC)(0.0f);
}
#endif
#endif
