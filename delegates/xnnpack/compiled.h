/* A payload made ready: decoded, checked, its weights packed. Immutable. */
#ifndef DELEGATES_XNNPACK_COMPILED_H
#define DELEGATES_XNNPACK_COMPILED_H

#include "delegates/xnnpack/graph.h"
#include "delegates/xnnpack/parts.h"
#include "delegates/xnnpack/rehearsal.h"
#include "delegates/xnnpack/starts.h"
#include "delegates/xnnpack/twins.h"
#include "delegates/xnnpack/weights.h"

struct et_xnn_compiled {
	struct et_pool pool;
	struct et_xnn_payload payload;
	struct et_xnn_parts parts;      /* of it */
	struct et_xnn_weights *weights; /* the Program's */
	size_t max_context_bytes;
	size_t context_bytes;                 /* what one needs with the payload's own shapes */
	struct et_xnn_rehearsals *rehearsals; /* the Program's */
	uint64_t rehearsal;                   /* its number there; 0: none */

	struct et_xnn_twins *twins; /* where it may be found; NULL: nowhere */
	struct et_xnn_twin twin;
	struct et_list_node contexts; /* of several users each, one a lane, under the lock of twins */
};

/* One payload of a Program. */
struct inferd_delegate_model {
	struct et_xnn_backend *backend;
	const struct inferd_delegate_store *store; /* of what it was made of; NULL: nothing is kept */
	struct et_xnn_compiled *compiled;          /* perhaps others', too */
	struct et_xnn_starts starts;               /* its own */
};

/* @weights: the caller's, to be released after et_xnn_compiled_free. @max_context_bytes: shapes that make a context need
 * more are refused, here and by its runs. @rehearsals, @twins: the Program's, the latter NULL: look for no other that is the
 * same. *@ret_starts: the caller's. */
enum et_status et_xnn_compile(struct et_xnn_compiled **ret_compiled, struct et_xnn_starts *ret_starts,
	const struct inferd_delegate_payload *source, struct et_xnn_weights *weights,
	struct et_xnn_rehearsals *rehearsals, struct et_xnn_twins *twins, size_t max_context_bytes,
	const struct et_allocator *allocator, struct inferd_delegate_model_info *ret_info,
	struct et_diag *diag);
/* Before filters are claimed: what XNNPACK wants as floats becomes floats. In halves.c. Refusals as et_xnn_weights_copy's. */
enum et_status et_xnn_widen_halves(struct et_xnn_compiled *compiled, struct et_diag *diag);
/* How the file's constant became @value's. */
enum et_xnn_remade et_xnn_remade_of(const struct et_xnn_value *value);
/* These arguments lie in the order that et_xnn_payload_order says. Before there is a context. ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_xnn_compiled_reorder(
	struct et_xnn_compiled *compiled, const uint32_t *args, uint32_t n_args, struct et_diag *diag);
/* If this was its last user. */
void et_xnn_compiled_free(struct et_xnn_compiled *compiled);
/* A digest that holds against nobody who looks for collisions. */
uint64_t et_xnn_hash_bytes(const void *bytes, size_t n_bytes);

#endif
