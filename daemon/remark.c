/* What is said of models, until something else is true.
 *
 * Always so: there is at most one remark for each model, version and method, and those of methods name methods that some
 * program has, so that clients can't have more kept than there is in the folder. */
#include "daemon/remark.h"
#include "daemon/text.h"

#include "runtime/base/checked.h"

#include <stdlib.h>
#include <string.h>

struct kept {
	struct et_list_node node;
	char model[256], version[256], method[256], text[700];
	bool is_refusal;
	uint32_t n_others;
};

void inf_remarks_init(struct et_list_node *remarks)
{
	et_list_init(remarks);
}

static void drop(struct kept *kept)
{
	et_list_remove(&kept->node);
	free(kept);
}

void inf_remarks_deinit(struct et_list_node *remarks)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, remarks)
	drop(ET_CONTAINER_OF(node, struct kept, node));
}

void inf_remarks_note(struct et_list_node *remarks, const struct inf_remark *remark)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, remarks)
	{
		struct kept *old = ET_CONTAINER_OF(node, struct kept, node);
		if (strcmp(old->model, remark->model) == 0 && strcmp(old->version, remark->version) == 0 &&
			strcmp(old->method, remark->method) == 0)
			drop(old);
	}
	struct kept *new = remark->text[0] ? calloc(1, sizeof(*new)) : NULL;
	if (!new)
		return;
	inf_text(new->model, sizeof(new->model), "%s", remark->model);
	inf_text(new->version, sizeof(new->version), "%s", remark->version);
	inf_text(new->method, sizeof(new->method), "%s", remark->method);
	inf_text(new->text, sizeof(new->text), "%s", remark->text);
	new->is_refusal = remark->is_refusal;
	new->n_others = remark->n_others;
	et_list_append(remarks, &new->node);
}

void inf_remarks_forget(struct et_list_node *remarks, const char *model)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, remarks)
	{
		struct kept *old = ET_CONTAINER_OF(node, struct kept, node);
		if (strcmp(old->model, model) == 0)
			drop(old);
	}
}

/* What is said of its methods, or of the whole; behind the @n bytes that are in @text. */
static size_t tell(const struct et_list_node *remarks, const char *model, const char *version,
	bool is_of_methods, char *text, size_t room, size_t n, uint32_t *n_refused, uint32_t *n_able)
{
	for (const struct et_list_node *node = remarks->next; node != remarks; node = node->next) {
		const struct kept *kept = ET_CONTAINER_OF(node, const struct kept, node);
		if (strcmp(kept->model, model) != 0 || strcmp(kept->version, version) != 0 ||
			(kept->method[0] != '\0') != is_of_methods)
			continue;
		n += inf_text(text + n, room - n, "%s%s%s%s%s", n ? "; " : "",
			is_of_methods ? "method '" : "", kept->method,
			is_of_methods ? "' can't be run: " : "", kept->text);
		if (!kept->is_refusal)
			continue;
		*n_refused += 1;
		*n_able = kept->n_others < *n_able ? kept->n_others : *n_able;
	}
	return n;
}

bool inf_remarks_tell(const struct et_list_node *remarks, const char *model, const char *version, char *text,
	size_t room, bool *ret_is_refused)
{
	uint32_t n_refused = 0, n_able = UINT32_MAX;
	size_t n = tell(remarks, model, version, false, text, room, 0, &n_refused, &n_able);
	n = tell(remarks, model, version, true, text, room, n, &n_refused, &n_able);
	/* Each refused one is among the others of those that were refused beside it. */
	*ret_is_refused = n_refused > n_able;
	return n > 0;
}
