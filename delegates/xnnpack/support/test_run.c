/* SPDX-License-Identifier: BSD-3-Clause */
/* A miniature runtime for tests: programs of delegate calls only.
 *
 * Each tensor has memory of its own, so nothing depends on a memory plan. A delegate may read 16 bytes behind a
 * tensor's end; a read one page behind it faults. */
#include "delegates/xnnpack/support/test_run.h"

#include "runtime/platform/platform.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static enum et_status open_program(struct test_model *model, const struct et_external_data *external,
	const struct et_allocator *allocator, struct et_diag *diag)
{
	struct et_source inner = model->source;
	enum et_status status = ET_OK;
	inner.release = NULL;
	et_pool_init(&model->pool, et_platform_allocator());
	if (et_bundle_is(inner.bytes, inner.n_bytes)) {
		status = et_bundle_open(&model->bundle, inner.bytes, inner.n_bytes, &model->pool, diag);
		inner.bytes = model->bundle.program;
		inner.n_bytes = model->bundle.n_program_bytes;
	}
	if (status == ET_OK)
		status = et_program_open(&model->program, &inner, external, allocator, diag);
	return status;
}

enum et_status test_model_open(struct test_model *ret_model, const char *path, const char *method,
	const struct et_backend_entry *entry, const struct et_allocator *allocator, struct et_diag *diag)
{
	struct et_source source;
	enum et_status status = et_platform_source_open(&source, path, NULL, NULL, diag);
	if (status != ET_OK)
		return status;
	return test_model_open_source(ret_model, &source, NULL, method, entry, allocator, diag);
}

enum et_status test_model_open_source(struct test_model *ret_model, const struct et_source *source,
	const struct et_external_data *external, const char *method, const struct et_backend_entry *entry,
	const struct et_allocator *allocator, struct et_diag *diag)
{
	struct test_model model = { .entry = *entry, .source = *source };
	enum et_status status = open_program(&model, external, allocator, diag);
	if (status == ET_OK) {
		model.method = et_program_find_method(model.program, method);
		if (!model.method)
			status = et_fail(diag, ET_E_NOT_FOUND, "no method %s", method);
	}
	for (uint32_t i = 0; status == ET_OK && i < model.method->n_delegates; i++) {
		const struct et_delegate_spec *spec = &model.method->delegates[i];
		struct et_payload payload = {
			.program = model.program,
			.bytes = spec->payload,
			.n_bytes = spec->n_bytes,
			.specs = spec->specs,
			.n_specs = spec->n_specs,
			.method = model.method->name,
			.store = model.source.store,
		};
		if (i >= TEST_MAX_DELEGATES || strcmp(spec->id, et_xnnpack_delegate.id) != 0) {
			status = et_fail(diag, ET_E_NOT_IMPLEMENTED, "delegate %s", spec->id);
			break;
		}
		for (uint32_t j = 0; j < model.method->n_instructions; j++) {
			if (model.method->instructions[j].op == ET_OP_DELEGATE &&
				model.method->instructions[j].index == i)
				payload.n_args = model.method->instructions[j].n_args;
		}
		status = entry->ops->compile(entry->backend, &payload, &model.model[i], &model.infos[i], diag);
	}
	for (uint32_t i = 0; status == ET_OK && i < model.method->n_instructions; i++) {
		if (model.method->instructions[i].op != ET_OP_DELEGATE)
			status = et_fail(diag, ET_E_NOT_IMPLEMENTED, "it has more than delegate calls");
	}
	if (status != ET_OK) {
		test_model_close(&model);
		return status;
	}
	*ret_model = model;
	return ET_OK;
}

void test_model_close(struct test_model *model)
{
	for (uint32_t i = 0; i < TEST_MAX_DELEGATES; i++)
		model->entry.ops->model_free(model->model[i]);
	et_program_unref(model->program);
	et_pool_deinit(&model->pool);
	if (model->source.release)
		model->source.release(model->source.owner);
	*model = (struct test_model){ 0 };
}

