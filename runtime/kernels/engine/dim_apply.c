/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading and storing lines for the functions of dim_apply.h. Short lines live on the stack and are shared out to
 * threads; long lines need scratch memory and are computed by one thread. */
#include "runtime/kernels/engine/dim_apply.h"
#include "runtime/compute.h"

enum { SHORT_LINE = 1024, WORK_PER_TASK = 1 << 14 };

struct line_job {
	const struct et_dim_apply_lines *lines;
	const struct et_compute *compute;
	struct et_walk walk; /* over all other dimensions: out, indices (or out again), self */
	int64_t in_stride, out_stride, index_stride;
	enum et_compute_class compute_class;
	size_t n;
	void *in, *out, *index; /* buffers; NULL: use the stack */
};

static void run_range(void *arg, size_t begin, size_t end)
{
	union {
		double d[SHORT_LINE];
		int64_t i[SHORT_LINE];
	} short_in, short_out;
	int64_t short_index[SHORT_LINE];
	const struct line_job *job = arg;
	const struct et_dim_apply_lines *l = job->lines;
	void *in = job->in ? job->in : &short_in, *out = job->out ? job->out : &short_out;
	struct et_pace pace = { job->compute };
	struct et_dim_apply line = {
		.pace = &pace,
		.n = job->n,
		.n_out = (size_t)l->n_out,
		.index = job->index ? job->index : short_index,
		.is_single = et_class_of(l->self->type) != ET_F64,
		.arg = l->arg,
	};
	struct et_place place;
	if (job->compute_class == ET_F64) {
		line.in = in;
		line.out = out;
	} else {
		line.in_ints = in;
		line.out_ints = out;
	}
	et_load_fn load = et_loader(l->self->type, job->compute_class);
	et_store_fn store = et_storer(l->out->type, job->compute_class),
		    store_index = l->indices ? et_storer(l->indices->type, ET_I64) : NULL;
	int64_t in_bytes = (int64_t)et_element_bytes(l->self), out_bytes = (int64_t)et_element_bytes(l->out),
		index_bytes = l->indices ? (int64_t)et_element_bytes(l->indices) : 0;
	et_place_seek(&place, &job->walk, begin);
	for (size_t i = begin; i < end && !et_pace_must_stop(&pace, job->n); i++) {
		load(in, (const uint8_t *)l->self->data + place.offset[2] * in_bytes, job->in_stride, job->n);
		l->fn(&line);
		store((uint8_t *)l->out->data + place.offset[0] * out_bytes, job->out_stride, out, (size_t)l->n_out);
		if (store_index)
			store_index((uint8_t *)l->indices->data + place.offset[1] * index_bytes, job->index_stride,
				line.index, (size_t)l->n_out);
		et_place_advance(&place, &job->walk, 1);
	}
}

static enum et_status line_view(struct et_kernel_ctx *ctx, const struct et_dim_apply_lines *l, struct et_tensor *tensor,
	struct et_view *ret_view, int64_t *ret_stride)
{
	int64_t sizes[ET_MAX_DIMS];
	size_t n_dims = 0;
	for (size_t d = 0; d < l->self->n_dims; d++) {
		if (d != l->dim || l->keepdim)
			sizes[n_dims++] = d == l->dim ? l->n_out : l->self->sizes[d];
	}
	ET_REQUIRE(ctx, et_storer(tensor->type, ET_F64), "cannot store %s", et_scalar_name(tensor->type));
	ET_TRY(et_resize(ctx, tensor, sizes, n_dims));
	et_view_of(ret_view, tensor);
	*ret_stride = 1;
	if (l->keepdim && ret_view->n_dims) {
		*ret_stride = ret_view->strides[l->dim];
		et_view_remove(ret_view, l->dim);
	}
	return ET_OK;
}

enum et_status et_dim_apply_run(struct et_kernel_ctx *ctx, const struct et_dim_apply_lines *lines)
{
	const struct et_tensor *self = lines->self;
	struct line_job job; /* not cleared as a whole: its walk is larger than many a tensor */
	struct et_view in, out, indices;
	job.lines = lines;
	job.compute = ctx->compute;
	job.n = 1;
	job.in_stride = 1;
	job.in = job.out = job.index = NULL;
	bool is_int = lines->takes_ints && !et_type_is_float(lines->out->type);
	job.compute_class = is_int ? ET_I64 : ET_F64;
	ET_REQUIRE(ctx, et_loader(self->type, ET_F64), "does not take %s", et_scalar_name(self->type));
	ET_TRY(line_view(ctx, lines, lines->out, &out, &job.out_stride));
	if (lines->indices)
		ET_TRY(line_view(ctx, lines, lines->indices, &indices, &job.index_stride));
	/* An empty tensor may have any number of lines. */
	if (et_tensor_numel(lines->out) == 0)
		return ET_OK;
	et_view_of(&in, self);
	if (in.n_dims) {
		job.n = (size_t)in.sizes[lines->dim];
		job.in_stride = in.strides[lines->dim];
		et_view_remove(&in, lines->dim);
	}
	et_walk_init(&job.walk, (const struct et_view *[]){ &out, lines->indices ? &indices : &out, &in }, 3);
	size_t longest = job.n > (size_t)lines->n_out ? job.n : (size_t)lines->n_out;
	if (longest <= SHORT_LINE) {
		et_parallel_for(ctx->compute, run_range, &job, job.walk.numel, WORK_PER_TASK / (longest + 1) + 1);
		return ET_OK;
	}
	job.in = et_kernel_scratch(ctx, longest * sizeof(double));
	job.out = et_kernel_scratch(ctx, longest * sizeof(double));
	job.index = et_kernel_scratch(ctx, longest * sizeof(int64_t));
	if (!job.in || !job.out || !job.index)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	run_range(&job, 0, job.walk.numel);
	return ET_OK;
}
