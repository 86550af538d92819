/* SPDX-License-Identifier: BSD-3-Clause */
/* What each message does.
 *
 * Every request is answered exactly once: here, or by the job (Infer), or in region.c (regions), or (what waits
 * for a model or for the folder) by a `pending` that belongs to its session. Whatever a client asks to keep is charged
 * to its user before it is made, and every way out gives the charge back or hands it to what was made. */
#include "daemon/client/requests.h"

#include "daemon/client/answers.h"
#include "daemon/client/binding.h"
#include "daemon/context.h"
#include "daemon/base/text.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifndef INF_VERSION
#define INF_VERSION "unknown"
#endif

/* A request whose answer comes later. */
struct pending {
	struct et_list_node node;
	struct inf_session *session; /* NULL: nobody waits for it any more; free this when the step comes back */
	uint64_t id;
	struct inf_open open;
	bool is_open;                /* the repository has `open` */
	struct inf_quota_user *user; /* a reference, and counted there */
	uint64_t n_charged_bytes, n_charged_fds;
	bool has_charge; /* a Method and those bytes, and another reference to the user */
	bool only_ready;
	bool wants_backend;      /* it asks for a particular one */
	struct inf_model *model; /* a reference: whose folder is looked at, or what open.beside is */
	/* A Method whose state is large, being made or reset: a reference. */
	struct inf_method *method;
	struct inf_method *with; /* one that is to be shared with: a reference */
	struct inf_work work;
	struct inf_refusal refusal;
	bool has_state;
};

/* Those count that were given up and still are in a step somewhere: what asks and cancels, or asks and hangs up, and
 * begins again, makes no more work than what waits. */
