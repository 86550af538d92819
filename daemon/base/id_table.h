/* SPDX-License-Identifier: BSD-3-Clause */
/* Id table: ids for the objects that a client names in its messages.
 *
 * An id holds the object's place and how often that place was used, so that the id of a removed object finds
 * nothing rather than another object. No object has id 0. */
#ifndef DAEMON_BASE_ID_TABLE_H
#define DAEMON_BASE_ID_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct inf_table {
	struct inf_table_place {
		void *object; /* NULL: free */
		uint32_t n_uses;
		uint32_t next_free; /* place + 1; 0: none */
	} *places;
	uint32_t n_places, first_free, n_used;
};

/* All zeros is an empty table. */
void inf_table_deinit(struct inf_table *table);
/* The new object's id; 0: no memory. */
uint64_t inf_table_add(struct inf_table *table, void *object);
/* NULL: no object has that id. */
void *inf_table_find(const struct inf_table *table, uint64_t id);
/* Fine if no object has that id. */
void inf_table_remove(struct inf_table *table, uint64_t id);
/* Iterate over all objects: begin with *position 0; NULL at the end. Removing the returned object is fine. */
void *inf_table_next(const struct inf_table *table, uint32_t *position);

#endif
