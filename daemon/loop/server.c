/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop thread: starting, serving, ending.
 *
 * Other threads reach the loop through one async handle. What they want done is in lists and flags of its own
 * (bindings to be freed, sessions with something to send, work that is done); the handle only wakes the loop.
 *
 * Ending has an order, since each part uses those below it: no new clients and requests; waiting requests are
 * answered; running requests end, for as long as `drain` says; sessions are closed; workers unload the models; then
 * the helper, the repository, the workers and the backends end. The loop runs until libuv has closed every handle.
 * If a thread still does not come back, the process ends without it, since the administrator or service manager
 * wants the daemon stopped. */
#include "daemon/loop/server.h"

#include "daemon/base/text.h"
#include "daemon/client/access.h"
#include "daemon/client/binding.h"
#include "daemon/client/give_up.h"
#include "daemon/client/method.h"
#include "daemon/client/requests.h"
#include "daemon/loop/dead_queue.h"
#include "daemon/loop/notify.h"
#include "daemon/loop/reload.h"
#include "daemon/loop/stall_watchdog.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
	TICK_MS = 1000,
	READY_WITHOUT_PINNED_MS = 60 * 1000, /* systemd's DefaultTimeoutStartSec is 90 s */
	/* Workers do not spin on fewer cores: they would take the core that the loop or a client needs to bring
	 * work. */
	SPIN_MIN_CORES = 4,
	GRACE_NS = 2000 * 1000 * 1000, /* for requests that are cancelled at the end of `drain` */
};

/* --- the context's events ------------------------------------------------------------------------- */

static void notify(void *self)
{
	struct inf_server *server = self;
	uv_async_send(&server->async);
}

static void defer_free(void *self, struct inf_binding *binding)
{
	struct inf_server *server = self;
	struct inf_binding *first = atomic_load_explicit(&server->deferred, memory_order_relaxed);
	do {
		binding->next_deferred = first;
		/* release: pairs with the acquire in free_deferred */
	} while (!atomic_compare_exchange_weak_explicit(&server->deferred, &first, binding, memory_order_release,
		memory_order_relaxed));
	uv_async_send(&server->async);
}

static void want_attention(void *self)
{
	struct inf_server *server = self;
	atomic_store(&server->has_attention, true);
	uv_async_send(&server->async);
}

static void backend_crashed(void *self)
{
	struct inf_server *server = self;
	if (!atomic_exchange(&server->has_crashed, true))
		uv_async_send(&server->async);
}

/* An idle handle makes libuv poll without sleeping; all other events are handled as usual meanwhile. */
static void on_polling(uv_idle_t *handle)
{
	struct inf_server *server = handle->data;
	if (et_platform_now_ns(NULL) >= server->poll_until_ns)
		uv_idle_stop(handle);
}

static void poll_until(void *self, uint64_t until_ns)
{
	struct inf_server *server = self;
	server->poll_until_ns = until_ns;
	uv_idle_start(&server->polling, on_polling);
}

static void on_deadline(uv_timer_t *handle);

static void expect_deadline(void *self, uint64_t deadline_ns)
{
	struct inf_server *server = self;
	uint64_t now_ns = et_platform_now_ns(NULL);
	if (deadline_ns >= server->next_deadline_ns)
		return;
	server->next_deadline_ns = deadline_ns;
	uint64_t ms = deadline_ns > now_ns ? (deadline_ns - now_ns + 999999) / 1000000 : 0;
	uv_update_time(&server->loop);
	uv_timer_start(&server->deadline, on_deadline, ms, 0);
}

static void resume_accepting(void *self)
{
	struct inf_server *server = self;
	inf_listeners_resume(&server->listeners);
}

/* --- what other threads asked for ----------------------------------------------------------------- */

static void free_deferred(struct inf_server *server)
{
	struct inf_binding *b = atomic_exchange_explicit(&server->deferred, NULL, memory_order_acquire);
	while (b) {
		struct inf_binding *next = b->next_deferred;
		inf_binding_free(b);
		b = next;
	}
}

static void end_if_drained(struct inf_server *server);

/* The service is ready when the pinned models are: clients that the manager starts after it find them loaded. A load
 * that takes longer than the manager may wait for a start goes on behind READY. Clients are served before, too. */
