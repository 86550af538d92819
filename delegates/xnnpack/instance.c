/* SPDX-License-Identifier: BSD-3-Clause */
/* Running a model.
 *
 * An instance owns an XNNPACK runtime, or several if the payload is cut into partitions (partition.h), with
 * overrides between them. XNNPACK wants three steps for a run: reshape (if an input's shape changed), setup (if a
 * pointer changed), invoke. The shapes and pointers of the last run are remembered, so a run with the same ones only
 * invokes.
 *
 * Boundary tensors lie in the worker's memory, as XNNPACK's workspace does. That memory is planned and taken when
 * shapes change. It may have moved when this instance runs again, because another instance needed more.
 *
 * XNNPACK plans its workspace only when a value grew, and that plan lets an operator write over its input if both
 * had the same size at that time. After a reshape to smaller shapes they may differ. So a changed shape always plans
 * anew: the older of XNNPACK's two setup functions does that.
 *
 * A runtime that failed to reshape is in no defined state: it is deleted, and the next run makes another.
 *
 * Two kinds of payload need another runtime for other shapes. A convolution of rows quantized at run time has a
 * buffer of zeros for each image of the batch, and a reshape to a smaller batch loses the buffers that it no longer
 * uses. A transposed convolution whose output is below its stride is cut to a size that is part of the graph
 * (deconvolution_cut.h). */
#include "delegates/xnnpack/instance.h"

#include "delegates/xnnpack/allocator.h"
#include "delegates/xnnpack/graph/deconvolution_cut.h"
#include "delegates/xnnpack/graph/instance_memory.h"
#include "delegates/xnnpack/graph/shape.h"
#include "delegates/xnnpack/graph/subgraph.h"
#include "delegates/xnnpack/pool/clock.h"
#include "delegates/xnnpack/run_args.h"
#include "delegates/xnnpack/unsupported.h"

#include <stdio.h>
#include <string.h>

struct inferd_delegate_instance {
	struct et_xnn_model *model;
	struct inferd_delegate_worker_threads *threads;
	struct et_pool pool;
	uint32_t flags;
	xnn_workspace_t workspace; /* the worker's; NULL: not taken */
	xnn_runtime_t *runtimes;   /* one for each partition; NULL: an override's */
	bool is_made;              /* false: the next run must make the runtimes */
	bool was_reshaped;         /* these runtimes have been told shapes */
	bool is_shaped;            /* the runtimes have in_shapes and out_shapes */
	bool is_set_up;            /* the runtimes have the pointers in memory */
	bool is_empty; /* no output has elements: these shapes go to no runtime, and there is nothing to do */
	struct et_xnn_shape *in_shapes, *out_shapes;
	struct et_xnn_shape *shapes;   /* one for each value */
	struct et_xnn_shape *made_for; /* one for each value: shapes that the graphs contain; NULL: they contain none */
	void **memory;                 /* one for each value: the memory of arguments and boundary tensors */
	size_t *offsets;               /* one for each boundary tensor, in the worker's memory */
	size_t n_boundary_bytes;       /* bytes of all boundary tensors together */
	void *boundary_memory;         /* where they were at the last setup */
	int64_t n_counted;             /* bytes that were counted for the worker */
	struct xnn_external_value *externals; /* scratch: for one partition */
	uint32_t *ids;                        /* scratch: one for each value */
	uint64_t *times_ns;                   /* one for each partition; NULL: overrides are not measured */
	struct et_xnn_duplicates *duplicates; /* the model's; NULL: the instance is not shared */
	struct et_xnn_duplicate duplicate;
};

static void drop_runtimes(struct inferd_delegate_instance *instance)
{
	for (uint32_t i = 0; instance->runtimes && i < instance->model->partitions.n_partitions; i++) {
		if (instance->runtimes[i])
			xnn_delete_runtime(instance->runtimes[i]);
		instance->runtimes[i] = NULL;
	}
	instance->is_made = instance->was_reshaped = instance->is_shaped = instance->is_set_up = false;
}

/* Remember the shapes that the runtimes are made for, one for each value; NULL: the payload's own. */
static void note_shapes(struct inferd_delegate_instance *instance, const struct et_xnn_shape *shapes)
{
	const struct et_xnn_payload *payload = &instance->model->payload;
	for (uint32_t i = 0; instance->made_for && i < payload->n_values; i++)
		instance->made_for[i] = shapes ? shapes[i] : payload->values[i].shape;
}

