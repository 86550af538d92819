/* SPDX-License-Identifier: BSD-3-Clause */
/* Matrix products: mm, bmm, addmm and their relatives.
 *
 * All of them describe their operands the same way and call one product. Float, and fp16 and bf16 as float copies, use
 * et_gemm. Double and integers use a plain loop that sums in double or int64; tests compare the fast product with it.
 * Small products run in place with a micro-kernel (find_direct). */
#include "runtime/kernels/engine/complex_elementwise.h"
#include "runtime/kernels/engine/gemm.h"
#include "runtime/kernels/simd/ukernels.h"
#include "runtime/kernels/simd/span_ukernels.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/engine/elementwise.h"
#include "runtime/base/expand.h"

/* One 2-dimensional product: out = beta self + alpha a b. @self may be NULL; all views are 2-dimensional. */
struct product {
	const struct et_view *self, *a, *b, *out;
	double beta, alpha;
	bool is_rounded; /* fp16 and bf16: rounded after each operation, as in ExecuTorch */
	const struct et_compute *compute;
};

/* Scratch memory for a view of the sizes of @like: column-major if @like is a column-major matrix, otherwise row-major.
 */
static void *scratch_view(struct et_kernel_ctx *ctx, struct et_view *ret_view, const struct et_view *like,
	enum et_scalar_type type)
{
	bool is_transposed = like->n_dims == 2 && like->strides[0] == 1;
	et_view_clone(ret_view, like);
	ret_view->type = (uint8_t)type;
	int64_t stride = 1;
	for (size_t i = like->n_dims; i-- > 0;) {
		size_t d = is_transposed ? like->n_dims - 1 - i : i;
		ret_view->strides[d] = stride;
		stride *= like->sizes[d];
	}
	ret_view->data = et_kernel_scratch(ctx, (size_t)stride * et_scalar_size(type) + 1);
	return ret_view->data;
}

/* @view itself if it has @type already, otherwise a copy in scratch memory. */
static enum et_status as_type(struct et_kernel_ctx *ctx, const struct et_view **view, struct et_view *room,
	enum et_scalar_type type)
{
	if ((*view)->type == type)
		return ET_OK;
	if (!scratch_view(ctx, room, *view, type))
		return ET_E_MEMORY_ALLOCATION_FAILED;
	ET_TRY(et_view_cast(ctx, room, *view));
	*view = room;
	return ET_OK;
}

static void begin_float(const struct et_view *out, const struct et_view *self, float beta)
{
	float *to = (float *)out->data;
	const float *from = self && beta != 0 ? (const float *)self->data : NULL;
	for (int64_t i = 0; i < out->sizes[0]; i++) {
		for (int64_t j = 0; j < out->sizes[1]; j++)
			to[i * out->strides[0] + j * out->strides[1]] =
				from ? beta * from[i * self->strides[0] + j * self->strides[1]] : 0;
	}
}

/* out = alpha out + beta self, after the product. Alpha times a sum and a sum of alpha times its terms differ if the
 * sum is infinite. */
static void scale_and_add(const struct et_view *out, const struct et_view *self, float alpha, float beta)
{
	float *to = (float *)out->data;
	const float *from = self && beta != 0 ? (const float *)self->data : NULL;
	for (int64_t i = 0; i < out->sizes[0]; i++) {
		for (int64_t j = 0; j < out->sizes[1]; j++) {
			float *element = &to[i * out->strides[0] + j * out->strides[1]];
			*element *= alpha;
			if (from)
				*element += beta * from[i * self->strides[0] + j * self->strides[1]];
		}
	}
}

/* All matrices are float copies of fp16 or bf16 matrices of @type. */
ET_EXPANDED void multiply_rounded_as(const struct product *p, const enum et_scalar_type type)
{
	const struct et_view *out = p->out, *self = p->self;
	const float *a = (const float *)p->a->data, *b = (const float *)p->b->data, *added = (const float *)self->data;
	const float alpha = et_round_half((float)p->alpha, type), beta = et_round_half((float)p->beta, type);
	const int64_t n_k = p->a->sizes[1], step_a = p->a->strides[1], step_b = p->b->strides[0];
	struct et_pace pace = { p->compute };
	for (int64_t i = 0; i < out->sizes[0]; i++) {
		for (int64_t j = 0; j < out->sizes[1]; j++) {
			if (et_pace_must_stop(&pace, (size_t)n_k))
				return;
			const float *left = a + i * p->a->strides[0], *right = b + j * p->b->strides[1];
			float sum = 0;
			for (int64_t k = 0; k < n_k; k++)
				sum = et_round_half(sum + et_round_half(left[k * step_a] * right[k * step_b], type),
					type);
			sum = et_round_half(sum * alpha, type);
			if (beta != 0)
				sum += et_round_half(added[i * self->strides[0] + j * self->strides[1]] * beta, type);
			((float *)out->data)[i * out->strides[0] + j * out->strides[1]] = sum;
		}
	}
}

