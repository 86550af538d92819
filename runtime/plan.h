/* SPDX-License-Identifier: BSD-3-Clause */
/* Plan: one method of a Program made ready to run. A Plan is immutable; all clients share it.
 *
 * et_plan_new looks up the kernels, checks every argument against the kernels' signatures, lets the delegates compile
 * their payloads, and checks the memory plan. It splits each planned arena into two parts:
 *     state         memory that an instruction may read before this run has written it (ExecuTorch's mutable buffers).
 *                   Each client has its own, which lives as long as the client's Method;
 *     activations   the rest. A run borrows this memory and returns it at its end.
 * ExecuTorch repeats this work each time it loads a method. Here it is done once per Plan.
 *
 * A forward data flow analysis over all branches finds the state (dataflow.c). It tracks what this run has certainly
 * written. A byte range or scalar value that an instruction may read without a certain write is state, and so is
 * every tensor that overlaps state. In doubt, a value is state. If the methods of a Program share mutable buffers
 * (et_program_shared_bytes), the whole arena of these buffers is state. It is a memory block of its own with the
 * Program's offsets, so the layout is the same for every method that shares it. */
#ifndef RUNTIME_PLAN_H
#define RUNTIME_PLAN_H

#include "runtime/delegate.h"
#include "runtime/kernel.h"
#include "runtime/program/program.h"

struct et_plan;

/* A backend that was opened successfully. */
struct et_backend_entry {
	const struct et_delegate_ops *ops;
	struct et_backend *backend;
};

/* The kernels and backends from which Plans are built. Immutable; it must outlive every Plan. */
struct et_registry {
	const struct et_kernel_table *const *tables;
	size_t n_tables;
	const struct et_backend_entry *backends;
	size_t n_backends;
	/* Chooses dim orders for tensors between delegates: et_order_run. NULL: every tensor keeps the program's dim
	 * order. */
	enum et_status (*order)(struct et_plan *plan, const struct et_allocator *allocator, struct et_diag *diag);
};

struct et_queue_id {
	uint8_t kind; /* enum et_queue_kind */
	uint32_t device;
};

/* Return the queue for device number @device of the backend at index @backend. All CPU devices share queue "cpu" 0;
 * GPUs and NPUs are numbered through all backends, in the registry's order. */
struct et_queue_id et_registry_queue(const struct et_registry *registry, size_t backend, uint32_t device);

/* Options of one model, for any backends. All zeros: no options. */
struct et_options {
	const struct et_option *items;
	uint32_t n;
};

/* Make method @method of @program ready to run. @method NULL: the only method, or "forward". @n_workers: how many
 * workers will run the Plan; each gets its own delegate instances (see et_plan_prepare). @options are copied; NULL:
 * none. The Plan takes a reference on @program. Any thread; slow.
 * Answers: ET_E_NOT_FOUND (no such method), the refusal that the Program recorded for this method (see
 * et_method_spec), ET_E_OPERATOR_MISSING (@diag lists the operators), ET_E_BACKEND_MISSING (@diag: "Backend 'X' is
 * not available. Available backends: [...]"), ET_E_INVALID_PROGRAM, what a delegate's compile answers,
 * ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_plan_new(struct et_plan **ret_plan, struct et_program *program, const char *method,
	const struct et_registry *registry, const struct et_options *options, uint32_t n_workers,
	const struct et_allocator *allocator, struct et_diag *diag);
/* Let the delegates save what compile made, so that the next load is faster (see et_source.store). Slow: it reads
 * and writes files, so call it on a background thread. The Plan may be in use meanwhile. After a failure the next
 * load compiles again; there is no other effect. */
enum et_status et_plan_keep(const struct et_plan *plan, struct et_diag *diag);
struct et_plan *et_plan_ref(struct et_plan *plan);
/* Call et_plan_release for every prepared worker first. NULL is fine; returns NULL. */
struct et_plan *et_plan_unref(struct et_plan *plan);

/* Make the delegate instances for worker @worker_index. @thread_sets has one entry per backend of the registry, in
 * its order: this worker's threads for that backend, or NULL if delegates of that backend run on another worker.
 * @queue: the worker's, so delegates on other devices of these backends get no instance; NULL: it runs those of all.
 * Call it once per worker, on the thread that owns @thread_sets. Runs on a worker that was not prepared answer
 * ET_E_INVALID_STATE. */
enum et_status et_plan_prepare(struct et_plan *plan, uint32_t worker_index,
	struct et_worker_threads *const *thread_sets, const struct et_queue_id *queue, struct et_diag *diag);
/* Let the worker's instances allocate now what their runs need, so that no run has to. Only for instances whose
 * arguments all have fixed sizes, or whose estimated memory (instance_bytes) is at most ET_PLAN_WARM_BYTES. Other
 * instances grow with the sizes that really arrive, so that no memory is held for sizes that never come. Same thread
 * as et_plan_prepare, before any run. Answers as a delegate does that lacks memory; the caller then releases the
 * worker. Any other failure is ignored: the next run reports it. */
