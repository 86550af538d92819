/* SPDX-License-Identifier: BSD-3-Clause */
/* Bindings: checking once what every request then relies on.
 *
 * This file checks what decides an address: a slot lies inside its region and is aligned, a shape has the rank and
 * the bytes that the Plan says. It does not look at the bytes of a region: they are the client's and may change at
 * any moment. */
#include "daemon/client/binding.h"

#include "daemon/context.h"
#include "daemon/client/session.h"
#include "daemon/base/text.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- slots ---------------------------------------------------------------------------------------- */

static void write_shape(char *to, size_t room, const int64_t *sizes, size_t n_dims)
{
	size_t n = inf_text(to, room, "[");
	for (size_t i = 0; i < n_dims && n < room; i++)
		n += inf_text(to + n, room - n, "%s%" PRId64, i ? "," : "", sizes[i]);
	if (n < room)
		inf_text(to + n, room - n, "]");
}

/* Check a client's shape for input @index, and write it into @io with the bytes that it needs. */
static bool take_shape(const struct et_io_info *info, uint32_t index, const struct inf_slot *slot, struct et_io *io,
	struct inf_refusal *refusal)
{
	int64_t expected[ET_MAX_DIMS];
	char is[160], should[160];
	size_t n_bytes = et_scalar_size((enum et_scalar_type)info->type);
	bool fits = slot->n_shape == info->n_dims;
	for (size_t i = 0; i < info->n_dims; i++)
		expected[i] = info->sizes[i];
	for (size_t i = 0; i < info->n_dims && fits; i++) {
		int64_t size = slot->shape[i];
		fits = size >= 0 && size <= INT32_MAX && (info->dynamism != ET_STATIC || size == expected[i]) &&
		       et_mul(n_bytes, (size_t)size, &n_bytes);
		io->sizes[i] = (int32_t)size;
	}
	if (fits && n_bytes <= info->n_bytes) {
		io->tensor.n_bytes = n_bytes;
		return true;
	}
	write_shape(is, sizeof(is), slot->shape, slot->n_shape);
	write_shape(should, sizeof(should), expected, info->n_dims);
	return inf_refuse(refusal, INF_INVALID_ARGUMENT, "input_%u: shape %s, expected %s%s", index, is,
		info->dynamism == ET_STATIC ? "" : "at most ", should);
}

static const char *const scalar_names[] = { "nothing", "an INT", "a DOUBLE", "a BOOL" };

static bool take_scalar(const struct et_io_info *info, uint32_t index, const struct inf_scalar *scalar,
	struct et_io *io, struct inf_refusal *refusal)
{
	enum inf_scalar_kind kind = info->tag == ET_TAG_INT      ? INF_SCALAR_INT
				    : info->tag == ET_TAG_DOUBLE ? INF_SCALAR_DOUBLE
				    : info->tag == ET_TAG_BOOL   ? INF_SCALAR_BOOL
								 : INF_SCALAR_NONE;
	if (scalar->kind == INF_SCALAR_NONE)
		return true;
	if (scalar->kind != kind)
		return inf_refuse(refusal, INF_INVALID_ARGUMENT, "input_%u: %s was given, expected %s", index,
			scalar_names[scalar->kind], scalar_names[kind]);
	if (kind == INF_SCALAR_INT)
		io->i = scalar->int_value;
	else if (kind == INF_SCALAR_DOUBLE)
		io->d = scalar->double_value;
	else
		io->b = scalar->bool_value;
	return true;
}

/* Check where a tensor lies, and write its address and size into b->bound. */
static bool take_memory(struct inf_binding *b, uint32_t at, const char *what, const struct et_io_info *info,
	const struct inf_slot *slot, struct inf_refusal *refusal)
{
	bool is_input = at < b->n_inputs;
	uint32_t index = is_input ? at : at - b->n_inputs;
	struct et_io *io = &b->bound[at];
	if (!slot->region && !is_input)
		return true; /* an output that the client does not want */
	struct inf_client_region *region = inf_client_region_find(b->session, slot->region);
	if (!region)
		return inf_refuse(refusal, slot->region ? INF_NOT_FOUND : INF_INVALID_ARGUMENT,
			slot->region ? "%s_%u: no region %" PRIu64 " on this connection"
				     : "%s_%u: it is not bound to a region; region is %" PRIu64,
			what, index, slot->region);
	size_t needed = is_input ? io->tensor.n_bytes : info->n_bytes;
	size_t n_bytes = slot->byte_size ? slot->byte_size : needed;
	if (slot->offset % INF_TENSOR_ALIGNMENT)
		return inf_refuse(refusal, INF_INVALID_ARGUMENT, "%s_%u: offset %" PRIu64 " is not a multiple of %d",
			what, index, slot->offset, INF_TENSOR_ALIGNMENT);
	if (is_input && info->dynamism == ET_STATIC ? n_bytes != needed : n_bytes < needed)
		return inf_refuse(refusal, INF_INVALID_ARGUMENT, "%s_%u: %zu bytes, expected %s%zu", what, index,
			n_bytes, is_input && info->dynamism == ET_STATIC ? "" : "at least ", needed);
	void *data = inf_region_at(region->region, slot->offset, n_bytes);
	if (!data)
		return inf_refuse(refusal, INF_INVALID_ARGUMENT,
			"%s_%u: %zu bytes at offset %" PRIu64 " end beyond region %" PRIu64 ", which has %" PRIu64
			" bytes",
			what, index, n_bytes, slot->offset, slot->region, region->n_bytes);
	io->tensor.data = data;
	if (!is_input)
		io->tensor.n_bytes = n_bytes;
	b->room[at] = n_bytes;
	b->regions[at] = region;
	b->has_dma_buf = b->has_dma_buf || region->region->is_dma_buf;
	region->n_refs++;
	b->n_zero_copy += info->zero_copy;
	b->n_copied += !info->zero_copy;
	return true;
}

