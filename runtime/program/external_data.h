/* SPDX-License-Identifier: BSD-3-Clause */
/* External data: a `.ptd` file with tensors and blobs that a program refers to by name.
 *
 * As with a program, opening checks every offset and decodes the whole file into structs of its own. Afterwards only
 * the data's bytes are read from the file. Immutable; any thread.
 *
 * Source: ExecuTorch extension/flat_tensor/serialize/flat_tensor.fbs (identifier FT01),
 * docs/source/ptd-file-format.md (header FH01). */
#ifndef RUNTIME_PROGRAM_EXTERNAL_DATA_H
#define RUNTIME_PROGRAM_EXTERNAL_DATA_H

#include "runtime/program/program.h"

struct et_external;

/* Open a data file. @source: taken over on success (released by et_external_free), the caller's on failure. @next:
 * the table to ask for names that this file does not have; NULL: none; it must outlive this one.
 * Answers: ET_E_INVALID_EXTERNAL_DATA (not such a file, truncated, corrupt; @diag says what and where),
 * ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_external_open(struct et_external **ret_external, const struct et_source *source,
	const struct et_external_data *next, const struct et_allocator *allocator, struct et_diag *diag);
/* No program that was opened with it may exist any more. NULL is fine; returns NULL. */
struct et_external *et_external_free(struct et_external *external);

/* The table for et_program_open; lives as long as @external. */
const struct et_external_data *et_external_data(const struct et_external *external);

/* One entry, for tools that list the contents. */
struct et_external_entry {
	const char *name;
	const uint8_t *bytes;
	size_t n_bytes;
	bool is_tensor; /* the members below are valid */
	uint8_t type;   /* enum et_scalar_type */
	uint8_t n_dims;
	const int32_t *sizes;
	const uint8_t *dim_order;
};
/* NULL if @index is too large. */
const struct et_external_entry *et_external_entry_at(const struct et_external *external, uint32_t index);

#endif