static void tell_if_ready(struct inf_server *server)
{
	const struct inf_context *context = &server->context;
	if (server->is_ready || context->is_draining)
		return;
	bool has_pinned = inf_repository_has_pinned(context->repository);
	if (!has_pinned && et_platform_now_ns(NULL) - server->began_ns < READY_WITHOUT_PINNED_MS * 1000000ull)
		return;
	server->is_ready = true;
	et_logf(&context->log, ET_LOG_NOTICE, "ready: %u workers, models in %s%s",
		inf_pool_n_workers(context->queues.pools[0]), context->config.models,
		has_pinned ? "" : "; pinned models are still being loaded");
	inf_notify_ready("Ready");
}

static void on_async(uv_async_t *handle)
{
	struct inf_server *server = handle->data;
	struct et_list_node *node, *after;
	free_deferred(server);
	if (atomic_exchange(&server->has_attention, false))
		ET_LIST_FOR_EACH(node, after, &server->context.sessions)
			inf_session_attend(ET_CONTAINER_OF(node, struct inf_session, node));
	if (atomic_exchange(&server->has_crashed, false) && !server->context.is_draining)
		inf_fallback_check(&server->context.fallback);
	inf_requests_move_idle(&server->context);
	inf_repository_poll(server->context.repository);
	tell_if_ready(server);
	for (uint32_t i = 0; i < server->context.queues.n; i++)
		inf_jobs_relieve(&server->context, server->context.queues.pools[i], false);
	free_deferred(server);
	if (server->context.is_draining)
		end_if_drained(server);
}

/* --- time ----------------------------------------------------------------------------------------- */

static void check_deadlines(struct inf_server *server)
{
	server->next_deadline_ns = UINT64_MAX;
	uint64_t next_ns = inf_jobs_expire(&server->context);
	if (next_ns != UINT64_MAX)
		expect_deadline(server, next_ns);
	next_ns = inf_repository_check_held(server->context.repository);
	if (next_ns != UINT64_MAX)
		expect_deadline(server, next_ns);
}

static void on_deadline(uv_timer_t *handle)
{
	check_deadlines(handle->data);
}

/* What needs an administrator comes first: a long status is cut. */
static void tell_status(const struct inf_context *context)
{
	char status[1000];
	size_t n = inf_dead_queues_describe(context, status, sizeof(status));
	if (context->reload_note[0] && n < sizeof(status))
		n += inf_text(status + n, sizeof(status) - n, "%s; ", context->reload_note);
	if (n < sizeof(status))
		n += inf_text(status + n, sizeof(status) - n, "%u clients, %llu requests answered", context->n_sessions,
			(unsigned long long)atomic_load_explicit(&context->n_requests, memory_order_relaxed));
	if (context->stuck.n && n < sizeof(status))
		inf_text(status + n, sizeof(status) - n, ", %u workers stuck", context->stuck.n);
	inf_notify_status(status);
}

static void on_tick(uv_timer_t *handle)
{
	struct inf_server *server = handle->data;
	struct inf_context *context = &server->context;
	inf_listeners_resume(&server->listeners);
	if (!context->is_draining) {
		inf_repository_evict(context->repository, et_platform_now_ns(NULL));
		inf_repository_recheck(context->repository, et_platform_now_ns(NULL));
	}
	check_deadlines(server); /* a request may have been between two queues when its deadline passed */
	if (!context->is_draining)
		inf_fallback_check(&context->fallback); /* a backend's process may have died without a request */
	inf_stall_watchdog_check(context);
	inf_dead_queues_check(context);
	inf_quota_report_logs(&server->quota, false);
	if (!context->n_dead_queues) /* even if workers are stuck: see stall_watchdog.c */
		inf_notify_alive();
	tell_if_ready(server);
	if (!context->is_draining)
		tell_status(context);
}

/* --- signals -------------------------------------------------------------------------------------- */

static void on_signal(uv_signal_t *handle, int number)
{
	struct inf_server *server = handle->data;
	if (number == SIGHUP) {
		inf_reload(&server->context, server->load_config);
		return;
	}
	et_logf(&server->context.log, ET_LOG_NOTICE, "%s: ending", number == SIGTERM ? "SIGTERM" : "SIGINT");
	inf_server_drain(server);
}

/* --- ending --------------------------------------------------------------------------------------- */

static void close_handles(struct inf_server *server)
{
	uv_close((uv_handle_t *)&server->async, NULL);
	uv_close((uv_handle_t *)&server->polling, NULL);
	uv_close((uv_handle_t *)&server->tick, NULL);
	uv_close((uv_handle_t *)&server->deadline, NULL);
	uv_close((uv_handle_t *)&server->drain, NULL);
	for (size_t i = 0; i < ET_ARRAY_LEN(server->signals); i++)
		uv_close((uv_handle_t *)&server->signals[i], NULL);
}

