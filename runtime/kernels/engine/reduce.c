/* SPDX-License-Identifier: BSD-3-Clause */
/* The reduction engine: walks, rounding, and the choice between one result at a time and many.
 *
 * It walks the kept dimensions outside and the reduced ones inside, in their logical order, a block of numbers at a
 * time; so argmax finds the index that PyTorch means, whatever the dim order is. The functions that compute many
 * results at once (reduce_rows.c, reduce_columns.c) need enough numbers; what is too short for them is gathered first:
 * rows of fp16 or bf16 as floats, and tiles of few columns side by side. */
#include "runtime/kernels/engine/reduce_rows.h"

enum {
	LONG_ROW = 1 << 20, /* longer reductions are computed in parts, and ask in between whether they must stop */
	BLOCK = 256,
	SHORT = 128, /* so few numbers become one result sooner than a function for many results is chosen */
	FEW_RESULTS = 4,
	FEW_COLUMNS = 16,
	FEW_TILES = 4,
	STAGE = 1024,
	ENOUGH_ROWS = 8,
	ENOUGH_HALF = 64, /* fp16 or bf16 numbers that are worth converting to float first */
	WORK_PER_TASK = 1 << 16
};

static void store_result(const struct reduce_job *job, const struct et_reduce_state *state, size_t output,
	int64_t offset)
{
	struct et_tensor *out = job->outs[output];
	uint8_t *element = (uint8_t *)out->data + (size_t)offset * et_element_bytes(out);
	if (job->is_double && !output && !job->reduce->is_index && out->type == ET_FLOAT32)
		((float *)out->data)[offset] = (float)state->d;
	else if (job->reduce->is_index && (output == 1 || !job->outs[1]))
		et_element_set_int(element, out->type, state->index);
	else if (output == 1)
		et_element_set_double(element, out->type, state->d2);
	else if (job->is_double)
		job->store(element, 1, &state->d, 1);
	else
		job->store(element, 1, &state->i, 1);
}

union block {
	float f[BLOCK];
	double d[BLOCK];
	int64_t i[BLOCK];
};

/* Take in the first @n numbers of @block. */
static void step_block(const struct reduce_job *job, struct et_reduce_state *state, const union block *block, size_t n,
	bool is_half)
{
	if (is_half)
		job->reduce->step_floats(state, block->f, n);
	else if (job->is_double)
		job->reduce->step_doubles(state, block->d, n);
	else
		job->reduce->step_ints(state, block->i, n);
	state->n += (int64_t)n;
}

static void reduce_one(const struct reduce_job *job, const uint8_t *in, struct et_reduce_state *state)
{
	union block block;
	const struct et_walk *walk = &job->reduced;
	bool is_half = job->is_double && job->reduce->step_floats && et_type_is_half(job->in_type);
	et_load_fn load = et_loader(job->in_type, is_half ? ET_F32 : job->is_double ? ET_F64 : ET_I64);
	ptrdiff_t stride = walk->strides[0][walk->n_dims - 1];
	struct et_place place;
	if (walk->n_dims == 1 && walk->numel && walk->numel <= BLOCK) {
		load(&block, in, stride, walk->numel);
		step_block(job, state, &block, walk->numel, is_half);
		return;
	}
	et_place_seek(&place, walk, 0);
	bool is_direct = job->is_double && job->reduce->step_floats && job->in_type == ET_FLOAT32 && stride == 1;
	struct et_pace pace = { job->compute };
	for (size_t done = 0; done < walk->numel && !(job->reduce->ends_early && (state->d != 0 || state->i)) &&
			      !et_pace_must_stop(&pace, BLOCK);) {
		size_t filled = 0;
		if (is_direct) {
			size_t run = et_place_run(&place, walk);
			run = run < LONG_ROW ? run : LONG_ROW;
			if (et_pace_must_stop(&pace, run))
				return;
			job->reduce->step_floats(state, (const float *)(const void *)in + place.offset[0], run);
			et_place_advance(&place, walk, run);
			state->n += (int64_t)run;
			done += run;
			continue;
		}
		while (filled < BLOCK && done + filled < walk->numel) {
			size_t run = et_place_run(&place, walk);
			run = run < BLOCK - filled ? run : BLOCK - filled;
			load(is_half ? (void *)&block.f[filled] : &block.d[filled],
				in + place.offset[0] * (int64_t)et_scalar_size(job->in_type), stride, run);
			et_place_advance(&place, walk, run);
			filled += run;
		}
		step_block(job, state, &block, filled, is_half);
		done += filled;
	}
}

