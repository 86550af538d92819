/* SPDX-License-Identifier: BSD-3-Clause */
/* Models whose backend cannot run them, or crashes too often: they go on with their next variants, and come back. */
#include "tests/e2e/harness.h"
#include "tests/support/make_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool says_why(const struct inf_server_status *status, const void *arg)
{
	for (size_t i = 0; i < status->n_backends; i++)
		assert_string_not_equal(status->backends[i], "test");
	return status->n_backends_missing == 1 && strstr(status->backends_missing[0], arg);
}

struct index_question {
	struct e2e *e;
	const char *model, *text;
};

static bool index_says(const struct inf_server_status *status, const void *arg)
{
	const struct index_question *question = arg;
	struct inf_request request = { .kind = INF_REQUEST_REPOSITORY_INDEX, .repository_index = { "", false } };
	struct inf_reply reply = e2e_raw_call(question->e->watcher, request);
	for (size_t i = 0; i < reply.repository_index.n_models; i++)
		if (strcmp(reply.repository_index.models[i].name, question->model) == 0)
			return strstr(reply.repository_index.models[i].reason, question->text);
	return false;
}

/* Given up after so many crashes: the status says so, and why. */
static void test_gives_up(void **state)
{
	struct e2e e;
	int rc, n = 0;
	e2e_init(&e);
	e2e_put_word(&e, "exit");
	e2e_start_plugin(&e, "sync", "max_crashes = 2\n");
	struct inferd *d = e2e_connect(&e);
	struct inferd_method *method;
	struct inferd_binding *b = e2e_bind(d, "exit", NULL);
	do {
		e2e_infer(b, 1, &rc);
		assert_int_equal(rc, -INFERD_BACKEND_CRASHED);
		n++;
	} while (!strstr(inferd_error(d), "has failed 2 times"));
	assert_true(n >= 3);
	e2e_until(&e, says_why, "test: failed 2 times: the host process of backend 'test' exited with status 3");
	/* the index has the reason when the search for another variant has ended */
	e2e_until(&e, index_says, &(struct index_question){ &e, "exit", "backend 'test' failed 2 times" });
	e2e_expect_index(&e, "exit", "FAILED", "", "backend 'test' failed 2 times");
	assert_true(inferd_method_open(d, &method, "exit", NULL) == -INFERD_BACKEND_CRASHED);
	assert_non_null(strstr(inferd_error(d), "'inferctl restart test'"));
	inferd_close(d);
	e2e_deinit(&e);
}

/* --- a backend that is given up, and its models ---------------------------------------------------------- */

/* With a file that means trouble for the plug-in's `moody` and `moods`; it is there from the start. */
static void start_limited_in_trouble(struct e2e *e, char *trouble, size_t room, const char *limits)
{
	char more[300];
	e2e_put(e, "../trouble", "", 0);
	snprintf(trouble, room, "%s/trouble", e->dir);
	snprintf(more, sizeof more, "max_crashes = 2\ntrouble = %s\n%s", trouble, limits);
	e2e_start_plugin(e, "async", more);
}

static void start_in_trouble(struct e2e *e, char *trouble, size_t room)
{
	start_limited_in_trouble(e, trouble, room, "");
}

static bool serves(const struct inf_server_status *status, const void *arg)
{
	for (size_t i = 0; i < status->n_programs; i++)
		if (status->programs[i].methods && strcmp(status->programs[i].backend, arg) == 0)
			return true;
	return false;
}

/* The model goes on with its next variant, for the clients that have it open and for new ones; who asked for that very
 * backend stays with it; after a restart everybody is back. */
