/* SPDX-License-Identifier: BSD-3-Clause */
/* llama::'s attention: queries attend to the keys and values of all earlier positions.
 *
 * A language model's decoder is exported with these operators (ExecuTorch's extension/llm): one that attends, one that
 * writes new keys and values into the caches, and one that does both. The caches are tensors of the program that
 * outlive a run.
 *
 * A block of query rows is computed at a time, over all keys; rows of heads that share keys are adjacent. A block
 * computes scores, softmax and the weighted sum of values, so a key or value is read, and converted to float, once for
 * each block. 8-bit operands lose their zero points when they are loaded, which is exact in float; scales are applied
 * later. fp16 and bf16 are multiplied as float, and the weights are rounded to the type where ExecuTorch does.
 *
 * Without a mask the keys end at the last query, causal or not, because a cache holds nothing beyond it. */
#include "runtime/kernels/engine/args.h"
#include "runtime/kernels/engine/gemm.h"
#include "runtime/kernels/simd/ukernels.h"
#include "runtime/kernels/engine/index_copy.h"
#include "runtime/kernels/kernels.h"

#include <math.h>

/* --- caches ------------------------------------------------------------------------------------------------- */

/* Both are [batch, positions, heads, size] and differ only in the positions. */
static enum et_status require_cache(struct et_kernel_ctx *ctx, const struct et_tensor *value,
	const struct et_tensor *cache, const struct et_tensor *indices)
{
	ET_REQUIRE(ctx, value->n_dims == 4 && cache->n_dims == 4, "a value of rank %u for a cache of rank %u",
		value->n_dims, cache->n_dims);
	ET_REQUIRE(ctx,
		value->sizes[0] == cache->sizes[0] && value->sizes[2] == cache->sizes[2] &&
			value->sizes[3] == cache->sizes[3],
		"a value of %d x %d x %d for a cache of %d x %d x %d", value->sizes[0], value->sizes[2],
		value->sizes[3], cache->sizes[0], cache->sizes[2], cache->sizes[3]);
	ET_TRY(et_require_same_type(ctx, value, cache));
	ET_TRY(et_require_contiguous(ctx, value, "the value"));
	ET_TRY(et_require_contiguous(ctx, cache, "the cache"));
	if (!indices)
		return ET_OK;
	ET_TRY(et_require_type(ctx, indices, ET_INT64, "the indices"));
	ET_TRY(et_require_contiguous(ctx, indices, "the indices"));
	ET_REQUIRE(ctx,
		indices->n_dims == 2 && indices->sizes[0] == value->sizes[0] && indices->sizes[1] == value->sizes[1],
		"the indices do not fit the value");
	return ET_OK;
}

/* Write @value into @cache. @indices: the position of each row; NULL: consecutive positions from @start on. All indices
 * are checked before any row is written, in a private copy, because they may be in a client's memory, or overlap the
 * cache. */
static enum et_status write_cache(struct et_kernel_ctx *ctx, const struct et_tensor *value, struct et_tensor *cache,
	int64_t start, const struct et_tensor *indices)
{
	ET_TRY(require_cache(ctx, value, cache, indices));
	int64_t n = value->sizes[1], room = cache->sizes[1];
	size_t bytes = (size_t)value->sizes[2] * (size_t)value->sizes[3] * et_element_bytes(value);
	struct et_view copied;
	const int64_t *where = indices ? et_local_copy(ctx, indices, ET_INT64, &copied) : NULL;
	if (indices && !where)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	if (!where)
		ET_REQUIRE(ctx, start >= 0 && start < room && n <= room - start,
			"position %lld and %lld more in a cache of %lld", (long long)start, (long long)n,
			(long long)room);
	for (int64_t i = 0; where && i < value->sizes[0] * n; i++)
		ET_REQUIRE(ctx, where[i] >= 0 && where[i] < room, "position %lld in a cache of %lld",
			(long long)where[i], (long long)room);
	int64_t n_pieces = where ? n : 1, n_rows = where ? 1 : n; /* for each batch item, and for each piece */
	struct et_pace pace = { ctx->compute };
	for (int64_t i = 0; bytes && n && i < value->sizes[0] * n_pieces; i++) {
		int64_t at = i / n_pieces * room + (where ? where[i] : start);
		if (!et_copy_paced(&pace, (uint8_t *)cache->data + (size_t)at * bytes,
			    (const uint8_t *)value->data + (size_t)(i * n_rows) * bytes, (size_t)n_rows * bytes))
			break;
	}
	return ET_OK;
}

