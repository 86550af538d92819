/* SPDX-License-Identifier: BSD-3-Clause */
/* Several queues: two plug-ins act as a GPU and an NPU, each with its own queue beside the CPU's. Queues do not wait
 * for each other; a request can pass through all of them; and it ends exactly once, in whatever way. */
#include "tests/e2e/harness.h"
#include "tests/e2e/player.h"
#include "runtime/base/checked.h"
#include "tests/support/make_program.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(struct e2e *e, const char *name, struct make_program *mk)
{
	char file[64];
	size_t n_bytes;
	uint8_t *bytes = mk_finish(mk, &n_bytes);
	snprintf(file, sizeof file, "%s.pte", name);
	e2e_put(e, file, bytes, n_bytes);
	free(bytes);
}

static int tensor(struct make_program *mk, uint32_t arena, uint32_t at)
{
	return mk_tensor(mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = arena, .offset = 16 * at });
}

static void call(struct make_program *mk, const char *backend, const char *word, int x, int y)
{
	mk_call(mk, mk_delegate(mk, backend, word, strlen(word), false, NULL, NULL), MK_ARGS(x, y));
}

/* y = what @word does on one device. */
static void put_word(struct e2e *e, const char *name, const char *backend, const char *word)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 64);
	int x = tensor(&mk, arena, 0), y = tensor(&mk, arena, 1);
	call(&mk, backend, word, x, y);
	mk_input(&mk, x);
	mk_output(&mk, y);
	put(e, name, &mk);
}

/* y = 32 x, doubled on the CPU, the GPU, the NPU, the GPU and the CPU again. */
static void put_tour(struct e2e *e)
{
	struct make_program mk;
	mk_init(&mk);
	mk_method(&mk, "forward");
	uint32_t arena = mk_arena(&mk, 128);
	int v[6], one = mk_int(&mk, 1), add = mk_operator(&mk, "aten::add", "out");
	for (uint32_t i = 0; i < 6; i++)
		v[i] = tensor(&mk, arena, i);
	mk_kernel(&mk, add, MK_ARGS(v[0], v[0], one, v[1], v[1]));
	call(&mk, "TestGpuBackend", "scale", v[1], v[2]);
	call(&mk, "TestBackend", "scale", v[2], v[3]);
	call(&mk, "TestGpuBackend", "scale", v[3], v[4]);
	mk_kernel(&mk, add, MK_ARGS(v[4], v[4], one, v[5], v[5]));
	mk_input(&mk, v[0]);
	mk_output(&mk, v[5]);
	put(e, "tour", &mk);
}

static void start(struct e2e *e, const char *server, const char *more)
{
	static char config[2048];
	put_tour(e);
	put_word(e, "gpu-wait", "TestGpuBackend", "wait");
	put_word(e, "npu-wait", "TestBackend", "wait");
	put_word(e, "npu-state", "TestBackend", "state");
	e2e_put_program(e, "double.pte", e2e_program_double);
	e2e_put_program(e, "sum.pte", e2e_program_accumulate);
	e2e_put_program(e, "forever.pte", e2e_program_forever);
	snprintf(config, sizeof config,
		"%s[backend npu-test]\npath = %s/async.so\nhost = %s\n"
		"[backend gpu-test]\npath = %s/gpu.so\nhost = %s\n%s",
		server, PLUGINS, HOST, PLUGINS, HOST, more);
	e2e_start(e, config);
}

struct running {
	uint32_t cpu, gpu, npu;
};

static bool are_running(const struct inf_server_status *status, const void *arg)
{
	const struct running *wanted = arg;
	struct running found = { 0 };
	for (size_t i = 0; i < status->n_queues; i++) {
		const struct inf_queue_status *q = &status->queues[i];
		if (strcmp(q->name, "cpu") == 0)
			found.cpu = q->running;
		else if (strcmp(q->name, "gpu0") == 0)
			found.gpu = q->running;
		else if (strcmp(q->name, "npu0") == 0)
			found.npu = q->running;
		if (!wanted->cpu && !wanted->gpu && !wanted->npu && q->waiting)
			return false;
	}
	return found.cpu == wanted->cpu && found.gpu == wanted->gpu && found.npu == wanted->npu;
}

static void note(struct inferd_binding *b, int status, void *userdata)
{
	*(int *)userdata = status;
}

