/* SPDX-License-Identifier: BSD-3-Clause */
/* Open: how a client gets a model.
 *
 * An open goes through these steps:
 *     fast     a READY model matches: done at once
 *     scan     find the model's files and inspect what each needs        (helper's thread)
 *     choose   take the first variant left that can run. If a model of that file and method exists, wait for it; else
 *              load it (load.c): Plan, room in the memory budget, instances on a worker of each queue
 * and back to choose when the load has failed, with the reason noted. Any number of opens may wait for one load.
 *
 * Steps that run elsewhere own what they need. An open that is cancelled meanwhile is marked and ends when its step
 * comes back, which a step that has not begun does at once, and a scan before the next piece of a file that it copies:
 * until then it uses what its user is charged for. A client's own program is inspected and loaded on a thread of its
 * user's: its files may lie in a file system that never answers, and its backend may hang until its load_timeout. The
 * files of a model of the folder are inspected on a thread of that model's, because copying them may take hours. Other
 * users and other models do not wait for that, nor does memory being freed.
 *
 * What must always be true: choose runs on the loop, from the top of a poll or a client's request, and starts no
 * other open; done is called once. A file is the same file if device, inode, size and times are equal: a model
 * whose file was replaced is loaded anew by the next scan (when no READY model matches, or an administrator loads
 * it), while its clients keep the old one (replaced.c). Uploaded programs are shared within a user only: a user's
 * program that harms its backend harms that user's process of the backend. */
#include "daemon/model/repository_internal.h"
#include "daemon/base/text.h"
#include "delegates/plugin/proxy/plugin.h"
#include "ipc/channel.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- choosing ------------------------------------------------------------------------------------- */

static void note_tried(struct inf_open_state *state, const struct inf_variant *v, enum inf_load_failure failure,
	const char *reason)
{
	size_t n = strlen(state->tried);
	state->n_failures[failure]++;
	state->last_failure = failure;
	if (v->method[0] && (!state->refused || v->n_others > state->refused->n_others))
		state->refused = v;
	inf_text(state->tried + n, sizeof(state->tried) - n, "%s%s: %s", n ? "; " : "", v->file ? v->file : v->path,
		reason);
}

/* The model of that file and method that is loaded, being loaded or FAILED; NULL: there is none. @program: NULL, or
 * only a model of this very Program. A model that is LOADING has no Program yet and matches; it is checked again
 * when it is loaded. */
static struct inf_model *find_model(struct inf_repository *r, const struct inf_file_id *file,
	const struct inf_data_ids *data, const char *method, uint64_t tenant, const struct et_program *program)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &r->models) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (!s->is_damaged && inf_file_id_equal(&s->file, file) && inf_data_ids_equal(&s->data, data) &&
			strcmp(s->method, method) == 0 && s->tenant == tenant &&
			(!program || !s->program || s->program == program) &&
			(inf_model_is_loaded(s) || inf_model_is_loading(s) || s->state == INF_MODEL_FAILED))
			return s;
	}
	return NULL;
}

/* Keep @text about @method; "": about the model as a whole. */
static void diagnose(const struct inf_open_state *state, const char *method, const char *text, bool is_refusal,
	uint32_t n_others)
{
	const struct inf_load_diagnostic diagnostic = { state->model, state->variants.version, method, text, is_refusal,
		n_others };
	inf_load_diagnostics_note(&state->repository->diagnostics, &diagnostic);
}

/* Keep @format as *to, which is freed before. Without memory it is left out. */
__attribute__((format(printf, 2, 3))) static void set_text(char **to, const char *format, ...)
{
	va_list args;
	char *text = NULL;
	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	free(*to);
	*to = text;
}

/* The model that serves clients who leave the version out; NULL: none is loaded. */
static struct inf_model *find_current(const struct inf_repository *r, const struct inf_open_state *state)
{
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (s->state == INF_MODEL_READY && !s->is_uploaded && !s->is_replaced && !s->is_damaged &&
			s->is_newest && strcmp(s->model, state->model) == 0)
			return s;
	}
	return NULL;
}