/* ExecuTorch returns this output uninitialized; here it is zeroed, so that it shows nothing of what was in that memory.
 */
static void clear(struct et_kernel_ctx *ctx, struct et_tensor *out)
{
	et_fill_many(ctx->compute, out->data, &(const uint8_t){ 0 }, et_tensor_n_bytes(out), 1);
}

/* value, cache, start > out */
static enum et_status run_update(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	clear(ctx, args[3]->tensor);
	return write_cache(ctx, args[0]->tensor, args[1]->tensor, args[2]->i, NULL);
}

/* value, cache, start, indices > out */
static enum et_status run_update_indices(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	clear(ctx, args[4]->tensor);
	return write_cache(ctx, args[0]->tensor, args[1]->tensor, args[2]->i, args[3]->tensor);
}

/* --- attention ---------------------------------------------------------------------------------------------- */

enum {
	ROWS = 32,
	FEW_ROWS = 4, /* so few rows use each key in place */
	CHUNK = 32,   /* keys or values that are converted to float at once */
};

/* Queries, keys or values; strides in elements. */
struct operand {
	const struct et_tensor *tensor;
	int64_t batch_stride, head_stride, stride;
	/* for 8-bit operands, one for each row */
	const struct et_tensor *zeros, *scales;
	int64_t zero_batch, zero_head, zero_row;    /* strides of the zero points */
	int64_t scale_batch, scale_head, scale_row; /* strides of the scales */
};

struct attention {
	struct operand q, k, v;
	struct et_tensor *out;
	const float *mask;                                              /* [queries, keys], or NULL */
	int64_t n_heads, n_kv_heads, n_shared, n_queries, n_keys, size; /* n_shared: heads of queries that share keys */
	int64_t start, n_blocks;                                        /* blocks of the rows of those heads */
	bool is_causal;
	float scale;
	float *scratch; /* one part for each task */
	size_t n_scratch;
	struct et_compute serial; /* for a task's own loops */
};

static void read_operand(struct operand *o, const struct et_tensor *tensor, bool is_row_second)
{
	size_t row = is_row_second ? 1 : 2, head = is_row_second ? 2 : 1;
	o->tensor = tensor;
	o->batch_stride = tensor->strides[0];
	o->head_stride = tensor->strides[head];
	o->stride = tensor->strides[row];
}

static enum et_status read_qparams(struct et_kernel_ctx *ctx, struct operand *o, const struct et_evalue *zeros,
	const struct et_evalue *scales, bool is_row_second)
{
	size_t row = is_row_second ? 1 : 2, head = is_row_second ? 2 : 1;
	ET_REQUIRE(ctx, !et_is_none(zeros) && !et_is_none(scales), "8-bit operands without zero points and scales");
	o->zeros = zeros->tensor;
	o->scales = scales->tensor;
	ET_TRY(et_require_type(ctx, o->zeros, ET_INT8, "the zero points"));
	ET_TRY(et_require_type(ctx, o->scales, ET_FLOAT32, "the scales"));
	ET_REQUIRE(ctx, o->zeros->n_dims == 4 && o->scales->n_dims == 4, "zero points of rank %u and scales of rank %u",
		o->zeros->n_dims, o->scales->n_dims);
	for (size_t d = 0; d < 4; d++)
		ET_REQUIRE(ctx,
			d < 3 ? o->zeros->sizes[d] == o->tensor->sizes[d] && o->scales->sizes[d] == o->tensor->sizes[d]
			      : o->zeros->sizes[d] > 0 && o->scales->sizes[d] > 0,
			"zero points and scales do not fit");
	o->zero_batch = o->zeros->strides[0];
	o->zero_head = o->zeros->strides[head];
	o->zero_row = o->zeros->strides[row];
	o->scale_batch = o->scales->strides[0];
	o->scale_head = o->scales->strides[head];
	o->scale_row = o->scales->strides[row];
	return ET_OK;
}

