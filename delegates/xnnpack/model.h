/* SPDX-License-Identifier: BSD-3-Clause */
/* A payload made ready: decoded, checked, its weights packed. Immutable. */
#ifndef DELEGATES_XNNPACK_MODEL_H
#define DELEGATES_XNNPACK_MODEL_H

#include "delegates/xnnpack/graph/subgraph.h"
#include "delegates/xnnpack/partition.h"
#include "delegates/xnnpack/prebuilt.h"
#include "delegates/xnnpack/graph/input_slices.h"
#include "delegates/xnnpack/deduplication.h"
#include "delegates/xnnpack/weights/weights.h"

struct et_xnn_model {
	struct et_pool pool;
	struct et_xnn_payload payload;
	struct et_xnn_partitions partitions; /* of it */
	struct et_xnn_weights *weights;      /* the Program's */
	size_t max_instance_bytes;
	size_t instance_bytes;                /* what one needs with the payload's own shapes */
	struct et_xnn_rehearsals *rehearsals; /* the Program's */
	uint64_t prebuilt;                    /* its number there; 0: none */

	struct et_xnn_duplicates *duplicates; /* where it may be found; NULL: nowhere */
	struct et_xnn_duplicate duplicate;
	struct et_list_node instances; /* of several users each, one a lane, under the lock of twins */
};

/* One payload of a Program. */
struct inferd_delegate_model {
	struct et_xnn_backend *backend;
	const struct inferd_delegate_store *store; /* of what it was made of; NULL: nothing is kept */
	struct et_xnn_model *model;                /* perhaps others', too */
	struct et_xnn_input_slices slices;         /* its own */
};

/* @overrides_off: as et_xnn_overrides_parse gives it. @weights: the caller's, to be released after et_xnn_model_free. @max_instance_bytes: shapes that make a context need
 * more are refused, here and by its runs. @rehearsals, @twins: the Program's, the latter NULL: look for no other that is the
 * same. *@ret_slices: the caller's. */
enum et_status et_xnn_compile(struct et_xnn_model **ret_model, struct et_xnn_input_slices *ret_slices,
	const struct inferd_delegate_payload *source, uint32_t overrides_off, struct et_xnn_weights *weights,
	struct et_xnn_rehearsals *rehearsals, struct et_xnn_duplicates *duplicates, size_t max_instance_bytes,
	const struct et_allocator *allocator, struct inferd_delegate_model_info *ret_info, struct et_diag *diag);
/* Before filters are claimed: what XNNPACK wants as floats becomes floats. In fp16_weights.c. Refusals as et_xnn_weights_copy's. */
enum et_status et_xnn_widen_fp16(struct et_xnn_model *model, struct et_diag *diag);
/* How the file's constant became @value's. */
enum et_xnn_remade et_xnn_remade_of(const struct et_xnn_value *value);
/* These arguments lie in the order that et_xnn_payload_order says. Before there is a context. ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_xnn_model_reorder(struct et_xnn_model *model, const uint32_t *args, uint32_t n_args,
	struct et_diag *diag);
/* If this was its last user. */
void et_xnn_model_free(struct et_xnn_model *model);
/* A digest that holds against nobody who looks for collisions. */
uint64_t et_xnn_hash_bytes(const void *bytes, size_t n_bytes);

#endif
