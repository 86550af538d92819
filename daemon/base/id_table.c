/* SPDX-License-Identifier: BSD-3-Clause */
/* A growing array of places; the free places form a list through it. The id of an object is (uses of its place << 32) +
 * index of the place + 1. */
#include "daemon/base/id_table.h"

#include <stdlib.h>
#include <string.h>

void inf_table_deinit(struct inf_table *table)
{
	free(table->places);
	memset(table, 0, sizeof(*table));
}

uint64_t inf_table_add(struct inf_table *table, void *object)
{
	if (!table->first_free) {
		uint32_t n = table->n_places ? table->n_places * 2 : 8;
		struct inf_table_place *bigger = n < UINT32_MAX / 4 ? reallocarray(table->places, n, sizeof(*bigger))
								    : NULL;
		if (!bigger)
			return 0;
		table->places = bigger;
		for (uint32_t i = n; i-- > table->n_places;) {
			bigger[i] = (struct inf_table_place){ .next_free = table->first_free };
			table->first_free = i + 1;
		}
		table->n_places = n;
	}
	uint32_t i = table->first_free - 1;
	struct inf_table_place *place = &table->places[i];
	table->first_free = place->next_free;
	place->object = object;
	table->n_used++;
	return ((uint64_t)place->n_uses << 32) + i + 1;
}

static struct inf_table_place *place_of(const struct inf_table *table, uint64_t id)
{
	uint32_t i = (uint32_t)id - 1;
	if (!(uint32_t)id || i >= table->n_places || !table->places[i].object || table->places[i].n_uses != id >> 32)
		return NULL;
	return &table->places[i];
}

void *inf_table_find(const struct inf_table *table, uint64_t id)
{
	struct inf_table_place *place = place_of(table, id);
	return place ? place->object : NULL;
}

void inf_table_remove(struct inf_table *table, uint64_t id)
{
	struct inf_table_place *place = place_of(table, id);
	if (!place)
		return;
	place->object = NULL;
	place->n_uses++;
	place->next_free = table->first_free;
	table->first_free = (uint32_t)id;
	table->n_used--;
}

void *inf_table_next(const struct inf_table *table, uint32_t *position)
{
	while (*position < table->n_places) {
		void *object = table->places[(*position)++].object;
		if (object)
			return object;
	}
	return NULL;
}