/* Memory that ends with a page. */
static void *map_tensor(struct test_memory *memory, size_t n_bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t n_whole = (n_bytes + page - 1) / page * page;
	memory->n_mapped = n_whole + 2 * page;
	uint8_t *bytes = mmap(NULL, memory->n_mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED || mprotect(bytes, n_whole, PROT_READ | PROT_WRITE) != 0 ||
		mprotect(bytes + n_whole, page, PROT_READ) != 0)
		abort();
	memory->mapping = bytes;
	/* Elements stay aligned: a tensor's bytes are a multiple of its element. */
	return bytes + n_whole - n_bytes;
}

static void tensor_new(struct et_evalue *value, struct test_memory *memory, const struct et_tensor_spec *spec)
{
	struct et_tensor *tensor = calloc(1, sizeof(*tensor));
	tensor->sizes = calloc(ET_MAX_DIMS, sizeof(int32_t));
	tensor->strides = calloc(ET_MAX_DIMS, sizeof(int32_t));
	tensor->dim_order = spec->dim_order;
	tensor->type = spec->type;
	tensor->n_dims = spec->n_dims;
	tensor->dynamism = spec->dynamism;
	memcpy(tensor->sizes, spec->sizes, spec->n_dims * sizeof(int32_t));
	et_dim_order_to_strides(tensor->sizes, tensor->dim_order, tensor->n_dims, tensor->strides);
	tensor->capacity = et_tensor_numel(tensor);
	tensor->data = map_tensor(memory, spec->n_bytes);
	if (spec->constant)
		memcpy(tensor->data, spec->constant, spec->n_bytes);
	value->tag = ET_TAG_TENSOR;
	value->tensor = tensor;
}

enum et_status test_instance_new(struct test_instance *ret_instance, struct test_model *model,
	struct et_worker_threads *threads, struct et_diag *diag)
{
	const struct et_method_spec *method = model->method;
	struct test_instance instance = { .model = model };
	instance.values = calloc(method->n_values, sizeof(*instance.values));
	instance.memory = calloc(method->n_values, sizeof(*instance.memory));
	for (uint32_t i = 0; i < method->n_values; i++) {
		if (method->values[i].tag == ET_TAG_TENSOR)
			tensor_new(&instance.values[i], &instance.memory[i], method->values[i].tensor);
	}
	enum et_status status = ET_OK;
	for (uint32_t i = 0; i < method->n_delegates && status == ET_OK; i++)
		status = model->entry.ops->instance_new(model->model[i], threads, &instance.instances[i], diag);
	if (status != ET_OK) {
		test_instance_free(&instance);
		return status;
	}
	*ret_instance = instance;
	return ET_OK;
}

void test_instance_free(struct test_instance *instance)
{
	if (!instance->model)
		return;
	for (uint32_t i = 0; i < TEST_MAX_DELEGATES; i++)
		instance->model->entry.ops->instance_free(instance->instances[i]);
	for (uint32_t i = 0; i < instance->model->method->n_values; i++) {
		struct et_evalue *value = &instance->values[i];
		if (value->tag != ET_TAG_TENSOR)
			continue;
		free(value->tensor->sizes);
		free(value->tensor->strides);
		free(value->tensor);
		munmap(instance->memory[i].mapping, instance->memory[i].n_mapped);
	}
	free(instance->values);
	free(instance->memory);
	*instance = (struct test_instance){ 0 };
}

/* Bind an input, ending at the end of its page whatever its size. */
static enum et_status set_input(struct test_instance *instance, uint32_t slot, const struct et_bundle_value *given,
	struct et_diag *diag)
{
	struct et_tensor *tensor = instance->values[slot].tensor;
	if (given->tag != ET_TAG_TENSOR || !tensor || given->tensor.type != tensor->type)
		return et_fail(diag, ET_E_INVALID_TYPE, "the case's input does not fit");
	size_t n_before = et_tensor_n_bytes(tensor);
	if (et_tensor_resize(tensor, given->tensor.sizes, given->tensor.n_dims) != ET_OK)
		return et_fail(diag, ET_E_INVALID_ARGUMENT, "the case's input has another shape");
	tensor->data = (uint8_t *)tensor->data + n_before - et_tensor_n_bytes(tensor);
	memcpy(tensor->data, given->tensor.data, et_tensor_n_bytes(tensor));
	return ET_OK;
}

