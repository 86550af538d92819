/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators along one dimension: softmax, cumulative sums and products.
 *
 * Each is a function of one line (dim_apply.h). Softmax of floats and cumulative operators have faster loops that work
 * on the tensor in place (with ukernels.c); the functions of a line are their reference. */
#include "runtime/compute.h"
#include "runtime/kernels/simd/ukernels.h"
#include "runtime/kernels/simd/span_ukernels.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/engine/dim_apply.h"
#include "runtime/kernels/engine/elementwise.h"
#include "runtime/kernels/aten/view_copy.h"
#include "runtime/base/expand.h"

#include <math.h>

enum { WORK_PER_TASK = 1 << 14 };

/* The numbers of a line of dim_apply.h, until the kernel must stop. */
#define EACH_OF(line, i)                                                                           \
	for (size_t at = 0, part; (part = et_pace_chunk((line)->pace, at, (line)->n)); at += part) \
		for (size_t i = at, end = at + part; i < end; i++)

static double exponential(const struct et_dim_apply *line, double x)
{
	return line->is_single ? (double)expf((float)x) : exp(x);
}

static double largest(const struct et_dim_apply *line)
{
	double most = -INFINITY;
	EACH_OF(line, i)
	most = line->in[i] > most || line->in[i] != line->in[i] ? line->in[i] : most;
	return most;
}

static void softmax(struct et_dim_apply *line)
{
	double most = largest(line), sum = 0;
	EACH_OF(line, i)
	{
		line->out[i] = exponential(line, line->in[i] - most);
		sum += line->out[i];
	}
	EACH_OF(line, i)
	line->out[i] /= sum;
}

/* For fp16 and bf16 along the innermost dimension, PyTorch (and ExecuTorch, which took the code from it) rounds the sum
 * and its logarithm to the type. @line->arg then points to the type. */
static void log_softmax(struct et_dim_apply *line)
{
	double most = largest(line), sum = 0;
	EACH_OF(line, i)
	sum += exponential(line, line->in[i] - most);
	double rest = log(sum);
	if (line->arg) {
		enum et_scalar_type type = *(const uint8_t *)line->arg;
		rest = et_round_to(log(et_round_to(sum, type)), type);
	}
	EACH_OF(line, i)
	line->out[i] = line->in[i] - most - rest;
}

static void cumsum(struct et_dim_apply *line)
{
	double sum = 0;
	int64_t sum_ints = 0;
	EACH_OF(line, i)
	{
		if (line->in && line->arg)
			line->out[i] = sum = et_round_to(sum + line->in[i], *(const uint8_t *)line->arg);
		else if (line->in)
			line->out[i] = sum += line->in[i];
		else
			line->out_ints[i] = sum_ints += line->in_ints[i];
	}
}

static void cumprod(struct et_dim_apply *line)
{
	double product = 1;
	int64_t product_ints = 1;
	EACH_OF(line, i)
	{
		if (line->in)
			line->out[i] = product *= line->in[i];
		else
			line->out_ints[i] = product_ints *= line->in_ints[i];
	}
}

/* --- cumulative columns ---------------------------------------------------------------------------------- */

enum { COLUMNS = 128 };

/* Adjacent lines go down together, a row of memory at a time. Each result is the same as if computed alone; the
 * functions above are the reference. */
struct cumulative {
	const struct et_compute *compute;
	const struct et_tensor *self, *out;
	size_t n, stride; /* of a line; @stride lines are adjacent */
	enum et_compute_class compute_class;
	bool is_product;
	bool is_rounded; /* to the output's type, after each step */
};

#define CUMULATE(name, type)                                                     \
	static void name(type *sums, const type *row, size_t n, bool is_product) \
	{                                                                        \
		for (size_t k = 0; !is_product && k < n; k++)                    \
			sums[k] += row[k];                                       \
		for (size_t k = 0; is_product && k < n; k++)                     \
			sums[k] *= row[k];                                       \
	}
CUMULATE(cumulate_floats, float)
CUMULATE(cumulate_doubles, double)
CUMULATE(cumulate_ints, int64_t)