/* The scale of row @row; 1 if there is none. */
static float scale_of(const struct operand *o, int64_t batch, int64_t head, int64_t row)
{
	return o->scales ? ((const float *)o->scales
					   ->data)[batch * o->scale_batch + head * o->scale_head + row * o->scale_row]
			 : 1;
}

/* @n numbers of row @row as float, starting at number @first, without the scale: in place, or in @span. */
static const float *load_row(const struct operand *o, int64_t batch, int64_t head, int64_t row, size_t first, size_t n,
	float *span)
{
	const struct et_tensor *tensor = o->tensor;
	const uint8_t *at = (const uint8_t *)tensor->data +
			    ((size_t)(batch * o->batch_stride + head * o->head_stride + row * o->stride) + first) *
				    et_element_bytes(tensor);
	if (tensor->type == ET_FLOAT32 && (uintptr_t)at % sizeof(float) == 0)
		return (const float *)(const void *)at;
	if (!o->zeros) {
		et_loader(tensor->type, ET_F32)(span, at, 1, n);
		return span;
	}
	int8_t zero = ((const int8_t *)o->zeros->data)[batch * o->zero_batch + head * o->zero_head + row * o->zero_row];
	for (size_t i = 0; i < n; i++)
		span[i] = (float)((const int8_t *)at)[i] - (float)zero;
	return span;
}

/* One head of keys or values, as a matrix for et_gemm's panels. */
struct head {
	const struct operand *operand;
	int64_t batch, head;
};

enum { PIECE = 32 };

/* Keys are columns of the matrix. */
static void key_panel(const void *b, size_t first_k, size_t n_k, size_t first_column, size_t n_columns, float *panel,
	size_t width)
{
	const struct head *h = b;
	float piece[PIECE];
	for (size_t j = 0; j < n_columns; j++)
		for (size_t k = 0; k < n_k; k += PIECE) {
			size_t n = n_k - k < PIECE ? n_k - k : PIECE;
			const float *row = load_row(h->operand, h->batch, h->head, (int64_t)(first_column + j),
				first_k + k, n, piece);
			for (size_t i = 0; i < n; i++)
				panel[(k + i) * width + j] = row[i];
		}
}

/* Values are rows of the matrix. */
static void value_panel(const void *b, size_t first_k, size_t n_k, size_t first_column, size_t n_columns, float *panel,
	size_t width)
{
	const struct head *h = b;
	float piece[PIECE];
	for (size_t k = 0; k < n_k; k++) {
		float scale = scale_of(h->operand, h->batch, h->head, (int64_t)(first_k + k));
		for (size_t j = 0; j < n_columns; j += PIECE) {
			size_t n = n_columns - j < PIECE ? n_columns - j : PIECE;
			const float *row = load_row(h->operand, h->batch, h->head, (int64_t)(first_k + k),
				first_column + j, n, piece);
			for (size_t i = 0; i < n; i++)
				panel[k * width + j + i] = row[i] * scale;
		}
	}
}

/* ExecuTorch rounds weights to fp16 and bf16, except for a bf16 row that is alone in its block of 32 to 256 rows. */
static bool is_rounded(const struct attention *a, int64_t row)
{
	int64_t block = a->n_queries < 192 ? 32 : a->n_queries < 768 ? 64 : 256;
	enum et_scalar_type type = a->q.tensor->type;
	return type == ET_FLOAT16 || (type == ET_BFLOAT16 && (row % block != 0 || row + 1 < a->n_queries));
}