static void test_falls(void **state)
{
	struct e2e e;
	char trouble[128];
	int rc;
	e2e_init(&e);
	e2e_put_word_as(&e, "moody", "m/1/a.pte");
	e2e_put_program(&e, "m/1/b.pte", e2e_program_triple);
	start_in_trouble(&e, trouble, sizeof trouble);
	struct inferd *d = e2e_connect(&e), *late = e2e_connect(&e);
	struct inferd_method *method, *stays_method;
	struct inferd_binding *b = e2e_bind(d, "m", &method), *idle = e2e_bind(d, "m", NULL), *stays;
	assert_string_equal(inferd_method_backend(method), "test");
	assert_int_equal(inferd_method_open(d, &stays_method, "m",
				 &(struct inferd_method_options){
					 .struct_size = sizeof(struct inferd_method_options), .backend = "test" }),
		0);
	assert_int_equal(inferd_bind(stays_method, &stays), 0);
	e2e_infer(b, 1, &rc);
	assert_int_equal(rc, -INFERD_BACKEND_CRASHED);
	assert_true(e2e_infer_until_served(b, 5, &rc) == 15 && rc == 0);
	assert_true(e2e_infer(idle, 2, &rc) == 6 && rc == 0);
	e2e_infer(stays, 1, &rc);
	assert_int_equal(rc, -INFERD_BACKEND_CRASHED);
	struct inferd_binding *fresh = e2e_bind(late, "m", &method);
	assert_string_equal(inferd_method_backend(method), "portable");
	assert_true(e2e_infer(fresh, 3, &rc) == 9 && rc == 0);
	e2e_until(&e, says_why, "test: failed 2 times: ");
	e2e_expect_index(&e, "m", "READY", "portable", "a.pte: backend 'test' failed 2 times");

	assert_int_equal(unlink(trouble), 0);
	assert_int_equal(e2e_restart_backend(&e, "portable"), INF_NOT_FOUND);
	assert_int_equal(e2e_restart_backend(&e, "xnnpack"), INF_FAILED_PRECONDITION);
	assert_int_equal(e2e_restart_backend(&e, "test"), INF_OK);
	assert_true(e2e_infer(stays, 4, &rc) == 8 && rc == 0);
	while (e2e_infer(b, 4, &rc) != 8)
		assert_int_equal(rc, 0);
	assert_true(e2e_infer(idle, 4, &rc) == 8 && rc == 0);
	assert_true(e2e_infer(fresh, 4, &rc) == 8 && rc == 0);
	e2e_expect_index(&e, "m", "READY", "test", "");
	inferd_close(d);
	inferd_close(late);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

static void note_status(struct inferd_binding *b, int status, void *userdata)
{
	*(int *)userdata = status;
}

/* A Method with a request in flight moves when that request has ended: the next one finds it moved. */
static void test_moves_after_its_last_request(void **state)
{
	const struct inferd_request_options brief = { .struct_size = sizeof(brief), .timeout_us = 200 * 1000 };
	const struct inf_request look = { .kind = INF_REQUEST_STATUS };
	struct inf_reply reply;
	struct e2e e;
	char trouble[128];
	int rc, status = 1;
	e2e_init(&e);
	e2e_put_word_as(&e, "moody", "m/1/a.pte");
	e2e_put_program(&e, "m/1/b.pte", e2e_program_forever);
	start_in_trouble(&e, trouble, sizeof trouble);
	struct inferd *d = e2e_connect(&e);
	struct inferd_method *fresh;
	struct inferd_binding *b = e2e_bind(d, "m", NULL);
	do { /* on a busy machine a run of a.pte, too, may miss its deadline before it crashes */
		rc = inferd_infer(b, &brief);
		reply = e2e_raw_call(e.watcher, look);
	} while (rc == -INFERD_BACKEND_CRASHED || !serves(&reply.server_status, "portable"));
	assert_int_equal(rc, -INFERD_MISSED_DEADLINE); /* on b.pte, which never ends */
	assert_int_equal(inferd_infer_async(b, NULL, note_status, &status), 0);
	e2e_until_runs(&e, d); /* the one before was answered at its deadline, perhaps before its worker had left it */
	assert_int_equal(unlink(trouble), 0);
	assert_int_equal(e2e_restart_backend(&e, "test"), INF_OK);
	do
		e2e_bind(d, "m", &fresh);
	while (strcmp(inferd_method_backend(fresh), "test") != 0);
	assert_int_equal(status, 1);
	assert_int_equal(inferd_cancel(b), 0);
	while (status == 1)
		assert_true(inferd_wait(d, -1) >= 0);
	assert_int_equal(status, -INFERD_CANCELLED);
	for (int i = 0; (rc = inferd_infer(b, &brief)) == -INFERD_MISSED_DEADLINE; i++)
		assert_true(i < 20); /* the successor may be found a moment after the restart */
	assert_int_equal(rc, 0);
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* So does a model that has nothing of the plug-in's but an operator. */
static void test_falls_by_an_operator(void **state)
{
	struct make_program mk;
	struct e2e e;
	size_t n_bytes;
	int rc;
	e2e_init(&e);
	mk_init(&mk);
	mk_method(&mk, "forward");
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4) });
	mk_kernel(&mk, mk_operator(&mk, "test::plug_scale", "out"), MK_ARGS(x, mk_double(&mk, 2), y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	uint8_t *bytes = mk_finish(&mk, &n_bytes);
	e2e_put(&e, "m/1/a.pte", bytes, n_bytes);
	free(bytes);
	e2e_put_program(&e, "m/1/b.pte", e2e_program_triple);
	e2e_put_word(&e, "exit");
	e2e_start_plugin(&e, "sync", "max_crashes = 2\n");
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "m", NULL), *bad = e2e_bind(d, "exit", NULL);
	assert_true(e2e_infer(b, 5, &rc) == 10 && rc == 0);
	do
		e2e_infer(bad, 1, &rc);
	while (!strstr(inferd_error(d), "has failed 2 times"));
	assert_true(e2e_infer_until_served(b, 5, &rc) == 15 && rc == 0);
	assert_int_equal(e2e_restart_backend(&e, "test"), INF_OK);
	while (e2e_infer(b, 5, &rc) != 10)
		assert_int_equal(rc, 0);
	inferd_close(d);
	e2e_deinit(&e);
}

