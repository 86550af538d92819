/* SPDX-License-Identifier: BSD-3-Clause */
/* Lifetimes: requests that end early, clients that die, models that are unloaded, and the daemon's own shutdown and
 * restart. */
#include "tests/e2e/harness.h"

#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"
#include "tests/support/make_program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct inf_request infer(uint64_t binding, uint64_t timeout_us)
{
	return (struct inf_request){ .kind = INF_REQUEST_INFER,
		.infer = { binding, INF_INTERACTIVE, timeout_us, 0, NULL } };
}

static void start(struct e2e *e, const char *config)
{
	e2e_init(e);
	e2e_put_program(e, "double.pte", e2e_program_double);
	e2e_put_program(e, "forever.pte", e2e_program_forever);
	e2e_put_program(e, "long.pte", e2e_program_forever_stateful);
	e2e_start(e, config);
}

static void check_works(struct e2e *e)
{
	struct inferd *d = e2e_connect(e);
	struct inferd_binding *b = e2e_bind(d, "double", NULL);
	int rc;
	assert_true(e2e_infer(b, 3, &rc) == 6 && rc == 0);
	inferd_close(d);
}

static void stop(struct e2e *e)
{
	check_works(e);
	e2e_check_clean(e);
	e2e_deinit(e);
}

/* The next two replies, whatever their order: the status of request @id and of the other. */
static void receive_two(struct e2e_raw *raw, uint64_t id, enum inf_status *ret_first, enum inf_status *ret_other)
{
	struct inf_reply reply;
	for (int i = 0; i < 2; i++) {
		assert_true(e2e_raw_receive(raw, &reply));
		*(reply.id == id ? ret_first : ret_other) = reply.status;
	}
}

static void test_busy_and_cancel(void **state)
{
	uint64_t method, binding, region;
	enum inf_status first, other;
	struct e2e e;
	start(&e, NULL);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	e2e_raw_bind(raw, "forever", &method, &binding, &region, NULL);
	struct inf_request request = infer(binding, 0);
	e2e_raw_send(raw, &request, -1);
	uint64_t id = raw->last_id;
	e2e_until_jobs(&e, 1, 0);
	struct inf_reply reply = e2e_raw_call(raw, infer(binding, 0));
	assert_int_equal(reply.status, INF_BUSY);
	struct inf_request reset = { .kind = INF_REQUEST_METHOD_RESET, .method_reset = { method } };
	assert_int_equal(e2e_raw_call(raw, reset).status, INF_BUSY);

	struct inf_request cancel = { .kind = INF_REQUEST_CANCEL, .cancel = { id } };
	e2e_raw_send(raw, &cancel, -1);
	receive_two(raw, id, &first, &other);
	assert_int_equal(first, INF_CANCELLED);
	assert_int_equal(other, INF_OK);
	e2e_until_jobs(&e, 0, 0);
	assert_int_equal(e2e_raw_call(raw, cancel).status, INF_NOT_FOUND);
	e2e_raw_free(raw);
	stop(&e);
}

/* Two workers are busy for ever; what waits behind them is cancelled, expires, or goes with its Method. */
static void test_waiting(void **state)
{
	uint64_t method, busy[2], waiting[3], region, other_method;
	enum inf_status first, other;
	struct inf_reply reply;
	struct e2e e;
	start(&e, "age = 1h\n[limits]\npriority = realtime\n"); /* before that nothing passes those of a higher class */
	struct e2e_raw *raw = e2e_raw_new(e.socket, false), *queue = e2e_raw_new(e.socket, false);
	for (int i = 0; i < 3; i++)
		e2e_raw_bind(queue, "double", &other_method, &waiting[i], &region, NULL);
	for (int i = 0; i < 2; i++) {
		e2e_raw_bind(raw, "forever", &method, &busy[i], &region, NULL);
		struct inf_request request = infer(busy[i], 0);
		request.infer.priority = INF_REALTIME;
		e2e_raw_send(raw, &request, -1);
	}
	e2e_until_jobs(&e, 2, 0);

	struct inf_request request = infer(waiting[0], 1000); /* 1 ms: found by the loop, no worker is free */
	e2e_raw_send(queue, &request, -1);
	assert_true(e2e_raw_receive(queue, &reply));
	assert_int_equal(reply.status, INF_MISSED_DEADLINE);
	assert_non_null(strstr(reply.error, "deadline"));

	request = infer(waiting[1], 0);
	e2e_raw_send(queue, &request, -1);
	uint64_t id = queue->last_id;
	struct inf_request cancel = { .kind = INF_REQUEST_CANCEL, .cancel = { id } };
	e2e_raw_send(queue, &cancel, -1);
	receive_two(queue, id, &first, &other);
	assert_int_equal(first, INF_CANCELLED);
	assert_int_equal(other, INF_OK);

	request = infer(waiting[2], 0);
	e2e_raw_send(queue, &request, -1);
	id = queue->last_id;
	struct inf_request closing = { .kind = INF_REQUEST_METHOD_CLOSE, .method_close = { other_method } };
	e2e_raw_send(queue, &closing, -1);
	receive_two(queue, id, &first, &other);
	assert_int_equal(first, INF_CANCELLED);
	assert_int_equal(other, INF_OK);
	e2e_raw_free(queue);
	e2e_raw_free(raw); /* the two that run are cancelled by it */
	e2e_until_jobs(&e, 0, 0);
	stop(&e);
}

