/* SPDX-License-Identifier: BSD-3-Clause */
/* Bindings: the memory of a Method's inputs and outputs, told to the daemon once for all requests.
 *
 * A binding references its Method and its regions, so they stay in memory until it is freed, even if the caller has
 * closed them. Changes between requests (shapes and scalars) are kept here and sent with the next request.
 *
 * In the region that inferd_bind makes, every tensor begins on its own cache line, or at the alignment that the
 * daemon asks for if that is larger. So two cores that write neighbouring tensors never share a line. Nothing here
 * copies a tensor.
 *
 * To bind to a new region is two steps: the daemon makes the region, then it binds. restore.c takes each when its time
 * has come, so neither this nor a restored binding needs a way of its own. */
#include "clients/libinferd/libinferd_internal.h"

#include "runtime/base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making a binding ---- */

/* A binding with empty arrays for the Method's inputs and outputs, in no list yet. NULL when out of memory. */
static struct inferd_binding *binding_new(struct inferd_method *m)
{
	struct inferd_binding *b = calloc(1, sizeof *b);
	if (!b)
		return NULL;
	et_pool_init(&b->pool, et_platform_allocator());
	et_list_init(&b->node);
	inf_lib_op_init(&b->op, INF_LIB_BIND);
	b->method = m;
	m->n_refs++;
	b->inputs = ET_POOL_NEW_ARRAY(&b->pool, struct inf_lib_place, m->is.n_inputs);
	b->outputs = ET_POOL_NEW_ARRAY(&b->pool, struct inf_lib_place, m->is.n_outputs);
	b->changes = ET_POOL_NEW_ARRAY(&b->pool, struct inf_slot, m->is.n_inputs);
	b->shapes = et_pool_array(&b->pool, m->is.n_inputs, sizeof *b->shapes);
	b->sent = ET_POOL_NEW_ARRAY(&b->pool, struct inf_slot, m->is.n_inputs);
	b->sent_shapes = et_pool_array(&b->pool, m->is.n_inputs, sizeof *b->shapes);
	b->slots = ET_POOL_NEW_ARRAY(&b->pool, struct inf_slot, m->is.n_inputs + m->is.n_outputs);
	b->results = ET_POOL_NEW_ARRAY(&b->pool, struct inf_lib_output, m->is.n_outputs);
	if (!b->inputs || !b->outputs || !b->changes || !b->shapes || !b->sent || !b->sent_shapes || !b->slots ||
		!b->results) {
		inf_lib_binding_free(b);
		return NULL;
	}
	for (size_t i = 0; i < m->is.n_outputs; i++) {
		b->results[i].n_dims = m->is.outputs[i].n_dims;
		memcpy(b->results[i].shape, m->is.outputs[i].shape, sizeof b->results[i].shape);
	}
	return b;
}

void inf_lib_binding_free(struct inferd_binding *b)
{
	et_list_remove(&b->node);
	inf_lib_op_drop(b->method->d, &b->op);
	b->method->program->is_lost |= b->is_unanswered &&
				       b->method->is.is_stateful; /* its answer is not seen any more */
	inf_lib_request_settle(b);
	for (size_t i = 0; b->inputs && i < b->method->is.n_inputs; i++)
		if (b->inputs[i].region)
			inf_lib_region_unref(b->inputs[i].region);
	for (size_t i = 0; b->outputs && i < b->method->is.n_outputs; i++)
		if (b->outputs[i].region)
			inf_lib_region_unref(b->outputs[i].region);
	inf_lib_method_unref(b->method);
	et_pool_deinit(&b->pool);
	free(b->profile);
	free(b);
}

enum inf_scalar_kind inf_lib_scalar_kind(const struct inferd_tensor_info *info)
{
	return !info->is_scalar                        ? INF_SCALAR_NONE
	       : strcmp(info->datatype, "INT") == 0    ? INF_SCALAR_INT
	       : strcmp(info->datatype, "DOUBLE") == 0 ? INF_SCALAR_DOUBLE
	       : strcmp(info->datatype, "BOOL") == 0   ? INF_SCALAR_BOOL
						       : INF_SCALAR_NONE;
}

/* Check one slot of the caller, and keep it. The place references its region. 0, or negative with the sentence
 * written. */