/* What had a state says that it is lost, once, whatever was there to go on with. */
static void test_falls_with_state(void **state)
{
	struct e2e e;
	char trouble[128];
	int rc;
	e2e_init(&e);
	e2e_put_word_as(&e, "moods", "m/1/a.pte");
	e2e_put_program(&e, "m/1/b.pte", e2e_program_accumulate);
	start_in_trouble(&e, trouble, sizeof trouble);
	struct inferd *d = e2e_connect(&e);
	struct inferd_method *method;
	struct inferd_binding *b = e2e_bind(d, "m", &method);
	do {
		e2e_infer(b, 1, &rc);
		assert_true(rc == -INFERD_BACKEND_CRASHED || rc == -INFERD_STATE_LOST);
		if (rc == -INFERD_STATE_LOST)
			assert_int_equal(inferd_method_reset(method), 0);
		e2e_infer(b, 10, &rc);
	} while (rc);
	assert_true(e2e_infer(b, 5, &rc) == 15 && rc == 0);
	e2e_until(&e, serves, "portable");
	/* its state is well there: it does not go back */
	assert_int_equal(unlink(trouble), 0);
	assert_int_equal(e2e_restart_backend(&e, "test"), INF_OK);
	assert_true(e2e_infer(b, 1, &rc) == 16 && rc == 0);
	struct inferd_method *fresh;
	do {
		e2e_bind(d, "m", &fresh);
	} while (strcmp(inferd_method_backend(fresh), "test") != 0);
	assert_true(e2e_infer(b, 1, &rc) == 17 && rc == 0);
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* s = s + x, y = s, and a state of 2 MB besides that nobody writes. */
static uint8_t *make_large_state(size_t *ret_n_bytes)
{
	enum { N = 512 << 10 };
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 4 * N + 64);
	int large = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(N), .arena = arena });
	int four[4]; /* x, s, y, some of the large one */
	for (uint64_t i = 0; i < 4; i++)
		four[i] = mk_tensor(&mk,
			&(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = 4 * N + 16 * i });
	int zero = mk_int(&mk, 0), one = mk_int(&mk, 1), no = mk_bool(&mk, false);
	mk_kernel(&mk, mk_operator(&mk, "aten::slice_copy", "Tensor_out"),
		MK_ARGS(large, zero, zero, mk_int(&mk, 4), one, four[3], four[3]));
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(four[1], four[0], one, four[2], four[2]));
	mk_kernel(&mk, mk_operator(&mk, "aten::copy_", ""), MK_ARGS(four[1], four[2], no, four[1]));
	mk_input(&mk, four[0]);
	mk_output(&mk, four[2]);
	return mk_finish(&mk, ret_n_bytes);
}

