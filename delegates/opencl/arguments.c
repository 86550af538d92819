/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of a run. The payload says with which type the caller has a tensor, but the program decides: int64
 * where the graph has int32, float where it has half. So types are converted by what the argument says, a whole number
 * that does not fit becomes the nearest that does, and a type that is too far from the graph's is refused.
 *
 * An argument that lies in imported memory (import.h) and has the graph's type is used where it lies: so the client may
 * change an input while kernels run, which they stand, and a run that fails leaves outputs half written. Others are
 * copied, and counted: inputs before the first kernel, outputs when all kernels have ended well. */
#include "delegates/opencl/import.h"
#include "delegates/opencl/lane.h"
#include "delegates/opencl/run.h"
#include "runtime/base/checked.h"
#include "runtime/base/fp16.h"
#include "runtime/tensor.h"

#include <math.h>
#include <string.h>

static bool is_float(uint8_t type)
{
	return type == ET_FLOAT16 || type == ET_FLOAT32 || type == ET_FLOAT64 || type == ET_BFLOAT16;
}

static bool is_integer(uint8_t type)
{
	return type == ET_UINT8 || type == ET_INT8 || type == ET_INT16 || type == ET_INT32 || type == ET_INT64;
}

static double load_float(uint8_t type, const uint8_t *bytes, uint64_t i)
{
	uint16_t half;
	float f;
	double d;
	switch (type) {
	case ET_FLOAT32:
		memcpy(&f, bytes + i * sizeof(f), sizeof(f));
		return (double)f;
	case ET_FLOAT64:
		memcpy(&d, bytes + i * sizeof(d), sizeof(d));
		return d;
	default:
		memcpy(&half, bytes + i * sizeof(half), sizeof(half));
		return (double)(type == ET_FLOAT16 ? et_fp16_to_float(half) : et_bf16_to_float(half));
	}
}

static void store_float(uint8_t type, uint8_t *bytes, uint64_t i, double d)
{
	float f = (float)d;
	uint16_t half;
	switch (type) {
	case ET_FLOAT32:
		memcpy(bytes + i * sizeof(f), &f, sizeof(f));
		return;
	case ET_FLOAT64:
		memcpy(bytes + i * sizeof(d), &d, sizeof(d));
		return;
	default:
		half = type == ET_FLOAT16 ? et_float_to_fp16(f) : et_float_to_bf16(f);
		memcpy(bytes + i * sizeof(half), &half, sizeof(half));
	}
}

static int64_t load_integer(uint8_t type, const uint8_t *bytes, uint64_t i)
{
	int16_t i16;
	int32_t i32;
	int64_t i64;
	switch (type) {
	case ET_INT8:
		return (int8_t)bytes[i];
	case ET_INT16:
		memcpy(&i16, bytes + i * sizeof(i16), sizeof(i16));
		return i16;
	case ET_INT32:
		memcpy(&i32, bytes + i * sizeof(i32), sizeof(i32));
		return i32;
	case ET_INT64:
		memcpy(&i64, bytes + i * sizeof(i64), sizeof(i64));
		return i64;
	default:
		return bytes[i];
	}
}

static int64_t clip(int64_t i, int64_t least, int64_t most)
{
	return i < least ? least : i > most ? most : i;
}

static void store_integer(uint8_t type, uint8_t *bytes, uint64_t i, int64_t value)
{
	int16_t i16 = (int16_t)clip(value, INT16_MIN, INT16_MAX);
	int32_t i32 = (int32_t)clip(value, INT32_MIN, INT32_MAX);
	switch (type) {
	case ET_INT8:
		bytes[i] = (uint8_t)clip(value, INT8_MIN, INT8_MAX);
		return;
	case ET_INT16:
		memcpy(bytes + i * sizeof(i16), &i16, sizeof(i16));
		return;
	case ET_INT32:
		memcpy(bytes + i * sizeof(i32), &i32, sizeof(i32));
		return;
	case ET_INT64:
		memcpy(bytes + i * sizeof(value), &value, sizeof(value));
		return;
	default:
		bytes[i] = (uint8_t)clip(value, 0, UINT8_MAX);
	}
}

/* Whether one type can be made of the other. bool is a byte in both. */
static bool can_convert(uint8_t from, uint8_t to)
{
	return from == to || (is_float(from) && is_float(to)) || (is_integer(from) && is_integer(to)) ||
	       (from == ET_BOOL && to == ET_UINT8) || (from == ET_UINT8 && to == ET_BOOL);
}

static void convert(uint8_t to_type, uint8_t *to, uint8_t from_type, const uint8_t *from, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		if (is_float(to_type))
			store_float(to_type, to, i, load_float(from_type, from, i));
		else if (to_type == ET_BOOL || from_type == ET_BOOL)
			to[i] = from[i];
		else
			store_integer(to_type, to, i, load_integer(from_type, from, i));
	}
}