static void multiply_rounded(const struct product *p, enum et_scalar_type type)
{
	if (type == ET_FLOAT16)
		multiply_rounded_as(p, ET_FLOAT16);
	else
		multiply_rounded_as(p, ET_BFLOAT16);
}

static bool rounds_all(const struct product *p)
{
	return p->self && p->is_rounded && et_type_is_half(p->out->type) && p->a->sizes[1] <= ET_HALF_TERMS;
}

/* @n columns, starting at @first. */
static void columns_of(struct et_view *ret_part, const struct et_view *view, int64_t first, int64_t n)
{
	et_view_clone(ret_part, view);
	ret_part->data += first * view->strides[1] * (int64_t)et_scalar_size(view->type);
	ret_part->sizes[1] = n;
}

/* All views are float, or float copies of the views of @p. */
static void multiply_columns(struct et_kernel_ctx *ctx, const struct product *p, const struct et_view *self,
	const struct et_view *a, const struct et_view *b, const struct et_view *out)
{
	if (rounds_all(p)) {
		struct product floats = { self, a, b, out, p->beta, p->alpha, true, ctx->compute };
		multiply_rounded(&floats, p->out->type);
		return;
	}
	bool is_scaled = p->alpha != 1;
	begin_float(out, is_scaled ? NULL : self, (float)p->beta);
	struct et_matrix matrix = { (const float *)b->data, b->strides[0], b->strides[1] };
	struct et_gemm gemm = {
		.n_rows = (size_t)out->sizes[0],
		.n_columns = (size_t)out->sizes[1],
		.n_k = (size_t)a->sizes[1],
		.a = (const float *)a->data,
		.a_row = a->strides[0],
		.a_col = a->strides[1],
		.panel = et_matrix_panel,
		.b = &matrix,
		.c = (float *)out->data,
		.c_row = out->strides[0],
		.c_col = out->strides[1],
	};
	et_gemm(ctx->compute, &gemm);
	if (is_scaled)
		scale_and_add(out, self, (float)p->alpha, (float)p->beta);
}

/* How many columns of @b are converted to float at once: a layer's weights are most of a program's memory, so they must
 * not exist twice. */
static int64_t n_columns_at_once(const struct et_view *b)
{
	enum { FEWEST = 128, MANY = 1 << 18 };
	int64_t n = b->sizes[0] ? MANY / b->sizes[0] / FEWEST * FEWEST : b->sizes[1];
	n = n > FEWEST ? n : FEWEST;
	return b->type == ET_FLOAT32 || n > b->sizes[1] ? b->sizes[1] : n;
}

static enum et_status multiply_float(struct et_kernel_ctx *ctx, const struct product *p)
{
	const struct et_view *a = p->a, *self = p->self, *out = p->out;
	struct et_view room_a, room_b, room_self, room_out;
	int64_t n_columns = p->out->sizes[1];
	int64_t n_at_once = n_columns_at_once(p->b);
	ET_TRY(as_type(ctx, &a, &room_a, ET_FLOAT32));
	if (self)
		ET_TRY(as_type(ctx, &self, &room_self, ET_FLOAT32));
	/* self is added after the product, so the product must not overwrite it. */
	if (out->type != ET_FLOAT32 || (p->alpha != 1 && self && self->data == out->data)) {
		out = &room_out;
		if (!scratch_view(ctx, &room_out, p->out, ET_FLOAT32))
			return ET_E_MEMORY_ALLOCATION_FAILED;
	}
	struct et_view widest, b, to, from;
	columns_of(&widest, p->b, 0, n_at_once);
	if (widest.type != ET_FLOAT32 && !scratch_view(ctx, &room_b, &widest, ET_FLOAT32))
		return ET_E_MEMORY_ALLOCATION_FAILED;
	for (int64_t first = 0; first < n_columns; first += n_at_once) {
		int64_t n = n_columns - first < n_at_once ? n_columns - first : n_at_once;
		columns_of(&b, p->b, first, n);
		columns_of(&to, out, first, n);
		if (self)
			columns_of(&from, self, first, n);
		if (b.type != ET_FLOAT32) {
			room_b.sizes[1] = n;
			ET_TRY(et_view_cast(ctx, &room_b, &b));
			columns_of(&b, &room_b, 0, n);
		}
		multiply_columns(ctx, p, self ? &from : NULL, a, &b, &to);
	}
	return out == p->out ? ET_OK : et_view_cast(ctx, p->out, out);
}

