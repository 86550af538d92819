/* SPDX-License-Identifier: BSD-3-Clause */
/* Running a payload.
 *
 * A context owns an XNNPACK runtime; or several, where the payload is in parts (partition.h), with nodes of our own between
 * them. XNNPACK wants three steps before it runs: reshape (if an input's shape changed), setup (if any pointer changed),
 * invoke. Both are remembered, so that a run with the shapes and memory of the one before does nothing but the work.
 *
 * What parts hand to each other lies in the worker's memory, like XNNPACK's workspace: it is planned when shapes
 * change, taken then, and may have moved when this context runs again, because another one needed more.
 *
 * XNNPACK plans its workspace only when something grew, and that plan lets an operator write over its input where
 * the two had the same size at that time. They need not have it after a later reshape to smaller shapes. So a
 * changed shape always plans anew, which the older of its two setup functions does.
 *
 * A runtime that failed to reshape is in no defined state: it is deleted, and the next run makes another.
 *
 * A convolution of rows quantized at run time has a buffer of zeros for each picture of the batch, and reshaping to a
 * smaller batch loses those it has no use for any more. So a payload with one makes another runtime for other shapes; and one whose
 * transposed convolutions fall below their stride, or do so no longer, since what they make then is cut to a size that is part of
 * the graph. */
#include "delegates/xnnpack/instance.h"
#include "delegates/xnnpack/graph/kind.h"
#include "delegates/xnnpack/allocator.h"

#include "runtime/base/checked.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct inferd_delegate_instance {
	struct et_xnn_model *model;
	struct inferd_delegate_worker_threads *threads;
	struct et_pool pool;
	uint32_t flags;
	xnn_workspace_t workspace; /* the lane's; NULL: not taken */
	xnn_runtime_t *runtimes;   /* one a part; NULL: of our own nodes */
	bool is_made;              /* else they are to be made by the next run */
	bool was_reshaped;         /* ever, these runtimes */
	bool is_shaped;            /* in_shapes and out_shapes are what the runtimes have */
	bool is_set_up;            /* memory is what the runtimes have */
	bool is_empty; /* no output has elements: the runtimes have none of these shapes, and nothing to do */
	struct et_xnn_shape *in_shapes, *out_shapes;
	struct et_xnn_shape *shapes;          /* one a value */
	struct et_xnn_shape *made_for;        /* one a value: the runtimes' graphs; NULL: these know no shapes */
	void **memory;                        /* one a value: of arguments, and of what crosses parts */
	size_t *offsets;                      /* of what crosses parts, in the worker's memory */
	size_t n_between;                     /* bytes of that which all need together */
	int64_t n_counted;                    /* bytes told to the lane */
	void *between;                        /* where it was at the last setup */
	struct xnn_external_value *externals; /* scratch: for one part */
	uint32_t *ids;                        /* scratch: one a value */
	uint64_t *times_ns;                   /* one a part, or NULL: nobody wants to know */
	struct et_xnn_duplicates *duplicates; /* the payload's; NULL: it is one user's alone */
	struct et_xnn_duplicate duplicate;
};

/* The dtype an argument must have. */
static bool type_fits(const struct et_xnn_value *value, uint8_t type)
{
	if (value->is_index)
		return type == ET_INT64 || type == ET_INT32;
	switch (value->type) {
	case ET_XNN_FP32:
		return type == ET_FLOAT32;
	case ET_XNN_FP16:
		return type == ET_FLOAT16;
	case ET_XNN_BF16:
		return type == ET_BFLOAT16;
	case ET_XNN_QINT8:
		return type == ET_INT8 || type == ET_QINT8;
	case ET_XNN_QUINT8:
		return type == ET_UINT8 || type == ET_QUINT8;
	case ET_XNN_QINT32:
	case ET_XNN_INT32:
		return type == ET_INT32 || type == ET_QINT32;
	default:
		return false;
	}
}

static void drop_runtimes(struct inferd_delegate_instance *instance)
{
	for (uint32_t i = 0; instance->runtimes && i < instance->model->partitions.n_partitions; i++) {
		if (instance->runtimes[i])
			xnn_delete_runtime(instance->runtimes[i]);
		instance->runtimes[i] = NULL;
	}
	instance->is_made = instance->was_reshaped = instance->is_shaped = instance->is_set_up = false;
}

