/* SPDX-License-Identifier: BSD-3-Clause */
/* Many clients at once: parallel streams, clients killed under load, and requests that end in every possible way.
 *
 * Random choices come from a fixed seed, so that a failure can be repeated; E2E_SEED and E2E_STEPS change it. */
#include "tests/e2e/harness.h"
#include "tests/e2e/player.h"

#include "runtime/base/checked.h"
#include "runtime/program/bundle.h"
#include "runtime/platform/platform.h"
#include "tests/support/make_program.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- streams -------------------------------------------------------------------------------------- */

enum { N_STREAMS = 16 };

/* The outputs of one step: within rounding what the original computed for it, and to the bit what the stream before had
 * there, whatever ran beside it; @first is where the first one leaves them. */
static void check_case(struct inferd_binding *b, int stream, uint32_t step, const struct et_bundle_case *test,
	uint8_t **first)
{
	size_t n = 0;
	for (uint32_t i = 0; i < test->n_outputs; i++)
		n += test->outputs[i].tag == ET_TAG_TENSOR ? test->outputs[i].tensor.n_bytes : 0;
	bool is_first = !*first;
	if (is_first)
		*first = malloc(n + 1);
	assert_non_null(*first);
	for (uint32_t i = 0, at = 0; i < test->n_outputs; i++) {
		const struct et_bundle_value *wanted = &test->outputs[i];
		if (wanted->tag != ET_TAG_TENSOR)
			continue;
		const float *got = inferd_output(b, i);
		if (is_first)
			memcpy(*first + at, got, wanted->tensor.n_bytes);
		else if (memcmp(*first + at, got, wanted->tensor.n_bytes) != 0)
			fail_msg("stream %d step %u output %u is not what stream 0 had", stream, step, i);
		at += (uint32_t)wanted->tensor.n_bytes;
		for (size_t k = 0; wanted->tensor.type == ET_FLOAT32 && k < wanted->tensor.n_bytes / sizeof(float);
			k++) {
			float value;
			memcpy(&value, wanted->tensor.data + k * sizeof(value), sizeof(value));
			if (!(fabsf(got[k] - value) <= 1e-3f + 1e-3f * fabsf(value)))
				fail_msg("stream %d step %u output %u[%zu]: %g, expected %g", stream, step, i, k,
					(double)got[k], (double)value);
		}
	}
}

static void count_done(struct inferd_binding *b, int status, void *userdata)
{
	assert_int_equal(status, 0);
	++*(int *)userdata;
}

/* Sixteen clients, each some steps behind the one before, all in flight together. */
static void run_streams(const char *path)
{
	struct inferd *d[N_STREAMS];
	struct inferd_binding *b[N_STREAMS];
	struct et_bundle bundle;
	struct et_diag diag = { "" };
	struct et_pool pool;
	size_t n_bytes;
	struct e2e e;
	uint8_t *bytes = e2e_read(path, &n_bytes);
	if (!bytes) {
		print_message("SKIPPED: %s is not there\n", path);
		skip();
	}
	et_pool_init(&pool, et_platform_allocator());
	if (et_bundle_open(&bundle, bytes, n_bytes, &pool, &diag) != ET_OK)
		fail_msg("%s: %s", path, diag.text);
	const struct et_bundle_suite *suite = &bundle.suites[0];
	assert_true(suite->n_cases > 16);
	uint8_t **first = calloc(suite->n_cases, sizeof(*first));
	assert_non_null(first);
	e2e_init(&e);
	e2e_put(&e, "m.pte", bundle.program, bundle.n_program_bytes);
	e2e_start(&e, NULL);
	for (int i = 0; i < N_STREAMS; i++) {
		d[i] = e2e_connect(&e);
		b[i] = e2e_bind(d[i], "m", NULL);
	}
	const uint32_t lag = 2;
	for (uint32_t at = 0; at < suite->n_cases + lag * (N_STREAMS - 1); at++) {
		int n_done[N_STREAMS] = { 0 };
		bool is_running[N_STREAMS] = { false };
		for (uint32_t i = 0; i < N_STREAMS; i++) {
			if (at < lag * i || at - lag * i >= suite->n_cases)
				continue;
			const struct et_bundle_case *test = &suite->cases[at - lag * i];
			for (uint32_t k = 0; k < test->n_inputs; k++) {
				const struct et_bundle_value *in = &test->inputs[k];
				if (in->tag == ET_TAG_TENSOR)
					memcpy(inferd_input(b[i], k), in->tensor.data, in->tensor.n_bytes);
				else
					assert_int_equal(inferd_set_scalar_int(b[i], k, in->i), 0);
			}
			assert_int_equal(inferd_infer_async(b[i], NULL, count_done, &n_done[i]), 0);
			is_running[i] = true;
		}
		for (uint32_t i = 0; i < N_STREAMS; i++) {
			while (is_running[i] && !n_done[i])
				assert_true(inferd_wait(d[i], 30000) >= 0);
			if (is_running[i])
				check_case(b[i], (int)i, at - lag * i, &suite->cases[at - lag * i],
					&first[at - lag * i]);
		}
	}
	for (int i = 0; i < N_STREAMS; i++)
		inferd_close(d[i]);
	e2e_check_clean(&e);
	e2e_deinit(&e);
	for (uint32_t i = 0; i < suite->n_cases; i++)
		free(first[i]);
	free(first);
	et_pool_deinit(&pool);
	free(bytes);
}

