/* SPDX-License-Identifier: BSD-3-Clause */
/* Bindings: the memory of a Method's inputs and outputs, told to the daemon once for all requests.
 *
 * A binding references its Method and its regions, so they stay in memory until it is freed, even if the caller has
 * closed them. Changes between requests (shapes and scalars) are kept here and sent with the next request.
 *
 * In the region that inferd_bind makes, every tensor begins on its own cache line, or at the alignment that the
 * daemon asks for if that is larger. So two cores that write neighbouring tensors never share a line. Nothing here
 * copies a tensor. */
#include "clients/libinferd/libinferd_internal.h"

#include "runtime/base/checked.h"

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
	et_list_init(&b->request_node);
	b->method = m;
	m->n_refs++;
	b->inputs = ET_POOL_NEW_ARRAY(&b->pool, struct inf_lib_place, m->n_inputs);
	b->outputs = ET_POOL_NEW_ARRAY(&b->pool, struct inf_lib_place, m->n_outputs);
	b->changes = ET_POOL_NEW_ARRAY(&b->pool, struct inf_slot, m->n_inputs);
	b->shapes = et_pool_array(&b->pool, m->n_inputs, sizeof *b->shapes);
	b->results = ET_POOL_NEW_ARRAY(&b->pool, struct inf_lib_output, m->n_outputs);
	if (!b->inputs || !b->outputs || !b->changes || !b->shapes || !b->results) {
		inf_lib_binding_free(b);
		return NULL;
	}
	for (size_t i = 0; i < m->n_outputs; i++) {
		b->results[i].n_dims = m->outputs[i].n_dims;
		memcpy(b->results[i].shape, m->outputs[i].shape, sizeof b->results[i].shape);
	}
	return b;
}

