/* Models: found, loaded once, shared, unloaded.
 *
 * An open goes through these steps, the slow ones on the helper's thread:
 *     fast      a READY serving fits: done at once
 *     look      find the model's files and what each needs               (helper)
 *     choose    the first variant left that is usable; if a serving of that very file and method is there, wait for
 *               it, else make one
 *     make      the Plan                                                 (helper; several opens may wait)
 *     prepare   contexts on every worker                                 (workers)
 * and back to choose when making or preparing failed, with the reason noted. Steps that run elsewhere own what they
 * need; an open that is cancelled meanwhile is only marked, and freed when its step comes back.
 *
 * A file is the same file if device, inode, size and times are equal: a model that was replaced is loaded afresh
 * by the next look, while those who have it keep what they have. */
#include "daemon/repository.h"
#include "daemon/text.h"
#include "ipc/channel.h"

#include "runtime/base/checked.h"
#include "runtime/host/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct inf_open_state {
	struct et_list_node node; /* in the repository's opens */
	struct inf_repository *repository;
	struct inf_open *open; /* NULL: cancelled */
	char model[256], version[256], method[256], backend[256];
	int fd, data_fds[ET_HOST_MAX_DATA];
	uint32_t n_data_fds;
	struct inf_work work;
	struct inf_variants variants;
	uint32_t next;                /* variant to try */
	struct inf_serving *awaiting; /* a reference */
	char tried[400];
	uint32_t n_missing, n_broken; /* of those tried: for want of an operator or a backend; else */
	char cache_dir[INF_CONFIG_PATH_MAX], folder[INF_CONFIG_PATH_MAX];
};

struct make {
	struct inf_work work;
	struct inf_repository *repository;
	struct inf_serving *serving; /* a reference */
	struct et_program *program;
	struct et_plan *plan;
	enum et_status status;
	struct et_diag diag;
};

struct unload {
	struct et_list_node node;
	char model[256];
	void (*done)(void *arg);
	void *arg;
};

struct scan {
	struct inf_work work;
	struct inf_repository *repository;
	char folder[INF_CONFIG_PATH_MAX];
	struct inf_variants *models;
	size_t n;
	int rc;
	inf_index_fn done;
	void *arg;
};

/* What to tell about a model that could not be loaded, or was only in part what was hoped for. */
struct remark {
	struct et_list_node node;
	char model[256], version[256], text[400];
};

struct inf_repository {
	struct inf_repository_options o;
	struct inf_serving_events events;
	struct et_list_node servings, opens, unloads, remarks;
	uint32_t n_busy; /* steps on the helper's thread */
	bool is_closing;
};

static void choose(struct inf_open_state *state);

static bool is_being_unloaded(struct inf_repository *r, const char *model)
{
	for (struct et_list_node *node = r->unloads.next; node != &r->unloads; node = node->next)
		if (strcmp(ET_CONTAINER_OF(node, struct unload, node)->model, model) == 0)
			return true;
	return r->is_closing;
}

/* --- remarks -------------------------------------------------------------------------------------- */

static void remark(struct inf_repository *r, const char *model, const char *version, const char *text)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &r->remarks)
	{
		struct remark *old = ET_CONTAINER_OF(node, struct remark, node);
		if (strcmp(old->model, model) == 0 && strcmp(old->version, version) == 0) {
			et_list_remove(&old->node);
			free(old);
		}
	}
	struct remark *new = text &&text[0] ? calloc(1, sizeof(*new)) : NULL;
	if (!new)
		return;
	inf_text(new->model, sizeof(new->model), "%s", model);
	inf_text(new->version, sizeof(new->version), "%s", version);
	inf_text(new->text, sizeof(new->text), "%s", text);
	et_list_append(&r->remarks, &new->node);
}

