/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention, with and without a KV cache, and rotary embedding. A cache is a state of the instance: the new rows are
 * written to it first, and the place where they go is checked before, so a run that is refused changes nothing. */
#include "delegates/opencl/run.h"
#include "delegates/opencl/step.h"

#include "runtime/base/checked.h"
#include "runtime/tensor.h"

#include <math.h>
#include <stdio.h>

enum { MAX_WIDTH = 512 }; /* of a head: a work-item keeps a row of the result */
enum variant { ROW, TILE };

/* --- attention ------------------------------------------------------------------------------------ */

static bool use_attention(struct ocl_plan *plan, uint32_t k, uint32_t q_arg, uint32_t k_arg, uint32_t v_arg,
	int mask_arg, const char *more)
{
	const struct et_graph *graph = plan->graph;
	const struct et_graph_tensor *q = graph->values[plan->node->args[q_arg]].tensor,
				     *v = graph->values[plan->node->args[v_arg]].tensor;
	uint8_t mask = mask_arg < 0 ? ET_FLOAT32 : ocl_arg_type(plan, (uint32_t)mask_arg);
	char definitions[260], tile[80] = "";
	if ((q->n_dims != 4 && q->n_dims != 3) || v->n_dims != q->n_dims)
		return ocl_refuse(plan, "tensors that do not have four dimensions");
	uint32_t width = q->dims[q->n_dims - 1], v_width = v->dims[v->n_dims - 1];
	if (!width || !v_width || width > MAX_WIDTH || v_width > MAX_WIDTH)
		return ocl_refuse(plan, "heads of %u and %u elements, at most %u", width, v_width, MAX_WIDTH);
	if (mask != ET_BOOL && !ocl_is_float(mask))
		return ocl_refuse(plan, "a mask of %s", et_scalar_name(mask));
	bool is_tile = plan->is_fast && width % plan->device->n_lanes == 0 && v_width % plan->device->n_lanes == 0;
	plan->step->variant = is_tile ? TILE : ROW;
	if (is_tile)
		snprintf(tile, sizeof(tile), "#define WIDTH %u\n#define ROWS 4\n#define GROUP %u\n",
			plan->device->n_lanes, (unsigned)ocl_lanes_group(plan->device));
	snprintf(definitions, sizeof(definitions), "%s%s#define LENGTH %u\n#define V_LENGTH %u\n%s", more,
		mask == ET_BOOL ? "#define MASK_IS_BOOL\n" : "", width, v_width, tile);
	return ocl_want(plan, (int)q_arg, ET_FLOAT32) && ocl_want(plan, (int)k_arg, ET_FLOAT32) &&
	       ocl_want(plan, (int)v_arg, ET_FLOAT32) && ocl_want(plan, -1, ET_FLOAT32) &&
	       OCL_USE(plan, k, is_tile ? "attention_tile" : "attention", definitions,
		       { "T_O", ocl_result_type(plan, 0) }, { "T_A", ocl_arg_type(plan, q_arg) },
		       { "T_K", ocl_arg_type(plan, k_arg) }, { "T_V", ocl_arg_type(plan, v_arg) }, { "T_M", mask });
}

/* Views of the same dimensions: batch, head, row, element. */
struct heads {
	struct ocl_view q, k, v, o, mask;
	uint32_t q_value, k_value, v_value, mask_value;
	bool has_mask;
	uint64_t start;
	double scale;
};

static void put_strides(struct ocl_launch *launch, const struct ocl_view *view)
{
	ocl_put_ints(launch, view->strides, 4);
}

static bool start_attention(struct ocl_call *call, uint32_t kernel, const struct heads *h)
{
	const struct et_graph_tensor *q = call->shapes.graph->values[h->q_value].tensor,
				     *v = call->shapes.graph->values[h->v_value].tensor;
	struct ocl_launch launch;
	/* The kernel was built for the declared widths. */
	if (h->q.dims[3] != q->dims[q->n_dims - 1] || h->k.dims[3] != h->q.dims[3] ||
		h->v.dims[3] != v->dims[v->n_dims - 1] || h->o.dims[3] != h->v.dims[3])
		return ocl_misfit(call, "heads of %u and %u elements", h->q.dims[3], h->v.dims[3]);
	uint32_t sizes[4] = { h->q.dims[0], h->q.dims[1], h->q.dims[2], h->k.dims[2] };
	uint64_t n = et_times(et_times(sizes[0], sizes[1]), sizes[2]);
	(call->step->variant == TILE ? ocl_begin_lanes : ocl_begin)(call, &launch, kernel);
	ocl_put_int(&launch, (int64_t)n);
	ocl_put_sizes(&launch, sizes, 4);
	put_strides(&launch, &h->q);
	put_strides(&launch, &h->k);
	put_strides(&launch, &h->v);
	put_strides(&launch, &h->o);
	ocl_put_int(&launch, h->k.dims[1] ? sizes[1] / h->k.dims[1] : 1);
	ocl_put_int(&launch, (int64_t)h->start);
	ocl_put_float(&launch, h->scale);
	put_strides(&launch, &h->mask);
	ocl_put_int(&launch, h->has_mask);
	ocl_put_view(call, &launch, call->shapes.node->results[0], &h->o);
	ocl_put_view(call, &launch, h->q_value, &h->q);
	ocl_put_view(call, &launch, h->k_value, &h->k);
	ocl_put_view(call, &launch, h->v_value, &h->v);
	if (h->has_mask)
		ocl_put_view(call, &launch, h->mask_value, &h->mask);
	else
		ocl_put_nothing(call, &launch);
	return ocl_start(call, &launch, n, et_times(sizes[3], h->q.dims[3] + (uint64_t)h->v.dims[3]) * 2);
}

