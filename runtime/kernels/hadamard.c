/* llama::fast_hadamard_transform: each row times a Hadamard matrix, by sums and differences alone.
 *
 * Rows of 2^n numbers, or of 28 times as many: then the 28 parts are transformed each for itself, and after that
 * multiplied, place by place, with a matrix of 28 x 28 ones and minus ones. The first step is divided by the root of its
 * length, the second is not, as in the original. Half rounds after each operation, as there. */
#include "runtime/kernels/args.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/map.h"

#include <math.h>

enum { PARTS = 28 };

/* Where a row of the matrix of 28 has minus one. */
static const uint32_t minus[PARTS] = {
	0xcd69e7e, 0x9ad7c7d, 0x37ab8fb, 0x6d571f7, 0xd8ae3ef, 0xb3587df, 0x66b4f3f, /* */
	0xb467f43, 0x6acbe87, 0xd593d8e, 0xab27b9c, 0x564f7b8, 0xac9aff0, 0x5b31fe1, /* */
	0x87fb325, 0x0ff66ca, 0x1decd95, 0x39ddb2a, 0x71bf654, 0xe17eca9, 0xc2fd9d2, /* */
	0xfcf1299, 0xfbe2532, 0xf7c4ae4, 0xef8d549, 0xdf1ea13, 0xbe3d4a6, 0x7e7a94c, /* */
};

/* The steps of 1 and of 2. */
static void transform_fours(float *row, size_t n)
{
	for (size_t i = 0; i < n; i += 4) {
		float a = row[i] + row[i + 1], b = row[i] - row[i + 1];
		float c = row[i + 2] + row[i + 3], d = row[i + 2] - row[i + 3];
		row[i] = a + c;
		row[i + 1] = b + d;
		row[i + 2] = a - c;
		row[i + 3] = b - d;
	}
}

/* Those of @step and of twice that, at once. */
static void transform_two_steps(float *row, size_t n, size_t step)
{
	for (size_t i = 0; i < n; i += 4 * step) {
		float *first = row + i, *second = first + step, *third = second + step,
		      *fourth = third + step;
		ET_INDEPENDENT
		for (size_t j = 0; j < step; j++) {
			float a = first[j] + second[j], b = first[j] - second[j];
			float c = third[j] + fourth[j], d = third[j] - fourth[j];
			first[j] = a + c;
			second[j] = b + d;
			third[j] = a - c;
			fourth[j] = b - d;
		}
	}
}

static void transform_f32(float *row, size_t n)
{
	size_t step = 1;
	if (n >= 4) {
		transform_fours(row, n);
		step = 4;
	}
	for (; 4 * step <= n; step *= 4)
		transform_two_steps(row, n, step);
	for (size_t j = 0; 2 * step <= n && j < step; j++) { /* the last one, if it is left */
		float x = row[j], y = row[j + step];
		row[j] = x + y;
		row[j + step] = x - y;
	}
	float factor = 1 / sqrtf((float)n);
	for (size_t i = 0; i < n; i++)
		row[i] *= factor;
}

/* The same of any type, in double, rounded after each operation. */
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

/* Place @i of the parts, @n apart. */
static void mix(double *row, size_t n, size_t i, enum et_scalar_type type)
{
	double sums[PARTS] = { 0 };
	for (size_t k = 0; k < PARTS; k++)
		for (size_t j = 0; j < PARTS; j++) {
			sums[k] += minus[k] >> j & 1 ? -row[j * n + i] : row[j * n + i];
			/* The original's C++ sums in float what begins with a plus. */
			sums[k] = et_round_to(sums[k], minus[k] & 1 || j + 1 == PARTS ? type : ET_FLOAT64);
		}
	for (size_t k = 0; k < PARTS; k++)
		row[k * n + i] = sums[k];
}

static void mix_f32(float *row, size_t n, size_t i)
{
	float sums[PARTS] = { 0 };
	for (size_t k = 0; k < PARTS; k++)
		for (size_t j = 0; j < PARTS; j++)
			sums[k] += minus[k] >> j & 1 ? -row[j * n + i] : row[j * n + i];
	for (size_t k = 0; k < PARTS; k++)
		row[k * n + i] = sums[k];
}

/* mat > out */
static enum et_status run_hadamard(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *mat = args[0]->tensor;
	struct et_tensor *out = args[1]->tensor;
	struct et_view view;
	ET_TRY(et_require_same_type(ctx, mat, out));
	ET_REQUIRE(ctx, mat->type == ET_FLOAT32 || mat->type == ET_FLOAT64 || mat->type == ET_FLOAT16,
		"rows of %s", et_scalar_name(mat->type));
	ET_TRY(et_require_contiguous(ctx, mat, "the input"));
	et_view_of(&view, mat);
	ET_TRY(et_give_view(ctx, &view, out));
	ET_TRY(et_require_contiguous(ctx, out, "the output"));
	size_t numel = et_tensor_numel(mat), n = mat->n_dims ? (size_t)mat->sizes[mat->n_dims - 1] : 0;
	if (mat->n_dims == 0 || numel == 0)
		return ET_OK;
	size_t n_parts = n % PARTS == 0 ? PARTS : 1, part = n / n_parts;
	ET_REQUIRE(ctx, (part & (part - 1)) == 0, "rows of %zu: neither 2^n nor 28 times that", n);
	double *row = et_kernel_scratch(ctx, n * sizeof(*row));
	if (!row)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	for (size_t at = 0; at < numel; at += n) {
		uint8_t *data = (uint8_t *)out->data + at * et_element_bytes(out);
		bool is_f32 = mat->type == ET_FLOAT32;
		float *span = (float *)(void *)row;
		et_loader(out->type, is_f32 ? ET_F32 : ET_F64)(row, data, 1, n);
		for (size_t k = 0; k < n_parts && part > 1; k++) {
			if (is_f32)
				transform_f32(span + k * part, part);
			else
				transform(row + k * part, part, out->type);
		}
		for (size_t i = 0; i < part && n_parts > 1; i++) {
			if (is_f32)
				mix_f32(span, part, i);
			else
				mix(row, part, i, out->type);
		}
		et_storer(out->type, is_f32 ? ET_F32 : ET_F64)(data, 1, row, n);
	}
	return ET_OK;
}

static const struct et_kernel rows[] = {
	{ "llama::fast_hadamard_transform.out", "T>T", run_hadamard },
};

ET_KERNEL_TABLE(hadamard);
