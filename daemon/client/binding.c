/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods and bindings: checking once what every request then relies on.
 *
 * What is checked here is what decides an address: that a slot lies inside its region, that it is aligned, that a
 * shape has the rank and the bytes that the Plan says. The region's bytes themselves are the client's business and
 * may change at any moment. */
#include "daemon/client/binding.h"

#include "daemon/loop/server.h"
#include "daemon/client/session.h"
#include "daemon/base/text.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 3, 4))) static bool refuse(struct inf_refusal *refusal, enum inf_status status,
	const char *format, ...)
{
	va_list args;
	va_start(args, format);
	refusal->status = status;
	vsnprintf(refusal->text, sizeof(refusal->text), format, args);
	va_end(args);
	return false;
}

/* --- Methods -------------------------------------------------------------------------------------- */

/* What one run of @serving may take. */
static uint64_t frame_bytes(const struct inf_model *model)
{
	uint64_t n = 0;
	if (__builtin_add_overflow(model->info->n_activation_bytes, model->info->n_frame_bytes, &n))
		return UINT64_MAX;
	return n;
}

/* A Method costs its user its state; the first one of a program that the client has brought, all that was made of it, too:
 * what was decoded and packed, contexts, and a run on each worker. How much that is, up to all there is, says the
 * program. (Its files were charged before; requests beyond those are charged each: inf_binding_charge_frame.) False and
 * *refusal. */
static bool charge_method(struct inf_method *method, struct inf_refusal *refusal)
{
	struct inf_model *model = method->model;
	struct inf_model_use all = { 0 };
	char why[600];
	if (model->is_uploaded && !model->n_methods)
		all = inf_model_use(model);
	all.n_file = 0;
	uint64_t n_own = inf_model_total(&all), n_state = model->info->n_state_bytes, n;
	if (method->first != method)
		n_state -= model->info->n_shared_bytes;
	if (!inf_repository_has_room_for_state(method->server->repository, model, n_state, why, sizeof(why)))
		return refuse(refusal, INF_RESOURCE_EXHAUSTED, "there is no room for the state of '%.80s': %s",
			model->model, why);
	if (__builtin_add_overflow(n_state, n_own, &n))
		n = UINT64_MAX;
	if (!inf_quota_charge(method->user, INF_QUOTA_BYTES, n)) {
		inf_quota_explain(method->user, INF_QUOTA_BYTES, n, why, sizeof(why));
		return refuse(refusal, INF_RESOURCE_EXHAUSTED, "'%.80s' needs %" PRIu64 " bytes for %s; %s",
			model->model, n,
			!n_own    ? "its state"
			: n_state ? "its state, what is made of it and its runs"
				  : "what is made of it and its runs",
			why);
	}
	method->n_state_bytes = n_state;
	if (n_own)
		model->n_charged = n_own;
	return true;
}

static uint64_t take_charge(struct inf_model *model)
{
	uint64_t n = model->n_charged;
	model->n_charged = 0;
	return n;
}

/* What a client's own program had charged, or a large state, until all of it is given back. */
struct uploaded_charge {
	struct inf_quota_user *user;
	uint64_t n_bytes;
};

static void uploaded_gone(void *arg)
{
	struct uploaded_charge *charge = arg;
	inf_quota_discharge(charge->user, INF_QUOTA_BYTES, charge->n_bytes);
	inf_quota_user_unref(charge->user);
	free(charge);
}

/* The last Method of a client's own program goes: its charge stays until the program has gone too. */
static void leave_charge(struct inf_model *model, struct inf_quota_user *user, uint64_t n_bytes)
{
	struct uploaded_charge *charge = n_bytes && !model->gone ? malloc(sizeof(*charge)) : NULL;
	if (!charge) {
		inf_quota_discharge(user, INF_QUOTA_BYTES, n_bytes);
		return;
	}
	*charge = (struct uploaded_charge){ user, n_bytes };
	user->n_refs++;
	model->gone = uploaded_gone;
	model->gone_arg = charge;
}

/* Whether a Method on @serving can share the state of @first; else *refusal. */
static bool can_share(const struct inf_model *model, const struct inf_method *first, struct inf_refusal *refusal)
{
	if (first->is_changing || first->model->program != model->program)
		return refuse(refusal, INF_FAILED_PRECONDITION,
			"the Method to share with has changed to another variant of '%.80s' meanwhile; open "
			"both "
			"again",
			model->model);
	return (first->model->info->n_shared_bytes && model->info->n_shared_bytes) ||
	       refuse(refusal, INF_FAILED_PRECONDITION,
		       "methods '%.80s' and '%.80s' of '%.80s' have no buffers to share: they share those of "
		       "programs exported with share_mutable_buffers, where both use any",
		       first->model->method, model->method, model->model);
}

