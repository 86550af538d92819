/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution of [N, C, H, W] in which each channel has weights of its own. A work-item computes WIDTH neighbours along
 * a row of the result, for ROWS rows. Weights are w_channel apart from channel to channel, and w_tap within the window.
 * IS_INT8: sums of whole numbers in floats, exact up to 512 weights.
 * sizes, window and n_x: as in convolution_tile.cl. */
__kernel LOCAL void depthwise(uint n, uint8 sizes, int8 window, long n_x, uint n_segments, uint n_blocks, uint w_channel, uint w_tap,
	int has_bias, __global uchar *o, ulong o_at, int o_type, CONST_TENSOR(T_A, x), CONST_TENSOR(T_W, w),
	CONST_TENSOR(T_C, bias)
	INT8_ARGS EPILOGUE_ARGS)
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	int n_channels = sizes.s0, height = sizes.s1, width = sizes.s2, o_height = sizes.s4, o_width = sizes.s5,
	    k_height = sizes.s6, k_width = sizes.s7;
	int ox = i % n_segments * WIDTH, oy = i / n_segments % n_blocks * ROWS, channel = i / n_segments / n_blocks % n_channels;
	uint batch = i / n_segments / n_blocks / n_channels;
	if (ox + WIDTH > o_width && o_width >= WIDTH)
		ox = o_width - WIDTH; /* some elements twice, rather than a rest */
	uint n_lanes = min(o_width - ox, WIDTH);
	int x0 = ox * window.s1 - window.s3, end = min(oy + ROWS, o_height);
	int span = (k_width - 1) * window.s5 + WIDTH;
	bool is_inside = x0 >= 0 && x0 + span <= width;
	long first = ((long)batch * n_channels + channel) * height * width;
	float more = has_bias ? LOAD(T_C, bias + bias_at, channel) : 0, zero = 0;
#ifdef IS_INT8
	zero = x_zero;
	float scale = x_scale * LOAD(T_S, scales + scales_at, channel);
#endif
	x += x_at;
	w += w_at + (ulong)channel * w_channel;
	for (; oy < end; oy++) {
		VEC v = (VEC)(0.0f);
		for (int ky = 0; ky < k_height; ky++) {
			int y = oy * window.s0 - window.s2 + ky * window.s4;
			if (y < 0 || y >= height)
				continue;
			long at = first + (long)y * width + x0;
			if (window.s1 == 1 && at >= 0 && at + span <= n_x) { /* all that is loaded is there */
				__global const TYPE(T_A) *row = x + at;
				__global const TYPE(T_W) *taps = w + (ulong)(ky * k_width) * w_tap;
				if (is_inside) {
					for (int kx = 0; kx < k_width; kx++, row += window.s5, taps += w_tap)
						v += LOAD(T_W, taps, 0) * (VLOAD_AS(T_A, row) - zero);
				} else {
					IVEC place = x0 + LANES;
					for (int kx = 0; kx < k_width; kx++, row += window.s5, taps += w_tap, place += window.s5)
						v += place >= 0 && place < width
							? LOAD(T_W, taps, 0) * (VLOAD_AS(T_A, row) - zero)
							: (VEC)(0.0f);
				}
				continue;
			}
			for (int kx = 0; kx < k_width; kx++) {
				int px = x0 + kx * window.s5;
				v += LOAD(T_W, w, (ulong)(ky * k_width + kx) * w_tap) *
					take_row(x, first + (long)y * width + px, n_x, px, window.s1, width, zero);
			}
		}
#ifdef IS_INT8
		v = v * scale + more;
		if (is_relu)
			v = max(v, 0.0f);
		v = clamp(rint(v / o_scale) + (float)o_zero, -128.0f, 127.0f);
#else
		v += more;
#endif
		ulong pixel = (ulong)oy * o_width + ox;
		ulong at = ((ulong)batch * n_channels + channel) * o_height * o_width + pixel;
		FINISH(v, n_lanes, o, o_type, o_at + at, batch, channel, pixel)
	}
}
