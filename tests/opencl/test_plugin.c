/* SPDX-License-Identifier: BSD-3-Clause */
/* The OpenCL plug-in in one process: options, devices, states of instances, cancellation, and each call of OpenCL that
 * fails once (fake.c). The kernels' numbers are test_kernels.c's. */
#include "tests/opencl/rig.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char relu[] = "%0: f32[2] = input\n%1: f32[2] = aten.relu.default(%0)\nreturn %1\n";

static void test_options(void **state)
{
	static const struct {
		const char *key, *value;
		int result;
		const char *says;
	} cases[] = { { "library", "/nowhere/libOpenCL.so", INFERD_DELEGATE_E_NOT_FOUND, "no OpenCL loader" },
		{ "dump", "perhaps", INFERD_DELEGATE_E_INVALID, "dump: 'perhaps' is neither yes nor no" },
		{ "speed", "high", INFERD_DELEGATE_E_INVALID, "option 'speed' is unknown: there are devices" },
		{ "devices", "nothing like that", INFERD_DELEGATE_E_NOT_FOUND, "OpenCL" },
		{ "platforms", "nothing like that", INFERD_DELEGATE_E_NOT_FOUND, "OpenCL" } };
	struct rig rig;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		rig_load(&rig);
		rig_set(&rig, cases[i].key, cases[i].value);
		assert_int_equal(rig_open(&rig), cases[i].result);
		if (!strstr(rig.message.text, cases[i].says))
			fail_msg("'%s' does not say '%s'", rig.message.text, cases[i].says);
		rig_close(&rig);
	}
}

/* Drivers are told by their environment, before they are loaded; what is set already stays. */
static void test_environment(void **state)
{
	struct rig rig;
	assert_int_equal(unsetenv("RUSTICL_ENABLE"), 0);
	for (int i = 0; i < 2; i++) {
		rig_load(&rig);
		rig_set(&rig, "library", "/nowhere/libOpenCL.so");
		rig_set(&rig, "drivers", i ? "other" : "iris, radeonsi");
		assert_int_equal(rig_open(&rig), INFERD_DELEGATE_E_NOT_FOUND);
		assert_string_equal(getenv("RUSTICL_ENABLE"), "iris,radeonsi");
		assert_string_equal(getenv("POCL_WORK_GROUP_SPECIALIZATION"), "0");
		rig_close(&rig);
	}
	assert_int_equal(unsetenv("RUSTICL_ENABLE"), 0);
}

/* A CPU stands in for a GPU, and says that it is a simulator. */
static void test_devices(void **state)
{
	struct inferd_delegate_device device = { .struct_size = sizeof(device) };
	struct inferd_delegate_stats stats = { .struct_size = sizeof(stats) };
	struct rig rig;
	rig_load(&rig);
	if (!rig_open_driver(&rig))
		skip();
	assert_int_equal(rig.table->devices(rig.self, 0, &device), 0);
	assert_int_equal(device.kind, INFERD_DELEGATE_GPU);
	assert_true(device.flags & INFERD_DELEGATE_SIMULATOR);
	assert_true(device.name[0] && device.max_in_flight >= 2);
	assert_int_equal(rig.table->devices(rig.self, 8, &device), INFERD_DELEGATE_E_NOT_FOUND);
	assert_int_equal(rig.table->stats(rig.self, 0, &stats), 0);
	assert_int_equal(stats.n_runs, 0);
	assert_int_equal(stats.memory_bytes, 0);
	rig_close(&rig);
}

