/* SPDX-License-Identifier: BSD-3-Clause */
/* llama::fast_hadamard_transform: each row times a Hadamard matrix, by additions and subtractions only.
 *
 * Rows have 2^n numbers, or 28 times as many: then the 28 parts are transformed separately first, and afterwards
 * multiplied, position by position, with a 28 x 28 matrix of 1 and -1. The first step is divided by the root of its
 * length, the second is not, as in ExecuTorch. fp16 is rounded after each operation, as there. */
#include "runtime/kernels/engine/args.h"
#include "runtime/kernels/simd/span_ukernels.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/engine/elementwise.h"

#include <math.h>

enum { PARTS = 28, POSITIONS = 64 };

/* The positions of -1 in each row of the 28 x 28 matrix. */
static const uint32_t minus[PARTS] = {
	0xcd69e7e, 0x9ad7c7d, 0x37ab8fb, 0x6d571f7, 0xd8ae3ef, 0xb3587df, 0x66b4f3f, /* */
	0xb467f43, 0x6acbe87, 0xd593d8e, 0xab27b9c, 0x564f7b8, 0xac9aff0, 0x5b31fe1, /* */
	0x87fb325, 0x0ff66ca, 0x1decd95, 0x39ddb2a, 0x71bf654, 0xe17eca9, 0xc2fd9d2, /* */
	0xfcf1299, 0xfbe2532, 0xf7c4ae4, 0xef8d549, 0xdf1ea13, 0xbe3d4a6, 0x7e7a94c, /* */
};

/* Sums and differences for any type, in double, rounded after each operation. */
static void transform(double *row, size_t n, enum et_scalar_type type)
{
	for (size_t step = 1; step < n; step *= 2)
		for (size_t i = 0; i < n; i += 2 * step)
			for (size_t j = i; j < i + step; j++) {
				double x = row[j], y = row[j + step];
				row[j] = et_round_to(x + y, type);
				row[j + step] = et_round_to(x - y, type);
			}
	double factor = et_round_to(1 / et_round_to(sqrt((double)n), type), type);
	for (size_t i = 0; i < n; i++)
		row[i] = et_round_to(row[i] * factor, type);
}

/* Multiply position @i of the parts, which are @n apart. */
static void mix(double *row, size_t n, size_t i, enum et_scalar_type type)
{
	double sums[PARTS] = { 0 };
	for (size_t k = 0; k < PARTS; k++)
		for (size_t j = 0; j < PARTS; j++) {
			sums[k] += minus[k] >> j & 1 ? -row[j * n + i] : row[j * n + i];
			/* ExecuTorch's C++ code sums in float where a row begins with a plus. */
			sums[k] = et_round_to(sums[k], minus[k] & 1 || j + 1 == PARTS ? type : ET_FLOAT64);
		}
	for (size_t k = 0; k < PARTS; k++)
		row[k * n + i] = sums[k];
}

/* For float: @m positions, starting at @i, of parts @n apart. The sums are stored after all positions were read. */
static void mix_f32(float *row, size_t n, size_t i, size_t m)
{
	float sums[PARTS][POSITIONS] = { { 0 } };
	for (size_t k = 0; k < PARTS; k++) {
		for (size_t j = 0; j < PARTS; j++) {
			const float *from = row + j * n + i, sign = minus[k] >> j & 1 ? -1 : 1;
			for (size_t p = 0; p < m; p++)
				sums[k][p] += sign * from[p];
		}
	}
	for (size_t k = 0; k < PARTS; k++)
		memcpy(row + k * n + i, sums[k], m * sizeof(float));
}

static void transform_row_f32(float *row, size_t n_parts, size_t part)
{
	for (size_t k = 0; k < n_parts && part > 1; k++)
		et_span_ukernels()->hadamard(part, row + k * part);
	for (size_t i = 0; i < part && n_parts > 1; i += POSITIONS)
		mix_f32(row, part, i, part - i < POSITIONS ? part - i : POSITIONS);
}

/* mat > out */
static enum et_status run_hadamard(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *mat = args[0]->tensor;
	struct et_tensor *out = args[1]->tensor;
	struct et_view view;
	ET_TRY(et_require_same_type(ctx, mat, out));
	ET_REQUIRE(ctx, mat->type == ET_FLOAT32 || mat->type == ET_FLOAT64 || mat->type == ET_FLOAT16, "rows of %s",
		et_scalar_name(mat->type));
	ET_TRY(et_require_contiguous(ctx, mat, "the input"));
	et_view_of(&view, mat);
	ET_TRY(et_copy_view_to_output(ctx, &view, out));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	size_t numel = et_tensor_numel(mat), n = mat->n_dims ? (size_t)mat->sizes[mat->n_dims - 1] : 0;
	if (mat->n_dims == 0 || numel == 0)
		return ET_OK;
	size_t n_parts = n % PARTS == 0 ? PARTS : 1, part = n / n_parts;
	ET_REQUIRE(ctx, (part & (part - 1)) == 0, "rows of %zu numbers: neither 2^n nor 28 * 2^n", n);
	struct et_pace pace = { ctx->compute };
	for (size_t at = 0; at < numel && mat->type == ET_FLOAT32 && !et_pace_must_stop(&pace, 32 * n); at += n)
		transform_row_f32((float *)out->data + at, n_parts, part);
	if (mat->type == ET_FLOAT32)
		return ET_OK;
	double *row = et_kernel_scratch(ctx, n * sizeof(*row));
	if (!row)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	for (size_t at = 0; at < numel && !et_pace_must_stop(&pace, 32 * n); at += n) {
		uint8_t *data = (uint8_t *)out->data + at * et_element_bytes(out);
		et_loader(out->type, ET_F64)(row, data, 1, n);
		for (size_t k = 0; k < n_parts && part > 1; k++)
			transform(row + k * part, part, out->type);
		for (size_t i = 0; i < part && n_parts > 1; i++)
			mix(row, part, i, out->type);
		et_storer(out->type, ET_F64)(data, 1, row, n);
	}
	return ET_OK;
}

static const struct et_kernel rows[] = {
	{ "llama::fast_hadamard_transform.out", "T>T", run_hadamard },
};

ET_KERNEL_TABLE(hadamard);
