/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers for a client's objects: what it names in its messages.
 *
 * A number holds the object's place and how often the place was used, so that a number that was given back names
 * nothing rather than somebody else's object. 0 is never given. */
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
/* The object's number; 0: no memory. */
uint64_t inf_table_add(struct inf_table *table, void *object);
/* NULL: that number names nothing. */
void *inf_table_find(const struct inf_table *table, uint64_t id);
/* Fine if it names nothing. */
void inf_table_remove(struct inf_table *table, uint64_t id);
/* Go through all: begin with *position 0; NULL at the end. Removing what was returned is fine. */
void *inf_table_next(const struct inf_table *table, uint32_t *position);

#endif
