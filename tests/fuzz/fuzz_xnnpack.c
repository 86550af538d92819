/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: the input is an XnnpackBackend payload. If it compiles, it runs in an instance, with arguments as the
 * payload says and once with a changed dimension. XNNPACK asserts or reads out of bounds on a graph that makes no
 * sense, so such a graph must not reach it. No memory may leak, also if an allocation fails half-way. Nodes that can
 * be overrides (override.h) are tried both ways: as overrides however small they are, and in XNNPACK. */
#include "delegates/xnnpack/model.h"
#include "delegates/direct/direct.h"
#include "delegates/xnnpack/delegate.h"
#include "delegates/xnnpack/overrides/override.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/counting_alloc.h"

#include <stdlib.h>
#include <string.h>

enum {
	MAX_ARGS = 8,
	MAX_TENSOR_BYTES = 1 << 16, /* larger ones are compiled, not run */
	MAX_INSTANCE_BYTES = 1 << 20,
};

struct arg {
	struct et_evalue value;
	struct et_tensor tensor;
	int32_t sizes[ET_XNN_MAX_DIMS], strides[ET_XNN_MAX_DIMS];
	void *bytes;
};

static const uint8_t row_major[] = { 0, 1, 2, 3, 4, 5 };

static uint8_t scalar_type(const struct et_xnn_value *value)
{
	if (value->is_index)
		return ET_INT64;
	switch (value->type) {
	case ET_XNN_FP16:
		return ET_FLOAT16;
	case ET_XNN_QINT8:
		return ET_INT8;
	case ET_XNN_QUINT8:
		return ET_UINT8;
	case ET_XNN_FP32:
		return ET_FLOAT32;
	default:
		return ET_INT32;
	}
}

static bool arg_init(struct arg *arg, const struct et_xnn_value *value)
{
	uint64_t n = 1;
	for (uint32_t i = 0; i < value->shape.n_dims; i++) {
		if (value->shape.dims[i] > MAX_TENSOR_BYTES)
			return false;
		arg->sizes[i] = (int32_t)value->shape.dims[i];
		n *= value->shape.dims[i];
		if (n > MAX_TENSOR_BYTES)
			return false;
	}
	arg->tensor = (struct et_tensor){
		.capacity = n,
		.sizes = arg->sizes,
		.strides = arg->strides,
		.dim_order = row_major,
		.type = scalar_type(value),
		.n_dims = (uint8_t)value->shape.n_dims,
		.dynamism = ET_DYNAMIC_BOUND,
	};
	/* 16 readable bytes behind, as the interface says */
	arg->bytes = calloc(1, n * et_scalar_size((enum et_scalar_type)arg->tensor.type) + 16);
	arg->tensor.data = arg->bytes;
	arg->value = (struct et_evalue){ .tag = ET_TAG_TENSOR, .tensor = &arg->tensor };
	return arg->bytes != NULL;
}

/* What the file left out as an argument is a number that nobody reads. */
static void run(const struct et_delegate_ops *ops, struct et_instance *instance, const struct et_xnn_payload *payload)
{
	struct arg args[MAX_ARGS] = { 0 };
	struct et_evalue number = { .tag = ET_TAG_INT }, *values[MAX_ARGS];
	bool fits = payload->n_args <= MAX_ARGS;
	for (uint32_t i = 0; i < MAX_ARGS; i++)
		values[i] = &number;
	for (uint32_t i = 0; i < payload->n_values && fits; i++) {
		const struct et_xnn_value *value = &payload->values[i];
		if (!value->external)
			continue;
		fits = arg_init(&args[value->external_id], value);
		values[value->external_id] = &args[value->external_id].value;
	}
	if (fits) {
		struct et_diag diag = { 0 };
		if (ops->enqueue(instance, values, NULL, &diag) != ET_OK && !diag.text[0])
			abort();
		for (uint32_t i = 0; i < payload->n_inputs; i++) {
			struct et_tensor *tensor = &args[payload->values[payload->inputs[i]].external_id].tensor;
			if (tensor->n_dims > 0 && tensor->sizes[0] > 1)
				tensor->sizes[0]--;
		}
		(void)ops->enqueue(instance, values, NULL, &diag);
	}
	for (uint32_t i = 0; i < MAX_ARGS; i++)
		free(args[i].bytes);
}

static void try_payload(const struct et_payload *payload, size_t fail_at)
{
	struct counting_alloc counting = { 0 };
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_backend_entry entry;
	struct et_model *model = NULL;
	struct et_model_info info;
	struct et_worker_threads *threads = NULL;
	struct et_instance *instance = NULL;
	struct et_diag diag = { 0 };
	if (et_direct_open(&entry, &et_xnnpack_delegate, NULL, &allocator, NULL, &diag) != ET_OK)
		abort();
	const struct et_delegate_ops *ops = entry.ops;
	struct et_backend *backend = entry.backend;
	et_xnnpack_set_max_instance_bytes(et_direct_self(backend), MAX_INSTANCE_BYTES);
	if (fail_at)
		counting.fail_at = counting.n_calls + fail_at;
	enum et_status status = ops->compile(backend, payload, &model, &info, &diag);
	if (status == ET_OK)
		status = ops->threads_new(backend, 0, 1, &threads, &diag);
	if (status == ET_OK)
		status = ops->instance_new(model, threads, &instance, &diag);
	if (status == ET_OK)
		run(ops, instance, &et_direct_model(model)->model->payload);
	else if (!diag.text[0])
		abort();
	ops->instance_free(instance);
	ops->threads_free(threads);
	ops->model_free(model);
	ops->close(backend);
	if (counting.n_live)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	/* padding, and nothing behind it */
	uint8_t *padded = malloc(n_bytes + ET_SOURCE_PADDING);
	if (!padded)
		abort();
	memset(padded + n_bytes, 0, ET_SOURCE_PADDING);
	if (n_bytes)
		memcpy(padded, bytes, n_bytes);
	/* the header's first four bytes are free; the made inputs say there how many arguments they have */
	struct et_payload payload = {
		.bytes = padded,
		.n_bytes = n_bytes,
		.method = "forward",
		.n_args = n_bytes ? padded[0] % MAX_ARGS : 0,
	};
	et_xnn_override_set_least_work(UINT64_MAX);
	try_payload(&payload, 0);
	et_xnn_override_set_least_work(0);
	try_payload(&payload, 0);
	try_payload(&payload, n_bytes ? 1 + padded[n_bytes - 1] % 16 : 1);
	free(padded);
	return 0;
}