static void test_silero(void **state)
{
	run_streams(SHARED_MODELS "/silero_vad/xnnpack.bpte");
}

static void test_llama(void **state)
{
	run_streams(SHARED_MODELS "/programs/llama_tiny_portable.bpte");
}

static void test_llama_delegated(void **state)
{
	run_streams(SHARED_MODELS "/programs/llama_tiny_xnnpack.bpte");
}

/* --- clients killed under load -------------------------------------------------------------------- */

enum { N_CHILDREN = 6, N_KILLS = 100, N_BINDINGS = 4 };

static pid_t spawn(struct e2e *e)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct inferd *d = e2e_connect(e);
	struct inferd_method *m = NULL;
	struct inferd_binding *b[N_BINDINGS] = { e2e_bind(d, "double", &m) };
	for (int i = 1; i < N_BINDINGS; i++)
		if (inferd_bind(m, &b[i]) < 0)
			_exit(3);
	e2e_ask_forever(d, b, N_BINDINGS);
}

static bool has_not_pid(const struct inf_server_status *status, const void *arg)
{
	for (size_t i = 0; i < status->n_clients; i++)
		if (status->clients[i].pid == *(const uint32_t *)arg)
			return false;
	return true;
}

/* Mappings of memory files: clients' regions, and copies of models. */
static int count_memory_files(pid_t pid)
{
	char path[64], line[512];
	int n = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		n += strstr(line, "memfd:") != NULL;
	fclose(file);
	return n;
}

/* The daemon's threads. Those for foreign work are as many as had some at one time (daemon/base/helper.h): the rest
 * never changes. */
struct threads {
	pid_t pid;
	int n_foreign, n_others;
};

static struct threads count_threads(pid_t pid)
{
	struct threads threads = { .pid = pid };
	char path[96], name[32];
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	DIR *dir = opendir(path);
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/comm", (int)pid, entry->d_name);
		FILE *file = fopen(path, "re");
		bool is_named = file && fgets(name, sizeof(name), file);
		if (is_named && strcmp(name, "helper-files\n") == 0)
			threads.n_foreign++;
		else
			threads.n_others++;
		if (file)
			fclose(file);
	}
	closedir(dir);
	return threads;
}

/* The clients have one user, whose work is one thread's; another is there if the daemon once looked for newer files
 * meanwhile. It has its name a moment after it began. */
static bool has_threads(const struct inf_server_status *status, const void *arg)
{
	const struct threads *before = arg;
	struct threads now = count_threads(before->pid);
	return now.n_others <= before->n_others && now.n_foreign <= 2;
}

static bool has_foreign_thread(const struct inf_server_status *status, const void *arg)
{
	return count_threads(*(const pid_t *)arg).n_foreign > 0;
}

