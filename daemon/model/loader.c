/* SPDX-License-Identifier: BSD-3-Clause */
/* Getting a model: found, inspected, made, prepared, once for all who want it.
 *
 * An open goes through these steps, the slow ones on the helper's thread:
 *     fast      a READY serving fits: done at once
 *     look      find the model's files and what each needs               (helper)
 *     choose    the first variant left that is usable; if a serving of that very file and method is there, wait for
 *               it, else make one
 *     make      the Plan                                                 (helper; several opens may wait)
 *     room      within the memory budget: what is being unloaded is waited for
 *     prepare   contexts on a worker of each queue                       (workers; the others follow)
 * and back to choose when making or preparing failed, with the reason noted. Steps that run elsewhere own what they
 * need; an open that is cancelled meanwhile is only marked, and ended when its step comes back, which one that has not
 * begun does at once: until then it uses what its user was charged for. A client's own program is looked at and made
 * on a thread apart: its files may lie in a file system that answers when it likes, and what a backend does with it
 * may hang until its load_timeout. Nobody else's model waits for that, nor does memory on its way back.
 *
 * A file is the same file if device, inode, size and times are equal: a model that was replaced is loaded
 * afresh by the next look (when nothing of it is READY, or an administrator has it loaded), while those who
 * have it keep what they have. What was deleted is found without (recheck.c). Looks are numbered as they
 * begin, and a serving remembers the last one that told something of its files: what comes of a look may be
 * long in coming, and must not undo what a later one has found. Clients' own files are shared within a user
 * only: whatever one user's does to a backend that has processes for such is that user's. */
#include "daemon/model/repository_internal.h"
#include "daemon/base/text.h"
#include "ipc/channel.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct make {
	struct inf_work work;
	struct et_list_node node; /* in the repository's, while it waits for room */
	struct inf_repository *repository;
	struct inf_model *model; /* a reference */
	struct et_program *program;
	struct et_plan *plan;
	enum et_status status;
	struct et_diag diag;
	struct inf_config_model_options options; /* of the model */
};

static void choose(struct inf_open_state *state);

/* --- ending an open ------------------------------------------------------------------------------- */

/* Closing may take as long as reading does. */
static void close_own_files(struct inf_open_state *state)
{
	if (state->fd >= 0)
		close(state->fd);
	inf_close_fds(state->data_fds, state->n_data_fds);
	state->fd = -1;
	state->n_data_fds = 0;
}

static void free_state(struct inf_open_state *state)
{
	et_list_remove(&state->node);
	inf_model_unref(state->awaiting);
	for (uint32_t i = 0; i < state->variants.n; i++) {
		inf_repository_release_async(state->repository, state->variants.items[i].program, NULL, 0, NULL, NULL);
		state->variants.items[i].program = NULL;
	}
	inf_variants_deinit(&state->variants);
	close_own_files(state);
	free(state);
}

static void finish(struct inf_open_state *state, enum inf_status status, const char *error, struct inf_model *model)
{
	struct inf_open *open = state->open;
	char text[1000];
	if (model)
		inf_model_ref(model);
	open->state = NULL;
	inf_text(text, sizeof(text), "%s", error ? error : "");
	free_state(state);
	open->done(open, status, text, model);
	inf_model_unref(model);
}

/* A client's file may lie where it answers when it likes, and what it is for may run in the user's own process of a
 * backend, until that is given up: its user alone waits for that. */
static void post(struct inf_open_state *state, struct inf_work *work)
{
	if (state->is_uploaded)
		inf_helper_post_for_user(state->repository->o.helper, work, state->whose);
	else
		inf_helper_post(state->repository->o.helper, work, state->whose);
}

/* --- making a serving ----------------------------------------------------------------------------- */

static void make_run(struct inf_work *work)
{
	struct make *make = ET_CONTAINER_OF(work, struct make, work);
	struct et_option room[INF_CONFIG_MODEL_OPTIONS_MAX];
	struct et_options options = inf_model_options(&make->options, room);
	make->status = et_plan_new(&make->plan, make->program, make->model->method, make->repository->o.registry,
		&options, inf_queues_n_plan_workers(make->repository->o.queues), et_platform_allocator(), &make->diag);
}

