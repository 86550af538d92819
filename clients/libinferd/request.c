/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: start them, wait for them, keep their results. One request at a time on a binding, any number of
 * bindings.
 *
 * inferd_infer spins before it sleeps: it polls the socket for up to 50 us, because waking a thread takes longer
 * than some models run. It spins only if the daemon needed less than that for the binding's last request, and only
 * as long as spinning pays (ipc/spin.c). The daemon spins likewise; docs/design/requests.md says why.
 *
 * A request is RUNNING from its start; whether the daemon has it says op.request_id. It waits here while the binding is
 * not restored yet, or while the daemon is not done with a request of this binding that ended here before, or has not
 * answered one of its state: so the daemon never has two of them. A request that is sent again has the shapes and
 * numbers of its start, and the rest of its time.
 *
 * Callbacks are not called here but in inferd_dispatch (operation.c). */
#include "clients/libinferd/libinferd_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A request that the daemon does not survive must not take one daemon after the other with it: systemd gives a
 * service up that has to be started too often (StartLimitBurst, 5 by default). So a request is repeated once: a
 * daemon that was killed for another reason costs nothing, and two such requests in a row leave the service running. */
enum { MOST_SENDS = 2 };

/* ---- completing a request ---- */

/* Keep the shapes and values of the outputs. False: they do not fit the Method. */
static bool take_results(struct inferd_binding *b, const struct inf_inferred *inferred)
{
	const struct inf_lib_signature *m = &b->method->is;
	if (inferred->n_outputs != 0 && inferred->n_outputs != m->n_outputs)
		return false;
	for (size_t i = 0; i < m->n_outputs; i++) {
		struct inf_lib_output *result = &b->results[i];
		const struct inferd_tensor_info *info = &m->outputs[i];
		*result = (struct inf_lib_output){ .n_dims = info->n_dims };
		memcpy(result->shape, info->shape, sizeof result->shape);
		if (!inferred->n_outputs)
			continue;
		const struct inf_output_shape *output = &inferred->outputs[i];
		result->scalar = output->scalar;
		if (!output->n_shape)
			continue;
		if (!inf_lib_shape_fits(info, output->shape, output->n_shape))
			return false;
		memcpy(result->shape, output->shape, output->n_shape * sizeof *output->shape);
	}
	return true;
}

/* Copy the profile, since the decoder reuses its memory for the next reply. If memory runs out the request has none. */
static void take_profile(struct inferd_binding *b, const struct inf_inferred *inferred)
{
	b->profile = inferred->n_profile ? malloc(inferred->n_profile) : NULL;
	b->n_profile = b->profile ? inferred->n_profile : 0;
	if (b->profile)
		memcpy(b->profile, inferred->profile, b->n_profile);
}

static const char state_lost[] =
	"the state was lost with the connection, or advanced after a missed deadline: reset the Method";

/* The daemon is gone or goes. End the request, or let it wait for the next daemon: one that was sent only if the daemon
 * may compute it a second time with the same result. */
static void repeat_or_end(struct inferd_binding *b, const char *why)
{
	struct inferd *d = b->method->d;
	const struct inferd_method *m = b->method;
	bool was_sent = b->op.request_id;
	b->op.request_id = 0;
	if (b->is_cancelled)
		inf_lib_op_end(d, &b->op, -INFERD_CANCELLED, "the request was cancelled");
	else if (was_sent && (m->is.is_stateful || b->is_in_place || m->is_closed))
		inf_lib_op_end(d, &b->op, -INFERD_DISCONNECTED, why);
	else if (m->is.is_stateful && m->program->is_lost)
		inf_lib_op_end(d, &b->op, -INFERD_STATE_LOST, state_lost);
	else if (b->n_sends >= MOST_SENDS)
		inf_lib_op_end(d, &b->op, -INFERD_DISCONNECTED, "the daemon ended each time that it had the request");
}

/* Whether the daemon is still in the run of a request that it has answered, and will say when that has ended. Not if
 * the worker is stuck (INTERNAL), since it may never come back: the daemon answers a next request BUSY then. */
static bool goes_on(const struct inf_reply *reply)
{
	return reply->goes_on && (reply->status == INF_MISSED_DEADLINE || reply->status == INF_CANCELLED);
}

void inf_lib_request_disconnect(struct inferd_binding *b)
{
	repeat_or_end(b, b->method->d->error);
}

