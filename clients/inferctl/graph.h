/* SPDX-License-Identifier: BSD-3-Clause */
/* inferctl inspect --graph: the graphs in a program's payloads for GPUs. */
#ifndef CLIENTS_INFERCTL_GRAPH_H
#define CLIENTS_INFERCTL_GRAPH_H

#include "runtime/program/program.h"

enum ctl_graph_form {
	CTL_GRAPH_TEXT,       /* as it was exported (delegates/graph/text.h) */
	CTL_GRAPH_SIMPLIFIED, /* after the passes (delegates/graph/passes.h), with where tensors lie */
	CTL_GRAPH_DOT,        /* as it was exported, in Graphviz's language */
	CTL_N_GRAPH_FORMS,
};
/* The form that is called @name; CTL_N_GRAPH_FORMS: none is. */
enum ctl_graph_form ctl_graph_form(const char *name);

/* Print the graph of each payload that is one. An exit code; the reason on stderr if there is none, or one can't be
 * read. */
int ctl_graph_print(const struct et_program *program, enum ctl_graph_form form);

#endif
