/* SPDX-License-Identifier: BSD-3-Clause */
/* Recheck: whether the files of loaded models are still in the models' folder.
 *
 * An open that finds a READY model does not look at the folder, so that it waits for no disk. An administrator who
 * deletes a model, or an older version of one, expects it to be gone all the same. So the path of each loaded model
 * is checked now and then, on a thread of its own, since a file system may not answer. A model whose file is gone
 * is replaced (replaced.c). A file that has changed, or a newer version, is not loaded, since nobody can tell when a
 * file that is being copied is whole: an administrator says so ('inferctl load'). It is only noted for people who ask
 * which file serves; so are changed data files and descriptions.
 *
 * The check holds no references: its result is compared with the models that are loaded when it comes back, and
 * does not count where a later look (open.c) has told something else. */
#include "daemon/model/repository_internal.h"
#include "daemon/base/text.h"
#include "runtime/base/checked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { EVERY_NS = 2 * 1000 * 1000 * 1000 };

struct inf_recheck {
	struct inf_work work;
	struct inf_repository *repository;
	uint64_t scan;
	char folder[INF_CONFIG_PATH_MAX];
	size_t n;
	struct recheck_item {
		char path[INF_CONFIG_PATH_MAX + 256];
		struct inf_file_id file;
		struct inf_data_ids data;
		struct inf_conf_ids conf;
		char model[256], version[256], newest[256]; /* newest: of the folder, if it is asked for */
		const char *changed;
		bool is_gone, is_newest_wanted;
	} items[];
};

static struct inf_model *model_at(const struct et_list_node *node)
{
	return ET_CONTAINER_OF(node, struct inf_model, node);
}

static bool needs_check(const struct inf_model *s)
{
	return inf_model_is_loaded(s) && !s->is_uploaded && !s->is_replaced;
}

static void recheck_run(struct inf_work *work)
{
	struct inf_recheck *recheck = ET_CONTAINER_OF(work, struct inf_recheck, work);
	struct stat st;
	recheck->scan = atomic_fetch_add_explicit(&recheck->repository->n_looks, 1, memory_order_relaxed) + 1;
	for (size_t i = 0; i < recheck->n; i++) {
		struct recheck_item *item = &recheck->items[i];
		struct inf_variants v;
		item->is_gone = stat(item->path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR);
		if (inf_variants_find(&v, recheck->folder, item->model, item->version) && v.rc == 0)
			item->changed = inf_variants_changed(&v, item->path, &item->file, &item->data, &item->conf);
		inf_variants_deinit(&v);
		if (!item->is_newest_wanted)
			continue;
		if (inf_variants_find(&v, recheck->folder, item->model, ""))
			inf_text(item->newest, sizeof(item->newest), "%s", v.version);
		inf_variants_deinit(&v);
	}
}

/* NULL: the check knows nothing of @s. */
static const struct recheck_item *find_item(const struct inf_recheck *recheck, const struct inf_model *s)
{
	for (size_t i = 0; i < recheck->n; i++)
		if (inf_file_id_equal(&recheck->items[i].file, &s->file) &&
			strcmp(recheck->items[i].path, s->path) == 0)
			return &recheck->items[i];
	return NULL;
}

void inf_repository_note_on_disk(struct inf_model *s, const char *changed, const char *newest)
{
	bool is_newer = s->is_newest && !s->is_fixed && strverscmp(newest, s->version) > 0;
	s->changed = changed;
	inf_text(s->newer, sizeof(s->newer), "%s", is_newer ? newest : "");
}

static void recheck_done(struct inf_work *work)
{
	struct inf_recheck *recheck = ET_CONTAINER_OF(work, struct inf_recheck, work);
	struct inf_repository *r = recheck->repository;
	r->n_busy--;
	r->recheck = NULL;
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
		struct inf_model *s = model_at(node);
		const struct recheck_item *item = needs_check(s) ? find_item(recheck, s) : NULL;
		if (!item || s->scan > recheck->scan)
			continue;
		inf_repository_note_on_disk(s, item->changed, item->newest);
		if (!item->is_gone)
			continue;
		s->scan = recheck->scan;
		inf_repository_mark_replaced(r, s);
	}
	free(recheck);
	inf_repository_unload_replaced(r);
}

void inf_repository_recheck(struct inf_repository *r, uint64_t now_ns)
{
	size_t n = 0;
	if (!r->is_closing && now_ns - r->scrubbed_ns >= EVERY_NS) {
		r->scrubbed_ns = now_ns;
		inf_scrub_wake(r->scrub);
	}
	if (r->recheck || r->is_closing || now_ns - r->rechecked_ns < EVERY_NS)
		return;
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next)
		n += needs_check(model_at(node));
	struct inf_recheck *recheck = n ? calloc(1, sizeof(*recheck) + n * sizeof(recheck->items[0])) : NULL;
	if (!recheck)
		return;
	for (struct et_list_node *node = r->models.next; node != &r->models; node = node->next) {
		const struct inf_model *s = model_at(node);
		if (!needs_check(s))
			continue;
		struct recheck_item *item = &recheck->items[recheck->n++];
		inf_text(item->path, sizeof(item->path), "%s", s->path);
		item->file = s->file;
		item->data = s->data;
		item->conf = s->conf_ids;
		inf_text(item->version, sizeof(item->version), "%s", s->version);
		inf_text(item->model, sizeof(item->model), "%s", s->model);
		item->is_newest_wanted = s->is_newest;
	}
	inf_text(recheck->folder, sizeof(recheck->folder), "%s", r->o.config->models);
	recheck->work.run = recheck_run;
	recheck->work.done = recheck_done;
	recheck->repository = r;
	r->rechecked_ns = now_ns;
	r->recheck = recheck;
	r->n_busy++;
	inf_helper_post_for_user(r->o.helper, &recheck->work, &r->recheck);
}
