/* SPDX-License-Identifier: BSD-3-Clause */
/* The rig's kernels and its runs. The kernels are simple on purpose, because tests reason about who wrote what and
 * when. */
#include "tests/support/method_rig.h"

#include "runtime/dim_order.h"
#include "runtime/base/checked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static float *floats(const struct et_evalue *value)
{
	return value->tensor->data;
}

static enum et_status like(struct et_evalue *out, const struct et_tensor *tensor)
{
	return et_tensor_resize(out->tensor, tensor->sizes, tensor->n_dims);
}

static enum et_status run_add(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	if (like(args[2], args[0]->tensor))
		return et_fail(ctx->diag, ET_E_INVALID_ARGUMENT, "the output cannot take that size");
	for (size_t i = 0; i < et_tensor_numel(args[0]->tensor); i++)
		floats(args[2])[i] = floats(args[0])[i] + floats(args[1])[i];
	return ET_OK;
}

static enum et_status run_copy(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	if (like(args[0], args[1]->tensor))
		return et_fail(ctx->diag, ET_E_INVALID_ARGUMENT, "the target cannot take that size");
	memmove(floats(args[0]), floats(args[1]), et_tensor_n_bytes(args[1]->tensor));
	return ET_OK;
}

static enum et_status run_clone(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return run_copy(ctx, (struct et_evalue *const[]){ args[1], args[0] });
}

static enum et_status run_accumulate(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	for (size_t i = 0; i < et_tensor_numel(args[0]->tensor); i++)
		floats(args[0])[i] += floats(args[1])[i];
	return ET_OK;
}

static enum et_status run_view(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	args[1]->tensor->data = args[0]->tensor->data;
	return ET_OK;
}

static enum et_status run_cat(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	size_t at = 0;
	for (uint32_t i = 0; i < args[0]->list->n; i++) {
		const struct et_tensor *item = args[0]->list->values[i]->tensor;
		memmove(floats(args[1]) + at, item->data, et_tensor_n_bytes(item));
		at += et_tensor_numel(item);
	}
	return ET_OK;
}

static enum et_status run_split(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	size_t at = 0;
	for (uint32_t i = 0; i < args[1]->list->n; i++) {
		struct et_tensor *item = args[1]->list->values[i]->tensor;
		memmove(item->data, floats(args[0]) + at, et_tensor_n_bytes(item));
		at += et_tensor_numel(item);
	}
	return ET_OK;
}

uint32_t rig_n_checked;

static enum et_status run_split_sizes(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_evalue *const pair[] = { args[0], args[2] };
	size_t left = et_tensor_numel(args[0]->tensor), n = args[2]->list->n;
	rig_n_checked++;
	for (uint32_t i = 0; i < n && n == args[1]->list->n; i++) {
		size_t size = et_tensor_numel(args[2]->list->values[i]->tensor);
		if (size > left || args[1]->list->values[i]->i != (int64_t)size)
			break;
		left -= size;
	}
	return left ? et_fail(ctx->diag, ET_E_INVALID_ARGUMENT, "these are not the sizes") : run_split(ctx, pair);
}

static enum et_status run_reshape(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	int64_t n = 1;
	rig_n_checked++;
	for (uint32_t i = 0; i < args[1]->list->n; i++)
		n *= args[1]->list->values[i]->i;
	if (n != (int64_t)et_tensor_numel(args[0]->tensor))
		return et_fail(ctx->diag, ET_E_INVALID_ARGUMENT, "these are not the sizes");
	memmove(floats(args[2]), floats(args[0]), et_tensor_n_bytes(args[0]->tensor));
	return ET_OK;
}

static bool find_split(struct et_evalue *const *args, size_t *ret_first, size_t *ret_n)
{
	*ret_first = 0;
	*ret_n = (size_t)args[0]->tensor->sizes[0];
	return true;
}

static enum et_status run_part(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	memmove(floats(args[2]), floats(args[0]) + args[1]->i, RIG_PART * sizeof(float));
	return ET_OK;
}

