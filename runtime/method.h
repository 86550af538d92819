/* SPDX-License-Identifier: BSD-3-Clause */
/* Method, frame and run: executing a Plan.
 *
 *     Method  what one client owns between runs: its state. A few bytes if the model has none.
 *     frame   what one run borrows: value table and activations. It belongs to a Plan; runs of all clients reuse it.
 *     run     one execution: a Method, a frame, and the memory that its inputs and outputs are bound to.
 *
 * A stateless Method may have any number of runs at once, each with its own frame. A stateful Method may have one;
 * the caller ensures that. A run advances segment by segment: et_run_advance returns when the next instruction
 * belongs to another queue, and the caller continues the run there.
 *
 * et_run_begin, et_run_advance, et_run_resume and et_run_end neither block nor take a lock, unless a delegate does, and
 * allocate only from env->scratch, until that has reached its peak. et_run_wait blocks. Making a Method or a frame
 * allocates memory. */
#ifndef RUNTIME_METHOD_H
#define RUNTIME_METHOD_H

#include "runtime/plan.h"

#include <stdatomic.h>

/* --- Method --------------------------------------------------------------------------------------- */

struct et_method;

/* Make a Method. It takes a reference on @plan. Its state starts with the program's initial values, else with zeros.
 * @with: NULL, or another Method of the same Program; the new Method then shares its mutable buffers, as they are
 * now (see et_program_shared_bytes). Runs of Methods that share must follow each other as if all were runs of one
 * Method. @with must outlive every use of the new Method except et_method_free. Any thread.
 * Answers: ET_E_INVALID_ARGUMENT (@with is of another Program, or one of the two methods has no shared buffers),
 * ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_method_new_with(struct et_method **ret_method, struct et_plan *plan, const struct et_method *with,
	const struct et_allocator *allocator, struct et_diag *diag);
static inline enum et_status et_method_new(struct et_method **ret_method, struct et_plan *plan,
	const struct et_allocator *allocator, struct et_diag *diag)
{
	return et_method_new_with(ret_method, plan, NULL, allocator, diag);
}
/* No run may be using it. If the Plan has a stateful delegate, call it on the thread of the worker that ran the
 * Method, before et_plan_release for that worker. NULL is fine; returns NULL. */
struct et_method *et_method_free(struct et_method *method);
/* Return the state to its initial values, shared state too (for all Methods that share it). This also ends
 * ET_E_STATE_LOST. No run may be using this Method or one that shares its state. */
void et_method_reset(struct et_method *method);
/* Whether the state is lost: a run of this Method, or of one that shares its state, was cut short, and the state
 * could not be rolled back (it is larger than 64 KiB, or a delegate holds a part of it). Runs answer ET_E_STATE_LOST
 * until et_method_reset. */
bool et_method_is_lost(const struct et_method *method);
/* Declare the state lost, although no run of this Method was cut short: it should continue where another Method
 * stopped, whose state is gone. No effect without state. No run may be using it. */
void et_method_lose(struct et_method *method);
struct et_plan *et_method_plan(const struct et_method *method);

/* --- frame ---------------------------------------------------------------------------------------- */

struct et_frame;

/* Make a frame. @small gives memory for the value table, @arena for the activations (asked for page-sized pieces).
 * The activations are not cleared: no run relies on their contents, and pages that no run uses are never touched.
 * The frame takes a reference on @plan. Any thread.
 * Answers: ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_frame_new(struct et_frame **ret_frame, struct et_plan *plan, const struct et_allocator *small,
	const struct et_allocator *arena, struct et_diag *diag);
/* NULL is fine; returns NULL. */
struct et_frame *et_frame_free(struct et_frame *frame);
/* Fill the activations with @byte: zeros where a run must not see what the run before has left (may_leave_unwritten).
 * Tests use a NaN pattern, to show that no run relies on their contents. */
void et_frame_poison(struct et_frame *frame, int byte);

/* --- run ------------------------------------------------------------------------------------------ */

/* One input or output of one run. */
struct et_io {
	uint8_t tag; /* in: as in the Plan's et_io_info; out: set by the run */
	uint8_t n_dims;
	bool copied; /* out: whether this one was copied */
	union {
		int64_t i;
		double d;
		bool b;
		struct {
			/* the memory to bind, dense in the Plan's dim order, readable 16 bytes past its end.
			 * Outputs: NULL is allowed if the program plans memory for it; read the output with
			 * et_run_output then. */
			void *data;
			/* inputs: exactly what sizes need; outputs: room, at least the Plan's n_bytes */
			size_t n_bytes;
		} tensor;
	};
	int32_t sizes[ET_MAX_DIMS]; /* inputs: given by the caller; outputs: set by the run */
};