/* Remember that its runtimes are made for these shapes, one a value; NULL: the payload's own. */
static void note_shapes(struct inferd_delegate_instance *instance, const struct et_xnn_shape *shapes)
{
	const struct et_xnn_payload *payload = &instance->model->payload;
	for (uint32_t i = 0; instance->made_for && i < payload->n_values; i++)
		instance->made_for[i] = shapes ? shapes[i] : payload->values[i].shape;
}

/* As above. */
static enum et_status make_runtimes(struct inferd_delegate_instance *instance, const struct et_xnn_shape *shapes,
	struct et_diag *diag)
{
	const struct et_xnn_partitions *partitions = &instance->model->partitions;
	const struct et_xnn_runtime_use use = {
		.shapes = instance->made_for,
		.weights = et_xnn_weights_provider(instance->model->weights),
		.workspace = instance->workspace,
		.threads = instance->threads->threads,
		.flags = instance->flags,
	};
	note_shapes(instance, shapes);
	for (uint32_t i = 0; i < partitions->n_partitions; i++) {
		if (partitions->partitions[i].override)
			continue;
		enum et_status status = et_xnn_runtime_new(&instance->runtimes[i], partitions->partitions[i].graph,
			&use, instance->ids, diag);
		if (status != ET_OK) {
			instance->runtimes[i] = NULL;
			drop_runtimes(instance);
			return status;
		}
	}
	instance->is_made = true;
	return ET_OK;
}

/* The lane's workspace, and runtimes in it: those that were made to try the payload, if they can be had. */
static enum et_status make_first_runtimes(struct inferd_delegate_instance *instance, struct et_diag *diag)
{
	struct et_xnn_model *model = instance->model;
	instance->is_made = !instance->flags && et_xnn_rehearsals_take(model->rehearsals, model->prebuilt,
							instance->threads, instance->runtimes);
	enum et_status status = et_xnn_threads_take_workspace(instance->threads, &instance->workspace, diag);
	if (status == ET_OK && !instance->is_made)
		return make_runtimes(instance, NULL, diag);
	note_shapes(instance, NULL);
	return status;
}

/* Whether XNNPACK loses memory when it reshapes this to less. */
static bool loses_zeros(const struct et_xnn_payload *payload)
{
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		if (node->kind && node->kind->has_filter && node->kind->infer != et_xnn_infer_fully_connected &&
			payload->values[node->inputs[0]].quant == ET_XNN_QUANT_ROW)
			return true;
	}
	return false;
}

static enum et_status refuse(struct inferd_delegate_instance *instance, enum xnn_status status, const char *what,
	struct et_diag *diag)
{
	drop_runtimes(instance);
	return et_fail(diag, et_xnn_status_of(status), "XNNPACK can't %s: %s", what, et_xnn_status_text(status));
}

/* Whether XNNPACK may be given this argument. */
static enum et_status check_arg(const struct et_xnn_value *value, const struct inferd_delegate_arg *arg,
	const char *side, struct et_diag *diag)
{
	if (arg->kind != INFERD_DELEGATE_TENSOR)
		return et_fail(diag, ET_E_INVALID_TYPE, "XNNPACK: %s %u is %s, expected a tensor", side,
			value->external_id, et_tag_name((enum et_tag)arg->kind));
	if (!type_fits(value, arg->type))
		return et_fail(diag, ET_E_INVALID_TYPE, "XNNPACK: %s %u is %s, the payload says %s", side,
			value->external_id, et_scalar_name((enum et_scalar_type)arg->type),
			value->is_index ? "indexes" : et_xnn_type_name(value->type));
	if (!arg->data)
		return et_fail(diag, ET_E_INVALID_STATE, "XNNPACK: %s %u has no memory", side, value->external_id);
	return ET_OK;
}

