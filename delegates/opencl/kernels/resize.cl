/* SPDX-License-Identifier: BSD-3-Clause */
/* Resizing of planes to the nearest element, or between four of them (IS_BILINEAR). scale_y and scale_x are elements of
 * x for each element of the result. */
__kernel void resize(uint n, uint4 sizes, float scale_y, float scale_x, int aligns_corners, TENSOR(T_O, o),
	CONST_TENSOR(T_A, x))
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	int height = sizes.s0, width = sizes.s1, o_height = sizes.s2, o_width = sizes.s3;
	int ox = i % o_width, oy = i / o_width % o_height;
	x += x_at + (ulong)(i / o_width / o_height) * height * width;
#ifdef IS_BILINEAR
	float y = aligns_corners ? oy * scale_y : max((oy + 0.5f) * scale_y - 0.5f, 0.0f);
	float px = aligns_corners ? ox * scale_x : max((ox + 0.5f) * scale_x - 0.5f, 0.0f);
	int y0 = clamp((int)y, 0, height - 1), x0 = clamp((int)px, 0, width - 1);
	int y1 = min(y0 + 1, height - 1), x1 = min(x0 + 1, width - 1);
	float fy = y - y0, fx = px - x0;
	float top = LOAD(T_A, x, y0 * width + x0) * (1 - fx) + LOAD(T_A, x, y0 * width + x1) * fx;
	float bottom = LOAD(T_A, x, y1 * width + x0) * (1 - fx) + LOAD(T_A, x, y1 * width + x1) * fx;
	STORE(T_O, o + o_at, i, top * (1 - fy) + bottom * fy);
#else
	int y = clamp((int)floor(oy * scale_y), 0, height - 1), px = clamp((int)floor(ox * scale_x), 0, width - 1);
	STORE(T_O, o + o_at, i, LOAD(T_A, x, y * width + px));
#endif
}
