/* SPDX-License-Identifier: BSD-3-Clause */
/* Running one elementwise operator: promote, broadcast, resize, then block by block.
 *
 * A call of no more than a block, whose tensors lie as the result does, is computed where they lie, without resizing or
 * walking: programs of many small operators are made of these.
 *
 * A block is at most ET_ELEMENTWISE_BLOCK results. An operand whose memory already is what the span function
 * wants (right type, unit stride, the block within one inner run) is passed by pointer and costs nothing;
 * a number was written into its block once, before the loop; everything else is loaded. Where inner runs
 * are much shorter than a block, several are gathered into one, so that a span function never runs on crumbs.
 *
 * The output may be the same memory as an operand (in-place operators): a block is stored only after it
 * was computed. It must not overlap in any other way.
 *
 * Not here: operators that look at neighbours. Complex numbers go through complex_elementwise.c, one by one. */
#include "runtime/kernels/engine/complex_elementwise.h"
#include "runtime/kernels/engine/elementwise.h"
#include "runtime/kernels/engine/tile.h"

#include <stdatomic.h>

enum {
	GRAIN = 32768,        /* elements worth another thread */
	LONG_RUN = 64,        /* elements worth a call of their own, rather than to be gathered with others */
	LONG_RUN_BYTES = 512, /* of a run that is, rather than to be one of a sheet's rows */
};

/* What is computed, and in which numbers. */
struct way {
	et_span_fn fn;
	enum et_scalar_type common;
	enum et_compute_class compute_class;
	enum et_scalar_type as; /* what the class's numbers are in memory */
	bool wraps;             /* the result is narrower in the common type than where it is stored */
	bool is_truth;          /* the result is 0 or 1 */
};