/* Arguments in memory that was imported are used there: data points elsewhere. */
static void test_memory_in_place(void **state)
{
	enum { PAGE = 4096, AT = 64 };
	static _Alignas(PAGE) uint8_t bytes[2][PAGE];
	struct inferd_delegate_buffer *buffers[2];
	struct inferd_delegate_stats stats = { .struct_size = sizeof(stats) };
	struct inferd_delegate_model *model;
	struct inferd_delegate_model_info info;
	struct inferd_delegate_instance *instance;
	struct rig_run run = { .n = 0 };
	struct rig rig;
	const float in[2] = { -1, 2 };
	float out[2];
	rig_load(&rig);
	if (!rig_open_driver(&rig))
		skip();
	for (uint32_t i = 0; i < 2; i++) {
		struct inferd_delegate_memory memory = { .struct_size = sizeof(memory),
			.kind = INFERD_DELEGATE_MEMFD,
			.fd = -1,
			.is_written = i,
			.n_bytes = PAGE,
			.data = bytes[i] };
		assert_int_equal(rig.table->buffer_import(rig.self, 0, &memory, &buffers[i]), 0);
	}
	memcpy(bytes[0] + AT, in, sizeof(in));
	assert_int_equal(rig_init(&rig, relu, &model, &info), 0);
	assert_int_equal(rig.table->instance_new(model, &instance, &rig.message), 0);
	rig_arg(&run, "f32[2]{7, 7}");
	rig_arg(&run, "f32[2]");
	for (uint32_t i = 0; i < 2; i++) {
		run.args[i].buffer = buffers[i];
		run.args[i].buffer_offset = AT;
	}
	assert_int_equal(rig_execute(&rig, model, instance, &run), 0);
	memcpy(out, bytes[1] + AT, sizeof(out));
	assert_true(out[0] == 0 && out[1] == 2);
	assert_int_equal(rig.table->stats(rig.self, 0, &stats), 0);
	assert_int_equal(stats.copied_bytes, 0);
	/* another type is converted, so copied */
	run.n = 0;
	rig_arg(&run, "f16[2]{-7, 7}");
	rig_arg(&run, "f32[2]");
	run.args[0].buffer = buffers[0];
	assert_int_equal(rig_execute(&rig, model, instance, &run), 0);
	rig_expect(&run, 1, "f32[2]{0, 7}", "converted");
	assert_int_equal(rig.table->stats(rig.self, 0, &stats), 0);
	assert_int_equal(stats.copied_bytes, 12);
	rig.table->instance_free(instance);
	rig.table->destroy(model);
	rig.table->buffer_free(buffers[0]);
	rig.table->buffer_free(buffers[1]);
	rig_close(&rig);
}

static void test_payloads(void **state)
{
	static const uint8_t garbage[64] = "....VH00", nothing[8];
	struct inferd_delegate_payload payload = { .struct_size = sizeof(payload),
		.bytes = garbage,
		.n_bytes = sizeof(garbage),
		.fd = -1,
		.program = 1,
		.method = "forward" };
	const struct inferd_delegate_pair option = { sizeof(option), 0, "speed", "high", 4 };
	const struct inferd_delegate_pair *options[] = { &option };
	struct inferd_delegate_model_info info = { .struct_size = sizeof(info) };
	struct inferd_delegate_model *model;
	uint32_t readiness = 77;
	struct rig rig;
	rig_load(&rig);
	if (!rig_open_driver(&rig))
		skip();
	assert_int_equal(rig.table->init(rig.self, &payload, &model, &info, &rig.message), INFERD_DELEGATE_E_INVALID);
	payload.bytes = nothing;
	payload.n_bytes = sizeof(nothing);
	assert_int_equal(rig.table->probe(rig.self, &payload, &readiness, &rig.message), 0);
	assert_int_equal(readiness, INFERD_DELEGATE_NO);
	payload.options = options;
	payload.n_options = 1;
	assert_int_equal(rig.table->init(rig.self, &payload, &model, &info, &rig.message), INFERD_DELEGATE_E_INVALID);
	assert_string_equal(rig.message.text, "option 'speed' is unknown: a model has device");
	rig_close(&rig);
}

/* --- states --------------------------------------------------------------------------------------- */

/* One row of values at @at: with a query of zeros the result is the mean of the cache's rows up to it. */
static int step(struct rig *rig, struct inferd_delegate_model *model, struct inferd_delegate_instance *instance, int at,
	const char *v, const char *expected)
{
	struct rig_run run = { .n = 0 };
	char position[32];
	snprintf(position, sizeof(position), "i64[1]{%d}", at);
	rig_arg(&run, "f32[1, 1, 1, 2]{0, 0}");
	rig_arg(&run, v);
	rig_arg(&run, position);
	rig_arg(&run, "f32[1, 1, 1, 2]");
	int result = rig_execute(rig, model, instance, &run);
	if (!result)
		rig_expect(&run, 3, expected, position);
	return result;
}

