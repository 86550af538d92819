/* SPDX-License-Identifier: BSD-3-Clause */
/* Everything at once, with a memory budget that is too small: clients open models and their own programs, send
 * requests, cancel them, disconnect and are killed, while an administrator loads and unloads models and reloads the
 * configuration. Each request must get a reply, each successful reply must be right, and nothing may be left at the
 * end.
 *
 * Random choices come from a fixed seed; E2E_SEED and E2E_STEPS change it (tools/soak chaos). Each client is a
 * process of this program, so that a failure of one shows in its exit status and its output. */
#include "tests/e2e/harness.h"
#include "tests/e2e/player.h"

#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"
#include "tests/support/make_program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_CLIENTS = 6 };

static const char *const models[] = { "double", "sum", "large", "hoarder", "forever", "picture", "foreign", "shared",
	"nowhere" };

/* Of 'shared': forward(x): h = h + x, y = h; again(x): that without end. All of FP32[4], and h in the buffers that they
 * share. */
static const char *const shared_methods[] = { "forward", "again" };

static uint8_t *make_shared(size_t *ret_n_bytes)
{
	struct make_program mk;
	mk_init(&mk);
	for (size_t i = 0; i < ET_ARRAY_LEN(shared_methods); i++) {
		mk_method(&mk, shared_methods[i]);
		uint32_t own = mk_arena(&mk, 64), shared = mk_arena(&mk, 2 << 20);
		int x = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = own });
		int y = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = own, .offset = 16 });
		int h = mk_tensor(&mk, &(struct mk_tensor){ MK_FP32, MK_SIZES(4), .arena = shared });
		int no = mk_bool(&mk, false);
		mk_kernel(&mk, mk_operator(&mk, "aten::add", "out"), MK_ARGS(h, x, mk_int(&mk, 1), y, y));
		mk_kernel(&mk, mk_operator(&mk, "aten::copy_", ""), MK_ARGS(h, y, no, h));
		if (i)
			mk_jump_false(&mk, no, 0);
		mk_input(&mk, x);
		mk_output(&mk, y);
	}
	return mk_finish(&mk, ret_n_bytes);
}

/* --- a client ------------------------------------------------------------------------------------- */

enum { N_SLOTS = 4, N_BURST = 8 };

struct client {
	struct e2e_raw *raw;
	struct slot {
		uint64_t method, binding, region;
		float *floats;
		bool is_double;
	} slots[N_SLOTS];
};

/* What may be answered here; what may not is a failure. */
static bool is_fine(const struct inf_reply *reply)
{
	switch (reply->status) {
	case INF_OK:
	case INF_BUSY:
	case INF_CANCELLED:
	case INF_NOT_FOUND:
	case INF_MISSED_DEADLINE:
	case INF_STATE_LOST:
	case INF_UNAVAILABLE:
	case INF_RESOURCE_EXHAUSTED:
	case INF_UNIMPLEMENTED:   /* 'foreign' */
	case INF_BACKEND_CRASHED: /* a run of the same user's did not end in time, so their process was ended */
		return true;
	default:
		fprintf(stderr, "client %d: status %d: %s\n", (int)getpid(), reply->status, reply->error);
		_exit(3);
	}
}

/* The only one that is on its way. */
static struct inf_reply call(struct client *c, struct inf_request request, int fd)
{
	struct inf_reply reply = e2e_raw_call_fd(c->raw, request, fd);
	bool shares = request.kind == INF_REQUEST_METHOD_OPEN && request.method_open.share_with;
	if (!shares || reply.status != INF_FAILED_PRECONDITION) /* it has nothing to share with that one */
		is_fine(&reply);
	return reply;
}

static int own_program(void)
{
	size_t n;
	uint32_t which = player_below(3);
	uint8_t *bytes = which == 0 ? e2e_program_double(&n) : which == 1 ? e2e_program_large(&n) : make_shared(&n);
	int fd = memfd_create("own", MFD_CLOEXEC);
	if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
		_exit(4);
	free(bytes);
	return fd;
}

static void forget(struct slot *slot)
{
	if (slot->floats)
		munmap(slot->floats, 4096);
	*slot = (struct slot){ 0 };
}