/* Convert rows of fp16 or bf16 to rows of floats, as many at a time as there is room for, and reduce those. */
static void reduce_staged(const struct reduce_job *job, size_t begin, size_t end)
{
	float floats[STAGE];
	struct reduce_job part = *job;
	struct et_place place, at;
	const size_t numel = job->reduced.numel, in_view = job->kept.n_views - 1, last = job->kept.n_dims - 1,
		     most = STAGE / numel < ET_REDUCE_COLUMNS ? STAGE / numel : ET_REDUCE_COLUMNS;
	const int64_t step = job->kept.strides[in_view][last];
	et_load_fn load = et_loader(job->in_type, ET_F32);
	part.in = (const uint8_t *)floats;
	part.in_type = ET_FLOAT32;
	part.kept.strides[in_view][last] = (int64_t)numel;
	et_place_seek(&place, &job->kept, begin);
	for (size_t i = begin, n; i < end; i += n) {
		const uint16_t *in = (const uint16_t *)(const void *)job->in + place.offset[in_view];
		n = et_place_run(&place, &job->kept);
		n = n < end - i ? n : end - i;
		n = n < most ? n : most;
		if (step == (int64_t)numel)
			load(floats, in, 1, n * numel);
		for (size_t r = 0; r < n && step != (int64_t)numel; r++)
			load(floats + r * numel, in + (int64_t)r * step, 1, numel);
		at = place;
		at.offset[in_view] = 0;
		job->many(&part, &at, n);
		et_place_advance(&place, &job->kept, n);
	}
}

/* How many tiles of @n columns are reduced as one; 0: the input does not consist of such tiles, or too few would fit.
 */
static size_t n_tiles_at_once(const struct reduce_job *job)
{
	const struct et_walk *kept = &job->kept;
	const size_t n_outs = kept->n_views - 1, n = (size_t)kept->sizes[kept->n_dims - 1],
		     numel = n * job->reduced.numel, bytes = numel * et_scalar_size(job->in_type);
	if (kept->n_dims != 2 || n == 0 || n >= FEW_COLUMNS || kept->sizes[0] < FEW_TILES ||
		bytes > STAGE * sizeof(uint64_t) / FEW_TILES)
		return 0;
	for (size_t k = 0; k < n_outs; k++) {
		if (kept->strides[k][0] != (int64_t)n * kept->strides[k][1])
			return 0;
	}
	const size_t most = STAGE * sizeof(uint64_t) / bytes;
	return most < ET_REDUCE_COLUMNS / n ? most : ET_REDUCE_COLUMNS / n;
}

/* Gather @n pieces of @piece bytes, @step bytes apart. */
static void gather_pieces(uint8_t *to, const uint8_t *from, ptrdiff_t step, size_t n, size_t piece)
{
#define GATHER(bytes)                                                       \
	case bytes:                                                         \
		for (size_t i = 0; i < n; i++, to += (bytes), from += step) \
			memcpy(to, from, (bytes));                          \
		break;
	switch (piece) {
		GATHER(4)
		GATHER(8)
		GATHER(16)
		GATHER(32)
	default:
		for (size_t i = 0; i < n; i++, to += piece, from += step)
			et_copy_bytes(to, from, piece);
	}
}