static int place(struct inferd *d, const struct inferd_tensor_info *info, const struct inferd_slot *slot, bool is_input,
	struct inf_lib_place *ret_place)
{
	if (info->is_scalar)
		return 0;
	if (!slot->region) {
		if (is_input)
			return inf_lib_fail(d, INFERD_INVALID_ARGUMENT, "%s: an input needs a region", info->name);
		return 0;
	}
	size_t n_bytes = slot->n_bytes ? slot->n_bytes : info->n_bytes;
	if (slot->offset % 64)
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT, "%s: offset %zu is not a multiple of 64", info->name,
			slot->offset);
	if (slot->region->d != d)
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT, "%s: its region belongs to another connection",
			info->name);
	if (!et_in_range(slot->offset, n_bytes, slot->region->n_bytes))
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT,
			"%s: %zu bytes at offset %zu do not fit a region of %zu", info->name, n_bytes, slot->offset,
			slot->region->n_bytes);
	slot->region->n_refs++;
	*ret_place = (struct inf_lib_place){ slot->region, slot->offset, n_bytes };
	return 0;
}

/* Whether two tensors have a byte in common. Two regions may be the same file. */
static bool overlap(const struct inf_lib_place *a, const struct inf_lib_place *b)
{
	if (!a->region || !b->region || a->offset >= b->offset + b->n_bytes || b->offset >= a->offset + a->n_bytes)
		return false;
	return a->region == b->region ||
	       (a->region->inode && a->region->inode == b->region->inode && a->region->device == b->region->device);
}

static int place_all(struct inferd_binding *b, const struct inferd_slot *inputs, const struct inferd_slot *outputs)
{
	const struct inferd_method *m = b->method;
	int rc = 0;
	for (size_t i = 0; i < m->is.n_inputs && !rc; i++) {
		rc = place(m->d, &m->is.inputs[i], &inputs[i], true, &b->inputs[i]);
		b->has_changes |= inf_lib_scalar_kind(&m->is.inputs[i]) != INF_SCALAR_NONE;
	}
	for (size_t i = 0; i < m->is.n_outputs && !rc; i++)
		rc = place(m->d, &m->is.outputs[i], &outputs[i], false, &b->outputs[i]);
	for (size_t i = 0; i < m->is.n_outputs && !rc; i++)
		for (size_t k = 0; k < m->is.n_inputs; k++)
			b->is_in_place |= overlap(&b->outputs[i], &b->inputs[k]);
	return rc;
}

static struct inf_slot slot_of(const struct inf_lib_place *at)
{
	return at->region ? (struct inf_slot){ .region = at->region->remote.id,
		.offset = at->offset,
		.byte_size = at->n_bytes }
			  : (struct inf_slot){ 0 };
}

void inf_lib_binding_ask(struct inferd_binding *b)
{
	const struct inferd_method *m = b->method;
	for (size_t i = 0; i < m->is.n_inputs; i++) {
		b->slots[i] = slot_of(&b->inputs[i]);
		/* Each request has the value; binding takes only the kind. */
		b->slots[i].scalar.kind = inf_lib_scalar_kind(&m->is.inputs[i]);
	}
	for (size_t i = 0; i < m->is.n_outputs; i++)
		b->slots[m->is.n_inputs + i] = slot_of(&b->outputs[i]);
	struct inf_request request = { .kind = INF_REQUEST_BIND,
		.bind = { .method = m->remote.id,
			.n_inputs = m->is.n_inputs,
			.inputs = b->slots,
			.n_outputs = m->is.n_outputs,
			.outputs = b->slots + m->is.n_inputs } };
	int rc = inf_lib_send(m->d, &request, NULL, 0);
	if (m->d->phase != INF_LIB_READY)
		return; /* lost: it is asked for again */
	if (!rc) {
		b->remote.state = INF_LIB_ASKED;
		b->remote.asked = request.id;
		return;
	}
	b->remote.state = INF_LIB_FAILED;
	b->remote.status = -rc;
	snprintf(b->remote.error, sizeof b->remote.error, "%s", m->d->error);
}