/* Turn scores into weights, not yet divided by their sum, which is returned. */
static float exp_scores(float *scores, int64_t n, bool rounds, enum et_scalar_type type)
{
	float most = -INFINITY, sum = 0;
	for (int64_t i = 0; i < n; i++)
		most = scores[i] > most || scores[i] != scores[i] ? scores[i] : most;
	/* a row that may attend to no key has no weights; its result is NaN */
	for (int64_t i = 0; i < n; i++)
		scores[i] = most == -INFINITY ? -INFINITY : scores[i] - most;
	et_ukernels()->each_exp((size_t)n, scores, scores);
	for (int64_t i = 0; i < n; i++)
		sum += scores[i];
	for (int64_t i = 0; rounds && i < n; i++)
		scores[i] = et_round_half(scores[i], type);
	return sum;
}

/* How many keys query @row may attend to. */
static int64_t keys_for(const struct attention *a, int64_t row)
{
	int64_t n = a->start + row + 1;
	return a->is_causal && n < a->n_keys ? n : a->n_keys;
}

/* The queries of one block: rows of the heads that share keys; those of one position are adjacent. */
struct block {
	const struct attention *a;
	struct head k, v;
	int64_t batch, first, n, n_keys;
	float *queries, *sums, *scores, *span;
	float totals[ROWS];
};

static int64_t query_of(const struct block *b, int64_t row)
{
	return (b->first + row) / b->a->n_shared;
}

static int64_t head_of(const struct block *b, int64_t row)
{
	return b->k.head * b->a->n_shared + (b->first + row) % b->a->n_shared;
}

/* How many keys the block's row @row may attend to. */
static int64_t n_keys_of(const struct block *b, int64_t row)
{
	return keys_for(b->a, query_of(b, row));
}

/* Row 0 if the operand is float already, or NULL. */
static const float *rows_of(const struct operand *o, int64_t batch, int64_t head)
{
	const float *rows = (const float *)o->tensor->data + batch * o->batch_stride + head * o->head_stride;
	return o->tensor->type == ET_FLOAT32 && (uintptr_t)rows % sizeof(float) == 0 ? rows : NULL;
}

/* Keys or values from @first on: all of them in place if they are float, otherwise up to CHUNK of them in @span. */
static const float *load_chunk(const struct head *h, int64_t first, int64_t n_keys, int64_t size, float *span,
	int64_t *ret_n, int64_t *ret_stride)
{
	const float *rows = rows_of(h->operand, h->batch, h->head);
	*ret_n = n_keys - first;
	*ret_stride = h->operand->stride;
	if (rows)
		return rows + first * h->operand->stride;
	*ret_n = *ret_n < CHUNK ? *ret_n : CHUNK;
	*ret_stride = size;
	for (int64_t k = 0; k < *ret_n; k++)
		load_row(h->operand, h->batch, h->head, first + k, 0, (size_t)size, span + k * size);
	return span;
}

/* For few rows: each key and value in place. */
static void score_few(const struct block *b)
{
	const struct attention *a = b->a;
	for (int64_t k = 0, n, stride; k < b->n_keys; k += n) {
		const float *keys = load_chunk(&b->k, k, b->n_keys, a->size, b->span, &n, &stride);
		for (int64_t r = 0; r < b->n; r++)
			et_ukernels()->dots((size_t)n, (size_t)a->size, b->scores + r * a->n_keys + k,
				b->queries + r * a->size, keys, stride);
	}
}