enum { PIECE = 256, TERMS = 2048 };

/* Sums take their products in order; a piece of an output row is computed along b's rows. */
#define PLAIN_PRODUCT(name, type, weigh_rows)                                                                        \
	static bool name##_piece(struct et_pace *pace, const struct et_view *a, const struct et_view *b,             \
		const type *left, const type *right, size_t n, type *sums)                                           \
	{                                                                                                            \
		int64_t n_k = a->sizes[1], col = a->strides[1], row = b->strides[0], step = b->strides[1];           \
		memset(sums, 0, n * sizeof(*sums));                                                                  \
		for (int64_t at = 0, end; at < n_k; at = end) {                                                      \
			end = n_k - at < TERMS ? n_k : at + TERMS;                                                   \
			if (et_pace_must_stop(pace, (size_t)(end - at) * n))                                         \
				return false;                                                                        \
			if (step == 1)                                                                               \
				et_span_ukernels()->weigh_rows(n, sums, (size_t)(end - at), right + at * row, row,   \
					left + at * col, col);                                                       \
			for (int64_t k = at; step != 1 && k < end; k++) {                                            \
				ET_INDEPENDENT                                                                       \
				for (size_t j = 0; j < n; j++)                                                       \
					sums[j] += left[k * col] * right[k * row + (int64_t)j * step];               \
			}                                                                                            \
		}                                                                                                    \
		return true;                                                                                         \
	}                                                                                                            \
	static void name(const struct et_compute *compute, const struct et_view *out, const struct et_view *self,    \
		const struct et_view *a, const struct et_view *b, type beta, type alpha)                             \
	{                                                                                                            \
		struct et_pace pace = { compute };                                                                   \
		type sums[PIECE];                                                                                    \
		for (int64_t i = 0; i < out->sizes[0]; i++) {                                                        \
			const type *left = (const type *)a->data + i * a->strides[0];                                \
			for (int64_t j = 0; j < out->sizes[1]; j++) {                                                \
				int64_t rest = out->sizes[1] - j;                                                    \
				if (j % PIECE == 0 && (et_pace_must_stop(&pace, PIECE) ||                            \
							      !name##_piece(&pace, a, b, left,                       \
								      (const type *)b->data + j * b->strides[1],     \
								      (size_t)(rest < PIECE ? rest : PIECE), sums))) \
					return;                                                                      \
				type sum = sums[j % PIECE] * alpha;                                                  \
				if (self && beta != 0)                                                               \
					sum += beta * ((const type *)self->data)[i * self->strides[0] +              \
										 j * self->strides[1]];              \
				((type *)out->data)[i * out->strides[0] + j * out->strides[1]] = sum;                \
			}                                                                                            \
		}                                                                                                    \
	}
PLAIN_PRODUCT(multiply_doubles, double, weigh_double_rows)
PLAIN_PRODUCT(multiply_ints, int64_t, weigh_long_rows)

static enum et_status multiply_plain(struct et_kernel_ctx *ctx, const struct product *p, enum et_scalar_type type)
{
	const struct et_view *a = p->a, *b = p->b, *self = p->self, *out = p->out;
	struct et_view room_a, room_b, room_self, room_out;
	ET_TRY(as_type(ctx, &a, &room_a, type));
	ET_TRY(as_type(ctx, &b, &room_b, type));
	if (self)
		ET_TRY(as_type(ctx, &self, &room_self, type));
	if (out->type != type) {
		out = &room_out;
		if (!scratch_view(ctx, &room_out, p->out, type))
			return ET_E_MEMORY_ALLOCATION_FAILED;
	}
	if (type == ET_FLOAT64)
		multiply_doubles(ctx->compute, out, self, a, b, p->beta, p->alpha);
	else
		multiply_ints(ctx->compute, out, self, a, b, et_double_to_int(p->beta), et_double_to_int(p->alpha));
	return out == p->out ? ET_OK : et_view_cast(ctx, p->out, out);
}