static void test_states(void **state)
{
	static const char graph[] =
		"%0: f32[1, 1, 1, 2] = input\n%1: f32[1, 1, 1, 2] = input\n%2: i32[1] = input\n"
		"%3: f32[1, 4, 1, 2] = state\n%4: f32[1, 4, 1, 2] = state\n"
		"%5: symbol = et_vk.select_as_symint.default(%2, 0, 0)\n"
		"%6: f32[1, 1, 1, 2] = sdpa_with_kv_cache.default(%0, %1, %1, %3, %4, %5, 1, none, 0.0, true, none)\nreturn %6\n";
	struct inferd_delegate_instance *a, *b;
	struct inferd_delegate_model *model;
	struct inferd_delegate_model_info info;
	struct rig rig;
	rig_load(&rig);
	if (!rig_open_driver(&rig))
		skip();
	if (rig_init(&rig, graph, &model, &info))
		fail_msg("%s", rig.message.text);
	assert_true(info.flags & INFERD_DELEGATE_STATEFUL);
	assert_int_equal(info.state_bytes, 64);
	assert_int_equal(rig.table->instance_new(model, &a, &rig.message), 0);
	assert_int_equal(rig.table->instance_new(model, &b, &rig.message), 0);
	assert_int_equal(step(&rig, model, a, 0, "f32[1, 1, 1, 2]{1, 2}", "f32[1, 1, 1, 2]{1, 2}"), 0);
	assert_int_equal(step(&rig, model, b, 0, "f32[1, 1, 1, 2]{5, 6}", "f32[1, 1, 1, 2]{5, 6}"), 0);
	/* what is refused changes nothing */
	assert_int_equal(step(&rig, model, a, 4, "f32[1, 1, 1, 2]{9, 9}", ""), INFERD_DELEGATE_E_ARGUMENT);
	assert_int_equal(step(&rig, model, a, -1, "f32[1, 1, 1, 2]{9, 9}", ""), INFERD_DELEGATE_E_ARGUMENT);
	assert_non_null(strstr(rig.message.text, "sdpa_with_kv_cache"));
	assert_int_equal(step(&rig, model, a, 1, "f32[1, 1, 1, 2]{3, 4}", "f32[1, 1, 1, 2]{2, 3}"), 0);
	assert_int_equal(step(&rig, model, b, 1, "f32[1, 1, 1, 2]{7, 8}", "f32[1, 1, 1, 2]{6, 7}"), 0);
	assert_int_equal(rig.table->instance_reset(a, &rig.message), 0);
	assert_int_equal(step(&rig, model, a, 1, "f32[1, 1, 1, 2]{3, 4}", "f32[1, 1, 1, 2]{1.5, 2}"), 0);
	rig.table->instance_free(a);
	rig.table->instance_free(b);
	rig.table->destroy(model);
	rig_close(&rig);
}

/* A run that fails after it has written its row leaves the cache as it was: the request can be asked again. */
static void test_repeatable(void **state)
{
	static const char graph[] =
		"%0: f32[1, 1, 1, 2] = input\n%1: f32[1, 1, 1, 2] = input\n%2: i32[1] = input\n%7: i32[1] = input\n"
		"%3: f32[1, 4, 1, 2] = state\n%4: f32[1, 4, 1, 2] = state\n"
		"%8: f32[2, 1] = constant {1, 2}\n"
		"%5: symbol = et_vk.select_as_symint.default(%2, 0, 0)\n"
		"%6: f32[1, 1, 1, 2] = sdpa_with_kv_cache.default(%0, %1, %1, %3, %4, %5, 1, none, 0.0, true, none)\n"
		"%9: f32[1, 1] = aten.embedding.default(%8, %7, -1, false, false)\nreturn %6, %9\n";
	static const struct {
		const char *v, *at, *row;
		int result;
		const char *expected;
	} runs[] = { { "f32[1, 1, 1, 2]{1, 2}", "i64[1]{0}", "i64[1]{1}", 0, "f32[1, 1, 1, 2]{1, 2}" },
		{ "f32[1, 1, 1, 2]{9, 9}", "i64[1]{0}", "i64[1]{2}", INFERD_DELEGATE_E_ARGUMENT, "" },
		{ "f32[1, 1, 1, 2]{9, 9}", "i64[1]{1}", "i64[1]{7}", INFERD_DELEGATE_E_ARGUMENT, "" },
		{ "f32[1, 1, 1, 2]{3, 4}", "i64[1]{1}", "i64[1]{0}", 0, "f32[1, 1, 1, 2]{2, 3}" },
		{ "f32[1, 1, 1, 2]{5, 6}", "i64[1]{2}", "i64[1]{0}", 0, "f32[1, 1, 1, 2]{3, 4}" } };
	struct inferd_delegate_instance *instance;
	struct inferd_delegate_model *model;
	struct inferd_delegate_model_info info;
	struct rig rig;
	rig_load(&rig);
	if (!rig_open_driver(&rig))
		skip();
	if (rig_init(&rig, graph, &model, &info))
		fail_msg("%s", rig.message.text);
	assert_true(info.flags & INFERD_DELEGATE_REPEATABLE);
	assert_int_equal(rig.table->instance_new(model, &instance, &rig.message), 0);
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		struct rig_run run = { .n = 0 };
		rig_arg(&run, "f32[1, 1, 1, 2]{0, 0}");
		rig_arg(&run, runs[i].v);
		rig_arg(&run, runs[i].at);
		rig_arg(&run, runs[i].row);
		rig_arg(&run, "f32[1, 1, 1, 2]");
		rig_arg(&run, "f32[1, 1]");
		assert_int_equal(rig_execute(&rig, model, instance, &run), runs[i].result);
		if (!runs[i].result)
			rig_expect(&run, 4, runs[i].expected, runs[i].at);
	}
	rig.table->instance_free(instance);
	rig.table->destroy(model);
	rig_close(&rig);
}

