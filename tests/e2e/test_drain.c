/* SPDX-License-Identifier: BSD-3-Clause */
/* The shutdown of a daemon whose worker is about to send a reply.
 *
 * The server's loop runs on the test's own thread, so that the test can stop it at the critical point: the request
 * has left its queue, and the worker cannot send the reply, because the test holds the channel's lock. Whatever the
 * loop does then, the client must get its reply, and nothing may leak. */
#include "daemon/client/binding.h"
#include "daemon/client/job.h"
#include "daemon/loop/server.h"
#include "daemon/client/session.h"
#include "tests/e2e/harness.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct client {
	const char *socket;
	pthread_t thread;
	_Atomic(bool) is_bound, may_ask, has_asked;
	int status;
	float output;
};

static void *client_main(void *arg)
{
	struct client *c = arg;
	struct inferd *d = NULL;
	struct inferd_method *m = NULL;
	struct inferd_binding *b = NULL;
	c->status = inferd_open(&d, c->socket);
	if (!c->status)
		c->status = inferd_method_open(d, &m, "double", NULL);
	if (!c->status)
		c->status = inferd_bind(m, &b);
	c->is_bound = true;
	while (!c->may_ask)
		sched_yield();
	if (!c->status) {
		*(float *)inferd_input(b, 0) = 21;
		c->status = inferd_infer(b, NULL);
		c->output = *(float *)inferd_output(b, 0);
	}
	inferd_close(d);
	c->has_asked = true;
	return NULL;
}

/* Locked, and in such a way that the loop would see an error instead of waiting for itself. */
static void lock(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_destroy(mutex);
	pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	pthread_mutex_lock(mutex);
}

static void turn(struct inf_server *server)
{
	uv_run(&server->loop, UV_RUN_NOWAIT);
	sched_yield();
}

static void test_reply_under_way(void **state)
{
	struct inf_server *server = calloc(1, sizeof(*server));
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	inf_config_init(&server->context.config);
	snprintf(server->context.config.socket, sizeof(server->context.config.socket), "%s", e.socket);
	snprintf(server->context.config.models, sizeof(server->context.config.models), "%s", e.models);
	server->context.config.manager_socket[0] = server->context.config.cache[0] = '\0';
	server->context.config.workers = 1;
	server->context.log = et_platform_log(ET_LOG_WARNING);
	assert_int_equal(inf_server_init(server), 0);

	struct client client = { .socket = e.socket };
	assert_int_equal(pthread_create(&client.thread, NULL, client_main, &client), 0);
	while (!client.is_bound)
		turn(server);
	assert_int_equal(client.status, 0);

	struct inf_session *s = ET_CONTAINER_OF(server->context.sessions.next, struct inf_session, node);
	struct inf_binding *b = inf_table_next(&s->bindings, &(uint32_t){ 0 });
	assert_non_null(b);
	lock(&s->channel.lock);
	client.may_ask = true;
	while (!s->n_requests || inf_job_is_busy(&b->job))
		turn(server);
	/* out of every queue, not answered */
	struct inf_pool_stats stats;
	inf_pool_stats(server->context.queues.pools[0], &stats);
	assert_int_equal(stats.n_waiting, 0);
	assert_int_equal(server->context.n_unanswered, 1);
	inf_server_drain(server);
	for (int i = 0; i < 3; i++)
		turn(server);
	assert_int_equal(s->state, INF_SESSION_OPEN);
	assert_false(server->is_stopped);

	pthread_mutex_unlock(&s->channel.lock);
	while (!server->is_stopped)
		turn(server);
	pthread_join(client.thread, NULL);
	assert_int_equal(client.status, 0);
	assert_true(client.output == 42);
	inf_server_deinit(server);
	free(server);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reply_under_way),
	};
	return e2e_main(argc, argv, tests, 1);
}
