/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of variants that are passed over.
 *
 * What must always be true: there is at most one entry for each path and method, so that the list does not grow beyond
 * what the folder has held. */
#include "daemon/model/failure/failing_variants.h"

#include "runtime/base/checked.h"

#include <stdlib.h>
#include <string.h>

struct kept {
	struct et_list_node node;
	char *model, *version, *method, *path, *backends, *why;
	struct inf_file_id file;
	struct inf_data_ids data;
};

void inf_failing_variants_init(struct et_list_node *variants)
{
	et_list_init(variants);
}

static struct kept *drop(struct kept *kept)
{
	et_list_remove(&kept->node);
	free(kept->model);
	free(kept->version);
	free(kept->method);
	free(kept->path);
	free(kept->backends);
	free(kept->why);
	free(kept);
	return NULL;
}

void inf_failing_variants_deinit(struct et_list_node *variants)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, variants)
		drop(ET_CONTAINER_OF(node, struct kept, node));
}

bool inf_failing_variants_add(struct et_list_node *variants, const struct inf_failing_variant *v)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, variants) {
		struct kept *old = ET_CONTAINER_OF(node, struct kept, node);
		if (strcmp(old->path, v->path) == 0 && strcmp(old->method, v->method) == 0)
			drop(old);
	}
	struct kept *new = calloc(1, sizeof(*new));
	if (!new)
		return false;
	et_list_init(&new->node);
	new->model = strdup(v->model);
	new->version = strdup(v->version);
	new->method = strdup(v->method);
	new->path = strdup(v->path);
	new->backends = strdup(v->backends);
	new->why = strdup(v->why);
	new->file = *v->file;
	new->data = *v->data;
	if (!new->model || !new->version || !new->method || !new->path || !new->backends || !new->why)
		new = drop(new);
	else
		et_list_append(variants, &new->node);
	return new;
}

static bool is_of(const struct kept *kept, const struct inf_file_id *file, const struct inf_data_ids *data,
	const char *method)
{
	return inf_file_id_equal(&kept->file, file) && inf_data_ids_equal(&kept->data, data) &&
	       strcmp(kept->method, method) == 0;
}

const char *inf_failing_variants_find(const struct et_list_node *variants, const struct inf_file_id *file,
	const struct inf_data_ids *data, const char *method)
{
	for (const struct et_list_node *node = variants->next; node != variants; node = node->next) {
		const struct kept *kept = ET_CONTAINER_OF(node, const struct kept, node);
		if (is_of(kept, file, data, method))
			return kept->why;
	}
	return NULL;
}

bool inf_failing_variants_forget(struct et_list_node *variants, const struct inf_file_id *file,
	const struct inf_data_ids *data, const char *method)
{
	bool is_any = false;
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, variants) {
		struct kept *kept = ET_CONTAINER_OF(node, struct kept, node);
		if (!is_of(kept, file, data, method))
			continue;
		is_any = true;
		drop(kept);
	}
	return is_any;
}

bool inf_failing_variants_forget_model(struct et_list_node *variants, const char *model)
{
	bool is_any = false;
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, variants) {
		struct kept *kept = ET_CONTAINER_OF(node, struct kept, node);
		if (strcmp(kept->model, model) != 0)
			continue;
		is_any = true;
		drop(kept);
	}
	return is_any;
}

/* Whether @name is one of the names in "xnnpack+acme". */
static bool has_name(const char *names, const char *name)
{
	size_t n = strlen(name);
	for (const char *at = names; *at; at += strspn(at, "+")) {
		size_t n_here = strcspn(at, "+");
		if (n_here == n && memcmp(at, name, n) == 0)
			return true;
		at += n_here;
	}
	return false;
}

bool inf_failing_variants_forget_backend(struct et_list_node *variants, const char *backend)
{
	bool is_any = false;
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, variants) {
		struct kept *kept = ET_CONTAINER_OF(node, struct kept, node);
		if (!has_name(kept->backends, backend))
			continue;
		is_any = true;
		drop(kept);
	}
	return is_any;
}

bool inf_failing_variants_at(const struct et_list_node *variants, size_t index, struct inf_failing_variant *ret_variant)
{
	for (const struct et_list_node *node = variants->next; node != variants; node = node->next) {
		const struct kept *kept = ET_CONTAINER_OF(node, const struct kept, node);
		if (index--)
			continue;
		*ret_variant = (struct inf_failing_variant){ kept->model, kept->version, kept->method, kept->path,
			kept->backends, &kept->file, &kept->data, kept->why };
		return true;
	}
	return false;
}