typedef void (*direct_fn)(const struct et_product *product);

/* The micro-kernel that multiplies in place, without packing: for small products, few terms, integers that would have
 * to be widened, and small b with dense columns, like a linear layer's weight; or NULL. */
static direct_fn find_direct(const struct et_view *a, const struct et_view *b, const struct et_view *out)
{
	enum { FEW_TERMS = 8, SMALL_FLOATS = 512, SMALL_TRANSPOSED_FLOATS = 1024, SMALL_WIDE = 8192 };
	enum et_compute_class compute_class = et_class_of(a->type), narrow = et_narrow_class_of(a->type);
	size_t last = (size_t)a->n_dims - 1, n_k = (size_t)a->sizes[last], numel = n_k * (size_t)b->sizes[last];
	if (a->type != b->type || a->type != out->type || a->type == ET_BOOL ||
		(out->strides[last] != 1 && out->sizes[last] != 1))
		return NULL;
	if (narrow == ET_N_SPANS && !et_class_is_type(compute_class, a->type))
		return NULL;
	bool is_float = compute_class == ET_F32, is_narrow = narrow != ET_N_SPANS;
	if (is_narrow)
		compute_class = narrow;
	bool is_column = b->sizes[last] == 1 && b->strides[last - 1] == 1 && a->strides[last] == 1 && n_k > FEW_TERMS &&
			 !(is_float && numel > SMALL_TRANSPOSED_FLOATS);
	if (is_column)
		return et_span_ukernels()->multiply_transposed[compute_class];
	if (b->strides[last] == 1 || b->sizes[last] == 1)
		return is_narrow || n_k <= FEW_TERMS || numel <= (is_float ? SMALL_FLOATS : SMALL_WIDE)
			       ? et_span_ukernels()->multiply[compute_class]
			       : NULL;
	if ((b->strides[last - 1] != 1 && n_k != 1) || (a->strides[last] != 1 && n_k != 1) ||
		(is_float && numel > SMALL_TRANSPOSED_FLOATS))
		return NULL;
	return et_span_ukernels()->multiply_transposed[compute_class];
}

/* The matrices in the last two dimensions of the views. */
static struct et_product direct_product(const struct et_view *a, const struct et_view *b, const struct et_view *out)
{
	size_t last = (size_t)a->n_dims - 1;
	return (struct et_product){
		.n_rows = (size_t)out->sizes[last - 1],
		.n_columns = (size_t)out->sizes[last],
		.n_k = (size_t)a->sizes[last],
		.a = a->data,
		.b = b->data,
		.c = out->data,
		.a_row = a->strides[last - 1],
		.a_col = a->strides[last],
		.b_row = b->strides[b->strides[last] == 1 || b->sizes[last] == 1 ? last - 1 : last],
		.c_row = out->strides[last - 1],
	};
}

/* out = alpha out + beta self */
#define FINISH_DIRECT(name, type)                                                                         \
	static void finish_##name(const struct product *p, type alpha, type beta)                         \
	{                                                                                                 \
		const struct et_view *out = p->out, *self = p->self;                                      \
		const int64_t n = out->sizes[1], step = self ? self->strides[1] : 0;                      \
		for (int64_t i = 0; i < out->sizes[0]; i++) {                                             \
			type *to = (type *)out->data + i * out->strides[0];                               \
			const type *from = self ? (const type *)self->data + i * self->strides[0] : NULL; \
			ET_INDEPENDENT                                                                    \
			for (int64_t j = 0; alpha != 1 && j < n; j++)                                     \
				to[j] = (type)(to[j] * alpha);                                            \
			ET_INDEPENDENT                                                                    \
			for (int64_t j = 0; from && step == 1 && beta != 0 && j < n; j++)                 \
				to[j] = (type)(to[j] + beta * from[j]);                                   \
			for (int64_t j = 0; from && step != 1 && beta != 0 && j < n; j++)                 \
				to[j] = (type)(to[j] + beta * from[j * step]);                            \
		}                                                                                         \
	}
