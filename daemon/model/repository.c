/* SPDX-License-Identifier: BSD-3-Clause */
/* The repository: which models are loaded, for how long, and which the folder holds.
 *
 * Every model is in the list `models` from the start of its load (load.c) until it is UNLOADED, and then in `unloaded`
 * until its last Method's reference goes, since its Plan still takes memory (budget.c). Unloading never waits: it marks
 * the model, which tells by an event when its runs have ended.
 *
 * What must always be true: a model with Methods, runs or a pin is not unloaded for its age. While a model is being
 * unloaded on request, every open of it is refused; an open that was looking for it at that time fails. */
#include "daemon/model/repository_internal.h"
#include "daemon/base/text.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELD_NS = 1000 * 1000 * 1000 }; /* how long a run is in one instruction until an unload is said to wait for it */

struct unload {
	struct et_list_node node;
	char model[256];
	void (*done)(void *arg, const char *held); /* NULL: it was called */
	void *arg;
};

/* One scan of the whole folder, for all callers that asked before it began: the folder may be large, and clients
 * may ask often. The answers may be large, too, and one client may have asked a thousand times: a poll gives a few
 * answers, and then the loop handles its other events. */
struct scan {
	struct inf_work work;
	struct et_list_node node; /* in the repository's, while there are waiters to answer */
	struct inf_repository *repository;
	_Atomic(bool) has_begun;
	char folder[INF_CONFIG_PATH_MAX];
	struct inf_variants *models;
	size_t n;
	int rc;
	struct waiter {
		struct waiter *next;
		inf_scan_fn done;
		void *arg;
	} *waiters, **last;
};

bool inf_repository_is_unloading(struct inf_repository *r, const char *model)
{
	for (struct et_list_node *node = r->unloads.next; node != &r->unloads; node = node->next)
		if (strcmp(ET_CONTAINER_OF(node, struct unload, node)->model, model) == 0)
			return true;
	return r->is_closing;
}

bool inf_repository_diagnose(struct inf_repository *r, const char *model, const char *version, char *text, size_t room,
	bool *ret_is_refused)
{
	return inf_load_diagnostics_tell(&r->diagnostics, model, version, text, room, ret_is_refused);
}

void inf_repository_note(struct inf_repository *r, const char *model, const char *version, const char *text)
{
	const struct inf_load_diagnostic diagnostic = { model, version, "", text, false, 0 };
	inf_load_diagnostics_note(&r->diagnostics, &diagnostic);
}

/* --- the folder ----------------------------------------------------------------------------------- */

static void scan_run(struct inf_work *work)
{
	struct scan *scan = ET_CONTAINER_OF(work, struct scan, work);
	atomic_store(&scan->has_begun, true);
	scan->rc = inf_variants_scan(scan->folder, &scan->models, &scan->n);
}

/* The list is newer than what the last check has noted. */
static void note_scan(const struct scan *scan, struct inf_model *s)
{
	const char *newest = "";
	const char *changed = NULL;
	for (size_t i = 0; i < scan->n; i++) {
		const struct inf_variants *v = &scan->models[i];
		if (!v->n || strcmp(v->model, s->model) != 0)
			continue;
		newest = strverscmp(v->version, newest) > 0 ? v->version : newest;
		if (strcmp(v->version, s->version) == 0)
			changed = inf_variants_changed(v, s->path, &s->file, &s->data, &s->conf_ids);
	}
	inf_repository_note_on_disk(s, changed, newest);
}

static void scan_done(struct inf_work *work)
{
	struct scan *scan = ET_CONTAINER_OF(work, struct scan, work);
	struct inf_repository *r = scan->repository;
	for (struct et_list_node *node = r->models.next; node != &r->models && scan->rc == 0; node = node->next) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (inf_model_is_loaded(s) && !s->is_uploaded)
			note_scan(scan, s);
	}
	if (r->scan == scan)
		r->scan = NULL;
	et_list_append(&r->scanned, &scan->node);
}

static void free_scan(struct scan *scan)
{
	et_list_remove(&scan->node);
	for (size_t i = 0; i < scan->n; i++)
		inf_variants_deinit(&scan->models[i]);
	free(scan->models);
	free(scan);
}

static void answer_scans(struct inf_repository *r)
{
	for (int i = 0; i < INF_REPOSITORY_ANSWERS && !et_list_is_empty(&r->scanned); i++) {
		struct scan *scan = ET_CONTAINER_OF(r->scanned.next, struct scan, node);
		struct waiter *waiter = scan->waiters;
		scan->waiters = waiter->next;
		waiter->done(waiter->arg, scan->rc, scan->models, scan->n);
		free(waiter);
		if (scan->waiters)
			continue;
		free_scan(scan);
		r->n_busy--;
	}
	if (!et_list_is_empty(&r->scanned))
		r->o.notify(r->o.self);
}