struct inf_method *inf_method_new(struct inf_server *server, struct inf_model *model, struct inf_quota_user *user,
	uint64_t n_uploaded_bytes, struct inf_method *with, struct inf_refusal *refusal)
{
	if (with && !can_share(model, with->first, refusal))
		return NULL;
	struct inf_method *method = calloc(1, sizeof(*method));
	if (!method) {
		refuse(refusal, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory");
		return NULL;
	}
	method->first = with ? with->first : method;
	method->model = model;
	method->user = user;
	method->server = server;
	if (!charge_method(method, refusal)) {
		free(method);
		return NULL;
	}
	method->n_refs = 1;
	if (with) {
		with->first->n_refs++;
		with->first->n_sharing++;
		model->n_sharing++;
	}
	inf_model_ref(model);
	method->n_uploaded_bytes = n_uploaded_bytes;
	inf_stream_init(&method->stream);
	model->n_methods++;
	return method;
}

bool inf_method_make_state(struct inf_method *method, struct inf_refusal *refusal)
{
	struct et_diag diag = { "" };
	const struct et_method *with = method->first->method; /* NULL: it is its own */
	enum et_status status = et_method_new_with(&method->method, method->model->plan, with, et_platform_allocator(),
		&diag);
	return status == ET_OK || refuse(refusal, INF_RESOURCE_EXHAUSTED, "no memory for the state of '%s': %s",
					  method->model->model, diag.text[0] ? diag.text : et_status_text(status));
}

bool inf_method_begins_long(const struct inf_model *model)
{
	enum { LONG = 1 << 20 };
	return model->info->n_reset_bytes >= LONG;
}

/* Free its state, what is not little beside the loop, and give @n_bytes back when it is gone. */
static void free_state(struct inf_method *method, uint64_t n_bytes)
{
	bool is_little = inf_repository_is_little(method->server->repository, method->n_state_bytes);
	struct uploaded_charge *charge = is_little ? NULL : malloc(sizeof(*charge));
	if (charge) {
		*charge = (struct uploaded_charge){ method->user, n_bytes };
		method->user->n_refs++;
		inf_repository_release_async_method(method->server->repository, method->method, method->n_state_bytes,
			uploaded_gone, charge);
	} else {
		et_method_free(method->method);
		inf_quota_discharge(method->user, INF_QUOTA_BYTES, n_bytes);
	}
}

static uint64_t more(uint64_t n, uint64_t than)
{
	return n > than ? n - than : 0;
}

bool inf_method_charge_change(struct inf_method *method, const struct inf_model *to, struct inf_refusal *refusal)
{
	uint64_t n_new = to->info->n_state_bytes, n_more = more(n_new, method->n_state_bytes);
	char why[600];
	if (!inf_repository_has_room_for_state(method->server->repository, to, n_new, why, sizeof(why)))
		return refuse(refusal, INF_RESOURCE_EXHAUSTED, "there is no room for its new state: %s", why);
	if (inf_quota_charge(method->user, INF_QUOTA_BYTES, n_more))
		return true;
	inf_quota_explain(method->user, INF_QUOTA_BYTES, n_more, why, sizeof(why));
	return refuse(refusal, INF_RESOURCE_EXHAUSTED, "its state would need %" PRIu64 " bytes; %s", n_new, why);
}

void inf_method_change_state(struct inf_method *method, const struct inf_model *to, struct et_method *state)
{
	uint64_t n_old = method->n_state_bytes, n_new = to->info->n_state_bytes;
	if (!state) {
		inf_quota_discharge(method->user, INF_QUOTA_BYTES, more(n_new, n_old));
		return;
	}
	et_method_lose(state);
	free_state(method, more(n_old, n_new));
	method->method = state;
	method->n_state_bytes = n_new;
}

struct inf_method *inf_method_unref(struct inf_method *method)
{
	if (!method || --method->n_refs)
		return NULL;
	struct inf_model *model = method->model;
	free_state(method, method->n_state_bytes);
	model->n_methods--;
	if (method->first != method) {
		model->n_sharing--;
		method->first->n_sharing--;
		if (method->first->model->successor) /* it may move now */
			inf_server_method_idle(method->server);
		inf_method_unref(method->first);
	}
	if (model->n_methods)
		inf_quota_discharge(method->user, INF_QUOTA_BYTES, method->n_uploaded_bytes);
	else
		leave_charge(model, method->user, method->n_uploaded_bytes + take_charge(model));
	inf_repository_method_gone(method->server->repository, model);
	inf_model_unref(model);
	inf_quota_discharge(method->user, INF_QUOTA_METHODS, 1);
	inf_quota_user_unref(method->user);
	free(method);
	return NULL;
}

/* --- slots ---------------------------------------------------------------------------------------- */

static void write_shape(char *to, size_t room, const int64_t *sizes, size_t n_dims)
{
	size_t n = inf_text(to, room, "[");
	for (size_t i = 0; i < n_dims && n < room; i++)
		n += inf_text(to + n, room - n, "%s%" PRId64, i ? "," : "", sizes[i]);
	if (n < room)
		inf_text(to + n, room - n, "]");
}

/* Take a client's shape for input @index into @io, with the bytes it needs. */
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
	return refuse(refusal, INF_INVALID_ARGUMENT, "input_%u: shape %s, expected %s%s", index, is,
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
		return refuse(refusal, INF_INVALID_ARGUMENT, "input_%u: %s was given, expected %s", index,
			scalar_names[scalar->kind], scalar_names[kind]);
	if (kind == INF_SCALAR_INT)
		io->i = scalar->int_value;
	else if (kind == INF_SCALAR_DOUBLE)
		io->d = scalar->double_value;
	else
		io->b = scalar->bool_value;
	return true;
}

/* Where one tensor lies. */
static bool take_memory(struct inf_binding *b, uint32_t at, const char *what, const struct et_io_info *info,
	const struct inf_slot *slot, struct inf_refusal *refusal)
{
	bool is_input = at < b->n_inputs;
	uint32_t index = is_input ? at : at - b->n_inputs;
	struct et_io *io = &b->bound[at];
	if (!slot->region && !is_input)
		return true; /* not wanted */
	struct inf_client_region *region = inf_client_region_find(b->session, slot->region);
	if (!region)
		return refuse(refusal, slot->region ? INF_NOT_FOUND : INF_INVALID_ARGUMENT,
			slot->region ? "%s_%u: no region %" PRIu64 " on this connection"
				     : "%s_%u: it is not bound to a region; region is %" PRIu64,
			what, index, slot->region);
	size_t needed = is_input ? io->tensor.n_bytes : info->n_bytes;
	size_t n_bytes = slot->byte_size ? slot->byte_size : needed;
	if (slot->offset % INF_TENSOR_ALIGNMENT)
		return refuse(refusal, INF_INVALID_ARGUMENT, "%s_%u: offset %" PRIu64 " is not a multiple of %d", what,
			index, slot->offset, INF_TENSOR_ALIGNMENT);
	if (is_input && info->dynamism == ET_STATIC ? n_bytes != needed : n_bytes < needed)
		return refuse(refusal, INF_INVALID_ARGUMENT, "%s_%u: %zu bytes, expected %s%zu", what, index, n_bytes,
			is_input && info->dynamism == ET_STATIC ? "" : "at least ", needed);
	void *data = inf_region_at(region->region, slot->offset, n_bytes);
	if (!data)
		return refuse(refusal, INF_INVALID_ARGUMENT,
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
			return refuse(refusal, INF_INVALID_ARGUMENT,
				"%s_%u is %s, not a tensor: it can't be bound to a region", what, index,
				et_tag_name((enum et_tag)info->tag));
		return !is_input || take_scalar(info, index, &slot->scalar, io, refusal);
	}
	io->n_dims = info->n_dims;
	for (size_t i = 0; i < info->n_dims; i++)
		io->sizes[i] = info->sizes[i];
	io->tensor.n_bytes = info->n_bytes;
	if (is_input && slot->scalar.kind != INF_SCALAR_NONE)
		return refuse(refusal, INF_INVALID_ARGUMENT, "input_%u: it is a tensor, and %s was given", index,
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
	struct inf_binding *b = NULL;
	bool ok = true;
	if (request->n_inputs != info->n_inputs || request->n_outputs != info->n_outputs) {
		ok = refuse(refusal, INF_INVALID_ARGUMENT,
			"%zu inputs and %zu outputs were bound; the Method has %u and %u", request->n_inputs,
			request->n_outputs, info->n_inputs, info->n_outputs);
	} else if (!(b = calloc(1, sizeof(*b)))) {
		ok = refuse(refusal, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory");
	}
	if (!ok) {
		inf_quota_discharge(session->user, INF_QUOTA_BINDINGS, 1);
		return NULL;
	}
	et_ref_init(&b->ref);
	b->session = inf_session_ref(session);
	b->method = method;
	method->n_refs++;
	b->user = session->user;
	b->n_inputs = info->n_inputs;
	b->n_outputs = info->n_outputs;
	inf_job_init(&b->job);
	if (!allocate(b, info))
		ok = refuse(refusal, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory");
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
		return refuse(refusal, INF_INVALID_ARGUMENT, "%zu inputs were given; the Method has %u",
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
			return refuse(refusal, INF_INVALID_ARGUMENT,
				"input_%u: this shape needs %zu bytes, and %zu are bound", i, b->io[i].tensor.n_bytes,
				b->room[i]);
	}
	return true;
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
	else if (b->job.frame_charge == INF_FRAME_CHARGED)
		inf_quota_discharge(b->user, INF_QUOTA_BYTES, frame_bytes(model));
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
		inf_server_defer_free(b->method->server, b);
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
