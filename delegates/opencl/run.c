/* SPDX-License-Identifier: BSD-3-Clause */
/* A run walks the nodes in order. At each node the sizes of its results follow from those of its arguments; then its
 * step starts kernels. The queue is in order, so nothing waits for anything, except that a symbol that is an element of
 * a tensor is read back.
 *
 * A run goes in slices: after OCL_SLICE_NS of work it waits for what it has enqueued and looks whether it was
 * cancelled, since a queue that holds the work of seconds cannot be stopped. How long work takes is predicted from the
 * number of operations and from how fast the step was in earlier slices; a kernel with more work is started in parts.
 * The first run of a model supposes a slow device, so its slices are short. Whatever happens, a run returns only when
 * nothing of it is under way, since the arguments are the client's memory. */
#include "delegates/opencl/run.h"

#include "delegates/opencl/lane.h"
#include "delegates/opencl/step.h"
#include "delegates/opencl/turns.h"
#include "delegates/opencl/weights.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"
#include "runtime/tensor.h"

#include <string.h>

void ocl_run_enqueued(struct ocl_run *run, cl_event event)
{
	if (run->last) {
		run->model->device->cl->ReleaseEvent(run->last);
	} else {
		run->began_ns = et_platform_now_ns(NULL);
		run->first_step = run->step;
	}
	run->last = event;
}

enum { RATE_ONE = 1 << 16 }; /* a step's rate: operations of this many take that many ns */

uint64_t ocl_run_predict(const struct ocl_run *run, uint64_t cost)
{
	uint32_t rate = atomic_load_explicit(&run->model->steps[run->step].rate, memory_order_relaxed);
	return et_times(cost, rate ? rate : RATE_ONE) / RATE_ONE;
}

/* The slice took @ns: correct the rates of its steps. Several runs may do so at once; each of them is as right. */
static void learn(struct ocl_run *run, uint64_t ns)
{
	double factor = run->predicted_ns ? (double)ns / (double)run->predicted_ns : 1;
	factor = factor < 1.0 / 64 ? 1.0 / 64 : factor > 64 ? 64 : factor;
	for (uint32_t i = run->first_step; i <= run->step && run->predicted_ns > 1000; i++) {
		atomic_uint *at = &run->model->steps[i].rate;
		uint32_t rate = atomic_load_explicit(at, memory_order_relaxed);
		double next = (rate ? rate : RATE_ONE) * factor;
		atomic_store_explicit(at,
			next < 1            ? 1
			: next > UINT32_MAX ? UINT32_MAX
					    : (uint32_t)next,
			memory_order_relaxed);
	}
}

enum et_status ocl_run_wait(struct ocl_run *run, struct et_diag *diag)
{
	struct ocl_device *device = run->model->device;
	if (!run->last)
		return ET_OK;
	cl_int error = device->cl->Flush(run->lane->queue);
	if (error == CL_SUCCESS)
		error = device->cl->WaitForEvents(1, &run->last);
	/* Commands may still be under way, and they write to the client's memory: wait for them, even if a driver that
	 * has failed may hang. Then the host ends the process. */
	if (error != CL_SUCCESS)
		device->cl->Finish(run->lane->queue);
	device->cl->ReleaseEvent(run->last);
	run->last = NULL;
	if (error == CL_SUCCESS)
		learn(run, et_platform_now_ns(NULL) - run->began_ns);
	run->predicted_ns = 0;
	return error == CL_SUCCESS ? ET_OK : ocl_device_fail(device, error, "clWaitForEvents", diag);
}

enum et_status ocl_run_pace(struct ocl_run *run, uint64_t ns, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	et_add_up(&run->predicted_ns, ns);
	if (run->predicted_ns >= OCL_SLICE_NS) {
		status = ocl_run_wait(run, diag);
		run->waited_ns += ocl_turn_wait(run->model->device, run->priority, &run->instance->is_cancelled);
	}
	if (status == ET_OK && atomic_load_explicit(&run->instance->is_cancelled, memory_order_relaxed))
		status = et_fail(diag, ET_E_CANCELLED, "the run was cancelled");
	return status;
}

void ocl_run_memory(const struct ocl_run *run, uint32_t root, cl_mem *ret_buffer, uint64_t *ret_at)
{
	const struct inferd_delegate_model *model = run->model;
	const struct ocl_memory *in_place = &run->instance->in_place[root];
	*ret_at = 0;
	if (in_place->buffer) {
		*ret_buffer = in_place->buffer;
		*ret_at = in_place->at;
		return;
	}
	switch (model->graph.values[root].origin) {
	case ET_GRAPH_CONSTANT:
		*ret_buffer = model->weights[root] ? model->weights[root]->buffer : NULL;
		return;
	case ET_GRAPH_STATE:
		*ret_buffer = run->instance->states[model->state_of[root]];
		return;
	default:
		*ret_buffer = run->lane->arena;
		*ret_at = model->places[root];
	}
}

