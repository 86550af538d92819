/* SPDX-License-Identifier: BSD-3-Clause */
/* Moving Methods from a model to its successor.
 *
 * A model whose backend was given up is ABANDONED: it stays loaded, and this file opens the model by name, as a
 * client would, but with a new scan of files and backends. The model that comes of it becomes the successor. The
 * way back is the same: every model for which a better variant was passed over is opened again; if another model
 * answers, the old one is SUCCEEDED. A model without Methods and with a lost backend is unloaded.
 *
 * Methods move from the loop alone, never inside a submit: when a successor is found, and when the last request of
 * a Method has ended. The worker that ends it only sets a flag and wakes the loop, which moves every idle Method
 * before it handles the next request of a client. A Method's new state, where it is large, is made on the helper's
 * thread; meanwhile the Method is suspended, as in a reset, and its requests are refused.
 *
 * What must always be true: a Method moves only while none of its requests is in flight, so that nothing changes
 * that a worker reads; the two models agree in everything that bindings rely on; successors never form a ring. A
 * model without another variant keeps its Methods, whose requests fail and say why. */
#include "daemon/model/fallback.h"

#include "daemon/client/requests.h"
#include "daemon/loop/server.h"
#include "daemon/client/session.h"
#include "daemon/base/text.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* An open that looks for the successor of a model. */
struct search {
	struct inf_open open;
	struct inf_server *server;
	struct inf_model *from; /* a reference */
};

/* --- backends ------------------------------------------------------------------------------------- */

/* The name of a backend of @s that was given up, and why; NULL: all are up. */
static const char *find_lost_backend(const struct inf_server *server, const struct inf_model *s,
	struct et_diag *ret_why)
{
	const struct et_method_spec *method = et_program_find_method(s->program, s->method);
	for (size_t i = 0; method && i < server->registry.n_backends; i++) {
		const struct et_backend_entry *entry = &server->registry.backends[i];
		if (entry->ops->health && inf_method_uses(&server->registry, method, entry) &&
			entry->ops->health(entry->backend, ret_why))
			return entry->ops->name;
	}
	return NULL;
}

/* --- inputs and outputs --------------------------------------------------------------------------- */

static bool is_same_io(const struct et_io_info *a, const struct et_io_info *b)
{
	if (a->tag != b->tag)
		return false;
	if (a->tag != ET_TAG_TENSOR)
		return true;
	return a->type == b->type && a->dynamism == b->dynamism && a->n_dims == b->n_dims && a->n_bytes == b->n_bytes &&
	       memcmp(a->sizes, b->sizes, a->n_dims * sizeof(*a->sizes)) == 0 &&
	       memcmp(a->dim_order, b->dim_order, a->n_dims) == 0;
}

static bool are_same_ios(const struct et_io_info *a, uint32_t n_a, const struct et_io_info *b, uint32_t n_b,
	const char *what, char *why, size_t room)
{
	for (uint32_t i = 0; i < n_a && i < n_b; i++)
		if (!is_same_io(&a[i], &b[i])) {
			inf_text(why, room, "%s %u differs", what, i);
			return false;
		}
	if (n_a != n_b)
		inf_text(why, room, "it has %u %ss, not %u", n_b, what, n_a);
	return n_a == n_b;
}

/* Whether bindings to @a are valid for @b as well; else a sentence in @why. */
static bool is_compatible(const struct et_plan_info *a, const struct et_plan_info *b, char *why, size_t room)
{
	if (a->is_stateful != b->is_stateful) {
		inf_text(why, room, "%s has a state, %s has none", a->is_stateful ? "the old one" : "it",
			a->is_stateful ? "it" : "the old one");
		return false;
	}
	return are_same_ios(a->inputs, a->n_inputs, b->inputs, b->n_inputs, "input", why, room) &&
	       are_same_ios(a->outputs, a->n_outputs, b->outputs, b->n_outputs, "output", why, room);
}

/* --- Methods -------------------------------------------------------------------------------------- */

static void log_stay(const struct inf_method *m, const char *why)
{
	et_logf(&m->server->log, ET_LOG_WARNING, "model %s: a Method can't move to another variant: %s",
		m->model->model, why);
}

/* The model that @m is to move to; NULL: it stays. */
static struct inf_model *find_destination(const struct inf_method *m)
{
	const struct inf_model *from = m->model;
	struct inf_model *to = from->successor;
	while (to && to->successor)
		to = to->successor;
	if (!to || !inf_model_is_loaded(to) || m->wants_backend || m->first != m || m->n_sharing)
		return NULL;
	/* A valid state is worth more than the better variant. */
	return from->info->is_stateful && from->state != INF_MODEL_ABANDONED ? NULL : to;
}

bool inf_method_waits_to_move(const struct inf_method *m)
{
	/* acquire: pairs with the release in inf_method_job_ended */
	return atomic_load_explicit(&m->n_jobs, memory_order_acquire) && find_destination(m);
}

