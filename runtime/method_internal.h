/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside a Method and a frame: shared by frame.c, method.c, binding.c and run.c, which are one mechanism. */
#ifndef RUNTIME_METHOD_INTERNAL_H
#define RUNTIME_METHOD_INTERNAL_H

#include "runtime/method.h"
#include "runtime/plan_internal.h"

enum et_state_phase {
	ET_STATE_IDLE,
	ET_STATE_RUNNING, /* only a stateful Method's says so */
	ET_STATE_LOST,
};

struct et_state {
	uint8_t *bytes; /* as many as any Plan says that has it */
	enum et_state_phase phase;
	bool rolls_back; /* begin keeps a copy behind it; else it is too large, or a delegate has a part of it */
};

/* A stateful delegate's, made on the worker_index that first runs it. */
struct et_own_instance {
	struct et_plan_instance held;
	uint32_t worker_index;
};

struct et_method {
	struct et_plan *plan;
	struct et_allocator allocator;
	size_t n_bytes;                       /* of this piece, everything below included */
	struct et_state *states[ET_N_STATES]; /* the shared one may be another Method's */
	struct et_state made[ET_N_STATES];
	struct et_evalue *scalars;         /* state_scalars' values after the last run */
	int32_t *sizes;                    /* of dynamic tensors in the state, after the last run */
	struct et_own_instance *instances; /* one a delegate; NULL if none is stateful */
};

struct et_frame {
	struct et_plan *plan;
	struct et_allocator small, arena;
	size_t n_bytes;
	struct et_evalue *values;
	struct et_evalue none; /* stands where an optional list has no item */
	struct et_tensor *tensors;
	int32_t *shapes; /* of dynamic tensors */
	struct et_evalue **args;
	struct et_list *lists;
	struct et_evalue **items;
	/* What a run starts from. */
	struct et_tensor *pristine_tensors; /* the volatile ones */
	struct et_evalue *pristine_scalars;
	uint8_t *activations;
};

/* Bytes of a frame's value table; SIZE_MAX if that overflows. */
size_t et_frame_bytes(const struct et_plan *plan);
/* Everything as a run finds it: the pristine values, and @method's state. */
void et_frame_restore(struct et_frame *frame, const struct et_method *method);

/* Check what the caller binds, changing nothing but shapes; then bind it. */
enum et_status et_binding_check(struct et_run *run);
void et_binding_apply(struct et_run *run);
/* Hand the outputs over. */
enum et_status et_binding_finish(struct et_run *run);

/* A run may begin, begins, ends well, is cut short. */
enum et_status et_method_enter(struct et_method *method, struct et_diag *diag);
void et_method_begin(struct et_method *method);
void et_method_commit(struct et_method *method, const struct et_frame *frame);
void et_method_abort(struct et_method *method);
/* The context for delegate @index on @worker_index; NULL with the run's status and sentence set. */
struct et_plan_instance *et_method_instance(struct et_method *method, uint32_t worker_index, uint32_t index,
	enum et_status *ret_status, struct et_diag *diag);

#endif
