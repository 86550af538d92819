/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop and everything that hangs on it.
 *
 * Threads reach the loop through one async handle: something to bury, something to flush, something that is loaded.
 * What they want done lies in lists and flags of its own; the handle only says "look".
 *
 * Ending has an order, since each part uses those below: no new clients and requests; waiting requests answered;
 * running ones end (for as long as `drain` says); sessions closed; models unloaded by the workers; then helper,
 * repository, workers, backends. The loop itself runs until libuv has let go of every handle. A thread that still does
 * not come back is left to the kernel, which ends it with the process: whoever stops the daemon wants it stopped. */
#include "daemon/loop/server.h"

#include "daemon/model/backends.h"
#include "daemon/client/binding.h"
#include "daemon/model/fallback.h"
#include "daemon/loop/listener.h"
#include "daemon/loop/notify.h"
#include "daemon/loop/reload.h"
#include "daemon/client/session.h"
#include "daemon/base/text.h"
#include "daemon/base/thread.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
	TICK_MS = 1000,
	/* On fewer a worker that looks around takes the core that the loop and the client need to bring it work. */
	SPIN_MIN_CORES = 4,
	GRACE_NS = 2000 * 1000 * 1000, /* for what was cancelled at the end of `drain` */
};

/* --- what other threads ask for ------------------------------------------------------------------- */

void inf_server_notify(void *self)
{
	struct inf_server *server = self;
	uv_async_send(&server->async);
}

void inf_server_defer_free(struct inf_server *server, struct inf_binding *binding)
{
	struct inf_binding *first = atomic_load_explicit(&server->deferred, memory_order_relaxed);
	do {
		binding->next_deferred = first;
		/* release: pairs with the acquire in dig */
	} while (!atomic_compare_exchange_weak_explicit(&server->deferred, &first, binding, memory_order_release,
		memory_order_relaxed));
	uv_async_send(&server->async);
}

void inf_server_want_attention(struct inf_server *server)
{
	atomic_store(&server->has_attention, true);
	uv_async_send(&server->async);
}

void inf_server_crashed(struct inf_server *server)
{
	if (!atomic_exchange(&server->has_crashed, true))
		uv_async_send(&server->async);
}

void inf_server_count(struct inf_server *server, bool is_success, uint64_t copied_bytes)
{
	atomic_fetch_add_explicit(&server->n_requests, 1, memory_order_relaxed);
	if (!is_success)
		atomic_fetch_add_explicit(&server->n_failed, 1, memory_order_relaxed);
	if (copied_bytes)
		atomic_fetch_add_explicit(&server->copied_bytes, copied_bytes, memory_order_relaxed);
}

struct inf_pool *inf_server_pool(struct inf_server *server, struct et_queue_id queue)
{
	int index = inf_queues_find(&server->queues, queue);
	return index < 0 ? NULL : server->queues.pools[index];
}

static void reap(struct inf_server *server)
{
	struct inf_binding *b = atomic_exchange_explicit(&server->deferred, NULL, memory_order_acquire);
	while (b) {
		struct inf_binding *next = b->next_deferred;
		inf_binding_free(b);
		b = next;
	}
}

static void end_if_drained(struct inf_server *server);

static void on_async(uv_async_t *handle)
{
	struct inf_server *server = handle->data;
	struct et_list_node *node, *after;
	reap(server);
	if (atomic_exchange(&server->has_attention, false))
		ET_LIST_FOR_EACH(node, after, &server->sessions)
			inf_session_attend(ET_CONTAINER_OF(node, struct inf_session, node));
	if (atomic_exchange(&server->has_crashed, false))
		inf_fallback_check(server);
	inf_repository_poll(server->repository);
	reap(server);
	if (server->is_draining)
		end_if_drained(server);
}

/* --- time ----------------------------------------------------------------------------------------- */

static void check_deadlines(struct inf_server *server)
{
	server->next_deadline_ns = UINT64_MAX;
	uint64_t next_ns = inf_jobs_expire(server);
	if (next_ns != UINT64_MAX)
		inf_server_expect_deadline(server, next_ns);
}

static void on_deadline(uv_timer_t *handle)
{
	check_deadlines(handle->data);
}

