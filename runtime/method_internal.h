/* SPDX-License-Identifier: BSD-3-Clause */
/* The inside of a Method and a frame. frame.c, method.c, binding.c and run.c share it: together they are one
 * mechanism. */
#ifndef RUNTIME_METHOD_INTERNAL_H
#define RUNTIME_METHOD_INTERNAL_H

#include "runtime/method.h"
#include "runtime/plan_internal.h"

enum et_state_phase {
	ET_STATE_IDLE,
	ET_STATE_RUNNING, /* only stateful Methods use this phase */
	ET_STATE_LOST,
};

struct et_state {
	uint8_t *bytes; /* state_bytes of the Plans that use it */
	enum et_state_phase phase;
	/* et_method_begin keeps a copy behind bytes; false: too large for a copy, or a delegate holds a part */
	bool rolls_back;
};

/* An instance of a stateful delegate. It is made on the worker that first runs it. */
struct et_stateful_instance {
	struct et_plan_instance held;
	uint32_t worker_index;
};

struct et_method {
	struct et_plan *plan;
	struct et_allocator allocator;
	size_t n_bytes;                       /* of the Method's whole allocation, all arrays below included */
	struct et_state *states[ET_N_STATES]; /* the shared one may lie in another Method */
	struct et_state made[ET_N_STATES];
	struct et_evalue *scalars;              /* the Plan's state_scalars after the last run */
	int32_t *sizes;                         /* sizes of the dynamic state tensors after the last run */
	struct et_stateful_instance *instances; /* one per delegate; NULL if no delegate is stateful */
	struct et_method *with;                 /* whose delegates' state it shares; NULL: none */
};

struct et_frame {
	struct et_plan *plan;
	struct et_allocator small, arena;
	size_t n_bytes;
	struct et_evalue *values;
	struct et_evalue none; /* stands for a missing item of an optional list */
	struct et_tensor *tensors;
	int32_t *shapes; /* sizes and strides of dynamic tensors */
	struct et_evalue **args;
	struct et_list *lists;
	struct et_evalue **items;
	/* The values before any run, which et_frame_restore copies. */
	struct et_tensor *pristine_tensors; /* the first n_volatile */
	struct et_evalue *pristine_scalars;
	struct et_plan_instance *instances; /* one per delegate, for those with is_per_run; made at the first call */
	uint8_t *activations;
};

/* Bytes of a frame's value table; SIZE_MAX if the size overflows. */
size_t et_frame_bytes(const struct et_plan *plan);
/* Put everything into the state in which a run finds it: the pristine values, and @method's state. */
void et_frame_restore(struct et_frame *frame, const struct et_method *method);

/* et_binding_check: check the caller's inputs and outputs; it changes nothing but shapes in the frame.
 * et_binding_apply: bind or copy them. */
enum et_status et_binding_check(struct et_run *run);
void et_binding_apply(struct et_run *run);
/* Copy outputs that are not bound, and set their sizes. */
enum et_status et_binding_finish(struct et_run *run);

/* The stages of a run: may it begin; it begins; it ended well; it was cut short. */
enum et_status et_method_enter(struct et_method *method, struct et_diag *diag);
void et_method_begin(struct et_method *method);
void et_method_commit(struct et_method *method, const struct et_frame *frame);
void et_method_abort(struct et_method *method);
/* The instance of delegate @index for a run of @method in @frame on @worker_index. NULL: *ret_status and @diag say
 * why. */
struct et_plan_instance *et_method_instance(struct et_method *method, struct et_frame *frame, uint32_t worker_index,
	uint32_t index, enum et_status *ret_status, struct et_diag *diag);

#endif
