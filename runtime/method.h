/* SPDX-License-Identifier: BSD-3-Clause */
/* Method, frame and run: executing a Plan.
 *
 *     Method  what one client owns between runs: its state. Bytes if the model has none.
 *     frame   what one run borrows: value table and activations. Belongs to a Plan, is reused by everybody.
 *     run     one execution: a Method, a frame, and the memory its inputs and outputs are bound to.
 *
 * A stateless Method may have any number of runs at once, each with its own frame; a stateful one has one,
 * and the caller sees to that. A run advances segment by segment: et_run_advance returns when the next
 * instruction belongs to another queue, and the caller takes it there. Nothing in here blocks, allocates
 * (but scratch that has not reached its peak), or locks. */
#ifndef RUNTIME_METHOD_H
#define RUNTIME_METHOD_H

#include "runtime/plan.h"

#include <stdatomic.h>

/* --- Method --------------------------------------------------------------------------------------- */

struct et_method;

/* Takes a reference on @plan. State starts as the program says: initial values, else zeros. @with: NULL, or another Method,
 * whose mutable buffers that the methods of the Program share (see et_program_shared_bytes) are to be the new one's, too,
 * as they are now. Runs of Methods that share must then follow each other as if all were one Method's, and @with must
 * outlive every use of the new one but et_method_free. Any thread.
 * Answers: ET_E_INVALID_ARGUMENT (@with is of another Program, or one of the two has no such buffers). */
enum et_status et_method_new_with(struct et_method **ret_method, struct et_plan *plan, const struct et_method *with,
	const struct et_allocator *allocator, struct et_diag *diag);
static inline enum et_status et_method_new(struct et_method **ret_method, struct et_plan *plan,
	const struct et_allocator *allocator, struct et_diag *diag)
{
	return et_method_new_with(ret_method, plan, NULL, allocator, diag);
}
/* No run may be using it. On the thread of the slot that ran it if the Plan has a stateful delegate, and before
 * that slot is released. NULL is fine; returns NULL. */
struct et_method *et_method_free(struct et_method *method);
/* Back to the initial state, the shared one for all who share it; also ends STATE_LOST. No run may be using it, nor one of
 * those. */
void et_method_reset(struct et_method *method);
/* A run of a stateful Method, or of one that shares its state, was cut short and the state could not be rolled back (it is
 * larger than 64 KiB, or a delegate holds part of it): runs answer ET_E_STATE_LOST until it is reset. */
bool et_method_is_lost(const struct et_method *method);
/* The state is lost although no run of this Method was cut short: it is to go on where another left off. Nothing if it
 * has no state. No run may be using it. */
void et_method_lose(struct et_method *method);
struct et_plan *et_method_plan(const struct et_method *method);

/* --- frame ---------------------------------------------------------------------------------------- */

struct et_frame;

/* @small for the value table, @arena for the activations (asked for page-sized pieces), which are left as they come: no
 * run relies on what is in them, and pages that no run reaches are never touched. Takes a reference on @plan. Any
 * thread. */
enum et_status et_frame_new(struct et_frame **ret_frame, struct et_plan *plan, const struct et_allocator *small,
	const struct et_allocator *arena, struct et_diag *diag);
/* NULL is fine; returns NULL. */
struct et_frame *et_frame_free(struct et_frame *frame);
/* Fill the activations with @byte: tests do, with a NaN pattern, to show that no run relies on them. */
void et_frame_poison(struct et_frame *frame, int byte);

/* --- run ------------------------------------------------------------------------------------------ */

/* One input or output of one run. */
struct et_io {
	uint8_t tag; /* in: as the Plan's et_io_info. out: set by the run. */
	uint8_t n_dims;
	bool copied; /* out: this one took a copy */
	union {
		int64_t i;
		double d;
		bool b;
		struct {
			void *data;     /* bound memory, dense in the Plan's dim order; readable 16 bytes past its end.
			                * Outputs: may be NULL for planned ones, read them with et_run_output then. */
			size_t n_bytes; /* inputs: exactly what sizes say; outputs: room, at least the Plan's n_bytes */
		} tensor;
	};
	int32_t sizes[ET_MAX_DIMS]; /* inputs: given; outputs: as they came out */
};