/* XNNPACK sees a tensor as it lies in memory: outermost dimension first. */
static enum et_status physical_shape(const struct et_xnn_value *value, const struct inferd_delegate_arg *tensor,
	struct et_xnn_shape *ret_shape, struct et_diag *diag)
{
	if (tensor->n_dims == 0 && value->shape.n_dims == 1) {
		/* The exporter writes a single number as one dimension of size 1. */
		*ret_shape = (struct et_xnn_shape){ .n_dims = 1, .dims = { 1 } };
		return ET_OK;
	}
	if (tensor->n_dims != value->shape.n_dims)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "XNNPACK: input %u has %u dimensions, expected %u",
			value->external_id, tensor->n_dims, value->shape.n_dims);
	struct et_xnn_shape shape = { .n_dims = tensor->n_dims };
	for (uint32_t i = 0; i < tensor->n_dims; i++) {
		int32_t size = tensor->sizes[tensor->dim_order[i]];
		if (size < 0)
			return et_fail(diag, ET_E_INVALID_ARGUMENT, "XNNPACK: input %u has a negative size",
				value->external_id);
		shape.dims[i] = (size_t)size;
	}
	*ret_shape = shape;
	return ET_OK;
}

/* Something joined to nothing, as where a cache begins: the one thing with an empty input that XNNPACK is asked for. */
static bool joins_nothing(const struct inferd_delegate_instance *instance)
{
	const struct et_xnn_payload *payload = &instance->model->payload;
	for (uint32_t i = 0; i < payload->n_nodes; i++) {
		const struct et_xnn_node *node = &payload->nodes[i];
		bool is_empty = false;
		for (uint32_t j = 0; j < node->kind->n_inputs && !node->is_gone; j++)
			is_empty = is_empty || (node->inputs[j] != ET_XNN_NONE &&
						       et_xnn_is_empty(&instance->shapes[node->inputs[j]]));
		if (is_empty && (node->kind->infer != et_xnn_infer_concatenate ||
					et_xnn_is_empty(&instance->shapes[node->outputs[0]])))
			return false;
	}
	return true;
}

/* XNNPACK is not given what makes nothing. */
static enum et_status settle_empty(struct inferd_delegate_instance *instance, struct et_diag *diag)
{
	const struct et_xnn_payload *payload = &instance->model->payload;
	instance->is_empty = false;
	for (uint32_t i = 0; i < payload->n_inputs && !instance->is_empty; i++)
		instance->is_empty = et_xnn_is_empty(&instance->in_shapes[i]);
	if (!instance->is_empty)
		return ET_OK;
	if (joins_nothing(instance)) {
		instance->is_empty = false;
		return ET_OK;
	}
	for (uint32_t i = 0; i < payload->n_outputs; i++) {
		instance->out_shapes[i] = instance->shapes[payload->outputs[i]];
		if (!et_xnn_is_empty(&instance->out_shapes[i]))
			return et_fail(diag, ET_E_INVALID_ARGUMENT, "XNNPACK: an input is empty, but output %u is not",
				payload->values[payload->outputs[i]].external_id);
	}
	instance->is_shaped = true;
	return ET_OK;
}

/* Tell XNNPACK the shapes that a part reads; those that it writes must come out as ours. */
static enum et_status reshape_part(struct inferd_delegate_instance *instance, uint32_t index, struct et_diag *diag)
{
	const struct et_xnn_partition *partition = &instance->model->partitions.partitions[index];
	const struct et_xnn_payload *graph = partition->graph;
	xnn_runtime_t runtime = instance->runtimes[index];
	enum xnn_status status;
	for (uint32_t i = 0; i < graph->n_inputs; i++) {
		const struct et_xnn_shape *shape = &instance->shapes[et_xnn_partition_outer(partition, i)];
		status = xnn_reshape_external_value(runtime, et_xnn_partition_id(partition, i), shape->n_dims,
			shape->dims);
		if (status != xnn_status_success)
			return refuse(instance, status, "take an input's shape", diag);
	}
	status = et_xnn_settle(xnn_reshape_runtime(runtime));
	if (status != xnn_status_success)
		return refuse(instance, status, "work with the inputs' shapes", diag);
	for (uint32_t i = graph->n_inputs; i < graph->n_inputs + graph->n_outputs; i++) {
		const struct et_xnn_shape *expected = &instance->shapes[et_xnn_partition_outer(partition, i)];
		struct et_xnn_shape shape = { 0 };
		size_t n_dims = 0;
		status = xnn_get_external_value_shape(runtime, et_xnn_partition_id(partition, i), &n_dims, shape.dims);
		if (status != xnn_status_success)
			return refuse(instance, status, "tell an output's shape", diag);
		if (n_dims != expected->n_dims ||
			memcmp(shape.dims, expected->dims, n_dims * sizeof(*shape.dims)) != 0) {
			drop_runtimes(instance);
			return et_fail(diag, ET_E_INTERNAL, "XNNPACK: value %u has not the shape that its graph makes",
				instance->model->payload.values[et_xnn_partition_outer(partition, i)].id);
		}
	}
	return ET_OK;
}

