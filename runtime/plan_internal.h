/* SPDX-License-Identifier: BSD-3-Clause */
/* The inside of a Plan. Only the files that make a Plan (plan*.c, decode.c, lifetime.c, overlap.c, dataflow.c,
 * dim_order.c, memory_plan.c, copy_elision.c, sequence.c) and those that run one (frame.c, method.c, binding.c, run.c)
 * include this.
 *
 * et_plan_new works in this order:
 *     decode      instructions, kernels, delegates' payloads
 *     lifetime    aliases, lifetimes, arguments that need a check before each call
 *     overlap     delegate calls whose arguments share memory are refused
 *     dataflow    which values are state
 *     order       the dim order of tensors between delegates (et_registry.order)
 *     memory      where each tensor lies, which inputs and outputs can be bound, which copies are elided
 *     sequence    instructions that one call computes together
 *     workers     room for each worker's delegate instances
 * Afterwards only the workers' instances change, and what is _Atomic. */
#ifndef RUNTIME_PLAN_INTERNAL_H
#define RUNTIME_PLAN_INTERNAL_H

#include "runtime/base/ref.h"
#include "runtime/plan.h"

#include <stdatomic.h>

#define ET_NO_TENSOR UINT32_MAX
/* Memory of tensors begins at a multiple of this: a cache line. */
enum { ET_PLAN_LINE = 64 };

/* Memory that outlives runs: a Method's private state, and the state that Methods of one Program may share. */
enum et_state_index { ET_STATE_PRIVATE, ET_STATE_SHARED, ET_N_STATES };
/* A state up to this size is copied before each run, so that a run that is cut short can be rolled back. */
enum { ET_ROLLBACK_MAX = 64 * 1024 };

/* An argument that must be checked before each call, because its value or its memory may change from run to run. */
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
	void *held; /* from the kernel's hold; NULL: nothing held */
};

/* A sequence of instructions that was found. */
struct et_plan_sequence {
	const struct et_kernel_sequence *kernels;
	uint32_t first_args[ET_SEQUENCE_MAX]; /* of each name: as an instruction's first_arg */
};

struct et_plan_instruction {
	uint8_t op;     /* enum et_op */
	bool has_queue; /* only kernel and delegate calls have a queue; other instructions run on the current one */
	bool has_view;  /* an output is a view of another tensor */
	bool runs_once; /* all that the kernel would copy is there: it only checks arguments that never change */
	bool may_alias; /* an output may be the same tensor as another argument */
	/* runs_once, and a run has called the kernel without an error: no run calls it any more. */
	_Atomic(bool) is_skipped;
	uint32_t n_args;    /* passed to the call; the repeated outputs at the end are not */
	uint32_t first_arg; /* index into the Plan's args and the frame's argument pointers */
	uint32_t first_check, n_checks;
	uint32_t index; /* KERNEL: operator; DELEGATE: delegate; JUMP_FALSE: destination */
	struct et_queue_id queue;
	const struct et_plan_sequence *sequence; /* KERNEL: one that begins here; NULL: none */
};

/* The Plan's facts about one value of the value table, which is named by its value index. */
struct et_plan_value {
	uint32_t tensor; /* TENSOR: index into tensors */
	uint32_t alias;  /* union-find parent: values whose tensors may share memory through a MoveCall or a view */
	/* The lifetime: first and last instruction that uses the value, counted from 1. 0 stands for the binding of
	 * inputs, n_instructions + 1 for that of outputs. first > last: the value is never used. */
	uint32_t first, last;
	uint32_t seen;       /* the last instruction, counted from 1, that used it; for the search for aliases */
	bool is_moved : 1;   /* a MoveCall rebinds it */
	bool is_shared : 1;  /* its alias class has other members */
	bool is_view : 1;    /* a kernel makes it a view of another tensor */
	bool is_freed : 1;   /* a FreeCall releases its memory */
	bool is_written : 1; /* an instruction writes the scalar or the tensor's memory */
	bool is_used : 1;    /* an instruction reads or writes it, or it is an output */
	bool is_input : 1, is_output : 1;
	bool is_state : 1;       /* may be read before this run has written it */
	bool is_borrowing : 1;   /* may be read for bytes that another tensor at the same place wrote */
	bool is_class_state : 1; /* at the root of an alias class: every member is state */
	/* TENSOR: its spec with the dim order of et_order_run; NULL: the program's */
	const struct et_tensor_spec *reordered;
};

enum et_place {
	ET_PLACE_NOWHERE, /* its data is set at run time: an unplanned input or output, or a view */
	ET_PLACE_CONSTANT,
	ET_PLACE_ACTIVATION,
	ET_PLACE_STATE,  /* this and all later ones are state */
	ET_PLACE_SHARED, /* state that Methods of the Program share */
};

struct et_plan_tensor {
	const struct et_tensor_spec *spec;
	uint32_t value;
	uint8_t place;           /* enum et_place */
	size_t offset;           /* ACTIVATION, STATE, SHARED: from the start of that memory block */
	const uint8_t *constant; /* CONSTANT */
	/* sizes, then strides, as exported; never written. If dynamic, it points into the Plan's shapes. */
	int32_t *shape;
};

struct et_plan_delegate {
	const struct et_delegate_ops *ops;
	size_t backend;         /* index into the registry */
	struct et_model *model; /* NULL if no instruction calls the delegate */
	struct et_model_info info;
	struct et_queue_id queue;
	bool is_called;
};

