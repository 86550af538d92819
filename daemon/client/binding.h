/* SPDX-License-Identifier: BSD-3-Clause */
/* What a client holds: Methods, and bindings of regions (region.h) to them.
 *
 * A binding is resolved and checked once; after that a request on it takes no memory and looks nothing up. The
 * request itself (the job) lies inside the binding, since there is at most one in flight.
 *
 * Methods are counted on the loop thread alone. A binding is counted by any thread, because a worker may
 * be the last to let it go; its memory is then given back by the loop (inf_server_defer_free). */
#ifndef DAEMON_CLIENT_BINDING_H
#define DAEMON_CLIENT_BINDING_H

#include "daemon/client/region.h"
#include "daemon/client/job.h"
#include "daemon/client/quota.h"
#include "daemon/model/model.h"
#include "ipc/message.h"

struct inf_session;
struct inf_server;
struct pending;

struct inf_method {
	uint64_t id;
	uint32_t n_refs;
	struct inf_model *model;
	struct et_method *method;
	/* Whose state it shares, a reference; itself where it has its own. Those that share one are as one Method to the queues:
	 * of that first one, what is below up to is_suspended counts for all, and its stream begins where its own runs do. */
	struct inf_method *first;
	struct inf_stream stream;    /* under the queue's lock */
	_Atomic(uint32_t) n_jobs;    /* in flight, also those whose binding was given back */
	_Atomic(uint32_t) n_stuck;   /* of them: given up, but a worker is still in it */
	uint32_t n_sharing;          /* others that share its state; none of them changes to another variant */
	_Atomic(bool) wants_to_move; /* to its model's successor, when its last request has ended (model/fallback.h) */
	/* Its state is being reset, or made anew for another variant, beside the loop: no requests meanwhile. */
	bool is_suspended;
	struct inf_server *server;
	bool wants_backend;          /* the client asked for this very one */
	bool is_changing;            /* is_suspended, for another variant */
	struct pending *reset;       /* that a client asked for meanwhile; NULL: none. requests.c's */
	struct inf_quota_user *user; /* charged: a Method, its state if not another's, a foreign program's bytes */
	uint64_t n_uploaded_bytes, n_state_bytes;
};

struct inf_binding {
	struct et_ref ref;
	uint64_t id; /* 0 once the client has given it back */
	struct inf_session *session;
	struct inf_method *method;
	struct inf_quota_user *user;
	struct inf_client_region **regions; /* one an input, then one an output; NULL: none */
	uint32_t n_regions;
	bool has_dma_buf;                /* among them */
	struct et_io *bound;             /* inputs, then outputs, as bound */
	struct et_io *io;                /* the same for the request at hand; the run writes here */
	size_t *room;                    /* bytes behind each */
	struct inf_output_shape *shapes; /* for the reply; NULL: every output is a static tensor */
	int64_t (*dims)[INF_MAX_DIMS];
	uint32_t n_inputs, n_outputs;
	uint32_t n_zero_copy, n_copied;
	struct inf_job job;
	struct inf_binding *next_deferred;
};

/* Why something could not be made. */
struct inf_refusal {
	enum inf_status status;
	char text[800];
};

/* NULL is fine; returns NULL. */
struct inf_method *inf_method_unref(struct inf_method *method);

/* A Method on @serving, which must be READY; charged already but for its state and what the runs of a foreign program
 * take, and taken over with the user's reference on success. It has no state yet: inf_method_make_state, before anything
 * else. NULL and *ret_refusal otherwise.
 * @with: NULL, or another one of the same connection and file, whose state it is to share; it takes a reference. */
struct inf_method *inf_method_new(struct inf_server *server, struct inf_model *model, struct inf_quota_user *user,
	uint64_t n_uploaded_bytes, struct inf_method *with, struct inf_refusal *ret_refusal);
/* Any thread; nothing else may use the Method meanwhile. False and *ret_refusal: no memory. */
bool inf_method_make_state(struct inf_method *method, struct inf_refusal *ret_refusal);
/* Before a state as @to has it is made for it: charge what that takes more. False and *ret_refusal: no room, or the user's
 * limit. */
bool inf_method_charge_change(struct inf_method *method, const struct inf_model *to, struct inf_refusal *ret_refusal);
/* After that: @state in place of its own, marked as lost; or NULL, it could not be made. What is too much of the charge is
 * given back. None of its requests is in flight. */
void inf_method_change_state(struct inf_method *method, const struct inf_model *to, struct et_method *state);
/* Whether giving a Method its state, when it is made or reset, takes so long that it is not for the loop. */
bool inf_method_begins_long(const struct inf_model *model);

/* Check every slot and make the binding, with one reference; it takes references on what it uses. NULL and
 * *ret_refusal with a sentence that names the slot. The caller has charged a binding to the session's user; the
 * binding gives it back when it goes. */
struct inf_binding *inf_binding_new(struct inf_session *session, struct inf_method *method,
	const struct inf_bind *request, struct inf_refusal *ret_refusal);
/* Put the io arrays back to what was bound, with the shapes and numbers of @request on top. False and a sentence. */
bool inf_binding_apply(struct inf_binding *binding, const struct inf_infer *request, struct inf_refusal *ret_refusal);
/* Before a request on it: a run that is interrupted keeps its frame, so each in flight may come to hold one. Those of a
 * client's own program beyond the number of workers, for which its first Method was charged, are charged to the user.
 * False and a sentence in @why, of @room bytes. Loop thread. */
bool inf_binding_charge_frame(struct inf_binding *binding, char *why, size_t room);
/* The request has ended and its frame was given back. Any thread. */
void inf_binding_discharge_frame(struct inf_binding *binding);
struct inf_binding *inf_binding_ref(struct inf_binding *binding);
/* Any thread. */
void inf_binding_unref(struct inf_binding *binding);
/* The same on the loop thread: what it held is given back at once if this was the last reference. */
void inf_binding_drop(struct inf_binding *binding);
/* The last step, on the loop thread. */
void inf_binding_free(struct inf_binding *binding);
/* Around a run: let the processor at regions that are dma-bufs, waiting for devices until @until_ns. -ETIMEDOUT or
 * another negative errno, with nothing begun: one of them does not let it. Any thread. */
int inf_binding_begin_access(const struct inf_binding *binding, uint64_t until_ns);
void inf_binding_end_access(const struct inf_binding *binding);
/* A region it uses whose memory is gone; NULL: all are well. Any thread. */
const struct inf_client_region *inf_binding_faulted(const struct inf_binding *binding);

#endif