/* A client whose programs never end takes its share of the workers, and no more. */
static void test_endless_neighbour(void **state)
{
	uint64_t method, busy, region;
	struct e2e e;
	start(&e, NULL);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	for (int i = 0; i < 4; i++) { /* two a worker */
		e2e_raw_bind(raw, i % 2 ? "forever" : "long", &method, &busy, &region, NULL);
		struct inf_request request = infer(busy, 0);
		e2e_raw_send(raw, &request, -1);
	}
	e2e_until_jobs(&e, 2, 2);
	check_works(&e);
	check_works(&e);
	e2e_until_jobs(&e, 2, 2);
	e2e_raw_free(raw);
	e2e_until_jobs(&e, 0, 0);
	stop(&e);
}

/* The Method of a request that runs is not reset under it, also when its binding was given back meanwhile. */
static void test_reset_after_unbind(void **state)
{
	uint64_t method, binding, region;
	struct e2e e;
	start(&e, NULL);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	e2e_raw_bind(raw, "long", &method, &binding, &region, NULL);
	struct inf_request request = infer(binding, 0);
	e2e_raw_send(raw, &request, -1);
	e2e_until_jobs(&e, 1, 0);
	struct inf_request unbind = { .kind = INF_REQUEST_UNBIND, .unbind = { binding } };
	uint64_t id = raw->last_id;
	e2e_raw_send(raw, &unbind, -1);
	struct inf_request reset = { .kind = INF_REQUEST_METHOD_RESET, .method_reset = { method } };
	e2e_raw_send(raw, &reset, -1);
	struct inf_reply reply;
	for (int i = 0; i < 3; i++) {
		assert_true(e2e_raw_receive(raw, &reply));
		assert_true(reply.id == id       ? reply.status == INF_CANCELLED
			    : reply.id == id + 1 ? reply.status == INF_OK
						 : reply.status == INF_BUSY || reply.status == INF_OK);
	}
	e2e_until_jobs(&e, 0, 0);
	assert_int_equal(e2e_raw_call(raw, reset).status, INF_OK);
	e2e_raw_free(raw);
	stop(&e);
}

/* Infer again on a binding whose last request was answered at its deadline: BUSY until the worker has left the run. */
static enum inf_status infer_again(struct e2e_raw *raw, uint64_t binding)
{
	enum inf_status status;
	do
		status = e2e_raw_call(raw, infer(binding, 20000)).status;
	while (status == INF_BUSY);
	return status;
}

static void test_deadline_while_running(void **state)
{
	uint64_t method, binding, region;
	struct e2e e;
	start(&e, NULL);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	e2e_raw_bind(raw, "forever", &method, &binding, &region, NULL);
	assert_int_equal(e2e_raw_call(raw, infer(binding, 20000)).status, INF_MISSED_DEADLINE);
	assert_int_equal(infer_again(raw, binding), INF_MISSED_DEADLINE);
	e2e_raw_free(raw);
	stop(&e);
}