/* Reduce the tiles @begin to @end of few columns, side by side. */
static void reduce_tiles(void *arg, size_t begin, size_t end)
{
	const struct reduce_job *job = arg;
	uint64_t room[STAGE];
	struct reduce_job part = *job;
	struct et_place place = { 0 };
	const struct et_walk *kept = &job->kept;
	const size_t in_view = kept->n_views - 1, bytes = et_scalar_size(job->in_type),
		     n_columns = (size_t)kept->sizes[1], piece = n_columns * bytes;
	const ptrdiff_t step = kept->strides[in_view][0] * (ptrdiff_t)bytes,
			row = job->reduced.strides[0][0] * (ptrdiff_t)bytes;
	part.in = (const uint8_t *)room;
	for (size_t n; begin < end; begin += n) {
		n = end - begin < job->n_tiles ? end - begin : job->n_tiles;
		const uint8_t *in = job->in + (ptrdiff_t)begin * step;
		for (size_t r = 0; r < job->reduced.numel; r++)
			gather_pieces((uint8_t *)room + r * n * piece, in + (ptrdiff_t)r * row, step, n, piece);
		part.reduced.strides[0][0] = (int64_t)(n * n_columns);
		for (size_t k = 0; k < in_view; k++)
			place.offset[k] = (int64_t)begin * kept->strides[k][0];
		job->many(&part, &place, n * n_columns);
	}
}

/* A dense row of floats or int64. */
static void reduce_row(const struct reduce_job *job, struct et_pace *pace, const uint8_t *in,
	struct et_reduce_state *state)
{
	for (size_t done = 0, n; done < job->reduced.numel; done += n) {
		n = job->reduced.numel - done < LONG_ROW ? job->reduced.numel - done : LONG_ROW;
		if (et_pace_must_stop(pace, n))
			return;
		if (job->is_double)
			job->reduce->step_floats(state, (const float *)(const void *)in + done, n);
		else
			job->reduce->step_ints(state, (const int64_t *)(const void *)in + done, n);
		state->n += (int64_t)n;
	}
}

static void reduce_range(void *arg, size_t begin, size_t end)
{
	const struct reduce_job *job = arg;
	size_t in_view = job->kept.n_views - 1;
	struct et_place place;
	if (job->is_staged) {
		reduce_staged(job, begin, end);
		return;
	}
	et_place_seek(&place, &job->kept, begin);
	size_t i = begin;
	while (job->many && i < end && !et_must_stop(job->compute)) {
		size_t n = et_place_run(&place, &job->kept);
		n = n < end - i ? n : end - i;
		n = n < ET_REDUCE_COLUMNS ? n : ET_REDUCE_COLUMNS;
		job->many(job, &place, n);
		et_place_advance(&place, &job->kept, n);
		i += n;
	}
	/* Dense rows need no load. */
	bool is_row = job->reduced.n_dims == 1 && job->reduced.strides[0][0] == 1 && job->reduced.numel > 0;
	bool is_float_row = is_row && job->is_double && job->in_type == ET_FLOAT32 && job->reduce->step_floats,
	     is_int_row = is_row && !job->is_double && job->in_type == ET_INT64;
	struct et_pace pace = { job->compute };
	for (; i < end; i++) {
		struct et_reduce_state state = { .correction = job->correction, .rounding = job->rounding };
		if (job->reduce->begin)
			job->reduce->begin(&state);
		const uint8_t *in = job->in + place.offset[in_view] * (int64_t)et_scalar_size(job->in_type);
		if (is_float_row || is_int_row)
			reduce_row(job, &pace, in, &state);
		else if (et_pace_must_stop(&pace, job->reduced.numel))
			return;
		else
			reduce_one(job, in, &state);
		if (job->reduce->finish)
			job->reduce->finish(&state);
		store_result(job, &state, 0, place.offset[0]);
		if (job->outs[1])
			store_result(job, &state, 1, place.offset[1]);
		et_place_advance(&place, &job->kept, 1);
	}
}

/* A walk over @numel dense elements. */
static void walk_one_run(struct et_walk *walk, size_t n_views, size_t numel)
{
	walk->n_views = n_views;
	walk->n_dims = 1;
	walk->numel = numel;
	walk->sizes[0] = (int64_t)numel;
	for (size_t v = 0; v < n_views; v++)
		walk->strides[v][0] = 1;
}

static bool is_dense(const struct et_tensor *tensor)
{
	return !tensor || et_dim_order_is_contiguous(tensor->dim_order, tensor->n_dims);
}

/* Build the walks directly if all tensors are row-major and the reduced dimensions are adjacent, as nearly always.
 * False: they are not. */
