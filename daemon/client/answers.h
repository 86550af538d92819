/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers: replies that describe the daemon and its models. Loop thread only. */
#ifndef DAEMON_CLIENT_ANSWERS_H
#define DAEMON_CLIENT_ANSWERS_H

#include "daemon/client/session.h"
#include "daemon/model/model.h"
#include "daemon/model/variant.h"
#include "runtime/base/alloc.h"

/* The inputs or outputs of @model in the form of a reply, with the names of its model.conf or input_0, input_1 ...; the
 * array lives in @pool, what it points to there or as long as the model. NULL: no memory, or there are none. */
const struct inf_tensor_metadata *inf_answer_tensors(struct et_pool *pool, const struct inf_model *model,
	bool is_input);

void inf_answer_server_metadata(struct inf_session *session, uint64_t id);
void inf_answer_status(struct inf_session *session, uint64_t id);
/* Sums for each version of @model, of all its loads since the daemon started (run_totals.h). @model, @version: "" for
 * all. */
void inf_answer_statistics(struct inf_session *session, uint64_t id, const char *model, const char *version);
void inf_answer_metadata(struct inf_session *session, uint64_t id, struct inf_model *model,
	const struct inf_variants *on_disk, size_t n_on_disk);
/* @on_disk: what inf_repository_scan found, for both. */
void inf_answer_index(struct inf_session *session, uint64_t id, bool only_ready, const struct inf_variants *on_disk,
	size_t n_on_disk);

#endif
