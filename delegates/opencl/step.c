/* SPDX-License-Identifier: BSD-3-Clause */
/* What plan and run functions are made of: checks of types, kernels by their types, views, arguments of kernels.
 *
 * An argument that does not fit marks the launch as wrong and keeps the first sentence; so run functions put all
 * arguments one after the other, and ocl_start answers for all of them. */
#include "delegates/opencl/step.h"

#include "delegates/opencl/lane.h"
#include "delegates/opencl/run.h"
#include "delegates/opencl/weights.h"
#include "runtime/base/checked.h"
#include "runtime/tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct ocl_row *ocl_row_find(const char *name)
{
	static const struct ocl_row *const tables[] = { ocl_rows_elementwise, ocl_rows_movement, ocl_rows_gather,
		ocl_rows_reduce, ocl_rows_norm, ocl_rows_matrix, ocl_rows_window, ocl_rows_quantized,
		ocl_rows_attention };
	for (size_t i = 0; i < ET_ARRAY_LEN(tables); i++)
		for (const struct ocl_row *row = tables[i]; row->name; row++)
			if (strcmp(row->name, name) == 0)
				return row;
	return NULL;
}

const struct ocl_row *ocl_fast_row_find(const struct et_graph_operator *op)
{
	static const struct ocl_row chain = { "chain", ocl_plan_chain, ocl_run_chain };
	static const struct ocl_row *const tables[] = { ocl_rows_fast_matrix, ocl_rows_fast_convolution };
	if (et_graph_operator_is_step(op))
		return &chain;
	for (size_t i = 0; i < ET_ARRAY_LEN(tables); i++)
		for (const struct ocl_row *row = tables[i]; row->name; row++)
			if (strcmp(row->name, op->name) == 0)
				return row;
	return NULL;
}

/* --- plan ----------------------------------------------------------------------------------------- */

bool ocl_refuse(struct ocl_plan *plan, const char *format, ...)
{
	char text[200];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	plan->status = et_fail(plan->diag, ET_E_NOT_SUPPORTED, "node %u, %s: %s",
		(unsigned)(plan->node - plan->graph->nodes), plan->node->op->name, text);
	return false;
}

uint8_t ocl_arg_type(const struct ocl_plan *plan, uint32_t i)
{
	const struct et_graph_value *value = &plan->graph->values[plan->node->args[i]];
	return value->kind == ET_GRAPH_TENSOR ? value->tensor->type : ET_FLOAT32;
}

uint8_t ocl_result_type(const struct ocl_plan *plan, uint32_t i)
{
	return plan->graph->values[plan->node->results[i]].tensor->type;
}

bool ocl_is_float(uint8_t type)
{
	return type == ET_FLOAT32 || type == ET_FLOAT16;
}

bool ocl_has_arg(const struct ocl_plan *plan, uint32_t i)
{
	return plan->graph->values[plan->node->args[i]].kind != ET_GRAPH_NULL;
}

bool ocl_want(struct ocl_plan *plan, int i, uint8_t type)
{
	if (i >= 0 && !ocl_has_arg(plan, (uint32_t)i))
		return true;
	uint8_t is = i < 0 ? ocl_result_type(plan, (uint32_t)(-1 - i)) : ocl_arg_type(plan, (uint32_t)i);
	if (is == type || (type == ET_FLOAT32 && is == ET_FLOAT16) || (type == ET_INT32 && is == ET_INT64))
		return true;
	return ocl_refuse(plan, "%s %d has type %s", i < 0 ? "result" : "argument", i < 0 ? -1 - i : i,
		et_scalar_name(is));
}

static const char *type_name(uint8_t type)
{
	switch (type) {
	case ET_FLOAT32:
		return "f32";
	case ET_FLOAT16:
		return "f16";
	case ET_INT64:
		return "i64";
	case ET_INT32:
		return "i32";
	case ET_INT8:
		return "i8";
	case ET_UINT8:
		return "u8";
	case ET_BOOL:
		return "bool";
	default:
		return NULL;
	}
}