static void begin_scan(struct inf_open_state *state);

/* The newest version can't be loaded, as @error says: the last good one serves. That is the one that serves already, if
 * one does, and @error, of @room bytes, says so; else an older one is searched for. False: nothing is searched for. */
static bool turn_to_older(struct inf_open_state *state, char *error, size_t room)
{
	struct inf_repository *r = state->repository;
	if (state->version[0] || state->pin[0] || state->is_uploaded || state->wants_backend || state->open->beside ||
		state->n_failures[INF_LOAD_FAILURE_DOWN] || state->n_failures[INF_LOAD_FAILURE_NO_MEMORY])
		return false;
	struct inf_model *current = find_current(r, state);
	if (current) {
		size_t n = strlen(error);
		inf_text(error + n, room - n, "; version %s goes on serving as it was loaded", current->version);
		set_text(&current->warning, "%s", error);
		return false;
	}
	if (!state->skipped[0]) {
		inf_text(state->skipped, sizeof(state->skipped), "%s", error);
		state->skipped_status = inf_open_failure_status(state);
	}
	inf_text(state->below, sizeof(state->below), "%s", state->variants.version);
	inf_open_drop_variants(state);
	state->next = 0;
	state->tried[0] = '\0';
	state->refused = NULL;
	memset(state->n_failures, 0, sizeof(state->n_failures));
	begin_scan(state);
	return true;
}

static void give_up(struct inf_open_state *state)
{
	const struct inf_variant *v = state->refused;
	bool is_method_alone = v && v->n_others; /* other methods of its program may run */
	char error[1000], why[600];
	if (!state->is_uploaded && !state->wants_backend)
		diagnose(state, is_method_alone ? v->method : "", state->tried, true,
			is_method_alone ? v->n_others : 0);
	if (state->backend[0] && state->variants.n &&
		!inf_has_wanted_backend(state->repository->o.registry, state->backend, why, sizeof(why))) {
		inf_text(error, sizeof(error), "model '%s': %s", state->model, why);
	} else if (state->backend[0] && state->variants.n) {
		inf_text(error, sizeof(error), "no variant of model '%s' can run on '%s': %s", state->model,
			state->backend, state->tried);
	} else if (state->is_uploaded) {
		inf_text(error, sizeof(error), "%s",
			state->tried); /* it begins with the client's name for the program */
	} else if (is_method_alone) {
		inf_text(error, sizeof(error), "method '%s' of model '%s' can't be run: %s", v->method, state->model,
			state->tried);
	} else {
		inf_text(error, sizeof(error), "model '%s' can't be loaded: %s", state->model, state->tried);
	}
	inf_open_warn(state, error);
	if (!is_method_alone && turn_to_older(state, error, sizeof(error)))
		return;
	inf_open_finish(state, inf_open_failure_status(state), error, NULL);
}

/* Note which variants @v was preferred to, for people who ask, and what model.conf says now. */
static void note_choice(struct inf_open_state *state, const struct inf_variant *v, struct inf_model *s)
{
	char text[600] = "";
	size_t n = 0;
	if (state->pin[0] && !state->version[0])
		n = inf_text(text, sizeof(text), "other versions: 'version = %s' of %s%s", state->pin,
			state->has_pin ? "inferd.conf" : state->model, state->has_pin ? "" : "/model.conf");
	for (uint32_t i = state->next + 1; i < state->variants.n; i++) {
		const struct inf_variant *other = &state->variants.items[i];
		const char *why = !other->program          ? other->reason
				  : other->rank == v->rank ? "it has the same backend, and its name comes later"
							   : "its backend comes later in the order of backends";
		n += inf_text(text + n, sizeof(text) - n, "%s%s (%s): %s", n ? "; " : "", other->file,
			other->label[0] ? other->label : "?", why);
	}
	set_text(&s->passed_over, "%s", text);
	s->is_fixed = state->pin[0];
	s->is_fixed_by_section = state->has_pin;
	inf_model_conf_unref(s->conf);
	s->conf = inf_model_conf_ref(state->variants.conf);
	s->conf_ids = state->variants.conf_ids;
}