static void sum_few(const struct block *b)
{
	const struct attention *a = b->a;
	float *part = b->span + CHUNK * a->size;
	if (b->n_keys == 0)
		memset(b->sums, 0, (size_t)(b->n * a->size) * sizeof(*b->sums));
	for (int64_t k = 0, n, stride; k < b->n_keys; k += n) {
		const float *values = load_chunk(&b->v, k, b->n_keys, a->size, b->span, &n, &stride);
		for (int64_t r = 0; r < b->n; r++) {
			float *weights = b->scores + r * a->n_keys + k, *sums = b->sums + r * a->size;
			int64_t n_seen = n_keys_of(b, r) - k;
			n_seen = n_seen < n ? n_seen : n;
			if (n_seen <= 0 && k > 0)
				continue;
			for (int64_t i = 0; a->v.scales && i < n_seen; i++)
				weights[i] *= scale_of(&a->v, b->batch, b->v.head, k + i);
			et_ukernels()->weighted_rows((size_t)n_seen, (size_t)a->size, k ? part : sums, weights, values,
				stride);
			for (int64_t i = 0; k && i < a->size; i++)
				sums[i] += part[i];
		}
	}
}

static void score_many(const struct block *b)
{
	static const float zeros[ROWS];
	const struct attention *a = b->a;
	et_gemm(&b->a->serial, &(struct et_gemm){ .n_rows = (size_t)b->n,
				       .n_columns = (size_t)b->n_keys,
				       .n_k = (size_t)a->size,
				       .a = b->queries,
				       .a_row = a->size,
				       .a_col = 1,
				       .panel = key_panel,
				       .b = &b->k,
				       .c = b->scores,
				       .c_row = a->n_keys,
				       .c_col = 1,
				       .init = zeros });
}

static void sum_many(const struct block *b)
{
	static const float zeros[ROWS];
	const struct attention *a = b->a;
	for (int64_t r = 0; r < b->n; r++)
		for (int64_t k = n_keys_of(b, r); k < b->n_keys; k++)
			b->scores[r * a->n_keys + k] = 0;
	et_gemm(&b->a->serial, &(struct et_gemm){ .n_rows = (size_t)b->n,
				       .n_columns = (size_t)a->size,
				       .n_k = (size_t)b->n_keys,
				       .a = b->scores,
				       .a_row = a->n_keys,
				       .a_col = 1,
				       .panel = value_panel,
				       .b = &b->v,
				       .c = b->sums,
				       .c_row = a->size,
				       .c_col = 1,
				       .init = zeros });
}

static void attend_block(const struct attention *a, int64_t index, float *scratch)
{
	int64_t kv_head = index / a->n_blocks % a->n_kv_heads, batch = index / a->n_blocks / a->n_kv_heads;
	int64_t n_rows = a->n_queries * a->n_shared;
	struct block b = { .a = a,
		.batch = batch,
		.k = { &a->k, batch, kv_head },
		.v = { &a->v, batch, kv_head },
		.first = index % a->n_blocks * ROWS,
		.queries = scratch };
	b.n = n_rows - b.first < ROWS ? n_rows - b.first : ROWS;
	b.n_keys = n_keys_of(&b, b.n - 1);
	b.sums = b.queries + ROWS * a->size;
	b.span = b.sums + ROWS * a->size;
	b.scores = b.span + (CHUNK + 1) * a->size;
	for (int64_t r = 0; r < b.n; r++) {
		float *to = b.queries + r * a->size;
		const float *row = load_row(&a->q, batch, head_of(&b, r), query_of(&b, r), 0, (size_t)a->size, to);
		if (row != to)
			memcpy(to, row, (size_t)a->size * sizeof(*to));
	}
	(b.n <= FEW_ROWS ? score_few : score_many)(&b);
	for (int64_t r = 0; r < b.n; r++) {
		int64_t query = query_of(&b, r), n = n_keys_of(&b, r);
		float *row = b.scores + r * a->n_keys, scale = scale_of(&a->q, batch, head_of(&b, r), query);
		for (int64_t k = 0; k < n; k++)
			row[k] *= a->k.scales ? scale * scale_of(&a->k, batch, kv_head, k) * a->scale : a->scale;
		for (int64_t k = 0; a->mask && k < n; k++)
			row[k] += a->mask[query * a->n_keys + k];
		b.totals[r] = exp_scores(row, n, is_rounded(a, query), a->q.tensor->type);
	}
	(b.n <= FEW_ROWS ? sum_few : sum_many)(&b);
	for (int64_t r = 0; r < b.n; r++) {
		float *sum = b.sums + r * a->size, factor = 1 / b.totals[r];
		size_t at = (size_t)(batch * a->q.batch_stride + head_of(&b, r) * a->q.head_stride +
				     query_of(&b, r) * a->q.stride);
		for (int64_t i = 0; i < a->size; i++)
			sum[i] *= factor;
		et_storer(a->out->type, ET_F32)((uint8_t *)a->out->data + at * et_element_bytes(a->out), 1, sum,
			(size_t)a->size);
	}
}