void inf_server_expect_deadline(struct inf_server *server, uint64_t deadline_ns)
{
	uint64_t now_ns = et_platform_now_ns(NULL);
	if (deadline_ns >= server->next_deadline_ns)
		return;
	server->next_deadline_ns = deadline_ns;
	uint64_t ms = deadline_ns > now_ns ? (deadline_ns - now_ns + 999999) / 1000000 : 0;
	uv_update_time(&server->loop);
	uv_timer_start(&server->deadline, on_deadline, ms, 0);
}

static void on_tick(uv_timer_t *handle)
{
	struct inf_server *server = handle->data;
	char status[160];
	inf_listeners_resume(server);
	if (!server->is_draining) {
		inf_repository_evict(server->repository, et_platform_now_ns(NULL));
		inf_repository_recheck(server->repository, et_platform_now_ns(NULL));
	}
	check_deadlines(server);    /* a request may have been between two queues when its time was up */
	inf_fallback_check(server); /* a process may have died that nobody was using */
	inf_stall_watchdog_check(server);
	inf_notify_alive(); /* whatever the workers do: see stall_watchdog.c */
	size_t n = inf_text(status, sizeof(status), "%u clients, %llu requests answered", server->n_sessions,
		(unsigned long long)atomic_load_explicit(&server->n_requests, memory_order_relaxed));
	if (server->watchdog.n_stuck)
		inf_text(status + n, sizeof(status) - n, ", %u workers stuck", server->watchdog.n_stuck);
	if (!server->is_draining)
		inf_notify_status(status);
}

/* --- looking around ------------------------------------------------------------------------------- */

/* An idle handle makes libuv ask for events without sleeping: everybody is served as ever meanwhile. */
static void on_looking(uv_idle_t *handle)
{
	struct inf_server *server = handle->data;
	if (et_platform_now_ns(NULL) >= server->poll_until_ns)
		uv_idle_stop(handle);
}

void inf_server_poll_until(struct inf_server *server, uint64_t until_ns)
{
	server->poll_until_ns = until_ns;
	uv_idle_start(&server->polling, on_looking);
}

/* --- signals -------------------------------------------------------------------------------------- */

static void on_signal(uv_signal_t *handle, int number)
{
	struct inf_server *server = handle->data;
	if (number == SIGHUP) {
		inf_reload(server);
		return;
	}
	et_logf(&server->log, ET_LOG_NOTICE, "%s: ending", number == SIGTERM ? "SIGTERM" : "SIGINT");
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
	et_logf(&server->log, ET_LOG_ERROR,
		"ending though %u requests still run and will not be stopped, or a file can't be read or "
		"closed",
		n_running);
	server->is_stopped = server->is_abandoned = true;
	uv_stop(&server->loop);
}

