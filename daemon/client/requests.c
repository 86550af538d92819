/* SPDX-License-Identifier: BSD-3-Clause */
/* The handlers of every message that a client can send.
 *
 * What must always be true: every request is answered exactly once. This file answers it, or the file that it is
 * handed to: job.c (Infer), region.c (regions), method_requests.c (Methods), or whichever step ends its
 * inf_pending. Everything a client asks to keep is charged to its user before it is made, and every way out gives
 * the charge back or hands it to what was made. */
#include "daemon/client/requests.h"

#include "daemon/client/access.h"
#include "daemon/client/answers.h"
#include "daemon/client/binding.h"
#include "daemon/client/method_requests.h"
#include "daemon/client/pending.h"
#include "daemon/context.h"
#include "daemon/base/text.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <inttypes.h>
#include <string.h>

#ifndef INF_VERSION
#define INF_VERSION "unknown"
#endif

/* --- session -------------------------------------------------------------------------------------- */

static void on_hello(struct inf_session *s, const struct inf_request *r)
{
	uint32_t protocol = inf_protocol_choose(&r->hello);
	if (!protocol) {
		uint32_t oldest = r->hello.oldest_protocol ? r->hello.oldest_protocol : r->hello.protocol;
		inf_session_refuse(s, r->id, INF_FAILED_PRECONDITION,
			"this daemon speaks the protocol's versions %d to %d, the client %u to %u; upgrade the older one of "
			"inferd and libinferd",
			INF_PROTOCOL_OLDEST, INF_PROTOCOL, oldest, r->hello.protocol);
		return;
	}
	inf_text(s->name, sizeof(s->name), "%s", r->hello.client_name);
	if (!s->weight) { /* only once: the queues and workers use it from now on */
		bool is_less = r->hello.weight && r->hello.weight < s->user->weight;
		s->weight = is_less ? r->hello.weight : s->user->weight;
		s->hears_ends = r->hello.hears_ends;
		for (size_t i = 0; i < ET_ARRAY_LEN(s->flows); i++)
			inf_flow_init(&s->flows[i], &s->user->groups[i], s->weight);
	}
	struct inf_reply reply = { .id = r->id, .kind = INF_REPLY_HELLO };
	reply.hello = (struct inf_hello_reply){ protocol, "inferd", INF_VERSION,
		(uint32_t)(s->user->limits[INF_QUOTA_REQUESTS] < UINT32_MAX ? s->user->limits[INF_QUOTA_REQUESTS]
									    : UINT32_MAX),
		INF_TENSOR_ALIGNMENT, s->weight, s->context->has_presence };
	inf_session_reply(s, &reply);
}

/* --- models --------------------------------------------------------------------------------------- */

static void metadata_scanned(void *arg, int rc, const struct inf_variants *models, size_t n)
{
	struct inf_pending *p = arg;
	if (p->session && p->model->plan)
		inf_answer_metadata(p->session, p->id, p->model, models, n);
	else if (p->session)
		inf_session_refuse(p->session, p->id, INF_UNAVAILABLE, "the model is being unloaded");
	inf_pending_free(p);
}

static void metadata_loaded(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *model)
{
	struct inf_pending *p = ET_CONTAINER_OF(open, struct inf_pending, open);
	p->is_open = false;
	if (!p->session) {
		inf_pending_free(p);
		return;
	}
	if (status != INF_OK) {
		inf_session_refuse(p->session, p->id, status, "%s", error);
		inf_pending_free(p);
		return;
	}
	p->model = inf_model_ref(model);
	inf_repository_scan(p->session->context->repository, metadata_scanned, p);
}

static void index_scanned(void *arg, int rc, const struct inf_variants *models, size_t n)
{
	struct inf_pending *p = arg;
	if (p->session && rc < 0)
		inf_session_refuse(p->session, p->id,
			inf_is_scarcity(rc) ? INF_RESOURCE_EXHAUSTED : INF_FAILED_PRECONDITION,
			"the models' folder '%s' can't be read: %s", p->session->context->config.models, strerror(-rc));
	else if (p->session)
		inf_answer_index(p->session, p->id, p->only_ready, models, n);
	inf_pending_free(p);
}

static void load_done(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *model)
{
	struct inf_pending *p = ET_CONTAINER_OF(open, struct inf_pending, open);
	if (p->session && status == INF_OK)
		inf_session_ok(p->session, p->id);
	else if (p->session)
		inf_session_refuse(p->session, p->id, status, "%s", error);
	inf_pending_free(p);
}

static void unload_done(void *arg, const char *held)
{
	struct inf_pending *p = arg;
	if (p->session && held)
		inf_session_refuse(p->session, p->id, INF_UNAVAILABLE, "%s", held);
	else if (p->session)
		inf_session_ok(p->session, p->id);
	inf_pending_free(p);
}

