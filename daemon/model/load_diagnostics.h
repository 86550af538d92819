/* SPDX-License-Identifier: BSD-3-Clause */
/* Remarks: what to tell about models that could not be loaded, or only in part.
 *
 * There is one for a model's version as a whole, and one for each of its methods that was refused while others of the
 * same program may run. Loop thread only. */
#ifndef DAEMON_MODEL_LOAD_DIAGNOSTICS_H
#define DAEMON_MODEL_LOAD_DIAGNOSTICS_H

#include "runtime/base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inf_load_diagnostic {
	const char *model, *version;
	const char *method; /* which was refused alone; "": what is said is of the whole */
	const char *text;   /* a sentence */
	bool is_refusal;    /* else of something that serves, but not as it might */
	uint32_t n_others;  /* with a method: of its program, that nothing known keeps from running */
};

/* A list of remarks, empty; inf_load_diagnostics_deinit frees them. */
void inf_load_diagnostics_init(struct et_list_node *diagnostics);
void inf_load_diagnostics_deinit(struct et_list_node *diagnostics);

/* Keep a copy of @remark in the place of what was said of that method, or of the whole; with an empty text there is nothing
 * to say any more. Where there is no memory, neither. */
void inf_load_diagnostics_note(struct et_list_node *diagnostics, const struct inf_load_diagnostic *diagnostic);
/* All that was said of that @model, of any version. */
void inf_load_diagnostics_forget(struct et_list_node *diagnostics, const char *model);

/* Whether there is anything to say of that version of @model, and then that, the whole first, in @text of @room bytes.
 * *ret_is_refused: nobody has a chance with it, since it was refused as a whole, or each of its methods was. */
bool inf_load_diagnostics_tell(const struct et_list_node *diagnostics, const char *model, const char *version,
	char *text, size_t room, bool *ret_is_refused);

#endif
