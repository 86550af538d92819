/* SPDX-License-Identifier: BSD-3-Clause */
/* One run of an instance. */
#ifndef DELEGATES_OPENCL_RUN_H
#define DELEGATES_OPENCL_RUN_H

#include "delegates/opencl/model.h"

/* What is enqueued between two looks at the clock and at what the host wants is to take less than 5 ms. */
enum { OCL_SLICE_NS = 4000000 };

struct ocl_run {
	struct inferd_delegate_model *model;
	struct inferd_delegate_instance *instance;
	const struct inferd_delegate_run *view; /* the host's */
	struct ocl_lane *lane;
	cl_event last;      /* of the last command; NULL: everything has ended */
	uint32_t priority;  /* enum inferd_delegate_priority */
	uint64_t waited_ns; /* for runs of a higher one */
	/* The slice: what was enqueued since the last wait. Its steps, since when, and for how long by prediction. */
	uint32_t first_step, step;
	uint64_t began_ns, predicted_ns;
	struct et_pool scratch; /* converted arguments */
};

/* Run. ET_E_CANCELLED; ET_E_INVALID_ARGUMENT: an argument does not suit; ET_E_BACKEND_CRASHED: the device is lost;
 * ET_E_MEMORY_ALLOCATION_FAILED, ET_E_OUT_OF_RESOURCES. */
enum et_status ocl_run(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *view, struct et_diag *diag);

/* Wait until all that was enqueued has ended. */
enum et_status ocl_run_wait(struct ocl_run *run, struct et_diag *diag);
/* How long @cost operations of the step that is being run take, as earlier runs measured it. */
uint64_t ocl_run_predict(const struct ocl_run *run, uint64_t cost);
/* Count work of that length that was enqueued. After OCL_SLICE_NS of it, wait for it; in any case, ET_E_CANCELLED if
 * the run was cancelled. */
enum et_status ocl_run_pace(struct ocl_run *run, uint64_t ns, struct et_diag *diag);
/* Remember the event of a command that was enqueued. */
void ocl_run_enqueued(struct ocl_run *run, cl_event event);

/* The buffer of the tensor @root, which is in no alias, and its first element's place in it in bytes. */
void ocl_run_memory(const struct ocl_run *run, uint32_t root, cl_mem *ret_buffer, uint64_t *ret_at);

/* Before @n_bytes of a state are overwritten, from @at on: save them. ET_E_BACKEND_CRASHED. In instance.c. */
enum et_status ocl_state_save(struct ocl_run *run, cl_mem state, uint64_t at, uint64_t n_bytes, struct et_diag *diag);
/* Put back what was saved, and wait. */
enum et_status ocl_states_restore(struct ocl_run *run, struct et_diag *diag);

/* How many elements there are at @root, from its first one on. */
uint64_t ocl_run_room(const struct ocl_run *run, uint32_t root);

/* Arguments; in arguments.c. Take sizes and numbers of the inputs, upload the tensors that are not used in place, and
 * find the outputs that are. */
enum et_status ocl_inputs_take(struct ocl_run *run, struct et_diag *diag);
/* Enqueue the reads of all outputs, wait, and convert. The outputs' sizes are set. */
enum et_status ocl_outputs_give(struct ocl_run *run, struct et_diag *diag);

/* Memory for the pools of this folder. */
const struct et_allocator *ocl_allocator(void);

#endif