void inf_lib_binding_answered(struct inferd_binding *b, const struct inf_reply *reply)
{
	if (inf_lib_leave(b->method->d, reply)) {
		b->remote.state = INF_LIB_ABSENT;
		return;
	}
	if (reply->status != INF_OK || reply->kind != INF_REPLY_BOUND) {
		inf_lib_refused(&b->remote, reply, INF_REPLY_BOUND); /* inf_lib_advance ends what waits for it */
		return;
	}
	b->remote.state = INF_LIB_THERE;
	b->remote.id = reply->bound.binding;
	b->n_copied = reply->bound.copied;
	if (b->is_bound || b->op.state != INF_LIB_RUNNING)
		return;
	b->is_bound = true;
	inf_lib_op_end(b->method->d, &b->op, 0, "");
}

static void deliver_bound(struct inf_lib_op *op)
{
	struct inferd_binding *b = ET_CONTAINER_OF(op, struct inferd_binding, op);
	int status = op->status;
	if (!status)
		op->kind = INF_LIB_REQUEST;
	b->bound(b, status, b->bound_userdata);
}

/* Place tensors one after the other, from offset *n_bytes on. False: the offsets overflow. The caller sets the
 * regions. */
static bool lay_out(const struct inferd_tensor_info *infos, size_t n, size_t alignment, struct inferd_slot *slots,
	size_t *n_bytes)
{
	for (size_t i = 0; i < n; i++) {
		if (infos[i].is_scalar)
			continue;
		if (!et_align_up(*n_bytes, alignment, &slots[i].offset) ||
			!et_add(slots[i].offset, infos[i].n_bytes, n_bytes))
			return false;
	}
	return true;
}

/* Lay out all tensors in one new region, which the daemon is asked for later. 0, or negative with the sentence
 * written. */
static int place_in_new(struct inferd_binding *b)
{
	const struct inferd_method *m = b->method;
	struct inferd *d = m->d;
	size_t n = m->is.n_inputs + m->is.n_outputs, n_bytes = 0;
	struct inferd_slot *slots = ET_POOL_NEW_ARRAY(&b->pool, struct inferd_slot, n + 1);
	if (!slots)
		return inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED, "out of memory");
	if (!lay_out(m->is.inputs, m->is.n_inputs, d->tensor_alignment, slots, &n_bytes) ||
		!lay_out(m->is.outputs, m->is.n_outputs, d->tensor_alignment, slots + m->is.n_inputs, &n_bytes) ||
		!et_align_up(n_bytes ? n_bytes : 1, d->tensor_alignment, &n_bytes))
		return inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED, "the tensors are larger than the address space");
	b->own = inf_lib_region_new(d, n_bytes);
	if (!b->own)
		return -INFERD_RESOURCE_EXHAUSTED;
	for (size_t i = 0; i < n; i++)
		slots[i].region = b->own;
	return place_all(b, slots, slots + m->is.n_inputs);
}

/* Free @b and the region that was made for it, and tell the daemon. */
static void unbind(struct inferd_binding *b)
{
	struct inferd *d = b->method->d;
	struct inferd_region *own = b->own;
	inf_lib_tell_freed(d, &b->remote, INF_REQUEST_UNBIND);
	inf_lib_binding_free(b);
	inferd_region_free(own);
}

static int check_method(const struct inferd_method *m)
{
	if (m->d->phase == INF_LIB_LOST)
		return inf_lib_lost(m->d);
	if (m->is_closed)
		return inf_lib_fail(m->d, INFERD_FAILED_PRECONDITION, "the Method is closed");
	return m->is_open ? 0 : inf_lib_fail(m->d, INFERD_FAILED_PRECONDITION, "the Method is not open yet");
}

static int bind_to(struct inferd_method *m, struct inferd_binding **ret, const struct inferd_bind_options *options)
{
	struct inferd *d = m->d;
	bool is_new = !options->inputs && !options->outputs;
	int rc = check_method(m);
	if (rc)
		return rc;
	struct inferd_binding *b = binding_new(m);
	if (!b)
		return inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED, "out of memory");
	b->bound = options->bound;
	b->bound_userdata = options->userdata;
	rc = is_new ? place_in_new(b) : place_all(b, options->inputs, options->outputs);
	if (rc) {
		unbind(b);
		return rc;
	}
	et_list_append(&d->bindings, &b->node);
	inf_lib_op_begin(d, &b->op, options->timeout_us, b->bound ? deliver_bound : NULL);
	inf_lib_binding_retry(b);
	inf_lib_advance(d);
	if (b->bound) {
		*ret = b;
		inf_lib_settle(d);
		return 0;
	}
	rc = inf_lib_op_wait(d, &b->op);
	b->op.kind = INF_LIB_REQUEST;
	if (rc)
		unbind(b);
	else
		*ret = b;
	return rc;
}