/* --- the end of a run ----------------------------------------------------------------------------- */

static void test_cancel(void **state)
{
	struct inferd_delegate_instance *instance;
	struct inferd_delegate_model *model;
	struct inferd_delegate_model_info info;
	struct rig_run run = { .n = 0 };
	struct rig rig;
	rig_load(&rig);
	if (!rig_open_driver(&rig))
		skip();
	assert_int_equal(rig_init(&rig, relu, &model, &info), 0);
	assert_int_equal(rig.table->instance_new(model, &instance, &rig.message), 0);
	rig_arg(&run, "f32[2]{-1, 2}");
	rig_arg(&run, "f32[2]");
	rig.table->cancel(model, instance); /* before the engine has begun */
	assert_int_equal(rig_execute(&rig, model, instance, &run), INFERD_DELEGATE_E_CANCELLED);
	assert_int_equal(rig_execute(&rig, model, instance, &run), 0);
	rig_expect(&run, 1, "f32[2]{0, 2}", "the run after it");
	rig.table->instance_free(instance);
	rig.table->destroy(model);
	rig_close(&rig);
}

/* Threads with an instance each, more of them than there are lanes: nobody gets what another one asked for. */
struct client {
	struct rig *rig;
	struct inferd_delegate_model *model;
	pthread_t thread;
	int number;
	uint32_t n_wrong;
};

static void *run_often(void *arg)
{
	struct client *client = arg;
	struct rig rig = *client->rig; /* its own message */
	struct inferd_delegate_instance *instance;
	if (rig.table->instance_new(client->model, &instance, &rig.message)) {
		client->n_wrong++;
		return NULL;
	}
	for (int i = 0; i < 100; i++) {
		struct rig_run run = { .n = 0 };
		char text[64];
		snprintf(text, sizeof(text), "f32[2]{%d, -1}", client->number * 1000 + i);
		rig_arg(&run, text);
		rig_arg(&run, "f32[2]");
		client->n_wrong += rig_execute(&rig, client->model, instance, &run) != 0 ||
				   rig_element(&run, 1, 0) != client->number * 1000 + i || rig_element(&run, 1, 1) != 0;
	}
	rig.table->instance_free(instance);
	return NULL;
}

