/* SPDX-License-Identifier: BSD-3-Clause */
/* Job: one inference request, from the packet that asks to the packet that answers.
 *
 *     IDLE -> QUEUED -> RUNNING -> DONE -> IDLE      and, between segments, RUNNING -> QUEUED;
 *     QUEUED -> DONE (cancelled, expired)
 *
 * A job is a member of its binding and holds a reference to it while it is not IDLE, so that nothing a worker reads
 * is freed. The thread that makes it DONE answers the client: there is one way to DONE, and it is taken once. */
#ifndef DAEMON_CLIENT_JOB_H
#define DAEMON_CLIENT_JOB_H

#include "daemon/queue/scheduler.h"
#include "daemon/queue/pool.h"
#include "ipc/message.h"
#include "runtime/method.h"

#include <stdatomic.h>

struct inf_binding;
struct inf_context;
struct inf_frame_entry;
struct et_profile;

enum inf_job_state {
	INF_JOB_IDLE,
	INF_JOB_QUEUED,
	INF_JOB_RUNNING,
	INF_JOB_DONE,
};

/* The one who answers the client: the thread that changes it from INF_ANSWER_OPEN. */
enum inf_job_answer {
	INF_ANSWER_OPEN,
	INF_ANSWER_WORKER, /* the thread that ended the job */
	/* The loop thread has, and the worker is still in the run: the job was given up, and its result is thrown
	 * away. GIVING_UP: while the loop thread sends that. STUCK: it is also counted in n_stuck, so that no other
	 * request of the model begins. */
	INF_ANSWER_GIVING_UP,
	INF_ANSWER_GIVEN_UP,
	INF_ANSWER_STUCK,
};

/* How the frame of its run is charged, see inf_binding_charge_frame. */
enum inf_frame_charge {
	INF_FRAME_FREE,    /* not charged: a program of the model folder */
	INF_FRAME_COVERED, /* paid for by the charge for the uploaded program: it has a frame for each worker */
	INF_FRAME_CHARGED, /* charged to the user while the job is in flight */
};

struct inf_job {
	struct inf_item item;
	_Atomic(uint32_t) state;             /* enum inf_job_state */
	uint64_t id;                         /* of the request */
	uint64_t arrived_ns;                 /* when its packet came */
	uint64_t started_ns;                 /* when its first segment began; valid if has_begun */
	uint64_t run_ns;                     /* time in segments so far */
	uint64_t cost_ns;                    /* the same, times the cores that each segment had */
	bool has_begun;                      /* its first segment has begun */
	uint32_t width;                      /* which one of the model: for the sizes of this request */
	uint32_t n_single_core, n_all_cores; /* segments so far, on one core and on all cores */
	struct inf_frame_entry *frame;
	enum inf_frame_charge frame_charge;
	struct et_run run;
	struct et_profile *profile; /* NULL: the client did not ask for one */
	struct inf_worker *worker;  /* runs the job, or waits for its delegate */
	bool is_off_home_queue;     /* in another queue than its home queue, see home_of in job.c */
	_Atomic(uint32_t) answer;   /* enum inf_job_answer */
};

void inf_job_init(struct inf_job *job);
/* The binding whose job @item is in. */
struct inf_binding *inf_job_binding(struct inf_item *item);
/* Whether the job is in flight. Loop thread. */
bool inf_job_is_busy(const struct inf_job *job);
/* Start request @id, whose packet came at @now_ns. On INF_OK the job will be answered; otherwise the caller answers
 * with @error, of @room bytes. Loop thread. */
enum inf_status inf_job_submit(struct inf_binding *binding, uint64_t id, const struct inf_infer *request,
	uint64_t now_ns, char *error, size_t room);
/* A waiting job: take it out of its queue and answer @status and @why. A running one: ask it to stop; it answers
 * CANCELLED unless it is done first. Nothing if it is IDLE. Loop thread. */
void inf_job_cancel(struct inf_binding *binding, enum inf_status status, const char *why);
/* The same for a waiting job; a running one goes on. Loop thread. */
void inf_job_stop_waiting(struct inf_binding *binding, enum inf_status status, const char *why);
/* Why requests of a model are refused while a worker is stuck in a given-up request of it. */
extern const char inf_job_stuck_text[];
/* Answer jobs whose deadline passed while they waited, and jobs that do not end although their deadline has passed or
 * they were cancelled; let spare workers serve in the place of the workers that are in these. Returns when to call
 * again; UINT64_MAX: no job has a deadline. Loop thread. */
uint64_t inf_jobs_expire(struct inf_context *context);

/* The events of a pool whose items are jobs; @self is not used. */
extern const struct inf_pool_events inf_job_events;

#endif