int inferd_bind_with(struct inferd_method *m, struct inferd_binding **ret, const struct inferd_bind_options *given)
{
	struct inferd_bind_options options;
	int rc = inf_lib_take_options(m->d, &options, sizeof options, given);
	static const struct inferd_slot none[1];
	if (!rc && (options.inputs || options.outputs) &&
		((!options.inputs && m->is.n_inputs) || (!options.outputs && m->is.n_outputs)))
		rc = inf_lib_fail(m->d, INFERD_INVALID_ARGUMENT, "inputs and outputs must both be given, or neither");
	if (!rc && (options.inputs || options.outputs)) {
		options.inputs = options.inputs ? options.inputs : none;
		options.outputs = options.outputs ? options.outputs : none;
	}
	return rc ? rc : bind_to(m, ret, &options);
}

int inferd_bind(struct inferd_method *m, struct inferd_binding **ret)
{
	return bind_to(m, ret, &(struct inferd_bind_options){ 0 });
}

int inferd_bind_slots(struct inferd_method *m, struct inferd_binding **ret, const struct inferd_slot *inputs,
	const struct inferd_slot *outputs)
{
	return bind_to(m, ret, &(struct inferd_bind_options){ .inputs = inputs, .outputs = outputs });
}

void inferd_unbind(struct inferd_binding *b)
{
	if (!b)
		return;
	struct inferd *d = b->method->d;
	if (b->is_bound)
		inferd_cancel(b);
	unbind(b);
	inf_lib_settle(d);
}

/* ---- memory ---- */

static void *memory_of(const struct inf_lib_place *at)
{
	return at->region && at->region->mapping.bytes ? (uint8_t *)at->region->mapping.bytes + at->offset : NULL;
}

void *inferd_input(const struct inferd_binding *b, size_t index)
{
	return index < b->method->is.n_inputs ? memory_of(&b->inputs[index]) : NULL;
}

void *inferd_output(const struct inferd_binding *b, size_t index)
{
	return index < b->method->is.n_outputs ? memory_of(&b->outputs[index]) : NULL;
}

size_t inferd_n_copied(const struct inferd_binding *b)
{
	return b->n_copied;
}

/* ---- shapes and scalars ---- */

/* NULL, with the sentence written, if there is no such input. */
static const struct inferd_tensor_info *input_info(const struct inferd_binding *b, size_t index)
{
	const struct inferd_tensor_info *info = inferd_input_info(b->method, index);
	if (!info)
		inf_lib_fail(b->method->d, INFERD_INVALID_ARGUMENT, "there is no input %zu: the Method has %zu", index,
			b->method->is.n_inputs);
	return info;
}

int inferd_set_input_shape(struct inferd_binding *b, size_t index, const int64_t *shape, size_t n_dims)
{
	struct inferd *d = b->method->d;
	const struct inferd_tensor_info *info = input_info(b, index);
	if (!info)
		return -INFERD_INVALID_ARGUMENT;
	if (info->is_scalar || n_dims != info->n_dims)
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT, "%s has %zu dimensions, not %zu", info->name,
			info->n_dims, n_dims);
	for (size_t i = 0; i < n_dims; i++)
		if (!info->is_dynamic && shape[i] != info->shape[i])
			return inf_lib_fail(d, INFERD_INVALID_ARGUMENT,
				"%s: size %lld in dimension %zu, which is always %lld", info->name, (long long)shape[i],
				i, (long long)info->shape[i]);
	if (!inf_lib_shape_fits(info, shape, n_dims))
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT,
			"%s: a size is negative, or the shape has more elements than the largest shape", info->name);
	memcpy(b->shapes[index], shape, n_dims * sizeof *shape);
	b->changes[index].n_shape = n_dims;
	b->changes[index].shape = b->shapes[index];
	b->has_changes |= info->is_dynamic;
	return 0;
}

