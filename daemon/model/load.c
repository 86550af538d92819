/* SPDX-License-Identifier: BSD-3-Clause */
/* Load: making one model, from a variant of the folder or a client's own program.
 *
 * A load has three steps. The helper's thread makes the Plan. The loop then finds room in the memory budget
 * (budget.c); a load for which other models have to be freed first waits in `loads`. At last the workers prepare
 * the Plan (model.c). The model exists from the first step on, LOADING, so that every open that wants the same
 * variant waits for the same load.
 *
 * A client's own program is made on a thread apart: its backend may hang until its load_timeout, and only its user
 * waits for that. Which variant is loaded is chosen by open.c; it also hears of the end, through the model's event. */
#include "daemon/model/repository_internal.h"
#include "daemon/base/text.h"
#include "delegates/plugin/proxy/plugin.h"
#include "runtime/platform/platform.h"

#include <stdlib.h>
#include <string.h>

struct load {
	struct inf_work work;
	struct et_list_node node; /* in the repository's loads, while it waits for room */
	struct inf_repository *repository;
	struct inf_model *model; /* a reference */
	struct et_program *program;
	struct et_plan *plan;
	enum et_status status;
	struct et_diag diag;
	struct inf_config_model_options options; /* of the model */
	uint64_t max_bytes;                      /* that the Plan may take */
	uint64_t process_memory;                 /* see struct inf_open */
};

/* Whether no open waits for the load any more. An is_in_vain of et_plugin_make_for. */
static bool is_in_vain(void *arg)
{
	const struct load *load = arg;
	return atomic_load_explicit(&load->model->is_abandoned, memory_order_relaxed) ||
	       atomic_load_explicit(&load->repository->is_closing, memory_order_relaxed);
}

static void load_run(struct inf_work *work)
{
	struct load *load = ET_CONTAINER_OF(work, struct load, work);
	struct et_option items[INF_CONFIG_MODEL_OPTIONS_MAX];
	struct et_options options = inf_model_options(&load->options, items);
	if (load->model->is_uploaded)
		inf_client_program_limit(load->repository->o.registry, load->model->tenant, load->process_memory);
	et_platform_limit_heap(load->max_bytes);
	et_plugin_make_for(is_in_vain, load);
	load->status = et_plan_new(&load->plan, load->program, load->model->method, load->repository->o.registry,
		&options, inf_queues_n_plan_workers(load->repository->o.queues), et_platform_allocator(), &load->diag);
	et_plugin_make_for(NULL, NULL);
	if (et_platform_limit_heap(UINT64_MAX) && load->status != ET_OK) {
		load->diag.text[0] = '\0';
		load->status = et_fail(&load->diag, ET_E_OUT_OF_RESOURCES,
			"what is made of it takes more than the %llu KiB that are free for it",
			(unsigned long long)(load->max_bytes >> 10));
	}
	if (load->status != ET_OK) /* a damaged copy is deleted, so that the next load reads the file */
		et_platform_source_check(et_program_source(load->program));
}

static void fail(struct load *load, const char *reason)
{
	inf_repository_release_async(load->repository, load->program, load->plan, 0, NULL, NULL);
	inf_model_fail(load->model, load->status, reason);
	inf_model_unref(load->model);
	free(load);
}

/* Whether the client whose own program @s is pays for it: charged once, though the load may wait and come back. */
static bool is_charged(struct inf_repository *r, struct inf_model *s, const struct inf_model_use *needs, char *reason,
	size_t room)
{
	struct inf_model_use made = *needs;
	made.n_file = 0;
	return !s->is_uploaded || s->gone || inf_opens_charge(r, s, inf_model_total(&made), reason, room);
}