static void test_threads(void **state)
{
	struct inferd_delegate_stats stats = { .struct_size = sizeof(stats) };
	struct inferd_delegate_model *model;
	struct inferd_delegate_model_info info;
	struct client clients[4];
	struct rig rig;
	rig_load(&rig);
	if (!rig_open_driver(&rig))
		skip();
	assert_int_equal(rig_init(&rig, relu, &model, &info), 0);
	for (int i = 0; i < 4; i++) {
		clients[i] = (struct client){ .rig = &rig, .model = model, .number = i };
		assert_int_equal(pthread_create(&clients[i].thread, NULL, run_often, &clients[i]), 0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(clients[i].thread, NULL);
		assert_int_equal(clients[i].n_wrong, 0);
	}
	assert_int_equal(rig.table->stats(rig.self, 0, &stats), 0);
	assert_int_equal(stats.n_runs, 400);
	rig.table->destroy(model);
	rig_close(&rig);
}

/* Payloads of one program share what has the same name; here: nothing is left when the models have gone. */
static void test_memory(void **state)
{
	static const char graph[] = "%0: f32[2] = input\n%1: f32[2] = constant {1, 2}\n"
				    "%2: f32[2] = aten.add.Tensor(%0, %1, 1)\nreturn %2\n";
	struct inferd_delegate_stats stats = { .struct_size = sizeof(stats) };
	struct inferd_delegate_model *models[3];
	struct inferd_delegate_model_info info;
	struct rig rig;
	rig_load(&rig);
	if (!rig_open_driver(&rig))
		skip();
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(rig_init(&rig, graph, &models[i], &info), 0);
		assert_true(info.n_bytes >= 8);
	}
	rig.table->stats(rig.self, 0, &stats);
	assert_int_equal(stats.memory_bytes, 3 * (8 + 36)); /* a constant; a number and an instruction */
	for (uint32_t i = 0; i < 3; i++)
		rig.table->destroy(models[i]);
	rig.table->stats(rig.self, 0, &stats);
	assert_int_equal(stats.memory_bytes, 0);
	rig_close(&rig);
}

/* --- calls that fail ------------------------------------------------------------------------------ */

/* Everything, with one call that fails. True: nothing failed, and the result is right. */
static bool attempt(struct rig *rig)
{
	struct inferd_delegate_instance *instance;
	struct inferd_delegate_model *model;
	struct inferd_delegate_model_info info;
	struct rig_run run = { .n = 0 };
	rig_load(rig);
	rig_set(rig, "library", FAKE);
	rig_set(rig, "platforms", "Portable Computing Language");
	rig_set(rig, "devices", "cpu");
	if (rig_open(rig))
		return false;
	int result = rig_init(rig, relu, &model, &info);
	if (!result) {
		result = rig->table->instance_new(model, &instance, &rig->message);
		if (!result) {
			rig_arg(&run, "f32[2]{-1, 2}");
			rig_arg(&run, "f32[2]");
			result = rig_execute(rig, model, instance, &run);
			if (!result)
				rig_expect(&run, 1, "f32[2]{0, 2}", "a run");
			else
				assert_int_equal(result, INFERD_DELEGATE_E_LOST);
			/* a device that is lost is not asked again */
			if (result)
				assert_int_equal(rig_execute(rig, model, instance, &run), INFERD_DELEGATE_E_LOST);
			rig->table->instance_free(instance);
		}
		rig->table->destroy(model);
	}
	return !result;
}

static void test_failing_calls(void **state)
{
	void *fake = dlopen(FAKE, RTLD_NOW | RTLD_LOCAL);
	struct rig rig;
	long n = 0, n_failed = 0;
	rig_load(&rig);
	if (!rig_open_driver(&rig))
		skip();
	rig_close(&rig);
	assert_non_null(fake);
	atomic_long *n_calls = dlsym(fake, "fake_n_calls"), *fail_at = dlsym(fake, "fake_fail_at");
	assert_non_null(n_calls);
	assert_non_null(fail_at);
	do {
		*n_calls = 0;
		*fail_at = ++n;
		bool is_done = attempt(&rig);
		n_failed += !is_done;
		if (!is_done && !rig.message.text[0])
			fail_msg("call %ld fails without a sentence", n);
		*fail_at = 0; /* closing is not tried */
		rig_close(&rig);
	} while (*n_calls >= n);
	assert_true(n > 20 && n_failed > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_devices), cmocka_unit_test(test_memory_in_place),
		cmocka_unit_test(test_payloads), cmocka_unit_test(test_states), cmocka_unit_test(test_repeatable),
		cmocka_unit_test(test_cancel), cmocka_unit_test(test_threads), cmocka_unit_test(test_memory),
		cmocka_unit_test(test_failing_calls),
		/* the last ones: drivers read the environment once, when they are loaded */
		cmocka_unit_test(test_options), cmocka_unit_test(test_environment) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
