/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of an open that is on its way: what it owns, and how it ends.
 *
 * The state is a copy of what the client asked for and of what the configuration said then, so that threads which work
 * for the open read nothing that may change. It owns the descriptors that the client sent, the variants that were found
 * and their programs; whichever way the open ends, inf_open_finish gives them back and calls done. */
#include "daemon/base/text.h"
#include "daemon/model/repository_internal.h"
#include "ipc/channel.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Closing may take as long as reading does: on the helper's thread where there is a choice. */
void inf_open_close_files(struct inf_open_state *state)
{
	if (state->fd >= 0)
		close(state->fd);
	inf_close_fds(state->data_fds, state->n_data_fds);
	state->fd = -1;
	state->n_data_fds = 0;
}

void inf_open_drop_variants(struct inf_open_state *state)
{
	for (uint32_t i = 0; i < state->variants.n; i++) {
		inf_repository_release_async(state->repository, state->variants.items[i].program, NULL, 0, NULL, NULL);
		state->variants.items[i].program = NULL;
	}
	inf_variants_deinit(&state->variants);
}

/* @state waits no more for the model that it did. */
static void stop_awaiting(struct inf_open_state *state)
{
	struct inf_repository *r = state->repository;
	struct inf_model *model = state->awaiting;
	bool is_awaited = false;
	state->awaiting = NULL;
	for (struct et_list_node *node = r->opens.next; node != &r->opens; node = node->next)
		is_awaited |= ET_CONTAINER_OF(node, struct inf_open_state, node)->awaiting == model;
	if (model && !is_awaited)
		atomic_store_explicit(&model->is_abandoned, true, memory_order_relaxed);
	inf_model_unref(model);
}

static void free_state(struct inf_open_state *state)
{
	et_list_remove(&state->node);
	stop_awaiting(state);
	inf_open_drop_variants(state);
	inf_open_close_files(state);
	free(state);
}

void inf_open_finish(struct inf_open_state *state, enum inf_status status, const char *error, struct inf_model *model)
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

void inf_open_post(struct inf_open_state *state, struct inf_work *work)
{
	if (state->is_uploaded)
		inf_helper_post_for_user(state->repository->o.helper, work, state->whose);
	else
		inf_helper_post(state->repository->o.helper, work, state->whose);
}

/* Make the client's own program the only variant. False: no memory. */
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

/* Make the file of @beside the only variant. False: no memory. */
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
	/* no diagnostics are kept of an uploaded program, and it may have millions of operators */
	if (!state->is_uploaded)
		v->n_others = inf_count_other_methods(state->repository->o.registry, v->program, meant);
	inf_text(only->model, sizeof(only->model), "%s", beside->model);
	inf_text(only->version, sizeof(only->version), "%s", beside->version);
	return true;
}

bool inf_open_take_files(struct inf_open_state *state)
{
	const struct inf_open *open = state->open;
	return open->beside ? take_beside(state, open->beside) : open->fd < 0 || take_own_files(state, open);
}

struct inf_open_state *inf_open_state_new(struct inf_repository *r, struct inf_open *open)
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
	state->process_memory = open->process_memory;
	state->user_memory = open->user_memory;
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
	state->wants_backend = open->backend[0];
	if (section) {
		state->options = section->options;
		state->has_pin = section->has_version;
		inf_text(state->pin, sizeof(state->pin), "%s", section->version);
	}
	et_list_append(&r->opens, &state->node);
	return state;
}