static double scale_of(struct ocl_call *call, uint32_t arg, uint32_t width)
{
	return et_graph_double(&call->shapes, arg, 1 / sqrt((double)(width ? width : 1)));
}

/* q [B,H,S,D], k and v [B,H,L,D], mask or none, scale or none */
static bool plan_sdpa(struct ocl_plan *plan)
{
	return use_attention(plan, 0, 0, 1, 2, 3, "");
}

static bool run_sdpa(struct ocl_call *call)
{
	const struct et_graph_node *node = call->shapes.node;
	const struct et_graph_size *q = et_graph_arg(&call->shapes, 0), *k = et_graph_arg(&call->shapes, 1),
				   *v = et_graph_arg(&call->shapes, 2), *mask = et_graph_arg(&call->shapes, 3);
	struct heads h = { .q = ocl_view_of(q),
		.k = ocl_view_of(k),
		.v = ocl_view_of(v),
		.o = ocl_view_of(et_graph_result(&call->shapes, 0)),
		.q_value = node->args[0],
		.k_value = node->args[1],
		.v_value = node->args[2],
		.mask_value = node->args[3],
		.has_mask = mask != NULL,
		.scale = scale_of(call, 4, q->dims[3]) };
	for (uint32_t i = 0; i < 2; i++)
		if (k->dims[i] != q->dims[i] || v->dims[i] != q->dims[i])
			return ocl_misfit(call, "query, key and value do not fit each other");
	if (mask) {
		struct et_graph_size scores = { .n_dims = 4,
			.dims = { q->dims[0], q->dims[1], q->dims[2], k->dims[2] } };
		for (uint32_t i = 1; i <= mask->n_dims; i++)
			if (i > 4 || (mask->dims[mask->n_dims - i] != 1 &&
					     mask->dims[mask->n_dims - i] != scores.dims[4 - i]))
				return ocl_misfit(call, "the mask does not fit the scores");
		h.mask = ocl_view_as(mask, &scores);
	}
	return start_attention(call, 0, &h);
}

/* --- graph.attention: q [N,S,D], k [N,L,D] or [N,D,L], v [N,L,E], mask or none, scale, has_rows ---------- */

static bool plan_fused(struct ocl_plan *plan)
{
	return use_attention(plan, 0, 0, 1, 2, 3, "");
}

/* [N, S, D] as N batches of one head. */
static struct ocl_view one_head(const struct et_graph_size *size)
{
	struct ocl_view view = ocl_view_of(size);
	for (uint32_t i = 3; i > 1; i--) {
		view.dims[i] = view.dims[i - 1];
		view.strides[i] = view.strides[i - 1];
	}
	view.n_dims = 4;
	view.dims[1] = 1;
	view.strides[1] = 0;
	return view;
}

/* The mask's dimensions in front of the last two are one number for each batch, or for all. */
static bool view_mask(struct ocl_call *call, const struct et_graph_size *mask, const uint32_t scores[4],
	struct ocl_view *view)
{
	uint32_t n = mask->n_dims, row = n > 1 ? mask->dims[n - 2] : 1, key = n > 0 ? mask->dims[n - 1] : 1;
	uint64_t n_all = ocl_numel(mask), n_front = row > 0 && key > 0 ? n_all / ((uint64_t)row * key) : 0;
	*view = (struct ocl_view){ .n_dims = 4,
		.dims = { scores[0], 1, scores[2], scores[3] },
		.strides = { n_front == 1 ? 0 : (int64_t)row * key, 0, row == 1 ? 0 : key, key == 1 ? 0 : 1 } };
	return ((n_front == 1 || n_front == scores[0]) && (row == 1 || row == scores[2]) &&
		       (key == 1 || key == scores[3])) ||
	       ocl_misfit(call, "the mask does not fit the scores");
}

