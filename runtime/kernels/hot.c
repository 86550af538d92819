/* Compiled several times: the build defines ET_HOT_NAME and chooses the instruction set, from which the
 * widths below follow.
 *
 * The matrix tile is the heart: so many rows of so many vectors that all sums stay in registers while k runs.
 * A row's element is broadcast, so a may lie anyhow; b comes packed. */
#include "runtime/kernels/hot.h"

#include <string.h>

#if defined(__AVX512F__)
enum { LANES = 16, ROWS = 8, VECTORS = 2 };
#elif defined(__AVX2__)
enum { LANES = 8, ROWS = 6, VECTORS = 2 };
#elif defined(__aarch64__)
enum { LANES = 4, ROWS = 8, VECTORS = 2 };
#else
enum { LANES = 4, ROWS = 4, VECTORS = 2 };
#endif

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));

static inline vector load(const float *from)
{
	vector value;
	memcpy(&value, from, sizeof(value));
	return value;
}

static inline void store(float *to, vector value)
{
	memcpy(to, &value, sizeof(value));
}

static void tile(size_t n_k, const float *a, ptrdiff_t a_row, ptrdiff_t a_col, const float *b, float *c,
	ptrdiff_t c_row, const float *begin)
{
	vector sum[ROWS][VECTORS];
	UNROLL
	for (int i = 0; i < ROWS; i++) {
		UNROLL
		for (int v = 0; v < VECTORS; v++)
			sum[i][v] = begin ? begin[i] - (vector){ 0 } : load(c + i * c_row + v * LANES);
	}
	for (size_t k = 0; k < n_k; k++) {
		vector right[VECTORS];
		UNROLL
		for (int v = 0; v < VECTORS; v++)
			right[v] = load(b + v * LANES);
		UNROLL
		for (int i = 0; i < ROWS; i++) {
			UNROLL
			for (int v = 0; v < VECTORS; v++)
				sum[i][v] += a[i * a_row] * right[v];
		}
		a += a_col;
		b += VECTORS * LANES;
	}
	UNROLL
	for (int i = 0; i < ROWS; i++) {
		UNROLL
		for (int v = 0; v < VECTORS; v++)
			store(c + i * c_row + v * LANES, sum[i][v]);
	}
}

static float dot(size_t n, const float *a, const float *b)
{
	vector sum[4] = { { 0 } };
	float total = 0;
	size_t i = 0;
	for (; i + 4 * LANES <= n; i += 4 * LANES) {
		UNROLL
		for (int v = 0; v < 4; v++)
			sum[v] += load(a + i + (size_t)v * LANES) * load(b + i + (size_t)v * LANES);
	}
	for (; i + LANES <= n; i += LANES)
		sum[0] += load(a + i) * load(b + i);
	sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
	for (int lane = 0; lane < LANES; lane++)
		total += sum[0][lane];
	for (; i < n; i++)
		total += a[i] * b[i];
	return total;
}

static void add_scaled(size_t n, float *restrict y, const float *restrict x, ptrdiff_t stride, float factor)
{
	if (stride == 1) {
		for (size_t i = 0; i < n; i++)
			y[i] += x[i] * factor;
	} else if (stride == 2) {
		for (size_t i = 0; i < n; i++)
			y[i] += x[2 * i] * factor;
	} else {
		for (size_t i = 0; i < n; i++)
			y[i] += x[(ptrdiff_t)i * stride] * factor;
	}
}

/* Blocks of vectors whose sums stay in registers over all taps; what is left at the end is done by a last block
 * that overlaps the one before. */
static void stencil(size_t n, float *restrict y, const float *restrict x, size_t n_taps,
	const ptrdiff_t *offsets, const float *factors, float begin)
{
	enum { BLOCK = 4 };
	size_t i = 0;
	for (; i + BLOCK * LANES <= n; i += BLOCK * LANES) {
		vector sum[BLOCK];
		UNROLL
		for (int v = 0; v < BLOCK; v++)
			sum[v] = begin - (vector){ 0 };
		for (size_t t = 0; t < n_taps; t++) {
			UNROLL
			for (int v = 0; v < BLOCK; v++)
				sum[v] += factors[t] * load(x + (ptrdiff_t)i + offsets[t] + v * LANES);
		}
		UNROLL
		for (int v = 0; v < BLOCK; v++)
			store(y + i + (size_t)v * LANES, sum[v]);
	}
	for (; i < n && n >= LANES; i += LANES) {
		vector sum = begin - (vector){ 0 };
		i = i + LANES <= n ? i : n - LANES;
		for (size_t t = 0; t < n_taps; t++)
			sum += factors[t] * load(x + (ptrdiff_t)i + offsets[t]);
		store(y + i, sum);
	}
	for (; i < n; i++) {
		float sum = begin;
		for (size_t t = 0; t < n_taps; t++)
			sum += factors[t] * x[(ptrdiff_t)i + offsets[t]];
		y[i] = sum;
	}
}

static void add_product(size_t n, float *restrict y, const float *restrict a, const float *restrict b)
{
	for (size_t i = 0; i < n; i++)
		y[i] += a[i] * b[i];
}

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
const struct et_hot ET_HOT_NAME = {
	.name = TEXT(ET_HOT_NAME),
	.tile_rows = ROWS,
	.tile_columns = VECTORS * LANES,
	.tile = tile,
	.dot = dot,
	.add_scaled = add_scaled,
	.stencil = stencil,
	.add_product = add_product,
};
_Static_assert((int)ROWS <= (int)ET_TILE_MAX_ROWS, "too many rows");
_Static_assert((int)VECTORS *(int)LANES <= (int)ET_TILE_MAX_COLUMNS, "too many columns");
