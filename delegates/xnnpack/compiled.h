/* A payload made ready: decoded, checked, its weights packed. Immutable. */
#ifndef DELEGATES_XNNPACK_COMPILED_H
#define DELEGATES_XNNPACK_COMPILED_H

#include "delegates/xnnpack/graph.h"
#include "delegates/xnnpack/weights.h"

struct et_compiled {
	struct et_backend *backend;
	struct et_pool pool;
	struct et_xnn_payload payload;
	struct et_xnn_weights *weights; /* the Program's */
};

/* @weights: the caller's, to be released after et_xnn_compiled_free. */
enum et_status et_xnn_compile(struct et_compiled **ret_compiled, const struct et_payload *source,
	struct et_xnn_weights *weights, const struct et_allocator *allocator,
	struct et_compiled_info *ret_info, struct et_diag *diag);
void et_xnn_compiled_free(struct et_compiled *compiled);

#endif
