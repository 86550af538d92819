/* SPDX-License-Identifier: BSD-3-Clause */
/* Softmax along the middle of three dimensions: a work-item for each of the others. */
__kernel void softmax(uint n, uint n_along, uint n_inner, TENSOR(T_O, o), CONST_TENSOR(T_A, x))
{
	uint i = get_global_id(0);
	if (i >= n)
		return;
	ulong first = (ulong)(i / n_inner) * n_along * n_inner + i % n_inner;
	float largest = -INFINITY, sum = 0;
	x += x_at;
	o += o_at;
	for (uint k = 0; k < n_along; k++) {
		float v = LOAD(T_A, x, first + (ulong)k * n_inner);
		largest = v > largest || v != v ? v : largest;
	}
	for (uint k = 0; k < n_along; k++)
		sum += exp(LOAD(T_A, x, first + (ulong)k * n_inner) - largest);
	for (uint k = 0; k < n_along; k++)
		STORE(T_O, o, first + (ulong)k * n_inner, exp(LOAD(T_A, x, first + (ulong)k * n_inner) - largest) / sum);
}
