/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution of [N, C, H, W] with groups and dilation as a matrix product whose second matrix, the input's elements
 * under each weight, is made a piece at a time: DEPTH weights for WIDTH neighbours along a row of the result. A
 * work-item computes CHANNELS channels of them, so that each piece is used often. Weights are rows, one for each
 * channel, in the order (channel, ky, kx); IS_INT8: (ky, kx, channel), and floats that are whole numbers: see gemm.cl.
 *
 * A convolution of 1 x 1 without stride or padding comes as one row of H * W.
 * sizes: C, H, W, OC, OH, OW, KH, KW; window: stride, padding, dilation of height and width, groups; n_x: elements of
 * x. */
#define DEPTH    128
#define CHANNELS 64

__kernel LOCAL void convolution_tile(uint n, uint8 sizes, int8 window, long n_x, uint n_blocks, uint n_segments, int has_bias,
	__global uchar *o, ulong o_at, int o_type, CONST_TENSOR(T_A, x), CONST_TENSOR(T_W, w), CONST_TENSOR(T_C, bias)
	INT8_ARGS EPILOGUE_ARGS)
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	int n_channels = sizes.s0, height = sizes.s1, width = sizes.s2, o_channels = sizes.s3, o_height = sizes.s4,
	    o_width = sizes.s5, k_height = sizes.s6, k_width = sizes.s7;
	int groups = window.s6, group_in = n_channels / groups, group_out = o_channels / groups;
	/* Work-items that follow each other share the input. */
	int block = i % n_blocks, group = i / n_blocks % groups, ox = i / n_blocks / groups % n_segments * WIDTH;
	int oy = i / n_blocks / groups / n_segments % o_height;
	uint batch = i / n_blocks / groups / n_segments / o_height;
	if (ox + WIDTH > o_width && o_width >= WIDTH)
		ox = o_width - WIDTH; /* some elements twice, rather than a rest */
	uint n_lanes = min(o_width - ox, WIDTH);
	int oc = group * group_out + block * CHANNELS, n_rows = min(group_out - block * CHANNELS, CHANNELS);
	int n_along = group_in * k_height * k_width, y0 = oy * window.s0 - window.s2, x0 = ox * window.s1 - window.s3;
	long plane = (long)height * width, first = ((long)batch * n_channels + (long)group * group_in) * plane;
	/* One weight for each channel, and all neighbours are there. */
	long point = first + (long)y0 * width + x0;
	bool is_point = k_height == 1 && k_width == 1 && window.s1 == 1 && y0 >= 0 && y0 < height && x0 >= 0 &&
		x0 + WIDTH <= width;
	float piece[DEPTH * WIDTH];
#ifdef IS_INT8
	IVEC totals[CHANNELS];
	float zero = x_zero;
#define TOTAL     IVEC
#define ADD(t, v) totals[t] += TO_IVEC(v)
#else
	VEC totals[CHANNELS];
	float zero = 0;
#define TOTAL     VEC
#define ADD(t, v) totals[t] += v
#endif
	x += x_at;
	w += w_at;
	for (int t = 0; t < CHANNELS; t++)
		totals[t] = (TOTAL)(0);
	int c = 0, ky = 0, kx = 0;
	for (int from = 0; from < n_along; from += DEPTH) {
		int depth = min(n_along - from, DEPTH);
		for (int k = 0; k < depth && is_point; k++)
			VSTORE(VLOAD_AS(T_A, x + point + (long)(from + k) * plane) - zero, 0, piece + k * WIDTH);
		for (int k = 0; k < depth && !is_point; k++) {
			int y = y0 + ky * window.s4, px = x0 + kx * window.s5;
			VEC v = (VEC)(0.0f);
			if (y >= 0 && y < height)
				v = take_row(x, first + c * plane + (long)y * width + px, n_x, px, window.s1, width, zero);
			VSTORE(v, 0, piece + k * WIDTH);
#ifdef IS_INT8
			if (++c == group_in) {
				c = 0;
				if (++kx == k_width) {
					kx = 0;
					ky++;
				}
			}
#else
			if (++kx == k_width) {
				kx = 0;
				if (++ky == k_height) {
					ky = 0;
					c++;
				}
			}
#endif
		}
		for (int t = 0; t < n_rows; t += ROWS) {
#define START(s)                                                                                   \
			__global const TYPE(T_W) *row##s = w + (ulong)(oc + min(t + s, n_rows - 1)) * n_along + from; \
			VEC sum##s = (VEC)(0.0f);
			EACH_ROW(START)
			for (int k = 0; k < depth; k++) {
				VEC v = VLOAD(0, piece + k * WIDTH);
#define MULTIPLY(s) sum##s += LOAD(T_W, row##s, k) * v;
				EACH_ROW(MULTIPLY)
			}
#define ADD_UP(s) ADD(t + s, sum##s);
			EACH_ROW(ADD_UP)
		}
	}
	for (int t = 0; t < n_rows; t++) {
		float more = has_bias ? LOAD(T_C, bias + bias_at, oc + t) : 0;
#ifdef IS_INT8
		VEC v = TO_VEC(totals[t]) * (x_scale * LOAD(T_S, scales + scales_at, oc + t)) + more;
		if (is_relu)
			v = max(v, 0.0f);
		v = clamp(rint(v / o_scale) + (float)o_zero, -128.0f, 127.0f);
#else
		VEC v = totals[t] + more;
#endif
		ulong pixel = (ulong)oy * o_width + ox;
		ulong at = ((ulong)batch * o_channels + oc + t) * o_height * o_width + pixel;
		FINISH(v, n_lanes, o, o_type, o_at + at, batch, oc + t, pixel)
	}
}