const char *inf_repository_why(struct inf_repository *r, const char *model, const char *version)
{
	for (struct et_list_node *node = r->remarks.next; node != &r->remarks; node = node->next) {
		struct remark *found = ET_CONTAINER_OF(node, struct remark, node);
		if (strcmp(found->model, model) == 0 && strcmp(found->version, version) == 0)
			return found->text;
	}
	return NULL;
}

/* --- ending an open ------------------------------------------------------------------------------- */

static void free_state(struct inf_open_state *state)
{
	et_list_remove(&state->node);
	inf_serving_unref(state->awaiting);
	inf_variants_deinit(&state->variants);
	if (state->fd >= 0)
		close(state->fd);
	inf_close_fds(state->data_fds, state->n_data_fds);
	free(state);
}

static void finish(
	struct inf_open_state *state, enum inf_status status, const char *error, struct inf_serving *serving)
{
	struct inf_open *open = state->open;
	if (serving)
		inf_serving_ref(serving);
	if (open) {
		open->state = NULL;
		char text[900];
		inf_text(text, sizeof(text), "%s", error ? error : "");
		free_state(state);
		open->done(open, status, text, serving);
	} else {
		free_state(state);
	}
	inf_serving_unref(serving);
}

/* --- making a serving ----------------------------------------------------------------------------- */

static void make_run(struct inf_work *work)
{
	struct make *make = ET_CONTAINER_OF(work, struct make, work);
	make->status =
		et_plan_new(&make->plan, make->program, make->serving->method, make->repository->o.registry,
			inf_pool_n_slots(make->repository->o.pool), et_host_allocator(), &make->diag);
}

static uint64_t memory_in_use(const struct inf_repository *r)
{
	uint64_t n = 0;
	for (struct et_list_node *node = r->servings.next; node != &r->servings; node = node->next)
		n += inf_serving_memory(ET_CONTAINER_OF(node, struct inf_serving, node));
	return n;
}

/* Make room for @n bytes by unloading what nobody uses, least recently used first. False and a sentence when there
 * is too little even so. */
static bool make_room(struct inf_repository *r, uint64_t n, char *reason, size_t room)
{
	uint64_t budget = r->o.config->memory_budget, used = memory_in_use(r), freeing = 0;
	if (!budget || n <= budget - (used < budget ? used : budget))
		return true;
	for (;;) {
		struct inf_serving *oldest = NULL, *largest = NULL;
		for (struct et_list_node *node = r->servings.next; node != &r->servings; node = node->next) {
			struct inf_serving *s = ET_CONTAINER_OF(node, struct inf_serving, node);
			if (s->state != INF_MODEL_READY)
				continue;
			if (!largest || inf_serving_memory(s) > inf_serving_memory(largest))
				largest = s;
			if (!s->n_methods && !s->is_pinned &&
				(!oldest || s->last_used_ns < oldest->last_used_ns))
				oldest = s;
		}
		if (n <= budget && used - freeing <= budget - n)
			return true;
		if (!oldest) {
			inf_text(reason, room,
				"it needs %llu MB, %llu of the budget of %llu MB are free, the largest part "
				"is held by '%s' (%llu MB)",
				(unsigned long long)(n >> 20),
				(unsigned long long)((budget > used - freeing ? budget - used + freeing
									      : 0) >>
						     20),
				(unsigned long long)(budget >> 20), largest ? largest->model : "nobody",
				(unsigned long long)(largest ? inf_serving_memory(largest) >> 20 : 0));
			return false;
		}
		et_logf(r->o.log, ET_LOG_INFO, "model %s: unloading, to make room", oldest->model);
		freeing += inf_serving_memory(oldest);
		inf_serving_unload(oldest);
	}
}