static struct pending *new_pending(struct inf_session *s, uint64_t id)
{
	char why[400];
	if (!inf_quota_charge(s->user, INF_QUOTA_OPENS, 1)) {
		inf_quota_explain(s->user, INF_QUOTA_OPENS, 1, why, sizeof(why));
		inf_session_refuse(s, id, INF_RESOURCE_EXHAUSTED, "%s", why);
		return NULL;
	}
	struct pending *p = calloc(1, sizeof(*p));
	if (!p) {
		inf_quota_discharge(s->user, INF_QUOTA_OPENS, 1);
		inf_session_refuse(s, id, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory");
		return NULL;
	}
	p->session = s;
	p->id = id;
	p->user = s->user;
	p->user->n_refs++;
	et_list_append(&s->opens, &p->node);
	return p;
}

static void free_pending(struct pending *p)
{
	if (p->n_charged_fds)
		inf_quota_discharge(p->user, INF_QUOTA_FDS, p->n_charged_fds);
	if (p->has_charge) {
		inf_quota_discharge(p->user, INF_QUOTA_METHODS, 1);
		inf_quota_discharge(p->user, INF_QUOTA_BYTES, p->n_charged_bytes);
		inf_quota_user_unref(p->user);
	}
	inf_model_unref(p->model);
	inf_method_unref(p->with);
	et_list_remove(&p->node);
	inf_quota_discharge(p->user, INF_QUOTA_OPENS, 1);
	inf_quota_user_unref(p->user);
	free(p);
}

/* --- session -------------------------------------------------------------------------------------- */

static void on_hello(struct inf_session *s, const struct inf_request *r)
{
	if (r->hello.protocol != INF_PROTOCOL) {
		inf_session_refuse(s, r->id, INF_FAILED_PRECONDITION,
			"this daemon speaks protocol %d, the client protocol %u; use the libinferd that came "
			"with it",
			INF_PROTOCOL, r->hello.protocol);
		return;
	}
	inf_text(s->name, sizeof(s->name), "%s", r->hello.client_name);
	if (!s->weight) { /* once: from here on the queues use it */
		bool is_less = r->hello.weight && r->hello.weight < s->user->weight;
		s->weight = is_less ? r->hello.weight : s->user->weight;
		for (size_t i = 0; i < ET_ARRAY_LEN(s->flows); i++)
			inf_flow_init(&s->flows[i], &s->user->groups[i], s->weight);
	}
	struct inf_reply reply = { .id = r->id, .kind = INF_REPLY_HELLO };
	reply.hello = (struct inf_hello_reply){ INF_PROTOCOL, "inferd", INF_VERSION,
		(uint32_t)(s->user->limits[INF_QUOTA_REQUESTS] < UINT32_MAX ? s->user->limits[INF_QUOTA_REQUESTS]
									    : UINT32_MAX),
		INF_TENSOR_ALIGNMENT, s->weight };
	inf_session_reply(s, &reply);
}

/* --- models --------------------------------------------------------------------------------------- */

static void ask(struct pending *p, const char *model, const char *version, const char *method, const char *backend,
	int fd, void (*done)(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *model))
{
	p->open.model = model;
	p->open.version = version;
	p->open.method = method;
	p->open.backend = backend;
	p->open.fd = fd;
	p->open.done = done;
	p->open.whose = p->user;
	p->is_open = true;
	inf_repository_open(p->session->context->repository, &p->open);
}

/* There is a Method, perhaps without a state for want of memory: it is the session's, or goes. */
static void finish_open(struct pending *p)
{
	struct inf_session *s = p->session;
	struct inf_method *method = p->method;
	struct inf_model *model = method->model;
	struct inf_reply reply = { .id = p->id, .kind = INF_REPLY_METHOD_OPENED };
	struct et_pool pool;
	if (!s || !p->has_state) {
		if (s)
			inf_session_refuse(s, p->id, p->refusal.status, "%s", p->refusal.text);
		inf_method_unref(method);
		free_pending(p);
		return;
	}
	et_pool_init(&pool, et_platform_allocator());
	struct inf_method_opened *m = &reply.method_opened;
	m->method = method->id = inf_table_add(&s->methods, method);
	m->inputs = inf_answer_tensors(&pool, model->info->inputs, model->info->n_inputs, "input");
	m->outputs = inf_answer_tensors(&pool, model->info->outputs, model->info->n_outputs, "output");
	m->n_inputs = model->info->n_inputs;
	m->n_outputs = model->info->n_outputs;
	m->version = model->version;
	m->backend = model->backend;
	m->stateful = model->info->is_stateful;
	if (!method->id || !m->inputs || !m->outputs) {
		inf_table_remove(&s->methods, method->id);
		inf_method_unref(method);
		inf_session_refuse(s, p->id, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory");
	} else {
		inf_session_reply(s, &reply);
	}
	et_pool_deinit(&pool);
	free_pending(p);
}

/* A large state is made and reset on a helper's thread: a gigabyte of it would hold up everybody for half a second. */
static void make_state(struct inf_work *work)
{
	struct pending *p = ET_CONTAINER_OF(work, struct pending, work);
	p->has_state = inf_method_make_state(p->method, &p->refusal);
}

static void state_made(struct inf_work *work)
{
	finish_open(ET_CONTAINER_OF(work, struct pending, work));
}

static void reset_state(struct inf_work *work)
{
	et_method_reset(ET_CONTAINER_OF(work, struct pending, work)->method->method);
}

static void state_reset(struct inf_work *work)
{
	struct pending *p = ET_CONTAINER_OF(work, struct pending, work);
	p->method->first->is_suspended = false;
	atomic_fetch_sub_explicit(&p->method->first->n_jobs, 1, memory_order_release);
	if (p->session)
		inf_session_ok(p->session, p->id);
	inf_method_unref(p->method);
	free_pending(p);
}

static void method_opened(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *model)
{
	struct pending *p = ET_CONTAINER_OF(open, struct pending, open);
	struct inf_session *s = p->session;
	struct inf_refusal refusal = { status, "" };
	if (!s) {
		free_pending(p);
		return;
	}
	if (p->n_charged_fds) /* they are closed */
		inf_quota_discharge(p->user, INF_QUOTA_FDS, p->n_charged_fds);
	p->n_charged_fds = 0;
	if (status != INF_OK) {
		inf_session_refuse(s, p->id, status, "%s", error);
		free_pending(p);
		return;
	}
	struct inf_method *method = inf_method_new(s->context, model, p->user, p->n_charged_bytes, p->with, &refusal);
	if (!method) {
		inf_session_refuse(s, p->id, refusal.status, "%s", refusal.text);
		free_pending(p);
		return;
	}
	p->has_charge = false; /* the Method has it now */
	p->method = method;
	method->wants_backend = p->wants_backend;
	if (!inf_method_begins_long(model)) {
		p->has_state = inf_method_make_state(method, &p->refusal);
		finish_open(p);
		return;
	}
	p->work = (struct inf_work){ .run = make_state, .done = state_made };
	inf_helper_post_for_user(s->context->helper, &p->work, p->user);
}

/* What is known of a file without asking its file system, which may be in somebody's process and answer when it likes:
 * this is the loop. Whoever reads the file sees whether it is true. */
static bool check_file(int fd, struct stat *ret_st)
{
	struct statx now;
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &now) < 0)
		return false;
	*ret_st = (struct stat){
		.st_mode = now.stx_mode,
		.st_dev = makedev(now.stx_dev_major, now.stx_dev_minor),
		.st_ino = now.stx_ino,
		.st_size = (off_t)now.stx_size,
		.st_mtim = { now.stx_mtime.tv_sec, now.stx_mtime.tv_nsec },
		.st_ctim = { now.stx_ctime.tv_sec, now.stx_ctime.tv_nsec },
	};
	return true;
}

