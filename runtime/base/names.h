/* SPDX-License-Identifier: BSD-3-Clause */
/* Look up things by name in a sorted array. */
#ifndef RUNTIME_BASE_NAMES_H
#define RUNTIME_BASE_NAMES_H

#include <stdint.h>

/* The name of item number @index of a list of the caller's. */
struct et_name {
	const char *text;
	uint32_t index;
};

#define ET_NO_NAME UINT32_MAX

/* Sort by text; equal texts by index. */
void et_names_sort(struct et_name *names, uint32_t n);
/* Return the lowest index with this text in @names, which et_names_sort has sorted; ET_NO_NAME if there is none. */
uint32_t et_names_find(const struct et_name *names, uint32_t n, const char *text);

#endif