uint64_t ocl_run_room(const struct ocl_run *run, uint32_t root)
{
	const struct et_graph_tensor *tensor = run->model->graph.values[root].tensor;
	const struct ocl_memory *in_place = &run->instance->in_place[root];
	return (in_place->buffer ? in_place->n_bytes : tensor->n_bytes) / et_scalar_size(tensor->type);
}

/* --- sizes and homes ------------------------------------------------------------------------------ */

/* Where result @index lies, and that it fits there. */
static enum et_status settle(struct ocl_run *run, uint32_t node, uint32_t index, struct et_diag *diag)
{
	const struct et_graph *graph = &run->model->graph;
	const struct et_graph_tensor *tensor = graph->values[index].tensor;
	struct inferd_delegate_instance *instance = run->instance;
	struct ocl_home *home = &instance->homes[index];
	uint64_t n = ocl_numel(&instance->sizes[index]), n_there;
	*home = (struct ocl_home){ .root = index };
	if (tensor->alias_of != ET_GRAPH_NONE) {
		const struct et_graph_size *of = &instance->sizes[tensor->alias_of];
		uint64_t inner = 1;
		for (uint32_t i = tensor->alias_dim + 1u; i < of->n_dims; i++)
			inner = et_times(inner, of->dims[i]);
		*home = instance->homes[tensor->alias_of];
		if (n)
			et_add_up(&home->at, et_times(tensor->alias_start, inner));
	}
	n_there = ocl_run_room(run, home->root);
	if (n > INT32_MAX || !et_in_range(home->at, n, n_there))
		return et_fail(diag, ET_E_INVALID_ARGUMENT,
			"node %u, %s: a result has %llu elements, more than there is room for", node,
			graph->nodes[node].op->name, (unsigned long long)n);
	return ET_OK;
}

/* Read the element of a tensor that is a symbol. */
static enum et_status read_symbol(struct ocl_run *run, uint32_t node, struct et_diag *diag)
{
	const struct et_graph *graph = &run->model->graph;
	struct ocl_device *device = run->model->device;
	struct et_graph_shapes s = {
		.graph = graph, .node = &graph->nodes[node], .sizes = run->instance->sizes, .diag = diag
	};
	const struct et_graph_size *x = et_graph_arg(&s, 0);
	uint8_t type = graph->values[s.node->args[0]].tensor->type;
	int64_t index = et_graph_int(&s, 2, 0);
	uint32_t dim;
	if (!x->n_dims || !et_graph_dim(&s, et_graph_int(&s, 1, 0), x->n_dims, &dim))
		return ET_E_INVALID_ARGUMENT;
	if (ocl_numel(x) != x->dims[dim] || index < -(int64_t)x->dims[dim] || index >= x->dims[dim] || s.is_unknown)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "node %u, %s: element %lld of a dimension of %u", node,
			s.node->op->name, (long long)index, x->dims[dim]);
	const struct ocl_home *home = &run->instance->homes[s.node->args[0]];
	cl_mem buffer;
	uint64_t at;
	int64_t i64 = 0;
	int32_t i32 = 0;
	ocl_run_memory(run, home->root, &buffer, &at);
	at += (home->at + (uint64_t)(index < 0 ? index + x->dims[dim] : index)) * et_scalar_size(type);
	enum et_status status = ocl_run_wait(run, diag);
	if (status != ET_OK)
		return status;
	cl_int error = device->cl->EnqueueReadBuffer(run->lane->queue, buffer, CL_TRUE, at, et_scalar_size(type),
		type == ET_INT64 ? (void *)&i64 : (void *)&i32, 0, NULL, NULL);
	if (error != CL_SUCCESS)
		return ocl_device_fail(device, error, "clEnqueueReadBuffer", diag);
	struct et_graph_size *result = et_graph_result(&s, 0);
	result->symbol = type == ET_INT64 ? i64 : i32;
	result->is_known = true;
	return ET_OK;
}

static enum et_status find_sizes(struct ocl_run *run, uint32_t node, struct et_diag *diag)
{
	const struct et_graph *graph = &run->model->graph;
	const struct et_graph_node *n = &graph->nodes[node];
	if (strcmp(n->op->name, "et_vk.select_as_symint.default") == 0)
		return read_symbol(run, node, diag);
	enum et_status status = et_graph_infer(graph, node, run->instance->sizes, diag);
	if (status == ET_E_NOT_SUPPORTED)
		return et_fail(diag, ET_E_NOT_SUPPORTED, "node %u, %s: it depends on a symbol that is not known", node,
			n->op->name);
	for (uint32_t i = 0; i < n->n_results && status == ET_OK; i++)
		if (graph->values[n->results[i]].kind == ET_GRAPH_TENSOR)
			status = settle(run, node, n->results[i], diag);
	return status;
}

/* --- the walk ------------------------------------------------------------------------------------- */

