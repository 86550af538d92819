/* SPDX-License-Identifier: BSD-3-Clause */
/* The models' folder: which models and versions it holds, and their files.
 *
 * A model's name comes from a client, so it must be one visible path component before it becomes part of a path. A
 * folder that does not exist is no error. A folder that could not be read is noted, so that the caller does not
 * take its model for absent. No program is opened here; variant.c does that. A scan looks at the first bytes of other
 * files, so that it can say what they are. */
#include "daemon/model/variant.h"
#include "daemon/base/text.h"

#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- files ---------------------------------------------------------------------------------------- */

/* The length of @name without the ending of a program; 0: it has no such ending. */
static size_t stem_length(const char *name)
{
	static const char *const endings[] = { ".pte", ".bpte" };
	size_t n = strlen(name);
	for (size_t i = 0; i < ET_ARRAY_LEN(endings); i++) {
		size_t e = strlen(endings[i]);
		if (n > e && name[0] != '.' && strcmp(name + n - e, endings[i]) == 0)
			return n - e;
	}
	return 0;
}

static bool is_folder(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_data(const char *name)
{
	size_t n = strlen(name);
	return n > 4 && name[0] != '.' && strcmp(name + n - 4, ".ptd") == 0;
}

static void add_data(struct inf_variants *v, const char *folder, const char *name)
{
	struct inf_data_ids *ids = &v->data_ids;
	struct stat st;
	if (!v->data && !(v->data = calloc(ET_PLATFORM_MAX_DATA, sizeof(*v->data))))
		return;
	if (ids->n == ET_PLATFORM_MAX_DATA) {
		v->has_too_much_data = true;
		return;
	}
	struct inf_data_file *data = &v->data[ids->n];
	if (strlen(folder) + 1 + strlen(name) >= sizeof(data->path))
		return;
	inf_text(data->path, sizeof(data->path), "%s/%s", folder, name);
	if (stat(data->path, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	data->fd = -1;
	ids->items[ids->n++] = inf_file_id(&st);
}

static void add_file(struct inf_variants *v, const char *folder, const char *name)
{
	struct stat st;
	if (v->n == INF_VARIANTS_MAX)
		return;
	if (!v->items && !(v->items = calloc(INF_VARIANTS_MAX, sizeof(*v->items))))
		return;
	struct inf_variant *variant = &v->items[v->n];
	if (strlen(folder) + 1 + strlen(name) >= sizeof(variant->path))
		return;
	inf_text(variant->path, sizeof(variant->path), "%s/%s", folder, name);
	if (stat(variant->path, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	variant->file = strrchr(variant->path, '/') + 1;
	variant->fd = -1;
	variant->id = inf_file_id(&st);
	v->n++;
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* A folder that does not exist counts as empty; one that can't be read now, or not by this process, is noted. */
static void note_error(struct inf_variants *v, int error, const char *folder)
{
	if (inf_is_scarcity(-error))
		v->rc = -error;
	else if (error == EACCES && !v->denied)
		v->denied = strdup(folder); /* without memory for the note, it counts as absent */
}

/* Add the programs and data files directly in @folder. */
static void add_folder(struct inf_variants *v, const char *folder)
{
	struct dirent **entries = NULL;
	int n = scandir(folder, &entries, is_visible, alphasort);
	if (n < 0)
		note_error(v, errno, folder);
	for (int i = 0; i < n; i++) {
		if (stem_length(entries[i]->d_name))
			add_file(v, folder, entries[i]->d_name);
		else if (is_data(entries[i]->d_name))
			add_data(v, folder, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
}

static int is_version(const struct dirent *entry)
{
	return inf_version_is_valid(entry->d_name);
}

/* Call @found for each version of a model, oldest first: the folders in @folder that hold programs and have a whole
 * number as name. Folders that could not be read are noted in @errors, whatever was found. */
static void for_each_version(const char *folder, void (*found)(void *arg, const char *version), void *arg,
	struct inf_variants *errors)
{
	struct dirent **entries = NULL;
	char path[INF_CONFIG_PATH_MAX + 512];
	int n = scandir(folder, &entries, is_version, versionsort);
	if (n < 0)
		note_error(errors, errno, folder);
	for (int i = 0; i < n; i++) {
		struct inf_variants v = { .n = 0 };
		struct stat st;
		inf_text(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
		if (stat(path, &st) < 0)
			note_error(errors, errno, path);
		else if (S_ISDIR(st.st_mode))
			add_folder(&v, path);
		if (v.n)
			found(arg, entries[i]->d_name);
		errors->rc = v.rc < 0 ? v.rc : errors->rc;
		if (v.denied)
			note_error(errors, EACCES, v.denied);
		inf_variants_deinit(&v);
		free(entries[i]);
	}
	free(entries);
}

struct newest {
	const char *below; /* "": any version; else only older ones */
	char *version;     /* 256 bytes */
};

/* The last call leaves the newest version. */
static void note_version(void *arg, const char *version)
{
	const struct newest *newest = arg;
	if (!newest->below[0] || strverscmp(version, newest->below) < 0)
		inf_text(newest->version, 256, "%s", version);
}

/* Shrink the arrays to what they hold: a list of the whole folder has such arrays for each model. */
static void shrink_arrays(struct inf_variants *v)
{
	void *items = v->n ? realloc(v->items, v->n * sizeof(*v->items)) : NULL;
	v->items = items ? items : v->items;
	for (uint32_t i = 0; i < v->n; i++) /* realloc may have moved the paths */
		v->items[i].file = strrchr(v->items[i].path, '/') + 1;
	void *data = v->data_ids.n ? realloc(v->data, v->data_ids.n * sizeof(*v->data)) : NULL;
	v->data = data ? data : v->data;
}

static struct inf_file_id conf_id(const char *folder)
{
	char path[INF_CONFIG_PATH_MAX + 600];
	struct stat st;
	inf_text(path, sizeof(path), "%s/model.conf", folder);
	return stat(path, &st) == 0 ? inf_file_id(&st) : (struct inf_file_id){ 0 };
}

/* @below: with no @version, the newest one below this; "": of all. */
static bool find(struct inf_variants *v, const char *folder, const char *model, const char *version, const char *below)
{
	char path[INF_CONFIG_PATH_MAX + 256], inner[INF_CONFIG_PATH_MAX + 512], name[300];
	memset(v, 0, sizeof(*v));
	if (!inf_model_name_is_valid(model) || (version[0] && !inf_version_is_valid(version)))
		return false;
	struct newest newest = { below, v->version };
	inf_text(v->model, sizeof(v->model), "%s", model);
	inf_text(path, sizeof(path), "%s/%s", folder, model);
	if (version[0])
		inf_text(v->version, sizeof(v->version), "%s", version);
	else
		for_each_version(path, note_version, &newest, v);
	v->conf_ids.of_model = conf_id(path);
	if (v->version[0]) {
		inf_text(inner, sizeof(inner), "%s/%s", path, v->version);
		add_folder(v, inner);
		v->conf_ids.of_version = conf_id(inner);
	}
	bool may_be_flat = !below[0] || strverscmp("1", below) < 0;
	if (!v->n && may_be_flat && (!v->version[0] || strcmp(v->version, "1") == 0)) {
		inf_text(v->version, sizeof(v->version), "1");
		add_folder(v, path);
		static const char *const endings[] = { ".pte", ".bpte" };
		for (size_t i = 0; i < ET_ARRAY_LEN(endings); i++) {
			inf_text(name, sizeof(name), "%s%s", model, endings[i]);
			add_file(v, folder, name);
		}
		inf_text(name, sizeof(name), "%s.ptd", model);
		add_data(v, folder, name);
	}
	shrink_arrays(v);
	return v->n > 0;
}

bool inf_variants_find(struct inf_variants *v, const char *folder, const char *model, const char *version)
{
	return find(v, folder, model, version, "");
}

bool inf_variants_find_older(struct inf_variants *v, const char *folder, const char *model, const char *than)
{
	return find(v, folder, model, "", than);
}

const char *inf_variants_changed(const struct inf_variants *v, const char *path, const struct inf_file_id *file,
	const struct inf_data_ids *data, const struct inf_conf_ids *conf)
{
	bool is_there = false, is_same = false;
	for (uint32_t i = 0; i < v->n; i++) {
		is_there = is_there || strcmp(v->items[i].path, path) == 0;
		is_same = is_same || inf_file_id_equal(&v->items[i].id, file);
	}
	if (!is_there)
		return NULL;
	if (!is_same)
		return "its file";
	if (!inf_data_ids_equal(&v->data_ids, data))
		return "its data (.ptd)";
	return inf_conf_ids_equal(&v->conf_ids, conf) ? NULL : "its model.conf";
}

void inf_variants_deinit(struct inf_variants *v)
{
	for (uint32_t i = 0; i < v->n; i++)
		et_program_unref(v->items[i].program);
	free(v->items);
	free(v->data);
	free(v->denied);
	free(v->ignored);
	free(v->conf_error);
	inf_model_conf_unref(v->conf);
	v->items = NULL;
	v->data = NULL;
	v->denied = NULL;
	v->ignored = NULL;
	v->conf_error = NULL;
	v->conf = NULL;
	v->data_ids.n = 0;
	v->n = 0;
}

/* --- all models ----------------------------------------------------------------------------------- */

struct scan {
	const char *folder, *model;
	struct inf_variants *models;
	size_t n;
	int rc;
};

/* Takes over @v. */
static void add_to_scan(struct scan *scan, struct inf_variants *v)
{
	struct inf_variants *bigger = reallocarray(scan->models, scan->n + 1, sizeof(*bigger));
	if (!bigger) {
		scan->rc = -ENOMEM;
		inf_variants_deinit(v);
		return;
	}
	scan->models = bigger;
	scan->models[scan->n++] = *v;
}

/* Note that @version of @model is ignored. Without memory for the note it is left out. */
__attribute__((format(printf, 4, 5))) static void add_ignored(struct scan *scan, const char *model, const char *version,
	const char *format, ...)
{
	struct inf_variants v = { .n = 0 };
	va_list args;
	va_start(args, format);
	if (vasprintf(&v.ignored, format, args) < 0)
		v.ignored = NULL;
	va_end(args);
	inf_text(v.model, sizeof(v.model), "%s", model);
	inf_text(v.version, sizeof(v.version), "%s", version);
	if (v.ignored)
		add_to_scan(scan, &v);
}

/* Note files in @folder that people take for programs. @version: the version that the folder is, or "". */
static void note_foreign(struct scan *scan, const char *folder, const char *version)
{
	struct dirent **entries = NULL;
	char path[INF_CONFIG_PATH_MAX + 800];
	int n = scandir(folder, &entries, is_visible, alphasort);
	for (int i = 0; i < n; i++) {
		const char *name = entries[i]->d_name;
		inf_text(path, sizeof(path), "%s/%s", folder, name);
		/* a program's or data file's contents are the matter of its load */
		const char *what = stem_length(name) || is_data(name) ? NULL : et_platform_foreign_file(path);
		if (what)
			add_ignored(scan, scan->model, version, "%s is %s", name, what);
		free(entries[i]);
	}
	free(entries);
}

/* Note what is in the model's folder @path and is no version. */
static void note_ignored(struct scan *scan, const char *path)
{
	struct dirent **entries = NULL;
	char below[INF_CONFIG_PATH_MAX + 800];
	int n = scandir(path, &entries, is_visible, versionsort);
	for (int i = 0; i < n; i++) {
		const char *name = entries[i]->d_name;
		struct inf_variants v = { .n = 0 };
		bool is_number = inf_version_is_valid(name);
		inf_text(below, sizeof(below), "%s/%s", path, name);
		if (is_folder(below)) {
			add_folder(&v, below);
			size_t n_number = strspn(name, "0123456789");
			if (v.n && strcmp(name + n_number, ".rolled-back") == 0)
				add_ignored(scan, scan->model, name,
					"it was rolled back; it serves again when it is renamed to %.*s and 'inferctl load "
					"%s' is called",
					(int)n_number, name, scan->model);
			else if (v.n && !is_number)
				add_ignored(scan, scan->model, name, "its name is no whole number (1, 2, ...)");
			else if (!v.n && !v.denied && is_number)
				add_ignored(scan, scan->model, name, "it holds no program (.pte or .bpte)");
			note_foreign(scan, below, name);
		}
		inf_variants_deinit(&v);
		free(entries[i]);
	}
	free(entries);
	note_foreign(scan, path, "");
}

static void scan_version(void *arg, const char *version)
{
	struct scan *scan = arg;
	struct inf_variants v;
	for (size_t i = 0; i < scan->n; i++)
		if (strcmp(scan->models[i].model, scan->model) == 0 && strcmp(scan->models[i].version, version) == 0)
			return;
	if (!inf_variants_find(&v, scan->folder, scan->model, version)) {
		scan->rc = v.rc < 0 ? v.rc : scan->rc;
		inf_variants_deinit(&v);
		return;
	}
	add_to_scan(scan, &v);
}

/* All versions of scan->model, which is a folder. A folder that this process may not read is listed without files. */
static void scan_model(struct scan *scan, const char *path)
{
	struct inf_variants errors = { .n = 0 };
	size_t n_before = scan->n;
	for_each_version(path, scan_version, scan, &errors);
	scan_version(scan, "1");
	scan->rc = errors.rc < 0 ? errors.rc : scan->rc;
	if (errors.denied && scan->n == n_before) {
		inf_text(errors.model, sizeof(errors.model), "%s", scan->model);
		add_to_scan(scan, &errors);
	} else {
		inf_variants_deinit(&errors);
	}
	note_ignored(scan, path);
}

int inf_variants_scan(const char *folder, struct inf_variants **ret_models, size_t *ret_n)
{
	struct scan scan = { .folder = folder };
	struct dirent **entries = NULL;
	char path[INF_CONFIG_PATH_MAX + 512], name[256];
	int n = scandir(folder, &entries, is_visible, alphasort);
	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		inf_text(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
		size_t n_stem = stem_length(entries[i]->d_name);
		scan.model = entries[i]->d_name;
		if (is_folder(path)) {
			scan_model(&scan, path);
		} else if (n_stem) {
			inf_text(name, sizeof(name), "%.*s", (int)n_stem, entries[i]->d_name);
			scan.model = name;
			scan_version(&scan, "1");
		} else {
			const char *what = is_data(entries[i]->d_name) ? NULL : et_platform_foreign_file(path);
			if (what)
				add_ignored(&scan, scan.model, "", "it is %s", what);
		}
		free(entries[i]);
	}
	free(entries);
	if (scan.rc < 0) {
		for (size_t i = 0; i < scan.n; i++)
			inf_variants_deinit(&scan.models[i]);
		free(scan.models);
		return scan.rc;
	}
	*ret_models = scan.models;
	*ret_n = scan.n;
	return 0;
}