static void fail_make(struct make *make, const char *reason)
{
	inf_repository_release_async(make->repository, make->program, make->plan, 0, NULL, NULL);
	inf_model_note_failure(make->model, make->status);
	inf_model_fail(make->model, reason);
	inf_model_unref(make->model);
	free(make);
}

/* There is a Plan: prepare it, if there is room for it or, after a while, will be. */
static void go_on(struct make *make)
{
	struct inf_repository *r = make->repository;
	struct inf_model *s = make->model;
	char reason[sizeof(s->reason)];
	struct inf_model_use needs = inf_model_foresee(r->o.queues, make->program, make->plan, &s->data);
	switch (inf_repository_make_room(r, s, &needs, false, reason, sizeof(reason))) {
	case INF_ROOM:
		inf_model_prepare(s, make->program, make->plan);
		inf_model_unref(s);
		free(make);
		return;
	case INF_ROOM_LATER:
		if (!r->is_closing) {
			et_list_append(&r->makes, &make->node);
			return;
		}
		inf_text(reason, sizeof(reason), "inferd is shutting down");
		break;
	case INF_ROOM_NEVER:
		break;
	}
	make->status = ET_E_OUT_OF_RESOURCES;
	fail_make(make, reason);
}

void inf_opens_find_room(struct inf_repository *r)
{
	const struct et_list_node *last = r->makes.prev; /* of those who wait now */
	for (bool is_over = et_list_is_empty(&r->makes); !is_over;) {
		struct et_list_node *node = r->makes.next;
		is_over = node == last;
		et_list_remove(node);
		go_on(ET_CONTAINER_OF(node, struct make, node));
	}
}

static void make_done(struct inf_work *work)
{
	struct make *make = ET_CONTAINER_OF(work, struct make, work);
	make->repository->n_busy--;
	if (make->status == ET_OK)
		go_on(make);
	else
		fail_make(make, make->diag.text[0] ? make->diag.text : et_status_text(make->status));
}

/* The Program of @v: one that a serving of another method has already made of the same file, else its own. */
static struct et_program *program_of(const struct inf_open_state *state, const struct inf_variant *v)
{
	const struct inf_repository *r = state->repository;
	for (struct et_list_node *node = r->models.next; node != &r->models && !state->open->beside;
		node = node->next) {
		const struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (s->program && s->tenant == state->tenant && inf_file_id_equal(&s->file, &v->id) &&
			inf_data_ids_equal(&s->data, &state->variants.data_ids))
			return s->program;
	}
	return v->program;
}

/* NULL: no memory. */
static struct inf_model *make_model(struct inf_open_state *state, struct inf_variant *v, const char *method,
	uint32_t n_crashes)
{
	struct inf_repository *r = state->repository;
	struct make *make = calloc(1, sizeof(*make));
	struct inf_model *s = inf_model_new(r->o.queues, &r->events, r->o.shared_pages, r->o.log, state->model,
		state->variants.version, method);
	const struct inf_config_model *section = inf_config_find_model(r->o.config, state->model);
	if (!make || !s || !(s->backend = strdup(v->label)) || !(s->path = strdup(v->path))) {
		if (s)
			s->state = INF_MODEL_FAILED;
		inf_model_unref(s);
		free(make);
		return NULL;
	}
	s->n_crashes = n_crashes;
	s->file = v->id;
	s->data = state->variants.data_ids;
	s->is_uploaded = state->is_uploaded;
	s->tenant = state->tenant;
	s->keep_alive_ns = s->is_uploaded                       ? 0
			   : section && section->has_keep_alive ? section->keep_alive_ns
								: r->o.config->keep_alive_ns;
	s->is_pinned = !s->is_uploaded && section && section->pin;
	s->last_used_ns = et_platform_now_ns(NULL);
	et_list_append(&r->models, &s->node); /* holds the first reference */
	make->work.run = make_run;
	make->work.done = make_done;
	make->repository = r;
	make->model = inf_model_ref(s);
	make->program = et_program_ref(program_of(state, v));
	make->options = state->options;
	r->n_busy++;
	post(state, &make->work);
	return s;
}

/* --- choosing ------------------------------------------------------------------------------------- */