/* The place of a scalar input's value, its kind set. NULL, with the sentence written, if the input takes no number. */
static struct inf_scalar *scalar_input(struct inferd_binding *b, size_t index)
{
	const struct inferd_tensor_info *info = input_info(b, index);
	enum inf_scalar_kind kind = info ? inf_lib_scalar_kind(info) : INF_SCALAR_NONE;
	if (info && kind == INF_SCALAR_NONE)
		inf_lib_fail(b->method->d, INFERD_INVALID_ARGUMENT,
			info->is_scalar ? "%s takes no value: the program leaves it out"
					: "%s is a tensor, not a number",
			info->name);
	if (kind == INF_SCALAR_NONE)
		return NULL;
	b->changes[index].scalar.kind = kind;
	return &b->changes[index].scalar;
}

int inferd_set_scalar(struct inferd_binding *b, size_t index, double value)
{
	struct inf_scalar *scalar = scalar_input(b, index);
	if (!scalar)
		return -INFERD_INVALID_ARGUMENT;
	if (scalar->kind == INF_SCALAR_DOUBLE) {
		scalar->double_value = value;
	} else if (scalar->kind == INF_SCALAR_BOOL) {
		scalar->bool_value = value != 0;
	} else {
		if (!(value >= -0x1p63 && value < 0x1p63)) {
			scalar->kind = INF_SCALAR_NONE;
			return inf_lib_fail(b->method->d, INFERD_INVALID_ARGUMENT, "%g does not fit an integer", value);
		}
		scalar->int_value = (int64_t)value;
	}
	return 0;
}

int inferd_set_scalar_int(struct inferd_binding *b, size_t index, int64_t value)
{
	struct inf_scalar *scalar = scalar_input(b, index);
	if (!scalar)
		return -INFERD_INVALID_ARGUMENT;
	if (scalar->kind == INF_SCALAR_DOUBLE)
		scalar->double_value = (double)value;
	else if (scalar->kind == INF_SCALAR_BOOL)
		scalar->bool_value = value != 0;
	else
		scalar->int_value = value;
	return 0;
}

int inferd_output_shape(const struct inferd_binding *b, size_t index, int64_t shape[INFERD_MAX_DIMS])
{
	if (index >= b->method->is.n_outputs)
		return inf_lib_fail(b->method->d, INFERD_INVALID_ARGUMENT, "there is no output %zu: the Method has %zu",
			index, b->method->is.n_outputs);
	const struct inf_lib_output *result = &b->results[index];
	memcpy(shape, result->shape, result->n_dims * sizeof *shape);
	return (int)result->n_dims;
}

const char *inferd_output_datatype(const struct inferd_binding *b, size_t index)
{
	const struct inferd_tensor_info *info = inferd_output_info(b->method, index);
	if (!info || !info->is_scalar)
		return info ? info->datatype : NULL;
	switch (b->results[index].scalar.kind) {
	case INF_SCALAR_INT:
		return "INT";
	case INF_SCALAR_DOUBLE:
		return "DOUBLE";
	case INF_SCALAR_BOOL:
		return "BOOL";
	case INF_SCALAR_NONE:
		break;
	}
	return inf_lib_scalar_kind(info) == INF_SCALAR_NONE ? info->datatype : "None";
}

int inferd_output_scalar(const struct inferd_binding *b, size_t index, double *ret_value)
{
	const struct inf_scalar *scalar = index < b->method->is.n_outputs ? &b->results[index].scalar : NULL;
	switch (scalar ? scalar->kind : INF_SCALAR_NONE) {
	case INF_SCALAR_INT:
		*ret_value = (double)scalar->int_value;
		return 0;
	case INF_SCALAR_DOUBLE:
		*ret_value = scalar->double_value;
		return 0;
	case INF_SCALAR_BOOL:
		*ret_value = scalar->bool_value;
		return 0;
	case INF_SCALAR_NONE:
		break;
	}
	return inf_lib_fail(b->method->d, INFERD_INVALID_ARGUMENT, "output %zu was not a number in the last request",
		index);
}

int inferd_output_scalar_int(const struct inferd_binding *b, size_t index, int64_t *ret_value)
{
	const struct inf_scalar *scalar = index < b->method->is.n_outputs ? &b->results[index].scalar : NULL;
	if (scalar && scalar->kind == INF_SCALAR_INT)
		*ret_value = scalar->int_value;
	else if (scalar && scalar->kind == INF_SCALAR_BOOL)
		*ret_value = scalar->bool_value;
	else
		return inf_lib_fail(b->method->d, INFERD_INVALID_ARGUMENT,
			"output %zu was not an integer in the last request", index);
	return 0;
}
