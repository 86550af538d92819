/* SPDX-License-Identifier: BSD-3-Clause */
/* An instance: one execution of a model on one worker. */
#ifndef DELEGATES_XNNPACK_INSTANCE_H
#define DELEGATES_XNNPACK_INSTANCE_H

#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/threads.h"

/* All functions: on the worker's thread. */

/* Make an instance, or find the one that a shared model has on this worker. @model and @threads must outlive it.
 * ET_E_MEMORY_ALLOCATION_FAILED, and what XNNPACK refuses. */
enum et_status et_xnn_instance_new(struct inferd_delegate_instance **ret_instance, struct et_xnn_model *model,
	struct inferd_delegate_worker_threads *threads, const struct et_allocator *allocator, struct et_diag *diag);
/* Have XNNPACK take the memory that a run with the payload's own shapes needs. A failure is left for that run to
 * report. */
enum et_status et_xnn_instance_warm(struct inferd_delegate_instance *instance, struct et_diag *diag);
/* Uncount a user, and free the instance if it was the last one. Takes NULL. */
void et_xnn_instance_free(struct inferd_delegate_instance *instance);
/* Run to the end. @slices: those of the payload that is run. Answers: ET_E_INVALID_TYPE (an argument's kind or
 * dtype), ET_E_INVALID_STATE (an argument has no memory), ET_E_INVALID_ARGUMENT (its shape), ET_E_NOT_SUPPORTED (an
 * output cannot take its new shape), ET_E_OUT_OF_RESOURCES (the shapes need too much memory), and what XNNPACK
 * refuses. */
enum et_status et_xnn_instance_run(struct inferd_delegate_instance *instance, const struct et_xnn_input_slices *slices,
	struct inferd_delegate_arg *const *args, struct et_diag *diag);
/* Run once on runtimes that measure their operators, made for this run. Normal runtimes do not measure, since that
 * reads the clock twice for each operator. */
enum et_status et_xnn_instance_profile(struct inferd_delegate_instance *instance,
	const struct et_xnn_input_slices *slices, const struct inferd_delegate_run *run, struct et_diag *diag);

#endif
