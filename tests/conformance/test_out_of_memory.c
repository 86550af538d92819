/* SPDX-License-Identifier: BSD-3-Clause */
/* Load and run a model while the first, the second, the nth allocation fails.
 *
 *     test_out_of_memory {FILE.bpte [FILE.ptd]}...
 *
 * All allocations of the runtime and the delegates are counted: program, data file, Plan, models and instances of
 * delegates, worker threads, Method, frame, scratch. For each n the same load and run (each method, its first cases)
 * is tried twice: with an allocator that fails from the nth call on, and with one that fails only at the nth call.
 * It must end with a status and a sentence, or with the right outputs; and nothing may leak. The test ends at the
 * first n that is not reached. delegates/xnnpack/test_allocator.c tests XNNPACK's own memory. */
#include "delegates/delegates.h"
#include "delegates/direct/direct.h"
#include "runtime/program/bundle.h"
#include "runtime/program/external_data.h"
#include "runtime/platform/platform.h"
#include "runtime/method.h"
#include "tests/support/counting_alloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_BACKENDS = 8, MAX_IOS = 64, MAX_CASES = 2, MAX_ALLOCATIONS = 20000 };

/* What lives while one method runs. */
struct attempt {
	struct counting_alloc counting;
	struct et_allocator allocator;
	struct et_backend_entry backends[MAX_BACKENDS];
	struct et_worker_threads *thread_sets[MAX_BACKENDS];
	size_t n_backends;
	struct et_registry registry;
	struct et_diag diag;
	uint64_t sum; /* over all outputs' bytes */
};

static enum et_status open_backends(struct attempt *a)
{
	for (size_t i = 0; i < et_n_delegates && i < MAX_BACKENDS; i++) {
		struct et_backend_entry *entry = &a->backends[a->n_backends];
		enum et_status status = et_direct_open(entry, et_delegates[i], NULL, &a->allocator, NULL, &a->diag);
		if (status == ET_E_NOT_FOUND)
			continue;
		if (status != ET_OK)
			return status;
		a->n_backends++;
		status = entry->ops->threads_new(entry->backend, 0, 1, &a->thread_sets[a->n_backends - 1], &a->diag);
		if (status != ET_OK)
			return status;
	}
	a->registry = (struct et_registry){
		.tables = et_kernel_tables,
		.n_tables = et_n_kernel_tables,
		.backends = a->backends,
		.n_backends = a->n_backends,
	};
	return ET_OK;
}

static void close_backends(struct attempt *a)
{
	while (a->n_backends--) {
		const struct et_backend_entry *entry = &a->backends[a->n_backends];
		if (a->thread_sets[a->n_backends])
			entry->ops->threads_free(a->thread_sets[a->n_backends]);
		entry->ops->close(entry->backend);
	}
}

/* An input as the bundle has it, in memory of the test's own. */
static void give_input(struct et_io *io, const struct et_bundle_value *value, void **ret_memory)
{
	io->tag = value->tag;
	if (value->tag != ET_TAG_TENSOR) {
		io->i = value->i; /* the largest of them */
		return;
	}
	io->n_dims = value->tensor.n_dims;
	memcpy(io->sizes, value->tensor.sizes, io->n_dims * sizeof(*io->sizes));
	*ret_memory = calloc(1, value->tensor.n_bytes + 64);
	if (!*ret_memory)
		abort();
	memcpy(*ret_memory, value->tensor.data, value->tensor.n_bytes);
	io->tensor.data = *ret_memory;
	io->tensor.n_bytes = value->tensor.n_bytes;
}

static void add_outputs(struct attempt *a, const struct et_run *run, uint32_t n_outputs)
{
	for (uint32_t i = 0; i < n_outputs; i++) {
		const struct et_tensor *tensor = et_run_output(run, i);
		size_t n_bytes = tensor ? et_tensor_n_bytes(tensor) : 0;
		for (size_t k = 0; k < n_bytes; k++)
			a->sum = a->sum * 31 + ((const uint8_t *)tensor->data)[k];
	}
}

static enum et_status run_case(struct attempt *a, struct et_method *method, struct et_frame *frame,
	struct et_pool *scratch, const struct et_bundle_case *test)
{
	const struct et_plan_info *info = et_plan_info(et_method_plan(method));
	struct et_io inputs[MAX_IOS] = { 0 }, outputs[MAX_IOS] = { 0 };
	void *memory[MAX_IOS] = { 0 };
	struct et_run run = { .method = method, .frame = frame, .inputs = inputs, .outputs = outputs };
	struct et_worker_env env = { .scratch = scratch };
	if (info->n_inputs > MAX_IOS || info->n_outputs > MAX_IOS || test->n_inputs != info->n_inputs)
		return et_fail(&a->diag, ET_E_NOT_SUPPORTED, "another number of inputs");
	for (size_t i = 0; i < a->n_backends && !env.compute; i++) {
		if (a->backends[i].ops->threads_compute)
			env.compute = a->backends[i].ops->threads_compute(a->thread_sets[i]);
	}
	for (uint32_t i = 0; i < test->n_inputs; i++)
		give_input(&inputs[i], &test->inputs[i], &memory[i]);
	enum et_status status = et_run_begin(&run);
	if (status == ET_OK) {
		enum et_stop stop;
		do {
			env.queue = run.queue;
			stop = et_run_advance(&run, &env);
		} while (stop == ET_STOP_QUEUE);
		if (stop == ET_STOP_DONE)
			add_outputs(a, &run, info->n_outputs);
		status = et_run_end(&run);
	}
	a->diag = run.diag;
	for (uint32_t i = 0; i < test->n_inputs; i++)
		free(memory[i]);
	return status;
}