static void cumulate_columns(const struct cumulative *c, struct et_pace *pace, size_t at, size_t n)
{
	union {
		float f[COLUMNS];
		double d[COLUMNS];
		int64_t i[COLUMNS];
	} sums, row;
	size_t in_bytes = et_element_bytes(c->self), out_bytes = et_element_bytes(c->out);
	const uint8_t *in = (const uint8_t *)c->self->data + at * in_bytes;
	uint8_t *out = (uint8_t *)c->out->data + at * out_bytes;
	et_load_fn load = et_loader(c->self->type, c->compute_class);
	et_load_fn load_again = et_loader(c->out->type, c->compute_class);
	et_store_fn store = et_storer(c->out->type, c->compute_class);
	load(&sums, in, 1, n);
	store(out, 1, &sums, n);
	for (size_t r = 1; r < c->n && !et_pace_must_stop(pace, n); r++) {
		in += c->stride * in_bytes;
		out += c->stride * out_bytes;
		load(&row, in, 1, n);
		if (c->compute_class == ET_F32)
			cumulate_floats(sums.f, row.f, n, c->is_product);
		else if (c->compute_class == ET_F64)
			cumulate_doubles(sums.d, row.d, n, c->is_product);
		else
			cumulate_ints(sums.i, row.i, n, c->is_product);
		store(out, 1, &sums, n);
		if (c->is_rounded)
			load_again(&sums, out, 1, n);
	}
}

static void cumulate_range(void *arg, size_t begin, size_t end)
{
	const struct cumulative *c = arg;
	struct et_pace pace = { c->compute };
	for (size_t i = begin, n; i < end; i += n) {
		size_t column = i % c->stride;
		n = c->stride - column < end - i ? c->stride - column : end - i;
		n = n < COLUMNS ? n : COLUMNS;
		cumulate_columns(c, &pace, i / c->stride * c->stride * c->n + column, n);
	}
}

/* Few adjacent lines, or dense lines: whole slabs are loaded at once. A slab is all lines that are adjacent. */
enum { FEW_COLUMNS = 16, PARALLEL_LINES = 8, STAGE = 2048 };

union staged {
	float f[STAGE];
	double d[STAGE];
	int64_t i[STAGE];
};

#define CUMULATE_SLABS(name, type, op)                                                \
	static void name(type *x, size_t n_slabs, size_t slab, size_t stride)         \
	{                                                                             \
		for (; n_slabs; n_slabs--, x += slab) {                               \
			for (size_t line = 0; line < stride; line++) {                \
				type now = x[line];                                   \
				for (size_t k = line + stride; k < slab; k += stride) \
					x[k] = now = now op x[k];                     \
			}                                                             \
		}                                                                     \
	}
CUMULATE_SLABS(add_up_doubles, double, +)
CUMULATE_SLABS(add_up_ints, int64_t, +)
CUMULATE_SLABS(multiply_up_doubles, double, *)
CUMULATE_SLABS(multiply_up_ints, int64_t, *)

/* Sums that are rounded after each step. Several lines go in parallel, since each step waits long for the one before
 * it. */
ET_EXPANDED void add_up_rounded(float *x, size_t n_slabs, size_t slab, size_t stride, const enum et_scalar_type type)
{
	for (; stride == 1 && n_slabs >= PARALLEL_LINES; n_slabs -= PARALLEL_LINES, x += PARALLEL_LINES * slab) {
		float now[PARALLEL_LINES];
		for (size_t i = 0; i < PARALLEL_LINES; i++)
			now[i] = x[i * slab];
		for (size_t k = 1; k < slab; k++) {
			for (size_t i = 0; i < PARALLEL_LINES; i++)
				now[i] = et_round_half(now[i] + x[i * slab + k], type);
			for (size_t i = 0; i < PARALLEL_LINES; i++)
				x[i * slab + k] = now[i];
		}
	}
	for (; n_slabs; n_slabs--, x += slab) {
		for (size_t k = stride; k < slab; k++) /* the lines take turns, which leaves time for the rounding */
			x[k] = et_round_half(x[k - stride] + x[k], type);
	}
}

static void cumulate_slabs(const struct cumulative *c, union staged *numbers, size_t n_slabs, size_t slab,
	size_t stride)
{
	if (c->compute_class == ET_F32 && c->out->type == ET_BFLOAT16)
		add_up_rounded(numbers->f, n_slabs, slab, stride, ET_BFLOAT16);
	else if (c->compute_class == ET_F32)
		add_up_rounded(numbers->f, n_slabs, slab, stride, ET_FLOAT16);
	else if (c->compute_class == ET_F64)
		(c->is_product ? multiply_up_doubles : add_up_doubles)(numbers->d, n_slabs, slab, stride);
	else
		(c->is_product ? multiply_up_ints : add_up_ints)(numbers->i, n_slabs, slab, stride);
}