FINISH_DIRECT(floats, float)
FINISH_DIRECT(doubles, double)
FINISH_DIRECT(longs, int64_t)
FINISH_DIRECT(words, int32_t)
FINISH_DIRECT(shorts, int16_t)
FINISH_DIRECT(signed_bytes, int8_t)
FINISH_DIRECT(bytes, uint8_t)

/* @p's self has the output's type. */
static void finish_direct(const struct product *p)
{
	int64_t alpha = et_double_to_int(p->alpha), beta = et_double_to_int(p->beta);
	switch (p->out->type) {
	case ET_FLOAT32:
		finish_floats(p, (float)p->alpha, (float)p->beta);
		break;
	case ET_FLOAT64:
		finish_doubles(p, p->alpha, p->beta);
		break;
	case ET_INT32:
		finish_words(p, (int32_t)alpha, (int32_t)beta);
		break;
	case ET_INT16:
		finish_shorts(p, (int16_t)alpha, (int16_t)beta);
		break;
	case ET_INT8:
		finish_signed_bytes(p, (int8_t)alpha, (int8_t)beta);
		break;
	case ET_UINT8:
		finish_bytes(p, (uint8_t)alpha, (uint8_t)beta);
		break;
	default:
		finish_longs(p, alpha, beta);
	}
}

static size_t at_least(size_t n, size_t least)
{
	return n > least ? n : least;
}

/* Multiply in pieces, between which the run can stop. A piece keeps the columns and rows together that the
 * micro-kernels compute together, so that it takes as long as within the whole. @b: as in direct_product. */
static void run_direct(struct et_pace *pace, direct_fn direct, const struct et_product *p, const struct et_view *b)
{
	enum { STEPS = 1 << 22, COLUMNS = 64, ROWS = 4 };
	const size_t bytes = et_scalar_size(b->type), n_k = p->n_k + 1, last = (size_t)b->n_dims - 1;
	const bool is_transposed = b->strides[last] != 1 && b->sizes[last] != 1;
	size_t n_columns = p->n_columns, n_rows = p->n_rows, numel, n_steps;
	if (!et_mul(n_rows, n_columns, &numel) || !et_mul(numel, n_k, &n_steps))
		n_steps = SIZE_MAX;
	if (n_steps > STEPS && is_transposed) {
		n_columns = at_least(STEPS / n_k / ROWS * ROWS, ROWS);
		n_rows = n_columns < p->n_columns ? 1 : at_least(STEPS / n_k / p->n_columns, 1);
	} else if (n_steps > STEPS) {
		n_columns = n_k > STEPS / COLUMNS / ROWS ? ROWS : COLUMNS;
		n_rows = n_columns == ROWS ? 1 : STEPS / COLUMNS / n_k / ROWS * ROWS;
		if (n_rows >= p->n_rows)
			n_columns = at_least(STEPS / n_k / p->n_rows / COLUMNS * COLUMNS, n_columns);
	}
	const size_t column_bytes = is_transposed ? (size_t)p->b_row * bytes : bytes;
	for (size_t column = 0; column < p->n_columns; column += n_columns) {
		for (size_t row = 0; row < p->n_rows; row += n_rows) {
			struct et_product part = *p;
			part.n_rows = p->n_rows - row < n_rows ? p->n_rows - row : n_rows;
			part.n_columns = p->n_columns - column < n_columns ? p->n_columns - column : n_columns;
			part.a = (const uint8_t *)p->a + row * (size_t)p->a_row * bytes;
			part.b = (const uint8_t *)p->b + column * column_bytes;
			part.c = (uint8_t *)p->c + (row * (size_t)p->c_row + column) * bytes;
			if (et_pace_must_stop(pace, n_steps < STEPS ? n_steps : STEPS))
				return;
			direct(&part);
		}
	}
}

static enum et_status multiply_direct(struct et_kernel_ctx *ctx, const struct product *p, direct_fn direct)
{
	const struct et_product product = direct_product(p->a, p->b, p->out);
	struct et_pace pace = { ctx->compute };
	struct product finished = *p;
	struct et_view room;
	if (p->self)
		ET_TRY(as_type(ctx, &finished.self, &room, p->out->type));
	run_direct(&pace, direct, &product, p->b);
	if (p->alpha != 1 || p->self)
		finish_direct(&finished);
	return ET_OK;
}