/* Make the runtimes for these shapes; NULL: for the payload's own. */
static enum et_status make_runtimes(struct inferd_delegate_instance *instance, const struct et_xnn_shape *shapes,
	struct et_diag *diag)
{
	const struct et_xnn_partitions *partitions = &instance->model->partitions;
	const struct et_xnn_runtime_use use = {
		.shapes = instance->made_for,
		.weights = et_xnn_weights_provider(instance->model->weights),
		.workspace = instance->workspace,
		.threads = instance->threads->pool,
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

/* Charge what XNNPACK allocates for the instance from now on, and in advance what its runtimes take in small pieces.
 * Those and the tables of XNNPACK's memory planner, which are not checked (allocator.c), the bound must not refuse. */
static enum et_status enter(struct inferd_delegate_instance *instance, bool makes_runtimes, struct et_diag *diag)
{
	const struct et_xnn_payload *payload = &instance->model->payload;
	struct et_xnn_memory_account *account = et_xnn_threads_account(instance->threads);
	uint64_t n_tables = ((uint64_t)payload->n_values + payload->n_nodes) * ET_XNN_PLAN_BYTES, needed, n_free;
	uint64_t n = makes_runtimes ? et_xnn_runtime_bytes(payload) : n_tables;
	et_xnn_memory_denied(&needed, &n_free); /* what was before does not matter */
	et_xnn_memory_enter(account, (size_t)n_tables);
	return et_xnn_memory_charge(account, n) ? ET_OK
						: et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for XNNPACK");
}

/* Undo enter. If the bound was the reason for the failure @status, @diag says that. */
static enum et_status leave(struct inferd_delegate_instance *instance, enum et_status status, struct et_diag *diag)
{
	uint64_t needed, n_free;
	bool is_denied = et_xnn_memory_denied(&needed, &n_free) && status != ET_OK;
	et_xnn_memory_enter(NULL, 0);
	et_xnn_threads_count(instance->threads, 0);
	if (is_denied) {
		if (diag)
			diag->text[0] = '\0';
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED,
			"XNNPACK needs %llu KiB at once, %llu KiB of the memory for runs are free",
			(unsigned long long)(needed >> 10), (unsigned long long)(n_free >> 10));
	}
	return status;
}

/* Take the worker's workspace and the prebuilt runtimes in it, or make runtimes if the worker cannot have those. */
static enum et_status make_first_runtimes(struct inferd_delegate_instance *instance, struct et_diag *diag)
{
	struct et_xnn_model *model = instance->model;
	instance->is_made = !instance->flags && et_xnn_prebuilt_cache_take(model->prebuilt_cache,
							model->prebuilt_number, instance->threads, instance->runtimes);
	enum et_status status = et_xnn_threads_take_workspace(instance->threads, &instance->workspace, diag);
	if (status == ET_OK && !instance->is_made)
		return make_runtimes(instance, NULL, diag);
	note_shapes(instance, NULL);
	return status;
}

/* Whether XNNPACK loses buffers of zeros when it reshapes the payload to a smaller batch. */
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

/* Whether every node with an empty input is a concatenation whose output is not empty: such as a cache that begins
 * empty. It is the one case in which XNNPACK gets an empty input. */
static bool only_concatenates_empty(const struct inferd_delegate_instance *instance)
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

/* If an input is empty, find the outputs' shapes here: XNNPACK does not get this run. */
static enum et_status settle_empty(struct inferd_delegate_instance *instance, struct et_diag *diag)
{
	const struct et_xnn_payload *payload = &instance->model->payload;
	instance->is_empty = false;
	for (uint32_t i = 0; i < payload->n_inputs && !instance->is_empty; i++)
		instance->is_empty = et_xnn_is_empty(&instance->in_shapes[i]);
	if (!instance->is_empty)
		return ET_OK;
	if (only_concatenates_empty(instance)) {
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

/* Tell XNNPACK the shapes that a partition reads. The shapes that it writes must be those that shape.c inferred. */
static enum et_status reshape_partition(struct inferd_delegate_instance *instance, uint32_t index, struct et_diag *diag)
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
			return et_fail(diag, ET_E_INTERNAL,
				"XNNPACK: value %u does not have the shape that its graph gives it",
				instance->model->payload.values[et_xnn_partition_outer(partition, i)].id);
		}
	}
	return ET_OK;
}

