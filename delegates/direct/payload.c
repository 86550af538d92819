/* SPDX-License-Identifier: BSD-3-Clause */
/* Models of a built-in delegate: give it a payload where that lies in the program's file, with the store of that
 * file and of the data files beside it.
 *
 * The number of a program is its address: no two programs that exist at the same time share one. A payload without a
 * program counts as a program of its own. */
#include "delegates/direct/direct_internal.h"

#include "runtime/base/checked.h"

#include <string.h>

static enum et_status no_memory(struct et_diag *diag)
{
	return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a payload");
}

/* --- the program's file and its store -------------------------------------------------------------------- */

static int named_data(void *self, const char *key, const uint8_t **ret_bytes, uint64_t *ret_n_bytes)
{
	const struct et_model *model = self;
	size_t n_bytes;
	if (!key || !model->program || et_program_find_named_data(model->program, key, ret_bytes, &n_bytes) != ET_OK)
		return INFERD_DELEGATE_E_NOT_FOUND;
	*ret_n_bytes = n_bytes;
	return INFERD_DELEGATE_OK;
}

/* A place is the number of the file in the upper 16 bits, and the offset in the lower 48. */
enum { PLACE_BITS = 48 };

static void drop(void *self, const uint8_t *bytes, uint64_t n_bytes)
{
	const struct et_model *model = self;
	uint32_t number;
	const struct et_source *file = et_program_find_source(model->program, bytes, (size_t)n_bytes, &number);
	if (file && file->drop)
		file->drop(file->owner, (size_t)(bytes - file->bytes), (size_t)n_bytes);
}

static int place(void *self, const uint8_t *byte, uint64_t *ret_place)
{
	const struct et_model *model = self;
	uint32_t number;
	const struct et_source *file = et_program_find_source(model->program, byte, 1, &number);
	uint64_t offset = file ? (uint64_t)(byte - file->bytes) : 0;
	if (!file || offset >> PLACE_BITS || number >> (64 - PLACE_BITS))
		return INFERD_DELEGATE_E_NOT_FOUND;
	*ret_place = (uint64_t)number << PLACE_BITS | offset;
	return INFERD_DELEGATE_OK;
}

static int store_find(void *self, const char *key, const uint8_t **ret_bytes, size_t *ret_n_bytes, void **ret_handle)
{
	const struct et_model *model = self;
	enum et_status status = model->runtime_store->find(model->runtime_store->self, key, ret_bytes, ret_n_bytes,
		ret_handle);
	return et_convert_status(status, NULL, NULL);
}

static void store_release(void *self, void *handle)
{
	const struct et_model *model = self;
	model->runtime_store->release(model->runtime_store->self, handle);
}

static int store_keep(void *self, const char *key, const struct inferd_delegate_piece *pieces, size_t n_pieces,
	struct inferd_delegate_message *message)
{
	const struct et_model *model = self;
	struct et_diag diag = { "" };
	struct et_pool pool;
	et_pool_init(&pool, &model->backend->allocator);
	struct et_store_piece *runtime_pieces = ET_POOL_NEW_ARRAY(&pool, struct et_store_piece, n_pieces);
	for (size_t i = 0; runtime_pieces && i < n_pieces; i++)
		runtime_pieces[i] = (struct et_store_piece){ pieces[i].bytes, pieces[i].n_bytes };
	enum et_status status = runtime_pieces ? model->runtime_store->keep(model->runtime_store->self, key,
							 runtime_pieces, n_pieces, &diag)
					       : no_memory(&diag);
	et_pool_deinit(&pool);
	return et_convert_status(status, &diag, message);
}

/* --- payloads ---------------------------------------------------------------------------------------------- */