static void abandon(struct inf_server *server, uint32_t n_running)
{
	et_logf(&server->context.log, ET_LOG_ERROR,
		"ending although %u requests still run and can't be stopped, or a file can't be read or closed",
		n_running);
	server->is_stopped = server->is_abandoned = true;
	uv_stop(&server->loop);
}

/* Called again and again while draining: once no request runs, close the sessions and unload the models; when that
 * is done, close the handles, so that the loop ends. */
static void end_if_drained(struct inf_server *server)
{
	struct et_list_node *node, *after;
	bool is_late = et_platform_now_ns(NULL) >= server->drain_until_ns;
	if (server->is_stopped)
		return;
	/* acquire: pairs with the release in deliver (job.c): every reply is sent, and unused bindings are in
	 * `deferred` */
	uint32_t n_unanswered = atomic_load_explicit(&server->context.n_unanswered, memory_order_acquire);
	if (n_unanswered && !is_late)
		return;
	if (n_unanswered)
		ET_LIST_FOR_EACH(node, after, &server->context.sessions) {
			struct inf_session *s = ET_CONTAINER_OF(node, struct inf_session, node);
			inf_session_close(s, "shutting down, it took too long");
		}
	bool has_unsent = false;
	ET_LIST_FOR_EACH(node, after, &server->context.sessions) {
		struct inf_session *s = ET_CONTAINER_OF(node, struct inf_session, node);
		if (inf_channel_flush(&s->channel) == INF_CHANNEL_PENDING && !is_late)
			has_unsent = true;
		else
			inf_session_close(s, "shutting down");
	}
	free_deferred(server);
	inf_repository_unload_all(server->context.repository);
	inf_repository_poll(server->context.repository);
	if (has_unsent || server->context.n_sessions || !inf_repository_is_idle(server->context.repository) ||
		!inf_helper_is_idle(server->context.helper)) {
		if (is_late && et_platform_now_ns(NULL) - server->drain_until_ns > GRACE_NS)
			abandon(server, n_unanswered);
		return;
	}
	server->is_stopped = true;
	close_handles(server);
}

static void on_drain(uv_timer_t *handle)
{
	end_if_drained(handle->data);
}

void inf_server_drain(struct inf_server *server)
{
	if (server->context.is_draining)
		return;
	server->context.is_draining = true;
	server->drain_until_ns = et_platform_now_ns(NULL) + server->context.config.drain_ns;
	inf_notify_stopping();
	inf_listeners_close(&server->listeners);
	inf_requests_stop_waiting(&server->context, NULL, INF_UNAVAILABLE, "inferd is shutting down");
	uv_timer_start(&server->drain, on_drain, 0, 20);
}

/* --- starting ------------------------------------------------------------------------------------- */

/* A model folder that is missing or empty may be filled later; an administrator who has just configured it is told
 * now. */
static void models_scanned(void *self, int rc, const struct inf_variants *models, size_t n)
{
	const struct inf_server *server = self;
	if (rc < 0)
		et_logf(&server->context.log, ET_LOG_WARNING,
			"clients find no model: %s: %s; 'models' in inferd.conf, or --models, names another folder",
			server->context.config.models, strerror(-rc));
	else if (!n)
		et_logf(&server->context.log, ET_LOG_NOTICE, "no model yet in %s; one goes to NAME/1/model.pte there",
			server->context.config.models);
}

/* Without a store every load packs weights anew; the daemon starts all the same. */
static void open_store(struct inf_server *server)
{
	struct et_diag diag = { "" };
	if (!server->context.config.cache[0] || !server->context.config.cache_limit)
		return;
	server->context.store = et_platform_store_new(server->context.config.cache, server->context.config.cache_limit,
		&server->context.log, &diag);
	if (!server->context.store)
		et_logf(&server->context.log, ET_LOG_NOTICE,
			"packed weights are not kept: %s; 'cache' in inferd.conf names their folder", diag.text);
}