/* Floats of scratch memory that one block needs. */
static size_t scratch_of(const struct attention *a)
{
	return (size_t)((2 * ROWS + CHUNK + 1) * a->size + ROWS * a->n_keys);
}

/* Every n_scratch-th block belongs to one task, which has scratch memory of its own. */
static void attend(void *arg, size_t begin, size_t end)
{
	const struct attention *a = arg;
	size_t n = (size_t)(a->q.tensor->sizes[0] * a->n_kv_heads * a->n_blocks);
	for (size_t task = begin; task < end; task++)
		for (size_t block = task; block < n && !et_must_stop(&a->serial); block += a->n_scratch)
			attend_block(a, (int64_t)block, a->scratch + task * scratch_of(a));
}

struct request {
	const struct et_tensor *q, *k, *v, *mask; /* mask: or NULL */
	int64_t start, n_new;
	bool is_causal, is_row_second;
	const struct et_evalue *scale;
	struct et_evalue *const *qparams; /* zero points and scales of q, k and v; or NULL */
	struct et_tensor *out;
};

static enum et_status require_operands(struct et_kernel_ctx *ctx, const struct request *r)
{
	const struct et_tensor *q = r->q, *k = r->k, *v = r->v;
	enum et_scalar_type type = q->type;
	ET_REQUIRE(ctx, q->n_dims == 4 && k->n_dims == 4 && v->n_dims == 4, "ranks %u, %u and %u, not 4", q->n_dims,
		k->n_dims, v->n_dims);
	ET_REQUIRE(ctx,
		type == ET_FLOAT32 || type == ET_FLOAT16 || type == ET_BFLOAT16 || (type == ET_INT8 && r->qparams),
		"queries of %s", et_scalar_name(type));
	ET_TRY(et_require_same_type(ctx, q, k));
	ET_TRY(et_require_same_type(ctx, q, v));
	if (type != ET_INT8)
		ET_TRY(et_require_same_type(ctx, q, r->out));
	ET_REQUIRE(ctx, r->out->type == ET_FLOAT32 || r->out->type == ET_FLOAT16 || r->out->type == ET_BFLOAT16,
		"an output of %s", et_scalar_name(r->out->type));
	ET_TRY(et_require_contiguous(ctx, q, "the query"));
	ET_TRY(et_require_contiguous(ctx, k, "the key"));
	ET_TRY(et_require_contiguous(ctx, v, "the value"));
	ET_REQUIRE(ctx, q->sizes[3] == k->sizes[3] && q->sizes[3] == v->sizes[3], "heads of %d, %d and %d", q->sizes[3],
		k->sizes[3], v->sizes[3]);
	ET_REQUIRE(ctx, q->sizes[0] == k->sizes[0] && q->sizes[0] == v->sizes[0], "batches of %d, %d and %d",
		q->sizes[0], k->sizes[0], v->sizes[0]);
	ET_REQUIRE(ctx, !r->mask || !r->is_causal, "takes a mask or is causal, not both");
	return ET_OK;
}

