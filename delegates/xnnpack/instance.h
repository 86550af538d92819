/* SPDX-License-Identifier: BSD-3-Clause */
/* One running execution of a compiled payload, on one lane. */
#ifndef DELEGATES_XNNPACK_INSTANCE_H
#define DELEGATES_XNNPACK_INSTANCE_H

#include "delegates/xnnpack/model.h"
#include "delegates/xnnpack/threads.h"

/* On the lane's thread; both must outlive the context. The one that is there where payloads that are the same have one on
 * this lane. */
enum et_status et_xnn_instance_new(struct inferd_delegate_instance **ret_instance, struct et_xnn_model *model,
	struct inferd_delegate_worker_threads *threads, const struct et_allocator *allocator, struct et_diag *diag);
/* Have XNNPACK take what a run with the payload's own shapes needs; what fails is left for that run. */
void et_xnn_instance_warm(struct inferd_delegate_instance *instance);
/* If this was its last user. */
void et_xnn_instance_free(struct inferd_delegate_instance *instance);
/* Runs to the end. @starts: of the model that is run. Answers: ET_E_INVALID_TYPE (an argument's kind or dtype), ET_E_INVALID_ARGUMENT (its shape; no memory
 * bound), ET_E_NOT_SUPPORTED (an output can't take its new shape), and whatever XNNPACK refuses. */
enum et_status et_xnn_instance_run(struct inferd_delegate_instance *instance, const struct et_xnn_input_slices *slices,
	struct inferd_delegate_arg *const *args, struct et_diag *diag);
/* The same on a runtime of its own, made for this once, that measures its operators: a normal one never does, since
 * that takes two looks at the clock around each. */
enum et_status et_xnn_instance_profile(struct inferd_delegate_instance *instance,
	const struct et_xnn_input_slices *slices, const struct inferd_delegate_run *run, struct et_diag *diag);

#endif