/* Whether @arg is a row-major tensor that can be the graph's @tensor. */
static enum et_status check_tensor(const struct inferd_delegate_arg *arg, uint32_t index,
	const struct et_graph_tensor *tensor, struct et_diag *diag)
{
	if (arg->kind != INFERD_DELEGATE_TENSOR || arg->n_dims != tensor->n_dims)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "argument %u is no tensor of %u dimensions", index,
			tensor->n_dims);
	if (!can_convert(arg->type, tensor->type))
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "argument %u has type %s, the payload has %s", index,
			et_scalar_name(arg->type), et_scalar_name(tensor->type));
	for (uint32_t i = 0; i < arg->n_dims; i++)
		if (arg->dim_order[i] != i)
			return et_fail(diag, ET_E_INVALID_ARGUMENT, "argument %u is not row-major", index);
	return ET_OK;
}

/* Use the argument where it lies, if that is possible. */
static bool take_in_place(struct ocl_run *run, uint32_t value, const struct inferd_delegate_arg *arg)
{
	const struct et_graph_tensor *tensor = run->model->graph.values[value].tensor;
	size_t size = et_scalar_size(tensor->type);
	if (!arg->buffer || arg->buffer->device != run->model->device || arg->type != tensor->type ||
		arg->buffer_offset % size != 0)
		return false;
	run->instance->in_place[value] = (struct ocl_memory){
		.buffer = arg->buffer->memory, .at = arg->buffer_offset, .n_bytes = arg->n_bytes
	};
	return true;
}

static void count_copy(struct ocl_run *run, uint64_t n_bytes)
{
	pthread_mutex_lock(&run->model->device->lock);
	run->model->device->n_copied_bytes += n_bytes;
	pthread_mutex_unlock(&run->model->device->lock);
}

/* The number in @arg: an INT, or a tensor of one whole number. */
static enum et_status take_number(const struct inferd_delegate_arg *arg, uint32_t index, int64_t *ret_i,
	struct et_diag *diag)
{
	if (arg->kind == INFERD_DELEGATE_INT) {
		*ret_i = arg->i;
	} else {
		if (arg->kind != INFERD_DELEGATE_TENSOR || !is_integer(arg->type) ||
			arg->n_bytes < et_scalar_size(arg->type))
			return et_fail(diag, ET_E_INVALID_ARGUMENT, "argument %u is no whole number", index);
		*ret_i = load_integer(arg->type, arg->data, 0);
	}
	return ET_OK;
}

static enum et_status take_tensor(struct ocl_run *run, uint32_t index, uint32_t value, struct et_diag *diag)
{
	const struct et_graph_tensor *tensor = run->model->graph.values[value].tensor;
	const struct inferd_delegate_arg *arg = run->view->args[index];
	struct et_graph_size *size = &run->instance->sizes[value];
	enum et_status status = check_tensor(arg, index, tensor, diag);
	if (status != ET_OK)
		return status;
	for (uint32_t i = 0; i < arg->n_dims; i++) {
		if (arg->sizes[i] < 0 || (uint32_t)arg->sizes[i] > tensor->dims[i])
			return et_fail(diag, ET_E_INVALID_ARGUMENT,
				"argument %u has size %d in dimension %u, at most %u", index, (int)arg->sizes[i], i,
				tensor->dims[i]);
		size->dims[i] = (uint32_t)arg->sizes[i];
	}
	uint64_t n = ocl_numel(size), n_bytes = n * et_scalar_size(tensor->type);
	if (n * et_scalar_size(arg->type) > arg->n_bytes)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "argument %u has %llu bytes", index,
			(unsigned long long)arg->n_bytes);
	if (!n || !tensor->n_bytes || take_in_place(run, value, arg))
		return ET_OK;
	count_copy(run, n * et_scalar_size(arg->type));
	const uint8_t *bytes = arg->data;
	if (arg->type != tensor->type) {
		uint8_t *converted = et_pool_scratch(&run->scratch, n_bytes, 16);
		if (!converted)
			return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for argument %u", index);
		convert(tensor->type, converted, arg->type, arg->data, n);
		bytes = converted;
	}
	cl_event event;
	cl_int error = run->model->device->cl->EnqueueWriteBuffer(run->lane->queue, run->lane->arena, CL_FALSE,
		run->model->places[value], n_bytes, bytes, 0, NULL, &event);
	if (error != CL_SUCCESS)
		return ocl_device_fail(run->model->device, error, "clEnqueueWriteBuffer", diag);
	ocl_run_enqueued(run, event);
	return ET_OK;
}

/* Let nodes write outputs to where the caller wants them. */
static void find_outputs(struct ocl_run *run)
{
	const struct et_graph *graph = &run->model->graph;
	for (uint32_t i = 0; i < graph->n_outputs; i++) {
		const struct et_graph_value *value = &graph->values[graph->outputs[i]];
		bool is_made = value->kind == ET_GRAPH_TENSOR && value->origin == ET_GRAPH_OF_NODE &&
			       value->tensor->alias_of == ET_GRAPH_NONE;
		const struct inferd_delegate_arg *arg = run->view->args[graph->n_inputs + i];
		if (is_made && arg->kind == INFERD_DELEGATE_TENSOR &&
			!run->instance->in_place[graph->outputs[i]].buffer)
			take_in_place(run, graph->outputs[i], arg);
	}
}