static void note_tried(struct inf_open_state *state, const struct inf_variant *v, const char *reason, bool is_missing,
	bool is_down)
{
	size_t n = strlen(state->tried);
	state->n_missing += is_missing;
	state->n_down += is_down;
	state->n_broken += !is_missing && !is_down;
	if (v->method[0] && (!state->refused || v->n_others > state->refused->n_others))
		state->refused = v;
	inf_text(state->tried + n, sizeof(state->tried) - n, "%s%s: %s", n ? "; " : "", v->file ? v->file : v->path,
		reason);
}

/* @program: NULL, or only with this very one; what is LOADING has none yet, and is looked at again when it has. */
static struct inf_model *find_model(struct inf_repository *r, const struct inf_file_id *file,
	const struct inf_data_ids *data, const char *method, uint64_t tenant, const struct et_program *program)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &r->models) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (inf_file_id_equal(&s->file, file) && inf_data_ids_equal(&s->data, data) &&
			strcmp(s->method, method) == 0 && s->tenant == tenant &&
			(!program || !s->program || s->program == program) &&
			(s->state == INF_MODEL_READY || s->state == INF_MODEL_LOADING || s->state == INF_MODEL_FAILED))
			return s;
	}
	return NULL;
}

/* Of @method, or with "" of the whole. */
static void diagnostic(const struct inf_open_state *state, const char *method, const char *text, bool is_refusal,
	uint32_t n_others)
{
	const struct inf_load_diagnostic new = { state->model, state->variants.version, method, text, is_refusal,
		n_others };
	inf_load_diagnostics_note(&state->repository->diagnostics, &new);
}

static void give_up(struct inf_open_state *state)
{
	const struct inf_variant *v = state->refused;
	bool is_alone = v && v->n_others; /* the method: others of its program may run */
	char error[1000];
	if (!state->is_uploaded && !state->is_particular)
		diagnostic(state, is_alone ? v->method : "", state->tried, true, is_alone ? v->n_others : 0);
	if (state->backend[0] && state->variants.n) {
		inf_text(error, sizeof(error), "no variant of model '%s' can run on '%s': %s", state->model,
			state->backend, state->tried);
	} else if (state->is_uploaded) {
		inf_text(error, sizeof(error), "%s", state->tried); /* which begins with the client's name for it */
	} else if (is_alone) {
		inf_text(error, sizeof(error), "method '%s' of model '%s' can't be run: %s", v->method, state->model,
			state->tried);
	} else {
		inf_text(error, sizeof(error), "model '%s' can't be loaded: %s", state->model, state->tried);
	}
	et_logf(state->repository->o.log, ET_LOG_WARNING, "%s", error);
	finish(state,
		state->is_transient                    ? INF_RESOURCE_EXHAUSTED
		: state->n_down                        ? INF_BACKEND_CRASHED
		: state->n_missing && !state->n_broken ? INF_UNIMPLEMENTED
						       : INF_FAILED_PRECONDITION,
		error, NULL);
}

static bool is_among(const struct inf_variants *variants, const struct inf_model *s)
{
	for (uint32_t i = 0; i < variants->n; i++)
		if (inf_file_id_equal(&variants->items[i].id, &s->file) &&
			inf_data_ids_equal(&variants->data_ids, &s->data))
			return true;
	return false;
}

void inf_repository_mark_replaced(struct inf_repository *r, struct inf_model *s)
{
	if (s->is_replaced)
		return;
	et_logf(r->o.log, ET_LOG_NOTICE,
		"model %s/%s %s: its files have changed or gone: new clients get what is there", s->model, s->version,
		s->method);
	s->is_replaced = true;
}

static bool is_of(const struct inf_model *s, const char *model)
{
	return !s->is_uploaded && s->state == INF_MODEL_READY && strcmp(s->model, model) == 0;
}

/* @state has looked at the files and found @now. What was loaded of files that it has not found serves nobody new, and what
 * it has found does, even if an earlier look had not. But it may have waited for long: what is known from a look
 * that began after its own stays, and is held against @now. */