static bool take_slot(struct inf_binding *b, uint32_t at, const struct et_io_info *info, const struct inf_slot *slot,
	struct inf_refusal *refusal)
{
	bool is_input = at < b->n_inputs;
	uint32_t index = is_input ? at : at - b->n_inputs;
	const char *what = is_input ? "input" : "output";
	struct et_io *io = &b->bound[at];
	io->tag = info->tag;
	if (info->tag != ET_TAG_TENSOR) {
		if (slot->region)
			return inf_refuse(refusal, INF_INVALID_ARGUMENT,
				"%s_%u is %s, not a tensor: it can't be bound to a region", what, index,
				et_tag_name((enum et_tag)info->tag));
		return !is_input || take_scalar(info, index, &slot->scalar, io, refusal);
	}
	io->n_dims = info->n_dims;
	for (size_t i = 0; i < info->n_dims; i++)
		io->sizes[i] = info->sizes[i];
	io->tensor.n_bytes = info->n_bytes;
	if (is_input && slot->scalar.kind != INF_SCALAR_NONE)
		return inf_refuse(refusal, INF_INVALID_ARGUMENT, "input_%u: it is a tensor, and %s was given", index,
			scalar_names[slot->scalar.kind]);
	if (is_input && slot->n_shape && !take_shape(info, index, slot, io, refusal))
		return false;
	return take_memory(b, at, what, info, slot, refusal);
}

/* --- bindings ------------------------------------------------------------------------------------- */

static bool allocate(struct inf_binding *b, const struct et_plan_info *info)
{
	size_t n = (size_t)b->n_inputs + b->n_outputs;
	bool has_shapes = false;
	b->n_regions = (uint32_t)n;
	b->regions = calloc(n + 1, sizeof(*b->regions));
	b->bound = calloc(n + 1, sizeof(*b->bound));
	b->io = calloc(n + 1, sizeof(*b->io));
	b->room = calloc(n + 1, sizeof(*b->room));
	for (uint32_t i = 0; i < b->n_outputs; i++)
		has_shapes = has_shapes || info->outputs[i].tag != ET_TAG_TENSOR ||
			     info->outputs[i].dynamism != ET_STATIC;
	if (has_shapes) {
		b->shapes = calloc(b->n_outputs, sizeof(*b->shapes));
		b->dims = calloc(b->n_outputs, sizeof(*b->dims));
	}
	return b->regions && b->bound && b->io && b->room && (!has_shapes || (b->shapes && b->dims));
}

