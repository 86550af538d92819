/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of the engine: their files, and sharing them among models.
 *
 * The bytes of a payload live only as long as its model, but a program is shared by the models of its methods, and any
 * of them may go first. So a program maps its files once more: mremap with an old size of 0 makes a second mapping of
 * shared pages and needs no descriptor. Bytes that do not lie in shared pages are copied (only tests have such). */
#include "delegates/program/engine_internal.h"

#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- files ------------------------------------------------------------------------------------------------------ */

struct file {
	uint8_t *bytes;
	size_t n_mapped;
};

static void file_release(void *owner)
{
	struct file *file = owner;
	munmap(file->bytes, file->n_mapped);
	free(file);
}

/* Whether the pages at @bytes can be mapped a second time. */
static bool is_shared(const uint8_t *bytes, size_t page)
{
	if ((uintptr_t)bytes % page)
		return false;
	void *second = mremap((void *)(uintptr_t)bytes, 0, page, MREMAP_MAYMOVE);
	if (second == MAP_FAILED)
		return false;
	munmap(second, page);
	return true;
}

/* Make a source of [@bytes, @bytes + @n_bytes) that stays readable when these bytes go. */
static enum et_status own(struct et_source *ret_source, const uint8_t *bytes, uint64_t n_bytes, struct et_diag *diag)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n_pages, n_mapped;
	struct file *file = malloc(sizeof *file);
	uint8_t *own_bytes = MAP_FAILED;
	if (file && n_bytes <= SIZE_MAX / 2 && et_align_up((size_t)n_bytes, page, &n_pages) &&
		et_add(n_pages, page, &n_mapped))
		own_bytes = mmap(NULL, n_mapped, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool is_made = own_bytes != MAP_FAILED;
	if (is_made && n_bytes && is_shared(bytes, page)) {
		is_made = mremap((void *)(uintptr_t)bytes, 0, n_pages, MREMAP_MAYMOVE | MREMAP_FIXED, own_bytes) !=
			  MAP_FAILED;
	} else if (is_made && n_bytes) {
		is_made = mprotect(own_bytes, n_pages, PROT_READ | PROT_WRITE) == 0;
		if (is_made)
			memcpy(own_bytes, bytes, (size_t)n_bytes);
	}
	if (!is_made) {
		if (own_bytes != MAP_FAILED)
			munmap(own_bytes, n_mapped);
		free(file);
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory to map %llu bytes of a program",
			(unsigned long long)n_bytes);
	}
	*file = (struct file){ own_bytes, n_mapped };
	*ret_source = (struct et_source){
		.bytes = own_bytes,
		.n_bytes = (size_t)n_bytes,
		.owner = file,
		.release = file_release,
	};
	return ET_OK;
}

/* Ask for data file number @number. ET_E_NOT_FOUND: there is none. */
static enum et_status fetch(const struct inferd_delegate_payload *payload, uint32_t number,
	struct et_source *ret_source, struct et_diag *diag)
{
	const uint8_t *bytes = NULL;
	uint64_t n_bytes = 0;
	char key[12];
	if (!payload->named_data)
		return ET_E_NOT_FOUND;
	snprintf(key, sizeof key, "%u", number);
	int result = payload->named_data(payload->self, key, &bytes, &n_bytes);
	if (result == INFERD_DELEGATE_E_NOT_FOUND)
		return ET_E_NOT_FOUND;
	if (result)
		return et_fail(diag,
			result == INFERD_DELEGATE_E_MEMORY ? ET_E_MEMORY_ALLOCATION_FAILED : ET_E_ACCESS_FAILED,
			"data file %u can't be mapped", number);
	return own(ret_source, bytes, n_bytes, diag);
}

/* Open the data files. The file added last is searched first, so they are added from the last to the first. */
static enum et_status open_data(const struct inferd_delegate_payload *payload, struct et_platform_data *data,
	struct et_diag *diag)
{
	struct et_source sources[ET_PLATFORM_MAX_DATA + 1];
	uint32_t n = 0;
	enum et_status status = ET_OK;
	while (n <= ET_PLATFORM_MAX_DATA && status == ET_OK) {
		status = fetch(payload, n, &sources[n], diag);
		n += status == ET_OK;
	}
	if (status == ET_OK)
		status = et_fail(diag, ET_E_NOT_SUPPORTED, "a program can have %d data files", ET_PLATFORM_MAX_DATA);
	else if (status == ET_E_NOT_FOUND)
		status = ET_OK;
	while (n--) {
		char name[24];
		snprintf(name, sizeof name, "data file %u", n + 1);
		bool is_taken = status == ET_OK;
		if (is_taken)
			status = et_platform_data_add(data, &sources[n], name, diag);
		if (!is_taken || status != ET_OK)
			sources[n].release(sources[n].owner);
	}
	return status;
}

/* --- programs --------------------------------------------------------------------------------------------------- */

enum et_status et_engine_open_program(const struct inferd_delegate_payload *payload, struct et_program **ret_program,
	struct et_diag *diag)
{
	struct et_source source;
	struct et_platform_data *data = et_platform_data_new();
	if (!data)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a program");
	enum et_status status = open_data(payload, data, diag);
	if (status == ET_OK)
		status = own(&source, payload->bytes, payload->n_bytes, diag);
	if (status != ET_OK) {
		et_platform_data_unref(data);
		return status;
	}
	status = et_platform_data_bind(data, &source, diag);
	if (status == ET_OK)
		status = et_program_open(ret_program, &source, et_platform_data_table(data), et_platform_allocator(),
			diag);
	if (status != ET_OK)
		source.release(source.owner);
	et_platform_data_unref(data);
	return status;
}

/* Called under the lock. */
static struct program *find(struct engine *engine, uint64_t number)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &engine->programs) {
		struct program *program = ET_CONTAINER_OF(node, struct program, node);
		if (program->number == number)
			return program;
	}
	return NULL;
}

enum et_status et_engine_program_get(struct engine *engine, const struct inferd_delegate_payload *payload,
	struct program **ret_program, struct et_diag *diag)
{
	enum et_status status = ET_OK;
	pthread_mutex_lock(&engine->programs_lock);
	struct program *program = payload->program ? find(engine, payload->program) : NULL;
	if (!program) {
		program = calloc(1, sizeof *program);
		status = program ? et_engine_open_program(payload, &program->program, diag)
				 : et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a program");
		if (status == ET_OK) {
			program->number = payload->program;
			et_list_append(&engine->programs, &program->node);
		} else {
			free(program);
			program = NULL;
		}
	}
	if (program)
		program->n_users++;
	pthread_mutex_unlock(&engine->programs_lock);
	*ret_program = program;
	return status;
}

void et_engine_program_put(struct engine *engine, struct program *program)
{
	pthread_mutex_lock(&engine->programs_lock);
	bool is_last = --program->n_users == 0;
	if (is_last)
		et_list_remove(&program->node);
	pthread_mutex_unlock(&engine->programs_lock);
	if (!is_last)
		return;
	et_program_unref(program->program);
	free(program);
}