static bool take_pairs(struct et_model *model, const struct et_payload *from)
{
	struct et_direct_pairs specs, options;
	if (!et_direct_pairs_new(&specs, from->n_specs, &model->pool) ||
		!et_direct_pairs_new(&options, from->n_options, &model->pool))
		return false;
	for (uint32_t i = 0; i < from->n_specs; i++)
		if (!et_direct_pair_set(&specs, i, from->specs[i].key, from->specs[i].value, from->specs[i].n_bytes,
			    &model->pool))
			return false;
	for (uint32_t i = 0; i < from->n_options; i++)
		if (!et_direct_pair_set(&options, i, from->options[i].key, from->options[i].value,
			    strlen(from->options[i].value), &model->pool))
			return false;
	model->payload.specs = specs.pointers;
	model->payload.n_specs = from->n_specs;
	model->payload.options = options.pointers;
	model->payload.n_options = from->n_options;
	return true;
}

static bool take_payload(struct et_model *model, const struct et_payload *from)
{
	const struct et_source *file = from->program ? et_program_source(from->program) : NULL;
	model->program = from->program;
	model->runtime_store = from->store;
	model->payload = (struct inferd_delegate_payload){
		.struct_size = sizeof model->payload,
		.n_args = from->n_args,
		.bytes = from->bytes,
		.n_bytes = from->n_bytes,
		.fd = -1,
		.method = from->method ? from->method : "",
		.self = model,
		.named_data = named_data,
		.program = from->program ? (uintptr_t)from->program : (uintptr_t)model,
		.file = file ? file->bytes : NULL,
		.n_file_bytes = file ? file->n_bytes : 0,
		.drop = file ? drop : NULL,
		.place = file ? place : NULL,
		.store = model->runtime_store ? &model->store : NULL,
	};
	model->store = (struct inferd_delegate_store){
		.struct_size = sizeof model->store,
		.self = model,
		.find = store_find,
		.release = store_release,
		.keep = store_keep,
	};
	return take_pairs(model, from);
}

static struct et_model *model_new(struct et_backend *b, const struct et_payload *from)
{
	struct et_model *model = b->allocator.alloc(b->allocator.self, sizeof *model, _Alignof(struct et_model));
	if (!model)
		return NULL;
	*model = (struct et_model){ .backend = b };
	et_pool_init(&model->pool, &b->allocator);
	if (!take_payload(model, from)) {
		et_direct_model_free(model);
		return NULL;
	}
	return model;
}

void et_direct_model_free(struct et_model *model)
{
	if (!model)
		return;
	struct et_backend *b = model->backend;
	if (model->delegate_model)
		b->table.destroy(model->delegate_model);
	et_pool_deinit(&model->pool);
	b->allocator.free(b->allocator.self, model, sizeof *model);
}

/* Check what init found out, and keep it. */
static enum et_status take_info(struct et_model *model, const struct inferd_delegate_model_info *info,
	struct et_diag *diag)
{
	const struct et_backend *b = model->backend;
	enum { MAX_ARGS = 1 << 16 };
	model->is_on_threads = info->flags & INFERD_DELEGATE_ON_THREADS;
	model->n_inputs = info->n_inputs;
	model->n_outputs = info->n_outputs;
	model->device = info->device;
	model->n_scratch_bytes = info->scratch_bytes;
	if (info->device >= b->n_devices || info->n_inputs > MAX_ARGS || info->n_outputs > MAX_ARGS)
		return et_fail(diag, ET_E_INTERNAL, "%s chose device %u of %u, for %u inputs and %u outputs",
			b->table.name, info->device, b->n_devices, info->n_inputs, info->n_outputs);
	if (info->n_inputs + info->n_outputs != model->payload.n_args)
		return et_fail(diag, ET_E_INVALID_PROGRAM,
			"%s: a payload of %u inputs and %u outputs is called with %u arguments", b->table.id,
			info->n_inputs, info->n_outputs, model->payload.n_args);
	if (model->is_on_threads
			? !b->table.instance_on_threads || b->devices[model->device].kind != INFERD_DELEGATE_CPU
			: !b->table.instance_new)
		return et_fail(diag, ET_E_INTERNAL, "%s can't make instances of its own model", b->table.name);
	if (model->is_on_threads && (info->flags & INFERD_DELEGATE_STATEFUL))
		return et_fail(diag, ET_E_NOT_SUPPORTED,
			"%s made a model that is STATEFUL and ON_THREADS: an instance with a state belongs to a "
			"client, not to worker threads",
			b->table.name);
	if ((info->flags & INFERD_DELEGATE_STATEFUL) && !b->table.instance_reset)
		return et_fail(diag, ET_E_INTERNAL, "the payload is stateful, %s has no instance_reset", b->table.name);
	return ET_OK;
}

