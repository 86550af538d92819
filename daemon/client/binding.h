/* SPDX-License-Identifier: BSD-3-Clause */
/* Binding: a client's regions (region.h) as the inputs and outputs of a Method (method.h).
 *
 * A binding is resolved and checked once; a request on it then allocates nothing and looks nothing up. The request
 * itself (the job) is a member of the binding, since a binding has at most one request in flight.
 *
 * Any thread may hold a reference, and a worker may drop the last one; the loop thread then frees the binding
 * (inf_context_events.defer_free). */
#ifndef DAEMON_CLIENT_BINDING_H
#define DAEMON_CLIENT_BINDING_H

#include "daemon/client/job.h"
#include "daemon/client/method.h"
#include "daemon/client/region.h"
#include "ipc/message.h"

struct inf_session;

enum { INF_TENSOR_ALIGNMENT = 64 }; /* of a tensor's offset in its region */

struct inf_binding {
	struct et_ref ref;
	uint64_t id;                 /* 0 once the client has given it back */
	struct inf_session *session; /* a reference */
	struct inf_method *method;   /* a reference */
	struct inf_quota_user *user;
	struct inf_client_region *
		*regions; /* references, one for each input, then one for each output; NULL: not a tensor */
	uint32_t n_regions;
	bool has_dma_buf;                /* some region is a dma-buf */
	struct et_io *bound;             /* inputs, then outputs, as bound */
	struct et_io *io;                /* the same for the present request; the run writes here */
	size_t *room;                    /* bytes behind each of them */
	struct inf_output_shape *shapes; /* for the reply; NULL: every output is a static tensor */
	int64_t (*dims)[INF_MAX_DIMS];
	uint32_t n_inputs, n_outputs;
	uint32_t n_zero_copy, n_copied;
	struct inf_job job;
	struct inf_binding *next_deferred; /* the loop's list of those to be freed */
};

/* Check every slot and make a binding with one reference; it references what it uses. The caller has charged a
 * binding to the session's user, and this call takes that charge over in any case. NULL and *ret_refusal, whose
 * sentence names the slot, otherwise. Loop thread. */
struct inf_binding *inf_binding_new(struct inf_session *session, struct inf_method *method,
	const struct inf_bind *request, struct inf_refusal *ret_refusal);
/* Set the io array to what was bound, then to the shapes and numbers of @request. False and a sentence. Loop thread. */
bool inf_binding_apply(struct inf_binding *binding, const struct inf_infer *request, struct inf_refusal *ret_refusal);
/* Call it before a request: charge the frame of its run, which the run keeps even while it is interrupted. A
 * client's own program was charged for one frame for each worker with its first Method; frames beyond those are
 * charged to the user. False and a sentence in @why, of @room bytes. Loop thread. */
bool inf_binding_charge_frame(struct inf_binding *binding, char *why, size_t room);
/* The request has ended and its frame was given back. Any thread. */
void inf_binding_discharge_frame(struct inf_binding *binding);
struct inf_binding *inf_binding_ref(struct inf_binding *binding);
/* NULL is fine. Any thread. */
void inf_binding_unref(struct inf_binding *binding);
/* The same on the loop thread: if this was the last reference, the binding is freed at once. */
void inf_binding_drop(struct inf_binding *binding);
/* Free it. There is no reference any more. Loop thread. */
void inf_binding_free(struct inf_binding *binding);
/* Around a run: begin and end the processor's access to regions that are dma-bufs, waiting for devices until @until_ns.
 * -ETIMEDOUT or another negative errno, with no access begun. Any thread. */
int inf_binding_begin_access(const struct inf_binding *binding, uint64_t until_ns);
void inf_binding_end_access(const struct inf_binding *binding);
/* A region of the binding whose memory is gone; NULL: none. Any thread. */
const struct inf_client_region *inf_binding_faulted(const struct inf_binding *binding);

#endif
