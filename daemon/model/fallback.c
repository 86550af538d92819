/* SPDX-License-Identifier: BSD-3-Clause */
/* What a model does when its backend was given up.
 *
 * The serving that has lost its backend stays READY, is marked, and asks the repository for its model like any client
 * would, only that the files and backends are looked at anew. What comes of it becomes its successor, and its Methods
 * follow: those that are idle at once, others with the first request that finds them idle. With the last of its
 * Methods it goes. The way back is the same: every serving for which a variant was passed over asks anew, and if
 * another serving answers, that one is the successor.
 *
 * A Method's new state, where it is large, is made beside the loop; meanwhile the Method is away, as in a reset, and its
 * requests are refused.
 *
 * What must always be true: a Method changes over only while none of its requests is in flight, so that whatever a
 * worker reads stays what it was; the two servings agree in all that bindings rely on; successors never form a
 * ring. A model without another variant keeps its serving, whose requests say why they fail. */
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

struct move {
	struct inf_open open;
	struct inf_server *server;
	struct inf_model *from; /* a reference */
};

/* --- which ---------------------------------------------------------------------------------------- */

/* The name of a backend of it that was given up, with the reason; NULL: all are well. */
static const char *given_up(const struct inf_server *server, const struct inf_model *s, struct et_diag *ret_why)
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

/* --- what bindings rely on ------------------------------------------------------------------------ */

static bool same_io(const struct et_io_info *a, const struct et_io_info *b)
{
	if (a->tag != b->tag)
		return false;
	if (a->tag != ET_TAG_TENSOR)
		return true;
	return a->type == b->type && a->dynamism == b->dynamism && a->n_dims == b->n_dims && a->n_bytes == b->n_bytes &&
	       memcmp(a->sizes, b->sizes, a->n_dims * sizeof(*a->sizes)) == 0 &&
	       memcmp(a->dim_order, b->dim_order, a->n_dims) == 0;
}

static bool same_ios(const struct et_io_info *a, uint32_t n_a, const struct et_io_info *b, uint32_t n_b,
	const char *what, char *why, size_t room)
{
	for (uint32_t i = 0; i < n_a && i < n_b; i++)
		if (!same_io(&a[i], &b[i])) {
			inf_text(why, room, "%s %u is another", what, i);
			return false;
		}
	if (n_a != n_b)
		inf_text(why, room, "it has %u %ss, not %u", n_b, what, n_a);
	return n_a == n_b;
}

/* Whether @b can take the place of @a; else @why. */
static bool fits(const struct et_plan_info *a, const struct et_plan_info *b, char *why, size_t room)
{
	if (a->is_stateful != b->is_stateful) {
		inf_text(why, room, "%s has a state, %s has none", a->is_stateful ? "the old one" : "it",
			a->is_stateful ? "it" : "the old one");
		return false;
	}
	return same_ios(a->inputs, a->n_inputs, b->inputs, b->n_inputs, "input", why, room) &&
	       same_ios(a->outputs, a->n_outputs, b->outputs, b->n_outputs, "output", why, room);
}

/* --- Methods -------------------------------------------------------------------------------------- */

static void stay(const struct inf_method *m, const char *why)
{
	et_logf(&m->server->log, ET_LOG_WARNING, "model %s: a Method stays where it is: %s", m->model->model, why);
}

/* It has a state as @to has it, and @to counts it already: it is one of @to's now. */
static void change_over(struct inf_method *m, struct inf_model *to)
{
	struct inf_model *from = m->model;
	m->model = inf_model_ref(to);
	from->n_methods--;
	inf_repository_method_gone(m->server->repository, from);
	inf_model_unref(from);
}

static void not_over(struct inf_method *m, struct inf_model *to)
{
	to->n_methods--;
	inf_repository_method_gone(m->server->repository, to);
}

/* A large state on its way. */
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
	atomic_fetch_sub_explicit(&m->n_jobs, 1, memory_order_release);
	if (!change->state)
		stay(m, change->diag.text[0] ? change->diag.text : "no memory");
	bool is_over = change->state && change->to->state == INF_MODEL_READY;
	if (change->state && !is_over)
		inf_repository_release_async_method(m->server->repository, change->state,
			change->to->info->n_state_bytes, state_gone, NULL);
	inf_method_change_state(m, change->to, is_over ? change->state : NULL);
	if (is_over)
		change_over(m, change->to);
	else
		not_over(m, change->to);
	inf_model_unref(change->to);
	inf_request_reset_now(m);
	inf_method_unref(m);
	free(change);
}

/* Beside the loop: nobody else waits while a gigabyte is cleared. False: no memory. */
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
	atomic_fetch_add_explicit(&m->n_jobs, 1, memory_order_relaxed); /* it stays where it is */
	inf_helper_post_for_user(m->server->helper, &change->work, m->user);
	return true;
}