/* y = x + x, beside a state of 256 KiB that begins with a thousand initial values in one place. */
static uint8_t *make_overlapping(size_t *ret_n_bytes)
{
	enum { N = 64 * 1024, N_VALUES = 1000 };
	static const float initial[N];
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, sizeof initial + 64), value = mk_initial(&mk, initial, sizeof initial);
	for (int i = 0; i < N_VALUES; i++)
		mk_tensor(&mk,
			&(struct mk_tensor){ MK_FP32, MK_SIZES(N), .arena = arena, .offset = 64, .constant = value });
	int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena });
	int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = 16 });
	mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(x, x, mk_int(&mk, 1), y, y));
	mk_input(&mk, x);
	mk_output(&mk, y);
	return mk_finish(&mk, ret_n_bytes);
}

/* What takes long is the copying, not the state's size: it is reset beside the loop, which meanwhile says that it
 * is. */
static void test_reset_that_takes_long(void **state)
{
	struct e2e e;
	uint64_t method, binding, region;
	float *floats;
	bool was_busy = false;
	e2e_init(&e);
	e2e_put_program(&e, "overlapping.pte", make_overlapping);
	e2e_start(&e, NULL);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	e2e_raw_bind(raw, "overlapping", &method, &binding, &region, &floats);
	struct inf_request reset = { .kind = INF_REQUEST_METHOD_RESET, .method_reset = { method } };
	struct inf_request request = infer(binding, 0);
	for (int i = 0; i < 100 && !was_busy; i++) {
		struct inf_reply reply;
		e2e_raw_send(raw, &reset, -1);
		e2e_raw_send(raw, &request, -1);
		for (int k = 0; k < 2; k++) {
			assert_true(e2e_raw_receive(raw, &reply));
			was_busy |= reply.id == request.id && reply.status == INF_BUSY;
			assert_true(reply.status == INF_OK || was_busy);
		}
	}
	assert_true(was_busy);
	assert_int_equal(e2e_raw_call(raw, request).status, INF_OK);
	e2e_raw_free(raw);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* A stateful Method that was cut short keeps its old state or says that it is lost, until it is reset. */
static void test_state_after_cut(void **state)
{
	uint64_t method, binding, region;
	struct e2e e;
	start(&e, NULL);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	e2e_raw_bind(raw, "long", &method, &binding, &region, NULL);
	assert_int_equal(e2e_raw_call(raw, infer(binding, 20000)).status, INF_MISSED_DEADLINE);
	enum inf_status status = infer_again(raw, binding);
	assert_true(status == INF_STATE_LOST || status == INF_MISSED_DEADLINE);
	struct inf_request reset = { .kind = INF_REQUEST_METHOD_RESET, .method_reset = { method } };
	while ((status = e2e_raw_call(raw, reset).status) == INF_BUSY)
		; /* as above */
	assert_int_equal(status, INF_OK);
	assert_int_equal(e2e_raw_call(raw, infer(binding, 20000)).status, INF_MISSED_DEADLINE);
	e2e_raw_free(raw);
	stop(&e);
}

/* A process that dies with a request running, one waiting and memory of every kind. */
static void test_killed_client(void **state)
{
	uint64_t method, binding, region;
	int told[2];
	struct e2e e;
	start(&e, NULL);
	for (int round = 0; round < 5; round++) {
		assert_int_equal(pipe(told), 0);
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct e2e_raw *raw = e2e_raw_new(e.socket, false);
			for (int i = 0; i < 4; i++) {
				e2e_raw_bind(raw, i % 2 ? "forever" : "long", &method, &binding, &region, NULL);
				struct inf_request request = infer(binding, 0);
				e2e_raw_send(raw, &request, -1);
			}
			_exit(write(told[1], "x", 1) != 1 || pause() == 0);
		}
		char byte;
		assert_int_equal(read(told[0], &byte, 1), 1);
		e2e_until_jobs(&e, 2, 2);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		close(told[0]);
		close(told[1]);
		e2e_until_jobs(&e, 0, 0);
		e2e_until_clients(&e, 0);
	}
	stop(&e);
}