static bool find_part(struct et_evalue *const *args, size_t *ret_first, size_t *ret_n)
{
	*ret_first = (size_t)args[1]->i;
	*ret_n = RIG_PART;
	return true;
}

static enum et_status run_add_scalar(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	*args[2] = (struct et_evalue){ .i = args[0]->i + args[1]->i, .tag = ET_TAG_INT };
	return ET_OK;
}

static enum et_status run_lt_scalar(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	*args[2] = (struct et_evalue){ .b = args[0]->i < args[1]->i, .tag = ET_TAG_BOOL };
	return ET_OK;
}

static enum et_status run_fill(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	for (size_t i = 0; i < et_tensor_numel(args[1]->tensor); i++)
		floats(args[1])[i] = (float)args[0]->i;
	return ET_OK;
}

static enum et_status run_shrink(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	int32_t n = (int32_t)args[1]->i;
	if (et_tensor_resize(args[2]->tensor, &n, 1))
		return et_fail(ctx->diag, ET_E_INVALID_ARGUMENT, "the output cannot take %d elements", (int)n);
	memcpy(floats(args[2]), floats(args[0]), (size_t)n * sizeof(float));
	return ET_OK;
}

static enum et_status run_sum_ints(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	int64_t sum = 0;
	for (uint32_t i = 0; i < args[0]->list->n; i++)
		sum += args[0]->list->values[i]->i;
	*args[1] = (struct et_evalue){ .i = sum, .tag = ET_TAG_INT };
	return ET_OK;
}

static enum et_status run_less(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	uint8_t *out = args[2]->tensor->data;
	for (size_t i = 0; i < et_tensor_numel(args[0]->tensor); i++)
		out[i] = floats(args[0])[i] < floats(args[1])[i];
	return ET_OK;
}

static enum et_status run_fail(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	return et_fail(ctx->diag, ET_E_INVALID_ARGUMENT, "it does not want to");
}

static enum et_status run_scratch(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	size_t n_bytes = et_tensor_n_bytes(args[0]->tensor);
	void *scratch = et_kernel_scratch(ctx, n_bytes);
	if (!scratch)
		return ET_E_MEMORY_ALLOCATION_FAILED;
	memcpy(scratch, floats(args[0]), n_bytes);
	memcpy(floats(args[1]), scratch, n_bytes);
	return ET_OK;
}

static const struct et_kernel kernels[] = {
	{ "test::accumulate_", "&TT", run_accumulate, NULL },
	{ "test::add.Scalar", "SS>N", run_add_scalar, NULL },
	{ "test::add.out", "TT>T", run_add, NULL },
	{ "test::cat", "L>T", run_cat, NULL },
	{ "test::clone", "T>T", run_clone, NULL, .only_copies = true },
	{ "test::copy_", "=TT", run_copy, NULL },
	{ "test::fail", "T>T", run_fail, NULL },
	{ "test::fill", "S>T", run_fill, NULL },
	{ "test::less", "TT>T", run_less, NULL },
	{ "test::lt.Scalar", "SS>N", run_lt_scalar, NULL },
	{ "test::part", "TI>T", run_part, NULL, .find_part = find_part },
	{ "test::reshape", "TV>T", run_reshape, NULL, .only_copies = true },
	{ "test::scratch", "T>T", run_scratch, NULL },
	{ "test::series", "T>T", run_scratch, NULL, .element_steps = RIG_SERIES_STEPS },
	{ "test::shrink", "TI>T", run_shrink, NULL },
	{ "test::split", "T>L", run_split, NULL, .find_part = find_split },
	{ "test::split_sizes", "TV>L", run_split_sizes, NULL, .find_part = find_split },
	{ "test::sum_ints", "V>N", run_sum_ints, NULL },
	{ "test::view", "T>*T", run_view, NULL },
};
const struct et_kernel_table rig_kernels = { kernels, ET_ARRAY_LEN(kernels) };
static const struct et_kernel_table *const tables[] = { &rig_kernels };

static void release(void *owner)
{
	free(owner);
}

