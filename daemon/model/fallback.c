/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding a successor for a model.
 *
 * A model whose backend was given up is ABANDONED: it stays loaded, and this file opens the model by name, as a client
 * would, but with a new scan of files and backends. The model that comes of it becomes the successor. The way back is
 * the same: every model for which a better variant was passed over is opened again; if another model answers, the old
 * one is SUPERSEDED. An ABANDONED model is unloaded with its last Method.
 *
 * A model whose runs fail too often becomes ABANDONED only when another variant is READY. Its own variant is passed
 * over meanwhile (inf_repository_pass_over) and afterwards, until an administrator has it tried again. Without another
 * variant it goes on: that a request fails now and then is better than that all do.
 *
 * A model whose persisted weights are damaged is loaded anew from its program: the same variant, as another model. It
 * goes on until that is READY or has failed; the requests of its clients wait meanwhile (daemon/client/requests.c).
 * Then it is SUPERSEDED, and even a Method with a state moves, without it: that was computed with damaged weights.
 *
 * What must always be true: two models agree in everything that bindings rely on before one becomes the other's
 * successor; successors never form a ring. A model without another variant keeps its Methods, whose requests fail and
 * say why.
 *
 * The fallback knows no Methods or clients: it tells its owner that they may move (daemon/client/method.c). */
#include "daemon/model/fallback.h"

#include "daemon/base/text.h"
#include "daemon/model/repository.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RELOAD_NS UINT64_C(60000000000) /* a load in place of damaged weights that has failed is tried again after it */

/* An open that looks for the successor of a model. */
struct search {
	struct inf_open open;
	struct inf_fallback *fallback;
	struct inf_model *from; /* a reference */
	bool is_for_runs;       /* because its runs failed too often */
};

/* --- backends ------------------------------------------------------------------------------------- */