static enum et_status run_suite(struct attempt *a, struct et_program *program, const struct et_bundle_suite *suite)
{
	struct et_plan *plan = NULL;
	struct et_method *method = NULL;
	struct et_frame *frame = NULL;
	struct et_pool scratch;
	et_pool_init(&scratch, &a->allocator);
	enum et_status status = et_plan_new(&plan, program, suite->method, &a->registry, NULL, 1, &a->allocator,
		&a->diag);
	if (status == ET_OK)
		status = et_plan_prepare(plan, 0, a->thread_sets, NULL, &a->diag);
	if (status == ET_OK)
		status = et_method_new(&method, plan, &a->allocator, &a->diag);
	if (status == ET_OK)
		status = et_frame_new(&frame, plan, &a->allocator, &a->allocator, &a->diag);
	for (uint32_t i = 0; i < suite->n_cases && i < MAX_CASES && status == ET_OK; i++)
		status = run_case(a, method, frame, &scratch, &suite->cases[i]);
	et_frame_free(frame);
	et_method_free(method);
	if (plan)
		et_plan_release(plan, 0);
	et_plan_unref(plan);
	et_pool_deinit(&scratch);
	return status;
}

struct files {
	struct et_source program, data; /* no bytes: there is no data file */
};

static enum et_status try_model(struct attempt *a, const struct files *files, size_t fail_at, bool fails_once)
{
	struct et_source inner = files->program, data = files->data;
	struct et_external *external = NULL;
	struct et_bundle bundle = { 0 };
	struct et_program *program = NULL;
	struct et_pool pool;
	*a = (struct attempt){ .counting = { .fail_at = fail_at, .fails_once = fails_once } };
	a->allocator = counting_allocator(&a->counting);
	et_pool_init(&pool, &a->allocator);
	enum et_status status = et_bundle_open(&bundle, inner.bytes, inner.n_bytes, &pool, &a->diag);
	inner.release = data.release = NULL;
	inner.bytes = bundle.program;
	inner.n_bytes = bundle.n_program_bytes;
	if (status == ET_OK && data.bytes)
		status = et_external_open(&external, &data, NULL, &a->allocator, &a->diag);
	if (status == ET_OK)
		status = et_program_open(&program, &inner, external ? et_external_data(external) : NULL, &a->allocator,
			&a->diag);
	if (status == ET_OK)
		status = open_backends(a);
	for (uint32_t i = 0; i < bundle.n_suites && status == ET_OK; i++)
		status = run_suite(a, program, &bundle.suites[i]);
	close_backends(a);
	et_program_unref(program);
	et_external_free(external);
	et_pool_deinit(&pool);
	return status;
}

/* Every n; the number of allocations, or 0 when something went wrong. */
static size_t fail_each(const char *path, const struct files *files, const struct attempt *whole, bool once)
{
	struct attempt part;
	size_t n_survived = 0;
	for (size_t n = 1; n < MAX_ALLOCATIONS; n++) {
		enum et_status status = try_model(&part, files, n, once);
		bool was_reached = part.counting.n_calls >= n;
		bool is_same = status == ET_OK && part.sum == whole->sum;
		bool is_refused = status != ET_OK && part.diag.text[0];
		n_survived += was_reached && is_same;
		if (part.counting.n_live || !(is_same || (is_refused && was_reached))) {
			printf("%s: allocation %zu fails%s: %s: '%s', %zu left behind%s\n", path, n,
				once ? " alone" : "", et_status_text(status), part.diag.text, part.counting.n_live,
				status == ET_OK && !is_same ? ", other outputs" : "");
			return 0;
		}
		if (!was_reached) {
			printf("%s: %zu allocations, %zu of them can be done without%s\n", path, n - 1, n_survived,
				once ? ", each alone" : "");
			return n - 1;
		}
	}
	return 0;
}

static bool test_model(const char *path, const char *data_path)
{
	struct files files = { 0 };
	struct attempt whole;
	struct et_diag diag = { 0 };
	if (et_platform_source_map(&files.program, path, &diag) != ET_OK ||
		(data_path && et_platform_source_map(&files.data, data_path, &diag) != ET_OK)) {
		printf("%s: %s\n", path, diag.text);
		return false;
	}
	enum et_status status = try_model(&whole, &files, 0, false);
	bool is_good = status == ET_OK && !whole.counting.n_live;
	if (!is_good)
		printf("%s: %s: %s (%zu left behind)\n", path, et_status_text(status), whole.diag.text,
			whole.counting.n_live);
	is_good = is_good && fail_each(path, &files, &whole, false) && fail_each(path, &files, &whole, true);
	files.program.release(files.program.owner);
	if (data_path)
		files.data.release(files.data.owner);
	return is_good;
}

static bool is_data(const char *path)
{
	size_t n = strlen(path);
	return n > 4 && strcmp(path + n - 4, ".ptd") == 0;
}

int main(int argc, char **argv)
{
	bool is_good = argc > 1;
	for (int i = 1; i < argc; i++) {
		if (access(argv[i], R_OK) != 0) {
			printf("skipped: %s is not there\n", argv[i]);
			return 77;
		}
	}
	for (int i = 1; i < argc; i++) {
		const char *data = i + 1 < argc && is_data(argv[i + 1]) ? argv[i + 1] : NULL;
		is_good &= test_model(argv[i], data);
		i += data != NULL;
	}
	return is_good ? 0 : 1;
}