/* Killed under load, wherever it is at that moment; a bystander goes on with right answers. */
static void test_killed_anywhere(void **state)
{
	enum { ROUNDS = 25, N_BINDINGS = 6 };
	struct e2e e;
	int rc, status;
	start(&e, NULL);
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *mine = e2e_bind(d, "double", NULL);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t n = e2e_requests(&e);
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct inferd *other = e2e_connect(&e);
			struct inferd_method *m = NULL;
			struct inferd_binding *b[N_BINDINGS] = { e2e_bind(other, "double", &m) };
			for (int i = 1; i < N_BINDINGS; i++)
				if (inferd_bind(m, &b[i]) < 0)
					_exit(3);
			e2e_ask_forever(other, b, N_BINDINGS);
		}
		e2e_until_requests(&e, n + 10 + (uint64_t)(round * 37 % 200));
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status)); /* it had right answers until then */
		assert_true(e2e_infer(mine, (float)round, &rc) == 2 * (float)round && rc == 0);
		e2e_until_clients(&e, 1);
		e2e_until_jobs(&e, 0, 0);
	}
	inferd_close(d);
	stop(&e);
}

static void test_unload_while_running(void **state)
{
	uint64_t method, binding, region;
	struct inf_reply reply;
	struct e2e e;
	start(&e, NULL);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false), *manager = e2e_raw_new(e.manager, false);
	e2e_raw_bind(raw, "forever", &method, &binding, &region, NULL);
	struct inf_request request = infer(binding, 0);
	e2e_raw_send(raw, &request, -1);
	uint64_t id = raw->last_id;
	e2e_until_jobs(&e, 1, 0);
	struct inf_request unload = { .kind = INF_REQUEST_REPOSITORY_MODEL_UNLOAD,
		.repository_model_unload = { "", "forever" } };
	e2e_raw_send(manager, &unload, -1);
	/* while it waits for the request, nobody new gets in */
	struct inf_request index = { .kind = INF_REQUEST_REPOSITORY_INDEX, .repository_index = { "", false } };
	struct inf_request open = { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "forever", "", "", "", false } };
	do {
		reply = e2e_raw_call(e.watcher, index);
	} while (strcmp(reply.repository_index.models[1].state, "UNLOADING"));
	assert_int_equal(e2e_raw_call(e.watcher, open).status, INF_UNAVAILABLE);
	struct pollfd p = { .fd = inf_channel_fd(&manager->channel), .events = POLLIN };
	assert_int_equal(poll(&p, 1, 0), 0);
	struct inf_request cancel = { .kind = INF_REQUEST_CANCEL, .cancel = { id } };
	enum inf_status first, other;
	e2e_raw_send(raw, &cancel, -1);
	receive_two(raw, id, &first, &other);
	assert_int_equal(first, INF_CANCELLED);
	assert_true(e2e_raw_receive(manager, &reply));
	assert_int_equal(reply.status, INF_OK);
	reply = e2e_raw_call(raw, infer(binding, 0));
	assert_int_equal(reply.status, INF_UNAVAILABLE);
	assert_non_null(strstr(reply.error, "unloaded"));
	assert_int_equal(e2e_unload(&e, "forever"), INF_NOT_FOUND);
	assert_int_equal(e2e_load(&e, "forever"), INF_OK);
	e2e_raw_free(raw);
	e2e_raw_free(manager);
	stop(&e);
}

/* 4 EiB of activations for a run, which is never begun. */
static uint8_t *make_vast(size_t *ret_n_bytes)
{
	enum { SIDE = 1 << 30 };
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, (UINT64_C(1) << 62) + 64);
	int vast = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(SIDE, SIDE), .arena = arena });
	int x = mk_tensor(&mk,
		&(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = UINT64_C(1) << 62 });
	int side = mk_int(&mk, SIDE), one = mk_int(&mk, 1);
	mk_kernel(&mk, mk_operator(&mk, "aten::full", "out"),
		MK_ARGS(mk_slots(&mk, ET_TAG_INT_LIST, MK_ARGS(side, side)), one, vast, vast));
	mk_input(&mk, x);
	mk_output(&mk, x);
	return mk_finish(&mk, ret_n_bytes);
}

/* A model whose runs no machine has the memory for is refused before there is one, whether or not there is a budget. */
static void test_vast(void **state)
{
	static const char *const configs[] = { NULL, "memory_budget = 1G\n" };
	struct inferd_method *m;
	struct e2e e;
	for (size_t i = 0; i < ET_ARRAY_LEN(configs); i++) {
		e2e_init(&e);
		e2e_put_program(&e, "one.pte", make_vast);
		e2e_start(&e, configs[i]);
		struct inferd *d = e2e_connect(&e);
		assert_true(inferd_method_open(d, &m, "one", NULL) < 0);
		if (!strstr(inferd_error(d), "runs 4398046511104 MiB") || !strstr(inferd_error(d), " free"))
			fail_msg("%s", inferd_error(d));
		inferd_close(d);
		e2e_check_clean(&e);
		e2e_deinit(&e);
	}
}