void inf_repository_scan(struct inf_repository *r, inf_scan_fn done, void *arg)
{
	struct scan *scan = r->scan && !atomic_load(&r->scan->has_begun) ? r->scan : NULL;
	struct waiter *waiter = calloc(1, sizeof(*waiter));
	bool is_new = waiter && !scan;
	if (is_new)
		scan = calloc(1, sizeof(*scan));
	if (!waiter || !scan) {
		free(waiter);
		done(arg, -ENOMEM, NULL, 0);
		return;
	}
	waiter->done = done;
	waiter->arg = arg;
	if (!is_new) {
		*scan->last = waiter;
		scan->last = &waiter->next;
		return;
	}
	scan->waiters = waiter;
	scan->last = &waiter->next;
	scan->work.run = scan_run;
	scan->work.done = scan_done;
	scan->repository = r;
	r->n_busy++;
	r->scan = scan;
	inf_text(scan->folder, sizeof(scan->folder), "%s", r->o.config->models);
	inf_helper_post(r->o.helper, &scan->work, &r->scan); /* one scan serves all who ask, so it is its own owner */
}

const struct et_list_node *inf_repository_models(const struct inf_repository *r)
{
	return &r->models;
}

const struct et_list_node *inf_repository_totals(const struct inf_repository *r)
{
	return &r->totals;
}

struct inf_model *inf_repository_find_ready(struct inf_repository *r, const char *model, const char *version,
	const char *method)
{
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if ((s->state == INF_MODEL_READY || s->state == INF_MODEL_SUPERSEDED) && strcmp(s->model, model) == 0 &&
			!s->is_uploaded && !s->is_replaced && (!version[0] || strcmp(s->version, version) == 0) &&
			(!method[0] || strcmp(s->method, method) == 0))
			return s;
	}
	return NULL;
}

/* --- unloading ------------------------------------------------------------------------------------ */

/* Whether a model of that name is not FAILED. */
static bool is_present(struct inf_repository *r, const char *model)
{
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (strcmp(s->model, model) == 0 && !s->is_uploaded && s->state != INF_MODEL_FAILED)
			return true;
	}
	return false;
}

static void check_unloads(struct inf_repository *r)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &r->unloads) {
		struct unload *unload = ET_CONTAINER_OF(node, struct unload, node);
		if (is_present(r, unload->model))
			continue;
		et_list_remove(&unload->node);
		if (unload->done)
			unload->done(unload->arg, NULL);
		free(unload);
	}
}

/* Whether a model of that name can't be freed yet, though no request of it runs. */
static bool is_held(struct inf_repository *r, const char *model)
{
	bool is_held = false;
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		is_held |= strcmp(s->model, model) == 0 && !s->is_uploaded && inf_model_is_held(s, HELD_NS);
	}
	return is_held;
}

uint64_t inf_repository_check_held(struct inf_repository *r)
{
	struct et_list_node *node, *after;
	uint64_t next_ns = UINT64_MAX;
	ET_LIST_FOR_EACH(node, after, &r->unloads) {
		struct unload *unload = ET_CONTAINER_OF(node, struct unload, node);
		void (*done)(void *arg, const char *held) = unload->done;
		char held[512];
		if (!done)
			continue;
		next_ns = et_platform_now_ns(NULL) + HELD_NS / 4;
		if (!is_held(r, unload->model))
			continue;
		inf_text(held, sizeof(held),
			"model '%s' serves no more, but its memory is freed only when a long run of another model ends, "
			"which has a worker that holds a part of it",
			unload->model);
		unload->done = NULL;
		done(unload->arg, held);
	}
	return next_ns;
}

static void model_unloaded(void *self, struct inf_model *model)
{
	struct inf_repository *r = self;
	if (!model->is_uploaded && !inf_run_totals_add(&r->totals, model->model, model->version, &model->stats))
		et_logf(r->o.log, ET_LOG_ERROR, "model %s/%s: out of memory, so its statistics begin anew",
			model->model, model->version);
	et_list_remove(&model->node);
	et_list_append(&r->unloaded, &model->node); /* until its last Method goes */
	inf_model_unref(model);
	check_unloads(r);
}

