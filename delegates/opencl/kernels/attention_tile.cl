/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention as attention.cl has it, for WIDTH keys at once. LENGTH and V_LENGTH, the sizes of a key and of a value, are
 * multiples of WIDTH. Keys are rows, or (key_stride 1) columns. */
static inline float sum_of(VEC v)
{
	float lanes[WIDTH], sum = 0;
	VSTORE(v, 0, lanes);
	for (int i = 0; i < WIDTH; i++)
		sum += lanes[i];
	return sum;
}

static inline float most_of(VEC v)
{
	float lanes[WIDTH], most = -INFINITY;
	VSTORE(v, 0, lanes);
	for (int i = 0; i < WIDTH; i++)
		most = lanes[i] > most ? lanes[i] : most;
	return most;
}

__kernel LOCAL void attention_tile(uint n, uint4 sizes, int4 q_strides, int4 k_strides, int4 v_strides, int4 o_strides,
	uint n_shared, uint start, float scale, int4 mask_strides, int has_mask, TENSOR(T_O, o), CONST_TENSOR(T_A, q),
	CONST_TENSOR(T_K, k), CONST_TENSOR(T_V, v), CONST_TENSOR(T_M, mask))
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	uint row = i % sizes.s2, head = i / sizes.s2 % sizes.s1, batch = i / sizes.s2 / sizes.s1, n_keys = sizes.s3;
	VEC query[LENGTH / WIDTH], sums[V_LENGTH / WIDTH];
	float each[LENGTH], largest = -INFINITY, total = 0;
	q += q_at + (long)batch * q_strides.s0 + (long)head * q_strides.s1 + (long)row * q_strides.s2;
	k += k_at + (long)batch * k_strides.s0 + (long)(head / n_shared) * k_strides.s1;
	v += v_at + (long)batch * v_strides.s0 + (long)(head / n_shared) * v_strides.s1;
	o_at += (long)batch * o_strides.s0 + (long)head * o_strides.s1 + (long)row * o_strides.s2;
	mask_at += (long)batch * mask_strides.s0 + (long)head * mask_strides.s1 + (long)row * mask_strides.s2;
#ifdef IS_CAUSAL
	n_keys = min(n_keys, start + row + 1);
#endif
	for (int d = 0; d < LENGTH / WIDTH; d++) {
		query[d] = VLOAD_AS(T_A, q + d * WIDTH) * scale;
		VSTORE(query[d], d, each);
	}
	for (int d = 0; d < V_LENGTH / WIDTH; d++)
		sums[d] = (VEC)(0.0f);
	for (uint first = 0; first < n_keys; first += WIDTH) {
		uint n_lanes = min(n_keys - first, (uint)WIDTH);
		float lanes[WIDTH];
		VEC scores = (VEC)(0.0f);
		if (k_strides.s2 == 1 && k_strides.s3 != 1) {
			for (int d = 0; d < LENGTH; d++)
				scores += each[d] * load_lanes((__global const uchar *)k, LANE_TYPE(T_K),
					(long)d * k_strides.s3 + first, 1, n_lanes);
		} else {
			for (uint l = 0; l < WIDTH; l++)
				lanes[l] = 0;
			for (uint l = 0; l < n_lanes; l++) {
				VEC product = (VEC)(0.0f);
				for (int d = 0; d < LENGTH / WIDTH; d++)
					product += query[d] * VLOAD_AS(T_K, k + (long)(first + l) * k_strides.s2 + d * WIDTH);
				lanes[l] = sum_of(product);
			}
			scores = VLOAD(0, lanes);
		}
		if (has_mask) {
			VEC more = load_lanes((__global const uchar *)mask, LANE_TYPE(T_M),
				(long)mask_at + (long)first * mask_strides.s3, mask_strides.s3, n_lanes);
#ifdef MASK_IS_BOOL
			scores = more != (VEC)(0.0f) ? scores : (VEC)(-INFINITY);
#else
			scores += more;
#endif
		}
		scores = LANES < (IVEC)((int)n_lanes) ? scores : (VEC)(-INFINITY);
		float most = most_of(scores);
		if (most > largest) {
			float shrink = exp(largest - most);
			total *= shrink;
			for (int d = 0; d < V_LENGTH / WIDTH; d++)
				sums[d] *= shrink;
			largest = most;
		}
		if (largest == -INFINITY && most == -INFINITY)
			continue;
		VEC weights = exp(scores - largest);
		total += sum_of(weights);
		VSTORE(weights, 0, lanes);
		for (uint l = 0; l < n_lanes; l++)
			for (int d = 0; d < V_LENGTH / WIDTH; d++)
				sums[d] += lanes[l] * VLOAD_AS(T_V, v + (long)(first + l) * v_strides.s2 + d * WIDTH);
	}
	for (int d = 0; d < V_LENGTH / WIDTH; d++)
		store_lanes((__global uchar *)o, LANE_TYPE(T_O), o_at + d * WIDTH, WIDTH, sums[d] / total);
}