/* @s is the answer to opens that leave out the backend. Another variant of the same version that was loaded before is
 * not any more, unless a later look has told so. */
static void prefer(const struct inf_open_state *state, struct inf_model *s)
{
	const struct inf_repository *r = state->repository;
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
		struct inf_model *other = ET_CONTAINER_OF(node, struct inf_model, node);
		if (other != s && !other->is_uploaded && other->scan <= state->scan &&
			strcmp(other->model, s->model) == 0 && strcmp(other->version, s->version) == 0 &&
			strcmp(other->method, s->method) == 0)
			other->is_preferred = false;
	}
	s->is_preferred = true;
}

/* @s is loaded and is what @state gets: note for which later opens it is the right one, and finish. */
static void grant(struct inf_open_state *state, const struct inf_variant *v, struct inf_model *s)
{
	struct inf_repository *r = state->repository;
	const char *default_method = inf_default_method(v->program);
	s->is_default_method = s->is_default_method || !state->method[0] ||
			       (default_method && strcmp(default_method, s->method) == 0);
	if (!state->backend[0] && !state->is_uploaded && !state->open->beside)
		prefer(state, s);
	s->is_preferred = s->is_preferred || !state->backend[0];
	if (state->open->beside)
		s->is_replaced = s->is_replaced || state->open->beside->is_replaced;
	else if (!state->is_uploaded)
		inf_repository_note_found(state, s);
	if (v->note[0])
		note_tried(state, v, INF_LOAD_FAILURE_NONE, v->note);
	if (!s->is_uploaded && !state->wants_backend) {
		diagnose(state, "", state->tried, false, 0);
		diagnose(state, s->method, "", false, 0);
	}
	if (!s->is_uploaded && !state->wants_backend && !state->open->beside)
		note_choice(state, v, s);
	if (!state->version[0] && !state->skipped[0])
		set_text(&s->warning, "%s", "");
	if (!state->skipped[0]) {
		inf_open_finish(state, INF_OK, NULL, s);
	} else {
		set_text(&s->warning, "%s; version %s serves instead", state->skipped, s->version);
		et_logf(r->o.log, ET_LOG_WARNING, "%s", s->warning ? s->warning : state->skipped);
		if (state->open->must_scan) /* an administrator asked for the newest version */
			inf_open_finish(state, state->skipped_status, s->warning, NULL);
		else
			inf_open_finish(state, INF_OK, NULL, s);
	}
	inf_repository_unload_replaced(r);
}

