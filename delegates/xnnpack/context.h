/* One running execution of a compiled payload, on one lane. */
#ifndef DELEGATES_XNNPACK_CONTEXT_H
#define DELEGATES_XNNPACK_CONTEXT_H

#include "delegates/xnnpack/compiled.h"
#include "delegates/xnnpack/lane.h"

/* On the lane's thread; both must outlive the context. The one that is there where payloads that are the same have one on
 * this lane. */
enum et_status et_xnn_context_new(struct inferd_delegate_instance **ret_context,
	struct et_xnn_compiled *compiled, struct inferd_delegate_lane *lane,
	const struct et_allocator *allocator, struct et_diag *diag);
/* Have XNNPACK take what a run with the payload's own shapes needs; what fails is left for that run. */
void et_xnn_context_warm(struct inferd_delegate_instance *context);
/* If this was its last user. */
void et_xnn_context_free(struct inferd_delegate_instance *context);
/* Runs to the end. @starts: of the model that is run. Answers: ET_E_INVALID_TYPE (an argument's kind or dtype), ET_E_INVALID_ARGUMENT (its shape; no memory
 * bound), ET_E_NOT_SUPPORTED (an output can't take its new shape), and whatever XNNPACK refuses. */
enum et_status et_xnn_context_run(struct inferd_delegate_instance *context,
	const struct et_xnn_starts *starts, struct inferd_delegate_arg *const *args, struct et_diag *diag);
/* The same on a runtime of its own, made for this once, that measures its operators: a normal one never does, since
 * that takes two looks at the clock around each. */
enum et_status et_xnn_context_profile(struct inferd_delegate_instance *context,
	const struct et_xnn_starts *starts, const struct inferd_delegate_run *run, struct et_diag *diag);

#endif