/* @to counts @m already, and @m has a state as @to needs it. */
static void finish_move(struct inf_method *m, struct inf_model *to)
{
	struct inf_model *from = m->model;
	m->model = inf_model_ref(to);
	from->n_methods--;
	inf_repository_method_gone(m->server->repository, from);
	inf_model_unref(from);
}

static void cancel_move(struct inf_method *m, struct inf_model *to)
{
	to->n_methods--;
	inf_repository_method_gone(m->server->repository, to);
}

/* A large state that is being made for a Method that moves. */
struct change {
	struct inf_work work;
	struct inf_method *method; /* a reference */
	struct inf_model *to;      /* a reference */
	struct et_method *state;
	struct et_diag diag;
};

static void change_run(struct inf_work *work)
{
	struct change *change = ET_CONTAINER_OF(work, struct change, work);
	if (et_method_new(&change->state, change->to->plan, et_platform_allocator(), &change->diag) != ET_OK)
		change->state = NULL;
}

static void state_gone(void *arg)
{
}

static void change_done(struct inf_work *work)
{
	struct change *change = ET_CONTAINER_OF(work, struct change, work);
	struct inf_method *m = change->method;
	m->is_suspended = m->is_changing = false;
	/* not inf_method_job_ended: a move that has failed is tried again after the next request, not at once */
	atomic_fetch_sub_explicit(&m->n_jobs, 1, memory_order_release);
	if (!change->state)
		log_stay(m, change->diag.text[0] ? change->diag.text : "no memory");
	bool can_move = change->state && inf_model_is_loaded(change->to);
	if (change->state && !can_move)
		inf_repository_release_async_method(m->server->repository, change->state,
			change->to->info->n_state_bytes, state_gone, NULL);
	inf_method_change_state(m, change->to, can_move ? change->state : NULL);
	if (can_move)
		finish_move(m, change->to);
	else
		cancel_move(m, change->to);
	inf_model_unref(change->to);
	if (m->model->successor) /* found meanwhile */
		inf_server_method_idle(m->server);
	inf_request_reset_now(m);
	inf_method_unref(m);
	free(change);
}

/* Make the state on the helper's thread: no other client waits while a gigabyte is cleared. False: no memory. */
static bool begin_change(struct inf_method *m, struct inf_model *to)
{
	struct change *change = calloc(1, sizeof(*change));
	if (!change)
		return false;
	change->work = (struct inf_work){ .run = change_run, .done = change_done };
	change->method = m;
	m->n_refs++;
	change->to = inf_model_ref(to);
	m->is_suspended = m->is_changing = true;
	atomic_fetch_add_explicit(&m->n_jobs, 1, memory_order_relaxed); /* no other move meanwhile */
	inf_helper_post_for_user(m->server->helper, &change->work, m->user);
	return true;
}

static void move(struct inf_method *m, struct inf_model *to)
{
	struct inf_refusal refusal;
	if (!inf_method_charge_change(m, to, &refusal)) {
		log_stay(m, refusal.text);
		return;
	}
	struct et_method *state = NULL;
	struct et_diag diag = { "" };
	to->n_methods++;
	if (inf_method_begins_long(to) && begin_change(m, to))
		return;
	if (et_method_new(&state, to->plan, et_platform_allocator(), &diag) != ET_OK)
		state = NULL;
	inf_method_change_state(m, to, state);
	if (state) {
		finish_move(m, to);
	} else {
		log_stay(m, diag.text[0] ? diag.text : "no memory");
		cancel_move(m, to);
	}
}

void inf_method_job_ended(struct inf_method *m)
{
	/* Sequentially consistent, like wants_to_move and its load of n_jobs in inf_fallback_move_idle: either that
	 * sees the last request gone, or this sees the flag. Also a release: pairs with the acquire in
	 * on_method_reset. */
	if (atomic_fetch_sub(&m->n_jobs, 1) == 1 && atomic_load(&m->wants_to_move))
		inf_server_method_idle(m->server);
}

void inf_fallback_move_idle(struct inf_server *server)
{
	struct et_list_node *node, *after;
	struct inf_method *m;
	if (!atomic_load_explicit(&server->has_idle_methods, memory_order_relaxed) ||
		!atomic_exchange(&server->has_idle_methods, false))
		return;
	ET_LIST_FOR_EACH(node, after, &server->sessions) {
		struct inf_session *s = ET_CONTAINER_OF(node, struct inf_session, node);
		for (uint32_t position = 0; (m = inf_table_next(&s->methods, &position));) {
			struct inf_model *to = find_destination(m);
			atomic_store(&m->wants_to_move, to != NULL);
			if (to && !m->is_suspended && !atomic_load(&m->n_jobs))
				move(m, to);
		}
	}
}

/* --- successors ----------------------------------------------------------------------------------- */