static void choose(struct inf_open_state *state)
{
	struct inf_repository *r = state->repository;
	while (state->next < state->variants.n) {
		struct inf_variant *v = &state->variants.items[state->next];
		if (!v->program) {
			note_tried(state, v, v->failure, v->reason);
			state->next++;
			continue;
		}
		const char *method = state->method[0] ? state->method : inf_default_method(v->program);
		if (!method || !et_program_find_method(v->program, method)) {
			inf_open_refuse_method(state, v->program);
			return;
		}
		const char *failing = state->is_uploaded || state->open->beside
					      ? NULL
					      : inf_failing_variants_find(&r->failing, &v->id,
							&state->variants.data_ids, method);
		if (failing) {
			note_tried(state, v, INF_LOAD_FAILURE_DOWN, failing);
			state->next++;
			continue;
		}
		struct inf_model *s = find_model(r, &v->id, &state->variants.data_ids, method, state->tenant,
			state->open->beside ? v->program : NULL);
		uint32_t n_crashes = 0;
		if (s && s->state == INF_MODEL_FAILED && s->n_crashes == 1 &&
			!inf_load_failure_is_transient(s->failure)) {
			/* The run of another model may have crashed the backend: try once more. */
			n_crashes = s->n_crashes;
			et_list_remove(&s->node);
			s = inf_model_unref(s);
		}
		if (s && s->state == INF_MODEL_FAILED) {
			note_tried(state, v, s->failure, s->reason);
			state->next++;
			continue;
		}
		if (!s && !(s = inf_load_start(state, v, method, n_crashes))) {
			inf_open_finish(state, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory", NULL);
			return;
		}
		if (inf_model_is_loading(s)) {
			s->scan = s->scan > state->scan ? s->scan : state->scan;
			state->awaiting = inf_model_ref(s);
			atomic_store_explicit(&s->is_abandoned, false, memory_order_relaxed);
			return;
		}
		grant(state, v, s);
		return;
	}
	give_up(state);
}

bool inf_opens_charge(struct inf_repository *r, struct inf_model *model, uint64_t n_bytes, char *why, size_t room)
{
	for (struct et_list_node *node = r->opens.next; node != &r->opens; node = node->next) {
		struct inf_open_state *state = ET_CONTAINER_OF(node, struct inf_open_state, node);
		if (state->awaiting == model)
			return !state->open->charge || state->open->charge(state->open, model, n_bytes, why, room);
	}
	inf_text(why, room, "no client waits for it any more");
	return false;
}

void inf_opens_model_loaded(void *self, struct inf_model *model)
{
	struct inf_repository *r = self;
	struct et_list_node *node, *after;
	inf_model_ref(model);
	if (model->state == INF_MODEL_READY) {
		inf_repository_keep(r, model);
		inf_repository_compute_digest(r, model);
	}
	ET_LIST_FOR_EACH(node, after, &r->opens) {
		struct inf_open_state *state = ET_CONTAINER_OF(node, struct inf_open_state, node);
		if (state->awaiting != model)
			continue;
		state->awaiting = inf_model_unref(state->awaiting);
		choose(state);
		after = r->opens.next; /* choose may have ended any open; those that wait no more are passed over */
	}
	if (inf_model_is_loaded(model) && !model->n_methods)
		model->last_used_ns = et_platform_now_ns(NULL);
	/* An uploaded program that no open waited for, or was granted, is charged to no user: it goes. */
	if (inf_model_is_loaded(model) && !model->n_methods && model->is_uploaded)
		inf_model_unload(model);
	/* A model's own fault is remembered until its files change or an administrator loads it again. */
	if (model->state == INF_MODEL_FAILED && (model->is_uploaded || inf_load_failure_is_transient(model->failure)) &&
		!et_list_is_empty(&model->node)) {
		et_list_remove(&model->node);
		inf_model_unref(model);
	}
	inf_model_unref(model);
}

/* --- scanning ------------------------------------------------------------------------------------- */

/* Whether nobody waits for the scan any more. An is_stopped of struct inf_inspect_options. */
static bool is_in_vain(void *arg)
{
	const struct inf_open_state *state = arg;
	return atomic_load_explicit(&state->is_cancelled, memory_order_relaxed) ||
	       atomic_load_explicit(&state->is_unloaded, memory_order_relaxed) ||
	       atomic_load_explicit(&state->repository->is_closing, memory_order_relaxed);
}

/* Find the version that is asked for, or that is to serve, and read what model.conf says of it. */
static void find_variants(struct inf_open_state *state)
{
	struct inf_variants *v = &state->variants, conf = { .n = 0 };
	inf_variants_read_model_conf(&conf, state->folder, state->model);
	if (!state->has_pin && conf.conf)
		inf_text(state->pin, sizeof(state->pin), "%s", conf.conf->version);
	if (state->below[0])
		inf_variants_find_older(v, state->folder, state->model, state->below);
	else
		inf_variants_find(v, state->folder, state->model, state->version[0] ? state->version : state->pin);
	v->conf = conf.conf;
	v->conf_error = conf.conf_error;
	if (v->n)
		inf_variants_read_version_conf(v, state->folder);
}

static void scan_run(struct inf_work *work)
{
	struct inf_open_state *state = ET_CONTAINER_OF(work, struct inf_open_state, work);
	if (atomic_load_explicit(&state->is_cancelled, memory_order_relaxed)) {
		inf_open_close_files(state);
		return;
	}
	struct inf_inspect_options options = {
		.cache_dir = state->cache_dir[0] ? state->cache_dir : NULL,
		.store = state->repository->o.store,
		.registry = state->repository->o.registry,
		.config = state->repository->o.config, /* its order of backends never changes while the daemon runs */
		.backend = state->backend,
		.method = state->method,
		.options = &state->options,
		.tenant = state->tenant,
		.process_memory = state->process_memory,
		.user_memory = state->user_memory,
		.memory_budget = state->memory_budget,
		.is_stopped = is_in_vain,
		.arg = state,
		.counts_others = !state->is_uploaded,
	};
	state->scan = atomic_fetch_add_explicit(&state->repository->n_looks, 1, memory_order_relaxed) + 1;
	if (!state->is_uploaded)
		find_variants(state);
	et_platform_limit_heap(state->max_bytes);
	et_plugin_make_for(is_in_vain, state);
	inf_variants_inspect(&state->variants, &options);
	et_plugin_make_for(NULL, NULL);
	et_platform_limit_heap(UINT64_MAX);
	inf_open_close_files(state);
}

static void scan_done(struct inf_work *work)
{
	struct inf_open_state *state = ET_CONTAINER_OF(work, struct inf_open_state, work);
	struct inf_repository *r = state->repository;
	r->n_busy--;
	state->is_suspended = false;
	if (state->is_cancelled) {
		inf_open_finish(state, INF_CANCELLED, "it was cancelled", NULL);
	} else if (r->is_closing) {
		inf_open_finish(state, INF_UNAVAILABLE, "inferd is shutting down", NULL);
	} else if (state->is_unloaded) {
		char error[400];
		inf_text(error, sizeof(error), "model '%s' was unloaded meanwhile; try again", state->model);
		inf_open_finish(state, INF_UNAVAILABLE, error, NULL);
	} else if (state->variants.rc < 0) {
		inf_open_refuse_absent(state, state->variants.rc, NULL, 0);
	} else if (!state->variants.n && state->variants.denied) {
		inf_open_refuse_denied(state);
	} else if (!state->variants.n && state->skipped[0]) {
		inf_open_finish(state, state->skipped_status, state->skipped, NULL);
	} else if (!state->variants.n) {
		if (!state->pin[0])
			inf_repository_note_absent(state);
		state->is_suspended = true;
		inf_repository_scan(r, inf_open_refuse_absent, state);
	} else {
		if (state->variants.denied &&
			inf_log_quota_take(state->open->log_quota, INF_LOG_OPENS, et_platform_now_ns(NULL)))
			et_logf(r->o.log, ET_LOG_WARNING, "model %s: %s is not searched: Permission denied to user %lu",
				state->model, state->variants.denied, (unsigned long)geteuid());
		choose(state);
	}
}

/* Whether @name is the first one of @list. */
static bool is_first(const char *list, const char *name)
{
	size_t n = strcspn(list, ", \t");
	return n == strlen(name) && memcmp(list, name, n) == 0;
}

/* Whether @s, which serves those who ask for no version, does so by what inferd.conf says now. */
static bool is_decided_as_now(const struct inf_open_state *state, const struct inf_model *s)
{
	if (state->has_pin != s->is_fixed_by_section)
		return false;
	return !state->has_pin || (state->pin[0] ? strcmp(s->version, state->pin) == 0 : !s->is_fixed);
}

/* The READY model that @state asks for; NULL: its files must be scanned. */
static struct inf_model *find_match(const struct inf_repository *r, const struct inf_open_state *state)
{
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (s->state == INF_MODEL_READY && !s->is_uploaded && !s->is_replaced && !s->is_damaged &&
			strcmp(s->model, state->model) == 0 &&
			(state->version[0] ? strcmp(s->version, state->version) == 0
					   : s->is_newest && is_decided_as_now(state, s)) &&
			(state->method[0] ? strcmp(s->method, state->method) == 0 : s->is_default_method) &&
			(state->backend[0] ? is_first(state->backend, s->backend) : s->is_preferred))
			return s;
	}
	return NULL;
}