bool ocl_use(struct ocl_plan *plan, uint32_t k, const char *family, const struct ocl_definition *types,
	uint32_t n_types, const char *more)
{
	char text[OCL_MAX_DEFINITIONS];
	const char *compute = plan->step->compute == ET_INT32   ? "int"
			      : plan->step->compute == ET_INT64 ? "long"
								: "float";
	int n = snprintf(text, sizeof(text), "#define COMPUTE %s\n%s%s", compute,
		compute[0] == 'f' ? "" : "#define COMPUTES_IN_INTEGERS\n", more);
	for (uint32_t i = 0; i < n_types && n < (int)sizeof(text); i++) {
		if (!type_name(types[i].type))
			return ocl_refuse(plan, "a tensor has type %s", et_scalar_name(types[i].type));
		n += snprintf(text + n, sizeof(text) - (size_t)n, "#define %s %s\n", types[i].name,
			type_name(types[i].type));
	}
	if (n >= (int)sizeof(text))
		return ocl_refuse(plan, "its kernel has too many definitions");
	plan->status = ocl_kernel_get(plan->device, family, text, &plan->step->kernels[k], plan->diag);
	return plan->status == ET_OK;
}

void ocl_pack(struct ocl_plan *plan, uint32_t arg, const struct ocl_layout *layout)
{
	plan->step->packed_value = plan->node->args[arg];
	plan->step->layout = *layout;
}

/* --- views ---------------------------------------------------------------------------------------- */

uint64_t ocl_numel(const struct et_graph_size *size)
{
	uint64_t n = 1;
	for (uint32_t i = 0; i < size->n_dims; i++)
		n = et_times(n, size->dims[i]);
	return n;
}

uint64_t ocl_blocks(uint64_t n, uint64_t size)
{
	return (n + size - 1) / size;
}

uint64_t ocl_view_numel(const struct ocl_view *view)
{
	uint64_t n = 1;
	for (uint32_t i = 0; i < view->n_dims; i++)
		n = et_times(n, view->dims[i]);
	return n;
}

struct ocl_view ocl_view_of(const struct et_graph_size *size)
{
	struct ocl_view view = { .n_dims = size->n_dims };
	int64_t stride = 1;
	for (uint32_t i = size->n_dims; i-- > 0;) {
		view.dims[i] = size->dims[i];
		view.strides[i] = stride;
		stride *= size->dims[i]; /* below 2^31: the run checked the number of elements */
	}
	return view;
}

struct ocl_view ocl_view_as(const struct et_graph_size *size, const struct et_graph_size *to)
{
	struct ocl_view own = ocl_view_of(size), view = { .n_dims = to->n_dims };
	for (uint32_t i = 0; i < to->n_dims; i++) {
		uint32_t missing = to->n_dims - (size->n_dims < to->n_dims ? size->n_dims : to->n_dims);
		view.dims[i] = to->dims[i];
		if (i >= missing && own.dims[i - missing] != 1)
			view.strides[i] = own.strides[i - missing];
	}
	return view;
}

uint32_t ocl_views_simplify(struct ocl_view *views, uint32_t n)
{
	uint32_t n_dims = 0;
	for (uint32_t d = 0; d < views[0].n_dims; d++) {
		bool joins = n_dims > 0;
		if (views[0].dims[d] == 1)
			continue;
		for (uint32_t v = 0; v < n && joins; v++)
			joins = views[v].strides[n_dims - 1] == views[v].strides[d] * (int64_t)views[0].dims[d];
		for (uint32_t v = 0; v < n; v++) {
			uint32_t to = joins ? n_dims - 1 : n_dims;
			views[v].dims[to] = joins ? views[v].dims[to] * views[v].dims[d] : views[v].dims[d];
			views[v].strides[to] = views[v].strides[d];
		}
		n_dims += !joins;
	}
	for (uint32_t v = 0; v < n; v++)
		views[v].n_dims = n_dims;
	return n_dims;
}

/* --- arguments of kernels ------------------------------------------------------------------------- */

bool ocl_misfit(struct ocl_call *call, const char *format, ...)
{
	char text[200];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	et_graph_misfit(&call->shapes, "%s", text);
	call->status = ET_E_INVALID_ARGUMENT;
	return false;
}

void ocl_begin(struct ocl_call *call, struct ocl_launch *launch, uint32_t kernel)
{
	launch->kernel = call->step->kernels[kernel];
	launch->local = call->run->model->device->work_group_size;
	launch->n_args = 0;
	launch->is_wrong = !launch->kernel;
}

uint64_t ocl_lanes_group(const struct ocl_device *device)
{
	return device->is_cpu ? 1 : device->work_group_size;
}

void ocl_begin_lanes(struct ocl_call *call, struct ocl_launch *launch, uint32_t kernel)
{
	ocl_begin(call, launch, kernel);
	launch->local = ocl_lanes_group(call->run->model->device);
}

