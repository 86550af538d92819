/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: the input is opened as a data file. Each entry is read, and found by its name. */
#include "runtime/program/external_data.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/counting_alloc.h"

#include <stdlib.h>
#include <string.h>

static uint64_t look_at(const struct et_external *external, const struct et_external_entry *entry)
{
	const struct et_external_data *data = et_external_data(external);
	const uint8_t *bytes = NULL;
	size_t n_bytes = 0;
	uint64_t sum = entry->n_bytes ? (uint64_t)entry->bytes[0] + entry->bytes[entry->n_bytes - 1] : 0;
	if (data->find(data->self, entry->name, NULL, &bytes, &n_bytes, NULL) != ET_OK)
		abort();
	if (!entry->is_tensor)
		return sum;
	size_t numel = 0;
	if (!et_sizes_are_addressable(entry->sizes, entry->dim_order, entry->n_dims, &numel) ||
		numel * et_scalar_size(entry->type) > entry->n_bytes)
		abort();
	struct et_tensor_spec spec = { .sizes = entry->sizes,
		.dim_order = entry->dim_order,
		.type = entry->type,
		.n_dims = entry->n_dims,
		.n_bytes = numel * et_scalar_size(entry->type) };
	/* Two entries may have one name, and then the first is found. */
	return sum + data->find(data->self, entry->name, &spec, &bytes, &n_bytes, NULL);
}

static uint64_t try_file(const uint8_t *bytes, size_t n_bytes, size_t fail_at)
{
	struct counting_alloc counting = { .fail_at = fail_at };
	struct et_allocator allocator = counting_allocator(&counting);
	struct et_source source = { .bytes = bytes, .n_bytes = n_bytes };
	struct et_external *external = NULL;
	struct et_diag diag = { 0 };
	uint64_t sum = 0;
	if (et_external_open(&external, &source, NULL, &allocator, &diag) == ET_OK) {
		const struct et_external_entry *entry;
		for (uint32_t i = 0; i < 100 && (entry = et_external_entry_at(external, i)); i++)
			sum += look_at(external, entry);
	} else if (!diag.text[0] || external) {
		abort();
	}
	et_external_free(external);
	if (counting.n_live)
		abort();
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	static volatile uint64_t sink;
	sink += try_file(bytes, n_bytes, 0);
	sink += try_file(bytes, n_bytes, n_bytes ? 1 + bytes[n_bytes - 1] % 8 : 1);
	return 0;
}