static bool walk_dense(struct reduce_job *job, const struct et_tensor *self, uint32_t set)
{
	enum { OUTER, REDUCED, INNER };
	int64_t sizes[] = { 1, 1, 1 };
	struct et_walk *kept = &job->kept;
	size_t at = OUTER;
	if (!is_dense(self) || !is_dense(job->outs[0]) || !is_dense(job->outs[1]))
		return false;
	for (size_t d = 0; d < self->n_dims; d++) {
		if (self->sizes[d] == 1)
			continue;
		const bool is_reduced = set >> d & 1;
		if (is_reduced != (at == REDUCED))
			at++;
		if (at > INNER || (at == INNER && is_reduced) || self->sizes[d] == 0)
			return false;
		sizes[at] *= self->sizes[d];
	}
	if (sizes[REDUCED] == 1)
		return false;
	const bool is_tiles = sizes[OUTER] > 1 && sizes[INNER] > 1;
	const size_t last = is_tiles;
	kept->n_views = job->outs[1] ? 3 : 2;
	kept->n_dims = 1 + last;
	kept->numel = (size_t)(sizes[OUTER] * sizes[INNER]);
	kept->sizes[0] = sizes[OUTER];
	kept->sizes[last] = is_tiles ? sizes[INNER] : (int64_t)kept->numel;
	for (size_t v = 0; v < kept->n_views; v++) {
		const int64_t step = v + 1 < kept->n_views ? 1 : sizes[REDUCED];
		kept->strides[v][0] = step * sizes[INNER];
		kept->strides[v][last] = sizes[INNER] > 1 ? 1 : step;
	}
	walk_one_run(&job->reduced, 1, (size_t)sizes[REDUCED]);
	job->reduced.strides[0][0] = sizes[INNER];
	return true;
}

/* Build the walks: where each result is stored, and which numbers it is made of. */
static void walk_any(struct reduce_job *job, const struct et_tensor *self, uint32_t set, bool keepdim)
{
	struct et_view kept, reduced, views[2];
	et_view_of(&kept, self);
	et_view_clone(&reduced, &kept);
	for (size_t d = self->n_dims; d-- > 0;) {
		if (set >> d & 1)
			et_view_select(&kept, d, 0);
		else
			et_view_remove(&reduced, d);
	}
	for (size_t k = 0; k < 2 && job->outs[k]; k++) {
		et_view_of(&views[k], job->outs[k]);
		for (size_t d = self->n_dims; keepdim && d-- > 0;) {
			if (set >> d & 1)
				et_view_remove(&views[k], d);
		}
	}
	if (job->outs[1])
		et_walk_init(&job->kept, (const struct et_view *[]){ &views[0], &views[1], &kept }, 3);
	else
		et_walk_init(&job->kept, (const struct et_view *[]){ &views[0], &kept }, 2);
	et_walk_init_in_order(&job->reduced, (const struct et_view *[]){ &reduced }, 1);
}

/* The type to which each operation on @n numbers is rounded. */
static enum et_scalar_type rounding_of(const struct et_reduce *reduce, const struct et_tensor *out, size_t n)
{
	if (reduce->is_mean && out->type != ET_FLOAT64)
		return ET_FLOAT32;
	return et_type_is_half(out->type) && n <= ET_HALF_TERMS ? (enum et_scalar_type)out->type : ET_FLOAT64;
}

/* Enough rows of fp16 or bf16 are converted and reduced as floats, if they have no function of their own. */
static void choose_rows(struct reduce_job *job)
{
	const enum et_scalar_type type = job->in_type;
	job->many = job->reduce->rows(job);
	if (job->many || !et_type_is_half(type) || job->reduced.numel > STAGE || job->kept.numel < ENOUGH_ROWS ||
		job->kept.numel * job->reduced.numel < ENOUGH_HALF)
		return;
	job->in_type = ET_FLOAT32;
	job->many = job->reduce->rows(job);
	job->in_type = type;
	job->is_staged = job->many != NULL;
}