/* Memory for what crosses parts. */
static enum et_status plan_between(struct inferd_delegate_instance *instance, struct et_diag *diag)
{
	const struct et_xnn_partitions *partitions = &instance->model->partitions;
	instance->n_between = 0;
	if (!partitions->n_boundaries)
		return ET_OK;
	if (!et_xnn_partitions_plan(partitions, instance->shapes, instance->offsets, instance->ids,
		    &instance->n_between) ||
		!et_xnn_threads_memory(instance->threads, instance->n_between))
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for an XNNPACK run");
	return ET_OK;
}

/* The inputs' shapes are in in_shapes: see what becomes of them, then tell XNNPACK. */
static enum et_status reshape(struct inferd_delegate_instance *instance, struct et_diag *diag)
{
	const struct et_xnn_payload *payload = &instance->model->payload;
	instance->is_shaped = instance->is_set_up = false;
	for (uint32_t i = 0; i < payload->n_inputs; i++)
		instance->shapes[payload->inputs[i]] = instance->in_shapes[i];
	size_t n_bytes;
	enum et_status inferred = et_xnn_infer_shapes(payload, instance->shapes, diag);
	if (inferred == ET_OK)
		inferred = settle_empty(instance, diag);
	if (inferred == ET_OK && instance->is_empty)
		return ET_OK;
	if (inferred == ET_OK)
		inferred = et_xnn_check_theirs(payload, instance->shapes, diag);
	if (inferred == ET_OK)
		inferred = et_xnn_check_memory(payload, instance->shapes, instance->ids,
			instance->model->max_instance_bytes, &n_bytes, diag);
	if (inferred != ET_OK)
		return inferred;
	bool is_for_others = instance->made_for && !et_xnn_is_cut_alike(payload, instance->made_for, instance->shapes);
	if (is_for_others || (instance->was_reshaped && loses_zeros(payload))) {
		drop_runtimes(instance);
		inferred = make_runtimes(instance, instance->shapes, diag);
		if (inferred != ET_OK)
			return inferred;
	}

	et_xnn_threads_drop_spares(instance->threads);
	instance->was_reshaped = true;
	for (uint32_t i = 0; i < instance->model->partitions.n_partitions && inferred == ET_OK; i++)
		if (instance->runtimes[i])
			inferred = reshape_part(instance, i, diag);
	if (inferred == ET_OK)
		inferred = plan_between(instance, diag);
	if (inferred != ET_OK)
		return inferred;
	for (uint32_t i = 0; i < payload->n_outputs; i++)
		instance->out_shapes[i] = instance->shapes[payload->outputs[i]];
	instance->is_shaped = true;
	et_xnn_threads_count(instance->threads, 0);
	return ET_OK;
}

/* Give an output the shape that comes out. */
static enum et_status resize_output(const struct et_xnn_value *value, const struct et_xnn_shape *shape,
	struct inferd_delegate_arg *arg, struct et_diag *diag)
{
	if (arg->n_dims == 0 && shape->n_dims == 1 && shape->dims[0] == 1)
		return ET_OK; /* see physical_shape */
	bool fits = arg->n_dims == shape->n_dims, is_same = fits;
	for (uint32_t i = 0; i < shape->n_dims && fits; i++) {
		int32_t *size = &arg->sizes[arg->dim_order[i]];
		is_same = is_same && *size == (int32_t)shape->dims[i]; /* below 2^31: shape.c */
		*size = (int32_t)shape->dims[i];
	}
	if (is_same)
		return ET_OK;
	fits = fits && !(arg->flags & INFERD_DELEGATE_FIXED_SIZES);
	size_t n_bytes = et_scalar_size((enum et_scalar_type)arg->type);
	for (uint32_t i = 0; i < shape->n_dims && fits; i++)
		fits = et_mul(n_bytes, shape->dims[i], &n_bytes);
	if (fits && n_bytes <= arg->n_bytes)
		return ET_OK;
	char text[128];
	et_xnn_shape_text(shape, text, sizeof(text));
	return et_fail(diag, ET_E_NOT_SUPPORTED, "XNNPACK: output %u comes out as %s, which its tensor can't take",
		value->external_id, text);
}