/* Slabs from @begin to @end. A long slab is computed in parts, each preceded by the last numbers of the part before it.
 */
static void cumulate_staged(void *arg, size_t begin, size_t end)
{
	const struct cumulative *c = arg;
	union staged numbers;
	const size_t slab = c->n * c->stride, in_bytes = et_element_bytes(c->self),
		     out_bytes = et_element_bytes(c->out), bytes = et_class_size(c->compute_class);
	et_load_fn load = et_loader(c->self->type, c->compute_class);
	et_store_fn store = et_storer(c->out->type, c->compute_class);
	const uint8_t *in = (const uint8_t *)c->self->data + begin * slab * in_bytes;
	uint8_t *out = (uint8_t *)c->out->data + begin * slab * out_bytes;
	struct et_pace pace = { c->compute };
	for (size_t n, i = begin; slab <= STAGE && i < end && !et_pace_must_stop(&pace, STAGE); i += n) {
		n = STAGE / slab < end - i ? STAGE / slab : end - i;
		load(&numbers, in, 1, n * slab);
		cumulate_slabs(c, &numbers, n, slab, c->stride);
		store(out, 1, &numbers, n * slab);
		in += n * slab * in_bytes;
		out += n * slab * out_bytes;
	}
	for (size_t i = begin; slab > STAGE && i < end; i++) {
		for (size_t done = 0, n, before = 0; done < slab && !et_pace_must_stop(&pace, STAGE);
			done += n, before = c->stride) {
			uint8_t *to = (uint8_t *)&numbers + before * bytes;
			n = STAGE / c->stride * c->stride - before;
			n = n < slab - done ? n : slab - done;
			load(to, in, 1, n);
			cumulate_slabs(c, &numbers, 1, before + n, c->stride);
			store(out, 1, to, n);
			memmove(&numbers, to + (n - c->stride) * bytes, c->stride * bytes);
			in += n * in_bytes;
			out += n * out_bytes;
		}
	}
}

/* Compute @lines if they have the same layout in both tensors; *ret_is_done: whether they have. */
static enum et_status cumulate(struct et_kernel_ctx *ctx, const struct et_dim_apply_lines *lines, bool is_product,
	bool *ret_is_done)
{
	const struct et_tensor *self = lines->self;
	struct et_tensor *out = lines->out;
	bool is_int = !et_type_is_float(out->type);
	struct cumulative job = { .compute = ctx->compute, .self = self, .out = out, .is_product = is_product };
	*ret_is_done = false;
	/* fp16 and bf16 sums that are rounded after each step lose nothing in float. */
	job.is_rounded = lines->arg;
	job.compute_class = is_int ? ET_I64 : job.is_rounded ? ET_F32 : ET_F64;
	if (!et_loader(self->type, job.compute_class) || !et_storer(out->type, job.compute_class) ||
		self->n_dims == 0 || (job.is_rounded && self->type != out->type) || !et_has_same_layout(self, out))
		return ET_OK;
	ET_TRY(et_resize_like(ctx, out, self));
	size_t numel = et_tensor_numel(self);
	job.n = (size_t)lines->n_out;
	job.stride = (size_t)self->strides[lines->dim];
	const size_t slab = job.n * job.stride;
	if (numel && job.stride < FEW_COLUMNS)
		et_parallel_for_paced(ctx->compute, cumulate_staged, &job, numel / slab, WORK_PER_TASK / slab + 1);
	else if (numel)
		et_parallel_for_paced(ctx->compute, cumulate_range, &job, numel / job.n, WORK_PER_TASK / job.n + 1);
	*ret_is_done = true;
	return ET_OK;
}

/* --- kernels ------------------------------------------------------------------------------------------- */

struct dim_operator {
	et_dim_apply_fn fn;
	bool is_float;         /* takes floats only */
	bool rounds_innermost; /* fp16 and bf16 along the innermost dimension: the function is told the type */
	bool rounds_short;     /* fp16 and bf16, short lines: the function is told the type */
	bool is_softmax;       /* softmax_floats is faster for float */
	bool is_log;           /* log_softmax */
	bool is_cumulative;    /* cumulate is faster for adjacent lines */
	bool is_product;       /* products instead of sums */
};