void rig_init(struct method_rig *rig)
{
	rig->counting = (struct counting_alloc){ 0 };
	rig->allocator = counting_allocator(&rig->counting);
	rig->registry = (struct et_registry){
		.tables = tables,
		.n_tables = 1,
		.backends = rig->backends,
		.n_backends = rig->n_backends,
		.order = et_order_run,
	};
	et_pool_init(&rig->scratch, &rig->allocator);
	rig->poison = 0xff; /* a float of these bytes is a NaN */
}

enum et_status rig_try_plan(struct method_rig *rig, struct make_program *mk)
{
	size_t n_bytes;
	uint8_t *bytes = mk_finish(mk, &n_bytes);
	struct et_source source = { .bytes = bytes, .n_bytes = n_bytes, .owner = bytes, .release = release };
	rig->diag.text[0] = '\0';
	enum et_status status = et_program_open(&rig->program, &source, NULL, &rig->allocator, &rig->diag);
	if (status) {
		free(bytes);
		rig->program = NULL;
		return status;
	}
	status = et_plan_new(&rig->plan, rig->program, NULL, &rig->registry, &rig->options, 2, &rig->allocator,
		&rig->diag);
	if (!status)
		rig->info = et_plan_info(rig->plan);
	return status;
}

void rig_open(struct method_rig *rig, struct make_program *mk)
{
	if (rig_try_plan(rig, mk) || et_method_new(&rig->method, rig->plan, &rig->allocator, &rig->diag) ||
		et_frame_new(&rig->frame, rig->plan, &rig->allocator, &rig->allocator, &rig->diag))
		fail_msg("%s", rig->diag.text);
}

void rig_close(struct method_rig *rig)
{
	rig->frame = et_frame_free(rig->frame);
	rig->method = et_method_free(rig->method);
	rig->plan = et_plan_unref(rig->plan);
	rig->program = et_program_unref(rig->program);
	et_pool_deinit(&rig->scratch);
	assert_int_equal(rig->counting.n_live, 0);
}

void rig_run_init(struct method_rig *rig, struct rig_run *run)
{
	*run = (struct rig_run){ .run = { .method = rig->method, .frame = rig->frame } };
	run->run.inputs = run->inputs;
	run->run.outputs = run->outputs;
	run->env.scratch = &rig->scratch;
	for (uint32_t i = 0; i < rig->info->n_inputs; i++) {
		const struct et_io_info *info = &rig->info->inputs[i];
		run->inputs[i].tag = info->tag;
		run->inputs[i].n_dims = info->n_dims;
		for (uint32_t d = 0; d < info->n_dims; d++)
			run->inputs[i].sizes[d] = info->sizes[d];
	}
}

void rig_input(struct rig_run *run, uint32_t index, float *data, uint32_t n)
{
	run->inputs[index].tensor.data = data;
	run->inputs[index].tensor.n_bytes = n * sizeof *data;
}

void rig_output(struct rig_run *run, uint32_t index, float *data, uint32_t n)
{
	run->outputs[index].tensor.data = data;
	run->outputs[index].tensor.n_bytes = n * sizeof *data;
}

enum et_status rig_run(struct method_rig *rig, struct rig_run *run)
{
	if (rig->poison >= 0)
		et_frame_poison(rig->frame, rig->poison);
	run->run.cancelled = false;
	enum et_status status = et_run_begin(&run->run);
	if (status)
		return status;
	enum et_stop stop;
	do {
		run->env.queue = run->run.queue;
		stop = et_run_advance(&run->run, &run->env);
	} while (stop == ET_STOP_QUEUE);
	assert_true(stop == ET_STOP_DONE || stop == ET_STOP_FAILED);
	return et_run_end(&run->run);
}

void rig_run_floats(struct method_rig *rig, float *in, uint32_t n_in, float *out, uint32_t n_out)
{
	struct rig_run run;
	rig_run_init(rig, &run);
	rig_input(&run, 0, in, n_in);
	rig_output(&run, 0, out, n_out);
	if (rig_run(rig, &run))
		fail_msg("%s", run.run.diag.text);
}
