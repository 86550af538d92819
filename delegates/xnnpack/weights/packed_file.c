/* SPDX-License-Identifier: BSD-3-Clause */
/* Checking a file of packed weights, and finding blocks in it.
 *
 * The store vouches that the bytes are those that inferd wrote; still every offset is checked before it becomes an
 * address. The one thing that cannot be checked is whether XNNPACK wants more bytes than a row has. So the name in
 * the row holds everything that decides that, and is compared whole. */
#include "delegates/xnnpack/weights/packed_file.h"

#include "runtime/base/checked.h"

#include <assert.h>
#include <string.h>

enum { MAGIC = 0x314b5058 /* "XPK1" */, VERSION = 3, ALIGNMENT = 64 };

static_assert(sizeof(struct et_xnn_signature) == 8 + 4 * ET_XNN_N_NUMBERS + 12 + 4 * 80, "no padding");
static_assert(sizeof(struct et_xnn_row) == 32 + sizeof(struct et_xnn_signature), "no padding");

void et_xnn_packed_mark(struct et_xnn_packed_header *header)
{
	header->magic = MAGIC;
	header->version = VERSION;
}

bool et_xnn_packed_open(struct et_xnn_packed *ret_packed, const uint8_t *bytes, size_t n_bytes)
{
	struct et_xnn_packed_header header;
	size_t n_rows, n_models, n_tables;
	if (n_bytes < sizeof(header) || (uintptr_t)bytes % ALIGNMENT != 0)
		return false;
	memcpy(&header, bytes, sizeof(header));
	if (header.magic != MAGIC || header.version != VERSION ||
		!et_mul(header.n_rows, sizeof(struct et_xnn_row), &n_rows) ||
		!et_mul(header.n_models, sizeof(struct et_xnn_model_row), &n_models) ||
		!et_add(n_rows, n_models, &n_tables) || !et_in_range(sizeof(header), n_tables, n_bytes))
		return false;
	struct et_xnn_packed packed = {
		.bytes = bytes,
		.n_bytes = n_bytes,
		.rows = (const struct et_xnn_row *)(bytes + sizeof(header)),
		.n_rows = header.n_rows,
		.models = (const struct et_xnn_model_row *)(bytes + sizeof(header) + n_rows),
		.n_models = header.n_models,
	};
	for (uint32_t i = 0; i < packed.n_rows; i++) {
		const struct et_xnn_row *row = &packed.rows[i];
		if (row->offset % ALIGNMENT != 0 || row->offset < sizeof(header) + n_tables ||
			!et_in_range(row->offset, row->n_bytes, n_bytes))
			return false;
	}
	*ret_packed = packed;
	return true;
}

uint32_t et_xnn_packed_find(const struct et_xnn_packed *packed, const struct et_xnn_name *name, uint32_t from)
{
	for (uint32_t i = 0; i < packed->n_rows; i++) {
		uint32_t at = (from + i) % packed->n_rows;
		if (packed->rows[at].name.position == name->position &&
			memcmp(&packed->rows[at].name, name, sizeof(*name)) == 0)
			return at;
	}
	return packed->n_rows;
}