/* What the descriptors of a client's own program are, into @open. NULL, or why they are not acceptable. */
static const char *check_own_files(struct inf_open *open, const struct inf_method_open *m, const int *fds,
	uint64_t *ret_n_bytes)
{
	struct stat st;
	*ret_n_bytes = 0;
	if (!m->from_fd)
		return m->data_fds ? "data files go with a program of one's own, passed as a descriptor" : NULL;
	if (m->version[0])
		return "a program passed as a descriptor has no version";
	for (uint32_t i = 0; i <= m->data_fds; i++) {
		int flags = fcntl(fds[i], F_GETFL);
		if (flags < 0 || flags & O_PATH || (flags & O_ACCMODE) == O_WRONLY)
			return "the descriptor is not open for reading";
		if (!check_file(fds[i], &st) || !S_ISREG(st.st_mode) || st.st_size <= 0)
			return "the descriptor is no regular file or memory file, or is empty";
		if (__builtin_add_overflow(*ret_n_bytes, (uint64_t)st.st_size, ret_n_bytes))
			return "the files are too large";
		if (i == 0)
			open->file = inf_file_id(&st);
		else
			open->data.items[i - 1] = inf_file_id(&st);
	}
	open->data.n = m->data_fds;
	memcpy(open->data_fds, fds + 1, m->data_fds * sizeof(*fds));
	return NULL;
}

/* The Method to share with, for @open; its program's bytes are charged again where it is the client's own. NULL, or why
 * it can't be. */
static const char *check_sharing(struct inf_session *s, const struct inf_method_open *m, struct inf_open *open,
	struct inf_method **ret_with, uint64_t *ret_n_bytes, enum inf_status *ret_status)
{
	struct inf_method *with = inf_table_find(&s->methods, m->share_with);
	*ret_status = INF_NOT_FOUND;
	if (!with)
		return "there is no such Method to share with on this connection";
	struct inf_model *model = with->model;
	*ret_status = INF_INVALID_ARGUMENT;
	if (m->from_fd)
		return "who shares with a Method opens another method of that one's program, and passes none";
	if ((m->model[0] && strcmp(m->model, model->model) != 0) ||
		(m->version[0] && strcmp(m->version, model->version) != 0) ||
		(m->backend[0] && strcmp(m->backend, model->backend) != 0))
		return "the Method to share with is one of another model, version or backend";
	*ret_status = INF_UNAVAILABLE;
	if (model->state != INF_MODEL_READY)
		return "the model of the Method to share with was unloaded; close it and open it again";
	*ret_with = with;
	open->beside = model;
	open->tenant = model->tenant;
	*ret_n_bytes = model->is_uploaded ? model->file.n_bytes : 0;
	et_add_up(ret_n_bytes, model->is_uploaded ? inf_data_ids_n_bytes(&model->data) : 0);
	return NULL;
}

