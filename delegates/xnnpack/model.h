/* SPDX-License-Identifier: BSD-3-Clause */
/* A model: a payload that was decoded and checked, and whose weights are packed. */
#ifndef DELEGATES_XNNPACK_MODEL_H
#define DELEGATES_XNNPACK_MODEL_H

#include "delegates/xnnpack/deduplication.h"
#include "delegates/xnnpack/graph/input_slices.h"
#include "delegates/xnnpack/graph/instance_memory.h"
#include "delegates/xnnpack/partition.h"
#include "delegates/xnnpack/prebuilt_cache.h"
#include "delegates/xnnpack/weights/weights.h"

/* Immutable once it is compiled (et_xnn_model_reorder is the last step). Payloads with the same graph share one. */
struct et_xnn_model {
	struct et_pool pool;
	struct et_xnn_payload payload;
	struct et_xnn_partitions partitions; /* of the payload */
	struct et_xnn_weights *weights;      /* the Program's */
	size_t max_instance_bytes;
	struct et_xnn_memory_need need;               /* of an instance with the payload's own shapes */
	struct et_xnn_prebuilt_cache *prebuilt_cache; /* the Program's */
	uint64_t prebuilt_number;                     /* of its prebuilt runtimes; 0: none */

	struct et_xnn_duplicates *duplicates; /* where others find this model; NULL: it is not shared */
	struct et_xnn_duplicate duplicate;
	struct et_list_node instances; /* of a shared model: one for each worker. Under the lock of duplicates */
};

/* A payload of a Program, as the delegate's interface has it. */
struct inferd_delegate_model {
	struct et_xnn_backend *backend;
	const struct inferd_delegate_store *store; /* the payload's; NULL: nothing is persisted */
	struct et_xnn_model *model;                /* may be shared with other payloads */
	struct et_xnn_input_slices slices;         /* this payload's */
};

/* Compile a payload. @overrides_off: as et_xnn_overrides_parse gives it. On success the caller frees *@ret_model and
 * deinits *@ret_slices. @weights, @prebuilt_cache and @duplicates are the Program's and must outlive the model;
 * @duplicates NULL: do not look for a model with the same graph. @max_instance_bytes: shapes with which an instance
 * needs more are refused, here and by its runs. Answers: those of et_xnn_payload_read, ET_E_INVALID_ARGUMENT
 * (shapes), ET_E_OUT_OF_RESOURCES, and what XNNPACK refuses. */
enum et_status et_xnn_compile(struct et_xnn_model **ret_model, struct et_xnn_input_slices *ret_slices,
	const struct inferd_delegate_payload *source, uint32_t overrides_off, struct et_xnn_weights *weights,
	struct et_xnn_prebuilt_cache *prebuilt_cache, struct et_xnn_duplicates *duplicates, size_t max_instance_bytes,
	const struct et_allocator *allocator, struct inferd_delegate_model_info *ret_info, struct et_diag *diag);
/* The caller passes these arguments in the order that et_xnn_payload_order says. Before there is an instance.
 * ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_xnn_model_reorder(struct et_xnn_model *model, const uint32_t *args, uint32_t n_args,
	struct et_diag *diag);
/* Uncount a user, and free the model if it was the last one. */
void et_xnn_model_free(struct et_xnn_model *model);

#endif