static enum et_status require_mask(struct et_kernel_ctx *ctx, const struct request *r, const struct attention *a)
{
	ET_TRY(et_require_type(ctx, r->mask, ET_FLOAT32, "the mask"));
	ET_TRY(et_require_contiguous(ctx, r->mask, "the mask"));
	ET_REQUIRE(ctx, r->mask->n_dims == 2, "a mask of rank %u", r->mask->n_dims);
	ET_REQUIRE(ctx,
		et_tensor_numel(r->mask) == 0 || (r->mask->sizes[0] == a->n_queries && r->mask->sizes[1] == a->n_keys),
		"a mask of %d x %d for %lld queries and %lld keys", r->mask->sizes[0], r->mask->sizes[1],
		(long long)a->n_queries, (long long)a->n_keys);
	return ET_OK;
}

static enum et_status run_attention(struct et_kernel_ctx *ctx, const struct request *r)
{
	struct attention a = { .out = r->out, .start = r->start, .is_causal = r->is_causal };
	int64_t sizes[4];
	size_t row = r->is_row_second ? 1 : 2, head = r->is_row_second ? 2 : 1, n_bytes;
	ET_TRY(require_operands(ctx, r));
	read_operand(&a.q, r->q, r->is_row_second);
	read_operand(&a.k, r->k, r->is_row_second);
	read_operand(&a.v, r->v, r->is_row_second);
	if (r->q->type == ET_INT8) {
		ET_TRY(read_qparams(ctx, &a.q, r->qparams[0], r->qparams[1], r->is_row_second));
		ET_TRY(read_qparams(ctx, &a.k, r->qparams[2], r->qparams[3], r->is_row_second));
		ET_TRY(read_qparams(ctx, &a.v, r->qparams[4], r->qparams[5], r->is_row_second));
	}
	a.size = r->q->sizes[3];
	a.n_heads = r->q->sizes[head];
	a.n_kv_heads = r->k->sizes[head];
	a.n_queries = r->q->sizes[row];
	a.n_keys = r->v->sizes[row];
	ET_REQUIRE(ctx, a.n_kv_heads == r->v->sizes[head] && a.n_kv_heads > 0 && a.n_heads % a.n_kv_heads == 0,
		"%lld heads of queries, %lld of keys, %d of values", (long long)a.n_heads, (long long)a.n_kv_heads,
		r->v->sizes[head]);
	ET_REQUIRE(ctx, r->start >= 0 && r->start <= INT32_MAX, "start at %lld", (long long)r->start);
	if (!r->mask) {
		ET_REQUIRE(ctx, r->start + r->n_new <= a.n_keys, "%lld and %lld more of %lld keys", (long long)r->start,
			(long long)r->n_new, (long long)a.n_keys);
		a.n_keys = r->start + r->n_new > 0 ? r->start + r->n_new : a.n_keys;
	} else {
		ET_TRY(require_mask(ctx, r, &a));
		a.mask = et_tensor_numel(r->mask) ? r->mask->data : NULL;
	}
	ET_REQUIRE(ctx, r->k->sizes[row] >= a.n_keys, "%d keys for %lld values", r->k->sizes[row], (long long)a.n_keys);
	a.scale = et_is_none(r->scale) ? (float)(1 / sqrt((double)a.size)) : (float)r->scale->d;
	for (size_t d = 0; d < 4; d++)
		sizes[d] = r->q->sizes[d];
	ET_TRY(et_resize(ctx, r->out, sizes, 4));
	ET_TRY(et_require_contiguous(ctx, r->out, "the output"));
	if (et_tensor_numel(r->out) == 0)
		return ET_OK;
	a.n_shared = a.n_heads / a.n_kv_heads;
	a.n_blocks = (a.n_queries * a.n_shared + ROWS - 1) / ROWS;
	size_t n = (size_t)(r->q->sizes[0] * a.n_kv_heads * a.n_blocks);
	a.n_scratch = n < 16 ? n : 16;
	/* sizes have 32 bits each and are backed by memory */
	if (!et_mul(scratch_of(&a), a.n_scratch * sizeof(float), &n_bytes))
		return et_refuse(ctx, "too large");
	a.scratch = et_kernel_scratch(ctx, n_bytes);
	if (!a.scratch)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	a.serial = (struct et_compute){ .signal = ctx->compute ? ctx->compute->signal : NULL };
	et_parallel_for(ctx->compute, attend, &a, a.n_scratch, 1);
	return ET_OK;
}