static int init_loop(struct inf_server *server)
{
	static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
	int rc = uv_loop_init(&server->loop);
	if (rc < 0)
		return rc;
	server->has_loop = true;
	server->async.data = server->polling.data = server->tick.data = server->deadline.data = server->drain
													.data = server;
	rc = uv_async_init(&server->loop, &server->async, on_async);
	if (rc < 0)
		return rc;
	uv_idle_init(&server->loop, &server->polling);
	uv_timer_init(&server->loop, &server->tick);
	uv_timer_init(&server->loop, &server->deadline);
	uv_timer_init(&server->loop, &server->drain);
	for (size_t i = 0; i < ET_ARRAY_LEN(numbers); i++) {
		server->signals[i].data = server;
		uv_signal_init(&server->loop, &server->signals[i]);
		rc = uv_signal_start(&server->signals[i], on_signal, numbers[i]);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int fail(struct inf_server *server, const char *what, int rc, const struct et_diag *diag)
{
	et_logf(&server->context.log, ET_LOG_ERROR, "can't start: %s: %s", what,
		diag && diag->text[0] ? diag->text : strerror(-rc));
	return rc;
}

/* Divide what the process may have among clients and the daemon's own work: descriptors that are not open already, and
 * the memory of the machine or, if that is less, of the cgroup. */
static void divide_resources(struct inf_server *server)
{
	struct inf_quota_machine machine = { UINT64_MAX, UINT64_MAX, server->context.config.memory_budget };
	uint64_t total = uv_get_total_memory(), constrained = uv_get_constrained_memory(); /* 0: unknown */
	struct rlimit limit;
	int next = fcntl(0, F_DUPFD_CLOEXEC, 0); /* without gaps, the lowest free number is how many are open */
	if (next >= 0) {
		close(next);
		if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
			machine.n_fds = limit.rlim_cur > (rlim_t)next ? limit.rlim_cur - (rlim_t)next : 0;
	}
	if (total)
		machine.n_bytes = total;
	if (constrained && constrained < machine.n_bytes)
		machine.n_bytes = constrained;
	inf_quota_divide(&server->quota, &machine);
	const struct inf_quota_total *users = &server->quota.all_users;
	et_logf(&server->context.log, ET_LOG_INFO,
		"all users together may hold %" PRIu64 " descriptors and %" PRIu64 " bytes", users->max[INF_QUOTA_FDS],
		users->max[INF_QUOTA_BYTES]);
}

/* One queue for the CPU and one for each other device, which gets a worker for each run that it can have in flight. */
static int start_queues(struct inf_server *server, struct et_diag *diag)
{
	const struct inf_config *config = &server->context.config;
	const struct et_registry *registry = &server->context.backends.registry;
	struct inf_queues *queues = &server->context.queues;
	uint32_t n_cores = et_platform_n_cores();
	if (config->workers > n_cores)
		et_logf(&server->context.log, ET_LOG_WARNING,
			"workers = %u, but this process may use %u core%s (affinity and CPU quota): they wait for each other",
			config->workers, n_cores, n_cores == 1 ? "" : "s");
	server->context.n_cores = n_cores;
	struct inf_pool_options pool = {
		.queue = { .kind = ET_QUEUE_CPU },
		.n_workers = config->workers ? config->workers : n_cores,
		.has_all_cores = n_cores > 1,
		.n_spares = inf_pool_n_spares_for(config->workers ? config->workers : n_cores),
		.age_ns = config->age_ns,
		.spin_ns = n_cores >= SPIN_MIN_CORES ? config->spin_ns : 0,
		.registry = registry,
		.log = &server->context.log,
		.allocator = et_platform_allocator(),
	};
	struct inf_pool_events events = inf_job_events;
	events.self = &server->context;
	int rc = inf_pool_new(&queues->pools[0], &pool, &events, diag);
	if (rc < 0)
		return rc;
	queues->n = 1;
	pool.has_all_cores = false;
	pool.n_spares = 0; /* a device works on so many requests as it says */
	for (size_t b = 0; b < registry->n_backends; b++)
		for (uint32_t d = 0; d < registry->backends[b].ops->n_devices(registry->backends[b].backend); d++) {
			struct et_device device = { 0 };
			registry->backends[b].ops->device(registry->backends[b].backend, d, &device);
			pool.queue = et_registry_queue(registry, b, d);
			pool.first_worker = inf_queues_n_plan_workers(queues);
			pool.n_workers = device.max_in_flight < 1    ? 1
					 : device.max_in_flight < 16 ? device.max_in_flight
								     : 16;
			pool.keeps_one = device.takes_turns;
			if (inf_queues_find(queues, pool.queue) >= 0)
				continue;
			if (queues->n == INF_QUEUES_MAX) {
				et_logf(&server->context.log, ET_LOG_WARNING,
					"more than %d devices; '%s' gets no queue", INF_QUEUES_MAX, device.name);
				continue;
			}
			rc = inf_pool_new(&queues->pools[queues->n], &pool, &events, diag);
			if (rc < 0)
				return rc;
			queues->n++;
			et_logf(&server->context.log, ET_LOG_NOTICE, "queue %s%u: %s of backend %s",
				et_queue_kind_name((enum et_queue_kind)pool.queue.kind), pool.queue.device, device.name,
				registry->backends[b].ops->name);
		}
	return 0;
}

int inf_server_init(struct inf_server *server)
{
	struct inf_context *context = &server->context;
	const struct inf_config *config = &context->config;
	struct et_diag diag = { "" };
	context->started_ns = et_platform_now_ns(NULL);
	server->next_deadline_ns = UINT64_MAX;
	context->quota = &server->quota;
	context->events = (struct inf_context_events){
		.self = server,
		.notify = notify,
		.defer_free = defer_free,
		.want_attention = want_attention,
		.backend_crashed = backend_crashed,
		.poll_until = poll_until,
		.expect_deadline = expect_deadline,
		.resume_accepting = resume_accepting,
	};
	context->reply.fd = -1;
	et_list_init(&context->sessions);
	inf_quota_init(&server->quota);
	inf_stuck_init(&context->stuck);
	inf_codec_init(&context->request_codec, et_platform_allocator());
	inf_codec_init(&context->reply.codec, et_platform_allocator());
	server->quota.log = &context->log;
	int rc = inf_reload_users(context, config);
	if (rc < 0)
		return fail(server, "users", rc, NULL);
	rc = init_loop(server);
	if (rc < 0)
		return fail(server, "event loop", rc, NULL);
	rc = inf_backends_open(&context->backends, config, &context->log);
	if (rc < 0)
		return fail(server, "backends", rc, NULL);
	rc = start_queues(server, &diag);
	if (rc < 0)
		return fail(server, "workers", rc, &diag);
	rc = inf_helper_new(&context->helper, notify, server);
	if (rc < 0)
		return fail(server, "helper", rc, NULL);
	open_store(server);
	struct inf_repository_options repository = {
		.config = config,
		.registry = &context->backends.registry,
		.shared_pages = &context->backends.shared_pages.allocator,
		.queues = &context->queues,
		.stuck = &context->stuck,
		.helper = context->helper,
		.log = &context->log,
		.store = context->store,
		.notify = notify,
		.self = server,
	};
	rc = inf_repository_new(&context->repository, &repository);
	if (rc < 0)
		return fail(server, "repository", rc, NULL);
	context->fallback = (struct inf_fallback){
		.registry = &context->backends.registry,
		.repository = context->repository,
		.log = &context->log,
		.successor_found = inf_methods_note_idle,
		.self = context,
	};
	rc = inf_listeners_open(&server->listeners, context, &server->loop);
	if (rc < 0)
		return rc;
	inf_repository_reconfigured(context->repository);
	inf_repository_scan(context->repository, models_scanned, server);
	divide_resources(server);
	return 0;
}

int inf_server_run(struct inf_server *server)
{
	uint64_t watchdog_ms = inf_notify_watchdog_ns() / 1000000;
	uint64_t tick_ms = watchdog_ms && watchdog_ms / 2 < TICK_MS ? watchdog_ms / 2 + 1 : TICK_MS;
	uv_timer_start(&server->tick, on_tick, tick_ms, tick_ms);
	server->began_ns = et_platform_now_ns(NULL);
	tell_if_ready(server);
	int rc = uv_run(&server->loop, UV_RUN_DEFAULT);
	et_logf(&server->context.log, ET_LOG_NOTICE, "ended after %llu requests",
		(unsigned long long)atomic_load(&server->context.n_requests));
	return server->is_abandoned ? -ETIMEDOUT : rc < 0 ? rc : 0;
}

void inf_server_deinit(struct inf_server *server)
{
	inf_listeners_close(&server->listeners);
	server->context.helper = inf_helper_free(server->context.helper);
	if (server->has_loop && !server->is_stopped) /* never ran */
		close_handles(server);
	server->context.repository = inf_repository_free(server->context.repository);
	server->context.store = et_platform_store_unref(server->context.store);
	while (server->context.queues.n)
		inf_pool_free(server->context.queues.pools[--server->context.queues.n]);
	inf_backends_close(&server->context.backends);
	if (server->has_loop) {
		uv_run(&server->loop, UV_RUN_DEFAULT);
		uv_loop_close(&server->loop);
	}
	inf_codec_deinit(&server->context.request_codec);
	inf_codec_deinit(&server->context.reply.codec);
	inf_quota_report_logs(&server->quota, true);
	free(server->quota.rules);
	inf_quota_deinit(&server->quota);
	inf_access_free(server->context.access);
	inf_stuck_deinit(&server->context.stuck);
	inf_config_deinit(&server->context.config);
}