static enum et_status set_up(struct inferd_delegate_instance *instance, bool plans_anew, struct et_diag *diag)
{
	const struct et_xnn_partitions *partitions = &instance->model->partitions;
	uint8_t *between = partitions->n_boundaries ? et_xnn_threads_memory(instance->threads, instance->n_between)
						    : NULL;
	if (partitions->n_boundaries && !between)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for an XNNPACK run");
	const struct et_xnn_payload *payload = &instance->model->payload;
	for (uint32_t i = 0; i < payload->n_inputs + payload->n_outputs; i++) {
		uint32_t arg = i < payload->n_inputs ? payload->inputs[i] : payload->outputs[i - payload->n_inputs];
		if (payload->values[arg].seen_as != ET_XNN_NONE)
			instance->memory[payload->values[arg].seen_as] = instance->memory[arg];
	}
	for (uint32_t i = 0; i < partitions->n_boundaries; i++)
		instance->memory[partitions->boundaries[i].value] = between + instance->offsets[i];
	for (uint32_t i = 0; i < partitions->n_partitions; i++) {
		const struct et_xnn_partition *partition = &partitions->partitions[i];
		xnn_runtime_t runtime = instance->runtimes[i];
		if (!runtime)
			continue;
		size_t n = partition->graph->n_inputs + partition->graph->n_outputs;
		for (uint32_t j = 0; j < n; j++)
			instance->externals[j] = (struct xnn_external_value){ et_xnn_partition_id(partition, j),
				instance->memory[et_xnn_partition_outer(partition, j)] };
		enum xnn_status status = plans_anew ? xnn_setup_runtime(runtime, n, instance->externals)
						    : xnn_setup_runtime_v2(runtime, n, instance->externals);
		status = et_xnn_settle(status);
		if (status != xnn_status_success)
			return refuse(instance, status, "set its operators up", diag);
	}
	instance->between = between;
	instance->is_set_up = true;
	et_xnn_threads_count(instance->threads, 0);
	return ET_OK;
}

/* XNNPACK writes indexes as 32-bit integers; a 64-bit tensor has room for both, so they are widened in place,
 * the last one first. */
static void widen_indexes(const struct inferd_delegate_arg *tensor, const struct et_xnn_shape *shape)
{
	size_t n = 1;
	for (uint32_t i = 0; i < shape->n_dims; i++)
		n *= shape->dims[i];
	for (size_t i = n; i > 0; i--) {
		int32_t index;
		memcpy(&index, (const uint8_t *)tensor->data + (i - 1) * sizeof(index), sizeof(index));
		int64_t wide = index;
		memcpy((uint8_t *)tensor->data + (i - 1) * sizeof(wide), &wide, sizeof(wide));
	}
}

/* Everything before the work: shapes, memory. */
static enum et_status get_ready(struct inferd_delegate_instance *instance, const struct et_xnn_input_slices *slices,
	struct inferd_delegate_arg *const *args, struct et_diag *diag)
{
	uint32_t next = 0; /* of the starts */
	const struct et_xnn_payload *payload = &instance->model->payload;
	enum et_status status = ET_OK;
	if (!instance->is_made) {
		status = make_runtimes(instance, NULL, diag);
		if (status != ET_OK)
			return status;
	}

