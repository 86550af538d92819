/* SPDX-License-Identifier: BSD-3-Clause */
/* Sheets: rows of a few elements each, as a block of numbers to compute with.
 *
 * Where operands are broadcast over each other the runs that all of them share are short. A span function is then called
 * for many of these at once, and what repeats along rows or down columns is put into a block by itself. */
#ifndef RUNTIME_KERNELS_ENGINE_TILE_H
#define RUNTIME_KERNELS_ENGINE_TILE_H

#include "runtime/kernels/engine/dtype.h"

enum { ET_TILE_SLACK = 16 }; /* bytes behind a loaded sheet that are written, too */

/* In elements of a tensor; 0 repeats. */
struct et_tile {
	size_t n_rows, n_columns;
	ptrdiff_t row, step;
};

/* Whether its elements go on from row to row as they do along one. */
static inline bool et_tile_is_run(const struct et_tile *tile)
{
	return tile->n_rows == 1 || tile->row == tile->step * (ptrdiff_t)tile->n_columns;
}

/* The sheet at @from, of elements of @element_bytes each, row after row to @block, as @load makes them; class_bytes each. */
void et_tile_load(void *block, const uint8_t *from, const struct et_tile *tile, et_load_fn load, size_t class_bytes,
	size_t element_bytes);
/* And back. */
void et_tile_store(uint8_t *to, const void *block, const struct et_tile *tile, et_store_fn store, size_t class_bytes,
	size_t element_bytes);

#endif