/* Two models do not fit the budget together: the unused one goes, the used one stays and is named. */
static void test_memory_budget(void **state)
{
	struct inferd_method *m = NULL, *other = NULL;
	char config[64];
	struct e2e e;
	start(&e, NULL);
	assert_int_equal(e2e_load(&e, "double"), INF_OK);
	unsigned long long budget = e2e_memory_of(&e, "double") * 3 / 2;
	assert_true(budget > 0);
	e2e_stop(&e);
	snprintf(config, sizeof(config), "memory_budget = %llu\n", budget);
	e2e_start(&e, config);
	assert_int_equal(e2e_load(&e, "double"), INF_OK);
	e2e_put_program(&e, "large.pte", e2e_program_large);
	assert_int_equal(e2e_load(&e, "large"), INF_RESOURCE_EXHAUSTED);
	assert_true(e2e_memory_of(&e, "double") > 0); /* it would not have helped */
	assert_int_equal(e2e_load(&e, "forever"), INF_OK);
	assert_true(e2e_memory_of(&e, "double") == 0 && e2e_memory_of(&e, "forever") > 0);
	struct inferd *d = e2e_connect(&e);
	assert_int_equal(inferd_method_open(d, &m, "double", NULL), 0);
	assert_true(e2e_memory_of(&e, "double") > 0 && e2e_memory_of(&e, "forever") == 0);
	assert_int_equal(inferd_method_open(d, &other, "forever", NULL), -INFERD_RESOURCE_EXHAUSTED);
	if (!strstr(inferd_error(d), "memory budget") || !strstr(inferd_error(d), "'double'"))
		fail_msg("%s", inferd_error(d));
	inferd_method_close(m);
	assert_int_equal(inferd_method_open(d, &other, "forever", NULL), 0); /* it was not for ever */
	inferd_close(d);
	stop(&e);
}

/* A file of 1 TiB that takes no room on its disk is refused before anything is written, with its size and why: its
 * header says how short the program is; where none does, the budget, or what is free. Other models load. The daemon
 * may not write a file that large, whatever it does. */
static void test_vast_file(void **state)
{
	const struct inf_request vast = { .kind = INF_REQUEST_METHOD_OPEN,
		.method_open = { "vast", "", "", "", false } };
	const struct rlimit small = { 64 << 20, 64 << 20 };
	uint64_t method, binding, region;
	char path[160];
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_put_program(&e, "vast.pte", e2e_program_double);
	snprintf(path, sizeof path, "%s/vast.pte", e.models);
	if (truncate(path, (off_t)1 << 40) < 0) {
		print_message("SKIPPED: no file of 1 TiB here: %s\n", strerror(errno));
		e2e_deinit(&e);
		skip();
	}
	static const char *const whys[] = { "ends after 1 MiB", "of memory are free", "64 MiB that the memory budget" };
	for (int i = 0; i < 3; i++) {
		int fd = open(path, O_WRONLY | O_CLOEXEC);
		assert_int_equal(pwrite(fd, i ? "    " : "eh00", 4, 8), 4); /* the extended header's magic */
		close(fd);
		e2e_start(&e, i == 2 ? "memory_budget = 64M\n" : NULL);
		assert_int_equal(prlimit(e.pid, RLIMIT_FSIZE, &small, NULL), 0);
		struct e2e_raw *raw = e2e_raw_new(e.socket, false);
		struct inf_reply reply = e2e_raw_call(raw, vast);
		if (reply.status != (i ? INF_RESOURCE_EXHAUSTED : INF_FAILED_PRECONDITION) ||
			!strstr(reply.error, "1048576 MiB") || !strstr(reply.error, whys[i]))
			fail_msg("%d: %s", reply.status, reply.error);
		e2e_raw_bind(raw, "double", &method, &binding, &region, NULL);
		assert_int_equal(e2e_raw_call(raw, infer(binding, 0)).status, INF_OK);
		e2e_raw_free(raw);
		e2e_check_clean(&e);
		e2e_stop(&e);
	}
	e2e_deinit(&e);
}