enum et_stop {
	ET_STOP_DONE,    /* the last instruction ran; call et_run_end */
	ET_STOP_QUEUE,   /* go on with et_run_advance on run->queue */
	ET_STOP_PENDING, /* a delegate works; its completion comes; then et_run_resume, then advance */
	ET_STOP_FAILED,  /* run->status says how; call et_run_end */
};

/* What the worker brings along. */
struct et_worker_env {
	uint32_t worker_index;            /* whose contexts to use */
	struct et_queue_id queue;         /* where this worker belongs */
	struct et_pool *scratch;          /* this worker's */
	const struct et_compute *compute; /* may be NULL */
	/* Both may be NULL: no clock, no deadline. Nanoseconds, monotonic. */
	uint64_t (*now_ns)(void *self);
	void *clock;
	/* Called between instructions; what it answers ends the segment. May be NULL. */
	bool (*should_yield)(void *self);
	void *yield_self;
};

struct et_plan_instance;

struct et_run {
	struct et_method *method;
	struct et_frame *frame;
	struct et_io *inputs, *outputs;

	_Atomic(bool) cancelled;         /* anybody may set it; the run stops at the next instruction */
	uint64_t deadline_ns;            /* 0 = none; stops at the next instruction once it has passed */
	struct et_completion completion; /* for asynchronous delegates; done may be NULL if there are none */
	const struct et_trace *trace;    /* NULL: nobody wants to know how long what takes */

	/* Set by the run. */
	struct et_queue_id queue; /* where it goes next */
	enum et_status status;
	uint64_t n_copied_bytes;          /* inputs and outputs that could not be bound */
	struct et_diag diag;              /* why it failed */
	uint32_t pc;                      /* next instruction */
	uint32_t n_executed;              /* instructions so far: a bound against programs that loop for ever */
	struct et_plan_instance *pending; /* what an asynchronous delegate works on */
	struct et_plan_instance *begun;   /* the same, until the next one begins */
};

/* Bind everything and put the program counter at the start. @run's first block of members is the caller's
 * to fill; inputs and outputs arrays have as many entries as the Plan says and must last until et_run_end.
 * Borrows @run->frame, which nobody else may use until et_run_end.
 * Answers: ET_E_INVALID_ARGUMENT (an input's dtype, rank, sizes or memory do not fit: @run->diag says
 * "input 0: sizes [1,3,10,10], expected [1,3,224,224]"), ET_E_STATE_LOST. On failure do not call et_run_end. */
enum et_status et_run_begin(struct et_run *run);
/* Run instructions until a boundary. On the worker's thread. */
enum et_stop et_run_advance(struct et_run *run, const struct et_worker_env *env);
/* A pending delegate call ended with @status. On whichever thread will advance next. */
void et_run_resume(struct et_run *run, enum et_status status, const char *reason);
/* After ET_STOP_PENDING, where run->completion.will_wait says so: on the thread that advanced, before anything else.
 * Helps the delegate to call the completion, if it can be helped; who needs to know still waits for that. Once the
 * run's deadline has passed the delegate is asked to end early. */
void et_run_wait(struct et_run *run);
/* Cancel, and ask a pending delegate to end early; its completion still comes. Any thread, but not while another
 * may be in et_run_resume or et_run_end of this run. */
void et_run_cancel(struct et_run *run);
/* Not while a delegate is pending. Hand the outputs over, keep the state, let the frame go. Returns the run's
 * final status: ET_OK, or why it failed (outputs are then undefined, and a stateful Method is rolled back or
 * lost). */
enum et_status et_run_end(struct et_run *run);
/* The tensor of output @index, between ET_STOP_DONE and the frame's next use. NULL if it is not a tensor. */
const struct et_tensor *et_run_output(const struct et_run *run, uint32_t index);

#endif