/* The next variant's state is another one: that is what is charged now, and who may not have it stays without. */
static void test_falls_with_charge(void **state)
{
	static const char *const limits[] = { "[limits]\nbytes = 3M\n", "[limits]\nbytes = 1M\n" };
	for (int is_small = 0; is_small < 2; is_small++) {
		struct e2e e;
		char trouble[128];
		struct inf_reply reply;
		struct inferd_method *method, *next;
		int rc;
		e2e_init(&e);
		e2e_put_word_as(&e, "moods", "m/1/a.pte");
		e2e_put_program(&e, "m/1/b.pte", make_large_state);
		start_limited_in_trouble(&e, trouble, sizeof trouble, limits[is_small]);
		struct inferd *d = e2e_connect(&e);
		struct inferd_binding *b = e2e_bind(d, "m", &method);
		struct e2e_raw *raw = e2e_raw_new(e.socket, false);
		struct inf_request create = { .kind = INF_REQUEST_REGION_CREATE, .region_create = { 2 << 20 } };
		if (is_small) {
			do
				e2e_infer(b, 1, &rc);
			while ((rc = inferd_method_open(d, &next, "m", NULL)) == -INFERD_BACKEND_CRASHED || rc == 0);
			assert_int_equal(rc, -INFERD_RESOURCE_EXHAUSTED);
			for (int i = 0; i < 3; i++) {
				assert_int_equal(inferd_method_reset(method), 0);
				e2e_infer(b, 1, &rc);
				assert_int_equal(rc, -INFERD_BACKEND_CRASHED);
			}
		} else {
			do {
				e2e_infer(b, 1, &rc);
				if (rc == -INFERD_STATE_LOST)
					assert_int_equal(inferd_method_reset(method), 0);
				e2e_infer(b, 10, &rc);
			} while (rc);
			assert_true(e2e_infer(b, 5, &rc) == 15 && rc == 0);
			reply = e2e_raw_call(raw, create);
			assert_int_equal(reply.status, INF_RESOURCE_EXHAUSTED);
			assert_non_null(strstr(reply.error, "the limit 'bytes'"));
		}
		inferd_close(d);
		create.region_create.byte_size = is_small ? 1000 << 10 : 3000 << 10;
		do /* all of it comes back */
			reply = e2e_raw_call(raw, create);
		while (reply.status == INF_RESOURCE_EXHAUSTED);
		assert_int_equal(reply.status, INF_OK);
		e2e_raw_free(raw);
		e2e_check_clean(&e);
		e2e_deinit(&e);
	}
}

