/* SPDX-License-Identifier: BSD-3-Clause */
/* Models whose runs fail in their backend: they go on with their next variants, and come back when they are told to. */
#include "tests/e2e/harness.h"
#include "tests/support/make_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* With a file that means trouble for the plug-in's `sick`; it is there from the start. */
static void start_in_trouble(struct e2e *e, char *trouble, size_t room, const char *keys)
{
	char more[300];
	e2e_put(e, "../trouble", "", 0);
	snprintf(trouble, room, "%s/trouble", e->dir);
	snprintf(more, sizeof more, "trouble = %s\n%s", trouble, keys);
	e2e_start_plugin(e, "async", more);
}

static const char *backend_of_new(struct inferd *d, const char *model)
{
	struct inferd_method *method;
	e2e_bind(d, model, &method);
	return inferd_method_backend(method);
}

static bool has_no_programs(const struct inf_server_status *status, const void *arg)
{
	return status->n_programs == 0;
}

static bool warns(const struct inf_server_status *status, const void *arg)
{
	for (size_t i = 0; i < status->n_warnings; i++)
		if (strstr(status->warnings[i], arg))
			return true;
	return false;
}

static bool has_no_warnings(const struct inf_server_status *status, const void *arg)
{
	return status->n_warnings == 0;
}

/* Infer until the model goes on with its next variant, b.pte, which gives three times @x. How many requests failed. */
static int infer_until_moved(struct inferd_binding *b, float x)
{
	int rc, n = 0;
	float y;
	while ((y = e2e_infer(b, x, &rc)) != 3 * x || rc) {
		assert_true(rc == -INFERD_INTERNAL || rc == -INFERD_BACKEND_CRASHED);
		n++;
	}
	return n;
}

/* After max_failures failed runs a model goes on with its next variant; what is the client's fault does not count; an
 * administrator has it return. */
