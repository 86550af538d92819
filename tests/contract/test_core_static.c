/* SPDX-License-Identifier: BSD-3-Clause */
/* The core alone: linked only with itself and runtime/base, with stub tables for everything else. It opens a
 * program, makes a Plan, a Method and a frame, and runs, all in one static buffer. */
#include "runtime/method.h"

#include <stdio.h>
#include <string.h>

static _Alignas(64) uint8_t memory[64 * 1024];
static _Alignas(64) uint8_t file[16 * 1024];

#define CHECK(condition)                                                              \
	do {                                                                          \
		if (!(condition)) {                                                   \
			printf("line %d: %s; %s\n", __LINE__, #condition, diag.text); \
			return 1;                                                     \
		}                                                                     \
	} while (0)

static enum et_status run_add(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	float *h = args[0]->tensor->data;
	const float *x = args[1]->tensor->data;
	for (size_t i = 0; i < et_tensor_numel(args[0]->tensor); i++)
		h[i] += x[i];
	return ET_OK;
}

static enum et_status run_next(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	args[2]->i = args[0]->i + args[1]->i;
	return ET_OK;
}

static enum et_status run_is(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	args[2]->b = args[0]->i == args[1]->i;
	return ET_OK;
}

static const struct et_kernel kernels[] = {
	{ "stub::add", "&TT", run_add, NULL },
	{ "stub::is", "SS>N", run_is, NULL },
	{ "stub::next", "SS>N", run_next, NULL },
};
static const struct et_kernel_table table = { kernels, 3 };
static const struct et_kernel_table *const tables[] = { &table };

static uint32_t n_devices(const struct et_backend *backend)
{
	return 1;
}

static void device(const struct et_backend *backend, uint32_t index, struct et_device *ret_device)
{
	ret_device->kind = ET_QUEUE_NPU;
}

/* The delegate needs no memory of its own: its objects are addresses in the program. */
static enum et_status compile(struct et_backend *backend, const struct et_payload *payload, struct et_model **ret_model,
	struct et_model_info *ret_info, struct et_diag *diag)
{
	*ret_model = (struct et_model *)(uintptr_t)payload->bytes;
	ret_info->n_inputs = ret_info->n_outputs = 1;
	return ET_OK;
}

static void model_free(struct et_model *model)
{
}

static enum et_status instance_new(struct et_model *model, struct et_worker_threads *threads,
	struct et_instance **ret_instance, struct et_diag *diag)
{
	*ret_instance = (struct et_instance *)model;
	return ET_OK;
}

static void instance_free(struct et_instance *instance)
{
}

static enum et_status enqueue(struct et_instance *instance, struct et_evalue *const *args,
	const struct et_completion *completion, struct et_diag *diag)
{
	const float *h = args[0]->tensor->data;
	float *y = args[1]->tensor->data;
	for (size_t i = 0; i < et_tensor_numel(args[0]->tensor); i++)
		y[i] = h[i] * (float)(*(const uint8_t *)instance - '0');
	return ET_OK;
}

static const struct et_delegate_ops ops = {
	.id = "StubBackend",
	.n_devices = n_devices,
	.device = device,
	.compile = compile,
	.model_free = model_free,
	.instance_new = instance_new,
	.instance_free = instance_free,
	.enqueue = enqueue,
};

int main(int argc, char **argv)
{
	struct et_diag diag = { 0 };
	FILE *stream = argc == 2 ? fopen(argv[1], "rb") : NULL;
	CHECK(stream);
	struct et_source source = { .bytes = file, .n_bytes = fread(file, 1, sizeof file - ET_SOURCE_PADDING, stream) };
	fclose(stream);

	struct et_static_buffer buffer = { .bytes = memory, .n_bytes = sizeof memory };
	struct et_allocator allocator = et_static_allocator(&buffer);
	struct et_backend_entry backend = { .ops = &ops };
	struct et_registry registry = { .tables = tables, .n_tables = 1, .backends = &backend, .n_backends = 1 };
	struct et_program *program = NULL;
	struct et_plan *plan = NULL;
	struct et_method *method = NULL;
	struct et_frame *frame = NULL;
	struct et_worker_threads *thread_sets[] = { (struct et_worker_threads *)memory };
	CHECK(et_program_open(&program, &source, NULL, &allocator, &diag) == ET_OK);
	CHECK(et_plan_new(&plan, program, NULL, &registry, NULL, 1, &allocator, &diag) == ET_OK);
	CHECK(et_plan_prepare(plan, 0, thread_sets, NULL, &diag) == ET_OK);
	CHECK(et_method_new(&method, plan, &allocator, &diag) == ET_OK);
	CHECK(et_frame_new(&frame, plan, &allocator, &allocator, &diag) == ET_OK);
	CHECK(et_plan_info(plan)->is_stateful);

	struct et_pool scratch;
	et_pool_init(&scratch, &allocator);
	float sum = 0;
	size_t n_used = buffer.n_used;
	for (int64_t n = 1; n < 10; n++) {
		float x[4] = { 1, 2, 3, 4 }, y[4] = { 0 };
		struct et_io inputs[2] = { { .tag = ET_TAG_TENSOR, .n_dims = 1, .sizes = { 4 } },
			{ .tag = ET_TAG_INT } };
		inputs[0].tensor.data = x;
		inputs[0].tensor.n_bytes = sizeof x;
		inputs[1].i = n;
		struct et_io output = { 0 };
		output.tensor.data = y;
		output.tensor.n_bytes = sizeof y;
		struct et_run run = { .method = method, .frame = frame, .inputs = inputs, .outputs = &output };
		struct et_worker_env env = { .scratch = &scratch };
		et_frame_poison(frame, 0xff);
		enum et_status status = et_run_begin(&run);
		diag = run.diag;
		CHECK(status == ET_OK);
		CHECK(et_run_advance(&run, &env) == ET_STOP_QUEUE);
		CHECK(run.queue.kind == ET_QUEUE_NPU);
		env.queue = run.queue;
		CHECK(et_run_advance(&run, &env) == ET_STOP_DONE);
		CHECK(et_run_end(&run) == ET_OK);
		sum += (float)n;
		CHECK(y[0] == 2 * sum && y[3] == 8 * sum);
		CHECK(run.n_copied_bytes == 0);
	}
	CHECK(buffer.n_used == n_used); /* the run allocated nothing */
	printf("%zu bytes of the buffer used\n", buffer.n_used);
	et_pool_deinit(&scratch);
	et_frame_free(frame);
	et_method_free(method);
	et_plan_release(plan, 0);
	et_plan_unref(plan);
	et_program_unref(program);
	return 0;
}