/* Unload the loaded models that are to be unloaded; those that are LOADING follow when they are loaded. */
static void begin_unloads(struct inf_repository *r)
{
	for (bool is_changed = true; is_changed;) {
		is_changed = false;
		for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
			struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
			if (inf_model_is_loaded(s) &&
				(r->is_closing || (!s->is_uploaded && inf_repository_is_unloading(r, s->model)))) {
				inf_model_unload(s);
				is_changed = true;
				break;
			}
		}
	}
}

bool inf_repository_unload(struct inf_repository *r, const char *model, void (*done)(void *arg, const char *held),
	void *done_arg)
{
	bool was_wanted = inf_opens_forget(r, model);
	struct unload *unload = is_present(r, model) ? calloc(1, sizeof(*unload)) : NULL;
	inf_repository_retry(r, model);
	if (!unload) {
		if (was_wanted)
			done(done_arg, NULL);
		return was_wanted;
	}
	inf_text(unload->model, sizeof(unload->model), "%s", model);
	unload->done = done;
	unload->arg = done_arg;
	et_list_append(&r->unloads, &unload->node);
	begin_unloads(r);
	check_unloads(r);
	return true;
}

void inf_repository_unload_all(struct inf_repository *r)
{
	r->is_closing = true;
	inf_scrub_stop(r->scrub);
	begin_unloads(r);
}

bool inf_repository_retry(struct inf_repository *r, const char *model)
{
	struct et_list_node *node, *after;
	bool was_failing = inf_failing_variants_forget_model(&r->failing, model);
	inf_load_diagnostics_forget(&r->diagnostics, model);
	ET_LIST_FOR_EACH(node, after, &r->models) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (s->state == INF_MODEL_FAILED && strcmp(s->model, model) == 0) {
			et_list_remove(&s->node);
			inf_model_unref(s);
		}
	}
	return was_failing;
}

bool inf_repository_pass_over(struct inf_repository *r, const struct inf_model *s, const char *why)
{
	const struct inf_failing_variant variant = { s->model, s->version, s->method, s->path, s->backend, &s->file,
		&s->data, why };
	return inf_failing_variants_add(&r->failing, &variant);
}

const char *inf_repository_is_passed_over(const struct inf_repository *r, const struct inf_model *s)
{
	return inf_failing_variants_find(&r->failing, &s->file, &s->data, s->method);
}

void inf_repository_take_back(struct inf_repository *r, const struct inf_model *s)
{
	inf_failing_variants_forget(&r->failing, &s->file, &s->data, s->method);
}

void inf_repository_retry_backend(struct inf_repository *r, const char *backend)
{
	inf_failing_variants_forget_backend(&r->failing, backend);
}

const struct et_list_node *inf_repository_failing(const struct inf_repository *r)
{
	return &r->failing;
}

void inf_repository_method_gone(struct inf_repository *r, struct inf_model *s)
{
	s->last_used_ns = et_platform_now_ns(NULL);
	if (!s->n_methods && inf_model_is_loaded(s) &&
		(s->is_uploaded || s->is_replaced || s->is_damaged || s->state == INF_MODEL_ABANDONED))
		inf_model_unload(s);
}

void inf_repository_evict(struct inf_repository *r, uint64_t now_ns)
{
	for (bool is_changed = true; is_changed;) {
		is_changed = false;
		for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
			struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
			if (!inf_model_is_loaded(s) || s->n_methods || s->is_pinned || now_ns < s->last_used_ns ||
				now_ns - s->last_used_ns < s->keep_alive_ns || atomic_load(&s->n_jobs))
				continue;
			inf_model_unload(s);
			is_changed = true;
			break;
		}
	}
	inf_repository_shrink(r);
}

void inf_repository_poll(struct inf_repository *r)
{
	r->n_at_once = 0;
	inf_helper_reap(r->o.helper);
	answer_scans(r);
	/* A poll may take models out of the list, so begin again after one that changed its state. */
	for (struct et_list_node *node = r->models.next; node != &r->models;) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		enum inf_model_state before = s->state;
		inf_model_ref(s);
		inf_model_poll(s);
		bool is_changed = s->state != before;
		inf_model_unref(s);
		node = is_changed ? r->models.next : node->next;
	}
	begin_unloads(r);
	check_unloads(r); /* a load that failed also ends an unload */
	inf_loads_retry(r);
}

/* --- life ----------------------------------------------------------------------------------------- */

struct pin {
	struct inf_open open;
	struct inf_repository *repository;
	char model[INF_CONFIG_NAME_MAX];
};

static void pin_done(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *model)
{
	struct pin *pin = ET_CONTAINER_OF(open, struct pin, open);
	pin->repository->n_pins_opening--;
	if (status != INF_OK)
		et_logf(pin->repository->o.log, ET_LOG_WARNING, "model %s is pinned but not loaded: %s", pin->model,
			error);
	free(pin);
}