static bool run_fused(struct ocl_call *call)
{
	const struct et_graph_node *node = call->shapes.node;
	const struct et_graph_size *q = et_graph_arg(&call->shapes, 0), *k = et_graph_arg(&call->shapes, 1),
				   *v = et_graph_arg(&call->shapes, 2), *mask = et_graph_arg(&call->shapes, 3);
	struct heads h = { .q = one_head(q),
		.k = one_head(k),
		.v = one_head(v),
		.o = one_head(et_graph_result(&call->shapes, 0)),
		.q_value = node->args[0],
		.k_value = node->args[1],
		.v_value = node->args[2],
		.mask_value = node->args[3],
		.has_mask = mask != NULL,
		.scale = et_graph_double(&call->shapes, 4, 1) };
	if (!et_graph_bool(&call->shapes, 5)) {
		struct ocl_view columns = h.k;
		h.k.dims[2] = columns.dims[3];
		h.k.strides[2] = columns.strides[3];
		h.k.dims[3] = columns.dims[2];
		h.k.strides[3] = columns.strides[2];
	}
	if (h.k.dims[0] != h.q.dims[0] || h.v.dims[0] != h.q.dims[0] || h.v.dims[2] != h.k.dims[2])
		return ocl_misfit(call, "query, key and value do not fit each other");
	if (mask && !view_mask(call, mask, (uint32_t[]){ h.q.dims[0], 1, h.q.dims[2], h.k.dims[2] }, &h.mask))
		return false;
	return start_attention(call, 0, &h);
}

/* --- with a cache: q, k, v [B,S,H,D], caches [B,Smax,KVH,D], start, 1, mask, dropout, is_causal, scale -- */

static bool plan_cached(struct ocl_plan *plan)
{
	const struct et_graph_value *is_causal = &plan->graph->values[plan->node->args[9]];
	uint8_t type = ocl_arg_type(plan, 1);
	if (ocl_has_arg(plan, 7))
		return ocl_refuse(plan, "a mask");
	if (ocl_arg_type(plan, 2) != type || ocl_arg_type(plan, 3) != type || ocl_arg_type(plan, 4) != type)
		return ocl_refuse(plan, "keys, values and caches of different types");
	return use_attention(plan, 0, 0, 3, 4, -1, is_causal->b ? "#define IS_CAUSAL\n" : "") &&
	       ocl_plan_elementwise(plan, 1, "a", type, &type, 1);
}

/* Save the @n elements of the cache that @rows are, those of each of @n_batches in a piece. */
static bool save_rows(struct ocl_call *call, uint32_t cache, const struct ocl_view *rows, uint32_t n_batches,
	uint64_t n)
{
	const struct ocl_home *home = &call->run->instance->homes[cache];
	uint64_t size = et_scalar_size(call->shapes.graph->values[cache].tensor->type), at;
	cl_mem buffer;
	if (call->shapes.graph->values[home->root].origin != ET_GRAPH_STATE)
		return true;
	ocl_run_memory(call->run, home->root, &buffer, &at);
	for (uint32_t i = 0; i < n_batches && call->status == ET_OK; i++)
		call->status = ocl_state_save(call->run, buffer,
			at + (home->at + (uint64_t)(rows->start + i * rows->strides[0])) * size, n / n_batches * size,
			call->shapes.diag);
	return call->status == ET_OK;
}

/* Copy the rows of argument @arg into the cache, from row @start on. */
static bool append(struct ocl_call *call, uint32_t arg, uint32_t cache_arg, uint64_t start)
{
	const struct et_graph_node *node = call->shapes.node;
	struct ocl_view from = ocl_view_of(et_graph_arg(&call->shapes, arg)),
			cache = ocl_view_of(et_graph_arg(&call->shapes, cache_arg)), to = from;
	for (uint32_t i = 0; i < 4; i++)
		to.strides[i] = cache.strides[i];
	to.start = (int64_t)start * cache.strides[1];
	return save_rows(call, node->args[cache_arg], &to, from.dims[0], ocl_view_numel(&from)) &&
	       ocl_run_elementwise(call, 1, 1, (uint32_t[]){ node->args[cache_arg], node->args[arg] },
		       (struct ocl_view[]){ to, from }, NULL);
}

/* From [B, S, H, D] to batch, head, row, element. */
static struct ocl_view by_head(const struct et_graph_size *size)
{
	struct ocl_view view = ocl_view_of(size);
	uint32_t dim = view.dims[1];
	int64_t stride = view.strides[1];
	view.dims[1] = view.dims[2];
	view.strides[1] = view.strides[2];
	view.dims[2] = dim;
	view.strides[2] = stride;
	return view;
}