/* A model of the folder: refused, or READY already. False: its files must be scanned. */
static bool is_answered_at_once(struct inf_open_state *state, bool must_scan)
{
	struct inf_repository *r = state->repository;
	char error[700];
	bool is_bad_name = !inf_model_name_is_valid(state->open->model);
	if (is_bad_name || (state->version[0] && !inf_version_is_valid(state->open->version))) {
		inf_text(error, sizeof(error),
			is_bad_name ? "'%s' can't be the name of a model: it must not be empty, contain '/' or begin "
				      "with '.'"
				    : "'%s' can't be the name of a version: versions are whole numbers",
			is_bad_name ? state->open->model : state->open->version);
		inf_open_finish(state, INF_INVALID_ARGUMENT, error, NULL);
		return true;
	}
	if (inf_repository_is_unloading(r, state->model)) {
		inf_text(error, sizeof(error), "model '%s' is being unloaded; try again when it is gone", state->model);
		inf_open_finish(state, INF_UNAVAILABLE, error, NULL);
		return true;
	}
	struct inf_model *s = must_scan ? NULL : find_match(r, state);
	if (s)
		inf_open_finish(state, INF_OK, NULL, s);
	return s;
}

const void *inf_scan_turn(const char *model)
{
	uintptr_t hash = 5381;
	for (; *model; model++)
		hash = hash * 33 ^ (uint8_t)*model;
	return (const void *)(hash | 1); /* odd: not the address of a user */
}