static void compare(struct inf_open_state *state, struct inf_model *now)
{
	struct inf_repository *r = state->repository;
	bool is_last_of_all = !state->version[0]; /* of the looks for whatever version is the newest */
	bool is_own = is_of(now, state->model) && strcmp(now->version, state->variants.version) == 0;
	bool is_outdated = false; /* never what has the same files by another name */
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
		const struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (!is_of(s, state->model))
			continue;
		is_last_of_all = is_last_of_all && s->newest_scan <= state->scan;
		is_outdated = is_outdated || (is_own && strcmp(s->version, now->version) == 0 && !s->is_replaced &&
						     s->scan > now->scan && !is_among(&state->variants, s));
	}
	if (is_outdated)
		inf_repository_mark_replaced(r, now);
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (!is_of(s, state->model))
			continue;
		bool is_this_version = strcmp(s->version, state->variants.version) == 0;
		if (is_last_of_all) {
			s->newest_scan = state->scan;
			s->is_newest = is_this_version || s == now;
		}
		/* of the versions older than the newest this look does not tell whether they are there */
		if (s->scan > state->scan ||
			(!is_this_version && s != now &&
				(!is_last_of_all || strverscmp(s->version, state->variants.version) < 0)))
			continue;
		s->scan = state->scan;
		if (s == now)
			s->is_replaced = is_outdated;
		else if (is_this_version && is_among(&state->variants, s))
			s->is_replaced = false;
		else
			inf_repository_mark_replaced(r, s);
	}
}

void inf_repository_unload_replaced(struct inf_repository *r)
{
	struct et_list_node *node = r->models.next;
	while (node != &r->models) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		node = node->next;
		if (s->state != INF_MODEL_READY || !s->is_replaced || s->n_methods)
			continue;
		inf_model_unload(s);
		node = r->models.next; /* the list may be another one now */
	}
}