enum et_stop {
	ET_STOP_DONE,    /* the last instruction ran; call et_run_end */
	ET_STOP_QUEUE,   /* call et_run_advance again, on a worker of run->queue */
	ET_STOP_PENDING, /* a delegate is working; after its completion call et_run_resume, then advance */
	ET_STOP_FAILED,  /* run->status says why; call et_run_end */
};

/* The environment that a worker provides to the runs that it advances. */
struct et_worker_env {
	uint32_t worker_index;            /* whose delegate instances to use */
	struct et_queue_id queue;         /* the worker's queue */
	struct et_pool *scratch;          /* the worker's own */
	const struct et_compute *compute; /* may be NULL */
	/* now_ns: monotonic time in nanoseconds. May be NULL: deadlines are then ignored. */
	uint64_t (*now_ns)(void *self);
	void *clock;
	/* Called between instructions; true ends the segment. May be NULL. */
	bool (*should_yield)(void *self);
	void *yield_self;
};

struct et_kernel;
struct et_plan_instance;

struct et_run {
	struct et_method *method;
	struct et_frame *frame;
	struct et_io *inputs, *outputs;

	_Atomic(bool) cancelled;         /* any thread may set it; the run stops as soon as its kernel looks */
	uint64_t deadline_ns;            /* 0: none. Once it has passed, the run stops as soon as its kernel looks. */
	struct et_completion completion; /* for asynchronous delegates; done may be NULL if there are none */
	const struct et_trace *trace;    /* gets the times of the instructions; NULL: not measured */

	/* Set by the run. */
	struct et_queue_id queue; /* the queue where it continues */
	enum et_status status;
	uint64_t n_copied_bytes;          /* bytes of inputs and outputs that could not be bound */
	uint64_t device_ns;               /* that devices worked on it, as far as delegates say */
	struct et_diag diag;              /* why it failed */
	uint32_t pc;                      /* next instruction */
	uint32_t n_executed;              /* instructions so far; limits programs that loop forever */
	struct et_plan_instance *pending; /* the instance with an asynchronous call in progress */
	/* The instance whose asynchronous call began last: `pending`, but still set after the call has ended, for
	 * et_run_wait. The next call replaces it. */
	struct et_plan_instance *begun;
	struct et_plan_instance *unfinished; /* the instance whose call answered ET_UNFINISHED; NULL: none */
};

/* Start a run: check and bind inputs and outputs, and set the program counter to the start. The caller fills @run's
 * first block of members. The inputs and outputs arrays have as many entries as the Plan says and must stay valid
 * until et_run_end. Borrows @run->frame, which no other run may use until et_run_end.
 * Answers: ET_E_INVALID_ARGUMENT (dtype, rank, sizes or memory of an input or output do not fit; @run->diag says
 * e.g. "input 0: sizes [1,3,10,10], expected [1,3,224,224]"), ET_E_STATE_LOST, ET_E_INVALID_STATE. On failure do not
 * call et_run_end. */
enum et_status et_run_begin(struct et_run *run);
/* Run instructions until the run must stop. On the worker's thread. */
enum et_stop et_run_advance(struct et_run *run, const struct et_worker_env *env);
/* Tell the run that a pending delegate call ended with @status. On the thread that will advance it next. */
void et_run_resume(struct et_run *run, enum et_status status, const char *reason);
/* Wait for a pending delegate call. Call it after ET_STOP_PENDING if run->completion.will_wait is set, on the thread
 * that advanced, before anything else. The delegate may then call the completion from this thread; a caller that
 * needs the result still waits for the completion. Once the run's deadline has passed the delegate is asked to end
 * early. */
void et_run_wait(struct et_run *run);
/* Cancel the run, and ask a pending delegate to end early; its completion still comes. Any thread, but not while
 * another thread may be in et_run_resume or et_run_end of this run. */
void et_run_cancel(struct et_run *run);
/* If a delegate is pending, let it leave the cores to others until it has ended. Any thread, but as et_run_cancel. */
void et_run_give_way(const struct et_run *run);
/* Finish the run: copy outputs where necessary, keep the state, and let the frame go. Not while a delegate is
 * pending. Returns the run's final status: ET_OK, or why it failed. After a failure the outputs are undefined and a
 * stateful Method is rolled back or lost. */
enum et_status et_run_end(struct et_run *run);
/* What the next instruction of a run that has begun calls; after a failure, what has failed: a delegate, then the index
 * of its backend in the registry; else -1 with the kernel, or NULL for other instructions, in *ret_kernel. Until the
 * next run begins. */
int et_run_callee(const struct et_run *run, const struct et_kernel **ret_kernel);
/* The tensor of output @index, valid between ET_STOP_DONE and the frame's next use. NULL if it is not a tensor. */
const struct et_tensor *et_run_output(const struct et_run *run, uint32_t index);

#endif
