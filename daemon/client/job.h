/* SPDX-License-Identifier: BSD-3-Clause */
/* Job: one request, from the packet that asks to the packet that answers.
 *
 *     IDLE -> QUEUED -> RUNNING -> DONE -> IDLE      and, between segments, RUNNING -> QUEUED;
 *     QUEUED -> DONE (cancelled, expired)
 *
 * A job lies inside its binding and holds a reference on it while it is not IDLE, so that nothing a worker reads can
 * go. Whoever brings it to DONE answers the client: there is one way to DONE and it is taken once. */
#ifndef DAEMON_CLIENT_JOB_H
#define DAEMON_CLIENT_JOB_H

#include "daemon/queue/scheduler.h"
#include "daemon/queue/worker.h"
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

/* Who pays for the memory that its run takes, see inf_binding_charge_frame. */
enum inf_frame_charge {
	INF_FRAME_FREE,    /* nobody: the program is none of a client's own */
	INF_FRAME_COVERED, /* the program's first Method has */
	INF_FRAME_CHARGED, /* the user, while it is in flight */
};

struct inf_job {
	struct inf_item item;
	_Atomic(uint32_t) state; /* enum inf_job_state */
	uint64_t id;             /* the client's */
	uint64_t arrived_ns, started_ns, run_ns, cost_ns;
	bool has_begun;
	uint32_t n_single_core, n_all_cores; /* segments so far */
	struct inf_frame_entry *frame;
	enum inf_frame_charge frame_charge;
	struct et_run run;
	struct et_profile *profile; /* NULL: nobody wants to know */
	struct inf_worker *worker;  /* that runs it; while a delegate works elsewhere, who waits for it */
	bool is_off_home_queue;     /* in a queue where the stream does not begin */
	_Atomic(bool) is_answered;  /* by whoever sets it; else and before its end: it was given up */
};

void inf_job_init(struct inf_job *job);
/* Whose it is. */
struct inf_binding *inf_job_binding(struct inf_item *item);
/* Whether it is in flight. Loop thread. */
bool inf_job_is_busy(const struct inf_job *job);
/* Start a request. On INF_OK it is on its way and will be answered; else the caller answers. Loop thread.
 * @now_ns is when the packet came. */
enum inf_status inf_job_submit(struct inf_binding *binding, uint64_t id, const struct inf_infer *request,
	uint64_t now_ns, char *error, size_t room);
/* Take it out of the queue and answer @status and @why; if it runs, ask it to stop: it then answers CANCELLED, unless
 * it is done first. Nothing if it is IDLE. Loop thread. */
void inf_job_cancel(struct inf_binding *binding, enum inf_status status, const char *why);
/* The same for one that waits; one that runs goes on. Loop thread. */
void inf_job_stop_waiting(struct inf_binding *binding, enum inf_status status, const char *why);
/* Answer one that runs now, though its worker does not come back, and ask it to stop; what it comes to is thrown away. The
 * binding stays busy until then, and its memory in use. False: it has been answered. The caller has a reference. Loop
 * thread. */
bool inf_job_give_up(struct inf_binding *binding, enum inf_status status, const char *why);
/* Why requests of a model are refused while one of it was given up. */
extern const char inf_job_stuck_text[];
/* Answer what waited too long; when the next one will have: UINT64_MAX if none. Loop thread. */
uint64_t inf_jobs_expire(struct inf_context *context);

/* What a pool calls for a job; @self is not used. */
extern const struct inf_pool_events inf_job_events;

#endif