	for (uint32_t i = 0; i < payload->n_inputs; i++) {
		const struct et_xnn_value *value = &payload->values[payload->inputs[i]];
		const struct inferd_delegate_arg *tensor = args[value->external_id];
		struct et_xnn_shape shape;
		uint8_t *data = tensor->data;
		status = check_arg(value, tensor, "input", diag);
		if (status == ET_OK)
			status = physical_shape(value, tensor, &shape, diag);
		if (status == ET_OK && next < slices->n_slices && slices->slices[next].input == i)
			status = et_xnn_input_slice_apply(&slices->slices[next++], value, &shape, &data, diag);
		if (status != ET_OK)
			return status;
		if (memcmp(&shape, &instance->in_shapes[i], sizeof(shape)) != 0) {
			instance->in_shapes[i] = shape;
			instance->is_shaped = false;
		}
		if (instance->memory[payload->inputs[i]] != data) {
			instance->memory[payload->inputs[i]] = data;
			instance->is_set_up = false;
		}
	}
	bool is_reshaped = !instance->is_shaped;
	if (is_reshaped) {
		status = reshape(instance, diag);
		if (status != ET_OK)
			return status;
	}
	for (uint32_t i = 0; i < payload->n_outputs; i++) {
		const struct et_xnn_value *value = &payload->values[payload->outputs[i]];
		struct inferd_delegate_arg *tensor = args[value->external_id];
		status = check_arg(value, tensor, "output", diag);
		if (status == ET_OK)
			status = resize_output(value, &instance->out_shapes[i], tensor, diag);
		if (status != ET_OK) {
			instance->is_shaped = !is_reshaped; /* or the next run would forget to plan anew */
			return status;
		}
		if (instance->memory[payload->outputs[i]] != tensor->data) {
			instance->memory[payload->outputs[i]] = tensor->data;
			instance->is_set_up = false;
		}
	}
	if (instance->is_empty)
		return ET_OK;
	bool has_moved = instance->n_between &&
			 et_xnn_threads_memory(instance->threads, instance->n_between) != instance->between;
	return instance->is_set_up && !has_moved ? ET_OK : set_up(instance, is_reshaped, diag);
}

