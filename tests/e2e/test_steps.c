/* SPDX-License-Identifier: BSD-3-Clause */
/* A request in a slow step of its life, while another event happens.
 *
 * The server's loop runs on the test's own thread and the helper thread is held at a gate, so that each test chooses
 * the step that its request is in. */
#include "daemon/model/repository.h"
#include "daemon/loop/server.h"
#include "daemon/client/session.h"
#include "runtime/base/checked.h"
#include "tests/e2e/harness.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct world {
	struct e2e e;
	struct inf_server *server;
	struct gate {
		struct inf_work work;
		pthread_mutex_t lock;
		pthread_cond_t changed;
		bool is_open, is_done;
	} gate;
};

static void gate_run(struct inf_work *work)
{
	struct gate *g = ET_CONTAINER_OF(work, struct gate, work);
	pthread_mutex_lock(&g->lock);
	while (!g->is_open)
		pthread_cond_wait(&g->changed, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

static void gate_done(struct inf_work *work)
{
	ET_CONTAINER_OF(work, struct gate, work)->is_done = true;
}

static void turn(struct world *w)
{
	uv_run(&w->server->loop, UV_RUN_NOWAIT);
	sched_yield();
}

static void begin(struct world *w, uint64_t memory_budget)
{
	struct inf_server *server = calloc(1, sizeof(*server));
	assert_non_null(server);
	*w = (struct world){ .server = server,
		.gate = {
			{ .run = gate_run, .done = gate_done }, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER } };
	e2e_init(&w->e);
	e2e_put_program(&w->e, "double.pte", e2e_program_double);
	inf_config_init(&server->context.config);
	snprintf(server->context.config.socket, sizeof(server->context.config.socket), "%s", w->e.socket);
	snprintf(server->context.config.models, sizeof(server->context.config.models), "%s", w->e.models);
	server->context.config.manager_socket[0] = server->context.config.cache[0] = '\0';
	server->context.config.workers = 1;
	snprintf(server->context.config.program_host, sizeof(server->context.config.program_host), "%s", PROGRAM_HOST);
	server->context.config.memory_budget = memory_budget;
	server->context.log = et_platform_log(ET_LOG_ERROR);
	assert_int_equal(inf_server_init(server), 0);
}

static void open_gate(struct world *w)
{
	pthread_mutex_lock(&w->gate.lock);
	w->gate.is_open = true;
	pthread_cond_broadcast(&w->gate.changed);
	pthread_mutex_unlock(&w->gate.lock);
	while (!w->gate.is_done)
		turn(w);
}

static void end(struct world *w)
{
	inf_server_drain(w->server);
	while (!w->server->is_stopped)
		turn(w);
	inf_server_deinit(w->server);
	free(w->server);
	e2e_deinit(&w->e);
}

/* --- unloading what is being loaded ----------------------------------------------------------------- */

struct opening {
	struct inf_open open;
	bool is_done;
	enum inf_status status;
};

static void opened(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *model)
{
	struct opening *o = ET_CONTAINER_OF(open, struct opening, open);
	o->is_done = true;
	o->status = status;
}

static void unloaded(void *arg, const char *held)
{
	assert_null(held);
	*(bool *)arg = true;
}

static struct opening of_double(void)
{
	return (struct opening){ .open = {
					 .model = "double",
					 .version = "",
					 .method = "",
					 .backend = "",
					 .fd = -1,
					 .done = opened,
				 } };
}

static const struct inf_model *find(const struct world *w, const char *model)
{
	const struct et_list_node *models = inf_repository_models(w->server->context.repository);
	for (const struct et_list_node *node = models->next; node != models; node = node->next)
		if (strcmp(ET_CONTAINER_OF(node, struct inf_model, node)->model, model) == 0)
			return ET_CONTAINER_OF(node, struct inf_model, node);
	return NULL;
}

/* The load fails that the unload waits for: the unload is answered, and the model may be asked for again. */
static void test_unload_meets_failure(void **state)
{
	struct opening first = of_double(), second = of_double();
	bool is_unloaded = false;
	struct world w;
	size_t n_file;
	free(e2e_program_double(&n_file));
	begin(&w, n_file); /* no memory but for the file */
	struct inf_repository *r = w.server->context.repository;
	inf_repository_open(r, &first.open);
	inf_helper_post(w.server->context.helper, &w.gate.work, NULL); /* between looking and making */
	while (!find(&w, "double"))
		turn(&w);
	assert_true(inf_repository_unload(r, "double", unloaded, &is_unloaded));
	assert_false(is_unloaded);
	assert_false(first.is_done);
	open_gate(&w);
	while (!is_unloaded || !first.is_done)
		turn(&w);
	assert_int_not_equal(first.status, INF_OK);
	assert_int_not_equal(first.status, INF_UNAVAILABLE);
	inf_repository_open(r, &second.open);
	while (!second.is_done)
		turn(&w);
	assert_int_equal(second.status, first.status);
	end(&w);
}

/* Who has begun to look for a model before it is unloaded, an administrator who loads it among them, does not bring
 * it back after that is answered; who comes then does. */
static void test_unload_meets_look(void **state)
{
	for (int is_there = 0; is_there < 2; is_there++) {
		struct opening first = of_double(), looking = of_double(), other = of_double(), late = of_double();
		bool is_unloaded = false;
		struct world w;
		begin(&w, 0);
		e2e_put_program(&w.e, "other.pte", e2e_program_triple);
		struct inf_repository *r = w.server->context.repository;
		if (is_there)
			inf_repository_open(r, &first.open);
		while (is_there && !first.is_done)
			turn(&w);
		/* before looking */
		inf_helper_post_for_user(w.server->context.helper, &w.gate.work, inf_scan_turn("double"));
		looking.open.must_scan = true;
		inf_repository_open(r, &looking.open);
		other.open.model = "other";
		inf_repository_open(r, &other.open);
		assert_true(inf_repository_unload(r, "double", unloaded, &is_unloaded));
		while (!is_unloaded)
			turn(&w);
		assert_null(find(&w, "double"));
		assert_false(looking.is_done);
		open_gate(&w);
		while (!looking.is_done || !other.is_done)
			turn(&w);
		assert_int_equal(looking.status, INF_UNAVAILABLE);
		assert_int_equal(other.status, INF_OK);
		assert_null(find(&w, "double"));
		assert_false(inf_repository_unload(r, "double", unloaded, &is_unloaded));
		inf_repository_open(r, &late.open);
		while (!late.is_done)
			turn(&w);
		assert_int_equal(late.status, INF_OK);
		end(&w);
	}
}

/* --- a load that finds no room ------------------------------------------------------------------------ */

/* Load 'double' into an empty daemon and tell what it takes. */
static uint64_t load_double(struct world *w)
{
	struct opening open = of_double();
	inf_repository_open(w->server->context.repository, &open.open);
	while (!open.is_done)
		turn(w);
	assert_int_equal(open.status, INF_OK);
	const struct inf_model *model = find(w, "double");
	assert_non_null(model);
	return inf_model_memory(model);
}

/* What makes room counts until it is gone; the load that needs it waits for that. */
static void test_room_is_waited_for(void **state)
{
	struct opening other = of_double();
	struct world w;
	begin(&w, 0);
	uint64_t n_bytes = load_double(&w);
	end(&w);
	begin(&w, n_bytes * 3 / 2);
	e2e_put_program(&w.e, "other.pte", e2e_program_triple);
	load_double(&w);
	other.open.model = "other";
	inf_repository_open(w.server->context.repository, &other.open);
	while (!find(&w, "other"))
		turn(&w);
	inf_helper_post(w.server->context.helper, &w.gate.work,
		NULL); /* between making it and giving back what 'double' took */
	while (find(&w, "double"))
		turn(&w);
	assert_false(other.is_done);
	const struct inf_model *model = find(&w, "other");
	assert_true(model && model->state == INF_MODEL_LOADING);
	open_gate(&w);
	while (!other.is_done)
		turn(&w);
	assert_int_equal(other.status, INF_OK);
	end(&w);
}

/* What a failed load still has is on its way back: nobody is unloaded for that. */
static void test_failed_load_leaves(void **state)
{
	struct opening net = of_double();
	struct world w;
	net.open.model = "net";
	begin(&w, 0);
	assert_true(e2e_put_file(&w.e, "net.pte", TEST_MODELS "/efficientnet_lite0_int8.pte"));
	inf_repository_open(w.server->context.repository, &net.open);
	while (!net.is_done)
		turn(&w);
	assert_int_equal(net.status, INF_OK);
	struct inf_model_use use = inf_model_use(find(&w, "net"));
	end(&w);
	if (!use.n_instances)
		skip(); /* there is no XNNPACK */

	/* Enough for all but its instances: whether their estimate or their measure is the reason, nobody else goes. */
	begin(&w, inf_model_total(&use) - use.n_instances / 2);
	assert_true(e2e_put_file(&w.e, "net.pte", TEST_MODELS "/efficientnet_lite0_int8.pte"));
	load_double(&w);
	net.is_done = false;
	inf_repository_open(w.server->context.repository, &net.open);
	while (!net.is_done)
		turn(&w);
	assert_int_equal(net.status, INF_RESOURCE_EXHAUSTED);
	inf_repository_evict(w.server->context.repository, 0); /* a tick, at which nothing is old */
	const struct inf_model *idle = find(&w, "double");
	assert_true(idle && idle->state == INF_MODEL_READY);
	end(&w);
}

/* A client's own program goes at once where its client is refused or has gone meanwhile: nobody is charged for it. */
static void test_own_that_nobody_keeps(void **state)
{
	struct opening own = of_double();
	struct world w;
	struct stat st;
	char path[160];
	begin(&w, 0);
	snprintf(path, sizeof(path), "%s/double.pte", w.e.models);
	own.open.fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(own.open.fd, &st), 0);
	own.open.file = inf_file_id(&st);
	own.open.tenant = 1;
	own.open.whose = &own;
	inf_repository_open(w.server->context.repository, &own.open);
	while (!own.is_done)
		turn(&w);
	assert_int_equal(own.status, INF_OK);
	const struct inf_model *model = find(&w, "double");
	assert_true(!model || model->state != INF_MODEL_READY);
	while (find(&w, "double"))
		turn(&w);
	end(&w);
}

/* --- asking and giving up --------------------------------------------------------------------------- */

static struct inf_reply next_reply(struct world *w, struct e2e_raw *raw)
{
	struct pollfd in = { .fd = inf_channel_fd(&raw->channel), .events = POLLIN };
	struct inf_reply reply;
	while (poll(&in, 1, 0) == 0)
		turn(w);
	assert_true(e2e_raw_receive(raw, &reply));
	return reply;
}

static struct e2e_raw *connect_to(struct world *w)
{
	struct e2e_raw *raw = e2e_raw_new(w->e.socket, true);
	struct inf_request hello = { .kind = INF_REQUEST_HELLO, .hello = { INF_PROTOCOL, "test", 0 } };
	e2e_raw_send(raw, &hello, -1);
	assert_int_equal(next_reply(w, raw).status, INF_OK);
	return raw;
}

static enum inf_status ask_and_cancel(struct world *w, struct e2e_raw *raw)
{
	struct inf_request ask = { .kind = INF_REQUEST_MODEL_METADATA, .model_metadata = { "double", "", "" } };
	e2e_raw_send(raw, &ask, -1);
	struct inf_request cancel = { .kind = INF_REQUEST_CANCEL, .cancel = { ask.id } };
	e2e_raw_send(raw, &cancel, -1);
	enum inf_status status = next_reply(w, raw).status;
	assert_int_equal(next_reply(w, raw).status, status == INF_CANCELLED ? INF_OK : INF_NOT_FOUND);
	return status;
}

/* Who asks and gives up, again and again, and by new connections, comes to an end; when those are gone it goes on. */
static void test_asks_and_gives_up(void **state)
{
	enum { MORE_THAN_ENOUGH = 1 << 16 };
	struct inf_request ask = { .kind = INF_REQUEST_MODEL_METADATA, .model_metadata = { "double", "", "" } };
	enum inf_status status = INF_CANCELLED;
	struct world w;
	int n = 0;
	begin(&w, 0);
	inf_helper_post_for_user(w.server->context.helper, &w.gate.work, inf_scan_turn("double"));
	struct e2e_raw *raw = connect_to(&w);
	for (; n < MORE_THAN_ENOUGH && (status = ask_and_cancel(&w, raw)) == INF_CANCELLED; n++)
		if (n % 100 == 99) {
			e2e_raw_free(raw);
			raw = connect_to(&w);
		}
	assert_int_equal(status, INF_RESOURCE_EXHAUSTED);
	e2e_raw_free(raw);
	raw = connect_to(&w);
	assert_int_equal(ask_and_cancel(&w, raw), INF_RESOURCE_EXHAUSTED);
	e2e_raw_send(raw, &ask, -1);
	assert_non_null(strstr(next_reply(&w, raw).error, "the limit 'opens' of user"));
	open_gate(&w);
	do
		e2e_raw_send(raw, &ask, -1);
	while ((status = next_reply(&w, raw).status) == INF_RESOURCE_EXHAUSTED);
	assert_int_equal(status, INF_OK);
	e2e_raw_free(raw);
	end(&w);
}

/* --- a state that is reset beside the loop ------------------------------------------------------------ */

static struct inf_reply call(struct world *w, struct e2e_raw *raw, struct inf_request request)
{
	e2e_raw_send(raw, &request, -1);
	return next_reply(w, raw);
}

static void expect_busy(struct inf_reply reply, const char *what)
{
	assert_int_equal(reply.status, INF_BUSY);
	if (!strstr(reply.error, what))
		fail_msg("%s", reply.error);
}

/* Meanwhile nothing else is done with that Method, whoever asks, and all of it once the reset is over; the reset itself
 * can't be called off. A Method that is closed meanwhile goes when it is over. */
static void test_away(void **state)
{
	struct inf_request open = { .kind = INF_REQUEST_METHOD_OPEN, .method_open = { "hoarder", "", "", "" } };
	struct inf_request create = { .kind = INF_REQUEST_REGION_CREATE, .region_create = { 4096 } };
	struct inf_request reset = { .kind = INF_REQUEST_METHOD_RESET };
	struct inf_request infer = { .kind = INF_REQUEST_INFER };
	struct inf_reply reply;
	struct world w;
	begin(&w, 0);
	e2e_put_program(&w.e, "hoarder.pte", e2e_program_hoarder);
	struct e2e_raw *raw = connect_to(&w);
	reply = call(&w, raw, open);
	assert_int_equal(reply.status, INF_OK);
	reset.method_reset.method = reply.method_opened.method;
	struct inf_slot in = { .region = call(&w, raw, create).region_created.region };
	struct inf_slot out = { .region = in.region, .offset = 64 };
	struct inf_request bind = { .kind = INF_REQUEST_BIND, .bind = { reset.method_reset.method, 1, &in, 1, &out } };
	infer.infer.binding = call(&w, raw, bind).bound.binding;
	assert_int_equal(call(&w, raw, infer).status, INF_OK);

	const struct inf_session *session = ET_CONTAINER_OF(w.server->context.sessions.next, struct inf_session, node);
	inf_helper_post_for_user(w.server->context.helper, &w.gate.work, session->user);
	e2e_raw_send(raw, &reset, -1);
	uint64_t id = reset.id;
	expect_busy(call(&w, raw, infer), "is being reset");
	expect_busy(call(&w, raw, reset), "is being reset");
	struct inf_request cancel = { .kind = INF_REQUEST_CANCEL, .cancel = { id } };
	assert_int_equal(call(&w, raw, cancel).status, INF_FAILED_PRECONDITION);
	open_gate(&w);
	reply = next_reply(&w, raw);
	assert_true(reply.id == id && reply.status == INF_OK);
	assert_int_equal(call(&w, raw, infer).status, INF_OK);

	w.gate.is_open = w.gate.is_done = false;
	inf_helper_post_for_user(w.server->context.helper, &w.gate.work, session->user);
	e2e_raw_send(raw, &reset, -1);
	id = reset.id;
	struct inf_request closing = { .kind = INF_REQUEST_METHOD_CLOSE,
		.method_close = { reset.method_reset.method } };
	assert_int_equal(call(&w, raw, closing).status, INF_OK);
	const struct inf_model *model = find(&w, "hoarder");
	assert_true(model && model->n_methods == 1);
	open_gate(&w);
	reply = next_reply(&w, raw);
	assert_true(reply.id == id && reply.status == INF_OK);
	while (model->n_methods)
		turn(&w);
	e2e_raw_free(raw);
	end(&w);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unload_meets_failure),
		cmocka_unit_test(test_unload_meets_look),
		cmocka_unit_test(test_room_is_waited_for),
		cmocka_unit_test(test_failed_load_leaves),
		cmocka_unit_test(test_own_that_nobody_keeps),
		cmocka_unit_test(test_asks_and_gives_up),
		cmocka_unit_test(test_away),
	};
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