/* Plan and take memory for the boundary tensors. */
static enum et_status plan_boundary_bytes(struct inferd_delegate_instance *instance, struct et_diag *diag)
{
	const struct et_xnn_partitions *partitions = &instance->model->partitions;
	instance->n_boundary_bytes = 0;
	if (!partitions->n_boundaries)
		return ET_OK;
	if (!et_xnn_partitions_plan(partitions, instance->shapes, instance->offsets, instance->ids,
		    &instance->n_boundary_bytes) ||
		!et_xnn_threads_memory(instance->threads, instance->n_boundary_bytes))
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for an XNNPACK run");
	return ET_OK;
}

/* Tell XNNPACK all shapes, and plan memory for them. */
static enum et_status reshape_partitions(struct inferd_delegate_instance *instance, struct et_diag *diag)
{
	const struct et_xnn_payload *payload = &instance->model->payload;
	enum et_status status = ET_OK;
	bool needs_other_graphs = instance->made_for &&
				  !et_xnn_is_cut_alike(payload, instance->made_for, instance->shapes);
	if (needs_other_graphs || (instance->was_reshaped && loses_zeros(payload))) {
		drop_runtimes(instance);
		status = make_runtimes(instance, instance->shapes, diag);
	}
	if (status != ET_OK)
		return status;
	et_xnn_threads_drop_spares(instance->threads);
	instance->was_reshaped = true;
	for (uint32_t i = 0; i < instance->model->partitions.n_partitions && status == ET_OK; i++)
		if (instance->runtimes[i])
			status = reshape_partition(instance, i, diag);
	return status == ET_OK ? plan_boundary_bytes(instance, diag) : status;
}

/* Infer and check all shapes from in_shapes, then tell XNNPACK. */
static enum et_status reshape(struct inferd_delegate_instance *instance, struct et_diag *diag)
{
	const struct et_xnn_payload *payload = &instance->model->payload;
	instance->is_shaped = instance->is_set_up = false;
	for (uint32_t i = 0; i < payload->n_inputs; i++)
		instance->shapes[payload->inputs[i]] = instance->in_shapes[i];
	struct et_xnn_memory_need need;
	enum et_status inferred = et_xnn_infer_shapes(payload, instance->shapes, diag);
	if (inferred == ET_OK)
		inferred = settle_empty(instance, diag);
	if (inferred == ET_OK && instance->is_empty)
		return ET_OK;
	if (inferred == ET_OK)
		inferred = et_xnn_check_supported(payload, instance->shapes, diag);
	if (inferred == ET_OK)
		inferred = et_xnn_check_memory(payload, instance->shapes, instance->ids,
			instance->model->max_instance_bytes, &need, diag);
	if (inferred != ET_OK)
		return inferred;
	inferred = enter(instance, false, diag);
	if (inferred == ET_OK)
		inferred = reshape_partitions(instance, diag);
	inferred = leave(instance, inferred, diag);
	if (inferred != ET_OK)
		return inferred;
	for (uint32_t i = 0; i < payload->n_outputs; i++)
		instance->out_shapes[i] = instance->shapes[payload->outputs[i]];
	instance->is_shaped = true;
	return ET_OK;
}

static enum et_status set_up_partitions(struct inferd_delegate_instance *instance, bool plans_anew,
	struct et_diag *diag)
{
	const struct et_xnn_partitions *partitions = &instance->model->partitions;
	uint8_t *boundary_memory = partitions->n_boundaries
					   ? et_xnn_threads_memory(instance->threads, instance->n_boundary_bytes)
					   : NULL;
	if (partitions->n_boundaries && !boundary_memory)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for an XNNPACK run");
	const struct et_xnn_payload *payload = &instance->model->payload;
	for (uint32_t i = 0; i < payload->n_inputs + payload->n_outputs; i++) {
		uint32_t arg = i < payload->n_inputs ? payload->inputs[i] : payload->outputs[i - payload->n_inputs];
		if (payload->values[arg].seen_as != ET_XNN_NONE)
			instance->memory[payload->values[arg].seen_as] = instance->memory[arg];
	}
	for (uint32_t i = 0; i < partitions->n_boundaries; i++)
		instance->memory[partitions->boundaries[i].value] = boundary_memory + instance->offsets[i];
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
	instance->boundary_memory = boundary_memory;
	instance->is_set_up = true;
	return ET_OK;
}