/* A variant with other inputs is no successor for who has the model open, but for others. */
static void test_falls_not(void **state)
{
	struct e2e e;
	char trouble[128];
	int rc;
	e2e_init(&e);
	e2e_put_word_as(&e, "moods", "m/1/a.pte");
	e2e_put_program(&e, "m/1/b.pte", e2e_program_triple); /* which has no state */
	start_in_trouble(&e, trouble, sizeof trouble);
	struct inferd *d = e2e_connect(&e);
	struct inferd_method *method;
	struct inferd_binding *b = e2e_bind(d, "m", &method);
	do {
		e2e_infer(b, 1, &rc);
		assert_true(rc == -INFERD_BACKEND_CRASHED || rc == -INFERD_STATE_LOST);
		if (rc == -INFERD_STATE_LOST)
			assert_int_equal(inferd_method_reset(method), 0);
	} while (!strstr(inferd_error(d), "has failed 2 times"));
	struct inferd_binding *fresh = e2e_bind(d, "m", NULL);
	assert_true(e2e_infer(fresh, 3, &rc) == 9 && rc == 0);
	e2e_infer(b, 1, &rc);
	assert_true(rc == -INFERD_BACKEND_CRASHED || rc == -INFERD_STATE_LOST);
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* forward(x): doubled; outside(): a tensor of a data file that is not there; elsewhere(x): for a backend that is not
 * here; unknown(): with an operator that is not here. */
static uint8_t *make_partly_usable(size_t *ret_n_bytes)
{
	struct mk_tensor four = { MK_FP32, MK_SIZES(4) };
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "outside");
	four.name = "w";
	four.is_external = true;
	mk_output(&mk, mk_tensor(&mk, &four));
	four.is_external = false;
	mk_method(&mk, "forward");
	four.arena = mk_arena(&mk, 32);
	int x = mk_tensor(&mk, &four);
	four.offset = 16;
	int y = mk_tensor(&mk, &four), one = mk_int(&mk, 1);
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(x, x, one, y, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	mk_method(&mk, "elsewhere");
	four.arena = 0;
	x = mk_tensor(&mk, &four);
	mk_call(&mk, mk_delegate(&mk, "QnnBackend", "abc", 3, false, NULL, NULL), MK_ARGS(x));
	mk_method(&mk, "unknown");
	mk_kernel(&mk, mk_operator(&mk, "aten::eleven", "out"), MK_ARGS(mk_none(&mk)));
	return mk_finish(&mk, ret_n_bytes);
}

static void expect_no_method(struct inferd *d, const char *name, int rc, const char *why)
{
	struct inferd_method *method = NULL;
	const struct inferd_method_options options = { .struct_size = sizeof options, .method = name };
	assert_int_equal(inferd_method_open(d, &method, "m", &options), rc);
	if (!strstr(inferd_error(d), why))
		fail_msg("'%s' does not say '%s'", inferd_error(d), why);
}

/* What methods lack is said to who wants them; the others serve. */
static void test_methods_that_cant_run(void **state)
{
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_program(&e, "m.pte", make_partly_usable);
	e2e_start(&e, "");
	struct inferd *d = e2e_connect(&e);
	expect_no_method(d, "outside", -INFERD_FAILED_PRECONDITION,
		"method 'outside' of model 'm' can't be run: m.pte: "
		"outside: value 0: tensor 'w' lies outside the file, and no data file was given");
	/* Nothing of it is loaded, but it has not failed: forward would. */
	e2e_expect_index(&e, "m", "UNLOADED", "", "method 'outside' can't be run: m.pte: outside: value 0");
	expect_no_method(d, "elsewhere", -INFERD_UNIMPLEMENTED, "Backend 'QnnBackend' is not available");
	struct inferd_method *method;
	struct inferd_binding *b = e2e_bind(d, "m", &method);
	assert_string_equal(inferd_method_backend(method), "portable");
	e2e_expect_index(&e, "m", "READY", "portable", "");
	expect_no_method(d, "unknown", -INFERD_UNIMPLEMENTED, "method 'unknown' needs operators that are missing");
	expect_no_method(d, "outside", -INFERD_FAILED_PRECONDITION, "m.pte: outside: value 0: tensor 'w'");
	e2e_expect_index(&e, "m", "READY", "portable", "outside: value 0: tensor 'w'");
	e2e_expect_index(&e, "m", "READY", "portable", "method 'unknown' can't be run: m.pte: method 'unknown' needs");
	assert_true(e2e_infer(b, 3, &rc) == 6 && rc == 0);
	assert_int_equal(e2e_unload(&e, "m"), INF_OK);
	e2e_expect_index(&e, "m", "UNLOADED", "", NULL);
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

static bool has_no_programs(const struct inf_server_status *status, const void *arg)
{
	return status->n_programs == 0;
}

/* It served, by another variant than the first; that nobody uses it any more is no failure. A certain backend that
 * it has no variant for, neither. */
static void test_unused_is_not_failed(void **state)
{
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "m/1/a.pte", e2e_program_foreign);
	e2e_put_program(&e, "m/1/b.pte", e2e_program_double);
	e2e_put_program(&e, "foreign.pte", e2e_program_foreign);
	e2e_start(&e, "keep_alive = 1ms\n");
	struct inferd *d = e2e_connect(&e);
	struct inferd_method *method;
	e2e_bind(d, "m", NULL);
	e2e_expect_index(&e, "m", "READY", "portable", "a.pte: Backend");
	inferd_close(d);
	e2e_until(&e, has_no_programs, NULL);
	e2e_expect_index(&e, "m", "UNLOADED", "", "a.pte: Backend");
	d = e2e_connect(&e);
	const struct inferd_method_options other = { .struct_size = sizeof other, .backend = "xnnpack" };
	assert_true(inferd_method_open(d, &method, "m", &other) < 0);
	e2e_expect_index(&e, "m", "UNLOADED", "", "a.pte: Backend");
	assert_true(inferd_method_open(d, &method, "foreign", NULL) < 0);
	e2e_expect_index(&e, "foreign", "FAILED", "", "foreign.pte: Backend");
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* Backends are asked before anything is loaded: who can't run a payload is passed over, who would compile it anew says
 * so; and a payload that kills its backend is not tried for ever. */
static void test_asked_first(void **state)
{
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_word_as(&e, "babble", "m/1/a.pte");
	e2e_put_program(&e, "m/1/b.pte", e2e_program_triple);
	e2e_put_word(&e, "babble");
	e2e_put_word(&e, "stale");
	e2e_put_word(&e, "die");
	e2e_put_word(&e, "scale");
	e2e_start_plugin(&e, "sync", "");
	struct inferd *d = e2e_connect(&e);
	struct inferd_method *method;
	struct inferd_binding *b = e2e_bind(d, "m", &method);
	assert_string_equal(inferd_method_backend(method), "portable");
	assert_true(e2e_infer(b, 3, &rc) == 9 && rc == 0);
	e2e_expect_index(&e, "m", "READY", "portable", "a.pte: test can't run it here: it is no word");
	assert_int_equal(inferd_method_open(d, &method, "babble", NULL), -INFERD_FAILED_PRECONDITION);
	assert_non_null(strstr(inferd_error(d), "it is no word"));
	struct inferd_binding *stale = e2e_bind(d, "stale", NULL);
	assert_true(e2e_infer(stale, 3, &rc) == 6 && rc == 0);
	e2e_expect_index(&e, "stale", "READY", "test",
		"stale.pte: test compiles it anew: it was made for the engine of last year");
	for (int i = 0; i < 10; i++)
		assert_int_equal(inferd_method_open(d, &method, "die", NULL), -INFERD_FAILED_PRECONDITION);
	assert_non_null(strstr(inferd_error(d), "host process of backend 'test'"));
	do /* after two crashes there is a pause */
		rc = inferd_method_open(d, &method, "scale", NULL);
	while (rc == -INFERD_BACKEND_CRASHED);
	assert_int_equal(rc, 0);
	inferd_close(d);
	e2e_deinit(&e);
}

static const char *backend_for(struct inferd *d, const char *wanted)
{
	struct inferd_method *method;
	struct inferd_method_options options = { .struct_size = sizeof(options), .backend = wanted };
	if (inferd_method_open(d, &method, "m", &options) < 0)
		fail_msg("%s: %s", wanted, inferd_error(d));
	return inferd_method_backend(method);
}

/* A client's order goes before the daemon's. */
static void test_clients_order(void **state)
{
	struct e2e e;
	e2e_init(&e);
	e2e_put_word_as(&e, "scale", "m/1/a.pte");
	e2e_put_program(&e, "m/1/b.pte", e2e_program_double);
	e2e_start_plugin(&e, "sync", "");
	struct inferd *d = e2e_connect(&e);
	assert_string_equal(backend_for(d, "test, portable"), "test");
	assert_string_equal(backend_for(d, "acme, portable, test"), "portable");
	assert_string_equal(backend_for(d, "portable,test"), "portable");
	assert_string_equal(backend_for(d, "acme test"), "test");
	assert_string_equal(backend_for(d, ""), "test");
	inferd_close(d);
	e2e_deinit(&e);
}

/* A model is READY when a worker has done the runs of its warm-up, and not before. */
static void test_warm_up(void **state)
{
	static const char conf[] = "[model]\nwarm_up = 3\n";
	struct e2e e;
	e2e_init(&e);
	e2e_put_word_as(&e, "scale", "m/1/a.pte");
	e2e_put(&e, "m/model.conf", conf, sizeof(conf) - 1);
	e2e_put_word(&e, "scale");
	e2e_start_plugin(&e, "sync", "");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(e2e_load(&e, i ? "m" : "scale"), INF_OK);
		struct inf_request request = { .kind = INF_REQUEST_STATUS };
		struct inf_reply reply = e2e_raw_call(e.watcher, request);
		assert_string_equal(reply.server_status.hosts[0].backend, "test");
		if (i)
			assert_true(reply.server_status.hosts[0].requests >= 3);
		else
			assert_int_equal(reply.server_status.hosts[0].requests, 0);
	}
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gives_up),
		cmocka_unit_test(test_falls),
		cmocka_unit_test(test_moves_after_its_last_request),
		cmocka_unit_test(test_falls_by_an_operator),
		cmocka_unit_test(test_falls_with_state),
		cmocka_unit_test(test_falls_with_charge),
		cmocka_unit_test(test_falls_not),
		cmocka_unit_test(test_methods_that_cant_run),
		cmocka_unit_test(test_unused_is_not_failed),
		cmocka_unit_test(test_asked_first),
		cmocka_unit_test(test_clients_order),
		cmocka_unit_test(test_warm_up),
	};
	return e2e_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
