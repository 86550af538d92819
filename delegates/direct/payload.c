/* SPDX-License-Identifier: BSD-3-Clause */
/* Payloads, as a delegate in this process is given them: where they lie in the program's file, with the store that
 * belongs to that file and to the data files beside it.
 *
 * Programs are told apart by their address, which none that is there at the same time has; a payload that belongs to
 * none is a program of its own. */
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
	const struct et_model *c = self;
	size_t n_bytes;
	if (!key || !c->program || et_program_find_named_data(c->program, key, ret_bytes, &n_bytes) != ET_OK)
		return INFERD_DELEGATE_E_NOT_FOUND;
	*ret_n_bytes = n_bytes;
	return INFERD_DELEGATE_OK;
}

/* The number of the file stands in front of the place in it. */
enum { PLACE_BITS = 48 };

static void drop(void *self, const uint8_t *bytes, uint64_t n_bytes)
{
	const struct et_model *c = self;
	uint32_t number;
	const struct et_source *file = et_program_find_source(c->program, bytes, (size_t)n_bytes, &number);
	if (file && file->drop)
		file->drop(file->owner, (size_t)(bytes - file->bytes), (size_t)n_bytes);
}

static int place(void *self, const uint8_t *byte, uint64_t *ret_place)
{
	const struct et_model *c = self;
	uint32_t number;
	const struct et_source *file = et_program_find_source(c->program, byte, 1, &number);
	uint64_t offset = file ? (uint64_t)(byte - file->bytes) : 0;
	if (!file || offset >> PLACE_BITS || number >> (64 - PLACE_BITS))
		return INFERD_DELEGATE_E_NOT_FOUND;
	*ret_place = (uint64_t)number << PLACE_BITS | offset;
	return INFERD_DELEGATE_OK;
}

static int store_find(void *self, const char *key, const uint8_t **ret_bytes, size_t *ret_n_bytes, void **ret_handle)
{
	const struct et_model *c = self;
	enum et_status status = c->kept->find(c->kept->self, key, ret_bytes, ret_n_bytes, ret_handle);
	return et_interface_result(status, NULL, NULL);
}

static void store_release(void *self, void *handle)
{
	const struct et_model *c = self;
	c->kept->release(c->kept->self, handle);
}

static int store_keep(void *self, const char *key, const struct inferd_delegate_piece *pieces, size_t n_pieces,
	struct inferd_delegate_message *message)
{
	const struct et_model *c = self;
	struct et_diag diag = { "" };
	struct et_pool pool;
	et_pool_init(&pool, &c->backend->allocator);
	struct et_store_piece *own = ET_POOL_NEW_ARRAY(&pool, struct et_store_piece, n_pieces);
	for (size_t i = 0; own && i < n_pieces; i++)
		own[i] = (struct et_store_piece){ pieces[i].bytes, pieces[i].n_bytes };
	enum et_status status = own ? c->kept->keep(c->kept->self, key, own, n_pieces, &diag) : no_memory(&diag);
	et_pool_deinit(&pool);
	return et_interface_result(status, &diag, message);
}

/* --- payloads ---------------------------------------------------------------------------------------------- */

static bool take_pairs(struct et_model *c, const struct et_payload *from)
{
	struct et_direct_pairs specs, options;
	if (!et_direct_pairs_new(&specs, from->n_specs, &c->pool) ||
		!et_direct_pairs_new(&options, from->n_options, &c->pool))
		return false;
	for (uint32_t i = 0; i < from->n_specs; i++)
		if (!et_direct_pair_set(&specs, i, from->specs[i].key, from->specs[i].value, from->specs[i].n_bytes,
			    &c->pool))
			return false;
	for (uint32_t i = 0; i < from->n_options; i++)
		if (!et_direct_pair_set(&options, i, from->options[i].key, from->options[i].value,
			    strlen(from->options[i].value), &c->pool))
			return false;
	c->payload.specs = specs.pointers;
	c->payload.n_specs = from->n_specs;
	c->payload.options = options.pointers;
	c->payload.n_options = from->n_options;
	return true;
}

static bool take_payload(struct et_model *c, const struct et_payload *from)
{
	const struct et_source *file = from->program ? et_program_source(from->program) : NULL;
	c->program = from->program;
	c->kept = from->store;
	c->payload = (struct inferd_delegate_payload){
		.struct_size = sizeof c->payload,
		.n_args = from->n_args,
		.bytes = from->bytes,
		.n_bytes = from->n_bytes,
		.fd = -1,
		.method = from->method ? from->method : "",
		.self = c,
		.named_data = named_data,
		.program = from->program ? (uintptr_t)from->program : (uintptr_t)c,
		.file = file ? file->bytes : NULL,
		.n_file_bytes = file ? file->n_bytes : 0,
		.drop = file ? drop : NULL,
		.place = file ? place : NULL,
		.store = c->kept ? &c->store : NULL,
	};
	c->store = (struct inferd_delegate_store){
		.struct_size = sizeof c->store,
		.self = c,
		.find = store_find,
		.release = store_release,
		.keep = store_keep,
	};
	return take_pairs(c, from);
}

