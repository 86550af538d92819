/* SPDX-License-Identifier: BSD-3-Clause */
/* How one elementwise operator runs: promote, broadcast, resize, then compute block by block.
 *
 * A small call (at most one block, tensors with the output's layout) is computed without resizing and walking, because
 * programs of many small operators consist of such calls.
 *
 * A block has at most ET_ELEMENTWISE_BLOCK results. An operand whose memory already fits the span function (same type,
 * unit stride, the block within one inner run) is passed by pointer and costs nothing. A number is written into its
 * block once, before the loop. Everything else is loaded. If inner runs are much shorter than a block, several of them
 * are gathered in one block, so that no span function runs on a few elements.
 *
 * The output may be the same memory as an operand (in-place operators): a block is stored only after it was computed.
 * Any other overlap is forbidden.
 *
 * Operators that look at neighbouring elements do not belong here. Complex numbers go through complex_elementwise.c,
 * one by one. */
#include "runtime/kernels/engine/complex_elementwise.h"
#include "runtime/kernels/engine/elementwise.h"
#include "runtime/kernels/engine/tile.h"

#include <stdatomic.h>

enum {
	GRAIN = 32768,        /* elements of cost 1 that are worth another thread */
	LONG_RUN = 64,        /* elements of a run that is worth a call of its own; shorter runs are gathered */
	LONG_RUN_BYTES = 512, /* bytes of such a run; shorter runs are rows of a tile */
};

/* The span function to call, and the numbers it computes with. */
struct op_spec {
	et_span_fn fn;
	enum et_scalar_type common;
	enum et_compute_class compute_class;
	enum et_scalar_type as; /* the element type with the same bytes as the class */
	bool wraps;    /* the common type is narrower than the stored type, so the result must be wrapped to it */
	bool is_truth; /* the result is 0 or 1 */
	uint8_t cost;  /* as that of struct et_elementwise, not 0 */
};

struct elementwise_job {
	const struct et_compute *compute;
	struct et_walk walk; /* view 0 is the output */
	struct op_spec spec;
	size_t n_operands;
	size_t class_bytes;
	struct {
		const uint8_t *data;
		const void *filled; /* a block filled with one number, or NULL */
		et_load_fn load;
		size_t element_bytes;
		bool is_direct; /* type and inner stride are those of the span */
	} in[ET_SPAN_OPERANDS];
	uint8_t *out;
	et_store_fn store;
	size_t out_bytes;
	bool is_out_direct;
	_Atomic(bool) divided_by_zero;
};

union block {
	float f32[ET_ELEMENTWISE_BLOCK];
	double f64[ET_ELEMENTWISE_BLOCK];
	int64_t i64[ET_ELEMENTWISE_BLOCK];
	uint8_t bytes[ET_ELEMENTWISE_BLOCK * sizeof(int64_t)];
};

/* How many results of a class fit in a block. */
static size_t block_capacity(enum et_compute_class compute_class)
{
	return compute_class < ET_N_CLASSES ? ET_ELEMENTWISE_BLOCK : sizeof(union block) / et_class_size(compute_class);
}

/* Whether results have the same bytes as elements of @type. */
static bool stores_directly(const struct op_spec *spec, enum et_scalar_type type)
{
	return type == spec->as ||
	       (spec->is_truth && type == ET_BOOL && et_class_size(spec->compute_class) == sizeof(uint8_t));
}

/* Store @n results from @span at @place, run by run. */
static void store_block(const struct elementwise_job *job, struct et_place *place, const uint8_t *span, size_t n)
{
	const struct et_walk *walk = &job->walk;
	ptrdiff_t stride = walk->strides[0][walk->n_dims - 1];
	while (n) {
		size_t run = et_place_run(place, walk);
		run = run < n ? run : n;
		job->store(job->out + place->offset[0] * (int64_t)job->out_bytes, stride, span, run);
		et_place_advance(place, walk, run);
		span += run * job->class_bytes;
		n -= run;
	}
}

static void compute(const struct op_spec *spec, struct et_span *span)
{
	spec->fn(span);
	if (spec->wraps) {
		int64_t *out = span->out;
		for (size_t i = 0; i < span->n; i++)
			out[i] = et_wrap(out[i], spec->common);
	}
}

/* A block filled with one repeated element, as when a channel's factor meets its pixels. It need not be filled again as
 * long as the element stays the same. */
struct repeated {
	size_t n;
	int64_t offset;
};

static bool is_held(const struct repeated *held, int64_t offset, size_t n)
{
	return held->n >= n && held->offset == offset;
}

