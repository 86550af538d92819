/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside a Plan: shared by the files that make one (plan, decode, dataflow, memory) and those that run
 * one (frame, method, run). Nobody else includes this.
 *
 * Making a Plan goes  decode (instructions, kernels, delegates)  ->  dataflow (what is state)  ->  order (which dimension
 * comes first)  ->  memory (where each tensor lies, which inputs and outputs can be bound).  Afterwards nothing changes
 * but the slots' contexts. */
#ifndef RUNTIME_PLAN_INTERNAL_H
#define RUNTIME_PLAN_INTERNAL_H

#include "runtime/base/ref.h"
#include "runtime/plan.h"

#include <stdatomic.h>

#define ET_NO_TENSOR UINT32_MAX

/* Memory that outlives runs: a Method's own, and what it may share with others of its Program. */
enum et_state_index { ET_STATE_OWN, ET_STATE_SHARED, ET_N_STATES };

/* An argument that must be looked at before each call, since its slot or its memory changes. */
struct et_check {
	uint32_t arg;
	char letter;
	bool is_written;
	bool is_view;
};

struct et_plan_operator {
	const struct et_kernel *kernel; /* NULL if no instruction uses it */
	const struct et_kernel_arg *args;
	uint32_t n_args;
	void *held; /* of the kernel; NULL: nothing */
};

struct et_plan_instruction {
	uint8_t op;         /* enum et_op */
	bool has_queue;     /* kernels and delegates belong to one, the others run where they are met */
	bool has_view;      /* an output is a view */
	bool may_alias;     /* what it writes may be another of its arguments, too */
	uint32_t n_args;    /* passed, without the repeated outputs */
	uint32_t first_arg; /* in the Plan's args and the frame's argument pointers */
	uint32_t first_check, n_checks;
	uint32_t index; /* KERNEL: operator; DELEGATE: delegate; JUMP_FALSE: destination */
	struct et_queue_id queue;
};

/* One slot of the value table. */
struct et_plan_value {
	uint32_t tensor; /* TENSOR: index into tensors */
	uint32_t alias;  /* union-find: slots whose tensors may share memory by a move or a view */
	/* Instruction numbers counted from 1; 0 is the binding of inputs, n + 1 that of outputs. first > last: never. */
	uint32_t first, last;
	uint32_t seen;       /* the instruction, counted from 1, that met it last in the search for aliases */
	bool is_moved : 1;   /* a MoveCall rebinds it */
	bool is_shared : 1;  /* it does not stand alone in its alias class */
	bool is_view : 1;    /* a kernel points it into another tensor */
	bool is_freed : 1;   /* a FreeCall takes its memory */
	bool is_written : 1; /* by an instruction (scalars: slot; tensors: their memory) */
	bool is_used : 1;    /* by an instruction or as an output */
	bool is_input : 1, is_output : 1;
	bool is_state : 1;                    /* may be read before it was written */
	bool is_borrowing : 1;                /* may be read for what another tensor in its place wrote */
	bool is_class_state : 1;              /* at the root of an alias class: so are all of it */
	const struct et_tensor_spec *instead; /* TENSOR: as it lies here, or NULL: as the program says */
};

enum et_place {
	ET_PLACE_NOWHERE, /* bound at run time: an unplanned input or output, or a view */
	ET_PLACE_CONSTANT,
	ET_PLACE_ACTIVATION,
	ET_PLACE_STATE,  /* and what follows: */
	ET_PLACE_SHARED, /* state that methods of the program share */
};

struct et_plan_tensor {
	const struct et_tensor_spec *spec;
	uint32_t value;
	uint8_t place;           /* enum et_place */
	size_t offset;           /* ACTIVATION, STATE, SHARED: from the start of that memory */
	const uint8_t *constant; /* CONSTANT */
	int32_t *shape;          /* sizes, then strides, as exported; never written. In shapes if dynamic. */
};