static void make_done(struct inf_work *work)
{
	struct make *make = ET_CONTAINER_OF(work, struct make, work);
	struct inf_repository *r = make->repository;
	struct inf_serving *s = make->serving;
	char reason[400] = "";
	r->n_busy--;
	if (make->status == ET_OK) {
		const struct et_plan_info *info = et_plan_info(make->plan);
		struct et_program_stats stats;
		et_program_stats(make->program, &stats);
		if (!make_room(r,
			    stats.n_file_bytes + inf_data_ids_n_bytes(&s->data) + info->n_plan_bytes +
				    info->n_delegate_bytes,
			    reason, sizeof(reason))) {
			et_plan_unref(make->plan);
			make->status = ET_E_OUT_OF_RESOURCES;
		}
	} else {
		inf_text(reason, sizeof(reason), "%s",
			make->diag.text[0] ? make->diag.text : et_status_text(make->status));
	}
	if (make->status == ET_OK) {
		inf_serving_prepare(s, make->program, make->plan);
	} else {
		et_program_unref(make->program);
		s->is_missing = make->status == ET_E_OPERATOR_MISSING ||
				make->status == ET_E_BACKEND_MISSING || make->status == ET_E_NOT_SUPPORTED;
		inf_serving_fail(s, reason);
	}
	free(make);
	inf_serving_unref(s);
}

/* NULL: no memory. */
static struct inf_serving *make_serving(
	struct inf_open_state *state, struct inf_variant *v, const char *method)
{
	struct inf_repository *r = state->repository;
	struct make *make = calloc(1, sizeof(*make));
	struct inf_serving *s = inf_serving_new(
		r->o.pool, &r->events, r->o.log, state->model, state->variants.version, method);
	const struct inf_config_model *section = inf_config_find_model(r->o.config, state->model);
	if (!make || !s || !(s->backend = strdup(v->label)) || !(s->path = strdup(v->path))) {
		if (s)
			s->state = INF_MODEL_FAILED;
		inf_serving_unref(s);
		free(make);
		return NULL;
	}
	s->file = v->id;
	s->data = state->variants.data_ids;
	s->is_foreign = state->fd >= 0;
	s->keep_alive_ns = s->is_foreign                        ? 0
			   : section && section->has_keep_alive ? section->keep_alive_ns
								: r->o.config->keep_alive_ns;
	s->is_pinned = !s->is_foreign && section && section->pin;
	s->last_used_ns = et_host_now_ns(NULL);
	et_list_append(&r->servings, &s->node); /* holds the first reference */
	make->work.run = make_run;
	make->work.done = make_done;
	make->repository = r;
	make->serving = inf_serving_ref(s);
	make->program = et_program_ref(v->program);
	r->n_busy++;
	inf_helper_post(r->o.helper, &make->work);
	return s;
}

/* --- choosing ------------------------------------------------------------------------------------- */

static void note_tried(
	struct inf_open_state *state, const struct inf_variant *v, const char *reason, bool is_missing)
{
	size_t n = strlen(state->tried);
	state->n_missing += is_missing;
	state->n_broken += !is_missing;
	inf_text(state->tried + n, sizeof(state->tried) - n, "%s%s: %s", n ? "; " : "",
		v->file ? v->file : v->path, reason);
}

static struct inf_serving *find_serving(struct inf_repository *r, const struct inf_file_id *file,
	const struct inf_data_ids *data, const char *method, bool is_foreign)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &r->servings)
	{
		struct inf_serving *s = ET_CONTAINER_OF(node, struct inf_serving, node);
		if (inf_file_id_equal(&s->file, file) && inf_data_ids_equal(&s->data, data) &&
			strcmp(s->method, method) == 0 && s->is_foreign == is_foreign &&
			(s->state == INF_MODEL_READY || s->state == INF_MODEL_LOADING ||
				s->state == INF_MODEL_FAILED))
			return s;
	}
	return NULL;
}

