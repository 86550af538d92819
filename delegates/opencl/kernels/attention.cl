/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention, a work-item for each row of the query: the softmax over the keys is corrected as they come, so no scores
 * are kept. Head h reads the keys of head h / n_shared. IS_CAUSAL: row s sees the keys up to start + s.
 * sizes: B, H, S, L; strides of q, k, v and of the result: batch, head, row, element (of keys only; else it is 1).
 * LENGTH and V_LENGTH are the sizes of a key and of a value. */
__kernel void attention(uint n, uint4 sizes, int4 q_strides, int4 k_strides, int4 v_strides, int4 o_strides,
	uint n_shared, uint start, float scale, int4 mask_strides, int has_mask, TENSOR(T_O, o), CONST_TENSOR(T_A, q), CONST_TENSOR(T_K, k),
	CONST_TENSOR(T_V, v), CONST_TENSOR(T_M, mask))
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	uint row = i % sizes.s2, head = i / sizes.s2 % sizes.s1, batch = i / sizes.s2 / sizes.s1;
	float sums[V_LENGTH], largest = -INFINITY, total = 0;
	q += q_at + (long)batch * q_strides.s0 + (long)head * q_strides.s1 + (long)row * q_strides.s2;
	k += k_at + (long)batch * k_strides.s0 + (long)(head / n_shared) * k_strides.s1;
	v += v_at + (long)batch * v_strides.s0 + (long)(head / n_shared) * v_strides.s1;
	o += o_at + (long)batch * o_strides.s0 + (long)head * o_strides.s1 + (long)row * o_strides.s2;
	mask += mask_at;
	uint n_keys = sizes.s3;
#ifdef IS_CAUSAL
	n_keys = min(n_keys, start + row + 1);
#endif
	for (uint d = 0; d < V_LENGTH; d++)
		sums[d] = 0;
	for (uint l = 0; l < n_keys; l++) {
		float score = 0;
		for (uint d = 0; d < LENGTH; d++)
			score += LOAD(T_A, q, d) * LOAD(T_K, k, (long)l * k_strides.s2 + (long)d * k_strides.s3);
		score *= scale;
		if (has_mask) {
			long at = (long)batch * mask_strides.s0 + (long)head * mask_strides.s1 + (long)row * mask_strides.s2 +
				(long)l * mask_strides.s3;
#ifdef MASK_IS_BOOL
			if (!LOAD(T_M, mask, at))
				continue;
#else
			score += LOAD(T_M, mask, at);
			if (score == -INFINITY)
				continue;
#endif
		}
		if (score > largest) {
			float shrink = exp(largest - score);
			total *= shrink;
			for (uint d = 0; d < V_LENGTH; d++)
				sums[d] *= shrink;
			largest = score;
		}
		float weight = exp(score - largest);
		total += weight;
		for (uint d = 0; d < V_LENGTH; d++)
			sums[d] += weight * LOAD(T_V, v, (long)l * v_strides.s2 + d);
	}
	for (uint d = 0; d < V_LENGTH; d++)
		STORE(T_O, o, d, sums[d] / total);
}