/* A delegate instance, and whether an asynchronous run is using it. */
struct et_plan_instance {
	struct et_instance *instance;
	const struct et_delegate_ops *ops;
	_Atomic(bool) is_busy;
};

struct et_plan_worker {
	_Atomic(bool) is_prepared;
	struct et_worker_threads **thread_sets; /* one per backend of the registry */
	struct et_plan_instance *instances;     /* one per delegate */
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
	uint32_t n_stateful_delegates, n_delegates_per_run;
	struct et_plan_instruction *instructions;
	uint32_t *args; /* value indices of all instructions */
	uint32_t n_args;
	struct et_check *checks;
	bool has_back_jump;

	struct et_plan_value *values;
	/* The first n_volatile are those whose header (et_tensor) a run may change. */
	struct et_plan_tensor *tensors;
	uint32_t n_tensors, n_volatile;
	const int32_t *shapes; /* sizes and strides of dynamic tensors, one after the other */
	size_t n_shapes;

	uint32_t *scalars; /* values whose EValue a run may change; tensors too, where a MoveCall rebinds them */
	uint32_t n_scalars;
	uint32_t *state_scalars; /* scalar values that outlive the run */
	uint32_t n_state_scalars;
	uint32_t *state_tensors; /* indices into tensors: those that lie in state */
	uint32_t n_state_tensors;
	size_t n_state_shapes; /* number of sizes of the dynamic ones among them */
	uint32_t shared_arena; /* ET_SHARED_ARENA; 0: no shared mutable buffers, or this method uses none of them */
	/* Alignment included. */
	size_t state_bytes[ET_N_STATES];
	size_t activation_bytes;

	struct et_plan_worker *workers;
	uint32_t n_workers;
};

/* --- plan.c --------------------------------------------------------------------------------------- */

/* Write "no memory for the plan" and return the status for it. */
enum et_status et_plan_no_memory(struct et_diag *diag);

/* --- plan_steps.c, plan_worker.c ------------------------------------------------------------------------------ */

/* Compute n_most_steps of et_plan_info. */
size_t et_plan_most_steps(const struct et_plan *plan);
/* Compute n_likely_steps of et_plan_info. */
size_t et_plan_likely_steps(const struct et_plan *plan);
/* Make room for @n_workers workers; none of them is prepared yet. */
enum et_status et_plan_make_workers(struct et_plan *plan, uint32_t n_workers, struct et_diag *diag);

/* --- decode.c ------------------------------------------------------------------------------------- */

/* et_plan_decode: instructions, kernels, kinds of arguments. et_plan_compile: the delegates' payloads. */
enum et_status et_plan_decode(struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag);
enum et_status et_plan_compile(struct et_plan *plan, const struct et_options *options, struct et_diag *diag);

enum et_access {
	ET_ACCESS_READ = 1,
	ET_ACCESS_WRITE = 2,
	ET_ACCESS_VIEW = 4, /* the tensor is pointed at the memory of argument 0 */
};
/* Call @fn for each value that a kernel or delegate call accesses in one of the ways in @want, items of lists
 * included. @access tells @fn how. */
typedef void (*et_access_fn)(void *arg, uint32_t value_index, unsigned access);
void et_plan_visit(const struct et_plan *plan, const struct et_plan_instruction *instruction, unsigned want,
	et_access_fn fn, void *arg);
bool et_tag_is_value_list(uint8_t tag);
bool et_tag_is_scalar(uint8_t tag);

/* --- lifetime.c, overlap.c, dataflow.c, memory_plan.c ------------------------------------------------------ */

/* Find aliases and lifetimes, and the arguments that need a check before each call. */
enum et_status et_lifetime_run(struct et_plan *plan, struct et_diag *diag);
uint32_t et_lifetime_root(const struct et_plan *plan, uint32_t value_index);
/* Refuse a delegate call with an output that shares memory with another argument: ET_E_INVALID_PROGRAM.
 * et_overlap_check looks at memory that is known in advance; et_overlap_check_args, before a call, at the rest: the
 * call's first @n_inputs of @n_args are read, the others written. */
enum et_status et_overlap_check(const struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag);
enum et_status et_overlap_check_args(struct et_evalue *const *args, uint32_t n_inputs, uint32_t n_args,
	struct et_diag *diag);
/* Mark the values that may be read before they are written: the state. */
enum et_status et_dataflow_run(struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag);
/* Give every tensor its place, and decide which inputs and outputs can be bound. */
enum et_status et_memory_layout(struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag);
/* Give outputs of kernels that only copy the place of their elements in the input: change @offsets, and mark calls that
 * then need one success only. One item a value: @places, an enum et_place, and @offsets, from the start of that memory
 * block. @n_bytes: what all activations take. @n_comparisons_left: how many pairs of tensors may be compared; counted
 * down. Takes scratch memory from @pool. ET_E_MEMORY_ALLOCATION_FAILED: none is left. */
enum et_status et_copy_elision_run(struct et_plan *plan, const uint8_t *places, size_t *offsets, size_t n_bytes,
	size_t *n_comparisons_left, struct et_pool *pool);

/* Find the sequences of instructions that one call can compute (et_kernel_sequence). */
enum et_status et_sequence_run(struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag);

#endif