void inf_lib_request_answered(struct inferd_binding *b, const struct inf_reply *reply)
{
	struct inferd *d = b->method->d;
	if (inf_lib_leave(d, reply)) {
		b->n_sends--; /* this daemon ends for another reason */
		repeat_or_end(b, reply->error);
		return;
	}
	if (goes_on(reply))
		b->late_id = reply->id;
	b->timing = (struct inferd_timing){ 0 };
	if (reply->kind == INF_REPLY_INFERRED)
		b->timing = (struct inferd_timing){ reply->inferred.queue_ns, reply->inferred.run_ns };
	if (reply->status != INF_OK) {
		inf_lib_op_end(d, &b->op, -(int)reply->status,
			reply->error[0] ? reply->error : inferd_status_text((int)reply->status));
	} else if (reply->kind != INF_REPLY_INFERRED || !take_results(b, &reply->inferred)) {
		inf_lib_op_end(d, &b->op, -INFERD_INTERNAL, "the daemon's reply does not fit the Method");
	} else {
		take_profile(b, &reply->inferred);
		d->n_brief = 0;
		inf_lib_op_end(d, &b->op, 0, "");
	}
}

bool inf_lib_request_may_go(const struct inferd_binding *b)
{
	return b->remote.state == INF_LIB_THERE && !b->late_id &&
	       !(b->method->is.is_stateful && b->method->program->n_unanswered);
}

void inf_lib_request_settle(struct inferd_binding *b)
{
	b->method->program->n_unanswered -= b->is_unanswered;
	b->is_unanswered = false;
	b->late_id = 0;
}

/* The state of a Method that answered late has advanced, and the application was told that it had not. */
void inf_lib_request_late(struct inferd_binding *b, const struct inf_reply *reply)
{
	inf_lib_request_settle(b);
	if (goes_on(reply))
		b->late_id = reply->id;
	if (reply->status == INF_OK && b->method->is.is_stateful)
		b->method->program->is_lost = true;
}

void inf_lib_request_expire(struct inferd_binding *b)
{
	struct inferd *d = b->method->d;
	uint64_t id = b->op.request_id;
	if (!id) { /* an earlier one may still be late */
		inf_lib_op_end(d, &b->op, -INFERD_MISSED_DEADLINE,
			"the request's timeout passed before the daemon could be asked");
		return;
	}
	b->late_id = id;
	b->is_unanswered = true;
	b->method->program->n_unanswered++;
	inf_lib_op_end(d, &b->op, -INFERD_MISSED_DEADLINE,
		"the request's timeout passed, and the daemon has not answered");
	inf_lib_tell(d, &(struct inf_request){ .kind = INF_REQUEST_CANCEL, .cancel = { id } });
}

/* ---- starting a request ---- */

/* Send the request. Negative, with the sentence written: it cannot be sent. If the connection was lost meanwhile, the
 * request is as any other that was in flight: it waits, or has ended. */
static int send_request(struct inferd_binding *b)
{
	struct inferd *d = b->method->d;
	const struct inferd_request_options *options = &b->options;
	uint64_t timeout_us = options->timeout_us;
	if (timeout_us) {
		uint64_t now_ns = et_platform_now_ns(NULL);
		timeout_us = b->op.deadline_ns > now_ns + 1000 ? (b->op.deadline_ns - now_ns) / 1000 : 1;
	}
	struct inf_request request = { .kind = INF_REQUEST_INFER,
		.infer = { .binding = b->remote.id,
			.priority = (enum inf_priority)options->priority,
			.timeout_us = timeout_us,
			.n_inputs = b->has_changes ? b->method->is.n_inputs : 0,
			.inputs = b->has_changes ? b->sent : NULL,
			.profile = options->profile } };
	int rc = inf_lib_send(d, &request, NULL, 0);
	if (!rc) {
		b->n_sends++;
		b->op.request_id = request.id;
		b->method->program->has_state |= b->method->is.is_stateful;
	}
	return rc;
}

void inf_lib_request_ask(struct inferd_binding *b)
{
	struct inferd *d = b->method->d;
	int rc = send_request(b);
	if (rc && b->op.state == INF_LIB_RUNNING && d->phase == INF_LIB_READY)
		inf_lib_op_end(d, &b->op, rc, d->error);
}

/* Keep shapes and numbers as they are now: the application may set others for the next request before this one has
 * ended. */
static void keep_changes(struct inferd_binding *b)
{
	for (size_t i = 0; i < b->method->is.n_inputs; i++) {
		b->sent[i] = b->changes[i];
		if (!b->changes[i].shape)
			continue;
		memcpy(b->sent_shapes[i], b->changes[i].shape, b->changes[i].n_shape * sizeof *b->changes[i].shape);
		b->sent[i].shape = b->sent_shapes[i];
	}
}

