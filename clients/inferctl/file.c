/* SPDX-License-Identifier: BSD-3-Clause */
/* Open model files and their data files for the subcommands.
 *
 * A file is mapped and not copied. If somebody rewrites it meanwhile, numbers change, and nothing worse happens. The
 * bundle's tensors and the program's constants point into the mapping, so the file is closed last; the same holds
 * for data files.
 *
 * Most programs have no data files. So the folder is read only when a program asks for a tensor that it lacks;
 * reading it always would cost a tenth of the time that a small program takes to load. */
#include "clients/inferctl/file.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* --- data files ---------------------------------------------------------------------------------------- */

static enum et_status add_path(struct ctl_file *file, char *path, struct et_diag *diag)
{
	if (file->n_data == ET_PLATFORM_MAX_DATA) {
		et_fail(diag, ET_E_NOT_SUPPORTED, "%s: a program can have %d data files", path, ET_PLATFORM_MAX_DATA);
		free(path);
		return ET_E_NOT_SUPPORTED;
	}
	file->data_paths[file->n_data++] = path;
	return ET_OK;
}

static int is_data(const struct dirent *entry)
{
	size_t n = strlen(entry->d_name);
	return entry->d_name[0] != '.' && n > 4 && strcmp(entry->d_name + n - 4, ".ptd") == 0;
}

/* Length of the file name in @path without its suffix; *ret_name is where the name begins. */
static size_t stem(const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
	*ret_name = name;
	return dot ? (size_t)(dot - name) : strlen(name);
}

/* Add the data files beside the program. A folder that cannot be read has none. */
static enum et_status find_beside(struct ctl_file *file, struct et_diag *diag)
{
	const char *name, *other;
	size_t n_stem = stem(file->path, &name);
	int n_folder = (int)(name - file->path);
	char *folder = n_folder ? ctl_format("%.*s", n_folder, file->path) : ctl_format("./");
	struct dirent **entries = NULL;
	int n = scandir(folder, &entries, is_data, alphasort);
	enum et_status status = ET_OK;
	/* two passes: the file with the program's own name comes first */
	for (int own = 1; own >= 0; own--)
		for (int i = 0; i < n && status == ET_OK; i++)
			if (own == (stem(entries[i]->d_name, &other) == n_stem && strncmp(other, name, n_stem) == 0))
				status = add_path(file, ctl_format("%.*s%s", n_folder, file->path, entries[i]->d_name),
					diag);
	for (int i = 0; i < n; i++)
		free(entries[i]);
	free(entries);
	free(folder);
	return status;
}

/* Add the data files, last one first: a file that is added later is searched earlier. */
static enum et_status open_data(struct ctl_file *file, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	if (!file->n_data)
		return ET_OK;
	file->data = et_platform_data_new();
	if (!file->data)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "%s: out of memory", file->path);
	for (size_t i = file->n_data; i-- > 0 && status == ET_OK;) {
		struct et_source source;
		status = et_platform_source_map(&source, file->data_paths[i], diag);
		if (status != ET_OK)
			break;
		status = et_platform_data_add(file->data, &source, file->data_paths[i], diag);
		if (status != ET_OK)
			source.release(source.owner);
	}
	return status;
}

static void close_data(struct ctl_file *file)
{
	et_platform_data_unref(file->data);
	file->data = NULL;
	while (file->n_data)
		free(file->data_paths[--file->n_data]);
}

enum et_status ctl_file_find_data(struct ctl_file *file, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	pthread_mutex_lock(&file->lock);
	if (!file->has_data) {
		status = find_beside(file, diag);
		if (status == ET_OK)
			status = open_data(file, diag);
		if (status != ET_OK)
			close_data(file);
		file->has_data = status == ET_OK;
	}
	pthread_mutex_unlock(&file->lock);
	return status;
}

static enum et_status beside_find(void *self, const char *name, const struct et_tensor_spec *expected,
	const uint8_t **ret_bytes, size_t *ret_n_bytes, struct et_diag *diag)
{
	struct ctl_file *file = self;
	enum et_status status = ctl_file_find_data(file, diag);
	const struct et_external_data *table = status == ET_OK ? et_platform_data_table(file->data) : NULL;
	if (status == ET_OK && !table)
		return et_fail(diag, ET_E_NOT_FOUND, "no data file was given; its .ptd of the same export has it");
	return table ? table->find(table->self, name, expected, ret_bytes, ret_n_bytes, diag) : status;
}

/* Before anybody has looked there can't be bytes of theirs. */
static const struct et_source *beside_source_at(void *self, uint32_t index)
{
	struct ctl_file *file = self;
	pthread_mutex_lock(&file->lock);
	const struct et_external_data *table = file->has_data ? et_platform_data_table(file->data) : NULL;
	pthread_mutex_unlock(&file->lock);
	return table ? table->source_at(table->self, index) : NULL;
}

/* --- what was kept ---------------------------------------------------------------------------------------

 * What is kept is of the program and its data files and no others; so they are looked for when something is asked for.
 * A program without payloads keeps nothing, and never asks. */