static void choose(struct inf_open_state *state)
{
	struct inf_repository *r = state->repository;
	char error[400];
	while (state->next < state->variants.n) {
		struct inf_variant *v = &state->variants.items[state->next];
		if (!v->program) {
			note_tried(state, v, v->reason, v->is_missing, v->is_down);
			state->is_transient = v->is_transient;
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
			inf_text(error, sizeof(error), "model '%s' has no method '%s'; it has: %s", state->model,
				state->method[0] ? state->method : "forward", names);
			finish(state, INF_NOT_FOUND, error, NULL);
			return;
		}
		struct inf_model *s = find_model(r, &v->id, &state->variants.data_ids, method, state->tenant,
			state->open->beside ? v->program : NULL);
		uint32_t n_crashes = 0;
		if (s && s->state == INF_MODEL_FAILED && s->n_crashes == 1 && !s->is_transient) {
			/* Another model's run may have been to blame: once more. */
			n_crashes = s->n_crashes;
			et_list_remove(&s->node);
			s = inf_model_unref(s);
		}
		if (s && s->state == INF_MODEL_FAILED) {
			note_tried(state, v, s->reason, s->is_missing, s->is_down);
			state->is_transient = s->is_transient && !s->is_down;
			state->next++;
			continue;
		}
		if (!s && !(s = make_model(state, v, method, n_crashes))) {
			finish(state, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory", NULL);
			return;
		}
		if (s->state == INF_MODEL_LOADING) {
			s->scan = s->scan > state->scan ? s->scan : state->scan;
			state->awaiting = inf_model_ref(s);
			return;
		}
		s->is_default_method = s->is_default_method || !state->method[0] ||
				       (inf_default_method(v->program) &&
					       strcmp(inf_default_method(v->program), method) == 0);
		s->is_preferred = s->is_preferred || !state->backend[0];
		if (state->open->beside)
			s->is_replaced = s->is_replaced || state->open->beside->is_replaced;
		else if (!state->is_uploaded)
			compare(state, s);
		if (v->note[0])
			note_tried(state, v, v->note, false, false);
		if (!s->is_uploaded && !state->is_particular) {
			diagnostic(state, "", state->tried, false, 0);
			diagnostic(state, method, "", false, 0);
		}
		finish(state, INF_OK, NULL, s);
		inf_repository_unload_replaced(r);
		return;
	}
	give_up(state);
}

void inf_opens_model_loaded(void *self, struct inf_model *model)
{
	struct inf_repository *r = self;
	struct et_list_node *node, *after;
	inf_model_ref(model);
	if (model->state == INF_MODEL_READY)
		inf_repository_keep(r, model);
	ET_LIST_FOR_EACH(node, after, &r->opens) {
		struct inf_open_state *state = ET_CONTAINER_OF(node, struct inf_open_state, node);
		if (state->awaiting != model)
			continue;
		state->awaiting = inf_model_unref(state->awaiting);
		choose(state);
		after = r->opens.next; /* choosing may have ended any of them; those who wait no more are passed over */
	}
	if (model->state == INF_MODEL_READY && !model->n_methods)
		model->last_used_ns = et_platform_now_ns(NULL);
	/* Nobody is charged any more for a client's own program that nobody waited for or was granted. */
	if (model->state == INF_MODEL_READY && !model->n_methods && model->is_uploaded)
		inf_model_unload(model);
	/* A model's own fault is remembered until its files change or an administrator loads it again. */
	if (model->state == INF_MODEL_FAILED && (model->is_uploaded || model->is_transient) &&
		!et_list_is_empty(&model->node)) {
		et_list_remove(&model->node);
		inf_model_unref(model);
	}
	inf_model_unref(model);
}

/* --- looking -------------------------------------------------------------------------------------- */

static void scan_run(struct inf_work *work)
{
	struct inf_open_state *state = ET_CONTAINER_OF(work, struct inf_open_state, work);
	if (atomic_load_explicit(&state->is_cancelled, memory_order_relaxed)) {
		close_own_files(state);
		return;
	}
	struct inf_inspect_options options = {
		.cache_dir = state->cache_dir[0] ? state->cache_dir : NULL,
		.store = state->repository->o.store,
		.registry = state->repository->o.registry,
		.config = state->repository->o.config, /* the order never changes while it runs */
		.backend = state->backend,
		.method = state->method,
		.options = &state->options,
		.tenant = state->tenant,
		.counts_others = !state->is_uploaded,
	};
	state->scan = atomic_fetch_add_explicit(&state->repository->n_looks, 1, memory_order_relaxed) + 1;
	if (!state->is_uploaded)
		inf_variants_find(&state->variants, state->folder, state->model, state->version);
	inf_variants_inspect(&state->variants, &options);
	close_own_files(state);
}

static void not_found(void *arg, int rc, const struct inf_variants *models, size_t n)
{
	struct inf_open_state *state = arg;
	char names[400] = "", error[1000];
	size_t n_names = 0;
	bool is_other_version = false;
	for (size_t i = 0; i < n && n_names < sizeof(names); i++) {
		if (!models[i].n)
			continue;
		if (strcmp(models[i].model, state->model) == 0) {
			is_other_version = true;
			n_names = 0;
			names[0] = '\0';
			for (size_t j = i;
				j < n && n_names < sizeof(names) && strcmp(models[j].model, state->model) == 0; j++)
				n_names += inf_text(names + n_names, sizeof(names) - n_names, "%s%s",
					n_names ? ", " : "", models[j].version);
			break;
		}
		if (i == 0 || strcmp(models[i].model, models[i - 1].model))
			n_names += inf_text(names + n_names, sizeof(names) - n_names, "%s%s", n_names ? ", " : "",
				models[i].model);
	}
	if (is_other_version)
		inf_text(error, sizeof(error), "model '%s' has no version '%s'; there are: %s", state->model,
			state->version, names);
	else if (inf_is_scarcity(rc))
		inf_text(error, sizeof(error), "the models' folder can't be read now: %s", strerror(-rc));
	else if (rc < 0)
		inf_text(error, sizeof(error), "no model '%s'; the models' folder can't be read: %s", state->model,
			strerror(-rc));
	else
		inf_text(error, sizeof(error), "no model '%s'; available models: %s", state->model,
			n_names ? names : "none");
	finish(state, inf_is_scarcity(rc) ? INF_RESOURCE_EXHAUSTED : INF_NOT_FOUND, error, NULL);
}

/* Of the model, or that version of it, nothing is in the folder. */
static void note_nothing_there(struct inf_open_state *state)
{
	struct inf_repository *r = state->repository;
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (!is_of(s, state->model) || s->scan > state->scan ||
			(state->version[0] && strcmp(s->version, state->version)))
			continue;
		s->scan = state->scan;
		inf_repository_mark_replaced(r, s);
	}
	inf_repository_unload_replaced(r);
}