static void run_range(void *arg, size_t begin, size_t end)
{
	struct elementwise_job *job = arg;
	const struct et_walk *walk = &job->walk;
	size_t inner = walk->n_dims - 1, most = block_capacity(job->spec.compute_class);
	union block in[ET_SPAN_OPERANDS], result;
	struct et_pace pace = { job->compute };
	struct et_paced_span paced = { { .common = job->spec.common }, &pace };
	struct et_span *const span = &paced.span;
	struct et_place place, out_place;
	struct repeated held[ET_SPAN_OPERANDS] = { 0 };
	et_place_seek(&place, walk, begin);
	out_place = place;
	while (begin < end) {
		size_t n = end - begin < most ? end - begin : most;
		size_t left = et_place_run(&place, walk);
		if (left < n && left >= LONG_RUN)
			n = left;
		bool is_one_run = left >= n;
		unsigned held_mask = 0; /* operands whose block is still valid */
		span->n = n;
		for (size_t k = 0; k < job->n_operands; k++) {
			span->in[k] = job->in[k].filled ? job->in[k].filled : &in[k];
			if (is_one_run && walk->strides[k + 1][inner] == 0 && is_held(&held[k], place.offset[k + 1], n))
				held_mask |= 1u << k;
			if (is_one_run && job->in[k].is_direct)
				span->in[k] = job->in[k].data + place.offset[k + 1] * (int64_t)job->in[k].element_bytes;
		}
		for (size_t filled = 0; filled < n;) {
			size_t run = et_place_run(&place, walk);
			run = run < n - filled ? run : n - filled;
			for (size_t k = 0; k < job->n_operands; k++) {
				if (span->in[k] != &in[k] || held_mask >> k & 1)
					continue;
				held[k] = (struct repeated){ is_one_run ? n : 0, place.offset[k + 1] };
				job->in[k].load((uint8_t *)&in[k] + filled * job->class_bytes,
					job->in[k].data + place.offset[k + 1] * (int64_t)job->in[k].element_bytes,
					walk->strides[k + 1][inner], run);
			}
			et_place_advance(&place, walk, run);
			filled += run;
		}
		if (is_one_run && job->is_out_direct) {
			span->out = job->out + out_place.offset[0] * (int64_t)job->out_bytes;
			compute(&job->spec, span);
			et_place_advance(&out_place, walk, n);
		} else {
			span->out = &result;
			compute(&job->spec, span);
			store_block(job, &out_place, span->out, n);
		}
		begin += n;
	}
	if (span->divided_by_zero)
		atomic_store_explicit(&job->divided_by_zero, true, memory_order_relaxed);
}

/* How many numbers of a tile fit in a block. */
static size_t tile_capacity(const struct elementwise_job *job)
{
	const size_t n = (sizeof(union block) - ET_TILE_SLACK) / job->class_bytes,
		     most = block_capacity(job->spec.compute_class);
	return n < most ? n : most;
}

/* Whether the two innermost dimensions are computed together as tiles: the runs are short, or an operand has one number
 * for each run. */
static bool has_tiles(const struct elementwise_job *job)
{
	const struct et_walk *walk = &job->walk;
	const size_t n_dims = walk->n_dims, n_columns = (size_t)walk->sizes[n_dims - 1];
	if (n_dims < 2 || n_columns == 0 || 2 * n_columns > tile_capacity(job) ||
		n_columns * (size_t)walk->sizes[n_dims - 2] < LONG_RUN)
		return false;
	bool is_short = n_columns * job->class_bytes < LONG_RUN_BYTES;
	for (size_t k = 0; k < job->n_operands; k++)
		is_short |= !walk->strides[k + 1][n_dims - 1] && walk->strides[k + 1][n_dims - 2];
	return is_short;
}

/* The tile at @place: whole rows, or the rest of one row; at most @most numbers and at most a block. */
static void find_tile(const struct elementwise_job *job, const struct et_place *place, size_t most,
	struct et_tile *ret_tile)
{
	const struct et_walk *walk = &job->walk;
	const size_t inner = walk->n_dims - 1, left = et_place_run(place, walk);
	size_t n_rows = 1;
	if (place->index[inner] == 0 && most >= left) {
		const size_t rows = (size_t)(walk->sizes[inner - 1] - place->index[inner - 1]);
		n_rows = (most < tile_capacity(job) ? most : tile_capacity(job)) / left;
		n_rows = n_rows < rows ? n_rows : rows;
	}
	ret_tile->n_rows = n_rows;
	ret_tile->n_columns = left < most ? left : most;
}

static void set_tile_strides(struct et_tile *tile, const struct et_walk *walk, size_t view)
{
	tile->row = (ptrdiff_t)walk->strides[view][walk->n_dims - 2];
	tile->step = (ptrdiff_t)walk->strides[view][walk->n_dims - 1];
}

