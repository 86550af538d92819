/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs that outlive their deadline or their client within one instruction: a kernel looks and stops; a call that does
 * not look is answered for, and a spare worker serves until it ends. Runs without a deadline go on; a spare worker
 * serves those users whom they keep out. A plug-in's operator acts as such a call: it waits at a FIFO until the test
 * opens the other end. */
#include "tests/e2e/harness.h"
#include "tests/support/make_program.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PRODUCT = 6000 }; /* a minute of one core and more */

static int make_four(struct make_program *mk, uint32_t arena, uint64_t n)
{
	return mk_tensor(mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = 16 * n });
}

/* y = x, on the CPU, in one instruction that waits if x is 1; or s = s + x, y = s, where that comes in between. */
static uint8_t *make_waiting(size_t *ret_n_bytes, bool is_stateful)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 64);
	int x = make_four(&mk, arena, 0), y = make_four(&mk, arena, 1), s = make_four(&mk, arena, 2);
	if (is_stateful) {
		mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(s, x, mk_int(&mk, 1), y, y));
		mk_kernel(&mk, mk_operator(&mk, "aten::copy_", ""), MK_ARGS(s, y, mk_bool(&mk, false), s));
	}
	mk_kernel(&mk, mk_operator(&mk, "test::plug_block", "out"), MK_ARGS(x, y, y));
	if (is_stateful)
		mk_kernel(&mk, mk_operator(&mk, "aten::copy_", ""), MK_ARGS(y, s, mk_bool(&mk, false), y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

static uint8_t *make_wait(size_t *ret_n_bytes)
{
	return make_waiting(ret_n_bytes, false);
}

static uint8_t *make_wait_with_state(size_t *ret_n_bytes)
{
	return make_waiting(ret_n_bytes, true);
}

/* y = x + x, beside a product of two large matrices of bytes. */
static uint8_t *make_product(size_t *ret_n_bytes)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	const uint64_t n_bytes = (uint64_t)PRODUCT * PRODUCT;
	uint32_t arena = mk_arena(&mk, (int64_t)(2 * n_bytes + 64));
	int x = make_four(&mk, arena, 0), y = make_four(&mk, arena, 1), m[2];
	for (uint64_t i = 0; i < 2; i++)
		m[i] = mk_tensor(&mk, &(struct mk_tensor){ .type = ET_UINT8,
					      MK_SIZES(PRODUCT, PRODUCT),
					      .arena = arena,
					      .offset = 64 + i * n_bytes });
	int n = mk_int(&mk, PRODUCT), two = mk_int(&mk, 2), one = mk_int(&mk, 1);
	int sizes = mk_slots(&mk, ET_TAG_INT_LIST, MK_ARGS(n, n));
	mk_kernel(&mk, mk_operator(&mk, "aten::full", "out"), MK_ARGS(sizes, two, m[0], m[0]));
	mk_kernel(&mk, mk_operator(&mk, "aten::mm", "out"), MK_ARGS(m[0], m[0], m[1], m[1]));
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(x, x, one, y, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

/* A deadline by which a run has begun, on a busy machine, too. */
enum { TO_BEGIN_US = 500 * 1000 };

static char gate[128];

static void start(struct e2e *e)
{
	static char config[1024];
	e2e_init(e);
	e2e_put_program(e, "product.pte", make_product);
	e2e_put_program(e, "wait.pte", make_wait);
	e2e_put_program(e, "state.pte", make_wait_with_state);
	e2e_put_program(e, "double.pte", e2e_program_double);
	assert_true(e2e_put_file(e, "vision.pte", TEST_MODELS "/efficientnet_lite0_int8.pte"));
	snprintf(config, sizeof config,
		"workers = 2\nstall = 0\n[backend test]\npath = %s/sync.so\nisolation = thread\ntimeout = 1h\n",
		PLUGINS);
	snprintf(gate, sizeof gate, "%s/gate", e->dir);
	assert_int_equal(mkfifo(gate, 0600), 0);
	setenv("INFERD_TEST_GATE", gate, 1);
	e2e_start(e, config);
}

/* Let whoever waits at the gate go. */
static void open_gate(void)
{
	int fd = open(gate, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
}

static void note(struct inferd_binding *b, int status, void *userdata)
{
	*(int *)userdata = status;
}

static void begin(struct inferd_binding *b, uint64_t timeout_us, int *status)
{
	const struct inferd_request_options options = { .struct_size = sizeof options, .timeout_us = timeout_us };
	*(float *)inferd_input(b, 0) = 1;
	*status = 1;
	assert_int_equal(inferd_infer_async(b, &options, note, status), 0);
}

static int wait_for(struct inferd *d, const int *status)
{
	while (*status == 1)
		assert_true(inferd_wait(d, 30000) >= 0);
	return *status;
}

/* The daemon answers for a run 10 ms after its deadline; libinferd does not wait so long for a daemon. */
static void expect_overdue(struct inferd *d)
{
	const char *error = inferd_error(d);
	assert_true(strstr(error, "does not end yet") || strstr(error, "has not answered"));
}

static void expect_service(struct inferd_binding *b, struct inferd_binding *vision)
{
	int rc;
	for (int i = 0; i < 20; i++)
		assert_true(e2e_infer(b, (float)i, &rc) == 2 * (float)i && rc == 0);
	for (int i = 0; vision && i < 2; i++)
		assert_int_equal(inferd_infer(vision, NULL), 0);
}

static bool runs_none(const struct inf_server_status *status, const void *arg)
{
	open_gate();
	return status->queues[0].running == 0 && status->queues[0].waiting == 0;
}

/* All workers multiply. Others are answered all the while; the runs end at their deadline, or with their client. */
static void test_kernels(void **state)
{
	enum { N = 4 };
	struct inferd_method *m = NULL;
	struct inferd_binding *b[N];
	int status[N];
	struct e2e e;
	start(&e);
	struct inferd *other = e2e_connect(&e);
	struct inferd_binding *quick = e2e_bind(other, "double", NULL);
	for (int is_killed = 0; is_killed < 2; is_killed++) {
		struct inferd *d = e2e_connect(&e);
		b[0] = e2e_bind(d, "product", &m);
		for (int i = 1; i < N; i++)
			assert_int_equal(inferd_bind(m, &b[i]), 0);
		for (int i = 0; i < N; i++)
			begin(b[i], is_killed ? 0 : 4 * TO_BEGIN_US, &status[i]);
		e2e_until_jobs(&e, 2, 2);
		for (int i = 0; i < N && !is_killed; i++)
			assert_int_equal(wait_for(d, &status[i]), -INFERD_MISSED_DEADLINE);
		inferd_close(d);
		expect_service(quick, NULL);
		e2e_until_jobs(&e, 0, 0);
	}
	inferd_close(other);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* Both workers are in calls that do not end: spare ones serve in their places, also models that need instances. When
 * these are in such calls, too, nobody serves; when the calls end, all is as before. */
static void test_calls(void **state)
{
	enum { N = 5 };
	struct inferd_method *m = NULL;
	struct inferd_binding *b[N];
	int status[N], rc;
	struct e2e e;
	start(&e);
	struct inferd *d = e2e_connect(&e), *other = e2e_connect(&e);
	struct inferd_binding *quick = e2e_bind(other, "double", NULL), *vision = e2e_bind(other, "vision", NULL);
	expect_service(quick, vision);
	b[0] = e2e_bind(d, "wait", &m);
	for (int i = 1; i < N; i++)
		assert_int_equal(inferd_bind(m, &b[i]), 0);
	for (int i = 0; i < 3; i++) {
		begin(b[i], TO_BEGIN_US, &status[i]);
		assert_int_equal(wait_for(d, &status[i]), -INFERD_MISSED_DEADLINE);
		expect_overdue(d);
		expect_service(quick, vision);
	}
	/* the next request on such a binding waits until the run has ended */
	*(float *)inferd_input(b[0], 0) = 4;
	status[0] = 1;
	assert_int_equal(inferd_infer_async(b[0], NULL, note, &status[0]), 0);
	expect_service(quick, vision);
	assert_int_equal(inferd_dispatch(d), 0);
	begin(b[3], TO_BEGIN_US, &status[3]);
	assert_int_equal(wait_for(d, &status[3]), -INFERD_MISSED_DEADLINE);
	begin(b[4], 20 * 1000, &status[4]);
	assert_int_equal(wait_for(d, &status[4]), -INFERD_MISSED_DEADLINE);
	assert_true(strstr(inferd_error(d), "before it could run") || strstr(inferd_error(d), "has not answered"));

	assert_int_equal(status[0], 1);
	e2e_until(&e, runs_none, NULL);
	expect_service(quick, vision);
	assert_int_equal(wait_for(d, &status[0]), 0);
	assert_true(*(float *)inferd_output(b[0], 0) == 4);
	assert_true(e2e_infer(b[0], 5, &rc) == 5 && rc == 0);
	assert_int_equal(e2e_unload(&e, "double"), INF_OK);
	inferd_close(d);
	inferd_close(other);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A client that asks for it is told that the run goes on, and when it has ended; others get one reply. */
static void test_told(void **state)
{
	struct e2e e;
	start(&e);
	for (int i = 0; i < 4; i++) {
		bool hears = i % 2, is_cancelled = i / 2;
		struct e2e_raw *raw = hears ? e2e_raw_new_hearing(e.socket) : e2e_raw_new(e.socket, false);
		struct inf_reply reply;
		uint64_t method, binding, region;
		float *floats;
		e2e_raw_bind(raw, "wait", &method, &binding, &region, &floats);
		floats[0] = 1;
		struct inf_request infer = { .kind = INF_REQUEST_INFER, .infer = { .binding = binding } };
		infer.infer.timeout_us = is_cancelled ? 0 : TO_BEGIN_US;
		e2e_raw_send(raw, &infer, -1);
		uint64_t id = raw->last_id;
		if (is_cancelled) {
			struct inf_request cancel = { .kind = INF_REQUEST_CANCEL, .cancel = { id } };
			e2e_until_jobs(&e, 1, 0);
			assert_int_equal(e2e_raw_call(raw, cancel).status, INF_OK);
		}
		assert_true(e2e_raw_receive(raw, &reply));
		assert_int_equal(reply.id, id);
		assert_int_equal(reply.status, is_cancelled ? INF_CANCELLED : INF_MISSED_DEADLINE);
		assert_non_null(strstr(reply.error, "does not end yet"));
		assert_int_equal(reply.goes_on, hears);
		infer.infer.timeout_us = 0;
		reply = e2e_raw_call(raw, infer);
		assert_int_equal(reply.status, INF_BUSY);
		assert_non_null(strstr(reply.error, "given up"));
		e2e_until(&e, runs_none, NULL);
		if (hears) {
			assert_true(e2e_raw_receive(raw, &reply));
			assert_int_equal(reply.id, id);
			assert_int_not_equal(reply.status, INF_OK);
			assert_false(reply.goes_on);
		}
		floats[0] = 2;
		do
			reply = e2e_raw_call(raw, infer);
		while (!hears && reply.status == INF_BUSY); /* the worker has just left the run */
		assert_int_equal(reply.status, INF_OK);
		e2e_raw_free(raw);
	}
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* The client goes while its run is in such a call. */
static void test_gone(void **state)
{
	struct e2e e;
	int status[2];
	start(&e);
	struct inferd *other = e2e_connect(&e);
	struct inferd_binding *quick = e2e_bind(other, "double", NULL), *vision = e2e_bind(other, "vision", NULL);
	for (uint32_t i = 0; i < 2; i++) {
		struct inferd *d = e2e_connect(&e);
		begin(e2e_bind(d, "wait", NULL), 0, &status[i]);
		e2e_until_jobs(&e, i + 1, 0);
		inferd_close(d);
	}
	expect_service(quick, vision);
	e2e_until(&e, runs_none, NULL);
	expect_service(quick, vision);
	inferd_close(other);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A Method whose run is answered for is as it was before that run, which its next one waits for. */
static void test_state(void **state)
{
	struct inferd_method *m = NULL;
	struct inferd_binding *b[2];
	struct e2e e;
	int status[2], rc;
	start(&e);
	struct inferd *d = e2e_connect(&e);
	b[0] = e2e_bind(d, "state", &m);
	assert_int_equal(inferd_bind(m, &b[1]), 0);
	assert_true(e2e_infer(b[0], 3, &rc) == 3 && rc == 0);
	begin(b[0], TO_BEGIN_US, &status[0]);
	assert_int_equal(wait_for(d, &status[0]), -INFERD_MISSED_DEADLINE);
	*(float *)inferd_input(b[1], 0) = 2;
	status[1] = 1;
	assert_int_equal(inferd_infer_async(b[1], NULL, note, &status[1]), 0);
	e2e_until(&e, runs_none, NULL);
	assert_int_equal(wait_for(d, &status[1]), 0);
	assert_true(*(float *)inferd_output(b[1], 0) == 5);
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* Both workers, which have instances of "vision", are in calls of another model that do not end. Unloading it says so,
 * serves it no more, and frees it when the calls end. */
static void test_unload(void **state)
{
	struct inf_request unload = { .kind = INF_REQUEST_REPOSITORY_MODEL_UNLOAD,
		.repository_model_unload = { "", "vision" } };
	int status[2];
	struct e2e e;
	start(&e);
	struct inferd *d = e2e_connect(&e), *other = e2e_connect(&e);
	struct e2e_raw *manager = e2e_raw_new(e.manager, false);
	struct inferd_binding *quick = e2e_bind(other, "double", NULL), *vision = e2e_bind(other, "vision", NULL);
	struct inferd_binding *waits[2] = { e2e_bind(d, "wait", NULL), e2e_bind(d, "wait", NULL) };
	expect_service(quick, vision);
	for (int i = 0; i < 2; i++)
		begin(waits[i], 0, &status[i]);
	e2e_until_jobs(&e, 2, 0);
	for (int i = 0; i < 2; i++) {
		struct inf_reply reply = e2e_raw_call(manager, unload);
		assert_int_equal(reply.status, INF_UNAVAILABLE);
		assert_non_null(strstr(reply.error, "when a long run of another model ends"));
	}
	assert_int_equal(inferd_infer(vision, NULL), -INFERD_UNAVAILABLE);
	e2e_until(&e, runs_none, NULL);
	for (int i = 0; i < 2; i++)
		assert_int_equal(wait_for(d, &status[i]), 0);
	while (e2e_unload(&e, "vision") != INF_NOT_FOUND)
		; /* it is freed soon */
	expect_service(quick, e2e_bind(other, "vision", NULL));
	e2e_raw_free(manager);
	inferd_close(d);
	inferd_close(other);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

enum { HOG = 65534, N_HOGS = 6 };

/* Send @n requests of "wait", without a deadline. */
static void send_long(struct e2e_raw *raw, uint64_t n, enum inf_priority priority)
{
	uint64_t method, binding, region;
	float *floats;
	for (uint64_t i = 0; i < n; i++) {
		e2e_raw_bind(raw, "wait", &method, &binding, &region, &floats);
		floats[0] = 1;
		struct inf_request infer = { .kind = INF_REQUEST_INFER,
			.infer = { .binding = binding, .priority = priority } };
		e2e_raw_send(raw, &infer, -1);
	}
}

static void expect_answers(struct e2e_raw *raw, uint64_t n)
{
	struct inf_reply reply;
	for (uint64_t i = 0; i < n; i++) {
		assert_true(e2e_raw_receive(raw, &reply));
		assert_int_equal(reply.status, INF_OK);
	}
	e2e_raw_free(raw);
}

static struct e2e_raw *connect_as(struct e2e *e, uid_t uid)
{
	assert_int_equal(seteuid(uid), 0);
	struct e2e_raw *raw = e2e_raw_new(e->socket, false);
	assert_int_equal(seteuid(0), 0);
	return raw;
}

static bool has_spares(const struct inf_server_status *status, const void *arg)
{
	return status->queues[0].spares == *(const uint32_t *)arg;
}

/* Both workers are in calls that do not end, of users who set no deadline and have more such requests. Another user is
 * served all the while, and the others' further requests take nothing of what is there for him. The calls end well. */
static void test_users(void **state)
{
	struct e2e_raw *hogs[3];
	uint32_t n_spares = 0;
	struct e2e e;
	if (getuid() != 0) {
		print_message("SKIPPED: only root can be somebody else\n");
		skip();
	}
	start(&e);
	assert_true(e2e_put_file(&e, "later.pte", TEST_MODELS "/efficientnet_lite0_int8.pte"));
	assert_int_equal(chmod(e.dir, 0755), 0);
	struct inferd *other = e2e_connect(&e);
	struct inferd_binding *quick = e2e_bind(other, "double", NULL), *vision = e2e_bind(other, "vision", NULL);
	expect_service(quick, vision);
	e2e_until(&e, has_spares, &n_spares);
	for (uint32_t i = 0; i < 3; i++) {
		hogs[i] = connect_as(&e, HOG - i);
		send_long(hogs[i], N_HOGS, INF_INTERACTIVE);
		e2e_until_jobs(&e, 2 + i, (i + 1) * N_HOGS - 2 - i);
		if (i == 0) /* no worker can prepare it */
			assert_int_equal(inferd_infer(e2e_bind(other, "later", NULL), NULL), 0);
		expect_service(quick, vision);
		n_spares = i + 1; /* the last one for him, and one for each user who fills one with a long run */
		e2e_until(&e, has_spares, &n_spares);
	}
	e2e_until_jobs(&e, 4, 3 * N_HOGS - 4);
	e2e_until(&e, runs_none, NULL);
	for (uint32_t i = 0; i < 3; i++)
		expect_answers(hogs[i], N_HOGS);
	n_spares = 0;
	e2e_until(&e, has_spares, &n_spares);
	expect_service(quick, vision);
	inferd_close(other);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* The same for requests of a higher class of the same user. */
static void test_classes(void **state)
{
	struct e2e e;
	start(&e);
	struct inferd *other = e2e_connect(&e);
	struct inferd_binding *quick = e2e_bind(other, "double", NULL), *vision = e2e_bind(other, "vision", NULL);
	expect_service(quick, vision);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	send_long(raw, N_HOGS, INF_BATCH);
	e2e_until_jobs(&e, 2, N_HOGS - 2);
	expect_service(quick, vision);
	e2e_until_jobs(&e, 2, N_HOGS - 2);
	e2e_until(&e, runs_none, NULL);
	expect_answers(raw, N_HOGS);
	expect_service(quick, vision);
	inferd_close(other);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_kernels), cmocka_unit_test(test_calls),
		cmocka_unit_test(test_told), cmocka_unit_test(test_gone), cmocka_unit_test(test_state),
		cmocka_unit_test(test_unload), cmocka_unit_test(test_users), cmocka_unit_test(test_classes) };
	return e2e_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