struct elementwise_job {
	struct et_walk walk; /* view 0 is the output */
	struct way way;
	size_t n_operands;
	size_t class_bytes;
	struct {
		const uint8_t *data;
		const void *filled; /* a block of one number, or NULL */
		et_load_fn load;
		size_t element_bytes;
		bool is_direct; /* type and inner stride are the span's own */
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

/* How many results of a class a block has room for. */
static size_t block_of(enum et_compute_class compute_class)
{
	return compute_class < ET_N_CLASSES ? ET_ELEMENTWISE_BLOCK : sizeof(union block) / et_class_size(compute_class);
}

/* Whether results of @way are what a tensor of @type has. */
static bool gives(const struct way *way, enum et_scalar_type type)
{
	return type == way->as ||
	       (way->is_truth && type == ET_BOOL && et_class_size(way->compute_class) == sizeof(uint8_t));
}

/* Copy @n results from @span to where @place stands, run by run. */
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

static void compute(const struct way *way, struct et_span *span)
{
	way->fn(span);
	if (way->wraps) {
		int64_t *out = span->out;
		for (size_t i = 0; i < span->n; i++)
			out[i] = et_wrap(out[i], way->common);
	}
}

/* A block that is one element of an operand repeated, as where a channel's factor meets its pixels: it need not be
 * filled again while that element stays. */
struct repeated {
	size_t n;
	int64_t offset;
};

static bool holds(const struct repeated *held, int64_t offset, size_t n)
{
	return held->n >= n && held->offset == offset;
}

static void map_range(void *arg, size_t begin, size_t end)
{
	struct elementwise_job *job = arg;
	const struct et_walk *walk = &job->walk;
	size_t inner = walk->n_dims - 1, most = block_of(job->way.compute_class);
	union block in[ET_SPAN_OPERANDS], result;
	struct et_span span = { .common = job->way.common };
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
		unsigned held_mask = 0; /* operands whose block is still right */
		span.n = n;
		for (size_t k = 0; k < job->n_operands; k++) {
			span.in[k] = job->in[k].filled ? job->in[k].filled : &in[k];
			if (is_one_run && walk->strides[k + 1][inner] == 0 && holds(&held[k], place.offset[k + 1], n))
				held_mask |= 1u << k;
			if (is_one_run && job->in[k].is_direct)
				span.in[k] = job->in[k].data + place.offset[k + 1] * (int64_t)job->in[k].element_bytes;
		}
		for (size_t filled = 0; filled < n;) {
			size_t run = et_place_run(&place, walk);
			run = run < n - filled ? run : n - filled;
			for (size_t k = 0; k < job->n_operands; k++) {
				if (span.in[k] != &in[k] || held_mask >> k & 1)
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
			span.out = job->out + out_place.offset[0] * (int64_t)job->out_bytes;
			compute(&job->way, &span);
			et_place_advance(&out_place, walk, n);
		} else {
			span.out = &result;
			compute(&job->way, &span);
			store_block(job, &out_place, span.out, n);
		}
		begin += n;
	}
	if (span.divided_by_zero)
		atomic_store_explicit(&job->divided_by_zero, true, memory_order_relaxed);
}

/* How many numbers of a sheet a block has room for. */
static size_t tile_of(const struct elementwise_job *job)
{
	const size_t n = (sizeof(union block) - ET_TILE_SLACK) / job->class_bytes,
		     most = block_of(job->way.compute_class);
	return n < most ? n : most;
}

/* Whether the two innermost dimensions are taken together: runs are short, or an operand has one number for each. */
static bool has_tiles(const struct elementwise_job *job)
{
	const struct et_walk *walk = &job->walk;
	const size_t n_dims = walk->n_dims, n_columns = (size_t)walk->sizes[n_dims - 1];
	if (n_dims < 2 || n_columns == 0 || 2 * n_columns > tile_of(job) ||
		n_columns * (size_t)walk->sizes[n_dims - 2] < LONG_RUN)
		return false;
	bool is_short = n_columns * job->class_bytes < LONG_RUN_BYTES;
	for (size_t k = 0; k < job->n_operands; k++)
		is_short |= !walk->strides[k + 1][n_dims - 1] && walk->strides[k + 1][n_dims - 2];
	return is_short;
}

/* The rows from @place on, or what is left of one, of @most numbers and of no more than a block. */
static void find_tile(const struct elementwise_job *job, const struct et_place *place, size_t most,
	struct et_tile *ret_tile)
{
	const struct et_walk *walk = &job->walk;
	const size_t inner = walk->n_dims - 1, left = et_place_run(place, walk);
	size_t n_rows = 1;
	if (place->index[inner] == 0 && most >= left) {
		const size_t rows = (size_t)(walk->sizes[inner - 1] - place->index[inner - 1]);
		n_rows = (most < tile_of(job) ? most : tile_of(job)) / left;
		n_rows = n_rows < rows ? n_rows : rows;
	}
	ret_tile->n_rows = n_rows;
	ret_tile->n_columns = left < most ? left : most;
}

static void lay_tile(struct et_tile *tile, const struct et_walk *walk, size_t view)
{
	tile->row = (ptrdiff_t)walk->strides[view][walk->n_dims - 2];
	tile->step = (ptrdiff_t)walk->strides[view][walk->n_dims - 1];
}

static void map_tiles(void *arg, size_t begin, size_t end)
{
	struct elementwise_job *job = arg;
	const struct et_walk *walk = &job->walk;
	const size_t outer = walk->n_dims - 2;
	union block in[ET_SPAN_OPERANDS], result;
	struct et_span span = { .common = job->way.common };
	struct et_tile tile;
	struct et_place place;
	struct repeated held[ET_SPAN_OPERANDS] = { 0 };
	et_place_seek(&place, walk, begin);
	for (; begin < end; begin += span.n) {
		find_tile(job, &place, end - begin, &tile);
		span.n = tile.n_rows * tile.n_columns;
		for (size_t k = 0; k < job->n_operands; k++) {
			const uint8_t *from = job->in[k].data + place.offset[k + 1] * (int64_t)job->in[k].element_bytes;
			lay_tile(&tile, walk, k + 1);
			span.in[k] = job->in[k].filled ? job->in[k].filled : &in[k];
			if (job->in[k].is_direct && et_tile_is_run(&tile))
				span.in[k] = from;
			if (span.in[k] != &in[k] || (tile.row == 0 && holds(&held[k], place.offset[k + 1], span.n)))
				continue;
			held[k] = (struct repeated){ span.n, place.offset[k + 1] };
			et_tile_load(&in[k], from, &tile, job->in[k].load, job->class_bytes, job->in[k].element_bytes);
		}
		uint8_t *to = job->out + place.offset[0] * (int64_t)job->out_bytes;
		lay_tile(&tile, walk, 0);
		bool is_direct = job->is_out_direct && et_tile_is_run(&tile);
		span.out = is_direct ? (void *)to : &result;
		compute(&job->way, &span);
		if (!is_direct)
			et_tile_store(to, &result, &tile, job->store, job->class_bytes, job->out_bytes);
		place.index[outer] += (int64_t)tile.n_rows - 1;
		for (size_t v = 0; v < walk->n_views; v++)
			place.offset[v] += ((int64_t)tile.n_rows - 1) * walk->strides[v][outer];
		et_place_advance(&place, walk, tile.n_columns);
	}
	if (span.divided_by_zero)
		atomic_store_explicit(&job->divided_by_zero, true, memory_order_relaxed);
}

/* Where all of it is one run, and is computed where it lies. */
static bool is_line(const struct elementwise_job *job)
{
	bool is_line = job->walk.n_dims == 1 && job->is_out_direct;
	for (size_t k = 0; k < job->n_operands; k++)
		is_line &= job->in[k].filled || job->in[k].is_direct;
	return is_line;
}

static void map_line(void *arg, size_t begin, size_t end)
{
	struct elementwise_job *job = arg;
	const size_t most = block_of(job->way.compute_class);
	struct et_span span = { .common = job->way.common };
	for (; begin < end; begin += span.n) {
		span.n = end - begin < most ? end - begin : most;
		for (size_t k = 0; k < job->n_operands; k++)
			span.in[k] = job->in[k].filled ? job->in[k].filled
						       : job->in[k].data + begin * job->in[k].element_bytes;
		span.out = job->out + begin * job->out_bytes;
		compute(&job->way, &span);
	}
	if (span.divided_by_zero)
		atomic_store_explicit(&job->divided_by_zero, true, memory_order_relaxed);
}

/* Its operands come after. Not all of this large thing is set to 0, which would take longer than a small tensor. */
static void begin_job(struct elementwise_job *job, const struct way *way, const struct et_view *const *views,
	size_t n_operands)
{
	const struct et_view *out = views[0];
	et_walk_init(&job->walk, views, n_operands + 1);
	job->way = *way;
	job->n_operands = n_operands;
	job->class_bytes = et_class_size(way->compute_class);
	atomic_init(&job->divided_by_zero, false);
	job->out = out->data;
	job->out_bytes = et_scalar_size(out->type);
	job->store = et_storer(out->type, job->way.compute_class);
	job->is_out_direct = gives(way, out->type) && job->walk.strides[0][job->walk.n_dims - 1] == 1;
}

static void set_in(struct elementwise_job *job, size_t k, const struct et_view *in)
{
	job->in[k].data = in->data;
	job->in[k].filled = NULL;
	job->in[k].element_bytes = et_scalar_size(in->type);
	job->in[k].load = et_loader(in->type, job->way.compute_class);
	job->in[k].is_direct = et_class_is_type(job->way.compute_class, in->type) &&
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

/* Tensors decide first, numbers only lift their category. */
static enum et_scalar_type common_type(const struct et_elementwise *map, const struct et_evalue *const *operands,
	size_t n_operands)
{
	enum et_scalar_type common = ET_BOOL;
	bool has_tensor = false;
	for (size_t k = 0; k < n_operands; k++) {
		if ((map->promotes && !(map->promotes >> k & 1)) || operands[k]->tag != ET_TAG_TENSOR)
			continue;
		enum et_scalar_type type = operands[k]->tensor->type;
		common = !has_tensor || type == common ? type : et_promote(common, type);
		has_tensor = true;
	}
	for (size_t k = 0; k < n_operands; k++) {
		if ((map->promotes && !(map->promotes >> k & 1)) || !is_number(operands[k]))
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
			int64_t its = tensor->sizes[d + tensor->n_dims - n_dims];
			ET_REQUIRE(ctx, its == size || its == 1 || size == 1,
				"sizes %lld and %lld in dimension %zu do not broadcast", (long long)size,
				(long long)its, d);
			size = its == 1 ? size : its;
		}
		ret_sizes[d] = size;
	}
	*ret_n_dims = n_dims;
	return ET_OK;
}

/* A number as the way's class has it, @n times: the most that one call of the span function sees. */
static void fill_block(union block *block, const struct way *way, const struct et_evalue *number, size_t n)
{
	uint64_t element;
	if (way->compute_class == ET_F32) {
		float value = (float)et_number_double(number);
		for (size_t i = 0; i < n; i++)
			block->f32[i] = value;
		return;
	}
	if (way->compute_class == ET_F64)
		et_element_set_double(&element, way->as, et_number_double(number));
	else
		et_element_set_int(&element, way->as, et_wrap(et_number_int(number), way->common));
	et_loader(way->as, way->compute_class)(block, &element, 0, n);
}

/* Where all that takes part is of one type of narrow integers, and the result is of that type or a truth: no need to
 * widen them. */
static enum et_compute_class narrowed(const struct et_elementwise *map, enum et_scalar_type common,
	const struct et_evalue *const *operands, size_t n_operands, const struct et_tensor *out)
{
	enum et_compute_class narrow = et_narrow_class_of(common);
	enum et_scalar_type result = map->result == ET_ELEMENTWISE_BOOL ? ET_BOOL : common;
	if (narrow == ET_N_SPANS || !map->fns[narrow] || out->type != result)
		return ET_I64;
	for (size_t k = 0; k < n_operands; k++) {
		if (operands[k]->tag == ET_TAG_TENSOR && operands[k]->tensor->type != common &&
			!et_loader(operands[k]->tensor->type, narrow))
			return ET_I64;
	}
	return narrow;
}

/* Where the common type is complex. */
static enum et_status apply_complex(struct et_kernel_ctx *ctx, const struct et_elementwise *map,
	const struct et_evalue *const *operands, size_t n_operands, struct et_tensor *out)
{
	struct et_view views[ET_SPAN_OPERANDS + 1];
	const struct et_view *view_list[ET_SPAN_OPERANDS + 1] = { &views[0] };
	double numbers[ET_SPAN_OPERANDS] = { 0 };
	int64_t sizes[ET_MAX_DIMS];
	size_t n_dims;
	ET_REQUIRE(ctx, map->on_complex, "does not take complex numbers");
	ET_REQUIRE(ctx, map->is_then_real ? et_type_is_float(out->type) : et_type_is_complex(out->type),
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
	et_complex_map(map->on_complex, view_list, numbers, n_operands + 1);
	return ET_OK;
}

/* Whether its elements correspond to those of @out as they lie: of the same sizes and strides, but for leading dimensions of
 * size 1 that it may lack. */
static bool lies_as(const struct et_tensor *tensor, const struct et_tensor *out)
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

/* The class in which elements of a type are computed where they lie: all that are not converted for it. */
static enum et_compute_class class_as_it_lies(enum et_scalar_type type)
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

enum { FEW = 128 /* results, for which numbers are written out without thinking */, FEWER = 8 };
union few {
	uint8_t bytes[FEW * sizeof(int64_t)];
	uint64_t aligned;
};

/* A number, or the only element of a tensor of @type, @n times as elements of that. False: it is another. */
static bool fill_few(union few *to, const struct et_evalue *number, enum et_scalar_type type, size_t n)
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

/* What programs of small operators have most: tensors of one type that is computed as it lies, all of which lie alike, numbers
 * and single elements, with nothing to find out about them. */
static bool apply_alike(const struct et_elementwise *map, const struct et_evalue *const *operands, size_t n_operands,
	struct et_tensor *out, bool *ret_divided_by_zero)
{
	const enum et_compute_class compute_class = class_as_it_lies(out->type);
	struct et_span span = { .common = out->type, .out = out->data, .n = et_tensor_numel(out) };
	union few numbers[ET_SPAN_OPERANDS];
	if (compute_class == ET_N_SPANS || !map->fns[compute_class] || (map->promotes && !(map->promotes & 1)) ||
		!(map->result == ET_ELEMENTWISE_SAME ||
			(map->result == ET_ELEMENTWISE_FLOAT &&
				(compute_class == ET_F32 || compute_class == ET_F64))) ||
		!span.n || span.n > ET_ELEMENTWISE_BLOCK || operands[0]->tag != ET_TAG_TENSOR ||
		operands[0]->tensor->n_dims != out->n_dims)
		return false;
	for (size_t k = 0; k < n_operands; k++) {
		if (operands[k]->tag == ET_TAG_TENSOR && operands[k]->tensor->type != out->type)
			return false;
	}
	for (size_t k = 0; k < n_operands; k++) {
		const struct et_tensor *tensor = operands[k]->tag == ET_TAG_TENSOR ? operands[k]->tensor : NULL;
		if (tensor && lies_as(tensor, out)) {
			span.in[k] = tensor->data;
			continue;
		}
		if (k == 0 || (tensor && tensor->n_dims > out->n_dims) ||
			!fill_few(&numbers[k], operands[k], out->type, span.n))
			return false;
		span.in[k] = &numbers[k];
	}
	map->fns[compute_class](&span);
	*ret_divided_by_zero = span.divided_by_zero;
	return true;
}

/* How a tensor's elements fill a block that lies as a row-major output does: dimensions, the innermost first, of which those
 * that go on where the one before ends are one. A stride of 0 repeats. */
struct spread {
	size_t n_dims;
	struct {
		size_t size;
		ptrdiff_t stride;
	} dims[ET_MAX_DIMS];
};

/* False: @tensor does not broadcast to @out. In @covered: the dimensions of @out that have its size. */
static bool find_spread(struct spread *spread, const struct et_tensor *tensor, const struct et_tensor *out,
	uint32_t *covered)
{
	size_t lacks = (size_t)out->n_dims - tensor->n_dims, n = 0;
	if (tensor->n_dims > out->n_dims)
		return false;
	for (size_t d = out->n_dims; d-- > 0;) {
		int32_t size = out->sizes[d], its = d < lacks ? 1 : tensor->sizes[d - lacks];
		ptrdiff_t stride = its == 1 ? 0 : tensor->strides[d - lacks];
		if (its != size && its != 1)
			return false;
		*covered |= (uint32_t)(its == size) << d;
		if (size == 1)
			continue;
		if (n && stride == spread->dims[n - 1].stride * (ptrdiff_t)spread->dims[n - 1].size) {
			spread->dims[n - 1].size *= (size_t)size;
			continue;
		}
		spread->dims[n].size = (size_t)size;
		spread->dims[n++].stride = stride;
	}
	if (n == 0) {
		spread->dims[n].size = 1;
		spread->dims[n++].stride = 1;
	}
	spread->n_dims = n;
	return true;
}

/* What @spread has in its dimensions up to @d; returns where that ends. */
static uint8_t *load_spread(uint8_t *to, const uint8_t *from, const struct spread *spread, size_t d, et_load_fn load,
	size_t class_bytes, size_t element_bytes)
{
	size_t size = spread->dims[d].size;
	ptrdiff_t stride = spread->dims[d].stride;
	if (d == 0) {
		load(to, from, stride, size);
		return to + size * class_bytes;
	}
	uint8_t *end = load_spread(to, from, spread, d - 1, load, class_bytes, element_bytes);
	if (stride == 0) { /* what is there already, again behind it */
		size_t done = (size_t)(end - to), all = done * size;
		for (size_t part; done < all; done += part) {
			part = done < all - done ? done : all - done;
			memcpy(to + done, to, part);
		}
		return to + all;
	}
	for (size_t i = 1; i < size; i++) {
		from += stride * (ptrdiff_t)element_bytes;
		end = load_spread(end, from, spread, d - 1, load, class_bytes, element_bytes);
	}
	return end;
}

/* No more than a block, of tensors that lie as the result does or are spread over it, and numbers: nothing to resize and
 * nothing to walk. Small programs are made of such calls. False: it is not like that. */
static bool apply_small(const struct way *way, const struct et_evalue *const *operands, size_t n_operands,
	struct et_tensor *out, bool *ret_divided_by_zero)
{
	struct et_span span = { .common = way->common, .n = et_tensor_numel(out) };
	union block in[ET_SPAN_OPERANDS], result;
	et_load_fn loads[ET_SPAN_OPERANDS];
	struct spread spreads[ET_SPAN_OPERANDS];
	uint32_t covered = 0, all = (1u << out->n_dims) - 1;
	size_t rank = 0;
	bool is_direct = gives(way, out->type);
	et_store_fn store = is_direct ? NULL : et_storer(out->type, way->compute_class);
	if (span.n > ET_ELEMENTWISE_BLOCK || (!is_direct && !store))
		return false;
	for (size_t k = 0; k < n_operands; k++) {
		const struct et_tensor *tensor = operands[k]->tensor;
		if (operands[k]->tag != ET_TAG_TENSOR)
			continue;
		rank = tensor->n_dims > rank ? tensor->n_dims : rank;
		if (lies_as(tensor, out)) {
			covered = all;
			spreads[k].n_dims = 1;
			spreads[k].dims[0].size = span.n;
			spreads[k].dims[0].stride = 1;
			span.in[k] = tensor->type == way->as ? tensor->data : NULL;
		} else if (!et_dim_order_is_contiguous(out->dim_order, out->n_dims) ||
			   !find_spread(&spreads[k], tensor, out, &covered)) {
			return false;
		} else {
			span.in[k] = NULL;
		}
		loads[k] = span.in[k] ? NULL : et_loader(tensor->type, way->compute_class);
		if (!span.in[k] && !loads[k])
			return false;
	}
	if (rank != out->n_dims || covered != all)
		return false; /* its sizes are others, as far as that is known here */
	*ret_divided_by_zero = false;
	for (size_t k = 0; span.n && k < n_operands; k++) {
		const struct et_tensor *tensor = operands[k]->tensor;
		if (operands[k]->tag == ET_TAG_TENSOR && span.in[k])
			continue;
		span.in[k] = &in[k];
		if (operands[k]->tag == ET_TAG_TENSOR)
			load_spread(in[k].bytes, tensor->data, &spreads[k], spreads[k].n_dims - 1, loads[k],
				et_class_size(way->compute_class), et_scalar_size(tensor->type));
		else
			fill_block(&in[k], way, operands[k], span.n);
	}
	if (!span.n)
		return true;
	span.out = is_direct ? out->data : &result;
	compute(way, &span);
	if (!is_direct)
		store(out->data, 1, &result, span.n);
	*ret_divided_by_zero = span.divided_by_zero;
	return true;
}

/* Of its own, so that a small call does not make room for all these blocks. */
static __attribute__((noinline)) enum et_status apply_any(struct et_kernel_ctx *ctx, const struct way *way,
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
	ET_REQUIRE(ctx, et_storer(out->type, way->compute_class), "cannot store %s", et_scalar_name(out->type));
	for (size_t k = 0; k <= n_operands; k++)
		view_list[k] = &views[k];
	et_view_of(&views[0], out);
	for (size_t k = 0; k < n_operands; k++) {
		struct et_view *view = &views[k + 1];
		if (operands[k]->tag == ET_TAG_TENSOR) {
			et_view_of(view, operands[k]->tensor);
			ET_REQUIRE(ctx, et_loader(view->type, way->compute_class), "does not take %s",
				et_scalar_name(view->type));
		} else {
			et_view_begin(view, &filled[k], way->common);
			fill_block(&filled[k], way, operands[k],
				numel < block_of(way->compute_class) ? numel : block_of(way->compute_class));
		}
		et_view_broadcast(view, sizes, n_dims);
	}
	begin_job(&job, way, view_list, n_operands);
	for (size_t k = 0; k < n_operands; k++) {
		set_in(&job, k, &views[k + 1]);
		if (operands[k]->tag != ET_TAG_TENSOR)
			job.in[k].filled = &filled[k];
	}
	et_parallel_for(ctx->compute,
		is_line(&job)     ? map_line
		: has_tiles(&job) ? map_tiles
				  : map_range,
		&job, job.walk.numel, GRAIN);
	ET_REQUIRE(ctx, !job.divided_by_zero, "division of an integer by zero");
	return ET_OK;
}

enum et_status et_elementwise_apply(struct et_kernel_ctx *ctx, const struct et_elementwise *map,
	const struct et_evalue *const *operands, size_t n_operands, struct et_tensor *out)
{
	struct way way;
	bool divided_by_zero;
	if (apply_alike(map, operands, n_operands, out, &divided_by_zero)) {
		ET_REQUIRE(ctx, !divided_by_zero, "division of an integer by zero");
		return ET_OK;
	}
	way.common = common_type(map, operands, n_operands);
	if (et_type_is_complex(way.common))
		return apply_complex(ctx, map, operands, n_operands, out);
	if (map->result == ET_ELEMENTWISE_FLOAT && !et_type_is_float(way.common))
		way.common = ET_FLOAT32;
	if (map->is_as_output && et_type_is_float(out->type))
		way.common = et_promote(way.common, out->type);
	if ((map->result == ET_ELEMENTWISE_SAME || map->result == ET_ELEMENTWISE_FLOAT) && way.common != out->type)
		ET_REQUIRE(ctx, et_can_cast(way.common, out->type), "a result of %s does not fit an output of %s",
			et_scalar_name(way.common), et_scalar_name(out->type));
	way.compute_class = et_class_of(way.common);
	if (way.compute_class == ET_I64)
		way.compute_class = narrowed(map, way.common, operands, n_operands, out);
	way.fn = map->fns[way.compute_class];
	way.as = way.compute_class == ET_F32   ? ET_FLOAT32
		 : way.compute_class == ET_F64 ? ET_FLOAT64
		 : way.compute_class == ET_I64 ? ET_INT64
					       : way.common;
	ET_REQUIRE(ctx, way.fn && (way.as == way.common || et_loader(way.common, way.compute_class)),
		"does not take %s", et_scalar_name(way.common));
	way.wraps = map->result == ET_ELEMENTWISE_SAME && way.compute_class == ET_I64 && out->type != way.common;
	way.is_truth = map->result == ET_ELEMENTWISE_BOOL;
	if (!apply_small(&way, operands, n_operands, out, &divided_by_zero))
		return apply_any(ctx, &way, operands, n_operands, out);
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
