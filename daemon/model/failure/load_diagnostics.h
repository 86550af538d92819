/* SPDX-License-Identifier: BSD-3-Clause */
/* Load diagnostics: what clients are told about models that could not be loaded, or only in part.
 *
 * A version of a model has one diagnostic as a whole, and one for each of its methods that was refused while other
 * methods of the same program may run. Loop thread only. */
#ifndef DAEMON_MODEL_FAILURE_LOAD_DIAGNOSTICS_H
#define DAEMON_MODEL_FAILURE_LOAD_DIAGNOSTICS_H

#include "runtime/base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inf_load_diagnostic {
	const char *model, *version;
	const char *method; /* the method that was refused alone; "": the version as a whole */
	const char *text;   /* a sentence */
	bool is_refusal;    /* false: it runs, but better variants were passed over */
	uint32_t n_others;  /* with a method: how many other methods of its program may run */
};

/* Make @diagnostics an empty list; inf_load_diagnostics_deinit frees what is added. */
void inf_load_diagnostics_init(struct et_list_node *diagnostics);
void inf_load_diagnostics_deinit(struct et_list_node *diagnostics);

/* Keep a copy of @diagnostic in place of the earlier one of that method, or of the whole version. An empty text only
 * removes the earlier one; so does a lack of memory. */
void inf_load_diagnostics_note(struct et_list_node *diagnostics, const struct inf_load_diagnostic *diagnostic);
/* Remove all diagnostics of @model, of any version. */
void inf_load_diagnostics_forget(struct et_list_node *diagnostics, const char *model);

/* Whether that version of @model has diagnostics; then they are written to @text, of @room bytes, the one of the whole
 * version first. *ret_is_refused: no client can use it, because it, or each of its methods, was refused. */
bool inf_load_diagnostics_tell(const struct et_list_node *diagnostics, const char *model, const char *version,
	char *text, size_t room, bool *ret_is_refused);

#endif