enum et_status ocl_inputs_take(struct ocl_run *run, struct et_diag *diag)
{
	const struct et_graph *graph = &run->model->graph;
	enum et_status status = ET_OK;
	for (uint32_t i = 0; i < graph->n_inputs && status == ET_OK; i++) {
		uint32_t value = graph->inputs[i];
		if (graph->values[value].kind == ET_GRAPH_TENSOR) {
			status = take_tensor(run, i, value, diag);
			continue;
		}
		status = take_number(run->view->args[i], i, &run->instance->sizes[value].symbol, diag);
		run->instance->sizes[value].is_known = true;
	}
	if (status == ET_OK)
		find_outputs(run);
	return status;
}

/* An output on its way: enqueued, and perhaps to be converted. */
struct giving {
	uint8_t *bytes; /* NULL: straight into the argument */
	uint64_t n;
};

static enum et_status fetch_tensor(struct ocl_run *run, uint32_t index, uint32_t value, struct giving *giving,
	struct et_diag *diag)
{
	const struct et_graph_tensor *tensor = run->model->graph.values[value].tensor;
	struct inferd_delegate_arg *arg = run->view->args[index];
	const struct et_graph_size *size = &run->instance->sizes[value];
	enum et_status status = check_tensor(arg, index, tensor, diag);
	if (status != ET_OK)
		return status;
	for (uint32_t i = 0; i < arg->n_dims; i++) {
		if ((arg->flags & INFERD_DELEGATE_FIXED_SIZES) && (uint32_t)arg->sizes[i] != size->dims[i])
			return et_fail(diag, ET_E_INVALID_ARGUMENT, "output %u has size %u in dimension %u, not %d",
				index, size->dims[i], i, (int)arg->sizes[i]);
		arg->sizes[i] = (int32_t)size->dims[i];
	}
	uint64_t n = ocl_numel(size), n_bytes = n * et_scalar_size(tensor->type), at;
	if (n > INT32_MAX || n * et_scalar_size(arg->type) > arg->n_bytes)
		return et_fail(diag, ET_E_INVALID_ARGUMENT,
			"output %u needs %llu elements, there is room for %llu bytes", index, (unsigned long long)n,
			(unsigned long long)arg->n_bytes);
	const struct ocl_memory *in_place = &run->instance->in_place[value];
	if (!n || (in_place->buffer && arg->buffer && in_place->buffer == arg->buffer->memory &&
			  in_place->at == arg->buffer_offset))
		return ET_OK;
	count_copy(run, n * et_scalar_size(arg->type));
	giving->n = n;
	if (arg->type != tensor->type) {
		giving->bytes = et_pool_scratch(&run->scratch, n_bytes, 16);
		if (!giving->bytes)
			return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for output %u", index);
	}
	const struct ocl_home *home = &run->instance->homes[value];
	cl_mem buffer;
	cl_event event;
	ocl_run_memory(run, home->root, &buffer, &at);
	cl_int error = run->model->device->cl->EnqueueReadBuffer(run->lane->queue, buffer, CL_FALSE,
		at + home->at * et_scalar_size(tensor->type), n_bytes, giving->bytes ? giving->bytes : arg->data, 0,
		NULL, &event);
	if (error != CL_SUCCESS)
		return ocl_device_fail(run->model->device, error, "clEnqueueReadBuffer", diag);
	ocl_run_enqueued(run, event);
	return ET_OK;
}

static enum et_status give_number(struct inferd_delegate_arg *arg, uint32_t index, const struct et_graph_size *size,
	struct et_diag *diag)
{
	if (!size->is_known)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "output %u is a symbol that is not known", index);
	if (arg->kind == INFERD_DELEGATE_TENSOR && is_integer(arg->type) && arg->n_bytes >= et_scalar_size(arg->type))
		store_integer(arg->type, arg->data, 0, size->symbol);
	else if (arg->kind == INFERD_DELEGATE_INT)
		arg->i = size->symbol;
	else
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "output %u is no whole number", index);
	return ET_OK;
}

enum et_status ocl_outputs_give(struct ocl_run *run, struct et_diag *diag)
{
	const struct et_graph *graph = &run->model->graph;
	struct giving *givings = ET_POOL_NEW_ARRAY(&run->scratch, struct giving, graph->n_outputs);
	enum et_status status = givings ? ET_OK : et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for outputs");
	for (uint32_t i = 0; i < graph->n_outputs && status == ET_OK; i++) {
		uint32_t index = graph->n_inputs + i, value = graph->outputs[i];
		status = graph->values[value].kind == ET_GRAPH_TENSOR
				 ? fetch_tensor(run, index, value, &givings[i], diag)
				 : give_number(run->view->args[index], index, &run->instance->sizes[value], diag);
	}
	if (status == ET_OK)
		status = ocl_run_wait(run, diag);
	for (uint32_t i = 0; i < graph->n_outputs && status == ET_OK; i++) {
		struct inferd_delegate_arg *arg = run->view->args[graph->n_inputs + i];
		if (givings[i].bytes)
			convert(arg->type, arg->data, graph->values[graph->outputs[i]].tensor->type, givings[i].bytes,
				givings[i].n);
	}
	return status;
}
