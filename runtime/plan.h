/* SPDX-License-Identifier: BSD-3-Clause */
/* Plan: one method of a Program made ready to run; immutable and shared by every client.
 *
 * Making a Plan looks the kernels up, checks every argument against their signatures, lets the delegates
 * compile their payloads, checks the memory plan, and splits each arena into
 *     state         whatever an instruction may read before anything wrote it: it belongs to a client and
 *                   lives as long as the client's Method;
 *     activations   the rest: borrowed only while a run lasts.
 * ExecuTorch does this work again for each Method; here it is done once.
 *
 * How state is found: data flow over all branches, forwards, of what has certainly been written in this
 * run. A byte range (or a scalar slot) that some instruction may read without that is state; whatever
 * overlaps state joins it. In doubt, stateful. Where methods of a program share buffers (et_program_shared_bytes), all of
 * that arena is state, and lies in its own memory at the program's offsets, so that it is the same for each of them. */
#ifndef RUNTIME_PLAN_H
#define RUNTIME_PLAN_H

#include "runtime/delegate.h"
#include "runtime/kernel.h"
#include "runtime/program/program.h"

struct et_plan;

/* A backend that was opened, as Plans see it. */
struct et_backend_entry {
	const struct et_delegate_ops *ops;
	struct et_backend *backend;
};

/* What Plans may be built from. Immutable, outlives every Plan. */
struct et_registry {
	const struct et_kernel_table *const *tables;
	size_t n_tables;
	const struct et_backend_entry *backends;
	size_t n_backends;
	/* et_order_run; or NULL: tensors lie as the program says. */
	enum et_status (*order)(struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag);
};

struct et_queue_id {
	uint8_t kind; /* enum et_queue_kind */
	uint32_t device;
};

/* The queue of device @device of backend @backend. Every CPU device is cpu 0; GPUs and NPUs are numbered through
 * all backends in the registry's order. */
struct et_queue_id et_registry_queue(const struct et_registry *registry, size_t backend, uint32_t device);

/* Options of a model for any backends. All zeros: none. */
struct et_options {
	const struct et_option *items;
	uint32_t n;
};

/* Make @method (NULL: the only one, or "forward") of @program ready. @n_workers: how many lanes a worker pool
 * has; each gets its own contexts (see et_plan_prepare). @options are copied; NULL: none. Takes a reference on @program.
 * Any thread; slow.
 * Answers: ET_E_NOT_FOUND (no such method), the method's own refusal (see et_method_spec), ET_E_OPERATOR_MISSING (@diag
 * lists them), ET_E_BACKEND_MISSING (@diag: "Backend 'X' is not available. Available backends: [...]"),
 * ET_E_INVALID_PROGRAM, what a delegate's compile answers, ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_plan_new(struct et_plan **ret_plan, struct et_program *program, const char *method,
	const struct et_registry *registry, const struct et_options *options, uint32_t n_workers,
	const struct et_allocator *allocator, struct et_diag *diag);
/* Have the delegates keep what they made, so that the next load is faster (see et_source.store). Slow: reads and writes
 * files; for a thread that has nothing better to do, also while the plan is used. A failure costs nothing but
 * the next load's time. */
enum et_status et_plan_keep(const struct et_plan *plan, struct et_diag *diag);
struct et_plan *et_plan_ref(struct et_plan *plan);
/* All slots must have been released. NULL is fine; returns NULL. */
struct et_plan *et_plan_unref(struct et_plan *plan);

/* Make the contexts of slot @slot: @lanes holds one lane a backend of the registry, in its order, NULL where
 * this worker has none (delegates of that backend are then another worker's). Once a slot, on the thread
 * that owns the lanes. Runs on a slot that was not prepared answer ET_E_INVALID_STATE. */
enum et_status et_plan_prepare(struct et_plan *plan, uint32_t worker_index,
	struct et_worker_threads *const *thread_sets, struct et_diag *diag);
/* Have those contexts take now what their runs need: where sizes are fixed, or where the largest need no more than so much.
 * Else the largest that came by decide, since what they may be one day would be held for nothing. On the same thread, before
 * any run. What fails is left for a run to say. */
enum { ET_PLAN_WARM_BYTES = 4 << 20 };
void et_plan_warm(struct et_plan *plan, uint32_t worker_index);
/* Whether et_plan_prepare has anything to make. If not, any thread may do it, and et_plan_release for that slot. */
bool et_plan_needs_instances(const struct et_plan *plan, struct et_worker_threads *const *thread_sets);
bool et_plan_is_prepared(const struct et_plan *plan, uint32_t worker_index);
/* On the same thread, when no run uses the slot any more. Fine if it was not prepared. */
void et_plan_release(struct et_plan *plan, uint32_t worker_index);

/* One input or output as a client sees it. */
struct et_io_info {
	uint8_t tag;      /* TENSOR, INT, BOOL, DOUBLE, NONE, … */
	uint8_t type;     /* enum et_scalar_type, if a tensor */
	uint8_t dynamism; /* enum et_dynamism */
	uint8_t n_dims;
	const int32_t *sizes; /* the upper bound where dynamic */
	const uint8_t *dim_order;
	size_t n_bytes; /* at the largest */
	bool zero_copy; /* external memory can be bound in its place; else one copy, which is counted */
	/* Of an output that is a STRING: which (its chars), the program's own; NULL where another may be moved there. Else NULL. */
	const struct et_list_spec *text;
};

struct et_plan_info {
	const char *method;
	uint32_t n_inputs, n_outputs;
	const struct et_io_info *inputs, *outputs;
	uint32_t n_instructions;
	/* No kernel of it takes more steps in one call, whatever it is given, where a step is to read an element or two
	 * and compute with them; SIZE_MAX: there is no telling. */
	size_t n_most_steps;
	size_t n_state_bytes;  /* a client's, between runs */
	size_t n_shared_bytes; /* of those, what Methods of one Program can share: see et_method_new_with */
	/* Written when a Method is made or reset: its state and initial values, which are more than it where they overlap.
	 * UINT64_MAX at the most. */
	uint64_t n_reset_bytes;
	size_t n_activation_bytes; /* borrowed during a run */
	size_t n_frame_bytes;      /* the value table of a run */
	size_t n_delegate_bytes;   /* compiled payloads, once */
	size_t n_plan_bytes;       /* decoded structs, once */
	size_t n_constant_copies;  /* bytes of constants copied because the file had them unaligned */
	bool is_stateful;          /* runs of one Method must follow each other, in order */
	bool shares_activations;   /* a delegate uses memory where it lies if it was imported, see import_memory */
	struct et_queue_id first_queue;
};
const struct et_plan_info *et_plan_info(const struct et_plan *plan);
/* What the backend of delegate @index of @method is given to compile or to look at; n_args is 0 if nothing calls it, and
 * there are no options yet. */
struct et_payload et_payload_of(const struct et_program *program, const struct et_method_spec *method, uint32_t index);
/* Give @payload copies, in @pool, of those of @options (NULL: none) that are for @backend. False: no memory. */
bool et_payload_set_options(struct et_payload *payload, const struct et_options *options, const char *backend,
	struct et_pool *pool);
/* Borrowed, as long as the plan. */
const struct et_program *et_plan_program(const struct et_plan *plan);

#endif