/* Where there may be files of it, that we may not see. */
static void not_readable(struct inf_open_state *state)
{
	char error[INF_CONFIG_PATH_MAX + 600];
	inf_text(error, sizeof(error), "model '%s' can't be loaded: %s: Permission denied to user %lu", state->model,
		state->variants.denied, (unsigned long)geteuid());
	et_logf(state->repository->o.log, ET_LOG_WARNING, "%s", error);
	finish(state, INF_FAILED_PRECONDITION, error, NULL);
}

static void scan_done(struct inf_work *work)
{
	struct inf_open_state *state = ET_CONTAINER_OF(work, struct inf_open_state, work);
	struct inf_repository *r = state->repository;
	r->n_busy--;
	state->is_suspended = false;
	if (state->is_cancelled) {
		finish(state, INF_CANCELLED, "it was cancelled", NULL);
	} else if (r->is_closing) {
		finish(state, INF_UNAVAILABLE, "inferd is shutting down", NULL);
	} else if (state->is_unloaded) {
		char error[400];
		inf_text(error, sizeof(error), "model '%s' was unloaded meanwhile; try again", state->model);
		finish(state, INF_UNAVAILABLE, error, NULL);
	} else if (state->variants.rc < 0) {
		not_found(state, state->variants.rc, NULL, 0);
	} else if (!state->variants.n && state->variants.denied) {
		not_readable(state);
	} else if (!state->variants.n) {
		note_nothing_there(state);
		state->is_suspended = true;
		inf_repository_scan(r, not_found, state);
	} else {
		if (state->variants.denied)
			et_logf(r->o.log, ET_LOG_WARNING,
				"model %s: what is in %s is not seen: Permission denied to user %lu", state->model,
				state->variants.denied, (unsigned long)geteuid());
		choose(state);
	}
}

/* A client's own program as the only variant. False: no memory. */
static bool take_own_files(struct inf_open_state *state, const struct inf_open *open)
{
	struct inf_variants *own = &state->variants;
	own->items = calloc(1, sizeof(*own->items));
	own->data = calloc(ET_PLATFORM_MAX_DATA, sizeof(*own->data));
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

/* The file that @beside is of as the only variant. False: no memory. */
static bool take_beside(struct inf_open_state *state, const struct inf_model *beside)
{
	struct inf_variants *only = &state->variants;
	only->items = calloc(1, sizeof(*only->items));
	if (!only->items)
		return false;
	struct inf_variant *v = &only->items[0];
	only->n = 1;
	only->data_ids = beside->data;
	v->fd = -1;
	v->id = beside->file;
	inf_text(v->path, sizeof(v->path), "%s", beside->path);
	v->file = v->path;
	inf_text(v->label, sizeof(v->label), "%s", beside->backend);
	v->program = et_program_ref(beside->program);
	const struct et_method_spec *meant = et_program_find_method(v->program,
		state->method[0] ? state->method : NULL);
	inf_text(v->method, sizeof(v->method), "%s", meant ? meant->name : "");
	if (!state->is_uploaded) /* of whose methods nothing is remarked, and which may have millions of operators */
		v->n_others = inf_count_other_methods(state->repository->o.registry, v->program, meant);
	inf_text(only->model, sizeof(only->model), "%s", beside->model);
	inf_text(only->version, sizeof(only->version), "%s", beside->version);
	return true;
}

/* NULL: no memory. */
static struct inf_open_state *state_new(struct inf_repository *r, struct inf_open *open)
{
	bool is_uploaded = open->fd >= 0 || (open->beside && open->beside->is_uploaded);
	const struct inf_config_model *section = is_uploaded ? NULL : inf_config_find_model(r->o.config, open->model);
	struct inf_open_state *state = calloc(1, sizeof(*state));
	if (!state)
		return NULL;
	et_list_init(&state->node);
	state->repository = r;
	state->open = open;
	state->fd = open->fd;
	state->is_uploaded = is_uploaded;
	state->tenant = open->tenant;
	state->whose = open->whose;
	memcpy(state->data_fds, open->data_fds, sizeof(state->data_fds));
	state->n_data_fds = open->data.n;
	inf_text(state->model, sizeof(state->model), "%s", open->model);
	inf_text(state->version, sizeof(state->version), "%s", open->version);
	inf_text(state->method, sizeof(state->method), "%s", open->method);
	inf_text(state->backend, sizeof(state->backend), "%s",
		open->backend[0] ? open->backend
		: section        ? section->backend
				 : "");
	state->is_particular = open->backend[0];
	if (section)
		state->options = section->options;
	et_list_append(&r->opens, &state->node);
	return state;
}

/* What READY serving is just what @state asks for; NULL: none, it has to be looked for. */
static struct inf_model *find_fitting(const struct inf_repository *r, const struct inf_open_state *state)
{
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (s->state == INF_MODEL_READY && !s->is_uploaded && !s->is_given_up && !s->is_replaced &&
			!s->successor && strcmp(s->model, state->model) == 0 &&
			(state->version[0] ? strcmp(s->version, state->version) == 0 : s->is_newest) &&
			(state->method[0] ? strcmp(s->method, state->method) == 0 : s->is_default_method) &&
			(state->backend[0] ? strcmp(s->backend, state->backend) == 0 : s->is_preferred))
			return s;
	}
	return NULL;
}

