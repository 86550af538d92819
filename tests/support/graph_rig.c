/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs and texts for tests; it aborts when memory runs out. */
#include "tests/support/graph_rig.h"

#include "runtime/platform/platform.h"

#include <stdlib.h>
#include <string.h>

static void append(void *self, const char *text, size_t n)
{
	struct graph_rig *rig = self;
	if (rig->n_text + n + 1 > rig->n_room) {
		rig->n_room = (rig->n_text + n + 1) * 2;
		rig->text = realloc(rig->text, rig->n_room);
		if (!rig->text)
			abort();
	}
	memcpy(rig->text + rig->n_text, text, n);
	rig->n_text += n;
	rig->text[rig->n_text] = '\0';
}

enum et_status graph_rig_parse(struct graph_rig *rig, const char *text)
{
	*rig = (struct graph_rig){ 0 };
	et_pool_init(&rig->pool, et_platform_allocator());
	return et_graph_parse(&rig->graph, text, strlen(text), &rig->pool, &rig->diag);
}

const char *graph_rig_text(struct graph_rig *rig)
{
	const struct et_graph_sink sink = { rig, append };
	rig->n_text = 0;
	append(rig, "", 0);
	if (!et_graph_print(&rig->graph, &sink))
		abort();
	return rig->text;
}

const char *graph_rig_dot(struct graph_rig *rig)
{
	const struct et_graph_sink sink = { rig, append };
	rig->n_text = 0;
	et_graph_print_dot(&rig->graph, &sink);
	return rig->text;
}

void graph_rig_deinit(struct graph_rig *rig)
{
	et_pool_deinit(&rig->pool);
	free(rig->text);
}