static void give_up(struct inf_open_state *state)
{
	char error[900];
	if (state->backend[0] && state->variants.n) {
		inf_text(error, sizeof(error), "no variant of model '%s' can run on '%s': %s", state->model,
			state->backend, state->tried);
	} else if (state->fd >= 0) {
		inf_text(error, sizeof(error), "%s",
			state->tried); /* which begins with the client's name for it */
	} else {
		inf_text(error, sizeof(error), "model '%s' can't be loaded: %s", state->model, state->tried);
		remark(state->repository, state->model, state->variants.version, state->tried);
	}
	et_logf(state->repository->o.log, ET_LOG_WARNING, "%s", error);
	finish(state, state->n_missing && !state->n_broken ? INF_UNIMPLEMENTED : INF_FAILED_PRECONDITION,
		error, NULL);
}

static void choose(struct inf_open_state *state)
{
	struct inf_repository *r = state->repository;
	char error[400];
	while (state->next < state->variants.n) {
		struct inf_variant *v = &state->variants.items[state->next];
		if (!v->program) {
			note_tried(state, v, v->reason, v->is_missing);
			state->next++;
			continue;
		}
		const char *method = state->method[0] ? state->method : inf_default_method(v->program);
		if (!method || !et_program_find_method(v->program, method)) {
			size_t n = 0;
			char names[200] = "";
			for (uint32_t i = 0; i < et_program_n_methods(v->program) && n < sizeof(names); i++)
				n += inf_text(names + n, sizeof(names) - n, "%s%s", i ? ", " : "",
					et_program_method_at(v->program, i)->name);
			inf_text(error, sizeof(error), "model '%s' has no method '%s'; it has: %s",
				state->model, state->method[0] ? state->method : "forward", names);
			finish(state, INF_NOT_FOUND, error, NULL);
			return;
		}
		struct inf_serving *s =
			find_serving(r, &v->id, &state->variants.data_ids, method, state->fd >= 0);
		if (s && s->state == INF_MODEL_FAILED) {
			note_tried(state, v, s->reason, s->is_missing);
			state->next++;
			continue;
		}
		if (!s && !(s = make_serving(state, v, method))) {
			finish(state, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory", NULL);
			return;
		}
		if (s->state == INF_MODEL_LOADING) {
			state->awaiting = inf_serving_ref(s);
			return;
		}
		s->is_default_method = s->is_default_method || !state->method[0] ||
				       (inf_default_method(v->program) &&
					       strcmp(inf_default_method(v->program), method) == 0);
		s->is_newest = s->is_newest || !state->version[0];
		s->is_preferred = s->is_preferred || !state->backend[0];
		if (!state->backend[0] && !s->is_foreign)
			remark(r, state->model, state->variants.version, state->tried);
		finish(state, INF_OK, NULL, s);
		return;
	}
	give_up(state);
}

static void serving_loaded(void *self, struct inf_serving *serving)
{
	struct inf_repository *r = self;
	struct et_list_node *node, *after;
	inf_serving_ref(serving);
	ET_LIST_FOR_EACH(node, after, &r->opens)
	{
		struct inf_open_state *state = ET_CONTAINER_OF(node, struct inf_open_state, node);
		if (state->awaiting != serving)
			continue;
		state->awaiting = inf_serving_unref(state->awaiting);
		choose(state);
		after = r->opens.next; /* choosing may have ended any of them; those who wait no more are passed over */
	}
	if (serving->state == INF_MODEL_READY && !serving->n_methods)
		serving->last_used_ns = et_host_now_ns(NULL);
	if (serving->state == INF_MODEL_FAILED && serving->is_foreign) {
		et_list_remove(&serving->node);
		inf_serving_unref(serving);
	}
	inf_serving_unref(serving);
}

/* --- looking -------------------------------------------------------------------------------------- */

static void look_run(struct inf_work *work)
{
	struct inf_open_state *state = ET_CONTAINER_OF(work, struct inf_open_state, work);
	struct inf_inspect_options options = {
		.cache_dir = state->cache_dir[0] ? state->cache_dir : NULL,
		.registry = state->repository->o.registry,
		.config = state->repository->o.config, /* the order never changes while it runs */
		.backend = state->backend,
	};
	if (state->fd < 0)
		inf_variants_find(&state->variants, state->folder, state->model, state->version);
	inf_variants_inspect(&state->variants, &options);
}

static void not_found(void *arg, int rc, const struct inf_variants *models, size_t n)
{
	struct inf_open_state *state = arg;
	char names[400] = "", error[900];
	size_t n_names = 0;
	bool is_other_version = false;
	for (size_t i = 0; i < n && n_names < sizeof(names); i++) {
		if (strcmp(models[i].model, state->model) == 0) {
			is_other_version = true;
			n_names = 0;
			names[0] = '\0';
			for (size_t j = i; j < n && n_names < sizeof(names) &&
					   strcmp(models[j].model, state->model) == 0;
				j++)
				n_names += inf_text(names + n_names, sizeof(names) - n_names, "%s%s",
					n_names ? ", " : "", models[j].version);
			break;
		}
		if (i == 0 || strcmp(models[i].model, models[i - 1].model))
			n_names += inf_text(names + n_names, sizeof(names) - n_names, "%s%s",
				n_names ? ", " : "", models[i].model);
	}
	if (is_other_version)
		inf_text(error, sizeof(error), "model '%s' has no version '%s'; there are: %s", state->model,
			state->version, names);
	else if (rc < 0)
		inf_text(error, sizeof(error), "no model '%s'; the models' folder can't be read: %s",
			state->model, strerror(-rc));
	else
		inf_text(error, sizeof(error), "no model '%s'; available models: %s", state->model,
			n_names ? names : "none");
	finish(state, INF_NOT_FOUND, error, NULL);
}

static void look_done(struct inf_work *work)
{
	struct inf_open_state *state = ET_CONTAINER_OF(work, struct inf_open_state, work);
	struct inf_repository *r = state->repository;
	r->n_busy--;
	if (!state->open) {
		free_state(state);
	} else if (r->is_closing) {
		finish(state, INF_UNAVAILABLE, "inferd is shutting down", NULL);
	} else if (!state->variants.n) {
		inf_repository_scan(r, not_found, state);
	} else {
		choose(state);
	}
}

/* A client's own program as the only variant. False: no memory. */
static bool take_own_files(struct inf_open_state *state, const struct inf_open *open)
{
	struct inf_variants *own = &state->variants;
	own->items = calloc(1, sizeof(*own->items));
	own->data = calloc(ET_HOST_MAX_DATA, sizeof(*own->data));
	if (!own->items || !own->data)
		return false;
	struct inf_variant *v = &own->items[0];
	own->n = 1;
	v->fd = open->fd;
	v->id = open->file;
	inf_text(v->path, sizeof(v->path), "%s", state->model[0] ? state->model : "(your own)");
	v->file = v->path;
	own->data_ids = open->data;
	for (uint32_t i = 0; i < open->data.n; i++) {
		own->data[i].fd = open->data_fds[i];
		inf_text(own->data[i].path, sizeof(own->data[i].path), "data file %u", i + 1);
	}
	return true;
}

void inf_repository_open(struct inf_repository *r, struct inf_open *open)
{
	const struct inf_config_model *section = inf_config_find_model(r->o.config, open->model);
	struct inf_open_state *state = calloc(1, sizeof(*state));
	open->state = NULL;
	if (!state) {
		if (open->fd >= 0)
			close(open->fd);
		inf_close_fds(open->data_fds, open->data.n);
		open->done(open, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory", NULL);
		return;
	}
	et_list_init(&state->node);
	state->repository = r;
	state->open = open;
	open->state = state;
	state->fd = open->fd;
	memcpy(state->data_fds, open->data_fds, sizeof(state->data_fds));
	state->n_data_fds = open->data.n;
	inf_text(state->model, sizeof(state->model), "%s", open->model);
	inf_text(state->version, sizeof(state->version), "%s", open->version);
	inf_text(state->method, sizeof(state->method), "%s", open->method);
	inf_text(state->backend, sizeof(state->backend), "%s",
		open->backend[0]          ? open->backend
		: section && open->fd < 0 ? section->backend
					  : "");
	et_list_append(&r->opens, &state->node);
	if (r->is_closing) {
		finish(state, INF_UNAVAILABLE, "inferd is shutting down", NULL);
		return;
	}
	if (open->fd < 0) {
		char error[700];
		const char *bad = !inf_model_name_is_valid(open->model) ? open->model
				  : open->version[0] && !inf_model_name_is_valid(open->version)
					  ? open->version
					  : NULL;
		if (bad) {
			inf_text(error, sizeof(error),
				"'%s' can't be the name of a model or version: it must not be empty, contain "
				"'/' or begin with '.'",
				bad);
			finish(state, INF_INVALID_ARGUMENT, error, NULL);
			return;
		}
		if (is_being_unloaded(r, state->model)) {
			inf_text(error, sizeof(error),
				"model '%s' is being unloaded; try again when it is gone", state->model);
			finish(state, INF_UNAVAILABLE, error, NULL);
			return;
		}
		for (struct et_list_node *node = r->servings.next; node != &r->servings; node = node->next) {
			struct inf_serving *s = ET_CONTAINER_OF(node, struct inf_serving, node);
			if (s->state == INF_MODEL_READY && !s->is_foreign &&
				strcmp(s->model, state->model) == 0 &&
				(state->version[0] ? strcmp(s->version, state->version) == 0
						   : s->is_newest) &&
				(state->method[0] ? strcmp(s->method, state->method) == 0
						  : s->is_default_method) &&
				(state->backend[0] ? strcmp(s->backend, state->backend) == 0
						   : s->is_preferred)) {
				finish(state, INF_OK, NULL, s);
				return;
			}
		}
	} else {
		if (!take_own_files(state, open)) {
			finish(state, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory", NULL);
			return;
		}
	}
	inf_text(state->cache_dir, sizeof(state->cache_dir), "%s", r->o.config->cache);
	inf_text(state->folder, sizeof(state->folder), "%s", r->o.config->models);
	state->work.run = look_run;
	state->work.done = look_done;
	r->n_busy++;
	inf_helper_post(r->o.helper, &state->work);
}

void inf_repository_cancel(struct inf_repository *r, struct inf_open *open)
{
	if (!open->state)
		return;
	open->state->open = NULL; /* freed when the step it is in comes back */
	open->state = NULL;
}

/* --- the folder ----------------------------------------------------------------------------------- */

static void scan_run(struct inf_work *work)
{
	struct scan *scan = ET_CONTAINER_OF(work, struct scan, work);
	scan->rc = inf_variants_scan(scan->folder, &scan->models, &scan->n);
}

static void scan_done(struct inf_work *work)
{
	struct scan *scan = ET_CONTAINER_OF(work, struct scan, work);
	scan->repository->n_busy--;
	scan->done(scan->arg, scan->rc, scan->models, scan->n);
	for (size_t i = 0; i < scan->n; i++)
		inf_variants_deinit(&scan->models[i]);
	free(scan->models);
	free(scan);
}

void inf_repository_scan(struct inf_repository *r, inf_index_fn done, void *arg)
{
	struct scan *scan = calloc(1, sizeof(*scan));
	if (!scan) {
		done(arg, -ENOMEM, NULL, 0);
		return;
	}
	scan->work.run = scan_run;
	scan->work.done = scan_done;
	scan->repository = r;
	r->n_busy++;
	scan->done = done;
	scan->arg = arg;
	inf_text(scan->folder, sizeof(scan->folder), "%s", r->o.config->models);
	inf_helper_post(r->o.helper, &scan->work);
}

const struct et_list_node *inf_repository_servings(const struct inf_repository *r)
{
	return &r->servings;
}

struct inf_serving *inf_repository_find_ready(
	struct inf_repository *r, const char *model, const char *version, const char *method)
{
	for (struct et_list_node *node = r->servings.next; node != &r->servings; node = node->next) {
		struct inf_serving *s = ET_CONTAINER_OF(node, struct inf_serving, node);
		if (s->state == INF_MODEL_READY && strcmp(s->model, model) == 0 && !s->is_foreign &&
			(!version[0] || strcmp(s->version, version) == 0) &&
			(!method[0] || strcmp(s->method, method) == 0))
			return s;
	}
	return NULL;
}

/* --- unloading ------------------------------------------------------------------------------------ */

static bool has_any(struct inf_repository *r, const char *model)
{
	for (struct et_list_node *node = r->servings.next; node != &r->servings; node = node->next) {
		struct inf_serving *s = ET_CONTAINER_OF(node, struct inf_serving, node);
		if (strcmp(s->model, model) == 0 && !s->is_foreign && s->state != INF_MODEL_FAILED)
			return true;
	}
	return false;
}

static void check_unloads(struct inf_repository *r)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &r->unloads)
	{
		struct unload *unload = ET_CONTAINER_OF(node, struct unload, node);
		if (has_any(r, unload->model))
			continue;
		et_list_remove(&unload->node);
		unload->done(unload->arg);
		free(unload);
	}
}

static void serving_unloaded(void *self, struct inf_serving *serving)
{
	struct inf_repository *r = self;
	et_list_remove(&serving->node);
	inf_serving_unref(serving);
	check_unloads(r);
}

/* What is READY of what is to go begins to go; LOADING ones follow when they are READY. */
static void begin_unloads(struct inf_repository *r)
{
	for (bool is_changed = true; is_changed;) {
		is_changed = false;
		for (struct et_list_node *node = r->servings.next; node != &r->servings; node = node->next) {
			struct inf_serving *s = ET_CONTAINER_OF(node, struct inf_serving, node);
			if (s->state == INF_MODEL_READY &&
				(r->is_closing || (!s->is_foreign && is_being_unloaded(r, s->model)))) {
				inf_serving_unload(s);
				is_changed = true;
				break;
			}
		}
	}
}

bool inf_repository_unload(
	struct inf_repository *r, const char *model, void (*done)(void *arg), void *done_arg)
{
	struct unload *unload = has_any(r, model) ? calloc(1, sizeof(*unload)) : NULL;
	inf_repository_retry(r, model);
	if (!unload)
		return false;
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
	begin_unloads(r);
}

void inf_repository_retry(struct inf_repository *r, const char *model)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &r->servings)
	{
		struct inf_serving *s = ET_CONTAINER_OF(node, struct inf_serving, node);
		if (s->state == INF_MODEL_FAILED && strcmp(s->model, model) == 0) {
			et_list_remove(&s->node);
			inf_serving_unref(s);
		}
	}
}