/* Whether @b takes a request now. 0, or negative with the sentence written. */
static int check(struct inferd_binding *b)
{
	struct inferd_method *m = b->method;
	if (m->is_closed)
		return inf_lib_fail(m->d, INFERD_FAILED_PRECONDITION, "the Method is closed");
	if (b->op.state != INF_LIB_IDLE)
		return inf_lib_fail(m->d, INFERD_BUSY, "a request is already in flight on this binding");
	if (!b->is_bound)
		return inf_lib_fail(m->d, INFERD_FAILED_PRECONDITION, "the binding is not bound");
	if (m->d->phase == INF_LIB_LOST)
		return inf_lib_lost(m->d);
	if (m->is.is_stateful && m->program->is_lost)
		return inf_lib_fail(m->d, INFERD_STATE_LOST, "%s", state_lost);
	for (size_t i = 0; b->has_changes && i < m->is.n_inputs; i++)
		if (b->changes[i].scalar.kind != inf_lib_scalar_kind(&m->is.inputs[i]))
			return inf_lib_fail(m->d, INFERD_INVALID_ARGUMENT,
				"%s is a number: set it with inferd_set_scalar first", m->is.inputs[i].name);
	return 0;
}

static void deliver_done(struct inf_lib_op *op)
{
	struct inferd_binding *b = ET_CONTAINER_OF(op, struct inferd_binding, op);
	b->done(b, op->status, b->userdata);
}

static int start(struct inferd_binding *b, const struct inferd_request_options *options, inferd_done_fn done,
	void *userdata)
{
	struct inferd *d = b->method->d;
	int rc = check(b);
	if (!rc)
		rc = inf_lib_take_options(d, &b->options, sizeof b->options, options);
	if (rc)
		return rc;
	if (b->has_changes)
		keep_changes(b);
	b->done = done;
	b->userdata = userdata;
	b->n_sends = 0;
	b->is_cancelled = false;
	inf_lib_op_begin(d, &b->op, b->options.timeout_us, done ? deliver_done : NULL);
	if (d->phase == INF_LIB_READY && inf_lib_request_may_go(b)) {
		rc = send_request(b);
		if (b->op.state == INF_LIB_COMPLETED) /* the connection was lost, and the request cannot wait */
			rc = inf_lib_fail(d, -b->op.status, "%s", b->op.error);
		else if (rc && d->phase != INF_LIB_READY)
			rc = 0; /* it waits for the next daemon */
		if (rc) {
			inf_lib_op_drop(d, &b->op);
			return rc;
		}
	} else {
		inf_lib_binding_retry(b);
		inf_lib_advance(d);
	}
	free(b->profile);
	b->profile = NULL;
	b->n_profile = 0;
	return 0;
}

int inferd_infer_async(struct inferd_binding *b, const struct inferd_request_options *options, inferd_done_fn done,
	void *userdata)
{
	if (!done)
		return inf_lib_fail(b->method->d, INFERD_INVALID_ARGUMENT, "the callback is NULL");
	int rc = start(b, options, done, userdata);
	inf_lib_settle(b->method->d);
	return rc;
}

/* Poll for the reply until it arrives or the window ends. Returns whether it arrived. */
static bool spin(struct inferd_binding *b)
{
	struct inferd *d = b->method->d;
	uint64_t until_ns = et_platform_now_ns(NULL) + d->spin.window_ns;
	do {
		inf_lib_receive(d);
		if (b->op.state != INF_LIB_RUNNING)
			return true;
		inf_spin_relax();
	} while (et_platform_now_ns(NULL) < until_ns);
	return false;
}

int inferd_infer(struct inferd_binding *b, const struct inferd_request_options *options)
{
	struct inferd *d = b->method->d;
	uint64_t before_ns = b->timing.queue_ns + b->timing.run_ns;
	bool is_quick = before_ns && before_ns < INF_LIB_SPIN_NS;
	int rc = start(b, options, NULL, NULL);
	if (rc)
		return rc;
	bool spins = is_quick && inf_spin_is_due(&d->spin);
	if (is_quick)
		inf_spin_note(&d->spin, !spins || spin(b), spins);
	return inf_lib_op_wait(d, &b->op);
}

void inferd_last_timing(const struct inferd_binding *b, struct inferd_timing *ret)
{
	*ret = b->timing;
}

const void *inferd_last_profile(const struct inferd_binding *b, size_t *ret_n_bytes)
{
	*ret_n_bytes = b->n_profile;
	return b->profile;
}

int inferd_cancel(struct inferd_binding *b)
{
	struct inferd *d = b->method->d;
	if (b->op.state != INF_LIB_RUNNING || b->op.kind != INF_LIB_REQUEST)
		return 0; /* no request, or it has ended already */
	b->is_cancelled = true;
	if (!b->op.request_id) {
		inf_lib_op_end(d, &b->op, -INFERD_CANCELLED, "the request was cancelled");
		inf_lib_settle(d);
		return 0;
	}
	struct inf_request request = { .kind = INF_REQUEST_CANCEL, .cancel = { b->op.request_id } };
	int rc = inf_lib_send(d, &request, NULL, 0);
	if (b->op.state != INF_LIB_RUNNING)
		rc = 0; /* the connection was lost, which has ended the request, too */
	inf_lib_settle(d);
	return rc;
}
