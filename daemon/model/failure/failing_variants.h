/* SPDX-License-Identifier: BSD-3-Clause */
/* Failing variants: files that opens pass over, because the runs of their models failed too often.
 *
 * A variant is remembered by its file, its data files and the method, so that a file that was replaced is tried, and
 * outlives its model, which is unloaded with its last Method. Loop thread only. */
#ifndef DAEMON_MODEL_FAILURE_FAILING_VARIANTS_H
#define DAEMON_MODEL_FAILURE_FAILING_VARIANTS_H

#include "daemon/base/file_id.h"
#include "runtime/base/list.h"

struct inf_failing_variant {
	const char *model, *version, *method;
	const char *path, *backends; /* backends: "xnnpack+acme" */
	const struct inf_file_id *file;
	const struct inf_data_ids *data;
	const char *why; /* a sentence */
};

/* Make @variants an empty list; inf_failing_variants_deinit frees what is added. */
void inf_failing_variants_init(struct et_list_node *variants);
void inf_failing_variants_deinit(struct et_list_node *variants);

/* Keep a copy of @variant, in place of an earlier one of that path and method. False: no memory. */
bool inf_failing_variants_add(struct et_list_node *variants, const struct inf_failing_variant *variant);
/* Why that file is passed over for @method; NULL: it is not. Valid until the list changes. */
const char *inf_failing_variants_find(const struct et_list_node *variants, const struct inf_file_id *file,
	const struct inf_data_ids *data, const char *method);
/* Forget that file, all of @model, or all that need @backend. Whether there was any. */
bool inf_failing_variants_forget(struct et_list_node *variants, const struct inf_file_id *file,
	const struct inf_data_ids *data, const char *method);
bool inf_failing_variants_forget_model(struct et_list_node *variants, const char *model);
bool inf_failing_variants_forget_backend(struct et_list_node *variants, const char *backend);
/* Number @index of the list in *ret_variant, which borrows from it; false: there are no more. */
bool inf_failing_variants_at(const struct et_list_node *variants, size_t index,
	struct inf_failing_variant *ret_variant);

#endif
