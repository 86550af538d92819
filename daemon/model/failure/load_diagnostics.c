/* SPDX-License-Identifier: BSD-3-Clause */
/* The diagnostics that are kept of models, until a later load tells something else.
 *
 * What must always be true: there is at most one diagnostic for each model, version and method, and a method that
 * has one exists in some program. So clients can't make the daemon keep more than the folder holds. */
#include "daemon/model/failure/load_diagnostics.h"
#include "daemon/base/text.h"

#include "runtime/base/checked.h"

#include <stdlib.h>
#include <string.h>

struct kept {
	struct et_list_node node;
	char model[256], version[256], method[256], text[700];
	bool is_refusal;
	uint32_t n_others;
};

void inf_load_diagnostics_init(struct et_list_node *diagnostics)
{
	et_list_init(diagnostics);
}

static void drop(struct kept *kept)
{
	et_list_remove(&kept->node);
	free(kept);
}

void inf_load_diagnostics_deinit(struct et_list_node *diagnostics)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, diagnostics)
		drop(ET_CONTAINER_OF(node, struct kept, node));
}

void inf_load_diagnostics_note(struct et_list_node *diagnostics, const struct inf_load_diagnostic *diagnostic)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, diagnostics) {
		struct kept *old = ET_CONTAINER_OF(node, struct kept, node);
		if (strcmp(old->model, diagnostic->model) == 0 && strcmp(old->version, diagnostic->version) == 0 &&
			strcmp(old->method, diagnostic->method) == 0)
			drop(old);
	}
	struct kept *new = diagnostic->text[0] ? calloc(1, sizeof(*new)) : NULL;
	if (!new)
		return;
	inf_text(new->model, sizeof(new->model), "%s", diagnostic->model);
	inf_text(new->version, sizeof(new->version), "%s", diagnostic->version);
	inf_text(new->method, sizeof(new->method), "%s", diagnostic->method);
	inf_text(new->text, sizeof(new->text), "%s", diagnostic->text);
	new->is_refusal = diagnostic->is_refusal;
	new->n_others = diagnostic->n_others;
	et_list_append(diagnostics, &new->node);
}

void inf_load_diagnostics_forget(struct et_list_node *diagnostics, const char *model)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, diagnostics) {
		struct kept *old = ET_CONTAINER_OF(node, struct kept, node);
		if (strcmp(old->model, model) == 0)
			drop(old);
	}
}

/* Append the diagnostics of the version's methods, or of the version as a whole, to the @n bytes in @text; returns
 * the new length. Counts the refusals; *min_others becomes the least number of other methods beside a refused one. */
static size_t append(const struct et_list_node *diagnostics, const char *model, const char *version, bool is_of_methods,
	char *text, size_t room, size_t n, uint32_t *n_refused, uint32_t *min_others)
{
	for (const struct et_list_node *node = diagnostics->next; node != diagnostics; node = node->next) {
		const struct kept *kept = ET_CONTAINER_OF(node, const struct kept, node);
		if (strcmp(kept->model, model) != 0 || strcmp(kept->version, version) != 0 ||
			(kept->method[0] != '\0') != is_of_methods)
			continue;
		n += inf_text(text + n, room - n, "%s%s%s%s%s", n ? "; " : "", is_of_methods ? "method '" : "",
			kept->method, is_of_methods ? "' can't be run: " : "", kept->text);
		if (!kept->is_refusal)
			continue;
		*n_refused += 1;
		*min_others = kept->n_others < *min_others ? kept->n_others : *min_others;
	}
	return n;
}

bool inf_load_diagnostics_tell(const struct et_list_node *diagnostics, const char *model, const char *version,
	char *text, size_t room, bool *ret_is_refused)
{
	uint32_t n_refused = 0, min_others = UINT32_MAX;
	size_t n = append(diagnostics, model, version, false, text, room, 0, &n_refused, &min_others);
	n = append(diagnostics, model, version, true, text, room, n, &n_refused, &min_others);
	/* Each refused method is one of the others of the methods that were refused beside it. */
	*ret_is_refused = n_refused > min_others;
	return n > 0;
}