static float fp16_to_float(uint16_t fp16)
{
	uint32_t exponent = fp16 >> 10 & 31, mantissa = fp16 & 1023;
	float sign = fp16 & 0x8000 ? -1.0f : 1.0f;
	if (exponent == 31)
		return mantissa ? NAN : sign * INFINITY;
	return sign * (exponent ? ldexpf((float)(mantissa | 1024), (int)exponent - 25) : ldexpf((float)mantissa, -24));
}

static double element(const void *bytes, uint8_t type, size_t index)
{
	float f32;
	uint16_t f16;
	int64_t i64;
	int32_t i32;
	switch (type) {
	case ET_FLOAT32:
		memcpy(&f32, (const uint8_t *)bytes + index * 4, 4);
		return (double)f32;
	case ET_FLOAT16:
		memcpy(&f16, (const uint8_t *)bytes + index * 2, 2);
		return (double)fp16_to_float(f16);
	case ET_INT64:
		memcpy(&i64, (const uint8_t *)bytes + index * 8, 8);
		return (double)i64;
	case ET_INT32:
		memcpy(&i32, (const uint8_t *)bytes + index * 4, 4);
		return i32;
	case ET_INT8:
		return ((const int8_t *)bytes)[index];
	default:
		return ((const uint8_t *)bytes)[index];
	}
}

static bool compare(const struct et_tensor *tensor, const struct et_bundle_value *expected, double atol, double rtol,
	double *ret_worst)
{
	bool is_same = expected->tensor.type == tensor->type && expected->tensor.n_dims == tensor->n_dims;
	for (uint32_t i = 0; is_same && i < tensor->n_dims; i++)
		is_same = expected->tensor.sizes[i] == tensor->sizes[i];
	if (!is_same) {
		*ret_worst = INFINITY;
		return false;
	}
	bool passed = true;
	size_t n = et_tensor_numel(tensor);
	for (size_t i = 0; i < n; i++) {
		double a = element(tensor->data, tensor->type, i);
		double b = element(expected->tensor.data, tensor->type, i);
		if ((isnan(a) && isnan(b)) || a == b)
			continue;
		double error = fabs(a - b);
		if (!(error <= atol + rtol * fabs(b)))
			passed = false;
		if (!(error <= *ret_worst))
			*ret_worst = isnan(error) ? INFINITY : error;
	}
	return passed;
}

enum et_status test_instance_run(struct test_instance *instance, const struct et_bundle_case *test_case, double atol,
	double rtol, double *ret_worst, bool *ret_passed, struct et_diag *diag)
{
	const struct et_method_spec *method = instance->model->method;
	enum et_status status = ET_OK;
	for (uint32_t i = 0; i < method->n_inputs && i < test_case->n_inputs && status == ET_OK; i++)
		status = set_input(instance, method->inputs[i], &test_case->inputs[i], diag);
	for (uint32_t i = 0; i < method->n_instructions && status == ET_OK; i++) {
		const struct et_instruction_spec *call = &method->instructions[i];
		struct et_evalue *args[64];
		if (call->n_args > 64)
			return et_fail(diag, ET_E_NOT_IMPLEMENTED, "%u arguments", call->n_args);
		for (uint32_t j = 0; j < call->n_args; j++)
			args[j] = &instance->values[call->args[j]];
		status = instance->model->entry.ops->enqueue(instance->instances[call->index], args, NULL, diag);
	}
	*ret_worst = 0;
	*ret_passed = status == ET_OK;
	for (uint32_t i = 0; i < method->n_outputs && i < test_case->n_outputs && status == ET_OK; i++) {
		const struct et_bundle_value *expected = &test_case->outputs[i];
		const struct et_evalue *value = &instance->values[method->outputs[i]];
		if (expected->tag != ET_TAG_TENSOR || value->tag != ET_TAG_TENSOR)
			continue;
		if (!compare(value->tensor, expected, atol, rtol, ret_worst))
			*ret_passed = false;
	}
	return status;
}