/* The type to which the function must round (its arg), or NULL. */
static const uint8_t *rounding_type(const struct dim_operator *op, const struct et_dim_apply_lines *lines)
{
	size_t n_dims = lines->self->n_dims;
	if (!et_type_is_half(lines->out->type))
		return NULL;
	if ((op->rounds_innermost && n_dims && lines->dim == n_dims - 1) ||
		(op->rounds_short && lines->n_out <= ET_HALF_TERMS))
		return &lines->out->type;
	return NULL;
}

/* --- softmax of floats ----------------------------------------------------------------------------------- */

enum {
	SHORT_ROW = 16,
	FEW_NEIGHBOURS = 8, /* fewer adjacent lines would not fill a vector */
	LONGEST = 256,      /* longest lines that are gathered */
	ROWS = 32,
	LONG_LINE = 1 << 20, /* longer ones ask whether they must stop */
};

struct softmax {
	const struct et_compute *compute;
	const float *x;
	float *y;
	size_t n, stride; /* of a line; @stride lines are adjacent */
	bool is_log, is_gathered;
	float *transposed;            /* not NULL: room to copy all lines into, so that each is dense */
	enum et_scalar_type rounding; /* fp16 or bf16: the sum and its logarithm are rounded to it */
};

enum { PART = 128 };

static float largest_float(struct et_pace *pace, size_t n, const float *x)
{
	float most = -INFINITY;
	for (size_t at = 0, part; (part = et_pace_chunk(pace, at, n)); at += part) {
		float next = et_ukernels()->largest(part, x + at);
		most = next > most || next != next ? next : most;
	}
	return most;
}

/* The sum of exp(x - @most). If @powers is not NULL, it gets the powers; it may be x. */
static double sum_powers(struct et_pace *pace, size_t n, const float *x, float most, float *powers)
{
	double sum = 0;
	for (size_t i = 0, part; i < n && !et_pace_must_stop(pace, 8 * PART); i += part) {
		float room[PART], *to = powers ? powers + i : room;
		part = n - i < PART ? n - i : PART;
		for (size_t k = 0; k < part; k++)
			to[k] = x[i + k] - most;
		et_ukernels()->each_exp(part, to, to);
		sum += et_ukernels()->sum(part, to);
	}
	return sum;
}

static void subtract_from_each(struct et_pace *pace, size_t n, float *y, const float *x, float most, float rest)
{
	for (size_t at = 0, part; (part = et_pace_chunk(pace, at, n)); at += part)
		for (size_t k = at; k < at + part; k++)
			y[k] = x[k] - most - rest;
}

/* log_softmax() of one line of fp16 or bf16 that rounds its sum. y may be x. */
static void log_softmax_rounded(struct et_pace *pace, size_t n, float *y, const float *x, enum et_scalar_type type)
{
	const float most = largest_float(pace, n, x);
	const double sum = sum_powers(pace, n, x, most, NULL);
	subtract_from_each(pace, n, y, x, most, (float)et_round_to(log(et_round_to(sum, type)), type));
}

/* The ukernel softmax_row for a line of any length, which may differ in the last bit. y may be x. */
static void softmax_long_row(struct et_pace *pace, size_t n, float *y, const float *x, bool is_log)
{
	const float most = largest_float(pace, n, x);
	const double sum = sum_powers(pace, n, x, most, is_log ? NULL : y);
	if (is_log)
		subtract_from_each(pace, n, y, x, most, (float)log(sum));
	for (size_t at = 0, part; !is_log && (part = et_pace_chunk(pace, at, n)); at += part)
		for (size_t k = at; k < at + part; k++)
			y[k] /= (float)sum;
}

static void softmax_dense(struct et_pace *pace, size_t n, float *y, const float *x, bool is_log)
{
	if (n > LONG_LINE)
		softmax_long_row(pace, n, y, x, is_log);
	else
		et_ukernels()->softmax_row(n, y, x, is_log);
}

/* The same for several short adjacent lines: log_softmax of 8,192 lines of 10 fp16 numbers, as class scores are, takes
 * twice as long line by line. */
