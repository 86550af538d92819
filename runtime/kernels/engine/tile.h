/* SPDX-License-Identifier: BSD-3-Clause */
/* Tiles: some rows of a few elements each, as one block of numbers to compute with.
 *
 * If operands are broadcast over each other, the runs that all of them share are short. A span function is then called
 * for many rows at once; operands that repeat along rows or down columns get a block of their own. */
#ifndef RUNTIME_KERNELS_ENGINE_TILE_H
#define RUNTIME_KERNELS_ENGINE_TILE_H

#include "runtime/kernels/engine/dtype.h"

enum { ET_TILE_SLACK = 16 }; /* bytes behind a loaded tile that may be overwritten too */

/* Strides in elements of a tensor; 0 repeats. */
struct et_tile {
	size_t n_rows, n_columns;
	ptrdiff_t row, step;
};

/* Whether the step from row to row continues the step within a row, so that the tile is one run. */
static inline bool et_tile_is_run(const struct et_tile *tile)
{
	return tile->n_rows == 1 || tile->row == tile->step * (ptrdiff_t)tile->n_columns;
}

/* Load the tile at @from, of elements of @element_bytes each, row after row into @block. @load converts; the results
 * have class_bytes each. */
void et_tile_load(void *block, const uint8_t *from, const struct et_tile *tile, et_load_fn load, size_t class_bytes,
	size_t element_bytes);
/* Store it back. */
void et_tile_store(uint8_t *to, const void *block, const struct et_tile *tile, et_store_fn store, size_t class_bytes,
	size_t element_bytes);

#endif