void inf_repository_method_gone(struct inf_repository *r, struct inf_serving *s)
{
	s->last_used_ns = et_host_now_ns(NULL);
	if (!s->n_methods && s->is_foreign && s->state == INF_MODEL_READY)
		inf_serving_unload(s);
}

void inf_repository_evict(struct inf_repository *r, uint64_t now_ns)
{
	for (bool is_changed = true; is_changed;) {
		is_changed = false;
		for (struct et_list_node *node = r->servings.next; node != &r->servings; node = node->next) {
			struct inf_serving *s = ET_CONTAINER_OF(node, struct inf_serving, node);
			if (s->state != INF_MODEL_READY || s->n_methods || s->is_pinned ||
				now_ns < s->last_used_ns || now_ns - s->last_used_ns < s->keep_alive_ns ||
				atomic_load(&s->n_jobs))
				continue;
			inf_serving_unload(s);
			is_changed = true;
			break;
		}
	}
}

void inf_repository_poll(struct inf_repository *r)
{
	inf_helper_reap(r->o.helper);
	/* Each look may take servings out of the list, so begin again after one that moved. */
	for (struct et_list_node *node = r->servings.next; node != &r->servings;) {
		struct inf_serving *s = ET_CONTAINER_OF(node, struct inf_serving, node);
		enum inf_model_state before = s->state;
		inf_serving_ref(s);
		inf_serving_poll(s);
		bool is_moved = s->state != before;
		inf_serving_unref(s);
		node = is_moved ? r->servings.next : node->next;
	}
	begin_unloads(r);
}