static bool is_manager(struct inf_session *s, const struct inf_request *r)
{
	if (inf_session_may_manage(s))
		return true;
	inf_session_refuse(s, r->id, INF_PERMISSION_DENIED, "%s is for administrators: %s",
		inf_request_kind_name(r->kind),
		s->context->access->administrators.is_given
			? "ask one; 'administrators' of [server] in inferd.conf says who they are"
			: "connect to the manager socket, or ask an administrator to name you in 'administrators' of "
			  "[server] in inferd.conf");
	return false;
}

static void on_load(struct inf_session *s, const struct inf_request *r)
{
	struct inf_pending *p = is_manager(s, r) ? inf_pending_new(s, r->id) : NULL;
	if (!p)
		return;
	if (inf_repository_retry(s->context->repository, r->repository_model_load.model_name))
		inf_fallback_retry(&s->context->fallback, r->repository_model_load.model_name);
	p->open.must_scan = true;
	inf_pending_ask(p, r->repository_model_load.model_name, r->repository_model_load.version, "", "", -1,
		load_done);
}

static void on_unload(struct inf_session *s, const struct inf_request *r)
{
	const char *model = r->repository_model_unload.model_name;
	struct inf_pending *p = is_manager(s, r) ? inf_pending_new(s, r->id) : NULL;
	if (!p)
		return;
	if (!inf_repository_unload(s->context->repository, model, unload_done, p)) {
		inf_session_refuse(s, r->id, INF_NOT_FOUND, "model '%s' is not loaded", model);
		inf_pending_free(p);
		return;
	}
	uint64_t next_ns = inf_repository_check_held(s->context->repository);
	if (next_ns != UINT64_MAX)
		s->context->events.expect_deadline(s->context->events.self, next_ns);
}

static void await_restart(struct inf_work *work)
{
	const struct et_backend_entry *entry = ET_CONTAINER_OF(work, struct inf_pending, work)->backend;
	entry->ops->await_restart(entry->backend);
}

static void restarted(struct inf_work *work)
{
	struct inf_pending *p = ET_CONTAINER_OF(work, struct inf_pending, work);
	if (p->session)
		inf_session_ok(p->session, p->id);
	inf_pending_free(p);
}

/* What loads fail for is forgotten at once: a model that is asked for meanwhile waits for the end of the process. */
static void restart_backend(struct inf_session *s, const struct inf_request *r, const struct et_backend_entry *found)
{
	struct inf_context *context = s->context;
	struct et_diag diag = { "" };
	struct inf_pending *p = inf_pending_new(s, r->id);
	if (!p)
		return;
	if (found->ops->restart(found->backend, &diag) != ET_OK) {
		inf_session_refuse(s, r->id, INF_FAILED_PRECONDITION, "backend '%s': %s", found->ops->name, diag.text);
		inf_pending_free(p);
		return;
	}
	et_logf(&context->log, ET_LOG_NOTICE, "backend %s is restarted, as an administrator asked", found->ops->name);
	inf_repository_retry_backend(context->repository, found->ops->name);
	inf_fallback_return(&context->fallback);
	p->backend = found;
	p->work = (struct inf_work){ .run = await_restart, .done = restarted };
	inf_helper_post_for_user(context->helper, &p->work, found);
}

static void on_backend_restart(struct inf_session *s, const struct inf_request *r)
{
	struct inf_context *context = s->context;
	const char *name = r->backend_restart.name;
	const struct et_backend_entry *found = NULL;
	size_t n_name = strlen(name);
	if (!is_manager(s, r))
		return;
	for (size_t i = 0; i < context->backends.registry.n_backends; i++)
		if (strcmp(context->backends.registry.backends[i].ops->name, name) == 0)
			found = &context->backends.registry.backends[i];
	for (uint32_t i = 0; i < context->backends.n_missing && !found; i++)
		if (strncmp(context->backends.missing[i], name, n_name) == 0 &&
			context->backends.missing[i][n_name] == ':') {
			inf_session_refuse(s, r->id, INF_FAILED_PRECONDITION,
				"backend %s; it was not there when inferd started: restart inferd",
				context->backends.missing[i]);
			return;
		}
	if (!found) {
		inf_session_refuse(s, r->id, INF_NOT_FOUND, "there is no backend '%s'; 'inferctl status' lists them",
			name);
	} else if (!found->ops->restart) {
		inf_session_refuse(s, r->id, INF_FAILED_PRECONDITION,
			"backend '%s' is compiled in: there is nothing to restart", name);
	} else {
		restart_backend(s, r, found);
	}
}

/* --- bindings and requests ------------------------------------------------------------------------ */