static void set_successor(struct inf_server *server, struct inf_model *from, struct inf_model *to)
{
	et_logf(&server->log, from->state == INF_MODEL_ABANDONED ? ET_LOG_WARNING : ET_LOG_NOTICE,
		"model %s/%s %s: goes on with %s (%s)", from->model, from->version, from->method, to->path,
		to->backend);
	to->successor = inf_model_unref(to->successor);
	if (to->state == INF_MODEL_SUCCEEDED)
		inf_model_set_state(to, INF_MODEL_READY);
	inf_model_unref(from->successor);
	from->successor = inf_model_ref(to);
	if (from->state == INF_MODEL_READY)
		inf_model_set_state(from, INF_MODEL_SUCCEEDED);
	inf_server_method_idle(server); /* some may be idle */
}

/* Runs inside the repository's choice, so it moves nothing: it tells the loop. */
static void search_done(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *to)
{
	struct search *search = ET_CONTAINER_OF(open, struct search, open);
	struct inf_server *server = search->server;
	struct inf_model *from = search->from;
	char why[160];
	free(search);
	if (status != INF_OK) {
		if (from->state == INF_MODEL_ABANDONED)
			et_logf(&server->log, ET_LOG_ERROR, "model %s/%s %s: no other variant can run: %s", from->model,
				from->version, from->method, error);
	} else if (to != from && inf_model_is_loaded(from)) {
		if (is_compatible(from->info, to->info, why, sizeof(why)))
			set_successor(server, from, to);
		else
			et_logf(&server->log, ET_LOG_ERROR, "model %s/%s %s: its clients can't go on with %s (%s): %s",
				from->model, from->version, from->method, to->path, to->backend, why);
	}
	if (from->state == INF_MODEL_ABANDONED && !from->n_methods)
		inf_model_unload(from);
	inf_model_unref(from);
}

static void find_successor(struct inf_server *server, struct inf_model *from)
{
	struct search *search = calloc(1, sizeof(*search));
	if (!search)
		return;
	search->server = server;
	search->from = inf_model_ref(from);
	search->open = (struct inf_open){ .model = from->model,
		.version = from->version,
		.method = from->method,
		.backend = "",
		.fd = -1,
		.must_scan = true,
		.done = search_done };
	inf_repository_open(server->repository, &search->open);
}

/* The first loaded model of the folder from @node on; NULL: there is none. */
static struct inf_model *next_loaded(const struct inf_server *server, const struct et_list_node *node)
{
	for (; node != inf_repository_models(server->repository); node = node->next) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (inf_model_is_loaded(s) && !s->is_uploaded)
			return s;
	}
	return NULL;
}

static struct inf_model *first_loaded(const struct inf_server *server)
{
	return next_loaded(server, inf_repository_models(server->repository)->next);
}

void inf_fallback_check(struct inf_server *server)
{
	struct inf_model *s = server->is_draining ? NULL : first_loaded(server);
	while (s) {
		struct et_diag why = { "" };
		const char *backend = s->state == INF_MODEL_ABANDONED ? NULL : find_lost_backend(server, s, &why);
		if (!backend) {
			s = next_loaded(server, s->node.next);
			continue;
		}
		et_logf(&server->log, ET_LOG_WARNING, "model %s/%s %s: its backend %s %s", s->model, s->version,
			s->method, backend, why.text);
		inf_model_set_state(s, INF_MODEL_ABANDONED);
		find_successor(server, s);
		s = first_loaded(server); /* the list may have changed */
	}
}

/* Whether a better variant of @s may be there: one was passed over when @s was chosen. */
static bool has_better_variant(struct inf_server *server, const struct inf_model *s)
{
	struct et_diag why;
	bool is_refused;
	return inf_repository_diagnose(server->repository, s->model, s->version, why.text, sizeof(why.text),
		&is_refused);
}

/* The models that are to be opened again: references in *ret_models, a heap array; how many. Models whose backend is up
 * again are READY at once and need no open. */
static uint32_t take_returning(struct inf_server *server, struct inf_model ***ret_models)
{
	uint32_t n_max = 0, n = 0;
	for (struct inf_model *s = first_loaded(server); s; s = next_loaded(server, s->node.next))
		n_max++;
	struct inf_model **models = calloc(n_max + 1, sizeof(struct inf_model *));
	for (struct inf_model *s = first_loaded(server); s; s = next_loaded(server, s->node.next)) {
		struct et_diag why = { "" };
		if (s->state == INF_MODEL_ABANDONED) {
			if (find_lost_backend(server, s, &why))
				continue;
			s->successor = inf_model_unref(s->successor);
			inf_model_set_state(s, INF_MODEL_READY);
		} else if (models && has_better_variant(server, s)) {
			models[n++] = inf_model_ref(s);
		}
	}
	*ret_models = models;
	return n;
}

void inf_fallback_return(struct inf_server *server)
{
	struct inf_model **models;
	uint32_t n = take_returning(server, &models);
	for (uint32_t i = 0; i < n; i++) {
		if (inf_model_is_loaded(models[i])) /* an earlier open may have had it unloaded */
			find_successor(server, models[i]);
		inf_model_unref(models[i]);
	}
	free(models);
}