struct memory_files {
	pid_t pid;
	int n;
};

static bool has_memory_files(const struct inf_server_status *status, const void *arg)
{
	const struct memory_files *wanted = arg;
	return count_memory_files(wanted->pid) == wanted->n;
}

/* The loop unmaps a region some time after the worker is done with it. */
static void until_memory_files(struct e2e *e, int n)
{
	e2e_until(e, has_memory_files, &(struct memory_files){ e->pid, n });
}

struct descriptors {
	pid_t pid;
	int n;
};

/* Sockets are closed beside the loop, some time after their clients are gone. */
static bool has_descriptors(const struct inf_server_status *status, const void *arg)
{
	const struct descriptors *wanted = arg;
	return e2e_count_fds(wanted->pid) == wanted->n;
}

static void test_kills(void **state)
{
	pid_t children[N_CHILDREN];
	struct e2e e;
	int status, rc;
	player_seed(player_number("E2E_SEED", 42));
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, NULL);
	struct inferd *d = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "double", NULL);
	assert_true(e2e_infer(b, 1, &rc) == 2 && rc == 0);
	struct descriptors descriptors = { e.pid, e2e_count_fds(e.pid) };
	/* with the first descriptor that may take long to close begins a thread for such */
	struct e2e_raw *first = e2e_raw_new(e.socket, false);
	struct inf_request import = { .kind = INF_REQUEST_REGION_REGISTER,
		.region_register = { .name = "r", .byte_size = 64 } };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_true(null >= 0);
	assert_int_equal(e2e_raw_call_fd(first, import, null).status, INF_INVALID_ARGUMENT);
	close(null);
	e2e_raw_free(first);
	e2e_until_clients(&e, 1);
	e2e_until(&e, has_foreign_thread, &e.pid);
	int n_before = count_memory_files(e.pid);
	struct threads threads = count_threads(e.pid);
	assert_in_range(threads.n_foreign, 1, 2);
	for (int i = 0; i < N_CHILDREN; i++)
		children[i] = spawn(&e);
	for (int i = 0; i < N_KILLS + N_CHILDREN; i++) {
		uint32_t k = i < N_KILLS ? player_below(N_CHILDREN) : (uint32_t)(i - N_KILLS);
		if (i < N_KILLS)
			e2e_until_requests(&e, e2e_requests(&e) + player_below(300));
		uint32_t pid = (uint32_t)children[k];
		assert_int_equal(kill(children[k], SIGKILL), 0);
		assert_int_equal(waitpid(children[k], &status, 0), children[k]);
		if (!WIFSIGNALED(status))
			fail_msg("before kill %d a client got a wrong answer, or none", i);
		e2e_until(&e, has_not_pid, &pid);
		assert_true(e2e_infer(b, (float)i, &rc) == 2 * (float)i && rc == 0);
		if (i < N_KILLS)
			children[k] = spawn(&e);
	}
	e2e_until_clients(&e, 1);
	e2e_until_jobs(&e, 0, 0);
	until_memory_files(&e, n_before);
	e2e_until(&e, has_descriptors, &descriptors);
	e2e_until(&e, has_threads, &threads);
	inferd_close(d);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* --- every end of a request ----------------------------------------------------------------------- */

enum { N_PLAYERS = 4 };
static const char *const models[] = { "double", "sum", "forever" };
static const struct player_rules rules = { .models = models, .n_models = ET_ARRAY_LEN(models), .n_timed = 1 };

/* Each request is answered exactly once, whatever ends it: its run, a deadline, a cancellation, its binding or its
 * Method going; and nothing is left of those whose client goes. */
