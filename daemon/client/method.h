/* SPDX-License-Identifier: BSD-3-Clause */
/* Method: one client's instance of a model's Method, with its state.
 *
 * Loop thread only, except for what is marked otherwise. */
#ifndef DAEMON_CLIENT_METHOD_H
#define DAEMON_CLIENT_METHOD_H

#include "daemon/client/quota.h"
#include "daemon/model/model.h"
#include "daemon/queue/scheduler.h"
#include "ipc/message.h"

#include <stdatomic.h>
#include <stdbool.h>

struct inf_context;

struct inf_method {
	uint64_t id;
	uint32_t n_refs;
	struct inf_context *context;
	struct inf_model *model;
	struct et_method *method;
	/* The Method whose state this one shares, a reference; itself if it has its own state. For the queues, all
	 * Methods that share a state are one: the members of the first one up to is_suspended count for all of
	 * them, and its stream begins on the queue where its own runs begin. */
	struct inf_method *first;
	struct inf_stream stream;  /* under the queue's lock */
	_Atomic(uint32_t) n_jobs;  /* in flight, those included whose binding was given back */
	_Atomic(uint32_t) n_stuck; /* of n_jobs: given up, but a worker is still in it */
	uint32_t n_sharing; /* other Methods that share this state; as long as there are any it keeps its model */
	bool is_suspended;  /* beside the loop its state is being reset or made anew: no requests meanwhile */
	bool is_changing;   /* is_suspended because it moves to another model */
	bool wants_backend; /* the client asked for this backend: it never moves */
	_Atomic(bool) wants_to_move; /* to its model's successor, when its last request has ended */
	/* A reset that waits for the move: called once when that is over, whatever became of it. NULL: none waits. */
	void (*begin_reset)(void *arg);
	void *begin_reset_arg;
	/* Charged: a Method, its state if that is its own, the files of a client's own program. */
	struct inf_quota_user *user;
	uint64_t n_uploaded_bytes, n_state_bytes;
};

/* Why something could not be made. */
struct inf_refusal {
	enum inf_status status;
	char text[800];
};
/* Fill in @refusal. Returns false. */
bool inf_refuse(struct inf_refusal *refusal, enum inf_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* A client's own program is about to get its instances: charge @user for @n_bytes, all that @model takes but its files,
 * until that memory is free. False with a sentence in @why, of @room bytes. */
bool inf_method_charge_load(struct inf_quota_user *user, struct inf_model *model, uint64_t n_bytes, char *why,
	size_t room);
/* A Method of @model, which must be READY. It has no state yet: call inf_method_make_state before anything else.
 * @user is charged already for the Method and its files (@n_uploaded_bytes); this call charges the state and, for
 * the first Method of a client's own program, corrects what inf_method_charge_load has charged. On success the Method
 * owns those charges and a reference to @user. NULL and *ret_refusal otherwise: the earlier charges and the
 * reference stay the caller's. @with: NULL, or a Method of the same connection and file whose state the new one
 * shares; it is referenced. */
struct inf_method *inf_method_new(struct inf_context *context, struct inf_model *model, struct inf_quota_user *user,
	uint64_t n_uploaded_bytes, struct inf_method *with, struct inf_refusal *ret_refusal);
/* NULL is fine; returns NULL. With the last reference the charges are given back, some of them after a helper's
 * thread has freed the memory. */
struct inf_method *inf_method_unref(struct inf_method *method);
/* Allocate the state. Any thread; nothing else may use the Method meanwhile. False and *ret_refusal: no memory. */
bool inf_method_make_state(struct inf_method *method, struct inf_refusal *ret_refusal);
/* Whether making or resetting the state of a Method of @model takes too long for the loop. */
bool inf_method_begins_long(const struct inf_model *model);

/* A Method moves to the successor of its model (daemon/model/fallback.h) when its last request in flight has ended,
 * or at once when it is idle, and keeps its bindings. It stays if its client asked for the backend, if it shares a
 * state, or if it has a valid state that a better variant does not. A model with damaged weights is left also with a
 * state, which is then lost, and for the same backend. */
/* Whether requests of @method have to wait: its model has damaged weights, and a load in its place is on its way or is
 * there, and @method has not moved to it yet. */
bool inf_method_waits_for_weights(const struct inf_method *method);

/* A request of @first (inf_method.first), or other work that kept it at its model, has ended. The last one lets it
 * move: the loop is told. Any thread that keeps @first; afterwards its model may be another one. */
void inf_method_job_ended(struct inf_method *first);
/* A Method that waits to move may be idle, or a successor was found: have the loop look. @context is the struct
 * inf_context. Any thread. */
void inf_methods_note_idle(void *context);
/* Move @method if it is idle; else note that it waits. Where its new state is large it is suspended meanwhile. */
void inf_method_move_if_idle(struct inf_method *method);
/* Whether @method will move when its requests in flight have ended. */
bool inf_method_waits_to_move(const struct inf_method *method);

#endif