static void run_tiles(void *arg, size_t begin, size_t end)
{
	struct elementwise_job *job = arg;
	const struct et_walk *walk = &job->walk;
	const size_t outer = walk->n_dims - 2;
	union block in[ET_SPAN_OPERANDS], result;
	struct et_pace pace = { job->compute };
	struct et_paced_span paced = { { .common = job->spec.common }, &pace };
	struct et_span *const span = &paced.span;
	struct et_tile tile;
	struct et_place place;
	struct repeated held[ET_SPAN_OPERANDS] = { 0 };
	et_place_seek(&place, walk, begin);
	for (; begin < end; begin += span->n) {
		find_tile(job, &place, end - begin, &tile);
		span->n = tile.n_rows * tile.n_columns;
		for (size_t k = 0; k < job->n_operands; k++) {
			const uint8_t *from = job->in[k].data + place.offset[k + 1] * (int64_t)job->in[k].element_bytes;
			set_tile_strides(&tile, walk, k + 1);
			span->in[k] = job->in[k].filled ? job->in[k].filled : &in[k];
			if (job->in[k].is_direct && et_tile_is_run(&tile))
				span->in[k] = from;
			if (span->in[k] != &in[k] || (tile.row == 0 && is_held(&held[k], place.offset[k + 1], span->n)))
				continue;
			held[k] = (struct repeated){ span->n, place.offset[k + 1] };
			et_tile_load(&in[k], from, &tile, job->in[k].load, job->class_bytes, job->in[k].element_bytes);
		}
		uint8_t *to = job->out + place.offset[0] * (int64_t)job->out_bytes;
		set_tile_strides(&tile, walk, 0);
		bool is_direct = job->is_out_direct && et_tile_is_run(&tile);
		span->out = is_direct ? (void *)to : &result;
		compute(&job->spec, span);
		if (!is_direct)
			et_tile_store(to, &result, &tile, job->store, job->class_bytes, job->out_bytes);
		place.index[outer] += (int64_t)tile.n_rows - 1;
		for (size_t v = 0; v < walk->n_views; v++)
			place.offset[v] += ((int64_t)tile.n_rows - 1) * walk->strides[v][outer];
		et_place_advance(&place, walk, tile.n_columns);
	}
	if (span->divided_by_zero)
		atomic_store_explicit(&job->divided_by_zero, true, memory_order_relaxed);
}

/* Whether the whole job is one run that is computed in place, without loading and storing. */
static bool is_one_run(const struct elementwise_job *job)
{
	bool is_one_run = job->walk.n_dims == 1 && job->is_out_direct;
	for (size_t k = 0; k < job->n_operands; k++)
		is_one_run &= job->in[k].filled || job->in[k].is_direct;
	return is_one_run;
}

static void run_contiguous(void *arg, size_t begin, size_t end)
{
	struct elementwise_job *job = arg;
	const size_t most = block_capacity(job->spec.compute_class);
	struct et_pace pace = { job->compute };
	struct et_paced_span paced = { { .common = job->spec.common }, &pace };
	struct et_span *const span = &paced.span;
	for (; begin < end; begin += span->n) {
		span->n = end - begin < most ? end - begin : most;
		for (size_t k = 0; k < job->n_operands; k++)
			span->in[k] = job->in[k].filled ? job->in[k].filled
							: job->in[k].data + begin * job->in[k].element_bytes;
		span->out = job->out + begin * job->out_bytes;
		compute(&job->spec, span);
	}
	if (span->divided_by_zero)
		atomic_store_explicit(&job->divided_by_zero, true, memory_order_relaxed);
}

/* Everything but the operands. The job is not cleared as a whole, which would take longer than a small tensor. */
static void begin_job(struct elementwise_job *job, const struct op_spec *spec, const struct et_view *const *views,
	size_t n_operands)
{
	const struct et_view *out = views[0];
	et_walk_init(&job->walk, views, n_operands + 1);
	job->spec = *spec;
	job->n_operands = n_operands;
	job->class_bytes = et_class_size(spec->compute_class);
	atomic_init(&job->divided_by_zero, false);
	job->out = out->data;
	job->out_bytes = et_scalar_size(out->type);
	job->store = et_storer(out->type, job->spec.compute_class);
	job->is_out_direct = stores_directly(spec, out->type) && job->walk.strides[0][job->walk.n_dims - 1] == 1;
}

