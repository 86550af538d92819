/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct: a delegate that is compiled in, as the runtime sees any other.
 *
 * The delegate has the table that plug-ins have (delegates/inferd-delegate.h); here it is called in this process, on the
 * thread that asks, with nothing between but the arguments of a run in the form that the interface gives them. What a
 * process of its own contains (a crash, a hang) is not contained. */
#ifndef DELEGATES_DIRECT_DIRECT_H
#define DELEGATES_DIRECT_DIRECT_H

#include "runtime/plan.h"

struct inferd_delegate;
struct inferd_delegate_model;
struct inferd_delegate_worker_threads;

/* What open is given. Everything is copied. */
struct et_direct_config {
	const struct et_option *options; /* of the backend; `backend` of each is not looked at */
	uint32_t n_options;
	const char *cache_dir; /* a folder of its own; NULL: none */
};

/* Open @table. On success ops and backend are the entry's, to be ended with ops->close(backend); @table, @log and what
 * @allocator points to outlive it. @config may be NULL.
 * Answers: ET_E_NOT_FOUND (not available here), ET_E_NOT_SUPPORTED (the table asks for what only a process of its own
 * has), what the delegate's open answers: @diag has the reason. Loop thread. */
enum et_status et_direct_open(struct et_backend_entry *ret_entry, const struct inferd_delegate *table,
	const struct et_direct_config *config, const struct et_allocator *allocator, const struct et_log *log,
	struct et_diag *diag);

/* The delegate's own words for a backend, what was compiled and a lane, for its tests. */
void *et_direct_self(struct et_backend *backend);
struct inferd_delegate_model *et_direct_model(struct et_model *model);
struct inferd_delegate_worker_threads *
et_direct_worker_threads(struct et_worker_threads *threads); /* NULL: it has none */

#endif
