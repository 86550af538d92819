/* SPDX-License-Identifier: BSD-3-Clause */
/* A real program with the portable kernels, directly through Plan, Method and run.
 *
 *     test_portable FILE.bpte        exits with 77 if the file is absent
 *
 * Every case of the bundle runs on one Method and then on a second one, like another client's, in one frame whose
 * activations are full of NaN before each run. So a value that a run needs but that was not called state, or that
 * two Methods share by mistake, shows as a wrong result. */
#include "runtime/program/bundle.h"
#include "runtime/platform/platform.h"
#include "runtime/method.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_IOS = 16 };

static int n_failed;

static void complain(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	n_failed++;
}

/* The next number of an array of FP32 or INT64, the types of these programs' outputs. */
static double number_at(const void *data, uint8_t type, size_t i)
{
	if (type == ET_INT64) {
		int64_t value;
		memcpy(&value, (const uint8_t *)data + i * sizeof value, sizeof value);
		return (double)value;
	}
	float value;
	memcpy(&value, (const uint8_t *)data + i * sizeof value, sizeof value);
	return value;
}

static double compare(const struct et_tensor *got, const struct et_bundle_value *want)
{
	double worst = 0;
	size_t n = et_tensor_numel(got);
	if (want->tag != ET_TAG_TENSOR || want->tensor.type != got->type ||
		want->tensor.n_bytes != et_tensor_n_bytes(got) || (got->type != ET_FLOAT32 && got->type != ET_INT64)) {
		complain("output", "another type or size than expected");
		return INFINITY;
	}
	for (size_t i = 0; i < n; i++) {
		double is = number_at(got->data, got->type, i), should = number_at(want->tensor.data, got->type, i);
		double error = fabs(is - should);
		if (!(error <= 1e-4 + 1e-3 * fabs(should))) {
			char text[128];
			snprintf(text, sizeof text, "element %zu is %g, expected %g", i, is, should);
			complain("output", text);
			return INFINITY;
		}
		worst = fmax(worst, error);
	}
	return worst;
}

/* Inputs in a bundle may be unaligned. The run copies them, or requires aligned memory. */
static void *aligned_copy(const void *bytes, size_t n)
{
	void *copy = aligned_alloc(64, (n + 127) / 64 * 64);
	if (copy && n)
		memcpy(copy, bytes, n);
	return copy;
}

static void fill_inputs(struct et_io *inputs, const struct et_bundle_case *test_case)
{
	for (uint32_t i = 0; i < test_case->n_inputs && i < MAX_IOS; i++) {
		const struct et_bundle_value *value = &test_case->inputs[i];
		inputs[i] = (struct et_io){ .tag = value->tag };
		if (value->tag == ET_TAG_TENSOR) {
			inputs[i].n_dims = value->tensor.n_dims;
			for (uint32_t d = 0; d < value->tensor.n_dims; d++)
				inputs[i].sizes[d] = value->tensor.sizes[d];
			inputs[i].tensor.data = aligned_copy(value->tensor.data, value->tensor.n_bytes);
			inputs[i].tensor.n_bytes = value->tensor.n_bytes;
		} else if (value->tag == ET_TAG_BOOL) {
			inputs[i].b = value->b;
		} else if (value->tag == ET_TAG_DOUBLE) {
			inputs[i].d = value->d;
		} else {
			inputs[i].i = value->i;
		}
	}
}

static double run_case(struct et_method *method, struct et_frame *frame, struct et_pool *scratch,
	const struct et_bundle_case *test_case)
{
	struct et_io inputs[MAX_IOS], outputs[MAX_IOS] = { 0 };
	fill_inputs(inputs, test_case);
	struct et_run run = { .method = method, .frame = frame, .inputs = inputs, .outputs = outputs };
	struct et_worker_env env = { .scratch = scratch };
	et_frame_poison(frame, 0xff);
	enum et_status status = et_run_begin(&run);
	if (!status) {
		et_run_advance(&run, &env);
		status = et_run_end(&run);
	}
	if (status)
		complain(et_status_text(status), run.diag.text);
	double worst = 0;
	for (uint32_t i = 0; i < test_case->n_outputs && !status; i++)
		worst = fmax(worst, compare(et_run_output(&run, i), &test_case->outputs[i]));
	for (uint32_t i = 0; i < test_case->n_inputs; i++)
		if (inputs[i].tag == ET_TAG_TENSOR)
			free(inputs[i].tensor.data);
	return worst;
}

static void run_suite(struct et_program *program, const struct et_bundle_suite *suite)
{
	struct et_registry registry = { .tables = et_kernel_tables, .n_tables = et_n_kernel_tables };
	const struct et_allocator *heap = et_platform_allocator();
	struct et_diag diag = { 0 };
	struct et_plan *plan = NULL;
	struct et_method *methods[2] = { NULL };
	struct et_frame *frame = NULL;
	struct et_pool scratch;
	et_pool_init(&scratch, heap);
	if (et_plan_new(&plan, program, suite->method, &registry, NULL, 1, heap, &diag) ||
		et_method_new(&methods[0], plan, heap, &diag) || et_method_new(&methods[1], plan, heap, &diag) ||
		et_frame_new(&frame, plan, heap, et_platform_page_allocator(), &diag)) {
		complain(suite->method, diag.text);
	} else {
		const struct et_plan_info *info = et_plan_info(plan);
		double worst = 0;
		for (uint32_t c = 0; c < suite->n_cases && !n_failed; c++)
			for (int m = 0; m < 2; m++)
				worst = fmax(worst, run_case(methods[m], frame, &scratch, &suite->cases[c]));
		printf("%s: %u instructions, %u cases on two methods, largest error %g; state %zu, "
		       "activations %zu, "
		       "frame %zu, plan %zu bytes; input bound: %d, output bound: %d\n",
			suite->method, info->n_instructions, suite->n_cases, worst, info->n_state_bytes,
			info->n_activation_bytes, info->n_value_table_bytes, info->n_plan_bytes,
			info->inputs[0].zero_copy, info->outputs[0].zero_copy);
	}
	et_frame_free(frame);
	et_method_free(methods[0]);
	et_method_free(methods[1]);
	et_plan_unref(plan);
	et_pool_deinit(&scratch);
}

int main(int argc, char **argv)
{
	if (argc != 2 || access(argv[1], R_OK) != 0) {
		fprintf(stderr, "SKIPPED: %s is not there\n", argc == 2 ? argv[1] : "FILE");
		return 77;
	}
	struct et_diag diag = { 0 };
	struct et_source source, again;
	struct et_program *program = NULL;
	struct et_bundle bundle;
	struct et_pool pool;
	et_pool_init(&pool, et_platform_allocator());
	if (et_platform_source_open(&source, argv[1], NULL, NULL, &diag) ||
		et_platform_source_open(&again, argv[1], NULL, NULL, &diag) ||
		et_program_open(&program, &source, NULL, et_platform_allocator(), &diag) ||
		et_bundle_open(&bundle, again.bytes, again.n_bytes, &pool, &diag)) {
		complain(argv[1], diag.text);
		return 1;
	}
	for (uint32_t i = 0; i < bundle.n_suites; i++)
		run_suite(program, &bundle.suites[i]);
	et_pool_deinit(&pool);
	again.release(again.owner);
	et_program_unref(program);
	return n_failed ? 1 : 0;
}