static void test_falls_by_failed_runs(void **state)
{
	static const char why[] = "its runs failed 3 times, the last one: ";
	static const int faults[] = { -INFERD_INVALID_ARGUMENT, -INFERD_RESOURCE_EXHAUSTED,
		-INFERD_RESOURCE_EXHAUSTED };
	struct e2e e;
	char trouble[128];
	int rc;
	e2e_init(&e);
	e2e_put_word_as(&e, "sick", "m/1/a.pte");
	e2e_put_program(&e, "m/1/b.pte", e2e_program_triple);
	start_in_trouble(&e, trouble, sizeof trouble, "max_failures = 3\n");
	struct inferd *d = e2e_connect(&e), *late = e2e_connect(&e);
	const struct inferd_method_options wanted = { .struct_size = sizeof wanted, .backend = "test" };
	struct inferd_method *method;
	struct inferd_binding *b = e2e_bind(d, "m", NULL), *idle = e2e_bind(d, "m", NULL), *stays;
	assert_int_equal(inferd_method_open(d, &method, "m", &wanted), 0);
	assert_int_equal(inferd_bind(method, &stays), 0);
	for (int i = 0; i < 15; i++) {
		e2e_infer(b, (float)(-1 - i % 3), &rc);
		assert_int_equal(rc, faults[i % 3]);
	}
	e2e_infer(b, 5, &rc);
	assert_int_equal(rc, -INFERD_INTERNAL);
	assert_non_null(strstr(inferd_error(d), "the bus is gone"));
	assert_string_equal(backend_of_new(late, "m"), "test");
	assert_true(infer_until_moved(b, 5) >= 2);
	assert_true(e2e_infer_until_served(idle, 2, &rc) == 6 && rc == 0);
	for (int i = 0; i < 2; i++) {
		e2e_infer(stays, 1, &rc);
		assert_int_equal(rc, -INFERD_INTERNAL);
	}
	assert_string_equal(backend_of_new(late, "m"), "portable");
	assert_int_equal(inferd_method_open(late, &method, "m", &wanted), -INFERD_BACKEND_CRASHED);
	assert_non_null(strstr(inferd_error(late), why));
	e2e_expect_index(&e, "m", "READY", "portable", "the bus is gone; 'inferctl load m' tries it again");
	e2e_until(&e, warns, "model m: a.pte (test) is passed over: its runs failed 3 times, the last one: ");

	assert_int_equal(unlink(trouble), 0);
	assert_int_equal(e2e_load(&e, "m"), INF_OK);
	while (e2e_infer(b, 4, &rc) != 8)
		assert_int_equal(rc, 0);
	while (e2e_infer(idle, 4, &rc) != 8)
		assert_int_equal(rc, 0);
	assert_true(e2e_infer(stays, 4, &rc) == 8 && rc == 0);
	assert_string_equal(backend_of_new(late, "m"), "test");
	e2e_expect_index(&e, "m", "READY", "test", "");
	e2e_until(&e, has_no_warnings, NULL);

	/* the failures from before are forgotten: two more are not too many, three are */
	e2e_put(&e, "../trouble", "", 0);
	for (int i = 0; i < 2; i++) {
		e2e_infer(b, 5, &rc);
		assert_int_equal(rc, -INFERD_INTERNAL);
	}
	assert_int_equal(unlink(trouble), 0);
	for (int i = 0; i < 1000; i++)
		assert_true(e2e_infer(b, 4, &rc) == 8 && rc == 0);
	e2e_put(&e, "../trouble", "", 0);
	assert_true(infer_until_moved(b, 5) >= 1);
	assert_int_equal(unlink(trouble), 0);
	assert_int_equal(e2e_restart_backend(&e, "test"), INF_OK);
	while (e2e_infer(b, 4, &rc) != 8)
		assert_int_equal(rc, 0);
	inferd_close(d);
	inferd_close(late);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A variant that is passed over stays so when nothing of the model is loaded, but not when its file is another one. */
static void test_failed_runs_are_remembered(void **state)
{
	struct e2e e;
	char trouble[128];
	e2e_init(&e);
	e2e_put_word_as(&e, "sick", "m/1/a.pte");
	e2e_put_program(&e, "m/1/b.pte", e2e_program_triple);
	start_in_trouble(&e, trouble, sizeof trouble, "max_failures = 1\n[server]\nkeep_alive = 1ms\n");
	struct inferd *d = e2e_connect(&e);
	assert_true(infer_until_moved(e2e_bind(d, "m", NULL), 5) >= 1);
	inferd_close(d);
	e2e_until(&e, has_no_programs, NULL);
	d = e2e_connect(&e);
	assert_string_equal(backend_of_new(d, "m"), "portable");
	inferd_close(d);
	e2e_until(&e, has_no_programs, NULL);
	e2e_put_word_as(&e, "scale", "m/1/a.pte");
	d = e2e_connect(&e);
	assert_string_equal(backend_of_new(d, "m"), "test");
	inferd_close(d);
	e2e_until(&e, has_no_warnings, NULL);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* Without another variant it goes on: each request is tried, and the model may be opened. */
static void test_fails_alone(void **state)
{
	struct e2e e;
	char trouble[128];
	int rc;
	e2e_init(&e);
	e2e_put_word_as(&e, "sick", "m/1/a.pte");
	e2e_put_program(&e, "m/1/b.pte", e2e_program_foreign);
	start_in_trouble(&e, trouble, sizeof trouble, "max_failures = 3\n");
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "m", NULL);
	for (int i = 0; i < 3; i++) {
		e2e_infer(b, 5, &rc);
		assert_int_equal(rc, -INFERD_INTERNAL);
	}
	e2e_until(&e, warns, "'inferctl load m' tries it again; it goes on, since no other variant can run");
	for (int i = 0; i < 10; i++) {
		e2e_infer(b, 5, &rc);
		assert_int_equal(rc, -INFERD_INTERNAL);
	}
	e2e_expect_index(&e, "m", "READY", "test", "");
	assert_int_equal(unlink(trouble), 0);
	assert_true(e2e_infer(b, 5, &rc) == 10 && rc == 0);
	assert_string_equal(backend_of_new(d, "m"), "test");
	assert_int_equal(e2e_load(&e, "m"), INF_OK);
	e2e_until(&e, has_no_warnings, NULL);
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

static void note_status(struct inferd_binding *b, int status, void *userdata)
{
	*(int *)userdata = status;
}

static bool runs_on_device(const struct inf_server_status *status, const void *arg)
{
	return status->queues[1].running == *(const uint32_t *)arg;
}

/* Requests that a deadline or a cancellation has ended say nothing of the backend. */
static void test_late_runs_do_not_count(void **state)
{
	const struct inferd_request_options brief = { .struct_size = sizeof(brief), .timeout_us = 20 * 1000 };
	struct e2e e;
	const uint32_t none = 0, one = 1;
	int status;
	e2e_init(&e);
	e2e_put_word_as(&e, "wait", "m/1/a.pte");
	e2e_put_program(&e, "m/1/b.pte", e2e_program_triple);
	e2e_start_plugin(&e, "async", "max_failures = 1\n");
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "m", NULL);
	for (int i = 0; i < 3; i++) {
		status = 1;
		assert_int_equal(inferd_infer_async(b, NULL, note_status, &status), 0);
		e2e_until(&e, runs_on_device, &one);
		assert_int_equal(inferd_cancel(b), 0);
		while (status == 1)
			assert_true(inferd_wait(d, -1) >= 0);
		assert_int_equal(status, -INFERD_CANCELLED);
		e2e_until(&e, runs_on_device, &none);
	}
	for (int i = 0; i < 3; i++) {
		assert_int_equal(inferd_infer(b, &brief), -INFERD_MISSED_DEADLINE);
		e2e_until(&e, runs_on_device, &none);
	}
	assert_int_equal(e2e_load(&e, "m"), INF_OK); /* what the loop was told before has been done */
	assert_string_equal(backend_of_new(d, "m"), "test");
	e2e_until(&e, has_no_warnings, NULL);
	inferd_close(d);
	e2e_deinit(&e);
}

/* An operator of a plug-in's fails like a payload. */
static void test_falls_by_a_failed_operator(void **state)
{
	struct make_program mk;
	struct e2e e;
	size_t n_bytes;
	e2e_init(&e);
	mk_init(&mk);
	mk_method(&mk, "forward");
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	mk_kernel(&mk, mk_operator(&mk, "test::plug_scale", "out"), MK_ARGS(x, mk_double(&mk, -1), y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	uint8_t *bytes = mk_finish(&mk, &n_bytes);
	e2e_put(&e, "m/1/a.pte", bytes, n_bytes);
	free(bytes);
	e2e_put_program(&e, "m/1/b.pte", e2e_program_triple);
	e2e_start_plugin(&e, "sync", "max_failures = 2\n");
	struct inferd *d = e2e_connect(&e);
	assert_true(infer_until_moved(e2e_bind(d, "m", NULL), 5) >= 2);
	inferd_close(d);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_falls_by_failed_runs),
		cmocka_unit_test(test_failed_runs_are_remembered),
		cmocka_unit_test(test_fails_alone),
		cmocka_unit_test(test_late_runs_do_not_count),
		cmocka_unit_test(test_falls_by_a_failed_operator),
	};
	return e2e_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