static bool has_backend(const struct inf_repository *r, const char *name)
{
	const struct et_registry *registry = r->o.registry;
	for (size_t i = 0; i < registry->n_backends; i++)
		if (strcmp(registry->backends[i].ops->name, name) == 0 ||
			strcmp(registry->backends[i].ops->id, name) == 0)
			return true;
	return false;
}

/* A section that names a backend which this daemon lacks is a mistake, but no reason not to serve the other models. */
static void warn_of_backends(const struct inf_repository *r, const struct inf_config_model *section)
{
	const char *name = section->backend; /* "a+b" is a variant that needs both */
	if (name[0] && strcmp(name, "portable") != 0 && !strpbrk(name, "+, \t") && !has_backend(r, name))
		et_logf(r->o.log, ET_LOG_WARNING,
			"model %s: it can't be loaded: its section asks for backend '%s', which is not available",
			section->name, name);
	for (uint32_t i = 0; i < section->options.n; i++) {
		const struct inf_config_model_option *option = &section->options.items[i];
		if (!has_backend(r, option->backend))
			et_logf(r->o.log, ET_LOG_WARNING,
				"model %s: %s.%s has no effect: backend '%s' is not available", section->name,
				option->backend, option->key, option->backend);
	}
}

void inf_repository_reconfigured(struct inf_repository *r)
{
	const struct inf_config *config = r->o.config;
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		const struct inf_config_model *section = inf_config_find_model(config, s->model);
		if (s->is_uploaded)
			continue;
		s->is_pinned = section && section->pin;
		s->keep_alive_ns = section && section->has_keep_alive ? section->keep_alive_ns : config->keep_alive_ns;
	}
	for (uint32_t i = 0; i < config->n_model_sections; i++) {
		warn_of_backends(r, &config->model_sections[i]);
		struct pin *pin = config->model_sections[i].pin ? calloc(1, sizeof(*pin)) : NULL;
		if (!pin)
			continue;
		inf_text(pin->model, sizeof(pin->model), "%s", config->model_sections[i].name);
		pin->repository = r;
		pin->open = (struct inf_open){
			.model = pin->model, .version = "", .method = "", .backend = "", .fd = -1, .done = pin_done
		};
		r->n_pins_opening++;
		inf_repository_open(r, &pin->open);
	}
}

bool inf_repository_has_pinned(const struct inf_repository *r)
{
	return !r->n_pins_opening;
}

bool inf_repository_is_idle(const struct inf_repository *r)
{
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next)
		if (ET_CONTAINER_OF(node, struct inf_model, node)->state != INF_MODEL_FAILED)
			return false;
	return !r->n_busy;
}

int inf_repository_new(struct inf_repository **ret_repository, const struct inf_repository_options *options)
{
	struct inf_repository *r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->o = *options;
	r->has_helper = true;
	r->events = (struct inf_model_events){ r, inf_opens_model_loaded, model_unloaded, r->o.notify, r->o.self,
		inf_repository_has_room, inf_repository_release_async };
	et_list_init(&r->models);
	et_list_init(&r->totals);
	et_list_init(&r->unloaded);
	et_list_init(&r->loads);
	et_list_init(&r->opens);
	et_list_init(&r->unloads);
	inf_load_diagnostics_init(&r->diagnostics);
	inf_failing_variants_init(&r->failing);
	et_list_init(&r->scanned);
	if (r->o.store)
		r->scrub = inf_scrub_new(r->o.store, r->o.log);
	*ret_repository = r;
	return 0;
}

struct inf_repository *inf_repository_free(struct inf_repository *r)
{
	struct et_list_node *node, *after;
	if (!r)
		return NULL;
	r->is_closing = true;
	r->has_helper = false; /* the helper was freed before */
	r->scrub = inf_scrub_free(r->scrub);
	inf_opens_end(r);
	ET_LIST_FOR_EACH(node, after, &r->models) {
		et_list_remove(node);
		inf_model_unref(ET_CONTAINER_OF(node, struct inf_model, node));
	}
	ET_LIST_FOR_EACH(node, after, &r->unloaded)
		et_list_remove(node);
	ET_LIST_FOR_EACH(node, after, &r->unloads)
		free(ET_CONTAINER_OF(node, struct unload, node));
	inf_run_totals_deinit(&r->totals);
	inf_load_diagnostics_deinit(&r->diagnostics);
	inf_failing_variants_deinit(&r->failing);
	free(r);
	return NULL;
}
