/* Model files as the subcommands see them.
 *
 * The bytes are those of the file, mapped where it lies: a tool's user knows better than to rewrite a model that is being
 * judged, and if it happens, numbers change and nothing else. The bundle's tensors and the program's constants point
 * into it, which is why the file is closed last. The same goes for data files. */
#include "clients/inferctl/file.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* --- data files ---------------------------------------------------------------------------------------- */

static enum et_status add_path(struct ctl_file *file, char *path, struct et_diag *diag)
{
	if (file->n_data == ET_HOST_MAX_DATA) {
		et_fail(diag, ET_E_NOT_SUPPORTED, "%s: a program can have %d data files", path,
			ET_HOST_MAX_DATA);
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

/* Length of @path without its folder's and its ending's part; *ret_name is where that begins. */
static size_t stem(const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
	*ret_name = name;
	return dot ? (size_t)(dot - name) : strlen(name);
}

/* A folder that cannot be read has none. */
static enum et_status find_beside(struct ctl_file *file, struct et_diag *diag)
{
	const char *name, *other;
	size_t n_stem = stem(file->path, &name);
	int n_folder = (int)(name - file->path);
	char *folder = n_folder ? ctl_format("%.*s", n_folder, file->path) : ctl_format("./");
	struct dirent **entries = NULL;
	int n = scandir(folder, &entries, is_data, alphasort);
	enum et_status status = ET_OK;
	/* twice over them: what has the program's own name comes first */
	for (int own = 1; own >= 0; own--)
		for (int i = 0; i < n && status == ET_OK; i++)
			if (own == (stem(entries[i]->d_name, &other) == n_stem &&
					   strncmp(other, name, n_stem) == 0))
				status = add_path(file,
					ctl_format("%.*s%s", n_folder, file->path, entries[i]->d_name), diag);
	for (int i = 0; i < n; i++)
		free(entries[i]);
	free(entries);
	free(folder);
	return status;
}

static enum et_status open_data(struct ctl_file *file, const struct ctl_strings *given, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	if (!given || !given->n)
		status = find_beside(file, diag);
	for (size_t i = 0; given && i < given->n && status == ET_OK; i++)
		status = add_path(file, ctl_format("%s", given->items[i]), diag);
	if (status != ET_OK || !file->n_data)
		return status;
	file->data = et_host_data_new();
	if (!file->data)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "%s: out of memory", file->path);
	for (size_t i = file->n_data; i-- > 0 && status == ET_OK;) {
		struct et_source source;
		status = et_host_source_map(&source, file->data_paths[i], diag);
		if (status != ET_OK)
			break;
		status = et_host_data_add(file->data, &source, file->data_paths[i], diag);
		if (status != ET_OK)
			source.release(source.owner);
	}
	return status;
}

/* --- the file ------------------------------------------------------------------------------------------- */

enum et_status ctl_file_open(
	struct ctl_file *ret, const char *path, const struct ctl_strings *data, struct et_diag *diag)
{
	struct ctl_file file = { 0 };
	struct et_diag why = { 0 };
	enum et_status status;

	et_host_install_sigbus_guard();
	status = et_host_source_map(&file.source, path, &why);
	if (status != ET_OK)
		return et_fail(diag, status, "%s", why.text);
	et_pool_init(&file.pool, et_host_allocator());
	file.path = ctl_format("%s", path);
	file.is_bundle = et_bundle_is(file.source.bytes, file.source.n_bytes);
	if (file.is_bundle) {
		status = et_bundle_open(
			&file.bundle, file.source.bytes, file.source.n_bytes, &file.pool, &why);
		if (status != ET_OK) {
			ctl_file_close(&file);
			return et_fail(diag, status, "%s: %s", path, why.text);
		}
	}
	status = open_data(&file, data, diag);
	if (status != ET_OK) {
		ctl_file_close(&file);
		return status;
	}
	*ret = file;
	return ET_OK;
}

void ctl_file_close(struct ctl_file *file)
{
	et_program_unref(file->program);
	et_pool_deinit(&file->pool);
	if (file->source.release)
		file->source.release(file->source.owner);
	et_host_data_unref(file->data);
	for (size_t i = 0; i < file->n_data; i++)
		free(file->data_paths[i]);
	free(file->path);
	*file = (struct ctl_file){ 0 };
}

enum et_status ctl_file_program(struct ctl_file *file, struct et_host_store *store,
	struct et_program **ret_program, struct et_diag *diag)
{
	struct et_source borrowed = file->source;
	struct et_diag why = { 0 };
	enum et_status status = ET_OK;
	if (file->program) {
		*ret_program = et_program_ref(file->program);
		return ET_OK;
	}
	if (store)
		status = et_host_store_bind(
			store, &borrowed, et_host_data_table(file->data), file->path, &why);
	borrowed.release = NULL;
	if (status == ET_OK)
		status = et_program_open(
			&file->program, &borrowed, et_host_data_table(file->data), et_host_allocator(), &why);
	if (status != ET_OK)
		return et_fail(
			diag, status, "%s: %s", file->path, why.text[0] ? why.text : et_status_text(status));
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