static void set_in(struct elementwise_job *job, size_t k, const struct et_view *in)
{
	job->in[k].data = in->data;
	job->in[k].filled = NULL;
	job->in[k].element_bytes = et_scalar_size(in->type);
	job->in[k].load = et_loader(in->type, job->spec.compute_class);
	job->in[k].is_direct = et_class_is_type(job->spec.compute_class, in->type) &&
			       job->walk.strides[k + 1][job->walk.n_dims - 1] == 1;
}

static bool is_number(const struct et_evalue *value)
{
	return value->tag == ET_TAG_INT || value->tag == ET_TAG_DOUBLE || value->tag == ET_TAG_BOOL;
}

static enum et_scalar_type number_type(const struct et_evalue *value)
{
	return value->tag == ET_TAG_DOUBLE ? ET_FLOAT32 : value->tag == ET_TAG_BOOL ? ET_BOOL : ET_INT64;
}

/* Tensors decide the type; numbers only raise its category. */
static enum et_scalar_type common_type(const struct et_elementwise *op, const struct et_evalue *const *operands,
	size_t n_operands)
{
	enum et_scalar_type common = ET_BOOL;
	bool has_tensor = false;
	for (size_t k = 0; k < n_operands; k++) {
		if ((op->promotes && !(op->promotes >> k & 1)) || operands[k]->tag != ET_TAG_TENSOR)
			continue;
		enum et_scalar_type type = operands[k]->tensor->type;
		common = !has_tensor || type == common ? type : et_promote(common, type);
		has_tensor = true;
	}
	for (size_t k = 0; k < n_operands; k++) {
		if ((op->promotes && !(op->promotes >> k & 1)) || !is_number(operands[k]))
			continue;
		common = has_tensor ? et_promote_number(common, operands[k]->tag)
				    : et_promote(common, number_type(operands[k]));
	}
	return common;
}

/* The sizes that all tensors broadcast to. */
static enum et_status broadcast_sizes(struct et_kernel_ctx *ctx, const struct et_evalue *const *operands,
	size_t n_operands, int64_t *ret_sizes, size_t *ret_n_dims)
{
	size_t n_dims = 0;
	for (size_t k = 0; k < n_operands; k++) {
		if (operands[k]->tag == ET_TAG_TENSOR && operands[k]->tensor->n_dims > n_dims)
			n_dims = operands[k]->tensor->n_dims;
	}
	for (size_t d = 0; d < n_dims; d++) {
		int64_t size = 1;
		for (size_t k = 0; k < n_operands; k++) {
			const struct et_tensor *tensor = operands[k]->tensor;
			if (operands[k]->tag != ET_TAG_TENSOR || d + tensor->n_dims < n_dims)
				continue;
			int64_t own_size = tensor->sizes[d + tensor->n_dims - n_dims];
			ET_REQUIRE(ctx, own_size == size || own_size == 1 || size == 1,
				"sizes %lld and %lld in dimension %zu do not broadcast", (long long)size,
				(long long)own_size, d);
			size = own_size == 1 ? size : own_size;
		}
		ret_sizes[d] = size;
	}
	*ret_n_dims = n_dims;
	return ET_OK;
}

/* Fill a block with a number, converted to the compute class, @n times: the most that one call of the span function
 * reads. */
static void fill_block(union block *block, const struct op_spec *spec, const struct et_evalue *number, size_t n)
{
	uint64_t element;
	if (spec->compute_class == ET_F32) {
		float value = (float)et_number_double(number);
		for (size_t i = 0; i < n; i++)
			block->f32[i] = value;
		return;
	}
	if (spec->compute_class == ET_F64)
		et_element_set_double(&element, spec->as, et_number_double(number));
	else
		et_element_set_int(&element, spec->as, et_wrap(et_number_int(number), spec->common));
	et_loader(spec->as, spec->compute_class)(block, &element, 0, n);
}

/* The narrow class, if all operands and the result have one narrow integer type (or the result is bool), so that
 * nothing needs widening. Otherwise ET_I64. */
static enum et_compute_class narrow_class(const struct et_elementwise *op, enum et_scalar_type common,
	const struct et_evalue *const *operands, size_t n_operands, const struct et_tensor *out)
{
	enum et_compute_class narrow = et_narrow_class_of(common);
	enum et_scalar_type result = op->result == ET_ELEMENTWISE_BOOL ? ET_BOOL : common;
	if (narrow == ET_N_SPANS || !op->fns[narrow] || out->type != result)
		return ET_I64;
	for (size_t k = 0; k < n_operands; k++) {
		if (operands[k]->tag == ET_TAG_TENSOR && operands[k]->tensor->type != common &&
			!et_loader(operands[k]->tensor->type, narrow))
			return ET_I64;
	}
	return narrow;
}

