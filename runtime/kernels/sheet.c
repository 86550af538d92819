/* How a sheet is put into a block and out of it: at once where its elements go on from row to row, and else what repeats is
 * read once. Nothing here looks at sizes: a sheet fits its block, with room for the slack behind it. */
#include "runtime/kernels/sheet.h"

enum { AT_ONCE = 64 }; /* rows */

/* Each of @n_rows numbers @n_columns times, by vectors: what the last one of a row writes too much the next row writes anew. */
#define SPREAD(type)                                                                       \
	do {                                                                               \
		typedef type vector __attribute__((vector_size(ET_SHEET_SLACK)));          \
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

/* A number for each row. */
static void load_column(uint8_t *block, const uint8_t *from, const struct et_sheet *sheet, et_load_fn load,
	size_t class_bytes, size_t element_bytes)
{
	uint64_t numbers[AT_ONCE];
	for (size_t r = 0, part; r < sheet->n_rows; r += part) {
		part = sheet->n_rows - r < AT_ONCE ? sheet->n_rows - r : AT_ONCE;
		load(numbers, from + (ptrdiff_t)r * sheet->row * (ptrdiff_t)element_bytes, sheet->row, part);
		spread(block + r * sheet->n_columns * class_bytes, numbers, part, sheet->n_columns,
			class_bytes);
	}
}

void et_sheet_load(void *block, const uint8_t *from, const struct et_sheet *sheet, et_load_fn load,
	size_t class_bytes, size_t element_bytes)
{
	uint8_t *to = block;
	const size_t n = sheet->n_rows * sheet->n_columns, row_bytes = sheet->n_columns * class_bytes;
	if (et_sheet_is_run(sheet)) {
		load(to, from, sheet->step, n);
		return;
	}
	if (sheet->step == 0) {
		load_column(to, from, sheet, load, class_bytes, element_bytes);
		return;
	}
	if (sheet->row == 0) { /* what is there already, again behind it */
		const size_t n_bytes = n * class_bytes;
		load(to, from, sheet->step, sheet->n_columns);
		for (size_t done = row_bytes, part; done < n_bytes; done += part) {
			part = done < n_bytes - done ? done : n_bytes - done;
			memcpy(to + done, to, part);
		}
		return;
	}
	for (size_t r = 0; r < sheet->n_rows; r++)
		load(to + r * row_bytes, from + (ptrdiff_t)r * sheet->row * (ptrdiff_t)element_bytes,
			sheet->step, sheet->n_columns);
}

void et_sheet_store(uint8_t *to, const void *block, const struct et_sheet *sheet, et_store_fn store,
	size_t class_bytes, size_t element_bytes)
{
	const uint8_t *from = block;
	if (et_sheet_is_run(sheet)) {
		store(to, sheet->step, from, sheet->n_rows * sheet->n_columns);
		return;
	}
	for (size_t r = 0; r < sheet->n_rows; r++)
		store(to + (ptrdiff_t)r * sheet->row * (ptrdiff_t)element_bytes, sheet->step,
			from + r * sheet->n_columns * class_bytes, sheet->n_columns);
}