/* What the kernel has given the daemon that lies in no file. */
static uint64_t anonymous_bytes(pid_t pid)
{
	char path[64], line[256];
	unsigned long long n_kb, total_kb = 0;
	snprintf(path, sizeof path, "/proc/%d/smaps", (int)pid);
	FILE *smaps = fopen(path, "re");
	assert_non_null(smaps);
	while (fgets(line, sizeof line, smaps))
		if (sscanf(line, "Anonymous: %llu", &n_kb) == 1)
			total_kb += n_kb;
	fclose(smaps);
	return total_kb << 10;
}

struct counted {
	uint64_t n_used, n_file, n_instances;
};

static bool note_counted(const struct inf_server_status *status, const void *arg)
{
	struct counted *counted = (struct counted *)arg;
	counted->n_used = status->memory_used;
	if (status->n_programs) {
		counted->n_file = status->programs[0].file_bytes;
		counted->n_instances = status->programs[0].instance_bytes;
	}
	return true;
}

static bool uses_nothing(const struct inf_server_status *status, const void *arg)
{
	return status->memory_used == 0;
}

static void run_once(struct e2e *e, const char *model)
{
	int rc;
	struct inferd *d = e2e_connect(e);
	e2e_infer(e2e_bind(d, model, NULL), 1, &rc);
	assert_int_equal(rc, 0);
	inferd_close(d);
}

/* What the budget counts is what the kernel says; where all but the instances fit, these are in the way, are named, and
 * go again. */
static void test_memory_is_counted(void **state)
{
	enum { SLACK = 1536 << 10 };
	struct counted counted = { 0 };
	struct inferd_method *m;
	char config[96];
	struct e2e e;
	e2e_init(&e);
	assert_true(e2e_put_file(&e, "net.pte", TEST_MODELS "/efficientnet_lite0_int8.pte"));
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, "workers = 1\n");
	run_once(&e, "double"); /* threads have their stacks, and all that is made once is made */
	assert_int_equal(e2e_unload(&e, "double"), INF_OK);
	e2e_until(&e, uses_nothing, NULL);
	uint64_t before = anonymous_bytes(e.pid);
	run_once(&e, "net");
	uint64_t grown = anonymous_bytes(e.pid) - before;
	e2e_until(&e, note_counted, &counted);
	uint64_t n = counted.n_used - counted.n_file; /* which lies in a file */
	print_message("%llu bytes counted besides the file, %llu bytes grown, %llu of instances\n",
		(unsigned long long)n, (unsigned long long)grown, (unsigned long long)counted.n_instances);
	assert_true(counted.n_instances > 0);
#ifndef INF_SANITIZED /* whose allocator keeps more */
	assert_true(n <= grown + grown / 5 + SLACK && grown <= n + n / 5 + SLACK);
#endif
	assert_int_equal(e2e_unload(&e, "net"), INF_OK);
	e2e_until(&e, uses_nothing, NULL);
	e2e_stop(&e);

	snprintf(config, sizeof config, "workers = 1\nmemory_budget = %llu\n",
		(unsigned long long)(counted.n_used - counted.n_instances / 2));
	e2e_start(&e, config);
	struct inferd *d = e2e_connect(&e);
	assert_int_equal(inferd_method_open(d, &m, "net", NULL), -INFERD_RESOURCE_EXHAUSTED);
	if (!strstr(inferd_error(d), "instances ") || !strstr(inferd_error(d), "of the memory budget of"))
		fail_msg("%s", inferd_error(d));
	inferd_close(d);
	e2e_until(&e, uses_nothing, NULL);
	e2e_deinit(&e);
}

static bool has_no_program(const struct inf_server_status *status, const void *arg)
{
	return status->n_programs == 0;
}

/* Unused models go after their keep-alive, pinned ones never do and are there from the start. */
static void test_keep_alive(void **state)
{
	struct e2e e;
	start(&e, "keep_alive = 1ms\n");
	check_works(&e);
	e2e_until(&e, has_no_program, NULL);
	e2e_stop(&e);
	e2e_start(&e, "keep_alive = 1ms\n[model double]\npin = yes\n");
	while (!e2e_memory_of(&e, "double"))
		;
	assert_int_equal(e2e_load(&e, "forever"), INF_OK);
	while (e2e_memory_of(&e, "forever"))
		;
	assert_true(e2e_memory_of(&e, "double") > 0);
	e2e_deinit(&e);
}

