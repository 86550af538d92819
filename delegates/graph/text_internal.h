/* SPDX-License-Identifier: BSD-3-Clause */
/* What the printer and the parser of texts share: names of types, and numbers of constants. */
#ifndef DELEGATES_GRAPH_TEXT_INTERNAL_H
#define DELEGATES_GRAPH_TEXT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct et_graph_type_name {
	uint8_t type; /* enum et_scalar_type */
	char name[7];
};
extern const struct et_graph_type_name et_graph_type_names[];
extern const size_t et_graph_n_type_names;

/* Element @index of row-major @data as a number; false if texts have no numbers of that type: halves, and 64-bit
 * integers that a double does not hold. */
bool et_graph_load(const uint8_t *data, uint8_t type, size_t index, double *ret_number);
/* The inverse; false as well if @number is none of the type's. */
bool et_graph_store(uint8_t *data, uint8_t type, size_t index, double number);

#endif