/* Run node @node, and tell how long it took if the host asks. */
static enum et_status run_node(struct ocl_run *run, uint32_t node, struct et_diag *diag)
{
	const struct inferd_delegate_model *model = run->model;
	const struct ocl_step *step = &model->steps[node];
	struct ocl_call call = {
		.shapes = { .graph = &model->graph,
			.node = &model->graph.nodes[node],
			.sizes = run->instance->sizes,
			.diag = diag },
		.step = step,
		.run = run,
	};
	bool is_measured = (run->view->flags & INFERD_DELEGATE_PROFILE) && run->view->event;
	uint64_t began = is_measured ? et_platform_now_ns(NULL) : 0;
	if (!step->row)
		return ET_OK;
	if (!step->row->run(&call))
		return call.status == ET_OK ? ET_E_INVALID_ARGUMENT : call.status;
	if (!is_measured)
		return ET_OK;
	enum et_status status = ocl_run_wait(run, diag);
	if (status == ET_OK)
		run->view->event(run->view->self, call.shapes.node->op->name, et_platform_now_ns(NULL) - began);
	return status;
}

static enum et_status walk(struct ocl_run *run, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	for (uint32_t i = 0; i < run->model->graph.n_nodes && status == ET_OK; i++) {
		run->step = i;
		status = find_sizes(run, i, diag);
		if (status == ET_OK)
			status = run_node(run, i, diag);
		if (status == ET_OK)
			status = ocl_run_pace(run, 0, diag);
	}
	return status;
}

static enum et_status clear_error(struct ocl_run *run, struct et_diag *diag)
{
	static const cl_int zero;
	cl_event event;
	cl_int error = run->model->device->cl->EnqueueWriteBuffer(run->lane->queue, run->lane->error, CL_FALSE, 0,
		sizeof(zero), &zero, 0, NULL, &event);
	if (error != CL_SUCCESS)
		return ocl_device_fail(run->model->device, error, "clEnqueueWriteBuffer", diag);
	ocl_run_enqueued(run, event);
	return ET_OK;
}

/* After the walk: whether a kernel met an index that is out of range. */
static enum et_status look_at_error(struct ocl_run *run, struct et_diag *diag)
{
	cl_int word = 0;
	enum et_status status = ocl_run_wait(run, diag);
	if (status != ET_OK)
		return status;
	cl_int error = run->model->device->cl->EnqueueReadBuffer(run->lane->queue, run->lane->error, CL_TRUE, 0,
		sizeof(word), &word, 0, NULL, NULL);
	if (error != CL_SUCCESS)
		return ocl_device_fail(run->model->device, error, "clEnqueueReadBuffer", diag);
	return word ? et_fail(diag, ET_E_INVALID_ARGUMENT, "an index in a tensor is out of range") : ET_OK;
}

enum et_status ocl_run(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *view, struct et_diag *diag)
{
	struct ocl_device *device = model->device;
	struct ocl_run run = { .model = model, .instance = instance, .view = view };
	if (view->n_args != model->graph.n_inputs + model->graph.n_outputs)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "%u arguments for %u inputs and %u outputs", view->n_args,
			model->graph.n_inputs, model->graph.n_outputs);
	if (atomic_load_explicit(&device->is_lost, memory_order_relaxed))
		return et_fail(diag, ET_E_BACKEND_CRASHED, "%s is lost", device->name);
	enum et_status status = ocl_lane_take(device, model->n_arena_bytes, &run.lane, diag);
	if (status != ET_OK)
		return status;
	run.priority = INFERD_DELEGATE_HAS(view, priority) ? view->priority : INFERD_DELEGATE_PRIORITY_UNKNOWN;
	ocl_turn_begin(device, run.priority);
	uint64_t began = et_platform_now_ns(NULL);
	instance->n_saved = 0;
	instance->n_saved_bytes = 0;
	et_pool_init(&run.scratch, ocl_allocator());
	et_graph_largest_sizes(&model->graph, instance->sizes);
	memset(instance->in_place, 0, model->graph.n_values * sizeof(*instance->in_place));
	for (uint32_t i = 0; i < model->graph.n_values; i++)
		instance->homes[i] = (struct ocl_home){ .root = i };
	status = clear_error(&run, diag);
	if (status == ET_OK)
		status = ocl_inputs_take(&run, diag);
	if (status == ET_OK)
		status = walk(&run, diag);
	if (status == ET_OK)
		status = look_at_error(&run, diag);
	if (status == ET_OK)
		status = ocl_outputs_give(&run, diag);
	struct et_diag ignored = { "" };
	ocl_run_wait(&run, &ignored);
	if (status != ET_OK && status != ET_E_BACKEND_CRASHED && ocl_states_restore(&run, &ignored) != ET_OK)
		status = ET_E_BACKEND_CRASHED;
	ocl_turn_end(device, run.priority);
	uint64_t busy_ns = et_platform_now_ns(NULL) - began - run.waited_ns;
	pthread_mutex_lock(&device->lock);
	device->n_runs++;
	device->busy_ns += busy_ns;
	pthread_mutex_unlock(&device->lock);
	if (INFERD_DELEGATE_HAS(view, busy) && view->busy)
		view->busy(view->self, busy_ns);
	ocl_lane_give(run.lane);
	et_pool_deinit(&run.scratch);
	return status;
}