static void test_every_end(void **state)
{
	struct player *players[N_PLAYERS];
	uint64_t method, binding, region;
	struct e2e e;
	uint64_t n_steps = player_number("E2E_STEPS", 6000);
	player_seed(player_number("E2E_SEED", 42));
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_put_program(&e, "sum.pte", e2e_program_accumulate);
	e2e_put_program(&e, "forever.pte", e2e_program_forever);
	e2e_start(&e, "[limits]\npriority = realtime\n");
	struct e2e_raw *keeper = e2e_raw_new(e.socket, false); /* of the models */
	for (size_t i = 0; i < ET_ARRAY_LEN(models); i++)
		e2e_raw_bind(keeper, models[i], &method, &binding, &region, NULL);
	int n_before = count_memory_files(e.pid);
	for (int i = 0; i < N_PLAYERS; i++)
		players[i] = player_new(&e, &rules);
	for (uint64_t step = 0; step < n_steps; step++)
		player_step(players[player_below(N_PLAYERS)]);
	for (int i = 0; i < N_PLAYERS; i++)
		player_drain(players[i]);
	e2e_until_jobs(&e, 0, 0);
	for (int i = 0; i < N_PLAYERS; i++)
		player_free(players[i]);
	e2e_until_clients(&e, 1);
	until_memory_files(&e, n_before);
	e2e_raw_free(keeper);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* --- shares --------------------------------------------------------------------------------------- */

/* Nobody gets more than the configuration gives its user, and who asks gets less. */
static void test_weights(void **state)
{
	static const struct {
		uint32_t asked, got;
	} rows[] = { { 0, 3 }, { 1, 1 }, { 2, 2 }, { 3, 3 }, { 4, 3 }, { UINT32_MAX, 3 } };
	char config[64];
	struct e2e e;
	e2e_init(&e);
	snprintf(config, sizeof(config), "[user %u]\nweight = 3\n", (unsigned)getuid());
	e2e_start(&e, config);
	for (size_t i = 0; i < ET_ARRAY_LEN(rows); i++) {
		struct e2e_raw *raw = e2e_raw_new(e.socket, true);
		struct inf_request hello = { .kind = INF_REQUEST_HELLO,
			.hello = { INF_PROTOCOL, "e2e", rows[i].asked } };
		struct inf_reply reply = e2e_raw_call(raw, hello);
		assert_int_equal(reply.status, INF_OK);
		assert_int_equal(reply.hello.weight, rows[i].got);
		hello.hello.weight = 1; /* saying it again changes nothing */
		assert_int_equal(e2e_raw_call(raw, hello).hello.weight, rows[i].got);
		e2e_raw_free(raw);
	}
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

/* --- a quick model that is not ---------------------------------------------------------------------- */

static void note_status(struct inferd_binding *b, int status, void *userdata)
{
	*(int *)userdata = status;
}

/* What was always done in no time runs on the loop's own thread. When it then does not end, the loop goes on. */
static void test_moody(void **state)
{
	enum { N_QUICK = 300 };
	struct e2e e;
	int rc, status = 1;
	e2e_init(&e);
	e2e_put_program(&e, "moody.pte", e2e_program_moody);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, NULL);
	struct inferd *d = e2e_connect(&e), *other = e2e_connect(&e);
	struct inferd_binding *b = e2e_bind(d, "moody", NULL), *mine = e2e_bind(other, "double", NULL);
	*(bool *)inferd_input(b, 1) = true;
	for (int i = 0; i < N_QUICK; i++) {
		*(float *)inferd_input(b, 0) = (float)i;
		assert_int_equal(inferd_infer(b, NULL), 0);
		assert_true(*(float *)inferd_output(b, 0) == 2 * (float)i);
	}
	*(bool *)inferd_input(b, 1) = false;
	assert_int_equal(inferd_infer_async(b, NULL, note_status, &status), 0);
	for (int i = 0; i < N_QUICK; i++)
		assert_true(e2e_infer(mine, (float)i, &rc) == 2 * (float)i && rc == 0);
	e2e_until_jobs(&e, 1, 0);
	assert_int_equal(inferd_cancel(b), 0);
	while (status == 1)
		assert_true(inferd_wait(d, 30000) >= 0);
	assert_int_equal(status, -INFERD_CANCELLED);
	inferd_close(d);
	inferd_close(other);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_silero),
		cmocka_unit_test(test_llama),
		cmocka_unit_test(test_llama_delegated),
		cmocka_unit_test(test_kills),
		cmocka_unit_test(test_every_end),
		cmocka_unit_test(test_weights),
		cmocka_unit_test(test_moody),
	};
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