/* There is always room to decode a small program, so that it is refused for what it takes as a whole. */
static void set_max_bytes(struct inf_open_state *state)
{
	enum { LEAST = 1 << 20 };
	state->max_bytes = inf_repository_room(state->repository);
	if (state->open->max_bytes && state->open->max_bytes < state->max_bytes)
		state->max_bytes = state->open->max_bytes;
	state->max_bytes = state->max_bytes > LEAST ? state->max_bytes : LEAST;
}

static void begin_scan(struct inf_open_state *state)
{
	struct inf_repository *r = state->repository;
	set_max_bytes(state);
	state->memory_budget = r->o.config->memory_budget;
	inf_text(state->cache_dir, sizeof(state->cache_dir), "%s", r->o.config->cache);
	inf_text(state->folder, sizeof(state->folder), "%s", r->o.config->models);
	state->work.run = scan_run;
	state->work.done = scan_done;
	state->is_suspended = true;
	r->n_busy++;
	inf_helper_post_for_user(r->o.helper, &state->work,
		state->is_uploaded ? state->whose : inf_scan_turn(state->model));
}

void inf_repository_open(struct inf_repository *r, struct inf_open *open)
{
	struct inf_open_state *state = inf_open_state_new(r, open);
	open->state = state;
	if (!state) {
		if (open->fd >= 0)
			close(open->fd);
		inf_close_fds(open->data_fds, open->data.n);
		open->done(open, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory", NULL);
	} else if (r->is_closing) {
		inf_open_finish(state, INF_UNAVAILABLE, "inferd is shutting down", NULL);
	} else if (!state->is_uploaded && !inf_open_may_see(open, open->model)) {
		inf_open_refuse_client(state);
	} else if (!inf_open_take_files(state)) {
		inf_open_finish(state, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory", NULL);
	} else if (open->beside) {
		set_max_bytes(state);
		choose(state);
	} else if (open->fd >= 0 || !is_answered_at_once(state, open->must_scan)) {
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
		inf_open_finish(state, INF_CANCELLED, "it was cancelled", NULL);
}

/* Opens that wait for a load go on: the unload waits for that load, too. */
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
		inf_open_finish(ET_CONTAINER_OF(node, struct inf_open_state, node), INF_UNAVAILABLE,
			"inferd is shutting down", NULL);
}
