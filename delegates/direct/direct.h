/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct: make a built-in delegate a backend of the runtime.
 *
 * A built-in delegate has the same table as a plug-in (delegates/inferd-delegate.h). Its functions are called in
 * this process, on the calling thread. Only the arguments of a run are converted. A crash or a hang of the delegate
 * is inferd's own: nothing contains it. */
#ifndef DELEGATES_DIRECT_DIRECT_H
#define DELEGATES_DIRECT_DIRECT_H

#include "runtime/plan.h"

#include <stdbool.h>

struct inferd_delegate;
struct inferd_delegate_model;
struct inferd_delegate_worker_threads;

/* The configuration of the backend. Everything is copied. */
struct et_direct_config {
	const struct et_option *options; /* their member `backend` is ignored */
	uint32_t n_options;
	const char *cache_dir; /* a folder for this delegate alone; NULL: none */
	bool threads_move;     /* worker threads are used on any thread (INFERD_DELEGATE_THREADS_MOVE) */
};

/* Open the delegate @table. On success *ret_entry holds the backend, which ops->close(backend) frees; @table, @log
 * and what @allocator points to must outlive it. @config may be NULL.
 * Answers, with the reason in @diag: ET_E_NOT_FOUND (not available on this machine), ET_E_NOT_SUPPORTED (the table
 * needs a host process), or what the delegate's open answers. Loop thread. */
enum et_status et_direct_open(struct et_backend_entry *ret_entry, const struct inferd_delegate *table,
	const struct et_direct_config *config, const struct et_allocator *allocator, const struct et_log *log,
	struct et_diag *diag);

/* For a delegate's tests: its own backend, model and worker threads behind the runtime's. */
void *et_direct_self(struct et_backend *backend);
struct inferd_delegate_model *et_direct_model(struct et_model *model);
struct inferd_delegate_worker_threads *
et_direct_worker_threads(struct et_worker_threads *threads); /* NULL: the delegate has none for the device */

#endif