enum et_status et_direct_compile(struct et_backend *b, const struct et_payload *payload, struct et_model **ret_model,
	struct et_model_info *ret_info, struct et_diag *diag)
{
	struct inferd_delegate_model_info info = { .struct_size = sizeof info };
	struct inferd_delegate_message message;
	struct et_model *model = model_new(b, payload);
	if (!model)
		return no_memory(diag);
	et_direct_message_init(&message);
	int result = b->table.init(b->self, &model->payload, &model->delegate_model, &info, &message);
	if (result)
		model->delegate_model = NULL;
	enum et_status status = et_direct_status(result, &message, diag);
	if (!status)
		status = take_info(model, &info, diag);
	if (status) {
		et_direct_model_free(model);
		return status;
	}
	*ret_model = model;
	*ret_info = (struct et_model_info){
		.n_inputs = info.n_inputs,
		.n_outputs = info.n_outputs,
		.is_stateful = info.flags & INFERD_DELEGATE_STATEFUL,
		.drops_payload = info.flags & INFERD_DELEGATE_DROPS_PAYLOAD,
		.device = info.device,
		.n_bytes = sizeof *model + model->pool.n_bytes + (size_t)info.n_bytes,
		.instance_bytes = (size_t)info.scratch_bytes,
		.shared_bytes = (size_t)info.shared_bytes,
		.has_free_instances = !model->is_on_threads,
	};
	return ET_OK;
}

enum et_status et_direct_keep(struct et_model *model, struct et_diag *diag)
{
	struct inferd_delegate_message message;
	et_direct_message_init(&message);
	return et_direct_status(model->backend->table.keep(model->delegate_model, &message), &message, diag);
}

bool et_direct_preferred_order(const struct et_model *model, uint32_t arg, uint8_t *ret_order, uint32_t n_dims)
{
	uint8_t order[INFERD_DELEGATE_MAX_DIMS] = { 0 };
	if (n_dims > INFERD_DELEGATE_MAX_DIMS ||
		model->backend->table.preferred_order(model->delegate_model, arg, n_dims, order) != n_dims || !n_dims ||
		!et_dim_order_is_valid(order, n_dims))
		return false;
	memcpy(ret_order, order, n_dims);
	return true;
}

enum et_status et_direct_adopt_orders(struct et_model *model, const uint32_t *args, uint32_t n_args,
	struct et_diag *diag)
{
	struct inferd_delegate_message message;
	et_direct_message_init(&message);
	return et_direct_status(model->backend->table.adopt_orders(model->delegate_model, args, n_args, &message),
		&message, diag);
}

enum et_status et_direct_probe(struct et_backend *b, const struct et_payload *payload, enum et_readiness *ret_readiness,
	struct et_diag *diag)
{
	uint32_t readiness = INFERD_DELEGATE_NO;
	struct inferd_delegate_message message;
	struct et_model *model = model_new(b, payload);
	if (!model)
		return no_memory(diag);
	et_direct_message_init(&message);
	enum et_status status = et_direct_status(b->table.probe(b->self, &model->payload, &readiness, &message),
		&message, diag);
	et_direct_model_free(model);
	if (status)
		return status;
	if (message.text[0])
		et_fail(diag, ET_OK, "%.255s", message.text);
	*ret_readiness = et_convert_readiness(readiness);
	return ET_OK;
}