static enum et_status set_up(struct inferd_delegate_instance *instance, bool plans_anew, struct et_diag *diag)
{
	if (!plans_anew) { /* as in most runs: nothing is allocated */
		enum et_status status = set_up_partitions(instance, false, diag);
		et_xnn_threads_count(instance->threads, 0);
		return status;
	}
	enum et_status status = enter(instance, false, diag);
	if (status == ET_OK)
		status = set_up_partitions(instance, true, diag);
	return leave(instance, status, diag);
}

/* Do everything before invoke: check the arguments, reshape, set up. */
static enum et_status prepare(struct inferd_delegate_instance *instance, const struct et_xnn_input_slices *slices,
	struct inferd_delegate_arg *const *args, struct et_diag *diag)
{
	uint32_t next_slice = 0;
	const struct et_xnn_payload *payload = &instance->model->payload;
	enum et_status status = ET_OK;
	if (!instance->is_made) {
		status = enter(instance, true, diag);
		if (status == ET_OK)
			status = make_runtimes(instance, NULL, diag);
		status = leave(instance, status, diag);
		if (status != ET_OK)
			return status;
	}

	for (uint32_t i = 0; i < payload->n_inputs; i++) {
		const struct et_xnn_value *value = &payload->values[payload->inputs[i]];
		const struct inferd_delegate_arg *tensor = args[value->external_id];
		struct et_xnn_shape shape;
		uint8_t *data = tensor->data;
		status = et_xnn_arg_check(value, tensor, "input", diag);
		if (status == ET_OK)
			status = et_xnn_arg_shape(value, tensor, &shape, diag);
		if (status == ET_OK && next_slice < slices->n_slices && slices->slices[next_slice].input == i)
			status = et_xnn_input_slice_apply(&slices->slices[next_slice++], value, &shape, &data, diag);
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
		status = et_xnn_arg_check(value, tensor, "output", diag);
		if (status == ET_OK)
			status = et_xnn_arg_resize(value, &instance->out_shapes[i], tensor, diag);
		if (status != ET_OK) {
			instance->is_shaped = !is_reshaped; /* otherwise the next run would not plan anew */
			return status;
		}
		if (instance->memory[payload->outputs[i]] != tensor->data) {
			instance->memory[payload->outputs[i]] = tensor->data;
			instance->is_set_up = false;
		}
	}
	if (instance->is_empty)
		return ET_OK;
	bool has_moved = instance->n_boundary_bytes && et_xnn_threads_memory(instance->threads,
							       instance->n_boundary_bytes) != instance->boundary_memory;
	return instance->is_set_up && !has_moved ? ET_OK : set_up(instance, is_reshaped, diag);
}

static void finish_outputs(const struct inferd_delegate_instance *instance, struct inferd_delegate_arg *const *args)
{
	const struct et_xnn_payload *payload = &instance->model->payload;
	for (uint32_t i = 0; i < payload->n_outputs; i++) {
		const struct et_xnn_value *value = &payload->values[payload->outputs[i]];
		const struct inferd_delegate_arg *tensor = args[value->external_id];
		if (value->is_index && tensor->type == ET_INT64)
			et_xnn_arg_widen_indexes(tensor, &instance->out_shapes[i]);
	}
}

static enum xnn_status invoke(struct inferd_delegate_instance *instance)
{
	if (instance->is_empty)
		return xnn_status_success;
	struct inferd_delegate_worker_threads *threads = instance->threads;
	const struct et_xnn_model *model = instance->model;
	struct et_xnn_override_run run = {
		.payload = &model->payload, .shapes = instance->shapes, .memory = instance->memory, .threads = threads
	};
	for (uint32_t i = 0; i < model->partitions.n_partitions; i++) {
		const struct et_xnn_partition *partition = &model->partitions.partitions[i];
		if (!partition->override) {
			enum xnn_status status = xnn_invoke_runtime(instance->runtimes[i]);
			if (status != xnn_status_success)
				return status;
			continue;
		}
		uint64_t began = instance->times_ns ? et_xnn_now_ns() : 0;
		run.node = partition->node;
		run.packed = partition->packed;
		threads->flushes = true;
		partition->override->run(&run);
		threads->flushes = false;
		if (instance->times_ns)
			instance->times_ns[i] = et_xnn_now_ns() - began;
	}
	return xnn_status_success;
}