/* For a complex common type. */
static enum et_status apply_complex(struct et_kernel_ctx *ctx, const struct et_elementwise *op,
	const struct et_evalue *const *operands, size_t n_operands, struct et_tensor *out)
{
	struct et_view views[ET_SPAN_OPERANDS + 1];
	const struct et_view *view_list[ET_SPAN_OPERANDS + 1] = { &views[0] };
	double numbers[ET_SPAN_OPERANDS] = { 0 };
	int64_t sizes[ET_MAX_DIMS];
	size_t n_dims;
	ET_REQUIRE(ctx, op->on_complex, "does not take complex numbers");
	ET_REQUIRE(ctx, op->result_is_real ? et_type_is_float(out->type) : et_type_is_complex(out->type),
		"a result does not fit an output of %s", et_scalar_name(out->type));
	ET_TRY(broadcast_sizes(ctx, operands, n_operands, sizes, &n_dims));
	ET_TRY(et_resize(ctx, out, sizes, n_dims));
	et_view_of(&views[0], out);
	for (size_t k = 0; k < n_operands; k++) {
		view_list[k + 1] = NULL;
		if (operands[k]->tag != ET_TAG_TENSOR) {
			numbers[k] = et_number_double(operands[k]);
			continue;
		}
		et_view_of(&views[k + 1], operands[k]->tensor);
		ET_REQUIRE(ctx, et_loader(et_real_type(views[k + 1].type), ET_F64), "does not take %s",
			et_scalar_name(views[k + 1].type));
		et_view_broadcast(&views[k + 1], sizes, n_dims);
		view_list[k + 1] = &views[k + 1];
	}
	et_complex_apply(ctx->compute, op->on_complex, view_list, numbers, n_operands + 1);
	return ET_OK;
}

/* Whether @tensor has the sizes and strides of @out, apart from missing leading dimensions of size 1: elements then
 * correspond by their offset. */
static bool has_layout_of(const struct et_tensor *tensor, const struct et_tensor *out)
{
	size_t lacks = (size_t)out->n_dims - tensor->n_dims;
	if (tensor->n_dims > out->n_dims)
		return false;
	for (size_t d = 0; d < out->n_dims; d++) {
		int32_t size = out->sizes[d];
		if (d < lacks ? size != 1
			      : tensor->sizes[d - lacks] != size ||
					(size != 1 && tensor->strides[d - lacks] != out->strides[d]))
			return false;
	}
	return true;
}

/* The class that computes elements of a type without conversion, or ET_N_SPANS. */
static enum et_compute_class native_class(enum et_scalar_type type)
{
	static const uint8_t classes[] = { [ET_FLOAT32] = 1 + ET_F32,
		[ET_FLOAT64] = 1 + ET_F64,
		[ET_INT64] = 1 + ET_I64,
		[ET_INT32] = 1 + ET_I32,
		[ET_INT16] = 1 + ET_I16,
		[ET_INT8] = 1 + ET_I8,
		[ET_UINT8] = 1 + ET_U8,
		[ET_BOOL] = 1 + ET_B8 };
	return (size_t)type < ET_ARRAY_LEN(classes) && classes[type] ? classes[type] - 1 : ET_N_SPANS;
}

enum { FEW = 128 /* results for which a number is simply written out */, FEWER = 8 };
union small_block {
	uint8_t bytes[FEW * sizeof(int64_t)];
	uint64_t aligned;
};

/* Fill @to with @n times a number, or the only element of a tensor, as elements of @type. False: this operand is
 * something else. */
static bool fill_few(union small_block *to, const struct et_evalue *number, enum et_scalar_type type, size_t n)
{
	const bool is_tensor = number->tag == ET_TAG_TENSOR;
	uint64_t element;
	const void *one = is_tensor ? number->tensor->data : &element;
	if (n > FEW || (is_tensor && et_tensor_numel(number->tensor) != 1))
		return false;
	if (!is_tensor && type == ET_FLOAT32)
		memcpy(&element, &(float){ (float)et_number_double(number) }, sizeof(float));
	else if (!is_tensor && type == ET_FLOAT64)
		memcpy(&element, &(double){ et_number_double(number) }, sizeof(double));
	else if (!is_tensor && (number->tag != ET_TAG_INT || type == ET_BOOL))
		return false;
	else if (!is_tensor && type == ET_INT64)
		memcpy(&element, &number->i, sizeof(number->i));
	else if (!is_tensor)
		et_element_set_int(&element, type, et_wrap(number->i, type));
	const size_t size = et_scalar_size(type);
	for (size_t i = 0; n <= FEWER && size == sizeof(element) && i < n; i++)
		memcpy(to->bytes + i * sizeof(element), one, sizeof(element));
	if (n > FEWER || size != sizeof(element))
		et_fill_elements(to->bytes, one, n, size);
	return true;
}