bool inf_method_follow(struct inf_method *m)
{
	struct inf_model *from = m->model, *to = from->successor;
	while (to && to->successor)
		to = to->successor;
	if (m->is_suspended)
		return false;
	if (!to || to->state != INF_MODEL_READY || m->wants_backend || m->first != m || m->n_sharing)
		return true;
	/* A state that is well is worth more than the better variant. */
	if (from->info->is_stateful && !from->is_given_up)
		return true;
	/* acquire: pairs with the release in deliver (job.c) */
	if (atomic_load_explicit(&m->n_jobs, memory_order_acquire))
		return false;
	struct inf_refusal refusal;
	if (!inf_method_charge_change(m, to, &refusal)) {
		stay(m, refusal.text);
		return true;
	}
	struct et_method *state = NULL;
	struct et_diag diag = { "" };
	to->n_methods++;
	if (inf_method_begins_long(to) && begin_change(m, to))
		return false;
	if (et_method_new(&state, to->plan, et_platform_allocator(), &diag) != ET_OK)
		state = NULL;
	inf_method_change_state(m, to, state);
	if (state) {
		change_over(m, to);
	} else {
		stay(m, diag.text[0] ? diag.text : "no memory");
		not_over(m, to);
	}
	return true;
}

static void follow_all(struct inf_server *server)
{
	struct et_list_node *node, *after;
	struct inf_method *m;
	ET_LIST_FOR_EACH(node, after, &server->sessions) {
		struct inf_session *s = ET_CONTAINER_OF(node, struct inf_session, node);
		for (uint32_t at = 0; (m = inf_table_next(&s->methods, &at));)
			inf_method_follow(m);
	}
}

/* --- moves ---------------------------------------------------------------------------------------- */

static void moved(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *to)
{
	struct move *move = ET_CONTAINER_OF(open, struct move, open);
	struct inf_server *server = move->server;
	struct inf_model *from = move->from;
	char why[160];
	free(move);
	if (status != INF_OK) {
		if (from->is_given_up)
			et_logf(&server->log, ET_LOG_ERROR, "model %s/%s %s: nothing to go on with: %s", from->model,
				from->version, from->method, error);
	} else if (to != from && from->state == INF_MODEL_READY) {
		if (!fits(from->info, to->info, why, sizeof(why))) {
			et_logf(&server->log, ET_LOG_ERROR, "model %s/%s %s: its clients can't go on with %s (%s): %s",
				from->model, from->version, from->method, to->path, to->backend, why);
		} else {
			et_logf(&server->log, from->is_given_up ? ET_LOG_WARNING : ET_LOG_NOTICE,
				"model %s/%s %s: goes on with %s (%s)", from->model, from->version, from->method,
				to->path, to->backend);
			to->successor = inf_model_unref(to->successor);
			inf_model_unref(from->successor);
			from->successor = inf_model_ref(to);
			follow_all(server);
		}
	}
	if (from->is_given_up && !from->n_methods)
		inf_model_unload(from);
	inf_model_unref(from);
}

static void begin(struct inf_server *server, struct inf_model *from)
{
	struct move *move = calloc(1, sizeof(*move));
	if (!move)
		return;
	move->server = server;
	move->from = inf_model_ref(from);
	move->open = (struct inf_open){ .model = from->model,
		.version = from->version,
		.method = from->method,
		.backend = "",
		.fd = -1,
		.is_anew = true,
		.done = moved };
	inf_repository_open(server->repository, &move->open);
}

/* The first serving from @node on that could be moved; NULL: there is none. */
static struct inf_model *next_movable(const struct inf_server *server, const struct et_list_node *node)
{
	for (; node != inf_repository_models(server->repository); node = node->next) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (s->state == INF_MODEL_READY && !s->is_uploaded)
			return s;
	}
	return NULL;
}

static struct inf_model *first_movable(const struct inf_server *server)
{
	return next_movable(server, inf_repository_models(server->repository)->next);
}

void inf_fallback_check(struct inf_server *server)
{
	struct inf_model *s = server->is_draining ? NULL : first_movable(server);
	while (s) {
		struct et_diag why = { "" };
		const char *backend = s->is_given_up ? NULL : given_up(server, s, &why);
		if (!backend) {
			s = next_movable(server, s->node.next);
			continue;
		}
		et_logf(&server->log, ET_LOG_WARNING, "model %s/%s %s: its backend %s %s", s->model, s->version,
			s->method, backend, why.text);
		s->is_given_up = true;
		begin(server, s);
		s = first_movable(server); /* the list may be another one now */
	}
}

void inf_fallback_return(struct inf_server *server)
{
	struct inf_model *s;
	struct et_diag why = { "" };
	bool is_refused;
	for (s = first_movable(server); s; s = next_movable(server, s->node.next)) {
		s->wants_scan = false;
		if (s->is_given_up && !given_up(server, s, &why)) {
			s->is_given_up = false;
			s->successor = inf_model_unref(s->successor);
		} else if (!s->is_given_up) {
			s->wants_scan = inf_repository_why(server->repository, s->model, s->version, why.text,
				sizeof(why.text), &is_refused);
		}
	}
	for (s = first_movable(server); s;) {
		bool wants_scan = s->wants_scan;
		s->wants_scan = false;
		if (wants_scan)
			begin(server, s);
		s = wants_scan ? first_movable(server) : next_movable(server, s->node.next);
	}
}
