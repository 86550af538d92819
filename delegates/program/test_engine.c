/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine through its table: every program of the tests' models gives the same bits as the runtime that runs it
 * directly, as a whole and in slices on alternating worker threads. */
#include "delegates/program/test_rig.h"

#include "runtime/platform/platform.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static const struct inferd_delegate *const table = &et_program_engine;
static struct rig rig;
static unsigned n_methods, n_runs, n_slices, n_equal, n_refused;
static uint64_t next_number = 1;

static struct inferd_delegate_message message = { .struct_size = sizeof message };

static struct inferd_delegate_worker_threads *new_threads(uint32_t n)
{
	struct inferd_delegate_worker_threads *threads = NULL;
	assert_int_equal(table->threads_new(rig.self, 0, n, &threads, &message), INFERD_DELEGATE_OK);
	return threads;
}

static struct inferd_delegate_run run_of(struct rig_args *args, struct inferd_delegate_worker_threads *threads)
{
	return (struct inferd_delegate_run){
		.struct_size = sizeof(struct inferd_delegate_run),
		.n_args = args->n_args,
		.args = args->pointers,
		.threads = threads,
	};
}

/* --- all programs ----------------------------------------------------------------------------------------------- */

static int run_whole(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	struct rig_args *args, struct inferd_delegate_worker_threads *threads)
{
	struct inferd_delegate_run run = run_of(args, threads);
	n_runs++;
	return table->execute(model, instance, &run, &message);
}

/* Go on until the run ends, each slice on the other worker threads. */
static int run_sliced(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	struct rig_args *args, struct inferd_delegate_worker_threads *const threads[2])
{
	struct inferd_delegate_run run = run_of(args, threads[0]);
	run.slice_ns = 1;
	n_runs++;
	int result = table->execute(model, instance, &run, &message);
	for (unsigned i = 1; result == INFERD_DELEGATE_UNFINISHED; i++) {
		run.flags = INFERD_DELEGATE_CONTINUES;
		run.threads = threads[i % 2];
		n_slices++;
		result = table->execute(model, instance, &run, &message);
	}
	return result;
}

static void compare(const struct rig_file *file, struct et_plan *plan, struct inferd_delegate_model *model)
{
	struct inferd_delegate_worker_threads *const threads[2] = { new_threads(1), new_threads(2) };
	struct inferd_delegate_instance *whole = NULL, *sliced = NULL;
	struct rig_reference r;
	struct rig_args args;
	rig_args_init(&args, et_plan_info(plan));
	rig_reference_init(&r, plan, NULL);
	assert_int_equal(table->instance_new(model, &whole, &message), INFERD_DELEGATE_OK);
	assert_int_equal(table->instance_new(model, &sliced, &message), INFERD_DELEGATE_OK);
	for (unsigned seed = 0; seed < 3; seed++) {
		rig_args_fill(&args, seed);
		enum et_status status = rig_reference_run(&r, &args);
		for (int is_sliced = 0; is_sliced < 2; is_sliced++) {
			message.text[0] = '\0';
			rig_args_clear(&args);
			int result = is_sliced ? run_sliced(model, sliced, &args, threads)
					       : run_whole(model, whole, &args, threads[0]);
			if (!result != (status == ET_OK))
				fail_msg("%s: the engine answers %d (%s), the runtime %d", file->path, result,
					message.text, status);
			if (status == ET_OK && !rig_args_equal(&args))
				fail_msg("%s, %s: the outputs differ, %s", file->path, et_plan_info(plan)->method,
					is_sliced ? "in slices" : "as a whole");
			n_equal += status == ET_OK;
		}
	}
	table->instance_free(whole);
	table->instance_free(sliced);
	/* in both orders: worker threads first, or the model first (below) */
	table->threads_free(threads[1]);
	table->destroy(model);
	table->threads_free(threads[0]);
	rig_reference_deinit(&r);
	rig_args_deinit(&args);
}

static void try_method(const struct rig_file *file, struct et_program *program, const char *method)
{
	struct inferd_delegate_payload payload = rig_payload(file, method, next_number++);
	struct inferd_delegate_model_info info = { .struct_size = sizeof info };
	struct inferd_delegate_model *model = NULL;
	struct et_diag diag = { "" };
	struct et_plan *plan = NULL;
	enum et_status status = et_plan_new(&plan, program, method, rig_registry(), NULL, 1, et_platform_allocator(),
		&diag);
	int result = table->init(rig.self, &payload, &model, &info, &message);
	n_methods++;
	if (!result != (status == ET_OK))
		fail_msg("%s: init answers %d (%s), the runtime %d (%s)", file->path, result, message.text, status,
			diag.text);
	if (result) {
		n_refused++;
		assert_true(message.text[0] != '\0');
		return;
	}
	const struct et_plan_info *expected = et_plan_info(plan);
	assert_int_equal(!!(info.flags & INFERD_DELEGATE_STATEFUL), expected->is_stateful);
	assert_true(info.flags & INFERD_DELEGATE_THREADS_OF_RUN);
	assert_int_equal(info.state_bytes, expected->n_state_bytes);
	assert_true(info.scratch_bytes >= expected->n_activation_bytes);
	compare(file, plan, model);
	et_plan_unref(plan);
}

static void try_file(const struct rig_file *file)
{
	struct et_program *program = NULL;
	if (rig_program(file, &program) != ET_OK)
		return;
	for (uint32_t i = 0; i < et_program_n_methods(program); i++)
		try_method(file, program, et_program_method_at(program, i)->name);
	et_program_unref(program);
}

static void test_same_bits(void **state)
{
	rig_open(&rig, NULL);
	rig_for_all(try_file);
	print_message("%u methods, %u refused; %u runs, %u of them with equal bits; %u further slices\n", n_methods,
		n_refused, n_runs, n_equal, n_slices);
	assert_true(n_methods - n_refused > 30 && n_equal > 150 && n_slices > 100);
	rig_close(&rig);
	rig_close_registry();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_bits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