void inf_lib_binding_free(struct inferd_binding *b)
{
	et_list_remove(&b->node);
	et_list_remove(&b->request_node);
	for (size_t i = 0; b->inputs && i < b->method->n_inputs; i++)
		if (b->inputs[i].region)
			inf_lib_region_unref(b->inputs[i].region);
	for (size_t i = 0; b->outputs && i < b->method->n_outputs; i++)
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

/* Check one slot of the caller, write the place and the slot of the request. The place references its region. */
static int place(struct inferd *d, const struct inferd_tensor_info *info, const struct inferd_slot *slot, bool is_input,
	struct inf_lib_place *ret_place, struct inf_slot *ret_slot)
{
	*ret_slot = (struct inf_slot){ 0 };
	if (info->is_scalar) {
		/* Each request has the value; binding takes only the kind. */
		if (is_input)
			ret_slot->scalar = (struct inf_scalar){ .kind = inf_lib_scalar_kind(info) };
		return 0;
	}
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
	if (!et_in_range(slot->offset, n_bytes, slot->region->mapping.n_bytes))
		return inf_lib_fail(d, INFERD_INVALID_ARGUMENT,
			"%s: %zu bytes at offset %zu do not fit a region of %zu", info->name, n_bytes, slot->offset,
			slot->region->mapping.n_bytes);
	slot->region->n_refs++;
	ret_place->region = slot->region;
	ret_place->memory = (uint8_t *)slot->region->mapping.bytes + slot->offset;
	ret_slot->region = slot->region->id;
	ret_slot->offset = slot->offset;
	ret_slot->byte_size = n_bytes;
	return 0;
}

/* Fill in @b and @slots (inputs, then outputs) and send the request to bind. */
static int bind_to(struct inferd_binding *b, const struct inferd_slot *inputs, const struct inferd_slot *outputs,
	struct inf_slot *slots)
{
	struct inferd_method *m = b->method;
	int rc = 0;
	for (size_t i = 0; i < m->n_inputs && !rc; i++) {
		rc = place(m->d, &m->inputs[i], &inputs[i], true, &b->inputs[i], &slots[i]);
		b->has_changes |= inf_lib_scalar_kind(&m->inputs[i]) != INF_SCALAR_NONE;
	}
	for (size_t i = 0; i < m->n_outputs && !rc; i++)
		rc = place(m->d, &m->outputs[i], &outputs[i], false, &b->outputs[i], &slots[m->n_inputs + i]);
	if (rc)
		return rc;
	struct inf_request request = { .kind = INF_REQUEST_BIND,
		.bind = { .method = m->id,
			.n_inputs = m->n_inputs,
			.inputs = slots,
			.n_outputs = m->n_outputs,
			.outputs = slots + m->n_inputs } };
	rc = inf_lib_call(m->d, &request, NULL, 0, INF_REPLY_BOUND);
	if (rc)
		return rc;
	b->id = m->d->reply.bound.binding;
	b->n_copied = m->d->reply.bound.copied;
	return 0;
}

int inferd_bind_slots(struct inferd_method *m, struct inferd_binding **ret, const struct inferd_slot *inputs,
	const struct inferd_slot *outputs)
{
	if (m->is_closed)
		return inf_lib_fail(m->d, INFERD_FAILED_PRECONDITION, "the Method is closed");
	struct inferd_binding *b = binding_new(m);
	struct inf_slot *slots = b ? ET_POOL_NEW_ARRAY(&b->pool, struct inf_slot, m->n_inputs + m->n_outputs) : NULL;
	if (!slots) {
		if (b)
			inf_lib_binding_free(b);
		return inf_lib_fail(m->d, INFERD_RESOURCE_EXHAUSTED, "out of memory");
	}
	int rc = bind_to(b, inputs, outputs, slots);
	if (rc) {
		inf_lib_binding_free(b);
		return rc;
	}
	et_list_append(&m->d->bindings, &b->node);
	*ret = b;
	return 0;
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

int inferd_bind(struct inferd_method *m, struct inferd_binding **ret)
{
	struct inferd *d = m->d;
	size_t n = m->n_inputs + m->n_outputs, n_bytes = 0;
	struct inferd_slot *slots = calloc(n + 1, sizeof *slots);
	if (!slots)
		return inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED, "out of memory");
	struct inferd_region *region = NULL;
	int rc = 0;
	if (!lay_out(m->inputs, m->n_inputs, d->tensor_alignment, slots, &n_bytes) ||
		!lay_out(m->outputs, m->n_outputs, d->tensor_alignment, slots + m->n_inputs, &n_bytes) ||
		!et_align_up(n_bytes ? n_bytes : 1, d->tensor_alignment, &n_bytes))
		rc = inf_lib_fail(d, INFERD_RESOURCE_EXHAUSTED, "the tensors are larger than the address space");
	if (!rc)
		rc = inferd_region_new(d, &region, n_bytes);
	if (!rc) {
		for (size_t i = 0; i < n; i++)
			slots[i].region = region;
		rc = inferd_bind_slots(m, ret, slots, slots + m->n_inputs);
		/* The binding owns it: inferd_unbind frees it, and until then `inferctl status` counts it. */
		if (!rc)
			(*ret)->own = region;
		else
			inferd_region_free(region);
	}
	free(slots);
	return rc;
}

void inferd_unbind(struct inferd_binding *b)
{
	if (!b)
		return;
	struct inferd *d = b->method->d;
	struct inferd_region *own = b->own;
	if (b->state == INF_LIB_RUNNING)
		inferd_cancel(b);
	inf_lib_tell(d, &(struct inf_request){ .kind = INF_REQUEST_UNBIND, .unbind = { b->id } });
	inf_lib_binding_free(b);
	inferd_region_free(own);
}

/* ---- memory ---- */

void *inferd_input(const struct inferd_binding *b, size_t index)
{
	return index < b->method->n_inputs ? b->inputs[index].memory : NULL;
}

void *inferd_output(const struct inferd_binding *b, size_t index)
{
	return index < b->method->n_outputs ? b->outputs[index].memory : NULL;
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
			b->method->n_inputs);
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
	if (index >= b->method->n_outputs)
		return inf_lib_fail(b->method->d, INFERD_INVALID_ARGUMENT, "there is no output %zu: the Method has %zu",
			index, b->method->n_outputs);
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
	const struct inf_scalar *scalar = index < b->method->n_outputs ? &b->results[index].scalar : NULL;
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
	const struct inf_scalar *scalar = index < b->method->n_outputs ? &b->results[index].scalar : NULL;
	if (scalar && scalar->kind == INF_SCALAR_INT)
		*ret_value = scalar->int_value;
	else if (scalar && scalar->kind == INF_SCALAR_BOOL)
		*ret_value = scalar->bool_value;
	else
		return inf_lib_fail(b->method->d, INFERD_INVALID_ARGUMENT,
			"output %zu was not an integer in the last request", index);
	return 0;
}
