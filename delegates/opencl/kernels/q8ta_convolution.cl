/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution between tensors of int8, [N, C, H, W]. Weights are rows of row_bytes for each channel of the result, in
 * the order (ky, kx, channel); IS_DEPTHWISE: [ky, kx, channel] with row_bytes channels. What lies outside the input is the real 0, that
 * is x_zero. A work-item for each element.
 * sizes: C, H, W, OC, OH, OW, KH, KW; window: stride, padding, dilation of height and width, groups. */
__kernel void q8ta_convolution(uint n, uint8 sizes, int8 window, uint row_bytes, float x_scale, int x_zero, float o_scale,
	int o_zero, int has_bias, int is_relu, TENSOR(T_O, o), CONST_TENSOR(T_A, x), CONST_TENSOR(T_W, w), CONST_TENSOR(T_S, scales),
	CONST_TENSOR(T_C, bias))
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	int n_channels = sizes.s0, height = sizes.s1, width = sizes.s2, o_channels = sizes.s3, o_height = sizes.s4,
	    o_width = sizes.s5, k_height = sizes.s6, k_width = sizes.s7;
	int groups = window.s6, group_in = n_channels / groups, group_out = o_channels / groups;
	int ox = i % o_width, oy = i / o_width % o_height, oc = i / o_width / o_height % o_channels;
	uint batch = i / o_width / o_height / o_channels;
	int sum = 0;
	x += x_at + ((ulong)batch * n_channels + (ulong)(oc / group_out) * group_in) * height * width;
	w += w_at;
	for (int ky = 0; ky < k_height; ky++)
		for (int kx = 0; kx < k_width; kx++) {
			int y, px;
			if (!in_window(oy, ky, window.s0, window.s2, window.s4, height, &y) ||
				!in_window(ox, kx, window.s1, window.s3, window.s5, width, &px))
				continue;
			for (int c = 0; c < group_in; c++) {
#ifdef IS_DEPTHWISE
				int weight = w[(ulong)(ky * k_width + kx) * row_bytes + oc];
#else
				int weight = w[(ulong)oc * row_bytes + (ky * k_width + kx) * group_in + c];
#endif
				sum += ((int)x[((ulong)c * height + y) * width + px] - x_zero) * weight;
			}
		}
	float v = sum * (x_scale * LOAD(T_S, scales + scales_at, oc));
	if (has_bias)
		v += LOAD(T_C, bias + bias_at, oc);
	if (is_relu)
		v = max(v, 0.0f);
	STORE(T_O, o + o_at, i, clamp(rint(v / o_scale) + o_zero, -128.0f, 127.0f));
}
