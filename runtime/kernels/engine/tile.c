/* SPDX-License-Identifier: BSD-3-Clause */
/* How a tile is loaded into a block and stored back: in one call if it is one run; otherwise each repeated element is
 * read once. Sizes are not checked here: a tile fits its block, with room for ET_TILE_SLACK behind it. */
#include "runtime/kernels/engine/tile.h"

enum { AT_ONCE = 64 }; /* rows */

/* Each of @n_rows numbers @n_columns times, in whole vectors: the next row overwrites the excess of the one before. */
#define SPREAD(type)                                                                       \
	do {                                                                               \
		typedef type vector __attribute__((vector_size(ET_TILE_SLACK)));           \
		type *row = block;                                                         \
		for (size_t r = 0; r < n_rows; r++, row += n_columns) {                    \
			const vector one = (vector){ 0 } + ((const type *)numbers)[r];     \
			for (size_t i = 0; i < n_columns; i += sizeof(one) / sizeof(type)) \
				memcpy(row + i, &one, sizeof(one));                        \
		}                                                                          \
	} while (0)

static void spread(void *block, const void *numbers, size_t n_rows, size_t n_columns, size_t class_bytes)
{
	if (class_bytes == 1)
		SPREAD(uint8_t);
	else if (class_bytes == 2)
		SPREAD(uint16_t);
	else if (class_bytes == 4)
		SPREAD(uint32_t);
	else
		SPREAD(uint64_t);
}

/* A tile with one number for each row. */
static void load_column(uint8_t *block, const uint8_t *from, const struct et_tile *tile, et_load_fn load,
	size_t class_bytes, size_t element_bytes)
{
	uint64_t numbers[AT_ONCE];
	for (size_t r = 0, part; r < tile->n_rows; r += part) {
		part = tile->n_rows - r < AT_ONCE ? tile->n_rows - r : AT_ONCE;
		load(numbers, from + (ptrdiff_t)r * tile->row * (ptrdiff_t)element_bytes, tile->row, part);
		spread(block + r * tile->n_columns * class_bytes, numbers, part, tile->n_columns, class_bytes);
	}
}

void et_tile_load(void *block, const uint8_t *from, const struct et_tile *tile, et_load_fn load, size_t class_bytes,
	size_t element_bytes)
{
	uint8_t *to = block;
	const size_t n = tile->n_rows * tile->n_columns, row_bytes = tile->n_columns * class_bytes;
	if (et_tile_is_run(tile)) {
		load(to, from, tile->step, n);
		return;
	}
	if (tile->step == 0) {
		load_column(to, from, tile, load, class_bytes, element_bytes);
		return;
	}
	if (tile->row == 0) { /* repeat the row that was just loaded */
		const size_t n_bytes = n * class_bytes;
		load(to, from, tile->step, tile->n_columns);
		for (size_t done = row_bytes, part; done < n_bytes; done += part) {
			part = done < n_bytes - done ? done : n_bytes - done;
			memcpy(to + done, to, part);
		}
		return;
	}
	for (size_t r = 0; r < tile->n_rows; r++)
		load(to + r * row_bytes, from + (ptrdiff_t)r * tile->row * (ptrdiff_t)element_bytes, tile->step,
			tile->n_columns);
}

void et_tile_store(uint8_t *to, const void *block, const struct et_tile *tile, et_store_fn store, size_t class_bytes,
	size_t element_bytes)
{
	const uint8_t *from = block;
	if (et_tile_is_run(tile)) {
		store(to, tile->step, from, tile->n_rows * tile->n_columns);
		return;
	}
	for (size_t r = 0; r < tile->n_rows; r++)
		store(to + (ptrdiff_t)r * tile->row * (ptrdiff_t)element_bytes, tile->step,
			from + r * tile->n_columns * class_bytes, tile->n_columns);
}
