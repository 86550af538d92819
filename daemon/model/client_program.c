/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that clients bring.
 *
 * The daemon does not read such a program. It copies the files, so that nobody can change them any more, and has the
 * process of that user (inferd-program-host) describe them. The description is a small program, the stand-in, with the
 * same methods, inputs and outputs, in which each method is one delegate call. The daemon opens the stand-in and uses
 * it like any other program. The delegate call runs the client's method in that process. */
#include "daemon/model/variant.h"

#include "daemon/base/text.h"
#include "delegates/plugin/proxy/plugin.h"
#include "delegates/program/stand_in.h"
#include "runtime/platform/platform.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The owner of a stand-in's source. */
struct client_program {
	struct et_client_files files;
	uint8_t bytes[];
};

static_assert((int)ET_STAND_IN_MAX_BYTES <= (int)ET_PLUGIN_MAX_DESCRIPTION, "a stand-in is a description");

static void client_program_free(void *owner)
{
	struct client_program *program = owner;
	for (uint32_t i = 0; i < program->files.n; i++)
		close(program->files.items[i].fd);
	free(program);
}

static enum et_status add_copy(struct et_client_files *files, int fd, uint64_t n_bytes, const char *name,
	const struct inf_inspect_options *o, struct et_diag *diag)
{
	uint64_t n_before = 0;
	for (uint32_t i = 0; i < files->n; i++)
		n_before += files->items[i].n_bytes;
	const struct et_platform_copy_limits limits = inf_copy_limits(o, n_before);
	enum et_status status = et_platform_copy(&files->items[files->n].fd, fd, (size_t)n_bytes, name, o->cache_dir,
		&limits, diag);
	if (status == ET_OK)
		files->items[files->n++].n_bytes = n_bytes;
	return status;
}

static enum et_status copy_files(struct et_client_files *files, const struct inf_variant *v,
	const struct inf_variants *variants, const struct inf_inspect_options *o, struct et_diag *diag)
{
	char name[40];
	enum et_status status = add_copy(files, v->fd, v->id.n_bytes, v->path, o, diag);
	for (uint32_t i = 0; i < variants->data_ids.n && status == ET_OK; i++) {
		inf_text(name, sizeof(name), "data file %u", i + 1);
		status = add_copy(files, variants->data[i].fd, variants->data_ids.items[i].n_bytes, name, o, diag);
	}
	return status;
}

static const struct et_backend_entry *find_programs(const struct et_registry *registry)
{
	for (size_t i = 0; i < registry->n_backends; i++)
		if (registry->backends[i].ops->runs_programs)
			return &registry->backends[i];
	return NULL;
}

void inf_client_program_limit(const struct et_registry *registry, uint64_t tenant, uint64_t n_bytes)
{
	const struct et_backend_entry *programs = find_programs(registry);
	if (programs)
		et_plugin_limit_tenant(programs->backend, tenant, n_bytes);
}

/* Open the @n_bytes of @program as the stand-in that they are said to be. Takes @program over. */
static enum et_status open_stand_in(struct inf_variant *v, struct client_program *program, size_t n_bytes,
	uint64_t tenant, struct et_diag *diag)
{
	const struct et_source source = {
		.bytes = program->bytes,
		.n_bytes = n_bytes,
		.owner = program,
		.release = client_program_free,
		.tenant = tenant,
		.client_files = &program->files,
	};
	struct et_diag cause = { "" };
	enum et_status status = et_program_open(&v->program, &source, NULL, et_platform_allocator(), &cause);
	if (status != ET_OK) {
		v->program = NULL;
		client_program_free(program);
	} else if (!et_stand_in_check(v->program)) {
		v->program = et_program_unref(v->program);
		status = ET_E_INVALID_PROGRAM;
	}
	if (status == ET_E_MEMORY_ALLOCATION_FAILED || status == ET_OK)
		return status;
	return et_fail(diag, ET_E_INTERNAL, "the process that read the program described it wrongly%s%.200s",
		cause.text[0] ? ": " : "", cause.text);
}

static enum et_status crashed(struct et_diag *diag)
{
	const struct et_diag cause = *diag;
	diag->text[0] = '\0';
	return et_fail(diag, ET_E_BACKEND_CRASHED, "the process that reads this user's programs crashed: %.200s",
		cause.text);
}

enum et_status inf_client_program_open(struct inf_variant *v, const struct inf_variants *variants,
	const struct inf_inspect_options *o, struct et_diag *diag)
{
	const struct et_backend_entry *programs = find_programs(o->registry);
	size_t n_bytes = 0;
	if (!programs)
		return et_fail(diag, ET_E_NOT_SUPPORTED,
			"this daemon runs no programs that clients bring along; 'inferctl status' says why");
	struct client_program *program = calloc(1, sizeof(*program) + ET_PLUGIN_MAX_DESCRIPTION), *smaller;
	if (!program)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "out of memory");
	enum et_status status = copy_files(&program->files, v, variants, o, diag);
	const struct et_plugin_room memory = { o->process_memory, o->user_memory };
	if (status == ET_OK)
		status = et_plugin_describe(programs->backend, o->tenant, &memory, &program->files, program->bytes,
			&n_bytes, diag);
	if (status != ET_OK) {
		client_program_free(program);
		return status == ET_E_BACKEND_CRASHED ? crashed(diag) : status;
	}
	smaller = realloc(program, sizeof(*program) + n_bytes + ET_SOURCE_PADDING);
	if (!smaller) {
		client_program_free(program);
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "out of memory");
	}
	memset(smaller->bytes + n_bytes, 0, ET_SOURCE_PADDING);
	return open_stand_in(v, smaller, n_bytes, o->tenant, diag);
}