static void on_bind(struct inf_session *s, const struct inf_request *r)
{
	struct inf_method *method = inf_method_request_find(s, r, r->bind.method);
	struct inf_refusal refusal = { INF_INTERNAL, "" };
	char why[400];
	if (!method)
		return;
	if (!inf_model_is_loaded(method->model)) {
		inf_session_refuse(s, r->id, INF_UNAVAILABLE,
			"model '%s' was unloaded; close this Method and open it again", method->model->model);
		return;
	}
	if (!inf_quota_charge(s->user, INF_QUOTA_BINDINGS, 1)) {
		inf_quota_explain(s->user, INF_QUOTA_BINDINGS, 1, why, sizeof(why));
		inf_session_refuse(s, r->id, INF_RESOURCE_EXHAUSTED, "%s", why);
		return;
	}
	struct inf_binding *b = inf_binding_new(s, method, &r->bind, &refusal);
	if (!b) {
		inf_session_refuse(s, r->id, refusal.status, "%s", refusal.text);
		return;
	}
	b->id = inf_table_add(&s->bindings, b);
	if (!b->id) {
		inf_binding_drop(b);
		inf_session_refuse(s, r->id, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory");
		return;
	}
	struct inf_reply reply = { .id = r->id, .kind = INF_REPLY_BOUND };
	reply.bound = (struct inf_bound){ b->id, b->n_zero_copy, b->n_copied };
	inf_session_reply(s, &reply);
}

static struct inf_binding *find_binding(struct inf_session *s, const struct inf_request *r, uint64_t id)
{
	struct inf_binding *b = inf_table_find(&s->bindings, id);
	if (!b)
		inf_session_refuse(s, r->id, INF_NOT_FOUND, "no binding %" PRIu64 " on this connection", id);
	return b;
}

static void on_unbind(struct inf_session *s, const struct inf_request *r)
{
	struct inf_binding *b = find_binding(s, r, r->unbind.binding);
	if (!b)
		return;
	inf_job_cancel(b, INF_CANCELLED, "its binding was unbound");
	inf_table_remove(&s->bindings, b->id);
	inf_binding_drop(b);
	inf_session_ok(s, r->id);
}

static void on_infer(struct inf_session *s, const struct inf_request *r, uint64_t now_ns)
{
	struct inf_binding *b = find_binding(s, r, r->infer.binding);
	char why[400];
	if (!b)
		return;
	enum inf_status status = inf_job_submit(b, r->id, &r->infer, now_ns, why, sizeof(why));
	if (status != INF_OK) {
		inf_context_count(s->context, false, 0);
		inf_session_refuse(s, r->id, status, "%s", why);
	}
}

static void on_cancel(struct inf_session *s, const struct inf_request *r)
{
	struct inf_binding *b;
	struct et_list_node *node, *after;
	bool is_found = false, is_late = false;
	for (uint32_t at = 0; (b = inf_table_next(&s->bindings, &at));) {
		if (inf_job_is_busy(&b->job) && b->job.id == r->cancel.request) {
			inf_job_cancel(b, INF_CANCELLED, "the request was cancelled");
			is_found = true;
		}
	}
	ET_LIST_FOR_EACH(node, after, &s->opens) {
		struct inf_pending *p = ET_CONTAINER_OF(node, struct inf_pending, node);
		if (p->id != r->cancel.request)
			continue;
		if (!p->is_open) {
			is_late = true;
			continue;
		}
		inf_session_refuse(s, p->id, INF_CANCELLED, "the request was cancelled");
		inf_pending_give_up(p);
		is_found = true;
	}
	if (is_found)
		inf_session_ok(s, r->id);
	else if (is_late)
		inf_session_refuse(s, r->id, INF_FAILED_PRECONDITION,
			"request %" PRIu64 " cannot be cancelled any more; its answer comes when it is done",
			r->cancel.request);
	else
		inf_session_refuse(s, r->id, INF_NOT_FOUND, "no request %" PRIu64 " is in flight", r->cancel.request);
}

/* --- the session's events ------------------------------------------------------------------------- */

static void on_closed(struct inf_session *s)
{
	struct et_list_node *node, *after;
	struct inf_binding *b;
	struct inf_method *method;
	ET_LIST_FOR_EACH(node, after, &s->opens)
		inf_pending_give_up(ET_CONTAINER_OF(node, struct inf_pending, node));
	for (uint32_t at = 0; (b = inf_table_next(&s->bindings, &at));) {
		inf_job_cancel(b, INF_CANCELLED, "its client is gone");
		inf_table_remove(&s->bindings, b->id);
		inf_binding_drop(b);
	}
	for (uint32_t at = 0; (method = inf_table_next(&s->methods, &at));) {
		inf_table_remove(&s->methods, method->id);
		inf_method_unref(method);
	}
	inf_client_region_drop_all(s);
}

static void on_request(struct inf_session *s, const struct inf_request *r, const int *fds, size_t n_fds,
	uint64_t now_ns)
{
	int fd = n_fds ? fds[0] : -1;
	struct inf_pending *p;
	inf_requests_move_idle(s->context);
	if (s->state == INF_SESSION_NEW && r->kind != INF_REQUEST_HELLO) {
		inf_session_close_fds(s, fds, n_fds);
		inf_session_refuse(s, r->id, INF_FAILED_PRECONDITION, "say Hello first");
		return;
	}
	switch (r->kind) {
	case INF_REQUEST_HELLO:
		on_hello(s, r);
		break;
	case INF_REQUEST_SERVER_METADATA:
		inf_answer_server_metadata(s, r->id);
		break;
	case INF_REQUEST_MODEL_READY: {
		struct inf_reply reply = { .id = r->id, .kind = INF_REPLY_MODEL_READY };
		reply.model_ready.ready = inf_repository_find_ready(s->context->repository, r->model_ready.name,
						  r->model_ready.version, "") &&
					  inf_session_may_open(s, r->model_ready.name);
		inf_session_reply(s, &reply);
		break;
	}
	case INF_REQUEST_MODEL_METADATA:
		if ((p = inf_pending_new(s, r->id)))
			inf_pending_ask(p, r->model_metadata.name, r->model_metadata.version, r->model_metadata.method,
				"", -1, metadata_loaded);
		break;
	case INF_REQUEST_REPOSITORY_INDEX:
		if ((p = inf_pending_new(s, r->id))) {
			p->only_ready = r->repository_index.ready;
			inf_repository_scan(s->context->repository, index_scanned, p);
		}
		break;
	case INF_REQUEST_REPOSITORY_MODEL_LOAD:
		on_load(s, r);
		break;
	case INF_REQUEST_REPOSITORY_MODEL_UNLOAD:
		on_unload(s, r);
		break;
	case INF_REQUEST_BACKEND_RESTART:
		on_backend_restart(s, r);
		break;
	case INF_REQUEST_MODEL_STATISTICS:
		inf_answer_statistics(s, r->id, r->model_statistics.name, r->model_statistics.version);
		break;
	case INF_REQUEST_STATUS:
		inf_answer_status(s, r->id);
		break;
	case INF_REQUEST_METHOD_OPEN:
		inf_method_request_open(s, r, fds, n_fds);
		break;
	case INF_REQUEST_METHOD_CLOSE:
		inf_method_request_close(s, r);
		break;
	case INF_REQUEST_METHOD_RESET:
		inf_method_request_reset(s, r);
		break;
	case INF_REQUEST_REGION_CREATE:
		inf_client_region_create(s, r);
		break;
	case INF_REQUEST_REGION_REGISTER:
		inf_client_region_register(s, r, fd);
		break;
	case INF_REQUEST_REGION_UNREGISTER:
		inf_client_region_unregister(s, r);
		break;
	case INF_REQUEST_REGION_STATUS:
		inf_client_region_status(s, r);
		break;
	case INF_REQUEST_BIND:
		on_bind(s, r);
		break;
	case INF_REQUEST_UNBIND:
		on_unbind(s, r);
		break;
	case INF_REQUEST_INFER:
		on_infer(s, r, now_ns);
		break;
	case INF_REQUEST_CANCEL:
		on_cancel(s, r);
		break;
	default:
		inf_session_close_fds(s, fds, n_fds);
		inf_session_refuse(s, r->id, INF_UNIMPLEMENTED,
			"this daemon (%s) does not know that message; it is newer than the daemon", INF_VERSION);
		break;
	}
}

const struct inf_session_events inf_session_requests = { .request = on_request, .closed = on_closed };

void inf_requests_move_idle(struct inf_context *context)
{
	struct et_list_node *node, *after;
	struct inf_method *method;
	if (!atomic_load_explicit(&context->has_idle_methods, memory_order_relaxed) ||
		!atomic_exchange(&context->has_idle_methods, false))
		return;
	ET_LIST_FOR_EACH(node, after, &context->sessions) {
		struct inf_session *s = ET_CONTAINER_OF(node, struct inf_session, node);
		bool is_held = false;
		for (uint32_t at = 0; (method = inf_table_next(&s->methods, &at));) {
			inf_method_move_if_idle(method);
			is_held = is_held || inf_method_waits_for_weights(method);
		}
		inf_session_hold(s, is_held);
	}
}

void inf_requests_stop_waiting(struct inf_context *context, const struct inf_method *like, enum inf_status status,
	const char *why)
{
	struct et_list_node *node, *after;
	struct inf_binding *b;
	ET_LIST_FOR_EACH(node, after, &context->sessions) {
		struct inf_session *s = ET_CONTAINER_OF(node, struct inf_session, node);
		for (uint32_t at = 0; (b = inf_table_next(&s->bindings, &at));)
			if (!like || b->method->model == like->model || b->method->first == like->first)
				inf_job_stop_waiting(b, status, why);
	}
}
