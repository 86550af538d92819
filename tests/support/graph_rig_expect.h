/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a test of a pass over a graph. */
#ifndef TESTS_SUPPORT_GRAPH_RIG_EXPECT_H
#define TESTS_SUPPORT_GRAPH_RIG_EXPECT_H

#include "tests/support/graph_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* Fail unless the graph of @rig is right, is @after as a text, and can be read again from it. Frees the graph. */
static inline void graph_rig_expect(struct graph_rig *rig, const char *after)
{
	assert_string_equal(graph_rig_text(rig), after);
	if (et_graph_verify(&rig->graph, &rig->diag) != ET_OK)
		fail_msg("afterwards: %s", rig->diag.text);
	graph_rig_deinit(rig);
	if (graph_rig_parse(rig, after) != ET_OK)
		fail_msg("the text: %s", rig->diag.text);
	assert_string_equal(graph_rig_text(rig), after);
	graph_rig_deinit(rig);
}

#endif