/* The most frequent case in programs of small operators: all tensors have the output's type and layout, this type needs
 * no conversion, and the other operands are numbers or single elements. The program of 1,000 tiny operators
 * (tests/bench/make_tiny.c) takes 1.16 times as long without this function, that of int64 1.19 times. */
static bool apply_same_layout(const struct et_elementwise *op, struct et_pace *pace,
	const struct et_evalue *const *operands, size_t n_operands, struct et_tensor *out, bool *ret_divided_by_zero)
{
	const enum et_compute_class compute_class = native_class(out->type);
	struct et_paced_span paced = { { .common = out->type, .out = out->data, .n = et_tensor_numel(out) }, pace };
	struct et_span *const span = &paced.span;
	union small_block numbers[ET_SPAN_OPERANDS];
	if (compute_class == ET_N_SPANS || !op->fns[compute_class] || (op->promotes && !(op->promotes & 1)) ||
		!(op->result == ET_ELEMENTWISE_SAME ||
			(op->result == ET_ELEMENTWISE_FLOAT && (compute_class == ET_F32 || compute_class == ET_F64))) ||
		!span->n || span->n > ET_ELEMENTWISE_BLOCK || operands[0]->tag != ET_TAG_TENSOR ||
		operands[0]->tensor->n_dims != out->n_dims)
		return false;
	for (size_t k = 0; k < n_operands; k++) {
		if (operands[k]->tag == ET_TAG_TENSOR && operands[k]->tensor->type != out->type)
			return false;
	}
	for (size_t k = 0; k < n_operands; k++) {
		const struct et_tensor *tensor = operands[k]->tag == ET_TAG_TENSOR ? operands[k]->tensor : NULL;
		if (tensor && has_layout_of(tensor, out)) {
			span->in[k] = tensor->data;
			continue;
		}
		if (k == 0 || (tensor && tensor->n_dims > out->n_dims) ||
			!fill_few(&numbers[k], operands[k], out->type, span->n))
			return false;
		span->in[k] = &numbers[k];
	}
	op->fns[compute_class](span);
	*ret_divided_by_zero = span->divided_by_zero;
	return true;
}

/* How a tensor's elements fill a block in the output's row-major order: dimensions, innermost first; adjacent ones are
 * joined. A stride of 0 repeats. */
struct broadcast {
	size_t n_dims;
	struct {
		size_t size;
		ptrdiff_t stride;
	} dims[ET_MAX_DIMS];
};

/* False: @tensor does not broadcast to @out. @covered: the dimensions in which @tensor has the size of @out. */
static bool find_broadcast(struct broadcast *broadcast, const struct et_tensor *tensor, const struct et_tensor *out,
	uint32_t *covered)
{
	size_t lacks = (size_t)out->n_dims - tensor->n_dims, n = 0;
	if (tensor->n_dims > out->n_dims)
		return false;
	for (size_t d = out->n_dims; d-- > 0;) {
		int32_t size = out->sizes[d], own_size = d < lacks ? 1 : tensor->sizes[d - lacks];
		ptrdiff_t stride = own_size == 1 ? 0 : tensor->strides[d - lacks];
		if (own_size != size && own_size != 1)
			return false;
		*covered |= (uint32_t)(own_size == size) << d;
		if (size == 1)
			continue;
		if (n && stride == broadcast->dims[n - 1].stride * (ptrdiff_t)broadcast->dims[n - 1].size) {
			broadcast->dims[n - 1].size *= (size_t)size;
			continue;
		}
		broadcast->dims[n].size = (size_t)size;
		broadcast->dims[n++].stride = stride;
	}
	if (n == 0) {
		broadcast->dims[n].size = 1;
		broadcast->dims[n++].stride = 1;
	}
	broadcast->n_dims = n;
	return true;
}

/* Load the dimensions 0 to @d; returns the end of what was written. */
static uint8_t *load_broadcast(uint8_t *to, const uint8_t *from, const struct broadcast *broadcast, size_t d,
	et_load_fn load, size_t class_bytes, size_t element_bytes)
{
	size_t size = broadcast->dims[d].size;
	ptrdiff_t stride = broadcast->dims[d].stride;
	if (d == 0) {
		load(to, from, stride, size);
		return to + size * class_bytes;
	}
	uint8_t *end = load_broadcast(to, from, broadcast, d - 1, load, class_bytes, element_bytes);
	if (stride == 0) { /* repeat what was just loaded */
		size_t done = (size_t)(end - to), all = done * size;
		for (size_t part; done < all; done += part) {
			part = done < all - done ? done : all - done;
			memcpy(to + done, to, part);
		}
		return to + all;
	}
	for (size_t i = 1; i < size; i++) {
		from += stride * (ptrdiff_t)element_bytes;
		end = load_broadcast(end, from, broadcast, d - 1, load, class_bytes, element_bytes);
	}
	return end;
}