/* A model of the folder: refused, or there already. False: it is to be looked for. */
static bool is_answered_at_once(struct inf_open_state *state, bool is_anew)
{
	struct inf_repository *r = state->repository;
	char error[700];
	const char *bad = !inf_model_name_is_valid(state->open->model)                          ? state->open->model
			  : state->version[0] && !inf_model_name_is_valid(state->open->version) ? state->open->version
												: NULL;
	if (bad) {
		inf_text(error, sizeof(error),
			"'%s' can't be the name of a model or version: it must not be empty, contain "
			"'/' or begin with '.'",
			bad);
		finish(state, INF_INVALID_ARGUMENT, error, NULL);
		return true;
	}
	if (inf_repository_is_unloading(r, state->model)) {
		inf_text(error, sizeof(error), "model '%s' is being unloaded; try again when it is gone", state->model);
		finish(state, INF_UNAVAILABLE, error, NULL);
		return true;
	}
	struct inf_model *s = is_anew ? NULL : find_fitting(r, state);
	if (s)
		finish(state, INF_OK, NULL, s);
	return s;
}

static void begin_scan(struct inf_open_state *state)
{
	struct inf_repository *r = state->repository;
	inf_text(state->cache_dir, sizeof(state->cache_dir), "%s", r->o.config->cache);
	inf_text(state->folder, sizeof(state->folder), "%s", r->o.config->models);
	state->work.run = scan_run;
	state->work.done = scan_done;
	state->is_suspended = true;
	r->n_busy++;
	post(state, &state->work);
}

void inf_repository_open(struct inf_repository *r, struct inf_open *open)
{
	struct inf_open_state *state = state_new(r, open);
	open->state = state;
	if (!state) {
		if (open->fd >= 0)
			close(open->fd);
		inf_close_fds(open->data_fds, open->data.n);
		open->done(open, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory", NULL);
	} else if (r->is_closing) {
		finish(state, INF_UNAVAILABLE, "inferd is shutting down", NULL);
	} else if (open->beside ? !take_beside(state, open->beside) : open->fd >= 0 && !take_own_files(state, open)) {
		finish(state, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory", NULL);
	} else if (open->beside) {
		choose(state);
	} else if (open->fd >= 0 || !is_answered_at_once(state, open->is_anew)) {
		begin_scan(state);
	}
}

void inf_repository_cancel(struct inf_repository *r, struct inf_open *open)
{
	struct inf_open_state *state = open->state;
	if (!state)
		return;
	atomic_store_explicit(&state->is_cancelled, true, memory_order_relaxed);
	if (!state->is_suspended)
		finish(state, INF_CANCELLED, "it was cancelled", NULL);
}

/* Those that wait for a serving go on: the unload waits for that, too. */
bool inf_opens_forget(struct inf_repository *r, const char *model)
{
	bool has_any = false;
	for (struct et_list_node *node = r->opens.next; node != &r->opens; node = node->next) {
		struct inf_open_state *state = ET_CONTAINER_OF(node, struct inf_open_state, node);
		if (state->is_uploaded || !state->is_suspended || strcmp(state->model, model) != 0)
			continue;
		state->is_unloaded = has_any = true;
	}
	return has_any;
}

void inf_opens_end(struct inf_repository *r)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &r->opens)
		finish(ET_CONTAINER_OF(node, struct inf_open_state, node), INF_UNAVAILABLE, "inferd is shutting down",
			NULL);
}