/* --- life ----------------------------------------------------------------------------------------- */

struct pin {
	struct inf_open open;
	const struct et_log *log;
	char model[INF_CONFIG_NAME_MAX];
};

static void pinned(
	struct inf_open *open, enum inf_status status, const char *error, struct inf_serving *serving)
{
	struct pin *pin = ET_CONTAINER_OF(open, struct pin, open);
	if (status != INF_OK)
		et_logf(pin->log, ET_LOG_WARNING, "model %s is pinned but not loaded: %s", pin->model, error);
	free(pin);
}

void inf_repository_reconfigured(struct inf_repository *r)
{
	const struct inf_config *config = r->o.config;
	for (struct et_list_node *node = r->servings.next; node != &r->servings; node = node->next) {
		struct inf_serving *s = ET_CONTAINER_OF(node, struct inf_serving, node);
		const struct inf_config_model *section = inf_config_find_model(config, s->model);
		if (s->is_foreign)
			continue;
		s->is_pinned = section && section->pin;
		s->keep_alive_ns =
			section && section->has_keep_alive ? section->keep_alive_ns : config->keep_alive_ns;
	}
	for (uint32_t i = 0; i < config->n_model_sections; i++) {
		struct pin *pin = config->model_sections[i].pin ? calloc(1, sizeof(*pin)) : NULL;
		if (!pin)
			continue;
		inf_text(pin->model, sizeof(pin->model), "%s", config->model_sections[i].name);
		pin->log = r->o.log;
		pin->open = (struct inf_open){ .model = pin->model,
			.version = "",
			.method = "",
			.backend = "",
			.fd = -1,
			.done = pinned };
		inf_repository_open(r, &pin->open);
	}
}