/* A transposed b with so few terms that vectors along them do not fill, used for several rows: worth copying to
 * row-major. */
static bool is_worth_row_major_copy(const struct et_view *a, const struct et_view *b)
{
	enum { FEW_TERMS = 8, SEVERAL_ROWS = 8 };
	return b->strides[1] != 1 && b->sizes[1] != 1 && b->sizes[0] < FEW_TERMS && a->sizes[0] >= SEVERAL_ROWS;
}

static enum et_status multiply_row_major_copy(struct et_kernel_ctx *ctx, const struct product *p)
{
	struct product transposed = *p;
	struct et_view right;
	et_view_clone(&right, p->b);
	right.strides[0] = right.sizes[1];
	right.strides[1] = 1;
	right.data = et_kernel_scratch(ctx, et_view_numel(&right) * et_scalar_size(right.type) + 1);
	if (!right.data)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	et_view_copy(ctx->compute, &right, p->b);
	transposed.b = &right;
	return multiply_direct(ctx, &transposed, find_direct(transposed.a, transposed.b, transposed.out));
}

static enum et_status multiply(struct et_kernel_ctx *ctx, const struct product *p)
{
	ET_REQUIRE(ctx, p->a->type == p->b->type && p->a->type == p->out->type, "types %s, %s and %s differ",
		et_scalar_name(p->a->type), et_scalar_name(p->b->type), et_scalar_name(p->out->type));
	if (et_type_is_complex(p->a->type)) {
		ET_REQUIRE(ctx, !p->self && p->alpha == 1, "does not take complex numbers");
		if (et_view_numel(p->out) == 0)
			return ET_OK;
		et_complex_multiply(ctx->compute, p->out, p->a, p->b);
		return ET_OK;
	}
	size_t numel = et_view_numel(p->out), n_dense;
	if (numel == 0) /* however many rows or columns there are */
		return ET_OK;
	if (p->a->sizes[1] == 0 && !p->self && et_views_are_dense(p->out, p->out, &n_dense)) {
		et_fill_many(ctx->compute, p->out->data, &(const uint8_t){ 0 }, numel * et_scalar_size(p->out->type),
			1); /* no terms */
		return ET_OK;
	}
	direct_fn direct = p->self == p->out ? NULL : find_direct(p->a, p->b, p->out);
	if (direct && is_worth_row_major_copy(p->a, p->b))
		return multiply_row_major_copy(ctx, p);
	if (direct)
		return multiply_direct(ctx, p, direct);
	switch (et_class_of(p->a->type)) {
	case ET_F32:
		return multiply_float(ctx, p);
	case ET_F64:
		return multiply_plain(ctx, p, ET_FLOAT64);
	default:
		return multiply_plain(ctx, p, ET_INT64);
	}
}

static enum et_status require_product(struct et_kernel_ctx *ctx, const struct et_view *a, const struct et_view *b)
{
	ET_REQUIRE(ctx, a->n_dims == 2 && b->n_dims == 2, "ranks %u and %u", a->n_dims, b->n_dims);
	ET_REQUIRE(ctx, a->sizes[1] == b->sizes[0], "[%lld,%lld] times [%lld,%lld]", (long long)a->sizes[0],
		(long long)a->sizes[1], (long long)b->sizes[0], (long long)b->sizes[1]);
	return ET_OK;
}

/* out = beta self + alpha a b, for tensors; a 1-dimensional b is a column. */
static enum et_status add_product(struct et_kernel_ctx *ctx, const struct et_tensor *self, const struct et_tensor *left,
	const struct et_tensor *right, const struct product *factors, struct et_tensor *result)
{
	struct et_view a, b, out, start;
	bool is_vector = right->n_dims == 1;
	et_view_of(&a, left);
	et_view_of(&b, right);
	if (is_vector)
		et_view_insert(&b, 1, 1, 1);
	ET_TRY(require_product(ctx, &a, &b));
	ET_TRY(et_resize(ctx, result, (const int64_t[]){ a.sizes[0], b.sizes[1] }, is_vector ? 1 : 2));
	et_view_of(&out, result);
	if (is_vector)
		et_view_insert(&out, 1, 1, 1);
	if (self) {
		et_view_of(&start, self);
		if (is_vector && start.n_dims == 1)
			et_view_insert(&start, 1, 1, 1);
		ET_REQUIRE(ctx, et_view_broadcast(&start, out.sizes, 2), "self does not broadcast to the product");
	}
	struct product product = *factors;
	product.self = self ? &start : NULL;
	product.a = &a;
	product.b = &b;
	product.out = &out;
	return multiply(ctx, &product);
}

