/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution of [N, C, H, W] in which each channel has weights of its own. A work-item computes WIDTH neighbours along
 * a row of the result, for ROWS rows. Weights are w_channel apart from channel to channel, and w_tap within the window.
 * IS_INT8: sums of whole numbers in floats, exact up to 512 weights.
 * sizes, window and n_x: as in convolution_tile.cl. */
/* Rows that are computed side by side: each sum waits for its product before. ROWS is a multiple. */
#define LINES        4
#define EACH_LINE(X) X(0) X(1) X(2) X(3)

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
	for (; oy < end; oy += LINES) {
		if (oy + LINES > o_height && o_height >= LINES)
			oy = o_height - LINES; /* as for columns */
#define ZERO(t) VEC v##t = (VEC)(0.0f);
		EACH_LINE(ZERO)
		for (int ky = 0; ky < k_height; ky++) {
			int y = oy * window.s0 - window.s2 + ky * window.s4;
			long apart = (long)window.s0 * width, at = first + (long)y * width + x0;
			__global const TYPE(T_W) *taps = w + (ulong)(ky * k_width) * w_tap;
			if (window.s1 == 1 && y >= 0 && y + (LINES - 1) * window.s0 < height && at >= 0 &&
				at + (LINES - 1) * apart + span <= n_x) { /* all that is loaded is there */
				__global const TYPE(T_A) *row = x + at;
				IVEC place = x0 + LANES;
				for (int kx = 0; kx < k_width; kx++, row += window.s5, taps += w_tap, place += window.s5) {
					VEC tap = (VEC)(LOAD(T_W, taps, 0));
#define ADD(t)        v##t += tap * (VLOAD_AS(T_A, row + t * apart) - zero);
#define ADD_INSIDE(t) v##t += tap * (place >= 0 && place < width ? VLOAD_AS(T_A, row + t * apart) - zero : (VEC)(0.0f));
					if (is_inside) {
						EACH_LINE(ADD)
					} else {
						EACH_LINE(ADD_INSIDE)
					}
				}
				continue;
			}
			for (int kx = 0; kx < k_width; kx++, taps += w_tap) {
				int px = x0 + kx * window.s5;
#define ADD_LINE(t)                                                                                                     \
	if (oy + t < o_height && y + t * window.s0 >= 0 && y + t * window.s0 < height)                                  \
		v##t += LOAD(T_W, taps, 0) * take_row(x, at + t * apart + kx * window.s5, n_x, px, window.s1, width, zero);
				EACH_LINE(ADD_LINE)
			}
		}
#define KEEP(t) v##t,
		VEC lines[] = { EACH_LINE(KEEP) };
		for (int t = 0; t < LINES && oy + t < o_height; t++) {
			VEC v = lines[t];
#ifdef IS_INT8
			v = v * scale + more;
			if (is_relu)
				v = max(v, 0.0f);
			v = clamp(rint(v / o_scale) + (float)o_zero, -128.0f, 127.0f);
#else
			v += more;
#endif
			ulong pixel = (ulong)(oy + t) * o_width + ox;
			ulong to = ((ulong)batch * n_channels + channel) * o_height * o_width + pixel;
			FINISH(v, n_lanes, o, o_type, o_at + to, batch, channel, pixel)
		}
	}
}
