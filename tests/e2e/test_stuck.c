/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers that are stuck: the daemon notices, reports and works around them, and does not end. A plug-in inside the
 * daemon acts as an engine that hangs or is slow: it waits at a FIFO until the test opens the other end. */
#include "tests/e2e/harness.h"
#include "tests/support/make_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* y = x, on the CPU, in one instruction that blocks. */
static uint8_t *make_blocking(size_t *ret_n_bytes)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 64);
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = 16 });
	mk_kernel(&mk, mk_operator(&mk, "test::plug_block", "out"), MK_ARGS(x, y, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

/* Two methods that share h, which is an arena's only buffer: add(x): h = h + 2 x, of which a device does the half
 * and may hang; get(x): y = h + 0 x. */
static uint8_t *make_sharing(size_t *ret_n_bytes)
{
	struct make_program mk;
	mk_init(&mk);
	for (int is_get = 0; is_get < 2; is_get++) {
		mk_method(&mk, is_get ? "get" : "add");
		uint32_t own = mk_arena(&mk, 64);
		int v[4]; /* x, 2 x, y, h */
		for (uint64_t i = 0; i < 4; i++)
			v[i] = mk_tensor(&mk,
				&(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = i == 3 ? mk_arena(&mk, 64) : own,
					.offset = i == 3 ? 0 : 16 * i });
		int sum = mk_operator(&mk, "aten::add", "out");
		if (is_get) {
			mk_kernel(&mk, sum, MK_ARGS(v[3], v[0], mk_int(&mk, 0), v[2], v[2]));
		} else {
			mk_call(&mk, mk_delegate(&mk, "TestBackend", "block", 5, false, NULL, NULL),
				MK_ARGS(v[0], v[1]));
			mk_kernel(&mk, sum, MK_ARGS(v[3], v[1], mk_int(&mk, 1), v[2], v[2]));
			mk_kernel(&mk, mk_operator(&mk, "aten::copy_", ""),
				MK_ARGS(v[3], v[2], mk_bool(&mk, false), v[3]));
		}
		mk_input(&mk, v[0]);
		mk_output(&mk, v[2]);
	}
	return mk_finish(&mk, ret_n_bytes);
}

/* For the model that hangs alone: whatever else runs may be kept from running for as long, and is not given up for
 * that. */
#define SHORT_STALL(model) "[model " model "]\nstall = 1s\n"

/* A deadline by which a run has begun, on a busy machine, too, and which comes before this stall. */
enum { BRIEF_US = 600 * 1000 };
#define LATER_STALL(model) "[model " model "]\nstall = 2s\n"

static char gate[128];

/* Let whoever waits at the gate go; whether anybody did. */
static bool open_gate(void)
{
	int fd = open(gate, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* With a watchdog, so that the loop looks around ten times a second, and is to feed it. */
static void start(struct e2e *e, const char *server, const char *more)
{
	static char config[2048];
	snprintf(config, sizeof config, "%s[backend test]\npath = %s/sync.so\nisolation = thread\ntimeout = 1h\n%s",
		server, PLUGINS, more);
	snprintf(gate, sizeof gate, "%s/gate", e->dir);
	assert_int_equal(mkfifo(gate, 0600), 0);
	setenv("INFERD_TEST_GATE", gate, 1);
	setenv("WATCHDOG_USEC", "200000", 1);
	e2e_start(e, config);
	unsetenv("WATCHDOG_USEC");
}

static void expect_watchdog(struct e2e *e, int n_times)
{
	char text[512];
	while (n_times) {
		struct pollfd p = { .fd = e->notify_fd, .events = POLLIN };
		if (poll(&p, 1, 30000) != 1)
			fail_msg("the watchdog is not fed");
		ssize_t n = recv(e->notify_fd, text, sizeof text - 1, 0);
		assert_true(n > 0);
		text[n] = '\0';
		n_times -= strstr(text, "WATCHDOG=1") != NULL;
	}
}

static void note(struct inferd_binding *b, int status, void *userdata)
{
	*(int *)userdata = status;
}

static void begin(struct inferd_binding *b, int *status)
{
	*(float *)inferd_input(b, 0) = 1;
	*status = 1;
	assert_int_equal(inferd_infer_async(b, NULL, note, status), 0);
}

/* Until it is answered, letting those go who come to the gate. */
static int release(struct inferd *d, const int *status)
{
	while (*status == 1) {
		open_gate();
		assert_true(inferd_wait(d, 1) >= 0);
	}
	return *status;
}

static int wait_for(struct inferd *d, const int *status)
{
	while (*status == 1)
		assert_true(inferd_wait(d, 30000) >= 0);
	return *status;
}

static const struct inf_queue_status *find_queue(const struct inf_server_status *status, const char *name)
{
	for (size_t i = 0; i < status->n_queues; i++)
		if (strcmp(status->queues[i].name, name) == 0)
			return &status->queues[i];
	fail_msg("there is no queue %s", name);
	return NULL;
}

static bool has_one_stuck(const struct inf_server_status *status, const void *arg)
{
	return find_queue(status, "npu0")->stuck == 1 && status->n_warnings == 1 &&
	       strstr(status->warnings[0], arg) != NULL;
}

static bool is_released(const struct inf_server_status *status, const void *arg)
{
	open_gate();
	return find_queue(status, "npu0")->stuck == 0 && find_queue(status, "cpu")->stuck == 0 &&
	       status->n_warnings == 0 && find_queue(status, "npu0")->running == 0;
}

static bool runs_on_npu(const struct inf_server_status *status, const void *arg)
{
	return find_queue(status, "npu0")->running == *(const uint32_t *)arg;
}

static bool runs_one(const struct inf_server_status *status, const void *queue)
{
	return find_queue(status, queue)->running == 1;
}

/* One of two workers hangs. */
static void test_stuck(void **state)
{
	struct e2e e;
	int status, rc;
	e2e_init(&e);
	e2e_put_word(&e, "block");
	e2e_put_word(&e, "scale");
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_put_program(&e, "late.pte", e2e_program_triple); /* loaded meanwhile */
	start(&e, "", SHORT_STALL("block"));
	struct inferd *d = e2e_connect(&e), *other = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "block", NULL), *same = e2e_bind(other, "block", NULL);
	struct inferd_binding *scale = e2e_bind(other, "scale", NULL), *cpu = e2e_bind(other, "double", NULL);
	assert_true(e2e_infer(b, 3, &rc) == 6 && rc == 0);

	begin(b, &status);
	assert_int_equal(wait_for(d, &status), -INFERD_INTERNAL); /* told while the worker is still in it */
	assert_non_null(strstr(inferd_error(d), "model 'block'"));
	assert_non_null(strstr(inferd_error(d), "'stall'"));
	e2e_until(&e, has_one_stuck, "one instruction of model 'block' for client 'test_e2e_stuck'");
	expect_watchdog(&e, 5);

	/* others go on, beside it and behind it; nobody is sent the same way */
	for (int i = 0; i < 20; i++) {
		assert_true(e2e_infer(scale, (float)i, &rc) == 2 * (float)i && rc == 0);
		assert_true(e2e_infer(cpu, (float)i, &rc) == 2 * (float)i && rc == 0);
	}
	struct inferd_binding *late = e2e_bind(other, "late", NULL);
	assert_true(e2e_infer(late, 2, &rc) == 6 && rc == 0);
	e2e_infer(same, 3, &rc);
	assert_int_equal(rc, -INFERD_UNAVAILABLE);
	assert_non_null(strstr(inferd_error(other), "does not come back"));
	assert_int_equal(inferd_infer(b, NULL), -INFERD_BUSY);
	assert_non_null(strstr(inferd_error(d), "given up"));
	e2e_until(&e, runs_on_npu, &(uint32_t){ 1 });

	/* it comes back: nothing is answered a second time, and all is as before */
	e2e_until(&e, is_released, NULL);
	assert_true(e2e_infer(b, 4, &rc) == 8 && rc == 0);
	assert_true(e2e_infer(same, 5, &rc) == 10 && rc == 0);
	inferd_close(d);
	inferd_close(other);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A request's deadline passes first: who hears of the run is told of both, and the next request waits no more. */
static void test_told(void **state)
{
	const struct inferd_request_options brief = { .struct_size = sizeof brief, .timeout_us = BRIEF_US };
	struct inf_reply reply;
	uint64_t method, binding, region;
	float *floats;
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_word(&e, "block");
	start(&e, "", LATER_STALL("block"));
	struct e2e_raw *raw = e2e_raw_new_hearing(e.socket);
	e2e_raw_bind(raw, "block", &method, &binding, &region, &floats);
	floats[0] = 1;
	struct inf_request infer = { .kind = INF_REQUEST_INFER,
		.infer = { .binding = binding, .timeout_us = BRIEF_US } };
	reply = e2e_raw_call(raw, infer);
	assert_true(reply.status == INF_MISSED_DEADLINE && reply.goes_on);
	assert_true(e2e_raw_receive(raw, &reply));
	assert_true(reply.id == raw->last_id && reply.status == INF_INTERNAL && reply.goes_on);
	assert_non_null(strstr(reply.error, "'stall'"));
	e2e_until(&e, is_released, NULL);
	assert_true(e2e_raw_receive(raw, &reply));
	assert_true(reply.id == raw->last_id && reply.status != INF_OK && !reply.goes_on);
	floats[0] = 2;
	infer.infer.timeout_us = 0;
	assert_int_equal(e2e_raw_call(raw, infer).status, INF_OK);
	e2e_raw_free(raw);

	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "block", NULL);
	*(float *)inferd_input(b, 0) = 1;
	assert_int_equal(inferd_infer(b, &brief), -INFERD_MISSED_DEADLINE);
	assert_int_equal(inferd_infer(b, NULL), -INFERD_BUSY);
	assert_non_null(strstr(inferd_error(d), "given up"));
	e2e_until(&e, is_released, NULL);
	assert_true(e2e_infer(b, 4, &rc) == 8 && rc == 0);
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

static struct inferd_binding *bind_method(struct inferd *d, const char *method, const struct inferd_method *with,
	struct inferd_method **ret)
{
	struct inferd_method_options options = { .struct_size = sizeof options, .method = method, .share_with = with };
	struct inferd_binding *b = NULL;
	if (inferd_method_open(d, ret, with ? NULL : "sharing", &options) || inferd_bind(*ret, &b))
		fail_msg("%s: %s", method, inferd_error(d));
	return b;
}

/* A Method whose state others share hangs: theirs is nobody's until it is back, and then as it was before. */
static void test_sharing(void **state)
{
	struct inferd_method *m[3];
	struct inferd_binding *b[3];
	struct e2e e;
	int status[2], rc;
	e2e_init(&e);
	e2e_put_program(&e, "sharing.pte", make_sharing);
	start(&e, "", SHORT_STALL("sharing"));
	struct inferd *d = e2e_connect(&e);
	b[0] = bind_method(d, "add", NULL, &m[0]);
	b[1] = bind_method(d, "get", m[0], &m[1]);
	b[2] = bind_method(d, "get", NULL, &m[2]); /* has its own */
	assert_true(e2e_infer(b[0], 3, &rc) == 6 && rc == 0);

	begin(b[0], &status[0]);
	begin(b[1], &status[1]); /* behind it */
	assert_int_equal(wait_for(d, &status[0]), -INFERD_INTERNAL);
	assert_int_equal(wait_for(d, &status[1]), -INFERD_UNAVAILABLE);
	e2e_infer(b[1], 0, &rc);
	assert_int_equal(rc, -INFERD_UNAVAILABLE);
	assert_non_null(strstr(inferd_error(d), "does not come back"));
	assert_int_equal(inferd_method_reset(m[1]), -INFERD_BUSY);
	assert_true(e2e_infer(b[2], 0, &rc) == 0 && rc == 0);
	inferd_unbind(b[0]);
	inferd_method_close(m[0]); /* the state is kept for the other */

	e2e_until(&e, is_released, NULL);
	assert_true(e2e_infer(b[1], 0, &rc) == 6 && rc == 0);
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* Those that wait behind one that hangs are answered, and the client of the one may go. */
static void test_gone(void **state)
{
	enum { N = 4 };
	struct inferd_binding *b[N];
	struct inferd_method *m = NULL;
	int status[N];
	struct e2e e;
	int rc;
	e2e_init(&e);
	e2e_put_word(&e, "block");
	e2e_put_word(&e, "scale");
	start(&e, "", SHORT_STALL("block"));
	struct inferd *d = e2e_connect(&e), *other = e2e_connect(&e);
	struct inferd_binding *scale = e2e_bind(other, "scale", NULL);
	b[0] = e2e_bind(d, "block", &m);
	for (int i = 1; i < N; i++)
		assert_int_equal(inferd_bind(m, &b[i]), 0);
	for (int i = 0; i < N; i++)
		begin(b[i], &status[i]);
	for (int i = 0; i < N; i++) {
		rc = wait_for(d, &status[i]);
		assert_true(rc == -INFERD_INTERNAL || rc == -INFERD_UNAVAILABLE);
	}
	e2e_until(&e, is_released, NULL);
	assert_true(e2e_infer(scale, 3, &rc) == 6 && rc == 0);
	inferd_close(d);
	inferd_close(other);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A model for which more patience is configured is waited for. */
static void test_patience(void **state)
{
	struct e2e e;
	int status;
	e2e_init(&e);
	e2e_put_word(&e, "block");
	start(&e, "stall = 20ms\n", "[model block]\nstall = 1h\n");
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "block", NULL);
	begin(b, &status);
	e2e_until(&e, runs_on_npu, &(uint32_t){ 1 });
	expect_watchdog(&e, 5); /* as many looks */
	assert_int_equal(status, 1);
	assert_int_equal(release(d, &status), 0);
	assert_true(*(float *)inferd_output(b, 0) == 2);
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A run that has all cores and does not come to the end of an instruction: others begin beside it. */
static void test_all_cores(void **state)
{
	struct e2e e;
	int status, rc;
	e2e_init(&e);
	e2e_put_program(&e, "block.pte", make_blocking);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	start(&e, "", "");
	struct inferd *d = e2e_connect(&e), *other = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "block", NULL), *cpu = e2e_bind(other, "double", NULL);
	for (int i = 0; i < 8; i++) { /* on one core and, if cores are free, on all, in turn */
		begin(b, &status);
		e2e_until_jobs(&e, 1, 0);
		assert_true(e2e_infer(cpu, 3, &rc) == 6 && rc == 0);
		assert_int_equal(release(d, &status), 0);
		assert_true(*(float *)inferd_output(b, 0) == 1);
	}
	inferd_close(d);
	inferd_close(other);
	e2e_until_clients(&e, 0);
	e2e_until_jobs(&e, 0, 0);
	e2e_deinit(&e);
}

static void put_three(struct e2e *e)
{
	e2e_init(e);
	e2e_put_word(e, "block");
	e2e_put_word(e, "scale");
	e2e_put_program(e, "double.pte", e2e_program_double);
}

/* Room for two of them and a half, as the configuration says it. */
static void write_budget(char *to, size_t room)
{
	static const char *const names[] = { "block", "scale", "double" };
	unsigned long long n_bytes = 0;
	struct e2e e;
	put_three(&e);
	start(&e, "", "");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(e2e_load(&e, names[i]), INF_OK);
		n_bytes += e2e_memory_of(&e, names[i]) / (i == 2 ? 2 : 1);
	}
	e2e_deinit(&e);
	snprintf(to, room, "memory_budget = %llu\n", n_bytes);
}

/* A model would have to go for another to come, and a worker that hangs would have to let go of it: the other is
 * refused, whether the one is on its way already or not, and comes when the worker does. */
static void test_room(void **state)
{
	char config[128];
	int status;
	write_budget(config, sizeof config);
	for (int is_leaving = 0; is_leaving < 2; is_leaving++) {
		struct e2e e;
		put_three(&e);
		start(&e, config, SHORT_STALL("block"));
		assert_int_equal(e2e_load(&e, "scale"), INF_OK);
		struct inferd *d = e2e_connect(&e), *other = e2e_connect(&e);
		struct inferd_binding *b = e2e_bind(d, "block", NULL);
		struct inferd_method *method;
		begin(b, &status);
		e2e_until(&e, runs_on_npu, &(uint32_t){ 1 });
		struct e2e_raw *manager = e2e_raw_new(e.manager, false);
		struct inf_request unload = { .kind = INF_REQUEST_REPOSITORY_MODEL_UNLOAD,
			.repository_model_unload = { "", "scale" } };
		if (is_leaving)
			e2e_raw_send(manager, &unload, -1);
		else
			e2e_until(&e, has_one_stuck, "model 'block'");
		assert_int_equal(inferd_method_open(other, &method, "double", NULL), -INFERD_RESOURCE_EXHAUSTED);
		if (!strstr(inferd_error(other), "memory budget") || !strstr(inferd_error(other), "worker came back"))
			fail_msg("%s", inferd_error(other));
		if (!is_leaving) /* it did not go in vain */
			assert_true(e2e_memory_of(&e, "scale") > 0);
		assert_int_equal(wait_for(d, &status), -INFERD_INTERNAL);

		e2e_until(&e, is_released, NULL);
		if (is_leaving) {
			struct inf_reply reply;
			assert_true(e2e_raw_receive(manager, &reply));
			if (reply.status != INF_OK) /* after a second of waiting for the worker */
				assert_int_equal(reply.status, INF_UNAVAILABLE);
			while (e2e_unload(&e, "scale") != INF_NOT_FOUND)
				; /* it goes soon */
		}
		inferd_close(d);
		e2e_until_clients(&e, 2);
		assert_int_equal(inferd_method_open(other, &method, "double", NULL), 0);
		assert_int_equal(e2e_memory_of(&e, "scale"), 0);
		inferd_close(other);
		e2e_raw_free(manager);
		e2e_deinit(&e);
	}
}

/* Of a queue with two workers one is in a run that takes long: a model that comes is served by the other one, goes
 * without waiting for the one, and is served by both when that is back. */
static void check_late_worker(const char *queue, const char *blocking, const char *model)
{
	struct e2e e;
	int status, late[2];
	e2e_init(&e);
	e2e_put_word(&e, "block");
	e2e_put_word(&e, "scale");
	e2e_put_program(&e, "hold.pte", make_blocking);
	assert_true(e2e_put_file(&e, "picture.pte", TEST_MODELS "/efficientnet_lite0_int8.pte"));
	start(&e, "workers = 2\nstall = 0\n", "");
	struct inferd *d = e2e_connect(&e), *other = e2e_connect(&e);
	begin(e2e_bind(d, blocking, NULL), &status);
	e2e_until(&e, runs_one, queue);

	for (int i = 0; i < 2; i++) { /* the second time it has been unloaded meanwhile */
		struct inferd_method *method;
		assert_int_equal(inferd_infer(e2e_bind(other, model, &method), NULL), 0);
		assert_int_equal(status, 1);
		inferd_method_close(method);
		if (i == 0)
			assert_int_equal(e2e_unload(&e, model), INF_OK);
	}

	struct inferd_method *method;
	struct inferd_binding *both[2];
	both[0] = e2e_bind(other, model, &method);
	assert_int_equal(inferd_bind(method, &both[1]), 0);
	assert_int_equal(release(d, &status), 0);
	for (int i = 0; i < 20; i++) {
		for (int k = 0; k < 2; k++) {
			late[k] = 1;
			assert_int_equal(inferd_infer_async(both[k], NULL, note, &late[k]), 0);
		}
		for (int k = 0; k < 2; k++)
			assert_int_equal(wait_for(other, &late[k]), 0);
	}
	inferd_close(d);
	inferd_close(other);
	e2e_until_clients(&e, 0);
	e2e_deinit(&e);
}

static void test_late_worker(void **state)
{
	check_late_worker("npu0", "block", "scale");
	check_late_worker("cpu", "hold", "picture");
}

static void until_loading(struct e2e *e, size_t model)
{
	struct inf_request index = { .kind = INF_REQUEST_REPOSITORY_INDEX, .repository_index = { "", false } };
	struct inf_reply reply;
	do {
		reply = e2e_raw_call(e->watcher, index);
		assert_true(reply.repository_index.n_models > model);
	} while (strcmp(reply.repository_index.models[model].state, "LOADING"));
}

static bool has_two_programs(const struct inf_server_status *status, const void *arg)
{
	return status->n_programs == 2;
}

/* A model waits for a worker; meanwhile its file is replaced, and what it is now is loaded. When the worker comes,
 * what was the newest stays it, and the late one goes. */
static void test_overtaken(void **state)
{
	struct e2e e;
	struct inferd *d[2], *other;
	int status[2], rc;
	e2e_init(&e);
	e2e_put_word(&e, "block");
	e2e_put_word_as(&e, "scale", "m.pte");
	start(&e, "stall = 0\n", "");
	for (uint32_t i = 0; i < 2; i++) { /* both workers of the queue */
		d[i] = e2e_connect(&e);
		begin(e2e_bind(d[i], "block", NULL), &status[i]);
		e2e_until(&e, runs_on_npu, &(uint32_t){ i + 1 });
	}
	other = e2e_connect(&e);

	struct e2e_raw *manager = e2e_raw_new(e.manager, false);
	struct inf_request load = { .kind = INF_REQUEST_REPOSITORY_MODEL_LOAD, .repository_model_load = { "", "m" } };
	struct inf_reply reply;
	struct inferd_method *method;
	e2e_raw_send(manager, &load, -1);
	until_loading(&e, 1);
	e2e_put_program(&e, "m.pte", e2e_program_double);
	assert_int_equal(e2e_load(&e, "m"), INF_OK);
	assert_true(status[0] == 1 && status[1] == 1);

	for (int i = 0; i < 2; i++)
		assert_int_equal(release(d[i], &status[i]), 0);
	assert_true(e2e_raw_receive(manager, &reply));
	assert_int_equal(reply.status, INF_OK);
	e2e_until(&e, has_two_programs, NULL); /* the blocking one's, and m's */
	struct inferd_binding *b = e2e_bind(other, "m", &method);
	assert_string_equal(inferd_method_backend(method), "portable");
	assert_true(e2e_infer(b, 3, &rc) == 6 && rc == 0);
	for (int i = 0; i < 2; i++)
		inferd_close(d[i]);
	inferd_close(other);
	e2e_raw_free(manager);
	e2e_until_clients(&e, 0);
	e2e_deinit(&e);
}

/* Whoever stops the daemon wants it stopped. */
static void test_end(void **state)
{
	struct e2e e;
	int status;
	e2e_init(&e);
	e2e_put_word(&e, "block");
	start(&e, "drain = 50ms\nstall = 0\n", "");
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "block", NULL);
	begin(b, &status);
	e2e_until(&e, runs_on_npu, &(uint32_t){ 1 });
	expect_watchdog(&e, 3);
	assert_int_equal(kill(e.pid, SIGTERM), 0);
	assert_int_equal(e2e_wait(&e), 1);
	assert_int_equal(access(e.socket, F_OK), -1);
	assert_true(wait_for(d, &status) < 0 && status != -INFERD_INTERNAL); /* it was not given up */
	inferd_close(d);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stuck),
		cmocka_unit_test(test_told),
		cmocka_unit_test(test_sharing),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_patience),
		cmocka_unit_test(test_all_cores),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_late_worker),
		cmocka_unit_test(test_overtaken),
		cmocka_unit_test(test_end),
	};
	return e2e_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