enum { ET_PLAN_WARM_BYTES = 4 << 20 };
enum et_status et_plan_warm(struct et_plan *plan, uint32_t worker_index, struct et_diag *diag);
/* Whether et_plan_prepare has instances to make. If not, any thread may call et_plan_prepare and et_plan_release for
 * this worker. */
bool et_plan_needs_instances(const struct et_plan *plan, struct et_worker_threads *const *thread_sets,
	const struct et_queue_id *queue);
/* What the instances of one worker take, as the delegates estimate it before there are any. */
struct et_plan_need {
	uint64_t own;    /* of these instances alone */
	uint64_t shared; /* at the most of what they share with all other instances on the worker's threads */
};
/* Estimate what et_plan_prepare with these @thread_sets and @queue, and et_plan_warm, will take; with @is_largest what
 * runs of the largest sizes will take, too. Any thread. */
struct et_plan_need et_plan_estimate(const struct et_plan *plan, struct et_worker_threads *const *thread_sets,
	const struct et_queue_id *queue, bool is_largest);
bool et_plan_is_prepared(const struct et_plan *plan, uint32_t worker_index);
/* Free the worker's instances. Same thread as et_plan_prepare, when no run uses the worker any more. Fine if the
 * worker was not prepared. */
void et_plan_release(struct et_plan *plan, uint32_t worker_index);

/* One input or output as a client sees it. */
struct et_io_info {
	uint8_t tag;      /* enum et_tag: TENSOR, INT, BOOL, DOUBLE, NONE, … */
	uint8_t type;     /* enum et_scalar_type, if a tensor */
	uint8_t dynamism; /* enum et_dynamism */
	uint8_t n_dims;
	const int32_t *sizes; /* the upper bound if dynamic */
	const uint8_t *dim_order;
	size_t n_bytes; /* at the largest sizes */
	bool zero_copy; /* a run can use the client's memory directly; otherwise a run copies, and counts the copy */
	/* The string of a STRING output, if it is a constant of the program. NULL if a MoveCall may put another
	 * string there, and for all other tags. */
	const struct et_list_spec *text;
};

struct et_plan_info {
	const char *method;
	uint32_t n_inputs, n_outputs;
	const struct et_io_info *inputs, *outputs;
	uint32_t n_instructions;
	/* An upper bound on the steps that one kernel call takes, for any input. One step reads one or two elements
	 * and computes with them. SIZE_MAX: unknown. */
	size_t n_most_steps;
	/* A rough estimate of the same for the longest kernel call, at the largest sizes: a thousand million of them
	 * take about a second. Delegate calls are not estimated. */
	size_t n_likely_steps;
	size_t n_state_bytes; /* one client's state, between runs */
	/* part of n_state_bytes: what Methods of one Program can share, see et_method_new_with */
	size_t n_shared_bytes;
	/* Bytes written when a Method is made or reset: its state plus its initial values. More than n_state_bytes
	 * where initial values overlap. At most UINT64_MAX. */
	uint64_t n_reset_bytes;
	size_t n_activation_bytes;      /* borrowed during a run */
	size_t n_value_table_bytes;     /* the value table of a run */
	size_t n_delegate_bytes;        /* compiled payloads; counted once, clients share them */
	size_t n_plan_bytes;            /* decoded structs; counted once, clients share them */
	uint32_t n_elided_copies;       /* outputs of kernels that copy which lie where their elements are anyway */
	uint32_t n_sequences;           /* of instructions that one call may compute together */
	size_t n_copied_constant_bytes; /* bytes of constants copied because they are not aligned in the file */
	size_t n_instance_bytes;        /* estimate of what the delegates' instances of one worker take; may saturate */
	bool is_stateful;               /* runs of one Method must happen one after the other, in order */
	/* A run that is cut short leaves the state as it was before: it is small, and no delegate holds a part of it.
	 * What a Method shares with one of another Plan is rolled back only if that one's Plan says so, too. */
	bool rolls_back;
	bool shares_activations; /* a delegate uses imported memory without a copy, see import_memory */
	/* Another process computes a part (is_elsewhere) and may leave an output unwritten. Then a frame shows what
	 * the run before has left in it: clear the activations (et_frame_poison) before another user's run. */
	bool may_leave_unwritten;
	struct et_queue_id first_queue;
};
const struct et_plan_info *et_plan_info(const struct et_plan *plan);
/* Describe delegate @index of @method for the backend's compile or probe. n_args is 0 if no instruction calls the
 * delegate. The result has no options yet. */
struct et_payload et_payload_of(const struct et_program *program, const struct et_method_spec *method, uint32_t index);
/* Give @payload those of @options (NULL: none) that are for @backend, copied into @pool. False: no memory. */
bool et_payload_set_options(struct et_payload *payload, const struct et_options *options, const char *backend,
	struct et_pool *pool);
/* Borrowed; valid as long as the Plan. */
const struct et_program *et_plan_program(const struct et_plan *plan);

#endif