/* All three work at the same time, for three clients, while a fourth passes through all of them. */
static void test_overlap(void **state)
{
	static const char *const names[] = { "forever", "gpu-wait", "npu-wait" };
	struct inferd *d[3];
	struct inferd_binding *b[3];
	int status[3], rc;
	struct e2e e;
	e2e_init(&e);
	start(&e, "", "");
	struct inferd *other = e2e_connect(&e);
	struct inferd_binding *tour = e2e_bind(other, "tour", NULL);
	for (int i = 0; i < 3; i++) {
		d[i] = e2e_connect(&e);
		b[i] = e2e_bind(d[i], names[i], NULL);
	}
	for (int i = 0; i < 3; i++) {
		status[i] = 1;
		assert_int_equal(inferd_infer_async(b[i], NULL, note, &status[i]), 0);
	}
	e2e_until(&e, are_running, &(struct running){ 1, 1, 1 });
	for (int i = 0; i < 20; i++)
		assert_true(e2e_infer(tour, (float)i, &rc) == 32 * (float)i && rc == 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(inferd_cancel(b[i]), 0);
		while (status[i] == 1)
			assert_true(inferd_wait(d[i], 30000) >= 0);
		assert_int_equal(status[i], -INFERD_CANCELLED);
		inferd_close(d[i]);
	}
	inferd_close(other);
	e2e_until(&e, are_running, &(struct running){ 0, 0, 0 });
	e2e_deinit(&e);
}

static const char *const models[] = { "double", "sum", "tour", "npu-state", "forever", "gpu-wait", "npu-wait" };
static const struct player_rules rules = {
	.models = models, .n_models = ET_ARRAY_LEN(models), .n_endless = 2, .n_timed = 1
};

enum { N_PLAYERS = 4 };
static const char any_priority[] = "[limits]\npriority = realtime\n";

/* Each request is answered exactly once, wherever it is when it ends: on a queue, with a device, or between two. */
static void play(bool are_unloaded)
{
	struct player_rules own = rules;
	struct player *players[N_PLAYERS];
	struct e2e e;
	uint64_t n_steps = player_number("E2E_STEPS", 3000);
	player_seed(player_number("E2E_SEED", 7));
	own.are_unloaded = are_unloaded;
	e2e_init(&e);
	start(&e, "", any_priority);
	for (uint32_t i = 0; i < rules.n_models; i++)
		assert_int_equal(e2e_load(&e, models[i]), INF_OK);
	for (int i = 0; i < N_PLAYERS; i++)
		players[i] = player_new(&e, &own);
	for (uint64_t step = 0; step < n_steps; step++) {
		player_step(players[player_below(N_PLAYERS)]);
		if (are_unloaded && player_below(100) == 0) {
			/* it ends when what runs of it has, and some of that only when it is cancelled */
			uint32_t model = player_below(rules.n_models - rules.n_endless);
			struct inf_request unload = { .kind = INF_REQUEST_REPOSITORY_MODEL_UNLOAD,
				.repository_model_unload = { "", models[model] } };
			for (int i = 0; i < N_PLAYERS; i++)
				player_drain(players[i]);
			for (int i = 0; i < N_PLAYERS; i++)
				player_step(players[i]);
			enum inf_status status = e2e_raw_call(e.watcher, unload).status;
			assert_true(status == INF_OK || status == INF_NOT_FOUND);
		}
	}
	for (int i = 0; i < N_PLAYERS; i++)
		player_drain(players[i]);
	e2e_until(&e, are_running, &(struct running){ 0, 0, 0 });
	for (int i = 0; i < N_PLAYERS; i++)
		player_free(players[i]);
	e2e_until_clients(&e, 0);
	e2e_deinit(&e);
}

static void test_every_end(void **state)
{
	play(false);
}

static void test_unloaded(void **state)
{
	play(true);
}

/* The daemon ends while requests are everywhere: each that is answered is answered once, and it ends well. */
static void test_drain(void **state)
{
	struct player *players[N_PLAYERS];
	struct player_rules own = rules;
	own.are_unloaded = true; /* which is what its end looks like */
	for (uint64_t round = 0; round < 5; round++) {
		struct e2e e;
		player_seed(player_number("E2E_SEED", 11) + round);
		e2e_init(&e);
		start(&e, "drain = 100ms\n", any_priority);
		for (int i = 0; i < N_PLAYERS; i++)
			players[i] = player_new(&e, &own);
		for (uint32_t step = player_below(60); step < 100; step++)
			player_step(players[player_below(N_PLAYERS)]);
		assert_int_equal(kill(e.pid, SIGTERM), 0);
		for (int i = 0; i < N_PLAYERS; i++)
			player_outlive(players[i]);
		assert_int_equal(e2e_wait(&e), 0);
		for (int i = 0; i < N_PLAYERS; i++)
			player_free(players[i]);
		e2e_deinit(&e);
	}
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_every_end),
		cmocka_unit_test(test_unloaded),
		cmocka_unit_test(test_drain),
	};
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