static const struct et_tensor *tensor_or_null(const struct et_evalue *value)
{
	return et_is_none(value) ? NULL : value->tensor;
}

/* q, k, v, start, mask, dropout, causal, scale > out */
static enum et_status run_sdpa(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *q = args[0]->tensor;
	struct request r = { .q = q,
		.k = args[1]->tensor,
		.v = args[2]->tensor,
		.start = args[3]->i,
		.n_new = q->n_dims > 1 ? q->sizes[1] : 0,
		.mask = tensor_or_null(args[4]),
		.is_causal = args[6]->b,
		.is_row_second = true,
		.scale = args[7],
		.out = args[8]->tensor };
	return run_attention(ctx, &r);
}

/* q, k, v, start, mask, dropout, causal, scale, zero points and scales of q, k and v, rows third > out */
static enum et_status run_quantized_sdpa(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *q = args[0]->tensor;
	struct request r = { .q = q,
		.k = args[1]->tensor,
		.v = args[2]->tensor,
		.start = args[3]->i,
		.mask = tensor_or_null(args[4]),
		.is_causal = args[6]->b,
		.is_row_second = !args[14]->b,
		.scale = args[7],
		.qparams = args + 8,
		.out = args[15]->tensor };
	/* for operands that are not quantized, ExecuTorch counts dimension 1 in either layout */
	if (q->n_dims == 4)
		r.n_new = q->sizes[q->type == ET_INT8 && !r.is_row_second ? 2 : 1];
	return run_attention(ctx, &r);
}

/* q, k, v, caches of k and v, start, n, mask, dropout, causal, scale > out */
static enum et_status run_sdpa_with_cache(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_tensor *q = args[0]->tensor;
	struct et_tensor *k = args[3]->tensor, *v = args[4]->tensor;
	int64_t start = args[5]->i, n = args[6]->i;
	ET_REQUIRE(ctx, k->n_dims == 4 && v->n_dims == 4, "caches of rank %u and %u", k->n_dims, v->n_dims);
	for (size_t i = 0; i < 2; i++) {
		int64_t room = args[3 + i]->tensor->sizes[1];
		ET_REQUIRE(ctx, start >= 0 && start < room && n <= room - start,
			"position %lld and %lld more in a cache of %lld", (long long)start, (long long)n,
			(long long)room);
	}
	ET_TRY(write_cache(ctx, args[1]->tensor, k, start, NULL));
	ET_TRY(write_cache(ctx, args[2]->tensor, v, start, NULL));
	struct request r = { .q = q,
		.k = k,
		.v = v,
		.start = start,
		.n_new = q->n_dims > 1 ? q->sizes[1] : 0,
		.mask = tensor_or_null(args[7]),
		.is_causal = args[9]->b,
		.is_row_second = true,
		.scale = args[10],
		.out = args[11]->tensor };
	return run_attention(ctx, &r);
}

static const struct et_kernel rows[] = {
	{ "llama::custom_quantized_sdpa.out", "TTTItDBdttttttB>T", run_quantized_sdpa, .multiplies = true },
	{ "llama::custom_sdpa.out", "TTTItDBd>T", run_sdpa, .multiplies = true },
	{ "llama::sdpa_with_kv_cache.out", "TTT&T&TIItDBd>T", run_sdpa_with_cache, .multiplies = true },
	{ "llama::update_cache.out", "T&TI>T", run_update },
	{ "llama::update_cache_with_indices.out", "T&TIT>T", run_update_indices },
};

ET_KERNEL_TABLE(attention);