static void log_softmax_rounded_short(size_t n_lines, size_t n, float *y, const float *x, enum et_scalar_type type)
{
	enum { NUMBERS = 512 };
	for (size_t lines; n_lines; n_lines -= lines, x += lines * n, y += lines * n) {
		float powers[NUMBERS], most[NUMBERS];
		lines = NUMBERS / n < n_lines ? NUMBERS / n : n_lines;
		et_span_ukernels()->largest_of_rows[ET_F32](lines, n, most, x);
		for (size_t i = 0; i < lines; i++) {
			for (size_t k = 0; k < n; k++)
				powers[i * n + k] = x[i * n + k] - most[i];
		}
		et_ukernels()->each_exp(lines * n, powers, powers);
		for (size_t i = 0; i < lines; i++) {
			double sum = 0;
			for (size_t k = 0; k < n; k++)
				sum += (double)powers[i * n + k];
			const float rest = (float)et_round_to(log(et_round_to(sum, type)), type);
			for (size_t k = 0; k < n; k++)
				y[i * n + k] = x[i * n + k] - most[i] - rest;
		}
	}
}

/* The offset of the first number of line @i. */
static size_t line_at(const struct softmax *s, size_t i)
{
	return i / s->stride * s->stride * s->n + i % s->stride;
}

/* Gather lines that would only fill a part of a vector side by side, as columns. If one line of a tensor is computed
 * this way, all are: the sums differ in the last bit, and results must not depend on where threads divide the lines. */
static void softmax_gathered(const struct softmax *s, size_t first, size_t n_lines)
{
	float columns[LONGEST * ROWS];
	for (size_t i = 0; i < n_lines; i++) {
		const float *x = s->x + line_at(s, first + i);
		for (size_t k = 0; k < s->n; k++)
			columns[k * ROWS + i] = x[k * s->stride];
	}
	et_ukernels()->softmax_columns(n_lines, s->n, columns, columns, ROWS, s->is_log);
	for (size_t i = 0; i < n_lines; i++) {
		float *y = s->y + line_at(s, first + i);
		for (size_t k = 0; k < s->n; k++)
			y[k * s->stride] = columns[k * ROWS + i];
	}
}

/* One of a few adjacent long lines. */
static void softmax_transposed(struct et_pace *pace, const struct softmax *s, size_t i)
{
	float *line = s->transposed + i * s->n, *y = s->y + line_at(s, i);
	const float *x = s->x + line_at(s, i);
	for (size_t at = 0, part; (part = et_pace_chunk(pace, at, s->n)); at += part)
		for (size_t k = at; k < at + part; k++)
			line[k] = x[k * s->stride];
	softmax_dense(pace, s->n, line, line, s->is_log);
	for (size_t at = 0, part; (part = et_pace_chunk(pace, at, s->n)); at += part)
		for (size_t k = at; k < at + part; k++)
			y[k * s->stride] = line[k];
}

static void softmax_range(void *arg, size_t begin, size_t end)
{
	const struct softmax *s = arg;
	struct et_pace pace = { s->compute };
	for (size_t i = begin; i < end;) {
		size_t column = i % s->stride, n = s->stride - column < end - i ? s->stride - column : end - i;
		size_t at = line_at(s, i);
		if (s->rounding != ET_FLOAT32 && s->n <= ET_SHORT_ROW / sizeof(float)) {
			n = end - i;
			log_softmax_rounded_short(n, s->n, s->y + at, s->x + at, s->rounding);
		} else if (s->rounding != ET_FLOAT32) {
			n = 1;
			log_softmax_rounded(&pace, s->n, s->y + at, s->x + at, s->rounding);
		} else if (s->transposed) {
			n = 1;
			softmax_transposed(&pace, s, i);
		} else if (s->is_gathered) {
			n = end - i < ROWS ? end - i : ROWS;
			softmax_gathered(s, i, n);
		} else if (s->stride == 1)
			softmax_dense(&pace, s->n, s->y + at, s->x + at, s->is_log);
		else
			et_ukernels()->softmax_columns(n, s->n, s->y + at, s->x + at, s->stride, s->is_log);
		i += n;
	}
}

/* Compute @lines if they are float, fp16 or bf16 with the same layout in both tensors; *ret_is_done: whether they are.
 * fp16 and bf16 are converted to float. */