static enum et_status run_mm(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return add_product(ctx, NULL, args[0]->tensor, args[1]->tensor, &(const struct product){ .alpha = 1 },
		args[2]->tensor);
}

static enum et_status run_addmm(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct product factors = {
		.beta = et_number_double(args[3]),
		.alpha = et_number_double(args[4]),
		.is_rounded = args[2]->tensor->n_dims == 2, /* for a vector the numbers are PyTorch's */
	};
	return add_product(ctx, args[0]->tensor, args[1]->tensor, args[2]->tensor, &factors, args[5]->tensor);
}

/* x times the transpose of a weight, plus a bias; x has any leading dimensions. */
static enum et_status run_linear(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *x = args[0]->tensor, *weight = args[1]->tensor;
	struct et_tensor *out = args[3]->tensor;
	struct et_view a, b, y, bias;
	int64_t sizes[ET_MAX_DIMS], n_rows = 1;
	ET_REQUIRE(ctx, x->n_dims >= 1 && weight->n_dims == 2 && x->sizes[x->n_dims - 1] == weight->sizes[1],
		"an input of rank %u and a weight of rank %u", x->n_dims, weight->n_dims);
	ET_TRY(et_require_row_major(ctx, x, "the input"));
	size_t last = (size_t)x->n_dims - 1;
	for (size_t d = 0; d < last; d++) {
		sizes[d] = x->sizes[d];
		n_rows *= x->sizes[d];
	}
	sizes[last] = weight->sizes[0];
	ET_TRY(et_resize(ctx, out, sizes, x->n_dims));
	ET_TRY(et_require_row_major(ctx, out, "the output"));
	et_view_of(&b, weight);
	et_view_swap(&b, 0, 1);
	et_view_begin(&a, x->data, x->type);
	et_view_begin(&y, out->data, out->type);
	et_view_insert(&a, 0, n_rows, b.sizes[0]);
	et_view_insert(&a, 1, b.sizes[0], 1);
	et_view_insert(&y, 0, n_rows, b.sizes[1]);
	et_view_insert(&y, 1, b.sizes[1], 1);
	if (!et_is_none(args[2])) {
		et_view_of(&bias, args[2]->tensor);
		ET_TRY(et_require_same_type(ctx, args[2]->tensor, out));
		ET_REQUIRE(ctx, bias.n_dims == 1 && et_view_broadcast(&bias, y.sizes, 2),
			"the bias must have one number for each of %lld columns", (long long)y.sizes[1]);
	}
	const struct product product = {
		.self = et_is_none(args[2]) ? NULL : &bias,
		.a = &a,
		.b = &b,
		.out = &y,
		.beta = 1,
		.alpha = 1,
	};
	return multiply(ctx, &product);
}

/* The type in which products of @type are computed. */
static enum et_scalar_type product_type(enum et_scalar_type type)
{
	enum et_compute_class compute_class = et_class_of(type);
	return compute_class == ET_F32 ? ET_FLOAT32 : compute_class == ET_F64 ? ET_FLOAT64 : ET_INT64;
}