/* A call of at most one block, whose tensors have the output's layout or broadcast to it: no resizing, no walking.
 * Positions and masks of a decoder are such calls: tests/models/small/shared_caches.bpte takes 1.07 times as long
 * without this function, two_methods_cond.bpte 1.08 times. False: the call is not of this kind. */
static bool apply_small(const struct op_spec *spec, struct et_pace *pace, const struct et_evalue *const *operands,
	size_t n_operands, struct et_tensor *out, bool *ret_divided_by_zero)
{
	struct et_paced_span paced = { { .common = spec->common, .n = et_tensor_numel(out) }, pace };
	struct et_span *const span = &paced.span;
	union block in[ET_SPAN_OPERANDS], result;
	et_load_fn loads[ET_SPAN_OPERANDS];
	struct broadcast broadcasts[ET_SPAN_OPERANDS];
	uint32_t covered = 0, all = (1u << out->n_dims) - 1;
	size_t rank = 0;
	bool is_direct = stores_directly(spec, out->type);
	et_store_fn store = is_direct ? NULL : et_storer(out->type, spec->compute_class);
	if (span->n > ET_ELEMENTWISE_BLOCK || (!is_direct && !store))
		return false;
	for (size_t k = 0; k < n_operands; k++) {
		const struct et_tensor *tensor = operands[k]->tensor;
		if (operands[k]->tag != ET_TAG_TENSOR)
			continue;
		rank = tensor->n_dims > rank ? tensor->n_dims : rank;
		if (has_layout_of(tensor, out)) {
			covered = all;
			broadcasts[k].n_dims = 1;
			broadcasts[k].dims[0].size = span->n;
			broadcasts[k].dims[0].stride = 1;
			span->in[k] = tensor->type == spec->as ? tensor->data : NULL;
		} else if (!et_dim_order_is_contiguous(out->dim_order, out->n_dims) ||
			   !find_broadcast(&broadcasts[k], tensor, out, &covered)) {
			return false;
		} else {
			span->in[k] = NULL;
		}
		loads[k] = span->in[k] ? NULL : et_loader(tensor->type, spec->compute_class);
		if (!span->in[k] && !loads[k])
			return false;
	}
	if (rank != out->n_dims || covered != all)
		return false; /* the output has other sizes, or it is too hard to tell here */
	*ret_divided_by_zero = false;
	for (size_t k = 0; span->n && k < n_operands; k++) {
		const struct et_tensor *tensor = operands[k]->tensor;
		if (operands[k]->tag == ET_TAG_TENSOR && span->in[k])
			continue;
		span->in[k] = &in[k];
		if (operands[k]->tag == ET_TAG_TENSOR)
			load_broadcast(in[k].bytes, tensor->data, &broadcasts[k], broadcasts[k].n_dims - 1, loads[k],
				et_class_size(spec->compute_class), et_scalar_size(tensor->type));
		else
			fill_block(&in[k], spec, operands[k], span->n);
	}
	if (!span->n)
		return true;
	span->out = is_direct ? out->data : &result;
	compute(spec, span);
	if (!is_direct)
		store(out->data, 1, &result, span->n);
	*ret_divided_by_zero = span->divided_by_zero;
	return true;
}

