/* SPDX-License-Identifier: BSD-3-Clause */
/* A payload made ready to run on one device: its graph after the passes, a step for each node, its constants. Instances
 * hold the states. */
#ifndef DELEGATES_OPENCL_MODEL_H
#define DELEGATES_OPENCL_MODEL_H

#include "delegates/graph/graph.h"
#include "delegates/graph/shapes.h"
#include "delegates/inferd-delegate.h"
#include "delegates/opencl/device.h"

#include <stdatomic.h>

struct ocl_step;
struct ocl_lane;

struct inferd_delegate_model {
	struct ocl_device *device;
	struct et_pool pool; /* of the graph and of all arrays */
	struct et_graph graph;
	struct ocl_step *steps; /* for each node */
	/* For each value: where a tensor that is in no alias lies. The constant's, or NULL; the place in the arena in
	 * bytes, of inputs and outputs too; the number of the state. */
	struct ocl_weight **weights;
	uint64_t *places;
	uint32_t *state_of;
	uint64_t n_arena_bytes;
	uint32_t n_states;
	uint64_t n_state_bytes, n_weight_bytes;
	/* What a run may overwrite of the states, at most: in bytes, and in pieces. It is saved if that is sane. */
	bool saves_states;
	uint64_t n_saved_bytes, max_saved;
};

/* Where a tensor lies in a run: in the memory of tensor @root, from element @at on. */
struct ocl_home {
	uint32_t root;
	uint64_t at;
};

/* A piece of a state as it was before the run. */
struct ocl_saved {
	cl_mem state;
	uint64_t at, n_bytes, saved_at;
};

/* The caller's memory of an argument, where it is used in place. */
struct ocl_memory {
	cl_mem buffer; /* NULL: not in place */
	uint64_t at, n_bytes;
};

struct inferd_delegate_instance {
	struct inferd_delegate_model *model;
	cl_mem *states;
	uint64_t *n_state_bytes;     /* of each state */
	struct et_graph_size *sizes; /* of all values, in the run */
	struct ocl_home *homes;
	cl_mem saved_bytes;
	struct ocl_saved *saved; /* of the run, in the order in which they were overwritten */
	uint32_t n_saved;
	uint64_t n_saved_bytes;
	struct ocl_memory *in_place; /* for each value */
	atomic_bool is_cancelled;
};

/* Make @payload ready on @device. ET_E_NOT_SUPPORTED names the operator that cannot be run; ET_E_OUT_OF_RESOURCES says
 * what is needed and what there is; ET_PENDING: kernels have to be built by another process, and are requested; else
 * what et_graph_read_vulkan answers. @fuses: passes fuse nodes, and fast kernels run them; else each node is run by its
 * plain kernel, in the payload's types. @dump_dir: the folder for texts of the
 * graph after each pass; NULL: none are written. Any thread. */
enum et_status ocl_model_new(struct inferd_delegate_model **ret_model, struct ocl_device *device,
	const struct inferd_delegate_payload *payload, bool fuses, const char *dump_dir, struct et_diag *diag);
void ocl_model_free(struct inferd_delegate_model *model);

/* An instance with zeroed states. */
enum et_status ocl_instance_new(struct inferd_delegate_instance **ret_instance, struct inferd_delegate_model *model,
	struct et_diag *diag);
void ocl_instance_free(struct inferd_delegate_instance *instance);
enum et_status ocl_instance_reset(struct inferd_delegate_instance *instance, struct et_diag *diag);

/* How many elements a tensor of these sizes has: UINT64_MAX if they overflow. */
uint64_t ocl_numel(const struct et_graph_size *size);

#endif