static void open_slot(struct client *c, struct slot *slot)
{
	const struct slot *with = player_below(3) ? NULL : &c->slots[player_below(N_SLOTS)];
	bool is_own = (!with || !with->method) && player_below(5) == 0;
	uint64_t share_with = with ? with->method : 0; /* perhaps one that is being closed */
	const char *model = share_with ? "" : player_below(4) ? models[player_below(ET_ARRAY_LEN(models))] : "shared";
	const char *method = share_with || strcmp(model, "shared") == 0
				     ? shared_methods[player_below(ET_ARRAY_LEN(shared_methods))]
				     : "";
	if (slot->method)
		call(c, (struct inf_request){ .kind = INF_REQUEST_METHOD_CLOSE, .method_close = { slot->method } }, -1);
	if (slot->region)
		call(c,
			(struct inf_request){
				.kind = INF_REQUEST_REGION_UNREGISTER, .region_unregister = { "", slot->region } },
			-1);
	forget(slot);
	int fd = is_own ? own_program() : -1;
	struct inf_reply reply = call(c,
		(struct inf_request){ .kind = INF_REQUEST_METHOD_OPEN,
			.method_open = { is_own ? "own" : model, .version = "", .method = is_own ? "" : method,
				.backend = "", .from_fd = is_own, .share_with = share_with } },
		fd);
	if (fd >= 0)
		close(fd);
	if (reply.status != INF_OK)
		return;
	slot->method = reply.method_opened.method;
	slot->is_double = !is_own && strcmp(model, "double") == 0;
	bool is_small = is_own || strcmp(model, "picture");
	reply = call(c, (struct inf_request){ .kind = INF_REQUEST_REGION_CREATE, .region_create = { 4096 } }, -1);
	if (reply.status != INF_OK || !is_small)
		return; /* a picture has no room there: it is opened, no more */
	slot->region = reply.region_created.region;
	slot->floats = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, c->raw->fd, 0);
	if (slot->floats == MAP_FAILED)
		_exit(5);
	struct inf_slot in = { .region = slot->region, .byte_size = 16 };
	struct inf_slot out = { .region = slot->region, .offset = 64, .byte_size = 16 };
	reply = call(c, (struct inf_request){ .kind = INF_REQUEST_BIND, .bind = { slot->method, 1, &in, 1, &out } },
		-1);
	slot->binding = reply.status == INF_OK ? reply.bound.binding : 0;
}

/* Several requests at once, some of them given up; all are answered. */
static void burst(struct client *c)
{
	struct inf_reply reply;
	uint64_t first = c->raw->last_id + 1;
	uint32_t n = 1 + player_below(N_BURST);
	for (uint32_t i = 0; i < n; i++) {
		const struct slot *slot = &c->slots[player_below(N_SLOTS)];
		struct inf_request infer = { .kind = INF_REQUEST_INFER,
			.infer = {
				slot->binding, (enum inf_priority)player_below(4), 1 + player_below(20000), 0, NULL } };
		struct inf_request cancel = { .kind = INF_REQUEST_CANCEL, .cancel = { first + player_below(i + 1) } };
		e2e_raw_send(c->raw, player_below(6) ? &infer : &cancel, -1);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (!e2e_raw_receive(c->raw, &reply))
			_exit(6);
		is_fine(&reply);
	}
}

static void ask_one(struct client *c)
{
	const struct slot *slot = &c->slots[player_below(N_SLOTS)];
	if (!slot->binding)
		return;
	float x = (float)player_below(1000);
	for (int i = 0; i < 4; i++)
		slot->floats[i] = x;
	struct inf_reply reply = call(c,
		(struct inf_request){
			.kind = INF_REQUEST_INFER, .infer = { slot->binding, INF_INTERACTIVE, 500000, 0, NULL } },
		-1);
	if (reply.status == INF_OK && slot->is_double && slot->floats[16] != 2 * x) {
		fprintf(stderr, "client %d: %g is not twice %g\n", (int)getpid(), (double)slot->floats[16], (double)x);
		_exit(7);
	}
}

static void live(struct client *c, const char *path)
{
	c->raw = e2e_raw_new(path, false);
	for (uint32_t n = 5 + player_below(60); n; n--) {
		struct slot *slot = &c->slots[player_below(N_SLOTS)];
		uint32_t what = player_below(100);
		if (what < 25)
			open_slot(c, slot);
		else if (what < 50)
			burst(c);
		else if (what < 90)
			ask_one(c);
		else if (what < 94)
			call(c,
				(struct inf_request){
					.kind = INF_REQUEST_METHOD_RESET, .method_reset = { slot->method } },
				-1);
		else if (what < 97)
			call(c, (struct inf_request){ .kind = INF_REQUEST_STATUS }, -1);
		else
			call(c,
				(struct inf_request){
					.kind = INF_REQUEST_REPOSITORY_INDEX, .repository_index = { "", false } },
				-1);
	}
	if (player_below(2)) { /* and something is on its way when it goes */
		struct inf_request open = { .kind = INF_REQUEST_METHOD_OPEN,
			.method_open = { models[player_below(ET_ARRAY_LEN(models))], "", "", "", false } };
		e2e_raw_send(c->raw, &open, -1);
	}
	e2e_raw_free(c->raw);
	for (int i = 0; i < N_SLOTS; i++)
		forget(&c->slots[i]);
}

/* As a test, which says why it failed, and is silent else. */
static const char *client_socket;

static void be_client(void **state)
{
	static struct client c;
	for (;;)
		live(&c, client_socket);
}