/* The name of a backend of @s that was given up, and why; NULL: all are up. */
static const char *find_lost_backend(const struct inf_fallback *fallback, const struct inf_model *s,
	struct et_diag *ret_why)
{
	const struct et_method_spec *method = et_program_find_method(s->program, s->method);
	for (size_t i = 0; method && i < fallback->registry->n_backends; i++) {
		const struct et_backend_entry *entry = &fallback->registry->backends[i];
		if (entry->ops->health && inf_method_uses(fallback->registry, method, entry) &&
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

/* --- successors ----------------------------------------------------------------------------------- */

static void set_successor(struct inf_fallback *fallback, struct inf_model *from, struct inf_model *to)
{
	et_logf(fallback->log, from->state == INF_MODEL_ABANDONED ? ET_LOG_WARNING : ET_LOG_NOTICE,
		"model %s/%s %s: goes on with %s (%s)", from->model, from->version, from->method, to->path,
		to->backend);
	to->successor = inf_model_unref(to->successor);
	if (to->state == INF_MODEL_SUPERSEDED)
		inf_model_set_state(to, INF_MODEL_READY);
	inf_model_unref(from->successor);
	from->successor = inf_model_ref(to);
	if (from->state == INF_MODEL_READY)
		inf_model_set_state(from, INF_MODEL_SUPERSEDED);
	fallback->successor_found(fallback->self);
}

/* @to is what clients who open the model by name get, as they got @from. */
static void finish_reload(struct inf_fallback *fallback, struct inf_model *from, struct inf_model *to)
{
	if (from->newest_scan >= to->newest_scan) {
		to->newest_scan = from->newest_scan;
		to->is_newest = from->is_newest;
	}
	to->is_default_method = to->is_default_method || from->is_default_method;
	to->is_preferred = to->is_preferred || from->is_preferred;
	inf_repository_note(fallback->repository, to->model, to->version,
		"its persisted weights were damaged, and it was loaded anew");
	set_successor(fallback, from, to);
}

/* @from can't be loaded anew: no more of its answers are right. */
static void fail_reload(struct inf_fallback *fallback, struct inf_model *from, const char *why)
{
	et_logf(fallback->log, ET_LOG_ERROR,
		"model %s/%s %s: its persisted weights are damaged, and it can't be loaded anew: %s", from->model,
		from->version, from->method, why);
	if (inf_model_is_loaded(from) && from->state != INF_MODEL_ABANDONED)
		inf_model_set_state(from, INF_MODEL_ABANDONED);
	fallback->successor_found(fallback->self); /* no request waits any more */
}

/* The search for another variant of @from, whose runs fail, has found @to; NULL, with the reason in @why: nothing. */
static void finish_run_search(struct inf_fallback *fallback, struct inf_model *from, const struct inf_model *to,
	const char *why)
{
	const char *failing = inf_repository_is_passed_over(fallback->repository, from);
	if (!failing) /* an administrator has asked meanwhile that it be tried again */
		return;
	free(from->warning);
	from->warning = NULL;
	if (to && to != from) {
		if (inf_model_is_loaded(from) && from->state != INF_MODEL_ABANDONED)
			inf_model_set_state(from, INF_MODEL_ABANDONED);
		return;
	}
	if (asprintf(&from->warning, "%s; it goes on, since no other variant can run", failing) < 0)
		from->warning = NULL;
	et_logf(fallback->log, ET_LOG_ERROR, "model %s/%s %s: no other variant can run, so it goes on: %s", from->model,
		from->version, from->method, why);
	inf_repository_take_back(fallback->repository, from);
	inf_run_failures_rest(&from->run_failures, et_platform_now_ns(NULL));
	/* the search has noted that the version can't be loaded, which is not so */
	inf_repository_note(fallback->repository, from->model, from->version, "");
}

/* Runs inside the repository's choice (open.c), so it moves nothing: the owner's callback only tells the loop. */
static void search_done(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *to)
{
	struct search *search = ET_CONTAINER_OF(open, struct search, open);
	struct inf_fallback *fallback = search->fallback;
	struct inf_model *from = search->from;
	char why[160];
	if (search->is_for_runs)
		finish_run_search(fallback, from, status == INF_OK ? to : NULL, error);
	free(search);
	bool is_loaded_anew = from->is_reloading;
	from->is_reloading = false;
	if (is_loaded_anew && (status != INF_OK || to == from)) {
		fail_reload(fallback, from, error);
	} else if (status != INF_OK) {
		if (from->state == INF_MODEL_ABANDONED)
			et_logf(fallback->log, ET_LOG_ERROR, "model %s/%s %s: no other variant can run: %s",
				from->model, from->version, from->method, error);
	} else if (to != from && inf_model_is_loaded(from)) {
		bool may_move = is_compatible(from->info, to->info, why, sizeof(why));
		if (may_move && is_loaded_anew)
			finish_reload(fallback, from, to);
		else if (may_move)
			set_successor(fallback, from, to);
		else if (is_loaded_anew)
			fail_reload(fallback, from, why);
		else
			et_logf(fallback->log, ET_LOG_ERROR, "model %s/%s %s: its clients can't go on with %s (%s): %s",
				from->model, from->version, from->method, to->path, to->backend, why);
	}
	if ((from->state == INF_MODEL_ABANDONED || from->is_damaged) && !from->n_methods)
		inf_model_unload(from);
	inf_model_unref(from);
}

static void find_successor(struct inf_fallback *fallback, struct inf_model *from, bool is_for_runs)
{
	struct search *search = calloc(1, sizeof(*search));
	if (!search) {
		from->is_reloading = false;
		return;
	}
	search->fallback = fallback;
	search->from = inf_model_ref(from);
	search->is_for_runs = is_for_runs;
	search->open = (struct inf_open){ .model = from->model,
		.version = from->version,
		.method = from->method,
		.backend = from->is_reloading ? from->backend : "",
		.fd = -1,
		.must_scan = true,
		.done = search_done };
	inf_repository_open(fallback->repository, &search->open);
}

/* The first loaded model of the folder from @node on; NULL: there is none. */
static struct inf_model *next_loaded(const struct inf_fallback *fallback, const struct et_list_node *node)
{
	for (; node != inf_repository_models(fallback->repository); node = node->next) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (inf_model_is_loaded(s) && !s->is_uploaded)
			return s;
	}
	return NULL;
}

static struct inf_model *first_loaded(const struct inf_fallback *fallback)
{
	return next_loaded(fallback, inf_repository_models(fallback->repository)->next);
}

/* --- damaged weights ------------------------------------------------------------------------------ */

static bool needs_reload(const struct inf_model *s, uint64_t now_ns)
{
	if (s->is_damaged)
		return !s->is_reloading && !s->successor && now_ns - s->reload_ns >= RELOAD_NS;
	return et_platform_store_is_damaged(et_program_source(s->program)->store);
}

/* Load the models anew whose persisted weights have turned out to be damaged. */
static void check_weights(struct inf_fallback *fallback)
{
	uint64_t now_ns = et_platform_now_ns(NULL);
	struct inf_model *s = first_loaded(fallback);
	while (s) {
		if (!needs_reload(s, now_ns)) {
			s = next_loaded(fallback, s->node.next);
			continue;
		}
		et_logf(fallback->log, ET_LOG_WARNING,
			"model %s/%s %s: its persisted weights are damaged; it is loaded anew", s->model, s->version,
			s->method);
		s->is_damaged = s->is_reloading = true;
		s->reload_ns = now_ns;
		fallback->successor_found(fallback->self); /* its requests wait */
		find_successor(fallback, s, false);
		s = first_loaded(fallback); /* the list may have changed */
	}
}

/* --- failed runs ---------------------------------------------------------------------------------- */

/* Look for another variant of each model whose runs failed too often. */
static void check_runs(struct inf_fallback *fallback)
{
	char failed[400], why[600];
	struct inf_model *s = first_loaded(fallback);
	while (s) {
		bool is_failing = inf_run_failures_take(&s->run_failures, failed, sizeof(failed)) &&
				  s->state == INF_MODEL_READY && !s->is_damaged;
		if (!is_failing) {
			s = next_loaded(fallback, s->node.next);
			continue;
		}
		et_logf(fallback->log, ET_LOG_WARNING, "model %s/%s %s (%s): %s; its next variant is tried", s->model,
			s->version, s->method, s->backend, failed);
		inf_text(why, sizeof(why), "%s; 'inferctl load %s' tries it again", failed, s->model);
		if (inf_repository_pass_over(fallback->repository, s, why))
			find_successor(fallback, s, true);
		s = first_loaded(fallback); /* the list may have changed */
	}
}

/* --- the owner's calls ---------------------------------------------------------------------------- */

void inf_fallback_check(struct inf_fallback *fallback)
{
	check_weights(fallback);
	check_runs(fallback);
	struct inf_model *s = first_loaded(fallback);
	while (s) {
		struct et_diag why = { "" };
		const char *backend = s->state == INF_MODEL_ABANDONED ? NULL : find_lost_backend(fallback, s, &why);
		if (!backend) {
			s = next_loaded(fallback, s->node.next);
			continue;
		}
		et_logf(fallback->log, ET_LOG_WARNING, "model %s/%s %s: its backend %s %s", s->model, s->version,
			s->method, backend, why.text);
		inf_model_set_state(s, INF_MODEL_ABANDONED);
		find_successor(fallback, s, false);
		s = first_loaded(fallback); /* the list may have changed */
	}
}

/* Whether a better variant of @s may be there: one was passed over when @s was chosen. */
static bool has_better_variant(struct inf_fallback *fallback, const struct inf_model *s)
{
	struct et_diag why;
	bool is_refused;
	return inf_repository_diagnose(fallback->repository, s->model, s->version, why.text, sizeof(why.text),
		&is_refused);
}

/* An ABANDONED model is READY again if its backends are up and its variant is not passed over. */
static void revive(struct inf_fallback *fallback, struct inf_model *s)
{
	struct et_diag why = { "" };
	if (s->state != INF_MODEL_ABANDONED || s->is_damaged || find_lost_backend(fallback, s, &why) ||
		inf_repository_is_passed_over(fallback->repository, s))
		return;
	s->successor = inf_model_unref(s->successor);
	inf_run_failures_forget(&s->run_failures); /* runs went on failing until its clients had moved */
	inf_model_set_state(s, INF_MODEL_READY);
}

/* Models that are to be opened again, because a better variant may be there: those of @model (NULL: all, if one was
 * passed over for them). References in *ret_models, a heap array; how many. Models that are READY again by themselves
 * need no open. */
static uint32_t take_returning(struct inf_fallback *fallback, const char *model, struct inf_model ***ret_models)
{
	uint32_t n_max = 0, n = 0;
	for (struct inf_model *s = first_loaded(fallback); s; s = next_loaded(fallback, s->node.next))
		n_max++;
	struct inf_model **models = calloc(n_max + 1, sizeof(struct inf_model *));
	for (struct inf_model *s = first_loaded(fallback); s; s = next_loaded(fallback, s->node.next)) {
		bool was_abandoned = s->state == INF_MODEL_ABANDONED;
		if (s->is_damaged || (model && strcmp(s->model, model) != 0))
			continue;
		revive(fallback, s);
		if (!was_abandoned && models && (model || has_better_variant(fallback, s)))
			models[n++] = inf_model_ref(s);
	}
	*ret_models = models;
	return n;
}

static void return_models(struct inf_fallback *fallback, const char *model)
{
	struct inf_model **models;
	uint32_t n = take_returning(fallback, model, &models);
	for (uint32_t i = 0; i < n; i++) {
		if (inf_model_is_loaded(models[i])) /* an earlier open may have had it unloaded */
			find_successor(fallback, models[i], false);
		inf_model_unref(models[i]);
	}
	free(models);
}

void inf_fallback_return(struct inf_fallback *fallback)
{
	return_models(fallback, NULL);
}

void inf_fallback_retry(struct inf_fallback *fallback, const char *model)
{
	return_models(fallback, model);
}