void ocl_put(struct ocl_launch *launch, const void *bytes, size_t n)
{
	if (launch->n_args == OCL_MAX_KERNEL_ARGS || n > OCL_MAX_ARG_BYTES) {
		launch->is_wrong = true;
		return;
	}
	launch->args[launch->n_args].n = n;
	memcpy(launch->args[launch->n_args++].bytes, bytes, n);
}

void ocl_put_int(struct ocl_launch *launch, int64_t i)
{
	cl_int word = (cl_int)i;
	if (i < INT32_MIN || i > UINT32_MAX)
		launch->is_wrong = true;
	ocl_put(launch, &word, sizeof(word));
}

void ocl_put_float(struct ocl_launch *launch, double d)
{
	cl_float word = (cl_float)d;
	ocl_put(launch, &word, sizeof(word));
}

void ocl_put_ints(struct ocl_launch *launch, const int64_t *ints, uint32_t n)
{
	cl_int words[8] = { 0 };
	for (uint32_t i = 0; i < n; i++) {
		words[i] = (cl_int)ints[i];
		launch->is_wrong |= ints[i] < INT32_MIN || ints[i] > INT32_MAX;
	}
	ocl_put(launch, words, n == 4 ? 4 * sizeof(cl_int) : sizeof(words));
}

void ocl_put_sizes(struct ocl_launch *launch, const uint32_t *sizes, uint32_t n)
{
	cl_uint words[8] = { 0 };
	memcpy(words, sizes, n * sizeof(*sizes));
	ocl_put(launch, words, n == 4 ? 4 * sizeof(cl_uint) : sizeof(words));
}

void ocl_put_strides(struct ocl_launch *launch, const struct ocl_view *view)
{
	int64_t strides[8] = { 0 };
	memcpy(strides, view->strides, view->n_dims * sizeof(*strides));
	ocl_put_ints(launch, strides, 8);
}

/* Buffer and first element of @value, and how many elements there are from it on. */
static bool find_memory(struct ocl_call *call, uint32_t value, cl_mem *ret_buffer, uint64_t *ret_at, uint64_t *ret_n)
{
	const struct inferd_delegate_instance *instance = call->run->instance;
	const struct et_graph_value *v = &call->shapes.graph->values[value];
	if (v->kind != ET_GRAPH_TENSOR)
		return ocl_misfit(call, "an argument is no tensor");
	struct ocl_home home = instance->homes[value];
	uint64_t n_bytes = et_scalar_size(call->shapes.graph->values[home.root].tensor->type), at;
	ocl_run_memory(call->run, home.root, ret_buffer, &at);
	*ret_at = at / n_bytes + home.at;
	*ret_n = et_less(ocl_run_room(call->run, home.root), home.at);
	return true;
}

void ocl_put_tensor(struct ocl_call *call, struct ocl_launch *launch, uint32_t value, uint64_t n)
{
	cl_mem buffer = NULL;
	uint64_t at = 0, n_there = 0;
	uint64_t n_has = call->shapes.graph->values[value].kind == ET_GRAPH_TENSOR
				 ? ocl_numel(&call->run->instance->sizes[value])
				 : 0;
	if (!find_memory(call, value, &buffer, &at, &n_there)) {
		launch->is_wrong = true;
	} else if (n > n_has || n > n_there) {
		launch->is_wrong = true;
		ocl_misfit(call, "a tensor has %llu elements, %llu are needed",
			(unsigned long long)(n_has < n_there ? n_has : n_there), (unsigned long long)n);
	}
	ocl_put(launch, &buffer, sizeof(buffer));
	ocl_put(launch, &at, sizeof(at));
}

void ocl_put_packed(struct ocl_call *call, struct ocl_launch *launch)
{
	cl_mem buffer = call->step->packed ? call->step->packed->buffer : NULL;
	launch->is_wrong |= !buffer;
	ocl_put(launch, &buffer, sizeof(buffer));
	ocl_put(launch, &(cl_ulong){ 0 }, sizeof(cl_ulong));
}

bool ocl_was_given(const struct ocl_call *call, int arg)
{
	return arg >= 0 && call->shapes.graph->values[call->shapes.node->args[arg]].kind != ET_GRAPH_NULL;
}

void ocl_put_optional(struct ocl_call *call, struct ocl_launch *launch, int arg, uint64_t n)
{
	if (ocl_was_given(call, arg))
		ocl_put_tensor(call, launch, call->shapes.node->args[arg], n);
	else
		ocl_put_nothing(call, launch);
}