static int client_main(const char *path, const char *seed)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(be_client),
	};
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	client_socket = path;
	player_seed(strtoull(seed, NULL, 10));
	if (!freopen("/dev/null", "w", stdout))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* --- and the rest --------------------------------------------------------------------------------- */

static char self[256];

static pid_t start_client(struct e2e *e)
{
	char seed[24];
	snprintf(seed, sizeof(seed), "%u", 1 + player_below(UINT32_MAX));
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		execl(self, self, "--client", e->socket, seed, (char *)NULL);
		_exit(127);
	}
	return pid;
}

static void kill_client(pid_t pid, uint64_t step)
{
	int status;
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFSIGNALED(status))
		fail_msg("step %llu: a client had ended with status %d", (unsigned long long)step, WEXITSTATUS(status));
}

/* What the daemon says of itself, until nothing is there, as a service manager does; or it could say no more. */
static void hear(struct e2e *e)
{
	char text[512];
	while (recv(e->notify_fd, text, sizeof(text), MSG_DONTWAIT) > 0)
		;
}

static void reload(struct e2e *e)
{
	static const char *const budgets[] = { "20000000", "20000000", "12000000", "3000000", "0" };
	static const char *const keeps[] = { "0", "20ms", "1h" };
	char path[128], fresh[128];
	snprintf(path, sizeof(path), "%s/inferd.conf", e->dir);
	snprintf(fresh, sizeof(fresh), "%s/fresh", e->dir);
	FILE *file = fopen(fresh, "we");
	assert_non_null(file);
	fprintf(file,
		"[server]\nsocket = %s\nmanager_socket = %s\nmodels = %s\ncache =\nprogram_idle = 100ms\nprogram_stop = 10s\nworkers = 2\nlog_level = "
		"%s\n"
		"memory_budget = %s\nkeep_alive = %s\n[limits]\npriority = realtime\nmethods = %u\n",
		e->socket, e->manager, e->models, getenv("E2E_LOG") ? getenv("E2E_LOG") : "error",
		budgets[player_below(ET_ARRAY_LEN(budgets))], keeps[player_below(ET_ARRAY_LEN(keeps))],
		4 + player_below(30));
	if (player_below(2))
		fprintf(file, "[model %s]\npin = yes\n", models[player_below(ET_ARRAY_LEN(models))]);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(rename(fresh, path), 0);
	assert_int_equal(kill(e->pid, SIGHUP), 0);
}

/* Nothing of what was pinned comes back while the end is looked at. */
static void reload_plain(struct e2e *e)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/inferd.conf", e->dir);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fprintf(file,
		"[server]\nsocket = %s\nmanager_socket = %s\nmodels = %s\ncache =\nprogram_idle = 100ms\nprogram_stop = 10s\nworkers = 2\nkeep_alive = "
		"0\n",
		e->socket, e->manager, e->models);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(kill(e->pid, SIGHUP), 0);
}

static void test_chaos(void **state)
{
	pid_t clients[N_CLIENTS];
	struct e2e e;
	uint64_t n_steps = player_number("E2E_STEPS", 150);
	player_seed(player_number("E2E_SEED", 42));
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_put_program(&e, "sum.pte", e2e_program_accumulate);
	e2e_put_program(&e, "large.pte", e2e_program_large);
	e2e_put_program(&e, "hoarder.pte", e2e_program_hoarder);
	e2e_put_program(&e, "forever.pte", e2e_program_forever);
	e2e_put_program(&e, "foreign.pte", e2e_program_foreign);
	e2e_put_program(&e, "shared.pte", make_shared);
	assert_true(e2e_put_file(&e, "picture.pte", TEST_MODELS "/efficientnet_lite0_int8.pte"));
	e2e_start(&e, "memory_budget = 20000000\nkeep_alive = 20ms\n[limits]\npriority = realtime\n");
	for (int i = 0; i < N_CLIENTS; i++)
		clients[i] = start_client(&e);
	for (uint64_t step = 0; step < n_steps; step++) {
		const char *model = models[player_below(ET_ARRAY_LEN(models))];
		uint32_t what = player_below(100), k = player_below(N_CLIENTS);
		/* There may be no room for any model, so it is not requests that are waited for. */
		for (uint32_t i = player_below(200); i; i--)
			e2e_requests(&e);
		hear(&e);
		if (what < 40) {
			kill_client(clients[k], step);
			clients[k] = start_client(&e);
		} else if (what < 70) {
			e2e_unload(&e, model);
		} else if (what < 85) {
			e2e_load(&e, model);
		} else {
			reload(&e);
		}
	}
	for (int i = 0; i < N_CLIENTS; i++)
		kill_client(clients[i], n_steps);
	reload_plain(&e);
	e2e_until_clients(&e, 0);
	hear(&e);
	e2e_check_clean(&e);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chaos),
	};
	if (argc == 4 && strcmp(argv[1], "--client") == 0)
		return client_main(argv[2], argv[3]);
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		return 1;
	self[n] = '\0';
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
