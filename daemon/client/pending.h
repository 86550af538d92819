/* SPDX-License-Identifier: BSD-3-Clause */
/* Pending: a request whose answer comes later, because it waits for a model, for the folder, or for a large state.
 *
 * Loop thread only. */
#ifndef DAEMON_CLIENT_PENDING_H
#define DAEMON_CLIENT_PENDING_H

#include "daemon/base/helper.h"
#include "daemon/client/method.h"
#include "daemon/client/session.h"
#include "daemon/model/repository.h"

struct inf_pending {
	struct et_list_node node;    /* in the session's opens */
	struct inf_session *session; /* NULL: given up; only free this when its step comes back */
	uint64_t id;                 /* of the request */
	struct inf_quota_user *user; /* a reference, and charged: an open */
	struct inf_open open;
	bool is_open;   /* the repository has `open` */
	bool has_state; /* of method: it was made */
	/* An index: only models that are ready. */
	bool only_ready;
	/* A Method to be opened: the client asked for its backend; a reference to the Method to share with; and
	 * what was charged: descriptors, and unless the new Method has taken them over, a Method, its bytes, and a
	 * reference to user. */
	bool wants_backend, has_charge;
	struct inf_method *with;
	uint64_t n_charged_bytes, n_charged_fds;
	/* A Method whose large state is being made or reset: a reference, and the step on a helper's thread. */
	struct inf_method *method;
	struct inf_work work;
	struct inf_refusal refusal; /* why the state could not be made */
	struct inf_model *model;    /* a reference: the model that is described, or open.beside */
	/* A restart: whose processes are to end. */
	const struct et_backend_entry *backend;
};

/* A new one in the list of @session. NULL: the user's limit or the memory does not allow it, and the request was
 * refused. */
struct inf_pending *inf_pending_new(struct inf_session *session, uint64_t id);
/* Free it with what it was charged, except for the reference to its method. */
void inf_pending_free(struct inf_pending *pending);
/* Ask the repository for a model; pending->open has the rest of what is asked. @done is called once, perhaps before
 * this returns, even if the request was given up meanwhile. @fd is consumed. */
void inf_pending_ask(struct inf_pending *pending, const char *model, const char *version, const char *method,
	const char *backend, int fd,
	void (*done)(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *model));
/* Give it up: the request is not answered any more. The repository may call `done` inside. */
void inf_pending_give_up(struct inf_pending *pending);

#endif