/* Nothing runs any more: hang up, unload, and when that is done let the loop end. */
static void end_if_drained(struct inf_server *server)
{
	struct et_list_node *node, *after;
	bool is_late = et_platform_now_ns(NULL) >= server->drain_until_ns;
	if (server->is_stopped)
		return;
	/* acquire: pairs with the release in deliver; what was answered is sent, and buried what nobody uses any more */
	uint32_t n_unanswered = atomic_load_explicit(&server->n_unanswered, memory_order_acquire);
	if (n_unanswered && !is_late)
		return;
	if (n_unanswered)
		ET_LIST_FOR_EACH(node, after, &server->sessions) {
			struct inf_session *s = ET_CONTAINER_OF(node, struct inf_session, node);
			inf_session_close(s, "shutting down, it took too long");
		}
	bool has_unsent = false;
	ET_LIST_FOR_EACH(node, after, &server->sessions) {
		struct inf_session *s = ET_CONTAINER_OF(node, struct inf_session, node);
		if (inf_channel_flush(&s->channel) == INF_CHANNEL_PENDING && !is_late)
			has_unsent = true;
		else
			inf_session_close(s, "shutting down");
	}
	reap(server);
	inf_repository_unload_all(server->repository);
	inf_repository_poll(server->repository);
	if (has_unsent || server->n_sessions || !inf_repository_is_idle(server->repository) ||
		!inf_helper_is_idle(server->helper)) {
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
	struct et_list_node *node, *after;
	struct inf_binding *b;
	if (server->is_draining)
		return;
	server->is_draining = true;
	server->drain_until_ns = et_platform_now_ns(NULL) + server->config.drain_ns;
	inf_notify_stopping();
	inf_listeners_close(server);
	ET_LIST_FOR_EACH(node, after, &server->sessions) {
		struct inf_session *s = ET_CONTAINER_OF(node, struct inf_session, node);
		for (uint32_t at = 0; (b = inf_table_next(&s->bindings, &at));)
			inf_job_stop_waiting(b, INF_UNAVAILABLE, "inferd is shutting down");
	}
	uv_timer_start(&server->drain, on_drain, 0, 20);
}

/* --- starting ------------------------------------------------------------------------------------- */

/* The folder may come, or be filled, later; but who has just named it wants to know now. */
static void looked_at_models(void *self, int rc, const struct inf_variants *models, size_t n)
{
	const struct inf_server *server = self;
	if (rc < 0)
		et_logf(&server->log, ET_LOG_WARNING,
			"clients find no model: %s: %s; 'models' in inferd.conf, or --models, names another "
			"folder",
			server->config.models, strerror(-rc));
	else if (!n)
		et_logf(&server->log, ET_LOG_NOTICE, "no model yet in %s; one goes to NAME/1/model.pte there",
			server->config.models);
}

/* Without one every load packs weights anew; that is no reason not to start. */
static void open_store(struct inf_server *server)
{
	struct et_diag diag = { "" };
	if (!server->config.cache[0] || !server->config.cache_limit)
		return;
	server->store = et_platform_store_new(server->config.cache, server->config.cache_limit, &server->log, &diag);
	if (!server->store)
		et_logf(&server->log, ET_LOG_NOTICE,
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
	et_logf(&server->log, ET_LOG_ERROR, "can't start: %s: %s", what,
		diag && diag->text[0] ? diag->text : strerror(-rc));
	return rc;
}

/* Of the descriptors it may have, those that clients get: not what is open already, nor some to work with. */
static void limit_descriptors(struct inf_server *server)
{
	enum { RESERVE = 128 };
	struct rlimit limit;
	int next = fcntl(0, F_DUPFD_CLOEXEC, 0); /* the lowest free number is how many there are, but for gaps */
	if (next < 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	close(next);
	uint64_t n = limit.rlim_cur > (rlim_t)next ? limit.rlim_cur - (rlim_t)next : 0;
	inf_quota_set_max_fds(&server->quota, n > 2 * RESERVE ? n - RESERVE : n / 2 + 1);
}

/* One queue for the CPU, one for each other device, with as many workers as it wants runs at once. */
static int start_queues(struct inf_server *server, struct et_diag *diag)
{
	const struct inf_config *config = &server->config;
	const struct et_registry *registry = &server->registry;
	struct inf_queues *queues = &server->queues;
	struct inf_pool_options pool = {
		.queue = { .kind = ET_QUEUE_CPU },
		.n_workers = config->workers ? config->workers : inf_n_cores(),
		.has_all_cores = true,
		.age_ns = config->age_ns,
		.spin_ns = inf_n_cores() >= SPIN_MIN_CORES ? config->spin_ns : 0,
		.registry = registry,
		.log = &server->log,
		.allocator = et_platform_allocator(),
	};
	struct inf_pool_events events = inf_job_events;
	events.self = server;
	int rc = inf_pool_new(&queues->pools[0], &pool, &events, diag);
	if (rc < 0)
		return rc;
	queues->n = 1;
	pool.has_all_cores = false;
	for (size_t b = 0; b < registry->n_backends; b++)
		for (uint32_t d = 0; d < registry->backends[b].ops->n_devices(registry->backends[b].backend); d++) {
			struct et_device device = { 0 };
			registry->backends[b].ops->device(registry->backends[b].backend, d, &device);
			pool.queue = et_registry_queue(registry, b, d);
			pool.first_worker = inf_queues_n_plan_workers(queues);
			pool.n_workers = device.max_in_flight < 1    ? 1
					 : device.max_in_flight < 16 ? device.max_in_flight
								     : 16;
			if (inf_queues_find(queues, pool.queue) >= 0)
				continue;
			if (queues->n == INF_QUEUES_MAX) {
				et_logf(&server->log, ET_LOG_WARNING, "more than %d devices; '%s' gets no queue",
					INF_QUEUES_MAX, device.name);
				continue;
			}
			rc = inf_pool_new(&queues->pools[queues->n], &pool, &events, diag);
			if (rc < 0)
				return rc;
			queues->n++;
			et_logf(&server->log, ET_LOG_NOTICE, "queue %s%u: %s of backend %s",
				et_queue_kind_name((enum et_queue_kind)pool.queue.kind), pool.queue.device, device.name,
				registry->backends[b].ops->name);
		}
	return 0;
}

int inf_server_init(struct inf_server *server)
{
	const struct inf_config *config = &server->config;
	struct et_diag diag = { "" };
	server->started_ns = et_platform_now_ns(NULL);
	server->next_deadline_ns = UINT64_MAX;
	server->reply.fd = -1;
	et_list_init(&server->sessions);
	inf_quota_init(&server->quota);
	inf_stall_watchdog_init(&server->watchdog);
	inf_codec_init(&server->request_codec, et_platform_allocator());
	inf_codec_init(&server->reply.codec, et_platform_allocator());
	inf_reload_limits(server);
	int rc = init_loop(server);
	if (rc < 0)
		return fail(server, "event loop", rc, NULL);
	rc = inf_backends_open(server);
	if (rc < 0)
		return fail(server, "backends", rc, NULL);
	rc = start_queues(server, &diag);
	if (rc < 0)
		return fail(server, "workers", rc, &diag);
	rc = inf_helper_new(&server->helper, inf_server_notify, server);
	if (rc < 0)
		return fail(server, "helper", rc, NULL);
	open_store(server);
	struct inf_repository_options repository = {
		.config = config,
		.registry = &server->registry,
		.shared_pages = &server->shared_pages.allocator,
		.queues = &server->queues,
		.watchdog = &server->watchdog,
		.helper = server->helper,
		.log = &server->log,
		.store = server->store,
		.notify = inf_server_notify,
		.self = server,
	};
	rc = inf_repository_new(&server->repository, &repository);
	if (rc < 0)
		return fail(server, "repository", rc, NULL);
	rc = inf_listeners_open(server);
	if (rc < 0)
		return rc;
	inf_repository_reconfigured(server->repository);
	inf_repository_scan(server->repository, looked_at_models, server);
	limit_descriptors(server);
	return 0;
}

int inf_server_run(struct inf_server *server)
{
	uint64_t watchdog_ms = inf_notify_watchdog_ns() / 1000000;
	uint64_t tick_ms = watchdog_ms && watchdog_ms / 2 < TICK_MS ? watchdog_ms / 2 + 1 : TICK_MS;
	uv_timer_start(&server->tick, on_tick, tick_ms, tick_ms);
	et_logf(&server->log, ET_LOG_NOTICE, "ready: %u workers, models in %s",
		inf_pool_n_workers(server->queues.pools[0]), server->config.models);
	inf_notify_ready("Ready");
	int rc = uv_run(&server->loop, UV_RUN_DEFAULT);
	et_logf(&server->log, ET_LOG_NOTICE, "ended after %llu requests",
		(unsigned long long)atomic_load(&server->n_requests));
	return server->is_abandoned ? -ETIMEDOUT : rc < 0 ? rc : 0;
}

void inf_server_deinit(struct inf_server *server)
{
	inf_listeners_close(server);
	server->helper = inf_helper_free(server->helper);
	if (server->has_loop && !server->is_stopped) /* never ran */
		close_handles(server);
	server->repository = inf_repository_free(server->repository);
	server->store = et_platform_store_unref(server->store);
	while (server->queues.n)
		inf_pool_free(server->queues.pools[--server->queues.n]);
	inf_backends_close(server);
	if (server->has_loop) {
		uv_run(&server->loop, UV_RUN_DEFAULT);
		uv_loop_close(&server->loop);
	}
	inf_codec_deinit(&server->request_codec);
	inf_codec_deinit(&server->reply.codec);
	inf_quota_deinit(&server->quota);
	inf_stall_watchdog_deinit(&server->watchdog);
	free(server->rules);
	inf_config_deinit(&server->config);
}