static void on_method_open(struct inf_session *s, const struct inf_request *r, const int *fds, size_t n_fds)
{
	const struct inf_method_open *m = &r->method_open;
	struct inf_open open = { 0 };
	struct inf_method *with = NULL;
	char why[400];
	uint64_t n_bytes = 0;
	enum inf_status status = INF_INVALID_ARGUMENT;
	const char *refusal = check_own_files(&open, m, fds, &n_bytes);
	if (!refusal && m->share_with)
		refusal = check_sharing(s, m, &open, &with, &n_bytes, &status);
	if (refusal) {
		inf_session_close_fds(s, fds, n_fds);
		inf_session_refuse(s, r->id, status, "%s", refusal);
		return;
	}
	const struct inf_charge charges[] = { { INF_QUOTA_METHODS, 1 }, { INF_QUOTA_BYTES, n_bytes },
		{ INF_QUOTA_FDS, n_fds } };
	struct pending *p = NULL;
	if (!inf_quota_charge_all(s->user, charges, ET_ARRAY_LEN(charges), why, sizeof(why)))
		inf_session_refuse(s, r->id, INF_RESOURCE_EXHAUSTED, "%s", why);
	else if (!(p = new_pending(s, r->id))) /* which has answered */
		inf_quota_discharge_all(s->user, charges, ET_ARRAY_LEN(charges));
	if (!p) {
		inf_session_close_fds(s, fds, n_fds);
		return;
	}
	p->user->n_refs++; /* the charge's */
	p->has_charge = true;
	p->n_charged_bytes = n_bytes;
	p->n_charged_fds = n_fds;
	p->wants_backend = m->backend[0];
	if (with) {
		p->with = with;
		with->n_refs++;
		p->model = inf_model_ref(open.beside); /* @with may change over to another one meanwhile */
		p->open = open;
		ask(p, open.beside->model, open.beside->version, m->method, open.beside->backend, -1, method_opened);
		return;
	}
	open.tenant = n_fds ? 1 + (uint64_t)s->user->uid : 0;
	p->open = open;
	ask(p, m->model, m->version, m->method, m->backend, n_fds ? fds[0] : -1, method_opened);
}

/* The Method's bindings are given up; a request in flight on one is cancelled. */
static void give_up_bindings(struct inf_session *s, const struct inf_method *method, const char *why)
{
	struct inf_binding *b;
	for (uint32_t at = 0; (b = inf_table_next(&s->bindings, &at));) {
		if (b->method != method)
			continue;
		inf_job_cancel(b, INF_CANCELLED, why);
		inf_table_remove(&s->bindings, b->id);
		inf_binding_drop(b);
	}
}

static struct inf_method *find_method(struct inf_session *s, const struct inf_request *r, uint64_t id)
{
	struct inf_method *method = inf_table_find(&s->methods, id);
	if (!method)
		inf_session_refuse(s, r->id, INF_NOT_FOUND, "no Method %" PRIu64 " on this connection", id);
	return method;
}

static void on_method_close(struct inf_session *s, const struct inf_request *r)
{
	struct inf_method *method = find_method(s, r, r->method_close.method);
	if (!method)
		return;
	give_up_bindings(s, method, "its Method was closed");
	inf_table_remove(&s->methods, method->id);
	inf_method_unref(method);
	inf_session_ok(s, r->id);
}

/* It holds a reference on its Method, which is here. */
static void begin_reset(void *pending)
{
	struct pending *p = pending;
	struct inf_method *method = p->method;
	method->first->is_suspended = true;
	atomic_fetch_add_explicit(&method->first->n_jobs, 1, memory_order_relaxed); /* it stays where it is */
	p->work = (struct inf_work){ .run = reset_state, .done = state_reset };
	if (inf_method_begins_long(method->model)) {
		inf_helper_post_for_user(method->context->helper, &p->work, p->user);
		return;
	}
	reset_state(&p->work);
	state_reset(&p->work);
}