enum et_status et_xnn_instance_run(struct inferd_delegate_instance *instance, const struct et_xnn_input_slices *slices,
	struct inferd_delegate_arg *const *args, struct et_diag *diag)
{
	enum et_status status = prepare(instance, slices, args, diag);
	if (status != ET_OK)
		return status;
	enum xnn_status ran = invoke(instance);
	if (ran != xnn_status_success)
		return refuse(instance, ran, "run", diag);
	finish_outputs(instance, args);
	return ET_OK;
}

/* Report the time of each operator; XNNPACK measures whole microseconds. */
static void report_operators(struct inferd_delegate_instance *instance, xnn_runtime_t runtime,
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

static void report_partitions(struct inferd_delegate_instance *instance, const struct inferd_delegate_run *run)
{
	const struct et_xnn_partitions *partitions = &instance->model->partitions;
	for (uint32_t i = 0; i < partitions->n_partitions; i++) {
		if (instance->runtimes[i]) {
			report_operators(instance, instance->runtimes[i], run);
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
	struct inferd_delegate_instance *profiled;
	enum et_status status = new_instance(&profiled, instance->model, instance->threads, XNN_FLAG_BASIC_PROFILING,
		&instance->pool.allocator, diag);
	if (status != ET_OK)
		return status;
	profiled->times_ns = ET_POOL_NEW_ARRAY(&profiled->pool, uint64_t, profiled->model->partitions.n_partitions);
	status = profiled->times_ns ? prepare(profiled, slices, run->args, diag)
				    : et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a profile");
	if (status == ET_OK) {
		if (run->began)
			run->began(run->self);
		enum xnn_status ran = invoke(profiled);
		if (run->ended)
			run->ended(run->self);
		if (ran == xnn_status_success) {
			finish_outputs(profiled, run->args);
			report_partitions(profiled, run);
		} else {
			status = refuse(profiled, ran, "run", diag);
		}
	}
	et_xnn_instance_free(profiled);
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
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for an XNNPACK instance");
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
	instance->externals = ET_POOL_NEW_ARRAY(&instance->pool, struct xnn_external_value,
		model->partitions.n_xnnpack_args);
	instance->shapes = ET_POOL_NEW_ARRAY(&instance->pool, struct et_xnn_shape, payload->n_values);
	instance->ids = ET_POOL_NEW_ARRAY(&instance->pool, uint32_t, payload->n_values);
	bool may_be_cut = et_xnn_may_be_cut(payload);
	if (may_be_cut)
		instance->made_for = ET_POOL_NEW_ARRAY(&instance->pool, struct et_xnn_shape, payload->n_values);
	enum et_status status;
	if (!instance->runtimes || !instance->in_shapes || !instance->out_shapes || !instance->memory ||
		!instance->offsets || !instance->externals || !instance->shapes || !instance->ids ||
		(may_be_cut && !instance->made_for))
		status = et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for an XNNPACK instance");
	else if ((status = enter(instance, true, diag)) == ET_OK)
		status = make_first_runtimes(instance, diag);
	status = leave(instance, status, diag);
	if (status != ET_OK) {
		et_xnn_instance_free(instance);
		return status;
	}
	instance->n_counted = (int64_t)(sizeof(*instance) + instance->pool.n_bytes);
	et_xnn_threads_count(threads, instance->n_counted);
	*ret_instance = instance;
	return ET_OK;
}

/* The instance of a shared model on this worker, or NULL. Payloads that share a model run one after the other on a
 * worker, and each run says anew where its arguments lie, so one instance is enough. */
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

/* When XNNPACK is told shapes for the first time it plans its workspace, so that the first run need not. A shared
 * instance may have been told shapes before, or a failure may have deleted its runtimes. */
enum et_status et_xnn_instance_warm(struct inferd_delegate_instance *instance, struct et_diag *diag)
{
	const struct et_xnn_payload *payload = &instance->model->payload;
	if (instance->was_reshaped || !instance->is_made)
		return ET_OK;
	for (uint32_t i = 0; i < payload->n_inputs; i++)
		instance->in_shapes[i] = payload->values[payload->inputs[i]].shape;
	return reshape(instance, diag);
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
