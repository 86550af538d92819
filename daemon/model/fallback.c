/* SPDX-License-Identifier: BSD-3-Clause */
/* Looking for a successor of a model whose backend was given up.
 *
 * The model stays READY and is marked as given up. The fallback asks the repository for it like any client, except
 * that the repository looks at its files and backends anew. The answer becomes the model's successor. Idle Methods
 * change over to it at once, others with the first request that finds them idle (daemon/client/method.c). The
 * given-up model is unloaded when its last Method has left. The way back is the same: every model with a variant
 * that was passed over is opened anew, and if another inf_model answers, that one is its successor.
 *
 * What must always be true: two models agree in everything that bindings rely on before one becomes the other's
 * successor; successors never form a ring. A model without another variant keeps its Methods, whose requests say
 * why they fail.
 *
 * The fallback does not know Methods or clients: it only says that they may follow. */
#include "daemon/model/fallback.h"

#include "daemon/base/text.h"
#include "daemon/model/repository.h"
#include "runtime/base/checked.h"

#include <stdlib.h>
#include <string.h>

struct move {
	struct inf_open open;
	struct inf_fallback *fallback;
	struct inf_model *from; /* a reference */
};

/* --- backends that were given up
 * ---------------------------------------------------------------------------------------- */

/* The name of a backend that @s uses and that was given up, and the reason; NULL: every backend of @s is well. */
static const char *given_up(const struct inf_fallback *fallback, const struct inf_model *s, struct et_diag *ret_why)
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

/* --- moves ---------------------------------------------------------------------------------------- */

static void moved(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *to)
{
	struct move *move = ET_CONTAINER_OF(open, struct move, open);
	struct inf_fallback *fallback = move->fallback;
	struct inf_model *from = move->from;
	char why[160];
	free(move);
	if (status != INF_OK) {
		if (from->is_given_up)
			et_logf(fallback->log, ET_LOG_ERROR, "model %s/%s %s: nothing to go on with: %s", from->model,
				from->version, from->method, error);
	} else if (to != from && from->state == INF_MODEL_READY) {
		if (!fits(from->info, to->info, why, sizeof(why))) {
			et_logf(fallback->log, ET_LOG_ERROR, "model %s/%s %s: its clients can't go on with %s (%s): %s",
				from->model, from->version, from->method, to->path, to->backend, why);
		} else {
			et_logf(fallback->log, from->is_given_up ? ET_LOG_WARNING : ET_LOG_NOTICE,
				"model %s/%s %s: goes on with %s (%s)", from->model, from->version, from->method,
				to->path, to->backend);
			to->successor = inf_model_unref(to->successor);
			inf_model_unref(from->successor);
			from->successor = inf_model_ref(to);
			fallback->follow(fallback->self);
		}
	}
	if (from->is_given_up && !from->n_methods)
		inf_model_unload(from);
	inf_model_unref(from);
}

static void begin(struct inf_fallback *fallback, struct inf_model *from)
{
	struct move *move = calloc(1, sizeof(*move));
	if (!move)
		return;
	move->fallback = fallback;
	move->from = inf_model_ref(from);
	move->open = (struct inf_open){ .model = from->model,
		.version = from->version,
		.method = from->method,
		.backend = "",
		.fd = -1,
		.is_anew = true,
		.done = moved };
	inf_repository_open(fallback->repository, &move->open);
}

/* The first model from @node on that may have another variant; NULL: none. */
static struct inf_model *next_movable(const struct inf_fallback *fallback, const struct et_list_node *node)
{
	for (; node != inf_repository_models(fallback->repository); node = node->next) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (s->state == INF_MODEL_READY && !s->is_uploaded)
			return s;
	}
	return NULL;
}

static struct inf_model *first_movable(const struct inf_fallback *fallback)
{
	return next_movable(fallback, inf_repository_models(fallback->repository)->next);
}

void inf_fallback_check(struct inf_fallback *fallback)
{
	struct inf_model *s = first_movable(fallback);
	while (s) {
		struct et_diag why = { "" };
		const char *backend = s->is_given_up ? NULL : given_up(fallback, s, &why);
		if (!backend) {
			s = next_movable(fallback, s->node.next);
			continue;
		}
		et_logf(fallback->log, ET_LOG_WARNING, "model %s/%s %s: its backend %s %s", s->model, s->version,
			s->method, backend, why.text);
		s->is_given_up = true;
		begin(fallback, s);
		s = first_movable(fallback); /* begin may have changed the list */
	}
}

void inf_fallback_return(struct inf_fallback *fallback)
{
	struct inf_model *s;
	struct et_diag why = { "" };
	bool is_refused;
	for (s = first_movable(fallback); s; s = next_movable(fallback, s->node.next)) {
		s->wants_scan = false;
		if (s->is_given_up && !given_up(fallback, s, &why)) {
			s->is_given_up = false;
			s->successor = inf_model_unref(s->successor);
		} else if (!s->is_given_up) {
			s->wants_scan = inf_repository_why(fallback->repository, s->model, s->version, why.text,
				sizeof(why.text), &is_refused);
		}
	}
	for (s = first_movable(fallback); s;) {
		bool wants_scan = s->wants_scan;
		s->wants_scan = false;
		if (wants_scan)
			begin(fallback, s);
		s = wants_scan ? first_movable(fallback) : next_movable(fallback, s->node.next);
	}
}