static void on_method_reset(struct inf_session *s, const struct inf_request *r)
{
	struct inf_method *method = find_method(s, r, r->method_reset.method);
	if (!method)
		return;
	const struct inf_method *first = method->first;
	/* acquire: pairs with the release in deliver */
	if (!atomic_load_explicit(&first->n_jobs, memory_order_acquire))
		inf_method_follow(method);
	bool has_to_wait = method->is_changing && !method->begin_reset;
	if (first->is_suspended && !has_to_wait) {
		inf_session_refuse(s, r->id, INF_BUSY, "this Method is being reset; wait for the answer to that");
		return;
	}
	if (!has_to_wait && atomic_load_explicit(&first->n_jobs, memory_order_acquire)) {
		inf_session_refuse(s, r->id, INF_BUSY,
			"a request of this Method, or of one that shares its state, is in flight; wait for "
			"it");
		return;
	}
	if (!has_to_wait && !inf_method_begins_long(method->model)) {
		et_method_reset(method->method);
		inf_session_ok(s, r->id);
		return;
	}
	struct pending *p = new_pending(s, r->id);
	if (!p)
		return;
	p->method = method;
	method->n_refs++;
	if (has_to_wait) { /* for the state that is being made */
		method->begin_reset = begin_reset;
		method->begin_reset_arg = p;
	} else {
		begin_reset(p);
	}
}

static void metadata_scanned(void *arg, int rc, const struct inf_variants *models, size_t n)
{
	struct pending *p = arg;
	if (p->session && p->model->plan)
		inf_answer_metadata(p->session, p->id, p->model, models, n);
	else if (p->session)
		inf_session_refuse(p->session, p->id, INF_UNAVAILABLE, "the model is being unloaded");
	free_pending(p);
}

static void metadata_loaded(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *model)
{
	struct pending *p = ET_CONTAINER_OF(open, struct pending, open);
	p->is_open = false;
	if (!p->session) {
		free_pending(p);
		return;
	}
	if (status != INF_OK) {
		inf_session_refuse(p->session, p->id, status, "%s", error);
		free_pending(p);
		return;
	}
	p->model = inf_model_ref(model);
	inf_repository_scan(p->session->context->repository, metadata_scanned, p);
}

static void index_scanned(void *arg, int rc, const struct inf_variants *models, size_t n)
{
	struct pending *p = arg;
	if (p->session && rc < 0)
		inf_session_refuse(p->session, p->id,
			inf_is_scarcity(rc) ? INF_RESOURCE_EXHAUSTED : INF_FAILED_PRECONDITION,
			"the models' folder '%s' can't be read: %s", p->session->context->config.models, strerror(-rc));
	else if (p->session)
		inf_answer_index(p->session, p->id, p->only_ready, models, n);
	free_pending(p);
}

static void load_done(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *model)
{
	struct pending *p = ET_CONTAINER_OF(open, struct pending, open);
	if (p->session && status == INF_OK)
		inf_session_ok(p->session, p->id);
	else if (p->session)
		inf_session_refuse(p->session, p->id, status, "%s", error);
	free_pending(p);
}

static void unload_done(void *arg)
{
	struct pending *p = arg;
	if (p->session)
		inf_session_ok(p->session, p->id);
	free_pending(p);
}

static bool is_manager(struct inf_session *s, const struct inf_request *r)
{
	if (s->is_manager)
		return true;
	inf_session_refuse(s, r->id, INF_PERMISSION_DENIED, "%s is for administrators: connect to the manager socket",
		inf_request_kind_name(r->kind));
	return false;
}

static void on_load(struct inf_session *s, const struct inf_request *r)
{
	struct pending *p = is_manager(s, r) ? new_pending(s, r->id) : NULL;
	if (!p)
		return;
	inf_repository_retry(s->context->repository, r->repository_model_load.model_name);
	p->open.is_anew = true;
	ask(p, r->repository_model_load.model_name, "", "", "", -1, load_done);
}

static void on_unload(struct inf_session *s, const struct inf_request *r)
{
	const char *model = r->repository_model_unload.model_name;
	struct pending *p = is_manager(s, r) ? new_pending(s, r->id) : NULL;
	if (!p)
		return;
	if (!inf_repository_unload(s->context->repository, model, unload_done, p)) {
		inf_session_refuse(s, r->id, INF_NOT_FOUND, "model '%s' is not loaded", model);
		free_pending(p);
	}
}