static bool run_cached(struct ocl_call *call)
{
	const struct et_graph_node *node = call->shapes.node;
	const struct et_graph_size *sizes[5];
	int64_t start = et_graph_int(&call->shapes, 5, 0);
	for (uint32_t i = 0; i < 5; i++) {
		sizes[i] = et_graph_arg(&call->shapes, i);
		if (sizes[i]->n_dims != 4 || sizes[i]->dims[0] != sizes[0]->dims[0])
			return ocl_misfit(call, "query, key, value and caches do not fit each other");
	}
	uint32_t n_rows = sizes[0]->dims[1], n_heads = sizes[3]->dims[2];
	for (uint32_t i = 1; i < 5; i++)
		if (sizes[i]->dims[2] != n_heads || sizes[i]->dims[3] != sizes[i < 3 ? i + 2 : i]->dims[3] ||
			(i < 3 && sizes[i]->dims[1] != n_rows) || (i >= 3 && sizes[i]->dims[1] != sizes[3]->dims[1]))
			return ocl_misfit(call, "query, key, value and caches do not fit each other");
	if (!n_heads || sizes[0]->dims[2] % n_heads != 0 || sizes[0]->dims[3] != sizes[3]->dims[3] ||
		sizes[0]->dims[3] != sizes[4]->dims[3])
		return ocl_misfit(call, "%u heads of the query for %u of the cache", sizes[0]->dims[2], n_heads);
	if (start < 0 || (uint64_t)start + n_rows > sizes[3]->dims[1])
		return ocl_misfit(call, "rows %lld to %lld of a cache of %u", (long long)start,
			(long long)(start + n_rows), sizes[3]->dims[1]);
	struct heads h = { .q = by_head(sizes[0]),
		.k = by_head(sizes[3]),
		.v = by_head(sizes[4]),
		.o = by_head(sizes[0]),
		.q_value = node->args[0],
		.k_value = node->args[3],
		.v_value = node->args[4],
		.start = (uint64_t)start,
		.scale = scale_of(call, 10, sizes[0]->dims[3]) };
	h.k.dims[2] = h.v.dims[2] = (uint32_t)start + n_rows;
	return append(call, 1, 3, (uint64_t)start) && append(call, 2, 4, (uint64_t)start) &&
	       start_attention(call, 0, &h);
}

/* --- rotary embedding: q, k [B,S,H,D], cosines, sines [S,D/2] ---------------------------------------- */

static bool plan_rotary(struct ocl_plan *plan)
{
	for (int i = 0; i < 4; i++)
		if (!ocl_want(plan, i, ET_FLOAT32))
			return false;
	for (uint32_t i = 0; i < 2; i++)
		if (!ocl_want(plan, -1 - (int)i, ET_FLOAT32) ||
			!OCL_USE(plan, i, "rotary", "", { "T_O", ocl_result_type(plan, i) },
				{ "T_A", ocl_arg_type(plan, i) }, { "T_B", ocl_arg_type(plan, 2) },
				{ "T_C", ocl_arg_type(plan, 3) }))
			return false;
	return true;
}

static bool run_rotary(struct ocl_call *call)
{
	const struct et_graph_node *node = call->shapes.node;
	for (uint32_t i = 0; i < 2; i++) {
		const struct et_graph_size *x = et_graph_arg(&call->shapes, i);
		struct ocl_launch launch;
		if (x->n_dims != 4 || x->dims[3] % 2 != 0)
			return ocl_misfit(call, "a tensor of %u dimensions, or of no pairs", x->n_dims);
		uint64_t n = ocl_numel(x), n_pairs = x->dims[3] / 2, n_angles = et_times(x->dims[1], n_pairs);
		ocl_begin(call, &launch, i);
		ocl_put_int(&launch, (int64_t)(n / 2));
		ocl_put_int(&launch, x->dims[1]);
		ocl_put_int(&launch, x->dims[2]);
		ocl_put_int(&launch, (int64_t)n_pairs);
		ocl_put_tensor(call, &launch, node->results[i], n);
		ocl_put_tensor(call, &launch, node->args[i], n);
		ocl_put_tensor(call, &launch, node->args[2], n_angles);
		ocl_put_tensor(call, &launch, node->args[3], n_angles);
		if (!ocl_start(call, &launch, n / 2, 6))
			return false;
	}
	return true;
}

const struct ocl_row ocl_rows_attention[] = {
	{ "et_vk.apply_rotary_emb.default", plan_rotary, run_rotary },
	{ "et_vk.sdpa.default", plan_sdpa, run_sdpa },
	{ "graph.attention", plan_fused, run_fused },
	{ "sdpa_with_kv_cache.default", plan_cached, run_cached },
	{ NULL },
};