static enum et_status run_bmm(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_tensor *result = args[2]->tensor;
	struct et_view a, b, out, room_a, room_b, room_out;
	const struct et_view *left_ones = &a, *right_ones = &b, *products = &out;
	et_view_of(&a, args[0]->tensor);
	et_view_of(&b, args[1]->tensor);
	ET_REQUIRE(ctx, a.n_dims == 3 && b.n_dims == 3 && a.sizes[0] == b.sizes[0], "takes two batches of matrices");
	ET_TRY(et_resize(ctx, result, (const int64_t[]){ a.sizes[0], a.sizes[1], b.sizes[2] }, 3));
	et_view_of(&out, result);
	direct_fn direct = et_tensor_numel(result) && a.sizes[2] == b.sizes[1] ? find_direct(&a, &b, &out) : NULL;
	if (direct) {
		struct et_product product = direct_product(&a, &b, &out);
		struct et_pace pace = { ctx->compute };
		size_t bytes = et_element_bytes(result);
		for (int64_t i = 0; i < a.sizes[0]; i++) {
			run_direct(&pace, direct, &product, &b);
			product.a = (const uint8_t *)product.a + (size_t)a.strides[0] * bytes;
			product.b = (const uint8_t *)product.b + (size_t)b.strides[0] * bytes;
			product.c = (uint8_t *)product.c + (size_t)out.strides[0] * bytes;
		}
		return ET_OK;
	}
	bool is_one_type = a.type == b.type && a.type == out.type; /* if not, the first product refuses them */
	enum et_scalar_type type = product_type(a.type);
	if (is_one_type && !et_type_is_complex(a.type) && a.type != type && et_tensor_numel(result)) {
		ET_TRY(as_type(ctx, &left_ones, &room_a, type)); /* all matrices at once */
		ET_TRY(as_type(ctx, &right_ones, &room_b, type));
		products = &room_out;
		if (!scratch_view(ctx, &room_out, &out, type))
			return ET_E_MEMORY_ALLOCATION_FAILED;
	}
	struct et_view left, right, product;
	const struct product one = { NULL, &left, &right, &product, .alpha = 1 };
	et_view_clone(&left, left_ones);
	et_view_clone(&right, right_ones);
	et_view_clone(&product, products);
	et_view_select(&left, 0, 0);
	et_view_select(&right, 0, 0);
	et_view_select(&product, 0, 0);
	for (int64_t i = 0; i < a.sizes[0] && (i == 0 || et_tensor_numel(result)) && !et_must_stop(ctx->compute); i++) {
		ET_TRY(require_product(ctx, &left, &right));
		ET_TRY(multiply(ctx, &one));
		et_view_move(&left, left_ones->strides[0]);
		et_view_move(&right, right_ones->strides[0]);
		et_view_move(&product, products->strides[0]);
	}
	return products == &out ? ET_OK : et_view_cast(ctx, &out, products);
}

/* beta self + alpha times the sum of a batch of products; the output holds the sum so far. */
static enum et_status run_addbmm(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_tensor *result = args[5]->tensor;
	struct et_view a, b, out, self;
	double beta = et_number_double(args[3]), alpha = et_number_double(args[4]);
	et_view_of(&a, args[1]->tensor);
	et_view_of(&b, args[2]->tensor);
	ET_REQUIRE(ctx, a.n_dims == 3 && b.n_dims == 3 && a.sizes[0] == b.sizes[0], "takes two batches of matrices");
	ET_TRY(et_resize(ctx, result, (const int64_t[]){ a.sizes[1], b.sizes[2] }, 2));
	et_view_of(&out, result);
	et_view_of(&self, args[0]->tensor);
	ET_REQUIRE(ctx, et_view_broadcast(&self, out.sizes, 2), "self does not broadcast to the product");
	ET_REQUIRE(ctx, a.sizes[0] > 0, "takes no empty batch");
	/* There may be any number of empty matrices, and one adds as little as all. */
	int64_t n = et_view_numel(&a) && et_view_numel(&b) ? a.sizes[0] : 1;
	for (int64_t i = 0; i < n && !et_must_stop(ctx->compute); i++) {
		struct et_view left, right;
		et_view_clone(&left, &a);
		et_view_clone(&right, &b);
		et_view_select(&left, 0, i);
		et_view_select(&right, 0, i);
		ET_TRY(require_product(ctx, &left, &right));
		ET_TRY(multiply(ctx, &(const struct product){ i ? &out : &self, &left, &right, &out,
					     .beta = i ? 1 : beta, .alpha = alpha }));
	}
	return ET_OK;
}

static const struct et_kernel rows[] = {
	{ "aten::addbmm.out", "TTTSS>T", run_addbmm, .multiplies = true },
	{ "aten::addmm.out", "TTTSS>T", run_addmm, .multiplies = true },
	{ "aten::addmv.out", "TTTSS>T", run_addmm, .multiplies = true },
	{ "aten::bmm.out", "TT>T", run_bmm, .multiplies = true },
	{ "aten::linear.out", "TTt>T", run_linear, .multiplies = true },
	{ "aten::mm.out", "TT>T", run_mm, .multiplies = true },
};

ET_KERNEL_TABLE(matmul);
