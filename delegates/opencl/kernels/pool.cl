/* SPDX-License-Identifier: BSD-3-Clause */
/* Pooling of planes: the largest element of each window with its place in the plane (IS_MAX), or the mean.
 * sizes: H, W, OH, OW, KH, KW; window: stride, padding, dilation of height and width. */
__kernel void pool(uint n, uint8 sizes, int8 window, int counts_padding, int divisor, TENSOR(T_O, o), CONST_TENSOR(T_A, x)
#ifdef IS_MAX
	, TENSOR(T_I, index)
#endif
)
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	int height = sizes.s0, width = sizes.s1, o_height = sizes.s2, o_width = sizes.s3, k_height = sizes.s4, k_width = sizes.s5;
	int ox = i % o_width, oy = i / o_width % o_height;
	int y0 = oy * window.s0 - window.s2, x0 = ox * window.s1 - window.s3;
	x += x_at + (ulong)(i / o_width / o_height) * height * width;
	COMPUTE best = 0;
	int best_at = -1;
	/* Only taps that lie in the plane: a window may be far larger than that. */
	int ky0 = y0 < 0 ? (window.s4 - 1 - y0) / window.s4 : 0, kx0 = x0 < 0 ? (window.s5 - 1 - x0) / window.s5 : 0;
	for (int ky = ky0; ky < k_height && y0 + ky * window.s4 < height; ky++)
		for (int kx = kx0; kx < k_width && x0 + kx * window.s5 < width; kx++) {
			int y = y0 + ky * window.s4, px = x0 + kx * window.s5;
			if (y < 0 || px < 0)
				continue;
			COMPUTE v = (COMPUTE)LOAD(T_A, x, y * width + px);
#ifdef IS_MAX
			if (best_at < 0 || v > best || v != v) {
				best = v;
				best_at = y * width + px;
			}
#else
			best += v;
#endif
		}
#ifdef IS_MAX
	STORE(T_O, o + o_at, i, best);
	(index + index_at)[i] = max(best_at, 0);
#else
	/* A window may reach over the padded end; what lies there never counts. */
	int y1 = min(y0 + k_height, height + window.s2), x1 = min(x0 + k_width, width + window.s3);
	int count = counts_padding ? (y1 - y0) * (x1 - x0)
				   : (min(y1, height) - max(y0, 0)) * (min(x1, width) - max(x0, 0));
	STORE(T_O, o + o_at, i, divisor ? best / divisor : count > 0 ? best / count : 0);
#endif
}