/* NULL: nothing is kept of such files, or (with a reason in @diag) a data file cannot be read. */
static const struct et_store *find_store(struct ctl_file *file, struct et_diag *diag)
{
	const struct et_store *store = NULL;
	if (ctl_file_find_data(file, diag) != ET_OK)
		return NULL;
	pthread_mutex_lock(&file->lock);
	/* once there is one it stays: kept_release reads it without the lock */
	if (file->source.store || et_platform_store_bind(file->store, &file->source, et_platform_data_table(file->data),
					  file->path, diag) == ET_OK)
		store = file->source.store;
	pthread_mutex_unlock(&file->lock);
	return store;
}

static enum et_status kept_find(void *self, const char *variant, const uint8_t **ret_bytes, size_t *ret_n_bytes,
	void **ret_handle)
{
	struct et_diag why = { 0 }; /* whoever keeps something hears it */
	const struct et_store *store = find_store(self, &why);
	return store ? store->find(store->self, variant, ret_bytes, ret_n_bytes, ret_handle) : ET_E_NOT_FOUND;
}

/* Only called for an entry that kept_find found, so there is a store. */
static void kept_release(void *self, void *handle)
{
	const struct ctl_file *file = self;
	file->source.store->release(file->source.store->self, handle);
}

static enum et_status kept_keep(void *self, const char *variant, const struct et_store_piece *pieces, size_t n_pieces,
	struct et_diag *diag)
{
	struct et_diag why = { 0 };
	const struct et_store *store = find_store(self, &why);
	if (store)
		return store->keep(store->self, variant, pieces, n_pieces, diag);
	return why.text[0] ? et_fail(diag, ET_E_ACCESS_FAILED, "%s", why.text) : ET_OK;
}

/* --- the file ------------------------------------------------------------------------------------------- */

enum et_status ctl_file_open(struct ctl_file *ret, const char *path, const struct ctl_strings *data,
	struct et_diag *diag)
{
	struct ctl_file file = { 0 };
	struct et_diag why = { 0 };
	enum et_status status;

	et_platform_install_sigbus_guard();
	status = et_platform_source_map(&file.source, path, &why);
	if (status != ET_OK)
		return et_fail(diag, status, "%s", why.text);
	et_pool_init(&file.pool, et_platform_allocator());
	file.path = ctl_format("%s", path);
	file.is_bundle = et_bundle_is(file.source.bytes, file.source.n_bytes);
	if (file.is_bundle) {
		status = et_bundle_open(&file.bundle, file.source.bytes, file.source.n_bytes, &file.pool, &why);
		if (status != ET_OK) {
			ctl_file_close(&file);
			return et_fail(diag, status, "%s: %s", path, why.text);
		}
	}
	file.has_data = data && data->n;
	for (size_t i = 0; file.has_data && i < data->n && status == ET_OK; i++)
		status = add_path(&file, ctl_format("%s", data->items[i]), diag);
	if (status == ET_OK)
		status = open_data(&file, diag);
	if (status != ET_OK) {
		ctl_file_close(&file);
		return status;
	}
	*ret = file;
	pthread_mutex_init(&ret->lock, NULL);
	ret->beside = (struct et_external_data){ .self = ret, .find = beside_find, .source_at = beside_source_at };
	return ET_OK;
}

void ctl_file_close(struct ctl_file *file)
{
	et_program_unref(file->program);
	et_pool_deinit(&file->pool);
	if (file->source.release)
		file->source.release(file->source.owner);
	close_data(file);
	if (file->beside.self)
		pthread_mutex_destroy(&file->lock);
	free(file->path);
	*file = (struct ctl_file){ 0 };
}

enum et_status ctl_file_program(struct ctl_file *file, struct et_platform_store *store, struct et_program **ret_program,
	struct et_diag *diag)
{
	struct et_source borrowed = file->source;
	struct et_diag why = { 0 };
	enum et_status status;
	if (file->program) {
		*ret_program = et_program_ref(file->program);
		return ET_OK;
	}
	const struct et_external_data *data = file->has_data ? et_platform_data_table(file->data) : &file->beside;
	borrowed.release = NULL;
	file->store = store;
	file->kept = (struct et_store){ file, kept_find, kept_release, kept_keep };
	borrowed.store = store ? &file->kept : NULL;
	status = et_program_open(&file->program, &borrowed, data, et_platform_allocator(), &why);
	if (status != ET_OK)
		return et_fail(diag, status, "%s: %s", file->path, why.text[0] ? why.text : et_status_text(status));
	*ret_program = et_program_ref(file->program);
	return ET_OK;
}

const struct et_bundle_suite *ctl_file_suite(const struct ctl_file *file, const char *method)
{
	for (uint32_t i = 0; file->is_bundle && i < file->bundle.n_suites; i++)
		if (!method || strcmp(file->bundle.suites[i].method, method) == 0)
			return &file->bundle.suites[i];
	return NULL;
}

bool ctl_is_path(const char *text)
{
	size_t n = strlen(text);
	return strchr(text, '/') || (n > 4 && strcmp(text + n - 4, ".pte") == 0) ||
	       (n > 5 && strcmp(text + n - 5, ".bpte") == 0);
}
