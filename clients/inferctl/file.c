/* Model files as the subcommands see them.
 *
 * The bytes are a private copy (runtime/host), so that a file rewritten meanwhile cannot change what is being
 * judged; the bundle's tensors and the program's constants point into it, which is why the file is closed last. */
#include "clients/inferctl/file.h"

#include "runtime/host/host.h"

#include <stdlib.h>
#include <string.h>

enum et_status ctl_file_open(struct ctl_file *ret, const char *path, struct et_diag *diag)
{
	struct ctl_file file = { 0 };
	struct et_diag why = { 0 };
	enum et_status status;

	status = et_host_source_open(&file.source, path, NULL, &why);
	if (status != ET_OK)
		return et_fail(diag, status, "%s", why.text);
	et_pool_init(&file.pool, et_host_allocator());
	file.is_bundle = et_bundle_is(file.source.bytes, file.source.n_bytes);
	if (file.is_bundle) {
		status = et_bundle_open(
			&file.bundle, file.source.bytes, file.source.n_bytes, &file.pool, &why);
		if (status != ET_OK) {
			ctl_file_close(&file);
			return et_fail(diag, status, "%s: %s", path, why.text);
		}
	}
	file.path = strdup(path);
	if (!file.path) {
		ctl_file_close(&file);
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "%s: out of memory", path);
	}
	*ret = file;
	return ET_OK;
}

void ctl_file_close(struct ctl_file *file)
{
	et_pool_deinit(&file->pool);
	if (file->source.release)
		file->source.release(file->source.owner);
	free(file->path);
	*file = (struct ctl_file){ 0 };
}

enum et_status ctl_file_program(
	const struct ctl_file *file, struct et_program **ret_program, struct et_diag *diag)
{
	struct et_source borrowed = file->source;
	struct et_diag why = { 0 };
	enum et_status status;
	borrowed.release = NULL;
	status = et_program_open(ret_program, &borrowed, NULL, et_host_allocator(), &why);
	if (status != ET_OK)
		return et_fail(
			diag, status, "%s: %s", file->path, why.text[0] ? why.text : et_status_text(status));
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