enum et_status et_reduce(struct et_kernel_ctx *ctx, const struct et_reduce *reduce, const struct et_tensor *self,
	uint32_t set, bool keepdim, double correction, struct et_tensor *out, struct et_tensor *out2)
{
	struct reduce_job job; /* not cleared as a whole: its walks are as large as many a tensor */
	int64_t sizes[ET_MAX_DIMS];
	size_t n_dims = 0;
	job.reduce = reduce;
	job.compute = ctx->compute;
	job.in_type = self->type;
	job.correction = correction;
	job.many = NULL;
	job.is_staged = false;
	job.n_tiles = 0;
	job.outs[0] = out;
	job.outs[1] = out2;
	for (size_t d = 0; d < self->n_dims; d++) {
		if (!(set >> d & 1) || keepdim)
			sizes[n_dims++] = set >> d & 1 ? 1 : self->sizes[d];
	}
	bool is_value = !reduce->is_index || out2;
	bool is_cast = reduce->casts_first && et_type_is_integral(out->type);
	job.is_double = !reduce->step_ints || (et_type_is_float(self->type) && !is_cast) ||
			(is_value && et_type_is_float(out->type));
	job.store = et_storer(out->type, job.is_double ? ET_F64 : ET_I64);
	ET_REQUIRE(ctx, et_loader(self->type, ET_F64) && et_storer(out->type, ET_F64), "does not take %s",
		et_scalar_name(self->type));
	ET_TRY(et_resize(ctx, out, sizes, n_dims));
	if (out2) {
		ET_REQUIRE(ctx, et_storer(out2->type, ET_F64), "cannot store %s", et_scalar_name(out2->type));
		ET_TRY(et_resize(ctx, out2, sizes, n_dims));
	}
	_Static_assert((int)BLOCK >= (int)ET_HALF_TERMS, "a rounded reduction is one block");
	/* The order only matters for an index, and for sums that are rounded. */
	bool is_one_run = set == et_all_dims(self) &&
			  (!(reduce->is_index || reduce->is_mean) ||
				  et_dim_order_is_contiguous(self->dim_order, self->n_dims));
	if (reduce->ends_early && is_one_run) {
		et_element_set_int(out->data, out->type, et_reduce_is_any(ctx->compute, self));
		return ET_OK;
	}
	size_t numel = is_one_run ? et_tensor_numel(self) : 0;
	job.in = self->data;
	if (is_one_run) {
		walk_one_run(&job.kept, out2 ? 3 : 2, 1);
		walk_one_run(&job.reduced, 1, numel);
		if (numel > 0 && numel <= SHORT) { /* two_methods_cond.bpte takes 1.05 times as long without */
			job.rounding = rounding_of(reduce, out, numel);
			reduce_range(&job, 0, 1);
			return ET_OK;
		}
	} else if (!walk_dense(&job, self, set)) {
		walk_any(&job, self, set, keepdim);
	}
	ET_REQUIRE(ctx, !reduce->needs_one || job.reduced.numel > 0 || job.kept.numel == 0,
		"the reduced dimensions are empty");
	job.rounding = rounding_of(reduce, out, job.reduced.numel);
	bool is_rounded = et_type_is_half(job.rounding) && job.in_type == job.rounding;
	bool is_var_rounded = reduce->is_var && job.rounding != ET_FLOAT64;
	if (job.reduced.n_dims > 1 || job.reduced.numel == 0 || job.reduced.numel > LONG_ROW) {
		job.many = NULL;
	} else if (reduce->rounded && is_rounded) {
		job.many = job.kept.numel < FEW_RESULTS ? NULL : reduce->rounded;
	} else if (job.reduced.strides[0][0] == 1 && reduce->rows && !is_var_rounded) {
		choose_rows(&job);
	} else if (job.reduced.strides[0][0] != 1 && job.kept.strides[job.kept.n_views - 1][job.kept.n_dims - 1] == 1 &&
		   (!out2 || reduce->is_index || reduce->is_var) && !is_var_rounded) {
		job.many = job.is_double ? reduce->columns : reduce->int_columns;
		job.n_tiles = job.many ? n_tiles_at_once(&job) : 0;
	}
	const size_t grain = WORK_PER_TASK / (job.reduced.numel + 1) + 1;
	if (job.n_tiles)
		et_parallel_for(ctx->compute, reduce_tiles, &job, (size_t)job.kept.sizes[0],
			grain / (size_t)job.kept.sizes[1] + 1);
	else
		et_parallel_for(ctx->compute, reduce_range, &job, job.kept.numel, grain);
	return ET_OK;
}
