/* SPDX-License-Identifier: BSD-3-Clause */
/* Instances, and their states in a run: what it overwrites is saved on the device before, and put back if the run ends
 * early. The states of a model are one buffer each: a payload gives all KV caches the same name, since all of them
 * are zeros at first, but they are different memory, and each client has its own. */
#include "delegates/opencl/lane.h"
#include "delegates/opencl/model.h"
#include "delegates/opencl/run.h"

#include <stdlib.h>

/* Fill the states with zeros, on a lane's queue. */
static enum et_status clear(struct inferd_delegate_instance *instance, struct et_diag *diag)
{
	struct ocl_device *device = instance->model->device;
	static const cl_uchar zero;
	struct ocl_lane *lane;
	cl_int error = CL_SUCCESS;
	if (!instance->model->n_states)
		return ET_OK;
	enum et_status status = ocl_lane_take(device, 0, &lane, diag);
	if (status != ET_OK)
		return status;
	for (uint32_t i = 0; i < instance->model->n_states && error == CL_SUCCESS; i++)
		if (instance->n_state_bytes[i])
			error = device->cl->EnqueueFillBuffer(lane->queue, instance->states[i], &zero, sizeof(zero), 0,
				instance->n_state_bytes[i], 0, NULL, NULL);
	if (error == CL_SUCCESS)
		error = device->cl->Finish(lane->queue);
	ocl_lane_give(lane);
	return error == CL_SUCCESS ? ET_OK : ocl_device_fail(device, error, "clEnqueueFillBuffer", diag);
}

static enum et_status make_states(struct inferd_delegate_instance *instance, struct et_diag *diag)
{
	const struct inferd_delegate_model *model = instance->model;
	enum et_status status = ET_OK;
	for (uint32_t i = 0; i < model->graph.n_values && status == ET_OK; i++) {
		uint32_t state = model->state_of[i];
		if (state == ET_GRAPH_NONE)
			continue;
		uint64_t n = model->graph.values[i].tensor->n_bytes;
		status = ocl_buffer_new(model->device, n, NULL, &instance->states[state], diag);
		if (status == ET_OK)
			instance->n_state_bytes[state] = n;
	}
	return status == ET_OK ? clear(instance, diag) : status;
}

enum et_status ocl_instance_new(struct inferd_delegate_instance **ret_instance, struct inferd_delegate_model *model,
	struct et_diag *diag)
{
	struct inferd_delegate_instance *instance = calloc(1, sizeof(*instance));
	enum et_status status = ET_E_MEMORY_ALLOCATION_FAILED;
	if (instance) {
		instance->model = model;
		instance->states = calloc(model->n_states + 1u, sizeof(*instance->states));
		instance->n_state_bytes = calloc(model->n_states + 1u, sizeof(*instance->n_state_bytes));
		instance->sizes = calloc(model->graph.n_values + 1u, sizeof(*instance->sizes));
		instance->homes = calloc(model->graph.n_values + 1u, sizeof(*instance->homes));
		instance->saved = calloc(model->max_saved + 1u, sizeof(*instance->saved));
		instance->in_place = calloc(model->graph.n_values + 1u, sizeof(*instance->in_place));
		if (instance->states && instance->n_state_bytes && instance->sizes && instance->homes &&
			instance->saved && instance->in_place)
			status = make_states(instance, diag);
		if (status == ET_OK && model->n_saved_bytes)
			status = ocl_buffer_new(model->device, model->n_saved_bytes, NULL, &instance->saved_bytes,
				diag);
	}
	if (status != ET_OK) {
		ocl_instance_free(instance);
		return et_fail(diag, status, "no memory for an instance");
	}
	*ret_instance = instance;
	return ET_OK;
}

void ocl_instance_free(struct inferd_delegate_instance *instance)
{
	if (!instance)
		return;
	for (uint32_t i = 0; i < instance->model->n_states && instance->states && instance->n_state_bytes; i++)
		ocl_buffer_free(instance->model->device, instance->states[i], instance->n_state_bytes[i]);
	ocl_buffer_free(instance->model->device, instance->saved_bytes, instance->model->n_saved_bytes);
	free(instance->saved);
	free(instance->states);
	free(instance->n_state_bytes);
	free(instance->sizes);
	free(instance->homes);
	free(instance->in_place);
	free(instance);
}

enum et_status ocl_instance_reset(struct inferd_delegate_instance *instance, struct et_diag *diag)
{
	return clear(instance, diag);
}

/* --- what a run overwrites ------------------------------------------------------------------------ */

static enum et_status copy(struct ocl_run *run, cl_mem from, cl_mem to, uint64_t from_at, uint64_t to_at, uint64_t n,
	struct et_diag *diag)
{
	struct ocl_device *device = run->model->device;
	cl_event event;
	cl_int error = device->cl->EnqueueCopyBuffer(run->lane->queue, from, to, from_at, to_at, n, 0, NULL, &event);
	if (error != CL_SUCCESS)
		return ocl_device_fail(device, error, "clEnqueueCopyBuffer", diag);
	ocl_run_enqueued(run, event);
	return ET_OK;
}

enum et_status ocl_state_save(struct ocl_run *run, cl_mem state, uint64_t at, uint64_t n_bytes, struct et_diag *diag)
{
	struct inferd_delegate_instance *instance = run->instance;
	if (!n_bytes || !run->model->saves_states)
		return ET_OK;
	if (instance->n_saved == run->model->max_saved || n_bytes > run->model->n_saved_bytes - instance->n_saved_bytes)
		return et_fail(diag, ET_E_INTERNAL, "a run overwrites more of the state than the payload says");
	enum et_status status = copy(run, state, instance->saved_bytes, at, instance->n_saved_bytes, n_bytes, diag);
	if (status != ET_OK)
		return status;
	instance->saved[instance->n_saved++] = (struct ocl_saved){ state, at, n_bytes, instance->n_saved_bytes };
	instance->n_saved_bytes += n_bytes;
	return ET_OK;
}

enum et_status ocl_states_restore(struct ocl_run *run, struct et_diag *diag)
{
	struct inferd_delegate_instance *instance = run->instance;
	enum et_status status = ET_OK;
	while (instance->n_saved && status == ET_OK) {
		const struct ocl_saved *saved = &instance->saved[--instance->n_saved];
		status = copy(run, instance->saved_bytes, saved->state, saved->saved_at, saved->at, saved->n_bytes,
			diag);
	}
	return status == ET_OK ? ocl_run_wait(run, diag) : status;
}