/* SIGTERM: what waits is told so, what runs may end, and then it is over. */
static void test_ending(void **state)
{
	uint64_t method, binding[3], region, ids[3];
	enum inf_status first, other;
	struct inf_reply reply;
	struct e2e e;
	start(&e, NULL);
	struct e2e_raw *raw = e2e_raw_new(e.socket, false);
	for (int i = 0; i < 3; i++) {
		e2e_raw_bind(raw, "forever", &method, &binding[i], &region, NULL);
		struct inf_request request = infer(binding[i], 0);
		e2e_raw_send(raw, &request, -1);
		ids[i] = raw->last_id;
		e2e_until_jobs(&e, i < 2 ? (uint32_t)i + 1 : 2, i < 2 ? 0 : 1);
	}
	assert_int_equal(kill(e.pid, SIGTERM), 0);
	assert_true(e2e_raw_receive(raw, &reply));
	assert_int_equal(reply.id, ids[2]);
	assert_int_equal(reply.status, INF_UNAVAILABLE);
	assert_int_equal(e2e_raw_call(raw, infer(binding[2], 0)).status, INF_UNAVAILABLE);
	for (int i = 0; i < 2; i++) {
		struct inf_request cancel = { .kind = INF_REQUEST_CANCEL, .cancel = { ids[i] } };
		e2e_raw_send(raw, &cancel, -1);
		receive_two(raw, ids[i], &first, &other);
		assert_int_equal(first, INF_CANCELLED);
		assert_int_equal(other, INF_OK);
	}
	e2e_raw_expect_end(raw);
	e2e_raw_free(raw);
	assert_int_equal(e2e_wait(&e), 0);

	/* and it comes back as if nothing had been */
	e2e_start(&e, NULL);
	stop(&e);
}

/* Killed outright: the next one takes the place of the socket it left. */
static void test_restart(void **state)
{
	struct e2e e;
	int rc;
	start(&e, NULL);
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "double", NULL);
	assert_int_equal(kill(e.pid, SIGKILL), 0);
	assert_int_equal(e2e_wait(&e), 128 + SIGKILL);
	e2e_infer(b, 1, &rc);
	assert_int_equal(rc, -INFERD_DISCONNECTED);
	inferd_close(d);
	e2e_start(&e, NULL);
	stop(&e);
}

/* Reading the configuration again: new limits hold at once. */
static bool is_small(struct e2e *e)
{
	struct e2e_raw *raw = e2e_raw_new(e->socket, false);
	struct inf_request create = { .kind = INF_REQUEST_REGION_CREATE, .region_create = { 1 << 20 } };
	enum inf_status status = e2e_raw_call(raw, create).status;
	e2e_raw_free(raw);
	return status == INF_RESOURCE_EXHAUSTED;
}

static void test_reload(void **state)
{
	char path[160];
	struct e2e e;
	start(&e, NULL);
	assert_false(is_small(&e));
	snprintf(path, sizeof(path), "%s/inferd.conf", e.dir);
	FILE *file = fopen(path, "ae");
	assert_non_null(file);
	fputs("\n[limits]\nbytes = 100K\n", file);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(kill(e.pid, SIGHUP), 0);
	uint64_t end_ns = et_platform_now_ns(NULL) + UINT64_C(30000000000);
	while (!is_small(&e))
		assert_true(et_platform_now_ns(NULL) < end_ns);
	stop(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_busy_and_cancel),
		cmocka_unit_test(test_waiting),
		cmocka_unit_test(test_endless_neighbour),
		cmocka_unit_test(test_reset_after_unbind),
		cmocka_unit_test(test_reset_that_takes_long),
		cmocka_unit_test(test_deadline_while_running),
		cmocka_unit_test(test_state_after_cut),
		cmocka_unit_test(test_killed_client),
		cmocka_unit_test(test_killed_anywhere),
		cmocka_unit_test(test_unload_while_running),
		cmocka_unit_test(test_vast),
		cmocka_unit_test(test_memory_budget),
		cmocka_unit_test(test_vast_file),
		cmocka_unit_test(test_memory_is_counted),
		cmocka_unit_test(test_keep_alive),
		cmocka_unit_test(test_ending),
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_reload),
	};
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
