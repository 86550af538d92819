/* SPDX-License-Identifier: BSD-3-Clause */
/* Layout: how a file describes a tensor: type, sizes, dim order.
 *
 * Programs, bundled programs and external data store the same three fields, in tables of their own. */
#ifndef RUNTIME_PROGRAM_LAYOUT_H
#define RUNTIME_PROGRAM_LAYOUT_H

#include "runtime/base/alloc.h"
#include "runtime/program/flatbuffer.h"

struct et_layout {
	uint8_t type, n_dims;
	const int32_t *sizes; /* in the pool */
	const uint8_t *dim_order;
	size_t n_bytes; /* size of all elements, dense */
};

/* The numbers of the fields in a table. */
struct et_layout_fields {
	uint32_t type, sizes, dim_order;
};

/* Read and check the fields: a known type, a dim order that is a permutation, sizes whose product is in range.
 * False: @fb has failed with @status and a sentence, or with ET_E_MEMORY_ALLOCATION_FAILED. */
bool et_layout_read(struct et_fb *fb, struct et_fb_table table, const struct et_layout_fields *fields,
	enum et_status status, struct et_pool *pool, struct et_layout *ret);

#endif