/* Not inlined, so that a small call does not reserve stack for all these blocks. */
static __attribute__((noinline)) enum et_status apply_general(struct et_kernel_ctx *ctx, const struct op_spec *spec,
	const struct et_evalue *const *operands, size_t n_operands, struct et_tensor *out)
{
	struct et_view views[ET_SPAN_OPERANDS + 1];
	const struct et_view *view_list[ET_SPAN_OPERANDS + 1];
	union block filled[ET_SPAN_OPERANDS];
	struct elementwise_job job;
	int64_t sizes[ET_MAX_DIMS];
	size_t n_dims;

	ET_TRY(broadcast_sizes(ctx, operands, n_operands, sizes, &n_dims));
	ET_TRY(et_resize(ctx, out, sizes, n_dims));
	size_t numel = et_tensor_numel(out);
	ET_REQUIRE(ctx, et_storer(out->type, spec->compute_class), "cannot store %s", et_scalar_name(out->type));
	for (size_t k = 0; k <= n_operands; k++)
		view_list[k] = &views[k];
	et_view_of(&views[0], out);
	for (size_t k = 0; k < n_operands; k++) {
		struct et_view *view = &views[k + 1];
		if (operands[k]->tag == ET_TAG_TENSOR) {
			et_view_of(view, operands[k]->tensor);
			ET_REQUIRE(ctx, et_loader(view->type, spec->compute_class), "does not take %s",
				et_scalar_name(view->type));
		} else {
			et_view_begin(view, &filled[k], spec->common);
			fill_block(&filled[k], spec, operands[k],
				numel < block_capacity(spec->compute_class) ? numel
									    : block_capacity(spec->compute_class));
		}
		et_view_broadcast(view, sizes, n_dims);
	}
	begin_job(&job, spec, view_list, n_operands);
	job.compute = ctx->compute;
	for (size_t k = 0; k < n_operands; k++) {
		set_in(&job, k, &views[k + 1]);
		if (operands[k]->tag != ET_TAG_TENSOR)
			job.in[k].filled = &filled[k];
	}
	et_parallel_for(ctx->compute,
		is_one_run(&job)  ? run_contiguous
		: has_tiles(&job) ? run_tiles
				  : run_range,
		&job, job.walk.numel, GRAIN / spec->cost);
	ET_REQUIRE(ctx, !job.divided_by_zero, "division of an integer by zero");
	return ET_OK;
}

enum et_status et_elementwise_apply(struct et_kernel_ctx *ctx, const struct et_elementwise *op,
	const struct et_evalue *const *operands, size_t n_operands, struct et_tensor *out)
{
	struct op_spec spec;
	struct et_pace pace = { ctx->compute };
	bool divided_by_zero;
	if (apply_same_layout(op, &pace, operands, n_operands, out, &divided_by_zero)) {
		ET_REQUIRE(ctx, !divided_by_zero, "division of an integer by zero");
		return ET_OK;
	}
	spec.common = common_type(op, operands, n_operands);
	if (et_type_is_complex(spec.common))
		return apply_complex(ctx, op, operands, n_operands, out);
	if (op->result == ET_ELEMENTWISE_FLOAT && !et_type_is_float(spec.common))
		spec.common = ET_FLOAT32;
	if (op->promotes_to_output && et_type_is_float(out->type))
		spec.common = et_promote(spec.common, out->type);
	if ((op->result == ET_ELEMENTWISE_SAME || op->result == ET_ELEMENTWISE_FLOAT) && spec.common != out->type)
		ET_REQUIRE(ctx, et_can_cast(spec.common, out->type), "a result of %s does not fit an output of %s",
			et_scalar_name(spec.common), et_scalar_name(out->type));
	spec.compute_class = et_class_of(spec.common);
	if (spec.compute_class == ET_I64)
		spec.compute_class = narrow_class(op, spec.common, operands, n_operands, out);
	spec.fn = op->fns[spec.compute_class];
	spec.as = spec.compute_class == ET_F32   ? ET_FLOAT32
		  : spec.compute_class == ET_F64 ? ET_FLOAT64
		  : spec.compute_class == ET_I64 ? ET_INT64
						 : spec.common;
	ET_REQUIRE(ctx, spec.fn && (spec.as == spec.common || et_loader(spec.common, spec.compute_class)),
		"does not take %s", et_scalar_name(spec.common));
	spec.wraps = op->result == ET_ELEMENTWISE_SAME && spec.compute_class == ET_I64 && out->type != spec.common;
	spec.is_truth = op->result == ET_ELEMENTWISE_BOOL;
	spec.cost = spec.compute_class == ET_F64 ? ET_DOUBLE_COST : 1;
	if (op->cost && spec.compute_class < ET_I64)
		spec.cost = op->cost;
	if (!apply_small(&spec, &pace, operands, n_operands, out, &divided_by_zero))
		return apply_general(ctx, &spec, operands, n_operands, out);
	ET_REQUIRE(ctx, !divided_by_zero, "division of an integer by zero");
	return ET_OK;
}

enum et_status et_elementwise_run(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	const struct et_evalue *operands[ET_SPAN_OPERANDS];
	size_t n_operands = 0, n_args = 0;
	for (const char *letter = ctx->kernel->signature; *letter; letter++) {
		if (*letter == '>')
			return et_elementwise_apply(ctx, ctx->kernel->row, operands, n_operands, args[n_args]->tensor);
		if (n_operands < ET_SPAN_OPERANDS)
			operands[n_operands++] = args[n_args];
		n_args++;
	}
	return et_refuse(ctx, "no output in its signature");
}