struct et_plan_delegate {
	const struct et_delegate_ops *ops;
	size_t backend;         /* index into the registry */
	struct et_model *model; /* NULL if no instruction calls it */
	struct et_model_info info;
	struct et_queue_id queue;
	bool is_called;
};

/* A context and whether an asynchronous run holds it. */
struct et_plan_instance {
	struct et_instance *instance;
	const struct et_delegate_ops *ops;
	_Atomic(bool) is_busy;
};

struct et_plan_worker {
	_Atomic(bool) is_prepared;
	struct et_worker_threads **thread_sets; /* one a backend of the registry */
	struct et_plan_instance *instances;     /* one a delegate */
};

struct et_plan {
	struct et_ref ref;
	struct et_pool pool;
	struct et_program *program;
	const struct et_registry *registry;
	const struct et_method_spec *spec;
	struct et_plan_info info;

	struct et_plan_operator *operators;
	struct et_plan_delegate *delegates;
	uint32_t n_stateful_delegates;
	struct et_plan_instruction *instructions;
	uint32_t *args; /* value slots of all instructions */
	uint32_t n_args;
	struct et_check *checks;
	bool has_back_jump;

	struct et_plan_value *values;
	/* The first n_volatile are those whose header a run may change. */
	struct et_plan_tensor *tensors;
	uint32_t n_tensors, n_volatile;
	const int32_t *shapes; /* sizes and strides of dynamic tensors, one after the other */
	size_t n_shapes;

	uint32_t *scalars; /* slots that a run may change, tensors' too (moves) */
	uint32_t n_scalars;
	uint32_t *state_scalars; /* slots whose value outlives the run */
	uint32_t n_state_scalars;
	uint32_t *state_tensors; /* tensors that lie in the state */
	uint32_t n_state_tensors;
	size_t n_state_shapes; /* sizes of dynamic ones among them */
	uint32_t shared_arena; /* 0: the methods share none, or this one has nothing there */
	/* Padding included. */
	size_t state_bytes[ET_N_STATES];
	size_t activation_bytes;

	struct et_plan_worker *workers;
	uint32_t n_workers;
};

/* --- plan.c --------------------------------------------------------------------------------------- */

/* What all steps answer that get no memory. */
enum et_status et_plan_no_memory(struct et_diag *diag);

/* --- decode.c ------------------------------------------------------------------------------------- */

/* Instructions, kernels, argument kinds; then the delegates' payloads. */
enum et_status et_plan_decode(struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag);
enum et_status et_plan_compile(struct et_plan *plan, const struct et_options *options, struct et_diag *diag);

enum et_access {
	ET_ACCESS_READ = 1,
	ET_ACCESS_WRITE = 2,
	ET_ACCESS_VIEW = 4, /* the slot's tensor is pointed at the memory of argument 0 */
};
/* Call @fn for each slot that a kernel or delegate call reads (or writes), lists' items included. */
typedef void (*et_access_fn)(void *arg, uint32_t slot, unsigned access);
void et_plan_visit(const struct et_plan *plan, const struct et_plan_instruction *instruction, unsigned want,
	et_access_fn fn, void *arg);
bool et_tag_is_value_list(uint8_t tag);
bool et_tag_is_scalar(uint8_t tag);

/* --- lifetime.c, dataflow.c, memory_plan.c ---------------------------------------------------------------- */

/* Who may share memory with whom, who is accessed when, which arguments need a look before each call. */
enum et_status et_lifetime_run(struct et_plan *plan, struct et_diag *diag);
uint32_t et_lifetime_root(const struct et_plan *plan, uint32_t slot);
/* Mark the slots that may be read before they are written. */
enum et_status et_dataflow_run(struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag);
/* Place every tensor, decide which inputs and outputs can be bound. */
enum et_status et_memory_layout(struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag);

struct et_sort_item {
	uint64_t key;
	uint32_t index;
};
/* By their keys, those of one key as they were. @room is for as many, and what is left there means nothing. */
void et_sort_items(struct et_sort_item *items, struct et_sort_item *room, size_t n);

#endif