bool inf_repository_is_idle(const struct inf_repository *r)
{
	for (struct et_list_node *node = r->servings.next; node != &r->servings; node = node->next)
		if (ET_CONTAINER_OF(node, struct inf_serving, node)->state != INF_MODEL_FAILED)
			return false;
	return !r->n_busy;
}

static void serving_notify(void *self)
{
	struct inf_repository *r = self;
	r->o.notify(r->o.self);
}

int inf_repository_new(struct inf_repository **ret_repository, const struct inf_repository_options *options)
{
	struct inf_repository *r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->o = *options;
	r->events = (struct inf_serving_events){ r, serving_loaded, serving_unloaded, serving_notify };
	et_list_init(&r->servings);
	et_list_init(&r->opens);
	et_list_init(&r->unloads);
	et_list_init(&r->remarks);
	*ret_repository = r;
	return 0;
}

struct inf_repository *inf_repository_free(struct inf_repository *r)
{
	struct et_list_node *node, *after;
	if (!r)
		return NULL;
	r->is_closing = true;
	ET_LIST_FOR_EACH(node, after, &r->opens)
	finish(ET_CONTAINER_OF(node, struct inf_open_state, node), INF_UNAVAILABLE, "inferd is shutting down",
		NULL);
	ET_LIST_FOR_EACH(node, after, &r->servings)
	{
		et_list_remove(node);
		inf_serving_unref(ET_CONTAINER_OF(node, struct inf_serving, node));
	}
	ET_LIST_FOR_EACH(node, after, &r->unloads)
	free(ET_CONTAINER_OF(node, struct unload, node));
	ET_LIST_FOR_EACH(node, after, &r->remarks)
	free(ET_CONTAINER_OF(node, struct remark, node));
	free(r);
	return NULL;
}