/* There is a Plan: prepare it if there is room, wait if there will be room, else fail. */
static void prepare_or_wait(struct load *load)
{
	struct inf_repository *r = load->repository;
	struct inf_model *s = load->model;
	char reason[sizeof(s->reason)];
	struct inf_model_use needs = inf_model_estimate_use(r->o.queues, load->program, load->plan, &s->data,
		s->is_uploaded);
	enum inf_room has_room = INF_ROOM_NEVER;
	if (is_charged(r, s, &needs, reason, sizeof(reason)) &&
		inf_repository_machine_has_room(r, &needs, reason, sizeof(reason)))
		has_room = inf_repository_make_room(r, s, &needs, false, reason, sizeof(reason));
	switch (has_room) {
	case INF_ROOM:
		inf_repository_limit_instances(r);
		inf_model_prepare(s, load->program, load->plan);
		inf_model_unref(s);
		free(load);
		return;
	case INF_ROOM_LATER:
		if (!r->is_closing) {
			et_list_append(&r->loads, &load->node);
			return;
		}
		inf_text(reason, sizeof(reason), "inferd is shutting down");
		break;
	case INF_ROOM_NEVER:
		break;
	}
	load->status = ET_E_OUT_OF_RESOURCES;
	fail(load, reason);
}

void inf_loads_retry(struct inf_repository *r)
{
	const struct et_list_node *last = r->loads.prev; /* of the loads that wait now */
	for (bool is_over = et_list_is_empty(&r->loads); !is_over;) {
		struct et_list_node *node = r->loads.next;
		is_over = node == last;
		et_list_remove(node);
		prepare_or_wait(ET_CONTAINER_OF(node, struct load, node));
	}
}

static void load_done(struct inf_work *work)
{
	struct load *load = ET_CONTAINER_OF(work, struct load, work);
	load->repository->n_busy--;
	if (load->status == ET_OK)
		prepare_or_wait(load);
	else
		fail(load, load->diag.text[0] ? load->diag.text : et_status_text(load->status));
}

/* The Program of @v: the one that a loaded model of another method of the same file has, else its own. */
static struct et_program *find_program(const struct inf_open_state *state, const struct inf_variant *v)
{
	const struct inf_repository *r = state->repository;
	for (struct et_list_node *node = r->models.next; node != &r->models && !state->open->beside;
		node = node->next) {
		const struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (s->program && !s->is_damaged && s->tenant == state->tenant && inf_file_id_equal(&s->file, &v->id) &&
			inf_data_ids_equal(&s->data, &state->variants.data_ids))
			return s->program;
	}
	return v->program;
}

struct inf_model *inf_load_start(struct inf_open_state *state, const struct inf_variant *v, const char *method,
	uint32_t n_crashes)
{
	struct inf_repository *r = state->repository;
	struct load *load = calloc(1, sizeof(*load));
	struct inf_model *s = inf_model_new(r->o.queues, &r->events, r->o.shared_pages, r->o.log, state->model,
		state->variants.version, method);
	const struct inf_config_model *section = inf_config_find_model(r->o.config, state->model);
	if (!load || !s || !(s->backend = strdup(v->label)) || !(s->path = strdup(v->path))) {
		inf_model_unref(s);
		free(load);
		return NULL;
	}
	s->n_crashes = n_crashes;
	s->file = v->id;
	s->data = state->variants.data_ids;
	s->conf_ids = state->variants.conf_ids;
	s->is_uploaded = state->is_uploaded;
	s->is_quiet = !inf_log_quota_take(state->open->log_quota, INF_LOG_LOADS, et_platform_now_ns(NULL));
	s->tenant = state->tenant;
	s->keep_alive_ns = s->is_uploaded                       ? 0
			   : section && section->has_keep_alive ? section->keep_alive_ns
								: r->o.config->keep_alive_ns;
	if (section && section->has_warm_up)
		s->n_warm_up = section->warm_up;
	else if (state->variants.conf)
		s->n_warm_up = state->variants.conf->warm_up;
	s->is_pinned = !s->is_uploaded && section && section->pin;
	s->last_used_ns = et_platform_now_ns(NULL);
	et_list_append(&r->models, &s->node); /* holds the first reference */
	load->work.run = load_run;
	load->work.done = load_done;
	load->repository = r;
	load->model = inf_model_ref(s);
	load->program = et_program_ref(find_program(state, v));
	load->options = state->options;
	load->max_bytes = state->max_bytes;
	load->process_memory = state->process_memory;
	r->n_busy++;
	inf_open_post(state, &load->work);
	return s;
}