static void finish_outputs(const struct inferd_delegate_instance *instance, struct inferd_delegate_arg *const *args)
{
	const struct et_xnn_payload *payload = &instance->model->payload;
	for (uint32_t i = 0; i < payload->n_outputs; i++) {
		const struct et_xnn_value *value = &payload->values[payload->outputs[i]];
		const struct inferd_delegate_arg *tensor = args[value->external_id];
		if (value->is_index && tensor->type == ET_INT64)
			widen_indexes(tensor, &instance->out_shapes[i]);
	}
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static enum xnn_status invoke(struct inferd_delegate_instance *instance)
{
	if (instance->is_empty)
		return xnn_status_success;
	struct inferd_delegate_worker_threads *threads = instance->threads;
	const struct et_xnn_model *model = instance->model;
	struct et_xnn_override_run override = {
		.payload = &model->payload, .shapes = instance->shapes, .memory = instance->memory, .threads = threads
	};
	threads->is_awake = threads->threads != NULL;
	for (uint32_t i = 0; i < model->partitions.n_partitions; i++) {
		const struct et_xnn_partition *partition = &model->partitions.partitions[i];
		if (!partition->override) {
			enum xnn_status status = xnn_invoke_runtime(instance->runtimes[i]);
			if (status != xnn_status_success)
				return status;
			continue;
		}
		uint64_t began = instance->times_ns ? now_ns() : 0;
		override.node = partition->node;
		override.packed = partition->packed;
		threads->flushes = true;
		partition->override->run(&override);
		threads->flushes = false;
		if (instance->times_ns)
			instance->times_ns[i] = now_ns() - began;
	}
	return xnn_status_success;
}

enum et_status et_xnn_instance_run(struct inferd_delegate_instance *instance, const struct et_xnn_input_slices *slices,
	struct inferd_delegate_arg *const *args, struct et_diag *diag)
{
	enum et_status status = get_ready(instance, slices, args, diag);
	if (status != ET_OK)
		return status;
	enum xnn_status ran = invoke(instance);
	if (ran != xnn_status_success)
		return refuse(instance, ran, "run", diag);
	finish_outputs(instance, args);
	return ET_OK;
}

/* Whole microseconds are all that XNNPACK says. */
static void tell_operators(struct inferd_delegate_instance *instance, xnn_runtime_t runtime,
	const struct inferd_delegate_run *run)
{
	size_t n = 0, n_names = 0, n_needed = 0;
	if (xnn_get_runtime_profiling_info(runtime, xnn_profile_info_num_operators, sizeof(n), &n, &n_needed) !=
			xnn_status_success ||
		xnn_get_runtime_profiling_info(runtime, xnn_profile_info_operator_name, 0, NULL, &n_names) !=
			xnn_status_out_of_memory)
		return;
	char *names = ET_POOL_NEW_ARRAY(&instance->pool, char, n_names + 1);
	uint64_t *times_us = ET_POOL_NEW_ARRAY(&instance->pool, uint64_t, n);
	if (!names || !times_us ||
		xnn_get_runtime_profiling_info(runtime, xnn_profile_info_operator_name, n_names, names, &n_needed) !=
			xnn_status_success ||
		xnn_get_runtime_profiling_info(runtime, xnn_profile_info_operator_timing, n * sizeof(*times_us),
			times_us, &n_needed) != xnn_status_success)
		return;
	const char *name = names, *end = names + n_names;
	for (size_t i = 0; i < n && name < end; i++) {
		run->event(run->self, name, times_us[i] * 1000);
		name += strlen(name) + 1;
	}
}

static void tell_parts(struct inferd_delegate_instance *instance, const struct inferd_delegate_run *run)
{
	const struct et_xnn_partitions *partitions = &instance->model->partitions;
	for (uint32_t i = 0; i < partitions->n_partitions; i++) {
		if (instance->runtimes[i]) {
			tell_operators(instance, instance->runtimes[i], run);
			continue;
		}
		char name[64];
		snprintf(name, sizeof(name), "override %s", partitions->partitions[i].override->name);
		run->event(run->self, name, instance->times_ns[i]);
	}
}

static enum et_status new_instance(struct inferd_delegate_instance **ret_instance, struct et_xnn_model *model,
	struct inferd_delegate_worker_threads *threads, uint32_t flags, const struct et_allocator *allocator,
	struct et_diag *diag);

enum et_status et_xnn_instance_profile(struct inferd_delegate_instance *instance,
	const struct et_xnn_input_slices *slices, const struct inferd_delegate_run *run, struct et_diag *diag)
{
	struct inferd_delegate_instance *override;
	enum et_status status = new_instance(&override, instance->model, instance->threads, XNN_FLAG_BASIC_PROFILING,
		&instance->pool.allocator, diag);
	if (status != ET_OK)
		return status;
	override->times_ns = ET_POOL_NEW_ARRAY(&override->pool, uint64_t, override->model->partitions.n_partitions);
	status = override->times_ns ? get_ready(override, slices, run->args, diag)
				    : et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a profile");
	if (status == ET_OK) {
		if (run->began)
			run->began(run->self);
		enum xnn_status ran = invoke(override);
		if (run->ended)
			run->ended(run->self);
		if (ran == xnn_status_success) {
			finish_outputs(override, run->args);
			tell_parts(override, run);
		} else {
			status = refuse(override, ran, "run", diag);
		}
	}
	et_xnn_instance_free(override);
	return status;
}

static enum et_status new_instance(struct inferd_delegate_instance **ret_instance, struct et_xnn_model *model,
	struct inferd_delegate_worker_threads *threads, uint32_t flags, const struct et_allocator *allocator,
	struct et_diag *diag)
{
	const struct et_xnn_payload *payload = &model->payload;
	struct inferd_delegate_instance *instance = allocator->alloc(allocator->self, sizeof(*instance),
		_Alignof(struct inferd_delegate_instance));
	if (!instance)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for an XNNPACK context");
	memset(instance, 0, sizeof(*instance));
	instance->model = model;
	instance->threads = threads;
	instance->flags = flags;
	et_pool_init(&instance->pool, allocator);
	instance->in_shapes = ET_POOL_NEW_ARRAY(&instance->pool, struct et_xnn_shape, payload->n_inputs);
	instance->out_shapes = ET_POOL_NEW_ARRAY(&instance->pool, struct et_xnn_shape, payload->n_outputs);
	instance->runtimes = ET_POOL_NEW_ARRAY(&instance->pool, xnn_runtime_t, model->partitions.n_partitions);
	instance->memory = ET_POOL_NEW_ARRAY(&instance->pool, void *, payload->n_values);
	instance->offsets = ET_POOL_NEW_ARRAY(&instance->pool, size_t, model->partitions.n_boundaries);
	instance->externals = ET_POOL_NEW_ARRAY(&instance->pool, struct xnn_external_value, model->partitions.n_outer);
	instance->shapes = ET_POOL_NEW_ARRAY(&instance->pool, struct et_xnn_shape, payload->n_values);
	instance->ids = ET_POOL_NEW_ARRAY(&instance->pool, uint32_t, payload->n_values);
	bool may_be_cut = et_xnn_may_be_cut(payload);
	if (may_be_cut)
		instance->made_for = ET_POOL_NEW_ARRAY(&instance->pool, struct et_xnn_shape, payload->n_values);
	enum et_status status;
	if (!instance->runtimes || !instance->in_shapes || !instance->out_shapes || !instance->memory ||
		!instance->offsets || !instance->externals || !instance->shapes || !instance->ids ||
		(may_be_cut && !instance->made_for))
		status = et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for an XNNPACK context");
	else
		status = make_first_runtimes(instance, diag);
	if (status != ET_OK) {
		et_xnn_instance_free(instance);
		return status;
	}
	instance->n_counted = (int64_t)(sizeof(*instance) + instance->pool.n_bytes);
	et_xnn_threads_count(threads, instance->n_counted);
	*ret_instance = instance;
	return ET_OK;
}

/* Payloads that are the same run one after the other on a lane: they have one there. A run says anew where its arguments lie. */
static struct inferd_delegate_instance *find(struct et_xnn_model *model,
	const struct inferd_delegate_worker_threads *threads)
{
	struct inferd_delegate_instance *found = NULL;
	struct et_list_node *node, *after;
	pthread_mutex_lock(&model->duplicates->lock);
	ET_LIST_FOR_EACH(node, after, &model->instances) {
		struct inferd_delegate_instance *instance = ET_CONTAINER_OF(node, struct inferd_delegate_instance,
			duplicate.node);
		if (instance->threads == threads)
			found = instance;
	}
	if (found)
		found->duplicate.n_users++;
	pthread_mutex_unlock(&model->duplicates->lock);
	return found;
}

enum et_status et_xnn_instance_new(struct inferd_delegate_instance **ret_instance, struct et_xnn_model *model,
	struct inferd_delegate_worker_threads *threads, const struct et_allocator *allocator, struct et_diag *diag)
{
	struct inferd_delegate_instance *instance = model->duplicates ? find(model, threads) : NULL;
	enum et_status status = instance ? ET_OK : new_instance(&instance, model, threads, 0, allocator, diag);
	if (status == ET_OK && model->duplicates && !instance->duplicates) {
		instance->duplicates = model->duplicates;
		instance->duplicate.n_users = 1;
		pthread_mutex_lock(&model->duplicates->lock);
		et_list_append(&model->instances, &instance->duplicate.node);
		pthread_mutex_unlock(&model->duplicates->lock);
	}
	*ret_instance = instance;
	return status;
}

/* The first time that XNNPACK is told shapes it plans its workspace for them, so a run with these need not. The context may be
 * an older one, shared, which has been told some, or whose runtimes a failure took. */
void et_xnn_instance_warm(struct inferd_delegate_instance *instance)
{
	const struct et_xnn_payload *payload = &instance->model->payload;
	struct et_diag diag = { "" };
	if (instance->was_reshaped || !instance->is_made)
		return;
	for (uint32_t i = 0; i < payload->n_inputs; i++)
		instance->in_shapes[i] = payload->values[payload->inputs[i]].shape;
	reshape(instance, &diag);
}

void et_xnn_instance_free(struct inferd_delegate_instance *instance)
{
	if (!instance || !et_xnn_duplicates_leave(instance->duplicates, &instance->duplicate))
		return;
	drop_runtimes(instance);
	if (instance->workspace)
		et_xnn_threads_give_workspace(instance->threads);
	et_xnn_threads_count(instance->threads, -instance->n_counted);
	struct et_allocator allocator = instance->pool.allocator;
	et_pool_deinit(&instance->pool);
	allocator.free(allocator.self, instance, sizeof(*instance));
}
