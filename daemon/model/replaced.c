/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaced models: those whose files the folder does not have any more.
 *
 * A replaced model keeps its Methods, gets no new ones, and is unloaded with the last of them. Three looks at the
 * folder tell which models are replaced: an open that has found the model's files (open.c), one that has found
 * none, and the check of each path now and then (recheck.c).
 *
 * Looks run beside the loop and may come back in another order than they began in. So looks are numbered as they
 * begin, and a model remembers the number of the last look that told something about its files: an older look never
 * undoes what a later one has found. */
#include "daemon/model/repository_internal.h"
#include "runtime/base/checked.h"

#include <string.h>

static bool is_among(const struct inf_variants *variants, const struct inf_file_id *file,
	const struct inf_data_ids *data)
{
	for (uint32_t i = 0; i < variants->n; i++)
		if (inf_file_id_equal(&variants->items[i].id, file) && inf_data_ids_equal(&variants->data_ids, data))
			return true;
	return false;
}

/* Variants whose runs failed, and whose files the version does not have any more, need not be remembered. */
static void forget_failing(struct inf_repository *r, const struct inf_variants *variants)
{
	struct inf_failing_variant v;
	for (size_t i = 0; inf_failing_variants_at(&r->failing, i, &v);) {
		if (strcmp(v.model, variants->model) != 0 || strcmp(v.version, variants->version) != 0 ||
			is_among(variants, v.file, v.data))
			i++;
		else
			inf_failing_variants_forget(&r->failing, v.file, v.data, v.method);
	}
}

void inf_repository_mark_replaced(struct inf_repository *r, struct inf_model *s)
{
	if (s->is_replaced)
		return;
	et_logf(r->o.log, ET_LOG_NOTICE,
		"model %s/%s %s: its files have changed or are gone; new clients do not get it any more", s->model,
		s->version, s->method);
	s->is_replaced = true;
}

static bool is_loaded_of(const struct inf_model *s, const char *model)
{
	return !s->is_uploaded && inf_model_is_loaded(s) && strcmp(s->model, model) == 0;
}

void inf_repository_note_found(struct inf_open_state *state, struct inf_model *chosen)
{
	struct inf_repository *r = state->repository;
	bool is_latest_look = !state->version[0]; /* among the looks for the newest version */
	bool is_own = is_loaded_of(chosen, state->model) && strcmp(chosen->version, state->variants.version) == 0;
	forget_failing(r, &state->variants);
	bool is_outdated = false; /* never for a model that has the same files under another name */
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
		const struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (!is_loaded_of(s, state->model))
			continue;
		is_latest_look = is_latest_look && s->newest_scan <= state->scan;
		is_outdated = is_outdated ||
			      (is_own && strcmp(s->version, chosen->version) == 0 && !s->is_replaced &&
				      s->scan > chosen->scan && !is_among(&state->variants, &s->file, &s->data));
	}
	if (is_outdated)
		inf_repository_mark_replaced(r, chosen);
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (!is_loaded_of(s, state->model))
			continue;
		bool is_this_version = strcmp(s->version, state->variants.version) == 0;
		if (is_latest_look) {
			s->newest_scan = state->scan;
			s->is_newest = is_this_version || s == chosen;
		}
		/* this look does not tell whether versions older than the newest are there */
		if (s->scan > state->scan || (!is_this_version && s != chosen &&
						     (!is_latest_look || state->below[0] || state->pin[0] ||
							     strverscmp(s->version, state->variants.version) < 0)))
			continue;
		s->scan = state->scan;
		if (s == chosen)
			s->is_replaced = is_outdated;
		else if (is_this_version && is_among(&state->variants, &s->file, &s->data))
			s->is_replaced = false;
		else
			inf_repository_mark_replaced(r, s);
	}
}

void inf_repository_note_absent(struct inf_open_state *state)
{
	struct inf_repository *r = state->repository;
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		if (!is_loaded_of(s, state->model) || s->scan > state->scan ||
			(state->version[0] && strcmp(s->version, state->version)))
			continue;
		s->scan = state->scan;
		inf_repository_mark_replaced(r, s);
	}
	inf_repository_unload_replaced(r);
}

void inf_repository_unload_replaced(struct inf_repository *r)
{
	struct et_list_node *node = r->models.next;
	while (node != &r->models) {
		struct inf_model *s = ET_CONTAINER_OF(node, struct inf_model, node);
		node = node->next;
		if (!inf_model_is_loaded(s) || !s->is_replaced || s->n_methods)
			continue;
		inf_model_unload(s);
		node = r->models.next; /* unloading may have changed the list */
	}
}