static void on_backend_restart(struct inf_session *s, const struct inf_request *r)
{
	struct inf_context *context = s->context;
	const char *name = r->backend_restart.name;
	const struct et_backend_entry *found = NULL;
	struct et_diag diag = { "" };
	size_t n_name = strlen(name);
	if (!is_manager(s, r))
		return;
	for (size_t i = 0; i < context->backends.registry.n_backends; i++)
		if (strcmp(context->backends.registry.backends[i].ops->name, name) == 0)
			found = &context->backends.registry.backends[i];
	for (uint32_t i = 0; i < context->backends.n_missing && !found; i++)
		if (strncmp(context->backends.missing[i], name, n_name) == 0 && context->backends.missing[i][n_name] == ':') {
			inf_session_refuse(s, r->id, INF_FAILED_PRECONDITION,
				"backend %s; it was not there when inferd started: restart inferd", context->backends.missing[i]);
			return;
		}
	if (!found) {
		inf_session_refuse(s, r->id, INF_NOT_FOUND, "there is no backend '%s'; 'inferctl status' lists them",
			name);
	} else if (!found->ops->restart) {
		inf_session_refuse(s, r->id, INF_FAILED_PRECONDITION,
			"backend '%s' is a part of inferd: there is nothing to restart", name);
	} else if (found->ops->restart(found->backend, &diag) != ET_OK) {
		inf_session_refuse(s, r->id, INF_FAILED_PRECONDITION, "backend '%s': %s", name, diag.text);
	} else {
		et_logf(&context->log, ET_LOG_NOTICE, "backend %s is restarted, as an administrator asked", name);
		inf_session_ok(s, r->id);
		inf_fallback_return(&context->fallback);
	}
}

/* --- bindings and requests ------------------------------------------------------------------------ */

static void on_bind(struct inf_session *s, const struct inf_request *r)
{
	struct inf_method *method = find_method(s, r, r->bind.method);
	struct inf_refusal refusal = { INF_INTERNAL, "" };
	char why[400];
	if (!method)
		return;
	if (method->model->state != INF_MODEL_READY) {
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
	inf_job_cancel(b, INF_CANCELLED, "its binding was given back");
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
		struct pending *p = ET_CONTAINER_OF(node, struct pending, node);
		if (p->id != r->cancel.request)
			continue;
		if (!p->is_open) {
			is_late = true;
			continue;
		}
		inf_session_refuse(s, p->id, INF_CANCELLED, "the request was cancelled");
		p->session = NULL;
		et_list_remove(&p->node);
		inf_repository_cancel(s->context->repository, &p->open);
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

/* --- all of them ---------------------------------------------------------------------------------- */

static void on_closed(struct inf_session *s)
{
	struct et_list_node *node, *after;
	struct inf_binding *b;
	struct inf_method *method;
	ET_LIST_FOR_EACH(node, after, &s->opens) {
		struct pending *p = ET_CONTAINER_OF(node, struct pending, node);
		p->session = NULL;
		et_list_remove(&p->node);
		if (p->is_open)
			inf_repository_cancel(s->context->repository, &p->open);
	}
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
	struct pending *p;
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
			r->model_ready.version, "");
		inf_session_reply(s, &reply);
		break;
	}
	case INF_REQUEST_MODEL_METADATA:
		if ((p = new_pending(s, r->id)))
			ask(p, r->model_metadata.name, r->model_metadata.version, r->model_metadata.method, "", -1,
				metadata_loaded);
		break;
	case INF_REQUEST_REPOSITORY_INDEX:
		if ((p = new_pending(s, r->id))) {
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
		on_method_open(s, r, fds, n_fds);
		break;
	case INF_REQUEST_METHOD_CLOSE:
		on_method_close(s, r);
		break;
	case INF_REQUEST_METHOD_RESET:
		on_method_reset(s, r);
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

void inf_requests_follow(void *self)
{
	struct inf_context *context = self;
	struct et_list_node *node, *after;
	struct inf_method *method;
	ET_LIST_FOR_EACH(node, after, &context->sessions) {
		struct inf_session *s = ET_CONTAINER_OF(node, struct inf_session, node);
		for (uint32_t at = 0; (method = inf_table_next(&s->methods, &at));)
			inf_method_follow(method);
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
