/* SPDX-License-Identifier: BSD-3-Clause */
/* Data files (`.ptd`): kept together, reference-counted, and freed with the last program that uses them.
 *
 * A program borrows the table of its external data for as long as it lives. When it ends, it releases only its source.
 * So the program's source is wrapped in one that also holds a reference on the data files.
 *
 * Each data file that is opened searches the files before it for names that it does not have; the table of the last
 * file searches all of them. */
#include "runtime/platform/platform.h"

#include "runtime/base/ref.h"
#include "runtime/program/external_data.h"

#include <stdlib.h>

struct et_platform_data {
	struct et_ref ref;
	uint32_t n;
	size_t n_bytes;
	struct et_external *files[ET_PLATFORM_MAX_DATA];
};

/* A program's source, and the data files that it keeps alive. */
struct bound {
	struct et_source source;
	struct et_platform_data *data;
};

struct et_platform_data *et_platform_data_new(void)
{
	struct et_platform_data *data = calloc(1, sizeof *data);
	if (data)
		et_ref_init(&data->ref);
	return data;
}

struct et_platform_data *et_platform_data_ref(struct et_platform_data *data)
{
	et_ref_get(&data->ref);
	return data;
}

struct et_platform_data *et_platform_data_unref(struct et_platform_data *data)
{
	if (!data || !et_ref_put(&data->ref))
		return NULL;
	while (data->n)
		et_external_free(data->files[--data->n]);
	free(data);
	return NULL;
}

const struct et_external_data *et_platform_data_table(const struct et_platform_data *data)
{
	return data && data->n ? et_external_data(data->files[data->n - 1]) : NULL;
}

size_t et_platform_data_n_bytes(const struct et_platform_data *data)
{
	return data ? data->n_bytes : 0;
}

enum et_status et_platform_data_add(struct et_platform_data *data, const struct et_source *source, const char *name,
	struct et_diag *diag)
{
	struct et_diag why = { "" };
	if (data->n == ET_PLATFORM_MAX_DATA)
		return et_fail(diag, ET_E_NOT_SUPPORTED, "%s: a program can have %d data files", name,
			ET_PLATFORM_MAX_DATA);
	enum et_status status = et_external_open(&data->files[data->n], source, et_platform_data_table(data),
		et_platform_allocator(), &why);
	if (status != ET_OK)
		return et_fail(diag, status, "%s: %s", name, why.text);
	data->n++;
	data->n_bytes += source->n_bytes;
	return ET_OK;
}

static void bound_release(void *owner)
{
	struct bound *bound = owner;
	if (bound->source.release)
		bound->source.release(bound->source.owner);
	et_platform_data_unref(bound->data);
	free(bound);
}

static void bound_drop(void *owner, size_t offset, size_t n)
{
	struct bound *bound = owner;
	bound->source.drop(bound->source.owner, offset, n);
}

enum et_status et_platform_data_bind(struct et_platform_data *data, struct et_source *source, struct et_diag *diag)
{
	struct bound *bound = calloc(1, sizeof *bound);
	if (!bound)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a model file");
	bound->source = *source;
	bound->data = et_platform_data_ref(data);
	source->owner = bound;
	source->release = bound_release;
	source->drop = bound->source.drop ? bound_drop : NULL;
	return ET_OK;
}