struct inf_binding *inf_binding_new(struct inf_session *session, struct inf_method *method,
	const struct inf_bind *request, struct inf_refusal *refusal)
{
	const struct et_plan_info *info = method->model->info;
	bool fits = request->n_inputs == info->n_inputs && request->n_outputs == info->n_outputs;
	struct inf_binding *b = fits ? calloc(1, sizeof(*b)) : NULL;
	if (!b) {
		inf_quota_discharge(session->user, INF_QUOTA_BINDINGS, 1);
		if (fits)
			inf_refuse(refusal, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory");
		else
			inf_refuse(refusal, INF_INVALID_ARGUMENT,
				"%zu inputs and %zu outputs were bound; the Method has %u and %u", request->n_inputs,
				request->n_outputs, info->n_inputs, info->n_outputs);
		return NULL;
	}
	bool ok = true;
	et_ref_init(&b->ref);
	b->session = inf_session_ref(session);
	b->method = method;
	method->n_refs++;
	b->user = session->user;
	b->n_inputs = info->n_inputs;
	b->n_outputs = info->n_outputs;
	inf_job_init(&b->job);
	if (!allocate(b, info))
		ok = inf_refuse(refusal, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory");
	for (uint32_t i = 0; i < b->n_inputs && ok; i++)
		ok = take_slot(b, i, &info->inputs[i], &request->inputs[i], refusal);
	for (uint32_t i = 0; i < b->n_outputs && ok; i++)
		ok = take_slot(b, b->n_inputs + i, &info->outputs[i], &request->outputs[i], refusal);
	if (!ok) {
		inf_binding_free(b);
		return NULL;
	}
	return b;
}

bool inf_binding_apply(struct inf_binding *b, const struct inf_infer *request, struct inf_refusal *refusal)
{
	const struct et_plan_info *info = b->method->model->info;
	memcpy(b->io, b->bound, b->n_regions * sizeof(*b->io));
	if (!request->n_inputs)
		return true;
	if (request->n_inputs != b->n_inputs)
		return inf_refuse(refusal, INF_INVALID_ARGUMENT, "%zu inputs were given; the Method has %u",
			request->n_inputs, b->n_inputs);
	for (uint32_t i = 0; i < b->n_inputs; i++) {
		const struct inf_slot *slot = &request->inputs[i];
		if (info->inputs[i].tag != ET_TAG_TENSOR) {
			if (!take_scalar(&info->inputs[i], i, &slot->scalar, &b->io[i], refusal))
				return false;
			continue;
		}
		if (slot->n_shape && !take_shape(&info->inputs[i], i, slot, &b->io[i], refusal))
			return false;
		if (b->io[i].tensor.n_bytes > b->room[i])
			return inf_refuse(refusal, INF_INVALID_ARGUMENT,
				"input_%u: this shape needs %zu bytes, and %zu are bound", i, b->io[i].tensor.n_bytes,
				b->room[i]);
	}
	return true;
}

/* The largest size of a frame for @model. */
static uint64_t frame_bytes(const struct inf_model *model)
{
	uint64_t n = 0;
	if (__builtin_add_overflow(model->info->n_activation_bytes, model->info->n_value_table_bytes, &n))
		return UINT64_MAX;
	return n;
}

bool inf_binding_charge_frame(struct inf_binding *b, char *why, size_t room)
{
	struct inf_model *model = b->method->model;
	b->job.frame_charge = INF_FRAME_FREE;
	if (!model->is_uploaded)
		return true;
	if (atomic_load_explicit(&model->n_covered, memory_order_relaxed) < inf_queues_n_workers(model->queues)) {
		atomic_fetch_add_explicit(&model->n_covered, 1, memory_order_relaxed);
		b->job.frame_charge = INF_FRAME_COVERED;
		return true;
	}
	uint64_t n = frame_bytes(model);
	char explained[300];
	if (inf_quota_charge(b->user, INF_QUOTA_BYTES, n)) {
		inf_quota_count_program(b->user, n);
		b->job.frame_charge = INF_FRAME_CHARGED;
		return true;
	}
	inf_quota_explain(b->user, INF_QUOTA_BYTES, n, explained, sizeof(explained));
	inf_text(why, room, "another run of '%.80s' at the same time needs %" PRIu64 " bytes; %s", model->model, n,
		explained);
	return false;
}

void inf_binding_discharge_frame(struct inf_binding *b)
{
	struct inf_model *model = b->method->model;
	if (b->job.frame_charge == INF_FRAME_COVERED)
		atomic_fetch_sub_explicit(&model->n_covered, 1, memory_order_relaxed);
	else if (b->job.frame_charge == INF_FRAME_CHARGED) {
		inf_quota_count_program(b->user, -frame_bytes(model));
		inf_quota_discharge(b->user, INF_QUOTA_BYTES, frame_bytes(model));
	}
	b->job.frame_charge = INF_FRAME_FREE;
}

struct inf_binding *inf_binding_ref(struct inf_binding *b)
{
	et_ref_get(&b->ref);
	return b;
}

void inf_binding_unref(struct inf_binding *b)
{
	if (b && et_ref_put(&b->ref))
		b->method->context->events.defer_free(b->method->context->events.self, b);
}

void inf_binding_drop(struct inf_binding *b)
{
	if (b && et_ref_put(&b->ref))
		inf_binding_free(b);
}

void inf_binding_free(struct inf_binding *b)
{
	for (uint32_t i = 0; i < b->n_regions && b->regions; i++)
		inf_client_region_unref(b->regions[i]);
	inf_quota_discharge(b->user, INF_QUOTA_BINDINGS, 1);
	inf_method_unref(b->method);
	inf_session_unref(b->session);
	free(b->regions);
	free(b->bound);
	free(b->io);
	free(b->room);
	free(b->shapes);
	free(b->dims);
	free(b);
}

static void end_access(const struct inf_binding *b, uint32_t n)
{
	while (n-- > 0)
		if (b->regions[n])
			inf_region_end_access(b->regions[n]->region, n >= b->n_inputs);
}

int inf_binding_begin_access(const struct inf_binding *b, uint64_t until_ns)
{
	for (uint32_t i = 0; i < b->n_regions && b->has_dma_buf; i++) {
		int rc = b->regions[i] ? inf_region_begin_access(b->regions[i]->region, i >= b->n_inputs, until_ns) : 0;
		if (rc < 0) {
			end_access(b, i);
			return rc;
		}
	}
	return 0;
}

void inf_binding_end_access(const struct inf_binding *b)
{
	if (b->has_dma_buf)
		end_access(b, b->n_regions);
}

const struct inf_client_region *inf_binding_faulted(const struct inf_binding *b)
{
	for (uint32_t i = 0; i < b->n_regions; i++)
		if (b->regions[i] && inf_region_faulted(b->regions[i]->region))
			return b->regions[i];
	return NULL;
}
