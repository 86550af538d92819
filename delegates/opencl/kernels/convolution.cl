/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution of [N, C, H, W], forwards or transposed, with groups, dilation and a range for the result. One spatial
 * dimension is a height of 1. A work-item for each element of the result.
 * sizes: C, H, W, OC, OH, OW, KH, KW; window: stride, padding, dilation of height and width, groups. */
__kernel void convolution(uint n, uint8 sizes, int8 window, float low, float high, int has_bias, TENSOR(T_O, o),
	CONST_TENSOR(T_A, x), CONST_TENSOR(T_W, w), CONST_TENSOR(T_C, bias))
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	int n_channels = sizes.s0, height = sizes.s1, width = sizes.s2, o_channels = sizes.s3, o_height = sizes.s4,
	    o_width = sizes.s5, k_height = sizes.s6, k_width = sizes.s7;
	int groups = window.s6, group_in = n_channels / groups, group_out = o_channels / groups;
	int ox = i % o_width, oy = i / o_width % o_height, oc = i / o_width / o_height % o_channels;
	uint batch = i / o_width / o_height / o_channels;
	int group = oc / group_out;
	float sum = 0;
	x += x_at + ((ulong)batch * n_channels + (ulong)group * group_in) * height * width;
	w += w_at;
	for (int c = 0; c < group_in; c++)
		for (int ky = 0; ky < k_height; ky++)
			for (int kx = 0; kx < k_width; kx++) {
				int y, px;
				if (!in_window(oy, ky, window.s0, window.s2, window.s4, height, &y) ||
					!in_window(ox, kx, window.s1, window.s3, window.s5, width, &px))
					continue;
#ifdef IS_TRANSPOSED
				ulong at = ((ulong)(group * group_in + c) * group_out + oc % group_out);
#else
				ulong at = (ulong)oc * group_in + c;
#endif
				sum += LOAD(T_A, x, ((ulong)c * height + y) * width + px) *
					LOAD(T_W, w, (at * k_height + ky) * k_width + kx);
			}
	if (has_bias)
		sum += LOAD(T_C, bias + bias_at, oc);
	sum = sum < low ? low : sum > high ? high : sum;
	STORE(T_O, o + o_at, i, sum);
}