static struct et_model *model_new(struct et_backend *b, const struct et_payload *from)
{
	struct et_model *c = b->allocator.alloc(b->allocator.self, sizeof *c, _Alignof(struct et_model));
	if (!c)
		return NULL;
	*c = (struct et_model){ .backend = b };
	et_pool_init(&c->pool, &b->allocator);
	if (!take_payload(c, from)) {
		et_direct_model_free(c);
		return NULL;
	}
	return c;
}

void et_direct_model_free(struct et_model *c)
{
	if (!c)
		return;
	struct et_backend *b = c->backend;
	if (c->delegate_model)
		b->table.destroy(c->delegate_model);
	et_pool_deinit(&c->pool);
	b->allocator.free(b->allocator.self, c, sizeof *c);
}

/* What init found out, as far as it can be wrong. */
static enum et_status take_info(struct et_model *c, const struct inferd_delegate_model_info *info, struct et_diag *diag)
{
	const struct et_backend *b = c->backend;
	enum { MAX_ARGS = 1 << 16 };
	c->is_on_threads = info->flags & INFERD_DELEGATE_ON_THREADS;
	c->n_inputs = info->n_inputs;
	c->n_outputs = info->n_outputs;
	c->device = info->device;
	c->n_scratch_bytes = info->scratch_bytes;
	if (info->device >= b->n_devices || info->n_inputs > MAX_ARGS || info->n_outputs > MAX_ARGS)
		return et_fail(diag, ET_E_INTERNAL, "%s chose device %u of %u, for %u inputs and %u outputs",
			b->table.name, info->device, b->n_devices, info->n_inputs, info->n_outputs);
	if (info->n_inputs + info->n_outputs != c->payload.n_args)
		return et_fail(diag, ET_E_INVALID_PROGRAM,
			"%s: a payload of %u inputs and %u outputs is called with %u arguments", b->table.id,
			info->n_inputs, info->n_outputs, c->payload.n_args);
	if (c->is_on_threads ? !b->table.instance_on_threads || b->devices[c->device].kind != INFERD_DELEGATE_CPU
			     : !b->table.instance_new)
		return et_fail(diag, ET_E_INTERNAL, "%s can't make instances of its own model", b->table.name);
	if (c->is_on_threads && (info->flags & INFERD_DELEGATE_STATEFUL))
		return et_fail(diag, ET_E_NOT_SUPPORTED,
			"%s made a model that is STATEFUL and ON_LANE: an instance that remembers something "
			"belongs to a client, not to a worker's lane",
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
	struct et_model *c = model_new(b, payload);
	if (!c)
		return no_memory(diag);
	et_direct_message_init(&message);
	int result = b->table.init(b->self, &c->payload, &c->delegate_model, &info, &message);
	if (result)
		c->delegate_model = NULL;
	enum et_status status = et_direct_status(result, &message, diag);
	if (!status)
		status = take_info(c, &info, diag);
	if (status) {
		et_direct_model_free(c);
		return status;
	}
	*ret_model = c;
	*ret_info = (struct et_model_info){
		.n_inputs = info.n_inputs,
		.n_outputs = info.n_outputs,
		.is_stateful = info.flags & INFERD_DELEGATE_STATEFUL,
		.drops_payload = info.flags & INFERD_DELEGATE_DROPS_PAYLOAD,
		.device = info.device,
		.n_bytes = sizeof *c + c->pool.n_bytes + (size_t)info.n_bytes,
		.instance_bytes = (size_t)info.scratch_bytes,
		.has_free_instances = !c->is_on_threads,
	};
	return ET_OK;
}

enum et_status et_direct_keep(struct et_model *c, struct et_diag *diag)
{
	struct inferd_delegate_message message;
	et_direct_message_init(&message);
	return et_direct_status(c->backend->table.keep(c->delegate_model, &message), &message, diag);
}

bool et_direct_find_order(const struct et_model *c, uint32_t arg, uint8_t *ret_order, uint32_t n_dims)
{
	uint8_t order[INFERD_DELEGATE_MAX_DIMS] = { 0 };
	if (n_dims > INFERD_DELEGATE_MAX_DIMS ||
		c->backend->table.preferred_order(c->delegate_model, arg, n_dims, order) != n_dims || !n_dims ||
		!et_dim_order_is_valid(order, n_dims))
		return false;
	memcpy(ret_order, order, n_dims);
	return true;
}

enum et_status et_direct_take_orders(struct et_model *c, const uint32_t *args, uint32_t n_args, struct et_diag *diag)
{
	struct inferd_delegate_message message;
	et_direct_message_init(&message);
	return et_direct_status(c->backend->table.adopt_orders(c->delegate_model, args, n_args, &message), &message,
		diag);
}

enum et_status et_direct_probe(struct et_backend *b, const struct et_payload *payload, enum et_readiness *ret_readiness,
	struct et_diag *diag)
{
	uint32_t readiness = INFERD_DELEGATE_NO;
	struct inferd_delegate_message message;
	struct et_model *c = model_new(b, payload);
	if (!c)
		return no_memory(diag);
	et_direct_message_init(&message);
	enum et_status status = et_direct_status(b->table.probe(b->self, &c->payload, &readiness, &message), &message,
		diag);
	et_direct_model_free(c);
	if (status)
		return status;
	if (message.text[0])
		et_fail(diag, ET_OK, "%.255s", message.text);
	*ret_readiness = et_interface_readiness(readiness);
	return ET_OK;
}