void ocl_put_nothing(struct ocl_call *call, struct ocl_launch *launch)
{
	ocl_put_error(call, launch); /* any buffer */
	ocl_put(launch, &(cl_ulong){ 0 }, sizeof(cl_ulong));
}

void ocl_put_view(struct ocl_call *call, struct ocl_launch *launch, uint32_t value, const struct ocl_view *view)
{
	cl_mem buffer = NULL;
	uint64_t at = 0, n_there = 0;
	int64_t low = view->start, high = view->start;
	for (uint32_t i = 0; i < view->n_dims; i++) {
		int64_t reach = (view->dims[i] ? (int64_t)view->dims[i] - 1 : 0) * view->strides[i];
		*(reach < 0 ? &low : &high) += reach;
	}
	bool is_empty = !ocl_view_numel(view);
	bool is_there = find_memory(call, value, &buffer, &at, &n_there);
	uint64_t n_has = is_there ? ocl_numel(&call->run->instance->sizes[value]) : 0;
	if (n_there > n_has)
		n_there = n_has; /* behind it lies what another run has left */
	if (!is_there) {
		launch->is_wrong = true;
	} else if (!is_empty && (low < 0 || (uint64_t)high >= n_there)) {
		launch->is_wrong = true;
		ocl_misfit(call, "elements %lld to %lld of a tensor of %llu", (long long)low, (long long)high,
			(unsigned long long)n_there);
	}
	at += (uint64_t)view->start;
	ocl_put(launch, &buffer, sizeof(buffer));
	ocl_put(launch, &at, sizeof(at));
}

void ocl_put_error(struct ocl_call *call, struct ocl_launch *launch)
{
	ocl_put(launch, &call->run->lane->error, sizeof(cl_mem));
}

/* Set and enqueue work-items from @first on, with the device's lock: kernels belong to all runs of the device. */
static cl_int enqueue(struct ocl_device *device, struct ocl_run *run, const struct ocl_launch *launch, size_t first,
	size_t n)
{
	const struct ocl_api *cl = device->cl;
	size_t local = launch->local, global = (n + local - 1) / local * local;
	cl_event event = NULL;
	cl_int error = CL_SUCCESS;
	pthread_mutex_lock(&device->lock);
	for (uint32_t i = 0; i < launch->n_args && error == CL_SUCCESS; i++)
		error = cl->SetKernelArg(launch->kernel->handle, i, launch->args[i].n, launch->args[i].bytes);
	if (error == CL_SUCCESS)
		error = cl->EnqueueNDRangeKernel(run->lane->queue, launch->kernel->handle, 1, first ? &first : NULL,
			&global, &local, 0, NULL, &event);
	pthread_mutex_unlock(&device->lock);
	if (error == CL_SUCCESS)
		ocl_run_enqueued(run, event);
	return error;
}

/* How many work-items go at once: no more than the run may enqueue before it looks up. */
static uint64_t part_of(const struct ocl_run *run, uint64_t local, uint64_t n, uint64_t cost)
{
	uint64_t all_ns = ocl_run_predict(run, et_times(n, cost));
	uint64_t n_parts = all_ns / OCL_SLICE_NS + 1, most = ocl_blocks(n, n_parts) / local * local;
	return most < local ? local : most < n ? most : n;
}

bool ocl_start(struct ocl_call *call, struct ocl_launch *launch, uint64_t n, uint64_t cost)
{
	struct ocl_device *device = call->run->model->device;
	if (launch->is_wrong)
		return call->status != ET_OK ? false : ocl_misfit(call, "a size or number is out of range");
	if (!n)
		return true;
	if (n > INT32_MAX)
		return ocl_misfit(call, "%llu elements", (unsigned long long)n);
	uint64_t part = part_of(call->run, launch->local, n, cost ? cost : 1);
	for (uint64_t first = 0; first < n; first += part) {
		uint64_t n_now = n - first < part ? n - first : part;
		cl_int error = enqueue(device, call->run, launch, (size_t)first, (size_t)n_now);
		call->status = error == CL_SUCCESS
				       ? ocl_run_pace(call->run,
						 ocl_run_predict(call->run, et_times(n_now, cost ? cost : 1)),
						 call->shapes.diag)
				       : ocl_device_fail(device, error, launch->kernel->family, call->shapes.diag);
		if (call->status != ET_OK)
			return false;
	}
	return true;
}