static enum et_status softmax_floats(struct et_kernel_ctx *ctx, const struct et_dim_apply_lines *lines, bool is_log,
	bool *ret_is_done)
{
	const struct et_tensor *self = lines->self;
	struct et_tensor *out = lines->out;
	bool is_half = et_type_is_half(self->type);
	*ret_is_done = false;
	if ((self->type != ET_FLOAT32 && !is_half) || out->type != self->type || self->n_dims == 0 ||
		(lines->arg && self->strides[lines->dim] != 1))
		return ET_OK;
	ET_TRY(et_resize_like(ctx, out, self));
	size_t numel = et_tensor_numel(self);
	if (memcmp(self->strides, out->strides, self->n_dims * sizeof(*self->strides)) != 0 || numel == 0)
		return ET_OK;
	float *floats = is_half ? et_kernel_scratch(ctx, numel * sizeof(*floats)) : NULL;
	if (is_half && !floats)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	struct et_view of_half, converted;
	if (is_half) {
		et_view_of(&of_half, self);
		et_view_clone(&converted, &of_half);
		converted.type = ET_FLOAT32;
		converted.data = (uint8_t *)floats;
		ET_TRY(et_view_cast(ctx, &converted, &of_half));
		et_view_of(&of_half, out);
	}
	struct softmax job = {
		.compute = ctx->compute,
		.x = is_half ? floats : self->data,
		.y = is_half ? floats : out->data,
		.n = (size_t)lines->n_out,
		.stride = (size_t)self->strides[lines->dim],
		.is_log = is_log,
		.rounding = lines->arg ? self->type : ET_FLOAT32,
	};
	bool is_partial = job.stride == 1 ? job.n < SHORT_ROW : job.stride < FEW_NEIGHBOURS && job.n <= LONGEST;
	job.is_gathered = is_partial && numel / job.n >= ROWS;
	if (job.stride > 1 && job.n > (job.stride < FEW_NEIGHBOURS ? LONGEST : LONG_LINE)) {
		job.transposed = et_kernel_scratch(ctx, numel * sizeof(*job.transposed));
		if (!job.transposed)
			return ET_E_MEMORY_ALLOCATION_FAILED;
	}
	et_parallel_for(ctx->compute, softmax_range, &job, numel / job.n, WORK_PER_TASK / job.n + 1);
	if (is_half)
		ET_TRY(et_view_cast(ctx, &of_half, &converted));
	*ret_is_done = true;
	return ET_OK;
}

/* self, dim … > out */
static enum et_status run_dim_operator(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct dim_operator *op = ctx->kernel->row;
	const struct et_tensor *self = args[0]->tensor;
	struct et_dim_apply_lines lines = {
		.fn = op->fn,
		.takes_ints = !op->is_float,
		.self = self,
		.keepdim = true,
		.out = args[strlen(ctx->kernel->signature) - 2]->tensor,
	};
	ET_TRY(et_get_dim(ctx, args[1]->i, self->n_dims, &lines.dim));
	ET_REQUIRE(ctx, !op->is_float || et_type_is_float(lines.out->type), "an output of %s",
		et_scalar_name(lines.out->type));
	lines.n_out = self->n_dims ? self->sizes[lines.dim] : 1;
	lines.arg = rounding_type(op, &lines);
	bool is_done = false;
	if (op->is_softmax)
		ET_TRY(softmax_floats(ctx, &lines, op->is_log, &is_done));
	else if (op->is_cumulative)
		ET_TRY(cumulate(ctx, &lines, op->is_product, &is_done));
	return is_done ? ET_OK : et_dim_apply_run(ctx, &lines);
}

#define DIM_OPERATOR(...)            \
	&(const struct dim_operator) \
	{                            \
		__VA_ARGS__          \
	}
static const struct et_kernel rows[] = {
	{ "aten::_log_softmax.out", "TIB>T", run_dim_operator,
		DIM_OPERATOR(log_softmax, .is_float = true, .rounds_innermost = true, .is_softmax = true,
			.is_log = true) },
	{ "aten::_softmax.out", "TIB>T", run_dim_operator,
		DIM_OPERATOR(softmax, .is_float = true, .is_softmax = true) },
	{ "aten::cumprod.out", "TIi>T", run_dim_operator,
		DIM_OPERATOR(cumprod, .is_cumulative = true, .is_product = true) },
	{ "aten::cumsum.out", "TIi>T", run_dim_operator,
		DIM_OPERATOR(cumsum, .rounds_short = true, .is_cumulative = true) },
};

ET_KERNEL_TABLE(softmax_cumsum);
